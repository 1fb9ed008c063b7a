#!json
{
  "nginx": {"pkg.installed": []},
}

//! apk: Alpine.

use zagent_config::FunctionError;

use super::{
    AvailablePkg, AvailablePkgs, PkgAction, PkgActionOptions, PkgChange, PkgDb, PkgProvider, db,
    listed_files, owner_from_output, to_strings,
};
use crate::{Machine, Tools};

pub struct Apk;

impl PkgProvider for Apk {
    fn name(&self) -> &'static str {
        "apk"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["apkpkg"]
    }

    fn os_ids(&self) -> &'static [&'static str] {
        &["alpine"]
    }

    fn program_names(&self) -> &'static [&'static str] {
        &["apk"]
    }

    fn database_files(&self) -> &'static [&'static str] {
        &["/lib/apk/db/installed", "/usr/lib/apk/db/installed"]
    }

    fn read_db(&self, machine: &Machine) -> Result<PkgDb, FunctionError> {
        let mut text = None;
        for file in self.database_files() {
            text = text.or(machine.read(file)?);
        }
        Ok(db::parse_apk_db(&text.unwrap_or_default()))
    }

    fn command_lines(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![command_line(program, action)?])
    }

    fn dry_run_command(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
        let mut line = command_line(program, action)?;
        line.insert(2, "--simulate".into());
        Some(line)
    }

    fn parse_dry_run(&self, output: &str) -> Vec<PkgChange> {
        output.lines().filter_map(parse_step).collect()
    }

    fn query_available(
        &self,
        tools: &Tools<'_>,
        names: &[String],
        _: &PkgActionOptions,
    ) -> Result<AvailablePkgs, FunctionError> {
        let mut line = to_strings(&["policy"]);
        line.extend(names.iter().cloned());
        Ok(parse_policy(&tools.run_query("apk", &line)?.stdout))
    }

    fn needs_refresh(&self, machine: &Machine) -> bool {
        let has = |dir: &str| machine.list_dir(dir).iter().any(|n| n.starts_with("APKINDEX"));
        !has("/var/cache/apk") && !has("/etc/apk/cache")
    }

    fn os_family(&self) -> &'static str {
        "Alpine"
    }

    fn file_owner(&self, machine: &Machine, path: &str) -> Result<String, FunctionError> {
        Ok(owner_from_output(&Tools::new(machine).run_query("apk", &["info", "-q", "--who-owns", path])?))
    }

    fn package_files(&self, machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
        Ok(listed_files(&Tools::new(machine).run_query("apk", &["info", "-q", "-L", name])?))
    }
}

fn command_line(program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
    let mut line = to_strings(&[program, "--no-interactive"]);
    match action {
        PkgAction::Refresh => line.push("update".into()),
        PkgAction::Install(targets, options) => {
            line.push(if options.reinstall { "fix" } else { "add" }.into());
            line.extend(options.skip_verify.then(|| "--allow-untrusted".to_owned()));
            line.extend(options.fromrepo.iter().flat_map(|r| ["--repository".to_owned(), r.clone()]));
            line.extend(options.download_only.then(|| "--cache-only".to_owned()));
            line.extend(targets.iter().map(|t| t.spec("=")));
        }
        PkgAction::Upgrade(names, _) => {
            line.extend(if names.is_empty() {
                to_strings(&["upgrade"])
            } else {
                to_strings(&["add", "--upgrade"])
            });
            line.extend(names.iter().cloned());
        }
        PkgAction::Remove(names, purge) => {
            line.push("del".into());
            line.extend(purge.then(|| "--purge".to_owned()));
            line.extend(names.iter().cloned());
        }
        PkgAction::Hold(_) | PkgAction::Unhold(_) | PkgAction::Autoremove(_) => return None,
    }
    Some(line)
}

/// `(1/2) Installing vim (9.0-r0)`, `(2/2) Upgrading zlib (1.2-r0 -> 1.3-r0)`, `(1/1) Purging vim (9.0-r0)`.
fn parse_step(line: &str) -> Option<PkgChange> {
    let rest = line.strip_prefix('(')?.split_once(") ")?.1;
    let (verb, rest) = rest.split_once(' ')?;
    let (name, versions) = rest.split_once(" (")?;
    let versions = versions.strip_suffix(')')?;
    let (old, new) = match verb {
        "Installing" => ("", versions),
        "Upgrading" | "Downgrading" | "Replacing" | "Re-installing" => {
            versions.split_once(" -> ").unwrap_or((versions, versions))
        }
        "Purging" => (versions, ""),
        _ => return None,
    };
    Some(PkgChange { name: name.into(), old: old.into(), new: new.into() })
}

/// `vim policy:`, then `  9.0-r0:` for each version, the newest last, with its places below.
pub fn parse_policy(output: &str) -> AvailablePkgs {
    let mut all = AvailablePkgs::new();
    let mut current: Option<(String, AvailablePkg)> = None;
    let mut version = "";
    for line in output.lines() {
        if let Some(name) = line.strip_suffix(" policy:") {
            all.extend(current.take());
            current = Some((name.to_owned(), AvailablePkg::default()));
        } else if let Some(found) = line.strip_prefix("  ").filter(|l| !l.starts_with(' ')) {
            version = found.trim_end_matches(':');
        } else if let Some((_, offer)) = &mut current
            && !line.contains("lib/apk/db/installed")
            && !offer.versions.iter().any(|v| v == version)
        {
            offer.versions.insert(0, version.to_owned());
            version.clone_into(&mut offer.candidate);
        }
    }
    all.extend(current);
    all
}

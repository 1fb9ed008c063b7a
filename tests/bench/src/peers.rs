//! Other programs, when they are installed: Salt on the same tree, CFEngine on promises with the same meaning.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::trees::TestTree;

/// A program found in PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Arguments for `salt-call`; everything that it writes is below the root of the tree.
pub fn salt_args(tree: &TestTree) -> Result<Vec<String>> {
    let root = tree.root.display();
    let conf = tree.root.join("salt");
    fs::create_dir_all(&conf)?;
    let text = format!(
        "root_dir: {root}/salt\npki_dir: {root}/salt/pki\ncachedir: {root}/salt/cache\nlog_file: {root}/salt/log\n\
         file_client: local\nid: bench\nautoload_dynamic_modules: False\nfile_roots:\n  base: [{root}/states]\n\
         pillar_roots:\n  base: [{root}/pillar]\nlog_level_logfile: quiet\n"
    );
    fs::write(conf.join("minion"), text)?;
    let args = ["--local", "-c", &conf.to_string_lossy(), "--log-level=quiet", "--out=json", "state.apply"];
    Ok(args.map(str::to_owned).to_vec())
}

/// Arguments for `cf-agent`: the files of the tree as promises.
pub fn cfengine_args(tree: &TestTree, root: &Path) -> Result<Vec<String>> {
    let mut text = "body common control { bundlesequence => { \"main\" }; }\n\
                    body perms mm(m) { mode => \"$(m)\"; rxdirs => \"false\"; }\nbundle agent main {\nfiles:\n"
        .to_owned();
    for dir in tree.dirs() {
        let _ = writeln!(text, "  \"{}/.\" create => \"true\", perms => mm(\"0755\");", dir.display());
    }
    for (path, content) in tree.files() {
        let path = path.display();
        let _ = writeln!(
            text,
            "  \"{path}\" create => \"true\", perms => mm(\"0644\"), content => \"{content}\";"
        );
    }
    text.push_str("}\n");
    let path = tree.root.join("promises.cf");
    fs::write(&path, text)?;
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    fs::create_dir_all(root.join("cfengine"))?;
    Ok(vec!["-K".into(), "-f".into(), path.to_string_lossy().into_owned()])
}

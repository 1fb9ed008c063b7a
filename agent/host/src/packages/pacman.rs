//! pacman: Arch and what derives from it.

use zagent_config::FunctionError;

use super::{
    AvailablePkg, AvailablePkgs, FileVersionCommand, PkgAction, PkgActionOptions, PkgChange, PkgDb,
    PkgProvider, db, listed_files, owner_from_output, to_strings,
};
use crate::{Machine, Tools};

pub(crate) struct Pacman;

const LOCAL_DB: &str = "/var/lib/pacman/local";

impl PkgProvider for Pacman {
    fn name(&self) -> &'static str {
        "pacman"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["pacmanpkg"]
    }

    fn os_ids(&self) -> &'static [&'static str] {
        &["arch"]
    }

    fn program_names(&self) -> &'static [&'static str] {
        &["pacman"]
    }

    fn database_files(&self) -> &'static [&'static str] {
        &[LOCAL_DB]
    }

    fn read_db(&self, machine: &Machine) -> Result<PkgDb, FunctionError> {
        Ok(db::parse_pacman_dirs(&machine.list_dir(LOCAL_DB)))
    }

    fn command_lines(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![command_line(program, action)?])
    }

    fn dry_run_command(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
        let (format, mut line) = match action {
            PkgAction::Install(..) | PkgAction::Upgrade(..) => ("+ %n %v", command_line(program, action)?),
            // `--nosave` and `--print` may not be used together.
            PkgAction::Remove(names, _) => {
                ("- %n %v", command_line(program, &PkgAction::Remove(names, false))?)
            }
            _ => return None,
        };
        line.splice(2..2, to_strings(&["--print", "--print-format", format]));
        Some(line)
    }

    fn parse_dry_run(&self, output: &str) -> Vec<PkgChange> {
        let one = |line: &str| {
            // Other lines tell what it is busy with.
            let (sign, rest) = line.split_once(' ').filter(|(sign, _)| matches!(*sign, "+" | "-"))?;
            let (name, version) = rest.split_once(' ')?;
            let (old, new) = if sign == "-" { (version, "") } else { ("", version) };
            Some(PkgChange { name: name.into(), old: old.into(), new: new.into() })
        };
        output.lines().filter_map(one).collect()
    }

    fn query_available(
        &self,
        tools: &Tools<'_>,
        names: &[String],
        options: &PkgActionOptions,
    ) -> Result<AvailablePkgs, FunctionError> {
        let mut line = to_strings(&["-Si", "--"]);
        line.extend(names.iter().map(|name| repo_qualified(name, options)));
        // It ends with 1 when it does not know one of them.
        Ok(parse_info(&tools.run_query("pacman", &line)?.stdout))
    }

    fn needs_refresh(&self, machine: &Machine) -> bool {
        !machine.list_dir("/var/lib/pacman/sync").iter().any(|n| n.ends_with(".db"))
    }

    fn file_owner(&self, machine: &Machine, path: &str) -> Result<String, FunctionError> {
        Ok(owner_from_output(&Tools::new(machine).run_query("pacman", &["-Qqo", path])?))
    }

    fn package_files(&self, machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
        Ok(listed_files(&Tools::new(machine).run_query("pacman", &["-Qql", name])?))
    }

    fn file_version_command(&self, _: &Tools<'_>) -> Option<FileVersionCommand> {
        // It tells the name first.
        Some(|path| to_strings(&["pacman", "-Qp", "--", path]))
    }
}

fn command_line(program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
    let mut line = vec![program.to_owned()];
    match action {
        PkgAction::Refresh => line.extend(to_strings(&["-Sy", "--noconfirm"])),
        PkgAction::Install(targets, options) => {
            let is_file = targets.iter().any(|t| t.file.is_some());
            line.extend(to_strings(&[if is_file { "-U" } else { "-S" }, "--noconfirm"]));
            line.extend(options.download_only.then(|| "--downloadonly".to_owned()));
            line.extend((!options.reinstall).then(|| "--needed".to_owned()));
            // A repository has one version of a package: there is nothing to choose from.
            line.extend(
                targets.iter().map(|t| t.file.clone().unwrap_or_else(|| repo_qualified(&t.name, options))),
            );
        }
        PkgAction::Upgrade(names, _) => {
            let verb = if names.is_empty() { "-Su" } else { "-S" };
            line.extend(to_strings(&[verb, "--noconfirm"]));
            // What is as new as it could be would be brought once more.
            line.extend((!names.is_empty()).then(|| "--needed".to_owned()));
            line.extend(names.iter().cloned());
        }
        PkgAction::Remove(names, purge) => {
            line.extend(to_strings(&[if *purge { "-Rn" } else { "-R" }, "--noconfirm"]));
            line.extend(names.iter().cloned());
        }
        PkgAction::Hold(_) | PkgAction::Unhold(_) | PkgAction::Autoremove(_) => return None,
    }
    Some(line)
}

/// A name, in the repository that is asked for.
fn repo_qualified(name: &str, options: &PkgActionOptions) -> String {
    options.fromrepo.as_ref().map_or_else(|| name.to_owned(), |repo| format!("{repo}/{name}"))
}

/// Blocks of `Name : vim` and `Version : 9.0-1`.
pub(crate) fn parse_info(output: &str) -> AvailablePkgs {
    let mut all = AvailablePkgs::new();
    for block in output.split("\n\n") {
        let field = |key: &str| {
            block.lines().find_map(|l| {
                let (k, v) = l.split_once(" : ")?;
                (k.trim() == key).then(|| v.trim().to_owned())
            })
        };
        if let (Some(name), Some(version)) = (field("Name"), field("Version")) {
            all.entry(name)
                .or_insert_with(|| AvailablePkg { candidate: version.clone(), versions: vec![version] });
        }
    }
    all
}

//! pacman: Arch and its kin.

use zagent_compiler::functions::Refusal;

use super::{Act, Db, Offer, Offers, Options, Provider, Step, db, words};
use crate::host::{Machine, Tools};

pub(super) struct Pacman;

const LOCAL: &str = "/var/lib/pacman/local";

impl Provider for Pacman {
    fn name(&self) -> &'static str {
        "pacman"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["pacmanpkg"]
    }

    fn kin(&self) -> &'static [&'static str] {
        &["arch"]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["pacman"]
    }

    fn witnesses(&self) -> &'static [&'static str] {
        &[LOCAL]
    }

    fn read(&self, machine: &Machine) -> Result<Db, Refusal> {
        Ok(db::pacman(&machine.names(LOCAL)))
    }

    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![line(program, act)?])
    }

    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>> {
        let (format, mut line) = match act {
            Act::Install(..) | Act::Upgrade(..) => ("+ %n %v", line(program, act)?),
            // `--nosave` and `--print` may not be used together.
            Act::Remove(names, _) => ("- %n %v", line(program, &Act::Remove(names, false))?),
            _ => return None,
        };
        line.splice(2..2, words(&["--print", "--print-format", format]));
        Some(line)
    }

    fn steps(&self, said: &str) -> Vec<Step> {
        let one = |line: &str| {
            // Other lines tell what it is busy with.
            let (sign, rest) = line.split_once(' ').filter(|(sign, _)| matches!(*sign, "+" | "-"))?;
            let (name, version) = rest.split_once(' ')?;
            let (old, new) = if sign == "-" { (version, "") } else { ("", version) };
            Some(Step { name: name.into(), old: old.into(), new: new.into() })
        };
        said.lines().filter_map(one).collect()
    }

    fn offers(&self, tools: &Tools<'_>, names: &[String], options: &Options) -> Result<Offers, Refusal> {
        let mut line = words(&["-Si", "--"]);
        line.extend(names.iter().map(|name| in_repo(name, options)));
        // It ends with 1 when it does not know one of them.
        Ok(told(&tools.ask("pacman", &line)?.out))
    }

    fn is_blank(&self, machine: &Machine) -> bool {
        !machine.names("/var/lib/pacman/sync").iter().any(|n| n.ends_with(".db"))
    }
}

fn line(program: &str, act: &Act<'_>) -> Option<Vec<String>> {
    let mut line = vec![program.to_owned()];
    match act {
        Act::Refresh => line.extend(words(&["-Sy", "--noconfirm"])),
        Act::Install(targets, options) => {
            let is_file = targets.iter().any(|t| t.file.is_some());
            line.extend(words(&[if is_file { "-U" } else { "-S" }, "--noconfirm"]));
            line.extend(options.download.then(|| "--downloadonly".to_owned()));
            line.extend((!options.reinstall).then(|| "--needed".to_owned()));
            // A repository has one version of a package: there is nothing to choose from.
            line.extend(targets.iter().map(|t| t.file.clone().unwrap_or_else(|| in_repo(&t.name, options))));
        }
        Act::Upgrade(names, _) => {
            let verb = if names.is_empty() { "-Su" } else { "-S" };
            line.extend(words(&[verb, "--noconfirm"]));
            // What is as new as it could be would be brought once more.
            line.extend((!names.is_empty()).then(|| "--needed".to_owned()));
            line.extend(names.iter().cloned());
        }
        Act::Remove(names, purge) => {
            line.extend(words(&[if *purge { "-Rn" } else { "-R" }, "--noconfirm"]));
            line.extend(names.iter().cloned());
        }
        Act::Hold(_) | Act::Unhold(_) | Act::Autoremove(_) => return None,
    }
    Some(line)
}

/// A name, in the repository that is asked for.
fn in_repo(name: &str, options: &Options) -> String {
    options.fromrepo.as_ref().map_or_else(|| name.to_owned(), |repo| format!("{repo}/{name}"))
}

/// Blocks of `Name : vim` and `Version : 9.0-1`.
pub(super) fn told(said: &str) -> Offers {
    let mut all = Offers::new();
    for block in said.split("\n\n") {
        let field = |key: &str| {
            block.lines().find_map(|l| {
                let (k, v) = l.split_once(" : ")?;
                (k.trim() == key).then(|| v.trim().to_owned())
            })
        };
        if let (Some(name), Some(version)) = (field("Name"), field("Version")) {
            all.entry(name).or_insert_with(|| Offer { candidate: version.clone(), versions: vec![version] });
        }
    }
    all
}

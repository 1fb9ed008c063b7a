//! zypper: SUSE and its kin.

use zagent_compiler::functions::Refusal;

use super::{Act, Db, Offers, Options, Provider, Step, dnf, words};
use crate::host::{Machine, Tools};

pub(super) struct Zypper;

impl Provider for Zypper {
    fn name(&self) -> &'static str {
        "zypper"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["zypperpkg"]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["zypper"]
    }

    fn witnesses(&self) -> &'static [&'static str] {
        &dnf::RPM
    }

    fn read(&self, machine: &Machine) -> Result<Db, Refusal> {
        dnf::read_rpm(machine)
    }

    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![line(program, act)?])
    }

    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>> {
        let mut line = line(program, act)?;
        if !matches!(act, Act::Install(..) | Act::Remove(..) | Act::Upgrade(..)) {
            return None;
        }
        let verb = line.iter().position(|w| matches!(w.as_str(), "install" | "remove" | "update"))?;
        line.splice(verb + 1..=verb, words(&["--dry-run", "--details"]));
        Some(line)
    }

    fn steps(&self, said: &str) -> Vec<Step> {
        steps(said)
    }

    fn offers(&self, tools: &Tools<'_>, names: &[String], _: &Options) -> Result<Offers, Refusal> {
        let mut line = words(&["-n", "-q", "--no-refresh", "search", "-s", "-t", "package", "--match-exact"]);
        line.extend(names.iter().cloned());
        // It ends with 104 when it knows none of them.
        Ok(found(&tools.ask("zypper", &line)?.out, self))
    }
}

fn line(program: &str, act: &Act<'_>) -> Option<Vec<String>> {
    let mut line = words(&[program, "-n"]);
    match act {
        Act::Refresh => line.push("refresh".into()),
        Act::Install(targets, options) => {
            line.extend(options.skip_verify.then(|| "--no-gpg-checks".to_owned()));
            line.extend(words(&["install", "--auto-agree-with-licenses", "--name"]));
            line.extend(options.fromrepo.iter().flat_map(|r| ["--from".to_owned(), r.clone()]));
            line.extend(options.download.then(|| "--download-only".to_owned()));
            line.extend((options.reinstall || options.force).then(|| "--force".to_owned()));
            line.extend((options.downgrade && !options.reinstall).then(|| "--oldpackage".to_owned()));
            line.extend(
                options
                    .recommends
                    .map(|yes| if yes { "--recommends".to_owned() } else { "--no-recommends".to_owned() }),
            );
            line.extend(targets.iter().map(|t| t.text("=")));
        }
        Act::Upgrade(names, options) => {
            line.push(if options.dist_upgrade { "dist-upgrade" } else { "update" }.into());
            line.push("--auto-agree-with-licenses".into());
            line.extend(names.iter().cloned());
        }
        Act::Remove(names, _) => {
            line.push("remove".into());
            line.extend(names.iter().cloned());
        }
        Act::Hold(names) => {
            line.push("addlock".into());
            line.extend(names.iter().cloned());
        }
        Act::Unhold(names) => {
            line.push("removelock".into());
            line.extend(names.iter().cloned());
        }
        Act::Autoremove(_) => return None,
    }
    Some(line)
}

/// What `--details` lists: `  vim  9.0-1.1  x86_64  repo` below a headline, and `  vim  8.0 -> 9.0` for what changes.
fn steps(said: &str) -> Vec<Step> {
    let mut comes = None;
    let mut all = Vec::new();
    for line in said.lines() {
        if !line.starts_with(' ') {
            comes = match line {
                l if !l.starts_with("The following") => None,
                l if l.contains("REMOVED") => Some(false),
                l => (l.contains("install") || l.contains("upgrade")).then_some(true),
            };
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(comes), [name, first, rest @ ..]) = (comes, &words[..]) else { continue };
        let (old, new) = match rest {
            ["->", new, ..] => (*first, *new),
            _ if comes => ("", *first),
            _ => (*first, ""),
        };
        all.push(Step { name: (*name).to_owned(), old: old.into(), new: new.into() });
    }
    all
}

/// The table of a search: `i | vim | package | 9.0-1.1 | x86_64 | repo`.
pub(super) fn found(said: &str, provider: &dyn Provider) -> Offers {
    let mut all = Offers::new();
    for line in said.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, "package", version, _, repo] = cells[..] else { continue };
        if !repo.starts_with('(') {
            all.entry(name.to_owned()).or_default().versions.push(version.to_owned());
        }
    }
    for offer in all.values_mut() {
        offer.versions.sort_by(|a, b| provider.scheme().compare(b, a));
        offer.candidate = offer.versions.first().cloned().unwrap_or_default();
    }
    all
}

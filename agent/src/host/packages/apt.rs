//! apt and dpkg: Debian, Ubuntu and their kin.
//!
//! Law: changed configuration files stay unless that is asked for, and nobody is asked anything.

use zagent_compiler::functions::Refusal;
use zagent_compiler::functions::version::Scheme;

use super::{Act, Db, Offer, Offers, Options, Provider, Step, db, words};
use crate::host::{Machine, Tools};

pub(super) struct Apt;

const STATUS: &str = "/var/lib/dpkg/status";
const LISTS: &str = "/var/lib/apt/lists";

impl Provider for Apt {
    fn name(&self) -> &'static str {
        "apt"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["aptpkg", "apt-get", "dpkg"]
    }

    fn kin(&self) -> &'static [&'static str] {
        &["debian", "ubuntu"]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["apt-get"]
    }

    fn scheme(&self) -> Scheme {
        Scheme::Debian
    }

    fn witnesses(&self) -> &'static [&'static str] {
        &[STATUS]
    }

    fn read(&self, machine: &Machine) -> Result<Db, Refusal> {
        let status = machine.read(STATUS)?.unwrap_or_default();
        let native = machine.read("/var/lib/dpkg/arch-native")?.map(|t| t.trim().to_owned());
        Ok(db::dpkg(&status, native.as_deref().filter(|t| !t.is_empty())))
    }

    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>> {
        let mark = |how: &str, names: &[String]| {
            let mut line = words(&["apt-mark", how]);
            line.extend(names.iter().cloned());
            Some(vec![line])
        };
        match act {
            Act::Hold(names) => mark("hold", names),
            Act::Unhold(names) => mark("unhold", names),
            _ => Some(vec![line(program, act)]),
        }
    }

    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>> {
        let mut line = line(program, act);
        line.insert(1, "-s".into());
        Some(line)
    }

    fn steps(&self, said: &str) -> Vec<Step> {
        said.lines().filter_map(step).collect()
    }

    fn offers(&self, tools: &Tools<'_>, names: &[String], options: &Options) -> Result<Offers, Refusal> {
        let mut line = words(&["-q", "policy"]);
        if let Some(release) = &options.fromrepo {
            line.extend(["-o".into(), format!("APT::Default-Release={release}")]);
        }
        line.push("--".into());
        line.extend(names.iter().cloned());
        let said = tools.ask("apt-cache", &line)?;
        if !said.is_fine() {
            return Err(Refusal::failed(super::talk::essence("apt-cache", &said)));
        }
        Ok(policy(&said.out))
    }

    fn is_blank(&self, machine: &Machine) -> bool {
        !machine.names(LISTS).iter().any(|n| n.contains("_Packages") || n.contains("_InRelease"))
    }

    fn broken(&self, machine: &Machine, db: &Db) -> Vec<String> {
        let mut broken: Vec<String> = db
            .packs
            .iter()
            .filter_map(|(name, pack)| Some(format!("{name} ({})", pack.broken.as_ref()?)))
            .collect();
        // dpkg writes what it does there, and clears it when it ends well.
        let journal = machine.names("/var/lib/dpkg/updates");
        if broken.is_empty() && journal.iter().any(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            broken.push("dpkg (interrupted)".into());
        }
        broken
    }

    fn mending(&self) -> Vec<Vec<String>> {
        let mut fix = words(&["apt-get", "-q", "-y"]);
        fix.extend(config(false));
        fix.extend(words(&["-f", "install"]));
        vec![words(&["dpkg", "--force-confold", "--force-confdef", "--configure", "-a"]), fix]
    }
}

/// What becomes of configuration files that somebody changed.
fn config(new: bool) -> Vec<String> {
    let how: &[&str] = if new { &["--force-confnew"] } else { &["--force-confold", "--force-confdef"] };
    how.iter().flat_map(|h| ["-o".to_owned(), format!("DPkg::Options::={h}")]).collect()
}

fn line(program: &str, act: &Act<'_>) -> Vec<String> {
    let mut line = words(&[program, "-q", "-y"]);
    match act {
        Act::Refresh => line.push("update".into()),
        Act::Install(targets, options) => {
            line.extend(tuned(options));
            line.push("install".into());
            line.extend(targets.iter().map(|t| t.text("=")));
        }
        Act::Upgrade(names, options) => {
            line.extend(tuned(options));
            if names.is_empty() {
                line.push(if options.dist_upgrade { "dist-upgrade" } else { "upgrade" }.into());
            } else {
                line.extend(words(&["--only-upgrade", "install"]));
                line.extend(names.iter().cloned());
            }
        }
        Act::Remove(names, purge) => {
            line.push("--allow-change-held-packages".into());
            line.push(if *purge { "purge" } else { "remove" }.into());
            line.extend(names.iter().cloned());
        }
        Act::Autoremove(purge) => {
            line.push("autoremove".into());
            line.extend(purge.then(|| "--purge".to_owned()));
        }
        Act::Hold(_) | Act::Unhold(_) => {}
    }
    line
}

fn tuned(options: &Options) -> Vec<String> {
    let mut line = config(options.new_config);
    line.extend(match options.recommends {
        Some(true) => words(&["--install-recommends"]),
        Some(false) => words(&["--no-install-recommends"]),
        None => Vec::new(),
    });
    let switches = [
        (options.only_upgrade, "--only-upgrade"),
        (options.skip_verify, "--allow-unauthenticated"),
        (options.downgrade || options.force, "--allow-downgrades"),
        (options.force, "--allow-remove-essential"),
        (!options.keep_held, "--allow-change-held-packages"),
        (options.download, "--download-only"),
        (options.reinstall, "--reinstall"),
    ];
    line.extend(switches.iter().filter(|(on, _)| *on).map(|(_, word)| (*word).to_owned()));
    line.extend(options.fromrepo.iter().flat_map(|r| ["-t".to_owned(), r.clone()]));
    line
}

/// `Inst vim [1] (2 Debian:12 [amd64])` and `Remv vim [1]`; what is only configured was counted when it came.
fn step(line: &str) -> Option<Step> {
    let (verb, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let between = |open: char, close: char| {
        let inner = rest.strip_prefix(open)?;
        inner.split([close, ' ']).next().map(str::to_owned)
    };
    let old = between('[', ']').unwrap_or_default();
    let new = rest.split_once('(').and_then(|(_, r)| r.split([' ', ')']).next()).unwrap_or_default();
    match verb {
        "Inst" => Some(Step { name: name.into(), old, new: new.into() }),
        "Remv" | "Purg" => Some(Step { name: name.into(), old, new: String::new() }),
        _ => None,
    }
}

/// What `apt-cache policy` says of several packages.
pub(super) fn policy(said: &str) -> Offers {
    let mut all = Offers::new();
    let mut current: Option<(String, Offer)> = None;
    for line in said.lines() {
        if !line.starts_with(' ') {
            all.extend(current.take());
            current = line.strip_suffix(':').map(|name| (name.to_owned(), Offer::default()));
            continue;
        }
        let Some((_, offer)) = &mut current else { continue };
        let trimmed = line.trim_start();
        if let Some(candidate) = trimmed.strip_prefix("Candidate: ") {
            offer.candidate = candidate.trim().replace("(none)", "");
        } else if line.starts_with(" *** ") || line.starts_with("     ") && !line.starts_with("      ") {
            let version = trimmed.trim_start_matches("*** ").split(' ').next().unwrap_or_default();
            offer.versions.push(version.to_owned());
        }
    }
    all.extend(current);
    all
}

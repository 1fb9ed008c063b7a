//! apk: Alpine.

use zagent_compiler::functions::Refusal;

use super::{Act, Db, Offer, Offers, Options, Provider, Step, db, words};
use crate::host::{Machine, Tools};

pub(super) struct Apk;

impl Provider for Apk {
    fn name(&self) -> &'static str {
        "apk"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["apkpkg"]
    }

    fn kin(&self) -> &'static [&'static str] {
        &["alpine"]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["apk"]
    }

    fn witnesses(&self) -> &'static [&'static str] {
        &["/lib/apk/db/installed", "/usr/lib/apk/db/installed"]
    }

    fn read(&self, machine: &Machine) -> Result<Db, Refusal> {
        let mut text = None;
        for file in self.witnesses() {
            text = text.or(machine.read(file)?);
        }
        Ok(db::apk(&text.unwrap_or_default()))
    }

    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![line(program, act)?])
    }

    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>> {
        let mut line = line(program, act)?;
        line.insert(2, "--simulate".into());
        Some(line)
    }

    fn steps(&self, said: &str) -> Vec<Step> {
        said.lines().filter_map(step).collect()
    }

    fn offers(&self, tools: &Tools<'_>, names: &[String], _: &Options) -> Result<Offers, Refusal> {
        let mut line = words(&["policy"]);
        line.extend(names.iter().cloned());
        Ok(policy(&tools.ask("apk", &line)?.out))
    }

    fn is_blank(&self, machine: &Machine) -> bool {
        let has = |dir: &str| machine.names(dir).iter().any(|n| n.starts_with("APKINDEX"));
        !has("/var/cache/apk") && !has("/etc/apk/cache")
    }
}

fn line(program: &str, act: &Act<'_>) -> Option<Vec<String>> {
    let mut line = words(&[program, "--no-interactive"]);
    match act {
        Act::Refresh => line.push("update".into()),
        Act::Install(targets, options) => {
            line.push(if options.reinstall { "fix" } else { "add" }.into());
            line.extend(options.skip_verify.then(|| "--allow-untrusted".to_owned()));
            line.extend(options.fromrepo.iter().flat_map(|r| ["--repository".to_owned(), r.clone()]));
            line.extend(options.download.then(|| "--cache-only".to_owned()));
            line.extend(targets.iter().map(|t| t.text("=")));
        }
        Act::Upgrade(names, _) => {
            line.extend(if names.is_empty() { words(&["upgrade"]) } else { words(&["add", "--upgrade"]) });
            line.extend(names.iter().cloned());
        }
        Act::Remove(names, purge) => {
            line.push("del".into());
            line.extend(purge.then(|| "--purge".to_owned()));
            line.extend(names.iter().cloned());
        }
        Act::Hold(_) | Act::Unhold(_) | Act::Autoremove(_) => return None,
    }
    Some(line)
}

/// `(1/2) Installing vim (9.0-r0)`, `(2/2) Upgrading zlib (1.2-r0 -> 1.3-r0)`, `(1/1) Purging vim (9.0-r0)`.
fn step(line: &str) -> Option<Step> {
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
    Some(Step { name: name.into(), old: old.into(), new: new.into() })
}

/// `vim policy:`, then `  9.0-r0:` for each version, the newest last, with its places below.
pub(super) fn policy(said: &str) -> Offers {
    let mut all = Offers::new();
    let mut current: Option<(String, Offer)> = None;
    let mut version = "";
    for line in said.lines() {
        if let Some(name) = line.strip_suffix(" policy:") {
            all.extend(current.take());
            current = Some((name.to_owned(), Offer::default()));
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

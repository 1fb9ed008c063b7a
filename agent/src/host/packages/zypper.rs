//! zypper: SUSE and its kin.

use zagent_compiler::functions::Refusal;

use super::{Act, Db, Offers, Options, Provider, Step, db, dnf, words};
use crate::host::{Machine, Said, Tools};

pub(super) struct Zypper;

impl Provider for Zypper {
    fn name(&self) -> &'static str {
        "zypper"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["zypperpkg"]
    }

    fn kin(&self) -> &'static [&'static str] {
        &["suse", "opensuse", "sles"]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["zypper"]
    }

    fn witnesses(&self) -> &'static [&'static str] {
        &dnf::RPM
    }

    fn locks(&self) -> &'static [&'static str] {
        &["/etc/zypp/locks"]
    }

    fn read(&self, machine: &Machine) -> Result<Db, Refusal> {
        dnf::read_rpm(machine, self.locks(), db::zypper_locks)
    }

    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![line(program, act)?])
    }

    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>> {
        const VERBS: [&str; 4] = ["install", "remove", "update", "dist-upgrade"];
        let mut line = line(program, act)?;
        let verb = line.iter().position(|w| VERBS.contains(&w.as_str()))?;
        line.insert(verb + 1, "--dry-run".into());
        // A table for people breaks its rows as the terminal is wide, and there is none.
        line.insert(1, "--xmlout".into());
        Some(line)
    }

    fn steps(&self, said: &str) -> Vec<Step> {
        steps(said)
    }

    fn plain(&self, said: Said) -> Said {
        Said { out: complaints(&said.out), ..said }
    }

    fn is_done(&self, code: i32) -> bool {
        // Done, and: the host should be started anew, zypper itself should, a repository was left out.
        matches!(code, 0 | 102 | 103 | 106)
    }

    fn offers(&self, tools: &Tools<'_>, names: &[String], options: &Options) -> Result<Offers, Refusal> {
        let mut line = words(&["-n", "-q", "--no-refresh", "search", "-s", "-t", "package", "--match-exact"]);
        line.extend(options.fromrepo.iter().flat_map(|r| ["--repo".to_owned(), r.clone()]));
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

/// The summary of a transaction: `<solvable name="vim" edition="9.1-1" edition-old="9.0-1" …>` in `<to-upgrade>`.
fn steps(said: &str) -> Vec<Step> {
    let mut goes = false;
    let mut all = Vec::new();
    for tag in said.split('<').filter_map(|piece| piece.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        if name.starts_with("to-") {
            goes = name.starts_with("to-remove");
        }
        if name != "solvable" || attribute(tag, "type").as_deref() != Some("package") {
            continue;
        }
        let text = |key: &str| attribute(tag, key).unwrap_or_default();
        let (old, new) = if goes { ("edition", "") } else { ("edition-old", "edition") };
        all.push(Step { name: text("name"), old: text(old), new: text(new) });
    }
    all
}

/// The value of an attribute of a tag.
fn attribute(tag: &str, key: &str) -> Option<String> {
    let rest = tag.split_once(&format!(" {key}=\""))?.1;
    Some(unescaped(rest.split('"').next()?))
}

fn unescaped(text: &str) -> String {
    let signs = [("&apos;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    signs.into_iter().fold(text.to_owned(), |text, (sign, plain)| text.replace(sign, plain))
}

/// What stands in messages of errors and in the description of what it would ask.
fn complaints(said: &str) -> String {
    let pieces = said.split('<').filter_map(|piece| piece.split_once('>'));
    let told = pieces.filter(|(tag, _)| *tag == "message type=\"error\"" || *tag == "description");
    told.map(|(_, text)| unescaped(text.trim_end())).collect::<Vec<_>>().join("\n")
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

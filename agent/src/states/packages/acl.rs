//! States of the module `acl`: who besides the owner may use a file.

use zagent_config::{Map, Value};

use super::errand::{self, Errand, Kind, words};
use super::{Args, Built, Thing};
use crate::host::Tools;
use crate::states::{Failure, Scene, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let look = match fun {
        "present" | "list_present" => present,
        "absent" | "list_absent" => absent,
        _ => return None,
    };
    let kind = Kind {
        look,
        thing: Some(THING),
        store: None,
        veil: Veil::FILES | Veil::BROUGHT | Veil::USERS,
        lasts: true,
    };
    Some(errand::build(kind, args))
}

/// One line of an access list: `default:user:name`, and what is allowed.
type Line = (String, String);

/// What `getfacl` printed: the lines of each file.
fn parse(out: &str) -> Vec<(String, Vec<Line>)> {
    let mut all: Vec<(String, Vec<Line>)> = Vec::new();
    for line in out.lines() {
        if let Some(file) = line.strip_prefix("# file: ") {
            all.push((file.to_owned(), Vec::new()));
        } else if let (Some((_, lines)), false) = (all.last_mut(), line.starts_with('#')) {
            let line = line.split('\t').next().unwrap_or(line);
            lines.extend(line.rsplit_once(':').map(|(who, perms)| (who.to_owned(), perms.trim().to_owned())));
        }
    }
    all
}

/// What is asked for: the kind of the entries, their names, the files as they are.
struct Asked {
    kind: String,
    names: Vec<String>,
    recurse: bool,
    files: Vec<(String, Vec<Line>)>,
}

impl Asked {
    fn read(scene: &Scene<'_>, args: &Args<'_>) -> Result<Self, Failure> {
        let name = args.name();
        if scene.fs.stat(name.as_ref())?.is_none() {
            return Err(Failure::new(format!("{name} does not exist")));
        }
        let kind = args.text("acl_type")?.ok_or_else(|| Failure::new("Missing parameter acl_type"))?;
        let kind = kind.strip_prefix("d:").map_or(kind.clone(), |rest| format!("default:{rest}"));
        if !matches!(kind.trim_start_matches("default:"), "user" | "group" | "mask" | "other") {
            return Err(Failure::new("ACL Type does not exist"));
        }
        let names = match args.texts("acl_names")? {
            Some(names) => names,
            None => vec![args.text("acl_name")?.unwrap_or_default()],
        };
        let recurse = args.flag("recurse", false);
        let tools = scene.tools();
        if tools.which("getfacl").is_none() {
            return Err(Failure::new("there is no `getfacl` on this host: install the package `acl`"));
        }
        let deep: &[&str] = if recurse { &["-R"] } else { &[] };
        let said = tools.must("getfacl", &[deep, &["-p", "--", &name]].concat())?;
        Ok(Self { kind, names, recurse, files: parse(&said.out) })
    }

    fn who(&self, name: &str) -> String {
        format!("{}:{name}", self.kind)
    }

    /// What an entry allows on the first file that does not allow the same; nothing when all do.
    fn differing(&self, name: &str, perms: Option<&str>) -> Option<Option<String>> {
        let who = self.who(name);
        let of = |lines: &[Line]| lines.iter().find(|(w, _)| *w == who).map(|(_, p)| p.clone());
        self.files.iter().map(|(_, lines)| of(lines)).find(|now| now.as_deref() != perms)
    }

    fn act(&self, file: &str, option: &str, entries: &[String]) -> Vec<String> {
        let mut act = words(&["setfacl", option, &entries.join(",")]);
        act.extend(self.recurse.then(|| "-R".to_owned()));
        act.extend(["--".to_owned(), file.to_owned()]);
        act
    }
}

/// `rwx` with a dash for what is not allowed.
fn full(perms: &str) -> String {
    "rwx".chars().map(|c| if perms.to_ascii_lowercase().contains(c) { c } else { '-' }).collect()
}

fn told(asked: &Asked, names: &[&String], perms: &str) -> Value {
    let names: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
    Map::from_iter([
        ("acl_name", names.join(", ")),
        ("acl_type", asked.kind.clone()),
        ("perms", perms.to_owned()),
    ])
    .into()
}

fn present(scene: &Scene<'_>, args: &Args<'_>) -> Result<Errand, Failure> {
    let asked = Asked::read(scene, args)?;
    let perms = full(&args.text("perms")?.unwrap_or_default());
    let wrong: Vec<&String> =
        asked.names.iter().filter(|n| asked.differing(n, Some(&perms)).is_some()).collect();
    let Some(first) = wrong.first() else { return Ok(Errand::right("Permissions are in the desired state")) };
    let names = wrong.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
    let mut changes = Map::from_iter([("new", told(&asked, &wrong, &perms))]);
    let old = asked.differing(first, Some(&perms)).flatten();
    let (comment, done) = match &old {
        Some(old) => {
            changes.insert("old", told(&asked, &wrong, old));
            (
                format!("Updated permissions will be applied for {names}: {old} -> {perms}"),
                format!("Updated permissions for {names}"),
            )
        }
        None => (
            format!("New permissions will be applied for {names}: {perms}"),
            format!("Applied new permissions for {names}"),
        ),
    };
    let name = args.name();
    let mut acts = Vec::new();
    if args.flag("force", false) {
        let deep: &[&str] = if asked.recurse { &["-R"] } else { &[] };
        acts.push(words(&[&["setfacl", "-b"], deep, &["--", &name]].concat()));
    }
    let meant = if acts.is_empty() { wrong } else { asked.names.iter().collect() };
    let entries: Vec<String> = meant.iter().map(|n| format!("{}:{perms}", asked.who(n))).collect();
    acts.push(asked.act(&name, "-m", &entries));
    Ok(Errand { comment, done, changes, acts, file: None })
}

fn absent(scene: &Scene<'_>, args: &Args<'_>) -> Result<Errand, Failure> {
    let asked = Asked::read(scene, args)?;
    let wrong: Vec<&String> = asked.names.iter().filter(|n| asked.differing(n, None).is_some()).collect();
    if wrong.is_empty() {
        return Ok(Errand::right("Permissions are in the desired state"));
    }
    let old = asked.differing(wrong[0], None).flatten().unwrap_or_default();
    let entries: Vec<String> = wrong.iter().map(|n| asked.who(n)).collect();
    Ok(Errand {
        comment: "Removing permissions".into(),
        done: "Removing permissions".into(),
        changes: Map::from_iter([("old", told(&asked, &wrong, &old))]),
        acts: vec![asked.act(&args.name(), "-x", &entries)],
        file: None,
    })
}

/// The access lists of a path and of all below it.
struct Lists;

/// What a revert puts back.
pub(super) const THING: &dyn Thing = &Lists;

impl Thing for Lists {
    fn kind(&self) -> &'static str {
        "acl"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let said =
            scene.tools().ask("getfacl", &["-R", "-P", "-p", "--", key.as_str().unwrap_or_default()])?;
        Ok(if said.is_fine() { said.out.into() } else { Value::Null })
    }

    fn put(&self, _: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let Some(text) = to.as_str() else { return Ok(()) };
        let mut command = Tools::command("setfacl", &["--restore=-"], std::time::Duration::from_secs(600));
        command.stdin = text.as_bytes().to_vec();
        let said = scene.tools().run(command)?;
        if said.is_fine() { Ok(()) } else { Err(Failure::new(said.words())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = "# file: /srv/a\n# owner: root\n# group: root\nuser::rwx\nuser:daemon:rwx\t\t#effective:r-x\ngroup::r-x\n\
                         mask::r-x\nother::r-x\ndefault:user::rwx\n\n# file: /srv/a/b\nuser::rw-\ngroup::r--\nother::r--\n";

    #[test]
    fn lists_are_read_and_compared() {
        let files = parse(LISTS);
        assert_eq!(files.len(), 2);
        let asked = |kind: &str, count: usize| Asked {
            kind: kind.into(),
            names: Vec::new(),
            recurse: false,
            files: files[..count].to_vec(),
        };
        assert_eq!(asked("user", 1).differing("daemon", Some("rwx")), None);
        assert_eq!(asked("user", 2).differing("daemon", Some("rwx")), Some(None));
        assert_eq!(asked("user", 1).differing("daemon", Some("r--")), Some(Some("rwx".into())));
        assert_eq!(asked("default:user", 1).differing("", Some("rwx")), None);
        assert_eq!(asked("user", 1).differing("nobody", None), None);
        assert_eq!((full("rX"), full("")), ("r-x".into(), "---".into()));
    }
}

//! A chunk of a plan in, the things that it manages out: their kind, their name, and how each is taken away again.
//!
//! Only what a state is responsible for as a whole is a thing: a file, a user, a job, a package. States that remove
//! something, and acts such as commands, manage nothing.

mod presence;
mod removal;
mod spelling;

use serde::{Deserialize, Serialize};
use zagent_compiler::{Chunk, name_text};
use zagent_config::{Map, Value};

use spelling::service_name;

pub use presence::{Presence, fingerprint, fingerprint_before, is_compared, look, removal_obstacle};
pub use removal::Removal;
pub use spelling::{lexical_path, package_base};
pub use zagent_config::settings::PRUNABLE_KINDS;

/// Something of the host that a state manages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThingName {
    /// What it is: one of [`PRUNABLE_KINDS`], or the name of a state module.
    pub kind: String,
    /// Its name: a path, an account, `root: /usr/bin/backup` for a job.
    pub name: String,
}

impl ThingName {
    /// A thing of a kind.
    pub fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into() }
    }

    /// True for what stands at a path: file, link or directory.
    #[must_use]
    pub fn is_path(&self) -> bool {
        is_path_kind(&self.kind)
    }

    /// What makes it the same thing: a path is the same whatever stands there.
    #[must_use]
    pub fn identity(&self) -> (&str, &str) {
        (if self.is_path() { "path" } else { &self.kind }, &self.name)
    }
}

fn is_path_kind(kind: &str) -> bool {
    matches!(kind, "file" | "directory" | "symlink")
}

/// A thing and how it is taken away.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedThing {
    /// Which.
    pub thing: ThingName,
    /// How; none when zagent cannot.
    pub removal: Option<Removal>,
}

/// The things that a chunk manages.
#[must_use]
pub fn managed_things(chunk: &Chunk) -> Vec<ManagedThing> {
    match (&*chunk.state, &*chunk.fun) {
        ("file", fun) => file_kind(fun).map(|kind| path_thing(kind, chunk)).into_iter().flatten().collect(),
        (
            "x509",
            "private_key_managed" | "certificate_managed" | "csr_managed" | "crl_managed" | "pem_managed",
        )
        | ("ini", "options_present" | "sections_present") => path_thing("file", chunk).into_iter().collect(),
        ("pkg", "installed" | "latest") => list_names(chunk, "pkgs")
            .iter()
            .map(|name| state_thing("pkg", name, chunk, "removed", &[]))
            .collect(),
        ("service", "running" | "enabled") => vec![service(chunk)],
        ("user" | "group", "present") => {
            vec![state_thing(&chunk.state, &name_text(&chunk.name), chunk, "absent", &[])]
        }
        ("cron", "present") => vec![cron_job(chunk)],
        ("cron", "env_present") => vec![of_user(chunk, "env_absent", &["user"])],
        ("ssh_auth", "present") if !chunk.args.contains("source") => {
            vec![of_user(chunk, "absent", &["user", "enc", "config"])]
        }
        ("host", "present") => addresses(chunk),
        ("mount", "mounted") => vec![mount(chunk)],
        ("pkgrepo", "managed") => {
            vec![state_thing("pkgrepo", &name_text(&chunk.name), chunk, "absent", &["file", "ppa"])]
        }
        ("at", "present") if chunk.args.contains("tag") => {
            vec![state_thing("at", &name_text(&chunk.name), chunk, "absent", &["tag", "runas"])]
        }
        (state, fun) if is_listed(state, fun) => {
            let thing = ThingName::new(state, name_text(&chunk.name));
            vec![ManagedThing { thing, removal: None }]
        }
        _ => Vec::new(),
    }
}

/// Functions whose things are listed when they are left behind, and never removed: they hold data, or what was there
/// before them is not known.
fn is_listed(state: &str, fun: &str) -> bool {
    match state {
        "archive" => fun == "extracted",
        "git" => matches!(fun, "latest" | "cloned" | "detached"),
        "docker_container" => fun == "running",
        "lvm" => fun.ends_with("_present"),
        "pip" | "gem" | "npm" => fun == "installed",
        "alias"
        | "alternatives"
        | "docker_image"
        | "docker_network"
        | "docker_volume"
        | "firewalld"
        | "kmod"
        | "locale"
        | "mysql_database"
        | "mysql_grants"
        | "mysql_user"
        | "postgres_database"
        | "postgres_extension"
        | "postgres_group"
        | "postgres_privileges"
        | "postgres_schema"
        | "postgres_user"
        | "schedule"
        | "ssh_known_hosts"
        | "sysctl" => matches!(fun, "present" | "install"),
        _ => false,
    }
}

fn file_kind(fun: &str) -> Option<&'static str> {
    Some(match fun {
        "managed" | "touch" | "copy" | "copy_" | "hardlink" | "mknod" | "serialize" | "decode" | "append"
        | "prepend" | "line" | "replace" | "blockreplace" | "keyvalue" | "comment" | "uncomment" => "file",
        "directory" | "recurse" => "directory",
        "symlink" => "symlink",
        _ => return None,
    })
}

/// True for a state that brings files below its own path, which its chunk does not name.
#[must_use]
pub fn brings_files_below(chunk: &Chunk) -> bool {
    &*chunk.state == "file" && &*chunk.fun == "recurse"
}

/// True for a state that leaves a file as a whole, so that nothing of what others wrote to it is left.
#[must_use]
pub fn replaces_content(chunk: &Chunk) -> bool {
    let keeps = chunk.args.get("replace").is_some_and(|replace| !replace.is_truthy());
    let says = |key: &&str| chunk.args.get(key).is_some_and(|value| *value != Value::Null);
    match (&*chunk.state, &*chunk.fun) {
        // Without any content it cares for owner and mode of what others wrote.
        ("file", "managed") => {
            !keeps && ["source", "contents", "contents_pillar", "contents_grains"].iter().any(says)
        }
        ("file", "serialize") => !keeps && !chunk.args.get("merge_if_exists").is_some_and(Value::is_truthy),
        ("file", "symlink" | "decode" | "recurse" | "directory") => !keeps,
        ("x509", _) => true,
        _ => false,
    }
}

fn path_thing(kind: &str, chunk: &Chunk) -> Option<ManagedThing> {
    let path = lexical_path(&name_text(&chunk.name));
    path.starts_with('/')
        .then(|| ManagedThing { thing: ThingName::new(kind, path), removal: Some(Removal::Entry) })
}

/// The names of a list argument (texts, or mappings with one key each); without it the name of the chunk.
fn list_names(chunk: &Chunk, list: &str) -> Vec<String> {
    let Some(Value::List(items)) = chunk.args.get(list) else { return vec![name_text(&chunk.name)] };
    let name = |item: &Value| match item {
        Value::Map(map) => map.iter().next().map(|(key, _)| name_text(key)),
        other => Some(name_text(other)),
    };
    items.iter().filter_map(name).collect()
}

/// A thing that a state of the same module takes away, with these arguments of the chunk.
fn state_thing(kind: &str, name: &str, chunk: &Chunk, fun: &str, args: &[&str]) -> ManagedThing {
    let args: Map =
        args.iter().filter_map(|key| chunk.args.get(key).map(|value| (*key, value.clone()))).collect();
    let removal = Removal::state(&chunk.state, fun, name, args);
    ManagedThing { thing: ThingName::new(kind, name), removal: Some(removal) }
}

fn service(chunk: &Chunk) -> ManagedThing {
    let name = name_text(&chunk.name);
    let is_enabled = &*chunk.fun == "enabled" || chunk.args.get("enable").is_some_and(Value::is_truthy);
    let (fun, args) = match (&*chunk.fun, is_enabled) {
        ("enabled", _) => ("disabled", Map::new()),
        (_, true) => ("dead", Map::from_iter([("enable", Value::Bool(false))])),
        _ => ("dead", Map::new()),
    };
    let removal = Some(Removal::state("service", fun, &name, args));
    ManagedThing { thing: ThingName::new("service", service_name(&name)), removal }
}

fn user_of(chunk: &Chunk) -> String {
    chunk.args.get("user").map_or_else(|| "root".into(), name_text)
}

fn of_user(chunk: &Chunk, fun: &str, args: &[&str]) -> ManagedThing {
    let name = name_text(&chunk.name);
    let mut thing = state_thing(&chunk.state, &name, chunk, fun, args);
    thing.thing.name = format!("{}: {name}", user_of(chunk));
    thing
}

fn cron_job(chunk: &Chunk) -> ManagedThing {
    let mut thing = of_user(chunk, "absent", &["user", "identifier", "special"]);
    if let Some(identifier) = chunk.args.get("identifier").filter(|value| value.is_truthy()) {
        thing.thing.name = format!("{}: {}", user_of(chunk), name_text(identifier));
    }
    thing
}

fn addresses(chunk: &Chunk) -> Vec<ManagedThing> {
    let name = name_text(&chunk.name);
    let addresses = match chunk.args.get("ip") {
        Some(Value::List(all)) => all.iter().map(name_text).collect(),
        Some(one) => vec![name_text(one)],
        None => Vec::new(),
    };
    let thing = |ip: String| {
        let args = Map::from_iter([("ip", Value::from(ip.as_str()))]);
        let removal = Some(Removal::state("host", "absent", &name, args));
        ManagedThing { thing: ThingName::new("host", format!("{ip} {name}")), removal }
    };
    addresses.into_iter().map(thing).collect()
}

fn mount(chunk: &Chunk) -> ManagedThing {
    let is_kept = chunk.args.get("persist").is_none_or(Value::is_truthy);
    let name = name_text(&chunk.name);
    let mut args = Map::from_iter([("persist", Value::Bool(is_kept))]);
    for key in ["device", "config"] {
        if let Some(value) = chunk.args.get(key) {
            args.insert(key, value.clone());
        }
    }
    let removal = Some(Removal::state("mount", "unmounted", &name, args));
    ManagedThing { thing: ThingName::new("mount", lexical_path(&name)), removal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn things(fun: &str, name: &str, args: &str) -> Vec<(String, String)> {
        let Value::Map(args) = Value::from_json_str(args).unwrap() else { panic!("{args}") };
        let (state, fun) = fun.split_once('.').unwrap();
        let chunk = Chunk::single(state, fun, name, (*args).clone());
        managed_things(&chunk)
            .into_iter()
            .map(|thing| {
                let removal = thing.removal.map_or_else(|| "-".into(), |removal| removal.to_string());
                (format!("{} {}", thing.thing.kind, thing.thing.name), removal)
            })
            .collect()
    }

    #[test]
    fn every_thing_has_a_name_and_a_way_to_take_it_away() {
        for (fun, name, args, want) in [
            ("file.managed", "/etc/a", "{}", &[("file /etc/a", "entry")][..]),
            ("file.directory", "/etc/a/", "{}", &[("directory /etc/a", "entry")]),
            ("file.absent", "/etc/a", "{}", &[]),
            ("file.managed", "relative", "{}", &[]),
            ("file.managed", "/etc//./a", "{}", &[("file /etc/a", "entry")]),
            ("service.enabled", "ssh.service", "{}", &[("service ssh", "service.disabled ssh.service {}")]),
            (
                "pkg.installed",
                "x",
                r#"{"pkgs": ["vim", {"git": "1"}]}"#,
                &[("pkg vim", "pkg.removed vim {}"), ("pkg git", "pkg.removed git {}")],
            ),
            ("pkg.removed", "vim", "{}", &[]),
            (
                "service.running",
                "ssh",
                r#"{"enable": true}"#,
                &[("service ssh", "service.dead ssh {\"enable\": false}")],
            ),
            ("service.enabled", "ssh", "{}", &[("service ssh", "service.disabled ssh {}")]),
            (
                "cron.present",
                "/bin/x",
                r#"{"user": "bob", "identifier": "job", "hour": 3}"#,
                &[("cron bob: job", "cron.absent /bin/x {\"user\": \"bob\", \"identifier\": \"job\"}")],
            ),
            (
                "host.present",
                "db",
                r#"{"ip": ["10.0.0.1", "10.0.0.2"]}"#,
                &[
                    ("host 10.0.0.1 db", "host.absent db {\"ip\": \"10.0.0.1\"}"),
                    ("host 10.0.0.2 db", "host.absent db {\"ip\": \"10.0.0.2\"}"),
                ],
            ),
            ("sysctl.present", "vm.swappiness", r#"{"value": 1}"#, &[("sysctl vm.swappiness", "-")]),
            ("cmd.run", "true", "{}", &[]),
        ] {
            let want: Vec<_> = want.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(things(fun, name, args), want, "{fun} {name}");
        }
    }

    #[test]
    fn what_others_wrote_stays_in_some_files() {
        for (fun, args, want) in [
            ("managed", r#"{"contents": "x"}"#, true),
            ("managed", r#"{"source": "salt://x"}"#, true),
            ("managed", r#"{"mode": "0600"}"#, false),
            ("managed", r#"{"contents": null}"#, false),
            ("managed", r#"{"contents": "x", "replace": false}"#, false),
            ("serialize", r#"{"dataset": {}}"#, true),
            ("serialize", r#"{"dataset": {}, "merge_if_exists": true}"#, false),
            ("append", r#"{"text": "x"}"#, false),
        ] {
            let Value::Map(map) = Value::from_json_str(args).unwrap() else { panic!("{args}") };
            let chunk = Chunk::single("file", fun, "/etc/a", (*map).clone());
            assert_eq!(replaces_content(&chunk), want, "file.{fun} {args}");
        }
    }

    #[test]
    fn every_removal_is_a_state_that_can_be_built() {
        for (fun, name, args) in [
            ("pkg.installed", "vim", "{}"),
            ("service.running", "ssh", r#"{"enable": true}"#),
            ("service.enabled", "ssh", "{}"),
            ("user.present", "bob", r#"{"uid": 1000}"#),
            ("group.present", "ops", "{}"),
            ("cron.present", "/bin/x", r#"{"identifier": "job", "special": "@daily"}"#),
            ("cron.env_present", "PATH", r#"{"value": "/bin"}"#),
            ("ssh_auth.present", "AAAAB3", r#"{"user": "bob", "enc": "ssh-rsa"}"#),
            ("host.present", "db", r#"{"ip": "10.0.0.1"}"#),
            ("mount.mounted", "/mnt", r#"{"device": "/dev/sdb", "fstype": "ext4"}"#),
            ("pkgrepo.managed", "deb https://example.org/x stable main", r#"{"file": "/etc/apt/x.list"}"#),
            ("at.present", "true", r#"{"tag": "x", "timespec": "noon"}"#),
        ] {
            let Value::Map(args) = Value::from_json_str(args).unwrap() else { panic!("{args}") };
            let (state, function) = fun.split_once('.').unwrap();
            let chunk = Chunk::single(state, function, name, (*args).clone());
            for thing in managed_things(&chunk) {
                assert!(PRUNABLE_KINDS.contains(&thing.thing.kind.as_str()), "{fun}");
                let removal = thing.removal.unwrap().chunk().unwrap();
                let built = crate::build(&removal);
                assert!(built.is_ok(), "{fun}: {:?}", built.err());
            }
        }
    }
}

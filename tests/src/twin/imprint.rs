//! A container in, all modifications to it out: files, packages, units, accounts.
//!
//! Everything that always differs between two hosts (keys, times, account numbers, caches) is excluded here, not
//! explained later.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::container::Node;

/// Excluded directories: caches, logs, the databases of other programs, and files of the test.
const BLIND: &[&str] = &[
    "/dev",
    "/proc",
    "/run",
    "/sys",
    "/tmp",
    "/srv/pillar",
    "/root/.cache",
    "/usr/share/man",
    "/usr/share/mime",
    "/usr/share/info",
    "/usr/lib/python3",
    "/usr/share/perl5",
    "/usr/lib/locale",
    "/usr/share/icons",
    "/usr/share/applications",
    "/var/cache",
    "/var/log",
    "/var/tmp",
    "/var/backups",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/lib/ucf",
    "/var/lib/dbus",
    "/var/lib/pam",
    "/var/lib/zagent",
    "/var/lib/salt",
    "/var/lib/python",
    "/var/lib/private",
    "/var/lib/postgresql",
    "/etc/salt",
    "/etc/zagent",
    "/etc/machine-id",
    "/etc/ld.so.cache",
    "/etc/mtab",
    "/etc/resolv.conf",
    "/etc/.pwd.lock",
    "/etc/passwd",
    "/etc/passwd-",
    "/etc/group",
    "/etc/group-",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/subuid",
    "/etc/subuid-",
    "/etc/subgid",
    "/etc/subgid-",
    "/etc/ssl/certs",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_",
    "/etc/apt/apt.conf.d/91proxy",
    "/etc/adjtime",
    "/etc/.updated",
    "/var/.updated",
    "/var/lib/snmp/snmpd.conf",
];
/// Directories in which only the existence and the owner of a file count; its content belongs to a program.
const SHALLOW: &[&str] = &["/srv", "/var/lib", "/var/spool/postfix", "/var/spool/exim4", "/usr"];
/// Units that start and stop by themselves.
const FLEETING: &[&str] = &[
    "systemd-",
    "apt-daily",
    "dpkg-db",
    "user@",
    "user-",
    "run-",
    "e2scrub",
    "fstrim",
    "session-",
    "getty@",
    "container-getty@",
    "console-getty",
    "init.scope",
    "emergency",
    "rescue",
    "modprobe@",
    "salt-",
    "initrd-",
    "ldconfig",
    "auditd",
    "man-db",
    "phpsessionclean",
    "kmod",
];
const TEXT: u64 = 64 * 1024;

/// The modifications since the image was built.
#[must_use]
pub fn imprint(node: &Node) -> Value {
    let passwd = node.text("/etc/passwd");
    let group = node.text("/etc/group");
    let bound = node.bound().map(str::to_owned).collect();
    let walk = Walk { users: names(&passwd), groups: names(&group), packaged: packaged(node), bound };
    let mut files = Map::new();
    walk.go(&node.written(), "", &mut files);
    json!({ "files": files, "packages": packages(node), "units": units(node), "accounts": accounts(node, &passwd, &group) })
}

struct Walk {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
    packaged: HashSet<String>,
    /// Files of the test; the directories above were created for them.
    bound: Vec<String>,
}

impl Walk {
    fn go(&self, real: &Path, shown: &str, files: &mut Map<String, Value>) {
        let Ok(entries) = fs::read_dir(real) else { return };
        for entry in entries.flatten() {
            let path = format!("{shown}/{}", entry.file_name().to_string_lossy());
            let Ok(meta) = entry.metadata() else { continue };
            let is_made = self.bound.iter().any(|bound| is_under(bound, &path));
            if self.bound.contains(&path)
                || BLIND.iter().any(|p| is_under(&path, p))
                || path.contains("/__pycache__")
            {
                continue;
            }
            let is_shallow = SHALLOW.iter().any(|p| is_under(&path, p));
            let told = if meta.is_dir() {
                "directory".to_owned()
            } else {
                content(&entry.path(), &meta, is_shallow)
            };
            // A top-level directory belongs to the image.
            if !is_made && !self.is_packaged(&path) && shown.len() + usize::from(!meta.is_dir()) > 0 {
                files.insert(path.clone(), self.tell(&meta, told));
            }
            if meta.is_dir() {
                self.go(&entry.path(), &path, files);
            }
        }
    }

    /// A package installed it; files that packages install in /etc belong to people, too.
    fn is_packaged(&self, path: &str) -> bool {
        // Packages still use the path without /usr for files below it.
        let merged = ["/usr/lib", "/usr/bin", "/usr/sbin"].iter().any(|p| is_under(path, p));
        let old = if merged { &path["/usr".len()..] } else { path };
        !is_under(path, "/etc") && (self.packaged.contains(path) || self.packaged.contains(old))
    }

    fn tell(&self, meta: &fs::Metadata, content: String) -> Value {
        let name = |names: &BTreeMap<u32, String>, id: u32| {
            names.get(&id).cloned().unwrap_or_else(|| id.to_string())
        };
        if meta.is_symlink() || content == "removed" {
            return json!({ "content": content });
        }
        let owner = format!(
            "{}:{} {:o}",
            name(&self.users, meta.uid()),
            name(&self.groups, meta.gid()),
            meta.mode() & 0o7777
        );
        json!({ "owner": owner, "content": content })
    }
}

/// The path itself, or a path below it; a name that ends in `_` is a prefix.
fn is_under(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above.ends_with('_'))
}

fn content(path: &Path, meta: &fs::Metadata, shallow: bool) -> String {
    let kind = meta.file_type();
    if kind.is_symlink() {
        return format!("-> {}", fs::read_link(path).unwrap_or_default().display());
    }
    // How an overlay marks a deleted entry of a lower layer.
    if kind.is_char_device() && meta.rdev() == 0 {
        return "removed".to_owned();
    }
    if !kind.is_file() {
        return "special".to_owned();
    }
    if shallow {
        return "a file".to_owned();
    }
    let bytes = fs::read(path).unwrap_or_default();
    match String::from_utf8(bytes) {
        Ok(text) if meta.len() <= TEXT => text,
        Ok(text) => digest(text.as_bytes()),
        Err(odd) => digest(odd.as_bytes()),
    }
}

fn digest(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("{} bytes, {hash:016x}", bytes.len())
}

fn names(table: &str) -> BTreeMap<u32, String> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(':').collect();
        Some((words.get(2)?.parse().ok()?, (*words.first()?).to_owned()))
    };
    table.lines().filter_map(entry).collect()
}

fn packaged(node: &Node) -> HashSet<String> {
    let lists = node.root().join("var/lib/dpkg/info");
    let mut known = HashSet::new();
    for entry in fs::read_dir(lists).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|e| e == "list") {
            known.extend(fs::read_to_string(entry.path()).unwrap_or_default().lines().map(str::to_owned));
        }
    }
    known
}

fn packages(node: &Node) -> Value {
    let said = node.run(&["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}${Version}\n"]);
    let pair = |line: &str| line.split_once(' ').map(|(name, rest)| (name.to_owned(), json!(rest.trim())));
    Value::Object(said.out.lines().filter_map(pair).collect())
}

fn units(node: &Node) -> Value {
    let mut units: Map<String, Value> = Map::new();
    let files = node.run(&[
        "systemctl",
        "list-unit-files",
        "--no-legend",
        "--no-pager",
        "--type=service,timer,socket,mount,swap,path",
    ]);
    let loaded = node.run(&[
        "systemctl",
        "list-units",
        "--all",
        "--plain",
        "--no-legend",
        "--no-pager",
        "--type=service,timer,socket,swap,path",
    ]);
    for (text, at, what) in [(&files.out, 1, "enabled"), (&loaded.out, 2, "active")] {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(name), Some(word)) = (words.first(), words.get(at)) else { continue };
            // A unit that is not loaded and an inactive one are the same.
            if FLEETING.iter().any(|f| name.starts_with(f)) || *word == "inactive" {
                continue;
            }
            let unit = units.entry((*name).to_owned()).or_insert_with(|| json!({}));
            unit[what] = json!(word);
        }
    }
    Value::Object(units)
}

/// Accounts by name; numbers count from 1000 on, where people choose them.
fn accounts(node: &Node, passwd: &str, group: &str) -> Value {
    let groups = names(group);
    let shadow = node.text("/etc/shadow");
    let mut found = Map::new();
    for line in passwd.lines() {
        let [name, _, uid, gid, gecos, home, shell] = line.split(':').collect::<Vec<_>>()[..] else {
            continue;
        };
        let id: u32 = uid.parse().unwrap_or_default();
        let own = gid.parse().ok().and_then(|gid: u32| groups.get(&gid)).cloned().unwrap_or_default();
        let secret = shadow.lines().find_map(|l| l.strip_prefix(&format!("{name}:"))?.split(':').next());
        let secret = secret.map(|s| if s.starts_with('$') { "set" } else { s });
        let uid = if id >= 1000 { uid } else { "system" };
        found.insert(format!("user {name}"), json!([uid, own, gecos, home, shell, secret]));
    }
    for line in group.lines() {
        let [name, _, gid, members] = line.split(':').collect::<Vec<_>>()[..] else { continue };
        let mut members: Vec<&str> = members.split(',').collect();
        members.sort_unstable();
        let gid = if gid.parse::<u32>().is_ok_and(|g| g >= 1000) { gid } else { "system" };
        found.insert(format!("group {name}"), json!([gid, members]));
    }
    Value::Object(found)
}

//! This process, its environment and its versions into facts.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};
use zagent_config::{Map, Value};

use super::{Facts, string_list};

pub(crate) const ID: &[&str] = &["id", "server_id", "master"];
/// Facts about the process of the agent.
pub const NAMES: &[&str] = &[
    "username",
    "groupname",
    "uid",
    "gid",
    "pid",
    "cwd",
    "path",
    "systempath",
    "shell",
    "ps",
    "transactional",
];
pub(crate) const LOCALE: &[&str] = &["locale_info"];
pub(crate) const VERSIONS: &[&str] = &["saltversion", "saltversioninfo", "zagentversion", "pythonversion"];

/// The Salt whose states run here unchanged; formulas compare with it.
const SALT: &str = "3008.3";
const SALT_PARTS: [i64; 2] = [3008, 3];

/// The node's ID, its number, and its master.
pub fn id(facts: &Facts) -> Map {
    let id = &*facts.sources.id;
    // Salt's number: the digest modulo 2^31, so its last four bytes without the highest bit.
    let digest = Sha256::digest(id);
    let last = digest.iter().skip(28).fold(0_i64, |n, byte| n << 8 | i64::from(*byte));
    Map::from_iter([
        ("id", Value::from(id)),
        ("server_id", Value::Int(last & 0x7fff_ffff)),
        ("master", facts.sources.master.as_str().into()),
    ])
}

/// User, group, paths and shell that the agent runs with.
pub fn collect(facts: &Facts) -> Map {
    let (system, tree) = (&facts.sources.system, &facts.tree);
    let process = system.process();
    let passwd = tree.read_text("/etc/passwd").unwrap_or_default();
    let group = tree.read_text("/etc/group").unwrap_or_default();
    let user = passwd_record(&passwd, process.uid);
    let login_group = user.as_ref().and_then(|u| u.get(3)?.parse().ok());
    let group = login_group.and_then(|gid| passwd_record(&group, gid)).map_or("", |g| g[0]);
    let path = system.env("PATH").unwrap_or_default();
    let path = path.trim();
    let username = user.map_or_else(|| process.uid.to_string(), |u| u[0].to_owned());
    let mut map = Map::from_iter([
        ("username", Value::from(username)),
        ("groupname", group.into()),
        ("uid", Value::Int(process.uid.into())),
        ("gid", Value::Int(process.gid.into())),
        ("pid", Value::Int(process.pid.into())),
        ("path", path.into()),
        ("systempath", string_list(path.split(':'))),
        ("shell", system.env("SHELL").unwrap_or_else(|| "/bin/sh".into()).into()),
        ("ps", "ps -efHww".into()),
        ("transactional", Value::Bool(tree.which("transactional-update").is_some())),
    ]);
    if let Some(cwd) = process.cwd {
        map.insert("cwd", cwd.to_string_lossy().into_owned());
    }
    map
}

/// The fields of the line in a user or group file that carries this number.
fn passwd_record(text: &str, id: u32) -> Option<Vec<&str>> {
    let id = id.to_string();
    let mut records = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    records.find(|fields| fields.get(2) == Some(&&*id))
}

/// Language, encoding and time zone.
pub fn locale(facts: &Facts) -> Map {
    let system = &facts.sources.system;
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let name = names.iter().find_map(|name| system.env(name).filter(|v| !v.is_empty()));
    let (language, encoding) = split_locale(name.as_deref().unwrap_or("C"));
    let info = Map::from_iter([
        ("defaultlanguage", Value::from(language)),
        ("defaultencoding", encoding.into()),
        ("detectedencoding", "utf-8".into()),
        ("timezone", timezone(facts).into()),
    ]);
    Map::from_iter([("locale_info", Value::from(info))])
}

/// Language and encoding of a locale's name, in the spelling that formulas know from Salt.
fn split_locale(name: &str) -> (String, String) {
    let (name, modifier) = name.split_once('@').unwrap_or((name, ""));
    let (language, encoding) = name.split_once('.').unwrap_or((name, ""));
    if matches!(language, "C" | "POSIX") {
        return ("en_US".into(), "UTF-8".into());
    }
    let upper = encoding.to_uppercase();
    let encoding = match &*upper {
        "UTF8" | "UTF-8" => "UTF-8".into(),
        "" if modifier == "euro" => "ISO8859-15".into(),
        "" => "ISO8859-1".into(),
        iso => iso.replace("ISO-8859", "ISO8859"),
    };
    (language.to_owned(), encoding)
}

/// The short name of the host's time zone at this moment, as `CEST`.
fn timezone(facts: &Facts) -> String {
    let variable = facts.sources.system.env("TZ").filter(|v| !v.is_empty());
    let path = match variable.as_deref().map(|v| v.trim_start_matches(':')) {
        None => "/etc/localtime".to_owned(),
        Some(path) if path.starts_with('/') => path.to_owned(),
        Some(name) => format!("/usr/share/zoneinfo/{name}"),
    };
    let zone = facts.tree.read_bytes(&path).and_then(|bytes| TimeZone::tzif("local", &bytes).ok());
    let now = facts.sources.system.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).ok().and_then(|s| Timestamp::from_second(s).ok());
    let (Some(zone), Some(now)) = (zone, now) else { return "UTC".into() };
    zone.to_offset_info(now).abbreviation().to_owned()
}

/// Versions of the agent, of the Salt that it stands for, and of the host's Python.
pub fn versions(facts: &Facts) -> Map {
    Map::from_iter([
        ("saltversion", Value::from(SALT)),
        ("saltversioninfo", SALT_PARTS.map(Value::Int).into_iter().collect()),
        ("zagentversion", env!("CARGO_PKG_VERSION").into()),
        ("pythonversion", python_version(facts.tree.read_link("/usr/bin/python3").as_deref())),
    ])
}

/// The host's own Python, as far as the name of its program tells: formulas pick package names by it.
fn python_version(link: Option<&str>) -> Value {
    let name = link.and_then(|l| l.rsplit('/').next()).and_then(|n| n.strip_prefix("python3."));
    let minor = name.and_then(|n| n.parse::<i64>().ok());
    std::iter::once(3).chain(minor).map(Value::Int).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;
    use super::*;

    #[test]
    fn the_id_has_salts_number() {
        FactsFixture::new().expect(r#"{"id": "web-01", "server_id": 2123178878, "master": "salt"}"#);
    }

    #[test]
    fn the_process_is_named_from_the_files() {
        let mut host = FactsFixture::new()
            .file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\napp:x:1000:100::/:/bin/sh\nbroken\n")
            .file("/etc/group", "root:x:0:\nusers:x:100:\n")
            .program("/usr/sbin/transactional-update")
            .env("PATH", "/usr/bin:/bin")
            .env("SHELL", "/bin/zsh");
        host.system.process.uid = 1000;
        host.system.process.pid = 42;
        host.system.process.cwd = Some("/srv".into());
        host.expect(
            r#"{"username": "app", "groupname": "users", "uid": 1000, "gid": 0, "pid": 42, "cwd": "/srv",
                "path": "/usr/bin:/bin", "systempath": ["/usr/bin", "/bin"], "shell": "/bin/zsh", "transactional": true}"#,
        );
        FactsFixture::new().expect(
            r#"{"username": "0", "groupname": "", "cwd": null, "shell": "/bin/sh", "path": "", "systempath": [""],
                "transactional": false, "ps": "ps -efHww"}"#,
        );
    }

    #[test]
    fn locales() {
        for (name, want_language, want_encoding) in [
            ("C.UTF-8", "en_US", "UTF-8"),
            ("C", "en_US", "UTF-8"),
            ("de_DE.utf8", "de_DE", "UTF-8"),
            ("de_DE@euro", "de_DE", "ISO8859-15"),
            ("fr_FR.ISO-8859-15", "fr_FR", "ISO8859-15"),
            ("en_US", "en_US", "ISO8859-1"),
        ] {
            assert_eq!(split_locale(name), (want_language.into(), want_encoding.into()), "{name}");
        }
        FactsFixture::new().env("LANG", "C").env("LC_ALL", "de_DE.UTF-8").expect(
            r#"{"locale_info": {"defaultlanguage": "de_DE", "defaultencoding": "UTF-8", "detectedencoding": "utf-8",
                "timezone": "UTC"}}"#,
        );
    }

    #[test]
    fn the_zone_is_that_of_the_host() {
        // Version 1, one transition at 1970: `CEST`, two hours east.
        let mut zone = b"TZif\0".to_vec();
        zone.resize(20, 0);
        for count in [0_u32, 0, 0, 0, 1, 5] {
            zone.extend(count.to_be_bytes());
        }
        zone.extend(7200_i32.to_be_bytes());
        zone.extend([1, 0]);
        zone.extend(b"CEST\0");
        let zone_of = |host: FactsFixture| {
            host.facts().system_fact("locale_info").and_then(|l| l.get("timezone").cloned())
        };
        assert_eq!(zone_of(FactsFixture::new().file("/etc/localtime", &zone)), Some("CEST".into()));
        let by_variable =
            FactsFixture::new().file("/usr/share/zoneinfo/Europe/Berlin", &zone).env("TZ", ":Europe/Berlin");
        assert_eq!(zone_of(by_variable), Some("CEST".into()));
        assert_eq!(zone_of(FactsFixture::new().file("/etc/localtime", "damaged")), Some("UTC".into()));
    }

    #[test]
    fn python_is_the_hosts_own() {
        FactsFixture::new()
            .expect(r#"{"pythonversion": [3], "saltversion": "3008.3", "saltversioninfo": [3008, 3]}"#);
        FactsFixture::new().link("/usr/bin/python3", "python3.11").expect(r#"{"pythonversion": [3, 11]}"#);
    }
}

//! Process 1 and the files of systemd and SELinux into the facts about who runs the host.

use memchr::memmem;
use zagent_config::{Map, Value};

use super::Facts;
use super::tree::FactsRoot;

/// Facts about process one.
pub const NAMES: &[&str] = &["init"];
/// Facts about systemd.
pub const SYSTEMD: &[&str] = &["systemd"];
pub(crate) const SELINUX: &[&str] = &["selinux"];

/// Where distributions keep the private libraries of systemd, beside a directory a processor family.
const LIBRARY_DIRS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/systemd",
    "/usr/lib/aarch64-linux-gnu/systemd",
    "/usr/lib64/systemd",
    "/usr/lib/systemd",
];
/// Constants are looked through in pieces that overlap by the longest line.
const CHUNK: usize = 16 << 10;
const LINE: usize = 2 << 10;
/// The start of the line that lists what systemd was built with.
const FEATURES: [&[u8]; 2] = [b"+PAM ", b"-PAM "];

/// Which init system runs.
pub fn collect(facts: &Facts) -> Map {
    Map::from_iter([("init", init(&facts.tree))])
}

fn init(tree: &FactsRoot) -> &'static str {
    if tree.exists("/run/systemd/system") {
        return "systemd";
    }
    let bytes = tree.read_bytes("/proc/1/cmdline").unwrap_or_default();
    let cmdline = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let words: Vec<&str> = cmdline.split_whitespace().collect();
    let Some(first) = words.first() else { return "unknown" };
    let program = tree.which(first);
    if let Some(program) = program.filter(|p| p.ends_with("bin/init")) {
        return init_inside(tree, &program);
    }
    for name in ["supervisord", "dumb-init", "tini"] {
        let is_meant = words.iter().any(|w| w.ends_with(name));
        if is_meant && tree.which(name).is_some_and(|path| words.contains(&&*path)) {
            return name;
        }
    }
    if words == ["runit"] || words.contains(&"/sbin/my_init") { "runit" } else { "unknown" }
}

/// The name that a program called `init` carries inside.
fn init_inside(tree: &FactsRoot, program: &str) -> &'static str {
    let program = tree.read_bytes(program).unwrap_or_default().to_ascii_lowercase();
    let names = ["upstart", "sysvinit", "systemd"];
    names.into_iter().find(|n| memmem::find(&program, n.as_bytes()).is_some()).unwrap_or("unknown")
}

/// Version and features of systemd; empty where there is none.
pub fn systemd(facts: &Facts) -> Map {
    let tree = &facts.tree;
    let Some(systemctl) = tree.which("systemctl").filter(|_| tree.which("localectl").is_some()) else {
        return Map::new();
    };
    let library = shared_library(tree);
    let version = library.as_ref().and_then(|path| version_of(path)).unwrap_or("UNDEFINED");
    let features =
        features_in(tree, &systemctl).or_else(|| library.as_ref().and_then(|path| features_in(tree, path)));
    let systemd = Map::from_iter([
        ("version", Value::from(version)),
        ("features", features.unwrap_or_default().into()),
    ]);
    Map::from_iter([("systemd", Value::from(systemd))])
}

fn shared_library(tree: &FactsRoot) -> Option<String> {
    let find = |dir: &str| {
        let name = tree.list_names(dir).into_iter().rfind(|n| version_of(n).is_some())?;
        Some(format!("{dir}/{name}"))
    };
    LIBRARY_DIRS.iter().find_map(|dir| find(dir)).or_else(|| {
        let triplets = tree.list_names("/usr/lib").into_iter().filter(|n| n.contains("-linux-"));
        triplets.into_iter().find_map(|n| find(&format!("/usr/lib/{n}/systemd")))
    })
}

/// `252` out of `libsystemd-shared-252.so` and `libsystemd-shared-255.4-1.fc40.so`.
fn version_of(library: &str) -> Option<&str> {
    let (_, rest) = library.rsplit_once("libsystemd-shared-")?;
    let rest = rest.strip_suffix(".so")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The line that `systemctl --version` prints, as it stands among the constants of the program.
fn features_in(tree: &FactsRoot, program: &str) -> Option<String> {
    let (start, len) = constants(tree, program)?;
    let end = start.checked_add(len)?;
    let mut at = start;
    while at < end {
        let room = usize::try_from(end - at).unwrap_or(usize::MAX).min(CHUNK + LINE);
        let chunk = tree.read_slice(program, at, room)?;
        // A line that starts in the overlap is found whole in the next chunk.
        let starts = FEATURES.iter().filter_map(|start| memmem::find(&chunk, start));
        if let Some(found) = starts.min().filter(|found| *found < CHUNK) {
            let line = chunk[found..].split(|b| !matches!(b, b' '..=b'~')).next()?;
            return Some(String::from_utf8_lossy(line).into_owned());
        }
        at += CHUNK as u64;
    }
    None
}

/// Where the section of constants (`.rodata`) of a 64-bit little-endian program stands in its file.
fn constants(tree: &FactsRoot, program: &str) -> Option<(u64, u64)> {
    const ENTRY: usize = 64;
    let head = tree.read_head(program, 64)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = read_number(&head, 40, 8)?;
    let count = read_number(&head, 60, 2)?;
    let names_index = usize::try_from(read_number(&head, 62, 2)?).ok()?;
    let count = usize::try_from(count).ok()?;
    let sections = tree.read_slice(program, table, count.checked_mul(ENTRY)?)?;
    let section = |index: usize| sections.get(index.checked_mul(ENTRY)?..)?.get(..ENTRY);
    let extent = |s: &[u8]| Some((read_number(s, 24, 8)?, read_number(s, 32, 8)?));
    let (names_at, names_len) = extent(section(names_index)?)?;
    let names = tree.read_slice(program, names_at, usize::try_from(names_len).ok()?)?;
    sections.chunks_exact(ENTRY).find_map(|s| {
        let name = names.get(usize::try_from(read_number(s, 0, 4)?).ok()?..)?;
        if name.starts_with(b".rodata\0") { extent(s) } else { None }
    })
}

fn read_number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// Whether SELinux is enabled and enforced; empty without its tools.
pub fn selinux(facts: &Facts) -> Map {
    let tree = &facts.tree;
    if tree.which("selinuxenabled").is_none() {
        return Map::new();
    }
    let enforce = tree.read_line("/sys/fs/selinux/enforce");
    let mut selinux = Map::from_iter([("enabled", Value::Bool(enforce.is_some()))]);
    if tree.which("getenforce").is_some() {
        let enforced = match enforce.as_deref() {
            Some("1") => "Enforcing",
            Some(_) => "Permissive",
            None => "Disabled",
        };
        selinux.insert("enforced", enforced);
    }
    Map::from_iter([("selinux", Value::from(selinux))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;
    use super::*;

    #[test]
    fn process_one_is_named() {
        FactsFixture::new().dir("/run/systemd/system").expect(r#"{"init": "systemd"}"#);
        FactsFixture::new().expect(r#"{"init": "unknown"}"#);
        FactsFixture::new().file("/proc/1/cmdline", "").expect(r#"{"init": "unknown"}"#);
        for (cmdline, program, inside, want) in [
            ("/sbin/init\0splash\0", "/sbin/init", "..Upstart..", "upstart"),
            ("/sbin/init\0", "/sbin/init", "sysvinit", "sysvinit"),
            ("init\0", "/sbin/init", "busybox", "unknown"),
            ("/usr/bin/tini\0--\0x\0", "/usr/bin/tini", "", "tini"),
            ("/usr/bin/python3\0/usr/bin/supervisord\0", "/usr/bin/supervisord", "", "supervisord"),
            ("runit\0", "/bin/x", "", "runit"),
            ("/usr/bin/python3\0/sbin/my_init\0", "/bin/x", "", "runit"),
            ("bash\0", "/bin/bash", "", "unknown"),
        ] {
            let host = FactsFixture::new().script(program, inside).file("/proc/1/cmdline", cmdline);
            host.expect(&format!(r#"{{"init": "{want}"}}"#));
        }
    }

    /// A program with nothing but a section of constants.
    fn elf(constants: &[u8]) -> Vec<u8> {
        let names = b"\0.shstrtab\0.rodata\0";
        let names_at = 64 + constants.len() as u64;
        let table = names_at + names.len() as u64;
        let mut out = b"\x7fELF\x02\x01".to_vec();
        out.resize(40, 0);
        out.extend(table.to_le_bytes());
        out.resize(60, 0);
        out.extend([3, 0, 1, 0]);
        out.extend(constants);
        out.extend(names);
        for (name, at, len) in [(0, 0, 0), (1, names_at, names.len()), (11, 64, constants.len())] {
            let start = out.len();
            out.extend(u32::to_le_bytes(name));
            out.resize(start + 24, 0);
            out.extend(at.to_le_bytes());
            out.extend((len as u64).to_le_bytes());
            out.resize(start + 64, 0);
        }
        out
    }

    #[test]
    fn systemd_tells_version_and_features_without_being_run() {
        let host = FactsFixture::new()
            .script("/usr/bin/systemctl", "#!/bin/sh")
            .file("/usr/bin/systemctl", elf(b"junk\0+PAM +AUDIT -IDN default-hierarchy=unified\0junk"))
            .program("/usr/bin/localectl")
            .file("/usr/lib/systemd/libsystemd-shared-255.4-1.fc40.so", "");
        host.expect(
            r#"{"systemd": {"version": "255", "features": "+PAM +AUDIT -IDN default-hierarchy=unified"}}"#,
        );
        let library = FactsFixture::new()
            .program("/usr/bin/systemctl")
            .program("/usr/bin/localectl")
            .file("/usr/lib/powerpc64le-linux-gnu/systemd/libsystemd-shared-252.so", elf(b"-PAM +X\0"));
        library.expect(r#"{"systemd": {"version": "252", "features": "-PAM +X"}}"#);
        let bare = FactsFixture::new().program("/usr/bin/systemctl").program("/usr/bin/localectl");
        bare.expect(r#"{"systemd": {"version": "UNDEFINED", "features": ""}}"#);
        FactsFixture::new().program("/usr/bin/systemctl").expect(r#"{"systemd": null}"#);
    }

    #[test]
    fn a_damaged_program_has_no_features() {
        let whole = elf(b"+PAM +X\0");
        for cut in 0..whole.len() {
            let host = FactsFixture::new().file("/x", &whole[..cut]);
            assert_eq!(features_in(&host.tree(), "/x"), None, "cut at {cut}");
        }
        let mut wild = whole;
        wild[40..48].fill(0xff);
        assert_eq!(features_in(&FactsFixture::new().file("/x", wild).tree(), "/x"), None);
    }

    #[test]
    fn selinux_is_read_where_its_tools_are() {
        FactsFixture::new().expect(r#"{"selinux": null}"#);
        let host = || FactsFixture::new().program("/usr/sbin/selinuxenabled").program("/usr/sbin/getenforce");
        host().expect(r#"{"selinux": {"enabled": false, "enforced": "Disabled"}}"#);
        for (enforce, want) in [("1", "Enforcing"), ("0", "Permissive")] {
            let host = host().file("/sys/fs/selinux/enforce", enforce);
            host.expect(&format!(r#"{{"selinux": {{"enabled": true, "enforced": "{want}"}}}}"#));
        }
    }
}

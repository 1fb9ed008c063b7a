//! File systems: what the kernel has mounted, what `/etc/fstab` says, and the swap space.

use std::path::{Path, PathBuf};

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use zagent_host::Machine;
use zagent_host::text_file;

/// A file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedFs {
    pub point: String,
    pub device: String,
    pub fstype: String,
    /// Options of the place.
    pub opts: Vec<String>,
    /// Options of the file system itself.
    pub superopts: Vec<String>,
}

/// What is mounted, as `/proc/self/mountinfo` tells; the last of several at one place counts.
pub fn list_mounted(machine: &Machine) -> Result<Vec<MountedFs>, FunctionError> {
    let text = machine.read("/proc/self/mountinfo")?.unwrap_or_default();
    Ok(text.lines().filter_map(parse_mountinfo_line).collect())
}

pub fn parse_mountinfo_line(line: &str) -> Option<MountedFs> {
    let (place, system) = line.split_once(" - ")?;
    let place: Vec<&str> = place.split(' ').collect();
    let mut system = system.split(' ');
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    Some(MountedFs {
        point: unescape_blanks(place.get(4)?),
        opts: list(place.get(5)?),
        fstype: system.next()?.to_owned(),
        device: unescape_blanks(system.next()?),
        superopts: list(system.next().unwrap_or_default()),
    })
}

/// What is mounted at a place.
pub fn find_mounted(machine: &Machine, point: &str) -> Result<Option<MountedFs>, FunctionError> {
    let real = machine.canonicalize(point).unwrap_or_else(|_| PathBuf::from(point));
    Ok(list_mounted(machine)?.into_iter().rev().find(|m| Path::new(&m.point) == real))
}

/// A text without the escapes that the kernel and `/etc/fstab` write for blanks.
fn unescape_blanks(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

fn escape_blanks(text: &str) -> String {
    text.replace(' ', "\\040").replace('\t', "\\011")
}

/// A line of `/etc/fstab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FstabEntry {
    pub device: String,
    pub name: String,
    pub fstype: String,
    pub opts: String,
    pub dump: String,
    pub pass_num: String,
}

/// What became of the file, in Salt's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FstabChange {
    Present,
    New,
    Change,
}

impl FstabChange {
    pub const fn salt_word(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::New => "new",
            Self::Change => "change",
        }
    }
}

/// File systems that are known by their place, not by their device.
const SPECIAL_FSTYPES: [&str; 14] = [
    "none",
    "tmpfs",
    "sysfs",
    "proc",
    "fusectl",
    "debugfs",
    "securityfs",
    "devtmpfs",
    "cgroup",
    "nfs",
    "nfs4",
    "glusterfs",
    "btrfs",
    "ceph",
];

impl FstabEntry {
    pub fn parse_line(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (4..=6, [device, name, fstype, opts, ..]) = (words.len(), words.as_slice()) else { return None };
        let number = |at: usize| words.get(at).copied().unwrap_or("0").to_owned();
        Some(Self {
            device: unescape_blanks(device),
            name: unescape_blanks(name),
            fstype: (*fstype).to_owned(),
            opts: (*opts).to_owned(),
            dump: number(4),
            pass_num: number(5),
        })
    }

    fn to_line(&self) -> String {
        let Self { fstype, opts, dump, pass_num, .. } = self;
        format!(
            "{}\t\t{}\t{fstype}\t{opts}\t{dump} {pass_num}",
            escape_blanks(&self.device),
            escape_blanks(&self.name)
        )
    }

    fn match_value(&self, key: &str) -> Result<&str, FunctionError> {
        Ok(match key {
            "device" => &self.device,
            "name" => &self.name,
            "fstype" => &self.fstype,
            "opts" => &self.opts,
            "dump" => &self.dump,
            "pass_num" => &self.pass_num,
            _ => return Err(FunctionError::failed(format!("Unrecognized keys in match_on: \"{key}\""))),
        })
    }

    fn matches(&self, key: &str, wanted: &Self) -> Result<bool, FunctionError> {
        let (now, wanted) = (self.match_value(key)?, wanted.match_value(key)?);
        if key != "opts" {
            return Ok(now == wanted);
        }
        let sorted = |text: &str| {
            let mut all: Vec<String> = text.split(',').map(str::to_owned).collect();
            all.sort_unstable();
            all
        };
        Ok(sorted(now) == sorted(wanted))
    }

    /// The mapping that Salt shows, with the options as a list.
    pub fn to_salt_map(&self) -> Map {
        let mut out = Map::new();
        out.insert("device", self.device.as_str());
        out.insert("fstype", self.fstype.as_str());
        out.insert("opts", self.opts.split(',').map(Value::from).collect::<Value>());
        out.insert("dump", self.dump.as_str());
        out.insert("pass", self.pass_num.as_str());
        out
    }
}

/// All entries of a file.
pub fn parse_fstab(text: &str) -> impl Iterator<Item = FstabEntry> {
    text.lines().filter_map(FstabEntry::parse_line)
}

/// The file with an entry in it, and what became of it. `match_on` are the words by which its line is known.
pub fn set_fstab_entry(
    text: &str,
    entry: &FstabEntry,
    match_on: &[String],
    keep: bool,
) -> Result<(String, FstabChange), FunctionError> {
    let auto = || {
        vec![if SPECIAL_FSTYPES.contains(&&*entry.fstype) { "name".to_owned() } else { "device".to_owned() }]
    };
    let keys = if match_on.is_empty() || match_on == ["auto"] { auto() } else { match_on.to_vec() };
    for key in &keys {
        entry.match_value(key)?;
    }
    let mut kept = None;
    let fits = |old: &FstabEntry, keys: &[&str]| keys.iter().all(|k| old.matches(k, entry).unwrap_or(false));
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let (edited, _) = text_file::edit_lines(text, |line| {
        let old = FstabEntry::parse_line(line).filter(|old| fits(old, &keys))?;
        if keep || fits(&old, &["device", "name", "fstype", "opts", "dump", "pass_num"]) {
            kept = kept.or(Some(FstabChange::Present));
            return None;
        }
        kept = Some(FstabChange::Change);
        Some(entry.to_line())
    });
    Ok(match kept {
        Some(kept) => (edited, kept),
        None => (text_file::append_line(text, &entry.to_line()), FstabChange::New),
    })
}

/// The file without the entries of a place (and of a device, when one is named).
pub fn remove_fstab_entry(text: &str, name: &str, device: Option<&str>) -> (String, bool) {
    let fits = |e: &FstabEntry| e.name == name && device.is_none_or(|d| e.device == d);
    text_file::edit_lines(text, |line| FstabEntry::parse_line(line).filter(fits).map(|_| String::new()))
}

/// Swap space that is in use: its name and type, size, used and priority.
pub fn list_swaps(machine: &Machine) -> Result<Map, FunctionError> {
    let text = machine.read("/proc/swaps")?.unwrap_or_default();
    let mut out = Map::new();
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, kind, size, used, priority] = words.as_slice() {
            let about = [("type", *kind), ("size", size), ("used", used), ("priority", priority)].into_iter();
            out.insert(unescape_blanks(name), about.collect::<Map>());
        }
    }
    Ok(out)
}

/// The device behind a name: links followed, `UUID=…`, `LABEL=…` and their likes looked up. What is no device stays.
pub fn resolve_device(machine: &Machine, name: &str) -> String {
    const TAGS: [(&str, &str); 4] = [
        ("UUID", "by-uuid"),
        ("LABEL", "by-label"),
        ("PARTUUID", "by-partuuid"),
        ("PARTLABEL", "by-partlabel"),
    ];
    let tagged = name.split_once('=').and_then(|(tag, value)| {
        let dir = TAGS.iter().find(|(t, _)| t.eq_ignore_ascii_case(tag))?.1;
        Some(format!("/dev/disk/{dir}/{}", value.trim_matches('"')))
    });
    let path = tagged.unwrap_or_else(|| name.to_owned());
    // `sshfs#user@host:` is `user@host:` once it is mounted.
    let path = match path.split_once('#') {
        Some((kind, rest)) if !kind.is_empty() && kind.chars().all(char::is_alphanumeric) => rest.to_owned(),
        _ => path,
    };
    if !path.starts_with('/') {
        return path.trim_end_matches('/').to_owned();
    }
    machine.canonicalize(&path).map_or(path, |real| real.display().to_string())
}

/// The file behind a loop device.
pub fn loop_backing_file(machine: &Machine, device: &str) -> Option<String> {
    let name = device.strip_prefix("/dev/")?;
    let file = machine.read(&format!("/sys/block/{name}/loop/backing_file")).ok()??;
    Some(file.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted() {
        let line = "36 35 98:0 /mnt1 /my\\040disk rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse_mountinfo_line(line).unwrap();
        assert_eq!(
            (mount.point.as_str(), mount.device.as_str(), mount.fstype.as_str()),
            ("/my disk", "/dev/root", "ext3")
        );
        assert_eq!(
            (mount.opts.join(","), mount.superopts.join(",")),
            ("rw,noatime".into(), "rw,errors=continue".into())
        );
    }

    fn entry(device: &str, name: &str, fstype: &str, opts: &str) -> FstabEntry {
        let [device, name, fstype, opts] = [device, name, fstype, opts].map(str::to_owned);
        FstabEntry { device, name, fstype, opts, dump: "0".into(), pass_num: "0".into() }
    }

    #[test]
    fn lines_of_the_table_of_file_systems() {
        let text = "# a remark\nUUID=1 /   ext4 errors=remount-ro 0 1\ntmpfs  /tmp tmpfs  nosuid,noexec 0 0";
        let set = |entry: &FstabEntry| set_fstab_entry(text, entry, &[], false).unwrap();
        assert_eq!(
            set(&entry("tmpfs", "/tmp", "tmpfs", "noexec,nosuid")),
            (text.to_owned(), FstabChange::Present)
        );
        let (changed, kept) = set(&entry("tmpfs", "/tmp", "tmpfs", "ro"));
        assert_eq!(kept, FstabChange::Change);
        assert_eq!(
            changed,
            "# a remark\nUUID=1 /   ext4 errors=remount-ro 0 1\ntmpfs\t\t/tmp\ttmpfs\tro\t0 0\n"
        );
        let (new, kept) = set(&entry("/dev/sdb1", "/my disk", "ext4", "defaults"));
        assert_eq!(
            (new, kept),
            (format!("{text}\n/dev/sdb1\t\t/my\\040disk\text4\tdefaults\t0 0\n"), FstabChange::New)
        );
        let keep = set_fstab_entry(text, &entry("tmpfs", "/tmp", "tmpfs", "ro"), &[], true).unwrap();
        assert_eq!(keep, (text.to_owned(), FstabChange::Present));
        assert!(set_fstab_entry(text, &entry("a", "b", "c", "d"), &["colour".into()], false).is_err());
        assert_eq!(remove_fstab_entry(text, "/", Some("UUID=2")), (text.to_owned(), false));
        assert_eq!(
            remove_fstab_entry(text, "/tmp", None).0,
            "# a remark\nUUID=1 /   ext4 errors=remount-ro 0 1\n"
        );
    }
}

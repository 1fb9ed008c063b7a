//! The databases of installed packages, read without the package manager where they are text.
//!
//! Law: only what is whole counts as installed. What was left half-way is told apart, never taken for absent (held
//! by `dpkg_tells_what_is_whole_held_left_and_broken`).

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use zagent_config::glob::Glob;

use crate::Machine;
use zagent_config::sorted::CollectSorted;

/// What the database says about a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PkgRecord {
    /// The versions that are installed whole; mostly one.
    pub versions: Vec<String>,
    /// Removed, and its configuration was left: the version it had.
    pub removed_version: Option<String>,
    /// To be purged as soon as nobody needs it (dpkg).
    pub is_purge_desired: bool,
    /// Kept at its version.
    pub is_held: bool,
    /// How it was left when somebody was stopped half-way: `half-installed`, `unpacked`, ….
    pub broken_state: Option<String>,
    /// Not there: an earlier state of a dry run would bring it.
    pub is_predicted: bool,
    /// Its architecture.
    pub arch: String,
}

impl PkgRecord {
    /// True when it is installed whole.
    pub const fn is_installed(&self) -> bool {
        !self.versions.is_empty()
    }

    /// Its versions in one text.
    pub fn version(&self) -> String {
        self.versions.join(",")
    }
}

/// All packages that a database knows, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PkgDb {
    /// What is known of each package.
    pub packages: BTreeMap<String, PkgRecord>,
}

impl PkgDb {
    /// A package that is installed whole.
    pub fn get(&self, name: &str) -> Option<&PkgRecord> {
        self.packages.get(name).filter(|p| p.is_installed())
    }

    /// The version of a package; empty when it is not installed.
    pub fn version(&self, name: &str) -> String {
        self.get(name).map(PkgRecord::version).unwrap_or_default()
    }

    /// A name without the machine's own architecture, as the database has it.
    pub fn without_native_arch(&self, name: &str) -> String {
        match name.rsplit_once(':') {
            Some((bare, arch)) if !self.packages.contains_key(name) => {
                let own = self.packages.get("dpkg").map_or("", |p| p.arch.as_str());
                if arch == own || arch == "all" { bare.to_owned() } else { name.to_owned() }
            }
            _ => name.to_owned(),
        }
    }

    /// The packages that are installed whole.
    pub fn installed(&self) -> impl Iterator<Item = (&str, &PkgRecord)> {
        self.packages.iter().filter(|(_, p)| p.is_installed()).map(|(n, p)| (n.as_str(), p))
    }

    pub(crate) fn add_version(&mut self, name: &str, version: &str) -> &mut PkgRecord {
        let pack = self.packages.entry(name.to_owned()).or_default();
        if !pack.versions.iter().any(|v| v == version) {
            pack.versions.push(version.to_owned());
            pack.versions.sort_unstable();
        }
        pack
    }

    /// Notes that a package, or all that are there and fit a pattern, are kept at their version.
    pub(crate) fn mark_held(&mut self, pattern: &str) {
        if !pattern.contains(['*', '?', '[']) {
            self.packages.entry(pattern.to_owned()).or_default().is_held = true;
            return;
        }
        let glob = Glob::new(pattern);
        self.packages.iter_mut().filter(|(name, _)| glob.matches(name)).for_each(|(_, p)| p.is_held = true);
    }

    /// What is different after: name, version before, version after.
    pub fn changes_to(&self, after: &Self) -> Vec<super::PkgChange> {
        let names: std::collections::BTreeSet<&String> =
            self.packages.keys().chain(after.packages.keys()).into_set();
        names
            .into_iter()
            .map(|name| super::PkgChange {
                name: name.clone(),
                old: self.version(name),
                new: after.version(name),
            })
            .filter(|step| step.old != step.new)
            .collect()
    }
}

/// When a database was last written: two equal stamps, the same packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PkgDbStamp(Vec<Option<(u64, i64, i64, u64)>>);

impl PkgDbStamp {
    /// The stamp of the files of a database.
    pub fn read(machine: &Machine, files: &[&str]) -> Self {
        let of = |file: &&str| {
            let meta = machine.metadata(file).ok()?;
            Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
        };
        Self(files.iter().map(of).collect())
    }
}

/// dpkg's status file. Packages of a foreign architecture are named with it, as Salt does.
pub(crate) fn parse_dpkg_status(status: &str, native: Option<&str>) -> PkgDb {
    struct DpkgParagraph<'t> {
        name: &'t str,
        status: &'t str,
        version: &'t str,
        arch: &'t str,
    }
    let mut all = Vec::new();
    for text in status.split("\n\n") {
        let mut p = DpkgParagraph { name: "", status: "", version: "", arch: "all" };
        for line in text.lines() {
            // Only these begin with a letter that matters; descriptions and lists are most of the file.
            let field = match line.as_bytes().first() {
                Some(b'P') => line.strip_prefix("Package:").map(|v| (&mut p.name, v)),
                Some(b'S') => line.strip_prefix("Status:").map(|v| (&mut p.status, v)),
                Some(b'V') => line.strip_prefix("Version:").map(|v| (&mut p.version, v)),
                Some(b'A') => line.strip_prefix("Architecture:").map(|v| (&mut p.arch, v)),
                _ => None,
            };
            if let Some((slot, value)) = field {
                *slot = value.trim();
            }
        }
        if !p.name.is_empty() {
            all.push(p);
        }
    }
    // A status file does not say which architecture is the machine's own: dpkg's package has it.
    let own = native.or_else(|| all.iter().find(|p| p.name == "dpkg").map(|p| p.arch));
    let mut db = PkgDb::default();
    for p in &all {
        let mut words = p.status.split(' ');
        let (want, flag, state) = (words.next(), words.next(), words.next().unwrap_or_default());
        let is_own = p.arch == "all" || own.is_none_or(|own| own == p.arch);
        let name = if is_own { p.name.to_owned() } else { format!("{}:{}", p.name, p.arch) };
        let pack = db.packages.entry(name).or_default();
        p.arch.clone_into(&mut pack.arch);
        pack.is_held = want == Some("hold");
        match state {
            "installed" | "triggers-awaited" | "triggers-pending" => pack.versions.push(p.version.to_owned()),
            "config-files" => pack.removed_version = Some(p.version.to_owned()),
            "not-installed" | "" => {}
            other => pack.broken_state = Some(other.to_owned()),
        }
        if flag == Some("reinstreq") {
            pack.broken_state = Some(state.to_owned());
        }
        pack.is_purge_desired = want == Some("purge") && pack.is_installed();
    }
    db
}

/// apk's database.
pub(crate) fn parse_apk_db(text: &str) -> PkgDb {
    let mut db = PkgDb::default();
    for paragraph in text.split("\n\n") {
        let field = |key: &str| paragraph.lines().find_map(|l| l.strip_prefix(key));
        if let (Some(name), Some(version)) = (field("P:"), field("V:")) {
            db.add_version(name, version).arch = field("A:").unwrap_or_default().to_owned();
        }
    }
    db
}

/// pacman's directories, named `name-version-release`.
pub(crate) fn parse_pacman_dirs(names: &[String]) -> PkgDb {
    let mut db = PkgDb::default();
    for name in names {
        if let Some((rest, release)) = name.rsplit_once('-')
            && let Some((name, version)) = rest.rsplit_once('-')
        {
            db.add_version(name, &format!("{version}-{release}"));
        }
    }
    db
}

/// What `rpm -qa` is asked for.
pub(crate) const RPM_FORMAT: &str = "%{NAME} %|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE} %{ARCH}\\n";

/// Lines of `name version arch`; keys and packages of a foreign architecture as Salt names them.
pub(crate) fn parse_rpm_list(text: &str, own: &str) -> PkgDb {
    let mut db = PkgDb::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let version = version.strip_prefix("0:").unwrap_or(version);
        let arch = words.next().unwrap_or("noarch");
        if matches!(name, "gpg-pubkey" | "") {
            continue;
        }
        let is_foreign = matches!(arch, "i386" | "i586" | "i686") && own == "x86_64";
        let name = if is_foreign { format!("{name}.{arch}") } else { name.to_owned() };
        db.add_version(&name, version).arch = arch.to_owned();
    }
    db
}

/// Names that dnf and yum keep at a version: lines of `vim-2:9.0-1.fc38.*` or `2:vim-9.0-1.*`, or the `name = "vim"` of a TOML.
/// A line with `!` keeps a version away, and the package at none.
pub(crate) fn parse_dnf_locks(text: &str) -> Vec<String> {
    let one = |line: &str| {
        if let Some(name) = line.strip_prefix("name = ") {
            return Some(name.trim_matches('"').to_owned());
        }
        if line.is_empty() || line.starts_with(['#', '!', '[']) || line.contains(" = ") {
            return None;
        }
        let is_epoch = |head: &str| head.bytes().all(|b| b.is_ascii_digit());
        let line = line.split_once(':').filter(|(head, _)| is_epoch(head)).map_or(line, |(_, rest)| rest);
        let name = line.rsplit_once('-').and_then(|(head, _)| head.rsplit_once('-'));
        let name = name.filter(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()));
        Some(name.map_or(line, |(name, _)| name).to_owned())
    };
    text.lines().map(str::trim).filter_map(one).collect()
}

/// Names that zypper keeps at their version: paragraphs of `type: package` and `solvable_name: vim`.
pub(crate) fn parse_zypper_locks(text: &str) -> Vec<String> {
    let one = |paragraph: &str| {
        let field = |key: &str| paragraph.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
        let is_package = field("type:").is_none_or(|kind| kind == "package");
        field("solvable_name:").filter(|_| is_package).map(str::to_owned)
    };
    text.split("\n\n").filter_map(one).collect()
}

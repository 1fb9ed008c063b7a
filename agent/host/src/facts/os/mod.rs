//! `os-release` and its elder relatives into the facts about the distribution.
//!
//! The order of the sources is Salt's, quirks included: formulas key their maps on these very values.

pub mod release;
pub mod tables;

use std::collections::BTreeMap;

use zagent_config::{Map, Value};

use super::Facts;
use super::tree::FactsRoot;
use release::{ReleaseLine, lsb_release, os_release, parse_cpe, parse_release_line};

/// Facts about the distribution.
pub const NAMES: &[&str] = &[
    "os",
    "os_family",
    "osfullname",
    "osrelease",
    "osrelease_info",
    "osmajorrelease",
    "oscodename",
    "osfinger",
    "lsb_distrib_id",
    "lsb_distrib_release",
    "lsb_distrib_codename",
    "lsb_distrib_description",
];
/// Facts about the architecture of packages.
pub const ARCH: &[&str] = &["osarch"];

/// Distributions whose fingerprint starts with the short name.
const FINGER_BY_OS: [&str; 3] = ["Debian", "Raspbian", "AlmaLinux"];
/// Distributions whose fingerprint ends in the whole release.
const FINGER_BY_RELEASE: [&str; 3] = ["Ubuntu", "Pop", "NixOS"];
/// Files beside `os-release` that may know the release more precisely.
const RELEASE_FILES: [&str; 4] =
    ["/etc/centos-release", "/etc/fedora-release", "/etc/gentoo-release", "/etc/redhat-release"];

/// Name, family and release of the distribution.
pub fn collect(facts: &Facts) -> Map {
    let tree = &facts.tree;
    let text = tree.read_text("/etc/os-release").or_else(|| tree.read_text("/usr/lib/os-release"));
    let lsb = lsb_release(&tree.read_text("/etc/lsb-release").unwrap_or_default());
    let distribution = match &text {
        Some(text) => Distribution::from_os_release(&os_release(text), lsb, tree),
        None => Distribution::without_os_release(lsb, tree),
    };
    distribution.into_facts()
}

/// What is known of a distribution.
#[derive(Debug, Default)]
struct Distribution {
    os: String,
    full_name: String,
    release: String,
    codename: String,
    lsb: BTreeMap<String, String>,
}

impl Distribution {
    fn from_os_release(
        pairs: &BTreeMap<&str, String>,
        lsb: BTreeMap<String, String>,
        tree: &FactsRoot,
    ) -> Self {
        let get = |key: &str| pairs.get(key).map_or("", String::as_str);
        let name = pairs.get("NAME").map_or("Linux", |n| n.trim());
        let mut this =
            Self { os: tables::os_name(get("ID"), name), full_name: name.to_owned(), lsb, ..Self::default() };
        if this.lsb("description").to_lowercase().starts_with("antergos") {
            this.full_name = "Antergos Linux".into();
        } else if this.lsb("id").is_empty() {
            this.lsb_from_os_release(pairs, name);
        }
        // These two say only the major release in `os-release`.
        let is_imprecise =
            ["CentOS Linux 7", "CentOS Linux 8"].iter().any(|n| this.lsb("codename").contains(n));
        if is_imprecise {
            this.lsb.remove("release");
        }
        this.release = match this.lsb.get("release") {
            Some(release) => release.trim().to_owned(),
            None => best_version(pairs, tree),
        };
        this.set_codename(pairs, tree);
        if let Some(product) = pairs.get("SUSE_SUPPORT_PRODUCT") {
            let version = get("SUSE_SUPPORT_PRODUCT_VERSION");
            let pretty = pairs.get("SUSE_PRETTY_NAME").cloned();
            this.codename = pretty.unwrap_or_else(|| format!("{product} {version}"));
            this.release = version.to_owned();
            if product == "SUSE Linux Micro" {
                this.full_name = "SL-Micro".into();
            }
        }
        this
    }

    fn without_os_release(lsb: BTreeMap<String, String>, tree: &FactsRoot) -> Self {
        let mut this = Self { lsb, ..Self::default() };
        if this.lsb("id").is_empty()
            && let Some(text) = tree.read_text("/etc/centos-release")
        {
            let line = parse_release_line(&text).unwrap_or_default();
            this.lsb.insert("id".into(), "CentOS".into());
            this.lsb.insert("release".into(), line.version.into());
            this.lsb.insert("codename".into(), line.codename.into());
        }
        let name = if this.lsb("id").is_empty() { "Linux" } else { this.lsb("id") };
        Self {
            os: tables::os_name("", name),
            full_name: name.to_owned(),
            release: this.lsb("release").to_owned(),
            codename: this.lsb("codename").to_owned(),
            lsb: this.lsb,
        }
    }

    fn lsb(&self, key: &str) -> &str {
        self.lsb.get(key).map_or("", String::as_str)
    }

    fn lsb_from_os_release(&mut self, pairs: &BTreeMap<&str, String>, name: &str) {
        self.lsb.insert("id".into(), name.to_owned());
        if let Some(version) = pairs.get("VERSION_ID") {
            self.lsb.insert("release".into(), version.clone());
        }
        let pretty = pairs.get("PRETTY_NAME").map_or("Linux", String::as_str);
        let codename = pairs.get("VERSION_CODENAME").map_or(pretty, String::as_str);
        self.lsb.insert("codename".into(), codename.to_owned());
        let cpe = pairs.get("CPE_NAME").and_then(|c| parse_cpe(c));
        if let Some((vendor, version)) =
            cpe.filter(|(v, _)| matches!(&*v.to_lowercase(), "suse" | "opensuse"))
        {
            self.os = "SUSE".into();
            if name == "openSUSE Leap" {
                self.full_name = "Leap".into();
            } else if pairs.get("VERSION").is_some_and(|v| v == "Tumbleweed") {
                self.full_name = "Tumbleweed".into();
            }
            if !version.is_empty() && vendor == "opensuse" {
                self.lsb.insert("release".into(), version.to_owned());
            }
        }
        if pairs.get("ID").is_some_and(|id| id.trim() == "mendel")
            && let Some(version) = pretty.split_whitespace().nth(2)
        {
            self.lsb.insert("release".into(), version.to_owned());
        }
    }

    fn set_codename(&mut self, pairs: &BTreeMap<&str, String>, tree: &FactsRoot) {
        let is_bracketed = ["Rocky", "AlmaLinux", "AstraLinuxSE"].iter().any(|n| self.os.contains(n));
        if is_bracketed && let Some((_, rest)) = self.lsb("codename").split_once('(') {
            let inner = rest.split(')').next().unwrap_or_default();
            let codename = if self.os == "AstraLinuxSE" {
                inner.split_whitespace().next().unwrap_or_default().to_lowercase()
            } else {
                inner.to_owned()
            };
            self.lsb.insert("codename".into(), codename);
        }
        let codename = self.lsb("codename").trim();
        self.codename = if codename.is_empty() || codename.contains("Red Hat") {
            own_codename(pairs, tree)
        } else {
            codename.to_owned()
        };
    }

    fn into_facts(self) -> Map {
        let mut facts = Map::new();
        facts.insert("os", self.os.as_str());
        facts.insert("os_family", tables::os_family(&self.os));
        facts.insert("osfullname", self.full_name.as_str());
        facts.insert("oscodename", self.codename.as_str());
        facts.insert("osrelease", self.release.as_str());
        for (key, value) in &self.lsb {
            facts.insert(format!("lsb_distrib_{key}"), value.as_str());
        }
        if self.release.is_empty() {
            return facts;
        }
        let info: Vec<Value> = self.release.split('.').map(release_part).collect();
        let name = if FINGER_BY_OS.contains(&&*self.os) { &self.os } else { &self.full_name };
        let finger = match &info[0] {
            _ if FINGER_BY_RELEASE.contains(&&*self.os) => self.release.clone(),
            Value::Int(major) => major.to_string(),
            _ => self.release.split('.').next().unwrap_or_default().to_owned(),
        };
        if let major @ Value::Int(_) = &info[0] {
            facts.insert("osmajorrelease", major.clone());
        }
        facts.insert("osrelease_info", info);
        facts.insert("osfinger", format!("{name}-{finger}"));
        facts
    }
}

/// A part of a release: a number where it is one.
fn release_part(part: &str) -> Value {
    let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    part.parse().ok().filter(|_| is_number).map_or_else(|| part.into(), Value::Int)
}

/// The most precise of the versions that a host tells, the first of equals.
fn best_version(pairs: &BTreeMap<&str, String>, tree: &FactsRoot) -> String {
    let get = |key: &str| pairs.get(key).map_or("", String::as_str);
    let file = release_file(tree);
    let is_debian = get("ID") == "debian" || get("ID_LIKE").split_whitespace().any(|id| id == "debian");
    let debian =
        if is_debian { tree.read_line("/etc/debian_version").unwrap_or_default() } else { String::new() };
    let candidates = [
        get("VERSION_ID"),
        file.as_deref().and_then(parse_release_line).unwrap_or_default().version,
        parse_release_line(get("PRETTY_NAME")).unwrap_or_default().version,
        &debian,
    ];
    let dots = |v: &str| v.matches('.').count();
    let best =
        candidates.iter().fold("", |best, v| if best.is_empty() || dots(v) > dots(best) { v } else { best });
    best.to_owned()
}

/// The code name in `os-release`, else in the distribution's own file.
fn own_codename(pairs: &BTreeMap<&str, String>, tree: &FactsRoot) -> String {
    if let Some(name) = pairs.get("VERSION_CODENAME").or_else(|| pairs.get("UBUNTU_CODENAME")) {
        return name.clone();
    }
    let version = pairs.get("VERSION").map_or("", String::as_str);
    if let Some(name) = codename_in(version) {
        return name.to_owned();
    }
    release_file(tree).as_deref().and_then(parse_release_line).unwrap_or_default().codename.to_owned()
}

/// `8.9 (Ootpa)` and `14.04, Trusty Tahr` both name one.
fn codename_in(version: &str) -> Option<&str> {
    let bracketed = version.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(name, _)| name);
    let after_comma = || version.split_once(',').map(|(_, name)| name.trim_start());
    let has_digit = |name: &str| name.is_empty() || name.contains(|c: char| c.is_ascii_digit());
    bracketed.filter(|n| !has_digit(n)).or_else(|| after_comma().filter(|n| !has_digit(n)))
}

fn release_file(tree: &FactsRoot) -> Option<String> {
    RELEASE_FILES
        .iter()
        .filter_map(|path| tree.read_text(path))
        .find(|text| parse_release_line(text).is_some_and(|l| l != ReleaseLine::default()))
}

/// Architecture as the distribution's packages spell it.
pub fn arch(facts: &Facts) -> Map {
    let machine = facts.system_text("cpuarch");
    let arch = match facts.system_text("os_family") {
        "Debian" => {
            let elf = facts.tree.read_head("/usr/bin/dpkg", 64).and_then(|head| debian_arch_of_elf(&head));
            elf.unwrap_or_else(|| debian_arch_of_machine(machine))
        }
        _ => machine,
    };
    Map::from_iter([("osarch", arch)])
}

/// What the header of a program says: a 64-bit kernel may carry a 32-bit userland.
fn debian_arch_of_elf(head: &[u8]) -> Option<&'static str> {
    if !head.starts_with(b"\x7fELF") || head.len() < 52 {
        return None;
    }
    let (is_64, is_little) = (head[4] == 2, head[5] == 1);
    let half = |at: usize| {
        let bytes = [head[at], head[at + 1]];
        if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    };
    match (half(18), is_64, is_little) {
        (3, ..) => Some("i386"),
        (62, true, _) => Some("amd64"),
        (62, false, _) => Some("x32"),
        // The flags of a 32-bit header stand at 36; this one is the hard-float ABI.
        (40, ..) if half(36) & 0x400 != 0 => Some("armhf"),
        (40, ..) => Some("armel"),
        (183, ..) => Some("arm64"),
        (8, true, true) => Some("mips64el"),
        (8, false, true) => Some("mipsel"),
        (21, _, true) => Some("ppc64el"),
        (21, _, false) => Some("ppc64"),
        (22, true, _) => Some("s390x"),
        (243, true, _) => Some("riscv64"),
        (258, true, _) => Some("loong64"),
        _ => None,
    }
}

fn debian_arch_of_machine(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i386" | "i486" | "i586" | "i686" => "i386",
        "armv6l" | "armv7l" | "armv8l" => "armhf",
        "ppc64le" => "ppc64el",
        "mips64" => "mips64el",
        "loongarch64" => "loong64",
        other => other,
    }
}

#[cfg(test)]
pub mod tests;

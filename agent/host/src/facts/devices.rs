//! `/sys` and `/proc` into the facts about disks, volumes and graphics.

use zagent_config::{Map, Value};

use super::tree::FactsRoot;
use super::{Facts, string_list};

pub(crate) const GPUS: &[&str] = &["num_gpus", "gpus"];
pub(crate) const DISKS: &[&str] = &["disks", "ssds", "fibre_channel_host"];
pub(crate) const RAID: &[&str] = &["mdadm"];
pub(crate) const LVM: &[&str] = &["lvm"];

const PCI: &str = "/sys/bus/pci/devices";
/// The list of names of PCI devices, where distributions keep it.
const PCI_IDS: [&str; 3] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids"];

pub(crate) fn gpus(facts: &Facts) -> Map {
    let tree = &facts.tree;
    let hex = |device: &str, file: &str| tree.read_line(&format!("{PCI}/{device}/{file}"));
    let mut found = Vec::new();
    for device in tree.list_names(PCI) {
        let class = hex(&device, "class").unwrap_or_default();
        // Display controllers of all kinds but the multimedia ones, and processing accelerators.
        if ["0x0300", "0x0302", "0x0380", "0x1200"].iter().any(|c| class.starts_with(c)) {
            let id = |file| {
                hex(&device, file).map(|id| id.trim_start_matches("0x").to_owned()).unwrap_or_default()
            };
            found.push((id("vendor"), id("device")));
        }
    }
    let names = if found.is_empty() { None } else { PCI_IDS.iter().find_map(|path| tree.read_text(path)) };
    let names = names.unwrap_or_default();
    let gpus: Vec<Value> = found.iter().map(|(vendor, device)| gpu(&names, vendor, device)).collect();
    let number = i64::try_from(gpus.len()).unwrap_or(i64::MAX);
    Map::from_iter([("num_gpus", Value::Int(number)), ("gpus", gpus.into())])
}

fn gpu(names: &str, vendor: &str, device: &str) -> Value {
    let maker = match vendor {
        "10de" => "nvidia",
        "1002" | "1022" => "amd",
        "8086" => "intel",
        "15ad" => "vmware",
        "102b" => "matrox",
        "1a03" => "aspeed",
        _ => "unknown",
    };
    let model = device_name(names, vendor, device).map_or_else(|| format!("Device {device}"), str::to_owned);
    Map::from_iter([("vendor", maker), ("model", &model)]).into()
}

/// A vendor is a line `8086  Name`, its devices follow indented by one tab.
fn device_name<'a>(names: &'a str, vendor: &str, device: &str) -> Option<&'a str> {
    let named = |line: &'a str, id: &str| line.strip_prefix(id)?.strip_prefix("  ");
    let mut lines = names.lines();
    lines.find(|line| !vendor.is_empty() && named(line, vendor).is_some())?;
    let devices = lines.take_while(|line| line.starts_with(['\t', '#']));
    devices.filter_map(|line| line.strip_prefix('\t')).find_map(|line| named(line, device))
}

pub(crate) fn disks(facts: &Facts) -> Map {
    let tree = &facts.tree;
    let (mut spinning, mut solid) = (Vec::new(), Vec::new());
    for name in tree.list_names("/sys/block") {
        let is_virtual = tree
            .read_link(&format!("/sys/block/{name}"))
            .is_some_and(|l| l.starts_with("../devices/virtual/"));
        if is_virtual {
            continue;
        }
        match tree.read_head(&format!("/sys/block/{name}/queue/rotational"), 1).as_deref() {
            Some(b"0") => solid.push(name),
            Some(b"1") => spinning.push(name),
            _ => {}
        }
    }
    let is_fibre = tree.is_dir("/sys/class/fc_host");
    Map::from_iter([
        ("disks", string_list(spinning)),
        ("ssds", string_list(solid)),
        ("fibre_channel_host", Value::Bool(is_fibre)),
    ])
}

pub(crate) fn raid(facts: &Facts) -> Map {
    let Some(text) = facts.tree.read_text("/proc/mdstat") else { return Map::new() };
    let is_device = |l: &&str| !l.starts_with("Personalities") && !l.starts_with([' ', '\t']);
    let lines = text.lines().filter(is_device);
    let mut devices: Vec<&str> = lines.filter_map(|l| l.split_once(" : ")).map(|(name, _)| name).collect();
    devices.sort_unstable();
    devices.dedup();
    Map::from_iter([("mdadm", string_list(devices))])
}

/// Volume groups and their active volumes, where the tools of LVM are installed.
pub fn lvm(facts: &Facts) -> Map {
    let tree = &facts.tree;
    if tree.which("lvm").is_none() {
        return Map::new();
    }
    let mut groups: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    for (group, volume) in volumes(tree) {
        groups.entry(group).or_default().push(volume);
    }
    let groups: Map = groups.into_iter().map(|(group, volumes)| (group, string_list(volumes))).collect();
    Map::from_iter([("lvm", Value::from(groups))])
}

fn volumes(tree: &FactsRoot) -> Vec<(String, String)> {
    let names = tree.list_names("/sys/block").into_iter().filter(|n| n.starts_with("dm-"));
    let mut volumes: Vec<_> = names
        .filter_map(|device| {
            let uuid = tree.read_line(&format!("/sys/block/{device}/dm/uuid"))?;
            // Volumes that only LVM itself uses have something behind the two ids of 32 letters each.
            if uuid.strip_prefix("LVM-")?.len() != 64 {
                return None;
            }
            split_name(&tree.read_line(&format!("/sys/block/{device}/dm/name"))?)
        })
        .collect();
    volumes.sort_unstable();
    volumes
}

/// `my--group-volume` is volume `volume` of group `my-group`: dashes inside a name are doubled.
fn split_name(name: &str) -> Option<(String, String)> {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'-', Some(b'-')) => at += 2,
            (b'-', _) => return Some((name[..at].replace("--", "-"), name[at + 1..].replace("--", "-"))),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    #[test]
    fn disks_are_told_apart_and_virtual_ones_left_out() {
        FactsFixture::new()
            .file("/sys/devices/pci/sda/queue/rotational", "1\n")
            .file("/sys/devices/pci/nvme0n1/queue/rotational", "0\n")
            .file("/sys/devices/virtual/block/loop0/queue/rotational", "0\n")
            .link("/sys/block/sda", "../devices/pci/sda")
            .link("/sys/block/nvme0n1", "../devices/pci/nvme0n1")
            .link("/sys/block/loop0", "../devices/virtual/block/loop0")
            .dir("/sys/block/odd")
            .expect(r#"{"disks": ["sda"], "ssds": ["nvme0n1"], "fibre_channel_host": false}"#);
        FactsFixture::new()
            .dir("/sys/class/fc_host")
            .expect(r#"{"disks": [], "ssds": [], "fibre_channel_host": true}"#);
    }

    #[test]
    fn arrays_are_listed() {
        FactsFixture::new().expect(r#"{"mdadm": null}"#);
        let text = "Personalities : [raid1]\nmd1 : active raid1 sdb1[1] sda1[0]\n      1 blocks : x\nmd0 : active\nunused devices: <none>\n";
        FactsFixture::new().file("/proc/mdstat", text).expect(r#"{"mdadm": ["md0", "md1"]}"#);
    }

    #[test]
    fn volumes_are_grouped() {
        FactsFixture::new().expect(r#"{"lvm": null}"#);
        let uuid = format!("LVM-{}\n", "a".repeat(64));
        FactsFixture::new()
            .program("/sbin/lvm")
            .file("/sys/block/dm-0/dm/uuid", &uuid)
            .file("/sys/block/dm-0/dm/name", "my--vg-root\n")
            .file("/sys/block/dm-1/dm/uuid", &uuid)
            .file("/sys/block/dm-1/dm/name", "data-a--b\n")
            .file("/sys/block/dm-2/dm/uuid", "CRYPT-LUKS2-x\n")
            .file("/sys/block/dm-2/dm/name", "x-y\n")
            .file("/sys/block/dm-3/dm/uuid", format!("LVM-{}-pool\n", "a".repeat(64)))
            .file("/sys/block/dm-3/dm/name", "data-pool\n")
            .expect(r#"{"lvm": {"my-vg": ["root"], "data": ["a-b"]}}"#);
    }

    #[test]
    fn graphics_have_makers_and_names() {
        let ids = "# list\n10de  NVIDIA Corporation\n\t1eb8  TU104GL [Tesla T4]\n\t\t10de 12a2  Tesla\n1a03  ASPEED Technology, Inc.\n\t2000  ASPEED Graphics Family\n";
        FactsFixture::new()
            .file("/usr/share/misc/pci.ids", ids)
            .files(&[
                ("/sys/bus/pci/devices/0000:00:1e.0/class", "0x030200\n"),
                ("/sys/bus/pci/devices/0000:00:1e.0/vendor", "0x10de\n"),
                ("/sys/bus/pci/devices/0000:00:1e.0/device", "0x1eb8\n"),
                ("/sys/bus/pci/devices/0000:00:1f.0/class", "0x030000\n"),
                ("/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x10de\n"),
                ("/sys/bus/pci/devices/0000:00:1f.0/device", "0x2000\n"),
                ("/sys/bus/pci/devices/0000:00:01.0/class", "0x060100\n"),
            ])
            .expect(
                r#"{"num_gpus": 2, "gpus": [{"vendor": "nvidia", "model": "TU104GL [Tesla T4]"},
                    {"vendor": "nvidia", "model": "Device 2000"}]}"#,
            );
        FactsFixture::new().expect(r#"{"num_gpus": 0, "gpus": []}"#);
    }
}

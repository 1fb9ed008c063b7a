//! Firmware tables, the device tree and EFI variables into the facts about the machine itself.

use zagent_config::{Map, Value};

use super::Facts;
use super::tree::FactsRoot;

pub(crate) const NAMES: &[&str] = &[
    "biosversion",
    "biosvendor",
    "boardname",
    "productname",
    "manufacturer",
    "biosreleasedate",
    "uuid",
    "serialnumber",
];
pub(crate) const MACHINE_ID: &[&str] = &["machine_id"];
pub(crate) const EFI: &[&str] = &["efi", "efi-secure-boot"];

/// The files of the firmware tables, beside `NAMES`.
const FILES: [&str; 8] = [
    "bios_version",
    "bios_vendor",
    "board_name",
    "product_name",
    "sys_vendor",
    "bios_date",
    "product_uuid",
    "product_serial",
];

pub(crate) fn collect(facts: &Facts) -> Map {
    let tree = &facts.tree;
    let mut map = device_tree(tree);
    if !tree.exists("/sys/class/dmi/id") {
        return map;
    }
    for (name, file) in NAMES.iter().zip(FILES) {
        if let Some(value) = tree.read_line(&format!("/sys/class/dmi/id/{file}")) {
            map.insert(*name, if *name == "uuid" { value.to_lowercase() } else { value });
        }
    }
    map
}

/// Boards without firmware tables describe themselves in a device tree.
fn device_tree(tree: &FactsRoot) -> Map {
    let mut map = Map::new();
    if !tree.exists("/proc/device-tree") {
        return map;
    }
    let text = |file: &str| {
        let text = tree.read_text(&format!("/proc/device-tree/{file}"))?;
        Some(text.trim_end_matches('\0').to_owned()).filter(|t| !t.is_empty())
    };
    if let Some(model) = text("model") {
        let (manufacturer, product) = match model.split_once(',') {
            Some((manufacturer, product)) => (Some(manufacturer), product),
            None => (None, &*model),
        };
        if let Some(manufacturer) = manufacturer {
            map.insert("manufacturer", manufacturer);
        }
        map.insert("productname", product);
    }
    if let Some(serial) = text("serial-number").or_else(|| text("system-id")) {
        map.insert("serialnumber", serial);
    }
    map
}

pub(crate) fn machine_id(facts: &Facts) -> Map {
    let paths = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let id = paths.iter().find_map(|path| facts.tree.read_line(path));
    id.map(|id| Map::from_iter([("machine_id", id)])).unwrap_or_default()
}

pub(crate) fn efi(facts: &Facts) -> Map {
    let tree = &facts.tree;
    let dirs = ["/sys/firmware/efi/efivars", "/sys/firmware/efi/vars"];
    let dir = dirs.into_iter().find(|dir| tree.exists(dir));
    let is_secure = dir.is_some_and(|dir| is_secure_boot(tree, dir));
    Map::from_iter([("efi", Value::Bool(dir.is_some())), ("efi-secure-boot", Value::Bool(is_secure))])
}

fn is_secure_boot(tree: &FactsRoot, dir: &str) -> bool {
    let names: Vec<String> =
        tree.list_names(dir).into_iter().filter(|n| n.starts_with("SecureBoot-")).collect();
    let [name] = &*names else { return false };
    let tail = if dir.ends_with("/efivars") { "" } else { "/data" };
    tree.read_bytes(&format!("{dir}/{name}{tail}")).is_some_and(|bytes| bytes.last() == Some(&1))
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    #[test]
    fn firmware_tables() {
        FactsFixture::new()
            .files(&[
                ("/sys/class/dmi/id/bios_version", "1.16.3-2\n"),
                ("/sys/class/dmi/id/bios_vendor", "SeaBIOS\n"),
                ("/sys/class/dmi/id/product_name", "Standard PC\n"),
                ("/sys/class/dmi/id/sys_vendor", "QEMU\n"),
                ("/sys/class/dmi/id/bios_date", "04/01/2014\n"),
                ("/sys/class/dmi/id/product_uuid", "1D7E-ABCD\n"),
                ("/sys/class/dmi/id/product_serial", "\n"),
            ])
            .expect(
                r#"{"biosversion": "1.16.3-2", "biosvendor": "SeaBIOS", "productname": "Standard PC", "boardname": null,
                    "manufacturer": "QEMU", "biosreleasedate": "04/01/2014", "uuid": "1d7e-abcd", "serialnumber": ""}"#,
            );
        FactsFixture::new().expect(r#"{"biosversion": null, "uuid": null}"#);
    }

    #[test]
    fn boards_with_a_device_tree() {
        FactsFixture::new()
            .file("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0")
            .file("/proc/device-tree/serial-number", "10000000abcdef01\0")
            .expect(r#"{"productname": "Raspberry Pi 4 Model B Rev 1.4", "serialnumber": "10000000abcdef01", "manufacturer": null}"#);
        FactsFixture::new()
            .file("/proc/device-tree/model", "IBM,9009-22A\0")
            .file("/proc/device-tree/system-id", "IBM,0278\0")
            .expect(r#"{"productname": "9009-22A", "serialnumber": "IBM,0278", "manufacturer": "IBM"}"#);
    }

    #[test]
    fn the_machine_id_is_found_in_either_place() {
        FactsFixture::new().expect(r#"{"machine_id": null}"#);
        FactsFixture::new().file("/var/lib/dbus/machine-id", "abc\n").expect(r#"{"machine_id": "abc"}"#);
        FactsFixture::new().file("/etc/machine-id", "def\n").expect(r#"{"machine_id": "def"}"#);
    }

    #[test]
    fn secure_boot_is_the_last_byte() {
        let name = "/sys/firmware/efi/efivars/SecureBoot-8be4df61";
        FactsFixture::new().expect(r#"{"efi": false, "efi-secure-boot": false}"#);
        FactsFixture::new().file(name, [6, 0, 0, 0, 1]).expect(r#"{"efi": true, "efi-secure-boot": true}"#);
        FactsFixture::new().file(name, [6, 0, 0, 0, 0]).expect(r#"{"efi": true, "efi-secure-boot": false}"#);
        FactsFixture::new()
            .file("/sys/firmware/efi/vars/SecureBoot-1/data", [1])
            .expect(r#"{"efi": true, "efi-secure-boot": true}"#);
    }
}

//! Machine ID in, a stable number out: the seed of this machine's randomness.

use std::io::Read;

/// Files with the ID that a system gets when it is installed.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// Seed of this machine: from its ID, or from the node name when there is none. Clones of one image share an
/// ID, so the name is included.
#[must_use]
pub fn machine_seed(node: &str) -> u64 {
    let id = MACHINE_ID_FILES.iter().find_map(|path| {
        let mut text = String::new();
        std::fs::File::open(path).ok()?.take(256).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned()).filter(|id| !id.is_empty())
    });
    seed_from(&id.unwrap_or_default(), node)
}

/// Seed of a machine ID and a node name.
#[must_use]
pub(crate) fn seed_from(machine_id: &str, node: &str) -> u64 {
    let hash = blake3::hash(format!("{machine_id}\n{node}").as_bytes());
    hash.as_bytes()[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_differ_and_stay_the_same() {
        assert_eq!(machine_seed("web-01"), machine_seed("web-01"));
        assert_ne!(machine_seed("web-01"), machine_seed("web-02"));
        assert_ne!(seed_from("a", "web"), seed_from("b", "web"));
    }
}

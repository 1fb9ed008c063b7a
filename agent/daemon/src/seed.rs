//! What makes this machine's chance its own: the machine's id in, a number that stays the same out.

use std::io::Read;

/// Where systems keep the id that they were given when they were installed.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// The number of this machine: from its id, or from the node's name where it has none. Clones of one image share an id, so the
/// name counts as well.
#[must_use]
pub fn machine_seed(node: &str) -> u64 {
    let id = MACHINE_ID_FILES.iter().find_map(|path| {
        let mut text = String::new();
        std::fs::File::open(path).ok()?.take(256).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned()).filter(|id| !id.is_empty())
    });
    seed_from(&id.unwrap_or_default(), node)
}

/// The number of a machine's id and a node's name.
#[must_use]
pub fn seed_from(machine_id: &str, node: &str) -> u64 {
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

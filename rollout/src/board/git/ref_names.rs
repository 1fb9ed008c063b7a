//! Keys to refs and back: a rollout is a branch that people can see, everything else is outside the branches.

/// The key prefix of rollouts.
pub(super) const ROLLOUT: &str = "rollout/";
/// The ref prefix of rollouts.
const BRANCHES: &str = "refs/heads/";
/// The ref prefix of everything else.
const OTHERS: &str = "refs/zagent/";

/// True for the key of a rollout.
pub(super) fn is_rollout(key: &str) -> bool {
    key.starts_with(ROLLOUT)
}

/// The ref of a key.
pub(super) fn ref_for_key(key: &str) -> String {
    format!("{}{key}", if is_rollout(key) { BRANCHES } else { OTHERS })
}

/// The key of a ref.
pub(super) fn key_from_ref(reference: &str) -> Option<&str> {
    let branch = reference.strip_prefix(BRANCHES).filter(|key| is_rollout(key));
    branch.or_else(|| reference.strip_prefix(OTHERS).filter(|key| !is_rollout(key)))
}

/// The ref prefix for a key prefix.
pub(super) fn ref_prefixes(prefix: &str) -> Vec<String> {
    match (is_rollout(prefix), ROLLOUT.starts_with(prefix)) {
        (true, _) => vec![format!("{BRANCHES}{prefix}")],
        (false, true) => vec![format!("{BRANCHES}{ROLLOUT}"), format!("{OTHERS}{prefix}")],
        (false, false) => vec![format!("{OTHERS}{prefix}")],
    }
}

/// The file with the value.
pub(super) fn value_file(key: &str) -> &'static str {
    match key.split('/').next() {
        Some("rollout") => "rollout.yaml",
        Some("node") => "report.json",
        Some("enroll") => "enrolment.json",
        _ => "value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_refs_are_one_to_one() {
        for (name, want) in [
            ("rollout/r1", "refs/heads/rollout/r1"),
            ("node/agent/web-01", "refs/zagent/node/agent/web-01"),
            ("rollouts/x", "refs/zagent/rollouts/x"),
        ] {
            assert_eq!(ref_for_key(name), want);
            assert_eq!(key_from_ref(want), Some(name));
        }
        for foreign in
            ["refs/heads/main", "refs/heads/rollouts/x", "refs/zagent/rollout/x", "refs/tags/rollout/x"]
        {
            assert_eq!(key_from_ref(foreign), None, "{foreign}");
        }
        for (prefix, want) in [
            ("rollout/r", vec!["refs/heads/rollout/r"]),
            ("roll", vec!["refs/heads/rollout/", "refs/zagent/roll"]),
            ("", vec!["refs/heads/rollout/", "refs/zagent/"]),
            ("node/", vec!["refs/zagent/node/"]),
        ] {
            assert_eq!(ref_prefixes(prefix), want, "{prefix}");
        }
    }
}

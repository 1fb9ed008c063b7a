//! The agent's own files in, those that are damaged out, for people and for the report of the node.
//!
//! Law: it reads a few small files and changes nothing. Whether the states in the cache are what was published is
//! found out by a turn, which checks them anyway, and is remembered (held by
//! `an_intact_or_new_node_has_no_damage`).

use serde::{Deserialize, Serialize};
use zagent_cache::damaged_replay_records;
use zagent_config::paths::Paths;
use zagent_rollout::envelope::{NodeKeyState, node_key_state};

use crate::memory::AgentMemory;

/// A file of the agent that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnDamage {
    /// Which, and what follows from it.
    pub message: String,
    /// How to fix it.
    pub hint: String,
    /// True when the node should not take part in rollouts until it is fixed.
    pub degraded: bool,
}

/// All damage that is known.
#[must_use]
pub fn find_damage(node: &str, paths: &Paths, memory: &AgentMemory) -> Vec<OwnDamage> {
    let key = key_damage(node, paths);
    let cache = memory.tampered.as_ref().map(|why| OwnDamage {
        message: format!("the states in the cache are damaged and could not be fetched again: {why}"),
        hint: "fix the connection to a remote, then run `zagent source sync`".into(),
        degraded: true,
    });
    key.into_iter().chain(replay_damage(paths)).chain(cache).collect()
}

fn key_damage(node: &str, paths: &Paths) -> Option<OwnDamage> {
    let (key, aside) = (paths.key(), paths.key_aside());
    match node_key_state(&key) {
        NodeKeyState::Unusable(why) => Some(OwnDamage {
            message: format!(
                "the node key `{}` is damaged: {why}; this node cannot sign its reports",
                key.display()
            ),
            hint: format!(
                "restore it from a backup, or delete it: the agent creates another one, and drivers accept it after \
                 `zagent node forget {node}`"
            ),
            degraded: true,
        }),
        NodeKeyState::Usable | NodeKeyState::Missing if aside.exists() => Some(OwnDamage {
            message: format!(
                "the node key was damaged and replaced, the damaged one is `{}`; drivers refuse the reports of this node",
                aside.display()
            ),
            hint: format!(
                "run `zagent node forget {node}` where rollouts are driven, or list the new key in \
                 `board.allowed_nodes`; then delete the damaged one"
            ),
            degraded: true,
        }),
        NodeKeyState::Usable | NodeKeyState::Missing => None,
    }
}

fn replay_damage(paths: &Paths) -> Vec<OwnDamage> {
    let bad = damaged_replay_records(paths);
    let named: Vec<String> = bad.iter().map(|path| format!("`{}`", path.display())).collect();
    match named.as_slice() {
        [] => Vec::new(),
        [one] => vec![OwnDamage {
            message: format!("the replay protection record {one} is missing or damaged; its copy is used"),
            hint: "nothing to do: the next sync rewrites it; if it comes back, check the disk".into(),
            degraded: false,
        }],
        all => vec![OwnDamage {
            message: format!(
                "both replay protection records, {}, are damaged: new revisions are refused",
                all.join(" and ")
            ),
            hint: "check the disk; then accept the current revision with `zagent source sync --allow-rewind`"
                .into(),
            degraded: true,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intact_or_new_node_has_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        assert_eq!(find_damage("web-01", &paths, &AgentMemory::default()), []);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn each_damaged_file_is_named_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        for path in [paths.key(), paths.floor(), paths.floor_copy()] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "damaged").unwrap();
        }
        let memory = AgentMemory { tampered: Some("`a.sls` is missing".into()), ..AgentMemory::default() };
        let found = find_damage("web-01", &paths, &memory);
        let texts: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(found.len(), 3, "{texts:#?}");
        for (text, part) in texts.iter().zip(["trust/node.key", "state/floor", "`a.sls` is missing"]) {
            assert!(text.contains(part), "{text}");
        }
        assert!(found.iter().all(|one| one.degraded && !one.hint.is_empty()));
        // One record is enough.
        std::fs::remove_file(paths.key()).unwrap();
        std::fs::remove_file(paths.floor_copy()).unwrap();
        std::fs::remove_file(paths.floor()).unwrap();
        assert_eq!(find_damage("web-01", &paths, &AgentMemory::default()), []);
    }
}

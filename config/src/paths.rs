//! Every path the agent uses, from two directories: `root` holds what it writes, the configuration directory what
//! humans write.
//!
//! Law: no other file joins a path of the agent's own.

use std::path::{Path, PathBuf};

use crate::ids::NodeId;

/// Where the agent writes unless told otherwise.
pub const DEFAULT_ROOT: &str = "/var/lib/zagent";
/// Where humans write the configuration.
pub const CONFIG_DIR: &str = "/etc/zagent";
/// The main file in the configuration directory.
pub const CONFIG_FILE: &str = "zagent.yaml";
/// The directory of fragments beside it.
pub const FRAGMENTS_DIR: &str = "conf.d";
/// States that come with an image or a package.
pub const DEFAULT_BAKED: &str = "/usr/share/zagent/states";
/// Custom facts: YAML files and executables.
pub const DEFAULT_FACTS_DIR: &str = "/etc/zagent/facts.d";
/// Keys whose signatures count.
pub const DEFAULT_ALLOWED_SIGNERS: &str = "/etc/zagent/allowed_signers";

/// All paths below one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    root: PathBuf,
}

macro_rules! below {
    ($($(#[$doc:meta])* $name:ident $path:literal;)*) => {
        impl Paths {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> PathBuf {
                self.root.join($path)
            }
        )*}

        /// Every fixed path below the root, for the test that no two are one.
        #[cfg(test)]
        const ALL: &[&str] = &[$($path),*];
    };
}

impl Paths {
    /// Paths below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// One generation of states by its name.
    #[must_use]
    pub fn generation(&self, name: &str) -> PathBuf {
        self.generations().join(name)
    }

    /// One slot of the agent's binary by its name.
    #[must_use]
    pub fn slot(&self, name: &str) -> PathBuf {
        self.slots().join(name)
    }

    /// The undo journal of one run.
    #[must_use]
    pub fn undo_dir(&self, run: &str) -> PathBuf {
        self.undo().join(run)
    }
}

below! {
    /// The bare repository that fetches go into; may be deleted at any time.
    repository "cache/repository.git";
    /// Files on their way to a generation.
    staging "cache/staging";
    /// Published generations, one directory each, never changed.
    generations "cache/generations";
    /// The link to the generation that runs read.
    current "cache/current";
    /// Compiled plans, by what they were compiled from; may be deleted at any time.
    plans "cache/plans";
    /// Facts that are costly to collect and rarely change.
    facts "cache/facts";
    /// Files fetched for `source:` of states, by digest.
    downloads "cache/downloads";
    /// What is fetched from a board, while it is read; may be deleted at any time.
    board_fetch "cache/board";
    /// The lowest serial that is accepted.
    floor "state/floor";
    /// The second copy of the floor.
    floor_copy "trust/floor";
    /// What the agent last saw of its remotes and its runs.
    memory "state/memory";
    /// The last configuration that was good.
    last_config "state/config.yaml";
    /// The generation that has not proved itself yet.
    trial "state/trial";
    /// Where this node stands in rollouts of states.
    rollout_states "state/rollout-states";
    /// That a state asked for a reboot.
    reboot "state/reboot";
    /// What runs changed, one line a change.
    audit "log/audit.jsonl";
    /// Held while the cache changes; names its holder.
    cache_lock "run/cache.lock";
    /// Revisions that failed their health checks.
    quarantine "state/quarantine";
    /// Why and until when the agent is paused.
    pause "state/pause";
    /// The branch or commit the node is pinned to.
    pin "state/pin";
    /// When scheduled entries run next.
    schedule "state/schedule";
    /// Undo journals, one directory a run.
    undo "state/undo";
    /// Copies of files that states replaced.
    backups "state/backups";
    /// The history of runs.
    history "state/history";
    /// The store of the history; may be deleted at any time.
    history_store "state/history/store";
    /// Runs that are not in the store yet, one file each.
    history_spool "state/history/spool";
    /// The node's own key, which signs its reports.
    key "trust/node.key";
    /// The keys of other nodes as they were first seen, as in `allowed_signers`.
    nodes "trust/nodes";
    /// Binaries of the agent, one directory a version.
    slots "slots";
    /// The link to the slot that runs.
    slot_current "slots/current";
    /// The watchdog's phase.
    phase "state/phase";
    /// What the watchdog must find again after it was replaced or died: its child, and which watchdog is tried.
    watchdog "state/watchdog";
    /// Heartbeats of the watchdog and its child.
    heartbeats "state/heartbeats";
    /// The board of a single machine.
    board "state/board";
    /// Held by the one run at a time; names its holder.
    lock "run/lock";
    /// The socket that the command line talks to.
    socket "run/agent.sock";
    /// Held by the one watchdog at a time; names its holder.
    watchdog_lock "run/watchdog.lock";
    /// The watchdog's own socket.
    watchdog_socket "run/watchdog.sock";
}

/// What humans write in a states repository.
pub mod tree {
    /// The manifest.
    pub const MANIFEST: &str = "manifest.yaml";
    /// The state tree, unless `roots` moves it.
    pub const STATES: &str = "states";
    /// The pillar tree, unless `roots` moves it.
    pub const PILLAR: &str = "pillar";
    /// External state modules.
    pub const MODULES: &str = "_states";
    /// Recorded facts, one file a node.
    pub const INVENTORY: &str = "inventory";
    /// The top file of a tree.
    pub const TOP: &str = "top.sls";
}

/// The recorded facts of a node, relative to the states repository.
#[must_use]
pub fn inventory_path(node: &NodeId) -> PathBuf {
    Path::new(tree::INVENTORY).join(format!("{node}.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_are_below_the_root_and_apart() {
        for (i, path) in ALL.iter().enumerate() {
            let plain = Path::new(path).components().all(|c| matches!(c, std::path::Component::Normal(_)));
            assert!(plain && !ALL[..i].contains(path), "{path}");
        }
        let paths = Paths::new("/x");
        assert_eq!(paths.generation("7-abc"), Path::new("/x/cache/generations/7-abc"));
        assert_eq!(paths.root(), Path::new("/x"));
        assert_eq!(inventory_path(&NodeId::localhost()), Path::new("inventory/localhost.yaml"));
    }
}

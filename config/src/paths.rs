//! Every path the agent uses, from two directories: `root` holds what the agent writes, the configuration directory
//! what users write.
//!
//! Law: the agent's directories are named only here (held by `the_directories_of_the_agent_are_named_once`).

use std::path::{Path, PathBuf};

use crate::ids::NodeId;

/// Where the agent writes by default.
pub const DEFAULT_ROOT: &str = "/var/lib/zagent";
/// Where users write the configuration.
pub const CONFIG_DIR: &str = "/etc/zagent";
/// The main file in the configuration directory.
pub const CONFIG_FILE: &str = "zagent.yaml";
/// The directory of configuration fragments beside it.
pub const FRAGMENTS_DIR: &str = "conf.d";
/// States that come with an image or a package.
pub const DEFAULT_BAKED: &str = "/usr/share/zagent/states";
/// Custom facts: YAML files and executables.
pub const DEFAULT_FACTS_DIR: &str = "/etc/zagent/facts.d";
/// The private key that opens age secrets when nothing else is said: the SSH key of the host.
pub const DEFAULT_AGE_IDENTITY: &str = "/etc/ssh/ssh_host_ed25519_key";
/// Keys that decrypt `gpg` values in pillar.
pub const DEFAULT_GPG_HOME: &str = "/etc/zagent/gpgkeys";
/// Keys whose signatures are accepted.
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

        /// Every fixed path below the root, for the test that all are different.
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
    /// The bare repository for fetches; safe to delete at any time.
    repository "cache/repository.git";
    /// Files staged for a new generation.
    staging "cache/staging";
    /// Published generations, one directory each, never changed.
    generations "cache/generations";
    /// The files of a removed generation: the next one is made from them.
    spare_tree "cache/spare";
    /// File system data of the current generation, compared with its content; safe to delete at any time.
    stamps "cache/stamps";
    /// The link to the generation that runs read.
    current "cache/current";
    /// The plan cache, keyed by the inputs of the compile; safe to delete at any time.
    plans "cache/plans";
    /// Facts that are expensive to collect and rarely change.
    facts "cache/facts";
    /// Files fetched for `source:` of states, by digest.
    downloads "cache/downloads";
    /// Temporary data fetched from a board; safe to delete at any time.
    board_fetch "cache/board";
    /// The lowest serial that is accepted.
    floor "state/floor";
    /// The replay protection record: a second copy of the lowest accepted serial.
    floor_copy "trust/floor";
    /// The last known state of remotes and runs.
    memory "state/memory";
    /// How much space the agent used when it was last counted.
    space "state/space";
    /// The last valid configuration.
    last_config "state/config.yaml";
    /// The generation that has not passed its health checks yet.
    trial "state/trial";
    /// The node's position in states rollouts.
    rollout_states "state/rollout-states";
    /// Present when a state requested a reboot.
    reboot "state/reboot";
    /// The audit log: what runs changed, one line per change.
    audit "log/audit.jsonl";
    /// The cache lock, held while the cache changes; names its holder.
    cache_lock "run/cache.lock";
    /// Revisions that failed their health checks.
    quarantine "state/quarantine";
    /// Why and until when the agent is paused.
    pause "state/pause";
    /// The branch or commit the node is pinned to.
    pin "state/pin";
    /// When scheduled entries run next.
    schedule "state/schedule";
    /// Undo journals, one directory per run.
    undo "state/undo";
    /// The random key of this installation, for digests of what must not be guessed.
    local_key "state/local-key";
    /// What each state was to do when it was last in sync, as digests.
    synced_states "state/synced-states";
    /// Digests of the paths of files that hold or held a secret; no diff of them is shown.
    secret_files "state/secret-files";
    /// What the states of this node manage, and managed before.
    managed "state/managed";
    /// Copies of files that states replaced.
    backups "state/backups";
    /// The history of runs.
    history "state/history";
    /// One line per run, oldest first.
    history_index "state/history/index";
    /// The lines before those in the index.
    history_index_old "state/history/index.old";
    /// What runs changed, one file per run.
    history_runs "state/history/runs";
    /// The history of an earlier version: its store, which is not read.
    history_store "state/history/store";
    /// Where that store is set aside.
    history_store_old "state/history/store.old";
    /// The history of an earlier version: runs that are taken over.
    history_spool "state/history/spool";
    /// The node's own key, which signs its reports.
    key "trust/node.key";
    /// A key that was damaged and replaced.
    key_aside "trust/node.key.damaged";
    /// The keys of other nodes as they were first seen, as in `allowed_signers`.
    nodes "trust/nodes";
    /// The newest enrolment of each node that was accepted here.
    enrolments "trust/enrolments";
    /// Agent binaries, one directory per version.
    slots "slots";
    /// The link to the slot that runs.
    slot_current "slots/current";
    /// The watchdog's phase.
    phase "state/phase";
    /// The second copy of the watchdog's phase: it names the last confirmed version when the first is damaged.
    phase_copy "trust/phase";
    /// What the watchdog needs after it was replaced or died: its child process, and which watchdog is on trial.
    watchdog "state/watchdog";
    /// Heartbeats of the watchdog and its child.
    heartbeats "state/heartbeats";
    /// A heartbeat store that could not be used.
    heartbeats_aside "state/heartbeats.damaged";
    /// The board of a single machine.
    board "state/board";
    /// A store of that board that could not be used.
    board_aside "state/board/store.damaged";
    /// What is kept about resources: one directory per type and id.
    resources "resources";
    /// The run lock: one run at a time; names its holder.
    lock "run/lock";
    /// The socket that the command line talks to.
    socket "run/agent.sock";
    /// The watchdog lock: one watchdog at a time; names its holder.
    watchdog_lock "run/watchdog.lock";
    /// The watchdog's own socket.
    watchdog_socket "run/watchdog.sock";
}

/// What users write in a states repository.
pub mod tree {
    /// The manifest.
    pub const MANIFEST: &str = "manifest.yaml";
    /// The state tree, unless `roots` moves it.
    pub const STATES: &str = "states";
    /// The pillar tree, unless `roots` moves it.
    pub const PILLAR: &str = "pillar";
    /// External state modules.
    pub const MODULES: &str = "_states";
    /// Executables of resource types.
    pub const RESOURCE_TYPES: &str = "_resources";
    /// Recorded facts, one file per node.
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
    fn all_paths_are_below_the_root_and_distinct() {
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

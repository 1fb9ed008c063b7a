//! All default values, each with its unit in its type or its name.

use std::time::Duration;

/// How often the remotes are polled.
pub const POLL: Duration = Duration::from_secs(60);
/// How long one fetch may take.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How many generations of states are kept.
pub const KEEP_GENERATIONS: i64 = 3;
/// How often every file of the current generation is hashed, even when its timestamps are unchanged.
pub const VERIFY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum size of everything below `root`, in bytes.
pub const KEEP_BYTES: u64 = 512 << 20;
/// The least that `keep_bytes` can be, in bytes: a repository, two generations and a few runs.
pub const MIN_KEEP_BYTES: u64 = 16 << 20;
/// Maximum size of one response of a remote, in bytes.
pub const MAX_PACK: u64 = 512 << 20;
/// Maximum size of one file in a states repository, in bytes.
pub const MAX_FILE: u64 = 64 << 20;
/// Maximum number of files in a states repository.
pub const MAX_FILES: i64 = 100_000;
/// How long before a reboot logged-in users are notified.
pub const REBOOT_NOTICE: Duration = Duration::from_secs(60);
/// The branch that a remote is followed on.
pub const BRANCH: &str = "main";
/// How many valid signatures a manifest needs.
pub const THRESHOLD: i64 = 1;
/// The lowest serial that a manifest may have.
pub const MIN_SERIAL: i64 = 0;
/// How long before the end of a manifest every run warns.
pub const EXPIRY_WARNING: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often the node converges without a new revision.
pub const RUN_EVERY: Duration = Duration::from_secs(30 * 60);
/// How long one run may take.
pub const RUN_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How many runs the history keeps.
pub const KEEP_RUNS: i64 = 50;
/// How many orphans a run removes at most.
pub const PRUNE_MAX: i64 = 20;
/// How long one health check may take.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a health check is tried before it counts as failed.
pub const HEALTH_TRIES: i64 = 3;
/// How many runs of one scheduled entry may run at the same time.
pub const MAX_RUNNING: i64 = 1;
/// When a webhook is called, separated by commas.
pub const WEBHOOK_ON: &str = "failure,expiry";
/// How long one webhook call may take.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a node reports to a Git board when nothing changed: every report is a push.
pub const BOARD_EVERY_GIT: Duration = Duration::from_secs(15 * 60);
/// How often a node reports to other kinds of board when nothing changed.
pub const BOARD_EVERY: Duration = Duration::from_secs(30);
/// The bucket of a NATS board.
pub const BOARD_BUCKET: &str = "zagent";
/// How often the rollout record is polled while this node is part of the rollout.
pub const ROLLOUT_POLL: Duration = Duration::from_secs(10);
/// The fact that names a node's role, for canaries.
pub const ROLE_FACT: &str = "role";
/// The pillar key that lists resources.
pub const RESOURCES_KEY: &str = "resources";
/// How many resources run at the same time.
pub const RESOURCE_JOBS: i64 = 8;
/// How long one run on one resource may take.
pub const RESOURCE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum size of what one resource may answer to one call, in bytes.
pub const RESOURCE_OUTPUT: u64 = 16 << 20;
/// How long an external pillar, an external top or an executable fact may take.
pub const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum steps per template.
pub const FUEL: i64 = 10_000_000;
/// Maximum nesting of calls, includes and imports in templates.
pub const RECURSION: i64 = 100;
/// Maximum output of one template, in bytes.
pub const OUTPUT_BYTES: u64 = 8 << 20;
/// Maximum size of one source file, in bytes.
pub const SOURCE_BYTES: u64 = 8 << 20;
/// Maximum nodes per YAML document, with aliases expanded.
pub const YAML_NODES: i64 = 500_000;
/// Maximum nesting of a YAML document.
pub const YAML_DEPTH: i64 = 128;
/// Maximum SLS files per compile.
pub const FILES: i64 = 20_000;

/// The shortest time between two polls of a remote.
pub(super) const MIN_POLL: Duration = Duration::from_secs(1);
/// The longest time that any setting accepts.
pub(super) const MAX_TIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The shortest time limit.
pub(super) const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The shortest time between two runs.
pub(super) const MIN_EVERY: Duration = Duration::from_secs(10);
/// The largest count that any setting accepts.
pub(super) const MAX_COUNT: i64 = 1_000_000_000;
/// The largest size that any setting accepts.
pub(super) const MAX_BYTES: u64 = 1 << 30;

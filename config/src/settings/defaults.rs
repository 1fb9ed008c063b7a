//! Every default, named, with its unit in its type or its name.

use std::time::Duration;

/// How often the remotes are asked.
pub const POLL: Duration = Duration::from_secs(60);
/// How long one fetch may take.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How many generations of states are kept.
pub const KEEP_GENERATIONS: i64 = 3;
/// How often every file of the current generation is hashed, whatever its times say.
pub const VERIFY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of one answer of a remote.
pub const MAX_PACK: u64 = 512 << 20;
/// Bytes of one file of a states repository.
pub const MAX_FILE: u64 = 64 << 20;
/// Files of a states repository.
pub const MAX_FILES: i64 = 100_000;
/// How long before a reboot everybody on the host is told.
pub const REBOOT_NOTICE: Duration = Duration::from_secs(60);
/// The branch that a remote is followed on.
pub const BRANCH: &str = "main";
/// How many good signatures a manifest needs.
pub const THRESHOLD: i64 = 1;
/// How often the node converges without news.
pub const RUN_EVERY: Duration = Duration::from_secs(30 * 60);
/// How long one run may take.
pub const RUN_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How many runs the history keeps.
pub const KEEP_RUNS: i64 = 50;
/// How long one health check may take.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a health check is tried before it counts as failed.
pub const HEALTH_TRIES: i64 = 3;
/// How many runs of one scheduled entry may be under way.
pub const MAX_RUNNING: i64 = 1;
/// How long one call of a webhook may take.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a node reports to a Git board without a change: every report is a push.
pub const BOARD_EVERY_GIT: Duration = Duration::from_secs(15 * 60);
/// How often a node reports to another board without a change.
pub const BOARD_EVERY: Duration = Duration::from_secs(30);
/// The bucket of a NATS board.
pub const BOARD_BUCKET: &str = "zagent";
/// How often the record of a rollout is asked for while this node is part of it.
pub const ROLLOUT_POLL: Duration = Duration::from_secs(10);
/// The fact that names a node's role, for canaries.
pub const ROLE_FACT: &str = "role";
/// The pillar key that lists resources.
pub const RESOURCES_KEY: &str = "resources";
/// How long an external pillar, an external top or an executable fact may take.
pub const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
/// Steps of one template.
pub const FUEL: i64 = 10_000_000;
/// Nested calls, includes and imports of templates.
pub const RECURSION: i64 = 100;
/// Bytes that one template may print.
pub const OUTPUT_BYTES: u64 = 8 << 20;
/// Bytes of one source file.
pub const SOURCE_BYTES: u64 = 8 << 20;
/// Nodes of one YAML document, aliases expanded.
pub const YAML_NODES: i64 = 500_000;
/// Nesting of one YAML document.
pub const YAML_DEPTH: i64 = 128;
/// SLS files of one compile.
pub const FILES: i64 = 20_000;

/// The shortest time between two questions to a remote.
pub(super) const MIN_POLL: Duration = Duration::from_secs(1);
/// The longest time that any setting takes.
pub(super) const MAX_TIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The shortest time limit.
pub(super) const MIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The shortest time between two runs.
pub(super) const MIN_EVERY: Duration = Duration::from_secs(10);
/// The largest count that any setting takes.
pub(super) const MAX_COUNT: i64 = 1_000_000_000;
/// The largest size that any setting takes.
pub(super) const MAX_BYTES: u64 = 1 << 30;

//! Every configuration key: its path, its type and its default. The one table that files, variables,
//! flags, checks and `zagent config show` read.

use std::time::Duration;

use super::defaults as d;
use crate::paths;
use crate::value::MergeStrategy;

/// The type of a key's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingKind {
    Text,
    Path,
    Bool,
    Number {
        min: i64,
        max: i64,
    },
    Time {
        min: Duration,
        max: Duration,
    },
    Size {
        min: u64,
        max: u64,
    },
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    Texts,
    /// `HH:MM`.
    Clock,
    /// `ADDRESS:PORT`.
    Address,
    /// `HOST:PORT`.
    HostPort,
    /// A URL that starts with `http://` or `https://`.
    Http,
    /// The name of a systemd unit.
    Unit,
    /// The name of a time zone, or `local`.
    Zone,
    /// A cron expression.
    Cron,
    /// The full id of a commit.
    Revision,
    /// A list of programs: each a path, or a list of a path and its arguments.
    Programs,
    /// A list of mappings.
    Records(&'static [SettingKey]),
    /// A mapping from a name to a mapping; entries of several files are merged.
    Named(&'static [SettingKey]),
    /// A mapping from a name to a target or a list of ids; entries of several files are merged.
    Groups,
}

impl SettingKind {
    /// True when the entries of several files are merged instead of the later replacing the earlier.
    pub(super) const fn is_additive(self) -> bool {
        matches!(self, Self::Named(_) | Self::Groups)
    }
}

/// The default of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingDefault {
    /// None; the key is optional.
    Unset,
    /// None; the key is required in its record.
    Required,
    Text(&'static str),
    Bool(bool),
    Number(i64),
    Time(Duration),
    Size(u64),
    Empty,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettingKey {
    pub(super) path: &'static str,
    pub(super) kind: SettingKind,
    pub(super) default: SettingDefault,
}

const fn key(path: &'static str, kind: SettingKind, preset: SettingDefault) -> SettingKey {
    SettingKey { path, kind, default: preset }
}

const COUNT: SettingKind = SettingKind::Number { min: 1, max: d::MAX_COUNT };
const SERIAL: SettingKind = SettingKind::Number { min: 0, max: i64::MAX };
const INTERVAL: SettingKind = SettingKind::Time { min: d::MIN_EVERY, max: d::MAX_TIME };
const POLL: SettingKind = SettingKind::Time { min: d::MIN_POLL, max: d::MAX_TIME };
const TIMEOUT: SettingKind = SettingKind::Time { min: d::MIN_TIMEOUT, max: d::MAX_TIME };
const DELAY: SettingKind = SettingKind::Time { min: Duration::ZERO, max: d::MAX_TIME };
const BYTES: SettingKind = SettingKind::Size { min: 1024, max: d::MAX_BYTES };

/// `trust.require`.
pub(super) const REQUIRE: &[&str] = &["none", "commit", "manifest", "both"];
/// `trust.unsigned_refs`.
pub(super) const UNSIGNED_REFS: &[&str] = &["testing", "rollout"];
/// `trust.manifest`.
pub(super) const MANIFEST: &[&str] = &["optional", "required"];
/// `run.schedule`.
pub(super) const SCHEDULES: &[&str] = &["levels", "eager", "ordered", "declared"];
/// `run.mode`.
pub(super) const RUN_MODES: &[&str] = &["apply", "audit"];
/// `run.prune.types`: kinds of things that a run can remove when no state manages them any more, in the order of their
/// removal.
pub const PRUNABLE_KINDS: &[&str] = &[
    "service",
    "cron",
    "at",
    "host",
    "mount",
    "ssh_auth",
    "symlink",
    "file",
    "directory",
    "pkgrepo",
    "pkg",
    "user",
    "group",
];
/// `webhooks.kind`.
pub(super) const WEBHOOK_KINDS: &[&str] = &["json", "github-status", "gitlab-status"];
/// `compat`.
pub(super) const COMPAT: &[&str] = &["none", "salt"];
/// `templates.cmd_run`.
pub(super) const PERMISSION: &[&str] = &["allow", "forbid"];
/// `resources.pillar`.
pub(super) const RESOURCE_PILLAR: &[&str] = &["resource", "node"];
/// `board.kind`.
pub(super) const BOARDS: &[&str] = &["none", "sled", "git", "nats"];
/// `listen_pages`.
pub(super) const LISTEN_PAGES: &[&str] = &["off", "summary", "full"];
/// `rollout.follow`.
pub(super) const FOLLOW: &[&str] = &["head", "rollouts"];
/// `webhooks.on`.
pub(super) const WEBHOOK_EVENTS: &[&str] =
    &["failure", "change", "drift", "recovery", "rollback", "expiry", "always"];
/// `reboot.policy`.
pub(super) const REBOOT: &[&str] = &["never", "window", "asked"];
/// `windows.days`.
pub(super) const DAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const REMOTE: &[SettingKey] = &[
    key("url", SettingKind::Text, SettingDefault::Required),
    key("branch", SettingKind::Text, SettingDefault::Text(d::BRANCH)),
    key("user", SettingKind::Text, SettingDefault::Unset),
    key("token_file", SettingKind::Path, SettingDefault::Unset),
    key("credential_helper", SettingKind::Text, SettingDefault::Unset),
    key("key", SettingKind::Path, SettingDefault::Unset),
    key("known_hosts", SettingKind::Path, SettingDefault::Unset),
    key("ca", SettingKind::Path, SettingDefault::Unset),
    key("proxy", SettingKind::Text, SettingDefault::Unset),
];

const HEALTH: &[SettingKey] = &[
    key("name", SettingKind::Text, SettingDefault::Unset),
    key("http", SettingKind::Http, SettingDefault::Unset),
    key("tcp", SettingKind::HostPort, SettingDefault::Unset),
    key("unit", SettingKind::Unit, SettingDefault::Unset),
    key("command", SettingKind::Text, SettingDefault::Unset),
    key("required", SettingKind::Bool, SettingDefault::Bool(true)),
    key("timeout", TIMEOUT, SettingDefault::Time(d::HEALTH_TIMEOUT)),
    key("tries", SettingKind::Number { min: 1, max: 100 }, SettingDefault::Number(d::HEALTH_TRIES)),
];

const WINDOW: &[SettingKey] = &[
    key("days", SettingKind::Choices(DAYS), SettingDefault::Empty),
    key("from", SettingKind::Clock, SettingDefault::Required),
    key("to", SettingKind::Clock, SettingDefault::Required),
    key("timezone", SettingKind::Zone, SettingDefault::Text("local")),
];

const SCHEDULE_ENTRY: &[SettingKey] = &[
    key("every", INTERVAL, SettingDefault::Unset),
    key("cron", SettingKind::Cron, SettingDefault::Unset),
    key("splay", DELAY, SettingDefault::Time(Duration::ZERO)),
    key("maxrunning", SettingKind::Number { min: 1, max: 100 }, SettingDefault::Number(d::MAX_RUNNING)),
    key("catch_up", SettingKind::Bool, SettingDefault::Bool(true)),
    key("sls", SettingKind::Texts, SettingDefault::Empty),
    key("test", SettingKind::Bool, SettingDefault::Bool(false)),
    key("target", SettingKind::Text, SettingDefault::Unset),
];

const WEBHOOK: &[SettingKey] = &[
    key("url", SettingKind::Http, SettingDefault::Required),
    key("on", SettingKind::Choices(WEBHOOK_EVENTS), SettingDefault::Text(d::WEBHOOK_ON)),
    key("timeout", TIMEOUT, SettingDefault::Time(d::WEBHOOK_TIMEOUT)),
    key("secret_file", SettingKind::Path, SettingDefault::Unset),
    key("kind", SettingKind::Choice(WEBHOOK_KINDS), SettingDefault::Text("json")),
    key("token_file", SettingKind::Path, SettingDefault::Unset),
];

const ENVIRONMENT: &[SettingKey] = &[
    key("states", SettingKind::Path, SettingDefault::Unset),
    key("pillar", SettingKind::Path, SettingDefault::Unset),
];

/// All keys, in the order in which `zagent config show` prints them.
pub(super) const KEYS: &[SettingKey] = &[
    key("id", SettingKind::Text, SettingDefault::Unset),
    key("root", SettingKind::Path, SettingDefault::Text(paths::DEFAULT_ROOT)),
    key(
        "keep_bytes",
        SettingKind::Size { min: d::MIN_KEEP_BYTES, max: d::MAX_BYTES },
        SettingDefault::Size(d::KEEP_BYTES),
    ),
    key("fleet", SettingKind::Text, SettingDefault::Unset),
    key("source.remotes", SettingKind::Records(REMOTE), SettingDefault::Empty),
    key("source.poll", POLL, SettingDefault::Time(d::POLL)),
    key("source.timeout", TIMEOUT, SettingDefault::Time(d::FETCH_TIMEOUT)),
    key(
        "source.keep",
        SettingKind::Number { min: 2, max: 1000 },
        SettingDefault::Number(d::KEEP_GENERATIONS),
    ),
    key("source.testing", SettingKind::Bool, SettingDefault::Bool(true)),
    key("source.verify_every", INTERVAL, SettingDefault::Time(d::VERIFY_EVERY)),
    key("source.max_pack", BYTES, SettingDefault::Size(d::MAX_PACK)),
    key("source.max_file", BYTES, SettingDefault::Size(d::MAX_FILE)),
    key("source.max_files", COUNT, SettingDefault::Number(d::MAX_FILES)),
    key("baked", SettingKind::Path, SettingDefault::Text(paths::DEFAULT_BAKED)),
    key("roots.states", SettingKind::Path, SettingDefault::Text(paths::tree::STATES)),
    key("roots.pillar", SettingKind::Path, SettingDefault::Text(paths::tree::PILLAR)),
    key("environments", SettingKind::Named(ENVIRONMENT), SettingDefault::Empty),
    key("env", SettingKind::Text, SettingDefault::Unset),
    key("trust.require", SettingKind::Choice(REQUIRE), SettingDefault::Text("none")),
    key("trust.allowed_signers", SettingKind::Path, SettingDefault::Text(paths::DEFAULT_ALLOWED_SIGNERS)),
    key("trust.revoked_keys", SettingKind::Path, SettingDefault::Unset),
    key("trust.openpgp_keyring", SettingKind::Path, SettingDefault::Unset),
    key("trust.threshold", SettingKind::Number { min: 1, max: 100 }, SettingDefault::Number(d::THRESHOLD)),
    key("trust.manifest", SettingKind::Choice(MANIFEST), SettingDefault::Text("optional")),
    key("trust.fast_forward", SettingKind::Bool, SettingDefault::Bool(true)),
    key("trust.repository", SettingKind::Text, SettingDefault::Unset),
    key("trust.first.commit", SettingKind::Revision, SettingDefault::Unset),
    key("trust.first.serial", SERIAL, SettingDefault::Unset),
    key("trust.min_serial", SERIAL, SettingDefault::Number(d::MIN_SERIAL)),
    key("trust.unsigned_refs", SettingKind::Choices(UNSIGNED_REFS), SettingDefault::Empty),
    key("run.mode", SettingKind::Choice(RUN_MODES), SettingDefault::Text("apply")),
    key("run.every", INTERVAL, SettingDefault::Time(d::RUN_EVERY)),
    key("run.schedule", SettingKind::Choice(SCHEDULES), SettingDefault::Text("levels")),
    key("run.jobs", SettingKind::Number { min: 1, max: 10_000 }, SettingDefault::Unset),
    key("run.timeout", TIMEOUT, SettingDefault::Time(d::RUN_TIMEOUT)),
    key("run.keep", COUNT, SettingDefault::Number(d::KEEP_RUNS)),
    key("run.prune.types", SettingKind::Choices(PRUNABLE_KINDS), SettingDefault::Empty),
    key("run.prune.max", SettingKind::Number { min: 0, max: 10_000 }, SettingDefault::Number(d::PRUNE_MAX)),
    key("compat", SettingKind::Choice(COMPAT), SettingDefault::Text("none")),
    key("facts_dir", SettingKind::Path, SettingDefault::Text(paths::DEFAULT_FACTS_DIR)),
    key("pillar.merge", SettingKind::Choice(&MergeStrategy::NAMES), SettingDefault::Text("smart")),
    key("pillar.merge_lists", SettingKind::Bool, SettingDefault::Bool(false)),
    key("pillar.env", SettingKind::Text, SettingDefault::Unset),
    key("secrets.identity", SettingKind::Path, SettingDefault::Text(paths::DEFAULT_AGE_IDENTITY)),
    key("ext_pillar", SettingKind::Programs, SettingDefault::Empty),
    key("master_tops", SettingKind::Programs, SettingDefault::Empty),
    key("nodegroups", SettingKind::Groups, SettingDefault::Empty),
    key("templates.cmd_run", SettingKind::Choice(PERMISSION), SettingDefault::Text("allow")),
    key("limits.fuel", COUNT, SettingDefault::Number(d::FUEL)),
    key("limits.recursion", SettingKind::Number { min: 10, max: 1000 }, SettingDefault::Number(d::RECURSION)),
    key("limits.output", BYTES, SettingDefault::Size(d::OUTPUT_BYTES)),
    key("limits.source", BYTES, SettingDefault::Size(d::SOURCE_BYTES)),
    key("limits.yaml_nodes", COUNT, SettingDefault::Number(d::YAML_NODES)),
    key(
        "limits.yaml_depth",
        SettingKind::Number { min: 8, max: 1000 },
        SettingDefault::Number(d::YAML_DEPTH),
    ),
    key("limits.files", COUNT, SettingDefault::Number(d::FILES)),
    key("limits.program_timeout", TIMEOUT, SettingDefault::Time(d::PROGRAM_TIMEOUT)),
    key("health", SettingKind::Records(HEALTH), SettingDefault::Empty),
    key("windows", SettingKind::Records(WINDOW), SettingDefault::Empty),
    key("reboot.policy", SettingKind::Choice(REBOOT), SettingDefault::Text("never")),
    key("reboot.notice", DELAY, SettingDefault::Time(d::REBOOT_NOTICE)),
    key("schedule", SettingKind::Named(SCHEDULE_ENTRY), SettingDefault::Empty),
    key("board.kind", SettingKind::Choice(BOARDS), SettingDefault::Text("none")),
    key("board.url", SettingKind::Text, SettingDefault::Unset),
    key("board.credentials", SettingKind::Path, SettingDefault::Unset),
    key("board.user", SettingKind::Text, SettingDefault::Unset),
    key("board.known_hosts", SettingKind::Path, SettingDefault::Unset),
    key("board.ca", SettingKind::Path, SettingDefault::Unset),
    key("board.bucket", SettingKind::Text, SettingDefault::Text(d::BOARD_BUCKET)),
    key("board.every", INTERVAL, SettingDefault::Unset),
    key("board.allowed_nodes", SettingKind::Path, SettingDefault::Unset),
    key("board.require_enrolment", SettingKind::Bool, SettingDefault::Bool(false)),
    key("rollout.url", SettingKind::Text, SettingDefault::Unset),
    key("rollout.user", SettingKind::Text, SettingDefault::Unset),
    key("rollout.credentials", SettingKind::Path, SettingDefault::Unset),
    key("rollout.key", SettingKind::Path, SettingDefault::Unset),
    key("rollout.allowed_signers", SettingKind::Path, SettingDefault::Unset),
    key("rollout.follow", SettingKind::Choice(FOLLOW), SettingDefault::Text("head")),
    key("rollout.poll", POLL, SettingDefault::Time(d::ROLLOUT_POLL)),
    key("rollout.role", SettingKind::Text, SettingDefault::Text(d::ROLE_FACT)),
    key("rollout.facts", SettingKind::Texts, SettingDefault::Empty),
    key("driver", SettingKind::Bool, SettingDefault::Bool(false)),
    key("listen", SettingKind::Address, SettingDefault::Unset),
    key("listen_pages", SettingKind::Choice(LISTEN_PAGES), SettingDefault::Text("summary")),
    key("socket_group", SettingKind::Text, SettingDefault::Unset),
    key("socket_readers", SettingKind::Text, SettingDefault::Unset),
    key("audit", SettingKind::Path, SettingDefault::Unset),
    key("webhooks", SettingKind::Records(WEBHOOK), SettingDefault::Empty),
    key("resources_key", SettingKind::Text, SettingDefault::Text(d::RESOURCES_KEY)),
    key("resources.target", SettingKind::Text, SettingDefault::Unset),
    key("resources.pillar", SettingKind::Choice(RESOURCE_PILLAR), SettingDefault::Text("resource")),
    key(
        "resources.jobs",
        SettingKind::Number { min: 1, max: 1000 },
        SettingDefault::Number(d::RESOURCE_JOBS),
    ),
    key("resources.timeout", TIMEOUT, SettingDefault::Time(d::RESOURCE_TIMEOUT)),
    key("resources.max_output", BYTES, SettingDefault::Size(d::RESOURCE_OUTPUT)),
    key("resources.binaries", SettingKind::Path, SettingDefault::Unset),
];

/// Finds a key by its path.
pub(super) fn find(path: &str) -> Option<&'static SettingKey> {
    KEYS.iter().find(|key| key.path == path)
}

/// True when there are keys below this path.
pub(super) fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The names allowed in a section (empty for the top level).
pub(super) fn names_in(section: &str) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(move |key| {
        let rest =
            if section.is_empty() { key.path } else { key.path.strip_prefix(section)?.strip_prefix('.')? };
        rest.split('.').next()
    })
}

/// The variable that sets a key: `run.every` is `ZAGENT_RUN_EVERY`.
pub(super) fn variable_name(path: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// The prefix of environment variables.
pub(super) const VARIABLE_PREFIX: &str = "ZAGENT_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_share_a_path_or_a_variable() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(!is_section(key.path), "{} is a key and a section", key.path);
            for other in &KEYS[..i] {
                assert_ne!(
                    variable_name(key.path),
                    variable_name(other.path),
                    "{} and {}",
                    key.path,
                    other.path
                );
            }
        }
    }
}

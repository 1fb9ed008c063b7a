//! Every key there is: its path, what it takes, and what holds without it. The one table that files, variables,
//! flags, checks and `zagent config show` read.

use std::time::Duration;

use super::defaults as d;
use crate::paths;
use crate::value::MergeStrategy;

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
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
    /// An address that begins with `http://` or `https://`.
    Http,
    /// The name of a unit of systemd.
    Unit,
    /// The name of a time zone, or `local`.
    Zone,
    /// A cron expression.
    Cron,
    /// A list of programs: each a path, or a list of a path and its arguments.
    Programs,
    /// A list of mappings.
    Records(&'static [Key]),
    /// A mapping from a name to a mapping; entries of several files add up.
    Named(&'static [Key]),
    /// A mapping from a name to a target or a list of ids; entries of several files add up.
    Groups,
}

impl Kind {
    /// True when the entries of several files add up instead of the later replacing the earlier.
    pub(super) const fn adds_up(self) -> bool {
        matches!(self, Self::Named(_) | Self::Groups)
    }
}

/// What holds when nobody says anything.
#[derive(Clone, Copy, Debug)]
pub(super) enum Preset {
    /// Nothing; the key is optional.
    Unset,
    /// Nothing; the key must be there whenever its record is.
    Needed,
    Text(&'static str),
    Bool(bool),
    Number(i64),
    Time(Duration),
    Size(u64),
    Empty,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    pub(super) preset: Preset,
}

const fn key(path: &'static str, kind: Kind, preset: Preset) -> Key {
    Key { path, kind, preset }
}

const COUNT: Kind = Kind::Number { min: 1, max: d::MAX_COUNT };
const EVERY: Kind = Kind::Time { min: d::MIN_EVERY, max: d::MAX_TIME };
const POLL: Kind = Kind::Time { min: d::MIN_POLL, max: d::MAX_TIME };
const LIMIT: Kind = Kind::Time { min: d::MIN_TIMEOUT, max: d::MAX_TIME };
const WAIT: Kind = Kind::Time { min: Duration::ZERO, max: d::MAX_TIME };
const BYTES: Kind = Kind::Size { min: 1024, max: d::MAX_BYTES };

/// `trust.require`.
pub(super) const REQUIRE: &[&str] = &["none", "commit", "manifest", "both"];
/// `trust.manifest`.
pub(super) const MANIFEST: &[&str] = &["optional", "required"];
/// `run.schedule`.
pub(super) const SCHEDULES: &[&str] = &["levels", "eager", "ordered"];
/// `compat`.
pub(super) const COMPAT: &[&str] = &["none", "salt"];
/// `templates.cmd_run`.
pub(super) const PERMISSION: &[&str] = &["allow", "forbid"];
/// `board.kind`.
pub(super) const BOARDS: &[&str] = &["none", "sled", "git", "nats"];
/// `rollout.follow`.
pub(super) const FOLLOW: &[&str] = &["head", "rollouts"];
/// `webhooks.on`.
pub(super) const OCCASIONS: &[&str] = &["failure", "change", "recovery", "rollback", "always"];
/// `reboot.policy`.
pub(super) const REBOOT: &[&str] = &["never", "window", "asked"];
/// `windows.days`.
pub(super) const DAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const REMOTE: &[Key] = &[
    key("url", Kind::Text, Preset::Needed),
    key("branch", Kind::Text, Preset::Text(d::BRANCH)),
    key("user", Kind::Text, Preset::Unset),
    key("token_file", Kind::Path, Preset::Unset),
    key("credential_helper", Kind::Text, Preset::Unset),
    key("key", Kind::Path, Preset::Unset),
    key("known_hosts", Kind::Path, Preset::Unset),
    key("ca", Kind::Path, Preset::Unset),
    key("proxy", Kind::Text, Preset::Unset),
];

const HEALTH: &[Key] = &[
    key("name", Kind::Text, Preset::Unset),
    key("http", Kind::Http, Preset::Unset),
    key("tcp", Kind::HostPort, Preset::Unset),
    key("unit", Kind::Unit, Preset::Unset),
    key("command", Kind::Text, Preset::Unset),
    key("required", Kind::Bool, Preset::Bool(true)),
    key("timeout", LIMIT, Preset::Time(d::HEALTH_TIMEOUT)),
    key("tries", Kind::Number { min: 1, max: 100 }, Preset::Number(d::HEALTH_TRIES)),
];

const WINDOW: &[Key] = &[
    key("days", Kind::Choices(DAYS), Preset::Empty),
    key("from", Kind::Clock, Preset::Needed),
    key("to", Kind::Clock, Preset::Needed),
    key("timezone", Kind::Zone, Preset::Text("local")),
];

const ENTRY: &[Key] = &[
    key("every", EVERY, Preset::Unset),
    key("cron", Kind::Cron, Preset::Unset),
    key("splay", WAIT, Preset::Time(Duration::ZERO)),
    key("maxrunning", Kind::Number { min: 1, max: 100 }, Preset::Number(d::MAX_RUNNING)),
    key("catch_up", Kind::Bool, Preset::Bool(true)),
    key("sls", Kind::Texts, Preset::Empty),
    key("test", Kind::Bool, Preset::Bool(false)),
];

const WEBHOOK: &[Key] = &[
    key("url", Kind::Http, Preset::Needed),
    key("on", Kind::Choices(OCCASIONS), Preset::Text("failure")),
    key("timeout", LIMIT, Preset::Time(d::WEBHOOK_TIMEOUT)),
    key("secret_file", Kind::Path, Preset::Unset),
];

const ENVIRONMENT: &[Key] =
    &[key("states", Kind::Path, Preset::Unset), key("pillar", Kind::Path, Preset::Unset)];

/// All keys, in the order in which `zagent config show` prints them.
pub(super) const KEYS: &[Key] = &[
    key("id", Kind::Text, Preset::Unset),
    key("root", Kind::Path, Preset::Text(paths::DEFAULT_ROOT)),
    key("source.remotes", Kind::Records(REMOTE), Preset::Empty),
    key("source.poll", POLL, Preset::Time(d::POLL)),
    key("source.timeout", LIMIT, Preset::Time(d::FETCH_TIMEOUT)),
    key("source.keep", Kind::Number { min: 2, max: 1000 }, Preset::Number(d::KEEP_GENERATIONS)),
    key("source.testing", Kind::Bool, Preset::Bool(true)),
    key("source.verify_every", EVERY, Preset::Time(d::VERIFY_EVERY)),
    key("source.max_pack", BYTES, Preset::Size(d::MAX_PACK)),
    key("source.max_file", BYTES, Preset::Size(d::MAX_FILE)),
    key("source.max_files", COUNT, Preset::Number(d::MAX_FILES)),
    key("baked", Kind::Path, Preset::Text(paths::DEFAULT_BAKED)),
    key("roots.states", Kind::Path, Preset::Text(paths::tree::STATES)),
    key("roots.pillar", Kind::Path, Preset::Text(paths::tree::PILLAR)),
    key("environments", Kind::Named(ENVIRONMENT), Preset::Empty),
    key("env", Kind::Text, Preset::Unset),
    key("trust.require", Kind::Choice(REQUIRE), Preset::Text("none")),
    key("trust.allowed_signers", Kind::Path, Preset::Text(paths::DEFAULT_ALLOWED_SIGNERS)),
    key("trust.revoked_keys", Kind::Path, Preset::Unset),
    key("trust.openpgp_keyring", Kind::Path, Preset::Unset),
    key("trust.threshold", Kind::Number { min: 1, max: 100 }, Preset::Number(d::THRESHOLD)),
    key("trust.manifest", Kind::Choice(MANIFEST), Preset::Text("optional")),
    key("trust.fast_forward", Kind::Bool, Preset::Bool(true)),
    key("run.every", EVERY, Preset::Time(d::RUN_EVERY)),
    key("run.schedule", Kind::Choice(SCHEDULES), Preset::Text("levels")),
    key("run.jobs", Kind::Number { min: 1, max: 10_000 }, Preset::Unset),
    key("run.timeout", LIMIT, Preset::Time(d::RUN_TIMEOUT)),
    key("run.keep", COUNT, Preset::Number(d::KEEP_RUNS)),
    key("compat", Kind::Choice(COMPAT), Preset::Text("none")),
    key("facts_dir", Kind::Path, Preset::Text(paths::DEFAULT_FACTS_DIR)),
    key("pillar.merge", Kind::Choice(&MergeStrategy::NAMES), Preset::Text("smart")),
    key("pillar.merge_lists", Kind::Bool, Preset::Bool(false)),
    key("pillar.env", Kind::Text, Preset::Unset),
    key("ext_pillar", Kind::Programs, Preset::Empty),
    key("master_tops", Kind::Programs, Preset::Empty),
    key("nodegroups", Kind::Groups, Preset::Empty),
    key("templates.cmd_run", Kind::Choice(PERMISSION), Preset::Text("allow")),
    key("limits.fuel", COUNT, Preset::Number(d::FUEL)),
    key("limits.recursion", Kind::Number { min: 10, max: 1000 }, Preset::Number(d::RECURSION)),
    key("limits.output", BYTES, Preset::Size(d::OUTPUT_BYTES)),
    key("limits.source", BYTES, Preset::Size(d::SOURCE_BYTES)),
    key("limits.yaml_nodes", COUNT, Preset::Number(d::YAML_NODES)),
    key("limits.yaml_depth", Kind::Number { min: 8, max: 1000 }, Preset::Number(d::YAML_DEPTH)),
    key("limits.files", COUNT, Preset::Number(d::FILES)),
    key("limits.program_timeout", LIMIT, Preset::Time(d::PROGRAM_TIMEOUT)),
    key("health", Kind::Records(HEALTH), Preset::Empty),
    key("windows", Kind::Records(WINDOW), Preset::Empty),
    key("reboot.policy", Kind::Choice(REBOOT), Preset::Text("never")),
    key("reboot.notice", WAIT, Preset::Time(d::REBOOT_NOTICE)),
    key("schedule", Kind::Named(ENTRY), Preset::Empty),
    key("board.kind", Kind::Choice(BOARDS), Preset::Text("none")),
    key("board.url", Kind::Text, Preset::Unset),
    key("board.credentials", Kind::Path, Preset::Unset),
    key("board.user", Kind::Text, Preset::Unset),
    key("board.known_hosts", Kind::Path, Preset::Unset),
    key("board.ca", Kind::Path, Preset::Unset),
    key("board.bucket", Kind::Text, Preset::Text(d::BOARD_BUCKET)),
    key("board.every", EVERY, Preset::Unset),
    key("board.allowed_nodes", Kind::Path, Preset::Unset),
    key("rollout.url", Kind::Text, Preset::Unset),
    key("rollout.user", Kind::Text, Preset::Unset),
    key("rollout.credentials", Kind::Path, Preset::Unset),
    key("rollout.key", Kind::Path, Preset::Unset),
    key("rollout.follow", Kind::Choice(FOLLOW), Preset::Text("head")),
    key("rollout.poll", POLL, Preset::Time(d::ROLLOUT_POLL)),
    key("rollout.role", Kind::Text, Preset::Text(d::ROLE_FACT)),
    key("rollout.facts", Kind::Texts, Preset::Empty),
    key("driver", Kind::Bool, Preset::Bool(false)),
    key("listen", Kind::Address, Preset::Unset),
    key("socket_group", Kind::Text, Preset::Unset),
    key("audit", Kind::Path, Preset::Unset),
    key("webhooks", Kind::Records(WEBHOOK), Preset::Empty),
    key("resources_key", Kind::Text, Preset::Text(d::RESOURCES_KEY)),
];

/// Finds a key by its path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// True when keys stand below this path.
pub(super) fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The names that may stand in a section (empty for the top).
pub(super) fn names_in(section: &str) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(move |key| {
        let rest =
            if section.is_empty() { key.path } else { key.path.strip_prefix(section)?.strip_prefix('.')? };
        rest.split('.').next()
    })
}

/// The variable that sets a key: `run.every` is `ZAGENT_RUN_EVERY`.
pub(super) fn variable(path: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

/// What names of variables start with.
pub(super) const VARIABLE_PREFIX: &str = "ZAGENT_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_share_a_path_or_a_variable() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(!is_section(key.path), "{} is a key and a section", key.path);
            for other in &KEYS[..i] {
                assert_ne!(variable(key.path), variable(other.path), "{} and {}", key.path, other.path);
            }
        }
    }
}

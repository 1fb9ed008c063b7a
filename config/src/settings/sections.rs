//! The settings, in sections: typed, in range, checked against each other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::check::CheckedRecord;
use super::choices::{
    ApplyMode, BoardKind, CompatMode, Day, FollowMode, ListenPages, ManifestRule, RebootPolicy,
    RequiredSignatures, ResourcePillar, RunSchedule, TemplatePermission, UnsignedRef, WebhookKind,
    WebhookOccasion,
};
use super::defaults::{BOARD_EVERY, BOARD_EVERY_GIT};
use super::fragment::SettingOrigin;
use crate::cron::CronSchedule;
use crate::ids::{EnvName, FleetId, NodeId, Revision};
use crate::paths::Paths;
use crate::repository_name;
use crate::value::{Map, MergeStrategy, Value};

/// All settings, valid.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's id.
    pub id: NodeId,
    /// Where the agent keeps its data.
    pub root: PathBuf,
    /// Maximum bytes of everything there.
    pub keep_bytes: u64,
    /// The fleet that the node belongs to: rollout records of another fleet are refused.
    pub fleet: Option<FleetId>,
    /// Where states come from.
    pub source: SourceSettings,
    /// States shipped with the image.
    pub baked: PathBuf,
    /// The state tree inside a repository.
    pub states_root: PathBuf,
    /// The pillar tree inside a repository.
    pub pillar_root: PathBuf,
    /// Environments besides `base`, by name.
    pub environments: Vec<EnvironmentSettings>,
    /// The state environment of the node; all environments when unset.
    pub env: Option<EnvName>,
    /// Which signatures and manifest a revision needs.
    pub trust: TrustSettings,
    /// How runs work.
    pub run: RunConfig,
    /// Whose behaviour applies: zagent's or Salt's.
    pub compat: CompatMode,
    /// Custom facts.
    pub facts_dir: PathBuf,
    /// How pillar data is merged.
    pub pillar: PillarSettings,
    /// The private key that opens age secrets: an SSH key or an age identity.
    pub age_identity: PathBuf,
    /// External pillars, each a program and its arguments.
    pub ext_pillar: Vec<Vec<String>>,
    /// External tops, each a program and its arguments.
    pub master_tops: Vec<Vec<String>>,
    /// Named groups for targets.
    pub nodegroups: Map,
    /// Whether templates may call `salt['cmd.run']` and similar functions.
    pub cmd_run: TemplatePermission,
    /// Limits for a tree.
    pub limits: CompileLimits,
    /// Checks after a run.
    pub health: Vec<HealthSettings>,
    /// When changes are allowed; always when empty.
    pub windows: Vec<MaintenanceWindow>,
    /// When the host is rebooted.
    pub reboot: RebootSettings,
    /// Scheduled runs, by name.
    pub schedule: Vec<ScheduledRun>,
    /// Where the node reports.
    pub board: BoardSettings,
    /// How it takes part in rollouts.
    pub rollout: RolloutSettings,
    /// True when this node may drive rollouts.
    pub driver: bool,
    /// Where health, metrics and the node page are served.
    pub listen: Option<SocketAddr>,
    /// How much of the node page is served there.
    pub listen_pages: ListenPages,
    /// The group that may use the socket, besides root; its members can run any SLS as root.
    pub socket_group: Option<String>,
    /// The group that may only read from the socket.
    pub socket_readers: Option<String>,
    /// The audit log file; below the root when unset.
    pub audit: Option<PathBuf>,
    /// Webhooks that are called about runs.
    pub webhooks: Vec<WebhookSettings>,
    /// The pillar key that lists resources.
    pub resources_key: String,
    /// How resources are managed.
    pub resources: ResourceSettings,
    pub(super) effective: Vec<EffectiveSetting>,
}

/// One key, its value as a file would spell it, and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveSetting {
    /// The key, such as `run.every` or `schedule.nightly`.
    pub key: String,
    /// Its value; null when it is unset.
    pub value: Value,
    /// Its origin.
    pub origin: SettingOrigin,
}

/// Where states come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSettings {
    /// Repositories, polled in order.
    pub remotes: Vec<RemoteSettings>,
    /// How often they are polled.
    pub poll: Duration,
    /// How long a fetch may take.
    pub timeout: Duration,
    /// How many generations are kept.
    pub keep: usize,
    /// True when the branch `testing/<node>` is used, as long as it is based on the followed branch.
    pub testing: bool,
    /// How often every file of the current generation is hashed.
    pub verify_every: Duration,
    /// Maximum size of one response of a remote, in bytes.
    pub max_pack: u64,
    /// Maximum size of one file, in bytes.
    pub max_file: u64,
    /// Maximum number of files per tree.
    pub max_files: usize,
}

/// When the host is rebooted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebootSettings {
    /// When the host may be rebooted.
    pub policy: RebootPolicy,
    /// How long before the reboot users are notified.
    pub notice: Duration,
}

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    /// Its address, or a directory.
    pub url: String,
    /// The branch to follow.
    pub branch: String,
    /// The user name, when the remote asks for one.
    pub user: Option<String>,
    /// A file with a token.
    pub token_file: Option<PathBuf>,
    /// A Git credential helper, as in Git's configuration.
    pub credential_helper: Option<String>,
    /// An SSH key.
    pub key: Option<PathBuf>,
    /// The known_hosts file for SSH; the user's and the system's when unset.
    pub known_hosts: Option<PathBuf>,
    /// CA certificates to trust.
    pub ca: Option<PathBuf>,
    /// A proxy; the one from the environment when unset.
    pub proxy: Option<String>,
}

/// An environment besides `base`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentSettings {
    /// Its name.
    pub name: EnvName,
    /// Its state tree.
    pub states: Option<PathBuf>,
    /// Its pillar tree.
    pub pillar: Option<PathBuf>,
}

/// Which signatures and manifest a revision needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustSettings {
    /// Which signatures are required.
    pub require: RequiredSignatures,
    /// The accepted signers.
    pub allowed_signers: PathBuf,
    /// Revoked keys, one per line.
    pub revoked_keys: Option<PathBuf>,
    /// OpenPGP keys whose commit signatures are accepted.
    pub openpgp_keyring: Option<PathBuf>,
    /// How many signatures a manifest needs.
    pub threshold: usize,
    /// Whether a manifest is required.
    pub manifest: ManifestRule,
    /// True when history must not be rewritten.
    pub fast_forward: bool,
    /// The name of the repository in manifests; that of any remote when unset.
    pub repository: Option<String>,
    /// What the first accepted revision must descend from.
    pub first: FirstContact,
    /// The lowest serial that is ever accepted.
    pub min_serial: u64,
    /// Which refs are used although nothing signs them.
    pub unsigned_refs: Vec<UnsignedRef>,
}

/// What is known about the repository before the node reads it for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstContact {
    /// The first accepted revision is this commit, or descends from it.
    pub commit: Option<Revision>,
    /// The first accepted manifest has at least this serial.
    pub serial: Option<u64>,
}

/// Which things that no state manages any more are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneSettings {
    /// Kinds of things; none are removed when empty.
    pub types: Vec<String>,
    /// More than this many in one run are not removed at all.
    pub max: usize,
}

/// How runs work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// Whether runs change the host.
    pub mode: ApplyMode,
    /// How often the node converges without a new revision.
    pub every: Duration,
    /// The order in which states run.
    pub schedule: RunSchedule,
    /// How many states run at once; depends on the number of cores when unset.
    pub jobs: Option<usize>,
    /// How long a run may take.
    pub timeout: Duration,
    /// How many runs the history keeps.
    pub keep: usize,
    /// Which things that no state manages any more are removed.
    pub prune: PruneSettings,
}

/// How pillar data is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PillarSettings {
    /// The strategy.
    pub merge: MergeStrategy,
    /// True when lists are concatenated.
    pub merge_lists: bool,
    /// The pillar environment of the node; all environments when unset.
    pub env: Option<EnvName>,
}

/// Limits for a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Maximum steps per template.
    pub fuel: u64,
    /// Maximum nesting of calls, includes and imports.
    pub recursion: usize,
    /// Maximum output of one template, in bytes.
    pub output: usize,
    /// Maximum size of one source file, in bytes.
    pub source: usize,
    /// Maximum nodes per YAML document.
    pub yaml_nodes: usize,
    /// Maximum nesting of a YAML document.
    pub yaml_depth: usize,
    /// Maximum SLS files per compile.
    pub files: usize,
    /// How long an external program may take.
    pub program_timeout: Duration,
}

/// A check after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Its name.
    pub name: String,
    /// What is checked.
    pub check: HealthProbe,
    /// True when its failure causes a rollback.
    pub required: bool,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How many attempts.
    pub tries: usize,
}

/// What a health check tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthProbe {
    /// A URL that answers 2xx.
    Http(String),
    /// A host and port that accept a connection.
    Tcp(String),
    /// A service that is active.
    Unit(String),
    /// A command that exits with 0.
    Command(String),
}

/// A maintenance window: a time in which changes are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// The days on which it starts; every day when empty.
    pub days: Vec<Day>,
    /// Its start, in minutes since midnight.
    pub from: u16,
    /// Its end, in minutes since midnight; before the start when it ends the next day.
    pub to: u16,
    /// The time zone, or `local`.
    pub timezone: String,
}

/// A scheduled run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledRun {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub when: ScheduleTrigger,
    /// The maximum random delay.
    pub splay: Duration,
    /// How many of its runs may run at the same time.
    pub maxrunning: usize,
    /// True when a missed run is made up for.
    pub catch_up: bool,
    /// The SLS files to run; the highstate when empty.
    pub sls: Vec<String>,
    /// True for a dry run.
    pub test: bool,
    /// Which resources run, and whether the node does; the node alone when unset.
    pub target: Option<String>,
}

/// When a scheduled entry runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleTrigger {
    /// At an interval.
    Every(Duration),
    /// By a cron expression.
    Cron(CronSchedule),
}

/// Where nodes report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardSettings {
    /// Which kind.
    pub kind: BoardKind,
    /// Its address.
    pub url: Option<String>,
    /// Credentials for it: a token (https), a key (ssh) or a creds file (nats).
    pub credentials: Option<PathBuf>,
    /// The user name, for https.
    pub user: Option<String>,
    /// The known_hosts file for SSH.
    pub known_hosts: Option<PathBuf>,
    /// CA certificates to trust.
    pub ca: Option<PathBuf>,
    /// The bucket, for nats.
    pub bucket: String,
    /// How often the node reports when nothing changed.
    pub every: Duration,
    /// The keys that may sign the reports of nodes, in the `allowed_signers` format with the node id as the principal.
    pub allowed_nodes: Option<PathBuf>,
    /// True when only nodes with a signed enrolment on the board count.
    pub require_enrolment: bool,
}

/// How this node takes part in rollouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSettings {
    /// Where rollout records are: a repository, or `board`; the first Git remote when unset.
    pub url: Option<String>,
    /// The user name, for https.
    pub user: Option<String>,
    /// Credentials for it: a token (https) or a key (ssh).
    pub credentials: Option<PathBuf>,
    /// The key that signs the driver's rollout records.
    pub key: Option<PathBuf>,
    /// The accepted signers of rollout records; those of `trust.allowed_signers` when unset.
    pub allowed_signers: Option<PathBuf>,
    /// What moves this node to another revision of the states.
    pub follow: FollowMode,
    /// How often the rollout record is polled while this node is part of the rollout.
    pub poll: Duration,
    /// The fact that names a node's role.
    pub role: String,
    /// Additional facts to report, for targets and canaries.
    pub facts: Vec<String>,
}

/// How resources are managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSettings {
    /// What the daemon runs besides the node: a compound target; the node alone when unset.
    pub target: Option<String>,
    /// Which pillar their states get.
    pub pillar: ResourcePillar,
    /// How many run at the same time.
    pub jobs: usize,
    /// How long one run on one resource may take.
    pub timeout: Duration,
    /// Maximum size of what one resource may answer to one call, in bytes.
    pub max_output: u64,
    /// The directory of programs for ssh resources, by machine: `zagent-aarch64`.
    pub binaries: Option<PathBuf>,
}

/// A webhook that is called about runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Its address.
    pub url: String,
    /// When it is called.
    pub on: Vec<WebhookOccasion>,
    /// How long a call may take.
    pub timeout: Duration,
    /// A file with the secret that signs calls.
    pub secret_file: Option<PathBuf>,
    /// What is sent.
    pub kind: WebhookKind,
    /// A file with the token that a commit status needs.
    pub token_file: Option<PathBuf>,
}

impl Settings {
    /// Moves the root, unless it is configured.
    pub fn set_default_root(&mut self, root: PathBuf) {
        let shown = self.effective.iter_mut().find(|e| e.key == "root" && e.origin == SettingOrigin::Default);
        if let Some(shown) = shown {
            shown.value = root.to_string_lossy().as_ref().into();
            self.root = root;
        }
    }

    /// Every path below the root.
    #[must_use]
    pub fn paths(&self) -> Paths {
        Paths::new(&self.root)
    }

    /// The names of the repository that manifests may carry: the configured one, or those of the remotes.
    #[must_use]
    pub fn repository_names(&self) -> Vec<String> {
        match &self.trust.repository {
            Some(name) => vec![repository_name(name)],
            None => self.source.remotes.iter().map(|remote| repository_name(&remote.url)).collect(),
        }
    }

    /// True when the key is set, from any origin.
    #[must_use]
    pub fn is_set(&self, key: &str) -> bool {
        self.effective.iter().any(|e| e.key == key && e.origin != SettingOrigin::Default)
    }

    /// Every key, its value and its origin, in the order of the documentation.
    #[must_use]
    pub fn effective(&self) -> &[EffectiveSetting] {
        &self.effective
    }
}

impl RunConfig {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self {
            mode: choice(all, "run.mode", ApplyMode::find),
            every: all.time("run.every"),
            schedule: choice(all, "run.schedule", RunSchedule::find),
            jobs: all.number_if("run.jobs").and_then(|n| usize::try_from(n).ok()),
            timeout: all.time("run.timeout"),
            keep: all.count("run.keep"),
            prune: PruneSettings { types: all.texts("run.prune.types"), max: all.count("run.prune.max") },
        }
    }
}

impl SourceSettings {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        let remote = |r: &CheckedRecord| RemoteSettings {
            url: r.text("url"),
            branch: r.text("branch"),
            user: r.text_if("user").map(str::to_owned),
            token_file: r.path_if("token_file"),
            credential_helper: r.text_if("credential_helper").map(str::to_owned),
            key: r.path_if("key"),
            known_hosts: r.path_if("known_hosts"),
            ca: r.path_if("ca"),
            proxy: r.text_if("proxy").map(str::to_owned),
        };
        Self {
            remotes: all.records("source.remotes").iter().map(remote).collect(),
            poll: all.time("source.poll"),
            timeout: all.time("source.timeout"),
            keep: all.count("source.keep"),
            testing: all.flag("source.testing"),
            verify_every: all.time("source.verify_every"),
            max_pack: all.size("source.max_pack") as u64,
            max_file: all.size("source.max_file") as u64,
            max_files: all.count("source.max_files"),
        }
    }
}

impl TrustSettings {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self {
            require: choice(all, "trust.require", RequiredSignatures::find),
            allowed_signers: all.path("trust.allowed_signers"),
            revoked_keys: all.path_if("trust.revoked_keys"),
            openpgp_keyring: all.path_if("trust.openpgp_keyring"),
            threshold: all.count("trust.threshold"),
            manifest: choice(all, "trust.manifest", ManifestRule::find),
            fast_forward: all.flag("trust.fast_forward"),
            repository: all.text_if("trust.repository").map(str::to_owned),
            first: FirstContact {
                commit: all.text_if("trust.first.commit").and_then(|text| text.parse().ok()),
                serial: all.number_if("trust.first.serial").and_then(|n| u64::try_from(n).ok()),
            },
            min_serial: all.count("trust.min_serial") as u64,
            unsigned_refs: all
                .texts("trust.unsigned_refs")
                .iter()
                .filter_map(|name| UnsignedRef::find(name))
                .collect(),
        }
    }

    /// True when refs of this kind are used: signatures protect them, or the configuration names them.
    #[must_use]
    pub fn uses(&self, kind: UnsignedRef) -> bool {
        self.require != RequiredSignatures::None || self.unsigned_refs.contains(&kind)
    }

    /// True when manifests must be signed.
    #[must_use]
    pub const fn signs_manifest(&self) -> bool {
        matches!(self.require, RequiredSignatures::Manifest | RequiredSignatures::Both)
    }

    /// True when commits must be signed.
    #[must_use]
    pub const fn signs_commit(&self) -> bool {
        matches!(self.require, RequiredSignatures::Commit | RequiredSignatures::Both)
    }
}

impl FirstContact {
    /// True when nothing is known: the first revision is trusted on first use.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.commit.is_none() && self.serial.is_none()
    }
}

impl RebootSettings {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self { policy: choice(all, "reboot.policy", RebootPolicy::find), notice: all.time("reboot.notice") }
    }
}

impl CompileLimits {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self {
            fuel: all.count("limits.fuel") as u64,
            recursion: all.count("limits.recursion"),
            output: all.size("limits.output"),
            source: all.size("limits.source"),
            yaml_nodes: all.count("limits.yaml_nodes"),
            yaml_depth: all.count("limits.yaml_depth"),
            files: all.count("limits.files"),
            program_timeout: all.time("limits.program_timeout"),
        }
    }
}

impl BoardSettings {
    /// The default report interval for a board of this kind.
    #[must_use]
    pub const fn default_every(kind: BoardKind) -> Duration {
        match kind {
            BoardKind::Git => BOARD_EVERY_GIT,
            _ => BOARD_EVERY,
        }
    }

    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self {
            kind: choice(all, "board.kind", BoardKind::find),
            url: all.text_if("board.url").map(str::to_owned),
            credentials: all.path_if("board.credentials"),
            user: all.text_if("board.user").map(str::to_owned),
            known_hosts: all.path_if("board.known_hosts"),
            ca: all.path_if("board.ca"),
            bucket: all.text("board.bucket"),
            every: all
                .time_if("board.every")
                .unwrap_or_else(|| Self::default_every(choice(all, "board.kind", BoardKind::find))),
            allowed_nodes: all.path_if("board.allowed_nodes"),
            require_enrolment: all.flag("board.require_enrolment"),
        }
    }
}

impl RolloutSettings {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self {
            url: all.text_if("rollout.url").map(str::to_owned),
            user: all.text_if("rollout.user").map(str::to_owned),
            credentials: all.path_if("rollout.credentials"),
            key: all.path_if("rollout.key"),
            allowed_signers: all.path_if("rollout.allowed_signers"),
            follow: choice(all, "rollout.follow", FollowMode::find),
            poll: all.time("rollout.poll"),
            role: all.text("rollout.role"),
            facts: all.texts("rollout.facts"),
        }
    }
}

impl ResourceSettings {
    pub(super) fn read(all: &CheckedRecord) -> Self {
        Self {
            target: all.text_if("resources.target").map(str::to_owned),
            pillar: choice(all, "resources.pillar", ResourcePillar::find),
            jobs: all.count("resources.jobs"),
            timeout: all.time("resources.timeout"),
            max_output: all.size("resources.max_output") as u64,
            binaries: all.path_if("resources.binaries"),
        }
    }
}

impl MaintenanceWindow {
    pub(super) fn read(r: &CheckedRecord) -> Self {
        Self {
            days: r.texts("days").iter().filter_map(|day| Day::find(day)).collect(),
            from: r.clock("from"),
            to: r.clock("to"),
            timezone: r.text("timezone"),
        }
    }
}

impl WebhookSettings {
    pub(super) fn read(r: &CheckedRecord) -> Self {
        Self {
            url: r.text("url"),
            on: r.texts("on").iter().filter_map(|on| WebhookOccasion::find(on)).collect(),
            timeout: r.time("timeout"),
            secret_file: r.path_if("secret_file"),
            kind: choice(r, "kind", WebhookKind::find),
            token_file: r.path_if("token_file"),
        }
    }
}

/// The choice of a key; the schema only accepts valid words.
pub(super) fn choice<T>(record: &CheckedRecord, name: &str, find: impl Fn(&str) -> Option<T>) -> T {
    record.text_if(name).and_then(find).expect("the schema lists the words of the choice")
}

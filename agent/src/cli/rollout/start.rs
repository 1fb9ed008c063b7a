//! `zagent rollout plan|start`: draft in, plan out; `start` also writes the record and drives it.
//!
//! Nothing is written before the plan is valid; `plan` refuses whatever `start` would refuse.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use zagent_config::ids::{NodeId, Revision, RolloutId};
use zagent_config::settings::{BoardKind, FollowMode, Settings, UnsignedRef};
use zagent_rollout::board::BoardError;
use zagent_rollout::driver::RolloutDriver;
use zagent_rollout::plan::{PlanError, RolloutDraft, RolloutPlan, plan_rollout};
use zagent_rollout::record::{Component, RolloutMode, RolloutRecord};
use zagent_rollout::records::{Records, RefusedReport, VersionedValue};
use zagent_rollout::report::NodeReport;
use zagent_rollout::targeting;

use super::board_args::{self, BoardArgs};
use super::draft::DraftArgs;
use super::drive::{ForegroundDrive, end_summary, exit_status};
use super::plan_view::{self, PlanView};
use super::{is_active, record_text, resolve, status};
use crate::cli::node::{is_silent, silence_limit};
use crate::cli::warn;
use crate::output::{OutputFormat, Ui, pluralize};
use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::timezone::local_zone;

/// Maximum number of rollout IDs per version and day.
const MAX_IDS: usize = 100;

/// Show the batches and any problems; writes nothing
#[derive(Debug, clap::Args)]
pub(super) struct RolloutPlanArgs {
    #[command(flatten)]
    draft: DraftArgs,

    #[command(flatten)]
    place: BoardArgs,
}

/// Start a rollout and drive it, unless `--detach` is given
#[derive(Debug, clap::Args)]
pub(super) struct RolloutStartArgs {
    #[command(flatten)]
    draft: DraftArgs,

    /// Only write the rollout; a node with `driver: true` or `zagent rollout drive` drives it
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    place: BoardArgs,
}

/// A valid plan, and its inputs.
struct PreparedPlan {
    plan: RolloutPlan,
    /// Nodes that have been silent for too long.
    silent_nodes: Vec<NodeId>,
    /// Nodes that only their first key vouches for.
    unproven_nodes: Vec<NodeId>,
    /// Nodes with a genuine and a refused report.
    forged_nodes: Vec<RefusedReport>,
    /// Head of the followed branch, when it differs from the commit to roll out.
    head: Option<(String, Revision)>,
    now: Timestamp,
}

impl RolloutPlanArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut records = board_args::open_records_for_review(&settings)?;
        let ready = prepare_plan(&self.draft, &settings, records.as_mut())?;
        self.place.print(&ready.plan_text(ui), &plan_view::plan_json(&ready.plan, ready.now), ui);
        ready.print_warnings(ui);
        warn_if_ignored(&settings, ui);
        Ok(ExitStatus::Success)
    }
}

/// Nodes that require no signatures ignore rollouts.
fn warn_if_ignored(settings: &Settings, ui: &mut Ui<'_>) {
    if !settings.trust.uses(UnsignedRef::Rollout) && settings.board.kind != BoardKind::Sled {
        let message = "rollout records are not signed (`trust.require: none`): nodes ignore them unless their \
                       `trust.unsigned_refs` lists `rollout`";
        warn(message, ui);
    }
}

impl RolloutStartArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut records = board_args::open_records_for_review(&settings)?;
        let ready = prepare_plan(&self.draft, &settings, records.as_mut())?;
        let is_text = self.format() == OutputFormat::Text;
        if is_text {
            ui.print(&ready.plan_text(ui));
        }
        ready.print_warnings(ui);
        warn_if_ignored(&settings, ui);
        let record = self.write_record(records.as_mut(), ready.plan.record)?;
        let id = record.id.clone();
        if record.dry_run || record.mode == RolloutMode::Clock || self.detach {
            let words = format!("\n{}\n", written_text(&record, settings.trust.threshold));
            self.place.print(&words, &record, ui);
            return Ok(ExitStatus::Success);
        }
        ui.message(&format!("\n{id} is written; Ctrl-C stops the driver, not the rollout"));
        let mut records = board_args::open_records(&settings)?;
        let mut reports = board_args::open_reports(&settings)?;
        let driver = RolloutDriver {
            id: board_args::driver_id(&settings),
            records: records.as_mut(),
            reports: reports.as_mut(),
        };
        let mut drive = ForegroundDrive { driver, format: self.format() };
        let (mut done, exit_code) = drive.run_until_done(vec![id], ui)?;
        let last = done.pop().unwrap_or(record);
        let text = match exit_status(&last) {
            ExitStatus::Success => format!("{}\n", end_summary(&last)),
            _ => {
                let facts = status::StatusFacts::read(&settings, records.as_ref(), &last, ui);
                format!("\n{}", facts.page(&last, ui))
            }
        };
        self.place.print(&text, &last, ui);
        Ok(exit_code)
    }

    /// Writes the record under a free ID.
    fn write_record(
        &self,
        records: &mut dyn Records,
        mut record: RolloutRecord,
    ) -> Result<RolloutRecord, AgentError> {
        let first = record.id.clone();
        let by = record.by.as_deref().unwrap_or("an unknown user");
        let note = format!(
            "created by {by}: {}, {}",
            record_text::order_text(&record),
            record_text::counts_text(&record)
        );
        for number in 2..MAX_IDS {
            match records.put(&record, None, &note, true) {
                Ok(_) => return Ok(record),
                Err(BoardError::Unknown { key, source }) => {
                    let found = records.get(&record.id).map_err(board_args::to_agent_error)?;
                    let found = found.map(|held| RolloutRecord { sealed: None, ..held.value });
                    return match found {
                        Some(found) if found == record => Ok(record),
                        _ => Err(board_args::to_agent_error(BoardError::Unknown { key, source })),
                    };
                }
                Err(BoardError::Conflict { .. }) if self.draft.has_default_id() => {
                    record.id = numbered_id(&first, number)?;
                }
                Err(BoardError::Conflict { .. }) => break,
                Err(error) => return Err(board_args::to_agent_error(error)),
            }
        }
        let hint = format!("check it with `zagent rollout status {first}`, or set another ID with --id");
        let message = format!("rollout `{first}` already exists");
        Err(AgentError::Refusal { exit: ExitStatus::Failed, message, hint: Some(hint) })
    }
}

fn numbered_id(first: &RolloutId, number: usize) -> Result<RolloutId, AgentError> {
    format!("{first}-{number}")
        .parse()
        .map_err(|_| AgentError::usage_hint("the ID is too long", "set another with --id"))
}

/// What happens next.
fn written_text(record: &RolloutRecord, threshold: usize) -> String {
    let id = &record.id;
    let more = threshold.saturating_sub(1);
    match (record.dry_run, record.mode) {
        (false, _) if more > 0 => format!(
            "{id} is written and signed; no node starts before {} signed it too: zagent rollout sign {id}",
            if more == 1 { "another person has".to_owned() } else { format!("{more} other people have") }
        ),
        (true, _) => format!("{id} is written as a dry run: nodes do nothing"),
        (false, RolloutMode::Clock) => format!(
            "{id} is written: nodes follow it by the clock; stop it with `zagent rollout pause {id}` or \
             `abort`"
        ),
        (false, RolloutMode::Driver) => format!(
            "{id} is written: a node with `driver: true` drives it; to drive it here: zagent rollout drive \
             {id}"
        ),
    }
}

impl PreparedPlan {
    fn plan_text(&self, ui: &Ui<'_>) -> String {
        let (zone, paint, whole) = (local_zone(), ui.paint, ui.verbose > 0);
        PlanView { plan: &self.plan, now: self.now, zone, paint, all_nodes: whole }.render()
    }

    fn print_warnings(&self, ui: &mut Ui<'_>) {
        if let Some((branch, head)) = &self.head {
            let to = record_text::short_version(Component::States, &self.plan.record.to);
            warn(
                &format!(
                    "{to} is not the head of `{branch}`, which is {}: nodes of this rollout with \
                     `rollout.follow: head` \
                     stay on {to} until a new commit is pushed there, all others follow the branch; \
                     to roll back permanently, push a revert as well",
                    head.short()
                ),
                ui,
            );
        }
        self.warn_of_identities(ui);
        if self.silent_nodes.is_empty() {
            return;
        }
        let (names, allowed) = (
            record_text::join_names(self.silent_nodes.iter(), record_text::MAX_NAMED),
            self.plan.record.max_silent,
        );
        let number = pluralize(self.silent_nodes.len(), "node");
        warn(
            &format!("silent nodes: {number} ({names}); {allowed} allowed, one more aborts the rollout"),
            ui,
        );
    }
}

impl PreparedPlan {
    /// Warns of nodes whose reports may not be their own.
    fn warn_of_identities(&self, ui: &mut Ui<'_>) {
        for RefusedReport { node, why } in &self.forged_nodes {
            warn(&format!("a report of {node} is refused, its genuine one counts: {why}"), ui);
        }
        if self.unproven_nodes.is_empty() {
            return;
        }
        let names = record_text::join_names(self.unproven_nodes.iter(), record_text::MAX_NAMED);
        let number = pluralize(self.unproven_nodes.len(), "node");
        warn(
            &format!(
                "nothing but their first key identifies {number} ({names}): anyone who can write to the board could \
                 have reported for them; set `board.allowed_nodes`, or enroll each with `zagent node enroll ID`"
            ),
            ui,
        );
    }
}

/// Plans, and checks that the plan can start.
fn prepare_plan(
    args: &DraftArgs,
    settings: &Settings,
    records: &mut dyn Records,
) -> Result<PreparedPlan, AgentError> {
    let now = Timestamp::now();
    let draft = args.draft(settings, &now.strftime("%Y%m%d").to_string())?;
    let PlannedReports { reports, refused, vouched } = PlannedReports::read(&draft, settings)?;
    let mut plan = plan_rollout(&draft, &reports, now).map_err(|error| plan_error(&error))?;
    if plan.record.from.is_none() {
        plan.record.from = common_version(&plan.record, &reports);
    }
    // The plan is shown under the ID it will get, unless another writer takes it first.
    if args.has_default_id() {
        let first = plan.record.id.clone();
        let mut number = 2;
        while number < MAX_IDS && records.get(&plan.record.id).map_err(board_args::to_agent_error)?.is_some()
        {
            plan.record.id = numbered_id(&first, number)?;
            number += 1;
        }
    }
    let patience = silence_limit(settings);
    let is_quiet = |node: &&NodeId| reports.get(*node).is_some_and(|report| is_silent(report, now, patience));
    let quiet = plan.record.batches.iter().flatten().filter(is_quiet).cloned().collect();
    if !draft.anyway && !draft.dry_run {
        let others = records.list().map_err(board_args::to_agent_error)?;
        ensure_no_overlap(&plan.record, &others, &reports, now)?;
    }
    let planned = |node: &NodeId| plan.record.batch_of(node).is_some();
    let (forged, lost): (Vec<RefusedReport>, Vec<RefusedReport>) =
        refused.into_iter().partition(|one| reports.contains_key(&one.node));
    let forged_nodes = forged.into_iter().filter(|one| planned(&one.node)).collect();
    let unproven_nodes = plan.record.batches.iter().flatten().filter(|node| !vouched.contains(*node));
    let unproven_nodes = unproven_nodes.filter(|_| settings.board.kind != BoardKind::Sled).cloned().collect();
    for RefusedReport { node, why } in lost {
        plan.excluded.push((node, format!("its report is refused: {why}")));
    }
    let head = match draft.component {
        Component::States if settings.rollout.follow == FollowMode::Head => {
            resolve::branch_head(settings).filter(|(_, head)| head.as_str() != draft.to)
        }
        Component::Agent | Component::States => None,
    };
    Ok(PreparedPlan { plan, silent_nodes: quiet, unproven_nodes, forged_nodes, head, now })
}

/// What the board says about the nodes; a clock rollout works without it.
#[derive(Default)]
struct PlannedReports {
    reports: BTreeMap<NodeId, NodeReport>,
    /// Reports that do not count.
    refused: Vec<RefusedReport>,
    /// Nodes whose keys are listed or enrolled.
    vouched: BTreeSet<NodeId>,
}

impl PlannedReports {
    fn read(draft: &RolloutDraft, settings: &Settings) -> Result<Self, AgentError> {
        if draft.mode == RolloutMode::Clock && settings.board.kind == BoardKind::None {
            return Ok(Self::default());
        }
        let mut board = board_args::open_reports(settings)?;
        let reports = board.latest_reports(draft.component).map_err(board_args::to_agent_error)?;
        let vouched = reports.keys().filter(|node| board.is_vouched_for(node)).cloned().collect();
        Ok(Self { reports, refused: board.refused(), vouched })
    }
}

/// The version that all nodes of a rollout run, when it is the same.
fn common_version(record: &RolloutRecord, reports: &BTreeMap<NodeId, NodeReport>) -> Option<String> {
    let on = |node: &NodeId| {
        let report = reports.get(node)?;
        match record.component {
            Component::Agent => Some(report.version.as_str()),
            Component::States => report.revision.as_deref(),
        }
    };
    let mut all = record.batches.iter().flatten().map(on);
    let first = all.next()??;
    all.all(|other| other == Some(first)).then(|| first.to_owned())
}

/// A node takes part in only one rollout per component at a time.
pub(super) fn ensure_no_overlap(
    record: &RolloutRecord,
    others: &[VersionedValue<RolloutRecord>],
    reports: &BTreeMap<NodeId, NodeReport>,
    now: Timestamp,
) -> Result<(), AgentError> {
    let is_rival = |other: &&VersionedValue<RolloutRecord>| {
        let other = &other.value;
        other.id != record.id
            && other.component == record.component
            && other.fleet == record.fleet
            && !other.is_expired(now)
            && is_active(other, now)
            && share_nodes(record, other, reports)
    };
    let Some(VersionedValue { value: other, .. }) = others.iter().find(is_rival) else { return Ok(()) };
    let message = format!(
        "rollout `{}` ({}, {}) is active on some of these nodes",
        other.id,
        record_text::order_text(other),
        other.state.name()
    );
    let hint = format!(
        "wait for it (zagent rollout watch {0}), abort it (zagent rollout abort {0}), or override with \
         --anyway",
        other.id
    );
    Err(AgentError::Refusal { exit: ExitStatus::Failed, message, hint: Some(hint) })
}

/// True when two rollouts share a node.
fn share_nodes(one: &RolloutRecord, other: &RolloutRecord, reports: &BTreeMap<NodeId, NodeReport>) -> bool {
    let means = |record: &RolloutRecord, node: &NodeId| {
        let by_target = || {
            reports
                .get(node)
                .is_some_and(|report| targeting::is_targeted(&record.target, report).unwrap_or(true))
        };
        record.batch_of(node).is_some() || (record.mode == RolloutMode::Clock && by_target())
    };
    let listed = one.batches.iter().chain(&other.batches).flatten();
    let mut nodes = listed.chain(reports.keys());
    // For a clock rollout without reports, the nodes are unknown.
    let is_blind = reports.is_empty() && one.mode == RolloutMode::Clock && other.mode == RolloutMode::Clock;
    is_blind || nodes.any(|node| means(one, node) && means(other, node))
}

/// Turns a plan error into an error with a hint.
fn plan_error(error: &PlanError) -> AgentError {
    let message = error_chain(error);
    let failed = |hint: &str| AgentError::Refusal {
        exit: ExitStatus::Failed,
        message: message.clone(),
        hint: Some(hint.to_owned()),
    };
    match error {
        PlanError::BadGoal { .. } => AgentError::usage(message),
        PlanError::BadArtifact { .. } => AgentError::usage_hint(
            message,
            "print a valid entry with `zagent release publish`; add --url for a binary hosted elsewhere",
        ),
        PlanError::Target { .. } => {
            AgentError::usage_hint(message, "use a compound target such as 'G@os:Debian and web-*'")
        }
        PlanError::NoNodes { .. } => {
            failed("set `board.kind` in the configuration of the nodes, so that they report")
        }
        PlanError::NoMatch { .. } => failed("check the target with `zagent node list TARGET`"),
        PlanError::NoEligible { .. } => {
            failed("find the reason with `zagent node list` and fix the nodes first")
        }
        PlanError::Rejected { .. } => {
            failed("find out why (zagent node show NODE) and fix it, or order it all the same with --anyway")
        }
        PlanError::Protocol { .. } => failed("update these nodes first, or exclude them from --target"),
        PlanError::NothingToDo { .. } => failed("list the versions of the nodes with `zagent node list`"),
        PlanError::Downgrade { .. } => failed("override with --anyway"),
        PlanError::ExpiresTooSoon { .. } => AgentError::usage_hint(message, "set a longer --expires TIME"),
        PlanError::NoArtifact { .. } => failed(
            "publish one (zagent release publish), set --artifacts FILE, or exclude these nodes from \
             --target",
        ),
    }
}

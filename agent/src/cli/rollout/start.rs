//! `zagent rollout plan|start`: an order in, a plan out; with `start`, a record and a driver.
//!
//! Law: nothing is written before the plan holds; `plan` refuses whatever `start` would.

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, Revision, RolloutId};
use zagent_config::settings::{BoardKind, Follow, Settings};
use zagent_rollout::board::BoardError;
use zagent_rollout::driver::Driver;
use zagent_rollout::meant;
use zagent_rollout::plan::{Draft, Plan, PlanError, plan};
use zagent_rollout::record::{Component, Mode, Record};
use zagent_rollout::records::{Held, Records};
use zagent_rollout::report::Report;

use super::draft::DraftArgs;
use super::drive::{Wheel, ended, exit};
use super::place::{self, Place};
use super::sheet::{self, Sheet};
use super::{is_active, look, resolve, words};
use crate::cli::node::{is_silent, patience};
use crate::cli::warn;
use crate::output::{Format, Ui, count, local_zone};
use crate::report::{Exit, Trouble, chain};

/// How many rollouts of one version and day get a name.
const NAMES: usize = 100;

/// Show who would come when, and what stands in the way; writes nothing
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    draft: DraftArgs,

    #[command(flatten)]
    place: Place,
}

/// Begin a rollout, and drive it unless told otherwise
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    draft: DraftArgs,

    /// Only write it: a node with `driver: true` or `zagent rollout drive` takes it
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    place: Place,
}

/// A plan that may begin, and what it was made from.
struct Ready {
    plan: Plan,
    /// Nodes that have said nothing for too long.
    quiet: Vec<NodeId>,
    /// The head of the followed branch, when it is something else than what is rolled out.
    head: Option<(String, Revision)>,
    now: Timestamp,
}

impl PlanArgs {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut records = place::records(&settings)?;
        let ready = ready(&self.draft, &settings, records.as_mut())?;
        self.place.print(&ready.text(ui), &sheet::data(&ready.plan, ready.now), ui);
        ready.warn(ui);
        Ok(Exit::Fine)
    }
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut records = place::records(&settings)?;
        let ready = ready(&self.draft, &settings, records.as_mut())?;
        let is_text = self.format() == Format::Text;
        if is_text {
            ui.data(&ready.text(ui));
        }
        ready.warn(ui);
        let record = self.write(records.as_mut(), ready.plan.record)?;
        let id = record.id.clone();
        if record.dry_run || record.mode == Mode::Clock || self.detach {
            let words = format!("\n{}\n", written(&record));
            self.place.print(&words, &record, ui);
            return Ok(Exit::Fine);
        }
        ui.say(&format!("\n{id} is written; Ctrl-C stops driving, not the rollout"));
        let mut reports = place::reports(&settings)?;
        let driver =
            Driver { id: place::me(&settings), records: records.as_mut(), reports: reports.as_mut() };
        let mut wheel = Wheel { driver, format: self.format() };
        let (mut done, exit_code) = wheel.drive(vec![id], ui)?;
        let last = done.pop().unwrap_or(record);
        let text = match exit(&last) {
            Exit::Fine => format!("{}\n", ended(&last)),
            _ => format!("\n{}", look::page(&last, &look::said(&settings, last.component, ui), ui)),
        };
        self.place.print(&text, &last, ui);
        Ok(exit_code)
    }

    /// Writes the record under a name that nobody has.
    fn write(&self, records: &mut dyn Records, mut record: Record) -> Result<Record, Trouble> {
        let first = record.id.clone();
        let by = record.by.as_deref().unwrap_or("somebody");
        let note = format!("created by {by}: {}, {}", words::order(&record), words::counts(&record));
        for number in 2..NAMES {
            match records.put(&record, None, &note, true) {
                Ok(_) => return Ok(record),
                Err(BoardError::Unknown { key, source }) => {
                    let found = records.get(&record.id).map_err(place::trouble)?;
                    return match found {
                        Some(held) if held.value == record => Ok(record),
                        _ => Err(place::trouble(BoardError::Unknown { key, source })),
                    };
                }
                Err(BoardError::Conflict { .. }) if self.draft.is_nameless() => {
                    record.id = another(&first, number)?;
                }
                Err(BoardError::Conflict { .. }) => break,
                Err(error) => return Err(place::trouble(error)),
            }
        }
        let hint = format!("`zagent rollout status {first}` shows it; give another name with --id");
        let message = format!("there is a rollout `{first}` already");
        Err(Trouble::Refusal { exit: Exit::Failed, message, hint: Some(hint) })
    }
}

fn another(first: &RolloutId, number: usize) -> Result<RolloutId, Trouble> {
    format!("{first}-{number}").parse().map_err(|_| Trouble::usage_hint("the name is too long", "give --id"))
}

/// What happens now.
fn written(record: &Record) -> String {
    let id = &record.id;
    match (record.dry_run, record.mode) {
        (true, _) => format!("{id} is written as a dry run: nothing will be done"),
        (false, Mode::Clock) => format!(
            "{id} is written: nodes take it by the clock; `zagent rollout pause {id}` and `abort` hold it up"
        ),
        (false, Mode::Driver) => format!(
            "{id} is written: a node with `driver: true` takes it, or drive it: zagent rollout drive {id}"
        ),
    }
}

impl Ready {
    fn text(&self, ui: &Ui<'_>) -> String {
        let (zone, paint, whole) = (local_zone(), ui.paint, ui.verbose > 0);
        Sheet { plan: &self.plan, now: self.now, zone, paint, whole }.text()
    }

    fn warn(&self, ui: &mut Ui<'_>) {
        if let Some((branch, head)) = &self.head {
            let to = words::version(Component::States, &self.plan.record.to);
            warn(
                &format!(
                    "{to} is not the head of `{branch}`, which is {}: nodes with `rollout.follow: head` that take part stay on \
                     {to} until something new is pushed there, all others follow the branch; to go back for good, push a \
                     revert as well",
                    head.short()
                ),
                ui,
            );
        }
        if self.quiet.is_empty() {
            return;
        }
        let (names, allowed) = (words::names(self.quiet.iter(), words::NAMED), self.plan.record.max_silent);
        let number = count(self.quiet.len(), "node");
        warn(&format!("silent for long: {number} ({names}); {allowed} may be, one more ends it"), ui);
    }
}

/// Plans, and makes sure that nothing stands in the way.
fn ready(args: &DraftArgs, settings: &Settings, records: &mut dyn Records) -> Result<Ready, Trouble> {
    let now = Timestamp::now();
    let draft = args.draft(settings, &now.strftime("%Y%m%d").to_string())?;
    let reports = reports(&draft, settings)?;
    let mut plan = plan(&draft, &reports, now).map_err(|error| refusal(&error))?;
    if plan.record.from.is_none() {
        plan.record.from = common(&plan.record, &reports);
    }
    // The plan is shown under the name that it will have, unless somebody is quicker.
    if args.is_nameless() {
        let first = plan.record.id.clone();
        let mut number = 2;
        while number < NAMES && records.get(&plan.record.id).map_err(place::trouble)?.is_some() {
            plan.record.id = another(&first, number)?;
            number += 1;
        }
    }
    let patience = patience(settings);
    let is_quiet = |node: &&NodeId| reports.get(*node).is_some_and(|report| is_silent(report, now, patience));
    let quiet = plan.record.batches.iter().flatten().filter(is_quiet).cloned().collect();
    if !draft.anyway && !draft.dry_run {
        let others = records.list().map_err(place::trouble)?;
        alone(&plan.record, &others, &reports, now)?;
    }
    let head = match draft.component {
        Component::States if settings.rollout.follow == Follow::Head => {
            resolve::head(settings).filter(|(_, head)| head.as_str() != draft.to)
        }
        Component::Agent | Component::States => None,
    };
    Ok(Ready { plan, quiet, head, now })
}

/// What nodes say; a rollout by the clock does without.
fn reports(draft: &Draft, settings: &Settings) -> Result<BTreeMap<NodeId, Report>, Trouble> {
    if draft.mode == Mode::Clock && settings.board.kind == BoardKind::None {
        return Ok(BTreeMap::new());
    }
    place::reports(settings)?.all(draft.component).map_err(place::trouble)
}

/// What all nodes of a rollout are on, when that is one thing.
fn common(record: &Record, reports: &BTreeMap<NodeId, Report>) -> Option<String> {
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

/// A node is part of one rollout of a component at a time.
pub(super) fn alone(
    record: &Record,
    others: &[Held<Record>],
    reports: &BTreeMap<NodeId, Report>,
    now: Timestamp,
) -> Result<(), Trouble> {
    let is_rival = |other: &&Held<Record>| {
        let other = &other.value;
        other.id != record.id
            && other.component == record.component
            && is_active(other, now)
            && shares(record, other, reports)
    };
    let Some(Held { value: other, .. }) = others.iter().find(is_rival) else { return Ok(()) };
    let message = format!(
        "`{}` ({}, {}) is under way on some of these nodes",
        other.id,
        words::order(other),
        other.state.word()
    );
    let hint = format!(
        "wait for it (zagent rollout watch {0}), end it (zagent rollout abort {0}), or say --anyway",
        other.id
    );
    Err(Trouble::Refusal { exit: Exit::Failed, message, hint: Some(hint) })
}

/// True when two rollouts mean the same node.
fn shares(one: &Record, other: &Record, reports: &BTreeMap<NodeId, Report>) -> bool {
    let means = |record: &Record, node: &NodeId| {
        let by_target = || {
            reports.get(node).is_some_and(|report| meant::is_meant(&record.target, report).unwrap_or(true))
        };
        record.batch_of(node).is_some() || (record.mode == Mode::Clock && by_target())
    };
    let listed = one.batches.iter().chain(&other.batches).flatten();
    let mut nodes = listed.chain(reports.keys());
    // By the clock and without reports, nobody knows who is meant.
    let is_blind = reports.is_empty() && one.mode == Mode::Clock && other.mode == Mode::Clock;
    is_blind || nodes.any(|node| means(one, node) && means(other, node))
}

/// Why there is no plan, and a way out.
fn refusal(error: &PlanError) -> Trouble {
    let message = chain(error);
    let failed = |hint: &str| Trouble::Refusal {
        exit: Exit::Failed,
        message: message.clone(),
        hint: Some(hint.to_owned()),
    };
    match error {
        PlanError::BadGoal { .. } => Trouble::usage(message),
        PlanError::BadArtifact { .. } => Trouble::usage_hint(
            message,
            "`zagent release publish` prints the entry as it must be, with --url for one that is offered elsewhere",
        ),
        PlanError::Target { .. } => {
            Trouble::usage_hint(message, "write a compound target such as 'G@os:Debian and web-*'")
        }
        PlanError::NoNodes { .. } => failed("nodes report once `board.kind` is set in their configuration"),
        PlanError::NoMatch { .. } => failed("`zagent node list TARGET` shows whom a target means"),
        PlanError::NoEligible { .. } => failed("`zagent node list` shows why; mend them first"),
        PlanError::Protocol { .. } => {
            failed("bring these nodes to a newer version first, or leave them out of --target")
        }
        PlanError::NothingToDo { .. } => failed("`zagent node list` shows what nodes are on"),
        PlanError::Downgrade { .. } => failed("say --anyway when it is meant"),
        PlanError::NoArtifact { .. } => failed(
            "publish one (zagent release publish), name them with --artifacts FILE, or leave these nodes out of --target",
        ),
    }
}

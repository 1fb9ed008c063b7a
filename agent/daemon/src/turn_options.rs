//! Options of a single turn in, its outcome out: loads the settings, watches for signals, and runs the turn.

#![expect(clippy::disallowed_methods, reason = "notes when a turn ended without a run")]

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::compile_request::CompileRequest;
use crate::error::AgentError;
use crate::handover::Handover;
use crate::memory::{AgentMemory, TurnError};
use crate::node_settings;
use crate::plan_file::PlanFileUse;
use crate::resource_run::TargetText;
use crate::run_output::RunOutput;
use crate::seed::machine_seed;
use crate::sync::SyncOptions;
use crate::turn::{Turn, TurnOutcome};
use crate::turn_runner::TurnRunner;
use zagent_config::settings::{ApplyMode, Settings};
use zagent_host::{CancelToken, Machine};
use zagent_run::{RunOptions, RunTrigger, SignalWatcher};

/// Maximum size of a request: names of SLS files and a few revisions.
const MAX_REQUEST_BYTES: u64 = 1 << 20;

/// Options of one turn.
#[derive(Clone, Debug)]
pub struct TurnOptions {
    /// What triggered it.
    pub trigger: RunTrigger,
    /// True to contact the remotes first.
    pub fetch: bool,
    /// What to compile, and the configuration file.
    pub request: CompileRequest,
    /// Options of the run.
    pub order: RunOptions,
    /// True to ignore the plan cache.
    pub fresh: bool,
    /// Location of the last good configuration, used when the current one is invalid.
    pub last_config: Option<PathBuf>,
    /// What the daemon polled and decided.
    pub handover: Option<Handover>,
    /// What runs: the node, or resources too.
    pub target: TurnTarget,
    /// Saves or applies a plan file.
    pub plan_file: Option<PlanFileUse>,
}

/// What a turn runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnTarget {
    /// The node alone.
    #[default]
    Node,
    /// What `resources.target` says; the node alone without it.
    Configured,
    /// A target.
    Named(TargetText),
}

impl TurnTarget {
    /// The target with these settings; none for the node alone.
    fn resolve(&self, settings: &Settings) -> Option<TargetText> {
        match self {
            Self::Node => None,
            Self::Configured => settings.resources.target.as_ref().map(TargetText::compound),
            Self::Named(target) => Some(target.clone()),
        }
    }
}

/// What the daemon asks of the process that it starts for a turn, sent through its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// What triggered it.
    pub trigger: RunTrigger,
    /// True to contact the remotes first.
    pub fetch: bool,
    /// True for a dry run.
    #[serde(default)]
    pub test: bool,
    /// SLS files to run; what the top files select when empty.
    #[serde(default)]
    pub sls: Vec<String>,
    /// What was polled and decided already.
    #[serde(default)]
    pub handover: Option<Handover>,
    /// A compound target, for an entry of the schedule that has one.
    #[serde(default)]
    pub target: Option<String>,
    /// True for an entry of the schedule: without a target the node alone runs.
    #[serde(default)]
    pub scheduled: bool,
}

impl TurnRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// Fails when it cannot be read or is not one.
    pub fn read(from: impl Read) -> Result<Self, AgentError> {
        let mut text = String::new();
        from.take(MAX_REQUEST_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| AgentError::usage(format!("cannot read the request of the daemon: {error}")))?;
        serde_json::from_str(&text)
            .map_err(|error| AgentError::usage(format!("the request of the daemon is invalid: {error}")))
    }

    /// The turn that it asks for.
    #[must_use]
    pub fn into_options(self, config: Option<PathBuf>, last_config: Option<PathBuf>) -> TurnOptions {
        let Self { trigger, fetch, test, sls, handover, target, scheduled } = self;
        let target = match target {
            Some(text) => TurnTarget::Named(TargetText::compound(text)),
            None if scheduled => TurnTarget::Node,
            None => TurnTarget::Configured,
        };
        TurnOptions {
            trigger,
            fetch,
            request: CompileRequest { config, sls, test, ..CompileRequest::default() },
            order: RunOptions { test, ..RunOptions::default() },
            fresh: false,
            last_config,
            handover,
            target,
            plan_file: None,
        }
    }
}

impl TurnOptions {
    /// Runs one turn over the revision that the node follows.
    ///
    /// # Errors
    /// Why there was no run.
    pub fn run(&self, output: &mut dyn RunOutput) -> Result<TurnOutcome, AgentError> {
        let settings = self.load_settings(output)?;
        if !self.order.test {
            node_settings::save_last_good(&settings);
        }
        let cancel = Arc::new(CancelToken::new());
        // Held until everything is printed and saved: a stop signal at the very end does not lose the report.
        let _signals = SignalWatcher::watch(&cancel);
        let machine = Machine::this_host();
        let turn = Turn {
            settings: &settings,
            machine: &machine,
            sync_options: self.should_fetch(&settings).then(|| SyncOptions {
                retry_refused: self.trigger == RunTrigger::Manual,
                ..SyncOptions::default()
            }),
            handover: self.handover.as_ref(),
            partial: !self.request.sls.is_empty(),
            test: self.order.test,
            trigger: self.trigger,
            seed: machine_seed(settings.id.as_str()),
            cancel: &cancel,
        };
        let audit = settings.run.mode == ApplyMode::Audit && !self.order.test;
        if audit && self.plan_file.is_some() {
            return Err(AgentError::usage(
                "this node is in audit mode (`run.mode: audit`): no plan is applied",
            ));
        }
        let order = RunOptions { audit, test: self.order.test || audit, ..self.order.clone() };
        let request = CompileRequest { test: self.request.test || audit, ..self.request.clone() };
        let mut runner = TurnRunner {
            request: &request,
            order: &order,
            plan_file: self.plan_file.as_ref(),
            fresh: self.fresh,
            settings: &settings,
            cancel: &cancel,
            output,
            checked: None,
            expiry: None,
            target: self.target.resolve(&settings),
        };
        let ended = turn.run(&mut runner);
        if !self.order.test {
            note_error(&settings, ended.as_ref().err());
        }
        ended
    }

    fn load_settings(&self, output: &mut dyn RunOutput) -> Result<Settings, AgentError> {
        let config = self.request.config.as_deref();
        if self.trigger == RunTrigger::Manual {
            return node_settings::load(config);
        }
        node_settings::load_or_last_good(config, self.last_config.as_deref(), &mut |words| {
            output.warn(words);
        })
    }

    /// Whether to contact the remotes first. A run of selected SLS files takes no new revision: a new
    /// revision must pass its health checks as a whole.
    fn should_fetch(&self, settings: &Settings) -> bool {
        self.fetch && (self.request.sls.is_empty() || !settings.paths().current().exists())
    }
}

/// Saves why there was no run, for a client that waits for it; the end of the reason too.
fn note_error(settings: &Settings, error: Option<&AgentError>) {
    let path = settings.paths().memory();
    let mut memory = AgentMemory::load(&path);
    if error.is_none() && memory.no_run.is_none() {
        return;
    }
    memory.no_run = error.map(|error| TurnError { at: Timestamp::now(), message: error.explanation() });
    if let Err(error) = memory.save(&path) {
        tracing::debug!(error = zagent_config::error_chain(&error), "cannot save why there was no run");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_way_to_the_process() {
        let request = TurnRequest {
            trigger: RunTrigger::Git,
            fetch: true,
            test: false,
            sls: vec!["web".into()],
            handover: None,
            target: Some("T@ssh".into()),
            scheduled: true,
        };
        let text = serde_json::to_vec(&request).unwrap();
        assert_eq!(TurnRequest::read(&*text).unwrap(), request);
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        for text in ["", "{}", r#"{"trigger": "git"}"#, r#"{"trigger": "git", "fetch": true, "more": 1}"#] {
            assert!(TurnRequest::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}

//! A package in, its run on this machine out: every outcome goes to the managing node when its state ends.
//!
//! Law: pillar and plan are never written to this machine's disk; the journal of what a run replaced is
//! (held by `no_secret_of_a_run_travels_further_than_it_must`).

use std::sync::Arc;

use zagent_compiler::{CompileInputs, CompileTarget, Compiler, FileTree};
use zagent_config::Value;
use zagent_config::mask::{self, secret_keys};
use zagent_config::settings::{self, ConfigLocation, Settings};
use zagent_config::{SecretMask, error_chain};
use zagent_resources::ssh::package::RunPackage;
use zagent_resources::ssh::protocol::AgentReply;
use zagent_run::history::record::send_outcome;
use zagent_run::plan_cache::{CompileTrace, RenderedTexts};
use zagent_run::{RunProgress, StateOutcome};

use super::files::SentFiles;
use super::{AgentPeer, ResourceAgent};
use crate::compile_job::{CompileJob, PlanWithPillar};
use crate::plan_run::{PlanRun, RunPlace};
use crate::resource_run::run_settings::{RemoteRunSettings, read_options};

/// Runs a package; true when it was stopped early.
pub(super) fn run_package(agent: &ResourceAgent, package: RunPackage) -> Result<bool, String> {
    let RunPackage { plan, about, files } = package;
    let wanted = RemoteRunSettings::read(&about).ok_or("the run is damaged")?;
    mask::hide_in_messages(&wanted.secrets);
    let files = SentFiles::new(&agent.peer, &agent.dir, wanted.envs.clone(), files)?;
    let machine = agent.machine.clone().allow_commands(wanted.commands).timeout(wanted.program_timeout);
    let host = agent.host(&wanted.id, wanted.grains.clone(), machine.clone());
    let states: Arc<dyn FileTree> = Arc::new(files);
    let inputs = CompileInputs {
        pillar: Arc::clone(&states),
        states: Arc::clone(&states),
        host: Arc::new(host),
        schema: zagent_states::schema(),
        options: Arc::new(read_options(&about, &wanted)),
    };
    let (_, trace) = CompileTrace::trace_inputs(&inputs);
    let (file_inputs, file_trace) = CompileTrace::trace_inputs(&inputs);
    let compat = inputs.options.compat;
    let job = CompileJob {
        compiler: Compiler::with_file_inputs(inputs.clone(), file_inputs),
        inputs,
        trace,
        file_trace,
        rendered: RenderedTexts::default(),
        traced_states: Arc::clone(&states),
        want: CompileTarget::Sls { names: Vec::new(), env: zagent_compiler::BASE_ENV.into() },
        node: wanted.id.clone(),
        states,
        compat,
        settings: run_settings(agent, &wanted)?,
        machine,
        revision: wanted.revision.clone(),
        source: None,
        is_own_node: false,
    };
    let planned = PlanWithPillar { plan, pillar: Value::from(wanted.pillar.clone()), is_complete: false };
    let place = RunPlace { run: wanted.run.clone(), mask: run_mask(&wanted, &planned), manager: None };
    let run = PlanRun {
        job: &job,
        planned: &planned,
        order: &wanted.order,
        trigger: wanted.trigger,
        cancel: &agent.cancel,
    };
    let progress = SentProgress(&agent.peer);
    let report = run.converge(&progress, &place).map_err(|error| error.summary())?;
    if wanted.order.revert.is_some() {
        // What a revert does is known when it is over.
        report.states.iter().for_each(|outcome| progress.finished(outcome));
    }
    Ok(report.canceled)
}

/// What this run hides: what was decrypted for it, and what keys of the pillar or names of parameters mark as secrets.
fn run_mask(wanted: &RemoteRunSettings, planned: &PlanWithPillar) -> SecretMask {
    let mut marked = secret_keys::marked_secrets(&planned.pillar);
    marked.extend(planned.plan.chunks.iter().flat_map(|chunk| secret_keys::argument_secrets(&chunk.args)));
    mask::hide_in_messages(&marked);
    SecretMask::with_marked(&wanted.secrets, &marked)
}

/// The settings of this machine play no part: the defaults, and what was sent.
fn run_settings(agent: &ResourceAgent, wanted: &RemoteRunSettings) -> Result<Settings, String> {
    let root = agent.state_dir(&wanted.id);
    let location = ConfigLocation::Dir(root.join("no-settings"));
    let loaded = settings::load(&location, [], &[], Some(&wanted.id));
    let mut settings = loaded.map_err(|error| error_chain(&error))?;
    settings.root = root;
    settings.run.schedule = wanted.schedule;
    settings.run.keep = wanted.keep;
    Ok(settings)
}

/// Tells the managing node how a run goes.
struct SentProgress<'p>(&'p AgentPeer);

impl RunProgress for SentProgress<'_> {
    fn started(&self, _index: usize, tag: &str) {
        self.0.say(&AgentReply::Started { tag: tag.to_owned() });
    }

    fn finished(&self, outcome: &StateOutcome) {
        self.0.say(&AgentReply::State { outcome: send_outcome(outcome) });
    }
}

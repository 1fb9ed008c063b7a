//! A configuration in, the revision that it would follow out: fetched and verified in a scratch directory, not published.

#![expect(clippy::disallowed_methods, reason = "the edge of a command: it reads the clock")]

use std::path::Path;

use jiff::Timestamp;
use zagent_cache::{Cache, GenerationRecord};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::error_chain;
use zagent_config::settings::Settings;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::node_settings;
use zagent_daemon::{AgentMemory, OperatorOrders, StatesSync, SyncOptions, SyncOutcome};

use super::{Enrolment, file_error};
use crate::doctor::{self, DoctorFinding, DoctorScope, DoctorStatus};

/// The settings of an enrolment, with everything that is written in a scratch directory.
///
/// # Errors
/// Fails when they are invalid.
pub(crate) fn trial_settings(enrolment: &Enrolment, scratch: &Path) -> Result<Settings, AgentError> {
    let file = scratch.join("zagent.yaml");
    AtomicFile::cached(0o600)
        .write(&file, enrolment.to_yaml().as_bytes())
        .map_err(|error| file_error("write", &file, &error))?;
    let mut settings = node_settings::load(Some(&file))?;
    settings.root = scratch.join("root");
    Ok(settings)
}

/// Checks whether the remote answers with the branch; returns warnings.
///
/// # Errors
/// The first check that fails, with a hint.
pub(crate) fn check_remote(settings: &Settings) -> Result<Vec<DoctorFinding>, AgentError> {
    let scope = DoctorScope { offline: false, now: Timestamp::now(), system: "/".into() };
    let remotes = settings.source.remotes.iter();
    let findings: Vec<DoctorFinding> =
        remotes.flat_map(|remote| doctor::check_remote(remote, &settings.source, &scope)).collect();
    match findings.iter().find(|finding| finding.verdict == DoctorStatus::Fail) {
        Some(finding) => Err(AgentError::Refusal {
            exit: ExitStatus::Unreachable,
            message: finding.message.clone(),
            hint: finding.hint.clone(),
        }),
        None => Ok(findings.into_iter().filter(|finding| finding.verdict == DoctorStatus::Warn).collect()),
    }
}

/// Fetches and verifies the newest revision.
///
/// # Errors
/// Fails when it cannot be fetched, or would not be accepted.
pub(crate) fn verify_head(settings: &Settings) -> Result<GenerationRecord, AgentError> {
    let (paths, now) = (settings.paths(), Timestamp::now());
    let cache = Cache::open(&paths, &settings.source).map_err(|error| AgentError::from_cache(&error))?;
    let mut sync = StatesSync {
        settings,
        cache: &cache,
        memory: &mut AgentMemory::default(),
        orders: &OperatorOrders::default(),
        seed: 0,
        notes: Vec::new(),
        handover: None,
        // Whether the states compile is the business of the first run, which names file and line.
        check_compiles: &mut |_, _| Ok(()),
    };
    let options =
        SyncOptions { allow_rewind: false, retry_refused: true, preview: true, hold: None, reverify: true };
    match sync.sync_head(options, now).map_err(|error| AgentError::from_cache(&error))? {
        SyncOutcome::Preview(verified) => Ok(verified.record().clone()),
        SyncOutcome::Held(held) => {
            let message = format!("revision {} is not accepted: {}", held.revision.short(), held.message);
            Err(AgentError::Refusal { exit: held.exit(), message, hint: None })
        }
        SyncOutcome::Offline(errors) => {
            let words: Vec<String> = errors.iter().map(|error| error_chain(error)).collect();
            Err(AgentError::Refusal { exit: ExitStatus::Unreachable, message: words.join("; "), hint: None })
        }
        SyncOutcome::Published(_) | SyncOutcome::Current | SyncOutcome::NoRemote => {
            Err(AgentError::failed("the remote has nothing to follow"))
        }
    }
}

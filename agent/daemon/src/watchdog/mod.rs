//! Settings in, watchdog of this node out: what [`zagent_rollout::watchdog`] needs from the agent.
//!
//! Only wiring. The configuration is read again for every connection and every fetch: addresses, logins
//! and keys need no restart. The node ID, root, grains and pace are read once.

pub mod connections;
pub mod signals;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::Settings;
use zagent_rollout::artifact::host_platform;
use zagent_rollout::record::{RolloutProfile, RolloutRecord};
use zagent_rollout::slots::AgentProgram;
use zagent_rollout::watchdog::{
    self, SocketReadiness, WatchdogError, WatchdogInbox, WatchdogPace, WatchdogSetup,
};

use self::connections::{BoardLink, RecordArtifacts};
use crate::OperatorOrders;
use crate::error::AgentError;
use crate::sd_notify::SdNotify;
use zagent_config::error_chain;
use zagent_host::timezone::local_zone;

/// Timeout of the agent's readiness check.
const READINESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Loads the settings, or returns the error.
pub type LoadSettings = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// Inputs of a watchdog.
pub struct WatchdogStart<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// Reads them again.
    pub load: LoadSettings,
    /// The arguments of this process.
    pub args: Vec<OsString>,
    /// Configuration file, when given.
    pub config: Option<PathBuf>,
    /// Timer speed.
    pub pace: WatchdogPace,
}

/// Program of this process.
///
/// # Errors
/// Fails when the system does not report it.
pub fn own_program() -> Result<AgentProgram, AgentError> {
    let path = std::env::current_exe()
        .map_err(|error| AgentError::failed(format!("cannot find the path of the zagent binary: {error}")))?;
    Ok(AgentProgram { version: env!("CARGO_PKG_VERSION").into(), path })
}

/// Supervises the agent until it is told to stop.
///
/// # Errors
/// Fails when another watchdog runs, or when the system refuses what it needs.
pub fn run(start: WatchdogStart<'_>) -> Result<(), AgentError> {
    let WatchdogStart { settings, load, args, config, pace } = start;
    let paths = settings.paths();
    let inbox = WatchdogInbox::default();
    let _signals = signals::watch_signals(inbox.signal_sender())
        .map_err(|error| AgentError::failed(format!("cannot listen for signals: {error}")))?;
    let with_config = |words: &[&str]| -> Vec<OsString> {
        let config = config.iter().flat_map(|path| ["--config".into(), path.clone().into_os_string()]);
        words.iter().map(OsString::from).chain(config).collect()
    };
    let notify = SdNotify::from_env();
    let fetch = Arc::new(RecordArtifacts { load: Arc::clone(&load) });
    let setup = WatchdogSetup {
        id: settings.id.clone(),
        program: own_program()?,
        args,
        probe_args: with_config(&["watchdog", "--probe"]),
        agent_args: with_config(&["run"]),
        pace,
        seed: crate::machine_seed(settings.id.as_str()),
        machine: (host_platform().0.into(), host_platform().1.into()),
        facts: crate::reported_facts(settings),
        connect: Box::new({
            let load = Arc::clone(&load);
            move || BoardLink::open(&load()?)
        }),
        fetch,
        ready: Arc::new(SocketReadiness {
            socket: paths.socket(),
            timeout: READINESS_TIMEOUT.min(pace.readiness),
        }),
        notifier: &notify,
        // An invalid configuration changes nothing.
        hold: &|record, now| hold_reason(load().as_ref().unwrap_or(settings), record, now),
        paths,
    };
    watchdog::run(setup, inbox).map_err(watchdog_cli_error)
}

/// Why a rollout may not switch this node now: it is paused, or no window is open. An emergency does not wait
/// for a window.
fn hold_reason(settings: &Settings, record: &RolloutRecord, now: Timestamp) -> Option<String> {
    let windows = match record.profile {
        RolloutProfile::Normal => settings.windows.as_slice(),
        RolloutProfile::Emergency => &[],
    };
    // The text is stable as long as the reason is the same: it goes into the report.
    OperatorOrders::read(&settings.paths(), now).rollout_obstacle(windows, now, &local_zone())
}

/// Turns the error of a watchdog that cannot start into a command line error.
#[must_use]
pub fn watchdog_cli_error(error: WatchdogError) -> AgentError {
    let message = error_chain(&error);
    match error {
        WatchdogError::AlreadyRunning { .. } => AgentError::locked(
            message,
            "check it with `zagent watchdog status`; stop it before you start another",
        ),
        error if error.is_permission() => AgentError::permission(message),
        _ => AgentError::failed(message),
    }
}

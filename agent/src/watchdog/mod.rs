//! The settings in, a watchdog of this node out: what [`zagent_rollout::watchdog`] needs of the agent.
//!
//! Law: only wiring. The configuration is read anew for every link and every fetch: addresses, logins and keys need no
//! restart. The node's id, its root, its facts and the pace are read once.

mod edge;
mod signals;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::Settings;
use zagent_rollout::artifact::here;
use zagent_rollout::record::{Profile, Record};
use zagent_rollout::slots::Program;
use zagent_rollout::watchdog::{self, Inbox, Pace, Setup, SocketReadiness, WatchdogError};

use self::edge::{Artifacts, Boards};
use crate::cycle::{self, Orders};
use crate::notify::Notify;
use crate::output::local_zone;
use crate::report::{Trouble, chain};

/// The longest that the agent may take to say whether it is ready.
const ANSWER: Duration = Duration::from_secs(5);

/// Reads the settings; why not, in words.
pub type Load = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// What a watchdog is started with.
pub struct Start<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// Reads them again.
    pub load: Load,
    /// The arguments of this process.
    pub args: Vec<OsString>,
    /// Where the configuration is, when it was named.
    pub config: Option<PathBuf>,
    /// How fast.
    pub pace: Pace,
}

/// The program that this process runs.
///
/// # Errors
/// Fails when the system does not tell.
pub fn program() -> Result<Program, Trouble> {
    let path = std::env::current_exe()
        .map_err(|error| Trouble::failed(format!("cannot find this program: {error}")))?;
    Ok(Program { version: env!("CARGO_PKG_VERSION").into(), path })
}

/// Looks after the agent until it is told to stop.
///
/// # Errors
/// Fails when another watchdog runs, and when the system refuses what it needs.
pub fn run(start: Start<'_>) -> Result<(), Trouble> {
    let Start { settings, load, args, config, pace } = start;
    let paths = settings.paths();
    let inbox = Inbox::default();
    let _signals = signals::watch(inbox.bell())
        .map_err(|error| Trouble::failed(format!("cannot listen for signals: {error}")))?;
    let with_config = |words: &[&str]| -> Vec<OsString> {
        let config = config.iter().flat_map(|path| ["--config".into(), path.clone().into_os_string()]);
        words.iter().map(OsString::from).chain(config).collect()
    };
    let notify = Notify::from_env();
    let fetch = Arc::new(Artifacts { load: Arc::clone(&load) });
    let setup = Setup {
        id: settings.id.clone(),
        program: program()?,
        args,
        probe_args: with_config(&["watchdog", "--probe"]),
        agent_args: with_config(&["run"]),
        pace,
        seed: cycle::machine_seed(settings.id.as_str()),
        machine: (here().0.into(), here().1.into()),
        facts: cycle::facts(settings),
        connect: Box::new({
            let load = Arc::clone(&load);
            move || Boards::open(&load()?)
        }),
        fetch,
        ready: Arc::new(SocketReadiness { socket: paths.socket(), patience: ANSWER.min(pace.look) }),
        voice: &notify,
        // A configuration that is wrong changes nothing.
        hold: &|record, now| hold(load().as_ref().unwrap_or(settings), record, now),
        paths,
    };
    watchdog::run(setup, inbox).map_err(trouble)
}

/// Why a rollout may not switch this node now: it is paused, or no window is open. An emergency does not wait for a window.
fn hold(settings: &Settings, record: &Record, now: Timestamp) -> Option<String> {
    let windows = match record.profile {
        Profile::Normal => settings.windows.as_slice(),
        Profile::Emergency => &[],
    };
    // The same words as long as it is the same reason: they go into the report.
    Orders::read(&settings.paths(), now).hold(windows, now, &local_zone())
}

/// What a watchdog that does not begin tells the command line.
#[must_use]
pub fn trouble(error: WatchdogError) -> Trouble {
    let message = chain(&error);
    match error {
        WatchdogError::Taken { .. } => Trouble::locked(
            message,
            "`zagent watchdog status` tells how it is; end it before another is started",
        ),
        error if error.is_permission() => Trouble::permission(message),
        _ => Trouble::failed(message),
    }
}

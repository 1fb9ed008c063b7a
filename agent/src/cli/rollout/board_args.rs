//! Settings and flags in, rollout records and node reports out.
//!
//! Law: an error about a missing setting names its configuration key and the flag that replaces it (held by
//! `missing_settings_are_named`).

use zagent_cache::source::{SourceError, SourceErrorKind};
use zagent_config::Value;
use zagent_config::settings::{BoardKind, BoardSettings, Settings};
use zagent_rollout::board::BoardError;
use zagent_rollout::board_stores::{BoardRecords, BoardReports};
use zagent_rollout::records::{Records, Reports};

use super::resolve;
use crate::cli::common_args::CommonArgs;
use crate::cli::settings;
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;

/// How an error names the node keys, and a rollout store that is not configured: no board is involved then.
const OF_REPORTS: &str = "of reports";
const OF_ROLLOUTS: &str = "of rollouts";

/// Where rollouts and reports are stored, and the output format.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BoardArgs {
    /// Repository that holds rollouts, instead of `rollout.url`; `board` for the board itself
    #[arg(long, value_name = "URL", help_heading = "Place")]
    url: Option<String>,

    /// Board that nodes report on, instead of `board.kind` and `board.url`: git:URL, nats:URL or sled
    #[arg(long, value_name = "KIND:URL", value_parser = parse_board, help_heading = "Place")]
    board: Option<BoardArg>,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// A board as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BoardArg {
    kind: BoardKind,
    url: Option<String>,
}

fn parse_board(text: &str) -> Result<BoardArg, String> {
    let (kind, url) = match text.split_once(':') {
        Some((kind, url)) => (kind, Some(url).filter(|url| !url.is_empty())),
        None => (text, None),
    };
    let named = |kind| Ok(BoardArg { kind, url: url.map(str::to_owned) });
    match (kind, url) {
        ("git", Some(_)) => named(BoardKind::Git),
        ("nats", Some(_)) => named(BoardKind::Nats),
        ("sled", None) => named(BoardKind::Sled),
        _ => Err("use git:URL, nats:URL or sled".into()),
    }
}

impl BoardArgs {
    pub(crate) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    /// Settings, overridden by the flags.
    pub(in crate::cli) fn settings(&self) -> Result<Settings, AgentError> {
        let mut settings = settings::load(self.common.config.as_deref())?;
        if let Some(url) = &self.url {
            settings.rollout.url = Some(url.clone());
        }
        if let Some(BoardArg { kind, url }) = &self.board {
            // Configuration of another kind of board does not apply to this one.
            if settings.board.kind != *kind {
                settings.board.every = BoardSettings::default_every(*kind);
            }
            settings.board.kind = *kind;
            settings.board.url.clone_from(url);
        }
        Ok(settings)
    }

    /// Prints text, or the same as data.
    pub(in crate::cli) fn print(&self, text: &str, data: &impl serde::Serialize, ui: &mut Ui<'_>) {
        ui.print(&match self.common.out {
            OutputFormat::Text => text.to_owned(),
            OutputFormat::Json => json(data),
            OutputFormat::Yaml => {
                let value = serde_json::to_value(data).and_then(serde_json::from_value::<Value>);
                yaml(&value.unwrap_or_default())
            }
        });
    }
}

/// Opens the rollout records that are obeyed here: for a driver.
pub(in crate::cli) fn open_records(settings: &Settings) -> Result<Box<dyn Records>, AgentError> {
    Ok(Box::new(open_board_records(settings)?))
}

/// Opens all rollout records, also those that are not obeyed here: for people who look at them or change them.
pub(in crate::cli) fn open_records_for_review(settings: &Settings) -> Result<Box<dyn Records>, AgentError> {
    Ok(Box::new(open_board_records(settings)?.for_review()))
}

fn open_board_records(settings: &Settings) -> Result<BoardRecords, AgentError> {
    let on_board = settings.rollout.url.as_deref() == Some("board");
    if on_board {
        require_board(settings)?;
    }
    // Without a repository, the records are on the board.
    if !on_board && resolve::rollout_repository(settings).is_none() && require_board(settings).is_err() {
        return Err(no_rollout_url());
    }
    BoardRecords::open(settings).map_err(to_agent_error)
}

/// Opens the node reports.
pub(in crate::cli) fn open_reports(settings: &Settings) -> Result<Box<dyn Reports>, AgentError> {
    Ok(Box::new(open_board_reports(settings)?))
}

/// Opens the node reports, including refused ones.
pub(in crate::cli) fn open_board_reports(settings: &Settings) -> Result<BoardReports, AgentError> {
    require_board(settings)?;
    BoardReports::open(settings).map_err(to_agent_error)?.ok_or_else(no_board)
}

/// Fails when the settings have no board.
fn require_board(settings: &Settings) -> Result<(), AgentError> {
    match (settings.board.kind, &settings.board.url) {
        (BoardKind::None, _) | (BoardKind::Git | BoardKind::Nats, None) => Err(no_board()),
        (BoardKind::Sled, _) | (_, Some(_)) => Ok(()),
    }
}

fn no_rollout_url() -> AgentError {
    let hint = "set `rollout.url` or `source.remotes` in /etc/zagent/zagent.yaml, or use --url URL";
    AgentError::usage_hint("no rollout repository is configured on this host", hint)
}

fn no_board() -> AgentError {
    let hint = "set `board.kind` and `board.url` in /etc/zagent/zagent.yaml, or use --board git:URL";
    AgentError::usage_hint("no board is configured on this host, so the state of the nodes is unknown", hint)
}

/// ID of the driver: a person or a job on a host, and its process.
pub(in crate::cli) fn driver_id(settings: &Settings) -> String {
    format!("{}@{}:{}", current_user(), settings.id, std::process::id())
}

/// The local error behind a board error, if there is one.
fn local_error(error: &BoardError) -> Option<&SourceError> {
    let BoardError::Unreachable { source, .. } = error else { return None };
    source.downcast_ref::<SourceError>().filter(|error| error.kind == SourceErrorKind::Local)
}

/// True when the cause is a missing permission.
fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied)
        || error.source().is_some_and(is_denied)
}

/// Turns a board error into an error with a hint.
pub(in crate::cli) fn to_agent_error(error: BoardError) -> AgentError {
    if let Some(here) = local_error(&error) {
        let exit = if is_denied(here) { ExitStatus::Permission } else { ExitStatus::Failed };
        let hint = "run it as a user that can write to the `root:` directory of the configuration".to_owned();
        return AgentError::Refusal { exit, message: error_chain(here), hint: Some(hint) };
    }
    let message = error_chain(&error);
    let refusal = |exit, hint: &str| AgentError::Refusal { exit, message, hint: Some(hint.to_owned()) };
    match error {
        BoardError::Conflict { .. } => {
            refusal(ExitStatus::Locked, "check the rollouts and try again: zagent rollout list")
        }
        BoardError::Unknown { .. } => {
            refusal(ExitStatus::Unreachable, "check with `zagent rollout status` whether it was written")
        }
        BoardError::Unreachable { .. } => refusal(
            ExitStatus::Unreachable,
            "nothing was written; check `rollout.url` and `board.url`, or --url and --board",
        ),
        BoardError::Refused { board, .. } if board == OF_REPORTS => refusal(
            ExitStatus::Refused,
            "check `board.allowed_nodes` and the keys in the root directory of this host",
        ),
        BoardError::Refused { board, .. } if board == OF_ROLLOUTS => {
            refusal(ExitStatus::Usage, "print the settings and their origin with `zagent config show`")
        }
        BoardError::Refused { .. } => refusal(
            ExitStatus::Refused,
            "give write access to the logins in `rollout.credentials` and `board.credentials`",
        ),
        BoardError::NotAccepted { .. } => {
            refusal(ExitStatus::Refused, "show it with `zagent rollout status ID`")
        }
        BoardError::Damaged { .. } => refusal(
            ExitStatus::Failed,
            "it was written manually or by a newer agent: inspect it before you fix or delete it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_keys_are_not_login_errors() {
        let dir = tempfile::tempdir().unwrap();
        let text =
            format!("root: {0}\nboard: {{kind: sled, allowed_nodes: {0}/none}}\n", dir.path().display());
        let fragment = zagent_config::settings::ConfigFragment::read("zagent.yaml", &text).unwrap();
        let merged = zagent_config::settings::MergedConfig::new(vec![fragment], [], &[]);
        let mut reports = open_board_reports(&merged.into_settings(Some("laptop")).unwrap()).unwrap();
        let error = reports.latest_reports(zagent_rollout::record::Component::Agent).unwrap_err();
        let AgentError::Refusal { hint: Some(hint), .. } = to_agent_error(error) else { panic!("a way out") };
        assert!(hint.contains("`board.allowed_nodes`"), "{hint}");
        let said_no = BoardError::Refused { board: "https://x".into(), message: "403".into() };
        let AgentError::Refusal { hint: Some(hint), .. } = to_agent_error(said_no) else {
            panic!("a way out")
        };
        assert!(hint.contains("`board.credentials`"), "{hint}");
    }

    #[test]
    fn an_unwritable_directory_is_not_an_unreachable_server() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        for (kind, source, code) in [
            (SourceErrorKind::Local, Some(denied), ExitStatus::Permission),
            (SourceErrorKind::Local, None, ExitStatus::Failed),
            (SourceErrorKind::Unreachable, None, ExitStatus::Unreachable),
        ] {
            let source = source.map(|io| Box::new(io) as Box<_>);
            let message = "cannot store the objects from https://x".to_owned();
            let error = SourceError { remote: "https://x".into(), kind, retry_after: None, message, source };
            let error = BoardError::Unreachable { board: "https://x".into(), source: Box::new(error) };
            let AgentError::Refusal { exit, message, .. } = to_agent_error(error) else {
                panic!("a way out")
            };
            assert_eq!(
                (exit, message.starts_with("cannot reach")),
                (code, kind != SourceErrorKind::Local),
                "{message}"
            );
        }
    }

    #[test]
    fn a_board_given_as_a_flag_has_the_timeout_of_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("zagent.yaml");
        let every = |text: &str, board: &str| {
            std::fs::write(&config, format!("root: {}\n{text}", dir.path().display())).unwrap();
            let common = CommonArgs { config: Some(config.clone()), out: OutputFormat::Text };
            let place = BoardArgs { url: None, board: Some(super::parse_board(board).unwrap()), common };
            place.settings().unwrap().board.every.as_secs()
        };
        assert_eq!(every("", "git:/srv/board.git"), 900);
        assert_eq!(every("board: {kind: sled}\n", "git:/srv/board.git"), 900);
        assert_eq!(every("board: {kind: git, url: /srv/b.git}\n", "nats:tls://n:4222"), 30);
        assert_eq!(every("board: {kind: git, url: /srv/b.git, every: 2m}\n", "git:/srv/other.git"), 120);
    }

    #[test]
    fn boards_are_parsed_as_typed() {
        let url = |text: &str| Some(text.to_owned());
        for (text, kind, want) in [
            (
                "git:https://git.example.org/board.git",
                BoardKind::Git,
                url("https://git.example.org/board.git"),
            ),
            ("git:/srv/board.git", BoardKind::Git, url("/srv/board.git")),
            ("nats:tls://nats.example.org:4222", BoardKind::Nats, url("tls://nats.example.org:4222")),
            ("sled", BoardKind::Sled, None),
        ] {
            assert_eq!(parse_board(text), Ok(BoardArg { kind, url: want }), "{text}");
        }
        for bad in ["", "git", "git:", "none", "https://git.example.org/board.git", "sled:x"] {
            assert!(parse_board(bad).is_err(), "{bad}");
        }
    }
}

//! Settings and flags in, the records of rollouts and the reports of nodes out.
//!
//! Law: whatever is missing is named by its key in the configuration and by the flag that stands in for it.

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
use zagent_daemon::error::{CliError, ExitStatus};
use zagent_daemon::operator::current_user;

/// How an error names the keys of nodes, and a place of rollouts that nobody named: no board said anything then.
const OF_REPORTS: &str = "of reports";
const OF_ROLLOUTS: &str = "of rollouts";

/// Where rollouts and reports are, and how to print the answer.
#[derive(Debug, clap::Args)]
pub(crate) struct BoardArgs {
    /// The repository that holds rollouts, in the place of `rollout.url`; `board` for the board itself
    #[arg(long, value_name = "URL", help_heading = "Place")]
    url: Option<String>,

    /// The board that nodes report on, in the place of `board.kind` and `board.url`: git:URL, nats:URL or sled
    #[arg(long, value_name = "KIND:URL", value_parser = parse_board, help_heading = "Place")]
    board: Option<BoardArg>,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// A board as it is typed.
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
        _ => Err("write git:URL, nats:URL or sled".into()),
    }
}

impl BoardArgs {
    pub(crate) const fn format(&self) -> OutputFormat {
        self.common.out
    }

    /// The settings, with the flags over them.
    pub(crate) fn settings(&self) -> Result<Settings, CliError> {
        let mut settings = settings::load(self.common.config.as_deref())?;
        if let Some(url) = &self.url {
            settings.rollout.url = Some(url.clone());
        }
        if let Some(BoardArg { kind, url }) = &self.board {
            // What the configuration says of another kind of board says nothing about this one.
            if settings.board.kind != *kind {
                settings.board.every = BoardSettings::default_every(*kind);
            }
            settings.board.kind = *kind;
            settings.board.url.clone_from(url);
        }
        Ok(settings)
    }

    /// Prints a text for people, or the same as data.
    pub(crate) fn print(&self, text: &str, data: &impl serde::Serialize, ui: &mut Ui<'_>) {
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

/// The records of rollouts.
pub(crate) fn open_records(settings: &Settings) -> Result<Box<dyn Records>, CliError> {
    let on_board = settings.rollout.url.as_deref() == Some("board");
    if on_board {
        require_board(settings)?;
    }
    // Without a repository they are on the board.
    if !on_board && resolve::rollout_repository(settings).is_none() && require_board(settings).is_err() {
        return Err(no_rollout_url());
    }
    Ok(Box::new(BoardRecords::open(settings).map_err(to_cli_error)?))
}

/// The reports of nodes.
pub(crate) fn open_reports(settings: &Settings) -> Result<Box<dyn Reports>, CliError> {
    Ok(Box::new(open_board_reports(settings)?))
}

/// The reports of nodes, with those that are refused.
pub(crate) fn open_board_reports(settings: &Settings) -> Result<BoardReports, CliError> {
    require_board(settings)?;
    BoardReports::open(settings).map_err(to_cli_error)?.ok_or_else(no_board)
}

/// Makes sure that the settings name a board.
fn require_board(settings: &Settings) -> Result<(), CliError> {
    match (settings.board.kind, &settings.board.url) {
        (BoardKind::None, _) | (BoardKind::Git | BoardKind::Nats, None) => Err(no_board()),
        (BoardKind::Sled, _) | (_, Some(_)) => Ok(()),
    }
}

fn no_rollout_url() -> CliError {
    let hint = "set `rollout.url` or `source.remotes` in /etc/zagent/zagent.yaml, or give --url URL";
    CliError::usage_hint("this host knows no place for rollouts", hint)
}

fn no_board() -> CliError {
    let hint = "set `board.kind` and `board.url` in /etc/zagent/zagent.yaml, or give --board git:URL";
    CliError::usage_hint("this host has no board, so nobody knows about nodes", hint)
}

/// Who drives, and orders: a person or a job on a host, and which of its processes.
pub(crate) fn driver_id(settings: &Settings) -> String {
    format!("{}@{}:{}", current_user(), settings.id, std::process::id())
}

/// What went wrong on this host on the way to a board, if that is it.
fn local_error(error: &BoardError) -> Option<&SourceError> {
    let BoardError::Unreachable { source, .. } = error else { return None };
    source.downcast_ref::<SourceError>().filter(|error| error.kind == SourceErrorKind::Local)
}

/// True when a permission is what lacks.
fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::PermissionDenied)
        || error.source().is_some_and(is_denied)
}

/// A board that did not do it, and a way out.
pub(crate) fn to_cli_error(error: BoardError) -> CliError {
    if let Some(here) = local_error(&error) {
        let exit = if is_denied(here) { ExitStatus::Permission } else { ExitStatus::Failed };
        let hint = "this user must be able to write below the `root:` of the configuration".to_owned();
        return CliError::Refusal { exit, message: error_chain(here), hint: Some(hint) };
    }
    let message = error_chain(&error);
    let refusal = |exit, hint: &str| CliError::Refusal { exit, message, hint: Some(hint.to_owned()) };
    match error {
        BoardError::Conflict { .. } => {
            refusal(ExitStatus::Locked, "look at it and try again: zagent rollout list")
        }
        BoardError::Unknown { .. } => {
            refusal(ExitStatus::Unreachable, "`zagent rollout status` shows whether it was written")
        }
        BoardError::Unreachable { .. } => refusal(
            ExitStatus::Unreachable,
            "look at `rollout.url` and `board.url`, or --url and --board; nothing was written",
        ),
        BoardError::Refused { board, .. } if board == OF_REPORTS => refusal(
            ExitStatus::Refused,
            "look at `board.allowed_nodes`, and at the keys below the root of this host",
        ),
        BoardError::Refused { board, .. } if board == OF_ROLLOUTS => {
            refusal(ExitStatus::Usage, "`zagent config show` prints what is set, and where")
        }
        BoardError::Refused { .. } => refusal(
            ExitStatus::Refused,
            "the login needs write access there: `rollout.credentials` and `board.credentials`",
        ),
        BoardError::Damaged { .. } => refusal(
            ExitStatus::Failed,
            "somebody wrote it by hand, or with a newer agent: look at it before you mend or delete it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_read_are_no_matter_of_logins() {
        let dir = tempfile::tempdir().unwrap();
        let text =
            format!("root: {0}\nboard: {{kind: sled, allowed_nodes: {0}/none}}\n", dir.path().display());
        let fragment = zagent_config::settings::ConfigFragment::read("zagent.yaml", &text).unwrap();
        let merged = zagent_config::settings::MergedConfig::new(vec![fragment], [], &[]);
        let mut reports = open_board_reports(&merged.into_settings(Some("laptop")).unwrap()).unwrap();
        let error = reports.latest_reports(zagent_rollout::record::Component::Agent).unwrap_err();
        let CliError::Refusal { hint: Some(hint), .. } = to_cli_error(error) else { panic!("a way out") };
        assert!(hint.contains("`board.allowed_nodes`"), "{hint}");
        let said_no = BoardError::Refused { board: "https://x".into(), message: "403".into() };
        let CliError::Refusal { hint: Some(hint), .. } = to_cli_error(said_no) else { panic!("a way out") };
        assert!(hint.contains("`board.credentials`"), "{hint}");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_no_server_that_cannot_be_reached() {
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
            let CliError::Refusal { exit, message, .. } = to_cli_error(error) else { panic!("a way out") };
            assert_eq!(
                (exit, message.starts_with("cannot reach")),
                (code, kind != SourceErrorKind::Local),
                "{message}"
            );
        }
    }

    #[test]
    fn a_board_that_is_typed_has_the_patience_of_its_kind() {
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
    fn boards_are_read_as_people_type_them() {
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

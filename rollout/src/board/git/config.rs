//! The settings in, the repository of a board and its signing and trust options out.

use std::path::PathBuf;
use std::time::Duration;

use zagent_cache::source::DirSource;
use zagent_cache::trust::RecordTrust;
use zagent_config::paths::Paths;
use zagent_config::settings::{RemoteSettings, Settings, SourceSettings};

use crate::board::BoardError;

/// The location of a Git board, and its writer.
#[derive(Clone, Debug)]
pub struct GitBoardConfig {
    /// The repository.
    pub remote: RemoteSettings,
    /// The limits for fetches.
    pub source: SourceSettings,
    /// The directory for fetched objects.
    pub scratch: PathBuf,
    /// The writer.
    pub author: String,
    /// The key that signs rollout commits.
    pub key: Option<PathBuf>,
    /// The accepted signers of rollout commits; everyone when `None`.
    pub trust: Option<RecordTrust>,
}

impl GitBoardConfig {
    /// The repository of `board`.
    ///
    /// # Errors
    /// Fails when the settings have none.
    pub fn from_board_settings(settings: &Settings) -> Result<Self, BoardError> {
        let board = &settings.board;
        let url = board.url.clone().ok_or_else(|| missing_setting("set `board.url` to a repository"))?;
        let remote = RemoteSettings {
            known_hosts: board.known_hosts.clone(),
            ca: board.ca.clone(),
            ..new_remote(url, board.user.clone(), board.credentials.clone())
        };
        Ok(Self::new(settings, remote))
    }

    /// The rollout repository: `rollout.url`, or else the first remote that is a repository.
    ///
    /// # Errors
    /// Fails when there is neither.
    pub fn from_rollout_settings(settings: &Settings) -> Result<Self, BoardError> {
        let rollout = &settings.rollout;
        let plain = |url: &str| DirSource::is_plain_dir(url.strip_prefix("file://").unwrap_or(url).as_ref());
        let first = settings.source.remotes.iter().find(|remote| !plain(&remote.url));
        let remote = match (&rollout.url, first) {
            (Some(url), first) => RemoteSettings {
                // Everything except secrets is the same for all repositories of a site.
                known_hosts: first.and_then(|first| first.known_hosts.clone()),
                ca: first.and_then(|first| first.ca.clone()),
                proxy: first.and_then(|first| first.proxy.clone()),
                ..new_remote(url.clone(), rollout.user.clone(), rollout.credentials.clone())
            },
            (None, Some(first)) => {
                let own = new_remote(first.url.clone(), rollout.user.clone(), rollout.credentials.clone());
                RemoteSettings {
                    user: own.user.or_else(|| first.user.clone()),
                    token_file: own.token_file.or_else(|| first.token_file.clone()),
                    key: own.key.or_else(|| first.key.clone()),
                    ..first.clone()
                }
            }
            (None, None) => {
                let way =
                    "set `rollout.url` to a repository or `board`, or set `source.remotes` to a repository";
                return Err(missing_setting(way));
            }
        };
        Ok(Self::new(settings, remote))
    }

    fn new(settings: &Settings, remote: RemoteSettings) -> Self {
        // A signature is always required: an order that anyone could write would allow a rollback to an old signed
        // revision.
        Self {
            remote,
            source: settings.source.clone(),
            scratch: Paths::new(&settings.root).board_fetch(),
            author: settings.id.to_string(),
            key: settings.rollout.key.clone(),
            trust: RecordTrust::from_settings(settings),
        }
    }

    /// The time limit per operation.
    pub(super) const fn timeout(&self) -> Duration {
        self.source.timeout
    }
}

fn missing_setting(way: &str) -> BoardError {
    BoardError::Refused { board: "on Git".into(), message: format!("no repository is configured: {way}") }
}

fn new_remote(url: String, user: Option<String>, credentials: Option<PathBuf>) -> RemoteSettings {
    let over_http = url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    let (token_file, key) = if over_http { (credentials, None) } else { (None, credentials) };
    RemoteSettings {
        url,
        branch: "main".into(),
        user,
        token_file,
        credential_helper: None,
        key,
        known_hosts: None,
        ca: None,
        proxy: None,
    }
}

//! The settings in, the repository with the releases and the way to fetch them out.

use std::path::PathBuf;

use zagent_cache::source::RefStore;
use zagent_config::settings::{BoardKind, Settings};

use super::{ArtifactError, ArtifactFetcher, ReleaseTrust, TIMEOUT};
use crate::board::{BoardError, GitBoardConfig};

/// The value of `rollout.url` when records are on the board.
const BOARD: &str = "board";

/// The release repository: the rollout repository. If rollouts are on a board that is not a repository, the first
/// remote of the source.
///
/// # Errors
/// Fails when there is none.
pub fn open_release_store(settings: &Settings, scratch: Option<PathBuf>) -> Result<RefStore, BoardError> {
    let on_board = settings.rollout.url.as_deref() == Some(BOARD);
    let place = match (on_board, settings.board.kind) {
        (true, BoardKind::Git) => GitBoardConfig::from_board_settings(settings)?,
        (true, _) => {
            let mut settings = settings.clone();
            settings.rollout.url = None;
            GitBoardConfig::from_rollout_settings(&settings)?
        }
        (false, _) => GitBoardConfig::from_rollout_settings(settings)?,
    };
    let scratch = scratch.unwrap_or(place.scratch);
    RefStore::new(&place.remote, &place.source, scratch)
        .map_err(|error| BoardError::Unreachable { board: error.remote.clone(), source: Box::new(error) })
}

impl ArtifactFetcher {
    /// From the settings. Without a repository, only artifacts with an https URL can be fetched.
    ///
    /// # Errors
    /// Fails when the signers files cannot be used.
    pub fn open(settings: &Settings) -> Result<Self, ArtifactError> {
        let judge = ReleaseTrust::from_settings(&settings.trust)?;
        Ok(Self { trust: judge, ref_store: open_release_store(settings, None).ok(), timeout: TIMEOUT })
    }
}

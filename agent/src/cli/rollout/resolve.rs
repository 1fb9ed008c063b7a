//! Names in a rollout order in, what the repositories hold for them out: a states commit, the binaries of a
//! version.

use zagent_cache::source::{Deadline, DirSource, RefStore, RemoteClient, SourceError, SourceErrorKind};
use zagent_config::ids::Revision;
use zagent_config::settings::{RemoteSettings, Settings};
use zagent_rollout::artifact::{self, ArtifactError};
use zagent_rollout::board::GitBoardConfig;
use zagent_rollout::record::{Artifact, Component};

use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::pin::{PinTarget, PinTargetError};

/// Resolves the commit; a branch is looked up on the first remote, otherwise in the rollout repository.
pub(super) fn resolve_revision(text: &str, settings: &Settings) -> Result<Revision, AgentError> {
    let to: PinTarget = text.parse().map_err(|error: PinTargetError| {
        let hint = match &error {
            PinTargetError::Short(text) => format!("use the full commit ID: git rev-parse {text}"),
            PinTargetError::Name(_) => "use a branch such as `main`, or a full commit ID of 40 digits".into(),
        };
        AgentError::usage_hint(error.to_string(), hint)
    })?;
    let branch = match to {
        PinTarget::Commit(revision) => return Ok(revision),
        PinTarget::Branch(branch) => branch,
    };
    let Some(remote) = remote(settings) else {
        let hint = "set `source.remotes` in /etc/zagent/zagent.yaml, use --url URL, or give a full commit ID";
        return Err(AgentError::usage_hint(format!("no remote to look up the branch `{branch}`"), hint));
    };
    let deadline = Deadline::after(settings.source.timeout);
    let mut client = RemoteClient::new(&remote, &settings.source).map_err(|e| to_agent_error(&e))?;
    let found = client.poll(&[&branch], deadline).map_err(|e| to_agent_error(&e))?.pop().flatten();
    found.ok_or_else(|| to_agent_error(&client.no_branch_error(&branch, deadline)))
}

/// Branch that nodes follow and its head, as far as this host knows; used only for a warning.
pub(super) fn branch_head(settings: &Settings) -> Option<(String, Revision)> {
    let is_plain = |url: &str| DirSource::is_plain_dir(url.strip_prefix("file://").unwrap_or(url).as_ref());
    let remote = settings.source.remotes.iter().find(|remote| !is_plain(&remote.url))?;
    let head = resolve_revision(&remote.branch, settings).ok()?;
    Some((remote.branch.clone(), head))
}

/// The states repository.
fn remote(settings: &Settings) -> Option<RemoteSettings> {
    let is_plain = |url: &str| DirSource::is_plain_dir(url.strip_prefix("file://").unwrap_or(url).as_ref());
    let first = settings.source.remotes.iter().find(|remote| !is_plain(&remote.url));
    first.cloned().or_else(|| rollout_repository(settings).map(|place| place.remote))
}

/// The rollout repository, when there is one.
pub(super) fn rollout_repository(settings: &Settings) -> Option<GitBoardConfig> {
    match settings.rollout.url.as_deref() {
        Some("board") => None,
        _ => GitBoardConfig::from_rollout_settings(settings).ok(),
    }
}

/// Binaries of a version in the rollout repository.
pub(super) fn published_artifacts(version: &str, settings: &Settings) -> Result<Vec<Artifact>, AgentError> {
    let Some(place) = rollout_repository(settings) else { return Ok(Vec::new()) };
    let mut shelf =
        RefStore::new(&place.remote, &place.source, place.scratch).map_err(|e| to_agent_error(&e))?;
    let deadline = Deadline::after(artifact::TIMEOUT);
    artifact::published_artifacts(&mut shelf, Component::Agent, version, deadline).map_err(|error| {
        match &error {
            ArtifactError::Git { source, .. } => to_agent_error(source),
            _ => AgentError::failed(error_chain(&error)),
        }
    })
}

fn to_agent_error(error: &SourceError) -> AgentError {
    match error.kind {
        SourceErrorKind::NoBranch | SourceErrorKind::Local => AgentError::usage(error.message.clone()),
        _ => {
            let hint = Some("check each remote with `zagent doctor`".into());
            AgentError::Refusal { exit: ExitStatus::Unreachable, message: error.message.clone(), hint }
        }
    }
}

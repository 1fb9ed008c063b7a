//! What an order names in, what the repositories hold under that name out: a commit of the states, the binaries of a version.

use zagent_cache::source::{Client, Deadline, Dir, Kind, Shelf, SourceError};
use zagent_config::ids::Revision;
use zagent_config::settings::{Remote, Settings};
use zagent_rollout::artifact::{self, ArtifactError};
use zagent_rollout::board::Place;
use zagent_rollout::record::{Artifact, Component};

use crate::operate::pin::{NoTarget, To};
use crate::report::{Exit, Trouble, chain};

/// The commit that is meant; a branch is asked for on the first remote, or else where the rollouts are.
pub(super) fn revision(text: &str, settings: &Settings) -> Result<Revision, Trouble> {
    let to: To = text.parse().map_err(|error: NoTarget| {
        let hint = match &error {
            NoTarget::Short(text) => format!("write all of it: git rev-parse {text}"),
            NoTarget::Name(_) => "write a branch such as `main`, or the 40 digits of a commit".into(),
        };
        Trouble::usage_hint(error.to_string(), hint)
    })?;
    let branch = match to {
        To::Commit(revision) => return Ok(revision),
        To::Branch(branch) => branch,
    };
    let Some(remote) = remote(settings) else {
        let hint = "set `source.remotes` in /etc/zagent/zagent.yaml, give --url URL, or write the 40 digits of a commit";
        return Err(Trouble::usage_hint(
            format!("there is no remote to ask for the branch `{branch}`"),
            hint,
        ));
    };
    let deadline = Deadline::after(settings.source.timeout);
    let mut client = Client::new(&remote, &settings.source).map_err(|e| trouble(&e))?;
    let found = client.poll(&[&branch], deadline).map_err(|e| trouble(&e))?.pop().flatten();
    found.ok_or_else(|| trouble(&client.no_branch(&branch, deadline)))
}

/// The branch that nodes follow and its head, as far as this host knows: it serves for a warning alone.
pub(super) fn head(settings: &Settings) -> Option<(String, Revision)> {
    let is_plain = |url: &str| Dir::is_plain(url.strip_prefix("file://").unwrap_or(url).as_ref());
    let remote = settings.source.remotes.iter().find(|remote| !is_plain(&remote.url))?;
    let head = revision(&remote.branch, settings).ok()?;
    Some((remote.branch.clone(), head))
}

/// The repository of the states.
fn remote(settings: &Settings) -> Option<Remote> {
    let is_plain = |url: &str| Dir::is_plain(url.strip_prefix("file://").unwrap_or(url).as_ref());
    let first = settings.source.remotes.iter().find(|remote| !is_plain(&remote.url));
    first.cloned().or_else(|| repository(settings).map(|place| place.remote))
}

/// The repository of the rollouts, when that is one.
pub(super) fn repository(settings: &Settings) -> Option<Place> {
    match settings.rollout.url.as_deref() {
        Some("board") => None,
        _ => Place::of_rollouts(settings).ok(),
    }
}

/// The binaries of a version in the repository of the rollouts.
pub(super) fn artifacts(version: &str, settings: &Settings) -> Result<Vec<Artifact>, Trouble> {
    let Some(place) = repository(settings) else { return Ok(Vec::new()) };
    let mut shelf = Shelf::new(&place.remote, &place.source, place.scratch).map_err(|e| trouble(&e))?;
    let deadline = Deadline::after(artifact::TIMEOUT);
    artifact::described(&mut shelf, Component::Agent, version, deadline).map_err(|error| match &error {
        ArtifactError::Git { source, .. } => trouble(source),
        _ => Trouble::failed(chain(&error)),
    })
}

fn trouble(error: &SourceError) -> Trouble {
    match error.kind {
        Kind::NoBranch | Kind::Local => Trouble::usage(error.message.clone()),
        _ => {
            let hint = Some("`zagent doctor` looks at each remote".into());
            Trouble::Refusal { exit: Exit::Unreachable, message: error.message.clone(), hint }
        }
    }
}

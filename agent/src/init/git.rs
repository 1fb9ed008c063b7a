//! New directory in, Git repository with a first commit out, when Git is installed and an author is
//! configured.

use std::path::Path;
use std::time::Duration;

use zagent_host::Machine;
use zagent_host::exec::{ExecCommand, ExitOutcome};

/// Timeout of one Git command; a hook or a passphrase prompt must not block zagent.
const GIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Result of the Git setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitSetup {
    /// Not changed.
    Untouched,
    /// Git is not installed.
    NoGit,
    /// The directory is already inside a repository.
    InsideRepository,
    /// Repository created, files not committed, with the reason.
    Uncommitted(String),
    /// Repository created, files committed.
    Committed,
}

/// Creates a repository around newly written files, which `complete` may add to before they are committed.
pub(super) fn setup_git(dir: &Path, complete: impl FnOnce() -> Vec<String>) -> GitSetup {
    if Machine::this_host().which("git").is_none() {
        return GitSetup::NoGit;
    }
    let inside = run_git(dir, &["rev-parse", "--is-inside-work-tree"]).is_ok();
    if inside && !dir.join(".git").exists() {
        return GitSetup::InsideRepository;
    }
    let is_new = run_git(dir, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_err();
    if !inside && let Err(why) = run_git(dir, &["init", "--quiet", "--initial-branch=main"]) {
        return GitSetup::Uncommitted(why);
    }
    // Do not add to commits of others.
    if !is_new {
        return GitSetup::InsideRepository;
    }
    match commit(dir, &complete()) {
        Ok(()) => GitSetup::Committed,
        Err(why) => GitSetup::Uncommitted(why),
    }
}

/// A value of Git's configuration.
pub(super) fn config_value(dir: &Path, key: &str) -> Option<String> {
    let outcome = git_outcome(dir, &["config", "--get", key]).ok()?;
    let text = String::from_utf8_lossy(&outcome.stdout).trim().to_owned();
    (outcome.success() && !text.is_empty()).then_some(text)
}

fn commit(dir: &Path, written: &[String]) -> Result<(), String> {
    for key in ["user.name", "user.email"] {
        config_value(dir, key).ok_or_else(|| format!("Git has no {key} configured"))?;
    }
    let mut add = vec!["add", "--"];
    add.extend(written.iter().map(String::as_str));
    run_git(dir, &add)?;
    run_git(dir, &["commit", "--quiet", "--message=A states repository"])
}

fn run_git(dir: &Path, args: &[&str]) -> Result<(), String> {
    let outcome = git_outcome(dir, args)?;
    if outcome.success() { Ok(()) } else { Err(first_error_line(&outcome)) }
}

fn git_outcome(dir: &Path, args: &[&str]) -> Result<ExitOutcome, String> {
    let mut command = ExecCommand::new("git").args(args.iter().copied());
    command.cwd = Some(dir.to_owned());
    command.timeout = Some(GIT_TIMEOUT);
    command.env = vec![("GIT_TERMINAL_PROMPT".into(), "0".into()), ("GIT_EDITOR".into(), "true".into())];
    Machine::this_host().run(&command).map_err(|e| zagent_config::error_chain(&e))
}

fn first_error_line(outcome: &ExitOutcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed without a message");
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_created_once_and_never_inside_another() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "a").unwrap();
        let first = setup_git(dir.path(), || vec!["a".to_owned()]);
        assert!(matches!(first, GitSetup::Uncommitted(_) | GitSetup::Committed), "{first:?}");
        let below = dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert_eq!(setup_git(&below, Vec::new), GitSetup::InsideRepository);
        assert!(!below.join(".git").exists());
    }
}

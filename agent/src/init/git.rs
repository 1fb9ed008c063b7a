//! A new directory in, a Git repository with a first commit out, as far as Git is here and knows who commits.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::host::exec::{Command, Outcome, find_program, run};

/// What one call of Git may take; a hook or a pass phrase that is asked for must not hold us.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of Git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versioned {
    /// Nothing was done.
    Nothing,
    /// There is no Git here.
    NoGit,
    /// The directory stands inside a repository already.
    Within,
    /// A repository was made; the files are not committed, and why.
    Made(String),
    /// A repository was made, and the files are its first commit.
    Committed,
}

/// Makes a repository around files that were just written.
pub(super) fn version(dir: &Path, written: &[String]) -> Versioned {
    if find_program(OsStr::new("git"), std::env::var_os("PATH").as_deref()).is_err() {
        return Versioned::NoGit;
    }
    let inside = git(dir, &["rev-parse", "--is-inside-work-tree"]).is_ok();
    if inside && !dir.join(".git").exists() {
        return Versioned::Within;
    }
    let is_new = git(dir, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_err();
    if !inside && let Err(why) = git(dir, &["init", "--quiet", "--initial-branch=main"]) {
        return Versioned::Made(why);
    }
    // Commits of others are not ours to add to.
    if !is_new {
        return Versioned::Within;
    }
    match commit(dir, written) {
        Ok(()) => Versioned::Committed,
        Err(why) => Versioned::Made(why),
    }
}

fn commit(dir: &Path, written: &[String]) -> Result<(), String> {
    for key in ["user.name", "user.email"] {
        git(dir, &["config", "--get", key]).map_err(|_| format!("Git does not know your {key}"))?;
    }
    let mut add = vec!["add", "--"];
    add.extend(written.iter().map(String::as_str));
    git(dir, &add)?;
    git(dir, &["commit", "--quiet", "--message=A states repository"])
}

fn git(dir: &Path, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git").args(args.iter().copied());
    command.cwd = Some(dir.to_owned());
    command.timeout = Some(PATIENCE);
    command.env = vec![("GIT_TERMINAL_PROMPT".into(), "0".into()), ("GIT_EDITOR".into(), "true".into())];
    // A hook that runs us has said where its repository is; ours is another one.
    command.unset = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].map(Into::into).into();
    let outcome = run(&command).map_err(|e| crate::report::chain(&e))?;
    if outcome.success() { Ok(()) } else { Err(said(&outcome)) }
}

fn said(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed and said nothing");
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_made_once_and_never_inside_another() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "a").unwrap();
        let first = version(dir.path(), &["a".to_owned()]);
        assert!(matches!(first, Versioned::Made(_) | Versioned::Committed), "{first:?}");
        let below = dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert_eq!(version(&below, &[]), Versioned::Within);
        assert!(!below.join(".git").exists());
    }
}

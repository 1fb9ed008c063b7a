//! A short command line in, what it would do to files and how it would end out, without starting anything.
//!
//! Dry runs use it, so that a command such as `touch /srv/x` or `test -f /srv/x && false` hides nothing from the states after it.
//! Law: what is not understood completely is not answered at all (held by `every_answer_is_the_shells`,
//! `what_is_not_understood_is_left_to_the_shell`).

mod commands;
mod parse;

use std::path::{Path, PathBuf};

use crate::fs::{FileKind, FileMeta, FileSystem};

/// A command line that is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellPreview {
    steps: Vec<Step>,
    cwd: Option<PathBuf>,
}

/// One command, and when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    when: When,
    negated: bool,
    words: Vec<String>,
    output: Output,
}

/// When a command of a list runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    AfterSuccess,
    AfterFailure,
}

/// Where the output of a command goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Output {
    /// To the caller.
    Shown,
    /// Into a file, in place of what it holds.
    Replaces(String),
    /// To the end of a file.
    Appends(String),
}

/// What a command did.
struct Done {
    code: i32,
    /// What it printed; nothing when nobody can tell.
    stdout: Option<Vec<u8>>,
    /// It ends the whole line.
    exits: bool,
}

impl Done {
    /// It printed nothing.
    const fn code(code: i32) -> Self {
        Self { code, stdout: Some(Vec::new()), exits: false }
    }

    /// It may have printed something.
    const fn unseen(code: i32) -> Self {
        Self { code, stdout: None, exits: false }
    }

    fn printed(bytes: Vec<u8>) -> Self {
        Self { code: 0, stdout: Some(bytes), exits: false }
    }
}

/// Understands a line; nothing when a shell has to run it. Relative paths need `cwd`.
#[must_use]
pub fn parse(line: &str, cwd: Option<&Path>) -> Option<ShellPreview> {
    let steps = parse::steps(line)?;
    let known = |step: &Step| commands::is_known(&step.words);
    (!steps.is_empty() && steps.iter().all(known))
        .then(|| ShellPreview { steps, cwd: cwd.map(Path::to_owned) })
}

impl ShellPreview {
    /// True when it only looks.
    #[must_use]
    pub fn is_query(&self) -> bool {
        self.steps.iter().all(|step| step.output == Output::Shown && commands::is_query(&step.words))
    }

    /// Does to `fs` what the line would do, and says its exit code; nothing when that cannot be told after all.
    #[must_use]
    pub fn run(&self, fs: &dyn FileSystem) -> Option<i32> {
        let mut shell = Shell { fs, cwd: self.cwd.clone() };
        let mut last = 0;
        for step in &self.steps {
            match step.when {
                When::AfterSuccess if last != 0 => continue,
                When::AfterFailure if last == 0 => continue,
                _ => {}
            }
            let done = shell.run_step(step)?;
            if done.exits {
                return Some(done.code);
            }
            last = if step.negated { i32::from(done.code == 0) } else { done.code };
        }
        Some(last)
    }
}

/// A shell without processes.
struct Shell<'f> {
    fs: &'f dyn FileSystem,
    cwd: Option<PathBuf>,
}

impl Shell<'_> {
    fn run_step(&mut self, step: &Step) -> Option<Done> {
        let (target, appends) = match &step.output {
            Output::Shown => return commands::run(self, &step.words),
            Output::Replaces(path) => (path, false),
            Output::Appends(path) => (path, true),
        };
        let path = self.path(target)?;
        // The shell opens the file before it runs anything.
        let old = match self.lstat(&path)? {
            Some(FileKind::File) => self.fs.read(&path).ok()?,
            Some(FileKind::Dir) => return Some(Done::code(2)),
            Some(_) => return None,
            None if !self.is_dir(path.parent()?)? => return Some(Done::code(2)),
            None => Vec::new(),
        };
        let kept = if appends { old } else { Vec::new() };
        self.fs.write(&path, &kept, FileMeta::default()).ok()?;
        let done = commands::run(self, &step.words)?;
        let mut content = kept;
        content.extend(done.stdout.as_deref()?);
        self.fs.write(&path, &content, FileMeta::default()).ok()?;
        Some(done)
    }

    /// An absolute path without steps up.
    fn path(&self, word: &str) -> Option<PathBuf> {
        let path = match &self.cwd {
            _ if word.starts_with('/') => PathBuf::from(word),
            Some(cwd) if !word.is_empty() => cwd.join(word),
            _ => return None,
        };
        let is_plain = !path.components().any(|part| matches!(part, std::path::Component::ParentDir));
        let is_special = path.starts_with("/proc") || path.starts_with("/sys") || path.starts_with("/dev");
        (is_plain && !is_special && !word.ends_with("/.")).then(|| path.components().collect())
    }

    /// What stands at a path itself; nothing when it cannot be looked at.
    fn lstat(&self, path: &Path) -> Option<Option<FileKind>> {
        Some(self.fs.lstat(path).ok()?.map(|stat| stat.kind))
    }

    fn is_dir(&self, path: &Path) -> Option<bool> {
        Some(self.fs.stat(path).ok()?.is_some_and(|stat| stat.kind == FileKind::Dir))
    }
}

#[cfg(test)]
mod tests;

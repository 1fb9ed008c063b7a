//! A line that a shell answers without a program in, a question about words or files out.
//!
//! Law: only what every shell answers alike is answered here; the rest is run.

use std::path::{Path, PathBuf};

use crate::fs::{FileSystem, Kind, Stat};
use crate::host::line;

/// What a line asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The answer is in the words.
    Known(bool),
    /// The answer is in a file.
    File(Test, PathBuf),
    /// The other way round.
    Not(Box<Self>),
}

/// What is asked of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// `-e`.
    Exists,
    /// `-s`.
    HasContent,
    /// `-L`, `-h`.
    IsLink,
    /// `-f`, `-d`, ….
    Is(Kind),
}

/// The question of a line; nothing when a program has to answer it. Paths are absolute, or stand in `cwd`.
pub(super) fn parse(text: &str, cwd: Option<&Path>) -> Option<Question> {
    let words = line::plain(text)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["true", ..] => Some(Question::Known(true)),
        ["false", ..] => Some(Question::Known(false)),
        ["test", ref rest @ ..] | ["[", ref rest @ .., "]"] => test(rest, cwd),
        _ => None,
    }
}

fn test(words: &[&str], cwd: Option<&Path>) -> Option<Question> {
    // A last word is a text, also when it is `!`.
    let turns = words.iter().take(words.len().saturating_sub(1)).take_while(|word| **word == "!").count();
    let question = plain(&words[turns..], cwd)?;
    Some(if turns % 2 == 0 { question } else { Question::Not(Box::new(question)) })
}

fn plain(words: &[&str], cwd: Option<&Path>) -> Option<Question> {
    match *words {
        [] => Some(Question::Known(false)),
        [word] => Some(Question::Known(!word.is_empty())),
        ["-n", text] => Some(Question::Known(!text.is_empty())),
        ["-z", text] => Some(Question::Known(text.is_empty())),
        [operator, path] => {
            let test = match operator {
                "-e" => Test::Exists,
                "-s" => Test::HasContent,
                "-L" | "-h" => Test::IsLink,
                "-f" => Test::Is(Kind::File),
                "-d" => Test::Is(Kind::Dir),
                "-p" => Test::Is(Kind::Fifo),
                "-S" => Test::Is(Kind::Socket),
                "-b" => Test::Is(Kind::Block),
                "-c" => Test::Is(Kind::Char),
                _ => return None,
            };
            let path = cwd.map_or_else(|| PathBuf::from(path), |cwd| cwd.join(path));
            // A slash or a dot at the end asks for a directory too, which is better left to the kernel.
            let is_sound = path.is_absolute() && !path.as_os_str().is_empty() && !ends_oddly(&path);
            is_sound.then_some(Question::File(test, path))
        }
        [a, "=", b] => Some(Question::Known(a == b)),
        [a, "!=", b] => Some(Question::Known(a != b)),
        _ => None,
    }
}

fn ends_oddly(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    text != "/"
        && (text.ends_with('/') || text.ends_with("/.") || text.contains("/../") || text.ends_with("/.."))
}

impl Question {
    /// The answer. What cannot be looked at is not there, as `test` has it.
    pub(super) fn holds(&self, fs: &dyn FileSystem) -> bool {
        match self {
            Self::Known(answer) => *answer,
            Self::Not(inner) => !inner.holds(fs),
            Self::File(test, path) => {
                let look = |stat: Result<Option<Stat>, _>| stat.ok().flatten();
                match test {
                    Test::Exists => look(fs.stat(path)).is_some(),
                    Test::HasContent => look(fs.stat(path)).is_some_and(|s| s.size > 0),
                    Test::IsLink => look(fs.lstat(path)).is_some_and(|s| s.kind == Kind::Link),
                    Test::Is(kind) => look(fs.stat(path)).is_some_and(|s| s.kind == *kind),
                }
            }
        }
    }
}

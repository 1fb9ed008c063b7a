//! A line that a shell answers without a program in, a question about words or files out.
//!
//! Law: only what every shell answers alike is answered here; the rest is run (held by
//! `the_own_answers_are_the_programs`).

use std::path::{Path, PathBuf};

use super::shell_words;
use crate::fs::{FileKind, FileSystem, Stat};

/// What a line asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltinTest {
    /// The answer is in the words.
    Constant(bool),
    /// The answer is in a file.
    File(FileTest, PathBuf),
    /// The other way round.
    Not(Box<Self>),
}

/// What is asked of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    /// `-e`.
    Exists,
    /// `-s`.
    HasContent,
    /// `-L`, `-h`.
    IsLink,
    /// `-f`, `-d`, ….
    Is(FileKind),
}

/// The question of a line; nothing when a program has to answer it. Paths are absolute, or stand in `cwd`.
#[must_use]
pub fn parse(text: &str, cwd: Option<&Path>) -> Option<BuiltinTest> {
    let words = shell_words::split_without_shell(text)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["true", ..] => Some(BuiltinTest::Constant(true)),
        ["false", ..] => Some(BuiltinTest::Constant(false)),
        ["test", ref rest @ ..] | ["[", ref rest @ .., "]"] => parse_test(rest, cwd),
        _ => None,
    }
}

pub(crate) fn parse_test(words: &[&str], cwd: Option<&Path>) -> Option<BuiltinTest> {
    // A last word is a text, also when it is `!`.
    let turns = words.iter().take(words.len().saturating_sub(1)).take_while(|word| **word == "!").count();
    let question = parse_expression(&words[turns..], cwd)?;
    Some(if turns % 2 == 0 { question } else { BuiltinTest::Not(Box::new(question)) })
}

fn parse_expression(words: &[&str], cwd: Option<&Path>) -> Option<BuiltinTest> {
    match *words {
        [] => Some(BuiltinTest::Constant(false)),
        [word] => Some(BuiltinTest::Constant(!word.is_empty())),
        ["-n", text] => Some(BuiltinTest::Constant(!text.is_empty())),
        ["-z", text] => Some(BuiltinTest::Constant(text.is_empty())),
        [operator, path] => {
            let test = match operator {
                "-e" => FileTest::Exists,
                "-s" => FileTest::HasContent,
                "-L" | "-h" => FileTest::IsLink,
                "-f" => FileTest::Is(FileKind::File),
                "-d" => FileTest::Is(FileKind::Dir),
                "-p" => FileTest::Is(FileKind::Fifo),
                "-S" => FileTest::Is(FileKind::Socket),
                "-b" => FileTest::Is(FileKind::Block),
                "-c" => FileTest::Is(FileKind::Char),
                _ => return None,
            };
            let path = cwd.map_or_else(|| PathBuf::from(path), |cwd| cwd.join(path));
            // A slash or a dot at the end asks for a directory too, which is better left to the kernel.
            let is_sound = path.is_absolute() && !path.as_os_str().is_empty() && !is_ambiguous_path(&path);
            is_sound.then_some(BuiltinTest::File(test, path))
        }
        [a, "=", b] => Some(BuiltinTest::Constant(a == b)),
        [a, "!=", b] => Some(BuiltinTest::Constant(a != b)),
        _ => None,
    }
}

fn is_ambiguous_path(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    text != "/"
        && (text.ends_with('/') || text.ends_with("/.") || text.contains("/../") || text.ends_with("/.."))
}

impl BuiltinTest {
    /// The answer. What cannot be looked at is not there, as `test` has it.
    #[must_use]
    pub fn evaluate(&self, fs: &dyn FileSystem) -> bool {
        match self {
            Self::Constant(answer) => *answer,
            Self::Not(inner) => !inner.evaluate(fs),
            Self::File(test, path) => {
                let look = |stat: Result<Option<Stat>, _>| stat.ok().flatten();
                match test {
                    FileTest::Exists => look(fs.stat(path)).is_some(),
                    FileTest::HasContent => look(fs.stat(path)).is_some_and(|s| s.size > 0),
                    FileTest::IsLink => look(fs.lstat(path)).is_some_and(|s| s.kind == FileKind::Link),
                    FileTest::Is(kind) => look(fs.stat(path)).is_some_and(|s| s.kind == *kind),
                }
            }
        }
    }
}

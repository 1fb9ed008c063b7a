//! States that edit what a file holds: each is a function from the old text to the new one, and one state that reads and
//! writes for all of them.

pub(crate) mod accumulated;
pub(crate) mod blockreplace;
pub mod comment;
pub mod decode;
pub mod diff;
pub(crate) mod editor;
pub mod insert;
pub(crate) mod keyvalue;
pub mod line;
pub mod patch;
pub(crate) mod python_regex;
pub mod replace;
pub mod serialize;
#[cfg(test)]
pub mod tests;
pub mod text;
pub mod texts;

use std::path::PathBuf;

use self::editor::{EditedFile, TextEditor};
use crate::file::perms::Perms;
use crate::{BuildResult, ChunkArgs, State, StateError};

/// The state that a function makes; nothing when there is no such function here.
pub fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    Some(match fun {
        "accumulated" => accumulated::FileAccumulated::read(args).map(boxed),
        "append" => build_edited(args, fun, insert::FileInsert::append),
        "blockreplace" => build_edited(args, fun, blockreplace::FileBlockreplace::read),
        "comment" => build_edited(args, fun, |name, args| comment::FileComment::read(name, args, true)),
        "decode" => {
            path_and_name(args, fun).and_then(|(path, _)| decode::FileDecode::read(path, args)).map(boxed)
        }
        "keyvalue" => build_edited(args, fun, keyvalue::FileKeyvalue::read),
        "line" => build_line(args),
        "patch" => patch::FilePatchState::read(args).map(boxed),
        "prepend" => build_edited(args, fun, insert::FileInsert::prepend),
        "replace" => build_edited(args, fun, replace::FileReplace::read),
        "serialize" => path_and_name(args, fun)
            .and_then(|(path, name)| serialize::FileSerialize::read(path, name, args))
            .map(boxed),
        "uncomment" => build_edited(args, fun, |name, args| comment::FileComment::read(name, args, false)),
        _ => return None,
    })
}

fn boxed<S: State + 'static>(state: S) -> Box<dyn State> {
    Box::new(state)
}

/// The path that a state is about, and how it is told.
fn path_and_name(args: &ChunkArgs<'_>, fun: &str) -> Result<(PathBuf, String), StateError> {
    if args.name().is_empty() {
        return Err(StateError::new(format!("Must provide name to file.{fun}")));
    }
    let path =
        args.path("name")?.ok_or_else(|| StateError::new(format!("Must provide name to file.{fun}")))?;
    let name = path.display().to_string();
    Ok((path, name))
}

fn build_edited<E: TextEditor + 'static>(
    args: &ChunkArgs<'_>,
    fun: &str,
    read: impl Fn(String, &ChunkArgs<'_>) -> Result<E, StateError>,
) -> BuildResult {
    let (path, name) = path_and_name(args, fun)?;
    Ok(boxed(EditedFile::new(path, read(name, args)?)))
}

fn build_line(args: &ChunkArgs<'_>) -> BuildResult {
    let (path, name) = path_and_name(args, "line")?;
    let editor = line::FileLineState::read(name, args)?;
    Ok(boxed(EditedFile::new(path, editor).with_perms(Perms::read(args, &["file_mode"])?)))
}

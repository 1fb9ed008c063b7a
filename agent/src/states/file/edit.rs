//! States that edit what a file holds: each is a function from the old text to the new one, and one state that reads and
//! writes for all of them.

pub(super) mod accumulated;
mod block;
mod comment;
mod decode;
mod diff;
mod edited;
mod insert;
mod keyvalue;
mod line;
mod patch;
mod pattern;
mod replace;
mod serialize;
mod sources;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use self::edited::{Edited, Editor};
use crate::states::file::perms::Perms;
use crate::states::{Args, Built, Failure, State};

/// The state that a function makes; nothing when there is no such function here.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    Some(match fun {
        "accumulated" => accumulated::Accumulated::read(args).map(boxed),
        "append" => edited(args, fun, insert::Insert::append),
        "blockreplace" => edited(args, fun, block::Block::read),
        "comment" => edited(args, fun, |name, args| comment::Comment::read(name, args, true)),
        "decode" => path(args, fun).and_then(|(path, _)| decode::Decode::read(path, args)).map(boxed),
        "keyvalue" => edited(args, fun, keyvalue::KeyValue::read),
        "line" => line(args),
        "patch" => patch::Patch::read(args).map(boxed),
        "prepend" => edited(args, fun, insert::Insert::prepend),
        "replace" => edited(args, fun, replace::Replace::read),
        "serialize" => {
            path(args, fun).and_then(|(path, name)| serialize::Serialize::read(path, name, args)).map(boxed)
        }
        "uncomment" => edited(args, fun, |name, args| comment::Comment::read(name, args, false)),
        _ => return None,
    })
}

fn boxed<S: State + 'static>(state: S) -> Box<dyn State> {
    Box::new(state)
}

/// The path that a state is about, and how it is told.
fn path(args: &Args<'_>, fun: &str) -> Result<(PathBuf, String), Failure> {
    if args.name().is_empty() {
        return Err(Failure::new(format!("Must provide name to file.{fun}")));
    }
    let path = args.path("name")?.ok_or_else(|| Failure::new(format!("Must provide name to file.{fun}")))?;
    let name = path.display().to_string();
    Ok((path, name))
}

fn edited<E: Editor + 'static>(
    args: &Args<'_>,
    fun: &str,
    read: impl Fn(String, &Args<'_>) -> Result<E, Failure>,
) -> Built {
    let (path, name) = path(args, fun)?;
    Ok(boxed(Edited::new(path, read(name, args)?)))
}

fn line(args: &Args<'_>) -> Built {
    let (path, name) = path(args, "line")?;
    let editor = line::Line::read(name, args)?;
    Ok(boxed(Edited::new(path, editor).with_perms(Perms::read(args, &["file_mode"])?)))
}

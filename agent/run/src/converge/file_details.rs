//! A file state that changed something in, bytes and mode of its file in the details out.

use std::path::Path;

use zagent_compiler::Chunk;
use zagent_config::Value;

use super::ConvergeResult;
use zagent_host::fs::FileKind;
use zagent_states::StateCtx;

/// Adds `bytes` and `mode` of the file that a state of the module `file` changed, or would change. What did not change
/// costs no look.
pub(super) fn add(chunk: &Chunk, ctx: &StateCtx<'_>, ended: &mut ConvergeResult) {
    let is_changed = !ended.done.changes.is_empty() && ended.result != Some(false) && !ended.unknown;
    if &*chunk.state != "file" || !is_changed {
        return;
    }
    let Some(path) = chunk.name.as_str().map(Path::new).filter(|path| path.is_absolute()) else { return };
    let Ok(Some(stat)) = ctx.fs.lstat(path) else { return };
    if stat.kind == FileKind::File {
        ended.done.details.insert("bytes", Value::Int(i64::try_from(stat.size).unwrap_or(i64::MAX)));
    }
    if matches!(stat.kind, FileKind::File | FileKind::Dir) {
        ended.done.details.insert("mode", format!("{:04o}", stat.mode));
    }
}

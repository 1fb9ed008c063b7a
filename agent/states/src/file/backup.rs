//! A file that is about to change in, a copy of it in the cache out.

use std::path::{Path, PathBuf};

use jiff::Zoned;

use super::parents;
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_host::fs::{FileMeta, Stat};

/// True when `backup` asks for a copy on this host.
///
/// # Errors
/// Fails when it is no text.
pub(crate) fn is_requested(args: &ChunkArgs<'_>) -> Result<bool, StateError> {
    Ok(args.text("backup")?.is_some_and(|mode| mode == "minion" || mode == "both"))
}

/// Copies a file into the cache, with its owner and mode.
///
/// # Errors
/// Fails when it cannot be copied.
pub(crate) fn save_backup(
    ctx: &StateCtx<'_>,
    path: &Path,
    found: &Stat,
    content: &[u8],
) -> Result<(), StateError> {
    let copy = backup_path(ctx.cache_dir, path, &Zoned::now());
    let private = FileMeta { mode: Some(0o700), ..FileMeta::default() };
    parents::make_parents(ctx, &copy, private)?;
    let meta = FileMeta { mode: Some(found.mode), uid: Some(found.uid), gid: Some(found.gid) };
    Ok(ctx.fs.write(&copy, content, meta)?)
}

/// Where the copy goes: the path below `file_backup`, with the time as Salt writes it.
fn backup_path(cache: &Path, path: &Path, now: &Zoned) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    let mut name = below.file_name().unwrap_or_default().to_owned();
    let micros = now.timestamp().subsec_microsecond();
    name.push(format!("_{}_{micros:06}_{}", now.strftime("%a_%b_%d_%H:%M:%S"), now.strftime("%Y")));
    cache.join("file_backup").join(below).with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_named_by_path_and_time() {
        let now: Zoned = "2024-03-05T06:07:08.000009+00:00[UTC]".parse().expect("a time");
        let copy = backup_path(Path::new("/c"), Path::new("/etc/ssh/x.conf"), &now);
        assert_eq!(copy, Path::new("/c/file_backup/etc/ssh/x.conf_Tue_Mar_05_06:07:08_000009_2024"));
    }
}

//! `phys`: only the system calls that a right answer needs, for the objects of a pack.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Result, bail};

/// `O_NOFOLLOW` of Linux on most machines.
const NO_FOLLOW: i32 = 0o400_000;

/// One object: its mode with the type, its path and its content.
struct PackedObject<'p> {
    mode: u32,
    path: &'p Path,
    data: &'p [u8],
}

fn split<'p>(rest: &mut &'p [u8], n: usize) -> &'p [u8] {
    let (first, more) = rest.split_at(n.min(rest.len()));
    *rest = more;
    first
}

fn number(rest: &mut &[u8]) -> u32 {
    split(rest, 4).try_into().map_or(0, u32::from_le_bytes)
}

fn objects(mut pack: &[u8]) -> impl Iterator<Item = PackedObject<'_>> {
    std::iter::from_fn(move || {
        if pack.is_empty() {
            return None;
        }
        let rest = &mut pack;
        let (mode, path, data) = (number(rest), number(rest) as usize, number(rest) as usize);
        let path = std::str::from_utf8(split(rest, path)).ok()?;
        Some(PackedObject { mode, path: Path::new(path), data: split(rest, data) })
    })
}

/// `compare` looks at every object; `write` and `fsync` make them.
pub fn run(verb: &str, pack: &Path) -> Result<()> {
    let pack = fs::read(pack)?;
    let mut buffer = vec![0; 1 << 20];
    for object in objects(&pack) {
        match verb {
            "compare" if is_right(&object, &mut buffer)? => {}
            "compare" => bail!("{} is wrong", object.path.display()),
            "write" | "fsync" => write(&object, verb == "fsync")?,
            _ => bail!("phys compare|write|fsync PACK"),
        }
    }
    Ok(())
}

fn is_right(object: &PackedObject<'_>, buffer: &mut [u8]) -> Result<bool> {
    if object.mode & 0o040_000 != 0 {
        return Ok(fs::symlink_metadata(object.path)?.mode() == object.mode);
    }
    let mut file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(object.path)?;
    let meta = file.metadata()?;
    let n = file.read(buffer)?;
    Ok(meta.mode() == object.mode && buffer[..n] == *object.data)
}

fn write(object: &PackedObject<'_>, sync: bool) -> Result<()> {
    if object.mode & 0o040_000 != 0 {
        return Ok(fs::DirBuilder::new().mode(object.mode & 0o7777).create(object.path)?);
    }
    let beside = object.path.with_extension("tmp~");
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(object.data)?;
    file.set_permissions(Permissions::from_mode(object.mode & 0o7777))?;
    if sync {
        file.sync_all()?;
    }
    Ok(fs::rename(beside, object.path)?)
}

//! A resolved pack in, two files of the store out: the pack and its index (version 2).
//!
//! Law: the index gets its name last; a pack without one is not seen. Neither is synced: the store is disposable
//! (held by `a_damaged_or_locked_store_is_repaired`).

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use gix::hash::Kind as HashKind;

use super::resolve::ResolvedPack;

/// The start of an index of version 2.
const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

/// Adds a pack to the packs in `dir`.
pub(super) fn install(pack: &ResolvedPack, dir: &Path) -> io::Result<()> {
    if pack.entries.is_empty() {
        return Ok(());
    }
    let name = |end: &str| dir.join(format!("pack-{}.{end}", pack.digest));
    let fresh =
        |path: &Path| OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let mut from = &pack.file;
    from.rewind()?;
    let mut out = fresh(&name("pack"))?;
    io::copy(&mut from.take(pack.len), &mut out)?;
    out.write_all(pack.digest.as_slice())?;
    let temporary = dir.join(format!("tmp_{}.idx", pack.digest));
    write_index(pack, fresh(&temporary)?)?;
    rename(&temporary, &name("idx"))
}

#[expect(clippy::disallowed_methods, reason = "the store is disposable: nothing of it is durable")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

fn write_index(pack: &ResolvedPack, file: File) -> io::Result<()> {
    let mut order: Vec<u32> = (0..u32::try_from(pack.entries.len()).map_err(io::Error::other)?).collect();
    let entry = |at: &u32| &pack.entries[*at as usize];
    order.sort_unstable_by_key(|at| entry(at).id);
    let mut out = HashedWriter { inner: BufWriter::new(file), hasher: gix::hash::hasher(HashKind::Sha1) };
    out.write_all(&MAGIC)?;
    let mut fanout = [0_u32; 256];
    for at in &order {
        fanout[usize::from(entry(at).id.as_slice()[0])] += 1;
    }
    let mut sum = 0;
    for count in fanout {
        sum += count;
        out.write_all(&sum.to_be_bytes())?;
    }
    for at in &order {
        out.write_all(entry(at).id.as_slice())?;
    }
    for at in &order {
        out.write_all(&entry(at).crc.to_be_bytes())?;
    }
    for at in &order {
        out.write_all(&entry(at).offset.to_be_bytes())?;
    }
    out.write_all(pack.digest.as_slice())?;
    let HashedWriter { mut inner, hasher } = out;
    let digest = hasher.try_finalize().map_err(|_| io::Error::other("the index has no digest"))?;
    inner.write_all(digest.as_slice())?;
    inner.flush()
}

struct HashedWriter<W> {
    inner: W,
    hasher: gix::hash::Hasher,
}

impl<W: Write> Write for HashedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

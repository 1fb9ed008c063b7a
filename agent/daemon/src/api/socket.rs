//! Socket path and group in, a listening socket that only they can open out.
//!
//! Law: no client can connect before the mode is set, a live socket of another process is never removed, and the
//! process that creates the socket removes it (held by `only_its_owner_can_open_it`,
//! `a_stale_socket_is_replaced_a_live_one_and_a_file_are_not`, `the_socket_of_a_successor_is_left_alone`).

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, chown, geteuid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::server::ApiError;

/// Connections waiting to be accepted.
const BACKLOG: i32 = 64;

/// A socket in the file system; removed when dropped, unless another process replaced it.
#[derive(Debug)]
pub(crate) struct SocketGuard {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketGuard {
    /// Binds the socket: for the daemon's user and root, and for a group when one is set.
    pub(crate) fn open(path: &Path, group: Option<&str>) -> Result<(Self, UnixListener), ApiError> {
        let group = group.map(find_group).transpose()?;
        let cannot = |act| move |source| ApiError::Socket { act, path: path.to_owned(), source };
        private_dir(path).map_err(cannot("create the directory of"))?;
        if let Some(group) = group {
            let dirs = path.ancestors().skip(1).take(2).filter(|dir| !dir.as_os_str().is_empty());
            dirs.into_iter()
                .try_for_each(|dir| allow_group(dir, group))
                .map_err(cannot("open the path to"))?;
        }
        remove_stale(path)?;
        let (flags, kind) = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, SocketType::STREAM);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
            .map_err(|e| cannot("make")(e.into()))?;
        let address = SocketAddrUnix::new(path).map_err(|e| cannot("use the name of")(e.into()))?;
        rustix::net::bind(&socket, &address).map_err(|e| cannot("bind")(e.into()))?;
        let made = std::fs::symlink_metadata(path).map_err(cannot("inspect"))?;
        let socket_guard = Self { path: path.to_owned(), inode: inode_of(&made) };
        // A socket that does not listen yet refuses all connections, so no client gets in before the mode is
        // set.
        if let Some(group) = group {
            chown(path, None, Some(group)).map_err(|e| cannot("change the group of")(e.into()))?;
        }
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(cannot("set the mode of"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|e| cannot("listen on")(e.into()))?;
        Ok((socket_guard, socket.into()))
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|meta| inode_of(&meta) == self.inode) {
            // What cannot be removed is detected as stale by the next daemon.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode_of(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn find_group(name: &str) -> Result<Gid, ApiError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err(ApiError::NoGroup(name.to_owned())),
        Err(e) => Err(ApiError::Group { name: name.to_owned(), source: e.into() }),
    }
}

fn private_dir(socket: &Path) -> io::Result<()> {
    let Some(dir) = socket.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Lets a group traverse a private directory; the group still cannot list it.
fn allow_group(dir: &Path, group: Gid) -> io::Result<()> {
    let meta = std::fs::metadata(dir)?;
    if meta.uid() != geteuid().as_raw() || meta.mode() & 0o007 != 0 {
        return Ok(());
    }
    chown(dir, None, Some(group))?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o710))
}

/// Removes a socket without a listener.
fn remove_stale(path: &Path) -> Result<(), ApiError> {
    let cannot = |act| move |source| ApiError::Socket { act, path: path.to_owned(), source };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(cannot("inspect")(e)),
    };
    if !meta.file_type().is_socket() {
        return Err(ApiError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(cannot("remove the stale"))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(cannot("try")(e)),
        Ok(_) => Err(ApiError::Taken(path.to_owned())),
    }
}

//! Socket path and group in, a listening socket that only they can open out.
//!
//! With `socket_readers` the socket belongs to that group, and what a peer may do is decided per request ([`SocketWriters`]).
//!
//! Law: no client can connect before the mode is set, a live socket of another process is never removed, and the
//! process that creates the socket removes it (held by `only_its_owner_can_open_it`,
//! `a_stale_socket_is_replaced_a_live_one_and_a_file_are_not`, `the_socket_of_a_successor_is_left_alone`).

use std::ffi::CString;
use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, chown, geteuid, getgrouplist};
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
    pub(crate) fn open(path: &Path, group: Option<Gid>) -> Result<(Self, UnixListener), ApiError> {
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

/// Who may change something, of those who can connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketWriters {
    /// All of them: `socket_readers` is not set.
    Everyone,
    /// Root and the daemon's own user: `socket_group` is not set.
    Owners,
    /// Also members of this group.
    Group(Gid),
}

impl SocketWriters {
    /// The group of the socket, and who of its members may do more than read.
    pub(crate) fn from_groups(
        group: Option<&str>,
        readers: Option<&str>,
    ) -> Result<(Option<Gid>, Self), ApiError> {
        let group = group.map(|name| find_group(name, "socket_group")).transpose()?;
        let Some(readers) = readers.map(|name| find_group(name, "socket_readers")).transpose()? else {
            return Ok((group.map(|g| g.gid), Self::Everyone));
        };
        let Some(group) = group else { return Ok((Some(readers.gid), Self::Owners)) };
        let outside: Vec<&str> =
            group.mem.iter().filter(|name| !readers.mem.contains(name)).map(String::as_str).collect();
        if !outside.is_empty() && group.gid != readers.gid {
            tracing::warn!(
                "the socket belongs to group `{}`: add the members of `{}` to it as well: {}",
                readers.name,
                group.name,
                outside.join(", ")
            );
        }
        Ok((Some(readers.gid), Self::Group(group.gid)))
    }

    /// True when this user, whose process has this group, may change something. Asks the database of groups.
    pub(crate) fn include(self, uid: u32, gid: u32) -> bool {
        if uid == 0 || uid == geteuid().as_raw() {
            return true;
        }
        match self {
            Self::Everyone => true,
            Self::Owners => false,
            Self::Group(group) => gid == group.as_raw() || is_member(uid, group),
        }
    }
}

/// True when a user is in a group; a user that nobody knows is in none.
fn is_member(uid: u32, group: Gid) -> bool {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else { return false };
    let Ok(name) = CString::new(user.name) else { return false };
    getgrouplist(&name, user.gid).is_ok_and(|groups| groups.contains(&group))
}

fn find_group(name: &str, key: &'static str) -> Result<Group, ApiError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group),
        Ok(None) => Err(ApiError::NoGroup { name: name.to_owned(), key }),
        Err(e) => Err(ApiError::Group { name: name.to_owned(), key, source: e.into() }),
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

//! Names of users and groups in, their numbers out, and back: the databases of a machine, kept until they change.
//!
//! Law: on this host the system is asked for accounts that are not in the files; below another root the files are all
//! there is (held by `below_another_root_only_its_files_count`).

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use nix::unistd::{Gid, Group, Uid, User};

use super::account_files::{GroupEntry, PasswdEntry, read_groups, read_passwd};
use crate::Machine;

/// The numbers of users and groups of one machine.
#[derive(Debug, Default)]
pub(crate) struct AccountIds {
    users: AccountTable,
    groups: AccountTable,
}

/// A file of names and numbers, read again when it has changed. A run asks for the same few names over and over, and the
/// system's own lookup opens and reads that file every time.
#[derive(Debug, Default)]
struct AccountTable(Mutex<(AccountFileStamp, HashMap<String, u32>)>);

/// Device, inode, size and time of last change.
type AccountFileStamp = (u64, u64, u64, i64, i64);

impl AccountTable {
    fn get(&self, machine: &Machine, path: &str, name: &str) -> Option<u32> {
        let found = machine.metadata(path).ok()?;
        let stamp = (found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != stamp {
            *known = (stamp, parse_accounts(&machine.read_bytes(path).ok()?));
        }
        known.1.get(name).copied()
    }
}

/// The number of a user; nothing when there is no such user.
#[must_use]
pub fn uid_of(machine: &Machine, name: &str) -> Option<u32> {
    let known = machine.account_ids().users.get(machine, "/etc/passwd", name);
    let by_system = || User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
    known.or_else(|| machine.is_this_host().then(by_system).flatten())
}

/// The number of a group; nothing when there is no such group.
#[must_use]
pub fn gid_of(machine: &Machine, name: &str) -> Option<u32> {
    let known = machine.account_ids().groups.get(machine, "/etc/group", name);
    let by_system = || Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
    known.or_else(|| machine.is_this_host().then(by_system).flatten())
}

/// A user by number.
#[must_use]
pub fn user_by_uid(machine: &Machine, uid: u32) -> Option<PasswdEntry> {
    if machine.is_this_host() {
        return User::from_uid(Uid::from_raw(uid)).ok().flatten().map(Into::into);
    }
    read_passwd(machine).ok()?.into_iter().find(|user| user.uid == i64::from(uid))
}

/// A group by number.
#[must_use]
pub fn group_by_gid(machine: &Machine, gid: u32) -> Option<GroupEntry> {
    if machine.is_this_host() {
        return Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(Into::into);
    }
    read_groups(machine).ok()?.into_iter().find(|group| group.gid == i64::from(gid))
}

/// The numbers of all groups that a user is in, the main one among them.
///
/// # Errors
/// Fails in words when they cannot be read.
pub fn group_ids(machine: &Machine, name: &str, gid: u32) -> Result<Vec<u32>, String> {
    let cannot = |why: String| format!("cannot read the groups of user '{name}': {why}");
    if machine.is_this_host() {
        let text = std::ffi::CString::new(name).map_err(|e| cannot(e.to_string()))?;
        let found = nix::unistd::getgrouplist(&text, Gid::from_raw(gid));
        let found = found.map_err(|e| cannot(e.to_string()))?;
        return Ok(found.into_iter().map(Gid::as_raw).collect());
    }
    let all = read_groups(machine).map_err(|e| cannot(e.message().to_owned()))?;
    let more = all.iter().filter(|group| group.members.iter().any(|member| member == name));
    let more = more.filter_map(|group| u32::try_from(group.gid).ok()).filter(|more| *more != gid);
    Ok(std::iter::once(gid).chain(more).collect())
}

/// Names and numbers of lines such as `root:x:0:…`; the first line of a name counts.
fn parse_accounts(file: &[u8]) -> HashMap<String, u32> {
    let mut table = HashMap::new();
    for line in String::from_utf8_lossy(file).lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(_), Some(Ok(id))) =
            (fields.next(), fields.next(), fields.next().map(str::parse))
            && !name.is_empty()
            && !name.starts_with(['#', '+', '-'])
        {
            table.entry(name.to_owned()).or_insert(id);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_line_by_line() {
        let table =
            parse_accounts(b"root:x:0:0\n#c:x:1\n+nis::2\nweb:x:33:33\nweb:x:34\nbad:x:q\n\n\xff:x:7\n");
        assert_eq!(table.get("root"), Some(&0));
        assert_eq!(table.get("web"), Some(&33));
        assert_eq!((table.get("bad"), table.get("#c"), table.get("+nis")), (None, None, None));
    }

    #[test]
    fn a_machine_sees_who_came_since() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("etc")).expect("made");
        let path = dir.path().join("etc/passwd");
        std::fs::write(&path, "root:x:0:0\n").expect("written");
        let machine = Machine::at_root(dir.path()).expect("a root");
        assert_eq!((uid_of(&machine, "root"), uid_of(&machine, "new")), (Some(0), None));
        let next = dir.path().join("etc/passwd+");
        std::fs::write(&next, "root:x:0:0\nnew:x:7:7::/home/new:/bin/sh\n").expect("written");
        std::fs::rename(&next, &path).expect("renamed");
        assert_eq!(uid_of(&machine, "new"), Some(7));
        assert_eq!(user_by_uid(&machine, 7).map(|user| user.name).as_deref(), Some("new"));
    }

    #[test]
    fn below_another_root_only_its_files_count() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("etc")).expect("made");
        std::fs::write(dir.path().join("etc/group"), "web:x:33:\nlog:x:4:a,web-01\nadm:x:5:web-01\n")
            .expect("written");
        let machine = Machine::at_root(dir.path()).expect("a root");
        assert_eq!((uid_of(&machine, "root"), gid_of(&machine, "log")), (None, Some(4)));
        assert_eq!(group_ids(&machine, "web-01", 33), Ok(vec![33, 4, 5]));
        assert_eq!(group_by_gid(&machine, 33).map(|group| group.name).as_deref(), Some("web"));
        assert_eq!(group_by_gid(&machine, 0), None);
    }
}

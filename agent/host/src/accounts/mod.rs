//! The user database: its files in, users, groups and passwords out; and the programs that change it.
//!
//! States and execution functions read the same lines. A hash goes to programs by standard input, never as a word.

pub mod account_tools;
pub mod password_hash;
pub mod ssh_keys;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::Machine;
pub use crate::machine::account_files::{GroupEntry, PasswdEntry, read_groups, read_passwd};

/// What stands where a secret was.
pub const REDACTED: &str = "XXX-REDACTED-XXX";
/// The parts of the comment of a user, in their order.
pub const GECOS_FIELDS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];
/// The days of a password by the names that `shadow.info` gives them, in the order of the file.
pub const SHADOW_DAYS: [&str; 6] = ["lstchg", "min", "max", "warn", "inact", "expire"];

/// One line of `/etc/shadow`; a day that is not given is -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowEntry {
    /// Hash of the password; locked when it starts with `!`.
    pub hash: String,
    /// Days of its password's life, in the order of `SHADOW_DAYS`.
    pub days: [i64; 6],
}

/// A user by name: from the file, else from whatever else the system asks.
pub fn find_user(machine: &Machine, name: &str) -> Result<Option<PasswdEntry>, FunctionError> {
    if let Some(user) = find_local_user(machine, name)? {
        return Ok(Some(user));
    }
    if !machine.is_this_host() {
        return Ok(None);
    }
    let found = nix::unistd::User::from_name(name)
        .map_err(|e| FunctionError::failed(format!("cannot look the user `{name}` up: {e}")))?;
    Ok(found.map(Into::into))
}

/// A user of the file.
pub fn find_local_user(machine: &Machine, name: &str) -> Result<Option<PasswdEntry>, FunctionError> {
    Ok(read_passwd(machine)?.into_iter().find(|u| u.name == name))
}

/// A group by name: from the file, else from whatever else the system asks.
pub fn find_group(machine: &Machine, name: &str) -> Result<Option<GroupEntry>, FunctionError> {
    if let Some(group) = find_local_group(machine, name)? {
        return Ok(Some(group));
    }
    if !machine.is_this_host() {
        return Ok(None);
    }
    let found = nix::unistd::Group::from_name(name)
        .map_err(|e| FunctionError::failed(format!("cannot look the group `{name}` up: {e}")))?;
    Ok(found.map(Into::into))
}

/// A group of the file.
pub fn find_local_group(machine: &Machine, name: &str) -> Result<Option<GroupEntry>, FunctionError> {
    Ok(read_groups(machine)?.into_iter().find(|g| g.name == name))
}

/// True when there is a group of this number: in the file, else in whatever else the system asks.
pub fn has_gid(machine: &Machine, gid: i64) -> Result<bool, FunctionError> {
    if read_groups(machine)?.iter().any(|g| g.gid == gid) {
        return Ok(true);
    }
    let Some(number) = u32::try_from(gid).ok().filter(|_| machine.is_this_host()) else { return Ok(false) };
    let found = nix::unistd::Group::from_gid(number.into());
    found
        .map(|g| g.is_some())
        .map_err(|e| FunctionError::failed(format!("cannot look the gid {gid} up: {e}")))
}

/// A user of the file whose own group has this number.
pub fn primary_user(machine: &Machine, gid: i64) -> Result<Option<String>, FunctionError> {
    Ok(read_passwd(machine)?.into_iter().find(|user| user.gid == gid).map(|user| user.name))
}

/// The password of a user; nothing when it has no line.
pub fn find_shadow(machine: &Machine, name: &str) -> Result<Option<ShadowEntry>, FunctionError> {
    let text = machine.read("/etc/shadow")?.unwrap_or_default();
    Ok(text.lines().find_map(|line| {
        let mut f = line.split(':');
        (f.next() == Some(name)).then(|| ShadowEntry {
            hash: f.next().unwrap_or_default().to_owned(),
            days: std::array::from_fn(|_| f.next().and_then(|d| d.parse().ok()).unwrap_or(-1)),
        })
    }))
}

/// The name of a user id.
pub fn user_name(machine: &Machine, uid: i64) -> Result<Option<String>, FunctionError> {
    Ok(read_passwd(machine)?.into_iter().find(|u| u.uid == uid).map(|u| u.name))
}

/// The name of a group id, or its number.
pub fn group_name(machine: &Machine, gid: i64) -> Result<String, FunctionError> {
    let found = read_groups(machine)?.into_iter().find(|g| g.gid == gid).map(|g| g.name);
    Ok(found.unwrap_or_else(|| gid.to_string()))
}

/// The names of all groups that a user is in, sorted.
pub fn groups_of_user(machine: &Machine, user: &PasswdEntry) -> Result<Vec<String>, FunctionError> {
    let all = read_groups(machine)?;
    let mine = all.into_iter().filter(|g| g.gid == user.gid || g.members.contains(&user.name));
    let mut names: Vec<String> = mine.map(|g| g.name).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// A user as `user.info` shows it.
pub fn user_info(machine: &Machine, user: &PasswdEntry) -> Result<Map, FunctionError> {
    let mut out = Map::new();
    out.insert("gid", user.gid);
    out.insert("groups", groups_of_user(machine, user)?.into_iter().map(Value::from).collect::<Value>());
    out.insert("home", user.home.as_str());
    out.insert("name", user.name.as_str());
    out.insert("passwd", user.password.as_str());
    out.insert("shell", user.shell.as_str());
    out.insert("uid", user.uid);
    for (name, part) in GECOS_FIELDS.into_iter().zip(user.gecos_fields()) {
        out.insert(name, part);
    }
    Ok(out)
}

/// A group as `group.info` shows it.
pub fn group_info(group: &GroupEntry) -> Map {
    let mut out = Map::new();
    out.insert("name", group.name.as_str());
    out.insert("passwd", group.password.as_str());
    out.insert("gid", group.gid);
    out.insert("members", group.members.iter().map(|m| Value::from(m.as_str())).collect::<Value>());
    out
}

/// A password as `shadow.info` shows it; texts are empty when there is none.
pub fn shadow_info(name: &str, shadow: Option<&ShadowEntry>) -> Map {
    let mut out = Map::new();
    out.insert("name", if shadow.is_some() { name } else { "" });
    out.insert("passwd", shadow.map_or("", |s| &s.hash));
    for (i, key) in SHADOW_DAYS.into_iter().enumerate() {
        out.insert(key, shadow.map_or_else(|| Value::from(""), |s| Value::Int(s.days[i])));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_are_not_given_are_minus_one() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("etc")).expect("made");
        std::fs::write(dir.path().join("etc/shadow"), "ab:x:1\na:$6$s$h:19000:0:99999:7:::\n")
            .expect("written");
        let machine = Machine::at_root(dir.path()).unwrap();
        let found = find_shadow(&machine, "a").expect("read").expect("there");
        assert_eq!((&*found.hash, found.days), ("$6$s$h", [19000, 0, 99999, 7, -1, -1]));
        assert_eq!(find_shadow(&machine, "b").expect("read"), None);
        assert_eq!(shadow_info("b", None).get("max"), Some(&Value::from("")));
    }
}

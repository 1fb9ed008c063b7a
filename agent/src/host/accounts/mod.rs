//! The user database: its files in, users, groups and passwords out; and the programs that change it.
//!
//! Law: states and execution functions read the same lines. A hash goes to programs by standard input, never as a word.

pub(crate) mod acts;
pub(crate) mod at;
pub(crate) mod cron;
pub(crate) mod crypt;
pub(crate) mod hosts;
pub(crate) mod ini;
pub(crate) mod ssh;

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use super::Machine;

/// What stands where a secret was.
pub(crate) const REDACTED: &str = "XXX-REDACTED-XXX";
/// The parts of the comment of a user, in their order.
pub(crate) const GECOS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];
/// The days of a password by the names that `shadow.info` gives them, in the order of the file.
pub(crate) const DAYS: [&str; 6] = ["lstchg", "min", "max", "warn", "inact", "expire"];

/// One line of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) uid: i64,
    pub(crate) gid: i64,
    pub(crate) gecos: String,
    pub(crate) home: String,
    pub(crate) shell: String,
}

impl User {
    /// The parts of its comment.
    pub(crate) fn gecos(&self) -> [String; 5] {
        let mut parts = self.gecos.splitn(5, ',').map(str::to_owned);
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }
}

/// One line of the group database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) gid: i64,
    pub(crate) members: Vec<String>,
}

/// One line of `/etc/shadow`; a day that is not given is -1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shadow {
    pub(crate) hash: String,
    pub(crate) days: [i64; 6],
}

/// All users of the file.
pub(crate) fn users(machine: &Machine) -> Result<Vec<User>, Refusal> {
    let text = machine.read("/etc/passwd")?.unwrap_or_default();
    Ok(text.lines().filter_map(user).collect())
}

fn user(line: &str) -> Option<User> {
    let f: Vec<&str> = line.split(':').collect();
    let [name, password, uid, gid, gecos, home, shell] = f[..] else { return None };
    Some(User {
        name: name.into(),
        password: password.into(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        gecos: gecos.into(),
        home: home.into(),
        shell: shell.into(),
    })
}

/// All groups of the file.
pub(crate) fn groups(machine: &Machine) -> Result<Vec<Group>, Refusal> {
    let text = machine.read("/etc/group")?.unwrap_or_default();
    Ok(text.lines().filter_map(group).collect())
}

fn group(line: &str) -> Option<Group> {
    let f: Vec<&str> = line.split(':').collect();
    let [name, password, gid, members] = f[..] else { return None };
    let members = members.split(',').filter(|m| !m.is_empty()).map(str::to_owned).collect();
    Some(Group { name: name.into(), password: password.into(), gid: gid.parse().ok()?, members })
}

/// A user by name: from the file, else from whatever else the system asks.
pub(crate) fn find(machine: &Machine, name: &str) -> Result<Option<User>, Refusal> {
    if let Some(user) = find_local(machine, name)? {
        return Ok(Some(user));
    }
    if !machine.is_own() {
        return Ok(None);
    }
    let found = nix::unistd::User::from_name(name)
        .map_err(|e| Refusal::failed(format!("cannot look the user `{name}` up: {e}")))?;
    Ok(found.map(|u| User {
        name: u.name,
        password: u.passwd.to_string_lossy().into_owned(),
        uid: u.uid.as_raw().into(),
        gid: u.gid.as_raw().into(),
        gecos: u.gecos.to_string_lossy().into_owned(),
        home: u.dir.to_string_lossy().into_owned(),
        shell: u.shell.to_string_lossy().into_owned(),
    }))
}

/// A user of the file.
pub(crate) fn find_local(machine: &Machine, name: &str) -> Result<Option<User>, Refusal> {
    Ok(users(machine)?.into_iter().find(|u| u.name == name))
}

/// A group by name: from the file, else from whatever else the system asks.
pub(crate) fn find_group(machine: &Machine, name: &str) -> Result<Option<Group>, Refusal> {
    if let Some(group) = find_local_group(machine, name)? {
        return Ok(Some(group));
    }
    if !machine.is_own() {
        return Ok(None);
    }
    let found = nix::unistd::Group::from_name(name)
        .map_err(|e| Refusal::failed(format!("cannot look the group `{name}` up: {e}")))?;
    Ok(found.map(|g| Group {
        name: g.name,
        password: g.passwd.to_string_lossy().into_owned(),
        gid: g.gid.as_raw().into(),
        members: g.mem,
    }))
}

/// A group of the file.
pub(crate) fn find_local_group(machine: &Machine, name: &str) -> Result<Option<Group>, Refusal> {
    Ok(groups(machine)?.into_iter().find(|g| g.name == name))
}

/// True when there is a group of this number: in the file, else in whatever else the system asks.
pub(crate) fn has_gid(machine: &Machine, gid: i64) -> Result<bool, Refusal> {
    if groups(machine)?.iter().any(|g| g.gid == gid) {
        return Ok(true);
    }
    let Some(number) = u32::try_from(gid).ok().filter(|_| machine.is_own()) else { return Ok(false) };
    let found = nix::unistd::Group::from_gid(number.into());
    found.map(|g| g.is_some()).map_err(|e| Refusal::failed(format!("cannot look the gid {gid} up: {e}")))
}

/// The password of a user; nothing when it has no line.
pub(crate) fn shadow(machine: &Machine, name: &str) -> Result<Option<Shadow>, Refusal> {
    let text = machine.read("/etc/shadow")?.unwrap_or_default();
    Ok(text.lines().find_map(|line| {
        let mut f = line.split(':');
        (f.next() == Some(name)).then(|| Shadow {
            hash: f.next().unwrap_or_default().to_owned(),
            days: std::array::from_fn(|_| f.next().and_then(|d| d.parse().ok()).unwrap_or(-1)),
        })
    }))
}

/// The name of a user id.
pub(crate) fn user_name(machine: &Machine, uid: i64) -> Result<Option<String>, Refusal> {
    Ok(users(machine)?.into_iter().find(|u| u.uid == uid).map(|u| u.name))
}

/// The name of a group id, or its number.
pub(crate) fn group_name(machine: &Machine, gid: i64) -> Result<String, Refusal> {
    let found = groups(machine)?.into_iter().find(|g| g.gid == gid).map(|g| g.name);
    Ok(found.unwrap_or_else(|| gid.to_string()))
}

/// The names of all groups that a user is in, sorted.
pub(crate) fn groups_of(machine: &Machine, user: &User) -> Result<Vec<String>, Refusal> {
    let all = groups(machine)?;
    let mine = all.into_iter().filter(|g| g.gid == user.gid || g.members.contains(&user.name));
    let mut names: Vec<String> = mine.map(|g| g.name).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// A user as `user.info` shows it.
pub(crate) fn user_info(machine: &Machine, user: &User) -> Result<Map, Refusal> {
    let mut out = Map::new();
    out.insert("gid", user.gid);
    out.insert("groups", groups_of(machine, user)?.into_iter().map(Value::from).collect::<Value>());
    out.insert("home", user.home.as_str());
    out.insert("name", user.name.as_str());
    out.insert("passwd", user.password.as_str());
    out.insert("shell", user.shell.as_str());
    out.insert("uid", user.uid);
    for (name, part) in GECOS.into_iter().zip(user.gecos()) {
        out.insert(name, part);
    }
    Ok(out)
}

/// A group as `group.info` shows it.
pub(crate) fn group_info(group: &Group) -> Map {
    let mut out = Map::new();
    out.insert("name", group.name.as_str());
    out.insert("passwd", group.password.as_str());
    out.insert("gid", group.gid);
    out.insert("members", group.members.iter().map(|m| Value::from(m.as_str())).collect::<Value>());
    out
}

/// A password as `shadow.info` shows it; texts are empty when there is none.
pub(crate) fn shadow_info(name: &str, shadow: Option<&Shadow>) -> Map {
    let mut out = Map::new();
    out.insert("name", if shadow.is_some() { name } else { "" });
    out.insert("passwd", shadow.map_or("", |s| &s.hash));
    for (i, key) in DAYS.into_iter().enumerate() {
        out.insert(key, shadow.map_or_else(|| Value::from(""), |s| Value::Int(s.days[i])));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_databases_are_read() {
        let found = user("web:x:33:34:Web, Inc,2,,,a,b:/var/www:/bin/sh").expect("a user");
        assert_eq!((found.uid, found.gid, &*found.home), (33, 34, "/var/www"));
        assert_eq!(found.gecos(), ["Web", " Inc", "2", "", ",a,b"]);
        assert_eq!(user("+nis::::"), None);
        assert_eq!(group("adm:x:4:a,,b").expect("a group").members, ["a", "b"]);
        assert_eq!(group("adm:x:four:"), None);
    }

    #[test]
    fn days_that_are_not_given_are_minus_one() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("etc")).expect("made");
        std::fs::write(dir.path().join("etc/shadow"), "ab:x:1\na:$6$s$h:19000:0:99999:7:::\n")
            .expect("written");
        let machine = Machine::at(dir.path());
        let found = shadow(&machine, "a").expect("read").expect("there");
        assert_eq!((&*found.hash, found.days), ("$6$s$h", [19000, 0, 99999, 7, -1, -1]));
        assert_eq!(shadow(&machine, "b").expect("read"), None);
        assert_eq!(shadow_info("b", None).get("max"), Some(&Value::from("")));
    }
}

//! `user.*`, `group.*` and the ids of `file.*`: the user database.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, entry, strings, text};
use crate::host::Machine;

pub(super) const TABLE: &[Entry] = &[
    entry("user.info", "name", |m, a| {
        Ok(match find(m, text(a, "name")?)? {
            Some(user) => user_info(m, &user)?,
            None => Value::empty_map(),
        })
    }),
    entry("user.getent", "refresh?", |m, _| {
        users(m)?.iter().map(|u| user_info(m, u)).collect::<Result<Vec<_>, _>>().map(Value::from)
    }),
    entry("user.list_users", "", |m, _| {
        let mut names: Vec<String> = users(m)?.into_iter().map(|u| u.name).collect();
        names.sort_unstable();
        Ok(strings(names))
    }),
    entry("user.list_groups", "name", |m, a| {
        Ok(match find(m, text(a, "name")?)? {
            Some(user) => strings(groups_of(m, &user)?),
            None => Value::empty_list(),
        })
    }),
    entry("user.primary_group", "name", |m, a| {
        let name = text(a, "name")?;
        let user = find(m, name)?.ok_or_else(|| Refusal::failed(format!("there is no user `{name}`")))?;
        Ok(group_name(m, user.gid)?.into())
    }),
    entry("group.info", "name", |m, a| {
        let name = text(a, "name")?;
        Ok(groups(m)?.iter().find(|g| g.name == name).map_or_else(Value::empty_map, group_info))
    }),
    entry("group.getent", "refresh?", |m, _| Ok(groups(m)?.iter().map(group_info).collect())),
    entry("file.user_to_uid", "user", |m, a| id(a, "user", |n| Ok(find(m, n)?.map(|u| u.uid)))),
    entry("file.group_to_gid", "group", |m, a| {
        id(a, "group", |n| Ok(groups(m)?.into_iter().find(|g| g.name == n).map(|g| g.gid)))
    }),
    entry("file.uid_to_user", "uid", |m, a| {
        let uid = a.get("uid").and_then(Value::as_int).unwrap_or(-1);
        Ok(user_name(m, uid)?.map_or(Value::Int(uid), Value::from))
    }),
    entry("file.gid_to_group", "gid", |m, a| {
        let gid = a.get("gid").and_then(Value::as_int).unwrap_or(-1);
        Ok(group_name(m, gid)?.into())
    }),
];

/// One line of the user database.
pub(super) struct User {
    pub(super) name: String,
    password: String,
    pub(super) uid: i64,
    pub(super) gid: i64,
    gecos: String,
    home: String,
    shell: String,
}

struct Group {
    name: String,
    password: String,
    gid: i64,
    members: Vec<String>,
}

fn users(machine: &Machine) -> Result<Vec<User>, Refusal> {
    let text = machine.read("/etc/passwd")?.unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| {
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
        })
        .collect())
}

fn groups(machine: &Machine) -> Result<Vec<Group>, Refusal> {
    let text = machine.read("/etc/group")?.unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| {
            let f: Vec<&str> = line.split(':').collect();
            let [name, password, gid, members] = f[..] else { return None };
            let members = members.split(',').filter(|m| !m.is_empty()).map(str::to_owned).collect();
            Some(Group { name: name.into(), password: password.into(), gid: gid.parse().ok()?, members })
        })
        .collect())
}

/// A user by name: from the file, else from whatever else the system asks.
pub(super) fn find(machine: &Machine, name: &str) -> Result<Option<User>, Refusal> {
    if let Some(user) = users(machine)?.into_iter().find(|u| u.name == name) {
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

/// The name of a user id.
pub(super) fn user_name(machine: &Machine, uid: i64) -> Result<Option<String>, Refusal> {
    Ok(users(machine)?.into_iter().find(|u| u.uid == uid).map(|u| u.name))
}

/// The name of a group id, or its number.
pub(super) fn group_name(machine: &Machine, gid: i64) -> Result<String, Refusal> {
    let found = groups(machine)?.into_iter().find(|g| g.gid == gid).map(|g| g.name);
    Ok(found.unwrap_or_else(|| gid.to_string()))
}

fn groups_of(machine: &Machine, user: &User) -> Result<Vec<String>, Refusal> {
    let all = groups(machine)?;
    let mine = all.into_iter().filter(|g| g.gid == user.gid || g.members.contains(&user.name));
    let mut names: Vec<String> = mine.map(|g| g.name).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn user_info(machine: &Machine, user: &User) -> Result<Value, Refusal> {
    let mut gecos = user.gecos.splitn(5, ',').map(str::to_owned);
    let mut part = || Value::from(gecos.next().unwrap_or_default());
    let mut out = Map::new();
    out.insert("gid", user.gid);
    out.insert("groups", strings(groups_of(machine, user)?));
    out.insert("home", user.home.as_str());
    out.insert("name", user.name.as_str());
    out.insert("passwd", user.password.as_str());
    out.insert("shell", user.shell.as_str());
    out.insert("uid", user.uid);
    for name in ["fullname", "roomnumber", "workphone", "homephone", "other"] {
        out.insert(name, part());
    }
    Ok(out.into())
}

fn group_info(group: &Group) -> Value {
    let mut out = Map::new();
    out.insert("name", group.name.as_str());
    out.insert("passwd", group.password.as_str());
    out.insert("gid", group.gid);
    out.insert("members", strings(group.members.iter().map(String::as_str)));
    out.into()
}

/// The number of a name; numbers stay, unknown names are an empty text.
fn id(
    args: &Bound<Value>,
    name: &str,
    find: impl Fn(&str) -> Result<Option<i64>, Refusal>,
) -> Result<Value, Refusal> {
    match args.get(name) {
        Some(Value::Int(id)) => Ok(Value::Int(*id)),
        _ => Ok(find(text(args, name)?)?.map_or_else(|| Value::from(""), Value::Int)),
    }
}

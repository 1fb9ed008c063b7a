//! `user.*`, `group.*`, `shadow.*` and the ids of `file.*`: the user database.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::Value;

use super::{Entry, acting, entry, flag, strings, text};
use crate::host::accounts::acts::{Accounts, NewUser, day, day_named};
use crate::host::accounts::{
    self, GECOS, find_group, group_info, groups, groups_of, shadow, shadow_info, user_info, users,
};
pub(super) use crate::host::accounts::{find, group_name, user_name};
use crate::host::command::{shown, words_of};
use crate::host::{Machine, Tools};

pub(super) const TABLE: &[Entry] = &[
    entry("user.info", "name", |m, a| {
        Ok(match find(m, text(a, "name")?)? {
            Some(user) => user_info(m, &user)?.into(),
            None => Value::empty_map(),
        })
    }),
    entry("user.getent", "refresh?", |m, _| {
        users(m)?
            .iter()
            .map(|u| Ok(user_info(m, u)?.into()))
            .collect::<Result<Vec<Value>, _>>()
            .map(Value::from)
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
    entry("user.primary_group", "name", |m, a| Ok(group_name(m, known(m, a)?.gid)?.into())),
    acting(
        "user.add",
        "name uid? gid? groups? home? shell? unique? system? fullname? roomnumber? workphone? homephone? other? \
         createhome? loginclass? nologinit? root? usergroup? local?",
        add,
    ),
    acting("user.delete", "name remove? force? root? local?", |m, a| {
        done(acts(m).delete_user(text(a, "name")?, flag(a, "remove", false), flag(a, "force", false)))
    }),
    acting("user.chuid", "name uid root?", |m, a| set(m, a, "uid", &word(a, "uid"), &[])),
    acting("user.chgid", "name gid root?", |m, a| set(m, a, "gid", &word(a, "gid"), &[])),
    acting("user.chshell", "name shell root?", |m, a| set(m, a, "shell", &word(a, "shell"), &[])),
    acting("user.chhome", "name home persist? root?", |m, a| {
        let more: &[&str] = if flag(a, "persist", false) { &["-m"] } else { &[] };
        set(m, a, "home", &word(a, "home"), more)
    }),
    acting("user.chgroups", "name groups append? root?", |m, a| {
        let groups = listed(a, "groups");
        done(acts(m).set_groups(&known(m, a)?.name, &groups, flag(a, "append", false)))
    }),
    acting("user.chfullname", "name fullname root?", |m, a| set_gecos(m, a, 0)),
    acting("user.chroomnumber", "name roomnumber root?", |m, a| set_gecos(m, a, 1)),
    acting("user.chworkphone", "name workphone root?", |m, a| set_gecos(m, a, 2)),
    acting("user.chhomephone", "name homephone root?", |m, a| set_gecos(m, a, 3)),
    acting("user.chother", "name other root?", |m, a| set_gecos(m, a, 4)),
    entry("group.info", "name", |m, a| {
        Ok(find_group(m, text(a, "name")?)?.map_or_else(Value::empty_map, |g| group_info(&g).into()))
    }),
    entry("group.getent", "refresh?", |m, _| {
        Ok(groups(m)?.iter().map(|g| Value::from(group_info(g))).collect())
    }),
    acting("group.add", "name gid? system? root? non_unique? local?", |m, a| {
        let (system, non_unique) = (flag(a, "system", false), flag(a, "non_unique", false));
        done(acts(m).add_group(text(a, "name")?, int(a, "gid"), system, non_unique))
    }),
    acting("group.delete", "name root? local?", |m, a| done(acts(m).delete_group(text(a, "name")?))),
    acting("group.chgid", "name gid root? non_unique?", |m, a| {
        let gid = int(a, "gid").ok_or_else(|| Refusal::arguments("`gid` must be a number"))?;
        done(acts(m).set_gid(text(a, "name")?, gid, flag(a, "non_unique", false)))
    }),
    acting("group.adduser", "name username root?", |m, a| {
        done(acts(m).join(text(a, "name")?, text(a, "username")?))
    }),
    acting("group.deluser", "name username root?", |m, a| {
        let (group, user) = (text(a, "name")?, text(a, "username")?);
        let is_in = find_group(m, group)?.is_some_and(|g| g.members.iter().any(|n| n == user));
        if is_in { done(acts(m).leave(group, user)) } else { Ok(true.into()) }
    }),
    acting("group.members", "name members_list root?", |m, a| {
        done(acts(m).set_members(text(a, "name")?, &listed(a, "members_list")))
    }),
    entry("shadow.info", "name root?", |m, a| {
        let name = text(a, "name")?;
        Ok(shadow_info(name, shadow(m, name)?.as_ref()).into())
    }),
    entry("shadow.default_hash", "", |_, _| Ok("!".into())),
    entry("shadow.gen_password", "password crypt_salt? algorithm?", |_, a| {
        if a.get("algorithm").is_some_and(|v| v.is_truthy() && v.as_str() != Some("sha512")) {
            return Err(Refusal::arguments("only sha512 is made here"));
        }
        let older = a.get("crypt_salt").filter(|v| v.is_truthy()).map(|salt| format!("$6${}$", shown(salt)));
        let hash = accounts::crypt::hashed(text(a, "password")?, older.as_deref());
        hash.map(Value::from).map_err(|e| Refusal::failed(format!("cannot make a salt: {e}")))
    }),
    acting("shadow.set_password", "name password use_usermod? root?", |m, a| {
        done(acts(m).set_hash(&known(m, a)?.name, text(a, "password")?))
    }),
    acting("shadow.del_password", "name root?", |m, a| done(acts(m).set_hash(&known(m, a)?.name, ""))),
    acting("shadow.lock_password", "name root?", |m, a| done(acts(m).lock(&known(m, a)?.name, true))),
    acting("shadow.unlock_password", "name root?", |m, a| done(acts(m).lock(&known(m, a)?.name, false))),
    acting("shadow.set_date", "name date root?", |m, a| set_day(m, a, "lstchg", "date")),
    acting("shadow.set_mindays", "name mindays root?", |m, a| set_day(m, a, "min", "mindays")),
    acting("shadow.set_maxdays", "name maxdays root?", |m, a| set_day(m, a, "max", "maxdays")),
    acting("shadow.set_warndays", "name warndays root?", |m, a| set_day(m, a, "warn", "warndays")),
    acting("shadow.set_inactdays", "name inactdays root?", |m, a| set_day(m, a, "inact", "inactdays")),
    acting("shadow.set_expire", "name expire root?", |m, a| set_day(m, a, "expire", "expire")),
    entry("file.user_to_uid", "user", |m, a| id(a, "user", |n| Ok(find(m, n)?.map(|u| u.uid)))),
    entry("file.group_to_gid", "group", |m, a| id(a, "group", |n| Ok(find_group(m, n)?.map(|g| g.gid)))),
    entry("file.uid_to_user", "uid", |m, a| {
        let uid = a.get("uid").and_then(Value::as_int).unwrap_or(-1);
        Ok(user_name(m, uid)?.map_or(Value::Int(uid), Value::from))
    }),
    entry("file.gid_to_group", "gid", |m, a| {
        let gid = a.get("gid").and_then(Value::as_int).unwrap_or(-1);
        Ok(group_name(m, gid)?.into())
    }),
];

fn acts(machine: &Machine) -> Accounts<'_> {
    Accounts(Tools::new(machine))
}

fn done(act: Result<(), Refusal>) -> Result<Value, Refusal> {
    act.map(|()| true.into())
}

/// The user that an act is about.
fn known(machine: &Machine, args: &Bound<Value>) -> Result<accounts::User, Refusal> {
    let name = text(args, "name")?;
    find(machine, name)?.ok_or_else(|| Refusal::failed(format!("User '{name}' does not exist")))
}

fn word(args: &Bound<Value>, name: &str) -> String {
    args.get(name).filter(|v| !matches!(v, Value::Null)).map(shown).unwrap_or_default()
}

fn int(args: &Bound<Value>, name: &str) -> Option<i64> {
    args.get(name).and_then(|v| shown(v).parse().ok())
}

/// Names in a list, or in a text with commas between them.
fn listed(args: &Bound<Value>, name: &str) -> Vec<String> {
    let all = words_of(args.get(name));
    all.iter().flat_map(|w| w.split(',')).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

fn add(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let given = |name: &str| Some(word(args, name)).filter(|w| !w.is_empty());
    let new = NewUser {
        uid: int(args, "uid"),
        gid: given("gid"),
        groups: listed(args, "groups"),
        usergroup: args.get("usergroup").filter(|v| !matches!(v, Value::Null)).map(Value::is_truthy),
        home: given("home"),
        createhome: flag(args, "createhome", true),
        shell: given("shell"),
        gecos: GECOS.map(|key| word(args, key)).join(",").trim_end_matches(',').to_owned(),
        unique: flag(args, "unique", true),
        system: flag(args, "system", false),
        nologinit: flag(args, "nologinit", false),
    };
    done(acts(machine).add_user(text(args, "name")?, &new))
}

fn set(m: &Machine, a: &Bound<Value>, key: &str, value: &str, more: &[&str]) -> Result<Value, Refusal> {
    done(acts(m).set(&known(m, a)?.name, key, value, more))
}

fn set_gecos(machine: &Machine, args: &Bound<Value>, at: usize) -> Result<Value, Refusal> {
    let mut parts = known(machine, args)?.gecos();
    parts[at] = word(args, GECOS[at]);
    set(machine, args, "gecos", parts.join(",").trim_end_matches(','), &[])
}

fn set_day(machine: &Machine, args: &Bound<Value>, key: &str, name: &str) -> Result<Value, Refusal> {
    let given = word(args, name);
    let days = day(&given).ok_or_else(|| Refusal::arguments(format!("`{given}` is no day")))?;
    done(acts(machine).set_days(&known(machine, args)?.name, &[(day_named(key), days)]))
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

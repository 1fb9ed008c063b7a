//! `user.*`, `group.*`, `shadow.*` and the ids of `file.*`: the user database.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use super::{ExecFunction, change_fn, flag_arg, query_fn, string_list, text_arg};
use zagent_host::accounts;
use zagent_host::accounts::account_tools::{AccountTools, NewUser, parse_day, shadow_day_index};
use zagent_host::accounts::{
    GECOS_FIELDS, find_group, find_shadow, group_info, groups_of_user, read_groups, read_passwd, shadow_info,
    user_info,
};
pub use zagent_host::accounts::{find_user, group_name, user_name};
use zagent_host::exec::command_options::{text_list, value_text};
use zagent_host::{Machine, Tools};

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("user.info", "name", |m, a| {
        Ok(match find_user(m, text_arg(a, "name")?)? {
            Some(user) => user_info(m, &user)?.into(),
            None => Value::empty_map(),
        })
    }),
    query_fn("user.getent", "refresh?", |m, _| {
        read_passwd(m)?
            .iter()
            .map(|u| Ok(user_info(m, u)?.into()))
            .collect::<Result<Vec<Value>, _>>()
            .map(Value::from)
    }),
    query_fn("user.list_users", "", |m, _| {
        let mut names: Vec<String> = read_passwd(m)?.into_iter().map(|u| u.name).collect();
        names.sort_unstable();
        Ok(string_list(names))
    }),
    query_fn("user.list_groups", "name", |m, a| {
        Ok(match find_user(m, text_arg(a, "name")?)? {
            Some(user) => string_list(groups_of_user(m, &user)?),
            None => Value::empty_list(),
        })
    }),
    query_fn("user.primary_group", "name", |m, a| Ok(group_name(m, required_user(m, a)?.gid)?.into())),
    change_fn(
        "user.add",
        "name uid? gid? groups? home? shell? unique? system? fullname? roomnumber? workphone? homephone? other? \
         createhome? loginclass? nologinit? root? usergroup? local?",
        add_user,
    ),
    change_fn("user.delete", "name remove? force? root? local?", |m, a| {
        true_if_done(account_tools(m).delete_user(
            text_arg(a, "name")?,
            flag_arg(a, "remove", false),
            flag_arg(a, "force", false),
        ))
    }),
    change_fn("user.chuid", "name uid root?", |m, a| {
        set_user_attribute(m, a, "uid", &arg_or_empty(a, "uid"), &[])
    }),
    change_fn("user.chgid", "name gid root?", |m, a| {
        set_user_attribute(m, a, "gid", &arg_or_empty(a, "gid"), &[])
    }),
    change_fn("user.chshell", "name shell root?", |m, a| {
        set_user_attribute(m, a, "shell", &arg_or_empty(a, "shell"), &[])
    }),
    change_fn("user.chhome", "name home persist? root?", |m, a| {
        let more: &[&str] = if flag_arg(a, "persist", false) { &["-m"] } else { &[] };
        set_user_attribute(m, a, "home", &arg_or_empty(a, "home"), more)
    }),
    change_fn("user.chgroups", "name groups append? root?", |m, a| {
        let groups = names_arg(a, "groups");
        true_if_done(account_tools(m).set_groups(
            &required_user(m, a)?.name,
            &groups,
            flag_arg(a, "append", false),
        ))
    }),
    change_fn("user.chfullname", "name fullname root?", |m, a| set_gecos(m, a, 0)),
    change_fn("user.chroomnumber", "name roomnumber root?", |m, a| set_gecos(m, a, 1)),
    change_fn("user.chworkphone", "name workphone root?", |m, a| set_gecos(m, a, 2)),
    change_fn("user.chhomephone", "name homephone root?", |m, a| set_gecos(m, a, 3)),
    change_fn("user.chother", "name other root?", |m, a| set_gecos(m, a, 4)),
    query_fn("group.info", "name", |m, a| {
        Ok(find_group(m, text_arg(a, "name")?)?.map_or_else(Value::empty_map, |g| group_info(&g).into()))
    }),
    query_fn("group.getent", "refresh?", |m, _| {
        Ok(read_groups(m)?.iter().map(|g| Value::from(group_info(g))).collect())
    }),
    change_fn("group.add", "name gid? system? root? non_unique? local?", |m, a| {
        let (system, non_unique) = (flag_arg(a, "system", false), flag_arg(a, "non_unique", false));
        true_if_done(account_tools(m).add_group(text_arg(a, "name")?, int_arg(a, "gid"), system, non_unique))
    }),
    change_fn("group.delete", "name root? local?", |m, a| {
        true_if_done(account_tools(m).delete_group(text_arg(a, "name")?))
    }),
    change_fn("group.chgid", "name gid root? non_unique?", |m, a| {
        let gid = int_arg(a, "gid").ok_or_else(|| FunctionError::bad_arguments("`gid` must be a number"))?;
        true_if_done(account_tools(m).set_gid(text_arg(a, "name")?, gid, flag_arg(a, "non_unique", false)))
    }),
    change_fn("group.adduser", "name username root?", |m, a| {
        true_if_done(account_tools(m).add_to_group(text_arg(a, "name")?, text_arg(a, "username")?))
    }),
    change_fn("group.deluser", "name username root?", |m, a| {
        let (group, user) = (text_arg(a, "name")?, text_arg(a, "username")?);
        let is_in = find_group(m, group)?.is_some_and(|g| g.members.iter().any(|n| n == user));
        if is_in { true_if_done(account_tools(m).remove_from_group(group, user)) } else { Ok(true.into()) }
    }),
    change_fn("group.members", "name members_list root?", |m, a| {
        true_if_done(account_tools(m).set_members(text_arg(a, "name")?, &names_arg(a, "members_list")))
    }),
    query_fn("shadow.info", "name root?", |m, a| {
        let name = text_arg(a, "name")?;
        Ok(shadow_info(name, find_shadow(m, name)?.as_ref()).into())
    }),
    query_fn("shadow.default_hash", "", |_, _| Ok("!".into())),
    query_fn("shadow.gen_password", "password crypt_salt? algorithm?", |_, a| {
        if a.get("algorithm").is_some_and(|v| v.is_truthy() && v.as_str() != Some("sha512")) {
            return Err(FunctionError::bad_arguments("only sha512 is made here"));
        }
        let older =
            a.get("crypt_salt").filter(|v| v.is_truthy()).map(|salt| format!("$6${}$", value_text(salt)));
        let hash = accounts::password_hash::hash_password(text_arg(a, "password")?, older.as_deref());
        hash.map(Value::from).map_err(|e| FunctionError::failed(format!("cannot make a salt: {e}")))
    }),
    change_fn("shadow.set_password", "name password use_usermod? root?", |m, a| {
        true_if_done(account_tools(m).set_password_hash(&required_user(m, a)?.name, text_arg(a, "password")?))
    }),
    change_fn("shadow.del_password", "name root?", |m, a| {
        true_if_done(account_tools(m).set_password_hash(&required_user(m, a)?.name, ""))
    }),
    change_fn("shadow.lock_password", "name root?", |m, a| {
        true_if_done(account_tools(m).set_password_lock(&required_user(m, a)?.name, true))
    }),
    change_fn("shadow.unlock_password", "name root?", |m, a| {
        true_if_done(account_tools(m).set_password_lock(&required_user(m, a)?.name, false))
    }),
    change_fn("shadow.set_date", "name date root?", |m, a| set_day(m, a, "lstchg", "date")),
    change_fn("shadow.set_mindays", "name mindays root?", |m, a| set_day(m, a, "min", "mindays")),
    change_fn("shadow.set_maxdays", "name maxdays root?", |m, a| set_day(m, a, "max", "maxdays")),
    change_fn("shadow.set_warndays", "name warndays root?", |m, a| set_day(m, a, "warn", "warndays")),
    change_fn("shadow.set_inactdays", "name inactdays root?", |m, a| set_day(m, a, "inact", "inactdays")),
    change_fn("shadow.set_expire", "name expire root?", |m, a| set_day(m, a, "expire", "expire")),
    query_fn("file.user_to_uid", "user", |m, a| {
        id_of_name(a, "user", |n| Ok(find_user(m, n)?.map(|u| u.uid)))
    }),
    query_fn("file.group_to_gid", "group", |m, a| {
        id_of_name(a, "group", |n| Ok(find_group(m, n)?.map(|g| g.gid)))
    }),
    query_fn("file.uid_to_user", "uid", |m, a| {
        let uid = a.get("uid").and_then(Value::as_int).unwrap_or(-1);
        Ok(user_name(m, uid)?.map_or(Value::Int(uid), Value::from))
    }),
    query_fn("file.gid_to_group", "gid", |m, a| {
        let gid = a.get("gid").and_then(Value::as_int).unwrap_or(-1);
        Ok(group_name(m, gid)?.into())
    }),
];

fn account_tools(machine: &Machine) -> AccountTools<'_> {
    AccountTools(Tools::new(machine))
}

fn true_if_done(act: Result<(), FunctionError>) -> Result<Value, FunctionError> {
    act.map(|()| true.into())
}

/// The user that an act is about.
fn required_user(
    machine: &Machine,
    args: &FunctionArgs<Value>,
) -> Result<accounts::PasswdEntry, FunctionError> {
    let name = text_arg(args, "name")?;
    find_user(machine, name)?.ok_or_else(|| FunctionError::failed(format!("User '{name}' does not exist")))
}

fn arg_or_empty(args: &FunctionArgs<Value>, name: &str) -> String {
    args.get(name).filter(|v| !matches!(v, Value::Null)).map(value_text).unwrap_or_default()
}

fn int_arg(args: &FunctionArgs<Value>, name: &str) -> Option<i64> {
    args.get(name).and_then(|v| value_text(v).parse().ok())
}

/// Names in a list, or in a text with commas between them.
fn names_arg(args: &FunctionArgs<Value>, name: &str) -> Vec<String> {
    let all = text_list(args.get(name));
    all.iter().flat_map(|w| w.split(',')).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

fn add_user(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let given = |name: &str| Some(arg_or_empty(args, name)).filter(|w| !w.is_empty());
    let new = NewUser {
        uid: int_arg(args, "uid"),
        gid: given("gid"),
        groups: names_arg(args, "groups"),
        usergroup: args.get("usergroup").filter(|v| !matches!(v, Value::Null)).map(Value::is_truthy),
        home: given("home"),
        createhome: flag_arg(args, "createhome", true),
        shell: given("shell"),
        gecos: GECOS_FIELDS.map(|key| arg_or_empty(args, key)).join(",").trim_end_matches(',').to_owned(),
        unique: flag_arg(args, "unique", true),
        system: flag_arg(args, "system", false),
        nologinit: flag_arg(args, "nologinit", false),
    };
    true_if_done(account_tools(machine).add_user(text_arg(args, "name")?, &new))
}

fn set_user_attribute(
    m: &Machine,
    a: &FunctionArgs<Value>,
    key: &str,
    value: &str,
    more: &[&str],
) -> Result<Value, FunctionError> {
    true_if_done(account_tools(m).set_attribute(&required_user(m, a)?.name, key, value, more))
}

fn set_gecos(machine: &Machine, args: &FunctionArgs<Value>, at: usize) -> Result<Value, FunctionError> {
    let mut parts = required_user(machine, args)?.gecos_fields();
    parts[at] = arg_or_empty(args, GECOS_FIELDS[at]);
    set_user_attribute(machine, args, "gecos", parts.join(",").trim_end_matches(','), &[])
}

fn set_day(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    key: &str,
    name: &str,
) -> Result<Value, FunctionError> {
    let given = arg_or_empty(args, name);
    let days =
        parse_day(&given).ok_or_else(|| FunctionError::bad_arguments(format!("`{given}` is no day")))?;
    true_if_done(
        account_tools(machine)
            .set_shadow_days(&required_user(machine, args)?.name, &[(shadow_day_index(key), days)]),
    )
}

/// The number of a name; numbers stay, unknown names are an empty text.
fn id_of_name(
    args: &FunctionArgs<Value>,
    name: &str,
    find: impl Fn(&str) -> Result<Option<i64>, FunctionError>,
) -> Result<Value, FunctionError> {
    match args.get(name) {
        Some(Value::Int(id)) => Ok(Value::Int(*id)),
        _ => Ok(find(text_arg(args, name)?)?.map_or_else(|| Value::from(""), Value::Int)),
    }
}

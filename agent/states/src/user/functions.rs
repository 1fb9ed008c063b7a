//! `user.*`: users of the host.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::account_args::{
    account_tools, given_text, int_arg, names_arg, required_user, true_if_done,
};
use crate::exec_function::{ExecFunction, change_fn, flag_arg, query_fn, string_list, text_arg};
use zagent_host::Machine;
use zagent_host::accounts::account_tools::NewUser;
use zagent_host::accounts::{GECOS_FIELDS, find_user, group_name, groups_of_user, read_passwd, user_info};

/// The execution functions of `user`.
pub(crate) const TABLE: &[ExecFunction] = &[
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
        set_user_attribute(m, a, "uid", &given_text(a, "uid"), &[])
    }),
    change_fn("user.chgid", "name gid root?", |m, a| {
        set_user_attribute(m, a, "gid", &given_text(a, "gid"), &[])
    }),
    change_fn("user.chshell", "name shell root?", |m, a| {
        set_user_attribute(m, a, "shell", &given_text(a, "shell"), &[])
    }),
    change_fn("user.chhome", "name home persist? root?", |m, a| {
        let more: &[&str] = if flag_arg(a, "persist", false) { &["-m"] } else { &[] };
        set_user_attribute(m, a, "home", &given_text(a, "home"), more)
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
];

fn add_user(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let given = |name: &str| Some(given_text(args, name)).filter(|w| !w.is_empty());
    let new = NewUser {
        uid: int_arg(args, "uid"),
        gid: given("gid"),
        groups: names_arg(args, "groups"),
        usergroup: args.get("usergroup").filter(|v| !matches!(v, Value::Null)).map(Value::is_truthy),
        home: given("home"),
        createhome: flag_arg(args, "createhome", true),
        shell: given("shell"),
        gecos: GECOS_FIELDS.map(|key| given_text(args, key)).join(",").trim_end_matches(',').to_owned(),
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
    parts[at] = given_text(args, GECOS_FIELDS[at]);
    set_user_attribute(machine, args, "gecos", parts.join(",").trim_end_matches(','), &[])
}

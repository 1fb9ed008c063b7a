//! `group.*`: groups of the host.

use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::account_args::{account_tools, int_arg, names_arg, true_if_done};
use crate::exec_function::{ExecFunction, change_fn, flag_arg, query_fn, text_arg};
use zagent_host::accounts::{find_group, group_info, read_groups};

/// The execution functions of `group`.
pub(crate) const TABLE: &[ExecFunction] = &[
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
];

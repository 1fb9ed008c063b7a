//! `shadow.*`: passwords and when they expire.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::account_args::{account_tools, given_text, required_user, true_if_done};
use crate::exec_function::{ExecFunction, change_fn, query_fn, text_arg};
use zagent_host::Machine;
use zagent_host::accounts::account_tools::{parse_day, shadow_day_index};
use zagent_host::accounts::{find_shadow, password_hash, shadow_info};
use zagent_host::command_options::value_text;

/// The execution functions of `shadow`.
pub(crate) const TABLE: &[ExecFunction] = &[
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
        let hash = password_hash::hash_password(text_arg(a, "password")?, older.as_deref());
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
];

fn set_day(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    key: &str,
    name: &str,
) -> Result<Value, FunctionError> {
    let given = given_text(args, name);
    let days =
        parse_day(&given).ok_or_else(|| FunctionError::bad_arguments(format!("`{given}` is no day")))?;
    true_if_done(
        account_tools(machine)
            .set_shadow_days(&required_user(machine, args)?.name, &[(shadow_day_index(key), days)]),
    )
}

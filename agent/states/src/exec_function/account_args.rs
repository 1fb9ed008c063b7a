//! What `user.*`, `group.*` and `shadow.*` share: arguments in, an account of the host and the tools that change it out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use super::text_arg;
use zagent_host::accounts;
use zagent_host::accounts::account_tools::AccountTools;
use zagent_host::accounts::find_user;
use zagent_host::command_options::{text_list, value_text};
use zagent_host::{Machine, Tools};

pub(crate) fn account_tools(machine: &Machine) -> AccountTools<'_> {
    AccountTools(Tools::new(machine))
}

pub(crate) fn true_if_done(act: Result<(), FunctionError>) -> Result<Value, FunctionError> {
    act.map(|()| true.into())
}

/// The user that an act is about.
pub(crate) fn required_user(
    machine: &Machine,
    args: &FunctionArgs<Value>,
) -> Result<accounts::PasswdEntry, FunctionError> {
    let name = text_arg(args, "name")?;
    find_user(machine, name)?.ok_or_else(|| FunctionError::failed(format!("User '{name}' does not exist")))
}

pub(crate) fn int_arg(args: &FunctionArgs<Value>, name: &str) -> Option<i64> {
    args.get(name).and_then(|v| value_text(v).parse().ok())
}

/// Names in a list, or in a text with commas between them.
pub(crate) fn names_arg(args: &FunctionArgs<Value>, name: &str) -> Vec<String> {
    let all = text_list(args.get(name));
    all.iter().flat_map(|w| w.split(',')).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// An argument as text; empty when it is not given or nothing.
pub(crate) fn given_text(args: &FunctionArgs<Value>, name: &str) -> String {
    args.get(name).filter(|v| !matches!(v, Value::Null)).map(value_text).unwrap_or_default()
}

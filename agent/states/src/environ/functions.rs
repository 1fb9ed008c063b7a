//! `environ.*`: variables of the agent's own environment; below another root, those that its commands inherit.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, optional_text_arg, query_fn, text_arg};
use zagent_host::Machine;
use zagent_host::facts::machine_system;

/// The execution functions of `environ`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("environ.get", "key default?", |m, a| {
        let found = machine_system(m).env(text_arg(a, "key")?).map(Value::from);
        Ok(found.or_else(|| a.get("default").cloned()).unwrap_or_else(|| "".into()))
    }),
    query_fn("environ.has_value", "key value?", |m, a| {
        let found = machine_system(m).env(text_arg(a, "key")?);
        Ok(found.is_some_and(|v| optional_text_arg(a, "value").is_none_or(|want| v == want)).into())
    }),
    query_fn("environ.item", "keys default?", environ_item),
    query_fn("environ.items", "", |m, _| {
        Ok(machine_system(m).environment().into_iter().collect::<Map>().into())
    }),
];

fn environ_item(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let names: Vec<&str> = match args.get("keys") {
        Some(Value::Str(name)) => vec![name],
        Some(Value::List(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Err(FunctionError::bad_arguments("`keys` must be text or a list")),
    };
    let default = args.get("default").cloned().unwrap_or_else(|| "".into());
    let system = machine_system(machine);
    let value = |name: &str| system.env(name).map_or_else(|| default.clone(), Value::from);
    Ok(names.into_iter().map(|n| (n, value(n))).collect::<Map>().into())
}

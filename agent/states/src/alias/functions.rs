//! `aliases.*`: mail aliases of `/etc/aliases`.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::aliases_file;
use crate::exec_function::{ExecFunction, arg_or_empty, change_fn, edit_text_file, query_fn, text_arg};
use zagent_host::command_options::text_list;
use zagent_host::{Machine, Tools};

const ALIASES: &str = "/etc/aliases";

/// The execution functions of `aliases`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("aliases.list_aliases", "", |m, _| Ok(mail_aliases(m)?.into())),
    query_fn("aliases.get_target", "alias", |m, a| {
        Ok(mail_aliases(m)?.get(text_arg(a, "alias")?).cloned().unwrap_or_else(|| "".into()))
    }),
    query_fn("aliases.has_target", "alias target", |m, a| {
        let target = text_list(a.get("target")).join(", ");
        Ok((mail_aliases(m)?.get(text_arg(a, "alias")?).and_then(Value::as_str) == Some(&*target)).into())
    }),
    change_fn("aliases.set_target", "alias target", |m, a| {
        let target = text_list(a.get("target")).join(", ");
        edit_aliases(m, |old| aliases_file::set_mail_alias(old, &arg_or_empty(a, "alias"), Some(&target)))
    }),
    change_fn("aliases.rm_alias", "alias", |m, a| {
        edit_aliases(m, |old| aliases_file::set_mail_alias(old, &arg_or_empty(a, "alias"), None))
    }),
];

fn mail_aliases(machine: &Machine) -> Result<Map, FunctionError> {
    let all = aliases_file::mail_aliases(&machine.read(ALIASES)?.unwrap_or_default());
    Ok(all.into_iter().map(|(name, target)| (Value::from(name), Value::from(target))).collect())
}

fn edit_aliases(machine: &Machine, change: impl FnOnce(&str) -> String) -> Result<Value, FunctionError> {
    edit_text_file(machine, ALIASES, change)?;
    let tools = Tools::new(machine);
    if tools.which("newaliases").is_some() {
        tools.run_change("newaliases", &[] as &[&str])?;
    }
    Ok(true.into())
}

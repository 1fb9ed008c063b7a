//! `logrotate.*`: what logrotate is told.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, optional_text_arg, query_fn, text_arg};
use crate::file::functions::read_required;
use crate::logrotate::config as logrotate;
use zagent_host::Machine;

/// The execution functions of `logrotate`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("logrotate.show_conf", "conf_file?", |m, a| Ok(read_logrotate(m, a)?.into())),
    query_fn("logrotate.get", "key value? conf_file?", |m, a| {
        let found = read_logrotate(m, a)?.get(text_arg(a, "key")?).cloned();
        Ok(match optional_text_arg(a, "value") {
            Some(inner) => found.and_then(|f| f.get(inner).cloned()),
            None => found,
        }
        .unwrap_or(Value::Bool(false)))
    }),
];

/// What logrotate is told, with all that is included.
fn read_logrotate(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Map, FunctionError> {
    let main =
        read_required(machine, optional_text_arg(args, "conf_file").unwrap_or(logrotate::LOGROTATE_CONF))?;
    let mut all = logrotate::parse_config(&main);
    for included in logrotate::includes(&main) {
        let mut paths: Vec<String> =
            machine.list_dir(included).iter().map(|n| format!("{included}/{n}")).collect();
        if paths.is_empty() {
            paths.push(included.to_owned());
        }
        for path in paths {
            let text = machine.read(&path)?.unwrap_or_default();
            logrotate::parse_config(&text).iter().for_each(|(k, v)| _ = all.insert(k.clone(), v.clone()));
        }
    }
    Ok(all)
}

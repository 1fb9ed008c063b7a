//! `debconf.*`: answers that packages of Debian ask for.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::debconf;
use crate::debconf::DebconfAnswer;
use crate::exec_function::{ExecFunction, change_fn, flag_arg, query_fn, text_arg};
use zagent_host::command_options::value_text;
use zagent_host::{Machine, Tools};

/// The execution functions of `debconf`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("debconf.get_selections", "fetchempty?", debconf_selections),
    query_fn("debconf.show", "name", |m, a| {
        let all = debconf_selections(m, a)?;
        Ok(all.get(text_arg(a, "name")?).cloned().unwrap_or(Value::Null))
    }),
    change_fn("debconf.set", "package question type value *", |m, a| {
        let word = |key: &str| a.get(key).map(value_text).unwrap_or_default();
        let value: Vec<String> = [word("value")].into_iter().chain(a.rest().iter().map(value_text)).collect();
        let (package, question, kind) = (word("package"), word("question"), word("type"));
        debconf::set_selections(
            &Tools::new(m),
            &[DebconfAnswer { package, question, kind, value: value.join(" ") }],
        )?;
        Ok(true.into())
    }),
];

/// All answers, by package.
fn debconf_selections(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let empty = flag_arg(args, "fetchempty", true);
    let mut all: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
    for answer in debconf::load_answers(machine)?.into_iter().filter(|a| empty || !a.value.is_empty()) {
        let output = [answer.question, answer.kind, answer.value].into_iter().map(Value::from).collect();
        all.entry(answer.package).or_default().push(output);
    }
    Ok(all.into_iter().map(|(p, list)| (p, list.into_iter().collect::<Value>())).collect::<Map>().into())
}

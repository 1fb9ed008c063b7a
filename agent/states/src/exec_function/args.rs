//! Arguments of execution functions: bound values in, texts, flags and lists out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use zagent_host::command_options::value_text;

/// An argument that has to be text.
pub(crate) fn text_arg<'a>(args: &'a FunctionArgs<Value>, name: &str) -> Result<&'a str, FunctionError> {
    let value = args.get(name);
    value.and_then(Value::as_str).ok_or_else(|| {
        let got = value.map_or("nothing", Value::kind);
        FunctionError::bad_arguments(format!("`{name}` must be text, not {got}"))
    })
}

/// An argument as text, when it is given and is not nothing.
pub(crate) fn optional_text_arg<'a>(args: &'a FunctionArgs<Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

/// An argument that switches something on.
pub(crate) fn flag_arg(args: &FunctionArgs<Value>, name: &str, default: bool) -> bool {
    args.get(name).map_or(default, Value::is_truthy)
}

/// A list of texts.
pub(crate) fn string_list<S: Into<Value>>(items: impl IntoIterator<Item = S>) -> Value {
    items.into_iter().map(Into::into).collect()
}

/// An argument that is there and says something.
pub(crate) fn non_empty_arg(args: &FunctionArgs<Value>, name: &str) -> Option<String> {
    args.get(name).filter(|v| v.is_truthy() || matches!(v, Value::Int(0))).map(value_text)
}

/// An argument as text; empty when it is not there or says nothing.
pub(crate) fn arg_or_empty(args: &FunctionArgs<Value>, name: &str) -> String {
    non_empty_arg(args, name).unwrap_or_default()
}

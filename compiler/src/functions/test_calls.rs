//! The rest of `test.*`: functions for trying out calls, return codes and failures.

use minijinja::value::Value;
use zagent_config::{List, Map, Value as Data};

use super::hash::hex_digest;
use super::random::random_below;
use super::table::{FunctionEntry, data_function, live_function};
use super::test::{arg, provider_of};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::FunctionCall;
use crate::jinja::object::{tuple, type_name};

/// The digest that Salt uses when nothing else is configured.
const DEFAULT_HASH: &str = "sha256";
/// What Salt draws a number up to, when nothing else is said.
const DEFAULT_SIZE: i64 = 9_999_999_999;
/// Steps after which a sequence is given up.
const MAX_STEPS: usize = 10_000;

pub(super) const TABLE: &[FunctionEntry] = &[
    // The code itself is for the caller: a guard reads it, and so does the command line.
    data_function("test.retcode", "code?", |_, _| Ok(true.into())),
    data_function("test.random_hash", "size? hash_type?", random_hash),
    data_function("test.rand_str", "size? hash_type?", random_hash),
    live_function("test.arg_clean", "* **", arg),
    live_function("test.arg_type", "* **", arg_type),
    live_function("test.fib", "num", fib),
    live_function("test.collatz", "start", collatz),
    data_function("test.cross_test", "func args?", cross_test),
    data_function("test.try", "module return_try_exception? **", try_call),
    data_function("test.attr_call", "", |inner, _| inner.call_data(&call("grains.items", Vec::new()))),
    data_function("test.conf_test", "", conf_test),
    data_function("test.opts_pkg", "", opts_pkg),
    data_function("test.not_loaded", "", |_, _| Ok(Data::empty_list())),
    data_function("test.module_report", "", module_report),
    data_function("test.providers", "", providers),
    data_function("test.versions_information", "", versions_information),
    data_function("test.versions_report", "", versions_report),
    data_function("test.versions", "", versions_report),
    data_function("test.stack", "", |_, _| Ok("".into())),
    data_function("test.tty", "* **", |_, _| Ok("ERROR: This function has been moved to cmd.tty".into())),
    data_function("test.deprecation_warning", "", |_, _| Ok(true.into())),
    data_function("test.assertion", "assertion", assertion),
    data_function("test.exception", "message?", exception),
    data_function("test.raise_exception", "name * **", raise_exception),
];

fn call(function: &str, args: Vec<Data>) -> FunctionCall {
    FunctionCall { function: function.to_owned(), args, kwargs: Map::new() }
}

/// The digest of a number by chance.
fn random_hash(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let size = args.get("size").map_or(Some(DEFAULT_SIZE), Data::as_int);
    let size = size.and_then(|n| u64::try_from(n).ok()).filter(|n| *n < u64::MAX);
    let size = size.ok_or_else(|| FunctionError::bad_arguments("`size` must be a number from 0"))?;
    let configured = inner.inputs.options.opts.get("hash_type").cloned();
    let kind = args.get("hash_type").filter(|kind| kind.is_truthy()).cloned().or(configured);
    let kind = kind.as_ref().and_then(Data::as_str).unwrap_or(DEFAULT_HASH);
    let number = random_below(inner, size.saturating_add(1))?.to_string();
    let digest = hex_digest(kind, number.as_bytes());
    digest.map(Data::from).ok_or_else(|| FunctionError::failed(format!("unknown hash type `{kind}`")))
}

fn arg_type(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let shown = |value: &Value| Data::from(format!("<class '{}'>", type_name(value)));
    let positional: Vec<Data> = args.rest().iter().map(shown).collect();
    let kwargs: Map = args.named().iter().map(|(k, v)| (k.as_str(), shown(v))).collect();
    let all: Map = [("args", Data::from(positional)), ("kwargs", kwargs.into())].into_iter().collect();
    Ok(crate::jinja::object::to_template(&all.into()))
}

fn whole_number(args: &FunctionArgs<Value>, name: &str) -> Result<i64, FunctionError> {
    let number = args.get(name).and_then(|n| i64::try_from(n.clone()).ok());
    number.ok_or_else(|| FunctionError::bad_arguments(format!("`{name}` must be a whole number")))
}

/// The number, and the seconds that it took: none, as a compile has no clock.
fn fib(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let count = whole_number(args, "num")?;
    if count < 0 {
        return Err(FunctionError::failed("Negative number is not allowed!"));
    }
    let (mut before, mut number) = (0_i64, i64::from(count > 0));
    for _ in 1..count {
        let next = before.checked_add(number);
        let next = next.ok_or_else(|| FunctionError::failed("the number is too large"))?;
        (before, number) = (number, next);
    }
    Ok(tuple(vec![Value::from(number), Value::from(0.0)]))
}

/// The sequence, and the seconds that it took.
fn collatz(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut number = whole_number(args, "start")?;
    if number < 1 {
        return Err(FunctionError::bad_arguments("`start` must be a number above zero"));
    }
    let mut steps = List::default();
    let mut is_float = false;
    while number != 1 {
        if steps.len() >= MAX_STEPS {
            return Err(FunctionError::failed("the sequence is too long"));
        }
        // A division makes a float of it, as in Python.
        #[expect(clippy::cast_precision_loss, reason = "Python loses it too")]
        steps.push(if is_float { Data::Float(number as f64) } else { Data::Int(number) });
        if number % 2 == 0 {
            (number, is_float) = (number / 2, true);
        } else {
            let next = number.checked_mul(3).and_then(|n| n.checked_add(1));
            number = next.ok_or_else(|| FunctionError::failed("the number is too large"))?;
        }
    }
    let steps = crate::jinja::object::to_template(&Data::List(std::sync::Arc::new(steps)));
    Ok(tuple(vec![steps, Value::from(0.0)]))
}

fn cross_test(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let function = super::files::text_arg(args, "func")?;
    let given = match args.get("args") {
        Some(Data::List(items)) => items.to_vec(),
        _ => Vec::new(),
    };
    inner.call_data(&call(function, given))
}

/// The answer of another function; nothing, or the words of its failure, when it fails.
fn try_call(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let function = super::files::text_arg(args, "module")?;
    let kwargs = args.named().iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let asked = FunctionCall { kwargs, ..call(function, Vec::new()) };
    match inner.call_data(&asked) {
        Err(error) if args.get("return_try_exception").is_some_and(Data::is_truthy) => {
            Ok(error.message().into())
        }
        answer => Ok(answer.unwrap_or_default()),
    }
}

fn conf_test(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(inner.inputs.options.opts.get("test.foo").cloned().unwrap_or_else(|| "unconfigured".into()))
}

fn opts_pkg(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let mut opts = inner.inputs.options.opts.clone();
    opts.insert("grains", inner.inputs.host.grains());
    Ok(opts.into())
}

/// Which functions there are, by module.
fn module_report(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let functions: Vec<&str> = inner.function_names();
    let mut modules: Vec<&str> = functions.iter().filter_map(|name| name.split('.').next()).collect();
    modules.dedup();
    let list = |names: &[&str]| -> Data { names.iter().map(|name| Data::from(*name)).collect() };
    let report: Map = [
        ("functions", list(&functions)),
        ("function_attrs", list(&functions)),
        ("function_subs", list(&functions)),
        ("modules", list(&modules)),
        ("module_attrs", list(&modules)),
        ("missing_attrs", Data::empty_list()),
        ("missing_subs", Data::empty_list()),
    ]
    .into_iter()
    .collect();
    Ok(report.into())
}

/// The Salt module that answers for each virtual one.
fn providers(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let mut modules: Vec<&str> =
        inner.function_names().into_iter().filter_map(|name| name.split('.').next()).collect();
    modules.dedup();
    let pairs = modules.into_iter().map(|module| (module, provider_of(inner, module)));
    let all: Map = pairs.filter(|(_, name)| !name.is_empty()).collect();
    Ok(all.into())
}

fn versions_information(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let grain = |name: &str| inner.inputs.host.grain(name).unwrap_or_default();
    let version = inner.call_data(&call("test.version", Vec::new()))?;
    let one = |key: &str, value: Data| -> Data { [(key, value)].into_iter().collect::<Map>().into() };
    let system: Map = [
        ("system", grain("kernel")),
        ("dist", grain("osfinger")),
        ("release", grain("kernelrelease")),
        ("machine", grain("cpuarch")),
        ("version", grain("osfullname")),
    ]
    .into_iter()
    .collect();
    let all: Map = [
        ("Salt Version", one("Salt", version)),
        ("Python Version", one("Python", "Not Installed".into())),
        ("Dependency Versions", Data::empty_map()),
        ("System Versions", system.into()),
        ("Salt Package Information", one("Package Type", "zagent".into())),
    ]
    .into_iter()
    .collect();
    Ok(all.into())
}

fn versions_report(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let all = versions_information(inner, args)?;
    let mut lines = Vec::new();
    for (title, group) in all.as_map().into_iter().flat_map(|map| map.iter()) {
        lines.push(format!("{}:", title.json_key()));
        for (name, value) in group.as_map().into_iter().flat_map(|map| map.iter()) {
            lines.push(format!("{:>18}: {}", name.json_key(), zagent_config::value::python_str(value)));
        }
        lines.push(String::new());
    }
    Ok(lines.join("\n").trim_end().into())
}

fn assertion(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    match args.get("assertion").is_some_and(Data::is_truthy) {
        true => Ok(Data::Null),
        false => Err(FunctionError::failed("AssertionError")),
    }
}

fn exception(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let message =
        args.get("message").map_or_else(|| "Test Exception".into(), zagent_config::value::python_str);
    Err(FunctionError::failed(message))
}

/// Fails with an exception of Python or Salt; false when there is no such exception.
fn raise_exception(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let name = super::files::text_arg(args, "name")?;
    let class = name.strip_prefix("salt.exceptions.").unwrap_or(name);
    let is_exception =
        ["Error", "Exception", "Exit", "Interrupt", "Iteration"].iter().any(|end| class.ends_with(end));
    if !is_exception {
        return Ok(false.into());
    }
    let words: Vec<String> = args.rest().iter().map(zagent_config::value::python_str).collect();
    Err(FunctionError::failed(format!("{class}: {}", words.join(", "))))
}

//! `pip.*`: libraries of Python.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, change_fn, flag_arg, query_fn, string_list};
use crate::shared::lang_pkg_functions::{language_packages, list_language_packages};
use zagent_host::command_options::value_text;
use zagent_host::{Machine, Tools};

/// The execution functions of `pip`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("pip.list", "prefix? bin_env? user? cwd? env_vars? **", |m, a| {
        list_language_packages(m, a, &super::Pip, "bin_env")
    }),
    query_fn("pip.freeze", "bin_env? user? cwd? use_vt? env_vars? **", |m, a| {
        let out = language_packages(a, &super::Pip, "bin_env")
            .run_checked(&Tools::new(m), &["freeze".into(), "--all".into()])?;
        Ok(string_list(out.lines()))
    }),
    query_fn("pip.version", "bin_env? cwd? user?", |m, a| {
        let out = language_packages(a, &super::Pip, "bin_env")
            .run_checked(&Tools::new(m), &["--version".into()])?;
        Ok(out.split_whitespace().nth(1).unwrap_or_default().into())
    }),
    change_fn("pip.install", "pkgs? requirements? bin_env? user? cwd? upgrade? extra_args? **", |m, a| {
        let mut words = vec!["install".to_owned()];
        words.extend(flag_arg(a, "upgrade", false).then(|| "--upgrade".to_owned()));
        words.extend(list_arg(a, "extra_args"));
        words.extend(list_arg(a, "requirements").into_iter().flat_map(|r| ["--requirement".to_owned(), r]));
        words.extend(list_arg(a, "pkgs"));
        run_pip(m, a, &words)
    }),
    change_fn("pip.uninstall", "pkgs? requirements? bin_env? user? cwd? extra_args? **", |m, a| {
        let mut words = vec!["uninstall".to_owned(), "-y".into()];
        words.extend(list_arg(a, "extra_args"));
        words.extend(list_arg(a, "requirements").into_iter().flat_map(|r| ["--requirement".to_owned(), r]));
        words.extend(list_arg(a, "pkgs"));
        run_pip(m, a, &words)
    }),
];

/// An argument as words; a text may hold several, with commas between them.
fn list_arg(args: &FunctionArgs<Value>, key: &str) -> Vec<String> {
    match args.get(key) {
        Some(Value::List(items)) => items.iter().map(value_text).collect(),
        Some(Value::Str(text)) => {
            text.split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect()
        }
        _ => Vec::new(),
    }
}

/// What pip said to these words.
fn run_pip(machine: &Machine, args: &FunctionArgs<Value>, words: &[String]) -> Result<Value, FunctionError> {
    let output = language_packages(args, &super::Pip, "bin_env").run_command(&Tools::new(machine), words)?;
    Ok(Map::from_iter([
        ("retcode", Value::from(i64::from(output.code))),
        ("stdout", output.stdout.trim_end().into()),
        ("stderr", output.stderr.trim_end().into()),
    ])
    .into())
}

//! `alternatives.*`: the links and dpkg's notes about them, and the program that changes them.

use std::fmt::Write;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::alternatives::{AlternativesGroup, current_target, run_update_alternatives};
use crate::exec_function::{ExecFunction, change_fn, query_fn, text_arg};
use zagent_host::command_options::value_text;
use zagent_host::{Machine, Tools};

/// The execution functions of `alternatives`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("alternatives.show_current", "name", |m, a| {
        Ok(current_target(m, text_arg(a, "name")?).map_or(false.into(), Value::from))
    }),
    query_fn("alternatives.show_link", "name", |m, a| {
        Ok(AlternativesGroup::load(m, text_arg(a, "name")?)?.map_or(false.into(), |n| n.link.into()))
    }),
    query_fn("alternatives.check_installed", "name path", |m, a| {
        Ok((current_target(m, text_arg(a, "name")?).as_deref() == Some(text_arg(a, "path")?)).into())
    }),
    query_fn("alternatives.check_exists", "name path", check_exists),
    query_fn("alternatives.display", "name", display),
    change_fn("alternatives.install", "name link path priority", |m, a| {
        let priority = a.get("priority").map(value_text).unwrap_or_default();
        run_alternatives(
            m,
            &["--install", text_arg(a, "link")?, text_arg(a, "name")?, text_arg(a, "path")?, &priority],
        )
    }),
    change_fn("alternatives.remove", "name path", |m, a| {
        run_alternatives(m, &["--remove", text_arg(a, "name")?, text_arg(a, "path")?])
    }),
    change_fn("alternatives.auto", "name", |m, a| run_alternatives(m, &["--auto", text_arg(a, "name")?])),
    change_fn("alternatives.set", "name path", |m, a| {
        run_alternatives(m, &["--set", text_arg(a, "name")?, text_arg(a, "path")?])
    }),
];

fn run_alternatives(machine: &Machine, words: &[&str]) -> Result<Value, FunctionError> {
    Ok(run_update_alternatives(&Tools::new(machine), words)?.into())
}

fn check_exists(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = text_arg(args, "path")?;
    let notes = AlternativesGroup::load(machine, text_arg(args, "name")?)?;
    Ok(notes.is_some_and(|n| n.has_choice(path)).into())
}

/// The text that `update-alternatives --display` prints.
fn display(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "name")?;
    let Some(notes) = AlternativesGroup::load(machine, name)? else {
        return Ok(format!("update-alternatives: error: no alternatives for {name}").into());
    };
    let mut out = format!("{name} - {} mode", notes.mode);
    // Writing to a string cannot fail.
    let mut line = |text: std::fmt::Arguments<'_>| {
        let _ = write!(out, "\n{text}");
    };
    if let Some(best) = notes.choices.iter().rev().max_by_key(|c| c.priority) {
        line(format_args!("  link best version is {}", best.path));
    }
    match current_target(machine, name) {
        Some(at) => line(format_args!("  link currently points to {at}")),
        None => line(format_args!("  link currently absent")),
    }
    line(format_args!("  link {name} is {}", notes.link));
    for (follower, link) in &notes.followers {
        line(format_args!("  slave {follower} is {link}"));
    }
    for choice in &notes.choices {
        line(format_args!("{} - priority {}", choice.path, choice.priority));
        for ((follower, _), path) in notes.followers.iter().zip(&choice.followers) {
            if !path.is_empty() {
                line(format_args!("  slave {follower}: {path}"));
            }
        }
    }
    Ok(out.into())
}

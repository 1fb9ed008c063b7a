//! `alternatives.*`: the links and dpkg's notes about them, and the program that changes them.

use std::fmt::Write;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::Value;

use super::{Entry, acting, entry, text};
use crate::host::command::shown;
use crate::host::{Machine, Tools};
use crate::states::packages::alternatives::{Notes, current, tell};

pub(super) const TABLE: &[Entry] = &[
    entry("alternatives.show_current", "name", |m, a| {
        Ok(current(m, text(a, "name")?).map_or(false.into(), Value::from))
    }),
    entry("alternatives.show_link", "name", |m, a| {
        Ok(Notes::read(m, text(a, "name")?)?.map_or(false.into(), |n| n.link.into()))
    }),
    entry("alternatives.check_installed", "name path", |m, a| {
        Ok((current(m, text(a, "name")?).as_deref() == Some(text(a, "path")?)).into())
    }),
    entry("alternatives.check_exists", "name path", check_exists),
    entry("alternatives.display", "name", display),
    acting("alternatives.install", "name link path priority", |m, a| {
        let priority = a.get("priority").map(shown).unwrap_or_default();
        told(m, &["--install", text(a, "link")?, text(a, "name")?, text(a, "path")?, &priority])
    }),
    acting("alternatives.remove", "name path", |m, a| {
        told(m, &["--remove", text(a, "name")?, text(a, "path")?])
    }),
    acting("alternatives.auto", "name", |m, a| told(m, &["--auto", text(a, "name")?])),
    acting("alternatives.set", "name path", |m, a| told(m, &["--set", text(a, "name")?, text(a, "path")?])),
];

fn told(machine: &Machine, words: &[&str]) -> Result<Value, Refusal> {
    Ok(tell(&Tools::new(machine), words)?.into())
}

fn check_exists(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let path = text(args, "path")?;
    let notes = Notes::read(machine, text(args, "name")?)?;
    Ok(notes.is_some_and(|n| n.has(path)).into())
}

/// The text that `update-alternatives --display` prints.
fn display(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let name = text(args, "name")?;
    let Some(notes) = Notes::read(machine, name)? else {
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
    match current(machine, name) {
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

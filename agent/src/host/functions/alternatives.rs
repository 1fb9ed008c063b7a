//! `alternatives.*` that look: the links and dpkg's notes about them.

use std::fmt::Write;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::Value;

use super::{Entry, entry, text};
use crate::host::Machine;

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
];

/// Where the link of a name points now.
fn current(machine: &Machine, name: &str) -> Option<String> {
    if name.contains('/') {
        return None;
    }
    machine.link(&format!("/etc/alternatives/{name}"))
}

/// What `update-alternatives` noted about a name.
struct Notes {
    mode: String,
    link: String,
    followers: Vec<(String, String)>,
    choices: Vec<Choice>,
}

struct Choice {
    path: String,
    priority: i64,
    followers: Vec<String>,
}

impl Notes {
    fn read(machine: &Machine, name: &str) -> Result<Option<Self>, Refusal> {
        if name.contains('/') {
            return Ok(None);
        }
        for dir in ["/var/lib/dpkg/alternatives", "/var/lib/alternatives"] {
            if let Some(text) = machine.read(&format!("{dir}/{name}"))? {
                return Ok(Self::parse(&text));
            }
        }
        Ok(None)
    }

    /// Mode, link, followers in pairs, an empty line; then each choice: path, priority, one line a follower.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (mode, link) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let mut followers = Vec::new();
        while let Some(name) = lines.next().filter(|l| !l.is_empty()) {
            followers.push((name.to_owned(), lines.next()?.to_owned()));
        }
        let mut choices = Vec::new();
        while let Some(path) = lines.next().filter(|l| !l.is_empty()) {
            let priority = lines.next()?.trim().parse().ok()?;
            let of = followers.iter().map(|_| lines.next().unwrap_or_default().to_owned()).collect();
            choices.push(Choice { path: path.to_owned(), priority, followers: of });
        }
        Some(Self { mode, link, followers, choices })
    }
}

fn check_exists(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let path = text(args, "path")?;
    let notes = Notes::read(machine, text(args, "name")?)?;
    Ok(notes.is_some_and(|n| n.choices.iter().any(|c| c.path == path)).into())
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

//! `zagent show lowstate`: prints the chunks in Salt's order.

use std::fmt::Write;

use zagent_compiler::{Chunk, Requisite, name_text};
use zagent_config::{Map, Value};

use super::ShowStageArgs;
use crate::output::{OutputFormat, Paint, Ui, json, pluralize, yaml};
use zagent_config::{SecretMask, sanitize};
use zagent_daemon::error::AgentError;

pub(super) fn run(args: &ShowStageArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.tree.job(ui)?;
    let compiled = job.compile(ui)?;
    let mask = job.mask(args.unmask);
    let low = || compiled.plan.chunks.iter().map(|c| mask.mask_value(&c.to_value())).collect::<Value>();
    let text = match args.out {
        OutputFormat::Json => json(&low()),
        OutputFormat::Yaml => yaml(&low()),
        OutputFormat::Text => lowstate_text(&compiled.plan.chunks, &mask, ui.verbose > 0, ui.paint),
    };
    // Ids, names and requisites may hold secrets too.
    ui.print(&mask.mask_str(&text));
    Ok(())
}

fn lowstate_text(chunks: &[Chunk], mask: &SecretMask, all: bool, paint: Paint) -> String {
    let mut out = String::new();
    let width = chunks.len().to_string().len();
    for (i, chunk) in chunks.iter().enumerate() {
        let number = paint.dim(format!("{:>width$}", i + 1));
        let name = name_text(&chunk.name);
        let name = if *name == *chunk.id { String::new() } else { format!("  {}", sanitize(&name)) };
        let function = paint.cyan(format!("{}.{}", chunk.state, chunk.fun));
        let check = if chunk.prereq.check { paint.dim("  (prereq check)") } else { String::new() };
        let _ = writeln!(out, "{number}  {}  {function}{name}{check}", paint.bold(sanitize(&chunk.id)));
        let needs = requisites_text(chunk);
        let needs = if needs.is_empty() { String::new() } else { format!("  {needs}") };
        let line = format!("{:width$}  {}{needs}", "", sanitize(&chunk.sls));
        let _ = writeln!(out, "{}", paint.dim(line));
        if all {
            write_arguments(&mut out, chunk, mask, width + 4);
        }
    }
    let _ = writeln!(out, "{}", pluralize(chunks.len(), "state"));
    out
}

/// `require: pkg nginx, file conf; watch: …`.
fn requisites_text(chunk: &Chunk) -> String {
    let mut parts = Vec::new();
    for kind in Requisite::ALL {
        let Some(list) = chunk.args.get(kind.key()).and_then(Value::as_list) else {
            continue;
        };
        let names: Vec<String> = list.iter().map(target_text).collect();
        parts.push(format!("{}: {}", kind.key(), names.join(", ")));
    }
    sanitize(&parts.join("; "))
}

fn target_text(value: &Value) -> String {
    match value {
        Value::Map(map) => map
            .iter()
            .map(|(k, v)| format!("{} {}", k.json_key(), v.json_key()))
            .collect::<Vec<_>>()
            .join(" "),
        other => other.json_key(),
    }
}

/// Other arguments of the state, as YAML below it.
fn write_arguments(out: &mut String, chunk: &Chunk, mask: &SecretMask, indent: usize) {
    let is_requisite = |key: &str| Requisite::ALL.iter().any(|r| r.key() == key);
    let mut args = Map::new();
    for (key, value) in chunk.args.iter().filter(|(k, _)| !k.as_str().is_some_and(is_requisite)) {
        args.insert(key.clone(), mask.mask_value(value));
    }
    if args.is_empty() {
        return;
    }
    for line in yaml(&args.into()).lines() {
        let _ = writeln!(out, "{:indent$}{}", "", sanitize(line));
    }
}

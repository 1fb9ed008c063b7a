//! Module, function or parameter name in, its schema description out.

use std::fmt::Write;

use serde_json::{Value, json as object};
use zagent_compiler::schema::{self, FunctionDoc, StateFunction, StateParameter};
use zagent_config::suggest;

use super::{Explanation, exec_function};
use crate::output::Paint;
use zagent_daemon::error::AgentError;

/// Wrap lines at this column.
const WIDTH: usize = 96;

/// Explains a module, a function, `FUNCTION:PARAMETER` or a common keyword; `None` when the name is unknown.
pub(super) fn explain_name(what: &str, paint: Paint) -> Option<Result<Explanation, AgentError>> {
    if let Some((function, name)) = what.split_once(':') {
        find_function(function)?;
        return Some(explain_parameter(function, name, paint));
    }
    if what == exec_function::ALL {
        return Some(Ok(exec_function::list_all(paint)));
    }
    let state = match find_function(what) {
        Some(found) => Some(explain_function(what, found, paint)),
        None => zagent_states::schema().module(what).map(|found| explain_module(found, paint)),
    };
    if let Some(mut explanation) = state {
        exec_function::add_to(&mut explanation, what, paint);
        return Some(Ok(explanation));
    }
    if let Some(explanation) = exec_function::explain(what, paint) {
        return Some(Ok(explanation));
    }
    let keyword = schema::keyword(what)?;
    let text = format!("{}, common to all states\n{}", paint.bold(what), parameter_text(keyword, paint));
    Some(Ok(Explanation { text, data: parameter_json(keyword) }))
}

/// Explains a parameter of a function, or a keyword common to all states.
pub(super) fn explain_parameter(what: &str, name: &str, paint: Paint) -> Result<Explanation, AgentError> {
    let found = find_function(what).ok_or_else(|| unknown_name(what))?;
    let explanation = found.describe();
    let own = explanation.as_ref().and_then(|d| d.parameter(name));
    if let Some(parameter) = own.or_else(|| schema::keyword(name)) {
        let text = format!("{}\n{}", paint.bold(what), parameter_text(parameter, paint));
        let mut data = parameter_json(parameter);
        data["function"] = what.into();
        return Ok(Explanation { text, data });
    }
    if found.parameters().contains(&name) {
        let text = format!("{}\n  {name}\n", paint.bold(what));
        return Ok(Explanation { text, data: object!({"function": what, "name": name}) });
    }
    let near = found.nearest_parameter(name).map(|near| format!("did you mean `{what}:{near}`?"));
    let message = format!("`{what}` has no parameter `{name}`");
    Err(AgentError::usage_hint(
        message,
        near.unwrap_or_else(|| format!("list the parameters with `zagent explain {what}`")),
    ))
}

/// Error for an unknown name.
pub(super) fn unknown_name(what: &str) -> AgentError {
    let keywords = || schema::sorted_keywords().iter().map(|p| p.name);
    let name = what.split(':').next().unwrap_or(what);
    let near = match name.split_once('.') {
        Some((module, name)) => match zagent_states::schema().module(module) {
            Some(found) => found.nearest_function(name).map(|n| format!("{module}.{n}")),
            None => zagent_states::schema().nearest_module(module).map(|m| format!("{m}.{name}")),
        },
        None => zagent_states::schema()
            .nearest_module(name)
            .or_else(|| suggest::nearest(name, keywords()))
            .map(str::to_owned),
    };
    let hint = near.map_or_else(
        || {
            "use a code (ZA0107), a function (file.managed) or, with --states DIR, a state ID or pillar:KEY"
                .into()
        },
        |near| format!("did you mean `{near}`?"),
    );
    AgentError::usage_hint(format!("no code or state function `{what}`"), hint)
}

fn find_function(what: &str) -> Option<StateFunction> {
    let (module, name) = what.split_once('.')?;
    zagent_states::schema().function(module, name)
}

/// Lists the functions of a module with their descriptions, where available.
fn explain_module(found: &schema::ModuleSchema, paint: Paint) -> Explanation {
    let explanation: Vec<(&str, Option<FunctionDoc>)> =
        found.functions().map(|f| (f.name, f.describe())).collect();
    let count = format!("{} state functions", explanation.len());
    let mut text = format!(
        "{}: {}\n",
        paint.bold(found.name),
        zagent_states::schema().module_purpose(found.name).unwrap_or(&count)
    );
    let width =
        explanation.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + found.name.len() + 1;
    for (name, description) in &explanation {
        let full = format!("{}.{name}", found.name);
        let summary = description.as_ref().map_or("", |d| d.summary);
        let line = format!("  {}  {summary}", paint.cyan(format!("{full:width$}")));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let functions: Vec<&str> = explanation.iter().map(|(name, _)| *name).collect();
    let summaries: serde_json::Map<String, Value> = explanation
        .iter()
        .filter_map(|(name, d)| Some(((*name).to_owned(), d.as_ref()?.summary.into())))
        .collect();
    let data = object!({
        "module": found.name, "purpose": zagent_states::schema().module_purpose(found.name), "functions": functions, "summaries": summaries,
    });
    Explanation { text, data }
}

fn explain_function(what: &str, found: StateFunction, paint: Paint) -> Explanation {
    let Some(explanation) = found.describe() else { return explain_undescribed(what, found, paint) };
    let mut text = format!("{}\n{}\n", paint.bold(what), wrap_line(explanation.summary, 0));
    if explanation.traits.is_unimplemented {
        text.push_str("Salt has this function; zagent does not implement it.\n");
    }
    let _ = writeln!(text, "\n{}", paint.bold("parameters"));
    for parameter in &explanation.parameters {
        text.push_str(&parameter_text(parameter, paint));
    }
    if explanation.parameters.is_empty() {
        text.push_str("  none of its own\n");
    }
    if found.takes_any() {
        text.push_str("  any other parameter is accepted\n");
    }
    text.push('\n');
    for (heading, groups) in
        [("at most one of", &explanation.exclusive), ("at least one of", &explanation.needed)]
    {
        for names in groups {
            let _ = writeln!(text, "{}: {}", paint.bold(heading), names.join(", "));
        }
    }
    let _ = writeln!(text, "{}: {}", paint.bold("dry run"), explanation.dry_run_summary());
    let _ = writeln!(text, "{}: {}", paint.bold("undo"), explanation.undo_summary());
    let _ = writeln!(text, "\n{}\n{}", paint.bold("every state also takes"), common_keywords());
    let _ = writeln!(text, "{}", paint.bold("example"));
    for line in explanation.example.lines() {
        let _ = writeln!(text, "    {line}");
    }
    let data = object!({
        "function": what, "summary": explanation.summary,
        "parameters": explanation.parameters.iter().map(parameter_json).collect::<Vec<_>>(),
        "takes_any": found.takes_any(), "at_most_one": explanation.exclusive, "at_least_one": explanation.needed,
        "built": !explanation.traits.is_unimplemented, "dry_run": explanation.dry_run_summary(), "undo": explanation.undo_summary(),
        "example": explanation.example, "every_state": keyword_names(),
    });
    Explanation { text, data }
}

/// Explains a function for which only parameter names are known.
fn explain_undescribed(what: &str, found: StateFunction, paint: Paint) -> Explanation {
    let own = found.parameters();
    let names = if own.is_empty() { "none of its own".to_owned() } else { own.join(", ") };
    let mut text = format!("{}\n\n{}\n", paint.bold(what), wrap_line(&format!("parameters: {names}"), 2));
    if found.takes_any() {
        text.push_str("any other parameter is accepted\n");
    }
    let _ = writeln!(text, "\n{}\n{}", paint.bold("every state also takes"), common_keywords().trim_end());
    let data = object!({
        "function": what, "parameters": own.iter().map(|name| object!({"name": name})).collect::<Vec<_>>(),
        "takes_any": found.takes_any(), "every_state": keyword_names(),
    });
    Explanation { text, data }
}

fn keyword_names() -> Vec<&'static str> {
    schema::sorted_keywords().iter().map(|p| p.name).collect()
}

fn common_keywords() -> String {
    let mut text = String::new();
    for group in schema::keywords() {
        let names: Vec<&str> = group.parameters.iter().map(|p| p.name).collect();
        let _ = writeln!(text, "  {}", wrap_line(&format!("{}: {}", group.name, names.join(", ")), 4));
    }
    text
}

/// Parameter text: accepted values on one line, description below.
fn parameter_text(parameter: &StateParameter, paint: Paint) -> String {
    let mut takes = parameter.kinds.describe();
    if parameter.is_required {
        takes.push_str("; required");
    }
    if let Some(default) = parameter.default {
        let _ = write!(takes, "; default: {default}");
    }
    format!("  {}  {takes}\n      {}\n", paint.cyan(parameter.name), wrap_line(parameter.about, 6))
}

fn parameter_json(parameter: &StateParameter) -> Value {
    object!({
        "name": parameter.name, "kinds": parameter.kinds.source_text(), "default": parameter.default,
        "required": parameter.is_required, "about": parameter.about,
    })
}

/// Wraps a line at spaces for the terminal; continuation lines are indented.
pub(super) fn wrap_line(line: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut width = indent;
    for (i, word) in line.split(' ').enumerate() {
        if i > 0 && width + word.len() + 1 > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            width = indent;
        } else if i > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.len();
    }
    out
}

//! Name of an execution function or module in, its description out; `functions` lists them all.

use std::fmt::Write;

use serde_json::{Value, json as object};
use zagent_states::functions::{FunctionSummary, described_functions};

use super::Explanation;
use crate::output::Paint;

/// The word that lists all functions.
pub(super) const ALL: &str = "functions";

/// Lists all execution functions.
pub(super) fn list_all(paint: Paint) -> Explanation {
    list(&described_functions(), paint)
}

/// Explains an execution function, or lists those of a module; `None` when there is none of this name.
pub(super) fn explain(what: &str, paint: Paint) -> Option<Explanation> {
    let all = described_functions();
    if let Some(found) = all.iter().find(|f| f.name == what) {
        return Some(Explanation { text: function_text(found, paint), data: function_json(found) });
    }
    let of_module: Vec<FunctionSummary> = all.into_iter().filter(|f| f.module() == what).collect();
    (!of_module.is_empty()).then(|| list(&of_module, paint))
}

/// Adds the execution function of the same name to the explanation of a state.
pub(super) fn add_to(explanation: &mut Explanation, what: &str, paint: Paint) {
    let Some(function) = explain(what, paint) else { return };
    let _ = write!(
        explanation.text,
        "\n{}\n{}",
        paint.bold("execution functions: salt['MODULE.FUNCTION'] in templates, and the command line"),
        function.text
    );
    explanation.data["execution"] = function.data;
}

fn list(functions: &[FunctionSummary], paint: Paint) -> Explanation {
    let width = functions.iter().map(|f| f.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for one in functions {
        let _ = writeln!(text, "  {}  {}", paint.cyan(format!("{:width$}", one.name)), one.summary);
    }
    Explanation { text, data: functions.iter().map(function_json).collect() }
}

fn function_text(function: &FunctionSummary, paint: Paint) -> String {
    let call = [vec![function.name.to_owned()], function.arguments()].concat().join(" ");
    let mut text =
        format!("  {}\n  {}\n", paint.cyan(super::function::wrap_line(&call, 4)), function.summary);
    if function.changes_host {
        text.push_str(
            "  It changes the host: templates cannot call it, `module.run` and the command line can.\n",
        );
    }
    if let Some(program) = function.needs_program {
        let _ = writeln!(text, "  It exists only where `{program}` is installed.");
    }
    text
}

fn function_json(function: &FunctionSummary) -> Value {
    object!({
        "function": function.name, "summary": function.summary, "arguments": function.arguments(),
        "changes_host": function.changes_host, "needs_program": function.needs_program,
    })
}

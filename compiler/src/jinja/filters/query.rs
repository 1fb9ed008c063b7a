//! `json_query`: JMESPath over data.

use minijinja::value::Value;
use minijinja::{Error, State};
use zagent_config::Value as Data;

use super::FilterFn;
use crate::jinja::methods::args::CallArgs;
use crate::jinja::object::{budget, to_template, to_value};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[("json_query", json_query)];

/// Longest expression, and deepest nesting of its brackets.
const MAX_LENGTH: usize = 4096;
const MAX_NESTING: usize = 64;

fn json_query(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [data, expression] = args.bind(["data", "expr"], 2)?;
    let expression = expression.unwrap_or_default();
    let expression = args.str("expr", &expression)?;
    let opening = expression.chars().filter(|c| matches!(c, '(' | '[' | '{' | '!' | '&')).count();
    if expression.len() > MAX_LENGTH || opening > MAX_NESTING {
        return Err(args.error("the expression is too long or nested too deep"));
    }
    let wrong =
        |e: &dyn std::fmt::Display| args.error(e.to_string().lines().next().unwrap_or("invalid expression"));
    let compiled = jmespath::compile(expression).map_err(|e| wrong(&e))?;
    let data = serde_json::to_string(&to_value(&data.unwrap_or_default())?).map_err(|e| wrong(&e))?;
    // The data is copied, and every list of choices can return all of it again.
    if data.len().saturating_mul(growth_factor(expression)) > budget::bytes() / 16 {
        return Err(budget::too_large(args.function_name()));
    }
    let data = jmespath::Variable::from_json(&data).map_err(|e| args.error(e))?;
    let found = compiled.search(data).map_err(|e| wrong(&e))?;
    let found = Data::from_json_str(&found.to_string()).map_err(|e| wrong(&e))?;
    Ok(to_template(&found))
}

/// How many times an expression can repeat its input: the choices in its brackets, multiplied.
fn growth_factor(expression: &str) -> usize {
    let mut open = Vec::new();
    let mut growth: usize = 1;
    for c in expression.chars() {
        match c {
            '[' | '{' => open.push(1),
            ',' => open.iter_mut().for_each(|choices| *choices += 1),
            ']' | '}' => growth = growth.saturating_mul(open.pop().unwrap_or(1)),
            _ => {}
        }
    }
    growth
}

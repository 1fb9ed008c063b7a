//! `test.check_pillar`: keys of the pillar and the types they should have.

use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{Map, Value};

use zagent_host::command_options::value_text;

/// One argument: its name, what Python calls the type, and whether a value is of it.
type PillarTypeCheck = (&'static str, Option<&'static str>, fn(&Value) -> bool);

const TYPE_CHECKS: [PillarTypeCheck; 6] = [
    ("present", None, |_| true),
    ("boolean", Some("<class 'bool'>"), |v| v.as_bool().is_some()),
    ("integer", Some("<class 'int'>"), |v| matches!(v, Value::Int(_) | Value::Big(_) | Value::Bool(_))),
    ("string", Some("(<class 'str'>,)"), |v| v.as_str().is_some()),
    ("listing", Some("<class 'list'>"), |v| v.as_list().is_some()),
    ("dictionary", Some("<class 'dict'>"), |v| v.as_map().is_some()),
];

/// Result and comment; the error says what is wrong with the arguments.
pub fn check_pillar(args: &Map, pillar: &Value) -> Result<(bool, String), &'static str> {
    if !TYPE_CHECKS.iter().any(|(key, ..)| args.get(key).is_some_and(Value::is_truthy)) {
        return Err("Missing required argument text.");
    }
    // A key that is wrong twice is told once, at its first place and with its last fault.
    let mut failed: Vec<(String, Option<&str>)> = Vec::new();
    let mut fine: Vec<(String, Option<&str>)> = Vec::new();
    let note = |list: &mut Vec<(String, Option<&'static str>)>, key: String, class| match list
        .iter_mut()
        .find(|(k, _)| *k == key)
    {
        Some(known) => known.1 = class,
        None => list.push((key, class)),
    };
    for (argument, class, fits) in TYPE_CHECKS {
        for key in key_list(args.get(argument))? {
            match traverse(pillar, &key, DEFAULT_DELIMITER) {
                None | Some(Value::Null) => note(&mut failed, key, None),
                Some(value) if !fits(value) => note(&mut failed, key, class),
                Some(_) => note(&mut fine, key, class),
            }
        }
    }
    let mut comment = String::new();
    for (key, class) in &failed {
        let wrong = class.map_or_else(|| "is missing".to_owned(), |c| format!("is not {c}"));
        comment.push_str(&format!("Pillar key \"{key}\" {wrong}.\n"));
    }
    if args.get("verbose").is_some_and(Value::is_truthy) && !fine.is_empty() {
        comment.push_str("Those keys passed the check:\n");
        for (key, class) in &fine {
            comment.push_str(&format!("- {key} ({})\n", class.unwrap_or("None")));
        }
    }
    Ok((failed.is_empty(), comment))
}

/// One text, or a list of them.
fn key_list(value: Option<&Value>) -> Result<Vec<String>, &'static str> {
    match value.filter(|v| v.is_truthy()) {
        None => Ok(Vec::new()),
        Some(Value::Str(one)) => Ok(vec![one.to_string()]),
        Some(Value::List(many)) => Ok(many.iter().map(value_text).collect()),
        Some(_) => Err("the keys to check must be a text or a list of texts"),
    }
}

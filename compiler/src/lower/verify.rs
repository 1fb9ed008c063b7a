//! Checks that high data is well formed: reports every error of every id in one pass.

use zagent_config::codes::{declaration, requisite};
use zagent_config::{Diagnostics, List, Value};

use crate::high::{HighData, IdDecl, StateDecl};
use crate::merge::extend::REQUISITE_KEYS;
use crate::session::CompileSession;

/// Reports every malformed declaration.
pub(crate) fn verify(session: &CompileSession, high: &HighData, diagnostics: &mut Diagnostics) {
    for (id, body) in high.iter() {
        if id.starts_with("__") {
            continue;
        }
        for decl in body.states() {
            verify_decl(session, id, body, decl, diagnostics);
        }
    }
}

fn verify_decl(
    session: &CompileSession,
    id: &str,
    body: &IdDecl,
    decl: &StateDecl,
    diagnostics: &mut Diagnostics,
) {
    let spot = body.spot_at(decl.at);
    let args = match &decl.args {
        Value::List(list) => list,
        Value::Null => {
            diagnostics.push(
                session
                    .diagnostic(
                        declaration::TRAILING_COLON,
                        spot,
                        format!("`{}` of `{id}` has nothing after the colon", decl.key),
                    )
                    .hint(format!("write `{id}: {}` on one line, or give it a list of arguments", decl.key)),
            );
            return;
        }
        other => {
            diagnostics.push(
                session
                    .diagnostic(
                        declaration::NOT_A_LIST,
                        spot,
                        format!("`{}` of `{id}` must be a list, not {}", decl.key, other.kind()),
                    )
                    .hint("put a dash before each argument"),
            );
            return;
        }
    };
    let functions = verify_items(session, id, body, (decl, args), diagnostics);
    match functions.len() {
        1 => {}
        0 => diagnostics.push(
            session
                .diagnostic(
                    declaration::NO_FUNCTION,
                    spot,
                    format!("`{}` of `{id}` has no function", decl.key),
                )
                .hint(format!("write `{}.FUNCTION:`", decl.key)),
        ),
        _ => diagnostics.push(
            session
                .diagnostic(
                    declaration::MANY_FUNCTIONS,
                    spot,
                    format!("`{}` of `{id}` has more than one function: {}", decl.key, functions.join(", ")),
                )
                .hint("use one function per module and id: declare a second id"),
        ),
    }
}

/// Reports malformed items of a state's list; gives the functions that it names.
fn verify_items<'d>(
    session: &CompileSession,
    id: &str,
    body: &IdDecl,
    (decl, args): (&'d StateDecl, &'d List),
    diagnostics: &mut Diagnostics,
) -> Vec<&'d str> {
    let mut functions: Vec<&str> = decl.key.split_once('.').map(|(_, f)| f).into_iter().collect();
    for (i, arg) in args.iter().enumerate() {
        match arg {
            Value::Str(function) => {
                if function.trim().contains(' ') {
                    diagnostics.push(
                        session
                            .diagnostic(
                                declaration::FUNCTION_WHITESPACE,
                                body.spot_at(args.pos(i)),
                                format!(
                                    "`{function}` of `{id}` is read as a function name, but contains a space"
                                ),
                            )
                            .hint("write an argument with a colon: `- key: value`"),
                    );
                }
                functions.push(function);
            }
            Value::Map(map) if map.is_empty() => {
                let text = format!("an argument of `{id}` is an empty mapping");
                diagnostics.push(session.diagnostic(
                    declaration::EMPTY_ARGUMENT,
                    body.spot_at(args.pos(i)),
                    text,
                ));
            }
            Value::Map(_) => verify_arg(session, id, body, arg, diagnostics),
            _ => {}
        }
    }
    functions
}

fn verify_arg(session: &CompileSession, id: &str, body: &IdDecl, arg: &Value, diagnostics: &mut Diagnostics) {
    let Some(map) = arg.as_map() else { return };
    let Some(first) = map.entries().first() else { return };
    let Some(key) = first.key.as_str() else { return };
    let spot = body.spot_at(first.at);
    if key == "names" && first.value.as_list().is_none() {
        diagnostics.push(
            session
                .diagnostic(
                    declaration::NAMES_NOT_LIST,
                    spot,
                    format!("`names` of `{id}` must be a list, not {}", first.value.kind()),
                )
                .hint("for a single name, use `name:`"),
        );
    }
    if !REQUISITE_KEYS.contains(&key) {
        return;
    }
    match &first.value {
        Value::List(list) => verify_requisites(session, id, body, key, list, diagnostics),
        other => diagnostics.push(
            session
                .diagnostic(
                    requisite::NOT_A_LIST,
                    spot,
                    format!("`{key}` of `{id}` must be a list, not {}", other.kind()),
                )
                .hint(format!("write\n    - {key}:\n      - module: id")),
        ),
    }
    if map.len() != 1 {
        diagnostics.push(
            session
                .diagnostic(
                    requisite::SHARED_ITEM,
                    spot,
                    format!("`{key}` of `{id}` shares its list item with other arguments"),
                )
                .hint("give each argument its own dash"),
        );
    }
}

fn verify_requisites(
    session: &CompileSession,
    id: &str,
    body: &IdDecl,
    key: &str,
    list: &List,
    diagnostics: &mut Diagnostics,
) {
    for (i, item) in list.iter().enumerate() {
        let spot = body.spot_at(list.pos(i));
        let map = match item {
            Value::Str(_) => continue,
            Value::Map(map) if map.len() == 1 => map,
            other => {
                let what =
                    if other.as_map().is_some() { "a mapping with several keys" } else { other.kind() };
                diagnostics.push(
                    session
                        .diagnostic(
                            requisite::NOT_ONE,
                            spot,
                            format!("an item of `{key}` of `{id}` must be a reference, not {what}"),
                        )
                        .hint("write each item as `module: id`, or as an id"),
                );
                continue;
            }
        };
        let entry = &map.entries()[0];
        if let Some((plain, _)) = entry.key.as_str().and_then(|k| k.split_once('.')) {
            let full = entry.key.as_str().unwrap_or_default();
            diagnostics.push(
                session
                    .diagnostic(
                        requisite::DOTTED,
                        spot,
                        format!("`{key}` of `{id}` names a function, not a module: `{full}`"),
                    )
                    .hint(format!("write the module only: `{plain}`")),
            );
        }
        if matches!(entry.value, Value::List(_) | Value::Map(_)) {
            let text = format!("`{key}` of `{id}` refers to {}, not to an id", entry.value.kind());
            let diagnostic = session.diagnostic(requisite::ILLEGAL, spot, text);
            diagnostics.push(diagnostic.hint("write one item per state: `- module: id`"));
        }
    }
}

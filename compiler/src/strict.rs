//! Strict checks: unknown state functions and parameters, and values that no state can use, are errors before
//! anything runs.
//!
//! Law: the parameters of a function are looked up once for all its states (held by
//! `a_function_is_looked_up_once`).

use std::collections::{HashMap, HashSet};

use zagent_config::codes::function as codes;
use zagent_config::mask::secret_keys;
use zagent_config::{Diagnostic, Diagnostics, Pos, Value};

use crate::lower::LoweredChunk;
use crate::schema::{self, ArgsProblem, ModuleSchema, ParamKinds, ParamTable, Schema, ValueMismatch};
use crate::session::CompileSession;
use crate::source_files::RenderedPos;

/// What a call begins with that is made just before a state runs.
const SLOT_PREFIX: &str = "__slot__:";
/// Longer texts are not shown in a diagnostic.
const MAX_SHOWN: usize = 40;

/// Reports every chunk with an unknown module or function, or with wrong arguments. Returns a warning for each Salt
/// function that zagent does not implement.
pub(crate) fn check(
    session: &CompileSession,
    lowered: &[LoweredChunk],
) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut tables = ParamTableCache::new(session.inputs.schema);
    let mut check = StrictChecker { session, diagnostics: Diagnostics::default(), reported: HashSet::new() };
    for one in lowered {
        match tables.get_or_build(&one.chunk.state, &one.chunk.fun) {
            Some(table) => check.check_arguments(one, table),
            None => check.note_unknown(one),
        }
    }
    check.diagnostics.into_result()?;
    let mut warnings = unimplemented_warnings(session, lowered);
    warnings.extend(extra_parameter_warnings(session, lowered, &mut tables));
    Ok(warnings)
}

/// Refuses states of a Salt module in Python, in every mode: they could only fail, after others changed the host.
pub(crate) fn check_python_modules(
    session: &CompileSession,
    lowered: &[LoweredChunk],
) -> Result<(), Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let mut asked = HashSet::new();
    for one in lowered {
        let module = &*one.chunk.state;
        if session.inputs.schema.module(module).is_some() || !asked.insert(module) {
            continue;
        }
        if let Some(path) = session.python_state(module) {
            let text = format!("`{path}` is a Python module for Salt, which zagent cannot load");
            let hint = format!(
                "make it a program: start it with `#!/usr/bin/env python3`, read JSON from standard input and print JSON \
                 (see the page on external modules), or replace the states of `{module}`"
            );
            diagnostics.push(session.diagnostic(codes::PYTHON_MODULE, one.spot, text).hint(hint));
        }
    }
    diagnostics.into_result()
}

/// One warning for every parameter of a declaration that only a template reads, or nothing does.
fn extra_parameter_warnings<'c>(
    session: &CompileSession,
    lowered: &'c [LoweredChunk],
    tables: &mut ParamTableCache<'c>,
) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let mut reported = HashSet::new();
    for one in lowered {
        let chunk = &one.chunk;
        let Some(table) = tables.get_or_build(&chunk.state, &chunk.fun).filter(|t| t.is_templated()) else {
            continue;
        };
        for entry in chunk.args.entries() {
            let Some(name) = entry.key.as_str().filter(|n| !n.starts_with("__") && !table.is_named(n)) else {
                continue;
            };
            let pos = if entry.at.is_known() { entry.at } else { one.spot.pos };
            let spot = RenderedPos { pos, ..one.spot };
            if reported.insert((spot, name)) {
                warnings.push(extra_parameter(session, one, spot, name));
            }
        }
    }
    warnings
}

fn extra_parameter(
    session: &CompileSession,
    one: &LoweredChunk,
    spot: RenderedPos,
    name: &str,
) -> Diagnostic {
    let (state, fun) = (&one.chunk.state, &one.chunk.fun);
    // A patch is rendered without them.
    let has_template = &**fun != "patch" && one.chunk.args.get("template").is_some_and(Value::is_truthy);
    let (reader, hint) = match has_template {
        true => ("only its template reads it", format!("write `{name}` under `context:`")),
        false => ("nothing reads it", format!("`zagent explain {state}.{fun}` lists its parameters")),
    };
    let text = format!("`{state}.{fun}` has no parameter `{name}`: {reader}");
    session.diagnostic(codes::EXTRA_PARAMETER, spot, text).hint(hint)
}

/// One warning per function that is not implemented.
fn unimplemented_warnings(session: &CompileSession, lowered: &[LoweredChunk]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let mut asked = HashSet::new();
    for one in lowered {
        let (state, fun) = (&*one.chunk.state, &*one.chunk.fun);
        if !asked.insert((state, fun)) || session.is_external_state(state) {
            continue;
        }
        if session.inputs.schema.function(state, fun).is_some_and(|f| !f.is_implemented()) {
            let text = format!("zagent does not implement Salt's `{state}.{fun}`: the state would fail");
            let hint = format!(
                "add an external module `_states/{state}`, or use `cmd.run` with `unless` or `creates`"
            );
            warnings.push(session.diagnostic(codes::UNBUILT, one.spot, text).hint(hint));
        }
    }
    warnings
}

/// The tables of the functions used so far.
struct ParamTableCache<'c> {
    schema: &'c Schema,
    known: Vec<(&'c str, &'c str, ParamTable)>,
    places: HashMap<(&'c str, &'c str), usize>,
    /// The last one used: neighbouring states often share a function.
    last: usize,
}

impl<'c> ParamTableCache<'c> {
    fn new(schema: &'c Schema) -> Self {
        Self { schema, known: Vec::new(), places: HashMap::new(), last: 0 }
    }

    fn get_or_build(&mut self, state: &'c str, fun: &'c str) -> Option<&ParamTable> {
        if !self.known.get(self.last).is_some_and(|(s, f, _)| *f == fun && *s == state) {
            self.last = match self.places.get(&(state, fun)) {
                Some(place) => *place,
                None => {
                    let table = ParamTable::new(self.schema.function(state, fun)?);
                    self.known.push((state, fun, table));
                    self.places.insert((state, fun), self.known.len() - 1);
                    self.known.len() - 1
                }
            };
        }
        self.known.get(self.last).map(|(.., table)| table)
    }
}

struct StrictChecker<'s> {
    session: &'s CompileSession,
    diagnostics: Diagnostics,
    /// States that share a declaration by `names` share its errors: positions and parameters already reported.
    reported: HashSet<(RenderedPos, String)>,
}

impl StrictChecker<'_> {
    fn check_arguments(&mut self, one: &LoweredChunk, table: &ParamTable) {
        let chunk = &one.chunk;
        for entry in chunk.args.entries() {
            let Some(name) = entry.key.as_str() else { continue };
            match table.kinds(name) {
                Some(kinds) => self.check_value(one, (name, entry.at), kinds, &entry.value),
                None => self.note_unknown_parameter(one, table, (name, entry.at)),
            }
        }
        self.check_value(one, ("name", Pos::NONE), table.name(), &chunk.name);
        if let (Some(order), Some(keyword)) = (&one.order, schema::keyword("order")) {
            self.check_value(one, ("order", Pos::NONE), keyword.kinds, order);
        }
        for lack in table.problems(&chunk.args) {
            match lack {
                ArgsProblem::Missing(names) => self.note_missing(one, table, names),
                ArgsProblem::Conflict(names) => self.note_conflict(one, names),
            }
        }
        self.check_with_module(one);
    }

    /// What the module itself would refuse in the run, unless it is reported already.
    fn check_with_module(&mut self, one: &LoweredChunk) {
        for fault in self.session.inputs.schema.arg_faults(&one.chunk) {
            let at = one.chunk.args.entry(&fault.parameter).map_or(Pos::NONE, |entry| entry.at);
            let text = format!("`{}.{}`: {}", one.chunk.state, one.chunk.fun, fault.message);
            self.note_once(one, (&fault.parameter, at), |session, spot| {
                session.diagnostic(codes::WRONG_KIND, spot, text).hint(fault.hint.clone())
            });
        }
    }

    fn check_value(&mut self, one: &LoweredChunk, (name, at): (&str, Pos), kinds: ParamKinds, value: &Value) {
        // What a slot gives is known when the state runs.
        if value.as_str().is_some_and(|text| text.starts_with(SLOT_PREFIX)) {
            return;
        }
        let Err(misfit) = kinds.check_value(value) else { return };
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        let text = format!(
            "`{name}` of `{state}.{fun}` must be {}, not {}",
            kinds.describe(),
            display_value(name, value)
        );
        let explain = || format!("see `zagent explain {state}.{fun}:{name}`");
        let (code, hint) = match misfit {
            ValueMismatch::Kind(hint) => (codes::WRONG_KIND, hint.map_or_else(explain, str::to_owned)),
            ValueMismatch::Choice(Some(near)) => (codes::UNKNOWN_CHOICE, format!("did you mean `{near}`?")),
            ValueMismatch::Choice(None) => (codes::UNKNOWN_CHOICE, explain()),
        };
        self.note_once(one, (name, at), |session, spot| session.diagnostic(code, spot, text).hint(hint));
    }

    fn note_unknown_parameter(&mut self, one: &LoweredChunk, table: &ParamTable, (name, at): (&str, Pos)) {
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        self.note_once(one, (name, at), |session, spot| {
            let text = format!("`{state}.{fun}` has no parameter `{name}`");
            let diagnostic = session.diagnostic(codes::UNKNOWN_PARAMETER, spot, text);
            match table.function().nearest_parameter(name) {
                Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                None => diagnostic.hint(format!("`zagent explain {state}.{fun}` lists its parameters")),
            }
        });
    }

    fn note_missing(&mut self, one: &LoweredChunk, table: &ParamTable, names: &[&'static str]) {
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        self.note_once(one, (names[0], Pos::NONE), |session, spot| {
            let text = format!("`{state}.{fun}` needs {}", or_list(names));
            let diagnostic = session.diagnostic(codes::MISSING_PARAMETER, spot, text);
            let told = table.function().describe();
            match told.as_ref().and_then(|t| t.parameter(names[0])) {
                Some(p) => diagnostic.hint(format!("`{}`: {}", p.name, p.about.trim_end_matches('.'))),
                None => diagnostic,
            }
        });
    }

    fn note_conflict(&mut self, one: &LoweredChunk, [first, second]: [&'static str; 2]) {
        let chunk = &one.chunk;
        let is_either = |name: Option<&str>| name == Some(first) || name == Some(second);
        let entries = chunk.args.entries().iter().filter(|e| is_either(e.key.as_str()));
        // Point at the later one.
        let at = entries.map(|e| e.at).max().unwrap_or(Pos::NONE);
        self.note_once(one, (second, at), |session, spot| {
            let text = format!(
                "`{first}` and `{second}` of `{}.{}` conflict with each other",
                chunk.state, chunk.fun
            );
            session.diagnostic(codes::CONFLICT, spot, text).hint("keep only one of them")
        });
    }

    /// Reports a parameter error, unless it was reported for another name of the same declaration.
    fn note_once(
        &mut self,
        one: &LoweredChunk,
        (name, at): (&str, Pos),
        diagnostic: impl FnOnce(&CompileSession, RenderedPos) -> Diagnostic,
    ) {
        let spot = RenderedPos { pos: if at.is_known() { at } else { one.spot.pos }, ..one.spot };
        if self.reported.insert((spot, name.to_owned())) {
            self.diagnostics.push(diagnostic(self.session, spot));
        }
    }

    /// An unknown module or function, unless the tree has it as an external module.
    fn note_unknown(&mut self, one: &LoweredChunk) {
        if !self.session.is_external_state(&one.chunk.state) {
            self.diagnostics.push(match self.session.inputs.schema.module(&one.chunk.state) {
                Some(module) => unknown_function(self.session, one, module),
                None => unknown_module(self.session, one),
            });
        }
    }
}

/// The given value, unless it must not be shown.
fn display_value(name: &str, value: &Value) -> String {
    match value {
        Value::List(_) | Value::Map(_) | Value::Null => value.kind().to_owned(),
        Value::Str(text)
            if secret_keys::is_secret_key(name) || text.len() > MAX_SHOWN || text.contains('\n') =>
        {
            "this text".to_owned()
        }
        Value::Str(text) => format!("the text `{text}`"),
        other => format!("`{}`", zagent_config::value::python_str(other)),
    }
}

/// "`a`, `b` or `c`".
fn or_list(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => format!("`{last}`"),
        Some((last, rest)) => format!("`{}` or `{last}`", rest.join("`, `")),
        None => String::new(),
    }
}

fn unknown_module(session: &CompileSession, one: &LoweredChunk) -> Diagnostic {
    let chunk = &one.chunk;
    let text = format!("unknown state module `{}` (in `{}.{}`)", chunk.state, chunk.state, chunk.fun);
    let diagnostic = session.diagnostic(codes::UNKNOWN_STATE_MODULE, one.spot, text);
    match session.inputs.schema.nearest_module(&chunk.state) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic.hint(format!("to add an external module, create `_states/{}`", chunk.state)),
    }
}

fn unknown_function(session: &CompileSession, one: &LoweredChunk, module: &ModuleSchema) -> Diagnostic {
    let chunk = &one.chunk;
    let text = format!("the state module `{}` has no function `{}`", chunk.state, chunk.fun);
    let diagnostic = session.diagnostic(codes::UNKNOWN_STATE_FUNCTION, one.spot, text);
    match module.nearest_function(&chunk.fun) {
        Some(near) => diagnostic.hint(format!("did you mean `{}.{near}`?", chunk.state)),
        None => diagnostic.hint(format!("`zagent explain {}` lists its functions", chunk.state)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_looked_up_once() {
        let mut tables = ParamTableCache::new(schema::sample_tests::sample_schema());
        for _ in 0..100 {
            assert!(tables.get_or_build("test", "nop").is_some());
            assert!(tables.get_or_build("file", "managed").is_some());
            assert!(tables.get_or_build("file", "nosuch").is_none());
        }
        let known: Vec<_> = tables.known.iter().map(|(state, fun, _)| (*state, *fun)).collect();
        assert_eq!(known, [("test", "nop"), ("file", "managed")]);
        assert_eq!(tables.get_or_build("file", "managed").unwrap().name().source_text(), "path");
        assert_eq!(tables.get_or_build("test", "nop").unwrap().name(), ParamKinds::ANY);
    }

    #[test]
    fn values_are_shown_unless_they_may_be_secrets() {
        assert_eq!(display_value("mode", &"rwx".into()), "the text `rwx`");
        assert_eq!(display_value("mode", &true.into()), "`True`");
        assert_eq!(display_value("mode", &Value::empty_list()), "a list");
        assert_eq!(display_value("password", &"hunter2".into()), "this text");
        assert_eq!(display_value("text", &"x".repeat(MAX_SHOWN + 1).into()), "this text");
    }
}

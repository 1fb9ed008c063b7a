//! Our own strictness: state functions and parameters that do not exist, and values that no state could use, are faults
//! before anything runs.
//!
//! Law: what a function takes is looked up once for all states of it.

use std::collections::{HashMap, HashSet};

use zagent_config::codes::function as codes;
use zagent_config::{Fault, Faults, Pos, Value, secret};

use crate::lower::Lowered;
use crate::schema::{self, Kinds, Lack, Misfit, Table};
use crate::session::Session;
use crate::sources::Spot;

/// Longer texts are not shown in a fault.
const SHOWN: usize = 40;

/// Notes every chunk that names an unknown module or function, or whose arguments do not fit it. Gives a warning for each
/// function that Salt has and this agent cannot carry out.
pub(crate) fn check(session: &Session, lowered: &[Lowered]) -> Result<Vec<Fault>, Faults> {
    let mut tables = Tables::default();
    let mut check = Check { session, faults: Faults::default(), told: HashSet::new() };
    for one in lowered {
        match tables.of(&one.chunk.state, &one.chunk.fun) {
            Some(table) => check.arguments(one, table),
            None => check.unknown(one),
        }
    }
    check.faults.into_result()?;
    Ok(unbuilt(session, lowered))
}

/// One warning for each function that nobody here can carry out.
fn unbuilt(session: &Session, lowered: &[Lowered]) -> Vec<Fault> {
    let mut warnings = Vec::new();
    let mut asked = HashSet::new();
    for one in lowered {
        let (state, fun) = (&*one.chunk.state, &*one.chunk.fun);
        if !asked.insert((state, fun)) || session.is_external_state(state) {
            continue;
        }
        if schema::function(state, fun).is_some_and(|f| !f.is_built()) {
            let text = format!("Salt has `{state}.{fun}`, this agent does not carry it out: it would fail");
            let hint = format!("an external module `_states/{state}` can, or `cmd.run` with a guard");
            warnings.push(session.fault(codes::UNBUILT, one.spot, text).hint(hint));
        }
    }
    warnings
}

/// The tables of the functions that were met.
#[derive(Default)]
struct Tables<'c> {
    known: Vec<(&'c str, &'c str, Table)>,
    places: HashMap<(&'c str, &'c str), usize>,
    /// The one that was asked for last: neighbours are often alike.
    last: usize,
}

impl<'c> Tables<'c> {
    fn of(&mut self, state: &'c str, fun: &'c str) -> Option<&Table> {
        if !self.known.get(self.last).is_some_and(|(s, f, _)| *f == fun && *s == state) {
            self.last = match self.places.get(&(state, fun)) {
                Some(place) => *place,
                None => {
                    let table = Table::new(schema::function(state, fun)?);
                    self.known.push((state, fun, table));
                    self.places.insert((state, fun), self.known.len() - 1);
                    self.known.len() - 1
                }
            };
        }
        self.known.get(self.last).map(|(.., table)| table)
    }
}

struct Check<'s> {
    session: &'s Session,
    faults: Faults,
    /// States that share a declaration by `names` share its faults: places and parameters that were told of.
    told: HashSet<(Spot, String)>,
}

impl Check<'_> {
    fn arguments(&mut self, one: &Lowered, table: &Table) {
        let chunk = &one.chunk;
        for entry in chunk.args.entries() {
            let Some(name) = entry.key.as_str() else { continue };
            match table.kinds(name) {
                Some(kinds) => self.value(one, (name, entry.at), kinds, &entry.value),
                None => self.unknown_parameter(one, table, (name, entry.at)),
            }
        }
        self.value(one, ("name", Pos::NONE), table.name(), &chunk.name);
        if let (Some(order), Some(keyword)) = (&one.order, schema::keyword("order")) {
            self.value(one, ("order", Pos::NONE), keyword.kinds, order);
        }
        for lack in table.lacks(&chunk.args) {
            match lack {
                Lack::Missing(names) => self.missing(one, table, names),
                Lack::Conflict(names) => self.conflict(one, names),
            }
        }
    }

    fn value(&mut self, one: &Lowered, (name, at): (&str, Pos), kinds: Kinds, value: &Value) {
        let Err(misfit) = kinds.fit(value) else { return };
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        let text =
            format!("`{name}` of `{state}.{fun}` must be {}, not {}", kinds.in_words(), shown(name, value));
        let explain = || format!("`zagent explain {state}.{fun}:{name}` tells more");
        let (code, hint) = match misfit {
            Misfit::Kind(hint) => (codes::WRONG_KIND, hint.map_or_else(explain, str::to_owned)),
            Misfit::Choice(Some(near)) => (codes::UNKNOWN_CHOICE, format!("did you mean `{near}`?")),
            Misfit::Choice(None) => (codes::UNKNOWN_CHOICE, explain()),
        };
        self.tell(one, (name, at), |session, spot| session.fault(code, spot, text).hint(hint));
    }

    fn unknown_parameter(&mut self, one: &Lowered, table: &Table, (name, at): (&str, Pos)) {
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        self.tell(one, (name, at), |session, spot| {
            let text = format!("`{state}.{fun}` has no parameter `{name}`");
            let fault = session.fault(codes::UNKNOWN_PARAMETER, spot, text);
            match table.function().nearest_parameter(name) {
                Some(near) => fault.hint(format!("did you mean `{near}`?")),
                None => fault.hint(format!("`zagent explain {state}.{fun}` lists them")),
            }
        });
    }

    fn missing(&mut self, one: &Lowered, table: &Table, names: &[&'static str]) {
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        self.tell(one, (names[0], Pos::NONE), |session, spot| {
            let text = format!("`{state}.{fun}` needs {}", listed(names));
            let fault = session.fault(codes::MISSING_PARAMETER, spot, text);
            let told = table.function().describe();
            match told.as_ref().and_then(|t| t.parameter(names[0])) {
                Some(p) => fault.hint(format!("`{}`: {}", p.name, p.about.trim_end_matches('.'))),
                None => fault,
            }
        });
    }

    fn conflict(&mut self, one: &Lowered, [first, second]: [&'static str; 2]) {
        let chunk = &one.chunk;
        let is_either = |name: Option<&str>| name == Some(first) || name == Some(second);
        let entries = chunk.args.entries().iter().filter(|e| is_either(e.key.as_str()));
        // Pointed at is the one that stands further down.
        let at = entries.map(|e| e.at).max().unwrap_or(Pos::NONE);
        self.tell(one, (second, at), |session, spot| {
            let text =
                format!("`{first}` and `{second}` of `{}.{}` exclude each other", chunk.state, chunk.fun);
            session.fault(codes::CONFLICT, spot, text).hint("keep one of them")
        });
    }

    /// Notes a fault about a parameter, unless it was noted for another name of the same declaration.
    fn tell(&mut self, one: &Lowered, (name, at): (&str, Pos), fault: impl FnOnce(&Session, Spot) -> Fault) {
        let spot = Spot { pos: if at.is_known() { at } else { one.spot.pos }, ..one.spot };
        if self.told.insert((spot, name.to_owned())) {
            self.faults.push(fault(self.session, spot));
        }
    }

    /// A module or a function that does not exist, unless the tree brings it along.
    fn unknown(&mut self, one: &Lowered) {
        if !self.session.is_external_state(&one.chunk.state) {
            self.faults.push(match schema::module(&one.chunk.state) {
                Some(module) => unknown_function(self.session, one, module),
                None => unknown_module(self.session, one),
            });
        }
    }
}

/// What was given, as far as it may be shown.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::List(_) | Value::Map(_) | Value::Null => value.kind().to_owned(),
        Value::Str(text) if secret::tells(name) || text.len() > SHOWN || text.contains('\n') => {
            "this text".to_owned()
        }
        Value::Str(text) => format!("the text `{text}`"),
        other => format!("`{}`", crate::yaml::python_str(other)),
    }
}

/// "`a`, `b` or `c`".
fn listed(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => format!("`{last}`"),
        Some((last, rest)) => format!("`{}` or `{last}`", rest.join("`, `")),
        None => String::new(),
    }
}

fn unknown_module(session: &Session, one: &Lowered) -> Fault {
    let chunk = &one.chunk;
    let text = format!("there is no state module `{}` (for `{}.{}`)", chunk.state, chunk.state, chunk.fun);
    let fault = session.fault(codes::UNKNOWN_STATE_MODULE, one.spot, text);
    match schema::nearest_module(&chunk.state) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault.hint(format!("an external module would be `_states/{}`", chunk.state)),
    }
}

fn unknown_function(session: &Session, one: &Lowered, module: &schema::Module) -> Fault {
    let chunk = &one.chunk;
    let text = format!("the state module `{}` has no function `{}`", chunk.state, chunk.fun);
    let fault = session.fault(codes::UNKNOWN_STATE_FUNCTION, one.spot, text);
    match module.nearest_function(&chunk.fun) {
        Some(near) => fault.hint(format!("did you mean `{}.{near}`?", chunk.state)),
        None => fault.hint(format!("`zagent explain {}` lists what it has", chunk.state)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_looked_up_once() {
        let mut tables = Tables::default();
        for _ in 0..100 {
            assert!(tables.of("test", "nop").is_some());
            assert!(tables.of("file", "managed").is_some());
            assert!(tables.of("file", "nosuch").is_none());
        }
        let known: Vec<_> = tables.known.iter().map(|(state, fun, _)| (*state, *fun)).collect();
        assert_eq!(known, [("test", "nop"), ("file", "managed")]);
        assert_eq!(tables.of("file", "managed").unwrap().name().written(), "path");
        assert_eq!(tables.of("test", "nop").unwrap().name(), Kinds::ANY);
    }

    #[test]
    fn what_is_given_is_shown_unless_it_may_be_a_secret() {
        assert_eq!(shown("mode", &"rwx".into()), "the text `rwx`");
        assert_eq!(shown("mode", &true.into()), "`True`");
        assert_eq!(shown("mode", &Value::empty_list()), "a list");
        assert_eq!(shown("password", &"hunter2".into()), "this text");
        assert_eq!(shown("text", &"x".repeat(SHOWN + 1).into()), "this text");
    }
}

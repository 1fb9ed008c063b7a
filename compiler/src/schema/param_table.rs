//! A function in, the table that its states are checked against out: built once, used for every argument.

use zagent_config::suggest::nearest;
use zagent_config::{Map, Value};

use super::{FunctionSource, ParamKinds, StateFunction, sorted_keywords};

/// What states of one function are checked against.
#[derive(Clone, Debug)]
pub struct ParamTable {
    function: StateFunction,
    /// Its own parameters and those of all states, sorted; its own kinds win.
    slots: Vec<(&'static str, ParamKinds)>,
    name: ParamKinds,
    /// Its own parameters, for suggestions.
    own: Vec<&'static str>,
    required: Vec<&'static str>,
    exclusive: Vec<Vec<&'static str>>,
    needed: Vec<Vec<&'static str>>,
    unnamed: UnnamedParams,
}

/// What happens to a parameter that a function does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnnamedParams {
    Refused,
    /// Accepted, unless it is most likely a misspelt declared one.
    TakenUnlessSlip,
    Taken,
}

/// What is wrong with the arguments of a state as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgsProblem<'t> {
    /// None of these is given.
    Missing(&'t [&'static str]),
    /// Both of these are given.
    Conflict([&'static str; 2]),
}

impl ParamTable {
    /// Reads the parameters of a function.
    #[must_use]
    pub fn new(function: StateFunction) -> Self {
        let mut table = Self {
            function,
            slots: sorted_keywords().iter().map(|p| (p.name, p.kinds)).collect(),
            name: ParamKinds::ANY,
            own: Vec::new(),
            required: Vec::new(),
            exclusive: Vec::new(),
            needed: Vec::new(),
            unnamed: if function.takes_any() {
                UnnamedParams::TakenUnlessSlip
            } else {
                UnnamedParams::Refused
            },
        };
        match function.body {
            FunctionSource::Listed(_) => {
                function.parameters().into_iter().for_each(|name| table.set_kinds(name, ParamKinds::ANY));
            }
            FunctionSource::Described(block) => {
                let doc = block.describe(function.module);
                if doc.traits.takes_any {
                    table.unnamed = UnnamedParams::Taken;
                }
                for p in &doc.parameters {
                    table.set_kinds(p.name, p.kinds);
                }
                table.name = doc.parameter("name").map_or(ParamKinds::ANY, |p| p.kinds);
                table.required = doc.parameters.iter().filter(|p| p.is_required).map(|p| p.name).collect();
                (table.exclusive, table.needed) = (doc.exclusive, doc.needed);
            }
        }
        table
    }

    fn set_kinds(&mut self, name: &'static str, kinds: ParamKinds) {
        if name != "name" {
            self.own.push(name);
        }
        match self.slots.binary_search_by_key(&name, |slot| slot.0) {
            Ok(i) => self.slots[i].1 = kinds,
            Err(i) => self.slots.insert(i, (name, kinds)),
        }
    }

    /// The function it describes.
    #[must_use]
    pub const fn function(&self) -> StateFunction {
        self.function
    }

    /// The kinds of `name`.
    #[must_use]
    pub const fn name(&self) -> ParamKinds {
        self.name
    }

    /// True for a parameter of its own, or one that every state has; false for one that it merely accepts.
    #[must_use]
    pub fn is_named(&self, parameter: &str) -> bool {
        parameter == "name" || self.slots.binary_search_by(|slot| slot.0.cmp(parameter)).is_ok()
    }

    /// True when it has a template that sees parameters it does not know.
    #[must_use]
    pub fn is_templated(&self) -> bool {
        matches!(self.unnamed, UnnamedParams::TakenUnlessSlip) && self.is_named("template")
    }

    /// The kinds of a parameter; `None` when states of this function do not accept it.
    #[must_use]
    pub fn kinds(&self, parameter: &str) -> Option<ParamKinds> {
        if let Ok(i) = self.slots.binary_search_by(|slot| slot.0.cmp(parameter)) {
            return Some(self.slots[i].1);
        }
        let taken = parameter.starts_with("__")
            || match self.unnamed {
                UnnamedParams::Refused => false,
                UnnamedParams::TakenUnlessSlip => nearest(parameter, self.own.iter().copied()).is_none(),
                UnnamedParams::Taken => true,
            };
        taken.then_some(ParamKinds::ANY)
    }

    /// Missing and conflicting parameters.
    pub fn problems<'t>(&'t self, args: &'t Map) -> impl Iterator<Item = ArgsProblem<'t>> {
        let given = |name: &str| args.get(name).is_some();
        let alone = self.required.iter().map(std::slice::from_ref);
        let missing = alone
            .chain(self.needed.iter().map(Vec::as_slice))
            .filter(move |names| !names.iter().any(|name| given(name)))
            .map(ArgsProblem::Missing);
        // Empty or false counts as not given, as in the states themselves.
        let counts = |name: &str| args.get(name).is_some_and(Value::is_truthy);
        let conflicts = self.exclusive.iter().filter_map(move |names| {
            let mut both = names.iter().copied().filter(|name| counts(name));
            Some(ArgsProblem::Conflict([both.next()?, both.next()?]))
        });
        missing.chain(conflicts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample_tests::sample_schema;
    use super::*;

    fn table(module: &str, name: &str) -> ParamTable {
        ParamTable::new(sample_schema().function(module, name).unwrap())
    }

    #[test]
    fn parameters_pass_by_function() {
        for (module, name, parameter, want) in [
            ("file", "managed", "source", true),
            ("file", "managed", "name", true),
            ("file", "managed", "require_in", true),
            ("file", "managed", "__sls__", true),
            ("file", "managed", "anything_else", true),
            ("file", "managed", "soruce", false),
            ("file", "append", "text", true),
            ("file", "append", "txt", false),
            ("service", "masked", "enable", false),
            ("pkg", "installed", "anything", true),
            ("timezone", "system", "utc", true),
            ("exec", "run", "refresh_only", true),
            ("exec", "run", "refreshonly", false),
            ("module", "run", "m_nam", true),
            ("stateconf", "set", "x", true),
        ] {
            assert_eq!(table(module, name).kinds(parameter).is_some(), want, "{module}.{name} {parameter}");
        }
    }

    #[test]
    fn the_kinds_of_a_function_win_over_those_of_all_states() {
        assert_eq!(table("file", "managed").kinds("check_cmd").unwrap().source_text(), "text");
        assert_eq!(table("test", "nop").kinds("check_cmd").unwrap().source_text(), "text|list|map|bool");
        assert_eq!(table("file", "managed").name().source_text(), "path");
        assert_eq!(table("stateconf", "set").name(), ParamKinds::ANY);
    }

    #[test]
    fn missing_and_conflicting_parameters_are_reported() {
        let lacks = |module: &str, name: &str, args: &[(&str, &str)]| {
            let mut map = Map::new();
            for (key, value) in args {
                map.insert(*key, *value);
            }
            table(module, name).problems(&map).map(|lack| format!("{lack:?}")).collect::<Vec<_>>()
        };
        assert!(lacks("file", "managed", &[]).is_empty());
        assert!(lacks("file", "managed", &[("source", "a"), ("contents", "")]).is_empty());
        assert_eq!(
            lacks("file", "managed", &[("contents", "a"), ("source", "a")]),
            [r#"Conflict(["source", "contents"])"#]
        );
        assert_eq!(lacks("file", "symlink", &[]), [r#"Missing(["target"])"#]);
        assert_eq!(lacks("file", "decode", &[]), [r#"Missing(["encoded_data", "contents_pillar"])"#]);
        assert!(lacks("file", "decode", &[("encoded_data", "a")]).is_empty());
    }
}

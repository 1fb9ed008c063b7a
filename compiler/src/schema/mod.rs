//! Descriptions of state modules in, the state functions that exist and their parameters out: `file.managed` takes
//! `source`, `mode`, ….
//!
//! Startup costs nothing. The tables are texts, split into modules on first use; parameters are parsed on demand
//! only. The descriptions come from the caller, who implements the modules; the list of Salt's modules and the
//! keywords of all states are here.
//!
//! The format of `states.txt`, sorted by module: a line without indentation is a module and its marks (`watch`: it
//! reacts to a watch; `apart`: Salt ships it as an extension), a line with one is a function and its parameters
//! besides `name`; `**` accepts any. A description replaces the functions listed there, and may add a module.

mod crontab;
mod describe;
mod kind;
mod param_table;
#[cfg(test)]
pub(crate) mod sample_tests;

use std::sync::OnceLock;

use crate::plan::Chunk;
use describe::DescriptionBlock;
pub use describe::{FunctionDoc, FunctionTraits, StateParameter, keyword, keywords, sorted_keywords};
pub use kind::{ParamKinds, ValueMismatch};
pub use param_table::{ArgsProblem, ParamTable};

use zagent_config::suggest::nearest;

const STATES_TABLE: &str = include_str!("states.txt");

/// The state modules and functions that exist: those that are described, and those that only Salt has.
#[derive(Debug)]
pub struct Schema {
    /// Modules with their descriptions, sorted by name.
    descriptions: &'static [(&'static str, &'static str)],
    arg_checks: &'static [(&'static str, ArgCheck)],
    modules: OnceLock<Vec<ModuleSchema>>,
}

/// Finds every fault in the arguments of a chunk, by the name of its function: the code that also reads them in a run.
pub type ArgCheck = fn(&str, &Chunk) -> Vec<ArgFault>;

/// An argument that its state cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgFault {
    /// The parameter.
    pub parameter: String,
    /// What is wrong with it.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

impl ArgFault {
    /// A fault of a parameter, and how to fix it.
    pub fn new(parameter: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { parameter: parameter.into(), message: message.into(), hint: hint.into() }
    }
}

/// A state module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleSchema {
    /// Its name: `file`.
    pub name: &'static str,
    /// It reacts to a watch with its own function.
    pub has_mod_watch: bool,
    /// Salt ships it as an extension: there its `watch` acts only as a `require`.
    pub is_extension: bool,
    functions: ModuleFunctions,
}

/// Where the functions of a module are described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModuleFunctions {
    /// Their names and those of their parameters.
    Listed(&'static str),
    /// Blocks of descriptions.
    Described(&'static str),
}

/// A state function: `file.managed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFunction {
    /// Its name without the module: `managed`.
    pub name: &'static str,
    module: &'static str,
    body: FunctionSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionSource {
    Listed(&'static str),
    Described(DescriptionBlock),
}

impl Schema {
    /// A schema of these modules and their descriptions, sorted by name; nothing is parsed.
    #[must_use]
    pub const fn new(descriptions: &'static [(&'static str, &'static str)]) -> Self {
        Self::with_arg_checks(descriptions, &[])
    }

    /// The same, with modules whose arguments are checked by their own code.
    #[must_use]
    pub const fn with_arg_checks(
        descriptions: &'static [(&'static str, &'static str)],
        arg_checks: &'static [(&'static str, ArgCheck)],
    ) -> Self {
        Self { descriptions, arg_checks, modules: OnceLock::new() }
    }

    /// What the module of a chunk finds wrong with its arguments.
    pub(crate) fn arg_faults(&self, chunk: &Chunk) -> Vec<ArgFault> {
        let check = self.arg_checks.iter().find(|(module, _)| *module == &*chunk.state);
        check.map_or_else(Vec::new, |(_, check)| check(&chunk.fun, chunk))
    }

    /// All modules, sorted by name.
    #[must_use]
    pub fn modules(&self) -> &[ModuleSchema] {
        self.modules.get_or_init(|| parse_modules(STATES_TABLE, self.descriptions))
    }

    /// One module.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&ModuleSchema> {
        let all = self.modules();
        all.binary_search_by(|m| m.name.cmp(name)).ok().map(|i| &all[i])
    }

    /// One function of a module.
    #[must_use]
    pub fn function(&self, module: &str, name: &str) -> Option<StateFunction> {
        self.module(module)?.function(name)
    }

    /// The module whose name is nearest, when it is close enough to be a typing error.
    #[must_use]
    pub fn nearest_module(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.modules().iter().map(|m| m.name))
    }

    /// The names of the modules that are described, sorted.
    pub fn described_modules(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.descriptions.iter().map(|(name, _)| *name)
    }

    /// Every function that is described, by module and name.
    pub fn described_functions(&self) -> impl Iterator<Item = FunctionDoc> + use<> {
        self.descriptions
            .iter()
            .flat_map(|(module, text)| describe::blocks(text).map(|block| block.describe(module)))
    }

    /// The purpose of a module that is described, in a sentence.
    #[must_use]
    pub fn module_purpose(&self, module: &str) -> Option<&'static str> {
        self.description(module).map(describe::purpose_of)
    }

    fn description(&self, module: &str) -> Option<&'static str> {
        self.descriptions
            .binary_search_by(|(name, _)| (*name).cmp(module))
            .ok()
            .map(|i| self.descriptions[i].1)
    }
}

impl ModuleSchema {
    /// Its functions, sorted by name.
    pub fn functions(&self) -> impl Iterator<Item = StateFunction> + use<> {
        let module = self.name;
        let (listed, doc) = match self.functions {
            ModuleFunctions::Listed(lines) => (lines, ""),
            ModuleFunctions::Described(text) => ("", text),
        };
        let listed = listed.lines().map(move |line| {
            let line = line.trim_start();
            let (name, parameters) = line.split_once(' ').unwrap_or((line, ""));
            StateFunction { name, module, body: FunctionSource::Listed(parameters) }
        });
        let doc = describe::blocks(doc).map(move |block| StateFunction {
            name: block.name,
            module,
            body: FunctionSource::Described(block),
        });
        listed.chain(doc)
    }

    /// One of its functions.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<StateFunction> {
        match self.functions {
            ModuleFunctions::Listed(_) => self.functions().find(|f| f.name == name),
            ModuleFunctions::Described(text) => {
                let block = describe::find_block(text, name).filter(|block| !block.name.starts_with('@'))?;
                Some(StateFunction {
                    name: block.name,
                    module: self.name,
                    body: FunctionSource::Described(block),
                })
            }
        }
    }

    /// The function whose name is nearest, when it is close enough to be a typing error.
    #[must_use]
    pub fn nearest_function(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.functions().map(|f| f.name))
    }
}

impl StateFunction {
    /// Its documentation, if any.
    #[must_use]
    pub fn describe(&self) -> Option<FunctionDoc> {
        match self.body {
            FunctionSource::Listed(_) => None,
            FunctionSource::Described(block) => Some(block.describe(self.module)),
        }
    }

    /// True when zagent implements it; false when zagent only knows that Salt has it.
    #[must_use]
    pub fn is_implemented(&self) -> bool {
        match self.body {
            FunctionSource::Listed(_) => false,
            FunctionSource::Described(block) => !block.parse_traits().is_unimplemented,
        }
    }

    /// Its own parameters, without `name`.
    #[must_use]
    pub fn parameters(&self) -> Vec<&'static str> {
        match self.body {
            FunctionSource::Listed(names) => {
                names.split(' ').filter(|p| !p.is_empty() && *p != "**").collect()
            }
            FunctionSource::Described(block) => {
                let all = block.describe(self.module).parameters;
                all.into_iter().map(|p| p.name).filter(|name| *name != "name").collect()
            }
        }
    }

    /// True when it accepts any parameter.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        match self.body {
            FunctionSource::Listed(names) => names.ends_with("**"),
            FunctionSource::Described(block) => {
                block.parse_traits().takes_extra || block.parse_traits().takes_any
            }
        }
    }

    /// The parameter whose name is nearest, when it is close enough to be a typing error.
    #[must_use]
    pub fn nearest_parameter(&self, parameter: &str) -> Option<&'static str> {
        nearest(parameter, self.parameters().into_iter().chain(sorted_keywords().iter().map(|p| p.name)))
    }
}

/// External modules of a tree (`_states/NAME`): any function and any parameter of theirs is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalModules(Vec<String>);

impl ExternalModules {
    /// Records the external modules of a tree.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    /// True when this is an external module of the tree.
    #[must_use]
    pub fn contains(&self, module: &str) -> bool {
        self.0.binary_search_by(|n| n.as_str().cmp(module)).is_ok()
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Salt's modules and those that are described, sorted by name.
fn parse_modules(table: &'static str, descriptions: &[(&'static str, &'static str)]) -> Vec<ModuleSchema> {
    let mut modules = Vec::with_capacity(512);
    let mut rest = table;
    while !rest.is_empty() {
        let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let end = end_of_functions(after);
        let (functions, next) = after.split_at(end);
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let marks: Vec<&str> = words.collect();
        modules.push(ModuleSchema {
            name,
            has_mod_watch: marks.contains(&"watch"),
            is_extension: marks.contains(&"apart"),
            functions: ModuleFunctions::Listed(functions),
        });
        rest = next;
    }
    for (name, text) in descriptions {
        let functions = ModuleFunctions::Described(text);
        match modules.binary_search_by(|m| m.name.cmp(name)) {
            Ok(i) => modules[i].functions = functions,
            Err(i) => {
                let module = ModuleSchema { name, has_mod_watch: false, is_extension: false, functions };
                modules.insert(i, module);
            }
        }
    }
    modules
}

/// Where the indented lines at the head of `text` end.
fn end_of_functions(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use super::sample_tests::sample_schema;
    use super::*;

    #[test]
    fn the_table_is_sorted_and_complete() {
        let all = sample_schema().modules();
        assert!(all.len() > 300);
        assert!(all.windows(2).all(|w| w[0].name < w[1].name));
        for m in all {
            let names: Vec<_> = m.functions().map(|f| f.name).collect();
            assert!(!names.is_empty(), "{} has no function", m.name);
            assert!(names.windows(2).all(|w| w[0] < w[1]), "{} is not sorted", m.name);
        }
    }

    #[test]
    fn suggestions() {
        let schema = sample_schema();
        assert_eq!(schema.nearest_module("flie"), Some("file"));
        assert_eq!(schema.module("file").unwrap().nearest_function("manged"), Some("managed"));
        assert_eq!(schema.function("file", "append").unwrap().nearest_parameter("txt"), Some("text"));
        assert_eq!(schema.function("file", "append").unwrap().nearest_parameter("requier"), Some("require"));
        assert_eq!(schema.function("file", "nosuch"), None);
        assert_eq!(schema.function("nosuch", "managed"), None);
    }

    #[test]
    fn which_modules_react_to_a_watch() {
        let watching: Vec<_> = sample_schema()
            .modules()
            .iter()
            .filter(|m| m.has_mod_watch && !m.is_extension)
            .map(|m| m.name)
            .collect();
        assert_eq!(
            watching,
            ["at", "cmd", "etcd", "event", "exec", "module", "mount", "pkg", "service", "test"]
        );
        assert!(sample_schema().module("docker_container").unwrap().is_extension);
    }

    #[test]
    fn a_description_replaces_salts_list_and_may_add_a_module() {
        const BOTH: &[(&str, &str)] = &[("lxd", "= A.\nown still\n"), ("mine", "= B.\nmade still\n")];
        let schema = Schema::new(BOTH);
        assert!(schema.modules().windows(2).all(|w| w[0].name < w[1].name));
        let names =
            |module: &str| schema.module(module).unwrap().functions().map(|f| f.name).collect::<Vec<_>>();
        assert_eq!((names("lxd"), names("mine")), (vec!["own"], vec!["made"]));
        assert_eq!(schema.module_purpose("mine"), Some("B."));
        assert_eq!(schema.module_purpose("file"), None);
    }

    #[test]
    fn modules_of_the_tree() {
        let external = ExternalModules::new(["ufw".to_owned(), "app".to_owned(), "ufw".to_owned()]);
        assert!(external.contains("ufw") && !external.contains("file"));
        assert_eq!(external.names().collect::<Vec<_>>(), ["app", "ufw"]);
    }
}

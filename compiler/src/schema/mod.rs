//! The state functions that exist, and their parameters: `file.managed` takes `source`, `mode`, ….
//!
//! Law: starting costs nothing. The tables are texts, cut into modules when the first question comes; parameters are
//! cut only when asked for.
//!
//! The format of `states.txt`, sorted by module: a line without indentation is a module and its marks (`watch`: it
//! answers a watch; `apart`: Salt ships it apart from its core), a line with one is a function and its parameters
//! besides `name`; `**` takes any. A module without functions there is told in full in `described/MODULE.txt`.

mod crontab;
mod describe;
mod kind;
mod table;

use std::sync::OnceLock;

use describe::Block;
pub use describe::{
    Description, Marks, Parameter, described, described_modules, keyword, keywords, purpose, sorted_keywords,
};
pub use kind::{Kinds, Misfit};
pub use table::{Lack, Table};

use zagent_config::suggest::nearest;

const TABLE: &str = include_str!("states.txt");

/// A state module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name: `file`.
    pub name: &'static str,
    /// It answers a watch by a function of its own.
    pub watches: bool,
    /// Salt ships it apart from its core: there its `watch` is a mere `require`.
    pub apart: bool,
    functions: Functions,
}

/// Where the functions of a module stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Functions {
    /// Their names and those of their parameters.
    Listed(&'static str),
    /// Blocks of descriptions.
    Described(&'static str),
}

/// A state function: `file.managed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name without the module: `managed`.
    pub name: &'static str,
    module: &'static str,
    body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Listed(&'static str),
    Described(Block),
}

/// All modules, sorted by name.
#[must_use]
pub fn modules() -> &'static [Module] {
    static MODULES: OnceLock<Vec<Module>> = OnceLock::new();
    MODULES.get_or_init(|| cut(TABLE))
}

/// One module.
#[must_use]
pub fn module(name: &str) -> Option<&'static Module> {
    let all = modules();
    all.binary_search_by(|m| m.name.cmp(name)).ok().map(|i| &all[i])
}

/// One function of a module.
#[must_use]
pub fn function(module_name: &str, name: &str) -> Option<Function> {
    module(module_name)?.function(name)
}

/// The module whose name is nearest, when it is near enough to be a slip.
#[must_use]
pub fn nearest_module(name: &str) -> Option<&'static str> {
    nearest(name, modules().iter().map(|m| m.name))
}

impl Module {
    /// Its functions, sorted by name.
    pub fn functions(&self) -> impl Iterator<Item = Function> + use<> {
        let module = self.name;
        let (listed, told) = match self.functions {
            Functions::Listed(lines) => (lines, ""),
            Functions::Described(text) => ("", text),
        };
        let listed = listed.lines().map(move |line| {
            let line = line.trim_start();
            let (name, parameters) = line.split_once(' ').unwrap_or((line, ""));
            Function { name, module, body: Body::Listed(parameters) }
        });
        let told = describe::blocks(told).map(move |block| Function {
            name: block.name,
            module,
            body: Body::Described(block),
        });
        listed.chain(told)
    }

    /// One of its functions.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<Function> {
        match self.functions {
            Functions::Listed(_) => self.functions().find(|f| f.name == name),
            Functions::Described(text) => {
                let block = describe::block(text, name).filter(|block| !block.name.starts_with('@'))?;
                Some(Function { name: block.name, module: self.name, body: Body::Described(block) })
            }
        }
    }

    /// The function whose name is nearest, when it is near enough to be a slip.
    #[must_use]
    pub fn nearest_function(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.functions().map(|f| f.name))
    }
}

impl Function {
    /// What it does and takes, when that is described.
    #[must_use]
    pub fn describe(&self) -> Option<Description> {
        match self.body {
            Body::Listed(_) => None,
            Body::Described(block) => Some(block.describe(self.module)),
        }
    }

    /// True when this agent carries it out, and does not only know that Salt has it.
    #[must_use]
    pub fn is_built(&self) -> bool {
        match self.body {
            Body::Listed(_) => false,
            Body::Described(block) => !block.marks().unbuilt,
        }
    }

    /// The parameters of its own, `name` apart.
    #[must_use]
    pub fn parameters(&self) -> Vec<&'static str> {
        match self.body {
            Body::Listed(names) => names.split(' ').filter(|p| !p.is_empty() && *p != "**").collect(),
            Body::Described(block) => {
                let all = block.describe(self.module).parameters;
                all.into_iter().map(|p| p.name).filter(|name| *name != "name").collect()
            }
        }
    }

    /// True when it takes any parameter.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        match self.body {
            Body::Listed(names) => names.ends_with("**"),
            Body::Described(block) => block.marks().more || block.marks().open,
        }
    }

    /// The parameter whose name is nearest, when it is near enough to be a slip.
    #[must_use]
    pub fn nearest_parameter(&self, parameter: &str) -> Option<&'static str> {
        nearest(parameter, self.parameters().into_iter().chain(sorted_keywords().iter().map(|p| p.name)))
    }
}

/// Modules that a tree brings along (`_states/NAME`): any function and any parameter of theirs pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External(Vec<String>);

impl External {
    /// Notes the modules of a tree.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    /// True when the tree brings this module along.
    #[must_use]
    pub fn contains(&self, module: &str) -> bool {
        self.0.binary_search_by(|n| n.as_str().cmp(module)).is_ok()
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn cut(table: &'static str) -> Vec<Module> {
    let mut modules = Vec::with_capacity(512);
    let mut rest = table;
    while !rest.is_empty() {
        let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let end = end_of_functions(after);
        let (functions, next) = after.split_at(end);
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let marks: Vec<&str> = words.collect();
        modules.push(Module {
            name,
            watches: marks.contains(&"watch"),
            apart: marks.contains(&"apart"),
            functions: match describe::text(name) {
                Some(text) if functions.is_empty() => Functions::Described(text),
                _ => Functions::Listed(functions),
            },
        });
        rest = next;
    }
    modules
}

/// Where the indented lines at the head of `text` end.
fn end_of_functions(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_whole() {
        let all = modules();
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
        assert_eq!(nearest_module("flie"), Some("file"));
        assert_eq!(module("file").unwrap().nearest_function("manged"), Some("managed"));
        assert_eq!(function("file", "append").unwrap().nearest_parameter("txt"), Some("text"));
        assert_eq!(function("file", "append").unwrap().nearest_parameter("requier"), Some("require"));
        assert_eq!(function("file", "nosuch"), None);
        assert_eq!(function("nosuch", "managed"), None);
    }

    #[test]
    fn who_answers_a_watch() {
        let watching: Vec<_> = modules().iter().filter(|m| m.watches && !m.apart).map(|m| m.name).collect();
        assert_eq!(
            watching,
            ["at", "cmd", "etcd", "event", "exec", "module", "mount", "pkg", "service", "test"]
        );
        assert!(module("docker_container").unwrap().apart);
    }

    #[test]
    fn modules_of_the_tree() {
        let external = External::new(["ufw".to_owned(), "app".to_owned(), "ufw".to_owned()]);
        assert!(external.contains("ufw") && !external.contains("file"));
        assert_eq!(external.names().collect::<Vec<_>>(), ["app", "ufw"]);
    }
}

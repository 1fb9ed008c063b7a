//! The state functions that exist, and their parameters: `file.managed` takes `source`, `mode`, ….
//!
//! Law: starting costs nothing. The table is one text, cut into modules when the first question comes; parameters are
//! cut only when asked for.
//!
//! The format of `states.txt`, sorted by module: a line without indentation is a module and its marks (`watch`: it
//! answers a watch; `apart`: Salt ships it apart from its core), a line with one is a function and its parameters
//! besides `name`; `**` takes any.

use std::sync::OnceLock;

use zagent_config::suggest::nearest;

const TABLE: &str = include_str!("states.txt");

/// What every state takes, whatever its function: requisites, conditions, order. Names that begin with `__` are the
/// compiler's own and pass too.
pub const GLOBAL: [&str; 47] = [
    "aggregate",
    "check_cmd",
    "cmd_opts_exclude",
    "creates",
    "failhard",
    "fire_event",
    "fun",
    "listen",
    "listen_in",
    "minion",
    "name",
    "names",
    "no_log",
    "onchanges",
    "onchanges_any",
    "onchanges_in",
    "onfail",
    "onfail_all",
    "onfail_any",
    "onfail_in",
    "onfail_stop",
    "onlyif",
    "order",
    "parallel",
    "prereq",
    "prereq_in",
    "prerequired",
    "provider",
    "reload_grains",
    "reload_modules",
    "reload_pillar",
    "require",
    "require_any",
    "require_in",
    "retry",
    "runas",
    "runas_password",
    "saltenv",
    "state",
    "timeout",
    "umask",
    "unless",
    "use",
    "use_in",
    "watch",
    "watch_any",
    "watch_in",
];

/// A state module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name: `file`.
    pub name: &'static str,
    /// It answers a watch by a function of its own.
    pub watches: bool,
    /// Salt ships it apart from its core: there its `watch` is a mere `require`.
    pub apart: bool,
    functions: &'static str,
}

/// A state function: `file.managed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name without the module: `managed`.
    pub name: &'static str,
    parameters: &'static str,
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
        self.functions.lines().map(|line| {
            let line = line.trim_start();
            let (name, parameters) = line.split_once(' ').unwrap_or((line, ""));
            Function { name, parameters }
        })
    }

    /// One of its functions.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<Function> {
        self.functions().find(|f| f.name == name)
    }

    /// The function whose name is nearest, when it is near enough to be a slip.
    #[must_use]
    pub fn nearest_function(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.functions().map(|f| f.name))
    }
}

impl Function {
    /// The parameters of its own, `name` apart.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.parameters.split(' ').filter(|p| !p.is_empty() && *p != "**")
    }

    /// True when it takes any parameter.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        self.parameters.ends_with("**")
    }

    /// True when a state of it may carry this parameter.
    #[must_use]
    pub fn accepts(&self, parameter: &str) -> bool {
        self.takes_any() || self.knows(parameter)
    }

    /// True when the parameter is one of its own, or one that every state takes.
    #[must_use]
    pub fn knows(&self, parameter: &str) -> bool {
        parameter.starts_with("__")
            || GLOBAL.binary_search(&parameter).is_ok()
            || self.parameters().any(|p| p == parameter)
    }

    /// True when it takes any parameter, and this one is most likely a slip of one of its own.
    #[must_use]
    pub fn is_slip(&self, parameter: &str) -> bool {
        self.takes_any() && !self.knows(parameter) && nearest(parameter, self.parameters()).is_some()
    }

    /// The parameter whose name is nearest, when it is near enough to be a slip.
    #[must_use]
    pub fn nearest_parameter(&self, parameter: &str) -> Option<&'static str> {
        nearest(parameter, self.parameters().chain(GLOBAL))
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
            functions,
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
        assert!(GLOBAL.windows(2).all(|w| w[0] < w[1]));
        for m in all {
            let names: Vec<_> = m.functions().map(|f| f.name).collect();
            assert!(!names.is_empty(), "{} has no function", m.name);
            assert!(names.windows(2).all(|w| w[0] < w[1]), "{} is not sorted", m.name);
        }
    }

    #[test]
    fn parameters_pass_by_function_and_by_kind() {
        for (module, name, parameter, want) in [
            ("file", "managed", "source", true),
            ("file", "managed", "name", true),
            ("file", "managed", "require_in", true),
            ("file", "managed", "__sls__", true),
            ("file", "append", "text", true),
            ("file", "append", "txt", false),
            ("service", "masked", "enable", false),
            ("pkg", "installed", "anything", true),
            ("timezone", "system", "utc", true),
            ("exec", "run", "refresh_only", true),
            ("exec", "run", "refreshonly", false),
            ("stateconf", "set", "x", true),
        ] {
            let f = function(module, name).unwrap();
            assert_eq!(f.accepts(parameter), want, "{module}.{name} {parameter}");
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

//! The variables that a render starts with: those that Salt gives to every template, and those derived from an SLS.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use minijinja::State;
use minijinja::value::{Enumerator, Object, Value};

use super::diagnostic::RenderScope;
use super::import::CurrentTemplate;
use super::object::{Dict, DictKey, dict};

/// Names of a render, by their origin.
pub(crate) type VariableMap = BTreeMap<String, Value>;

/// The root of a render's variables.
pub(crate) struct RootContext {
    /// The variables of this render.
    pub(crate) own: VariableMap,
    /// The variables of every render of the engine.
    pub(crate) shared: Arc<VariableMap>,
    /// Names of the engine's functions, for suggestions.
    pub(crate) globals: Arc<[String]>,
}

impl RootContext {
    fn get(&self, key: &str) -> Option<Value> {
        self.own.get(key).or_else(|| self.shared.get(key)).cloned()
    }
}

impl fmt::Debug for RootContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<context>")
    }
}

impl Object for RootContext {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.get(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.own.keys().chain(self.shared.keys());
        Enumerator::Values(names.map(|k| Value::from(k.as_str())).collect())
    }
}

impl RenderScope for RootContext {
    fn lookup(&self, name: &str) -> Option<Value> {
        self.get(name)
    }

    fn names(&self) -> Vec<String> {
        let own = self.own.keys().chain(self.shared.keys()).chain(self.globals.iter());
        own.filter(|n| !n.starts_with('_')).cloned().collect()
    }
}

/// `show_full_context()`: every variable of the render and every function, as a dictionary.
pub(crate) fn show_full_context(state: &State<'_, '_>) -> Value {
    let mut out = Dict::new();
    for (name, value) in state.env().globals() {
        if !name.starts_with('_') {
            out.insert(DictKey::from(name), value);
        }
    }
    for name in state.known_variables() {
        if !name.starts_with('_')
            && let Some(value) = state.lookup(&name)
        {
            out.insert(DictKey::from(name.as_ref()), value);
        }
    }
    dict(out)
}

/// What Salt derives from the name of an SLS and the path of its file.
pub(crate) fn sls_variables(sls: &str, path: &str, full_path: &str) -> (VariableMap, CurrentTemplate) {
    let mut names = VariableMap::new();
    let mut put = |name: &str, value: String| names.insert(name.to_owned(), Value::from(value));
    put("sls", sls.to_owned());
    put("tplpath", full_path.to_owned());
    let dotted = sls.replace('.', "/");
    let slspath = dotted.trim_end_matches('/');
    let template = if sls.is_empty() {
        path.rsplit('/').next().unwrap_or(path).to_owned()
    } else if path.ends_with(&format!("{slspath}.sls")) {
        format!("{slspath}.sls")
    } else if path.ends_with(&format!("{slspath}/init.sls")) {
        format!("{slspath}/init.sls")
    } else {
        // Not the file of that SLS: Salt uses the name itself as a path.
        let dir = sls.rsplit_once('/').map_or(".", |(dir, _)| dir).to_owned();
        put("tplfile", sls.to_owned());
        put("tpldir", dir.clone());
        return (names, CurrentTemplate { dir: Some(dir), file: Some(sls.to_owned()), dot: None });
    };
    let dir = template.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
    let tpldir = if dir.is_empty() { ".".to_owned() } else { dir.clone() };
    put("tplfile", template.clone());
    put("tpldir", tpldir.clone());
    put("tpldot", dir.replace('/', "."));
    put("slsdotpath", dir.replace('/', "."));
    put("slscolonpath", dir.replace('/', ":"));
    put("sls_path", dir.replace('/', "_"));
    let dot = dir.replace('/', ".");
    put("slspath", dir);
    (names, CurrentTemplate { dir: Some(tpldir), file: Some(template), dot: Some(dot) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sls_names_its_paths_as_salt_does() {
        for (sls, path, want) in [
            ("web", "web/init.sls", ["web/init.sls", "web", "web", "web"]),
            ("web.site", "web/site.sls", ["web/site.sls", "web", "web", "web"]),
            ("top", "top.sls", ["top.sls", ".", "", ""]),
            ("a.b.c", "a/b/c/init.sls", ["a/b/c/init.sls", "a/b/c", "a/b/c", "a.b.c"]),
        ] {
            let (names, _) = sls_variables(sls, path, path);
            let got = ["tplfile", "tpldir", "slspath", "slsdotpath"].map(|n| names[n].to_string());
            assert_eq!(got, want, "{sls}");
        }
        let (names, _) = sls_variables("", "top.sls", "/srv/top.sls");
        assert_eq!(names["tplfile"].to_string(), "top.sls");
        assert_eq!(names["tplpath"].to_string(), "/srv/top.sls");
    }
}

//! Imports between templates: paths as Salt resolves them, modules as Jinja2 makes them.
//!
//! Law: an import without context sees the render's own variables, never the importer's (held by `tests/corpus`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Object, ObjectRepr, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use zagent_config::codes::template;

use super::error::TemplateError;
use super::object::{items_of, list};
use super::template_sources::{TemplateName, TemplateSources, missing_template};

/// The internal name of a render.
pub(crate) const RENDER_VARIABLE: &str = "_za_render";

/// The directory of the last loaded template: Salt updates it when a render loads a template for the first time.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentTemplate {
    /// `None` for a template that has no directory, such as a managed file.
    pub(crate) dir: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) dot: Option<String>,
}

/// The import state of one render.
pub(crate) struct RenderState {
    sources: Arc<TemplateSources>,
    env: String,
    syntax: usize,
    marked: bool,
    here: Mutex<(CurrentTemplate, HashMap<String, String>)>,
}

impl fmt::Debug for RenderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<render>")
    }
}

impl Object for RenderState {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl RenderState {
    pub(crate) fn new(sources: &Arc<TemplateSources>, name: &TemplateName, here: CurrentTemplate) -> Self {
        Self {
            sources: Arc::clone(sources),
            env: name.env.clone(),
            syntax: name.syntax,
            marked: name.marked,
            here: Mutex::new((here, HashMap::new())),
        }
    }

    fn from_state(state: &State<'_, '_>) -> Result<Arc<Self>, Error> {
        state
            .lookup(RENDER_VARIABLE)
            .and_then(|v| v.downcast_object::<Self>())
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "templates cannot be imported here"))
    }

    fn template_name(&self, path: &str) -> TemplateName {
        TemplateName {
            syntax: self.syntax,
            marked: self.marked,
            env: self.env.clone(),
            path: path.to_owned(),
        }
    }

    /// The path of a template; moves to its directory when this render loads it for the first time.
    fn resolve_path(&self, asked: &str) -> Option<String> {
        let mut guard = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        let (here, known) = &mut *guard;
        if let Some(path) = known.get(asked) {
            return Some(path.clone());
        }
        let is_relative = matches!(asked.split('/').next(), Some("." | ".."));
        let path = if is_relative {
            join_relative(here.dir.as_deref()?, asked)?
        } else {
            match asked.strip_prefix('/') {
                Some(_) => self.sources.path_in_tree(&self.env, asked)?,
                None if asked.split('/').any(|part| part == "..") => return None,
                None => asked.to_owned(),
            }
        };
        let dir = if is_relative {
            here.dir.clone().unwrap_or_default()
        } else {
            path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned()
        };
        here.file = Some(if is_relative { asked.to_owned() } else { path.clone() });
        here.dot = Some(dir.replace('/', "."));
        here.dir = Some(if dir.is_empty() { ".".to_owned() } else { dir });
        known.insert(asked.to_owned(), path.clone());
        Some(path)
    }

    /// The engine's name of a template that must exist.
    fn require_template(&self, asked: &Value) -> Result<String, Error> {
        let asked = asked_name(asked)?;
        let path = self
            .resolve_path(asked)
            .ok_or_else(|| missing_template(&self.sources, &self.env, asked, asked))?;
        match self.sources.file_text(&self.env, &path) {
            Ok(Some(_)) => Ok(self.template_name(&path).text()),
            Ok(None) => Err(missing_template(&self.sources, &self.env, &path, asked)),
            Err(diagnostic) => Err(super::template_sources::diagnostic_error(diagnostic)),
        }
    }
}

fn asked_name(value: &Value) -> Result<&str, Error> {
    if value.is_undefined() {
        return Err(TemplateError::new(template::UNDEFINED, "the name of the template is undefined")
            .operand(0)
            .into());
    }
    value
        .as_str()
        .ok_or_else(|| TemplateError::new(template::TYPE, "the name of a template must be text").into())
}

/// A relative path from a directory; `None` when it leaves the root.
pub(crate) fn join_relative(dir: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The modules that a render has evaluated without context, and those it is evaluating.
#[derive(Default)]
struct ImportedModules {
    done: HashMap<String, Value>,
    open: Vec<String>,
    kept: Option<Value>,
}

/// Adds the filters that implement tags about other templates.
pub(crate) fn install(env: &mut Environment<'_>) {
    env.add_filter("_za_path", path_filter);
    env.add_filter("_za_paths", paths_filter);
    env.add_filter("_za_import", import);
    env.add_filter("_za_include", include);
    env.add_filter("_za_module", |state: &mut State<'_, '_>, module: Value, name: String| {
        let render = RenderState::from_state(state)?;
        Ok::<_, Error>(imported_name(&render, &module, &name))
    });
    env.add_filter("_za_keep", |state: &mut State<'_, '_>, module: Value| {
        state.get_or_insert_extension_with(ImportedModules::default).kept = Some(module);
        false
    });
    env.add_filter("_za_body", |module: Value| match module.downcast_object_ref::<ImportedModule>() {
        Some(module) => module.body.clone(),
        None => module,
    });
    env.add_filter("_za_here", |state: &mut State<'_, '_>, what: &str| {
        let render = RenderState::from_state(state)?;
        let here = render.here.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
        let value = match what {
            "tpldir" => here.dir,
            "tplfile" => here.file,
            _ => here.dot,
        };
        Ok::<_, Error>(value.map_or(Value::UNDEFINED, Value::from))
    });
}

fn path_filter(state: &mut State<'_, '_>, asked: Value) -> Result<Value, Error> {
    RenderState::from_state(state)?.require_template(&asked).map(Value::from)
}

/// The engine's name for an `include`: the first that exists, or none when missing is allowed.
fn paths_filter(state: &mut State<'_, '_>, asked: Value, must: bool) -> Result<Value, Error> {
    let render = RenderState::from_state(state)?;
    let is_many = matches!(asked.kind(), ValueKind::Seq | ValueKind::Iterable);
    let choices = if is_many { items_of(&asked)? } else { vec![asked] };
    let mut first_miss = None;
    for choice in &choices {
        match render.require_template(choice) {
            Ok(name) => return Ok(list(vec![Value::from(name)])),
            Err(e) if is_not_found(&e) => first_miss = first_miss.or(Some(e)),
            Err(e) => return Err(e),
        }
    }
    match first_miss {
        Some(e) if must => Err(e),
        _ => Ok(list(Vec::new())),
    }
}

fn is_not_found(e: &Error) -> bool {
    std::error::Error::source(e)
        .and_then(|s| s.downcast_ref::<TemplateError>())
        .is_some_and(|template_error| template_error.code == template::NOT_FOUND)
}

/// Passes on an error of another template, and keeps the position of the import.
fn import_error(e: Error) -> Error {
    Error::new(ErrorKind::BadInclude, "error in an imported template").with_source(e)
}

fn import(state: &mut State<'_, '_>, asked: Value, importer: Value) -> Result<Value, Error> {
    let render = RenderState::from_state(state)?;
    let name = render.require_template(&asked)?;
    let modules = state.get_or_insert_extension_with(ImportedModules::default);
    if let Some(done) = modules.done.get(&name) {
        return Ok(done.clone());
    }
    if modules.open.contains(&name) {
        let asked = asked_name(&asked)?;
        return Err(TemplateError::new(
            template::CYCLE,
            format!("the template `{asked}` imports itself, directly or through others"),
        )
        .into());
    }
    modules.open.push(name.clone());
    importer.call(state, &[Value::from(name.as_str())]).map_err(import_error)?;
    let modules = state.get_or_insert_extension_with(ImportedModules::default);
    modules.open.retain(|open| *open != name);
    let module = modules.kept.take().unwrap_or_default();
    let module = imported_name(&render, &module, &name);
    let modules = state.get_or_insert_extension_with(ImportedModules::default);
    modules.done.insert(name, module.clone());
    Ok(module)
}

fn include(state: &mut State<'_, '_>, asked: Value, includer: Value, must: bool) -> Result<Value, Error> {
    let names = paths_filter(state, asked, must)?;
    includer.call(state, &[names]).map_err(import_error)
}

/// The result of an import: the names that the template assigned itself, and its output.
struct ImportedModule {
    file: String,
    names: BTreeMap<String, Value>,
    body: Value,
}

fn imported_name(render: &RenderState, module: &Value, name: &str) -> Value {
    let loaded = render.sources.loaded(name);
    let is_hidden = |key: &str| loaded.as_ref().is_some_and(|l| l.translation.hidden.contains(key));
    let names = module
        .try_iter()
        .into_iter()
        .flatten()
        .filter_map(|key| Some((key.as_str()?.to_owned(), module.get_item(&key).ok()?)))
        .filter(|(key, _)| !is_hidden(key))
        .collect();
    let file = loaded.as_ref().map(|l| l.file.clone()).unwrap_or_default();
    Value::from_object(ImportedModule { file, names, body: Value::from(module.to_string()) })
}

impl fmt::Debug for ImportedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<TemplateModule '{}'>", self.file)
    }
}

impl Object for ImportedModule {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.names.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.names.get(key).cloned()
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match self.names.get(method) {
            Some(found) => found.clone().call(state, args),
            None => {
                let near = zagent_config::suggest::nearest(method, self.names.keys().map(String::as_str));
                Err(TemplateError::new(
                    template::IMPORT_NAME,
                    format!("`{}` does not define `{method}`", self.file),
                )
                .hint(near.map(|n| format!("did you mean `{n}`?")))
                .into())
            }
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.body.as_str().unwrap_or_default())
    }
}

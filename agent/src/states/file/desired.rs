//! What a managed file should hold: given in the plan, from the pillar or the grains, or from a source; rendered when it is a
//! template.

use std::cell::Cell;
use std::sync::Arc;

use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{Map, Value};

use super::source::{Bytes, Place, Source, Sources, place};
use super::text;
use crate::host::functions;
use crate::states::{Args, Failure, Scene, Template};

/// What a file should hold, as the state says it.
#[derive(Debug)]
pub(super) struct Desired {
    origin: Origin,
    template: Option<Arc<str>>,
    variables: Variables,
    encoding: Option<(String, String)>,
    newline: bool,
    allow_empty: bool,
    delimiter: Option<String>,
    /// Its template looked at the host when it was last rendered.
    asked: Cell<bool>,
}

/// Where it comes from.
#[derive(Debug)]
enum Origin {
    /// The state does not say what it holds.
    Nothing,
    /// Written in the plan.
    Contents(Value),
    /// By keys of the pillar.
    Pillar(Value),
    /// By keys of the grains.
    Grains(Value),
    /// From elsewhere.
    Source(Sources),
    /// Made by the state itself, to the byte.
    Text(Arc<str>),
}

/// What a template sees beside the host's own variables.
#[derive(Debug, Default)]
struct Variables {
    given: Map,
    defaults: Map,
    context: Map,
}

/// Bytes, and the mode of where they come from.
#[derive(Debug)]
pub(super) struct Made {
    /// What the file should hold.
    pub(super) bytes: Bytes,
    /// The permission bits of the source, where it has some.
    pub(super) mode: Option<u32>,
}

impl Desired {
    /// Reads what a state says.
    ///
    /// # Errors
    /// Fails in Salt's words when it says too much, or what cannot be understood.
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let given: Vec<(&str, &Value)> = ["contents", "contents_pillar", "contents_grains"]
            .into_iter()
            .filter_map(|key| args.get(key).map(|value| (key, value)))
            .collect();
        let sources = Sources::read(args)?;
        let origin = match (given.as_slice(), sources) {
            ([_, ..], Some(_)) => {
                return Err(Failure::new(
                    "'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'",
                ));
            }
            ([_, _, ..], None) => {
                return Err(Failure::new(
                    "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted",
                ));
            }
            ([], Some(sources)) => Origin::Source(sources),
            ([], None) => Origin::Nothing,
            ([("contents", value)], None) => Origin::Contents((*value).clone()),
            ([("contents_pillar", value)], None) => Origin::Pillar((*value).clone()),
            ([(_, value)], None) => Origin::Grains((*value).clone()),
        };
        let template = args.get("template").filter(|v| v.is_truthy()).and_then(Value::as_str).map(Into::into);
        let variables = Variables::read(args, template.is_some())?;
        let encoding = args.text("encoding")?.filter(|e| !e.is_empty());
        let errors = || args.text("encoding_errors").map(|e| e.unwrap_or_else(|| "strict".into()));
        Ok(Self {
            origin,
            template,
            variables,
            encoding: encoding.map(|e| errors().map(|errors| (e, errors))).transpose()?,
            newline: args.flag("contents_newline", true),
            allow_empty: args.flag("allow_empty", true),
            delimiter: args.text("contents_delimiter")?,
            asked: Cell::default(),
        })
    }

    /// One file of the tree, with what the state that recurses says about templates.
    ///
    /// # Errors
    /// Fails when that cannot be understood.
    pub(super) fn tree(args: &Args<'_>, source: &str) -> Result<Self, Failure> {
        let template: Option<Arc<str>> =
            args.get("template").filter(|v| v.is_truthy()).and_then(Value::as_str).map(Into::into);
        Ok(Self {
            origin: Origin::Source(Sources::tree(source.into())),
            variables: Variables::read(args, template.is_some())?,
            template,
            encoding: None,
            newline: true,
            allow_empty: true,
            delimiter: None,
            asked: Cell::default(),
        })
    }

    /// A text that is written as it is, with what the state says about its encoding.
    ///
    /// # Errors
    /// Fails when that cannot be understood.
    pub(super) fn text(args: &Args<'_>, text: Arc<str>) -> Result<Self, Failure> {
        let (template, variables) = (None, Variables::default());
        Ok(Self { origin: Origin::Text(text), template, variables, ..Self::read(args)? })
    }

    /// True when the state says what the file holds.
    pub(super) const fn is_said(&self) -> bool {
        !matches!(self.origin, Origin::Nothing)
    }

    /// The sources, when it comes from one.
    pub(super) const fn sources(&self) -> Option<&Sources> {
        match &self.origin {
            Origin::Source(sources) => Some(sources),
            _ => None,
        }
    }

    /// True when it is rendered.
    pub(super) const fn is_template(&self) -> bool {
        self.template.is_some()
    }

    /// What the file should hold; nothing when the state does not say.
    ///
    /// # Errors
    /// Fails in Salt's words when it cannot be had.
    pub(super) fn make(&self, scene: &Scene<'_>, env: &str, file: &str) -> Result<Option<Made>, Failure> {
        let (given, what) = match &self.origin {
            Origin::Nothing => return Ok(None),
            Origin::Source(sources) => return self.sourced(scene, env, file, sources).map(Some),
            Origin::Text(text) => {
                let bytes = self.encoded(Bytes::Text(Arc::clone(text))).map_err(unable)?;
                return Ok(Some(Made { bytes, mode: None }));
            }
            Origin::Contents(value) => (value.clone(), "'contents'".to_owned()),
            Origin::Pillar(keys) => {
                let get = |key: &str| traverse(scene.pillar, key, self.delimiter()).cloned();
                (looked_up(keys, "Pillar", &get)?, format!("contents_pillar {}", shown(keys)))
            }
            Origin::Grains(keys) => {
                let get = |key: &str| grain(scene, key, self.delimiter());
                (looked_up(keys, "Grain", &get)?, format!("contents_grains {}", shown(keys)))
            }
        };
        if !self.allow_empty && !given.is_truthy() {
            return Err(Failure::new(format!(
                "{what} value would result in empty contents. Set allow_empty to True to allow the managed file to be \
                 empty."
            )));
        }
        let bytes = text::joined(&given, self.newline);
        let bytes = match &self.template {
            Some(kind) => {
                self.rendered(scene, At { env, path: "contents", source: None }, file, kind, &bytes)?
            }
            None => bytes,
        };
        let bytes = self.encoded(bytes).map_err(unable)?;
        Ok(Some(Made { bytes, mode: None }))
    }

    /// True when its template looked at the host: what it holds depends on more than the plan.
    pub(super) const fn asked(&self) -> bool {
        self.asked.get()
    }

    fn delimiter(&self) -> &str {
        self.delimiter.as_deref().unwrap_or(DEFAULT_DELIMITER)
    }

    fn sourced(&self, scene: &Scene<'_>, env: &str, file: &str, sources: &Sources) -> Result<Made, Failure> {
        let found = sources.find(scene, env, file).map_err(unable)?;
        let bytes = match &self.template {
            Some(kind) => {
                let (env, path) = template_path(env, &found.source);
                let at = At { env, path, source: Some(&found.source.text) };
                self.rendered(scene, at, file, kind, &found.bytes)
                    .map_err(|failure| unable(failure.done.comment))?
            }
            None => found.bytes,
        };
        Ok(Made { bytes, mode: found.mode })
    }

    fn encoded(&self, bytes: Bytes) -> Result<Bytes, String> {
        let Some((encoding, errors)) = &self.encoding else { return Ok(bytes) };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Bytes::Owned(text::encode(text, encoding, errors)?)),
            Err(_) => Ok(bytes),
        }
    }

    fn rendered(
        &self,
        scene: &Scene<'_>,
        at: At<'_>,
        file: &str,
        kind: &str,
        bytes: &[u8],
    ) -> Result<Bytes, Failure> {
        if kind != "jinja" {
            return Err(Failure::new(format!("Specified template format {kind} is not supported")));
        }
        let At { env, path, source: chosen } = at;
        let source = std::str::from_utf8(bytes)
            .map_err(|_| Failure::new(format!("the template `{path}` is not UTF-8")))?
            .to_owned();
        let mut variables = self.variables.merged();
        // Of several sources a template sees the one that it is.
        if let (Some(Value::List(_)), Some(chosen)) = (variables.get("source"), chosen) {
            variables.insert("source", chosen);
        }
        if let Some(texts) = accumulated(scene, file) {
            variables.insert("accumulator", texts);
        }
        let template = Template { env: env.into(), path: path.into(), source, variables };
        let before = functions::asked();
        let text = scene.templates.render(&template).map_err(Failure::new)?;
        self.asked.set(functions::asked() != before);
        Ok(Bytes::Owned(text.into_bytes()))
    }
}

fn unable(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("Unable to manage file: {error}"))
}

/// Where a template comes from.
#[derive(Clone, Copy)]
struct At<'a> {
    env: &'a str,
    path: &'a str,
    /// The source that was chosen, when it comes from one.
    source: Option<&'a str>,
}

/// The environment and path by which a template finds its neighbours.
fn template_path<'s>(env: &'s str, source: &'s Source) -> (&'s str, &'s str) {
    match place(&source.text) {
        Place::Tree(own, path) => (own.unwrap_or(env), path),
        Place::Local(path) => (env, path),
        Place::Web(url) | Place::Foreign(url) => (env, url),
    }
}

/// What `file.accumulated` gathered for this file, by accumulator.
fn accumulated(scene: &Scene<'_>, file: &str) -> Option<Map> {
    let all = super::edit::accumulated::of_file(scene, std::path::Path::new(file));
    let list = |texts: &[String]| texts.iter().map(|t| Value::from(t.as_str())).collect::<Value>();
    (!all.is_empty()).then(|| all.iter().map(|(name, texts)| (name.as_str(), list(texts))).collect())
}

fn shown(keys: &Value) -> String {
    zagent_compiler::yaml::python_str(keys)
}

/// The value of a key, or the texts of several, one after the other.
fn looked_up(keys: &Value, what: &str, get: &dyn Fn(&str) -> Option<Value>) -> Result<Value, Failure> {
    let one = |key: &Value| {
        let key = zagent_compiler::name_text(key);
        get(&key).ok_or_else(|| Failure::new(format!("{what} {key} does not exist")))
    };
    let Value::List(keys) = keys else { return one(keys) };
    let mut texts = Vec::with_capacity(keys.len());
    for key in keys.iter() {
        match one(key)? {
            Value::Str(text) => texts.push(text),
            other => {
                let key = zagent_compiler::name_text(key);
                return Err(Failure::new(format!(
                    "`{key}` must be text to be joined with others, not {}",
                    other.kind()
                )));
            }
        }
    }
    Ok(texts.join("\n").into())
}

fn grain(scene: &Scene<'_>, key: &str, delimiter: &str) -> Option<Value> {
    let (first, rest) = key.split_once(delimiter).unwrap_or((key, ""));
    match scene.host.grain(first) {
        Some(value) if rest.is_empty() => Some(value),
        Some(value) => traverse(&value, rest, delimiter).cloned(),
        None => scene.host.grain(key),
    }
}

impl Variables {
    /// Reads `context` and `defaults`, and what Salt shows to templates beside them.
    fn read(args: &Args<'_>, is_template: bool) -> Result<Self, Failure> {
        let mapping = |key: &str, words: &str| match args.get(key) {
            None => Ok(Map::new()),
            Some(Value::Map(map)) => Ok((**map).clone()),
            Some(other) if !other.is_truthy() => Ok(Map::new()),
            Some(_) => Err(Failure::new(words)),
        };
        let context = mapping("context", "Context must be formed as a dict")?;
        let defaults = mapping("defaults", "Defaults must be formed as a dict")?;
        let mut given = Map::new();
        if is_template {
            for key in ["name", "source", "user", "group", "mode", "attrs"] {
                given.insert(key, args.get(key).cloned().unwrap_or_default());
            }
        }
        Ok(Self { given, defaults, context })
    }

    fn merged(&self) -> Map {
        let mut all = self.given.clone();
        for (key, value) in self.defaults.iter().chain(self.context.iter()) {
            all.insert(key.clone(), value.clone());
        }
        all
    }
}

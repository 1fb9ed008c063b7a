//! What a managed file should hold: given in the plan, from the pillar or the grains, or from a source; rendered when it is a
//! template.

use std::cell::Cell;
use std::sync::Arc;

use zagent_compiler::Chunk;
use zagent_config::value::{DEFAULT_DELIMITER, raw_bytes, traverse};
use zagent_config::{Map, Value};

use super::sources::{ContentBytes, ContentLocation, FileSource, FileSources, parse_location};
use super::{contents, sources};
use crate::exec_function;
use crate::template::is_binary;
use crate::template_args::extra_variables;
use crate::{ChunkArgs, FileTemplate, StateCtx, StateError};

/// What a file should hold, as the state says it.
#[derive(Debug)]
pub(crate) struct DesiredContent {
    origin: ContentOrigin,
    template: Option<Arc<str>>,
    variables: TemplateVariables,
    encoding: Option<(String, String)>,
    newline: bool,
    allow_empty: bool,
    delimiter: Option<String>,
    /// Its template looked at the host when it was last rendered.
    reads_host: Cell<bool>,
}

/// Where it comes from.
#[derive(Debug)]
enum ContentOrigin {
    /// The state does not say what it holds.
    Nothing,
    /// Written in the plan.
    Contents(Value),
    /// By keys of the pillar.
    Pillar(Value),
    /// By keys of the grains.
    Grains(Value),
    /// From elsewhere.
    Source(FileSources),
    /// An empty list of sources, and whether contents are given beside it.
    NoSource(bool),
    /// Made by the state itself, to the byte.
    Text(ContentBytes),
}

/// What a template sees beside the host's own variables.
#[derive(Debug, Default)]
struct TemplateVariables {
    given: Map,
    /// Arguments that no state knows: the template of a source sees them.
    extra: Map,
    defaults: Map,
    context: Map,
}

/// What the template of a `file.managed` state sees; nothing when its arguments cannot be used.
#[must_use]
pub fn template_variables(chunk: &Chunk) -> Option<Map> {
    TemplateVariables::read(&ChunkArgs::new(chunk), true).ok().map(|variables| variables.merged(true))
}

/// Bytes, and the mode of where they come from.
#[derive(Debug)]
pub(crate) struct RenderedContent {
    /// What the file should hold.
    pub bytes: ContentBytes,
    /// The permission bits of the source, where it has some.
    pub mode: Option<u32>,
}

impl DesiredContent {
    /// Reads what a state says.
    ///
    /// # Errors
    /// Fails in Salt's words when it says too much, or what cannot be understood.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let given: Vec<(&str, &Value)> = ["contents", "contents_pillar", "contents_grains"]
            .into_iter()
            .filter_map(|key| args.get(key).map(|value| (key, value)))
            .collect();
        let sources = FileSources::read(args)?;
        let allow_empty = args.flag("allow_empty", true);
        if allow_empty && args.get("contents").is_some_and(is_empty_list) {
            return Err(malformed_contents());
        }
        let is_sourceless = args.get("source").is_some_and(is_empty_list);
        let origin = match (given.as_slice(), sources) {
            ([_, ..], Some(_)) => {
                return Err(StateError::new(
                    "'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'",
                ));
            }
            ([_, _, ..], None) => {
                return Err(StateError::new(
                    "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted",
                ));
            }
            (given, None) if is_sourceless => ContentOrigin::NoSource(!given.is_empty()),
            ([], Some(sources)) => ContentOrigin::Source(sources),
            ([], None) => ContentOrigin::Nothing,
            ([("contents", value)], None) => ContentOrigin::Contents((*value).clone()),
            ([("contents_pillar", value)], None) => ContentOrigin::Pillar((*value).clone()),
            ([(_, value)], None) => ContentOrigin::Grains((*value).clone()),
        };
        let template = args.get("template").filter(|v| v.is_truthy()).and_then(Value::as_str).map(Into::into);
        let variables = TemplateVariables::read(args, template.is_some())?;
        let encoding = args.text("encoding")?.filter(|e| !e.is_empty());
        let errors = || args.text("encoding_errors").map(|e| e.unwrap_or_else(|| "strict".into()));
        Ok(Self {
            origin,
            template,
            variables,
            encoding: encoding.map(|e| errors().map(|errors| (e, errors))).transpose()?,
            newline: args.flag("contents_newline", true),
            allow_empty,
            delimiter: args.text("contents_delimiter")?,
            reads_host: Cell::default(),
        })
    }

    /// One file of the tree, with what the state that recurses says about templates.
    ///
    /// # Errors
    /// Fails when that cannot be understood.
    pub(crate) fn from_tree(args: &ChunkArgs<'_>, source: &str) -> Result<Self, StateError> {
        let template: Option<Arc<str>> =
            args.get("template").filter(|v| v.is_truthy()).and_then(Value::as_str).map(Into::into);
        Ok(Self {
            origin: ContentOrigin::Source(FileSources::from_tree(source.into())),
            variables: TemplateVariables::read(args, template.is_some())?,
            template,
            encoding: None,
            newline: true,
            allow_empty: true,
            delimiter: None,
            reads_host: Cell::default(),
        })
    }

    /// A text that is written as it is, with what the state says about its encoding.
    ///
    /// # Errors
    /// Fails when that cannot be understood.
    pub(crate) fn from_text(args: &ChunkArgs<'_>, text: Arc<str>) -> Result<Self, StateError> {
        Self::exact(args, ContentBytes::Text(text))
    }

    /// Bytes that are written as they are.
    ///
    /// # Errors
    /// Fails when what the state says about the encoding cannot be understood.
    pub(crate) fn from_bytes(args: &ChunkArgs<'_>, bytes: Arc<[u8]>) -> Result<Self, StateError> {
        Self::exact(args, ContentBytes::Shared(bytes))
    }

    fn exact(args: &ChunkArgs<'_>, bytes: ContentBytes) -> Result<Self, StateError> {
        let (template, variables) = (None, TemplateVariables::default());
        Ok(Self { origin: ContentOrigin::Text(bytes), template, variables, ..Self::read(args)? })
    }

    /// True when the state says what the file holds.
    pub(crate) const fn is_specified(&self) -> bool {
        !matches!(self.origin, ContentOrigin::Nothing | ContentOrigin::NoSource(false))
    }

    /// The sources, when it comes from one.
    pub(crate) const fn sources(&self) -> Option<&FileSources> {
        match &self.origin {
            ContentOrigin::Source(sources) => Some(sources),
            _ => None,
        }
    }

    /// True when it is rendered.
    pub(crate) const fn is_template(&self) -> bool {
        self.template.is_some()
    }

    /// What the file should hold; nothing when the state does not say.
    ///
    /// # Errors
    /// Fails in Salt's words when it cannot be had.
    pub(crate) fn render_content(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
    ) -> Result<Option<RenderedContent>, StateError> {
        let (given, what) = match &self.origin {
            ContentOrigin::Nothing => return Ok(None),
            ContentOrigin::NoSource(_) => return Err(unmanageable_error(sources::none_found_error())),
            ContentOrigin::Source(sources) => {
                return self.content_from_source(ctx, env, file, sources).map(Some);
            }
            ContentOrigin::Text(bytes) => {
                let bytes = self.encode_bytes(bytes.clone()).map_err(unmanageable_error)?;
                return Ok(Some(RenderedContent { bytes, mode: None }));
            }
            ContentOrigin::Contents(value) => (value.clone(), "'contents'".to_owned()),
            ContentOrigin::Pillar(keys) => {
                let get = |key: &str| traverse(ctx.pillar, key, self.delimiter()).cloned();
                (lookup_keys(keys, "Pillar", &get)?, format!("contents_pillar {}", keys_text(keys)))
            }
            ContentOrigin::Grains(keys) => {
                let get = |key: &str| grain_value(ctx, key, self.delimiter());
                (lookup_keys(keys, "Grain", &get)?, format!("contents_grains {}", keys_text(keys)))
            }
        };
        if !self.allow_empty && !given.is_truthy() {
            return Err(StateError::new(format!(
                "{what} value would result in empty contents. Set allow_empty to True to allow the managed file to be \
                 empty."
            )));
        }
        if is_empty_list(&given) {
            return Err(malformed_contents());
        }
        let bytes = contents::join_contents(&given, self.newline);
        let bytes = match &self.template {
            Some(_) if given.as_str().and_then(raw_bytes).is_some() => {
                return Err(StateError::new(BINARY_TEMPLATE));
            }
            Some(kind) => self.render_template(
                ctx,
                TemplateOrigin { env, path: "contents", source: None },
                file,
                kind,
                &bytes,
            )?,
            None => bytes,
        };
        let bytes = self.encode_bytes(bytes).map_err(unmanageable_error)?;
        Ok(Some(RenderedContent { bytes, mode: None }))
    }

    /// True when its template looked at the host: what it holds depends on more than the plan.
    pub(crate) const fn reads_host(&self) -> bool {
        self.reads_host.get()
    }

    fn delimiter(&self) -> &str {
        self.delimiter.as_deref().unwrap_or(DEFAULT_DELIMITER)
    }

    fn content_from_source(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
        sources: &FileSources,
    ) -> Result<RenderedContent, StateError> {
        let found = sources.find_source(ctx, env, file).map_err(unmanageable_error)?;
        let bytes = match &self.template {
            Some(_) if parse_location(&found.source.text) == ContentLocation::Local(file) => {
                return Err(unmanageable_error("Source file cannot be the same as destination"));
            }
            Some(kind) => {
                // A template runs functions on this host: nobody's is rendered who did not sign it.
                sources.verify_signature(ctx, env, &found.bytes)?;
                let (env, path) = template_path(env, &found.source);
                let at = TemplateOrigin { env, path, source: Some(&found.source.text) };
                self.render_template(ctx, at, file, kind, &found.bytes)
                    .map_err(|failure| unmanageable_error(failure.result.comment))?
            }
            None => match sources.local_mismatch(ctx, env, file, &found).map_err(unmanageable_error)? {
                Some(mismatch) => return Err(StateError::new(mismatch)),
                None => found.bytes,
            },
        };
        Ok(RenderedContent { bytes, mode: found.mode })
    }

    fn encode_bytes(&self, bytes: ContentBytes) -> Result<ContentBytes, String> {
        let Some((encoding, errors)) = &self.encoding else { return Ok(bytes) };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(ContentBytes::Owned(contents::encode(text, encoding, errors)?)),
            Err(_) => Ok(bytes),
        }
    }

    fn render_template(
        &self,
        ctx: &StateCtx<'_>,
        at: TemplateOrigin<'_>,
        file: &str,
        kind: &str,
        bytes: &[u8],
    ) -> Result<ContentBytes, StateError> {
        if kind != "jinja" {
            return Err(StateError::new(format!("Specified template format {kind} is not supported")));
        }
        let TemplateOrigin { env, path, source: chosen } = at;
        let source = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) if is_binary(bytes) => return Ok(ContentBytes::Owned(bytes.to_vec())),
            Err(_) => return Err(StateError::new(format!("the template `{path}` is not UTF-8"))),
        };
        let mut variables = self.variables.merged(chosen.is_some());
        // Of several sources a template sees the one that it is.
        if let (Some(Value::List(_)), Some(chosen)) = (variables.get("source"), chosen) {
            variables.insert("source", chosen);
        }
        if let Some(texts) = accumulated_texts(ctx, file) {
            variables.insert("accumulator", texts);
        }
        let template = FileTemplate { env: env.into(), path: path.into(), source, variables };
        let before = exec_function::call_count();
        let text = ctx.templates.render(&template).map_err(StateError::new)?;
        self.reads_host.set(exec_function::call_count() != before);
        Ok(ContentBytes::Owned(text.into_bytes()))
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_list().is_some_and(|list| list.is_empty())
}

fn malformed_contents() -> StateError {
    StateError::new(
        "Contents specified by contents/contents_pillar/contents_grains is not a string or list of strings, and is \
         not binary data. SLS is likely malformed.",
    )
}
/// What Salt says of bytes that should be a template.
const BINARY_TEMPLATE: &str = "Contents specified by contents/contents_pillar/contents_grains appears to be binary data, \
                               and as will not be able to be treated as a Jinja template.";

fn unmanageable_error(error: impl std::fmt::Display) -> StateError {
    StateError::new(format!("Unable to manage file: {error}"))
}

/// Where a template comes from.
#[derive(Clone, Copy)]
struct TemplateOrigin<'a> {
    env: &'a str,
    path: &'a str,
    /// The source that was chosen, when it comes from one.
    source: Option<&'a str>,
}

/// The environment and path by which a template finds its neighbours.
fn template_path<'s>(env: &'s str, source: &'s FileSource) -> (&'s str, &'s str) {
    match parse_location(&source.text) {
        ContentLocation::Tree(own, path) => (own.unwrap_or(env), path),
        ContentLocation::Local(path) => (env, path),
        ContentLocation::Web(url) | ContentLocation::Foreign(url) => (env, url),
    }
}

/// What `file.accumulated` gathered for this file, by accumulator.
fn accumulated_texts(ctx: &StateCtx<'_>, file: &str) -> Option<Map> {
    let all = super::edit::accumulated::texts_for_file(ctx, std::path::Path::new(file));
    let list = |texts: &[String]| texts.iter().map(|t| Value::from(t.as_str())).collect::<Value>();
    (!all.is_empty()).then(|| all.iter().map(|(name, texts)| (name.as_str(), list(texts))).collect())
}

fn keys_text(keys: &Value) -> String {
    zagent_config::value::python_str(keys)
}

/// The value of a key, or the texts of several, one after the other.
fn lookup_keys(keys: &Value, what: &str, get: &dyn Fn(&str) -> Option<Value>) -> Result<Value, StateError> {
    let one = |key: &Value| {
        let key = zagent_compiler::name_text(key);
        get(&key).ok_or_else(|| StateError::new(format!("{what} {key} does not exist")))
    };
    let Value::List(keys) = keys else { return one(keys) };
    let mut texts = Vec::with_capacity(keys.len());
    for key in keys.iter() {
        match one(key)? {
            Value::Str(text) => texts.push(text),
            other => {
                let key = zagent_compiler::name_text(key);
                return Err(StateError::new(format!(
                    "`{key}` must be text to be joined with others, not {}",
                    other.kind()
                )));
            }
        }
    }
    Ok(texts.join("\n").into())
}

fn grain_value(ctx: &StateCtx<'_>, key: &str, delimiter: &str) -> Option<Value> {
    let (first, rest) = key.split_once(delimiter).unwrap_or((key, ""));
    match ctx.host.grain(first) {
        Some(value) if rest.is_empty() => Some(value),
        Some(value) => traverse(&value, rest, delimiter).cloned(),
        None => ctx.host.grain(key),
    }
}

impl TemplateVariables {
    /// Reads `context` and `defaults`, and what Salt shows to templates beside them.
    fn read(args: &ChunkArgs<'_>, is_template: bool) -> Result<Self, StateError> {
        let mapping = |key: &str, words: &str| match args.get(key) {
            None => Ok(Map::new()),
            Some(Value::Map(map)) => Ok((**map).clone()),
            Some(other) if !other.is_truthy() => Ok(Map::new()),
            Some(_) => Err(StateError::new(words)),
        };
        let context = mapping("context", "Context must be formed as a dict")?;
        let defaults = mapping("defaults", "Defaults must be formed as a dict")?;
        let mut given = Map::new();
        if is_template {
            for key in ["name", "source", "user", "group", "mode", "attrs"] {
                given.insert(key, args.get(key).cloned().unwrap_or_default());
            }
        }
        let extra = if is_template { extra_variables(args) } else { Map::new() };
        Ok(Self { given, extra, defaults, context })
    }

    fn merged(&self, of_source: bool) -> Map {
        let mut all = self.given.clone();
        let extra = self.extra.iter().filter(|_| of_source);
        for (key, value) in extra.chain(self.defaults.iter()).chain(self.context.iter()) {
            all.insert(key.clone(), value.clone());
        }
        all
    }
}

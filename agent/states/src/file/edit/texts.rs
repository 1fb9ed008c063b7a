//! `source` and `sources` of an edit in, rendered texts out.

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use crate::file::sources::{ContentLocation, FileSources, parse_location};
use crate::{ChunkArgs, FileTemplate, StateCtx, StateError};

/// Texts that an edit uses: given as they are, or by where they come from.
#[derive(Debug)]
pub(crate) struct EditTexts {
    /// `text`, as it was given.
    pub given: Option<Value>,
    sources: Vec<FileSources>,
    file: String,
    env: String,
    engine: String,
    variables: Map,
}

impl EditTexts {
    /// Reads `text`, `source`, `sources`, `template`, `defaults` and `context`.
    ///
    /// # Errors
    /// Fails when they contradict each other.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let both = |one: &str, many: &str| {
            let has = |key| args.get(key).is_some_and(Value::is_truthy);
            if has(one) && has(many) {
                return Err(StateError::new(format!("{one} and {many} are mutually exclusive")));
            }
            Ok(())
        };
        both("source", "sources")?;
        both("source_hash", "source_hashes")?;
        let engine = args.text("template")?.unwrap_or_else(|| "jinja".into());
        Ok(Self {
            given: args.get("text").cloned(),
            sources: read_sources(args)?,
            file: args.name(),
            env: args.chunk.env.to_string(),
            engine,
            variables: variables(args)?,
        })
    }

    /// True when there are sources.
    pub(crate) const fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// True when finding them may take the network.
    pub(crate) fn is_remote(&self) -> bool {
        self.sources.iter().any(FileSources::is_remote)
    }

    /// The rendered sources; nothing when there are none.
    ///
    /// # Errors
    /// Fails when one is not there, or does not render.
    pub(crate) fn load_sources(&self, ctx: &StateCtx<'_>) -> Result<Option<Vec<String>>, StateError> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        self.sources.iter().map(|source| self.render_source(ctx, source)).collect::<Result<_, _>>().map(Some)
    }

    fn render_source(&self, ctx: &StateCtx<'_>, sources: &FileSources) -> Result<String, StateError> {
        if self.engine != "jinja" {
            return Err(StateError::new(format!(
                "template engine `{}` is not supported, only jinja",
                self.engine
            )));
        }
        if let Some(source) = sources.first_source()
            && let ContentLocation::Tree(own, path) = parse_location(&source.text)
            && !ctx.files.has(own.unwrap_or(&self.env), path)
        {
            return Err(StateError::new(format!("Failed to load template file {}", source.text)));
        }
        let found = sources.find_source(ctx, &self.env, &self.file).map_err(StateError::new)?;
        let rendered = render(ctx, &self.env, &found.source.text, &found.bytes, &self.variables)?;
        if rendered.is_empty() {
            return Err(StateError::new(format!(
                "Failed to read rendered template file ({})",
                found.source.text
            )));
        }
        Ok(rendered)
    }
}

/// `source` with its `source_hash`, or each of `sources` with its own of `source_hashes`.
fn read_sources(args: &ChunkArgs<'_>) -> Result<Vec<FileSources>, StateError> {
    let Some(many) = args.texts("sources")?.filter(|many| !many.is_empty()) else {
        return Ok(FileSources::read(args)?.into_iter().collect());
    };
    let hashes = args.texts("source_hashes")?.unwrap_or_default();
    let mut out = Vec::with_capacity(many.len());
    for (i, text) in many.into_iter().enumerate() {
        let mut one = Map::new();
        one.insert("source", text);
        if let Some(hash) = hashes.get(i) {
            one.insert("source_hash", hash.as_str());
        }
        out.extend(FileSources::read(&ChunkArgs::new(&Chunk::single("file", "append", "", one)))?);
    }
    Ok(out)
}

/// `defaults` and `context`, merged.
///
/// # Errors
/// Fails when one is no mapping.
pub fn variables(args: &ChunkArgs<'_>) -> Result<Map, StateError> {
    let mut all = args.map("defaults")?.unwrap_or_default();
    for (key, value) in args.map("context")?.unwrap_or_default().iter() {
        all.insert(key.clone(), value.clone());
    }
    Ok(all)
}

/// The text that a source gives as a template.
///
/// # Errors
/// Fails when it is no text, or does not render.
pub fn render(
    ctx: &StateCtx<'_>,
    env: &str,
    source: &str,
    bytes: &[u8],
    variables: &Map,
) -> Result<String, StateError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| StateError::new(format!("template file {source} is not UTF-8 text")))?;
    let (env, path) = match parse_location(source) {
        ContentLocation::Tree(own, path) => (own.unwrap_or(env), path),
        ContentLocation::Local(path) | ContentLocation::Web(path) | ContentLocation::Foreign(path) => {
            (env, path)
        }
    };
    let template = FileTemplate {
        env: env.into(),
        path: path.into(),
        source: text.into(),
        variables: variables.clone(),
    };
    ctx.templates.render(&template).map_err(StateError::new)
}

//! `source` and `sources` of an edit in, rendered texts out.

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use crate::states::file::source::{Place, Sources, place};
use crate::states::{Args, Failure, Scene, Template};

/// Texts that an edit uses: given as they are, or by where they come from.
#[derive(Debug)]
pub(super) struct Texts {
    /// `text`, as it was given.
    pub given: Option<Value>,
    sources: Vec<Sources>,
    file: String,
    env: String,
    engine: String,
    variables: Map,
}

impl Texts {
    /// Reads `text`, `source`, `sources`, `template`, `defaults` and `context`.
    ///
    /// # Errors
    /// Fails when they contradict each other.
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let both = |one: &str, many: &str| {
            let has = |key| args.get(key).is_some_and(Value::is_truthy);
            if has(one) && has(many) {
                return Err(Failure::new(format!("{one} and {many} are mutually exclusive")));
            }
            Ok(())
        };
        both("source", "sources")?;
        both("source_hash", "source_hashes")?;
        let engine = args.text("template")?.unwrap_or_else(|| "jinja".into());
        Ok(Self {
            given: args.get("text").cloned(),
            sources: sources(args)?,
            file: args.name(),
            env: args.chunk.env.to_string(),
            engine,
            variables: variables(args)?,
        })
    }

    /// True when there are sources.
    pub(super) const fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// True when finding them may take the network.
    pub(super) fn is_remote(&self) -> bool {
        self.sources.iter().any(Sources::is_remote)
    }

    /// The rendered sources; nothing when there are none.
    ///
    /// # Errors
    /// Fails when one is not there, or does not render.
    pub(super) fn load(&self, scene: &Scene<'_>) -> Result<Option<Vec<String>>, Failure> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        self.sources.iter().map(|source| self.text(scene, source)).collect::<Result<_, _>>().map(Some)
    }

    fn text(&self, scene: &Scene<'_>, sources: &Sources) -> Result<String, Failure> {
        if self.engine != "jinja" {
            return Err(Failure::new(format!(
                "template engine `{}` is not supported, only jinja",
                self.engine
            )));
        }
        if let Some(source) = sources.first()
            && let Place::Tree(own, path) = place(&source.text)
            && !scene.files.has(own.unwrap_or(&self.env), path)
        {
            return Err(Failure::new(format!("Failed to load template file {}", source.text)));
        }
        let found = sources.find(scene, &self.env, &self.file).map_err(Failure::new)?;
        let rendered = render(scene, &self.env, &found.source.text, &found.bytes, &self.variables)?;
        if rendered.is_empty() {
            return Err(Failure::new(format!(
                "Failed to read rendered template file ({})",
                found.source.text
            )));
        }
        Ok(rendered)
    }
}

/// `source` with its `source_hash`, or each of `sources` with its own of `source_hashes`.
fn sources(args: &Args<'_>) -> Result<Vec<Sources>, Failure> {
    let Some(many) = args.texts("sources")?.filter(|many| !many.is_empty()) else {
        return Ok(Sources::read(args)?.into_iter().collect());
    };
    let hashes = args.texts("source_hashes")?.unwrap_or_default();
    let mut out = Vec::with_capacity(many.len());
    for (i, text) in many.into_iter().enumerate() {
        let mut one = Map::new();
        one.insert("source", text);
        if let Some(hash) = hashes.get(i) {
            one.insert("source_hash", hash.as_str());
        }
        out.extend(Sources::read(&Args::new(&Chunk::single("file", "append", "", one)))?);
    }
    Ok(out)
}

/// `defaults` and `context`, merged.
///
/// # Errors
/// Fails when one is no mapping.
pub(super) fn variables(args: &Args<'_>) -> Result<Map, Failure> {
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
pub(super) fn render(
    scene: &Scene<'_>,
    env: &str,
    source: &str,
    bytes: &[u8],
    variables: &Map,
) -> Result<String, Failure> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("template file {source} is not UTF-8 text")))?;
    let (env, path) = match place(source) {
        Place::Tree(own, path) => (own.unwrap_or(env), path),
        Place::Local(path) | Place::Web(path) | Place::Foreign(path) => (env, path),
    };
    let template =
        Template { env: env.into(), path: path.into(), source: text.into(), variables: variables.clone() };
    scene.templates.render(&template).map_err(Failure::new)
}

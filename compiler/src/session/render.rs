//! render: the text of a file in, data out, through the renderer pipe named in its first line.
//!
//! `#!jinja|yaml` is the default; `jinja`, `yaml`, `json`, `text`, `gpg` and `age` go in any order that makes sense:
//! templates and parsers take text, `gpg` and `age` take text or data and decrypt the armoured parts.

use std::sync::Arc;

use zagent_config::codes::yaml as codes;
use zagent_config::{Diagnostic, List, Map, Pos, Value};

use crate::input::Cipher;
use crate::session::CompileSession;
use crate::session::stateconf::StateconfOptions;
use crate::source_files::{FileId, RenderedPos};
use crate::yaml;

/// One stage of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RendererKind {
    Jinja,
    Yaml,
    Json,
    Text,
    Decrypt(Cipher),
    Stateconf(StateconfOptions),
}

/// The renderers by name.
const RENDERERS: [(&str, RendererKind); 6] = [
    ("jinja", RendererKind::Jinja),
    ("yaml", RendererKind::Yaml),
    ("json", RendererKind::Json),
    ("text", RendererKind::Text),
    ("gpg", RendererKind::Decrypt(Cipher::Gpg)),
    ("age", RendererKind::Decrypt(Cipher::Age)),
];

/// Old names for whole pipes.
const RENDERER_ALIASES: [(&str, &str); 2] = [("yaml_jinja", "jinja|yaml"), ("json_jinja", "jinja|json")];

/// Salt renderers that need Python.
const PYTHON_RENDERERS: [&str; 8] =
    ["py", "pyobjects", "pydsl", "mako", "wempy", "cheetah", "genshi", "yamlex"];

/// A pipe of renderers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderPipe(Vec<RendererKind>);

/// Why a pipe is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PipeError {
    Unknown(String),
    NeedsPython(String),
    TooLong(usize),
}

/// Maximum renderers per pipe.
const MAX_STAGES: usize = 16;

impl RenderPipe {
    /// The pipe of a file: its shebang's, or the default.
    pub(crate) fn for_file(session: &CompileSession, source: &str) -> Result<Self, PipeError> {
        let line = source.lines().next().unwrap_or_default();
        match line.strip_prefix("#!") {
            Some(shebang) if !shebang.starts_with('/') => Self::parse(shebang.trim()),
            _ => Self::parse(session.renderer()),
        }
    }

    fn parse(text: &str) -> Result<Self, PipeError> {
        let text = RENDERER_ALIASES.iter().find(|(old, _)| *old == text).map_or(text, |(_, new)| new);
        let count = text.split('|').count();
        if count > MAX_STAGES {
            return Err(PipeError::TooLong(count));
        }
        let stages = text.split('|').map(|part| {
            // Renderer arguments follow the name; only one renderer here takes any.
            let name = part.split_whitespace().next().unwrap_or_default();
            if name == "stateconf" {
                let words = part.trim_start().strip_prefix(name).unwrap_or_default();
                let options = StateconfOptions::parse(words).map(RendererKind::Stateconf);
                return options.map_err(|name| match PYTHON_RENDERERS.contains(&name.as_str()) {
                    true => PipeError::NeedsPython(name),
                    false => PipeError::Unknown(name),
                });
            }
            match RENDERERS.iter().find(|(known, _)| *known == name) {
                Some((_, renderer)) => Ok(*renderer),
                None if PYTHON_RENDERERS.contains(&name) => Err(PipeError::NeedsPython(name.into())),
                None => Err(PipeError::Unknown(name.into())),
            }
        });
        stages.collect::<Result<_, _>>().map(Self)
    }

    /// True when a template stage makes the lines.
    pub(crate) fn has_template(&self) -> bool {
        self.0.iter().any(|stage| matches!(stage, RendererKind::Jinja | RendererKind::Stateconf(_)))
    }
}

/// What flows through a pipe.
enum PipeValue {
    Text(String),
    Data(Value),
}

/// Renders a file to data; an empty file is an empty mapping.
pub(crate) fn render(session: &CompileSession, file: FileId, source: &str) -> Result<Value, Box<Diagnostic>> {
    if source.trim().is_empty() {
        return Ok(Value::empty_map());
    }
    let pipe = match RenderPipe::for_file(session, source) {
        Ok(pipe) => pipe,
        // Salt logs an unknown renderer and treats the file as empty.
        Err(PipeError::Unknown(_)) if session.is_salt() => return Ok(Value::empty_map()),
        Err(no_pipe) => return Err(Box::new(pipe_diagnostic(session, file, source, no_pipe))),
    };
    let mut flow = PipeValue::Text(source.to_string());
    let mut document = None;
    for stage in &pipe.0 {
        if let (RendererKind::Decrypt(cipher), PipeValue::Text(text)) = (stage, &flow)
            && is_one_block(*cipher, text)
        {
            document = Some(session.secret_count());
        }
        flow = run_stage(session, file, *stage, flow)?;
    }
    let data = match flow {
        PipeValue::Data(data) => data,
        // Salt has no pipe that ends in text.
        PipeValue::Text(_) if session.is_salt() => Value::empty_map(),
        PipeValue::Text(text) => Value::from(text),
    };
    if let Some(index) = document {
        session.replace_document(index, &data);
    }
    Ok(data)
}

/// True when all of a file but its first line was encrypted as one.
fn is_one_block(cipher: Cipher, text: &str) -> bool {
    let (begin, end) = armor_markers(cipher);
    let body = if text.starts_with("#!") { text.split_once('\n').map_or("", |(_, rest)| rest) } else { text };
    body.trim().starts_with(begin) && body.trim().ends_with(end) && body.matches(begin).count() == 1
}

/// The text of a file after its template stages.
pub(crate) fn render_text(
    session: &CompileSession,
    file: FileId,
    source: &str,
) -> Result<String, Box<Diagnostic>> {
    let pipe = match RenderPipe::for_file(session, source) {
        Ok(pipe) => pipe,
        Err(no_pipe) => return Err(Box::new(pipe_diagnostic(session, file, source, no_pipe))),
    };
    let mut text = source.to_string();
    for _ in pipe.0.iter().take_while(|stage| **stage == RendererKind::Jinja) {
        text = session.render_template(file, &text)?;
    }
    Ok(text)
}

fn pipe_diagnostic(session: &CompileSession, file: FileId, source: &str, no_pipe: PipeError) -> Diagnostic {
    let pos = if source.starts_with("#!") { Pos::new(1, 3) } else { Pos::NONE };
    let spot = RenderedPos { file, pos };
    match no_pipe {
        PipeError::Unknown(name) => {
            let diagnostic =
                session.diagnostic(codes::UNKNOWN_RENDERER, spot, format!("unknown renderer `{name}`"));
            let names = RENDERERS.iter().map(|(name, _)| *name);
            match zagent_config::suggest::nearest(&name, names.clone()) {
                Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
                None => diagnostic.hint(format!("renderers: {}", names.collect::<Vec<_>>().join(", "))),
            }
        }
        PipeError::TooLong(count) => {
            let text = format!("the pipe has {count} renderers, more than the limit of {MAX_STAGES}");
            session.diagnostic(codes::PIPE_ORDER, spot, text)
        }
        PipeError::NeedsPython(name) => session
            .diagnostic(
                codes::PYTHON_RENDERER,
                spot,
                format!("the renderer `{name}` needs Python, which zagent does not have"),
            )
            .hint("rewrite the file for `#!jinja|yaml`, or as an external module in `_states/`"),
    }
}

fn run_stage(
    session: &CompileSession,
    file: FileId,
    stage: RendererKind,
    flow: PipeValue,
) -> Result<PipeValue, Box<Diagnostic>> {
    let needs_text = |name: &str| {
        let text = format!("`{name}` needs text, but the renderer before it returns data");
        let diagnostic =
            session.diagnostic(codes::PIPE_ORDER, RenderedPos { file, pos: Pos::new(1, 3) }, text);
        Box::new(diagnostic.hint("put templates first: `#!jinja|yaml`"))
    };
    Ok(match (stage, flow) {
        (RendererKind::Jinja, PipeValue::Text(text)) => {
            PipeValue::Text(session.render_template(file, &text)?)
        }
        (RendererKind::Jinja, PipeValue::Data(_)) => return Err(needs_text("jinja")),
        (RendererKind::Yaml, PipeValue::Text(text)) => PipeValue::Data(load_yaml(session, file, &text)?),
        (RendererKind::Json, PipeValue::Text(text)) => PipeValue::Data(load_json(session, file, &text)?),
        (RendererKind::Yaml, PipeValue::Data(_)) => return Err(needs_text("yaml")),
        (RendererKind::Json, PipeValue::Data(_)) => return Err(needs_text("json")),
        (RendererKind::Text, flow) => flow,
        (RendererKind::Stateconf(options), PipeValue::Text(text)) if !options.takes_data => {
            PipeValue::Data(options.render(session, file, &text)?)
        }
        (RendererKind::Stateconf(options), PipeValue::Data(data)) if options.takes_data => {
            PipeValue::Data(options.process(session, file, &data, false)?)
        }
        (RendererKind::Stateconf(_), _) => return Err(needs_text("stateconf")),
        (RendererKind::Decrypt(cipher), PipeValue::Text(text)) => {
            PipeValue::Text(decrypt_text(session, Some(RenderedPos { file, pos: Pos::NONE }), cipher, &text)?)
        }
        (RendererKind::Decrypt(cipher), PipeValue::Data(data)) => {
            PipeValue::Data(decrypt(session, Some(RenderedPos { file, pos: Pos::NONE }), cipher, &data)?)
        }
    })
}

pub(crate) fn load_yaml(
    session: &CompileSession,
    file: FileId,
    text: &str,
) -> Result<Value, Box<Diagnostic>> {
    let loaded = yaml::load(text, &session.options().limits).map_err(|e| {
        let mut diagnostic =
            session.masked(session.diagnostic(e.code, RenderedPos { file, pos: e.pos }, e.message), file);
        for (words, pos) in e.notes {
            diagnostic.notes.push(format!("{words}: {}", session.place(RenderedPos { file, pos })));
        }
        diagnostic.hint = e.hint;
        Box::new(diagnostic)
    })?;
    Ok(if loaded.is_truthy() { loaded } else { Value::empty_map() })
}

pub(crate) fn load_json(
    session: &CompileSession,
    file: FileId,
    text: &str,
) -> Result<Value, Box<Diagnostic>> {
    // The shebang is not JSON; its line stays, so that line numbers are correct.
    let body = if text.starts_with("#!") { text.find('\n').map_or("", |i| &text[i..]) } else { text };
    if body.trim().is_empty() {
        return Ok(Value::empty_map());
    }
    let shift = u32::from(text.len() != body.len() && !body.starts_with('\n'));
    Value::from_json_str(body).map_err(|e| {
        let line = u32::try_from(e.line()).unwrap_or(0) + shift;
        let pos = Pos::new(line, u32::try_from(e.column()).unwrap_or(0));
        let why = e.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        let diagnostic =
            session.diagnostic(codes::JSON_SYNTAX, RenderedPos { file, pos }, format!("invalid JSON: {why}"));
        Box::new(session.masked(diagnostic, file))
    })
}

const fn armor_markers(cipher: Cipher) -> (&'static str, &'static str) {
    match cipher {
        Cipher::Gpg => ("-----BEGIN PGP MESSAGE-----", "-----END PGP MESSAGE-----"),
        Cipher::Age => ("-----BEGIN AGE ENCRYPTED FILE-----", "-----END AGE ENCRYPTED FILE-----"),
    }
}

/// Decrypts every armoured block in a text; `spot` is its position, if it was read from a file.
fn decrypt_text(
    session: &CompileSession,
    spot: Option<RenderedPos>,
    cipher: Cipher,
    text: &str,
) -> Result<String, Box<Diagnostic>> {
    let (begin, end) = armor_markers(cipher);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(begin) {
        let Some(stop) = rest[start..].find(end).map(|i| start + i + end.len()) else { break };
        out.push_str(&rest[..start]);
        let armoured = unindented(&rest[start..stop]);
        let plain = session.host().decrypt(cipher, &armoured).map_err(|why| {
            let message = format!("cannot decrypt a value: {why}");
            let diagnostic = match spot {
                Some(spot) => session.masked(session.diagnostic(codes::DECRYPT, spot, message), spot.file),
                None => Diagnostic::new(codes::DECRYPT, message),
            };
            Box::new(diagnostic.hint("check that the node's key is among the recipients"))
        })?;
        session.add_secret(plain.expose().trim_end_matches('\n').into());
        out.push_str(plain.expose());
        rest = &rest[stop..];
    }
    out.push_str(rest);
    Ok(out)
}

/// An armoured block as it was before it was indented into a document.
fn unindented(block: &str) -> String {
    let lines: Vec<&str> = block.lines().map(str::trim).collect();
    lines.join("\n") + "\n"
}

/// Decrypts every string in data that is armoured.
pub(crate) fn decrypt(
    session: &CompileSession,
    spot: Option<RenderedPos>,
    cipher: Cipher,
    data: &Value,
) -> Result<Value, Box<Diagnostic>> {
    Ok(match data {
        Value::Str(text) if text.contains(armor_markers(cipher).0) => {
            decrypt_text(session, spot, cipher, text)?.into()
        }
        Value::List(list) => {
            let items = list.iter().enumerate().map(|(i, v)| {
                Ok((decrypt(session, spot_inside(spot, list.pos(i)), cipher, v)?, list.pos(i)))
            });
            Value::List(Arc::new(items.collect::<Result<List, Box<Diagnostic>>>()?))
        }
        Value::Map(map) => {
            let mut out = Map::with_capacity(map.len());
            for e in map.entries() {
                out.insert_at(
                    e.key.clone(),
                    decrypt(session, spot_inside(spot, e.at), cipher, &e.value)?,
                    e.at,
                );
            }
            out.into()
        }
        other => other.clone(),
    })
}

/// A more exact position, when known.
fn spot_inside(spot: Option<RenderedPos>, pos: Pos) -> Option<RenderedPos> {
    spot.map(|spot| if pos.is_known() { RenderedPos { pos, ..spot } } else { spot })
}

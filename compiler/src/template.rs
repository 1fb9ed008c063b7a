//! What the pipeline asks of templates: one engine with Salt's variables over one tree.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use minijinja::value::Value as Live;
use zagent_config::codes::limit;
use zagent_config::{Fault, Map, Pos, Value};

use crate::functions::{Functions, RenderRequest, RenderSource, Renderer};
use crate::input::{Files, Inputs};
use crate::jinja::filters::FilterHost;
use crate::jinja::object::to_template;
use crate::jinja::{Engine, LineMap, Template};
use crate::session::{Read, Session};
use crate::sources::{Origin, Reached};
use crate::trace::Traced;

/// Which tree is being rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pillar,
    States,
}

/// The templates of one tree.
pub(crate) struct Templates {
    engine: Engine,
    functions: Functions,
    inputs: Inputs,
    files: Arc<dyn Files>,
    phase: Phase,
    /// How many renderings are under way that a function of a template asked for.
    nested: AtomicUsize,
    me: Weak<Self>,
}

/// How deep templates may render by a function: each takes a good part of the stack.
const NESTED: usize = 6;

/// A source on its way through a template stage.
#[derive(Clone, Copy)]
pub(crate) struct Source<'t> {
    pub(crate) env: &'t str,
    pub(crate) sls: &'t str,
    pub(crate) path: &'t str,
    pub(crate) text: &'t str,
}

impl<'t> Source<'t> {
    fn template(&self) -> Template<'t> {
        Template { env: self.env, path: self.path, source: self.text, sls: Some(self.sls) }
    }
}

impl Templates {
    /// Makes the engine and the functions that its templates call.
    pub(crate) fn new(inputs: &Inputs, phase: Phase, pillar: Map) -> Arc<Self> {
        let files = match phase {
            Phase::Pillar => inputs.pillar.clone(),
            Phase::States => inputs.states.clone(),
        };
        let pillar = Value::from(pillar);
        let functions = Functions::new(inputs.clone(), pillar.clone());
        let shared = functions.variables(to_template(&pillar));
        let host: Arc<dyn FilterHost> = Arc::new(inputs.host.clone());
        let templates = Arc::new_cyclic(|me| Self {
            engine: Engine::new(files.clone(), &inputs.options, &host, shared),
            functions: functions.clone(),
            inputs: inputs.clone(),
            files,
            phase,
            nested: AtomicUsize::new(0),
            me: me.clone(),
        });
        let renderer: Arc<dyn Renderer> = templates.clone();
        functions.set_renderer(Arc::downgrade(&renderer));
        templates
    }

    /// What its templates call.
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// Renders a source with more variables than Salt's.
    pub(crate) fn render(&self, source: &Source<'_>, variables: &Map) -> Result<String, Box<Fault>> {
        let variables = live(variables);
        self.engine.render(&source.template(), &named(&variables))
    }

    /// Renders a file that a state manages, with the state's context.
    pub(crate) fn render_file(
        &self,
        env: &str,
        path: &str,
        source: &str,
        context: &Map,
    ) -> Result<String, Box<Fault>> {
        let template = Template { env, path, source, sls: None };
        let variables = live(context);
        self.engine.render(&template, &named(&variables))
    }

    /// What a source renders to, and where each line of that is from; `None` when it does not render.
    pub(crate) fn trace(&self, source: &Source<'_>, variables: &Map) -> Option<(String, LineMap)> {
        let variables = live(variables);
        let rendered = self.engine.render(&source.template(), &named(&variables)).ok()?;
        let map = self.engine.line_map(&source.template(), &named(&variables), &rendered);
        Some((rendered, map))
    }

    /// What a place in the rendered text of a file was made from; `None` when that cannot be told.
    pub(crate) fn origin(&self, (env, path): (&str, &str), traced: &Traced, pos: Pos) -> Option<Origin> {
        let (rendered, map) = traced.made.as_ref()?;
        let (file, line) = map.origin(pos.line)?;
        let made = rendered.line(pos.line).to_string();
        let text = if self.files.display(env, path) == file {
            traced.source.line(line).to_string()
        } else {
            self.imported_line(env, file, line)
        };
        // The column holds when the line came through as it is.
        let column = if text == made { pos.column } else { first_column(&text) };
        Some(Origin {
            file: file.to_string(),
            pos: Pos::new(line, column),
            rendered: (text != made).then_some(made),
            text,
        })
    }

    /// A line of a file that is imported, found by the name that messages use.
    fn imported_line(&self, env: &str, file: &str, line: u32) -> String {
        let files = self.files.list(env).unwrap_or_default();
        let Some(path) = files.iter().find(|path| self.files.display(env, path) == file) else {
            return String::new();
        };
        match self.files.read(env, path) {
            Ok(Some(bytes)) => line_of(&String::from_utf8_lossy(&bytes), line),
            _ => String::new(),
        }
    }
}

impl Renderer for Templates {
    fn render(&self, request: &RenderRequest) -> Result<Value, Box<Fault>> {
        let me = self.me.upgrade().expect("a template is rendering, so its engine is there");
        let session = Session::with_renderer(self.inputs.clone(), me, &request.renderer);
        let (env, path, text) = match &request.source {
            RenderSource::File { env, path } => (env.as_str(), path.clone(), None),
            RenderSource::Text(text) => ("base", "<string>".to_string(), Some(text.as_str())),
        };
        let read = Read { env: env.into(), sls: "".into(), path, reached: Reached::Asked };
        if self.nested.fetch_add(1, Ordering::Relaxed) >= NESTED {
            self.nested.fetch_sub(1, Ordering::Relaxed);
            let text = format!("templates render each other more than {NESTED} deep");
            return Err(Box::new(
                Fault::new(limit::RECURSION, text).hint("look for a file that renders itself"),
            ));
        }
        let (_, document) = session.read_text(read, request.variables.clone(), text);
        self.nested.fetch_sub(1, Ordering::Relaxed);
        document
    }
}

fn live(variables: &Map) -> Vec<(String, Live)> {
    variables.iter().map(|(k, v)| (k.json_key(), to_template(v))).collect()
}

fn named(variables: &[(String, Live)]) -> Vec<(&str, Live)> {
    variables.iter().map(|(k, v)| (k.as_str(), v.clone())).collect()
}

/// One line of a text, by its number.
fn line_of(text: &str, line: u32) -> String {
    text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default().to_string()
}

fn first_column(text: &str) -> u32 {
    u32::try_from(text.chars().take_while(|c| c.is_whitespace()).count() + 1).unwrap_or(0)
}

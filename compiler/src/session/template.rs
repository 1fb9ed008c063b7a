//! The template stage of the pipeline: one engine with Salt's variables for one tree.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use minijinja::value::Value as Live;
use zagent_config::codes::limit;
use zagent_config::{Diagnostic, Map, Pos, Value};

use crate::functions::{FunctionRenderer, Functions, RenderRequest, RenderSource};
use crate::input::{CompileInputs, FileTree};
use crate::jinja::filters::FilterHost;
use crate::jinja::object::to_template;
use crate::jinja::{JinjaEngine, JinjaTemplate, LineMap};
use crate::session::{CompileSession, ReadRequest};
use crate::source_files::{LineOrigin, ReachedBy};
use crate::trace::FileTrace;

/// Which tree is being rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenderPhase {
    Pillar,
    States,
}

/// The templates of one tree.
pub(crate) struct Templates {
    engine: JinjaEngine,
    functions: Functions,
    inputs: CompileInputs,
    files: Arc<dyn FileTree>,
    phase: RenderPhase,
    /// How many nested renderings a template function has started.
    nested: AtomicUsize,
    weak_self: Weak<Self>,
}

/// Maximum nesting of renderings by a function: each needs much of the stack.
const MAX_NESTED: usize = 6;

/// A source in a template stage.
#[derive(Clone, Copy)]
pub(crate) struct TemplateSource<'t> {
    pub(crate) env: &'t str,
    pub(crate) sls: &'t str,
    pub(crate) path: &'t str,
    pub(crate) text: &'t str,
}

impl<'t> TemplateSource<'t> {
    fn template(&self) -> JinjaTemplate<'t> {
        JinjaTemplate { env: self.env, path: self.path, source: self.text, sls: Some(self.sls) }
    }
}

impl Templates {
    /// Makes the engine and the functions that its templates call.
    pub(crate) fn new(inputs: &CompileInputs, phase: RenderPhase, pillar: Map) -> Arc<Self> {
        let files = match phase {
            RenderPhase::Pillar => inputs.pillar.clone(),
            RenderPhase::States => inputs.states.clone(),
        };
        let pillar = Value::from(pillar);
        let functions = Functions::new(inputs.clone(), pillar.clone());
        let shared = functions.variables(to_template(&pillar));
        let host: Arc<dyn FilterHost> = Arc::new(inputs.host.clone());
        let templates = Arc::new_cyclic(|me| Self {
            engine: JinjaEngine::new(files.clone(), &inputs.options, &host, shared),
            functions: functions.clone(),
            inputs: inputs.clone(),
            files,
            phase,
            nested: AtomicUsize::new(0),
            weak_self: me.clone(),
        });
        let renderer: Arc<dyn FunctionRenderer> = templates.clone();
        functions.set_renderer(Arc::downgrade(&renderer));
        templates
    }

    /// The functions that its templates call.
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    pub(crate) fn phase(&self) -> RenderPhase {
        self.phase
    }

    pub(crate) fn files(&self) -> &Arc<dyn FileTree> {
        &self.files
    }

    /// True when no template has changed a variable or an answer that all templates share.
    pub(crate) fn are_variables_unchanged(&self) -> bool {
        ["pillar", "grains"].iter().all(|name| self.functions.is_unchanged(self.engine.shared(name)))
            && self.functions.are_answers_unchanged()
    }

    /// Renders a source with more variables than Salt's.
    pub(crate) fn render(
        &self,
        source: &TemplateSource<'_>,
        variables: &Map,
    ) -> Result<String, Box<Diagnostic>> {
        let variables = to_template_values(variables);
        self.engine.render(&source.template(), &borrow_names(&variables))
    }

    /// Renders a file that a state manages, with the state's context.
    pub(crate) fn render_file(
        &self,
        env: &str,
        path: &str,
        source: &str,
        context: &Map,
    ) -> Result<String, Box<Diagnostic>> {
        let template = JinjaTemplate { env, path, source, sls: None };
        let variables = to_template_values(context);
        self.engine.render(&template, &borrow_names(&variables))
    }

    /// The rendered text of a source and the origin of each line; `None` when it does not render.
    pub(crate) fn render_traced(
        &self,
        source: &TemplateSource<'_>,
        variables: &Map,
    ) -> Option<(String, LineMap)> {
        let variables = to_template_values(variables);
        let rendered = self.engine.render(&source.template(), &borrow_names(&variables)).ok()?;
        let map = self.engine.line_map(&source.template(), &borrow_names(&variables), &rendered);
        Some((rendered, map))
    }

    /// The origin of a position in the rendered text of a file; `None` when unknown.
    pub(crate) fn origin(
        &self,
        (env, path): (&str, &str),
        traced: &FileTrace,
        pos: Pos,
    ) -> Option<LineOrigin> {
        let (rendered, map) = traced.rendered.as_ref()?;
        let (file, line) = map.origin(pos.line)?;
        let made = rendered.line(pos.line).to_string();
        let text = if self.files.display(env, path) == file {
            traced.source.line(line).to_string()
        } else {
            self.imported_line(env, file, line)
        };
        // The column is valid when the line is unchanged.
        let column = if text == made { pos.column } else { first_column(&text) };
        Some(LineOrigin {
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

impl FunctionRenderer for Templates {
    fn render(&self, request: &RenderRequest) -> Result<Value, Box<Diagnostic>> {
        let me = self.weak_self.upgrade().expect("a template is rendering, so its engine exists");
        let session = CompileSession::with_renderer(self.inputs.clone(), me, &request.renderer);
        let (env, path, text) = match &request.source {
            RenderSource::File { env, path } => (env.as_str(), path.clone(), None),
            RenderSource::Text(text) => ("base", "<string>".to_string(), Some(text.as_str())),
        };
        let read = ReadRequest { env: env.into(), sls: "".into(), path, reached: ReachedBy::Requested };
        if self.nested.fetch_add(1, Ordering::Relaxed) >= MAX_NESTED {
            self.nested.fetch_sub(1, Ordering::Relaxed);
            let text = format!("templates render each other more than {MAX_NESTED} levels deep");
            return Err(Box::new(
                Diagnostic::new(limit::RECURSION, text).hint("look for a file that renders itself"),
            ));
        }
        let (_, document) = session.read_text(read, request.variables.clone(), text);
        self.nested.fetch_sub(1, Ordering::Relaxed);
        document
    }
}

fn to_template_values(variables: &Map) -> Vec<(String, Live)> {
    variables.iter().map(|(k, v)| (k.json_key(), to_template(v))).collect()
}

fn borrow_names(variables: &[(String, Live)]) -> Vec<(&str, Live)> {
    variables.iter().map(|(k, v)| (k.as_str(), v.clone())).collect()
}

/// One line of a text, by its number.
fn line_of(text: &str, line: u32) -> String {
    text.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default().to_string()
}

fn first_column(text: &str) -> u32 {
    u32::try_from(text.chars().take_while(|c| c.is_whitespace()).count() + 1).unwrap_or(0)
}

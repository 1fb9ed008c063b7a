//! A source in, text out: one engine renders all templates of a compile.
//!
//! What does not change between renders is built once. A template is read, translated and parsed once; the shared
//! variables are never copied; text without a tag does not reach the engine at all.

use std::io;
use std::sync::Arc;

use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, Output, State, Template, UndefinedBehavior};
use zagent_config::codes::{limit, template};
use zagent_config::{Diagnostic, Map, Pos, Value as Data};

use super::context::{RootContext, VariableMap, show_full_context, sls_variables};
use super::error::TemplateError;
use super::filters::{self, FilterHost};
use super::import::{self, CurrentTemplate, RENDER_VARIABLE, RenderState};
use super::lines::LineMap;
use super::object::{self, RefusedUndefined, budget};
use super::source::{Syntax, normalize_newlines};
use super::template_sources::{LoadedTemplate, SharedFileTree, TemplateName, TemplateSources};
use super::{call, diagnostic, globals, methods, operator_filters, tests};
use crate::{Compat, CompileOptions, TreeLimits};

/// The maximum nesting that minijinja allows: its stack is not larger.
const DEPTH_LIMIT: usize = 500;
/// The cost of one macro call in minijinja's nesting count.
const CALL_DEPTH_COST: usize = 5;

/// A source to render.
#[derive(Clone, Copy, Debug)]
pub struct JinjaTemplate<'t> {
    /// The environment that it imports from.
    pub env: &'t str,
    /// Its path there.
    pub path: &'t str,
    /// Its text.
    pub source: &'t str,
    /// Its SLS name (empty for a top file); none for a managed file.
    pub sls: Option<&'t str>,
}

/// Renders templates.
pub struct JinjaEngine {
    env: Environment<'static>,
    sources: Arc<TemplateSources>,
    shared: Arc<VariableMap>,
    globals: Arc<[String]>,
    limits: TreeLimits,
    sls_options: Map,
    file_options: Map,
}

/// A prepared render.
struct PreparedRender<'t> {
    name: TemplateName,
    source: std::borrow::Cow<'t, str>,
    skipped_line: Option<u32>,
    syntax: Syntax,
}

impl JinjaEngine {
    /// An engine over the files of a tree; `shared` are the variables of every template (`salt`, `grains`, `pillar`, …).
    #[must_use]
    pub fn new(
        files: SharedFileTree,
        options: &CompileOptions,
        host: &Arc<dyn FilterHost>,
        shared: Vec<(String, Value)>,
    ) -> Self {
        let sources = Arc::new(TemplateSources::new(files, options.limits));
        let mut env = new_environment(options, host);
        let loader = Arc::clone(&sources);
        env.set_loader(move |name| loader.load(name));
        let globals = env.globals().map(|(name, _)| name.to_owned()).collect();
        Self {
            env,
            sources,
            shared: Arc::new(shared.into_iter().collect()),
            globals,
            limits: options.limits,
            sls_options: options.jinja_sls_env.clone(),
            file_options: options.jinja_env.clone(),
        }
    }

    /// A shared variable, as templates have left it.
    pub(crate) fn shared(&self, name: &str) -> Option<&Value> {
        self.shared.get(name)
    }

    /// Sets a shared variable for all later renders.
    pub fn set_shared(&mut self, name: &str, value: Value) {
        Arc::make_mut(&mut self.shared).insert(name.to_owned(), value);
    }

    /// Renders a source with further variables.
    ///
    /// # Errors
    /// Fails with the first error of the template or of one that it imports.
    pub fn render(
        &self,
        template: &JinjaTemplate<'_>,
        vars: &[(&str, Value)],
    ) -> Result<String, Box<Diagnostic>> {
        let prepared = self.prepare(template, false)?;
        self.run(template, &prepared, vars)
    }

    /// Finds the origin (file and line) of each line of this source's rendered text. Renders once more.
    #[must_use]
    pub fn line_map(&self, template: &JinjaTemplate<'_>, vars: &[(&str, Value)], rendered: &str) -> LineMap {
        let file = self.sources.files.display(template.env, template.path);
        let Ok(prepared) = self.prepare(template, true) else { return LineMap::default() };
        if prepared.syntax.is_plain(&prepared.source) {
            return LineMap::identity(&file, rendered);
        }
        let main = Arc::<str>::from(file);
        match self.run(template, &prepared, vars) {
            Ok(marked) => LineMap::from_marked(&marked, rendered, |number, line| {
                let file = self.sources.marked_file(number)?;
                let line = match prepared.skipped_line {
                    Some(skipped) if file == main && line >= skipped => line + 1,
                    _ => line,
                };
                Some((file, line))
            }),
            Err(_) => LineMap::default(),
        }
    }

    fn prepare<'t>(
        &self,
        template: &JinjaTemplate<'t>,
        marked: bool,
    ) -> Result<PreparedRender<'t>, Box<Diagnostic>> {
        let file = || self.sources.files.display(template.env, template.path);
        if template.source.len() > self.limits.source {
            let most = self.limits.source;
            let diagnostic = Diagnostic::new(limit::SOURCE, format!("the file is larger than {most} bytes"));
            return Err(Box::new(diagnostic.at(file(), Pos::NONE)));
        }
        let options =
            if template.sls.is_some_and(|s| !s.is_empty()) { &self.sls_options } else { &self.file_options };
        let mut syntax = Syntax::default();
        let mut applied = syntax.apply(options);
        let (source, skipped_line) = match jinja2_header(template.source) {
            Some((line, options, rest)) => {
                applied = applied.and_then(|()| syntax.apply(&options));
                (rest.into(), Some(line))
            }
            None => (template.source.into(), None),
        };
        applied.map_err(|why| Diagnostic::new(template::OPTIONS, why).at(file(), Pos::NONE))?;
        let name = TemplateName {
            syntax: self.sources.syntax_index(&syntax),
            marked,
            env: template.env.to_owned(),
            path: template.path.to_owned(),
        };
        Ok(PreparedRender { name, source, skipped_line, syntax })
    }

    fn run(
        &self,
        template: &JinjaTemplate<'_>,
        prepared: &PreparedRender<'_>,
        vars: &[(&str, Value)],
    ) -> Result<String, Box<Diagnostic>> {
        let ends = prepared.source.ends_with('\n');
        let mut text = if prepared.syntax.is_plain(&prepared.source) {
            normalize_newlines(&prepared.source, prepared.syntax.keep_trailing_newline)
        } else {
            self.run_template(template, prepared, vars)?
        };
        // Jinja2 removes the last line end and Salt adds it again.
        if ends {
            text.push('\n');
        }
        Ok(text)
    }

    fn run_template(
        &self,
        template: &JinjaTemplate<'_>,
        prepared: &PreparedRender<'_>,
        vars: &[(&str, Value)],
    ) -> Result<String, Box<Diagnostic>> {
        let _limits = budget::BudgetScope::enter(&self.limits);
        let (loaded, is_repeated) =
            self.sources.translate_once(&prepared.name, &prepared.source, prepared.skipped_line)?;
        let (mut own, here) = match template.sls {
            Some(sls) => {
                sls_variables(sls, template.path, &self.sources.files.display(template.env, template.path))
            }
            None => (VariableMap::new(), CurrentTemplate::default()),
        };
        own.insert("saltenv".into(), Value::from(template.env));
        if template.sls.is_some() && !self.shared.contains_key("proxy") {
            own.insert("proxy".into(), object::dict(object::Dict::new()));
        }
        own.extend(vars.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        own.insert(
            RENDER_VARIABLE.into(),
            Value::from_object(RenderState::new(&self.sources, &prepared.name, here)),
        );
        let root = Arc::new(RootContext {
            own,
            shared: Arc::clone(&self.shared),
            globals: Arc::clone(&self.globals),
        });
        let kept = if is_repeated { self.kept_template(&loaded, &prepared.name) } else { None };
        self.evaluate(&loaded, &prepared.name, kept, &root)
            .map_err(|e| Box::new(diagnostic::diagnostic_from_error(&self.sources, root.as_ref(), &e)))
    }

    /// What the engine compiled from this source when it was rendered before.
    fn kept_template(&self, loaded: &LoadedTemplate, name: &TemplateName) -> Option<Template<'_, '_>> {
        let kept = self.env.get_template(&name.repeated_text()).ok()?;
        // Inline contents share a name: the engine keeps the first that was repeated.
        (kept.source() == loaded.translation.text).then_some(kept)
    }

    fn evaluate(
        &self,
        loaded: &LoadedTemplate,
        name: &TemplateName,
        kept: Option<Template<'_, '_>>,
        root: &Arc<RootContext>,
    ) -> Result<String, Error> {
        let name = name.text();
        let template = match kept {
            Some(kept) => kept,
            None => self.env.template_from_named_str(&name, &loaded.translation.text)?,
        };
        let mut out = LimitedOutput { text: Vec::new(), most: self.limits.output };
        template.render_captured_to(Value::from_dyn_object(Arc::clone(root)), &mut out)?;
        String::from_utf8(out.text)
            .map_err(|_| Error::new(minijinja::ErrorKind::InvalidOperation, "the result is not UTF-8"))
    }
}

/// minijinja as Salt's Jinja: strict, limited, with Salt's filters, tests and functions and no others.
fn new_environment(options: &CompileOptions, host: &Arc<dyn FilterHost>) -> Environment<'static> {
    let limits = &options.limits;
    let refused = match options.compat {
        Compat::Salt => RefusedUndefined::InDicts,
        Compat::Strict => RefusedUndefined::Everywhere,
    };
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(methods::unknown_method);
    env.set_formatter(move |out, state, value| print_value(out, state, value, refused));
    // Undefined values then know their expression; the values of variables stay out of messages.
    env.set_debug(true);
    env.set_auto_reload(false);
    env.set_fuel(Some(limits.fuel));
    env.set_recursion_limit(limits.recursion.saturating_mul(CALL_DEPTH_COST).min(DEPTH_LIMIT));
    if let Ok(syntax) = minijinja::syntax::SyntaxConfig::builder().keep_trailing_newline(true).build() {
        env.set_syntax(syntax);
    }
    filters::install(&mut env, host);
    tests::install(&mut env);
    globals::install(&mut env);
    operator_filters::install(&mut env);
    call::install(&mut env);
    import::install(&mut env);
    env.add_filter("_za_load", load_data);
    env.add_function("namespace", minijinja::functions::namespace);
    env.add_function("raise", |message: Value| -> Result<Value, Error> {
        Err(TemplateError::new(template::RAISED, object::py_str(&message)).into())
    });
    env.add_function("show_full_context", |state: &State<'_, '_>| show_full_context(state));
    env
}

/// Collects the output of a render, up to a limit.
struct LimitedOutput {
    text: Vec<u8>,
    most: usize,
}

impl io::Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.most {
            return Err(io::Error::other("too much output"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a value as Python's `str` does.
fn print_value(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
    refused: RefusedUndefined,
) -> Result<(), Error> {
    if value.is_undefined() {
        return Ok(());
    }
    if !matches!(state.auto_escape(), AutoEscape::None) {
        return minijinja::escape_formatter(out, state, value);
    }
    // Bytes also convert to text, but print as `b'…'`.
    if let Some(text) = value.as_str().filter(|_| value.kind() == ValueKind::String) {
        operator_filters::count_output(state, text.len())?;
        return out.write_str(text).map_err(Error::from);
    }
    let text = object::py_str_printed(value, refused)?;
    operator_filters::count_output(state, text.len())?;
    out.write_str(&text).map_err(Error::from)
}

/// Reads the text of a `load_…` or `import_…`.
fn load_data(state: &mut State<'_, '_>, text: Value, format: &str) -> Result<Value, Error> {
    let filter = match format {
        "yaml" => "load_yaml",
        "json" => "load_json",
        _ => return Ok(text),
    };
    state.apply_filter(filter, &[text])
}

/// The `#jinja2:` line of a source: its number, its options, and the source without it.
fn jinja2_header(source: &str) -> Option<(u32, Map, String)> {
    let first_end = source.find('\n').map_or(source.len(), |p| p + 1);
    let is_shebang = source.starts_with("#!") && !source.starts_with("#!/");
    let (line, start) = if is_shebang { (2, first_end) } else { (1, 0) };
    let rest = &source[start..];
    let end = rest.find('\n').map_or(rest.len(), |p| p + 1);
    let options = rest[..end].strip_prefix("#jinja2:")?.trim();
    let Ok(Data::Map(options)) = Data::from_json_str(options) else { return None };
    Some((line, options.as_ref().clone(), format!("{}{}", &source[..start], &rest[end..])))
}

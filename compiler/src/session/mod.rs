//! One pass over one tree: finds files, renders them, and maps positions in rendered text to positions in the source.

pub(crate) mod render;
pub(crate) mod stateconf;
pub(crate) mod template;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use zagent_config::codes::{Code, yaml as codes};
use zagent_config::mask::secret_keys;
use zagent_config::mask::{self, Secret};
use zagent_config::{Diagnostic, FileLocation, Map, Pos, TraceStep, Value};

use crate::input::{Compat, CompileInputs, CompileOptions, FileTree, TemplateHost};
use crate::jinja::with_line_feeds;
use crate::source_files::{
    FileId, LineOrigin, OriginLookup, ReachedBy, RenderedPos, SourceFile, SourceFiles,
};
use crate::trace::{FileTrace, TextLines, TraceCache};

use self::render::RenderPipe;
use self::stateconf::StateconfValues;
use self::template::{RenderPhase, TemplateSource, Templates};

/// A file to read, and how it was reached.
pub(crate) struct ReadRequest {
    pub(crate) env: Arc<str>,
    /// Its SLS name; empty for a top file.
    pub(crate) sls: Arc<str>,
    pub(crate) path: String,
    pub(crate) reached: ReachedBy,
}

/// A tree (states or pillar) on its way through the compiler.
pub(crate) struct CompileSession {
    pub(crate) inputs: CompileInputs,
    files: Arc<dyn FileTree>,
    templates: Arc<Templates>,
    renderer: String,
    sources: SourceFiles,
    traces: TraceCache,
    available: RefCell<HashMap<String, Arc<[Arc<str>]>>>,
    /// Decrypted texts, to be masked in all output.
    secrets: RefCell<Vec<Secret>>,
    /// The modules in `_states`, listed on first use.
    external: OnceCell<HashSet<String>>,
    /// Variables that templates see besides Salt's, by file (pillar includes with defaults).
    variables: RefCell<HashMap<FileId, Map>>,
    /// What `stateconf.set` said.
    stateconf: RefCell<StateconfValues>,
}

impl CompileSession {
    pub(crate) fn new(inputs: CompileInputs, templates: Arc<Templates>) -> Self {
        let renderer = inputs.options.renderer.clone();
        Self::with_renderer(inputs, templates, &renderer)
    }

    /// A pass with another default renderer pipe.
    pub(crate) fn with_renderer(inputs: CompileInputs, templates: Arc<Templates>, renderer: &str) -> Self {
        Self {
            inputs,
            files: templates.files().clone(),
            templates,
            renderer: renderer.to_string(),
            sources: SourceFiles::default(),
            traces: TraceCache::default(),
            available: RefCell::default(),
            secrets: RefCell::default(),
            external: OnceCell::new(),
            variables: RefCell::default(),
            stateconf: RefCell::default(),
        }
    }

    pub(crate) fn options(&self) -> &CompileOptions {
        &self.inputs.options
    }

    pub(crate) fn host(&self) -> &dyn TemplateHost {
        &*self.inputs.host
    }

    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// The pipe of a file without a shebang.
    pub(crate) fn renderer(&self) -> &str {
        &self.renderer
    }

    pub(crate) fn is_salt(&self) -> bool {
        self.options().compat == Compat::Salt
    }

    /// True when a requisite is disabled in the configuration.
    pub(crate) fn is_requisite_disabled(&self, requisite: &str) -> bool {
        self.options().disabled_requisites.iter().any(|r| r == requisite)
    }

    pub(crate) fn envs(&self) -> Vec<String> {
        self.files.envs()
    }

    pub(crate) fn has_env(&self, env: &str) -> bool {
        env == "base" || self.files.envs().iter().any(|e| e == env)
    }

    /// True when no more files may be read.
    pub(crate) fn is_limit_reached(&self) -> bool {
        self.sources.len() >= self.options().limits.files
    }

    /// Every SLS of an environment, sorted.
    pub(crate) fn available_sls(&self, env: &str) -> Result<Arc<[Arc<str>]>, Box<Diagnostic>> {
        if let Some(all) = self.available.borrow().get(env) {
            return Ok(all.clone());
        }
        let files = self.files.list(env).map_err(|why| Box::new(Diagnostic::new(codes::UNREADABLE, why)))?;
        let mut names: Vec<Arc<str>> = files.iter().filter_map(|path| sls_name(path)).collect();
        names.sort_unstable();
        names.dedup();
        let names: Arc<[Arc<str>]> = names.into();
        self.available.borrow_mut().insert(env.to_string(), names.clone());
        Ok(names)
    }

    /// The path of an SLS: `a/b.sls` before `a/b/init.sls`.
    pub(crate) fn locate(&self, env: &str, sls: &str) -> Option<String> {
        let stem = sls.replace('.', "/");
        [format!("{stem}.sls"), format!("{stem}/init.sls")]
            .into_iter()
            .map(|path| normalize_path(&path))
            .find(|path| !path.is_empty() && self.files.has(env, path))
    }

    /// True when the tree has the file.
    pub(crate) fn exists(&self, env: &str, path: &str) -> bool {
        self.files.has(env, path)
    }

    /// Reads and renders a file to data.
    pub(crate) fn read(&self, read: ReadRequest) -> (FileId, Result<Value, Box<Diagnostic>>) {
        self.read_with(read, Map::new())
    }

    /// The same, with more variables for its template.
    pub(crate) fn read_with(
        &self,
        read: ReadRequest,
        variables: Map,
    ) -> (FileId, Result<Value, Box<Diagnostic>>) {
        self.read_text(read, variables, None)
    }

    /// The same; when a text is given, it is used instead of the file.
    pub(crate) fn read_text(
        &self,
        read: ReadRequest,
        variables: Map,
        text: Option<&str>,
    ) -> (FileId, Result<Value, Box<Diagnostic>>) {
        let ReadRequest { env, sls, path, reached } = read;
        let file = self.sources.add(SourceFile { env, sls, path, reached });
        if !variables.is_empty() {
            self.variables.borrow_mut().insert(file, variables);
        }
        let document = match text {
            Some(text) => render::render(self, file, text),
            None => self.source_text(file).and_then(|source| render::render(self, file, &source)),
        };
        (file, document)
    }

    /// The text of a file, with normalized line ends.
    pub(crate) fn source_text(&self, file: FileId) -> Result<String, Box<Diagnostic>> {
        let SourceFile { env, path, .. } = self.sources.get(file);
        let diagnostic = |code: Code, text: String| {
            let diagnostic = Diagnostic::new(code, text).at(self.files.display(&env, &path), Pos::NONE);
            Box::new(self.with_include_chain(diagnostic, file))
        };
        let bytes = match self.files.read(&env, &path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(diagnostic(codes::UNREADABLE, format!("`{path}` no longer exists"))),
            Err(why) => return Err(diagnostic(codes::UNREADABLE, why)),
        };
        let limit = self.options().limits.source;
        if bytes.len() > limit {
            let text = format!("`{path}` has {} bytes, more than the limit of {limit}", bytes.len());
            return Err(diagnostic(zagent_config::codes::limit::SOURCE, text));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(with_line_feeds(text)),
            Err(e) => {
                let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
                let mut diagnostic =
                    diagnostic(codes::NOT_UTF8, format!("`{path}` is not UTF-8 text (line {line})"));
                diagnostic.hint = Some("save it as UTF-8; other encodings are not supported".into());
                diagnostic.location = Some(FileLocation::new(
                    self.files.display(&env, &path),
                    Pos::new(u32::try_from(line).unwrap_or(0), 0),
                ));
                Err(diagnostic)
            }
        }
    }

    /// Runs the template stage of a file.
    pub(crate) fn render_template(&self, file: FileId, source: &str) -> Result<String, Box<Diagnostic>> {
        let SourceFile { env, sls, path, .. } = self.sources.get(file);
        let source = TemplateSource { env: &env, sls: &sls, path: &path, text: source };
        self.templates.render(&source, &self.variables(file)).map_err(|mut diagnostic| {
            let shown = self.files.display(&env, &path);
            if diagnostic.location.is_none() {
                diagnostic.location = Some(FileLocation::new(shown.as_str(), Pos::NONE));
            }
            diagnostic.chain.extend(self.import_step(&diagnostic, file));
            diagnostic.chain.extend(self.sources.include_chain(self, file));
            Box::new(self.masked(*diagnostic, file))
        })
    }

    /// The step from a macro or an imported template to the rendered file, unless the diagnostic already has it.
    fn import_step(&self, diagnostic: &Diagnostic, file: FileId) -> Option<TraceStep> {
        let SourceFile { env, sls, path, .. } = self.sources.get(file);
        let shown = self.files.display(&env, &path);
        let places = diagnostic.location.iter().chain(diagnostic.chain.iter().map(|s| &s.location));
        let is_told = places.into_iter().any(|place| place.file == shown);
        let what = if sls.is_empty() { "used by".to_string() } else { format!("used by `{sls}`") };
        (!is_told).then(|| TraceStep { what, location: FileLocation::new(shown, Pos::NONE) })
    }

    /// A diagnostic for the text of a file; pillar values are masked.
    pub(crate) fn masked(&self, mut diagnostic: Diagnostic, file: FileId) -> Diagnostic {
        let is_top = self.sources.get(file).sls.is_empty();
        if self.templates.phase() == RenderPhase::Pillar && !is_top {
            mask::mask_pillar_excerpts(&mut diagnostic);
        }
        diagnostic
    }

    fn trace_file(&self, id: FileId, file: &SourceFile) -> FileTrace {
        let text = match self.files.read(&file.env, &file.path) {
            Ok(Some(bytes)) => with_line_feeds(&String::from_utf8_lossy(&bytes)),
            _ => String::new(),
        };
        let source = TemplateSource { env: &file.env, sls: &file.sls, path: &file.path, text: &text };
        let is_made = RenderPipe::for_file(self, &text).is_ok_and(|pipe| pipe.has_template());
        let made = if is_made { self.templates.render_traced(&source, &self.variables(id)) } else { None };
        FileTrace {
            rendered: made.map(|(text, map)| (TextLines::new(text), map)),
            source: TextLines::new(text),
        }
    }

    /// The position of the first content in the rendered text of a file: used for errors about the whole document.
    pub(crate) fn document_start(&self, file: FileId) -> RenderedPos {
        let source = self.source_text(file).unwrap_or_default();
        let text = render::render_text(self, file, &source).unwrap_or_default();
        let is_said = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let line = text.lines().position(is_said).unwrap_or(0);
        RenderedPos { file, pos: Pos::new(u32::try_from(line + 1).unwrap_or(1), 1) }
    }

    /// What `stateconf.set` said in the files read so far.
    pub(crate) const fn stateconf(&self) -> &RefCell<StateconfValues> {
        &self.stateconf
    }

    /// A file that was read.
    pub(crate) fn source(&self, file: FileId) -> SourceFile {
        self.sources.get(file)
    }

    /// Gives the template of a file more variables.
    pub(crate) fn add_variables(&self, file: FileId, more: &Map) {
        let mut all = self.variables.borrow_mut();
        let own = all.entry(file).or_default();
        for (key, value) in more.iter() {
            own.insert(key.clone(), value.clone());
        }
    }

    fn variables(&self, file: FileId) -> Map {
        self.variables.borrow().get(&file).cloned().unwrap_or_default()
    }

    /// True when a template may read `pillar`, directly or through its imports.
    pub(crate) fn uses_pillar(&self) -> bool {
        let asks = |text: &str| {
            text.contains("{%") && (text.contains("import") || text.contains("include"))
                || text.contains('{') && text.contains("pillar")
        };
        (0..self.sources.len())
            .filter_map(|i| FileId::try_from(i).ok())
            .any(|file| self.source_text(file).is_ok_and(|text| asks(&text)))
    }

    /// Records a text that must not be printed.
    pub(crate) fn add_secret(&self, secret: Secret) {
        self.secrets.borrow_mut().push(secret);
    }

    /// How many texts were recorded.
    pub(crate) fn secret_count(&self) -> usize {
        self.secrets.borrow().len()
    }

    /// Records the values of a document that was encrypted as one, in place of its text: lines of a document hold ordinary
    /// words.
    pub(crate) fn replace_document(&self, index: usize, data: &Value) {
        let mut secrets = self.secrets.borrow_mut();
        if index < secrets.len() {
            secrets.remove(index);
        }
        secrets.extend(secret_keys::document_secrets(data));
    }

    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.secrets.borrow().clone()
    }

    /// Every file that was read, as `(environment, path)`.
    pub(crate) fn files_read(&self) -> Vec<(String, String)> {
        self.sources.all().into_iter().map(|f| (f.env.to_string(), f.path)).collect()
    }

    /// The pseudo-file for what was requested on the command line.
    pub(crate) fn manual_file(&self) -> FileId {
        let file = SourceFile {
            env: "base".into(),
            sls: "".into(),
            path: String::new(),
            reached: ReachedBy::Requested,
        };
        self.sources.add(file)
    }

    /// True for an external module, an executable in `_states` of the tree.
    pub(crate) fn is_external_state(&self, module: &str) -> bool {
        self.external.get_or_init(|| self.external_states()).contains(module)
    }

    /// The path of a module in `_states` that is Python for Salt's loader: no program that could be started.
    pub(crate) fn python_state(&self, module: &str) -> Option<String> {
        let path = format!("_states/{module}.py");
        let content = self.files.read("base", &path).ok().flatten()?;
        let is_program = content.starts_with(b"#!");
        (!is_program && !self.files.has("base", &format!("_states/{module}"))).then_some(path)
    }

    fn external_states(&self) -> HashSet<String> {
        let files = self.files.list("base").unwrap_or_default();
        let names = files.iter().filter_map(|path| path.strip_prefix("_states/"));
        names.filter_map(|name| name.split('.').next()).map(str::to_string).collect()
    }

    pub(crate) fn path(&self, file: FileId) -> String {
        self.sources.get(file).path
    }

    /// A diagnostic at a position.
    pub(crate) fn diagnostic(&self, code: Code, spot: RenderedPos, message: impl Into<String>) -> Diagnostic {
        let mut diagnostic = self.sources.diagnostic(self, code, spot, message);
        if let Some(step) = self.import_step(&diagnostic, spot.file) {
            diagnostic.chain.insert(0, step);
        }
        diagnostic
    }

    /// The source position of a rendered position.
    pub(crate) fn place(&self, spot: RenderedPos) -> FileLocation {
        self.sources.place(self, spot)
    }

    /// How a file was reached.
    pub(crate) fn include_chain(&self, file: FileId) -> Vec<TraceStep> {
        self.sources.include_chain(self, file)
    }

    fn with_include_chain(&self, mut diagnostic: Diagnostic, file: FileId) -> Diagnostic {
        diagnostic.chain.extend(self.include_chain(file));
        diagnostic
    }

    /// Places a diagnostic about a requested file at the position that requested it.
    pub(crate) fn at_requester(&self, diagnostic: Diagnostic, reached: &ReachedBy) -> Diagnostic {
        let spot = match reached {
            ReachedBy::Requested | ReachedBy::External => return diagnostic,
            ReachedBy::Matched { spot, .. } | ReachedBy::Included { spot } => *spot,
        };
        let mut placed = self.diagnostic(diagnostic.code, spot, diagnostic.message);
        placed.hint = diagnostic.hint;
        placed.notes = diagnostic.notes;
        placed
    }
}

impl OriginLookup for CompileSession {
    fn origin(&self, id: FileId, pos: Pos) -> LineOrigin {
        let file = self.sources.get(id);
        let traced = self.traces.get_or_trace(id, || self.trace_file(id, &file));
        self.templates.origin((&file.env, &file.path), &traced, pos).unwrap_or_else(|| LineOrigin {
            file: self.files.display(&file.env, &file.path),
            pos,
            text: traced.source.line(pos.line).to_string(),
            rendered: None,
        })
    }
}

/// A path without empty and `.` parts.
fn normalize_path(path: &str) -> String {
    path.split('/').filter(|p| !p.is_empty() && *p != ".").collect::<Vec<_>>().join("/")
}

/// The SLS name of a file, if it is an SLS.
fn sls_name(path: &str) -> Option<Arc<str>> {
    let stem = path.strip_suffix("/init.sls").or_else(|| path.strip_suffix(".sls"))?;
    Some(stem.replace('/', ".").into())
}

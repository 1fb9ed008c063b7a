//! One pass over one tree: finds files, renders them, and turns places in rendered text into places in the source.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use zagent_config::codes::{Code, yaml as codes};
use zagent_config::{Fault, Map, Place, Pos, Step, Value};

use crate::input::{Compat, Files, Host, Inputs, Options};
use crate::jinja::with_line_feeds;
use crate::render::{self, Pipe};
use crate::sources::{FileId, Origin, Reached, SourceFile, Sources, Spot, Trace};
use crate::template::{Phase, Source, Templates};
use crate::trace::{Lines, Traced, Traces};
use crate::veil;

/// A file to read, and how it was reached.
pub(crate) struct Read {
    pub(crate) env: Arc<str>,
    /// Its SLS name; empty for a top file.
    pub(crate) sls: Arc<str>,
    pub(crate) path: String,
    pub(crate) reached: Reached,
}

/// A tree (states or pillar) on its way through the compiler.
pub(crate) struct Session {
    pub(crate) inputs: Inputs,
    files: Arc<dyn Files>,
    templates: Arc<Templates>,
    renderer: String,
    sources: Sources,
    traces: Traces,
    available: RefCell<HashMap<String, Arc<[Arc<str>]>>>,
    /// What was decrypted on the way, to be masked wherever something is printed.
    secrets: RefCell<Vec<String>>,
    /// The modules in `_states`, listed when one is asked for.
    external: OnceCell<HashSet<String>>,
    /// Variables that templates see besides Salt's, by file (pillar includes with defaults).
    variables: RefCell<HashMap<FileId, Map>>,
}

impl Session {
    pub(crate) fn new(inputs: Inputs, templates: Arc<Templates>) -> Self {
        let renderer = inputs.options.renderer.clone();
        Self::with_renderer(inputs, templates, &renderer)
    }

    /// A pass whose files are rendered by another pipe unless they say so.
    pub(crate) fn with_renderer(inputs: Inputs, templates: Arc<Templates>, renderer: &str) -> Self {
        Self {
            inputs,
            files: templates.files().clone(),
            templates,
            renderer: renderer.to_string(),
            sources: Sources::default(),
            traces: Traces::default(),
            available: RefCell::default(),
            secrets: RefCell::default(),
            external: OnceCell::new(),
            variables: RefCell::default(),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inputs.options
    }

    pub(crate) fn host(&self) -> &dyn Host {
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

    /// True when a requisite is switched off by configuration.
    pub(crate) fn disabled(&self, requisite: &str) -> bool {
        self.options().disabled_requisites.iter().any(|r| r == requisite)
    }

    pub(crate) fn envs(&self) -> Vec<String> {
        self.files.envs()
    }

    pub(crate) fn has_env(&self, env: &str) -> bool {
        env == "base" || self.files.envs().iter().any(|e| e == env)
    }

    /// True when no more files may be read.
    pub(crate) fn is_full(&self) -> bool {
        self.sources.len() >= self.options().limits.files
    }

    /// Every SLS of an environment, sorted.
    pub(crate) fn available(&self, env: &str) -> Result<Arc<[Arc<str>]>, Box<Fault>> {
        if let Some(all) = self.available.borrow().get(env) {
            return Ok(all.clone());
        }
        let files = self.files.list(env).map_err(|why| Box::new(Fault::new(codes::UNREADABLE, why)))?;
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
            .map(|path| clean(&path))
            .find(|path| !path.is_empty() && self.files.has(env, path))
    }

    /// True when the tree has the file.
    pub(crate) fn exists(&self, env: &str, path: &str) -> bool {
        self.files.has(env, path)
    }

    /// Reads and renders a file to data.
    pub(crate) fn read(&self, read: Read) -> (FileId, Result<Value, Box<Fault>>) {
        self.read_with(read, Map::new())
    }

    /// The same, with more variables for its template.
    pub(crate) fn read_with(&self, read: Read, variables: Map) -> (FileId, Result<Value, Box<Fault>>) {
        self.read_text(read, variables, None)
    }

    /// The same, of a text that stands in no file when one is given.
    pub(crate) fn read_text(
        &self,
        read: Read,
        variables: Map,
        text: Option<&str>,
    ) -> (FileId, Result<Value, Box<Fault>>) {
        let Read { env, sls, path, reached } = read;
        let file = self.sources.add(SourceFile { env, sls, path, reached });
        if !variables.is_empty() {
            self.variables.borrow_mut().insert(file, variables);
        }
        let document = match text {
            Some(text) => render::render(self, file, text),
            None => self.source(file).and_then(|source| render::render(self, file, &source)),
        };
        (file, document)
    }

    /// The text of a file, line ends made plain.
    pub(crate) fn source(&self, file: FileId) -> Result<String, Box<Fault>> {
        let SourceFile { env, path, .. } = self.sources.get(file);
        let fault = |code: Code, text: String| {
            let fault = Fault::new(code, text).at(self.files.display(&env, &path), Pos::NONE);
            Box::new(self.reached_by(fault, file))
        };
        let bytes = match self.files.read(&env, &path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(fault(codes::UNREADABLE, format!("`{path}` is gone"))),
            Err(why) => return Err(fault(codes::UNREADABLE, why)),
        };
        let limit = self.options().limits.source;
        if bytes.len() > limit {
            let text = format!("`{path}` has {} bytes, and {limit} are allowed", bytes.len());
            return Err(fault(zagent_config::codes::limit::SOURCE, text));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(with_line_feeds(text)),
            Err(e) => {
                let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
                let mut fault = fault(codes::NOT_UTF8, format!("`{path}` is not UTF-8 text (line {line})"));
                fault.hint = Some("save it as UTF-8; text of another encoding cannot be told apart".into());
                fault.place = Some(Place::new(
                    self.files.display(&env, &path),
                    Pos::new(u32::try_from(line).unwrap_or(0), 0),
                ));
                Err(fault)
            }
        }
    }

    /// Runs the template stage of a file.
    pub(crate) fn template(&self, file: FileId, source: &str) -> Result<String, Box<Fault>> {
        let SourceFile { env, sls, path, .. } = self.sources.get(file);
        let source = Source { env: &env, sls: &sls, path: &path, text: source };
        self.templates.render(&source, &self.variables(file)).map_err(|mut fault| {
            let shown = self.files.display(&env, &path);
            if fault.place.is_none() {
                fault.place = Some(Place::new(shown.as_str(), Pos::NONE));
            }
            fault.chain.extend(self.used_by(&fault, file));
            fault.chain.extend(self.sources.chain(self, file));
            Box::new(self.veiled(*fault, file))
        })
    }

    /// The step from a macro or an imported template to the file that was being rendered, unless the fault tells it.
    fn used_by(&self, fault: &Fault, file: FileId) -> Option<Step> {
        let SourceFile { env, sls, path, .. } = self.sources.get(file);
        let shown = self.files.display(&env, &path);
        let places = fault.place.iter().chain(fault.chain.iter().map(|s| &s.place));
        let is_told = places.into_iter().any(|place| place.file == shown);
        let what = if sls.is_empty() { "used by".to_string() } else { format!("used by `{sls}`") };
        (!is_told).then(|| Step { what, place: Place::new(shown, Pos::NONE) })
    }

    /// A fault in the text of a file; values of a pillar stay out of it.
    pub(crate) fn veiled(&self, mut fault: Fault, file: FileId) -> Fault {
        let is_top = self.sources.get(file).sls.is_empty();
        if self.templates.phase() == Phase::Pillar && !is_top {
            veil::pillar(&mut fault);
        }
        fault
    }

    fn trace(&self, id: FileId, file: &SourceFile) -> Traced {
        let text = match self.files.read(&file.env, &file.path) {
            Ok(Some(bytes)) => with_line_feeds(&String::from_utf8_lossy(&bytes)),
            _ => String::new(),
        };
        let source = Source { env: &file.env, sls: &file.sls, path: &file.path, text: &text };
        let is_made = Pipe::of(self, &text).is_ok_and(|pipe| pipe.has_template());
        let made = if is_made { self.templates.trace(&source, &self.variables(id)) } else { None };
        Traced { made: made.map(|(text, map)| (Lines::new(text), map)), source: Lines::new(text) }
    }

    /// Where the first thing in the rendered text of a file stands: what a document as a whole is shown by.
    pub(crate) fn start(&self, file: FileId) -> Spot {
        let source = self.source(file).unwrap_or_default();
        let text = render::rendered(self, file, &source).unwrap_or_default();
        let is_said = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let line = text.lines().position(is_said).unwrap_or(0);
        Spot { file, pos: Pos::new(u32::try_from(line + 1).unwrap_or(1), 1) }
    }

    fn variables(&self, file: FileId) -> Map {
        self.variables.borrow().get(&file).cloned().unwrap_or_default()
    }

    /// True when a template that was read may look at `pillar`, itself or by what it imports.
    pub(crate) fn asks_for_pillar(&self) -> bool {
        let asks = |text: &str| {
            text.contains("{%") && (text.contains("import") || text.contains("include"))
                || text.contains('{') && text.contains("pillar")
        };
        (0..self.sources.len())
            .filter_map(|i| FileId::try_from(i).ok())
            .any(|file| self.source(file).is_ok_and(|text| asks(&text)))
    }

    /// Remembers a text that must not be printed.
    pub(crate) fn keep_secret(&self, text: &str) {
        self.secrets.borrow_mut().push(text.to_string());
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        self.secrets.borrow().clone()
    }

    /// Every file that was read, as `(environment, path)`.
    pub(crate) fn files_read(&self) -> Vec<(String, String)> {
        self.sources.all().into_iter().map(|f| (f.env.to_string(), f.path)).collect()
    }

    /// The file of what stands in none, because it was asked for by hand.
    pub(crate) fn by_hand(&self) -> FileId {
        let file =
            SourceFile { env: "base".into(), sls: "".into(), path: String::new(), reached: Reached::Asked };
        self.sources.add(file)
    }

    /// True for a module that the tree brings itself, as an executable in `_states`.
    pub(crate) fn is_external_state(&self, module: &str) -> bool {
        self.external.get_or_init(|| self.external_states()).contains(module)
    }

    fn external_states(&self) -> HashSet<String> {
        let files = self.files.list("base").unwrap_or_default();
        let names = files.iter().filter_map(|path| path.strip_prefix("_states/"));
        names.filter_map(|name| name.split('.').next()).map(str::to_string).collect()
    }

    pub(crate) fn path(&self, file: FileId) -> String {
        self.sources.get(file).path
    }

    /// A fault at a spot.
    pub(crate) fn fault(&self, code: Code, spot: Spot, message: impl Into<String>) -> Fault {
        let mut fault = self.sources.fault(self, code, spot, message);
        if let Some(step) = self.used_by(&fault, spot.file) {
            fault.chain.insert(0, step);
        }
        fault
    }

    /// The place in the source that a spot stands for.
    pub(crate) fn place(&self, spot: Spot) -> Place {
        self.sources.place(self, spot)
    }

    /// How a file was reached.
    pub(crate) fn chain(&self, file: FileId) -> Vec<Step> {
        self.sources.chain(self, file)
    }

    fn reached_by(&self, mut fault: Fault, file: FileId) -> Fault {
        fault.chain.extend(self.chain(file));
        fault
    }

    /// Puts a fault about something that was asked for at the place that asked for it.
    pub(crate) fn placed(&self, fault: Fault, reached: &Reached) -> Fault {
        let spot = match reached {
            Reached::Asked | Reached::External => return fault,
            Reached::Matched { spot, .. } | Reached::Included { spot } => *spot,
        };
        let mut placed = self.fault(fault.code, spot, fault.message);
        placed.hint = fault.hint;
        placed.notes = fault.notes;
        placed
    }
}

impl Trace for Session {
    fn origin(&self, id: FileId, pos: Pos) -> Origin {
        let file = self.sources.get(id);
        let traced = self.traces.of(id, || self.trace(id, &file));
        self.templates.origin((&file.env, &file.path), &traced, pos).unwrap_or_else(|| Origin {
            file: self.files.display(&file.env, &file.path),
            pos,
            text: traced.source.line(pos.line).to_string(),
            rendered: None,
        })
    }
}

/// A path without empty and `.` parts.
fn clean(path: &str) -> String {
    path.split('/').filter(|p| !p.is_empty() && *p != ".").collect::<Vec<_>>().join("/")
}

/// The SLS that a file is, if it is one.
fn sls_name(path: &str) -> Option<Arc<str>> {
    let stem = path.strip_suffix("/init.sls").or_else(|| path.strip_suffix(".sls"))?;
    Some(stem.replace('/', ".").into())
}

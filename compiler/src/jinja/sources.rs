//! The templates of a compile: read once, translated once, found again by the name the engine knows them under.
//!
//! Law: a name says everything that a translation depends on: syntax, marks, environment and path.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use minijinja::{Error, ErrorKind};
use zagent_config::codes::{limit, template};
use zagent_config::{Excerpt, Fault, Pos, suggest};

use super::source::{Problem, ProblemKind, Syntax, Translation, UseKind, pos, translate};
use super::told::Told;
use super::{filters, tests};
use crate::{Files, Limits};

/// The files that templates import from, shared with the engine's callbacks.
pub type SharedFiles = Arc<dyn Files + Send + Sync>;

/// A translated template and the file it came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// As a human finds the file.
    pub(crate) file: String,
    pub(crate) translation: Translation,
    /// A line at the top that was taken away before translation.
    pub(crate) skipped_line: Option<u32>,
}

impl Loaded {
    /// A line of the translated source, counted in the file.
    pub(crate) fn line_in_file(&self, line: u32) -> u32 {
        match self.skipped_line {
            Some(skipped) if line >= skipped => line + 1,
            _ => line,
        }
    }
}

/// How the engine calls a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) syntax: usize,
    pub(crate) marked: bool,
    pub(crate) env: String,
    pub(crate) path: String,
}

impl Name {
    pub(crate) fn text(&self) -> String {
        let mark = if self.marked { "m" } else { "" };
        format!("{}{mark}\0{}\0{}", self.syntax, self.env, self.path)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '\0');
        let (head, env, path) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = head.trim_end_matches('m');
        Some(Self {
            syntax: digits.parse().ok()?,
            marked: digits.len() < head.len(),
            env: env.to_owned(),
            path: path.to_owned(),
        })
    }
}

type Texts = HashMap<(String, String), Option<Arc<str>>>;

/// Everything that was read so far.
pub(crate) struct Sources {
    pub(crate) files: SharedFiles,
    pub(crate) limits: Limits,
    syntaxes: Mutex<Vec<Syntax>>,
    texts: Mutex<Texts>,
    loaded: Mutex<HashMap<String, Arc<Loaded>>>,
    /// Files by the number that their marks carry.
    marked: Mutex<Vec<Arc<str>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sources {
    pub(crate) fn new(files: SharedFiles, limits: Limits) -> Self {
        Self {
            files,
            limits,
            syntaxes: Mutex::default(),
            texts: Mutex::default(),
            loaded: Mutex::default(),
            marked: Mutex::default(),
        }
    }

    /// The number of a syntax.
    pub(crate) fn syntax(&self, syntax: &Syntax) -> usize {
        let mut all = locked(&self.syntaxes);
        all.iter().position(|s| s == syntax).unwrap_or_else(|| {
            all.push(syntax.clone());
            all.len() - 1
        })
    }

    /// The text of a file; `None` when there is none.
    pub(crate) fn text(&self, env: &str, path: &str) -> Result<Option<Arc<str>>, Box<Fault>> {
        let key = (env.to_owned(), path.to_owned());
        if let Some(text) = locked(&self.texts).get(&key) {
            return Ok(text.clone());
        }
        let file = || self.files.display(env, path);
        let unreadable = |why: String| {
            let fault = Fault::new(template::UNREADABLE, format!("cannot read the template: {why}"));
            Box::new(fault.at(file(), Pos::NONE))
        };
        let text = match self.files.read(env, path).map_err(unreadable)? {
            None => None,
            Some(bytes) if bytes.len() > self.limits.source => {
                let most = self.limits.source;
                let fault = Fault::new(limit::SOURCE, format!("this file is larger than {most} bytes"));
                return Err(Box::new(fault.at(file(), Pos::NONE)));
            }
            Some(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => Some(Arc::from(text)),
                Err(e) => return Err(unreadable(format!("byte {} is not UTF-8", e.valid_up_to()))),
            },
        };
        locked(&self.texts).insert(key, text.clone());
        Ok(text)
    }

    /// A template that was loaded before, by the engine's name.
    pub(crate) fn loaded(&self, name: &str) -> Option<Arc<Loaded>> {
        locked(&self.loaded).get(name).cloned()
    }

    /// Every template that was loaded before.
    pub(crate) fn all_loaded(&self) -> Vec<Arc<Loaded>> {
        locked(&self.loaded).values().cloned().collect()
    }

    /// The file that marks of a number name.
    pub(crate) fn marked_file(&self, number: usize) -> Option<Arc<str>> {
        locked(&self.marked).get(number).cloned()
    }

    /// What the engine asks for when it imports: the translation of a file.
    pub(crate) fn load(&self, text: &str) -> Result<Option<String>, Error> {
        let Some(name) = Name::parse(text) else { return Ok(None) };
        let Some(source) = self.text(&name.env, &name.path).map_err(carried)? else { return Ok(None) };
        let loaded = self.translate(&name, &source, None).map_err(carried)?;
        Ok(Some(loaded.translation.text.clone()))
    }

    /// Translates a source under a name.
    pub(crate) fn translate(
        &self,
        name: &Name,
        source: &str,
        skipped_line: Option<u32>,
    ) -> Result<Arc<Loaded>, Box<Fault>> {
        let file = self.files.display(&name.env, &name.path);
        let syntax = locked(&self.syntaxes).get(name.syntax).cloned().unwrap_or_default();
        let number = name.marked.then(|| {
            let mut marked = locked(&self.marked);
            marked.push(file.as_str().into());
            u32::try_from(marked.len() - 1).unwrap_or(u32::MAX)
        });
        let shift = |line: u32| match skipped_line {
            Some(skipped) if line >= skipped => line + 1,
            _ => line,
        };
        let translation = translate(source, &syntax, number)
            .map_err(|(problem, text)| Box::new(mistake(&problem, &text, &file, shift)))?;
        let loaded = Arc::new(Loaded { file, translation, skipped_line });
        Self::check_names(&loaded)?;
        locked(&self.loaded).insert(name.text(), Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Refuses filters and tests that nobody has, where Jinja2 refuses them before it renders.
    fn check_names(loaded: &Loaded) -> Result<(), Box<Fault>> {
        for used in loaded.translation.uses.iter().filter(|u| !u.soft) {
            let (code, what) = match used.kind {
                UseKind::Filter => (template::UNKNOWN_FILTER, "filter"),
                UseKind::Test => (template::UNKNOWN_TEST, "test"),
            };
            let unknown = !known(used.kind).contains(used.name.as_str());
            if unknown {
                let mut fault = Fault::new(code, format!("there is no {what} `{}`", used.name));
                fault.hint = Self::nearest_name(used.kind, &used.name);
                let mut at = loaded.translation.pos(used.at);
                let text = loaded.translation.line(at.line).to_owned();
                at.line = loaded.line_in_file(at.line);
                fault.excerpts.push(Excerpt { label: String::new(), line: at.line, column: at.column, text });
                return Err(Box::new(fault.at(loaded.file.clone(), at)));
            }
        }
        Ok(())
    }

    /// A suggestion for a filter or a test that does not exist.
    pub(crate) fn nearest_name(kind: UseKind, name: &str) -> Option<String> {
        suggest::nearest(name, known(kind).iter().copied()).map(|near| format!("did you mean `{near}`?"))
    }

    /// A suggestion for a path that does not exist.
    pub(crate) fn nearest_path(&self, env: &str, path: &str) -> Option<String> {
        let list = self.files.list(env).ok()?;
        let by_name = || {
            let base = path.rsplit('/').next()?;
            list.iter().map(String::as_str).find(|p| p.rsplit('/').next() == Some(base))
        };
        suggest::nearest(path, list.iter().map(String::as_str)).or_else(by_name).map(str::to_owned)
    }
}

/// The names of all filters or tests.
fn known(kind: UseKind) -> &'static HashSet<&'static str> {
    static FILTERS: LazyLock<HashSet<&str>> = LazyLock::new(|| filters::names().into_iter().collect());
    static TESTS: LazyLock<HashSet<&str>> = LazyLock::new(|| tests::names().into_iter().collect());
    match kind {
        UseKind::Filter => &FILTERS,
        UseKind::Test => &TESTS,
    }
}

/// A fault on its way through the engine.
pub(crate) fn carried(fault: Box<Fault>) -> Error {
    Error::new(ErrorKind::InvalidOperation, fault.message.clone()).with_source(*fault)
}

fn mistake(problem: &Problem, source: &str, file: &str, shift: impl Fn(u32) -> u32) -> Fault {
    let code = match problem.kind {
        ProblemKind::Syntax => template::TEMPLATE_SYNTAX,
        ProblemKind::UnknownTag => template::UNKNOWN_TAG,
        ProblemKind::Depth => limit::RECURSION,
    };
    let mut at = pos(source, problem.at);
    let text = source.split('\n').nth((at.line as usize).saturating_sub(1)).unwrap_or_default().to_owned();
    at.line = shift(at.line);
    let mut fault = Fault::new(code, problem.message.clone()).at(file, at);
    fault.hint.clone_from(&problem.hint);
    fault.excerpts.push(Excerpt { label: String::new(), line: at.line, column: at.column, text });
    fault
}

/// A template that is not there.
pub(crate) fn missing(sources: &Sources, env: &str, path: &str, asked: &str) -> Error {
    let near = sources.nearest_path(env, path).map(|near| format!("did you mean `{near}`?"));
    let hint = match asked.strip_prefix("salt://") {
        Some(rest) => Some(format!("write `{rest}`: the path starts at the root of the environment")),
        None => near,
    };
    Told::new(template::NOT_FOUND, format!("there is no template `{asked}` in the environment `{env}`"))
        .hint(hint)
        .into()
}

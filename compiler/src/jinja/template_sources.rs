//! The templates of a compile: read once, translated once, found by their engine name.
//!
//! A name includes everything that a translation depends on: syntax, marks, environment and path.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use minijinja::{Error, ErrorKind};
use zagent_config::codes::{limit, template};
use zagent_config::{Diagnostic, Excerpt, Pos, suggest};

use super::error::TemplateError;
use super::import::join_relative;
use super::source::{
    NameUseKind, Syntax, SyntaxError, SyntaxErrorKind, Translation, normalize_newlines, pos, translate,
};
use super::{filters, tests};
use crate::{FileTree, TreeLimits};

/// The files that templates import from, shared with the engine's callbacks.
pub type SharedFileTree = Arc<dyn FileTree + Send + Sync>;

/// A translated template and the file it came from.
#[derive(Debug)]
pub(crate) struct LoadedTemplate {
    /// The file name for users.
    pub(crate) file: String,
    pub(crate) translation: Translation,
    /// The number of a line at the top that was removed before translation.
    pub(crate) skipped_line: Option<u32>,
}

impl LoadedTemplate {
    /// A line of the translated source, counted in the file.
    pub(crate) fn line_in_file(&self, line: u32) -> u32 {
        match self.skipped_line {
            Some(skipped) if line >= skipped => line + 1,
            _ => line,
        }
    }
}

/// The engine name of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateName {
    pub(crate) syntax: usize,
    pub(crate) marked: bool,
    pub(crate) env: String,
    pub(crate) path: String,
}

impl TemplateName {
    pub(crate) fn text(&self) -> String {
        let mark = self.marked.then_some(MARKED).map(String::from).unwrap_or_default();
        format!("{}{mark}\0{}\0{}", self.syntax, self.env, self.path)
    }

    /// The name of a source that is rendered again: the engine keeps what it compiled under this name, and nothing imports it.
    pub(crate) fn repeated_text(&self) -> String {
        format!("{}{REPEATED}\0{}\0{}", self.syntax, self.env, self.path)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '\0');
        let (head, env, path) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = head.trim_end_matches([MARKED, REPEATED]);
        Some(Self {
            syntax: digits.parse().ok()?,
            marked: head.ends_with(MARKED),
            env: env.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// The mark of the name of a source whose lines are marked.
const MARKED: char = 'm';
/// The mark of the name of a source that is rendered again.
const REPEATED: char = 'r';

type FileTexts = HashMap<(String, String), Option<Arc<str>>>;

/// All templates read so far.
pub(crate) struct TemplateSources {
    pub(crate) files: SharedFileTree,
    pub(crate) limits: TreeLimits,
    syntaxes: Mutex<Vec<Syntax>>,
    texts: Mutex<FileTexts>,
    loaded: Mutex<HashMap<String, Arc<LoadedTemplate>>>,
    /// Files by their mark number.
    marked: Mutex<Vec<Arc<str>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TemplateSources {
    pub(crate) fn new(files: SharedFileTree, limits: TreeLimits) -> Self {
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
    pub(crate) fn syntax_index(&self, syntax: &Syntax) -> usize {
        let mut all = lock(&self.syntaxes);
        all.iter().position(|s| s == syntax).unwrap_or_else(|| {
            all.push(syntax.clone());
            all.len() - 1
        })
    }

    /// The text of a file; `None` when it does not exist.
    pub(crate) fn file_text(&self, env: &str, path: &str) -> Result<Option<Arc<str>>, Box<Diagnostic>> {
        let key = (env.to_owned(), path.to_owned());
        if let Some(text) = lock(&self.texts).get(&key) {
            return Ok(text.clone());
        }
        let file = || self.files.display(env, path);
        let unreadable = |why: String| {
            let diagnostic =
                Diagnostic::new(template::UNREADABLE, format!("cannot read the template: {why}"));
            Box::new(diagnostic.at(file(), Pos::NONE))
        };
        let text = match self.files.read(env, path).map_err(unreadable)? {
            None => None,
            Some(bytes) if bytes.len() > self.limits.source => {
                let most = self.limits.source;
                let diagnostic =
                    Diagnostic::new(limit::SOURCE, format!("the file is larger than {most} bytes"));
                return Err(Box::new(diagnostic.at(file(), Pos::NONE)));
            }
            Some(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => Some(Arc::from(text)),
                Err(e) => return Err(unreadable(format!("byte {} is not UTF-8", e.valid_up_to()))),
            },
        };
        lock(&self.texts).insert(key, text.clone());
        Ok(text)
    }

    /// A template that was loaded before, by the engine's name.
    pub(crate) fn loaded(&self, name: &str) -> Option<Arc<LoadedTemplate>> {
        lock(&self.loaded).get(name).cloned()
    }

    /// Every template that was loaded before.
    pub(crate) fn all_loaded(&self) -> Vec<Arc<LoadedTemplate>> {
        lock(&self.loaded).values().cloned().collect()
    }

    /// The file of a mark number.
    pub(crate) fn marked_file(&self, number: usize) -> Option<Arc<str>> {
        lock(&self.marked).get(number).cloned()
    }

    /// The translation of a file, for an import by the engine.
    pub(crate) fn load(&self, text: &str) -> Result<Option<String>, Error> {
        if text.split('\0').next().is_some_and(|head| head.ends_with(REPEATED)) {
            return Ok(self.loaded(text).map(|loaded| loaded.translation.text.clone()));
        }
        let Some(name) = TemplateName::parse(text) else { return Ok(None) };
        let Some(source) = self.file_text(&name.env, &name.path).map_err(diagnostic_error)? else {
            return Ok(None);
        };
        let loaded = self.translate(&name, &source, None).map_err(diagnostic_error)?;
        Ok(Some(loaded.translation.text.clone()))
    }

    /// The translation of a source to render; true when it is the one of an earlier render of the same source.
    pub(crate) fn translate_once(
        &self,
        name: &TemplateName,
        source: &str,
        skipped_line: Option<u32>,
    ) -> Result<(Arc<LoadedTemplate>, bool), Box<Diagnostic>> {
        let known = if name.marked { None } else { self.loaded(&name.text()) };
        let is_same = |known: &Arc<LoadedTemplate>| {
            let keep =
                lock(&self.syntaxes).get(name.syntax).is_some_and(|syntax| syntax.keep_trailing_newline);
            known.skipped_line == skipped_line && known.translation.source == normalize_newlines(source, keep)
        };
        match known.filter(is_same) {
            Some(known) => {
                lock(&self.loaded).entry(name.repeated_text()).or_insert_with(|| Arc::clone(&known));
                Ok((known, true))
            }
            None => self.translate(name, source, skipped_line).map(|loaded| (loaded, false)),
        }
    }

    /// Translates a source under a name.
    pub(crate) fn translate(
        &self,
        name: &TemplateName,
        source: &str,
        skipped_line: Option<u32>,
    ) -> Result<Arc<LoadedTemplate>, Box<Diagnostic>> {
        let file = self.files.display(&name.env, &name.path);
        let syntax = lock(&self.syntaxes).get(name.syntax).cloned().unwrap_or_default();
        let number = name.marked.then(|| {
            let mut marked = lock(&self.marked);
            marked.push(file.as_str().into());
            u32::try_from(marked.len() - 1).unwrap_or(u32::MAX)
        });
        let shift = |line: u32| match skipped_line {
            Some(skipped) if line >= skipped => line + 1,
            _ => line,
        };
        let translation = translate(source, &syntax, number)
            .map_err(|(problem, text)| Box::new(syntax_diagnostic(&problem, &text, &file, shift)))?;
        let loaded = Arc::new(LoadedTemplate { file, translation, skipped_line });
        Self::check_names(&loaded)?;
        lock(&self.loaded).insert(name.text(), Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Rejects unknown filters and tests where Jinja2 rejects them before rendering.
    fn check_names(loaded: &LoadedTemplate) -> Result<(), Box<Diagnostic>> {
        for used in loaded.translation.uses.iter().filter(|u| !u.soft) {
            let (code, what) = match used.kind {
                NameUseKind::Filter => (template::UNKNOWN_FILTER, "filter"),
                NameUseKind::Test => (template::UNKNOWN_TEST, "test"),
            };
            let unknown = !known_names(used.kind).contains(used.name.as_str());
            if unknown {
                let mut diagnostic = Diagnostic::new(code, format!("unknown {what} `{}`", used.name));
                diagnostic.hint = Self::nearest_name(used.kind, &used.name);
                let mut at = loaded.translation.pos(used.at);
                let text = loaded.translation.line(at.line).to_owned();
                at.line = loaded.line_in_file(at.line);
                diagnostic.excerpts.push(Excerpt {
                    label: String::new(),
                    line: at.line,
                    column: at.column,
                    text,
                });
                return Err(Box::new(diagnostic.at(loaded.file.clone(), at)));
            }
        }
        Ok(())
    }

    /// A suggestion for a filter or a test that does not exist.
    pub(crate) fn nearest_name(kind: NameUseKind, name: &str) -> Option<String> {
        suggest::nearest(name, known_names(kind).iter().copied())
            .map(|near| format!("did you mean `{near}`?"))
    }

    /// An absolute path as one of the tree; `None` when it is not in it.
    pub(crate) fn path_in_tree(&self, env: &str, absolute: &str) -> Option<String> {
        let path = format!("/{}", join_relative("", absolute)?);
        let known = self.files.list(env).ok()?;
        let own = known.first()?;
        let shown = self.files.display(env, own);
        let root = shown.strip_suffix(own.as_str())?;
        let root = format!("/{}/", join_relative("", root.strip_prefix('/')?)?);
        path.strip_prefix(&root).map(str::to_owned)
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
fn known_names(kind: NameUseKind) -> &'static HashSet<&'static str> {
    static FILTERS: LazyLock<HashSet<&str>> = LazyLock::new(|| filters::names().into_iter().collect());
    static TESTS: LazyLock<HashSet<&str>> = LazyLock::new(|| tests::names().into_iter().collect());
    match kind {
        NameUseKind::Filter => &FILTERS,
        NameUseKind::Test => &TESTS,
    }
}

/// A diagnostic passed through the engine.
pub(crate) fn diagnostic_error(diagnostic: Box<Diagnostic>) -> Error {
    Error::new(ErrorKind::InvalidOperation, diagnostic.message.clone()).with_source(*diagnostic)
}

fn syntax_diagnostic(
    problem: &SyntaxError,
    source: &str,
    file: &str,
    shift: impl Fn(u32) -> u32,
) -> Diagnostic {
    let code = match problem.kind {
        SyntaxErrorKind::Syntax => template::TEMPLATE_SYNTAX,
        SyntaxErrorKind::UnknownTag => template::UNKNOWN_TAG,
        SyntaxErrorKind::Depth => limit::RECURSION,
    };
    let mut at = pos(source, problem.at);
    let text = source.split('\n').nth((at.line as usize).saturating_sub(1)).unwrap_or_default().to_owned();
    at.line = shift(at.line);
    let mut diagnostic = Diagnostic::new(code, problem.message.clone()).at(file, at);
    diagnostic.hint.clone_from(&problem.hint);
    diagnostic.excerpts.push(Excerpt { label: String::new(), line: at.line, column: at.column, text });
    diagnostic
}

/// The error for a missing template.
pub(crate) fn missing_template(sources: &TemplateSources, env: &str, path: &str, asked: &str) -> Error {
    let near = sources.nearest_path(env, path).map(|near| format!("did you mean `{near}`?"));
    let hint = match asked.strip_prefix("salt://") {
        Some(rest) => Some(format!("write `{rest}`: the path starts at the root of the environment")),
        None => near,
    };
    TemplateError::new(template::NOT_FOUND, format!("template `{asked}` not found in environment `{env}`"))
        .hint(hint)
        .into()
}

//! An engine error in, a diagnostic out: code, position in the source, how it was reached, how to fix it.
//!
//! Law: a message never contains the value of a variable, because pillar contains secrets (held by
//! `every_error_matches_its_golden_file`).

use std::error::Error as _;
use std::sync::Arc;

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};
use zagent_config::codes::{Code, function, limit, template};
use zagent_config::{Diagnostic, Excerpt, FileLocation, Pos, TraceStep, suggest};

use super::error::TemplateError;
use super::methods;
use super::source::NameUseKind;
use super::template_sources::{LoadedTemplate, TemplateName, TemplateSources};
use super::undefined::undefined_diagnostic;

/// The names of a render and their values, for suggestions.
pub(crate) trait RenderScope {
    /// The value of a variable of the render.
    fn lookup(&self, name: &str) -> Option<Value>;
    /// All variables of the render and all functions.
    fn names(&self) -> Vec<String>;
}

/// Makes the diagnostic for an error that ended a render.
pub(crate) fn diagnostic_from_error(
    sources: &TemplateSources,
    scope: &dyn RenderScope,
    error: &Error,
) -> Diagnostic {
    let mut errors = vec![error];
    let mut template_error = None;
    let mut carried = None;
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(e) = source.downcast_ref::<Error>() {
            errors.push(e);
        } else if let Some(t) = source.downcast_ref::<TemplateError>() {
            template_error = Some(t);
        } else if let Some(f) = source.downcast_ref::<Diagnostic>() {
            carried = Some(f.clone());
        }
        next = source.source();
    }
    let innermost = errors.last().copied().unwrap_or(error);
    // The engine may wrap a zagent error: use the innermost error that has a position.
    let mut places: Vec<TemplateLocation> = errors.iter().filter_map(|e| locate_error(sources, e)).collect();
    let here = places.last();
    let mut diagnostic = match (carried, template_error) {
        (Some(diagnostic), _) => diagnostic,
        (None, Some(template_error)) => from_template_error(template_error, here, scope),
        (None, None) => match undefined_path(innermost, here) {
            Some(path) => undefined_diagnostic(&path, scope, here),
            None => from_engine_error(innermost),
        },
    };
    if let (Some(pos), Some(here)) = (template_error.and_then(|t| t.inside), places.last()) {
        match here.place_inside(sources, pos) {
            Some((place, excerpt)) => {
                if place.file == here.loaded.file {
                    places.pop();
                }
                diagnostic.location = Some(place);
                diagnostic.excerpts.insert(0, excerpt);
            }
            None => diagnostic.message.push_str(&format!(" (line {} of the text)", pos.line)),
        }
    }
    if diagnostic.location.is_none()
        && let Some(mut here) = places.pop()
    {
        if let Some(word) = focus_word(&diagnostic) {
            here.point_at(&word);
        }
        let (place, excerpt) = here.place_and_excerpt();
        diagnostic.location = Some(place);
        diagnostic.excerpts.insert(0, excerpt);
    }
    let mut chain: Vec<TraceStep> = Vec::new();
    for outer in places.iter().rev() {
        let (place, _) = outer.place_and_excerpt();
        if diagnostic.location.as_ref() != Some(&place) && chain.last().is_none_or(|s| s.location != place) {
            chain.push(TraceStep { what: "imported by".into(), location: place });
        }
    }
    chain.append(&mut diagnostic.chain);
    diagnostic.chain = chain;
    diagnostic
}

/// A position in a template.
pub(super) struct TemplateLocation {
    loaded: Arc<LoadedTemplate>,
    env: String,
    /// Every template that was loaded for this render and those before it.
    imported: Vec<Arc<LoadedTemplate>>,
    /// The byte of the source, or only the line.
    at: Result<usize, u32>,
}

fn locate_error(sources: &TemplateSources, error: &Error) -> Option<TemplateLocation> {
    let loaded = sources.loaded(error.name()?)?;
    let env = TemplateName::parse(error.name()?)?.env;
    let at = match error.range() {
        Some(range) => Ok(loaded.translation.origin_of(range.start)?),
        None => Err(u32::try_from(error.line()?).ok()?),
    };
    Some(TemplateLocation { loaded, env, imported: sources.all_loaded(), at })
}

/// How far after the engine's position a word is searched.
const SEARCH_WINDOW: usize = 400;

impl TemplateLocation {
    fn place_and_excerpt(&self) -> (FileLocation, Excerpt) {
        let translation = &self.loaded.translation;
        let mut pos = match self.at {
            Ok(at) => translation.pos(at),
            Err(line) => Pos::new(line, 0),
        };
        let text = translation.line(pos.line).to_owned();
        pos.line = self.loaded.line_in_file(pos.line);
        let excerpt = Excerpt { label: String::new(), line: pos.line, column: pos.column, text };
        (FileLocation::new(self.loaded.file.clone(), pos), excerpt)
    }

    /// Names that the template assigns.
    pub(super) fn assigned_names(&self) -> impl Iterator<Item = &String> {
        self.loaded.translation.assigned.iter()
    }

    /// The source before this position.
    pub(super) fn source_before(&self) -> &str {
        self.at.ok().and_then(|at| self.loaded.translation.source.get(..at)).unwrap_or_default()
    }

    /// The expression whose key is looked up: from its start to `.key` or `['key']`.
    pub(super) fn expression_before(&self, key: &str) -> Option<String> {
        let source = &self.loaded.translation.source;
        let at = self.at.ok()?;
        let start = ["{{", "{%"].iter().filter_map(|open| source[..at].rfind(open)).max()? + 2;
        let end = ["}}", "%}"].iter().filter_map(|close| source[at..].find(close)).min()? + at;
        let tag = &source[start..end];
        let steps = [format!(".{key}"), format!("['{key}']"), format!("[\"{key}\"]")];
        let step = steps.iter().filter_map(|step| tag.find(step.as_str())).min()?;
        let words = tag[..step].rsplit(' ').next()?.trim();
        words.ends_with([')', ']']).then(|| words.to_owned())
    }

    /// The names defined by the template of an import.
    pub(super) fn names_imported_with(&self, name: &str) -> Vec<String> {
        let source = &self.loaded.translation.source;
        let tags = source.split("{%").filter_map(|tag| tag.split_once("%}")).map(|(tag, _)| tag);
        let is_it = |tag: &&str| {
            let names = tag.split_once(" import ").map_or("", |(_, names)| names);
            tag.trim_start_matches(['-', '+', ' ']).starts_with("from ")
                && names.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
        };
        let path = tags.into_iter().find(is_it).and_then(|tag| tag.split(['\'', '"']).nth(1));
        let Some(path) = path else { return Vec::new() };
        self.imported
            .iter()
            .filter(|l| l.file.ends_with(path))
            .flat_map(|l| l.translation.assigned.clone())
            .collect()
    }

    fn operands(&self) -> &[Option<String>] {
        let at = self.at.ok().and_then(|at| u32::try_from(at).ok());
        at.and_then(|at| self.loaded.translation.operands.get(&at)).map(Vec::as_slice).unwrap_or_default()
    }

    /// A position in the text that this tag loads: in the imported file, or in the block that it opens.
    fn place_inside(&self, sources: &TemplateSources, pos: Pos) -> Option<(FileLocation, Excerpt)> {
        let rest = &self.loaded.translation.source[self.at.ok()?..];
        let shown = |file: String, pos: Pos, text: &str| {
            let excerpt =
                Excerpt { label: String::new(), line: pos.line, column: pos.column, text: text.to_owned() };
            (FileLocation::new(file, pos), excerpt)
        };
        let line = usize::try_from(pos.line).ok()?.checked_sub(1)?;
        if rest.starts_with("import_") {
            let quote = rest.find(['\'', '"'])?;
            let path = rest[quote + 1..].split(['\'', '"']).next()?;
            let path = path.strip_prefix("salt://").unwrap_or(path);
            let text = sources.file_text(&self.env, path).ok()??;
            let text = text.lines().nth(line).unwrap_or_default();
            return Some(shown(sources.files.display(&self.env, path), pos, text));
        }
        // Show a position in the block only if the block is loaded unchanged.
        let body = rest.strip_prefix("load_")?.split_once("%}")?.1;
        let end = body.find("{%")?;
        if body[..end].contains("{{") || !body[end..].contains("endload") || line == 0 {
            return None;
        }
        let text = body[..end].lines().nth(line)?;
        let tag = self.loaded.line_in_file(self.loaded.translation.pos(self.at.ok()?).line);
        let lines_of_tag = rest.split_once("%}")?.0.matches('\n').count();
        let shift = u32::try_from(lines_of_tag).ok()?;
        let pos = Pos::new(tag + shift + pos.line - 1, pos.column);
        Some(shown(self.loaded.file.clone(), pos, text))
    }

    /// Moves to a word: the first one after the position, otherwise the first one on its line.
    fn point_at(&mut self, word: &str) {
        let source = self.loaded.translation.source.as_str();
        let start = match self.at {
            Ok(at) => at,
            Err(line) => {
                source.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum()
            }
        };
        let line = source[..start].rfind('\n').map_or(0, |p| p + 1);
        let end = (start + SEARCH_WINDOW..source.len())
            .find(|i| source.is_char_boundary(*i))
            .unwrap_or(source.len());
        if let Some(found) =
            find_word(source, start, end, word).or_else(|| find_word(source, line, end, word))
        {
            self.at = Ok(found);
        }
    }

    /// The plain path at this position in the source.
    fn path(&self) -> Option<String> {
        let rest = &self.loaded.translation.source[self.at.ok()?..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches('.');
        let is_name = path.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_call = rest[end..].starts_with(['(', '[']);
        (is_name && !is_call).then(|| path.to_owned())
    }
}

fn find_word(source: &str, from: usize, to: usize, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source[from..to]
        .match_indices(word)
        .map(|(i, _)| from + i)
        .find(|i| !source[..*i].ends_with(is_part) && !source[i + word.len()..].starts_with(is_part))
}

/// The source word that a diagnostic is about: the last one in backticks, for missing names.
fn focus_word(diagnostic: &Diagnostic) -> Option<String> {
    let about = [template::UNDEFINED, template::UNDEFINED_KEY, function::UNKNOWN_FUNCTION, template::SANDBOX];
    if !about.contains(&diagnostic.code) {
        return None;
    }
    let end = diagnostic.message.rfind('`')?;
    let start = diagnostic.message[..end].rfind('`')? + 1;
    (start < end).then(|| diagnostic.message[start..end].to_owned())
}

fn from_template_error(
    template_error: &TemplateError,
    here: Option<&TemplateLocation>,
    scope: &dyn RenderScope,
) -> Diagnostic {
    if let (Some(index), Some(here)) = (template_error.operand, here)
        && let Some(Some(path)) = here.operands().get(index)
    {
        return undefined_diagnostic(path, scope, Some(here));
    }
    let mut diagnostic = Diagnostic::new(template_error.code, template_error.message.clone());
    diagnostic.hint.clone_from(&template_error.hint);
    diagnostic
}

fn from_engine_error(error: &Error) -> Diagnostic {
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::UndefinedError => Diagnostic::new(template::UNDEFINED, "a value is undefined here"),
        ErrorKind::UnknownFilter => {
            let name = detail.trim_start_matches("filter ").trim_end_matches(" is unknown");
            let mut diagnostic =
                Diagnostic::new(template::UNKNOWN_FILTER, format!("unknown filter `{name}`"));
            diagnostic.hint = TemplateSources::nearest_name(NameUseKind::Filter, name);
            diagnostic
        }
        ErrorKind::UnknownTest => {
            let name = detail.trim_start_matches("test ").trim_end_matches(" is unknown");
            let mut diagnostic = Diagnostic::new(template::UNKNOWN_TEST, format!("unknown test `{name}`"));
            diagnostic.hint = TemplateSources::nearest_name(NameUseKind::Test, name);
            diagnostic
        }
        ErrorKind::OutOfFuel => Diagnostic::new(limit::FUEL, "this template takes more steps than allowed")
            .hint("look for an endless loop or macro"),
        ErrorKind::WriteFailure => {
            Diagnostic::new(limit::OUTPUT, "the output of this template is larger than allowed")
                .hint(TOO_MUCH_HINT)
        }
        kind => {
            let mut diagnostic = Diagnostic::new(code(kind, detail), sentence(kind, detail));
            if diagnostic.code == limit::OUTPUT {
                diagnostic.hint = Some(TOO_MUCH_HINT.into());
            } else if diagnostic.code == template::METHOD {
                diagnostic.hint = nearest_method(detail);
            }
            diagnostic
        }
    }
}

const TOO_MUCH_HINT: &str = "look for a loop that doubles a text, or raise `limits.output`";

/// The nearest method of the type that "'str' object has no method 'splitt'" names.
fn nearest_method(detail: &str) -> Option<String> {
    let mut quoted = detail.split('\'');
    let (of, method) = (quoted.nth(1)?, quoted.nth(1)?);
    let names = methods::method_names(of);
    suggest::nearest(method, names.iter().copied()).map(|near| format!("did you mean `{near}`?"))
}

fn code(kind: ErrorKind, detail: &str) -> Code {
    match kind {
        ErrorKind::SyntaxError if detail.contains("maximum recursion") => limit::RECURSION,
        ErrorKind::SyntaxError | ErrorKind::BadEscape => template::TEMPLATE_SYNTAX,
        ErrorKind::TooManyArguments | ErrorKind::MissingArgument => template::CALL,
        ErrorKind::UnknownMethod => template::METHOD,
        ErrorKind::TemplateNotFound => template::NOT_FOUND,
        _ if detail.contains("recursion limit exceeded") => limit::RECURSION,
        _ if detail.contains("too large (limit") => limit::OUTPUT,
        _ if detail.ends_with("is unsafe") => template::SANDBOX,
        _ if detail.contains("division by zero") || detail.contains("modulo by zero") => template::DIVISION,
        _ if detail.contains("cycle in template inheritance") => template::CYCLE,
        _ => template::TYPE,
    }
}

fn sentence(kind: ErrorKind, detail: &str) -> String {
    if detail.contains("recursion limit exceeded") {
        return "templates or macros are nested too deep".into();
    }
    match (kind, detail) {
        (_, "") => kind.to_string(),
        (ErrorKind::CannotUnpack, detail) => format!("cannot unpack: {detail}"),
        (_, detail) => detail.replace('\0', " "),
    }
}

/// What is undefined: the path in the engine's "`a.b` is undefined", or the path at the position.
fn undefined_path(error: &Error, here: Option<&TemplateLocation>) -> Option<String> {
    let detail = error.detail().unwrap_or_default();
    if let Some(end) = detail.rfind("` is undefined") {
        let start = detail[..end].rfind('`')? + 1;
        return Some(detail[start..end].to_owned());
    }
    match error.kind() {
        ErrorKind::UnknownFunction => Some(detail.strip_suffix(" is unknown").unwrap_or(detail).to_owned()),
        ErrorKind::UndefinedError => here?.path(),
        _ => None,
    }
}

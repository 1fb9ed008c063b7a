//! Files of apt's sources in, the same files with an entry put in or taken out.
//!
//! Law: a line that is not about the entry stays as it is, to the byte. Nothing is written here: what should be
//! written is handed back (held by `lines_are_read_and_written`, `a_file_that_is_no_text_is_left_alone`).

pub(crate) mod entry;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

pub(crate) use self::entry::AptEntry;
use super::{RepoFileEdit, RepoPlan};
use crate::StateError;
use zagent_host::fs::{FileKind, FileSystem};

/// The file that apt reads first.
const SOURCES_LIST: &str = "/etc/apt/sources.list";
/// The directory that it reads after it.
const SOURCES_DIR: &str = "/etc/apt/sources.list.d";

/// One file of sources.
#[derive(Clone, Debug)]
struct AptSourceFile {
    path: PathBuf,
    lines: Vec<String>,
    /// All of it could be read as text.
    is_exact: bool,
}

impl AptSourceFile {
    fn new(path: PathBuf, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let is_exact = matches!(text, std::borrow::Cow::Borrowed(_));
        Self { path, lines: text.lines().map(str::to_owned).collect(), is_exact }
    }

    fn is_deb822(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "sources")
    }

    fn entries(&self, page: usize) -> Vec<AptEntry> {
        if self.is_deb822() {
            return stanzas(&self.lines).map(|range| parse_stanza(&self.lines, page, range)).collect();
        }
        let entry = |(n, line): (usize, &String)| {
            let entry = AptEntry::parse_line(line)?;
            Some(AptEntry { file_index: page, lines: n..n + 1, ..entry })
        };
        self.lines.iter().enumerate().filter_map(entry).collect()
    }

    fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

/// All sources of a host.
#[derive(Clone, Debug)]
pub(crate) struct AptSources {
    files: Vec<AptSourceFile>,
}

/// What is asked of the sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct AptRequest {
    /// What it is found by.
    pub name: AptEntry,
    /// How it should be.
    pub wanted: AptEntry,
    /// Where it belongs.
    pub file: Option<PathBuf>,
    /// That file should hold nothing else.
    pub(crate) clean_file: bool,
    /// What should stand behind it.
    pub comment: Option<String>,
}

impl AptSources {
    /// Reads all files that apt reads.
    ///
    /// # Errors
    /// Fails when one cannot be read.
    pub(crate) fn read(fs: &dyn FileSystem) -> Result<Self, StateError> {
        let mut paths = vec![PathBuf::from(SOURCES_LIST)];
        if fs.stat(Path::new(SOURCES_DIR))?.is_some_and(|s| s.kind == FileKind::Dir) {
            let names = fs
                .read_dir(Path::new(SOURCES_DIR))?
                .into_iter()
                .map(|(name, _)| Path::new(SOURCES_DIR).join(name));
            paths.extend(names.filter(|p| p.extension().is_some_and(|e| e == "list" || e == "sources")));
        }
        let mut pages = Vec::new();
        for path in paths {
            if fs.stat(&path)?.is_some_and(|s| s.kind == FileKind::File) {
                let bytes = fs.read(&path)?;
                pages.push(AptSourceFile::new(path, &bytes));
            }
        }
        Ok(Self { files: pages })
    }

    fn entries(&self) -> Vec<AptEntry> {
        self.files.iter().enumerate().flat_map(|(n, page)| page.entries(n)).collect()
    }

    fn file_path(&self, entry: &AptEntry) -> String {
        self.files
            .get(entry.file_index)
            .map_or_else(|| SOURCES_LIST.to_owned(), |p| p.path.display().to_string())
    }

    /// All entries as `pkg.list_repos` tells them: by address; an entry of many counts for each.
    pub(crate) fn to_map(&self) -> Map {
        let mut all = Map::new();
        for entry in self.entries() {
            for uri in &entry.uris {
                let mut of_uri = match all.remove(uri) {
                    Some(Value::List(list)) => list.iter().cloned().collect(),
                    _ => Vec::new(),
                };
                for (suite, kind) in entry.suites.iter().flat_map(|s| entry.types.iter().map(move |t| (s, t)))
                {
                    let mut told = AptEntry {
                        uris: vec![uri.clone()],
                        suites: vec![suite.clone()],
                        types: vec![kind.clone()],
                        ..entry.clone()
                    }
                    .to_map(&self.file_path(&entry));
                    for (key, list) in
                        [("uris", &entry.uris), ("suites", &entry.suites), ("types", &entry.types)]
                    {
                        told.insert(key, list.iter().map(|i| Value::from(i.as_str())).collect::<Value>());
                    }
                    of_uri.push(told.into());
                }
                all.insert(uri.as_str(), of_uri.into_iter().collect::<Value>());
            }
        }
        all
    }

    /// The entry that a name means.
    pub(crate) fn find_entry(&self, name: &AptEntry) -> Option<Map> {
        self.entries().iter().find(|e| e.offers(name)).map(|e| e.to_map(&self.file_path(e)))
    }

    /// What to do so that an entry is there.
    ///
    /// # Errors
    /// Fails when the file that would change holds what is no text.
    pub(crate) fn plan_present(&self, asked: &AptRequest) -> Result<RepoPlan, StateError> {
        let entries = self.entries();
        let found = entries
            .iter()
            .find(|e| e.offers(&asked.name))
            .or_else(|| entries.iter().find(|e| e.offers(&asked.wanted)));
        let file = asked.file.clone();
        let is_right = |e: &AptEntry| {
            let said = asked.comment.as_ref().is_none_or(|c| e.is_stanza || e.comment.trim() == c.trim());
            e.covers(&asked.wanted) && said && self.is_alone(e, asked)
        };
        let before = found.map(|e| e.to_map(&self.file_path(e)));
        if found.is_some_and(is_right) {
            return Ok(RepoPlan { after: before.clone(), before, edits: Vec::new() });
        }
        let mut new = self.clone();
        let target = file.or_else(|| found.map(|e| self.files[e.file_index].path.clone()));
        let target = target.unwrap_or_else(|| PathBuf::from(SOURCES_LIST));
        let stays = found.filter(|e| self.files[e.file_index].path == target && !asked.clean_file);
        match stays {
            Some(entry) => new.update_entry(entry, asked),
            None => {
                if let Some(entry) = found {
                    new.drop_lines(entry);
                }
                new.add_entry(target.clone(), asked);
            }
        }
        let after = new.find_entry(&asked.wanted);
        Ok(RepoPlan { before, after, edits: self.edits(&new)? })
    }

    /// What to do so that an entry is not there.
    ///
    /// # Errors
    /// Fails when the file that would change holds what is no text.
    pub(crate) fn plan_absent(&self, name: &AptEntry) -> Result<RepoPlan, StateError> {
        let mut new = self.clone();
        let entries = self.entries();
        let doomed = entries.iter().filter(|e| e.offers(name) && e.architectures() == name.architectures());
        let mut before = None;
        // From the end on, so that the lines of the others stay where they are.
        for entry in doomed.collect::<Vec<_>>().into_iter().rev() {
            before = Some(entry.to_map(&self.file_path(entry)));
            let left: Vec<String> = entry.comps.iter().filter(|c| !name.comps.contains(c)).cloned().collect();
            let suites: Vec<String> =
                entry.suites.iter().filter(|s| !name.suites.contains(s)).cloned().collect();
            if name.comps.is_empty() || left.is_empty() {
                if suites.is_empty() {
                    new.drop_lines(entry);
                } else {
                    new.replace_entry(entry, &AptEntry { suites, ..entry.clone() });
                }
            } else {
                new.replace_entry(entry, &AptEntry { comps: left, ..entry.clone() });
            }
        }
        Ok(RepoPlan { before, after: None, edits: self.edits(&new)? })
    }

    /// True when the file of an entry holds nothing else, where that is asked for.
    fn is_alone(&self, entry: &AptEntry, asked: &AptRequest) -> bool {
        let page = &self.files[entry.file_index];
        let is_meant = asked.file.as_ref().is_none_or(|file| *file == page.path);
        !asked.clean_file || (is_meant && page.entries(entry.file_index).len() == 1)
    }

    fn update_entry(&mut self, entry: &AptEntry, asked: &AptRequest) {
        let mut wanted = asked.wanted.clone();
        wanted.comment = asked.comment.clone().unwrap_or_else(|| entry.comment.clone());
        if entry.is_stanza {
            // What a stanza offers besides is somebody else's.
            let join = |own: &[String], more: &[String]| {
                let new = more.iter().filter(|m| !own.contains(m)).cloned();
                own.iter().cloned().chain(new).collect::<Vec<_>>()
            };
            let is_wider = entry.types.len() + entry.uris.len() + entry.suites.len() > 3;
            wanted.comps = if is_wider { join(&entry.comps, &wanted.comps) } else { wanted.comps };
            wanted.types = join(&entry.types, &wanted.types);
            wanted.suites = join(&entry.suites, &wanted.suites);
            if !wanted.uris.iter().all(|w| entry.uris.iter().any(|u| entry::is_same_uri(u, w))) {
                wanted.uris = join(&entry.uris, &wanted.uris);
            } else {
                wanted.uris.clone_from(&entry.uris);
            }
            for (key, value) in &entry.options {
                if wanted.option(key).is_none() {
                    wanted.set_option(key, value);
                }
            }
        }
        self.replace_entry(entry, &wanted);
    }

    /// Puts an entry in place of another one.
    fn replace_entry(&mut self, old: &AptEntry, new: &AptEntry) {
        let lines = &mut self.files[old.file_index].lines;
        if !old.is_stanza {
            lines.splice(old.lines.clone(), [new.to_line()]);
            return;
        }
        let mut own: Vec<String> = lines[old.lines.clone()].to_vec();
        let was = old.stanza_fields();
        for ((field, value), (_, had)) in new.stanza_fields().into_iter().zip(was) {
            if value != had {
                set_field(&mut own, field, value.as_deref().filter(|v| !v.is_empty()));
            }
        }
        lines.splice(old.lines.clone(), own);
    }

    /// Takes an entry out, with the empty line after a stanza.
    fn drop_lines(&mut self, entry: &AptEntry) {
        let lines = &mut self.files[entry.file_index].lines;
        let follows = lines.get(entry.lines.end).is_some_and(|l| l.trim().is_empty());
        let end = entry.lines.end + usize::from(entry.is_stanza && follows);
        lines.drain(entry.lines.start..end);
    }

    fn add_entry(&mut self, path: PathBuf, asked: &AptRequest) {
        let at = self.files.iter().position(|p| p.path == path).unwrap_or_else(|| {
            self.files.push(AptSourceFile::new(path, &[]));
            self.files.len() - 1
        });
        let page = &mut self.files[at];
        if asked.clean_file {
            page.lines.clear();
            page.is_exact = true;
        }
        let wanted = AptEntry { comment: asked.comment.clone().unwrap_or_default(), ..asked.wanted.clone() };
        if !page.is_deb822() {
            page.lines.push(wanted.to_line());
            return;
        }
        if page.lines.last().is_some_and(|l| !l.trim().is_empty()) {
            page.lines.push(String::new());
        }
        page.lines.extend(wanted.to_stanza());
    }

    /// What differs. A part file goes with its last entry.
    fn edits(&self, new: &Self) -> Result<Vec<RepoFileEdit>, StateError> {
        let mut edits = Vec::new();
        for (n, page) in new.files.iter().enumerate() {
            let old = self.files.get(n);
            if old.is_some_and(|old| old.lines == page.lines) {
                continue;
            }
            if !page.is_exact {
                let words =
                    format!("`{}` holds what is no text in UTF-8, and is left alone", page.path.display());
                return Err(StateError::new(words));
            }
            let is_part = page.path.starts_with(SOURCES_DIR);
            let goes = is_part && page.entries(n).is_empty();
            edits.push((page.path.clone(), (!goes).then(|| page.text())));
        }
        Ok(edits)
    }
}

/// The runs of lines between empty ones that hold more than comments.
fn stanzas(lines: &[String]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut start = None;
    let mut all = Vec::new();
    for (n, line) in lines.iter().map(|l| l.trim()).chain([""]).enumerate() {
        match (line.is_empty(), start) {
            (false, None) => start = Some(n),
            (true, Some(from)) => {
                all.push(from..n);
                start = None;
            }
            _ => {}
        }
    }
    let says = |range: &std::ops::Range<usize>| lines[range.clone()].iter().any(|l| !l.starts_with('#'));
    all.retain(says);
    all.into_iter()
}

fn parse_stanza(lines: &[String], page: usize, range: std::ops::Range<usize>) -> AptEntry {
    let own = &lines[range.clone()];
    let words = |key: &str| -> Vec<String> {
        field(own, key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let mut entry = AptEntry {
        file_index: page,
        lines: range,
        is_stanza: true,
        types: words("Types"),
        uris: words("URIs"),
        suites: words("Suites"),
        comps: words("Components"),
        is_disabled: field(own, "Enabled").is_some_and(|v| {
            matches!(v.to_ascii_lowercase().as_str(), "no" | "false" | "without" | "off" | "disable" | "0")
        }),
        ..AptEntry::default()
    };
    entry.set_option("arch", &words("Architectures").join(","));
    entry.set_option("signed-by", field(own, "Signed-By").unwrap_or_default().trim());
    entry.set_option("trusted", field(own, "Trusted").unwrap_or_default().trim());
    entry
}

/// The lines of a field: its own, and those that go on with it.
fn field_lines(lines: &[String], key: &str) -> Option<std::ops::Range<usize>> {
    let is_key = |l: &String| l.split_once(':').is_some_and(|(k, _)| k.eq_ignore_ascii_case(key));
    let start = lines.iter().position(is_key)?;
    let more = lines[start + 1..].iter().take_while(|l| l.starts_with([' ', '\t'])).count();
    Some(start..start + 1 + more)
}

fn field(lines: &[String], key: &str) -> Option<String> {
    let range = field_lines(lines, key)?;
    let (_, first) = lines[range.start].split_once(':')?;
    let rest = lines[range.start + 1..range.end].iter().map(String::as_str);
    Some([first.trim()].into_iter().chain(rest).collect::<Vec<_>>().join("\n"))
}

fn set_field(lines: &mut Vec<String>, key: &str, value: Option<&str>) {
    let new = value.map(|v| format!("{key}: {v}"));
    match field_lines(lines, key) {
        Some(range) => drop(lines.splice(range, new)),
        None => lines.extend(new),
    }
}

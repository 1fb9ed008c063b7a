//! Repositories of dnf, yum and zypper: sections of `.repo` files. Those of apk: lines of one file.

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use super::{RepoFileEdit, RepoPlan};
use crate::StateError;
use zagent_host::command_options::value_text;
use zagent_host::fs::{FileKind, FileSystem};

/// A section of a file.
struct RepoSection {
    file: PathBuf,
    id: String,
    /// Its lines, the head included.
    lines: std::ops::Range<usize>,
    /// What it sets, in order.
    options: Vec<(String, String)>,
}

/// The `.repo` files of a directory.
pub(crate) struct RepoFiles {
    dir: PathBuf,
    files: Vec<(PathBuf, Vec<String>)>,
}

impl RepoFiles {
    /// Reads them all.
    ///
    /// # Errors
    /// Fails when one cannot be read.
    pub(crate) fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Self, StateError> {
        let mut files = Vec::new();
        let is_dir = fs.stat(dir)?.is_some_and(|s| s.kind == FileKind::Dir);
        for (name, _) in if is_dir { fs.read_dir(dir)? } else { Vec::new() } {
            let path = dir.join(name);
            if path.extension().is_some_and(|e| e == "repo") {
                let text = String::from_utf8_lossy(&fs.read(&path)?).into_owned();
                files.push((path, text.lines().map(str::to_owned).collect()));
            }
        }
        Ok(Self { dir: dir.to_owned(), files })
    }

    fn sections(&self) -> Vec<RepoSection> {
        self.files.iter().flat_map(|(path, lines)| sections(path, lines)).collect()
    }

    /// All as `pkg.list_repos` tells them.
    pub(crate) fn to_map(&self) -> Map {
        self.sections().iter().map(|s| (s.id.as_str(), Value::from(s.to_map()))).collect()
    }

    /// What to do so that a repository is there with these settings; null takes one away.
    ///
    /// # Errors
    /// Fails when a new one is not told enough about.
    pub(crate) fn plan_present(
        &self,
        id: &str,
        wanted: &Map,
        comments: &[String],
    ) -> Result<RepoPlan, StateError> {
        let found = self.sections().into_iter().find(|s| s.id == id);
        let before = found.as_ref().map(RepoSection::to_map);
        let mut edits = Vec::new();
        let path = match &found {
            Some(section) => {
                let is_off = |(key, value): (&Value, &Value)| !section.has(&value_text(key), value);
                if !wanted.iter().any(is_off) {
                    return Ok(RepoPlan { after: before.clone(), before, edits });
                }
                section.file.clone()
            }
            None => {
                if !wanted.contains("name") {
                    return Err(StateError::new(missing_setting("a name was not given")));
                }
                if !["baseurl", "mirrorlist", "metalink"].iter().any(|k| wanted.contains(k)) {
                    return Err(StateError::new(missing_setting(
                        "none of baseurl, mirrorlist, metalink was given",
                    )));
                }
                self.dir.join(format!("{id}.repo"))
            }
        };
        let mut lines = self.files.iter().find(|(p, _)| *p == path).map_or_else(Vec::new, |(_, l)| l.clone());
        let mut own =
            found.as_ref().map_or_else(|| vec![format!("[{id}]")], |s| lines[s.lines.clone()].to_vec());
        for (key, value) in wanted.iter() {
            set_option(&mut own, &value_text(key), value);
        }
        for comment in
            comments.iter().map(|c| format!("# {c}")).filter(|c| found.is_none() || !lines.contains(c))
        {
            own.push(comment);
        }
        match &found {
            Some(section) => drop(lines.splice(section.lines.clone(), own)),
            None => lines.extend(own),
        }
        let after = sections(&path, &lines).into_iter().find(|s| s.id == id).map(|s| s.to_map());
        edits.push((path, Some(join_lines(&lines))));
        Ok(RepoPlan { before, after, edits })
    }

    /// What to do so that a repository is not there. A file goes with its last one.
    pub(crate) fn plan_absent(&self, id: &str) -> RepoPlan {
        let all = self.sections();
        let Some(section) = all.iter().find(|s| s.id == id) else { return RepoPlan::default() };
        let rest = all.iter().any(|s| s.file == section.file && s.id != id);
        let mut lines =
            self.files.iter().find(|(p, _)| *p == section.file).map_or_else(Vec::new, |(_, l)| l.clone());
        lines.drain(section.lines.clone());
        let edits = vec![(section.file.clone(), rest.then(|| join_lines(&lines)))];
        RepoPlan { before: Some(section.to_map()), after: None, edits }
    }
}

fn missing_setting(what: &str) -> String {
    format!("The repo does not exist and needs to be created, but {what}")
}

impl RepoSection {
    fn get(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    fn has(&self, key: &str, value: &Value) -> bool {
        let now = self.get(key);
        match value {
            Value::Null => now.is_none(),
            // Nobody has to say that it is switched on.
            Value::Bool(on) => now.map_or(*on && key == "enabled", |n| is_true(n) == *on),
            other => now.is_some_and(|n| n == format_value(other)),
        }
    }

    fn to_map(&self) -> Map {
        let mut map: Map = self.options.iter().map(|(k, v)| (k.as_str(), Value::from(v.as_str()))).collect();
        map.insert("file", self.file.display().to_string());
        map
    }
}

fn is_true(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "yes" | "true" | "on")
}

/// A value as it is written; further lines are indented.
fn format_value(value: &Value) -> String {
    match value {
        Value::Bool(on) => u8::from(*on).to_string(),
        Value::List(items) => items.iter().map(value_text).collect::<Vec<_>>().join(" "),
        other => value_text(other).trim_end().replace('\n', "\n "),
    }
}

fn join_lines(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

fn sections(path: &Path, lines: &[String]) -> Vec<RepoSection> {
    let mut all: Vec<RepoSection> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let text = line.trim();
        if let Some(id) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            all.push(RepoSection {
                file: path.to_owned(),
                id: id.to_owned(),
                lines: n..n + 1,
                options: Vec::new(),
            });
            continue;
        }
        let Some(section) = all.last_mut() else { continue };
        section.lines.end = n + 1;
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match section.options.last_mut() {
            Some((_, value)) if line.starts_with([' ', '\t']) => {
                value.push_str("\n ");
                value.push_str(text);
            }
            _ => {
                if let Some((key, value)) = text.split_once('=') {
                    section.options.push((key.trim().to_owned(), value.trim().to_owned()));
                }
            }
        }
    }
    all
}

fn set_option(lines: &mut Vec<String>, key: &str, value: &Value) {
    let new = (!value.is_null()).then(|| format!("{key}={}", format_value(value)));
    let at = lines.iter().position(|l| l.split_once('=').is_some_and(|(k, _)| k.trim() == key));
    match at {
        Some(at) => {
            let more = lines[at + 1..].iter().take_while(|l| l.starts_with([' ', '\t'])).count();
            lines.splice(at..at + 1 + more, new);
        }
        None => {
            let end = lines.iter().rposition(|l| !l.trim().is_empty()).map_or(lines.len(), |n| n + 1);
            lines.splice(end..end, new);
        }
    }
}

/// Puts a line into a file of lines, or takes it out.
pub(crate) fn plan_line(
    fs: &dyn FileSystem,
    path: &Path,
    name: &str,
    is_absent: bool,
) -> Result<RepoPlan, StateError> {
    let text = match fs.stat(path)? {
        Some(_) => String::from_utf8_lossy(&fs.read(path)?).into_owned(),
        None => String::new(),
    };
    let is_it = |l: &&str| l.trim().trim_end_matches('/') == name.trim().trim_end_matches('/');
    let is_there = text.lines().any(|l| is_it(&l));
    let told = || Map::from_iter([("file", path.display().to_string()), ("line", name.to_owned())]);
    let before = is_there.then(told);
    if is_there != is_absent {
        return Ok(RepoPlan { after: before.clone(), before, edits: Vec::new() });
    }
    let mut lines: Vec<String> = text.lines().filter(|l| !is_it(l)).map(str::to_owned).collect();
    lines.extend((!is_absent).then(|| name.trim().to_owned()));
    let edit: RepoFileEdit = (path.to_owned(), Some(join_lines(&lines)));
    Ok(RepoPlan { before, after: (!is_absent).then(told), edits: vec![edit] })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str =
        "# head\n[base]\nname=Base\nbaseurl=http://a/\n http://b/\nenabled=0\n\n[other]\nname = Other\n";

    fn repos() -> RepoFiles {
        let file = ("/r/two.repo".into(), TWO.lines().map(str::to_owned).collect());
        RepoFiles { dir: "/r".into(), files: vec![file] }
    }

    fn edits(id: &str, wanted: &str) -> Result<Vec<RepoFileEdit>, String> {
        let wanted = Value::from_json_str(wanted).expect("JSON");
        let plan = repos().plan_present(id, wanted.as_map().expect("a mapping"), &["ours".into()]);
        plan.map(|p| p.edits).map_err(|f| f.result.comment)
    }

    #[test]
    fn settings_that_are_so_change_nothing() {
        assert_eq!(edits("base", r#"{"name": "Base", "enabled": false, "gpgkey": null}"#), Ok(vec![]));
        assert_eq!(edits("other", r#"{"enabled": true}"#), Ok(vec![]));
        assert_eq!(edits("base", r#"{"baseurl": "http://a/\nhttp://b/\n"}"#), Ok(vec![]));
    }

    #[test]
    fn a_section_changes_where_it_stands() {
        let new =
            edits("base", r#"{"enabled": true, "baseurl": "http://c/", "gpgcheck": 1}"#).expect("a plan");
        let text = "# head\n[base]\nname=Base\nbaseurl=http://c/\nenabled=1\ngpgcheck=1\n\n# ours\n[other]\nname = Other\n";
        assert_eq!(new, [("/r/two.repo".into(), Some(text.into()))]);
        let gone = repos().plan_absent("base").edits;
        assert_eq!(gone, [("/r/two.repo".into(), Some("# head\n[other]\nname = Other\n".into()))]);
    }

    #[test]
    fn a_new_one_has_a_file_of_its_own() {
        let new = edits("n", r#"{"name": "New", "baseurl": "http://n/", "gpgcheck": true}"#).expect("a plan");
        let text = "[n]\nname=New\nbaseurl=http://n/\ngpgcheck=1\n# ours\n";
        assert_eq!(new, [("/r/n.repo".into(), Some(text.into()))]);
        assert!(edits("n", r#"{"name": "New"}"#).is_err_and(|e| e.contains("baseurl")));
        assert!(edits("n", r#"{"baseurl": "http://n/"}"#).is_err_and(|e| e.contains("a name was not given")));
    }
}

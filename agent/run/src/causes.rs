//! States that would change the host in, whether a later state or its guard may notice out: by paths and words.
//!
//! A dry run asks this for changes that it cannot put into the overlay. A command is taken to touch the paths that it names, what
//! stands below and above them, and what has the same name; any other program of a package, a user or a service may touch everything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_compiler::{Chunk, name_text};
use zagent_config::Value;
use zagent_states::{Effects, LockKey, State};

/// So many states before a state are considered one by one; beyond, only the kinds of things that they may change.
const MAX_CAUSES: usize = 32;

/// What a state may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// These paths and what is below them.
    Paths(Vec<PathBuf>),
    /// What this command line names.
    Text(String),
    /// Anything.
    Anything,
}

impl Touch {
    /// What a state touches when it changes something.
    pub(crate) fn new(chunk: &Chunk, state: Option<&dyn State>) -> Self {
        if &*chunk.state == "cmd" && &*chunk.fun != "script" && &*chunk.fun != "wait_script" {
            let mut text = name_text(&chunk.name);
            for key in ["cwd", "env", "stdin"] {
                if let Some(value) = chunk.args.get(key) {
                    text.push(' ');
                    text.push_str(&zagent_host::command_options::value_text(value));
                }
            }
            return Self::Text(text);
        }
        let keys = state.map(State::lock_keys).unwrap_or_default();
        let paths: Vec<PathBuf> = keys
            .iter()
            .filter_map(|key| match key {
                LockKey::Path(path) => Some(path.clone()),
                _ => None,
            })
            .collect();
        if &*chunk.state == "test" {
            return Self::Paths(Vec::new());
        }
        if paths.is_empty() || paths.len() < keys.len() { Self::Anything } else { Self::Paths(paths) }
    }

    /// True when it may touch a path.
    pub(crate) fn reaches_path(&self, path: &Path) -> bool {
        match self {
            Self::Paths(all) => all.iter().any(|own| own.starts_with(path) || path.starts_with(own)),
            Self::Text(text) => words(text).any(|word| word_names_path(word, path)),
            Self::Anything => true,
        }
    }

    /// True when a command line may notice it.
    pub(crate) fn reaches_text(&self, text: &str) -> bool {
        match self {
            Self::Paths(all) => all.iter().any(|own| words(text).any(|word| word_names_path(word, own))),
            Self::Text(own) => words(own).any(|word| words(text).any(|other| words_meet(word, other))),
            Self::Anything => true,
        }
    }
}

/// A state that would change the host.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// Its id.
    pub(crate) id: Arc<str>,
    /// What of its change nobody can foresee; nothing for one that the overlay holds.
    pub(crate) unpredicted: Effects,
    /// What it touches.
    pub(crate) touch: Touch,
}

/// The states before a state that would change the host, by their places in the plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct CauseSet {
    all: Option<Arc<[usize]>>,
    /// There are more than these.
    pub(crate) is_cut: bool,
}

impl CauseSet {
    /// The set with one more.
    pub(crate) fn add(&mut self, index: usize) {
        self.merge(&Self { all: Some(Arc::from([index])), is_cut: false });
    }

    /// Both sets together.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.is_cut |= other.is_cut;
        let Some(theirs) = &other.all else { return };
        let Some(ours) = &self.all else {
            self.all = Some(Arc::clone(theirs));
            return;
        };
        if Arc::ptr_eq(ours, theirs) || theirs.iter().all(|index| ours.binary_search(index).is_ok()) {
            return;
        }
        let mut both: Vec<usize> = ours.iter().chain(theirs.iter()).copied().collect();
        both.sort_unstable();
        both.dedup();
        self.is_cut |= both.len() > MAX_CAUSES;
        both.truncate(MAX_CAUSES);
        self.all = Some(both.into());
    }

    /// Their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.all.iter().flat_map(|all| all.iter().copied())
    }
}

/// The words of a command line, whatever the shell would do with them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "'\"`$(){};|&<>=,:".contains(c)).filter(|word| !word.is_empty())
}

/// True when a word names a path, something below or above it, or something of the same name.
fn word_names_path(word: &str, path: &Path) -> bool {
    let word = word.trim_end_matches('/');
    let plain = match word.find(['*', '?', '[']) {
        // A pattern stands for everything in its directory.
        Some(at) => word[..at].rfind('/').map_or("", |slash| &word[..slash]),
        None => word,
    };
    if word.starts_with('/') {
        let named = Path::new(if plain.is_empty() { "/" } else { plain });
        return named != Path::new("/") && (path.starts_with(named) || named.starts_with(path));
    }
    let last = plain.rsplit('/').next().unwrap_or_default();
    !last.is_empty() && path.components().any(|part| part.as_os_str() == last)
}

/// Words that name no thing.
const COMMON_WORDS: [&str; 16] = [
    "cat", "command", "do", "done", "echo", "else", "false", "grep", "head", "ls", "sed", "test", "then",
    "true", "wc", "which",
];

/// True when two words may be about the same thing.
fn words_meet(one: &str, other: &str) -> bool {
    if one.starts_with('/') {
        return word_names_path(other, Path::new(one));
    }
    if other.starts_with('/') {
        return word_names_path(one, Path::new(other));
    }
    let is_name = one.len() > 2 && !one.starts_with('-') && COMMON_WORDS.binary_search(&one).is_err();
    is_name && one == other
}

/// All text in the guards of a chunk.
pub(crate) fn guard_text(chunk: &Chunk) -> String {
    let mut text = String::new();
    for key in ["onlyif", "unless", "creates"] {
        if let Some(value) = chunk.args.get(key) {
            add_text(value, &mut text);
        }
    }
    text
}

/// All text in the `check_cmd` of a chunk.
pub(crate) fn check_cmd_text(chunk: &Chunk) -> String {
    let mut text = String::new();
    if let Some(value) = chunk.args.get("check_cmd") {
        add_text(value, &mut text);
    }
    text
}

fn add_text(value: &Value, text: &mut String) {
    match value {
        Value::List(list) => list.iter().for_each(|item| add_text(item, text)),
        Value::Map(map) => map.values().for_each(|item| add_text(item, text)),
        one => {
            text.push_str(&zagent_host::command_options::value_text(one));
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_touches_what_it_names() {
        let table = [
            ("rm -rf /srv/app", "/srv/app/file", true),
            ("rm -rf /srv/app/file/deep", "/srv/app/file", true),
            ("cd /srv/app; rm file", "/srv/app/file", true),
            ("rm file", "/srv/app/file", true),
            ("touch /srv/other", "/srv/app/file", false),
            ("rm /srv/app/*.conf", "/srv/app/file", true),
            ("rm /srv/*", "/srv/app/file", true),
            ("make install", "/srv/app/file", false),
            ("ls /", "/srv/app/file", false),
            ("echo x >/srv/app/file", "/srv/app/file", true),
        ];
        for (line, path, expected) in table {
            assert_eq!(Touch::Text(line.into()).reaches_path(Path::new(path)), expected, "{line} on {path}");
        }
    }

    #[test]
    fn a_guard_notices_what_it_shares_words_with() {
        let table = [
            ("useradd web", "id web", true),
            ("useradd web", "id database", false),
            ("touch /srv/x", "test -f /srv/x", true),
            ("touch /srv/x", "grep -q a /srv", true),
            ("touch /srv/x", "cat /etc/passwd", false),
            ("true", "which true", false),
        ];
        for (line, guard, expected) in table {
            assert_eq!(Touch::Text(line.into()).reaches_text(guard), expected, "{line}, {guard}");
        }
        assert!(Touch::Anything.reaches_text("x") && Touch::Anything.reaches_path(Path::new("/x")));
        assert!(Touch::Paths(vec!["/srv/x".into()]).reaches_text("test -f /srv/x/y"));
        assert!(!Touch::Paths(vec!["/srv/x".into()]).reaches_text("test -f /srv/y"));
    }

    #[test]
    fn many_causes_are_cut() {
        let mut set = CauseSet::default();
        (0..MAX_CAUSES).for_each(|i| set.add(i));
        assert!(!set.is_cut);
        set.add(0);
        assert!(!set.is_cut && set.iter().count() == MAX_CAUSES);
        set.add(MAX_CAUSES);
        assert!(set.is_cut && set.iter().count() == MAX_CAUSES);
    }
}

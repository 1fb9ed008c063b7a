//! A state in, the file and line of its SLS out: `web/init.sls:12`.
//!
//! Only for states that failed and things that are new in the record of what is managed: the plan holds no source positions,
//! because finding them costs a render with a trace. The line is found in the text of the SLS: the one that declares the id,
//! also when the id is made by a template.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use zagent_compiler::{Chunk, FileTree};

/// How many lines after its id a declaration is expected to name its function.
const DECLARATION_LINES: usize = 4;

/// Environment and SLS.
type SlsKey = (Arc<str>, Arc<str>);

/// The lines of the SLS files that were asked for; each file is read once.
pub(crate) struct SlsLines<'f> {
    files: &'f dyn FileTree,
    read: RefCell<HashMap<SlsKey, Option<Rc<SlsText>>>>,
}

impl<'f> SlsLines<'f> {
    pub(crate) fn new(files: &'f dyn FileTree) -> Self {
        Self { files, read: RefCell::default() }
    }

    /// `web/init.sls:12`; without a line when no line of the file declares the id; nothing when there is no such file.
    pub(crate) fn locate(&self, chunk: &Chunk) -> Option<String> {
        if chunk.sls.is_empty() {
            return None;
        }
        let key = (Arc::clone(&chunk.env), Arc::clone(&chunk.sls));
        let known = self.read.borrow().get(&key).cloned();
        let text = known.unwrap_or_else(|| {
            let text = SlsText::read(self.files, chunk).map(Rc::new);
            self.read.borrow_mut().insert(key, text.clone());
            text
        })?;
        Some(match text.declaring_line(chunk) {
            Some(line) => format!("{}:{line}", text.path),
            None => text.path.clone(),
        })
    }
}

/// An SLS file and where its lines declare something.
struct SlsText {
    path: String,
    lines: Vec<String>,
    /// The lines that start with a key, by that key.
    keys: HashMap<String, Vec<usize>>,
    /// The lines whose key is made by a template.
    made_keys: Vec<usize>,
}

impl SlsText {
    fn read(files: &dyn FileTree, chunk: &Chunk) -> Option<Self> {
        let path = chunk.sls.replace('.', "/");
        [format!("{path}.sls"), format!("{path}/init.sls")].into_iter().find_map(|path| {
            let bytes = files.read(&chunk.env, &path).ok().flatten()?;
            Some(Self::new(path, &String::from_utf8_lossy(&bytes)))
        })
    }

    fn new(path: String, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut keys: HashMap<String, Vec<usize>> = HashMap::new();
        let mut made_keys = Vec::new();
        for (n, line) in lines.iter().enumerate() {
            for key in keys_of(line) {
                keys.entry(key.to_owned()).or_default().push(n);
            }
            if line.trim_end().ends_with(':') && line.contains("{{") {
                made_keys.push(n);
            }
        }
        Self { path, lines, keys, made_keys }
    }

    /// The number of the line that declares the id of a chunk: one that names it, else one whose template can make it. Among
    /// several, the first that is followed by the module of the chunk.
    fn declaring_line(&self, chunk: &Chunk) -> Option<usize> {
        let is_followed = |n: usize| {
            let below = self.lines.iter().skip(n).take(DECLARATION_LINES);
            below.into_iter().any(|line| {
                line.trim_start().starts_with(&*chunk.state) || line.contains(&format!(": {}.", chunk.state))
            })
        };
        let first = |candidates: &[usize]| {
            candidates.iter().copied().find(|n| is_followed(*n)).or(candidates.first().copied())
        };
        let named = self.keys.get(&*chunk.id).and_then(|named| first(named));
        let found = named.or_else(|| {
            let can_make = |n: &&usize| can_make_id(&self.lines[**n], &chunk.id);
            first(&self.made_keys.iter().filter(can_make).copied().collect::<Vec<_>>())
        });
        found.map(|n| n + 1)
    }
}

/// What a line may declare: the text before each of its colons, also without the quotes around it. An item of a list
/// declares nothing.
fn keys_of(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start();
    let line = if line.starts_with("- ") { "" } else { line };
    line.match_indices(':').flat_map(move |(at, _)| {
        let key = line[..at].trim_end();
        let inner = ['\'', '"'].into_iter().find_map(|quote| key.strip_prefix(quote)?.strip_suffix(quote));
        [Some(key), inner].into_iter().flatten()
    })
}

/// True when a line such as `conf-{{ name }}:` can make the id.
fn can_make_id(line: &str, id: &str) -> bool {
    let Some(key) = line.trim_end().strip_suffix(':').filter(|key| key.contains("{{")) else { return false };
    let key = key.trim_start().trim_matches(['\'', '"']);
    let mut parts = key.split("{{").enumerate().map(|(n, part)| match n {
        0 => part,
        _ => part.split_once("}}").map_or("", |(_, plain)| plain),
    });
    let Some(mut rest) = id.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let (last, between) = parts.split_last().map_or(("", &[][..]), |(last, between)| (*last, between));
    for part in between {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_config::Map;

    #[test]
    fn the_line_that_declares_the_id_is_found() {
        let text = "# comment\na:\n  test.nop: []\n'b c':\n  file.managed:\n    - name: /x\n{% for n in [1, 2] %}\nconf-{{ n }}:\n  cmd.run:\n    - name: 'true'\n{% endfor %}\nb c:\n  pkg.installed: []\n\"{{ x }}-end\":\n  test.nop: []\n";
        for (state, id, want) in [
            ("test", "a", Some(2)),
            ("file", "b c", Some(4)),
            ("pkg", "b c", Some(12)),
            ("cmd", "conf-2", Some(8)),
            ("test", "an-end", Some(14)),
            ("test", "nosuch", None),
        ] {
            let chunk = Chunk::single(state, "nop", id, Map::new());
            assert_eq!(SlsText::new(String::new(), text).declaring_line(&chunk), want, "{state} {id}");
        }
    }
}

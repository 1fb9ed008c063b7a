//! A state in, the file and line of its SLS out: `web/init.sls:12`.
//!
//! Only for states that failed: the plan holds no source positions, because finding them costs a render with a trace. The
//! line is found in the text of the SLS: the one that declares the id, also when the id is made by a template.

use zagent_compiler::{Chunk, FileTree};

/// How many lines after its id a declaration is expected to name its function.
const DECLARATION_LINES: usize = 4;

/// `web/init.sls:12`; without a line when no line of the file declares the id; nothing when there is no such file.
pub(crate) fn locate(files: &dyn FileTree, chunk: &Chunk) -> Option<String> {
    if chunk.sls.is_empty() {
        return None;
    }
    let path = chunk.sls.replace('.', "/");
    let found = [format!("{path}.sls"), format!("{path}/init.sls")].into_iter().find_map(|path| {
        let bytes = files.read(&chunk.env, &path).ok().flatten()?;
        Some((path, String::from_utf8_lossy(&bytes).into_owned()))
    });
    let (path, text) = found?;
    Some(match declaring_line(&text, chunk) {
        Some(line) => format!("{path}:{line}"),
        None => path,
    })
}

/// The number of the line that declares the id of a chunk: one that names it, else one whose template can make it. Among
/// several, the first that is followed by the module of the chunk.
fn declaring_line(text: &str, chunk: &Chunk) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let is_followed = |n: usize| {
        let below = lines.iter().skip(n).take(DECLARATION_LINES);
        below.into_iter().any(|line| {
            line.trim_start().starts_with(&*chunk.state) || line.contains(&format!(": {}.", chunk.state))
        })
    };
    for makes in [names_id as fn(&str, &str) -> bool, can_make_id] {
        let candidates: Vec<usize> = (0..lines.len()).filter(|n| makes(lines[*n], &chunk.id)).collect();
        let found = candidates.iter().copied().find(|n| is_followed(*n)).or(candidates.first().copied());
        if let Some(n) = found {
            return Some(n + 1);
        }
    }
    None
}

/// True for `id:`, also in quotes; what follows the colon does not matter.
fn names_id(line: &str, id: &str) -> bool {
    let line = line.trim_start();
    ["", "'", "\""].iter().any(|quote| {
        let rest = line.strip_prefix(quote).and_then(|rest| rest.strip_prefix(id)?.strip_prefix(quote));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
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
            assert_eq!(declaring_line(text, &chunk), want, "{state} {id}");
        }
    }
}

//! Templates of managed files, as states hand them to the compiler.

use std::sync::LazyLock;

use zagent_compiler::schema::{ParamTable, Schema};
use zagent_config::Map;

use crate::ChunkArgs;

/// Renders the template of a file.
pub trait RenderTemplate {
    /// The text that a template gives.
    ///
    /// # Errors
    /// Fails with words when it does not render.
    fn render(&self, template: &FileTemplate) -> Result<String, String>;
}

/// A template of a managed file.
#[derive(Clone, Debug)]
pub struct FileTemplate {
    /// Its environment.
    pub env: String,
    /// Its path in the tree, or on the host.
    pub path: String,
    /// Its text.
    pub source: String,
    /// `defaults` and `context` of the state, merged.
    pub variables: Map,
}

/// Functions that show arguments they do not know to their templates, as Salt's take `**kwargs`.
const TEMPLATED: [(&str, &str); 5] =
    [("file", "managed"), ("file", "recurse"), ("cmd", "script"), ("cron", "file"), ("debconf", "set_file")];

/// The descriptions of these modules: what they know.
static DESCRIBED: Schema = Schema::new(&[
    ("cmd", include_str!("cmd/description.txt")),
    ("cron", include_str!("cron/description.txt")),
    ("debconf", include_str!("debconf/description.txt")),
    ("file", include_str!("file/description.txt")),
]);

/// What `file.recurse` keeps from the files it manages.
const KEPT_BY_RECURSE: [&str; 2] = ["mode", "makedirs"];

/// The arguments of a state that only its template reads.
pub(crate) fn extra_variables(args: &ChunkArgs<'_>) -> Map {
    static TABLES: LazyLock<Vec<((&str, &str), ParamTable)>> = LazyLock::new(|| {
        let table =
            |f: &(&'static str, &'static str)| Some((*f, ParamTable::new(DESCRIBED.function(f.0, f.1)?)));
        TEMPLATED.iter().filter_map(table).collect()
    });
    let called = (&*args.chunk.state, &*args.chunk.fun);
    let Some((_, table)) = TABLES.iter().find(|(function, _)| *function == called) else {
        return Map::new();
    };
    let is_extra = |key: &str| {
        !key.starts_with("__") && !table.is_named(key) && !KEPT_BY_RECURSE.contains(&key) && key != "env"
    };
    let extra = args.chunk.args.iter().filter(|(key, _)| key.as_str().is_some_and(is_extra));
    extra.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The variables of a template: what only it reads, then `defaults`, then `context`.
pub(crate) fn template_variables(args: &ChunkArgs<'_>) -> Result<Map, crate::StateError> {
    let mut variables = extra_variables(args);
    for key in ["defaults", "context"] {
        for (key, value) in args.map(key)?.unwrap_or_default().iter() {
            variables.insert(key.clone(), value.clone());
        }
    }
    Ok(variables)
}

/// What Salt takes for a file that is no text, of its first bytes: it copies such a file as it is.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    /// As many bytes as Salt looks at.
    const LOOKED_AT: usize = 2048;
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    if head.is_empty() || head.contains(&0) {
        return !head.is_empty();
    }
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character that is cut off at the end.
        Err(error) => error.error_len().is_none(),
    };
    let is_text = |b: &u8| {
        matches!(b, 32..=126 | b'\n' | b'\r' | b'\t' | 0x0c | 0x08) || (is_utf8 && (128..255).contains(b))
    };
    let odd = head.iter().filter(|b| !is_text(b)).count();
    odd * 10 > head.len() * 3
}

#[cfg(test)]
mod tests {
    use super::is_binary;

    #[test]
    fn what_salt_takes_for_no_text() {
        let table: [(&[u8], bool); 6] = [
            (b"", false),
            (b"text\n", false),
            (b"\x89PNG\0", true),
            ("käse".as_bytes(), false),
            (b"k\xe4se und mehr", false),
            (b"\xff\xfe\xfd\xfcab", true),
        ];
        for (bytes, expected) in table {
            assert_eq!(is_binary(bytes), expected, "{bytes:?}");
        }
    }
}

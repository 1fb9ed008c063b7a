//! `file.*` on path text only: POSIX paths as Python's `posixpath` splits and joins them.

use zagent_config::Value as Data;

use super::files::text_arg;
use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("file.dirname", "path", |_, args| Ok(parent(text_arg(args, "path")?).into())),
    data_function("file.basename", "path", |_, args| Ok(base(text_arg(args, "path")?).into())),
    data_function("file.normpath", "path", |_, args| Ok(normalize(text_arg(args, "path")?).into())),
    data_function("file.pardir", "", |_, _| Ok("..".into())),
    data_function("file.join", "a *", file_join),
];

fn file_join(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let mut parts = vec![text_arg(args, "a")?];
    for part in args.rest() {
        let text = part.as_str();
        parts.push(text.ok_or_else(|| {
            FunctionError::bad_arguments(format!("`file.join` needs text arguments, not {}", part.kind()))
        })?);
    }
    Ok(join(parts).into())
}

/// Everything before the last slash; trailing slashes are removed, unless it is all slashes.
pub(super) fn parent(path: &str) -> &str {
    let head = path.rfind('/').map_or("", |i| &path[..=i]);
    let cut = head.trim_end_matches('/');
    if cut.is_empty() { head } else { cut }
}

/// Everything after the last slash.
fn base(path: &str) -> &str {
    path.rfind('/').map_or(path, |i| &path[i + 1..])
}

/// Joins; an absolute part replaces what is before it.
pub(super) fn join<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut out: Option<String> = None;
    for part in parts {
        match &mut out {
            Some(path) if !part.starts_with('/') => {
                if !path.is_empty() && !path.ends_with('/') {
                    path.push('/');
                }
                path.push_str(part);
            }
            _ => out = Some(part.to_owned()),
        }
    }
    out.unwrap_or_default()
}

/// Without `.`, `..` and double slashes, from the text alone.
pub(super) fn normalize(path: &str) -> String {
    let root = match path.bytes().take_while(|b| *b == b'/').count() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|p| !p.is_empty() && *p != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if !root.is_empty() => {}
            _ => parts.push(part),
        }
    }
    let out = format!("{root}{}", parts.join("/"));
    if out.is_empty() { ".".into() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_joins_as_posixpath() {
        for (path, dir, name) in [
            ("/a/b/", "/a/b", ""),
            ("a", "", "a"),
            ("//a", "//", "a"),
            ("/", "/", ""),
            ("/a/b.c", "/a", "b.c"),
        ] {
            assert_eq!((parent(path), base(path)), (dir, name), "{path}");
        }
        for (parts, want) in [
            (&["a", "/b", "c"][..], "/b/c"),
            (&["/a/", "b//c", "."], "/a/b//c/."),
            (&["a", ""], "a/"),
            (&["a", "b"], "a/b"),
        ] {
            assert_eq!(join(parts.iter().copied()), want);
        }
        for (path, want) in [
            ("/a/../b//c/.", "/b/c"),
            ("../a/..", ".."),
            ("", "."),
            ("//a", "//a"),
            ("///a", "/a"),
            ("/..", "/"),
            ("a/../..", ".."),
        ] {
            assert_eq!(normalize(path), want, "{path}");
        }
    }
}

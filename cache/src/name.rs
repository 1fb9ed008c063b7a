//! A name from a tree in, a verdict out.
//!
//! Law: names come from whoever pushed; what could climb out of a directory, shadow Git's own files or trick a
//! terminal is refused.

use crate::Error;

/// One component of a path, as text that may be used.
pub(crate) fn component(raw: &[u8], parent: &str) -> Result<String, Error> {
    let full = || if parent.is_empty() { lossy(raw) } else { format!("{parent}/{}", lossy(raw)) };
    let refuse = |why| Err(Error::Name { name: full(), why });
    let Ok(name) = std::str::from_utf8(raw) else {
        return refuse("not UTF-8");
    };
    if name.is_empty() {
        return refuse("empty");
    }
    if name == "." || name == ".." {
        return refuse("climbs out");
    }
    if name.contains('/') || name.contains('\\') {
        return refuse("a separator inside a name");
    }
    if name.chars().any(char::is_control) {
        return refuse("a control character");
    }
    if is_dot_git(name) {
        return refuse("shadows Git's own directory");
    }
    Ok(name.to_owned())
}

/// `.git` in any case, also with the dots and blanks that some file systems drop.
fn is_dot_git(name: &str) -> bool {
    name.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(".git")
}

fn lossy(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

/// Where a link at `link` that points at `target` leads, from the root of the tree; `None` when it leaves it.
pub(crate) fn follow(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut at: Vec<&str> = link.split('/').collect();
    at.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                at.pop()?;
            }
            name => at.push(name),
        }
    }
    Some(at.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        for raw in [
            b"".as_slice(),
            b".",
            b"..",
            b".git",
            b".GIT",
            b".git.",
            b".Git ",
            b"a/b",
            b"a\\b",
            b"a\nb",
            b"\x1b[2J",
            b"\xff\xfe",
        ] {
            assert!(component(raw, "states").is_err(), "{raw:?}");
        }
        for raw in ["top.sls", ".gitignore", ".gitattributes", "ünï", "a b", "git"] {
            assert_eq!(component(raw.as_bytes(), "").unwrap(), raw);
        }
    }

    #[test]
    fn links_are_followed_inside_the_tree_only() {
        for (link, target, want) in [
            ("a/b", "c", Some("a/c")),
            ("a/b", "../c", Some("c")),
            ("a/b", "./c//d", Some("a/c/d")),
            ("a/b", "../../c", None),
            ("b", "..", None),
            ("a/b", "/etc/passwd", None),
            ("a/b", "x/../../y", Some("y")),
        ] {
            assert_eq!(follow(link, target).as_deref(), want, "{link} -> {target}");
        }
    }
}

//! A name from a tree in, a verdict out.
//!
//! Law: names come from anyone who can push; a name that could leave a directory, imitate Git's own files or
//! mislead a terminal is refused (held by `hostile_names_are_refused`).

use crate::RepositoryError;

/// Maximum bytes of one name, as on every file system.
const MAX_COMPONENT: usize = 255;
/// Maximum bytes of one path from the root of the tree: leaves room for the cache path below the system limit of 4096.
const MAX_PATH: usize = 1024;

/// One path component as checked text.
pub(crate) fn check_component(raw: &[u8], parent: &str) -> Result<String, RepositoryError> {
    let full = || if parent.is_empty() { lossy(raw) } else { format!("{parent}/{}", lossy(raw)) };
    let refuse = |why| Err(RepositoryError::Name { name: full(), why });
    let Ok(name) = std::str::from_utf8(raw) else {
        return refuse("it is not UTF-8");
    };
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name == "." || name == ".." {
        return refuse("it is `.` or `..`");
    }
    if name.contains('/') || name.contains('\\') {
        return refuse("it contains a path separator");
    }
    if name.chars().any(char::is_control) {
        return refuse("it contains a control character");
    }
    if name.chars().any(is_bidi_control) {
        return refuse("it contains a character that changes the text direction");
    }
    if is_dot_git(name) {
        return refuse("it imitates Git's own directory");
    }
    if name.len() > MAX_COMPONENT {
        return refuse("it is longer than 255 bytes");
    }
    if parent.len() + 1 + name.len() > MAX_PATH {
        return refuse("the path is longer than 1024 bytes");
    }
    Ok(name.to_owned())
}

/// The text of a symlink target, if it is acceptable.
pub(crate) fn check_target<'r>(raw: &'r [u8], link: &str) -> Result<&'r str, RepositoryError> {
    let refuse = |why| Err(RepositoryError::Target { path: link.into(), why });
    let Ok(target) = std::str::from_utf8(raw) else {
        return refuse("it is not UTF-8");
    };
    if target.is_empty() {
        return refuse("it is empty");
    }
    if target.len() > MAX_PATH {
        return refuse("it is longer than 1024 bytes");
    }
    if target.contains('\\') {
        return refuse("it contains a backslash");
    }
    if target.chars().any(|c| c.is_control() || is_bidi_control(c)) {
        return refuse("it contains a control character");
    }
    Ok(target)
}

/// `.git` in any case, and all names that file systems treat as `.git`: with trailing dots or blanks, streams, short
/// names, or zero-width characters.
fn is_dot_git(name: &str) -> bool {
    let seen: String = name.chars().filter(|c| !is_ignored(*c)).flat_map(char::to_lowercase).collect();
    let seen = seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let short =
        seen.strip_prefix("git~").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    seen == ".git" || short
}

/// Characters that HFS+ ignores when it compares names, and other zero-width characters.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Characters that make a terminal display a different name.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn lossy(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
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
            b"git~1",
            b"GIT~12",
            b".git::$INDEX_ALLOCATION",
            b".git . .",
            ".g\u{200c}it".as_bytes(),
            "\u{feff}.git".as_bytes(),
            ".gi\u{2060}t ".as_bytes(),
            "a\u{202e}sls.b".as_bytes(),
            "\u{85}".as_bytes(),
            &[b'x'; 256],
        ] {
            assert!(check_component(raw, "states").is_err(), "{raw:?}");
        }
        assert!(check_component(b"x", &"d/".repeat(512)).is_err(), "a path of 1026 bytes");
        let long = "x".repeat(255);
        for raw in
            ["top.sls", ".gitignore", ".gitattributes", "ünï", "a b", "git", "git~", "git~x", "a:b", &long]
        {
            assert_eq!(check_component(raw.as_bytes(), "").unwrap(), raw);
        }
    }

    #[test]
    fn targets_of_links_are_text() {
        assert_eq!(check_target(b"../a b/c", "l").unwrap(), "../a b/c");
        for raw in [b"".as_slice(), b"\xff", b"a\0b", b"a\nb", b"..\\x", &[b'a'; 1025]] {
            assert!(matches!(check_target(raw, "l"), Err(RepositoryError::Target { .. })), "{raw:?}");
        }
    }
}

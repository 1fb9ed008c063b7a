//! OpenSSH pattern lists: `*` and `?`, separated by commas, `!` for exclusions.

/// True when the list matches the name: one pattern does, and none with `!`.
pub(super) fn list_matches(list: &str, name: &str) -> bool {
    let mut found = false;
    for pattern in list.split(',') {
        match pattern.strip_prefix('!') {
            Some(not) if matches(not, name) => return false,
            Some(_) => {}
            None => found |= matches(pattern, name),
        }
    }
    found
}

/// True when a pattern matches a name; linear except for the last star.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    (p, n) = (after, from + 1);
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// True when the text contains no wildcard.
pub(super) fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_openssh_reads_them() {
        for (list, name, want) in [
            ("alice", "alice", true),
            ("alice", "ALICE", false),
            ("alice,bob", "bob", true),
            ("*@example.org", "a@example.org", true),
            ("*@example.org", "a@example.com", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*,!alice", "alice", false),
            ("!alice,*", "alice", false),
            ("!alice", "bob", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("**", "x", true),
            (" x", "x", false),
        ] {
            assert_eq!(list_matches(list, name), want, "{list:?} {name:?}");
        }
    }
}

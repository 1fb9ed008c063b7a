//! The conformance suite: a way to open one more client of a board in, a panic out unless the board keeps its laws.

use std::collections::BTreeSet;

use zagent_rollout::board::{Board, BoardEntry, BoardError, BoardWrite, VersionToken};

/// Opens one more client of the same board.
pub(crate) type Make<'a> = &'a (dyn Fn() -> Box<dyn Board> + Sync);

/// Runs all checks on a board that is empty at the start.
pub(crate) fn conforms(make: Make<'_>) {
    created_read_and_replaced(make);
    a_writer_without_the_token_does_not_replace_the_value(make);
    lists_go_by_prefix_and_by_key(make);
    deleted_is_deleted_and_a_token_never_comes_back(make);
    values_are_kept_byte_by_byte(make);
    invalid_keys_are_refused(make);
    a_note_does_not_change_the_value(make);
    two_writers_lose_nothing(make);
}

/// A short version, for another transport of a board that passed all checks: a slow one.
pub(crate) fn conforms_in_short(make: Make<'_>) {
    a_writer_without_the_token_does_not_replace_the_value(make);
    values_are_kept_byte_by_byte(make);
}

/// A write that replaces a known value.
pub(crate) fn write<'a>(value: &'a [u8], expected: Option<&'a VersionToken>) -> BoardWrite<'a> {
    BoardWrite { value, expected, note: "a note", lasting: true }
}

fn is_conflict<T>(result: Result<T, BoardError>) -> bool {
    matches!(result, Err(BoardError::Conflict { .. }))
}

fn created_read_and_replaced(make: Make<'_>) {
    for key in ["rollout/one", "node/agent/web-01", "lease/x"] {
        let mut board = make();
        assert_eq!(board.get(key).unwrap(), None, "{key}");
        let first = board.put(key, write(b"one", None)).unwrap();
        let entry = |value: &[u8], token: &VersionToken| {
            Some(BoardEntry { value: value.to_vec(), token: token.clone() })
        };
        assert_eq!(board.get(key).unwrap(), entry(b"one", &first), "{key}");
        let second = board.put(key, write(b"two", Some(&first))).unwrap();
        assert_ne!(first, second, "{key}");
        // Another client, and one that is opened later, see the same and can continue from there.
        let mut other = make();
        assert_eq!(other.get(key).unwrap(), entry(b"two", &second), "{key}");
        let third = other.put(key, BoardWrite { lasting: false, ..write(b"three", Some(&second)) }).unwrap();
        assert_eq!(board.get(key).unwrap(), entry(b"three", &third), "{key}");
        drop((board, other));
        let mut later = make();
        assert_eq!(later.get(key).unwrap(), entry(b"three", &third), "{key}");
        let fourth = later.put(key, BoardWrite { lasting: false, ..write(b"four", Some(&third)) }).unwrap();
        let fifth = later.put(key, write(b"five", Some(&fourth))).unwrap();
        assert_eq!(make().get(key).unwrap(), entry(b"five", &fifth), "{key}");
        later.delete(key, &fifth).unwrap();
    }
}

fn a_writer_without_the_token_does_not_replace_the_value(make: Make<'_>) {
    for key in ["rollout/two", "node/agent/two"] {
        let (mut a, mut b) = (make(), make());
        let first = a.put(key, write(b"one", None)).unwrap();
        assert!(is_conflict(b.put(key, write(b"x", None))), "{key}: created twice");
        let second = b.put(key, write(b"two", Some(&first))).unwrap();
        assert!(is_conflict(a.put(key, write(b"x", Some(&first)))), "{key}: an old token");
        assert!(is_conflict(a.delete(key, &first)), "{key}: deleted with an old token");
        let nowhere = "node/agent/nowhere";
        assert!(is_conflict(a.put(nowhere, write(b"x", Some(&second)))), "a missing value");
        assert_eq!(a.get(nowhere).unwrap(), None);
        assert_eq!(a.get(key).unwrap().unwrap().value, b"two", "{key}: a refused write left something");
        a.delete(key, &second).unwrap();
    }
}

fn lists_go_by_prefix_and_by_key(make: Make<'_>) {
    let mut board = make();
    let keys = ["node/agent/b", "node/agent/a", "node/agent/ab", "node/states/a", "rollout/r1", "rollout/r2"];
    let mut tokens = Vec::new();
    for key in keys {
        tokens.push((key, board.put(key, write(key.as_bytes(), None)).unwrap()));
    }
    let mut reader = make();
    for (prefix, want) in [
        ("node/agent/", vec!["node/agent/a", "node/agent/ab", "node/agent/b"]),
        ("node/agent/a", vec!["node/agent/a", "node/agent/ab"]),
        ("node/", vec!["node/agent/a", "node/agent/ab", "node/agent/b", "node/states/a"]),
        ("rollout/", vec!["rollout/r1", "rollout/r2"]),
        ("rollout/r2", vec!["rollout/r2"]),
        ("nobody/", vec![]),
    ] {
        for again in 0..2 {
            let found = reader.list(prefix).unwrap();
            let names: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(names, want, "{prefix} {again}");
            for (key, entry) in &found {
                assert_eq!(entry.value, key.as_bytes());
                let known = tokens.iter().find(|(name, _)| name == key).map(|(_, token)| token);
                assert_eq!(Some(&entry.token), known, "{key}");
            }
        }
    }
    assert_eq!(reader.list("").unwrap().len(), keys.len());
    // Changes between two lists are in the second: a changed value, a deleted one, a new one.
    let (key, token) = &tokens[0];
    let changed = board.put(key, write(b"changed", Some(token))).unwrap();
    board.delete("node/agent/a", &tokens[1].1).unwrap();
    let new = board.put("node/agent/c", write(b"new", None)).unwrap();
    let found = reader.list("node/agent/").unwrap();
    let seen: Vec<_> = found.iter().map(|(key, entry)| (key.as_str(), entry.value.as_slice())).collect();
    let want: Vec<(&str, &[u8])> =
        vec![("node/agent/ab", b"node/agent/ab"), ("node/agent/b", b"changed"), ("node/agent/c", b"new")];
    assert_eq!(seen, want);
    tokens[0].1 = changed;
    tokens.remove(1);
    tokens.push(("node/agent/c", new));
    for (key, token) in tokens {
        board.delete(key, &token).unwrap();
    }
    assert_eq!(reader.list("").unwrap(), vec![]);
}

fn deleted_is_deleted_and_a_token_never_comes_back(make: Make<'_>) {
    for key in ["rollout/gone", "node/agent/gone"] {
        let mut board = make();
        let first = board.put(key, write(b"same", None)).unwrap();
        let second = board.put(key, write(b"other", Some(&first))).unwrap();
        let third = board.put(key, write(b"same", Some(&second))).unwrap();
        assert_ne!(first, third, "{key}: the same bytes again are another version");
        board.delete(key, &third).unwrap();
        assert_eq!(make().get(key).unwrap(), None);
        board.delete(key, &third).unwrap();
        assert!(is_conflict(board.put(key, write(b"x", Some(&third)))), "{key}: replaced what is gone");
        let again = board.put(key, write(b"again", None)).unwrap();
        board.delete(key, &again).unwrap();
    }
}

fn values_are_kept_byte_by_byte(make: Make<'_>) {
    let mut board = make();
    let large: Vec<u8> = (0..512 * 1024_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let text = "ä\nb".repeat(50_000).into_bytes();
    for value in [&b""[..], b"\0\xff\r\n", &large, &text] {
        let token = board.put("node/agent/bytes", write(value, None)).unwrap();
        assert!(make().get("node/agent/bytes").unwrap().unwrap().value == value, "{} bytes", value.len());
        board.delete("node/agent/bytes", &token).unwrap();
    }
}

fn invalid_keys_are_refused(make: Make<'_>) {
    let mut board = make();
    let long = "x".repeat(300);
    let deep = "x/".repeat(1000);
    let bad = ["", "/", "a//b", "/a", "a/", "..", "a/../b", ".git/x", "a\nb", "a b", "-x", "a/-x", "x.lock"];
    let more = ["a\0b", "@{u}", "a~1", "a^", "a:b", "a?", "a*", "[a", "a\\b", "a.", "a>b", "$x", "rollout/"];
    for key in bad.into_iter().chain(more).chain([long.as_str(), deep.as_str()]) {
        let token = VersionToken("0".repeat(40));
        let refused = |error: BoardError| matches!(error, BoardError::Refused { .. });
        assert!(board.get(key).is_err_and(refused), "{key:?} is read");
        assert!(board.put(key, write(b"x", None)).is_err_and(refused), "{key:?} is written");
        assert!(board.delete(key, &token).is_err_and(refused), "{key:?} is deleted");
    }
    for token in ["", "x", "../x", "\n", "0", "ffffffffffffffffffffffffffffffffffffffff"] {
        let token = VersionToken(token.into());
        assert!(is_conflict(board.put("node/agent/x", write(b"x", Some(&token)))), "{token:?}");
    }
    assert_eq!(board.list("").unwrap(), vec![]);
}

fn a_note_does_not_change_the_value(make: Make<'_>) {
    let mut board = make();
    for note in
        ["", "\n\n", "two\n\nLasting: no\n", "tab\tand \0 zero", &"long ".repeat(1000), "tree 0\nparent 0"]
    {
        let key = "rollout/noted";
        let first = board.put(key, BoardWrite { note, ..write(b"one", None) }).unwrap();
        let second = board.put(key, BoardWrite { note, ..write(b"two", Some(&first)) }).unwrap();
        assert_eq!(make().get(key).unwrap().unwrap().value, b"two", "{note:?}");
        board.delete(key, &second).unwrap();
    }
}

fn two_writers_lose_nothing(make: Make<'_>) {
    for (key, lasting) in [("rollout/race", true), ("rollout/beat", false), ("node/agent/race", false)] {
        let token = make().put(key, write(b"", None)).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                scope.spawn(move || {
                    let mut board = make();
                    for n in 0..25 {
                        add(board.as_mut(), key, &format!("{writer}.{n}"), lasting);
                    }
                });
            }
        });
        let entry = make().get(key).unwrap().unwrap();
        assert_ne!(entry.token, token);
        let text = String::from_utf8(entry.value).unwrap();
        let words: BTreeSet<_> = text.split_whitespace().collect();
        assert_eq!((text.split_whitespace().count(), words.len()), (50, 50), "{key}: {text}");
        make().delete(key, &entry.token).unwrap();
    }
}

/// Adds a word to a value, and repeats it until there was no conflict.
fn add(board: &mut dyn Board, key: &str, word: &str, lasting: bool) {
    for _ in 0..1000 {
        let entry = board.get(key).unwrap().unwrap();
        let text = String::from_utf8(entry.value).unwrap();
        if text.split_whitespace().any(|known| known == word) {
            return;
        }
        let value = format!("{text} {word}");
        let write = BoardWrite { lasting, ..write(value.as_bytes(), Some(&entry.token)) };
        match board.put(key, write) {
            Ok(_) => return,
            Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("`{word}` never got through");
}

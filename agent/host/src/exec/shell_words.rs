//! A command line in, its words out; and whether a shell would do more with it than start a program.
//!
//! Law: where there is any doubt the line goes to the shell (held by `what_a_shell_would_touch_goes_to_the_shell`).

/// Words that a shell does not look up: it does them itself, or they are its grammar. The few that also are programs of
/// the same meaning (`true`, `false`, `test`, `[`) are left out.
const SHELL_BUILTINS: [&str; 76] = [
    "!",
    ".",
    ":",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "print",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// What `test` understands alike, be it the shell's own or the program.
const TEST_OPERATORS: [&str; 33] = [
    "!=", "-G", "-L", "-O", "-S", "-a", "-b", "-c", "-d", "-e", "-ef", "-eq", "-f", "-g", "-ge", "-gt", "-h",
    "-k", "-le", "-lt", "-n", "-ne", "-nt", "-o", "-ot", "-p", "-r", "-s", "-t", "-u", "-w", "-x", "-z",
];

/// Splits a command line into words as a POSIX shell does, without expanding anything; `None` for an open quotation.
#[must_use]
pub fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let inside = word.get_or_insert_with(String::new);
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => inside.push(c),
                    }
                }
            }
            '"' => {
                let inside = word.get_or_insert_with(String::new);
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            c @ ('"' | '\\') => inside.push(c),
                            c => inside.extend(['\\', c]),
                        },
                        c => inside.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_with(String::new).push(chars.next()?),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_with(String::new).push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// The words of a line with which a shell would do nothing but look up and start the first; `None` for any other.
#[must_use]
pub fn split_without_shell(line: &str) -> Option<Vec<String>> {
    if !line.chars().all(is_literal_char) || !quotes_are_simple(line) {
        return None;
    }
    let words = split(line)?;
    let first = words.first()?;
    let is_test = first == "[" || first == "test";
    // Brackets and an exclamation mark are plain only as words of a test.
    let odd =
        |w: &String| w.contains(['[', ']', '!']) && !(is_test && matches!(&**w, "[" | "]" | "!" | "!="));
    let dialect =
        |w: &String| w == "==" || w.starts_with('-') && TEST_OPERATORS.binary_search(&&**w).is_err();
    if is_test && words.iter().any(dialect) {
        return None;
    }
    if first.contains('=') || SHELL_BUILTINS.binary_search(&&**first).is_ok() || words.iter().any(odd) {
        return None;
    }
    Some(words)
}

/// Characters without meaning to a shell, wherever they stand; quotation marks are looked at apart.
fn is_literal_char(c: char) -> bool {
    c.is_alphanumeric() || " \t_-./:,@+%=[]!'\"".contains(c)
}

/// Both kinds of quotation, not mixed: inside one the other is a plain character, and nothing else can be special there.
fn quotes_are_simple(line: &str) -> bool {
    !(line.contains('\'') && line.contains('"'))
}

/// A program that reads a line as a POSIX shell does and nothing else before it.
#[must_use]
pub fn is_posix_shell(shell: &str) -> bool {
    let name = shell.rsplit('/').next().unwrap_or_default();
    matches!(name, "sh" | "dash" | "ash" | "bash" | "ksh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(SHELL_BUILTINS.windows(2).all(|w| w[0] < w[1]));
        assert!(TEST_OPERATORS.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn plain_lines_are_their_words() {
        for (line, words) in [
            ("/bin/true", &["/bin/true"][..]),
            ("  id -u\troot ", &["id", "-u", "root"]),
            ("test -f '/a b'", &["test", "-f", "/a b"]),
            ("[ ! -f /x ]", &["[", "!", "-f", "/x", "]"]),
            ("test a != b", &["test", "a", "!=", "b"]),
            ("grep -q \"it is\" /etc/motd", &["grep", "-q", "it is", "/etc/motd"]),
            ("date +%s", &["date", "+%s"]),
            ("env A=1 printenv", &["env", "A=1", "printenv"]),
        ] {
            assert_eq!(
                split_without_shell(line).as_deref(),
                Some(&*words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()),
                "{line}"
            );
        }
    }

    #[test]
    fn what_a_shell_would_touch_goes_to_the_shell() {
        for line in [
            "",
            "   ",
            "a | b",
            "a && b",
            "a; b",
            "a > b",
            "echo $A",
            "a `b`",
            "ls *",
            "ls ?",
            "ls [a]",
            "ls ~",
            "A=1 b",
            "! true",
            "cd /",
            "command -v x",
            "type x",
            "exit 3",
            "if true",
            "a # b",
            "a\nb",
            "a \\b",
            "'a",
            "{ a",
            "(a)",
            "a 'b\"' \"c\"",
            ". /x",
            ": x",
            "kill 1",
            "time x",
            "echo x",
            "ls a!",
            "test a == b",
            "test -v HOME",
        ] {
            assert_eq!(split_without_shell(line), None, "{line:?}");
        }
    }

    #[test]
    fn shells() {
        for (shell, want) in
            [("/bin/sh", true), ("/usr/bin/bash", true), ("/bin/zsh", false), ("/usr/bin/python3", false)]
        {
            assert_eq!(is_posix_shell(shell), want, "{shell}");
        }
    }
}

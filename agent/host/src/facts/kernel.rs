//! `uname` and the boot command line into the facts about the kernel.

use zagent_config::{Map, Value};

use super::Facts;

pub(crate) const NAMES: &[&str] = &["kernel", "nodename", "kernelrelease", "kernelversion", "cpuarch"];
pub(crate) const PARAMETERS: &[&str] = &["kernelparams"];

pub(crate) fn collect(facts: &Facts) -> Map {
    let uname = facts.sources.system.uname();
    Map::from_iter([
        ("kernel", uname.kernel),
        ("nodename", uname.nodename),
        ("kernelrelease", uname.release),
        ("kernelversion", uname.version),
        ("cpuarch", uname.machine),
    ])
}

pub(crate) fn parameters(facts: &Facts) -> Map {
    let words = facts.tree.read_text("/proc/cmdline").and_then(|line| shell_words(&line));
    let pairs = words.map(|words| words.iter().map(|w| pair(w)).collect::<Value>());
    pairs.map(|pairs| Map::from_iter([("kernelparams", pairs)])).unwrap_or_default()
}

/// `[name, value]`; as in Salt a word with more than one `=` has no value.
fn pair(word: &str) -> Value {
    let mut parts = word.split('=');
    let name = parts.next().unwrap_or_default();
    let value = match (parts.next(), parts.next()) {
        (Some(value), None) => Value::from(value.trim_matches('"')),
        _ => Value::Null,
    };
    vec![name.into(), value].into()
}

/// Splits as a POSIX shell does, without expansions; `None` when a quote is left open.
pub(crate) fn shell_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => match chars.next()? {
                c @ ('"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;
    use super::*;

    #[test]
    fn uname_becomes_facts() {
        FactsFixture::new().expect(
            r##"{"kernel": "Linux", "nodename": "web-01", "kernelrelease": "6.1.0-37-amd64",
                "kernelversion": "#1 SMP Debian 6.1.140-1", "cpuarch": "x86_64", "kernelparams": null}"##,
        );
    }

    #[test]
    fn the_command_line_becomes_pairs() {
        FactsFixture::new().file("/proc/cmdline", "root=UUID=1-2 ro quiet console=ttyS0,115200 dyndbg=\"file a.c +p\" e=\n").expect(
            r#"{"kernelparams": [["root", null], ["ro", null], ["quiet", null], ["console", "ttyS0,115200"],
                ["dyndbg", "file a.c +p"], ["e", ""]]}"#,
        );
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        for (line, want) in [
            ("a  b\n", Some(vec!["a", "b"])),
            ("'a b'c \"d \\\" \\x\" e\\ f ''", Some(vec!["a bc", "d \" \\x", "e f", ""])),
            ("a 'b", None),
            ("a \"b", None),
            ("a\\", None),
            ("", Some(vec![])),
        ] {
            assert_eq!(
                shell_words(line).as_deref(),
                want.as_deref().map(|w| w.iter().map(|s| s.to_string()).collect::<Vec<_>>()).as_deref(),
                "{line}"
            );
        }
    }
}

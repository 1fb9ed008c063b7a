//! A text in, a plausibly broken text out; and random sequences of the words of a language.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// One way to break a text. Positions are fractions of its length in 65536ths, so that they fit every text.
#[derive(Clone, Debug)]
pub enum Damage {
    /// A line is removed.
    DropLine(u16),
    /// A line is repeated.
    RepeatLine(u16),
    /// Two lines are swapped.
    SwapLines(u16, u16),
    /// A line is indented or unindented.
    Indent(u16, bool),
    /// A word is inserted.
    Insert(u16, &'static str),
    /// A range of characters is removed.
    Cut(u16, u8),
    /// A range of characters is repeated elsewhere.
    Graft(u16, u8, u16),
}

/// Words with a meaning in SLS files, in YAML or in Jinja.
#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    ": ", "- ", "\n", "\n  ", "\n    - ", "'", "\"", "[", "]", "{", "}", ",", "&a ", "*a", "<<: ", "!!str ", "!!int ", "!!omap ",
    "|\n", ">-\n", "---\n", "...\n", "# ", "%", "? ", "~", "null", "yes", "0644", "0x1f", "12:30", "1e3", ".inf", ".nan",
    "99999999999999999999", "{{ ", " }}", "{% ", " %}", "{%- ", "-%}", "{# ", " #}", "{% if x %}", "{% endif %}",
    "{% for i in range(9) %}", "{% endfor %}", "{% set x = ", "{% macro m(a) %}", "{% endmacro %}", "{% raw %}", "{% endraw %}",
    "{% do x.append(x) %}", "{{ x }}", "{{ grains }}", "{{ pillar | json }}", "{{ salt['pillar.get']('a:b') }}",
    "{% include 't.sls' %}", "{% import 't.sls' as t %}", "{% from 'a.sls' import b with context %}", " | yaml", " | json",
    " | join(',')", " | default(1)", " | length", " is defined", "loop.index", "namespace(a=1)", "range(999999999)",
    "'a' * 999999999", "[[]] * 99999", "include:\n  - ", "extend:\n  ", "exclude:\n  - ", "require:\n", "require_in: ",
    "watch: [", "prereq: ", "use: ", "listen_in: ", "names: [a, b]", "order: ", "first", "last", "test.nop", "file.managed:\n",
    "sls: ", "id: ", "a", "b*", "t", ".", "..", ".x", "*", "base: ", "top", "\t", "\r\n", "\u{0}", "\u{7f}", "\u{feff}",
    "\u{2028}", "é", "日本", "#!yaml\n", "#!jinja|json\n", "#!py\n", "#!gpg|age\n", "match: ", "compound", "G@os:*", "I@", "E@(",
    "S@1.2.3.4/", "N@n", "not ", " and ", " or ", "( ", " )",
];

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<u16>().prop_map(Damage::DropLine),
        any::<u16>().prop_map(Damage::RepeatLine),
        any::<(u16, u16)>().prop_map(|(a, b)| Damage::SwapLines(a, b)),
        any::<(u16, bool)>().prop_map(|(at, right)| Damage::Indent(at, right)),
        (any::<u16>(), select(WORDS)).prop_map(|(at, word)| Damage::Insert(at, word)),
        any::<(u16, u8)>().prop_map(|(at, length)| Damage::Cut(at, length)),
        any::<(u16, u8, u16)>().prop_map(|(from, length, to)| Damage::Graft(from, length, to)),
    ]
}

/// A few damages for one text.
pub fn damages() -> impl Strategy<Value = Vec<Damage>> {
    vec(damage(), 1..6)
}

/// A random sequence of the words of `language`, with some other text in between.
pub fn soup(language: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![8 => select(language).prop_map(str::to_owned), 1 => ".{0,4}"];
    vec(word, 0..40).prop_map(|words| words.concat())
}

/// `text` after the damages.
pub fn break_text(text: &str, damages: &[Damage]) -> String {
    damages.iter().fold(text.to_owned(), |text, damage| apply(&text, damage))
}

fn apply(text: &str, damage: &Damage) -> String {
    match *damage {
        Damage::DropLine(at) => edit_lines(text, |lines| {
            lines.remove(place(at, lines.len()));
        }),
        Damage::RepeatLine(at) => edit_lines(text, |lines| {
            lines.insert(place(at, lines.len()), lines[place(at, lines.len())].clone());
        }),
        Damage::SwapLines(a, b) => edit_lines(text, |lines| {
            let count = lines.len();
            lines.swap(place(a, count), place(b, count));
        }),
        Damage::Indent(at, right) => edit_lines(text, |lines| {
            let line = place(at, lines.len());
            lines[line] =
                if right { format!("  {}", lines[line]) } else { lines[line].chars().skip(1).collect() };
        }),
        Damage::Insert(at, word) => edit_chars(text, |chars| {
            let at = place(at, chars.len());
            chars.splice(at..at, word.chars());
        }),
        Damage::Cut(at, length) => edit_chars(text, |chars| {
            chars.drain(stretch(at, length, chars.len()));
        }),
        Damage::Graft(from, length, to) => edit_chars(text, |chars| {
            let piece: Vec<char> = chars[stretch(from, length, chars.len())].to_vec();
            let to = place(to, chars.len());
            chars.splice(to..to, piece);
        }),
    }
}

fn place(at: u16, length: usize) -> usize {
    usize::from(at) * length / (usize::from(u16::MAX) + 1)
}

fn stretch(at: u16, length: u8, of: usize) -> std::ops::Range<usize> {
    let start = place(at, of);
    start..(start + usize::from(length)).min(of)
}

fn edit_lines(text: &str, edit: impl FnOnce(&mut Vec<String>)) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if !lines.is_empty() {
        edit(&mut lines);
    }
    lines.concat()
}

fn edit_chars(text: &str, edit: impl FnOnce(&mut Vec<char>)) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    edit(&mut chars);
    chars.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_damage_does_what_its_name_says() {
        let text = "one\ntwo\nthree\n";
        for (damage, expected) in [
            (Damage::DropLine(0), "two\nthree\n"),
            (Damage::RepeatLine(u16::MAX), "one\ntwo\nthree\nthree\n"),
            (Damage::SwapLines(0, u16::MAX), "three\ntwo\none\n"),
            (Damage::Indent(0, true), "  one\ntwo\nthree\n"),
            (Damage::Indent(0, false), "ne\ntwo\nthree\n"),
            (Damage::Insert(0, "- "), "- one\ntwo\nthree\n"),
            (Damage::Cut(0, 4), "two\nthree\n"),
            (Damage::Graft(0, 4, 0), "one\none\ntwo\nthree\n"),
        ] {
            assert_eq!(apply(text, &damage), expected, "{damage:?}");
            apply("", &damage);
        }
    }
}

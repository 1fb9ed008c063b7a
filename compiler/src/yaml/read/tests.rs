//! The quick reader against the full one, and both against hostile texts.

use proptest::prelude::*;
use zagent_config::codes::limit;
use zagent_config::value::MapEntry;

use super::*;

/// The full result of a reader: values, their order, and positions.
fn dump_with_positions(value: &Value) -> String {
    match value {
        Value::List(list) => {
            let items: Vec<String> = list
                .iter()
                .enumerate()
                .map(|(i, v)| format!("{:?} {}", list.pos(i), dump_with_positions(v)))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |e: &MapEntry| {
                format!("{:?} {}: {}", e.at, dump_with_positions(&e.key), dump_with_positions(&e.value))
            };
            format!("{{{}}}", map.entries().iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        scalar => format!("{scalar:?}"),
    }
}

/// True when the quick reader was sure. Panics when it was sure and wrong.
fn agrees(text: &str) -> bool {
    let limits = TreeLimits::default();
    match quick::read(text, &limits) {
        Err(_) => false,
        Ok(quick) => {
            let full = load_full(text, &limits)
                .unwrap_or_else(|e| panic!("only the quick reader takes {text:?}: {e:?}"));
            assert_eq!(dump_with_positions(&quick), dump_with_positions(&full), "{text:?}");
            true
        }
    }
}

#[test]
fn the_quick_reader_reads_typical_states() {
    for text in [
        "",
        "\n# nothing\n",
        "---\na: 1\n",
        "# c\n---\n# c\na: 1",
        "a: b",
        "a:\n  b.c:\n    - name: x\n    - require:\n      - pkg: y\n",
        "a:\n- b\n- c\nd: e\n",
        "a: # c\n  - b # c\n  # c\n  -\n  - c: 1\n    d: 2\n",
        "- - a\n  - b\n- c\n",
        "-\n  - a\n-\n  b: c\n-\n",
        "a: |\n  text\n\n    more\n\nb: |-\n  x\nc: |+\n  y\n\n",
        "a: >\n  one\n  two\n\n  three\n   four\n  five\n",
        "a: |\n\n  text",
        "a: |\n  tab\there\n",
        "a: |\nb: 1\n",
        "a: 'it''s'\nb: \"x\\ty\\u00e9\\\\\"\n'c d': 1\n\"e\" : 2\n",
        "a: one\n  two\n\n  three # c\nb: c\n",
        "a: [1, 'b', \"c\", [d], {e: f, g}, {\"h\":i}]\nb: {}\nc: []\n",
        "a: [\n  b, # c\n  c,\n]\n",
        "é: [ü, {ö: ä}]",
        "a: http://x:80/y#z\nb: c:d\n",
        "2: a\nyes: b\n1.5: c\n",
        "a: 1\n...\n",
        "a:\n  b\n...",
        "a: -1\nb: -x\nc: --\n",
        "plain text\n  over lines",
        "'quoted'",
        "[a, b]",
        "|\n text\n",
    ] {
        assert!(agrees(text), "left to the full reader: {text:?}");
    }
}

#[test]
fn the_quick_reader_leaves_the_rest_to_the_full_reader() {
    for text in [
        "a: &x 1\nb: *x",
        "<<: {a: 1}",
        "a: !!str 1",
        "? a",
        "a: b: c",
        "a: 1\na: 2",
        "a:\tb",
        "\ta: b",
        "a: 1\r\n",
        "a: 1\n---\n",
        "a\n...\nb",
        "...",
        "%YAML 1.1\n---\na",
        "a: 'b\n  c'",
        "a: 'b' c",
        "a: |2\n   b",
        "[a: b]",
        "[a\n b]",
        "{a\n: b}",
        "a: 0x_",
        "a: =",
        "- a\nb: c",
        "a:\n  b: 1\n c: 2",
        "a: b\n # c\n  d",
        "a: [b",
        "a: 'b'#c",
        "a: \u{2028}b",
        "\u{feff}a: 1",
        "a: @b",
        "a: - b",
        "a: |\n    \n  b\n",
        "a: \"\\q\"",
        "a: {{ b }}",
    ] {
        assert!(!agrees(text), "{text:?}");
    }
}

/// Pieces that YAML is made of, and pieces that break it.
const PIECES: &[&str] = &[
    "a",
    "b",
    "key",
    "- ",
    ": ",
    ":",
    "\n",
    "\n  ",
    "\n    ",
    "\n - ",
    "\n- ",
    "  ",
    " ",
    "#",
    " # c",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ",",
    "|",
    ">",
    "|-",
    ">-",
    "|+",
    "&x ",
    "*x",
    "<<: ",
    "!!str ",
    "!",
    "? ",
    "~",
    "null",
    "1",
    "0644",
    "1.5",
    "yes",
    "\t",
    "---",
    "...",
    "---\n",
    "%",
    "@",
    "\\",
    "\\n",
    "é",
    "=",
    "-",
    "0x1f",
    "1:30",
    "\r\n",
    "x y",
    "\n\n",
    "{a: 1}",
    "[1, 2]",
    "name: v\n",
    "- name: v\n",
    "require:\n",
    "  - pkg: x\n",
    "k: |\n    text\n    more\n",
    "k: >\n  a\n  b\n\n  c\n",
    "\u{2028}",
    "\"a\\tb\"",
    "'it''s'",
    "http://x:80/y",
    "a#b",
    "  \n",
    "    # c\n",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|p| p.concat())
}

/// Documents that are nearly always YAML: nested blocks with common peculiarities.
fn block(indent: usize, depth: u32) -> BoxedStrategy<String> {
    let pad = " ".repeat(indent);
    let scalars = prop::sample::select(vec![
        "v",
        "1",
        "yes",
        "'s'",
        "\"q\"",
        "0644",
        "a b",
        "[x, y]",
        "{a: b}",
        "",
        "# c",
        "1.5",
        "é",
        "x # c",
        "|\n      text\n      more\n",
        ">-\n      one\n      two\n\n      three",
        "one\n      two",
        "[a,\n b]",
        "~",
    ]);
    let keys = prop::sample::select(vec!["a", "b", "c", "name", "'q k'", "1", "é", "x.y"]);
    let colon = prop::sample::select(vec![": ", ":  ", " : "]);
    let (p, q) = (pad.clone(), pad.clone());
    let pair = (keys.clone(), colon, scalars.clone()).prop_map(move |(k, c, v)| format!("{p}{k}{c}{v}\n"));
    let item = scalars.prop_map(move |v| format!("{q}- {v}\n"));
    if depth == 0 {
        return prop_oneof![prop::collection::vec(pair, 1..4), prop::collection::vec(item, 1..4)]
            .prop_map(|lines| lines.concat())
            .boxed();
    }
    let (p, q) = (pad.clone(), pad);
    let inner = prop_oneof![Just(0usize), Just(2), Just(2), Just(4)]
        .prop_flat_map(move |by| block(indent + by, depth - 1));
    let nested = (keys, inner).prop_map(move |(k, inner)| format!("{p}{k}:\n{inner}"));
    let compact =
        block(indent + 2, depth - 1).prop_map(move |inner| format!("{q}- {}", &inner[indent + 2..]));
    prop_oneof![
        prop::collection::vec(prop_oneof![pair, nested], 1..4),
        prop::collection::vec(prop_oneof![item, compact], 1..4),
    ]
    .prop_map(|lines| lines.concat())
    .boxed()
}

/// Eight times the usual number of cases, which `PROPTEST_CASES` sets for longer runs.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.saturating_mul(8), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_quick_reader_is_never_wrong_on_pieces(text in pieces()) {
        agrees(&text);
    }

    #[test]
    fn the_quick_reader_is_never_wrong_on_blocks(text in block(0, 3)) {
        agrees(&text);
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = load(&text, &TreeLimits::default());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(&String::from_utf8_lossy(&bytes), &TreeLimits::default());
    }

    #[test]
    fn no_ascii_panics_and_errors_have_a_position(text in "[ -~\n\t]{0,60}") {
        if let Err(error) = load(&text, &TreeLimits::default()) {
            prop_assert!(error.pos.is_known(), "{error:?}");
            prop_assert!(error.hint.is_some(), "{error:?}");
        }
    }
}

/// Tags, commas and their surroundings: without `tag_comma` the parser fails on some of these.
const TAGS: &[&str] = &[
    "!", "!!", "!x", "!<y>", "<", ",", ", ", " ", "[", "{", "]", "}", "a", "'", "\"", ":", ": ", "-", "&b ",
    "?", "%", "|\n", "\n", "\n ", "é", "\u{85}",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_parser_never_gives_up(text in prop_oneof![
        prop::collection::vec(prop::sample::select(TAGS), 0..16).prop_map(|p| p.concat()),
        pieces(),
    ]) {
        if let Err(error) = load_full(&text, &TreeLimits::default()) {
            prop_assert!(!error.message.contains("cannot read this text"), "{text:?}");
        }
    }
}

#[test]
fn limits_hold_in_both_readers() {
    let limits = TreeLimits { yaml_nodes: 100, yaml_depth: 10, ..TreeLimits::default() };
    let bomb: String = (0..10).map(|i| format!("a{}: &a{} [*a{i}, *a{i}, *a{i}]\n", i + 1, i + 1)).collect();
    for (text, want) in [
        ("- a\n".repeat(200), limit::YAML_NODES),
        ("- !!str a\n".repeat(200), limit::YAML_NODES),
        (format!("a0: &a0 x\n{bomb}"), limit::YAML_NODES),
        ("[".repeat(50), limit::YAML_DEPTH),
        (format!("!!seq {}", "[".repeat(50)), limit::YAML_DEPTH),
        ("- ".repeat(50), limit::YAML_DEPTH),
        ((0..50).map(|i| format!("{}a:\n", " ".repeat(i))).collect(), limit::YAML_DEPTH),
    ] {
        assert_eq!(load(&text, &limits).unwrap_err().code, want, "{text:?}");
    }
}

#[test]
fn aliases_share_their_value() {
    let value = load("a: &x [1, 2]\nb: *x\n", &TreeLimits::default()).unwrap();
    let (Some(Value::List(a)), Some(Value::List(b))) = (value.get("a"), value.get("b")) else {
        panic!("{value:?}")
    };
    assert!(std::sync::Arc::ptr_eq(a, b));
}

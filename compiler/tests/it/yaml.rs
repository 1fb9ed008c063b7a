//! Recorded results of Salt's loader and dumpers: zagent's reader and writers must give the same.
//!
//! `yaml/NAME.yaml` is read and compared with `NAME.json`; each line of `texts.jsonl` is a text and its value or error;
//! each line of `values.jsonl` is a value and its written forms. In the tables an integer is `{"i": "1"}`, a float
//! `{"f": "<bits in hex>"}` and a mapping `{"m": [[key, value], …]}`, which JSON could not distinguish.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use zagent_compiler::TreeLimits;
use zagent_compiler::yaml::{self, DumpStyle, FlowStyle, JsonStyle};
use zagent_config::{Map, Value};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/yaml")
}

fn table(name: &str) -> Vec<Json> {
    let text = fs::read_to_string(folder().join(name)).expect("the table is there");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => panic!("a bare number {n}"),
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => items.iter().map(value).collect(),
        Json::Object(tagged) => {
            let (tag, held) = tagged.iter().next().expect("one tag");
            match (tag.as_str(), held) {
                ("i", Json::String(digits)) => {
                    digits.parse().map_or_else(|_| Value::Big(digits.as_str().into()), Value::Int)
                }
                ("f", Json::String(bits)) if bits == "nan" => Value::Float(f64::NAN),
                ("f", Json::String(bits)) => {
                    Value::Float(f64::from_bits(u64::from_str_radix(bits, 16).expect("bits in hex")))
                }
                ("m", Json::Array(pairs)) => {
                    let mut map = Map::new();
                    for pair in pairs {
                        map.insert(value(&pair[0]), value(&pair[1]));
                    }
                    map.into()
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A text that shows types and order, which equality of mappings ignores.
fn told(value: &Value) -> String {
    match value {
        Value::List(list) => format!("[{}]", list.iter().map(told).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{}: {}", told(k), told(v))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        scalar => format!("{scalar:?}"),
    }
}

#[test]
fn files_read_as_salt_reads_them() {
    let mut seen = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let want = fs::read_to_string(path.with_extension("json")).unwrap();
        let got =
            yaml::load(&text, &TreeLimits::default()).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        let got = yaml::json(&got, &JsonStyle { indent: Some(2), ..JsonStyle::default() }).unwrap();
        assert_eq!(got, want.trim_end(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 7, "only {seen} files");
}

#[test]
fn texts_read_as_salt_reads_them() {
    for row in table("texts.jsonl") {
        let text = row["text"].as_str().unwrap();
        match (yaml::load(text, &TreeLimits::default()), row.get("value")) {
            (Ok(got), Some(want)) => assert_eq!(told(&got), told(&value(want)), "{text:?}"),
            (Err(error), None) => {
                assert!(error.pos.is_known() && error.hint.is_some(), "{text:?}: {error:?}");
            }
            (got, want) => panic!("{text:?}: {got:?}, not {want:?}"),
        }
    }
}

#[test]
fn values_are_written_as_salt_writes_them() {
    let narrow =
        DumpStyle { flow: FlowStyle::Never, sort_keys: false, indent: 4, width: 40, ..DumpStyle::default() };
    let plain = JsonStyle::default();
    for row in table("values.jsonl") {
        let value = value(&row["value"]);
        let json = |style: JsonStyle<'_>| yaml::json(&value, &style).unwrap_or_else(|_| "ERR".into());
        for (name, got) in [
            ("flow", yaml::dump_flow(&value)),
            ("block", yaml::dump_block(&value)),
            ("leaves", yaml::dump(&value, &DumpStyle::default())),
            ("narrow", yaml::dump(&value, &narrow)),
            ("repr", zagent_config::value::python_repr(&value)),
            ("str", zagent_config::value::python_str(&value)),
            ("json", json(plain)),
            ("sorted", json(JsonStyle { sort_keys: true, ..plain })),
            ("indented", json(JsonStyle { indent: Some(2), ensure_ascii: true, ..plain })),
            ("tight", json(JsonStyle { separators: Some((",", ":")), ..plain })),
            ("encode", yaml::yaml_encode(&value).unwrap_or_else(|_| "ERR".into())),
        ] {
            assert_eq!(Some(got.as_str()), row["as"][name].as_str(), "{name} of {value:?}");
        }
        assert_eq!(
            value.as_str().map(yaml::yaml_squote).as_deref(),
            row["as"]["squote"].as_str(),
            "squote of {value:?}"
        );
    }
}

/// Common mistakes and their messages.
const FAULTS: &[&str] = &[
    "web:\n\tpkg.installed: []\n",
    "web:\n  - a\n\t- b\n",
    "user: @admin\n",
    "pattern: %d\n",
    "cmd: `date`\n",
    "name: echo Result: ok\n",
    "a: 1 b: 2\n",
    "web:\n  user:root\n  mode: 1\n",
    "web:\n  pkg.installed\n  name: x\n",
    "a: 1\n'b\nc: 2\n",
    "web:\n  pkg.installed:\n    - name: x\n   - version: 1\n",
    "web:\n  a: 1\n b: 2\n",
    "a: b\n  c: d\n",
    "web:\n  a: 1\n  - b\n",
    "web:\n  - a\n  b: 1\n",
    "pkgs: - a\n",
    "ports: [80, 443\nname: x\n",
    "context: {a: 1\nname: x\n",
    "name: {{ pillar.x }}\n",
    "name: {% if x %}\n",
    "{% if x %}\na: 1\n",
    "name: 'it's'\n",
    "name: \"unfinished\nother: 1\n",
    "name: 'unfinished\n",
    "path: \"C:\\dir\"\n",
    "name: \"\\xzz\"\n",
    "name: \"\\ud800\"\n",
    "files: *.conf\n",
    "files: *\n",
    "name: *missing\n",
    "a: &base 1\nb: *bsae\n",
    "a: &x 1\nb: &x 2\n",
    "a: &x [*x]\n",
    "when: !later 5\n",
    "when: !e!later 5\n",
    "unless: !test, x\n",
    "port: !!int eighty\n",
    "port: 0x_\n",
    "sign: =\n",
    "a: !!map [1]\n",
    "? [a, b]\n: c\n",
    "a: 1\nb: 2\na: 3\n",
    "1: a\ntrue: b\n",
    "x: &x {a: 1}\ny: &y {a: 2}\nz:\n  <<: [*x, *y]\n",
    "a: 1\n---\nb: 2\n",
    "a: 1\n...\nb: 2\n",
    "<<: 5\na: 1\n",
    "bell: \u{7}\n",
    "version: >= 1.2\n",
    "text: |x\n  y\n",
    "text: |0\n  y\n",
    "%FOO bar\n---\na: 1\n",
    "%YAML 2.0\n---\na: 1\n",
    "a: ]\n",
    "[a, , b]\n",
    "{a: 1}}\n",
    "\"a\" b\n",
    "- a\n-b\n",
];

#[test]
fn common_mistakes_have_clear_messages() {
    use std::fmt::Write as _;
    let mut out = String::new();
    for text in FAULTS {
        for line in text.lines() {
            writeln!(out, "    {line}").unwrap();
        }
        let error = yaml::load(text, &TreeLimits::default()).expect_err(text);
        writeln!(out, "{} at {}:{}: {}", error.code.id, error.pos.line, error.pos.column, error.message)
            .unwrap();
        for (words, pos) in &error.notes {
            writeln!(out, "note: {words}: {}:{}", pos.line, pos.column).unwrap();
        }
        writeln!(out, "hint: {}\n", error.hint.as_deref().unwrap_or_default()).unwrap();
    }
    insta::assert_snapshot!("faults", out);
}

//! Templates: every `.case` file in `tests/jinja` is a case. Sections start with a line `=== name`; `template` is rendered as the
//! SLS `web` (`web/init.sls`) with the variables in `vars` and the files in `file PATH`, and the result is `output` or `fault`.
//! Outputs equal those of Salt 3008; faults are zagent's diagnostics.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use zagent_compiler::jinja::filters::FilterHost;
use zagent_compiler::jinja::object::to_template;
use zagent_compiler::jinja::{JinjaEngine, JinjaTemplate, LineMap};
use zagent_compiler::{CallError, CompileOptions, FileTree, FunctionCall};
use zagent_config::{Diagnostic, Map, Value};

struct Tree(BTreeMap<String, String>);

impl FileTree for Tree {
    fn envs(&self) -> Vec<String> {
        vec!["base".into()]
    }

    fn read(&self, _env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        Ok(self.0.get(path).map(|text| text.as_bytes().into()))
    }

    fn list(&self, _env: &str) -> Result<Arc<[String]>, String> {
        Ok(self.0.keys().cloned().collect())
    }

    fn display(&self, _env: &str, path: &str) -> String {
        path.to_string()
    }
}

/// A host without functions.
struct Nobody;

impl FilterHost for Nobody {
    fn call(&self, _call: &FunctionCall) -> Result<Value, CallError> {
        Err(CallError::Unknown)
    }
}

/// The sections of a case file, in order. The line end before a section's mark is not part of the section before.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("=== ") {
            Some(name) => all.push((name.trim().to_string(), String::new())),
            None => all.last_mut().unwrap().1.push_str(line),
        }
    }
    for (_, body) in &mut all {
        body.pop();
    }
    all
}

fn told(fault: &Diagnostic) -> String {
    let mut out = fault.to_string();
    for excerpt in &fault.excerpts {
        let _ = write!(out, "\n| {}", excerpt.text);
        if excerpt.column > 0 {
            let _ = write!(out, "\n| {}^", " ".repeat(excerpt.column as usize - 1));
        }
    }
    for step in &fault.chain {
        let _ = write!(out, "\n{} {}", step.what, step.location);
    }
    if let Some(hint) = &fault.hint {
        let _ = write!(out, "\nhint: {hint}");
    }
    out
}

/// An engine with files, a pillar and one grain.
fn engine(files: BTreeMap<String, String>, pillar: &Value, options: &CompileOptions) -> JinjaEngine {
    let host: Arc<dyn FilterHost> = Arc::new(Nobody);
    let grains = Value::from_json_str(r#"{"os": "Debian"}"#).unwrap();
    let shared =
        [("pillar", pillar), ("grains", &grains)].map(|(name, v)| (name.to_string(), to_template(v)));
    JinjaEngine::new(Arc::new(Tree(files)), options, &host, shared.to_vec())
}

fn template(source: &str) -> JinjaTemplate<'_> {
    JinjaTemplate { env: "base", path: "web/init.sls", source, sls: Some("web") }
}

fn run(case: &[(String, String)]) -> Result<String, Box<Diagnostic>> {
    let section = |name: &str| case.iter().find(|(n, _)| n == name).map(|(_, body)| body.as_str());
    let files =
        case.iter().filter_map(|(n, body)| Some((n.strip_prefix("file ")?.to_string(), body.clone())));
    let map = |name: &str| match Value::from_json_str(section(name).unwrap_or("{}")).unwrap() {
        Value::Map(map) => map.as_ref().clone(),
        _ => Map::new(),
    };
    let options = CompileOptions { jinja_sls_env: map("options"), ..CompileOptions::default() };
    let engine = engine(files.collect(), &map("pillar").into(), &options);
    let vars = map("vars");
    let vars: Vec<_> = vars.iter().map(|(k, v)| (k.as_str().unwrap(), to_template(v))).collect();
    engine.render(&template(section("template").unwrap()), &vars)
}

#[test]
fn cases() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jinja");
    let mut failed = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "case"));
    paths.sort();
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy();
        let case = sections(&std::fs::read_to_string(path).unwrap());
        let (kind, got) = match run(&case) {
            Ok(text) => ("output", text),
            Err(fault) => ("fault", told(&fault)),
        };
        let (want_kind, want) = case.last().unwrap();
        if std::env::var_os("ACCEPT_FAULTS").is_some() && kind == "fault" && want_kind == "fault" {
            let text = std::fs::read_to_string(path).unwrap();
            let head = text.split("\n=== fault\n").next().unwrap();
            std::fs::write(path, format!("{head}\n=== fault\n{got}\n")).unwrap();
        } else if kind != want_kind || got != *want {
            failed.push(format!("--- {name}: {want_kind}\n{want}\n--- got {kind}\n{got}"));
        }
    }
    assert!(!paths.is_empty(), "no case");
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), paths.len(), failed.join("\n"));
}

fn lines(files: &[(&str, &str)], source: &str) -> (String, LineMap) {
    let files = files.iter().map(|(path, text)| ((*path).to_string(), (*text).to_string())).collect();
    let engine = engine(files, &Value::empty_map(), &CompileOptions::default());
    let rendered = engine.render(&template(source), &[]).unwrap();
    let map = engine.line_map(&template(source), &[], &rendered);
    (rendered, map)
}

#[test]
fn rendered_lines_have_their_source() {
    let macros = "{% macro state(name) %}\n{{ name }}:\n  pkg.installed:\n    - names: [a]\n{% endmacro %}";
    let source = "{% from 'lib/m.jinja' import state %}\na: 1\n{% for x in ['p', 'q'] %}\n{{ state(x) }}\n{% endfor %}\n\n{#\n#}z: 1\n";
    let (rendered, map) = lines(&[("lib/m.jinja", macros)], source);
    let got: Vec<String> = rendered
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| {
            let (file, from) = map.origin(u32::try_from(i + 1).unwrap()).unwrap();
            format!("{line} <- {file}:{from}")
        })
        .collect();
    let want = [
        "a: 1 <- web/init.sls:2",
        "p: <- lib/m.jinja:2",
        "  pkg.installed: <- lib/m.jinja:3",
        "    - names: [a] <- lib/m.jinja:4",
        "q: <- lib/m.jinja:2",
        "  pkg.installed: <- lib/m.jinja:3",
        "    - names: [a] <- lib/m.jinja:4",
        "z: 1 <- web/init.sls:8",
    ];
    assert_eq!(got, want);
}

#[test]
fn plain_text_is_its_own_source() {
    let (rendered, map) = lines(&[], "a: 1\r\nb: 2\r\n");
    assert_eq!(rendered, "a: 1\nb: 2\n");
    assert_eq!(map.origin(2), Some(("web/init.sls", 2)));
}

#[test]
fn an_error_in_a_later_render_of_a_source_has_its_place() {
    let files = [("lib/m.jinja", "{% macro m(x) %}\n{{ x + 1 }}\n{% endmacro %}")];
    let files = files.iter().map(|(path, text)| ((*path).to_string(), (*text).to_string())).collect();
    let engine = engine(files, &Value::empty_map(), &CompileOptions::default());
    let source = "{% from 'lib/m.jinja' import m %}\na: {{ m(x) }}\nb: {{ x - y }}\n";
    let render = |x: i64, y: &str| {
        let vars = [("x", Value::from(x)), ("y", Value::from_json_str(y).unwrap())];
        engine.render(&template(source), &vars.map(|(name, value)| (name, to_template(&value))))
    };
    // The second render compiles the source under its other name, the third finds it there.
    for x in 1..4 {
        assert_eq!(render(x, "0").unwrap(), format!("\na: \n{}\n\nb: {x}\n", x + 1));
        let fault = told(&render(x, "\"text\"").unwrap_err());
        let place = "web/init.sls:3:9: ZA0110: unsupported operand types for -: 'int' and 'str'";
        assert_eq!(fault, format!("{place}\n| b: {{{{ x - y }}}}\n|         ^"), "render {x}");
    }
}

/// The code that ends a render under small limits.
fn ends_with(source: &str, files: &[(&str, &str)]) -> String {
    let mut options = CompileOptions::default();
    options.limits.output = 1 << 20;
    options.limits.fuel = 1_000_000;
    let files = files.iter().map(|(path, text)| ((*path).to_string(), (*text).to_string())).collect();
    let engine = engine(files, &Value::empty_map(), &options);
    engine.render(&template(source), &[]).unwrap_err().code.id.to_string()
}

#[test]
fn hostile_templates_hit_a_limit() {
    let kilobyte = "x".repeat(1024);
    let capture = format!("{{% set t %}}{{% for i in range(90000) %}}{kilobyte}{{% endfor %}}{{% endset %}}");
    let macros = format!(
        "{{% macro m() %}}{kilobyte}{{% endmacro %}}{{% set l = [] %}}{{% for i in range(9000) %}}{{% do l.append(m()) %}}{{% endfor %}}"
    );
    for (source, code) in [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "ZA0901"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "ZA0902"),
        ("{% include 'self' %}", "ZA0902"),
        ("{% import 'self2' as s with context %}", "ZA0902"),
        ("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "ZA0903"),
        ("{% for i in range(99999) %}0123456789012345678901234567890123456789{% endfor %}", "ZA0903"),
        (
            "{% set ns = namespace(x='xx') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
            "ZA0903",
        ),
        (
            "{% set ns = namespace(x='xx') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "ZA0903",
        ),
        (
            "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "ZA0903",
        ),
        (
            "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x * 2 %}{% endfor %}",
            "ZA0903",
        ),
        ("{{ 'x' * 99999999999 }}", "ZA0903"),
        ("{% set l = [] %}{% for i in range(9999) %}{% do l.append('x' * 500000) %}{% endfor %}", "ZA0903"),
        ("{{ '%99999999d' % 1 }}", "ZA0903"),
        (capture.as_str(), "ZA0903"),
        (macros.as_str(), "ZA0903"),
    ] {
        let files = [("self", "{% include 'self' %}"), ("self2", "{% import 'self2' as s with context %}")];
        assert_eq!(ends_with(source, &files), code, "{source:.100}");
    }
    let deep = format!("{{{{ {}1{} }}}}", "[".repeat(500), "]".repeat(500));
    assert_eq!(ends_with(&deep, &[]), "ZA0902");
    let blocks = format!("{}{}", "{% if 1 %}".repeat(500), "{% endif %}".repeat(500));
    assert_eq!(ends_with(&blocks, &[]), "ZA0902");
}

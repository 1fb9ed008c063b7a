//! Template values compared with the results of Jinja2 and Salt: every row of `values/*.tsv` is an expression (or a
//! template that starts with `{%`), a sign and the result: `=` and the text as JSON, or `!` and the name of the error.
//!
//! The rows were recorded from Salt 3008.3 with Jinja2 3.1.6 on Python 3.11. A row that starts with `#` is a comment.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zagent_compiler::jinja::filters::FilterHost;
use zagent_compiler::jinja::{JinjaEngine, JinjaTemplate};
use zagent_compiler::{CallError, Compat, CompileOptions, FileTree, FunctionCall, TreeLimits};
use zagent_config::Value;

/// Maximum time in a debug build on a busy machine; without limits these rows would not terminate.
const PATIENCE: Duration = Duration::from_secs(30);

/// A host whose random numbers are always the lowest and whose clock is fixed, in UTC.
struct Still;

impl FilterHost for Still {
    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        match call.function.as_str() {
            "zagent.random" => {
                let n = call.args.get(1).and_then(Value::as_int).unwrap_or(0);
                Ok((0..n).map(|_| Value::Int(0)).collect())
            }
            "zagent.now" => Ok(Value::Float(0.0)),
            "zagent.utc_offset" => Ok(Value::Int(0)),
            "cmd.which" => Ok(Value::from("/usr/bin/which")),
            _ => Err(CallError::Unknown),
        }
    }
}

/// A tree without files.
struct Empty;

impl FileTree for Empty {
    fn envs(&self) -> Vec<String> {
        vec!["base".into()]
    }

    fn read(&self, _: &str, _: &str) -> Result<Option<Arc<[u8]>>, String> {
        Ok(None)
    }

    fn list(&self, _: &str) -> Result<Arc<[String]>, String> {
        Ok(Arc::new([]))
    }

    fn display(&self, _: &str, path: &str) -> String {
        path.to_owned()
    }
}

fn engine(limits: TreeLimits) -> JinjaEngine {
    engine_like(limits, Compat::Strict)
}

fn engine_like(limits: TreeLimits, compat: Compat) -> JinjaEngine {
    let host: Arc<dyn FilterHost> = Arc::new(Still);
    JinjaEngine::new(
        Arc::new(Empty),
        &CompileOptions { limits, compat, ..CompileOptions::default() },
        &host,
        Vec::new(),
    )
}

fn render(engine: &JinjaEngine, row: &str) -> Result<String, String> {
    let source = if row.starts_with("{%") { row.to_owned() } else { format!("{{{{ {row} }}}}") };
    let template = JinjaTemplate { env: "base", path: "row", source: &source, sls: None };
    engine.render(&template, &[]).map_err(|fault| fault.to_string())
}

#[test]
fn values_behave_as_in_python() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/values");
    // What Python prints is what Salt does; a list with an undefined value is an error of our own.
    let engine = engine_like(TreeLimits::default(), Compat::Salt);
    let (mut rows, mut wrong) = (0, Vec::new());
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for line in std::fs::read_to_string(&file).unwrap().lines().filter(|l| !l.starts_with('#')) {
            let [row, sign, want] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{name}: {line}")
            };
            rows += 1;
            let got = render(&engine, row);
            let is_right = match (&got, sign) {
                (Ok(text), "=") => *text == serde_json::from_str::<String>(want).unwrap(),
                (Err(_), "!") => true,
                _ => false,
            };
            if !is_right {
                wrong.push(format!("{name}: {row}\n    want {sign} {want}\n    got  {got:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {rows} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(rows > 1000, "only {rows} rows were read");
}

#[test]
fn messages_name_the_filter_or_method_and_the_types() {
    let engine = engine(TreeLimits::default());
    for (row, words) in [
        ("[1]|dictsort", "filter dictsort: the value must be a mapping, not 'list'"),
        (
            "'a'.startswith(1)",
            "str.startswith(): the argument must be a string or a tuple of strings, not 'int'",
        ),
        ("[1, 'a']|sort", "filter sort: '<' is not supported between 'str' and 'int'"),
        ("[].pop()", "list.pop(): the index is out of range"),
        ("{}.pop('k')", "dict.pop(): no key 'k'"),
        ("'x'.nosuch()", "'str' object has no method 'nosuch'"),
        ("'x'|regex_replace('[', '')", "filter regex_replace: invalid regular expression"),
        ("'x'|indent(nosuch=1)", "filter indent got an unexpected keyword argument 'nosuch'"),
        ("'x'|replace('a')", "filter replace is missing its argument 'new'"),
        ("'/bin/sh'|is_text_file", "filter is_text_file: the host has no function `zagent.is_text_file`"),
    ] {
        let got = render(&engine, row).unwrap_err();
        assert!(got.contains(words), "{row}\n    want {words}\n    got  {got}");
    }
}

#[test]
fn filters_call_the_host() {
    let engine = engine(TreeLimits::default());
    assert_eq!(render(&engine, "'sh'|which").unwrap(), "/usr/bin/which");
    assert_eq!(render(&engine, "none|strftime('%Y')").unwrap(), "1970");
    assert_eq!(render(&engine, "['a','b']|random").unwrap(), "a");
    assert_eq!(render(&engine, "'AC:DE:48'|gen_mac").unwrap(), "AC:DE:48:00:00:00");
    let shuffle = "[1,2,3,4,5]|random_shuffle(seed='x')";
    assert_eq!(render(&engine, shuffle), render(&engine, shuffle));
}

#[test]
fn hostile_values_fail_quickly() {
    let engine = engine(TreeLimits::default());
    for row in [
        "{% set l = [1] %}{% for i in range(64) %}{% do l.extend(l) %}{% endfor %}",
        "{% set l = [1] %}{% for i in range(64) %}{% do l.append(l.copy()) %}{% do l.extend(l) %}{% endfor %}",
        "'x' * 10 ** 9",
        "range(10 ** 12)|list",
        "range(0, 10 ** 12, 10 ** 3)|list",
        "'x'.ljust(10 ** 9)",
        "'%1000000000d' % 1",
        "'{:1000000000}'.format(1)",
        "'%*d' % (10 ** 9, 1)",
        "'a'.center(10 ** 12)",
        "('x' * 10 ** 6)|replace('x', 'x' * 10 ** 6)",
        "('x\\n' * 10 ** 6)|indent(10 ** 6)",
        "'x'|indent(10 ** 12)",
        "(['x' * 10 ** 6] * 10 ** 5)|join",
        "(['x' * 10 ** 6] * 10 ** 5)|json",
        "(['x' * 10 ** 6] * 10 ** 5)|yaml",
        "(['x' * 10 ** 6] * 10 ** 5)|string",
        "''.join(['x' * 10 ** 6] * 10 ** 5)",
        "range(1000)|list|json(indent=10 ** 9)",
        "range(1000)|list|tojson(separators=('x' * 10 ** 6, ':'))",
        "range(12)|permutations|list",
        "range(60)|combinations(30)|list",
        "range(100)|product(repeat=9)|list",
        "'10.0.0.0/1'|network_hosts",
        "[1]|batch(10 ** 12, 0)|list",
        "[1]|slice(10 ** 12)|list",
        "10 ** 12|random_str",
        "lipsum(10 ** 9)",
        "('a' * 30000 ~ 'b')|regex_search('^(a|a)*\\1$')",
        "{% set ns = namespace(x=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|json }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|flatten }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|python }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|json_encode_list }}",
        "{% set ns = namespace(x=()) %}{% for i in range(90) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ dict([[ns.x, 1]]) }}",
        "{% set ns = namespace(x=()) %}{% for i in range(90) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
        "{% set ns = namespace(x=()) %}{% for i in range(90) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ ns.x == (1,) }}",
        "{% set ns = namespace(x=()) %}{% for i in range(14) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
        "{% set ns = namespace(x=()) %}{% for i in range(90000) %}{% set ns.x = (ns.x,) %}{% endfor %}",
        "{% set l = [] %}{% do l.append(l) %}{{ l|json }}",
        "{% set l = [] %}{% do l.append(l) %}{{ l|flatten }}",
        "{% set l = [] %}{% do l.append(l) %}{{ l }}",
        "{% set d = {} %}{% do d.update(d=d) %}{{ d|yaml }}",
        "{% set d = {} %}{% do d.update(d=d.items()) %}{{ d }}",
        "{% set d = {} %}{% do d.update(d=d) %}{{ d|xml }}",
        "('[' * 100000)|load_json",
        "('[' * 100000)|load_yaml",
        "{'a': 1}|json_query('!' * 4000)",
        "{'a': 1}|json_query('(' * 4000)",
        "'{:{:{:{}}}}'.format(1, 2, 3, 4)",
    ] {
        let start = Instant::now();
        let got = render(&engine, row);
        assert!(got.is_err(), "{row} gave {} bytes", got.unwrap().len());
        let took = start.elapsed();
        assert!(took < PATIENCE, "{row} took {took:?}");
    }
}

#[test]
fn unusual_values_neither_panic_nor_overflow() {
    let engine = engine(TreeLimits::default());
    for row in [
        "{% set a = [] %}{% do a.append(a) %}{% set b = [] %}{% do b.append(b) %}{{ a == b }}{{ a in [b] }}",
        "{% set a = {} %}{% do a.update(x=a) %}{% set b = {} %}{% do b.update(x=b) %}{{ a == b }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x={}) %}{% for i in range(50000) %}{% set ns.x = {'k': ns.x} %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x=[], y=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}{{ [ns.x, ns.y]|sort|length }}{{ [ns.x, ns.y]|unique|length }}",
        "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = {'k': ns.x}.items()|first %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = [ns.x]|zip([ns.x])|first %}{% endfor %}",
        "{% set l = [1,2,3] %}{% for x in l %}{% do l.remove(x) %}{% endfor %}{{ l }}",
        "{% set l = [1,2,3] %}{% for x in l %}{% do l.append(x) %}{% endfor %}{{ l|length }}",
        "{% set ns = namespace(x=(), y=()) %}{% for i in range(14) %}{% set ns.x = (ns.x, ns.x) %}{% set ns.y = (ns.y, ns.y) %}{% endfor %}{{ ns.x == ns.y }}",
        "{% set l = [3,1] %}{% do l.append(l) %}{{ l.count(l) }}{{ l.index(l) }}",
        "'abc'[0:2:-1] ~ 'abc'[::-9223372036854775808] ~ 'abc'[9223372036854775807:]",
        "('a' * 30000)|regex_search('(a+)+$')",
        "('a' * 30000 ~ 'b')|regex_search('^(a|a)*$')",
        "9223372036854775807 + 1",
        "(-9223372036854775808)|abs",
        "'%d' % 170141183460469231731687303715884105727",
        "1e308 * 10",
        "(1e308 * 10)|int",
        "('nan'|float)|round",
        "['nan'|float, 1, 'nan'|float, 0]|sort|length",
        "'x'|truncate(0, end='')",
    ] {
        let start = Instant::now();
        let _ = render(&engine, row);
        assert!(start.elapsed() < PATIENCE, "{row} took too long");
    }
}

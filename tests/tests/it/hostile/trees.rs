//! The hostile trees: each does one thing that exhausts a naive compiler.

use std::fmt::Write;

/// A hostile tree.
pub(crate) struct Tree {
    pub(crate) name: &'static str,
    pub(crate) files: Vec<(String, String)>,
    /// True when it is only large, and may compile if that costs little.
    pub(crate) may_compile: bool,
}

const TOP: &str = "base:\n  '*':\n    - web\n";

fn tree(name: &'static str, files: Vec<(String, String)>) -> Tree {
    let mut all = vec![
        ("zagent.yaml".to_owned(), "id: web-01\n".to_owned()),
        ("states/top.sls".to_owned(), TOP.to_owned()),
        ("states/web.sls".to_owned(), "nginx:\n  test.nop: []\n".to_owned()),
        ("pillar/top.sls".to_owned(), TOP.to_owned()),
        ("pillar/web.sls".to_owned(), "a: 1\n".to_owned()),
    ];
    all.extend(files);
    Tree { name, files: all, may_compile: false }
}

/// A tree whose `web.sls` is this text.
fn sls(name: &'static str, text: impl Into<String>) -> Tree {
    tree(name, vec![("states/web.sls".to_owned(), text.into())])
}

/// A tree whose `web.sls` prints this expression into an argument.
fn print(name: &'static str, expression: &str) -> Tree {
    sls(name, format!("nginx:\n  test.nop:\n    - note: {{{{ {expression} }}}}\n"))
}

fn harmless(tree: Tree) -> Tree {
    Tree { may_compile: true, ..tree }
}

/// All of them.
pub(crate) fn trees() -> Vec<Tree> {
    let mut all = loops();
    all.extend(expressions());
    all.extend(values());
    all.extend(documents());
    all.extend(whole_trees());
    all
}

/// Templates that never end, or call themselves.
fn loops() -> Vec<Tree> {
    vec![
        sls(
            "loop in a loop",
            "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        ),
        harmless(sls(
            "loop over a list that grows",
            "{% set l = [1] %}{% for a in l %}{% do l.append(a) %}{% endfor %}",
        )),
        sls("macro that calls itself", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        sls(
            "macro that calls itself twice",
            "{% macro m(n) %}{{ m(n + 1) ~ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        ),
        sls(
            "call block in itself",
            "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}x{% endcall %}",
        ),
        sls(
            "recursive loop over itself",
            "{% set l = [1] %}{% do l.append(l) %}{% for a in l recursive %}{{ loop(a) }}{% endfor %}",
        ),
        sls("include of itself", "{% include 'web.sls' %}{% include 'web.sls' %}"),
        sls("import of itself", "{% import 'web.sls' as w %}"),
        sls("imports that double", "{% for i in range(1000000) %}{% import 'top.sls' as t %}{% endfor %}"),
        sls("range without an end", "{% for a in range(10 ** 18) %}{% endfor %}"),
        sls("list of a huge range", "{% set l = range(10 ** 9) | list %}"),
        sls("sum of a huge range", "{{ range(10 ** 9) | sum }}"),
        sls("sort of a huge range", "{{ range(10 ** 9) | sort | last }}"),
        sls(
            "membership in a huge range",
            "{% for i in range(100000) %}{% if -1 in range(10 ** 9) %}{% endif %}{% endfor %}",
        ),
        sls("nested parentheses", format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000))),
        sls(
            "nested lists in an expression",
            format!("{{{{ {}{} }}}}", "[".repeat(100_000), "]".repeat(100_000)),
        ),
        sls("nested blocks", format!("{}{}", "{% if 1 %}".repeat(50_000), "{% endif %}".repeat(50_000))),
        sls("chain of operators", format!("{{{{ 1{} }}}}", " + 1".repeat(200_000))),
        sls("chain of nots", format!("{{{{ {}1 }}}}", "not ".repeat(200_000))),
        sls("chain of filters", format!("{{{{ 'a'{} }}}}", " | upper".repeat(100_000))),
        sls("chain of attributes", format!("{{{{ grains{} }}}}", ".a".repeat(200_000))),
        harmless(sls("many tags", "{% set a = 1 %}\n".repeat(100_000))),
    ]
}

/// Expressions that make large values from little text.
#[expect(clippy::too_many_lines, reason = "a table")]
fn expressions() -> Vec<Tree> {
    let doubling = |step: &str| {
        format!(
            "{{% set x = namespace(v='abcdefgh') %}}{{% for i in range(60) %}}{{% set x.v = {step} %}}{{% endfor %}}{{{{ x.v | length }}}}"
        )
    };
    vec![
        sls("doubling by plus", doubling("x.v + x.v")),
        sls("doubling by tilde", doubling("x.v ~ x.v")),
        sls("doubling by format", doubling("'%s%s' | format(x.v, x.v)")),
        sls("doubling by percent", doubling("'%s%s' % (x.v, x.v)")),
        sls("doubling by str.format", doubling("'{0}{0}'.format(x.v)")),
        sls("doubling by join", doubling("[x.v, x.v] | join(x.v)")),
        sls("doubling by replace", doubling("x.v | replace('a', x.v)")),
        sls("doubling by str.replace", doubling("x.v.replace('a', x.v)")),
        sls("doubling by regex_replace", doubling("x.v | regex_replace('a', '\\\\g<0>' * 50)")),
        sls("doubling by indent", doubling("(x.v ~ '\\n') | indent(10000)")),
        sls("doubling by yaml", doubling("[x.v, x.v] | yaml")),
        sls("doubling by json", doubling("[x.v, x.v] | json")),
        sls("doubling by urlencode", doubling("(x.v ~ '%') | urlencode | urlencode")),
        sls("doubling by escape", doubling("('&' ~ x.v) | escape | escape | escape")),
        sls("doubling by hex", doubling("x.v | base64_encode | base64_encode")),
        sls(
            "doubling by a block",
            "{% set x = namespace(v='abcdefgh') %}{% for i in range(60) %}{% set y %}{{ x.v }}{{ x.v }}{% endset %}{% set x.v = y %}{% endfor %}",
        ),
        sls(
            "doubling by a macro",
            "{% macro m(a) %}{{ a }}{{ a }}{% endmacro %}{% set x = namespace(v='abcdefgh') %}{% for i in range(60) %}{% set x.v = m(x.v) %}{% endfor %}",
        ),
        sls(
            "doubling list",
            "{% set x = namespace(v=[1]) %}{% for i in range(60) %}{% set x.v = x.v + x.v %}{% endfor %}",
        ),
        sls(
            "list extended by itself",
            "{% set l = [1] %}{% for i in range(60) %}{% do l.extend(l) %}{% endfor %}",
        ),
        sls(
            "list of lists printed",
            "{% set x = namespace(v=[1]) %}{% for i in range(60) %}{% set x.v = [x.v, x.v] %}{% endfor %}{{ x.v }}",
        ),
        sls(
            "list of lists as yaml",
            "{% set x = namespace(v=[1]) %}{% for i in range(60) %}{% set x.v = [x.v, x.v] %}{% endfor %}{{ x.v | yaml }}",
        ),
        sls(
            "list of lists as json",
            "{% set x = namespace(v=[1]) %}{% for i in range(60) %}{% set x.v = [x.v, x.v] %}{% endfor %}{{ x.v | tojson }}",
        ),
        harmless(sls(
            "list of lists compared",
            "{% set x = namespace(v=[1], w=[1]) %}{% for i in range(60) %}{% set x.v = [x.v, x.v] %}{% set x.w = [x.w, x.w] %}{% endfor %}{{ x.v == x.w }}",
        )),
        sls(
            "list of lists flattened",
            "{% set x = namespace(v=[1]) %}{% for i in range(60) %}{% set x.v = [x.v, x.v] %}{% endfor %}{{ x.v | flatten }}",
        ),
        sls(
            "list of lists copied",
            "{% set x = namespace(v=[1]) %}{% for i in range(60) %}{% set x.v = [x.v, x.v] %}{% endfor %}{% set y = salt['defaults.deepcopy'](x.v) %}",
        ),
        sls(
            "dictionary of dictionaries",
            "{% set x = namespace(v={}) %}{% for i in range(60) %}{% set x.v = {'a': x.v, 'b': x.v} %}{% endfor %}{{ x.v | dict_to_sls_yaml_params }}",
        ),
        harmless(sls(
            "deep list",
            "{% set x = namespace(v=[]) %}{% for i in range(100000) %}{% set x.v = [x.v] %}{% endfor %}",
        )),
        sls(
            "deep list printed",
            "{% set x = namespace(v=[]) %}{% for i in range(100000) %}{% set x.v = [x.v] %}{% endfor %}{{ x.v }}",
        ),
        print("text times a number", "'x' * 10 ** 9"),
        print("list times a number", "[0] * 10 ** 9"),
        print("list of lists times a number", "([[0] * 1000] * 1000) * 1000"),
        print("power", "9 ** 9 ** 9"),
        print("power of a power", "(9 ** 999999) ** 999999"),
        harmless(print("power of a float", "2.0 ** 999999999")),
        print("shifted number", "'%d' % (10 ** 10000000)"),
        print("number of many digits", &format!("{} * 2", "9".repeat(1_000_000))),
        print("width of percent", "'%999999999d' % 1"),
        print("width of a percent argument", "'%*d' % (999999999, 1)"),
        print("precision of percent", "'%.999999999f' % 1"),
        print("width of str.format", "'{:>999999999}'.format(1)"),
        print("precision of str.format", "'{:.999999999f}'.format(1.0)"),
        print("filter format", "'%999999999s' | format('x')"),
        print("filter center", "'x' | center(10 ** 9)"),
        print("method center", "'x'.center(10 ** 9)"),
        print("method ljust", "'x'.ljust(10 ** 9)"),
        print("method zfill", "'x'.zfill(10 ** 9)"),
        print("method expandtabs", "('\\t' * 1000).expandtabs(10 ** 9)"),
        print("filter indent", "('x\\n' * 1000) | indent(10 ** 9)"),
        print("filter indent with a text", "('x\\n' * 100000) | indent('y' * 100000)"),
        print("chain of indent", &format!("('x\\n' * 100){}", " | indent(100)".repeat(500))),
        print("filter batch fill", "[1] | batch(10 ** 9, 'x') | list"),
        print("filter slice", "[1] | slice(10 ** 9, 'x') | list"),
        print("filter wordwrap", "('x ' * 100000) | wordwrap(1, wrapstring='y' * 10000)"),
        harmless(print("filter round", "1.5 | round(10 ** 9)")),
        print("filter tojson indent", "[[1]] | tojson(indent=10 ** 9)"),
        harmless(print("filter pprint", "([[1]] * 100000) | pprint")),
        print("filter random text", "salt['random.get_str'](10 ** 9)"),
        print("filter lipsum", "lipsum(n=10 ** 9)"),
        print("filter method_call", "'x' | method_call('center', 10 ** 9)"),
        print("filter permutations", "range(20) | list | permutations | list"),
        print("filter product", "range(1000) | product(range(1000), range(1000)) | list"),
        print("filter combinations", "range(60) | list | combinations(30) | list"),
        print("network hosts", "'10.0.0.0/8' | network_hosts"),
        print("network hosts of v6", "'fe80::/10' | network_hosts"),
        print("salt range", "salt['slsutil.boolstr'](range(10 ** 9))"),
        print("test.stack of a bomb", "salt['test.arg']('x' * 15000000, 'x' * 15000000)"),
        harmless(print("hash of much", "('x' * 15000000) | sha512 ~ ('y' * 15000000) | sha512")),
        sls(
            "hash again and again",
            "{% set x = 'x' * 15000000 %}{% for i in range(1000) %}{% set y = x | sha512 %}{% endfor %}",
        ),
        sls(
            "upper again and again",
            "{% set x = 'x' * 15000000 %}{% for i in range(1000) %}{% set y = x | upper %}{% endfor %}",
        ),
        sls(
            "values that are kept",
            "{% set l = [] %}{% for i in range(1000) %}{% do l.append('x' * 1000000) %}{% endfor %}",
        ),
        sls(
            "filtered values that are kept",
            "{% set x = 'x' * 1000000 %}{% set l = [] %}{% for i in range(1000) %}{% do l.append(x | upper) %}{% endfor %}",
        ),
        sls(
            "method values that are kept",
            "{% set x = 'x' * 1000000 %}{% set l = [] %}{% for i in range(1000) %}{% do l.append(x.upper()) %}{% endfor %}",
        ),
        sls(
            "split values that are kept",
            "{% set x = 'x,' * 500000 %}{% set l = [] %}{% for i in range(1000) %}{% do l.append(x.split(',')) %}{% endfor %}",
        ),
        sls("list of a text", "{% set x = 'x' * 16000000 %}{% set l = x | list %}"),
        sls(
            "keys that are kept",
            "{% set d = {} %}{% for i in range(10000000) %}{% do d.update({i: i}) %}{% endfor %}",
        ),
        sls(
            "search again and again",
            "{% set x = 'x' * 15000000 %}{% for i in range(100000) %}{% if 'y' in x %}{% endif %}{% endfor %}",
        ),
        sls(
            "count again and again",
            "{% set x = 'x' * 15000000 %}{% for i in range(100000) %}{% set y = x.count('y') %}{% endfor %}",
        ),
        sls(
            "list search again and again",
            "{% set x = [0] * 400000 %}{% for i in range(100000) %}{% if 1 in x %}{% endif %}{% endfor %}",
        ),
        sls(
            "list insert again and again",
            "{% set x = [0] * 400000 %}{% for i in range(1000000) %}{% do x.insert(0, 1) %}{% endfor %}",
        ),
        sls(
            "sort again and again",
            "{% set x = range(400000) | list %}{% for i in range(10000) %}{% set y = x | sort(reverse=true) %}{% endfor %}",
        ),
        sls(
            "slice again and again",
            "{% set x = [0] * 400000 %}{% for i in range(100000) %}{% set y = x[1:] %}{% endfor %}",
        ),
        sls("unique of many", "{{ range(400000) | unique | list | length }}"),
        sls(
            "difference of many",
            "{{ (range(400000) | list) | difference(range(400000, 800000) | list) | length }}",
        ),
        sls(
            "pillar.get again and again",
            "{% for i in range(10000000) %}{% set y = salt['pillar.get']('a:b:c', {}) %}{% endfor %}",
        ),
    ]
}

/// Values and patterns with hidden costs.
fn values() -> Vec<Tree> {
    let ring = "{% set d = {} %}{% do d.update({'d': d}) %}";
    let list = "{% set l = [] %}{% do l.append(l) %}";
    let catastrophe = "('a' * 100000 ~ 'b')";
    vec![
        harmless(sls(
            "ring printed",
            format!("{ring}# {{{{ d }}}}\n{list}# {{{{ l }}}}\nx:\n  test.nop: []\n"),
        )),
        sls("ring as json", format!("{ring}{{{{ d | tojson }}}}")),
        sls("ring as yaml", format!("{ring}{{{{ d | yaml(false) }}}}")),
        sls("ring list as json", format!("{list}{{{{ l | json }}}}")),
        sls("ring copied", format!("{ring}{{% set c = salt['defaults.deepcopy'](d) %}}")),
        sls("ring merged", format!("{ring}{{{{ salt['slsutil.merge'](d, d) }}}}")),
        harmless(sls(
            "ring compared",
            format!("{ring}{{% set e = {{}} %}}{{% do e.update({{'d': e}}) %}}{{{{ d == e }}}}"),
        )),
        sls("ring flattened", format!("{list}{{{{ l | flatten }}}}")),
        sls("ring sorted", format!("{list}{{% do l.append(l) %}}{{{{ l | sort }}}}")),
        sls("ring queried", format!("{ring}{{{{ d | json_query('d.d.d.d') | json }}}}")),
        harmless(print("regex_match catastrophe", &format!("{catastrophe} | regex_match('(a+)+$')"))),
        harmless(print("regex_search catastrophe", &format!("{catastrophe} | regex_search('(a|a)*c')"))),
        harmless(print(
            "regex_replace catastrophe",
            &format!("{catastrophe} | regex_replace('(a*)*c', 'x')"),
        )),
        print("regex backreference catastrophe", &format!("{catastrophe} | regex_search('(a*)*\\\\1c')")),
        print("regex lookahead catastrophe", &format!("{catastrophe} | regex_search('^(?=(a+)+$)')")),
        print("regex repetition", "'a' | regex_match('((a{1000}){1000}){1000}')"),
        print("regex alternatives", &format!("'a' | regex_match('{}')", "a|".repeat(200_000))),
        print(
            "regex nested groups",
            &format!("'a' | regex_match('{}{}')", "(".repeat(50_000), ")".repeat(50_000)),
        ),
        harmless(print("match.pcre catastrophe", "salt['match.pcre']('(w+)+$')")),
        harmless(print("glob catastrophe", &format!("salt['match.glob']('{}b')", "*a".repeat(5_000)))),
        harmless(print(
            "compound nest",
            &format!("salt['match.compound']('{}web*{}')", "( ".repeat(50_000), " )".repeat(50_000)),
        )),
        print("json_query nest", &format!("[1] | json_query('{}')", "[".repeat(50_000))),
        print("json_query flatten", "([[1] * 1000] * 1000) | json_query('[][][]')"),
        print(
            "json_query projection",
            "([1] * 100000) | json_query('[*].[@, @, @, @][].[@, @, @, @][].[@, @, @, @][]')",
        ),
        print("strftime width", "'2020-01-01' | strftime('%999999999Y')"),
        sls("load_yaml aliases", format!("{{% load_yaml as y %}}\n{}{{% endload %}}", aliases(9))),
        sls("load_yaml depth", "{% set t = '[' * 100000 %}{% set y = t | load_yaml %}"),
        sls("load_json depth", "{% set t = '[' * 100000 %}{% set y = t | load_json %}"),
        sls("load_json number", "{% set t = '9' * 10000000 %}{% set y = t | load_json %}"),
        sls("load_json items", "{% set t = '[' ~ '0,' * 7000000 ~ '0]' %}{% set y = t | load_json %}"),
        sls("load_yaml items", "{% set t = '[' ~ '0,' * 7000000 ~ '0]' %}{% set y = t | load_yaml %}"),
        sls(
            "load_yaml again and again",
            "{% set t = '[' ~ '0,' * 100000 ~ '0]' %}{% for i in range(100000) %}{% set y = t | load_yaml %}{% endfor %}",
        ),
        sls("renderer in itself", "{% set y = salt['slsutil.renderer']('salt://web.sls') %}"),
        sls(
            "renderer of a text in itself",
            "{% set t = '{% for i in range(10 ** 9) %}{% endfor %}' %}{% for i in range(100) %}{% set y = salt['slsutil.renderer'](string=t, default_renderer='jinja') %}{% endfor %}",
        ),
    ]
}

/// Nested aliases: each level is ten times the level before.
fn aliases(levels: usize) -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..=levels {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{items}]");
    }
    text
}

/// YAML and JSON that are larger than they look.
fn documents() -> Vec<Tree> {
    let keys = |n: usize| {
        (0..n).fold(String::new(), |mut text, i| {
            let _ = writeln!(text, "k{i}: {i}");
            text
        })
    };
    let plain = |text: &str| format!("#!yaml\n{text}");
    let merges = (1..30).fold("m0: &m0 {a: 1}\n".to_owned(), |mut text, i| {
        let last = i - 1;
        let _ = writeln!(text, "m{i}: &m{i} {{<<: [*m{last}, *m{last}, *m{last}, *m{last}], k{i}: 1}}");
        text
    });
    vec![
        sls("aliases", plain(&aliases(9))),
        sls("aliases of a mapping", plain(&aliases(9).replace("[x,", "[{k: v},"))),
        sls("alias of itself", plain("a: &a [*a, *a]\n")),
        sls("alias as a key", plain(&format!("{}? *a9\n: 1\n", aliases(9)))),
        sls("merge keys", plain(&merges)),
        sls("aliases in a pillar", "x:\n  test.nop: []\n").with("pillar/web.sls", plain(&aliases(9))),
        sls("aliases in a top file", "x:\n  test.nop: []\n").with("states/top.sls", plain(&aliases(9))),
        sls("deep flow", plain(&format!("a: {}", "[".repeat(500_000)))),
        sls("deep flow mapping", plain(&format!("a: {}", "{a: ".repeat(500_000)))),
        sls(
            "deep block",
            plain(&(0..3000).fold(String::new(), |mut text, i| {
                let _ = writeln!(text, "{:i$}a:", "");
                text
            })),
        ),
        sls("deep dashes", plain(&format!("a:\n  {}x", "- ".repeat(500_000)))),
        sls("deep keys", plain(&"? ".repeat(500_000))),
        sls("huge flow", plain(&format!("a: [{}0]", "0,".repeat(3_000_000)))),
        sls("huge flow of mappings", plain(&format!("a: [{}0]", "{},".repeat(3_000_000)))),
        sls("million keys", plain(&keys(1_000_000))),
        harmless(
            sls("million keys in a pillar", "x:\n  test.nop: []\n")
                .with("pillar/web.sls", plain(&keys(1_000_000))),
        ),
        harmless(sls(
            "huge text",
            plain(&format!("x:\n  test.nop:\n    - note: {}\n", "x".repeat(15_000_000))),
        )),
        sls("file that is too large", "# x\n".repeat(5_000_000)),
        sls("unclosed quote over many lines", plain(&format!("a: \"{}", "x\n".repeat(2_000_000)))),
        sls(
            "many anchors",
            plain(&(0..300_000).fold("a:\n".to_owned(), |mut text, i| {
                let _ = writeln!(text, "  - &b{i} {i}");
                text
            })),
        ),
        sls("number of many digits", plain(&format!("a: {}", "9".repeat(5_000_000)))),
        sls("sexagesimal of many parts", plain(&format!("a: 1{}", ":1".repeat(3_000_000)))),
        sls("float of many digits", plain(&format!("a: 0.{}e999999999", "9".repeat(5_000_000)))),
        sls("long key", plain(&format!("{}: 1", "x".repeat(15_000_000)))),
        sls("deep json", format!("#!json\n{}", "[".repeat(5_000_000))),
        sls("huge json", format!("#!json\n[{}0]", "0,".repeat(5_000_000))),
        sls(
            "json with many keys",
            format!(
                "#!json\n{{{}\"z\": 0}}",
                (0..500_000).fold(String::new(), |mut text, i| {
                    let _ = write!(text, "\"k{i}\": {i},");
                    text
                })
            ),
        ),
        sls("made by a template", "{% for i in range(1000000) %}\nk{{ i }}: 1{% endfor %}"),
        sls("pipe of many stages", format!("#!{}yaml\na: 1\n", "jinja|".repeat(100_000))),
    ]
}

impl Tree {
    fn with(mut self, path: &str, text: impl Into<String>) -> Self {
        self.files.push((path.to_owned(), text.into()));
        self
    }
}

/// Attacks that need a whole tree.
fn whole_trees() -> Vec<Tree> {
    let names = (0..40_000).fold("x:\n  test.nop:\n    - names:\n".to_owned(), |mut text, i| {
        let _ = writeln!(text, "      - n{i}");
        text
    });
    let square = (0..1500).fold(String::new(), |mut text, i| {
        let _ = write!(text, "s{i}:\n  test.nop:\n    - require:\n      - sls: web\n");
        text
    });
    let fan = |from: usize| {
        (0..40).fold("include:\n".to_owned(), |mut text, i| {
            let _ = writeln!(text, "  - f{}", from * 40 + i);
            text
        })
    };
    let mut fans = vec![("states/web.sls".to_owned(), fan(0))];
    fans.extend((0..2000).map(|i| (format!("states/f{i}.sls"), fan(i % 50))));
    let chain = (0..3000).map(|i| (format!("states/c{i}.sls"), format!("include:\n  - c{}\n", i + 1)));
    let pillar_chain = (0..3000).map(|i| (format!("pillar/c{i}.sls"), format!("include:\n  - c{}\n", i + 1)));
    let ring = (0..5000).fold(String::new(), |mut text, i| {
        let _ = write!(text, "r{i}:\n  test.nop:\n    - require:\n      - test: r{}\n", (i + 1) % 5000);
        text
    });
    let faults = "x{{ i }}:\n  pkg.instaled:\n    - refersh: true\n";
    vec![
        harmless(
            sls("pillar that includes itself", "x:\n  test.nop: []\n")
                .with("pillar/web.sls", "include:\n  - web\n  - '*'\na: 1\n"),
        ),
        harmless(sls("SLS that includes itself", "include:\n  - web\n  - '*'\nx:\n  test.nop: []\n")),
        harmless(sls("name of many names", names)),
        harmless(sls(
            "names of names",
            format!(
                "{{% for i in range(40) %}}\nx{{{{ i }}}}:\n  test.nop:\n    - names: [{}]\n{{% endfor %}}",
                (0..1000).map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
            ),
        )),
        harmless(sls("everything requires everything", square)),
        harmless(tree("fan of includes", fans)),
        tree("chain of includes", chain.collect()).with("states/web.sls", "include:\n  - c0\n"),
        tree("chain of pillar includes", pillar_chain.collect()).with("pillar/web.sls", "include:\n  - c0\n"),
        sls("ring of requisites", ring),
        sls("many faults", format!("{{% for i in range(20000) %}}\n{faults}{{% endfor %}}")),
        sls("target of many groups", "x:\n  test.nop: []\n").with(
            "states/top.sls",
            format!(
                "base:\n  '{}web*{}':\n    - match: compound\n    - web\n",
                "( ".repeat(100_000),
                " )".repeat(100_000)
            ),
        ),
        harmless(sls("target with a costly pattern", "x:\n  test.nop: []\n").with(
            "states/top.sls",
            "base:\n  '(w+)+((a{1000}){1000}){1000}$':\n    - match: pcre\n    - web\n",
        )),
        sls("group of itself", "x:\n  test.nop: []\n")
            .with("zagent.yaml", "id: web-01\nnodegroups:\n  a: N@b and N@b\n  b: N@a or N@a\n")
            .with("states/top.sls", "base:\n  a:\n    - match: nodegroup\n    - web\n"),
        harmless(
            sls("groups of groups", "x:\n  test.nop: []\n")
                .with(
                    "zagent.yaml",
                    (1..40).fold("id: web-01\nnodegroups:\n  g0: db-*\n".to_owned(), |mut text, i| {
                        let _ = writeln!(text, "  g{i}: N@g{0} or N@g{0}", i - 1);
                        text
                    }),
                )
                .with("states/top.sls", "base:\n  g39:\n    - match: nodegroup\n    - web\n"),
        ),
    ]
}

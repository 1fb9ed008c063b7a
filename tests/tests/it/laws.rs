//! Laws about the source text that no lint can hold: modules depend on each other one way, pure modules do not touch the
//! machine, and some acts have few owners.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The crates of the workspace, by their directory.
const CRATES: [&str; 11] = [
    "config",
    "compiler",
    "cache",
    "rollout",
    "agent/host",
    "agent/states",
    "agent/run",
    "agent/resources",
    "agent/daemon",
    "agent",
    "tests",
];

/// What must not depend on the machine, in whole directories or in one file.
const PURE: [&str; 20] = [
    "compiler/src",
    "config/src/cron.rs",
    "config/src/mask",
    "config/src/target",
    "config/src/value",
    "rollout/src/batches.rs",
    "rollout/src/driver_logic",
    "rollout/src/node.rs",
    "rollout/src/phase",
    "rollout/src/plan",
    "rollout/src/record.rs",
    "rollout/src/recovery.rs",
    "rollout/src/supervise.rs",
    "rollout/src/targeting.rs",
    "rollout/src/waves.rs",
    "agent/daemon/src/decide.rs",
    "agent/daemon/src/scheduler",
    "agent/daemon/src/status/mod.rs",
    "agent/src/cli/rollout/events.rs",
    "tests/src/fleet",
];

/// How code reaches the clock, the disk, other processes and threads.
const IMPURE: [&str; 12] = [
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "std::fs::",
    "std::env::",
    "env::var",
    "std::process::",
    "Command::new",
    "TcpStream",
    "UnixStream",
    "thread::s",
];

/// An act, where the law applies, and the only places there that do it.
const OWNERS: [(&str, &[&str], &[&str]); 10] = [
    (
        "Command::new(",
        &["config", "compiler", "cache", "rollout", "agent"],
        &[
            "agent/daemon/src/turn_process.rs",
            "cache/src/testing",
            "config/src/child_process.rs",
            "rollout/src/watchdog",
        ],
    ),
    (
        "tokio::",
        &["config", "compiler", "cache", "rollout", "agent"],
        &["agent/daemon/src/api", "rollout/src/board/nats"],
    ),
    ("thread::scope", &["agent/run"], &["agent/run/src/runner"]),
    ("thread::spawn", &["agent/run"], &[]),
    ("thread::Builder", &["agent/run"], &["agent/run/src/signal.rs"]),
    ("io::stdout", &["config", "compiler", "cache", "rollout", "agent"], &["agent/src/cli/mod.rs"]),
    (
        "io::stderr",
        &["config", "compiler", "cache", "rollout", "agent"],
        &["agent/src/cli/mod.rs", "agent/src/log.rs"],
    ),
    ("File::create", &["agent/states"], &["agent/states/src/x509/openssl.rs"]),
    ("fs::write", &["agent/states"], &["agent/states/src/sysctl", "agent/states/src/testing"]),
    // What a dry run cannot know from `check` alone; a new place needs a reason.
    (
        ".is_dry()",
        &["agent"],
        &[
            "agent/run/src/guard.rs",
            "agent/run/src/state_run",
            "agent/states/src/alias",
            "agent/states/src/file/directory.rs",
            "agent/states/src/host",
            "agent/states/src/pkg",
            "agent/states/src/pkgrepo",
            "agent/states/src/schedule",
            "agent/states/src/service",
            "agent/states/src/user",
        ],
    ),
];

/// Lints of the workspace that hold a law.
const LINTS: [&str; 2] = ["print_stdout", "print_stderr"];

/// Where the agent's own directories are named.
const PATHS_FILE: &str = "config/src/paths.rs";

/// What depends on what: module, the modules that it names, and a file for each.
type Edges = BTreeMap<String, BTreeMap<String, PathBuf>>;

#[test]
fn modules_depend_on_each_other_one_way() {
    let mut found = Vec::new();
    for name in CRATES {
        let edges = module_edges(&root().join(name).join("src"));
        for cycle in cycles(&edges) {
            let mut text = format!("{name}: {}", cycle.iter().cloned().collect::<Vec<_>>().join(", "));
            for (from, to) in edges.iter().filter(|(from, _)| cycle.contains(*from)) {
                for (to, file) in to.iter().filter(|(to, _)| cycle.contains(*to)) {
                    text += &format!("\n  {from} -> {to} in {}", file.display());
                }
            }
            found.push(text);
        }
    }
    assert!(found.is_empty(), "modules that depend on each other:\n{}", found.join("\n"));
}

#[test]
fn pure_modules_do_not_touch_the_machine() {
    let sources = sources();
    let mut found = Vec::new();
    for (file, code) in sources.iter().filter(|(file, _)| PURE.iter().any(|place| is_below(file, place))) {
        found.extend(IMPURE.iter().filter(|way| code.contains(**way)).map(|way| format!("{file}: {way}")));
    }
    assert!(found.is_empty(), "pure modules that touch the machine:\n{}", found.join("\n"));
    for place in PURE {
        assert!(sources.keys().any(|file| is_below(file, place)), "`{place}` does not exist");
    }
}

#[test]
fn each_act_has_its_owners() {
    let mut found = Vec::new();
    for (file, code) in sources() {
        for (act, crates, owners) in OWNERS {
            let applies = crates.iter().any(|name| is_below(file, name));
            if applies && !owners.iter().any(|owner| is_below(file, owner)) && does(code, act) {
                found.push(format!("{file}: {act}"));
            }
        }
    }
    assert!(found.is_empty(), "acts outside of their owners:\n{}", found.join("\n"));
}

#[test]
fn the_directories_of_the_agent_are_named_once() {
    let literals = ["\"/etc/zagent", "\"/var/lib/zagent"];
    let is_naming = |file: &str| {
        let text = fs::read_to_string(root().join(file)).expect("a readable source file");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        literals.iter().any(|literal| code.contains(literal))
    };
    let places = ["config", "cache", "rollout", "agent"];
    let files = sources().keys().filter(|file| places.iter().any(|place| is_below(file, place)));
    let found: Vec<_> = files.filter(|file| *file != PATHS_FILE && is_naming(file)).cloned().collect();
    assert!(found.is_empty(), "take these from `zagent_config::paths`:\n{}", found.join("\n"));
}

/// A `Law:` in a file header ends with what holds it, such as "(held by `name of a test`, `Type`, `clippy.toml`)".
#[test]
fn every_law_names_what_holds_it() {
    let (root, texts) = (root(), source_texts());
    let known: BTreeSet<&str> = texts.iter().flat_map(|(_, text)| names_of_holders(text)).collect();
    let holds = |name: &str| known.contains(name) || LINTS.contains(&name) || root.join(name).exists();
    let mut found = Vec::new();
    for (file, text) in &texts {
        for law in laws_of(text) {
            let holders = holders_of(&law);
            if holders.is_empty() {
                found.push(format!("{file}: no holder: {law}"));
            }
            let missing = holders.iter().filter(|name| !holds(name));
            found
                .extend(missing.map(|name| format!("{file}: `{name}` is neither test, type, lint nor file")));
        }
    }
    assert!(found.is_empty(), "laws that nothing holds:\n{}", found.join("\n"));
}

/// The pages whose tables have a column with tests.
const PAGES_WITH_TESTS: [&str; 3] = ["docs/src/security.md", "docs/src/promises.md", "docs/src/resources.md"];

#[test]
fn pages_name_tests_that_exist() {
    let (root, texts) = (root(), source_texts());
    let known: BTreeSet<&str> = texts.iter().flat_map(|(_, text)| names_of_holders(text)).collect();
    let mut named = 0;
    for page in PAGES_WITH_TESTS {
        let text = fs::read_to_string(root.join(page)).expect("a page of the book");
        for name in tests_in_tables(&text) {
            let exists = known.contains(name) || root.join(name).exists();
            assert!(exists, "{page}: `{name}` is neither test, type nor file");
            named += 1;
        }
    }
    assert!(named > 20, "only {named} names were found: have the tables lost their column?");
}

/// The names in backticks in the last column of every table whose last column is called `test`.
fn tests_in_tables(page: &str) -> Vec<&str> {
    let last_cell = |row: &'_ str| row.trim_end().trim_end_matches('|').rfind('|').map(|at| at + 1);
    let (mut inside, mut names) = (false, Vec::new());
    for row in page.lines() {
        let Some(at) = last_cell(row).filter(|_| row.starts_with('|')) else {
            inside = false;
            continue;
        };
        let cell = &row[at..];
        if cell.trim_end().trim_end_matches('|').trim() == "test" {
            inside = true;
        } else if inside {
            names.extend(cell.split('`').skip(1).step_by(2));
        }
    }
    names
}

#[test]
fn laws_and_their_holders_are_read() {
    let text = "//! A in, B out.\n//!\n//! Law: one thing (held by `a`,\n//! `B`). More.\n//!\n//! Other.\n//! Law: two.\n";
    let laws = laws_of(text);
    assert_eq!(laws, ["one thing (held by `a`, `B`). More.", "two."]);
    assert_eq!((holders_of(&laws[0]), holders_of(&laws[1])), (vec!["a", "B"], Vec::new()));
    let names = names_of_holders("#[test]\n#[ignore]\nfn a() {}\nfn b() {}\npub(crate) struct C;\n");
    assert_eq!(names, ["a", "C"]);
}

/// The laws of a file's header, each as one line.
fn laws_of(text: &str) -> Vec<String> {
    let header = text.lines().take_while(|line| line.starts_with("//!"));
    let lines: Vec<&str> = header.map(|line| line.trim_start_matches("//!").trim()).collect();
    let starts = lines.iter().enumerate().filter_map(|(i, line)| Some((i, line.split_once("Law:")?.1)));
    let law = |(i, first): (usize, &str)| {
        let rest = lines[i + 1..].iter().take_while(|line| !line.is_empty() && !line.contains("Law:"));
        let words: Vec<&str> = std::iter::once(first.trim()).chain(rest.copied()).collect();
        words.join(" ")
    };
    starts.map(law).collect()
}

/// What a law says that holds it.
fn holders_of(law: &str) -> Vec<&str> {
    let groups = law.split("(held by ").skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split('`').skip(1).step_by(2)).collect()
}

/// The tests and types that a file defines.
fn names_of_holders(text: &str) -> Vec<&str> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]");
        let mut words =
            line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let Some(kind) = words.find(|word| matches!(*word, "fn" | "struct" | "enum" | "trait")) else {
            continue;
        };
        if kind != "fn" || is_test {
            names.extend(words.next());
        }
        is_test &= kind != "fn";
    }
    names
}

/// All Rust files below a directory.
fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() && !path.join("CACHEDIR.TAG").exists() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// Every source file of the workspace with its path.
fn source_texts() -> Vec<(String, String)> {
    let (root, mut files) = (root(), Vec::new());
    CRATES.iter().for_each(|name| rust_files(&root.join(name), &mut files));
    files.sort();
    files.dedup();
    let read = |file: &PathBuf| {
        let name = file.strip_prefix(&root).expect("a file of the workspace").display().to_string();
        (name, fs::read_to_string(file).expect("a readable source file"))
    };
    files.iter().map(read).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The bare code of every source file of the workspace, by its path; tests are left out.
fn sources() -> &'static BTreeMap<String, String> {
    static SOURCES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let (root, mut files) = (root(), Vec::new());
        CRATES.iter().for_each(|name| source_files(&root.join(name).join("src"), 1, &mut files));
        let code = |file: &Path| bare_code(&fs::read_to_string(file).expect("a readable source file"));
        let name =
            |file: &Path| file.strip_prefix(&root).expect("a file of the workspace").display().to_string();
        let all = files.iter().map(|(file, _)| (name(file), code(file)));
        all.filter(|(file, _)| !file.ends_with("_tests.rs") && !file.ends_with("/testing.rs")).collect()
    });
    &SOURCES
}

/// True when code contains a path such as `Command::new`, not as the end of a longer name.
fn does(code: &str, act: &str) -> bool {
    code.match_indices(act).any(|(at, _)| {
        !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') || act.starts_with('.')
    })
}

/// True for a file itself, and for files in a directory.
fn is_below(file: &str, owner: &str) -> bool {
    file.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[test]
fn code_is_read_without_comments_strings_and_tests() {
    for (code, want) in [
        ("use crate::a; // crate::b\n/* crate::c /* crate::d */ crate::e */", vec!["a"]),
        ("let x = \"crate::a\"; let y = r#\"crate::b \" \"#; crate::c();", vec!["c"]),
        ("fn f<'a>(x: &'a str) { let q = '\"'; crate::a::b(q) }", vec!["a"]),
        ("#[cfg(test)]\nmod tests { use crate::a; fn f() { } }\nuse crate::b;", vec!["b"]),
        ("#[cfg(test)]\nuse crate::a;\nuse crate::{b, c::{d, e}, f as g};", vec!["b", "c", "f"]),
        ("use super::a; use super::super::b;", vec!["a"]),
    ] {
        assert_eq!(
            named_in(&bare_code(code), 1),
            want.iter().map(|w| (*w).to_owned()).collect::<BTreeSet<_>>()
        );
    }
    let lib = "pub mod a;\nmod b;\npub use a::B;\npub(crate) const TABLE: &[Row] = &[a::ROW, b::ROW];\n";
    let items = RootItems::new(lib, &declared_modules(lib));
    assert_eq!(items.modules_behind("TABLE").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(items.modules_behind("B").count(), 0);
    let reexports = reexports("pub mod a;\npub use a::{B, c::D as E};\npub use self::f::G;");
    let want =
        [("B", "a"), ("E", "a"), ("G", "f")].map(|(item, module)| (item.to_owned(), module.to_owned()));
    assert_eq!(reexports, BTreeMap::from(want));
}

/// Which top-level module of a crate names which.
fn module_edges(src: &Path) -> Edges {
    let lib = bare_code(&fs::read_to_string(src.join("lib.rs")).expect("a crate has a lib.rs"));
    let modules: BTreeSet<String> = declared_modules(&lib);
    let reexports = reexports(&lib);
    let root_items = RootItems::new(&lib, &modules);
    let mut edges = Edges::new();
    for module in &modules {
        let mut files = Vec::new();
        let (file, dir) = (src.join(format!("{module}.rs")), src.join(module));
        if file.is_file() {
            files.push((file, 1));
        }
        if dir.is_dir() {
            source_files(&dir, 2, &mut files);
        }
        for (file, depth) in files {
            let code = bare_code(&fs::read_to_string(&file).expect("a readable source file"));
            for name in named_in(&code, depth) {
                let one = modules.get(&name).or_else(|| reexports.get(&name));
                let targets = one.into_iter().chain(root_items.modules_behind(&name));
                for target in targets.filter(|target| *target != module) {
                    edges.entry(module.clone()).or_default().entry(target.clone()).or_insert(file.clone());
                }
            }
        }
    }
    edges
}

/// What `lib.rs` defines itself, and the modules that these definitions name: a table of modules depends on all of them.
struct RootItems {
    names: BTreeSet<String>,
    modules: BTreeSet<String>,
}

impl RootItems {
    fn new(lib: &str, modules: &BTreeSet<String>) -> Self {
        let is_definition = |item: &&str| {
            let keyword = |word: &str| matches!(word, "const" | "static" | "fn" | "struct" | "enum" | "type");
            item.split_whitespace().take(3).any(keyword)
        };
        let definitions: Vec<&str> = lib.split(';').filter(is_definition).collect();
        let name = |item: &&str| -> Option<String> {
            let words = item.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty());
            words
                .skip_while(|w| !matches!(*w, "const" | "static" | "fn" | "struct" | "enum" | "type"))
                .nth(1)
                .map(str::to_owned)
        };
        let is_named =
            |module: &&String| definitions.iter().any(|item| item.contains(&format!("{module}::")));
        Self {
            names: definitions.iter().filter_map(name).collect(),
            modules: modules.iter().filter(is_named).cloned().collect(),
        }
    }

    fn modules_behind(&self, name: &str) -> impl Iterator<Item = &String> {
        let is_defined = self.names.contains(name);
        self.modules.iter().filter(move |_| is_defined)
    }
}

/// The source files of a module's directory, each with the depth of its module; tests are left out.
fn source_files(dir: &Path, depth: usize, files: &mut Vec<(PathBuf, usize)>) {
    for entry in fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            source_files(&path, depth + 1, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push((path.clone(), if stem == "mod" { depth - 1 } else { depth }));
        }
    }
}

/// The modules that a file declares as files of their own.
fn declared_modules(code: &str) -> BTreeSet<String> {
    let items = code.split([';', '{', '}']);
    let names =
        items.filter_map(|item| item.split_whitespace().collect::<Vec<_>>().last_chunk::<2>().copied());
    names.filter(|[keyword, _]| *keyword == "mod").map(|[_, name]| name.to_owned()).collect()
}

/// The items that a file re-exports, and the module each is from.
fn reexports(code: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for part in code.split("use ").skip(1) {
        let path = part.split(';').next().unwrap_or_default().trim();
        let path = path.strip_prefix("self::").or_else(|| path.strip_prefix("crate::")).unwrap_or(path);
        let Some((module, items)) = path.split_once("::") else { continue };
        for item in items.split([',', '{', '}']) {
            let name = item.rsplit([':', ' ']).find(|name| !name.is_empty()).unwrap_or_default();
            if !name.is_empty() {
                out.insert(name.to_owned(), module.trim().to_owned());
            }
        }
    }
    out
}

/// The names directly below the crate's root that code at this depth uses, by `crate::` or a chain of `super::`.
fn named_in(code: &str, depth: usize) -> BTreeSet<String> {
    let supers = "super::".repeat(depth);
    let mut out = BTreeSet::new();
    for prefix in ["crate::", supers.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let is_part = code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'));
            if !is_part {
                out.extend(first_names(&code[at + prefix.len()..]));
            }
        }
    }
    out.remove("super");
    out
}

/// The first name of a path, or of each path in a group.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
            }
            '}' => {
                names.push(name(&group[start..at]));
                break;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Code without comments, literals and what is compiled for tests only.
fn bare_code(code: &str) -> String {
    let mut code = without_literals(code);
    while let Some(start) = code.find("#[cfg(test)]") {
        let end = item_end(&code[start..]).map_or(code.len(), |len| start + len);
        code.replace_range(start..end, "");
    }
    code
}

/// The length of the item that starts here: up to its `;`, or the brace that closes its body.
fn item_end(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let after = code.find(']')? + 1;
    let is_use = code[after..].trim_start().trim_start_matches("pub ").starts_with("use ");
    for (at, c) in code.char_indices().skip_while(|(at, _)| *at < after) {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' if depth == 1 && !is_use => return Some(at + 1),
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Code without comments, and with nothing in its strings and characters.
fn without_literals(code: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(code.len()), code);
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_len(rest)
        } else if c == '"' {
            quoted_len(rest, '"')
        } else if c == 'r' && !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            raw_string_len(rest).unwrap_or(0)
        } else if c == '\'' && is_char_literal(rest) {
            quoted_len(rest, '\'')
        } else {
            0
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            rest = &rest[skipped..];
        }
    }
    out
}

fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

fn raw_string_len(text: &str) -> Option<usize> {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    let body = text.get(1 + hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(text.len(), |at| 2 + hashes + at + end.len()))
}

/// True for `'x'` and `'\n'`, false for a lifetime.
fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    let (first, second) = (chars.next(), chars.next());
    first == Some('\\') || second == Some('\'')
}

/// The groups of modules that reach each other.
fn cycles(edges: &Edges) -> BTreeSet<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|from| (from, reachable(edges, from))).collect();
    let in_cycle = reach.iter().filter(|(from, all)| all.contains(**from));
    in_cycle
        .map(|(from, all)| {
            all.iter().filter(|to| reach.get(to).is_some_and(|back| back.contains(*from))).cloned().collect()
        })
        .collect()
}

fn reachable(edges: &Edges, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for to in edges.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    seen
}

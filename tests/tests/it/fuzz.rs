//! For any input, the result is an answer or an error, in time: no panic, no hang.
//!
//! `cargo test` runs a few inputs, always the same. With `FUZZ_SECONDS=60` every target runs new ones for this time.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

mod trust;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use zagent_compiler::{Compat, CompileOptions, CompileTarget, Compiler, TreeLimits, yaml};
use zagent_config::target::{MatchKind, Target, TargetSubject};
use zagent_config::{Map, Value};
use zagent_rollout::envelope::read_report;
use zagent_rollout::record::{Component, RolloutRecord};
use zagent_rollout::report::{NodeActivity, NodeReport};
use zagent_rollout::stored_record::{parse_record, record_text};
use zagent_tests::memory::{Tree, inputs};
use zagent_tests::mutate::{Damage, WORDS, break_text, damages, soup};

/// Number of inputs of a target when no time is given.
const FEW: u32 = 24;
/// The time limit per input, in a build without optimisation on a busy machine; the goal is one second.
const PATIENCE: Duration = Duration::from_secs(30);
/// The stack size of a program's main thread.
const STACK: usize = 8 << 20;

/// Runs `target` on inputs of `strategy`, each on its own thread, so that a hang is detected.
fn fuzz<S>(strategy: S, target: fn(S::Value))
where
    S: Strategy,
    S::Value: Clone + Debug + Send + 'static,
{
    let seconds =
        std::env::var("FUZZ_SECONDS").ok().map(|text| text.parse().expect("FUZZ_SECONDS is a number"));
    let config = Config { cases: FEW, failure_persistence: None, max_shrink_iters: 512, ..Config::default() };
    let fixed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = match seconds {
        None => TestRunner::new_with_rng(config, fixed),
        Some(_) => TestRunner::new(config),
    };
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    loop {
        match runner.run(&strategy, |input| attempt(input, target)) {
            Ok(()) => {}
            Err(TestError::Fail(why, input)) => panic!("{why}\n{input:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        if end.is_none_or(|end| Instant::now() >= end) {
            return;
        }
    }
}

fn attempt<I: Send + 'static>(input: I, target: fn(I)) -> Result<(), TestCaseError> {
    let (done, wait) = channel();
    let work = move || {
        target(input);
        let _ = done.send(());
    };
    let worker = thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread");
    match wait.recv_timeout(PATIENCE) {
        Ok(()) => Ok(()),
        Err(RecvTimeoutError::Timeout) => {
            Err(TestCaseError::fail(format!("still running after {PATIENCE:?}")))
        }
        Err(RecvTimeoutError::Disconnected) => {
            let panic = worker.join().expect_err("the thread said nothing, so it panicked");
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(TestCaseError::fail(format!("panicked: {}", words.unwrap_or_default())))
        }
    }
}

/// A case of the corpus: its states and its pillar, by path.
#[derive(Clone, Debug)]
struct Trees {
    states: Vec<(String, String)>,
    pillar: Vec<(String, String)>,
}

fn corpus() -> Vec<Trees> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/cases");
    let mut dirs: Vec<PathBuf> =
        fs::read_dir(root).expect("the corpus").map(|entry| entry.expect("a case").path()).collect();
    dirs.sort();
    dirs.iter()
        .map(|dir| Trees { states: tree(&dir.join("states")), pillar: tree(&dir.join("pillar")) })
        .collect()
}

fn tree(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
                files.push((name, String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned()));
            }
        }
    }
    files.sort();
    files
}

fn grains() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/grains.json");
    Value::from_json_str(&fs::read_to_string(path).expect("grains.json")).expect("grains are JSON")
}

/// Every text of the corpus.
fn texts() -> Vec<String> {
    corpus()
        .into_iter()
        .flat_map(|trees| trees.states.into_iter().chain(trees.pillar))
        .map(|(_, text)| text)
        .collect()
}

fn broken_text() -> impl Strategy<Value = String> {
    (select(texts()), damages()).prop_map(|(text, damages)| break_text(&text, &damages))
}

#[test]
fn yaml_layer() {
    fuzz(prop_oneof![soup(WORDS), broken_text(), ".{0,200}"], |text| {
        let _ = yaml::load(&text, &TreeLimits::default());
    });
}

/// A pack with every kind of entry, and where it is damaged: a place, and a byte to put there.
fn pack() -> zagent_cache::testing::PackBuilder {
    let mut pack = zagent_cache::testing::PackBuilder::default();
    let tree = [b"100644 top.sls\0".as_slice(), &[7; 20]].concat();
    pack.object("commit", b"tree 0000000000000000000000000000000000000000\n\n");
    pack.object("tree", &tree);
    let base = pack.object("blob", &[b"base ".repeat(40), vec![b'x'; 65_536]].concat());
    // The size of the base, the size of the result, a copy and an insert.
    let next = pack.delta(base, &[0xc8, 0x81, 0x04, 0x08, 0x91, 0x05, 0x05, 0x03, b'a', b'b', b'c']);
    pack.delta(next, &[0x08, 0x02, 0x02, b'y', b'z']);
    pack.delta(base, &zagent_cache::testing::copying_delta(65_736, 65_536));
    pack.id_delta(&[9; 20], &[0x08, 0x01, 0x01, b'q']);
    pack
}

#[test]
fn pack_parser() {
    let wounds = proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6);
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    fuzz((wounds, any::<bool>(), any::<Option<u16>>(), noise), |(wounds, sealed, cut, noise)| {
        let mut body = pack().body();
        for (at, byte) in wounds {
            let at = usize::from(at) % body.len();
            body[at] ^= byte;
        }
        if let Some(cut) = cut.filter(|cut| cut % 4 == 0) {
            body.truncate(usize::from(cut) % body.len());
            body.extend(noise);
        }
        let bytes = if sealed { zagent_cache::testing::seal_pack(body) } else { body };
        let dir = tempfile::tempdir().expect("a directory");
        let _ = zagent_cache::testing::read_pack(&bytes, dir.path(), (64, 1 << 20, 4 << 20));
    });
}

struct Anyone(Value, Map);

impl TargetSubject for Anyone {
    fn id(&self) -> &str {
        "testminion"
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.0.clone()
    }

    fn pillar(&self) -> Value {
        self.0.clone()
    }

    fn nodegroups(&self) -> &Map {
        &self.1
    }

    fn resources(&self) -> Vec<(String, String)> {
        vec![("ssh".to_owned(), "web".to_owned())]
    }
}

#[rustfmt::skip]
const TARGET_WORDS: &[&str] = &[
    " ", "and", "or", "not", "( ", " )", "(", ")", "G@os:Debian", "G@", "P@os:(a|b", "P@os:(a+)+$", "E@^t.*n", "E@(a|aa)+$", "E@[",
    "L@a,b", "L@,", "I@roles:web", "I;@rack;row;b", "J@rack:row:.", "S@192.0.2.0/24", "S@::/0", "S@300.1.1.1/99", "N@one", "N@loop",
    "N@nope", "T@ssh", "T@ssh:web", "M@testminion", "X@y", "@", "*", "test*", "[a-", "[!a]?", "{a,b}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "\\", "é", ":", "/", ",",
];

#[test]
fn matcher() {
    let kinds: Vec<MatchKind> = MatchKind::NAMES.iter().map(|(_, kind)| *kind).collect();
    fuzz((soup(TARGET_WORDS), select(kinds)), |(text, kind)| {
        let mut groups = Map::new();
        groups.insert("one", Value::from("G@os:Debian or L@a"));
        groups.insert("loop", Value::from("N@loop and not N@one"));
        groups.insert("two", Value::from(text.as_str()));
        let subject = Anyone(grains(), groups);
        if let Ok(target) = Target::parse(&text, kind) {
            let _ = target.matches(&subject);
        }
        let _ = Target::parse_lenient(&text, kind).matches(&subject);
        let _ = Target::parse_lenient("N@two", MatchKind::Compound).matches(&subject);
    });
}

fn compile(states: Vec<(String, String)>, pillar: Vec<(String, String)>, want: &CompileTarget) {
    let bytes = |files: Vec<(String, String)>| {
        Tree::base(files.into_iter().map(|(path, text)| (path, text.into_bytes())))
    };
    for compat in [Compat::Salt, Compat::Strict] {
        let options = CompileOptions { id: "testminion".to_owned(), compat, ..CompileOptions::default() };
        let compiler = Compiler::new(inputs(bytes(states.clone()), bytes(pillar.clone()), grains(), options));
        let _ = compiler.pillar();
        let _ = compiler.top();
        let _ = compiler.high(want);
        let _ = compiler.compile(want);
    }
}

#[test]
fn renderer_pipe() {
    fuzz(prop_oneof![soup(WORDS), broken_text()], |text| {
        let states =
            vec![("t.sls".to_owned(), text.clone()), ("a.sls".to_owned(), "{% set b = 1 %}".to_owned())];
        let pillar = vec![("top.sls".to_owned(), "base: {'*': [p]}".to_owned()), ("p.sls".to_owned(), text)];
        compile(states, pillar, &CompileTarget::Sls { names: vec!["t".to_owned()], env: "base".to_owned() });
    });
}

#[test]
fn whole_compile() {
    let broken = (select(corpus()), proptest::collection::vec((any::<u16>(), damages()), 1..4));
    fuzz(broken, |(mut trees, wounds): (Trees, Vec<(u16, Vec<Damage>)>)| {
        for (at, damages) in &wounds {
            let files = trees.states.len() + trees.pillar.len();
            let file = usize::from(*at) % files.max(1);
            let victim = trees.states.iter_mut().chain(&mut trees.pillar).nth(file);
            if let Some((_, text)) = victim {
                *text = break_text(text, damages);
            }
        }
        let names: Vec<String> = trees.states.iter().filter_map(|(path, _)| sls(path)).collect();
        let highstate = trees.states.iter().any(|(path, _)| path == "top.sls");
        let want = if highstate {
            CompileTarget::Highstate
        } else {
            CompileTarget::Sls { names, env: "base".to_owned() }
        };
        compile(trees.states, trees.pillar, &want);
    });
}

fn sls(path: &str) -> Option<String> {
    let name = path.strip_suffix(".sls")?;
    Some(name.strip_suffix("/init").unwrap_or(name).replace('/', "."))
}

/// A stored record in each format.
fn records() -> Vec<String> {
    let flat = "schema: 1\nid: r1\nfleet: prod\ncomponent: agent\nto: 1.2.0\ntarget: '*'\nbatch_size: 10%\nsoak_time: 60s\n\
                batch_pause: 30s\nmax_failed: 1\nbatches: [[a], [b, c]]\nnodes: {a: {status: confirmed}, b: {status: waiting}}\n\
                state: rolling\ncreated: 2026-03-01T12:00:00Z\nserial: 3\ndriver: {id: me, heartbeat: 2026-03-01T12:00:00Z}\n";
    let old: RolloutRecord = serde_yaml::from_str(flat).expect("a record");
    let mut new = RolloutRecord { schema: 2, ..old };
    new.postpone(1, vec!["c".parse().expect("a name")]);
    let planned = RolloutRecord { postponed: vec![], ..new };
    vec![flat.to_owned(), record_text(&planned).expect("a record is text")]
}

#[test]
fn record_parsing() {
    let broken = (select(records()), damages()).prop_map(|(text, damages)| break_text(&text, &damages));
    fuzz(prop_oneof![broken, soup(WORDS), ".{0,200}"], |text| {
        let id = "r1".parse().expect("a name");
        if let Ok(record) = parse_record(&id, text.as_bytes()) {
            // What was read can be written, and says the same again.
            let stored = record_text(&record).expect("a record is text");
            assert_eq!(parse_record(&id, stored.as_bytes()), Ok(record));
        }
    });
}

/// A stored report; nobody signed it.
fn stored_report() -> String {
    let report = NodeReport {
        id: "web-01".parse().expect("a name"),
        component: Component::States,
        version: "1.0.0".into(),
        revision: None,
        state: NodeActivity::Soaking,
        taken: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        facts: [("os".to_owned(), "Debian".into())].into(),
        updated_at: "2026-03-01T12:00:00Z".parse().expect("a time"),
        child: None,
        degraded: None,
        hold: Some("a window".into()),
        waits: [("r1".parse().expect("a name"), "a signature".to_owned())].into(),
        protocol: 1,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
    };
    let text = serde_json::to_string(&report).expect("a report is text");
    serde_json::json!({"schema": 1, "report": text, "signature": ""}).to_string()
}

#[test]
fn report_parsing() {
    let broken = damages().prop_map(|damages| break_text(&stored_report(), &damages));
    fuzz(prop_oneof![broken, soup(WORDS), ".{0,200}"], |text| {
        let node = "web-01".parse().expect("a name");
        if let Ok(report) = read_report(Component::States, &node, text.as_bytes()) {
            assert_eq!(report.id, node);
        }
    });
}

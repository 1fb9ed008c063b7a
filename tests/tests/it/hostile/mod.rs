//! Hostile trees, each compiled in its own process: it ends by itself, quickly and with little memory.
//!
//! The limit is one second of CPU and 64 MB for an optimised build: `RELEASE_BIN` measures the program that it
//! names. Without it the compiler of this build is measured, which is many times slower, against limits that only catch
//! unbounded growth. `HOSTILE_ONLY=alias` runs the trees with that word in their name.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

mod trees;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use trees::{Tree, trees};

/// The optimised program to measure, if any.
const PROGRAM: &str = "RELEASE_BIN";
/// Set for a process that measures one tree.
const MEASURE: &str = "HOSTILE_MEASURE";
/// Set for a process that compiles one tree.
const COMPILE: &str = "HOSTILE_COMPILE";

/// How often a tree over the limit is measured again.
const AGAIN: usize = 4;

/// The limits for one tree.
struct Bound {
    cpu: Duration,
    megabytes: i64,
}

fn bound() -> Bound {
    match std::env::var_os(PROGRAM) {
        Some(_) => Bound { cpu: Duration::from_secs(1), megabytes: 64 },
        None if cfg!(debug_assertions) => Bound { cpu: Duration::from_secs(20), megabytes: 160 },
        None => Bound { cpu: Duration::from_secs(2), megabytes: 96 },
    }
}

fn arguments(tree: &Path) -> Vec<OsString> {
    let grains = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/grains.json");
    let mut args: Vec<OsString> = ["show", "lowstate", "--id", "web-01"].map(OsString::from).into();
    for (flag, path) in [
        ("--grains", grains),
        ("--config", tree.join("zagent.yaml")),
        ("--states", tree.join("states")),
        ("--pillar", tree.join("pillar")),
    ] {
        args.extend([flag.into(), path.into_os_string()]);
    }
    args
}

/// Arguments that make this program run one of its tests.
const fn harness(test: &str) -> [&str; 4] {
    [test, "--exact", "--nocapture", "--test-threads=1"]
}

/// Not a test: compiles the given tree.
#[test]
fn compile() {
    let Some(tree) = std::env::var_os(COMPILE).map(PathBuf::from) else { return };
    let args = std::iter::once("zagent".into()).chain(arguments(&tree));
    let (mut out, mut err) = (std::io::sink(), Vec::new());
    let exit = zagent::cli::run(args, &mut out, &mut err, (false, false));
    eprintln!("{}", String::from_utf8_lossy(&err));
    std::process::exit(i32::from(zagent::exit_code::code(exit)));
}

/// Not a test: runs one compile as its only child and prints its cost.
#[test]
fn measure() {
    let Some(tree) = std::env::var_os(MEASURE).map(PathBuf::from) else { return };
    // A shell sets limits, so that even the worst tree ends.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -t 60; ulimit -v 2000000; exec \"$@\"", "sh"]).env_clear();
    match std::env::var_os(PROGRAM) {
        Some(program) => shell.arg(program).args(arguments(&tree)),
        None => shell
            .arg(std::env::current_exe().expect("a test has a path"))
            .args(harness("hostile::compile"))
            .env(COMPILE, &tree),
    };
    let Output { status, stderr, .. } = shell.output().expect("a shell");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the cost of the child");
    let cpu = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let said = String::from_utf8_lossy(&stderr);
    let first = said.lines().find(|line| line.contains("error")).unwrap_or_default();
    println!("\ncost {cpu} {} {} {first}", usage.max_rss() / 1024, status.code().unwrap_or(-1));
}

/// The cost of one tree: CPU, megabytes, exit status and the start of its output.
struct Cost {
    cpu: Duration,
    megabytes: i64,
    exit: i32,
    said: String,
}

fn cost(tree: &Tree) -> Cost {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in &tree.files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    let this = std::env::current_exe().expect("a test has a path");
    let output = Command::new(this).args(harness("hostile::measure")).env(MEASURE, dir.path()).output();
    let output = output.expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("cost ")).unwrap_or_else(|| panic!("{text}"));
    let mut words = line.splitn(4, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).expect("a number");
    let (cpu, megabytes, exit) = (number(), number(), number());
    Cost {
        cpu: Duration::from_micros(cpu.unsigned_abs()),
        megabytes,
        exit: i32::try_from(exit).expect("an exit code"),
        said: words.next().unwrap_or_default().to_owned(),
    }
}

/// A tree over the limit is measured again: on a busy machine the same work costs more, and the lowest value is
/// what it needs.
fn cheapest(tree: &Tree, bound: &Bound) -> Cost {
    let mut least = cost(tree);
    for _ in 0..AGAIN {
        if least.cpu <= bound.cpu && least.megabytes <= bound.megabytes {
            break;
        }
        let again = cost(tree);
        least.cpu = least.cpu.min(again.cpu);
        least.megabytes = least.megabytes.min(again.megabytes);
    }
    least
}

#[test]
fn hostile_trees_cost_little_time_and_memory() {
    let bound = bound();
    let mut wrong = Vec::new();
    let only = std::env::var("HOSTILE_ONLY").unwrap_or_default();
    for tree in trees().into_iter().filter(|tree| tree.name.contains(&only)) {
        let cost = cheapest(&tree, &bound);
        let line = format!("{}: {:?}, {} MB: {}", tree.name, cost.cpu, cost.megabytes, cost.said);
        println!("{line}");
        let ended = cost.exit == 65 || (cost.exit == 0 && tree.may_compile);
        if !ended || cost.cpu > bound.cpu || cost.megabytes > bound.megabytes {
            wrong.push(format!("{line} (exit {})", cost.exit));
        }
    }
    assert!(wrong.is_empty(), "{} trees hurt\n{}", wrong.len(), wrong.join("\n"));
}

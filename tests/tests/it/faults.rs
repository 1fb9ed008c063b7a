//! Trees with one error in, the text on stderr out: `tests/faults/NAME/expected.txt`, all differences at once.
//!
//! `just golden` writes the present output. Read every one: people fix their trees with it.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use zagent_config::codes;
use zagent_daemon::error::ExitStatus;

/// What no golden text may contain: the secret values in the pillars of the cases.
const SECRET: &str = "hunter2";

fn root() -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults");
    dir.canonicalize().expect("the cases are there")
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).expect("the cases are there");
    let mut cases: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    cases.sort();
    cases
}

/// The command line of a case: its trees, one node for all, and the additions in `args`.
fn command(case: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["zagent", "show", "lowstate", "--id", "web-01"].map(OsString::from).into();
    let mut put = |flag: &str, path: PathBuf| args.extend([flag.into(), path.into_os_string()]);
    put("--grains", root().join("../corpus/grains.json"));
    put("--states", case.join("states"));
    if case.join("pillar").is_dir() {
        put("--pillar", case.join("pillar"));
    }
    let own = case.join("zagent.yaml");
    put("--config", if own.is_file() { own } else { root().join("zagent.yaml") });
    if let Ok(more) = fs::read_to_string(case.join("args")) {
        let here = case.display().to_string();
        args.extend(more.split_whitespace().map(|arg| OsString::from(arg.replace("{case}", &here))));
    }
    args
}

/// The output of the program for a case, with relative paths.
fn said(case: &Path) -> (String, ExitStatus) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = zagent::cli::run(command(case), &mut out, &mut err, (false, false));
    let text = String::from_utf8(err).expect("words are UTF-8");
    (text.replace(&format!("{}/", case.display()), ""), exit)
}

/// The lines that differ between two texts.
fn difference(want: &str, got: &str) -> String {
    let mut text = String::new();
    let (want, got): (Vec<_>, Vec<_>) = (want.lines().collect(), got.lines().collect());
    for i in 0..want.len().max(got.len()) {
        if want.get(i) != got.get(i) {
            for (sign, line) in [('-', want.get(i)), ('+', got.get(i))] {
                if let Some(line) = line {
                    let _ = writeln!(text, "  {sign} {line}");
                }
            }
        }
    }
    text
}

#[test]
fn every_error_matches_its_golden_file() {
    let accept = std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always");
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case.file_name().expect("a name").to_string_lossy().into_owned();
        let (got, exit) = said(&case);
        let golden = case.join("expected.txt");
        if accept {
            fs::write(&golden, &got).expect("the golden file is written");
        }
        let want = fs::read_to_string(&golden).unwrap_or_default();
        if want != got {
            wrong.push(format!("{name}\n{}", difference(&want, &got)));
        }
        if got.contains("error[") != (exit == ExitStatus::NotCompiled) {
            wrong.push(format!("{name}: ends with {exit:?}\n"));
        }
        if got.contains(SECRET) {
            wrong.push(format!("{name}: tells a value of the pillar\n"));
        }
    }
    assert!(wrong.is_empty(), "{} cases differ (`just golden` accepts)\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_code_of_the_compiler_has_a_case() {
    let mut shown = BTreeSet::new();
    for case in cases() {
        let text = fs::read_to_string(case.join("expected.txt")).unwrap_or_default();
        for (at, _) in text.match_indices("[ZA") {
            shown.insert(text[at + 1..].chars().take_while(|c| *c != ']').collect::<String>());
        }
    }
    let compiles =
        |id: &str| matches!(&id[2..4], "01" | "02" | "03" | "04" | "05" | "06" | "07" | "08" | "09");
    // Resources are read when a command asks for them: `cli::tests::resources` shows this code.
    let elsewhere = |id: &str| id == "ZA0708";
    let all: Vec<&str> =
        codes::all().map(|code| code.id).filter(|id| compiles(id) && !elsewhere(id)).collect();
    let missing: Vec<&&str> = all.iter().filter(|id| !shown.contains(**id)).collect();
    assert!(missing.is_empty(), "no case shows {missing:?}");
}

//! The rows of tests/matrix in, a verdict on every state function out. Tests with a container run with `NSPAWN=1`;
//! `MATRIX=pkg,cron` selects files, `MATRIX_PAGE=FILE` writes the table.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

use zagent_states::schema;
use zagent_tests::container::is_asked_for;
use zagent_tests::matrix::{Bench, Row, Verdict, page, read};

fn rows() -> Vec<Row> {
    read().unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")))
}

#[test]
fn every_implemented_state_has_a_row() {
    let known: BTreeSet<String> = rows().iter().map(|row| row.state.clone()).collect();
    let built = schema().described_functions().filter(|told| !told.traits.is_unimplemented);
    let missing: Vec<String> = built
        .map(|told| format!("{}.{}", told.module, told.name))
        .filter(|name| !known.contains(name))
        .collect();
    assert!(missing.is_empty(), "no row in tests/matrix for:\n{}", missing.join("\n"));
}

#[test]
fn every_row_is_about_a_state() {
    for row in rows() {
        let (module, fun) = row.state.split_once('.').unwrap_or_default();
        assert!(schema().function(module, fun).is_some(), "{}.yaml: there is no {}", row.file, row.state);
    }
}

#[test]
fn the_matrix_holds() {
    if !is_asked_for() {
        return;
    }
    let rows = rows();
    let only = std::env::var("MATRIX").unwrap_or_default();
    let wanted = |file: &str| only.is_empty() || only.split(',').any(|name| name == file);
    let mut files: Vec<&str> = rows.iter().map(|row| row.file.as_str()).filter(|f| wanted(f)).collect();
    files.dedup();
    // The longest first, so that the whole run ends earlier.
    files.sort_by_key(|file| std::cmp::Reverse(rows.iter().filter(|row| row.file == **file).count()));
    let queue = Mutex::new(files.into_iter());
    let verdicts = Mutex::new(Vec::new());
    let jobs = std::env::var("NSPAWN_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(file) = { queue.lock().unwrap().next() } {
                    let mut bench = Bench::default();
                    for row in rows.iter().filter(|row| row.file == file) {
                        let begun = Instant::now();
                        let verdict = bench.judge(row);
                        let took = begun.elapsed().as_secs_f32();
                        println!(
                            "{took:6.1} s  {} {}: {}",
                            row.state,
                            row.title,
                            verdict.fault().unwrap_or("ok")
                        );
                        verdicts.lock().unwrap().push(verdict);
                    }
                }
            });
        }
    });
    let mut verdicts: Vec<Verdict> = verdicts.into_inner().unwrap();
    let place = |v: &Verdict| rows.iter().position(|r| (&r.state, &r.title) == (&v.row.state, &v.row.title));
    verdicts.sort_by_key(place);
    if let Some(path) = std::env::var_os("MATRIX_PAGE") {
        std::fs::write(path, page(&verdicts)).unwrap();
    }
    let wrong: Vec<String> = verdicts
        .iter()
        .filter_map(|v| v.fault().map(|why| format!("{} {}: {why}", v.row.state, v.row.title)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), verdicts.len(), wrong.join("\n"));
}

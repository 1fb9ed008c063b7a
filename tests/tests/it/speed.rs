//! Ten times the states cost ten times the CPU, not a hundred times: no stage compares every pair of states.
//!
//! `just bench` prints the figures of an optimised build.

use std::fmt::Write;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use zagent_compiler::{CompileOptions, CompileTarget, Compiler};
use zagent_config::Value;
use zagent_tests::memory::{Tree, inputs};

/// Number of chains.
const CHAINS: usize = 50;
/// Allowed growth for ten times the states: linear is 10, quadratic is 100.
const GROWTH: f64 = 25.0;

/// This many states in chains, each requiring the one before it, one SLS per chain.
fn chains(states: usize) -> Tree {
    let mut files = vec![];
    let mut top = "base:\n  '*':\n".to_owned();
    for chain in 0..CHAINS {
        let mut text = format!("{{% set chain = {chain} %}}\n");
        for link in 0..states / CHAINS {
            let _ = write!(text, "s{{{{ chain }}}}-{link}:\n  test.nop:\n    - note: state {link}\n");
            if link > 0 {
                let _ = write!(text, "    - require:\n      - test: s{chain}-{}\n", link - 1);
            }
        }
        let _ = writeln!(top, "    - chain{chain}");
        files.push((format!("chain{chain}.sls"), text.into_bytes()));
    }
    files.push(("top.sls".to_owned(), top.into_bytes()));
    Tree::base(files)
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        now.tv_sec.try_into().expect("after the start"),
        now.tv_nsec.try_into().expect("a part of a second"),
    )
}

/// CPU time of one compile; the best of three, because other programs disturb caches too.
fn cost(states: usize) -> Duration {
    let once = || {
        let inputs = inputs(chains(states), Tree::default(), Value::empty_map(), CompileOptions::default());
        let start = cpu();
        let compiled = Compiler::new(inputs)
            .compile(&CompileTarget::Highstate)
            .unwrap_or_else(|faults| panic!("{faults:?}"));
        let spent = cpu() - start;
        assert_eq!(compiled.plan.chunks.len(), states);
        spent
    };
    (0..3).map(|_| once()).min().expect("three measurements")
}

#[test]
fn cost_grows_with_the_number_of_states() {
    let sizes: [usize; 2] = if cfg!(debug_assertions) { [400, 4000] } else { [5000, 50_000] };
    let [small, large] = sizes.map(cost);
    let growth = large.as_secs_f64() / small.as_secs_f64();
    println!("{} states: {small:?}, {} states: {large:?}, growth {growth:.1}", sizes[0], sizes[1]);
    assert!(growth < GROWTH, "ten times the states cost {growth:.1} times the CPU");
}

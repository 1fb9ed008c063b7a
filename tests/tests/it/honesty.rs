//! Random trees with everything that makes a prediction hard: `--test` against the run that follows it, state by state. Every wrong
//! prediction names its seed; `SEED=n` repeats one tree and prints it, `TREES=n` sets the number of trees.

#![allow(clippy::disallowed_methods, reason = "tests read variables and use the machine directly")]

use zagent_tests::honesty::{Flavour, Tally, Trial};

/// Trees of a usual test run; `just honesty` takes more.
const SAMPLE: u64 = 120;
/// At most so many thousandths of a percent of the states may be predicted wrongly, or be unknown, in trees with commands.
const MAX_WRONG: usize = 100;
const MAX_UNKNOWN: usize = 8_000;

#[expect(clippy::print_stdout, reason = "the figures of a test run")]
fn tally(flavour: Flavour, more: &[&str]) -> Tally {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TREES").unwrap_or(SAMPLE)).collect(),
    };
    let mut all = Tally::default();
    for seed in &seeds {
        let trial = Trial::new(*seed, flavour);
        if seeds.len() == 1 {
            println!("{}", trial.sls());
        }
        all.add(trial.compare(more));
    }
    println!("{flavour:?} {more:?}, seeds {:?} to {:?}: {}", seeds.first(), seeds.last(), all.summary());
    all
}

#[test]
fn without_commands_every_prediction_is_right() {
    for schedule in ["levels", "ordered"] {
        let all = tally(Flavour::WithoutCommands, &["--schedule", schedule]);
        assert!(all.wrong.is_empty(), "{schedule}: {}\n{}", all.summary(), all.wrong.join("\n"));
        assert_eq!(all.unknown, 0, "{schedule}: {:?}", all.reasons);
    }
}

#[test]
fn with_commands_nearly_every_prediction_is_right_and_few_are_unknown() {
    let all = tally(Flavour::WithCommands, &[]);
    let (wrong, unknown) = all.shares();
    assert!(wrong <= MAX_WRONG, "{}\n{}", all.summary(), all.wrong.join("\n"));
    assert!(unknown <= MAX_UNKNOWN, "{}\n{:#?}", all.summary(), all.reasons);
}

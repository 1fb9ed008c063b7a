//! The goals and limits of the ratios: `check` fails above a limit.
//!
//! A limit is far enough above the goal that noise does not cross it.

use anyhow::{Result, bail};

use crate::rounds::Rounds;

/// A ratio and its limits.
pub struct RatioBudget {
    pub workload: &'static str,
    pub program: &'static str,
    pub yardstick: &'static str,
    /// What we want.
    pub goal: f64,
    /// What fails a check.
    pub limit: f64,
}

const fn budget(
    workload: &'static str,
    (program, yardstick): (&'static str, &'static str),
    (goal, limit): (f64, f64),
) -> RatioBudget {
    RatioBudget { workload, program, yardstick, goal, limit }
}

const COLD: (&str, &str) = ("zagent cold", "floor");
const WARM: (&str, &str) = ("zagent warm", "phys");

/// All ratios that have a goal.
pub const BUDGETS: [RatioBudget; 11] = [
    budget("1 000 files, nothing to do", COLD, (1.5, 2.5)),
    budget("1 000 files, nothing to do", WARM, (2.5, 6.0)),
    budget("1 000 states in chains", COLD, (1.5, 3.0)),
    budget("500 templates, nothing to do", COLD, (1.5, 2.5)),
    budget("500 templates, nothing to do", ("zagent warm", "floor"), (1.0, 1.5)),
    budget("nothing at all", COLD, (2.0, 8.0)),
    budget("100 files, nothing to do", COLD, (2.0, 4.0)),
    budget("10 000 files, nothing to do", COLD, (1.5, 2.5)),
    budget("10 000 files, nothing to do", WARM, (2.5, 6.0)),
    budget("1 000 files from nothing", ("zagent cold", "phys fsync"), (2.0, 8.0)),
    budget("500 templates from nothing", ("zagent cold", "phys fsync"), (2.0, 8.0)),
];

/// Fails when a ratio is above its limit.
pub fn check(rounds: &Rounds) -> Result<()> {
    let mut above = Vec::new();
    for budget in &BUDGETS {
        let found = rounds.workloads().find(|(_, name)| *name == budget.workload);
        let ratio = found.and_then(|(i, _)| rounds.ratio(i, budget.program, budget.yardstick));
        match ratio {
            Some((ratio, _)) if ratio <= budget.limit => {}
            Some((ratio, _)) => above.push(format!(
                "{}: {} : {} is {ratio:.2}, the limit is {}",
                budget.workload, budget.program, budget.yardstick, budget.limit
            )),
            None => above.push(format!("{}: {} was not measured", budget.workload, budget.program)),
        }
    }
    if above.is_empty() { Ok(()) } else { bail!("too slow:\n{}", above.join("\n")) }
}

//! Outcomes in, the documentation page out.

use std::fmt::Write;

use super::{Foresight, Plan};

/// The result of a formula.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The formula.
    pub plan: Plan,
    /// How many states it has.
    pub states: usize,
    /// States that failed with zagent and not with Salt, or the error that stopped the run.
    pub failed: Vec<String>,
    /// How many states also fail with Salt.
    pub failing: usize,
    /// States that the second run changed, and that Salt's second run did not change.
    pub restless: Vec<String>,
    /// The quality of the dry run.
    pub foresight: Foresight,
    /// Differences without a known reason.
    pub differences: Vec<String>,
    /// Differences with a known reason.
    pub explained: Vec<String>,
    /// Results that differ, state by state.
    pub results: Vec<String>,
}

impl Outcome {
    /// True when there are no errors and no unexplained differences.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed.is_empty()
            && self.restless.is_empty()
            && self.differences.is_empty()
            && self.foresight.wrong.is_empty()
    }
}

const HEAD: &str = "# Formulas in containers\n\n\
Each formula is applied with its `pillar.example` (and the additions in `tests/formulas.yaml`) to a Debian 12 with real systemd: \
by zagent, and by Salt 3008.3 in a second container. **converges**: every state has the same result as with Salt; **again**: the \
second run changes nothing that Salt's second run does not change; **foretold**: states whose change the dry run before the \
first run predicted correctly, plus states that it reported as unknown; **equal**: files below /etc and elsewhere, packages, \
units and accounts are the same as with Salt. The formulas run with the default schedule, and with no options except those in \
the table. `just formulas` writes this page.\n\n\
| formula | SLS | states | converges | again | foretold | equal to Salt |\n|---|---|---|---|---|---|---|\n";

/// The page.
#[must_use]
pub fn page(outcomes: &[Outcome], out: &[Plan]) -> String {
    let mut text = HEAD.to_owned();
    let verdict =
        |list: &[String]| if list.is_empty() { "yes".to_owned() } else { format!("**no** ({})", list.len()) };
    for o in outcomes {
        let mut foretold = format!("{} + {}", o.foresight.right, o.foresight.unknown.len());
        if !o.foresight.wrong.is_empty() {
            let _ = write!(foretold, ", **wrong: {}**", o.foresight.wrong.len());
        }
        let mut equal = verdict(&o.differences);
        if !o.explained.is_empty() {
            let _ = write!(equal, ", but for {} with a reason", o.explained.len());
        }
        let mut converges = verdict(&o.failed);
        if o.failing > 0 {
            let _ = write!(converges, "; {} fail with Salt, too", o.failing);
        }
        let (sls, again) = (o.plan.sls.join(", "), verdict(&o.restless));
        let _ = writeln!(
            text,
            "| {} | {sls} | {} | {converges} | {again} | {foretold} | {equal} |",
            o.plan.name, o.states
        );
    }
    text.push_str("\n## What differs\n");
    for o in outcomes.iter().filter(|o| !o.is_good() || !o.explained.is_empty() || !o.results.is_empty()) {
        let _ = writeln!(text, "\n### {}\n", o.plan.name);
        let lists = [
            ("fails", &o.failed),
            ("changes again", &o.restless),
            ("foretold wrongly", &o.foresight.wrong),
            ("left differently", &o.differences),
            ("with a reason", &o.explained),
            ("told otherwise than by Salt", &o.results),
        ];
        for (what, list) in lists {
            for line in list {
                let _ = writeln!(text, "- {what}: `{}`", line.replace('`', "'").replace('\n', " "));
            }
        }
    }
    text.push_str("\n## Left out\n\n");
    for plan in out {
        let _ = writeln!(text, "- {}: {}", plan.name, plan.out);
    }
    text
}

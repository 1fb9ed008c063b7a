//! Outcomes in, the page of the book out.

use std::fmt::Write;

use super::{Foresight, Plan};

/// What became of a formula.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The formula.
    pub plan: Plan,
    /// How many states it has.
    pub states: usize,
    /// States that failed here and not with Salt, or what kept it from running.
    pub failed: Vec<String>,
    /// How many states fail with Salt, too.
    pub failing: usize,
    /// States that the second run changed, and that Salt's second run left alone.
    pub restless: Vec<String>,
    /// How the dry run did.
    pub foresight: Foresight,
    /// What is left differently, without those that have a reason.
    pub differences: Vec<String>,
    /// What is left differently with a reason.
    pub explained: Vec<String>,
    /// Results that differ, state by state.
    pub results: Vec<String>,
}

impl Outcome {
    /// Nothing is wrong with it.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed.is_empty()
            && self.restless.is_empty()
            && self.differences.is_empty()
            && self.foresight.wrong.is_empty()
    }
}

const HEAD: &str = "# Formulas in containers\n\n\
Each formula is applied with its `pillar.example` (and what `tests/formulas.yaml` lays over it) to a Debian 12 with real systemd, by \
zagent and in a twin by Salt 3008.3. **converges**: every state ends as with Salt; **again**: the second run changes nothing that \
Salt's second run does not change; **foretold**: states of which the dry run before the first run said rightly whether they would change, \
plus those of which it said that nobody can tell; **equal**: files below /etc and elsewhere, packages, units and accounts are those that Salt leaves. \
They run with the default schedule, and with no options but those that the table names. \
`just formulas` writes this page.\n\n\
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

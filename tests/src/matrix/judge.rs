//! A row and a container in, a verdict out: fresh, tested, applied, applied again, modified, tested, fixed, reverted.

use std::time::Duration;

use serde_json::Value;

use super::{Expected, Row};
use crate::container::{Node, program};

/// The time limit of a script of a row: it may install packages.
const SCRIPT: Duration = Duration::from_secs(300);
/// The time limit of a run of the agent.
const RUN: Duration = Duration::from_secs(300);

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// As expected.
    Good,
    /// It cannot be predicted, and the row says so.
    Unknown,
    /// The step does not apply.
    None,
    /// It was not reached.
    Left,
    /// Not as expected, and why.
    Bad(String),
}

/// The result of a row: one cell per step.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The row.
    pub row: Row,
    /// Tested, applied, applied again, tested after a drift, fixed, reverted.
    pub cells: [Cell; 6],
}

impl Verdict {
    /// The error.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.cells.iter().find_map(|cell| if let Cell::Bad(why) = cell { Some(why.as_str()) } else { None })
    }
}

/// A container for rows; a new one after a row that left something behind.
#[derive(Debug, Default)]
pub struct Bench {
    node: Option<Node>,
}

impl Bench {
    /// Runs a row.
    pub fn judge(&mut self, row: &Row) -> Verdict {
        let mut cells = [const { Cell::Left }; 6];
        if !row.skip.is_empty() {
            return Verdict { row: row.clone(), cells: [const { Cell::None }; 6] };
        }
        let bind =
            || vec![format!("{}:/usr/bin/zagent", program().canonicalize().expect("the program").display())];
        let node = self.node.take().unwrap_or_else(|| Node::usual(&bind()));
        let trial = Trial { node: &node, row };
        let clean = match trial.go(&mut cells) {
            Ok(()) => true,
            Err((step, why)) => {
                cells[step] = Cell::Bad(why);
                false
            }
        };
        // A revert leaves the container fresh for the next row.
        if clean && row.reverted.is_some() {
            self.node = Some(node);
        }
        Verdict { row: row.clone(), cells }
    }
}

struct Trial<'a> {
    node: &'a Node,
    row: &'a Row,
}

type Step = Result<(), (usize, String)>;

impl Trial<'_> {
    fn go(&self, cells: &mut [Cell; 6]) -> Step {
        let row = self.row;
        self.node.write("/srv/matrix/row.sls", &row.sls);
        self.script("setup", &row.setup).map_err(|e| (0, e))?;
        cells[0] = self.trial().map_err(|e| (0, e))?;
        let first = self.changes().map_err(|e| (1, e))?;
        cells[1] = Cell::Good;
        let again = self.apply(false).map_err(|e| (2, e))?;
        cells[2] = if row.restless { Cell::None } else { Cell::Good };
        if row.expected != Expected::Failure && !row.restless {
            self.is_quiet(&again).map_err(|e| (2, e))?;
        }
        let mut last = first.clone();
        if let Some(drift) = &row.drift {
            self.script("drift", drift).map_err(|e| (3, e))?;
            if self.script("right", &row.right).is_ok() {
                return Err((3, "`right` succeeds after the drift".into()));
            }
            cells[3] = self.trial().map_err(|e| (3, e))?;
            last = self.changes().map_err(|e| (4, e))?;
            cells[4] = Cell::Good;
        } else {
            (cells[3], cells[4]) = (Cell::None, Cell::None);
        }
        let Some(reverted) = &row.reverted else {
            cells[5] = Cell::None;
            return Ok(());
        };
        self.revert(&last).map_err(|e| (5, e))?;
        // The revert restores the drifted value; the initial value is for the first run.
        if self.script("reverted", reverted).is_err() && last != first {
            self.revert(&first).map_err(|e| (5, e))?;
        }
        self.script("reverted", reverted).map_err(|e| (5, e))?;
        cells[5] = Cell::Good;
        Ok(())
    }

    fn script(&self, what: &str, script: &str) -> Result<(), String> {
        if script.is_empty() {
            return Ok(());
        }
        let noninteractive = format!("export DEBIAN_FRONTEND=noninteractive\n{script}");
        let said = self.node.shell(&noninteractive, SCRIPT);
        if said.code == 0 {
            return Ok(());
        }
        let tail: Vec<char> = format!("{}{}", said.out, said.err).trim().chars().rev().take(300).collect();
        Err(format!("`{what}` ends with {}: {}", said.code, tail.into_iter().rev().collect::<String>()))
    }

    fn agent(&self, words: &[&str]) -> Result<(i32, Value), String> {
        let limit = RUN.as_secs().to_string();
        let told = [&["timeout", &limit, "zagent"][..], words, &["--out", "json"]].concat();
        let said = self.node.run(&told);
        let report = serde_json::from_str(&said.out);
        report
            .map(|report| (said.code, report))
            .map_err(|_| format!("{}: {}{}", said.code, said.out, said.err))
    }

    fn apply(&self, test: bool) -> Result<(i32, Value), String> {
        let words = ["state.apply", "row", "--states", "/srv/matrix", "--test"];
        self.agent(&words[..if test { 5 } else { 4 }])
    }

    fn revert(&self, run: &str) -> Result<(), String> {
        let (code, report) = self.agent(&["run", "--revert", run, "--force"])?;
        if code == 0 { Ok(()) } else { Err(format!("the revert ends with {code}: {report}")) }
    }

    /// The results of the row's function.
    fn own<'r>(&self, report: &'r Value) -> Vec<&'r Value> {
        let (module, fun) = self.row.state.split_once('.').unwrap_or((&self.row.state, ""));
        let is_own =
            |tag: &str| tag.starts_with(&format!("{module}_|-")) && tag.ends_with(&format!("_|-{fun}"));
        let states = report["states"].as_object();
        states.into_iter().flatten().filter(|(tag, _)| is_own(tag)).map(|(_, state)| state).collect()
    }

    /// A dry run predicts what the row expects.
    fn trial(&self) -> Result<Cell, String> {
        let (_, report) = self.apply(true)?;
        let own = self.own(&report);
        let any = |claim: &dyn Fn(&Value) -> bool| own.iter().any(|state| claim(state));
        let unknown = any(&|s| s["details"]["unknown"] == true);
        // Some Salt functions list no changes in a dry run: only the result counts.
        let changes = any(&|s| s["result"].is_null() || has_changes(s));
        match (self.row.expected, self.row.foreseen) {
            (Expected::Change, true) if changes && !unknown => Ok(Cell::Good),
            (Expected::Change, false) if unknown => Ok(Cell::Unknown),
            (Expected::Nothing, _) if !changes && !unknown && !own.is_empty() => Ok(Cell::Good),
            (Expected::Failure, _) if !own.is_empty() => Ok(Cell::Good),
            _ => Err(format!("the dry run says {}", shown(&own, &report))),
        }
    }

    /// A run does what the row expects; returns its run id.
    fn changes(&self) -> Result<String, String> {
        let (code, report) = self.apply(false)?;
        let own = self.own(&report);
        let any = |claim: &dyn Fn(&Value) -> bool| own.iter().any(|state| claim(state));
        let good = match self.row.expected {
            Expected::Change => code == 0 && any(&|s| s["result"] == true && has_changes(s)),
            Expected::Nothing => code == 0 && any(&|s| s["result"] == true) && !any(&has_changes),
            Expected::Failure => code == 1 && any(&|s| s["result"] == false),
        };
        if !good {
            return Err(format!("the run ends with {code}: {}", shown(&own, &report)));
        }
        self.script("right", &self.row.right)?;
        Ok(report["run"].as_str().unwrap_or_default().to_owned())
    }

    fn is_quiet(&self, (code, report): &(i32, Value)) -> Result<(), String> {
        let own = self.own(report);
        if *code == 0 && !own.iter().any(|state| has_changes(state)) {
            return Ok(());
        }
        Err(format!("the second run ends with {code}: {}", shown(&own, report)))
    }
}

fn has_changes(state: &Value) -> bool {
    state["changes"].as_object().is_some_and(|changes| !changes.is_empty())
}

/// The results of the function, or those of all states when it has none.
fn shown(own: &[&Value], report: &Value) -> String {
    let all = || report["states"].as_object().into_iter().flatten().map(|(_, state)| state).collect();
    let which: Vec<&Value> = if own.is_empty() { all() } else { own.to_vec() };
    if which.is_empty() {
        return report.to_string();
    }
    let tell = |s: &&Value| format!("{} {} {}", s["result"], s["changes"], s["comment"]);
    which.iter().map(tell).collect::<Vec<_>>().join("; ")
}

//! A plan in, what it would do to this host out: the dry run.
//!
//! Law: it looks and never changes, starts no process, and says `unknown` where it cannot tell.

mod diff;
mod file;
mod order;
mod owner;
mod report;
mod requisite;
mod test;

pub use report::{Head, text, to_json};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Map as Json;
use zagent_compiler::{Chunk, Compat, Files, Plan};
use zagent_config::Value;

use crate::output::Mask;

/// What would happen to one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should be.
    Unchanged,
    /// It would change, or run.
    WouldChange,
    /// It would fail.
    WouldFail,
    /// It would not run, because of a requisite or a guard.
    Skipped(SkipReason),
    /// Nobody can tell.
    Unknown,
}

/// Why a state would not run; the words are those of a run's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Something it requires would fail.
    RequireFailed,
    /// Nothing it waits for would change.
    OnchangesNotMet,
    /// Nothing it waits for would fail.
    OnfailNotMet,
    /// What it prepares for would not change.
    PrereqNotMet,
    /// `creates` says that it is done.
    Guard,
}

impl SkipReason {
    /// Its word in a result; a guard is no failure of a requisite and has none.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::RequireFailed => "require_failed",
            Self::OnchangesNotMet => "onchanges_not_met",
            Self::OnfailNotMet => "onfail_not_met",
            Self::PrereqNotMet => "prereq_not_met",
            Self::Guard => "",
        }
    }
}

/// What was seen of one state.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What would happen.
    pub verdict: Verdict,
    /// What would change, in Salt's shape.
    pub changes: Json<String, serde_json::Value>,
    /// In words.
    pub comment: String,
    /// The lines that would change.
    pub diff: String,
}

impl Outcome {
    fn new(verdict: Verdict, comment: impl Into<String>) -> Self {
        Self { verdict, changes: Json::new(), comment: comment.into(), diff: String::new() }
    }

    fn unchanged(comment: impl Into<String>) -> Self {
        Self::new(Verdict::Unchanged, comment)
    }

    fn unknown(comment: impl AsRef<str>) -> Self {
        Self::new(Verdict::Unknown, format!("unknown: {}", comment.as_ref()))
    }

    fn would_fail(comment: impl Into<String>) -> Self {
        Self::new(Verdict::WouldFail, comment)
    }

    fn would_change(comment: impl Into<String>, changes: Json<String, serde_json::Value>) -> Self {
        Self { changes, ..Self::new(Verdict::WouldChange, comment) }
    }

    /// The `result` of a run's report: null when it would change or nobody can tell.
    #[must_use]
    pub const fn result(&self) -> Option<bool> {
        match self.verdict {
            Verdict::Unchanged => Some(true),
            Verdict::Skipped(SkipReason::RequireFailed) | Verdict::WouldFail => Some(false),
            Verdict::Skipped(_) => Some(true),
            Verdict::WouldChange | Verdict::Unknown => None,
        }
    }
}

/// Renders the template of a managed file.
pub trait Templates {
    /// The text that `source` gives with these variables; `path` names it in messages.
    ///
    /// # Errors
    /// Fails with words when it does not render.
    fn render(&self, file: &TemplateFile<'_>) -> Result<String, String>;
}

/// A template of a managed file.
pub struct TemplateFile<'a> {
    /// Its environment.
    pub env: &'a str,
    /// Its path in the tree.
    pub path: &'a str,
    /// Its text.
    pub source: &'a str,
    /// `defaults` and `context` of the state, merged.
    pub variables: zagent_config::Map,
}

/// What a look may use.
pub struct Scene<'a> {
    /// The state trees, for `salt://`.
    pub files: &'a dyn Files,
    /// The pillar, for `contents_pillar`.
    pub pillar: &'a Value,
    /// Renders templates.
    pub templates: &'a dyn Templates,
    /// Whose verdicts count.
    pub compat: Compat,
    /// What must not be shown.
    pub mask: &'a Mask,
}

/// The dry run of a plan.
pub struct Preview<'p> {
    /// Chunk and outcome, in the order they would run, with the level of each.
    pub states: Vec<(&'p Chunk, usize, Outcome)>,
}

/// Looks at the host for every state of a plan.
#[must_use]
pub fn preview<'p>(plan: &'p Plan, scene: &Scene<'_>) -> Preview<'p> {
    let order = order::order(plan, scene.compat);
    let level = order::levels(plan);
    let looker = Looker { plan, scene, future: RefCell::default(), seen: RefCell::default() };
    for i in &order {
        looker.outcome(*i);
    }
    let seen = looker.seen.into_inner();
    let states =
        order.into_iter().filter_map(|i| Some((plan.chunks.get(i)?, level[i], seen.get(&i)?.clone())));
    Preview { states: states.collect() }
}

/// What a path would be once the states before have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Future {
    Directory,
    File,
    Absent,
    Unsure,
}

struct Looker<'a, 'p> {
    plan: &'p Plan,
    scene: &'a Scene<'a>,
    future: RefCell<BTreeMap<PathBuf, Future>>,
    seen: RefCell<BTreeMap<usize, Outcome>>,
}

impl Looker<'_, '_> {
    /// The outcome of a chunk, its requisites first.
    fn outcome(&self, i: usize) -> Outcome {
        if let Some(seen) = self.seen.borrow().get(&i) {
            return seen.clone();
        }
        let outcome = self.requisites(i).unwrap_or_else(|| self.guarded(i));
        self.seen.borrow_mut().insert(i, outcome.clone());
        outcome
    }

    fn guarded(&self, i: usize) -> Outcome {
        let chunk = &self.plan.chunks[i];
        if let Some(guard) = ["onlyif", "unless"].into_iter().find(|g| chunk.args.contains(g)) {
            return Outcome::unknown(format!("a preview does not run the command of `{guard}`"));
        }
        if let Some(created) = created(chunk) {
            let verdict = Verdict::Skipped(SkipReason::Guard);
            return Outcome::new(verdict, format!("`creates`: {created} exists"));
        }
        self.reaction(i, self.look(chunk))
    }

    fn look(&self, chunk: &Chunk) -> Outcome {
        let outcome = match &*chunk.state {
            "test" => test::look(chunk, self.scene.pillar),
            "file" => file::look(chunk, self),
            _ => None,
        };
        outcome
            .unwrap_or_else(|| Outcome::unknown(format!("no preview for {}.{} yet", chunk.state, chunk.fun)))
    }

    /// What would stand at a path, when a state before decided it.
    fn future(&self, path: &Path) -> Option<Future> {
        let future = self.future.borrow();
        // A parent that goes away or comes new takes what is below with it.
        path.ancestors().find_map(|p| future.get(p).map(|f| (p == path, *f))).and_then(|(own, f)| {
            match (own, f) {
                (true, f) => Some(f),
                (false, Future::Absent) => Some(Future::Absent),
                (false, Future::Unsure) => Some(Future::Unsure),
                (false, _) => None,
            }
        })
    }

    /// True when a state before may have done anything at all.
    fn is_unsure(&self) -> bool {
        self.seen.borrow().values().any(|o| o.verdict == Verdict::Unknown)
    }

    fn foresee(&self, path: &Path, future: Future) {
        self.future.borrow_mut().insert(path.to_owned(), future);
    }
}

/// The first path of `creates`, when all of them exist.
fn created(chunk: &Chunk) -> Option<String> {
    let paths: Vec<&str> = match chunk.args.get("creates")? {
        Value::Str(path) => vec![path],
        Value::List(paths) => paths.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let first = (*paths.first()?).to_owned();
    paths.iter().all(|p| Path::new(p).exists()).then_some(first)
}

#[cfg(test)]
mod tests;

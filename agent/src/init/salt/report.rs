//! What was found in a Salt tree: as values, as JSON, and as a verdict.

use serde_json::{Value as Json, json};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SaltSpot {
    /// The file, as a human opens it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// How far something is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SupportLevel {
    /// It runs.
    Runs,
    /// Salt has it, this version does not: its arguments are checked, it does not run.
    Known,
    /// Nobody knows it: a module of yours, or a slip.
    Unknown,
}

/// A function, and where it is used.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FunctionUse {
    /// `file.managed`.
    pub name: String,
    /// How far it is supported.
    pub level: SupportLevel,
    /// Every use, in the order of the files.
    pub places: Vec<SaltSpot>,
}

/// What became of an SLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlsOutcome {
    /// It compiles.
    Compiles,
    /// It compiles with `compat: salt`; what is in the way of it otherwise.
    WithCompat(String),
    /// It does not compile.
    Fails {
        /// The code of the first fault.
        code: String,
        /// In words.
        message: String,
        /// Where.
        place: Option<SaltSpot>,
    },
}

/// An SLS.
#[derive(Clone, Debug)]
pub struct SlsReport {
    /// Its environment.
    pub env: String,
    /// Its name, as a top file says it.
    pub name: String,
    /// Its file.
    pub file: String,
    /// What became of it.
    pub outcome: SlsOutcome,
    /// How many states it declares.
    pub declared: usize,
    /// How many of them would run.
    pub run: usize,
}

/// A part of Salt beyond states.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SaltFeature {
    /// Its name.
    pub name: String,
    /// What takes its place.
    pub advice: &'static str,
    /// Where it is used.
    pub places: Vec<SaltSpot>,
}

/// Everything.
#[derive(Debug, Default)]
pub struct SaltReport {
    /// For whom it was compiled.
    pub node: String,
    /// The states and the pillar, as directories.
    pub roots: (Vec<String>, Vec<String>),
    /// Directories that the configuration names and that are not there.
    pub missing: Vec<String>,
    /// The SLS, sorted.
    pub sls: Vec<SlsReport>,
    /// State functions, the most used first.
    pub states: Vec<FunctionUse>,
    /// Functions that templates call, the most used first.
    pub functions: Vec<FunctionUse>,
    /// Renderers other than the usual: name, whether it is here, and the files.
    pub renderers: Vec<FunctionUse>,
    /// Parts of Salt beyond states.
    pub features: Vec<SaltFeature>,
    /// Targets of the top files: environment, target, whether it means this node, and where.
    pub targets: Vec<(String, String, bool, SaltSpot)>,
    /// What is wrong with the pillar.
    pub pillar: Vec<String>,
    /// What is wrong with the top file.
    pub top: Vec<String>,
}

impl SaltReport {
    /// States that are declared, and those of them that would run.
    #[must_use]
    pub fn states_that_run(&self) -> (usize, usize) {
        self.sls.iter().fold((0, 0), |(all, run), sls| (all + sls.declared, run + sls.run))
    }

    /// The share of declared states that would run, in percent, rounded down: 100 means all of them.
    #[must_use]
    pub fn percent_supported(&self) -> usize {
        let (all, run) = self.states_that_run();
        (run * 100).checked_div(all).unwrap_or(if self.failing_count() == 0 { 100 } else { 0 })
    }

    /// How many SLS do not compile.
    #[must_use]
    pub fn failing_count(&self) -> usize {
        self.sls.iter().filter(|s| matches!(s.outcome, SlsOutcome::Fails { .. })).count()
    }

    /// How many SLS compile only as Salt would.
    #[must_use]
    pub fn lenient_count(&self) -> usize {
        self.sls.iter().filter(|s| matches!(s.outcome, SlsOutcome::WithCompat(_))).count()
    }

    /// What to make of it.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        let clean = self.pillar.is_empty() && self.top.is_empty() && self.features.is_empty();
        match self.percent_supported() {
            100 if clean && self.failing_count() == 0 => "It works as it is.",
            100 => "The states work; what is listed above them needs a look.",
            90.. => "Nearly all of it works: start with a dry run on one host.",
            60.. => "Most of it works: replace what is listed above, then a dry run on one host.",
            25.. => "A part of it works: take over SLS by SLS, beginning with those that run in full.",
            _ => "Little of it works in this version.",
        }
    }

    /// As data.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let (declared, run) = self.states_that_run();
        let sls = self.sls.iter().map(|s| {
            let (outcome, code, why, place) = match &s.outcome {
                SlsOutcome::Compiles => ("compiles", None, None, None),
                SlsOutcome::WithCompat(why) => ("with_compat", None, Some(why), None),
                SlsOutcome::Fails { code, message, place } => ("fails", Some(code), Some(message), place.as_ref()),
            };
            json!({"env": s.env, "name": s.name, "file": s.file, "outcome": outcome, "code": code, "message": why,
                   "place": place, "states": s.declared, "run": s.run})
        });
        let targets = self.targets.iter().map(|(env, target, matched, spot)| {
            json!({"env": env, "target": target, "matched": matched, "place": spot})
        });
        json!({
            "node": self.node,
            "states_roots": self.roots.0,
            "pillar_roots": self.roots.1,
            "missing_roots": self.missing,
            "percent": self.percent_supported(),
            "verdict": self.verdict(),
            "states": {"declared": declared, "run": run},
            "sls": sls.collect::<Vec<_>>(),
            "state_functions": self.states,
            "template_functions": self.functions,
            "renderers": self.renderers,
            "features": self.features,
            "targets": targets.collect::<Vec<_>>(),
            "pillar_errors": self.pillar,
            "top_errors": self.top,
        })
    }
}

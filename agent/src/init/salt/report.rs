//! Findings about a Salt tree: as values, as JSON, and as a verdict.

use serde_json::{Value as Json, json};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SaltSpot {
    /// File path.
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
    /// Salt has it, zagent does not: its arguments are checked, it does not run.
    Known,
    /// Unknown: a custom module, or a typing error.
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

/// Result of an SLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlsOutcome {
    /// It compiles.
    Compiles,
    /// It compiles only with `compat: salt`, with the strict error.
    WithCompat(String),
    /// It does not compile.
    Fails {
        /// Code of the first error.
        code: String,
        /// Message.
        message: String,
        /// Position.
        place: Option<SaltSpot>,
    },
}

impl SlsOutcome {
    /// Its word.
    const fn word(&self) -> &'static str {
        match self {
            Self::Compiles => "compiles",
            Self::WithCompat(_) => "with_compat",
            Self::Fails { .. } => "fails",
        }
    }
}

/// An SLS.
#[derive(Clone, Debug)]
pub struct SlsReport {
    /// Its environment.
    pub env: String,
    /// Name, as used in a top file.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Result with the pillar of the tree.
    pub outcome: SlsOutcome,
    /// Result with the documented pillar of a formula, when there is one.
    pub with_example: Option<SlsOutcome>,
    /// Number of states it declares.
    pub declared: usize,
    /// Number of its states that would run.
    pub run: usize,
}

/// A feature of Salt other than states.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SaltFeature {
    /// Its name.
    pub name: String,
    /// Its replacement.
    pub advice: &'static str,
    /// Where it is used.
    pub places: Vec<SaltSpot>,
}

/// The whole report.
#[derive(Debug, Default)]
pub struct SaltReport {
    /// Node it was compiled for.
    pub node: String,
    /// States and pillar directories.
    pub roots: (Vec<String>, Vec<String>),
    /// Directories that the configuration names and that do not exist.
    pub missing: Vec<String>,
    /// SLS files, sorted.
    pub sls: Vec<SlsReport>,
    /// State functions, most used first.
    pub states: Vec<FunctionUse>,
    /// Template functions, most used first.
    pub functions: Vec<FunctionUse>,
    /// Renderers other than the default: name, support, and files.
    pub renderers: Vec<FunctionUse>,
    /// Features of Salt other than states.
    pub features: Vec<SaltFeature>,
    /// Targets of the top files: environment, target, whether it matches this node, and position.
    pub targets: Vec<(String, String, bool, SaltSpot)>,
    /// Errors of the pillar.
    pub pillar: Vec<String>,
    /// Errors of the top file.
    pub top: Vec<String>,
    /// Errors of everything together that the top file selects for this node.
    pub highstate: Vec<String>,
    /// Files with the documented pillar of formulas.
    pub examples: Vec<String>,
}

impl SlsReport {
    /// True when it compiles in some way.
    fn compiles_somehow(&self) -> bool {
        let is_good = |outcome: &SlsOutcome| !matches!(outcome, SlsOutcome::Fails { .. });
        is_good(&self.outcome) || self.with_example.as_ref().is_some_and(is_good)
    }
}

impl SaltReport {
    /// Adds the results with a documented pillar. An SLS that compiles only with it counts with what it declares then.
    pub(super) fn use_example(&mut self, file: String, with: Self) {
        self.examples.push(file);
        for (own, other) in self.sls.iter_mut().zip(with.sls) {
            let is_better = matches!(own.outcome, SlsOutcome::Fails { .. })
                && own
                    .with_example
                    .as_ref()
                    .is_none_or(|outcome| matches!(outcome, SlsOutcome::Fails { .. }))
                && !matches!(other.outcome, SlsOutcome::Fails { .. });
            if is_better {
                (own.declared, own.run) = (other.declared, other.run);
            }
            if is_better || own.with_example.is_none() {
                own.with_example = Some(other.outcome);
            }
        }
    }

    /// Number of SLS files that compile with the documented pillar of a formula, or without.
    #[must_use]
    pub fn compiling_with_example(&self) -> usize {
        self.sls.iter().filter(|sls| sls.compiles_somehow()).count()
    }

    /// Declared states, and those of them that would run.
    #[must_use]
    pub fn states_that_run(&self) -> (usize, usize) {
        self.sls.iter().fold((0, 0), |(all, run), sls| (all + sls.declared, run + sls.run))
    }

    /// Percentage of declared states that would run, rounded down: 100 means all, and that everything compiles.
    #[must_use]
    pub fn percent_supported(&self) -> usize {
        let (all, run) = self.states_that_run();
        let compiles = self.failing_count() == 0
            && self.highstate.is_empty()
            && self.top.is_empty()
            && self.pillar.is_empty();
        match (run * 100).checked_div(all) {
            Some(percent) if compiles => percent,
            Some(percent) => percent.min(99),
            None if compiles => 100,
            None => 0,
        }
    }

    /// Number of SLS files that do not compile.
    #[must_use]
    pub fn failing_count(&self) -> usize {
        self.sls.iter().filter(|s| matches!(s.outcome, SlsOutcome::Fails { .. })).count()
    }

    /// Number of SLS files that compile only in Salt mode.
    #[must_use]
    pub fn lenient_count(&self) -> usize {
        self.sls.iter().filter(|s| matches!(s.outcome, SlsOutcome::WithCompat(_))).count()
    }

    /// Summary for the user.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        let clean = self.pillar.is_empty() && self.top.is_empty() && self.features.is_empty();
        match self.percent_supported() {
            100 if clean && self.failing_count() == 0 => "Everything works without changes.",
            100 => "All states work; check the other items listed above.",
            90.. => "Nearly all of it works: start with a dry run on one host.",
            60.. => "Most of it works: replace what is listed above, then do a dry run on one host.",
            25.. => "Part of it works: migrate one SLS at a time, starting with those that run completely.",
            _ => "Little of it works in this version.",
        }
    }

    /// As data.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let (declared, run) = self.states_that_run();
        let sls = self.sls.iter().map(|s| {
            let (outcome, code, why, place) = match &s.outcome {
                SlsOutcome::Compiles => (s.outcome.word(), None, None, None),
                SlsOutcome::WithCompat(why) => (s.outcome.word(), None, Some(why), None),
                SlsOutcome::Fails { code, message, place } => {
                    (s.outcome.word(), Some(code), Some(message), place.as_ref())
                }
            };
            let with = s.with_example.as_ref().map(SlsOutcome::word);
            json!({"env": s.env, "name": s.name, "file": s.file, "outcome": outcome, "with_example": with,
                   "code": code, "message": why, "place": place, "states": s.declared, "run": s.run})
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
            "highstate_errors": self.highstate,
            "pillar_examples": self.examples,
        })
    }
}

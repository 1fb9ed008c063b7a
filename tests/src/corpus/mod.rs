//! A directory of recorded cases in, one verdict per case out.
//!
//! A case is judged only by what the program prints; the text of an error is ours, whether there is one is Salt's.

mod call;
mod compare;
mod high;
mod low;
mod outcome;
mod stage;
mod tree;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use call::{Answer, answer, report};
pub use stage::Staged;
pub use tree::snapshot;

/// Cases with one of these tags are excluded: Salt's own defects, and renderers that are Python programs.
const SKIPPED_TAGS: [&str; 2] = ["salt_bug", "py_renderer"];

/// How closely to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rigour {
    /// What decides a run: sequence, requisites, arguments.
    Meaning,
    /// Also order numbers, environments, `_in` keys, repeated prereq targets and the order of ids.
    Letter,
}

/// How closely to compare runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// Which states exist, their run numbers, results, whether they changed something; and the files left behind.
    Verdicts,
    /// Also the comment of every state, and its changes.
    Words,
}

/// Why a case fails.
#[derive(Debug)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The outcome of one comparison.
pub type Verdict = Result<(), Mismatch>;

/// Builds the failing side of a [`Verdict`].
pub(crate) fn differs(text: impl Into<String>) -> Verdict {
    Err(Mismatch(text.into()))
}

/// The commands to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `show top`.
    Top,
    /// `show pillar`.
    Pillar,
    /// `show highstate`.
    High,
    /// `show lowstate`.
    Low,
}

impl Ask {
    /// All of them, in the order they are asked.
    pub const ALL: [Self; 4] = [Self::Top, Self::Pillar, Self::High, Self::Low];

    /// The name of the command, of the expected file and of the key in `errors.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Top => "top",
            Self::Pillar => "pillar",
            Self::High => "highstate",
            Self::Low => "lowstate",
        }
    }
}

/// One recorded case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its directory.
    pub dir: PathBuf,
    /// Its name.
    pub name: String,
    /// Its `case.json`.
    pub order: Map<String, Value>,
}

impl Case {
    fn load(dir: PathBuf) -> Result<Self, Mismatch> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match json(&dir.join("case.json"))? {
            Value::Object(order) => Ok(Self { dir, name, order }),
            _ => Err(Mismatch(format!("{name}: case.json is not a mapping"))),
        }
    }

    /// The area it belongs to.
    pub fn area(&self) -> &str {
        self.order.get("area").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it is excluded.
    pub fn skipped(&self) -> bool {
        let tags = self.order.get("tags").and_then(Value::as_array);
        tags.is_some_and(|tags| {
            tags.iter().any(|tag| tag.as_str().is_some_and(|tag| SKIPPED_TAGS.contains(&tag)))
        })
    }

    fn expected(&self, name: &str) -> Result<Option<Value>, Mismatch> {
        let path = self.dir.join("expected").join(format!("{name}.json"));
        if path.exists() { json(&path).map(Some) } else { Ok(None) }
    }

    /// Runs every `show` command with a known Salt answer, and lists the differences.
    ///
    /// # Errors
    /// Fails when the case itself cannot be read or staged.
    pub fn show(&self, grains: &Path, rigour: Rigour) -> Result<Vec<Mismatch>, Mismatch> {
        let staged = self.stage(grains)?;
        let errors = self.expected("errors")?.unwrap_or(Value::Null);
        let mut mismatches = Vec::new();
        for ask in Ask::ALL {
            let expected = self.expected(ask.name())?;
            let refused = errors.get(ask.name());
            if expected.is_none() && refused.is_none() {
                continue;
            }
            let verdict = answer(ask, &staged).and_then(|answer| match refused {
                Some(words) => refuses(ask.name(), words, &answer),
                None => judge(ask, expected.as_ref().unwrap_or(&Value::Null), answer, &staged, rigour),
            });
            mismatches.extend(verdict.err());
        }
        Ok(mismatches)
    }

    /// Runs the case as often as Salt did, and lists the differences in the reports and in the files left behind.
    ///
    /// # Errors
    /// Fails when the case itself cannot be read or staged.
    pub fn run(&self, grains: &Path, closeness: Closeness) -> Result<Vec<Mismatch>, Mismatch> {
        // Salt ran with this umask, and modes of new files depend on it.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let staged = self.stage(grains)?;
        let errors = self.expected("errors")?.unwrap_or(Value::Null);
        let is_test = self.order.get("test").and_then(Value::as_bool).unwrap_or(false);
        let runs = self.order.get("runs").and_then(Value::as_u64).unwrap_or(1);
        let mut mismatches = Vec::new();
        for number in 1..=runs {
            let nth = |word: &str| if number == 1 { word.to_owned() } else { format!("{word}{number}") };
            let expected = self.expected(&nth("result"))?;
            let verdict =
                report(is_test, &staged).and_then(|answer| match (errors.get(nth("apply")), answer) {
                    (Some(words), answer) => refuses("run", words, &answer),
                    (None, Answer::Refused(words)) => {
                        differs(format!("{}: zagent refuses: {words}", nth("run")))
                    }
                    (None, Answer::Data(got)) => {
                        let expected = expected.as_ref().unwrap_or(&Value::Null);
                        outcome::compare(&nth("run"), expected, &staged.neutral(&got), closeness)
                    }
                });
            mismatches.extend(verdict.err());
        }
        if let Some(expected) = self.expected("tree")? {
            let got =
                snapshot(&staged.scratch()).map_err(|error| Mismatch(format!("{}: {error}", self.name)))?;
            mismatches.extend(tree::compare(&expected, &got).err());
        }
        Ok(mismatches)
    }

    fn stage(&self, grains: &Path) -> Result<Staged, Mismatch> {
        Staged::new(self, grains).map_err(|error| Mismatch(format!("{}: {error}", self.name)))
    }
}

fn refuses(asked: &str, words: &Value, answer: &Answer) -> Verdict {
    match answer {
        Answer::Refused(_) => Ok(()),
        Answer::Data(_) => differs(format!("{asked}: Salt refuses with {words}, zagent does not")),
    }
}

fn judge(ask: Ask, expected: &Value, answer: Answer, staged: &Staged, rigour: Rigour) -> Verdict {
    let got = match answer {
        Answer::Data(data) => staged.neutral(&data),
        Answer::Refused(words) => return differs(format!("{}: zagent refuses: {words}", ask.name())),
    };
    match ask {
        Ask::Top | Ask::Pillar if compare::equal(expected, &got) => Ok(()),
        Ask::Top | Ask::Pillar => differs(format!("{}: expected {expected} got {got}", ask.name())),
        Ask::High => high::compare(expected, &got, rigour),
        Ask::Low => low::compare(expected, &got, rigour),
    }
}

fn json(path: &Path) -> Result<Value, Mismatch> {
    let text = fs::read(path).map_err(|error| Mismatch(format!("{}: {error}", path.display())))?;
    serde_json::from_slice(&text).map_err(|error| Mismatch(format!("{}: {error}", path.display())))
}

/// Every case below `root`, by name.
///
/// # Errors
/// Fails when the directory or a `case.json` cannot be read.
pub fn cases(root: &Path) -> Result<Vec<Case>, Mismatch> {
    let unreadable = |error: std::io::Error| Mismatch(format!("{}: {error}", root.display()));
    let mut dirs = Vec::new();
    for entry in fs::read_dir(root.join("cases")).map_err(unreadable)? {
        dirs.push(entry.map_err(unreadable)?.path());
    }
    dirs.sort();
    dirs.into_iter().map(Case::load).collect()
}

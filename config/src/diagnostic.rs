//! A diagnostic: what is wrong in a file that a user wrote, where, how it was reached, and how to fix it.
//!
//! Law: every code has an explanation (`zagent explain ZA0107`). Secrets are masked when a diagnostic leaves the
//! compiler ([`crate::mask`]) (held by `every_code_of_the_compiler_has_a_case`,
//! `a_line_shows_its_structure_and_not_its_value`).

use std::fmt;

use crate::codes::Code;
use crate::value::Pos;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocation {
    /// The file, as the user should open it.
    pub file: String,
    /// Line and column in it.
    pub pos: Pos,
}

impl FileLocation {
    /// Makes a place.
    #[must_use]
    pub fn new(file: impl Into<String>, pos: Pos) -> Self {
        Self { file: file.into(), pos }
    }
}

impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.pos.line > 0 {
            write!(f, ":{}", self.pos.line)?;
            if self.pos.column > 0 {
                write!(f, ":{}", self.pos.column)?;
            }
        }
        Ok(())
    }
}

/// One step of how an error was reached: `included by`, `imported by`, `matched by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The text before the place, such as "included by `web`".
    pub what: String,
    /// The place.
    pub location: FileLocation,
}

/// A line to show under the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// What it is, empty for the source itself, `rendered` for the output of a template.
    pub label: String,
    /// Its number.
    pub line: u32,
    /// Column to point at, zero for none.
    pub column: u32,
    /// Its text.
    pub text: String,
}

/// An error, with everything that helps to fix it.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Which kind.
    pub code: Code,
    /// What is wrong, one sentence, no full stop.
    pub message: String,
    /// Where it is in the source.
    pub location: Option<FileLocation>,
    /// Lines to show.
    pub excerpts: Vec<Excerpt>,
    /// How it was reached, nearest first, up to the top file.
    pub chain: Vec<TraceStep>,
    /// More places or text that belong to it.
    pub notes: Vec<String>,
    /// How to fix it.
    pub hint: Option<String>,
    /// The pillar key that the hint names (`nginx:workers`): code that knows the pillar adds where the key is set.
    pub pillar_key: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without a place.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            location: None,
            excerpts: Vec::new(),
            chain: Vec::new(),
            notes: Vec::new(),
            hint: None,
            pillar_key: None,
        }
    }

    /// Adds the place.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, pos: Pos) -> Self {
        self.location = Some(FileLocation::new(file, pos));
        self
    }

    /// Adds a hint: how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The shape of DESIGN section 7: `{code, message, file, line, column, hint}`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let place = self.location.as_ref();
        serde_json::json!({
            "code": self.code.id,
            "message": self.message,
            "file": place.map(|p| p.file.clone()),
            "line": place.map(|p| p.pos.line).filter(|n| *n > 0),
            "column": place.map(|p| p.pos.column).filter(|n| *n > 0),
            "hint": self.hint,
            "chain": self.chain.iter().map(|s| format!("{} {}", s.what, s.location)).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl fmt::Display for Diagnostic {
    /// One line: place, code, message. The CLI prints the full form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.location {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}: {}", self.code.id, self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// All diagnostics of a stage; never empty when returned as an error.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one more.
    pub fn push(&mut self, fault: Diagnostic) {
        self.0.push(fault);
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Ok` when there is none, else all of them.
    ///
    /// # Errors
    /// Fails with itself when it is not empty.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(fault: Diagnostic) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

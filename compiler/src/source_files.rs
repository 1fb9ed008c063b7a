//! The files that a compile has read: how each was reached, and how positions in its rendered text map to its source.

use std::cell::RefCell;
use std::sync::Arc;

use zagent_config::codes::Code;
use zagent_config::{Diagnostic, Excerpt, FileLocation, Pos, TraceStep};

/// A file that was read, by number.
pub(crate) type FileId = u32;

/// A position in the *rendered* text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RenderedPos {
    pub(crate) file: FileId,
    pub(crate) pos: Pos,
}

/// How a file came to be read.
#[derive(Clone, Debug)]
pub(crate) enum ReachedBy {
    /// Named on the command line, or the top file itself.
    Requested,
    /// By a pattern of a top file.
    Matched { spot: RenderedPos, pattern: String },
    /// By an external top.
    External,
    /// By an include.
    Included { spot: RenderedPos },
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Its environment.
    pub(crate) env: Arc<str>,
    /// Its SLS name; empty for a top file.
    pub(crate) sls: Arc<str>,
    /// Its path in the tree.
    pub(crate) path: String,
    /// How it was reached.
    pub(crate) reached: ReachedBy,
}

/// What a line of rendered text was made from.
#[derive(Clone, Debug)]
pub(crate) struct LineOrigin {
    /// The file, which may be an imported template.
    pub(crate) file: String,
    /// The position in it.
    pub(crate) pos: Pos,
    /// The source line.
    pub(crate) text: String,
    /// The rendered line, when it differs from the source.
    pub(crate) rendered: Option<String>,
}

/// Finds where rendered lines come from; used only when there is a diagnostic to show.
pub(crate) trait OriginLookup {
    /// The origin of a position in the rendered text of a file.
    fn origin(&self, file: FileId, pos: Pos) -> LineOrigin;
}

/// All files that were read, in order.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    files: RefCell<Vec<SourceFile>>,
}

impl SourceFiles {
    /// Adds one more file.
    pub(crate) fn add(&self, file: SourceFile) -> FileId {
        let mut files = self.files.borrow_mut();
        files.push(file);
        FileId::try_from(files.len() - 1).expect("the number of files is limited far below 2^32")
    }

    /// How many were read.
    pub(crate) fn len(&self) -> usize {
        self.files.borrow().len()
    }

    /// One of them.
    pub(crate) fn get(&self, id: FileId) -> SourceFile {
        self.files.borrow()[id as usize].clone()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<SourceFile> {
        self.files.borrow().clone()
    }

    /// The source position of a rendered position.
    pub(crate) fn place(&self, trace: &dyn OriginLookup, spot: RenderedPos) -> FileLocation {
        let origin = trace.origin(spot.file, spot.pos);
        FileLocation::new(origin.file, origin.pos)
    }

    /// Makes a diagnostic at a position: source position, excerpt, rendered line and the path from the top file.
    pub(crate) fn diagnostic(
        &self,
        trace: &dyn OriginLookup,
        code: Code,
        spot: RenderedPos,
        message: impl Into<String>,
    ) -> Diagnostic {
        let origin = trace.origin(spot.file, spot.pos);
        let mut diagnostic = Diagnostic::new(code, message).at(origin.file, origin.pos);
        if origin.pos.is_known() {
            diagnostic.excerpts.push(Excerpt {
                label: String::new(),
                line: origin.pos.line,
                column: origin.pos.column,
                text: origin.text,
            });
        }
        if let Some(text) = origin.rendered {
            diagnostic.excerpts.push(Excerpt {
                label: "rendered".into(),
                line: spot.pos.line,
                column: spot.pos.column,
                text,
            });
        }
        diagnostic.chain = self.include_chain(trace, spot.file);
        diagnostic
    }

    /// How a file was reached, nearest first, up to the top file.
    pub(crate) fn include_chain(&self, trace: &dyn OriginLookup, file: FileId) -> Vec<TraceStep> {
        let mut steps = Vec::new();
        let mut at = file;
        while steps.len() < self.len() {
            match self.get(at).reached {
                ReachedBy::Requested | ReachedBy::External => break,
                ReachedBy::Matched { spot, pattern } => {
                    steps.push(TraceStep {
                        what: format!("matched by `{pattern}`"),
                        location: self.place(trace, spot),
                    });
                    break;
                }
                ReachedBy::Included { spot } => {
                    let by = self.get(spot.file);
                    steps.push(TraceStep {
                        what: format!("included by `{}`", by.sls),
                        location: self.place(trace, spot),
                    });
                    at = spot.file;
                }
            }
        }
        steps
    }
}

//! What a template's tree holds: questions that its writer asks.

use super::ast::{Body, Expr, Kind, StmtKind};

/// Which helpers a template calls.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) import: bool,
    pub(super) include: bool,
}

impl Needs {
    pub(super) fn see(&mut self, body: &Body) {
        for stmt in body {
            match &*stmt.kind {
                StmtKind::Import { context, .. }
                | StmtKind::From { context, .. }
                | StmtKind::ImportData { context, .. } => self.import |= !context,
                StmtKind::Include { context: false, .. } => self.include = true,
                kind => inner(kind).for_each(|body| self.see(body)),
            }
        }
    }
}

/// The bodies inside a statement.
fn inner(kind: &StmtKind) -> Box<dyn Iterator<Item = &Body> + '_> {
    match kind {
        StmtKind::SetBlock { body, .. }
        | StmtKind::With { body, .. }
        | StmtKind::FilterBlock { body, .. }
        | StmtKind::AutoEscape { body, .. }
        | StmtKind::Block { body, .. }
        | StmtKind::Load { body, .. }
        | StmtKind::Macro { body, .. }
        | StmtKind::CallBlock { body, .. }
        | StmtKind::Profile { body, .. } => Box::new(std::iter::once(body)),
        StmtKind::For { body, otherwise, .. } => Box::new([body, otherwise].into_iter()),
        StmtKind::If { branches, otherwise } => {
            Box::new(branches.iter().map(|(_, body)| body).chain(otherwise))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// True when a body gives names values in its own scope.
pub(super) fn assigns(body: &Body) -> bool {
    body.iter().any(|stmt| match &*stmt.kind {
        StmtKind::Set(..)
        | StmtKind::SetBlock { .. }
        | StmtKind::Load { .. }
        | StmtKind::Import { .. }
        | StmtKind::From { .. }
        | StmtKind::ImportData { .. }
        | StmtKind::Macro { .. } => true,
        kind @ (StmtKind::If { .. } | StmtKind::Profile { .. }) => inner(kind).any(assigns),
        _ => false,
    })
}

/// True when a body leaves the loop around it or starts its next turn.
pub(super) fn controls_loop(body: &Body) -> bool {
    body.iter().any(|stmt| match &*stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::For { otherwise, .. } => controls_loop(otherwise),
        kind @ (StmtKind::If { .. } | StmtKind::Profile { .. } | StmtKind::With { .. }) => {
            inner(kind).any(controls_loop)
        }
        _ => false,
    })
}

/// Bytes of plain text that one run of a body can print, inner loops and macros aside: they count for themselves.
pub(super) fn plain_bytes(body: &Body) -> usize {
    body.iter()
        .map(|stmt| match &*stmt.kind {
            StmtKind::Data(range) => range.len(),
            StmtKind::If { .. } => inner(&stmt.kind).map(plain_bytes).max().unwrap_or(0),
            StmtKind::For { otherwise, .. } => plain_bytes(otherwise),
            StmtKind::Macro { .. } | StmtKind::CallBlock { .. } | StmtKind::Block { .. } => 0,
            kind => inner(kind).map(plain_bytes).sum(),
        })
        .sum()
}

/// True for an expression that reads no variable.
pub(super) fn is_literal(e: &Expr) -> bool {
    match &e.kind {
        Kind::Str(_) | Kind::Number(_) | Kind::True | Kind::False | Kind::None => true,
        Kind::List(items) | Kind::Tuple(items) => items.iter().all(is_literal),
        Kind::Dict(items) => items.iter().all(|(k, v)| is_literal(k) && is_literal(v)),
        Kind::Negative(of) => is_literal(of),
        _ => false,
    }
}

//! Queries on the syntax tree of a template, for the writer.

use super::ast::{AstExpr, ExprKind, StmtKind, StmtList};

/// Which helpers a template calls.
#[derive(Default)]
pub(super) struct HelperNeeds {
    pub(super) import: bool,
    pub(super) include: bool,
}

impl HelperNeeds {
    pub(super) fn scan(&mut self, body: &StmtList) {
        for stmt in body {
            match &*stmt.kind {
                StmtKind::Import { context, .. }
                | StmtKind::From { context, .. }
                | StmtKind::ImportData { context, .. } => self.import |= !context,
                StmtKind::Include { context: false, .. } => self.include = true,
                kind => inner_bodies(kind).for_each(|body| self.scan(body)),
            }
        }
    }
}

/// The bodies inside a statement.
fn inner_bodies(kind: &StmtKind) -> Box<dyn Iterator<Item = &StmtList> + '_> {
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

/// True when a body assigns names in its own scope.
pub(super) fn assigns(body: &StmtList) -> bool {
    body.iter().any(|stmt| match &*stmt.kind {
        StmtKind::Set(..)
        | StmtKind::SetBlock { .. }
        | StmtKind::Load { .. }
        | StmtKind::Import { .. }
        | StmtKind::From { .. }
        | StmtKind::ImportData { .. }
        | StmtKind::Macro { .. } => true,
        kind @ (StmtKind::If { .. } | StmtKind::Profile { .. }) => inner_bodies(kind).any(assigns),
        _ => false,
    })
}

/// True when a body leaves the loop around it or starts its next iteration.
pub(super) fn controls_loop(body: &StmtList) -> bool {
    body.iter().any(|stmt| match &*stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::For { otherwise, .. } => controls_loop(otherwise),
        kind @ (StmtKind::If { .. } | StmtKind::Profile { .. } | StmtKind::With { .. }) => {
            inner_bodies(kind).any(controls_loop)
        }
        _ => false,
    })
}

/// Bytes of plain text that one run of a body can print, without inner loops and macros: they are counted separately.
pub(super) fn plain_bytes(body: &StmtList) -> usize {
    body.iter()
        .map(|stmt| match &*stmt.kind {
            StmtKind::Data(range) => range.len(),
            StmtKind::If { .. } => inner_bodies(&stmt.kind).map(plain_bytes).max().unwrap_or(0),
            StmtKind::For { otherwise, .. } => plain_bytes(otherwise),
            StmtKind::Macro { .. } | StmtKind::CallBlock { .. } | StmtKind::Block { .. } => 0,
            kind => inner_bodies(kind).map(plain_bytes).sum(),
        })
        .sum()
}

/// True for an expression that reads no variable.
pub(super) fn is_literal(e: &AstExpr) -> bool {
    match &e.kind {
        ExprKind::Str(_) | ExprKind::Number(_) | ExprKind::True | ExprKind::False | ExprKind::None => true,
        ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().all(is_literal),
        ExprKind::Dict(items) => items.iter().all(|(k, v)| is_literal(k) && is_literal(v)),
        ExprKind::Negative(of) => is_literal(of),
        _ => false,
    }
}

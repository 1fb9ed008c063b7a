//! How large a value a template may make: the limits of the current render on this thread.
//!
//! Law: without a scope the default limits apply, so nothing is unbounded (held by `scopes_nest`).
//!
//! Why not a field of every object: lists and dictionaries are made in places that do not know the limits
//! (minijinja's operators, conversions), and a template renders on one thread.

use std::cell::Cell;

use minijinja::value::Value;
use minijinja::{Error, ErrorKind};

use crate::TreeLimits;

/// Deepest nesting that is printed, converted or compared.
pub const MAX_DEPTH: usize = 128;

thread_local! {
    static OUTPUT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Applies limits on this thread until it is dropped.
#[must_use]
#[derive(Debug)]
pub struct BudgetScope(Option<usize>);

impl BudgetScope {
    /// Applies limits.
    pub fn enter(limits: &TreeLimits) -> Self {
        Self(OUTPUT.replace(Some(limits.output)))
    }
}

impl Drop for BudgetScope {
    fn drop(&mut self) {
        OUTPUT.set(self.0);
    }
}

/// The most bytes that one value may hold.
#[must_use]
pub fn bytes() -> usize {
    OUTPUT.get().unwrap_or_else(|| TreeLimits::default().output)
}

/// The most items that one list or dictionary may hold.
#[must_use]
pub fn items() -> usize {
    bytes() / size_of::<Value>()
}

/// Checks that a text of `n` bytes may be made; `what` names the operation.
///
/// # Errors
/// Fails when the text would be longer than the limit.
pub fn check_bytes(what: &str, n: usize) -> Result<(), Error> {
    if n <= bytes() {
        return Ok(());
    }
    Err(too_large(what))
}

/// Checks that a list or dictionary of `n` items may be made; `what` names the operation.
///
/// # Errors
/// Fails when it would hold more than the limit.
pub fn check_items(what: &str, n: usize) -> Result<(), Error> {
    if n <= items() {
        return Ok(());
    }
    Err(too_large(what))
}

/// The error of a value that grew beyond the limit.
#[must_use]
pub fn too_large(what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("{what}: the value is too large (limit {} bytes)", bytes()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest() {
        let outer = bytes();
        let scope = BudgetScope::enter(&TreeLimits { output: 10, ..TreeLimits::default() });
        assert_eq!(bytes(), 10);
        assert!(check_bytes("x", 11).is_err());
        drop(scope);
        assert_eq!(bytes(), outer);
    }
}

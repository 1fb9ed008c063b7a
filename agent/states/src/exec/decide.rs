//! What was found in, what to do out: the decision table of `exec`.

/// What was found on the host and in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecFacts {
    /// Something it subscribes to has changed.
    pub(crate) is_triggered: bool,
    /// The file that `creates` names is there.
    pub(crate) is_created: bool,
    /// Whether `onlyif` exited with 0; nothing when there is none.
    pub onlyif: Option<bool>,
    /// Whether `unless` exited with 0; nothing when there is none.
    pub unless: Option<bool>,
    /// It runs for a subscription only.
    pub(crate) refresh_only: bool,
}

/// What to do, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecDecision {
    /// Run it.
    Execute,
    /// Run it for a subscription.
    Refresh,
    /// Skip it: the file is there.
    Created,
    /// Skip it: `onlyif` did not exit with 0.
    OnlyifFailed,
    /// Skip it: `unless` exited with 0.
    UnlessSucceeded,
    /// Skip it: it waits for a subscription.
    RefreshOnly,
}

/// The table, first match first.
pub const fn decide(found: &ExecFacts) -> ExecDecision {
    match found {
        ExecFacts { is_triggered: true, .. } => ExecDecision::Refresh,
        ExecFacts { is_created: true, .. } => ExecDecision::Created,
        ExecFacts { onlyif: Some(false), .. } => ExecDecision::OnlyifFailed,
        ExecFacts { unless: Some(true), .. } => ExecDecision::UnlessSucceeded,
        ExecFacts { refresh_only: true, .. } => ExecDecision::RefreshOnly,
        _ => ExecDecision::Execute,
    }
}

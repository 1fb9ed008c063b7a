//! What a run tells the program around it while it goes on.

use super::StateOutcome;

/// Is told what a run does, from any thread.
pub trait RunProgress: Send + Sync {
    /// A state begins; `index` counts from zero.
    fn started(&self, index: usize, tag: &str);

    /// A state has ended.
    fn finished(&self, outcome: &StateOutcome);

    /// A resource has come to a state, or to its end. Its outcomes are told when all resources have ended.
    fn resource_moved(&self, resource: &str, tag: Option<&str>) {
        let _ = (resource, tag);
    }
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl RunProgress for NoProgress {
    fn started(&self, _index: usize, _tag: &str) {}

    fn finished(&self, _outcome: &StateOutcome) {}
}

//! Packages of the system: `pkg`, on whatever package manager the host has.

pub mod functions;

pub mod args;
pub mod batch;
pub mod context;
pub(crate) mod downloaded;
pub mod held;
pub mod installed;
pub mod latest;
pub mod removed;
pub mod sources;
pub mod undo;
pub mod verify;

use zagent_config::Map;

use super::{
    ApplyResult, BuildResult, ChunkArgs, Effects, State, StateCtx, StateError, StateModule, Verdict,
};

/// What a look at packages depends on. Files and jobs are in it as a mark: only a command hides all of them at once, and what
/// package states and repositories hide is known to the states after them.
const READS: Effects = Effects::FILES.union(Effects::PACKAGES).union(Effects::CATALOG).union(Effects::JOBS);

/// The module `pkg`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "pkg",
    build,
    functions: functions::TABLE,
    undo: &[&undo::PKG_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of these modules makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    Some(match fun {
        "installed" => installed::build(args),
        "removed" => removed::build(args, false),
        "purged" => removed::build(args, true),
        "latest" => latest::build_latest(args),
        "uptodate" => latest::build_uptodate(args),
        "downloaded" => downloaded::build(args),
        "group_installed" => downloaded::build_group(args),
        "held" => held::build(args, true),
        "unheld" => held::build(args, false),
        _ => return None,
    })
}

/// Answers a watch as Salt does: does what the state does, when there is something to do.
fn reapply(state: &mut dyn State, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
    let checked = state.check(ctx)?;
    if checked.verdict == Verdict::InSync {
        return Ok(ApplyResult::new(checked.comment, Map::new()));
    }
    state.apply(ctx)
}

/// The scene of a look. Once the time of a state is over, a look is that at what was let finish: it has the time of any look.
fn ctx_for_check<'s>(ctx: &StateCtx<'s>) -> StateCtx<'s> {
    let is_over = ctx.tools().time_left().is_some_and(|left| left.is_zero());
    StateCtx { deadline: ctx.deadline.filter(|_| !is_over), ..*ctx }
}

/// What Salt says when somebody watches and has no answer.
fn watch_unsupported(fun: &str) -> StateError {
    StateError::new(format!("pkg.{fun} does not work with the watch requisite"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::testing::StateTestBed;

    #[test]
    fn what_was_let_finish_is_still_looked_at() {
        let test_bed = StateTestBed::new();
        let at = |deadline: Instant| {
            ctx_for_check(&StateCtx { deadline: Some(deadline), ..test_bed.scene() }).deadline
        };
        let later = Instant::now() + Duration::from_secs(3600);
        assert_eq!(at(later), Some(later));
        assert_eq!(at(Instant::now()), None);
    }
}

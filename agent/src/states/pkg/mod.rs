//! Packages of the system: `pkg`, on whatever package manager the host has.

mod asked;
mod desk;
mod downloaded;
mod held;
mod installed;
mod joint;
mod latest;
mod memo;
mod removed;
mod source;
mod thing;
mod verify;

use zagent_config::Map;

use super::{Args, Built, Done, Failure, Scene, Standing, State, Thing, Veil};

pub(super) use memo::Memo;

/// What a look at packages depends on. Files and jobs are in it as a mark: only a command hides all of them at once, and what
/// package states and repositories hide is known to the states after them.
const SEES: Veil = Veil::FILES.and(Veil::PACKAGES).and(Veil::CATALOG).and(Veil::JOBS);

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    if state != "pkg" {
        return None;
    }
    Some(match fun {
        "installed" => installed::build(args),
        "removed" => removed::build(args, false),
        "purged" => removed::build(args, true),
        "latest" => latest::latest(args),
        "uptodate" => latest::uptodate(args),
        "downloaded" => downloaded::build(args),
        "group_installed" => downloaded::group(args),
        "held" => held::build(args, true),
        "unheld" => held::build(args, false),
        _ => return None,
    })
}

/// Answers a watch as Salt does: does what the state does, when there is something to do.
fn once_more(state: &mut dyn State, scene: &Scene<'_>) -> Result<Done, Failure> {
    let look = state.check(scene)?;
    if look.standing == Standing::Right {
        return Ok(Done::new(look.comment, Map::new()));
    }
    state.apply(scene)
}

/// The scene of a look. Once the time of a state is over, a look is that at what was let finish: it has the time of any look.
fn looking<'s>(scene: &Scene<'s>) -> Scene<'s> {
    let is_over = scene.tools().left().is_some_and(|left| left.is_zero());
    Scene { deadline: scene.deadline.filter(|_| !is_over), ..*scene }
}

/// What Salt says when somebody watches and has no answer.
fn deaf(fun: &str) -> Failure {
    Failure::new(format!("pkg.{fun} does not work with the watch requisite"))
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[&thing::PACKAGES];

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::states::stage::Stage;

    #[test]
    fn what_was_let_finish_is_still_looked_at() {
        let stage = Stage::new();
        let at = |deadline: Instant| looking(&Scene { deadline: Some(deadline), ..stage.scene() }).deadline;
        let later = Instant::now() + Duration::from_secs(3600);
        assert_eq!(at(later), Some(later));
        assert_eq!(at(Instant::now()), None);
    }
}

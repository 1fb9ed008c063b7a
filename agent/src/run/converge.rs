//! One state in, how it ended out: guard, look, change, look again, react, try again.
//!
//! Law: the only place that knows what a dry run is. A panic inside a state is that state's failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_compiler::{Chunk, Compat, name_text};
use zagent_config::{Map, Value};

use super::guard::{self, Guard};
use super::retry::{self, Retry};
use crate::states::imagined::Known;
use crate::states::{Done, Failure, Look, Scene, Standing, State, Veil, build};

/// What is wanted of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Look, change, look again.
    Apply,
    /// Look; then change the overlay, so that later states see it.
    Foresee,
    /// Look, for a `prereq`.
    Look,
}

/// How a state ended, before it has its place in the report.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) result: Option<bool>,
    pub(super) unknown: bool,
    /// Unknown, and it may fail as well.
    pub(super) shaky: bool,
    pub(super) done: Done,
    /// Guards kept it from running, so it does not react either.
    pub(super) guarded: bool,
    /// What it would change that nobody can foresee.
    pub(super) veil: Veil,
    /// How many run numbers it used.
    pub(super) calls: u64,
    pub(super) start: Timestamp,
    pub(super) duration: Duration,
    /// What it was about, when that is not just a text.
    pub(super) about: Option<Value>,
}

impl Ended {
    pub(super) fn new(result: Option<bool>, done: Done) -> Self {
        Self {
            result,
            unknown: false,
            shaky: false,
            done,
            guarded: false,
            veil: Veil::NONE,
            calls: 1,
            start: Timestamp::now(),
            duration: Duration::ZERO,
            about: None,
        }
    }

    pub(super) fn failed(failure: Failure) -> Self {
        Self::new(Some(false), failure.done)
    }

    pub(super) fn unknown(why: impl std::fmt::Display) -> Self {
        let done = Done::new(format!("unknown: {why}"), Map::new());
        Self { unknown: true, shaky: true, veil: Veil::ALL, ..Self::new(None, done) }
    }
}

/// A state on its way.
pub(super) struct Task<'p> {
    pub(super) index: usize,
    pub(super) chunk: std::borrow::Cow<'p, Chunk>,
    pub(super) tag: String,
    pub(super) state: Option<Box<dyn State>>,
    /// What was already seen of it.
    pub(super) looked: Option<Look>,
    pub(super) how: How,
    /// Something it watches has changed.
    pub(super) react: Reacts,
    /// It is a listener: only its reaction counts.
    pub(super) listener: bool,
    /// What it waits for would change the host in a way that a look cannot see.
    pub(super) shadow: Shadow,
    pub(super) start: Timestamp,
    pub(super) begun: Instant,
}

/// Whether a state has something to react to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reacts {
    /// Nothing that it watches changed.
    No,
    /// Nobody can tell.
    Perhaps,
    /// Something that it watches changed, or would.
    Yes,
}

/// What would have happened to the host before a state looks at it in a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shadow {
    /// What nobody can foresee.
    pub(super) veil: Veil,
    /// What nobody can foresee of that which it comes after and does not wait for by a requisite.
    pub(super) below: Veil,
    /// Something at all.
    pub(super) any: bool,
}

impl Task<'_> {
    /// Runs it to its end.
    pub(super) fn run(&mut self, scene: &Scene<'_>) -> Ended {
        let _names = (self.how == How::Foresee).then(|| Known::here(&scene.shared.names));
        let mut ended = match catch_unwind(AssertUnwindSafe(|| self.tries(scene))) {
            Ok(ended) => ended,
            Err(panic) => Ended::failed(Failure::new(panic_words(&*panic))),
        };
        ended.about = self.state.as_ref().and_then(|s| s.about());
        ended.start = self.start;
        ended.duration = self.begun.elapsed();
        ended
    }

    fn tries(&mut self, scene: &Scene<'_>) -> Ended {
        let Some(retry) = self.chunk.args.get("retry") else { return self.reacting(scene) };
        let retry = Retry::read(retry);
        if self.how != How::Apply {
            let mut ended = self.reacting(scene);
            if self.how == How::Foresee {
                let said = std::mem::take(&mut ended.done.comment);
                ended.done.comment = format!("{said}  {}", retry.words());
            }
            return ended;
        }
        let parallel = self.chunk.args.contains("parallel") && scene.compat == Compat::Salt;
        retry::run(&retry, parallel, scene.cancel, self.index as u64, || self.reacting(scene))
    }

    /// The same scene, with the time that one look, change or guard has.
    fn timed<'s>(&self, scene: &Scene<'s>) -> Scene<'s> {
        let timeout = match self.chunk.args.get("timeout") {
            Some(Value::Int(n)) => u64::try_from(*n).ok().map(Duration::from_secs),
            Some(Value::Float(n)) => Duration::try_from_secs_f64(*n).ok(),
            _ => None,
        };
        // Nothing means no limit, as in Salt.
        let timeout = timeout.filter(|t| !t.is_zero());
        Scene { deadline: timeout.and_then(|t| Instant::now().checked_add(t)), ..*scene }
    }

    fn reacting(&mut self, scene: &Scene<'_>) -> Ended {
        if self.listener {
            return self.reaction(scene);
        }
        let own = self.attempt(scene);
        let is_settled = own.guarded || !own.done.changes.is_empty() || self.how == How::Look;
        if self.react == Reacts::No || is_settled {
            return own;
        }
        if self.react == Reacts::Perhaps {
            return self.doubtful(own, scene);
        }
        // Strict: what would change by itself needs no reaction, and what nobody can tell stays so.
        if scene.compat == Compat::Strict && own.result != Some(true) {
            return if own.unknown { self.certain(own, scene) } else { own };
        }
        let mut reaction = self.reaction(scene);
        reaction.calls += own.calls;
        reaction
    }

    /// It would react to what nobody can foresee: unknown, unless it changes anyway or has no answer to it.
    fn doubtful(&mut self, own: Ended, scene: &Scene<'_>) -> Ended {
        if own.result != Some(true) || self.reaction(scene).result == Some(true) {
            return own;
        }
        let veil = self.state().map_or(Veil::ALL, |state| state.veils());
        let why = "whether it reacts depends on a state that nobody can foresee";
        Ended { veil, shaky: false, ..Ended::unknown(why) }
    }

    /// Whatever it finds by then: what it watches changes, so it either changes too or reacts to that.
    fn certain(&mut self, own: Ended, scene: &Scene<'_>) -> Ended {
        let reaction = self.reaction(scene);
        if reaction.result.is_none() && !reaction.unknown { reaction } else { own }
    }

    /// Guards, the state itself, and `check_cmd`.
    fn attempt(&mut self, scene: &Scene<'_>) -> Ended {
        let guards = !guard::owns_guards(&self.chunk.state);
        let mut ended =
            match if guards { guard::evaluate(&self.chunk, &self.timed(scene)) } else { Ok(Guard::Run) } {
                Ok(Guard::Skip { .. } | Guard::Run) if self.is_guess() => {
                    Ended::unknown("its guard would be asked after states that change the host")
                }
                Ok(Guard::Skip { comment }) => {
                    Ended { guarded: true, ..Ended::new(Some(true), Done::new(comment, Map::new())) }
                }
                Ok(Guard::Run) => self.call(scene),
                Err(failure) => Ended::failed(failure),
            };
        if guard::judges(&self.chunk) && (self.how == How::Apply || scene.compat == Compat::Salt) {
            (ended.result, ended.done.comment) = match guard::check_cmd(&self.chunk, scene) {
                Ok(()) => (Some(true), "check_cmd determined the state succeeded".into()),
                Err(words) => (Some(false), words),
            };
        }
        ended
    }

    /// True when a command decides whether it runs, and would be asked on a host that is no longer this one.
    fn is_guess(&self) -> bool {
        let asked = !self.shadow.veil.is_none() || (self.shadow.any && guard::is_command(&self.chunk));
        asked && guard::has(&self.chunk)
    }

    fn call(&mut self, scene: &Scene<'_>) -> Ended {
        let scene = &self.timed(scene);
        let (how, shadow) = (self.how, self.shadow);
        let looked = self.looked.take();
        let state = match self.state() {
            Ok(state) => state,
            Err(failure) => return Ended::failed(failure),
        };
        let look = || if how == How::Apply { state.check(scene) } else { state.preview(scene) };
        let look = match looked.map_or_else(look, Ok) {
            Ok(look) => look,
            Err(failure) => {
                let hidden = (shadow.veil | shadow.below) & state.sees();
                if hidden.is_none() || state.is_lost(hidden) {
                    return Ended::failed(failure);
                }
                return uncertain(&**state, hidden, &failure.done.comment);
            }
        };
        let hidden = shadow.veil & state.sees();
        let below = shadow.below & state.sees();
        let comes = !below.is_none() && state.may_come(&look);
        if how == How::Foresee && (comes || !hidden.is_none() && !state.holds(&look, hidden)) {
            // Whoever brings it: by then it is there.
            if comes && look.standing == Standing::Drift {
                state.imagine(scene);
            }
            let hidden = hidden | below;
            // A package takes nothing away from those after it; a command may.
            let shaky = hidden.meets(Veil::FILES);
            let ended = Ended { shaky, ..uncertain(&**state, hidden, &look.comment) };
            return if settled(&mut **state, hidden, scene) {
                Ended { veil: Veil::NONE, ..ended }
            } else {
                ended
            };
        }
        match how {
            _ if look.standing == Standing::Right => Ended::new(Some(true), quiet(look)),
            How::Apply => apply(&mut **state, scene),
            How::Foresee => foresee(&mut **state, look, hidden | below, scene),
            How::Look => seen(look),
        }
    }

    fn reaction(&mut self, scene: &Scene<'_>) -> Ended {
        let scene = &self.timed(scene);
        let how = self.how;
        if self.listener {
            match guard::evaluate(&self.chunk, scene) {
                Ok(Guard::Skip { comment }) => return Ended::new(Some(true), Done::new(comment, Map::new())),
                Ok(Guard::Run) => {}
                Err(failure) => return Ended::failed(failure),
            }
        }
        let state = match self.state() {
            Ok(state) => state,
            Err(failure) => return Ended::failed(failure),
        };
        if how == How::Apply {
            return match forewarn(&**state, scene).and_then(|()| state.react(scene)) {
                Ok(done) => Ended::new(Some(true), done),
                Err(failure) => Ended::failed(failure),
            };
        }
        match state.foresee(scene) {
            Ok(look) => {
                let veil = if look.standing == Standing::Right { Veil::NONE } else { state.veils() };
                Ended { veil, ..seen(look) }
            }
            Err(failure) => Ended::failed(failure),
        }
    }

    pub(super) fn state(&mut self) -> Result<&mut Box<dyn State>, Failure> {
        if self.state.is_none() {
            check_umask(&self.chunk)?;
            self.state = Some(build(&self.chunk)?);
        }
        self.state.as_mut().ok_or_else(|| Failure::new("there is no state"))
    }
}

/// `umask` of a state, written as octal digits.
pub(super) fn umask(chunk: &Chunk) -> Option<u32> {
    let text = name_text(chunk.args.get("umask")?);
    u32::from_str_radix(text.strip_prefix("0o").unwrap_or(&text), 8).ok().filter(|mask| *mask <= 0o777)
}

fn check_umask(chunk: &Chunk) -> Result<(), Failure> {
    match chunk.args.get("umask") {
        Some(mask) if umask(chunk).is_none() => {
            Err(Failure::new(format!("Invalid umask: {}\n", name_text(mask))))
        }
        _ => Ok(()),
    }
}

/// A state behind a veil: what it may do itself is hidden too, and nothing more.
fn uncertain(state: &dyn State, hidden: Veil, now: &str) -> Ended {
    let own = if state.is_foreseeable() { Veil::FILES } else { state.veils() };
    Ended { veil: own, ..Ended::unknown(format!("{} may be others by then; now: {now}", hidden.words())) }
}

/// True when what a state leaves does not depend on what it finds; that is imagined then, and nothing is hidden after it.
fn settled(state: &mut dyn State, hidden: Veil, scene: &Scene<'_>) -> bool {
    state.settles() && (state.apply(scene).is_ok() || supposed(state, hidden, scene).is_some())
}

/// Changes, and looks whether that was enough.
fn apply(state: &mut dyn State, scene: &Scene<'_>) -> Ended {
    if let Err(failure) = forewarn(state, scene) {
        return Ended::failed(failure);
    }
    let mut done = match state.apply(scene) {
        Ok(done) => done,
        Err(failure) => return Ended::failed(failure),
    };
    // Once the run is stopped nobody may look any more; what was let finish is told as it ended.
    if scene.compat == Compat::Salt || !state.is_lasting() || scene.cancel.is_said() {
        return Ended::new(Some(true), done);
    }
    let still = match state.check(scene) {
        Ok(look) if look.standing == Standing::Drift => look.comment,
        Ok(_) => return Ended::new(Some(true), done),
        Err(failure) => failure.done.comment,
    };
    done.comment = format!("{}\nIt was applied, and is still not as it should be: {still}", done.comment);
    Ended::new(Some(false), done)
}

/// Notes what cannot be undone, before it is done.
fn forewarn(state: &dyn State, scene: &Scene<'_>) -> Result<(), Failure> {
    match (state.irreversible(), scene.journal) {
        (Some(why), Some(journal)) => Ok(journal.irreversible(scene.tag, why)?),
        _ => Ok(()),
    }
}

/// What a look says, with no word about the future.
fn seen(look: Look) -> Ended {
    let (result, unknown) = match look.standing {
        Standing::Right => (Some(true), false),
        Standing::Drift => (None, false),
        Standing::Unknown(_) => (None, true),
    };
    Ended { unknown, ..Ended::new(result, quiet(look)) }
}

/// What a look says; the overlay gets what would be done.
fn foresee(state: &mut dyn State, look: Look, hidden: Veil, scene: &Scene<'_>) -> Ended {
    let mut ended = seen(look);
    // Salt's dry runs know nothing of the states before.
    if scene.compat == Compat::Salt {
        ended.veil = Veil::ALL;
        return ended;
    }
    ended.veil = state.veils();
    if ended.unknown {
        return ended;
    }
    if !state.is_foreseeable() {
        if ended.result.is_none() {
            state.imagine(scene);
        }
        return ended;
    }
    if let Err(failure) = state.apply(scene) {
        // What it lacks (a user, a directory) may be there by then.
        if !hidden.is_none() {
            return match supposed(state, hidden, scene) {
                Some(lacks) => {
                    ended.done.comment = format!("{}\n{lacks}", ended.done.comment);
                    ended
                }
                None => uncertain(state, hidden, &failure.done.comment),
            };
        }
        let comment = format!("It would fail: {}", failure.done.comment);
        return Ended::new(Some(false), Done { comment, ..ended.done });
    }
    ended
}

/// What must come with a package for it to go well, where nothing but packages can bring it; what it makes is imagined then.
fn supposed(state: &mut dyn State, hidden: Veil, scene: &Scene<'_>) -> Option<String> {
    if hidden.meets(Veil::FILES) || !hidden.meets(Veil::BROUGHT) {
        return None;
    }
    let lacks = state.suppose(scene).ok().filter(|lacks| !lacks.is_empty())?;
    state.apply(scene).ok()?;
    Some(format!("A package before it is taken to bring {}", lacks.join(" and ")))
}

fn quiet(look: Look) -> Done {
    Done { changes: look.changes, comment: look.comment, diff: look.diff, ..Done::default() }
}

pub(super) fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".into());
    format!("a fault inside zagent stopped this state: {text}")
}

/// True when an argument asks for more than one look: it takes its own time.
pub(super) fn takes_time(chunk: &Chunk) -> bool {
    ["retry", "check_cmd"].iter().any(|key| chunk.args.get(key).is_some_and(|v| !matches!(v, Value::Null)))
}

#[cfg(test)]
#[path = "converge_tests.rs"]
mod tests;

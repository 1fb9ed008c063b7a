//! What a dry run says about a state that comes after changes which nobody can foresee: how far it can see, and what it depends on.

use std::path::PathBuf;

use zagent_config::Map;

use super::{ConvergeMode, ConvergeResult, RunDecider, StateTask, UncertainRun, own_effects};
use crate::causes::{self, Cause};
use crate::guard;
use zagent_states::{ApplyResult, Effects, LockKey, StateCtx, Verdict};

/// Directories in which no package puts files.
const UNPACKAGED_DIRS: [&str; 6] = ["/home", "/root", "/srv", "/tmp", "/var/tmp", "/usr/local"];

/// So many states at most are named as those that a prediction depends on.
const NAMED_CAUSES: usize = 3;

/// What a look of one state cannot see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// Of that which it waits for.
    pub(super) hidden: Effects,
    /// Of that which only comes before it.
    pub(super) below: Effects,
    /// Nothing hidden is about the command line that it would run.
    pub(super) may_follow: bool,
}

impl StateTask<'_> {
    /// What a look that depends on these kinds of things, and is about these, cannot see.
    pub(super) fn sight(&self, reads: Effects, keys: &[LockKey]) -> Sight {
        let prior = &self.prior_effects;
        let unpredicted = match path_keys(keys) {
            Some(paths) if !prior.causes.is_cut && !self.causes.is_empty() => {
                self.causes.iter().fold(Effects::NONE, |all, cause| all | cause.hides(&paths))
            }
            _ => prior.unpredicted,
        };
        let below = prior.foundation_effects & reads;
        Sight { hidden: unpredicted & reads, below, may_follow: self.may_follow() }
    }

    /// True when nothing before it that nobody can foresee is about the command line of this state.
    pub(super) fn may_follow(&self) -> bool {
        let prior = &self.prior_effects;
        if prior.unpredicted.is_none() {
            return true;
        }
        let text = zagent_compiler::name_text(&self.chunk.name);
        let mut hiding = self.causes.iter().filter(|cause| !cause.unpredicted.is_none());
        !prior.causes.is_cut
            && !self.causes.is_empty()
            && !hiding.any(|cause| cause.touch.reaches_text(&text))
    }

    /// True when a guard decides whether it runs, and would be asked on a host that is no longer this one.
    pub(super) fn is_guard_uncertain(&self) -> bool {
        let prior = &self.prior_effects;
        if self.mode == ConvergeMode::Apply
            || !guard::has_guards(&self.chunk)
            || guard::owns_guards(&self.chunk.state)
        {
            return false;
        }
        let is_run = guard::starts_process(&self.chunk);
        if !is_run && guard::is_constant(&self.chunk) {
            return false;
        }
        let text = causes::guard_text(&self.chunk);
        let may_come = prior.foundation_effects.intersects(Effects::PACKAGE_CHANGE);
        if may_come && (is_run || !asks_unpackaged(&text)) {
            return true;
        }
        if prior.causes.is_cut || self.causes.is_empty() {
            return !prior.unpredicted.is_none() || (prior.any && is_run);
        }
        // What is foreseen is in the overlay, which a program does not see.
        let counts = |cause: &&Cause| is_run || !cause.unpredicted.is_none();
        self.causes.iter().filter(counts).any(|cause| cause.touch.reaches_text(&text))
    }

    /// What is said of a state of which nobody can tell whether it runs. Where it has nothing to do, that makes no difference.
    pub(super) fn predict_uncertain(
        &mut self,
        uncertain: &UncertainRun,
        ctx: &StateCtx<'_>,
    ) -> ConvergeResult {
        let UncertainRun { condition, decided_by } = uncertain;
        let is_guard = *decided_by == RunDecider::Guard;
        let has_check_cmd = guard::has_check_cmd(&self.chunk);
        let sight = match self.build_state().map(|state| (state.reads(), state.lock_keys())) {
            Ok((reads, keys)) => self.sight(reads, &keys),
            Err(failure) => {
                let why = format!("would fail if {condition}: {}", failure.result.comment);
                return ConvergeResult { unpredicted: Effects::NONE, ..ConvergeResult::unknown(why) };
            }
        };
        let reacts = self.should_react != super::ShouldReact::No;
        let Ok(state) = self.build_state() else { return ConvergeResult::unknown(condition) };
        let (says, effects, may_fail) = match state.preview(ctx) {
            Ok(look) if look.verdict == Verdict::InSync => {
                let hidden = sight.hidden | sight.below;
                let holds = hidden.is_none() || state.still_valid(&look, hidden);
                if holds && is_guard && !reacts && !has_check_cmd && look.changes.is_empty() {
                    let done = ApplyResult::new(look.comment, Map::new());
                    return ConvergeResult::new(Some(true), done);
                }
                let effects = if holds { Effects::NONE } else { own_effects(&**state) };
                (format!("would stay as it is if {condition}"), effects, false)
            }
            Ok(look) => {
                let says = format!("would change if {condition}; now: {}", look.comment);
                // A guard keeps a command from doing again what it did: one that runs is taken to succeed.
                (says, own_effects(&**state), state.runs_command() && !is_guard)
            }
            Err(failure) => (
                format!("would fail if {condition}: {}", failure.result.comment),
                own_effects(&**state),
                true,
            ),
        };
        ConvergeResult {
            unpredicted: effects,
            failure_unknown: *decided_by == RunDecider::Failure || may_fail || has_check_cmd,
            ..ConvergeResult::unknown(says)
        }
    }

    /// What `check_cmd` would say: answered from the overlay or on this host where that is the same, otherwise unknown.
    pub(super) fn predict_check_cmd(&self, ended: ConvergeResult, ctx: &StateCtx<'_>) -> ConvergeResult {
        let text = causes::check_cmd_text(&self.chunk);
        let own = causes::Touch::new(&self.chunk, self.state.as_deref());
        let changes = ended.result.is_none() || !ended.done.changes.is_empty();
        let prior = &self.prior_effects;
        let is_cut =
            prior.causes.is_cut || self.causes.is_empty() && (prior.any || !prior.unpredicted.is_none());
        let reached = |is_hidden: bool| {
            is_cut && (prior.any || is_hidden)
                || self
                    .causes
                    .iter()
                    .any(|c| (!is_hidden || !c.unpredicted.is_none()) && c.touch.reaches_text(&text))
        };
        let own_hides = changes && !ended.unpredicted.is_none() && own.reaches_text(&text);
        let in_overlay = !reached(true) && !own_hides;
        let on_host = !(reached(false) || changes && own.reaches_text(&text));
        match guard::predict_check_cmd(&self.chunk, ctx, in_overlay, on_host) {
            Some(Ok(())) if ended.unknown => ConvergeResult { failure_unknown: false, ..ended },
            Some(Ok(())) => {
                let comment =
                    format!("check_cmd would determine that the state succeeded; {}", ended.done.comment);
                let done = ApplyResult { comment, ..ended.done };
                ConvergeResult { result: if changes { None } else { Some(true) }, done, ..ended }
            }
            Some(Err(words)) => {
                let done = ApplyResult { comment: format!("It would fail: {words}"), ..ended.done };
                ConvergeResult { result: Some(false), unknown: false, failure_unknown: false, done, ..ended }
            }
            None => {
                let why = "its `check_cmd` would be run after states that change the host";
                let unknown = ConvergeResult::unknown(why);
                ConvergeResult { unpredicted: ended.unpredicted, ..unknown }
            }
        }
    }

    /// The states that nobody can foresee, in words.
    pub(super) fn describe_causes(&self) -> String {
        self.name_causes(|_| true)
    }

    /// ` after …`, where something that the state looks at is hidden by states that can be named.
    pub(super) fn describe_hidden(&self, sight: &Sight) -> String {
        if sight.hidden.is_none() || self.causes.is_empty() {
            return String::new();
        }
        format!(" after {}", self.name_causes(|cause| cause.unpredicted.intersects(sight.hidden)))
    }

    fn name_causes(&self, counts: impl Fn(&Cause) -> bool) -> String {
        let unforeseen = |cause: &&Cause| !cause.unpredicted.is_none() && counts(cause);
        let mut names: Vec<&str> = self.causes.iter().filter(unforeseen).map(|cause| &*cause.id).collect();
        if names.is_empty() {
            names = self.causes.iter().map(|cause| &*cause.id).collect();
        }
        names.dedup();
        let more = names.len().saturating_sub(NAMED_CAUSES);
        let shown: Vec<String> = names.iter().take(NAMED_CAUSES).map(|id| format!("`{id}`")).collect();
        match (shown.as_slice(), more) {
            ([], _) => "the states before it".into(),
            (_, 0) => shown.join(", "),
            _ => format!("{} and {more} more", shown.join(", ")),
        }
    }
}

impl Cause {
    /// What it hides from a look at these paths.
    fn hides(&self, paths: &[PathBuf]) -> Effects {
        if paths.iter().any(|path| self.touch.reaches_path(path)) {
            return self.unpredicted;
        }
        self.unpredicted.without(Effects::FILES | Effects::PACKAGE_FILES)
    }
}

/// The paths, when a state is about paths alone.
fn path_keys(keys: &[LockKey]) -> Option<Vec<PathBuf>> {
    let paths: Option<Vec<PathBuf>> = keys
        .iter()
        .map(|key| match key {
            LockKey::Path(path) => Some(path.clone()),
            _ => None,
        })
        .collect();
    paths.filter(|paths| !paths.is_empty())
}

/// True when a guard asks only for paths that no package brings.
fn asks_unpackaged(text: &str) -> bool {
    let mut paths = text
        .split(|c: char| c.is_whitespace() || c == '\'' || c == '"')
        .filter(|w| w.starts_with('/'))
        .peekable();
    paths.peek().is_some()
        && paths.all(|path| UNPACKAGED_DIRS.iter().any(|dir| std::path::Path::new(path).starts_with(dir)))
}

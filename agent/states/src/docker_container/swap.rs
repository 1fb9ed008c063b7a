//! A container and its successor in, the successor in its place out: the old one goes once the new one has started, and comes
//! back when it has not.

use crate::shared::docker::{ContainerEngine, run_each, run_engine};
use crate::shared::planned_state::to_strings;
use crate::{StateCtx, StateError};

/// Puts one container in the place of another.
pub(crate) struct ContainerSwap {
    pub(crate) engine: ContainerEngine,
    pub(crate) name: String,
    pub(crate) timeout: String,
    /// How the new one is called meanwhile.
    pub(crate) temp_name: String,
    /// The old one ran.
    pub(crate) was_up: bool,
    /// Makes the new one.
    pub(crate) create_commands: Vec<Vec<String>>,
    pub(crate) variables: Vec<String>,
    /// What comes after.
    pub(crate) start_commands: Vec<Vec<String>>,
}

impl ContainerSwap {
    pub(crate) fn run(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (tools, engine) = (ctx.tools(), &self.engine);
        let drop_new =
            || run_engine(engine, ctx, &["rm", "--force", "--"], std::slice::from_ref(&self.temp_name));
        if engine.inspect(&tools, "container", &self.temp_name)?.is_some() {
            drop_new()?;
        }
        if let Err(failure) = run_each(engine, ctx, &self.create_commands, &self.variables) {
            // Half of a new one is of no use; the old one stays, and why is said.
            let _ = drop_new();
            return Err(failure);
        }
        let old = format!("{}-zagent-old", self.name);
        if engine.inspect(&tools, "container", &old)?.is_some() {
            run_engine(engine, ctx, &["rm", "--force", "--"], std::slice::from_ref(&old))?;
        }
        engine.run_checked(&tools, &to_strings(&["stop", "--time", &self.timeout, "--", &self.name]))?;
        // One that removes itself is gone when it has stopped.
        let has_old = engine.inspect(&tools, "container", &self.name)?.is_some();
        if has_old {
            engine.run_checked(&tools, &to_strings(&["rename", "--", &self.name, &old]))?;
        }
        let swapped = engine.run_checked(&tools, &to_strings(&["rename", "--", &self.temp_name, &self.name]));
        let is_named = swapped.is_ok();
        let started =
            swapped.map_err(StateError::from).and_then(|_| run_each(engine, ctx, &self.start_commands, &[]));
        match started {
            Ok(()) if has_old => run_engine(engine, ctx, &["rm", "--force", "--"], &[old]),
            Err(failure) if has_old => Err(self.roll_back(ctx, &old, is_named, failure)),
            other => other,
        }
    }

    /// Puts the old one back; says why, and how far that went.
    fn roll_back(&self, ctx: &StateCtx<'_>, old: &str, is_named: bool, failure: StateError) -> StateError {
        let new = if is_named { &self.name } else { &self.temp_name };
        let mut acts =
            vec![to_strings(&["rm", "--force", "--", new]), to_strings(&["rename", "--", old, &self.name])];
        acts.extend(self.was_up.then(|| to_strings(&["start", "--", &self.name])));
        let how = match run_each(&self.engine, ctx, &acts, &[]) {
            Ok(()) => "the old container is back".to_owned(),
            Err(more) => {
                format!("the old container is `{old}`, and could not be put back: {}", more.result.comment)
            }
        };
        StateError::new(format!("{}; {how}", failure.result.comment))
    }
}

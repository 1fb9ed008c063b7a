//! Something that programs are told when a look at it found it otherwise: access lists, SELinux.

use zagent_compiler::Chunk;
use zagent_config::Map;

use crate::{ApplyResult, CheckResult, Effects, LockKey, State, StateCtx, StateError, Undoable};
use crate::{BuildResult, ChunkArgs};
use zagent_host::Tools;
use zagent_host::text_file;

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandPlan {
    /// In words: how it stands, or what would be done.
    pub comment: String,
    /// In words: what was done.
    pub done_comment: String,
    pub changes: Map,
    /// Programs and their words; none when everything is right.
    pub commands: Vec<Vec<String>>,
    /// A file and what it should hold.
    pub file: Option<(&'static str, String)>,
}

impl CommandPlan {
    /// Everything is right.
    pub fn in_sync(comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), ..Self::default() }
    }
}

/// Words as they are told.
pub fn to_strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|w| (*w).to_owned()).collect()
}

/// How a kind of errands is looked at and noted.
#[derive(Clone, Copy)]
pub struct CommandPlanSpec {
    pub plan: fn(&StateCtx<'_>, &ChunkArgs<'_>) -> Result<CommandPlan, StateError>,
    /// Where all of it is kept, so that one is done after the other.
    pub lock_path: Option<&'static str>,
    /// What is noted before it changes, by the name of the state.
    pub undoable: Option<&'static dyn Undoable>,
    pub reads: Effects,
    pub lasts: bool,
}

struct CommandPlanState {
    chunk: Chunk,
    spec: CommandPlanSpec,
}

/// Makes the state.
pub fn build(kind: CommandPlanSpec, args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(CommandPlanState { chunk: args.chunk.clone(), spec: kind }))
}

impl CommandPlanState {
    fn plan(&self, ctx: &StateCtx<'_>) -> Result<CommandPlan, StateError> {
        (self.spec.plan)(ctx, &ChunkArgs::new(&self.chunk))
    }
}

/// Tells all programs.
fn run_commands(tools: &Tools<'_>, plan: &CommandPlan) -> Result<(), StateError> {
    for act in &plan.commands {
        if let Some((program, words)) = act.split_first() {
            tools.run_checked(program, words)?;
        }
    }
    Ok(())
}

impl State for CommandPlanState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let plan = self.plan(ctx)?;
        if plan.commands.is_empty() && plan.file.is_none() {
            return Ok(CheckResult::in_sync(plan.comment));
        }
        Ok(CheckResult::drifted(plan.comment, plan.changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let plan = self.plan(ctx)?;
        let tools = ctx.tools();
        if let Some((path, text)) = &plan.file {
            text_file::write_text(ctx.fs, path, text)?;
        }
        match self.spec.undoable {
            Some(thing) => {
                ctx.with_undo(thing, ChunkArgs::new(&self.chunk).name(), || run_commands(&tools, &plan))?
            }
            None => run_commands(&tools, &plan)?,
        }
        Ok(ApplyResult::new(plan.done_comment, plan.changes))
    }

    fn is_convergent(&self) -> bool {
        self.spec.lasts
    }

    fn reads(&self) -> Effects {
        self.spec.reads
    }

    fn writes(&self) -> Effects {
        Effects::KERNEL
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        self.spec.undoable.is_none().then_some("what it was is not noted")
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        let name = Some(ChunkArgs::new(&self.chunk).name()).filter(|name| name.starts_with('/'));
        let paths = name.into_iter().chain(self.spec.lock_path.map(str::to_owned));
        paths.map(|path| LockKey::Path(path.into())).collect()
    }
}

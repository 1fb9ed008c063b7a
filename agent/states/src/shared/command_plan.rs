//! A plan of commands in, a planned state out: for modules whose states only run programs (access lists, SELinux).

use zagent_compiler::Chunk;
use zagent_config::Map;

pub(crate) use super::planned_state::to_strings;
use super::planned_state::{self, PlannedChange, Planner, StatePlan};
use crate::{BuildResult, ChunkArgs, Effects, LockKey, StateCtx, StateError, Undoable};
use zagent_host::Tools;
use zagent_host::text_file;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CommandPlan {
    /// In words: the state of the host, or what would be done.
    pub(crate) comment: String,
    /// In words: what was done.
    pub(crate) done_comment: String,
    pub(crate) changes: Map,
    /// Programs and their words; none when everything is right.
    pub(crate) commands: Vec<Vec<String>>,
    /// A file and what it should hold.
    pub(crate) file: Option<(&'static str, String)>,
}

impl CommandPlan {
    /// Everything is right.
    pub(crate) fn in_sync(comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), ..Self::default() }
    }
}

/// A state function that plans commands.
#[derive(Clone, Copy)]
pub(crate) struct CommandPlanSpec {
    pub(crate) plan: fn(&StateCtx<'_>, &ChunkArgs<'_>) -> Result<CommandPlan, StateError>,
    /// Where all of it is kept, so that one change runs after the other.
    pub(crate) lock_path: Option<&'static str>,
    /// What is noted before it changes, by the name of the state.
    pub(crate) undoable: Option<&'static dyn Undoable>,
    pub(crate) reads: Effects,
    pub(crate) lasts: bool,
}

struct CommandPlanner {
    chunk: Chunk,
    spec: CommandPlanSpec,
}

/// Makes the state.
pub(crate) fn build(spec: CommandPlanSpec, args: &ChunkArgs<'_>) -> BuildResult {
    planned_state::build(CommandPlanner { chunk: args.chunk.clone(), spec })
}

/// Runs all commands.
fn run_commands(tools: &Tools<'_>, commands: &[Vec<String>]) -> Result<(), StateError> {
    for command in commands {
        if let Some((program, words)) = command.split_first() {
            tools.run_checked(program, words)?;
        }
    }
    Ok(())
}

impl Planner for CommandPlanner {
    fn plan(&self, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let CommandPlan { comment, done_comment, changes, commands, file } = (self.spec.plan)(ctx, &args)?;
        if commands.is_empty() && file.is_none() {
            return Ok(StatePlan::InSync(comment));
        }
        Ok(StatePlan::Change(PlannedChange {
            preview_comment: comment,
            done_comment,
            failure_prefix: String::new(),
            changes,
            undoable: self.spec.undoable.map(|undoable| (undoable, args.name().into())),
            run_change: Box::new(move |ctx| {
                if let Some((path, text)) = &file {
                    text_file::write_text(ctx.fs, path, text)?;
                }
                run_commands(&ctx.tools(), &commands)
            }),
        }))
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

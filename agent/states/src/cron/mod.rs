//! States of the module `cron`: jobs and variables in the crontab of a user.

pub mod crontab;
pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::cron::crontab::{CronJob, Crontab, CrontabChange, TIME_FIELDS};
use crate::shared::text_file::{read_source, single_change, unified_diff};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable,
};

/// The module `cron`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "cron",
    build,
    functions: functions::TABLE,
    undo: &[&CRONTAB_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    CronState::for_function(fun, args).map(|read| read.map(|state| Box::new(state) as Box<dyn State>))
}

/// Crontabs: the whole text.
pub const CRONTAB_UNDO: CrontabUndo = CrontabUndo;

pub struct CrontabUndo;

impl Undoable for CrontabUndo {
    fn kind(&self) -> &'static str {
        "crontab"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let text = crontab::read_crontab(&ctx.tools(), &zagent_compiler::name_text(key))?;
        Ok(text.map_or(Value::Null, Value::from))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        Ok(crontab::write_crontab(&ctx.tools(), &zagent_compiler::name_text(key), to.as_str())?)
    }
}

/// What should be in a crontab, or not.
enum CronFunction {
    Job(CronJob),
    NoJob {
        identifier: Option<String>,
        special: Option<String>,
    },
    Env(String),
    NoEnv,
    /// A whole crontab.
    File {
        chunk: Box<zagent_compiler::Chunk>,
        replace: bool,
    },
}

pub struct CronState {
    name: String,
    user: String,
    function: CronFunction,
}

/// What should become of a crontab.
struct CronPlan {
    old: Option<String>,
    new: String,
    became: CrontabChange,
    comment: String,
}

impl CronState {
    pub fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
        let want = match fun {
            "present" => job_from_args(args).map(CronFunction::Job),
            "absent" => {
                let special = args.text("special");
                special.map(|special| CronFunction::NoJob { identifier: identifier_arg(args), special })
            }
            "env_present" => args.text("value").and_then(|value| {
                let value = value.unwrap_or_default();
                if [&args.name(), &value].iter().any(|text| text.trim().contains('\n')) {
                    return Err(StateError::new("a variable of a crontab is one line"));
                }
                Ok(CronFunction::Env(value.trim_end_matches('\n').to_owned()))
            }),
            "env_absent" => Ok(CronFunction::NoEnv),
            "file" => {
                let replace = args.flag("replace", true);
                Ok(CronFunction::File { chunk: Box::new(args.chunk.clone()), replace })
            }
            _ => return None,
        };
        let user = args.text("user");
        Some(want.and_then(|want| {
            let user = user?.filter(|u| !u.is_empty()).unwrap_or_else(|| "root".into());
            Ok(Self { name: args.name().trim().to_owned(), user, function: want })
        }))
    }

    fn plan(&self, ctx: &StateCtx<'_>) -> Result<CronPlan, StateError> {
        let tools = ctx.tools();
        let old = crontab::read_crontab(&tools, &self.user)?;
        let text = old.as_deref().unwrap_or_default();
        let tab = || Crontab::parse(text);
        let (became, new) = match &self.function {
            CronFunction::Job(job) => tab().with_job(job, &crontab::random_seed(&tools, &self.user)),
            CronFunction::NoJob { identifier, special } => {
                tab().without_job(&self.name, identifier.as_deref(), special.as_deref())
            }
            CronFunction::Env(value) => tab().with_env(&self.name, value),
            CronFunction::NoEnv => tab().without_env(&self.name),
            CronFunction::File { replace: false, .. } if old.is_some() => {
                (CrontabChange::Unchanged, text.to_owned())
            }
            CronFunction::File { chunk, .. } => {
                let new = read_source(&ChunkArgs::new(chunk), &self.name, ctx)?;
                (if new == text { CrontabChange::Unchanged } else { CrontabChange::Updated }, new)
            }
        };
        let words = self.comment(became);
        Ok(CronPlan { old, new, became, comment: words })
    }

    fn comment(&self, became: CrontabChange) -> String {
        let Self { name, user, function: want } = self;
        let what =
            if matches!(want, CronFunction::Env(_) | CronFunction::NoEnv) { "Cron env" } else { "Cron" };
        match (want, became) {
            (CronFunction::File { replace: false, .. }, CrontabChange::Unchanged) => {
                format!("User {user} already has a crontab. No changes made")
            }
            (CronFunction::File { .. }, CrontabChange::Unchanged) => {
                format!("Crontab for user {user} is in the correct state")
            }
            (CronFunction::File { .. }, _) => format!("Crontab for user {user} was updated"),
            (CronFunction::NoJob { .. } | CronFunction::NoEnv, CrontabChange::Unchanged) => {
                format!("{what} {name} already absent")
            }
            (_, CrontabChange::Unchanged) => format!("{what} {name} already present"),
            (_, CrontabChange::New) => format!("{what} {name} added to {user}'s crontab"),
            (_, CrontabChange::Updated) => format!("{what} {name} updated"),
            (_, CrontabChange::Removed) => format!("{what} {name} removed from {user}'s crontab"),
        }
    }

    fn preview_comment(&self, became: CrontabChange) -> String {
        let Self { name, user, function: want } = self;
        let what =
            if matches!(want, CronFunction::Env(_) | CronFunction::NoEnv) { "Cron env" } else { "Cron" };
        let act = match became {
            CrontabChange::New => "added",
            CrontabChange::Removed => "removed",
            CrontabChange::Unchanged | CrontabChange::Updated => "updated",
        };
        match want {
            CronFunction::File { .. } => format!("Crontab for user {user} is set to be updated"),
            _ => format!("{what} {name} is set to be {act}"),
        }
    }

    fn changes(&self, plan: &CronPlan) -> Map {
        match self.function {
            CronFunction::File { .. } => {
                single_change("diff", unified_diff(plan.old.as_deref().unwrap_or_default(), &plan.new))
            }
            _ => single_change(self.user.as_str(), self.name.as_str()),
        }
    }
}

/// `identifier`: the command itself when it is not given; none when it is null.
fn identifier_arg(args: &ChunkArgs<'_>) -> Option<String> {
    match args.chunk.args.get("identifier") {
        None | Some(Value::Bool(false)) => Some(args.name().trim().to_owned()),
        Some(Value::Null) => None,
        Some(id) => Some(zagent_compiler::name_text(id)),
    }
}

fn job_from_args(args: &ChunkArgs<'_>) -> Result<CronJob, StateError> {
    let when = match args.text("special")? {
        Some(special) => vec![special],
        None => {
            let mut when = Vec::new();
            for (key, ..) in TIME_FIELDS {
                when.push(args.text(key)?.unwrap_or_else(|| "*".into()).to_lowercase());
            }
            when
        }
    };
    let one_line = |text: &str| !text.contains('\n');
    let cmd = args.name().trim().to_owned();
    let identifier = identifier_arg(args);
    if identifier.as_deref().is_some_and(|id| !one_line(id)) {
        return Err(StateError::new("the identifier of a job is one line"));
    }
    if !one_line(&cmd) || !when.iter().all(|w| one_line(w) && !w.trim().is_empty() && !w.contains(' ')) {
        return Err(StateError::new(
            "a job of a crontab is one line, and its times are words without spaces",
        ));
    }
    Ok(CronJob {
        schedule: when,
        cmd,
        identifier,
        comment: args.text("comment")?.map(|c| c.trim_end().to_owned()),
        is_disabled: args.flag("commented", false),
        ..CronJob::default()
    })
}

impl State for CronState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let plan = self.plan(ctx)?;
        if plan.became == CrontabChange::Unchanged {
            return Ok(CheckResult::in_sync(plan.comment));
        }
        let lines = unified_diff(plan.old.as_deref().unwrap_or_default(), &plan.new);
        Ok(CheckResult::drifted(self.preview_comment(plan.became), self.changes(&plan)).with_diff(lines))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let plan = self.plan(ctx)?;
        ctx.with_undo(&CRONTAB_UNDO, self.user.as_str(), || {
            Ok(crontab::write_crontab(&ctx.tools(), &self.user, Some(&plan.new))?)
        })?;
        Ok(ApplyResult::new(plan.comment.as_str(), self.changes(&plan)))
    }

    fn reads(&self) -> Effects {
        let files =
            if matches!(self.function, CronFunction::File { .. }) { Effects::FILES } else { Effects::NONE };
        Effects::JOBS | Effects::USERS | Effects::PACKAGES | files
    }

    fn writes(&self) -> Effects {
        Effects::JOBS
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        // Other states of a crontab are about other jobs; a whole crontab replaces them.
        let own = Effects::JOBS | Effects::USERS;
        (hidden & own) == hidden && !matches!(self.function, CronFunction::File { .. })
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Crontab]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chunk;

    #[test]
    fn what_would_be_more_than_one_line_is_refused() {
        let is_read = |fun: &str, name: &str, args: &str| {
            let chunk = chunk(&format!("cron.{fun}"), name, args);
            CronState::for_function(fun, &ChunkArgs::new(&chunk)).is_some_and(|read| read.is_ok())
        };
        assert!(is_read("present", "/bin/a", r#"{"identifier": "a"}"#));
        assert!(!is_read("present", "/bin/a", r#"{"identifier": "a\n* * * * * /bin/b"}"#));
        assert!(!is_read("present", "/bin/a\n* * * * * /bin/b", "{}"));
        assert!(is_read("env_present", "A", r#"{"value": "1"}"#));
        assert!(!is_read("env_present", "A", r#"{"value": "1\n* * * * * /bin/b"}"#));
    }
}

//! States of the module `at`: jobs that run once.
//!
//! A job that has run is no longer there, so only one with a tag of its own can be found again.

#![expect(clippy::disallowed_methods, reason = "a job without a tag gets a unique one")]

pub mod at_queue;
pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::at::at_queue::AtJob;
use crate::shared::text_file::single_change;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule, Undoable,
};

/// The module `at`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "at",
    build,
    functions: functions::TABLE,
    undo: &[&AT_JOB_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let built = match fun {
        "present" | "watch" => AtPresent::from_args(fun, args).map(|state| Box::new(state) as Box<dyn State>),
        "absent" => AtAbsent::from_args(args).map(|state| Box::new(state) as Box<dyn State>),
        _ => return None,
    };
    Some(built)
}

/// Jobs that were made here, by a note in the text of each: its number is known only when it is there.
pub const AT_JOB_UNDO: AtJobUndo = AtJobUndo;

pub struct AtJobUndo;

impl Undoable for AtJobUndo {
    fn kind(&self) -> &'static str {
        "at"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let note = zagent_compiler::name_text(key);
        let found = at_queue::list_jobs(&ctx.tools())?.into_iter().find(|job| job.note == note);
        Ok(found.map_or(Value::Null, |job| Value::Int(job.id)))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        if !to.is_null() {
            return Err(StateError::new("a job of at that is gone cannot be made again"));
        }
        let now = self.capture(key, ctx)?.as_int();
        Ok(at_queue::remove_jobs(&ctx.tools(), &now.into_iter().collect::<Vec<_>>())?)
    }
}

pub struct AtPresent {
    /// It waits for a watch.
    only_on_watch: bool,
    job: String,
    time: String,
    tag: Option<String>,
    user: Option<String>,
    is_unique: bool,
}

impl AtPresent {
    pub fn from_args(fun: &str, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let text = |key: &str| Ok::<_, StateError>(args.text(key)?.filter(|t| !t.is_empty()));
        let (tag, is_unique) = (text("tag")?, args.flag("unique_tag", false));
        if is_unique && tag.is_none() {
            return Err(StateError::new("no tag provided and unique_tag is set to True"));
        }
        if tag.as_ref().is_some_and(|tag| tag.contains(char::is_whitespace)) {
            return Err(StateError::new("`tag` must be one word"));
        }
        let time = text("timespec")?.ok_or_else(|| StateError::new("`timespec` must be given"))?;
        let job = text("job")?.unwrap_or_else(|| args.name());
        Ok(Self { only_on_watch: fun == "watch", job, time, tag, user: text("user")?, is_unique })
    }

    fn comment(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!(" as {user}"));
        format!("job {} added and will run{user} on {}", self.job, self.time)
    }

    fn check_job(&self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if let Some(tag) = self.tag.as_ref().filter(|_| self.is_unique)
            && at_queue::list_jobs(&ctx.tools())?.iter().any(|job| job.tag == *tag)
        {
            return Ok(CheckResult::in_sync(format!("atleast one job with tag {tag} exists.")));
        }
        Ok(CheckResult::drifted(self.comment(), single_change("job", self.job.as_str())))
    }
}

impl State for AtPresent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if self.only_on_watch { Ok(CheckResult::in_sync("")) } else { self.check_job(ctx) }
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.check_job(ctx)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (tag, user) = (self.tag.as_deref(), self.user.as_deref());
        let note = format!("{}-{}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
        let job = at_queue::add_note(&self.job, &note);
        let made = ctx.with_undo(&AT_JOB_UNDO, note, || {
            Ok(at_queue::add_job(&ctx.tools(), &self.time, &job, tag, user)?)
        })?;
        Ok(ApplyResult::new(self.comment(), made.to_salt_map()))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let look = self.check_job(ctx)?;
        if look.changes.is_empty() { Ok(ApplyResult::new(look.comment, Map::new())) } else { self.apply(ctx) }
    }

    fn is_convergent(&self) -> bool {
        self.is_unique && !self.only_on_watch
    }

    fn reads(&self) -> Effects {
        Effects::JOBS | Effects::USERS | Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        Effects::JOBS
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        (hidden & (Effects::JOBS | Effects::USERS)) == hidden
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Crontab]
    }
}

pub struct AtAbsent {
    id: Option<i64>,
    /// What a job has to be like: `runas`, `tag`, `hour`, `minute`, `day`, `month`, `year`.
    filters: Vec<(String, String)>,
}

/// The parts of a job that can be asked for.
const FILTER_ARGS: [&str; 7] = ["runas", "tag", "hour", "minute", "day", "month", "year"];

impl AtAbsent {
    pub fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        if args.get("limit").is_some() {
            return Err(StateError::new(format!("limit parameter not supported {}", args.name())));
        }
        let mut like = Vec::new();
        for key in FILTER_ARGS {
            if let Some(value) = args.text(key)? {
                like.push((key.to_owned(), value));
            }
        }
        Ok(Self { id: args.int("jobid")?, filters: like })
    }

    fn matches_job(&self, job: &AtJob) -> bool {
        let (date, time): (Vec<&str>, Vec<&str>) =
            (job.date.split('-').collect(), job.time.split(':').collect());
        let number = |text: Option<&&str>, wanted: &str| {
            text.and_then(|t| t.parse::<u32>().ok())
                == wanted.parse::<u32>().ok().filter(|_| !wanted.is_empty())
        };
        let fits = |(key, wanted): &(String, String)| match &**key {
            "runas" => job.user == *wanted,
            "tag" => job.tag == *wanted,
            "hour" => number(time.first(), wanted),
            "minute" => number(time.get(1), wanted),
            "day" => number(date.get(2), wanted),
            "month" => number(date.get(1), wanted),
            _ => date.first().is_some_and(|year| year.ends_with(&**wanted)),
        };
        self.id.is_none_or(|id| id == job.id) && self.filters.iter().all(fits)
    }

    fn find_jobs(&self, ctx: &StateCtx<'_>) -> Result<Vec<i64>, StateError> {
        let jobs = at_queue::list_jobs(&ctx.tools())?;
        Ok(jobs.iter().filter(|job| self.matches_job(job)).map(|job| job.id).collect())
    }
}

fn removed_changes(jobs: &[i64]) -> Map {
    single_change("removed", jobs.iter().map(|id| Value::from(id.to_string())).collect::<Value>())
}

impl State for AtAbsent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let jobs = self.find_jobs(ctx)?;
        if jobs.is_empty() {
            let none = || "removed 0 job(s)".to_owned();
            return Ok(CheckResult::in_sync(
                self.id.map_or_else(none, |id| format!("job with id {id} not present")),
            ));
        }
        Ok(CheckResult::drifted(format!("removed {} job(s)", jobs.len()), removed_changes(&jobs)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let jobs = self.find_jobs(ctx)?;
        at_queue::remove_jobs(&ctx.tools(), &jobs)?;
        Ok(ApplyResult::new(format!("removed {} job(s)", jobs.len()), removed_changes(&jobs)))
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("a job of at that is taken away is gone")
    }

    fn reads(&self) -> Effects {
        Effects::JOBS | Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        Effects::JOBS
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Crontab]
    }
}

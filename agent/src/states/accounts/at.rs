//! States of the module `at`: jobs that run once.
//!
//! Law: a job that has run is no longer there, so only one with a tag of its own can be found again.

use zagent_config::{Map, Value};

use super::text::change;
use crate::host::accounts::at::{self, Job};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// Jobs that were made here, by a note in the text of each: its number is known only when it is there.
pub(super) const JOB: Jobs = Jobs;

pub(super) struct Jobs;

impl Thing for Jobs {
    fn kind(&self) -> &'static str {
        "at"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let note = zagent_compiler::name_text(key);
        let found = at::list(&scene.tools())?.into_iter().find(|job| job.note == note);
        Ok(found.map_or(Value::Null, |job| Value::Int(job.id)))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        if !to.is_null() {
            return Err(Failure::new("a job of at that is gone cannot be made again"));
        }
        let now = self.look(key, scene)?.as_int();
        Ok(at::remove(&scene.tools(), &now.into_iter().collect::<Vec<_>>())?)
    }
}

pub(super) struct Present {
    /// It waits for a watch.
    waits: bool,
    job: String,
    time: String,
    tag: Option<String>,
    user: Option<String>,
    is_unique: bool,
}

impl Present {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Result<Self, Failure> {
        let text = |key: &str| Ok::<_, Failure>(args.text(key)?.filter(|t| !t.is_empty()));
        let (tag, is_unique) = (text("tag")?, args.flag("unique_tag", false));
        if is_unique && tag.is_none() {
            return Err(Failure::new("no tag provided and unique_tag is set to True"));
        }
        if tag.as_ref().is_some_and(|tag| tag.contains(char::is_whitespace)) {
            return Err(Failure::new("`tag` must be one word"));
        }
        let time = text("timespec")?.ok_or_else(|| Failure::new("`timespec` must be given"))?;
        let job = text("job")?.unwrap_or_else(|| args.name());
        Ok(Self { waits: fun == "watch", job, time, tag, user: text("user")?, is_unique })
    }

    fn words(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!(" as {user}"));
        format!("job {} added and will run{user} on {}", self.job, self.time)
    }

    fn would(&self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if let Some(tag) = self.tag.as_ref().filter(|_| self.is_unique)
            && at::list(&scene.tools())?.iter().any(|job| job.tag == *tag)
        {
            return Ok(Look::right(format!("atleast one job with tag {tag} exists.")));
        }
        Ok(Look::drift(self.words(), change("job", self.job.as_str())))
    }
}

impl State for Present {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if self.waits { Ok(Look::right("")) } else { self.would(scene) }
    }

    fn foresee(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.would(scene)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (tag, user) = (self.tag.as_deref(), self.user.as_deref());
        let note = format!("{}-{}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
        let job = at::noted(&self.job, &note);
        let made = scene.change(&JOB, note, || Ok(at::add(&scene.tools(), &self.time, &job, tag, user)?))?;
        Ok(Done::new(self.words(), made.shown()))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let look = self.would(scene)?;
        if look.changes.is_empty() { Ok(Done::new(look.comment, Map::new())) } else { self.apply(scene) }
    }

    fn is_lasting(&self) -> bool {
        self.is_unique && !self.waits
    }

    fn sees(&self) -> Veil {
        Veil::JOBS | Veil::USERS | Veil::PACKAGES
    }

    fn veils(&self) -> Veil {
        Veil::JOBS
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        (hidden & (Veil::JOBS | Veil::USERS)) == hidden
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Crontab]
    }
}

pub(super) struct Absent {
    id: Option<i64>,
    /// What a job has to be like: `runas`, `tag`, `hour`, `minute`, `day`, `month`, `year`.
    like: Vec<(String, String)>,
}

/// The parts of a job that can be asked for.
const LIKE: [&str; 7] = ["runas", "tag", "hour", "minute", "day", "month", "year"];

impl Absent {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        if args.get("limit").is_some() {
            return Err(Failure::new(format!("limit parameter not supported {}", args.name())));
        }
        let mut like = Vec::new();
        for key in LIKE {
            if let Some(value) = args.text(key)? {
                like.push((key.to_owned(), value));
            }
        }
        Ok(Self { id: args.int("jobid")?, like })
    }

    fn is(&self, job: &Job) -> bool {
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
        self.id.is_none_or(|id| id == job.id) && self.like.iter().all(fits)
    }

    fn find(&self, scene: &Scene<'_>) -> Result<Vec<i64>, Failure> {
        let jobs = at::list(&scene.tools())?;
        Ok(jobs.iter().filter(|job| self.is(job)).map(|job| job.id).collect())
    }
}

fn removed(jobs: &[i64]) -> Map {
    change("removed", jobs.iter().map(|id| Value::from(id.to_string())).collect::<Value>())
}

impl State for Absent {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let jobs = self.find(scene)?;
        if jobs.is_empty() {
            let none = || "removed 0 job(s)".to_owned();
            return Ok(Look::right(self.id.map_or_else(none, |id| format!("job with id {id} not present"))));
        }
        Ok(Look::drift(format!("removed {} job(s)", jobs.len()), removed(&jobs)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let jobs = self.find(scene)?;
        at::remove(&scene.tools(), &jobs)?;
        Ok(Done::new(format!("removed {} job(s)", jobs.len()), removed(&jobs)))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a job of at that is taken away is gone")
    }

    fn sees(&self) -> Veil {
        Veil::JOBS | Veil::PACKAGES
    }

    fn veils(&self) -> Veil {
        Veil::JOBS
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Crontab]
    }
}

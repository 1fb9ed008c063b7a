//! States of the module `cron`: jobs and variables in the crontab of a user.

use zagent_config::{Map, Value};

use super::text::{change, diff, source};
use crate::host::accounts::cron::{self, Became, Job, TIMES, Tab};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Thing, Veil};

/// Crontabs: the whole text.
pub(super) const CRONTAB: Crontabs = Crontabs;

pub(super) struct Crontabs;

impl Thing for Crontabs {
    fn kind(&self) -> &'static str {
        "crontab"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let text = cron::read(&scene.tools(), &zagent_compiler::name_text(key))?;
        Ok(text.map_or(Value::Null, Value::from))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        Ok(cron::write(&scene.tools(), &zagent_compiler::name_text(key), to.as_str())?)
    }
}

/// What should be in a crontab, or not.
enum Want {
    Job(Job),
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

pub(super) struct Cron {
    name: String,
    user: String,
    want: Want,
}

/// What should become of a crontab.
struct Plan {
    old: Option<String>,
    new: String,
    became: Became,
    words: String,
}

impl Cron {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Option<Result<Self, Failure>> {
        let want = match fun {
            "present" => job(args).map(Want::Job),
            "absent" => {
                let special = args.text("special");
                special.map(|special| Want::NoJob { identifier: identifier(args), special })
            }
            "env_present" => args.text("value").and_then(|value| {
                let value = value.unwrap_or_default();
                if [&args.name(), &value].iter().any(|text| text.trim().contains('\n')) {
                    return Err(Failure::new("a variable of a crontab is one line"));
                }
                Ok(Want::Env(value.trim_end_matches('\n').to_owned()))
            }),
            "env_absent" => Ok(Want::NoEnv),
            "file" => {
                let replace = args.flag("replace", true);
                Ok(Want::File { chunk: Box::new(args.chunk.clone()), replace })
            }
            _ => return None,
        };
        let user = args.text("user");
        Some(want.and_then(|want| {
            let user = user?.filter(|u| !u.is_empty()).unwrap_or_else(|| "root".into());
            Ok(Self { name: args.name().trim().to_owned(), user, want })
        }))
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, Failure> {
        let tools = scene.tools();
        let old = cron::read(&tools, &self.user)?;
        let text = old.as_deref().unwrap_or_default();
        let tab = || Tab::parse(text);
        let (became, new) = match &self.want {
            Want::Job(job) => tab().with_job(job, &cron::seed(&tools, &self.user)),
            Want::NoJob { identifier, special } => {
                tab().without_job(&self.name, identifier.as_deref(), special.as_deref())
            }
            Want::Env(value) => tab().with_env(&self.name, value),
            Want::NoEnv => tab().without_env(&self.name),
            Want::File { replace: false, .. } if old.is_some() => (Became::Same, text.to_owned()),
            Want::File { chunk, .. } => {
                let new = source(&Args::new(chunk), &self.name, scene)?;
                (if new == text { Became::Same } else { Became::Updated }, new)
            }
        };
        let words = self.words(became);
        Ok(Plan { old, new, became, words })
    }

    fn words(&self, became: Became) -> String {
        let Self { name, user, want } = self;
        let what = if matches!(want, Want::Env(_) | Want::NoEnv) { "Cron env" } else { "Cron" };
        match (want, became) {
            (Want::File { replace: false, .. }, Became::Same) => {
                format!("User {user} already has a crontab. No changes made")
            }
            (Want::File { .. }, Became::Same) => format!("Crontab for user {user} is in the correct state"),
            (Want::File { .. }, _) => format!("Crontab for user {user} was updated"),
            (Want::NoJob { .. } | Want::NoEnv, Became::Same) => format!("{what} {name} already absent"),
            (_, Became::Same) => format!("{what} {name} already present"),
            (_, Became::New) => format!("{what} {name} added to {user}'s crontab"),
            (_, Became::Updated) => format!("{what} {name} updated"),
            (_, Became::Removed) => format!("{what} {name} removed from {user}'s crontab"),
        }
    }

    fn would(&self, became: Became) -> String {
        let Self { name, user, want } = self;
        let what = if matches!(want, Want::Env(_) | Want::NoEnv) { "Cron env" } else { "Cron" };
        let act = match became {
            Became::New => "added",
            Became::Removed => "removed",
            Became::Same | Became::Updated => "updated",
        };
        match want {
            Want::File { .. } => format!("Crontab for user {user} is set to be updated"),
            _ => format!("{what} {name} is set to be {act}"),
        }
    }

    fn changes(&self, plan: &Plan) -> Map {
        match self.want {
            Want::File { .. } => change("diff", diff(plan.old.as_deref().unwrap_or_default(), &plan.new)),
            _ => change(self.user.as_str(), self.name.as_str()),
        }
    }
}

/// `identifier`: the command itself when it is not given; none when it is null.
fn identifier(args: &Args<'_>) -> Option<String> {
    match args.chunk.args.get("identifier") {
        None | Some(Value::Bool(false)) => Some(args.name().trim().to_owned()),
        Some(Value::Null) => None,
        Some(id) => Some(zagent_compiler::name_text(id)),
    }
}

fn job(args: &Args<'_>) -> Result<Job, Failure> {
    let when = match args.text("special")? {
        Some(special) => vec![special],
        None => {
            let mut when = Vec::new();
            for (key, ..) in TIMES {
                when.push(args.text(key)?.unwrap_or_else(|| "*".into()).to_lowercase());
            }
            when
        }
    };
    let one_line = |text: &str| !text.contains('\n');
    let cmd = args.name().trim().to_owned();
    let identifier = identifier(args);
    if identifier.as_deref().is_some_and(|id| !one_line(id)) {
        return Err(Failure::new("the identifier of a job is one line"));
    }
    if !one_line(&cmd) || !when.iter().all(|w| one_line(w) && !w.trim().is_empty() && !w.contains(' ')) {
        return Err(Failure::new("a job of a crontab is one line, and its times are words without spaces"));
    }
    Ok(Job {
        when,
        cmd,
        identifier,
        comment: args.text("comment")?.map(|c| c.trim_end().to_owned()),
        commented: args.flag("commented", false),
        ..Job::default()
    })
}

impl State for Cron {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let plan = self.plan(scene)?;
        if plan.became == Became::Same {
            return Ok(Look::right(plan.words));
        }
        let lines = diff(plan.old.as_deref().unwrap_or_default(), &plan.new);
        Ok(Look::drift(self.would(plan.became), self.changes(&plan)).with_diff(lines))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let plan = self.plan(scene)?;
        scene.change(&CRONTAB, self.user.as_str(), || {
            Ok(cron::write(&scene.tools(), &self.user, Some(&plan.new))?)
        })?;
        Ok(Done::new(plan.words.as_str(), self.changes(&plan)))
    }

    fn sees(&self) -> Veil {
        let files = if matches!(self.want, Want::File { .. }) { Veil::FILES } else { Veil::NONE };
        Veil::JOBS | Veil::USERS | Veil::PACKAGES | files
    }

    fn veils(&self) -> Veil {
        Veil::JOBS
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        // Other states of a crontab are about other jobs; a whole crontab replaces them.
        let own = Veil::JOBS | Veil::USERS;
        (hidden & own) == hidden && !matches!(self.want, Want::File { .. })
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Crontab]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::stage::chunk;

    #[test]
    fn what_would_be_more_than_one_line_is_refused() {
        let is_read = |fun: &str, name: &str, args: &str| {
            let chunk = chunk(&format!("cron.{fun}"), name, args);
            Cron::read(fun, &Args::new(&chunk)).is_some_and(|read| read.is_ok())
        };
        assert!(is_read("present", "/bin/a", r#"{"identifier": "a"}"#));
        assert!(!is_read("present", "/bin/a", r#"{"identifier": "a\n* * * * * /bin/b"}"#));
        assert!(!is_read("present", "/bin/a\n* * * * * /bin/b", "{}"));
        assert!(is_read("env_present", "A", r#"{"value": "1"}"#));
        assert!(!is_read("env_present", "A", r#"{"value": "1\n* * * * * /bin/b"}"#));
    }
}

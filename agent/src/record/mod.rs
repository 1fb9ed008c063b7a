//! Names of things of this host in, states that describe them as they are out.
//!
//! What is written needs no rendering (`#!yaml`), so that a file that looks like a template stays what it is. Passwords are
//! not recorded.

mod entry;

use zagent_compiler::{CallError, FunctionCall, name_text};
use zagent_config::{Map, Value};
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::error::AgentError;
use zagent_daemon::resource_run::call_on_node;

use crate::output::yaml;

/// What can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RecordKind {
    /// Packages that are installed
    Pkg,
    /// Services: running or not, started at boot or not
    Service,
    /// Files, directories and links, by path
    File,
    /// Users
    User,
    /// Groups
    Group,
    /// The managed jobs and variables of a user's crontab
    Cron,
}

/// States, and what could not be recorded.
#[derive(Clone, Debug, Default)]
pub struct RecordedStates {
    /// By id.
    states: Map,
    /// In words.
    pub warnings: Vec<String>,
}

impl RecordedStates {
    /// The SLS.
    #[must_use]
    pub fn sls(&self) -> String {
        format!("#!yaml\n{}", yaml(&self.states.clone().into()))
    }

    /// True when there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// An id that no other state has, for things that may have the same name.
    fn unique_id(&self, id: &str) -> String {
        let numbered = (2..).map(|n| format!("{id} {n}"));
        let free = std::iter::once(id.to_owned()).chain(numbered).find(|id| !self.states.contains(id));
        free.unwrap_or_default()
    }

    fn add(&mut self, id: &str, function: &str, args: Vec<(&str, Value)>) {
        let args: Value =
            args.into_iter().map(|(key, value)| Value::from(Map::from_iter([(key, value)]))).collect();
        // The same id again belongs to another module: `ssh` may be a package and a service.
        let mut declaration = self.states.get(id).and_then(Value::as_map).cloned().unwrap_or_default();
        declaration.insert(function, args);
        self.states.insert(id, declaration);
    }
}

/// Describes things of this host.
///
/// # Errors
/// Fails when one of them is not there or cannot be looked at.
pub fn record(job: &CompileJob, kind: RecordKind, names: &[String]) -> Result<RecordedStates, AgentError> {
    let mut states = RecordedStates::default();
    let host = RecordHost { job };
    for name in names {
        match kind {
            RecordKind::Pkg => host.package(name, &mut states)?,
            RecordKind::Service => host.service(name, &mut states)?,
            RecordKind::File => entry::record(name, &mut states)?,
            RecordKind::User => host.user(name, &mut states)?,
            RecordKind::Group => host.group(name, &mut states)?,
            RecordKind::Cron => host.cron(name, &mut states)?,
        }
    }
    Ok(states)
}

struct RecordHost<'j> {
    job: &'j CompileJob,
}

impl RecordHost<'_> {
    fn call(&self, function: &str, name: &str) -> Result<Value, AgentError> {
        let call = FunctionCall { function: function.into(), args: vec![name.into()], kwargs: Map::new() };
        call_on_node(self.job, &call).map_err(|error| {
            let why = match error {
                CallError::Unknown => "there is no such function".into(),
                CallError::Forbidden(why) | CallError::Failed(why) => why,
                CallError::Unavailable { message, .. } => message,
            };
            AgentError::failed(format!("cannot look at `{name}`: {why}"))
        })
    }

    fn package(&self, name: &str, states: &mut RecordedStates) -> Result<(), AgentError> {
        if !self.call("pkg.version", name)?.is_truthy() {
            return Err(missing("package", name, "is not installed"));
        }
        states.add(name, "pkg.installed", Vec::new());
        Ok(())
    }

    fn service(&self, name: &str, states: &mut RecordedStates) -> Result<(), AgentError> {
        if !self.call("service.available", name)?.is_truthy() {
            return Err(missing("service", name, "does not exist"));
        }
        let is_running = self.call("service.status", name)?.is_truthy();
        let is_enabled = self.call("service.enabled", name)?.is_truthy();
        let is_disabled = self.call("service.disabled", name)?.is_truthy();
        // A unit that is neither, such as a static one, is not asked to be either.
        let args = match (is_enabled, is_disabled) {
            (true, _) => vec![("enable", Value::Bool(true))],
            (_, true) => vec![("enable", Value::Bool(false))],
            _ => Vec::new(),
        };
        states.add(name, if is_running { "service.running" } else { "service.dead" }, args);
        Ok(())
    }

    fn user(&self, name: &str, states: &mut RecordedStates) -> Result<(), AgentError> {
        let found = self.call("user.info", name)?;
        let Some(user) = found.as_map().filter(|user| !user.is_empty()) else {
            return Err(missing("user", name, "does not exist"));
        };
        let own_group = name_text(&self.call("user.primary_group", name)?);
        let groups: Vec<Value> = match user.get("groups") {
            Some(Value::List(all)) => {
                all.iter().filter(|group| name_text(group) != own_group).cloned().collect()
            }
            _ => Vec::new(),
        };
        let mut args: Vec<(&str, Value)> = ["uid", "gid", "home", "shell"]
            .into_iter()
            .filter_map(|key| Some((key, user.get(key)?.clone())))
            .collect();
        for key in ["fullname", "roomnumber", "workphone", "homephone"] {
            if let Some(text) = user.get(key).filter(|text| text.is_truthy()) {
                args.push((key, text.clone()));
            }
        }
        if !groups.is_empty() {
            args.push(("groups", groups.into_iter().collect()));
        }
        let home = user.get("home").map(name_text).unwrap_or_default();
        if !std::path::Path::new(&home).is_dir() {
            args.push(("createhome", Value::Bool(false)));
        }
        states.add(name, "user.present", args);
        states.warnings.push(format!("the password of `{name}` is not recorded"));
        Ok(())
    }

    fn group(&self, name: &str, states: &mut RecordedStates) -> Result<(), AgentError> {
        let found = self.call("group.info", name)?;
        let Some(group) = found.as_map().filter(|group| !group.is_empty()) else {
            return Err(missing("group", name, "does not exist"));
        };
        let mut args = vec![("gid", group.get("gid").cloned().unwrap_or_default())];
        if let Some(members) = group.get("members").filter(|members| members.is_truthy()) {
            args.push(("members", members.clone()));
        }
        states.add(name, "group.present", args);
        Ok(())
    }

    fn cron(&self, user: &str, states: &mut RecordedStates) -> Result<(), AgentError> {
        let found = self.call("cron.list_tab", user)?;
        let list = |key: &str| match found.as_map().and_then(|all| all.get(key)) {
            Some(Value::List(all)) => all.iter().filter_map(Value::as_map).cloned().collect(),
            _ => Vec::new(),
        };
        for job in list("crons").iter().chain(&list("special")) {
            add_job(user, job, states);
        }
        for variable in list("env") {
            let text = |key: &str| variable.get(key).map(name_text).unwrap_or_default();
            let args = vec![("value", text("value").into()), ("user", user.into())];
            let args = [vec![("name", text("name").into())], args].concat();
            let id = states.unique_id(&format!("{user}: {}", text("name")));
            states.add(&id, "cron.env_present", args);
        }
        let pre = found.as_map().and_then(|all| all.get("pre"));
        let is_job = |line: &&Value| {
            let line = name_text(line);
            !line.trim().is_empty() && !line.trim_start().starts_with('#')
        };
        let others = match pre {
            Some(Value::List(lines)) => lines.iter().filter(is_job).count(),
            _ => 0,
        };
        if others > 0 {
            states.warnings.push(format!(
                "{others} lines of the crontab of `{user}` are not recorded: states manage only jobs below the mark \
                 `# Lines below here are managed by Salt`"
            ));
        }
        let is_managed = ["crons", "special", "env"].iter().any(|key| !list(key).is_empty());
        if !is_managed && others == 0 {
            return Err(missing("crontab of", user, "is empty"));
        }
        Ok(())
    }
}

fn add_job(user: &str, job: &Map, states: &mut RecordedStates) {
    let text = |key: &str| job.get(key).filter(|value| value.is_truthy()).map(name_text);
    let mut args: Vec<(&str, Value)> = vec![("user", user.into())];
    for key in ["minute", "hour", "daymonth", "month", "dayweek"] {
        if let Some(value) = text(key).filter(|value| value != "*") {
            args.push((key, value.into()));
        }
    }
    for (key, from) in [("special", "spec"), ("identifier", "identifier"), ("comment", "comment")] {
        if let Some(value) = text(from) {
            args.push((key, value.into()));
        }
    }
    if job.get("commented").is_some_and(Value::is_truthy) {
        args.push(("commented", Value::Bool(true)));
    }
    let command = text("cmd").unwrap_or_default();
    args.push(("name", command.as_str().into()));
    let id = states.unique_id(&format!("{user}: {}", text("identifier").unwrap_or(command)));
    states.add(&id, "cron.present", args);
}

fn missing(kind: &str, name: &str, what: &str) -> AgentError {
    AgentError::failed(format!("the {kind} `{name}` {what} on this host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_with_one_command_have_ids_of_their_own() {
        let mut states = RecordedStates::default();
        for hour in ["1", "2", "3"] {
            let job = Map::from_iter([("cmd", "/bin/x"), ("hour", hour)]);
            add_job("root", &job, &mut states);
        }
        let ids: Vec<String> = states.states.iter().map(|(id, _)| name_text(id)).collect();
        assert_eq!(ids, ["root: /bin/x", "root: /bin/x 2", "root: /bin/x 3"]);
    }
}

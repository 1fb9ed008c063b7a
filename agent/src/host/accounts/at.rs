//! Jobs of `at`: listed, made and taken away by its programs.

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use crate::host::Tools;
use crate::host::exec::User;

/// The line that says whose job it is.
const MARK: &str = "### SALT: ";
/// The line by which a job that was made here is found again.
const NOTE: &str = "### zagent: ";

/// A job that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: i64,
    /// `2026-11-16`.
    pub(crate) date: String,
    /// `15:04:00`.
    pub(crate) time: String,
    queue: String,
    pub(crate) user: String,
    pub(crate) tag: String,
    /// What it is known by in the journal; empty for jobs of others.
    pub(crate) note: String,
}

impl Job {
    /// It as `at.atq` shows it.
    pub(crate) fn shown(&self) -> Map {
        Map::from_iter([
            ("job", Value::Int(self.id)),
            ("date", self.date.as_str().into()),
            ("time", self.time.as_str().into()),
            ("queue", self.queue.as_str().into()),
            ("user", self.user.as_str().into()),
            ("tag", self.tag.as_str().into()),
        ])
    }
}

/// A line of `atq`: `3<tab>Mon Nov 16 15:04:00 2026 a root`.
fn parse(line: &str) -> Option<Job> {
    let (id, rest) = line.split_once('\t')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [_, month, day, time, year, queue, user] = words[..] else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| *m == month)? + 1;
    let day: u32 = day.parse().ok()?;
    Some(Job {
        id: id.trim().parse().ok()?,
        date: format!("{year}-{month:02}-{day:02}"),
        time: time.to_owned(),
        queue: queue.to_owned(),
        user: user.to_owned(),
        ..Job::default()
    })
}

fn needed(tools: &Tools<'_>) -> Result<(), Refusal> {
    if tools.which("at").is_some() {
        return Ok(());
    }
    Err(Refusal::failed("there is no `at` program on this host: the package at brings it"))
}

/// All jobs.
pub(crate) fn list(tools: &Tools<'_>) -> Result<Vec<Job>, Refusal> {
    needed(tools)?;
    let said = tools.ask("at", &["-l"])?;
    if !said.is_fine() {
        return Err(Refusal::failed(format!("cannot list the jobs of at: {}", said.words())));
    }
    let mut jobs: Vec<Job> = said.out.lines().filter_map(parse).collect();
    for job in &mut jobs {
        let text = tools.ask("at", &["-c", &job.id.to_string()])?.out;
        (job.tag, job.note) = (marked(&text, MARK), marked(&text, NOTE));
    }
    Ok(jobs)
}

/// What stands behind a mark in the text of a job.
fn marked(text: &str, mark: &str) -> String {
    text.lines().find_map(|l| l.strip_prefix(mark)).unwrap_or_default().trim().to_owned()
}

/// The text of a job that can be found again by a note.
pub(crate) fn noted(job: &str, note: &str) -> String {
    format!("{NOTE}{note}\n{job}")
}

/// Makes a job.
pub(crate) fn add(
    tools: &Tools<'_>,
    time: &str,
    job: &str,
    tag: Option<&str>,
    user: Option<&str>,
) -> Result<Job, Refusal> {
    needed(tools)?;
    let words: Vec<&str> = time.split_whitespace().collect();
    let mut command = Tools::command("at", &words, tools.machine.timeout);
    let mark = tag.map_or_else(String::new, |tag| format!("{MARK}{tag}\n"));
    command.stdin = format!("{mark}{job}\n").into_bytes();
    if let Some(name) = user {
        let found = super::find(tools.machine, name)?;
        let found = found.ok_or_else(|| Refusal::failed(format!("user {name} does not exists")))?;
        command.user = Some(run_as(&found)?);
        command.env.push(("LOGNAME".into(), name.into()));
    }
    let said = tools.run(command)?;
    let id =
        said.err.lines().find_map(|l| l.strip_prefix("job ")?.split_whitespace().next()?.parse::<i64>().ok());
    match id.filter(|_| said.is_fine()) {
        Some(id) => {
            let made = list(tools)?.into_iter().find(|j| j.id == id);
            Ok(made.unwrap_or_else(|| Job { id, ..Job::default() }))
        }
        None if said.words().contains("Garbled time") => Err(Refusal::failed("invalid timespec")),
        None => Err(Refusal::failed(format!("`at` ended with code {}: {}", said.code, said.words()))),
    }
}

fn run_as(user: &super::User) -> Result<User, Refusal> {
    let name = std::ffi::CString::new(user.name.as_str()).map_err(|e| Refusal::failed(e.to_string()))?;
    let number = |n: i64| u32::try_from(n).map_err(|e| Refusal::failed(e.to_string()));
    let (uid, gid) = (number(user.uid)?, number(user.gid)?);
    let groups = nix::unistd::getgrouplist(&name, nix::unistd::Gid::from_raw(gid))
        .map_err(|e| Refusal::failed(format!("cannot list the groups of {}: {e}", user.name)))?;
    Ok(User { uid, gid, groups: groups.iter().map(|g| g.as_raw()).collect() })
}

/// Takes jobs away.
pub(crate) fn remove(tools: &Tools<'_>, jobs: &[i64]) -> Result<(), Refusal> {
    if jobs.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = std::iter::once("-d".to_owned()).chain(jobs.iter().map(i64::to_string)).collect();
    tools.must("at", &ids).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_queue_are_read() {
        let job = parse("12\tMon Nov  6 15:04:00 2026 a root").expect("a job");
        assert_eq!((job.id, &*job.date, &*job.time, &*job.user), (12, "2026-11-06", "15:04:00", "root"));
        assert_eq!(parse("Rank  Execution Date"), None);
        let text = format!("#!/bin/sh\n{MARK}t\n{}\n", noted("echo hi", "17"));
        assert_eq!((marked(&text, MARK), marked(&text, NOTE)), ("t".into(), "17".into()));
        assert!(text.ends_with("\necho hi\n"));
    }
}

//! Jobs of `at`: listed, made and taken away by its programs.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use zagent_host::Tools;
use zagent_host::exec::UserIds;
use zagent_host::machine::account_ids;

/// The line that says whose job it is.
const SALT_TAG_MARK: &str = "### SALT: ";
/// The line by which a job that was made here is found again.
const ZAGENT_NOTE_MARK: &str = "### zagent: ";

/// A job that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AtJob {
    pub id: i64,
    /// `2026-11-16`.
    pub date: String,
    /// `15:04:00`.
    pub time: String,
    queue: String,
    pub user: String,
    pub tag: String,
    /// What it is known by in the journal; empty for jobs of others.
    pub note: String,
}

impl AtJob {
    /// It as `at.atq` shows it.
    pub(crate) fn to_salt_map(&self) -> Map {
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
fn parse_atq_line(line: &str) -> Option<AtJob> {
    let (id, rest) = line.split_once('\t')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [_, month, day, time, year, queue, user] = words[..] else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|m| *m == month)? + 1;
    let day: u32 = day.parse().ok()?;
    Some(AtJob {
        id: id.trim().parse().ok()?,
        date: format!("{year}-{month:02}-{day:02}"),
        time: time.to_owned(),
        queue: queue.to_owned(),
        user: user.to_owned(),
        ..AtJob::default()
    })
}

fn require_at(tools: &Tools<'_>) -> Result<(), FunctionError> {
    if tools.which("at").is_some() {
        return Ok(());
    }
    Err(FunctionError::failed("there is no `at` program on this host: the package at brings it"))
}

/// All jobs.
pub(crate) fn list_jobs(tools: &Tools<'_>) -> Result<Vec<AtJob>, FunctionError> {
    require_at(tools)?;
    let output = tools.run_query("at", &["-l"])?;
    if !output.is_success() {
        return Err(FunctionError::failed(format!("cannot list the jobs of at: {}", output.message())));
    }
    let mut jobs: Vec<AtJob> = output.stdout.lines().filter_map(parse_atq_line).collect();
    for job in &mut jobs {
        let text = tools.run_query("at", &["-c", &job.id.to_string()])?.stdout;
        (job.tag, job.note) =
            (text_after_mark(&text, SALT_TAG_MARK), text_after_mark(&text, ZAGENT_NOTE_MARK));
    }
    Ok(jobs)
}

/// What stands behind a mark in the text of a job.
fn text_after_mark(text: &str, mark: &str) -> String {
    text.lines().find_map(|l| l.strip_prefix(mark)).unwrap_or_default().trim().to_owned()
}

/// The text of a job that can be found again by a note.
pub(crate) fn add_note(job: &str, note: &str) -> String {
    format!("{ZAGENT_NOTE_MARK}{note}\n{job}")
}

/// Makes a job.
pub(crate) fn add_job(
    tools: &Tools<'_>,
    time: &str,
    job: &str,
    tag: Option<&str>,
    user: Option<&str>,
) -> Result<AtJob, FunctionError> {
    require_at(tools)?;
    let words: Vec<&str> = time.split_whitespace().collect();
    let mut command = Tools::command("at", &words, tools.machine.timeout);
    let mark = tag.map_or_else(String::new, |tag| format!("{SALT_TAG_MARK}{tag}\n"));
    command.stdin = format!("{mark}{job}\n").into_bytes();
    if let Some(name) = user {
        let found = zagent_host::accounts::find_user(tools.machine, name)?;
        let found = found.ok_or_else(|| FunctionError::failed(format!("user {name} does not exists")))?;
        command.user = Some(user_ids(tools, &found)?);
        command.env.push(("LOGNAME".into(), name.into()));
    }
    let output = tools.run(command)?;
    let id = output
        .stderr
        .lines()
        .find_map(|l| l.strip_prefix("job ")?.split_whitespace().next()?.parse::<i64>().ok());
    match id.filter(|_| output.is_success()) {
        Some(id) => {
            let made = list_jobs(tools)?.into_iter().find(|j| j.id == id);
            Ok(made.unwrap_or_else(|| AtJob { id, ..AtJob::default() }))
        }
        None if output.message().contains("Garbled time") => Err(FunctionError::failed("invalid timespec")),
        None => {
            Err(FunctionError::failed(format!("`at` ended with code {}: {}", output.code, output.message())))
        }
    }
}

fn user_ids(tools: &Tools<'_>, user: &zagent_host::accounts::PasswdEntry) -> Result<UserIds, FunctionError> {
    let number = |n: i64| u32::try_from(n).map_err(|e| FunctionError::failed(e.to_string()));
    let (uid, gid) = (number(user.uid)?, number(user.gid)?);
    let groups = account_ids::group_ids(tools.machine, &user.name, gid).map_err(FunctionError::failed)?;
    Ok(UserIds { uid, gid, groups })
}

/// Takes jobs away.
pub(crate) fn remove_jobs(tools: &Tools<'_>, jobs: &[i64]) -> Result<(), FunctionError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = std::iter::once("-d".to_owned()).chain(jobs.iter().map(i64::to_string)).collect();
    tools.run_checked("at", &ids).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_queue_are_read() {
        let job = parse_atq_line("12\tMon Nov  6 15:04:00 2026 a root").expect("a job");
        assert_eq!((job.id, &*job.date, &*job.time, &*job.user), (12, "2026-11-06", "15:04:00", "root"));
        assert_eq!(parse_atq_line("Rank  Execution Date"), None);
        let text = format!("#!/bin/sh\n{SALT_TAG_MARK}t\n{}\n", add_note("echo hi", "17"));
        assert_eq!(
            (text_after_mark(&text, SALT_TAG_MARK), text_after_mark(&text, ZAGENT_NOTE_MARK)),
            ("t".into(), "17".into())
        );
        assert!(text.ends_with("\necho hi\n"));
    }
}

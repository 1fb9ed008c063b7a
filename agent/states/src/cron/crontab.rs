//! The text of a crontab in, its jobs and variables out, and the text with one of them set or taken away.
//!
//! Law: what is managed stands below Salt's own line, as Salt writes it; all other lines stay byte for byte (held
//! by `jobs_come_and_go_and_other_lines_stay`, `marks_do_not_reach_across_lines_of_others`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use zagent_host::Tools;

const SALT_HEADER: &str = "# Lines below here are managed by Salt, do not edit";
const IDENTIFIER_MARK: &str = "SALT_CRON_IDENTIFIER";
const DISABLED_MARK: &str = "#DISABLED#";
/// The fields of a time, and the numbers that `random` may give each.
pub(crate) const TIME_FIELDS: [(&str, u64, u64); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("daymonth", 1, 28), ("month", 1, 12), ("dayweek", 0, 6)];

/// A job of a crontab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CronJob {
    /// Five fields, or one such as `@daily`.
    pub schedule: Vec<String>,
    pub cmd: String,
    pub(crate) identifier: Option<String>,
    pub comment: Option<String>,
    pub(crate) is_disabled: bool,
    /// Its lines, with the comments before it.
    pub lines: Range<usize>,
}

impl CronJob {
    fn is_special(&self) -> bool {
        self.schedule.len() == 1
    }

    /// True when this job is the one that is meant.
    pub(crate) fn matches(&self, cmd: &str, identifier: Option<&str>) -> bool {
        self.identifier.as_deref().map_or(self.cmd == cmd, |own| Some(own) == identifier)
    }

    fn render(&self) -> String {
        let mut out = String::new();
        if self.comment.is_some() || self.identifier.is_some() {
            out.push('#');
            if let Some(comment) = self.comment.as_ref().filter(|c| !c.is_empty()) {
                out.push_str(&format!(" {}", comment.replace('\n', "\n# ")));
            }
            if let Some(id) = self.identifier.as_ref().filter(|id| !id.is_empty()) {
                out.push_str(&format!(" {IDENTIFIER_MARK}:{id}"));
            }
            out.push('\n');
        }
        let disabled = if self.is_disabled { DISABLED_MARK } else { "" };
        out.push_str(&format!("{disabled}{} {}\n", self.schedule.join(" "), self.cmd));
        out
    }
}

/// A crontab.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Crontab {
    lines: Vec<String>,
    /// Where what is managed begins.
    start: Option<usize>,
    /// Line, name and value.
    variables: Vec<(usize, String, String)>,
    /// The jobs that are managed.
    pub jobs: Vec<CronJob>,
}

/// What became of a crontab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrontabChange {
    Unchanged,
    New,
    Updated,
    Removed,
}

impl Crontab {
    /// Reads a crontab.
    pub(crate) fn parse(text: &str) -> Self {
        let mut tab =
            Self { lines: text.split_inclusive('\n').map(str::to_owned).collect(), ..Self::default() };
        let (mut comment, mut identifier, mut first): (Option<String>, Option<String>, _) =
            (None, None, None);
        for at in 0..tab.lines.len() {
            let line = tab.lines[at].trim_end_matches(['\n', '\r']).to_owned();
            if line == SALT_HEADER {
                tab.start.get_or_insert(at);
                continue;
            }
            if tab.start.is_none() {
                continue;
            }
            let (line, commented) =
                line.strip_prefix(DISABLED_MARK).map_or((&*line, false), |rest| (rest, true));
            if line.starts_with('#') && !line.starts_with('@') {
                let mut note = line.trim_start_matches(['#', ' ']);
                if let Some((before, id)) = note.split_once(IDENTIFIER_MARK) {
                    note = before.trim_end();
                    identifier = id.get(1..).filter(|id| !id.is_empty()).map(str::to_owned).or(identifier);
                }
                comment = Some(comment.map_or_else(|| note.to_owned(), |c| format!("{c}\n{note}")));
                first.get_or_insert(at);
                continue;
            }
            if let Some((name, value)) =
                line.split_once('=').filter(|(n, _)| !n.is_empty() && !n.contains(' '))
                && !line.starts_with('@')
            {
                tab.variables.push((at, name.to_owned(), value.to_owned()));
                (comment, identifier, first) = (None, None, None);
                continue;
            }
            let parts = if line.starts_with('@') { 1 } else { 5 };
            let words: Vec<&str> = line.splitn(parts + 1, ' ').collect();
            if words.len() != parts + 1 || words[parts].is_empty() {
                // A line of somebody else: what stands above it does not belong to what comes after.
                (comment, identifier, first) = (None, None, None);
                continue;
            }
            tab.jobs.push(CronJob {
                schedule: words[..parts].iter().map(|w| (*w).to_owned()).collect(),
                cmd: words[parts].to_owned(),
                identifier: identifier.take(),
                comment: comment.take(),
                is_disabled: commented,
                lines: first.take().unwrap_or(at)..at + 1,
            });
        }
        tab
    }

    fn render_lines(&self) -> String {
        self.lines.concat()
    }

    /// Lines put before another one; what is managed begins when it did not.
    fn insert_lines(mut self, at: Option<usize>, new: String) -> String {
        if let Some(last) = self.lines.last_mut()
            && !last.ends_with('\n')
        {
            last.push('\n');
        }
        let at = match (at, self.start) {
            (Some(at), Some(_)) => at,
            (None, Some(start)) => start + 1,
            (_, None) => {
                self.lines.push(format!("{SALT_HEADER}\n"));
                self.lines.len()
            }
        };
        self.lines.insert(at, new);
        self.render_lines()
    }

    fn without_lines(&self, lines: Range<usize>) -> String {
        let keep = self.lines.iter().enumerate().filter(|(at, _)| !lines.contains(at));
        keep.map(|(_, line)| line.as_str()).collect()
    }

    /// The text with a job as it should be. A time that is not given by number (`random`, `5:10`) stays as it is when it
    /// fits; a comment that is not given stays.
    pub(crate) fn with_job(self, wanted: &CronJob, seed: &str) -> (CrontabChange, String) {
        let found =
            self.jobs.iter().find(|job| job.matches(&wanted.cmd, wanted.identifier.as_deref())).cloned();
        let mut job = wanted.clone();
        job.schedule = resolve_times(
            &wanted.schedule,
            found.as_ref().map_or(&[], |f| &f.schedule),
            &format!("{seed}{}", wanted.cmd),
        );
        let Some(found) = found else {
            let at = self.insert_position(job.is_special());
            return (CrontabChange::New, self.insert_lines(at, job.render()));
        };
        job.comment = job.comment.or_else(|| found.comment.clone());
        job.identifier = job.identifier.or_else(|| found.identifier.clone());
        if (CronJob { lines: found.lines.clone(), ..job.clone() }) == found {
            return (CrontabChange::Unchanged, self.render_lines());
        }
        let rest = Self::parse(&self.without_lines(found.lines));
        let at = rest.insert_position(job.is_special());
        (CrontabChange::Updated, rest.insert_lines(at, job.render()))
    }

    /// Where a new job goes: after the last of its kind.
    fn insert_position(&self, is_special: bool) -> Option<usize> {
        let jobs = self.jobs.iter().filter(|job| is_special || !job.is_special()).map(|job| job.lines.end);
        jobs.chain(self.variables.iter().map(|(at, ..)| at + 1)).max()
    }

    /// The text without a job.
    pub(crate) fn without_job(
        &self,
        cmd: &str,
        id: Option<&str>,
        special: Option<&str>,
    ) -> (CrontabChange, String) {
        let is = |job: &&CronJob| {
            let fits = special.map_or(!job.is_special(), |s| job.is_special() && job.schedule[0] == s);
            job.matches(cmd, id) && fits
        };
        match self.jobs.iter().find(is) {
            None => (CrontabChange::Unchanged, self.render_lines()),
            Some(job) => (CrontabChange::Removed, self.without_lines(job.lines.clone())),
        }
    }

    /// The text with a variable.
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> (CrontabChange, String) {
        let value = if value.is_empty() { "\"\"" } else { value };
        let line = format!("{name}={value}\n");
        match self.variables.iter().find(|(_, n, _)| n == name) {
            Some((_, _, is)) if is == value => (CrontabChange::Unchanged, self.render_lines()),
            Some((at, ..)) => {
                let at = *at;
                self.lines[at] = line;
                (CrontabChange::Updated, self.render_lines())
            }
            None => {
                let at = self.variables.iter().map(|(at, ..)| at + 1).max();
                (CrontabChange::New, self.insert_lines(at, line))
            }
        }
    }

    /// The text without a variable.
    pub(crate) fn without_env(&self, name: &str) -> (CrontabChange, String) {
        match self.variables.iter().find(|(_, n, _)| n == name) {
            None => (CrontabChange::Unchanged, self.render_lines()),
            Some((at, ..)) => (CrontabChange::Removed, self.without_lines(*at..at + 1)),
        }
    }

    /// It as `cron.list_tab` shows it.
    pub(crate) fn to_salt_map(&self) -> Value {
        let pre = self.lines[..self.start.unwrap_or(self.lines.len())].iter();
        let pre: Value = pre.map(|l| Value::from(l.trim_end_matches(['\n', '\r']))).collect();
        let envs = self.variables.iter().map(|(_, name, value)| {
            Value::from(Map::from_iter([
                ("name", Value::from(name.as_str())),
                ("value", value.as_str().into()),
            ]))
        });
        let jobs = |special: bool| -> Value {
            self.jobs
                .iter()
                .filter(|j| j.is_special() == special)
                .map(|j| Value::from(job_to_map(j)))
                .collect()
        };
        let all = [("pre", pre), ("crons", jobs(false)), ("special", jobs(true)), ("env", envs.collect())];
        Map::from_iter(all).into()
    }
}

/// A job as `cron.list_tab` shows it.
pub(crate) fn job_to_map(job: &CronJob) -> Map {
    let mut out = Map::new();
    if job.is_special() {
        out.insert("spec", job.schedule[0].as_str());
    } else {
        for ((key, ..), value) in TIME_FIELDS.into_iter().zip(&job.schedule) {
            out.insert(key, value.as_str());
        }
    }
    let or_null = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    out.insert("identifier", or_null(&job.identifier));
    out.insert("cmd", job.cmd.as_str());
    out.insert("comment", or_null(&job.comment));
    out.insert("commented", job.is_disabled);
    out
}

/// The times of a job: what is wanted, and where that leaves a choice what is there, or else a number that is the same each
/// time on this host.
fn resolve_times(wanted: &[String], is: &[String], seed: &str) -> Vec<String> {
    if wanted.len() != TIME_FIELDS.len() {
        return wanted.to_vec();
    }
    let pick = |(at, wanted): (usize, &String)| {
        let (_, low, high) = TIME_FIELDS[at];
        let range = wanted.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (low, high): (u64, u64) = match range {
            Some((a, b)) => (std::cmp::min(a, b), std::cmp::max(a, b)),
            None if wanted == "random" => (low, high),
            None => return wanted.clone(),
        };
        let fits = |n: &&String| n.parse().is_ok_and(|n: u64| (low..=high).contains(&n));
        if let Some(is) = is.get(at).filter(|_| is.len() == TIME_FIELDS.len()).filter(fits) {
            return is.clone();
        }
        let mut hasher = DefaultHasher::new();
        (seed, at).hash(&mut hasher);
        (low + hasher.finish() % (high - low + 1)).to_string()
    };
    wanted.iter().enumerate().map(pick).collect()
}

/// The lines of one job in the text of a crontab; nothing when it has no such job.
pub(crate) fn job_text(text: &str, cmd: &str, identifier: Option<&str>) -> String {
    let crontab = Crontab::parse(text);
    crontab.jobs.iter().find(|job| job.matches(cmd, identifier)).map(CronJob::render).unwrap_or_default()
}

/// The value of a managed variable in the text of a crontab; nothing when it has no such variable.
pub(crate) fn variable_text(text: &str, name: &str) -> String {
    let crontab = Crontab::parse(text);
    let found = crontab.variables.iter().find(|(_, known, _)| known == name);
    found.map(|(_, name, value)| format!("{name}={value}")).unwrap_or_default()
}

/// The crontab of a user; nothing when there is none.
pub(crate) fn read_crontab(tools: &Tools<'_>, user: &str) -> Result<Option<String>, FunctionError> {
    if tools.which("crontab").is_none() {
        return Err(FunctionError::failed(
            "there is no `crontab` program on this host: a package such as cron brings it",
        ));
    }
    let output = tools.run_query("crontab", &["-u", user, "-l"])?;
    if !output.is_success() {
        let is_none = output.stderr.contains("no crontab for") || output.stderr.contains("No such file");
        let words = format!("cannot read the crontab of {user}: {}", output.message());
        return if is_none { Ok(None) } else { Err(FunctionError::failed(words)) };
    }
    let header = "# DO NOT EDIT THIS FILE - edit the master and reinstall.";
    let skipped = if output.stdout.starts_with(header) { 3 } else { 0 };
    Ok(Some(output.stdout.split_inclusive('\n').skip(skipped).collect()))
}

/// Sets the crontab of a user, or takes it away.
pub(crate) fn write_crontab(tools: &Tools<'_>, user: &str, text: Option<&str>) -> Result<(), FunctionError> {
    let Some(text) = text else { return tools.run_checked("crontab", &["-u", user, "-r"]).map(|_| ()) };
    let mut command = Tools::command("crontab", &["-u", user, "-"], tools.machine.timeout);
    command.stdin = text.as_bytes().to_vec();
    let output = tools.run(command)?;
    if output.is_success() {
        return Ok(());
    }
    Err(FunctionError::failed(format!("failed to commit the crontab of {user}: {}", output.message())))
}

/// What makes random times of this host its own.
pub(crate) fn random_seed(tools: &Tools<'_>, user: &str) -> String {
    let id = tools.machine.read("/etc/machine-id").ok().flatten().unwrap_or_default();
    format!("{}{user}", id.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(when: &[&str], cmd: &str, identifier: Option<&str>) -> CronJob {
        let when = when.iter().map(|w| (*w).to_owned()).collect();
        CronJob {
            schedule: when,
            cmd: cmd.into(),
            identifier: identifier.map(str::to_owned),
            ..CronJob::default()
        }
    }

    #[test]
    fn jobs_come_and_go_and_other_lines_stay() {
        let old = "MAILTO=me\n\n5 * * * *  /own  job\n";
        let (became, one) =
            Crontab::parse(old).with_job(&job(&["1", "*", "*", "*", "*"], "/bin/a", Some("a")), "");
        assert_eq!(became, CrontabChange::New);
        assert_eq!(one, format!("{old}{SALT_HEADER}\n# {IDENTIFIER_MARK}:a\n1 * * * * /bin/a\n"));
        let (_, two) = Crontab::parse(&one).with_job(&job(&["@daily"], "/bin/b", Some("/bin/b")), "");
        let (_, three) = Crontab::parse(&two).with_env("PATH", "/bin");
        let (became, four) =
            Crontab::parse(&three).with_job(&job(&["2", "*", "*", "*", "*"], "/bin/a -x", Some("a")), "");
        assert_eq!(became, CrontabChange::Updated);
        let below = format!(
            "PATH=/bin\n# {IDENTIFIER_MARK}:a\n2 * * * * /bin/a -x\n# {IDENTIFIER_MARK}:/bin/b\n@daily /bin/b\n"
        );
        assert_eq!(four, format!("{old}{SALT_HEADER}\n{below}"));
        assert_eq!(
            Crontab::parse(&four).with_job(&job(&["2", "*", "*", "*", "*"], "/bin/a -x", Some("a")), "").0,
            CrontabChange::Unchanged
        );
        assert_eq!(
            Crontab::parse(&four).without_job("/bin/b", Some("/bin/b"), None).0,
            CrontabChange::Unchanged
        );
        let (became, five) = Crontab::parse(&four).without_job("/bin/b", Some("/bin/b"), Some("@daily"));
        assert_eq!(became, CrontabChange::Removed);
        assert_eq!(
            five,
            format!("{old}{SALT_HEADER}\nPATH=/bin\n# {IDENTIFIER_MARK}:a\n2 * * * * /bin/a -x\n")
        );
        assert_eq!(
            Crontab::parse(&five).without_env("PATH").1,
            format!("{old}{SALT_HEADER}\n# {IDENTIFIER_MARK}:a\n2 * * * * /bin/a -x\n")
        );
    }

    #[test]
    fn marks_do_not_reach_across_lines_of_others() {
        let foreign = "1\t*\t*\t*\t*\t/other";
        let text = format!("{SALT_HEADER}\n# {IDENTIFIER_MARK}:a\n{foreign}\n2 * * * * /own\n");
        let tab = Crontab::parse(&text);
        assert_eq!((tab.jobs.len(), tab.jobs[0].identifier.as_deref()), (1, None));
        let (became, left) = tab.without_job("/own", None, None);
        assert_eq!(
            (became, left),
            (CrontabChange::Removed, format!("{SALT_HEADER}\n# {IDENTIFIER_MARK}:a\n{foreign}\n"))
        );
    }

    #[test]
    fn random_times_are_chosen_once() {
        let wanted = job(&["random", "2:4", "*", "*", "*"], "/bin/a", Some("a"));
        let (_, text) = Crontab::parse("").with_job(&wanted, "host");
        let found = Crontab::parse(&text).jobs[0].clone();
        assert!(found.schedule[0].parse::<u64>().is_ok_and(|n| n < 60), "{text}");
        assert!(["2", "3", "4"].contains(&&*found.schedule[1]), "{text}");
        assert_eq!(Crontab::parse(&text).with_job(&wanted, "another").0, CrontabChange::Unchanged);
        assert_ne!(resolve_times(&wanted.schedule, &[], "a"), resolve_times(&wanted.schedule, &[], "d"));
    }

    #[test]
    fn comments_and_disabled_jobs_are_read_back() {
        let mut wanted = job(&["1", "2", "3", "4", "5"], "echo a=b", None);
        (wanted.comment, wanted.is_disabled) = (Some("two\nlines".into()), true);
        let (_, text) = Crontab::parse("").with_job(&wanted, "");
        assert_eq!(text, format!("{SALT_HEADER}\n# two\n# lines\n#DISABLED#1 2 3 4 5 echo a=b\n"));
        assert_eq!(Crontab::parse(&text).with_job(&wanted, "").0, CrontabChange::Unchanged);
        wanted.is_disabled = false;
        assert_eq!(
            Crontab::parse(&text).with_job(&wanted, "").1,
            format!("{SALT_HEADER}\n# two\n# lines\n1 2 3 4 5 echo a=b\n")
        );
    }
}

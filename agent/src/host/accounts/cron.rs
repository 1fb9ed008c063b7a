//! The text of a crontab in, its jobs and variables out, and the text with one of them set or taken away.
//!
//! Law: what is managed stands below Salt's own line, as Salt writes it; all other lines stay byte for byte.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use crate::host::Tools;

const TAG: &str = "# Lines below here are managed by Salt, do not edit";
const MARK: &str = "SALT_CRON_IDENTIFIER";
const DISABLED: &str = "#DISABLED#";
/// The fields of a time, and the numbers that `random` may give each.
pub(crate) const TIMES: [(&str, u64, u64); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("daymonth", 1, 28), ("month", 1, 12), ("dayweek", 0, 6)];

/// A job of a crontab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    /// Five fields, or one such as `@daily`.
    pub(crate) when: Vec<String>,
    pub(crate) cmd: String,
    pub(crate) identifier: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) commented: bool,
    /// Its lines, with the comments before it.
    pub(crate) lines: Range<usize>,
}

impl Job {
    fn is_special(&self) -> bool {
        self.when.len() == 1
    }

    /// True when this job is the one that is meant.
    pub(crate) fn is(&self, cmd: &str, identifier: Option<&str>) -> bool {
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
                out.push_str(&format!(" {MARK}:{id}"));
            }
            out.push('\n');
        }
        let disabled = if self.commented { DISABLED } else { "" };
        out.push_str(&format!("{disabled}{} {}\n", self.when.join(" "), self.cmd));
        out
    }
}

/// A crontab.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tab {
    lines: Vec<String>,
    /// Where what is managed begins.
    start: Option<usize>,
    /// Line, name and value.
    envs: Vec<(usize, String, String)>,
    /// The jobs that are managed.
    pub(crate) jobs: Vec<Job>,
}

/// What became of a crontab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    Same,
    New,
    Updated,
    Removed,
}

impl Tab {
    /// Reads a crontab.
    pub(crate) fn parse(text: &str) -> Self {
        let mut tab =
            Self { lines: text.split_inclusive('\n').map(str::to_owned).collect(), ..Self::default() };
        let (mut comment, mut identifier, mut first): (Option<String>, Option<String>, _) =
            (None, None, None);
        for at in 0..tab.lines.len() {
            let line = tab.lines[at].trim_end_matches(['\n', '\r']).to_owned();
            if line == TAG {
                tab.start.get_or_insert(at);
                continue;
            }
            if tab.start.is_none() {
                continue;
            }
            let (line, commented) = line.strip_prefix(DISABLED).map_or((&*line, false), |rest| (rest, true));
            if line.starts_with('#') && !line.starts_with('@') {
                let mut note = line.trim_start_matches(['#', ' ']);
                if let Some((before, id)) = note.split_once(MARK) {
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
                tab.envs.push((at, name.to_owned(), value.to_owned()));
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
            tab.jobs.push(Job {
                when: words[..parts].iter().map(|w| (*w).to_owned()).collect(),
                cmd: words[parts].to_owned(),
                identifier: identifier.take(),
                comment: comment.take(),
                commented,
                lines: first.take().unwrap_or(at)..at + 1,
            });
        }
        tab
    }

    fn text(&self) -> String {
        self.lines.concat()
    }

    /// Lines put before another one; what is managed begins when it did not.
    fn insert(mut self, at: Option<usize>, new: String) -> String {
        if let Some(last) = self.lines.last_mut()
            && !last.ends_with('\n')
        {
            last.push('\n');
        }
        let at = match (at, self.start) {
            (Some(at), Some(_)) => at,
            (None, Some(start)) => start + 1,
            (_, None) => {
                self.lines.push(format!("{TAG}\n"));
                self.lines.len()
            }
        };
        self.lines.insert(at, new);
        self.text()
    }

    fn without(&self, lines: Range<usize>) -> String {
        let keep = self.lines.iter().enumerate().filter(|(at, _)| !lines.contains(at));
        keep.map(|(_, line)| line.as_str()).collect()
    }

    /// The text with a job as it should be. A time that is not given by number (`random`, `5:10`) stays as it is when it
    /// fits; a comment that is not given stays.
    pub(crate) fn with_job(self, wanted: &Job, seed: &str) -> (Became, String) {
        let found = self.jobs.iter().find(|job| job.is(&wanted.cmd, wanted.identifier.as_deref())).cloned();
        let mut job = wanted.clone();
        job.when =
            times(&wanted.when, found.as_ref().map_or(&[], |f| &f.when), &format!("{seed}{}", wanted.cmd));
        let Some(found) = found else {
            let at = self.place(job.is_special());
            return (Became::New, self.insert(at, job.render()));
        };
        job.comment = job.comment.or_else(|| found.comment.clone());
        job.identifier = job.identifier.or_else(|| found.identifier.clone());
        if (Job { lines: found.lines.clone(), ..job.clone() }) == found {
            return (Became::Same, self.text());
        }
        let rest = Self::parse(&self.without(found.lines));
        let at = rest.place(job.is_special());
        (Became::Updated, rest.insert(at, job.render()))
    }

    /// Where a new job goes: after the last of its kind.
    fn place(&self, is_special: bool) -> Option<usize> {
        let jobs = self.jobs.iter().filter(|job| is_special || !job.is_special()).map(|job| job.lines.end);
        jobs.chain(self.envs.iter().map(|(at, ..)| at + 1)).max()
    }

    /// The text without a job.
    pub(crate) fn without_job(&self, cmd: &str, id: Option<&str>, special: Option<&str>) -> (Became, String) {
        let is = |job: &&Job| {
            let fits = special.map_or(!job.is_special(), |s| job.is_special() && job.when[0] == s);
            job.is(cmd, id) && fits
        };
        match self.jobs.iter().find(is) {
            None => (Became::Same, self.text()),
            Some(job) => (Became::Removed, self.without(job.lines.clone())),
        }
    }

    /// The text with a variable.
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> (Became, String) {
        let value = if value.is_empty() { "\"\"" } else { value };
        let line = format!("{name}={value}\n");
        match self.envs.iter().find(|(_, n, _)| n == name) {
            Some((_, _, is)) if is == value => (Became::Same, self.text()),
            Some((at, ..)) => {
                let at = *at;
                self.lines[at] = line;
                (Became::Updated, self.text())
            }
            None => {
                let at = self.envs.iter().map(|(at, ..)| at + 1).max();
                (Became::New, self.insert(at, line))
            }
        }
    }

    /// The text without a variable.
    pub(crate) fn without_env(&self, name: &str) -> (Became, String) {
        match self.envs.iter().find(|(_, n, _)| n == name) {
            None => (Became::Same, self.text()),
            Some((at, ..)) => (Became::Removed, self.without(*at..at + 1)),
        }
    }

    /// It as `cron.list_tab` shows it.
    pub(crate) fn shown(&self) -> Value {
        let pre = self.lines[..self.start.unwrap_or(self.lines.len())].iter();
        let pre: Value = pre.map(|l| Value::from(l.trim_end_matches(['\n', '\r']))).collect();
        let envs = self.envs.iter().map(|(_, name, value)| {
            Value::from(Map::from_iter([
                ("name", Value::from(name.as_str())),
                ("value", value.as_str().into()),
            ]))
        });
        let jobs = |special: bool| -> Value {
            self.jobs.iter().filter(|j| j.is_special() == special).map(|j| Value::from(job_info(j))).collect()
        };
        let all = [("pre", pre), ("crons", jobs(false)), ("special", jobs(true)), ("env", envs.collect())];
        Map::from_iter(all).into()
    }
}

/// A job as `cron.list_tab` shows it.
pub(crate) fn job_info(job: &Job) -> Map {
    let mut out = Map::new();
    if job.is_special() {
        out.insert("spec", job.when[0].as_str());
    } else {
        for ((key, ..), value) in TIMES.into_iter().zip(&job.when) {
            out.insert(key, value.as_str());
        }
    }
    let or_null = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    out.insert("identifier", or_null(&job.identifier));
    out.insert("cmd", job.cmd.as_str());
    out.insert("comment", or_null(&job.comment));
    out.insert("commented", job.commented);
    out
}

/// The times of a job: what is wanted, and where that leaves a choice what is there, or else a number that is the same each
/// time on this host.
fn times(wanted: &[String], is: &[String], seed: &str) -> Vec<String> {
    if wanted.len() != TIMES.len() {
        return wanted.to_vec();
    }
    let pick = |(at, wanted): (usize, &String)| {
        let (_, low, high) = TIMES[at];
        let range = wanted.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (low, high): (u64, u64) = match range {
            Some((a, b)) => (std::cmp::min(a, b), std::cmp::max(a, b)),
            None if wanted == "random" => (low, high),
            None => return wanted.clone(),
        };
        let fits = |n: &&String| n.parse().is_ok_and(|n: u64| (low..=high).contains(&n));
        if let Some(is) = is.get(at).filter(|_| is.len() == TIMES.len()).filter(fits) {
            return is.clone();
        }
        let mut hasher = DefaultHasher::new();
        (seed, at).hash(&mut hasher);
        (low + hasher.finish() % (high - low + 1)).to_string()
    };
    wanted.iter().enumerate().map(pick).collect()
}

/// The crontab of a user; nothing when there is none.
pub(crate) fn read(tools: &Tools<'_>, user: &str) -> Result<Option<String>, Refusal> {
    if tools.which("crontab").is_none() {
        return Err(Refusal::failed(
            "there is no `crontab` program on this host: a package such as cron brings it",
        ));
    }
    let said = tools.ask("crontab", &["-u", user, "-l"])?;
    if !said.is_fine() {
        let is_none = said.err.contains("no crontab for") || said.err.contains("No such file");
        let words = format!("cannot read the crontab of {user}: {}", said.words());
        return if is_none { Ok(None) } else { Err(Refusal::failed(words)) };
    }
    let header = "# DO NOT EDIT THIS FILE - edit the master and reinstall.";
    let skipped = if said.out.starts_with(header) { 3 } else { 0 };
    Ok(Some(said.out.split_inclusive('\n').skip(skipped).collect()))
}

/// Sets the crontab of a user, or takes it away.
pub(crate) fn write(tools: &Tools<'_>, user: &str, text: Option<&str>) -> Result<(), Refusal> {
    let Some(text) = text else { return tools.must("crontab", &["-u", user, "-r"]).map(|_| ()) };
    let mut command = Tools::command("crontab", &["-u", user, "-"], tools.machine.timeout);
    command.stdin = text.as_bytes().to_vec();
    let said = tools.run(command)?;
    if said.is_fine() {
        return Ok(());
    }
    Err(Refusal::failed(format!("failed to commit the crontab of {user}: {}", said.words())))
}

/// What makes random times of this host its own.
pub(crate) fn seed(tools: &Tools<'_>, user: &str) -> String {
    let id = tools.machine.read("/etc/machine-id").ok().flatten().unwrap_or_default();
    format!("{}{user}", id.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(when: &[&str], cmd: &str, identifier: Option<&str>) -> Job {
        let when = when.iter().map(|w| (*w).to_owned()).collect();
        Job { when, cmd: cmd.into(), identifier: identifier.map(str::to_owned), ..Job::default() }
    }

    #[test]
    fn jobs_come_and_go_and_other_lines_stay() {
        let old = "MAILTO=me\n\n5 * * * *  /own  job\n";
        let (became, one) =
            Tab::parse(old).with_job(&job(&["1", "*", "*", "*", "*"], "/bin/a", Some("a")), "");
        assert_eq!(became, Became::New);
        assert_eq!(one, format!("{old}{TAG}\n# {MARK}:a\n1 * * * * /bin/a\n"));
        let (_, two) = Tab::parse(&one).with_job(&job(&["@daily"], "/bin/b", Some("/bin/b")), "");
        let (_, three) = Tab::parse(&two).with_env("PATH", "/bin");
        let (became, four) =
            Tab::parse(&three).with_job(&job(&["2", "*", "*", "*", "*"], "/bin/a -x", Some("a")), "");
        assert_eq!(became, Became::Updated);
        let below = format!("PATH=/bin\n# {MARK}:a\n2 * * * * /bin/a -x\n# {MARK}:/bin/b\n@daily /bin/b\n");
        assert_eq!(four, format!("{old}{TAG}\n{below}"));
        assert_eq!(
            Tab::parse(&four).with_job(&job(&["2", "*", "*", "*", "*"], "/bin/a -x", Some("a")), "").0,
            Became::Same
        );
        assert_eq!(Tab::parse(&four).without_job("/bin/b", Some("/bin/b"), None).0, Became::Same);
        let (became, five) = Tab::parse(&four).without_job("/bin/b", Some("/bin/b"), Some("@daily"));
        assert_eq!(became, Became::Removed);
        assert_eq!(five, format!("{old}{TAG}\nPATH=/bin\n# {MARK}:a\n2 * * * * /bin/a -x\n"));
        assert_eq!(
            Tab::parse(&five).without_env("PATH").1,
            format!("{old}{TAG}\n# {MARK}:a\n2 * * * * /bin/a -x\n")
        );
    }

    #[test]
    fn marks_do_not_reach_across_lines_of_others() {
        let foreign = "1\t*\t*\t*\t*\t/other";
        let text = format!("{TAG}\n# {MARK}:a\n{foreign}\n2 * * * * /own\n");
        let tab = Tab::parse(&text);
        assert_eq!((tab.jobs.len(), tab.jobs[0].identifier.as_deref()), (1, None));
        let (became, left) = tab.without_job("/own", None, None);
        assert_eq!((became, left), (Became::Removed, format!("{TAG}\n# {MARK}:a\n{foreign}\n")));
    }

    #[test]
    fn random_times_are_chosen_once() {
        let wanted = job(&["random", "2:4", "*", "*", "*"], "/bin/a", Some("a"));
        let (_, text) = Tab::parse("").with_job(&wanted, "host");
        let found = Tab::parse(&text).jobs[0].clone();
        assert!(found.when[0].parse::<u64>().is_ok_and(|n| n < 60), "{text}");
        assert!(["2", "3", "4"].contains(&&*found.when[1]), "{text}");
        assert_eq!(Tab::parse(&text).with_job(&wanted, "another").0, Became::Same);
        assert_ne!(times(&wanted.when, &[], "a"), times(&wanted.when, &[], "d"));
    }

    #[test]
    fn comments_and_disabled_jobs_are_read_back() {
        let mut wanted = job(&["1", "2", "3", "4", "5"], "echo a=b", None);
        (wanted.comment, wanted.commented) = (Some("two\nlines".into()), true);
        let (_, text) = Tab::parse("").with_job(&wanted, "");
        assert_eq!(text, format!("{TAG}\n# two\n# lines\n#DISABLED#1 2 3 4 5 echo a=b\n"));
        assert_eq!(Tab::parse(&text).with_job(&wanted, "").0, Became::Same);
        wanted.commented = false;
        assert_eq!(
            Tab::parse(&text).with_job(&wanted, "").1,
            format!("{TAG}\n# two\n# lines\n1 2 3 4 5 echo a=b\n")
        );
    }
}

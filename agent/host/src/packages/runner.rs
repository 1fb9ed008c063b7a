//! A package action in, the commands of its manager run out: repairs what was left half-way, keeps failures short.
//!
//! Law: a package manager never prompts, and one that changes packages may finish when the run is stopped. A
//! failure is reported with the few lines that matter, not the whole output (held by
//! `a_limit_does_not_end_what_must_not_be_left_half_way`, `a_failure_is_told_in_few_words`).

use std::time::Duration;

use zagent_config::FunctionError;

use super::apt::SIMULATE;
use super::lock_wait::LOCK_TIMEOUT;
use super::{PkgAction, PkgChange, PkgDb, SelectedProvider};
use crate::{CommandOutput, Tools};

/// How long a manager may take.
pub(super) const RUN_TIMEOUT: Duration = Duration::from_secs(3600);
/// How many lines of a failure are worth showing.
const MAX_ERROR_LINES: usize = 12;

/// Variables that keep managers and the scripts of packages from asking.
const NONINTERACTIVE_ENV: [(&str, &str); 7] = [
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("APT_LISTBUGS_FRONTEND", "none"),
    ("UCF_FORCE_CONFFOLD", "1"),
    // It may restart services, but neither asks nor restarts what runs this.
    ("NEEDRESTART_MODE", "l"),
    ("NEEDRESTART_SUSPEND", "1"),
    ("ZYPP_LOCK_TIMEOUT", "120"),
];

/// Tells a package manager what to do.
pub struct PkgRunner<'a> {
    pub(super) tools: Tools<'a>,
    pub(super) selected: SelectedProvider,
}

impl<'a> PkgRunner<'a> {
    /// Speaks with the manager that was chosen.
    pub const fn new(tools: Tools<'a>, selected: SelectedProvider) -> Self {
        Self { tools, selected }
    }

    /// Does it.
    ///
    /// # Errors
    /// Fails when the manager cannot, or does, or when somebody else keeps it busy for too long.
    pub fn execute(&self, action: &PkgAction<'_>) -> Result<(), FunctionError> {
        action.verify_names()?;
        let lines = self.selected.provider.command_lines(self.selected.program, action);
        let lines = lines.ok_or_else(|| self.unsupported())?;
        // A manager takes a lock that it may not open for one that somebody holds, and waits for it.
        if !rustix::process::geteuid().is_root() {
            return Err(FunctionError::failed("only root may change packages: run it with sudo"));
        }
        // A catalogue can be fetched again; packages must not be left half-way.
        let finishes = !matches!(action, PkgAction::Refresh);
        lines.iter().try_for_each(|line| self.run_with_lock_wait(line, finishes))
    }

    fn unsupported(&self) -> FunctionError {
        FunctionError::failed(format!("{} cannot do this", self.selected.provider.name()))
    }

    /// What an act would do; nothing when the manager cannot tell.
    ///
    /// # Errors
    /// Fails with the manager's words when it would fail.
    pub fn dry_run(&self, action: &PkgAction<'_>) -> Result<Option<Vec<PkgChange>>, FunctionError> {
        action.verify_names()?;
        let Some(line) = self.selected.provider.dry_run_command(self.selected.program, action) else {
            return Ok(None);
        };
        let output = self.run_line(&line, self.tools.machine.timeout.max(LOCK_TIMEOUT), false)?;
        let changes = self.selected.provider.parse_dry_run(&output.stdout);
        // Some managers end with 1 when they are told to go no further.
        if output.is_success() || !changes.is_empty() {
            return Ok(Some(changes));
        }
        Err(FunctionError::failed(failure_summary(
            &line[0],
            &self.selected.provider.readable_failure(output),
        )))
    }

    /// The same, and refused when it would touch what somebody holds and the act does not name.
    ///
    /// # Errors
    /// Fails as [`Self::dry_run`] does, and when it would touch more than it may.
    pub fn dry_run_checked(
        &self,
        action: &PkgAction<'_>,
        db: &PkgDb,
    ) -> Result<Option<Vec<PkgChange>>, FunctionError> {
        let changes = self.dry_run(action)?;
        let held = action.unnamed_held(changes.as_deref().unwrap_or_default(), db);
        if held.is_empty() {
            return Ok(changes);
        }
        Err(FunctionError::failed(format!(
            "these packages are held and would change too: {}",
            held.join(", ")
        )))
    }

    /// What mending would do.
    ///
    /// # Errors
    /// Fails when nobody can tell.
    pub fn dry_run_repair(&self, db: &PkgDb) -> Result<Vec<PkgChange>, FunctionError> {
        let lines = self.selected.provider.repair_commands();
        match lines.last() {
            Some(last) if !self.selected.provider.find_broken(self.tools.machine, db).is_empty() => {
                self.simulate_line(last)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn simulate_line(&self, line: &[String]) -> Result<Vec<PkgChange>, FunctionError> {
        let mut line = line.to_vec();
        line.splice(1..1, SIMULATE.map(str::to_owned));
        let output = self.run_line(&line, self.tools.machine.timeout.max(LOCK_TIMEOUT), false)?;
        Ok(self.selected.provider.parse_dry_run(&output.stdout))
    }

    /// Mends what somebody left half-way; says what it was.
    ///
    /// # Errors
    /// Fails when it cannot be mended, or only by removing packages.
    pub fn repair(&self, db: &PkgDb) -> Result<Option<String>, FunctionError> {
        let broken = self.selected.provider.find_broken(self.tools.machine, db);
        if broken.is_empty() {
            return Ok(None);
        }
        let lines = self.selected.provider.repair_commands();
        // The first may fail for what the last one brings.
        let (last, first) = lines.split_last().ok_or_else(|| self.unsupported())?;
        let tried: Result<(), FunctionError> =
            first.iter().try_for_each(|line| self.run_with_lock_wait(line, true));
        if let Some(words) = removal_refusal(&broken, &self.simulate_line(last)?) {
            return Err(FunctionError::failed(words));
        }
        let words =
            format!("packages left half-way by an interrupted run were repaired: {}", broken.join(", "));
        match (tried, self.run_with_lock_wait(last, true)) {
            (_, Ok(())) => Ok(Some(words)),
            (Err(e), Err(_)) | (Ok(()), Err(e)) => Err(e),
        }
    }

    pub(super) fn run_line(
        &self,
        line: &[String],
        most: Duration,
        finishes: bool,
    ) -> Result<CommandOutput, FunctionError> {
        let (program, args) = line.split_first().ok_or_else(|| self.unsupported())?;
        let mut command = Tools::command(program, args, most);
        command.uninterruptible = finishes;
        command.env.extend(NONINTERACTIVE_ENV.iter().map(|(k, v)| ((*k).into(), (*v).into())));
        self.tools.run(command)
    }
}

/// Why packages are not mended: others would go.
fn removal_refusal(broken: &[String], changes: &[PkgChange]) -> Option<String> {
    let gone: Vec<&str> = changes.iter().filter(|s| s.new.is_empty()).map(|s| s.name.as_str()).collect();
    let (broken, names) = (broken.join(", "), gone.join(", "));
    let words = format!("packages were left half-way ({broken}), and to repair them would remove {names}");
    (!gone.is_empty()).then_some(words)
}

/// Lines of a manager that say nothing about what went wrong.
const NOISE_PREFIXES: [&str; 5] = [
    "debconf: delaying package configuration",
    "debconf: unable to initialize frontend",
    "debconf: falling back to frontend",
    "debconf: (",
    "dpkg-preconfigure: unable to re-open stdin",
];

/// The lines that say what went wrong; how the program ended stands first when it did not choose to, or does not say why.
pub(crate) fn failure_summary(program: &str, output: &CommandOutput) -> String {
    const MARKS: [&str; 8] =
        ["E: ", "Err:", "dpkg: error", "dpkg-deb: error", "error:", "Error:", "ERROR:", "Problem"];
    // Those that tell what it is about in the lines below.
    const HEADS: [&str; 3] = ["dpkg: error", "Error:", "Problem"];
    // What tells it without a mark; the last four are pacman's, beside its errors.
    const TELLING: [&str; 6] = [
        "No space left",
        "Signature verification failed",
        "breaks dependency",
        "unable to satisfy dependency",
        "are in conflict",
        "exists in filesystem",
    ];
    let mut lines: Vec<&str> = Vec::new();
    for text in [&output.stderr, &output.stdout] {
        let (mut follows, mut is_open) = (false, false);
        for line in text.lines().map(str::trim_end) {
            let is_marked =
                MARKS.iter().any(|m| line.starts_with(m)) || TELLING.iter().any(|t| line.contains(t));
            follows &= line.starts_with(' ');
            is_open &= !line.is_empty();
            if (is_marked || follows || is_open) && !lines.contains(&line) {
                lines.push(line);
            }
            follows |= HEADS.iter().any(|head| line.starts_with(head));
            // zypper does not indent.
            is_open |= line.starts_with("Problem") && line.ends_with(':');
        }
    }
    if lines.len() > 1 {
        lines.retain(|l| !l.contains("Sub-process /usr/bin/dpkg returned an error code"));
    }
    let end = match output.code {
        129..=192 => Some(format!("`{program}` was ended by signal {}", output.code - 128)),
        code => lines.is_empty().then(|| format!("`{program}` ended with code {code}")),
    };
    if lines.is_empty() {
        let is_noise = |line: &&str| NOISE_PREFIXES.iter().any(|noise| line.starts_with(noise));
        let told = |text: &str| text.lines().any(|l| !l.trim().is_empty() && !is_noise(&l));
        let text = if told(&output.stderr) { &output.stderr } else { &output.stdout };
        let all: Vec<&str> = text.trim().lines().filter(|l| !is_noise(l)).collect();
        lines = all[all.len().saturating_sub(MAX_ERROR_LINES / 2)..].to_vec();
    }
    lines.truncate(MAX_ERROR_LINES);
    let lines = lines.join("\n");
    match end {
        Some(end) if lines.is_empty() => end,
        Some(end) => format!("{end}:\n{lines}"),
        None => lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_mended_by_a_removal() {
        let step = |name: &str, new: &str| PkgChange { name: name.into(), old: "1".into(), new: new.into() };
        let broken = ["x (unpacked)".to_owned()];
        assert_eq!(removal_refusal(&broken, &[step("x", "2")]), None);
        let words = removal_refusal(&broken, &[step("x", "2"), step("y", "")]).expect("a refusal");
        assert!(words.contains("x (unpacked)") && words.ends_with("would remove y"), "{words}");
    }

    #[test]
    fn a_failure_is_told_in_few_words() {
        let output =
            |err: &str, out: &str| CommandOutput { code: 100, stdout: out.into(), stderr: err.into() };
        let full = "dpkg: error processing archive /x/big.deb (--unpack):\n cannot copy extracted data for './usr/big': \
                    failed to write (No space left on device)\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n";
        let essence = |output: CommandOutput| failure_summary("apt-get", &output);
        let words = essence(output(full, "Reading package lists...\nUnpacking big\n"));
        assert!(
            words.starts_with("dpkg: error processing archive")
                && words.ends_with("(No space left on device)")
        );
        assert_eq!(
            essence(output("E: Unable to locate package x\n", "a\nb\n")),
            "E: Unable to locate package x"
        );
        let dnf = "Error: \n Problem: conflicting requests\n  - nothing provides x needed by y-1-1.noarch\n(try to add)\n";
        let words = "Error:\n Problem: conflicting requests\n  - nothing provides x needed by y-1-1.noarch";
        assert_eq!(essence(output(dnf, "Last metadata expiration check\n")), words);
        let zypper = "Problem occurred during removal of packages:\nFailed to cache rpm database (1).\n\nPlease see above.\n";
        let words = "Problem occurred during removal of packages:\nFailed to cache rpm database (1).";
        assert_eq!(essence(output(zypper, "")), words);
        let words = "error: failed to prepare transaction\n:: removing a breaks dependency 'a' required by b";
        let out = "checking dependencies...\n:: removing a breaks dependency 'a' required by b\n";
        assert_eq!(essence(output("error: failed to prepare transaction\n", out)), words);
        let tail = "`apt-get` ended with code 100:\n2\n3\n4\n5\n6\n7";
        assert_eq!(essence(output("", "1\n2\n3\n4\n5\n6\n7\n")), tail);
        assert_eq!(essence(output("", "")), "`apt-get` ended with code 100");
        let noise = "debconf: delaying package configuration, since apt-utils is not installed\n";
        let killed = |err: &str, out: &str| essence(CommandOutput { code: 137, ..output(err, out) });
        assert_eq!(killed(noise, ""), "`apt-get` was ended by signal 9");
        assert_eq!(killed(noise, "Unpacking x\n"), "`apt-get` was ended by signal 9:\nUnpacking x");
        assert_eq!(killed("E: x\n", ""), "`apt-get` was ended by signal 9:\nE: x");
    }
}

//! A dry run in, a plan file out; a plan file in, a run out that does exactly what the dry run said, or a refusal that names
//! what changed.
//!
//! A plan file holds no plan: a plan may hold secrets. It holds keyed digests of everything that the plan was made from. To
//! apply it, the states are compiled again and a second dry run is compared with the first.
//!
//! Law: a plan file is applied only when tree, facts, pillar and managed paths are as the dry run saw them, and a file that
//! was changed, cut off or made elsewhere is refused (held by `changes_between_save_and_apply_are_refused_or_harmless`,
//! `a_damaged_plan_file_is_refused`, `a_plan_file_holds_no_secret`).

#![expect(clippy::disallowed_methods, reason = "a plan file says when it was saved")]

mod managed_path;
mod record;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_compiler::Compat;
use zagent_config::atomic_file::AtomicFile;
use zagent_config::error_chain;
use zagent_config::settings::{RunSchedule, Settings};

use crate::compile_request::CompileRequest;
use crate::error::{AgentError, ExitStatus};
use crate::local_key::LocalKey;
pub(crate) use record::DryRun;
use record::PlanRecord;
use zagent_run::{RunOptions, StateStatus};

/// First word of a plan file.
const MAGIC: &str = "zagent-plan-file";
/// Version of the format.
const VERSION: &str = "1";
/// Maximum size of a plan file.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum number of causes in a refusal.
const MAX_CAUSES: usize = 12;

/// What a run does with a plan file.
#[derive(Clone, Debug)]
pub enum PlanFileUse {
    /// Saves the dry run.
    Save {
        /// The file.
        path: PathBuf,
        /// What is compiled.
        request: Box<PlanRequestFlags>,
    },
    /// Applies the saved plan.
    Apply(Box<SavedPlan>),
}

/// What a plan was compiled from, as the flags of the command line say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanRequestFlags {
    states: Option<PathBuf>,
    pillar: Option<PathBuf>,
    env: Vec<(String, PathBuf)>,
    pillar_env: Vec<(String, PathBuf)>,
    sls: Vec<String>,
    saltenv: Option<String>,
    id: Option<String>,
    grains: Option<PathBuf>,
    salt_config: Option<PathBuf>,
    is_salt: bool,
    no_commands: bool,
    /// Pillar data of the command line may be secret and is not saved.
    has_pillar_data: bool,
}

impl PlanRequestFlags {
    /// The flags of a request, with absolute paths.
    #[must_use]
    pub fn new(request: &CompileRequest) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let all = |dirs: &[(String, PathBuf)]| {
            dirs.iter().map(|(name, dir)| (name.clone(), absolute(dir))).collect::<Vec<_>>()
        };
        Self {
            states: request.states.as_ref().map(absolute),
            pillar: request.pillar.as_ref().map(absolute),
            env: all(&request.env),
            pillar_env: all(&request.pillar_env),
            sls: request.sls.clone(),
            saltenv: request.saltenv.clone(),
            id: request.id.clone(),
            grains: request.grains.as_ref().map(absolute),
            salt_config: request.salt_config.as_ref().map(absolute),
            is_salt: request.compat == Some(Compat::Salt),
            no_commands: request.no_commands,
            has_pillar_data: request.pillar_data.is_some(),
        }
    }
}

/// The content of a plan file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanBody {
    node: String,
    revision: String,
    saved: Timestamp,
    schedule: String,
    /// States that the dry run would change, for people who read the file.
    changes: Vec<String>,
    request: PlanRequestFlags,
    record: PlanRecord,
}

/// A plan file that was read.
#[derive(Clone, Debug)]
pub struct SavedPlan {
    path: PathBuf,
    body: PlanBody,
}

impl SavedPlan {
    /// Reads a plan file.
    ///
    /// # Errors
    /// Fails when it cannot be read, is damaged, or was saved by another agent.
    pub fn load(path: &Path, settings: &Settings) -> Result<Self, AgentError> {
        let shown = path.display();
        let size = std::fs::metadata(path).map(|meta| meta.len());
        let text = match size {
            Ok(size) if size > MAX_BYTES => Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge)),
            _ => std::fs::read(path),
        };
        let bytes = text.map_err(|error| {
            AgentError::usage_hint(format!("cannot read the plan file `{shown}`: {error}"), SAVE_HINT)
        })?;
        let key =
            LocalKey::read(&settings.paths()).map_err(|error| AgentError::failed(error_chain(&error)))?;
        let body = parse(&bytes, key.as_ref()).map_err(|why| AgentError::Refusal {
            exit: ExitStatus::Refused,
            message: format!("the plan file `{shown}` {why}"),
            hint: Some(SAVE_HINT.into()),
        })?;
        Ok(Self { path: path.to_owned(), body })
    }

    /// What it was compiled from; `given` has what a plan file does not hold.
    #[must_use]
    pub fn request(&self, given: CompileRequest) -> CompileRequest {
        let flags = self.body.request.clone();
        CompileRequest {
            states: flags.states,
            pillar: flags.pillar,
            env: flags.env,
            pillar_env: flags.pillar_env,
            sls: flags.sls,
            saltenv: flags.saltenv,
            id: flags.id,
            grains: flags.grains,
            salt_config: flags.salt_config,
            compat: flags.is_salt.then_some(Compat::Salt),
            no_commands: flags.no_commands,
            ..given
        }
    }

    /// True when the same `--pillar-data` must be given again.
    #[must_use]
    pub const fn needs_pillar_data(&self) -> bool {
        self.body.request.has_pillar_data
    }

    /// The options of its run; `given` has what may differ from the dry run.
    #[must_use]
    pub fn options(&self, given: RunOptions) -> RunOptions {
        RunOptions { schedule: RunSchedule::find(&self.body.schedule), ..given }
    }

    /// One line for people: when it was saved, and what it changes.
    #[must_use]
    pub fn summary(&self) -> String {
        let PlanBody { saved, changes, .. } = &self.body;
        let at = saved.strftime("%Y-%m-%d %H:%M:%S UTC");
        let count = match changes.len() {
            1 => "1 state".to_owned(),
            n => format!("{n} states"),
        };
        format!("applying the plan of {at}: {count} to change")
    }

    /// Refuses unless everything is as the saved dry run saw it; `now` is a second one.
    pub(crate) fn verify(&self, now: &DryRun<'_>) -> Result<(), AgentError> {
        if now.job.node != self.body.node {
            let words = format!("it was made for `{}`, and this node is `{}`", self.body.node, now.job.node);
            return Err(self.refusal(&[format!("node: {words}")]));
        }
        let causes = self.body.record.changes_to(&PlanRecord::new(now, &read_key(now)?));
        if causes.is_empty() { Ok(()) } else { Err(self.refusal(&causes)) }
    }

    fn refusal(&self, causes: &[String]) -> AgentError {
        let mut message =
            format!("the plan `{}` does not fit any more; nothing was changed", self.path.display());
        for cause in causes.iter().take(MAX_CAUSES) {
            message.push_str(&format!("\n  {}", zagent_config::sanitize(cause)));
        }
        if causes.len() > MAX_CAUSES {
            message.push_str(&format!("\n  and {} more", causes.len() - MAX_CAUSES));
        }
        AgentError::Refusal { exit: ExitStatus::Refused, message, hint: Some(SAVE_HINT.into()) }
    }
}

/// What to do about a plan that cannot be applied.
const SAVE_HINT: &str = "make a new one with `zagent run --once --test --save FILE`";

fn read_key(dry_run: &DryRun<'_>) -> Result<LocalKey, AgentError> {
    LocalKey::read_or_create(&dry_run.job.settings.paths())
        .map_err(|error| AgentError::permission(error_chain(&error)))
}

/// Saves a dry run.
///
/// # Errors
/// Fails when the file cannot be written.
pub(crate) fn save(dry_run: &DryRun<'_>, path: &Path, request: &PlanRequestFlags) -> Result<(), AgentError> {
    let (key, report) = (read_key(dry_run)?, dry_run.report);
    let would_change = report
        .states
        .iter()
        .filter(|state| matches!(state.status(), StateStatus::WouldChange | StateStatus::Unknown));
    let body = PlanBody {
        node: dry_run.job.node.clone(),
        revision: report.revision.clone(),
        saved: Timestamp::now(),
        schedule: report.schedule.name().into(),
        changes: would_change.map(|state| format!("{} ({}.{})", state.id, state.state, state.fun)).collect(),
        request: request.clone(),
        record: PlanRecord::new(dry_run, &key),
    };
    AtomicFile::durable(0o600).write(path, &to_bytes(&body, &key)).map_err(|error| {
        AgentError::usage(format!("cannot write the plan file `{}`: {error}", path.display()))
    })
}

fn to_bytes(body: &PlanBody, key: &LocalKey) -> Vec<u8> {
    // Keys are strings, so JSON can hold everything.
    let mut json = serde_json::to_string_pretty(body).unwrap_or_default();
    json.push('\n');
    format!("{MAGIC} {VERSION} {} {}\n{json}", key.id(), key.digest(json.as_bytes())).into_bytes()
}

/// The content of a plan file, or what is wrong with it.
fn parse(bytes: &[u8], key: Option<&LocalKey>) -> Result<PlanBody, String> {
    let no_file = || "is not a plan file".to_owned();
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(no_file)?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| no_file())?;
    let words: Vec<&str> = head.split(' ').collect();
    let [MAGIC, version, id, digest] = words.as_slice() else { return Err(no_file()) };
    if *version != VERSION {
        return Err(format!("has format version {version}, and this agent reads version {VERSION}"));
    }
    let Some(key) = key.filter(|key| key.id() == *id) else {
        return Err(
            "was saved by another agent: on another host, with another `root`, or by another user".into()
        );
    };
    let body = &bytes[end + 1..];
    if key.digest(body) != *digest {
        return Err("was modified or cut off after it was saved: its digest does not match".into());
    }
    serde_json::from_slice(body).map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_config::paths::Paths;

    fn sample() -> PlanBody {
        PlanBody {
            node: "web-01".into(),
            revision: "/srv/states".into(),
            saved: Timestamp::UNIX_EPOCH,
            schedule: "levels".into(),
            changes: vec!["motd (file.managed)".into()],
            request: PlanRequestFlags::default(),
            record: PlanRecord::default(),
        }
    }

    #[test]
    fn a_damaged_plan_file_is_refused() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [key, other] =
            dirs.each_ref().map(|dir| LocalKey::read_or_create(&Paths::new(dir.path())).unwrap());
        let bytes = to_bytes(&sample(), &key);
        assert_eq!(parse(&bytes, Some(&key)).unwrap().node, "web-01");
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut], Some(&key)).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(parse(&changed, Some(&key)).is_err(), "changed at {at}");
        }
        let why = |bytes: &[u8], key| parse(bytes, key).unwrap_err();
        assert!(why(&bytes, Some(&other)).contains("another agent"));
        assert!(why(&bytes, None).contains("another agent"));
        assert!(why(b"states: {}\n", Some(&key)).contains("not a plan file"));
        let newer = String::from_utf8(bytes).unwrap().replacen("file 1 ", "file 2 ", 1);
        assert!(why(newer.as_bytes(), Some(&key)).contains("version 2"));
    }
}

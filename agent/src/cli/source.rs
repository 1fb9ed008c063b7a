//! `zagent source sync|verify`: fetch and publish a revision without running it, or only verify it.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_cache::{Cache, GenerationRecord};

use super::common_args::CommonArgs;
use super::{settings, warn};
use crate::output::{OutputFormat, Ui, json};
use zagent_config::error_chain;
use zagent_daemon::compile_request::CompileRequest;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::{AgentMemory, HeldRevision, OperatorOrders, StatesSync, SyncOptions, SyncOutcome};

/// Fetch from the remotes, or verify what they offer; runs nothing
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    #[command(subcommand)]
    verb: SourceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SourceCommand {
    /// Fetch the newest revision, verify it and make it the current generation
    Sync(SourceSyncArgs),
    /// Fetch the newest revision and verify it; publishes nothing
    Verify(CommonArgs),
}

#[derive(Debug, clap::Args)]
struct SourceSyncArgs {
    /// Accept a rewritten or older history this time
    #[arg(long)]
    allow_rewind: bool,

    #[command(flatten)]
    common: CommonArgs,
}

impl SourceArgs {
    const fn common(&self) -> &CommonArgs {
        match &self.verb {
            SourceCommand::Sync(args) => &args.common,
            SourceCommand::Verify(common) => common,
        }
    }

    pub(super) const fn format(&self) -> OutputFormat {
        self.common().out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let common = self.common();
        let settings = settings::load(common.config.as_deref())?;
        if settings.source.remotes.is_empty() {
            let hint = "set `source.remotes: [{url: …, branch: main}]` in /etc/zagent/zagent.yaml";
            return Err(AgentError::usage_hint("no remote is configured", hint));
        }
        let preview = matches!(self.verb, SourceCommand::Verify(_));
        let allow_rewind = matches!(&self.verb, SourceCommand::Sync(args) if args.allow_rewind);
        let (paths, now) = (settings.paths(), Timestamp::now());
        let cache = Cache::open(&paths, &settings.source).map_err(|error| AgentError::from_cache(&error))?;
        let orders = OperatorOrders::read(&paths, now);
        if let Some(damaged) = &orders.damaged {
            return Err(AgentError::failed(format!("{damaged}: fix or remove it first")));
        }
        let mut memory = AgentMemory::load(&paths.memory());
        let request = CompileRequest { config: common.config.clone(), ..CompileRequest::default() };
        let mut compiles = |top: &Path, revision: &str| {
            request.job_for_dir(top, revision, settings.clone())?.compile_quietly().map(drop)
        };
        let mut sync = StatesSync {
            settings: &settings,
            cache: &cache,
            memory: &mut memory,
            orders: &orders,
            seed: zagent_daemon::machine_seed(settings.id.as_str()),
            notes: Vec::new(),
            handover: None,
            check_compiles: &mut compiles,
        };
        let options =
            SyncOptions { allow_rewind, retry_refused: true, preview, hold: None, reverify: preview };
        ui.set_waiting(Some("fetching and verifying the newest revision"));
        let synced = sync.sync_head(options, now);
        ui.set_waiting(None);
        sync.notes.iter().for_each(|note| warn(note, ui));
        let synced = synced.map_err(|error| AgentError::from_cache(&error))?;
        if !preview && let Err(error) = memory.save(&paths.memory()) {
            warn(&format!("cannot save state: {}", error_chain(&error)), ui);
        }
        let published = matches!(synced, SyncOutcome::Published(_));
        let exit = self.print_synced(synced, &cache, ui);
        if published {
            super::status::notify_daemon(&paths, ui);
        }
        exit
    }

    fn print_synced(
        &self,
        synced: SyncOutcome,
        cache: &Cache,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        match synced {
            SyncOutcome::Published(generation) => {
                let lead = format!("generation {} is current", generation.name());
                self.print_record(&lead, "published", generation.record(), ui);
                ui.message(
                    "states not applied yet: a running daemon applies them now; without one: \
                            `zagent run --once --no-fetch`",
                );
            }
            SyncOutcome::Preview(verified) => {
                self.print_record("verified: the node would accept it", "verified", verified.record(), ui);
            }
            SyncOutcome::Current | SyncOutcome::NoRemote => {
                let current = cache.current().map_err(|error| AgentError::from_cache(&error))?;
                match current {
                    Some(generation) => {
                        self.print_record(
                            "nothing new: the node already has this revision",
                            "current",
                            generation.record(),
                            ui,
                        );
                    }
                    None => ui.message("nothing new"),
                }
            }
            SyncOutcome::Held(held) => return Err(held_error(&held, cache)),
            SyncOutcome::Offline(errors) => {
                let words: Vec<String> = errors.iter().map(|error| error_chain(error)).collect();
                let message = words.join("; ");
                let hint = Some(with_current("check each remote with `zagent doctor`", cache));
                return Err(AgentError::Refusal { exit: ExitStatus::Unreachable, message, hint });
            }
        }
        Ok(ExitStatus::Success)
    }

    fn print_record(&self, lead: &str, state: &str, record: &GenerationRecord, ui: &mut Ui<'_>) {
        let signers: Vec<&str> = record.signers.iter().map(|signer| signer.principal.as_str()).collect();
        if self.format() == OutputFormat::Json {
            return ui.print(&json(&object!({
                "success": true, "state": state, "revision": record.revision, "branch": record.line,
                "remote": record.source, "serial": record.serial, "expires": record.expires,
                "committed": record.committed, "signed_by": signers, "files": record.files.len(),
            })));
        }
        let by = if signers.is_empty() { "none".to_owned() } else { signers.join(", ") };
        let serial = record.serial.map_or(String::new(), |serial| format!(", serial {serial}"));
        ui.print(&format!(
            "{lead}\nrevision  {} of {} at {}{serial}\nsigned by {by}\nfiles     {}\n",
            record.revision,
            record.line,
            record.source,
            record.files.len()
        ));
    }
}

fn held_error(held: &HeldRevision, cache: &Cache) -> AgentError {
    let message = format!("revision {} is held back: {}", held.revision.short(), held.message);
    let exit = held.exit();
    AgentError::Refusal { exit, message, hint: Some(with_current("see also `zagent status`", cache)) }
}

/// A hint, plus the generation that stays current.
fn with_current(words: &str, cache: &Cache) -> String {
    match cache.current() {
        Ok(Some(generation)) => format!("{words}; generation {} stays current", generation.name()),
        _ => words.to_owned(),
    }
}

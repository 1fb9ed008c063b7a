//! `zagent cache list|verify|rollback|gc`: manage the generations on this node.

use std::fmt::Write;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_cache::{Cache, CacheError, CheckDepth, Generation};
use zagent_config::ids::Revision;
use zagent_config::settings::Settings;

use super::settings;
use crate::output::{OutputFormat, Ui, json};
use zagent_config::error_chain;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::quarantine::{Quarantine, QuarantinedRevision};
use zagent_daemon::operator::{current_user, span_text};

/// List and verify the generations on this node, or roll back to an earlier one
#[derive(Debug, clap::Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    verb: CacheCommand,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", global = true)]
    out: OutputFormat,
}

#[derive(Debug, clap::Subcommand)]
enum CacheCommand {
    /// List the generations and mark the current one
    List,
    /// Hash every file of the current generation and report modified files
    Verify {
        /// Verify all generations in the cache
        #[arg(long)]
        all: bool,
    },
    /// Make an earlier generation current and quarantine the revision it replaces
    Rollback {
        /// Generation name or start of a revision; default: the previous generation
        #[arg(value_name = "GENERATION")]
        to: Option<String>,
    },
    /// Remove old generations and leftovers of interrupted work
    Gc,
}

impl CacheArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(self.config.as_deref())?;
        let cache =
            Cache::open(&settings.paths(), &settings.source).map_err(|e| AgentError::from_cache(&e))?;
        match &self.verb {
            CacheCommand::List => self.list(&cache, ui).map_err(|e| AgentError::from_cache(&e)),
            CacheCommand::Verify { all } => {
                self.verify(&cache, *all, ui).map_err(|e| AgentError::from_cache(&e))
            }
            CacheCommand::Rollback { to } => self.rollback(&cache, &settings, to.as_deref(), ui),
            CacheCommand::Gc => self.gc(&cache, ui).map_err(|e| AgentError::from_cache(&e)),
        }
    }

    fn list(&self, cache: &Cache, ui: &mut Ui<'_>) -> Result<ExitStatus, CacheError> {
        let (all, current) = (cache.list()?, cache.current()?);
        let is_current = |one: &Generation| current.as_ref().is_some_and(|c| c.name() == one.name());
        if self.out == OutputFormat::Json {
            let list: Vec<_> = all.iter().map(|one| self.generation_json(one, is_current(one))).collect();
            ui.print(&json(&list));
            return Ok(ExitStatus::Success);
        }
        if all.is_empty() {
            ui.message("no generation yet: run `zagent source sync` to fetch one");
            return Ok(ExitStatus::Success);
        }
        let (mut text, now) = (String::new(), Timestamp::now());
        for one in &all {
            let (record, mark) = (one.record(), if is_current(one) { "*" } else { " " });
            let by: Vec<&str> = record.signers.iter().map(|signer| signer.principal.as_str()).collect();
            let by = if by.is_empty() { String::new() } else { format!(", signed by {}", by.join(", ")) };
            let ago = span_text(record.published, now);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{mark} {}  {} of {}, {ago} ago, {} files{by}",
                one.name(),
                record.short_revision(),
                record.line,
                record.files.len()
            );
        }
        ui.print(&text);
        Ok(ExitStatus::Success)
    }

    fn generation_json(&self, one: &Generation, current: bool) -> serde_json::Value {
        let record = one.record();
        object!({
            "generation": one.name(), "current": current, "revision": record.revision, "branch": record.line,
            "remote": record.source, "serial": record.serial, "expires": record.expires,
            "committed": record.committed, "published": record.published, "files": record.files.len(),
            "signed_by": record.signers.iter().map(|s| s.principal.as_str()).collect::<Vec<_>>(),
        })
    }

    fn verify(&self, cache: &Cache, all: bool, ui: &mut Ui<'_>) -> Result<ExitStatus, CacheError> {
        let checked = if all { cache.list()? } else { cache.current()?.into_iter().collect() };
        let mut results = Vec::new();
        for one in &checked {
            results.push((one.name().to_owned(), one.check(CheckDepth::Full).err().map(|e| error_chain(&e))));
        }
        let exit = if results.iter().all(|(_, error)| error.is_none()) {
            ExitStatus::Success
        } else {
            ExitStatus::Refused
        };
        if self.out == OutputFormat::Json {
            let list: Vec<_> =
                results.iter().map(|(name, error)| object!({"generation": name, "error": error})).collect();
            ui.print(&json(&object!({"success": exit == ExitStatus::Success, "generations": list})));
            return Ok(exit);
        }
        if results.is_empty() {
            ui.message("no generation yet: run `zagent source sync` to fetch one");
        }
        for (name, error) in results {
            let words = error.unwrap_or_else(|| "all files match what was published".into());
            ui.print(&format!("{name}  {words}\n"));
        }
        Ok(exit)
    }

    fn rollback(
        &self,
        cache: &Cache,
        settings: &Settings,
        to: Option<&str>,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let left = cache.current().ok().flatten();
        let left = left
            .and_then(|one| zagent_daemon::plain_revision(&one.record().revision).parse::<Revision>().ok());
        let back = cache.rollback(to).map_err(|error| AgentError::from_cache(&error))?;
        let left = left
            .filter(|revision| revision.as_str() != zagent_daemon::plain_revision(&back.record().revision));
        if let Some(revision) = &left {
            let one = QuarantinedRevision {
                revision: revision.clone(),
                since: Timestamp::now(),
                reason: format!("rolled back by {}", current_user()),
                run: String::new(),
            };
            Quarantine::add(&settings.paths(), one)
                .map_err(|error| AgentError::failed(error_chain(&error)))?;
        }
        super::status::notify_daemon(&settings.paths(), ui);
        if self.out == OutputFormat::Json {
            ui.print(&json(&self.generation_json(&back, true)));
            return Ok(ExitStatus::Success);
        }
        ui.print(&format!("generation {} is current\n", back.name()));
        if let Some(revision) = left {
            let short = revision.short();
            ui.message(&format!(
                "revision {short} is quarantined until a newer revision arrives; to clear it now: \
                 `zagent quarantine clear {short}`"
            ));
        }
        ui.message(
            "states not applied yet: a running daemon applies them now; without one: `zagent run \
                    --once --no-fetch`",
        );
        Ok(ExitStatus::Success)
    }

    fn gc(&self, cache: &Cache, ui: &mut Ui<'_>) -> Result<ExitStatus, CacheError> {
        let healed = cache.repair()?;
        let pruned = cache.gc()?;
        if self.out == OutputFormat::Json {
            ui.print(&json(&object!({
                "pruned": pruned, "staged": healed.staged, "broken": healed.broken, "current": healed.current,
            })));
            return Ok(ExitStatus::Success);
        }
        ui.print(&format!(
            "removed {} generations, {} leftovers, {} incomplete generations\n",
            pruned.len(),
            healed.staged,
            healed.broken.len()
        ));
        Ok(ExitStatus::Success)
    }
}

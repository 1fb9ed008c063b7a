//! `zagent source sync|verify`: take what the remotes offer without running it, or only see whether it would be taken.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_cache::{Cache, Record};

use super::common::Common;
use super::tree::TreeArgs;
use super::{settings, warn};
use crate::cycle::{self, Held, Memory, Orders, Sync, Synced, Why, Wish};
use crate::output::{Format, Ui, json};
use crate::report::{Exit, Trouble, chain};

/// Take what the remotes offer, or see whether it would be taken; nothing is run
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Fetch the newest revision, verify it and make it the current generation
    Sync(SyncArgs),
    /// Fetch the newest revision and verify it; nothing is published
    Verify(Common),
}

#[derive(Debug, clap::Args)]
struct SyncArgs {
    /// Take it even when history was rewritten or goes back, this once
    #[arg(long)]
    allow_rewind: bool,

    #[command(flatten)]
    common: Common,
}

impl Args {
    const fn common(&self) -> &Common {
        match &self.verb {
            Verb::Sync(args) => &args.common,
            Verb::Verify(common) => common,
        }
    }

    pub(super) const fn format(&self) -> Format {
        self.common().out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let common = self.common();
        let settings = settings::load(common.config.as_deref())?;
        if settings.source.remotes.is_empty() {
            let hint = "set `source.remotes: [{url: …, branch: main}]` in /etc/zagent/zagent.yaml";
            return Err(Trouble::usage_hint("there is no remote to ask", hint));
        }
        let preview = matches!(self.verb, Verb::Verify(_));
        let allow_rewind = matches!(&self.verb, Verb::Sync(args) if args.allow_rewind);
        let (paths, now) = (settings.paths(), Timestamp::now());
        let cache = Cache::open(&paths, &settings.source).map_err(|error| Trouble::of_cache(&error))?;
        let orders = Orders::read(&paths, now);
        if let Some(damaged) = &orders.damaged {
            return Err(Trouble::failed(format!("{damaged}: mend or remove it first")));
        }
        let mut memory = Memory::load(&paths.memory());
        let tree = TreeArgs { config: common.config.clone(), ..TreeArgs::default() };
        let mut compiles = |top: &Path| {
            let job = tree.job_on(top, "", settings.clone())?;
            Ok(job.compiler.compile(&job.want).map(drop)?)
        };
        let mut sync = Sync {
            settings: &settings,
            cache: &cache,
            memory: &mut memory,
            orders: &orders,
            seed: cycle::machine_seed(settings.id.as_str()),
            notes: Vec::new(),
            compiles: &mut compiles,
        };
        let wish = Wish { allow_rewind, insists: true, preview, hold: None, again: preview };
        let synced = sync.go(wish, now);
        sync.notes.iter().for_each(|note| warn(note, ui));
        let synced = synced.map_err(|error| Trouble::of_cache(&error))?;
        if !preview && let Err(error) = memory.save(&paths.memory()) {
            warn(&format!("what was seen is not kept: {}", chain(&error)), ui);
        }
        let published = matches!(synced, Synced::Published(_));
        let exit = self.tell(synced, &cache, ui);
        if published {
            super::status::look_again(&paths, ui);
        }
        exit
    }

    fn tell(&self, synced: Synced, cache: &Cache, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match synced {
            Synced::Published(generation) => {
                let lead = format!("generation {} is current", generation.name());
                self.say(&lead, "published", generation.record(), ui);
                ui.say("nothing was run: a daemon does that now, else `zagent run --once --no-fetch`");
            }
            Synced::Ahead(verified) => self.say("good: it would be taken", "verified", verified.record(), ui),
            Synced::Current | Synced::NoRemote => {
                let current = cache.current().map_err(|error| Trouble::of_cache(&error))?;
                match current {
                    Some(generation) => {
                        self.say("nothing new: the node is on it", "current", generation.record(), ui);
                    }
                    None => ui.say("nothing new"),
                }
            }
            Synced::Held(held) => return Err(refused(&held, cache)),
            Synced::Offline(errors) => {
                let words: Vec<String> = errors.iter().map(|error| chain(error)).collect();
                let message = words.join("; ");
                let hint = Some(with_stay("`zagent doctor` looks at each remote", cache));
                return Err(Trouble::Refusal { exit: Exit::Unreachable, message, hint });
            }
        }
        Ok(Exit::Fine)
    }

    fn say(&self, lead: &str, state: &str, record: &Record, ui: &mut Ui<'_>) {
        let signers: Vec<&str> = record.signers.iter().map(|signer| signer.principal.as_str()).collect();
        if self.format() == Format::Json {
            return ui.data(&json(&object!({
                "success": true, "state": state, "revision": record.revision, "branch": record.line,
                "remote": record.source, "serial": record.serial, "expires": record.expires,
                "committed": record.committed, "signed_by": signers, "files": record.files.len(),
            })));
        }
        let by = if signers.is_empty() { "nobody".to_owned() } else { signers.join(", ") };
        let serial = record.serial.map_or(String::new(), |serial| format!(", serial {serial}"));
        ui.data(&format!(
            "{lead}\nrevision  {} of {} at {}{serial}\nsigned by {by}\nfiles     {}\n",
            record.revision,
            record.line,
            record.source,
            record.files.len()
        ));
    }
}

fn refused(held: &Held, cache: &Cache) -> Trouble {
    let message = format!("revision {} is not taken: {}", held.revision.short(), held.message);
    let exit = match held.why {
        Why::Broken => Exit::NotCompiled,
        Why::Unfetched => Exit::Unreachable,
        _ => Exit::Refused,
    };
    Trouble::Refusal { exit, message, hint: Some(with_stay("`zagent status` shows it too", cache)) }
}

/// A way out, and what the node stays on meanwhile.
fn with_stay(words: &str, cache: &Cache) -> String {
    match cache.current() {
        Ok(Some(generation)) => format!("{words}; generation {} stays current", generation.name()),
        _ => words.to_owned(),
    }
}

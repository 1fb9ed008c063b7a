//! One turn of the agent: sync, ground, run, and look whether the host is well afterwards (`after.rs`).
//!
//! Law: the turn reads like the picture of the agent.

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use zagent_cache::{Cache, CacheError, Depth, Generation};
use zagent_config::settings::Settings;

use super::course::{Course, Work};
use super::ground::{self, Ground, Hold};
use super::memory::{Held, Memory, Why};
use super::orders::Orders;
use super::sync::{self, Sync, Synced, Wish};
use crate::host::Cancel;
use crate::output::{Mask, local_zone};
use crate::report::{Exit, Trouble, chain};
use crate::run::{Report, Trigger};

/// What a turn asks of whoever started it.
pub trait Stage {
    /// Whether the states below a directory compile for this node.
    ///
    /// # Errors
    /// Why they do not.
    fn compiles(&mut self, top: &Path) -> Result<(), Trouble>;

    /// Brings the host to what the states say, and tells how it went.
    ///
    /// # Errors
    /// Why there was no run.
    fn run(&mut self, ground: &Ground, trigger: Trigger) -> Result<Ran, Trouble>;

    /// Tells what stops nothing.
    fn warn(&mut self, words: &str);
}

/// A run, and what hides its secrets.
#[derive(Debug)]
pub struct Ran {
    /// What it did.
    pub report: Report,
    /// What hides secrets.
    pub mask: Mask,
}

/// A turn.
pub struct Turn<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// How the sync is meant; no sync when there is none.
    pub sync: Option<Wish>,
    /// True when nothing may be changed.
    pub test: bool,
    /// What started it.
    pub trigger: Trigger,
    /// True when only a few SLS are run.
    pub partial: bool,
    /// What tells this node from others.
    pub seed: u64,
    /// Says when to stop.
    pub cancel: &'a Arc<Cancel>,
}

/// How a turn ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The last run, when there was one.
    pub report: Option<Report>,
    /// A revision that is not taken.
    pub held: Option<Held>,
    /// True when a new revision was taken back.
    pub rolled_back: bool,
}

impl Ended {
    /// How the program ends; a run that there was decides by itself when nothing else is worse.
    #[must_use]
    pub fn exit(&self, of_run: Exit) -> Exit {
        match self.held.as_ref().map(|held| held.why) {
            Some(Why::Refused) => Exit::Refused,
            Some(Why::Broken) => Exit::NotCompiled,
            _ if self.rolled_back => Exit::Failed,
            _ => of_run,
        }
    }
}

impl Turn<'_> {
    /// Takes the turn.
    ///
    /// # Errors
    /// Why there was no run.
    pub fn take(self, stage: &mut dyn Stage) -> Result<Ended, Trouble> {
        let ended = self.go(stage);
        // A daemon tells the board by itself.
        if !self.test && !self.partial && self.sync.is_some() && self.is_alone() {
            self.tell_board(stage);
        }
        ended
    }

    /// True when no daemon looks after this node.
    pub(super) fn is_alone(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.settings.paths().socket()).is_err()
    }

    fn go(&self, stage: &mut dyn Stage) -> Result<Ended, Trouble> {
        let now = Timestamp::now();
        let paths = self.settings.paths();
        if !self.test {
            Course::mend(&paths);
        }
        let orders = Orders::read(&paths, now);
        let mut memory = Memory::load(&paths.memory());
        let cache = Cache::open(&paths, &self.settings.source).map_err(|error| Trouble::of_cache(&error))?;
        if !self.test && (cache.is_disturbed() || cache.current().is_err()) {
            heal(&cache, stage);
        }
        let obstacle = self.obstacle(&orders, now, stage);
        if !self.test && !self.partial {
            if self.sync.is_some() && self.trigger != Trigger::Rollout {
                self.hear(stage);
            }
            let (closed, paused) =
                (obstacle.is_some(), obstacle.as_ref().is_some_and(|(why, _)| *why == Why::Paused));
            let mut work = Work { cache: &cache, memory: &mut memory, stage, closed, paused };
            let ended = self.follow_rollout(&mut work);
            keep(&memory, &paths, stage);
            if let Some(ended) = ended? {
                return Ok(ended);
            }
            if self.trigger == Trigger::Rollout {
                return Ok(Ended::default());
            }
        }
        // What a rollout led to counts from here on.
        let orders = Orders::read(&paths, now);
        let synced = self.synced(&cache, &orders, &mut memory, obstacle.as_ref().map(|(why, _)| *why), stage);
        if !self.test {
            keep(&memory, &paths, stage);
        }
        let synced = synced?;
        if let Some((why, words)) = obstacle {
            return self.stands_still(why, words, memory);
        }
        let held = self.tell_sync(&synced, stage);
        // Whoever was only called because of a new revision has nothing to do without it.
        let has_new = matches!(synced, Synced::Published(_) | Synced::Ahead(_));
        if self.trigger == Trigger::Git && !has_new && cache.current().is_ok_and(|current| current.is_some())
        {
            return Ok(Ended { held, ..Ended::default() });
        }
        let ground = self.ground(&cache, synced, &mut memory, stage)?;
        let ended = self.converge(&cache, ground, &mut memory, stage)?;
        let rolled_back = ended.rolled_back;
        Ok(Ended { held: held.filter(|_| !rolled_back), ..ended })
    }

    /// What keeps this turn from changing the host. Windows bind what nobody asked for by hand.
    fn obstacle(&self, orders: &Orders, now: Timestamp, stage: &mut dyn Stage) -> Option<(Why, String)> {
        let (why, words) = orders.obstacle(&self.settings.windows, now, &local_zone())?;
        if self.test {
            return None;
        }
        if why == Why::Window && self.trigger == Trigger::Manual {
            stage.warn(&words);
            return None;
        }
        Some((why, words))
    }

    fn stands_still(&self, why: Why, words: String, memory: Memory) -> Result<Ended, Trouble> {
        if self.trigger == Trigger::Manual && why == Why::Paused {
            return Err(Trouble::Refusal { exit: Exit::Locked, message: words, hint: None });
        }
        tracing::info!("{words}");
        Ok(Ended { held: memory.held.filter(|held| held.why == why), ..Ended::default() })
    }

    fn synced(
        &self,
        cache: &Cache,
        orders: &Orders,
        memory: &mut Memory,
        hold: Option<Why>,
        stage: &mut dyn Stage,
    ) -> Result<Synced, Trouble> {
        let Some(wish) = self.sync else { return Ok(Synced::NoRemote) };
        let wish = Wish { hold, preview: self.test, ..wish };
        let mut compiles = |top: &Path| stage.compiles(top);
        let mut sync = Sync {
            settings: self.settings,
            cache,
            memory,
            orders,
            seed: self.seed,
            notes: Vec::new(),
            compiles: &mut compiles,
        };
        let synced = sync.go(wish, Timestamp::now());
        let notes = std::mem::take(&mut sync.notes);
        notes.iter().for_each(|note| stage.warn(note));
        synced.map_err(|error| Trouble::of_cache(&error))
    }

    /// Tells what the sync found; gives back what is not taken.
    fn tell_sync(&self, synced: &Synced, stage: &mut dyn Stage) -> Option<Held> {
        match synced {
            Synced::Held(held) => {
                stage.warn(&format!("revision {} is not taken: {}", held.revision.short(), held.message));
                Some(held.clone())
            }
            Synced::Offline(errors) => {
                errors.iter().for_each(|error| stage.warn(&chain(error)));
                None
            }
            Synced::NoRemote | Synced::Current | Synced::Published(_) | Synced::Ahead(_) => None,
        }
    }

    /// Where to read: what was just verified, or what there is, whole and as it was published.
    fn ground(
        &self,
        cache: &Cache,
        synced: Synced,
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> Result<Ground, Trouble> {
        let unreachable = matches!(synced, Synced::Offline(_));
        let refused = match &synced {
            Synced::Held(held) => Some(held.clone()),
            _ => None,
        };
        let found = match synced {
            Synced::Ahead(verified) => return Ok(Ground::ahead(*verified)),
            Synced::Published(generation) => {
                Some(Ground::of(*generation).map_err(|error| Trouble::of_cache(&error))?)
            }
            _ => Ground::find(self.settings, cache, std::thread::sleep)
                .map_err(|error| Trouble::of_cache(&error))?,
        };
        let Some(found) = found else {
            return Err(nothing(self.settings.source.remotes.is_empty(), unreachable, refused));
        };
        if found.is_baked() && !self.settings.source.remotes.is_empty() {
            stage.warn(ground::FALLS_BACK);
        }
        match found.held {
            Hold::Generation(generation, pin) => {
                let whole = self.whole(cache, &generation, memory, stage)?;
                let ground = Ground::of(whole.unwrap_or(*generation));
                drop(pin);
                ground.map_err(|error| Trouble::of_cache(&error))
            }
            held => Ok(Ground { held, ..found }),
        }
    }

    /// Nothing when a generation is as it was published; else one in its place that is.
    fn whole(
        &self,
        cache: &Cache,
        generation: &Generation,
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> Result<Option<Generation>, Trouble> {
        let now = Timestamp::now();
        let every =
            SignedDuration::try_from(self.settings.source.verify_every).unwrap_or(SignedDuration::MAX);
        let due = memory.verified.is_none_or(|last| now.duration_since(last) >= every || last > now);
        let depth = if due { Depth::Full } else { Depth::Quick };
        let tampered = match generation.check(depth) {
            Ok(()) => {
                if due && !self.test {
                    memory.verified = Some(now);
                }
                return Ok(None);
            }
            Err(tampered) => tampered,
        };
        stage.warn(&format!("the cache was changed behind our back: {}; staging it anew", chain(&tampered)));
        let renewed = sync::restage(self.settings, cache, generation, (self.seed, now));
        renewed.map(Some).map_err(|words| Trouble::Refusal {
            exit: Exit::Refused,
            message: format!("the cache was changed behind our back ({}) and {words}", chain(&tampered)),
            hint: Some("mend the way to a remote, then `zagent source sync`".into()),
        })
    }
}

/// Puts right what an interrupted turn left behind.
fn heal(cache: &Cache, stage: &mut dyn Stage) {
    match cache.heal() {
        // Somebody else is at work on it, and does the same first.
        Ok(_) | Err(CacheError::Busy { .. }) => {}
        Err(error) => stage.warn(&chain(&error)),
    }
}

pub(super) fn keep(memory: &Memory, paths: &zagent_config::paths::Paths, stage: &mut dyn Stage) {
    if let Err(error) = memory.save(&paths.memory()) {
        stage.warn(&format!("what was seen is not kept: {}", chain(&error)));
    }
}

fn nothing(follows_nobody: bool, unreachable: bool, held: Option<Held>) -> Trouble {
    let (exit, hint) = match held {
        Some(held) if held.why == Why::Broken => (Exit::NotCompiled, held.message),
        Some(held) => (Exit::Refused, held.message),
        None if unreachable => (Exit::Unreachable, "no remote answers: `zagent doctor` tells more".into()),
        None if !follows_nobody => {
            (Exit::Usage, "nothing was fetched yet: `zagent source sync` does it now".into())
        }
        None => (Exit::Usage, "set `source.remotes`, or name a directory with `--states DIR`".into()),
    };
    Trouble::Refusal { exit, message: ground::NOTHING.into(), hint: Some(hint) }
}

//! The actions of nodes: they poll records, follow them, save their state, act and check, like the watchdog's loop.

use std::rc::Rc;

use zagent_config::ids::RolloutId;
use zagent_rollout::node;
use zagent_rollout::phase::{NodeAction, NodeEvent, NodePhase, SOAK_CHECK_INTERVAL};
use zagent_rollout::record::{BatchPhase, Component, RolloutMode, RolloutRecord, RolloutStatus};

use super::board::Found;
use super::host::{FORGED, Harm, clock, place};
use super::queue::{Job, What};
use super::scenario::{MINUTE, Release, SECOND, Wrong};
use super::world::World;
use crate::order_keys;

/// How often a node polls while it is in no rollout; it also reports at least this often.
pub(super) const IDLE: i64 = 60 * SECOND;
/// How often a node checks its running version.
pub(super) const LOOK: i64 = SOAK_CHECK_INTERVAL.as_millis() as i64;
/// After this many polls in a row without its record, a node treats its rollout as deleted.
const GONE: u32 = 2;

impl World<'_> {
    pub(super) fn poll(&mut self, n: usize, life: u32) {
        let host = &self.hosts[n];
        if !host.is_up || host.life != life {
            return;
        }
        let loss = self.loss(host.cut);
        let is_busy = host.node.phase != NodePhase::Idle
            || host
                .records
                .iter()
                .any(|record| !record.state.is_final() && record.mode == RolloutMode::Driver);
        let is_waiting = host.records.iter().any(|record| record.mode == RolloutMode::Clock);
        let every = if is_busy { self.scenario.poll } else { IDLE };
        let (due, delay) = (host.unsaid || self.now - host.said > IDLE - SECOND, self.scenario.delay);
        let again = self.now + every + self.dice.borrow_mut().between(0, 2 * SECOND);
        self.queue.at(again, What::Poll(n, life));
        let is_lost = self.dice.borrow_mut().per_mille(loss);
        if !is_lost {
            let stale = if self.is_calm() { 0 } else { self.scenario.stale };
            let is_stale = self.dice.borrow_mut().per_mille(stale);
            let found = Rc::clone(self.board.borrow().finds(is_stale));
            let comes = self.within(delay);
            self.queue.at(comes, What::Told(n, life, found));
        }
        if due {
            self.say(n);
        }
        // Its time may have come, and unsaved state may be saved now.
        if is_waiting || !self.hosts[n].again.is_empty() {
            self.heed(n);
        }
    }

    /// A node reports; the report, or the answer, may get lost.
    fn say(&mut self, n: usize) {
        let comes = self.within(self.scenario.delay);
        let host = &mut self.hosts[n];
        host.sent += 1;
        host.said = self.now;
        let (sent, report) = (host.sent, Box::new(host.report(self.now)));
        let loss = self.loss(self.hosts[n].cut);
        let lost = self.dice.borrow_mut().per_mille(loss);
        if !lost {
            self.queue.at(comes, What::Heard(n, sent, report));
        }
        self.hosts[n].unsaid = lost || self.dice.borrow_mut().per_mille(loss);
    }

    /// A node takes over the present records. A record that cannot be read now keeps its last known content.
    pub(super) fn take_over(&mut self, n: usize, life: u32, found: &Rc<Found>) {
        let now = self.now;
        let host = &mut self.hosts[n];
        if !host.is_up || host.life != life {
            return;
        }
        let is_lax = |record: &RolloutRecord| match self.scenario.wrong {
            Wrong::AnyFleet => place(&record.id) == FORGED,
            Wrong::AnySignature => place(&record.id) >= FORGED + 2,
            _ => false,
        };
        let obeys = |record: &&Rc<RolloutRecord>| {
            is_lax(record) || order_keys::is_obeyed(record, clock(now, host.off))
        };
        let accepted = found.records.iter().filter(obeys).cloned().collect();
        let known = std::mem::replace(&mut host.records, accepted);
        host.records.extend(known.into_iter().filter(|record| found.unread.contains(&record.id)));
        if now >= host.full {
            for record in &host.records {
                node::accept_record(record, &mut host.node);
                let is_ending = matches!(record.state, RolloutStatus::Aborting | RolloutStatus::Aborted);
                if is_ending && !host.past.ended.contains(&place(&record.id)) {
                    host.past.ended.push(place(&record.id));
                }
            }
            host.disk = None;
        }
        let there =
            |id: &RolloutId| found.unread.contains(id) || host.records.iter().any(|record| record.id == *id);
        let is_missing = host.node.current_rollout().is_some_and(|id| !there(id));
        host.missing = if is_missing { host.missing + 1 } else { 0 };
        if host.missing >= GONE
            && let Some(event) = node::orphaned_action(&host.node)
        {
            host.missing = 0;
            self.happen(n, event);
        }
        self.heed(n);
    }

    /// A node finishes pending work, then does what its records require.
    fn heed(&mut self, n: usize) {
        let life = self.hosts[n].life;
        for answer in std::mem::take(&mut self.hosts[n].again) {
            self.happen(n, answer);
            // It lost power in the meantime.
            if self.hosts[n].life != life {
                return;
            }
        }
        let Some((record, event)) = self.asked(n) else { return };
        let host = &self.hosts[n];
        if matches!(event, NodeEvent::Apply(_)) && self.now < host.held {
            return;
        }
        let (place, begun) = (place(&record.id), host.past.begun.len());
        if place >= FORGED {
            let words = format!("{}: it obeys {}, which it must not", host.id, record.id);
            self.broken = self.broken.take().or(Some(words));
            return;
        }
        let newest = host.past.begun.iter().copied().max();
        let switches = matches!(event, NodeEvent::Apply(_));
        self.happen(n, event);
        let host = &self.hosts[n];
        let begins = host.past.begun.len() > begun;
        let broken = if begins && record.mode == RolloutMode::Clock && newest > Some(place) {
            Some(format!("{}: it starts {} in clock mode although it took a newer one", host.id, record.id))
        } else if (begins || switches && host.node.is_unconfirmed()) && host.past.ended.contains(&place) {
            Some(format!("{}: it starts although an abort was requested", host.id))
        } else {
            None
        };
        self.broken = self.broken.take().or(broken);
    }

    /// What the records require from a node, and which record.
    fn asked(&mut self, n: usize) -> Option<(Rc<RolloutRecord>, NodeEvent)> {
        let host = &self.hosts[n];
        let records = match (host.node.current_rollout(), host.component) {
            (Some(rollout), _) => {
                host.records.iter().filter(|record| record.id == *rollout).cloned().collect()
            }
            (None, Component::Agent) => host.records.clone(),
            // Runs of states follow one record: the newest that has not ended.
            (None, Component::States) => {
                let open = host.records.iter().find(|record| !record.state.is_final());
                open.or_else(|| host.records.first()).cloned().into_iter().collect::<Vec<_>>()
            }
        };
        for record in records {
            let misread = self.misread(n, &record);
            let seen = misread.as_ref().unwrap_or(&record);
            let host = &self.hosts[n];
            let is_timeless = self.scenario.wrong == Wrong::NoExpiry;
            let moment = if is_timeless { seen.created } else { clock(self.now, host.off) };
            let event = match seen.mode {
                RolloutMode::Driver => node::driven_action(seen, &host.id, &host.node, moment),
                RolloutMode::Clock => {
                    node::clocked_action(seen, &host.report(self.now), &host.node, clock(self.now, host.off))
                }
            };
            if let Some(event) = event {
                return Some((record, event));
            }
        }
        None
    }

    /// The reaction of a node that breaks a rule on purpose.
    fn misread(&mut self, n: usize, record: &Rc<RolloutRecord>) -> Option<Rc<RolloutRecord>> {
        let is_ending = matches!(record.state, RolloutStatus::Aborting | RolloutStatus::Aborted);
        let host = &mut self.hosts[n];
        let (wrong, is_clock) = (self.scenario.wrong, record.mode == RolloutMode::Clock);
        let is_idle = host.node.phase == NodePhase::Idle;
        let is_begun = host.past.begun.contains(&place(&record.id));
        let is_older = host.past.begun.iter().any(|begun| *begun > place(&record.id));
        let mut seen = RolloutRecord::clone(match wrong {
            Wrong::NoTurns if !is_clock => record,
            Wrong::DeafToAbort if is_ending => record,
            Wrong::Forgetful if is_idle && is_begun => record,
            Wrong::Backward if is_idle && is_clock && !is_begun && is_older => record,
            Wrong::Hesitant if is_clock && matches!(host.node.phase, NodePhase::Staged { .. }) => record,
            Wrong::GivesUp if is_ending && is_idle => {
                if let Some(previous) = host.node.previous.as_mut() {
                    std::mem::swap(previous, &mut host.node.running);
                    host.slot = host.node.running.clone();
                    self.note(n);
                }
                return None;
            }
            _ => return None,
        });
        match wrong {
            Wrong::Hesitant => seen.state = RolloutStatus::Paused,
            // As if it had been ordered just now.
            Wrong::Forgetful | Wrong::Backward => {
                (seen.created, seen.anyway) = (clock(self.now, 0), true);
                host.node.last = None;
            }
            _ => {
                seen.current_batch = seen.batch_of(&host.id).unwrap_or(0);
                if is_ending {
                    (seen.state, seen.phase) = (RolloutStatus::Rolling, BatchPhase::Apply);
                }
            }
        }
        Some(Rc::new(seen))
    }

    /// An event happens to a node: it is saved, then done. Power may fail before, between and after.
    pub(super) fn happen(&mut self, n: usize, event: NodeEvent) {
        if self.fails(n, false) {
            return;
        }
        let (soak, wrong) = (self.scenario.soak, self.scenario.wrong);
        let host = &mut self.hosts[n];
        let before = host.said();
        let (actions, broken) = host.happen(event, self.now, soak, wrong);
        let is_news = before != host.said();
        self.broken = self.broken.take().or(broken);
        self.note(n);
        if self.fails(n, self.hosts[n].wrote) {
            return;
        }
        if !actions.is_empty() {
            actions.into_iter().for_each(|action| self.act(n, action));
            self.note(n);
        }
        if is_news {
            self.say(n);
        }
        let host = &mut self.hosts[n];
        if (host.is_watched() || !host.again.is_empty()) && !host.looks {
            host.looks = true;
            self.queue.at(self.now + LOOK, What::Look(n, host.life));
        }
    }

    fn act(&mut self, n: usize, action: NodeAction) {
        let takes = self.dice.borrow_mut().between(SECOND / 10, self.scenario.download);
        let switch = self.dice.borrow_mut().between(SECOND / 5, self.scenario.switch);
        let wrong = self.scenario.wrong;
        let host = &mut self.hosts[n];
        host.job += 1;
        let (soon, job) = match action {
            NodeAction::Fetch(order) => (takes, Job::Fetch(order.to)),
            NodeAction::Apply(version) => (SECOND / 2, Job::Flip(version, switch)),
            NodeAction::RollBack(version) => (switch, Job::Back(version)),
            NodeAction::Discard(version) => {
                host.versions.retain(|v| *v != version);
                return;
            }
            NodeAction::Settle(_) => {
                let (running, previous) = (host.node.running.clone(), host.node.previous.clone());
                host.versions.retain(|v| *v == running || Some(v) == previous.as_ref());
                return;
            }
        };
        if wrong == Wrong::ForgetsOld && matches!(job, Job::Flip(..)) {
            host.versions.retain(|v| *v != host.node.running);
        }
        self.queue.at(self.now + soon, What::Done(n, host.life, host.job, job));
    }

    /// An action of a node ends.
    pub(super) fn done(&mut self, n: usize, life: u32, job: u32, done: Job) {
        let is_stuck = self.scenario.power > 0 && !self.is_calm() && self.dice.borrow_mut().per_mille(100);
        let is_blind = self.scenario.wrong == Wrong::Blind;
        let scenario = self.scenario;
        let host = &mut self.hosts[n];
        if !host.is_up || host.life != life || host.job != job {
            return;
        }
        let event = match done {
            Job::Fetch(version) if scenario.release(&version, n) == Release::Corrupt && !is_blind => {
                NodeEvent::FetchFailed("the digest is wrong".into())
            }
            Job::Fetch(_) if self.now < host.cut => NodeEvent::FetchFailed("cannot be reached".into()),
            Job::Fetch(version) => {
                if !host.has(&version) {
                    host.versions.push(version);
                }
                NodeEvent::Fetched
            }
            Job::Flip(version, _) if !host.has(&version) => {
                NodeEvent::ApplyFailed(format!("there is no {version}"))
            }
            Job::Flip(version, takes) => match scenario.release(&version, n) {
                Release::Unappliable => NodeEvent::ApplyFailed("it does not start".into()),
                release => {
                    (host.slot, host.applied) = (version, self.now);
                    let (life, job) = (host.life, host.job);
                    self.note(n);
                    if release == Release::Fells {
                        let version = self.hosts[n].slot.clone();
                        let broken = self.hosts[n].fell(&version);
                        self.broken = self.broken.take().or(broken);
                        self.crash(n, 20 * SECOND);
                    } else {
                        self.queue.at(self.now + takes, What::Done(n, life, job, Job::Applied));
                    }
                    return;
                }
            },
            Job::Applied => NodeEvent::Applied,
            Job::Back(_) if is_stuck => NodeEvent::RollbackFailed("it does not start".into()),
            Job::Back(version) => {
                if scenario.wrong != Wrong::StaysPut {
                    host.slot = version;
                }
                NodeEvent::RolledBack
            }
        };
        self.happen(n, event);
        // It continues at once with what it knows, however old that is.
        if self.hosts[n].life == life {
            self.heed(n);
        }
    }

    pub(super) fn look(&mut self, n: usize, life: u32) {
        let host = &mut self.hosts[n];
        if !host.is_up || host.life != life {
            return;
        }
        host.looks = false;
        let is_run =
            host.component == Component::States && matches!(host.node.phase, NodePhase::Applying { .. });
        if host.is_watched() && !is_run {
            let release = self.scenario.release(host.node.current_version(), n);
            let event = host.look(release, self.now, self.scenario.wrong);
            self.happen(n, event);
        }
        if self.hosts[n].life == life && !self.hosts[n].again.is_empty() {
            self.heed(n);
        }
        let host = &mut self.hosts[n];
        if host.life == life && host.is_watched() && !host.looks {
            host.looks = true;
            self.queue.at(self.now + LOOK, What::Look(n, life));
        }
    }

    /// Power may fail, and may damage what is being written.
    fn fails(&mut self, n: usize, is_written: bool) -> bool {
        let fails = !self.is_calm() && self.dice.borrow_mut().per_mille(self.scenario.power);
        if fails {
            let length = self.dice.borrow_mut().between(SECOND, 2 * MINUTE);
            let harms = [Some(Harm::First), Some(Harm::FirstBeforeSecond), Some(Harm::Second), None, None];
            let harm = self.dice.borrow_mut().pick(&harms);
            self.hosts[n].harm = harm.filter(|harm| is_written || *harm != Harm::FirstBeforeSecond);
            self.crash(n, length);
        }
        fails
    }

    pub(super) fn crash(&mut self, n: usize, length: i64) {
        self.hosts[n].fall();
        self.note(n);
        self.queue.at(self.now + length, What::Up(n));
    }

    pub(super) fn up(&mut self, n: usize) {
        let host = &mut self.hosts[n];
        if host.is_gone || host.is_up {
            return;
        }
        host.recover(self.now, self.scenario.wrong);
        host.is_up = true;
        host.life += 1;
        host.unsaid = true;
        // A version that is being applied is switched to again; everything else is started as it is.
        if !matches!(host.node.phase, NodePhase::Applying { .. }) {
            host.slot = host.node.current_version().to_owned();
        }
        let soon = self.within(self.scenario.poll);
        self.queue.at(soon, What::Poll(n, self.hosts[n].life));
        self.note(n);
        let event = match self.hosts[n].component {
            Component::Agent => NodeEvent::BootAfterCrash,
            Component::States => NodeEvent::Boot,
        };
        self.happen(n, event);
    }
}

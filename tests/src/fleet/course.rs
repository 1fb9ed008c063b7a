//! Everything except nodes: drivers, operators, disturbances; and when a history ends.

use zagent_rollout::driver::{DriveError, DriveOutcome, RolloutDriver};
use zagent_rollout::phase::{NodeEvent, NodePhase, saturating_after};
use zagent_rollout::record::{NodeStatus, RolloutMode, RolloutStatus};
use zagent_rollout::waves;

use super::board::{Entry, Wire};
use super::host::{Host, clock, index};
use super::laws;
use super::nodes::LOOK;
use super::queue::What;
use super::scenario::{Ask, HOUR, MINUTE, SECOND, Trouble};
use super::world::World;

/// How long after the last disturbance everything must have ended.
const BOUND: i64 = 6 * HOUR;
/// How often drivers look for rollouts without a driver.
const SCAN: i64 = 60 * SECOND;
/// How long a driver waits after a failed turn.
const AGAIN: i64 = 10 * SECOND;
/// How long after its last wave every node has started a clock-mode rollout.
const LATEST: i64 = 3 * MINUTE;

/// Whether a rollout can still progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It can.
    Open,
    /// It is stuck, and stays so.
    Left,
    /// It has ended.
    Over,
}

impl World<'_> {
    /// A driver looks for a rollout to drive, and takes its turns.
    pub(super) fn turn(&mut self, d: usize, life: u32) {
        let pilot = &self.drivers[d];
        if !pilot.is_alive || pilot.life != life {
            return;
        }
        let now = clock(self.now, pilot.off);
        let (loss, operators) = (self.loss(pilot.cut), clock(self.now, 0));
        let wire = || Wire {
            board: &self.board,
            dice: &self.dice,
            loss,
            now: operators,
            wrong: self.scenario.wrong,
        };
        let (mut records, mut reports) = (wire(), wire());
        let mut driver =
            RolloutDriver { id: pilot.name.clone(), records: &mut records, reports: &mut reports };
        let (mut driving, mut looked) = (pilot.driving.clone(), pilot.looked);
        if looked.is_none_or(|looked| self.now >= looked + SCAN) {
            looked = Some(self.now);
            let stale = driver.adoptable_rollouts(now).unwrap_or_default();
            driving.extend(stale.into_iter().filter(|id| !pilot.driving.contains(id)));
        }
        let mut wait = SCAN;
        driving.retain(|id| match driver.drive_once(id, now) {
            Ok(DriveOutcome::Continues { wait: next, .. }) => {
                wait = wait.min(i64::try_from(next.as_millis()).unwrap_or(i64::MAX).max(1));
                true
            }
            Ok(DriveOutcome::Finished(_) | DriveOutcome::SteppedAside { .. })
            | Err(
                DriveError::Gone { .. } | DriveError::NotDrivable { .. } | DriveError::NotAccepted { .. },
            ) => false,
            Err(DriveError::ReadFailed { .. } | DriveError::WriteFailed { .. }) => {
                wait = wait.min(AGAIN);
                true
            }
        });
        let is_told = !driving.is_empty();
        (self.drivers[d].driving, self.drivers[d].looked) = (driving, looked);
        if is_told {
            self.tell_records(d);
        }
        self.queue.at(self.now.saturating_add(wait), What::Turn(d, life));
    }

    /// The records after a driver's turn, for the log.
    fn tell_records(&mut self, d: usize) {
        if self.diary.is_none() {
            return;
        }
        let records: Vec<_> =
            self.board.borrow().entries.iter().map(|entry| std::rc::Rc::clone(&entry.record)).collect();
        for record in records {
            let nodes: Vec<_> = record.nodes.values().map(|node| node.status).collect();
            let (id, at, state) = (&record.id, record.serial, record.state.name());
            let (batch, phase) = (record.current_batch, record.phase);
            self.write(&format!("driver {d}: {id} ({at}) {state}, batch {batch}, {phase:?}, {nodes:?}"));
        }
    }

    pub(super) fn driver_up(&mut self, d: usize) {
        let pilot = &mut self.drivers[d];
        if !pilot.is_alive {
            pilot.is_alive = true;
            pilot.life += 1;
            self.queue.at(self.now, What::Turn(d, self.drivers[d].life));
        }
    }

    pub(super) fn befalls(&mut self, trouble: Trouble) {
        let (now, calm) = (self.now, self.scenario.calm);
        let until = |length: i64| (now + length).min(calm);
        match trouble {
            Trouble::Crash(n, length) if self.hosts[n].is_up => self.crash(n, length),
            Trouble::Damage(n, length, harm) if self.hosts[n].is_up => {
                self.hosts[n].harm = Some(harm);
                self.crash(n, length);
            }
            Trouble::Crash(..) | Trouble::Damage(..) => {}
            Trouble::Vanish(n) => {
                self.crash(n, 0);
                self.hosts[n].is_gone = true;
            }
            Trouble::Cut(n, length) => self.hosts[n].cut = until(length),
            Trouble::Clock(n, jump) => self.hosts[n].off += jump,
            Trouble::Full(n, length) => self.hosts[n].full = until(length),
            Trouble::Hold(n, length) => self.hosts[n].held = until(length),
            Trouble::GoBack(n) if self.hosts[n].is_up => {
                self.happen(n, NodeEvent::RollBack("by hand".into()));
            }
            Trouble::GoBack(_) => {}
            Trouble::DriverCrash(d, length) => {
                let pilot = &mut self.drivers[d];
                (pilot.is_alive, pilot.looked) = (false, None);
                pilot.driving.clear();
                pilot.life += 1;
                if let Some(length) = length {
                    self.queue.at(now + length, What::DriverUp(d));
                }
            }
            Trouble::DriverCut(d, length) => self.drivers[d].cut = until(length),
            Trouble::DriverClock(d, jump) => self.drivers[d].off += jump,
            Trouble::Drive(d) => {
                let pilot = &mut self.drivers[d];
                pilot.is_alive = true;
                pilot.life += 1;
                let newest = self.board.borrow().entries.last().map(|entry| entry.record.id.clone());
                pilot.driving.extend(newest.filter(|id| !pilot.driving.contains(id)));
                self.queue.at(now, What::Turn(d, self.drivers[d].life));
            }
            Trouble::Asked(which, ask) => {
                let mut board = self.board.borrow_mut();
                let place = board.place_from_newest(which);
                board.ask(place, ask, clock(now, 0));
            }
            Trouble::Races(ask) => self.board.borrow_mut().racing = Some(ask),
            Trouble::Gone(which, length) => self.hides(which, true, length),
            Trouble::Unread(which, length) => self.hides(which, false, Some(length)),
        }
    }

    /// A record is missing or unreadable; without a duration, permanently.
    fn hides(&mut self, which: usize, is_gone: bool, length: Option<i64>) {
        let mut board = self.board.borrow_mut();
        let place = board.place_from_newest(which);
        let entry = &board.entries[place];
        // A record that was hidden before returns at its own time.
        if !entry.is_gone && !entry.is_unread {
            board.shows(place, is_gone, !is_gone);
            if let Some(length) = length {
                let until = (self.now + length).min(self.scenario.calm);
                self.queue.at(until, What::Shows(place));
            }
        }
    }

    /// Disturbances end: drivers return, unless they are lost, and an operator decides about paused rollouts. Where
    /// times count, clocks are corrected.
    pub(super) fn calm(&mut self) {
        for d in 0..self.drivers.len() {
            if self.scenario.abandoned {
                self.drivers[d].is_alive = false;
            } else {
                self.driver_up(d);
            }
        }
        if self.scenario.has_clocks() {
            self.hosts.iter_mut().for_each(|host| host.off = 0);
        }
        let mut board = self.board.borrow_mut();
        board.racing = None;
        for place in 0..board.entries.len() {
            let asks = [Some(Ask::Resume), Some(Ask::Resume), Some(Ask::Abort), None];
            let ask = self.dice.borrow_mut().pick(&asks);
            let is_paused = board.entries[place].record.state == RolloutStatus::Paused;
            if let Some(ask) = ask.filter(|_| is_paused) {
                board.ask(place, ask, clock(self.now, 0));
            }
        }
    }

    /// Checks everything; true when nothing can happen any more.
    pub(super) fn check(&mut self) -> bool {
        self.queue.at(self.now + LOOK, What::Check);
        let (scenario, now) = (self.scenario, self.now);
        for (n, host) in self.hosts.iter_mut().enumerate() {
            let is_broken = |version: &str| scenario.release(version, n).is_broken();
            let broken = laws::of_host(host, is_broken).or_else(|| host.is_late(now));
            self.broken = self.broken.take().or(broken);
        }
        let board = self.board.borrow();
        for Entry { record, .. } in &board.entries {
            let batch = record.batches.get(record.current_batch).into_iter().flatten();
            let mut confirmed = batch.filter(|id| record.node_status(id) == NodeStatus::Confirmed);
            let liar = confirmed.find(|id| !self.hosts[index(id)].past.kept.contains(&record.id));
            if let Some(id) = liar {
                self.broken = Some(format!("{id} counts as confirmed and never was"));
            }
        }
        let ends: Vec<End> = board.entries.iter().map(|entry| self.end_of(entry)).collect();
        let count = board.entries.len();
        let open = board.entries.iter().zip(&ends).find(|(_, end)| **end == End::Open);
        let open = open.map(|(entry, _)| (entry.record.id.clone(), entry.record.state));
        drop(board);
        let living = || self.hosts.iter().filter(|host| !host.is_gone);
        let is_idle = living().all(|host| host.is_up && host.node.phase == NodePhase::Idle);
        let is_settled = living().all(|host| host.is_up && !host.is_watched());
        let next = self.scenario.waves.get(count);
        if open.is_none() && (is_idle || is_settled && ends.contains(&End::Left)) {
            match next {
                None => return self.ends(),
                Some(next) if next.follows.is_none() && is_idle => self.begin(count),
                // Nodes that wait for a lost driver do nothing else.
                Some(next) if next.follows.is_none() => return self.ends(),
                Some(_) => {}
            }
        }
        if self.now > self.scenario.calm.max(self.begun) + BOUND {
            let (id, state) =
                open.map_or(("a node".into(), "on its way"), |(id, state)| (id.to_string(), state.name()));
            let asked = matches!(state, "aborting" | "aborted");
            let words = if asked { "an abort was requested" } else { "it is still running" };
            self.broken = Some(format!("{id} is {state} and never ends: {words}"));
        }
        false
    }

    /// Whether a rollout can still progress.
    fn end_of(&self, entry: &Entry) -> End {
        let record = &entry.record;
        // A driver that is away for a while returns before the calm.
        if record.state.is_final() || self.is_calm() && entry.is_gone {
            return End::Over;
        }
        let is_driven = record.mode == RolloutMode::Driver;
        if self.is_calm() && (record.state == RolloutStatus::Paused || is_driven && self.scenario.abandoned) {
            return End::Left;
        }
        let is_last = self.board.borrow().entries.len() == self.scenario.waves.len();
        let calm = if is_last { self.scenario.calm } else { 0 };
        let last = record.started.map(|started| saturating_after(started, waves::total_spread(record)));
        let is_past = last.is_some_and(|last| clock(self.now, -LATEST) >= last);
        if !is_driven && record.state == RolloutStatus::Rolling && is_past && self.now >= calm + LATEST {
            return End::Over;
        }
        End::Open
    }

    /// The end of a history: what must hold then.
    fn ends(&mut self) -> bool {
        let board = self.board.borrow();
        let scenario = self.scenario;
        for (place, Entry { record, .. }) in board.entries.iter().enumerate() {
            self.told.ends.push(record.state);
            let kept = self.hosts.iter().filter(|host| host.past.kept.contains(&record.id));
            self.told.confirmed = kept.clone().count();
            // A report is about one rollout: a node that took part in another since could not report it again.
            let mut last = kept.filter(|host| host.past.begun.last() == Some(&place) && !host.past.is_lost);
            // A node that already ran it keeps it without a confirmation, and may be dropped before it reports that.
            let had_it = |host: &Host| host.past.had.contains(&record.id);
            let is_out = |host: &Host| record.node_status(&host.id) == NodeStatus::Failed;
            if let Some(host) = last.find(|host| is_out(host) && !had_it(host)) {
                self.broken = Some(format!("{} counts as failed and keeps {}", host.id, record.to));
            }
        }
        let is_well = |(n, host): &(usize, &super::host::Host)| {
            host.is_gone || host.slot == host.node.running && !scenario.release(&host.slot, *n).is_broken()
        };
        if let Some((_, host)) = self.hosts.iter().enumerate().find(|pair| !is_well(pair)) {
            self.broken = Some(format!("{} ends on {}, which does not work there", host.id, host.slot));
        }
        // Without disturbances, every node gets a good version.
        let order = &scenario.waves[board.entries.len() - 1];
        let is_good =
            (0..self.hosts.len()).all(|n| scenario.release(order.to, n) == super::scenario::Release::Good);
        if scenario.is_quiet()
            && scenario.is_timely()
            && is_good
            && order.follows.is_none()
            && self.told.confirmed < self.hosts.len()
        {
            let confirmed = self.told.confirmed;
            self.broken = Some(format!("{} is good, and only {confirmed} keep it", order.to));
        }
        true
    }
}

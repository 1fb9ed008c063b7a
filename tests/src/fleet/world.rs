//! The fleet: hosts, drivers, the board and what happens to them, one event after the other.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;
use zagent_config::ids::RolloutId;
use zagent_rollout::record::{NodeProgress, RECORD_SCHEMA, RolloutMode, RolloutRecord, RolloutStatus};
use zagent_rollout::{BatchSize, Span, split_batches};

use super::board::Board;
use super::dice::Dice;
use super::host::{FORGED, Host, clock, name, rollout};
use super::laws;
use super::nodes::LOOK;
use super::queue::{Queue, What};
use super::scenario::{SECOND, Scenario, Wrong};
use crate::order_keys;

/// The result of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Events.
    pub events: u64,
    /// Seconds of virtual time.
    pub seconds: i64,
    /// The result of each rollout.
    pub ends: Vec<RolloutStatus>,
    /// Nodes that confirmed the version of the last rollout.
    pub confirmed: usize,
    /// Records written.
    pub writes: u64,
    /// The maximum number of nodes with an unconfirmed version at the same time.
    pub most: usize,
}

/// A driver.
pub(super) struct Pilot {
    pub(super) name: String,
    pub(super) is_alive: bool,
    pub(super) life: u32,
    pub(super) off: i64,
    pub(super) cut: i64,
    pub(super) driving: Vec<RolloutId>,
    /// When it last looked for rollouts without a driver.
    pub(super) looked: Option<i64>,
}

/// The fleet.
pub(super) struct World<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) now: i64,
    pub(super) queue: Queue,
    pub(super) dice: RefCell<Dice>,
    pub(super) board: RefCell<Board>,
    pub(super) hosts: Vec<Host>,
    pub(super) drivers: Vec<Pilot>,
    /// When the last rollout started.
    pub(super) begun: i64,
    /// How many nodes run an unconfirmed version, per rollout.
    pub(super) unconfirmed: Vec<usize>,
    pub(super) told: Told,
    pub(super) broken: Option<String>,
    pub(super) diary: Option<&'s mut Vec<String>>,
}

/// Plays a scenario to its end. With a log, every event is written to it.
///
/// # Errors
/// Returns the law that it breaks.
pub fn play(scenario: &Scenario, seed: u64, diary: Option<&mut Vec<String>>) -> Result<Told, String> {
    let pilot = |n: usize| Pilot {
        name: if scenario.same_name { "driver".into() } else { format!("driver-{n}") },
        is_alive: true,
        life: 0,
        off: 0,
        cut: 0,
        driving: vec![],
        looked: None,
    };
    let mut world = World {
        scenario,
        now: 0,
        queue: Queue::default(),
        dice: RefCell::new(Dice::new(!seed)),
        board: RefCell::new(Board { as_text: scenario.as_text, ..Board::default() }),
        hosts: (0..scenario.nodes).map(|n| Host::new(name(n), scenario.component)).collect(),
        drivers: (0..scenario.drivers).map(pilot).collect(),
        begun: 0,
        unconfirmed: vec![],
        told: Told::default(),
        broken: None,
        diary,
    };
    world.run();
    world.broken.map_or(Ok(world.told), Err)
}

impl World<'_> {
    fn run(&mut self) {
        self.forge();
        self.begin(0);
        for n in 0..self.hosts.len() {
            let soon = self.within(self.scenario.poll);
            self.queue.at(soon, What::Poll(n, 0));
        }
        for d in 0..self.drivers.len() {
            let soon = self.within(SECOND);
            self.queue.at(soon, What::Turn(d, 0));
        }
        for (n, (when, _)) in self.scenario.troubles.iter().enumerate() {
            self.queue.at(*when, What::Befalls(n));
        }
        self.queue.at(self.scenario.calm, What::Calm);
        self.queue.at(LOOK, What::Check);
        while let Some((now, what)) = self.queue.pop() {
            self.now = now;
            self.told.events += 1;
            if self.diary.is_some() {
                what.told().into_iter().for_each(|words| self.write(&words));
            }
            let is_over = self.happens(what);
            let by_write = self.board.borrow_mut().broken.take();
            self.broken = self.broken.take().or(by_write);
            if is_over || self.broken.is_some() {
                break;
            }
        }
        (self.told.seconds, self.told.writes) = (self.now / SECOND, self.board.borrow().writes);
    }

    /// Writes a line to the log, if there is one.
    pub(super) fn write(&mut self, words: &str) {
        let seconds = self.now as f64 / 1000.0;
        self.diary.iter_mut().for_each(|diary| diary.push(format!("{seconds:>9.1} {words}")));
    }

    /// One event; true when the history is over.
    fn happens(&mut self, what: What) -> bool {
        match what {
            What::Poll(n, life) => self.poll(n, life),
            What::Told(n, life, found) => self.take_over(n, life, &found),
            What::Look(n, life) => self.look(n, life),
            What::Done(n, life, job, done) => self.done(n, life, job, done),
            What::Heard(n, sent, report) => {
                if sent > self.hosts[n].came {
                    self.hosts[n].came = sent;
                    self.board.borrow_mut().hear(*report);
                }
            }
            What::Turn(d, life) => self.turn(d, life),
            What::Befalls(n) => self.befalls(self.scenario.troubles[n].1),
            What::Begins(place) => self.begin(place),
            What::Shows(place) => self.board.borrow_mut().shows(place, false, false),
            What::Up(n) => self.up(n),
            What::DriverUp(d) => self.driver_up(d),
            What::Check => return self.check(),
            What::Calm => self.calm(),
        }
        false
    }

    pub(super) fn within(&self, time: i64) -> i64 {
        self.now + self.dice.borrow_mut().between(0, time)
    }

    pub(super) fn is_calm(&self) -> bool {
        self.now >= self.scenario.calm
    }

    pub(super) fn loss(&self, cut: i64) -> u64 {
        if self.now < cut {
            1000
        } else if self.is_calm() {
            0
        } else {
            self.scenario.loss
        }
    }

    /// A rollout starts.
    pub(super) fn begin(&mut self, place: usize) {
        let record = order_keys::signed(self.record(place), &order_keys::PEOPLE);
        assert!(self.scenario.wrong != Wrong::Falls || place == 0, "it panics on purpose");
        self.begun = self.now;
        self.unconfirmed.push(0);
        self.board.borrow_mut().begin(record);
        let next = self.scenario.waves.get(place + 1);
        if let Some(follows) = next.and_then(|next| next.follows) {
            self.queue.at(self.now + follows, What::Begins(place + 1));
        }
    }

    fn record(&self, place: usize) -> RolloutRecord {
        let (scenario, order) = (self.scenario, &self.scenario.waves[place]);
        let now = clock(self.now, 0);
        let mut record: RolloutRecord = serde_json::from_value(json!({
            "schema": RECORD_SCHEMA,
            "id": rollout(place),
            "fleet": order_keys::FLEET,
            "component": scenario.component,
            "to": order.to,
            "target": "*",
            "batch_size": BatchSize::Nodes(scenario.batch),
            "soak_time": Span::seconds(scenario.soak),
            "batch_pause": Span::seconds(scenario.pause),
            "max_failed": scenario.max_failed,
            "max_silent": scenario.max_silent,
            "mode": order.mode,
            "anyway": order.anyway,
            "state": RolloutStatus::Created,
            "created": now,
            "serial": 1,
        }))
        .expect("a record");
        if order.mode == RolloutMode::Clock {
            (record.state, record.started) = (RolloutStatus::Rolling, Some(now));
            return record;
        }
        let living: Vec<&str> = self.hosts.iter().filter(|h| !h.is_gone).map(|h| h.id.as_str()).collect();
        let canaries = living.iter().copied().take(scenario.canaries);
        let batches = split_batches(living.iter().copied(), canaries, record.batch_size);
        let named = |id: &&str| id.parse().expect("a name");
        record.nodes = living.iter().map(|id| (named(id), NodeProgress::default())).collect();
        record.batches = batches.iter().map(|batch| batch.iter().map(named).collect()).collect();
        record
    }

    /// Records that no node may obey: one of another fleet, one that expired half a year ago, and one with too few signatures:
    /// none, one, two of the same person, or one of a stranger.
    pub(super) fn forge(&mut self) {
        let day = |days: i64| clock(days * 24 * 3600 * SECOND, 0);
        let forged = |number: usize| {
            let everyone = self.hosts.iter().map(|host| host.id.clone()).collect();
            RolloutRecord {
                id: rollout(FORGED + number),
                batches: vec![everyone],
                mode: RolloutMode::Driver,
                state: RolloutStatus::Rolling,
                created: day(-180),
                anyway: true,
                ..self.record(0)
            }
        };
        let foreign = RolloutRecord {
            fleet: Some("staging".parse().expect("a name")),
            expires: Some(day(180)),
            ..forged(0)
        };
        let expired = RolloutRecord { expires: Some(day(-150)), ..forged(1) };
        let [ada, bob] = order_keys::PEOPLE;
        let few: [&[&str]; 4] = [&[], &[ada], &[bob, bob], &[ada, order_keys::STRANGER]];
        let kind = self.scenario.nodes % few.len();
        let few =
            order_keys::signed(RolloutRecord { expires: Some(day(180)), ..forged(2 + kind) }, few[kind]);
        let [foreign, expired] =
            [foreign, expired].map(|record| order_keys::signed(record, &order_keys::PEOPLE));
        self.board.borrow_mut().forged = [foreign, expired, few].map(Rc::new).to_vec();
    }

    /// Checks the laws after something happened to a node.
    pub(super) fn note(&mut self, n: usize) {
        let scenario = self.scenario;
        let host = &mut self.hosts[n];
        if !host.node.is_unconfirmed() {
            host.felled = 0;
        }
        let counts = host.unconfirmed();
        if host.counts != counts {
            host.counts.into_iter().for_each(|place| self.unconfirmed[place] -= 1);
            counts.into_iter().for_each(|place| self.unconfirmed[place] += 1);
            host.counts = counts;
        }
        let is_broken = |version: &str| scenario.release(version, n).is_broken();
        let broken = laws::of_host(host, is_broken).or_else(|| host.is_late(self.now));
        self.broken = self.broken.take().or(broken);
        if let Some(place) = counts {
            let unconfirmed = self.unconfirmed[place];
            self.told.most = self.told.most.max(unconfirmed);
            let board = self.board.borrow();
            let broken = laws::of_fleet(&board.entries[place].record, unconfirmed, &self.hosts, place);
            self.broken = self.broken.take().or(broken);
        }
    }
}

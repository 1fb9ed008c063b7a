//! A seed in, a fleet and everything that happens to it out.

use zagent_rollout::record::{Component, RolloutMode};

use super::dice::Dice;
use super::host::{FIRST, Harm};

/// A second, in the milliseconds of virtual time.
pub const SECOND: i64 = 1000;
/// A minute.
pub const MINUTE: i64 = 60 * SECOND;
/// An hour.
pub const HOUR: i64 = 60 * MINUTE;

/// How a version behaves on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It works.
    Good,
    /// It exits at once, hangs or never becomes ready: a check cannot distinguish them.
    Bad,
    /// It becomes unready this long after it was applied.
    GoesBad(i64),
    /// The fetched file is not what was released.
    Corrupt,
    /// It cannot be switched to.
    Unappliable,
    /// The host crashes whenever it is applied.
    Fells,
}

impl Release {
    /// True when no node may ever confirm it: a check detects it with any soak.
    #[must_use]
    pub const fn is_broken(self) -> bool {
        !matches!(self, Self::Good | Self::GoesBad(_))
    }
}

/// An operator's request for a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Pause.
    Pause,
    /// Resume.
    Resume,
    /// Abort.
    Abort,
}

/// A disturbance: a failure, or an action of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A node loses power for this long.
    Crash(usize, i64),
    /// A node loses power for this long, and what it saved is damaged.
    Damage(usize, i64, Harm),
    /// A node is lost for good.
    Vanish(usize),
    /// A node cannot reach the board for this long.
    Cut(usize, i64),
    /// A node's clock is set.
    Clock(usize, i64),
    /// A node's disk is full for this long.
    Full(usize, i64),
    /// A node may not switch for this long: no maintenance window is open.
    Hold(usize, i64),
    /// Someone on a host rolls back.
    GoBack(usize),
    /// A driver stops, and returns after this time.
    DriverCrash(usize, Option<i64>),
    /// A driver cannot reach the board for this long.
    DriverCut(usize, i64),
    /// A driver's clock is set.
    DriverClock(usize, i64),
    /// A second program drives although one already does.
    Drive(usize),
    /// An operator's request for the rollout with that number, counted from the newest.
    Asked(usize, Ask),
    /// An operator's request between a driver's read and its write.
    Races(Ask),
    /// The record with that number, counted from the newest, is missing for this long; without a duration, permanently.
    Gone(usize, Option<i64>),
    /// The record with that number, counted from the newest, cannot be read for this long.
    Unread(usize, i64),
}

/// A rule that is broken on purpose, to test that the simulation detects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrong {
    /// None.
    #[default]
    Nothing,
    /// Nodes ignore their deadline.
    NoDeadline,
    /// Nodes give themselves a thousand times as long as they have.
    Patient,
    /// Nodes do not wait for their turn.
    NoTurns,
    /// Nodes delete the old version when they switch.
    ForgetsOld,
    /// Nodes report a rollback without doing it.
    StaysPut,
    /// Nodes ignore that a rollout was aborted.
    DeafToAbort,
    /// Nodes roll back a confirmed version when a rollout is aborted.
    GivesUp,
    /// Nodes try what they rejected.
    Forgiving,
    /// Nodes whose saved state is damaged continue with the version that their link names.
    TrustsLink,
    /// Nodes find everything ready and every digest right.
    Blind,
    /// Nodes forget which rollouts have ended on them.
    Forgetful,
    /// Nodes start a clock-mode rollout although they took a newer one.
    Backward,
    /// Nodes never switch in clock mode.
    Hesitant,
    /// The driver does not count failures.
    NoMaxFailed,
    /// The driver never writes that an abort is done.
    NeverAborted,
    /// The driver counts every soaking node as confirmed.
    Credulous,
    /// Nodes obey records of any fleet.
    AnyFleet,
    /// Nodes obey records with too few signatures.
    AnySignature,
    /// Nodes obey expired records.
    NoExpiry,
    /// The program panics.
    Falls,
}

/// One rollout of a history.
#[derive(Clone, Debug)]
pub struct Wave {
    /// The version.
    pub to: &'static str,
    /// True to accept a rejected or older version.
    pub anyway: bool,
    /// The mode.
    pub mode: RolloutMode,
    /// The delay after the start of the previous one; without it, after its end.
    pub follows: Option<i64>,
}

/// A fleet and everything that happens to it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Number of nodes.
    pub nodes: usize,
    /// The component.
    pub component: Component,
    /// Nodes per batch.
    pub batch: usize,
    /// Number of canaries.
    pub canaries: usize,
    /// Seconds that nodes soak.
    pub soak: u64,
    /// Seconds between batches.
    pub pause: u64,
    /// Abort after this number of failures.
    pub max_failed: usize,
    /// This number of silent nodes is allowed.
    pub max_silent: usize,
    /// How the versions behave on each node; the initial one works.
    pub releases: Vec<(&'static str, Vec<Release>)>,
    /// The rollouts.
    pub waves: Vec<Wave>,
    /// Lost messages per thousand.
    pub loss: u64,
    /// Stale answers per thousand.
    pub stale: u64,
    /// How often a node polls while it is part of a rollout.
    pub poll: i64,
    /// The longest delay of a message.
    pub delay: i64,
    /// The longest download.
    pub download: i64,
    /// The longest switch.
    pub switch: i64,
    /// How many times in a thousand a node loses power during an action.
    pub power: u64,
    /// Number of drivers.
    pub drivers: usize,
    /// True when they have the same id.
    pub same_name: bool,
    /// The disturbances and their times.
    pub troubles: Vec<(i64, Trouble)>,
    /// When disturbances end, and everything that can return does.
    pub calm: i64,
    /// True when no driver returns.
    pub abandoned: bool,
    /// The rule that is broken on purpose.
    pub wrong: Wrong,
    /// True when records and reports are stored as text.
    pub as_text: bool,
}

impl Scenario {
    /// The fleet of a seed.
    #[must_use]
    pub fn of(seed: u64, wrong: Wrong) -> Self {
        let mut dice = Dice::new(seed);
        let nodes = dice.count(2, 12);
        let hostile = dice.per_mille(700);
        let calm = dice.between(5 * MINUTE, 40 * MINUTE);
        let drivers = dice.count(1, 3);
        let component = dice.pick(&[Component::Agent, Component::Agent, Component::States]);
        let mut scenario = Self {
            nodes,
            component,
            batch: dice.count(1, nodes.div_ceil(2)),
            canaries: dice.count(0, 2.min(nodes - 1)),
            soak: dice.pick(&[0, 10, 30, 60, 60, 150]),
            pause: dice.pick(&[0, 5, 30]),
            max_failed: dice.pick(&[1, 1, 2, 3]),
            max_silent: dice.pick(&[0, 0, 1, 2]),
            releases: ["2.0", "3.0"].map(|version| (version, releases(&mut dice, nodes))).to_vec(),
            waves: waves(&mut dice),
            loss: if hostile { dice.pick(&[0, 0, 10, 100, 300]) } else { 0 },
            stale: if hostile { dice.pick(&[0, 0, 0, 100]) } else { 0 },
            poll: 10 * SECOND,
            delay: dice.pick(&[50, 500, 5 * SECOND, 20 * SECOND]),
            download: dice.pick(&[SECOND, 20 * SECOND, 5 * MINUTE]),
            switch: match component {
                Component::Agent => SECOND,
                Component::States => dice.pick(&[5 * SECOND, 30 * SECOND, 3 * MINUTE]),
            },
            power: if hostile { dice.pick(&[0, 0, 10, 50]) } else { 0 },
            drivers,
            same_name: dice.per_mille(100),
            troubles: vec![],
            calm,
            abandoned: hostile && dice.per_mille(50),
            wrong,
            as_text: false,
        };
        let count = if hostile { dice.count(0, 8) } else { dice.count(0, 1) };
        let drawn = |_| (dice.between(0, calm), trouble(&mut dice, nodes, drivers));
        scenario.troubles = (0..count).map(drawn).collect();
        scenario
    }

    /// A large fleet with few disturbances.
    #[must_use]
    pub fn large(nodes: usize) -> Self {
        let vanish = |n: usize| (MINUTE, Trouble::Vanish(nodes / 2 + n));
        Self {
            nodes,
            component: Component::Agent,
            batch: nodes / 10,
            canaries: 3,
            soak: 60,
            pause: 30,
            max_failed: 20,
            max_silent: 20,
            releases: vec![],
            waves: vec![Wave { to: "2.0", anyway: false, mode: RolloutMode::Driver, follows: None }],
            loss: 0,
            stale: 0,
            poll: 30 * SECOND,
            delay: 2 * SECOND,
            download: 20 * SECOND,
            switch: SECOND,
            power: 0,
            drivers: 2,
            same_name: false,
            troubles: (0..10)
                .map(vanish)
                .chain([(20 * MINUTE, Trouble::DriverCrash(0, Some(10 * MINUTE)))])
                .collect(),
            calm: 12 * HOUR,
            abandoned: false,
            wrong: Wrong::Nothing,
            as_text: false,
        }
    }

    /// How a version behaves on a node.
    #[must_use]
    pub fn release(&self, version: &str, node: usize) -> Release {
        let known = self.releases.iter().find(|(name, _)| *name == version);
        known.map_or(Release::Good, |(_, all)| all[node])
    }

    /// True when there are no disturbances.
    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        self.troubles.is_empty() && self.loss == 0 && self.stale == 0 && self.power == 0 && !self.abandoned
    }

    /// True when the slowest node of a batch has switched before the quickest must be confirmed.
    #[must_use]
    pub fn is_timely(&self) -> bool {
        let soak = i64::try_from(self.soak).unwrap_or(i64::MAX / 3_000) * 1000;
        self.switch + 3 * (self.poll + self.delay) + soak <= (3 * soak).max(300_000)
    }

    /// True when some rollout is in clock mode.
    #[must_use]
    pub fn has_clocks(&self) -> bool {
        self.waves.iter().any(|wave| wave.mode == RolloutMode::Clock)
    }
}

fn releases(dice: &mut Dice, nodes: usize) -> Vec<Release> {
    let bad = dice.pick(&[0, 0, 0, 50, 300, 1000]);
    let kinds =
        [Release::Bad, Release::GoesBad(45 * SECOND), Release::Corrupt, Release::Unappliable, Release::Fells];
    let kind = dice.pick(&kinds);
    (0..nodes).map(|_| if dice.per_mille(bad) { kind } else { Release::Good }).collect()
}

/// Mostly one rollout, and several of every kind: the same again, another, back to the previous version; one after the
/// other or in parallel; with a driver or in clock mode.
fn waves(dice: &mut Dice) -> Vec<Wave> {
    let (by_clock, beside) = (dice.pick(&[0, 0, 0, 500, 1000]), dice.pick(&[0, 500]));
    let mut wave = |to, anyway| Wave {
        to,
        anyway,
        mode: if dice.per_mille(by_clock) { RolloutMode::Clock } else { RolloutMode::Driver },
        follows: dice.per_mille(beside).then(|| dice.between(SECOND, 20 * MINUTE)),
    };
    let (first, second, third) = (wave("2.0", false), wave("3.0", false), wave("2.0", true));
    let (again, back) = (wave("2.0", false), wave(FIRST, true));
    let anyway = dice.per_mille(300);
    match dice.count(0, 7) {
        // The same again: a rejected version is not tried without `anyway`.
        0 => vec![first, Wave { anyway, ..again }],
        1 | 2 => vec![first, second],
        3 => vec![first, back],
        4 => vec![first, second, third],
        _ => vec![first],
    }
}

fn trouble(dice: &mut Dice, nodes: usize, drivers: usize) -> Trouble {
    let node = dice.count(0, nodes - 1);
    let driver = dice.count(0, drivers - 1);
    let which = dice.count(0, 2);
    let length = dice.pick(&[SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE]);
    let jump =
        dice.pick(&[-24 * HOUR, -HOUR, -5 * MINUTE, -45 * SECOND, 45 * SECOND, 5 * MINUTE, HOUR, 24 * HOUR]);
    let ask = dice.pick(&[Ask::Pause, Ask::Pause, Ask::Resume, Ask::Resume, Ask::Abort]);
    let harm = dice.pick(&[Harm::First, Harm::First, Harm::FirstIsOld, Harm::Second, Harm::Both]);
    match dice.count(0, 28) {
        0..=3 => Trouble::Crash(node, length),
        4 => Trouble::Vanish(node),
        5..=6 => Trouble::Cut(node, length),
        7..=8 => Trouble::Clock(node, jump),
        9 => Trouble::GoBack(node),
        10..=12 => Trouble::DriverCrash(driver, if dice.per_mille(500) { Some(length) } else { None }),
        13 => Trouble::DriverCut(driver, length),
        14 => Trouble::DriverClock(driver, jump),
        15 => Trouble::Drive(driver),
        16..=17 => Trouble::Asked(which, ask),
        18..=19 => Trouble::Races(ask),
        20..=21 => Trouble::Full(node, length),
        22 => Trouble::Hold(node, length),
        26..=28 => Trouble::Damage(node, length, harm),
        23 => Trouble::Gone(which, if dice.per_mille(800) { Some(length) } else { None }),
        _ => Trouble::Unread(which, length),
    }
}

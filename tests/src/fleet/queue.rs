//! The event queue, the nearest event first; events at the same time keep the order in which they were added.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use zagent_rollout::record::RolloutRecord;
use zagent_rollout::report::NodeReport;

use super::board::Found;

/// A future event.
#[derive(Debug)]
pub enum What {
    /// A node polls the records, in that boot.
    Poll(usize, u32),
    /// The records arrive.
    Told(usize, u32, Rc<Found>),
    /// A node checks its running version.
    Look(usize, u32),
    /// An action of a node ends.
    Done(usize, u32, u32, Job),
    /// A report arrives at the board.
    Heard(usize, u64, Box<NodeReport>),
    /// A driver takes its turn, in that life.
    Turn(usize, u32),
    /// The disturbance with that number.
    Befalls(usize),
    /// The rollout with that number starts.
    Begins(usize),
    /// The record with that number is readable again.
    Shows(usize),
    /// A node has power again.
    Up(usize),
    /// A driver returns.
    DriverUp(usize),
    /// Everything is checked.
    Check,
    /// Disturbances end.
    Calm,
}

/// An action of a node.
#[derive(Debug)]
pub enum Job {
    /// It fetches.
    Fetch(String),
    /// It switches, which takes this long.
    Flip(String, i64),
    /// The new version is installed.
    Applied,
    /// It switches back.
    Back(String),
}

impl What {
    /// One line for the log; nothing for frequent events.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        match self {
            Self::Poll(..) | Self::Check | Self::Turn(..) => None,
            Self::Told(n, _, found) => {
                let told = |record: &Rc<RolloutRecord>| {
                    let (id, at, state) = (&record.id, record.serial, record.state.name());
                    format!("{id} ({at}): {state}, batch {}, {:?}", record.current_batch, record.phase)
                };
                let read: Vec<String> = found.records.iter().map(told).collect();
                Some(format!("node {n} reads {}; unread {:?}", read.join("; "), found.unread))
            }
            Self::Heard(n, _, report) => {
                let taken =
                    report.taken.as_ref().map(|taken| (taken.outcome, &taken.error, taken.ready_since));
                Some(format!("node {n} says {:?}, {taken:?}", report.state))
            }
            other => Some(format!("{other:?}")),
        }
    }
}

struct Soon(i64, u64, What);

impl PartialEq for Soon {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Soon {}

impl PartialOrd for Soon {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Soon {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The future events.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Soon>>,
    count: u64,
}

impl Queue {
    /// Adds an event at a moment.
    pub fn at(&mut self, moment: i64, what: What) {
        self.count += 1;
        self.heap.push(Reverse(Soon(moment, self.count, what)));
    }

    /// The next event, and its time.
    pub fn pop(&mut self) -> Option<(i64, What)> {
        self.heap.pop().map(|Reverse(Soon(moment, _, what))| (moment, what))
    }
}

//! What is going to happen, the nearest first; what comes at the same time comes in the order that it was said in.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use zagent_rollout::record::RolloutRecord;
use zagent_rollout::report::NodeReport;

use super::board::Found;

/// What is going to happen.
#[derive(Debug)]
pub enum What {
    /// A node asks for the record, in that life.
    Poll(usize, u32),
    /// The records come.
    Told(usize, u32, Rc<Found>),
    /// A node looks at what it runs.
    Look(usize, u32),
    /// What a node does comes to its end.
    Done(usize, u32, u32, Job),
    /// A report comes to the board.
    Heard(usize, u64, Box<NodeReport>),
    /// A driver takes its turn, in that life.
    Turn(usize, u32),
    /// Trouble of that number.
    Befalls(usize),
    /// The rollout of that number begins.
    Begins(usize),
    /// The record of that number is there again, and can be read.
    Shows(usize),
    /// A node has power again.
    Up(usize),
    /// A driver is there again.
    DriverUp(usize),
    /// All is looked at.
    Check,
    /// Trouble ends.
    Calm,
}

/// What a node does.
#[derive(Debug)]
pub enum Job {
    /// It fetches.
    Fetch(String),
    /// It switches, which takes so long.
    Flip(String, i64),
    /// The new one is there.
    Applied,
    /// It switches back.
    Back(String),
}

impl What {
    /// One line for a diary; nothing for what happens all the time.
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

/// What is going to happen.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Soon>>,
    count: u64,
}

impl Queue {
    /// Something happens at a moment.
    pub fn at(&mut self, moment: i64, what: What) {
        self.count += 1;
        self.heap.push(Reverse(Soon(moment, self.count, what)));
    }

    /// What comes next, and when.
    pub fn pop(&mut self) -> Option<(i64, What)> {
        self.heap.pop().map(|Reverse(Soon(moment, _, what))| (moment, what))
    }
}

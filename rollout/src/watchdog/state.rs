//! What the watchdog must find again after it was replaced or died.
//!
//! Law: a new watchdog is tried twice. One that dies before it was healthy is not used again: the installed one carries on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::child::Process;
use crate::slots::Program;

/// So many times a watchdog may die before it was healthy.
const TRIES: u32 = 2;

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// The agent that was started last.
    pub child: Option<Held>,
    /// The program that is about to be started: whoever finds it here may find an agent that nobody wrote down.
    pub starting: Option<Program>,
    /// The program that came with the package.
    pub installed: Option<Program>,
    /// The watchdog that this one is to become, or became.
    pub renewal: Option<Renewal>,
}

/// An agent that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which process.
    pub process: Process,
    /// Which version.
    pub version: String,
    /// Since when.
    pub since: Timestamp,
}

/// A watchdog that takes the place of the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Renewal {
    /// Its version.
    pub version: String,
    /// How often it was started since it was last healthy.
    pub tries: u32,
    /// True once it was healthy.
    pub proved: bool,
    /// Why it is not used again.
    pub refused: Option<String>,
    /// The process that becomes it: one that finds itself here is this watchdog, whatever its program says.
    pub process: Option<Process>,
}

/// What becomes of a watchdog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It stays.
    Stay,
    /// It becomes another; this is to be written first.
    Become(Renewal),
    /// It stays, because the other one is no good; this is to be written.
    Refuse(Renewal),
}

/// Whether a watchdog of one version becomes that of the version that runs.
#[must_use]
pub(super) fn renewed(own: &str, running: &str, before: Option<&Renewal>) -> Next {
    if own == running {
        return Next::Stay;
    }
    let fresh = || Renewal { version: running.into(), tries: 1, ..Renewal::default() };
    match before.filter(|before| before.version == running) {
        None => Next::Become(fresh()),
        Some(before) if before.refused.is_some() => Next::Stay,
        Some(before) if before.proved => Next::Become(fresh()),
        Some(before) if before.tries >= TRIES => {
            let why = format!("it died {} times before it was healthy", before.tries);
            Next::Refuse(Renewal { refused: Some(why), ..before.clone() })
        }
        Some(before) => Next::Become(Renewal { tries: before.tries + 1, ..before.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_watchdog_is_tried_twice_and_one_that_was_healthy_as_often_as_it_dies() {
        assert_eq!(renewed("1", "1", None), Next::Stay);
        let Next::Become(first) = renewed("1", "2", None) else { panic!() };
        assert_eq!((first.tries, first.proved), (1, false));
        let Next::Become(second) = renewed("1", "2", Some(&first)) else { panic!() };
        assert_eq!(second.tries, 2);
        let Next::Refuse(refused) = renewed("1", "2", Some(&second)) else { panic!() };
        assert_eq!(renewed("1", "2", Some(&refused)), Next::Stay);
        assert!(matches!(renewed("1", "3", Some(&refused)), Next::Become(Renewal { tries: 1, .. })));
        let proved = Renewal { proved: true, ..second };
        assert!(matches!(
            renewed("1", "2", Some(&proved)),
            Next::Become(Renewal { tries: 1, proved: false, .. })
        ));
    }
}

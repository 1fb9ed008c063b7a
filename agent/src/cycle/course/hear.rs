//! The place of the records in, what they say about this node on its disk out.
//!
//! Law: what cannot be read changes nothing: the node goes by what it heard last.

use jiff::Timestamp;
use zagent_cache::Cache;
use zagent_config::paths::Paths;
use zagent_config::settings::BoardKind;
use zagent_rollout::records::Reports;
use zagent_rollout::report::Report;
use zagent_rollout::stores::BoardReports;

use super::Course;
use crate::cycle::me::Found;
use crate::cycle::memory::Memory;
use crate::cycle::orders::Orders;
use crate::cycle::turn::{Stage, Turn};
use crate::cycle::{me, sync};
use crate::operate::KeptError;
use crate::report::chain;

impl Course {
    /// Moves a file that nobody can read out of the way, loudly: what it said is lost, and what the records say is heard again.
    /// One that holds the node for ever would be no safer, for nobody can mend it by hand.
    pub(in crate::cycle) fn mend(paths: &Paths) {
        let Err(damaged @ KeptError::Damaged { .. }) = Self::read(paths) else { return };
        let path = paths.rollout_states();
        let aside = path.with_extension("damaged");
        let words = chain(&damaged);
        match std::fs::rename(&path, &aside) {
            Ok(()) => tracing::error!(
                "{words}: moved to `{}`; what this node knew of rollouts of states is lost, and heard anew",
                aside.display()
            ),
            Err(error) => tracing::error!("{words}, and cannot be moved away: {error}"),
        }
    }

    /// False when there are no records and never were: a node that no rollout ever spoke of has no such file.
    pub(in crate::cycle) fn is_news(paths: &Paths, found: &Found) -> bool {
        !found.records.is_empty() || paths.rollout_states().exists()
    }

    /// Takes over all records that there are, on the disk. One that cannot be read now counts as it was read before.
    ///
    /// # Errors
    /// As [`Course::change`].
    pub(in crate::cycle) fn take_over(paths: &Paths, found: Found, me: &Report) -> Result<(), KeptError> {
        let Found { mut records, unread } = found;
        Self::change(paths, |course| {
            let known = course.records.iter().filter(|record| unread.contains(&record.id)).cloned();
            records.extend(known);
            course.hear(&records, me);
        })
        .map(drop)
    }
}

impl Turn<'_> {
    /// Tells the board how this node does, once.
    pub(in crate::cycle) fn tell_board(&self, stage: &mut dyn Stage) {
        let settings = self.settings;
        if settings.board.kind == BoardKind::None {
            return;
        }
        let (paths, now) = (settings.paths(), Timestamp::now());
        let current = Cache::open(&paths, &settings.source).and_then(|cache| cache.current()).ok().flatten();
        let (memory, orders) = (Memory::load(&paths.memory()), Orders::read(&paths, now));
        let moment = me::Moment {
            revision: current.as_ref().map(|current| sync::plain(&current.record().revision)),
            memory: &memory,
            orders: &orders,
            windows: &settings.windows,
            since: None,
            now,
        };
        let report = me::told(&me::report(settings), &moment);
        let told = BoardReports::open(settings)
            .and_then(|reports| reports.map_or(Ok(()), |mut reports| reports.put(&report)));
        if let Err(error) = told {
            stage.warn(&format!("the board is not told how this node does: {}", chain(&error)));
        }
    }

    /// Reads the records.
    pub(in crate::cycle) fn hear(&self, stage: &mut dyn Stage) {
        let heard = me::records(self.settings).map_err(|error| chain(&error)).and_then(|records| {
            let Some(mut records) = records else { return Ok(()) };
            let all = me::read(&mut records).map_err(|error| chain(&error))?;
            let paths = self.settings.paths();
            if !Course::is_news(&paths, &all) {
                return Ok(());
            }
            Course::take_over(&paths, all, &me::report(self.settings)).map_err(|error| chain(&error))
        });
        if let Err(words) = heard {
            stage.warn(&format!(
                "rollouts cannot be read, so the node goes by what it last heard of them: {words}"
            ));
        }
    }
}

//! Hand-over of the daemon or remotes in, what the remotes offer out.

use std::time::Instant;

use jiff::Timestamp;
use zagent_cache::CacheError;
use zagent_cache::source::{Deadline, RemoteHeads, RemotePoll, Remotes, SourceError};

use super::{StatesSync, SyncOptions, followed_branch, testing_branch};
use crate::decide::SyncDecision;

impl StatesSync<'_> {
    /// Polls the remotes; the errors when none answered.
    pub(super) fn poll_remotes(
        &mut self,
        remotes: &mut Remotes,
        deadline: Deadline,
        now: Timestamp,
    ) -> Result<RemoteHeads, Vec<SourceError>> {
        let testing = testing_branch(self.settings);
        let RemotePoll { heads: found, failed } = remotes.poll(testing.as_deref(), Instant::now(), deadline);
        self.memory.note_remotes(&failed, found.as_ref(), now);
        found.ok_or(failed)
    }

    /// What the daemon polled and decided, when it still holds. An order to look closer needs a poll.
    pub(super) fn accept_handover(
        &self,
        remotes: &Remotes,
        options: SyncOptions,
        now: Timestamp,
    ) -> Result<Option<(RemoteHeads, SyncDecision)>, CacheError> {
        let Some(handover) = self.handover else { return Ok(None) };
        if options.preview || options.reverify || options.allow_rewind || options.retry_refused {
            return Ok(None);
        }
        let (pin, testing) = (self.orders.pin.as_ref(), testing_branch(self.settings));
        let Some(branch) = followed_branch(self.settings, pin, handover.remote()) else { return Ok(None) };
        let given = self.with_view(options, now, |view| {
            handover.accept(remotes, (branch, testing.as_deref()), view, now)
        })?;
        if given.is_none() {
            tracing::debug!("the poll of the daemon is out of date: polling again");
        }
        Ok(given)
    }
}

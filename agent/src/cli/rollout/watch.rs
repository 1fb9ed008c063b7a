//! `zagent rollout watch`: follows a rollout with another driver until it is over.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_rollout::record::RolloutRecord;

use super::board_args::{self, BoardArgs};
use super::progress::{self, RolloutProgress};
use super::{drive, is_active, is_clock_done, pick_record, status};
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::CancelToken;
use zagent_run::SignalWatcher;

/// Poll interval of the record.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Follow a rollout until it is over
#[derive(Debug, clap::Args)]
pub(super) struct RolloutWatchArgs {
    /// Rollout ID; default: the active one, otherwise the newest
    #[arg(value_name = "ID")]
    id: Option<RolloutId>,

    #[command(flatten)]
    place: BoardArgs,
}

impl RolloutWatchArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut records = board_args::open_records_for_review(&settings)?;
        let cancel = Arc::new(CancelToken::new());
        let _signals = SignalWatcher::watch(&cancel);
        let mut record = pick_record(records.as_mut(), self.id.as_ref())?.value;
        let mut live = RolloutProgress::new(self.format(), false, ui);
        let mut lonely = false;
        loop {
            let now = Timestamp::now();
            live.show_record(&record, now, ui);
            if !is_active(&record, now) || cancel.is_cancelled() {
                break;
            }
            if status::is_stale(&record, now) != lonely {
                lonely = !lonely;
                if lonely {
                    live.print_message(&format!("no active driver: zagent rollout drive {}", record.id), ui);
                }
            }
            progress::wait_redrawing(POLL_INTERVAL, std::iter::once(&live), &cancel);
            match records.get(&record.id) {
                Ok(Some(held)) => record = held.value,
                Ok(None) => {
                    live.finish();
                    return Err(AgentError::failed(format!("the rollout `{}` was deleted", record.id)));
                }
                Err(error) => live.print_message(&board_args::to_agent_error(error).summary(), ui),
            }
        }
        live.finish();
        self.print_end(&record, ui);
        let needless = record.dry_run || is_clock_done(&record, Timestamp::now());
        Ok(if needless { ExitStatus::Success } else { drive::exit_status(&record) })
    }

    fn print_end(&self, record: &RolloutRecord, ui: &mut Ui<'_>) {
        self.place.print(&format!("{}\n", drive::end_summary(record)), record, ui);
    }
}

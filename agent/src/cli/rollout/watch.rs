//! `zagent rollout watch`: a rollout that somebody else drives, until it is over.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_rollout::record::Record;

use super::live::{self, Live};
use super::place::{self, Place};
use super::{drive, is_active, is_spent, look, picked};
use crate::host::Cancel;
use crate::output::{Format, Ui};
use crate::report::{Exit, Trouble};
use crate::run::Signals;

/// How often the record is read.
const LOOK: Duration = Duration::from_secs(3);

/// Follow a rollout until it is over
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The rollout; default: the one under way, else the newest
    #[arg(value_name = "ID")]
    id: Option<RolloutId>,

    #[command(flatten)]
    place: Place,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut records = place::records(&settings)?;
        let cancel = Arc::new(Cancel::new());
        let _signals = Signals::watch(&cancel);
        let mut record = picked(records.as_mut(), self.id.as_ref())?.value;
        let mut live = Live::new(self.format(), false, ui);
        let mut lonely = false;
        loop {
            let now = Timestamp::now();
            live.tell(&record, now, ui);
            if !is_active(&record, now) || cancel.is_said() {
                break;
            }
            if look::is_stale(&record, now) != lonely {
                lonely = !lonely;
                if lonely {
                    live.say(&format!("nobody drives it: zagent rollout drive {}", record.id), ui);
                }
            }
            live::rest(LOOK, std::iter::once(&live), &cancel);
            match records.get(&record.id) {
                Ok(Some(held)) => record = held.value,
                Ok(None) => {
                    live.end();
                    return Err(Trouble::failed(format!("the rollout `{}` was deleted", record.id)));
                }
                Err(error) => live.say(&place::trouble(error).words(), ui),
            }
        }
        live.end();
        self.tell(&record, ui);
        let needless = record.dry_run || is_spent(&record, Timestamp::now());
        Ok(if needless { Exit::Fine } else { drive::exit(&record) })
    }

    fn tell(&self, record: &Record, ui: &mut Ui<'_>) {
        self.place.print(&format!("{}\n", drive::ended(record)), record, ui);
    }
}

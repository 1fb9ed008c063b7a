//! A record and the settings in, whether it is obeyed here out: its fleet, and the signatures of its order.
//!
//! Law: a record that is not accepted moves no node and no driver, whatever else it says; `anyway` in it changes
//! nothing about that. Whether an order has expired depends on the time, and is decided by [`crate::node`] and the
//! driver (held by `a_record_is_obeyed_only_in_its_fleet_and_with_enough_signatures`,
//! `an_expired_order_starts_nothing_and_still_ends_what_it_started`).

use std::path::Path;

use jiff::Timestamp;
use zagent_cache::trust::{RECORD_NAMESPACE, RecordTrust, SignError, SignatureError, sign};
use zagent_config::ids::FleetId;
use zagent_config::settings::Settings;

use crate::record::{RolloutRecord, SealedOrder, UNBOUND_SCHEMA};
use crate::stored_record::seal_order;

/// What a record needs to be obeyed here.
#[derive(Clone, Debug, Default)]
pub struct RecordPolicy {
    fleet: Option<FleetId>,
    /// `None` when nothing need be signed.
    trust: Option<RecordTrust>,
}

/// The signatures of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderSignatures {
    /// The people who signed it, as far as this host knows their keys.
    pub signers: Vec<String>,
    /// How many are needed; 0 when none is.
    pub needed: usize,
}

/// Why a record is not obeyed.
#[derive(Debug, thiserror::Error)]
pub enum RecordRefusal {
    /// It was written for another fleet.
    #[error("it is for the fleet `{found}`, and `fleet:` here is {}", own.as_ref().map_or_else(|| "not set".to_owned(), |own| format!("`{own}`")))]
    OtherFleet {
        /// The fleet in the record.
        found: FleetId,
        /// The fleet of this host.
        own: Option<FleetId>,
    },
    /// It names no fleet.
    #[error("it names no fleet, and `fleet:` here is `{own}`")]
    NoFleet {
        /// The fleet of this host.
        own: FleetId,
    },
    /// An older version wrote it: nothing in it can be bound or signed.
    #[error("an older version of zagent wrote it, without a fleet and without signatures of its own")]
    Unbound,
    /// Fewer people signed it than needed.
    #[error("its order has {have} of {need} signatures{}{}", by(whom), not_accepted(refused))]
    TooFewSignatures {
        /// How many there are.
        have: usize,
        /// How many are needed.
        need: usize,
        /// Whose.
        whom: Vec<String>,
        /// Why others are not accepted.
        refused: Vec<String>,
    },
    /// Its signatures are not accepted.
    #[error("the signature of its order is not accepted")]
    Signature(#[source] SignatureError),
}

fn by(whom: &[String]) -> String {
    if whom.is_empty() { String::new() } else { format!(" ({})", whom.join(", ")) }
}

fn not_accepted(refused: &[String]) -> String {
    if refused.is_empty() { String::new() } else { format!("; not accepted: {}", refused.join("; ")) }
}

impl RecordRefusal {
    /// True when the record is not for this host: what was known of it before is forgotten too.
    #[must_use]
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::OtherFleet { .. } | Self::NoFleet { .. } | Self::Unbound)
    }

    /// True when more signatures make it good.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        matches!(self, Self::TooFewSignatures { .. })
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self, record: &RolloutRecord) -> String {
        let id = &record.id;
        match self {
            Self::OtherFleet { .. } => {
                "if this host belongs to that fleet, set `fleet:` in its configuration".to_owned()
            }
            Self::NoFleet { .. } => format!(
                "set `fleet:` where rollouts are started, delete the branch `rollout/{id}`, and start it again with \
                 `zagent rollout start`"
            ),
            Self::Unbound => format!(
                "delete the branch `rollout/{id}` and start it again with `zagent rollout start` of this version"
            ),
            Self::TooFewSignatures { .. } => {
                format!("another person signs it with `zagent rollout sign {id}`")
            }
            Self::Signature(error) => error.hint(),
        }
    }

    /// The reason with its causes and how to fix it, on one line.
    #[must_use]
    pub fn text(&self, record: &RolloutRecord) -> String {
        let cause = std::error::Error::source(self).map(|source| format!(": {source}")).unwrap_or_default();
        format!("{self}{cause}; {}", self.hint(record))
    }
}

impl RecordPolicy {
    /// From the settings.
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Self {
        Self { fleet: settings.fleet.clone(), trust: RecordTrust::from_settings(settings) }
    }

    /// For a fleet, without signatures.
    #[must_use]
    pub const fn for_fleet(fleet: Option<FleetId>) -> Self {
        Self { fleet, trust: None }
    }

    /// True when a record must be signed.
    #[must_use]
    pub const fn needs_signatures(&self) -> bool {
        self.trust.is_some()
    }

    /// The signatures that an order needs; 0 when it needs none.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.trust.as_ref().map_or(0, |trust| trust.trust.threshold.max(1))
    }

    /// The signatures of a record that is obeyed here.
    ///
    /// # Errors
    /// Fails when it is not.
    pub fn judge(&self, record: &RolloutRecord, now: Timestamp) -> Result<OrderSignatures, RecordRefusal> {
        self.judge_fleet(record)?;
        let Some(trust) = &self.trust else { return Ok(OrderSignatures::default()) };
        let needed = self.needed();
        // A record that is not written yet has no signature either.
        let sealed = record.sealed.as_deref();
        let (text, signatures) =
            sealed.map_or(("", ""), |sealed| (sealed.text.as_str(), sealed.signatures.as_str()));
        let signers = trust.signers().map_err(RecordRefusal::Signature)?;
        match signers.verify_order(text.as_bytes(), signatures, needed, now) {
            Ok(people) => {
                Ok(OrderSignatures { signers: people.into_iter().map(|one| one.principal).collect(), needed })
            }
            Err(SignatureError::TooFew { have, need, whom, refused }) => {
                Err(RecordRefusal::TooFewSignatures { have, need, whom, refused })
            }
            Err(SignatureError::Unsigned { .. }) => {
                let (whom, refused) = (vec![], vec![]);
                Err(RecordRefusal::TooFewSignatures { have: 0, need: needed, whom, refused })
            }
            Err(error) => Err(RecordRefusal::Signature(error)),
        }
    }

    /// The accepted signatures of an order, whether or not they are enough.
    #[must_use]
    pub fn signatures(&self, record: &RolloutRecord, now: Timestamp) -> OrderSignatures {
        let needed = self.needed();
        match self.judge(record, now) {
            Ok(signatures) => signatures,
            Err(RecordRefusal::TooFewSignatures { whom, .. }) => OrderSignatures { signers: whom, needed },
            Err(_) => OrderSignatures { signers: vec![], needed },
        }
    }

    fn judge_fleet(&self, record: &RolloutRecord) -> Result<(), RecordRefusal> {
        let is_bound_here = self.fleet.is_some() || self.trust.is_some();
        if record.schema <= UNBOUND_SCHEMA && is_bound_here {
            return Err(RecordRefusal::Unbound);
        }
        match (&record.fleet, &self.fleet) {
            (None, None) => Ok(()),
            (Some(found), Some(own)) if found == own => Ok(()),
            (Some(found), own) => Err(RecordRefusal::OtherFleet { found: found.clone(), own: own.clone() }),
            (None, Some(own)) => Err(RecordRefusal::NoFleet { own: own.clone() }),
        }
    }
}

/// Why an order could not be signed.
#[derive(Debug, thiserror::Error)]
pub enum OrderSignError {
    /// It cannot be written as text.
    #[error("cannot write the order of `{id}` as text: {why}")]
    Text {
        /// Which rollout.
        id: String,
        /// The problem.
        why: String,
    },
    /// It is in the old format, which has no place for signatures.
    #[error("`{id}` was written by an older version of zagent, and cannot be signed")]
    Unbound {
        /// Which rollout.
        id: String,
    },
    /// Signing failed.
    #[error("cannot sign the order of `{id}`")]
    Sign {
        /// Which rollout.
        id: String,
        /// Why.
        #[source]
        source: SignError,
    },
}

/// Adds a signature to the order of a record; seals it first if it never was.
///
/// # Errors
/// Fails when the key cannot be used.
pub fn sign_order(record: &mut RolloutRecord, key: &Path) -> Result<(), OrderSignError> {
    let id = || record.id.to_string();
    if record.schema <= UNBOUND_SCHEMA {
        return Err(OrderSignError::Unbound { id: id() });
    }
    let mut sealed: SealedOrder = match &record.sealed {
        Some(sealed) => SealedOrder::clone(sealed),
        None => seal_order(record).map_err(|why| OrderSignError::Text { id: id(), why })?,
    };
    let signature = sign(key, RECORD_NAMESPACE, sealed.text.as_bytes())
        .map_err(|source| OrderSignError::Sign { id: id(), source })?;
    if !sealed.signatures.is_empty() && !sealed.signatures.ends_with('\n') {
        sealed.signatures.push('\n');
    }
    sealed.signatures.push_str(&signature);
    record.sealed = Some(Box::new(sealed));
    Ok(())
}

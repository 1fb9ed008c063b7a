//! Messages of this process in, the same without the secrets that this process has read out.
//!
//! What a run reports is masked where it leaves the run. Logs, warnings and panics come from anywhere, also from other
//! people's crates: they are masked where they are written, by what the process knows until then.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use super::{Secret, SecretMask};

/// Every secret that this process has read, and their mask.
static KNOWN: RwLock<Option<(Vec<Secret>, SecretMask)>> = RwLock::new(None);

/// From now on no message of this process shows these secrets.
pub fn hide_in_messages(secrets: &[Secret]) {
    if secrets.is_empty() {
        return;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let (all, mask) = known.get_or_insert_with(Default::default);
    let before = all.len();
    for secret in secrets {
        if !all.contains(secret) {
            all.push(secret.clone());
        }
    }
    if all.len() > before {
        *mask = SecretMask::new(all);
    }
}

/// A message without the secrets that this process has read.
#[must_use]
pub fn mask_message(text: &str) -> Cow<'_, str> {
    match &*KNOWN.read().unwrap_or_else(PoisonError::into_inner) {
        Some((_, mask)) => mask.mask_str(text),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_no_secret_that_was_read() {
        hide_in_messages(&["first-of-messages".into()]);
        hide_in_messages(&["second-of-messages".into(), "first-of-messages".into()]);
        assert_eq!(mask_message("a first-of-messages second-of-messages"), "a ******** ********");
    }
}

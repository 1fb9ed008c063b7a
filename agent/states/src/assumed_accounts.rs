//! Users and groups that would be there by now, in a dry run: names with numbers that nobody has.
//!
//! Law: only a dry run assumes accounts. A thread that runs no state of a dry run never sees them (held by
//! `names_are_known_where_they_are_imagined`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The first number that is given out; real ones are far below.
const FIRST_ASSUMED_ID: u32 = 4_200_000_000;

thread_local! {
    static CURRENT_ACCOUNTS: RefCell<Option<Arc<AssumedAccounts>>> = const { RefCell::new(None) };
}

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountKind {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// The names of one dry run.
#[derive(Debug, Default)]
pub struct AssumedAccounts(Mutex<BTreeMap<(AccountKind, String), u32>>);

impl AssumedAccounts {
    /// Notes that there would be such a name; `id` when its number is known.
    pub fn add(&self, kind: AccountKind, name: &str, id: Option<u32>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = FIRST_ASSUMED_ID + u32::try_from(names.len()).unwrap_or_default();
        names.entry((kind, name.to_owned())).or_insert_with(|| id.unwrap_or(next));
    }

    fn get(&self, kind: AccountKind, name: &str) -> Option<u32> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(kind, name.to_owned())).copied()
    }

    fn name(&self, kind: AccountKind, id: i64) -> Option<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut his = names.iter().filter(|((of, _), own)| *of == kind && i64::from(**own) == id);
        his.next().map(|((_, name), _)| name.clone())
    }
}

/// The number of a name that a state before this one would have made.
pub(crate) fn assumed_id(kind: AccountKind, name: &str) -> Option<u32> {
    CURRENT_ACCOUNTS.with_borrow(|here| here.as_ref()?.get(kind, name))
}

/// The name that a state before this one would have given a number.
pub(crate) fn assumed_name(kind: AccountKind, id: i64) -> Option<String> {
    CURRENT_ACCOUNTS.with_borrow(|here| here.as_ref()?.name(kind, id))
}

/// While it lives, this thread knows these names.
#[derive(Debug)]
pub struct AssumedScope(Option<Arc<AssumedAccounts>>);

impl AssumedScope {
    /// Tells this thread.
    pub fn enter(names: &Arc<AssumedAccounts>) -> Self {
        Self(CURRENT_ACCOUNTS.replace(Some(Arc::clone(names))))
    }
}

impl Drop for AssumedScope {
    fn drop(&mut self) {
        CURRENT_ACCOUNTS.replace(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_where_they_are_imagined() {
        let names = Arc::new(AssumedAccounts::default());
        names.add(AccountKind::User, "app", None);
        names.add(AccountKind::Group, "app", Some(950));
        names.add(AccountKind::Group, "app", None);
        assert_eq!(assumed_id(AccountKind::User, "app"), None);
        {
            let _known = AssumedScope::enter(&names);
            assert_eq!(assumed_id(AccountKind::User, "app"), Some(FIRST_ASSUMED_ID));
            assert_eq!(assumed_id(AccountKind::Group, "app"), Some(950));
            assert_eq!(assumed_id(AccountKind::Group, "other"), None);
            assert_eq!(assumed_name(AccountKind::Group, 950).as_deref(), Some("app"));
            assert_eq!(assumed_name(AccountKind::User, 950), None);
            assert_eq!(std::thread::spawn(|| assumed_id(AccountKind::User, "app")).join().unwrap(), None);
        }
        assert_eq!(assumed_id(AccountKind::User, "app"), None);
    }
}

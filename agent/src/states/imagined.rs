//! Users and groups that would be there by now, in a dry run: names with numbers that nobody has.
//!
//! Law: only a dry run imagines. Who asks for a name on a thread that runs no state of a dry run never hears of these.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The first number that is given out; real ones are far below.
const FIRST: u32 = 4_200_000_000;

thread_local! {
    static HERE: RefCell<Option<Arc<Names>>> = const { RefCell::new(None) };
}

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// The names of one dry run.
#[derive(Debug, Default)]
pub struct Names(Mutex<BTreeMap<(Whose, String), u32>>);

impl Names {
    /// Notes that there would be such a name; `id` when its number is known.
    pub(crate) fn add(&self, kind: Whose, name: &str, id: Option<u32>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = FIRST + u32::try_from(names.len()).unwrap_or_default();
        names.entry((kind, name.to_owned())).or_insert_with(|| id.unwrap_or(next));
    }

    fn get(&self, kind: Whose, name: &str) -> Option<u32> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(kind, name.to_owned())).copied()
    }

    fn name(&self, kind: Whose, id: i64) -> Option<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut his = names.iter().filter(|((of, _), own)| *of == kind && i64::from(**own) == id);
        his.next().map(|((_, name), _)| name.clone())
    }
}

/// The number of a name that a state before this one would have made.
pub(crate) fn id(kind: Whose, name: &str) -> Option<u32> {
    HERE.with_borrow(|here| here.as_ref()?.get(kind, name))
}

/// The name that a state before this one would have given a number.
pub(crate) fn name(kind: Whose, id: i64) -> Option<String> {
    HERE.with_borrow(|here| here.as_ref()?.name(kind, id))
}

/// While it lives, this thread knows these names.
#[derive(Debug)]
pub(crate) struct Known(Option<Arc<Names>>);

impl Known {
    /// Tells this thread.
    pub(crate) fn here(names: &Arc<Names>) -> Self {
        Self(HERE.replace(Some(Arc::clone(names))))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        HERE.replace(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_where_they_are_imagined() {
        let names = Arc::new(Names::default());
        names.add(Whose::User, "app", None);
        names.add(Whose::Group, "app", Some(950));
        names.add(Whose::Group, "app", None);
        assert_eq!(id(Whose::User, "app"), None);
        {
            let _known = Known::here(&names);
            assert_eq!(id(Whose::User, "app"), Some(FIRST));
            assert_eq!(id(Whose::Group, "app"), Some(950));
            assert_eq!(id(Whose::Group, "other"), None);
            assert_eq!(name(Whose::Group, 950).as_deref(), Some("app"));
            assert_eq!(name(Whose::User, 950), None);
            assert_eq!(std::thread::spawn(|| id(Whose::User, "app")).join().unwrap(), None);
        }
        assert_eq!(id(Whose::User, "app"), None);
    }
}

//! Who touches what right now: states on the same thing never run at the same time.

use std::path::Path;

use zagent_states::LockKey;

/// What running states hold.
#[derive(Debug, Default)]
pub(crate) struct StateLocks(Vec<(usize, Vec<LockKey>)>);

impl StateLocks {
    /// True when nobody holds any of these.
    pub(crate) fn are_free(&self, wanted: &[LockKey]) -> bool {
        !self.0.iter().any(|(_, held)| held.iter().any(|h| wanted.iter().any(|w| conflicts(h, w))))
    }

    /// Takes them for a state.
    pub(crate) fn acquire(&mut self, state: usize, wanted: Vec<LockKey>) {
        self.0.push((state, wanted));
    }

    /// The states that hold something, or run without holding anything.
    pub(crate) fn holders(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(state, _)| *state)
    }

    /// Gives back what a state held.
    pub(crate) fn release(&mut self, state: usize) {
        self.0.retain(|(holder, _)| *holder != state);
    }
}

fn conflicts(a: &LockKey, b: &LockKey) -> bool {
    match (a, b) {
        (LockKey::Path(a), LockKey::Path(b)) => is_below(a, b) || is_below(b, a),
        (a, b) => a == b,
    }
}

fn is_below(path: &Path, parent: &Path) -> bool {
    path.starts_with(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_excludes_its_parents_its_children_and_itself() {
        let path = |p: &str| LockKey::Path(p.into());
        let table = [
            ("/etc/a", "/etc/a", true),
            ("/etc/a", "/etc", true),
            ("/etc", "/etc/a/b", true),
            ("/etc/a", "/etc/ab", false),
            ("/etc/a", "/etc/b", false),
        ];
        for (held, wanted, collides) in table {
            let mut holds = StateLocks::default();
            holds.acquire(1, vec![path(held)]);
            assert_eq!(holds.are_free(&[path(wanted)]), !collides, "{held} against {wanted}");
        }
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let mut holds = StateLocks::default();
        holds.acquire(1, vec![LockKey::Packages]);
        holds.acquire(2, vec![LockKey::Users]);
        assert!(!holds.are_free(&[LockKey::Packages]));
        assert!(holds.are_free(&[LockKey::Services]));
        holds.release(1);
        assert!(holds.are_free(&[LockKey::Packages]) && !holds.are_free(&[LockKey::Users]));
    }
}

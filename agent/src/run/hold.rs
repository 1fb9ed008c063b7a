//! Who touches what right now: states on the same thing never run at the same time.

use std::path::Path;

use crate::states::Resource;

/// What running states hold.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<(usize, Vec<Resource>)>);

impl Holds {
    /// True when nobody holds any of these.
    pub(super) fn are_free(&self, wanted: &[Resource]) -> bool {
        !self.0.iter().any(|(_, held)| held.iter().any(|h| wanted.iter().any(|w| collide(h, w))))
    }

    /// Takes them for a state.
    pub(super) fn take(&mut self, state: usize, wanted: Vec<Resource>) {
        self.0.push((state, wanted));
    }

    /// Gives back what a state held.
    pub(super) fn give_back(&mut self, state: usize) {
        self.0.retain(|(holder, _)| *holder != state);
    }
}

fn collide(a: &Resource, b: &Resource) -> bool {
    match (a, b) {
        (Resource::Path(a), Resource::Path(b)) => is_below(a, b) || is_below(b, a),
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
        let path = |p: &str| Resource::Path(p.into());
        let table = [
            ("/etc/a", "/etc/a", true),
            ("/etc/a", "/etc", true),
            ("/etc", "/etc/a/b", true),
            ("/etc/a", "/etc/ab", false),
            ("/etc/a", "/etc/b", false),
        ];
        for (held, wanted, collides) in table {
            let mut holds = Holds::default();
            holds.take(1, vec![path(held)]);
            assert_eq!(holds.are_free(&[path(wanted)]), !collides, "{held} against {wanted}");
        }
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let mut holds = Holds::default();
        holds.take(1, vec![Resource::Packages]);
        holds.take(2, vec![Resource::Users]);
        assert!(!holds.are_free(&[Resource::Packages]));
        assert!(holds.are_free(&[Resource::Services]));
        holds.give_back(1);
        assert!(holds.are_free(&[Resource::Packages]) && !holds.are_free(&[Resource::Users]));
    }
}

//! `user.absent`: a user that should not be.

use std::path::Path;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::{holds, seen, things};
use crate::fs::Kind;
use crate::host::accounts::acts::Accounts;
use crate::host::accounts::{self, User};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Veil};

/// What is told of a home that goes.
const GONE: &str = "removed with all that is in it";

pub(super) struct Absent {
    name: String,
    purge: bool,
    force: bool,
    local: bool,
}

impl Absent {
    pub(super) fn read(args: &Args<'_>) -> Self {
        let flag = |key| args.flag(key, false);
        Self { name: args.name(), purge: flag("purge"), force: flag("force"), local: flag("local") }
    }

    fn find(&self, scene: &Scene<'_>) -> Result<Option<User>, Failure> {
        let find = if self.local { accounts::find_local } else { accounts::find };
        Ok(find(scene.tools().machine, &self.name)?)
    }

    /// The home that goes with the user; Salt does not tell of it. What belongs to somebody else stays, unless that is forced.
    fn lost<'u>(&self, user: &'u User, scene: &Scene<'_>) -> Result<Option<&'u str>, Failure> {
        if !self.purge || scene.compat == Compat::Salt {
            return Ok(None);
        }
        let found = scene.fs.lstat(Path::new(&user.home))?.filter(|found| found.kind == Kind::Dir);
        let is_lost = found.is_some_and(|found| self.force || i64::from(found.uid) == user.uid);
        Ok(is_lost.then_some(&*user.home))
    }
}

impl State for Absent {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let Some(user) = self.find(scene)? else {
            return Ok(Look::right(format!("User {} is not present", self.name)));
        };
        let mut changes = Map::from_iter([(self.name.as_str(), Value::from("removed"))]);
        let mut words = format!("User {} set for removal", self.name);
        if let Some(home) = self.lost(&user, scene)? {
            words.push_str(&format!(", and with it {home} and all that is in it"));
            changes.insert(home, GONE);
        }
        Ok(Look::drift(words, changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let acts = Accounts(scene.tools());
        let machine = acts.0.machine;
        let user = self.find(scene)?;
        let before = user.as_ref().map(|user| accounts::groups_of(machine, user)).transpose()?;
        let home = user.as_ref().map_or(Ok(None), |user| self.lost(user, scene))?;
        scene.change(&things::USER, self.name.as_str(), || {
            acts.delete_user(&self.name, self.purge, self.force)
                .map_err(|e| Failure::new(format!("Failed to remove user {}: {}", self.name, e.words())))
        })?;
        let mut changes = Map::new();
        for group in before.unwrap_or_default() {
            if accounts::find_local_group(machine, &group)?.is_none() {
                changes.insert(format!("{group} group"), "removed");
            }
        }
        changes.insert(self.name.as_str(), "removed");
        if let Some(home) = home
            && scene.fs.lstat(Path::new(home))?.is_none()
        {
            changes.insert(home, GONE);
        }
        Ok(Done::new(format!("Removed user {}", self.name), changes))
    }

    fn sees(&self) -> Veil {
        seen()
    }

    fn veils(&self) -> Veil {
        if self.purge { Veil::USERS | Veil::FILES } else { Veil::USERS }
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        holds(hidden)
    }

    fn irreversible(&self) -> Option<&'static str> {
        self.purge
            .then_some("the files of its home directory and its mail are gone; the user itself comes back")
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Users]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::stage::Stage;

    #[test]
    fn a_purge_tells_of_the_home() {
        let stage = Stage::strict();
        std::fs::create_dir(stage.path("home")).expect("made");
        let uid = nix::unistd::Uid::effective().as_raw().into();
        let text = |text: &str| text.to_owned();
        let user = |uid: i64, home: &str| User {
            name: text("x"),
            password: text("x"),
            uid,
            gid: uid,
            gecos: String::new(),
            home: stage.path(home),
            shell: String::new(),
        };
        let lost = |purge: bool, force: bool, user: &User| {
            let state = Absent { name: text("x"), purge, force, local: false };
            state.lost(user, &stage.scene()).expect("looked at").map(str::to_owned)
        };
        let own = user(uid, "home");
        assert_eq!(lost(true, false, &own), Some(stage.path("home")));
        assert_eq!(lost(false, false, &own), None);
        assert_eq!(lost(true, false, &user(uid, "nowhere")), None);
        assert_eq!(lost(true, false, &user(uid + 1, "home")), None, "somebody else's stays");
        assert_eq!(lost(true, true, &user(uid + 1, "home")), Some(stage.path("home")));
    }
}

//! `user.absent`: a user that should not be.

use zagent_config::{Map, Value};

use super::{holds, seen, things};
use crate::host::accounts::acts::Accounts;
use crate::host::accounts::{self, User};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Veil};

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
}

impl State for Absent {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if self.find(scene)?.is_none() {
            return Ok(Look::right(format!("User {} is not present", self.name)));
        }
        let changes = Map::from_iter([(self.name.as_str(), Value::from("removed"))]);
        Ok(Look::drift(format!("User {} set for removal", self.name), changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let acts = Accounts(scene.tools());
        let machine = acts.0.machine;
        let before = self.find(scene)?.map(|user| accounts::groups_of(machine, &user)).transpose()?;
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

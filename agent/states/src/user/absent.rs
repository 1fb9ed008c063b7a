//! `user.absent`: a user that should not be.

use std::path::Path;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::undo;
use crate::shared::accounts::{account_reads, is_still_valid};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError};
use zagent_host::accounts;
use zagent_host::accounts::PasswdEntry;
use zagent_host::accounts::account_tools::AccountTools;
use zagent_host::fs::FileKind;

/// What is told of a home that goes.
const HOME_REMOVED: &str = "removed with all that is in it";

pub struct UserAbsent {
    name: String,
    purge: bool,
    force: bool,
    local: bool,
}

impl UserAbsent {
    pub fn from_args(args: &ChunkArgs<'_>) -> Self {
        let flag = |key| args.flag(key, false);
        Self { name: args.name(), purge: flag("purge"), force: flag("force"), local: flag("local") }
    }

    fn find_user(&self, ctx: &StateCtx<'_>) -> Result<Option<PasswdEntry>, StateError> {
        let find = if self.local { accounts::find_local_user } else { accounts::find_user };
        Ok(find(ctx.tools().machine, &self.name)?)
    }

    /// The home that goes with the user; Salt does not tell of it. What belongs to somebody else stays, unless that is forced.
    fn removed_home<'u>(
        &self,
        user: &'u PasswdEntry,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<&'u str>, StateError> {
        if !self.purge || ctx.compat == Compat::Salt {
            return Ok(None);
        }
        let found = ctx.fs.lstat(Path::new(&user.home))?.filter(|found| found.kind == FileKind::Dir);
        let is_lost = found.is_some_and(|found| self.force || i64::from(found.uid) == user.uid);
        Ok(is_lost.then_some(&*user.home))
    }
}

impl State for UserAbsent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let Some(user) = self.find_user(ctx)? else {
            return Ok(CheckResult::in_sync(format!("User {} is not present", self.name)));
        };
        let mut changes = Map::from_iter([(self.name.as_str(), Value::from("removed"))]);
        let mut words = format!("User {} set for removal", self.name);
        if let Some(home) = self.removed_home(&user, ctx)? {
            words.push_str(&format!(", and with it {home} and all that is in it"));
            changes.insert(home, HOME_REMOVED);
        }
        Ok(CheckResult::drifted(words, changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let acts = AccountTools(ctx.tools());
        let machine = acts.0.machine;
        let user = self.find_user(ctx)?;
        let before = user.as_ref().map(|user| accounts::groups_of_user(machine, user)).transpose()?;
        let home = user.as_ref().map_or(Ok(None), |user| self.removed_home(user, ctx))?;
        ctx.with_undo(&undo::USER_UNDO, self.name.as_str(), || {
            acts.delete_user(&self.name, self.purge, self.force)
                .map_err(|e| StateError::new(format!("Failed to remove user {}: {}", self.name, e.message())))
        })?;
        let mut changes = Map::new();
        for group in before.unwrap_or_default() {
            if accounts::find_local_group(machine, &group)?.is_none() {
                changes.insert(format!("{group} group"), "removed");
            }
        }
        changes.insert(self.name.as_str(), "removed");
        if let Some(home) = home
            && ctx.fs.lstat(Path::new(home))?.is_none()
        {
            changes.insert(home, HOME_REMOVED);
        }
        Ok(ApplyResult::new(format!("Removed user {}", self.name), changes))
    }

    fn reads(&self) -> Effects {
        account_reads()
    }

    fn writes(&self) -> Effects {
        if self.purge { Effects::USERS | Effects::FILES } else { Effects::USERS }
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        is_still_valid(hidden)
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        self.purge
            .then_some("the files of its home directory and its mail are gone; the user itself comes back")
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Users]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::StateTestBed;

    #[test]
    fn a_purge_tells_of_the_home() {
        let test_bed = StateTestBed::strict();
        std::fs::create_dir(test_bed.path("home")).expect("made");
        let uid = nix::unistd::Uid::effective().as_raw().into();
        let text = |text: &str| text.to_owned();
        let user = |uid: i64, home: &str| PasswdEntry {
            name: text("x"),
            password: text("x"),
            uid,
            gid: uid,
            gecos: String::new(),
            home: test_bed.path(home),
            shell: String::new(),
        };
        let lost = |purge: bool, force: bool, user: &PasswdEntry| {
            let state = UserAbsent { name: text("x"), purge, force, local: false };
            state.removed_home(user, &test_bed.scene()).expect("looked at").map(str::to_owned)
        };
        let own = user(uid, "home");
        assert_eq!(lost(true, false, &own), Some(test_bed.path("home")));
        assert_eq!(lost(false, false, &own), None);
        assert_eq!(lost(true, false, &user(uid, "nowhere")), None);
        assert_eq!(lost(true, false, &user(uid + 1, "home")), None, "somebody else's stays");
        assert_eq!(lost(true, true, &user(uid + 1, "home")), Some(test_bed.path("home")));
    }
}

//! An account as it is and as it is declared in, what differs out.

use std::path::Path;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::UserPresent;
use crate::shared::account_checks;
use crate::{StateCtx, StateError};
use zagent_host::Machine;
use zagent_host::accounts;
use zagent_host::accounts::{GECOS_FIELDS, PasswdEntry, REDACTED};
use zagent_host::fs::FileKind;

impl UserPresent {
    /// What has to change in a user that is there, by Salt's names.
    pub(super) fn changes(&self, user: &PasswdEntry, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
        let tools = ctx.tools();
        let machine = tools.machine;
        let mut change = Map::new();
        if let Some(uid) = self.uid.filter(|uid| *uid != user.uid) {
            change.insert("uid", uid);
        }
        if let Some(gid) = self.main_group(machine)?
            && Self::resolve_gid(machine, &gid)? != Some(user.gid)
        {
            change.insert("gid", gid);
        }
        if let Some(groups) = self.group_changes(user, machine)? {
            change.insert("groups", groups.into_iter().map(Value::from).collect::<Value>());
        }
        if let Some(home) = self.home.as_ref().filter(|home| **home != user.home) {
            change.insert("home", home.as_str());
        }
        let home = self.home.as_ref().unwrap_or(&user.home);
        if self.createhome
            && home.starts_with('/')
            && ctx.fs.stat(Path::new(home))?.is_none_or(|s| s.kind != FileKind::Dir)
        {
            change.insert("homeDoesNotExist", home.as_str());
        }
        if let Some(shell) = self.shell.as_ref().filter(|shell| **shell != user.shell) {
            change.insert("shell", shell.as_str());
        }
        self.password_changes(machine, &mut change)?;
        for ((part, is), key) in self.gecos.iter().zip(user.gecos_fields()).zip(GECOS_FIELDS) {
            if let Some(part) = part.as_ref().filter(|part| **part != is) {
                change.insert(key, part.as_str());
            }
        }
        self.verify_id_change(user, &change)?;
        Ok(change)
    }

    /// Numbers own files, so a change of one has to be allowed.
    fn verify_id_change(&self, user: &PasswdEntry, change: &Map) -> Result<(), StateError> {
        let mut faults = String::new();
        for (key, is, may) in [("uid", user.uid, self.may_change_uid), ("gid", user.gid, self.may_change_gid)]
        {
            if let Some(new) = change.get(key).filter(|_| !may) {
                faults.push_str(&format!(
                    "\nChanging {key} ({is} -> {}) not permitted, set allow_{key}_change to True to force this \
                     change. Note that this will not change file ownership.",
                    zagent_compiler::name_text(new)
                ));
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(StateError::new(format!("Encountered error checking for needed changes:{faults}")))
    }

    /// The groups that the user should be in besides its main one, when that is not so.
    fn group_changes(
        &self,
        user: &PasswdEntry,
        machine: &Machine,
    ) -> Result<Option<Vec<String>>, StateError> {
        let asked = self.wanted_groups(machine)?;
        let mut is = accounts::groups_of_user(machine, user)?;
        let mut wanted = asked.clone().unwrap_or_default();
        if !self.remove_groups || asked.is_none() {
            wanted.extend(is.iter().cloned());
            wanted.sort_unstable();
            wanted.dedup();
        }
        let main = match self.main_group(machine)? {
            Some(gid) => Self::resolve_gid(machine, &gid)?.unwrap_or(user.gid),
            None => user.gid,
        };
        let all = accounts::read_groups(machine)?;
        let gid = |name: &str| all.iter().find(|g| g.name == name).map(|g| g.gid);
        wanted.retain(|name| gid(name) != Some(main));
        is.retain(|name| {
            let own = name == &self.name && !wanted.contains(name);
            gid(name) != Some(main) && gid(name) != Some(user.gid) && !own
        });
        // Groups of the same number are the same group.
        let has = |names: &[String], name: &String| {
            names.contains(name) || names.iter().any(|other| gid(other).is_some() && gid(other) == gid(name))
        };
        let lacks = wanted.iter().any(|name| !has(&is, name));
        let has_more = self.remove_groups && is.iter().any(|name| !has(&wanted, name));
        Ok((lacks || has_more).then_some(wanted))
    }

    fn password_changes(&self, machine: &Machine, change: &mut Map) -> Result<(), StateError> {
        if self.password.is_none() && !self.empty_password && self.lock.is_none() && self.days.is_empty() {
            return Ok(());
        }
        let now = accounts::find_shadow(machine, &self.name)?;
        let is = now.as_ref().map_or("", |s| &s.hash);
        let is_unset = matches!(is, "!" | "!!");
        // A locked password is one with a mark before it.
        let bare = if self.lock == Some(true) { is.trim_start_matches('!') } else { is };
        if let Some(hash) = self.wanted_hash(now.as_ref())?
            && (is_unset || self.enforce_password)
            && is != hash
            && bare != hash
        {
            change.insert("passwd", hash);
        }
        if self.empty_password && !is.is_empty() {
            change.insert("empty_password", true);
        }
        for (key, at, value) in &self.days {
            let is = now.as_ref().map_or(-1, |s| s.days[*at]);
            if is != *value && !(*key == "expire" && *value == 0) {
                change.insert(*key, *value);
            }
        }
        if let Some(lock) = self.lock.filter(|lock| *lock != is.starts_with('!')) {
            change.insert("password_lock", lock);
        }
        Ok(())
    }

    /// What people see of changes.
    pub(super) fn masked_changes(changes: &Map) -> Map {
        let mut shown = changes.clone();
        if shown.contains("passwd") {
            shown.insert("passwd", REDACTED);
        }
        shown
    }

    /// What is told of a user that would be made. Salt tells its name alone.
    pub(super) fn creation_changes(&self, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
        let mut told = Map::from_iter([("name", Value::from(self.name.as_str()))]);
        if ctx.compat == Compat::Salt {
            return Ok(told);
        }
        if let Some(uid) = self.uid {
            told.insert("uid", uid);
        }
        if let Some(gid) = &self.gid {
            told.insert("gid", gid.as_str());
        }
        let machine = ctx.tools().machine;
        let mut groups = self.groups.clone().unwrap_or_default();
        for group in &self.optional_groups {
            if account_checks::group_exists(machine, group)? && !groups.contains(group) {
                groups.push(group.clone());
            }
        }
        if !groups.is_empty() {
            told.insert("groups", groups.into_iter().map(Value::from).collect::<Value>());
        }
        match &self.home {
            Some(home) => drop(told.insert("home", home.as_str())),
            None if self.createhome => {
                drop(told.insert("home", account_checks::default_home(machine, &self.name)?));
            }
            None => {}
        }
        if let Some(shell) = &self.shell {
            told.insert("shell", shell.as_str());
        }
        Ok(told)
    }
}

//! What `user.present` does to a host: makes a user, or changes what differs.
//!
//! What was done is told even when the rest failed.

use std::path::Path;

use zagent_config::{Map, Value};

use super::UserPresent;
use crate::shared::accounts::make_dir_all;
use crate::{ApplyResult, StateCtx, StateError};
use zagent_host::Machine;
use zagent_host::accounts;
use zagent_host::accounts::account_tools::{AccountTools, NewUser};
use zagent_host::accounts::{GECOS_FIELDS, PasswdEntry, REDACTED, shadow_info, user_info};
use zagent_host::fs::{FileKind, FileMeta};

impl UserPresent {
    pub(crate) fn create_user(&self, acts: &AccountTools<'_>) -> Result<ApplyResult, StateError> {
        let machine = acts.0.machine;
        let groups = self.wanted_groups(machine)?.unwrap_or_default();
        let gid = match self.main_group(machine)? {
            // A group of this name is in the way of one of its own.
            None if self.usergroup.is_none() && groups.contains(&self.name) => Some(self.name.clone()),
            gid => gid,
        };
        let new = NewUser {
            uid: self.uid,
            gid,
            groups,
            usergroup: self.usergroup,
            home: self.home.clone(),
            createhome: self.createhome,
            shell: self.shell.clone(),
            gecos: join_gecos(self.gecos.each_ref().map(|part| part.clone().unwrap_or_default())),
            unique: self.unique,
            system: self.system,
            nologinit: self.nologinit,
        };
        acts.add_user(&self.name, &new).map_err(|e| {
            StateError::new(format!("Failed to create new user {}: {}", self.name, e.message()))
        })?;
        let made = self.find_user(machine)?;
        let mut changes = made.map(|user| user_info(machine, &user)).transpose()?.unwrap_or_default();
        if !self.createhome {
            changes.insert("home", "");
        }
        match self.set_password(acts, &mut changes) {
            Ok(()) => Ok(ApplyResult::new(format!("New user {} created", self.name), changes)),
            Err(e) => {
                let words = format!(
                    "User {} created but its password is not as asked: {}",
                    self.name, e.result.comment
                );
                Err(ApplyResult::new(words, changes).into())
            }
        }
    }

    /// The password of a new user.
    fn set_password(&self, acts: &AccountTools<'_>, changes: &mut Map) -> Result<(), StateError> {
        let now = accounts::find_shadow(acts.0.machine, &self.name);
        if let Some(hash) = self.wanted_hash(now.ok().flatten().as_ref())? {
            changes.insert("password", REDACTED);
            acts.set_password_hash(&self.name, &hash)?;
        } else if self.empty_password {
            acts.set_password_hash(&self.name, "")?;
            changes.insert("password", "");
        }
        acts.set_shadow_days(
            &self.name,
            &self.days.iter().map(|(_, at, value)| (*at, *value)).collect::<Vec<_>>(),
        )?;
        for (key, _, value) in &self.days {
            changes.insert(*key, *value);
        }
        if let Some(lock) = self.lock
            && accounts::find_shadow(acts.0.machine, &self.name)?
                .is_some_and(|s| s.hash.starts_with('!') != lock)
        {
            acts.set_password_lock(&self.name, lock)?;
        }
        Ok(())
    }

    pub(crate) fn update_user(
        &self,
        user: &PasswdEntry,
        acts: &AccountTools<'_>,
        ctx: &StateCtx<'_>,
    ) -> Result<ApplyResult, StateError> {
        let machine = acts.0.machine;
        let before = (
            user_info(machine, user)?,
            shadow_info(&self.name, accounts::find_shadow(machine, &self.name).ok().flatten().as_ref()),
        );
        let change = self.changes(user, ctx)?;
        let told = self.apply_changes(user, &change, acts, ctx);
        let after =
            self.find_user(machine)?.map(|user| user_info(machine, &user)).transpose()?.unwrap_or_default();
        let secret =
            shadow_info(&self.name, accounts::find_shadow(machine, &self.name).ok().flatten().as_ref());
        let mut changes = changed_entries(&before.0, &after);
        for (key, value) in changed_entries(&before.1, &secret).iter() {
            changes.insert(key.clone(), value.clone());
        }
        if let Some(home) = change.get("homeDoesNotExist").filter(|_| told.is_ok()) {
            changes.insert("home", home.clone());
        }
        let mut changes = Self::masked_changes(&changes);
        changes.remove("name");
        match told {
            Ok(()) => Ok(ApplyResult::new(format!("Updated user {}", self.name), changes)),
            Err(failure) => Err(ApplyResult::new(failure.result.comment, changes).into()),
        }
    }

    fn apply_changes(
        &self,
        user: &PasswdEntry,
        change: &Map,
        acts: &AccountTools<'_>,
        ctx: &StateCtx<'_>,
    ) -> Result<(), StateError> {
        let name = &*self.name;
        if let Some(hash) = change.get("passwd").and_then(Value::as_str) {
            acts.set_password_hash(name, hash)?;
        }
        if change.contains("empty_password") {
            acts.set_password_hash(name, "")?;
        }
        // A new hash is an open one, whatever was there.
        let is_locked = accounts::find_shadow(acts.0.machine, name)
            .ok()
            .flatten()
            .is_some_and(|s| s.hash.starts_with('!'));
        if let Some(lock) = self.lock.filter(|lock| *lock != is_locked) {
            acts.set_password_lock(name, lock)?;
        }
        let days = self.days.iter().filter(|(key, ..)| change.contains(key));
        acts.set_shadow_days(name, &days.map(|(_, at, value)| (*at, *value)).collect::<Vec<_>>())?;
        let text = |key: &str| change.get(key).map(zagent_compiler::name_text);
        if let Some(uid) = text("uid") {
            acts.set_attribute(name, "uid", &uid, if self.unique { &[] } else { &["-o"] })?;
        }
        if let Some(gid) = text("gid") {
            acts.set_attribute(name, "gid", &gid, &[])?;
        }
        if let Some(home) = text("home") {
            acts.set_attribute(name, "home", &home, if self.persist_home { &["-m"] } else { &[] })?;
        }
        if let Some(shell) = text("shell") {
            acts.set_attribute(name, "shell", &shell, &[])?;
        }
        if GECOS_FIELDS.iter().any(|key| change.contains(key)) {
            let mut parts = user.gecos_fields();
            for (part, new) in parts.iter_mut().zip(&self.gecos) {
                if let Some(new) = new {
                    part.clone_from(new);
                }
            }
            acts.set_attribute(name, "gecos", &join_gecos(parts), &[])?;
        }
        if let Some(groups) = change.get("groups").and_then(Value::as_list) {
            let groups: Vec<String> = groups.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            acts.set_groups(name, &groups, !self.remove_groups)?;
        }
        match text("homeDoesNotExist") {
            Some(home) => self.create_home(Path::new(&home), acts.0.machine, ctx),
            None => Ok(()),
        }
    }

    fn create_home(&self, home: &Path, machine: &Machine, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some(user) = self.find_user(machine)? else { return Ok(()) };
        if ctx.fs.stat(home)?.is_some_and(|s| s.kind == FileKind::Dir) {
            return Ok(());
        }
        if let Some(parent) = home.parent() {
            make_dir_all(ctx, parent, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
        }
        let (uid, gid) = (u32::try_from(user.uid).ok(), u32::try_from(user.gid).ok());
        Ok(ctx.fs.make_dir(home, FileMeta { mode: Some(0o755), uid, gid })?)
    }
}

/// The comment of a user from its parts.
fn join_gecos(parts: [String; 5]) -> String {
    parts.join(",").trim_end_matches(',').to_owned()
}

/// What is in `after` and was not so before.
fn changed_entries(before: &Map, after: &Map) -> Map {
    let mut out = Map::new();
    for (key, value) in after.iter() {
        if before.get_value(key) != Some(value) {
            out.insert(key.clone(), value.clone());
        }
    }
    out
}

//! What `user.present` does to a host: makes a user, or changes what differs.
//!
//! Law: what was done is told even when the rest failed.

use std::path::Path;

use zagent_config::{Map, Value};

use super::Present;
use crate::fs::{Kind, Meta};
use crate::host::Machine;
use crate::host::accounts::acts::{Accounts, NewUser};
use crate::host::accounts::{self, GECOS, REDACTED, User, shadow_info, user_info};
use crate::states::accounts::make_dirs;
use crate::states::{Done, Failure, Scene};

impl Present {
    pub(super) fn make(&self, acts: &Accounts<'_>) -> Result<Done, Failure> {
        let machine = acts.0.machine;
        let groups = self.wanted(machine)?.unwrap_or_default();
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
            gecos: gecos(self.gecos.each_ref().map(|part| part.clone().unwrap_or_default())),
            unique: self.unique,
            system: self.system,
            nologinit: self.nologinit,
        };
        acts.add_user(&self.name, &new)
            .map_err(|e| Failure::new(format!("Failed to create new user {}: {}", self.name, e.words())))?;
        let made = self.find(machine)?;
        let mut changes = made.map(|user| user_info(machine, &user)).transpose()?.unwrap_or_default();
        if !self.createhome {
            changes.insert("home", "");
        }
        match self.secure(acts, &mut changes) {
            Ok(()) => Ok(Done::new(format!("New user {} created", self.name), changes)),
            Err(e) => {
                let words = format!(
                    "User {} created but its password is not as asked: {}",
                    self.name, e.done.comment
                );
                Err(Done::new(words, changes).into())
            }
        }
    }

    /// The password of a new user.
    fn secure(&self, acts: &Accounts<'_>, changes: &mut Map) -> Result<(), Failure> {
        let now = accounts::shadow(acts.0.machine, &self.name);
        if let Some(hash) = self.hash(now.ok().flatten().as_ref())? {
            changes.insert("password", REDACTED);
            acts.set_hash(&self.name, &hash)?;
        } else if self.empty {
            acts.set_hash(&self.name, "")?;
            changes.insert("password", "");
        }
        acts.set_days(&self.name, &self.days.iter().map(|(_, at, value)| (*at, *value)).collect::<Vec<_>>())?;
        for (key, _, value) in &self.days {
            changes.insert(*key, *value);
        }
        if let Some(lock) = self.lock
            && accounts::shadow(acts.0.machine, &self.name)?.is_some_and(|s| s.hash.starts_with('!') != lock)
        {
            acts.lock(&self.name, lock)?;
        }
        Ok(())
    }

    pub(super) fn change(
        &self,
        user: &User,
        acts: &Accounts<'_>,
        scene: &Scene<'_>,
    ) -> Result<Done, Failure> {
        let machine = acts.0.machine;
        let before = (
            user_info(machine, user)?,
            shadow_info(&self.name, accounts::shadow(machine, &self.name).ok().flatten().as_ref()),
        );
        let change = self.changes(user, scene)?;
        let told = self.tell(user, &change, acts, scene);
        let after =
            self.find(machine)?.map(|user| user_info(machine, &user)).transpose()?.unwrap_or_default();
        let secret = shadow_info(&self.name, accounts::shadow(machine, &self.name).ok().flatten().as_ref());
        let mut changes = differing(&before.0, &after);
        for (key, value) in differing(&before.1, &secret).iter() {
            changes.insert(key.clone(), value.clone());
        }
        if let Some(home) = change.get("homeDoesNotExist").filter(|_| told.is_ok()) {
            changes.insert("home", home.clone());
        }
        let mut changes = Self::shown(&changes);
        changes.remove("name");
        match told {
            Ok(()) => Ok(Done::new(format!("Updated user {}", self.name), changes)),
            Err(failure) => Err(Done::new(failure.done.comment, changes).into()),
        }
    }

    fn tell(&self, user: &User, change: &Map, acts: &Accounts<'_>, scene: &Scene<'_>) -> Result<(), Failure> {
        let name = &*self.name;
        if let Some(hash) = change.get("passwd").and_then(Value::as_str) {
            acts.set_hash(name, hash)?;
        }
        if change.contains("empty_password") {
            acts.set_hash(name, "")?;
        }
        // A new hash is an open one, whatever was there.
        let is_locked =
            accounts::shadow(acts.0.machine, name).ok().flatten().is_some_and(|s| s.hash.starts_with('!'));
        if let Some(lock) = self.lock.filter(|lock| *lock != is_locked) {
            acts.lock(name, lock)?;
        }
        let days = self.days.iter().filter(|(key, ..)| change.contains(key));
        acts.set_days(name, &days.map(|(_, at, value)| (*at, *value)).collect::<Vec<_>>())?;
        let text = |key: &str| change.get(key).map(zagent_compiler::name_text);
        if let Some(uid) = text("uid") {
            acts.set(name, "uid", &uid, if self.unique { &[] } else { &["-o"] })?;
        }
        if let Some(gid) = text("gid") {
            acts.set(name, "gid", &gid, &[])?;
        }
        if let Some(home) = text("home") {
            acts.set(name, "home", &home, if self.persist_home { &["-m"] } else { &[] })?;
        }
        if let Some(shell) = text("shell") {
            acts.set(name, "shell", &shell, &[])?;
        }
        if GECOS.iter().any(|key| change.contains(key)) {
            let mut parts = user.gecos();
            for (part, new) in parts.iter_mut().zip(&self.gecos) {
                if let Some(new) = new {
                    part.clone_from(new);
                }
            }
            acts.set(name, "gecos", &gecos(parts), &[])?;
        }
        if let Some(groups) = change.get("groups").and_then(Value::as_list) {
            let groups: Vec<String> = groups.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            acts.set_groups(name, &groups, !self.remove_groups)?;
        }
        match text("homeDoesNotExist") {
            Some(home) => self.make_home(Path::new(&home), acts.0.machine, scene),
            None => Ok(()),
        }
    }

    fn make_home(&self, home: &Path, machine: &Machine, scene: &Scene<'_>) -> Result<(), Failure> {
        let Some(user) = self.find(machine)? else { return Ok(()) };
        if scene.fs.stat(home)?.is_some_and(|s| s.kind == Kind::Dir) {
            return Ok(());
        }
        if let Some(parent) = home.parent() {
            make_dirs(scene, parent, Meta { mode: Some(0o755), ..Meta::default() })?;
        }
        let (uid, gid) = (u32::try_from(user.uid).ok(), u32::try_from(user.gid).ok());
        Ok(scene.fs.make_dir(home, Meta { mode: Some(0o755), uid, gid })?)
    }
}

/// The comment of a user from its parts.
fn gecos(parts: [String; 5]) -> String {
    parts.join(",").trim_end_matches(',').to_owned()
}

/// What is in `after` and was not so before.
fn differing(before: &Map, after: &Map) -> Map {
    let mut out = Map::new();
    for (key, value) in after.iter() {
        if before.get_value(key) != Some(value) {
            out.insert(key.clone(), value.clone());
        }
    }
    out
}

//! `user.present`: a user as it should be.
//!
//! Only what is given is compared. A hash is compared and set, and never shown.

pub(crate) mod absent;
pub(crate) mod functions;
pub mod undo;

pub mod apply;

use std::path::Path;

use zagent_compiler::Compat;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::assumed_accounts;
use crate::assumed_accounts::AccountKind;
use crate::shared::account_checks;
use crate::shared::accounts::{account_reads, is_still_valid, is_surely_missing, would_create};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::Machine;
use zagent_host::accounts;
use zagent_host::accounts::account_tools::{AccountTools, parse_day};
use zagent_host::accounts::{GECOS_FIELDS, PasswdEntry, REDACTED, ShadowEntry};
use zagent_host::fs::FileKind;

/// The module `user`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "user",
    build,
    functions: functions::TABLE,
    undo: &[&undo::USER_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let built = match fun {
        "present" => UserPresent::from_args(args).map(|state| Box::new(state) as Box<dyn State>),
        "absent" => Ok(Box::new(absent::UserAbsent::from_args(args)) as Box<dyn State>),
        _ => return None,
    };
    Some(built)
}

/// The days of a password: how a state calls each, and its place in the file.
const SHADOW_DAYS: [(&str, usize); 6] =
    [("date", 0), ("mindays", 1), ("maxdays", 2), ("inactdays", 4), ("warndays", 3), ("expire", 5)];

pub(crate) struct UserPresent {
    name: String,
    uid: Option<i64>,
    /// Name or number.
    gid: Option<String>,
    usergroup: Option<bool>,
    groups: Option<Vec<String>>,
    optional_groups: Vec<String>,
    remove_groups: bool,
    home: Option<String>,
    createhome: bool,
    persist_home: bool,
    password: Option<String>,
    hash_password: bool,
    enforce_password: bool,
    empty_password: bool,
    shell: Option<String>,
    unique: bool,
    system: bool,
    nologinit: bool,
    gecos: [Option<String>; 5],
    /// Place in the file and value.
    days: Vec<(&'static str, usize, i64)>,
    may_change_uid: bool,
    may_change_gid: bool,
    lock: Option<bool>,
    local: bool,
    /// The last look failed for want of a user or group.
    is_lost: bool,
}

impl UserPresent {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let given = |key: &str| Ok::<_, StateError>(args.text(key)?.filter(|t| !t.is_empty()));
        let mut gecos: [Option<String>; 5] = Default::default();
        for (part, key) in gecos.iter_mut().zip(GECOS_FIELDS) {
            *part = args.text(key)?;
        }
        if let Some(text) = gecos[..3].iter().flatten().find(|text| text.contains(',')) {
            return Err(StateError::new(format!("Unsupported char ',' in {text}")));
        }
        let mut days = Vec::new();
        for (key, at) in SHADOW_DAYS {
            if let Some(text) = args.text(key)? {
                let value = parse_day(&text).ok_or_else(|| {
                    StateError::new(format!("`{key}` must be a number of days, not {text}"))
                })?;
                days.push((key, at, value));
            }
        }
        let is_given = |key: &str| args.get(key).map(Value::is_truthy);
        let own = args.flag("gid_from_name", false).then(|| args.name());
        Ok(Self {
            name: args.name(),
            uid: args.int("uid")?,
            gid: given("gid")?.or(own),
            usergroup: is_given("usergroup"),
            groups: args.texts("groups")?,
            optional_groups: args.texts("optional_groups")?.unwrap_or_default(),
            remove_groups: args.flag("remove_groups", true),
            home: given("home")?,
            createhome: args.flag("createhome", true),
            persist_home: args.flag("persist_home", false),
            password: given("password")?,
            hash_password: args.flag("hash_password", false),
            enforce_password: args.flag("enforce_password", true),
            empty_password: args.flag("empty_password", false),
            shell: given("shell")?,
            unique: args.flag("unique", true),
            system: args.flag("system", false),
            nologinit: args.flag("nologinit", false),
            gecos,
            days,
            may_change_uid: args.flag("allow_uid_change", false),
            may_change_gid: args.flag("allow_gid_change", false),
            lock: is_given("password_lock"),
            local: args.flag("local", false),
            is_lost: false,
        })
    }

    fn find_user(&self, machine: &Machine) -> Result<Option<PasswdEntry>, StateError> {
        let find = if self.local { accounts::find_local_user } else { accounts::find_user };
        Ok(find(machine, &self.name)?)
    }

    /// The groups that are asked for and are not there.
    fn missing_groups(&self, machine: &Machine) -> Result<Vec<String>, StateError> {
        let mut missing = Vec::new();
        for group in self.groups.iter().flatten() {
            if accounts::find_group(machine, group)?.is_none() {
                missing.push(group.clone());
            }
        }
        Ok(missing)
    }

    /// Refuses what the programs would refuse; what may be asked of Salt is left to them, as in Salt.
    fn verify(&mut self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        // Who is made by a state before is judged there.
        let is_imagined = assumed_accounts::assumed_id(AccountKind::User, &self.name).is_some();
        if ctx.compat == Compat::Salt || is_imagined {
            return Ok(());
        }
        let machine = ctx.tools().machine;
        let user = self.find_user(machine)?;
        let changes = user.as_ref().map_or_else(|| Ok(Map::new()), |user| self.changes(user, ctx))?;
        let is_asked = |key: &str| user.is_none() || changes.contains(key);
        if user.is_none() {
            account_checks::verify_name("user", &self.name)?;
        }
        if let Some(uid) = self.uid.filter(|_| self.unique && is_asked("uid")) {
            account_checks::verify_uid(machine, &self.name, uid)?;
        }
        match self.main_group(machine)? {
            Some(group) if is_asked("gid") => {
                account_checks::verify_main_group(machine, &group).inspect_err(|_| self.is_lost = true)
            }
            None if user.is_none() && self.usergroup.is_none() && !self.names_own_group() => {
                account_checks::verify_own_group(machine, &self.name)
            }
            _ => Ok(()),
        }
    }

    /// True when a group of its own name is among those that are asked for.
    fn names_own_group(&self) -> bool {
        self.groups.iter().flatten().chain(&self.optional_groups).any(|group| *group == self.name)
    }

    /// The groups that are asked for and are there; nothing when none are asked for.
    fn wanted_groups(&self, machine: &Machine) -> Result<Option<Vec<String>>, StateError> {
        if self.groups.is_none() && self.optional_groups.is_empty() {
            return Ok(None);
        }
        let mut wanted = Vec::new();
        for group in self.groups.iter().flatten().chain(&self.optional_groups) {
            if accounts::find_group(machine, group)?.is_some() {
                wanted.push(group.clone());
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        Ok(Some(wanted))
    }

    /// The number of a group given by name or number.
    fn resolve_gid(machine: &Machine, group: &str) -> Result<Option<i64>, StateError> {
        Ok(accounts::find_group(machine, group)?.map(|g| g.gid).or_else(|| group.parse().ok()))
    }

    /// The main group that is asked for: also one of its own that is there already.
    fn main_group(&self, machine: &Machine) -> Result<Option<String>, StateError> {
        let own = self.usergroup == Some(true) && accounts::find_group(machine, &self.name)?.is_some();
        Ok(if own { Some(self.name.clone()) } else { self.gid.clone() })
    }

    /// The hash that is asked for.
    fn wanted_hash(&self, now: Option<&ShadowEntry>) -> Result<Option<String>, StateError> {
        let Some(password) = self.password.as_ref().filter(|_| !self.empty_password) else { return Ok(None) };
        if !self.hash_password {
            return Ok(Some(password.clone()));
        }
        accounts::password_hash::hash_password(password, now.map(|s| &*s.hash))
            .map(Some)
            .map_err(|e| StateError::new(format!("cannot make a salt: {e}")))
    }

    /// What has to change in a user that is there, by Salt's names.
    fn changes(&self, user: &PasswdEntry, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
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
    fn masked_changes(changes: &Map) -> Map {
        let mut shown = changes.clone();
        if shown.contains("passwd") {
            shown.insert("passwd", REDACTED);
        }
        shown
    }

    fn check_user(&self, ctx: &StateCtx<'_>, missing: &[String]) -> Result<CheckResult, StateError> {
        let Some(user) = self.find_user(ctx.tools().machine)? else {
            let pending = if missing.is_empty() {
                String::new()
            } else {
                format!(" (pending groups: {})", missing.join(","))
            };
            let changes = self.creation_changes(ctx)?;
            return Ok(CheckResult::drifted(format!("User {} set to be added{pending}", self.name), changes));
        };
        let mut changes = Self::masked_changes(&self.changes(&user, ctx)?);
        if !missing.is_empty() {
            changes.insert("groups (pending creation)", missing.join(","));
        }
        if changes.is_empty() {
            return Ok(CheckResult::in_sync(format!("User {} is present and up to date", self.name)));
        }
        let lines: String =
            changes.iter().map(|(k, v)| format!("{}: {}\n", k.json_key(), python_str(v))).collect();
        Ok(CheckResult::drifted(
            format!("The following user attributes are set to be changed:\n{lines}"),
            changes,
        ))
    }

    /// What is told of a user that would be made. Salt tells its name alone.
    fn creation_changes(&self, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
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

fn missing_groups_error(groups: &[String]) -> StateError {
    StateError::new(format!("The following group(s) are not present: {}", groups.join(",")))
}

impl State for UserPresent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let missing = self.missing_groups(ctx.tools().machine)?;
        if !missing.is_empty() {
            return Err(missing_groups_error(&missing));
        }
        self.verify(ctx)?;
        self.check_user(ctx, &[])
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let missing = self.missing_groups(ctx.tools().machine)?;
        // An earlier state may make the groups: of a dry run it is known which, a `prereq` looks before its time.
        if ctx.is_dry() && ctx.compat == Compat::Strict {
            let is_lost = |group: &&String| assumed_accounts::assumed_id(AccountKind::Group, group).is_none();
            let lost: Vec<String> = missing.iter().filter(is_lost).cloned().collect();
            self.is_lost = !lost.is_empty();
            if self.is_lost {
                return Err(missing_groups_error(&lost));
            }
            self.verify(ctx)?;
        }
        self.check_user(ctx, &missing)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let acts = AccountTools(ctx.tools());
        let found = self.find_user(acts.0.machine)?;
        ctx.with_undo(&undo::USER_UNDO, self.name.as_str(), || match &found {
            None => self.create_user(&acts),
            Some(user) => self.update_user(user, &acts, ctx),
        })
    }

    fn reads(&self) -> Effects {
        account_reads()
    }

    fn writes(&self) -> Effects {
        // A new home comes with what a skeleton has.
        if self.createhome { Effects::USERS | Effects::PACKAGE_FILES } else { Effects::USERS }
    }

    fn simulate(&self, ctx: &StateCtx<'_>) {
        let names = &ctx.shared.assumed_accounts;
        names.add(AccountKind::User, &self.name, self.uid.and_then(|uid| u32::try_from(uid).ok()));
        // Most systems give a new user a group of that name.
        if self.gid.is_none() {
            names.add(AccountKind::Group, &self.name, None);
        }
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        is_still_valid(hidden)
    }

    fn fails_regardless(&self, hidden: Effects) -> bool {
        self.is_lost && is_surely_missing(hidden)
    }

    fn package_may_provide(&self, look: &CheckResult) -> bool {
        // Packages bring accounts of the system, never a person's.
        self.system && would_create(look)
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Users]
    }
}

#[cfg(test)]
mod tests;

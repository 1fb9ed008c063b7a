//! `user.present`: a user as it should be.
//!
//! Only what is given is compared. A hash is compared and set, and never shown.

pub(crate) mod absent;
pub(crate) mod functions;
pub mod undo;

pub mod apply;
mod changes;

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
use zagent_host::accounts::{GECOS_FIELDS, PasswdEntry, ShadowEntry};

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

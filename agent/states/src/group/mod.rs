//! `group.present` and `group.absent`.

pub(crate) mod functions;
pub mod undo;

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
use zagent_host::accounts::account_tools::AccountTools;
use zagent_host::accounts::{GroupEntry, group_info};

/// The module `group`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "group",
    build,
    functions: functions::TABLE,
    undo: &[&undo::GROUP_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let built = match fun {
        "present" => GroupPresent::from_args(args).map(|state| Box::new(state) as Box<dyn State>),
        "absent" => Ok(Box::new(GroupAbsent::from_args(args)) as Box<dyn State>),
        _ => return None,
    };
    Some(built)
}

pub(crate) struct GroupPresent {
    name: String,
    gid: Option<i64>,
    system: bool,
    /// Who should be in it, nobody else.
    members: Option<Vec<String>>,
    add: Vec<String>,
    delete: Vec<String>,
    non_unique: bool,
    local: bool,
    /// The last look failed for want of a user or group.
    is_lost: bool,
}

fn find_group(machine: &Machine, name: &str, local: bool) -> Result<Option<GroupEntry>, StateError> {
    let found = if local { accounts::find_local_group } else { accounts::find_group };
    Ok(found(machine, name)?)
}

fn names_value(names: &[String]) -> Value {
    names.iter().map(|n| Value::from(n.as_str())).collect()
}

impl GroupPresent {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let (members, add, delete) =
            (args.texts("members")?, args.texts("addusers")?, args.texts("delusers")?);
        if members.is_some() && (add.is_some() || delete.is_some()) {
            return Err(StateError::new(
                "Error: Conflicting options \"members\" with \"addusers\" and/or \"delusers\" can not be used together. ",
            ));
        }
        let (add, delete) = (add.unwrap_or_default(), delete.unwrap_or_default());
        if add.iter().any(|user| delete.contains(user)) {
            return Err(StateError::new("Error. Same user(s) can not be added and deleted simultaneously"));
        }
        Ok(Self {
            name: args.name(),
            gid: args.int("gid").map_err(|_| StateError::new("Invalid gid"))?,
            system: args.flag("system", false),
            members,
            add,
            delete,
            non_unique: args.flag("non_unique", false),
            local: args.flag("local", false),
            is_lost: false,
        })
    }

    /// What has to change in a group that is there.
    fn changes(&self, group: &GroupEntry) -> Map {
        let mut changes = Map::new();
        let is_in = |user: &&String| group.members.contains(user);
        if let Some(gid) = self.gid.filter(|gid| *gid != group.gid) {
            changes.insert("gid", gid);
        }
        if let Some(members) = &self.members
            && !(group.members.iter().all(|m| members.contains(m)) && members.iter().all(|m| is_in(&m)))
        {
            changes.insert("members", names_value(members));
        }
        let add: Vec<String> = self.add.iter().filter(|user| !is_in(user)).cloned().collect();
        let delete: Vec<String> = self.delete.iter().filter(is_in).cloned().collect();
        for (key, users) in [("addusers", add), ("delusers", delete)] {
            if !users.is_empty() {
                changes.insert(key, names_value(&users));
            }
        }
        changes
    }

    fn preview_comment(changes: &Map) -> String {
        let lines: String =
            changes.iter().map(|(k, v)| format!("{}: {}\n", k.json_key(), python_str(v))).collect();
        format!("The following group attributes are set to be changed:\n{lines}")
    }

    /// A number that another group has.
    fn verify_gid_free(&self, machine: &Machine) -> Result<(), StateError> {
        let Some(gid) = self.gid.filter(|_| !self.non_unique) else { return Ok(()) };
        match accounts::read_groups(machine)?.into_iter().find(|g| g.gid == gid) {
            None => Ok(()),
            Some(other) => Err(StateError::new(format!(
                "Group {} is not present but gid {gid} is already taken by group {}",
                self.name, other.name
            ))),
        }
    }

    /// Who would be put into a new group.
    fn new_members(&self) -> &[String] {
        self.members.as_deref().filter(|m| !m.is_empty()).unwrap_or(&self.add)
    }

    /// Refuses what the programs would refuse; what may be asked of Salt is left to them, as in Salt.
    fn verify(&mut self, ctx: &StateCtx<'_>, changes: Option<&Map>) -> Result<(), StateError> {
        let tools = ctx.tools();
        let is_imagined = assumed_accounts::assumed_id(AccountKind::Group, &self.name).is_some();
        if ctx.compat == Compat::Salt || is_imagined {
            return Ok(());
        }
        let is_asked = |key: &str| changes.is_none_or(|changes| changes.contains(key));
        if changes.is_none() {
            account_checks::verify_name("group", &self.name)?;
        }
        if let Some(gid) = self.gid.filter(|_| !self.non_unique && is_asked("gid")) {
            account_checks::verify_gid(tools.machine, &self.name, gid)?;
        }
        let users = match &self.members {
            Some(members) if is_asked("members") => members,
            None if is_asked("addusers") => &self.add,
            _ => return Ok(()),
        };
        // Without it the line of the group is edited, and nobody asks who they are.
        if tools.which("gpasswd").is_none() {
            return Ok(());
        }
        account_checks::verify_members(tools.machine, &self.name, users).inspect_err(|_| self.is_lost = true)
    }

    /// What is told of a group that would be made. Salt tells its name alone.
    fn creation_changes(&self, compat: Compat) -> Map {
        let mut told = Map::from_iter([("name", Value::from(self.name.as_str()))]);
        if compat == Compat::Salt {
            return told;
        }
        if let Some(gid) = self.gid {
            told.insert("gid", gid);
        }
        if !self.new_members().is_empty() {
            told.insert("members", names_value(self.new_members()));
        }
        told
    }

    fn create_group(&self, acts: &AccountTools<'_>) -> Result<ApplyResult, StateError> {
        acts.add_group(&self.name, self.gid, self.system, self.non_unique)?;
        let members = self.new_members();
        let set = if members.is_empty() { Ok(()) } else { acts.set_members(&self.name, members) };
        let made = find_group(acts.0.machine, &self.name, self.local)?;
        let changes = made.as_ref().map(group_info).unwrap_or_default();
        match set {
            Ok(()) => Ok(ApplyResult::new(format!("New group {} created", self.name), changes)),
            Err(refusal) => {
                let words = format!(
                    "Group {} has been created but, some changes could not be applied: {}",
                    self.name,
                    refusal.message()
                );
                Err(ApplyResult::new(words, changes).into())
            }
        }
    }

    fn update_group(&self, acts: &AccountTools<'_>, changes: &Map) -> Result<ApplyResult, StateError> {
        let mut applied = Map::new();
        if let Err(failure) = self.apply_changes(acts, changes, &mut applied) {
            return Err(ApplyResult { changes: applied, ..failure.result }.into());
        }
        let done = Map::from_iter([("Final", Value::from("All changes applied successfully"))]);
        Ok(ApplyResult::new(Self::preview_comment(changes), done))
    }

    /// Changes one after the other; `applied` holds what was done by then.
    fn apply_changes(
        &self,
        acts: &AccountTools<'_>,
        changes: &Map,
        applied: &mut Map,
    ) -> Result<(), StateError> {
        if let Some(gid) = changes.get("gid").and_then(Value::as_int) {
            acts.set_gid(&self.name, gid, self.non_unique)?;
            applied.insert("gid", gid);
        }
        if let Some(members) = self.members.as_ref().filter(|_| changes.contains("members")) {
            acts.set_members(&self.name, members)?;
            applied.insert("members", names_value(members));
        }
        let each = |key: &str| -> Vec<String> {
            let list = changes.get(key).and_then(Value::as_list);
            list.into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for (key, is_in) in [("addusers", true), ("delusers", false)] {
            let users = each(key);
            for (at, user) in users.iter().enumerate() {
                if is_in {
                    acts.add_to_group(&self.name, user)?;
                } else {
                    acts.remove_from_group(&self.name, user)?;
                }
                applied.insert(key, names_value(&users[..=at]));
            }
        }
        Ok(())
    }
}

impl State for GroupPresent {
    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        // An earlier state of a dry run would have made it.
        let assumed = assumed_accounts::assumed_id(AccountKind::Group, &self.name);
        let is_same = |id: u32| self.gid.is_none_or(|gid| gid == i64::from(id));
        let names_users = self.members.is_some() || !self.add.is_empty() || !self.delete.is_empty();
        if assumed.is_some_and(is_same)
            && !names_users
            && ctx.compat == Compat::Strict
            && find_group(ctx.tools().machine, &self.name, self.local)?.is_none()
        {
            return Ok(CheckResult::in_sync(format!("Group {} would be there by then", self.name)));
        }
        self.check(ctx)
    }

    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let tools = ctx.tools();
        let Some(group) = find_group(tools.machine, &self.name, self.local)? else {
            self.verify_gid_free(tools.machine)?;
            self.verify(ctx, None)?;
            let changes = self.creation_changes(ctx.compat);
            return Ok(CheckResult::drifted(format!("Group {} set to be added", self.name), changes));
        };
        let changes = self.changes(&group);
        if changes.is_empty() {
            return Ok(CheckResult::in_sync(format!("Group {} is present and up to date", self.name)));
        }
        self.verify(ctx, Some(&changes))?;
        Ok(CheckResult::drifted(Self::preview_comment(&changes), changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let acts = AccountTools(ctx.tools());
        let found = find_group(acts.0.machine, &self.name, self.local)?;
        ctx.with_undo(&undo::GROUP_UNDO, self.name.as_str(), || match &found {
            None => self.create_group(&acts),
            Some(group) => self.update_group(&acts, &self.changes(group)),
        })
    }

    fn reads(&self) -> Effects {
        account_reads()
    }

    fn simulate(&self, ctx: &StateCtx<'_>) {
        let gid = self.gid.and_then(|gid| u32::try_from(gid).ok());
        ctx.shared.assumed_accounts.add(AccountKind::Group, &self.name, gid);
    }

    fn writes(&self) -> Effects {
        Effects::USERS
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

pub(crate) struct GroupAbsent {
    name: String,
    local: bool,
}

impl GroupAbsent {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Self {
        Self { name: args.name(), local: args.flag("local", false) }
    }

    fn changes(&self) -> Map {
        Map::from_iter([(self.name.as_str(), Value::from(""))])
    }
}

impl State for GroupAbsent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let machine = ctx.tools().machine;
        let Some(group) = find_group(machine, &self.name, self.local)? else {
            return Ok(CheckResult::in_sync("Group not present"));
        };
        if ctx.compat == Compat::Strict {
            account_checks::verify_group_unused(machine, &group)?;
        }
        Ok(CheckResult::drifted(format!("Group {} is set for removal", self.name), self.changes()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let acts = AccountTools(ctx.tools());
        ctx.with_undo(&undo::GROUP_UNDO, self.name.as_str(), || Ok(acts.delete_group(&self.name)?))?;
        Ok(ApplyResult::new(format!("Removed group {}", self.name), self.changes()))
    }

    fn reads(&self) -> Effects {
        account_reads()
    }

    fn writes(&self) -> Effects {
        Effects::USERS
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        is_still_valid(hidden)
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Users]
    }
}

#[cfg(test)]
mod tests {
    use crate::Verdict;
    use crate::assumed_accounts::AssumedScope;
    use crate::testing::{StateTestBed, chunk};

    #[test]
    fn a_group_that_is_declared_twice_is_created_once() {
        let test_bed = StateTestBed::strict();
        let ctx = test_bed.scene();
        let _names = AssumedScope::enter(&ctx.shared.assumed_accounts);
        let mut verdicts = Vec::new();
        for args in ["{}", "{}", r#"{"gid": 61234}"#] {
            let mut state = crate::build(&chunk("group.present", "zagent-nobody-has-it", args)).unwrap();
            let look = state.preview(&ctx).unwrap();
            if look.verdict == Verdict::Drifted {
                state.simulate(&ctx);
            }
            verdicts.push(look.verdict);
        }
        assert_eq!(verdicts, [Verdict::Drifted, Verdict::InSync, Verdict::Drifted]);
    }
}

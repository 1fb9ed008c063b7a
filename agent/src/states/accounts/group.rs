//! `group.present` and `group.absent`.

use zagent_compiler::Compat;
use zagent_compiler::yaml::python_str;
use zagent_config::{Map, Value};

use super::{holds, is_missing_for_sure, is_new, judge, seen, things};
use crate::host::Machine;
use crate::host::accounts::acts::Accounts;
use crate::host::accounts::{self, Group, group_info};
use crate::states::imagined::{self, Whose};
use crate::states::{Args, Done, Failure, Look, Resource, Scene, State, Veil};

pub(super) struct Present {
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

fn find(machine: &Machine, name: &str, local: bool) -> Result<Option<Group>, Failure> {
    let found = if local { accounts::find_local_group } else { accounts::find_group };
    Ok(found(machine, name)?)
}

fn list(names: &[String]) -> Value {
    names.iter().map(|n| Value::from(n.as_str())).collect()
}

impl Present {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let (members, add, delete) =
            (args.texts("members")?, args.texts("addusers")?, args.texts("delusers")?);
        if members.is_some() && (add.is_some() || delete.is_some()) {
            return Err(Failure::new(
                "Error: Conflicting options \"members\" with \"addusers\" and/or \"delusers\" can not be used together. ",
            ));
        }
        let (add, delete) = (add.unwrap_or_default(), delete.unwrap_or_default());
        if add.iter().any(|user| delete.contains(user)) {
            return Err(Failure::new("Error. Same user(s) can not be added and deleted simultaneously"));
        }
        Ok(Self {
            name: args.name(),
            gid: args.int("gid").map_err(|_| Failure::new("Invalid gid"))?,
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
    fn changes(&self, group: &Group) -> Map {
        let mut changes = Map::new();
        let is_in = |user: &&String| group.members.contains(user);
        if let Some(gid) = self.gid.filter(|gid| *gid != group.gid) {
            changes.insert("gid", gid);
        }
        if let Some(members) = &self.members
            && !(group.members.iter().all(|m| members.contains(m)) && members.iter().all(|m| is_in(&m)))
        {
            changes.insert("members", list(members));
        }
        let add: Vec<String> = self.add.iter().filter(|user| !is_in(user)).cloned().collect();
        let delete: Vec<String> = self.delete.iter().filter(is_in).cloned().collect();
        for (key, users) in [("addusers", add), ("delusers", delete)] {
            if !users.is_empty() {
                changes.insert(key, list(&users));
            }
        }
        changes
    }

    fn would(changes: &Map) -> String {
        let lines: String =
            changes.iter().map(|(k, v)| format!("{}: {}\n", k.json_key(), python_str(v))).collect();
        format!("The following group attributes are set to be changed:\n{lines}")
    }

    /// A number that another group has.
    fn is_taken(&self, machine: &Machine) -> Result<(), Failure> {
        let Some(gid) = self.gid.filter(|_| !self.non_unique) else { return Ok(()) };
        match accounts::groups(machine)?.into_iter().find(|g| g.gid == gid) {
            None => Ok(()),
            Some(other) => Err(Failure::new(format!(
                "Group {} is not present but gid {gid} is already taken by group {}",
                self.name, other.name
            ))),
        }
    }

    /// Who would be put into a new group.
    fn newcomers(&self) -> &[String] {
        self.members.as_deref().filter(|m| !m.is_empty()).unwrap_or(&self.add)
    }

    /// Refuses what the programs would refuse; what may be asked of Salt is left to them, as in Salt.
    fn verify(&mut self, scene: &Scene<'_>, changes: Option<&Map>) -> Result<(), Failure> {
        let tools = scene.tools();
        let is_imagined = imagined::id(Whose::Group, &self.name).is_some();
        if scene.compat == Compat::Salt || is_imagined {
            return Ok(());
        }
        let is_asked = |key: &str| changes.is_none_or(|changes| changes.contains(key));
        if changes.is_none() {
            judge::verify_name("group", &self.name)?;
        }
        if let Some(gid) = self.gid.filter(|_| !self.non_unique && is_asked("gid")) {
            judge::verify_gid(tools.machine, &self.name, gid)?;
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
        judge::verify_members(tools.machine, &self.name, users).inspect_err(|_| self.is_lost = true)
    }

    /// What is told of a group that would be made. Salt tells its name alone.
    fn announced(&self, compat: Compat) -> Map {
        let mut told = Map::from_iter([("name", Value::from(self.name.as_str()))]);
        if compat == Compat::Salt {
            return told;
        }
        if let Some(gid) = self.gid {
            told.insert("gid", gid);
        }
        if !self.newcomers().is_empty() {
            told.insert("members", list(self.newcomers()));
        }
        told
    }

    fn make(&self, acts: &Accounts<'_>) -> Result<Done, Failure> {
        acts.add_group(&self.name, self.gid, self.system, self.non_unique)?;
        let members = self.newcomers();
        let set = if members.is_empty() { Ok(()) } else { acts.set_members(&self.name, members) };
        let made = find(acts.0.machine, &self.name, self.local)?;
        let changes = made.as_ref().map(group_info).unwrap_or_default();
        match set {
            Ok(()) => Ok(Done::new(format!("New group {} created", self.name), changes)),
            Err(refusal) => {
                let words = format!(
                    "Group {} has been created but, some changes could not be applied: {}",
                    self.name,
                    refusal.words()
                );
                Err(Done::new(words, changes).into())
            }
        }
    }

    fn change(&self, acts: &Accounts<'_>, changes: &Map) -> Result<Done, Failure> {
        let mut applied = Map::new();
        if let Err(failure) = self.tell(acts, changes, &mut applied) {
            return Err(Done { changes: applied, ..failure.done }.into());
        }
        let done = Map::from_iter([("Final", Value::from("All changes applied successfully"))]);
        Ok(Done::new(Self::would(changes), done))
    }

    /// Changes one after the other; `applied` holds what was done by then.
    fn tell(&self, acts: &Accounts<'_>, changes: &Map, applied: &mut Map) -> Result<(), Failure> {
        if let Some(gid) = changes.get("gid").and_then(Value::as_int) {
            acts.set_gid(&self.name, gid, self.non_unique)?;
            applied.insert("gid", gid);
        }
        if let Some(members) = self.members.as_ref().filter(|_| changes.contains("members")) {
            acts.set_members(&self.name, members)?;
            applied.insert("members", list(members));
        }
        let each = |key: &str| -> Vec<String> {
            let list = changes.get(key).and_then(Value::as_list);
            list.into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for (key, is_in) in [("addusers", true), ("delusers", false)] {
            let users = each(key);
            for (at, user) in users.iter().enumerate() {
                if is_in {
                    acts.join(&self.name, user)?;
                } else {
                    acts.leave(&self.name, user)?;
                }
                applied.insert(key, list(&users[..=at]));
            }
        }
        Ok(())
    }
}

impl State for Present {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let tools = scene.tools();
        let Some(group) = find(tools.machine, &self.name, self.local)? else {
            self.is_taken(tools.machine)?;
            self.verify(scene, None)?;
            let changes = self.announced(scene.compat);
            return Ok(Look::drift(format!("Group {} set to be added", self.name), changes));
        };
        let changes = self.changes(&group);
        if changes.is_empty() {
            return Ok(Look::right(format!("Group {} is present and up to date", self.name)));
        }
        self.verify(scene, Some(&changes))?;
        Ok(Look::drift(Self::would(&changes), changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let acts = Accounts(scene.tools());
        let found = find(acts.0.machine, &self.name, self.local)?;
        scene.change(&things::GROUP, self.name.as_str(), || match &found {
            None => self.make(&acts),
            Some(group) => self.change(&acts, &self.changes(group)),
        })
    }

    fn sees(&self) -> Veil {
        seen()
    }

    fn imagine(&self, scene: &Scene<'_>) {
        let gid = self.gid.and_then(|gid| u32::try_from(gid).ok());
        scene.shared.names.add(Whose::Group, &self.name, gid);
    }

    fn veils(&self) -> Veil {
        Veil::USERS
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        holds(hidden)
    }

    fn is_lost(&self, hidden: Veil) -> bool {
        self.is_lost && is_missing_for_sure(hidden)
    }

    fn may_come(&self, look: &Look) -> bool {
        // Packages bring accounts of the system, never a person's.
        self.system && is_new(look)
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Users]
    }
}

pub(super) struct Absent {
    name: String,
    local: bool,
}

impl Absent {
    pub(super) fn read(args: &Args<'_>) -> Self {
        Self { name: args.name(), local: args.flag("local", false) }
    }

    fn changes(&self) -> Map {
        Map::from_iter([(self.name.as_str(), Value::from(""))])
    }
}

impl State for Absent {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let machine = scene.tools().machine;
        let Some(group) = find(machine, &self.name, self.local)? else {
            return Ok(Look::right("Group not present"));
        };
        if scene.compat == Compat::Strict {
            judge::verify_free(machine, &group)?;
        }
        Ok(Look::drift(format!("Group {} is set for removal", self.name), self.changes()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let acts = Accounts(scene.tools());
        scene.change(&things::GROUP, self.name.as_str(), || Ok(acts.delete_group(&self.name)?))?;
        Ok(Done::new(format!("Removed group {}", self.name), self.changes()))
    }

    fn sees(&self) -> Veil {
        seen()
    }

    fn veils(&self) -> Veil {
        Veil::USERS
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        holds(hidden)
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Users]
    }
}

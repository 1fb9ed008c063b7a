//! Groups as a revert puts them back: with the same number and members.

use zagent_config::{Map, Value};

use crate::shared::accounts::{int_field, list_field};
use crate::{StateCtx, StateError, Undoable};
use zagent_host::accounts;
use zagent_host::accounts::GroupEntry;
use zagent_host::accounts::account_tools::AccountTools;

/// Groups.
pub const GROUP_UNDO: GroupUndo = GroupUndo;

/// Groups by name.
pub struct GroupUndo;

impl Undoable for GroupUndo {
    fn kind(&self) -> &'static str {
        "group"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let name = zagent_compiler::name_text(key);
        let found = accounts::find_local_group(ctx.tools().machine, &name)?;
        Ok(found.map_or(Value::Null, |GroupEntry { gid, members, .. }| {
            let members: Value = members.into_iter().map(Value::from).collect();
            Map::from_iter([("gid", Value::Int(gid)), ("members", members)]).into()
        }))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let name = zagent_compiler::name_text(key);
        let acts = AccountTools(ctx.tools());
        let now = accounts::find_local_group(acts.0.machine, &name)?;
        let Value::Map(to) = to else {
            if now.is_some() {
                acts.delete_group(&name)?;
            }
            return Ok(());
        };
        let gid = int_field(to, "gid");
        match &now {
            None => acts.add_group(&name, Some(gid), false, true)?,
            Some(group) if group.gid != gid => acts.set_gid(&name, gid, true)?,
            Some(_) => {}
        }
        let members = list_field(to, "members");
        if now.is_none_or(|group| group.members != members) {
            acts.set_members(&name, &members)?;
        }
        Ok(())
    }
}

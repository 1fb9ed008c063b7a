//! States of the module `alias`: mail aliases in `/etc/aliases`.

pub mod aliases_file;
pub(crate) mod functions;

use std::path::PathBuf;

use crate::shared::text_file::{TextEdit, TextFile, single_change, text_file_state};
use crate::{BuildResult, ChunkArgs, LockKey, StateCtx, StateError, StateModule};

/// The module `alias`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "alias",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    text_file_state(AliasState::for_function(fun, args))
}

/// A mail alias: its target, or none when it should not be.
pub struct AliasState {
    name: String,
    target: Option<String>,
}

impl AliasState {
    pub fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
        let name = args.name();
        match fun {
            "absent" => Some(Ok(Self { name, target: None })),
            "present" => Some(args.texts("target").and_then(|target| {
                let target = target.unwrap_or_default().join(", ");
                if target.is_empty() {
                    return Err(StateError::new("target can not be an empty string"));
                }
                Ok(Self { name, target: Some(target) })
            })),
            _ => None,
        }
    }
}

impl TextFile for AliasState {
    fn path(&self, _: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        Ok("/etc/aliases".into())
    }

    fn edit(&self, old: Option<&str>, _: &StateCtx<'_>) -> Result<TextEdit, StateError> {
        let (old, name) = (old.unwrap_or_default(), &self.name);
        let is =
            aliases_file::mail_aliases(old).into_iter().rfind(|(n, _)| n == name).map(|(_, target)| target);
        let (would, did) = match &self.target {
            target if *target == is => {
                let how = if target.is_some() { "present" } else { "absent" };
                return Ok(TextEdit::InSync(format!("Alias {name} already {how}")));
            }
            Some(target) => (
                format!("Alias {name} -> {target} is set to be added"),
                format!("Set email alias {name} -> {target}"),
            ),
            None => (format!("Alias {name} is set to be removed"), format!("Removed alias {name}")),
        };
        let new = aliases_file::set_mail_alias(old, name, self.target.as_deref());
        Ok(TextEdit::Change { new, would, did, changes: single_change("alias", name.as_str()) })
    }

    fn after_write(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        // In a dry run there is no file to read.
        if !ctx.is_dry() && ctx.tools().which("newaliases").is_some() {
            ctx.tools().run_change("newaliases", &[] as &[&str])?;
        }
        Ok(())
    }

    fn lock_key(&self) -> LockKey {
        LockKey::Path("/etc/aliases".into())
    }
}

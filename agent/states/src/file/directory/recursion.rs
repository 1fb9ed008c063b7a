//! `recurse` of a directory in, what is set below it out.

use zagent_config::Value;

use crate::file::owner::Owner;
use crate::file::perms::Perms;
use crate::{ChunkArgs, StateError};

/// What `recurse` may say.
const RECURSE_TYPES: [&str; 6] = ["user", "group", "mode", "ignore_files", "ignore_dirs", "silent"];

/// What is set below the directory too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryRecurse {
    /// The owner.
    pub user: bool,
    /// The group.
    pub group: bool,
    /// Permission bits.
    pub mode: bool,
    /// Of directories only.
    pub(crate) ignore_files: bool,
    /// Of files only.
    pub(crate) ignore_dirs: bool,
    /// Without telling.
    pub silent: bool,
}

impl DirectoryRecurse {
    /// Reads `recurse`; nothing when it is empty.
    ///
    /// # Errors
    /// Fails in Salt's words when it names something else, or rules out everything.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Option<Self>, StateError> {
        let items = match args.get("recurse") {
            None => return Ok(None),
            Some(value) if !value.is_truthy() => return Ok(None),
            Some(Value::List(items)) => items,
            Some(_) => return Err(StateError::new("\"recurse\" must be formed as a list of strings")),
        };
        if items.iter().any(|item| !item.as_str().is_some_and(|text| RECURSE_TYPES.contains(&text))) {
            let known = RECURSE_TYPES.map(|t| format!("\"{t}\"")).join(", ");
            return Err(StateError::new(format!("Types for \"recurse\" limited to {known}.")));
        }
        let has = |key: &str| items.iter().any(|item| item.as_str() == Some(key));
        let recurse = Self {
            user: has("user"),
            group: has("group"),
            mode: has("mode"),
            ignore_files: has("ignore_files"),
            ignore_dirs: has("ignore_dirs"),
            silent: has("silent"),
        };
        if recurse.ignore_files && recurse.ignore_dirs {
            return Err(StateError::new(
                "Must not specify \"recurse\" options \"ignore_files\" and \"ignore_dirs\" at the same time.",
            ));
        }
        Ok(Some(recurse))
    }

    /// What of owner and mode it is about.
    pub(crate) fn restrict_perms(self, perms: &Perms, mode: Option<u32>) -> Perms {
        let owner: Owner = perms.owner.restrict_to(self.user, self.group);
        Perms { owner, mode: mode.filter(|_| self.mode), attrs: None }
    }
}

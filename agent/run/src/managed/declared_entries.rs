//! The paths of a plan in, the entries of the file system behind them out: one entry may have several names.
//!
//! Law: what a state manages under another name is no orphan (held by `another_name_of_a_managed_path_is_not_removed`).

use std::collections::HashSet;
use std::path::Path;

use zagent_states::StateCtx;
use zagent_states::managed::ThingName;

use super::{PlanMentions, PlanThings};

/// Device and inode of all that the paths of a plan lead to.
pub(crate) struct DeclaredEntries {
    ids: HashSet<(u64, u64)>,
    /// A path that could not be looked at.
    unclear: Option<String>,
}

impl DeclaredEntries {
    pub(crate) fn new(things: &PlanThings, mentions: &PlanMentions, ctx: &StateCtx<'_>) -> Self {
        let mut found = Self { ids: HashSet::new(), unclear: None };
        let mut seen = HashSet::new();
        for path in things.paths() {
            // A link on the way to a managed path, and what it points to, belong to that path.
            for part in Path::new(path).ancestors() {
                if !seen.insert(part) {
                    break;
                }
                found.note(part, ctx);
            }
        }
        mentions.paths().for_each(|path| {
            let _ = ctx.fs.lstat(Path::new(path)).map(|stat| found.ids.extend(stat.map(|stat| stat.id)));
        });
        found
    }

    fn note(&mut self, path: &Path, ctx: &StateCtx<'_>) {
        match ctx.fs.lstat(path) {
            Ok(stat) => self.ids.extend(stat.map(|stat| stat.id)),
            Err(_) => self.unclear = Some(path.display().to_string()),
        }
        // A link that points nowhere leads to nothing.
        if let Ok(Some(stat)) = ctx.fs.stat(path) {
            self.ids.insert(stat.id);
        }
    }

    /// Why a path must stay.
    pub(crate) fn obstacle(&self, thing: &ThingName, ctx: &StateCtx<'_>) -> Option<String> {
        if !thing.is_path() {
            return None;
        }
        if let Some(path) = &self.unclear {
            return Some(format!("nobody can tell what stands at `{path}`, which a state manages"));
        }
        match ctx.fs.lstat(Path::new(&thing.name)) {
            Ok(Some(stat)) if self.ids.contains(&stat.id) => {
                Some("a state manages or mentions it under another name".into())
            }
            Ok(_) => None,
            Err(_) => Some("nobody can tell what stands there".into()),
        }
    }
}

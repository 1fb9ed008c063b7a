//! Packages as a revert puts them back: those that one transaction touched, together.
//!
//! What came is removed, not purged: what was written since may matter to somebody. Nothing else goes along.

use zagent_config::{Map, Value};

use super::context::PkgContext;
use crate::undoable::split_key;
use crate::{StateCtx, StateError, Undoable};
use zagent_host::command_options::value_text;
use zagent_host::packages::{PkgAction, PkgActionOptions, PkgTarget};

pub(crate) struct PkgUndo;

/// The packages that a transaction touched.
pub(crate) static PKG_UNDO: PkgUndo = PkgUndo;

/// The names in a key, which stand in one text with blanks between them.
fn split_names(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

impl Undoable for PkgUndo {
    fn kind(&self) -> &'static str {
        "packages"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let (packages, provider) = split_key(key);
        let pkg_ctx = PkgContext::new(ctx, provider)?;
        let db = pkg_ctx.db()?;
        let auto = ctx.tools().machine.read("/var/lib/apt/extended_states")?.unwrap_or_default();
        let one = |name: String| {
            let Some(pack) = db.get(&name) else { return (name, Value::Null) };
            let mut how = Map::from_iter([("version", Value::from(pack.version()))]);
            if pack.is_held {
                how.insert("held", true);
            }
            if is_auto_installed(&auto, &name) {
                how.insert("auto", true);
            }
            (name, how.into())
        };
        Ok(split_names(packages).into_iter().map(one).collect::<Map>().into())
    }

    fn is_same(&self, now: &Value, then: &Value) -> bool {
        // Whether it came for another is not worth a change.
        let essence = |value: &Value| -> Vec<(String, String)> {
            let all = value.as_map().into_iter().flat_map(Map::iter);
            let one = |how: &Value| {
                let field =
                    |key: &str| how.as_map().and_then(|m| m.get(key)).map(value_text).unwrap_or_default();
                format!("{} {}", field("version"), field("held"))
            };
            all.map(|(name, how)| (value_text(name), one(how))).collect()
        };
        essence(now) == essence(then)
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (packages, provider) = split_key(key);
        let pkg_ctx = PkgContext::new(ctx, provider)?;
        pkg_ctx.repair_interrupted()?;
        let (teller, db) = (pkg_ctx.teller(), pkg_ctx.db()?);
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        let (mut held, mut free, mut auto) = (Vec::new(), Vec::new(), Vec::new());
        for name in split_names(packages) {
            let then = to.as_map().and_then(|m| m.get(&name)).and_then(Value::as_map);
            let now = db.packages.get(&name);
            let field = |key: &str| then.and_then(|t| t.get(key)).is_some_and(Value::is_truthy);
            if now.is_some_and(|p| p.is_held) != field("held") {
                if field("held") { held.push(name.clone()) } else { free.push(name.clone()) }
            }
            let version = then.and_then(|t| t.get("version")).map(value_text);
            match version {
                None if now.is_some_and(|p| p.is_installed() || p.broken_state.is_some()) => gone.push(name),
                Some(version) if db.version(&name) != version => {
                    if field("auto") {
                        auto.push(name.clone());
                    }
                    back.push(PkgTarget { name, version: Some(version), file: None });
                }
                _ => {}
            }
        }
        free.retain(|name| db.get(name).is_some());
        if !free.is_empty() {
            teller.execute(&PkgAction::Unhold(&free))?;
        }
        if !back.is_empty() {
            let options = PkgActionOptions { downgrade: true, ..PkgActionOptions::default() };
            teller.execute(&PkgAction::Install(&back, &options))?;
        }
        if !gone.is_empty() {
            let act = PkgAction::Remove(&gone, false);
            let more: Vec<String> = teller
                .dry_run(&act)?
                .unwrap_or_default()
                .into_iter()
                .map(|s| s.name)
                .filter(|n| !gone.contains(n))
                .collect();
            if !more.is_empty() {
                let words = format!("these need what would be removed, and came later: {}", more.join(", "));
                return Err(StateError::new(words));
            }
            teller.execute(&act)?;
        }
        if !auto.is_empty() && ctx.tools().which("apt-mark").is_some() {
            auto.insert(0, "auto".into());
            ctx.tools().run_checked("apt-mark", &auto)?;
        }
        if !held.is_empty() {
            teller.execute(&PkgAction::Hold(&held))?;
        }
        Ok(())
    }
}

/// True when apt notes that a package came only because another needed it.
fn is_auto_installed(states: &str, name: &str) -> bool {
    states.split("\n\n").any(|p| {
        p.lines().any(|l| l.strip_prefix("Package: ") == Some(name))
            && p.lines().any(|l| l == "Auto-Installed: 1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::StateTestBed;
    use zagent_host::disk::Disk;
    use zagent_host::undo::{JournalReader, JournalRecord, UndoJournal};

    #[test]
    fn the_provider_that_was_asked_for_is_noted_and_asked_again() {
        let test_bed = StateTestBed::new();
        let root = tempfile::tempdir().unwrap();
        let journal = UndoJournal::create(root.path(), "one").unwrap();
        let disk = Disk::default();
        let ctx = StateCtx { journal: Some(&journal), fs: &disk, ..test_bed.scene() };
        let own = PkgContext::new(&ctx, None).unwrap().manager.provider.name();
        for provider in [None, Some(own)] {
            let pkg_ctx = PkgContext::new(&ctx, provider).unwrap();
            pkg_ctx.with_undo(&["no-such-a".to_owned(), "no-such-b".to_owned()], || Ok(())).unwrap();
        }
        let notes = JournalReader::open(&root.path().join("one")).unwrap();
        let key = |record: &JournalRecord| match record {
            JournalRecord::Other { data, .. } => data["key"].as_str().map(str::to_owned),
            _ => None,
        };
        let keys: Vec<String> = notes.records().iter().filter_map(key).collect();
        let named = format!("no-such-a no-such-b ({own})");
        assert_eq!(keys, ["no-such-a no-such-b", "no-such-a no-such-b", &*named, &*named]);

        let looked = PKG_UNDO.capture(&"vim (portage)".into(), &ctx);
        assert!(looked.unwrap_err().result.comment.contains("there is no provider `portage`"));
    }
}

//! Packages as a revert puts them back: those that one transaction touched, together.
//!
//! Law: what came is removed, not purged: what was written since may matter to somebody. Nothing else goes along.

use zagent_config::{Map, Value};

use super::desk::Desk;
use crate::host::command::shown;
use crate::host::packages::{Act, Options, Target};
use crate::states::{Failure, Scene, Thing, key_parts};

pub(super) struct Packages;

/// The packages that a transaction touched.
pub(super) static PACKAGES: Packages = Packages;

/// The names in a key, which stand in one text with blanks between them.
fn names(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

impl Thing for Packages {
    fn kind(&self) -> &'static str {
        "packages"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let (packages, provider) = key_parts(key);
        let desk = Desk::new(scene, provider)?;
        let db = desk.db()?;
        let auto = scene.tools().machine.read("/var/lib/apt/extended_states")?.unwrap_or_default();
        let one = |name: String| {
            let Some(pack) = db.get(&name) else { return (name, Value::Null) };
            let mut how = Map::from_iter([("version", Value::from(pack.version()))]);
            if pack.is_held {
                how.insert("held", true);
            }
            if is_auto(&auto, &name) {
                how.insert("auto", true);
            }
            (name, how.into())
        };
        Ok(names(packages).into_iter().map(one).collect::<Map>().into())
    }

    fn is_same(&self, now: &Value, then: &Value) -> bool {
        // Whether it came for another is not worth a change.
        let essence = |value: &Value| -> Vec<(String, String)> {
            let all = value.as_map().into_iter().flat_map(Map::iter);
            let one = |how: &Value| {
                let field = |key: &str| how.as_map().and_then(|m| m.get(key)).map(shown).unwrap_or_default();
                format!("{} {}", field("version"), field("held"))
            };
            all.map(|(name, how)| (shown(name), one(how))).collect()
        };
        essence(now) == essence(then)
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let (packages, provider) = key_parts(key);
        let desk = Desk::new(scene, provider)?;
        desk.mend()?;
        let (teller, db) = (desk.teller(), desk.db()?);
        let (mut gone, mut back) = (Vec::new(), Vec::new());
        let (mut held, mut free, mut auto) = (Vec::new(), Vec::new(), Vec::new());
        for name in names(packages) {
            let then = to.as_map().and_then(|m| m.get(&name)).and_then(Value::as_map);
            let now = db.packs.get(&name);
            let field = |key: &str| then.and_then(|t| t.get(key)).is_some_and(Value::is_truthy);
            if now.is_some_and(|p| p.is_held) != field("held") {
                if field("held") { held.push(name.clone()) } else { free.push(name.clone()) }
            }
            let version = then.and_then(|t| t.get("version")).map(shown);
            match version {
                None if now.is_some_and(|p| p.is_installed() || p.broken.is_some()) => gone.push(name),
                Some(version) if db.version(&name) != version => {
                    if field("auto") {
                        auto.push(name.clone());
                    }
                    back.push(Target { name, version: Some(version), file: None });
                }
                _ => {}
            }
        }
        free.retain(|name| db.get(name).is_some());
        if !free.is_empty() {
            teller.tell(&Act::Unhold(&free))?;
        }
        if !back.is_empty() {
            let options = Options { downgrade: true, ..Options::default() };
            teller.tell(&Act::Install(&back, &options))?;
        }
        if !gone.is_empty() {
            let act = Act::Remove(&gone, false);
            let more: Vec<String> = teller
                .rehearse(&act)?
                .unwrap_or_default()
                .into_iter()
                .map(|s| s.name)
                .filter(|n| !gone.contains(n))
                .collect();
            if !more.is_empty() {
                let words = format!("these need what would be removed, and came later: {}", more.join(", "));
                return Err(Failure::new(words));
            }
            teller.tell(&act)?;
        }
        if !auto.is_empty() && scene.tools().which("apt-mark").is_some() {
            auto.insert(0, "auto".into());
            scene.tools().must("apt-mark", &auto)?;
        }
        if !held.is_empty() {
            teller.tell(&Act::Hold(&held))?;
        }
        Ok(())
    }
}

/// True when apt notes that a package came only because another needed it.
fn is_auto(states: &str, name: &str) -> bool {
    states.split("\n\n").any(|p| {
        p.lines().any(|l| l.strip_prefix("Package: ") == Some(name))
            && p.lines().any(|l| l == "Auto-Installed: 1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Disk;
    use crate::states::stage::Stage;
    use crate::undo::{Journal, Notes, Record};

    #[test]
    fn the_provider_that_was_asked_for_is_noted_and_asked_again() {
        let stage = Stage::new();
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::create(root.path(), "one").unwrap();
        let disk = Disk::default();
        let scene = Scene { journal: Some(&journal), fs: &disk, ..stage.scene() };
        let own = Desk::new(&scene, None).unwrap().chosen.provider.name();
        for provider in [None, Some(own)] {
            let desk = Desk::new(&scene, provider).unwrap();
            desk.change(&["no-such-a".to_owned(), "no-such-b".to_owned()], || Ok(())).unwrap();
        }
        let notes = Notes::open(&root.path().join("one")).unwrap();
        let key = |record: &Record| match record {
            Record::Other { data, .. } => data["key"].as_str().map(str::to_owned),
            _ => None,
        };
        let keys: Vec<String> = notes.records().iter().filter_map(key).collect();
        let named = format!("no-such-a no-such-b ({own})");
        assert_eq!(keys, ["no-such-a no-such-b", "no-such-a no-such-b", &*named, &*named]);

        let looked = PACKAGES.look(&"vim (portage)".into(), &scene);
        assert!(looked.unwrap_err().done.comment.contains("there is no provider `portage`"));
    }
}

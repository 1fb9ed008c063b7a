//! `file.pruned`: a directory without empty directories, and gone when it is one itself.
//!
//! Law: only what is empty goes, and what a directory would be empty of is known before anything is removed.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zagent_config::{Map, Value};

use super::asked::{is_dir, named, once_more};
use crate::fs::Kind;
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// Nanoseconds of a day.
const DAY: i128 = 86_400 * 1_000_000_000;

/// A directory to prune.
#[derive(Debug)]
struct Pruned {
    path: PathBuf,
    /// Directories below it, too.
    recurse: bool,
    /// What is not empty may stay.
    ignore_errors: bool,
    /// Only what nobody has changed for so many days.
    older_than: i64,
}

/// What would go, the inner before the outer, and what stays although it should go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    empty: Vec<PathBuf>,
    full: Vec<PathBuf>,
}

/// What becomes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goes,
    /// It is not its time yet.
    Waits,
    Stays,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    let path = named(args, "Must provide name to file.pruned")?;
    if path == Path::new("/") {
        return Err(Failure::new("Refusing to prune \"/\""));
    }
    let ignore_errors = args.flag("ignore_errors", false);
    Ok(Box::new(Pruned {
        path,
        recurse: args.flag("recurse", false) || ignore_errors,
        ignore_errors,
        older_than: args.int("older_than")?.unwrap_or(0).max(0),
    }))
}

impl Pruned {
    fn found(&self, scene: &Scene<'_>, now: Timestamp) -> Result<Found, Failure> {
        let mut found = Found::default();
        if is_dir(scene, &self.path)? {
            self.walk(scene, &self.path, now, &mut found)?;
        }
        Ok(found)
    }

    fn walk(
        &self,
        scene: &Scene<'_>,
        dir: &Path,
        now: Timestamp,
        found: &mut Found,
    ) -> Result<Fate, Failure> {
        let mut fates = Vec::new();
        for (name, kind) in scene.fs.read_dir(dir)? {
            fates.push(match kind == Kind::Dir && self.recurse {
                true => self.walk(scene, &dir.join(name), now, found)?,
                false => Fate::Stays,
            });
        }
        // What loses something is changed by that, so it is young again; and what holds what waits, waits for it.
        let is_touched = fates.contains(&Fate::Goes);
        let waits = self.older_than > 0 && (is_touched || self.is_young(scene, dir, now)?);
        if waits || fates.contains(&Fate::Waits) && !fates.contains(&Fate::Stays) {
            return Ok(Fate::Waits);
        }
        if fates.iter().all(|fate| *fate == Fate::Goes) {
            found.empty.push(dir.to_owned());
            return Ok(Fate::Goes);
        }
        found.full.push(dir.to_owned());
        Ok(Fate::Stays)
    }

    fn is_young(&self, scene: &Scene<'_>, dir: &Path, now: Timestamp) -> Result<bool, Failure> {
        let Some(stat) = scene.fs.lstat(dir)? else { return Ok(true) };
        Ok(stat.mtime >= now.as_nanosecond() - i128::from(self.older_than) * DAY)
    }

    fn changes(&self, found: &Found) -> Map {
        let mut names: Vec<String> = found.empty.iter().map(|p| p.display().to_string()).collect();
        names.sort_unstable();
        let deleted = match self.recurse {
            true => names.into_iter().map(Value::from).collect(),
            false => Value::from(self.path.display().to_string()),
        };
        Map::from_iter([("deleted", deleted)])
    }

    fn looked(&self, scene: &Scene<'_>) -> Result<Found, Failure> {
        let found = self.found(scene, Timestamp::now())?;
        if found.full.is_empty() || self.ignore_errors {
            return Ok(found);
        }
        let full: Vec<String> = found.full.iter().map(|p| p.display().to_string()).collect();
        let path = self.path.display();
        Err(Failure::new(format!("Failed to remove directory {path}: not empty: {}", full.join(", "))))
    }
}

impl State for Pruned {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let path = self.path.display();
        let found = self.looked(scene)?;
        if !found.empty.is_empty() {
            return Ok(Look::drift(format!("Directory {path} is set for removal"), self.changes(&found)));
        }
        Ok(Look::right(match is_dir(scene, &self.path)? {
            true => format!("There is no directory to remove at {path}"),
            false => format!("Directory {path} is not present"),
        }))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let path = self.path.display();
        let found = self.looked(scene)?;
        for dir in &found.empty {
            // Somebody may have put something there meanwhile, and it is not ours to remove.
            if scene.fs.read_dir(dir)?.is_empty() {
                scene.fs.remove(dir)?;
            }
        }
        let comment = match self.recurse {
            true => format!("Recursively removed empty directories under {path}"),
            false => format!("Removed directory {path}"),
        };
        Ok(Done::new(comment, self.changes(&found)))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn cost(&self) -> Cost {
        Cost::Heavy
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::stage::{Stage, apply, chunk, preview};

    fn tree(stage: &Stage) -> String {
        for dir in ["top/a/b", "top/c", "top/full"] {
            std::fs::create_dir_all(stage.path(dir)).unwrap();
        }
        std::fs::write(stage.path("top/full/file"), "x").unwrap();
        stage.path("top")
    }

    #[test]
    fn only_what_is_empty_goes() {
        let stage = Stage::new();
        let top = tree(&stage);
        for args in ["{}", r#"{"recurse": true}"#] {
            let said = apply(&chunk("file.pruned", &top, args), &stage.scene());
            assert!(said.starts_with("false") && said.contains("not empty"), "{said}");
            assert!(stage.exists("top/a/b"));
        }
        let lenient = chunk("file.pruned", &top, r#"{"ignore_errors": true}"#);
        let changes = format!(r#"{{"deleted":["{top}/a","{top}/a/b","{top}/c"]}}"#);
        assert!(preview(&lenient, &stage.scene()).ends_with(&changes));
        assert!(stage.exists("top/a/b"));
        let said = apply(&lenient, &stage.scene());
        assert!(said.starts_with("true \"Recursively removed") && said.ends_with(&changes), "{said}");
        assert!(stage.exists("top/full/file") && !stage.exists("top/a") && !stage.exists("top/c"));
        assert!(apply(&lenient, &stage.scene()).starts_with("true \"There is no directory to remove"));

        std::fs::remove_file(stage.path("top/full/file")).unwrap();
        let all = chunk("file.pruned", &top, r#"{"recurse": true}"#);
        assert!(apply(&all, &stage.scene()).starts_with("true"));
        assert!(!stage.exists("top"));
        assert_eq!(apply(&all, &stage.scene()), format!("true \"Directory {top} is not present\" {{}}"));
    }

    #[test]
    fn what_is_young_stays() {
        let stage = Stage::new();
        std::fs::create_dir_all(stage.path("top/a/b")).unwrap();
        let pruned =
            Pruned { path: stage.path("top").into(), recurse: true, ignore_errors: false, older_than: 30 };
        let now = Timestamp::now();
        assert_eq!(pruned.found(&stage.scene(), now).unwrap(), Found::default());
        let later = now + jiff::Span::new().hours(24 * 31);
        let found = pruned.found(&stage.scene(), later).unwrap();
        // Its parent was changed by that, and is looked at again in a month.
        assert_eq!(found, Found { empty: vec![stage.path("top/a/b").into()], full: Vec::new() });
    }
}

//! `file.recurse`: a directory of the state tree, copied as a whole.
//!
//! It is made of the states for single files, directories and links: this file says which of them there are, and puts
//! their words together.

mod tree;

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use self::tree::{Tree, Wanted};
use super::asked::{named, once_more};
use super::clean::Keep;
use super::directory::{Directory, remove_all};
use super::filter::Filter;
use super::managed::{Managed, TreeMode};
use super::owner::Owner;
use super::parents;
use super::perms::Perms;
use super::symlink::Symlink;
use super::walk;
use crate::fs::Kind;
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, Standing, State};

/// Bytes of the lines that are shown of all entries together.
const SHOWN: usize = 64 << 10;
/// What stands in the place of those that are not.
const CUT: &str = "more lines than are shown\n";

/// A directory that should be a copy of one in the tree.
pub(super) struct Recurse {
    path: PathBuf,
    wanted: Wanted,
    perms: Perms,
    clean: bool,
    filter: Filter,
    require: Value,
    replace: bool,
    chunk: zagent_compiler::Chunk,
    mode: TreeMode,
    force_symlinks: bool,
    sym_mode: Option<u32>,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    if args.get("mode").is_some() {
        return Err(Failure::new(
            "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'.",
        ));
    }
    let keep = args.get("file_mode").and_then(Value::as_str).is_some_and(|m| m.eq_ignore_ascii_case("keep"));
    let fixed = if keep { None } else { args.mode("file_mode")? };
    let perms = Perms { owner: Owner::read(args)?, mode: args.mode("dir_mode")?, attrs: None };
    Ok(Box::new(Recurse {
        path: named(args, "Must provide name to file.recurse")?,
        wanted: Wanted::read(args)?,
        perms,
        clean: args.flag("clean", false),
        filter: Filter::read(args)?,
        require: args.get("require").cloned().unwrap_or_default(),
        replace: args.flag("replace", true),
        chunk: args.chunk.clone(),
        mode: TreeMode { fixed, keep },
        force_symlinks: args.flag("force_symlinks", false),
        sym_mode: args.mode("sym_mode")?,
    }))
}

/// The entries that a state copies.
///
/// # Errors
/// Fails in Salt's words when its sources are not there.
pub(super) fn tree_of(args: &Args<'_>, scene: &Scene<'_>) -> Result<Tree, Failure> {
    let path = named(args, "Must provide name to file.recurse")?;
    Wanted::read(args)?.tree(scene.files, &path, &Filter::read(args)?)
}

/// Words and changes of all entries, put together as Salt does.
#[derive(Default)]
struct Sum {
    comments: Vec<(String, String)>,
    changes: Map,
    diff: String,
    failed: bool,
    drifts: bool,
}

impl Sum {
    fn note(&mut self, path: &Path, changes: Map, comment: String, diff: &str) {
        let path = path.to_string_lossy().into_owned();
        if !diff.is_empty() {
            self.show(&path, diff);
        }
        if !comment.is_empty() {
            self.comments.push((path.clone(), comment));
        }
        if !changes.is_empty() {
            self.changes.insert(path, changes);
        }
    }

    /// Shows the lines of one entry, as long as there is room for them.
    fn show(&mut self, path: &str, diff: &str) {
        if self.diff.ends_with(CUT) {
            return;
        }
        if self.diff.len() + path.len() + diff.len() + CUT.len() + 2 > SHOWN {
            self.diff.push_str(CUT);
        } else {
            self.diff.push_str(&format!("{path}:\n{diff}"));
        }
    }

    fn look(&mut self, path: &Path, look: Result<Look, Failure>) {
        match look {
            Ok(look) if look.standing == Standing::Right => {}
            Ok(look) => {
                self.drifts = true;
                self.note(path, look.changes, look.comment, &look.diff);
            }
            Err(failure) => self.fail(path, failure),
        }
    }

    fn fail(&mut self, path: &Path, failure: Failure) {
        self.failed = true;
        self.note(path, failure.done.changes, failure.done.comment, "");
    }

    fn comment(&self) -> String {
        let parts: Vec<String> =
            self.comments.iter().map(|(path, text)| format!("\n#### {path} ####\n{text}")).collect();
        parts.join("\n").trim().to_owned()
    }
}

/// One entry of a copy, as a state of its own.
struct Part {
    path: PathBuf,
    state: Box<dyn State>,
    /// What must not stand in its place when the directory is cleaned.
    clashes: fn(Kind) -> bool,
    replacing: &'static str,
}

impl Recurse {
    fn parts(&self, tree: &Tree) -> Result<Vec<Part>, Failure> {
        let args = Args::new(&self.chunk);
        let mut parts: Vec<Part> = Vec::with_capacity(tree.dirs.len() + tree.files.len() + tree.links.len());
        for path in &tree.dirs {
            let state = Box::new(Directory::of_tree(path.clone(), self.perms.clone()));
            parts.push(Part {
                path: path.clone(),
                state,
                clashes: |kind| kind != Kind::Dir,
                replacing: "with a directory",
            });
        }
        for (path, source) in &tree.files {
            let state = Box::new(Managed::of_tree(&args, path.clone(), source, self.mode)?);
            parts.push(Part {
                path: path.clone(),
                state,
                clashes: |kind| kind == Kind::Dir,
                replacing: "with a file",
            });
        }
        for (path, target) in &tree.links {
            let owner = self.perms.owner.clone();
            let state = Box::new(Symlink::of_tree(
                path.clone(),
                target.clone(),
                owner,
                self.sym_mode,
                self.force_symlinks,
            ));
            parts.push(Part { path: path.clone(), state, clashes: |_| false, replacing: "" });
        }
        Ok(parts)
    }

    fn clashes(&self, scene: &Scene<'_>, part: &Part) -> Result<bool, Failure> {
        if !self.clean || !self.replace {
            return Ok(false);
        }
        Ok(scene.fs.stat(&part.path)?.is_some_and(|found| (part.clashes)(found.kind)))
    }

    fn strangers(&self, scene: &Scene<'_>, tree: &Tree) -> Result<Vec<PathBuf>, Failure> {
        if !self.clean {
            return Ok(Vec::new());
        }
        let mut keep = Keep::find(scene, &self.path, &self.require)?;
        tree.paths().for_each(|path| keep.add(path));
        let levels = walk::levels(scene, &self.path, None)?;
        Ok(keep.strangers(&self.path, &levels, &self.filter).into_iter().map(Path::to_owned).collect())
    }

    fn is_blocked(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        match scene.fs.stat(&self.path)? {
            Some(found) if found.kind != Kind::Dir => {
                Err(Failure::new(format!("The path {} exists and is not a directory", self.path.display())))
            }
            _ => Ok(()),
        }
    }

    fn right(&self) -> String {
        format!("The directory {} is in the correct state", self.path.display())
    }
}

impl State for Recurse {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let tree = self.wanted.tree(scene.files, &self.path, &self.filter)?;
        self.is_blocked(scene)?;
        let mut sum = Sum::default();
        for mut part in self.parts(&tree)? {
            if self.clashes(scene, &part)? {
                let what = if part.replacing == "with a file" { "directory " } else { "" };
                let words = format!("Replacing {what}{} {}", part.path.display(), part.replacing);
                sum.look(&part.path, Ok(Look::drift(words, Map::new())));
                continue;
            }
            sum.look(&part.path, part.state.check(scene));
        }
        let strangers = self.strangers(scene, &tree)?;
        if !strangers.is_empty() {
            sum.drifts = true;
            let shown: Vec<String> = strangers.iter().map(|p| p.to_string_lossy().into_owned()).collect();
            sum.comments.push(("removed".into(), shown.join("\n")));
        }
        // A directory without files is there all the same once this has run.
        sum.drifts |= scene.fs.stat(&self.path)?.is_none();
        if !sum.failed && !sum.drifts {
            return Ok(Look::right(self.right()));
        }
        let comment = sum.comment();
        Ok(Look::drift(comment, sum.changes).with_diff(sum.diff))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let meta = self.perms.meta()?;
        let tree = self.wanted.tree(scene.files, &self.path, &self.filter)?;
        self.is_blocked(scene)?;
        parents::make_all(scene, &self.path, meta)?;
        let mut sum = Sum::default();
        for mut part in self.parts(&tree)? {
            let done = match self.clashes(scene, &part)? {
                true => scene.fs.remove(&part.path).map_err(Failure::from),
                false => Ok(()),
            };
            match done.and_then(|()| once_more(part.state.as_mut(), scene)) {
                Ok(done) => sum.note(&part.path, done.changes, String::new(), &done.diff),
                Err(failure) => sum.fail(&part.path, failure),
            }
        }
        let strangers = self.strangers(scene, &tree)?;
        if !strangers.is_empty() {
            sum.changes.insert("removed", remove_all(scene, &strangers)?);
        }
        let comment = match sum.comment() {
            words if !words.is_empty() => words,
            _ if sum.changes.is_empty() => self.right(),
            _ => format!("Recursively updated {}", self.path.display()),
        };
        let done = Done::new(comment, sum.changes).with_diff(sum.diff);
        if sum.failed { Err(done.into()) } else { Ok(done) }
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

    #[test]
    fn lines_are_shown_up_to_a_bound() {
        let mut sum = Sum::default();
        let diff = "+x\n".repeat(5000);
        for n in 0..20 {
            sum.note(Path::new(&format!("/f{n}")), Map::new(), String::new(), &diff);
        }
        assert!(sum.diff.len() <= SHOWN && sum.diff.contains("/f3:\n"), "{}", sum.diff.len());
        assert!(sum.diff.ends_with(CUT));
        assert_eq!(sum.diff.matches(CUT).count(), 1);
    }
}

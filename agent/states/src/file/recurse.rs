//! `file.recurse`: a directory of the state tree, copied as a whole.
//!
//! It is made of the states for single files, directories and links: this file says which of them there are, and puts
//! their words together.

pub mod tree;

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use self::tree::{RecurseSource, RecurseTree};
use super::args::{reapply, state_path};
use super::clean::KeptPaths;
use super::directory::{FileDirectory, remove_all};
use super::filter::PathFilter;
use super::managed::{FileManaged, TreeMode};
use super::owner::Owner;
use super::parents;
use super::perms::Perms;
use super::symlink::FileSymlink;
use super::walk;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
    Verdict,
};
use zagent_host::fs::FileKind;

/// Bytes of the lines that are shown of all entries together.
const MAX_DIFF_BYTES: usize = 64 << 10;
/// What stands in the place of those that are not.
const DIFF_TRUNCATED: &str = "more lines than are shown\n";

/// A directory that should be a copy of one in the tree.
pub struct FileRecurse {
    path: PathBuf,
    wanted: RecurseSource,
    perms: Perms,
    clean: bool,
    filter: PathFilter,
    require: Value,
    replace: bool,
    chunk: zagent_compiler::Chunk,
    mode: TreeMode,
    force_symlinks: bool,
    sym_mode: Option<u32>,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    if args.get("mode").is_some() {
        return Err(StateError::new(
            "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'.",
        ));
    }
    let keep = args.get("file_mode").and_then(Value::as_str).is_some_and(|m| m.eq_ignore_ascii_case("keep"));
    let fixed = if keep { None } else { args.mode("file_mode")? };
    let perms = Perms { owner: Owner::read(args)?, mode: args.mode("dir_mode")?, attrs: None };
    Ok(Box::new(FileRecurse {
        path: state_path(args, "Must provide name to file.recurse")?,
        wanted: RecurseSource::read(args)?,
        perms,
        clean: args.flag("clean", false),
        filter: PathFilter::read(args)?,
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
pub fn source_tree(args: &ChunkArgs<'_>, ctx: &StateCtx<'_>) -> Result<RecurseTree, StateError> {
    let path = state_path(args, "Must provide name to file.recurse")?;
    RecurseSource::read(args)?.build_tree(ctx.files, &path, &PathFilter::read(args)?)
}

/// Words and changes of all entries, put together as Salt does.
#[derive(Default)]
struct RecurseSummary {
    comments: Vec<(String, String)>,
    changes: Map,
    diff: String,
    failed: bool,
    drifts: bool,
}

impl RecurseSummary {
    fn add_entry(&mut self, path: &Path, changes: Map, comment: String, diff: &str) {
        let path = path.to_string_lossy().into_owned();
        if !diff.is_empty() {
            self.add_diff(&path, diff);
        }
        if !comment.is_empty() {
            self.comments.push((path.clone(), comment));
        }
        if !changes.is_empty() {
            self.changes.insert(path, changes);
        }
    }

    /// Shows the lines of one entry, as long as there is room for them.
    fn add_diff(&mut self, path: &str, diff: &str) {
        if self.diff.ends_with(DIFF_TRUNCATED) {
            return;
        }
        if self.diff.len() + path.len() + diff.len() + DIFF_TRUNCATED.len() + 2 > MAX_DIFF_BYTES {
            self.diff.push_str(DIFF_TRUNCATED);
        } else {
            self.diff.push_str(&format!("{path}:\n{diff}"));
        }
    }

    fn add_check(&mut self, path: &Path, checked: Result<CheckResult, StateError>) {
        match checked {
            Ok(checked) if checked.verdict == Verdict::InSync => {}
            Ok(checked) => {
                self.drifts = true;
                self.add_entry(path, checked.changes, checked.comment, &checked.diff);
            }
            Err(failure) => self.add_failure(path, failure),
        }
    }

    fn add_failure(&mut self, path: &Path, failure: StateError) {
        self.failed = true;
        self.add_entry(path, failure.result.changes, failure.result.comment, "");
    }

    fn comment(&self) -> String {
        let parts: Vec<String> =
            self.comments.iter().map(|(path, text)| format!("\n#### {path} ####\n{text}")).collect();
        parts.join("\n").trim().to_owned()
    }
}

/// One entry of a copy, as a state of its own.
struct RecurseEntry {
    path: PathBuf,
    state: Box<dyn State>,
    /// What must not stand in its place when the directory is cleaned.
    clashes: fn(FileKind) -> bool,
    replacing: &'static str,
}

impl FileRecurse {
    fn entry_states(&self, tree: &RecurseTree) -> Result<Vec<RecurseEntry>, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let mut parts: Vec<RecurseEntry> =
            Vec::with_capacity(tree.dirs.len() + tree.files.len() + tree.links.len());
        for path in &tree.dirs {
            let state = Box::new(FileDirectory::for_tree(path.clone(), self.perms.clone()));
            parts.push(RecurseEntry {
                path: path.clone(),
                state,
                clashes: |kind| kind != FileKind::Dir,
                replacing: "with a directory",
            });
        }
        for (path, source) in &tree.files {
            let state = Box::new(FileManaged::for_tree(&args, path.clone(), source, self.mode)?);
            parts.push(RecurseEntry {
                path: path.clone(),
                state,
                clashes: |kind| kind == FileKind::Dir,
                replacing: "with a file",
            });
        }
        for (path, target) in &tree.links {
            let owner = self.perms.owner.clone();
            let state = Box::new(FileSymlink::for_tree(
                path.clone(),
                target.clone(),
                owner,
                self.sym_mode,
                self.force_symlinks,
            ));
            parts.push(RecurseEntry { path: path.clone(), state, clashes: |_| false, replacing: "" });
        }
        Ok(parts)
    }

    fn is_clash(&self, ctx: &StateCtx<'_>, part: &RecurseEntry) -> Result<bool, StateError> {
        if !self.clean || !self.replace {
            return Ok(false);
        }
        Ok(ctx.fs.stat(&part.path)?.is_some_and(|found| (part.clashes)(found.kind)))
    }

    fn unmanaged_paths(&self, ctx: &StateCtx<'_>, tree: &RecurseTree) -> Result<Vec<PathBuf>, StateError> {
        if !self.clean {
            return Ok(Vec::new());
        }
        let mut keep = KeptPaths::find_required(ctx, &self.path, &self.require)?;
        tree.paths().for_each(|path| keep.add(path));
        let levels = walk::walk_levels(ctx, &self.path, None)?;
        Ok(keep.unmanaged_paths(&self.path, &levels, &self.filter).into_iter().map(Path::to_owned).collect())
    }

    fn verify_not_blocked(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        match ctx.fs.stat(&self.path)? {
            Some(found) if found.kind != FileKind::Dir => Err(StateError::new(format!(
                "The path {} exists and is not a directory",
                self.path.display()
            ))),
            _ => Ok(()),
        }
    }

    fn in_sync_comment(&self) -> String {
        format!("The directory {} is in the correct state", self.path.display())
    }
}

impl State for FileRecurse {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let tree = self.wanted.build_tree(ctx.files, &self.path, &self.filter)?;
        self.verify_not_blocked(ctx)?;
        let mut sum = RecurseSummary::default();
        for mut part in self.entry_states(&tree)? {
            if self.is_clash(ctx, &part)? {
                let what = if part.replacing == "with a file" { "directory " } else { "" };
                let words = format!("Replacing {what}{} {}", part.path.display(), part.replacing);
                sum.add_check(&part.path, Ok(CheckResult::drifted(words, Map::new())));
                continue;
            }
            sum.add_check(&part.path, part.state.check(ctx));
        }
        let strangers = self.unmanaged_paths(ctx, &tree)?;
        if !strangers.is_empty() {
            sum.drifts = true;
            let shown: Vec<String> = strangers.iter().map(|p| p.to_string_lossy().into_owned()).collect();
            sum.comments.push(("removed".into(), shown.join("\n")));
        }
        // A directory without files is there all the same once this has run.
        sum.drifts |= ctx.fs.stat(&self.path)?.is_none();
        if !sum.failed && !sum.drifts {
            return Ok(CheckResult::in_sync(self.in_sync_comment()));
        }
        let comment = sum.comment();
        Ok(CheckResult::drifted(comment, sum.changes).with_diff(sum.diff))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let meta = self.perms.meta(ctx.machine)?;
        let tree = self.wanted.build_tree(ctx.files, &self.path, &self.filter)?;
        self.verify_not_blocked(ctx)?;
        parents::make_dir_all(ctx, &self.path, meta)?;
        let mut sum = RecurseSummary::default();
        for mut part in self.entry_states(&tree)? {
            let done = match self.is_clash(ctx, &part)? {
                true => ctx.fs.remove(&part.path).map_err(StateError::from),
                false => Ok(()),
            };
            match done.and_then(|()| reapply(part.state.as_mut(), ctx)) {
                Ok(done) => sum.add_entry(&part.path, done.changes, String::new(), &done.diff),
                Err(failure) => sum.add_failure(&part.path, failure),
            }
        }
        let strangers = self.unmanaged_paths(ctx, &tree)?;
        if !strangers.is_empty() {
            sum.changes.insert("removed", remove_all(ctx, &strangers)?);
        }
        let comment = match sum.comment() {
            words if !words.is_empty() => words,
            _ if sum.changes.is_empty() => self.in_sync_comment(),
            _ => format!("Recursively updated {}", self.path.display()),
        };
        let done = ApplyResult::new(comment, sum.changes).with_diff(sum.diff);
        if sum.failed { Err(done.into()) } else { Ok(done) }
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Heavy
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_up_to_a_bound() {
        let mut sum = RecurseSummary::default();
        let diff = "+x\n".repeat(5000);
        for n in 0..20 {
            sum.add_entry(Path::new(&format!("/f{n}")), Map::new(), String::new(), &diff);
        }
        assert!(sum.diff.len() <= MAX_DIFF_BYTES && sum.diff.contains("/f3:\n"), "{}", sum.diff.len());
        assert!(sum.diff.ends_with(DIFF_TRUNCATED));
        assert_eq!(sum.diff.matches(DIFF_TRUNCATED).count(), 1);
    }
}

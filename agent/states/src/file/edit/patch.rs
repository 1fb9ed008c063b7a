//! `file.patch`: a unified diff, applied to a file or to the files of a directory.
//!
//! Law: all files of a patch are worked out in memory first; when one hunk does not fit, nothing is written. A file
//! that has the change already is left as it is (held by `patches_apply_as_salts_do`).

pub mod apply;
pub mod options;
pub mod parse;

use std::path::{Component, Path, PathBuf};

use zagent_config::{Map, Value};

use self::apply::{PatchResult, apply_hunks};
use self::options::PatchOptions;
use self::parse::{FilePatch, Hunk, HunkLineKind, parse_patch};
use super::editor::{is_salt, resolve_links};
use super::texts::{render, variables};
use crate::file::diff::content_diff;
use crate::file::parents;
use crate::file::sources::FileSources;
use crate::{ApplyResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError};
use zagent_host::fs::{FileKind, FileMeta};

/// A patch of a file or directory.
pub(crate) struct FilePatchState {
    path: PathBuf,
    name: String,
    sources: FileSources,
    env: String,
    variables: Option<Map>,
    options: PatchOptions,
    reject_file: Option<PathBuf>,
    /// False when the same patch would fit again where it was applied: it has no context that would tell.
    is_idempotent: bool,
}

/// What becomes of one file.
struct PatchTarget {
    path: PathBuf,
    old: Option<Vec<u8>>,
    /// Nothing when it is removed.
    new: Option<Vec<u8>>,
}

/// What a patch would do.
enum PatchPlan {
    AlreadyApplied,
    Fits { targets: Vec<PatchTarget>, said: Vec<String>, settles: bool },
    Rejected { rejects: Vec<u8>, said: Vec<String> },
}

impl FilePatchState {
    /// Reads `file.patch`.
    ///
    /// # Errors
    /// Fails with Salt's words when arguments are not as they should be.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        if args.name().is_empty() {
            return Err(StateError::new("A file/directory to be patched is required"));
        }
        let not_absolute = |_| StateError::new(format!("{} is not an absolute path", args.name()));
        let path = args.path("name").map_err(not_absolute)?.unwrap_or_default();
        let reject_file = args.text("reject_file")?.map(PathBuf::from);
        if let Some(file) = reject_file.as_ref().filter(|file| !file.is_absolute()) {
            return Err(StateError::new(format!("'{}' is not an absolute path", file.display())));
        }
        let strip = args.int("strip")?;
        let strip =
            strip.map(|n| usize::try_from(n).map_err(|_| StateError::new("`strip` must not be negative")));
        let options = PatchOptions::read(&args.text("options")?.unwrap_or_default(), strip.transpose()?)?;
        let variables = match args.text("template")?.as_deref() {
            None | Some("") => None,
            Some("jinja") => Some(variables(args)?),
            Some(other) => {
                return Err(StateError::new(format!(
                    "template engine `{other}` is not supported, only jinja"
                )));
            }
        };
        let sources = FileSources::read(args)?;
        let sources = sources.ok_or_else(|| StateError::new("a source of the patch is required"))?;
        let env = args.text("saltenv")?.unwrap_or_else(|| args.chunk.env.to_string());
        let name = path.display().to_string();
        Ok(Self { path, name, sources, env, variables, options, reject_file, is_idempotent: true })
    }

    /// The text of the patch: of the first source that is there.
    fn patch_text(&self, ctx: &StateCtx<'_>) -> Result<Vec<u8>, StateError> {
        let found = self.sources.find_source(ctx, &self.env, &self.name).map_err(StateError::new)?;
        match &self.variables {
            None => Ok(found.bytes.to_vec()),
            Some(variables) => {
                render(ctx, &self.env, &found.source.text, &found.bytes, variables).map(String::into_bytes)
            }
        }
    }

    fn plan_patch(&self, ctx: &StateCtx<'_>) -> Result<PatchPlan, StateError> {
        let Some(stat) = ctx.fs.stat(&self.path)? else {
            return Err(StateError::new(format!("{} does not exist", self.name)));
        };
        self.check_reject_file(ctx)?;
        let text = self.patch_text(ctx)?;
        let files = parse_patch(&text).map_err(|words| StateError::new(format!("patch: **** {words}")))?;
        let (mut targets, mut said, mut rejects, mut settles) = (Vec::new(), Vec::new(), Vec::new(), true);
        for file in &files {
            let path = match stat.kind {
                FileKind::Dir => self.resolve_inside(ctx, file)?,
                _ => resolve_links(ctx, &self.path)?,
            };
            let hunks: Vec<Hunk<'_>> = file
                .hunks
                .iter()
                .map(|h| if self.options.reverse { h.reversed() } else { h.clone() })
                .collect();
            let known = targets.iter().rposition(|t: &PatchTarget| t.path == path);
            let old = match known {
                Some(at) => targets[at].new.clone(),
                None => read_target(ctx, &path)?,
            };
            said.push(format!("patching file {}", self.shown_path(&path)));
            match apply_hunks(old.as_deref().unwrap_or_default(), &hunks, self.options.leniency) {
                PatchResult::AlreadyApplied => {
                    said.pop();
                }
                PatchResult::Applied(new, words) => {
                    said.extend(words);
                    settles &=
                        apply_hunks(&new, &hunks, self.options.leniency) == PatchResult::AlreadyApplied;
                    let made_empty = new.is_empty()
                        && (self.options.remove_empty || removes_file(file, self.options.reverse));
                    let new = (!made_empty).then_some(new);
                    match known {
                        Some(at) => targets[at].new = new,
                        None => targets.push(PatchTarget { path, old, new }),
                    }
                }
                PatchResult::Rejected(which, words) => {
                    said.extend(words);
                    rejects.extend(reject_text(file, &hunks, &which));
                }
            }
        }
        Ok(match (rejects.is_empty(), targets.is_empty()) {
            (false, _) => PatchPlan::Rejected { rejects, said },
            (true, true) => PatchPlan::AlreadyApplied,
            (true, false) => PatchPlan::Fits { targets, said, settles },
        })
    }

    fn check_reject_file(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some(file) = &self.reject_file else { return Ok(()) };
        let parent = file.parent().unwrap_or(Path::new("/"));
        if ctx.fs.stat(parent)?.is_some_and(|stat| stat.kind == FileKind::Dir) {
            return Ok(());
        }
        Err(StateError::new(format!(
            "Parent directory for reject_file '{}' either does not exist, or is not a directory",
            file.display()
        )))
    }

    /// The file below the directory that a patch names; it must lie in there.
    fn resolve_inside(&self, ctx: &StateCtx<'_>, file: &FilePatch<'_>) -> Result<PathBuf, StateError> {
        let strip = self.options.strip.unwrap_or(0);
        let mut named: Vec<PathBuf> = Vec::new();
        for name in [&file.old, &file.new].into_iter().flatten() {
            let path: PathBuf = Path::new(name).components().skip(strip).collect();
            let is_inside =
                path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !is_inside {
                return Err(StateError::new(format!(
                    "the patch names `{name}`, which is not below {}",
                    self.name
                )));
            }
            if !path.as_os_str().is_empty() {
                named.push(self.path.join(path));
            }
        }
        for path in &named {
            if ctx.fs.stat(path)?.is_some() {
                return resolve_links(ctx, path);
            }
        }
        let makes = if self.options.reverse { &file.new } else { &file.old };
        match named.pop() {
            Some(path) if makes.is_none() || file.hunks.iter().all(|h| h.old_start == 0) => Ok(path),
            _ => Err(StateError::new(format!(
                "can't find file to patch: {}",
                file.old.as_deref().or(file.new.as_deref()).unwrap_or("the patch names none")
            ))),
        }
    }

    /// How a file is named in words: below a directory without the directory.
    fn shown_path(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.path).ok().filter(|rest| !rest.as_os_str().is_empty());
        below.unwrap_or(path).display().to_string()
    }

    fn rejected_error(&self, said: &[String]) -> StateError {
        let mut words =
            "Patch would not apply cleanly, no changes made. Results of dry-run are below.".to_owned();
        if self.reject_file.is_none() {
            words.push_str(
                " Run state again using the reject_file option to save rejects to a persistent file.",
            );
        }
        words.push_str("\n\n");
        words.push_str(&said.join("\n"));
        StateError::new(words)
    }
}

impl State for FilePatchState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        match self.plan_patch(ctx)? {
            PatchPlan::AlreadyApplied => Ok(CheckResult::in_sync("Patch was already applied")),
            PatchPlan::Fits { targets, said, .. } => {
                Ok(CheckResult::drifted("The patch would be applied", patch_output(&said))
                    .with_diff(shown_diff(&targets)))
            }
            // What does not fit is written down, which is something to do.
            PatchPlan::Rejected { said, .. } if self.reject_file.is_some() => {
                Ok(CheckResult::unknown(self.rejected_error(&said).result.comment))
            }
            PatchPlan::Rejected { said, .. } => Err(self.rejected_error(&said)),
        }
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        match self.plan_patch(ctx)? {
            PatchPlan::Rejected { said, .. } => Err(self.rejected_error(&said)),
            _ => self.check(ctx),
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        match self.plan_patch(ctx)? {
            PatchPlan::AlreadyApplied => Ok(ApplyResult::new("Patch was already applied", Map::new())),
            PatchPlan::Rejected { rejects, said } => {
                if let Some(file) = &self.reject_file {
                    ctx.fs.write(file, &rejects, FileMeta::default())?;
                }
                Err(self.rejected_error(&said))
            }
            PatchPlan::Fits { targets, said, settles } => {
                self.is_idempotent = settles;
                for target in &targets {
                    write_target(ctx, target, self.options.backup.as_deref())?;
                }
                let mut changes = patch_output(&said);
                if is_salt(ctx) {
                    // Salt starts a program; here it is this one.
                    changes.insert("pid", i64::from(std::process::id()));
                }
                Ok(ApplyResult::new("Patch successfully applied", changes).with_diff(shown_diff(&targets)))
            }
        }
    }

    fn is_convergent(&self) -> bool {
        self.is_idempotent
    }

    fn is_predictable(&self) -> bool {
        !self.sources.is_remote()
    }

    fn check_cost(&self) -> CheckCost {
        // A template may run commands.
        if self.sources.is_remote() || self.variables.is_some() { CheckCost::Heavy } else { CheckCost::Light }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

fn read_target(ctx: &StateCtx<'_>, path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match ctx.fs.read_for_change(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write_target(ctx: &StateCtx<'_>, target: &PatchTarget, backup: Option<&str>) -> Result<(), StateError> {
    let PatchTarget { path, old, new } = target;
    if let (Some(suffix), Some(old), Some(stat)) = (backup, old, ctx.fs.stat(path)?) {
        let mut kept = path.as_os_str().to_owned();
        kept.push(suffix);
        let meta = FileMeta { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) };
        ctx.fs.write(Path::new(&kept), old, meta)?;
    }
    match new {
        None => Ok(ctx.fs.remove(path)?),
        Some(new) => {
            parents::make_parents(ctx, path, FileMeta::default())?;
            Ok(ctx.fs.write(path, new, FileMeta::default())?)
        }
    }
}

/// What the program `patch` would have said, in the shape that Salt reports it.
fn patch_output(said: &[String]) -> Map {
    let mut changes = Map::new();
    changes.insert("retcode", Value::Int(0));
    changes.insert("stdout", said.join("\n"));
    changes.insert("stderr", "");
    changes
}

fn shown_diff(targets: &[PatchTarget]) -> String {
    let diff = |t: &PatchTarget| {
        let (old, new) = (t.old.as_deref().unwrap_or_default(), t.new.as_deref().unwrap_or_default());
        content_diff(old, new).shown
    };
    targets.iter().map(diff).collect()
}

/// True when a file is no more once it is patched.
const fn removes_file(file: &FilePatch<'_>, reverse: bool) -> bool {
    if reverse { file.old.is_none() } else { file.new.is_none() }
}

/// The hunks that do not fit, as a patch of their own.
fn reject_text(file: &FilePatch<'_>, hunks: &[Hunk<'_>], which: &[usize]) -> Vec<u8> {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "/dev/null".into());
    let mut out = format!("--- {}\n+++ {}\n", name(&file.old), name(&file.new)).into_bytes();
    for hunk in which.iter().filter_map(|i| hunks.get(*i)) {
        let count = |side: HunkLineKind| {
            hunk.lines.iter().filter(|(m, _)| *m == side || *m == HunkLineKind::Context).count()
        };
        let (removed, added) = (count(HunkLineKind::Removed), count(HunkLineKind::Added));
        let head = format!("@@ -{},{removed} +{},{added} @@\n", hunk.old_start, hunk.new_start);
        out.extend_from_slice(head.as_bytes());
        for (mark, text) in &hunk.lines {
            out.push(match mark {
                HunkLineKind::Context => b' ',
                HunkLineKind::Removed => b'-',
                HunkLineKind::Added => b'+',
            });
            out.extend_from_slice(text);
            if !text.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

//! `file.managed`: a file with this content, owner and mode.
//!
//! A file that is right is compared once; a diff is made only when there is a difference.

pub mod apply;
pub mod check;

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::Value;

use super::args::{reapply, reject_unsupported, saltenv, state_path};
use super::backup;
use super::check_cmd::CheckCmd;
use super::desired_content::{DesiredContent, RenderedContent};
use super::ignored_differences::IgnoredDifferences;
use super::parents;
use super::perms::Perms;
use super::sources::FileSources;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, Verdict,
};
use zagent_host::fs::{FileKind, FileMeta, Stat};

/// A file that should be so.
#[derive(Debug)]
pub(crate) struct FileManaged {
    path: PathBuf,
    env: Arc<str>,
    desired: DesiredContent,
    perms: Perms,
    keep_mode: bool,
    dir_mode: Option<u32>,
    makedirs: bool,
    replace: bool,
    create: bool,
    show_changes: bool,
    new_file_diff: bool,
    follow: bool,
    backup: bool,
    check_cmd: Option<CheckCmd>,
    ignore: IgnoredDifferences,
    /// What the last look made, for the act that follows it.
    rendered: Option<Option<RenderedContent>>,
    /// The difference that the last look showed of a new file.
    new_diff: RefCell<Option<String>>,
}

/// How things stand with the file.
#[derive(Debug)]
enum ManagedStatus {
    /// It is not there, and should not be made.
    NotCreated,
    /// It is there, and what it holds does not matter.
    ContentIgnored(Stat),
    /// It is not there.
    Missing(Option<RenderedContent>),
    /// It is there; whether it holds what it should.
    Present(Stat, RenderedContent, bool),
    /// A link stands there that is not to be followed.
    Link(RenderedContent),
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(FileManaged::read(args)?))
}

/// Makes the state of a file that holds exactly this text.
pub(crate) fn build_from_text(args: &ChunkArgs<'_>, text: &str) -> BuildResult {
    Ok(Box::new(FileManaged::with_content(args, DesiredContent::from_text(args, text.into())?)?))
}

/// Makes the state of a file that holds exactly these bytes.
pub(crate) fn build_from_bytes(args: &ChunkArgs<'_>, bytes: Arc<[u8]>) -> BuildResult {
    Ok(Box::new(FileManaged::with_content(args, DesiredContent::from_bytes(args, bytes)?)?))
}

impl FileManaged {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Self::with_content(args, DesiredContent::read(args)?)
    }

    fn with_content(args: &ChunkArgs<'_>, desired: DesiredContent) -> Result<Self, StateError> {
        reject_unsupported(args, &["selinux"])?;
        let is_asked = |key: &&&str| args.get(key).is_some_and(Value::is_truthy);
        if desired.sources().is_none()
            && let Some(key) = ["signature", "source_hash_sig"].iter().find(is_asked)
        {
            let words = format!("`{key}` is the signature of a source, and there is none: add `source`");
            return Err(StateError::new(words));
        }
        let keep_mode =
            args.get("mode").and_then(Value::as_str).is_some_and(|m| m.eq_ignore_ascii_case("keep"));
        if keep_mode && desired.is_specified() && desired.sources().is_none() {
            return Err(StateError::new(
                "Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or \
                 'contents_grains'",
            ));
        }
        let path = state_path(args, "Destination file name is required")?;
        let mut perms = Perms::read(args, if keep_mode { &[] } else { &["mode"] })?;
        perms.attrs = args.text("attrs")?;
        Ok(Self {
            path,
            env: saltenv(args)?,
            replace: args.flag("replace", true) && desired.is_specified(),
            desired,
            perms,
            keep_mode,
            dir_mode: args.mode("dir_mode")?,
            makedirs: args.flag("makedirs", false),
            create: args.flag("create", true),
            show_changes: args.flag("show_changes", true),
            new_file_diff: args.flag("new_file_diff", false),
            follow: args.flag("follow_symlinks", true),
            backup: backup::is_requested(args)?,
            check_cmd: CheckCmd::read(args)?,
            ignore: IgnoredDifferences::read(args)?,
            rendered: None,
            new_diff: RefCell::default(),
        })
    }

    /// A file of a tree that is copied as a whole.
    ///
    /// # Errors
    /// Fails when what is said about it cannot be understood.
    pub(crate) fn for_tree(
        args: &ChunkArgs<'_>,
        path: PathBuf,
        source: &str,
        mode: TreeMode,
    ) -> Result<Self, StateError> {
        let perms = Perms { owner: super::owner::Owner::read(args)?, mode: mode.fixed, attrs: None };
        Ok(Self {
            path,
            env: saltenv(args)?,
            desired: DesiredContent::from_tree(args, source)?,
            perms,
            keep_mode: mode.keep,
            dir_mode: None,
            makedirs: true,
            replace: args.flag("replace", true),
            create: true,
            show_changes: args.flag("show_changes", true),
            new_file_diff: false,
            follow: args.flag("follow_symlinks", true),
            backup: backup::is_requested(args)?,
            check_cmd: None,
            ignore: IgnoredDifferences::default(),
            rendered: None,
            new_diff: RefCell::default(),
        })
    }

    /// How things stand; `reuse` takes what the last look made.
    fn current_status(&mut self, ctx: &StateCtx<'_>, reuse: bool) -> Result<ManagedStatus, StateError> {
        // Such a name is that of a directory: the file would have to lie in it under no name at all.
        if self.path.as_os_str().as_bytes().ends_with(b"/") && ctx.fs.stat(&self.path)?.is_none() {
            return Err(StateError::new("Parent directory not present"));
        }
        if !self.create && ctx.fs.stat(&self.path)?.is_none_or(|found| found.kind != FileKind::File) {
            return Ok(ManagedStatus::NotCreated);
        }
        if !self.replace
            && let Some(found) = ctx.fs.stat(&self.path)?
        {
            self.verify_kind(&found)?;
            return Ok(ManagedStatus::ContentIgnored(found));
        }
        if let Some(found) = self.unchanged_stat(ctx)? {
            return Ok(ManagedStatus::ContentIgnored(found));
        }
        let made = match self.rendered.take().filter(|_| reuse) {
            Some(made) => made,
            None => self.desired.render_content(ctx, &self.env, &self.path.to_string_lossy())?,
        };
        if self.keep_mode {
            self.perms.mode = made.as_ref().and_then(|made| made.mode);
        }
        let Some(made) = made else { return Ok(ManagedStatus::Missing(None)) };
        if !self.follow && ctx.fs.lstat(&self.path)?.is_some_and(|found| found.kind == FileKind::Link) {
            return Ok(ManagedStatus::Link(made));
        }
        match ctx.fs.compare(&self.path, &made.bytes)? {
            None => Ok(ManagedStatus::Missing(Some(made))),
            Some((found, is_same)) => {
                self.verify_kind(&found)?;
                Ok(ManagedStatus::Present(found, made, is_same))
            }
        }
    }

    /// The file when it is there with the digest that its source has: nobody needs to be asked for the content then.
    fn unchanged_stat(&self, ctx: &StateCtx<'_>) -> Result<Option<Stat>, StateError> {
        let is_settled = |s: &&FileSources| !self.desired.is_template() && (s.is_remote() || !self.keep_mode);
        let Some(sources) = self.desired.sources().filter(is_settled) else { return Ok(None) };
        let Some(found) = ctx.fs.stat(&self.path)?.filter(|found| found.kind == FileKind::File) else {
            return Ok(None);
        };
        match sources.known_digest(ctx, &self.env, &self.path.to_string_lossy()) {
            Ok(Some(sum)) => Ok(sum.matches_file(ctx.fs, &self.path)?.then_some(found)),
            Ok(None) => Ok(None),
            Err(error) => Err(StateError::new(format!("Unable to manage file: {error}"))),
        }
    }

    fn verify_kind(&self, found: &Stat) -> Result<(), StateError> {
        let path = self.path.display();
        match found.kind {
            FileKind::File => Ok(()),
            FileKind::Dir => Err(StateError::new(format!("Specified target {path} is a directory"))),
            _ => Err(StateError::new(format!("Specified target {path} is not a regular file"))),
        }
    }

    /// Refuses a content of a source that nobody signed who should have, and what `check_cmd` does not like. The source of
    /// a template was looked at before it was rendered.
    fn verify_new_content(&self, ctx: &StateCtx<'_>, bytes: &[u8], meta: FileMeta) -> Result<(), StateError> {
        if let Some(sources) = self.desired.sources().filter(|_| !self.desired.is_template()) {
            sources.verify_signature(ctx, &self.env, bytes)?;
        }
        self.check_cmd.as_ref().map_or(Ok(()), |check| check.run(ctx, bytes, meta))
    }

    /// Where the file really is: at the end of the links that lead to it.
    fn resolve_target(&self, ctx: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        if !self.follow {
            return Ok(self.path.clone());
        }
        Ok(ctx.fs.resolve_for_change(&self.path)?)
    }
}

/// The words of a failure in a dry run: Salt says then only why, not that it is unable.
fn as_dry_run(mut failure: StateError) -> StateError {
    let words = failure.result.comment.strip_prefix("Unable to manage file: ");
    if let Some(why) = words.filter(|why| !why.starts_with("none of the specified")) {
        failure.result.comment = why.to_owned();
    }
    failure
}

/// Where packages leave alone what they did not bring.
const ADMIN_DIRS: [&str; 5] = ["/etc", "/home", "/root", "/srv", "/opt"];

/// True when what was found of a file that is written as a whole holds behind this veil: a package does not bring just what
/// the state says, and where a person's file is it puts its own beside it.
pub(crate) fn content_still_valid(path: &Path, checked: &CheckResult, hidden: Effects) -> bool {
    if !hidden.intersects(Effects::FILES | Effects::PACKAGE_FILES) {
        return !hidden.is_all();
    }
    let is_own = || ADMIN_DIRS.iter().any(|dir| path.starts_with(dir));
    !hidden.intersects(Effects::FILES) && !hidden.is_all() && (checked.verdict != Verdict::InSync || is_own())
}

/// The mode of a file of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeMode {
    /// This one.
    pub fixed: Option<u32>,
    /// That of the source.
    pub keep: bool,
}

impl State for FileManaged {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        (self.rendered, self.new_diff) = (None, RefCell::default());
        let now = self.current_status(ctx, false)?;
        let checked = match &now {
            ManagedStatus::NotCreated => {
                let path = self.path.display();
                CheckResult::in_sync(format!("File {path} is not present and is not set for creation"))
            }
            ManagedStatus::ContentIgnored(found) => self.check_metadata(ctx, found)?,
            ManagedStatus::Missing(made) => self.check_missing(made.as_ref()),
            ManagedStatus::Present(found, made, is_same) => self.check_content(ctx, found, made, *is_same)?,
            ManagedStatus::Link(made) => {
                let (changes, shown) = self.link_changes(ctx, &made.bytes)?;
                CheckResult::drifted(self.predicted_comment(), changes).with_diff(shown)
            }
        };
        if checked.verdict != Verdict::InSync {
            // What could not be written is told by the look already.
            self.resolve_target(ctx)?;
            self.rendered = match now {
                ManagedStatus::Missing(made) => Some(made),
                ManagedStatus::Present(_, made, _) | ManagedStatus::Link(made) => Some(Some(made)),
                ManagedStatus::NotCreated | ManagedStatus::ContentIgnored(_) => None,
            };
        }
        Ok(checked)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.perms.owner.ids(ctx.machine)?;
        let done = match self.current_status(ctx, true)? {
            ManagedStatus::NotCreated => ApplyResult::default(),
            ManagedStatus::ContentIgnored(found) => self.apply_metadata(ctx, &found)?,
            ManagedStatus::Missing(made) => self.create(ctx, made.as_ref())?,
            ManagedStatus::Present(found, made, is_same) => {
                self.write_content(ctx, &found, &made, is_same)?
            }
            ManagedStatus::Link(made) => self.replace_link(ctx, &made)?,
        };
        if let Some(sources) = self.desired.sources() {
            sources.discard_downloads(ctx, &self.env);
        }
        Ok(done)
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx).map_err(as_dry_run)?;
        if checked.verdict == Verdict::InSync {
            let path = self.path.display();
            if checked.comment.ends_with("No changes made.") {
                checked.comment = format!("File {path} not updated");
            } else if checked.comment.ends_with("is in the correct state") {
                checked.comment = format!("The file {path} is in the correct state");
            }
        }
        Ok(checked)
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        !self.desired.sources().is_some_and(FileSources::is_remote)
    }

    fn reads(&self) -> Effects {
        let files = Effects::FILES | Effects::PACKAGE_FILES | Effects::USERS;
        if self.is_predictable() && !self.desired.reads_host() { files } else { Effects::ALL }
    }

    fn still_valid(&self, checked: &CheckResult, hidden: Effects) -> bool {
        self.replace && content_still_valid(&self.path, checked, hidden)
    }

    fn is_deterministic(&self) -> bool {
        self.is_predictable() && self.replace && self.create && !self.desired.reads_host()
    }

    fn assume(&self, ctx: &StateCtx<'_>) -> Result<Vec<String>, StateError> {
        let mut lacks = self.perms.owner.assume_accounts(ctx);
        if !self.makedirs {
            lacks.extend(parents::assume_parent(ctx, &self.path)?);
        }
        Ok(lacks)
    }

    fn check_cost(&self) -> CheckCost {
        match self.desired.sources() {
            Some(sources) if sources.is_remote() => CheckCost::Heavy,
            // Templates are rendered on one thread anyway, so nothing is won by asking from another.
            _ => CheckCost::Light,
        }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

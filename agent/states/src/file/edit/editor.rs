//! A file and an edit of its text in, a state out.
//!
//! Law: `check` and `apply` do the same edit in memory; they differ only in that `apply` writes what came out. A
//! file that the edit leaves as it is, is not written (held by `edits_do_and_say_what_salts_do`).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::diff::unified_diff;
use super::text::{LineEnds, TextEncoding, lines};
use super::texts::EditTexts;
use crate::file::diff;
use crate::file::parents;
use crate::file::perms::Perms;
use crate::{ApplyResult, CheckCost, CheckResult, LockKey, State, StateCtx, StateError};
use zagent_host::fs::{FileMeta, Stat};

/// Words and changes, as Salt reports them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EditReport {
    /// In words.
    pub comment: String,
    /// What changed, in Salt's shape.
    pub changes: Map,
}

impl EditReport {
    /// Words alone.
    pub(crate) fn comment_only(comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), changes: Map::new() }
    }

    /// Words, and the diff that Salt puts into `changes`.
    pub(crate) fn with_diff(comment: impl Into<String>, diff: impl Into<zagent_config::Value>) -> Self {
        let mut changes = Map::new();
        changes.insert("diff", diff);
        Self { comment: comment.into(), changes }
    }
}

/// What an edit makes of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EditResult {
    /// The text is as it should be; in words.
    Unchanged(String),
    /// It becomes another.
    Change(EditChange),
}

/// A text that becomes another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EditChange {
    /// The new text.
    pub new: String,
    /// What a dry run says.
    pub(crate) predicted: EditReport,
    /// What is said once it is done.
    pub applied: EditReport,
    /// True when what came out is still not what was asked for.
    pub failed: bool,
}

impl EditResult {
    /// What became of a text: nothing, or another one with its lines when they are to be shown. `ends` says what ends a line
    /// of the old text.
    pub(crate) fn from_texts(old: &str, new: String, show: bool, ends: LineEnds, would: &str) -> Self {
        if new == old {
            return Self::Unchanged("No changes needed to be made".into());
        }
        let diff = if show {
            Value::from(unified_diff(&lines(old, ends), &lines(&new, LineEnds::Universal)).concat())
        } else {
            true.into()
        };
        let (would, did) =
            (EditReport::with_diff(would, diff.clone()), EditReport::with_diff("Changes were made", diff));
        Self::Change(EditChange { new, predicted: would, applied: did, failed: false })
    }
}

/// What a file that is not there means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MissingFile {
    /// It has to be there.
    Fail(String),
    /// Nothing to edit, nothing to do.
    Skip(String),
    /// It is made, as if it had been there and empty; `would` is what a dry run says then.
    Create {
        /// Directories on the way are made too.
        makedirs: bool,
        /// It is made even when the edit adds nothing.
        empty: bool,
        /// What a dry run says, when it is not what the edit says.
        would: Option<EditReport>,
    },
}

/// Where the old content is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EditBackup {
    /// Nowhere.
    #[default]
    None,
    /// Beside the file, with this at the end of its name.
    Suffix(String),
    /// Beside the file, with the time at the end of its name.
    Time,
}

/// An edit of the text of a file.
pub(crate) trait TextEditor: Send {
    /// What becomes of a text; nothing is the text of a file that is not there. Asks the scene for sources alone; the rest
    /// is a pure function of text and parameters.
    ///
    /// # Errors
    /// Fails when it cannot be edited so.
    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<EditResult, StateError>;

    /// What a file that is not there means.
    fn on_missing_file(&self) -> MissingFile;

    /// Where the old content is kept.
    fn backup(&self) -> EditBackup {
        EditBackup::None
    }

    /// How the file is written.
    fn encoding(&self) -> TextEncoding {
        TextEncoding::Utf8
    }

    /// Where texts come from that are not in the state itself, when they do.
    fn texts(&self) -> Option<&EditTexts> {
        None
    }

    /// True when Salt does not ask whether the file is text.
    fn accepts_binary(&self) -> bool {
        false
    }
}

/// The state of an edited file.
pub(crate) struct EditedFile {
    path: PathBuf,
    editor: Box<dyn TextEditor>,
    perms: Perms,
    /// False when the same edit would change again what it made.
    is_idempotent: bool,
}

/// What an edit found.
struct EditPlan {
    /// The file itself, links followed.
    path: PathBuf,
    stat: Option<Stat>,
    old: Vec<u8>,
    text: String,
    edit: EditResult,
}

impl EditedFile {
    /// An edit of the file at a path.
    pub(crate) fn new(path: PathBuf, editor: impl TextEditor + 'static) -> Self {
        Self { path, editor: Box::new(editor), perms: Perms::default(), is_idempotent: true }
    }

    /// The same with an owner and a mode.
    #[must_use]
    pub(crate) fn with_perms(self, perms: Perms) -> Self {
        Self { perms, ..self }
    }

    fn plan_edit(&self, ctx: &StateCtx<'_>) -> Result<EditPlan, StateError> {
        let path = resolve_links(ctx, &self.path)?;
        let stat = ctx.fs.stat(&path)?;
        if stat.is_none() {
            match self.editor.on_missing_file() {
                MissingFile::Fail(words) => return Err(StateError::new(words)),
                MissingFile::Skip(words) => {
                    let (old, text, edit) = (Vec::new(), String::new(), EditResult::Unchanged(words));
                    return Ok(EditPlan { path, stat, old, text, edit });
                }
                MissingFile::Create { makedirs, .. } => self.ensure_parent(ctx, makedirs)?,
            }
        }
        let old = if stat.is_some() { ctx.fs.read_for_change(&path)? } else { Vec::new() };
        if !self.editor.accepts_binary()
            && self.editor.encoding() == TextEncoding::Utf8
            && diff::is_binary(&old)
        {
            let path = path.display();
            return Err(StateError::new(format!(
                "Cannot perform string replacements on a binary file: {path}"
            )));
        }
        let text = self.editor.encoding().decode(&old).ok_or_else(|| {
            StateError::new(format!("{} is not written in the encoding it should be", path.display()))
        })?;
        let edit = self.editor.edit(stat.is_some().then_some(&text), ctx)?;
        Ok(EditPlan { path, stat, old, text, edit })
    }

    /// A directory that neither is there nor will be made fails before anything is done.
    fn ensure_parent(&self, ctx: &StateCtx<'_>, makedirs: bool) -> Result<(), StateError> {
        if makedirs || parents::parent_exists(ctx, &self.path)? {
            return Ok(());
        }
        Err(StateError::new(format!("{}: file not found", self.path.display())))
    }

    /// Owner and mode that are asked for, and what differs from them.
    fn meta(&self, ctx: &StateCtx<'_>, stat: Option<&Stat>) -> Result<(FileMeta, Map), StateError> {
        Ok((
            self.perms.meta(ctx.machine)?,
            stat.map(|stat| self.perms.changes(ctx.machine, stat)).unwrap_or_default(),
        ))
    }

    fn save(
        &self,
        ctx: &StateCtx<'_>,
        found: &EditPlan,
        new: &str,
        meta: FileMeta,
    ) -> Result<(), StateError> {
        let Some(bytes) = self.editor.encoding().encode(new) else {
            return Err(StateError::new(format!(
                "the new text of {} cannot be written in its encoding",
                found.path.display()
            )));
        };
        if let Some(stat) = &found.stat {
            self.save_backup(ctx, found, stat)?;
        } else if let MissingFile::Create { makedirs: true, .. } = self.editor.on_missing_file() {
            parents::make_parents(ctx, &found.path, FileMeta::default())?;
        }
        Ok(ctx.fs.write(&found.path, &bytes, meta)?)
    }

    fn save_backup(&self, ctx: &StateCtx<'_>, found: &EditPlan, stat: &Stat) -> Result<(), StateError> {
        let suffix = match self.editor.backup() {
            EditBackup::None => return Ok(()),
            EditBackup::Suffix(suffix) => suffix,
            EditBackup::Time => jiff::Zoned::now().strftime(".%Y-%m-%d-%H-%M-%S").to_string(),
        };
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(&suffix);
            PathBuf::from(name)
        };
        let kept = beside(&found.path);
        if kept == found.path {
            return Ok(());
        }
        let meta = FileMeta { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) };
        ctx.fs.write(&kept, &found.old, meta)?;
        ctx.fs.set_times(&kept, stat.atime, stat.mtime)?;
        if found.path != self.path {
            ctx.fs.symlink(&beside(&self.path), &kept, FileMeta::default())?;
        }
        Ok(())
    }
}

impl State for EditedFile {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let found = self.plan_edit(ctx)?;
        let (_, meta_changes) = self.meta(ctx, found.stat.as_ref())?;
        let is_made = found.stat.is_none();
        let would = match (&found.edit, self.editor.on_missing_file()) {
            (
                EditResult::Unchanged(words),
                MissingFile::Skip(_) | MissingFile::Create { empty: false, .. },
            ) if is_made => {
                return Ok(CheckResult::in_sync(words));
            }
            (_, MissingFile::Create { would: Some(said), .. }) if is_made => said,
            (EditResult::Change(change), _) => change.predicted.clone(),
            (EditResult::Unchanged(words), _) if meta_changes.is_empty() && !is_made => {
                return Ok(CheckResult::in_sync(words));
            }
            (EditResult::Unchanged(_), _) if is_made => {
                let mut changes = Map::new();
                changes.insert("new", self.path.display().to_string());
                EditReport { comment: format!("File {} is set to be created", self.path.display()), changes }
            }
            (EditResult::Unchanged(_), _) => EditReport::comment_only("Changes would be made"),
        };
        let changes = merge_changes(would.changes, meta_changes);
        Ok(CheckResult::drifted(would.comment, changes).with_diff(shown_diff(&found)))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        // Salt's dry run does not ask whether the directory is there.
        if is_salt(ctx)
            && let MissingFile::Create { would: Some(said), .. } = self.editor.on_missing_file()
            && ctx.fs.stat(&self.path)?.is_none()
        {
            return Ok(CheckResult::drifted(said.comment, said.changes));
        }
        self.check(ctx)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let found = self.plan_edit(ctx)?;
        let (meta, meta_changes) = self.meta(ctx, found.stat.as_ref())?;
        let (new, said, failed) = match &found.edit {
            EditResult::Unchanged(words) => (&found.text, EditReport::comment_only(words), false),
            EditResult::Change(change) => (&change.new, change.applied.clone(), change.failed),
        };
        let is_made = found.stat.is_none()
            && matches!(self.editor.on_missing_file(), MissingFile::Create { empty: true, .. });
        if *new != found.text || is_made {
            self.save(ctx, &found, new, meta)?;
        } else if found.stat.is_some() && !meta_changes.is_empty() {
            ctx.fs.set_meta(&found.path, meta, true)?;
        }
        self.is_idempotent = matches!(self.editor.edit(Some(new), ctx), Ok(EditResult::Unchanged(_)));
        let done = ApplyResult::new(said.comment, merge_changes(said.changes, meta_changes))
            .with_diff(shown_diff(&found));
        if failed { Err(done.into()) } else { Ok(done) }
    }

    fn is_convergent(&self) -> bool {
        self.is_idempotent
    }

    fn is_predictable(&self) -> bool {
        !self.editor.texts().is_some_and(EditTexts::is_remote)
    }

    fn check_cost(&self) -> CheckCost {
        // A template may run commands.
        if self.editor.texts().is_some_and(EditTexts::has_sources) {
            CheckCost::Heavy
        } else {
            CheckCost::Light
        }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

fn merge_changes(mut changes: Map, more: Map) -> Map {
    for (key, value) in more.iter() {
        changes.insert(key.clone(), value.clone());
    }
    changes
}

/// The diff that people see.
fn shown_diff(found: &EditPlan) -> String {
    match &found.edit {
        EditResult::Unchanged(_) => String::new(),
        EditResult::Change(change) => diff::content_diff(found.text.as_bytes(), change.new.as_bytes()).shown,
    }
}

/// The file that an edit of a path changes: where the links at its end lead.
///
/// # Errors
/// Fails when a link may be planted, when links lead in a circle, and for the name of a directory that is not there.
pub(crate) fn resolve_links(ctx: &StateCtx<'_>, path: &Path) -> Result<PathBuf, StateError> {
    if path.as_os_str().as_bytes().ends_with(b"/") && ctx.fs.stat(path)?.is_none() {
        return Err(StateError::new(format!("{}: file not found", path.display())));
    }
    Ok(ctx.fs.resolve_for_change(path)?)
}

/// True when Salt's verdicts count.
pub(crate) fn is_salt(ctx: &StateCtx<'_>) -> bool {
    ctx.compat == Compat::Salt
}

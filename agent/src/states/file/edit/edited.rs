//! A file and an edit of its text in, a state out.
//!
//! Law: `check` and `apply` do the same edit in memory; they differ only in that `apply` writes what came out. A file that the
//! edit leaves as it is, is not written.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::diff::unified;
use super::sources::Texts;
use super::text::{Encoding, Ends, lines};
use crate::fs::{Meta, Stat};
use crate::states::file::content;
use crate::states::file::parents;
use crate::states::file::perms::Perms;
use crate::states::{Cost, Done, Failure, Look, Resource, Scene, State};

/// Words and changes, as Salt reports them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// In words.
    pub comment: String,
    /// What changed, in Salt's shape.
    pub changes: Map,
}

impl Said {
    /// Words alone.
    pub(super) fn words(comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), changes: Map::new() }
    }

    /// Words, and the diff that Salt puts into `changes`.
    pub(super) fn diff(comment: impl Into<String>, diff: impl Into<zagent_config::Value>) -> Self {
        let mut changes = Map::new();
        changes.insert("diff", diff);
        Self { comment: comment.into(), changes }
    }
}

/// What an edit makes of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edit {
    /// The text is as it should be; in words.
    Right(String),
    /// It becomes another.
    Change(Change),
}

/// A text that becomes another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// The new text.
    pub new: String,
    /// What a dry run says.
    pub would: Said,
    /// What is said once it is done.
    pub did: Said,
    /// True when what came out is still not what was asked for.
    pub failed: bool,
}

impl Edit {
    /// What became of a text: nothing, or another one with its lines when they are to be shown. `ends` says what ends a line
    /// of the old text.
    pub(super) fn of(old: &str, new: String, show: bool, ends: Ends, would: &str) -> Self {
        if new == old {
            return Self::Right("No changes needed to be made".into());
        }
        let diff = if show {
            Value::from(unified(&lines(old, ends), &lines(&new, Ends::Universal)).concat())
        } else {
            true.into()
        };
        let (would, did) = (Said::diff(would, diff.clone()), Said::diff("Changes were made", diff));
        Self::Change(Change { new, would, did, failed: false })
    }
}

/// What a file that is not there means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Absent {
    /// It has to be there.
    Fails(String),
    /// Nothing to edit, nothing to do.
    Fine(String),
    /// It is made, as if it had been there and empty; `would` is what a dry run says then.
    Made {
        /// Directories on the way are made too.
        makedirs: bool,
        /// It is made even when the edit adds nothing.
        empty: bool,
        /// What a dry run says, when it is not what the edit says.
        would: Option<Said>,
    },
}

/// Where the old content is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Backup {
    /// Nowhere.
    #[default]
    None,
    /// Beside the file, with this at the end of its name.
    Suffix(String),
    /// Beside the file, with the time at the end of its name.
    Time,
}

/// An edit of the text of a file.
pub(super) trait Editor: Send {
    /// What becomes of a text; nothing is the text of a file that is not there. Asks the scene for sources alone; the rest
    /// is a pure function of text and parameters.
    ///
    /// # Errors
    /// Fails when it cannot be edited so.
    fn edit(&self, old: Option<&str>, scene: &Scene<'_>) -> Result<Edit, Failure>;

    /// What a file that is not there means.
    fn absent(&self) -> Absent;

    /// Where the old content is kept.
    fn backup(&self) -> Backup {
        Backup::None
    }

    /// How the file is written.
    fn encoding(&self) -> Encoding {
        Encoding::Utf8
    }

    /// Where texts come from that are not in the state itself, when they do.
    fn texts(&self) -> Option<&Texts> {
        None
    }

    /// True when Salt does not ask whether the file is text.
    fn takes_any(&self) -> bool {
        false
    }
}

/// The state of an edited file.
pub(super) struct Edited {
    path: PathBuf,
    editor: Box<dyn Editor>,
    perms: Perms,
    /// False when the same edit would change again what it made.
    settles: bool,
}

/// What an edit found.
struct Found {
    /// The file itself, links followed.
    path: PathBuf,
    stat: Option<Stat>,
    old: Vec<u8>,
    text: String,
    edit: Edit,
}

impl Edited {
    /// An edit of the file at a path.
    pub(super) fn new(path: PathBuf, editor: impl Editor + 'static) -> Self {
        Self { path, editor: Box::new(editor), perms: Perms::default(), settles: true }
    }

    /// The same with an owner and a mode.
    #[must_use]
    pub(super) fn with_perms(self, perms: Perms) -> Self {
        Self { perms, ..self }
    }

    fn find(&self, scene: &Scene<'_>) -> Result<Found, Failure> {
        let path = resolve(scene, &self.path)?;
        let stat = scene.fs.stat(&path)?;
        if stat.is_none() {
            match self.editor.absent() {
                Absent::Fails(words) => return Err(Failure::new(words)),
                Absent::Fine(words) => {
                    let (old, text, edit) = (Vec::new(), String::new(), Edit::Right(words));
                    return Ok(Found { path, stat, old, text, edit });
                }
                Absent::Made { makedirs, .. } => self.ensure_parent(scene, makedirs)?,
            }
        }
        let old = if stat.is_some() { scene.fs.read_for_change(&path)? } else { Vec::new() };
        if !self.editor.takes_any() && self.editor.encoding() == Encoding::Utf8 && content::is_binary(&old) {
            let path = path.display();
            return Err(Failure::new(format!("Cannot perform string replacements on a binary file: {path}")));
        }
        let text = self.editor.encoding().decode(&old).ok_or_else(|| {
            Failure::new(format!("{} is not written in the encoding it should be", path.display()))
        })?;
        let edit = self.editor.edit(stat.is_some().then_some(&text), scene)?;
        Ok(Found { path, stat, old, text, edit })
    }

    /// A directory that neither is there nor will be made fails before anything is done.
    fn ensure_parent(&self, scene: &Scene<'_>, makedirs: bool) -> Result<(), Failure> {
        if makedirs || parents::is_there(scene, &self.path)? {
            return Ok(());
        }
        Err(Failure::new(format!("{}: file not found", self.path.display())))
    }

    /// Owner and mode that are asked for, and what differs from them.
    fn meta(&self, stat: Option<&Stat>) -> Result<(Meta, Map), Failure> {
        Ok((self.perms.meta()?, stat.map(|stat| self.perms.changes(stat)).unwrap_or_default()))
    }

    fn save(&self, scene: &Scene<'_>, found: &Found, new: &str, meta: Meta) -> Result<(), Failure> {
        let Some(bytes) = self.editor.encoding().encode(new) else {
            return Err(Failure::new(format!(
                "the new text of {} cannot be written in its encoding",
                found.path.display()
            )));
        };
        if let Some(stat) = &found.stat {
            self.keep_old(scene, found, stat)?;
        } else if let Absent::Made { makedirs: true, .. } = self.editor.absent() {
            parents::make(scene, &found.path, Meta::default())?;
        }
        Ok(scene.fs.write(&found.path, &bytes, meta)?)
    }

    fn keep_old(&self, scene: &Scene<'_>, found: &Found, stat: &Stat) -> Result<(), Failure> {
        let suffix = match self.editor.backup() {
            Backup::None => return Ok(()),
            Backup::Suffix(suffix) => suffix,
            Backup::Time => jiff::Zoned::now().strftime(".%Y-%m-%d-%H-%M-%S").to_string(),
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
        let meta = Meta { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) };
        scene.fs.write(&kept, &found.old, meta)?;
        scene.fs.set_times(&kept, stat.atime, stat.mtime)?;
        if found.path != self.path {
            scene.fs.symlink(&beside(&self.path), &kept, Meta::default())?;
        }
        Ok(())
    }
}

impl State for Edited {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let found = self.find(scene)?;
        let (_, meta_changes) = self.meta(found.stat.as_ref())?;
        let is_made = found.stat.is_none();
        let would = match (&found.edit, self.editor.absent()) {
            (Edit::Right(words), Absent::Fine(_) | Absent::Made { empty: false, .. }) if is_made => {
                return Ok(Look::right(words));
            }
            (_, Absent::Made { would: Some(said), .. }) if is_made => said,
            (Edit::Change(change), _) => change.would.clone(),
            (Edit::Right(words), _) if meta_changes.is_empty() && !is_made => return Ok(Look::right(words)),
            (Edit::Right(_), _) if is_made => {
                let mut changes = Map::new();
                changes.insert("new", self.path.display().to_string());
                Said { comment: format!("File {} is set to be created", self.path.display()), changes }
            }
            (Edit::Right(_), _) => Said::words("Changes would be made"),
        };
        let changes = joined(would.changes, meta_changes);
        Ok(Look::drift(would.comment, changes).with_diff(shown(&found)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let found = self.find(scene)?;
        let (meta, meta_changes) = self.meta(found.stat.as_ref())?;
        let (new, said, failed) = match &found.edit {
            Edit::Right(words) => (&found.text, Said::words(words), false),
            Edit::Change(change) => (&change.new, change.did.clone(), change.failed),
        };
        let is_made =
            found.stat.is_none() && matches!(self.editor.absent(), Absent::Made { empty: true, .. });
        if *new != found.text || is_made {
            self.save(scene, &found, new, meta)?;
        } else if found.stat.is_some() && !meta_changes.is_empty() {
            scene.fs.set_meta(&found.path, meta, true)?;
        }
        self.settles = matches!(self.editor.edit(Some(new), scene), Ok(Edit::Right(_)));
        let done = Done::new(said.comment, joined(said.changes, meta_changes)).with_diff(shown(&found));
        if failed { Err(done.into()) } else { Ok(done) }
    }

    fn is_lasting(&self) -> bool {
        self.settles
    }

    fn is_foreseeable(&self) -> bool {
        !self.editor.texts().is_some_and(Texts::is_remote)
    }

    fn cost(&self) -> Cost {
        // A template may run commands.
        if self.editor.texts().is_some_and(Texts::has_sources) { Cost::Heavy } else { Cost::Light }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}

fn joined(mut changes: Map, more: Map) -> Map {
    for (key, value) in more.iter() {
        changes.insert(key.clone(), value.clone());
    }
    changes
}

/// The diff that people see.
fn shown(found: &Found) -> String {
    match &found.edit {
        Edit::Right(_) => String::new(),
        Edit::Change(change) => content::difference(found.text.as_bytes(), change.new.as_bytes()).shown,
    }
}

/// The file that an edit of a path changes: where the links at its end lead.
///
/// # Errors
/// Fails when a link may be planted, when links lead in a circle, and for the name of a directory that is not there.
pub(super) fn resolve(scene: &Scene<'_>, path: &Path) -> Result<PathBuf, Failure> {
    if path.as_os_str().as_bytes().ends_with(b"/") && scene.fs.stat(path)?.is_none() {
        return Err(Failure::new(format!("{}: file not found", path.display())));
    }
    Ok(scene.fs.end_for_change(path)?)
}

/// True when Salt's verdicts count.
pub(super) fn is_salt(scene: &Scene<'_>) -> bool {
    scene.compat == Compat::Salt
}

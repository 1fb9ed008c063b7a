//! `file.managed`: a file with this content, owner and mode.
//!
//! Law: a file that is right costs one look and no allocation beyond its words; no difference is written out unless
//! there is one.

mod change;
mod look;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::Value;

use super::asked::{env, named, once_more, refuse, refuse_signatures};
use super::backup;
use super::desired::{Desired, Made};
use super::ignore::Ignore;
use super::parents;
use super::perms::Perms;
use super::source::Sources;
use super::validate::CheckCmd;
use crate::fs::{Kind, Stat};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, Standing, State, Veil};

/// A file that should be so.
#[derive(Debug)]
pub(super) struct Managed {
    path: PathBuf,
    env: Arc<str>,
    desired: Desired,
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
    ignore: Ignore,
    /// What the last look made, for the act that follows it.
    made: Option<Option<Made>>,
}

/// How things stand with the file.
#[derive(Debug)]
enum Now {
    /// It is not there, and should not be made.
    LeftOut,
    /// It is there, and what it holds does not matter.
    Kept(Stat),
    /// It is not there.
    Missing(Option<Made>),
    /// It is there; whether it holds what it should.
    There(Stat, Made, bool),
    /// A link stands there that is not to be followed.
    Link(Made),
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    Ok(Box::new(Managed::read(args)?))
}

/// Makes the state of a file that holds exactly this text.
pub(super) fn of_text(args: &Args<'_>, text: &str) -> Built {
    Ok(Box::new(Managed::with(args, Desired::text(args, text.into())?)?))
}

impl Managed {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        Self::with(args, Desired::read(args)?)
    }

    fn with(args: &Args<'_>, desired: Desired) -> Result<Self, Failure> {
        refuse(args, &["selinux"])?;
        refuse_signatures(args)?;
        let keep_mode =
            args.get("mode").and_then(Value::as_str).is_some_and(|m| m.eq_ignore_ascii_case("keep"));
        if keep_mode && desired.is_said() && desired.sources().is_none() {
            return Err(Failure::new(
                "Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or \
                 'contents_grains'",
            ));
        }
        let path = named(args, "Destination file name is required")?;
        let mut perms = Perms::read(args, if keep_mode { &[] } else { &["mode"] })?;
        perms.attrs = args.text("attrs")?;
        Ok(Self {
            path,
            env: env(args)?,
            replace: args.flag("replace", true) && desired.is_said(),
            desired,
            perms,
            keep_mode,
            dir_mode: args.mode("dir_mode")?,
            makedirs: args.flag("makedirs", false),
            create: args.flag("create", true),
            show_changes: args.flag("show_changes", true),
            new_file_diff: args.flag("new_file_diff", false),
            follow: args.flag("follow_symlinks", true),
            backup: backup::is_asked(args)?,
            check_cmd: CheckCmd::read(args)?,
            ignore: Ignore::read(args)?,
            made: None,
        })
    }

    /// A file of a tree that is copied as a whole.
    ///
    /// # Errors
    /// Fails when what is said about it cannot be understood.
    pub(super) fn of_tree(
        args: &Args<'_>,
        path: PathBuf,
        source: &str,
        mode: TreeMode,
    ) -> Result<Self, Failure> {
        let perms = Perms { owner: super::owner::Owner::read(args)?, mode: mode.fixed, attrs: None };
        Ok(Self {
            path,
            env: env(args)?,
            desired: Desired::tree(args, source)?,
            perms,
            keep_mode: mode.keep,
            dir_mode: None,
            makedirs: true,
            replace: args.flag("replace", true),
            create: true,
            show_changes: args.flag("show_changes", true),
            new_file_diff: false,
            follow: args.flag("follow_symlinks", true),
            backup: backup::is_asked(args)?,
            check_cmd: None,
            ignore: Ignore::default(),
            made: None,
        })
    }

    /// How things stand; `reuse` takes what the last look made.
    fn now(&mut self, scene: &Scene<'_>, reuse: bool) -> Result<Now, Failure> {
        // Such a name is that of a directory: the file would have to lie in it under no name at all.
        if self.path.as_os_str().as_bytes().ends_with(b"/") && scene.fs.stat(&self.path)?.is_none() {
            return Err(Failure::new("Parent directory not present"));
        }
        if !self.create && scene.fs.stat(&self.path)?.is_none_or(|found| found.kind != Kind::File) {
            return Ok(Now::LeftOut);
        }
        if !self.replace
            && let Some(found) = scene.fs.stat(&self.path)?
        {
            self.fits(&found)?;
            return Ok(Now::Kept(found));
        }
        if let Some(found) = self.known(scene)? {
            return Ok(Now::Kept(found));
        }
        let made = match self.made.take().filter(|_| reuse) {
            Some(made) => made,
            None => self.desired.make(scene, &self.env, &self.path.to_string_lossy())?,
        };
        if self.keep_mode {
            self.perms.mode = made.as_ref().and_then(|made| made.mode);
        }
        let Some(made) = made else { return Ok(Now::Missing(None)) };
        if !self.follow && scene.fs.lstat(&self.path)?.is_some_and(|found| found.kind == Kind::Link) {
            return Ok(Now::Link(made));
        }
        match scene.fs.compare(&self.path, &made.bytes)? {
            None => Ok(Now::Missing(Some(made))),
            Some((found, is_same)) => {
                self.fits(&found)?;
                Ok(Now::There(found, made, is_same))
            }
        }
    }

    /// The file when it is there with the digest that its source has: nobody needs to be asked for the content then.
    fn known(&self, scene: &Scene<'_>) -> Result<Option<Stat>, Failure> {
        let Some(sources) = self.desired.sources().filter(|s| s.is_remote() && !self.desired.is_template())
        else {
            return Ok(None);
        };
        let Some(found) = scene.fs.stat(&self.path)?.filter(|found| found.kind == Kind::File) else {
            return Ok(None);
        };
        match sources.known_sum(scene, &self.env, &self.path.to_string_lossy()) {
            Ok(Some(sum)) => Ok(sum.is_of(scene.fs, &self.path)?.then_some(found)),
            Ok(None) => Ok(None),
            Err(error) => Err(Failure::new(format!("Unable to manage file: {error}"))),
        }
    }

    fn fits(&self, found: &Stat) -> Result<(), Failure> {
        let path = self.path.display();
        match found.kind {
            Kind::File => Ok(()),
            Kind::Dir => Err(Failure::new(format!("Specified target {path} is a directory"))),
            _ => Err(Failure::new(format!("Specified target {path} is not a regular file"))),
        }
    }

    /// Where the file really is: at the end of the links that lead to it.
    fn target(&self, scene: &Scene<'_>) -> Result<PathBuf, Failure> {
        if !self.follow {
            return Ok(self.path.clone());
        }
        Ok(scene.fs.end_for_change(&self.path)?)
    }
}

/// The words of a failure in a dry run: Salt says then only why, not that it is unable.
fn as_dry_run(mut failure: Failure) -> Failure {
    let words = failure.done.comment.strip_prefix("Unable to manage file: ");
    if let Some(why) = words.filter(|why| !why.starts_with("none of the specified")) {
        failure.done.comment = why.to_owned();
    }
    failure
}

/// Where packages leave alone what they did not bring.
const PEOPLES: [&str; 5] = ["/etc", "/home", "/root", "/srv", "/opt"];

/// True when what was found of a file that is written as a whole holds behind this veil: a package does not bring just what
/// the state says, and where a person's file is it puts its own beside it.
pub(super) fn stays(path: &Path, look: &Look, hidden: Veil) -> bool {
    let is_own = || PEOPLES.iter().any(|dir| path.starts_with(dir));
    !hidden.meets(Veil::FILES) && !hidden.is_all() && (look.standing != Standing::Right || is_own())
}

/// The mode of a file of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeMode {
    /// This one.
    pub(super) fixed: Option<u32>,
    /// That of the source.
    pub(super) keep: bool,
}

impl State for Managed {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.made = None;
        let now = self.now(scene, false)?;
        let look = match &now {
            Now::LeftOut => {
                let path = self.path.display();
                Look::right(format!("File {path} is not present and is not set for creation"))
            }
            Now::Kept(found) => self.look_at_kept(scene, found)?,
            Now::Missing(made) => self.look_at_missing(made.as_ref()),
            Now::There(found, made, is_same) => self.look_at_content(scene, found, made, *is_same)?,
            Now::Link(made) => {
                let (changes, shown) = self.told_link(scene, &made.bytes)?;
                Look::drift(self.announced(), changes).with_diff(shown)
            }
        };
        if look.standing != Standing::Right {
            // What could not be written is told by the look already.
            self.target(scene)?;
            self.made = match now {
                Now::Missing(made) => Some(made),
                Now::There(_, made, _) | Now::Link(made) => Some(Some(made)),
                Now::LeftOut | Now::Kept(_) => None,
            };
        }
        Ok(look)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.perms.owner.ids()?;
        let done = match self.now(scene, true)? {
            Now::LeftOut => Done::default(),
            Now::Kept(found) => self.change_kept(scene, &found)?,
            Now::Missing(made) => self.create(scene, made.as_ref())?,
            Now::There(found, made, is_same) => self.change_content(scene, &found, &made, is_same)?,
            Now::Link(made) => self.change_link(scene, &made)?,
        };
        if let Some(sources) = self.desired.sources() {
            sources.forget(scene, &self.env);
        }
        Ok(done)
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let mut look = self.check(scene).map_err(as_dry_run)?;
        if look.standing == Standing::Right {
            let path = self.path.display();
            if look.comment.ends_with("No changes made.") {
                look.comment = format!("File {path} not updated");
            } else if look.comment.ends_with("is in the correct state") {
                look.comment = format!("The file {path} is in the correct state");
            }
        }
        Ok(look)
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_foreseeable(&self) -> bool {
        self.check_cmd.is_none() && !self.desired.sources().is_some_and(Sources::is_remote)
    }

    fn sees(&self) -> Veil {
        let files = Veil::FILES | Veil::BROUGHT | Veil::USERS;
        if self.is_foreseeable() && !self.desired.asked() { files } else { Veil::ALL }
    }

    fn holds(&self, look: &Look, hidden: Veil) -> bool {
        self.replace && stays(&self.path, look, hidden)
    }

    fn settles(&self) -> bool {
        self.is_foreseeable() && self.replace && self.create && !self.desired.asked()
    }

    fn suppose(&self, scene: &Scene<'_>) -> Result<Vec<String>, Failure> {
        let mut lacks = self.perms.owner.suppose(scene);
        if !self.makedirs {
            lacks.extend(parents::suppose(scene, &self.path)?);
        }
        Ok(lacks)
    }

    fn cost(&self) -> Cost {
        match self.desired.sources() {
            Some(sources) if sources.is_remote() => Cost::Heavy,
            // Templates are rendered on one thread anyway, so nothing is won by asking from another.
            _ => Cost::Light,
        }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}

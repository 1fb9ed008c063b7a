//! `file.patch`: a unified diff, applied to a file or to the files of a directory.
//!
//! Law: all files of a patch are worked out in memory first; when one hunk does not fit, nothing is written. A file that has
//! the change already is left as it is.

mod apply;
mod options;
mod parse;

use std::path::{Component, Path, PathBuf};

use zagent_config::{Map, Value};

use self::apply::{Patched, apply};
use self::options::Options;
use self::parse::{FilePatch, Hunk, Mark, parse};
use super::edited::resolve;
use super::sources::{render, variables};
use crate::fs::{Kind, Meta};
use crate::states::file::content::difference;
use crate::states::file::parents;
use crate::states::file::source::Sources;
use crate::states::{Args, Cost, Done, Failure, Look, Resource, Scene, State};

/// A patch of a file or directory.
pub(super) struct Patch {
    path: PathBuf,
    name: String,
    sources: Sources,
    env: String,
    variables: Option<Map>,
    options: Options,
    reject_file: Option<PathBuf>,
    /// False when the same patch would fit again where it was applied: it has no context that would tell.
    settles: bool,
}

/// What becomes of one file.
struct Target {
    path: PathBuf,
    old: Option<Vec<u8>>,
    /// Nothing when it is removed.
    new: Option<Vec<u8>>,
}

/// What a patch would do.
enum Plan {
    Already,
    Fits { targets: Vec<Target>, said: Vec<String>, settles: bool },
    Rejected { rejects: Vec<u8>, said: Vec<String> },
}

impl Patch {
    /// Reads `file.patch`.
    ///
    /// # Errors
    /// Fails with Salt's words when arguments are not as they should be.
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        if args.name().is_empty() {
            return Err(Failure::new("A file/directory to be patched is required"));
        }
        let not_absolute = |_| Failure::new(format!("{} is not an absolute path", args.name()));
        let path = args.path("name").map_err(not_absolute)?.unwrap_or_default();
        let reject_file = args.text("reject_file")?.map(PathBuf::from);
        if let Some(file) = reject_file.as_ref().filter(|file| !file.is_absolute()) {
            return Err(Failure::new(format!("'{}' is not an absolute path", file.display())));
        }
        let strip = args.int("strip")?;
        let strip =
            strip.map(|n| usize::try_from(n).map_err(|_| Failure::new("`strip` must not be negative")));
        let options = Options::read(&args.text("options")?.unwrap_or_default(), strip.transpose()?)?;
        let variables = match args.text("template")?.as_deref() {
            None | Some("") => None,
            Some("jinja") => Some(variables(args)?),
            Some(other) => {
                return Err(Failure::new(format!("template engine `{other}` is not supported, only jinja")));
            }
        };
        let sources = Sources::read(args)?;
        let sources = sources.ok_or_else(|| Failure::new("a source of the patch is required"))?;
        let env = args.text("saltenv")?.unwrap_or_else(|| args.chunk.env.to_string());
        let name = path.display().to_string();
        Ok(Self { path, name, sources, env, variables, options, reject_file, settles: true })
    }

    /// The text of the patch: of the first source that is there.
    fn text(&self, scene: &Scene<'_>) -> Result<Vec<u8>, Failure> {
        let found = self.sources.find(scene, &self.env, &self.name).map_err(Failure::new)?;
        match &self.variables {
            None => Ok(found.bytes.to_vec()),
            Some(variables) => {
                render(scene, &self.env, &found.source.text, &found.bytes, variables).map(String::into_bytes)
            }
        }
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, Failure> {
        let Some(stat) = scene.fs.stat(&self.path)? else {
            return Err(Failure::new(format!("{} does not exist", self.name)));
        };
        self.check_reject_file(scene)?;
        let text = self.text(scene)?;
        let files = parse(&text).map_err(|words| Failure::new(format!("patch: **** {words}")))?;
        let (mut targets, mut said, mut rejects, mut settles) = (Vec::new(), Vec::new(), Vec::new(), true);
        for file in &files {
            let path = match stat.kind {
                Kind::Dir => self.inside(scene, file)?,
                _ => resolve(scene, &self.path)?,
            };
            let hunks: Vec<Hunk<'_>> = file
                .hunks
                .iter()
                .map(|h| if self.options.reverse { h.reversed() } else { h.clone() })
                .collect();
            let known = targets.iter().rposition(|t: &Target| t.path == path);
            let old = match known {
                Some(at) => targets[at].new.clone(),
                None => read(scene, &path)?,
            };
            said.push(format!("patching file {}", self.shown(&path)));
            match apply(old.as_deref().unwrap_or_default(), &hunks, self.options.how) {
                Patched::Already => {
                    said.pop();
                }
                Patched::New(new, words) => {
                    said.extend(words);
                    settles &= apply(&new, &hunks, self.options.how) == Patched::Already;
                    let made_empty =
                        new.is_empty() && (self.options.remove_empty || ends(file, self.options.reverse));
                    let new = (!made_empty).then_some(new);
                    match known {
                        Some(at) => targets[at].new = new,
                        None => targets.push(Target { path, old, new }),
                    }
                }
                Patched::Rejected(which, words) => {
                    said.extend(words);
                    rejects.extend(reject_text(file, &hunks, &which));
                }
            }
        }
        Ok(match (rejects.is_empty(), targets.is_empty()) {
            (false, _) => Plan::Rejected { rejects, said },
            (true, true) => Plan::Already,
            (true, false) => Plan::Fits { targets, said, settles },
        })
    }

    fn check_reject_file(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        let Some(file) = &self.reject_file else { return Ok(()) };
        let parent = file.parent().unwrap_or(Path::new("/"));
        if scene.fs.stat(parent)?.is_some_and(|stat| stat.kind == Kind::Dir) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "Parent directory for reject_file '{}' either does not exist, or is not a directory",
            file.display()
        )))
    }

    /// The file below the directory that a patch names; it must lie in there.
    fn inside(&self, scene: &Scene<'_>, file: &FilePatch<'_>) -> Result<PathBuf, Failure> {
        let strip = self.options.strip.unwrap_or(0);
        let mut named: Vec<PathBuf> = Vec::new();
        for name in [&file.old, &file.new].into_iter().flatten() {
            let path: PathBuf = Path::new(name).components().skip(strip).collect();
            let is_inside =
                path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !is_inside {
                return Err(Failure::new(format!(
                    "the patch names `{name}`, which is not below {}",
                    self.name
                )));
            }
            if !path.as_os_str().is_empty() {
                named.push(self.path.join(path));
            }
        }
        for path in &named {
            if scene.fs.stat(path)?.is_some() {
                return resolve(scene, path);
            }
        }
        let makes = if self.options.reverse { &file.new } else { &file.old };
        match named.pop() {
            Some(path) if makes.is_none() || file.hunks.iter().all(|h| h.old_start == 0) => Ok(path),
            _ => Err(Failure::new(format!(
                "can't find file to patch: {}",
                file.old.as_deref().or(file.new.as_deref()).unwrap_or("the patch names none")
            ))),
        }
    }

    /// How a file is named in words: below a directory without the directory.
    fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.path).ok().filter(|rest| !rest.as_os_str().is_empty());
        below.unwrap_or(path).display().to_string()
    }

    fn rejected(&self, said: &[String]) -> Failure {
        let mut words =
            "Patch would not apply cleanly, no changes made. Results of dry-run are below.".to_owned();
        if self.reject_file.is_none() {
            words.push_str(
                " Run state again using the reject_file option to save rejects to a persistent file.",
            );
        }
        words.push_str("\n\n");
        words.push_str(&said.join("\n"));
        Failure::new(words)
    }
}

impl State for Patch {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        match self.plan(scene)? {
            Plan::Already => Ok(Look::right("Patch was already applied")),
            Plan::Fits { targets, said, .. } => {
                Ok(Look::drift("The patch would be applied", report(&said)).with_diff(shown(&targets)))
            }
            // What does not fit is written down, which is something to do.
            Plan::Rejected { said, .. } if self.reject_file.is_some() => {
                Ok(Look::unknown(self.rejected(&said).done.comment))
            }
            Plan::Rejected { said, .. } => Err(self.rejected(&said)),
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        match self.plan(scene)? {
            Plan::Already => Ok(Done::new("Patch was already applied", Map::new())),
            Plan::Rejected { rejects, said } => {
                if let Some(file) = &self.reject_file {
                    scene.fs.write(file, &rejects, Meta::default())?;
                }
                Err(self.rejected(&said))
            }
            Plan::Fits { targets, said, settles } => {
                self.settles = settles;
                for target in &targets {
                    write(scene, target, self.options.backup.as_deref())?;
                }
                Ok(Done::new("Patch successfully applied", report(&said)).with_diff(shown(&targets)))
            }
        }
    }

    fn is_lasting(&self) -> bool {
        self.settles
    }

    fn is_foreseeable(&self) -> bool {
        !self.sources.is_remote()
    }

    fn cost(&self) -> Cost {
        // A template may run commands.
        if self.sources.is_remote() || self.variables.is_some() { Cost::Heavy } else { Cost::Light }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}

fn read(scene: &Scene<'_>, path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match scene.fs.read_for_change(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write(scene: &Scene<'_>, target: &Target, backup: Option<&str>) -> Result<(), Failure> {
    let Target { path, old, new } = target;
    if let (Some(suffix), Some(old), Some(stat)) = (backup, old, scene.fs.stat(path)?) {
        let mut kept = path.as_os_str().to_owned();
        kept.push(suffix);
        let meta = Meta { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) };
        scene.fs.write(Path::new(&kept), old, meta)?;
    }
    match new {
        None => Ok(scene.fs.remove(path)?),
        Some(new) => {
            parents::make(scene, path, Meta::default())?;
            Ok(scene.fs.write(path, new, Meta::default())?)
        }
    }
}

/// What the program `patch` would have said, in the shape that Salt reports it.
fn report(said: &[String]) -> Map {
    let mut changes = Map::new();
    changes.insert("retcode", Value::Int(0));
    changes.insert("stdout", said.join("\n"));
    changes.insert("stderr", "");
    changes
}

fn shown(targets: &[Target]) -> String {
    let diff = |t: &Target| {
        let (old, new) = (t.old.as_deref().unwrap_or_default(), t.new.as_deref().unwrap_or_default());
        difference(old, new).shown
    };
    targets.iter().map(diff).collect()
}

/// True when a file is no more once it is patched.
const fn ends(file: &FilePatch<'_>, reverse: bool) -> bool {
    if reverse { file.old.is_none() } else { file.new.is_none() }
}

/// The hunks that do not fit, as a patch of their own.
fn reject_text(file: &FilePatch<'_>, hunks: &[Hunk<'_>], which: &[usize]) -> Vec<u8> {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "/dev/null".into());
    let mut out = format!("--- {}\n+++ {}\n", name(&file.old), name(&file.new)).into_bytes();
    for hunk in which.iter().filter_map(|i| hunks.get(*i)) {
        let count = |side: Mark| hunk.lines.iter().filter(|(m, _)| *m == side || *m == Mark::Context).count();
        let (removed, added) = (count(Mark::Removed), count(Mark::Added));
        let head = format!("@@ -{},{removed} +{},{added} @@\n", hunk.old_start, hunk.new_start);
        out.extend_from_slice(head.as_bytes());
        for (mark, text) in &hunk.lines {
            out.push(match mark {
                Mark::Context => b' ',
                Mark::Removed => b'-',
                Mark::Added => b'+',
            });
            out.extend_from_slice(text);
            if !text.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

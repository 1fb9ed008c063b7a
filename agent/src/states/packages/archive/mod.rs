//! States of the module `archive`: what an archive holds, in a directory.
//!
//! Law: an archive comes out in a place of the agent's own. The target is touched, and what stands there removed, only when
//! all of it came out and nothing of it leads out.

mod list;
mod place;

use std::path::{Path, PathBuf};

use zagent_compiler::{Chunk, Compat};
use zagent_config::{Map, Value};

pub(crate) use self::list::Format;
use self::list::Member;
use self::place::Unpacked;
use crate::fs::{Kind, Meta, Stat};
use crate::states::file::download::Fetch;
use crate::states::file::hash::{Algorithm, Sum};
use crate::states::file::owner::{Ids, Owner};
use crate::states::file::source::{self, Located, Names, Place, Sources};
use crate::states::file::{asked, parents};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    (fun == "extracted").then(|| read(args))
}

fn read(args: &Args<'_>) -> Built {
    asked::refuse_signatures(args)?;
    let name = args.name();
    let to = Path::new(name.trim_end_matches('/'));
    if !to.is_absolute() {
        return Err(Failure::new(format!("{name} is not an absolute path")));
    }
    for (one, other) in [("clean", "clean_parent"), ("skip_files_list_verify", "skip_verify")] {
        if args.flag(one, false) && args.flag(other, false) {
            return Err(Failure::new(format!("Only one of '{one}' and '{other}' can be set to True")));
        }
    }
    let sources = Sources::read(args)?.ok_or_else(|| Failure::new("Invalid source \"\""))?;
    let text = sources.first().map_or_else(String::new, |s| s.text.to_string());
    let format = Format::read(args, &text)?;
    let options = args.text("options")?;
    let words = match &options {
        Some(text) => crate::host::line::split(text)
            .ok_or_else(|| Failure::new(format!("`options` has an open quotation: {text}")))?,
        None => Vec::new(),
    };
    if args.get("password").is_some() && format != Format::Zip {
        return Err(Failure::new("The 'password' argument is only supported for zip archives"));
    }
    let trim = match args.get("trim_output") {
        Some(Value::Bool(on)) => on.then_some(100),
        Some(_) => args.int("trim_output")?.and_then(|n| usize::try_from(n).ok()),
        None => None,
    };
    Ok(Box::new(Extracted {
        to: to.to_owned(),
        if_missing: args.path("if_missing")?,
        owner: Owner::read(args)?,
        only_on: args.path("enforce_ownership_on")?,
        strip: list::stripped(&words),
        chunk: args.chunk.clone(),
        sources,
        text,
        format,
        options: options.map(|_| words),
        trim,
    }))
}

struct Extracted {
    chunk: Chunk,
    to: PathBuf,
    sources: Sources,
    /// The source as it is written.
    text: String,
    format: Format,
    options: Option<Vec<String>>,
    strip: usize,
    if_missing: Option<PathBuf>,
    owner: Owner,
    /// The only path whose owner matters.
    only_on: Option<PathBuf>,
    trim: Option<usize>,
}

/// What a look found.
#[derive(Default)]
struct Found {
    /// Why it needs to be unpacked.
    why: Option<&'static str>,
    /// What is there and of the wrong kind.
    wrong: Vec<PathBuf>,
    /// What somebody else owns.
    foreign: Vec<PathBuf>,
    /// Directories and files at the top.
    tops: Vec<PathBuf>,
}

impl Extracted {
    fn flag(&self, key: &str) -> bool {
        Args::new(&self.chunk).flag(key, false)
    }

    fn look(&self, scene: &Scene<'_>) -> Result<Found, Failure> {
        self.owner.ids()?;
        if scene.fs.stat(&self.to)?.is_some_and(|s| s.kind != Kind::Dir) {
            return Err(Failure::new(format!("{} exists and is not a directory", self.to.display())));
        }
        let members = self.members(scene)?;
        let mut found = Found { why: self.flag("overwrite").then_some(""), ..Found::default() };
        self.verify_top(&members)?;
        for member in &members {
            let path = self.to.join(&member.path);
            if member.path.components().count() == 1 {
                found.tops.push(path.clone());
            }
            match scene.fs.lstat(&path)? {
                None => found.why = Some("missing"),
                Some(stat) if !member.fits(stat.kind) => found.wrong.push(path),
                Some(stat) if self.is_foreign(&path, &stat) => found.foreign.push(path),
                Some(_) => {}
            }
        }
        if found.why.is_none() && self.flag("source_hash_update") {
            let last = std::fs::read_to_string(self.last(scene.cache)).ok();
            let now = self.sum(scene)?.map(|sum| sum.digits);
            found.why = (last.is_some() && now.is_some() && last != now).then_some("source_hash");
        }
        let cleans = self.flag("clean") || self.flag("clean_parent");
        if !found.wrong.is_empty() && !cleans && !self.flag("force") {
            return Err(Failure::new(self.told_wrong(&found.wrong)));
        }
        if !found.wrong.is_empty() {
            found.why = found.why.or(Some(""));
        }
        Ok(found)
    }

    fn told_wrong(&self, wrong: &[PathBuf]) -> String {
        let paths: Vec<String> = wrong.iter().map(|p| format!("- {}", p.display())).collect();
        format!(
            "The below paths (relative to {}/) exist, but are the incorrect type (file instead of directory, symlink \
             instead of file, etc.). To proceed with extraction, set 'force' to True. Note that this will remove these \
             paths before extracting.\n\n{}",
            self.to.display(),
            paths.join("\n")
        )
    }

    fn is_foreign(&self, path: &Path, stat: &Stat) -> bool {
        self.only_on.as_ref().is_none_or(|only| path.starts_with(only)) && !self.owner.is_right(stat)
    }

    fn verify_top(&self, members: &[Member]) -> Result<(), Failure> {
        let top = |m: &&Member| m.path.components().count() == 1;
        let files = members.iter().filter(top).filter(|m| m.kind != Some(Kind::Dir)).count();
        let dirs = members.iter().filter(top).count() - files;
        let enforces = Args::new(&self.chunk).flag("enforce_toplevel", true);
        if !enforces || (dirs <= 1 && files == 0) {
            return Ok(());
        }
        let (name, format) = (self.to.display(), self.format.name());
        Err(Failure::new(format!(
            "Archive does not have a single top-level directory. To allow this archive to be extracted, set \
             'enforce_toplevel' to False. To avoid a '{format}-bomb' it may also be advisable to set a top-level directory \
             by adding it to the 'name' value (for example, setting 'name' to {name}/some_dir instead of {name}/)."
        )))
    }

    /// What the archive holds. It is noted in the cache: the next look needs no archive.
    fn members(&self, scene: &Scene<'_>) -> Result<Vec<Member>, Failure> {
        let mark = self.mark(scene)?;
        let note = |root: &Path| root.join("archives").join(&mark);
        for root in [scene.cache, scene.spare] {
            if let Ok(text) = std::fs::read_to_string(note(root)) {
                return Ok(text.lines().filter_map(Member::noted).collect());
            }
        }
        let archive = self.archive(scene)?;
        let more = Args::new(&self.chunk).text("list_options")?;
        let members = self.format.list(scene, archive.path(), self.strip, more.as_deref())?;
        let text: String = members.iter().map(Member::note).collect();
        keep(&note(scene.spare), &text)?;
        Ok(members)
    }

    /// What this archive is known by.
    fn mark(&self, scene: &Scene<'_>) -> Result<String, Failure> {
        let env: &str = &self.chunk.env;
        let state = match source::place(&self.text) {
            Place::Tree(own, path) => {
                let bytes = scene.files.read(own.unwrap_or(env), path).map_err(Failure::new)?;
                bytes.map_or_else(String::new, |b| Algorithm::Sha256.digest(&b))
            }
            Place::Local(path) => {
                let stat = scene.fs.stat(Path::new(path))?;
                stat.map_or_else(String::new, |s| format!("{} {}", s.size, s.mtime))
            }
            Place::Web(_) | Place::Foreign(_) => String::new(),
        };
        let args = Args::new(&self.chunk);
        let hash = if self.flag("source_hash_update") {
            self.sum(scene)?.map(|sum| sum.digits)
        } else {
            args.text("source_hash")?
        };
        let more = args.text("list_options")?.unwrap_or_default();
        let all =
            [&*self.text, &*hash.unwrap_or_default(), &*state, &*more, &*self.strip.to_string()].join("\n");
        Ok(Algorithm::Sha256.digest(all.as_bytes()))
    }

    /// Where the digest of what was unpacked last is noted.
    fn last(&self, root: &Path) -> PathBuf {
        let all = format!("{}\n{}", self.to.display(), self.text);
        root.join("archives").join(format!("last-{}", Algorithm::Sha256.digest(all.as_bytes())))
    }

    /// The digest that `source_hash` gives.
    fn sum(&self, scene: &Scene<'_>) -> Result<Option<Sum>, Failure> {
        let args = Args::new(&self.chunk);
        let Some(hash) = args.text("source_hash")?.filter(|_| !self.flag("skip_verify")) else {
            return Ok(None);
        };
        let hash_name = args.text("source_hash_name")?;
        let file = self.to.display().to_string();
        let names = Names { hash_name: hash_name.as_deref(), file: &file, source: &self.text };
        let sum = source::sum(scene, &self.chunk.env, &Fetch::read(&args), &hash, &names);
        Ok(Some(sum.map_err(Failure::new)?))
    }

    /// The archive as a file of this host.
    fn archive(&self, scene: &Scene<'_>) -> Result<Archive, Failure> {
        let env: &str = &self.chunk.env;
        let found = self.sources.locate(scene, env, &self.to.display().to_string());
        let (source, located) = found.map_err(Failure::new)?;
        let shown = source::redact(&source.text);
        let io = |e: std::io::Error| Failure::new(format!("cannot keep {shown}: {e}"));
        let bytes = match located {
            Located::Held(bytes) => bytes,
            Located::File(path) => {
                // What came over the network was verified by who fetched it.
                if matches!(source::place(&source.text), Place::Local(_))
                    && let Some(sum) = self.sum(scene)?
                    && sum.algorithm.digest_of(&path).map_err(io)? != sum.digits
                {
                    let digits = sum.digits;
                    return Err(Failure::new(format!(
                        "{shown} does not match the desired source_hash {digits}"
                    )));
                }
                return Ok(Archive::Kept(path));
            }
        };
        std::fs::create_dir_all(scene.spare).map_err(io)?;
        let mut file = tempfile::Builder::new().prefix(".archive-").tempfile_in(scene.spare).map_err(io)?;
        std::io::Write::write_all(&mut file, &bytes).map_err(io)?;
        Ok(Archive::Made(file))
    }

    /// Removes what has to go before; says what it was.
    fn clear(&self, scene: &Scene<'_>, found: &Found) -> Result<Vec<Value>, Failure> {
        let mut removed = Vec::new();
        let parent = self.flag("clean_parent").then_some(&self.to);
        let cleaned = if self.flag("clean") { &found.tops } else { &found.wrong };
        for path in parent.into_iter().chain(cleaned) {
            if scene.fs.lstat(path)?.is_some() {
                scene.fs.remove(path)?;
                removed.push(Value::from(path.display().to_string()));
            }
        }
        Ok(removed)
    }

    fn unpack(&self, scene: &Scene<'_>, found: &Found, changes: &mut Map) -> Result<(), Failure> {
        let ids = self.owner.ids()?;
        let archive = self.archive(scene)?;
        let password = Args::new(&self.chunk).text("password")?;
        let unpacked = Unpacked::new(scene)?;
        let said = self.format.unpack(
            scene,
            archive.path(),
            unpacked.path(),
            self.options.as_deref(),
            password.as_deref(),
        )?;
        unpacked.verify(scene)?;
        // Only `tar` says plainly what came out.
        let names: Vec<String> = match (self.format, &self.options) {
            (Format::Tar, Some(_)) => said.lines().map(str::to_owned).collect(),
            _ => self.members(scene)?.iter().map(|m| m.path.display().to_string()).collect(),
        };
        if names.is_empty() {
            return Err(Failure::new(format!("No files were extracted from {}", source::redact(&self.text))));
        }
        let removed = self.clear(scene, found)?;
        if !removed.is_empty() {
            changes.insert("removed", removed.into_iter().collect::<Value>());
        }
        if scene.fs.stat(&self.to)?.is_none() {
            parents::make_all(scene, &self.to, Meta { mode: Some(0o755), uid: ids.uid, gid: None })?;
            let made: Value = [Value::from(format!("{}/", self.to.display()))].into_iter().collect();
            changes.insert("directories_created", made);
        }
        unpacked.settle(scene, &self.to, if self.only_on.is_none() { ids } else { Ids::default() })?;
        let shown = names.into_iter().take(self.trim.unwrap_or(usize::MAX));
        changes.insert("extracted_files", shown.map(Value::from).collect::<Value>());
        Ok(())
    }
}

/// An archive on this host.
enum Archive {
    Kept(PathBuf),
    Made(tempfile::NamedTempFile),
}

impl Archive {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Made(file) => file.path(),
        }
    }
}

/// Notes a text in the cache, whole or not at all.
fn keep(path: &Path, text: &str) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let dir = path.parent().unwrap_or(path);
        std::fs::create_dir_all(dir)?;
        let mut file = tempfile::Builder::new().prefix(".note-").tempfile_in(dir)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|e| Failure::new(format!("cannot write `{}`: {e}", path.display())))
}

/// Why it was unpacked, as Salt tells it.
const fn explained(why: &str) -> &'static str {
    match why.as_bytes() {
        b"missing" => ", due to absence of one or more files/dirs",
        b"source_hash" => ", due to source_hash update",
        _ => "",
    }
}

impl State for Extracted {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if let Some(path) = &self.if_missing
            && scene.fs.stat(path)?.is_some()
        {
            return Ok(Look::right(format!("Path {} exists", path.display())));
        }
        let found = self.look(scene)?;
        let (source, to) = (source::redact(&self.text), self.to.display());
        if let Some(why) = found.why {
            // What it holds may be known from an earlier look, when there was a program that tells.
            if scene.compat == Compat::Strict {
                let password = Args::new(&self.chunk).text("password")?;
                self.format.opener(&scene.tools(), password.is_some())?;
            }
            let cleaning = if self.flag("clean") { ", after cleaning destination path(s)" } else { "" };
            let comment = format!("Archive {source} would be extracted to {to}/{cleaning}{}", explained(why));
            return Ok(Look::drift(comment, Map::from_iter([("extracted_files", Value::from(source))])));
        }
        if found.foreign.is_empty() {
            return Ok(Look::right("All files in archive are already present"));
        }
        let comment = "All files in archive are already present. Ownership would be updated on one or more files/directories.";
        Ok(Look::drift(comment, Map::from_iter([("updated ownership", true)])))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let found = self.look(scene)?;
        let mut changes = Map::new();
        let mut comment = "All files in archive are already present".to_owned();
        if let Some(why) = found.why {
            if let Err(failure) = self.unpack(scene, &found, &mut changes) {
                return Err(Done { changes, ..failure.done }.into());
            }
            comment = format!(
                "{} extracted to {}/{}",
                source::redact(&self.text),
                self.to.display(),
                explained(why)
            );
            if let Some(trim) = self.trim {
                comment.push_str(&format!(". Output was trimmed to {trim} number of lines"));
            }
        }
        let ids = self.owner.ids()?;
        for path in self.look(scene)?.foreign {
            scene.fs.set_meta(&path, Meta { mode: None, uid: ids.uid, gid: ids.gid }, false)?;
            changes.insert("updated ownership", true);
        }
        if let Some(sum) = self.sum(scene)? {
            keep(&self.last(scene.spare), &sum.digits)?;
        }
        self.sources.forget(scene, &self.chunk.env);
        Ok(Done::new(comment, changes))
    }

    /// With `overwrite` it is unpacked every time.
    fn is_lasting(&self) -> bool {
        !self.flag("overwrite")
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        Veil::BROUGHT
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.to.clone())]
    }
}

#[cfg(test)]
mod tests;

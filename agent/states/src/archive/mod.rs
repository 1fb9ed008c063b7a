//! States of the module `archive`: what an archive holds, in a directory.
//!
//! Law: an archive comes out in a place of the agent's own. The target is touched, and what stands there removed,
//! only when all of it came out and nothing of it leads out (held by
//! `what_is_there_goes_only_when_the_archive_came_out`, `a_link_that_leads_out_is_refused_and_nothing_stays`).

pub(crate) mod formats;
pub(crate) mod unpack_dir;

use std::path::{Path, PathBuf};
use zagent_config::mask::redact_logins;

use zagent_compiler::{Chunk, Compat};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::{Map, Value};

pub(crate) use self::formats::ArchiveFormat;
use self::formats::ArchiveMember;
use self::unpack_dir::UnpackDir;
use crate::file::download::Downloader;
use crate::file::hash::{DigestAlgorithm, FileDigest};
use crate::file::owner::{Owner, OwnerIds};
use crate::file::parents;
use crate::file::sources;
use crate::file::sources::{ContentLocation, DigestNames, FileSources, LocatedSource};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::fs::{FileKind, FileMeta, Stat};
use zagent_host::temp_file::PrivateTempDir;

/// Name of a staged archive in its directory.
const STAGED_ARCHIVE: &str = "archive";

/// The module `archive`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "archive",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    (fun == "extracted").then(|| state_from_args(args))
}

fn state_from_args(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(read_state(args)?))
}

fn read_state(args: &ChunkArgs<'_>) -> Result<ArchiveExtracted, StateError> {
    let name = args.name();
    let to = Path::new(name.trim_end_matches('/'));
    if !to.is_absolute() {
        return Err(StateError::new(format!("{name} is not an absolute path")));
    }
    for (one, other) in [("clean", "clean_parent"), ("skip_files_list_verify", "skip_verify")] {
        if args.flag(one, false) && args.flag(other, false) {
            return Err(StateError::new(format!("Only one of '{one}' and '{other}' can be set to True")));
        }
    }
    let sources = FileSources::read(args)?.ok_or_else(|| StateError::new("Invalid source \"\""))?;
    let text = sources.first_source().map_or_else(String::new, |s| s.text.to_string());
    let format = ArchiveFormat::from_args(args, &text)?;
    let options = args.text("options")?;
    let words = match &options {
        Some(text) => zagent_host::exec::shell_words::split(text)
            .ok_or_else(|| StateError::new(format!("`options` has an open quotation: {text}")))?,
        None => Vec::new(),
    };
    if args.get("password").is_some() && format != ArchiveFormat::Zip {
        return Err(StateError::new("The 'password' argument is only supported for zip archives"));
    }
    let trim = match args.get("trim_output") {
        Some(Value::Bool(on)) => on.then_some(100),
        Some(_) => args.int("trim_output")?.and_then(|n| usize::try_from(n).ok()),
        None => None,
    };
    Ok(ArchiveExtracted {
        target: to.to_owned(),
        if_missing: args.path("if_missing")?,
        owner: Owner::read(args)?,
        unless_exists: args.path("enforce_ownership_on")?,
        strip: formats::strip_components(&words),
        chunk: args.chunk.clone(),
        sources,
        source_text: text,
        format,
        options: options.map(|_| words),
        trim,
    })
}

struct ArchiveExtracted {
    chunk: Chunk,
    target: PathBuf,
    sources: FileSources,
    /// The source as it is written.
    source_text: String,
    format: ArchiveFormat,
    options: Option<Vec<String>>,
    strip: usize,
    if_missing: Option<PathBuf>,
    owner: Owner,
    /// The only path whose owner matters.
    unless_exists: Option<PathBuf>,
    trim: Option<usize>,
}

/// What a look found.
#[derive(Default)]
struct ArchiveCheck {
    /// Why it needs to be unpacked.
    reason: Option<&'static str>,
    /// What is there and of the wrong kind.
    wrong_kind: Vec<PathBuf>,
    /// What somebody else owns.
    wrong_owner: Vec<PathBuf>,
    /// Directories and files at the top.
    top_paths: Vec<PathBuf>,
}

impl ArchiveExtracted {
    fn flag(&self, key: &str) -> bool {
        ChunkArgs::new(&self.chunk).flag(key, false)
    }

    fn inspect(&self, ctx: &StateCtx<'_>) -> Result<ArchiveCheck, StateError> {
        self.owner.ids(ctx.machine)?;
        if ctx.fs.stat(&self.target)?.is_some_and(|s| s.kind != FileKind::Dir) {
            return Err(StateError::new(format!("{} exists and is not a directory", self.target.display())));
        }
        let members = self.members(ctx)?;
        let mut found =
            ArchiveCheck { reason: self.flag("overwrite").then_some(""), ..ArchiveCheck::default() };
        self.verify_top(&members)?;
        for member in &members {
            let path = self.target.join(&member.path);
            if member.path.components().count() == 1 {
                found.top_paths.push(path.clone());
            }
            match ctx.fs.lstat(&path)? {
                None => found.reason = Some("missing"),
                Some(stat) if !member.matches_kind(stat.kind) => found.wrong_kind.push(path),
                Some(stat) if self.has_wrong_owner(ctx, &path, &stat) => found.wrong_owner.push(path),
                Some(_) => {}
            }
        }
        if found.reason.is_none() && self.flag("source_hash_update") {
            let last = std::fs::read_to_string(self.last_digest_path(ctx.cache_dir)).ok();
            let now = self.source_digest(ctx)?.map(|sum| sum.digits);
            found.reason = (last.is_some() && now.is_some() && last != now).then_some("source_hash");
        }
        let cleans = self.flag("clean") || self.flag("clean_parent");
        if !found.wrong_kind.is_empty() && !cleans && !self.flag("force") {
            return Err(StateError::new(self.wrong_kind_comment(&found.wrong_kind)));
        }
        if !found.wrong_kind.is_empty() {
            found.reason = found.reason.or(Some(""));
        }
        Ok(found)
    }

    fn wrong_kind_comment(&self, wrong: &[PathBuf]) -> String {
        let paths: Vec<String> = wrong.iter().map(|p| format!("- {}", p.display())).collect();
        format!(
            "The below paths (relative to {}/) exist, but are the incorrect type (file instead of directory, symlink \
             instead of file, etc.). To proceed with extraction, set 'force' to True. Note that this will remove these \
             paths before extracting.\n\n{}",
            self.target.display(),
            paths.join("\n")
        )
    }

    fn has_wrong_owner(&self, ctx: &StateCtx<'_>, path: &Path, stat: &Stat) -> bool {
        self.unless_exists.as_ref().is_none_or(|only| path.starts_with(only))
            && !self.owner.matches(ctx.machine, stat)
    }

    fn verify_top(&self, members: &[ArchiveMember]) -> Result<(), StateError> {
        let top = |m: &&ArchiveMember| m.path.components().count() == 1;
        let files = members.iter().filter(top).filter(|m| m.kind != Some(FileKind::Dir)).count();
        let dirs = members.iter().filter(top).count() - files;
        let enforces = ChunkArgs::new(&self.chunk).flag("enforce_toplevel", true);
        if !enforces || (dirs <= 1 && files == 0) {
            return Ok(());
        }
        let (name, format) = (self.target.display(), self.format.name());
        Err(StateError::new(format!(
            "Archive does not have a single top-level directory. To allow this archive to be extracted, set \
             'enforce_toplevel' to False. To avoid a '{format}-bomb' it may also be advisable to set a top-level directory \
             by adding it to the 'name' value (for example, setting 'name' to {name}/some_dir instead of {name}/)."
        )))
    }

    /// What the archive holds. It is noted in the cache: the next look needs no archive.
    fn members(&self, ctx: &StateCtx<'_>) -> Result<Vec<ArchiveMember>, StateError> {
        let mark = self.archive_id(ctx)?;
        let note = |root: &Path| root.join("archives").join(&mark);
        for root in [ctx.cache_dir, ctx.staging_dir] {
            if let Ok(text) = std::fs::read_to_string(note(root)) {
                return Ok(text.lines().filter_map(ArchiveMember::from_cache_line).collect());
            }
        }
        let archive = self.fetch_archive(ctx)?;
        let more = ChunkArgs::new(&self.chunk).text("list_options")?;
        let members = self.format.list_members(ctx, &archive.path(), self.strip, more.as_deref())?;
        let text: String = members.iter().map(ArchiveMember::to_cache_line).collect();
        write_cache_note(&note(ctx.staging_dir), &text)?;
        Ok(members)
    }

    /// What this archive is known by.
    fn archive_id(&self, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        let env: &str = &self.chunk.env;
        let state = match sources::parse_location(&self.source_text) {
            ContentLocation::Tree(own, path) => {
                let bytes = ctx.files.read(own.unwrap_or(env), path).map_err(StateError::new)?;
                bytes.map_or_else(String::new, |b| DigestAlgorithm::Sha256.digest(&b))
            }
            ContentLocation::Local(path) => {
                let stat = ctx.fs.stat(Path::new(path))?;
                stat.map_or_else(String::new, |s| format!("{} {}", s.size, s.mtime))
            }
            ContentLocation::Web(_) | ContentLocation::Foreign(_) => String::new(),
        };
        let args = ChunkArgs::new(&self.chunk);
        let hash = if self.flag("source_hash_update") {
            self.source_digest(ctx)?.map(|sum| sum.digits)
        } else {
            args.text("source_hash")?
        };
        let more = args.text("list_options")?.unwrap_or_default();
        let all = [&*self.source_text, &*hash.unwrap_or_default(), &*state, &*more, &*self.strip.to_string()]
            .join("\n");
        Ok(DigestAlgorithm::Sha256.digest(all.as_bytes()))
    }

    /// Where the digest of what was unpacked last is noted.
    fn last_digest_path(&self, root: &Path) -> PathBuf {
        let all = format!("{}\n{}", self.target.display(), self.source_text);
        root.join("archives").join(format!("last-{}", DigestAlgorithm::Sha256.digest(all.as_bytes())))
    }

    /// The digest that `source_hash` gives.
    fn source_digest(&self, ctx: &StateCtx<'_>) -> Result<Option<FileDigest>, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let Some(hash) = args.text("source_hash")?.filter(|_| !self.flag("skip_verify")) else {
            return Ok(None);
        };
        let hash_name = args.text("source_hash_name")?;
        let file = self.target.display().to_string();
        let names = DigestNames {
            hash_name: hash_name.as_deref(),
            file: &file,
            source: &self.source_text,
            signatures: self.sources.signatures(),
        };
        let sum = sources::source_digest(ctx, &self.chunk.env, &Downloader::read(&args), &hash, &names);
        Ok(Some(sum.map_err(StateError::new)?))
    }

    /// The archive as a file of the machine, signed by whom it must be.
    fn fetch_archive(&self, ctx: &StateCtx<'_>) -> Result<LocalArchive, StateError> {
        let archive = self.fetch_unverified(ctx)?;
        self.sources.verify_archive(ctx, &self.chunk.env, &archive.path())?;
        Ok(archive)
    }

    fn fetch_unverified(&self, ctx: &StateCtx<'_>) -> Result<LocalArchive, StateError> {
        let env: &str = &self.chunk.env;
        let target = self.target.display().to_string();
        let found = self.sources.locate_source(ctx, env, &target);
        // Nothing is managed here, and Salt does not say so.
        let plain = |e: String| StateError::new(e.strip_prefix("Unable to manage file: ").unwrap_or(&e));
        let (source, located) = found.map_err(plain)?;
        let shown = redact_logins(&source.text);
        let io = |e: std::io::Error| StateError::new(format!("cannot keep {shown}: {e}"));
        let bytes = match located {
            LocatedSource::Held(bytes) => bytes,
            LocatedSource::File(path)
                if matches!(sources::parse_location(&source.text), ContentLocation::Local(_)) =>
            {
                let sum = self.sources.written_digest(ctx, env, &target, &source).map_err(plain)?;
                return self.stage_local(ctx, &path, &shown, sum.as_ref());
            }
            // What came over the network was verified by who fetched it, and only the agent writes there.
            LocatedSource::File(path) if ctx.machine.is_this_host() => {
                return Ok(LocalArchive::Existing(path));
            }
            LocatedSource::File(path) => {
                return LocalArchive::stage(ctx, |to| std::fs::copy(&path, to).map(drop)).map_err(io);
            }
        };
        LocalArchive::stage(ctx, |to| AtomicFile::cached(0o600).write(to, &bytes)).map_err(io)
    }

    /// An archive of this host. What must have a digest or a signature is copied before anybody looks at it: what is unpacked
    /// is then what was checked, even if another user may write to the original.
    fn stage_local(
        &self,
        ctx: &StateCtx<'_>,
        path: &Path,
        shown: &str,
        sum: Option<&FileDigest>,
    ) -> Result<LocalArchive, StateError> {
        if sum.is_none() && self.sources.signatures().content.is_none() {
            return Ok(LocalArchive::Existing(path.to_owned()));
        }
        let io = |e: std::io::Error| StateError::new(format!("cannot keep {shown}: {e}"));
        let from = ctx.machine.to_host_path(path).map_err(io)?;
        let copied = LocalArchive::stage(ctx, |to| std::fs::copy(&from, to).map(drop)).map_err(io)?;
        if let Some(sum) = sum {
            let copy = ctx.machine.to_host_path(copied.path()).map_err(io)?;
            if sum.algorithm.digest_file(&copy).map_err(io)? != sum.digits {
                let digits = &sum.digits;
                return Err(StateError::new(format!(
                    "{shown} does not match the desired source_hash {digits}"
                )));
            }
        }
        Ok(copied)
    }

    /// Removes what has to go before; says what it was.
    fn remove_obsolete(&self, ctx: &StateCtx<'_>, found: &ArchiveCheck) -> Result<Vec<Value>, StateError> {
        let mut removed = Vec::new();
        let parent = self.flag("clean_parent").then_some(&self.target);
        let cleaned = if self.flag("clean") { &found.top_paths } else { &found.wrong_kind };
        for path in parent.into_iter().chain(cleaned) {
            if ctx.fs.lstat(path)?.is_some() {
                ctx.fs.remove(path)?;
                removed.push(Value::from(path.display().to_string()));
            }
        }
        Ok(removed)
    }

    fn unpack(&self, ctx: &StateCtx<'_>, found: &ArchiveCheck, changes: &mut Map) -> Result<(), StateError> {
        let ids = self.owner.ids(ctx.machine)?;
        let archive = self.fetch_archive(ctx)?;
        let password = ChunkArgs::new(&self.chunk).text("password")?;
        let unpacked = UnpackDir::new(ctx)?;
        let said = self.format.unpack(
            ctx,
            &archive.path(),
            unpacked.path(),
            self.options.as_deref(),
            password.as_deref(),
        )?;
        unpacked.verify_links(ctx)?;
        // Only `tar` says plainly what came out.
        let names: Vec<String> = match (self.format, &self.options) {
            (ArchiveFormat::Tar, Some(_)) => said.lines().map(str::to_owned).collect(),
            _ => self.members(ctx)?.iter().map(|m| m.path.display().to_string()).collect(),
        };
        if names.is_empty() {
            return Err(StateError::new(format!(
                "No files were extracted from {}",
                redact_logins(&self.source_text)
            )));
        }
        let removed = self.remove_obsolete(ctx, found)?;
        if !removed.is_empty() {
            changes.insert("removed", removed.into_iter().collect::<Value>());
        }
        if ctx.fs.stat(&self.target)?.is_none() {
            parents::make_dir_all(
                ctx,
                &self.target,
                FileMeta { mode: Some(0o755), uid: ids.uid, gid: None },
            )?;
            let made: Value = [Value::from(format!("{}/", self.target.display()))].into_iter().collect();
            changes.insert("directories_created", made);
        }
        unpacked.move_into(
            ctx,
            &self.target,
            if self.unless_exists.is_none() { ids } else { OwnerIds::default() },
        )?;
        let shown = names.into_iter().take(self.trim.unwrap_or(usize::MAX));
        changes.insert("extracted_files", shown.map(Value::from).collect::<Value>());
        Ok(())
    }
}

/// An archive on the machine.
enum LocalArchive {
    Existing(PathBuf),
    /// A copy, as long as it is needed.
    Staged(PrivateTempDir),
}

impl LocalArchive {
    fn path(&self) -> PathBuf {
        match self {
            Self::Existing(path) => path.clone(),
            Self::Staged(dir) => dir.path().join(STAGED_ARCHIVE),
        }
    }

    /// Lets `write` put a copy where only the agent reaches it.
    fn stage(ctx: &StateCtx<'_>, write: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<Self> {
        let dir = PrivateTempDir::in_agent_dir(ctx.machine, ctx.staging_dir, ".archive-")?;
        write(&dir.host_path().join(STAGED_ARCHIVE))?;
        Ok(Self::Staged(dir))
    }
}

/// Notes a text in the cache, whole or not at all.
fn write_cache_note(path: &Path, text: &str) -> Result<(), StateError> {
    let write = || -> std::io::Result<()> {
        let dir = path.parent().unwrap_or(path);
        std::fs::create_dir_all(dir)?;
        AtomicFile::cached(0o600).write(path, text.as_bytes())
    };
    write().map_err(|e| StateError::new(format!("cannot write `{}`: {e}", path.display())))
}

/// Why it was unpacked, as Salt tells it.
const fn reason_comment(why: &str) -> &'static str {
    match why.as_bytes() {
        b"missing" => ", due to absence of one or more files/dirs",
        b"source_hash" => ", due to source_hash update",
        _ => "",
    }
}

impl State for ArchiveExtracted {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if let Some(path) = &self.if_missing
            && ctx.fs.stat(path)?.is_some()
        {
            return Ok(CheckResult::in_sync(format!("Path {} exists", path.display())));
        }
        let found = self.inspect(ctx)?;
        let (source, to) = (redact_logins(&self.source_text), self.target.display());
        if let Some(why) = found.reason {
            // What it holds may be known from an earlier look, when there was a program that tells.
            if ctx.compat == Compat::Strict {
                let password = ChunkArgs::new(&self.chunk).text("password")?;
                self.format.unpack_program(&ctx.tools(), password.is_some())?;
            }
            let cleaning = if self.flag("clean") { ", after cleaning destination path(s)" } else { "" };
            let comment =
                format!("Archive {source} would be extracted to {to}/{cleaning}{}", reason_comment(why));
            return Ok(CheckResult::drifted(
                comment,
                Map::from_iter([("extracted_files", Value::from(source))]),
            ));
        }
        if found.wrong_owner.is_empty() {
            return Ok(CheckResult::in_sync("All files in archive are already present"));
        }
        let comment = "All files in archive are already present. Ownership would be updated on one or more files/directories.";
        Ok(CheckResult::drifted(comment, Map::from_iter([("updated ownership", true)])))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let found = self.inspect(ctx)?;
        let mut changes = Map::new();
        let mut comment = "All files in archive are already present".to_owned();
        if let Some(why) = found.reason {
            if let Err(failure) = self.unpack(ctx, &found, &mut changes) {
                return Err(ApplyResult { changes, ..failure.result }.into());
            }
            comment = format!(
                "{} extracted to {}/{}",
                redact_logins(&self.source_text),
                self.target.display(),
                reason_comment(why)
            );
            if let Some(trim) = self.trim {
                comment.push_str(&format!(". Output was trimmed to {trim} number of lines"));
            }
        }
        let ids = self.owner.ids(ctx.machine)?;
        for path in self.inspect(ctx)?.wrong_owner {
            ctx.fs.set_meta(&path, FileMeta { mode: None, uid: ids.uid, gid: ids.gid }, false)?;
            changes.insert("updated ownership", true);
        }
        if let Some(sum) = self.source_digest(ctx)? {
            write_cache_note(&self.last_digest_path(ctx.staging_dir), &sum.digits)?;
        }
        self.sources.discard_downloads(ctx, &self.chunk.env);
        Ok(ApplyResult::new(comment, changes))
    }

    /// With `overwrite` it is unpacked every time.
    fn is_convergent(&self) -> bool {
        !self.flag("overwrite")
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::USERS
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGE_FILES
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.target.clone())]
    }
}

#[cfg(test)]
pub(crate) mod tests;

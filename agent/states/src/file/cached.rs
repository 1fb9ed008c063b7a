//! `file.cached` and `file.not_cached`: copies of files from elsewhere, kept in the cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use zagent_config::mask::redact_logins;

use zagent_config::{Map, Value};

use super::args::{reapply, saltenv};
use super::download::Downloader;
use super::hash::{DigestAlgorithm, FileDigest};
use super::parents;
use super::signature::Signatures;
use super::sources::{self, ContentLocation, DigestNames, cached_path, parse_location};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::fs::{FileKind, FileMeta};

/// A copy that should be kept.
#[derive(Debug)]
struct FileCached {
    name: String,
    env: Arc<str>,
    hash: Option<String>,
    hash_name: Option<String>,
    skip_verify: bool,
    fetch: Downloader,
    signatures: Signatures,
}

/// A copy that should not be kept.
#[derive(Debug)]
struct FileNotCached {
    name: String,
    env: Arc<str>,
}

/// Makes `file.cached`.
pub(crate) fn build_cached(args: &ChunkArgs<'_>) -> BuildResult {
    let signatures = Signatures::read(args)?;
    if signatures.content.is_some() {
        return Err(StateError::new(
            "`file.cached` does not check `signature`: name a signed file of digests in `source_hash`, and its signature in \
             `source_hash_sig`",
        ));
    }
    let hash = args.text("source_hash")?.filter(|h| !h.is_empty());
    let skip_verify = args.flag("skip_verify", false);
    sources::verify_list_is_read(&signatures, hash.as_deref(), skip_verify)?;
    Ok(Box::new(FileCached {
        name: args.name(),
        env: saltenv(args)?,
        hash,
        hash_name: args.text("source_hash_name")?,
        skip_verify,
        fetch: Downloader::read(args),
        signatures,
    }))
}

/// Makes `file.not_cached`.
pub(crate) fn build_not_cached(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(FileNotCached { name: args.name(), env: saltenv(args)? }))
}

impl FileCached {
    fn expected_digest(&self, ctx: &StateCtx<'_>) -> Result<Option<FileDigest>, StateError> {
        let is_web =
            matches!(parse_location(&self.name), ContentLocation::Web(_) | ContentLocation::Foreign(_));
        if is_web && !self.skip_verify && self.hash.is_none() && !self.fetch.use_etag {
            return Err(StateError::new(format!(
                "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify or \
                 use_etag to True",
                redact_logins(&self.name)
            )));
        }
        let Some(hash) = self.hash.as_deref().filter(|_| !self.skip_verify) else { return Ok(None) };
        let names = DigestNames {
            hash_name: self.hash_name.as_deref(),
            file: "",
            source: &self.name,
            signatures: &self.signatures,
        };
        sources::source_digest(ctx, &self.env, &self.fetch, hash, &names).map(Some).map_err(StateError::new)
    }

    fn check_local(
        ctx: &StateCtx<'_>,
        path: &Path,
        sum: Option<&FileDigest>,
    ) -> Result<CheckResult, StateError> {
        let shown = path.display();
        if ctx.fs.stat(path)?.is_none() {
            return Err(StateError::new(format!("File {shown} is not present on the minion")));
        }
        let Some(sum) = sum else {
            return Ok(CheckResult::in_sync(format!("File {shown} is present on the minion")));
        };
        let content = ctx.fs.read(path)?;
        let (found, wanted) = (sum.algorithm.digest(&content), &sum.digits);
        if found == *wanted {
            return Ok(CheckResult::in_sync(format!(
                "File {shown} is present on the minion and has hash {found}"
            )));
        }
        Err(StateError::new(format!(
            "File {shown} is present on the minion, but the hash ({found}) does not match the specified hash ({wanted})"
        )))
    }

    fn cache_path(&self, ctx: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        cached_path(ctx, &self.env, &self.name).ok_or_else(|| self.fetch_error())
    }

    fn fetch_error(&self) -> StateError {
        let name = redact_logins(&self.name);
        StateError::new(format!("Failed to cache {name}, check minion log for more information"))
    }

    /// The content of a file of the tree.
    fn tree_content(&self, ctx: &StateCtx<'_>) -> Result<Arc<[u8]>, StateError> {
        let ContentLocation::Tree(own, path) = parse_location(&self.name) else {
            return Err(self.fetch_error());
        };
        let read = ctx.files.read(own.unwrap_or(&self.env), path).map_err(StateError::new)?;
        read.ok_or_else(|| self.fetch_error())
    }

    fn cached_content(ctx: &StateCtx<'_>, copy: &Path) -> Result<Option<Vec<u8>>, StateError> {
        match ctx.fs.stat(copy)? {
            Some(found) if found.kind == FileKind::File => Ok(Some(ctx.fs.read(copy)?)),
            _ => Ok(None),
        }
    }

    fn in_sync_comment(copy: &Path, sum: Option<&FileDigest>) -> String {
        let copy = copy.display();
        match sum {
            Some(sum) => format!("File is already cached to {copy} with hash {}", sum.digits),
            None => format!("File is cached to {copy}"),
        }
    }

    fn predicted_comment(&self, is_kept: bool, sum: Option<&FileDigest>) -> String {
        let why = match (is_kept, sum) {
            (false, _) => "",
            (true, Some(_)) => "Hashes don't match.\n",
            (true, None) => "No hash found. ",
        };
        format!("{why}File will be cached: {}", redact_logins(&self.name))
    }

    fn fetch_content(
        &self,
        ctx: &StateCtx<'_>,
        copy: &Path,
        sum: Option<&FileDigest>,
    ) -> Result<Vec<u8>, StateError> {
        if let ContentLocation::Web(url) = parse_location(&self.name) {
            let fetch = Downloader { use_etag: true, ..self.fetch };
            return fetch.fetch_bytes(ctx, &self.env, url, sum).map_err(StateError::new);
        }
        let content = self.tree_content(ctx)?;
        parents::make_parents(ctx, copy, FileMeta { mode: Some(0o700), ..FileMeta::default() })?;
        ctx.fs.write(copy, &content, FileMeta { mode: Some(0o600), ..FileMeta::default() })?;
        Ok(content.to_vec())
    }
}

impl State for FileCached {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let sum = self.expected_digest(ctx)?;
        let is_right = match parse_location(&self.name) {
            ContentLocation::Local(path) => return Self::check_local(ctx, Path::new(path), sum.as_ref()),
            ContentLocation::Foreign(url) => {
                return Err(StateError::new(format!(
                    "the protocol of `{}` is not supported here",
                    redact_logins(url)
                )));
            }
            ContentLocation::Tree(..) => {
                let content = self.tree_content(ctx)?;
                let has_digest = sum.as_ref().is_none_or(|sum| sum.matches(&content));
                has_digest
                    && ctx.fs.compare(&self.cache_path(ctx)?, &content)?.is_some_and(|(_, is_same)| is_same)
            }
            ContentLocation::Web(_) => {
                let kept = Self::cached_content(ctx, &self.cache_path(ctx)?)?;
                match (&sum, kept) {
                    (Some(sum), Some(kept)) => sum.matches(&kept),
                    (None, Some(_)) => {
                        return Ok(CheckResult::unknown(
                            "only fetching it again tells whether it has changed",
                        ));
                    }
                    (_, None) => false,
                }
            }
        };
        let copy = self.cache_path(ctx)?;
        if is_right {
            return Ok(CheckResult::in_sync(Self::in_sync_comment(&copy, sum.as_ref())));
        }
        let is_kept = ctx.fs.stat(&copy)?.is_some();
        Ok(CheckResult::drifted(self.predicted_comment(is_kept, sum.as_ref()), Map::new()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (sum, copy) = (self.expected_digest(ctx)?, self.cache_path(ctx)?);
        let algorithm = sum.as_ref().map_or(DigestAlgorithm::Sha256, |sum| sum.algorithm);
        let old = Self::cached_content(ctx, &copy)?.map(|kept| algorithm.digest(&kept));
        let new = algorithm.digest(&self.fetch_content(ctx, &copy, sum.as_ref())?);
        let mut changes = Map::new();
        if old.as_ref() != Some(&new) {
            let change: Map =
                [("old", Value::from(old)), ("new", Value::from(new.as_str()))].into_iter().collect();
            changes.insert("hash", change);
        }
        match &sum {
            Some(sum) if sum.digits != new => {
                let comment = format!(
                    "File is cached to {}, but the hash ({new}) does not match the specified hash ({})",
                    copy.display(),
                    sum.digits
                );
                Err(ApplyResult::new(comment, changes).into())
            }
            sum => Ok(ApplyResult::new(Self::in_sync_comment(&copy, sum.as_ref()), changes)),
        }
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        let is_web = |text: &str| matches!(parse_location(text), ContentLocation::Web(_));
        !is_web(&self.name) && !self.hash.as_deref().is_some_and(is_web)
    }

    fn check_cost(&self) -> CheckCost {
        if self.is_predictable() { CheckCost::Light } else { CheckCost::Heavy }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        // The copy is known by where it comes from.
        vec![LockKey::Path(self.name.clone().into())]
    }
}

impl State for FileNotCached {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = &self.name;
        let Some(copy) = cached_path(ctx, &self.env, name) else {
            let path = name.strip_prefix("file://").unwrap_or(name);
            return Ok(CheckResult::in_sync(format!("File {path} is a local path, no action taken")));
        };
        if ctx.fs.lstat(&copy)?.is_none() {
            return Ok(CheckResult::in_sync(format!("{} is not cached", redact_logins(name))));
        }
        let changes = [("deleted", true)].into_iter().collect();
        Ok(CheckResult::drifted(format!("{} is set to be deleted", copy.display()), changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let Some(copy) = cached_path(ctx, &self.env, &self.name) else { return Ok(ApplyResult::default()) };
        ctx.fs.remove(&copy)?;
        let changes = [("deleted", true)].into_iter().collect();
        Ok(ApplyResult::new(format!("{} was deleted", copy.display()), changes))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        // The copy is known by where it comes from.
        vec![LockKey::Path(self.name.clone().into())]
    }
}

//! Where a content comes from: the state tree, a path of this host, or the network.
//!
//! A source that is not there is told as such; one that cannot be read is a failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use zagent_config::mask::redact_logins;

use zagent_config::Value;

use super::download::{self, Downloader};
use super::hash::{FileDigest, invalid_digest};
use super::signature::Signatures;
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_config::error_chain;
use zagent_host::fs::{FileKind, Stat};

/// Bytes that somebody already holds, or that were made for this.
#[derive(Clone, Debug)]
pub(crate) enum ContentBytes {
    /// A text of the plan.
    Text(Arc<str>),
    /// A file of the tree.
    Shared(Arc<[u8]>),
    /// Made for this.
    Owned(Vec<u8>),
}

impl std::ops::Deref for ContentBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Shared(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// One source, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileSource {
    /// Its text.
    pub text: Arc<str>,
    /// A digest of its own, in a list of sources.
    hash: Option<Arc<str>>,
}

/// What the text of a source means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentLocation<'s> {
    /// A path in an environment of the tree; none is that of the state.
    Tree(Option<&'s str>, &'s str),
    /// A path of this host.
    Local(&'s str),
    /// An address.
    Web(&'s str),
    /// An address that nobody here can fetch from.
    Foreign(&'s str),
}

/// What a text means as a source.
pub(crate) fn parse_location(text: &str) -> ContentLocation<'_> {
    if let Some(path) = text.strip_prefix("salt://") {
        // A question mark is part of a name, except before an environment; a bar only says that it is a name.
        let (path, env) = match (path.split_once("?saltenv="), path.split_once("?env=")) {
            (_, Some((path, _))) => (path, None),
            (Some((path, env)), None) => (path, Some(env)),
            (None, None) => (path, None),
        };
        return ContentLocation::Tree(env, path.trim_start_matches('/').trim_start_matches('|'));
    }
    if let Some(path) = text.strip_prefix("file://") {
        return ContentLocation::Local(path);
    }
    match text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
        Some("http" | "https") => ContentLocation::Web(text),
        Some("ftp" | "s3" | "swift") => ContentLocation::Foreign(text),
        _ => ContentLocation::Local(text),
    }
}

/// All that is said about where a content comes from.
#[derive(Debug, Default)]
pub(crate) struct FileSources {
    list: Vec<FileSource>,
    /// More than one was allowed for: the first that is there counts.
    is_list: bool,
    hash: Option<Arc<str>>,
    hash_name: Option<String>,
    skip_verify: bool,
    /// `keep_source: false`: a download is not kept once it was used.
    discard_download: bool,
    fetch: Downloader,
    signatures: Signatures,
}

/// A source that was found, with what it holds.
#[derive(Debug)]
pub(crate) struct FoundSource {
    /// Which one.
    pub source: FileSource,
    /// What it holds.
    pub bytes: ContentBytes,
    /// Its permission bits, where it has some.
    pub mode: Option<u32>,
}

/// Where a source is once it was found.
#[derive(Debug)]
pub(crate) enum LocatedSource {
    /// A file of this host.
    File(PathBuf),
    /// In memory, with the tree.
    Held(ContentBytes),
}

impl FileSources {
    /// Reads `source` and what belongs to it; nothing when no source is given.
    ///
    /// # Errors
    /// Fails when one of them cannot be understood.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Option<Self>, StateError> {
        let (list, is_list) = match args.get("source") {
            None => return Ok(None),
            Some(Value::Str(text)) if text.is_empty() => return Ok(None),
            Some(Value::Str(text)) => (vec![FileSource { text: Arc::clone(text), hash: None }], false),
            Some(Value::List(items)) if items.is_empty() => return Ok(None),
            Some(Value::List(items)) => (items.iter().filter_map(parse_item).collect(), true),
            Some(other) => {
                return Err(StateError::new(format!(
                    "`source` must be text or a list, not {}",
                    other.kind()
                )));
            }
        };
        let hash = match args.get("source_hash") {
            Some(Value::Str(text)) => Some(Arc::clone(text)).filter(|t| !t.is_empty()),
            None => None,
            Some(_) => args.text("source_hash")?.map(Into::into),
        };
        let sources = Self {
            list,
            is_list,
            hash,
            hash_name: args.text("source_hash_name")?,
            skip_verify: args.flag("skip_verify", false),
            discard_download: !args.flag("keep_source", true),
            fetch: Downloader::read(args),
            signatures: Signatures::read(args)?,
        };
        sources.list.iter().try_for_each(|source| sources.verify_list_is_read(source))?;
        Ok(Some(sources))
    }

    /// One source, and what else the state says of where its content comes from.
    ///
    /// # Errors
    /// Fails when that cannot be understood.
    pub(crate) fn single(text: &str, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Ok(Self {
            hash: args.text("source_hash")?.filter(|t| !t.is_empty()).map(Into::into),
            hash_name: args.text("source_hash_name")?,
            skip_verify: args.flag("skip_verify", false),
            fetch: Downloader::read(args),
            ..Self::from_tree(text.into())
        })
    }

    /// One source and nothing more.
    pub(crate) fn from_tree(text: Arc<str>) -> Self {
        Self { list: vec![FileSource { text, hash: None }], ..Self::default() }
    }

    /// One source that nobody has to vouch for.
    pub(crate) fn without_verification(text: Arc<str>) -> Self {
        Self { skip_verify: true, ..Self::from_tree(text) }
    }

    /// Refuses the signature of a list of digests for a source whose digest is in no such list.
    fn verify_list_is_read(&self, source: &FileSource) -> Result<(), StateError> {
        let hash = source.hash.as_deref().or(self.hash.as_deref());
        verify_list_is_read(&self.signatures, hash, self.skip_verify)?;
        match parse_location(&source.text) {
            ContentLocation::Tree(..) if self.signatures.digests.is_some() => Err(StateError::new(format!(
                "`source_hash_sig` has no effect on {}: a source of the state tree is not compared with a digest. Name its \
                 own signature in `signature`, or remove `source_hash_sig`",
                source.text
            ))),
            _ => Ok(()),
        }
    }

    /// Removes downloads from the cache that are not to be kept.
    pub(crate) fn discard_downloads(&self, ctx: &StateCtx<'_>, env: &str) {
        if self.discard_download {
            self.remove_downloads(ctx, env);
        }
    }

    fn remove_downloads(&self, ctx: &StateCtx<'_>, env: &str) {
        for source in &self.list {
            if let ContentLocation::Web(url) = parse_location(&source.text) {
                self.fetch.remove_cached(ctx, env, url);
            }
        }
    }

    /// Checks who signed a content, where the state says who must have. A download that is refused is not kept.
    ///
    /// # Errors
    /// Fails in Salt's words when nobody did who should.
    pub(crate) fn verify_signature(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        bytes: &[u8],
    ) -> Result<(), StateError> {
        let Some(origin) = &self.signatures.content else { return Ok(()) };
        let fetch = |text: &str| fetch_newest(ctx, env, self.fetch, text);
        self.signatures.verify_bytes(ctx, bytes, origin, &fetch).map_err(|why| {
            self.remove_downloads(ctx, env);
            StateError::new(format!("Failed checking new file's signature: {why}"))
        })
    }

    /// Checks who signed an archive of the machine, where the state says who must have. A download that is refused is not kept.
    ///
    /// # Errors
    /// Fails in Salt's words when nobody did who should.
    pub(crate) fn verify_archive(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        archive: &Path,
    ) -> Result<(), StateError> {
        let Some(origin) = &self.signatures.content else { return Ok(()) };
        let fetch = |text: &str| fetch_newest(ctx, env, self.fetch, text);
        self.signatures.verify_archive(ctx, archive, origin, &fetch).map_err(|why| {
            self.remove_downloads(ctx, env);
            StateError::new(format!("Failed verifying the source file's signature: {why}"))
        })
    }

    /// The signatures that it must have.
    pub(crate) const fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    /// The first source as it is written.
    pub(crate) fn first_source(&self) -> Option<&FileSource> {
        self.list.first()
    }

    /// True when finding it may take the network.
    pub(crate) fn is_remote(&self) -> bool {
        let is_web = |text: &str| matches!(parse_location(text), ContentLocation::Web(_));
        self.list.iter().any(|s| is_web(&s.text)) || self.hash.as_deref().is_some_and(is_web)
    }

    /// The digest that an existing file must have to be right without asking anybody.
    ///
    /// # Errors
    /// Fails when the list of digests cannot be had.
    pub(crate) fn known_digest(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
    ) -> Result<Option<FileDigest>, String> {
        match self.list.as_slice() {
            [only] => self.written_digest(ctx, env, file, only),
            _ => Ok(None),
        }
    }

    /// The digest that is written for a source; nothing when there is none, or for one of the tree.
    ///
    /// # Errors
    /// Fails in Salt's words when the list of digests cannot be had.
    pub(crate) fn written_digest(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
        source: &FileSource,
    ) -> Result<Option<FileDigest>, String> {
        let is_verified =
            matches!(parse_location(&source.text), ContentLocation::Web(_) | ContentLocation::Local(_));
        match source.hash.as_ref().or(self.hash.as_ref()) {
            Some(hash) if is_verified && !self.skip_verify => {
                self.lookup_digest(ctx, env, file, &source.text, hash).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Why a source of this host is refused: it does not have the digest that is written for it.
    ///
    /// # Errors
    /// Fails in Salt's words when the digest cannot be had.
    pub(crate) fn local_mismatch(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
        found: &FoundSource,
    ) -> Result<Option<String>, String> {
        if !matches!(parse_location(&found.source.text), ContentLocation::Local(_)) {
            return Ok(None);
        }
        let Some(sum) = self.written_digest(ctx, env, file, &found.source)? else { return Ok(None) };
        let got = sum.algorithm.digest(&found.bytes);
        if got == sum.digits {
            return Ok(None);
        }
        let is_there = ctx.fs.stat(Path::new(file)).map_err(|e| error_chain(&e))?.is_some();
        Ok(Some(if is_there {
            download::digest_mismatch(&sum, &found.source.text, &got)
        } else {
            let (name, digits) = (sum.algorithm.name(), &sum.digits);
            format!("Specified {name} checksum for {file} ({digits}) does not match actual checksum ({got})")
        }))
    }

    /// The source that counts, with what it holds.
    ///
    /// # Errors
    /// Fails in Salt's words when there is none, or when it cannot be had.
    pub(crate) fn find_source(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
    ) -> Result<FoundSource, String> {
        self.try_each(env, |source| self.read_source(ctx, env, file, source))
    }

    /// The source that counts, and where on this host what it holds is: it is not read, except out of the tree.
    ///
    /// # Errors
    /// Fails in Salt's words when there is none, or when it cannot be had.
    pub(crate) fn locate_source(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
    ) -> Result<(FileSource, LocatedSource), String> {
        self.try_each(env, |source| {
            let located = match parse_location(&source.text) {
                ContentLocation::Local(path) => {
                    local_stat(ctx, Path::new(path))?.map(|_| LocatedSource::File(PathBuf::from(path)))
                }
                ContentLocation::Web(url) => {
                    let sum = self.url_digest(ctx, env, file, url, source)?;
                    Some(LocatedSource::File(self.fetch.fetch_file(ctx, env, url, sum.as_ref())?))
                }
                ContentLocation::Tree(..) | ContentLocation::Foreign(_) => {
                    self.read_source(ctx, env, file, source)?.map(|found| LocatedSource::Held(found.bytes))
                }
            };
            Ok(located.map(|located| (source.clone(), located)))
        })
    }

    fn try_each<T>(
        &self,
        env: &str,
        get: impl Fn(&FileSource) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        if !self.is_list {
            let source = self.first_source().ok_or_else(none_found_error)?;
            return get(source)?.ok_or_else(|| missing_source(source, env));
        }
        for source in &self.list {
            match get(source) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                // The next one may do: an address that does not answer is as good as none.
                Err(_) if matches!(parse_location(&source.text), ContentLocation::Web(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(none_found_error())
    }

    fn read_source(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
        source: &FileSource,
    ) -> Result<Option<FoundSource>, String> {
        let found = |bytes, mode| Some(FoundSource { source: source.clone(), bytes, mode });
        match parse_location(&source.text) {
            ContentLocation::Tree(own, path) => {
                let env = own.unwrap_or(env);
                let bytes = ctx.files.read(env, path)?;
                Ok(bytes.and_then(|bytes| found(ContentBytes::Shared(bytes), ctx.files.mode(env, path))))
            }
            ContentLocation::Local(path) => {
                Ok(read_local(ctx, path)?.and_then(|(bytes, mode)| found(bytes, Some(mode))))
            }
            ContentLocation::Web(url) => {
                let sum = self.url_digest(ctx, env, file, url, source)?;
                let bytes = self.fetch.fetch_bytes(ctx, env, url, sum.as_ref())?;
                Ok(found(ContentBytes::Owned(bytes), None))
            }
            ContentLocation::Foreign(url) => Err(format!(
                "the protocol of `{}` is not supported here: use https, salt:// or a path",
                redact_logins(url)
            )),
        }
    }

    /// The digest that an address must have; nothing when nobody has to vouch for it.
    fn url_digest(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
        url: &str,
        source: &FileSource,
    ) -> Result<Option<FileDigest>, String> {
        match source.hash.as_ref().or(self.hash.as_ref()) {
            _ if self.skip_verify => Ok(None),
            Some(hash) => self.lookup_digest(ctx, env, file, url, hash).map(Some),
            None if self.fetch.use_etag => Ok(None),
            None => Err(unverified_error(url)),
        }
    }

    fn lookup_digest(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        file: &str,
        url: &str,
        hash: &str,
    ) -> Result<FileDigest, String> {
        source_digest(
            ctx,
            env,
            &self.fetch,
            hash,
            &DigestNames {
                hash_name: self.hash_name.as_deref(),
                file,
                source: url,
                signatures: &self.signatures,
            },
        )
        .map_err(|error| format!("Unable to manage file: {error}"))
    }
}

/// By which names a digest is looked up in a list of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestNames<'n> {
    /// `source_hash_name`.
    pub(crate) hash_name: Option<&'n str>,
    /// The file that is managed.
    pub file: &'n str,
    /// Where it comes from.
    pub source: &'n str,
    /// Who must have signed the list.
    pub(crate) signatures: &'n Signatures,
}

/// The digest that `source_hash` gives: written out, or in a list of digests.
///
/// # Errors
/// Fails in Salt's words when there is none.
pub(crate) fn source_digest(
    ctx: &StateCtx<'_>,
    env: &str,
    fetch: &Downloader,
    hash: &str,
    names: &DigestNames<'_>,
) -> Result<FileDigest, String> {
    let not_found = || format!("Source hash file {} not found", redact_logins(hash));
    let mut list = match parse_location(hash) {
        ContentLocation::Tree(own, path) => {
            ctx.files.read(own.unwrap_or(env), path)?.ok_or_else(not_found)?.to_vec()
        }
        ContentLocation::Web(url) => {
            fetch.refetch_bytes(ctx, env, url).map_err(|e| format!("{}: {e}", not_found()))?
        }
        ContentLocation::Local(path) if path.starts_with('/') => {
            read_local(ctx, path)?.ok_or_else(not_found)?.0.to_vec()
        }
        ContentLocation::Foreign(_) => return Err(invalid_digest(hash)),
        ContentLocation::Local(written) => return FileDigest::read(written),
    };
    if let Some(origin) = &names.signatures.digests {
        let get = |text: &str| fetch_newest(ctx, env, *fetch, text);
        // What stands beside a text that is signed is no part of the list.
        list = names.signatures.signed_text(ctx, &list, origin, &get)?;
    }
    let list = String::from_utf8_lossy(&list);
    FileDigest::find_in_list(&list, names.hash_name, names.file, names.source)
        .ok_or_else(|| invalid_digest(hash))
}

/// A signature or a key: whatever is kept of an address, it is asked for again.
fn fetch_newest(ctx: &StateCtx<'_>, env: &str, fetch: Downloader, text: &str) -> Result<Vec<u8>, String> {
    let fetch = Downloader { use_etag: true, ..fetch };
    let sources = FileSources { fetch, ..FileSources::without_verification(text.into()) };
    sources.find_source(ctx, env, text).map(|found| found.bytes.to_vec())
}

/// Refuses the signature of a list of digests where no such list is read.
///
/// # Errors
/// Fails when there is none, or when nobody looks at it.
pub(crate) fn verify_list_is_read(
    signatures: &Signatures,
    hash: Option<&str>,
    skips_verification: bool,
) -> Result<(), StateError> {
    let is_digest =
        |hash: &str| matches!(parse_location(hash), ContentLocation::Local(path) if !path.starts_with('/'));
    let why = match hash {
        _ if signatures.digests.is_none() => return Ok(()),
        _ if skips_verification => "`skip_verify` says that no digest is compared: remove `skip_verify`",
        None => "there is no `source_hash`: name the signed file of digests there",
        Some(hash) if is_digest(hash) => {
            "`source_hash` is a digest and no file of digests: name the signed file there"
        }
        Some(_) => return Ok(()),
    };
    Err(StateError::new(format!("`source_hash_sig` has no effect: {why}, or remove `source_hash_sig`")))
}

fn parse_item(value: &Value) -> Option<FileSource> {
    match value {
        Value::Str(text) => Some(FileSource { text: Arc::clone(text), hash: None }),
        Value::Map(map) if map.len() == 1 => {
            let (key, hash) = map.iter().next()?;
            let hash = hash.as_str().filter(|h| !h.is_empty()).map(Into::into);
            Some(FileSource { text: key.as_str()?.into(), hash })
        }
        _ => None,
    }
}

/// A file of this host; nothing when it is not there.
fn read_local(ctx: &StateCtx<'_>, path: &str) -> Result<Option<(ContentBytes, u32)>, String> {
    let path = Path::new(path);
    let Some(found) = local_stat(ctx, path)? else { return Ok(None) };
    let bytes = ctx.fs.read(path).map_err(|e| error_chain(&e))?;
    Ok(Some((ContentBytes::Owned(bytes), found.mode)))
}

fn local_stat(ctx: &StateCtx<'_>, path: &Path) -> Result<Option<Stat>, String> {
    if !path.is_absolute() {
        return Ok(None);
    }
    match ctx.fs.stat(path).map_err(|e| error_chain(&e))? {
        Some(found) if found.kind != FileKind::File => {
            Err(format!("`{}` is not a regular file", path.display()))
        }
        found => Ok(found),
    }
}

fn missing_source(source: &FileSource, env: &str) -> String {
    let text = &source.text;
    match parse_location(text) {
        ContentLocation::Tree(..) => format!("Source file {text} not found in saltenv '{env}'"),
        _ => format!("Local file source {} does not exist", text.strip_prefix("file://").unwrap_or(text)),
    }
}

pub(crate) fn none_found_error() -> String {
    "none of the specified sources were found".into()
}

fn unverified_error(url: &str) -> String {
    format!(
        "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify to True",
        redact_logins(url)
    )
}

/// Where the copy of an address, or of a file of the tree, is kept.
pub(crate) fn cached_path(ctx: &StateCtx<'_>, env: &str, text: &str) -> Option<PathBuf> {
    match parse_location(text) {
        ContentLocation::Tree(own, path) => download::safe_join(
            &ctx.cache_dir.join("files").join(download::path_component(own.unwrap_or(env))),
            path,
        ),
        ContentLocation::Web(url) => download::cache_path(ctx, env, url),
        ContentLocation::Local(_) | ContentLocation::Foreign(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_mean_places() {
        let table = [
            ("salt://a/b", ContentLocation::Tree(None, "a/b")),
            ("salt://a?saltenv=dev", ContentLocation::Tree(Some("dev"), "a")),
            ("salt://|odd?saltenv=x", ContentLocation::Tree(Some("x"), "odd")),
            ("salt://|a?b.txt", ContentLocation::Tree(None, "a?b.txt")),
            ("salt://a?b.txt", ContentLocation::Tree(None, "a?b.txt")),
            ("salt:///a/b?env=dev", ContentLocation::Tree(None, "a/b")),
            ("/etc/x", ContentLocation::Local("/etc/x")),
            ("file:///etc/x", ContentLocation::Local("/etc/x")),
            ("https://h/x", ContentLocation::Web("https://h/x")),
            ("HTTP://h/x", ContentLocation::Web("HTTP://h/x")),
            ("s3://b/x", ContentLocation::Foreign("s3://b/x")),
            ("relative", ContentLocation::Local("relative")),
        ];
        for (text, expected) in table {
            assert_eq!(parse_location(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_file_is_located_without_being_read() {
        let test_bed = crate::testing::StateTestBed::new();
        let path = test_bed.path("long.tar");
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let sources = FileSources::from_tree(path.as_str().into());
        let (source, located) = sources.locate_source(&test_bed.scene(), "base", "/opt").unwrap();
        assert_eq!(&*source.text, path);
        assert!(matches!(located, LocatedSource::File(file) if file == Path::new(&path)));
    }
}

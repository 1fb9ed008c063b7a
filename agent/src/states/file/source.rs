//! Where a content comes from: the state tree, a path of this host, or the network.
//!
//! Law: a source that is not there is told as such; one that cannot be read is a failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::Value;

use super::download::{self, Fetch};
use super::hash::{Sum, invalid};
use crate::fs::{Kind, Stat};
use crate::report::chain;
use crate::states::{Args, Failure, Scene};

/// Bytes that somebody already holds, or that were made for this.
#[derive(Clone, Debug)]
pub(in crate::states) enum Bytes {
    /// A text of the plan.
    Text(Arc<str>),
    /// A file of the tree.
    Shared(Arc<[u8]>),
    /// Made for this.
    Owned(Vec<u8>),
}

impl std::ops::Deref for Bytes {
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
pub(in crate::states) struct Source {
    /// Its text.
    pub(in crate::states) text: Arc<str>,
    /// A digest of its own, in a list of sources.
    hash: Option<Arc<str>>,
}

/// What the text of a source means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::states) enum Place<'s> {
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
pub(in crate::states) fn place(text: &str) -> Place<'_> {
    if let Some(path) = text.strip_prefix("salt://") {
        let path = path.strip_prefix('|').unwrap_or(path);
        return match path.split_once('?') {
            Some((path, query)) => Place::Tree(saltenv(query), path),
            None => Place::Tree(None, path),
        };
    }
    if let Some(path) = text.strip_prefix("file://") {
        return Place::Local(path);
    }
    match text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
        Some("http" | "https") => Place::Web(text),
        Some("ftp" | "s3" | "swift") => Place::Foreign(text),
        _ => Place::Local(text),
    }
}

fn saltenv(query: &str) -> Option<&str> {
    query.split('&').find_map(|part| part.strip_prefix("saltenv="))
}

/// An address without the password in it.
pub(in crate::states) fn redact(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let host = rest.split('/').next().unwrap_or(rest);
    match host.rsplit_once('@') {
        Some((secret, _)) => format!("{scheme}://<redacted>{}", &rest[secret.len()..]),
        None => text.to_owned(),
    }
}

/// All that is said about where a content comes from.
#[derive(Debug, Default)]
pub(in crate::states) struct Sources {
    list: Vec<Source>,
    /// More than one was allowed for: the first that is there counts.
    is_list: bool,
    hash: Option<Arc<str>>,
    hash_name: Option<String>,
    skip_verify: bool,
    /// `keep_source: false`: a download is not kept once it was used.
    is_fleeting: bool,
    fetch: Fetch,
}

/// A source that was found, with what it holds.
#[derive(Debug)]
pub(in crate::states) struct Found {
    /// Which one.
    pub(in crate::states) source: Source,
    /// What it holds.
    pub(in crate::states) bytes: Bytes,
    /// Its permission bits, where it has some.
    pub(in crate::states) mode: Option<u32>,
}

/// Where a source is once it was found.
#[derive(Debug)]
pub(in crate::states) enum Located {
    /// A file of this host.
    File(PathBuf),
    /// In memory, with the tree.
    Held(Bytes),
}

impl Sources {
    /// Reads `source` and what belongs to it; nothing when no source is given.
    ///
    /// # Errors
    /// Fails when one of them cannot be understood.
    pub(in crate::states) fn read(args: &Args<'_>) -> Result<Option<Self>, Failure> {
        let (list, is_list) = match args.get("source") {
            None => return Ok(None),
            Some(Value::Str(text)) if text.is_empty() => return Ok(None),
            Some(Value::Str(text)) => (vec![Source { text: Arc::clone(text), hash: None }], false),
            Some(Value::List(items)) if items.is_empty() => return Ok(None),
            Some(Value::List(items)) => (items.iter().filter_map(item).collect(), true),
            Some(other) => {
                return Err(Failure::new(format!("`source` must be text or a list, not {}", other.kind())));
            }
        };
        let hash = match args.get("source_hash") {
            Some(Value::Str(text)) => Some(Arc::clone(text)).filter(|t| !t.is_empty()),
            None => None,
            Some(_) => args.text("source_hash")?.map(Into::into),
        };
        Ok(Some(Self {
            list,
            is_list,
            hash,
            hash_name: args.text("source_hash_name")?,
            skip_verify: args.flag("skip_verify", false),
            is_fleeting: !args.flag("keep_source", true),
            fetch: Fetch::read(args),
        }))
    }

    /// One source, and what else the state says of where its content comes from.
    ///
    /// # Errors
    /// Fails when that cannot be understood.
    pub(in crate::states) fn one(text: &str, args: &Args<'_>) -> Result<Self, Failure> {
        Ok(Self {
            hash: args.text("source_hash")?.filter(|t| !t.is_empty()).map(Into::into),
            hash_name: args.text("source_hash_name")?,
            skip_verify: args.flag("skip_verify", false),
            fetch: Fetch::read(args),
            ..Self::tree(text.into())
        })
    }

    /// One source and nothing more.
    pub(in crate::states) fn tree(text: Arc<str>) -> Self {
        Self { list: vec![Source { text, hash: None }], ..Self::default() }
    }

    /// One source that nobody has to vouch for.
    pub(in crate::states) fn unverified(text: Arc<str>) -> Self {
        Self { skip_verify: true, ..Self::tree(text) }
    }

    /// Removes downloads from the cache that are not to be kept.
    pub(in crate::states) fn forget(&self, scene: &Scene<'_>, env: &str) {
        for source in self.list.iter().filter(|_| self.is_fleeting) {
            if let Place::Web(url) = place(&source.text) {
                self.fetch.forget(scene, env, url);
            }
        }
    }

    /// The first source as it is written.
    pub(in crate::states) fn first(&self) -> Option<&Source> {
        self.list.first()
    }

    /// True when finding it may take the network.
    pub(in crate::states) fn is_remote(&self) -> bool {
        let is_web = |text: &str| matches!(place(text), Place::Web(_));
        self.list.iter().any(|s| is_web(&s.text)) || self.hash.as_deref().is_some_and(is_web)
    }

    /// The digest that an existing file must have to be right without asking anybody.
    ///
    /// # Errors
    /// Fails when the list of digests cannot be had.
    pub(in crate::states) fn known_sum(
        &self,
        scene: &Scene<'_>,
        env: &str,
        file: &str,
    ) -> Result<Option<Sum>, String> {
        let [only] = self.list.as_slice() else { return Ok(None) };
        match (place(&only.text), &self.hash) {
            (Place::Web(url), Some(hash)) if !self.skip_verify => {
                self.sum(scene, env, file, url, hash).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The source that counts, with what it holds.
    ///
    /// # Errors
    /// Fails in Salt's words when there is none, or when it cannot be had.
    pub(in crate::states) fn find(&self, scene: &Scene<'_>, env: &str, file: &str) -> Result<Found, String> {
        self.first_of(env, |source| self.get(scene, env, file, source))
    }

    /// The source that counts, and where on this host what it holds is: it is not read, except out of the tree.
    ///
    /// # Errors
    /// Fails in Salt's words when there is none, or when it cannot be had.
    pub(in crate::states) fn locate(
        &self,
        scene: &Scene<'_>,
        env: &str,
        file: &str,
    ) -> Result<(Source, Located), String> {
        self.first_of(env, |source| {
            let located = match place(&source.text) {
                Place::Local(path) => {
                    local_stat(scene, Path::new(path))?.map(|_| Located::File(PathBuf::from(path)))
                }
                Place::Web(url) => {
                    let sum = self.sum_of(scene, env, file, url, source)?;
                    Some(Located::File(self.fetch.file(scene, env, url, sum.as_ref())?))
                }
                Place::Tree(..) | Place::Foreign(_) => {
                    self.get(scene, env, file, source)?.map(|found| Located::Held(found.bytes))
                }
            };
            Ok(located.map(|located| (source.clone(), located)))
        })
    }

    fn first_of<T>(
        &self,
        env: &str,
        get: impl Fn(&Source) -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        if !self.is_list {
            let source = self.first().ok_or_else(none_found)?;
            return get(source)?.ok_or_else(|| missing(source, env));
        }
        for source in &self.list {
            match get(source) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                // The next one may do: an address that does not answer is as good as none.
                Err(_) if matches!(place(&source.text), Place::Web(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(none_found())
    }

    fn get(
        &self,
        scene: &Scene<'_>,
        env: &str,
        file: &str,
        source: &Source,
    ) -> Result<Option<Found>, String> {
        let found = |bytes, mode| Some(Found { source: source.clone(), bytes, mode });
        match place(&source.text) {
            Place::Tree(own, path) => {
                let env = own.unwrap_or(env);
                let bytes = scene.files.read(env, path)?;
                Ok(bytes.and_then(|bytes| found(Bytes::Shared(bytes), scene.files.mode(env, path))))
            }
            Place::Local(path) => Ok(local(scene, path)?.and_then(|(bytes, mode)| found(bytes, Some(mode)))),
            Place::Web(url) => {
                let sum = self.sum_of(scene, env, file, url, source)?;
                let bytes = self.fetch.bytes(scene, env, url, sum.as_ref())?;
                Ok(found(Bytes::Owned(bytes), None))
            }
            Place::Foreign(url) => Err(format!(
                "the protocol of `{}` is not supported here: use https, salt:// or a path",
                redact(url)
            )),
        }
    }

    /// The digest that an address must have; nothing when nobody has to vouch for it.
    fn sum_of(
        &self,
        scene: &Scene<'_>,
        env: &str,
        file: &str,
        url: &str,
        source: &Source,
    ) -> Result<Option<Sum>, String> {
        match source.hash.as_ref().or(self.hash.as_ref()) {
            _ if self.skip_verify => Ok(None),
            Some(hash) => self.sum(scene, env, file, url, hash).map(Some),
            None if self.fetch.use_etag => Ok(None),
            None => Err(unverified(url)),
        }
    }

    fn sum(&self, scene: &Scene<'_>, env: &str, file: &str, url: &str, hash: &str) -> Result<Sum, String> {
        sum(scene, env, &self.fetch, hash, &Names { hash_name: self.hash_name.as_deref(), file, source: url })
            .map_err(|error| format!("Unable to manage file: {error}"))
    }
}

/// By which names a digest is looked up in a list of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::states) struct Names<'n> {
    /// `source_hash_name`.
    pub(in crate::states) hash_name: Option<&'n str>,
    /// The file that is managed.
    pub(in crate::states) file: &'n str,
    /// Where it comes from.
    pub(in crate::states) source: &'n str,
}

/// The digest that `source_hash` gives: written out, or in a list of digests.
///
/// # Errors
/// Fails in Salt's words when there is none.
pub(in crate::states) fn sum(
    scene: &Scene<'_>,
    env: &str,
    fetch: &Fetch,
    hash: &str,
    names: &Names<'_>,
) -> Result<Sum, String> {
    let not_found = || format!("Source hash file {} not found", redact(hash));
    let list = match place(hash) {
        Place::Tree(own, path) => scene.files.read(own.unwrap_or(env), path)?.ok_or_else(not_found)?.to_vec(),
        Place::Web(url) => fetch.fresh(scene, env, url).map_err(|e| format!("{}: {e}", not_found()))?,
        Place::Local(path) if path.starts_with('/') => local(scene, path)?.ok_or_else(not_found)?.0.to_vec(),
        Place::Foreign(_) => return Err(invalid(hash)),
        Place::Local(written) => return Sum::read(written),
    };
    let list = String::from_utf8_lossy(&list);
    Sum::find(&list, names.hash_name, names.file, names.source).ok_or_else(|| invalid(hash))
}

fn item(value: &Value) -> Option<Source> {
    match value {
        Value::Str(text) => Some(Source { text: Arc::clone(text), hash: None }),
        Value::Map(map) if map.len() == 1 => {
            let (key, hash) = map.iter().next()?;
            let hash = hash.as_str().filter(|h| !h.is_empty()).map(Into::into);
            Some(Source { text: key.as_str()?.into(), hash })
        }
        _ => None,
    }
}

/// A file of this host; nothing when it is not there.
fn local(scene: &Scene<'_>, path: &str) -> Result<Option<(Bytes, u32)>, String> {
    let path = Path::new(path);
    let Some(found) = local_stat(scene, path)? else { return Ok(None) };
    let bytes = scene.fs.read(path).map_err(|e| chain(&e))?;
    Ok(Some((Bytes::Owned(bytes), found.mode)))
}

fn local_stat(scene: &Scene<'_>, path: &Path) -> Result<Option<Stat>, String> {
    if !path.is_absolute() {
        return Ok(None);
    }
    match scene.fs.stat(path).map_err(|e| chain(&e))? {
        Some(found) if found.kind != Kind::File => Err(format!("`{}` is not a regular file", path.display())),
        found => Ok(found),
    }
}

fn missing(source: &Source, env: &str) -> String {
    let text = &source.text;
    match place(text) {
        Place::Tree(..) => format!("Source file {text} not found in saltenv '{env}'"),
        _ => format!("Local file source {} does not exist", text.strip_prefix("file://").unwrap_or(text)),
    }
}

fn none_found() -> String {
    "none of the specified sources were found".into()
}

fn unverified(url: &str) -> String {
    format!(
        "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify to True",
        redact(url)
    )
}

/// Where the copy of an address, or of a file of the tree, is kept.
pub(in crate::states) fn cached_path(scene: &Scene<'_>, env: &str, text: &str) -> Option<PathBuf> {
    match place(text) {
        Place::Tree(own, path) => {
            download::below(&scene.cache.join("files").join(download::part(own.unwrap_or(env))), path)
        }
        Place::Web(url) => download::path(scene, env, url),
        Place::Local(_) | Place::Foreign(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_mean_places() {
        let table = [
            ("salt://a/b", Place::Tree(None, "a/b")),
            ("salt://a?saltenv=dev", Place::Tree(Some("dev"), "a")),
            ("salt://|odd?saltenv=x", Place::Tree(Some("x"), "odd")),
            ("/etc/x", Place::Local("/etc/x")),
            ("file:///etc/x", Place::Local("/etc/x")),
            ("https://h/x", Place::Web("https://h/x")),
            ("HTTP://h/x", Place::Web("HTTP://h/x")),
            ("s3://b/x", Place::Foreign("s3://b/x")),
            ("relative", Place::Local("relative")),
        ];
        for (text, expected) in table {
            assert_eq!(place(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_file_is_located_without_being_read() {
        let stage = crate::states::stage::Stage::new();
        let path = stage.path("long.tar");
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let sources = Sources::tree(path.as_str().into());
        let (source, located) = sources.locate(&stage.scene(), "base", "/opt").unwrap();
        assert_eq!(&*source.text, path);
        assert!(matches!(located, Located::File(file) if file == Path::new(&path)));
    }

    #[test]
    fn passwords_are_not_told() {
        assert_eq!(redact("https://u:p@h/x@y"), "https://<redacted>@h/x@y");
        assert_eq!(redact("https://h/x@y"), "https://h/x@y");
        assert_eq!(redact("sha256=ab"), "sha256=ab");
    }
}

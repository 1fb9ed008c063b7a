//! An address in, its content out, kept in the cache.
//!
//! What has a digest is used only once the digest fits; a download is bounded in size and time, and nobody ever
//! sees half of one.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zagent_config::mask::redact_logins;

use ureq::config::Config;

use super::hash::FileDigest;
use crate::{ChunkArgs, StateCtx};
use zagent_host::http_request::{HttpRequest, agent_config, tls_config};

/// Bytes of one download.
const MAX_DOWNLOAD: u64 = 1 << 30;
/// How long one download may take when the state has no time limit of its own.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes between two looks at whether to stop.
const CHUNK: usize = 64 << 10;
/// Bytes of one name of a path in the cache.
const MAX_NAME_BYTES: usize = 200;

/// How addresses are fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Downloader {
    /// Ask for the newest content, whatever is kept.
    pub(crate) use_etag: bool,
    /// Certificates must be right.
    pub(crate) verify_ssl: bool,
}

impl Default for Downloader {
    fn default() -> Self {
        Self { use_etag: false, verify_ssl: true }
    }
}

impl Downloader {
    /// Without a word about how.
    pub(crate) const fn plain() -> Self {
        Self { use_etag: false, verify_ssl: true }
    }

    /// Reads `use_etag` and `verify_ssl`.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Self {
        Self { use_etag: args.flag("use_etag", false), verify_ssl: args.flag("verify_ssl", true) }
    }

    /// The content of an address: the copy that is kept when it fits, else a new one.
    ///
    /// # Errors
    /// Fails in words when it cannot be had, or does not have the digest.
    pub(crate) fn fetch_bytes(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        url: &str,
        sum: Option<&FileDigest>,
    ) -> Result<Vec<u8>, String> {
        read_download(&self.fetch_file(ctx, env, url, sum)?, url)
    }

    /// The same as a file that is kept: it may be longer than the memory.
    ///
    /// # Errors
    /// Fails in words when it cannot be had, or does not have the digest.
    pub(crate) fn fetch_file(
        &self,
        ctx: &StateCtx<'_>,
        env: &str,
        url: &str,
        sum: Option<&FileDigest>,
    ) -> Result<PathBuf, String> {
        let fits = |path: &PathBuf| match sum {
            Some(sum) => sum.algorithm.digest_file(path).is_ok_and(|digits| digits == sum.digits),
            None => !self.use_etag && path.is_file(),
        };
        let kept = [staging_path(ctx, env, url), cache_path(ctx, env, url)];
        if let Some(kept) = kept.into_iter().flatten().find(fits) {
            return Ok(kept);
        }
        let new = self.download_to_cache(ctx, env, url)?;
        let Some(sum) = sum else { return Ok(new) };
        let got = sum.algorithm.digest_file(&new).map_err(|e| download_error(url, &e.to_string()))?;
        if got == sum.digits {
            return Ok(new);
        }
        // A copy that is left behind is caught by its digest the next time.
        let _ = std::fs::remove_file(new);
        Err(digest_mismatch(sum, url, &got))
    }

    /// The content of an address, asked for anew and kept.
    ///
    /// # Errors
    /// Fails in words when it cannot be had.
    pub(crate) fn refetch_bytes(&self, ctx: &StateCtx<'_>, env: &str, url: &str) -> Result<Vec<u8>, String> {
        read_download(&self.download_to_cache(ctx, env, url)?, url)
    }

    /// Removes the copies of an address.
    pub(crate) fn remove_cached(&self, ctx: &StateCtx<'_>, env: &str, url: &str) {
        for kept in [staging_path(ctx, env, url), cache_path(ctx, env, url)].into_iter().flatten() {
            // What is not there need not go, and what stays is only in the way of the disk.
            let _ = std::fs::remove_file(kept);
        }
    }

    fn download_to_cache(&self, ctx: &StateCtx<'_>, env: &str, url: &str) -> Result<PathBuf, String> {
        let target = staging_path(ctx, env, url).ok_or_else(|| download_error(url, "no such address"))?;
        let dir = target.parent().unwrap_or(ctx.staging_dir);
        let io = |e: std::io::Error| download_error(url, &e.to_string());
        std::fs::create_dir_all(dir).map_err(io)?;
        let mut file = tempfile::Builder::new().prefix(".download-").tempfile_in(dir).map_err(io)?;
        self.stream(ctx, url, &mut file).map_err(|e| download_error(url, &e))?;
        file.persist(&target).map_err(|e| io(e.error))?;
        Ok(target)
    }

    fn stream(&self, ctx: &StateCtx<'_>, url: &str, to: &mut impl Write) -> Result<(), String> {
        let end = download_deadline(ctx);
        let left = end.saturating_duration_since(now());
        let agent = ureq::Agent::new_with_config(self.http_config(left));
        let mut answer = HttpRequest::get(url).send(&agent, left)?;
        if !answer.status().is_success() {
            return Err(format!("http status: {}", answer.status().as_u16()));
        }
        let mut body = answer.body_mut().with_config().limit(MAX_DOWNLOAD).reader();
        let mut chunk = vec![0; CHUNK];
        loop {
            if ctx.cancel.is_cancelled() {
                return Err("the run was stopped".into());
            }
            if now() >= end {
                return Err("it took too long".into());
            }
            match body.read(&mut chunk).map_err(|e| e.to_string())? {
                0 => return Ok(()),
                n => to.write_all(&chunk[..n]).map_err(|e| e.to_string())?,
            }
        }
    }

    fn http_config(&self, left: Duration) -> Config {
        agent_config()
            .timeout_connect(Some(CONNECT_TIMEOUT.min(left)))
            .tls_config(tls_config(self.verify_ssl))
            .build()
    }
}

fn now() -> Instant {
    Instant::now()
}

fn download_deadline(ctx: &StateCtx<'_>) -> Instant {
    let longest = now() + DOWNLOAD_TIMEOUT;
    ctx.deadline.map_or(longest, |deadline| deadline.min(longest))
}

fn download_error(url: &str, error: &str) -> String {
    format!("Failed to cache {}: {error}", redact_logins(url))
}

fn read_download(path: &Path, url: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| download_error(url, &e.to_string()))
}

pub(crate) fn digest_mismatch(sum: &FileDigest, url: &str, got: &str) -> String {
    format!(
        "Specified {} checksum for {} ({}) does not match actual checksum ({}). If the 'source_hash' value refers to a \
         remote file with multiple possible matches, then it may be necessary to set 'source_hash_name'.",
        sum.algorithm.name(),
        redact_logins(url),
        sum.digits,
        got
    )
}

/// Where the copy of an address is kept.
pub(crate) fn cache_path(ctx: &StateCtx<'_>, env: &str, url: &str) -> Option<PathBuf> {
    path_in_cache(ctx.cache_dir, env, url)
}

/// Where a new copy of an address is put.
fn staging_path(ctx: &StateCtx<'_>, env: &str, url: &str) -> Option<PathBuf> {
    path_in_cache(ctx.staging_dir, env, url)
}

fn path_in_cache(cache: &Path, env: &str, url: &str) -> Option<PathBuf> {
    let (_, rest) = url.split_once("://")?;
    let rest = rest.split('#').next().unwrap_or(rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit('@').next().unwrap_or(host).replace(':', "");
    let root = cache.join("extrn_files").join(path_component(env)).join(path_component(&host));
    safe_join(&root, &path.replacen('?', "-", 1))
}

/// A path below a directory that never leaves it.
pub(crate) fn safe_join(root: &Path, path: &str) -> Option<PathBuf> {
    let mut full = root.to_owned();
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        full.push(path_component(name));
    }
    (full != root).then_some(full)
}

/// A text as one name of a path.
pub(crate) fn path_component(text: &str) -> String {
    let plain = match text {
        "" | "." | ".." => format!("_{text}"),
        _ => text.replace(['/', '\0'], "_"),
    };
    if plain.len() <= MAX_NAME_BYTES {
        return plain;
    }
    // The digest keeps apart what would be the same once it is cut off.
    super::hash::DigestAlgorithm::Sha256.digest(plain.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorities_of_the_host_are_believed() {
        for verify_ssl in [true, false] {
            let config = Downloader { use_etag: false, verify_ssl }.http_config(DOWNLOAD_TIMEOUT);
            let tls = config.tls_config();
            assert!(matches!(tls.root_certs(), ureq::tls::RootCerts::PlatformVerifier), "{tls:?}");
            assert_eq!(tls.disable_verification(), !verify_ssl);
        }
    }

    #[test]
    fn paths_stay_below() {
        let root = Path::new("/c");
        assert_eq!(safe_join(root, "a//./b"), Some("/c/a/b".into()));
        assert_eq!(safe_join(root, "../../etc/passwd"), Some("/c/_../_../etc/passwd".into()));
        assert_eq!(safe_join(root, ""), None);
        assert_eq!(safe_join(root, &"x".repeat(300)).map(|p| p.as_os_str().len()), Some(3 + 64));
    }
}

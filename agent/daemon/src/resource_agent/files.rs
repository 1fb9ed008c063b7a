//! The files of a package in, a file tree out: each file is kept by its digest, and asked for once.
//!
//! Law: what is read is what the managing node named, byte for byte: a kept file whose digest is another one is asked for again
//! (held by `files_are_sent_once_and_checked`).

#![expect(clippy::disallowed_methods, reason = "files that no run has used for long are removed")]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use zagent_compiler::FileTree;
use zagent_config::atomic_file::AtomicFile;
use zagent_resources::ssh::package::PackedFile;
use zagent_resources::ssh::protocol::{AgentReply, AgentRequest};

use super::AgentPeer;

/// Where files are kept, below the directory of the agent.
pub(super) const FILES_DIR: &str = "files";
/// How long a file is kept that no run has used.
const KEEP_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// How old the time of its last use may become.
const USE_TIME: Duration = Duration::from_secs(24 * 3600);

/// True for the name of a kept file.
pub(super) fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The states as far as a run knows them.
pub(super) struct SentFiles {
    peer: Arc<AgentPeer>,
    dir: PathBuf,
    envs: Vec<String>,
    files: BTreeMap<(String, String), PackedFile>,
}

impl SentFiles {
    /// Asks for the files that are not kept yet.
    pub(super) fn new(
        peer: &Arc<AgentPeer>,
        dir: &Path,
        envs: Vec<String>,
        files: Vec<PackedFile>,
    ) -> Result<Self, String> {
        let dir = dir.join(FILES_DIR);
        let key = |file: &PackedFile| (file.env.clone(), file.path.clone());
        let files = files.into_iter().map(|file| (key(&file), file)).collect();
        let sent = Self { peer: Arc::clone(peer), dir, envs, files };
        let digests: BTreeSet<&str> =
            sent.files.values().filter(|file| file.is_file()).map(|file| &*file.digest).collect();
        let missing: Vec<String> =
            digests.iter().filter(|digest| sent.kept(digest).is_none()).map(|d| (*d).to_owned()).collect();
        if !missing.is_empty() {
            let asked = AgentReply::Need { digests: missing.clone() };
            let Some(AgentRequest::Files { contents }) = peer.consult(&asked) else {
                return Err("the files of the run did not come".into());
            };
            for (digest, content) in missing.iter().zip(contents) {
                sent.keep(digest, &content)?;
            }
        }
        prune(&sent.dir, &digests);
        Ok(sent)
    }

    fn keep(&self, digest: &str, content: &str) -> Result<(), String> {
        let content = BASE64_STANDARD.decode(content).unwrap_or_default();
        if blake3::hash(&content).to_hex().as_str() != digest {
            return Err("a file of the run changed while it was sent: run it again".into());
        }
        let fail = |error: std::io::Error| format!("cannot write to `{}`: {error}", self.dir.display());
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(fail)?;
        AtomicFile::cached(0o600).write(&self.dir.join(digest), &content).map_err(fail)
    }

    fn kept(&self, digest: &str) -> Option<Vec<u8>> {
        let content = std::fs::read(self.dir.join(digest)).ok()?;
        (blake3::hash(&content).to_hex().as_str() == digest).then_some(content)
    }

    fn find(&self, env: &str, path: &str) -> Option<&PackedFile> {
        self.files.get(&(env.to_owned(), path.to_owned()))
    }

    fn of_env<'f>(&'f self, env: &'f str) -> impl Iterator<Item = &'f PackedFile> {
        self.files.values().filter(move |file| file.env == env)
    }
}

/// Removes files that no run has used for a long time, and notes which are used. A failure costs space and nothing else.
fn prune(dir: &Path, used: &BTreeSet<&str>) {
    let now = SystemTime::now();
    for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_older = |time| entry.metadata().and_then(|meta| meta.modified()).ok() < now.checked_sub(time);
        if used.contains(&*name) && is_older(USE_TIME) {
            let _ = std::fs::File::open(entry.path()).and_then(|file| file.set_modified(now));
        } else if is_digest(&name) && is_older(KEEP_TIME) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl FileTree for SentFiles {
    fn envs(&self) -> Vec<String> {
        self.envs.clone()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        if let Some(file) = self.find(env, path).filter(|file| file.is_file()) {
            let lost = || format!("`{path}` is gone from `{}`", self.dir.display());
            return self.kept(&file.digest).map(|content| Some(content.into())).ok_or_else(lost);
        }
        let asked = AgentReply::Read { env: env.to_owned(), path: path.to_owned() };
        match self.peer.consult(&asked) {
            Some(AgentRequest::File { error: Some(error), .. }) => Err(error),
            Some(AgentRequest::File { content, .. }) => {
                let decode = |text| BASE64_STANDARD.decode(text).map(Into::into);
                content.map(decode).transpose().map_err(|error| format!("`{path}` is damaged: {error}"))
            }
            _ => Err(format!("`{path}` did not come")),
        }
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.find(env, path).is_some_and(PackedFile::is_file) || !matches!(self.read(env, path), Ok(None))
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        Ok(self.of_env(env).filter(|file| file.is_file()).map(|file| file.path.clone()).collect())
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        self.find(env, path)?.mode
    }

    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        let is_dir = |file: &&PackedFile| !file.is_file() && file.link.is_none();
        Ok(self.of_env(env).filter(is_dir).map(|file| file.path.clone()).collect())
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        let link = |file: &PackedFile| file.link.clone().map(|to| (file.path.clone(), to));
        Ok(self.of_env(env).filter_map(link).collect())
    }

    fn display(&self, _env: &str, path: &str) -> String {
        path.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kept_files_that_no_run_uses_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let digest = |text: &[u8]| blake3::hash(text).to_hex().to_string();
        let (used, unused, fresh) = (digest(b"used"), digest(b"unused"), digest(b"fresh"));
        for name in [&*used, &*unused, "somebody-elses"] {
            let file = std::fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        std::fs::write(dir.path().join(&fresh), "").unwrap();
        let left = || {
            let names = std::fs::read_dir(dir.path()).unwrap();
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
        };
        prune(dir.path(), &BTreeSet::from([&*used]));
        assert_eq!(left(), BTreeSet::from([used.clone(), fresh.clone(), "somebody-elses".into()]));
        // The one that was used just now is not old any more.
        prune(dir.path(), &BTreeSet::new());
        assert_eq!(left(), BTreeSet::from([used, fresh, "somebody-elses".into()]));
    }
}

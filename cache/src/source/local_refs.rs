//! A repository on this machine in, its branches out, without a git process.
//!
//! Only the plain case is read here: files below `refs/heads` and `packed-refs`, in a repository of the agent's own user
//! whose configuration says nothing about other formats or hidden refs. In every other case, and when anything is
//! unexpected, git is asked.
//!
//! Law: nothing is written and no symlink is followed below the repository; files are read before `packed-refs`, as git
//! packs a ref before it removes its file (held by `plain_refs_are_read_and_others_are_left_to_git`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::poll::RefList;
use crate::disk;

/// Where branches are.
const HEADS: &str = "refs/heads/";
/// How many files with refs are read.
const MAX_FILES: usize = 1000;
/// Maximum bytes of a file with one ref.
const MAX_REF: u64 = 4096;
/// Maximum bytes of `packed-refs` and of the configuration.
const MAX_TEXT: u64 = 4 << 20;
/// Words in a configuration after which refs may be somewhere else, or hidden.
const OTHER_FORMATS: [&str; 4] = ["extensions", "include", "hiderefs", "namespace"];

/// The branches whose full names begin with one of these; `None` when git has to be asked.
pub(super) fn read_refs(repository: &Path, names: &[String]) -> Option<RefList> {
    if !names.iter().all(|name| name.starts_with(HEADS)) {
        return None;
    }
    let dir = git_dir(repository)?;
    let mut found = BTreeMap::new();
    read_files(&dir, HEADS.trim_end_matches('/'), &mut found)?;
    for line in read_text(&dir.join("packed-refs"), MAX_TEXT)?.lines() {
        if line.starts_with(['#', '^']) {
            continue;
        }
        let (id, name) = line.split_once(' ')?;
        if name.starts_with(HEADS) && !found.contains_key(name) {
            found.insert(name.to_owned(), checked_id(id)?);
        }
    }
    found.retain(|name, _| names.iter().any(|asked| name.starts_with(asked.as_str())));
    Some(found.into_iter().collect())
}

/// The directory of a plain repository that belongs to the agent's user: git refuses those of others.
fn git_dir(repository: &Path) -> Option<PathBuf> {
    let inner = repository.join(".git");
    let dir = if fs::symlink_metadata(&inner).is_ok() { inner } else { repository.to_owned() };
    let is_ours = |path: &Path| {
        let meta = fs::symlink_metadata(path);
        meta.is_ok_and(|meta| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw())
    };
    let parts = ["objects", "refs"].map(|part| dir.join(part));
    let heads = dir.join(HEADS.trim_end_matches('/'));
    let are_heads_plain = fs::symlink_metadata(&heads).is_err() || is_ours(&heads);
    if !is_ours(repository) || !is_ours(&dir) || !are_heads_plain || !parts.iter().all(|part| is_ours(part)) {
        return None;
    }
    if !dir.join("HEAD").is_file() || dir.join("commondir").exists() {
        return None;
    }
    let config = read_text(&dir.join("config"), MAX_TEXT)?.to_ascii_lowercase();
    let is_plain = !config.is_empty() && !OTHER_FORMATS.iter().any(|word| config.contains(word));
    is_plain.then_some(dir)
}

/// Refs in files of their own.
fn read_files(dir: &Path, below: &str, found: &mut BTreeMap<String, String>) -> Option<()> {
    let entries = match fs::read_dir(dir.join(below)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(()),
        Err(_) => return None,
    };
    for entry in entries {
        let entry = entry.ok()?;
        let name = format!("{below}/{}", entry.file_name().to_str()?);
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            read_files(dir, &name, found)?;
        } else if !name.ends_with(".lock") {
            let text = read_text(&dir.join(&name), MAX_REF)?;
            found.insert(name, checked_id(text.strip_suffix('\n')?)?);
        }
        if found.len() > MAX_FILES {
            return None;
        }
    }
    Some(())
}

/// A text; empty when there is no such file.
fn read_text(path: &Path, limit: u64) -> Option<String> {
    String::from_utf8(disk::read(path, limit).ok()?.unwrap_or_default()).ok()
}

fn checked_id(id: &str) -> Option<String> {
    let is_id = id.len() == 40 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn plain() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for part in ["objects", "refs/heads/testing"] {
            fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        fs::write(dir.path().join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(dir.path().join("config"), "[core]\n\tbare = true\n").unwrap();
        fs::write(dir.path().join("refs/heads/main"), format!("{ONE}\n")).unwrap();
        fs::write(dir.path().join("refs/heads/testing/web"), format!("{ONE}\n")).unwrap();
        let packed = format!(
            "# pack-refs with: peeled\n{TWO} refs/heads/main\n{TWO} refs/heads/old\n{TWO} refs/tags/v1\n^{ONE}\n"
        );
        fs::write(dir.path().join("packed-refs"), packed).unwrap();
        dir
    }

    fn asked(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn plain_refs_are_read_and_others_are_left_to_git() {
        let dir = plain();
        let pair = |name: &str, id: &str| (name.to_owned(), id.to_owned());
        let read = |names: &[&str]| read_refs(dir.path(), &asked(names));
        let main = pair("refs/heads/main", ONE);
        assert_eq!(
            read(&["refs/heads/main"]).unwrap(),
            vec![main.clone()],
            "the file is newer than the packed ref"
        );
        let old = pair("refs/heads/old", TWO);
        assert_eq!(read(&["refs/heads/old", "refs/heads/main"]).unwrap(), [main, old]);
        assert_eq!(read(&["refs/heads/testing/"]).unwrap(), [pair("refs/heads/testing/web", ONE)]);
        assert_eq!(read(&["refs/heads/none"]).unwrap(), []);
        assert_eq!(read(&["refs/tags/v1"]), None);
        type Change = (&'static str, fn(&Path));
        let changes: [Change; 9] = [
            ("a symbolic ref", |dir| {
                fs::write(dir.join("refs/heads/main"), "ref: refs/heads/old\n").unwrap();
            }),
            ("half a ref", |dir| fs::write(dir.join("refs/heads/main"), "1111").unwrap()),
            ("a symlink", |dir| {
                fs::remove_file(dir.join("refs/heads/main")).unwrap();
                std::os::unix::fs::symlink("old", dir.join("refs/heads/main")).unwrap();
            }),
            ("a symlink for all branches", |dir| {
                fs::rename(dir.join("refs/heads"), dir.join("elsewhere")).unwrap();
                std::os::unix::fs::symlink("../elsewhere", dir.join("refs/heads")).unwrap();
            }),
            ("a reftable", |dir| {
                fs::write(dir.join("config"), "[Extensions]\n\trefStorage = reftable\n").unwrap();
            }),
            ("hidden refs", |dir| fs::write(dir.join("config"), "[transfer]\nhideRefs = refs/x\n").unwrap()),
            ("no configuration", |dir| fs::remove_file(dir.join("config")).unwrap()),
            ("another work tree", |dir| fs::write(dir.join("commondir"), "..").unwrap()),
            ("a damaged list", |dir| fs::write(dir.join("packed-refs"), "what\n").unwrap()),
        ];
        for (what, change) in changes {
            let dir = plain();
            change(dir.path());
            assert_eq!(read_refs(dir.path(), &asked(&["refs/heads/main"])), None, "{what}");
        }
        assert_eq!(read_refs(Path::new("/nonexistent"), &asked(&["refs/heads/main"])), None);
    }
}

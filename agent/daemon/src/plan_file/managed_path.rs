//! The states of a plan in, the paths they manage as they are on this host out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use zagent_compiler::name_text;
use zagent_config::SecretMask;

use crate::compile_job::PlanWithPillar;
use crate::local_key::LocalKey;

/// Of a larger file, size and time of change stand for the content.
const MAX_CONTENT_BYTES: u64 = 256 << 20;

/// A path on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManagedPath {
    /// `file`, `directory`, `link`, `other`, or `missing`.
    kind: String,
    mode: String,
    owner: String,
    /// Digest of the content or of the target.
    content: String,
}

impl ManagedPath {
    fn look(path: &Path, key: &LocalKey) -> Self {
        let missing = || Self { kind: "missing".into(), ..Self::default() };
        let Ok(meta) = std::fs::symlink_metadata(path) else { return missing() };
        let (kind, content) = match meta.file_type() {
            kind if kind.is_dir() => ("directory", String::new()),
            kind if kind.is_symlink() => {
                let target = std::fs::read_link(path).unwrap_or_default();
                ("link", key.digest(target.as_os_str().as_encoded_bytes()))
            }
            kind if kind.is_file() => ("file", content_digest(path, meta.len(), meta.mtime(), key)),
            _ => ("other", String::new()),
        };
        Self {
            kind: kind.into(),
            mode: format!("{:04o}", meta.mode() & 0o7777),
            owner: format!("{}:{}", meta.uid(), meta.gid()),
            content,
        }
    }

    /// How another look at the same path differs.
    pub(crate) fn difference(&self, now: &Self) -> String {
        if self.kind == "missing" {
            return "exists now, and did not".into();
        }
        if now.kind == "missing" {
            return "does not exist any more".into();
        }
        if self.kind != now.kind {
            return format!("is a {} now, and was a {}", now.kind, self.kind);
        }
        let mut what = Vec::new();
        for (name, before, after) in [("mode", &self.mode, &now.mode), ("owner", &self.owner, &now.owner)] {
            if before != after {
                what.push(format!("has {name} {after} now, and had {before}"));
            }
        }
        if self.content != now.content {
            what.push("has other content".into());
        }
        what.join(", ")
    }
}

/// The paths that the states of a plan are about.
pub(crate) fn managed_paths(
    planned: &PlanWithPillar,
    mask: &SecretMask,
    key: &LocalKey,
) -> BTreeMap<String, ManagedPath> {
    let mut paths = BTreeMap::new();
    for chunk in &planned.plan.chunks {
        let name = name_text(&chunk.name);
        if name.starts_with('/') {
            paths.insert(mask.mask_string(&name), ManagedPath::look(Path::new(&name), key));
        }
    }
    paths
}

fn content_digest(path: &Path, size: u64, changed: i64, key: &LocalKey) -> String {
    if size > MAX_CONTENT_BYTES {
        return key.digest(format!("{size} {changed}").as_bytes());
    }
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let read = File::options().read(true).custom_flags(flags).open(path);
    match read.and_then(|file| key.stream_digest(file.take(MAX_CONTENT_BYTES + 1))) {
        Ok(digest) => digest,
        Err(error) => key.digest(error.to_string().as_bytes()),
    }
}

//! What is managed in, a file with one line per thing out, and back.
//!
//! Law: after a crash the file has the old or the new content; a damaged file counts as no record, and nothing is removed
//! then (held by `a_damaged_record_is_no_record`).

use std::io;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::paths::Paths;
use zagent_states::managed::{Removal, ThingName};

/// The version of the format.
const SCHEMA: u32 = 1;
/// A larger file is not read.
const MAX_BYTES: u64 = 256 << 20;
/// How many trees a node may alternate between without an update of the record.
const MAX_PLANS: usize = 16;
/// The longest first line.
const MAX_HEADER_BYTES: u64 = 4096;
/// So many things that no run of all states manages are remembered; the first ones by name are forgotten beyond that, which
/// keeps them on the host.
const MAX_UNMANAGED: usize = 10_000;

/// Why the record could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be read.
    #[error("cannot read `{}`, the record of what this node manages", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its content is not a record.
    #[error("`{}`, the record of what this node manages, is damaged at line {line}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
    },
    /// It cannot be written.
    #[error("cannot write `{}`, the record of what this node manages", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The first line of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordHeader {
    schema: u32,
    /// Digest of the last plan of each tree that was recorded completely: `TREE-PLAN`, the newest last.
    #[serde(default)]
    plans: Vec<String>,
    /// How many things are orphans.
    pub(crate) orphans: usize,
    /// How many lines follow.
    entries: usize,
}

/// A thing that a state manages or managed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManagedEntry {
    /// Which thing.
    #[serde(flatten)]
    pub thing: ThingName,
    /// True when it was not there before zagent managed it.
    pub created: bool,
    /// How zagent left it; none for kinds that are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// How it is taken away; none when zagent cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// The function of the state, such as `file.managed`.
    pub function: String,
    /// The id of the state.
    pub id: String,
    /// The SLS of the state.
    pub sls: String,
    /// File and line of the state: `web/init.sls:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// The last revision that managed it.
    pub revision: String,
    /// The tree; empty for the one that the node follows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// True once a run of all states managed it.
    pub is_whole: bool,
    /// True when the last run of all states did not manage it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_orphan: bool,
    /// The path of the state that brought it, for what no state names: files of `file.recurse`, parent directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<String>,
}

/// Everything that is managed, or was.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ManagedRecord {
    pub(crate) header: RecordHeader,
    pub(crate) entries: Vec<ManagedEntry>,
}

impl RecordHeader {
    /// True when this plan needs no update of the record: it was recorded, and no orphan may be gone since.
    pub(crate) fn is_current(&self, plan: &str) -> bool {
        self.orphans == 0 && self.plans.iter().any(|known| known == plan)
    }

    /// Reads only the first line; the default when there is no record.
    pub(crate) fn load(path: &Path) -> Self {
        let Ok(file) = std::fs::File::open(path) else { return Self::default() };
        let mut bytes = Vec::new();
        if file.take(MAX_HEADER_BYTES).read_to_end(&mut bytes).is_err() {
            return Self::default();
        }
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice(line).unwrap_or_default()
    }
}

/// How many orphans the last run of all states left.
#[must_use]
pub fn orphan_count(paths: &Paths) -> usize {
    RecordHeader::load(&paths.managed()).orphans
}

impl ManagedRecord {
    /// Reads it; empty when there is none.
    pub(crate) fn load(path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Read { path: path.to_owned(), source };
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(failed(e)),
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
        let damaged = |line| RecordError::Damaged { path: path.to_owned(), line };
        let mut lines = text.lines();
        let header: RecordHeader =
            lines.next().and_then(|line| serde_json::from_str(line).ok()).ok_or_else(|| damaged(1))?;
        let entries: Vec<ManagedEntry> = lines
            .enumerate()
            .map(|(n, line)| serde_json::from_str(line).map_err(|_| damaged(n + 2)))
            .collect::<Result<_, _>>()?;
        if header.schema != SCHEMA || header.entries != entries.len() {
            return Err(damaged(1));
        }
        Ok(Self { header, entries })
    }

    /// Writes it, unless the file holds it already. `plan` is the `TREE-PLAN` that it was brought up to date for; the plans of
    /// other trees stay known. An empty text forgets all of them.
    pub(crate) fn save(&mut self, path: &Path, plan: &str, is_complete: bool) -> Result<(), RecordError> {
        self.entries.sort_by(|a, b| a.thing.identity().cmp(&b.thing.identity()));
        self.forget_surplus();
        let orphans = self.entries.iter().filter(|entry| entry.is_orphan).count();
        let tree = plan.split('-').next().unwrap_or_default();
        let mut plans = std::mem::take(&mut self.header.plans);
        plans.retain(|known| !known.starts_with(tree));
        plans.extend(is_complete.then(|| plan.to_owned()));
        plans.drain(..plans.len().saturating_sub(MAX_PLANS));
        self.header = RecordHeader { schema: SCHEMA, plans, orphans, entries: self.entries.len() };
        let failed = |source| RecordError::Write { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let lines = serde_json::to_writer(&mut bytes, &self.header).and_then(|()| {
            self.entries.iter().try_for_each(|entry| {
                bytes.push(b'\n');
                serde_json::to_writer(&mut bytes, entry)
            })
        });
        lines.map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        if std::fs::read(path).is_ok_and(|now| now == bytes) {
            return Ok(());
        }
        let dir = path.parent().unwrap_or(path);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.and_then(|()| AtomicFile::durable(0o600).single_writer().write(path, &bytes)).map_err(failed)
    }

    /// Forgets the first things, by kind and name, that no run of all states manages, when there are too many.
    fn forget_surplus(&mut self) {
        let is_loose = |entry: &ManagedEntry| entry.is_orphan || !entry.is_whole;
        let mut surplus =
            self.entries.iter().filter(|entry| is_loose(entry)).count().saturating_sub(MAX_UNMANAGED);
        self.entries.retain(|entry| {
            let is_forgotten = surplus > 0 && is_loose(entry);
            surplus -= usize::from(is_forgotten);
            !is_forgotten
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> ManagedEntry {
        ManagedEntry {
            thing: ThingName::new("file", name),
            created: true,
            digest: None,
            removal: Some(Removal::Entry),
            function: "file.managed".into(),
            id: name.into(),
            sls: "web".into(),
            declared: None,
            revision: "1".into(),
            source: String::new(),
            is_whole: true,
            is_orphan: true,
            below: None,
        }
    }

    #[test]
    fn a_damaged_record_is_no_record() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state/managed");
        assert_eq!(ManagedRecord::load(&path).unwrap(), ManagedRecord::default());
        let mut record = ManagedRecord { entries: vec![entry("/b"), entry("/a")], ..Default::default() };
        record.save(&path, "t-p", true).unwrap();
        let read = ManagedRecord::load(&path).unwrap();
        assert_eq!(read, record);
        assert_eq!(RecordHeader::load(&path).orphans, 2);
        let text = std::fs::read_to_string(&path).unwrap();
        for damage in [&text[..text.len() - 20], &text[..text.rfind("{\"kind").unwrap()], "", "x\n"] {
            std::fs::write(&path, damage).unwrap();
            assert!(matches!(ManagedRecord::load(&path), Err(RecordError::Damaged { .. })), "{damage}");
        }
    }

    #[test]
    fn the_record_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let entries = (0..MAX_UNMANAGED + 5).map(|n| entry(&format!("/{n:06}"))).collect();
        let mut record = ManagedRecord { entries, ..Default::default() };
        record.save(&temp.path().join("managed"), "t-p", true).unwrap();
        assert_eq!((record.entries.len(), record.header.orphans), (MAX_UNMANAGED, MAX_UNMANAGED));
        assert_eq!(record.entries[0].thing.name, "/000005");
    }

    #[test]
    fn each_tree_has_a_plan_of_its_own_and_a_failure_forgets_only_that() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("managed");
        let mut record = ManagedRecord::default();
        for plan in ["a-1", "b-1", "a-2"] {
            record.save(&path, plan, true).unwrap();
        }
        let is_current = |plan: &str| RecordHeader::load(&path).is_current(plan);
        assert_eq!(["a-1", "a-2", "b-1"].map(is_current), [false, true, true]);
        record.save(&path, "b-2", false).unwrap();
        assert_eq!(["a-2", "b-1", "b-2"].map(is_current), [true, false, false]);
        for tree in 0..100 {
            record.save(&path, &format!("{tree:016}-1"), true).unwrap();
        }
        assert!(is_current(&format!("{:016}-1", 99)) && !is_current("a-2"));
        record.save(&path, "", false).unwrap();
        assert!(!is_current(&format!("{:016}-1", 99)));
    }
}

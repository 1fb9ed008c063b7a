//! A plan, its outcomes and its undo journal in, the record of what is managed after the run out.
//!
//! Things are looked for before the run when they are new to the record; what was there then was found, not made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use zagent_compiler::{Chunk, Plan};
use zagent_config::SecretMask;
use zagent_host::fs::FileKind;
use zagent_host::undo::record::SavedEntry;
use zagent_host::undo::{CreatedEntry, JournalReader, created_entries};
use zagent_states::StateCtx;
use zagent_states::managed::{
    ManagedThing, Presence, Removal, ThingName, brings_files_below, fingerprint, fingerprint_before, look,
    replaces_content,
};

use super::made::MadeThings;
use super::record::{ManagedEntry, ManagedRecord};
use super::{ManagedScope, PlanThings, owned_identity};
use crate::sls_line::SlsLines;
use crate::{StateOutcome, StateStatus};

/// Kind and name of things.
pub(crate) type Identities = BTreeSet<(String, String)>;

/// The things of a plan that are new to the record and not there yet: what the run makes.
pub(crate) fn things_before(
    things: &PlanThings,
    record: &mut ManagedRecord,
    ctx: &StateCtx<'_>,
) -> Identities {
    let known: HashMap<(String, String), usize> =
        record.entries.iter().enumerate().map(|(n, entry)| (owned_identity(&entry.thing), n)).collect();
    let mut absent = Identities::new();
    let mut forgotten = Identities::new();
    for (_, managed) in &things.things {
        let identity = owned_identity(&managed.thing);
        let entry = known.get(&identity).map(|n| &mut record.entries[*n]);
        match entry {
            // It was left to others for a while: what it is now may be theirs.
            Some(entry) if entry.is_orphan => {
                if look(&managed.thing, managed.removal.as_ref(), ctx) == Presence::Absent {
                    forgotten.insert(identity);
                    continue;
                }
                let now = fingerprint(&entry.thing, entry.removal.as_ref(), ctx).ok().flatten();
                let is_ours = entry.digest.is_some() && now == entry.digest;
                entry.created &= is_ours;
            }
            Some(_) => {}
            None if look(&managed.thing, managed.removal.as_ref(), ctx) == Presence::Absent => {
                absent.insert(identity);
            }
            None => {}
        }
    }
    record.entries.retain(|entry| !forgotten.contains(&owned_identity(&entry.thing)));
    absent.extend(forgotten);
    absent
}

/// What a run tells of what it manages.
pub(crate) struct RecordUpdate<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sls_lines: &'a SlsLines<'a>,
    pub(crate) things: &'a PlanThings,
    pub(crate) scope: &'a ManagedScope,
    pub(crate) revision: &'a str,
    pub(crate) outcomes: &'a [StateOutcome],
    /// What was not there before the run.
    pub(crate) absent: &'a Identities,
    pub(crate) journal: Option<&'a JournalReader>,
    pub(crate) mask: &'a SecretMask,
}

impl RecordUpdate<'_> {
    /// Brings the record up to date.
    pub(crate) fn apply(&self, record: &mut ManagedRecord, ctx: &StateCtx<'_>) {
        let mut entries: BTreeMap<(String, String), ManagedEntry> = std::mem::take(&mut record.entries)
            .into_iter()
            .map(|entry| (owned_identity(&entry.thing), entry))
            .collect();
        let ended: HashMap<&str, &StateOutcome> =
            self.outcomes.iter().map(|outcome| (outcome.tag.as_str(), outcome)).collect();
        let names: Vec<_> = self.things.things.iter().map(|(_, managed)| &managed.thing).collect();
        let made = self.journal.map(|journal| MadeThings::new(journal, &names)).unwrap_or_default();
        let mut tags = HashMap::new();
        for (index, managed) in &self.things.things {
            let Some(chunk) = self.plan.chunks.get(*index) else { continue };
            let tag = chunk.tag();
            // Tags are masked in outcomes, and so is everything with a secret in its name: it is not recorded.
            let outcome = ended.get(tag.as_str()).copied();
            self.note_thing((chunk, managed), (outcome, &made), &mut entries, ctx);
            tags.insert(tag, chunk);
        }
        self.note_created(&tags, &mut entries, ctx);
        if self.scope.is_whole {
            self.mark_orphans(&mut entries, ctx);
        }
        record.entries = entries.into_values().collect();
    }

    fn note_thing(
        &self,
        (chunk, managed): (&Chunk, &ManagedThing),
        (outcome, made): (Option<&StateOutcome>, &MadeThings<'_>),
        entries: &mut BTreeMap<(String, String), ManagedEntry>,
        ctx: &StateCtx<'_>,
    ) {
        let identity = owned_identity(&managed.thing);
        let status = outcome.map(StateOutcome::status);
        let is_done = matches!(status, Some(StateStatus::Changed | StateStatus::Unchanged));
        let before = entries.get(&identity);
        let mut entry = self.entry(chunk, managed);
        if before.is_none() && !is_done || self.holds_secret(&entry) {
            return;
        }
        if status == Some(StateStatus::Failed)
            && look(&entry.thing, entry.removal.as_ref(), ctx) == Presence::Absent
        {
            // Who makes it after this is not known.
            entries.remove(&identity);
            return;
        }
        if entry.thing.is_path() && stands_directory(&entry.thing.name, ctx) {
            entry.thing.kind = "directory".into();
        }
        entry.created = before.map_or_else(
            || self.absent.contains(&identity) && made.is_made(&managed.thing, outcome),
            |before| {
                before.created
                    && !(status == Some(StateStatus::Changed) && keeps_others_work(chunk, before, made))
            },
        );
        // A part of the states that takes over an orphan does not make it a matter of all states again.
        entry.is_whole |= before.is_some_and(|before| before.is_whole && !before.is_orphan);
        entry.declared = match before {
            Some(before) if before.revision == entry.revision && before.id == entry.id => {
                before.declared.clone()
            }
            _ => self.sls_lines.locate(chunk),
        };
        entry.digest = match before {
            Some(before) if status != Some(StateStatus::Changed) && before.removal == entry.removal => {
                before.digest.clone()
            }
            _ => fingerprint(&entry.thing, entry.removal.as_ref(), ctx).ok().flatten(),
        };
        entries.insert(identity, entry);
    }

    fn entry(&self, chunk: &Chunk, managed: &ManagedThing) -> ManagedEntry {
        ManagedEntry {
            thing: managed.thing.clone(),
            created: false,
            digest: None,
            removal: managed.removal.clone(),
            function: format!("{}.{}", chunk.state, chunk.fun),
            id: chunk.id.to_string(),
            sls: chunk.sls.to_string(),
            declared: None,
            revision: self.revision.to_owned(),
            source: self.scope.source.clone(),
            is_whole: self.scope.is_whole,
            is_orphan: false,
            below: None,
        }
    }

    /// What holds a secret is not remembered at all.
    fn holds_secret(&self, entry: &ManagedEntry) -> bool {
        let removal = entry.removal.as_ref().map(ToString::to_string).unwrap_or_default();
        let texts =
            [&entry.thing.name, &removal, &entry.id, &entry.sls, entry.below.as_ref().unwrap_or(&removal)];
        texts.iter().any(|text| self.mask.finds(text.as_bytes()))
    }

    /// Files that a state brought and that no state names: below `file.recurse`, and parent directories.
    fn note_created(
        &self,
        tags: &HashMap<String, &Chunk>,
        entries: &mut BTreeMap<(String, String), ManagedEntry>,
        ctx: &StateCtx<'_>,
    ) {
        for CreatedEntry { tag, path, is_dir, is_link, before } in
            self.journal.map(created_entries).unwrap_or_default()
        {
            let is_new = *before == SavedEntry::Absent;
            let Some(chunk) = tags.get(tag) else { continue };
            let (Some(path), root) = (path.to_str(), zagent_compiler::name_text(&chunk.name)) else {
                continue;
            };
            let root = root.trim_end_matches('/');
            let is_parent = is_dir && Path::new(root).starts_with(path) && root != path;
            let is_brought = brings_files_below(chunk) && Path::new(path).starts_with(root) && root != path;
            let kind = if is_dir {
                "directory"
            } else if is_link {
                "symlink"
            } else {
                "file"
            };
            let managed = ManagedThing { thing: ThingName::new(kind, path), removal: Some(Removal::Entry) };
            let identity = owned_identity(&managed.thing);
            if !(is_parent || is_brought) || self.things.declares(&managed.thing) {
                continue;
            }
            let known = entries.get(&identity);
            if known.is_none() && !is_new {
                continue;
            }
            let mut entry = self.entry(chunk, &managed);
            entry.created = known.map_or(is_new, |known| known.created);
            entry.below = Some(root.to_owned());
            if self.holds_secret(&entry) {
                continue;
            }
            entry.declared = self.sls_lines.locate(chunk);
            entry.digest = fingerprint(&entry.thing, entry.removal.as_ref(), ctx).ok().flatten();
            entries.insert(identity, entry);
        }
    }

    /// Marks what no state of the node manages any more; what is gone is forgotten.
    fn mark_orphans(&self, entries: &mut BTreeMap<(String, String), ManagedEntry>, ctx: &StateCtx<'_>) {
        entries.retain(|_, entry| {
            if entry.source == self.scope.source && !self.things.is_empty {
                entry.is_orphan = self.things.is_orphan(entry, &self.scope.source);
                if !entry.is_orphan && entry.is_whole {
                    self.revision.clone_into(&mut entry.revision);
                }
            }
            !(entry.is_orphan && look(&entry.thing, entry.removal.as_ref(), ctx) == Presence::Absent)
        });
    }
}

/// True when somebody changed the file before a state changed a part of it: what they wrote is still in it.
fn keeps_others_work(chunk: &Chunk, known: &ManagedEntry, made: &MadeThings<'_>) -> bool {
    if !known.thing.is_path() || replaces_content(chunk) {
        return false;
    }
    let before = made.before(&known.thing.name);
    before.is_some_and(|before| *before != SavedEntry::Absent && fingerprint_before(before) != known.digest)
}

/// A state such as `file.copy` may leave a file or a directory.
fn stands_directory(path: &str, ctx: &StateCtx<'_>) -> bool {
    ctx.fs.lstat(Path::new(path)).is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == FileKind::Dir))
}

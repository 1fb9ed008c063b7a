//! A plan and the runs before it in, what this node manages and what nobody manages any more out.
//!
//! Law: the record says of every thing whether zagent made it or found it; a thing counts as made only when it was looked
//! for before the run and was not there. A run that changes nothing does not write the record (held by
//! `nothing_unmanaged_is_ever_touched`, `a_run_without_changes_does_not_write_the_record`).

mod declared_entries;
mod made;
mod record;
mod update;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use zagent_compiler::{Chunk, Plan, name_text};
use zagent_config::Value;
use zagent_states::managed::{
    ManagedThing, PRUNABLE_KINDS, ThingName, lexical_path, managed_things, package_base,
};

pub(crate) use declared_entries::DeclaredEntries;
pub use record::{ManagedEntry, RecordError, orphan_count};
pub(crate) use record::{ManagedRecord, RecordHeader};
pub(crate) use update::{Identities, RecordUpdate, things_before};

/// What a run knows of the things it manages, and which orphans it removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedScope {
    /// Which tree runs: empty for the one that the node follows. Things of another tree are never orphans of this one.
    pub source: String,
    /// True when all states of the node run, not only selected ones.
    pub is_whole: bool,
    /// Which orphans are removed.
    pub prune: PruneOptions,
}

/// Which orphans a run removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneOptions {
    /// Their kinds; none are removed when empty.
    pub kinds: Vec<String>,
    /// More than this many are not removed at all.
    pub max: usize,
    /// Also what was there before zagent managed it.
    pub found: bool,
}

/// What the states of a plan manage.
pub(crate) struct PlanThings {
    /// By the index of the chunk.
    pub(crate) things: Vec<(usize, ManagedThing)>,
    /// Kind (or `path`) and name.
    identities: BTreeSet<(String, String)>,
    /// Names of packages without their architecture.
    packages: BTreeSet<String>,
    /// Directories whose files come from elsewhere: what is in them is managed by the state as a whole.
    trees: Vec<String>,
    is_empty: bool,
}

impl PlanThings {
    pub(crate) fn new(plan: &Plan) -> Self {
        let chunks = plan.chunks.iter().enumerate().filter(|(_, chunk)| !chunk.runs_on_manager());
        let things: Vec<_> = chunks
            .filter(|(_, chunk)| !chunk.prereq.check)
            .flat_map(|(index, chunk)| managed_things(chunk).into_iter().map(move |thing| (index, thing)))
            .collect();
        let identities = things.iter().map(|(_, managed)| owned_identity(&managed.thing)).collect();
        let packages = things.iter().filter(|(_, managed)| managed.thing.kind == "pkg");
        let packages = packages.map(|(_, managed)| package_base(&managed.thing.name).to_owned()).collect();
        let trees = plan.chunks.iter().filter_map(managed_tree).collect();
        Self { things, identities, packages, trees, is_empty: plan.chunks.is_empty() }
    }

    pub(crate) fn declares(&self, thing: &ThingName) -> bool {
        self.identities.contains(&owned_identity(thing))
            || thing.kind == "pkg" && self.packages.contains(package_base(&thing.name))
    }

    /// The paths that states manage.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let named = self.identities.iter().filter(|(kind, _)| kind == "path").map(|(_, name)| name.as_str());
        named.chain(self.trees.iter().map(String::as_str))
    }

    /// True when a state of the plan manages what stands at the path, or something below it.
    fn has_path_within(&self, path: &str) -> bool {
        let from = ("path".to_owned(), path.to_owned());
        let mut after = self.identities.range(from..);
        let below = |name: &str| Path::new(name).starts_with(path);
        // Names such as `/etc/a-b` sort between `/etc/a` and `/etc/a/c`.
        after
            .by_ref()
            .take_while(|(kind, name)| kind == "path" && name.starts_with(path))
            .any(|(_, name)| below(name))
    }

    /// True when an entry of the record is something that no state of this plan manages.
    pub(crate) fn is_orphan(&self, entry: &ManagedEntry, source: &str) -> bool {
        if self.is_empty || !entry.is_whole || entry.source != source || self.declares(&entry.thing) {
            return false;
        }
        let below = entry.below.as_deref().map(|root| ThingName::new("file", root));
        if below.is_some_and(|root| self.declares(&root)) {
            return false;
        }
        if entry.thing.is_path()
            && self.trees.iter().any(|tree| Path::new(&entry.thing.name).starts_with(tree))
        {
            return false;
        }
        !(entry.thing.kind == "directory" && self.has_path_within(&entry.thing.name))
    }
}

fn owned_identity(thing: &ThingName) -> (String, String) {
    let (kind, name) = thing.identity();
    (kind.to_owned(), name.to_owned())
}

/// The states of a plan that mention something in their name or their arguments: removing it would break them.
pub(crate) struct PlanMentions(HashMap<String, String>);

impl PlanMentions {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut mentions = HashMap::new();
        for chunk in plan.chunks.iter().filter(|chunk| !is_removing(&chunk.fun)) {
            let mut note = |text: &str| {
                let text = if text.starts_with('/') { lexical_path(text) } else { text.to_owned() };
                mentions.entry(text).or_insert_with(|| chunk.id.to_string());
            };
            note(&name_text(&chunk.name));
            chunk.args.iter().for_each(|(_, value)| note_texts(value, &mut note));
        }
        Self(mentions)
    }

    /// The paths that states mention.
    fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter(|name| name.starts_with('/')).map(String::as_str)
    }

    /// The id of a state that mentions the thing.
    pub(crate) fn find(&self, thing: &ThingName) -> Option<&str> {
        if !(thing.is_path() || matches!(thing.kind.as_str(), "user" | "group" | "pkg" | "service")) {
            return None;
        }
        let unit = || self.0.get(&format!("{}.service", thing.name)).filter(|_| thing.kind == "service");
        self.0.get(&thing.name).or_else(unit).map(String::as_str)
    }
}

fn is_removing(fun: &str) -> bool {
    matches!(fun, "absent" | "removed" | "purged" | "dead" | "disabled" | "masked" | "unmounted")
}

fn note_texts(value: &Value, note: &mut dyn FnMut(&str)) {
    match value {
        Value::Str(text) => note(text),
        Value::List(all) => all.iter().for_each(|one| note_texts(one, note)),
        Value::Map(map) => map.iter().for_each(|(_, one)| note_texts(one, note)),
        _ => {}
    }
}

/// The directory that a state fills with files which the plan does not name.
fn managed_tree(chunk: &Chunk) -> Option<String> {
    let path = match (&*chunk.state, &*chunk.fun) {
        ("file", "recurse") | ("archive", "extracted") => &chunk.name,
        ("git", "latest" | "cloned" | "detached") => chunk.args.get("target")?,
        _ => return None,
    };
    Some(lexical_path(&name_text(path))).filter(|path| path.starts_with('/'))
}

/// What an earlier revision managed and the current plan does not.
#[derive(Clone, Debug, PartialEq)]
pub struct Orphan {
    /// What the record says of it.
    pub entry: ManagedEntry,
    /// Whether it was changed since outside zagent; none when that is not known.
    pub is_changed: Option<bool>,
}

/// The order in which orphans are removed: users after their files, what is inside a directory before it.
pub(crate) fn removal_order(a: &ManagedEntry, b: &ManagedEntry) -> std::cmp::Ordering {
    let rank = |entry: &ManagedEntry| {
        PRUNABLE_KINDS.iter().position(|kind| *kind == entry.thing.kind).unwrap_or(PRUNABLE_KINDS.len())
    };
    rank(a).cmp(&rank(b)).then_with(|| b.thing.name.cmp(&a.thing.name))
}

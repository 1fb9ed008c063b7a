//! What changed in a run in, who listens for it out.
//!
//! Law: a listener answers once, at the end, however many of those it listens to have changed (held by
//! `tests/corpus`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use zagent_compiler::{Chunk, Plan, Requisite, name_text};
use zagent_config::Value;

/// A reaction at the end of a run, or why there is none.
#[derive(Debug)]
pub(crate) enum Listener {
    /// This chunk reacts, or perhaps does; it carries the id of a listener and no requisites.
    Reacts(Box<Chunk>, DidChange),
    /// It listens for a state that is not there.
    Missing {
        /// The module it named.
        state: String,
        /// The id or name it gave.
        id: String,
    },
}

/// Whether a state changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DidChange {
    /// It did not, or did not run.
    #[default]
    No,
    /// Nobody can tell.
    Maybe,
    /// It did, or would.
    Yes,
}

/// Who reacts, in order; `changed` says whether a chunk changed something.
#[must_use]
pub(crate) fn find_listeners(plan: &Plan, changed: impl Fn(usize) -> DidChange) -> Vec<Listener> {
    let mut words: HashMap<(&str, String), Vec<usize>> = HashMap::new();
    for (i, chunk) in plan.chunks.iter().enumerate().filter(|(_, c)| !c.prereq.check) {
        let mut own = vec![chunk.state.to_string(), chunk.id.to_string(), name_text(&chunk.name)];
        own.sort_unstable();
        own.dedup();
        for word in own {
            words.entry((&*chunk.state, word)).or_default().push(i);
        }
    }
    let mut out = ListenerSet::default();
    for (i, chunk) in plan.chunks.iter().enumerate().filter(|(_, c)| !c.prereq.check) {
        for (state, id) in listen_targets(chunk.args.get("listen"), plan) {
            match words.get(&(state.as_str(), id.clone())) {
                None => out.add_missing(state, id),
                Some(found) => {
                    let most = found.iter().map(|i| changed(*i)).max().unwrap_or_default();
                    out.add_reaction(chunk, most);
                }
            }
        }
        let own = changed(i);
        for (state, id) in listen_targets(chunk.args.get("listen_in"), plan) {
            match words.get(&(state.as_str(), id.clone())) {
                None if own == DidChange::No => {}
                None => out.add_missing(state, id),
                Some(found) => found.iter().for_each(|i| out.add_reaction(&plan.chunks[*i], own)),
            }
        }
    }
    out.all
}

/// Each listener once, in the order they were found.
#[derive(Default)]
struct ListenerSet {
    all: Vec<Listener>,
    seen_tags: HashSet<String>,
}

impl ListenerSet {
    fn add_missing(&mut self, state: String, id: String) {
        if self.seen_tags.insert(format!("{state}:{id}")) {
            self.all.push(Listener::Missing { state, id });
        }
    }

    fn add_reaction(&mut self, chunk: &Chunk, changed: DidChange) {
        if changed == DidChange::No {
            return;
        }
        let reaction = listener_chunk(chunk);
        let tag = reaction.tag();
        if self.seen_tags.insert(tag.clone()) {
            self.all.push(Listener::Reacts(Box::new(reaction), changed));
        } else if changed == DidChange::Yes {
            // One that surely changed counts more than one that perhaps did.
            for listener in &mut self.all {
                match listener {
                    Listener::Reacts(known, sure) if known.tag() == tag => *sure = DidChange::Yes,
                    _ => {}
                }
            }
        }
    }
}

/// True when any chunk listens: only then is there something to do at the end.
#[must_use]
pub(crate) fn has_listeners(plan: &Plan) -> bool {
    plan.chunks.iter().any(|c| c.args.contains("listen") || c.args.contains("listen_in"))
}

/// The chunk as a listener: without requisites, under an id of its own.
fn listener_chunk(chunk: &Chunk) -> Chunk {
    let mut reaction = chunk.clone();
    reaction.id = Arc::from(format!("listener_{}", chunk.id));
    for kind in Requisite::ALL {
        reaction.args.remove(kind.key());
    }
    reaction
}

/// The references of a `listen`, a bare id turned into the module that has it.
fn listen_targets(listen: Option<&Value>, plan: &Plan) -> Vec<(String, String)> {
    let Some(Value::List(items)) = listen else { return Vec::new() };
    let mut all = Vec::new();
    for item in items.iter() {
        match item {
            Value::Map(map) => all.extend(map.iter().map(|(k, v)| (name_text(k), name_text(v)))),
            bare => {
                let id = name_text(bare);
                let named = |c: &&Chunk| *c.id == *id || name_text(&c.name) == id;
                // With several of that name Salt takes the last.
                if let Some(chunk) = plan.chunks.iter().rev().find(named) {
                    all.push((chunk.state.to_string(), chunk.id.to_string()));
                }
            }
        }
    }
    all
}

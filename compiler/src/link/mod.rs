//! link: chunks in, a plan out: requisites become edges, and the chunks are sorted as Salt runs them.
//!
//! Law: every chunk comes after all it waits for; a missing or circular requisite is an error that names the places
//! (held by `every_error_matches_its_golden_file`, `tests/corpus`).

mod cycle;
mod order;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use zagent_config::codes::{limit, requisite as codes};
use zagent_config::{Diagnostic, Diagnostics, List, Map, Pos, Value, glob};

use crate::lower::LoweredChunk;
use crate::plan::{Chunk, Plan, PrereqRole, Requisite, RequisiteEdge, RequisiteGraph};
use crate::session::CompileSession;
use crate::source_files::RenderedPos;

/// The requisites that make edges, in the order Salt reads them.
const LINKED_REQUISITES: [Requisite; 10] = [
    Requisite::Require,
    Requisite::RequireAny,
    Requisite::Watch,
    Requisite::WatchAny,
    Requisite::Prereq,
    Requisite::Onfail,
    Requisite::OnfailAny,
    Requisite::OnfailAll,
    Requisite::Onchanges,
    Requisite::OnchangesAny,
];

/// A node of the dependency graph: a chunk, or the check of a chunk for a `prereq`.
#[derive(Debug)]
pub(crate) struct LinkNode {
    /// Index into the chunks.
    pub(crate) chunk: usize,
    /// `state_|-id_|-name_|-fun`, with a suffix for a check.
    pub(crate) tag: String,
    /// The nodes that wait for this one, in the order of edge creation.
    pub(crate) out: Vec<(usize, Requisite)>,
    /// The nodes that this one waits for.
    pub(crate) into: Vec<(usize, Requisite)>,
    /// True for the check of a prereq target.
    pub(crate) check: bool,
}

/// All nodes, and indexes to find them.
pub(crate) struct Linker<'s> {
    session: &'s CompileSession,
    pub(crate) lowered: Vec<LoweredChunk>,
    pub(crate) nodes: Vec<LinkNode>,
    /// The node of each chunk.
    node_of: Vec<usize>,
    /// The check node of a chunk's node.
    checks: HashMap<usize, usize>,
    by_word: HashMap<Arc<str>, Vec<usize>>,
    by_sls: Vec<(Arc<str>, Vec<usize>)>,
    sls_index: HashMap<Arc<str>, usize>,
    edges: HashSet<(usize, usize, Requisite)>,
}

/// Maximum number of edges per run.
const MAX_EDGES: usize = 400_000;

/// Links and sorts.
pub(crate) fn link(session: &CompileSession, lowered: Vec<LoweredChunk>) -> Result<Plan, Diagnostics> {
    let mut linker = Linker::new(session, lowered);
    let mut diagnostics = Diagnostics::default();
    let cap = linker.add_requisites(&mut diagnostics);
    if linker.edges.len() >= MAX_EDGES {
        let text = format!("the states of this run have more than {MAX_EDGES} requisites");
        let hint = "look for states made in a loop that require a whole SLS, or many states by a pattern";
        return Err(Diagnostic::new(limit::REQUISITES, text).hint(hint).into());
    }
    let sorted = order::run_order(&mut linker, cap);
    if sorted.len() < linker.nodes.len() {
        diagnostics.push(cycle::cycle_diagnostic(&linker));
    }
    diagnostics.into_result()?;
    Ok(linker.finish(&sorted))
}

impl<'s> Linker<'s> {
    fn new(session: &'s CompileSession, lowered: Vec<LoweredChunk>) -> Self {
        let mut linker = Self {
            session,
            nodes: Vec::with_capacity(lowered.len()),
            node_of: Vec::with_capacity(lowered.len()),
            checks: HashMap::new(),
            by_word: HashMap::with_capacity(lowered.len() * 2),
            by_sls: Vec::new(),
            sls_index: HashMap::new(),
            edges: HashSet::with_capacity(lowered.len()),
            lowered,
        };
        let mut by_tag: HashMap<String, usize> = HashMap::with_capacity(linker.lowered.len());
        for i in 0..linker.lowered.len() {
            let tag = linker.lowered[i].chunk.tag();
            let node = match by_tag.get(&tag) {
                // Two chunks with the same tag are one node; the later chunk runs.
                Some(&node) => {
                    linker.nodes[node].chunk = i;
                    node
                }
                None => {
                    let node = linker.nodes.len();
                    by_tag.insert(tag.clone(), node);
                    linker.nodes.push(LinkNode {
                        chunk: i,
                        tag,
                        out: Vec::new(),
                        into: Vec::new(),
                        check: false,
                    });
                    node
                }
            };
            linker.node_of.push(node);
            linker.index_names(i, node);
        }
        for i in 0..linker.lowered.len() {
            linker.downgrade_watch(i);
        }
        linker
    }

    fn index_names(&mut self, chunk: usize, node: usize) {
        let chunk = &self.lowered[chunk].chunk;
        let mut words = vec![chunk.id.clone()];
        if let Value::Str(name) = &chunk.name
            && *name != chunk.id
        {
            words.push(name.clone());
        }
        let slses: Vec<Arc<str>> =
            std::iter::once(chunk.sls.clone()).chain(chunk.included_from.iter().cloned()).collect();
        for word in words {
            let nodes = self.by_word.entry(word).or_default();
            if nodes.last() != Some(&node) {
                nodes.push(node);
            }
        }
        for sls in slses {
            let at = *self.sls_index.entry(sls.clone()).or_insert_with(|| {
                self.by_sls.push((sls, Vec::new()));
                self.by_sls.len() - 1
            });
            let nodes = &mut self.by_sls[at].1;
            if nodes.last() != Some(&node) {
                nodes.push(node);
            }
        }
    }

    /// A module that cannot react to a watch requires instead.
    fn downgrade_watch(&mut self, i: usize) {
        let salt = self.session.is_salt();
        let schema = self.session.inputs.schema;
        let chunk = &mut self.lowered[i].chunk;
        let watches =
            || schema.module(&chunk.state).is_some_and(|m| m.has_mod_watch && !(salt && m.is_extension));
        if !chunk.args.contains("watch") && !chunk.args.contains("watch_any") || watches() {
            return;
        }
        for (watch, require) in [("watch", "require"), ("watch_any", "require_any")] {
            let Some(Value::List(watched)) = chunk.args.remove(watch) else { continue };
            let mut list = match chunk.args.get(require) {
                Some(Value::List(list)) => (**list).clone(),
                _ => List::default(),
            };
            for (v, at) in (*watched).clone().into_positioned() {
                list.push_at(v, at);
            }
            chunk.args.insert(require, list);
        }
    }

    /// Makes the edges of every chunk; returns the order cap.
    fn add_requisites(&mut self, diagnostics: &mut Diagnostics) -> f64 {
        let mut cap = 1.0_f64;
        for i in 0..self.lowered.len() {
            let node = self.node_of[i];
            self.link_chunk(i, node, diagnostics);
            if let Some(order) = integer_order(self.lowered[i].order.as_ref())
                && order > cap - 1.0
                && order > 0.0
            {
                cap = order + 100.0;
            }
        }
        cap
    }

    fn link_chunk(&mut self, i: usize, node: usize, diagnostics: &mut Diagnostics) {
        if !LINKED_REQUISITES.iter().any(|kind| self.lowered[i].chunk.args.contains(kind.key())) {
            return;
        }
        for kind in LINKED_REQUISITES {
            let Some(entry) = self.lowered[i].chunk.args.entry(kind.key()) else { continue };
            let (value, at) = (entry.value.clone(), entry.at);
            if !value.is_truthy() || self.session.is_requisite_disabled(kind.key()) {
                continue;
            }
            let Value::List(list) = &value else {
                let text =
                    format!("`{}` of `{}` must be a list, not {}", kind.key(), self.id(i), value.kind());
                diagnostics.push(*self.diagnostic(codes::NOT_A_LIST, i, at, text));
                continue;
            };
            for (n, reference) in list.iter().enumerate() {
                if let Err(diagnostic) = self.link_reference(i, node, kind, reference, list.pos(n)) {
                    diagnostics.push(*diagnostic);
                }
            }
        }
    }

    fn link_reference(
        &mut self,
        i: usize,
        node: usize,
        kind: Requisite,
        reference: &Value,
        at: Pos,
    ) -> Result<(), Box<Diagnostic>> {
        let (key, value) = match reference {
            Value::Str(_) => ("id", reference),
            Value::Map(map) => match first_entry(map) {
                Some(pair) => pair,
                None => return Ok(()),
            },
            other => {
                let text = format!(
                    "an item of `{}` of `{}` must be a reference, not {}",
                    self.written_key(i, kind, at),
                    self.id(i),
                    other.kind()
                );
                return Err(self.diagnostic(codes::NOT_ONE, i, at, text));
            }
        };
        if value.is_null() {
            return Ok(());
        }
        let key = key.split('.').next().unwrap_or(key);
        let Some(word) = value.as_str() else {
            let text = format!(
                "`{}` of `{}` refers to `{key}: {}`, but an id must be a string",
                self.written_key(i, kind, at),
                self.id(i),
                value.json_key()
            );
            let hint = format!("quote it: `{key}: '{}'`", value.json_key());
            return Err(Box::new(self.diagnostic(codes::NOT_A_STRING, i, at, text).hint(hint)));
        };
        let (found, targets) = self.find_targets(key, word);
        if !found {
            return Err(self.missing_requisite(i, kind, key, word, at));
        }
        for target in targets {
            self.add_requisite(node, kind, target);
        }
        Ok(())
    }

    /// The nodes that a reference matches, and whether it counts as found.
    fn find_targets(&self, key: &str, word: &str) -> (bool, Vec<usize>) {
        let is_glob = word.contains(['*', '?', '[', ']']);
        if key == "sls" {
            let nodes: Vec<usize> = if is_glob {
                let hits = self.by_sls.iter().filter(|(sls, _)| glob::matches(word, sls));
                hits.flat_map(|(_, nodes)| nodes.iter().copied()).collect()
            } else {
                self.sls_index.get(word).map(|&i| self.by_sls[i].1.clone()).unwrap_or_default()
            };
            return (is_glob || !nodes.is_empty(), nodes);
        }
        let nodes: Vec<usize> = if is_glob {
            let fits = |n: usize| {
                let chunk = self.chunk(n);
                let named = glob::matches(word, &chunk.id)
                    || chunk.name.as_str().is_some_and(|name| glob::matches(word, name));
                named && (key == "id" || &*chunk.state == key)
            };
            (0..self.nodes.len()).filter(|&n| !self.nodes[n].check && fits(n)).collect()
        } else {
            let all = self.by_word.get(word).map(Vec::as_slice).unwrap_or_default();
            all.iter().copied().filter(|&n| key == "id" || &*self.chunk(n).state == key).collect()
        };
        (!nodes.is_empty(), nodes)
    }

    fn add_requisite(&mut self, node: usize, kind: Requisite, target: usize) {
        if kind == Requisite::Prereq {
            self.add_prereq(node, target);
            return;
        }
        if let Some(&check) = self.checks.get(&node) {
            self.add_edge(target, check, kind);
        }
        self.add_edge(target, node, kind);
    }

    /// `node` has `prereq: target`: the target is checked, then `node` runs, then the target.
    fn add_prereq(&mut self, node: usize, target: usize) {
        let check = match self.checks.get(&target) {
            Some(&check) => check,
            None => {
                let check = self.nodes.len();
                let tag = format!("{}_|-__prereq_test__", self.nodes[target].tag);
                let chunk = self.nodes[target].chunk;
                self.nodes.push(LinkNode { chunk, tag, out: Vec::new(), into: Vec::new(), check: true });
                self.checks.insert(target, check);
                for (from, kind) in self.nodes[target].into.clone() {
                    if kind != Requisite::Prereq {
                        self.add_edge(from, check, kind);
                    }
                }
                check
            }
        };
        self.add_edge(check, node, Requisite::Prereq);
        self.add_edge(node, target, Requisite::Require);
        if let Some(&own) = self.checks.get(&node) {
            self.add_edge(check, own, Requisite::Prereq);
        }
    }

    fn add_edge(&mut self, from: usize, to: usize, kind: Requisite) {
        if self.edges.len() < MAX_EDGES && self.edges.insert((from, to, kind)) {
            self.nodes[from].out.push((to, kind));
            self.nodes[to].into.push((from, kind));
        }
    }

    pub(crate) fn chunk(&self, node: usize) -> &Chunk {
        &self.lowered[self.nodes[node].chunk].chunk
    }

    fn id(&self, i: usize) -> &str {
        &self.lowered[i].chunk.id
    }

    /// The requisite as it was written: an item of `watch` may come from `subscribe`.
    fn written_key(&self, i: usize, kind: Requisite, at: Pos) -> &'static str {
        let is_subscribed = kind == Requisite::Watch && self.lowered[i].subscriptions.contains(&at);
        if is_subscribed { "subscribe" } else { kind.key() }
    }

    /// The same for a whole node: `subscribe` when all it watches was written so.
    pub(crate) fn node_key(&self, node: usize, kind: Requisite) -> &'static str {
        let lowered = &self.lowered[self.nodes[node].chunk];
        let all = |list: &List| (0..list.len()).all(|n| lowered.subscriptions.contains(&list.pos(n)));
        match lowered.chunk.args.get(kind.key()) {
            Some(Value::List(list)) if kind == Requisite::Watch && !list.is_empty() && all(list) => {
                "subscribe"
            }
            _ => kind.key(),
        }
    }

    pub(crate) fn spot(&self, node: usize) -> RenderedPos {
        self.lowered[self.nodes[node].chunk].spot
    }

    pub(crate) fn session(&self) -> &CompileSession {
        self.session
    }

    fn diagnostic(
        &self,
        code: zagent_config::codes::Code,
        i: usize,
        at: Pos,
        text: String,
    ) -> Box<Diagnostic> {
        let spot = self.lowered[i].spot;
        let spot = RenderedPos { pos: if at.is_known() { at } else { spot.pos }, ..spot };
        Box::new(self.session.diagnostic(code, spot, text))
    }

    fn missing_requisite(
        &self,
        i: usize,
        kind: Requisite,
        key: &str,
        word: &str,
        at: Pos,
    ) -> Box<Diagnostic> {
        let what = if key == "id" { format!("`{word}`") } else { format!("`{key}: {word}`") };
        let requisite = self.written_key(i, kind, at);
        let text = format!("`{requisite}` of `{}` refers to {what}, which does not exist", self.id(i));
        let mut diagnostic = self.diagnostic(codes::MISSING, i, at, text);
        diagnostic.hint = self.missing_hint(key, word);
        diagnostic
    }

    fn missing_hint(&self, key: &str, word: &str) -> Option<String> {
        if key == "sls" {
            let near = zagent_config::suggest::nearest(word, self.by_sls.iter().map(|(s, _)| &**s));
            return Some(match near {
                Some(near) => format!("did you mean `sls: {near}`?"),
                None => format!(
                    "include `{word}`, and check that it has states: an SLS without states cannot be required"
                ),
            });
        }
        if let Some(&other) = self.by_word.get(word).and_then(|n| n.first()) {
            let state = &self.chunk(other).state;
            return Some(format!("`{word}` is a `{state}`: did you mean `{state}: {word}`?"));
        }
        let words = self
            .by_word
            .iter()
            .filter(|(_, nodes)| key == "id" || nodes.iter().any(|&n| &*self.chunk(n).state == key));
        let near = zagent_config::suggest::nearest(word, words.map(|(w, _)| &**w))?;
        Some(if key == "id" {
            format!("did you mean `{near}`?")
        } else {
            format!("did you mean `{key}: {near}`?")
        })
    }

    fn finish(self, sorted: &[usize]) -> Plan {
        let mut place = vec![0; self.nodes.len()];
        for (i, &node) in sorted.iter().enumerate() {
            place[node] = i;
        }
        let mut edges: Vec<RequisiteEdge> = Vec::with_capacity(self.edges.len());
        for &(from, to, kind) in &self.edges {
            edges.push(RequisiteEdge { from: place[from], to: place[to], kind });
        }
        edges.sort_unstable();
        let levels = order::levels(sorted.len(), &edges);
        let mut lowered: Vec<Option<Chunk>> = self.lowered.into_iter().map(|l| Some(l.chunk)).collect();
        let mut uses = vec![0_u32; lowered.len()];
        for &node in sorted {
            uses[self.nodes[node].chunk] += 1;
        }
        let targets: HashSet<usize> = self.checks.keys().map(|&n| self.nodes[n].chunk).collect();
        let requiring: HashSet<usize> = self
            .nodes
            .iter()
            .filter(|n| !n.check && n.into.iter().any(|&(_, kind)| kind == Requisite::Prereq))
            .map(|n| n.chunk)
            .collect();
        let chunks = sorted
            .iter()
            .map(|&n| {
                let (node, i) = (&self.nodes[n], self.nodes[n].chunk);
                uses[i] -= 1;
                let taken = if uses[i] == 0 { lowered[i].take() } else { lowered[i].clone() };
                let mut chunk = taken.expect("a chunk is taken at its last use");
                chunk.prereq = PrereqRole {
                    check: node.check,
                    target: targets.contains(&i),
                    requiring: requiring.contains(&i),
                };
                chunk
            })
            .collect();
        Plan { chunks, graph: RequisiteGraph { edges, levels } }
    }
}

fn first_entry(map: &Map) -> Option<(&str, &Value)> {
    let (key, value) = map.iter().next()?;
    Some((key.as_str().unwrap_or(""), value))
}

/// An order that is used for the cap: Python's `int`, of which `bool` is one.
fn integer_order(order: Option<&Value>) -> Option<f64> {
    match order {
        Some(value @ (Value::Int(_) | Value::Bool(_))) => value.as_number(),
        _ => None,
    }
}

//! A plan in, the graph that its run follows out: the plan's own edges, a path waits for its parents, and what others stand
//! on (packages, users) comes first where it was written first.
//!
//! Law: an implicit edge never contradicts an explicit one (held by `what_somebody_wrote_counts_more`,
//! `a_parent_behind_its_child_closes_no_circle`).

mod declared;

use std::borrow::Cow;

use hashbrown::HashMap;
use zagent_compiler::{Chunk, Plan, Requisite};
use zagent_config::Value;

use super::queue::{OrderBand, QueueNode};

/// Below this is only what says `order: first`.
const FIRST_ORDER: f64 = 1.0;
/// From here on is only what says `order: last` or counts from the end.
const LAST_ORDER: f64 = 1_000_000.0;

/// What a run follows.
#[derive(Debug)]
pub(crate) struct RunGraph {
    /// One node a chunk.
    pub nodes: Vec<QueueNode>,
    /// (first, then).
    pub edges: Vec<(usize, usize)>,
    /// For each chunk, whom it waits for by a requisite, and by which.
    pub requisites: Requisites,
    /// For each chunk, all it waits for, but what is only a foundation.
    predecessors: Vec<Vec<usize>>,
    /// For each chunk, the foundations that were written before it.
    foundations: Vec<Vec<usize>>,
}

/// What orders states beside their requisites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImpliedOrder {
    /// Nothing.
    None,
    /// Paths wait for their parents, and most kinds of states for packages, users and groups.
    Kinds,
    /// The written order, between states that may touch the same thing.
    Written,
}

/// For each chunk, whom it waits for and why.
#[derive(Debug, Default)]
pub(crate) struct Requisites {
    all: Vec<(usize, Requisite)>,
    start: Vec<usize>,
}

impl Requisites {
    fn new(plan: &Plan) -> Self {
        let mut start = vec![0; plan.chunks.len() + 1];
        let edges = || plan.graph.edges.iter().filter(|e| e.kind != Requisite::Listen);
        for edge in edges() {
            start[edge.to + 1] += 1;
        }
        for i in 1..start.len() {
            start[i] += start[i - 1];
        }
        let mut next = start.clone();
        let mut all = vec![(0, Requisite::Require); start.last().copied().unwrap_or(0)];
        for edge in edges() {
            all[next[edge.to]] = (edge.from, edge.kind);
            next[edge.to] += 1;
        }
        Self { all, start }
    }

    /// Whom a chunk waits for.
    #[must_use]
    pub(crate) fn for_chunk(&self, chunk: usize) -> &[(usize, Requisite)] {
        match (self.start.get(chunk), self.start.get(chunk + 1)) {
            (Some(&from), Some(&to)) => &self.all[from..to],
            _ => &[],
        }
    }
}

impl RunGraph {
    /// The graph of a plan.
    #[must_use]
    pub(crate) fn new(plan: &Plan, implied: ImpliedOrder) -> Self {
        let mut nodes: Vec<QueueNode> = plan.chunks.iter().map(queue_node).collect();
        let mut edges: Vec<(usize, usize)> =
            plan.graph.edges.iter().filter(|e| e.kind != Requisite::Listen).map(|e| (e.from, e.to)).collect();
        let mut under = vec![Vec::new(); plan.chunks.len()];
        let mut barriers = Vec::new();
        if implied != ImpliedOrder::None {
            add_foundations(plan, &mut under);
        }
        match implied {
            ImpliedOrder::None => {}
            ImpliedOrder::Kinds => {
                add_firewall_edges(plan, &mut edges);
                add_path_edges(plan, &under, &mut edges);
            }
            ImpliedOrder::Written => {
                let declared = declared::declared_edges(plan);
                edges.extend(declared.shared);
                barriers = declared.barriers;
                // `order` has decided the written order already.
                nodes.iter_mut().for_each(|node| node.band = OrderBand::Middle);
            }
        }
        let mut before = vec![Vec::new(); plan.chunks.len()];
        for &(from, to) in &edges {
            before[to].push(from);
        }
        edges.extend(barriers);
        if implied == ImpliedOrder::Kinds {
            edges.extend(foundation_edges(&under));
        }
        Self { nodes, edges, requisites: Requisites::new(plan), predecessors: before, foundations: under }
    }

    /// The foundations of a chunk: it comes after them, and has nothing else to do with them as far as anybody said.
    pub(crate) fn foundations(&self, chunk: usize) -> impl Iterator<Item = usize> {
        self.foundations[chunk].iter().copied()
    }

    /// All that a chunk waits for.
    pub(crate) fn predecessors(&self, chunk: usize) -> impl Iterator<Item = usize> {
        self.predecessors[chunk].iter().copied()
    }
}

fn queue_node(chunk: &Chunk) -> QueueNode {
    let band = match chunk.order {
        order if order < FIRST_ORDER => OrderBand::First,
        order if order >= LAST_ORDER => OrderBand::Last,
        _ => OrderBand::Middle,
    };
    let parallel = chunk.args.get("parallel").is_some_and(Value::is_truthy) && !chunk.prereq.check;
    QueueNode { order: chunk.order, name: zagent_compiler::name_text(&chunk.name), band, parallel }
}

/// The path that a chunk is about, written in one way only.
fn managed_path(chunk: &Chunk) -> Option<Cow<'_, str>> {
    let name = chunk.name.as_str().filter(|name| &*chunk.state == "file" && name.starts_with('/'))?;
    let odd = name.contains("//") || name.contains("/./") || name.ends_with('/') || name.ends_with("/.");
    if !odd {
        return Some(name.into());
    }
    let plain: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    Some(format!("/{}", plain.join("/")).into())
}

/// The directories above a path, the nearest first.
fn parent_dirs(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent_dir(path), |dir| parent_dir(dir))
}

/// The directory that a path stands in.
fn parent_dir(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

/// Adds what paths imply: a path waits for its parents, and otherwise states that could see each other's work keep their order.
fn add_path_edges(plan: &Plan, under: &[Vec<usize>], edges: &mut Vec<(usize, usize)>) {
    let paths: Vec<Option<Cow<'_, str>>> = plan.chunks.iter().map(managed_path).collect();
    let mut seen: HashMap<&str, usize> = HashMap::with_capacity(paths.len());
    let mut dirs: HashMap<&str, Siblings> = HashMap::new();
    let mut below: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut on: HashMap<&str, Vec<usize>> = HashMap::with_capacity(paths.len());
    let mut orphans: Vec<(usize, &str)> = Vec::new();
    // Salt's order is a sound order, so edges along it close no circle.
    for (i, (chunk, path)) in plan.chunks.iter().zip(&paths).enumerate() {
        let Some(path) = path.as_deref() else { continue };
        if let Some(&before) = seen.get(path) {
            edges.push((before, i));
            let children = below.get_mut(path).map(std::mem::take).unwrap_or_default();
            edges.extend(children.into_iter().map(|child| (child, i)));
        }
        match parent_dirs(path).find_map(|dir| seen.get_key_value(dir)) {
            Some((&dir, &state)) => {
                edges.push((state, i));
                below.entry(dir).or_default().push(i);
            }
            None => orphans.push((i, path)),
        }
        seen.insert(path, i);
        on.entry(path).or_default().push(i);
        if let Some(dir) = parent_dir(path) {
            let makes = chunk.args.get("makedirs").is_some_and(Value::is_truthy);
            dirs.entry(dir).or_default().add_sibling(i, makes, edges);
        }
    }
    if orphans.is_empty() || seen.len() < 2 {
        return;
    }
    // A parent that stands behind its child: only where the child is not needed for it.
    let mut reach: Option<Reachability> = None;
    for (i, path) in orphans {
        let Some(parents) = parent_dirs(path).find_map(|dir| on.get(dir)) else { continue };
        let reach = reach.get_or_insert_with(|| {
            let all: Vec<(usize, usize)> = edges.iter().copied().chain(foundation_edges(under)).collect();
            Reachability::new(plan.chunks.len(), &all)
        });
        // They wait for each other, so the last one that may come first is enough.
        let before = parents.iter().filter(|&&p| p > i).take_while(|&&p| !reach.is_reachable(i, p)).last();
        if let Some(&parent) = before {
            reach.add_edge(parent, i);
            edges.push((parent, i));
        }
    }
}

/// So many foundations at most are waited for one by one: beyond, only the first count.
const MAX_FOUNDATIONS: usize = 256;

/// What servers keep.
const SERVER_STATES: [&str; 4] = ["postgres_", "mysql_", "docker_", "http"];

/// How far down a module is: what is lower comes first where it was written first. Nothing for what nobody stands on.
fn foundation_depth(chunk: &Chunk) -> Option<u8> {
    match &*chunk.state {
        "pkgrepo" => Some(0),
        "pkg" => Some(1),
        "group" => Some(2),
        "user" => Some(3),
        _ => None,
    }
}

/// Who was written after packages, groups and users waits for them: trees lean on that, because what they need of it (a
/// group, a directory, a unit) shows in no requisite. A service waits for files likewise, and what a server keeps for the
/// services, which may be restarting.
fn add_foundations(plan: &Plan, under: &mut [Vec<usize>]) {
    let mut foundations: Vec<(u8, usize)> = Vec::new();
    let (mut files, mut services): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (i, chunk) in plan.chunks.iter().enumerate() {
        let own = foundation_depth(chunk);
        let lower = |&&(depth, _): &&(u8, usize)| own.is_none_or(|own| depth < own);
        under[i].extend(foundations.iter().filter(lower).map(|(_, from)| from));
        match (own, &*chunk.state) {
            (Some(own), _) if foundations.len() < MAX_FOUNDATIONS => foundations.push((own, i)),
            (None, "file") if files.len() < MAX_FOUNDATIONS => files.push(i),
            (None, "service") => {
                under[i].extend(&files);
                services.push(i);
            }
            (None, state) if SERVER_STATES.iter().any(|prefix| state.starts_with(prefix)) => {
                under[i].extend(&services);
            }
            _ => {}
        }
    }
}

/// Who stands on whom, as edges.
fn foundation_edges(under: &[Vec<usize>]) -> impl Iterator<Item = (usize, usize)> {
    under.iter().enumerate().flat_map(|(to, all)| all.iter().map(move |&from| (from, to)))
}

/// Rules of a firewall keep the order that they were written in: what comes first decides.
fn add_firewall_edges(plan: &Plan, edges: &mut Vec<(usize, usize)>) {
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (i, chunk) in plan.chunks.iter().enumerate() {
        if matches!(&*chunk.state, "iptables" | "nftables" | "firewalld" | "ufw")
            && let Some(before) = last.insert(&chunk.state, i)
        {
            edges.push((before, i));
        }
    }
}

/// So many states of each sort in one directory at most wait one for all: beyond, only the first of a sort count.
const MAX_SIBLINGS: usize = 64;

/// States on paths in one directory. Who makes the directory on the way makes it also for those that only need it, so
/// the two sorts keep their order; those of one sort do not wait for each other.
#[derive(Default)]
struct Siblings {
    makers: Vec<usize>,
    others: Vec<usize>,
}

impl Siblings {
    fn add_sibling(&mut self, i: usize, makes: bool, edges: &mut Vec<(usize, usize)>) {
        let (own, other) =
            if makes { (&mut self.makers, &self.others) } else { (&mut self.others, &self.makers) };
        edges.extend(other.iter().map(|&before| (before, i)));
        if own.len() < MAX_SIBLINGS {
            own.push(i);
        }
    }
}

/// Who can be reached from whom.
struct Reachability {
    after: Vec<Vec<usize>>,
    seen: Vec<usize>,
    round: usize,
}

impl Reachability {
    fn new(nodes: usize, edges: &[(usize, usize)]) -> Self {
        let mut after = vec![Vec::new(); nodes];
        for &(from, to) in edges {
            after[from].push(to);
        }
        Self { after, seen: vec![0; nodes], round: 0 }
    }

    fn add_edge(&mut self, from: usize, to: usize) {
        self.after[from].push(to);
    }

    fn is_reachable(&mut self, from: usize, to: usize) -> bool {
        self.round += 1;
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            if std::mem::replace(&mut self.seen[node], self.round) != self.round {
                stack.extend(&self.after[node]);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use zagent_config::Map;

    use super::*;

    fn plan(names: &[&str]) -> Plan {
        let chunks = names.iter().map(|name| match name.strip_prefix('+') {
            None => Chunk::single("file", "managed", name, Map::new()),
            Some(name) => Chunk::single("file", "managed", name, Map::from_iter([("makedirs", true)])),
        });
        Plan { chunks: chunks.collect(), graph: zagent_compiler::RequisiteGraph::default() }
    }

    #[test]
    fn what_paths_imply() {
        type Row = (&'static [&'static str], &'static [(usize, usize)]);
        let table: &[Row] = &[
            (&["/a", "/a/b"], &[(0, 1)]),
            (&["/a/b", "/a"], &[(1, 0)]),
            (&["/a", "/a/b/c"], &[(0, 1)]),
            (&["/a", "/ab"], &[]),
            (&["/a", "/a"], &[(0, 1)]),
            (&["/a/", "/a//b"], &[(0, 1)]),
            (&["/", "/a"], &[(0, 1)]),
            (&["/a", "/a/b", "/a"], &[(0, 1), (0, 2), (1, 2)]),
            (&["+/a/b", "/a/c", "+/a/d"], &[(0, 1), (1, 2)]),
            (&["relative", "relative/b"], &[]),
        ];
        for (names, expected) in table {
            let mut edges = RunGraph::new(&plan(names), ImpliedOrder::Kinds).edges;
            edges.sort_unstable();
            assert_eq!(edges, *expected, "{names:?}");
            assert!(RunGraph::new(&plan(names), ImpliedOrder::None).edges.is_empty());
        }
    }

    #[test]
    fn what_others_stand_on_comes_first_where_it_was_written_first() {
        let one = |text: &&str| {
            let (state, fun) = text.split_once('.').unwrap();
            Chunk::single(state, fun, "/x", Map::new())
        };
        type Row = (&'static [&'static str], &'static [(usize, usize)]);
        let table: &[Row] = &[
            (&["pkg.installed", "file.managed"], &[(0, 1)]),
            (&["file.managed", "pkg.installed"], &[]),
            (&["pkg.installed", "pkg.installed"], &[]),
            (&["pkgrepo.managed", "pkg.installed", "cmd.run"], &[(0, 1), (0, 2), (1, 2)]),
            (&["user.present", "group.present"], &[]),
            (&["group.present", "user.present"], &[(0, 1)]),
            (&["file.managed", "service.running"], &[(0, 1)]),
            (&["cmd.run", "service.running", "file.managed"], &[]),
            (&["service.running", "postgres_user.present"], &[(0, 1)]),
            (&["mysql_user.present", "service.running"], &[]),
        ];
        for (functions, expected) in table {
            let chunks = functions.iter().map(one).collect();
            let plan = Plan { chunks, graph: zagent_compiler::RequisiteGraph::default() };
            let graph = RunGraph::new(&plan, ImpliedOrder::Kinds);
            let mut edges = graph.edges.clone();
            edges.sort_unstable();
            assert_eq!(edges, *expected, "{functions:?}");
            assert!((0..functions.len()).all(|i| graph.predecessors(i).next().is_none()), "{functions:?}");
            assert!(RunGraph::new(&plan, ImpliedOrder::None).edges.is_empty());
        }
    }

    #[test]
    fn a_parent_behind_its_child_closes_no_circle() {
        // The directory is written last, stands on the package, and the package waits for the file in it.
        let chunks = vec![
            Chunk::single("file", "managed", "/etc/x/x.conf", Map::new()),
            Chunk::single("pkg", "installed", "x", Map::new()),
            Chunk::single("file", "directory", "/etc/x", Map::new()),
        ];
        let mut plan = Plan { chunks, graph: zagent_compiler::RequisiteGraph::default() };
        plan.graph.edges.push(zagent_compiler::RequisiteEdge { from: 0, to: 1, kind: Requisite::Require });
        assert_eq!(RunGraph::new(&plan, ImpliedOrder::Kinds).edges, [(0, 1), (1, 2)]);
    }

    #[test]
    fn rules_of_a_firewall_keep_their_order() {
        let chunks = ["iptables", "nftables", "iptables", "iptables"]
            .map(|state| Chunk::single(state, "append", "x", Map::new()));
        let plan = Plan { chunks: chunks.to_vec(), graph: zagent_compiler::RequisiteGraph::default() };
        assert_eq!(RunGraph::new(&plan, ImpliedOrder::Kinds).edges, [(0, 2), (2, 3)]);
    }

    #[test]
    fn what_somebody_wrote_counts_more() {
        let mut plan = plan(&["/a/b", "/a"]);
        plan.graph.edges.push(zagent_compiler::RequisiteEdge { from: 0, to: 1, kind: Requisite::Require });
        assert_eq!(RunGraph::new(&plan, ImpliedOrder::Kinds).edges, [(0, 1)]);
    }
}

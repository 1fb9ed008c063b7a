//! Sorts chunks as Salt does: topologically, and among ready chunks by order, then by state, name and function.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use zagent_config::Value;

use super::Linker;
use crate::plan::{Requisite, RequisiteEdge, name_text};

/// The distance of `order: last` from the cap.
const LAST_ORDER: f64 = 1_000_000.0;

/// The sort key of ready chunks.
#[derive(PartialEq)]
struct OrderKey {
    pulled: f64,
    own: f64,
    label: String,
    tag: String,
    node: usize,
}

impl Eq for OrderKey {}

impl Ord for OrderKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.pulled
            .total_cmp(&other.pulled)
            .then_with(|| self.own.total_cmp(&other.own))
            .then_with(|| self.label.cmp(&other.label))
            .then_with(|| self.tag.cmp(&other.tag))
    }
}

impl PartialOrd for OrderKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Salt's precedence of requisites: a dependant is used only while this does not decrease.
const fn precedence(kind: Requisite) -> u8 {
    match kind {
        Requisite::Onfail => 0,
        Requisite::OnfailAny => 1,
        Requisite::OnfailAll => 2,
        Requisite::Require => 3,
        Requisite::RequireAny => 4,
        Requisite::Onchanges => 5,
        Requisite::OnchangesAny => 6,
        Requisite::Watch => 7,
        Requisite::WatchAny => 8,
        Requisite::Prereq => 9,
        Requisite::Listen => 11,
    }
}

/// The nodes in run order; fewer than all when there is a cycle.
pub(super) fn run_order(linker: &mut Linker<'_>, cap: f64) -> Vec<usize> {
    let mut waits: Vec<usize> = linker.nodes.iter().map(|n| n.into.len()).collect();
    let mut ready: BinaryHeap<Reverse<OrderKey>> = BinaryHeap::with_capacity(waits.len());
    for (node, _) in waits.iter().enumerate().filter(|(_, waits)| **waits == 0) {
        ready.push(Reverse(order_key(linker, node, cap)));
    }
    let mut sorted = Vec::with_capacity(waits.len());
    while let Some(Reverse(OrderKey { node, .. })) = ready.pop() {
        sorted.push(node);
        for i in 0..linker.nodes[node].out.len() {
            let (next, _) = linker.nodes[node].out[i];
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push(Reverse(order_key(linker, next, cap)));
            }
        }
    }
    sorted
}

fn order_key(linker: &mut Linker<'_>, node: usize, cap: f64) -> OrderKey {
    let own = resolve_order(linker, linker.nodes[node].chunk, cap);
    let pulled = own.min(earliest_dependant(linker, node, cap));
    let chunk = linker.chunk(node);
    let label = format!("{}{}{}", chunk.state, name_text(&chunk.name), chunk.fun);
    OrderKey { pulled, own, label, tag: linker.nodes[node].tag.clone(), node }
}

/// Resolves the order of a chunk, once: words to numbers, the position among names, negatives from the end.
fn resolve_order(linker: &mut Linker<'_>, chunk: usize, cap: f64) -> f64 {
    let lowered = &mut linker.lowered[chunk];
    let mut order =
        numeric_order(lowered.order.as_ref()).unwrap_or_else(|| keyword_order(lowered.order.as_ref(), cap));
    if lowered.name_order > 0 {
        order += f64::from(lowered.name_order) / 10_000.0;
        lowered.name_order = 0;
    }
    if order < 0.0 {
        order += cap + LAST_ORDER;
    }
    lowered.order = Some(Value::Float(order));
    lowered.chunk.order = order;
    order
}

fn numeric_order(order: Option<&Value>) -> Option<f64> {
    match order {
        Some(value @ (Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Big(_))) => value.as_number(),
        _ => None,
    }
}

fn keyword_order(order: Option<&Value>, cap: f64) -> f64 {
    match order.and_then(Value::as_str) {
        Some("last") => cap + LAST_ORDER,
        Some("first") => 0.0,
        _ => cap,
    }
}

/// The lowest order among the direct dependants, as they are: unresolved ones without their name position.
fn earliest_dependant(linker: &mut Linker<'_>, node: usize, cap: f64) -> f64 {
    let mut least = f64::INFINITY;
    let mut heaviest = 0;
    for i in 0..linker.nodes[node].out.len() {
        let (next, kind) = linker.nodes[node].out[i];
        if precedence(kind) < heaviest {
            continue;
        }
        heaviest = precedence(kind);
        let lowered = &mut linker.lowered[linker.nodes[next].chunk];
        let order = match &lowered.order {
            None => continue,
            Some(order) => numeric_order(Some(order)).unwrap_or_else(|| keyword_order(Some(order), cap)),
        };
        lowered.order = Some(Value::Float(order));
        least = least.min(order);
    }
    least
}

/// Kahn levels of `n` nodes.
pub(super) fn levels(n: usize, edges: &[RequisiteEdge]) -> Vec<Vec<usize>> {
    let mut level = vec![0_usize; n];
    let mut by_target: Vec<Vec<usize>> = vec![Vec::new(); n];
    for edge in edges {
        by_target[edge.to].push(edge.from);
    }
    // Nodes are sorted topologically already, so one pass is enough.
    for to in 0..n {
        level[to] = by_target[to].iter().map(|&from| level[from] + 1).max().unwrap_or(0);
    }
    let mut levels = vec![Vec::new(); level.iter().max().map_or(0, |m| m + 1)];
    for (node, &l) in level.iter().enumerate() {
        levels[l].push(node);
    }
    levels
}

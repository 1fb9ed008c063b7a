//! The output of the compiler: low chunks, the graph between them, and its levels.

use std::sync::Arc;

use zagent_config::{Map, Pos, Value};

use crate::source_files::FileId;

/// One call of one state function: a low chunk, as Salt names it.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The module, such as `file`.
    pub state: Arc<str>,
    /// The function, such as `managed`; a string in every valid tree.
    pub fun: Arc<str>,
    /// The name, the id when none was given.
    pub name: Value,
    /// The id of the declaration.
    pub id: Arc<str>,
    /// The SLS that declared it.
    pub sls: Arc<str>,
    /// The environment of that SLS.
    pub env: Arc<str>,
    /// Its position in the order.
    pub order: f64,
    /// All other keys, requisites included, in the given order.
    pub args: Map,
    /// The SLS that was being included when this one was read, if any (`__sls_included_from__`).
    pub included_from: Vec<Arc<str>>,
    /// Its part in prereqs.
    pub prereq: PrereqRole,
    /// The number of the file it was read from.
    pub(crate) file: FileId,
    /// The position of the function in the rendered SLS.
    pub(crate) at: Pos,
}

/// A chunk's part in prereqs; all false for most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrereqRole {
    /// Only the check of a target: it comes in the plan before the state that has the `prereq`.
    pub check: bool,
    /// A `prereq` refers to it.
    pub target: bool,
    /// It has a `prereq`.
    pub requiring: bool,
}

impl Chunk {
    /// A chunk that no file declares: `module.function` with a name, requested on the command line.
    #[must_use]
    pub fn single(state: &str, fun: &str, name: &str, args: Map) -> Self {
        Self {
            state: state.into(),
            fun: fun.into(),
            name: name.into(),
            id: name.into(),
            sls: "".into(),
            env: "base".into(),
            order: 0.0,
            args,
            included_from: Vec::new(),
            prereq: PrereqRole::default(),
            file: 0,
            at: Pos::NONE,
        }
    }

    /// True when it has `minion: true`: it runs on the node that manages a resource, not on the resource.
    #[must_use]
    pub fn runs_on_manager(&self) -> bool {
        self.args.get("minion").is_some_and(Value::is_truthy)
    }

    /// `state_|-id_|-name_|-fun`, the key of a run's result.
    #[must_use]
    pub fn tag(&self) -> String {
        format!("{}_|-{}_|-{}_|-{}", self.state, self.id, name_text(&self.name), self.fun)
    }

    /// Salt's `show_lowstate` of this chunk.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut map = Map::with_capacity(self.args.len() + 10);
        map.insert("state", self.state.clone());
        map.insert("name", self.name.clone());
        map.insert("__sls__", self.sls.clone());
        map.insert("__env__", self.env.clone());
        if !self.included_from.is_empty() {
            map.insert(
                "__sls_included_from__",
                self.included_from.iter().cloned().map(Value::from).collect::<Value>(),
            );
        }
        map.insert("__id__", self.id.clone());
        for entry in self.args.entries() {
            map.insert(entry.key.clone(), entry.value.clone());
        }
        map.insert("order", int_if_whole(self.order));
        map.insert("fun", self.fun.clone());
        if self.prereq.target {
            map.insert("__prereq__", true);
        }
        if self.prereq.requiring {
            map.insert("__prerequiring__", true);
        }
        map.into()
    }
}

/// A number without a fraction as an integer.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
fn int_if_whole(order: f64) -> Value {
    if order.fract() == 0.0 && order.abs() < 9e15 { Value::Int(order as i64) } else { Value::Float(order) }
}

/// A name as written in a tag.
#[must_use]
pub fn name_text(name: &Value) -> String {
    match name {
        Value::Str(s) => s.to_string(),
        other => other.json_key(),
    }
}

/// Why one chunk waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requisite {
    /// `require`.
    Require,
    /// `require_any`.
    RequireAny,
    /// `watch`.
    Watch,
    /// `watch_any`.
    WatchAny,
    /// `onchanges`.
    Onchanges,
    /// `onchanges_any`.
    OnchangesAny,
    /// `onfail`.
    Onfail,
    /// `onfail_any`.
    OnfailAny,
    /// `onfail_all`.
    OnfailAll,
    /// `prereq`.
    Prereq,
    /// `listen`: runs at the end of the run, without an order before it.
    Listen,
}

impl Requisite {
    /// Every kind that Salt's low state may have.
    pub const ALL: [Self; 11] = [
        Self::Require,
        Self::RequireAny,
        Self::Watch,
        Self::WatchAny,
        Self::Onchanges,
        Self::OnchangesAny,
        Self::Onfail,
        Self::OnfailAny,
        Self::OnfailAll,
        Self::Prereq,
        Self::Listen,
    ];

    /// Its key in a state.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::RequireAny => "require_any",
            Self::Watch => "watch",
            Self::WatchAny => "watch_any",
            Self::Onchanges => "onchanges",
            Self::OnchangesAny => "onchanges_any",
            Self::Onfail => "onfail",
            Self::OnfailAny => "onfail_any",
            Self::OnfailAll => "onfail_all",
            Self::Prereq => "prereq",
            Self::Listen => "listen",
        }
    }
}

/// `chunks[from]` comes before `chunks[to]`, because `to` has the requisite (for `prereq`, `to` is the target).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequisiteEdge {
    /// Index of the chunk that comes first.
    pub from: usize,
    /// Index of the chunk that waits.
    pub to: usize,
    /// Why.
    pub kind: Requisite,
}

/// The chunks' dependencies. Indices are positions in [`Plan::chunks`].
#[derive(Clone, Debug, Default)]
pub struct RequisiteGraph {
    /// All edges, sorted.
    pub edges: Vec<RequisiteEdge>,
    /// Kahn levels: every chunk is in a later level than all it waits for.
    pub levels: Vec<Vec<usize>>,
}

/// A compiled tree: the chunks to run, in Salt's order, and their dependencies.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The chunks in Salt's order.
    pub chunks: Vec<Chunk>,
    /// Their dependencies.
    pub graph: RequisiteGraph,
}

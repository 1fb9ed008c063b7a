//! Chunks from the command line in, a plan out; and parts of a plan.
//!
//! Such a chunk is checked like one from a file, and its diagnostics name no file.

use std::sync::Arc;

use zagent_config::{Diagnostics, Map, Pos, Value};

use crate::compile::Compiler;
use crate::functions::Functions;
use crate::input::Compat;
use crate::lower::LoweredChunk;
use crate::plan::{Chunk, Plan, Requisite, RequisiteEdge, RequisiteGraph};
use crate::source_files::RenderedPos;
use crate::{link, strict};

impl Compiler {
    /// A plan of these chunks, checked like those of a tree.
    ///
    /// # Errors
    /// Fails with unknown functions and parameters, and with requisites that cannot be resolved.
    pub fn plan_for_chunks(&self, chunks: Vec<Chunk>) -> Result<Plan, Diagnostics> {
        let session = self.state_session();
        let file = session.manual_file();
        let spot = RenderedPos { file, pos: Pos::NONE };
        let lower = |chunk| LoweredChunk {
            chunk: Chunk { file, ..chunk },
            name_order: 0,
            order: None,
            spot,
            subscriptions: Vec::new(),
        };
        let lowered: Vec<LoweredChunk> = chunks.into_iter().map(lower).collect();
        let checked = match self.compat() {
            Compat::Strict => strict::check(session, &lowered).map(drop),
            Compat::Salt => Ok(()),
        };
        checked.and_then(|()| link::link(session, lowered)).map_err(|mut diagnostics| {
            for diagnostic in &mut diagnostics.0 {
                (diagnostic.location, diagnostic.excerpts, diagnostic.chain) = (None, Vec::new(), Vec::new());
            }
            diagnostics
        })
    }

    /// True for an external state module, an executable in `_states` of the tree.
    #[must_use]
    pub fn is_external_state(&self, module: &str) -> bool {
        self.state_session().is_external_state(module)
    }

    /// The execution functions, as templates call them.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        self.state_session().templates().functions()
    }
}

impl Chunk {
    /// A chunk from Salt's low data: `{"state": …, "fun": …, "name": …}` and arguments.
    ///
    /// # Errors
    /// Fails with a message when one of these three is missing or is not text.
    pub fn from_low_data(data: &Map) -> Result<Self, String> {
        let text = |key: &str| match data.get(key) {
            Some(Value::Str(text)) if !text.is_empty() => Ok(text.clone()),
            Some(Value::Str(_)) => Err(format!("`{key}` is empty")),
            Some(other) => Err(format!("`{key}` must be text, not {}", other.kind())),
            None => Err(format!("`{key}` is missing")),
        };
        let (state, fun, name) = (text("state")?, text("fun")?, text("name")?);
        let or = |key: &str, default: &Arc<str>| match data.get(key) {
            Some(Value::Str(text)) => text.clone(),
            _ => default.clone(),
        };
        let mut args = data.clone();
        for key in ["state", "fun", "name", "order", "__id__", "__sls__", "__env__"] {
            args.remove(key);
        }
        let (id, sls, env) = (or("__id__", &name), or("__sls__", &"".into()), or("__env__", &"base".into()));
        Ok(Self { id, sls, env, ..Self::single(&state, &fun, &name, args) })
    }
}

impl Plan {
    /// The requested chunks and all they wait for.
    #[must_use]
    pub fn with_dependencies(&self, wanted: impl Fn(&Chunk) -> bool) -> Self {
        let mut kept: Vec<bool> = self.chunks.iter().map(wanted).collect();
        let mut waiting: Vec<usize> = (0..kept.len()).filter(|i| kept[*i]).collect();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); kept.len()];
        for edge in self.graph.edges.iter().filter(|e| e.kind != Requisite::Listen) {
            before[edge.to].push(edge.from);
        }
        while let Some(chunk) = waiting.pop() {
            for &earlier in &before[chunk] {
                if !std::mem::replace(&mut kept[earlier], true) {
                    waiting.push(earlier);
                }
            }
        }
        self.subset(&kept)
    }

    fn subset(&self, kept: &[bool]) -> Self {
        let mut next = 0;
        let place: Vec<usize> = kept
            .iter()
            .map(|keep| {
                next += usize::from(*keep);
                next.saturating_sub(1)
            })
            .collect();
        let chunks =
            self.chunks.iter().zip(kept).filter(|(_, keep)| **keep).map(|(c, _)| c.clone()).collect();
        let edges = self.graph.edges.iter().filter(|e| kept[e.from] && kept[e.to]);
        let edges =
            edges.map(|e| RequisiteEdge { from: place[e.from], to: place[e.to], kind: e.kind }).collect();
        let level = |level: &Vec<usize>| -> Vec<usize> {
            level.iter().filter(|i| kept[**i]).map(|i| place[*i]).collect()
        };
        let levels = self.graph.levels.iter().map(level).filter(|l| !l.is_empty()).collect();
        Self { chunks, graph: RequisiteGraph { edges, levels } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(count: usize, edges: &[(usize, usize, Requisite)], levels: &[&[usize]]) -> Plan {
        let chunks = (0..count).map(|n| Chunk::single("test", "nop", &format!("s{n}"), Map::new())).collect();
        let edges = edges
            .iter()
            .map(|(from, to, kind)| RequisiteEdge { from: *from, to: *to, kind: *kind })
            .collect();
        Plan { chunks, graph: RequisiteGraph { edges, levels: levels.iter().map(|l| l.to_vec()).collect() } }
    }

    #[test]
    fn a_part_contains_its_dependencies_and_nothing_else() {
        let edges = [
            (0, 2, Requisite::Require),
            (1, 2, Requisite::Watch),
            (2, 4, Requisite::Require),
            (2, 3, Requisite::Require),
            (1, 3, Requisite::Listen),
        ];
        let whole = plan(6, &edges, &[&[0, 1, 5], &[2], &[3, 4]]);
        let part = whole.with_dependencies(|c| &*c.id == "s4");
        let ids: Vec<_> = part.chunks.iter().map(|c| c.id.to_string()).collect();
        assert_eq!(ids, ["s0", "s1", "s2", "s4"]);
        assert_eq!(part.graph.levels, vec![vec![0, 1], vec![2], vec![3]]);
        let ends: Vec<_> = part.graph.edges.iter().map(|e| (e.from, e.to)).collect();
        assert_eq!(ends, [(0, 2), (1, 2), (2, 3)]);
        assert!(whole.with_dependencies(|_| false).chunks.is_empty());
    }

    #[test]
    fn low_data_needs_three_texts() {
        let low = |json: &str| {
            let Value::Map(map) = Value::from_json_str(json).unwrap() else { panic!("no mapping") };
            Chunk::from_low_data(&map)
        };
        let chunk =
            low(r#"{"state": "pkg", "fun": "installed", "name": "vim", "__id__": "ed", "order": 3, "v": 1}"#);
        let chunk = chunk.unwrap();
        assert_eq!(chunk.tag(), "pkg_|-ed_|-vim_|-installed");
        assert_eq!((chunk.args.len(), chunk.args.get("v")), (1, Some(&Value::Int(1))));
        for (json, words) in [
            (r#"{"state": "pkg", "fun": "installed"}"#, "`name` is missing"),
            (r#"{"fun": "installed", "name": "x"}"#, "`state` is missing"),
            (r#"{"state": "pkg", "fun": ["a"], "name": "x"}"#, "`fun` must be text, not a list"),
        ] {
            assert_eq!(low(json).unwrap_err(), words);
        }
    }
}

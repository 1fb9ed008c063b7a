//! A plan to bytes and back, for the plan cache.
//!
//! Law: a plan that was read back runs as the one that was written. Source positions are not stored (held by
//! `a_written_plan_is_read_back`).

use std::sync::Arc;

use zagent_config::Pos;
use zagent_config::value::binary::{ValueReader, write_text, write_varint};

use crate::plan::{Chunk, Plan, PrereqRole, Requisite, RequisiteEdge, RequisiteGraph};

impl Plan {
    /// Writes it; [`Plan::from_bytes`] reads it.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        write_varint(out, self.chunks.len() as u64);
        for chunk in &self.chunks {
            chunk.to_bytes(out);
        }
        write_varint(out, self.graph.edges.len() as u64);
        for edge in &self.graph.edges {
            write_varint(out, edge.from as u64);
            write_varint(out, edge.to as u64);
            let kind = Requisite::ALL.iter().position(|k| *k == edge.kind).unwrap_or_default();
            write_varint(out, kind as u64);
        }
        write_varint(out, self.graph.levels.len() as u64);
        for level in &self.graph.levels {
            write_varint(out, level.len() as u64);
            for node in level {
                write_varint(out, *node as u64);
            }
        }
    }

    /// Reads a written plan; `None` for anything else.
    #[must_use]
    pub fn from_bytes(reader: &mut ValueReader<'_>) -> Option<Self> {
        let n = reader.read_count()?;
        let mut chunks: Vec<Chunk> = Vec::with_capacity(n);
        for _ in 0..n {
            let chunk = Chunk::from_bytes(reader, chunks.last())?;
            chunks.push(chunk);
        }
        let node =
            |reader: &mut ValueReader<'_>| usize::try_from(reader.read_varint()?).ok().filter(|i| *i < n);
        let mut graph = RequisiteGraph::default();
        let edges = reader.read_count()?;
        graph.edges.reserve(edges);
        for _ in 0..edges {
            let (from, to) = (node(reader)?, node(reader)?);
            let kind = *Requisite::ALL.get(usize::try_from(reader.read_varint()?).ok()?)?;
            graph.edges.push(RequisiteEdge { from, to, kind });
        }
        for _ in 0..reader.read_count()? {
            let count = reader.read_count()?;
            let mut level = Vec::with_capacity(count);
            for _ in 0..count {
                level.push(node(reader)?);
            }
            graph.levels.push(level);
        }
        Some(Self { chunks, graph })
    }
}

impl Chunk {
    fn to_bytes(&self, out: &mut Vec<u8>) {
        for text in [&self.state, &self.fun, &self.sls, &self.env, &self.id] {
            write_text(out, text);
        }
        self.name.to_bytes(out);
        out.extend_from_slice(&self.order.to_le_bytes());
        let PrereqRole { check, target, requiring } = self.prereq;
        out.push(u8::from(check) | u8::from(target) << 1 | u8::from(requiring) << 2);
        write_varint(out, self.included_from.len() as u64);
        for sls in &self.included_from {
            write_text(out, sls);
        }
        self.args.to_bytes(out);
    }

    /// Neighbouring chunks share most of their strings with `last`.
    fn from_bytes(reader: &mut ValueReader<'_>, last: Option<&Self>) -> Option<Self> {
        let mut shared = |of: fn(&Self) -> &Arc<str>| -> Option<Arc<str>> {
            let text = reader.read_text()?;
            Some(match last.map(of) {
                Some(known) if **known == *text => Arc::clone(known),
                _ => text.into(),
            })
        };
        let (state, fun) = (shared(|c| &c.state)?, shared(|c| &c.fun)?);
        let (sls, env, id) = (shared(|c| &c.sls)?, shared(|c| &c.env)?, shared(|c| &c.id)?);
        let name = reader.read_value()?;
        let order = f64::from_le_bytes(reader.read_bytes(8)?.try_into().ok()?);
        let bits = reader.read_byte()?;
        let prereq = PrereqRole { check: bits & 1 != 0, target: bits & 2 != 0, requiring: bits & 4 != 0 };
        let mut included_from = Vec::new();
        for _ in 0..reader.read_count()? {
            included_from.push(reader.read_text()?.into());
        }
        let args = reader.read_map()?;
        Some(Self {
            state,
            fun,
            name,
            id,
            sls,
            env,
            order,
            args,
            included_from,
            prereq,
            file: 0,
            at: Pos::NONE,
        })
    }
}

#[cfg(test)]
mod tests {
    use zagent_config::{Map, Value};

    use super::*;

    fn sample() -> Plan {
        let mut chunks: Vec<Chunk> = (0..3)
            .map(|i| {
                let mut args = Map::new();
                args.insert("mode", "0644");
                args.insert("n", Value::Int(i));
                Chunk::single("file", "managed", &format!("/etc/{i}"), args)
            })
            .collect();
        chunks[1].prereq = PrereqRole { check: true, target: false, requiring: true };
        chunks[2].included_from = vec!["a".into(), "b".into()];
        let edges = vec![RequisiteEdge { from: 0, to: 2, kind: Requisite::OnfailAll }];
        Plan { chunks, graph: RequisiteGraph { edges, levels: vec![vec![0, 1], vec![2]] } }
    }

    #[test]
    fn a_written_plan_is_read_back() {
        let mut out = Vec::new();
        sample().to_bytes(&mut out);
        let mut reader = ValueReader::new(&out);
        let read = Plan::from_bytes(&mut reader).unwrap();
        assert!(reader.is_empty());
        let shown = |plan: &Plan| plan.chunks.iter().map(Chunk::to_value).collect::<Vec<_>>();
        assert_eq!(shown(&read), shown(&sample()));
        assert_eq!(format!("{:?}", read.graph), format!("{:?}", sample().graph));
        assert_eq!(read.chunks[1].prereq, sample().chunks[1].prereq);
        for n in 0..out.len() {
            assert!(Plan::from_bytes(&mut ValueReader::new(&out[..n])).is_none(), "cut at {n}");
        }
    }
}

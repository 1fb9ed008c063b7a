//! Any YAML text in, nodes out, from the events of a full parser.
//!
//! Law: for any hostile text, the result is a node tree or an error, nothing else (held by `no_text_panics`,
//! `no_bytes_panic`, `the_parser_never_gives_up`).

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use libyaml_safer::{Event, EventData, Mark, Parser, ScalarStyle};
use zagent_config::Pos;
use zagent_config::codes::yaml as code;

use super::node::{NodeKind, YamlNode, YamlNodeId, YamlTag, YamlTree};
use super::{YamlError, diagnostics, explain, limits, tag_comma};
use crate::TreeLimits;

/// How much of the text the parser sees at once; it keeps four bytes for each.
const CHUNK: usize = 4096;

/// What ends a line in YAML 1.1.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// Reads a text into a tree of nodes.
pub(super) fn read(text: &str, limits: &TreeLimits) -> Result<YamlTree, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = tag_comma::repair(text, limits.yaml_nodes);
    let run = || NodeComposer::new(&text, limits).document();
    // The parser has panicked on unusual texts before; known ones are filtered out, and this catches the others.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(YamlError::new(code::YAML_SYNTAX, "the YAML parser cannot read this text", Pos::new(1, 1)).hint(
            "look for an unfinished tag, escape or quote; remove half of the file at a time to find it",
        ))
    })
}

/// A parser position, counted from 1.
pub(super) fn place(mark: Mark) -> Pos {
    let from_one = |n: u64| u32::try_from(n).unwrap_or(u32::MAX - 1) + 1;
    Pos::new(from_one(mark.line), from_one(mark.column))
}

/// Feeds a text in pieces, and a line break after it if it has none: the parser needs one to end its last token.
struct TextFeed<'a> {
    rest: &'a [u8],
    tail: &'a [u8],
}

impl Read for TextFeed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut piece = self.fill_buf()?;
        let n = piece.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for TextFeed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.rest.is_empty() {
            return Ok(self.tail);
        }
        Ok(&self.rest[..self.rest.len().min(CHUNK)])
    }

    fn consume(&mut self, n: usize) {
        if self.rest.is_empty() {
            self.tail = &self.tail[n..];
        } else {
            self.rest = &self.rest[n..];
        }
    }
}

/// The cost of an anchor, in nodes.
const NODES_OF_AN_ANCHOR: usize = 20;

struct NodeComposer<'a> {
    text: &'a str,
    parser: Parser<TextFeed<'a>>,
    tree: YamlTree,
    anchors: HashMap<String, YamlNodeId>,
    depth: usize,
    most: usize,
}

impl<'a> NodeComposer<'a> {
    fn new(text: &'a str, limits: &TreeLimits) -> Self {
        let mut parser = Parser::new();
        let tail: &[u8] = if text.ends_with(BREAKS) { b"" } else { b"\n" };
        parser.set_input(TextFeed { rest: text.as_bytes(), tail });
        Self {
            text,
            parser,
            tree: YamlTree::default(),
            anchors: HashMap::new(),
            depth: limits::depth(limits),
            most: limits.yaml_nodes,
        }
    }

    fn next(&mut self) -> Result<Event, YamlError> {
        self.parser.parse().map_err(|e| explain::explain(self.text, &e))
    }

    fn document(mut self) -> Result<YamlTree, YamlError> {
        let mut first = None;
        loop {
            let event = self.next()?;
            match event.data {
                EventData::StreamEnd => return Ok(self.tree),
                EventData::DocumentStart { .. } => {
                    let at = place(event.start_mark);
                    if let Some(first) = first {
                        return Err(diagnostics::second_document(at, first));
                    }
                    first = Some(at);
                    let event = self.next()?;
                    self.tree.root = Some(self.node(event)?);
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event) -> Result<YamlNodeId, YamlError> {
        let at = place(event.start_mark);
        let end = event.end_mark;
        match event.data {
            EventData::Alias { anchor } => self.alias(&anchor, at),
            EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                let value = self.without_added_break(value, style, event.start_mark, end);
                let tag = YamlTag::for_scalar(tag, &value, plain_implicit);
                self.add(at, tag, NodeKind::Scalar(value), anchor)
            }
            EventData::SequenceStart { anchor, tag, .. } => {
                let id = self.add(at, YamlTag::for_list(tag), NodeKind::Open, anchor)?;
                self.enter(at)?;
                let mut items = Vec::new();
                loop {
                    let event = self.next()?;
                    if matches!(event.data, EventData::SequenceEnd) {
                        break;
                    }
                    items.push(self.node(event)?);
                }
                self.depth += 1;
                self.tree.nodes[id].kind = NodeKind::List(items);
                Ok(id)
            }
            EventData::MappingStart { anchor, tag, .. } => {
                let id = self.add(at, YamlTag::for_map(tag), NodeKind::Open, anchor)?;
                self.enter(at)?;
                let mut pairs = Vec::new();
                loop {
                    let event = self.next()?;
                    if matches!(event.data, EventData::MappingEnd) {
                        break;
                    }
                    let key = self.node(event)?;
                    let event = self.next()?;
                    pairs.push((key, self.node(event)?));
                }
                self.depth += 1;
                self.tree.nodes[id].kind = NodeKind::Map(pairs);
                Ok(id)
            }
            _ => Err(YamlError::new(code::YAML_SYNTAX, "expected a value here", at)),
        }
    }

    fn enter(&mut self, at: Pos) -> Result<(), YamlError> {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| limits::too_deep(at))?;
        Ok(())
    }

    fn add(
        &mut self,
        at: Pos,
        tag: YamlTag,
        kind: NodeKind,
        anchor: Option<String>,
    ) -> Result<YamlNodeId, YamlError> {
        let id = self.tree.nodes.len();
        if id >= self.most {
            return Err(limits::too_many(at));
        }
        let is_anchored = anchor.is_some();
        if let Some(anchor) = anchor {
            if let Some(&first) = self.anchors.get(&anchor) {
                return Err(diagnostics::duplicate_anchor(&anchor, at, self.tree.nodes[first].at));
            }
            if self.anchors.len() >= self.most / NODES_OF_AN_ANCHOR {
                return Err(limits::too_many(at));
            }
            self.anchors.insert(anchor, id);
        }
        self.tree.nodes.push(YamlNode { at, tag, kind, is_anchored });
        Ok(id)
    }

    fn alias(&self, anchor: &str, at: Pos) -> Result<YamlNodeId, YamlError> {
        let Some(&id) = self.anchors.get(anchor) else {
            return Err(diagnostics::unknown_alias(anchor, at, self.anchors.keys().map(String::as_str)));
        };
        if matches!(self.tree.nodes[id].kind, NodeKind::Open) {
            return Err(diagnostics::alias_in_itself(anchor, at, self.tree.nodes[id].at));
        }
        Ok(id)
    }

    /// Removes the line break that [`TextFeed`] added after the text, where a block scalar includes it.
    fn without_added_break(&self, mut value: String, style: ScalarStyle, start: Mark, end: Mark) -> String {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let reaches_end = usize::try_from(end.index).is_ok_and(|n| n > self.text.len());
        if !is_block || !reaches_end || !value.ends_with('\n') || self.text.ends_with(BREAKS) {
            return value;
        }
        let start = usize::try_from(start.index).unwrap_or(0);
        let header = self.text.get(start..).and_then(|t| t.lines().next()).unwrap_or_default();
        let mut indicators = header.chars().skip_while(|c| !matches!(c, '|' | '>')).skip(1).take(2);
        let last = self.text.rsplit(BREAKS).next().unwrap_or_default();
        let is_text = |line: &str| line.contains(|c| c != ' ');
        let shown = value[..value.len() - 1].rsplit('\n').next().unwrap_or_default();
        if indicators.any(|c| c == '+') || is_text(last) || (!shown.is_empty() && !is_text(shown)) {
            value.pop();
        }
        value
    }
}

//! One pillar SLS in, its mapping with the includes merged under it out.

use std::sync::Arc;

use zagent_config::codes::pillar as codes;
use zagent_config::{Map, Value};

use super::{PillarCompiler, ReadDocuments};
use crate::session::ReadRequest;
use crate::source_files::{ReachedBy, RenderedPos};

/// Maximum nesting of pillar includes.
const INCLUDE_DEPTH: usize = 100;

/// The SLS whose includes are followed.
struct IncludeParent<'i> {
    env: &'i Arc<str>,
    sls: &'i Arc<str>,
    is_init: bool,
    spot: RenderedPos,
}

impl PillarCompiler<'_> {
    /// Reports an `include` that is not a list.
    fn add_bad_include(&mut self, sls: &str, include: &Value, spot: RenderedPos) {
        let text = format!("`include` in the pillar SLS `{sls}` must be a list, not {}", include.kind());
        let diagnostic = self.session.diagnostic(codes::INCLUDE_NOT_LIST, spot, text);
        let diagnostic = diagnostic.hint("put a dash before each name: `- name.of.sls`");
        self.add_error(format!("Include Declaration in SLS '{sls}' is not formed as a list"), diagnostic);
    }

    /// Reads one pillar SLS with its includes merged under it; `None` when there is nothing to merge.
    pub(super) fn read_sls(
        &mut self,
        env: &Arc<str>,
        sls: &Arc<str>,
        reached: ReachedBy,
        seen: &mut ReadDocuments,
        variables: &Map,
    ) -> Option<Value> {
        let Some(path) = self.session.locate(env, sls) else {
            if self.ignored.get(env).is_some_and(|i| i.contains(sls)) || !self.session.has_env(env) {
                return None;
            }
            self.add_missing(env, sls, &reached);
            seen.insert(sls.clone(), Value::empty_map());
            return Some(Value::empty_map());
        };
        let is_init = path.ends_with("/init.sls");
        let read = ReadRequest { env: env.clone(), sls: sls.clone(), path, reached };
        let (file, document) = self.session.read_with(read, variables.clone());
        let document = match document {
            Ok(document) => document,
            Err(diagnostic) => {
                self.add_error(
                    format!("Rendering SLS '{sls}' failed. Please see master log for details."),
                    *diagnostic,
                );
                seen.insert(sls.clone(), Value::Null);
                return None;
            }
        };
        let Value::Map(map) = document else {
            let text = format!("the pillar SLS `{sls}` must render to a mapping, not to {}", document.kind());
            let diagnostic =
                self.session.diagnostic(codes::NOT_A_MAPPING, self.session.document_start(file), text);
            let diagnostic = self.session.masked(diagnostic, file).hint("write pillar as `key: value` lines");
            self.add_error(format!("SLS '{sls}' does not render to a dictionary"), diagnostic);
            seen.insert(sls.clone(), document);
            return None;
        };
        let mut own = Arc::unwrap_or_clone(map);
        let include = own.entry("include").map(|e| (e.value.clone(), e.at));
        let includes = match include {
            Some((Value::List(list), at)) => {
                own.remove("include");
                Some((list, at))
            }
            Some((other, at)) => {
                self.add_bad_include(sls, &other, RenderedPos { file, pos: at });
                None
            }
            None => None,
        };
        let own = Value::from(own);
        seen.insert(sls.clone(), own.clone());
        let Some((list, at)) = includes else {
            self.documents.push((file, own.clone()));
            return Some(own);
        };
        let including = IncludeParent { env, sls, is_init, spot: RenderedPos { file, pos: at } };
        let overrides = self.session.options().pillar_includes_override;
        let below = overrides.then(|| own.clone());
        let merged = self.merge_includes(&including, &list, below, (seen, variables));
        self.documents.push((file, own.clone()));
        Some(match merged {
            Some(merged) if overrides => merged,
            Some(merged) => self.merge(&merged, &own),
            None => own,
        })
    }

    /// The content of an include list, merged in order, on top of `merged`.
    fn merge_includes(
        &mut self,
        by: &IncludeParent<'_>,
        list: &zagent_config::List,
        mut merged: Option<Value>,
        (seen, variables): (&mut ReadDocuments, &Map),
    ) -> Option<Value> {
        // Salt applies the defaults of one include to the plain ones after it as well.
        let mut defaults = variables.clone();
        for (i, item) in list.iter().enumerate() {
            let pos = if list.pos(i).is_known() { list.pos(i) } else { by.spot.pos };
            let spot = RenderedPos { pos, ..by.spot };
            let Some((name, key)) = self.include_item(by, item, spot, &mut defaults) else { continue };
            for sls in self.resolve_include(by, &name) {
                let document = match seen.get(&sls) {
                    Some(document) => Some(document.clone()),
                    None if self.depth >= INCLUDE_DEPTH => {
                        let text = format!("the include of `{sls}` is nested too deep");
                        let diagnostic =
                            self.session.diagnostic(zagent_config::codes::limit::INCLUDES, spot, text);
                        self.add_error(
                            format!("Rendering SLS '{sls}' failed. Please see master log for details."),
                            diagnostic,
                        );
                        None
                    }
                    None => {
                        self.depth += 1;
                        let document =
                            self.read_sls(by.env, &sls, ReachedBy::Included { spot }, seen, &defaults);
                        self.depth -= 1;
                        document
                    }
                };
                let Some(mut document) = document.filter(Value::is_truthy) else { continue };
                for part in key.iter().flat_map(|k| k.rsplit(':')) {
                    document = crate::high::single_entry(part, document);
                }
                merged = Some(match merged {
                    Some(merged) => self.merge(&merged, &document),
                    None => document,
                });
            }
        }
        merged
    }

    /// The name and key of an include item; its defaults go into `defaults`.
    fn include_item(
        &mut self,
        by: &IncludeParent<'_>,
        item: &Value,
        spot: RenderedPos,
        defaults: &mut Map,
    ) -> Option<(String, Option<String>)> {
        let malformed = |text: String| (text, spot);
        let (text, spot) = match item {
            Value::Str(name) => return Some((name.to_string(), None)),
            Value::Map(map) => match map.iter().next() {
                Some((Value::Str(name), Value::Map(how))) => {
                    *defaults = how.get("defaults").and_then(Value::as_map).cloned().unwrap_or_default();
                    let key = how.get("key").and_then(Value::as_str).map(str::to_string);
                    return Some((name.to_string(), key));
                }
                Some((name, _)) => {
                    malformed(format!("the include of `{}` must be followed by a mapping", name.json_key()))
                }
                None => malformed("an include is an empty mapping".into()),
            },
            other => malformed(format!("an item of `include` must be a name, not {}", other.kind())),
        };
        let diagnostic = self.session.diagnostic(codes::INCLUDE_ITEM, spot, text);
        let diagnostic = diagnostic.hint("write `- name`, or\n- name:\n    key: where\n    defaults: {…}");
        self.add_error(
            format!("Rendering SLS '{}' failed. Please see master log for details.", by.sls),
            diagnostic,
        );
        None
    }

    /// The SLS of an include: by its plain name and, when relative, by its full name. Salt uses both.
    fn resolve_include(&mut self, by: &IncludeParent<'_>, name: &str) -> Vec<Arc<str>> {
        let plain = name.trim_start_matches('.').replace('/', ".");
        let full = match name.strip_prefix('.') {
            None => name.to_string(),
            Some(rest) => {
                let mut parts: Vec<&str> = by.sls.split('.').collect();
                if !by.is_init {
                    parts.pop();
                }
                parts.push(rest);
                parts.join(".")
            }
        };
        let mut found = self.available_sls(by.env, &plain);
        found.extend(self.available_sls(by.env, &full));
        if found.is_empty() { vec![full.into()] } else { found }
    }
}

//! merge: selected SLS in, high data out: follows includes, numbers ids, collects extends and excludes.
//!
//! The same SLS is never read twice, and numbering starts at the end of an include chain.

pub(crate) mod exclude;
pub(crate) mod extend;

use std::sync::Arc;

use hashbrown::HashSet;
use zagent_config::codes::{declaration, limit, merge as codes};
use zagent_config::value::MapEntry;
use zagent_config::{Diagnostic, Diagnostics, List, Map, Pos, Value, glob};

use crate::high::{Exclusion, Extension, HighData, IdDecl, StateDecl, first_key, list_mut, single_entry};
use crate::select::TopMatches;
use crate::session::{CompileSession, ReadRequest};
use crate::source_files::{FileId, ReachedBy, RenderedPos};

/// The first automatic order number.
const FIRST_ORDER: i64 = 10_000;

/// Maximum nesting of includes.
const INCLUDE_DEPTH: usize = 200;

/// Reads every selected SLS and all it includes.
pub(crate) fn merge(session: &CompileSession, matches: &TopMatches) -> (HighData, Diagnostics) {
    let mut merger = SlsMerger {
        session,
        matches,
        order: FIRST_ORDER,
        seen: HashSet::new(),
        diagnostics: Diagnostics::default(),
        depth: 0,
    };
    let mut high = HighData::default();
    for (env, selected) in &matches.envs {
        for one in selected {
            for sls in merger.resolve_pattern(env, &one.sls, &one.reached) {
                if !merger.seen.contains(&sls_key(env, &sls)) {
                    let state = merger.read_sls(env, &sls, one.reached.clone());
                    merger.merge_sls(&mut high, state);
                }
            }
        }
    }
    drop_repeated(&mut high.extend);
    (high, merger.diagnostics)
}

/// The key of a line as it was written: `yes` of `yes:`.
fn written_key(line: &str) -> Option<String> {
    let (key, _) = line.trim_start().split_once(':')?;
    Some(key.to_string()).filter(|key| !key.is_empty() && !key.contains(['{', '\'', '"']))
}

fn sls_key(env: &str, sls: &str) -> String {
    format!("{env}:{sls}")
}

/// The same extension, read through two includes, is applied once.
fn drop_repeated(extend: &mut Vec<Extension>) {
    let mut kept: Vec<Extension> = Vec::with_capacity(extend.len());
    for extension in extend.drain(..) {
        if !kept.contains(&extension) {
            kept.push(extension);
        }
    }
    *extend = kept;
}

struct SlsMerger<'s> {
    session: &'s CompileSession,
    matches: &'s TopMatches,
    order: i64,
    seen: HashSet<String>,
    diagnostics: Diagnostics,
    depth: usize,
}

/// One item of an include list: the environment it names, the SLS, and its position.
struct IncludeItem {
    env: Option<Arc<str>>,
    sls: String,
    spot: RenderedPos,
}

impl SlsMerger<'_> {
    /// The SLS that match a name or pattern of a top file.
    fn resolve_pattern(&mut self, env: &Arc<str>, name: &str, reached: &ReachedBy) -> Vec<Arc<str>> {
        if !self.session.has_env(env) {
            let diagnostic = Diagnostic::new(codes::UNKNOWN_ENV, format!("environment `{env}` not found"))
                .hint(format!("environments: {}", self.session.envs().join(", ")));
            self.diagnostics.push(self.session.at_requester(diagnostic, reached));
            return Vec::new();
        }
        let found = if glob::is_pattern(name) { self.available_sls(env, name) } else { Vec::new() };
        if found.is_empty() { vec![name.into()] } else { found }
    }

    fn available_sls(&mut self, env: &str, pattern: &str) -> Vec<Arc<str>> {
        match self.session.available_sls(env) {
            Ok(all) => all.iter().filter(|sls| glob::matches(pattern, sls)).cloned().collect(),
            Err(diagnostic) => {
                self.diagnostics.push(*diagnostic);
                Vec::new()
            }
        }
    }

    /// Reads one SLS and its includes; errors are reported, and what could be read is returned.
    fn read_sls(&mut self, env: &Arc<str>, sls: &Arc<str>, reached: ReachedBy) -> HighData {
        let mut high = HighData::default();
        if self.depth >= INCLUDE_DEPTH || self.session.is_limit_reached() {
            // Report this error once: such a tree exceeds the limit in many places.
            if self.diagnostics.0.iter().any(|diagnostic| diagnostic.code == limit::INCLUDES) {
                return high;
            }
            let diagnostic = if self.depth >= INCLUDE_DEPTH {
                let text = format!("`{sls}` is included through {INCLUDE_DEPTH} levels");
                Diagnostic::new(limit::INCLUDES, text).hint("look for a chain of includes made by a loop")
            } else {
                let most = self.session.options().limits.files;
                let text = format!("`{sls}` exceeds the limit of {most} files per compile");
                Diagnostic::new(limit::INCLUDES, text)
                    .hint("if the tree has to be this large, raise `limits.files`")
            };
            self.diagnostics.push(self.session.at_requester(diagnostic, &reached));
            return high;
        }
        let Some(path) = self.session.locate(env, sls) else {
            self.diagnostics.push(self.missing_sls(env, sls, &reached));
            return high;
        };
        let read = ReadRequest { env: env.clone(), sls: sls.clone(), path, reached };
        let (file, document) = self.session.read(read);
        self.seen.insert(sls_key(env, sls));
        let document = match document {
            Ok(document) => document,
            Err(diagnostic) => {
                self.diagnostics.push(*diagnostic);
                return high;
            }
        };
        let map = match document {
            Value::Map(map) => Arc::unwrap_or_clone(map),
            other if !other.is_truthy() => return high,
            other => {
                let spot = self.session.document_start(file);
                let text = format!("`{sls}` must render to a mapping of ids, not to {}", other.kind());
                self.diagnostics.push(self.session.diagnostic(codes::NOT_A_MAPPING, spot, text));
                return high;
            }
        };
        let sls_ctx = SlsContext { sls: sls.clone(), env: env.clone(), file };
        let includes = self.split_document(map, &sls_ctx, &mut high);
        let ids: Vec<Arc<str>> = high.iter().map(|(id, _)| id.clone()).collect();
        self.depth += 1;
        for include in includes {
            self.merge_include(include, &sls_ctx, &mut high);
        }
        self.depth -= 1;
        if self.session.options().auto_order {
            for id in &ids {
                if let Some(body) = high.get_mut(id) {
                    assign_order(body, &mut self.order);
                }
            }
        }
        high
    }

    fn missing_sls(&self, env: &str, sls: &str, reached: &ReachedBy) -> Diagnostic {
        let diagnostic =
            Diagnostic::new(codes::NOT_FOUND, format!("SLS `{sls}` not found in environment `{env}`"));
        let all = self.session.available_sls(env).unwrap_or_default();
        let path = sls.replace('.', "/");
        let diagnostic = match zagent_config::suggest::nearest(sls, all.iter().map(|s| &**s)) {
            Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
            None => diagnostic.hint(format!("create `{path}.sls` or `{path}/init.sls`, or correct the name")),
        };
        self.session.at_requester(diagnostic, reached)
    }

    /// Splits a document into includes, extends, excludes and ids.
    fn split_document(
        &mut self,
        mut map: Map,
        sls_ctx: &SlsContext,
        high: &mut HighData,
    ) -> Vec<IncludeItem> {
        let mut includes = Vec::new();
        for entry in map.take_entries() {
            let MapEntry { key, value, at } = entry;
            let spot = RenderedPos { file: sls_ctx.file, pos: at };
            match key.as_str() {
                Some("include") => includes = self.parse_includes(value, spot, sls_ctx),
                Some("extend") => self.parse_extends(value, spot, sls_ctx, high),
                Some("exclude") => self.parse_excludes(value, spot, high),
                Some(_) => self.add_id(key, value, spot, sls_ctx, high),
                None => {
                    let text = format!(
                        "the id `{}` in `{}` must be a string, not {}",
                        key.json_key(),
                        sls_ctx.sls,
                        key.kind()
                    );
                    let diagnostic = self.session.diagnostic(declaration::ID_NOT_STRING, spot, text);
                    let written = diagnostic.excerpts.last().and_then(|e| written_key(&e.text));
                    let hint = format!("quote it: `'{}':`", written.unwrap_or_else(|| key.json_key()));
                    self.diagnostics.push(diagnostic.hint(hint));
                }
            }
        }
        includes
    }

    fn parse_includes(&mut self, value: Value, spot: RenderedPos, sls_ctx: &SlsContext) -> Vec<IncludeItem> {
        let Value::List(list) = value else {
            let text = format!("`include` in `{}` must be a list, not {}", sls_ctx.sls, value.kind());
            let diagnostic = self.session.diagnostic(codes::INCLUDE_NOT_LIST, spot, text);
            self.diagnostics.push(diagnostic.hint("put a dash before each name: `- name.of.sls`"));
            return Vec::new();
        };
        let mut includes = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            let at = if list.pos(i).is_known() { list.pos(i) } else { spot.pos };
            let spot = RenderedPos { file: sls_ctx.file, pos: at };
            let (env, name) = match item {
                Value::Map(map) => match map.iter().next_back() {
                    Some((env, name)) => (env.as_str().map(Arc::from), name),
                    None => (None, item),
                },
                other => (None, other),
            };
            match name.as_str() {
                Some(sls) if !sls.is_empty() => {
                    includes.push(IncludeItem { env, sls: sls.to_string(), spot });
                }
                _ => {
                    let text = format!(
                        "an item of `include` in `{}` must be a name, not {}",
                        sls_ctx.sls,
                        name.kind()
                    );
                    let diagnostic = self.session.diagnostic(codes::INCLUDE_ITEM, spot, text);
                    self.diagnostics.push(diagnostic.hint("write a name, or `environment: name`"));
                }
            }
        }
        includes
    }

    fn parse_extends(&mut self, value: Value, spot: RenderedPos, sls_ctx: &SlsContext, high: &mut HighData) {
        let Value::Map(map) = value else {
            let text =
                format!("`extend` in `{}` must be a mapping of ids, not {}", sls_ctx.sls, value.kind());
            let diagnostic = self.session.diagnostic(codes::EXTEND_NOT_MAPPING, spot, text);
            self.diagnostics.push(diagnostic.hint("write `ID:`, and below it what to add to that state"));
            return;
        };
        for MapEntry { key, value, at } in Arc::unwrap_or_clone(map).take_entries() {
            let spot = RenderedPos { file: sls_ctx.file, pos: at };
            let (Some(id), Value::Map(body)) = (key.as_str(), value) else {
                let text = format!(
                    "`extend` of `{}` in `{}` is not a mapping of states",
                    key.json_key(),
                    sls_ctx.sls
                );
                self.diagnostics.push(self.session.diagnostic(codes::EXTEND_NOT_MAPPING, spot, text));
                continue;
            };
            if let Some(body) =
                self.build_body(id, Arc::unwrap_or_clone(body), spot, sls_ctx, DottedKeys::Any)
            {
                high.extend.push(Extension { id: id.into(), body });
            }
        }
    }

    fn parse_excludes(&mut self, value: Value, spot: RenderedPos, high: &mut HighData) {
        let Value::List(list) = value else {
            let text = format!("`exclude` must be a list, not {}", value.kind());
            let diagnostic = self.session.diagnostic(codes::EXCLUDE_NOT_LIST, spot, text);
            self.diagnostics.push(diagnostic.hint("write a list of `- sls: NAME` or `- id: ID`"));
            return;
        };
        for (i, item) in list.iter().enumerate() {
            let pos = if list.pos(i).is_known() { list.pos(i) } else { spot.pos };
            high.exclude.push(Exclusion { item: item.clone(), spot: RenderedPos { pos, ..spot } });
        }
    }

    fn add_id(
        &mut self,
        key: Value,
        value: Value,
        spot: RenderedPos,
        sls_ctx: &SlsContext,
        high: &mut HighData,
    ) {
        let Value::Str(id) = key else { return };
        let body = match value {
            Value::Map(map) => {
                self.build_body(&id, Arc::unwrap_or_clone(map), spot, sls_ctx, DottedKeys::Once)
            }
            Value::Str(short) if short.contains('.') => {
                let mut parts = short.split('.');
                let (module, function) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let args = Value::from(vec![Value::from(function)]);
                Some(sls_ctx.new_body(spot.pos, vec![StateDecl { key: module.into(), args, at: spot.pos }]))
            }
            other => {
                let text =
                    format!("`{id}` in `{}` must be a mapping of states, not {}", sls_ctx.sls, other.kind());
                let diagnostic = self.session.diagnostic(declaration::BODY, spot, text);
                self.diagnostics
                    .push(diagnostic.hint(format!("write\n{id}:\n  module.function:\n    - key: value")));
                None
            }
        };
        if let Some(body) = body {
            high.insert(id, body);
        }
    }

    /// Splits dotted keys: `file.managed: [...]` becomes `file: [..., managed]`, after the undotted ones.
    fn build_body(
        &mut self,
        id: &str,
        mut map: Map,
        spot: RenderedPos,
        sls_ctx: &SlsContext,
        split: DottedKeys,
    ) -> Option<IdDecl> {
        let mut body = sls_ctx.new_body(spot.pos, Vec::with_capacity(map.len()));
        let mut keys: Vec<Arc<str>> = Vec::new();
        let mut sound = true;
        let mut dotted = Vec::new();
        for MapEntry { key, mut value, at } in map.take_entries() {
            let Value::Str(key) = key else {
                let text =
                    format!("a key of `{id}` in `{}` must be a string, not {}", sls_ctx.sls, key.kind());
                let diagnostic = self.session.diagnostic(declaration::KEY_NOT_STRING, sls_ctx.spot(at), text);
                self.diagnostics.push(diagnostic.hint("write `module.function:`"));
                sound = false;
                continue;
            };
            let is_list = matches!(value, Value::List(_));
            match (&*key, &value) {
                ("__sls__", Value::Str(sls)) => body.sls = sls.clone(),
                ("__env__", Value::Str(env)) => body.env = env.clone(),
                _ if key.starts_with('_') || !is_list => body.decls.push(StateDecl { key, args: value, at }),
                _ => {
                    let mut parts = key.split('.');
                    let module: Arc<str> = parts.next().unwrap_or_default().into();
                    let Some(function) = parts.next() else {
                        keys.push(key.clone());
                        body.decls.push(StateDecl { key, args: value, at });
                        continue;
                    };
                    if split == DottedKeys::Once && keys.contains(&module) {
                        self.diagnostics.push(self.duplicate_module(id, &module, sls_ctx.spot(at)));
                        sound = false;
                        continue;
                    }
                    keys.push(module.clone());
                    if let Some(list) = list_mut(&mut value) {
                        list.push_at(function.into(), at);
                    }
                    dotted.push(StateDecl { key: module, args: value, at });
                }
            }
        }
        // A dotted key takes the position of a later undotted key of the same name, otherwise it goes to the end.
        for decl in dotted {
            match body.decl_mut(&decl.key) {
                Some(old) => *old = decl,
                None => body.decls.push(decl),
            }
        }
        sound.then_some(body)
    }

    fn duplicate_module(&self, id: &str, module: &str, spot: RenderedPos) -> Diagnostic {
        let text = format!("`{id}` declares `{module}` twice");
        self.session
            .diagnostic(declaration::SAME_MODULE, spot, text)
            .hint("use one function per module and id: declare a second id")
    }

    fn merge_include(&mut self, include: IncludeItem, sls_ctx: &SlsContext, high: &mut HighData) {
        let Some(sls) = self.resolve_relative(&include, sls_ctx) else { return };
        let Some(env) = self.resolve_env(&include, &sls, sls_ctx) else { return };
        let found = if glob::is_pattern(&sls) { self.available_sls(&sls_ctx.env, &sls) } else { Vec::new() };
        let targets = if found.is_empty() { vec![Arc::from(sls)] } else { found };
        for target in targets {
            if self.seen.contains(&sls_key(&env, &target)) {
                continue;
            }
            let mut state = self.read_sls(&env, &target, ReachedBy::Included { spot: include.spot });
            for (_, body) in state.iter_mut() {
                body.included_from.push(sls_ctx.sls.clone());
            }
            self.merge_sls(high, state);
        }
    }

    /// Resolves leading dots against the including SLS.
    fn resolve_relative(&mut self, include: &IncludeItem, sls_ctx: &SlsContext) -> Option<String> {
        let rest = include.sls.trim_start_matches('.');
        let levels = include.sls.len() - rest.len();
        if levels == 0 {
            return Some(include.sls.clone());
        }
        let mut parts: Vec<&str> = sls_ctx.sls.split('.').collect();
        if self.session.path(sls_ctx.file).ends_with("/init.sls") {
            parts.push("init");
        }
        if levels > parts.len() {
            let text = format!("`{}` in `{}` goes above the root of the tree", include.sls, sls_ctx.sls);
            self.diagnostics.push(self.session.diagnostic(codes::ABOVE_ROOT, include.spot, text));
            return None;
        }
        parts.truncate(parts.len() - levels);
        parts.push(rest);
        Some(parts.join("."))
    }

    /// The environment of an include.
    fn resolve_env(&mut self, include: &IncludeItem, sls: &str, sls_ctx: &SlsContext) -> Option<Arc<str>> {
        let Some(named) = &include.env else { return Some(sls_ctx.env.clone()) };
        if &**named == "_xenv" {
            return self.resolve_any_env(include, sls, sls_ctx);
        }
        if !self.session.has_env(named) {
            let text = format!("cannot include `{sls}`: environment `{named}` not found");
            let diagnostic = self.session.diagnostic(codes::UNKNOWN_ENV, include.spot, text);
            let envs = self.session.envs();
            let near = zagent_config::suggest::nearest(named, envs.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("environments: {}", envs.join(", ")),
            };
            self.diagnostics.push(diagnostic.hint(hint));
            return None;
        }
        if self.matches.has_env(named) || !self.available_sls(named, sls).is_empty() {
            return Some(named.clone());
        }
        let text = format!("SLS `{sls}` not found in environment `{named}`");
        self.diagnostics.push(self.session.diagnostic(codes::NOT_FOUND, include.spot, text));
        None
    }

    /// `_xenv`: the one selected environment that has it, or the current one if it is among them.
    fn resolve_any_env(
        &mut self,
        include: &IncludeItem,
        sls: &str,
        sls_ctx: &SlsContext,
    ) -> Option<Arc<str>> {
        let envs: Vec<Arc<str>> = self.matches.envs.iter().map(|(env, _)| env.clone()).collect();
        let having: Vec<Arc<str>> =
            envs.into_iter().filter(|env| !self.available_sls(env, sls).is_empty()).collect();
        match having.as_slice() {
            [only] => Some(only.clone()),
            _ if having.contains(&sls_ctx.env) => Some(sls_ctx.env.clone()),
            [] => {
                let text = format!("SLS `{sls}` not found in any selected environment");
                self.diagnostics.push(self.session.diagnostic(codes::NOT_FOUND, include.spot, text));
                None
            }
            several => {
                let text = format!("SLS `{sls}` exists in several environments: {}", several.join(", "));
                let diagnostic = self.session.diagnostic(codes::AMBIGUOUS, include.spot, text);
                self.diagnostics.push(diagnostic.hint("name one of them: `- environment: sls`"));
                None
            }
        }
    }

    /// Merges one SLS into the high data; an id that already exists is an error that names both places.
    fn merge_sls(&mut self, high: &mut HighData, mut state: HighData) {
        high.extend.append(&mut state.extend);
        high.exclude.append(&mut state.exclude);
        for (id, body) in state.into_ids() {
            if let Some(first) = high.get(&id)
                && *first != body
            {
                let text =
                    format!("the id `{id}` is declared twice, in `{}` and in `{}`", first.sls, body.sls);
                let diagnostic = self.session.diagnostic(codes::CONFLICT, body.spot(), text);
                let place = self.session.place(first.spot());
                let diagnostic = diagnostic.note(format!("first declared here: {place}"));
                self.diagnostics.push(
                    diagnostic.hint("ids must be unique across all SLS: rename one and give it a `name:`"),
                );
            }
            high.insert(id, body);
        }
    }
}

/// Whether two dotted keys of one module under one id are an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DottedKeys {
    Once,
    Any,
}

/// The SLS that is being read.
struct SlsContext {
    sls: Arc<str>,
    env: Arc<str>,
    file: FileId,
}

impl SlsContext {
    fn new_body(&self, at: Pos, decls: Vec<StateDecl>) -> IdDecl {
        IdDecl {
            sls: self.sls.clone(),
            env: self.env.clone(),
            file: self.file,
            at,
            included_from: Vec::new(),
            decls,
        }
    }

    fn spot(&self, pos: Pos) -> RenderedPos {
        RenderedPos { file: self.file, pos }
    }
}

/// Gives every state without an explicit order the next number.
fn assign_order(body: &mut IdDecl, next: &mut i64) {
    for decl in body.decls.iter_mut().filter(|d| !d.key.starts_with('_')) {
        let Some(args): Option<&mut List> = list_mut(&mut decl.args) else { continue };
        if !args.iter().any(|arg| first_key(arg).is_some_and(|(key, ..)| key == "order")) {
            args.push(single_entry("order", *next));
            *next += 1;
        }
    }
}

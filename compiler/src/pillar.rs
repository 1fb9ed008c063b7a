//! Pillar trees in, one mapping out: top files, includes with keys and defaults, merge strategies, external pillars.
//!
//! What Salt puts into `_errors` is collected, not returned as an error: the caller decides whether to stop.

use std::collections::HashMap;
use std::sync::Arc;

use zagent_config::codes::pillar as codes;
use zagent_config::target::TargetSubject;
use zagent_config::value::{MapEntry, MergeStrategy, merge, traverse};
use zagent_config::{Diagnostic, FileLocation, Map, Pos, Value, glob};

use crate::input::Cipher;
use crate::select::{TOP_FILE, TopPattern, matches_node};
use crate::session::{CompileSession, ReadRequest, render};
use crate::source_files::{FileId, ReachedBy, RenderedPos};

/// Maximum nesting of pillar includes.
const INCLUDE_DEPTH: usize = 100;

/// A pillar error: zagent's diagnostic, and the line that Salt stores in `_errors`.
#[derive(Clone, Debug)]
pub(crate) struct PillarError {
    pub(crate) salt_message: String,
    pub(crate) diagnostic: Diagnostic,
}

/// A compiled pillar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pillar {
    /// The data.
    pub(crate) value: Map,
    /// Its errors.
    pub(crate) errors: Vec<PillarError>,
    /// Each document that was merged, in order, to find where a key is set.
    documents: Vec<(FileId, Value)>,
}

impl Pillar {
    /// The pillar with Salt's `_errors` in it, if there are any.
    pub(crate) fn with_errors(&self) -> Value {
        let mut map = self.value.clone();
        if !self.errors.is_empty() {
            map.insert(
                "_errors",
                self.errors.iter().map(|t| Value::from(t.salt_message.clone())).collect::<Value>(),
            );
        }
        map.into()
    }

    /// A second pass over this pillar: its keys win, and what only the first pass had stays, including errors.
    pub(crate) fn merged_with(mut self, second: Self) -> Self {
        for (key, value) in second.value.iter() {
            self.value.insert(key.clone(), value.clone());
        }
        let errors = if second.errors.is_empty() { self.errors } else { second.errors };
        Self { value: self.value, errors, documents: second.documents }
    }

    /// Where a nested key is set: the last document that has it.
    pub(crate) fn origin(&self, session: &CompileSession, path: &str) -> Option<FileLocation> {
        let (parent, key) = path.rsplit_once(':').map_or((None, path), |(p, k)| (Some(p), k));
        self.documents.iter().rev().find_map(|(file, document)| {
            let holder = match parent {
                Some(parent) => traverse(document, parent, ":")?,
                None => document,
            };
            let entry = holder.as_map()?.entry(key)?;
            Some(session.place(RenderedPos { file: *file, pos: entry.at }))
        })
    }
}

/// Compiles the pillar of a node; `over` is merged over the trees.
pub(crate) fn compile(session: &CompileSession, subject: &dyn TargetSubject, over: &Map) -> Pillar {
    let mut compiler = PillarCompiler {
        session,
        errors: Vec::new(),
        ignored: HashMap::new(),
        documents: Vec::new(),
        depth: 0,
    };
    let over = Value::from(over.clone());
    let resource = session.options().resource.as_ref();
    let mut pillar = match resource.and_then(|resource| resource.pillar.clone()) {
        Some(given) => given.into(),
        None => compiler.compile_trees(subject, &over),
    };
    if over.is_truthy() {
        pillar = compiler.merge(&pillar, &over);
    }
    pillar = compiler.decrypt_keys(&pillar);
    let mut value = match pillar {
        Value::Map(map) => Arc::unwrap_or_clone(map),
        _ => Map::new(),
    };
    // How the node reaches its resources is nothing for the resources themselves.
    if resource.is_some() {
        value.remove(&session.options().resources_key);
    }
    Pillar { value, errors: compiler.errors, documents: compiler.documents }
}

struct PillarCompiler<'s> {
    session: &'s CompileSession,
    errors: Vec<PillarError>,
    /// SLS that may be missing, by environment.
    ignored: HashMap<Arc<str>, Vec<Arc<str>>>,
    documents: Vec<(FileId, Value)>,
    depth: usize,
}

/// The SLS of one environment that were selected, each with what selected it.
type EnvSelection = (Arc<str>, Vec<(Arc<str>, ReachedBy)>);

/// The documents of one environment that were read, by SLS; includes removed.
type ReadDocuments = HashMap<Arc<str>, Value>;

impl PillarCompiler<'_> {
    /// What the top files and the external pillars give.
    fn compile_trees(&mut self, subject: &dyn TargetSubject, over: &Value) -> Value {
        let (patterns, top_troubles) = self.read_tops();
        let matches = self.match_targets(&patterns, subject);
        let mut pillar = Value::empty_map();
        for (env, names) in matches {
            pillar = self.merge_env(&env, &names, pillar);
        }
        pillar = self.add_external_pillar(pillar, over);
        self.errors.extend(top_troubles);
        pillar
    }

    fn merge(&self, base: &Value, over: &Value) -> Value {
        let options = self.session.options();
        merge(base, over, options.pillar_merge, options.pillar_merge_lists)
    }

    fn add_error(&mut self, salt: impl Into<String>, diagnostic: Diagnostic) {
        self.errors.push(PillarError { salt_message: salt.into(), diagnostic });
    }

    /// The targets of all pillar top files, sorted by their `order`.
    fn read_tops(&mut self) -> (Vec<TopPattern>, Vec<PillarError>) {
        let mut errors = Vec::new();
        let mut patterns: Vec<(i64, TopPattern)> = Vec::new();
        for env in self.envs() {
            if !self.session.exists(&env, TOP_FILE) {
                continue;
            }
            let mut wanted: Vec<(String, ReachedBy)> = vec![(TOP_FILE.into(), ReachedBy::Requested)];
            let mut done = Vec::new();
            while let Some((path, reached)) = wanted.pop() {
                let read =
                    ReadRequest { env: env.as_str().into(), sls: "".into(), path: path.clone(), reached };
                let (file, document) = self.session.read(read);
                done.push(path);
                let map = match document {
                    Ok(Value::Map(map)) => map,
                    Ok(other) if !other.is_truthy() => continue,
                    Ok(other) => {
                        let text = format!(
                            "the pillar top file must be a mapping of environments, not {}",
                            other.kind()
                        );
                        let diagnostic = self.session.diagnostic(
                            codes::TOP,
                            RenderedPos { file, pos: Pos::new(1, 1) },
                            text,
                        );
                        errors.push(PillarError {
                            salt_message: "Error encountered while rendering pillar top file.".into(),
                            diagnostic,
                        });
                        continue;
                    }
                    Err(diagnostic) => {
                        let salt = format!(
                            "Rendering Primary Top file failed, render error:\n{}",
                            diagnostic.message
                        );
                        errors.push(PillarError { salt_message: salt, diagnostic: *diagnostic });
                        continue;
                    }
                };
                self.read_top(&map, file, &mut patterns, &mut errors);
                if let Some(Value::List(includes)) = map.get("include") {
                    let spot = RenderedPos { file, pos: map.entry("include").map_or(Pos::NONE, |e| e.at) };
                    for sls in includes.iter().filter_map(Value::as_str) {
                        if let Some(path) = self.session.locate(&env, sls)
                            && !done.contains(&path)
                        {
                            wanted.push((path, ReachedBy::Included { spot }));
                        }
                    }
                }
            }
        }
        patterns.sort_by_key(|(order, _)| *order);
        (patterns.into_iter().map(|(_, p)| p).collect(), errors)
    }

    /// The environments whose top files are used.
    fn envs(&self) -> Vec<String> {
        let options = self.session.options();
        if let Some(env) = &options.pillar_env {
            return if self.session.has_env(env) { vec![env.clone()] } else { Vec::new() };
        }
        let mut envs = vec!["base".to_string()];
        envs.extend(self.session.envs().into_iter().filter(|e| e != "base"));
        if options.pillar_merge == MergeStrategy::None {
            let only = options.state_env.as_deref().unwrap_or("base");
            envs.retain(|e| e == only);
        }
        envs
    }

    fn read_top(
        &mut self,
        map: &Map,
        file: FileId,
        patterns: &mut Vec<(i64, TopPattern)>,
        errors: &mut Vec<PillarError>,
    ) {
        for MapEntry { key, value, at } in map.entries() {
            if key.as_str() == Some("include") {
                continue;
            }
            let env: Arc<str> = match key {
                Value::Str(env) => env.clone(),
                other => other.json_key().into(),
            };
            let Some(targets) = value.as_map() else {
                let text =
                    format!("the environment `{env}` must be a mapping of targets, not {}", value.kind());
                let diagnostic = self.session.diagnostic(codes::TOP, RenderedPos { file, pos: *at }, text);
                let diagnostic = diagnostic.hint("write `'*':` and below it a list of SLS");
                errors.push(PillarError {
                    salt_message: "Error encountered while rendering pillar top file.".into(),
                    diagnostic,
                });
                continue;
            };
            for MapEntry { key, value, at } in targets.entries() {
                let target: Arc<str> = match key {
                    Value::Str(target) => target.clone(),
                    other => other.json_key().into(),
                };
                let spot = RenderedPos { file, pos: *at };
                let (order, items) = self.read_target(&env, value);
                let pattern = TopPattern { env: env.clone(), target, items, spot };
                match patterns.iter_mut().find(|(_, p)| p.env == pattern.env && p.target == pattern.target) {
                    Some(old) => *old = (order, pattern),
                    None => patterns.push((order, pattern)),
                }
            }
        }
    }

    /// The order of a target, and its list: match options first, then every SLS once.
    fn read_target(&mut self, env: &Arc<str>, value: &Value) -> (i64, Value) {
        let list = match value {
            Value::List(list) => (**list).clone(),
            Value::Str(_) => vec![value.clone()].into(),
            _ => zagent_config::List::default(),
        };
        let (mut order, mut ignore) = (0, false);
        let mut options = zagent_config::List::default();
        let mut names: Vec<(Arc<str>, Pos)> = Vec::new();
        for (i, item) in list.iter().enumerate() {
            match item {
                Value::Map(map) => {
                    if map.contains("match") {
                        options.push_at(item.clone(), list.pos(i));
                    }
                    order = match map.get("order") {
                        Some(Value::Int(n)) => *n,
                        Some(Value::Str(s)) => s.trim().parse().unwrap_or(0),
                        Some(_) => 0,
                        None => order,
                    };
                    ignore |= map.get("ignore_missing").is_some_and(Value::is_truthy);
                }
                Value::Str(name) if !names.iter().any(|(n, _)| n == name) => {
                    names.push((name.clone(), list.pos(i)));
                }
                _ => {}
            }
        }
        if ignore {
            self.ignored.entry(env.clone()).or_default().extend(names.iter().map(|(n, _)| n.clone()));
        }
        for (name, at) in names {
            options.push_at(name.into(), at);
        }
        (order, options.into())
    }

    /// The SLS of this node, by environment, each once.
    fn match_targets(&mut self, patterns: &[TopPattern], subject: &dyn TargetSubject) -> Vec<EnvSelection> {
        let mut matches: Vec<EnvSelection> = Vec::new();
        for pattern in patterns {
            if self.session.options().pillar_env.as_deref().is_some_and(|env| env != &*pattern.env) {
                continue;
            }
            let list = pattern.items.as_list().cloned().unwrap_or_default();
            match matches_node(self.session, pattern, &list, subject) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(diagnostic) => {
                    self.add_error(diagnostic.message.clone(), *diagnostic);
                    continue;
                }
            }
            let at = matches.iter().position(|(env, _)| *env == pattern.env).unwrap_or_else(|| {
                matches.push((pattern.env.clone(), Vec::new()));
                matches.len() - 1
            });
            for (i, item) in list.iter().enumerate() {
                let Value::Str(name) = item else { continue };
                if matches[at].1.iter().any(|(n, _)| n == name) {
                    continue;
                }
                let pos = if list.pos(i).is_known() { list.pos(i) } else { pattern.spot.pos };
                let reached = ReachedBy::Matched {
                    spot: RenderedPos { pos, ..pattern.spot },
                    pattern: pattern.target.to_string(),
                };
                matches[at].1.push((name.clone(), reached));
            }
        }
        self.order_envs(&mut matches);
        matches
    }

    /// Environments by `env_order`, the last one wins; then the others in their order.
    fn order_envs(&self, matches: &mut [EnvSelection]) {
        let Some(order) = self.session.options().opts.get("env_order").and_then(Value::as_list) else {
            return;
        };
        let rank = |env: &str| order.iter().position(|o| o.as_str() == Some(env)).unwrap_or(usize::MAX);
        matches.sort_by_key(|(env, _)| rank(env));
    }

    fn merge_env(&mut self, env: &Arc<str>, names: &[(Arc<str>, ReachedBy)], mut pillar: Value) -> Value {
        let known = self.session.has_env(env);
        let mut seen = ReadDocuments::new();
        for (name, reached) in names {
            if !known {
                let diagnostic = Diagnostic::new(codes::ENV, format!("pillar environment `{env}` not found"))
                    .hint(format!("environments: {}", self.session.envs().join(", ")));
                let diagnostic = self.session.at_requester(diagnostic, reached);
                self.add_error(
                    format!("No matching pillar environment for environment '{env}' found"),
                    diagnostic,
                );
            }
            let found =
                if known && glob::is_pattern(name) { self.available_sls(env, name) } else { Vec::new() };
            let found = if found.is_empty() { vec![name.clone()] } else { found };
            for sls in found {
                let document = self.read_sls(env, &sls, reached.clone(), &mut seen, &Map::new());
                if let Some(document @ Value::Map(_)) = document {
                    pillar = self.merge(&pillar, &document);
                }
            }
        }
        pillar
    }

    fn available_sls(&mut self, env: &str, pattern: &str) -> Vec<Arc<str>> {
        match self.session.available_sls(env) {
            Ok(all) => all.iter().filter(|sls| glob::matches(pattern, sls)).cloned().collect(),
            Err(diagnostic) => {
                self.add_error(diagnostic.message.clone(), *diagnostic);
                Vec::new()
            }
        }
    }

    /// Reports a pillar SLS that is not there.
    fn add_missing(&mut self, env: &str, sls: &str, reached: &ReachedBy) {
        let all = self.session.available_sls(env).unwrap_or_default();
        let mut diagnostic =
            Diagnostic::new(codes::NOT_FOUND, format!("pillar SLS `{sls}` not found in environment `{env}`"));
        diagnostic.hint = Some(match zagent_config::suggest::nearest(sls, all.iter().map(|s| &**s)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "if it may be missing, list it with `- ignore_missing: true`".into(),
        });
        let diagnostic = self.session.at_requester(diagnostic, reached);
        self.add_error(
            format!("Specified SLS '{sls}' in environment '{env}' is not available on the salt master"),
            diagnostic,
        );
    }

    /// Reports an `include` that is not a list.
    fn add_bad_include(&mut self, sls: &str, include: &Value, spot: RenderedPos) {
        let text = format!("`include` in the pillar SLS `{sls}` must be a list, not {}", include.kind());
        let diagnostic = self.session.diagnostic(codes::INCLUDE_NOT_LIST, spot, text);
        let diagnostic = diagnostic.hint("put a dash before each name: `- name.of.sls`");
        self.add_error(format!("Include Declaration in SLS '{sls}' is not formed as a list"), diagnostic);
    }

    /// Reads one pillar SLS with its includes merged under it; `None` when there is nothing to merge.
    fn read_sls(
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

    fn add_external_pillar(&mut self, pillar: Value, over: &Value) -> Value {
        match self.session.host().external_pillar(&pillar) {
            Ok(more) if more.is_empty() => pillar,
            Ok(more) => {
                let mut pillar = if over.is_truthy() { self.merge(&pillar, over) } else { pillar };
                for value in more.iter().filter(|v| v.is_truthy()) {
                    pillar = self.merge(&pillar, value);
                }
                pillar
            }
            Err(why) => {
                let diagnostic = Diagnostic::new(codes::EXTERNAL, why)
                    .hint("check the program in `ext_pillar` of the configuration");
                self.add_error(format!("Failed to load ext_pillar: {}", diagnostic.message), diagnostic);
                pillar
            }
        }
    }

    /// `decrypt_pillar`: keys whose whole values are decrypted.
    fn decrypt_keys(&mut self, pillar: &Value) -> Value {
        let mut pillar = pillar.clone();
        let opts = &self.session.options().opts;
        let Some(list) = opts.get("decrypt_pillar").and_then(Value::as_list) else { return pillar };
        let delimiter = opts.get("decrypt_pillar_delimiter").and_then(Value::as_str).unwrap_or(":");
        for item in list.iter() {
            let (key, renderer) = match item {
                Value::Map(map) => match map.iter().next() {
                    Some((key, renderer)) => (key.json_key(), renderer.as_str().unwrap_or("gpg").to_string()),
                    None => continue,
                },
                other => (other.json_key(), "gpg".into()),
            };
            let cipher = if renderer == "age" { Cipher::Age } else { Cipher::Gpg };
            let path: Vec<&str> = key.split(delimiter).collect();
            match self.decrypt_at(&pillar, &path, cipher) {
                Ok(done) => pillar = done,
                Err(diagnostic) => {
                    self.add_error(
                        format!("Failed to decrypt pillar key '{key}': {}", diagnostic.message),
                        *diagnostic,
                    );
                }
            }
        }
        pillar
    }

    fn decrypt_at(&self, value: &Value, path: &[&str], cipher: Cipher) -> Result<Value, Box<Diagnostic>> {
        let Some((first, rest)) = path.split_first() else {
            return render::decrypt(self.session, None, cipher, value);
        };
        let Value::Map(map) = value else { return Ok(value.clone()) };
        let Some(inner) = map.get(first) else { return Ok(value.clone()) };
        let done = self.decrypt_at(inner, rest, cipher)?;
        let mut map = (**map).clone();
        map.insert(*first, done);
        Ok(map.into())
    }
}

/// The SLS whose includes are followed.
struct IncludeParent<'i> {
    env: &'i Arc<str>,
    sls: &'i Arc<str>,
    is_init: bool,
    spot: RenderedPos,
}

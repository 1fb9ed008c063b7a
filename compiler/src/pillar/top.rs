//! The pillar top files and a node in, the SLS of the node by environment out.

use std::sync::Arc;

use zagent_config::codes::pillar as codes;
use zagent_config::target::TargetSubject;
use zagent_config::value::{MapEntry, MergeStrategy};
use zagent_config::{Map, Pos, Value};

use super::{EnvSelection, PillarCompiler, PillarError};
use crate::select::{TOP_FILE, TopPattern, matches_node};
use crate::session::ReadRequest;
use crate::source_files::{FileId, ReachedBy, RenderedPos};

impl PillarCompiler<'_> {
    /// The targets of all pillar top files, sorted by their `order`.
    pub(super) fn read_tops(&mut self) -> (Vec<TopPattern>, Vec<PillarError>) {
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
        zagent_config::sorted::sort_by_key(&mut patterns, |(order, _)| *order);
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
    pub(super) fn match_targets(
        &mut self,
        patterns: &[TopPattern],
        subject: &dyn TargetSubject,
    ) -> Vec<EnvSelection> {
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
        zagent_config::sorted::sort_by_key(matches, |(env, _)| rank(env));
    }
}

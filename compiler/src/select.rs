//! select: top files in, the SLS of this node out, by environment.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;

use zagent_config::codes::top as codes;
use zagent_config::target::{MatchKind, Target, TargetSubject};
use zagent_config::value::MapEntry;
use zagent_config::{Diagnostic, Diagnostics, Map, Pos, Value, glob, suggest};

use crate::session::{CompileSession, ReadRequest};
use crate::source_files::{FileId, ReachedBy, RenderedPos};

/// The name of a top file.
pub(crate) const TOP_FILE: &str = "top.sls";

/// One SLS that was selected.
#[derive(Clone, Debug)]
pub(crate) struct SelectedSls {
    /// Its name, or a pattern of names.
    pub(crate) sls: Arc<str>,
    /// What selected it.
    pub(crate) reached: ReachedBy,
}

/// Everything that was selected, environments in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopMatches {
    pub(crate) envs: Vec<(Arc<str>, Vec<SelectedSls>)>,
}

impl TopMatches {
    pub(crate) fn has_env(&self, env: &str) -> bool {
        self.envs.iter().any(|(e, _)| &**e == env)
    }

    fn env_mut(&mut self, env: &str) -> &mut Vec<SelectedSls> {
        let i = self.envs.iter().position(|(e, _)| &**e == env).unwrap_or_else(|| {
            self.envs.push((env.into(), Vec::new()));
            self.envs.len() - 1
        });
        &mut self.envs[i].1
    }

    /// The selection of `--sls`.
    pub(crate) fn for_sls(env: &str, names: &[String]) -> Self {
        let mut matches = Self::default();
        let selected =
            names.iter().map(|n| SelectedSls { sls: n.as_str().into(), reached: ReachedBy::Requested });
        matches.env_mut(env).extend(selected);
        matches
    }

    /// Salt's `show_top`.
    pub(crate) fn to_value(&self) -> Value {
        let envs = self.envs.iter().map(|(env, selected)| {
            let names = selected.iter().map(|s| Value::from(s.sls.clone()));
            (env.clone(), names.collect::<Value>())
        });
        envs.collect::<Map>().into()
    }
}

/// One target of a top file, before it is matched.
#[derive(Clone, Debug)]
pub(crate) struct TopPattern {
    /// The environment whose SLS it selects.
    pub(crate) env: Arc<str>,
    /// The target's text.
    pub(crate) target: Arc<str>,
    /// The list under it.
    pub(crate) items: Value,
    /// The position of the target.
    pub(crate) spot: RenderedPos,
}

/// A top file as it was read, by its environment.
struct TopFile {
    env: Arc<str>,
    file: FileId,
    map: Map,
}

/// Reads all top files and matches every target.
pub(crate) fn select(
    session: &CompileSession,
    subject: &dyn TargetSubject,
) -> Result<TopMatches, Diagnostics> {
    let patterns = patterns(session)?;
    let mut diagnostics = Diagnostics::default();
    verify_patterns(session, &patterns, &mut diagnostics);
    diagnostics.into_result()?;
    let mut diagnostics = Diagnostics::default();
    let mut matches = TopMatches::default();
    for pattern in &patterns {
        if session.options().state_env.as_deref().is_some_and(|env| env != &*pattern.env) {
            continue;
        }
        match matches_node(session, pattern, &target_items(&pattern.items), subject) {
            Ok(true) => add_matches(session, pattern, &mut matches),
            Ok(false) => {}
            Err(diagnostic) => diagnostics.push(*diagnostic),
        }
    }
    add_external_tops(session, &mut matches, &mut diagnostics);
    diagnostics.into_result()?;
    Ok(matches)
}

/// A string under a target is a list of one.
fn target_items(value: &Value) -> Vec<Value> {
    match value {
        Value::List(list) => list.to_vec(),
        other => vec![other.clone()],
    }
}

/// Matches one target against the node.
pub(crate) fn matches_node(
    session: &CompileSession,
    pattern: &TopPattern,
    items: &[Value],
    subject: &dyn TargetSubject,
) -> Result<bool, Box<Diagnostic>> {
    let place_at = |diagnostic: Diagnostic, spot: RenderedPos| {
        let mut placed = session.diagnostic(diagnostic.code, spot, diagnostic.message);
        placed.hint = diagnostic.hint;
        Box::new(placed)
    };
    let place = |diagnostic: Diagnostic| place_at(diagnostic, pattern.spot);
    let named = items.iter().filter_map(|i| i.get("match")).next_back();
    let kind = match named {
        None => MatchKind::default(),
        Some(name) => {
            let name = name.as_str().unwrap_or_default();
            MatchKind::from_str(name)
                .map_err(|e| place_at(e.diagnostic(&pattern.target), option_spot(pattern)))?
        }
    };
    let target = if session.is_salt() {
        Target::parse_lenient(&pattern.target, kind)
    } else {
        Target::parse(&pattern.target, kind).map_err(|e| place(e.diagnostic(&pattern.target)))?
    };
    target.matches(subject).map_err(|e| place(e.diagnostic(&pattern.target)))
}

/// The position of the match option of a target.
fn option_spot(pattern: &TopPattern) -> RenderedPos {
    let list = pattern.items.as_list().cloned().unwrap_or_default();
    let at = list.iter().rposition(|v| v.get("match").is_some());
    let pos = at.map(|i| list.pos(i)).filter(|pos| pos.is_known()).unwrap_or(pattern.spot.pos);
    RenderedPos { pos, ..pattern.spot }
}

fn add_matches(session: &CompileSession, pattern: &TopPattern, matches: &mut TopMatches) {
    matches.env_mut(&pattern.env);
    let reached = |pos: Pos| ReachedBy::Matched {
        spot: RenderedPos { pos: if pos.is_known() { pos } else { pattern.spot.pos }, ..pattern.spot },
        pattern: pattern.target.to_string(),
    };
    let marks = pattern.items.as_list().cloned().unwrap_or_default();
    for (i, item) in target_items(&pattern.items).iter().enumerate() {
        match item {
            Value::Str(sls) => {
                matches
                    .env_mut(&pattern.env)
                    .push(SelectedSls { sls: sls.clone(), reached: reached(marks.pos(i)) });
            }
            Value::Map(map) => {
                let Some((env, sls)) = map.iter().next_back() else { continue };
                if let (Some(env), Value::Str(sls)) = (env.as_str(), sls)
                    && session.has_env(env)
                {
                    matches
                        .env_mut(env)
                        .push(SelectedSls { sls: sls.clone(), reached: reached(marks.pos(i)) });
                }
            }
            _ => {}
        }
    }
}

fn add_external_tops(session: &CompileSession, matches: &mut TopMatches, diagnostics: &mut Diagnostics) {
    let tops = match session.host().external_tops() {
        Ok(tops) => tops,
        Err(why) => {
            diagnostics.push(
                Diagnostic::new(codes::EXTERNAL, why)
                    .hint("check the program in `master_tops` of the configuration"),
            );
            return;
        }
    };
    let first = session.options().opts.get("master_tops_first").is_some_and(Value::is_truthy);
    for top in &tops {
        let Some(map) = top.as_map() else {
            let text = format!("an external top must print a mapping of environments, not {}", top.kind());
            diagnostics.push(Diagnostic::new(codes::EXTERNAL, text));
            continue;
        };
        for (env, names) in map.iter() {
            let (Some(env), Some(names)) = (env.as_str(), names.as_list()) else { continue };
            let known: HashSet<Arc<str>> = matches.env_mut(env).iter().map(|s| s.sls.clone()).collect();
            let new = names.iter().filter_map(|n| match n {
                Value::Str(sls) if !known.contains(sls) => {
                    Some(SelectedSls { sls: sls.clone(), reached: ReachedBy::External })
                }
                _ => None,
            });
            let new: Vec<SelectedSls> = new.collect();
            let at = if first { 0 } else { matches.env_mut(env).len() };
            matches.env_mut(env).splice(at..at, new);
        }
    }
}

/// Every target of every top file, merged by the strategy of the configuration.
pub(crate) fn patterns(session: &CompileSession) -> Result<Vec<TopPattern>, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let mut tops = read_tops(session, &mut diagnostics);
    include_tops(session, &mut tops, &mut diagnostics);
    // Salt logs a top file that does not render, and continues as if it did not exist.
    if session.is_salt() && !diagnostics.is_empty() {
        return Ok(Vec::new());
    }
    diagnostics.into_result()?;
    merge_tops(session, tops)
}

fn read_tops(session: &CompileSession, diagnostics: &mut Diagnostics) -> Vec<TopFile> {
    let options = session.options();
    let envs = match (&options.state_env, options.opts.get("state_top_saltenv").and_then(Value::as_str)) {
        (Some(env), _) => vec![env.clone()],
        (None, Some(env)) => vec![env.to_string()],
        (None, None) => ordered_envs(session),
    };
    let mut tops = Vec::new();
    for env in envs {
        if session.exists(&env, TOP_FILE) {
            read_top(session, &env, TOP_FILE, ReachedBy::Requested, &mut tops, diagnostics);
        }
    }
    tops
}

/// The environments, by `env_order` when it is set.
fn ordered_envs(session: &CompileSession) -> Vec<String> {
    let mut envs = vec!["base".to_string()];
    envs.extend(session.envs().into_iter().filter(|e| e != "base"));
    let order = session.options().opts.get("env_order").and_then(Value::as_list);
    match order {
        Some(order) if !order.is_empty() => {
            let wanted = order.iter().filter_map(Value::as_str);
            wanted.filter(|env| envs.iter().any(|e| e == env)).map(str::to_string).collect()
        }
        _ => envs,
    }
}

fn read_top(
    session: &CompileSession,
    env: &str,
    path: &str,
    reached: ReachedBy,
    tops: &mut Vec<TopFile>,
    diagnostics: &mut Diagnostics,
) {
    let read = ReadRequest { env: env.into(), sls: "".into(), path: path.into(), reached };
    let (file, document) = session.read(read);
    match document {
        Ok(Value::Map(map)) => tops.push(TopFile { env: env.into(), file, map: Arc::unwrap_or_clone(map) }),
        Ok(other) if !other.is_truthy() => {}
        Ok(other) => {
            let text = format!("the top file must be a mapping of environments, not {}", other.kind());
            diagnostics.push(session.diagnostic(
                codes::NOT_A_MAPPING,
                RenderedPos { file, pos: Pos::new(1, 1) },
                text,
            ));
        }
        Err(diagnostic) => diagnostics.push(*diagnostic),
    }
}

/// Top files may include further top files by SLS name.
fn include_tops(session: &CompileSession, tops: &mut Vec<TopFile>, diagnostics: &mut Diagnostics) {
    let mut wanted = Vec::new();
    for top in tops.iter_mut() {
        let Some(at) = top.map.entry("include").map(|e| e.at) else { continue };
        let Some(Value::List(list)) = top.map.remove("include") else { continue };
        let spot = RenderedPos { file: top.file, pos: at };
        wanted.extend(list.iter().filter_map(Value::as_str).map(|s| (top.env.clone(), s.to_string(), spot)));
    }
    let mut done = HashSet::new();
    for (env, name, spot) in wanted {
        let found = match session.available_sls(&env) {
            Ok(all) => all.iter().filter(|sls| glob::matches(&name, sls)).cloned().collect::<Vec<_>>(),
            Err(diagnostic) => {
                diagnostics.push(*diagnostic);
                continue;
            }
        };
        for sls in found {
            if done.insert((env.clone(), sls.clone()))
                && let Some(path) = session.locate(&env, &sls)
            {
                read_top(session, &env, &path, ReachedBy::Included { spot }, tops, diagnostics);
            }
        }
    }
}

/// How the top files of several environments are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TopMergeStrategy {
    /// Base wins; other environments define themselves where base does not.
    Merge,
    /// Every environment defines itself.
    Same,
    /// Everything is used.
    MergeAll,
}

fn merge_tops(session: &CompileSession, tops: Vec<TopFile>) -> Result<Vec<TopPattern>, Diagnostics> {
    let opts = &session.options().opts;
    let strategy = match opts.get("top_file_merging_strategy").and_then(Value::as_str) {
        Some("same") => TopMergeStrategy::Same,
        Some("merge_all") => TopMergeStrategy::MergeAll,
        _ => TopMergeStrategy::Merge,
    };
    let default_top = opts.get("default_top").and_then(Value::as_str).unwrap_or("base");
    let mut diagnostics = Diagnostics::default();
    let mut patterns: Vec<TopPattern> = Vec::new();
    let (base, others): (Vec<_>, Vec<_>) = tops.into_iter().partition(|t| &*t.env == "base");
    let mut from_base: HashSet<Arc<str>> = HashSet::new();
    let have: HashSet<Arc<str>> = base.iter().chain(&others).map(|t| t.env.clone()).collect();
    for top in base.into_iter().chain(others) {
        let is_base = &*top.env == "base";
        for MapEntry { key, value, at } in top.map.entries() {
            let spot = RenderedPos { file: top.file, pos: *at };
            let Value::Str(env) = key else {
                diagnostics.push(session.diagnostic(
                    codes::ENV_NOT_STRING,
                    spot,
                    format!("the environment `{}` must be a string, not {}", key.json_key(), key.kind()),
                ));
                continue;
            };
            let counts = match strategy {
                TopMergeStrategy::MergeAll => true,
                TopMergeStrategy::Merge if is_base => true,
                TopMergeStrategy::Merge => *env == top.env && !from_base.contains(env),
                TopMergeStrategy::Same => {
                    *env == top.env || (&*top.env == default_top && !have.contains(env))
                }
            };
            if !counts {
                continue;
            }
            if is_base {
                from_base.insert(env.clone());
            }
            let Some(targets) = value.as_map() else {
                let text =
                    format!("the environment `{env}` must be a mapping of targets, not {}", value.kind());
                diagnostics.push(
                    session
                        .diagnostic(codes::NO_TARGETS, spot, text)
                        .hint("write `'*':` and below it a list of SLS"),
                );
                continue;
            };
            add_targets(&mut patterns, env, targets, top.file, strategy);
        }
    }
    diagnostics.into_result()?;
    Ok(group_by_env(patterns))
}

fn add_targets(
    patterns: &mut Vec<TopPattern>,
    env: &Arc<str>,
    targets: &Map,
    file: FileId,
    strategy: TopMergeStrategy,
) {
    for MapEntry { key, value, at } in targets.entries() {
        let target: Arc<str> = match key {
            Value::Str(s) => s.clone(),
            other => other.json_key().into(),
        };
        let spot = RenderedPos { file, pos: *at };
        match patterns.iter_mut().find(|p| p.env == *env && p.target == target) {
            Some(old) if strategy == TopMergeStrategy::MergeAll => {
                old.items = union_targets(&old.items, value);
            }
            Some(old) => {
                old.items = value.clone();
                old.spot = spot;
            }
            None => patterns.push(TopPattern { env: env.clone(), target, items: value.clone(), spot }),
        }
    }
}

/// Two lists under the same target: the later match option, then every SLS once.
fn union_targets(old: &Value, new: &Value) -> Value {
    let (old, new) = (target_items(old), target_items(new));
    let option = |list: &[Value]| list.iter().rfind(|v| v.as_map().is_some()).cloned();
    let mut out: Vec<Value> = option(&new).or_else(|| option(&old)).into_iter().collect();
    out.extend(old.into_iter().filter(|v| v.as_str().is_some()));
    for sls in new.into_iter().filter(|v| v.as_str().is_some()) {
        if !out.contains(&sls) {
            out.push(sls);
        }
    }
    out.into()
}

/// Groups by environment in order of first appearance.
fn group_by_env(patterns: Vec<TopPattern>) -> Vec<TopPattern> {
    let mut envs: Vec<Arc<str>> = Vec::new();
    for pattern in &patterns {
        if !envs.contains(&pattern.env) {
            envs.push(pattern.env.clone());
        }
    }
    let mut sorted = patterns;
    zagent_config::sorted::sort_by_key(&mut sorted, |p| envs.iter().position(|e| *e == p.env));
    sorted
}

/// Reports malformed lists under targets.
fn verify_patterns(session: &CompileSession, patterns: &[TopPattern], diagnostics: &mut Diagnostics) {
    for TopPattern { env, target, items, spot } in patterns {
        let Value::List(list) = items else {
            let text =
                format!("`{target}` in environment `{env}` must be a list of SLS, not {}", items.kind());
            diagnostics
                .push(session.diagnostic(codes::NOT_A_LIST, *spot, text).hint("put a dash before each SLS"));
            continue;
        };
        for (i, item) in list.iter().enumerate() {
            let spot =
                RenderedPos { pos: if list.pos(i).is_known() { list.pos(i) } else { spot.pos }, ..*spot };
            match item {
                Value::Str(s) if s.is_empty() => {
                    diagnostics.push(session.diagnostic(
                        codes::EMPTY_SLS,
                        spot,
                        format!("`{target}` lists an SLS without a name"),
                    ));
                }
                Value::Map(map) => {
                    for (key, value) in map.iter().filter(|(_, v)| !v.is_truthy()) {
                        let text = format!(
                            "`{}` under `{target}` has an empty value ({})",
                            key.json_key(),
                            value.kind()
                        );
                        let diagnostic = session.diagnostic(codes::BAD_OPTION, spot, text);
                        let near = key.as_str().and_then(|k| suggest::nearest(k, ["match"]));
                        diagnostics.push(diagnostic.hint(match near {
                            Some(near) => format!("did you mean `{near}: grain`?"),
                            None => "write options as `- match: grain`".into(),
                        }));
                    }
                }
                _ => {}
            }
        }
    }
}

//! `match.*`: the one matcher, asked from a template.

use minijinja::value::{Value, ValueKind};
use zagent_config::target::{MatchKind, Subject, Target};
use zagent_config::{Map, Value as Data};

use super::live::{self, Update};
use super::table::{Entry, data, live};
use super::{Bound, Inner, Refusal};
use crate::jinja::object::{Dict, Key, text, type_name};

pub(super) const TABLE: &[Entry] = &[
    data("match.glob", ID, |inner, args| ask(inner, MatchKind::Glob, args)),
    data("match.pcre", ID, |inner, args| ask(inner, MatchKind::Pcre, args)),
    data("match.list", ID, |inner, args| ask(inner, MatchKind::List, args)),
    data("match.compound", ID, |inner, args| ask(inner, MatchKind::Compound, args)),
    data("match.ipcidr", "tgt", |inner, args| ask(inner, MatchKind::Ipcidr, args)),
    data("match.grain", DELIMITED, |inner, args| ask(inner, MatchKind::Grain, args)),
    data("match.grain_pcre", DELIMITED, |inner, args| ask(inner, MatchKind::GrainPcre, args)),
    data("match.pillar", DELIMITED, |inner, args| ask(inner, MatchKind::Pillar, args)),
    data("match.pillar_pcre", DELIMITED, |inner, args| ask(inner, MatchKind::PillarPcre, args)),
    // What a node keeps in Salt's data store, which is not here.
    data("match.data", DELIMITED, |_, _| Ok(false.into())),
    live("match.filter_by", "lookup tgt_type? minion_id? merge? merge_lists? default?", filter_by),
    live("match.ifelse", "* tgt_type? minion_id? merge? merge_lists?", ifelse),
    data("match.search_by", "lookup tgt_type? minion_id?", search_by),
];

const ID: &str = "tgt minion_id?";
const DELIMITED: &str = "tgt delimiter?";

/// This node, or this node under another id.
struct Node<'a> {
    inner: &'a Inner,
    id: &'a str,
}

impl Subject for Node<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn grain(&self, name: &str) -> Option<Data> {
        self.inner.inputs.host.grain(name)
    }

    fn grains(&self) -> Data {
        self.inner.inputs.host.grains()
    }

    fn pillar(&self) -> Data {
        self.inner.compiled.clone()
    }

    fn nodegroups(&self) -> &Map {
        &self.inner.inputs.options.nodegroups
    }

    fn resources(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

fn matches(inner: &Inner, kind: MatchKind, target: &str, id: Option<&str>) -> Result<bool, Refusal> {
    let id = id.unwrap_or(&inner.inputs.options.id);
    let target = Target::parse_lenient(target, kind);
    target.matches(&Node { inner, id }).map_err(|e| Refusal::failed(e.message))
}

fn ask(inner: &Inner, kind: MatchKind, args: &Bound<Data>) -> Result<Data, Refusal> {
    let id = args.get("minion_id").and_then(Data::as_str);
    let target = match args.get("tgt") {
        Some(Data::List(ids)) => ids.iter().filter_map(Data::as_str).collect::<Vec<_>>().join(","),
        Some(Data::Str(text)) => text.to_string(),
        other => {
            let got = other.map_or("nothing", Data::kind);
            return Err(Refusal::arguments(format!("a target is text, not {got}")));
        }
    };
    match args.get("delimiter").and_then(Data::as_str) {
        None | Some(":") => matches(inner, kind, &target, id).map(Data::from),
        Some(delimiter) => {
            let letter = match kind {
                MatchKind::Grain => 'G',
                MatchKind::GrainPcre => 'P',
                MatchKind::Pillar => 'I',
                _ => 'J',
            };
            let target = format!("{letter}{delimiter}@{target}");
            matches(inner, MatchKind::Compound, &target, id).map(Data::from)
        }
    }
}

fn kind_of(name: Option<&str>) -> Result<MatchKind, Refusal> {
    name.unwrap_or("compound").parse::<MatchKind>().map_err(|e| Refusal::failed(e.message))
}

/// The value of the first target that means this node.
fn filter_by(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let lookup = args.get("lookup").unwrap_or(&Value::UNDEFINED);
    let Some(choices) = live::as_dict(lookup) else {
        return Err(Refusal::failed(format!("the lookup must be a mapping, not '{}'", type_name(lookup))));
    };
    if let Some(chosen) = choose(inner, args, choices.pairs())? {
        return Ok(chosen);
    }
    let default = args.get("default").cloned().unwrap_or_else(|| Value::from("default"));
    Ok(choices.get(&default).unwrap_or_else(|| Value::from(())))
}

/// The first choice whose target means this node.
fn choose(
    inner: &Inner,
    args: &Bound<Value>,
    choices: Vec<(Value, Value)>,
) -> Result<Option<Value>, Refusal> {
    let kind = kind_of(args.get("tgt_type").and_then(Value::as_str))?;
    let id = args.get("minion_id").and_then(Value::as_str);
    for (target, choice) in choices {
        if matches(inner, kind, &text(&target), id)? {
            return merged(args, choice).map(Some);
        }
    }
    Ok(None)
}

/// A choice with what the call wants merged into it.
fn merged(args: &Bound<Value>, choice: Value) -> Result<Value, Refusal> {
    let Some(merge) = args.get("merge").filter(|m| m.is_true()) else { return Ok(choice) };
    if choice.is_none() {
        return Ok(merge.clone());
    }
    let lists = args.get("merge_lists").is_some_and(Value::is_true);
    live::update(&choice, &live::deep_copy(merge)?, Update { flat: false, lists })
}

/// Targets and values in turn, and what holds when no target means this node.
fn ifelse(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let Some((otherwise, pairs)) = args.rest().split_last().filter(|(_, pairs)| pairs.len() % 2 == 0) else {
        return Err(Refusal::arguments("`match.ifelse` takes an odd number of arguments"));
    };
    let mut choices = Dict::new();
    for pair in pairs.chunks(2) {
        let target = match pair[0].kind() {
            ValueKind::Bool if pair[0].is_true() => Value::from("*"),
            ValueKind::Bool => continue,
            _ => pair[0].clone(),
        };
        let key = Key::new(target).map_err(|e| Refusal::failed(e.to_string()))?;
        choices.insert(key, pair[1].clone());
    }
    let choices = choices.into_iter().map(|(target, choice)| (target.into_value(), choice)).collect();
    Ok(choose(inner, args, choices)?.unwrap_or_else(|| otherwise.clone()))
}

/// The keys whose lists hold a target that means this node, once a target.
fn search_by(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let lookup = args.get("lookup").and_then(Data::as_map);
    let lookup = lookup.ok_or_else(|| Refusal::arguments("`lookup` must be a mapping"))?;
    let kind = kind_of(args.get("tgt_type").and_then(Data::as_str))?;
    let id = args.get("minion_id").and_then(Data::as_str);
    let mut found = Vec::new();
    for (key, targets) in lookup.iter() {
        for target in targets.as_list().map(|l| l.iter()).into_iter().flatten() {
            if matches(inner, kind, target.as_str().unwrap_or_default(), id)? {
                found.push(key.clone());
            }
        }
    }
    Ok(if found.is_empty() { Data::Null } else { found.into() })
}

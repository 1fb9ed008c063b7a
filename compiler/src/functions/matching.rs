//! `match.*`: the target matcher for templates.

use minijinja::value::{Value, ValueKind};
use zagent_config::resources::declared_names;
use zagent_config::target::{MatchKind, SubjectRole, Target, TargetSubject};
use zagent_config::{Map, Value as Data};

use super::table::{FunctionEntry, data_function, live_function};
use super::value_ops::{self, UpdateMode};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::jinja::object::{Dict, DictKey, py_str, type_name};

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("match.glob", ID_SIGNATURE, |inner, args| match_call(inner, MatchKind::Glob, args)),
    data_function("match.pcre", ID_SIGNATURE, |inner, args| match_call(inner, MatchKind::Pcre, args)),
    data_function("match.list", ID_SIGNATURE, |inner, args| match_call(inner, MatchKind::List, args)),
    data_function("match.compound", ID_SIGNATURE, |inner, args| match_call(inner, MatchKind::Compound, args)),
    data_function("match.ipcidr", "tgt", |inner, args| match_call(inner, MatchKind::Ipcidr, args)),
    data_function("match.grain", DELIMITED_SIGNATURE, |inner, args| {
        match_call(inner, MatchKind::Grain, args)
    }),
    data_function("match.grain_pcre", DELIMITED_SIGNATURE, |inner, args| {
        match_call(inner, MatchKind::GrainPcre, args)
    }),
    data_function("match.pillar", DELIMITED_SIGNATURE, |inner, args| {
        match_call(inner, MatchKind::Pillar, args)
    }),
    data_function("match.pillar_pcre", DELIMITED_SIGNATURE, |inner, args| {
        match_call(inner, MatchKind::PillarPcre, args)
    }),
    // Salt's minion data store, which zagent does not have.
    data_function("match.data", DELIMITED_SIGNATURE, |_, _| Ok(false.into())),
    live_function("match.filter_by", "lookup tgt_type? minion_id? merge? merge_lists? default?", filter_by),
    live_function("match.ifelse", "* tgt_type? minion_id? merge? merge_lists?", ifelse),
    data_function("match.search_by", "lookup tgt_type? minion_id?", search_by),
];

const ID_SIGNATURE: &str = "tgt minion_id?";
const DELIMITED_SIGNATURE: &str = "tgt delimiter?";

/// This node, or this node under another id.
struct FunctionSubject<'a> {
    inner: &'a FunctionsInner,
    id: &'a str,
}

impl TargetSubject for FunctionSubject<'_> {
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
        let options = &self.inner.inputs.options;
        match options.resource {
            Some(_) => Vec::new(),
            None => declared_names(&self.inner.compiled, &options.resources_key),
        }
    }

    fn role(&self) -> SubjectRole<'_> {
        let resource = self.inner.inputs.options.resource.as_ref();
        resource.map_or(SubjectRole::Node, |resource| SubjectRole::Resource {
            kind: &resource.kind,
            manager: &resource.manager,
        })
    }
}

fn matches(
    inner: &FunctionsInner,
    kind: MatchKind,
    target: &str,
    id: Option<&str>,
) -> Result<bool, FunctionError> {
    let id = id.unwrap_or(&inner.inputs.options.id);
    let target = Target::parse_lenient(target, kind);
    target.matches(&FunctionSubject { inner, id }).map_err(|e| FunctionError::failed(e.message))
}

fn match_call(
    inner: &FunctionsInner,
    kind: MatchKind,
    args: &FunctionArgs<Data>,
) -> Result<Data, FunctionError> {
    let id = args.get("minion_id").and_then(Data::as_str);
    let target = match args.get("tgt") {
        Some(Data::List(ids)) => ids.iter().filter_map(Data::as_str).collect::<Vec<_>>().join(","),
        Some(Data::Str(text)) => text.to_string(),
        other => {
            let got = other.map_or("nothing", Data::kind);
            return Err(FunctionError::bad_arguments(format!("a target must be text, not {got}")));
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

fn kind_of(name: Option<&str>) -> Result<MatchKind, FunctionError> {
    name.unwrap_or("compound").parse::<MatchKind>().map_err(|e| FunctionError::failed(e.message))
}

/// The value of the first target that matches this node.
fn filter_by(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let lookup = args.get("lookup").unwrap_or(&Value::UNDEFINED);
    let Some(choices) = value_ops::as_dict(lookup) else {
        return Err(FunctionError::failed(format!(
            "the lookup must be a mapping, not '{}'",
            type_name(lookup)
        )));
    };
    if let Some(chosen) = first_match(inner, args, choices.pairs())? {
        return Ok(chosen);
    }
    let default = args.get("default").cloned().unwrap_or_else(|| Value::from("default"));
    Ok(choices.get(&default).unwrap_or_else(|| Value::from(())))
}

/// The first choice whose target matches this node.
fn first_match(
    inner: &FunctionsInner,
    args: &FunctionArgs<Value>,
    choices: Vec<(Value, Value)>,
) -> Result<Option<Value>, FunctionError> {
    let kind = kind_of(args.get("tgt_type").and_then(Value::as_str))?;
    let id = args.get("minion_id").and_then(Value::as_str);
    for (target, choice) in choices {
        if matches(inner, kind, &py_str(&target), id)? {
            return merge_choice(args, choice).map(Some);
        }
    }
    Ok(None)
}

/// A choice with the `merge` argument merged into it.
fn merge_choice(args: &FunctionArgs<Value>, choice: Value) -> Result<Value, FunctionError> {
    let Some(merge) = args.get("merge").filter(|m| m.is_true()) else { return Ok(choice) };
    if choice.is_none() {
        return Ok(merge.clone());
    }
    let lists = args.get("merge_lists").is_some_and(Value::is_true);
    value_ops::update(&choice, &value_ops::deep_copy(merge)?, UpdateMode { flat: false, lists })
}

/// Alternating targets and values, then the value when no target matches this node.
fn ifelse(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let Some((otherwise, pairs)) = args.rest().split_last().filter(|(_, pairs)| pairs.len() % 2 == 0) else {
        return Err(FunctionError::bad_arguments("`match.ifelse` needs an odd number of arguments"));
    };
    let mut choices = Dict::new();
    for pair in pairs.chunks(2) {
        let target = match pair[0].kind() {
            ValueKind::Bool if pair[0].is_true() => Value::from("*"),
            ValueKind::Bool => continue,
            _ => pair[0].clone(),
        };
        let key = DictKey::new(target).map_err(|e| FunctionError::failed(e.to_string()))?;
        choices.insert(key, pair[1].clone());
    }
    let choices = choices.into_iter().map(|(target, choice)| (target.into_value(), choice)).collect();
    Ok(first_match(inner, args, choices)?.unwrap_or_else(|| otherwise.clone()))
}

/// The keys whose lists contain a target that matches this node, once per target.
fn search_by(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let lookup = args.get("lookup").and_then(Data::as_map);
    let lookup = lookup.ok_or_else(|| FunctionError::bad_arguments("`lookup` must be a mapping"))?;
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

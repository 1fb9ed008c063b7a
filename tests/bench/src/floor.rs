//! `floor`: a tree rendered, parsed, ordered and compared by a plain program that changes nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use minijinja::{Environment, context};
use serde_yaml::Value;

/// `O_NOFOLLOW` of Linux on most machines.
const NO_FOLLOW: i32 = 0o400_000;

struct FloorState<'d> {
    id: &'d str,
    function: &'d str,
    args: &'d [Value],
}

impl FloorState<'_> {
    fn arg(&self, key: &str) -> Option<&Value> {
        self.args.iter().find_map(|arg| arg.get(key))
    }

    fn requires(&self) -> impl Iterator<Item = &str> {
        let list = self.arg("require").and_then(Value::as_sequence);
        list.into_iter().flatten().filter_map(|one| one.as_mapping()?.values().next()?.as_str())
    }

    fn has_mode(&self, mode: u32) -> bool {
        let wanted =
            self.arg("mode").and_then(Value::as_str).and_then(|mode| u32::from_str_radix(mode, 8).ok());
        wanted.is_none_or(|wanted| wanted == mode & 0o7777)
    }
}

/// `run` looks at every state, `compile` ends with the order.
pub fn run(verb: &str, dir: &Path) -> Result<()> {
    let mut env = Environment::new();
    if let Ok(syntax) = minijinja::syntax::SyntaxConfig::builder().keep_trailing_newline(true).build() {
        env.set_syntax(syntax);
    }
    let top: Value = serde_yaml::from_str(&fs::read_to_string(dir.join("top.sls"))?)?;
    let names = top["base"]["*"].as_sequence().context("no SLS in the top file")?;
    let mut documents: Vec<Value> = Vec::new();
    for name in names.iter().filter_map(Value::as_str) {
        let source = fs::read_to_string(dir.join(format!("{name}.sls")))?;
        documents.push(serde_yaml::from_str(&env.render_str(&source, context! { sls => name })?)?);
    }
    let states: Vec<FloorState<'_>> =
        documents.iter().filter_map(Value::as_mapping).flatten().filter_map(state).collect();
    let order = sort(&states)?;
    if verb == "compile" {
        return Ok(());
    }
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let (mut templates, mut buffer) = (HashMap::new(), Vec::with_capacity(4096));
    for (number, i) in order.into_iter().enumerate() {
        let state = &states[i];
        if !is_right(state, (dir, &env), &mut templates, &mut buffer)? {
            bail!("{} is wrong", state.id);
        }
        let line = serde_json::json!({"id": state.id, "fun": state.function, "result": true, "changes": {}, "run_num": number});
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

fn state<'d>((id, body): (&'d Value, &'d Value)) -> Option<FloorState<'d>> {
    let id = id.as_str()?;
    match body {
        Value::String(function) => Some(FloorState { id, function, args: &[] }),
        _ => {
            let (function, args) = body.as_mapping()?.iter().next()?;
            Some(FloorState { id, function: function.as_str()?, args: args.as_sequence()? })
        }
    }
}

/// By requisites, otherwise as written.
fn sort(states: &[FloorState<'_>]) -> Result<Vec<usize>> {
    let index: HashMap<&str, usize> = states.iter().enumerate().map(|(i, state)| (state.id, i)).collect();
    let mut waits = vec![0; states.len()];
    let mut next = vec![Vec::new(); states.len()];
    for (i, state) in states.iter().enumerate() {
        for required in state.requires() {
            next[*index.get(required).context("an unknown requisite")?].push(i);
            waits[i] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..states.len()).filter(|i| waits[*i] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(states.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i);
        for later in &next[i] {
            waits[*later] -= 1;
            if waits[*later] == 0 {
                ready.push(Reverse(*later));
            }
        }
    }
    if order.len() < states.len() {
        bail!("the requisites are a cycle");
    }
    Ok(order)
}

/// The context of a state, as its template sees it.
fn to_template(value: &Value) -> minijinja::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Number(number) => number.as_i64().into(),
        Value::Sequence(items) => items.iter().map(to_template).collect::<Vec<_>>().into(),
        Value::Mapping(map) => {
            let pairs =
                map.iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), to_template(value))));
            minijinja::Value::from_pairs(pairs)
        }
        _ => ().into(),
    }
}

fn is_right(
    state: &FloorState<'_>,
    (dir, env): (&Path, &Environment<'_>),
    templates: &mut HashMap<String, String>,
    buffer: &mut Vec<u8>,
) -> Result<bool> {
    match state.function {
        "file.directory" => {
            let meta = fs::symlink_metadata(state.id)?;
            Ok(meta.is_dir() && state.has_mode(meta.mode()))
        }
        "file.managed" => {
            let wanted = match state.arg("contents").and_then(Value::as_str) {
                Some(contents) => contents.to_owned(),
                None => {
                    let source = state.arg("source").and_then(Value::as_str).context("no source")?;
                    let path = source.trim_start_matches("salt://");
                    if !templates.contains_key(path) {
                        templates.insert(path.to_owned(), fs::read_to_string(dir.join(path))?);
                    }
                    env.render_str(&templates[path], state.arg("context").map(to_template))?
                }
            };
            let mut file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(state.id)?;
            let meta = file.metadata()?;
            buffer.clear();
            file.read_to_end(buffer)?;
            // The template of the workload ends without a line feed, and Salt's files end as their template does.
            Ok(state.has_mode(meta.mode()) && *buffer == wanted.as_bytes())
        }
        _ => Ok(true),
    }
}

//! `file.serialize`: a value, written into a file in some format.
//!
//! Law: with `merge_if_exists` a file that already holds what is asked for is left as it is, however it is written
//! (held by `edits_do_and_say_what_salts_do`).

pub mod format;
pub(crate) mod ini;
pub mod toml;

use std::path::PathBuf;

use zagent_compiler::Chunk;
use zagent_config::value::{DEFAULT_DELIMITER, merge_recurse, traverse};
use zagent_config::{Map, Value};

use self::format::SerializeFormat;
use super::editor::is_salt;
use super::text::TextEncoding;
use crate::file::managed;
use crate::{
    ApplyResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError, Verdict,
};
use zagent_host::fs::FileKind;

/// What Salt puts for a key that was not there.
const NULL_MARKER: &str = "<_null_>";

/// Where the value comes from.
enum SerializeSource {
    Given(Value),
    Pillar(String),
}

/// Options of a serializer, as they were given.
struct SerializerOptions {
    map: Map,
    /// Given as one mapping, which Salt does not take: it wants a list of them, and ignores anything else.
    is_plain: bool,
}

impl SerializerOptions {
    fn read(args: &ChunkArgs<'_>, key: &str) -> Result<Self, StateError> {
        let is_plain = matches!(args.get(key), Some(Value::Map(_)));
        Ok(Self { map: args.map(key)?.unwrap_or_default(), is_plain })
    }

    fn effective_map(&self, ctx: &StateCtx<'_>) -> Map {
        if self.is_plain && is_salt(ctx) { Map::new() } else { self.map.clone() }
    }
}

/// A file that holds a value.
pub(crate) struct FileSerialize {
    path: PathBuf,
    name: String,
    source: SerializeSource,
    serializer: String,
    format: SerializeFormat,
    write_options: SerializerOptions,
    read_options: SerializerOptions,
    merge: bool,
    encoding: Option<TextEncoding>,
    /// The file around the value: who owns it, how it is checked and kept.
    file: Chunk,
}

/// What a look finds first.
enum SerializePlan {
    InSync(String),
    /// A file with this content; with it what a merge changes, key by key.
    File(Box<dyn State>, Option<Map>),
}

/// Arguments that are about the value, not about the file.
const OWN_ARGS: [&str; 7] = [
    "dataset",
    "dataset_pillar",
    "serializer",
    "formatter",
    "serializer_opts",
    "deserializer_opts",
    "merge_if_exists",
];

impl FileSerialize {
    /// Reads `file.serialize`.
    ///
    /// # Errors
    /// Fails with Salt's words when arguments contradict each other.
    pub(crate) fn read(path: PathBuf, name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let text = |key| Ok::<_, StateError>(args.text(key)?.filter(|t| !t.is_empty()));
        let (serializer, formatter) = (text("serializer")?, text("formatter")?);
        if serializer.is_some() && formatter.is_some() {
            return Err(StateError::new("Only one of serializer and formatter are allowed"));
        }
        let serializer = serializer.or(formatter).unwrap_or_else(|| "yaml".into()).to_lowercase();
        let source = match (args.get("dataset"), text("dataset_pillar")?) {
            (Some(value), Some(_)) if value.is_truthy() => {
                return Err(StateError::new("Only one of 'dataset' and 'dataset_pillar' is permitted"));
            }
            (_, Some(path)) => SerializeSource::Pillar(path),
            (Some(value), None) => SerializeSource::Given(value.clone()),
            (None, None) => {
                return Err(StateError::new("Neither 'dataset' nor 'dataset_pillar' was defined"));
            }
        };
        let mut file = args.chunk.clone();
        file.fun = "managed".into();
        OWN_ARGS.iter().for_each(|key| drop(file.args.remove(key)));
        Ok(Self {
            format: SerializeFormat::from_name(&serializer)?,
            write_options: SerializerOptions::read(args, "serializer_opts")?,
            read_options: SerializerOptions::read(args, "deserializer_opts")?,
            merge: args.flag("merge_if_exists", false),
            encoding: text("encoding")?.map(|name| TextEncoding::from_name(&name)).transpose()?,
            path,
            name,
            source,
            serializer,
            file,
        })
    }

    fn value(&self, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        match &self.source {
            SerializeSource::Given(value) => Ok(value.clone()),
            SerializeSource::Pillar(path) => match traverse(ctx.pillar, path, DEFAULT_DELIMITER) {
                None | Some(Value::Null) => {
                    Err(StateError::new("Neither 'dataset' nor 'dataset_pillar' was defined"))
                }
                Some(value) => Ok(value.clone()),
            },
        }
    }

    fn plan_file(&self, ctx: &StateCtx<'_>) -> Result<SerializePlan, StateError> {
        if is_salt(ctx) && self.serializer == "ini" {
            return Err(SerializeFormat::unknown_format("ini"));
        }
        let is_file = ctx.fs.stat(&self.path)?.is_some_and(|stat| stat.kind == FileKind::File);
        if !is_file && !ChunkArgs::new(&self.file).flag("create", true) {
            let words = format!("File {} is not present and is not set for creation", self.name);
            return Ok(SerializePlan::InSync(words));
        }
        let (mut value, mut changed) = (self.value(ctx)?, None);
        if self.merge && is_file {
            match self.merge_value(ctx, &ctx.fs.read(&self.path)?, &value)? {
                None => {}
                Some((_, diffs)) if diffs.is_empty() => {
                    return Ok(SerializePlan::InSync(format!(
                        "The file {} is in the correct state",
                        self.name
                    )));
                }
                Some((merged, diffs)) => (value, changed) = (merged, Some(diffs)),
            }
        }
        let options = self.write_options.effective_map(ctx);
        let text = self.format.write(&value, &options, self.encoding.is_some()).map_err(|mut failure| {
            if is_salt(ctx) && self.format == SerializeFormat::Ini {
                let words = &failure.result.comment;
                failure.result.comment = format!("An exception occurred in this state: {words}");
            }
            failure
        })?;
        Ok(SerializePlan::File(
            managed::build_from_text(&ChunkArgs::new(&self.file), &format!("{text}\n"))?,
            changed,
        ))
    }

    /// Salt shows what a `check_cmd` refused as if it were written.
    fn refused_content(
        &self,
        ctx: &StateCtx<'_>,
        file: &mut dyn State,
        mut failure: StateError,
    ) -> StateError {
        let is_refused = failure.result.details.contains("skip_watch");
        if is_salt(ctx)
            && is_refused
            && let Ok(checked) = file.check(ctx)
        {
            failure.result.changes = checked.changes;
        }
        failure
    }

    /// What the file holds with the value merged into it, and what that changes; nothing when the file holds nothing.
    fn merge_value(
        &self,
        ctx: &StateCtx<'_>,
        old: &[u8],
        value: &Value,
    ) -> Result<Option<(Value, Map)>, StateError> {
        let text = self.encoding.unwrap_or_default().decode(old).ok_or_else(|| {
            StateError::new(format!("{} is not written in the encoding it should be", self.name))
        })?;
        match (self.format.read(&text, &self.read_options.effective_map(ctx), &self.name)?, value) {
            (Value::Null, _) => Ok(None),
            (Value::Map(held), Value::Map(wanted)) => {
                let merged = merge_recurse(&held, wanted, false);
                let diffs = merged.as_map().map(|new| changed_keys(&held, new)).unwrap_or_default();
                Ok(Some((merged, diffs)))
            }
            _ => Err(StateError::new("Cannot update using non-dict types in dictupdate.update()")),
        }
    }
}

impl State for FileSerialize {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (mut file, changed) = match self.plan_file(ctx)? {
            SerializePlan::InSync(words) => return Ok(CheckResult::in_sync(words)),
            SerializePlan::File(file, changed) => (file, changed),
        };
        let mut checked = file.check(ctx)?;
        if checked.verdict == Verdict::InSync {
            return Ok(checked);
        }
        checked.comment = format!("Dataset will be serialized and stored into {}", self.name);
        if !ChunkArgs::new(&self.file).flag("show_changes", true) {
            checked.changes.insert("diff", "<show_changes=False>");
        }
        if let Some(changed) = changed {
            checked.changes.insert("diff", changed);
        }
        Ok(checked)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (mut file, changed) = match self.plan_file(ctx)? {
            SerializePlan::InSync(words) => return Ok(ApplyResult::new(words, Map::new())),
            SerializePlan::File(file, changed) => (file, changed),
        };
        let mut done = file.apply(ctx).map_err(|failure| self.refused_content(ctx, &mut *file, failure))?;
        if let Some(changed) = changed {
            done.changes.insert("diff", changed);
        }
        Ok(done)
    }

    /// A merge may differ from itself the next time: what is no mapping cannot be merged into, and `configparser` reads
    /// other values than it wrote (text for numbers, one `%` for two).
    fn is_convergent(&self) -> bool {
        let is_map =
            matches!(&self.source, SerializeSource::Pillar(_) | SerializeSource::Given(Value::Map(_)));
        !self.merge || (is_map && self.format != SerializeFormat::Ini)
    }

    fn is_predictable(&self) -> bool {
        ChunkArgs::new(&self.file).get("check_cmd").is_none()
    }

    fn still_valid(&self, checked: &CheckResult, hidden: Effects) -> bool {
        self.is_predictable() && !self.merge && managed::content_still_valid(&self.path, checked, hidden)
    }

    fn assume(&self, ctx: &StateCtx<'_>) -> Result<Vec<String>, StateError> {
        match self.plan_file(ctx)? {
            SerializePlan::InSync(_) => Ok(Vec::new()),
            SerializePlan::File(file, _) => file.assume(ctx),
        }
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

/// What is new or other in a mapping, key by key, as Salt prints it.
fn changed_keys(old: &Map, new: &Map) -> Map {
    let mut out = Map::new();
    for (key, value) in new.iter() {
        let before = old.get_value(key);
        match (before, value) {
            (Some(Value::Map(a)), Value::Map(b)) => {
                let inner = changed_keys(a, b);
                if !inner.is_empty() {
                    out.insert(key.clone(), inner);
                }
            }
            (Some(before), value) if before == value => {}
            (before, value) => {
                let mut pair = Map::new();
                pair.insert("new", value.clone());
                pair.insert("old", before.cloned().unwrap_or_else(|| NULL_MARKER.into()));
                out.insert(key.clone(), pair);
            }
        }
    }
    out
}

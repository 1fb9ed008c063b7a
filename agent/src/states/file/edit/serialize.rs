//! `file.serialize`: a value, written into a file in some format.
//!
//! Law: with `merge_if_exists` a file that already holds what is asked for is left as it is, however it is written.

mod format;
mod ini;
mod toml;

use std::path::PathBuf;

use zagent_compiler::Chunk;
use zagent_config::value::{DEFAULT_DELIMITER, merge_recurse, traverse};
use zagent_config::{Map, Value};

use self::format::Format;
use super::edited::is_salt;
use super::text::Encoding;
use crate::fs::Kind;
use crate::states::file::managed;
use crate::states::{Args, Cost, Done, Failure, Look, Resource, Scene, Standing, State, Veil};

/// What Salt puts for a key that was not there.
const NOTHING: &str = "<_null_>";

/// Where the value comes from.
enum Source {
    Given(Value),
    Pillar(String),
}

/// Options of a serializer, as they were given.
struct Options {
    map: Map,
    /// Given as one mapping, which Salt does not take: it wants a list of them, and ignores anything else.
    is_plain: bool,
}

impl Options {
    fn read(args: &Args<'_>, key: &str) -> Result<Self, Failure> {
        let is_plain = matches!(args.get(key), Some(Value::Map(_)));
        Ok(Self { map: args.map(key)?.unwrap_or_default(), is_plain })
    }

    fn seen(&self, scene: &Scene<'_>) -> Map {
        if self.is_plain && is_salt(scene) { Map::new() } else { self.map.clone() }
    }
}

/// A file that holds a value.
pub(super) struct Serialize {
    path: PathBuf,
    name: String,
    source: Source,
    serializer: String,
    format: Format,
    write_options: Options,
    read_options: Options,
    merge: bool,
    encoding: Option<Encoding>,
    /// The file around the value: who owns it, how it is checked and kept.
    file: Chunk,
}

/// What a look finds first.
enum Sight {
    Right(String),
    /// A file with this content; with it what a merge changes, key by key.
    File(Box<dyn State>, Option<Map>),
}

/// Arguments that are about the value, not about the file.
const OWN: [&str; 7] = [
    "dataset",
    "dataset_pillar",
    "serializer",
    "formatter",
    "serializer_opts",
    "deserializer_opts",
    "merge_if_exists",
];

impl Serialize {
    /// Reads `file.serialize`.
    ///
    /// # Errors
    /// Fails with Salt's words when arguments contradict each other.
    pub(super) fn read(path: PathBuf, name: String, args: &Args<'_>) -> Result<Self, Failure> {
        let text = |key| Ok::<_, Failure>(args.text(key)?.filter(|t| !t.is_empty()));
        let (serializer, formatter) = (text("serializer")?, text("formatter")?);
        if serializer.is_some() && formatter.is_some() {
            return Err(Failure::new("Only one of serializer and formatter are allowed"));
        }
        let serializer = serializer.or(formatter).unwrap_or_else(|| "yaml".into()).to_lowercase();
        let source = match (args.get("dataset"), text("dataset_pillar")?) {
            (Some(value), Some(_)) if value.is_truthy() => {
                return Err(Failure::new("Only one of 'dataset' and 'dataset_pillar' is permitted"));
            }
            (_, Some(path)) => Source::Pillar(path),
            (Some(value), None) => Source::Given(value.clone()),
            (None, None) => {
                return Err(Failure::new("Neither 'dataset' nor 'dataset_pillar' was defined"));
            }
        };
        let mut file = args.chunk.clone();
        file.fun = "managed".into();
        OWN.iter().for_each(|key| drop(file.args.remove(key)));
        Ok(Self {
            format: Format::named(&serializer)?,
            write_options: Options::read(args, "serializer_opts")?,
            read_options: Options::read(args, "deserializer_opts")?,
            merge: args.flag("merge_if_exists", false),
            encoding: text("encoding")?.map(|name| Encoding::named(&name)).transpose()?,
            path,
            name,
            source,
            serializer,
            file,
        })
    }

    fn value(&self, scene: &Scene<'_>) -> Result<Value, Failure> {
        match &self.source {
            Source::Given(value) => Ok(value.clone()),
            Source::Pillar(path) => match traverse(scene.pillar, path, DEFAULT_DELIMITER) {
                None | Some(Value::Null) => {
                    Err(Failure::new("Neither 'dataset' nor 'dataset_pillar' was defined"))
                }
                Some(value) => Ok(value.clone()),
            },
        }
    }

    fn find(&self, scene: &Scene<'_>) -> Result<Sight, Failure> {
        if is_salt(scene) && self.serializer == "ini" {
            return Err(Format::unknown("ini"));
        }
        let is_file = scene.fs.stat(&self.path)?.is_some_and(|stat| stat.kind == Kind::File);
        if !is_file && !Args::new(&self.file).flag("create", true) {
            let words = format!("File {} is not present and is not set for creation", self.name);
            return Ok(Sight::Right(words));
        }
        let (mut value, mut changed) = (self.value(scene)?, None);
        if self.merge && is_file {
            match self.merged(scene, &scene.fs.read(&self.path)?, &value)? {
                None => {}
                Some((_, diffs)) if diffs.is_empty() => {
                    return Ok(Sight::Right(format!("The file {} is in the correct state", self.name)));
                }
                Some((merged, diffs)) => (value, changed) = (merged, Some(diffs)),
            }
        }
        let options = self.write_options.seen(scene);
        let text = self.format.write(&value, &options, self.encoding.is_some())?;
        Ok(Sight::File(managed::of_text(&Args::new(&self.file), &format!("{text}\n"))?, changed))
    }

    /// What the file holds with the value merged into it, and what that changes; nothing when the file holds nothing.
    fn merged(&self, scene: &Scene<'_>, old: &[u8], value: &Value) -> Result<Option<(Value, Map)>, Failure> {
        let text = self.encoding.unwrap_or_default().decode(old).ok_or_else(|| {
            Failure::new(format!("{} is not written in the encoding it should be", self.name))
        })?;
        match (self.format.read(&text, &self.read_options.seen(scene), &self.name)?, value) {
            (Value::Null, _) => Ok(None),
            (Value::Map(held), Value::Map(wanted)) => {
                let merged = merge_recurse(&held, wanted, false);
                let diffs = merged.as_map().map(|new| diffs(&held, new)).unwrap_or_default();
                Ok(Some((merged, diffs)))
            }
            _ => Err(Failure::new("Cannot update using non-dict types in dictupdate.update()")),
        }
    }
}

impl State for Serialize {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (mut file, changed) = match self.find(scene)? {
            Sight::Right(words) => return Ok(Look::right(words)),
            Sight::File(file, changed) => (file, changed),
        };
        let mut look = file.check(scene)?;
        if look.standing == Standing::Right {
            return Ok(look);
        }
        look.comment = format!("Dataset will be serialized and stored into {}", self.name);
        if !Args::new(&self.file).flag("show_changes", true) {
            look.changes.insert("diff", "<show_changes=False>");
        }
        if let Some(changed) = changed {
            look.changes.insert("diff", changed);
        }
        Ok(look)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (mut file, changed) = match self.find(scene)? {
            Sight::Right(words) => return Ok(Done::new(words, Map::new())),
            Sight::File(file, changed) => (file, changed),
        };
        let mut done = file.apply(scene)?;
        if let Some(changed) = changed {
            done.changes.insert("diff", changed);
        }
        Ok(done)
    }

    /// A merge may differ from itself the next time: what is no mapping cannot be merged into, and `configparser` reads
    /// other values than it wrote (text for numbers, one `%` for two).
    fn is_lasting(&self) -> bool {
        let is_map = matches!(&self.source, Source::Pillar(_) | Source::Given(Value::Map(_)));
        !self.merge || (is_map && self.format != Format::Ini)
    }

    fn is_foreseeable(&self) -> bool {
        Args::new(&self.file).get("check_cmd").is_none()
    }

    fn holds(&self, look: &Look, hidden: Veil) -> bool {
        self.is_foreseeable() && !self.merge && managed::stays(&self.path, look, hidden)
    }

    fn suppose(&self, scene: &Scene<'_>) -> Result<Vec<String>, Failure> {
        match self.find(scene)? {
            Sight::Right(_) => Ok(Vec::new()),
            Sight::File(file, _) => file.suppose(scene),
        }
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}

/// What is new or other in a mapping, key by key, as Salt prints it.
fn diffs(old: &Map, new: &Map) -> Map {
    let mut out = Map::new();
    for (key, value) in new.iter() {
        let before = old.get_value(key);
        match (before, value) {
            (Some(Value::Map(a)), Value::Map(b)) => {
                let inner = diffs(a, b);
                if !inner.is_empty() {
                    out.insert(key.clone(), inner);
                }
            }
            (Some(before), value) if before == value => {}
            (before, value) => {
                let mut pair = Map::new();
                pair.insert("new", value.clone());
                pair.insert("old", before.cloned().unwrap_or_else(|| NOTHING.into()));
                out.insert(key.clone(), pair);
            }
        }
    }
    out
}

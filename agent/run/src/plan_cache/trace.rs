//! Inputs of a compile, recorded while it reads them and checked again later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use zagent_compiler::{CallError, Cipher, CompileInputs, FileStamp, FileTree, FunctionCall, TemplateHost};
use zagent_config::Value;
use zagent_config::mask::Secret;
use zagent_config::value::binary::{ValueReader, write_text, write_varint};

/// A file that changed less than this before it was read may change again with the same stamp.
const FRESH_NANOS: u64 = 50_000_000;

/// Digest of an input.
pub type Digest = [u8; blake3::OUT_LEN];

/// Inputs of a compile.
#[derive(Debug, Default)]
pub struct CompileTrace(Mutex<TraceEntries>);

#[derive(Debug, Default)]
struct TraceEntries {
    files: BTreeMap<(TreeSide, String, String), FileStamp>,
    /// Files without a stamp.
    unstamped: BTreeSet<(TreeSide, String, String)>,
    lists: BTreeMap<(TreeSide, String), Digest>,
    grains: BTreeMap<String, Digest>,
    all_grains: Option<Digest>,
    functions: Option<Digest>,
    calls: Vec<(FunctionCall, Digest)>,
    /// An input cannot be checked again, or must not be cached.
    uncacheable: bool,
}

/// Which of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeSide {
    /// The states.
    States,
    /// The pillar.
    Pillar,
}

impl TreeSide {
    /// The tree.
    #[must_use]
    pub fn tree(self, inputs: &CompileInputs) -> &dyn FileTree {
        match self {
            Self::States => &*inputs.states,
            Self::Pillar => &*inputs.pillar,
        }
    }

    /// Its word for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::States => "states",
            Self::Pillar => "pillar",
        }
    }
}

/// One input that a compile read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedInput {
    /// A file, by environment and path.
    File(TreeSide, String, String),
    /// The file list of an environment.
    List(TreeSide, String),
    /// A grain.
    Grain(String),
    /// All grains at once.
    AllGrains,
    /// The answer of a function, as a digest.
    Call(String, Digest),
}

impl CompileTrace {
    /// The same inputs, and a recording of what is read through them.
    #[must_use]
    pub fn trace_inputs(inputs: &CompileInputs) -> (CompileInputs, Arc<Self>) {
        let trace = Arc::new(Self::default());
        let files = |inner: &Arc<dyn FileTree>, side| -> Arc<dyn FileTree> {
            Arc::new(TracedFiles { inner: Arc::clone(inner), side, trace: Arc::clone(&trace) })
        };
        let traced = CompileInputs {
            states: files(&inputs.states, TreeSide::States),
            pillar: files(&inputs.pillar, TreeSide::Pillar),
            host: Arc::new(TracedHost { inner: Arc::clone(&inputs.host), trace: Arc::clone(&trace) }),
            schema: inputs.schema,
            options: Arc::clone(&inputs.options),
        };
        (traced, trace)
    }

    fn entries(&self) -> MutexGuard<'_, TraceEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of calls that were recorded.
    #[must_use]
    pub fn call_count(&self) -> usize {
        self.entries().calls.len()
    }

    /// Everything that was read so far.
    #[must_use]
    pub fn inputs(&self) -> Vec<TracedInput> {
        let entries = self.entries();
        let lists = entries.lists.keys().map(|(side, env)| TracedInput::List(*side, env.clone()));
        let files = entries
            .files
            .keys()
            .chain(&entries.unstamped)
            .map(|(side, env, path)| TracedInput::File(*side, env.clone(), path.clone()));
        let grains = entries.grains.keys().map(|name| TracedInput::Grain(name.clone()));
        let all = entries.all_grains.iter().map(|_| TracedInput::AllGrains);
        let calls =
            entries.calls.iter().map(|(call, digest)| TracedInput::Call(call.function.clone(), *digest));
        lists.chain(files).chain(grains).chain(all).chain(calls).collect()
    }

    /// Serialises it; false when it must not be cached.
    pub fn to_bytes(&self, now: SystemTime, out: &mut Vec<u8>) -> bool {
        let calls = self.entries().calls.clone();
        self.write_entries(now, &calls, out)
    }

    /// The same without the calls: what they were for is not kept.
    pub(super) fn to_bytes_without_calls(&self, now: SystemTime, out: &mut Vec<u8>) -> bool {
        self.write_entries(now, &[], out)
    }

    fn write_entries(&self, now: SystemTime, calls: &[(FunctionCall, Digest)], out: &mut Vec<u8>) -> bool {
        let entries = self.entries();
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let fresh = |s: &FileStamp| s.of[3].max(s.of[4]).saturating_add(FRESH_NANOS) > now;
        if entries.uncacheable || entries.files.values().any(fresh) {
            return false;
        }
        write_varint(out, entries.files.len() as u64);
        for ((side, env, path), stamp) in &entries.files {
            out.push(*side as u8);
            write_text(out, env);
            write_text(out, path);
            stamp.of.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        }
        write_varint(out, entries.lists.len() as u64);
        for ((side, env), digest) in &entries.lists {
            out.push(*side as u8);
            write_text(out, env);
            out.extend_from_slice(digest);
        }
        write_varint(out, entries.grains.len() as u64);
        for (name, digest) in &entries.grains {
            write_text(out, name);
            out.extend_from_slice(digest);
        }
        for whole in [&entries.all_grains, &entries.functions] {
            out.push(u8::from(whole.is_some()));
            out.extend_from_slice(whole.as_ref().map_or(&[][..], |d| d));
        }
        write_varint(out, calls.len() as u64);
        for (call, digest) in calls {
            write_text(out, &call.function);
            call.args.iter().cloned().collect::<Value>().to_bytes(out);
            call.kwargs.to_bytes(out);
            out.extend_from_slice(digest);
        }
        true
    }
}

/// Reads a trace and checks every input again; `None` when it cannot be read.
pub fn still_valid(reader: &mut ValueReader<'_>, inputs: &CompileInputs) -> Option<bool> {
    read_trace(reader, Some(inputs))
}

/// Skips a trace that nobody has to compare.
pub(super) fn skip(reader: &mut ValueReader<'_>) -> Option<()> {
    read_trace(reader, None).map(drop)
}

/// Reads a trace; true when all of it would be told again, or there is nothing to compare it with.
fn read_trace(reader: &mut ValueReader<'_>, inputs: Option<&CompileInputs>) -> Option<bool> {
    let mut same = true;
    let side = |reader: &mut ValueReader<'_>| match reader.read_byte()? {
        0 => Some(inputs.map(|inputs| &inputs.states)),
        1 => Some(inputs.map(|inputs| &inputs.pillar)),
        _ => None,
    };
    for _ in 0..reader.read_count()? {
        let (files, env, path) = (side(reader)?, reader.read_text()?, reader.read_text()?);
        let mut of = [0; 5];
        for n in &mut of {
            *n = u64::from_le_bytes(reader.read_bytes(8)?.try_into().ok()?);
        }
        same = same && files.is_none_or(|files| files.stamp(env, path) == Some(FileStamp { of }));
    }
    for _ in 0..reader.read_count()? {
        let (files, env, digest) = (side(reader)?, reader.read_text()?, reader.read_bytes(blake3::OUT_LEN)?);
        same = same && files.is_none_or(|files| list_digest(&files.list(env)) == digest);
    }
    let host = inputs.map(|inputs| &inputs.host);
    for _ in 0..reader.read_count()? {
        let (name, digest) = (reader.read_text()?, reader.read_bytes(blake3::OUT_LEN)?);
        same = same && host.is_none_or(|host| value_digest(host.grain(name).as_ref()) == digest);
    }
    if reader.read_byte()? == 1 {
        let digest = reader.read_bytes(blake3::OUT_LEN)?;
        same = same && host.is_none_or(|host| value_digest(Some(&host.grains())) == digest);
    }
    if reader.read_byte()? == 1 {
        let digest = reader.read_bytes(blake3::OUT_LEN)?;
        same = same && host.is_none_or(|host| names_digest(&host.functions()) == digest);
    }
    for _ in 0..reader.read_count()? {
        let function = reader.read_text()?.to_owned();
        let Value::List(args) = reader.read_value()? else { return None };
        let call = FunctionCall { function, args: args.to_vec(), kwargs: reader.read_map()? };
        let digest = reader.read_bytes(blake3::OUT_LEN)?;
        same = same && host.is_none_or(|host| call_digest(&host.call(&call)) == digest);
    }
    Some(same)
}

pub(super) fn value_digest(value: Option<&Value>) -> Digest {
    let mut bytes = Vec::new();
    if let Some(value) = value {
        value.to_bytes(&mut bytes);
    }
    blake3::hash(&bytes).into()
}

fn list_digest(list: &Result<Arc<[String]>, String>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    match list {
        Ok(names) => names.iter().for_each(|name| {
            hasher.update(name.as_bytes()).update(b"\0");
        }),
        Err(words) => {
            hasher.update(b"\0").update(words.as_bytes());
        }
    }
    hasher.finalize().into()
}

fn names_digest(names: &[&str]) -> Digest {
    blake3::hash(names.join("\n").as_bytes()).into()
}

fn call_digest(answer: &Result<Value, CallError>) -> Digest {
    match answer {
        Ok(value) => value_digest(Some(value)),
        Err(error) => blake3::hash(format!("error {error:?}").as_bytes()).into(),
    }
}

struct TracedFiles {
    inner: Arc<dyn FileTree>,
    side: TreeSide,
    trace: Arc<CompileTrace>,
}

impl TracedFiles {
    /// Takes stamps before a read, so that a change meanwhile is detected.
    fn record_stamp(&self, env: &str, path: &str) {
        let key = (self.side, env.to_owned(), path.to_owned());
        let mut entries = self.trace.entries();
        if entries.files.contains_key(&key) {
            return;
        }
        match self.inner.stamp(env, path) {
            Some(stamp) => {
                entries.files.insert(key, stamp);
            }
            None => {
                entries.unstamped.insert(key);
                entries.uncacheable = true;
            }
        }
    }
}

impl FileTree for TracedFiles {
    fn envs(&self) -> Vec<String> {
        self.inner.envs()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        self.record_stamp(env, path);
        self.inner.read(env, path)
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.record_stamp(env, path);
        self.inner.has(env, path)
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        let list = self.inner.list(env);
        self.trace.entries().lists.insert((self.side, env.to_owned()), list_digest(&list));
        list
    }

    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        self.inner.stamp(env, path)
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        self.record_stamp(env, path);
        self.inner.mode(env, path)
    }

    // These two reveal no more than a file list, except for empty directories and links: nothing is cached
    // then.
    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.trace.entries().uncacheable = true;
        self.inner.dirs(env)
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        self.trace.entries().uncacheable = true;
        self.inner.links(env)
    }

    fn display(&self, env: &str, path: &str) -> String {
        self.inner.display(env, path)
    }
}

struct TracedHost {
    inner: Arc<dyn TemplateHost>,
    trace: Arc<CompileTrace>,
}

impl TemplateHost for TracedHost {
    fn grain(&self, name: &str) -> Option<Value> {
        let grain = self.inner.grain(name);
        let mut entries = self.trace.entries();
        if !entries.grains.contains_key(name) {
            entries.grains.insert(name.to_owned(), value_digest(grain.as_ref()));
        }
        grain
    }

    fn grains(&self) -> Value {
        let grains = self.inner.grains();
        let mut entries = self.trace.entries();
        if entries.all_grains.is_none() {
            entries.all_grains = Some(value_digest(Some(&grains)));
        }
        grains
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        let answer = self.inner.call(call);
        self.trace.entries().calls.push((call.clone(), call_digest(&answer)));
        answer
    }

    fn manager(&self) -> Option<Arc<dyn TemplateHost>> {
        let manager = self.inner.manager();
        // What the manager answers is not recorded.
        self.trace.entries().uncacheable |= manager.is_some();
        manager
    }

    fn resource(&self) -> Option<Value> {
        self.inner.resource()
    }

    fn functions(&self) -> Vec<&'static str> {
        let names = self.inner.functions();
        self.trace.entries().functions = Some(names_digest(&names));
        names
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<Secret, String> {
        self.trace.entries().uncacheable = true;
        self.inner.decrypt(cipher, armoured)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        let more = self.inner.external_pillar(pillar);
        self.trace.entries().uncacheable |= !matches!(&more, Ok(none) if none.is_empty());
        more
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        let more = self.inner.external_tops();
        self.trace.entries().uncacheable |= !matches!(&more, Ok(none) if none.is_empty());
        more
    }
}

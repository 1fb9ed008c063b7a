//! Everything a compile is told, written down while it is told, and asked again later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use zagent_compiler::{Call, CallError, Cipher, Files, Host, Inputs, Stamp};
use zagent_config::Value;
use zagent_config::value::bytes::{Reader, put_number, put_text};

/// A file that changed less than this before it was read may change again without its stamp telling.
const FRESH: u64 = 50_000_000;

type Digest = [u8; blake3::OUT_LEN];

/// What a compile was told.
#[derive(Debug, Default)]
pub struct Trace(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    files: BTreeMap<(Side, String, String), Stamp>,
    lists: BTreeMap<(Side, String), Digest>,
    grains: BTreeMap<String, Digest>,
    all_grains: Option<Digest>,
    functions: Option<Digest>,
    calls: Vec<(Call, Digest)>,
    /// Something was told that cannot be asked again, or must not be kept.
    untold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    States,
    Pillar,
}

impl Trace {
    /// The same inputs, and what will be told through them.
    #[must_use]
    pub fn of(inputs: &Inputs) -> (Inputs, Arc<Self>) {
        let trace = Arc::new(Self::default());
        let files = |inner: &Arc<dyn Files>, side| -> Arc<dyn Files> {
            Arc::new(TracedFiles { inner: Arc::clone(inner), side, trace: Arc::clone(&trace) })
        };
        let traced = Inputs {
            states: files(&inputs.states, Side::States),
            pillar: files(&inputs.pillar, Side::Pillar),
            host: Arc::new(TracedHost { inner: Arc::clone(&inputs.host), trace: Arc::clone(&trace) }),
            options: Arc::clone(&inputs.options),
        };
        (traced, trace)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes it; false when it is not to be kept.
    pub(super) fn to_bytes(&self, now: SystemTime, out: &mut Vec<u8>) -> bool {
        let told = self.told();
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let fresh = |s: &Stamp| s.of[3].max(s.of[4]).saturating_add(FRESH) > now;
        if told.untold || told.files.values().any(fresh) {
            return false;
        }
        put_number(out, told.files.len() as u64);
        for ((side, env, path), stamp) in &told.files {
            out.push(*side as u8);
            put_text(out, env);
            put_text(out, path);
            stamp.of.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        }
        put_number(out, told.lists.len() as u64);
        for ((side, env), digest) in &told.lists {
            out.push(*side as u8);
            put_text(out, env);
            out.extend_from_slice(digest);
        }
        put_number(out, told.grains.len() as u64);
        for (name, digest) in &told.grains {
            put_text(out, name);
            out.extend_from_slice(digest);
        }
        for whole in [&told.all_grains, &told.functions] {
            out.push(u8::from(whole.is_some()));
            out.extend_from_slice(whole.as_ref().map_or(&[][..], |d| d));
        }
        put_number(out, told.calls.len() as u64);
        for (call, digest) in &told.calls {
            put_text(out, &call.function);
            call.args.iter().cloned().collect::<Value>().to_bytes(out);
            call.kwargs.to_bytes(out);
            out.extend_from_slice(digest);
        }
        true
    }
}

/// Reads a trace and asks everything again; `None` when it cannot be read.
pub(super) fn holds(reader: &mut Reader<'_>, inputs: &Inputs) -> Option<bool> {
    let mut same = true;
    let side = |reader: &mut Reader<'_>| match reader.byte()? {
        0 => Some(&inputs.states),
        1 => Some(&inputs.pillar),
        _ => None,
    };
    for _ in 0..reader.count()? {
        let (files, env, path) = (side(reader)?, reader.text()?, reader.text()?);
        let mut of = [0; 5];
        for n in &mut of {
            *n = u64::from_le_bytes(reader.bytes(8)?.try_into().ok()?);
        }
        same = same && files.stamp(env, path) == Some(Stamp { of });
    }
    for _ in 0..reader.count()? {
        let (files, env, digest) = (side(reader)?, reader.text()?, reader.bytes(blake3::OUT_LEN)?);
        same = same && listed(&files.list(env)) == digest;
    }
    for _ in 0..reader.count()? {
        let (name, digest) = (reader.text()?, reader.bytes(blake3::OUT_LEN)?);
        same = same && of_value(inputs.host.grain(name).as_ref()) == digest;
    }
    if reader.byte()? == 1 {
        let digest = reader.bytes(blake3::OUT_LEN)?;
        same = same && of_value(Some(&inputs.host.grains())) == digest;
    }
    if reader.byte()? == 1 {
        let digest = reader.bytes(blake3::OUT_LEN)?;
        same = same && named(&inputs.host.functions()) == digest;
    }
    for _ in 0..reader.count()? {
        let function = reader.text()?.to_owned();
        let Value::List(args) = reader.value()? else { return None };
        let call = Call { function, args: args.to_vec(), kwargs: reader.map()? };
        let digest = reader.bytes(blake3::OUT_LEN)?;
        same = same && answered(&inputs.host.call(&call)) == digest;
    }
    Some(same)
}

fn of_value(value: Option<&Value>) -> Digest {
    let mut bytes = Vec::new();
    if let Some(value) = value {
        value.to_bytes(&mut bytes);
    }
    blake3::hash(&bytes).into()
}

fn listed(list: &Result<Arc<[String]>, String>) -> Digest {
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

fn named(names: &[&str]) -> Digest {
    blake3::hash(names.join("\n").as_bytes()).into()
}

fn answered(answer: &Result<Value, CallError>) -> Digest {
    match answer {
        Ok(value) => of_value(Some(value)),
        Err(error) => blake3::hash(format!("error {error:?}").as_bytes()).into(),
    }
}

struct TracedFiles {
    inner: Arc<dyn Files>,
    side: Side,
    trace: Arc<Trace>,
}

impl TracedFiles {
    /// Stamps before a look, so that a change meanwhile is seen as one.
    fn note(&self, env: &str, path: &str) {
        let key = (self.side, env.to_owned(), path.to_owned());
        let mut told = self.trace.told();
        if told.files.contains_key(&key) {
            return;
        }
        match self.inner.stamp(env, path) {
            Some(stamp) => {
                told.files.insert(key, stamp);
            }
            None => told.untold = true,
        }
    }
}

impl Files for TracedFiles {
    fn envs(&self) -> Vec<String> {
        self.inner.envs()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        self.note(env, path);
        self.inner.read(env, path)
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.note(env, path);
        self.inner.has(env, path)
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        let list = self.inner.list(env);
        self.trace.told().lists.insert((self.side, env.to_owned()), listed(&list));
        list
    }

    fn stamp(&self, env: &str, path: &str) -> Option<Stamp> {
        self.inner.stamp(env, path)
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        self.note(env, path);
        self.inner.mode(env, path)
    }

    // These two tell no more than a list of files does, but for what is empty or a link: nothing is kept then.
    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.trace.told().untold = true;
        self.inner.dirs(env)
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        self.trace.told().untold = true;
        self.inner.links(env)
    }

    fn display(&self, env: &str, path: &str) -> String {
        self.inner.display(env, path)
    }
}

struct TracedHost {
    inner: Arc<dyn Host>,
    trace: Arc<Trace>,
}

impl Host for TracedHost {
    fn grain(&self, name: &str) -> Option<Value> {
        let grain = self.inner.grain(name);
        let mut told = self.trace.told();
        if !told.grains.contains_key(name) {
            told.grains.insert(name.to_owned(), of_value(grain.as_ref()));
        }
        grain
    }

    fn grains(&self) -> Value {
        let grains = self.inner.grains();
        let mut told = self.trace.told();
        if told.all_grains.is_none() {
            told.all_grains = Some(of_value(Some(&grains)));
        }
        grains
    }

    fn call(&self, call: &Call) -> Result<Value, CallError> {
        let answer = self.inner.call(call);
        self.trace.told().calls.push((call.clone(), answered(&answer)));
        answer
    }

    fn functions(&self) -> Vec<&'static str> {
        let names = self.inner.functions();
        self.trace.told().functions = Some(named(&names));
        names
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<String, String> {
        self.trace.told().untold = true;
        self.inner.decrypt(cipher, armoured)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        let more = self.inner.external_pillar(pillar);
        self.trace.told().untold |= !matches!(&more, Ok(none) if none.is_empty());
        more
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        let more = self.inner.external_tops();
        self.trace.told().untold |= !matches!(&more, Ok(none) if none.is_empty());
        more
    }
}

//! Filters that read from the host or need random numbers; the caller provides both.
//!
//! Law: no file, no name service, no clock and no random number is reached from here directly (held by
//! `pure_modules_do_not_touch_the_machine`).

use base64::Engine as _;
use minijinja::value::Value;
use minijinja::{Error, State};
use zagent_config::{Map, Value as Data};

use super::HostFilterFn;
use super::hash::digest_by_name;
use super::sequences::pick_item;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::object::{budget, list, py_str, to_template, to_value};
use crate::{CallError, FunctionCall, TemplateHost};

/// What filters may request from the host. Besides execution functions they call:
///
/// * `zagent.random(below, count)`: a list of `count` integers from 0 up to, not including, `below`;
/// * `zagent.now()`: seconds since 1970 as a float;
/// * `zagent.utc_offset(seconds)`: how far local time is ahead of UTC at that time, in seconds;
/// * `zagent.is_empty_file`, `zagent.is_text_file`, `zagent.is_binary_file`, `zagent.list_files` (a path),
///   `zagent.dns_check` (as the filter of that name);
/// * `cmd.which`, `file.get_hash`, `file.user_to_uid`, `http.query`.
pub trait FilterHost: Send + Sync {
    /// Calls a function.
    ///
    /// # Errors
    /// Fails when the function is unknown, forbidden, or failed.
    fn call(&self, call: &FunctionCall) -> Result<Data, CallError>;
}

impl<H: TemplateHost + ?Sized> FilterHost for std::sync::Arc<H> {
    fn call(&self, call: &FunctionCall) -> Result<Data, CallError> {
        TemplateHost::call(&**self, call)
    }
}

pub(super) const FILTERS: &[(&str, HostFilterFn)] = &[
    ("which", |h, _, a| forward(h, a, "cmd.which")),
    ("list_files", |h, _, a| forward(h, a, "zagent.list_files")),
    ("file_hashsum", |h, _, a| forward(h, a, "file.get_hash")),
    ("is_empty", |h, _, a| forward(h, a, "zagent.is_empty_file")),
    ("is_text_file", |h, _, a| forward(h, a, "zagent.is_text_file")),
    ("is_bin_file", |h, _, a| forward(h, a, "zagent.is_binary_file")),
    ("get_uid", |h, _, a| forward(h, a, "file.user_to_uid")),
    ("dns_check", |h, _, a| forward(h, a, "zagent.dns_check")),
    ("http_query", |h, _, a| forward(h, a, "http.query")),
    ("random", random),
    ("random_hash", random_hash),
    ("rand_str", random_hash),
    ("random_str", random_str),
    ("random_sample", |h, _, a| {
        let [value, size, seed] = a.bind(["value", "size", "seed"], 2)?;
        let size = a.int("size", &size.unwrap_or_default())?;
        sample(h, a, &value.unwrap_or_default(), Some(size), seed)
    }),
    ("random_shuffle", |h, _, a| {
        let [value, seed] = a.bind(["value", "seed"], 1)?;
        sample(h, a, &value.unwrap_or_default(), None, seed)
    }),
    ("gen_mac", gen_mac),
];

/// Calls a function of the host and formats its error.
pub(super) fn call_host(host: &dyn FilterHost, args: &CallArgs, call: &FunctionCall) -> Result<Data, Error> {
    host.call(call).map_err(|e| match e {
        CallError::Unknown => args.error(format_args!("the host has no function `{}`", call.function)),
        CallError::Forbidden(why) | CallError::Failed(why) => args.error(why),
        CallError::Unavailable { message, hint } => args.error(format_args!("{message}; {hint}")),
    })
}

fn forward(host: &dyn FilterHost, args: &CallArgs, function: &str) -> Result<Value, Error> {
    let mut kwargs = Map::new();
    for (name, value) in args.named() {
        kwargs.insert(name.as_str(), to_value(value)?);
    }
    let positional = args.positional().iter().map(to_value).collect::<Result<Vec<_>, _>>()?;
    let call = FunctionCall { function: function.to_owned(), args: positional, kwargs };
    call_host(host, args, &call).map(|v| to_template(&v))
}

/// Gets `count` random numbers below a bound.
fn draw(host: &dyn FilterHost, args: &CallArgs, below: i64, count: usize) -> Result<Vec<i64>, Error> {
    budget::check_items(args.function_name(), count)?;
    let n = i64::try_from(count).unwrap_or(i64::MAX);
    let call = FunctionCall {
        function: "zagent.random".into(),
        args: vec![Data::Int(below), Data::Int(n)],
        kwargs: Map::new(),
    };
    let drawn = call_host(host, args, &call)?;
    let drawn: Vec<i64> =
        drawn.as_list().into_iter().flat_map(|l| l.iter().filter_map(Data::as_int)).collect();
    if drawn.len() != count || drawn.iter().any(|n| !(0..below).contains(n)) {
        return Err(args.error("the host returned unexpected random numbers"));
    }
    Ok(drawn)
}

fn draw_one(host: &dyn FilterHost, args: &CallArgs, below: i64) -> Result<i64, Error> {
    draw(host, args, below, 1).map(|drawn| drawn[0])
}

fn random(host: &dyn FilterHost, _: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let items = args.items(&args.expect_one("seq")?)?;
    if items.is_empty() {
        return Ok(Value::UNDEFINED);
    }
    let below = i64::try_from(items.len()).unwrap_or(i64::MAX);
    pick_item(&items, draw_one(host, args, below)?)
}

fn random_hash(host: &dyn FilterHost, _: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [size, kind] = args.bind(["size", "hash_type"], 0)?;
    let size = size.map_or(Ok(9_999_999_999), |v| args.int("size", &v))?;
    let kind = not_none(kind).map_or_else(|| Ok("md5".to_owned()), |v| args.text(&v))?;
    if size < 0 {
        return Err(args.error("size must not be negative"));
    }
    let drawn = draw_one(host, args, size.saturating_add(1))?.to_string();
    let digest = digest_by_name(&kind, &drawn);
    digest.map(Value::from).ok_or_else(|| args.error(format_args!("unknown hash type '{kind}'")))
}

fn random_str(host: &dyn FilterHost, _: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [size] = args.bind(["size"], 0)?;
    let size = size.map_or(Ok(32), |v| args.int("size", &v))?;
    let size = usize::try_from(size).map_err(|_| args.error("size must not be negative"))?;
    let bytes: Vec<u8> =
        draw(host, args, 256, size)?.into_iter().filter_map(|n| u8::try_from(n).ok()).collect();
    let mut out = base64::engine::general_purpose::STANDARD.encode(bytes);
    out.truncate(size);
    Ok(Value::from(out))
}

fn sample(
    host: &dyn FilterHost,
    args: &CallArgs,
    value: &Value,
    size: Option<i64>,
    seed: Option<Value>,
) -> Result<Value, Error> {
    let mut items = args.items(value)?;
    let n = items.len();
    let size = match size {
        None => n,
        Some(size) => usize::try_from(size)
            .ok()
            .filter(|s| *s <= n)
            .ok_or_else(|| args.error("the sample is larger than the population or is negative"))?,
    };
    let mut seeded = not_none(seed).map(|seed| SeededRng::new(&py_str(&seed)));
    for i in 0..size {
        let left = i64::try_from(n - i).unwrap_or(i64::MAX);
        let step = match &mut seeded {
            Some(generator) => generator.next_below(left),
            None => draw_one(host, args, left)?,
        };
        items.swap(i, i + usize::try_from(step).unwrap_or(0));
    }
    items.truncate(size);
    Ok(list(items))
}

/// A generator that gives the same numbers for the same seed, everywhere (splitmix64 over FNV-1a).
struct SeededRng(u64);

impl SeededRng {
    fn new(seed: &str) -> Self {
        let fold = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        Self(seed.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    fn next_below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let bound = u64::try_from(bound).unwrap_or(1).max(1);
        i64::try_from(z % bound).unwrap_or(0)
    }
}

fn gen_mac(host: &dyn FilterHost, _: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [prefix] = args.bind(["prefix"], 0)?;
    let prefix = prefix.map_or_else(|| Ok("AC:DE:48".to_owned()), |v| args.text(&v))?;
    let drawn = draw(host, args, 256, 3)?;
    let tail: String = drawn.iter().map(|n| format!(":{n:02X}")).collect();
    Ok(Value::from(prefix + &tail))
}

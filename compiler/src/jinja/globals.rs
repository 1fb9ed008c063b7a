//! Names that every template has: `range`, `dict`, `namespace`, `raise`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value};
use minijinja::{Environment, Error, ErrorKind, State};

use super::methods::args::{CallArgs, undefined_error};
use super::methods::dict::pairs;
use super::object::{Dict, DictKey, PyRange, budget, dict, to_storable};

type GlobalFn = fn(&mut State<'_, '_>, &CallArgs) -> Result<Value, Error>;

const FUNCTIONS: &[(&str, GlobalFn)] = &[
    ("range", range),
    ("dict", |_, a| new_dict(a)),
    ("odict", |_, a| new_dict(a)),
    ("cycler", cycler),
    ("joiner", joiner),
    ("lipsum", lipsum),
    ("raise", raise),
];

/// Adds all functions.
pub fn install(env: &mut Environment<'_>) {
    for (name, function) in FUNCTIONS.iter().copied() {
        env.add_function(name, move |state: &mut State<'_, '_>, values: Rest<Value>, kwargs: Kwargs| {
            function(state, &CallArgs::from_parts(&format!("{name}()"), values.0, &kwargs))
        });
    }
}

/// The longest range: what Jinja2's sandbox allows.
const MAX_RANGE: usize = 100_000;

fn range(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    if !args.named().is_empty() {
        return Err(args.error("takes no keyword arguments"));
    }
    let bounds =
        args.positional().iter().map(|v| args.int("each bound", v)).collect::<Result<Vec<_>, _>>()?;
    let range = match bounds.as_slice() {
        [stop] => PyRange::new(0, *stop, 1),
        [start, stop] => PyRange::new(*start, *stop, 1),
        [start, stop, step] => PyRange::new(*start, *stop, *step),
        _ => return Err(args.error("takes one to three arguments")),
    }?;
    if range.len() > MAX_RANGE {
        return Err(args.error(format_args!("range too big: the maximum size is {MAX_RANGE}")));
    }
    Ok(Value::from_object(range))
}

fn new_dict(args: &CallArgs) -> Result<Value, Error> {
    let mut out = Dict::new();
    match args.positional() {
        [] => {}
        [one] if one.is_undefined() => return Err(undefined_error(one)),
        [one] => {
            for (key, value) in pairs(args, one)? {
                out.insert(DictKey::new(key)?, to_storable(value)?);
            }
        }
        _ => return Err(args.error("takes at most one positional argument")),
    }
    for (key, value) in args.named() {
        out.insert(DictKey::from(key.as_str()), to_storable(value.clone())?);
    }
    budget::check_items(args.function_name(), out.len())?;
    Ok(dict(out))
}

fn raise(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, args.text(&args.expect_one("msg")?)?))
}

/// Words for `lipsum`, which only fills space.
const LIPSUM_WORDS: &[&str] = &[
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetuer",
    "adipiscing",
    "elit",
    "sed",
    "diam",
    "nonummy",
    "nibh",
    "euismod",
    "tincidunt",
    "ut",
    "laoreet",
    "dolore",
    "magna",
    "aliquam",
    "erat",
    "volutpat",
];

fn lipsum(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [n, html, least, _] = args.bind(["n", "html", "min", "max"], 0)?;
    let n = n.map_or(Ok(5), |v| args.int("n", &v))?;
    let least = least.map_or(Ok(20), |v| args.int("min", &v))?;
    let (n, least) = (usize::try_from(n).unwrap_or(0), usize::try_from(least).unwrap_or(0));
    budget::check_bytes(args.function_name(), n.saturating_mul(least).saturating_mul(16))?;
    let words: Vec<&str> = LIPSUM_WORDS.iter().copied().cycle().take(least.max(1)).collect();
    let mut paragraph = words.join(" ");
    if let Some(first) = paragraph.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    paragraph.push('.');
    let is_html = html.is_none_or(|v| v.is_true());
    let paragraph = if is_html { format!("<p>{paragraph}</p>") } else { paragraph };
    let separator = if is_html { "\n" } else { "\n\n" };
    Ok(Value::from_safe_string(vec![paragraph; n].join(separator)))
}

/// `cycler(a, b, …)`: returns its items in turn.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

fn cycler(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    if args.positional().is_empty() {
        return Err(args.error("at least one item has to be provided"));
    }
    Ok(Value::from_object(Cycler { items: args.positional().to_vec(), at: AtomicUsize::new(0) }))
}

impl Cycler {
    fn current(&self) -> Value {
        self.items[self.at.load(Ordering::Relaxed) % self.items.len()].clone()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        CallArgs::new(format!("cycler.{method}()"), args).expect_none()?;
        match method {
            "next" => {
                let item = self.current();
                self.at.store((self.at.load(Ordering::Relaxed) + 1) % self.items.len(), Ordering::Relaxed);
                Ok(item)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// `joiner(sep)`: returns an empty text on the first call, then always the separator.
struct Joiner {
    separator: Value,
    is_used: AtomicBool,
}

impl fmt::Debug for Joiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<joiner>")
    }
}

fn joiner(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [separator] = args.bind(["sep"], 0)?;
    let separator = separator.unwrap_or_else(|| Value::from(", "));
    Ok(Value::from_object(Joiner { separator, is_used: AtomicBool::new(false) }))
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        CallArgs::new("joiner()", args).expect_none()?;
        let was_used = self.is_used.swap(true, Ordering::Relaxed);
        Ok(if was_used { self.separator.clone() } else { Value::from("") })
    }
}

//! Python's itertools as Salt offers them: combinations of items.
//!
//! Law: the number of combinations is checked before the first is made (held by `hostile_values_fail_quickly`).

use minijinja::value::Value;
use minijinja::{Error, State};

use super::FilterFn;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::object::{budget, generator, tuple};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("zip", |_, a| zip(a, false)),
    ("zip_longest", |_, a| zip(a, true)),
    ("product", product),
    ("permutations", permutations),
    ("combinations", |_, a| combinations(a, false)),
    ("combinations_with_replacement", |_, a| combinations(a, true)),
    ("compress", compress),
];

fn zip(args: &CallArgs, is_longest: bool) -> Result<Value, Error> {
    let mut fill = Value::from(());
    for (name, value) in args.named() {
        match name.as_str() {
            "fillvalue" if is_longest => fill = value.clone(),
            "strict" if !is_longest => {}
            _ => return Err(args.error(format_args!("unexpected keyword argument '{name}'"))),
        }
    }
    let lists = args.positional().iter().map(|v| args.items(v)).collect::<Result<Vec<_>, _>>()?;
    let lengths = lists.iter().map(Vec::len);
    let n = if is_longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    budget::check_items(args.function_name(), n.saturating_mul(lists.len()))?;
    let row = |i| tuple(lists.iter().map(|l| l.get(i).unwrap_or(&fill).clone()).collect());
    Ok(generator("zip", (0..n).map(row).collect()))
}

fn product(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let mut lists = args.positional().iter().map(|v| args.items(v)).collect::<Result<Vec<_>, _>>()?;
    if let Some((name, repeat)) = args.named().first() {
        if name != "repeat" {
            return Err(args.error(format_args!("unexpected keyword argument '{name}'")));
        }
        let times =
            usize::try_from(args.int("repeat", repeat)?).map_err(|_| args.error("repeat is negative"))?;
        budget::check_items(args.function_name(), times.saturating_mul(lists.len().max(1)))?;
        lists = std::iter::repeat_n(lists, times).flatten().collect();
    }
    let n = lists.iter().fold(1usize, |n, l| n.saturating_mul(l.len()));
    budget::check_items(args.function_name(), n.saturating_mul(lists.len().max(1)))?;
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for list in &lists {
        rows = rows
            .iter()
            .flat_map(|row| list.iter().map(|v| [&row[..], std::slice::from_ref(v)].concat()))
            .collect();
    }
    Ok(generator("product", rows.into_iter().map(tuple).collect()))
}

fn row_size(args: &CallArgs, r: Option<Value>, otherwise: usize) -> Result<usize, Error> {
    match not_none(r) {
        None => Ok(otherwise),
        Some(r) => usize::try_from(args.int("r", &r)?).map_err(|_| args.error("r must not be negative")),
    }
}

/// Collects rows of selected positions, within the limit.
struct RowCollector<'a> {
    args: &'a CallArgs,
    items: &'a [Value],
    rows: Vec<Value>,
}

impl RowCollector<'_> {
    fn push(&mut self, picked: &[usize]) -> Result<(), Error> {
        budget::check_items(
            self.args.function_name(),
            (self.rows.len() + 1).saturating_mul(picked.len().max(1)),
        )?;
        self.rows.push(tuple(picked.iter().map(|i| self.items[*i].clone()).collect()));
        Ok(())
    }

    fn permute(&mut self, picked: &mut Vec<usize>, r: usize) -> Result<(), Error> {
        if picked.len() == r {
            return self.push(picked);
        }
        for i in 0..self.items.len() {
            if !picked.contains(&i) {
                picked.push(i);
                self.permute(picked, r)?;
                picked.pop();
            }
        }
        Ok(())
    }

    fn combine(&mut self, picked: &mut Vec<usize>, from: usize, r: usize, again: bool) -> Result<(), Error> {
        if picked.len() == r {
            return self.push(picked);
        }
        for i in from..self.items.len() {
            if !again && self.items.len() - i < r - picked.len() {
                break;
            }
            picked.push(i);
            self.combine(picked, if again { i } else { i + 1 }, r, again)?;
            picked.pop();
        }
        Ok(())
    }
}

/// Longest row: recursion goes as deep as a row is long.
const MAX_ROW: usize = 256;

fn permutations(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [items, r] = args.bind(["iterable", "r"], 1)?;
    let items = args.items(&items.unwrap_or_default())?;
    let r = row_size(args, r, items.len())?;
    let mut out = RowCollector { args, items: &items, rows: Vec::new() };
    if r <= items.len() {
        if r > MAX_ROW {
            return Err(budget::too_large(args.function_name()));
        }
        out.permute(&mut Vec::new(), r)?;
    }
    Ok(generator("permutations", out.rows))
}

fn combinations(args: &CallArgs, again: bool) -> Result<Value, Error> {
    let [items, r] = args.bind(["iterable", "r"], 2)?;
    let items = args.items(&items.unwrap_or_default())?;
    let r = row_size(args, r, 0)?;
    let mut out = RowCollector { args, items: &items, rows: Vec::new() };
    if again && (!items.is_empty() || r == 0) || r <= items.len() {
        if r > MAX_ROW {
            return Err(budget::too_large(args.function_name()));
        }
        out.combine(&mut Vec::new(), 0, r, again)?;
    }
    Ok(generator("combinations", out.rows))
}

fn compress(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [data, selectors] = args.bind(["data", "selectors"], 2)?;
    let (data, selectors) =
        (args.items(&data.unwrap_or_default())?, args.items(&selectors.unwrap_or_default())?);
    let kept = data.into_iter().zip(selectors).filter(|(_, keep)| keep.is_true()).map(|(v, _)| v);
    Ok(generator("compress", kept.collect()))
}

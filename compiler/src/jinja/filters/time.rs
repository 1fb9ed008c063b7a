//! Dates: `strftime` and `date_format`. The clock and the time zone are the host's.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};
use zagent_config::{Map, Value as Data};

use super::host::{FilterHost, ask};
use super::{HostFilter, date};
use crate::Call;
use crate::jinja::methods::args::Args;

pub(super) const FILTERS: &[(&str, HostFilter)] = &[("strftime", strftime), ("date_format", strftime)];

fn strftime(host: &dyn FilterHost, _: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let [date, format] = args.bind(["date", "format"], 0)?;
    let format = format.map_or_else(|| Ok("%Y-%m-%d".to_owned()), |v| args.text(&v))?;
    let moment = moment(host, args, &date.unwrap_or_else(|| Value::from(())))?;
    let shown = jiff::fmt::strtime::format(&format, moment);
    shown.map(Value::from).map_err(|e| args.wrong(format_args!("cannot format with '{format}': {e}")))
}

/// The date that a value means: nothing is now, a number is seconds since 1970, a text is one of them or a date.
fn moment(host: &dyn FilterHost, args: &Args, value: &Value) -> Result<DateTime, Error> {
    match value.kind() {
        ValueKind::None => now(host, args),
        ValueKind::Number => local(host, args, f64::try_from(value.clone())?),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim();
            let is_date = text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
            if let Some(seconds) = text.parse::<f64>().ok().filter(|s| s.is_finite() && !is_date) {
                return local(host, args, seconds);
            }
            date::read(text, || now(host, args))?.ok_or_else(|| {
                args.wrong(format_args!("cannot read '{text}' as a date (YYYY-MM-DD hh:mm:ss or seconds)"))
            })
        }
        _ => Err(args.wrong_type("the date", "a string or a number", value)),
    }
}

fn now(host: &dyn FilterHost, args: &Args) -> Result<DateTime, Error> {
    let now = ask(host, args, &call("zagent.now", Vec::new()))?;
    local(host, args, now.as_number().ok_or_else(|| args.wrong("the host does not know the time"))?)
}

fn call(function: &str, args: Vec<Data>) -> Call {
    Call { function: function.to_owned(), args, kwargs: Map::new() }
}

fn local(host: &dyn FilterHost, args: &Args, seconds: f64) -> Result<DateTime, Error> {
    let bad = || args.wrong("the time is out of range");
    if !seconds.is_finite() || seconds.abs() > 1e12 {
        return Err(bad());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let (whole, micros) = (seconds.floor() as i64, (seconds.fract().abs() * 1e6) as i32);
    let offset = ask(host, args, &call("zagent.utc_offset", vec![Data::Int(whole)]))?;
    let offset = offset.as_int().and_then(|o| i32::try_from(o).ok()).unwrap_or(0);
    let zone = TimeZone::fixed(Offset::from_seconds(offset).map_err(|_| bad())?);
    let at = Timestamp::new(whole, micros.clamp(0, 999_999) * 1000).map_err(|_| bad())?;
    Ok(zone.to_datetime(at))
}

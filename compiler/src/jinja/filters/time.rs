//! Dates: `strftime` and `date_format`. The clock and the time zone are the host's.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};
use zagent_config::{Map, Value as Data};

use super::host::{FilterHost, call_host};
use super::{HostFilterFn, date};
use crate::FunctionCall;
use crate::jinja::methods::args::CallArgs;

pub(super) const FILTERS: &[(&str, HostFilterFn)] = &[("strftime", strftime), ("date_format", strftime)];

fn strftime(host: &dyn FilterHost, _: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [date, format] = args.bind(["date", "format"], 0)?;
    let format = format.map_or_else(|| Ok("%Y-%m-%d".to_owned()), |v| args.text(&v))?;
    let moment = date_from_value(host, args, &date.unwrap_or_else(|| Value::from(())))?;
    let shown = jiff::fmt::strtime::format(&format, moment);
    shown.map(Value::from).map_err(|e| args.error(format_args!("cannot format with '{format}': {e}")))
}

/// The date of a value: none is now, a number is seconds since 1970, a text is either of these or a date.
fn date_from_value(host: &dyn FilterHost, args: &CallArgs, value: &Value) -> Result<DateTime, Error> {
    match value.kind() {
        ValueKind::None => now(host, args),
        ValueKind::Number => local_time(host, args, f64::try_from(value.clone())?),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default().trim();
            let is_date = text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
            if let Some(seconds) = text.parse::<f64>().ok().filter(|s| s.is_finite() && !is_date) {
                return local_time(host, args, seconds);
            }
            date::parse_date(text, || now(host, args))?.ok_or_else(|| {
                args.error(format_args!("cannot read '{text}' as a date (YYYY-MM-DD hh:mm:ss or seconds)"))
            })
        }
        _ => Err(args.type_error("the date", "a string or a number", value)),
    }
}

fn now(host: &dyn FilterHost, args: &CallArgs) -> Result<DateTime, Error> {
    let now = call_host(host, args, &host_call("zagent.now", Vec::new()))?;
    local_time(
        host,
        args,
        now.as_number().ok_or_else(|| args.error("the host cannot give the current time"))?,
    )
}

fn host_call(function: &str, args: Vec<Data>) -> FunctionCall {
    FunctionCall { function: function.to_owned(), args, kwargs: Map::new() }
}

fn local_time(host: &dyn FilterHost, args: &CallArgs, seconds: f64) -> Result<DateTime, Error> {
    let bad = || args.error("the time is out of range");
    if !seconds.is_finite() || seconds.abs() > 1e12 {
        return Err(bad());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let (whole, micros) = (seconds.floor() as i64, (seconds.fract().abs() * 1e6) as i32);
    let offset = call_host(host, args, &host_call("zagent.utc_offset", vec![Data::Int(whole)]))?;
    let offset = offset.as_int().and_then(|o| i32::try_from(o).ok()).unwrap_or(0);
    let zone = TimeZone::fixed(Offset::from_seconds(offset).map_err(|_| bad())?);
    let at = Timestamp::new(whole, micros.clamp(0, 999_999) * 1000).map_err(|_| bad())?;
    Ok(zone.to_datetime(at))
}

//! Salt's filters on IP addresses.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use super::network::{IpValue, address_of, address_text};
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::object::{Dict, DictKey, budget, dict, list, pairs_of, type_name};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("is_ip", |_, a| Ok(Value::from(is_ip(a, 4)? || is_ip(a, 6)?))),
    ("is_ipv4", |_, a| Ok(Value::from(is_ip(a, 4)?))),
    ("is_ipv6", |_, a| Ok(Value::from(is_ip(a, 6)?))),
    ("ipv4", |_, a| {
        let (value, options) = filter_subject(a)?;
        filter_version(a, &value, &options, 4)
    }),
    ("ipv6", |_, a| {
        let (value, options) = filter_subject(a)?;
        filter_version(a, &value, &options, 6)
    }),
    ("ipaddr", |_, a| {
        let (value, options) = filter_subject(a)?;
        filter_both_versions(a, &value, &options)
    }),
    ("ipwrap", ipwrap),
    ("ip_host", |_, a| map_addresses(a, |_, ip| Ok(Value::from(ip.interface_text())))),
    ("network_hosts", |_, a| map_addresses(a, hosts)),
    ("network_size", |_, a| map_addresses(a, size)),
    ("filter_by_networks", filter_by_networks),
    ("mac_str_to_bytes", mac_str_to_bytes),
];

fn options_of(args: &CallArgs, options: Option<Value>) -> Result<Vec<String>, Error> {
    match not_none(options).filter(Value::is_true) {
        None => Ok(Vec::new()),
        Some(text) => Ok(args.str("options", &text)?.split(',').map(|o| o.trim().to_owned()).collect()),
    }
}

fn filter_subject(args: &CallArgs) -> Result<(Value, Vec<String>), Error> {
    let [value, options] = args.bind(["value", "options"], 1)?;
    Ok((value.unwrap_or_default(), options_of(args, options)?))
}

/// The address when it has the version and matches all options.
fn matching_address(value: &Value, options: &[String], version: u8) -> Option<IpValue> {
    let ip = match value.kind() {
        ValueKind::String => IpValue::parse(value.as_str()?)?,
        ValueKind::Bool => IpValue::from_number(u128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => IpValue::from_number(u128::try_from(value.clone()).ok()?),
        _ => return None,
    };
    let is_right = ip.address.is_ipv4() == (version == 4);
    (is_right && options.iter().all(|o| ip.has_property(o).unwrap_or(true))).then_some(ip)
}

fn is_ip(args: &CallArgs, version: u8) -> Result<bool, Error> {
    let [value, options] = args.bind(["ip_addr", "options"], 1)?;
    Ok(matching_address(&value.unwrap_or_default(), &options_of(args, options)?, version).is_some())
}

fn is_list(value: &Value) -> bool {
    matches!(type_name(value), "list" | "tuple" | "generator")
}

fn filter_version(args: &CallArgs, value: &Value, options: &[String], version: u8) -> Result<Value, Error> {
    let none = || Value::from(());
    if value.kind() == ValueKind::String {
        return Ok(matching_address(value, options, version).map_or_else(none, |ip| Value::from(ip.text())));
    }
    if !is_list(value) {
        return Ok(none());
    }
    let items = args.items(value)?;
    let kept =
        items.iter().filter_map(|v| matching_address(v, options, version)).map(|ip| Value::from(ip.text()));
    Ok(list(kept.collect()))
}

/// Addresses of both versions: first version four, then six, as in Salt.
fn filter_both_versions(args: &CallArgs, value: &Value, options: &[String]) -> Result<Value, Error> {
    if is_list(value) {
        let items = list(args.items(value)?);
        let mut all = args.items(&filter_version(args, &items, options, 4)?)?;
        all.extend(args.items(&filter_version(args, &items, options, 6)?)?);
        return Ok(list(all));
    }
    let four = filter_version(args, value, options, 4)?;
    if four.is_none() { filter_version(args, value, options, 6) } else { Ok(four) }
}

fn ipwrap(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let data = args.expect_one("data")?;
    let wrap = |v: &Value| match matching_address(v, &[], 6) {
        Some(ip) if ip.prefix.is_none() => Ok(Value::from(format!("[{}]", ip.text()))),
        Some(_) => Err(args.error("an interface cannot be wrapped")),
        None => Ok(v.clone()),
    };
    if matches!(type_name(&data), "list" | "tuple") {
        let wrapped = args.items(&data)?.iter().map(wrap).collect::<Result<Vec<_>, _>>()?;
        return Ok(list(wrapped));
    }
    wrap(&data)
}

/// Applies a test to one address, or to each of a list.
fn map_addresses(
    args: &CallArgs,
    ask: fn(&CallArgs, &IpValue) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let [value, options, version] = args.bind(["value", "options", "version"], 1)?;
    let (value, options) = (value.unwrap_or_default(), options_of(args, options)?);
    let found = match not_none(version).filter(Value::is_true).map(|v| args.int("version", &v)).transpose()? {
        None => filter_both_versions(args, &value, &options)?,
        Some(4) => filter_version(args, &value, &options, 4)?,
        Some(6) => filter_version(args, &value, &options, 6)?,
        Some(_) => Value::from(()),
    };
    if !found.is_true() {
        return Ok(Value::from(()));
    }
    let answer = |v: &Value| match v.as_str().and_then(IpValue::parse) {
        Some(ip) => ask(args, &ip),
        None => Err(args.error("not an address")),
    };
    if !is_list(&value) {
        return answer(&found);
    }
    Ok(list(args.items(&found)?.iter().map(answer).collect::<Result<Vec<_>, _>>()?))
}

fn hosts(args: &CallArgs, ip: &IpValue) -> Result<Value, Error> {
    let (mut first, mut last) = ip.range();
    let is_v4 = ip.address.is_ipv4();
    // The network address is not a host, nor is the broadcast address of version four.
    if ip.bits() - ip.prefix_or_full() > 1 {
        first += 1;
        last -= u128::from(is_v4);
    }
    let n = usize::try_from(last - first).unwrap_or(usize::MAX);
    budget::check_items(args.function_name(), n.saturating_add(1))?;
    Ok(list((first..=last).map(|n| Value::from(address_text(&address_of(n, is_v4)))).collect()))
}

fn size(args: &CallArgs, ip: &IpValue) -> Result<Value, Error> {
    let (first, last) = ip.range();
    let n = (last - first).checked_add(1).ok_or_else(|| args.error("the network is too large"))?;
    Ok(i64::try_from(n).map_or_else(|_| Value::from(n), Value::from))
}

fn filter_by_networks(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [values, networks] = args.bind(["values", "networks"], 2)?;
    let values = values.unwrap_or_default();
    let Some(networks) = not_none(networks) else {
        return Ok(values);
    };
    let parse = |v: &Value| {
        let text = args.str("each address", v)?;
        IpValue::parse(text).ok_or_else(|| args.error(format_args!("'{text}' is not an address")))
    };
    let networks = args.items(&networks)?.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let keep = |items: &Value| -> Result<Value, Error> {
        let mut out = Vec::new();
        for item in args.items(items)? {
            let ip = parse(&item)?;
            out.extend(networks.iter().filter(|n| n.contains(&ip)).map(|_| item.clone()));
        }
        Ok(list(out))
    };
    match pairs_of(&values) {
        None => keep(&values),
        Some(pairs) => {
            let mut out = Dict::new();
            for (key, items) in pairs {
                out.insert(DictKey::new(key)?, keep(&items)?);
            }
            Ok(dict(out))
        }
    }
}

fn mac_str_to_bytes(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("mac_str")?;
    let chars: Vec<char> = args.str("the value", &value)?.chars().collect();
    let digits: String = match chars.len() {
        12 => chars.iter().collect(),
        17 => chars.iter().filter(|c| **c != chars[2]).collect(),
        _ => return Err(args.error("invalid MAC address")),
    };
    let byte = |i: usize| digits.get(i..i + 2).and_then(|d| u8::from_str_radix(d, 16).ok());
    let bytes: Option<Vec<u8>> = (0..12).step_by(2).map(byte).collect();
    bytes.map(Value::from_bytes).ok_or_else(|| args.error("invalid MAC address"))
}

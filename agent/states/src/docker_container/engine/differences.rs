//! A container as it is declared and as the program shows it in, what differs out.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::networks::{ContainerNetwork, container_networks};
use super::{OPTIONS, OptionShape, command_words, env_variables, find_declared, option_values};
use crate::exec_function::string_list;
use crate::named_args::NamedArgs;
use crate::shared::docker::variable_name;
use zagent_host::command_options::value_text;

/// What of a container differs from what is declared: by place, how it is and how it should be.
/// `image` is what the program shows of its image.
pub(crate) fn differences(
    named_args: &NamedArgs<'_>,
    now: &Value,
    image: Option<&Value>,
) -> Result<Map, FunctionError> {
    let mut all = Map::new();
    let mut note = |place: &str, old: Option<&Value>, new: Value| {
        all.insert(place, Map::from_iter([("old", old.cloned().unwrap_or(Value::Null)), ("new", new)]));
    };
    for (place, found) in [
        ("Config.Env", variable_changes(named_args, now, image)),
        ("Config.Labels", label_changes(named_args, now, image)),
        ("HostConfig.Binds", bind_changes(named_args, now)),
        ("HostConfig.PortBindings", port_changes(named_args, now)),
    ] {
        if let Some((old, new)) = found {
            note(place, Some(&string_list(old)), string_list(new));
        }
    }
    for (names, _, place, shape) in OPTIONS.iter().filter(|(_, _, place, _)| !place.is_empty()) {
        let Some(value) = find_declared(named_args, names) else { continue };
        let shows = zagent_config::value::traverse(now, place, ".");
        if !is_as_declared(value, *shape, shows) {
            note(place, shows, value.clone());
        }
    }
    for (key, place) in
        [("command", "Config.Cmd"), ("cmd", "Config.Cmd"), ("entrypoint", "Config.Entrypoint")]
    {
        let Some(value) = named_args.get(key) else { continue };
        let shows = zagent_config::value::traverse(now, place, ".");
        let has: Vec<String> =
            shows.and_then(Value::as_list).map(|l| l.iter().map(value_text).collect()).unwrap_or_default();
        let wanted = command_words(value)?;
        // What follows the first word of an entry point is shown as part of the command by some programs.
        if has != wanted && !(key == "entrypoint" && has.first() == wanted.first()) {
            note(place, shows, value.clone());
        }
    }
    let shows = zagent_config::value::traverse(now, "NetworkSettings.Networks", ".");
    let is_missing = |n: &ContainerNetwork| !n.is_as_declared(shows.and_then(|s| s.get(&n.name)));
    let missing: Vec<String> =
        container_networks(named_args)?.into_iter().filter(is_missing).map(|n| n.name).collect();
    if !missing.is_empty() {
        note("NetworkSettings.Networks", None, string_list(missing));
    }
    Ok(all)
}

/// What is there and should not be so, and what should be.
type ListDifference = Option<(Vec<String>, Vec<String>)>;

pub(crate) fn shown_list(of: &Value, place: &str) -> Vec<String> {
    let shows = zagent_config::value::traverse(of, place, ".");
    shows.and_then(Value::as_list).map(|l| l.iter().map(value_text).collect()).unwrap_or_default()
}

fn list_difference(old: Vec<String>, new: Vec<String>) -> ListDifference {
    (!old.is_empty() || !new.is_empty()).then_some((old, new))
}

/// Variables that a program gives to every container.
const ENGINE_VARIABLES: [&str; 14] = [
    "PATH",
    "HOME",
    "TERM",
    "HOSTNAME",
    "container",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
];

/// The names of variables: what they hold is shown to nobody.
fn variable_changes(named_args: &NamedArgs<'_>, now: &Value, image: Option<&Value>) -> ListDifference {
    let (wanted, has) = (env_variables(named_args), shown_list(now, "Config.Env"));
    let new: Vec<&String> = wanted.iter().filter(|w| !has.contains(w)).collect();
    let brought = image.map(|image| shown_list(image, "Config.Env"));
    let is_stray = |h: &&String| {
        let is_meant = wanted.iter().any(|w| variable_name(w) == variable_name(h))
            || ENGINE_VARIABLES.contains(&variable_name(h));
        !is_meant && brought.as_ref().is_some_and(|brought| !brought.contains(h))
    };
    let is_other = |h: &&String| new.iter().any(|w| variable_name(w) == variable_name(h));
    let old = has.iter().filter(|h| is_other(h) || is_stray(h));
    let names =
        |list: Vec<&String>| list.into_iter().map(|v| variable_name(v).to_owned()).collect::<Vec<_>>();
    list_difference(names(old.collect()), names(new))
}

/// Labels that programs put on containers for themselves.
const ENGINE_LABELS: [&str; 3] = ["com.docker.", "io.podman.", "PODMAN_"];

fn label_changes(named_args: &NamedArgs<'_>, now: &Value, image: Option<&Value>) -> ListDifference {
    let labels = |of: &Value| -> Vec<String> {
        let shows = zagent_config::value::traverse(of, "Config.Labels", ".").and_then(Value::as_map);
        shows
            .into_iter()
            .flat_map(Map::iter)
            .map(|(k, v)| format!("{}={}", value_text(k), value_text(v)))
            .collect()
    };
    let wanted = find_declared(named_args, &["labels", "label"])
        .map(|v| option_values(v, OptionShape::Pairs))
        .unwrap_or_default();
    let wanted: Vec<String> =
        wanted.into_iter().map(|w| if w.contains('=') { w } else { format!("{w}=") }).collect();
    let (has, brought) = (labels(now), image.map(labels));
    let new: Vec<String> = wanted.iter().filter(|w| !has.contains(w)).cloned().collect();
    let is_stray = |h: &&String| {
        let is_meant = wanted.iter().any(|w| variable_name(w) == variable_name(h));
        let is_mark = ENGINE_LABELS.iter().any(|mark| h.starts_with(mark));
        !is_meant && !is_mark && brought.as_ref().is_some_and(|brought| !brought.contains(h))
    };
    let is_other = |h: &&String| new.iter().any(|w| variable_name(w) == variable_name(h));
    let old = has.iter().filter(|h| is_other(h) || is_stray(h)).cloned().collect();
    list_difference(old, new)
}

fn bind_changes(named_args: &NamedArgs<'_>, now: &Value) -> ListDifference {
    let all = [&["binds", "bind"], &["volumes", "volume"]]
        .into_iter()
        .filter_map(|names| find_declared(named_args, names));
    let wanted: Vec<String> = all.flat_map(|v| option_values(v, OptionShape::List)).collect();
    let has = shown_list(now, "HostConfig.Binds");
    // One without a name has no other end; the program shows it apart.
    let mounts = zagent_config::value::traverse(now, "Mounts", ".").and_then(Value::as_list);
    let mounts = mounts.into_iter().flat_map(|l| l.iter()).filter_map(|m| m.get("Destination"));
    let inner: Vec<String> = mounts.map(value_text).collect();
    let volumes = zagent_config::value::traverse(now, "Config.Volumes", ".");
    let is_there = |w: &String| match w.contains(':') {
        true => has.iter().any(|h| is_same_value(w, h)),
        false => inner.contains(w) || volumes.is_some_and(|v| v.get(w).is_some()),
    };
    let new = wanted.iter().filter(|w| !is_there(w)).cloned().collect();
    let old = has.iter().filter(|h| !wanted.iter().any(|w| is_same_value(w, h))).cloned().collect();
    list_difference(old, new)
}

fn port_changes(named_args: &NamedArgs<'_>, now: &Value) -> ListDifference {
    let wanted = find_declared(named_args, &["port_bindings", "publish"])
        .map(|v| option_values(v, OptionShape::List))
        .unwrap_or_default();
    let wanted: Vec<PublishedPort> = wanted.iter().flat_map(|w| PublishedPort::parse(w)).collect();
    let shows = zagent_config::value::traverse(now, "HostConfig.PortBindings", ".").and_then(Value::as_map);
    let bound = |(inner, all): (&Value, &Value)| {
        let inner = value_text(inner);
        let of = all.as_list().into_iter().flat_map(|l| l.iter());
        let part = |b: &Value, key: &str| b.get(key).map(value_text).unwrap_or_default();
        of.map(|b| PublishedPort {
            ip: part(b, "HostIp"),
            port: part(b, "HostPort"),
            container_port: inner.clone(),
        })
        .collect::<Vec<_>>()
    };
    let has: Vec<PublishedPort> = shows.into_iter().flat_map(Map::iter).flat_map(bound).collect();
    let new = wanted.iter().filter(|w| !has.iter().any(|h| w.matches(h))).map(PublishedPort::text).collect();
    let old = has.iter().filter(|h| !wanted.iter().any(|w| w.matches(h))).map(PublishedPort::text).collect();
    list_difference(old, new)
}

/// A port that others reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedPort {
    /// The address of the host; empty for all.
    pub(crate) ip: String,
    /// The port of the host; empty for any.
    pub(crate) port: String,
    /// The port of the container, with its protocol.
    pub(crate) container_port: String,
}

impl PublishedPort {
    /// `[ip:]port:container[/proto]`, or a range of them.
    pub(crate) fn parse(text: &str) -> Vec<Self> {
        let (front, inner) = text.rsplit_once(':').unwrap_or(("", text));
        let (inner, protocol) = inner.split_once('/').unwrap_or((inner, "tcp"));
        let (ip, port) = front.rsplit_once(':').unwrap_or(("", front));
        let one = |port: &str, inner: &str| Self {
            ip: ip.trim_matches(['[', ']']).to_owned(),
            port: port.to_owned(),
            container_port: format!("{inner}/{protocol}"),
        };
        let range = |text: &str| -> Option<std::ops::RangeInclusive<u16>> {
            let (first, last) = text.split_once('-')?;
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        match (range(port), range(inner)) {
            (Some(ports), Some(inners)) if ports.len() == inners.len() => {
                ports.zip(inners).map(|(port, inner)| one(&port.to_string(), &inner.to_string())).collect()
            }
            (None, Some(inners)) if port.is_empty() => {
                inners.map(|inner| one("", &inner.to_string())).collect()
            }
            _ => vec![one(port, inner)],
        }
    }

    pub(crate) fn matches(&self, bound: &Self) -> bool {
        let any = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        let same_ip = self.ip.is_empty() || self.ip == bound.ip || any(&self.ip) && any(&bound.ip);
        // Which of a range it became only the program knows.
        let same_port = self.port.is_empty() || self.port.contains('-') || self.port == bound.port;
        self.container_port == bound.container_port && same_ip && same_port
    }

    pub(crate) fn text(&self) -> String {
        let parts = [&self.ip, &self.port].into_iter().filter(|p| !p.is_empty());
        parts.map(|p| format!("{p}:")).collect::<String>() + &self.container_port
    }
}

fn is_as_declared(value: &Value, shape: OptionShape, shows: Option<&Value>) -> bool {
    let list =
        |v: &Value| v.as_list().map(|l| l.iter().map(value_text).collect::<Vec<_>>()).unwrap_or_default();
    let has = shows.map(list).unwrap_or_default();
    let text = shows.filter(|v| !v.is_null()).map(value_text).unwrap_or_default();
    match shape {
        OptionShape::Text => value_text(value) == text,
        OptionShape::Flag => value.is_truthy() == shows.is_some_and(Value::is_truthy),
        OptionShape::Bytes => parse_bytes(&value_text(value)).is_some_and(|n| n.to_string() == text),
        OptionShape::List => {
            option_values(value, shape).iter().all(|w| has.iter().any(|h| is_same_value(w, h)))
        }
        OptionShape::Pairs | OptionShape::Variables => {
            option_values(value, shape).iter().all(|w| match shows {
                Some(Value::Map(map)) => {
                    let (key, value) = w.split_once('=').unwrap_or((w, ""));
                    map.get(key).map(value_text).is_some_and(|v| v == value)
                }
                _ => has.contains(w),
            })
        }
        OptionShape::Restart => {
            let part = |key: &str| shows.and_then(|s| s.get(key)).map(value_text).unwrap_or_default();
            let wanted = option_values(value, shape).join("");
            let (name, count) = wanted.split_once(':').unwrap_or((&wanted, "0"));
            let is_same_count =
                count == part("MaximumRetryCount") || (count == "0" && part("MaximumRetryCount").is_empty());
            name == part("Name") && is_same_count
        }
    }
}

/// `/a:/b` is `/a:/b:rw,rprivate,rbind`, and `NET_ADMIN` is `CAP_NET_ADMIN`.
fn is_same_value(wanted: &str, shown: &str) -> bool {
    const DEFAULTS: [&str; 5] = ["rw", "rprivate", "rbind", "nosuid", "nodev"];
    let plain = |text: &str| {
        let text = text.strip_prefix("CAP_").unwrap_or(text);
        text.split([':', ',']).filter(|p| !DEFAULTS.contains(p)).collect::<Vec<_>>().join(":")
    };
    plain(wanted) == plain(shown)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_suffix('b').unwrap_or(&text);
    let (number, unit) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 10),
        'm' => (&text[..text.len() - 1], 20),
        'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(1 << unit)
}

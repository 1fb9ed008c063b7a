//! Networks as they are declared in, the options for a container in them out.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{differences, text_list};
use crate::named_args::NamedArgs;
use zagent_host::command_options::value_text;

/// A network that a container is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerNetwork {
    /// Its name.
    pub(crate) name: String,
    /// Parameters and their values: `ipv4_address`, `aliases`, ….
    settings: Vec<(String, Vec<String>)>,
}

/// What may be said of a container in a network, and the option for it; a name of the container has another one where it is made.
const NETWORK_OPTIONS: [(&str, &str); 6] = [
    ("ipv4_address", "--ip"),
    ("ipv6_address", "--ip6"),
    ("aliases", "--alias"),
    ("links", "--link"),
    ("link_local_ips", "--link-local-ip"),
    ("driver_opt", "--driver-opt"),
];

impl ContainerNetwork {
    fn parse(name: String, settings: &Value) -> Result<Self, FunctionError> {
        let maps = match settings {
            Value::Map(map) => vec![&**map],
            Value::List(items) => items.iter().filter_map(Value::as_map).collect(),
            _ => Vec::new(),
        };
        let mut read = Vec::new();
        for (key, value) in maps.into_iter().flat_map(Map::iter) {
            let key = value_text(key);
            if !NETWORK_OPTIONS.iter().any(|(known, _)| *known == key) {
                let known: Vec<&str> = NETWORK_OPTIONS.iter().map(|(known, _)| *known).collect();
                let words =
                    format!("`{key}` is nothing that a container has in a network: {}", known.join(", "));
                return Err(FunctionError::bad_arguments(words));
            }
            read.push((key, text_list(value, if value.as_map().is_some() { "=" } else { ":" })));
        }
        Ok(Self { name, settings: read })
    }

    /// The options of the program for a container in it.
    pub(crate) fn option_words(&self, alias: &str) -> Vec<String> {
        let option = |key: &str| {
            NETWORK_OPTIONS.iter().find(|(known, _)| *known == key).map_or("", |(_, option)| option)
        };
        let all = self.settings.iter().flat_map(|(key, values)| values.iter().map(move |v| (option(key), v)));
        all.map(|(option, value)| format!("{}={value}", if option == "--alias" { alias } else { option }))
            .collect()
    }

    /// True when a container is in it as it should be.
    pub(crate) fn is_as_declared(&self, shows: Option<&Value>) -> bool {
        let Some(shows) = shows else { return false };
        let part = |place: &str| {
            zagent_config::value::traverse(shows, place, ".").map(value_text).unwrap_or_default()
        };
        self.settings.iter().all(|(key, values)| match key.as_str() {
            "ipv4_address" => {
                [part("IPAMConfig.IPv4Address"), part("IPAddress")].iter().any(|ip| values.contains(ip))
            }
            "ipv6_address" => [part("IPAMConfig.IPv6Address"), part("GlobalIPv6Address")]
                .iter()
                .any(|ip| values.contains(ip)),
            "aliases" => {
                let has = differences::shown_list(shows, "Aliases");
                values.iter().all(|v| has.contains(v))
            }
            _ => true,
        })
    }
}

/// The networks of a container.
pub(crate) fn container_networks(named_args: &NamedArgs<'_>) -> Result<Vec<ContainerNetwork>, FunctionError> {
    let of_map = |map: &Map| {
        map.iter().map(|(name, of)| ContainerNetwork::parse(value_text(name), of)).collect::<Vec<_>>()
    };
    let bare = |name: String| Ok(ContainerNetwork { name, settings: Vec::new() });
    match named_args.get("networks") {
        Some(Value::Map(map)) => of_map(map).into_iter().collect(),
        Some(Value::List(items)) => {
            let one = |v: &Value| v.as_map().map_or_else(|| vec![bare(value_text(v))], of_map);
            items.iter().flat_map(one).collect()
        }
        Some(other) => text_list(other, ":").into_iter().map(bare).collect(),
        None => Ok(Vec::new()),
    }
}

//! Containers, images, networks and volumes by the program `docker` or `podman`: what is declared in, options for the program
//! and what differs from what it shows out.
//!
//! Law: only what is declared is compared; what a variable holds is neither among the words of the program nor shown.

use std::time::Duration;

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use super::super::{Body, Entry, strings};
use super::{Given, given};
use crate::host::command::shown;
use crate::host::line;
use crate::host::scratch::Scratch;
use crate::host::{Machine, Tools};

/// How long it may take, an image that has to be fetched included.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct Engine(pub(crate) String);

impl Engine {
    /// `provider:`, or the one that is there.
    pub(crate) fn new(given: &Given<'_>, tools: &Tools<'_>) -> Self {
        let there = || {
            if tools.which("docker").is_none() && tools.which("podman").is_some() {
                "podman"
            } else {
                "docker"
            }
        };
        Self(given.text("provider").unwrap_or_else(|| there().to_owned()))
    }

    /// What it shows of a `container`, `image`, `network` or `volume`; none when there is no such one.
    pub(crate) fn inspect(
        &self,
        tools: &Tools<'_>,
        kind: &str,
        name: &str,
    ) -> Result<Option<Value>, Refusal> {
        let said = tools.ask(&self.0, &[kind, "inspect", "--", name])?;
        if said.is_fine() {
            let all = Value::from_json_str(&said.out)
                .map_err(|e| Refusal::failed(format!("{} said no JSON: {e}", self.0)))?;
            return Ok(all.as_list().and_then(|l| l.iter().next().cloned()));
        }
        if is_absent(kind, name, said.code, said.words()) {
            return Ok(None);
        }
        Err(Refusal::failed(said.words().to_owned()))
    }

    /// Makes or runs a container. Its variables go by a file that only we can read, since everybody sees words; those of
    /// several lines, which a file cannot hold, by the program's own environment.
    pub(crate) fn tell_with(
        &self,
        tools: &Tools<'_>,
        args: &[String],
        variables: &[String],
    ) -> Result<String, Refusal> {
        let Some((verb, rest)) = args.split_first().filter(|_| !variables.is_empty()) else {
            return self.tell(tools, args);
        };
        let (long, plain): (Vec<&String>, Vec<&String>) = variables.iter().partition(|v| v.contains('\n'));
        let text: String = plain.iter().map(|line| format!("{line}\n")).collect();
        let file = Scratch::new(text.as_bytes(), ".env", None)
            .map_err(|e| Refusal::failed(format!("cannot write the variables: {e}")))?;
        let mut words = vec![verb.clone(), format!("--env-file={}", file.path().display())];
        words.extend(long.iter().map(|v| format!("--env={}", name_of(v))));
        words.extend(rest.iter().cloned());
        let mut command = Tools::command(&self.0, &words, PATIENCE);
        let pairs = long.iter().filter_map(|v| v.split_once('='));
        command.env.extend(pairs.map(|(name, value)| (name.into(), value.into())));
        let said = tools.run(command)?;
        if said.is_fine() {
            return Ok(said.out.trim().to_owned());
        }
        Err(Refusal::failed(format!("`{}` ended with code {}: {}", self.0, said.code, said.words())))
    }

    /// Tells it to do something.
    pub(crate) fn tell(&self, tools: &Tools<'_>, args: &[String]) -> Result<String, Refusal> {
        Ok(tools.must(&self.0, args)?.out.trim().to_owned())
    }
}

/// True when the program says that there is no such one; whatever else went wrong is no answer.
fn is_absent(kind: &str, name: &str, code: i32, words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let said = [
        format!("no such {kind}"),
        "no such object".to_owned(),
        format!("{kind} {} not found", name.to_ascii_lowercase()),
        format!("{kind} not found"),
        format!("{kind} not known"),
    ];
    matches!(code, 1 | 125) && said.iter().any(|s| words.contains(s))
}

/// `A` of `A=b`.
fn name_of(variable: &str) -> &str {
    variable.split('=').next().unwrap_or_default()
}

/// What a parameter is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One text or number.
    Text,
    Switch,
    /// Texts; each has to be there.
    List,
    /// `KEY=value`, a list or a mapping of them.
    Pairs,
    /// The same, and what they hold is shown to nobody.
    Variables,
    /// Bytes with a unit: `512m`.
    Bytes,
    Ports,
    Restart,
}

/// A parameter under all its names, the option, and where the program shows it; what it shows nowhere is not compared.
type Option_ = (&'static [&'static str], &'static str, &'static str, Shape);

const OPTIONS: &[Option_] = &[
    (&["hostname"], "--hostname", "Config.Hostname", Shape::Text),
    (&["user"], "--user", "Config.User", Shape::Text),
    (&["working_dir", "workdir"], "--workdir", "Config.WorkingDir", Shape::Text),
    (&["environment", "env"], "--env", "Config.Env", Shape::Variables),
    (&["labels", "label"], "--label", "Config.Labels", Shape::Pairs),
    (&["binds", "bind", "volumes", "volume"], "--volume", "HostConfig.Binds", Shape::List),
    (&["port_bindings", "publish"], "--publish", "HostConfig.PortBindings", Shape::Ports),
    (&["ports", "expose"], "--expose", "", Shape::List),
    (&["restart_policy", "restart"], "--restart", "HostConfig.RestartPolicy", Shape::Restart),
    (&["network_mode", "net"], "--network", "HostConfig.NetworkMode", Shape::Text),
    (&["privileged"], "--privileged", "HostConfig.Privileged", Shape::Switch),
    (&["cap_add"], "--cap-add", "HostConfig.CapAdd", Shape::List),
    (&["cap_drop"], "--cap-drop", "HostConfig.CapDrop", Shape::List),
    (&["devices", "device"], "--device", "", Shape::List),
    (&["dns"], "--dns", "HostConfig.Dns", Shape::List),
    (&["dns_search"], "--dns-search", "HostConfig.DnsSearch", Shape::List),
    (&["extra_hosts", "add_host"], "--add-host", "HostConfig.ExtraHosts", Shape::List),
    (&["tty"], "--tty", "Config.Tty", Shape::Switch),
    (&["interactive", "stdin_open"], "--interactive", "Config.OpenStdin", Shape::Switch),
    (&["read_only"], "--read-only", "HostConfig.ReadonlyRootfs", Shape::Switch),
    (&["init"], "--init", "HostConfig.Init", Shape::Switch),
    (&["auto_remove", "rm"], "--rm", "HostConfig.AutoRemove", Shape::Switch),
    (&["pid_mode", "pid"], "--pid", "HostConfig.PidMode", Shape::Text),
    (&["ipc_mode", "ipc"], "--ipc", "HostConfig.IpcMode", Shape::Text),
    (&["security_opt"], "--security-opt", "HostConfig.SecurityOpt", Shape::List),
    (&["ulimits", "ulimit"], "--ulimit", "", Shape::List),
    (&["mem_limit", "memory"], "--memory", "HostConfig.Memory", Shape::Bytes),
    (&["shm_size"], "--shm-size", "HostConfig.ShmSize", Shape::Bytes),
    (&["cpu_shares"], "--cpu-shares", "HostConfig.CpuShares", Shape::Text),
    (&["cpuset_cpus", "cpuset"], "--cpuset-cpus", "HostConfig.CpusetCpus", Shape::Text),
    (&["links", "link"], "--link", "", Shape::List),
    (&["volumes_from"], "--volumes-from", "HostConfig.VolumesFrom", Shape::List),
    (&["tmpfs"], "--tmpfs", "", Shape::List),
    (&["log_driver"], "--log-driver", "HostConfig.LogConfig.Type", Shape::Text),
    (&["log_opt"], "--log-opt", "HostConfig.LogConfig.Config", Shape::Pairs),
    (&["stop_signal"], "--stop-signal", "Config.StopSignal", Shape::Text),
    (&["sysctls", "sysctl"], "--sysctl", "HostConfig.Sysctls", Shape::Pairs),
    (&["group_add"], "--group-add", "HostConfig.GroupAdd", Shape::List),
];

fn declared<'a>(given: &Given<'a>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| given.get(name))
}

/// The texts of a parameter: `a:b` or `A=b` of a mapping.
fn texts(value: &Value, between: &str) -> Vec<String> {
    let pair =
        |map: &Map| map.iter().map(|(k, v)| format!("{}{between}{}", shown(k), shown(v))).collect::<Vec<_>>();
    match value {
        Value::List(items) => {
            items.iter().flat_map(|v| v.as_map().map_or_else(|| vec![shown(v)], pair)).collect()
        }
        Value::Map(map) => pair(map),
        other if between == ":" => shown(other).split(',').map(|t| t.trim().to_owned()).collect(),
        other => vec![shown(other)],
    }
}

/// What an option is given.
fn words(value: &Value, shape: Shape) -> Vec<String> {
    match shape {
        Shape::Pairs | Shape::Variables => texts(value, "="),
        Shape::List | Shape::Ports => texts(value, ":"),
        Shape::Restart => match value {
            Value::Map(map) => {
                let part = |key: &str| map.get(key).map(shown).unwrap_or_default();
                let count = part("MaximumRetryCount");
                vec![if count.is_empty() || count == "0" {
                    part("Name")
                } else {
                    format!("{}:{count}", part("Name"))
                }]
            }
            other => vec![shown(other)],
        },
        Shape::Text | Shape::Bytes | Shape::Switch => vec![shown(value)],
    }
}

/// The variables of a new container: `A=b`.
pub(crate) fn variables(given: &Given<'_>) -> Vec<String> {
    declared(given, &["environment", "env"]).map(|v| words(v, Shape::Variables)).unwrap_or_default()
}

/// The options and the command of a new container, without its variables.
pub(crate) fn create(given: &Given<'_>, name: &str, image: &str) -> Result<Vec<String>, Refusal> {
    let mut args = vec![format!("--name={name}")];
    for (names, option, _, shape) in OPTIONS {
        match declared(given, names) {
            Some(_) if *shape == Shape::Variables => {}
            Some(value) if *shape == Shape::Switch => args.push(format!("{option}={}", value.is_truthy())),
            Some(value) => args.extend(words(value, *shape).into_iter().map(|w| format!("{option}={w}"))),
            None => {}
        }
    }
    // The first network is the container's own; it is connected to the others.
    if let Some(first) = networks(given).first().filter(|_| given.get("network_mode").is_none()) {
        args.push(format!("--network={first}"));
    }
    let mut entrypoint = given.get("entrypoint").map(command).transpose()?.unwrap_or_default().into_iter();
    args.extend(entrypoint.next().map(|word| format!("--entrypoint={word}")));
    args.push("--".to_owned());
    args.push(image.to_owned());
    args.extend(entrypoint);
    args.extend(declared(given, &["command", "cmd"]).map(command).transpose()?.unwrap_or_default());
    Ok(args)
}

/// The networks of a container, by name.
pub(crate) fn networks(given: &Given<'_>) -> Vec<String> {
    match given.get("networks") {
        Some(Value::Map(map)) => map.keys().map(shown).collect(),
        Some(Value::List(items)) => {
            let name =
                |v: &Value| v.as_map().and_then(|m| m.keys().next().map(shown)).unwrap_or_else(|| shown(v));
            items.iter().map(name).collect()
        }
        Some(other) => texts(other, ":"),
        None => Vec::new(),
    }
}

fn command(value: &Value) -> Result<Vec<String>, Refusal> {
    match value {
        Value::List(items) => Ok(items.iter().map(shown).collect()),
        other => line::split(&shown(other))
            .ok_or_else(|| Refusal::arguments("a quote of the command is not closed")),
    }
}

/// What of a container differs from what is declared: by place, how it is and how it should be.
pub(crate) fn differences(given: &Given<'_>, now: &Value) -> Result<Map, Refusal> {
    let mut all = Map::new();
    let mut note = |place: &str, old: Option<&Value>, new: Value| {
        all.insert(place, Map::from_iter([("old", old.cloned().unwrap_or(Value::Null)), ("new", new)]));
    };
    for (names, _, place, shape) in OPTIONS.iter().filter(|(_, _, place, _)| !place.is_empty()) {
        let Some(value) = declared(given, names) else { continue };
        let shows = zagent_config::value::traverse(now, place, ".");
        if *shape == Shape::Variables {
            let (old, new) = differing(&words(value, *shape), shows);
            if !new.is_empty() {
                note(place, Some(&strings(old)), strings(new));
            }
        } else if !is_shown(value, *shape, shows) {
            note(place, shows, value.clone());
        }
    }
    for (key, place) in
        [("command", "Config.Cmd"), ("cmd", "Config.Cmd"), ("entrypoint", "Config.Entrypoint")]
    {
        let Some(value) = given.get(key) else { continue };
        let shows = zagent_config::value::traverse(now, place, ".");
        let has: Vec<String> =
            shows.and_then(Value::as_list).map(|l| l.iter().map(shown).collect()).unwrap_or_default();
        let wanted = command(value)?;
        // What follows the first word of an entry point is shown as part of the command by some programs.
        if has != wanted && !(key == "entrypoint" && has.first() == wanted.first()) {
            note(place, shows, value.clone());
        }
    }
    let shows = zagent_config::value::traverse(now, "NetworkSettings.Networks", ".");
    let missing: Vec<String> =
        networks(given).into_iter().filter(|n| shows.and_then(|s| s.get(n)).is_none()).collect();
    if !missing.is_empty() {
        note("NetworkSettings.Networks", None, strings(missing));
    }
    Ok(all)
}

/// The names of variables that are there with something else in them, and of all that are not as wanted.
fn differing(wanted: &[String], shows: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let has: Vec<String> =
        shows.and_then(Value::as_list).map(|l| l.iter().map(shown).collect()).unwrap_or_default();
    let new = wanted.iter().filter(|w| !has.contains(w)).map(|w| name_of(w).to_owned()).collect::<Vec<_>>();
    let old = new.iter().filter(|n| has.iter().any(|h| name_of(h) == *n)).cloned().collect();
    (old, new)
}

fn is_shown(value: &Value, shape: Shape, shows: Option<&Value>) -> bool {
    let list = |v: &Value| v.as_list().map(|l| l.iter().map(shown).collect::<Vec<_>>()).unwrap_or_default();
    let has = shows.map(list).unwrap_or_default();
    let text = shows.filter(|v| !v.is_null()).map(shown).unwrap_or_default();
    match shape {
        Shape::Text => shown(value) == text,
        Shape::Switch => value.is_truthy() == shows.is_some_and(Value::is_truthy),
        Shape::Bytes => bytes(&shown(value)).is_some_and(|n| n.to_string() == text),
        Shape::List => words(value, shape).iter().all(|w| has.iter().any(|h| is_same(w, h))),
        Shape::Pairs | Shape::Variables => words(value, shape).iter().all(|w| match shows {
            Some(Value::Map(map)) => {
                let (key, value) = w.split_once('=').unwrap_or((w, ""));
                map.get(key).map(shown).is_some_and(|v| v == value)
            }
            _ => has.contains(w),
        }),
        Shape::Restart => {
            let part = |key: &str| shows.and_then(|s| s.get(key)).map(shown).unwrap_or_default();
            let wanted = words(value, shape).join("");
            let (name, count) = wanted.split_once(':').unwrap_or((&wanted, "0"));
            let is_same_count =
                count == part("MaximumRetryCount") || (count == "0" && part("MaximumRetryCount").is_empty());
            name == part("Name") && is_same_count
        }
        Shape::Ports => words(value, shape).iter().all(|w| is_published(w, shows)),
    }
}

/// `/a:/b` is `/a:/b:rw,rprivate,rbind`, and `NET_ADMIN` is `CAP_NET_ADMIN`.
fn is_same(wanted: &str, shown: &str) -> bool {
    const DEFAULTS: [&str; 5] = ["rw", "rprivate", "rbind", "nosuid", "nodev"];
    let plain = |text: &str| {
        let text = text.strip_prefix("CAP_").unwrap_or(text);
        text.split([':', ',']).filter(|p| !DEFAULTS.contains(p)).collect::<Vec<_>>().join(":")
    };
    plain(wanted) == plain(shown)
}

/// `[ip:]port:container[/proto]`.
fn is_published(wanted: &str, shows: Option<&Value>) -> bool {
    let (front, inner) = wanted.rsplit_once(':').unwrap_or(("", wanted));
    let inner = if inner.contains('/') { inner.to_owned() } else { format!("{inner}/tcp") };
    let (ip, port) = front.rsplit_once(':').unwrap_or(("", front));
    let Some(bound) = shows.and_then(|s| s.get(&inner)).and_then(Value::as_list) else { return false };
    bound.iter().any(|b| {
        let part = |key: &str| b.get(key).map(shown).unwrap_or_default();
        (port.is_empty() || part("HostPort") == port) && (ip.is_empty() || part("HostIp") == ip)
    })
}

fn bytes(text: &str) -> Option<u64> {
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

const fn entry(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: None, acts: false, body }
}

const fn acting(name: &'static str, signature: &'static str, body: Body) -> Entry {
    Entry { name, signature, needs: None, acts: true, body }
}

pub(super) const TABLE: &[Entry] = &[
    entry("docker.version", "provider?", |m, a| {
        with(m, a, |engine, tools, _| Ok(engine.tell(tools, &["--version".to_owned()])?.into()))
    }),
    entry("docker.ps", "all? provider?", |m, a| {
        listed(m, a, &["ps", "--no-trunc", "--format", "{{json .}}"])
    }),
    entry("docker.images", "provider?", |m, a| {
        listed(m, a, &["images", "--no-trunc", "--format", "{{json .}}"])
    }),
    entry("docker.inspect", "name provider?", |m, a| {
        inspected(m, a, &["container", "image", "network", "volume"])
    }),
    entry("docker.inspect_container", "name provider?", |m, a| inspected(m, a, &["container"])),
    entry("docker.inspect_image", "name provider?", |m, a| inspected(m, a, &["image"])),
    entry("docker.inspect_network", "name provider?", |m, a| inspected(m, a, &["network"])),
    entry("docker.inspect_volume", "name provider?", |m, a| inspected(m, a, &["volume"])),
    entry("docker.exists", "name provider?", |m, a| {
        with(m, a, |engine, tools, given| {
            Ok(engine.inspect(tools, "container", &given.must("name")?)?.is_some().into())
        })
    }),
    entry("docker.state", "name provider?", |m, a| {
        with(m, a, |engine, tools, given| {
            let found = engine.inspect(tools, "container", &given.must("name")?)?;
            let found = found.ok_or_else(|| Refusal::failed("there is no such container"))?;
            Ok(zagent_config::value::traverse(&found, "State.Status", ".").cloned().unwrap_or(Value::Null))
        })
    }),
    acting("docker.start", "name provider?", |m, a| told(m, a, "start")),
    acting("docker.stop", "name provider?", |m, a| told(m, a, "stop")),
    acting("docker.restart", "name provider?", |m, a| told(m, a, "restart")),
    acting("docker.rm", "name force? provider?", |m, a| told(m, a, "rm")),
    acting("docker.rmi", "name force? provider?", |m, a| told(m, a, "rmi")),
    acting("docker.pull", "name provider?", |m, a| told(m, a, "pull")),
];

type Answer = Result<Value, Refusal>;
type Bound = zagent_compiler::functions::Bound<Value>;

fn with(
    machine: &Machine,
    args: &Bound,
    body: impl FnOnce(&Engine, &Tools<'_>, &Given<'_>) -> Answer,
) -> Answer {
    let tools = Tools::new(machine);
    given::of(args, |given| body(&Engine::new(given, &tools), &tools, given))
}

fn listed(machine: &Machine, args: &Bound, words: &[&str]) -> Answer {
    with(machine, args, |engine, tools, given| {
        let mut words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        words.extend(given.is("all").then(|| "--all".to_owned()));
        let text = engine.tell(tools, &words)?;
        let read = |l: &str| {
            Value::from_json_str(l).map_err(|e| Refusal::failed(format!("{} said no JSON: {e}", engine.0)))
        };
        // Podman writes one list, Docker a line for each.
        if text.starts_with('[') {
            return read(&text);
        }
        text.lines().map(read).collect::<Result<Vec<_>, _>>().map(Value::from)
    })
}

fn inspected(machine: &Machine, args: &Bound, kinds: &[&str]) -> Answer {
    with(machine, args, |engine, tools, given| {
        let name = given.must("name")?;
        for kind in kinds {
            if let Some(found) = engine.inspect(tools, kind, &name)? {
                return Ok(found);
            }
        }
        Err(Refusal::failed(format!("there is no `{name}`")))
    })
}

fn told(machine: &Machine, args: &Bound, verb: &str) -> Answer {
    with(machine, args, |engine, tools, given| {
        let mut words = vec![verb.to_owned()];
        words.extend(given.is("force").then(|| "--force".to_owned()));
        words.extend(["--".to_owned(), given.must("name")?]);
        engine.tell(tools, &words).map(|_| true.into())
    })
}

#[cfg(test)]
mod tests {
    use super::super::of_map;
    use super::*;

    /// Cut from what `docker container inspect` shows.
    const WEB: &str = r#"{"Config": {"Env": ["A=1", "PATH=/bin"], "Labels": {"x": "y"}, "Cmd": ["nginx", "-g", "daemon off;"], "User": "",
        "Tty": false}, "HostConfig": {"Binds": ["/srv:/srv:ro,rprivate,rbind", "data:/data:rw"], "PortBindings": {"80/tcp": [{"HostIp": "",
        "HostPort": "8080"}], "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}]}, "RestartPolicy": {"Name": "on-failure",
        "MaximumRetryCount": 5}, "Memory": 536870912, "CapAdd": ["CAP_NET_ADMIN"]}, "NetworkSettings": {"Networks": {"front": {}}}}"#;

    fn map(json: &str) -> Map {
        Value::from_json_str(json).unwrap().as_map().cloned().unwrap()
    }

    fn differing(json: &str) -> Vec<String> {
        let now = Value::from_json_str(WEB).unwrap();
        let all = of_map(&map(json), |g| differences(g, &now)).unwrap();
        all.keys().map(Value::json_key).collect()
    }

    #[test]
    fn what_is_as_declared() {
        let same = r#"{"environment": [{"A": 1}], "labels": ["x=y"], "command": "nginx -g 'daemon off;'", "binds": "/srv:/srv:ro,data:/data",
            "port_bindings": ["8080:80", "127.0.0.1:53:53/udp"], "restart_policy": "on-failure:5", "mem_limit": "512M",
            "cap_add": ["NET_ADMIN"], "networks": ["front"], "tty": false}"#;
        assert_eq!(differing(same), Vec::<String>::new());
    }

    #[test]
    fn what_differs() {
        let all = [
            (r#"{"environment": {"A": 2}}"#, "Config.Env"),
            (r#"{"labels": {"x": "z"}}"#, "Config.Labels"),
            (r#"{"binds": ["/srv:/srv"]}"#, "HostConfig.Binds"),
            (r#"{"publish": "8081:80"}"#, "HostConfig.PortBindings"),
            (r#"{"restart_policy": "always"}"#, "HostConfig.RestartPolicy"),
            (r#"{"memory": "1g"}"#, "HostConfig.Memory"),
            (r#"{"user": "www"}"#, "Config.User"),
            (r#"{"command": ["nginx"]}"#, "Config.Cmd"),
            (r#"{"networks": [{"back": []}]}"#, "NetworkSettings.Networks"),
        ];
        for (json, place) in all {
            assert_eq!(differing(json), [place], "{json}");
        }
    }

    #[test]
    fn what_a_variable_holds_is_not_shown() {
        let now = Value::from_json_str(WEB).unwrap();
        let args = map(r#"{"environment": {"A": "secret", "B": "secret", "PATH": "/bin"}}"#);
        let all = of_map(&args, |g| differences(g, &now)).unwrap();
        assert_eq!(
            serde_json::to_string(&all.get("Config.Env")).unwrap(),
            r#"{"old":["A"],"new":["A","B"]}"#
        );
    }

    #[test]
    fn absent_is_only_what_is_said_to_be() {
        let all = [
            ("container", 1, "Error: No such container: web"),
            ("container", 1, "Error response from daemon: No such container: web"),
            ("container", 125, "Error: no such container \"web\""),
            ("image", 1, "Error response from daemon: No such image: web:latest"),
            ("image", 125, "Error: web: image not known"),
            ("network", 1, "Error response from daemon: network web not found"),
            (
                "network",
                125,
                "Error: network web: unable to find network with name or ID web: network not found",
            ),
            ("volume", 1, "Error response from daemon: get web: no such volume"),
            ("volume", 125, "Error: no such volume web"),
        ];
        for (kind, code, words) in all {
            assert!(is_absent(kind, "web", code, words), "{words}");
        }
        let others = [
            (1, "error during connect: dial tcp: lookup dockerr: no such host"),
            (1, "dial unix /var/run/docker.sock: connect: no such file or directory"),
            (127, "no such container"),
            (125, "Error: unable to inspect \"web\": database is locked"),
        ];
        for (code, words) in others {
            assert!(!is_absent("container", "web", code, words), "{words}");
        }
    }

    #[test]
    fn options_of_a_new_container() {
        let args = map(
            r#"{"env": {"A": "b c"}, "publish": ["80:80"], "privileged": true, "networks": ["front"], "command": "run -x 'a b'"}"#,
        );
        assert_eq!(of_map(&args, variables), ["A=b c"]);
        let words = of_map(&args, |g| create(g, "web", "nginx:1")).unwrap();
        assert_eq!(
            words,
            [
                "--name=web",
                "--publish=80:80",
                "--privileged=true",
                "--network=front",
                "--",
                "nginx:1",
                "run",
                "-x",
                "a b"
            ]
        );
    }
}

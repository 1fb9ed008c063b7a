//! Containers, images, networks and volumes by the program `docker` or `podman`: what is declared in, options for the program
//! and what differs from what it shows out.
//!
//! Law: only what is declared is compared, except for variables, labels, directories and ports: of these a container has what is
//! declared and what its image brings, and nothing else. What a variable holds is neither among the words of the program nor shown.

mod differ;
mod networks;

use std::time::Duration;

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

pub(crate) use self::differ::differences;
pub(crate) use self::networks::networks;
use super::super::{Body, Entry};
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
    Restart,
}

/// A parameter under all its names, the option, and where the program shows it; what it shows nowhere is not compared.
type Option_ = (&'static [&'static str], &'static str, &'static str, Shape);

const OPTIONS: &[Option_] = &[
    (&["hostname"], "--hostname", "Config.Hostname", Shape::Text),
    (&["user"], "--user", "Config.User", Shape::Text),
    (&["working_dir", "workdir"], "--workdir", "Config.WorkingDir", Shape::Text),
    (&["domainname"], "--domainname", "Config.Domainname", Shape::Text),
    (&["environment", "env"], "--env", "", Shape::Variables),
    (&["labels", "label"], "--label", "", Shape::Pairs),
    (&["binds", "bind"], "--volume", "", Shape::List),
    (&["volumes", "volume"], "--volume", "", Shape::List),
    (&["port_bindings", "publish"], "--publish", "", Shape::List),
    (&["publish_all_ports", "publish_all"], "--publish-all", "HostConfig.PublishAllPorts", Shape::Switch),
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
    // A kernel that cannot do these two drops them without a word.
    (&["mem_swappiness", "memory_swappiness"], "--memory-swappiness", "", Shape::Text),
    (&["oom_kill_disable"], "--oom-kill-disable", "", Shape::Switch),
    (&["memswap_limit", "memory_swap"], "--memory-swap", "HostConfig.MemorySwap", Shape::Bytes),
    (&["oom_score_adj"], "--oom-score-adj", "HostConfig.OomScoreAdj", Shape::Text),
    (&["pids_limit"], "--pids-limit", "HostConfig.PidsLimit", Shape::Text),
    (&["blkio_weight"], "--blkio-weight", "HostConfig.BlkioWeight", Shape::Text),
    (&["userns_mode", "userns"], "--userns", "HostConfig.UsernsMode", Shape::Text),
    (&["volume_driver"], "--volume-driver", "HostConfig.VolumeDriver", Shape::Text),
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
        Shape::List => texts(value, ":"),
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
    match networks(given)?.first() {
        _ if given.is("network_disabled") => args.push("--network=none".to_owned()),
        Some(first) if given.get("network_mode").is_none() => {
            args.push(format!("--network={}", first.name));
            args.extend(first.options("--network-alias"));
        }
        _ => {}
    }
    let mut entrypoint = given.get("entrypoint").map(command).transpose()?.unwrap_or_default().into_iter();
    args.extend(entrypoint.next().map(|word| format!("--entrypoint={word}")));
    args.push("--".to_owned());
    args.push(image.to_owned());
    args.extend(entrypoint);
    args.extend(declared(given, &["command", "cmd"]).map(command).transpose()?.unwrap_or_default());
    Ok(args)
}

fn command(value: &Value) -> Result<Vec<String>, Refusal> {
    match value {
        Value::List(items) => Ok(items.iter().map(shown).collect()),
        other => line::split(&shown(other))
            .ok_or_else(|| Refusal::arguments("a quote of the command is not closed")),
    }
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
mod tests;

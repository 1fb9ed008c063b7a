//! Containers, images, networks and volumes by the program `docker` or `podman`: what is declared in, options for the program
//! and what differs from what it shows out.
//!
//! Law: only what is declared is compared, except for variables, labels, directories and ports: of these a container has what is
//! declared and what its image brings, and nothing else. What a variable holds is neither among the words of the program nor shown.

pub mod differences;
pub mod networks;

use std::time::Duration;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

pub use self::differences::differences;
pub use self::networks::container_networks;
use crate::databases::NamedArgs;
use crate::functions::{ExecFunction, FunctionBody};
use crate::named_args;
use zagent_host::exec::command_options::value_text;
use zagent_host::exec::shell_words;
use zagent_host::temp_file::PrivateTempFile;
use zagent_host::{Machine, Tools};

/// How long it may take, an image that has to be fetched included.
const PULL_TIMEOUT: Duration = Duration::from_secs(3600);

/// The program.
#[derive(Clone, Debug)]
pub struct ContainerEngine(pub String);

impl ContainerEngine {
    /// `provider:`, or the one that is there.
    pub fn new(named_args: &NamedArgs<'_>, tools: &Tools<'_>) -> Self {
        let there = || {
            if tools.which("docker").is_none() && tools.which("podman").is_some() {
                "podman"
            } else {
                "docker"
            }
        };
        Self(named_args.text("provider").unwrap_or_else(|| there().to_owned()))
    }

    /// What it shows of a `container`, `image`, `network` or `volume`; none when there is no such one.
    pub fn inspect(&self, tools: &Tools<'_>, kind: &str, name: &str) -> Result<Option<Value>, FunctionError> {
        let output = tools.run_query(&self.0, &[kind, "inspect", "--", name])?;
        if output.is_success() {
            let all = Value::from_json_str(&output.stdout)
                .map_err(|e| FunctionError::failed(format!("{} said no JSON: {e}", self.0)))?;
            return Ok(all.as_list().and_then(|l| l.iter().next().cloned()));
        }
        if is_not_found(kind, name, output.code, output.message()) {
            return Ok(None);
        }
        Err(FunctionError::failed(output.message().to_owned()))
    }

    /// Makes or runs a container. Its variables go by a file that only we can read, since everybody sees words; those of
    /// several lines, which a file cannot hold, by the program's own environment.
    pub fn run_with_env(
        &self,
        tools: &Tools<'_>,
        args: &[String],
        variables: &[String],
    ) -> Result<String, FunctionError> {
        let Some((verb, rest)) = args.split_first().filter(|_| !variables.is_empty()) else {
            return self.run_checked(tools, args);
        };
        let (long, plain): (Vec<&String>, Vec<&String>) = variables.iter().partition(|v| v.contains('\n'));
        let text: String = plain.iter().map(|line| format!("{line}\n")).collect();
        let file = PrivateTempFile::new(tools.machine, text.as_bytes(), ".env", None)
            .map_err(|e| FunctionError::failed(format!("cannot write the variables: {e}")))?;
        let mut words = vec![verb.clone(), format!("--env-file={}", file.path().display())];
        words.extend(long.iter().map(|v| format!("--env={}", variable_name(v))));
        words.extend(rest.iter().cloned());
        let mut command = Tools::command(&self.0, &words, PULL_TIMEOUT);
        let pairs = long.iter().filter_map(|v| v.split_once('='));
        command.env.extend(pairs.map(|(name, value)| (name.into(), value.into())));
        let output = tools.run(command)?;
        if output.is_success() {
            return Ok(output.stdout.trim().to_owned());
        }
        Err(FunctionError::failed(format!(
            "`{}` ended with code {}: {}",
            self.0,
            output.code,
            output.message()
        )))
    }

    /// Tells it to do something.
    pub fn run_checked(&self, tools: &Tools<'_>, args: &[String]) -> Result<String, FunctionError> {
        Ok(tools.run_checked(&self.0, args)?.stdout.trim().to_owned())
    }
}

/// True when the program says that there is no such one; whatever else went wrong is no answer.
fn is_not_found(kind: &str, name: &str, code: i32, words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let output = [
        format!("no such {kind}"),
        "no such object".to_owned(),
        format!("{kind} {} not found", name.to_ascii_lowercase()),
        format!("{kind} not found"),
        format!("{kind} not known"),
    ];
    matches!(code, 1 | 125) && output.iter().any(|s| words.contains(s))
}

/// `A` of `A=b`.
fn variable_name(variable: &str) -> &str {
    variable.split('=').next().unwrap_or_default()
}

/// What a parameter is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionShape {
    /// One text or number.
    Text,
    Flag,
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
type ContainerOption = (&'static [&'static str], &'static str, &'static str, OptionShape);

const OPTIONS: &[ContainerOption] = &[
    (&["hostname"], "--hostname", "Config.Hostname", OptionShape::Text),
    (&["user"], "--user", "Config.User", OptionShape::Text),
    (&["working_dir", "workdir"], "--workdir", "Config.WorkingDir", OptionShape::Text),
    (&["domainname"], "--domainname", "Config.Domainname", OptionShape::Text),
    (&["environment", "env"], "--env", "", OptionShape::Variables),
    (&["labels", "label"], "--label", "", OptionShape::Pairs),
    (&["binds", "bind"], "--volume", "", OptionShape::List),
    (&["volumes", "volume"], "--volume", "", OptionShape::List),
    (&["port_bindings", "publish"], "--publish", "", OptionShape::List),
    (&["publish_all_ports", "publish_all"], "--publish-all", "HostConfig.PublishAllPorts", OptionShape::Flag),
    (&["ports", "expose"], "--expose", "", OptionShape::List),
    (&["restart_policy", "restart"], "--restart", "HostConfig.RestartPolicy", OptionShape::Restart),
    (&["network_mode", "net"], "--network", "HostConfig.NetworkMode", OptionShape::Text),
    (&["privileged"], "--privileged", "HostConfig.Privileged", OptionShape::Flag),
    (&["cap_add"], "--cap-add", "HostConfig.CapAdd", OptionShape::List),
    (&["cap_drop"], "--cap-drop", "HostConfig.CapDrop", OptionShape::List),
    (&["devices", "device"], "--device", "", OptionShape::List),
    (&["dns"], "--dns", "HostConfig.Dns", OptionShape::List),
    (&["dns_search"], "--dns-search", "HostConfig.DnsSearch", OptionShape::List),
    (&["extra_hosts", "add_host"], "--add-host", "HostConfig.ExtraHosts", OptionShape::List),
    (&["tty"], "--tty", "Config.Tty", OptionShape::Flag),
    (&["interactive", "stdin_open"], "--interactive", "Config.OpenStdin", OptionShape::Flag),
    (&["read_only"], "--read-only", "HostConfig.ReadonlyRootfs", OptionShape::Flag),
    (&["init"], "--init", "HostConfig.Init", OptionShape::Flag),
    (&["auto_remove", "rm"], "--rm", "HostConfig.AutoRemove", OptionShape::Flag),
    (&["pid_mode", "pid"], "--pid", "HostConfig.PidMode", OptionShape::Text),
    (&["ipc_mode", "ipc"], "--ipc", "HostConfig.IpcMode", OptionShape::Text),
    (&["security_opt"], "--security-opt", "HostConfig.SecurityOpt", OptionShape::List),
    (&["ulimits", "ulimit"], "--ulimit", "", OptionShape::List),
    (&["mem_limit", "memory"], "--memory", "HostConfig.Memory", OptionShape::Bytes),
    // A kernel that cannot do these two drops them without a word.
    (&["mem_swappiness", "memory_swappiness"], "--memory-swappiness", "", OptionShape::Text),
    (&["oom_kill_disable"], "--oom-kill-disable", "", OptionShape::Flag),
    (&["memswap_limit", "memory_swap"], "--memory-swap", "HostConfig.MemorySwap", OptionShape::Bytes),
    (&["oom_score_adj"], "--oom-score-adj", "HostConfig.OomScoreAdj", OptionShape::Text),
    (&["pids_limit"], "--pids-limit", "HostConfig.PidsLimit", OptionShape::Text),
    (&["blkio_weight"], "--blkio-weight", "HostConfig.BlkioWeight", OptionShape::Text),
    (&["userns_mode", "userns"], "--userns", "HostConfig.UsernsMode", OptionShape::Text),
    (&["volume_driver"], "--volume-driver", "HostConfig.VolumeDriver", OptionShape::Text),
    (&["shm_size"], "--shm-size", "HostConfig.ShmSize", OptionShape::Bytes),
    (&["cpu_shares"], "--cpu-shares", "HostConfig.CpuShares", OptionShape::Text),
    (&["cpuset_cpus", "cpuset"], "--cpuset-cpus", "HostConfig.CpusetCpus", OptionShape::Text),
    (&["links", "link"], "--link", "", OptionShape::List),
    (&["volumes_from"], "--volumes-from", "HostConfig.VolumesFrom", OptionShape::List),
    (&["tmpfs"], "--tmpfs", "", OptionShape::List),
    (&["log_driver"], "--log-driver", "HostConfig.LogConfig.Type", OptionShape::Text),
    (&["log_opt"], "--log-opt", "HostConfig.LogConfig.Config", OptionShape::Pairs),
    (&["stop_signal"], "--stop-signal", "Config.StopSignal", OptionShape::Text),
    (&["sysctls", "sysctl"], "--sysctl", "HostConfig.Sysctls", OptionShape::Pairs),
    (&["group_add"], "--group-add", "HostConfig.GroupAdd", OptionShape::List),
];

fn find_declared<'a>(named_args: &NamedArgs<'a>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| named_args.get(name))
}

/// The texts of a parameter: `a:b` or `A=b` of a mapping.
fn text_list(value: &Value, between: &str) -> Vec<String> {
    let pair = |map: &Map| {
        map.iter().map(|(k, v)| format!("{}{between}{}", value_text(k), value_text(v))).collect::<Vec<_>>()
    };
    match value {
        Value::List(items) => {
            items.iter().flat_map(|v| v.as_map().map_or_else(|| vec![value_text(v)], pair)).collect()
        }
        Value::Map(map) => pair(map),
        other if between == ":" => value_text(other).split(',').map(|t| t.trim().to_owned()).collect(),
        other => vec![value_text(other)],
    }
}

/// What an option is given.
fn option_values(value: &Value, shape: OptionShape) -> Vec<String> {
    match shape {
        OptionShape::Pairs | OptionShape::Variables => text_list(value, "="),
        OptionShape::List => text_list(value, ":"),
        OptionShape::Restart => match value {
            Value::Map(map) => {
                let part = |key: &str| map.get(key).map(value_text).unwrap_or_default();
                let count = part("MaximumRetryCount");
                vec![if count.is_empty() || count == "0" {
                    part("Name")
                } else {
                    format!("{}:{count}", part("Name"))
                }]
            }
            other => vec![value_text(other)],
        },
        OptionShape::Text | OptionShape::Bytes | OptionShape::Flag => vec![value_text(value)],
    }
}

/// The variables of a new container: `A=b`.
pub fn env_variables(named_args: &NamedArgs<'_>) -> Vec<String> {
    find_declared(named_args, &["environment", "env"])
        .map(|v| option_values(v, OptionShape::Variables))
        .unwrap_or_default()
}

/// The options and the command of a new container, without its variables.
pub fn create_args(
    named_args: &NamedArgs<'_>,
    name: &str,
    image: &str,
) -> Result<Vec<String>, FunctionError> {
    let mut args = vec![format!("--name={name}")];
    for (names, option, _, shape) in OPTIONS {
        match find_declared(named_args, names) {
            Some(_) if *shape == OptionShape::Variables => {}
            Some(value) if *shape == OptionShape::Flag => {
                args.push(format!("{option}={}", value.is_truthy()))
            }
            Some(value) => {
                args.extend(option_values(value, *shape).into_iter().map(|w| format!("{option}={w}")))
            }
            None => {}
        }
    }
    // The first network is the container's own; it is connected to the others.
    match container_networks(named_args)?.first() {
        _ if named_args.is_enabled("network_disabled") => args.push("--network=none".to_owned()),
        Some(first) if named_args.get("network_mode").is_none() => {
            args.push(format!("--network={}", first.name));
            args.extend(first.option_words("--network-alias"));
        }
        _ => {}
    }
    let mut entrypoint =
        named_args.get("entrypoint").map(command_words).transpose()?.unwrap_or_default().into_iter();
    args.extend(entrypoint.next().map(|word| format!("--entrypoint={word}")));
    args.push("--".to_owned());
    args.push(image.to_owned());
    args.extend(entrypoint);
    args.extend(
        find_declared(named_args, &["command", "cmd"]).map(command_words).transpose()?.unwrap_or_default(),
    );
    Ok(args)
}

fn command_words(value: &Value) -> Result<Vec<String>, FunctionError> {
    match value {
        Value::List(items) => Ok(items.iter().map(value_text).collect()),
        other => shell_words::split(&value_text(other))
            .ok_or_else(|| FunctionError::bad_arguments("a quote of the command is not closed")),
    }
}

const fn query_fn(name: &'static str, signature: &'static str, body: FunctionBody) -> ExecFunction {
    ExecFunction { name, signature, needs_program: None, changes_host: false, body }
}

const fn change_fn(name: &'static str, signature: &'static str, body: FunctionBody) -> ExecFunction {
    ExecFunction { name, signature, needs_program: None, changes_host: true, body }
}

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("docker.version", "provider?", |m, a| {
        with_engine(m, a, |engine, tools, _| Ok(engine.run_checked(tools, &["--version".to_owned()])?.into()))
    }),
    query_fn("docker.ps", "all? provider?", |m, a| {
        list_objects(m, a, &["ps", "--no-trunc", "--format", "{{json .}}"])
    }),
    query_fn("docker.images", "provider?", |m, a| {
        list_objects(m, a, &["images", "--no-trunc", "--format", "{{json .}}"])
    }),
    query_fn("docker.inspect", "name provider?", |m, a| {
        inspect_objects(m, a, &["container", "image", "network", "volume"])
    }),
    query_fn("docker.inspect_container", "name provider?", |m, a| inspect_objects(m, a, &["container"])),
    query_fn("docker.inspect_image", "name provider?", |m, a| inspect_objects(m, a, &["image"])),
    query_fn("docker.inspect_network", "name provider?", |m, a| inspect_objects(m, a, &["network"])),
    query_fn("docker.inspect_volume", "name provider?", |m, a| inspect_objects(m, a, &["volume"])),
    query_fn("docker.exists", "name provider?", |m, a| {
        with_engine(m, a, |engine, tools, named_args| {
            Ok(engine.inspect(tools, "container", &named_args.require_text("name")?)?.is_some().into())
        })
    }),
    query_fn("docker.state", "name provider?", |m, a| {
        with_engine(m, a, |engine, tools, named_args| {
            let found = engine.inspect(tools, "container", &named_args.require_text("name")?)?;
            let found = found.ok_or_else(|| FunctionError::failed("there is no such container"))?;
            Ok(zagent_config::value::traverse(&found, "State.Status", ".").cloned().unwrap_or(Value::Null))
        })
    }),
    change_fn("docker.start", "name provider?", |m, a| run_verb(m, a, "start")),
    change_fn("docker.stop", "name provider?", |m, a| run_verb(m, a, "stop")),
    change_fn("docker.restart", "name provider?", |m, a| run_verb(m, a, "restart")),
    change_fn("docker.rm", "name force? provider?", |m, a| run_verb(m, a, "rm")),
    change_fn("docker.rmi", "name force? provider?", |m, a| run_verb(m, a, "rmi")),
    change_fn("docker.pull", "name provider?", |m, a| run_verb(m, a, "pull")),
];

type DockerResult = Result<Value, FunctionError>;
type BoundArgs = zagent_compiler::functions::FunctionArgs<Value>;

fn with_engine(
    machine: &Machine,
    args: &BoundArgs,
    body: impl FnOnce(&ContainerEngine, &Tools<'_>, &NamedArgs<'_>) -> DockerResult,
) -> DockerResult {
    let tools = Tools::new(machine);
    named_args::with_bound_args(args, |named_args| {
        body(&ContainerEngine::new(named_args, &tools), &tools, named_args)
    })
}

fn list_objects(machine: &Machine, args: &BoundArgs, words: &[&str]) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let mut words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        words.extend(named_args.is_enabled("all").then(|| "--all".to_owned()));
        let text = engine.run_checked(tools, &words)?;
        let read = |l: &str| {
            Value::from_json_str(l)
                .map_err(|e| FunctionError::failed(format!("{} said no JSON: {e}", engine.0)))
        };
        // Podman writes one list, Docker a line for each.
        if text.starts_with('[') {
            return read(&text);
        }
        text.lines().map(read).collect::<Result<Vec<_>, _>>().map(Value::from)
    })
}

fn inspect_objects(machine: &Machine, args: &BoundArgs, kinds: &[&str]) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let name = named_args.require_text("name")?;
        for kind in kinds {
            if let Some(found) = engine.inspect(tools, kind, &name)? {
                return Ok(found);
            }
        }
        Err(FunctionError::failed(format!("there is no `{name}`")))
    })
}

fn run_verb(machine: &Machine, args: &BoundArgs, verb: &str) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let mut words = vec![verb.to_owned()];
        words.extend(named_args.is_enabled("force").then(|| "--force".to_owned()));
        words.extend(["--".to_owned(), named_args.require_text("name")?]);
        engine.run_checked(tools, &words).map(|_| true.into())
    })
}

#[cfg(test)]
pub mod tests;

//! A container as it is declared in, options for the program `docker` or `podman` and what differs from what it shows out.
//!
//! Law: only what is declared is compared, except for variables, labels, directories and ports: of these a
//! container has what is declared and what its image brings, and nothing else. What a variable holds is neither
//! among the words of the program nor shown (held by `what_is_no_longer_declared_differs`,
//! `what_a_variable_holds_is_not_shown`).

pub(crate) mod differences;
pub(crate) mod networks;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

pub(crate) use self::differences::differences;
pub(crate) use self::networks::container_networks;
use crate::named_args::NamedArgs;
use zagent_host::command_options::value_text;
use zagent_host::exec::shell_words;

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
pub(crate) fn env_variables(named_args: &NamedArgs<'_>) -> Vec<String> {
    find_declared(named_args, &["environment", "env"])
        .map(|v| option_values(v, OptionShape::Variables))
        .unwrap_or_default()
}

/// The options and the command of a new container, without its variables.
pub(crate) fn create_args(
    named_args: &NamedArgs<'_>,
    name: &str,
    image: &str,
) -> Result<Vec<String>, FunctionError> {
    let mut args = vec![format!("--name={name}")];
    for (names, option, _, shape) in OPTIONS {
        match find_declared(named_args, names) {
            Some(_) if *shape == OptionShape::Variables => {}
            Some(value) if *shape == OptionShape::Flag => {
                args.push(format!("{option}={}", value.is_truthy()));
            }
            Some(value) => {
                args.extend(option_values(value, *shape).into_iter().map(|w| format!("{option}={w}")));
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

#[cfg(test)]
mod tests;

//! `system.*`: the host reboots or goes off.

#![expect(clippy::disallowed_methods, reason = "a reboot is requested at the current time")]

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;
use zagent_config::error_chain;
use zagent_config::paths::{DEFAULT_ROOT, Paths};

use crate::exec_function::{ExecFunction, change_fn};
use zagent_host::command_options::value_text;
use zagent_host::reboot;
use zagent_host::{Machine, Tools};

/// The execution functions of `system`.
pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("system.reboot", "at_time?", |m, a| shut_down(m, a, "-r")),
    change_fn("system.shutdown", "at_time?", |m, a| shut_down(m, a, "-h")),
    change_fn("system.poweroff", "", |m, a| shut_down(m, a, "-P")),
    change_fn("system.halt", "", |m, a| shut_down(m, a, "-H")),
];

/// True when this process belongs to the agent's own unit, whose settings say when the host may reboot.
fn is_agent_unit() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().any(|l| l.ends_with("/zagent.service"))
}

/// Shuts the host down; at a time in minutes from now, or at once. The agent itself only asks for a reboot. A machine
/// below another root does not run: its `shutdown` would be the one of this host.
fn shut_down(machine: &Machine, args: &FunctionArgs<Value>, how: &str) -> Result<Value, FunctionError> {
    if !machine.is_this_host() {
        return Ok("nothing is done: the machine below another root is not running".into());
    }
    if how == "-r" && is_agent_unit() {
        let (paths, host) = (Paths::new(DEFAULT_ROOT), reboot::RebootHost::default());
        reboot::request_reboot(&paths, &host, "`system.reboot` asked for it", jiff::Timestamp::now())
            .map_err(|e| FunctionError::failed(error_chain(&e)))?;
        return Ok("a reboot is asked for; it comes as the settings allow".into());
    }
    let at = match args.get("at_time") {
        None | Some(Value::Null) => "now".to_owned(),
        Some(time) => match value_text(time) {
            minutes if minutes.bytes().all(|b| b.is_ascii_digit()) => format!("+{minutes}"),
            other => other,
        },
    };
    let output = Tools::new(machine).run_checked("shutdown", &[how, &at])?;
    Ok(output.message().into())
}

//! `firewalld.*`: zones and services, by `firewall-cmd`.

use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, change_fn, optional_text_arg, query_fn_needing, string_list};
use zagent_host::{Machine, Tools};

/// The execution functions of `firewalld`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing("firewall-cmd", "firewalld.version", "", |m, _| run_firewall_cmd(m, &["--version"])),
    query_fn_needing("firewall-cmd", "firewalld.default_zone", "", |m, _| {
        run_firewall_cmd(m, &["--get-default-zone"])
    }),
    query_fn_needing("firewall-cmd", "firewalld.get_zones", "permanent?", |m, _| {
        split_words(&run_firewall_cmd(m, &["--permanent", "--get-zones"])?)
    }),
    query_fn_needing("firewall-cmd", "firewalld.get_services", "permanent?", |m, _| {
        split_words(&run_firewall_cmd(m, &["--permanent", "--get-services"])?)
    }),
    query_fn_needing("firewall-cmd", "firewalld.list_services", "zone? permanent?", |m, a| {
        let zone = optional_text_arg(a, "zone").map(|z| format!("--zone={z}"));
        let all: Vec<&str> =
            ["--permanent"].into_iter().chain(zone.as_deref()).chain(["--list-services"]).collect();
        split_words(&run_firewall_cmd(m, &all)?)
    }),
    change_fn("firewalld.reload_rules", "", |m, _| run_firewall_cmd(m, &["--reload"])),
];

fn split_words(text: &Value) -> Result<Value, FunctionError> {
    Ok(string_list(text.as_str().unwrap_or_default().split_whitespace()))
}

fn run_firewall_cmd(machine: &Machine, words: &[&str]) -> Result<Value, FunctionError> {
    Ok(Tools::new(machine).run_checked("firewall-cmd", words)?.stdout.trim().into())
}

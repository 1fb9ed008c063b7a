//! `dig.*`: records of the domain name system, by the program `dig`.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, optional_text_arg, query_fn_needing, string_list};
use zagent_host::Machine;

const DIG_SIGNATURE: &str = "host nameserver?";

/// The execution functions of `dig`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing("dig", "dig.A", DIG_SIGNATURE, |m, a| run_dig(m, a, "A")),
    query_fn_needing("dig", "dig.AAAA", DIG_SIGNATURE, |m, a| run_dig(m, a, "AAAA")),
    query_fn_needing("dig", "dig.CNAME", DIG_SIGNATURE, |m, a| run_dig(m, a, "CNAME")),
    query_fn_needing("dig", "dig.NS", "domain resolve? nameserver?", |m, a| run_dig(m, a, "NS")),
    query_fn_needing("dig", "dig.TXT", DIG_SIGNATURE, |m, a| run_dig(m, a, "TXT")),
];

fn run_dig(machine: &Machine, args: &FunctionArgs<Value>, kind: &str) -> Result<Value, FunctionError> {
    let host =
        optional_text_arg(args, "host").or_else(|| optional_text_arg(args, "domain")).unwrap_or_default();
    if host.is_empty() || host.starts_with(['-', '+', '@']) {
        return Err(FunctionError::failed(format!("`{host}` is not the name of a host")));
    }
    let server = optional_text_arg(args, "nameserver").filter(|s| !s.is_empty()).map(|s| format!("@{s}"));
    let mut full = vec!["+short", host, kind];
    full.extend(server.as_deref());
    let out = machine.run_query("dig", &full)?;
    if !out.success() {
        return Err(FunctionError::failed(format!("dig ended with code {}", out.shell_code())));
    }
    Ok(string_list(String::from_utf8_lossy(&out.stdout).lines()))
}

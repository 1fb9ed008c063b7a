//! Functions that are there only when a program is: git, dig. Each only asks.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use super::{ExecFunction, optional_text_arg, query_fn_needing, string_list, text_arg};
use zagent_host::Machine;

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn_needing(
        "git",
        "git.current_branch",
        "cwd user? password? ignore_retcode? output_encoding?",
        |m, a| run_git(m, a, &["rev-parse", "--abbrev-ref", "HEAD"]),
    ),
    query_fn_needing(
        "git",
        "git.revision",
        "cwd rev? short? user? password? ignore_retcode? output_encoding?",
        |m, a| {
            let rev = optional_text_arg(a, "rev").unwrap_or("HEAD");
            let short = if super::flag_arg(a, "short", false) { "--short" } else { "--verify" };
            run_git(m, a, &["rev-parse", short, "--end-of-options", rev])
        },
    ),
    query_fn_needing("git", "git.version", "versioninfo?", |m, _| {
        let out = m.run_query("git", &["--version"])?;
        let line = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(line.split_whitespace().nth(2).unwrap_or_default().into())
    }),
    query_fn_needing("dig", "dig.A", DIG_SIGNATURE, |m, a| run_dig(m, a, "A")),
    query_fn_needing("dig", "dig.AAAA", DIG_SIGNATURE, |m, a| run_dig(m, a, "AAAA")),
    query_fn_needing("dig", "dig.CNAME", DIG_SIGNATURE, |m, a| run_dig(m, a, "CNAME")),
    query_fn_needing("dig", "dig.NS", "domain resolve? nameserver?", |m, a| run_dig(m, a, "NS")),
    query_fn_needing("dig", "dig.TXT", DIG_SIGNATURE, |m, a| run_dig(m, a, "TXT")),
];

const DIG_SIGNATURE: &str = "host nameserver?";

fn run_git(machine: &Machine, args: &FunctionArgs<Value>, command: &[&str]) -> Result<Value, FunctionError> {
    let cwd = text_arg(args, "cwd")?;
    let mut full = vec!["-C", cwd];
    full.extend(command);
    let out = machine.run_query("git", &full)?;
    if !out.success() {
        return Err(FunctionError::failed(String::from_utf8_lossy(&out.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().into())
}

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

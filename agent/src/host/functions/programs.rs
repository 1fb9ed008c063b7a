//! Functions that are there only when a program is: git, dig. Each only asks.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::Value;

use super::{Entry, needing, strings, text, word};
use crate::host::Machine;

pub(super) const TABLE: &[Entry] = &[
    needing("git", "git.current_branch", "cwd user? password? ignore_retcode? output_encoding?", |m, a| {
        git(m, a, &["rev-parse", "--abbrev-ref", "HEAD"])
    }),
    needing(
        "git",
        "git.revision",
        "cwd rev? short? user? password? ignore_retcode? output_encoding?",
        |m, a| {
            let rev = word(a, "rev").unwrap_or("HEAD");
            let short = if super::flag(a, "short", false) { "--short" } else { "--verify" };
            git(m, a, &["rev-parse", short, "--end-of-options", rev])
        },
    ),
    needing("git", "git.version", "versioninfo?", |m, _| {
        let out = m.look("git", &["--version"])?;
        let line = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(line.split_whitespace().nth(2).unwrap_or_default().into())
    }),
    needing("dig", "dig.A", DIG, |m, a| dig(m, a, "A")),
    needing("dig", "dig.AAAA", DIG, |m, a| dig(m, a, "AAAA")),
    needing("dig", "dig.CNAME", DIG, |m, a| dig(m, a, "CNAME")),
    needing("dig", "dig.NS", "domain resolve? nameserver?", |m, a| dig(m, a, "NS")),
    needing("dig", "dig.TXT", DIG, |m, a| dig(m, a, "TXT")),
];

const DIG: &str = "host nameserver?";

fn git(machine: &Machine, args: &Bound<Value>, command: &[&str]) -> Result<Value, Refusal> {
    let cwd = text(args, "cwd")?;
    let mut full = vec!["-C", cwd];
    full.extend(command);
    let out = machine.look("git", &full)?;
    if !out.success() {
        return Err(Refusal::failed(String::from_utf8_lossy(&out.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().into())
}

fn dig(machine: &Machine, args: &Bound<Value>, kind: &str) -> Result<Value, Refusal> {
    let host = word(args, "host").or_else(|| word(args, "domain")).unwrap_or_default();
    if host.is_empty() || host.starts_with(['-', '+', '@']) {
        return Err(Refusal::failed(format!("`{host}` is not the name of a host")));
    }
    let server = word(args, "nameserver").filter(|s| !s.is_empty()).map(|s| format!("@{s}"));
    let mut full = vec!["+short", host, kind];
    full.extend(server.as_deref());
    let out = machine.look("dig", &full)?;
    if !out.success() {
        return Err(Refusal::failed(format!("dig ended with code {}", out.code())));
    }
    Ok(strings(String::from_utf8_lossy(&out.stdout).lines()))
}

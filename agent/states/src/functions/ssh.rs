//! `ssh.*`: authorized keys of a user, and keys of known hosts.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, non_empty_arg, query_fn, text_arg};
use zagent_host::accounts::ssh_keys;
use zagent_host::{Machine, Tools};

/// The execution functions of `ssh`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("ssh.auth_keys", "user config? fingerprint_hash_type?", |m, a| {
        let config = non_empty_arg(a, "config").unwrap_or_else(|| ssh_keys::AUTHORIZED_KEYS.into());
        let (_, path) = ssh_keys::resolve_user_file(m, text_arg(a, "user")?, &config)?;
        let old = m.read(&path)?.unwrap_or_default();
        let keys = old.lines().filter_map(ssh_keys::AuthorizedKey::parse);
        Ok(keys
            .map(|key| (Value::from(key.key.as_str()), Value::from(key.to_salt_map())))
            .collect::<Map>()
            .into())
    }),
    query_fn("ssh.get_known_host_entries", "user hostname config? port? fingerprint_hash_type?", |m, a| {
        let found = known_host_entries(m, a)?;
        Ok(if found.is_empty() {
            Value::Null
        } else {
            found.iter().map(ssh_keys::KnownHostsEntry::to_salt_map).collect()
        })
    }),
    query_fn(
        "ssh.check_known_host",
        "user? hostname? key? fingerprint? config? port? fingerprint_hash_type?",
        |m, a| {
            let found = known_host_entries(m, a)?;
            let is = |k: &ssh_keys::KnownHostsEntry| match (
                non_empty_arg(a, "key"),
                non_empty_arg(a, "fingerprint"),
            ) {
                (Some(key), _) => k.key == key,
                (None, Some(print)) => k.has_fingerprint(&print),
                (None, None) => true,
            };
            Ok(if found.is_empty() {
                "add"
            } else if found.iter().any(is) {
                "exists"
            } else {
                "update"
            }
            .into())
        },
    ),
    query_fn(
        "ssh.recv_known_host_entries",
        "hostname enc? port? hash_known_hosts? timeout? fingerprint_hash_type?",
        |m, a| {
            let port = non_empty_arg(a, "port");
            let timeout = non_empty_arg(a, "timeout").unwrap_or_else(|| "5".into());
            let lines = ssh_keys::scan_host_keys(
                &Tools::new(m),
                text_arg(a, "hostname")?,
                port.as_deref(),
                non_empty_arg(a, "enc").as_deref(),
                &timeout,
            )?;
            Ok(if lines.is_empty() {
                Value::Null
            } else {
                lines.iter().map(ssh_keys::KnownHostsEntry::to_salt_map).collect()
            })
        },
    ),
];

fn known_host_entries(
    machine: &Machine,
    args: &FunctionArgs<Value>,
) -> Result<Vec<ssh_keys::KnownHostsEntry>, FunctionError> {
    let (user, config) = (non_empty_arg(args, "user"), non_empty_arg(args, "config"));
    let path = ssh_keys::known_hosts_file(machine, user.as_deref(), config.as_deref())?;
    let name =
        ssh_keys::known_hosts_name(text_arg(args, "hostname")?, non_empty_arg(args, "port").as_deref());
    let old = machine.read(&path)?.unwrap_or_default();
    Ok(old.lines().filter_map(ssh_keys::KnownHostsEntry::parse).filter(|k| k.matches_host(&name)).collect())
}

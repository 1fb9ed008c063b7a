//! `hosts.*`: names and addresses of `/etc/hosts`.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, arg_or_empty, change_fn, edit_text_file, non_empty_arg, query_fn, string_list, text_arg,
};
use crate::host::hosts_file;
use zagent_host::Machine;

const HOSTS: &str = "/etc/hosts";

/// The execution functions of `hosts`.
pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("hosts.set_host", "ip alias comment?", |m, a| {
        let comment = non_empty_arg(a, "comment").map_or_else(String::new, |c| format!("\t\t# {c}"));
        let names = format!("{}{comment}", arg_or_empty(a, "alias"));
        edit_text_file(m, HOSTS, |old| hosts_file::set_aliases(old, &arg_or_empty(a, "ip"), &names))
    }),
    change_fn("hosts.rm_host", "ip alias", |m, a| {
        edit_text_file(m, HOSTS, |old| {
            hosts_file::remove_alias(old, &arg_or_empty(a, "ip"), &arg_or_empty(a, "alias"))
        })
    }),
    change_fn("hosts.add_host", "ip alias", |m, a| {
        edit_text_file(m, HOSTS, |old| {
            let mut all = hosts_file::parse_hosts(old);
            if hosts_file::aliases_of(&all, &arg_or_empty(a, "ip")).contains(&arg_or_empty(a, "alias")) {
                return old.to_owned();
            }
            hosts_file::add_alias(&mut all, &arg_or_empty(a, "ip"), &arg_or_empty(a, "alias"));
            hosts_file::render_hosts(&all)
        })
    }),
    query_fn("hosts.list_hosts", "", |m, _| {
        Ok(read_hosts(m)?
            .into_iter()
            .map(|(ip, names)| {
                (ip, Value::from([("aliases", string_list(names))].into_iter().collect::<Map>()))
            })
            .collect::<Map>()
            .into())
    }),
    query_fn("hosts.get_ip", "host", |m, a| {
        let host = text_arg(a, "host")?;
        let found = read_hosts(m)?.into_iter().find(|(_, names)| names.iter().any(|n| n == host));
        Ok(found.map(|(ip, _)| ip).unwrap_or_default().into())
    }),
    query_fn("hosts.get_alias", "ip", |m, a| {
        let ip = text_arg(a, "ip")?;
        Ok(string_list(
            read_hosts(m)?.into_iter().find(|(i, _)| i == ip).map(|(_, names)| names).unwrap_or_default(),
        ))
    }),
    query_fn("hosts.has_pair", "ip alias", |m, a| {
        let (ip, alias) = (text_arg(a, "ip")?, text_arg(a, "alias")?);
        Ok(read_hosts(m)?.iter().any(|(i, names)| i == ip && names.iter().any(|n| n == alias)).into())
    }),
];

fn read_hosts(machine: &Machine) -> Result<Vec<(String, Vec<String>)>, FunctionError> {
    let file = machine.read(HOSTS)?.unwrap_or_default();
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for line in file.lines().filter_map(|l| l.split('#').next()) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(ip) = words.next() else { continue };
        match out.iter_mut().find(|(i, _)| *i == ip) {
            Some((_, names)) => names.extend(words),
            None => out.push((ip, words.collect())),
        }
    }
    Ok(out)
}

//! States of the module `host`: names of addresses in `/etc/hosts`.

pub(crate) mod functions;
pub mod hosts_file;

use std::net::IpAddr;
use std::path::PathBuf;

use zagent_config::{Map, Value};

use crate::host::hosts_file::HostsEntry;
use crate::shared::text_file::{TextEdit, TextFile, single_change, text_file_state};
use crate::{BuildResult, ChunkArgs, Effects, LockKey, StateCtx, StateError, StateModule};

/// The module `host`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "host",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    text_file_state(HostState::for_function(fun, args))
}

/// What is wanted of `/etc/hosts`.
pub enum HostState {
    Present { name: String, ips: Vec<String>, comment: Option<String>, clean: bool },
    Absent { name: String, ips: Vec<String> },
    Only { ip: String, names: String },
}

impl HostState {
    pub fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
        Some(match fun {
            "present" => ips_arg(args).and_then(|ips| {
                if let Some(ip) = ips.iter().find(|ip| ip.parse::<IpAddr>().is_err()) {
                    return Err(StateError::new(format!("Invalid IP Address for {} ({ip})", args.name())));
                }
                let comment = args.text("comment")?.filter(|c| !c.is_empty());
                Ok(Self::Present { name: args.name(), ips, comment, clean: args.flag("clean", false) })
            }),
            "absent" => ips_arg(args).map(|ips| Self::Absent { name: args.name(), ips }),
            "only" => args.texts("hostnames").map(|names| {
                let names: Vec<String> =
                    names.unwrap_or_default().iter().map(|n| n.trim().to_owned()).collect();
                Self::Only { ip: args.name(), names: names.join(" ") }
            }),
            _ => return None,
        })
    }
}

fn ips_arg(args: &ChunkArgs<'_>) -> Result<Vec<String>, StateError> {
    args.texts("ip")?.ok_or_else(|| StateError::new("`ip` must be given"))
}

/// One more value in a list of a mapping of changes.
fn add_change(changes: &mut Map, key: &str, ip: &str, value: &str) {
    let mut inner = changes.get(key).and_then(Value::as_map).cloned().unwrap_or_default();
    inner.insert(ip, Value::from_iter([Value::from(value)]));
    changes.insert(key, Value::from(inner));
}

fn edit_present(old: &str, name: &str, ips: &[String], comment: Option<&str>, clean: bool) -> TextEdit {
    let mut all = hosts_file::parse_hosts(old);
    let mut changes = Map::new();
    let (mut right, mut would, mut did) = (Vec::new(), Vec::new(), Vec::new());
    for ip in ips {
        if hosts_file::aliases_of(&all, ip).iter().any(|a| a == name) {
            right.push(format!("Host {name} ({ip}) already present"));
            continue;
        }
        hosts_file::add_alias(&mut all, ip, name);
        would.push(format!("Host {name} ({ip}) would be added"));
        did.push(format!("Added host {name} ({ip})"));
        add_change(&mut changes, "added", ip, name);
    }
    for host in all.iter_mut().filter(|h| ips.contains(&h.ip)) {
        if let Some(comment) = comment.filter(|c| host.comment.as_deref() != Some(c)) {
            host.comment = Some(comment.to_owned());
            would.push(format!("Comment for {} ({comment}) would be added", host.ip));
            did.push(format!("Set comment for host {} ({comment})", host.ip));
            add_change(&mut changes, "comment_added", &host.ip, comment);
        }
    }
    let mut new = if changes.is_empty() { old.to_owned() } else { hosts_file::render_hosts(&all) };
    let others = |h: &&HostsEntry| {
        clean && !h.ip.is_empty() && !ips.contains(&h.ip) && h.aliases.iter().any(|a| a == name)
    };
    for host in all.iter().filter(others) {
        new = hosts_file::remove_alias(&new, &host.ip, name);
        would.push(format!("Host {name} ({}) would be removed", host.ip));
        did.push(format!("Removed host {name} ({})", host.ip));
        add_change(&mut changes, "removed", &host.ip, name);
    }
    if changes.is_empty() {
        return TextEdit::InSync(right.join("\n"));
    }
    let joined = |more: Vec<String>| right.iter().cloned().chain(more).collect::<Vec<_>>().join("\n");
    TextEdit::Change { new, would: joined(would), did: joined(did), changes }
}

fn edit_absent(old: &str, name: &str, ips: &[String]) -> TextEdit {
    let (mut new, mut would, mut did) = (old.to_owned(), Vec::new(), Vec::new());
    for ip in ips {
        if hosts_file::aliases_of(&hosts_file::parse_hosts(&new), ip).iter().any(|a| a == name) {
            new = hosts_file::remove_alias(&new, ip, name);
            would.push(format!("Host {name} ({ip}) needs to be removed"));
            did.push(format!("Removed host {name} ({ip})"));
        } else {
            let words = format!("Host {name} ({ip}) already absent");
            would.push(words.clone());
            did.push(words);
        }
    }
    if new == old {
        return TextEdit::InSync(did.join("\n"));
    }
    TextEdit::Change {
        new,
        would: would.join("\n"),
        did: did.join("\n"),
        changes: single_change("host", name),
    }
}

impl TextFile for HostState {
    fn path(&self, _: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        Ok("/etc/hosts".into())
    }

    fn edit(&self, old: Option<&str>, _: &StateCtx<'_>) -> Result<TextEdit, StateError> {
        let old = old.unwrap_or_default();
        Ok(match self {
            Self::Present { name, ips, comment, clean } => {
                edit_present(old, name, ips, comment.as_deref(), *clean)
            }
            Self::Absent { name, ips } => edit_absent(old, name, ips),
            Self::Only { ip, names } => {
                let is = hosts_file::aliases_of(&hosts_file::parse_hosts(old), ip).join(" ");
                if is == *names {
                    return Ok(TextEdit::InSync(format!("IP address {ip} already set to \"{names}\"")));
                }
                let changes =
                    Map::from_iter([("old", Value::from(is.as_str())), ("new", names.as_str().into())]);
                TextEdit::Change {
                    new: hosts_file::set_aliases(old, ip, names),
                    would: format!("Would change {ip} from \"{is}\" to \"{names}\""),
                    did: format!("successfully changed {ip} from \"{is}\" to \"{names}\""),
                    changes: single_change(ip.as_str(), changes),
                }
            }
        })
    }

    fn reads(&self) -> Effects {
        Effects::FILES
    }

    fn lock_key(&self) -> LockKey {
        LockKey::Path("/etc/hosts".into())
    }
}

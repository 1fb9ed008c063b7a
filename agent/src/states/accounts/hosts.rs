//! States of the modules `host` and `alias`: names of addresses in `/etc/hosts`, mail aliases in `/etc/aliases`.

use std::net::IpAddr;
use std::path::PathBuf;

use zagent_config::{Map, Value};

use super::text::{Edit, Texts, change};
use crate::host::accounts::hosts::{self, Host};
use crate::states::{Args, Failure, Resource, Scene, Veil};

/// What is wanted of `/etc/hosts`.
pub(super) enum Hosts {
    Present { name: String, ips: Vec<String>, comment: Option<String>, clean: bool },
    Absent { name: String, ips: Vec<String> },
    Only { ip: String, names: String },
}

impl Hosts {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Option<Result<Self, Failure>> {
        Some(match fun {
            "present" => ips(args).and_then(|ips| {
                if let Some(ip) = ips.iter().find(|ip| ip.parse::<IpAddr>().is_err()) {
                    return Err(Failure::new(format!("Invalid IP Address for {} ({ip})", args.name())));
                }
                let comment = args.text("comment")?.filter(|c| !c.is_empty());
                Ok(Self::Present { name: args.name(), ips, comment, clean: args.flag("clean", false) })
            }),
            "absent" => ips(args).map(|ips| Self::Absent { name: args.name(), ips }),
            "only" => args.texts("hostnames").map(|names| {
                let names: Vec<String> =
                    names.unwrap_or_default().iter().map(|n| n.trim().to_owned()).collect();
                Self::Only { ip: args.name(), names: names.join(" ") }
            }),
            _ => return None,
        })
    }
}

fn ips(args: &Args<'_>) -> Result<Vec<String>, Failure> {
    args.texts("ip")?.ok_or_else(|| Failure::new("`ip` must be given"))
}

/// One more value in a list of a mapping of changes.
fn note(changes: &mut Map, key: &str, ip: &str, value: &str) {
    let mut inner = changes.get(key).and_then(Value::as_map).cloned().unwrap_or_default();
    inner.insert(ip, Value::from_iter([Value::from(value)]));
    changes.insert(key, Value::from(inner));
}

fn present(old: &str, name: &str, ips: &[String], comment: Option<&str>, clean: bool) -> Edit {
    let mut all = hosts::parse(old);
    let mut changes = Map::new();
    let (mut right, mut would, mut did) = (Vec::new(), Vec::new(), Vec::new());
    for ip in ips {
        if hosts::aliases(&all, ip).iter().any(|a| a == name) {
            right.push(format!("Host {name} ({ip}) already present"));
            continue;
        }
        hosts::add(&mut all, ip, name);
        would.push(format!("Host {name} ({ip}) would be added"));
        did.push(format!("Added host {name} ({ip})"));
        note(&mut changes, "added", ip, name);
    }
    for host in all.iter_mut().filter(|h| ips.contains(&h.ip)) {
        if let Some(comment) = comment.filter(|c| host.comment.as_deref() != Some(c)) {
            host.comment = Some(comment.to_owned());
            would.push(format!("Comment for {} ({comment}) would be added", host.ip));
            did.push(format!("Set comment for host {} ({comment})", host.ip));
            note(&mut changes, "comment_added", &host.ip, comment);
        }
    }
    let mut new = if changes.is_empty() { old.to_owned() } else { hosts::render(&all) };
    let others =
        |h: &&Host| clean && !h.ip.is_empty() && !ips.contains(&h.ip) && h.aliases.iter().any(|a| a == name);
    for host in all.iter().filter(others) {
        new = hosts::without(&new, &host.ip, name);
        would.push(format!("Host {name} ({}) would be removed", host.ip));
        did.push(format!("Removed host {name} ({})", host.ip));
        note(&mut changes, "removed", &host.ip, name);
    }
    if changes.is_empty() {
        return Edit::Right(right.join("\n"));
    }
    let joined = |more: Vec<String>| right.iter().cloned().chain(more).collect::<Vec<_>>().join("\n");
    Edit::Change { new, would: joined(would), did: joined(did), changes }
}

fn absent(old: &str, name: &str, ips: &[String]) -> Edit {
    let (mut new, mut would, mut did) = (old.to_owned(), Vec::new(), Vec::new());
    for ip in ips {
        if hosts::aliases(&hosts::parse(&new), ip).iter().any(|a| a == name) {
            new = hosts::without(&new, ip, name);
            would.push(format!("Host {name} ({ip}) needs to be removed"));
            did.push(format!("Removed host {name} ({ip})"));
        } else {
            let words = format!("Host {name} ({ip}) already absent");
            would.push(words.clone());
            did.push(words);
        }
    }
    if new == old {
        return Edit::Right(did.join("\n"));
    }
    Edit::Change { new, would: would.join("\n"), did: did.join("\n"), changes: change("host", name) }
}

impl Texts for Hosts {
    fn path(&self, _: &Scene<'_>) -> Result<PathBuf, Failure> {
        Ok("/etc/hosts".into())
    }

    fn edit(&self, old: Option<&str>, _: &Scene<'_>) -> Result<Edit, Failure> {
        let old = old.unwrap_or_default();
        Ok(match self {
            Self::Present { name, ips, comment, clean } => {
                present(old, name, ips, comment.as_deref(), *clean)
            }
            Self::Absent { name, ips } => absent(old, name, ips),
            Self::Only { ip, names } => {
                let is = hosts::aliases(&hosts::parse(old), ip).join(" ");
                if is == *names {
                    return Ok(Edit::Right(format!("IP address {ip} already set to \"{names}\"")));
                }
                let changes =
                    Map::from_iter([("old", Value::from(is.as_str())), ("new", names.as_str().into())]);
                Edit::Change {
                    new: hosts::with_only(old, ip, names),
                    would: format!("Would change {ip} from \"{is}\" to \"{names}\""),
                    did: format!("successfully changed {ip} from \"{is}\" to \"{names}\""),
                    changes: change(ip.as_str(), changes),
                }
            }
        })
    }

    fn sees(&self) -> Veil {
        Veil::FILES
    }

    fn resource(&self) -> Resource {
        Resource::Path("/etc/hosts".into())
    }
}

/// A mail alias: its target, or none when it should not be.
pub(super) struct Alias {
    name: String,
    target: Option<String>,
}

impl Alias {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Option<Result<Self, Failure>> {
        let name = args.name();
        match fun {
            "absent" => Some(Ok(Self { name, target: None })),
            "present" => Some(args.texts("target").and_then(|target| {
                let target = target.unwrap_or_default().join(", ");
                if target.is_empty() {
                    return Err(Failure::new("target can not be an empty string"));
                }
                Ok(Self { name, target: Some(target) })
            })),
            _ => None,
        }
    }
}

impl Texts for Alias {
    fn path(&self, _: &Scene<'_>) -> Result<PathBuf, Failure> {
        Ok("/etc/aliases".into())
    }

    fn edit(&self, old: Option<&str>, _: &Scene<'_>) -> Result<Edit, Failure> {
        let (old, name) = (old.unwrap_or_default(), &self.name);
        let is = hosts::mail_aliases(old).into_iter().rfind(|(n, _)| n == name).map(|(_, target)| target);
        let (would, did) = match &self.target {
            target if *target == is => {
                let how = if target.is_some() { "present" } else { "absent" };
                return Ok(Edit::Right(format!("Alias {name} already {how}")));
            }
            Some(target) => (
                format!("Alias {name} -> {target} is set to be added"),
                format!("Set email alias {name} -> {target}"),
            ),
            None => (format!("Alias {name} is set to be removed"), format!("Removed alias {name}")),
        };
        let new = hosts::with_mail_alias(old, name, self.target.as_deref());
        Ok(Edit::Change { new, would, did, changes: change("alias", name.as_str()) })
    }

    fn finish(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        // In a dry run there is no file to read.
        if !scene.is_dry() && scene.tools().which("newaliases").is_some() {
            scene.tools().tell("newaliases", &[] as &[&str])?;
        }
        Ok(())
    }

    fn resource(&self) -> Resource {
        Resource::Path("/etc/aliases".into())
    }
}

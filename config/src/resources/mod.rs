//! The pillar key `resources` in, declared resources out: what this node manages for other systems, by type and id.
//!
//! Law: a declaration is refused as a whole with every error in it, each with its pillar key and, where a word looks like a typing
//! error, the word that was meant (held by `every_error_of_a_declaration_names_its_key`).

mod ssh_host;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

pub use self::ssh_host::SshHost;

use crate::suggest::nearest;
use crate::value::{Map, Value, python_str};

/// Types that are part of zagent.
pub const BUILTIN_TYPES: [&str; 3] = ["dummy", "ssh", "chroot"];
/// Maximum length of an id or the name of a type, in bytes: it is also the name of a directory.
const MAX_NAME_BYTES: usize = 128;

/// A resource by type and id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// The type, such as `ssh`.
    pub kind: String,
    /// The id.
    pub id: String,
}

impl ResourceName {
    /// A name from its parts.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

/// What the declaration says about one resource, by type.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceConfig {
    /// A resource for tests and demonstrations; its state is a file.
    Dummy,
    /// A host that is reached over ssh.
    Ssh(Box<SshHost>),
    /// A directory that holds a whole system.
    Chroot(PathBuf),
    /// A resource of a type that an executable of the states repository provides; the declaration of the type.
    Custom(Value),
}

/// A declared resource.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredResource {
    /// Its type and id.
    pub name: ResourceName,
    /// What is declared about it.
    pub config: ResourceConfig,
}

/// A declared type of its own: its executable says which ids there are.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomType {
    /// The name of the type.
    pub kind: String,
    /// Its declaration.
    pub config: Value,
}

/// Everything that the pillar declares, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// The resources of built-in types.
    pub resources: Vec<DeclaredResource>,
    /// Types of their own.
    pub custom: Vec<CustomType>,
}

/// One error in a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pillar key `{key}`: {message}")]
pub struct DeclarationError {
    /// The pillar key, such as `resources:ssh:hosts:web-01`.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Declaration {
    /// Reads the declaration from a pillar. `key` is the pillar key, `custom` are the types that the states repository provides.
    ///
    /// # Errors
    /// Fails with every error.
    pub fn read(pillar: &Value, key: &str, custom: &[String]) -> Result<Self, Vec<DeclarationError>> {
        let mut reader = DeclarationReader { key, custom, declared: Self::default(), errors: Vec::new() };
        match pillar.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::Map(types)) => types.iter().for_each(|(kind, body)| reader.read_type(kind, body)),
            Some(other) => {
                let message = format!("it is {}, expected a mapping of resource types", other.kind());
                reader.report(key, message, Some("write `dummy: {resource_ids: [a, b]}` below it".into()));
            }
        }
        if reader.errors.is_empty() { Ok(reader.declared) } else { Err(reader.errors) }
    }
}

/// The ids that a pillar declares, by type, as far as they can be read: for `T@` in top files.
#[must_use]
pub fn declared_names(pillar: &Value, key: &str) -> Vec<(String, String)> {
    let Some(types) = pillar.get(key).and_then(Value::as_map) else { return Vec::new() };
    let mut all = Vec::new();
    for (kind, body) in types.iter() {
        let kind = python_str(kind);
        let list = body.get("resource_ids").and_then(Value::as_list);
        all.extend(list.into_iter().flat_map(|ids| ids.iter()).map(|id| (kind.clone(), python_str(id))));
        for key in ["hosts", "roots"] {
            let map = body.get(key).and_then(Value::as_map);
            all.extend(map.into_iter().flat_map(Map::keys).map(|id| (kind.clone(), python_str(id))));
        }
    }
    all
}

/// Why a text cannot be the id of a resource; `None` when it can.
#[must_use]
pub fn id_fault(id: &str) -> Option<&'static str> {
    let bad =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ',' | '(' | ')' | '*' | '?' | '[');
    match id {
        "" => Some("it is empty"),
        "." | ".." => Some("it is the name of a directory"),
        _ if id.len() > MAX_NAME_BYTES => Some("it is longer than 128 bytes"),
        _ if id.contains("_|-") => Some("it contains `_|-`, which separates the parts of a state key"),
        _ if id.starts_with('-') => Some("it starts with `-`"),
        _ if id.chars().any(bad) => Some("it contains white space, `/`, `,`, a parenthesis or a wildcard"),
        _ => None,
    }
}

struct DeclarationReader<'d> {
    key: &'d str,
    custom: &'d [String],
    declared: Declaration,
    errors: Vec<DeclarationError>,
}

impl DeclarationReader<'_> {
    fn report(&mut self, key: &str, message: String, hint: Option<String>) {
        self.errors.push(DeclarationError { key: key.to_owned(), message, hint });
    }

    fn read_type(&mut self, kind: &Value, body: &Value) {
        let kind = python_str(kind);
        let at = format!("{}:{kind}", self.key);
        match kind.as_str() {
            "dummy" => self.read_dummies(&at, body),
            "ssh" => self.read_members(&at, "hosts", body, "ssh"),
            "chroot" => self.read_members(&at, "roots", body, "chroot"),
            _ if self.custom.contains(&kind) => match id_fault(&kind) {
                None => self.declared.custom.push(CustomType { kind, config: body.clone() }),
                Some(why) => self.report(&at, format!("`{kind}` cannot be a resource type: {why}"), None),
            },
            _ => {
                let known = BUILTIN_TYPES.into_iter().chain(self.custom.iter().map(String::as_str));
                let hint = match nearest(&kind, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("provide it as an executable `_resources/{kind}` in the states repository")
                    }
                };
                self.report(&at, format!("unknown resource type `{kind}`"), Some(hint));
            }
        }
    }

    /// The body of a type; every other key than `known` is an error.
    fn type_body<'v>(&mut self, at: &str, known: &'static str, body: &'v Value) -> Option<&'v Value> {
        let Some(map) = body.as_map() else {
            if !body.is_null() {
                self.report(at, format!("it is {}, expected a mapping with `{known}`", body.kind()), None);
            }
            return None;
        };
        for key in map.keys().map(python_str).filter(|key| key != known) {
            let hint = nearest(&key, [known])
                .map_or_else(|| format!("it takes `{known}`"), |near| format!("did you mean `{near}`?"));
            self.report(&format!("{at}:{key}"), format!("unknown key `{key}`"), Some(hint));
        }
        map.get(known).filter(|value| !value.is_null())
    }

    fn read_dummies(&mut self, at: &str, body: &Value) {
        let Some(ids) = self.type_body(at, "resource_ids", body) else { return };
        let at = format!("{at}:resource_ids");
        let Some(ids) = ids.as_list() else {
            self.report(&at, format!("it is {}, expected a list of ids", ids.kind()), None);
            return;
        };
        let mut seen = BTreeSet::new();
        for id in ids.iter() {
            if matches!(id, Value::Map(_) | Value::List(_) | Value::Null) {
                self.report(&at, format!("an id is {}, expected text", id.kind()), None);
                continue;
            }
            let id = python_str(id);
            if !seen.insert(id.clone()) {
                self.report(&at, format!("the id `{id}` is listed twice"), None);
            } else if self.check_id(&at, &id) {
                self.add("dummy", id, ResourceConfig::Dummy);
            }
        }
    }

    fn read_members(&mut self, at: &str, known: &'static str, body: &Value, kind: &str) {
        let Some(members) = self.type_body(at, known, body) else { return };
        let at = format!("{at}:{known}");
        let Some(members) = members.as_map() else {
            self.report(&at, format!("it is {}, expected a mapping of ids", members.kind()), None);
            return;
        };
        for (id, body) in members.iter() {
            let id = python_str(id);
            let here = format!("{at}:{id}");
            if !self.check_id(&at, &id) {
                continue;
            }
            let config = match kind {
                "ssh" => self.read_ssh(&here, body),
                _ => self.read_root(&here, body),
            };
            if let Some(config) = config {
                self.add(kind, id, config);
            }
        }
    }

    fn read_ssh(&mut self, at: &str, body: &Value) -> Option<ResourceConfig> {
        let read = SshHost::read(body);
        let failed = read.is_err();
        match read {
            Ok(host) => return Some(ResourceConfig::Ssh(Box::new(host))),
            Err(faults) => {
                for fault in faults {
                    let key = fault.key.map_or_else(|| at.to_owned(), |key| format!("{at}:{key}"));
                    self.report(&key, fault.message, fault.hint);
                }
            }
        }
        debug_assert!(failed, "an error was reported");
        None
    }

    fn read_root(&mut self, at: &str, body: &Value) -> Option<ResourceConfig> {
        match body.as_str() {
            Some(path) if path.starts_with('/') && path.trim_end_matches('/').is_empty() => {
                let hint = "name the directory that holds the other system";
                self.report(at, "`/` is this node itself".into(), Some(hint.into()));
            }
            Some(path) if path.starts_with('/') => return Some(ResourceConfig::Chroot(path.into())),
            Some(path) => {
                self.report(
                    at,
                    format!("`{path}` is not an absolute path"),
                    Some("start it with `/`".into()),
                );
            }
            None => self.report(at, format!("it is {}, expected a directory", body.kind()), None),
        }
        None
    }

    fn check_id(&mut self, at: &str, id: &str) -> bool {
        let fault = id_fault(id);
        if let Some(why) = fault {
            self.report(at, format!("`{id}` cannot be the id of a resource: {why}"), None);
        }
        fault.is_none()
    }

    fn add(&mut self, kind: &str, id: String, config: ResourceConfig) {
        self.declared.resources.push(DeclaredResource { name: ResourceName::new(kind, id), config });
    }
}

#[cfg(test)]
mod tests;

//! Recorded hosts for the tests of this module: a directory of files and fixed answers of the kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use zagent_config::Value;

use super::system::{IpWithPrefix, NetInterface, ProcessIds, System, Uname};
use super::tree::FactsRoot;
use super::{FactSources, Facts, Grains};

/// What the kernel says on a recorded host.
#[derive(Clone, Default)]
pub(crate) struct FixedSystem {
    pub uname: Uname,
    pub interfaces: Vec<NetInterface>,
    pub process: ProcessIds,
    pub env: BTreeMap<String, String>,
}

impl System for FixedSystem {
    fn uname(&self) -> Uname {
        self.uname.clone()
    }

    fn interfaces(&self) -> Vec<NetInterface> {
        self.interfaces.clone()
    }

    fn process(&self) -> ProcessIds {
        self.process.clone()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.env.clone().into_iter().collect()
    }

    fn now(&self) -> SystemTime {
        // A day in July 2025, so that summer time shows.
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_752_000_000)
    }
}

/// A host made of files that a test writes.
pub(crate) struct FactsFixture {
    dir: TempDir,
    pub system: FixedSystem,
}

impl FactsFixture {
    pub(crate) fn new() -> Self {
        let uname = Uname {
            kernel: "Linux".into(),
            nodename: "web-01".into(),
            release: "6.1.0-37-amd64".into(),
            version: "#1 SMP Debian 6.1.140-1".into(),
            machine: "x86_64".into(),
        };
        Self { dir: tempfile::tempdir().unwrap(), system: FixedSystem { uname, ..FixedSystem::default() } }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    fn place(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.place(path), content).unwrap();
        self
    }

    pub(crate) fn files(self, files: &[(&str, &str)]) -> Self {
        files.iter().fold(self, |host, (path, content)| host.file(path, content))
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        std::fs::create_dir_all(self.path(path)).unwrap();
        self
    }

    pub(crate) fn link(self, path: &str, to: &str) -> Self {
        std::os::unix::fs::symlink(to, self.place(path)).unwrap();
        self
    }

    pub(crate) fn program(self, path: &str) -> Self {
        self.script(path, "#!/bin/sh\n")
    }

    pub(crate) fn script(self, path: &str, text: &str) -> Self {
        let host = self.file(path, text);
        std::fs::set_permissions(host.path(path), PermissionsExt::from_mode(0o755)).unwrap();
        host
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.system.env.insert(name.into(), value.into());
        self
    }

    pub(crate) fn interface(mut self, name: &str, hwaddr: &str, addresses: &[(&str, u32)]) -> Self {
        let addresses =
            addresses.iter().map(|(ip, prefix)| IpWithPrefix { ip: address(ip), prefix: *prefix });
        self.system.interfaces.push(NetInterface {
            name: name.into(),
            hwaddr: (!hwaddr.is_empty()).then(|| hwaddr.into()),
            addresses: addresses.collect(),
        });
        self
    }

    pub(crate) fn tree(&self) -> FactsRoot {
        FactsRoot::new(self.dir.path().to_owned())
    }

    pub(crate) fn sources(&self) -> FactSources {
        FactSources {
            root: self.dir.path().to_owned(),
            system: Box::new(self.system.clone()),
            facts_dir: None,
            ..FactSources::new(&crate::Machine::this_host(), "web-01", parse_plain_yaml)
        }
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::new(self.sources())
    }

    /// Asserts facts given as JSON; `null` means that there is no such fact.
    #[track_caller]
    pub(crate) fn expect(&self, wanted: &str) {
        let facts = self.facts();
        let wanted = Value::from_json_str(wanted).unwrap();
        for (name, want) in wanted.as_map().unwrap().iter() {
            let name = name.as_str().unwrap();
            assert_eq!(facts.get(name).unwrap_or(Value::Null), *want, "{name}");
        }
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// YAML without Salt's rules, which the compiler knows.
fn parse_plain_yaml(text: &str) -> Result<zagent_config::Value, String> {
    let yaml: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    Ok(to_value(&yaml))
}

fn to_value(yaml: &serde_yaml::Value) -> zagent_config::Value {
    use serde_yaml::Value as Yaml;
    match yaml {
        Yaml::Null | Yaml::Tagged(_) => zagent_config::Value::Null,
        Yaml::Bool(flag) => (*flag).into(),
        Yaml::Number(number) => number.as_i64().unwrap_or_default().into(),
        Yaml::String(text) => text.as_str().into(),
        Yaml::Sequence(items) => items.iter().map(to_value).collect(),
        Yaml::Mapping(map) => {
            let pairs = map.iter().map(|(key, value)| (to_value(key), to_value(value)));
            zagent_config::Map::from_iter(pairs).into()
        }
    }
}

//! A host in, facts under Salt's grain names out.
//!
//! The law: the facts of the system come from files and system calls alone, each group is collected once and only
//! when one of its names is asked for, and nothing here can wait for a network. Programs run only when an
//! administrator put them into the facts directory, and then within limits.
//!
//! # Why not resolve the host's name
//! A resolver can hang for as long as it likes and cannot be bounded from outside. `fqdn` is therefore what
//! `/etc/hosts` calls the host, else the host name with the first search domain of `resolv.conf`.
//!
//! # What is left out on purpose
//! `pythonpath`, `pythonexecutable`, `saltpath`, `zmqversion`, `package` and `ca_truststore` describe Salt's own
//! installation, which is not here. `saltversion` names the Salt that zagent is compatible with.

pub mod cpu;
pub mod custom;
pub mod devices;
pub(crate) mod hardware;
pub mod hosts;
pub mod init;
pub(crate) mod kernel;
pub mod network;
pub mod os;
pub mod process;
pub(crate) mod resolver;
mod root_system;
pub mod system;
#[cfg(test)]
pub mod testing;
pub mod tree;
pub(crate) mod virtualization;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use zagent_config::{Map, Value};

pub use custom::FactWarning;
pub use root_system::machine_system;
pub use system::{IpWithPrefix, NetInterface, System};

use crate::Machine;
use custom::CustomFacts;
use tree::FactsRoot;

/// Where facts of one's own are looked for when nothing else is said.
pub(crate) const FACTS_DIR: &str = zagent_config::paths::DEFAULT_FACTS_DIR;
/// How long one executable of the facts directory may run.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);
/// What the fact `master` says when nothing else is said, as in Salt.
pub(crate) const DEFAULT_MASTER: &str = "salt";

/// Facts of one host, by Salt's grain names.
pub trait Grains: Send + Sync {
    /// One fact.
    fn get(&self, name: &str) -> Option<Value>;

    /// All facts, as one mapping.
    fn all(&self) -> Value;

    /// Where a fact came from; `None` when there is no such fact.
    fn origin(&self, name: &str) -> Option<FactOrigin>;

    /// What went wrong with facts of one's own; it never keeps the other facts away.
    fn warnings(&self) -> Vec<FactWarning>;
}

/// Where a fact came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactOrigin {
    /// The system itself.
    System,
    /// A file of the facts directory.
    File(PathBuf),
    /// The `grains` of the configuration.
    Configuration,
    /// A recorded host.
    Recorded,
}

/// Reads a file of facts: YAML as states and pillars are read.
pub(crate) type ParseYaml = fn(&str) -> Result<Value, String>;

/// What facts are made from.
pub struct FactSources {
    /// The root of the host's files.
    pub root: PathBuf,
    /// The host's kernel.
    pub system: Box<dyn System>,
    /// The node's id.
    pub id: String,
    /// The fact `master`.
    pub master: String,
    /// The machine that the facts directory is on; it starts the executables there, or refuses to.
    pub machine: Machine,
    /// The directory of facts of one's own, as the machine sees it.
    pub facts_dir: Option<PathBuf>,
    /// Facts that the configuration gives; they win over all others.
    pub grains: Map,
    /// How long one executable of the facts directory may run.
    pub time_limit: Duration,
    /// Reads YAML.
    pub parse_yaml: ParseYaml,
}

impl FactSources {
    /// A machine with the default facts directory.
    pub fn new(machine: &Machine, id: impl Into<String>, parse_yaml: ParseYaml) -> Self {
        let root = if machine.is_this_host() { None } else { machine.to_host_path("/").ok() };
        Self {
            root: root.unwrap_or_else(|| PathBuf::from("/")),
            machine: machine.clone(),
            system: machine_system(machine),
            id: id.into(),
            master: DEFAULT_MASTER.into(),
            facts_dir: Some(FACTS_DIR.into()),
            grains: Map::new(),
            time_limit: TIME_LIMIT,
            parse_yaml,
        }
    }
}

/// Facts that belong together because they are read together.
struct FactGroup {
    names: &'static [&'static str],
    collect: fn(&Facts) -> Map,
}

/// All groups, in the order in which facts are listed.
const GROUPS: &[FactGroup] = &[
    FactGroup { names: process::ID, collect: process::id },
    FactGroup { names: kernel::NAMES, collect: kernel::collect },
    FactGroup { names: kernel::PARAMETERS, collect: kernel::parameters },
    FactGroup { names: os::NAMES, collect: os::collect },
    FactGroup { names: os::ARCH, collect: os::arch },
    FactGroup { names: init::NAMES, collect: init::collect },
    FactGroup { names: init::SYSTEMD, collect: init::systemd },
    FactGroup { names: init::SELINUX, collect: init::selinux },
    FactGroup { names: cpu::NAMES, collect: cpu::collect },
    FactGroup { names: cpu::MEMORY, collect: cpu::memory },
    FactGroup { names: virtualization::NAMES, collect: virtualization::collect },
    FactGroup { names: hardware::NAMES, collect: hardware::collect },
    FactGroup { names: hardware::MACHINE_ID, collect: hardware::machine_id },
    FactGroup { names: hardware::EFI, collect: hardware::efi },
    FactGroup { names: devices::GPUS, collect: devices::gpus },
    FactGroup { names: devices::DISKS, collect: devices::disks },
    FactGroup { names: devices::RAID, collect: devices::raid },
    FactGroup { names: devices::LVM, collect: devices::lvm },
    FactGroup { names: hosts::NAMES, collect: hosts::collect },
    FactGroup { names: hosts::ADDRESSES, collect: hosts::addresses },
    FactGroup { names: resolver::NAMES, collect: resolver::collect },
    FactGroup { names: network::NAMES, collect: network::collect },
    FactGroup { names: network::GATEWAYS, collect: network::gateways },
    FactGroup { names: process::NAMES, collect: process::collect },
    FactGroup { names: process::LOCALE, collect: process::locale },
    FactGroup { names: process::VERSIONS, collect: process::versions },
];

/// The facts of a host, collected when they are asked for.
pub struct Facts {
    sources: FactSources,
    tree: FactsRoot,
    groups: [OnceLock<Map>; GROUPS.len()],
    interfaces: OnceLock<Vec<NetInterface>>,
    cpuinfo: OnceLock<Vec<u8>>,
    custom: OnceLock<CustomFacts>,
    all: OnceLock<Value>,
}

impl Facts {
    /// Facts that nobody has asked for yet.
    #[must_use]
    pub fn new(sources: FactSources) -> Self {
        Self {
            tree: FactsRoot::new(sources.root.clone()),
            sources,
            groups: [const { OnceLock::new() }; GROUPS.len()],
            interfaces: OnceLock::new(),
            cpuinfo: OnceLock::new(),
            custom: OnceLock::new(),
            all: OnceLock::new(),
        }
    }

    fn group(&self, index: usize) -> &Map {
        self.groups[index].get_or_init(|| (GROUPS[index].collect)(self))
    }

    /// A fact of the system, whatever anybody put over it.
    fn system_fact(&self, name: &str) -> Option<&Value> {
        let index = GROUPS.iter().position(|g| g.names.contains(&name))?;
        self.group(index).get(name)
    }

    /// The text of a fact of the system; empty when there is none.
    fn system_text(&self, name: &str) -> &str {
        self.system_fact(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn interfaces(&self) -> &[NetInterface] {
        self.interfaces.get_or_init(|| self.sources.system.interfaces())
    }

    /// The start of `/proc/cpuinfo`, which the kernel is slow to write.
    fn cpuinfo(&self) -> &[u8] {
        self.cpuinfo.get_or_init(|| cpu::read_cpuinfo_head(&self.tree))
    }

    fn custom(&self) -> &CustomFacts {
        self.custom.get_or_init(|| CustomFacts::read(&self.sources))
    }

    fn merge_all(&self) -> Value {
        let mut all = Map::with_capacity(128);
        for index in 0..GROUPS.len() {
            for (name, value) in self.group(index).iter() {
                all.insert(name.clone(), value.clone());
            }
        }
        for (name, value) in self.custom().facts.iter() {
            all.insert(name.clone(), value.clone());
        }
        all.into()
    }
}

impl Grains for Facts {
    fn get(&self, name: &str) -> Option<Value> {
        self.custom().facts.get(name).or_else(|| self.system_fact(name)).cloned()
    }

    fn all(&self) -> Value {
        self.all.get_or_init(|| self.merge_all()).clone()
    }

    fn origin(&self, name: &str) -> Option<FactOrigin> {
        let own = self.custom().origins.get(name).cloned();
        own.or_else(|| self.system_fact(name).map(|_| FactOrigin::System))
    }

    fn warnings(&self) -> Vec<FactWarning> {
        self.custom().warnings.clone()
    }
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("id", &self.sources.id).field("root", &self.sources.root).finish()
    }
}

/// A list of texts.
fn string_list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Value {
    items.into_iter().map(|s| Value::from(s.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::testing::FactsFixture;
    use super::*;

    #[test]
    fn a_group_gives_only_names_it_promised_and_no_name_twice() {
        let facts = Facts::new(FactSources {
            facts_dir: None,
            ..FactSources::new(&Machine::this_host(), "web-01", |_| Ok(Value::Null))
        });
        let mut seen = std::collections::BTreeSet::new();
        for (index, group) in GROUPS.iter().enumerate() {
            for name in group.names {
                assert!(seen.insert(*name), "{name} is promised twice");
            }
            for name in facts.group(index).keys() {
                assert!(group.names.contains(&name.as_str().unwrap()), "{name:?} was not promised");
            }
        }
    }

    #[test]
    fn facts_are_collected_when_asked_for() {
        let facts = FactsFixture::new().facts();
        assert_eq!(facts.get("id"), Some("web-01".into()));
        let collected = facts.groups.iter().filter(|g| g.get().is_some()).count();
        assert_eq!(collected, 1);
        assert_eq!(facts.get("nonsense"), None);
        assert_eq!(facts.origin("nonsense"), None);
    }

    #[test]
    fn an_empty_tree_gives_facts_all_the_same() {
        let all = FactsFixture::new().facts().all();
        for name in ["id", "os", "os_family", "kernel", "num_cpus", "virtual", "fqdn", "dns", "init"] {
            assert!(name == "dns" || all.get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn this_machine_agrees_with_its_kernel() {
        let facts = Facts::new(FactSources {
            facts_dir: None,
            ..FactSources::new(&Machine::this_host(), "x", |_| Ok(Value::Null))
        });
        let cpus = std::thread::available_parallelism().unwrap().get();
        assert!(facts.get("num_cpus").unwrap().as_int() >= i64::try_from(cpus).ok());
        assert_eq!(facts.get("kernel"), Some("Linux".into()));
        assert_eq!(facts.get("pid"), Some(Value::Int(std::process::id().into())));
        let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
        assert_eq!(facts.get("localhost"), Some(host.into()));
        assert!(facts.get("mem_total").unwrap().as_int() > Some(0));
        assert!(facts.get("ip4_interfaces").unwrap().get("lo").is_some());
    }
}

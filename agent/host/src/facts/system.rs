//! System calls in, plain answers out: what the kernel says about the machine and this process.
//!
//! The law: no call here can wait for a network, so names are never resolved and user databases never asked.

#![expect(clippy::disallowed_methods, reason = "the owner of what facts read from the machine")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::SystemTime;

use nix::ifaddrs::InterfaceAddress;
use nix::sys::socket::SockaddrStorage;

/// What `uname` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uname {
    /// `Linux`.
    pub(crate) kernel: String,
    /// The host name.
    pub nodename: String,
    /// The release of the kernel.
    pub release: String,
    /// The build of the kernel.
    pub version: String,
    /// The architecture.
    pub machine: String,
}

/// One address of an interface and how many of its leading bits name the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpWithPrefix {
    /// The address.
    pub ip: IpAddr,
    /// The length of the network part.
    pub prefix: u32,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetInterface {
    /// Its name.
    pub name: String,
    /// Its hardware address, as `02:00:…`.
    pub hwaddr: Option<String>,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<IpWithPrefix>,
}

/// Who this process is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessIds {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// The process.
    pub pid: u32,
    /// Where it is.
    pub cwd: Option<PathBuf>,
}

/// The system calls that facts come from.
pub trait System: Send + Sync {
    /// Names and versions of the kernel.
    fn uname(&self) -> Uname;
    /// All interfaces, in the kernel's order.
    fn interfaces(&self) -> Vec<NetInterface>;
    /// Who this process is.
    fn process(&self) -> ProcessIds;
    /// A variable of the environment.
    fn env(&self, name: &str) -> Option<String>;
    /// All variables of the environment.
    fn environment(&self) -> Vec<(String, String)>;
    /// The time, for the name of the time zone.
    fn now(&self) -> SystemTime;
}

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveSystem;

impl System for LiveSystem {
    fn uname(&self) -> Uname {
        let uname = rustix::system::uname();
        let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
        Uname {
            kernel: text(uname.sysname()),
            nodename: text(uname.nodename()),
            release: text(uname.release()),
            version: text(uname.version()),
            machine: text(uname.machine()),
        }
    }

    fn interfaces(&self) -> Vec<NetInterface> {
        let mut interfaces = Vec::new();
        for entry in nix::ifaddrs::getifaddrs().into_iter().flatten() {
            add_address(&mut interfaces, &entry);
        }
        interfaces
    }

    fn process(&self) -> ProcessIds {
        ProcessIds {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: std::process::id(),
            cwd: std::env::current_dir().ok(),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|v| v.to_string_lossy().into_owned())
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

fn add_address(interfaces: &mut Vec<NetInterface>, entry: &InterfaceAddress) {
    // An address with a label of its own (`eth0:1`) belongs to the interface before the colon.
    let name = entry.interface_name.split(':').next().unwrap_or_default();
    let at = interfaces.iter().position(|i| i.name == name).unwrap_or_else(|| {
        interfaces.push(NetInterface { name: name.to_owned(), ..NetInterface::default() });
        interfaces.len() - 1
    });
    let Some(address) = &entry.address else { return };
    let interface = &mut interfaces[at];
    if let Some(link) = address.as_link_addr() {
        let mac = link.addr().filter(|_| link.halen() == 6);
        interface.hwaddr = mac.map(|m| {
            format!("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", m[0], m[1], m[2], m[3], m[4], m[5])
        });
    } else if let Some(ip) = ip_of(address) {
        let mask = entry.netmask.as_ref().and_then(ip_of);
        interface.addresses.push(IpWithPrefix { ip, prefix: prefix_of(mask, ip) });
    }
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

fn prefix_of(mask: Option<IpAddr>, ip: IpAddr) -> u32 {
    match (mask, ip) {
        (Some(IpAddr::V4(m)), _) => Ipv4Addr::to_bits(m).leading_ones(),
        (Some(IpAddr::V6(m)), _) => Ipv6Addr::to_bits(m).leading_ones(),
        (None, IpAddr::V4(_)) => 32,
        (None, IpAddr::V6(_)) => 128,
    }
}

//! Firmware tables, `/proc` and marker files into `virtual` and `virtual_subtype`.
//!
//! What Salt learns from `systemd-detect-virt` is read here from the same files; its own looks follow in its order.

use std::os::unix::fs::MetadataExt;

use memchr::memmem;
use zagent_config::Map;

use super::Facts;
use super::tree::FactsRoot;

pub(crate) const NAMES: &[&str] = &["virtual", "virtual_subtype"];

const DMI: &str = "/sys/class/dmi/id";
/// How firmware names the makers of virtual machines, and what `systemd-detect-virt` calls them.
const VENDORS: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
];

/// The two facts while they are being found.
#[derive(Debug, PartialEq, Eq)]
struct VirtKind {
    kind: String,
    subtype: Option<String>,
}

impl VirtKind {
    fn set(&mut self, kind: &str, subtype: Option<&str>) {
        self.kind = kind.to_owned();
        if let Some(subtype) = subtype {
            self.subtype = Some(subtype.to_owned());
        }
    }
}

/// What several of the looks below share.
struct VirtProbe<'a> {
    facts: &'a Facts,
    tree: &'a FactsRoot,
    environ: Vec<u8>,
    has_dmi: bool,
    product: String,
}

impl<'a> VirtProbe<'a> {
    fn new(facts: &'a Facts) -> Self {
        let tree = &facts.tree;
        let environ = tree.read_bytes("/proc/1/environ").unwrap_or_default();
        let mut probe = Self { facts, tree, environ, has_dmi: tree.exists(DMI), product: String::new() };
        probe.product = probe.dmi("product_name");
        probe
    }

    fn dmi(&self, file: &str) -> String {
        if !self.has_dmi {
            return String::new();
        }
        self.tree.read_line(&format!("{DMI}/{file}")).unwrap_or_default()
    }
}

pub(crate) fn collect(facts: &Facts) -> Map {
    let probe = VirtProbe::new(facts);
    let mut found = VirtKind { kind: "physical".into(), subtype: None };
    apply_detected(&probe, &mut found);
    chroot(&probe, &mut found);
    openvz(&probe, &mut found);
    xen(&probe, &mut found);
    product(&probe, &mut found);
    container(&probe, &mut found);
    if found.subtype.is_some() && found.kind == "physical" {
        found.kind = "virtual".into();
    }
    cloud(&probe, &mut found);
    let mut map = Map::from_iter([("virtual", found.kind)]);
    if let Some(subtype) = found.subtype {
        map.insert("virtual_subtype", subtype);
    }
    map
}

/// Containers before machines, as `systemd-detect-virt` answers.
fn apply_detected(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    let answer = container_manager(probe).or_else(|| detect_hypervisor(probe)).unwrap_or_default();
    match &*answer {
        "qemu" | "kvm" | "oracle" | "xen" | "bochs" | "uml" | "systemd-nspawn" => found.set(&answer, None),
        "vmware" => found.set("VMware", None),
        "microsoft" => found.set("VirtualPC", None),
        "amazon" => found.set("Nitro", Some("Amazon EC2")),
        "parallels" => found.set("Parallels", None),
        "bhyve" => found.set("bhyve", None),
        "podman" => found.set("container", Some("Podman")),
        "docker" => found.set("container", Some("Docker")),
        lxc if lxc.contains("lxc") => found.set("container", Some("LXC")),
        _ => {}
    }
}

fn container_manager(probe: &VirtProbe<'_>) -> Option<String> {
    let named = ["/run/host/container-manager", "/run/systemd/container"];
    let named = named.iter().find_map(|path| probe.tree.read_line(path).filter(|l| !l.is_empty()));
    let name = named.or_else(|| {
        let value = probe.environ.split(|b| *b == 0).find_map(|v| v.strip_prefix(b"container="))?;
        Some(String::from_utf8_lossy(value).into_owned()).filter(|v| !v.is_empty())
    });
    match name {
        // The runtime did not say who it is; its marker file may.
        Some(name) if name != "oci" => Some(name),
        _ if probe.tree.exists("/run/.containerenv") => Some("podman".into()),
        _ if probe.tree.exists("/.dockerenv") => Some("docker".into()),
        name => name,
    }
}

fn detect_hypervisor(probe: &VirtProbe<'_>) -> Option<String> {
    let firmware = firmware(probe);
    if let Some(sure @ ("oracle" | "xen" | "amazon" | "parallels")) = firmware {
        return Some(sure.into());
    }
    if memmem::find(probe.facts.cpuinfo(), b"User Mode Linux").is_some() {
        return Some("uml".into());
    }
    // The processor would name the hypervisor, but asking it takes an instruction and not a file; the clocks that
    // the kernel offers name it as well.
    let clocks = probe.tree.read_text("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    let clocks = clocks.unwrap_or_default();
    let by_clock = [("kvm-clock", "kvm"), ("hyperv", "microsoft")];
    let by_clock = by_clock.iter().find(|(clock, _)| clocks.contains(clock)).map(|(_, name)| *name);
    let by_type = || probe.tree.read_line("/sys/hypervisor/type").filter(|t| t == "xen");
    by_clock.or(firmware).map(str::to_owned).or_else(by_type).or_else(|| device_tree(probe))
}

fn firmware(probe: &VirtProbe<'_>) -> Option<&'static str> {
    let files = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];
    files.iter().find_map(|file| {
        let text = probe.dmi(file);
        VENDORS.iter().find(|(vendor, _)| text.starts_with(vendor)).map(|(_, name)| *name)
    })
}

fn device_tree(probe: &VirtProbe<'_>) -> Option<String> {
    let compatible = probe.tree.read_text("/proc/device-tree/hypervisor/compatible")?;
    ["kvm", "xen", "vmware"].iter().find(|name| compatible.contains(*name)).map(|name| (*name).to_owned())
}

fn chroot(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    let place = |path| probe.tree.metadata(path).map(|m| (m.dev(), m.ino()));
    if let (Some(own), Some(init)) = (place("/"), place("/proc/1/root/."))
        && own != init
    {
        found.subtype = Some("chroot".into());
    }
}

fn openvz(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    if !probe.tree.is_dir("/proc/vz") {
        return;
    }
    if probe.tree.exists("/proc/vz/version") {
        found.kind = "openvzhn".into();
    } else if probe.tree.exists("/proc/vz/veinfo") {
        found.kind = "openvzve".into();
    }
    let status = probe.tree.read_text("/proc/self/status").unwrap_or_default();
    let id = status.lines().find_map(|l| l.strip_prefix("envID:")?.trim().parse::<u64>().ok());
    match id {
        Some(0) => found.kind = "openvzhn".into(),
        Some(_) => found.kind = "openvzve".into(),
        None => {}
    }
}

fn xen(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    if !["/proc/sys/xen", "/sys/bus/xen", "/proc/xen"].iter().any(|dir| probe.tree.is_dir(dir)) {
        return;
    }
    let capabilities = probe.tree.read_text("/proc/xen/capabilities");
    let subtype = if probe.tree.exists("/proc/xen/xsd_kva") {
        Some("Xen Dom0")
    } else if probe.product == "HVM domU" {
        Some("Xen HVM DomU")
    } else if let Some(capabilities) = capabilities {
        Some(if capabilities.contains("control_d") { "Xen Dom0" } else { "Xen PV DomU" })
    } else {
        probe.tree.is_dir("/sys/bus/xen/drivers/xenconsole").then_some("Xen PV DomU")
    };
    if let Some(subtype) = subtype {
        found.set("xen", Some(subtype));
    }
}

fn product(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    if memmem::find(probe.facts.cpuinfo(), b"QEMU Virtual CPU").is_some() {
        found.kind = "kvm".into();
    }
    let name = &probe.product;
    if name.contains("VirtualBox") {
        found.set("VirtualBox", None);
    } else if name.contains("RHEV Hypervisor") {
        found.set("kvm", Some("rhev"));
    } else if name.contains("oVirt Node") {
        found.set("kvm", Some("ovirt"));
    } else if name.contains("Google") {
        found.set("gce", None);
    } else if name.contains("BHYVE") {
        found.set("bhyve", None);
    }
}

fn container(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    let groups = probe.tree.read_text("/proc/1/cgroup").unwrap_or_default();
    let has = |part: &str| groups.contains(part);
    if has(":/lxc/") {
        found.set("container", Some("LXC"));
    } else if has(":/kubepods/") {
        found.subtype = Some("kubernetes".into());
    } else if has(":/libpod_parent/") {
        found.subtype = Some("libpod".into());
    } else if [":/system.slice/docker", ":/docker/", ":/docker-ce/"].into_iter().any(has) {
        found.set("container", Some("Docker"));
    }
    if memmem::find(&probe.environ, b"container=lxc").is_some() {
        found.set("container", Some("LXC"));
    }
}

fn cloud(probe: &VirtProbe<'_>, found: &mut VirtKind) {
    if !matches!(&*found.kind, "qemu" | "kvm" | "xen" | "amazon" | "Nitro") {
        return;
    }
    let (vendor, product) = (probe.dmi("sys_vendor"), &probe.product);
    if vendor == "Amazon EC2" {
        if found.kind != "xen" {
            found.kind = "Nitro".into();
        }
        let named = if product.is_empty() { vendor } else { format!("{vendor} ({product})") };
        found.subtype = Some(named);
    } else if probe.dmi("product_version").contains(".amazon") {
        found.subtype = Some("Amazon EC2".into());
    } else if vendor == "Nutanix" && product == "AHV" {
        found.subtype = Some("Nutanix AHV".into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;

    const PRODUCT: &str = "/sys/class/dmi/id/product_name";
    const VENDOR: &str = "/sys/class/dmi/id/sys_vendor";
    const VERSION: &str = "/sys/class/dmi/id/product_version";
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

    /// Files of a host, and the two facts that they make.
    type Case = (&'static [(&'static str, &'static str)], &'static str, Option<&'static str>);

    const CASES: &[Case] = &[
        (&[(PRODUCT, "PowerEdge R740\n"), (VENDOR, "Dell Inc.\n")], "physical", None),
        (&[], "physical", None),
        (
            &[(PRODUCT, "Standard PC (Q35 + ICH9, 2009)\n"), (VENDOR, "QEMU\n"), (CLOCK, "kvm-clock tsc\n")],
            "kvm",
            None,
        ),
        (&[(PRODUCT, "Standard PC\n"), (VENDOR, "QEMU\n"), (CLOCK, "tsc hpet\n")], "qemu", None),
        (&[(PRODUCT, "VMware Virtual Platform\n"), (VENDOR, "VMware, Inc.\n")], "VMware", None),
        (
            &[(PRODUCT, "VirtualBox\n"), (VENDOR, "innotek GmbH\n"), (CLOCK, "kvm-clock\n")],
            "VirtualBox",
            None,
        ),
        (&[(PRODUCT, "Virtual Machine\n"), (CLOCK, "hyperv_clocksource_tsc_page\n")], "VirtualPC", None),
        (
            &[(PRODUCT, "m5.large\n"), (VENDOR, "Amazon EC2\n"), (CLOCK, "kvm-clock\n")],
            "Nitro",
            Some("Amazon EC2 (m5.large)"),
        ),
        (
            &[(PRODUCT, "HVM domU\n"), (VENDOR, "Xen\n"), (VERSION, "4.2.amazon\n"), ("/sys/bus/xen/x", "")],
            "xen",
            Some("Amazon EC2"),
        ),
        (
            &[(PRODUCT, "HVM domU\n"), (VENDOR, "Xen\n"), ("/proc/xen/capabilities", "")],
            "xen",
            Some("Xen HVM DomU"),
        ),
        (&[("/proc/xen/capabilities", "control_d\n")], "xen", Some("Xen Dom0")),
        (&[("/proc/xen/capabilities", "")], "xen", Some("Xen PV DomU")),
        (&[(PRODUCT, "Google Compute Engine\n"), (VENDOR, "Google\n"), (CLOCK, "kvm-clock\n")], "gce", None),
        (&[(PRODUCT, "AHV\n"), (VENDOR, "Nutanix\n"), (CLOCK, "kvm-clock\n")], "kvm", Some("Nutanix AHV")),
        (&[(PRODUCT, "oVirt Node\n"), (CLOCK, "kvm-clock\n")], "kvm", Some("ovirt")),
        (&[("/.dockerenv", ""), (CLOCK, "kvm-clock\n")], "container", Some("Docker")),
        (&[("/run/.containerenv", ""), ("/proc/1/environ", "container=oci\0")], "container", Some("Podman")),
        (&[("/run/systemd/container", "systemd-nspawn\n")], "systemd-nspawn", None),
        (&[("/proc/1/environ", "A=b\0container=lxc\0")], "container", Some("LXC")),
        (&[("/proc/1/cgroup", "0::/lxc/c1\n")], "container", Some("LXC")),
        (&[("/proc/1/cgroup", "0::/kubepods/x\n")], "virtual", Some("kubernetes")),
        (&[("/proc/1/cgroup", "1:name=systemd:/docker/abc\n")], "container", Some("Docker")),
        (&[("/proc/vz/veinfo", ""), ("/proc/self/status", "envID:\t101\n")], "openvzve", None),
        (&[("/proc/device-tree/hypervisor/compatible", "linux,kvm\0")], "kvm", None),
        (&[("/proc/cpuinfo", "model name : QEMU Virtual CPU version 2.5+\n")], "kvm", None),
        (&[("/proc/1/root/x", "")], "virtual", Some("chroot")),
    ];

    #[test]
    fn hosts_of_many_kinds() {
        for (files, kind, subtype) in CASES {
            let subtype = subtype.map_or("null".into(), |s| format!("\"{s}\""));
            println!("{files:?}");
            FactsFixture::new()
                .files(files)
                .expect(&format!(r#"{{"virtual": "{kind}", "virtual_subtype": {subtype}}}"#));
        }
    }
}

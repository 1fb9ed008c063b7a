//! dnf, and those that take its words: yum, tdnf, microdnf.

use zagent_compiler::functions::Refusal;

use super::{Act, Db, Group, Offer, Offers, Options, Provider, Step, db, words};
use crate::host::{Machine, Tools};

pub(super) struct Dnf;

/// Where rpm keeps its database, by age.
pub(super) const RPM: [&str; 5] = [
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite-wal",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/rpm/rpmdb.sqlite-wal",
    "/var/lib/rpm/Packages",
];

impl Provider for Dnf {
    fn name(&self) -> &'static str {
        "dnf"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["yumpkg", "yum", "tdnf", "microdnf", "dnf5"]
    }

    fn kin(&self) -> &'static [&'static str] {
        &["fedora", "rhel", "centos", "amzn"]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["dnf", "yum", "tdnf", "microdnf"]
    }

    fn witnesses(&self) -> &'static [&'static str] {
        &RPM
    }

    fn locks(&self) -> &'static [&'static str] {
        &[
            "/etc/dnf/plugins/versionlock.list",
            "/etc/yum/pluginconf.d/versionlock.list",
            "/etc/dnf/versionlock.toml",
        ]
    }

    fn read(&self, machine: &Machine) -> Result<Db, Refusal> {
        read_rpm(machine, self.locks(), db::dnf_locks)
    }

    fn lines(&self, program: &str, act: &Act<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![line(program, act)])
    }

    fn rehearsal(&self, program: &str, act: &Act<'_>) -> Option<Vec<String>> {
        let mut line = line(program, act);
        line[1] = "--assumeno".into();
        Some(line)
    }

    fn steps(&self, said: &str) -> Vec<Step> {
        steps(said)
    }

    fn offers(&self, tools: &Tools<'_>, names: &[String], options: &Options) -> Result<Offers, Refusal> {
        let mut line = words(&["-q"]);
        line.extend(repos(options));
        line.extend(words(&["list", "--showduplicates", "available"]));
        line.extend(names.iter().cloned());
        let program = self.programs().iter().find(|p| tools.which(p).is_some()).unwrap_or(&"dnf");
        // It ends with 1 when it knows none of them.
        Ok(listed(&tools.ask(program, &line)?.out, self))
    }

    fn groups(&self, tools: &Tools<'_>) -> Result<Group, Refusal> {
        let said = tools.ask("dnf", &["-q", "group", "list", "--hidden"])?;
        Ok(sections(&said.out, &GROUPS))
    }

    fn group(&self, tools: &Tools<'_>, name: &str) -> Result<Group, Refusal> {
        let said = tools.ask("dnf", &["-q", "group", "info", name])?;
        let group = sections(&said.out, &MEMBERS);
        if group.is_empty() {
            return Err(Refusal::failed(format!("Group '{name}' not found")));
        }
        Ok(MEMBERS.into_iter().map(|(_, k)| (k, group.get(k).cloned().unwrap_or_default())).collect())
    }
}

/// How headlines of a list of groups begin, and what stands below.
pub(super) const GROUPS: [(&str, &str); 2] =
    [("installed groups", "installed"), ("available groups", "available")];
/// The same for one group.
pub(super) const MEMBERS: [(&str, &str); 4] = [
    ("mandatory", "mandatory"),
    ("default", "default"),
    ("optional", "optional"),
    ("conditional", "conditional"),
];

/// All that rpm has installed, and what these files keep at its version.
pub(super) fn read_rpm(
    machine: &Machine,
    files: &[&str],
    locks: fn(&str) -> Vec<String>,
) -> Result<Db, Refusal> {
    let rpm = machine.which("rpm").filter(|_| machine.is_own());
    let rpm = rpm.ok_or_else(|| Refusal::failed("`rpm` is not on this host"))?;
    let out = machine.look(&rpm, &["-qa", "--qf", db::RPM_FORMAT])?;
    if out.code() != 0 {
        let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        return Err(Refusal::failed(format!("`rpm -qa` ended with code {}: {words}", out.code())));
    }
    let mut db = db::rpm(&String::from_utf8_lossy(&out.stdout), std::env::consts::ARCH);
    for file in files {
        locks(&machine.read(file)?.unwrap_or_default()).iter().for_each(|pattern| db.hold(pattern));
    }
    Ok(db)
}

fn repos(options: &Options) -> Vec<String> {
    let mut line = Vec::new();
    if let Some(repo) = &options.fromrepo {
        line.extend(["--disablerepo=*".to_owned(), format!("--enablerepo={repo}")]);
    }
    line.extend(options.disablerepo.iter().map(|r| format!("--disablerepo={r}")));
    line.extend(options.enablerepo.iter().map(|r| format!("--enablerepo={r}")));
    line.extend(options.disable_excludes.iter().map(|r| format!("--disableexcludes={r}")));
    if options.skip_verify {
        line.push("--nogpgcheck".into());
    }
    if let Some(recommends) = options.recommends {
        line.push(format!("--setopt=install_weak_deps={recommends}"));
    }
    if options.download {
        line.push("--downloadonly".into());
    }
    line
}

fn line(program: &str, act: &Act<'_>) -> Vec<String> {
    let mut line = words(&[program, "-y"]);
    match act {
        Act::Refresh => line.extend(words(&["-q", "makecache", "--refresh"])),
        Act::Install(targets, options) => {
            line.extend(repos(options));
            // To install what is there in an older version does nothing, unless the best is asked for.
            line.extend((options.newest && program == "dnf").then(|| "--best".to_owned()));
            let verb = match options {
                o if o.reinstall => "reinstall",
                o if o.downgrade => "downgrade",
                o if o.only_upgrade => "upgrade",
                _ => "install",
            };
            line.push(verb.into());
            line.extend(targets.iter().map(|t| t.text("-")));
        }
        Act::Upgrade(names, options) => {
            line.extend(repos(options));
            line.push("upgrade".into());
            line.extend(names.iter().cloned());
        }
        Act::Remove(names, _) => {
            line.push("remove".into());
            line.extend(names.iter().cloned());
        }
        Act::Hold(names) => {
            line.extend(words(&["versionlock", "add"]));
            line.extend(names.iter().cloned());
        }
        Act::Unhold(names) => {
            line.extend(words(&["versionlock", "delete"]));
            line.extend(names.iter().cloned());
        }
        Act::Autoremove(_) => line.push("autoremove".into()),
    }
    line
}

/// The table of a transaction: ` vim-enhanced  x86_64  2:9.0-1.fc38  updates  2.0 M` below `Installing:`.
fn steps(said: &str) -> Vec<Step> {
    let mut comes = None;
    let mut all = Vec::new();
    for line in said.lines() {
        if !line.starts_with(' ') {
            let heads = ["Installing", "Upgrading", "Reinstalling", "Downgrading"];
            comes = match line {
                l if heads.iter().any(|h| l.starts_with(h)) => Some(true),
                l if l.starts_with("Removing") => Some(false),
                _ => None,
            };
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let (Some(comes), [name, _, version, _, ..]) = (comes, &words[..])
            && *name != "replacing"
        {
            let version = version.strip_prefix("0:").unwrap_or(version).to_owned();
            let (old, new) = if comes { (String::new(), version) } else { (version, String::new()) };
            all.push(Step { name: (*name).to_owned(), old, new });
        }
    }
    all
}

/// Indented names below headlines such as ` Mandatory Packages:`; a line that ends with a colon is a headline.
pub(super) fn sections(said: &str, kinds: &[(&'static str, &'static str)]) -> Group {
    let mut all = Group::new();
    let mut current = None;
    for line in said.lines() {
        let word = line.trim();
        if let Some(head) = word.strip_suffix(':') {
            let head = head.to_lowercase();
            let is_it = |(prefix, _): &&(&str, &str)| head.starts_with(prefix);
            current = kinds.iter().find(is_it).map(|(_, kind)| *kind);
        } else if let Some(kind) = current.filter(|_| !word.is_empty() && line.starts_with(' ')) {
            all.entry(kind).or_default().push(word.trim_start_matches(['+', '-', '=']).to_owned());
        }
    }
    all
}

/// Lines of `name.arch  version  repository`; the newest is the one that would come.
pub(super) fn listed(said: &str, provider: &dyn Provider) -> Offers {
    let mut all = Offers::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [full, version, _] = words[..] else { continue };
        let Some((name, _)) = full.rsplit_once('.') else { continue };
        let offer: &mut Offer = all.entry(name.to_owned()).or_default();
        offer.versions.push(version.strip_prefix("0:").unwrap_or(version).to_owned());
    }
    for offer in all.values_mut() {
        offer.versions.sort_by(|a, b| provider.scheme().compare(b, a));
        offer.candidate = offer.versions.first().cloned().unwrap_or_default();
    }
    all
}

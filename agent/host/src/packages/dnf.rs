//! dnf, and those that take its words: yum, tdnf, microdnf.

use zagent_config::FunctionError;

use super::{
    AvailablePkg, AvailablePkgs, FileVersionCommand, PkgAction, PkgActionOptions, PkgChange, PkgDb,
    PkgGroups, PkgProvider, db, rpm, to_strings,
};
use crate::{Machine, Tools};
use zagent_config::sorted::CollectSorted;

pub(crate) struct Dnf;

/// Where rpm keeps its database, by age.
pub(crate) const RPM_DB_FILES: [&str; 5] = [
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite-wal",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/rpm/rpmdb.sqlite-wal",
    "/var/lib/rpm/Packages",
];

impl PkgProvider for Dnf {
    fn name(&self) -> &'static str {
        "dnf"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["yumpkg", "yum", "tdnf", "microdnf", "dnf5"]
    }

    fn os_ids(&self) -> &'static [&'static str] {
        &["fedora", "rhel", "centos", "amzn"]
    }

    fn program_names(&self) -> &'static [&'static str] {
        &["dnf", "yum", "tdnf", "microdnf"]
    }

    fn database_files(&self) -> &'static [&'static str] {
        &RPM_DB_FILES
    }

    fn hold_files(&self) -> &'static [&'static str] {
        &[
            "/etc/dnf/plugins/versionlock.list",
            "/etc/yum/pluginconf.d/versionlock.list",
            "/etc/dnf/versionlock.toml",
        ]
    }

    fn read_db(&self, machine: &Machine) -> Result<PkgDb, FunctionError> {
        read_rpm_db(machine, self.hold_files(), db::parse_dnf_locks)
    }

    fn command_lines(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![command_line(program, action)])
    }

    fn dry_run_command(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
        let mut line = command_line(program, action);
        line[1] = "--assumeno".into();
        Some(line)
    }

    fn parse_dry_run(&self, output: &str) -> Vec<PkgChange> {
        parse_transaction(output)
    }

    fn query_available(
        &self,
        tools: &Tools<'_>,
        names: &[String],
        options: &PkgActionOptions,
    ) -> Result<AvailablePkgs, FunctionError> {
        let mut line = to_strings(&["-q"]);
        line.extend(repo_flags(options));
        line.extend(to_strings(&["list", "--showduplicates", "available"]));
        line.extend(names.iter().cloned());
        let program = self.program_names().iter().find(|p| tools.which(p).is_some()).unwrap_or(&"dnf");
        // It ends with 1 when it knows none of them.
        Ok(parse_pkg_list(&tools.run_query(program, &line)?.stdout, self))
    }

    fn list_groups(&self, tools: &Tools<'_>) -> Result<PkgGroups, FunctionError> {
        let output = tools.run_query("dnf", &["-q", "group", "list", "--hidden"])?;
        Ok(parse_sections(&output.stdout, &GROUP_HEADINGS))
    }

    fn group_members(&self, tools: &Tools<'_>, name: &str) -> Result<PkgGroups, FunctionError> {
        let output = tools.run_query("dnf", &["-q", "group", "info", name])?;
        let group = parse_sections(&output.stdout, &MEMBER_HEADINGS);
        if group.is_empty() {
            return Err(FunctionError::failed(format!("Group '{name}' not found")));
        }
        Ok(MEMBER_HEADINGS
            .into_iter()
            .map(|(_, k)| (k, group.get(k).cloned().unwrap_or_default()))
            .into_map())
    }

    fn os_family(&self) -> &'static str {
        "RedHat"
    }

    fn file_owner(&self, machine: &Machine, path: &str) -> Result<String, FunctionError> {
        rpm::file_owner(machine, path)
    }

    fn package_files(&self, machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
        rpm::package_files(machine, name)
    }

    fn providing_package(&self, tools: &Tools<'_>, name: &str) -> Result<Option<String>, FunctionError> {
        rpm::providing_package(tools, name)
    }

    fn file_version_command(&self, _: &Tools<'_>) -> Option<FileVersionCommand> {
        Some(rpm::file_version_command)
    }

    fn verify_command(&self, names: &[String], options: &[String]) -> Option<Vec<String>> {
        Some(rpm::verify_command(names, options))
    }
}

/// How headlines of a list of groups begin, and what stands below.
pub(crate) const GROUP_HEADINGS: [(&str, &str); 2] =
    [("installed groups", "installed"), ("available groups", "available")];
/// The same for one group.
pub(crate) const MEMBER_HEADINGS: [(&str, &str); 4] = [
    ("mandatory", "mandatory"),
    ("default", "default"),
    ("optional", "optional"),
    ("conditional", "conditional"),
];

/// All that rpm has installed, and what these files keep at its version.
pub(crate) fn read_rpm_db(
    machine: &Machine,
    files: &[&str],
    locks: fn(&str) -> Vec<String>,
) -> Result<PkgDb, FunctionError> {
    let rpm = machine.which("rpm").filter(|_| machine.is_this_host());
    let rpm = rpm.ok_or_else(|| FunctionError::failed("`rpm` is not on this host"))?;
    let out = machine.run_query(&rpm, &["-qa", "--qf", db::RPM_FORMAT])?;
    if out.shell_code() != 0 {
        let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        return Err(FunctionError::failed(format!(
            "`rpm -qa` ended with code {}: {words}",
            out.shell_code()
        )));
    }
    let mut db = db::parse_rpm_list(&String::from_utf8_lossy(&out.stdout), std::env::consts::ARCH);
    for file in files {
        locks(&machine.read(file)?.unwrap_or_default()).iter().for_each(|pattern| db.mark_held(pattern));
    }
    Ok(db)
}

fn repo_flags(options: &PkgActionOptions) -> Vec<String> {
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
    if options.download_only {
        line.push("--downloadonly".into());
    }
    line
}

fn command_line(program: &str, action: &PkgAction<'_>) -> Vec<String> {
    let mut line = to_strings(&[program, "-y"]);
    match action {
        PkgAction::Refresh => line.extend(to_strings(&["-q", "makecache", "--refresh"])),
        PkgAction::Install(targets, options) => {
            line.extend(repo_flags(options));
            // To install what is there in an older version does nothing, unless the best is asked for.
            line.extend((options.upgrade_installed && program == "dnf").then(|| "--best".to_owned()));
            let verb = match options {
                o if o.reinstall => "reinstall",
                o if o.downgrade => "downgrade",
                o if o.only_upgrade => "upgrade",
                _ => "install",
            };
            line.push(verb.into());
            line.extend(targets.iter().map(|t| t.spec("-")));
        }
        PkgAction::Upgrade(names, options) => {
            line.extend(repo_flags(options));
            line.push("upgrade".into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Remove(names, _) => {
            line.push("remove".into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Hold(names) => {
            line.extend(to_strings(&["versionlock", "add"]));
            line.extend(names.iter().cloned());
        }
        PkgAction::Unhold(names) => {
            line.extend(to_strings(&["versionlock", "delete"]));
            line.extend(names.iter().cloned());
        }
        PkgAction::Autoremove(_) => line.push("autoremove".into()),
    }
    line
}

/// The table of a transaction: ` vim-enhanced  x86_64  2:9.0-1.fc38  updates  2.0 M` below `Installing:`.
fn parse_transaction(output: &str) -> Vec<PkgChange> {
    let mut comes = None;
    let mut all = Vec::new();
    for line in output.lines() {
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
            all.push(PkgChange { name: (*name).to_owned(), old, new });
        }
    }
    all
}

/// Indented names below headlines such as ` Mandatory Packages:`; a line that ends with a colon is a headline.
pub(crate) fn parse_sections(output: &str, kinds: &[(&'static str, &'static str)]) -> PkgGroups {
    let mut all = PkgGroups::new();
    let mut current = None;
    for line in output.lines() {
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
pub(crate) fn parse_pkg_list(output: &str, provider: &dyn PkgProvider) -> AvailablePkgs {
    let mut all = AvailablePkgs::new();
    for line in output.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [full, version, _] = words[..] else { continue };
        let Some((name, _)) = full.rsplit_once('.') else { continue };
        let offer: &mut AvailablePkg = all.entry(name.to_owned()).or_default();
        offer.versions.push(version.strip_prefix("0:").unwrap_or(version).to_owned());
    }
    for offer in all.values_mut() {
        zagent_config::sorted::sort_by(&mut offer.versions, |a, b| provider.version_scheme().compare(b, a));
        offer.candidate = offer.versions.first().cloned().unwrap_or_default();
    }
    all
}

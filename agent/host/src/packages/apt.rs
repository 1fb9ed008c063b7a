//! apt and dpkg: Debian, Ubuntu and what derives from them.
//!
//! Law: modified configuration files are kept unless the state says otherwise, and apt never prompts (held by
//! `managers_are_told_in_their_words`).

use zagent_config::FunctionError;
use zagent_config::pkg_version::VersionScheme;

use super::{
    AvailablePkg, AvailablePkgs, FileVersionCommand, PkgAction, PkgActionOptions, PkgChange, PkgDb,
    PkgProvider, db, dpkg, to_strings,
};
use crate::{Machine, Tools};

pub(crate) struct Apt;

const DPKG_STATUS: &str = "/var/lib/dpkg/status";
const APT_LISTS: &str = "/var/lib/apt/lists";

/// Looks without a trace: apt would keep a log of what it planned, also of what it only simulates.
pub(super) const SIMULATE: [&str; 3] = ["-s", "-o", "Dir::Log::Planner=/dev/null"];

impl PkgProvider for Apt {
    fn name(&self) -> &'static str {
        "apt"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["aptpkg", "apt-get", "dpkg"]
    }

    fn os_ids(&self) -> &'static [&'static str] {
        &["debian", "ubuntu"]
    }

    fn program_names(&self) -> &'static [&'static str] {
        &["apt-get"]
    }

    fn version_scheme(&self) -> VersionScheme {
        VersionScheme::Debian
    }

    fn database_files(&self) -> &'static [&'static str] {
        &[DPKG_STATUS]
    }

    fn read_db(&self, machine: &Machine) -> Result<PkgDb, FunctionError> {
        let status = machine.read(DPKG_STATUS)?.unwrap_or_default();
        let native = machine.read("/var/lib/dpkg/arch-native")?.map(|t| t.trim().to_owned());
        Ok(db::parse_dpkg_status(&status, native.as_deref().filter(|t| !t.is_empty())))
    }

    fn command_lines(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<Vec<String>>> {
        let mark = |how: &str, names: &[String]| {
            let mut line = to_strings(&["apt-mark", how]);
            line.extend(names.iter().cloned());
            Some(vec![line])
        };
        match action {
            PkgAction::Hold(names) => mark("hold", names),
            PkgAction::Unhold(names) => mark("unhold", names),
            _ => Some(vec![command_line(program, action)]),
        }
    }

    fn dry_run_command(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
        let mut line = command_line(program, action);
        line.splice(1..1, to_strings(&SIMULATE));
        Some(line)
    }

    fn parse_dry_run(&self, output: &str) -> Vec<PkgChange> {
        output.lines().filter_map(parse_step).collect()
    }

    fn query_available(
        &self,
        tools: &Tools<'_>,
        names: &[String],
        options: &PkgActionOptions,
    ) -> Result<AvailablePkgs, FunctionError> {
        let mut line = to_strings(&["-q", "policy"]);
        if let Some(release) = &options.fromrepo {
            line.extend(["-o".into(), format!("APT::Default-Release={release}")]);
        }
        line.push("--".into());
        line.extend(names.iter().cloned());
        let output = tools.run_query("apt-cache", &line)?;
        if !output.is_success() {
            return Err(FunctionError::failed(super::runner::failure_summary("apt-cache", &output)));
        }
        Ok(parse_policy(&output.stdout))
    }

    fn needs_refresh(&self, machine: &Machine) -> bool {
        !machine.list_dir(APT_LISTS).iter().any(|n| n.contains("_Packages") || n.contains("_InRelease"))
    }

    fn find_broken(&self, machine: &Machine, db: &PkgDb) -> Vec<String> {
        let mut broken: Vec<String> = db
            .packages
            .iter()
            .filter_map(|(name, pack)| Some(format!("{name} ({})", pack.broken_state.as_ref()?)))
            .collect();
        // dpkg writes what it does there, and clears it when it ends well.
        let journal = machine.list_dir("/var/lib/dpkg/updates");
        if broken.is_empty() && journal.iter().any(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            broken.push("dpkg (interrupted)".into());
        }
        broken
    }

    fn repair_commands(&self) -> Vec<Vec<String>> {
        let mut fix = to_strings(&["apt-get", "-q", "-y"]);
        fix.extend(conffile_options(false));
        fix.extend(to_strings(&["-f", "install"]));
        vec![to_strings(&["dpkg", "--force-confold", "--force-confdef", "--configure", "-a"]), fix]
    }

    fn os_family(&self) -> &'static str {
        "Debian"
    }

    fn download_cache_dir(&self) -> Option<&'static str> {
        Some("/var/cache/apt/archives")
    }

    fn file_owner(&self, machine: &Machine, path: &str) -> Result<String, FunctionError> {
        dpkg::file_owner(machine, path)
    }

    fn package_files(&self, machine: &Machine, name: &str) -> Result<Option<Vec<String>>, FunctionError> {
        dpkg::package_files(machine, name)
    }

    fn providing_package(&self, tools: &Tools<'_>, name: &str) -> Result<Option<String>, FunctionError> {
        dpkg::providing_package(tools, name)
    }

    fn file_version_command(&self, tools: &Tools<'_>) -> Option<FileVersionCommand> {
        tools.which("dpkg-deb")?;
        Some(|path| to_strings(&["dpkg-deb", "-f", path, "Version"]))
    }

    fn verify_command(&self, names: &[String], _: &[String]) -> Option<Vec<String>> {
        let mut line = to_strings(&["dpkg", "--verify"]);
        line.extend(names.iter().cloned());
        Some(line)
    }
}

/// What becomes of configuration files that somebody changed.
fn conffile_options(new: bool) -> Vec<String> {
    let how: &[&str] = if new { &["--force-confnew"] } else { &["--force-confold", "--force-confdef"] };
    how.iter().flat_map(|h| ["-o".to_owned(), format!("DPkg::Options::={h}")]).collect()
}

fn command_line(program: &str, action: &PkgAction<'_>) -> Vec<String> {
    let mut line = to_strings(&[program, "-q", "-y"]);
    match action {
        PkgAction::Refresh => line.push("update".into()),
        PkgAction::Install(targets, options) => {
            line.extend(option_flags(options));
            line.push("install".into());
            line.extend(targets.iter().map(|t| t.spec("=")));
        }
        PkgAction::Upgrade(names, options) => {
            line.extend(option_flags(options));
            if names.is_empty() {
                line.push(if options.dist_upgrade { "dist-upgrade" } else { "upgrade" }.into());
            } else {
                line.extend(to_strings(&["--only-upgrade", "install"]));
                line.extend(names.iter().cloned());
            }
        }
        PkgAction::Remove(names, purge) => {
            line.push("--allow-change-held-packages".into());
            line.push(if *purge { "purge" } else { "remove" }.into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Autoremove(purge) => {
            line.push("autoremove".into());
            line.extend(purge.then(|| "--purge".to_owned()));
        }
        PkgAction::Hold(_) | PkgAction::Unhold(_) => {}
    }
    line
}

fn option_flags(options: &PkgActionOptions) -> Vec<String> {
    let mut line = conffile_options(options.replace_config);
    line.extend(match options.recommends {
        Some(true) => to_strings(&["--install-recommends"]),
        Some(false) => to_strings(&["--no-install-recommends"]),
        None => Vec::new(),
    });
    let switches = [
        (options.only_upgrade, "--only-upgrade"),
        (options.skip_verify, "--allow-unauthenticated"),
        (options.downgrade || options.force, "--allow-downgrades"),
        (options.force, "--allow-remove-essential"),
        (!options.respect_holds, "--allow-change-held-packages"),
        (options.download_only, "--download-only"),
        (options.reinstall, "--reinstall"),
    ];
    line.extend(switches.iter().filter(|(on, _)| *on).map(|(_, word)| (*word).to_owned()));
    line.extend(options.fromrepo.iter().flat_map(|r| ["-t".to_owned(), r.clone()]));
    line
}

/// `Inst vim [1] (2 Debian:12 [amd64])` and `Remv vim [1]`; what is only configured was counted when it came.
fn parse_step(line: &str) -> Option<PkgChange> {
    let (verb, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let between = |open: char, close: char| {
        let inner = rest.strip_prefix(open)?;
        inner.split([close, ' ']).next().map(str::to_owned)
    };
    let old = between('[', ']').unwrap_or_default();
    let new = rest.split_once('(').and_then(|(_, r)| r.split([' ', ')']).next()).unwrap_or_default();
    match verb {
        "Inst" => Some(PkgChange { name: name.into(), old, new: new.into() }),
        "Remv" | "Purg" => Some(PkgChange { name: name.into(), old, new: String::new() }),
        _ => None,
    }
}

/// What `apt-cache policy` says of several packages.
pub(crate) fn parse_policy(output: &str) -> AvailablePkgs {
    let mut all = AvailablePkgs::new();
    let mut current: Option<(String, AvailablePkg)> = None;
    for line in output.lines() {
        if !line.starts_with(' ') {
            all.extend(current.take());
            current = line.strip_suffix(':').map(|name| (name.to_owned(), AvailablePkg::default()));
            continue;
        }
        let Some((_, offer)) = &mut current else { continue };
        let trimmed = line.trim_start();
        if let Some(candidate) = trimmed.strip_prefix("Candidate: ") {
            offer.candidate = candidate.trim().replace("(none)", "");
        } else if line.starts_with(" *** ") || line.starts_with("     ") && !line.starts_with("      ") {
            let version = trimmed.trim_start_matches("*** ").split(' ').next().unwrap_or_default();
            offer.versions.push(version.to_owned());
        }
    }
    all.extend(current);
    all
}

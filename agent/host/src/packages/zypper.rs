//! zypper: SUSE and what derives from it.

use zagent_config::FunctionError;

use super::{
    AvailablePkgs, FileVersionCommand, PkgAction, PkgActionOptions, PkgChange, PkgDb, PkgProvider, db, dnf,
    rpm, to_strings,
};
use crate::{CommandOutput, Machine, Tools};

pub(crate) struct Zypper;

impl PkgProvider for Zypper {
    fn name(&self) -> &'static str {
        "zypper"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["zypperpkg"]
    }

    fn os_ids(&self) -> &'static [&'static str] {
        &["suse", "opensuse", "sles"]
    }

    fn program_names(&self) -> &'static [&'static str] {
        &["zypper"]
    }

    fn database_files(&self) -> &'static [&'static str] {
        &dnf::RPM_DB_FILES
    }

    fn hold_files(&self) -> &'static [&'static str] {
        &["/etc/zypp/locks"]
    }

    fn read_db(&self, machine: &Machine) -> Result<PkgDb, FunctionError> {
        dnf::read_rpm_db(machine, self.hold_files(), db::parse_zypper_locks)
    }

    fn command_lines(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<Vec<String>>> {
        Some(vec![command_line(program, action)?])
    }

    fn dry_run_command(&self, program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
        const VERBS: [&str; 4] = ["install", "remove", "update", "dist-upgrade"];
        let mut line = command_line(program, action)?;
        let verb = line.iter().position(|w| VERBS.contains(&w.as_str()))?;
        line.insert(verb + 1, "--dry-run".into());
        // A table for people breaks its rows as the terminal is wide, and there is none.
        line.insert(1, "--xmlout".into());
        Some(line)
    }

    fn parse_dry_run(&self, output: &str) -> Vec<PkgChange> {
        parse_summary(output)
    }

    fn readable_failure(&self, output: CommandOutput) -> CommandOutput {
        CommandOutput { stdout: error_messages(&output.stdout), ..output }
    }

    fn is_success_code(&self, code: i32) -> bool {
        // Done, and: the host should be started anew, zypper itself should, a repository was left out.
        matches!(code, 0 | 102 | 103 | 106)
    }

    fn query_available(
        &self,
        tools: &Tools<'_>,
        names: &[String],
        options: &PkgActionOptions,
    ) -> Result<AvailablePkgs, FunctionError> {
        let mut line =
            to_strings(&["-n", "-q", "--no-refresh", "search", "-s", "-t", "package", "--match-exact"]);
        line.extend(options.fromrepo.iter().flat_map(|r| ["--repo".to_owned(), r.clone()]));
        line.extend(names.iter().cloned());
        // It ends with 104 when it knows none of them.
        Ok(parse_search(&tools.run_query("zypper", &line)?.stdout, self))
    }

    fn os_family(&self) -> &'static str {
        "Suse"
    }

    fn reinstall_needs_version(&self) -> bool {
        // It takes `--force` for a wish of the newest.
        true
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

fn command_line(program: &str, action: &PkgAction<'_>) -> Option<Vec<String>> {
    let mut line = to_strings(&[program, "-n"]);
    match action {
        PkgAction::Refresh => line.push("refresh".into()),
        PkgAction::Install(targets, options) => {
            line.extend(options.skip_verify.then(|| "--no-gpg-checks".to_owned()));
            line.extend(to_strings(&["install", "--auto-agree-with-licenses", "--name"]));
            line.extend(options.fromrepo.iter().flat_map(|r| ["--from".to_owned(), r.clone()]));
            line.extend(options.download_only.then(|| "--download-only".to_owned()));
            line.extend((options.reinstall || options.force).then(|| "--force".to_owned()));
            line.extend((options.downgrade && !options.reinstall).then(|| "--oldpackage".to_owned()));
            line.extend(
                options
                    .recommends
                    .map(|yes| if yes { "--recommends".to_owned() } else { "--no-recommends".to_owned() }),
            );
            line.extend(targets.iter().map(|t| t.spec("=")));
        }
        PkgAction::Upgrade(names, options) => {
            line.push(if options.dist_upgrade { "dist-upgrade" } else { "update" }.into());
            line.push("--auto-agree-with-licenses".into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Remove(names, _) => {
            line.push("remove".into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Hold(names) => {
            line.push("addlock".into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Unhold(names) => {
            line.push("removelock".into());
            line.extend(names.iter().cloned());
        }
        PkgAction::Autoremove(_) => return None,
    }
    Some(line)
}

/// The summary of a transaction: `<solvable name="vim" edition="9.1-1" edition-old="9.0-1" …>` in `<to-upgrade>`.
fn parse_summary(output: &str) -> Vec<PkgChange> {
    let mut goes = false;
    let mut all = Vec::new();
    for tag in output.split('<').filter_map(|piece| piece.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        if name.starts_with("to-") {
            goes = name.starts_with("to-remove");
        }
        if name != "solvable" || xml_attribute(tag, "type").as_deref() != Some("package") {
            continue;
        }
        let text = |key: &str| xml_attribute(tag, key).unwrap_or_default();
        let (old, new) = if goes { ("edition", "") } else { ("edition-old", "edition") };
        all.push(PkgChange { name: text("name"), old: text(old), new: text(new) });
    }
    all
}

/// The value of an attribute of a tag.
fn xml_attribute(tag: &str, key: &str) -> Option<String> {
    let rest = tag.split_once(&format!(" {key}=\""))?.1;
    Some(xml_unescape(rest.split('"').next()?))
}

fn xml_unescape(text: &str) -> String {
    let signs = [("&apos;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    signs.into_iter().fold(text.to_owned(), |text, (sign, plain)| text.replace(sign, plain))
}

/// What stands in messages of errors and in the description of what it would ask.
fn error_messages(output: &str) -> String {
    let pieces = output.split('<').filter_map(|piece| piece.split_once('>'));
    let told = pieces.filter(|(tag, _)| *tag == "message type=\"error\"" || *tag == "description");
    told.map(|(_, text)| xml_unescape(text.trim_end())).collect::<Vec<_>>().join("\n")
}

/// The table of a search: `i | vim | package | 9.0-1.1 | x86_64 | repo`.
pub(crate) fn parse_search(output: &str, provider: &dyn PkgProvider) -> AvailablePkgs {
    let mut all = AvailablePkgs::new();
    for line in output.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, "package", version, _, repo] = cells[..] else { continue };
        if !repo.starts_with('(') {
            all.entry(name.to_owned()).or_default().versions.push(version.to_owned());
        }
    }
    for offer in all.values_mut() {
        zagent_config::sorted::sort_by(&mut offer.versions, |a, b| provider.version_scheme().compare(b, a));
        offer.candidate = offer.versions.first().cloned().unwrap_or_default();
    }
    all
}

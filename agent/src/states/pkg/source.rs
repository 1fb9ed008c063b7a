//! Package files that a state names: an address in, a file on this host and the version in it out.

use std::cell::RefCell;
use std::sync::Arc;

use super::desk::Desk;
use crate::host::scratch::Scratch;
use crate::states::{Args, Failure, Scene};

/// Files that were fetched for a state, gone with it.
pub(super) struct Sources {
    env: Arc<str>,
    fetched: RefCell<Vec<(String, Scratch)>>,
}

impl Sources {
    /// Reads where they come from.
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let env = args.text("saltenv")?.map_or_else(|| args.chunk.env.as_ref().into(), Into::into);
        Ok(Self { env, fetched: RefCell::default() })
    }

    /// The file, fetched when it is not on this host.
    pub(super) fn file(&self, scene: &Scene<'_>, source: &str) -> Result<String, Failure> {
        let known = |all: &[(String, Scratch)]| {
            all.iter().find(|(s, _)| s == source).map(|(_, f)| f.path().display().to_string())
        };
        if let Some(path) = known(&self.fetched.borrow()) {
            return Ok(path);
        }
        let Some(bytes) = crate::states::file::fetched(scene, &self.env, source)? else {
            let path = source.strip_prefix("file://").unwrap_or(source);
            if !path.starts_with('/') {
                return Err(Failure::new(format!(
                    "Path {path} is either not absolute or an invalid protocol"
                )));
            }
            return Ok(path.to_owned());
        };
        let name = source.split(['?', '#']).next().unwrap_or(source);
        let extension = name.rsplit_once('.').map(|(_, e)| format!(".{e}")).unwrap_or_default();
        let scratch = Scratch::new(&bytes, &extension, None)
            .map_err(|e| Failure::new(format!("cannot keep what came from `{source}`: {e}")))?;
        let path = scratch.path().display().to_string();
        self.fetched.borrow_mut().push((source.to_owned(), scratch));
        Ok(path)
    }

    /// The version in a file; nothing when only its name can be known.
    pub(super) fn version(&self, desk: &Desk<'_>, source: &str) -> Result<Option<String>, Failure> {
        let tools = desk.scene.tools();
        let is_deb = desk.chosen.provider.name() == "apt" && tools.which("dpkg-deb").is_some();
        let is_rpm = matches!(desk.chosen.provider.name(), "dnf" | "zypper");
        let is_pacman = desk.chosen.provider.name() == "pacman";
        if !(is_deb || is_rpm || is_pacman) {
            return Ok(None);
        }
        let path = self.file(desk.scene, source)?;
        let said = if is_deb {
            tools.ask("dpkg-deb", &["-f", &path, "Version"])?
        } else if is_pacman {
            tools.ask("pacman", &["-Qp", "--", &path])?
        } else {
            tools.ask("rpm", &["-qp", "--qf", "%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}", &path])?
        };
        if !said.is_fine() {
            return Err(Failure::new(format!("cannot read the package `{source}`: {}", said.words())));
        }
        // pacman tells the name, too.
        Ok(said.out.split_whitespace().next_back().map(str::to_owned))
    }
}

/// An installed package that provides a name.
pub(super) fn provider_of(desk: &Desk<'_>, name: &str) -> Result<Option<String>, Failure> {
    let tools = desk.scene.tools();
    let said = match desk.chosen.provider.name() {
        "apt" => tools.ask("dpkg-query", &["-W", "-f", "${Package} ${Status}: ${Provides}\\n"])?.out,
        "dnf" | "zypper" => {
            let said = tools.ask("rpm", &["-q", "--whatprovides", "--qf", "%{NAME}\\n", name])?;
            return Ok(said.out.lines().next().map(str::to_owned).filter(|_| said.is_fine()));
        }
        _ => return Ok(None),
    };
    Ok(said.lines().find_map(|line| {
        let (head, provides) = line.split_once(": ")?;
        let mut names = provides.split(',').filter_map(|p| p.split_whitespace().next());
        let package = head.strip_suffix(" installed")?.split(' ').next()?;
        names.any(|n| n == name).then(|| package.to_owned())
    }))
}

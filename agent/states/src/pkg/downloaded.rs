//! `pkg.downloaded` and `pkg.group_installed`.

use std::collections::BTreeMap;

use zagent_config::Value;

use super::args::{PkgArgs, PkgSpec};
use super::context::{PkgContext, steps_to_changes, transaction_error};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
};
use zagent_host::packages::{PkgAction, PkgChange, PkgGroups, PkgTarget, display_spec, satisfies};

/// Makes `pkg.downloaded`.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let mut pkg_args = PkgArgs::read(args)?;
    pkg_args.options.download_only = true;
    Ok(Box::new(PkgDownloaded { pkg_args }))
}

/// Makes `pkg.group_installed`.
pub fn build_group(args: &ChunkArgs<'_>) -> BuildResult {
    let list = |key: &str| match args.get(key) {
        None => Ok(Vec::new()),
        Some(Value::List(_)) => Ok(args.texts(key)?.unwrap_or_default()),
        Some(_) => Err(StateError::new(format!("{key} must be formatted as a list"))),
    };
    Ok(Box::new(PkgGroupInstalled {
        name: args.name(),
        skip: list("skip")?,
        include: list("include")?,
        pkg_args: PkgArgs::read(args)?,
    }))
}

struct PkgDownloaded {
    pkg_args: PkgArgs,
}

/// The packages in apt's cache: `vim_2%3a9.0-1_amd64.deb`.
fn cached_debs(names: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in names.iter().filter_map(|n| n.strip_suffix(".deb")) {
        if let [name, version, _] = file.split('_').collect::<Vec<_>>()[..] {
            all.entry(name.to_owned()).or_default().push(version.replace("%3a", ":"));
        }
    }
    all
}

impl PkgDownloaded {
    fn find_missing(&self, pkg_ctx: &PkgContext<'_>) -> Result<(Vec<PkgSpec>, bool), StateError> {
        let Some(cache) = pkg_ctx.manager.provider.download_cache_dir() else {
            return Err(StateError::new("The pkg.downloaded state is not available on this platform"));
        };
        let have = cached_debs(&pkg_ctx.ctx.tools().machine.list_dir(cache));
        let scheme = pkg_ctx.manager.provider.version_scheme();
        let lacks = |w: &&PkgSpec| {
            let versions = have.get(&w.name).map_or(&[][..], Vec::as_slice);
            let fits = |spec: &str| {
                versions.iter().any(|v| satisfies(v, spec, scheme, self.pkg_args.ignore_epoch, false))
            };
            w.version_spec.as_ref().map_or(versions.is_empty(), |spec| !fits(spec))
        };
        let is_spec = self.pkg_args.wanted.iter().any(|w| w.version_spec.is_some());
        Ok((self.pkg_args.wanted.iter().filter(lacks).cloned().collect(), is_spec))
    }

    /// What comes into the cache: nothing was there, and a version will be.
    fn plan_download(
        &self,
        pkg_ctx: &PkgContext<'_>,
        lacking: &[PkgSpec],
    ) -> Result<(Vec<PkgTarget>, Vec<PkgChange>), StateError> {
        let names: Vec<String> = lacking.iter().map(|w| w.name.clone()).collect();
        let offers = pkg_ctx.offers(&names, &self.pkg_args)?;
        let scheme = pkg_ctx.manager.provider.version_scheme();
        let (mut targets, mut steps) = (Vec::new(), Vec::new());
        for w in lacking {
            let fits = |v: &&String| {
                w.version_spec
                    .as_ref()
                    .is_none_or(|s| satisfies(v, s, scheme, self.pkg_args.ignore_epoch, false))
            };
            let offer = offers.get(&w.name);
            let version = offer.and_then(|o| o.versions.iter().find(fits)).ok_or_else(|| {
                let wanted = display_spec(&w.name, w.version_spec.as_deref());
                StateError::new(format!(
                    "The following packages failed to download: {wanted}: it is not to be had"
                ))
            })?;
            targets.push(PkgTarget { version: Some(version.clone()), ..PkgTarget::from_name(&w.name) });
            steps.push(PkgChange { name: w.name.clone(), old: String::new(), new: version.clone() });
        }
        Ok((targets, steps))
    }
}

impl State for PkgDownloaded {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        if self.pkg_args.is_empty_list {
            return Ok(CheckResult::in_sync("No packages to download provided"));
        }
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let (lacking, is_spec) = self.find_missing(&pkg_ctx)?;
        if lacking.is_empty() {
            let tail = if is_spec { " (matching specified versions)" } else { "" };
            return Ok(CheckResult::in_sync(format!("All specified packages{tail} are already downloaded")));
        }
        let names: Vec<&str> = lacking.iter().map(|w| w.name.as_str()).collect();
        let words = format!("The following packages would be downloaded: {}", names.join(", "));
        Ok(CheckResult::drifted(words, steps_to_changes(&self.plan_download(&pkg_ctx, &lacking)?.1)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let (lacking, _) = self.find_missing(&pkg_ctx)?;
        let (targets, steps) = self.plan_download(&pkg_ctx, &lacking)?;
        // What is installed already is fetched only when it is to be installed once more.
        let options = zagent_host::packages::PkgActionOptions {
            reinstall: true,
            downgrade: true,
            ..self.pkg_args.options.clone()
        };
        pkg_ctx.teller().execute(&PkgAction::Install(&targets, &options)).map_err(|e| {
            super::context::refusal_error("An error was encountered while downloading package(s)", e)
        })?;
        let names: Vec<&str> = lacking.iter().map(|w| w.name.as_str()).collect();
        let words = pkg_ctx.with_warning(&format!("Packages downloaded: {}", names.join(", ")));
        Ok(ApplyResult::new(words, steps_to_changes(&steps)))
    }

    fn react(&mut self, _: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        Err(super::watch_unsupported("downloaded"))
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        hidden != super::READS
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("what was fetched stays in the package manager's cache")
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}

struct PkgGroupInstalled {
    name: String,
    skip: Vec<String>,
    include: Vec<String>,
    pkg_args: PkgArgs,
}

/// What a group lacks.
struct GroupMissing {
    targets: Vec<String>,
    is_partial: bool,
}

impl PkgGroupInstalled {
    fn find_missing(&self, pkg_ctx: &PkgContext<'_>) -> Result<GroupMissing, StateError> {
        let group: PkgGroups = pkg_ctx.manager.provider.group_members(&pkg_ctx.ctx.tools(), &self.name)?;
        let db = pkg_ctx.db()?;
        let of = |kind: &str| group.get(kind).map_or(&[][..], Vec::as_slice);
        let invalid: Vec<&str> =
            of("mandatory").iter().filter(|n| self.skip.contains(n)).map(String::as_str).collect();
        if !invalid.is_empty() {
            return Err(StateError::new(format!(
                "The following mandatory packages cannot be skipped: {}",
                invalid.join(", ")
            )));
        }
        let wanted = of("mandatory").iter().chain(of("default")).filter(|n| !self.skip.contains(n));
        let lacks = |n: &&String| db.get(n).is_none();
        let targets = wanted.chain(&self.include).filter(lacks).cloned().collect();
        let all = of("mandatory").iter().chain(of("default")).chain(of("optional"));
        let is_partly = all.into_iter().any(|n| db.get(n).is_some());
        Ok(GroupMissing { targets, is_partial: is_partly })
    }
}

impl State for PkgGroupInstalled {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let lack = self.find_missing(&pkg_ctx)?;
        let name = &self.name;
        if lack.targets.is_empty() {
            return Ok(CheckResult::in_sync(format!("Group '{name}' is already installed")));
        }
        let words = if lack.is_partial {
            format!("Group '{name}' is partially installed and will be updated")
        } else {
            format!("Group '{name}' will be installed")
        };
        let coming = lack.targets.into_iter();
        let steps: Vec<PkgChange> =
            coming.map(|name| PkgChange { name, old: String::new(), new: "installed".into() }).collect();
        Ok(CheckResult::drifted(words, steps_to_changes(&steps)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let lack = self.find_missing(&pkg_ctx)?;
        let targets: Vec<PkgTarget> = lack.targets.iter().map(|n| PkgTarget::from_name(n)).collect();
        let words = format!("An error was encountered while installing/updating group '{}'", self.name);
        let steps = pkg_ctx
            .install(&targets, &self.pkg_args)
            .map_err(|(f, steps)| transaction_error(&words, f, &steps))?;
        let how = if lack.is_partial { "updated" } else { "installed" };
        Ok(ApplyResult::new(format!("Group '{}' was {how}", self.name), steps_to_changes(&steps)))
    }

    fn react(&mut self, _: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        Err(super::watch_unsupported("group_installed"))
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGE_CHANGE
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}

#[cfg(test)]
mod tests {
    use super::cached_debs;

    #[test]
    fn the_cache_tells_names_and_versions() {
        let names =
            ["lock", "vim_2%3a9.0.1378-2_amd64.deb", "hello_2.10-3_amd64.deb", "hello_2.9-1_amd64.deb"];
        let all = cached_debs(&names.map(str::to_owned));
        assert_eq!(all["vim"], ["2:9.0.1378-2"]);
        assert_eq!(all["hello"], ["2.10-3", "2.9-1"]);
        assert_eq!(all.len(), 2);
    }
}

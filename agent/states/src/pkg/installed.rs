//! `pkg.installed`: packages that should be there, in versions that will do.
//!
//! Law: states of one level go into one transaction; each tells its own changes at its own turn, and a neighbour
//! that cannot be served fails alone (held by
//! `packages_of_one_level_are_one_transaction_and_a_bad_one_fails_alone`).

use std::collections::BTreeMap;

use zagent_compiler::{Chunk, Compat};
use zagent_config::{Map, Value};

use super::args::{PkgArgs, PkgSpec};
use super::batch::{batch_targets, batchable, distribute_steps, merge_steps, resolve_target};
use super::context::{PkgContext, steps_to_changes, transaction_error};
use super::sources::PkgSources;
use super::verify::PkgVerify;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError, Verdict,
};
use zagent_host::command_options::value_text;
use zagent_host::packages::{AvailablePkgs, PkgChange, PkgDb, PkgTarget, display_spec, satisfies};

/// Makes `pkg.installed`.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(PkgInstalled {
        pkg_args: PkgArgs::read(args)?,
        reinstall: args.flag("reinstall", false),
        verify: PkgVerify::read(args)?,
        hold: args.get("hold").map(Value::is_truthy),
        sources: PkgSources::read(args)?,
        batch: Vec::new(),
    }))
}

struct PkgInstalled {
    pkg_args: PkgArgs,
    reinstall: bool,
    verify: Option<PkgVerify>,
    hold: Option<bool>,
    sources: PkgSources,
    /// Other states whose packages may come along, by tag.
    batch: Vec<(String, PkgArgs)>,
}

/// How the wanted packages stand.
#[derive(Default)]
struct PkgSurvey {
    /// Not there, or not in a version that will do.
    missing: Vec<PkgSpec>,
    /// There, and to be brought once more.
    reinstall: Vec<PkgSpec>,
    /// Files that are not as their package brought them, by package.
    modified_files: BTreeMap<String, Vec<String>>,
    /// To be held, or no longer.
    hold: Vec<String>,
    /// Some version was asked for.
    has_version_spec: bool,
}

impl PkgSurvey {
    fn is_in_sync(&self) -> bool {
        self.missing.is_empty() && self.reinstall.is_empty() && self.hold.is_empty()
    }

    fn to_install(&self) -> impl Iterator<Item = &PkgSpec> {
        self.missing.iter().chain(&self.reinstall)
    }
}

/// What counts as installed of a name: the package itself, or who provides it when that will do.
fn installed_versions(
    db: &PkgDb,
    pkg_ctx: &PkgContext<'_>,
    name: &str,
    pkg_args: &PkgArgs,
) -> Result<Vec<String>, StateError> {
    if let Some(pack) = db.get(name) {
        return Ok(if pack.is_purge_desired { Vec::new() } else { pack.versions.clone() });
    }
    if pkg_args.resolve_capabilities
        && let Some(provider) = pkg_ctx.manager.provider.providing_package(&pkg_ctx.ctx.tools(), name)?
    {
        return Ok(db.get(&provider).map(|p| p.versions.clone()).unwrap_or_default());
    }
    Ok(Vec::new())
}

impl PkgInstalled {
    fn survey(&self, pkg_ctx: &PkgContext<'_>, db: &PkgDb) -> Result<PkgSurvey, StateError> {
        let mut survey = PkgSurvey::default();
        let scheme = pkg_ctx.manager.provider.version_scheme();
        let latest = self.latest_offers(pkg_ctx, db)?;
        for mut wanted in self.pkg_args.resolve_names(db) {
            let have = installed_versions(db, pkg_ctx, &wanted.name, &self.pkg_args)?;
            if self.hold.is_some_and(|hold| db.get(&wanted.name).is_none_or(|p| p.is_held != hold)) {
                survey.hold.push(wanted.name.clone());
            }
            if wanted.version_spec.as_deref() == Some("latest") {
                wanted.version_spec =
                    latest.get(&wanted.name).map(|o| o.candidate.clone()).filter(|v| !v.is_empty());
            }
            if have.is_empty() {
                survey.missing.push(wanted);
                continue;
            }
            if self.reinstall {
                survey.reinstall.push(wanted);
                continue;
            }
            let of_file = match &wanted.source {
                Some(source) => self.sources.file_version(pkg_ctx, source)?,
                None => None,
            };
            let will_do = |spec: &str| {
                let fits = |v: &String| {
                    satisfies(v, spec, scheme, self.pkg_args.ignore_epoch, self.pkg_args.allow_updates)
                };
                have.iter().any(fits)
            };
            match wanted.version_spec.as_ref().or(of_file.as_ref()) {
                Some(spec) if !will_do(spec) => {
                    survey.has_version_spec = true;
                    survey.missing.push(wanted);
                }
                spec => {
                    survey.has_version_spec |= spec.is_some() && wanted.source.is_none();
                    let altered = match &self.verify {
                        Some(verify) => verify.modified_files(pkg_ctx, &wanted.name)?,
                        None => Vec::new(),
                    };
                    if !altered.is_empty() {
                        survey.modified_files.insert(wanted.name.clone(), altered);
                        survey.reinstall.push(wanted);
                    }
                }
            }
        }
        Ok(survey)
    }

    /// What `latest` stands for.
    fn latest_offers(&self, pkg_ctx: &PkgContext<'_>, db: &PkgDb) -> Result<AvailablePkgs, StateError> {
        let is_latest = |w: &PkgSpec| w.version_spec.as_deref() == Some("latest");
        let wanted = self.pkg_args.resolve_names(db).into_iter().filter(is_latest);
        let names: Vec<String> = wanted.map(|w| w.name).collect();
        if names.is_empty() {
            return Ok(AvailablePkgs::new());
        }
        if self.pkg_args.refresh != Some(false) {
            pkg_ctx.refresh_catalog(&self.pkg_args)?;
        }
        pkg_ctx.offers(&names, &self.pkg_args)
    }

    fn survey_host(&self, ctx: &StateCtx<'_>) -> Result<(CheckResult, PkgSurvey), StateError> {
        if self.pkg_args.is_empty_list {
            return Ok((CheckResult::in_sync("No packages to install provided"), PkgSurvey::default()));
        }
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let db = pkg_ctx.db()?;
        let survey = self.survey(&pkg_ctx, &db)?;
        if let Some(mine) = ctx.shared.packages.lock().batch_changes.get(ctx.tag) {
            return Ok((
                CheckResult::drifted("its packages came with those of another state", mine.clone()),
                survey,
            ));
        }
        if survey.is_in_sync() {
            let tail = if survey.has_version_spec { " and are at the desired version" } else { "" };
            let mut comment = format!("All specified packages are already installed{tail}");
            if let Some(hold) = self.hold {
                for wanted in &self.pkg_args.wanted {
                    let how = if hold { "already set to be held" } else { "already not held" };
                    comment.push_str(&format!(".\nPackage {} is {how}.", wanted.name));
                }
            }
            return Ok((CheckResult::in_sync(comment), survey));
        }
        let steps: Vec<PkgChange> = survey
            .to_install()
            .map(|w| PkgChange { name: w.name.clone(), old: db.version(&w.name), new: "installed".into() })
            .collect();
        Ok((CheckResult::drifted(self.predict_comment(&survey), steps_to_changes(&steps)), survey))
    }

    /// What a dry run says.
    fn predict_comment(&self, survey: &PkgSurvey) -> String {
        let mut lines = Vec::new();
        let names = |list: &[PkgSpec]| {
            let one =
                |w: &PkgSpec| display_spec(&w.name, w.version_spec.as_deref().filter(|_| self.reinstall));
            list.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        if !survey.missing.is_empty() {
            let names = names(&survey.missing);
            lines.push(format!("The following packages would be installed/updated: {names}"));
        }
        if self.reinstall && !survey.reinstall.is_empty() {
            lines.push(format!("The following packages would be reinstalled: {}", names(&survey.reinstall)));
        }
        for (name, files) in &survey.modified_files {
            lines.push(format!(
                "Package '{name}' would be reinstalled because the following files have been altered:\n{}",
                files.join("\n")
            ));
        }
        if let (Some(hold), false) = (self.hold, survey.hold.is_empty()) {
            let how = if hold { "held" } else { "unheld" };
            lines.push(format!("The following packages would be {how}: {}", survey.hold.join(", ")));
        }
        lines.join("\n")
    }

    /// What is asked of the manager for wanted packages; who cannot be served is told by name.
    fn install_targets(
        &self,
        pkg_ctx: &PkgContext<'_>,
        wanted: &[&PkgSpec],
    ) -> Result<Vec<PkgTarget>, StateError> {
        let (mut targets, mut unknown) = (Vec::new(), Vec::new());
        let names: Vec<String> =
            wanted.iter().filter(|w| w.source.is_none()).map(|w| w.name.clone()).collect();
        let mut offers = pkg_ctx.offers(&names, &self.pkg_args)?;
        let lacks = |offers: &AvailablePkgs| {
            wanted.iter().any(|w| {
                w.version_spec.is_some() && resolve_target(pkg_ctx, offers, w, &self.pkg_args).is_err()
            })
        };
        if lacks(&offers)
            && self.pkg_args.refresh != Some(false)
            && pkg_ctx.refresh_catalog(&self.pkg_args)?
        {
            offers = pkg_ctx.offers(&names, &self.pkg_args)?;
        }
        for w in wanted {
            match &w.source {
                Some(source) => {
                    let file = Some(self.sources.local_file(pkg_ctx.ctx, source)?);
                    targets.push(PkgTarget { file, ..PkgTarget::from_name(&w.name) });
                }
                None => match resolve_target(pkg_ctx, &offers, w, &self.pkg_args) {
                    Ok(target) => targets.push(target),
                    Err(words) => unknown.push(words),
                },
            }
        }
        if unknown.is_empty() {
            return Ok(targets);
        }
        Err(StateError::new(pkg_ctx.with_warning(&unknown.join("\n"))))
    }

    /// Brings what is missing: first together with the neighbours, and alone when that fails.
    fn install_missing(
        &self,
        pkg_ctx: &PkgContext<'_>,
        survey: &PkgSurvey,
    ) -> Result<Vec<PkgChange>, StateError> {
        const PROBLEM: &str = "Problem encountered installing package(s)";
        let mine: Vec<&PkgSpec> = survey.to_install().collect();
        let targets = self.install_targets(pkg_ctx, &mine).map_err(|f| transaction_error(PROBLEM, f, &[]))?;
        let mut pkg_args = self.pkg_args.clone();
        pkg_args.options.reinstall = !survey.reinstall.is_empty();
        let (others, owners) = batch_targets(pkg_ctx, &self.pkg_args, &self.batch, &targets)?;
        let mut came = Vec::new();
        if !others.is_empty() {
            let all: Vec<PkgTarget> = targets.iter().chain(&others).cloned().collect();
            match pkg_ctx.install(&all, &pkg_args) {
                Ok(steps) => return Ok(distribute_steps(pkg_ctx, steps, &owners)),
                // What came before it failed came for whom it was meant.
                Err((_, steps)) => came = distribute_steps(pkg_ctx, steps, &owners),
            }
        }
        let mut steps = match pkg_ctx.install(&targets, &pkg_args) {
            Ok(steps) => merge_steps(came, steps),
            Err((f, steps)) => return Err(transaction_error(PROBLEM, f, &merge_steps(came, steps))),
        };
        for w in &survey.reinstall {
            if !steps.iter().any(|s| s.name == w.name) {
                let version = pkg_ctx.db()?.version(&w.name);
                steps.push(PkgChange { name: w.name.clone(), old: version.clone(), new: version });
            }
        }
        Ok(steps)
    }

    /// What was done, in Salt's words.
    fn summarize(
        &self,
        survey: &PkgSurvey,
        pkg_ctx: &PkgContext<'_>,
        steps: &[PkgChange],
    ) -> Result<ApplyResult, StateError> {
        let mut lines = Vec::new();
        let spec = |w: &PkgSpec| display_spec(&w.name, w.version_spec.as_deref());
        let listed = |list: &[&PkgSpec]| list.iter().map(|w| spec(w)).collect::<Vec<_>>().join(", ");
        let before = pkg_ctx.db()?;
        let after = self.survey(pkg_ctx, &before)?;
        let lacks = |w: &PkgSpec| after.missing.iter().any(|m| m.name == w.name);
        let (failed, fine): (Vec<&PkgSpec>, Vec<&PkgSpec>) = survey.missing.iter().partition(|w| lacks(w));
        if !failed.is_empty() {
            lines.push(format!("The following packages failed to install/update: {}", listed(&failed)));
        }
        if !fine.is_empty() {
            let names = listed(&fine);
            let (s, were) = if fine.len() > 1 { ("s", "were") } else { ("", "was") };
            lines.push(if names.len() < 20 {
                format!("The following packages were installed/updated: {names}")
            } else {
                format!("{} targeted package{s} {were} installed/updated.", fine.len())
            });
        }
        let touched =
            |w: &PkgSpec| survey.to_install().any(|t| t.name == before.without_native_arch(&w.name));
        let already: Vec<&PkgSpec> = self.pkg_args.wanted.iter().filter(|w| !touched(w)).collect();
        if !already.is_empty() && !steps.is_empty() {
            lines.push(if already.len() <= 20 {
                format!("The following packages were already installed: {}", listed(&already))
            } else {
                format!("{} targeted packages were already installed", already.len())
            });
        }
        for w in &survey.reinstall {
            let files = survey.modified_files.get(&w.name).map(|files| files.join("\n"));
            let tail =
                files.map(|f| format!(" The following files were remediated:\n{f}")).unwrap_or_default();
            lines.push(format!("Package {} was reinstalled.{tail}", spec(w)));
        }
        let done = ApplyResult::new(lines.join("\n"), steps_to_changes(steps));
        if failed.is_empty() { Ok(done) } else { Err(done.into()) }
    }

    fn apply_holds(
        &self,
        pkg_ctx: &PkgContext<'_>,
        names: &[String],
        done: &mut ApplyResult,
    ) -> Result<(), StateError> {
        let Some(hold) = self.hold.filter(|_| !names.is_empty()) else { return Ok(()) };
        let held = super::held::set_holds(pkg_ctx, names, hold)?;
        for name in held {
            let (old, new) = if hold { ("install", "hold") } else { ("hold", "install") };
            let how = if hold { "now being held" } else { "no longer being held" };
            done.comment.push_str(&format!("\nPackage {name} is {how}."));
            let change = match done.changes.get(&name).and_then(Value::as_map) {
                Some(was) => {
                    let text =
                        |key: &str| was.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                    let joined =
                        |a: String, b: &str| if a.is_empty() { b.to_owned() } else { format!("{a}\n{b}") };
                    Map::from_iter([("old", joined(text("old"), old)), ("new", joined(text("new"), new))])
                }
                None => Map::from_iter([("old", old.to_owned()), ("new", new.to_owned())]),
            };
            done.changes.insert(name, change);
        }
        done.comment = done.comment.trim_start().to_owned();
        Ok(())
    }
}

impl State for PkgInstalled {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        Ok(self.survey_host(ctx)?.0)
    }

    /// The same with the versions and all that would come along, as the manager itself foresees it.
    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (mut checked, survey) = self.survey_host(ctx)?;
        let wanted: Vec<&PkgSpec> = survey.to_install().collect();
        if checked.verdict == Verdict::InSync && ctx.compat == Compat::Strict {
            let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
            // In one transaction it is this state's, otherwise it is there already.
            if let Some(name) = pkg_ctx.find_simulated(&self.pkg_args.wanted) {
                return Ok(CheckResult::unknown(format!("`{name}` would come along with another package")));
            }
        }
        if checked.verdict != Verdict::Drifted || wanted.is_empty() {
            return Ok(checked);
        }
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        if pkg_ctx.lacks_catalog() {
            checked
                .comment
                .push_str("\nThe package lists were never fetched: nobody can tell which versions.");
            return Ok(checked);
        }
        let targets = self
            .install_targets(&pkg_ctx, &wanted)
            .map_err(|f| transaction_error("It would fail", f, &[]))?;
        let mut pkg_args = self.pkg_args.clone();
        pkg_args.options.reinstall = !survey.reinstall.is_empty();
        let steps = pkg_ctx.predict_install(&targets, &pkg_args)?;
        if let Some(steps) = steps {
            checked.changes = steps_to_changes(&steps);
            pkg_ctx.simulate(&steps);
        }
        Ok(checked)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let start = pkg_ctx.db()?;
        let survey = self.survey(&pkg_ctx, &start)?;
        let mine = ctx.shared.packages.lock().batch_changes.remove(ctx.tag);
        let mended =
            if survey.to_install().next().is_none() { None } else { pkg_ctx.repair_interrupted()? };
        // What was mended may be all that was lacking.
        let left = if mended.is_some() { self.survey(&pkg_ctx, &*pkg_ctx.db()?)? } else { survey };
        let bring = left.to_install().next().is_some();
        let steps = if bring { self.install_missing(&pkg_ctx, &left)? } else { Vec::new() };
        let words = if bring { pkg_ctx.with_warning("") } else { String::new() };
        // What came late is still looked at.
        let calm = StateCtx { deadline: None, ..*ctx };
        let pkg_ctx = PkgContext::new(&calm, self.pkg_args.provider.as_deref())?;
        let mut done = self.summarize(&left, &pkg_ctx, &steps)?;
        done.comment += &words;
        if let Some(mine) = mine {
            let names: Vec<String> = mine.keys().map(value_text).collect();
            let words = format!("The following packages were installed/updated: {}", names.join(", "));
            done.comment = [words, done.comment].join("\n").trim_end().to_owned();
            for (name, change) in mine.iter() {
                done.changes.insert(name.clone(), change.clone());
            }
        }
        if let Some(words) = mended {
            done.comment = format!("{}\n{words}", done.comment).trim_start().to_owned();
            done.changes = steps_to_changes(&start.changes_to(&*pkg_ctx.db()?));
        }
        if let Err(failure) = self.apply_holds(&pkg_ctx, &left.hold, &mut done) {
            let words = format!("{}\n{}", done.comment, failure.result.comment);
            done.comment = words.trim_start().to_owned();
            return Err(done.into());
        }
        Ok(done)
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        super::reapply(self, ctx)
    }

    fn is_convergent(&self) -> bool {
        !self.reinstall
    }

    fn can_batch(&self) -> bool {
        let is_plain = |w: &PkgSpec| w.source.is_none();
        !self.reinstall && self.pkg_args.wanted.iter().all(is_plain)
    }

    fn batch_with(&mut self, others: &[&Chunk]) {
        self.batch = others.iter().filter_map(|chunk| batchable(chunk, &self.pkg_args)).collect();
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGE_CHANGE
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        hidden != super::READS
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}

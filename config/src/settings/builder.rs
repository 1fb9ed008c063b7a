//! Checked keys in, settings out: parses names and choices, and checks keys against each other.

use super::*;
use crate::ids::{NameError, NodeId};
use crate::target::{MatchKind, Target};

/// Every key, checked on its own.
pub(super) struct SettingsBuilder<'s> {
    pub(super) merged: &'s MergedConfig,
    pub(super) record: &'s CheckedRecord,
    pub(super) host_name: Option<&'s str>,
}

impl SettingsBuilder<'_> {
    /// Where a key was set last; `Default` when it is not set.
    fn last_origin(&self, path: &str, entry: Option<&str>) -> SettingOrigin {
        let mut assigned = self.merged.assigned.iter().filter(|s| s.key.path == path);
        let found = assigned.find(|s| s.entry.as_deref() == entry || entry.is_none());
        found.map_or(SettingOrigin::Default, |s| s.origin.clone())
    }

    fn report(
        &self,
        checker: &mut SettingsChecker<'_>,
        path: &str,
        entry: Option<&str>,
        diagnostic: Diagnostic,
    ) {
        let origin = self.last_origin(path, entry);
        checker.report(ValueLocation::from_origin(&origin), diagnostic);
    }

    /// The settings; errors are reported, and the keys concerned get their defaults.
    pub(super) fn build(
        &self,
        checker: &mut SettingsChecker<'_>,
        effective: Vec<EffectiveSetting>,
    ) -> Settings {
        let all = self.record;
        let mut settings = Settings {
            id: self.node_id(checker),
            root: all.path("root"),
            keep_bytes: all.size("keep_bytes") as u64,
            fleet: self.name("fleet", checker),
            source: SourceSettings::read(all),
            baked: all.path("baked"),
            states_root: all.path("roots.states"),
            pillar_root: all.path("roots.pillar"),
            environments: self.environments(checker),
            env: self.name("env", checker),
            trust: TrustSettings::read(all),
            run: RunConfig::read(all),
            compat: sections::choice(all, "compat", CompatMode::find),
            facts_dir: all.path("facts_dir"),
            pillar: PillarSettings {
                merge: sections::choice(all, "pillar.merge", |name| name.parse().ok()),
                merge_lists: all.flag("pillar.merge_lists"),
                env: self.name("pillar.env", checker),
            },
            age_identity: all.path("secrets.identity"),
            ext_pillar: all.programs("ext_pillar"),
            master_tops: all.programs("master_tops"),
            nodegroups: all.groups("nodegroups"),
            cmd_run: sections::choice(all, "templates.cmd_run", TemplatePermission::find),
            limits: CompileLimits::read(all),
            health: self.health(checker),
            windows: all.records("windows").iter().map(MaintenanceWindow::read).collect(),
            reboot: RebootSettings::read(all),
            schedule: self.schedule(checker),
            board: BoardSettings::read(all),
            rollout: RolloutSettings::read(all),
            driver: all.flag("driver"),
            listen: all.address_if("listen"),
            listen_pages: sections::choice(all, "listen_pages", ListenPages::find),
            socket_group: all.text_if("socket_group").map(str::to_owned),
            socket_readers: all.text_if("socket_readers").map(str::to_owned),
            audit: all.path_if("audit"),
            webhooks: all.records("webhooks").iter().map(WebhookSettings::read).collect(),
            resources_key: all.text("resources_key"),
            resources: ResourceSettings::read(all),
            effective,
        };
        self.check_conflicts(&settings, checker);
        self.apply_derived(&mut settings);
        settings
    }

    /// Values derived from others: the id from the host name, a required manifest from a required signature.
    fn apply_derived(&self, settings: &mut Settings) {
        if matches!(settings.trust.require, RequiredSignatures::Manifest | RequiredSignatures::Both) {
            settings.trust.manifest = ManifestRule::Required;
            if let Some(shown) = settings.effective.iter_mut().find(|e| e.key == "trust.manifest") {
                shown.value = ManifestRule::Required.name().into();
                shown.origin = self.last_origin("trust.require", None);
            }
        }
        if let Some(shown) =
            settings.effective.iter_mut().find(|e| e.key == "id" && e.origin == SettingOrigin::Default)
        {
            shown.value = settings.id.as_str().into();
            shown.origin =
                if self.host_name.is_some() { SettingOrigin::HostName } else { SettingOrigin::Default };
        }
    }

    /// The configured id, or the host name; `localhost` when the host name is not a valid id.
    fn node_id(&self, checker: &mut SettingsChecker<'_>) -> NodeId {
        if let Some(text) = self.record.text_if("id") {
            match text.parse() {
                Ok(id) => return id,
                Err(error) => {
                    let diagnostic =
                        Diagnostic::new(code::NODE_ID, format!("`{text}` is not a valid node id: {error}"));
                    self.report(checker, "id", None, diagnostic);
                }
            }
        }
        self.host_name.and_then(|name| name.parse().ok()).unwrap_or_else(NodeId::localhost)
    }

    fn name<T>(&self, path: &str, checker: &mut SettingsChecker<'_>) -> Option<T>
    where
        T: std::str::FromStr<Err = NameError>,
    {
        let text = self.record.text_if(path)?;
        match text.parse() {
            Ok(name) => Some(name),
            Err(error) => {
                let diagnostic =
                    Diagnostic::new(code::NODE_ID, format!("`{path}` cannot be `{text}`: {error}"));
                self.report(checker, path, None, diagnostic);
                None
            }
        }
    }

    fn environments(&self, checker: &mut SettingsChecker<'_>) -> Vec<EnvironmentSettings> {
        let mut out = Vec::new();
        for (name, record) in self.record.named("environments") {
            match name.parse() {
                Ok(name) => out.push(EnvironmentSettings {
                    name,
                    states: record.path_if("states"),
                    pillar: record.path_if("pillar"),
                }),
                Err(error) => {
                    let diagnostic = Diagnostic::new(
                        code::NODE_ID,
                        format!("`{name}` is not a valid environment name: {error}"),
                    );
                    self.report(checker, "environments", Some(name), diagnostic);
                }
            }
        }
        out
    }

    fn health(&self, checker: &mut SettingsChecker<'_>) -> Vec<HealthSettings> {
        let mut out = Vec::new();
        for (i, r) in self.record.records("health").iter().enumerate() {
            let text = |name: &str| r.text_if(name).map(str::to_owned);
            let mut checks: Vec<HealthProbe> = [
                text("http").map(HealthProbe::Http),
                text("tcp").map(HealthProbe::Tcp),
                text("unit").map(HealthProbe::Unit),
                text("command").map(HealthProbe::Command),
            ]
            .into_iter()
            .flatten()
            .collect();
            let (Some(check), true) = (checks.pop(), checks.is_empty()) else {
                let message =
                    format!("`health[{i}]` needs exactly one of `http`, `tcp`, `unit` and `command`");
                self.report(checker, "health", None, Diagnostic::new(code::CONFLICT, message));
                continue;
            };
            // A target that cannot contain a secret is used as the name.
            let target = text("unit").or_else(|| text("tcp"));
            out.push(HealthSettings {
                name: text("name").or(target).unwrap_or_else(|| format!("health-{}", i + 1)),
                check,
                required: r.flag("required"),
                timeout: r.time("timeout"),
                tries: r.count("tries"),
            });
        }
        out
    }

    fn schedule(&self, checker: &mut SettingsChecker<'_>) -> Vec<ScheduledRun> {
        let mut out = Vec::new();
        for (name, r) in self.record.named("schedule") {
            let cron = r.text_if("cron").and_then(|text| text.parse().ok());
            let when = match (r.time_if("every"), cron) {
                (Some(every), None) => ScheduleTrigger::Every(every),
                (None, Some(cron)) => ScheduleTrigger::Cron(cron),
                _ => {
                    let message = format!("`schedule.{name}` needs either `every` or `cron`");
                    self.report(checker, "schedule", Some(name), Diagnostic::new(code::CONFLICT, message));
                    continue;
                }
            };
            out.push(ScheduledRun {
                name: name.clone(),
                when,
                splay: r.time("splay"),
                maxrunning: r.count("maxrunning"),
                catch_up: r.flag("catch_up"),
                sls: r.texts("sls"),
                test: r.flag("test"),
                target: self.schedule_target(name, r, checker),
            });
        }
        out
    }

    /// The target of a scheduled entry, when it is one.
    fn schedule_target(
        &self,
        name: &str,
        record: &CheckedRecord,
        checker: &mut SettingsChecker<'_>,
    ) -> Option<String> {
        let text = record.text_if("target")?;
        if let Some(diagnostic) = target_fault(&format!("schedule.{name}.target"), text) {
            self.report(checker, "schedule", Some(name), diagnostic);
        }
        Some(text.to_owned())
    }

    fn check_conflicts(&self, settings: &Settings, checker: &mut SettingsChecker<'_>) {
        if let Some(fault) =
            settings.resources.target.as_ref().and_then(|t| target_fault("resources.target", t))
        {
            self.report(checker, "resources.target", None, fault);
        }
        let mut conflict = |path: &str, message: String, hint: &str| {
            self.report(checker, path, None, Diagnostic::new(code::CONFLICT, message).hint(hint));
        };
        let trust = &settings.trust;
        let signed = matches!(trust.require, RequiredSignatures::Manifest | RequiredSignatures::Both);
        if signed
            && trust.manifest == ManifestRule::Optional
            && self.last_origin("trust.manifest", None) != SettingOrigin::Default
        {
            let message = format!(
                "`trust.require: {}` conflicts with `trust.manifest: optional`",
                trust.require.name()
            );
            conflict(
                "trust.manifest",
                message,
                "a manifest signature needs a manifest: remove `trust.manifest`",
            );
        }
        if trust.threshold > 1 && !signed {
            let message = "`trust.threshold` counts manifest signatures, but none is required".to_owned();
            conflict("trust.threshold", message, "set `trust.require: manifest`");
        }
        if matches!(settings.board.kind, BoardKind::Git | BoardKind::Nats) && settings.board.url.is_none() {
            let message = format!("`board.kind: {}` needs `board.url`", settings.board.kind.name());
            conflict("board.kind", message, "set `board.url` to the address of the board");
        }
        for (i, window) in settings.windows.iter().enumerate() {
            if window.from == window.to {
                conflict(
                    "windows",
                    format!("`windows[{i}]` starts and ends at the same time"),
                    "for a whole day, use `00:00` to `24:00`",
                );
            }
        }
        for (path, dir) in [("root", &settings.root), ("facts_dir", &settings.facts_dir)] {
            if !dir.is_absolute() {
                conflict(path, format!("`{path}` is not an absolute path"), "start it with `/`");
            }
        }
    }
}

/// What is wrong with a compound target; `None` when nothing is.
fn target_fault(path: &str, text: &str) -> Option<Diagnostic> {
    let error = Target::parse(text, MatchKind::Compound).err()?;
    let diagnostic = Diagnostic::new(code::CONFLICT, format!("`{path}` is not a target: {}", error.message));
    Some(match error.hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    })
}

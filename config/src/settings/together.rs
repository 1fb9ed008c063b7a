//! Checked keys to settings: names parsed, choices made, and what only shows beside other keys.

use super::*;
use crate::ids::{EnvName, NodeId};

/// Every key, checked by itself.
pub(super) struct Whole<'s> {
    pub(super) merged: &'s Merged,
    pub(super) all: &'s Record,
    pub(super) host_name: Option<&'s str>,
}

impl Whole<'_> {
    /// Who said a key last; `Default` when nobody did.
    fn origin(&self, path: &str, entry: Option<&str>) -> Origin {
        let mut said = self.merged.said.iter().filter(|s| s.key.path == path);
        let found = said.find(|s| s.entry.as_deref() == entry || entry.is_none());
        found.map_or(Origin::Default, |s| s.origin.clone())
    }

    fn fault(&self, checker: &mut Checker<'_>, path: &str, entry: Option<&str>, fault: Fault) {
        let origin = self.origin(path, entry);
        checker.fault(At::of(&origin), fault);
    }

    /// The settings; faults are noted, and what they concern has its default.
    pub(super) fn settings(&self, checker: &mut Checker<'_>, effective: Vec<Effective>) -> Settings {
        let all = self.all;
        let mut settings = Settings {
            id: self.id(checker),
            root: all.path("root"),
            source: Source::read(all),
            baked: all.path("baked"),
            states_root: all.path("roots.states"),
            pillar_root: all.path("roots.pillar"),
            environments: self.environments(checker),
            env: self.env("env", checker),
            trust: Trust::read(all),
            run: Run::read(all),
            compat: valid::choice(all, "compat", Compatibility::find),
            facts_dir: all.path("facts_dir"),
            pillar: PillarRules {
                merge: valid::choice(all, "pillar.merge", |name| name.parse().ok()),
                merge_lists: all.flag("pillar.merge_lists"),
                env: self.env("pillar.env", checker),
            },
            ext_pillar: all.programs("ext_pillar"),
            master_tops: all.programs("master_tops"),
            nodegroups: all.groups("nodegroups"),
            cmd_run: valid::choice(all, "templates.cmd_run", Permission::find),
            limits: Limits::read(all),
            health: self.health(checker),
            windows: all.records("windows").iter().map(Window::read).collect(),
            reboot: Reboot::read(all),
            schedule: self.schedule(checker),
            board: Board::read(all),
            rollout: Rollout::read(all),
            driver: all.flag("driver"),
            listen: all.address_if("listen"),
            socket_group: all.text_if("socket_group").map(str::to_owned),
            audit: all.path_if("audit"),
            webhooks: all.records("webhooks").iter().map(Webhook::read).collect(),
            resources_key: all.text("resources_key"),
            effective,
        };
        self.together(&settings, checker);
        self.show_derived(&mut settings);
        settings
    }

    /// Values that follow from others: the id from the host's name, a manifest from a signature on it.
    fn show_derived(&self, settings: &mut Settings) {
        if matches!(settings.trust.require, Require::Manifest | Require::Both) {
            settings.trust.manifest = ManifestRule::Required;
            if let Some(shown) = settings.effective.iter_mut().find(|e| e.key == "trust.manifest") {
                shown.value = ManifestRule::Required.name().into();
                shown.origin = self.origin("trust.require", None);
            }
        }
        if let Some(shown) =
            settings.effective.iter_mut().find(|e| e.key == "id" && e.origin == Origin::Default)
        {
            shown.value = settings.id.as_str().into();
            shown.origin = if self.host_name.is_some() { Origin::HostName } else { Origin::Default };
        }
    }

    /// The id that was said, or the host's name; a host whose name is no id is `localhost`.
    fn id(&self, checker: &mut Checker<'_>) -> NodeId {
        if let Some(text) = self.all.text_if("id") {
            match text.parse() {
                Ok(id) => return id,
                Err(error) => {
                    let fault = Fault::new(code::NODE_ID, format!("`{text}` cannot be an id: {error}"));
                    self.fault(checker, "id", None, fault);
                }
            }
        }
        self.host_name.and_then(|name| name.parse().ok()).unwrap_or_else(NodeId::localhost)
    }

    fn env(&self, path: &str, checker: &mut Checker<'_>) -> Option<EnvName> {
        let text = self.all.text_if(path)?;
        match text.parse() {
            Ok(name) => Some(name),
            Err(error) => {
                let fault = Fault::new(code::NODE_ID, format!("`{path}` cannot be `{text}`: {error}"));
                self.fault(checker, path, None, fault);
                None
            }
        }
    }

    fn environments(&self, checker: &mut Checker<'_>) -> Vec<Environment> {
        let mut out = Vec::new();
        for (name, record) in self.all.named("environments") {
            match name.parse() {
                Ok(name) => out.push(Environment {
                    name,
                    states: record.path_if("states"),
                    pillar: record.path_if("pillar"),
                }),
                Err(error) => {
                    let fault =
                        Fault::new(code::NODE_ID, format!("`{name}` cannot be an environment: {error}"));
                    self.fault(checker, "environments", Some(name), fault);
                }
            }
        }
        out
    }

    fn health(&self, checker: &mut Checker<'_>) -> Vec<Health> {
        let mut out = Vec::new();
        for (i, r) in self.all.records("health").iter().enumerate() {
            let text = |name: &str| r.text_if(name).map(str::to_owned);
            let mut checks: Vec<HealthCheck> = [
                text("http").map(HealthCheck::Http),
                text("tcp").map(HealthCheck::Tcp),
                text("unit").map(HealthCheck::Unit),
                text("command").map(HealthCheck::Command),
            ]
            .into_iter()
            .flatten()
            .collect();
            let (Some(check), true) = (checks.pop(), checks.is_empty()) else {
                let message =
                    format!("`health[{i}]` needs exactly one of `http`, `tcp`, `unit` and `command`");
                self.fault(checker, "health", None, Fault::new(code::CONFLICT, message));
                continue;
            };
            // What cannot hold a secret is its own name.
            let target = text("unit").or_else(|| text("tcp"));
            out.push(Health {
                name: text("name").or(target).unwrap_or_else(|| format!("health-{}", i + 1)),
                check,
                required: r.flag("required"),
                timeout: r.time("timeout"),
                tries: r.count("tries"),
            });
        }
        out
    }

    fn schedule(&self, checker: &mut Checker<'_>) -> Vec<Scheduled> {
        let mut out = Vec::new();
        for (name, r) in self.all.named("schedule") {
            let cron = r.text_if("cron").and_then(|text| text.parse().ok());
            let when = match (r.time_if("every"), cron) {
                (Some(every), None) => When::Every(every),
                (None, Some(cron)) => When::Cron(cron),
                _ => {
                    let message = format!("`schedule.{name}` needs either `every` or `cron`");
                    self.fault(checker, "schedule", Some(name), Fault::new(code::CONFLICT, message));
                    continue;
                }
            };
            out.push(Scheduled {
                name: name.clone(),
                when,
                splay: r.time("splay"),
                maxrunning: r.count("maxrunning"),
                catch_up: r.flag("catch_up"),
                sls: r.texts("sls"),
                test: r.flag("test"),
            });
        }
        out
    }

    fn together(&self, settings: &Settings, checker: &mut Checker<'_>) {
        let mut conflict = |path: &str, message: String, hint: &str| {
            self.fault(checker, path, None, Fault::new(code::CONFLICT, message).hint(hint));
        };
        let trust = &settings.trust;
        let signed = matches!(trust.require, Require::Manifest | Require::Both);
        if signed
            && trust.manifest == ManifestRule::Optional
            && self.origin("trust.manifest", None) != Origin::Default
        {
            let message = format!("`trust.require: {}` and `trust.manifest: optional`", trust.require.name());
            conflict("trust.manifest", message, "a signature needs a manifest: leave `trust.manifest` away");
        }
        if trust.threshold > 1 && !signed {
            let message =
                "`trust.threshold` counts signatures of a manifest, and none is required".to_owned();
            conflict("trust.threshold", message, "set `trust.require: manifest`");
        }
        if matches!(settings.board.kind, BoardKind::Git | BoardKind::Nats) && settings.board.url.is_none() {
            let message = format!("a board of kind `{}` needs `board.url`", settings.board.kind.name());
            conflict("board.kind", message, "say where the board is");
        }
        for (i, window) in settings.windows.iter().enumerate() {
            if window.from == window.to {
                conflict(
                    "windows",
                    format!("`windows[{i}]` ends when it starts"),
                    "for a whole day: `00:00` to `24:00`",
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

//! Every file of the watchdog, damaged in every way, in every phase: the node is always managed, and never by a version
//! that was not confirmed.
//!
//! `PAIRS=all` also damages every pair of files; without it, the pairs of the two copies of the phase.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zagent_rollout::record::BatchPhase;
use zagent_rollout::watchdog::WatchdogStatus;

use super::site::{GOOD, HANGS, Site};

const OLD: &str = "0.1.0";
const NEW: &str = "0.2.0";

/// The files, below the root of the node.
const PHASE: &str = "state/phase";
const COPY: &str = "trust/phase";
const SAVED: &str = "state/watchdog";
const LINK: &str = "slots/current";
const FILES: [&str; 6] = [PHASE, COPY, SAVED, LINK, "slots/0.2.0/zagent", "slots/0.2.0/slot.json"];

/// Where the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Preparing,
    Staged,
    Applying,
    Soaking,
    RollingBack,
    Rejected,
    Confirmed,
}

const STAGES: [Stage; 8] = [
    Stage::Fresh,
    Stage::Preparing,
    Stage::Staged,
    Stage::Applying,
    Stage::Soaking,
    Stage::RollingBack,
    Stage::Rejected,
    Stage::Confirmed,
];

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Truncated,
    Zeroed,
    Flipped,
    Missing,
    Old,
}

const DAMAGES: [Damage; 5] =
    [Damage::Truncated, Damage::Zeroed, Damage::Flipped, Damage::Missing, Damage::Old];

/// The content of a file: bytes, or the target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Bytes(Vec<u8>),
    Link(PathBuf),
}

fn content(path: &Path) -> Option<Content> {
    match fs::read_link(path) {
        Ok(target) => Some(Content::Link(target)),
        Err(_) => fs::read(path).ok().map(Content::Bytes),
    }
}

/// A node that was cut off in a stage, to be damaged again and again.
struct Cut {
    stage: Stage,
    site: Site,
    /// The files before the last step.
    old: BTreeMap<&'static str, Content>,
}

impl Cut {
    fn at(stage: Stage) -> Self {
        let site = Site::new();
        // An agent that does not stop is replaced only by a kill.
        let stubborn = "echo $VERSION > $ROOT/ready; trap '' TERM";
        site.release(OLD, if stage == Stage::Applying { stubborn } else { GOOD }, "");
        let bad = matches!(stage, Stage::RollingBack | Stage::Rejected);
        site.release(NEW, if bad { HANGS } else { GOOD }, "");
        match stage {
            Stage::Preparing => site.write("slow", b""),
            Stage::Applying | Stage::RollingBack => site.write("patient", b""),
            _ => {}
        }
        let mut cut = Self { stage, site, old: BTreeMap::new() };
        cut.site.start();
        cut.site.until("the agent", |site| site.living().pop());
        cut.lead();
        cut.site.power_cut();
        cut.site.release(OLD, GOOD, "");
        for name in ["slow", "patient"] {
            let _ = fs::remove_file(cut.site.path(name));
        }
        // Nothing new is ordered: what follows comes from the files alone.
        cut.site.write("offline", b"");
        cut.save();
        cut
    }

    /// Drives the rollout to the stage.
    fn lead(&mut self) {
        let steps: &[(BatchPhase, &str)] = match self.stage {
            Stage::Fresh => return,
            Stage::Preparing => &[(BatchPhase::Prepare, "preparing")],
            Stage::Staged => &[(BatchPhase::Prepare, "preparing staged")],
            Stage::Applying => &[(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "applying")],
            Stage::Soaking => &[(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "soaking")],
            Stage::RollingBack => {
                &[(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "soaking rolling-back")]
            }
            Stage::Rejected => &[(BatchPhase::Prepare, "staged"), (BatchPhase::Apply, "soaking idle")],
            Stage::Confirmed => &[
                (BatchPhase::Prepare, "staged"),
                (BatchPhase::Apply, "soaking"),
                (BatchPhase::Confirm, "idle"),
            ],
        };
        for (phase, words) in steps {
            self.note_old();
            self.site.order(NEW, *phase, |_| ());
            for word in words.split(' ') {
                self.note_old();
                self.site.status_with(word, |status| {
                    let ready = word != "soaking" || self.stage != Stage::Confirmed || is_ready(status);
                    status.node.phase.name() == word && ready
                });
            }
        }
        if self.stage == Stage::Confirmed {
            self.site.status_with("the renewed watchdog", |s| s.watchdog.as_ref().unwrap().version == NEW);
        }
    }

    fn note_old(&mut self) {
        for file in FILES {
            if let Some(found) = content(&self.site.path("root").join(file)) {
                self.old.insert(file, found);
            }
        }
    }

    fn save(&self) {
        for volatile in ["root/run", "root/state/heartbeats"] {
            let _ = fs::remove_dir_all(self.site.path(volatile));
        }
        copy(&self.site.path("root"), &self.site.path("saved"));
    }

    /// The damages that make sense here: a file that is not there cannot be damaged, one that is the same is not old.
    fn damages(&self, file: &'static str) -> Vec<(&'static str, Damage)> {
        let saved = content(&self.site.path("saved").join(file));
        let old = self.old.get(file);
        let is_real = |damage: &Damage| match damage {
            Damage::Old => old.is_some() && old != saved.as_ref(),
            _ => saved.is_some(),
        };
        DAMAGES.into_iter().filter(is_real).map(|damage| (file, damage)).collect()
    }

    /// Puts everything back as it was at the cut, and damages it.
    fn damage(&self, damages: &[(&'static str, Damage)]) {
        let root = self.site.path("root");
        fs::remove_dir_all(&root).unwrap();
        copy(&self.site.path("saved"), &root);
        for name in ["starts", "ready", "report.json"] {
            let _ = fs::remove_file(self.site.path(name));
        }
        for (file, damage) in damages {
            let path = root.join(file);
            let found = content(&path);
            let _ = fs::remove_file(&path);
            if let Some(new) = damaged(*damage, found, self.old.get(file)) {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                match new {
                    Content::Bytes(bytes) => fs::write(&path, bytes).unwrap(),
                    Content::Link(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
                }
            }
        }
    }

    /// The node starts with these damages; everything that must hold is checked.
    fn survives(&mut self, damages: &[(&'static str, Damage)]) {
        let case = format!("{:?} {damages:?}", self.stage);
        self.damage(damages);
        self.site.start();
        let is_confirmed = self.stage == Stage::Confirmed;
        let hits = |file: &str| damages.iter().any(|(hit, _)| *hit == file);
        let may_try = matches!(self.stage, Stage::Applying | Stage::Soaking) && !hits(PHASE);
        let good = |version: &str| version == OLD || is_confirmed && version == NEW;
        let status = self.site.until(&case, |site| {
            let status = site.status()?;
            let rests = match status.node.phase.name() {
                "idle" => true,
                "preparing" => self.stage == Stage::Preparing && !hits(PHASE),
                "staged" => self.stage == Stage::Staged && !hits(PHASE),
                "soaking" => may_try && is_ready(&status),
                _ => false,
            };
            // One agent, which works; not one that is being replaced.
            let (living, version) = (site.living(), &status.version);
            let ready = fs::read_to_string(site.path("ready")).unwrap_or_default();
            let works = living.len() == 1 && living[0].1 == *version && ready.trim() == *version;
            (rests && works && status.child.is_some()).then_some(status)
        });
        let is_trial = status.node.is_unconfirmed();
        assert!(good(&status.node.running), "{case}: {status:#?}");
        assert!(good(&status.version) || is_trial && may_try, "{case}: {status:#?}");
        let tried: Vec<_> = self.site.starts().into_iter().map(|(_, version)| version).collect();
        assert!(may_try || tried.iter().all(|version| good(version)), "{case}: {tried:?}");
        if hits(PHASE) {
            let said = status.notes.iter().any(|note| note.starts_with("state/phase is"));
            assert!(said, "{case}: {:?}", status.notes);
        }
        if !hits(PHASE) && !hits(FILES[4]) && !hits(FILES[5]) {
            let expected = if is_confirmed || is_trial { NEW } else { OLD };
            assert_eq!(status.version, expected, "{case}: harmless damage changes nothing");
        }
        if hits(PHASE) && !hits(COPY) && self.stage == Stage::Rejected {
            assert!(status.node.rejected.contains_key(NEW), "{case}: {status:#?}");
        }
        self.site.power_cut();
    }
}

fn is_ready(status: &WatchdogStatus) -> bool {
    use zagent_rollout::phase::NodePhase;
    matches!(status.node.phase, NodePhase::Soaking { ready_since: Some(_), .. })
}

fn damaged(damage: Damage, found: Option<Content>, old: Option<&Content>) -> Option<Content> {
    match (damage, found?) {
        (Damage::Missing, _) => None,
        (Damage::Old, _) => old.cloned(),
        // A link is one name: the damaged one leads nowhere.
        (Damage::Truncated, Content::Link(_)) => Some(Content::Link("0.".into())),
        (Damage::Zeroed, Content::Link(_)) => Some(Content::Bytes(vec![])),
        (Damage::Flipped, Content::Link(_)) => Some(Content::Link("1.2.0".into())),
        (Damage::Truncated, Content::Bytes(bytes)) => Some(Content::Bytes(bytes[..bytes.len() / 2].to_vec())),
        (Damage::Zeroed, Content::Bytes(bytes)) => Some(Content::Bytes(vec![0; bytes.len()])),
        (Damage::Flipped, Content::Bytes(mut bytes)) => {
            // In the version that counts as good, where there is one: the file still parses.
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let at = text.find("0.1.0").or_else(|| text.find("0.2.0")).map_or(bytes.len() / 2, |at| at + 2);
            bytes[at] ^= 1;
            Some(Content::Bytes(bytes))
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

/// Runs the cases of every stage, each stage on a node and a thread of its own; the number of cases.
fn in_every_stage(cases: impl Fn(&Cut) -> Vec<Vec<(&'static str, Damage)>> + Sync) -> usize {
    std::thread::scope(|scope| {
        let run = |stage| {
            let mut cut = Cut::at(stage);
            let all = cases(&cut);
            all.iter().for_each(|damages| cut.survives(damages));
            all.len()
        };
        let stages: Vec<_> = STAGES.into_iter().map(|stage| scope.spawn(move || run(stage))).collect();
        stages.into_iter().map(|stage| stage.join().unwrap()).sum()
    })
}

#[test]
fn any_damage_of_any_file_in_any_phase_leaves_a_confirmed_version_running() {
    let cases = in_every_stage(|cut| {
        let single = FILES.into_iter().flat_map(|file| cut.damages(file));
        single.map(|damage| vec![damage]).collect()
    });
    println!("{cases} cases");
    assert!(cases > 150, "{cases}");
}

#[test]
fn any_damage_of_two_files_in_any_phase_leaves_a_confirmed_version_running() {
    let all = std::env::var_os("PAIRS").is_some_and(|pairs| pairs == "all");
    let cases = in_every_stage(|cut| {
        let mut pairs = vec![];
        for (n, one) in FILES.into_iter().enumerate() {
            for other in &FILES[n + 1..] {
                if !all && (one, *other) != (PHASE, COPY) {
                    continue;
                }
                for first in cut.damages(one) {
                    pairs.extend(cut.damages(other).into_iter().map(|second| vec![first, second]));
                }
            }
        }
        pairs
    });
    println!("{cases} cases");
    assert!(cases > 120, "{cases}");
}

/// The watchdog alone dies, and its record of the agent is lost: the agent that runs is still found.
#[test]
fn an_agent_whose_record_is_lost_is_found_and_replaced() {
    let mut site = Site::new();
    for damage in DAMAGES {
        site.start();
        let first = site.until("the agent", |site| site.living().pop());
        site.kill();
        let path = site.paths().watchdog();
        let found = content(&path);
        fs::remove_file(&path).unwrap();
        // Of another agent, long ago.
        let stale = Content::Bytes(br#"{"open": true}"#.to_vec());
        if let Some(Content::Bytes(bytes)) = damaged(damage, found, Some(&stale)) {
            fs::write(&path, bytes).unwrap();
        }
        site.start();
        site.until("one other agent", |site| {
            Some(site.living()).filter(|all| all.len() == 1 && all[0].0 != first.0)
        });
        site.power_cut();
    }
}

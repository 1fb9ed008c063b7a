//! When a cached plan is reused, and what makes it compile again.

use std::sync::Arc;
use std::time::Duration;

use zagent_compiler::{CompileOptions, Compiler, TemplateHost};
use zagent_config::Map;

use super::*;
use zagent_states::file_tree::DirFiles;
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};
use zagent_states::template_host::recorded_facts::RecordedFacts;

pub(super) struct Place {
    pub(super) dir: tempfile::TempDir,
    pub(super) colour: &'static str,
}

impl Place {
    pub(super) fn new(sls: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["states", "pillar"] {
            std::fs::create_dir(dir.path().join(sub)).unwrap();
        }
        let place = Self { dir, colour: "red" };
        place.write("states/top.sls", "base:\n  '*':\n    - web\n");
        place.write("states/web.sls", sls);
        place.write("pillar/top.sls", "base: {}\n");
        place
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.dir.path().join(path), text).unwrap();
    }

    pub(super) fn inputs(&self) -> CompileInputs {
        let mut facts = Map::new();
        facts.insert("id", "web1");
        facts.insert("colour", self.colour);
        let host: Arc<dyn TemplateHost> = Arc::new(LiveHost::new(
            Arc::new(RecordedFacts::new(facts)),
            LiveHostSettings::new("web1", zagent_host::Machine::this_host()),
        ));
        CompileInputs {
            states: Arc::new(DirFiles::base(self.dir.path().join("states"))),
            pillar: Arc::new(DirFiles::base(self.dir.path().join("pillar"))),
            host,
            schema: zagent_states::schema(),
            options: Arc::new(CompileOptions { id: "web1".into(), ..CompileOptions::default() }),
        }
    }

    fn compile_and_keep(&self, now: SystemTime) {
        let inputs = self.inputs();
        let (traced, trace) = CompileTrace::trace_inputs(&inputs);
        let compiler = Compiler::new(traced);
        let plan = compiler.compile(&CompileTarget::Highstate).unwrap().plan;
        save(&self.kept(), &self.key(), &trace, (&plan, &compiler.pillar().unwrap()), now).unwrap();
    }

    pub(super) fn kept(&self) -> PathBuf {
        self.dir.path().join("kept")
    }

    fn key(&self) -> PlanKey {
        PlanKey::new(&self.inputs(), &CompileTarget::Highstate, "")
    }

    fn load(&self) -> Option<Vec<String>> {
        let kept = load(&self.kept(), &self.key(), &self.inputs())?;
        Some(kept.plan.chunks.iter().map(zagent_compiler::Chunk::tag).collect())
    }
}

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(60)
}

const SLS: &str =
    "{{ grains['colour'] }}:\n  test.nop\n{% if salt['file.file_exists']('/') %}x:\n  test.nop\n{% endif %}";

#[test]
fn a_plan_is_reused_while_all_inputs_are_unchanged() {
    let place = Place::new(SLS);
    assert_eq!(place.load(), None);
    place.compile_and_keep(later());
    assert_eq!(place.load(), Some(vec!["test_|-red_|-red_|-nop".into()]));
}

#[test]
fn a_changed_file_a_changed_grain_or_a_new_file_invalidates_it() {
    let mut place = Place::new(SLS);
    place.compile_and_keep(later());
    place.colour = "blue";
    assert_eq!(place.load(), None, "another fact");
    place.colour = "red";
    assert!(place.load().is_some());
    place.write("states/web.sls", "other:\n  test.nop\n");
    assert_eq!(place.load(), None, "another text");
    place.compile_and_keep(later());
    assert!(place.load().is_some());
    place.write("pillar/top.sls", "base: {'*': []}\n");
    assert_eq!(place.load(), None, "another pillar");
}

#[test]
fn random_functions_are_compiled_each_time() {
    let place = Place::new("x{{ range(100000) | random }}{{ range(100000) | random }}:\n  test.nop\n");
    place.compile_and_keep(later());
    assert_eq!(place.load(), None);
}

#[test]
fn a_file_that_has_just_changed_is_not_trusted() {
    let place = Place::new(SLS);
    place.compile_and_keep(SystemTime::now());
    assert_eq!(place.load(), None);
}

#[test]
fn a_damaged_plan_is_ignored() {
    let place = Place::new(SLS);
    place.compile_and_keep(later());
    let path = place.key().plan_path(&place.kept());
    let whole = std::fs::read(&path).unwrap();
    for n in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[n] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(place.load(), None, "damaged at {n}");
        std::fs::write(&path, &whole[..n]).unwrap();
        assert_eq!(place.load(), None, "cut at {n}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(place.load().is_some());
}

#[test]
fn only_a_few_plans_are_kept_and_only_for_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(SLS);
    place.compile_and_keep(later());
    let path = place.key().plan_path(&place.kept());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for n in 0..20 {
        std::fs::copy(&path, path.with_file_name(format!("{n}.plan"))).unwrap();
    }
    place.compile_and_keep(later());
    assert!(std::fs::read_dir(place.kept()).unwrap().count() <= MAX_PLANS);
}

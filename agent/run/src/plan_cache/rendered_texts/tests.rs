//! Runs that render templates of managed files, again and again, while a tree changes.

use std::time::Duration;

use proptest::prelude::*;
use zagent_compiler::{CompileTarget, Compiler};
use zagent_config::Map;

use super::super::tests::Place;
use super::*;

/// What one run rendered, and how many of it the compiler had to render.
fn run(place: &Place, templates: &[FileTemplate], allowed: RenderedTextsUse) -> (Vec<String>, usize) {
    let inputs = place.inputs();
    let (traced, _) = CompileTrace::trace_inputs(&inputs);
    let (file_inputs, recording) = CompileTrace::trace_inputs(&inputs);
    let compiler = Compiler::with_file_inputs(traced, file_inputs);
    let pillar = compiler.pillar().unwrap();
    let (dir, key) = (place.kept(), PlanKey::new(&inputs, &CompileTarget::Highstate, ""));
    let at = RenderedTextsPlace { dir: &dir, key: &key, inputs: &inputs, pillar: &pillar };
    let texts = RenderedTexts::default();
    texts.allow(allowed);
    let mut rendered = 0;
    let made = templates
        .iter()
        .map(|template| {
            let made = texts.get_or_render(&at, template, || {
                rendered += 1;
                let calls = recording.call_count();
                let FileTemplate { env, path, source, variables } = template;
                let text = compiler.render_file(env, path, source, variables);
                Ok((text.map_err(|fault| fault.to_string())?, recording.call_count() == calls))
            });
            made.unwrap()
        })
        .collect();
    if compiler.are_file_variables_unchanged() {
        texts.save(&at, &recording, SystemTime::now() + Duration::from_secs(60)).unwrap();
    }
    (made, rendered)
}

const KEPT: RenderedTextsUse = RenderedTextsUse { load: true, save: true };
const FRESH: RenderedTextsUse = RenderedTextsUse { load: false, save: false };

fn template(path: &str, source: &str, n: i64) -> FileTemplate {
    let mut variables = Map::new();
    variables.insert("n", Value::Int(n));
    FileTemplate { env: "base".into(), path: path.into(), source: source.into(), variables }
}

#[test]
fn only_what_changed_is_rendered_again() {
    let place = Place::new("x:\n  test.nop\n");
    let all = |n: i64| {
        [template("a", "a {{ n }}", 1), template("b", "b {{ n }}", n), template("a", "c {{ n }}", 1)]
    };
    let made = |n: &str| ["a 1".to_owned(), format!("b {n}"), "c 1".to_owned()].to_vec();
    assert_eq!(run(&place, &all(2), KEPT), (made("2"), 3));
    assert_eq!(run(&place, &all(2), KEPT), (made("2"), 0));
    assert_eq!(run(&place, &all(3), KEPT), (made("3"), 1));
    assert_eq!(run(&place, &all(3), KEPT), (made("3"), 0));
    // The last run did not ask for it.
    assert_eq!(run(&place, &all(2), KEPT), (made("2"), 1));
    assert_eq!(run(&place, &all(2), FRESH).1, 3);
    // A template that is rendered twice in a run is rendered once.
    let twice = [template("d", "{{ n }}", 1), template("d", "{{ n }}", 1)];
    assert_eq!(run(&place, &twice, KEPT).1, 1);
}

#[test]
fn a_template_that_asks_the_host_is_always_rendered() {
    let place = Place::new("x:\n  test.nop\n");
    let source = "{{ salt['file.file_exists']('/') }} {{ n }}";
    let templates = [template("a", source, 1), template("b", "{{ n }}", 1)];
    let made = ["False 1".to_owned(), "1".to_owned()].to_vec();
    assert_eq!(run(&place, &templates, KEPT), (made.clone(), 2));
    assert_eq!(run(&place, &templates, KEPT), (made, 1));
}

#[test]
fn a_template_that_changes_the_pillar_or_the_grains_keeps_nothing() {
    for change in ["{% do pillar.update({'n': 1}) %}", "{% do grains.setdefault('n', 1) %}"] {
        let place = Place::new("x:\n  test.nop\n");
        let templates =
            [template("a", change, 1), template("b", "{{ pillar.get('n') }} {{ grains.get('n') }}", 1)];
        let (first, rendered) = run(&place, &templates, KEPT);
        assert_eq!(run(&place, &templates, KEPT), (first, rendered), "{change}");
    }
}

#[test]
fn damaged_texts_are_rendered_again() {
    let place = Place::new("x:\n  test.nop\n");
    let templates = [template("a", "{{ n }}", 1)];
    run(&place, &templates, KEPT);
    let files = || std::fs::read_dir(place.kept()).unwrap().map(|entry| entry.unwrap().path());
    let path = files().find(|path| path.extension().is_some_and(|end| end == EXTENSION)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 10, 60, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(run(&place, &templates, FRESH), (vec!["1".to_owned()], 1));
        assert_eq!(
            run(&place, &templates, RenderedTextsUse { load: true, save: false }).1,
            1,
            "cut at {cut}"
        );
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(run(&place, &templates, KEPT).1, 0);
}

/// A change of something that templates may read.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    Import(u8),
    NewFile(u8),
    RemovedFile(u8),
    Grain(u8),
    Pillar(u8),
    Source(u8),
    Variable(u8),
}

fn change() -> impl Strategy<Value = Change> {
    let n = 0u8..4;
    prop_oneof![
        Just(Change::Nothing),
        n.clone().prop_map(Change::Import),
        n.clone().prop_map(Change::NewFile),
        n.clone().prop_map(Change::RemovedFile),
        n.clone().prop_map(Change::Grain),
        n.clone().prop_map(Change::Pillar),
        n.clone().prop_map(Change::Source),
        n.prop_map(Change::Variable),
    ]
}

const SOURCES: [&str; 4] = [
    "{% from 'm0.jinja' import x %}{{ x }} {{ n }}",
    "{% include 'm1.jinja' ignore missing %}{{ grains['colour'] }} {{ n }}",
    "{{ pillar.get('p') }} {{ salt['pillar.get']('p') }} {% import_yaml 'm2.jinja' as y %}{{ y }}",
    "{{ salt['cp.list_master']() }} {{ salt['file.file_exists']('/') }} {{ grains | length }}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn runs_with_kept_texts_make_the_files_of_fresh_runs(changes in prop::collection::vec(change(), 1..12)) {
        let mut place = Place::new("x:\n  test.nop\n");
        let (mut rotation, mut n) = (0, 0);
        for i in 0..3 {
            place.write(&format!("states/m{i}.jinja"), &format!("{{% set x = {i} %}}"));
        }
        for (step, change) in changes.iter().enumerate() {
            match change {
                Change::Nothing => {}
                Change::Import(i) => {
                    let path = format!("states/m{}.jinja", i % 3);
                    place.write(&path, &format!("{{% set x = 'step {step}' %}}{step}"));
                }
                Change::NewFile(i) => place.write(&format!("states/new{i}"), "new"),
                Change::RemovedFile(i) => drop(std::fs::remove_file(place.dir.path().join(format!("states/new{i}")))),
                Change::Grain(i) => place.colour = ["red", "green", "blue", "black"][usize::from(*i)],
                Change::Pillar(i) => {
                    place.write("pillar/top.sls", "base:\n  '*':\n    - p\n");
                    place.write("pillar/p.sls", &format!("p: {i}\n"));
                }
                Change::Source(i) => rotation = usize::from(*i),
                Change::Variable(i) => n = i64::from(*i),
            }
            let templates: Vec<_> = (0..SOURCES.len())
                .map(|i| template(&format!("t{i}"), SOURCES[(i + rotation) % SOURCES.len()], n))
                .collect();
            let kept = run(&place, &templates, KEPT).0;
            prop_assert_eq!(kept, run(&place, &templates, FRESH).0, "step {}", step);
        }
    }
}

//! What Salt made of the trees in `tests/corpus`, zagent must make of them too: one test an area, every failing case named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zagent_tests::corpus::{Case, Rigour, cases};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn all() -> Vec<Case> {
    cases(&root()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the cases that `wanted` picks; the summary line and a line for each failing case.
fn run(rigour: Rigour, wanted: impl Fn(&Case) -> bool) -> (usize, Vec<String>) {
    let grains = root().join("grains.json");
    let mut passed = 0;
    let mut failed = Vec::new();
    for case in all().iter().filter(|case| !case.skipped() && wanted(case)) {
        match case.run(&grains, rigour) {
            Ok(mismatches) if mismatches.is_empty() => passed += 1,
            Ok(mismatches) => {
                let why: Vec<_> = mismatches.iter().map(|mismatch| format!("    {mismatch}")).collect();
                failed.push(format!("{}\n{}", case.name, why.join("\n")));
            }
            Err(mismatch) => failed.push(mismatch.to_string()),
        }
    }
    (passed, failed)
}

fn area(name: &str) {
    let (passed, failed) = run(Rigour::Meaning, |case| case.area() == name);
    assert!(failed.is_empty(), "{name}: {passed} passed, {} failed\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "{name}: no case ran");
}

/// Cases whose high state Salt prints with its own `__extend__` and `__exclude__` beside the ids, and the one whose
/// order number is a boolean there.
const NOT_TO_THE_LETTER: [&str; 16] = [
    "exc_everything",
    "exc_extender_sls",
    "exc_id",
    "exc_required_id",
    "exc_sls",
    "exc_sls_string",
    "exc_unknown",
    "ext_add_arg",
    "ext_add_requisite",
    "ext_add_watch",
    "ext_names_over_names",
    "ext_override_arg",
    "ext_watch_any_not_merged",
    "ext_wrong_state",
    "mixed_require_in_and_extend",
    "order_true_bool",
];

#[test]
fn all_others_agree_to_the_letter() {
    let (passed, failed) = run(Rigour::Letter, |case| !NOT_TO_THE_LETTER.contains(&case.name.as_str()));
    assert!(failed.is_empty(), "{passed} passed, {} failed\n{}", failed.len(), failed.join("\n"));
}

macro_rules! areas {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            area(stringify!($name));
        })*

        #[test]
        fn no_area_is_forgotten() {
            let known: BTreeSet<&str> = [$(stringify!($name)),*].into();
            let cases = all();
            let found: BTreeSet<&str> = cases.iter().map(Case::area).collect();
            assert_eq!(known, found);
        }
    };
}

areas!(
    cmd,
    conditionals,
    decl,
    extend_exclude,
    file,
    formula_style,
    graph_stress,
    include,
    jinja_core,
    jinja_filters,
    jinja_salt,
    names_order,
    onchanges_onfail,
    pillar,
    prereq,
    render_yaml,
    require,
    runtime,
    top,
    use_listen_mixed,
    watch,
);

//! zagent must produce what Salt produced from the trees in `tests/corpus`: one test per area, every failing case is
//! named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zagent_tests::corpus::{Answer, Ask, Case, Closeness, Mismatch, Rigour, Staged, answer, cases};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn all() -> Vec<Case> {
    cases(&root()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a check on the selected cases; returns how many agree, and a text for each that does not.
fn ask(
    wanted: impl Fn(&Case) -> bool,
    question: impl Fn(&Case, &Path) -> Result<Vec<Mismatch>, Mismatch>,
) -> (usize, Vec<String>) {
    let grains = root().join("grains.json");
    let mut passed = 0;
    let mut failed = Vec::new();
    for case in all().iter().filter(|case| !case.skipped() && wanted(case)) {
        match question(case, &grains) {
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

/// A case of an area is shown, then run.
fn area(name: &str) {
    let (passed, failed) = ask(
        |case| case.area() == name,
        |case, grains| {
            let mut mismatches = case.show(grains, Rigour::Meaning)?;
            mismatches.extend(case.run(grains, Closeness::Verdicts)?);
            Ok(mismatches)
        },
    );
    assert!(failed.is_empty(), "{name}: {passed} passed, {} failed\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "{name}: no case ran");
}

#[test]
fn every_state_comments_and_changes_like_salt() {
    let (passed, failed) = ask(|_| true, |case, grains| case.run(grains, Closeness::Words));
    assert!(failed.is_empty(), "{passed} passed, {} failed\n{}", failed.len(), failed.join("\n"));
}

/// Cases whose high state Salt prints with its own `__extend__` and `__exclude__` beside the ids, and the one whose
/// order number is a boolean there.
const NOT_TO_THE_LETTER: [&str; 17] = [
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
    "stateconf_one",
];

#[test]
fn all_others_agree_exactly() {
    let (passed, failed) = ask(
        |case| !NOT_TO_THE_LETTER.contains(&case.name.as_str()),
        |case, grains| case.show(grains, Rigour::Letter),
    );
    assert!(failed.is_empty(), "{passed} passed, {} failed\n{}", failed.len(), failed.join("\n"));
}

/// Cases with states that always fail or are misread when they run; by zagent's own rules they do not compile.
const REFUSED_BY_THE_SCHEMA: [&str; 8] = [
    "decl_missing_required_arg",
    "decl_underscore_keys",
    "decl_unknown_kwarg_aborts",
    "order_big_number",
    "order_string_garbage",
    "order_true_bool",
    "rt_show_notification",
    "rt_umask",
];

#[test]
fn strict_rules_refuse_only_what_would_fail() {
    let grains = root().join("grains.json");
    let mut refused = BTreeSet::new();
    for case in all().iter().filter(|case| !case.skipped()) {
        let staged = Staged::new(case, &grains).expect("the case is laid out").strict();
        match answer(Ask::Low, &staged) {
            Ok(Answer::Refused(words)) if words.contains("ZA081") => refused.insert(case.name.clone()),
            Ok(_) => false,
            Err(mismatch) => panic!("{}: {mismatch}", case.name),
        };
    }
    assert_eq!(refused, REFUSED_BY_THE_SCHEMA.map(str::to_owned).into());
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

//! Dependencies point one way: config <- compiler, config <- cache <- rollout, config <- host <- states <- run <- resources <- daemon <- zagent <- tests; and the
//! crates that must stay replaceable are named in one place only.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// A crate of ours and those of ours it may name, from the bottom up.
const MAY_NAME: [(&str, &[&str]); 12] = [
    // In the place of the crate of this name, for `async-nats`.
    ("regex", &[]),
    ("zagent-config", &[]),
    ("zagent-compiler", &["zagent-config"]),
    ("zagent-cache", &["zagent-config"]),
    ("zagent-rollout", &["zagent-config", "zagent-cache"]),
    ("zagent-host", &["zagent-config"]),
    ("zagent-states", &["zagent-config", "zagent-compiler", "zagent-host"]),
    ("zagent-run", &["zagent-config", "zagent-compiler", "zagent-host", "zagent-states"]),
    ("zagent-resources", &["zagent-config", "zagent-compiler", "zagent-host", "zagent-states", "zagent-run"]),
    (
        "zagent-daemon",
        &[
            "zagent-config",
            "zagent-compiler",
            "zagent-cache",
            "zagent-rollout",
            "zagent-host",
            "zagent-states",
            "zagent-run",
            "zagent-resources",
        ],
    ),
    ("zagent", EVERY),
    ("zagent-tests", EVERY),
];

/// What the program and the tests that cross crates may name.
const EVERY: &[&str] = &[
    "zagent-config",
    "zagent-compiler",
    "zagent-cache",
    "zagent-rollout",
    "zagent-host",
    "zagent-states",
    "zagent-run",
    "zagent-resources",
    "zagent-daemon",
    "zagent",
];

/// An external crate (and those with the same prefix and a dash) and the only workspace crates that may use it.
const FENCED: [(&str, &[&str]); 3] =
    [("gix", &["zagent-cache"]), ("minijinja", &["zagent-compiler"]), ("sled", &["zagent-rollout"])];

/// The dependencies of each workspace crate in its `Cargo.toml`, including dev-dependencies.
fn named() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let dependencies =
        |package: &Value| package["dependencies"].as_array().expect("a list").iter().map(name).collect();
    packages.iter().map(|package| (name(package), dependencies(package))).collect()
}

fn family(dependency: &str, fenced: &str) -> bool {
    dependency.strip_prefix(fenced).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[test]
fn dependencies_point_one_way() {
    let named = named();
    let ours: BTreeSet<&str> = named.keys().map(String::as_str).collect();
    assert_eq!(ours, MAY_NAME.iter().map(|(name, _)| *name).collect(), "the crates of the workspace");
    for (name, allowed) in MAY_NAME {
        for dependency in named[name].iter().filter(|dependency| ours.contains(dependency.as_str())) {
            // A crate may depend on itself, to enable a feature for its own tests.
            let fine = dependency == name || allowed.contains(&dependency.as_str());
            assert!(fine, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn fenced_crates_are_named_in_their_place_only() {
    for (name, dependencies) in named() {
        for (fenced, homes) in FENCED {
            let found = dependencies.iter().find(|dependency| family(dependency, fenced));
            assert!(found.is_none() || homes.contains(&name.as_str()), "{name} must not name {found:?}");
        }
    }
}

#[test]
fn crate_families_are_distinguished() {
    assert!(family("gix", "gix") && family("gix-hash", "gix"));
    assert!(!family("gixx", "gix") && !family("sledge", "sled") && !family("minijin", "minijinja"));
}

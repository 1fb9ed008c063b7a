//! The outcomes of the node and of each resource in, the states of one report out: Salt's merge mode.
//!
//! Law: the states of the node come first and unchanged; those of a resource follow in the order of the resources, each under a key
//! with the id of the resource before id and name; run numbers go on; no key is there twice
//! (held by `states_of_resources_follow_with_prefixed_keys`, `a_key_that_is_there_twice_is_an_error_that_names_both`).

use std::collections::{BTreeMap, BTreeSet};

use zagent_config::SecretMask;
use zagent_config::resources::ResourceName;
use zagent_run::StateOutcome;

/// What one resource did.
#[derive(Clone, Debug)]
pub struct ResourceOutcome {
    /// The resource.
    pub name: ResourceName,
    /// Its states, or why it has none.
    pub states: Result<Vec<StateOutcome>, String>,
    /// When it began.
    pub start: jiff::Timestamp,
}

/// How each resource is called in a result: its id, or `type:id` when another one has the same id.
#[must_use]
pub fn labels(names: &[ResourceName]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(&name.id).or_default() += 1;
    }
    let label = |name: &ResourceName| match counts.get(name.id.as_str()) {
        Some(2..) => name.to_string(),
        _ => name.id.clone(),
    };
    names.iter().map(label).collect()
}

/// All states of a report: those of the node, then those of each resource.
#[must_use]
pub fn fold(
    node: Vec<StateOutcome>,
    resources: Vec<ResourceOutcome>,
    mask: &SecretMask,
) -> Vec<StateOutcome> {
    let names: Vec<ResourceName> = resources.iter().map(|outcome| outcome.name.clone()).collect();
    let mut number = node.iter().map(|state| state.run_num + 1).max().unwrap_or(0);
    let mut keys: BTreeMap<String, String> =
        node.iter().map(|state| (state.tag.clone(), "the node".to_owned())).collect();
    let mut states = node;
    for (label, ResourceOutcome { name, states: own, start }) in labels(&names).into_iter().zip(resources) {
        let failed = |words: &str| StateOutcome::resource_failed(&label, words, start, mask);
        let own = match own {
            Ok(own) => own.into_iter().map(|state| state.for_resource(&label)).collect(),
            Err(words) => vec![failed(&words)],
        };
        let mut collisions = BTreeSet::new();
        let mut kept = Vec::with_capacity(own.len());
        for state in own {
            match keys.get(&state.tag) {
                Some(other) => {
                    collisions
                        .insert(format!("`{}` of resource {name} is also a state of {other}", state.tag));
                }
                None => {
                    keys.insert(state.tag.clone(), format!("resource {name}"));
                    kept.push(state);
                }
            }
        }
        if !collisions.is_empty() {
            let all: Vec<String> = collisions.into_iter().collect();
            let words = format!("two states have the same key: {}; rename one of them", all.join(", "));
            kept.retain(|state| state.tag != failed("").tag);
            kept.push(failed(&words));
        }
        for mut state in kept {
            state.run_num = number;
            number += 1;
            states.push(state);
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use zagent_run::samples;

    use super::*;

    fn outcome(function: &str, id: &str, name: &str, number: u64) -> StateOutcome {
        let mut outcome = samples::state(function, id, name);
        outcome.run_num = number;
        outcome
    }

    fn resource(kind: &str, id: &str, states: Result<Vec<StateOutcome>, &str>) -> ResourceOutcome {
        let states = states.map_err(str::to_owned);
        ResourceOutcome { name: ResourceName::new(kind, id), states, start: jiff::Timestamp::UNIX_EPOCH }
    }

    fn lines(states: &[StateOutcome]) -> Vec<String> {
        let line = |state: &StateOutcome| format!("{} {} {:?}", state.run_num, state.tag, state.result);
        states.iter().map(line).collect()
    }

    #[test]
    fn states_of_resources_follow_with_prefixed_keys() {
        let install = || outcome("pkg.installed", "install_curl", "curl", 0);
        let node = vec![outcome("file.managed", "motd", "/etc/motd", 0), outcome("cmd.run", "c", "true", 1)];
        let all = vec![
            resource("ssh", "web-01", Ok(vec![install()])),
            resource("ssh", "web-02", Ok(vec![install()])),
            resource("ssh", "web-03", Err("No resource loader for type 'ssh'")),
        ];
        let states = fold(node, all.clone(), &SecretMask::default());
        let want = [
            "0 file_|-motd_|-/etc/motd_|-managed Some(true)",
            "1 cmd_|-c_|-true_|-run Some(true)",
            "2 pkg_|-web-01 install_curl_|-web-01 curl_|-installed Some(true)",
            "3 pkg_|-web-02 install_curl_|-web-02 curl_|-installed Some(true)",
            "4 no_|-web-03_|-web-03_|-None Some(false)",
        ];
        assert_eq!(lines(&states), want);
        assert_eq!((states[2].shown_id(), states[2].name.as_str()), ("web-01 install_curl", "curl"));
        assert_eq!(
            (states[4].name.as_str(), states[4].comment.as_str()),
            ("web-03", "No resource loader for type 'ssh'")
        );
        let pure = fold(Vec::new(), all, &SecretMask::default());
        assert_eq!(lines(&pure)[0], "0 pkg_|-web-01 install_curl_|-web-01 curl_|-installed Some(true)");
    }

    #[test]
    fn a_key_without_four_parts_and_an_empty_top() {
        let mut odd = outcome("a.b", "c", "d", 0);
        odd.tag = "just words".into();
        let empty = StateOutcome::no_resource_states("r", jiff::Timestamp::UNIX_EPOCH);
        let states =
            fold(Vec::new(), vec![resource("ssh", "r", Ok(vec![odd, empty]))], &SecretMask::default());
        assert_eq!(
            lines(&states),
            ["0 no_|-r_|-r_|-None Some(true)", "1 no_|-r states_|-r states_|-None Some(false)"]
        );
        let empty = &states[1];
        assert_eq!(empty.comment, "No Top file or master_tops data matches found for resource 'r'.");
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error_that_names_both() {
        let node = vec![outcome("cmd.run", "r a", "r b", 0)];
        let states = fold(
            node,
            vec![resource("dummy", "r", Ok(vec![outcome("cmd.run", "a", "b", 0)]))],
            &SecretMask::default(),
        );
        assert_eq!(lines(&states), ["0 cmd_|-r a_|-r b_|-run Some(true)", "1 no_|-r_|-r_|-None Some(false)"]);
        for words in ["`cmd_|-r a_|-r b_|-run`", "resource dummy:r", "the node"] {
            assert!(states[1].comment.contains(words), "{}", states[1].comment);
        }
    }

    #[test]
    fn one_id_of_two_types_is_told_apart() {
        let names =
            [("dummy", "a"), ("ssh", "a"), ("ssh", "b")].map(|(kind, id)| ResourceName::new(kind, id));
        assert_eq!(labels(&names), ["dummy:a", "ssh:a", "b"]);
    }
}

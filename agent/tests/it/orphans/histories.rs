//! Random histories of states and of people who change the same host: prune touches nothing that it must not.

use std::collections::BTreeMap;
use std::fs;

use super::{PruneHost, exists};

/// Histories that are played.
const HISTORIES: u64 = 25;
/// Revisions of each.
const REVISIONS: usize = 7;
/// Names that states and people fight about.
const NAMES: [&str; 6] = ["a", "b", "d/c", "d/e", "d/f/g", "h"];

/// Numbers that depend on a seed alone.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What a person wrote at a name, as long as no state overwrote it.
type PeoplesFiles = BTreeMap<&'static str, String>;

fn state(name: &str, number: u64) -> String {
    match number % 3 {
        0 => format!(
            "'{name}-file':\n  file.managed:\n    - name: $H/{name}\n    - makedirs: true\n    - contents: zagent {number}\n"
        ),
        1 => format!(
            "'{name}-append':\n  file.append:\n    - name: $H/{name}\n    - makedirs: true\n    - text: line {number}\n"
        ),
        _ => format!(
            "'{name}-copy':\n  file.managed:\n    - name: $H/{name}\n    - makedirs: true\n    - replace: false\n    - contents: once\n"
        ),
    }
}

fn play(seed: u64) {
    let node = PruneHost::new();
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut people = PeoplesFiles::new();
    let mut log = Vec::new();
    for revision in 0..REVISIONS {
        for name in NAMES {
            match dice.roll(6) {
                0 => {
                    let text = format!("mine {seed} {revision}\n");
                    if fs::create_dir_all(node.host(name).parent().unwrap()).is_ok()
                        && fs::write(node.host(name), &text).is_ok()
                    {
                        people.insert(name, text);
                        log.push(format!("{revision}: a person writes {name}"));
                    }
                }
                1 => {
                    let _ = fs::remove_file(node.host(name));
                    people.remove(name);
                    log.push(format!("{revision}: a person removes {name}"));
                }
                _ => {}
            }
        }
        let mut sls = "always:\n  test.nop: []\n".to_owned();
        let mut declared = Vec::new();
        for name in NAMES {
            if dice.roll(2) == 0 {
                sls += &state(name, dice.roll(4));
                declared.push(name);
            }
        }
        log.push(format!("{revision}: states for {declared:?}"));
        node.states(&sls);
        let before: BTreeMap<&str, Option<Vec<u8>>> =
            NAMES.iter().map(|name| (*name, fs::read(node.host(name)).ok())).collect();
        node.run(&["--prune=file,directory,symlink"]);
        for name in NAMES {
            let now = fs::read(node.host(name)).ok();
            if declared.contains(&name) {
                // Its states decide over it from now on; what a person wrote may be part of it still.
                continue;
            }
            if let Some(text) = people.get(name) {
                assert!(
                    now.as_deref().is_some_and(|now| String::from_utf8_lossy(now).contains(text.as_str()))
                        || before[name].as_deref() == now.as_deref(),
                    "seed {seed}: {name} was a person's: {log:#?}"
                );
            }
        }
        // What a state overwrote belongs to the state, and was found, not made.
        people.retain(|name, text| {
            fs::read_to_string(node.host(name)).is_ok_and(|now| now.contains(text.as_str()))
        });
    }
}

#[test]
fn nothing_unmanaged_is_ever_touched() {
    for seed in 1..=HISTORIES {
        play(seed);
    }
}

#[test]
fn what_a_person_put_in_the_place_of_an_orphan_is_theirs() {
    let node = PruneHost::new();
    let managed = "x:\n  file.managed:\n    - name: $H/x\n    - contents: zagent\n";
    node.states(managed);
    node.run(&[]);
    node.states("n:\n  test.nop: []\n");
    node.run(&[]);
    node.write("host/x", "mine\n");
    node.states(managed);
    node.run(&[]);
    node.states("n:\n  test.nop: []\n");
    node.run(&["--prune=file"]);
    assert!(exists(&node.host("x")));
}

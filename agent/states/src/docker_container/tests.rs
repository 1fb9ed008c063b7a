//! Containers that are replaced and that react, by a program that keeps its containers as files.

use crate::testing::{StateTestBed, apply_chunk, chunk};

/// A program that keeps its containers as files: `NAME` holds whether it runs. `start` of what has a file `broken` fails.
const ENGINE: &str = r#"#!/bin/sh
cd "$(dirname "$0")/all" || exit 1
echo "$*" >> ../said
verb=$1; shift
case $verb in
container|image) name=$3
    test $verb = image && echo '[{"Id": "i2", "Config": {}}]' && exit
    test -e "$name" || { echo "Error: No such container: $name" >&2; exit 1; }
    echo "[{\"Id\": \"$(cat $name.id)\", \"Image\": \"i1\", \"Config\": {}, \"HostConfig\": {}, \"State\": {\"Status\": \"$(cat $name)\"}}]" ;;
create) name=${1#--name=}; echo created > $name; echo new > $name.id ;;
stop) echo exited > $4 ;;
start) test -e ../broken && test "$(cat $2.id)" = new && { echo "port is taken" >&2; exit 125; }; echo running > $2 ;;
rename) mv $2 $3; mv $2.id $3.id ;;
rm) rm $3 $3.id ;;
kill) echo "$*" > ../killed ;;
esac
"#;

fn stage() -> (StateTestBed, String) {
    let test_bed = StateTestBed::new();
    let engine = test_bed.path("engine");
    std::fs::write(&engine, ENGINE).unwrap();
    std::fs::set_permissions(&engine, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir(test_bed.path("all")).unwrap();
    std::fs::write(test_bed.path("all/web"), "running").unwrap();
    std::fs::write(test_bed.path("all/web.id"), "old").unwrap();
    (test_bed, engine)
}

fn containers(test_bed: &StateTestBed) -> Vec<String> {
    let names = std::fs::read_dir(test_bed.path("all"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|n| !n.ends_with(".id"));
    let read =
        |n: &str| std::fs::read_to_string(test_bed.path(&format!("all/{n}"))).unwrap().trim().to_owned();
    let mut all: Vec<String> =
        names.map(|n| format!("{n} {} {}", read(&format!("{n}.id")), read(&n))).collect();
    all.sort_unstable();
    all
}

#[test]
fn the_old_container_goes_once_the_new_one_runs() {
    let (test_bed, engine) = stage();
    let chunk =
        chunk("docker_container.running", "web", &format!(r#"{{"image": "x:2", "provider": "{engine}"}}"#));
    let said = apply_chunk(&chunk, &test_bed.scene());
    assert!(said.starts_with("true \"Replaced container 'web'\""), "{said}");
    assert_eq!(containers(&test_bed), ["web new running"]);
    let acts = std::fs::read_to_string(test_bed.path("said")).unwrap();
    let at = |line: &str| acts.lines().position(|l| l == line).unwrap_or_else(|| panic!("{line}: {acts}"));
    assert!(at("start -- web") < at("rm --force -- web-zagent-old"), "{acts}");
}

#[test]
fn the_old_container_comes_back_when_the_new_one_does_not_start() {
    let (test_bed, engine) = stage();
    std::fs::write(test_bed.path("broken"), "").unwrap();
    let chunk =
        chunk("docker_container.running", "web", &format!(r#"{{"image": "x:2", "provider": "{engine}"}}"#));
    let said = apply_chunk(&chunk, &test_bed.scene());
    assert!(said.starts_with("false") && said.contains("port is taken; the old container is back"), "{said}");
    assert_eq!(containers(&test_bed), ["web old running"]);
}

#[test]
fn a_watch_may_send_a_signal() {
    let (test_bed, engine) = stage();
    for (action, sends) in [("SIGHUP", true), ("force", false)] {
        let args = format!(r#"{{"provider": "{engine}", "watch_action": "{action}"}}"#);
        let chunk = chunk("docker_container.running", "web", &args);
        let done = crate::testing::build_state(&chunk).react(&test_bed.scene()).unwrap();
        assert_eq!(std::fs::read_to_string(test_bed.path("killed")).is_ok(), sends, "{}", done.comment);
        let _ = std::fs::remove_file(test_bed.path("killed"));
        assert_eq!(containers(&test_bed), [if sends { "web old running" } else { "web new running" }]);
    }
}

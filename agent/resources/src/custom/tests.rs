//! Executables that answer, and executables that do not.

use super::*;
use zagent_states::file_tree::DirFiles;

struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("states/_resources")).unwrap();
        std::fs::write(dir.path().join("states/_resources/switch"), format!("#!/bin/sh\n{script}\n"))
            .unwrap();
        Self { dir }
    }

    fn load(&self) -> Result<CustomProgram, ResourceError> {
        let declared =
            CustomType { kind: "switch".into(), config: Value::from_json_str(r#"{"a": 1}"#).unwrap() };
        let limits = CustomLimits { timeout: Duration::from_secs(5), max_output: 64 << 10 };
        let tree = DirFiles::base(self.dir.path().join("states"));
        CustomProgram::load(&declared, &tree, &self.dir.path().join("cache"), &Machine::this_host(), limits)
    }
}

const SWITCH: &str = r#"read -r request
case "$request" in
*'"call":"init"'*) echo '{"functions": ["switch.ports"], "states": ["port"]}';;
*'"call":"discover"'*) echo '{"ids": ["sw-1", "sw-2", "sw-1"]}';;
*'"call":"grains"'*) echo '{"grains": {"ports": 24, "resource_id": "forged"}}';;
*'"call":"ping"'*'"id":"sw-1"'*) echo '{"result": true}';;
*'"call":"ping"'*) echo '{"error": "no route to host"}';;
*'"call":"call"'*) echo '{"result": [1, 2]}';;
esac"#;

#[test]
fn a_type_is_asked_for_ids_grains_and_answers() {
    let bed = Bed::new(SWITCH);
    let tree = DirFiles::base(bed.dir.path().join("states"));
    assert_eq!(provided_types(&tree).unwrap(), ["switch"]);
    let program = bed.load().unwrap();
    let names = program.discover().unwrap();
    assert_eq!(names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["switch:sw-1", "switch:sw-2"]);
    let grains = program.grains(&names[0]).unwrap();
    assert_eq!(grains.get("ports"), Some(&Value::Int(24)));
    assert_eq!(grains.get("resource_id"), Some(&"sw-1".into()), "an answer cannot change who answers");
    assert!(program.ping(&names[0]).unwrap());
    assert!(program.ping(&names[1]).unwrap_err().to_string().contains("no route to host"));
    let call =
        |function: &str| FunctionCall { function: function.into(), args: Vec::new(), kwargs: Map::new() };
    let ports = program.call(&names[0], &call("switch.ports")).unwrap().unwrap();
    assert_eq!(serde_json::to_string(&ports).unwrap(), "[1,2]");
    assert!(program.call(&names[0], &call("pkg.version")).is_none());
    assert_eq!(&*program.states, ["port".to_owned()]);
}

#[test]
fn an_id_from_discovery_is_checked() {
    let script = SWITCH.replace("sw-2", "../../etc");
    let error = Bed::new(&script).load().unwrap().discover().unwrap_err();
    assert!(error.to_string().contains("cannot be the id of a resource"), "{error}");
}

#[test]
fn a_custom_type_that_floods_is_cut_off() {
    let error = Bed::new("yes | head -c 1000000").load().unwrap_err();
    assert!(error.to_string().contains("larger than 65536 bytes"), "{error}");
}

#[test]
fn anything_but_an_answer_is_an_error() {
    for (script, words) in [
        ("echo hello", "not a JSON object"),
        ("echo '[1]'", "not a JSON object"),
        ("echo broken >&2; exit 3", "exited with code 3: broken"),
        (r#"echo '{"functions": "a.b"}'"#, "is not a list"),
        ("kill -9 $$", "signal 9 ended `init`"),
    ] {
        let error = Bed::new(script).load().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let bed = Bed::new(SWITCH);
    std::fs::write(bed.dir.path().join("states/_resources/switch"), "just words").unwrap();
    assert!(bed.load().unwrap_err().to_string().contains("is no program"));
}

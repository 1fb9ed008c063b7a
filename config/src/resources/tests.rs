//! Declarations that are right, and what is wrong with others.

use super::*;

fn read(json: &str) -> Result<Declaration, Vec<DeclarationError>> {
    let pillar = Value::from_json_str(json).unwrap();
    Declaration::read(&pillar, "resources", &["switch".to_owned()])
}

fn names(declared: &Declaration) -> Vec<String> {
    declared.resources.iter().map(|r| r.name.to_string()).collect()
}

#[test]
fn the_shapes_of_salt_are_read() {
    let declared = read(
        r#"{"resources": {"dummy": {"resource_ids": ["dummy-01", 7]},
            "ssh": {"hosts": {"web-01": {"host": "10.0.0.1", "port": "2222", "sudo": true, "passwd": "s3cret!"},
                              "dummy-01": {"host": "h", "keepalive": false, "ssh_options": ["Compression=yes"]}}},
            "chroot": {"roots": {"image": "/srv/image"}}, "switch": {"address": "x"}}}"#,
    )
    .unwrap();
    assert_eq!(names(&declared), ["dummy:dummy-01", "dummy:7", "ssh:web-01", "ssh:dummy-01", "chroot:image"]);
    let ResourceConfig::Ssh(host) = &declared.resources[2].config else { panic!("an ssh host") };
    assert_eq!(
        (host.host.as_str(), host.user.as_str(), host.port, host.sudo),
        ("10.0.0.1", "root", 2222, true)
    );
    assert_eq!((host.timeout.as_secs(), host.keepalive), (30, Some((60, 3))));
    assert!(!format!("{declared:?}").contains("s3cret!"), "a password is a secret");
    assert_eq!(declared.custom[0].kind, "switch");
    assert_eq!(declared.resources[4].config, ResourceConfig::Chroot("/srv/image".into()));
}

#[test]
fn nothing_declared_is_no_error() {
    for pillar in
        ["{}", r#"{"resources": null}"#, r#"{"resources": {"dummy": null, "ssh": {"hosts": null}}}"#]
    {
        assert_eq!(read(pillar), Ok(Declaration::default()), "{pillar}");
    }
}

#[test]
fn every_error_of_a_declaration_names_its_key() {
    for (pillar, want) in [
        (
            r#"{"resources": ["dummy"]}"#,
            "pillar key `resources`: it is a list, expected a mapping of resource types",
        ),
        (
            r#"{"resources": {"dumy": {}}}"#,
            "pillar key `resources:dumy`: unknown resource type `dumy` | did you mean `dummy`?",
        ),
        (
            r#"{"resources": {"swich": {}}}"#,
            "pillar key `resources:swich`: unknown resource type `swich` | did you mean `switch`?",
        ),
        (
            r#"{"resources": {"printer": {}}}"#,
            "pillar key `resources:printer`: unknown resource type `printer` | provide it as an executable `_resources/printer` in the states repository",
        ),
        (
            r#"{"resources": {"dummy": {"resource_id": ["a"]}}}"#,
            "pillar key `resources:dummy:resource_id`: unknown key `resource_id` | did you mean `resource_ids`?",
        ),
        (
            r#"{"resources": {"ssh": {"hosts": {"web": {"host": "h", "prot": 22}}}}}"#,
            "pillar key `resources:ssh:hosts:web:prot`: unknown key `prot` | did you mean `port`?",
        ),
        (
            r#"{"resources": {"ssh": {"hosts": {"web": {}}}}}"#,
            "pillar key `resources:ssh:hosts:web`: `host` is missing | add `host: ADDRESS`",
        ),
        (
            r#"{"resources": {"ssh": {"hosts": {"web": {"host": "h", "port": 0}}}}}"#,
            "pillar key `resources:ssh:hosts:web:port`: it is 0, expected a number from 1 to 65535",
        ),
        (
            r#"{"resources": {"ssh": {"hosts": {"web": {"host": "-oProxyCommand=id"}}}}}"#,
            "pillar key `resources:ssh:hosts:web:host`: `-oProxyCommand=id` cannot be used with ssh",
        ),
        (
            r#"{"resources": {"chroot": {"roots": {"i": "image"}}}}"#,
            "pillar key `resources:chroot:roots:i`: `image` is not an absolute path | start it with `/`",
        ),
        (
            r#"{"resources": {"chroot": {"roots": {"i": "//"}}}}"#,
            "pillar key `resources:chroot:roots:i`: `/` is this node itself",
        ),
        (
            r#"{"resources": {"dummy": {"resource_ids": ["a_|-b"]}}}"#,
            "pillar key `resources:dummy:resource_ids`: `a_|-b` cannot be the id of a resource",
        ),
        (
            r#"{"resources": {"dummy": {"resource_ids": ["a", "a"]}}}"#,
            "pillar key `resources:dummy:resource_ids`: the id `a` is listed twice",
        ),
    ] {
        let errors = read(pillar).unwrap_err();
        let hint = errors[0].hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
        let got = format!("{}{hint}", errors[0]);
        assert!(got.starts_with(want), "{got}\n{want}");
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
}

#[test]
fn top_files_see_what_is_declared() {
    let pillar = r#"{"others": {"dummy": {"resource_ids": ["d1"]}, "ssh": {"hosts": {"w": {}}},
        "chroot": {"roots": {"c": "/x"}}, "odd": [1]}}"#;
    let pillar = Value::from_json_str(pillar).unwrap();
    let want = [("dummy", "d1"), ("ssh", "w"), ("chroot", "c")].map(|(k, i)| (k.to_owned(), i.to_owned()));
    assert_eq!(declared_names(&pillar, "others"), want);
    assert!(declared_names(&pillar, "resources").is_empty());
}

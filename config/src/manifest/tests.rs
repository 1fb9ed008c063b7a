//! Manifests: reading, rejecting and writing.

use proptest::prelude::*;

use super::*;

const DIGEST: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

fn read(text: &str) -> Result<Manifest, crate::Diagnostics> {
    Manifest::read("manifest.yaml", text.as_bytes())
}

#[test]
fn every_key_is_read() {
    let manifest = read(&format!(
        "schema: 1\nserial: 7\nfor: {{repository: git.example.org/ops/states, branch: main}}\nexpires: 2030-01-31\nmin_agent: \"1.4\"\nschedule: eager\ncompat: salt\n\
         roots: {{states: ., pillar: srv/pillar}}\nfiles:\n  top.sls: {{blake3: {DIGEST}, mode: 0644}}\n  \
         \"a b\": {{mode: \"0755\", blake3: {DIGEST}}}\n"
    ))
    .unwrap();
    assert_eq!(manifest.serial, 7);
    let target = manifest.target.as_ref().unwrap();
    assert_eq!((&*target.repository, &*target.branch), ("git.example.org/ops/states", "main"));
    assert_eq!(manifest.expires.unwrap().to_string(), "2030-02-01T00:00:00Z");
    assert_eq!(manifest.min_agent.as_ref().unwrap().to_string(), "1.4.0");
    assert_eq!((manifest.schedule, manifest.compat), (Some(RunSchedule::Eager), Some(CompatMode::Salt)));
    assert_eq!(manifest.roots.states.as_deref(), Some("."));
    let files = manifest.files.as_ref().unwrap();
    assert_eq!((files["top.sls"].mode, files["a b"].mode), (ManifestMode::Plain, ManifestMode::Executable));
    let last = manifest.expires.unwrap();
    assert!(manifest.is_expired(last) && !manifest.is_expired(last - jiff::SignedDuration::from_secs(1)));
    assert_eq!(read(&manifest.to_yaml()).unwrap(), manifest);
}

#[test]
fn a_minimal_manifest_is_valid() {
    let manifest = read("schema: 1\nroots: {states: srv/salt/}\n").unwrap();
    assert_eq!((manifest.serial, manifest.files), (0, None));
    assert_eq!(parse_expiry("2030-01-31T12:00:00+02:00").unwrap().to_string(), "2030-01-31T10:00:00Z");
    for bad in ["2030-02-30", "2030", "soon", "2030-01-31T12:00:00", ""] {
        assert_eq!(parse_expiry(bad), None, "{bad}");
    }
}

#[test]
fn errors_name_their_place() {
    let entry = |path: &str, rest: &str| format!("schema: 1\nfiles:\n  {path}: {{{rest}}}\n");
    let full = format!("blake3: {DIGEST}, mode: \"0644\"");
    for (text, code, place, words) in [
        (String::new(), "ZA1103", "1:1", "must be a mapping"),
        ("a: [".into(), "ZA1101", "2:1", ""),
        ("schema: 1\nserial: 1\nserial: 2\n".into(), "ZA1101", "3:1", "duplicate key"),
        ("serial: 1\n".into(), "ZA1104", "1:1", "`schema`"),
        ("schema: 2\n".into(), "ZA1105", "1:1", "schema 2"),
        ("schema: one\n".into(), "ZA1103", "1:1", "whole number"),
        ("schema: 1\nseriel: 1\n".into(), "ZA1102", "2:1", "`seriel`"),
        ("schema: 1\nserial: -1\n".into(), "ZA1106", "2:1", "0 or more"),
        ("schema: 1\nserial: x\n".into(), "ZA1103", "2:1", "whole number"),
        ("schema: 1\nexpires: soon\n".into(), "ZA1106", "2:1", "2030-01-31"),
        ("schema: 1\nmin_agent: 1.10\n".into(), "ZA1103", "2:1", "text"),
        ("schema: 1\nmin_agent: new\n".into(), "ZA1106", "2:1", "`1.4.2`"),
        ("schema: 1\nschedule: egaer\n".into(), "ZA1106", "2:1", "`eager`"),
        ("schema: 1\ncompat: [salt]\n".into(), "ZA1103", "2:1", "text"),
        ("schema: 1\nfor: main\n".into(), "ZA1103", "2:1", "a mapping"),
        ("schema: 1\nfor: {branch: main}\n".into(), "ZA1104", "2:1", "`repository`"),
        ("schema: 1\nfor: {repository: a, branch: \"\"}\n".into(), "ZA1106", "2:22", "`for.branch`"),
        ("schema: 1\nfor: {repository: a, branch: b c}\n".into(), "ZA1106", "2:22", "without blanks"),
        ("schema: 1\nfor: {repository: a, branch: b, tag: c}\n".into(), "ZA1102", "2:33", "`tag`"),
        ("schema: 1\nroots: {state: x}\n".into(), "ZA1102", "2:9", "`state`"),
        ("schema: 1\nroots: {states: ../x}\n".into(), "ZA1107", "2:9", "`..`"),
        ("schema: 1\nfiles: [a]\n".into(), "ZA1103", "2:1", "a mapping"),
        (entry("a/../b", &full), "ZA1107", "3:3", "`..`"),
        (entry("/etc/passwd", &full), "ZA1107", "3:3", "absolute path"),
        (entry("a//b", &full), "ZA1107", "3:3", "empty component"),
        (entry("./a", &full), "ZA1107", "3:3", "`.`"),
        (entry("a/.GIT/b", &full), "ZA1107", "3:3", "belongs to Git"),
        (entry("\"a\\nb\"", &full), "ZA1107", "3:3", "control"),
        (entry("manifest.yaml", &full), "ZA1107", "3:3", "itself"),
        (entry("manifest.yaml.sig.bob", &full), "ZA1107", "3:3", "signatures"),
        (entry("12", &full), "ZA1103", "3:3", "not text"),
        (entry("a", "mode: \"0644\""), "ZA1104", "3:3", "`blake3`"),
        (entry("a", &format!("{full}, size: 1")), "ZA1102", "3:", "`size`"),
        (entry("a", "blake3: AB, mode: \"0644\""), "ZA1106", "3:7", "64 lower-case hex"),
        (entry("a", &format!("blake3: {DIGEST}, mode: \"0777\"")), "ZA1106", "3:", "`0755`"),
        (format!("{}  a/b: {{{full}}}\n", entry("a", &full)), "ZA1107", "4:3", "cannot be below"),
        (format!("{}  a: {{{full}}}\n", entry("a", &full)), "ZA1101", "4:3", "duplicate key"),
    ] {
        let faults = read(&text).unwrap_err();
        let shown = faults.0[0].to_string();
        let start = format!("manifest.yaml:{place}");
        assert!(
            shown.starts_with(&start) && shown.contains(code) && shown.contains(words),
            "{text}\n{shown}"
        );
    }
    let hint = |text: &str| read(text).unwrap_err().0[0].hint.clone().unwrap_or_default();
    assert_eq!(hint("schema: 1\nseriel: 1\n"), "did you mean `serial`?");
    assert_eq!(hint("schema: 1\nmin_agent: 1.10\n"), "put it in quotes");
}

#[test]
fn a_hostile_manifest_is_rejected_with_few_errors() {
    let many: String = (0..1000).map(|n| format!("k{n}: 1\n")).collect();
    assert!(read(&many).unwrap_err().0.len() <= 20);
    assert!(Manifest::read("m", &vec![b'a'; MAX_BYTES + 1]).unwrap_err().to_string().contains("ZA1108"));
    assert!(Manifest::read("m", b"\xff").unwrap_err().to_string().contains("ZA1101"));
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9._-]{1,8}", "[\\PC]{1,6}", Just("null".to_owned()), Just("1.10".to_owned())]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        serial in 0..u64::try_from(i64::MAX).unwrap(),
        names in prop::collection::vec(prop::collection::vec(name(), 1..4), 0..8),
        second in prop::option::of(0i64..4_000_000_000),
        listed in any::<bool>(),
        branch in "[a-z0-9/._#-]{1,12}",
    ) {
        let mut manifest = Manifest { serial, ..Manifest::default() };
        manifest.expires = second.map(|s| Timestamp::from_second(s).unwrap());
        manifest.target = second.map(|_| ManifestTarget { repository: format!("/srv/{branch}"), branch });
        manifest.min_agent = Some("1.2.3-rc.1".parse().unwrap());
        manifest.roots.states = Some("a b/#: x".into());
        let mut files: BTreeMap<String, ManifestEntry> = BTreeMap::new();
        for path in names.iter().map(|parts| parts.join("/")).filter(|p| path_problem(p).is_none()) {
            let below = |other: &String| {
                other.starts_with(&format!("{path}/")) || path.starts_with(&format!("{other}/"))
            };
            if !files.keys().any(below) {
                files.insert(path, ManifestEntry { blake3: DIGEST.into(), mode: ManifestMode::from_bits(0o700) });
            }
        }
        manifest.files = listed.then_some(files);
        let text = manifest.to_yaml();
        let again = read(&text);
        prop_assert!(again.is_ok(), "{}\n{}", text, again.unwrap_err());
        prop_assert_eq!(again.unwrap(), manifest);
    }

    #[test]
    fn no_text_panics(text in "(schema: 1\n)?[a-z:{}\\[\\] \n0-9\"'&*!-]{0,80}") {
        let _ = read(&text);
    }
}

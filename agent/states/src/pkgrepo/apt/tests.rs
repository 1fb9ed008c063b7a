use std::path::PathBuf;

use super::{AptEntry, AptRequest, AptSourceFile, AptSources};

fn sources(pages: &[(&str, &str)]) -> AptSources {
    let page = |(path, text): &(&str, &str)| AptSourceFile::new(PathBuf::from(path), text.as_bytes());
    AptSources { files: pages.iter().map(page).collect() }
}

fn asked(name: &str, file: Option<&str>) -> AptRequest {
    let name = AptEntry::parse_line(name).expect("an entry");
    AptRequest { wanted: name.clone(), name, file: file.map(PathBuf::from), ..AptRequest::default() }
}

fn edits(sources: &AptSources, asked: &AptRequest) -> Vec<(String, Option<String>)> {
    let plan = sources.plan_present(asked).expect("a plan");
    plan.edits.into_iter().map(|(path, text)| (path.display().to_string(), text)).collect()
}

#[test]
fn lines_are_read_and_written() {
    let table = [
        ("deb http://h/d bookworm main contrib", Some("deb http://h/d bookworm main contrib")),
        ("#deb  http://h/d   x  main # why", Some("# deb http://h/d x main # why")),
        (
            "deb [ arch=amd64 signedby=/k.gpg ] http://h x main",
            Some("deb [arch=amd64 signed-by=/k.gpg] http://h x main"),
        ),
        ("deb file:/srv/repo ./", Some("deb file:/srv/repo ./")),
        ("deb cdrom:[Debian 12 x]/ bookworm main", Some("deb cdrom:[Debian 12 x]/ bookworm main")),
        ("# deb is what debian calls it", None),
        ("nodesource", None),
        ("deb [arch=amd64 http://h x main", None),
        ("", None),
    ];
    for (line, expected) in table {
        assert_eq!(AptEntry::parse_line(line).map(|e| e.to_line()).as_deref(), expected, "{line}");
    }
}

#[test]
fn an_entry_is_found_wherever_it_stands() {
    let all = sources(&[
        ("/etc/apt/sources.list", "# mine\ndeb http://h/d/ x  contrib main\n"),
        ("/etc/apt/sources.list.d/b.list", "# deb http://b/ x main\n"),
    ]);
    // A difference in the order of components is none; one in the address is.
    assert_eq!(
        edits(&all, &asked("deb http://h/d/ x main contrib", Some("/etc/apt/sources.list.d/n.list"))),
        []
    );
    let slash = edits(&all, &asked("deb http://h/d x main contrib", None));
    assert_eq!(
        slash,
        [("/etc/apt/sources.list".into(), Some("# mine\ndeb http://h/d x main contrib\n".into()))]
    );
    // A commented one is switched on.
    let on = edits(&all, &asked("deb http://b/ x main", None));
    assert_eq!(on, [("/etc/apt/sources.list.d/b.list".into(), Some("deb http://b/ x main\n".into()))]);
    // One that is not there comes last.
    let new = edits(&all, &asked("deb http://n/ x main", Some("/etc/apt/sources.list.d/n.list")));
    assert_eq!(new, [("/etc/apt/sources.list.d/n.list".into(), Some("deb http://n/ x main\n".into()))]);
}

#[test]
fn a_changed_entry_moves_to_the_file_that_is_asked_for() {
    let all = sources(&[("/etc/apt/sources.list.d/old.list", "deb http://h/ x main\n")]);
    let moved =
        edits(&all, &asked("deb [trusted=yes] http://h/ x main", Some("/etc/apt/sources.list.d/new.list")));
    assert_eq!(
        moved,
        [
            ("/etc/apt/sources.list.d/old.list".into(), None),
            ("/etc/apt/sources.list.d/new.list".into(), Some("deb [trusted=yes] http://h/ x main\n".into())),
        ]
    );
}

#[test]
fn a_clean_file_holds_nothing_else() {
    let file = "/etc/apt/sources.list.d/z.list";
    let all = sources(&[(file, "# head\ndeb http://h/ x main\ndeb http://h/ y main\n")]);
    let asked = AptRequest { clean_file: true, ..asked("deb http://h/ x main", Some(file)) };
    assert_eq!(edits(&all, &asked), [(file.into(), Some("deb http://h/ x main\n".into()))]);
    let alone = sources(&[(file, "# head\n\ndeb http://h/ x main\n")]);
    assert_eq!(edits(&alone, &asked), []);
}

const STANZA: &str = "# Debian\nTypes: deb\nURIs: http://deb.debian.org/debian\nSuites: bookworm bookworm-updates\n\
                      Components: main\nSigned-By:\n /usr/share/keyrings/d.gpg\n\nTypes: deb\nURIs: http://o/\nSuites: x\n\
                      Components: main\n";

#[test]
fn a_stanza_that_offers_more_is_right() {
    let file = "/etc/apt/sources.list.d/debian.sources";
    let all = sources(&[(file, STANZA)]);
    assert_eq!(edits(&all, &asked("deb http://deb.debian.org/debian/ bookworm main", None)), []);
    assert_eq!(edits(&all, &asked("deb http://deb.debian.org/debian bookworm main", None)), []);
    let more = edits(&all, &asked("deb http://deb.debian.org/debian bookworm main contrib", None));
    assert_eq!(
        more,
        [(file.into(), Some(STANZA.replacen("Components: main", "Components: main contrib", 1)))]
    );
    let trusted = edits(&all, &asked("deb [trusted=yes] http://o/ x main", None));
    assert_eq!(trusted, [(file.into(), Some(format!("{STANZA}Trusted: yes\n")))]);
}

#[test]
fn a_new_stanza_stands_apart() {
    let file = "/etc/apt/sources.list.d/n.sources";
    let mut asked = asked("deb [arch=amd64,arm64 signed-by=/k.gpg] http://n/ x main", Some(file));
    asked.comment = Some("ours".into());
    let stanza = "#ours\nTypes: deb\nURIs: http://n/\nSuites: x\nComponents: main\nSigned-By: /k.gpg\n\
                  Architectures: amd64 arm64\n";
    assert_eq!(edits(&sources(&[]), &asked), [(file.into(), Some(stanza.into()))]);
    let after = sources(&[(file, stanza)]);
    assert_eq!(edits(&after, &asked), []);
}

#[test]
fn entries_go_with_their_components() {
    let file = "/etc/apt/sources.list.d/b.list";
    let all = sources(&[
        ("/etc/apt/sources.list", "deb http://h/ x main contrib\n# a word\n"),
        (file, "# theirs\ndeb http://h/ x main\n"),
        ("/etc/apt/sources.list.d/debian.sources", STANZA),
    ]);
    let gone = |name: &str| {
        let plan = all.plan_absent(&AptEntry::parse_line(name).expect("an entry")).expect("a plan");
        plan.edits.into_iter().map(|(p, t)| (p.display().to_string(), t)).collect::<Vec<_>>()
    };
    assert_eq!(
        gone("deb http://h x main"),
        [
            ("/etc/apt/sources.list".into(), Some("deb http://h/ x contrib\n# a word\n".into())),
            (file.into(), None),
        ]
    );
    assert_eq!(gone("deb [arch=amd64] http://h x main"), []);
    let stanza = gone("deb http://deb.debian.org/debian bookworm-updates main");
    assert_eq!(
        stanza[0].1.as_deref(),
        Some(STANZA.replace("bookworm bookworm-updates", "bookworm").as_str())
    );
    let whole = gone("deb http://o/ x main");
    assert_eq!(whole[0].1.as_deref(), STANZA.split_once("\n\n").map(|(s, _)| format!("{s}\n\n")).as_deref());
}

#[test]
fn a_file_that_is_no_text_is_left_alone() {
    let page = AptSourceFile::new("/etc/apt/sources.list".into(), b"# caf\xe9\ndeb http://h/ x main\n");
    let all = AptSources { files: vec![page] };
    let error = all.plan_absent(&AptEntry::parse_line("deb http://h/ x main").expect("an entry"));
    assert!(error.is_err_and(|f| f.result.comment.contains("no text")));
}

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};

fn tar(test_bed: &StateTestBed, make: impl Fn(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let file = test_bed.path("a.tar.gz");
    assert!(
        Command::new("tar").args(["-czf", &file, "-C"]).arg(dir.path()).arg(".").status().unwrap().success()
    );
    file
}

fn extracted(test_bed: &StateTestBed, source: &str, more: &str) -> zagent_compiler::Chunk {
    chunk("archive.extracted", &test_bed.path("t/x/"), &format!(r#"{{"source": "{source}"{more}}}"#))
}

#[test]
fn an_archive_is_unpacked_once() {
    let test_bed = StateTestBed::new();
    let file = tar(&test_bed, |dir| {
        std::fs::create_dir(dir.join("app")).unwrap();
        std::fs::write(dir.join("app/a"), "1").unwrap();
        symlink("a", dir.join("app/l")).unwrap();
    });
    let state = extracted(&test_bed, &file, "");
    assert!(preview_chunk(&state, &test_bed.scene()).starts_with("null \"Archive"));
    assert!(!test_bed.exists("t"));
    let said = apply_chunk(&state, &test_bed.scene());
    assert!(said.starts_with("true") && said.contains("due to absence of one or more files/dirs"), "{said}");
    assert!(test_bed.exists("t/x/app/a") && test_bed.exists("t/x/app/l"));
    assert_eq!(
        apply_chunk(&state, &test_bed.scene()),
        "true \"All files in archive are already present\" {}"
    );
    std::fs::remove_file(test_bed.path("t/x/app/a")).unwrap();
    std::fs::write(test_bed.path("t/x/app/own"), "mine").unwrap();
    assert!(apply_chunk(&state, &test_bed.scene()).starts_with("true"));
    assert!(test_bed.exists("t/x/app/a") && test_bed.exists("t/x/app/own"));
    let left = std::fs::read_dir(test_bed.path("t/x")).unwrap().count();
    assert_eq!(left, 1, "nothing is left beside it");
}

#[test]
fn what_is_there_goes_only_when_the_archive_came_out() {
    let test_bed = StateTestBed::new();
    let file = tar(&test_bed, |dir| {
        std::fs::create_dir(dir.join("app")).unwrap();
        std::fs::write(dir.join("app/a"), "1").unwrap();
    });
    assert!(apply_chunk(&extracted(&test_bed, &file, ""), &test_bed.scene()).starts_with("true"));
    // Damaged, and of the same size and time: what it holds is known already.
    let meta = std::fs::metadata(&file).unwrap();
    std::fs::write(&file, vec![b'x'; meta.len() as usize]).unwrap();
    std::fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(meta.modified().unwrap())
        .unwrap();
    for clean in ["clean", "clean_parent"] {
        let state = extracted(&test_bed, &file, &format!(r#", "overwrite": true, "{clean}": true"#));
        let said = apply_chunk(&state, &test_bed.scene());
        assert!(said.starts_with("false") && said.contains("Unable to extract"), "{said}");
        assert!(test_bed.exists("t/x/app/a"), "{clean}");
    }
}

#[test]
fn all_kinds_of_entries_arrive() {
    let test_bed = StateTestBed::new();
    let file = tar(&test_bed, |dir| {
        std::fs::create_dir(dir.join("app")).unwrap();
        std::fs::write(dir.join("app/a"), "1").unwrap();
        std::fs::hard_link(dir.join("app/a"), dir.join("app/h")).unwrap();
        assert!(Command::new("mkfifo").arg(dir.join("app/pipe")).status().unwrap().success());
        std::fs::create_dir(dir.join("app/closed")).unwrap();
        std::fs::write(dir.join("app/closed/b"), "2").unwrap();
        std::fs::set_permissions(dir.join("app/closed"), Permissions::from_mode(0o555)).unwrap();
    });
    let said = apply_chunk(&extracted(&test_bed, &file, ""), &test_bed.scene());
    assert!(said.starts_with("true"), "{said}");
    let meta = |path: &str| std::fs::symlink_metadata(test_bed.path(path)).unwrap();
    assert_eq!(meta("t/x/app/a").ino(), meta("t/x/app/h").ino());
    assert!(meta("t/x/app/pipe").file_type().is_fifo());
    assert_eq!(meta("t/x/app/closed").mode() & 0o777, 0o555);
    assert_eq!(std::fs::read_to_string(test_bed.path("t/x/app/closed/b")).unwrap(), "2");
    std::fs::set_permissions(test_bed.path("t/x/app/closed"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_bomb_is_refused() {
    let test_bed = StateTestBed::new();
    let file = tar(&test_bed, |dir| {
        std::fs::write(dir.join("a"), "1").unwrap();
        std::fs::write(dir.join("b"), "1").unwrap();
    });
    let said = apply_chunk(&extracted(&test_bed, &file, ""), &test_bed.scene());
    assert!(said.starts_with("false") && said.contains("single top-level directory"), "{said}");
    let said = apply_chunk(
        &extracted(&test_bed, &file, r#", "enforce_toplevel": false, "trim_output": 1"#),
        &test_bed.scene(),
    );
    assert!(said.contains("trimmed to 1") && test_bed.exists("t/x/b"), "{said}");
}

#[test]
fn a_link_that_leads_out_is_refused_and_nothing_stays() {
    let test_bed = StateTestBed::new();
    let file = tar(&test_bed, |dir| {
        std::fs::create_dir(dir.join("app")).unwrap();
        symlink("/etc/passwd", dir.join("app/l")).unwrap();
    });
    let said = apply_chunk(&extracted(&test_bed, &file, ""), &test_bed.scene());
    assert!(said.starts_with("false") && said.contains("lies outside"), "{said}");
    assert!(!test_bed.exists("t/x/app"));
}

#[test]
fn what_is_of_the_wrong_kind_needs_force() {
    let test_bed = StateTestBed::new();
    let file = tar(&test_bed, |dir| {
        std::fs::create_dir(dir.join("app")).unwrap();
        std::fs::write(dir.join("app/a"), "1").unwrap();
    });
    std::fs::create_dir_all(test_bed.path("t/x/app/a")).unwrap();
    let said = apply_chunk(&extracted(&test_bed, &file, ""), &test_bed.scene());
    assert!(said.starts_with("false") && said.contains("incorrect type"), "{said}");
    let said = apply_chunk(&extracted(&test_bed, &file, r#", "force": true"#), &test_bed.scene());
    assert!(said.starts_with("true") && said.contains("removed"), "{said}");
    assert!(Path::new(&test_bed.path("t/x/app/a")).is_file());
}

#[test]
fn a_password_is_given_where_nobody_reads_it() {
    let test_bed = StateTestBed::new();
    std::fs::write(test_bed.path("a"), "1").unwrap();
    let is_here = |program: &str| Command::new(program).arg("--help").output().is_ok();
    if !is_here("zip") || !is_here("unzip") || !is_here("python3") {
        return;
    }
    let zip =
        Command::new("zip").args(["-q", "-P", "pass", "x.zip", "a"]).current_dir(test_bed.path("")).status();
    assert!(zip.unwrap().success());
    let state = |password: &str| {
        let more = format!(r#", "enforce_toplevel": false, "password": "{password}""#);
        apply_chunk(&extracted(&test_bed, &test_bed.path("x.zip"), &more), &test_bed.scene())
    };
    let said = state("wrong");
    assert!(said.starts_with("false") && !test_bed.exists("t/x/a"), "{said}");
    let said = state("pass");
    assert!(said.starts_with("true"), "{said}");
    assert_eq!(std::fs::read_to_string(test_bed.path("t/x/a")).unwrap(), "1");
}

#[test]
fn what_is_said_must_make_sense() {
    let test_bed = StateTestBed::new();
    let said = |source: &str, more: &str| apply_chunk(&extracted(&test_bed, source, more), &test_bed.scene());
    assert!(said("/x.bin", "").contains("Could not guess archive_format"));
    assert!(said("/x.tar", r#", "archive_format": "cab""#).contains("Invalid archive_format 'cab'"));
    assert!(said("/x.tar", r#", "password": "p""#).contains("only supported for zip"));
    assert!(said("/nowhere/x.tar", "").contains("does not exist"));
    let here = test_bed.path("");
    assert!(said("/x.tar", &format!(r#", "if_missing": "{here}""#)).contains("exists"));
}

#[test]
fn what_was_verified_is_what_is_unpacked() {
    let test_bed = StateTestBed::new();
    let source = test_bed.path("a.tar");
    std::fs::write(&source, "verified").unwrap();
    let digest = crate::file::hash::DigestAlgorithm::Sha256.digest(b"verified");
    for (more, expected) in
        [(format!(r#", "source_hash": "{digest}""#), "verified"), (String::new(), "changed")]
    {
        std::fs::write(&source, "verified").unwrap();
        let chunk = extracted(&test_bed, &source, &more);
        let state = super::read_state(&crate::ChunkArgs::new(&chunk)).unwrap();
        let archive = state.fetch_archive(&test_bed.scene()).unwrap();
        std::fs::write(&source, "changed").unwrap();
        // Without anything to verify it is used where it is.
        assert_eq!(std::fs::read_to_string(archive.path()).unwrap(), expected);
    }
}

//! Repositories and directories on this machine, and several remotes in a row.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, DirSource, DirWatcher, FetchTarget, Remotes, SourceErrorKind};
use zagent_cache::testing::{judged, test_source};
use zagent_config::settings::SourceSettings;

use super::fixture::{RemoteFixture, client, head, long_deadline, read_top};

#[test]
fn a_repository_on_this_machine_is_followed_by_path_and_by_url() {
    let (mut fixture, first) = RemoteFixture::with_commit();
    let path = fixture.scratch.path().to_str().unwrap().to_owned();
    for (n, url) in [path.clone(), format!("file://{path}")].iter().enumerate() {
        let (mut client, store) = (client(&test_source(url)), fixture.store(&format!("store{n}")));
        assert!(head(&mut client).unwrap().is_some());
        client.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &first), "one");
        let next = fixture.commit(&format!("next {n}"));
        client.fetch(&store, "main", &mut judged(&next), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &next), format!("next {n}"));
    }
    let error = head(&mut client(&test_source("/no/such/place"))).unwrap_err();
    assert_eq!(
        (error.kind, error.to_string().as_str()),
        (SourceErrorKind::NoRepository, "`/no/such/place` does not exist")
    );
    let error = head(&mut client(&test_source(fixture.dir.path().to_str().unwrap()))).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::NoRepository, "{error}");
}

fn remotes(urls: &[&str]) -> Remotes {
    let all: Vec<SourceSettings> = urls.iter().map(|url| test_source(url)).collect();
    let mut settings = all[0].clone();
    settings.remotes = all.into_iter().flat_map(|source| source.remotes).collect();
    Remotes::new(&settings, 7)
}

#[test]
fn remotes_are_polled_in_order_and_failed_ones_back_off() {
    let (fixture, first) = RemoteFixture::with_commit();
    fixture.scratch.set_branch("testing/web", first.as_str());
    let (busy, bad, good) = (fixture.url("busy"), fixture.url("s500"), fixture.url(""));
    let mut remotes = remotes(&[&busy, &bad, "ext::sh", &good]);
    let now = Instant::now();
    let polled = remotes.poll(Some("testing/web"), now, long_deadline());
    let found = polled.heads.unwrap();
    assert_eq!((found.remote, found.head.as_ref(), found.testing.as_ref()), (3, Some(&first), Some(&first)));
    assert_eq!((found.url.as_str(), found.branch.as_str(), found.directory), (good.as_str(), "main", false));
    let kinds: Vec<SourceErrorKind> = polled.failed.iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [SourceErrorKind::Unreachable, SourceErrorKind::Unreachable, SourceErrorKind::Local]);
    let health: Vec<_> = remotes.health().cloned().collect();
    assert_eq!(health.iter().map(|one| one.failures).collect::<Vec<_>>(), [1, 1, 1, 0]);
    assert!(health[0].not_before.unwrap() >= now + Duration::from_secs(120), "it asked for that");
    assert!(health[1].not_before.unwrap() <= now + Duration::from_secs(120));
    assert_eq!(health[3].last_answer, Some(now));
    assert!(health[1].error.as_ref().unwrap().1.contains("HTTP 500"));

    let polled = remotes.poll(None, now, long_deadline());
    assert_eq!(polled.heads.unwrap().testing, None);
    assert!(
        polled.failed.iter().all(|error| error.kind != SourceErrorKind::Unreachable || error.remote != busy)
    );
    let store = fixture.store("store");
    let want = FetchTarget { remote: 3, branch: "main", revision: &first };
    remotes.fetch(want, &mut judged(&first), &store, now, long_deadline()).unwrap();
    assert!(store.has_commit(&first));

    let later = remotes.poll(None, now + Duration::from_secs(3600), long_deadline());
    assert_eq!(later.failed.len(), 3);
    assert!(remotes.health().take(2).all(|one| one.failures == 2));
    assert_eq!(remotes.next_attempt(now), None, "one can be polled at any time");
}

#[test]
fn a_remote_without_the_branch_yields_to_one_that_has_it() {
    let (fixture, first) = RemoteFixture::with_commit();
    let empty = RemoteFixture::new();
    let mut both = remotes(&[&empty.url(""), &fixture.url("")]);
    let polled = both.poll(None, Instant::now(), long_deadline());
    assert_eq!(polled.heads.unwrap().head, Some(first));
    assert_eq!(polled.failed[0].kind, SourceErrorKind::NoBranch);
    let mut alone = remotes(&[&empty.url("")]);
    let polled = alone.poll(None, Instant::now(), long_deadline());
    assert_eq!(polled.heads.unwrap().head, None);
    assert!(
        polled.failed[0].to_string().contains("the branch `main` does not exist on"),
        "{:?}",
        polled.failed
    );
}

#[test]
fn a_hanging_remote_leaves_time_for_the_next() {
    let (fixture, first) = RemoteFixture::with_commit();
    let mut remotes = remotes(&[&fixture.url("hang"), &fixture.url("")]);
    let polled = remotes.poll(None, Instant::now(), Deadline::after(Duration::from_secs(6)));
    assert_eq!(polled.heads.unwrap().head, Some(first));
    assert_eq!(polled.failed[0].kind, SourceErrorKind::Timeout);
}

#[test]
fn a_directory_is_a_source_by_the_digest_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::create_dir(dir.path().join("states")).unwrap();
    write("states/top.sls", "one");
    std::os::unix::fs::symlink("states", dir.path().join("link")).unwrap();
    let mut remotes = remotes(&[dir.path().to_str().unwrap()]);
    let mut print = || {
        let found = remotes.poll(None, Instant::now(), long_deadline()).heads.unwrap();
        assert!(found.directory);
        assert_eq!(remotes.directory(0), Some(dir.path()));
        found.head.unwrap()
    };
    let first = print();
    assert_eq!(first, print());
    write("states/top.sls", "two");
    let second = print();
    assert_ne!(first, second);
    write("states/top.sls", "one");
    assert_eq!(first, print(), "the same files, the same digest");
    write("new", "");
    assert_ne!(first, print());
    std::fs::remove_file(dir.path().join("new")).unwrap();
    assert_eq!(first, print());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("states/top.sls"), mode).unwrap();
    assert_ne!(first, print());
}

#[test]
fn a_directory_has_limits_too() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..5 {
        std::fs::write(dir.path().join(format!("{n}")), "12345").unwrap();
    }
    let mut settings = test_source("/x");
    settings.max_files = 4;
    assert_eq!(
        DirSource::new(dir.path(), &settings).fingerprint(long_deadline()).unwrap_err().kind,
        SourceErrorKind::TooLarge
    );
    settings = test_source("/x");
    settings.max_file = 4;
    assert_eq!(
        DirSource::new(dir.path(), &settings).fingerprint(long_deadline()).unwrap_err().kind,
        SourceErrorKind::TooLarge
    );
    let gone = DirSource::new(Path::new("/no/such"), &settings).fingerprint(long_deadline());
    assert!(gone.is_ok(), "an empty directory and none are the same: nothing");
}

#[test]
fn changes_in_a_directory_are_reported_when_it_is_quiet() {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("states");
    let (tell, told) = channel();
    let _watch = DirWatcher::new(&root, move || tell.send(()).unwrap()).unwrap();
    let hear = || told.recv_timeout(Duration::from_secs(20)).unwrap();
    std::fs::create_dir(&root).unwrap();
    hear();
    std::fs::write(root.join("top.sls"), "one").unwrap();
    hear();
    // As editors do it: a new file replaces the old one, twice.
    for _ in 0..2 {
        std::fs::write(above.path().join("draft"), "two").unwrap();
        std::fs::rename(above.path().join("draft"), root.join("top.sls")).unwrap();
        hear();
    }
    // The whole directory replaced.
    std::fs::create_dir(above.path().join("next")).unwrap();
    std::fs::rename(&root, above.path().join("before")).unwrap();
    std::fs::rename(above.path().join("next"), &root).unwrap();
    hear();
    std::fs::write(root.join("again.sls"), "three").unwrap();
    hear();
}

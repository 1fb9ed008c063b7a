//! Packs that are small on the wire and huge when they are unpacked: refused in little time, memory and disk, whether their
//! commit is signed or not. And large packs of honest servers, in little memory.
//!
//! Each case runs in a process of its own, which prints what it took. `PACK_MB=n` sets the size of the honest pack.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use zagent_cache::source::{FetchError, SourceErrorKind};
use zagent_cache::testing::{GitHttpServer, PackBuilder, ScratchRepo, compress, copying_delta, test_source};
use zagent_cache::{CacheLimits, CommitTrust, ObjectStore};
use zagent_config::ids::Revision;
use zagent_config::settings::RequiredSignatures;

use super::fixture::{RemoteFixture, client, long_deadline};
use crate::site::{self, CacheSite};

/// What the child does: a word, the URL, the commit, the directory of its store.
const CHILD: &str = "BOMB_CHILD";
/// The most memory of a fetch: its own pages, and all pages with those of the program and of mapped files.
const MAX_MEMORY: u64 = 64 << 20;
const MAX_RESIDENT: u64 = 128 << 20;

/// Somebody who signed nothing here.
const SIGNER: &str =
    "a@example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIoRo0kCw/9bPZRVGWqyEnQzxGgoU3CvV5yl8O9QwtxY\n";

/// What a fetch took.
#[derive(Debug)]
struct FetchCost {
    answer: String,
    cpu: f64,
    /// The most memory of its own, and with mapped files.
    anonymous: u64,
    resident: u64,
    written: u64,
}

fn status_kb(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

fn cpu_seconds() -> f64 {
    let used = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(used.user_time()) + seconds(used.system_time())
}

/// In the child: one fetch. Does nothing in the parent.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [word, url, commit, dir] = told[..] else { panic!("{told:?}") };
    let revision: Revision = commit.parse().unwrap();
    let mut settings = test_source(url);
    settings.max_pack = if word == "honest" { 256 << 20 } else { 16 << 20 };
    let store = ObjectStore::open(dir).unwrap();
    let mut trust = site::trust();
    if word == "signed" {
        trust.require = RequiredSignatures::Commit;
        trust.allowed_signers = std::path::Path::new(dir).with_extension("signers");
        std::fs::write(&trust.allowed_signers, SIGNER).unwrap();
        std::fs::set_permissions(&trust.allowed_signers, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
    }
    let trust = CommitTrust { trust: &trust, now: Timestamp::from_second(site::NOW).unwrap() };
    let (cpu, written, most) = (cpu_seconds(), written_bytes(), AtomicU64::new(0));
    let mut client = client(&settings);
    let answer = std::thread::scope(|scope| {
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let most = &most;
        scope.spawn(move || {
            let pause = std::time::Duration::from_millis(2);
            while waits.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                most.fetch_max(status_kb("RssAnon"), Ordering::Relaxed);
            }
        });
        let fetched = match client.fetch_commit(&store, &revision, &trust, long_deadline()) {
            Err(FetchError::Refused(refusal)) => format!("refused-{}", refusal.code()),
            Err(FetchError::Source(error)) => error.kind.as_str().to_owned(),
            Ok(signed) => {
                let node = CacheSite::at(&std::path::Path::new(dir).with_extension("root"));
                let mut judged = signed.judge(&node.cache, &node.verify_context()).unwrap();
                match client.fetch(&store, "main", &mut judged, long_deadline()) {
                    Ok(()) => {
                        let tree = store.read_tree(&revision, CacheLimits::default()).unwrap();
                        format!("fetched-{}", tree.list().count())
                    }
                    Err(error) => error.kind.as_str().to_owned(),
                }
            }
        };
        drop(done);
        fetched
    });
    let (cpu, written) = (cpu_seconds() - cpu, written_bytes() - written);
    let (anonymous, resident) = (most.into_inner(), status_kb("VmHWM"));
    println!("cost {answer} {cpu} {anonymous} {resident} {written}");
}

/// Runs one fetch in a process of its own.
fn fetch_cost(word: &str, url: &str, commit: &str) -> FetchCost {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "source::bombs::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{word} {url} {commit} {}", store.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let cost = said.lines().find_map(|line| line.split_once("cost ").map(|(_, cost)| cost.to_owned()));
    let cost = cost.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    let mut words = cost.split(' ');
    let answer = words.next().unwrap().to_owned();
    let cpu = words.next().unwrap().parse().unwrap();
    let mut bytes = || words.next().unwrap().parse().unwrap();
    FetchCost { answer, cpu, anonymous: bytes(), resident: bytes(), written: bytes() }
}

/// Answers every request for objects with this pack.
fn serve_pack(server: &GitHttpServer, pack: Vec<u8>) {
    server.set_response_filter(move |body| {
        let start = body.windows(9).position(|part| part == b"packfile\n").unwrap() + 9;
        let mut answer = body[..start].to_vec();
        for part in pack.chunks(60_000) {
            answer.extend(format!("{:04x}\x01", part.len() + 5).bytes());
            answer.extend(part);
        }
        answer.extend(b"0000");
        answer
    });
}

/// The bytes of a commit of a repository.
fn commit_bytes(scratch: &ScratchRepo, commit: &Revision) -> Vec<u8> {
    ObjectStore::open(scratch.path().join(".git")).unwrap().commit(commit).unwrap().bytes
}

/// Packs of at most a few megabytes, and what they are.
fn bombs(commit: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut zeros = PackBuilder::default();
    zeros.object("commit", commit);
    let size = 15 << 20;
    let data = compress(&vec![0; size]);
    for _ in 0..6 {
        zeros.compressed("blob", size as u64, &data);
    }
    let mut deltas = PackBuilder::default();
    deltas.object("commit", commit);
    let base = deltas.object("blob", &vec![7; 64 << 10]);
    for _ in 0..5000 {
        deltas.delta(base, &copying_delta(64 << 10, 15 << 20));
    }
    let mut chain = PackBuilder::default();
    chain.object("commit", commit);
    let mut last = chain.object("blob", &vec![7; 64 << 10]);
    for _ in 0..5000 {
        last = chain.delta(last, &copying_delta(64 << 10, 64 << 10));
    }
    let mut late = PackBuilder::default();
    for _ in 0..6 {
        late.compressed("blob", size as u64, &data);
    }
    late.object("commit", commit);
    let mut many = PackBuilder::default();
    many.object("commit", commit);
    for _ in 0..60_000 {
        many.compressed("blob", 0, &compress(b""));
    }
    [("zeros", zeros), ("deltas", deltas), ("chain", chain), ("late", late), ("many", many)]
        .map(|(name, pack)| (name, pack.finish()))
        .into()
}

#[test]
fn bombs_are_refused_in_little_time_memory_and_disk() {
    zagent_cache::needs!("git");
    let (fixture, first) = RemoteFixture::with_commit();
    for (name, pack) in bombs(&commit_bytes(&fixture.scratch, &first)) {
        let size = pack.len();
        serve_pack(&fixture.server, pack);
        for word in ["signed", "any"] {
            let cost = fetch_cost(word, &fixture.url("changed"), first.as_str());
            println!("{name}, {word}, {size} bytes: {cost:?}");
            let wanted = match (word, name) {
                // Their number or what precedes the commit is refused before the commit arrives.
                ("signed", "late" | "many") | ("any", _) => SourceErrorKind::TooLarge.as_str(),
                _ => "refused-unsigned",
            };
            assert_eq!(cost.answer, wanted, "{name}, {word}");
            // Without optimisation; the shipped program takes a tenth.
            assert!(cost.cpu < if word == "signed" { 5.0 } else { 60.0 }, "{name}, {word}: {cost:?}");
            assert!(cost.anonymous < MAX_MEMORY && cost.resident < MAX_RESIDENT, "{name}, {word}: {cost:?}");
            assert!(cost.written < 2 * size as u64 + (1 << 20), "{name}, {word}: {cost:?}");
        }
    }
}

#[test]
fn a_server_that_can_filter_sends_the_commit_alone() {
    zagent_cache::needs!("git");
    let (fixture, first) = RemoteFixture::with_commit();
    let config = fixture.scratch.path().join(".git/config");
    let text = std::fs::read_to_string(&config).unwrap() + "[uploadpack]\n\tallowFilter = true\n";
    std::fs::write(config, text).unwrap();
    let cost = fetch_cost("signed", &fixture.url(""), first.as_str());
    assert_eq!(cost.answer, "refused-unsigned");
    assert!(cost.written < 64 << 10, "{cost:?}");
    assert_eq!(fetch_cost("any", &fixture.url(""), first.as_str()).answer, "fetched-41");
    // One that says so and sends everything is refused too.
    let bytes = commit_bytes(&fixture.scratch, &first);
    for (name, pack) in bombs(&bytes) {
        serve_pack(&fixture.server, pack);
        let cost = fetch_cost("any", &fixture.url("changed"), first.as_str());
        assert_eq!(cost.answer, SourceErrorKind::TooLarge.as_str(), "{name}: {cost:?}");
        assert!(cost.written < 1 << 20, "{name}: {cost:?}");
    }
}

/// Text that does not compress well.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut dice = site::CacheTestRng(seed);
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend(dice.below(u64::MAX).to_le_bytes());
    }
    bytes
}

#[test]
fn a_large_honest_pack_takes_little_memory() {
    zagent_cache::needs!("git");
    let megabytes = usize::try_from(site::iterations("PACK_MB", 24)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("large");
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&repo).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    std::fs::create_dir(&repo).unwrap();
    git(&["init", "-q", "-b", "main"]);
    // A few large files, of which one is nearly a copy of another, and many small ones.
    let large = noise(1, 12 << 20);
    std::fs::write(repo.join("large"), &large).unwrap();
    let copy = [b"changed".as_slice(), &large[..8 << 20], &noise(2, 1000), &large[8 << 20..]].concat();
    std::fs::write(repo.join("copy"), copy).unwrap();
    let small = megabytes.saturating_sub(12) * 4;
    for n in 0..small {
        std::fs::write(repo.join(format!("f{n}")), noise(n as u64 + 10, 256 << 10)).unwrap();
    }
    git(&["add", "."]);
    git(&["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "large"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let server = GitHttpServer::start(dir.path());
    let cost = fetch_cost("honest", &server.url("large"), &commit);
    println!("{megabytes} MB: {cost:?}");
    assert_eq!(cost.answer, format!("fetched-{}", small + 2));
    assert!(cost.anonymous < MAX_MEMORY && cost.resident < MAX_RESIDENT, "{cost:?}");
}

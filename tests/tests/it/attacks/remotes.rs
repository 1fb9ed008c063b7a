//! Remotes that hang, are slow, lie, redirect or change what they serve.

use std::fs;
use std::path::PathBuf;

use zagent_cache::testing::GitHttpServer;

use super::{SIGNERS, Victim};

/// An object whose content does not match its name, served by the repository itself.
#[test]
fn a_tampered_blob_is_refused() {
    let victim = Victim::new(SIGNERS);
    victim.commit("two");
    let loose = |top: PathBuf, id: &str| top.join("objects").join(&id[..2]).join(&id[2..]);
    let id = victim.repo.git(&["rev-parse", "HEAD:states/motd.sls"]);
    let evil = victim.repo.git_on(&["hash-object", "-w", "--stdin"], b"x: {test.nop: []}\n");
    let place = loose(victim.repo.bare(), &id);
    fs::remove_file(&place).unwrap();
    fs::copy(loose(victim.repo.work().join(".git"), &evil), &place).unwrap();
    let generations = victim.node.generations();
    victim.node.turn().expect(0, &["warning", "is held back"]);
    victim.node.call(&["source", "sync"]).expect(69, &[]);
    victim.node.stands_on(&victim.good);
    assert_eq!(victim.node.generations(), generations);
    assert_eq!(victim.node.status()["why_not"]["why"], "unfetched");
}

/// Twelve remotes that hang, are slow, lie or redirect: each is given up in time, and named.
#[test]
fn a_remote_that_misbehaves_is_given_up_and_the_last_good_revision_converges() {
    let victim = Victim::new("");
    let server = GitHttpServer::start(victim.repo.top());
    victim.commit("two");
    server.set_response_filter(|mut pack| {
        let middle = pack.len() / 2;
        pack[middle..].iter_mut().for_each(|byte| *byte ^= 1);
        pack
    });
    let kinds = [
        "hang",
        "half",
        "body",
        "trickle",
        "headers",
        "loop",
        "tofile",
        "garbage",
        "endless",
        "s500",
        "denied",
        "html",
        "late-hang",
        "late-truncated",
        "late-changed",
    ];
    for kind in kinds {
        let url = server.url(&format!("{kind}/repo.git"));
        victim.node.configure(&format!("source: {{remotes: [{{url: '{url}'}}], timeout: 500ms}}\n"), "");
        let begun = std::time::Instant::now();
        victim.node.call(&["source", "sync"]).expect(69, &[&server.address().to_string()]);
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{kind} took {:?}", begun.elapsed());
        victim.node.stands_on(&victim.good);
    }
    fs::remove_file(victim.node.host().join("motd")).unwrap();
    victim.node.turn().expect(0, &["warning", "is held back"]);
    assert_eq!(victim.node.text("motd"), "one");
}

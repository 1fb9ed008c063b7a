//! Plan files: what is applied is what the dry run showed, or nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::Checkout;

/// Number of random changes between save and apply; `PLAN_CHANGES` sets another.
const CHANGES: u64 = 200;

/// What must become of a plan after a change.
enum Verdict {
    /// Refused, and the error names this.
    Refused(&'static str),
    /// Applied, with the result that the dry run showed.
    Harmless,
}

use Verdict::{Harmless, Refused};

/// A change and what must become of the plan.
type Change = (fn(&Checkout, u64), Verdict);

/// Every kind of change. The number makes values differ.
fn changes() -> Vec<Change> {
    vec![
        (
            |c, n| add(c, "repo/states/web/init.sls", &format!("# {n}\n")),
            Refused("tree: the file `states/web/init.sls` changed"),
        ),
        (
            |c, n| c.write("repo/states/web/conf", &format!("a = {n}0\n")),
            Refused("tree: the file `states/web/conf` changed"),
        ),
        (
            |c, n| add(c, "repo/states/web/page", &format!("{n}\n")),
            Refused("tree: the file `states/web/page` changed"),
        ),
        (
            |c, n| add(c, "repo/states/top.sls", &format!("# {n}\n")),
            Refused("tree: the file `states/top.sls` changed"),
        ),
        (
            |c, n| swap(c, "repo/pillar/common.sls", "world", &format!("moon{n}")),
            Refused("pillar: the key `who` changed"),
        ),
        (
            |c, n| swap(c, "repo/pillar/common.sls", "hunter2-of-plans", &format!("other{n}-of-plans")),
            Refused("pillar: the key `db:password` changed"),
        ),
        (
            |c, n| add(c, "repo/pillar/common.sls", &format!("extra: {n}\n")),
            Refused("pillar: the key `extra` was added"),
        ),
        (
            |c, _| swap(c, "repo/pillar/common.sls", ", port: 5432", ""),
            Refused("pillar: the key `db:port` was removed"),
        ),
        (
            |c, n| swap(c, "grains.yaml", "Debian", &format!("Plan{n}")),
            Refused("facts: the grain `os` changed"),
        ),
        (|c, n| swap(c, "grains.yaml", "role: web", &format!("role: db{n}")), Harmless),
        (
            |c, n| fs::write(c.host("motd"), format!("by hand {n}\n")).unwrap(),
            Refused("motd` has other content"),
        ),
        (|c, n| mode(&c.host("motd"), if n % 2 == 0 { 0o600 } else { 0o666 }), Refused("motd` has mode ")),
        (|c, _| fs::remove_file(c.host("motd")).unwrap(), Refused("motd` does not exist any more")),
        (|c, n| fs::write(c.host("conf"), format!("{n}")).unwrap(), Refused("conf` exists now, and did not")),
        (|c, _| fs::create_dir(c.host("page")).unwrap(), Refused("page` exists now, and did not")),
        (|c, _| symlink("elsewhere", c.host("link")).unwrap(), Refused("link` exists now, and did not")),
        (|c, _| fs::remove_file(c.host("gone")).unwrap(), Refused("gone` does not exist any more")),
        (
            |c, _| fs::remove_file(c.host("gone")).and_then(|()| fs::create_dir(c.host("gone"))).unwrap(),
            Refused("gone` is a directory now, and was a file"),
        ),
        (|c, n| fs::write(c.host(&format!("other-{n}")), "x").unwrap(), Harmless),
        (|c, n| c.write(&format!("repo/inventory/db-{n}.yaml"), "os: Debian\n"), Harmless),
        (|c, _| c.write("repo/states/web/conf", "a = 1\n"), Harmless),
        (|c, n| c.write(&format!("repo/note-{n}"), "read me\n"), Harmless),
    ]
}

fn add(checkout: &Checkout, name: &str, more: &str) {
    let text = checkout.read(name) + more;
    fs::write(checkout.path(name), text).unwrap();
}

fn swap(checkout: &Checkout, name: &str, from: &str, to: &str) {
    let text = checkout.read(name);
    assert!(text.contains(from), "{text}");
    fs::write(checkout.path(name), text.replace(from, to)).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The host as a person sees it: kind, mode and content of each path.
fn imprint(dir: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match fs::read_link(&path) {
            Ok(target) => target.display().to_string(),
            Err(_) => fs::read_to_string(&path).unwrap_or_default(),
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        all.insert(name, format!("{:o} {content}", meta.permissions().mode()));
    }
    all
}

/// A checkout whose dry run is saved in `plan`.
fn saved() -> Checkout {
    let checkout = Checkout::new();
    fs::write(checkout.host("motd"), "before\n").unwrap();
    mode(&checkout.host("motd"), 0o640);
    fs::write(checkout.host("gone"), "x").unwrap();
    let args = ["run", "--once", "--test", "--grains", "../grains.yaml", "--save", "../plan"];
    let said = checkout.zagent("repo", &args).expect(0);
    assert!(said.err.contains("saved; apply it with `zagent run --once --plan ../plan`"), "{}", said.err);
    checkout
}

#[test]
fn changes_between_save_and_apply_are_refused_or_harmless() {
    let number = std::env::var("PLAN_CHANGES").ok().and_then(|n| n.parse().ok()).unwrap_or(CHANGES);
    let (all, mut dice) = (changes(), 0x9e37_79b9_7f4a_7c15_u64);
    let (mut refused, mut harmless) = (0, 0);
    for round in 0..number {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Every kind comes once before chance decides.
        let index = if round < all.len() as u64 { round } else { (dice >> 33) % all.len() as u64 };
        let (change, verdict) = &all[usize::try_from(index).unwrap()];
        let checkout = saved();
        change(&checkout, round + 10);
        let before = imprint(&checkout.path("host"));
        let said = checkout.zagent("host", &["run", "--once", "--plan", "../plan"]);
        assert!(!said.err.contains("of-plans"), "change {index}: {}", said.err);
        match verdict {
            Refused(cause) => {
                assert!(said.code == 76 && said.err.contains(cause), "change {index} ({cause}): {said:#?}");
                assert_eq!(imprint(&checkout.path("host")), before, "change {index}");
                refused += 1;
            }
            Harmless => {
                assert_eq!(said.code, 0, "change {index}: {said:#?}");
                assert_eq!(checkout.read("host/motd"), "hello world on Debian\n", "change {index}");
                assert_eq!(checkout.read("host/conf"), "a = 1\n");
                assert_eq!(checkout.read("host/page"), "a page\n");
                assert_eq!(fs::read_link(checkout.host("link")).unwrap(), Path::new("conf"));
                assert!(!checkout.host("gone").exists());
                harmless += 1;
            }
        }
    }
    eprintln!("{number} changes: {refused} refused with the right cause, {harmless} harmless");
}

#[test]
fn several_causes_are_named_together() {
    let checkout = saved();
    swap(&checkout, "repo/pillar/common.sls", "world", "moon");
    fs::write(checkout.host("motd"), "by hand\n").unwrap();
    let said = checkout.zagent("repo", &["run", "--once", "--plan", "../plan", "--out", "json"]).expect(76);
    let message = said.json()["errors"][0]["message"].as_str().unwrap().to_owned();
    for cause in
        ["tree: the file `pillar/common.sls` changed", "pillar: the key `who` changed", "motd` has other"]
    {
        assert!(message.contains(cause), "{message}");
    }
}

#[test]
fn a_plan_file_holds_no_secret() {
    let checkout = Checkout::new();
    add(
        &checkout,
        "repo/states/web/init.sls",
        "secret:\n  file.managed:\n    - name: $H/secret\n    - contents: {{ pillar['db']['password'] }}\n",
    );
    let sls = checkout.read("repo/states/web/init.sls");
    checkout.write("repo/states/web/init.sls", &sls);
    fs::write(checkout.host("secret"), "hunter1-of-plans\n").unwrap();
    checkout.zagent("repo", &["run", "--once", "--test", "--save", "../plan"]).expect(0);
    let text = checkout.read("plan");
    assert!(!text.contains("of-plans") && text.contains("db:password"), "{text}");
    assert_eq!(fs::metadata(checkout.path("plan")).unwrap().permissions().mode() & 0o777, 0o600);
    // The content of a file with a secret counts, although no diff of it is shown.
    fs::write(checkout.host("secret"), "hunter3-of-plans\n").unwrap();
    let said = checkout.zagent("repo", &["run", "--once", "--plan", "../plan"]).expect(76);
    assert!(said.err.contains("secret` has other content") && !said.err.contains("of-plans"), "{}", said.err);
}

#[test]
fn a_plan_file_of_another_agent_or_with_damage_is_refused() {
    let checkout = saved();
    let whole = checkout.read("plan");
    let before = imprint(&checkout.path("host"));
    for (text, why) in [
        (whole[..whole.len() / 2].to_owned(), "modified or cut off"),
        (whole.replacen("\"changes\"", "\"Changes\"", 1), "modified or cut off"),
        (whole.replacen("file 1 ", "file 9 ", 1), "has format version 9"),
        ("hello\n".to_owned(), "is not a plan file"),
        (String::new(), "is not a plan file"),
    ] {
        fs::write(checkout.path("plan"), text).unwrap();
        let said = checkout.zagent("repo", &["run", "--once", "--plan", "../plan"]).expect(76);
        assert!(said.err.contains(why), "{why}: {}", said.err);
    }
    fs::write(checkout.path("plan"), &whole).unwrap();
    checkout.write("zagent.yaml", &format!("root: {}\n", checkout.path("another").display()));
    let said = checkout.zagent("repo", &["run", "--once", "--plan", "../plan"]).expect(76);
    assert!(said.err.contains("saved by another agent"), "{}", said.err);
    checkout.zagent("repo", &["run", "--once", "--plan", "../none"]).expect(2);
    assert_eq!(imprint(&checkout.path("host")), before);
}

#[test]
fn a_plan_that_would_fail_is_not_saved_and_flags_are_checked() {
    let checkout = Checkout::new();
    add(
        &checkout,
        "repo/states/web/init.sls",
        "bad:\n  file.managed:\n    - name: /nonexistent/x\n    - source: salt://none\n",
    );
    let said = checkout.zagent("repo", &["run", "--once", "--test", "--save", "../plan"]).expect(1);
    assert!(said.err.contains("the plan is not saved") && !checkout.path("plan").exists(), "{}", said.err);
    for args in [
        &["run", "--once", "--save", "../plan"][..],
        &["run", "--test", "--save", "../plan"],
        &["run", "--once", "--test", "--plan", "../plan"],
        &["run", "--once", "--plan", "../plan", "--sls", "web"],
        &["run", "--once", "--plan", "../plan", "--here"],
    ] {
        checkout.zagent("repo", args).expect(2);
    }
}

#[test]
fn a_plan_of_the_followed_states_is_applied_in_a_turn() {
    let checkout = Checkout::new();
    let config = |root: &Path, repo: &Path| {
        format!("root: {}\nsource: {{remotes: [{{url: {}}}]}}\n", root.display(), repo.display())
    };
    checkout.write("zagent.yaml", &config(&checkout.path("root"), &checkout.path("repo")));
    checkout.zagent("host", &["run", "--once", "--test", "--save", "../plan"]).expect(0);
    checkout.write("repo/states/web/conf", "a = 2\n");
    let said = checkout.zagent("host", &["run", "--once", "--plan", "../plan"]).expect(76);
    assert!(said.err.contains("tree: the file `states/web/conf` changed"), "{}", said.err);
    assert!(!checkout.host("conf").exists());
    checkout.write("repo/states/web/conf", "a = 1\n");
    let said = checkout.zagent("host", &["run", "--once", "--plan", "../plan", "--out", "json"]).expect(0);
    assert_eq!(said.json()["changed"], 4);
    assert_eq!(checkout.read("host/conf"), "a = 1\n");
}

//! From nothing to a secret on a host, as a person types it: keys, rules, values, editing, a person who leaves.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

struct Desk {
    temp: TempDir,
}

impl Desk {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let repo = temp.path().join("repo");
        fs::create_dir_all(repo.join("states")).unwrap();
        fs::create_dir_all(repo.join("pillar/web")).unwrap();
        fs::write(repo.join("states/top.sls"), "base: {'*': [app]}\n").unwrap();
        fs::write(repo.join("states/app.sls"), "app:\n  test.nop: []\n").unwrap();
        fs::write(repo.join("pillar/top.sls"), "base: {'*': [web.app]}\n").unwrap();
        Self { temp }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.temp.path().join(name)
    }

    fn repo(&self) -> std::path::PathBuf {
        self.path("repo")
    }

    /// Runs the program for a person whose home is named so.
    fn zagent(&self, person: &str, args: &[&str], input: &str) -> Output {
        self.edits(person, args, input, "true")
    }

    fn edits(&self, person: &str, args: &[&str], input: &str, editor: &str) -> Output {
        let home = self.path(person);
        fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zagent"));
        command.args(args).current_dir(self.repo()).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
        command.env("EDITOR", editor).env_remove("VISUAL");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn good(&self, person: &str, args: &[&str], input: &str) -> String {
        let output = self.zagent(person, args, input);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.repo().join(name)).unwrap()
    }

    /// The pillar as a node with this private key compiles it.
    fn pillar(&self, identity: &Path) -> Output {
        let config = self.path("zagent.yaml");
        let root = self.path("root");
        fs::write(
            &config,
            format!("root: {}\nsecrets: {{identity: {}}}\n", root.display(), identity.display()),
        )
        .unwrap();
        let config = config.display().to_string();
        let args = [
            "show", "pillar", "--unmask", "--out", "json", "--config", &config, "--id", "web-01", "--states",
            "states", "--pillar", "pillar",
        ];
        self.zagent("node", &args, "")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ssh_key(path: &Path) -> String {
    let mut keygen = Command::new("ssh-keygen");
    let made =
        keygen.args(["-q", "-t", "ed25519", "-C", "root@web-01", "-N", "", "-f"]).arg(path).output().unwrap();
    assert!(made.status.success());
    path.with_extension("pub").display().to_string()
}

#[test]
fn from_nothing_to_a_secret_on_a_host() {
    zagent_cache::needs!("ssh-keygen");
    let desk = Desk::new();
    let host_key = desk.path("host_key");
    let host_public = ssh_key(&host_key);

    desk.good("ops", &["secrets", "keygen", "--as", "ops"], "");
    desk.good("ops", &["secrets", "keygen", "--host", "web-01", "--key", &host_public], "");
    let done =
        desk.good("ops", &["secrets", "encrypt", "pillar/web/app.sls", "db:password"], "s3cret-token\n");
    assert_eq!(done, "Encrypted `db:password` in pillar/web/app.sls for ops, web-01\n");
    let file = desk.read("pillar/web/app.sls");
    assert!(file.starts_with("#!jinja|yaml|age\ndb:\n  password: |-\n    -----BEGIN AGE"), "{file}");
    assert!(!file.contains("s3cret"));

    // The host opens it, and nobody without a key does.
    let seen = desk.pillar(&host_key);
    assert!(
        text(&seen.stdout).contains("\"password\": \"s3cret-token\""),
        "{}{}",
        text(&seen.stdout),
        text(&seen.stderr)
    );
    let other = desk.path("other_key");
    ssh_key(&other);
    assert_eq!(desk.pillar(&other).status.code(), Some(65));

    // An editor sees the value alone; the rest of the file stays.
    let editor = "sh -c 'grep -qx s3cret-token \"$1\" && echo new-token > \"$1\"' sh";
    let edited = desk.edits("ops", &["secrets", "edit", "pillar/web/app.sls"], "", editor);
    assert!(edited.status.success(), "{}", text(&edited.stderr));
    assert!(text(&desk.pillar(&host_key).stdout).contains("new-token"));
    let unchanged = desk.read("pillar/web/app.sls");
    assert_eq!(
        desk.good("ops", &["secrets", "edit", "pillar/web/app.sls"], ""),
        "pillar/web/app.sls is unchanged\n"
    );
    assert_eq!(desk.read("pillar/web/app.sls"), unchanged);
    let strange = desk.zagent("dev", &["secrets", "edit", "pillar/web/app.sls"], "");
    assert_eq!(strange.status.code(), Some(1), "{}", text(&strange.stderr));
}

#[test]
fn a_person_who_leaves_can_read_nothing_new_and_what_they_could_read_is_listed() {
    zagent_cache::needs!("ssh-keygen");
    let desk = Desk::new();
    let host_public = ssh_key(&desk.path("host_key"));
    desk.good("ops", &["secrets", "keygen", "--as", "ops"], "");
    desk.good("dev", &["secrets", "keygen", "--as", "dev"], "");
    desk.good("ops", &["secrets", "keygen", "--host", "web-01", "--key", &host_public], "");
    let mut rules = desk.read("recipients.yaml");
    rules.push_str("rules:\n  - {path: 'pillar/web/*', target: 'web-*'}\n  - {path: 'pillar/ops/*', people: [ops], target: 'db-*'}\n");
    fs::write(desk.repo().join("recipients.yaml"), &rules).unwrap();
    desk.good("ops", &["secrets", "encrypt", "pillar/web/app.sls", "a"], "one-secret");
    desk.good("dev", &["secrets", "encrypt", "pillar/web/app.sls", "b"], "two-secret");
    fs::create_dir(desk.repo().join("pillar/ops")).unwrap();
    fs::write(desk.repo().join("pillar/ops/all.sls"), "#!yaml\nroot_password: three-secret\n").unwrap();
    desk.good("ops", &["secrets", "encrypt", "pillar/ops/all.sls"], "");
    assert!(desk.read("pillar/ops/all.sls").starts_with("#!age|yaml\n-----BEGIN AGE"));
    assert_eq!(
        desk.good("dev", &["secrets", "check"], ""),
        "3 secrets in 2 files: each is encrypted for its readers\n"
    );
    let who = desk.good("dev", &["secrets", "who"], "");
    assert_eq!(
        who,
        "SECRET                             READERS\n\
         pillar/ops/all.sls:2 (whole file)  ops\n\
         pillar/web/app.sls:3 a             dev, ops, web-01\n\
         pillar/web/app.sls:19 b            dev, ops, web-01\n"
            .replace("19", &line_of(&desk.read("pillar/web/app.sls"), "b: |-").to_string()),
        "{who}"
    );

    // `dev` leaves.
    let without: String =
        rules.lines().filter(|line| !line.starts_with("  dev:")).map(|line| format!("{line}\n")).collect();
    fs::write(desk.repo().join("recipients.yaml"), without).unwrap();
    let outdated = desk.zagent("ops", &["secrets", "check"], "");
    assert_eq!(outdated.status.code(), Some(1));
    assert!(
        text(&outdated.stdout).ends_with("3 secrets in 2 files: 2 findings\n"),
        "{}",
        text(&outdated.stdout)
    );
    let before = desk.read("pillar/web/app.sls");
    let planned = desk.good("ops", &["secrets", "rekey", "--test"], "");
    assert_eq!(
        (planned.matches("would encrypt again").count(), desk.read("pillar/web/app.sls")),
        (2, before.clone())
    );
    // Without a key nothing changes.
    let blocked = desk.zagent("dev2", &["secrets", "rekey"], "");
    assert_eq!((blocked.status.code(), desk.read("pillar/web/app.sls")), (Some(1), before));
    let done = desk.good("ops", &["secrets", "rekey"], "");
    assert!(done.contains("Rotate these secrets"), "{done}");
    assert_eq!(done.matches("was readable for key ").count(), 2, "{done}");
    desk.good("ops", &["secrets", "check"], "");
    let read = desk.zagent("dev", &["secrets", "edit", "pillar/web/app.sls", "a"], "");
    assert_eq!(read.status.code(), Some(1));
    assert!(text(&read.stderr).contains("no age identity"), "{}", text(&read.stderr));
    assert_eq!(
        desk.good("ops", &["secrets", "rekey"], ""),
        "Every secret is encrypted for its readers; nothing to do\n"
    );
}

fn line_of(text: &str, line: &str) -> usize {
    // The message begins below its key.
    text.lines().position(|one| one == line).unwrap() + 2
}

#[test]
fn wrong_input_is_refused_and_nothing_is_lost() {
    let desk = Desk::new();
    let refused = |args: &[&str], input: &str, words: &str| {
        let output = desk.zagent("ops", args, input);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    };
    refused(&["secrets", "who"], "", "zagent secrets keygen --as NAME");
    desk.good("ops", &["secrets", "keygen", "--as", "ops"], "");
    refused(&["secrets", "keygen", "--as", "o ps"], "", "is not a name");
    refused(
        &["secrets", "keygen", "--host", "web-01", "--key", "/missing.pub"],
        "",
        "cannot read the public key",
    );
    // The key of this host is not taken for that of another one.
    refused(
        &["secrets", "keygen", "--host", "not-this-host"],
        "",
        "name the public key of that host with `--key`",
    );
    refused(&["secrets", "encrypt", "pillar/web/app.sls", "a"], "", "the value is empty");
    refused(&["secrets", "encrypt", "pillar/web/app.sls", "a:"], "x", "is not a key");
    refused(&["secrets", "encrypt", "../outside.sls", "a"], "x", "is not in the repository");
    let template = "a: {{ grains.id }}\n";
    fs::write(desk.repo().join("pillar/t.sls"), template).unwrap();
    refused(&["secrets", "encrypt", "pillar/t.sls", "a"], "x", "template commands");
    assert_eq!(desk.read("pillar/t.sls"), template);
    let printed = desk.good("ops", &["secrets", "encrypt", "--print", "pillar/t.sls", "a"], "x");
    assert!(printed.starts_with("-----BEGIN AGE"));
    refused(&["secrets", "edit", "pillar/t.sls"], "", "holds no encrypted values");
    // A second key for the same name does not replace the first.
    refused(&["secrets", "keygen", "--as", "ops", "--key", "age1nonsense"], "", "not an age public key");
    let key = desk.read("recipients.yaml");
    desk.good("ops", &["secrets", "keygen", "--as", "ops"], "");
    assert_eq!(desk.read("recipients.yaml"), key);
    let other = desk.zagent("dev", &["secrets", "keygen", "--as", "ops"], "");
    assert!(text(&other.stderr).contains("has another key"), "{}", text(&other.stderr));
}

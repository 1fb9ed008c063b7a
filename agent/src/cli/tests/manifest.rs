//! `zagent manifest`, from the first manifest to a stale signature.

use std::path::PathBuf;

use super::{ExitStatus, Said, Tree, zagent};

/// A repository with a state, and a key next to it.
struct Site {
    tree: Tree,
    keys: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self {
            tree: Tree::new(&[("repo/states/top.sls", "base: {}\n")]),
            keys: tempfile::tempdir().unwrap(),
        };
        let mut command = std::process::Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(site.key());
        assert!(command.status().unwrap().success());
        site
    }

    fn key(&self) -> PathBuf {
        self.keys.path().join("alice")
    }

    fn repo(&self, name: &str) -> PathBuf {
        self.tree.dir.path().join("repo").join(name)
    }

    fn manifest(&self, what: &str, more: &[&str]) -> Said {
        let dir = self.repo("").display().to_string();
        let mut args = vec!["manifest", what, dir.trim_end_matches('/')];
        let config = self.tree.dir.path().join("none.yaml").display().to_string();
        if what == "check" {
            args.extend(["--config", &config]);
        }
        args.extend(more);
        zagent(&args, self.tree.dir.path())
    }

    fn signers(&self) -> String {
        let public = std::fs::read_to_string(self.key().with_extension("pub")).unwrap();
        let path = self.keys.path().join("allowed_signers");
        std::fs::write(&path, format!("alice@example.org {public}")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        path.display().to_string()
    }
}

#[test]
fn written_checked_changed_and_written_again() {
    zagent_cache::needs!("ssh-keygen");
    let site = Site::new();
    let said = site.manifest("check", &[]);
    assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    assert!(
        said.err.contains("there is no `$DIR/repo/manifest.yaml`") && said.err.contains("manifest write")
    );

    let said = site.manifest("write", &["--expires", "30d"]);
    assert_eq!(said.out, "$DIR/repo/manifest.yaml: serial 1, 1 files\n  a new manifest\n", "{}", said.all());
    assert_eq!(site.manifest("check", &[]).exit, ExitStatus::Success);
    let said = site.manifest("write", &[]);
    assert_eq!(said.out, "$DIR/repo/manifest.yaml: unchanged, serial 1\n");

    site.tree.write(&[("repo/states/top.sls", "base: {'*': [a]}\n"), ("repo/states/a.sls", "")]);
    let said = site.manifest("check", &["--out", "json"]);
    assert_eq!(said.exit, ExitStatus::Failed);
    assert_eq!(
        said.json()["differences"],
        serde_json::json!(["`states/top.sls` has different content", "`states/a.sls` is not listed"])
    );
    let said = site.manifest("write", &[]);
    assert!(
        said.out.contains("serial 2, 2 files") && said.out.contains("`states/a.sls` is new"),
        "{}",
        said.all()
    );
    assert!(said.out.contains("`states/top.sls` has changed"), "{}", said.all());
    for (flags, words) in [
        (["--serial", "1"], "is lower than 2"),
        (["--expires", "2020-01-01"], "is in the past"),
        (["--expires", "soon"], "`soon` is not a valid time"),
        (["--expires", "99999999d"], "is not a valid time"),
    ] {
        let said = site.manifest("write", &flags);
        assert!(said.exit == ExitStatus::Usage && said.err.contains(words), "{flags:?}: {}", said.all());
    }
    site.tree.write(&[("repo/manifest.yaml", "schema: 1\nseriel: 3\n")]);
    let said = site.manifest("write", &[]);
    assert!(said.exit == ExitStatus::Usage && said.err.contains("error[ZA1102]"), "{}", said.all());
    assert!(
        said.err.contains("manifest.yaml:2:1") && said.err.contains("did you mean `serial`?"),
        "{}",
        said.all()
    );
}

#[test]
fn signed_checked_and_stale() {
    zagent_cache::needs!("ssh-keygen");
    let site = Site::new();
    let (key, signers) = (site.key().display().to_string(), site.signers());
    let place = ["--repository", "https://git.example.org/ops/states.git", "--branch", "main"];
    site.manifest("write", &place);
    let check = || site.manifest("check", &["--allowed-signers", &signers]);
    let said = check();
    assert!(
        said.exit == ExitStatus::Failed && said.out.contains("the manifest is not signed"),
        "{}",
        said.all()
    );
    let said = site.manifest("sign", &["--key", &key, "--as", "alice"]);
    let wanted =
        "$DIR/repo/manifest.yaml.sig.alice: signed serial 1 for git.example.org/ops/states, branch main\n";
    assert_eq!(said.out, wanted, "{}", said.all());
    let said = check();
    assert!(
        said.exit == ExitStatus::Success && said.out.contains("signed by alice@example.org (SHA256:"),
        "{}",
        said.all()
    );
    let said = site.manifest("check", &["--allowed-signers", &signers, "--threshold", "2"]);
    assert!(
        said.exit == ExitStatus::Failed && said.out.contains("1 of 2 required signatures are valid"),
        "{}",
        said.all()
    );

    // Files that are not listed are not covered by the signature.
    site.tree.write(&[("repo/states/a.sls", "")]);
    let said = site.manifest("sign", &["--key", &key]);
    assert!(
        said.exit == ExitStatus::Failed && said.err.contains("`states/a.sls` is not listed"),
        "{}",
        said.all()
    );
    let said = site.manifest("write", &[]);
    assert!(said.err.contains("manifest.yaml.sig.alice signed the old manifest"), "{}", said.all());
    assert!(site.repo("manifest.yaml.sig.alice").exists());
    assert!(check().out.contains("does not match the signed content"), "{}", check().all());
    site.tree.write(&[("repo/states/a.sls", "x")]);
    let said = site.manifest("write", &["--drop-signatures"]);
    assert!(said.err.contains("removed manifest.yaml.sig.alice"), "{}", said.all());
    assert!(!site.repo("manifest.yaml.sig.alice").exists());
    for name in ["../x", "a/b", ".x", ""] {
        assert_eq!(site.manifest("sign", &["--key", &key, "--as", name]).exit, ExitStatus::Usage, "{name:?}");
    }
    let said = site.manifest("sign", &["--key", "/nonexistent"]);
    assert!(
        said.exit == ExitStatus::Failed && said.err.contains("cannot read the key `/nonexistent`"),
        "{}",
        said.all()
    );
}

//! Working in a checkout, as a person types it: previews, plan files, audit mode, and the page that describes them.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]

mod audit;
mod checkout;
mod page;
mod plan_file;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A checkout, a directory that stands for the host, and the agent's own directory.
struct Checkout {
    temp: TempDir,
}

impl Checkout {
    fn new() -> Self {
        let checkout = Self { temp: tempfile::tempdir().unwrap() };
        fs::create_dir(checkout.path("host")).unwrap();
        checkout.write("zagent.yaml", &format!("root: {}\n", checkout.path("root").display()));
        checkout.write("repo/states/top.sls", "base: {'*': [web]}\n");
        checkout.write(
            "repo/states/web/init.sls",
            "motd:\n  file.managed:\n    - name: $H/motd\n    - mode: '0644'\n    - contents: \
             \"hello {{ pillar['who'] }} on {{ grains['os'] }}\"\n\
             conf:\n  file.managed:\n    - name: $H/conf\n    - source: salt://web/conf\n\
             page:\n  file.managed:\n    - name: $H/page\n    - source: salt://web/page\n    - template: jinja\n\
             link:\n  file.symlink:\n    - name: $H/link\n    - target: conf\n\
             gone:\n  file.absent:\n    - name: $H/gone\n",
        );
        checkout.write("repo/states/web/conf", "a = 1\n");
        checkout.write("repo/states/web/page", "{{ pillar['title'] }}\n");
        checkout.write("repo/pillar/top.sls", "base: {'*': [common]}\n");
        checkout.write(
            "repo/pillar/common.sls",
            "who: world\ntitle: a page\ndb: {password: hunter2-of-plans, port: 5432}\n",
        );
        checkout.write("repo/inventory/web-01.yaml", "id: web-01\nos: Plan9\n");
        checkout.write("grains.yaml", "os: Debian\nrole: web\n");
        checkout
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn host(&self, name: &str) -> PathBuf {
        self.path("host").join(name)
    }

    /// Writes a file; `$H` in it is the host.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("$H", &self.path("host").display().to_string())).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A command in a directory, with nothing configured but the agent's own directory.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>, dir: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path(dir)).env("ZAGENT_CONFIG", self.path("zagent.yaml"));
        command.env("HOME", self.path("home")).env_remove("XDG_STATE_HOME").env_remove("SUDO_UID");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn zagent(&self, dir: &str, args: &[&str]) -> Said {
        let output = self.command(env!("CARGO_BIN_EXE_zagent"), dir).args(args).output().unwrap();
        Said::new(&output)
    }
}

/// Output of a command.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn new(output: &Output) -> Self {
        let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
        Self { code: output.status.code().unwrap_or(-1), out, err }
    }

    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

fn own_directory() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_zagent")).parent().unwrap().to_owned()
}

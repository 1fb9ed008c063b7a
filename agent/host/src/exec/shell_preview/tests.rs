//! Lines that a real shell runs on a copy of the same files: exit code class and files must agree.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::disk::Disk;
use crate::fs::Overlay;

fn listing(fs: &dyn FileSystem, dir: &Path, out: &mut BTreeMap<String, String>, root: &Path) {
    for (name, kind) in fs.read_dir(dir).unwrap() {
        let path = dir.join(name);
        let shown = match kind {
            FileKind::Dir => {
                listing(fs, &path, out, root);
                "dir".to_owned()
            }
            FileKind::File => {
                let mode = fs.stat(&path).unwrap().unwrap().mode;
                format!("{mode:o} {}", String::from_utf8_lossy(&fs.read(&path).unwrap()))
            }
            other => format!("{other:?}"),
        };
        out.insert(path.strip_prefix(root).unwrap().display().to_string(), shown);
    }
}

fn host() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    std::fs::write(dir.path().join("dir/in"), "in\n").unwrap();
    std::fs::write(dir.path().join("a"), "one\ntwo words\n").unwrap();
    std::fs::write(dir.path().join("b"), "").unwrap();
    std::fs::set_permissions(dir.path().join("a"), PermissionsExt::from_mode(0o640)).unwrap();
    dir
}

const LINES: [&str; 64] = [
    "true",
    "false",
    ":",
    "/bin/true",
    "exit 3",
    "exit 0; false",
    "! true",
    "! false",
    "true && false",
    "false || true",
    "false && true || true",
    "true || false && false",
    "false; true",
    "echo hello",
    "echo hello > $D/new",
    "echo 'a  b' >> $D/a",
    "echo -n x > $D/b",
    "echo one > $D/none/x",
    "echo one > $D/dir",
    "echo x > $D/a && grep -q x $D/a",
    "false > $D/a",
    "true > $D/a",
    "echo x >/dev/null 2>&1",
    "ls $D/none 2>/dev/null || touch $D/none",
    "touch $D/a $D/c",
    "touch $D/none/c",
    "mkdir $D/new",
    "mkdir $D/dir",
    "mkdir $D/none/deep",
    "mkdir -p $D/none/deep && touch $D/none/deep/x",
    "mkdir -p $D/dir",
    "mkdir -p $D/a",
    "rm $D/a",
    "rm $D/none",
    "rm -f $D/none $D/b",
    "rm $D/dir",
    "rm -rf $D/dir",
    "rm -r $D/dir $D/none",
    "test -f $D/a",
    "test -d $D/a",
    "[ -e $D/none ]",
    "[ ! -e $D/none ] && touch $D/none",
    "test -s $D/b || echo full > $D/b",
    "cat $D/a",
    "cat $D/none",
    "cat $D/a > $D/c",
    "cat $D/a $D/dir/in > $D/c",
    "ls $D/a",
    "ls -la $D/none",
    "grep -q one $D/a",
    "grep -q three $D/a",
    "grep -q one $D/none",
    "grep -c one $D/a",
    "grep -qx two $D/a",
    "grep -q 'two words' $D/a",
    "cp $D/a $D/c",
    "cp $D/a $D/b",
    "cp $D/none $D/b",
    "cp $D/a $D/none/x",
    "mv $D/a $D/c",
    "chmod 600 $D/a",
    "chmod 0755 $D/none",
    "cd $D && touch here",
    "sh -c 'test -f $D/a && rm $D/a'",
];

#[test]
fn every_answer_is_the_shells() {
    for line in LINES {
        let (real, imagined) = (host(), host());
        let written = |dir: &Path| line.replace("$D", &dir.display().to_string());
        let code = std::process::Command::new("/bin/sh")
            .args(["-c", &written(real.path())])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
            .code()
            .unwrap();
        let overlay = Overlay::new(Arc::new(Disk::default()));
        let preview = parse(&written(imagined.path()), None);
        let answer = preview.unwrap_or_else(|| panic!("not understood: {line}")).run(&overlay);
        // Exit codes of programs that fail differ between shells.
        assert_eq!(answer.map(|c| c == 0), Some(code == 0), "{line}");
        if line.starts_with("exit") {
            assert_eq!(answer, Some(code), "{line}");
        }
        let (mut there, mut here) = (BTreeMap::new(), BTreeMap::new());
        listing(&Disk::default(), real.path(), &mut there, real.path());
        listing(&overlay, imagined.path(), &mut here, imagined.path());
        assert_eq!(here, there, "{line}");
    }
}

#[test]
fn what_is_not_understood_is_left_to_the_shell() {
    for line in [
        "",
        "ls | wc",
        "echo $HOME",
        "echo `id`",
        "ls *",
        "touch ~/x",
        "a=1",
        "touch x &",
        "(true)",
        "{ true; }",
        "if true; then false; fi",
        "echo \"$x\"",
        "echo a\\nb",
        "echo -e x",
        "touch relative",
        "true &&",
        "&& true",
        "cat < /etc/passwd",
        "ls /etc/[a]",
        "useradd x",
        "touch -d now /x",
        "echo x > /dev/tty",
        "echo x > /proc/x",
        "grep -q 'a.*' /etc/passwd",
        "rm -rf /",
        "exit",
        "echo x # y",
        "test -r /etc/passwd",
    ] {
        let overlay = Overlay::new(Arc::new(Disk::default()));
        assert_eq!(parse(line, None).and_then(|preview| preview.run(&overlay)), None, "{line:?}");
    }
}

#[test]
fn a_query_changes_nothing() {
    for (line, is_query) in [
        ("test -f /x && grep -q a /x", true),
        ("ls /x 2>/dev/null", true),
        ("echo a > /x", false),
        ("touch /x", false),
        ("sh -c 'test -e /x'", true),
        ("sh -c 'rm /x'", false),
    ] {
        assert_eq!(parse(line, None).unwrap().is_query(), is_query, "{line}");
    }
}

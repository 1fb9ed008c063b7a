//! Formats of archives: what each holds, and how each is unpacked, by the programs there are.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::{ChunkArgs, StateCtx, StateError};
use zagent_host::fs::FileKind;
use zagent_host::{CommandOutput, Tools};

/// How long an archive may take.
const UNPACK_TIMEOUT: Duration = Duration::from_secs(3600);

/// Unpacks a zip archive, with the password that stdin gives: words of a program are seen by every user of the host.
/// Links come last: nothing is written through one.
const UNZIP_SCRIPT: &str = "\
import os, stat, sys, zipfile
root = os.path.realpath(sys.argv[2])
box = zipfile.ZipFile(sys.argv[1])
box.setpassword(sys.stdin.buffer.read())
links = []
for one in box.infolist():
    mode = one.external_attr >> 16
    if stat.S_ISLNK(mode):
        links.append(one)
        continue
    path = box.extract(one, root)
    if mode:
        os.chmod(path, stat.S_IMODE(mode) & 0o777)
for one in links:
    path = os.path.join(root, one.filename)
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    if os.path.realpath(parent) != os.path.normpath(parent):
        sys.exit('a link lies behind another: ' + one.filename)
    os.symlink(box.read(one), os.fsencode(path))
";

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveFormat {
    /// Also compressed.
    Tar,
    Zip,
    Rar,
    SevenZip,
}

/// How names end, and which format that is.
const EXTENSIONS: [(&str, ArchiveFormat); 21] = [
    (".tar", ArchiveFormat::Tar),
    (".tar.gz", ArchiveFormat::Tar),
    (".tgz", ArchiveFormat::Tar),
    (".tar.bz2", ArchiveFormat::Tar),
    (".tbz", ArchiveFormat::Tar),
    (".tbz2", ArchiveFormat::Tar),
    (".tb2", ArchiveFormat::Tar),
    (".tar.xz", ArchiveFormat::Tar),
    (".txz", ArchiveFormat::Tar),
    (".tar.lzma", ArchiveFormat::Tar),
    (".tlz", ArchiveFormat::Tar),
    (".tar.lz", ArchiveFormat::Tar),
    (".tar.lzo", ArchiveFormat::Tar),
    (".tar.zst", ArchiveFormat::Tar),
    (".tzst", ArchiveFormat::Tar),
    (".tar.z", ArchiveFormat::Tar),
    (".taz", ArchiveFormat::Tar),
    (".zip", ArchiveFormat::Zip),
    (".jar", ArchiveFormat::Zip),
    (".rar", ArchiveFormat::Rar),
    (".7z", ArchiveFormat::SevenZip),
];

impl ArchiveFormat {
    /// The format that a state names, or that the name of its source tells.
    ///
    /// # Errors
    /// Fails in Salt's words when it is none.
    pub(crate) fn from_args(args: &ChunkArgs<'_>, source: &str) -> Result<Self, StateError> {
        if let Some(given) = args.text("archive_format")? {
            return Self::from_format_name(&given).ok_or_else(|| {
                StateError::new(format!(
                    "Invalid archive_format '{}'. Either set it to a supported value (tar, rar, zip) or remove this \
                     argument and the archive format will be guessed based on file extension.",
                    given.to_lowercase()
                ))
            });
        }
        Self::from_file_name(source).ok_or_else(|| {
            StateError::new(
                "Could not guess archive_format from the value of the 'source' argument. Please set this archive_format \
                 to one of the following: tar, rar, zip",
            )
        })
    }

    fn from_format_name(name: &str) -> Option<Self> {
        [Self::Tar, Self::Zip, Self::Rar, Self::SevenZip]
            .into_iter()
            .find(|f| f.name().eq_ignore_ascii_case(name))
    }

    /// The format that a name tells.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let name = if name.contains("://") { name.split(['?', '#']).next().unwrap_or(name) } else { name };
        let name = name.to_ascii_lowercase();
        EXTENSIONS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format)
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Zip => "zip",
            Self::Rar => "rar",
            Self::SevenZip => "7z",
        }
    }

    /// The program that reads it.
    fn list_program(self, tools: &Tools<'_>) -> Result<&'static str, StateError> {
        let all: &[&str] = match self {
            Self::Tar => &["tar"],
            Self::Zip => &["unzip", "bsdtar", "7z", "7za"],
            Self::Rar => &["unrar", "bsdtar", "7z"],
            Self::SevenZip => &["7z", "7za", "7zr", "bsdtar"],
        };
        let found = all.iter().find(|p| tools.which(p).is_some());
        found.copied().ok_or_else(|| {
            StateError::new(format!(
                "{} command not available, it might not be installed on minion",
                all.join(" or ")
            ))
        })
    }

    /// The program that unpacks it.
    ///
    /// # Errors
    /// Fails when there is none on the host.
    pub(crate) fn unpack_program(
        self,
        tools: &Tools<'_>,
        has_password: bool,
    ) -> Result<&'static str, StateError> {
        if !has_password {
            return self.list_program(tools);
        }
        let words =
            "an archive with a password needs python3: other programs show the password to every user";
        tools.which("python3").map(|_| "python3").ok_or_else(|| StateError::new(words))
    }

    /// What an archive holds, in its order.
    ///
    /// # Errors
    /// Fails when it cannot be read, or names what lies outside of it.
    pub(crate) fn list_members(
        self,
        ctx: &StateCtx<'_>,
        archive: &Path,
        strip: usize,
        more: Option<&str>,
    ) -> Result<Vec<ArchiveMember>, StateError> {
        let tools = ctx.tools();
        let program = self.list_program(&tools)?;
        let file = archive.display().to_string();
        let mut words: Vec<String> = match program {
            "tar" => vec!["-tvf".into(), file],
            "unzip" => vec!["-Z1".into(), file],
            "bsdtar" => vec!["-tf".into(), file],
            "unrar" => vec!["lb".into(), "-p-".into(), file],
            // An empty password: none is asked for.
            _ => vec!["l".into(), "-slt".into(), "-ba".into(), "-p".into(), file],
        };
        words.extend(more.and_then(zagent_host::exec::shell_words::split).unwrap_or_default());
        let said = tools.run(Tools::command(program, &words, UNPACK_TIMEOUT))?;
        if !said.is_success() {
            return Err(command_failure("list", archive, &said));
        }
        let lines = said.stdout.lines().filter(|l| !l.is_empty());
        let members: Option<Vec<ArchiveMember>> = match program {
            "tar" => lines.map(ArchiveMember::from_tar_line).collect(),
            "7z" | "7za" | "7zr" => {
                Some(lines.filter_map(|l| ArchiveMember::from_name(l.strip_prefix("Path = ")?)).collect())
            }
            _ => lines.map(ArchiveMember::from_name).collect(),
        };
        let members =
            members.ok_or_else(|| StateError::new(format!("nobody understands what `{program}` lists")))?;
        strip_members(members, strip)
    }

    /// Unpacks an archive into an empty directory; says what came out.
    ///
    /// # Errors
    /// Fails when not all of it comes out.
    pub(crate) fn unpack(
        self,
        ctx: &StateCtx<'_>,
        archive: &Path,
        to: &Path,
        options: Option<&[String]>,
        password: Option<&str>,
    ) -> Result<String, StateError> {
        let tools = ctx.tools();
        let program = self.unpack_program(&tools, password.is_some())?;
        let file = archive.display().to_string();
        let dir = to.display().to_string();
        let words: Vec<String> = match program {
            "tar" => tar_args(options.unwrap_or_default(), &file),
            "bsdtar" => vec!["-xvf".into(), file],
            "unzip" => {
                let mut words = vec!["-o".to_owned()];
                words.extend(options.unwrap_or_default().iter().cloned());
                words.extend([file, "-d".into(), dir]);
                words
            }
            "unrar" => vec!["x".into(), "-o+".into(), "-idp".into(), "-p-".into(), file, format!("{dir}/")],
            "python3" => python_args(file, dir),
            _ => vec!["x".into(), "-y".into(), "-bb1".into(), "-p".into(), format!("-o{dir}"), file],
        };
        let mut command = Tools::command(program, &words, UNPACK_TIMEOUT);
        if matches!(program, "tar" | "bsdtar") {
            command.cwd = Some(to.to_owned());
        }
        command.stdin = password.unwrap_or_default().as_bytes().to_vec();
        let said = tools.run(command)?;
        if said.stdout.contains("unable to get password") || said.stderr.contains("unable to get password") {
            return Err(StateError::new(format!(
                "Archive {} is password-protected, but no password was specified. Please set the 'password' argument.",
                archive.display()
            )));
        }
        if !said.is_success() {
            return Err(command_failure("extract", archive, &said));
        }
        Ok(if program == "bsdtar" { said.stderr } else { said.stdout })
    }
}

/// The words that Python is told. Isolated: it imports nothing from where it runs, from beside the archive or by its
/// environment, so no file of an archive is ever code.
fn python_args(file: String, dir: String) -> Vec<String> {
    vec!["-I".into(), "-c".into(), UNZIP_SCRIPT.into(), file, dir]
}

fn command_failure(act: &str, archive: &Path, said: &CommandOutput) -> StateError {
    StateError::new(format!("Unable to {act} {}: {}", archive.display(), said.message()))
}

/// The words that `tar` is told; the first may be short options without a dash.
fn tar_args(options: &[String], file: &str) -> Vec<String> {
    let mut short = "xv".to_owned();
    let mut long = Vec::new();
    let said = options.iter().filter(|o| !matches!(o.as_str(), "v" | "-v" | "--verbose"));
    for (n, option) in said.enumerate() {
        if n == 0 && !option.starts_with('-') {
            short.push_str(&option.replace(['x', 'f', 'v'], ""));
        } else {
            long.push(option.clone());
        }
    }
    [vec![short], long, vec!["-f".into(), file.into()]].concat()
}

/// How many names `tar` takes off the front of each path.
pub(crate) fn strip_components(options: &[String]) -> usize {
    let mut words = options.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--strip-components").or_else(|| word.strip_prefix("--strip"))
        else {
            continue;
        };
        let number = match rest.strip_prefix('=') {
            Some(number) => Some(number),
            None if rest.is_empty() => words.next(),
            None => None,
        };
        return number.and_then(|n| n.parse().ok()).unwrap_or(0);
    }
    0
}

/// Takes names off the front; directories on the way that nobody lists are members too.
fn strip_members(members: Vec<ArchiveMember>, strip: usize) -> Result<Vec<ArchiveMember>, StateError> {
    let mut all: Vec<ArchiveMember> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for member in members {
        let leads_out = |c: Component<'_>| !matches!(c, Component::Normal(_) | Component::CurDir);
        if member.path.components().any(leads_out) {
            let path = member.path.display();
            return Err(StateError::new(format!(
                "the archive names `{path}`, which lies outside of the target"
            )));
        }
        let names = member.path.components().filter(|c| *c != Component::CurDir);
        let path: PathBuf = names.skip(strip).collect();
        for dir in path
            .ancestors()
            .skip(1)
            .filter(|d| !d.as_os_str().is_empty())
            .map(Path::to_owned)
            .collect::<Vec<_>>()
        {
            if seen.insert(dir.clone()) {
                all.push(ArchiveMember { path: dir, kind: Some(FileKind::Dir) });
            }
        }
        if !path.as_os_str().is_empty() && seen.insert(path.clone()) {
            all.push(ArchiveMember { path, kind: member.kind });
        }
    }
    Ok(all)
}

/// One thing in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveMember {
    /// Below the target.
    pub path: PathBuf,
    /// What it is, where that is told.
    pub kind: Option<FileKind>,
}

impl ArchiveMember {
    /// True when what is there may be it.
    pub(crate) fn matches_kind(&self, found: FileKind) -> bool {
        match self.kind {
            Some(FileKind::Dir) => found == FileKind::Dir,
            Some(FileKind::Link) => found == FileKind::Link,
            Some(_) => !matches!(found, FileKind::Dir | FileKind::Link),
            None => true,
        }
    }

    /// A name alone; one that ends with a slash is a directory.
    fn from_name(name: &str) -> Option<Self> {
        let kind = name.ends_with('/').then_some(FileKind::Dir);
        Some(Self { path: PathBuf::from(name.trim_end_matches('/')), kind })
    }

    /// A line of `tar -tv`: mode, owner, size, day, time, name.
    fn from_tar_line(line: &str) -> Option<Self> {
        let kind = match line.as_bytes().first()? {
            b'd' => FileKind::Dir,
            b'l' => FileKind::Link,
            _ => FileKind::File,
        };
        let mut rest = line;
        for _ in 0..5 {
            rest = rest.trim_start();
            rest = &rest[rest.find(' ')?..];
        }
        let name = rest.strip_prefix(' ')?;
        let name = match kind {
            FileKind::Link => name.split(" -> ").next()?,
            FileKind::File if line.starts_with('h') => name.split(" link to ").next()?,
            _ => name,
        };
        Some(Self { path: PathBuf::from(unescape(name)?.trim_end_matches('/')), kind: Some(kind) })
    }

    /// A line of the note in the cache.
    pub(crate) fn to_cache_line(&self) -> String {
        let kind = match self.kind {
            Some(FileKind::Dir) => 'd',
            Some(FileKind::Link) => 'l',
            Some(_) => 'f',
            None => '?',
        };
        format!("{kind}{}\n", self.path.display().to_string().replace('\\', "\\\\").replace('\n', "\\n"))
    }

    /// What a line of the note says.
    pub(crate) fn from_cache_line(line: &str) -> Option<Self> {
        let mut rest = line.chars();
        let kind = match rest.next()? {
            'd' => Some(FileKind::Dir),
            'l' => Some(FileKind::Link),
            'f' => Some(FileKind::File),
            _ => None,
        };
        Some(Self { path: PathBuf::from(unescape(rest.as_str())?), kind })
    }
}

/// A name without the escapes that `tar` lists it with.
fn unescape(name: &str) -> Option<String> {
    if !name.contains('\\') {
        return Some(name.to_owned());
    }
    let mut bytes = Vec::new();
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            first @ b'0'..=b'3' => {
                let (second, third) = (rest.next()?, rest.next()?);
                (first - b'0') << 6 | (second.checked_sub(b'0')? & 7) << 3 | (third.checked_sub(b'0')? & 7)
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_imports_nothing_from_where_it_runs() {
        let machine = zagent_host::Machine::this_host();
        let tools = Tools::new(&machine);
        if tools.which("python3").is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("imported");
        for name in ["zipfile.py", "sitecustomize.py", "stat.py"] {
            std::fs::write(dir.path().join(name), format!("open({marker:?}, 'w')\n")).unwrap();
        }
        let words = python_args("/nonexistent.zip".into(), dir.path().display().to_string());
        let mut command = Tools::command("python3", &words, UNPACK_TIMEOUT);
        command.cwd = Some(dir.path().to_owned());
        command.env.push(("PYTHONPATH".into(), dir.path().into()));
        let said = tools.run(command).unwrap();
        assert!(!said.is_success() && said.stderr.contains("nonexistent.zip"), "{said:?}");
        assert!(!marker.exists());
    }

    #[test]
    fn a_note_that_somebody_else_wrote_is_read_too() {
        for (line, path, kind) in [
            ("dsrc", "src", Some(FileKind::Dir)),
            ("?a\\nb", "a\nb", None),
            ("écoute", "coute", None),
            ("fécoute", "écoute", Some(FileKind::File)),
        ] {
            let member = ArchiveMember::from_cache_line(line).expect(line);
            assert_eq!((member.path, member.kind), (PathBuf::from(path), kind), "{line}");
        }
        assert!(ArchiveMember::from_cache_line("").is_none());
    }

    #[test]
    fn a_host_without_a_program_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let bare = zagent_host::Machine::at_root(dir.path()).unwrap();
        let tools = Tools::new(&bare);
        for (format, has_password, words) in [
            (ArchiveFormat::Zip, false, "unzip or bsdtar or 7z or 7za command not available"),
            (ArchiveFormat::Zip, true, "needs python3"),
            (ArchiveFormat::Tar, false, "tar command not available"),
        ] {
            let refused = format.unpack_program(&tools, has_password).unwrap_err();
            assert!(refused.result.comment.contains(words), "{}", refused.result.comment);
        }
    }

    #[test]
    fn names_tell_the_format() {
        assert_eq!(ArchiveFormat::from_file_name("https://h/a.tar.gz?raw=1"), Some(ArchiveFormat::Tar));
        assert_eq!(ArchiveFormat::from_file_name("salt://x.TGZ"), Some(ArchiveFormat::Tar));
        assert_eq!(ArchiveFormat::from_file_name("/x.zip"), Some(ArchiveFormat::Zip));
        assert_eq!(ArchiveFormat::from_file_name("/x.bin"), None);
    }

    #[test]
    fn options_are_given_to_tar_as_salt_does() {
        let words = |text: &str| zagent_host::exec::shell_words::split(text).unwrap();
        assert_eq!(
            tar_args(&words("--strip-components=1 -v"), "a"),
            ["xv", "--strip-components=1", "-f", "a"]
        );
        assert_eq!(tar_args(&words("zxvf"), "a"), ["xvz", "-f", "a"]);
        for (text, expected) in [("--strip-components=2", 2), ("--strip 1", 1), ("-z", 0), ("--strip=3", 3)] {
            assert_eq!(strip_components(&words(text)), expected, "{text}");
        }
    }

    #[test]
    fn what_tar_lists_is_understood() {
        let list = "drwxr-xr-x root/root         0 2023-01-01 10:00 app-1/\n\
                    -rw-r--r-- root/root        12 2023-01-01 10:00 app-1/a b\\303\\251\n\
                    lrwxrwxrwx 0/0               0 2023-01-01 10:00 app-1/l -> a b\n\
                    hrw-r--r-- 0/0               0 2023-01-01 10:00 app-1/bin/h link to app-1/a b\n";
        let members: Vec<ArchiveMember> =
            list.lines().map(|l| ArchiveMember::from_tar_line(l).expect("a member")).collect();
        let told = |strip| -> Vec<String> {
            strip_members(members.clone(), strip)
                .unwrap_or_default()
                .iter()
                .map(ArchiveMember::to_cache_line)
                .collect()
        };
        assert_eq!(told(0), ["dapp-1\n", "fapp-1/a bé\n", "lapp-1/l\n", "dapp-1/bin\n", "fapp-1/bin/h\n"]);
        assert_eq!(told(1), ["fa bé\n", "ll\n", "dbin\n", "fbin/h\n"]);
        assert_eq!(
            ArchiveMember::from_cache_line("fa\\\\b\\nc"),
            Some(ArchiveMember { path: "a\\b\nc".into(), kind: Some(FileKind::File) })
        );
    }

    #[test]
    fn members_outside_are_refused() {
        for name in ["../x", "a/../../x", "/etc/passwd"] {
            let refused = strip_members(vec![ArchiveMember { path: name.into(), kind: None }], 0);
            assert!(refused.is_err_and(|f| f.result.comment.contains("outside")), "{name}");
        }
        assert_eq!(
            strip_members(vec![ArchiveMember { path: "./a".into(), kind: None }], 0).map(|m| m.len()).ok(),
            Some(1)
        );
    }
}

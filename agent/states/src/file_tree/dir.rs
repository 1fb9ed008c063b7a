//! Directories in, their files out, one or more directories per environment.
//!
//! Law: nothing outside a root is ever read, neither by `..` nor through a symbolic link; `.git` and similar
//! directories are hidden; a directory is listed at most once (held by `reads_nothing_outside`,
//! `lists_each_file_once`).

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zagent_compiler::{FileStamp, FileTree};
use zagent_config::paths::tree::{MODULES, RESOURCE_TYPES};

use zagent_compiler::BASE_ENV;

/// Version control directories, never part of a tree.
const VCS_DIRS: [&str; 3] = [".git", ".svn", ".hg"];
/// Maximum depth of a listing, links included.
const MAX_DEPTH: usize = 64;

/// Files in directories.
#[derive(Default)]
pub struct DirFiles {
    envs: Vec<DirEnv>,
}

struct DirEnv {
    name: String,
    root: PathBuf,
    /// The directory that the root must lie in, links resolved: a root can be a link itself.
    below: Option<PathBuf>,
    /// Folders next to the tree (`_states`, `_resources`), visible as folders of it.
    beside: Vec<Self>,
    real: OnceLock<Result<PathBuf, String>>,
    list: OnceLock<Result<Arc<DirListing>, String>>,
}

/// Content of a directory, sorted by path.
#[derive(Default)]
struct DirListing {
    files: Arc<[String]>,
    dirs: Arc<[String]>,
    links: Arc<[(String, String)]>,
}

/// A listing in progress.
#[derive(Default)]
struct ListingBuilder {
    files: BTreeSet<String>,
    dirs: BTreeSet<String>,
    links: BTreeSet<(String, String)>,
}

impl DirFiles {
    /// No environment yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Files of `base` from one directory.
    #[must_use]
    pub fn base(root: impl Into<PathBuf>) -> Self {
        Self::new().with_env(BASE_ENV, root)
    }

    /// Adds an environment; `base` always comes first.
    #[must_use]
    pub fn with_env(mut self, name: &str, root: impl Into<PathBuf>) -> Self {
        let env = DirEnv::new(name, root.into());
        if name == BASE_ENV {
            self.envs.insert(0, env);
        } else {
            self.envs.push(env);
        }
        self
    }

    /// Refuses every root that lies outside this directory once links are resolved.
    #[must_use]
    pub fn below(mut self, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        for env in &mut self.envs {
            env.below = Some(dir.clone());
        }
        self
    }

    /// Adds the modules of `base` from the top of its repository. The tree's own modules take precedence.
    #[must_use]
    pub fn with_modules(mut self, dir: impl Into<PathBuf>) -> Self {
        if let Some(base) = self.envs.iter_mut().find(|env| env.name == BASE_ENV) {
            base.beside.push(DirEnv::new(MODULES, dir.into()));
        }
        self
    }

    /// The same for the executables of resource types.
    #[must_use]
    pub fn with_resource_types(mut self, dir: impl Into<PathBuf>) -> Self {
        if let Some(base) = self.envs.iter_mut().find(|env| env.name == BASE_ENV) {
            base.beside.push(DirEnv::new(RESOURCE_TYPES, dir.into()));
        }
        self
    }

    fn env(&self, name: &str) -> Option<&DirEnv> {
        self.envs.iter().find(|e| e.name == name)
    }

    /// The directory that holds a path, and the path inside it.
    fn locate<'p>(&self, env: &str, path: &'p str) -> Option<(&DirEnv, &'p Path)> {
        let env = self.env(env)?;
        let here = relative_path(path)?;
        let beside = |folder: &&DirEnv| {
            let path = relative_path(path.strip_prefix(&*folder.name)?.strip_prefix('/')?)?;
            folder.root.join(path).is_file().then_some(path)
        };
        let found = env.beside.iter().find_map(|folder| Some((folder, beside(&folder)?)));
        match found {
            Some(found) if !env.root.join(here).exists() => Some(found),
            _ => Some((env, here)),
        }
    }
}

impl DirEnv {
    fn new(name: &str, root: PathBuf) -> Self {
        Self {
            name: name.into(),
            root,
            below: None,
            beside: Vec::new(),
            real: OnceLock::new(),
            list: OnceLock::new(),
        }
    }

    /// The root with links resolved; looked up once.
    fn real_root(&self) -> Result<&Path, String> {
        self.real.get_or_init(|| self.find_root()).as_deref().map_err(Clone::clone)
    }

    fn find_root(&self) -> Result<PathBuf, String> {
        let real = |path: &Path| path.canonicalize().map_err(|e| io_error_text(path, &e));
        let root = real(&self.root)?;
        match &self.below {
            Some(dir) if !root.starts_with(real(dir)?) => Err(format!(
                "`{}` is a link that leaves the repository: it points to `{}`",
                self.root.display(),
                root.display()
            )),
            _ => Ok(root),
        }
    }

    fn read(&self, path: &Path) -> Result<Option<Arc<[u8]>>, String> {
        let full = self.root.join(path);
        // A plain file below plain directories is the common case; only links need a second check.
        let real = match full.canonicalize() {
            Ok(real) => real,
            Err(e) if is_absent(&e) => return Ok(None),
            Err(e) => return Err(io_error_text(&full, &e)),
        };
        if !real.starts_with(self.real_root()?) {
            return Err(format!(
                "`{}` is a link that leaves its tree: it points to `{}`",
                full.display(),
                real.display()
            ));
        }
        match std::fs::read(&real) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(io_error_text(&full, &e)),
        }
    }

    fn listing(&self) -> Result<Arc<DirListing>, String> {
        self.list.get_or_init(|| self.walk().map(Arc::new)).clone()
    }

    fn walk(&self) -> Result<DirListing, String> {
        if !self.root.exists() {
            return Ok(DirListing::default());
        }
        let mut found = ListingBuilder::default();
        self.visit(self.real_root()?, "", &mut Vec::new(), &mut found)?;
        for folder in &self.beside {
            let listing = folder.listing()?;
            found.files.extend(listing.files.iter().map(|file| format!("{}/{file}", folder.name)));
        }
        let ListingBuilder { files, dirs, links } = found;
        Ok(DirListing {
            files: files.into_iter().collect(),
            dirs: dirs.into_iter().collect(),
            links: links.into_iter().collect(),
        })
    }

    fn visit(
        &self,
        dir: &Path,
        shown: &str,
        open: &mut Vec<PathBuf>,
        found: &mut ListingBuilder,
    ) -> Result<(), String> {
        if open.len() > MAX_DEPTH || open.iter().any(|d| d == dir) {
            return Ok(());
        }
        open.push(dir.to_owned());
        for entry in std::fs::read_dir(dir).map_err(|e| io_error_text(dir, &e))? {
            let entry = entry.map_err(|e| io_error_text(dir, &e))?;
            let name = entry.file_name();
            // An SLS cannot refer to a name that is not text.
            let Some(name) = name.to_str().filter(|n| !VCS_DIRS.contains(n)) else {
                continue;
            };
            let shown = if shown.is_empty() { name.to_owned() } else { format!("{shown}/{name}") };
            let kind = entry.file_type().map_err(|e| io_error_text(&entry.path(), &e))?;
            if kind.is_dir() {
                found.dirs.insert(shown.clone());
                self.visit(&entry.path(), &shown, open, found)?;
            } else if kind.is_file() {
                found.files.insert(shown);
            } else if kind.is_symlink() {
                self.visit_link(&entry.path(), shown, open, found)?;
            }
        }
        open.pop();
        Ok(())
    }

    fn visit_link(
        &self,
        link: &Path,
        shown: String,
        open: &mut Vec<PathBuf>,
        found: &mut ListingBuilder,
    ) -> Result<(), String> {
        if let Some(target) =
            std::fs::read_link(link).ok().and_then(|t| t.into_os_string().into_string().ok())
        {
            found.links.insert((shown.clone(), target));
        }
        match link.canonicalize() {
            Ok(real) if real.starts_with(self.real_root()?) => {
                if real.is_dir() {
                    found.dirs.insert(shown.clone());
                    return self.visit(&real, &shown, open, found);
                }
                if real.is_file() {
                    found.files.insert(shown);
                }
                Ok(())
            }
            // Listed as a link only; an access by name gets an error with the reason.
            _ => Ok(()),
        }
    }
}

impl FileTree for DirFiles {
    fn envs(&self) -> Vec<String> {
        self.envs.iter().map(|e| e.name.clone()).collect()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        self.locate(env, path).map_or(Ok(None), |(env, path)| env.read(path))
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.locate(env, path).is_some_and(|(env, path)| env.root.join(path).is_file())
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.env(env)
            .map_or_else(|| Ok(Arc::new([]) as Arc<[_]>), |env| Ok(Arc::clone(&env.listing()?.files)))
    }

    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.env(env).map_or_else(|| Ok(Arc::new([]) as Arc<[_]>), |env| Ok(Arc::clone(&env.listing()?.dirs)))
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        self.env(env)
            .map_or_else(|| Ok(Arc::new([]) as Arc<[_]>), |env| Ok(Arc::clone(&env.listing()?.links)))
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        let (env, path) = self.locate(env, path)?;
        env.root.join(path).metadata().ok().map(|found| found.mode() & 0o7777)
    }

    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        let Some((env, path)) = self.locate(env, path) else { return Some(FileStamp::default()) };
        match std::fs::metadata(env.root.join(path)) {
            Ok(meta) => {
                let nanos = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns).cast_unsigned();
                let times = [nanos(meta.mtime(), meta.mtime_nsec()), nanos(meta.ctime(), meta.ctime_nsec())];
                Some(FileStamp { of: [meta.dev(), meta.ino(), meta.size(), times[0], times[1]] })
            }
            Err(e) if is_absent(&e) => Some(FileStamp::default()),
            Err(_) => None,
        }
    }

    fn display(&self, env: &str, path: &str) -> String {
        match (self.locate(env, path), self.env(env)) {
            (Some((env, path)), _) => env.root.join(path).display().to_string(),
            (None, Some(env)) => env.root.join(path).display().to_string(),
            (None, None) => path.to_owned(),
        }
    }
}

/// A path that only descends and contains nothing hidden.
fn relative_path(path: &str) -> Option<&Path> {
    let path = Path::new(path);
    let down = path.components().all(|c| match c {
        Component::Normal(name) => !VCS_DIRS.iter().any(|h| name == *h),
        Component::CurDir => true,
        _ => false,
    });
    (down && !path.as_os_str().is_empty() && !path.as_os_str().as_encoded_bytes().contains(&0))
        .then_some(path)
}

fn is_absent(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(e.kind(), NotFound | NotADirectory | IsADirectory | std::io::ErrorKind::InvalidFilename)
}

fn io_error_text(path: &Path, e: &std::io::Error) -> String {
    format!("cannot read `{}`: {e}", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("states");
        for (path, text) in
            [("top.sls", "top"), ("web/init.sls", "web"), (".git/config", "secret"), ("a/.git", "no")]
        {
            let full = root.join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        std::fs::write(dir.path().join("outside"), "outside").unwrap();
        symlink("web", root.join("alias")).unwrap();
        symlink("../outside", root.join("escape")).unwrap();
        symlink(".", root.join("web/loop")).unwrap();
        dir
    }

    #[test]
    fn a_root_that_leaves_its_repository_is_refused() {
        let dir = tree();
        let repo = dir.path().join("repo");
        std::fs::create_dir_all(repo.join("real")).unwrap();
        std::fs::write(repo.join("real/a.sls"), "a").unwrap();
        symlink("../states", repo.join("states")).unwrap();
        symlink("real", repo.join("inside")).unwrap();
        let files = |name: &str| DirFiles::base(repo.join(name)).below(&repo);
        for outcome in
            [files("states").read("base", "top.sls").map(drop), files("states").list("base").map(drop)]
        {
            assert!(outcome.as_ref().is_err_and(|e| e.contains("leaves the repository")), "{outcome:?}");
        }
        assert_eq!(files("inside").read("base", "a.sls").unwrap().as_deref(), Some(&b"a"[..]));
    }

    #[test]
    fn lists_each_file_once() {
        let dir = tree();
        let files = DirFiles::base(dir.path().join("states"));
        assert_eq!(
            *files.list("base").unwrap(),
            ["alias/init.sls", "top.sls", "web/init.sls"].map(String::from)
        );
        assert!(files.list("dev").unwrap().is_empty());
    }

    #[test]
    fn reads_nothing_outside() {
        let dir = tree();
        let files = DirFiles::base(dir.path().join("states"));
        assert_eq!(files.read("base", "alias/init.sls").unwrap().as_deref(), Some(b"web".as_slice()));
        for path in ["../outside", "/etc/passwd", ".git/config", "web", "web/init.sls/x", "nope", "", "a\0b"]
        {
            assert_eq!(files.read("base", path).unwrap(), None, "{path}");
        }
        assert!(files.read("base", "escape").unwrap_err().contains("leaves its tree"));
    }

    #[test]
    fn modules_next_to_the_tree_belong_to_it() {
        let dir = tree();
        let root = dir.path().join("states");
        std::fs::create_dir_all(dir.path().join("_states")).unwrap();
        std::fs::create_dir_all(root.join("_states")).unwrap();
        std::fs::write(dir.path().join("_states/disk"), "beside").unwrap();
        std::fs::write(dir.path().join("_states/both"), "beside").unwrap();
        std::fs::write(root.join("_states/both"), "inside").unwrap();
        let files = DirFiles::base(&root).with_modules(dir.path().join("_states"));
        let read = |path: &str| files.read("base", path).unwrap().map(|b| b.to_vec());
        assert_eq!(read("_states/disk").as_deref(), Some(b"beside".as_slice()));
        assert_eq!(read("_states/both").as_deref(), Some(b"inside".as_slice()));
        assert_eq!(read("_states/../outside"), None);
        assert!(files.has("base", "_states/disk") && !files.has("base", "_states/none"));
        let listed = files.list("base").unwrap();
        assert_eq!(listed.iter().filter(|f| f.starts_with("_states/")).count(), 2, "{listed:?}");
    }

    #[test]
    fn base_is_first() {
        let files = DirFiles::new().with_env("dev", "/d").with_env("base", "/b").with_env("qa", "/q");
        assert_eq!(files.envs(), ["base", "dev", "qa"]);
        assert_eq!(files.display("dev", "top.sls"), "/d/top.sls");
    }
}

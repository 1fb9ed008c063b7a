//! A repository of states on this host, served over http to a container, with Git's own backend behind a socket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::base::must;

/// A repository, and its server.
#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    port: u16,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// An empty repository, served on all addresses of this host at its own port.
    ///
    /// # Panics
    /// When Git or the socket refuses.
    #[must_use]
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("zagent-git-").tempdir().expect("a scratch directory");
        let bare = dir.path().join("states.git");
        must(Command::new("git").args(["init", "--quiet", "--bare", "--initial-branch=main"]).arg(&bare));
        must(Command::new("git").arg("-C").arg(&bare).args(["config", "http.receivepack", "false"]));
        // Nodes report here, and write nowhere else.
        let board = dir.path().join("board.git");
        must(Command::new("git").args(["init", "--quiet", "--bare", "--initial-branch=main"]).arg(&board));
        must(Command::new("git").arg("-C").arg(&board).args(["config", "http.receivepack", "true"]));
        let work = dir.path().join("work");
        must(Command::new("git").args(["init", "--quiet", "--initial-branch=main"]).arg(&work));
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let (root, told) = (dir.path().to_owned(), Arc::clone(&stop));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let root = root.clone();
                // A client that disconnects in the middle is not an error.
                std::thread::spawn(move || stream.and_then(|s| serve(&root, s)));
            }
        });
        Self { dir, port, stop }
    }

    /// The address of the repository for a client that reaches this host as `host`.
    #[must_use]
    pub fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/states.git", self.port)
    }

    /// The address of the repository that nodes report to.
    #[must_use]
    pub fn board(&self, host: &str) -> String {
        format!("http://{host}:{}/board.git", self.port)
    }

    /// The directory of the repositories on this host: `states.git`, `board.git`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn git(&self, words: &[&str]) -> String {
        let who = ["-c", "user.name=ops", "-c", "user.email=ops@example.org", "-c", "commit.gpgsign=false"];
        must(Command::new("git").arg("-C").arg(self.work()).args(who).args(words))
    }

    /// Writes files, commits and pushes them; returns the commit.
    ///
    /// # Panics
    /// When Git refuses.
    pub fn push(&self, files: &[(&str, String)]) -> String {
        self.commit(files, &[])
    }

    /// The same, signed with an SSH key.
    ///
    /// # Panics
    /// When Git or ssh-keygen refuses.
    pub fn push_signed(&self, files: &[(&str, String)], key: &Path) -> String {
        let key = format!("user.signingkey={}", key.display());
        self.commit(files, &["-c", "gpg.format=ssh", "-c", &key, "-c", "commit.gpgsign=true"])
    }

    fn commit(&self, files: &[(&str, String)], options: &[&str]) -> String {
        for (path, text) in files {
            let full = self.work().join(path);
            fs::create_dir_all(full.parent().expect("a file has a directory")).expect("a directory");
            fs::write(full, text).expect("a file");
        }
        self.git(&["add", "--all"]);
        let mut words = options.to_vec();
        words.extend(["commit", "--quiet", "--allow-empty", "--message=states"]);
        self.git(&words);
        let bare = self.dir.path().join("states.git").display().to_string();
        self.git(&["push", "--quiet", "--force", &bare, "HEAD:main"]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// A new SSH signing key, and its public key.
    ///
    /// # Panics
    /// When ssh-keygen refuses.
    #[must_use]
    pub fn key(&self, name: &str) -> (PathBuf, String) {
        let path = self.dir.path().join(name);
        must(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(&path));
        let public = fs::read_to_string(path.with_extension("pub")).expect("the public half");
        (path, public)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener, so that it sees the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// One request after the other, until the client closes.
fn serve(root: &Path, stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    while let Some(request) = Request::read(&mut reader)? {
        let answer = backend(root, &request)?;
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(0);
        let head = String::from_utf8_lossy(&answer[..end]);
        let body = answer.get(end + 4..).unwrap_or_default();
        let status = head.lines().find_map(|l| l.strip_prefix("Status: ")).unwrap_or("200 OK");
        let headers = head
            .lines()
            .filter(|l| !l.starts_with("Status: "))
            .fold(String::new(), |all, l| all + l + "\r\n");
        let length = body.len();
        out.write_all(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n").as_bytes())?;
        out.write_all(body)?;
    }
    Ok(())
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(from: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, query, headers, body: Vec::new() };
        request.body = request.read_body(from)?;
        Ok(Some(request))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn read_body(&self, from: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            loop {
                let mut size = String::new();
                from.read_line(&mut size)?;
                let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
                from.by_ref().take(size).read_to_end(&mut body)?;
                from.read_line(&mut String::new())?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = self.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
        from.by_ref().take(length).read_to_end(&mut body)?;
        Ok(body)
    }
}

/// Git's own program answers.
fn backend(root: &Path, request: &Request) -> std::io::Result<Vec<u8>> {
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", &request.path)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_TYPE", request.header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", request.header("content-encoding").unwrap_or_default())
        .env("GIT_PROTOCOL", request.header("git-protocol").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A request that needs no body closes early.
        let _ = stdin.write_all(&request.body);
    }
    Ok(child.wait_with_output()?.stdout)
}

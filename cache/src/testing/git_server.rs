//! A smart HTTP server around `git http-backend` that can be told to misbehave.
//!
//! The first part of a path selects the behaviour, such as `/hang/repo`; with the prefix `late-` only the request for a
//! pack is affected. Without one, the server behaves correctly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A connection, plain or encrypted.
pub trait ServerStream: Read + Write + Send {}

impl<T: Read + Write + Send> ServerStream for T {}

/// Turns a connection into a stream; `None` when it is refused.
pub type StreamWrapper = Box<dyn Fn(TcpStream) -> Option<Box<dyn ServerStream>> + Send + Sync>;

/// Changes an answer before it is sent.
type ResponseFilter = Box<dyn Fn(Vec<u8>) -> Vec<u8> + Send>;

/// A server that stops when this value is dropped.
pub struct GitHttpServer {
    address: SocketAddr,
    shared: Arc<GitServerShared>,
    thread: Option<JoinHandle<()>>,
}

struct GitServerShared {
    root: PathBuf,
    wrap: StreamWrapper,
    over: AtomicBool,
    down: AtomicBool,
    connections: AtomicUsize,
    listings: AtomicUsize,
    log: Mutex<Vec<String>>,
    change: Mutex<Option<ResponseFilter>>,
    open: Mutex<Vec<TcpStream>>,
}

/// A request as it was read.
struct GitServerRequest {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl GitServerRequest {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }
}

impl GitHttpServer {
    /// Serves the repositories below a directory.
    #[must_use]
    pub fn start(root: &Path) -> Self {
        Self::start_with(root, Box::new(|stream| Some(Box::new(stream))))
    }

    /// Serves them through streams of another kind.
    #[must_use]
    pub fn start_with(root: &Path, wrap: StreamWrapper) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(GitServerShared {
            root: root.into(),
            wrap,
            over: AtomicBool::new(false),
            down: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            listings: AtomicUsize::default(),
            log: Mutex::default(),
            change: Mutex::default(),
            open: Mutex::default(),
        });
        let serving = shared.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.over.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), serving) = (stream, serving.clone()) else {
                    continue;
                };
                if serving.down.load(Ordering::SeqCst) {
                    continue;
                }
                serving.connections.fetch_add(1, Ordering::SeqCst);
                serving.open.lock().unwrap().push(stream.try_clone().unwrap());
                std::thread::spawn(move || {
                    let whole = stream.try_clone();
                    if let Some(stream) = (serving.wrap)(stream) {
                        serving.serve_connection(stream);
                    }
                    if let Ok(whole) = whole {
                        let _ = whole.shutdown(std::net::Shutdown::Both);
                    }
                });
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// The requests since the last call: method, path and login.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.log.lock().unwrap())
    }

    /// How many connections were made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many times the branches were listed so far.
    #[must_use]
    pub fn listings(&self) -> usize {
        self.shared.listings.load(Ordering::SeqCst)
    }

    /// From now on no request is answered, or all are again; open connections end.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::SeqCst);
        self.close_connections();
    }

    fn close_connections(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Changes every pack that is requested below `/changed/`.
    pub fn set_response_filter(&self, change: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static) {
        *self.shared.change.lock().unwrap() = Some(Box::new(change));
    }
}

impl Drop for GitHttpServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        drop(TcpStream::connect(self.address));
        self.close_connections();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl GitServerShared {
    fn serve_connection(&self, stream: Box<dyn ServerStream>) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read_request(&mut stream) {
            if !self.answer_request(&request, stream.get_mut()).unwrap_or(false) {
                return;
            }
        }
    }

    /// Answers; false when the connection ends.
    fn answer_request(
        &self,
        request: &GitServerRequest,
        out: &mut Box<dyn ServerStream>,
    ) -> std::io::Result<bool> {
        if request.method == "CONNECT" {
            // A proxy for every host that always answers here.
            out.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            return out.flush().map(|()| true);
        }
        let login = request.header("authorization");
        self.log.lock().unwrap().push(format!("{} {} {login}", request.method, request.path));
        let (first, rest) = request.path[1..].split_once('/').unwrap_or(("", ""));
        if request.body.windows(15).any(|part| part == b"command=ls-refs") {
            self.listings.fetch_add(1, Ordering::SeqCst);
        }
        let is_fetch = request.body.windows(13).any(|part| part == b"command=fetch");
        let mode = match first.strip_prefix("late-") {
            Some(mode) if is_fetch => mode,
            Some(_) => "honest",
            None => first,
        };
        if !MODES.contains(&mode) {
            return self.serve_honestly(request, &request.path, out);
        }
        let path = format!("/{rest}");
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        match mode {
            "honest" => self.serve_honestly(request, &path, out),
            "file" => self.send_file(rest, out),
            "auth" if login == "Basic dXNlcjp0b2s=" => self.serve_honestly(request, &path, out),
            "bearer" if login == "Bearer tok" => self.serve_honestly(request, &path, out),
            "auth" | "denied" => send_unauthorized(out, "Basic realm=\"git\""),
            "bearer" => send_unauthorized(out, "Bearer"),
            "hang" => hang(out),
            "half" => {
                out.write_all(b"HTTP/1.1 200 OK\r\nContent-Ty")?;
                hang(out)
            }
            "headers" => {
                out.write_all(b"HTTP/1.1 200 OK\r\n")?;
                loop {
                    out.write_all(b"X-More: and more and more and more and more\r\n")?;
                }
            }
            "body" => {
                send_head(out, 200, &content_type(request), "Content-Length: 1000\r\n")?;
                hang(out)
            }
            "trickle" => send_slowly(request, out),
            "loop" => send_redirect(out, &format!("/loop/x/{rest}{query}")),
            "tofile" => send_redirect(out, "file:///etc/passwd"),
            "toext" => send_redirect(out, "ext::sh"),
            "away" => send_redirect(out, &format!("http://localhost:{}/auth{path}{query}", request.port())),
            "plain" => send_redirect(out, &format!("http://{}{path}{query}", request.header("host"))),
            "moved" => send_redirect(out, &format!("{path}{query}")),
            "login" => send_redirect(out, "/session/new"),
            "s500" | "busy" | "html" | "type" | "garbage" => misbehave(mode, request, out),
            "endless" => send_endlessly(request, out),
            "v0" => self.serve_honestly(&request.without_version(), &path, out),
            "cut" | "lost" => self.receive_push(mode, request, &path, out),
            "truncated" | "changed" => self.serve_altered(mode, request, &path, out),
            _ => Ok(false),
        }
    }

    /// A file as a plain web server sends it.
    fn send_file(&self, name: &str, out: &mut Box<dyn ServerStream>) -> std::io::Result<bool> {
        let found = std::fs::read(self.root.join(name));
        let (status, body) = found.map_or((404, Vec::new()), |body| (200, body));
        send_head(out, status, "application/octet-stream", &format!("Content-Length: {}\r\n", body.len()))?;
        out.write_all(&body)?;
        out.flush().map(|()| true)
    }

    /// Loses the answer to a push: after it is done, or before it starts.
    fn receive_push(
        &self,
        mode: &str,
        request: &GitServerRequest,
        path: &str,
        out: &mut Box<dyn ServerStream>,
    ) -> std::io::Result<bool> {
        if !path.ends_with("/git-receive-pack") {
            return self.serve_honestly(request, path, out);
        }
        if mode == "lost" {
            drop(self.run_backend(request, path));
        }
        Ok(false)
    }

    fn serve_honestly(
        &self,
        request: &GitServerRequest,
        path: &str,
        out: &mut Box<dyn ServerStream>,
    ) -> std::io::Result<bool> {
        let (status, kind, body) = self.run_backend(request, path);
        send_head(out, status, &kind, &format!("Content-Length: {}\r\n", body.len()))?;
        out.write_all(&body)?;
        out.flush()?;
        Ok(true)
    }

    fn serve_altered(
        &self,
        mode: &str,
        request: &GitServerRequest,
        path: &str,
        out: &mut Box<dyn ServerStream>,
    ) -> std::io::Result<bool> {
        let (status, kind, mut body) = self.run_backend(request, path);
        let length = body.len();
        if mode == "truncated" {
            body.truncate(length / 2);
        } else if let Some(change) = &*self.change.lock().unwrap()
            && request.method == "POST"
            && body.windows(4).any(|part| part == b"PACK")
        {
            body = change(body);
        }
        let length = if mode == "truncated" { length } else { body.len() };
        send_head(out, status, &kind, &format!("Content-Length: {length}\r\n"))?;
        out.write_all(&body)?;
        out.flush()?;
        Ok(mode != "truncated")
    }

    /// Calls Git: status, content type and body.
    fn run_backend(&self, request: &GitServerRequest, path: &str) -> (u16, String, Vec<u8>) {
        let mut child = Command::new("git")
            .arg("-c")
            .arg("safe.directory=*")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", path)
            .env("QUERY_STRING", &request.query)
            .env("REQUEST_METHOD", &request.method)
            .env("CONTENT_TYPE", request.header("content-type"))
            .env("CONTENT_LENGTH", request.body.len().to_string())
            .env("GIT_PROTOCOL", request.header("git-protocol"))
            .env("REMOTE_ADDR", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let body = request.body.clone();
        let writer = std::thread::spawn(move || drop(input.write_all(&body)));
        let output = child.wait_with_output().unwrap().stdout;
        writer.join().unwrap();
        let end = output.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(0);
        let headers = String::from_utf8_lossy(&output[..end]).into_owned();
        let value = |name: &str| headers.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let status = value("Status:").and_then(|text| text[..3].parse().ok()).unwrap_or(200);
        let kind = value("Content-Type:").unwrap_or("text/plain").to_owned();
        (status, kind, output.get(end + 4..).unwrap_or_default().to_vec())
    }
}

const MODES: &[&str] = &[
    "honest",
    "file",
    "plain",
    "auth",
    "bearer",
    "denied",
    "hang",
    "half",
    "headers",
    "body",
    "trickle",
    "loop",
    "tofile",
    "toext",
    "away",
    "moved",
    "login",
    "s500",
    "busy",
    "html",
    "type",
    "garbage",
    "endless",
    "v0",
    "truncated",
    "changed",
    "close",
    "lost",
    "cut",
];

impl GitServerRequest {
    fn port(&self) -> &str {
        self.header("host").rsplit(':').next().unwrap_or_default()
    }

    /// The same from a client that only supports protocol version 1.
    fn without_version(&self) -> Self {
        let headers =
            self.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("git-protocol")).cloned();
        Self {
            method: self.method.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            headers: headers.collect(),
            body: self.body.clone(),
        }
    }
}

fn read_request(stream: &mut BufReader<Box<dyn ServerStream>>) -> Option<GitServerRequest> {
    let mut line = String::new();
    let mut next = |stream: &mut BufReader<Box<dyn ServerStream>>| {
        line.clear();
        stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = next(stream)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = next(stream)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = GitServerRequest { method, path, query, headers, body: Vec::new() };
    if request.header("transfer-encoding") == "chunked" {
        loop {
            let size = usize::from_str_radix(&next(stream)?, 16).ok()?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).ok()?;
            request.body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else if let Ok(size) = request.header("content-length").parse() {
        request.body = vec![0; size];
        stream.read_exact(&mut request.body).ok()?;
    }
    Some(request)
}

fn content_type(request: &GitServerRequest) -> String {
    let what = if request.method == "POST" { "result" } else { "advertisement" };
    format!("application/x-git-upload-pack-{what}")
}

fn send_head(out: &mut Box<dyn ServerStream>, status: u16, kind: &str, more: &str) -> std::io::Result<()> {
    out.write_all(format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}\r\n").as_bytes())?;
    out.flush()
}

fn send_unauthorized(out: &mut Box<dyn ServerStream>, offer: &str) -> std::io::Result<bool> {
    send_head(out, 401, "text/plain", &format!("WWW-Authenticate: {offer}\r\nContent-Length: 0\r\n"))
        .map(|()| true)
}

fn send_redirect(out: &mut Box<dyn ServerStream>, to: &str) -> std::io::Result<bool> {
    send_head(out, 302, "text/plain", &format!("Location: {to}\r\nContent-Length: 0\r\n")).map(|()| true)
}

/// Sends nothing until the client gives up.
fn hang(out: &mut Box<dyn ServerStream>) -> std::io::Result<bool> {
    out.flush()?;
    let mut buf = [0; 64];
    while out.read(&mut buf)? > 0 {}
    Ok(false)
}

/// An answer that no Git server gives.
fn misbehave(
    mode: &str,
    request: &GitServerRequest,
    out: &mut Box<dyn ServerStream>,
) -> std::io::Result<bool> {
    match mode {
        "s500" => send_head(out, 500, "text/plain", "Content-Length: 0\r\n").map(|()| true),
        "busy" => {
            send_head(out, 503, "text/plain", "Retry-After: 120\r\nContent-Length: 0\r\n").map(|()| true)
        }
        "html" => {
            send_head(out, 200, "text/html; charset=utf-8", "Content-Length: 6\r\n")?;
            out.write_all(b"<html>").map(|()| true)
        }
        "type" => {
            send_head(out, 200, "application/octet-stream", "Content-Length: 4\r\n")?;
            out.write_all(b"0000").map(|()| true)
        }
        "garbage" => {
            send_head(out, 200, &content_type(request), "Content-Length: 12\r\n")?;
            out.write_all(b"\xff\xfe\0\0garbage!").map(|()| true)
        }
        _ => Ok(false),
    }
}

/// One byte per second.
fn send_slowly(request: &GitServerRequest, out: &mut Box<dyn ServerStream>) -> std::io::Result<bool> {
    send_head(out, 200, &content_type(request), "Content-Length: 100000\r\n")?;
    for byte in b"001e# service=git-upload-pack\n".iter().cycle() {
        out.write_all(&[*byte])?;
        out.flush()?;
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(false)
}

/// Endless refs or progress messages.
fn send_endlessly(request: &GitServerRequest, out: &mut Box<dyn ServerStream>) -> std::io::Result<bool> {
    send_head(out, 200, &content_type(request), "Connection: close\r\n")?;
    if request.method == "GET" {
        out.write_all(b"001e# service=git-upload-pack\n0000")?;
        let zero = "0".repeat(40);
        out.write_all(format!("{:04x}{zero} capabilities^{{}}\0agent=x\n", 4 + 40 + 1 + 15 + 9).as_bytes())?;
    } else {
        out.write_all(b"000dpackfile\n")?;
    }
    let id = "a".repeat(40);
    for n in 0_u64.. {
        let line = match request.method.as_str() {
            "GET" => format!("{id} refs/heads/branch-{n:020}\n"),
            _ => format!("\x02counting objects {n:020}\n"),
        };
        out.write_all(format!("{:04x}{line}", line.len() + 4).as_bytes())?;
    }
    Ok(false)
}

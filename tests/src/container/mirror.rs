//! apt requests in, packages out: a proxy for containers that reach nothing else. Files that never change under their
//! name are downloaded once and kept.
//!
//! Only complete downloads are kept.

use std::fs;
use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use super::base::cache_dir;

/// How long a mirror may send nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest message head.
const HEAD: u64 = 64 * 1024;

/// A proxy on all addresses of this host; it ends with the process.
#[derive(Debug)]
pub struct Mirror {
    port: u16,
}

impl Mirror {
    /// The one of this process.
    ///
    /// # Panics
    /// When there is no port.
    #[must_use]
    pub fn get() -> &'static Self {
        static MIRROR: OnceLock<Mirror> = OnceLock::new();
        MIRROR.get_or_init(|| {
            let listener = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
            let port = listener.local_addr().expect("a bound socket has an address").port();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A client that disconnects is not an error: apt tries again.
                    std::thread::spawn(move || serve(&stream));
                }
            });
            Self { port }
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// One request per connection: apt opens another one.
fn serve(client: &TcpStream) -> Result<()> {
    let (head, _) = read_head(client)?;
    let words: Vec<&str> = head.lines().next().unwrap_or_default().split(' ').collect();
    let [method, url, _] = words[..] else { return refuse(client, "400 Bad Request") };
    if method == "CONNECT" {
        return tunnel(client, url);
    }
    let Some((host, path)) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')) else {
        return refuse(client, "400 Bad Request");
    };
    let kept = kept(host, path);
    if let Some(mut file) = kept.as_ref().and_then(|path| fs::File::open(path).ok()) {
        let length = file.metadata()?.len();
        let mut out = client;
        write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
        return std::io::copy(&mut file, &mut out).map(drop);
    }
    match forward(client, host, path, &head, kept) {
        Err(e) => refuse(client, &format!("502 {}", e.kind())),
        done => done,
    }
}

/// The path for a file that never changes; none for a partial request.
fn kept(host: &str, path: &str) -> Option<PathBuf> {
    let lasting = path.ends_with(".deb") || path.contains("/by-hash/");
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-+~".contains(c) { c } else { '_' };
    let name: String = format!("{host}/{path}").chars().map(plain).collect();
    lasting.then(|| cache_dir().join("mirror").join(name))
}

fn forward(client: &TcpStream, host: &str, path: &str, head: &str, kept: Option<PathBuf>) -> Result<()> {
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut server = TcpStream::connect(address)?;
    server.set_read_timeout(Some(PATIENCE))?;
    let mut request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for line in head.lines().skip(1) {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if ["user-agent", "accept", "if-modified-since", "cache-control"].contains(&name.as_str()) {
            request.push_str(line);
            request.push_str("\r\n");
        }
    }
    server.write_all(format!("{request}\r\n").as_bytes())?;
    let (answer, mut body) = read_head(&server)?;
    let length = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().ok())?
    });
    let mut out = client;
    out.write_all(answer.as_bytes())?;
    let whole = answer.split(' ').nth(1) == Some("200");
    let (Some(path), Some(length), true) = (kept, length, whole) else {
        return std::io::copy(&mut body, &mut out).map(drop);
    };
    let dir = path.parent().ok_or_else(|| Error::other("a file has a directory"))?;
    fs::create_dir_all(dir)?;
    let mut half = tempfile::NamedTempFile::new_in(dir)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut come = 0;
    loop {
        let n = body.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        out.write_all(&buffer[..n])?;
        half.write_all(&buffer[..n])?;
        come += n as u64;
    }
    if come == length {
        half.persist(path)?;
    }
    Ok(())
}

/// A head with its empty line, and what comes after it.
fn read_head(stream: &TcpStream) -> Result<(String, BufReader<TcpStream>)> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.by_ref().take(HEAD).read_line(&mut line)? == 0 || head.len() as u64 > HEAD {
            return Err(Error::other("no head"));
        }
        head.push_str(&line);
        if line == "\r\n" {
            return Ok((head, reader));
        }
    }
}

fn tunnel(client: &TcpStream, address: &str) -> Result<()> {
    let Ok(server) = TcpStream::connect(address) else { return refuse(client, "502 Bad Gateway") };
    let mut out = client;
    out.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (mut up, mut down) = (client.try_clone()?, server.try_clone()?);
    let upward = std::thread::spawn(move || std::io::copy(&mut up, &mut down));
    let mut server = server;
    std::io::copy(&mut server, &mut out)?;
    client.shutdown(std::net::Shutdown::Both)?;
    drop(upward);
    Ok(())
}

fn refuse(mut client: &TcpStream, why: &str) -> Result<()> {
    write!(client, "HTTP/1.1 {why}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

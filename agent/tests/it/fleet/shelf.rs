//! File server that can hold back its responses: a fetch can be observed while it is running.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// A server; its threads end with the program.
pub(crate) struct Shelf {
    address: SocketAddr,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Shelf {
    /// Serves the files of a directory.
    pub(crate) fn start(dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (dir, gate) = (dir.to_owned(), Arc::<Gate>::default());
        let shared = Arc::clone(&gate);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (dir, gate) = (dir.clone(), Arc::clone(&shared));
                // A client that disconnects needs no response.
                std::thread::spawn(move || answer(stream, &dir, &gate));
            }
        });
        Self { address, gate }
    }

    /// The URL of a file.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// Holds back all responses from now on.
    pub(crate) fn shut(&self) {
        *self.gate.is_shut.lock().unwrap() = true;
    }

    /// Sends all responses, including those held back.
    pub(crate) fn open(&self) {
        *self.gate.is_shut.lock().unwrap() = false;
        self.gate.opened.notify_all();
    }
}

fn answer(stream: TcpStream, dir: &Path, gate: &Gate) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines().map_while(Result::ok);
    let path: PathBuf = lines.next()?.split(' ').nth(1)?.trim_start_matches('/').into();
    lines.find(String::is_empty)?;
    let shut = gate.is_shut.lock().unwrap();
    drop(gate.opened.wait_while(shut, |shut| *shut).unwrap());
    let (status, body) = fs::read(dir.join(path)).map_or((404, Vec::new()), |body| (200, body));
    let mut stream = stream;
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).ok()
}

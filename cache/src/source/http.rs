//! The Git library's idea of HTTP, spoken by our own wire.
//!
//! Law: a request is sent when its answer is first read, for only then is its body complete.

use std::any::Any;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse};

use super::wire::{Body, Request, Wire};
use super::{Deadline, MAX_REFS};

/// How a request that lists refs begins.
const LIST: &[u8] = b"0014command=ls-refs";

/// One conversation with a server.
pub(super) struct Backend {
    wire: Wire,
    deadline: Deadline,
    max_pack: u64,
}

impl Backend {
    pub(super) fn new(wire: Wire, deadline: Deadline, max_pack: u64) -> Self {
        Self { wire, deadline, max_pack }
    }

    fn exchange(
        &self,
        url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
        body: Option<Vec<u8>>,
    ) -> Pending {
        let split =
            |line: &str| line.split_once(':').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
        let ours = |(name, _): &(String, String)| !name.eq_ignore_ascii_case("user-agent");
        let headers = headers.into_iter().filter_map(|line| split(line.as_ref())).filter(ours).collect();
        let request = Request { url: url.to_owned(), headers, body, limit: self.max_pack };
        Arc::new(Mutex::new(Exchange {
            wire: self.wire.clone(),
            deadline: self.deadline,
            request: Some(request),
            headers: None,
            body: None,
        }))
    }
}

type Pending = Arc<Mutex<Exchange>>;

/// A request that is sent when somebody wants to read, then its answer.
struct Exchange {
    wire: Wire,
    deadline: Deadline,
    request: Option<Request>,
    headers: Option<Vec<u8>>,
    body: Option<Body>,
}

impl Exchange {
    fn run(&mut self) -> io::Result<()> {
        let Some(mut request) = self.request.take() else {
            return Ok(());
        };
        if request.body.as_ref().is_none_or(|body| body.starts_with(LIST)) {
            request.limit = MAX_REFS;
        }
        let answer = self.wire.exchange(request, self.deadline).map_err(super::error::Failure::into_io)?;
        self.headers = Some(answer.headers);
        self.body = Some(answer.body);
        Ok(())
    }
}

/// One half of an answer, there once it is read.
pub(super) struct Part<R> {
    from: Pending,
    reader: Option<R>,
    take: fn(&mut Exchange) -> Option<R>,
}

impl<R: BufRead> Part<R> {
    fn reader(&mut self) -> io::Result<&mut R> {
        if self.reader.is_none() {
            let mut exchange = self.from.lock().unwrap_or_else(PoisonError::into_inner);
            exchange.run()?;
            self.reader = (self.take)(&mut exchange);
        }
        self.reader.as_mut().ok_or_else(|| io::Error::other("the exchange failed before"))
    }
}

impl<R: BufRead> Read for Part<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader()?.read(buf)
    }
}

impl<R: BufRead> BufRead for Part<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader()?.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(reader) = &mut self.reader {
            reader.consume(amount);
        }
    }
}

fn headers(from: &Pending) -> Part<Cursor<Vec<u8>>> {
    Part { from: from.clone(), reader: None, take: |exchange| exchange.headers.take().map(Cursor::new) }
}

fn body(from: &Pending) -> Part<BufReader<Body>> {
    let take =
        |exchange: &mut Exchange| exchange.body.take().map(|body| BufReader::with_capacity(1 << 16, body));
    Part { from: from.clone(), reader: None, take }
}

/// The body of a request while it is written.
pub(super) struct Writing(Pending);

impl Write for Writing {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match exchange.request.as_mut().and_then(|request| request.body.as_mut()) {
            Some(body) => {
                body.extend_from_slice(buf);
                Ok(buf.len())
            }
            None => Err(io::Error::other("the request was sent before it was complete")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Http for Backend {
    type Headers = Part<Cursor<Vec<u8>>>;
    type ResponseBody = Part<BufReader<Body>>;
    type PostBody = Writing;

    fn get(
        &mut self,
        url: &str,
        _base: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<GetResponse<Self::Headers, Self::ResponseBody>> {
        let exchange = self.exchange(url, lines, None);
        Ok(GetResponse { headers: headers(&exchange), body: body(&exchange) })
    }

    fn post(
        &mut self,
        url: &str,
        _base: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
        _kind: PostBodyDataKind,
    ) -> gix::Result<PostResponse<Self::Headers, Self::ResponseBody, Self::PostBody>> {
        let exchange = self.exchange(url, lines, Some(Vec::new()));
        let post_body = Writing(exchange.clone());
        Ok(PostResponse { post_body, headers: headers(&exchange), body: body(&exchange) })
    }

    fn configure(&mut self, _config: &dyn Any) -> gix::Result {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.wire.moved()
    }
}

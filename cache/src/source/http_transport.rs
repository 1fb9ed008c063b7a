//! The HTTP transport of the Git library, on top of zagent's own HTTP client.
//!
//! A request is sent when its answer is first read, because only then is its body complete.

use std::any::Any;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse};

use super::http_remote::{BoundedBody, HttpRemote, RemoteRequest};
use super::{Deadline, MAX_REFS};

/// The start of a request that lists refs.
const LS_REFS_COMMAND: &[u8] = b"0014command=ls-refs";

/// One conversation with a server.
pub(super) struct HttpTransport {
    wire: HttpRemote,
    deadline: Deadline,
    max_pack: u64,
}

impl HttpTransport {
    pub(super) fn new(wire: HttpRemote, deadline: Deadline, max_pack: u64) -> Self {
        Self { wire, deadline, max_pack }
    }

    fn new_exchange(
        &self,
        url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
        body: Option<Vec<u8>>,
    ) -> SharedExchange {
        let split =
            |line: &str| line.split_once(':').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
        let ours = |(name, _): &(String, String)| !name.eq_ignore_ascii_case("user-agent");
        let headers = headers.into_iter().filter_map(|line| split(line.as_ref())).filter(ours).collect();
        let request = RemoteRequest { url: url.to_owned(), headers, body, limit: self.max_pack };
        Arc::new(Mutex::new(LazyExchange {
            wire: self.wire.clone(),
            deadline: self.deadline,
            request: Some(request),
            headers: None,
            body: None,
        }))
    }
}

type SharedExchange = Arc<Mutex<LazyExchange>>;

/// A request that is sent at the first read, then its answer.
struct LazyExchange {
    wire: HttpRemote,
    deadline: Deadline,
    request: Option<RemoteRequest>,
    headers: Option<Vec<u8>>,
    body: Option<BoundedBody>,
}

impl LazyExchange {
    fn send_once(&mut self) -> io::Result<()> {
        let Some(mut request) = self.request.take() else {
            return Ok(());
        };
        if request.body.as_ref().is_none_or(|body| body.starts_with(LS_REFS_COMMAND)) {
            request.limit = MAX_REFS;
        }
        let answer =
            self.wire.send_request(request, self.deadline).map_err(super::error::SourceFailure::into_io)?;
        self.headers = Some(answer.headers);
        self.body = Some(answer.body);
        Ok(())
    }
}

/// One half of an answer, available once it is read.
pub(super) struct ResponsePart<R> {
    from: SharedExchange,
    reader: Option<R>,
    take: fn(&mut LazyExchange) -> Option<R>,
}

impl<R: BufRead> ResponsePart<R> {
    fn reader(&mut self) -> io::Result<&mut R> {
        if self.reader.is_none() {
            let mut exchange = self.from.lock().unwrap_or_else(PoisonError::into_inner);
            exchange.send_once()?;
            self.reader = (self.take)(&mut exchange);
        }
        self.reader.as_mut().ok_or_else(|| io::Error::other("the exchange already failed"))
    }
}

impl<R: BufRead> Read for ResponsePart<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader()?.read(buf)
    }
}

impl<R: BufRead> BufRead for ResponsePart<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader()?.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(reader) = &mut self.reader {
            reader.consume(amount);
        }
    }
}

fn headers_part(from: &SharedExchange) -> ResponsePart<Cursor<Vec<u8>>> {
    ResponsePart {
        from: from.clone(),
        reader: None,
        take: |exchange| exchange.headers.take().map(Cursor::new),
    }
}

fn body_part(from: &SharedExchange) -> ResponsePart<BufReader<BoundedBody>> {
    let take = |exchange: &mut LazyExchange| {
        exchange.body.take().map(|body| BufReader::with_capacity(1 << 16, body))
    };
    ResponsePart { from: from.clone(), reader: None, take }
}

/// The body of a request while it is written.
pub(super) struct RequestBodyWriter(SharedExchange);

impl Write for RequestBodyWriter {
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

impl Http for HttpTransport {
    type Headers = ResponsePart<Cursor<Vec<u8>>>;
    type ResponseBody = ResponsePart<BufReader<BoundedBody>>;
    type PostBody = RequestBodyWriter;

    fn get(
        &mut self,
        url: &str,
        _base: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<GetResponse<Self::Headers, Self::ResponseBody>> {
        let exchange = self.new_exchange(url, lines, None);
        Ok(GetResponse { headers: headers_part(&exchange), body: body_part(&exchange) })
    }

    fn post(
        &mut self,
        url: &str,
        _base: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
        _kind: PostBodyDataKind,
    ) -> gix::Result<PostResponse<Self::Headers, Self::ResponseBody, Self::PostBody>> {
        let exchange = self.new_exchange(url, lines, Some(Vec::new()));
        let post_body = RequestBodyWriter(exchange.clone());
        Ok(PostResponse { post_body, headers: headers_part(&exchange), body: body_part(&exchange) })
    }

    fn configure(&mut self, _config: &dyn Any) -> gix::Result {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.wire.redirected_to()
    }
}

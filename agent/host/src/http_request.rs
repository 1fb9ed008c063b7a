//! A request in, its answer out, behind the redirects that may be followed.
//!
//! Law: where a redirect leads is decided by [`zagent_config::redirect`] alone: every client of the states and the daemon
//! sends through here. Headers and bodies of the caller stay with the origin that the caller named (held by
//! `headers_stay_with_the_origin_of_the_caller`, `bodies_stay_with_the_origin_of_the_caller`).

#![expect(clippy::disallowed_methods, reason = "all requests of one call share its time limit")]

use std::time::{Duration, Instant};

use ureq::config::ConfigBuilder;
use ureq::http::{Method, Request, Response, StatusCode, Uri, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body};
use zagent_config::redirect::{MAX_REDIRECTS, resolve_redirect};

/// The settings that every client has: no status is an error, no redirect is followed behind our back.
pub fn agent_config() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(tls_config(true))
        .user_agent(concat!("zagent/", env!("CARGO_PKG_VERSION")))
}

/// Who is believed: the authorities that the host believes, those of its own people among them; everybody when certificates
/// do not matter.
pub fn tls_config(verify: bool) -> TlsConfig {
    TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).disable_verification(!verify).build()
}

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// `GET`, in upper case.
    pub method: String,
    /// The address.
    pub url: String,
    /// What the caller sends besides.
    pub headers: Vec<(String, String)>,
    /// The body, for methods that have one.
    pub body: Option<Vec<u8>>,
}

impl HttpRequest {
    /// A request for the content of an address.
    pub fn get(url: &str) -> Self {
        Self { method: "GET".into(), url: url.into(), headers: Vec::new(), body: None }
    }

    /// Sends it and follows redirects; all of it takes no longer than `timeout`.
    ///
    /// # Errors
    /// Fails in words without the address when there is no answer, or it leads somewhere it must not.
    pub fn send(mut self, agent: &Agent, timeout: Duration) -> Result<Response<Body>, String> {
        let until = Instant::now() + timeout;
        for _ in 0..=MAX_REDIRECTS {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.send_once(agent, left)?;
            let location = answer.headers().get(header::LOCATION);
            if !is_redirect(answer.status()) || location.is_none() {
                return Ok(answer);
            }
            let location = location.and_then(|to| to.to_str().ok()).unwrap_or_default().to_owned();
            self.redirect(answer.status(), &location)?;
        }
        Err(format!("redirects more than {MAX_REDIRECTS} times"))
    }

    fn send_once(&self, agent: &Agent, left: Duration) -> Result<Response<Body>, String> {
        let wrong = |e: ureq::http::Error| format!("the request cannot be made: {e}");
        // The error may contain the address, which may contain a password.
        let failed = |e: ureq::Error| e.to_string().replace(&self.url, "the address");
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        // A method that has no body must not get an empty one either.
        match &self.body {
            Some(body) => {
                let request = request.body(&body[..]).map_err(wrong)?;
                agent.run(agent.configure_request(request).timeout_global(Some(left)).build()).map_err(failed)
            }
            None => {
                let request = request.body(()).map_err(wrong)?;
                agent.run(agent.configure_request(request).timeout_global(Some(left)).build()).map_err(failed)
            }
        }
    }

    /// Becomes the request that a redirect asks for.
    fn redirect(&mut self, status: StatusCode, location: &str) -> Result<(), String> {
        let refused = |why: &dyn std::fmt::Display| format!("redirects to `{}`: {why}", shown(location));
        let target = resolve_redirect(&self.url, location).map_err(|error| refused(&error))?;
        let is_look = [Method::GET, Method::HEAD].iter().any(|method| self.method == method.as_str());
        let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if !keeps_method && !is_look {
            self.method = Method::GET.to_string();
            self.body = None;
        }
        if target.is_foreign {
            if self.body.is_some() {
                return Err(refused(&"the body of a request is not sent to another host"));
            }
            self.headers.clear();
        }
        if self.body.is_none() {
            self.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
        }
        self.url = target.url;
        Ok(())
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// An address without what may be secret: user, password and query.
fn shown(url: &str) -> String {
    let clean: String = url.chars().filter(|c| !c.is_control()).take(200).collect();
    let plain = clean.split(['?', '#']).next().unwrap_or_default();
    match plain.parse::<Uri>() {
        Ok(uri) if uri.authority().is_some() => {
            let host =
                uri.authority().map(|authority| authority.as_str().rsplit('@').next().unwrap_or_default());
            let scheme = uri.scheme_str().unwrap_or("https");
            format!("{scheme}://{}{}", host.unwrap_or_default(), uri.path())
        }
        _ => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Answers each request with the next text, and tells what it got: the request line, headers and body.
    fn serve(answers: Vec<String>) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (told, heard) = channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut text, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(size) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = size.trim().parse().unwrap();
                    }
                    text += &line;
                    if line == "\r\n" {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                text += &String::from_utf8(body).unwrap();
                told.send(text).unwrap();
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        (address, heard)
    }

    fn redirect(status: u16, to: &str) -> String {
        format!("HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    }

    const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    const LIMIT: Duration = Duration::from_secs(20);

    fn agent() -> Agent {
        Agent::new_with_config(agent_config().proxy(None).build())
    }

    fn request(url: String, body: Option<&str>) -> HttpRequest {
        let headers =
            [("X-Token", "geheim"), ("Authorization", "Basic Zw=="), ("Content-Type", "text/plain")];
        HttpRequest {
            method: if body.is_some() { "POST".into() } else { "GET".into() },
            url,
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            body: body.map(|body| body.as_bytes().to_vec()),
        }
    }

    #[test]
    fn headers_stay_with_the_origin_of_the_caller() {
        let (other, heard_there) = serve(vec![FINE.into()]);
        let (own, heard_here) =
            serve(vec![redirect(302, "/again"), redirect(302, &format!("HTTP://{other}/x"))]);
        let answer = request(format!("http://{own}/"), None).send(&agent(), LIMIT).unwrap();
        assert_eq!(answer.status(), 200);
        for _ in 0..2 {
            assert!(heard_here.recv().unwrap().to_ascii_lowercase().contains("x-token: geheim"));
        }
        let there = heard_there.recv().unwrap().to_ascii_lowercase();
        assert!(
            there.starts_with("get /x ") && !there.contains("geheim") && !there.contains("basic"),
            "{there}"
        );
    }

    #[test]
    fn bodies_stay_with_the_origin_of_the_caller() {
        let (other, _heard) = serve(vec![FINE.into()]);
        let (own, heard) =
            serve(vec![redirect(307, "/again"), redirect(307, &format!("http://{other}/?key=geheim"))]);
        let error = request(format!("http://{own}/"), Some("body")).send(&agent(), LIMIT).unwrap_err();
        assert!(error.contains("not sent to another host") && !error.contains("geheim"), "{error}");
        assert!(heard.recv().unwrap().ends_with("body") && heard.recv().unwrap().ends_with("body"));
        // A redirect that says "look there" takes no body along.
        let (other, heard_there) = serve(vec![FINE.into()]);
        let (own, _heard) = serve(vec![redirect(303, &format!("http://{other}/"))]);
        request(format!("http://{own}/"), Some("body")).send(&agent(), LIMIT).unwrap();
        let there = heard_there.recv().unwrap();
        assert!(
            there.starts_with("GET / ") && !there.contains("body") && !there.contains("text/plain"),
            "{there}"
        );
    }

    #[test]
    fn what_is_not_followed() {
        for (to, why) in [("file:///etc/passwd", "only https and http"), ("", "not a URL")] {
            let (own, _heard) = serve(vec![redirect(301, to)]);
            let error = request(format!("http://{own}/"), None).send(&agent(), LIMIT).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
        let (own, _heard) = serve(vec![redirect(302, "/"); 6]);
        let error = request(format!("http://{own}/"), None).send(&agent(), LIMIT).unwrap_err();
        assert_eq!(error, "redirects more than 5 times");
    }

    #[test]
    fn the_authorities_of_the_host_are_believed() {
        for verify in [true, false] {
            let tls = tls_config(verify);
            assert!(matches!(tls.root_certs(), RootCerts::PlatformVerifier), "{tls:?}");
            assert_eq!(tls.disable_verification(), !verify);
        }
    }
}

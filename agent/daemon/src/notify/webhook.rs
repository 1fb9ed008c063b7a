//! Event in, HTTP calls to the subscribed webhooks out.
//!
//! Law: a call runs in its own thread, at most three times and within a total timeout; a webhook with a secret is
//! never called unsigned. An address may itself be a secret, so only its host is printed (held by
//! `temporary_errors_are_retried_and_permanent_ones_are_not`, `without_its_secret_a_webhook_is_not_called`,
//! `an_unreachable_webhook_is_reported_without_its_address`).

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use zagent_config::backoff::Backoff;
use zagent_config::settings::{WebhookKind, WebhookSettings};

use super::{NotifyEvent, commit_status};
use zagent_config::error_chain;
use zagent_host::CancelToken;
use zagent_host::http_request::agent_config;

/// Header with the signature: `sha256=` and the HMAC of the body with the secret, in hex.
pub(crate) const SIGNATURE_HEADER: &str = "X-Zagent-Signature";
/// Header with the name of the event.
pub(crate) const EVENT_HEADER: &str = "X-Zagent-Event";

/// Maximum size of a secret.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// How often a call is repeated, and the delay before each repetition.
const RETRIES: u32 = 2;
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5)).with_factor(5);

/// Retries of a call.
#[derive(Clone, Debug)]
pub(crate) struct WebhookBackoff {
    /// Delays before the second attempt, the third, and so on.
    pub(crate) delays: Vec<Duration>,
    /// Total timeout of all attempts.
    pub(crate) total_timeout: Duration,
}

impl Default for WebhookBackoff {
    fn default() -> Self {
        Self {
            delays: (0..RETRIES).map(|attempt| BACKOFF.delay(attempt)).collect(),
            total_timeout: Duration::from_secs(60),
        }
    }
}

/// Why a webhook call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    /// The secret cannot be read.
    #[error("the webhook at `{host}` was not called: cannot read its secret `{}`", path.display())]
    Secret {
        /// Host of the webhook.
        host: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The webhook rejected the call.
    #[error("the webhook at `{host}` responded with {status} ({tries} attempts)")]
    Status {
        /// Host of the webhook.
        host: String,
        /// Status code.
        status: u16,
        /// Number of attempts.
        tries: usize,
    },
    /// The webhook cannot be reached.
    #[error("the webhook at `{host}` cannot be reached ({tries} attempts): {why}")]
    Unreachable {
        /// Host of the webhook.
        host: String,
        /// The cause, without the address.
        why: String,
        /// Number of attempts.
        tries: usize,
    },
    /// No thread could be started.
    #[error("the webhook at `{host}` was not called")]
    Thread {
        /// Host of the webhook.
        host: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Calls in progress. When dropped, they continue in the background.
#[derive(Debug)]
#[must_use]
pub(crate) struct PendingWebhooks {
    calls: Vec<JoinHandle<Result<(), WebhookError>>>,
    failed: Vec<WebhookError>,
}

impl PendingWebhooks {
    /// Waits for all calls and returns the failures. It takes at most the total timeout.
    pub(crate) fn join(mut self) -> Vec<WebhookError> {
        // A call that panicked has already been logged.
        self.failed.extend(self.calls.drain(..).filter_map(|call| call.join().ok()?.err()));
        self.failed
    }
}

/// Calls every webhook that subscribed to the event. Failures are logged as well.
pub(crate) fn send_all(
    webhooks: &[WebhookSettings],
    event: &NotifyEvent,
    pace: &WebhookBackoff,
    cancel: &Arc<CancelToken>,
) -> PendingWebhooks {
    let mut telling = PendingWebhooks { calls: Vec::new(), failed: Vec::new() };
    let body: Arc<[u8]> = serde_json::to_vec(event).unwrap_or_default().into();
    for webhook in webhooks.iter().filter(|w| event.is_wanted_by(&w.on)) {
        let (mut hook, mut body, word) = (webhook.clone(), Arc::clone(&body), event.event);
        if webhook.kind != WebhookKind::Json {
            let Some(status) = commit_status::body(webhook.kind, event) else { continue };
            hook.url = commit_status::address(&webhook.url, event);
            body = serde_json::to_vec(&status).unwrap_or_default().into();
        }
        let (pace, cancel) = (pace.clone(), Arc::clone(cancel));
        let call = move || {
            let called =
                WebhookCall { webhook: &hook, body: &body, word, cancel: &cancel }.send_with_retry(&pace);
            if let Err(e) = &called {
                tracing::warn!("{}", error_chain(e));
            }
            called
        };
        match std::thread::Builder::new().name("webhook".into()).spawn(call) {
            Ok(call) => telling.calls.push(call),
            Err(source) => telling.failed.push(WebhookError::Thread { host: url_host(&webhook.url), source }),
        }
    }
    telling
}

struct WebhookCall<'a> {
    webhook: &'a WebhookSettings,
    body: &'a [u8],
    word: &'static str,
    cancel: &'a CancelToken,
}

/// Why one attempt failed, and whether a retry may help.
enum CallFailure {
    Status(u16),
    Unreachable(String),
}

impl CallFailure {
    /// A server that rejects the event rejects it a second later as well.
    const fn is_retryable(&self) -> bool {
        match self {
            Self::Status(status) => *status >= 500 || matches!(*status, 408 | 425 | 429),
            Self::Unreachable(_) => true,
        }
    }

    fn into_error(self, host: String, tries: usize) -> WebhookError {
        match self {
            Self::Status(status) => WebhookError::Status { host, status, tries },
            Self::Unreachable(why) => WebhookError::Unreachable { host, why, tries },
        }
    }
}

impl WebhookCall<'_> {
    fn send_with_retry(&self, pace: &WebhookBackoff) -> Result<(), WebhookError> {
        let until = Instant::now() + pace.total_timeout;
        let (signature, token) = (self.signature()?, self.token()?);
        let mut pauses = pace.delays.iter();
        let mut tries = 0;
        loop {
            tries += 1;
            let left = until.saturating_duration_since(Instant::now());
            let timeout = left.min(self.webhook.timeout);
            let Err(trouble) = self.send_once(signature.as_deref(), token.as_ref(), timeout) else {
                return Ok(());
            };
            let pause = pauses.next().filter(|pause| Instant::now() + **pause < until);
            match pause {
                Some(pause) if trouble.is_retryable() && !self.cancel.is_cancelled() => {
                    self.cancel.wait(*pause);
                }
                _ => return Err(trouble.into_error(url_host(&self.webhook.url), tries)),
            }
        }
    }

    fn send_once(
        &self,
        signature: Option<&str>,
        token: Option<&(&'static str, String)>,
        timeout: Duration,
    ) -> Result<(), CallFailure> {
        // A signed body goes only to the configured address: redirects are not followed.
        let config = agent_config().timeout_global(Some(timeout)).build();
        let agent = ureq::Agent::new_with_config(config);
        let mut request = agent.post(&self.webhook.url).header("Content-Type", "application/json");
        request = request.header(EVENT_HEADER, self.word);
        if let Some((name, value)) = token {
            request = request.header(*name, value.as_str());
        }
        if let Some(signature) = signature {
            request = request.header(SIGNATURE_HEADER, signature);
        }
        let told = |e: ureq::Error| CallFailure::Unreachable(e.to_string().replace(&self.webhook.url, "it"));
        let status = request.send(self.body).map_err(told)?.status();
        if status.is_success() { Ok(()) } else { Err(CallFailure::Status(status.as_u16())) }
    }

    fn signature(&self) -> Result<Option<String>, WebhookError> {
        let Some(path) = &self.webhook.secret_file else { return Ok(None) };
        Ok(Some(sign(&self.secret(path)?, self.body)))
    }

    /// The header with the token of a commit status.
    fn token(&self) -> Result<Option<(&'static str, String)>, WebhookError> {
        let Some(path) = &self.webhook.token_file else { return Ok(None) };
        let token = String::from_utf8_lossy(&self.secret(path)?).trim().to_owned();
        Ok(Some(commit_status::token_header(self.webhook.kind, &token)))
    }

    fn secret(&self, path: &Path) -> Result<Vec<u8>, WebhookError> {
        let host = || url_host(&self.webhook.url);
        read_secret(path).map_err(|source| WebhookError::Secret {
            host: host(),
            path: path.to_owned(),
            source,
        })
    }
}

/// The secret in a file, without the newline that editors add.
fn read_secret(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_SECRET_BYTES).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|b| !matches!(b, b'\n' | b'\r')).map_or(0, |last| last + 1);
    bytes.truncate(end);
    if bytes.is_empty() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the file is empty"));
    }
    Ok(bytes)
}

/// `sha256=…`.
fn sign(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// Host of an address, the only part that may be printed.
fn url_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

#[cfg(test)]
pub(crate) mod tests;

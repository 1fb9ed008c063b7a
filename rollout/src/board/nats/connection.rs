//! A connection to a bucket, and its requests, each with a time limit.
//!
//! Law: a missing answer is [`NatsError::Lost`], never a guess. The caller then drops the connection, and with it
//! everything that the library would still send later (held by
//! `a_restarted_server_is_used_again_and_an_empty_one_is_detected`).

use std::error::Error;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind, RawMessageError, RawMessageErrorKind};
use async_nats::jetstream::{self, kv, stream};
use async_nats::{ConnectErrorKind, ConnectOptions, Event};
use futures_util::future::{Either, select};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use super::address::{NatsAddress, NatsLogin};

/// Time limit for a connection, per address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a whole call.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// After this time without traffic, a server may have dropped the connection.
const IDLE_LIMIT: Duration = Duration::from_secs(100);

/// Why a request failed.
#[derive(Debug)]
pub(super) enum NatsError {
    /// Someone else has written in the meantime.
    Conflict,
    /// No answer, or a wrong one.
    Lost(Box<dyn Error + Send + Sync>),
    /// The server refuses.
    Refused(String),
}

/// The connection settings.
#[derive(Debug)]
pub(super) struct NatsConfig {
    pub(super) address: NatsAddress,
    pub(super) bucket: String,
    pub(super) credentials: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
}

/// A bucket, and the connection to it.
#[derive(Debug)]
pub(super) struct NatsBucket {
    pub(super) store: kv::Store,
    pub(super) client: async_nats::Client,
    /// Notified when the connection breaks, so that no caller waits for an answer that cannot come.
    broken: Arc<Notify>,
}

/// A bucket, and the runtime of its connection.
#[derive(Debug)]
pub(super) struct NatsConnection {
    /// Always set, except while it is dropped.
    runtime: Option<Runtime>,
    bucket: NatsBucket,
    used: Instant,
}

impl NatsConnection {
    /// Connects, and creates the bucket if it does not exist.
    pub(super) fn open(config: &NatsConfig) -> Result<Self, NatsError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_answer)?;
        match block_on_request(&runtime, CALL_TIMEOUT, connect(config)) {
            Ok(bucket) => Ok(Self { runtime: Some(runtime), bucket, used: Instant::now() }),
            Err(trouble) => {
                // A pending name lookup must not block the exit.
                runtime.shutdown_background();
                Err(trouble)
            }
        }
    }

    /// False when it was idle for so long that a new connection is better.
    pub(super) fn is_fresh(&self) -> bool {
        self.used.elapsed() < IDLE_LIMIT
    }

    /// Maximum bytes of a message that the server accepts.
    pub(super) fn max_message_bytes(&self) -> usize {
        self.bucket.client.server_info().max_payload
    }

    /// Sends a request.
    pub(super) fn call<T>(
        &mut self,
        what: impl AsyncFnOnce(&NatsBucket) -> Result<T, NatsError>,
    ) -> Result<T, NatsError> {
        let Some(runtime) = &self.runtime else { return Err(no_answer("the connection is closed")) };
        let answer = block_on_request(runtime, CALL_TIMEOUT, async {
            let (asked, broken) = (pin!(what(&self.bucket)), pin!(self.bucket.broken.notified()));
            match select(asked, broken).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(no_answer("the connection was interrupted")),
            }
        });
        self.used = Instant::now();
        answer
    }
}

impl Drop for NatsConnection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs one task on the runtime. The library's own log is dropped: it contains addresses and values.
fn block_on_request<T>(
    runtime: &Runtime,
    within: Duration,
    what: impl Future<Output = Result<T, NatsError>>,
) -> Result<T, NatsError> {
    let nobody = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(nobody, || {
        runtime.block_on(async {
            tokio::time::timeout(within, what).await.unwrap_or_else(|slow| Err(no_answer(slow)))
        })
    })
}

async fn connect(config: &NatsConfig) -> Result<NatsBucket, NatsError> {
    let broken = Arc::new(Notify::new());
    let tell = broken.clone();
    let mut options = ConnectOptions::new()
        .event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                tell.notify_one();
            }
            std::future::ready(())
        })
        .name("zagent")
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .max_reconnects(1)
        .ignore_discovered_servers();
    if let Some(path) = &config.credentials {
        let unread = |e: std::io::Error| {
            NatsError::Refused(format!(
                "cannot use the credentials `{}` (board.credentials): {e}",
                path.display()
            ))
        };
        let text = std::fs::read_to_string(path).map_err(unread)?;
        options = options.credentials(&text).map_err(unread)?;
    }
    match &config.address.login {
        Some(NatsLogin::User(user, password)) => {
            options = options.user_and_password(user.clone(), password.clone());
        }
        Some(NatsLogin::Token(token)) => options = options.token(token.clone()),
        None => {}
    }
    if let Some(ca) = &config.ca {
        // The library does not report a file without a certificate.
        std::fs::File::open(ca)
            .map_err(|e| NatsError::Refused(format!("cannot read `{}` (board.ca): {e}", ca.display())))?;
        options = options.add_root_certificates(ca.clone());
    }
    let client = options.connect(&config.address.servers).await.map_err(|error| match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => NatsError::Refused(
            "it denies access; check `board.credentials` or the user in `board.url`".into(),
        ),
        _ => no_answer(error),
    })?;
    let mut context = jetstream::new(client.clone());
    context.set_timeout(REQUEST_TIMEOUT);
    let store = match context.get_key_value(&config.bucket).await {
        Ok(store) => store,
        Err(error) => match find_server_error(&error) {
            Some(no) if no.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND => {
                create_bucket(&context, &config.bucket).await?
            }
            _ => return Err(from_client_error(error)),
        },
    };
    Ok(NatsBucket { store, client, broken })
}

/// Creates the bucket. Two concurrent calls create one.
///
/// Why not the library's own function: it first queries the account, and does not understand servers up to 2.9.
async fn create_bucket(context: &jetstream::Context, name: &str) -> Result<kv::Store, NatsError> {
    let config = stream::Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        description: Some("zagent reports and rollouts".into()),
        max_messages_per_subject: 1,
        discard: stream::DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: 1,
        ..Default::default()
    };
    context.create_stream(config).await.map_err(from_client_error)?;
    context.get_key_value(name).await.map_err(from_client_error)
}

/// The error when no answer came.
pub(super) fn no_answer(source: impl Into<Box<dyn Error + Send + Sync>>) -> NatsError {
    NatsError::Lost(source.into())
}

/// An error of the library: a refusal by the server, or a lost answer.
pub(super) fn from_client_error(error: impl Error + Send + Sync + 'static) -> NatsError {
    match find_server_error(&error) {
        Some(no) => NatsError::Refused(no.to_string()),
        None => no_answer(error),
    }
}

/// The server's own message, somewhere inside an error.
fn find_server_error(error: &(dyn Error + 'static)) -> Option<jetstream::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = server_error(error) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The server's answer in one error; the library stores it in the kind of most errors, not in their causes.
fn server_error(error: &(dyn Error + 'static)) -> Option<jetstream::Error> {
    macro_rules! kinds {
        ($($error:ty, $kind:path;)+) => {
            $(if let Some($kind(found)) = error.downcast_ref::<$error>().map(<$error>::kind) {
                return Some(found);
            })+
        };
    }
    kinds! {
        GetStreamError, GetStreamErrorKind::JetStream;
        CreateStreamError, CreateStreamErrorKind::JetStream;
        ConsumerError, ConsumerErrorKind::JetStream;
        RawMessageError, RawMessageErrorKind::JetStream;
    }
    error.downcast_ref::<jetstream::Error>().cloned()
}

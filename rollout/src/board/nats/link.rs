//! A connection to a bucket, and what it is asked, each within a time.
//!
//! Law: an answer that did not come is [`Trouble::Lost`], never a guess. Whoever sees it throws the link away, and with it
//! whatever the library would still send later.

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

use super::address::{Address, Login};

/// How long a connection may take, for each address.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long all of one call may take.
const CALL: Duration = Duration::from_secs(120);
/// After so long without a word a server may have forgotten us.
const IDLE: Duration = Duration::from_secs(100);

/// Why nothing came of it.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Somebody else has written meanwhile.
    Conflict,
    /// Nobody answered, or not what was asked.
    Lost(Box<dyn Error + Send + Sync>),
    /// The server says no.
    Refused(String),
}

/// How to get in.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) address: Address,
    pub(super) bucket: String,
    pub(super) credentials: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
}

/// A bucket, and the connection to it.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) store: kv::Store,
    pub(super) client: async_nats::Client,
    /// Told when the connection breaks, so that nobody waits for an answer that cannot come.
    broken: Arc<Notify>,
}

/// A bucket, and what drives the connection.
#[derive(Debug)]
pub(super) struct Link {
    /// Always there, but while it is thrown away.
    runtime: Option<Runtime>,
    bucket: Bucket,
    used: Instant,
}

impl Link {
    /// Connects, and makes the bucket when there is none.
    pub(super) fn open(door: &Door) -> Result<Self, Trouble> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(lost)?;
        match run(&runtime, CALL, connect(door)) {
            Ok(bucket) => Ok(Self { runtime: Some(runtime), bucket, used: Instant::now() }),
            Err(trouble) => {
                // A name that is still looked up must not hold us up.
                runtime.shutdown_background();
                Err(trouble)
            }
        }
    }

    /// False when it was silent for so long that it is better made anew.
    pub(super) fn is_fresh(&self) -> bool {
        self.used.elapsed() < IDLE
    }

    /// Bytes of the largest message that the server takes.
    pub(super) fn most(&self) -> usize {
        self.bucket.client.server_info().max_payload
    }

    /// Asks something.
    pub(super) fn ask<T>(
        &mut self,
        what: impl AsyncFnOnce(&Bucket) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let Some(runtime) = &self.runtime else { return Err(lost("the connection is closed")) };
        let answer = run(runtime, CALL, async {
            let (asked, broken) = (pin!(what(&self.bucket)), pin!(self.bucket.broken.notified()));
            match select(asked, broken).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(lost("the connection broke")),
            }
        });
        self.used = Instant::now();
        answer
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Lets a runtime work on one thing. The library's own log is not ours: it knows addresses and what they hold.
fn run<T>(
    runtime: &Runtime,
    within: Duration,
    what: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    let nobody = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(nobody, || {
        runtime.block_on(async {
            tokio::time::timeout(within, what).await.unwrap_or_else(|slow| Err(lost(slow)))
        })
    })
}

async fn connect(door: &Door) -> Result<Bucket, Trouble> {
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
        .connection_timeout(CONNECT)
        .request_timeout(Some(REQUEST))
        .max_reconnects(1)
        .ignore_discovered_servers();
    if let Some(path) = &door.credentials {
        let unread = |e: std::io::Error| {
            Trouble::Refused(format!(
                "cannot use the credentials `{}` (board.credentials): {e}",
                path.display()
            ))
        };
        let text = std::fs::read_to_string(path).map_err(unread)?;
        options = options.credentials(&text).map_err(unread)?;
    }
    match &door.address.login {
        Some(Login::User(user, password)) => {
            options = options.user_and_password(user.clone(), password.clone());
        }
        Some(Login::Token(token)) => options = options.token(token.clone()),
        None => {}
    }
    if let Some(ca) = &door.ca {
        // The library says nothing about a file without a certificate.
        std::fs::File::open(ca)
            .map_err(|e| Trouble::Refused(format!("cannot read `{}` (board.ca): {e}", ca.display())))?;
        options = options.add_root_certificates(ca.clone());
    }
    let client = options.connect(&door.address.servers).await.map_err(|error| match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => Trouble::Refused(
            "it does not let us in; look at `board.credentials`, or at the user in `board.url`".into(),
        ),
        _ => lost(error),
    })?;
    let mut context = jetstream::new(client.clone());
    context.set_timeout(REQUEST);
    let store = match context.get_key_value(&door.bucket).await {
        Ok(store) => store,
        Err(error) => match refusal(&error) {
            Some(no) if no.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND => {
                make(&context, &door.bucket).await?
            }
            _ => return Err(said(error)),
        },
    };
    Ok(Bucket { store, client, broken })
}

/// Makes the bucket. Two that do so at once make one.
///
/// Why not the library's own way: it first asks about the account, and does not understand what servers up to 2.9 say.
async fn make(context: &jetstream::Context, name: &str) -> Result<kv::Store, Trouble> {
    let config = stream::Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        description: Some("reports and rollouts of zagent".into()),
        max_messages_per_subject: 1,
        discard: stream::DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: 1,
        ..Default::default()
    };
    context.create_stream(config).await.map_err(said)?;
    context.get_key_value(name).await.map_err(said)
}

/// What was seen when no answer came.
pub(super) fn lost(source: impl Into<Box<dyn Error + Send + Sync>>) -> Trouble {
    Trouble::Lost(source.into())
}

/// An error of the library: a plain no of the server, or an answer that got lost.
pub(super) fn said(error: impl Error + Send + Sync + 'static) -> Trouble {
    match refusal(&error) {
        Some(no) => Trouble::Refused(no.to_string()),
        None => lost(error),
    }
}

/// What the server itself said, somewhere inside an error.
fn refusal(error: &(dyn Error + 'static)) -> Option<jetstream::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = answer(error) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The server's answer in one error; the library keeps it in the kind of most, not among their causes.
fn answer(error: &(dyn Error + 'static)) -> Option<jetstream::Error> {
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

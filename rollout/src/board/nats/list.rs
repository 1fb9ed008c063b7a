//! All values below a prefix: the first time in one pass, later only what has changed.
//!
//! Law: a bucket keeps one message a key, numbered as it came, so what follows the last number seen is what has changed.
//! A bucket that was made anew, and one that was not read whole for a while, is read whole.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{DeliverPolicy, push};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures_util::StreamExt;

use super::keys;
use super::link::{Bucket, Trouble, lost, said};
use crate::board::{Entry, Token};

/// Changes that are fetched one by one; more of them are worth a pass.
const FEW: usize = 16;
/// How long the next value of a pass may take.
const STALL: Duration = Duration::from_secs(20);
/// How long changes alone are believed: what a server throws away by its own limits is no change.
const WHOLE: Duration = Duration::from_secs(600);
/// The header of a value that is gone.
const GONE: &str = "KV-Operation";

/// What was seen below a prefix.
#[derive(Debug)]
pub(super) struct Seen {
    /// When the bucket was made.
    made: String,
    /// The number up to which everything was seen.
    last: u64,
    /// When it was last read whole.
    whole: Instant,
    /// By key of the board.
    pub(super) values: BTreeMap<String, Entry>,
}

/// Everything below a prefix, from what was seen before.
pub(super) async fn read(bucket: &Bucket, prefix: &str, before: Option<Seen>) -> Result<Seen, Trouble> {
    let info = bucket.store.stream.get_info().await.map_err(said)?;
    let (made, last) = (info.created.to_string(), info.state.last_sequence);
    let known = before.filter(|seen| seen.made == made && seen.last <= last && seen.whole.elapsed() < WHOLE);
    let Some(mut seen) = known else {
        let mut seen = Seen { made, last: 0, whole: Instant::now(), values: BTreeMap::new() };
        pass(bucket, prefix, &mut seen, DeliverPolicy::LastPerSubject).await?;
        seen.last = seen.last.max(last);
        return Ok(seen);
    };
    for _ in 0..FEW {
        if seen.last >= last || !next(bucket, prefix, &mut seen).await? {
            seen.last = seen.last.max(last);
            return Ok(seen);
        }
    }
    let policy = DeliverPolicy::ByStartSequence { start_sequence: seen.last + 1 };
    pass(bucket, prefix, &mut seen, policy).await?;
    seen.last = seen.last.max(last);
    Ok(seen)
}

fn subject(bucket: &Bucket, prefix: &str) -> String {
    format!("{}{}", bucket.store.prefix, keys::filter(prefix))
}

/// Takes in the next change; false when there is none.
async fn next(bucket: &Bucket, prefix: &str, seen: &mut Seen) -> Result<bool, Trouble> {
    // The leader is asked: a replica may not know yet that there is one.
    let asked = bucket
        .store
        .stream
        .raw_message_builder()
        .next_by_subject(subject(bucket, prefix))
        .sequence(seen.last + 1);
    match asked.send().await {
        Ok(message) => {
            let is_gone = message.headers.get(GONE).is_some();
            take(bucket, prefix, seen, &message.subject, (message.sequence, &message.payload, is_gone));
            Ok(true)
        }
        Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(false),
        Err(error) => Err(said(error)),
    }
}

/// Takes in everything from a point on, as fast as the server sends it.
async fn pass(bucket: &Bucket, prefix: &str, seen: &mut Seen, from: DeliverPolicy) -> Result<(), Trouble> {
    let config = push::OrderedConfig {
        deliver_subject: bucket.client.new_inbox(),
        filter_subject: subject(bucket, prefix),
        deliver_policy: from,
        ..Default::default()
    };
    let consumer = bucket.store.stream.create_consumer(config).await.map_err(said)?;
    if consumer.cached_info().num_pending == 0 {
        return Ok(());
    }
    let mut messages = consumer.messages().await.map_err(said)?;
    loop {
        let message = tokio::time::timeout(STALL, messages.next()).await.map_err(lost)?;
        let message = message.ok_or_else(|| lost("the server ended the list"))?.map_err(said)?;
        let info = message.info().map_err(lost)?;
        let (number, pending) = (info.stream_sequence, info.pending);
        let is_gone = message.headers.as_ref().and_then(|headers: &HeaderMap| headers.get(GONE)).is_some();
        take(bucket, prefix, seen, &message.subject, (number, &message.payload, is_gone));
        if pending == 0 {
            return Ok(());
        }
    }
}

/// Takes in one message: its number, its value, and whether it says that there is none.
fn take(bucket: &Bucket, prefix: &str, seen: &mut Seen, subject: &str, message: (u64, &[u8], bool)) {
    let (number, value, is_gone) = message;
    seen.last = seen.last.max(number);
    let key = subject.strip_prefix(&bucket.store.prefix).and_then(keys::decode);
    // Others may keep things in the bucket.
    let Some(key) = key.filter(|key| key.starts_with(prefix)) else { return };
    if is_gone {
        seen.values.remove(&key);
    } else {
        seen.values.insert(key, Entry { value: value.to_vec(), token: Token(number.to_string()) });
    }
}

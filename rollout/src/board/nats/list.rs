//! All values below a prefix: the first time in one pass, later only the changes.
//!
//! A bucket keeps one numbered message per key, so the messages after the last seen number are the changes. A
//! bucket that was created again, or that was not read completely for a while, is read completely.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{DeliverPolicy, push};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures_util::StreamExt;

use super::connection::{NatsBucket, NatsError, from_client_error, no_answer};
use super::keys;
use crate::board::{BoardEntry, VersionToken};

/// Maximum number of changes that are fetched one by one; for more, a pass is cheaper.
const MAX_SINGLE_FETCHES: usize = 16;
/// Time limit for the next value of a pass.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);
/// How long changes alone are trusted: a value that a server drops by its own limits is not a change.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(600);
/// The header of a deleted value.
const DELETED_HEADER: &str = "KV-Operation";

/// The known values below a prefix.
#[derive(Debug)]
pub(super) struct BucketSnapshot {
    /// When the bucket was created.
    bucket_created: String,
    /// The number up to which everything is known.
    last: u64,
    /// When it was last read completely.
    full_read_at: Instant,
    /// By board key.
    pub(super) values: BTreeMap<String, BoardEntry>,
}

/// Everything below a prefix, based on the known values.
pub(super) async fn read(
    bucket: &NatsBucket,
    prefix: &str,
    before: Option<BucketSnapshot>,
) -> Result<BucketSnapshot, NatsError> {
    let info = bucket.store.stream.get_info().await.map_err(from_client_error)?;
    let (made, last) = (info.created.to_string(), info.state.last_sequence);
    let known = before.filter(|seen| {
        seen.bucket_created == made && seen.last <= last && seen.full_read_at.elapsed() < FULL_READ_INTERVAL
    });
    let Some(mut seen) = known else {
        let mut seen = BucketSnapshot {
            bucket_created: made,
            last: 0,
            full_read_at: Instant::now(),
            values: BTreeMap::new(),
        };
        read_stream(bucket, prefix, &mut seen, DeliverPolicy::LastPerSubject).await?;
        seen.last = seen.last.max(last);
        return Ok(seen);
    };
    for _ in 0..MAX_SINGLE_FETCHES {
        if seen.last >= last || !apply_next_change(bucket, prefix, &mut seen).await? {
            seen.last = seen.last.max(last);
            return Ok(seen);
        }
    }
    let policy = DeliverPolicy::ByStartSequence { start_sequence: seen.last + 1 };
    read_stream(bucket, prefix, &mut seen, policy).await?;
    seen.last = seen.last.max(last);
    Ok(seen)
}

fn bucket_subject(bucket: &NatsBucket, prefix: &str) -> String {
    format!("{}{}", bucket.store.prefix, keys::prefix_filter(prefix))
}

/// Reads the next change; false when there is none.
async fn apply_next_change(
    bucket: &NatsBucket,
    prefix: &str,
    seen: &mut BucketSnapshot,
) -> Result<bool, NatsError> {
    // The leader is asked: a replica may not have it yet.
    let asked = bucket
        .store
        .stream
        .raw_message_builder()
        .next_by_subject(bucket_subject(bucket, prefix))
        .sequence(seen.last + 1);
    match asked.send().await {
        Ok(message) => {
            let is_gone = message.headers.get(DELETED_HEADER).is_some();
            apply_message(
                bucket,
                prefix,
                seen,
                &message.subject,
                (message.sequence, &message.payload, is_gone),
            );
            Ok(true)
        }
        Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(false),
        Err(error) => Err(from_client_error(error)),
    }
}

/// Reads everything from a number on, as fast as the server sends it.
async fn read_stream(
    bucket: &NatsBucket,
    prefix: &str,
    seen: &mut BucketSnapshot,
    from: DeliverPolicy,
) -> Result<(), NatsError> {
    let config = push::OrderedConfig {
        deliver_subject: bucket.client.new_inbox(),
        filter_subject: bucket_subject(bucket, prefix),
        deliver_policy: from,
        ..Default::default()
    };
    let consumer = bucket.store.stream.create_consumer(config).await.map_err(from_client_error)?;
    if consumer.cached_info().num_pending == 0 {
        return Ok(());
    }
    let mut messages = consumer.messages().await.map_err(from_client_error)?;
    loop {
        let message = tokio::time::timeout(STALL_TIMEOUT, messages.next()).await.map_err(no_answer)?;
        let message =
            message.ok_or_else(|| no_answer("the server ended the list"))?.map_err(from_client_error)?;
        let info = message.info().map_err(no_answer)?;
        let (number, pending) = (info.stream_sequence, info.pending);
        let is_gone =
            message.headers.as_ref().and_then(|headers: &HeaderMap| headers.get(DELETED_HEADER)).is_some();
        apply_message(bucket, prefix, seen, &message.subject, (number, &message.payload, is_gone));
        if pending == 0 {
            return Ok(());
        }
    }
}

/// Processes one message: its number, its value, and whether it is a deletion.
fn apply_message(
    bucket: &NatsBucket,
    prefix: &str,
    seen: &mut BucketSnapshot,
    subject: &str,
    message: (u64, &[u8], bool),
) {
    let (number, value, is_gone) = message;
    seen.last = seen.last.max(number);
    let key = subject.strip_prefix(&bucket.store.prefix).and_then(keys::decode);
    // Other programs may store values in the bucket.
    let Some(key) = key.filter(|key| key.starts_with(prefix)) else { return };
    if is_gone {
        seen.values.remove(&key);
    } else {
        seen.values
            .insert(key, BoardEntry { value: value.to_vec(), token: VersionToken(number.to_string()) });
    }
}

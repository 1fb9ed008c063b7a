//! Event in, status of its commit for the API of a forge out.
//!
//! A revision that is no commit has no status: a directory, or the states of an image.

use serde_json::{Value, json};
use zagent_config::settings::WebhookKind;

use super::NotifyEvent;

/// What stands for the revision in the address of a webhook.
const PLACEHOLDER: &str = "{revision}";
/// Longest description that both forges take.
const MAX_DESCRIPTION: usize = 140;

/// The body of a status; none when the event is about no commit.
pub(crate) fn body(kind: WebhookKind, event: &NotifyEvent) -> Option<Value> {
    let is_commit = matches!(event.revision.len(), 40 | 64)
        && event.revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit {
        return None;
    }
    let success = event.run.as_ref().is_none_or(|run| run.success) && event.event != "rollback";
    let (name, description) = (format!("zagent/{}", event.node), description(event));
    Some(match (kind, success) {
        (WebhookKind::GitlabStatus, true) => {
            json!({"state": "success", "name": name, "description": description})
        }
        (WebhookKind::GitlabStatus, false) => {
            json!({"state": "failed", "name": name, "description": description})
        }
        (_, true) => json!({"state": "success", "context": name, "description": description}),
        (_, false) => json!({"state": "failure", "context": name, "description": description}),
    })
}

fn description(event: &NotifyEvent) -> String {
    let counts = event.run.as_ref().map(|run| {
        let tally = serde_json::to_value(run.counts).unwrap_or_default();
        let count = |word: &str| tally.get(word).and_then(Value::as_u64).unwrap_or_default();
        format!("{} changed, {} failed, {} unchanged", count("changed"), count("failed"), count("unchanged"))
    });
    let text = match (&event.message, counts) {
        (Some(message), Some(counts)) => format!("{counts}: {message}"),
        (Some(message), None) => message.clone(),
        (None, Some(counts)) => counts,
        (None, None) => event.event.to_owned(),
    };
    text.chars().take(MAX_DESCRIPTION).collect()
}

/// The address of a status: that of the webhook with the commit in it.
pub(crate) fn address(url: &str, event: &NotifyEvent) -> String {
    url.replace(PLACEHOLDER, &event.revision)
}

/// The header that carries the token.
pub(crate) fn token_header(kind: WebhookKind, token: &str) -> (&'static str, String) {
    match kind {
        WebhookKind::GitlabStatus => ("PRIVATE-TOKEN", token.to_owned()),
        _ => ("Authorization", format!("Bearer {token}")),
    }
}

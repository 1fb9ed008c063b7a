//! What the managing node and its agent on a resource say to each other: a JSON object per line, after a mark.
//!
//! Law: a line without the mark is not part of the conversation: shells, `sudo` and banners print what they like
//! (held by `a_line_is_only_read_behind_its_mark`).

use serde::{Deserialize, Serialize};
use zagent_config::Value;

/// Before every line that is meant for the other side.
pub const MARK: &str = "ZAGENT1";
/// The version of the conversation; both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// What the managing node asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum AgentRequest {
    /// All grains.
    Grains {
        /// The id of the resource.
        id: String,
    },
    /// The names of all functions.
    Functions,
    /// An execution function.
    Call {
        /// Its name.
        function: String,
        /// Positional arguments.
        args: Vec<Value>,
        /// Named arguments, as a mapping.
        kwargs: Value,
        /// True for one that may change the resource.
        mutating: bool,
        /// Whether templates may run commands of their own.
        commands: bool,
        /// How many seconds a program may take.
        program_timeout: u64,
    },
    /// A run of states; a [`RunPackage`](super::package::RunPackage) in Base64.
    Run {
        /// The package.
        package: String,
    },
    /// The answer to [`AgentReply::Need`]: the files in the same order, in Base64.
    Files {
        /// Their contents.
        contents: Vec<String>,
    },
    /// The answer to [`AgentReply::Read`].
    File {
        /// The content in Base64; none when there is no such file.
        content: Option<String>,
        /// Why it cannot be read.
        error: Option<String>,
    },
    /// Remove everything that zagent keeps on the resource, the agent included.
    Forget,
}

/// What the agent on a resource answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum AgentReply {
    /// It has started.
    Ready {
        /// Its version of the conversation.
        protocol: u32,
    },
    /// All grains.
    Grains {
        /// As a mapping.
        grains: Value,
    },
    /// The names of all functions.
    Functions {
        /// The names.
        names: Vec<String>,
    },
    /// What a function returned.
    Value {
        /// The value.
        value: Value,
    },
    /// Something failed.
    Failed {
        /// What kind of failure.
        kind: FailureKind,
        /// In words.
        message: String,
    },
    /// It does not have these files of the package yet.
    Need {
        /// Their digests.
        digests: Vec<String>,
    },
    /// It needs a file of the states that the package does not name.
    Read {
        /// The environment.
        env: String,
        /// The path.
        path: String,
    },
    /// A state has begun.
    Started {
        /// Its key.
        tag: String,
    },
    /// A state has ended.
    State {
        /// Its outcome, as the history stores it.
        outcome: serde_json::Value,
    },
    /// The run is over.
    Ended {
        /// True when it was stopped.
        canceled: bool,
    },
    /// Everything is removed.
    Forgotten,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// There is no such function.
    Unknown,
    /// It is forbidden here.
    Forbidden,
    /// It failed.
    Failed,
}

/// A message as one line.
#[must_use]
pub fn to_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = format!("{MARK} ").into_bytes();
    // Keys are strings and numbers are finite or null, so JSON can hold everything.
    line.extend(serde_json::to_vec(message).unwrap_or_default());
    line.push(b'\n');
    line
}

/// The part of a line that is meant for us; `None` for what others printed.
#[must_use]
pub fn after_mark(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.strip_prefix(MARK.as_bytes())?.strip_prefix(b" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_only_read_behind_its_mark() {
        let line = to_line(&AgentReply::Ready { protocol: PROTOCOL });
        let text = String::from_utf8(line.clone()).unwrap();
        assert_eq!(text, "ZAGENT1 {\"say\":\"ready\",\"protocol\":1}\n");
        let body = after_mark(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert!(matches!(serde_json::from_slice(body).unwrap(), AgentReply::Ready { protocol: 1 }));
        assert_eq!(after_mark(b"ZAGENT1 need Linux-x86_64\r"), Some(&b"need Linux-x86_64"[..]));
        for other in ["", "Welcome", "hunter2", " ZAGENT1 x", "ZAGENT12 x", "ZAGENT1"] {
            assert_eq!(after_mark(other.as_bytes()), None, "{other}");
        }
    }
}

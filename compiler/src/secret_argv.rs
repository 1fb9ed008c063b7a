//! Chunks in, a warning for each command line with a secret out: every user of a host can read command lines.

use zagent_config::codes::function as codes;
use zagent_config::mask::Secret;
use zagent_config::{Diagnostic, SecretMask, Value};

use crate::lower::LoweredChunk;
use crate::plan::Chunk;
use crate::session::CompileSession;

/// Arguments of every state that are command lines.
const GUARDS: [&str; 3] = ["onlyif", "unless", "check_cmd"];

/// Arguments of `cmd` and `exec` that are command lines or parts of one.
const COMMANDS: [&str; 3] = ["args", "command", "stateful"];

/// One warning per chunk whose command line holds a secret.
pub(crate) fn check(
    session: &CompileSession,
    lowered: &[LoweredChunk],
    secrets: &[Secret],
) -> Vec<Diagnostic> {
    let mask = SecretMask::new(secrets);
    if mask.is_empty() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for one in lowered {
        let Some(argument) = secret_argument(&one.chunk, &mask) else { continue };
        let (state, fun) = (&one.chunk.state, &one.chunk.fun);
        let text = format!("`{argument}` of `{state}.{fun}` puts a secret into a command line");
        let hint = if &**state == "exec" {
            "pass it with `stdin`, or with `environment` and let the program read the variable"
        } else {
            "pass it with `stdin`, or with `env` and let the program read the variable"
        };
        warnings.push(session.diagnostic(codes::SECRET_IN_ARGV, one.spot, text).hint(hint));
    }
    warnings
}

/// The argument that is a command line with a secret.
fn secret_argument<'c>(chunk: &'c Chunk, mask: &SecretMask) -> Option<&'c str> {
    let is_command = matches!(&*chunk.state, "cmd" | "exec");
    let holds = |key: &&str| chunk.args.get(key).is_some_and(|value| finds_in_line(mask, value));
    if is_command && finds_in_line(mask, &chunk.name) {
        return Some("name");
    }
    COMMANDS.into_iter().filter(|_| is_command).chain(GUARDS).find(holds)
}

/// True when a command line holds a secret. A mapping among the guards is a call of a function: no command line.
fn finds_in_line(mask: &SecretMask, value: &Value) -> bool {
    match value {
        Value::List(list) => list.iter().any(|item| finds_in_line(mask, item)),
        Value::Map(map) => map.get("test_name").is_some_and(|name| mask.finds_in(name)),
        other => mask.finds_in(other),
    }
}

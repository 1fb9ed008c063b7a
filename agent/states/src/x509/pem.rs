//! A PEM as somebody wrote it in, the PEM with lines as they should be out.

use zagent_config::FunctionError;

use super::extension::fail;

/// Characters of a line.
const LINE: usize = 64;

/// The first block of a text, of a kind or of any; in order.
pub(super) fn pem_entry(text: &str, kind: Option<&str>) -> Result<String, FunctionError> {
    let text = text.replace("\\n", "\n");
    let invalid = || {
        fail(&match kind {
            Some(kind) => format!("PEM does not contain a single entry of type {kind}:\n{text}"),
            None => format!("PEM text not valid:\n{text}"),
        })
    };
    let mut rest = text.as_str();
    while let Some(at) = rest.find("-----BEGIN ") {
        let after = &rest[at + "-----BEGIN ".len()..];
        let Some((label, body)) = after.split_once("-----") else { break };
        let end = format!("-----END {label}-----");
        if kind.is_none_or(|kind| kind == label)
            && let Some((body, _)) = body.split_once(&end)
        {
            return Ok(ordered(label, body));
        }
        rest = after;
    }
    Err(invalid())
}

fn ordered(label: &str, body: &str) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let is_header = |line: &&str| line.contains(':');
    for line in body.lines().map(str::trim).filter(is_header) {
        out += line;
        out.push('\n');
        if line.starts_with("DEK-Info:") {
            out.push('\n');
        }
    }
    let plain: String = body.lines().filter(|l| !l.contains(':')).flat_map(str::split_whitespace).collect();
    for line in plain.as_bytes().chunks(LINE) {
        out += &String::from_utf8_lossy(line);
        out.push('\n');
    }
    out + "-----END " + label + "-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_put_in_order() {
        let want = "-----BEGIN A-----\nabcd\n-----END A-----\n";
        for given in [
            "-----BEGIN A-----\n  ab\n  cd\n-----END A-----",
            "-----BEGIN A-----abcd-----END A-----",
            "-----BEGIN A-----\\nabcd\\n-----END A-----",
            "x\n-----BEGIN A-----\nabcd\n-----END A-----\n-----BEGIN B-----\nq\n-----END B-----",
        ] {
            assert_eq!(pem_entry(given, None).unwrap(), want);
        }
        assert!(pem_entry("nothing", None).is_err() && pem_entry(want, Some("B")).is_err());
    }
}

//! A question over HTTP in, the answer out, as the states and functions of the module `http` see it.
//!
//! Law: an answer with a bad status is an answer. Passwords stand in headers, never in words (held by
//! `answers_are_judged_in_the_words_of_salt`, `what_is_sent`).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::http_request::{HttpRequest, agent_config, tls_config};

/// How long one question may take when nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer that are kept.
const MAX_RESPONSE_BYTES: u64 = 16 << 20;

/// What was answered.
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// The status; nothing when there was no answer at all.
    pub status: Option<u16>,
    /// Text of the answer.
    pub body: String,
    /// Headers of the answer, by name.
    pub headers: Map,
    /// Why there was none.
    pub error: Option<String>,
}

/// Asks, with Salt's options: `method`, `params`, `data`, `header_dict`, `header_list`, `username`, `password`, `verify_ssl`,
/// `timeout`, `agent`.
///
/// # Errors
/// Fails when the options cannot be understood.
pub fn query(url: &str, options: &Map) -> Result<HttpResponse, String> {
    let text = |key: &str| options.get(key).filter(|v| !v.is_null()).map(python_str);
    let timeout = options.get("timeout").and_then(Value::as_number);
    let timeout = timeout.and_then(|t| Duration::try_from_secs_f64(t).ok()).unwrap_or(DEFAULT_TIMEOUT);
    let verify = options.get("verify_ssl").is_none_or(Value::is_truthy);
    let mut config = agent_config().tls_config(tls_config(verify));
    if let Some(name) = text("agent") {
        config = config.user_agent(name);
    }
    let method = text("method").unwrap_or_else(|| "GET".into()).to_uppercase();
    let mut address = url.to_owned();
    if let Some(params) = options.get("params").and_then(Value::as_map) {
        address += if address.contains('?') { "&" } else { "?" };
        address += &encode_form(params);
    }
    let mut headers = request_headers(options);
    if let Some(user) = text("username") {
        let login = STANDARD.encode(format!("{user}:{}", text("password").unwrap_or_default()));
        headers.push(("authorization".into(), format!("Basic {login}")));
    }
    let (data, is_form) = match options.get("data").filter(|v| !v.is_null()) {
        Some(Value::Map(map)) => (encode_form(map), true),
        Some(other) => (python_str(other), false),
        None => (String::new(), false),
    };
    if is_form {
        headers.push(("content-type".into(), "application/x-www-form-urlencoded".into()));
    }
    let body = matches!(method.as_str(), "POST" | "PUT" | "PATCH").then(|| data.into_bytes());
    let request = HttpRequest { method, url: address, headers, body };
    let answer = request.send(&ureq::Agent::new_with_config(config.build()), timeout);
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Ok(HttpResponse { error: Some(error), ..HttpResponse::default() }),
    };
    let body = answer.body_mut().with_config().limit(MAX_RESPONSE_BYTES).lossy_utf8(true).read_to_string();
    let (text, error) = match body {
        Ok(text) => (text, None),
        Err(error) => (String::new(), Some(error.to_string())),
    };
    let headers = answer.headers().iter().map(|(name, value)| {
        (Value::from(name.as_str()), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    Ok(HttpResponse { status: Some(answer.status().as_u16()), headers: headers.collect(), body: text, error })
}

/// True for a method that only reads.
pub fn is_read_only(method: &Value) -> bool {
    let looks = ["GET", "HEAD", "OPTIONS"];
    method.is_null() || method.as_str().is_some_and(|m| looks.iter().any(|l| l.eq_ignore_ascii_case(m)))
}

/// Headers, of a mapping or of a list of lines.
fn request_headers(options: &Map) -> Vec<(String, String)> {
    let map = options.get("header_dict").or_else(|| options.get("headers")).and_then(Value::as_map);
    let pairs = map.into_iter().flat_map(Map::iter).map(|(k, v)| (k.json_key(), python_str(v)));
    let lines = options.get("header_list").and_then(Value::as_list);
    let lines = lines.into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str);
    pairs
        .chain(lines.filter_map(|l| l.split_once(':')).map(|(k, v)| (k.trim().into(), v.trim().into())))
        .collect()
}

/// `a=1&b=2`, with all that would be misread escaped.
fn encode_form(map: &Map) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|b| match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    char::from(b).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    map.iter()
        .map(|(k, v)| format!("{}={}", escape(&k.json_key()), escape(&python_str(v))))
        .collect::<Vec<_>>()
        .join("&")
}

/// What is wrong with an answer, when something is; in Salt's words either way.
pub fn check_response(answer: &HttpResponse, asked: &Map) -> Result<String, String> {
    let get = |key: &str| asked.get(key).filter(|v| !v.is_null());
    let kind = |key: &str| get(key).and_then(Value::as_str).unwrap_or("string").to_owned();
    let search = |pattern: &str, text: &str| {
        let found = fancy_regex::Regex::new(pattern).map(|r| r.is_match(text).unwrap_or(false));
        found.map_err(|e| format!("`{pattern}` is no regular expression: {e}"))
    };
    let (mut output, mut fine) = (Vec::new(), true);
    if let Some(wanted) = get("match").map(python_str) {
        let (what, found) = match kind("match_type").as_str() {
            "pcre" => ("pattern", search(&wanted, &answer.body)?),
            _ => ("text", answer.body.contains(&wanted)),
        };
        output.push(format!("Match {what} \"{wanted}\" was {}found.", if found { "" } else { "not " }));
        fine &= found;
    }
    if let Some(wanted) = get("status") {
        let status = answer.status.map(|s| s.to_string()).unwrap_or_default();
        let (words, found) = match (kind("status_type").as_str(), wanted) {
            ("list", Value::List(list)) | (_, Value::List(list)) => {
                match list.iter().map(python_str).find(|s| *s == status) {
                    Some(one) => (format!("Status {one} was found."), true),
                    None => (format!("Statuses {} were not found.", python_str(wanted)), false),
                }
            }
            (kind, wanted) => {
                let wanted = python_str(wanted);
                let is_pattern = kind == "pcre";
                let found = if is_pattern { search(&wanted, &status)? } else { wanted == status };
                let what = if is_pattern { format!("pattern \"{wanted}\"") } else { wanted };
                (format!("Status {what} was {}found.", if found { "" } else { "not " }), found)
            }
        };
        output.push(words);
        fine &= found;
    }
    if let Some(error) = &answer.error {
        output.push(error.clone());
    }
    let output = output.join(" ");
    if fine { Ok(output) } else { Err(output) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: &str) -> Map {
        Value::from_json_str(json).unwrap().as_map().cloned().unwrap()
    }

    #[test]
    fn answers_are_judged_in_the_words_of_salt() {
        let answer =
            HttpResponse { status: Some(200), body: "all is well".into(), ..HttpResponse::default() };
        for (asked, want) in [
            (r#"{"status": 200}"#, Ok("Status 200 was found.")),
            (r#"{"status": "2..", "status_type": "pcre"}"#, Ok("Status pattern \"2..\" was found.")),
            (r#"{"status": [201, 202], "status_type": "list"}"#, Err("Statuses [201, 202] were not found.")),
            (r#"{"match": "well"}"#, Ok("Match text \"well\" was found.")),
            (
                r#"{"match": "^x", "match_type": "pcre", "status": 200}"#,
                Err("Match pattern \"^x\" was not found. Status 200 was found."),
            ),
        ] {
            let got = check_response(&answer, &map(asked));
            assert_eq!(got.as_ref().map(String::as_str).map_err(String::as_str), want, "{asked}");
        }
    }

    #[test]
    fn what_is_sent() {
        assert_eq!(encode_form(&map(r#"{"a": "x y", "b": 1}"#)), "a=x%20y&b=1");
        let sent = request_headers(&map(r#"{"header_dict": {"A": "1"}, "header_list": ["B: 2:3"]}"#));
        assert_eq!(sent, [("A".into(), "1".into()), ("B".into(), "2:3".into())]);
    }
}

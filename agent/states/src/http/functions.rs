//! `http.*`: an address in, its answer as Salt shows it out.

#![expect(clippy::disallowed_methods, reason = "`http.wait_for_successful_query` has a deadline")]

use std::time::{Duration, Instant};

use zagent_compiler::FunctionCall;
use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{ExecFunction, change_fn, text_arg};
use zagent_host::http_client;

/// The execution functions of `http`.
pub(crate) const TABLE: &[ExecFunction] = &[
    change_fn("http.query", "url **", |_, a| http_query(a, 0.0)),
    change_fn("http.wait_for_successful_query", "url wait_for? **", |_, a| {
        http_query(a, a.get("wait_for").and_then(Value::as_number).unwrap_or(300.0))
    }),
];

/// True when a call of a function that may act only looks: a query whose method changes nothing at the other end.
pub(crate) fn is_read_only_call(call: &FunctionCall) -> bool {
    call.function.starts_with("http.") && call.kwargs.get("method").is_none_or(http_client::is_read_only)
}

/// The named arguments of a call, with those of its signature.
fn named_args(args: &FunctionArgs<Value>) -> Map {
    args.named().iter().map(|(k, v)| (Value::from(k.as_str()), v.clone())).collect()
}

/// The time between two questions.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

fn is_enabled(options: &Map, name: &str) -> bool {
    options.get(name).is_some_and(Value::is_truthy)
}

/// Asks an address; waits for a good answer when there is time.
fn http_query(args: &FunctionArgs<Value>, wait: f64) -> Result<Value, FunctionError> {
    let (url, options) = (text_arg(args, "url")?, named_args(args));
    let wait = Duration::try_from_secs_f64(wait).unwrap_or_default();
    let end = Instant::now() + wait;
    loop {
        let answer = http_client::query(url, &options).map_err(FunctionError::failed)?;
        let is_good = answer.status.is_some_and(|s| s < 400);
        if !is_good && Instant::now() + RETRY_INTERVAL < end {
            zagent_host::CancelToken::new().wait(RETRY_INTERVAL);
            continue;
        }
        let mut output = Map::new();
        if is_enabled(&options, "status") {
            output.insert("status", answer.status.map_or(Value::Null, |s| Value::Int(s.into())));
        }
        if is_enabled(&options, "headers") {
            output.insert("headers", answer.headers);
        }
        match answer.error {
            Some(error) => _ = output.insert("error", error),
            None if !is_good => {
                _ = output.insert("error", format!("HTTP {}", answer.status.unwrap_or_default()));
            }
            None => {}
        }
        output.insert("body", answer.body.as_str());
        if is_enabled(&options, "decode")
            && let Ok(value) = Value::from_json_str(&answer.body)
        {
            output.insert("dict", value);
        }
        return Ok(output.into());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::SampleMachine;

    #[test]
    fn templates_ask_but_do_not_post() {
        let sample = SampleMachine::new();
        let call = |method: &str| {
            let args = format!(r#"["http://127.0.0.1:1/", "**", {{"method": "{method}", "timeout": 5}}]"#);
            sample.call("http.query", &args)
        };
        assert!(call("POST").starts_with("forbidden: "), "{}", call("POST"));
        assert!(call("delete").starts_with("forbidden: "));
        assert!(call("head").contains(r#""error":"#), "{}", call("head"));
        assert!(sample.call("http.query", r#"["http://127.0.0.1:1/"]"#).contains(r#""error":"#));
    }
}

//! External pillars and tops: executables that print YAML or JSON.

use zagent_config::Value;

use zagent_host::Machine;
use zagent_host::exec::{ExecCommand, error_message};

/// Runs one executable: the node's id is its last argument, `input` is JSON on its standard input.
pub(crate) fn run_external(
    machine: &Machine,
    argv: &[String],
    id: &str,
    input: &Value,
) -> Result<Value, String> {
    let (program, args) = argv.split_first().ok_or("an external program has an empty command line")?;
    let mut command = ExecCommand::new(program).args(args.iter().map(String::as_str).chain([id]));
    command.timeout = Some(machine.timeout);
    command.output_cap = 16 << 20;
    command.stdin = serde_json::to_vec(input).map_err(|e| format!("cannot write the pillar as JSON: {e}"))?;
    let outcome = machine.run(&command).map_err(|e| error_message(&e))?;
    if !outcome.success() {
        let output = String::from_utf8_lossy(&outcome.stderr);
        let last = output.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
        return Err(format!("`{program}` ended with code {}: {last}", outcome.shell_code()));
    }
    if outcome.truncated {
        return Err(format!("`{program}` printed more than {} bytes", command.output_cap));
    }
    let text = String::from_utf8_lossy(&outcome.stdout);
    if text.trim().is_empty() {
        return Ok(Value::empty_map());
    }
    match zagent_compiler::yaml::load(&text, &zagent_compiler::TreeLimits::default()) {
        Ok(Value::Null) => Ok(Value::empty_map()),
        Ok(map @ Value::Map(_)) => Ok(map),
        Ok(other) => Err(format!("`{program}` printed {}, not a mapping", other.kind())),
        Err(e) => Err(format!("`{program}` printed what is not YAML: line {}: {}", e.pos.line, e.message)),
    }
}

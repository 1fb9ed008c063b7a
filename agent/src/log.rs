//! What the program has to say about itself while it works: to stderr, never data, never secrets.

use tracing::level_filters::LevelFilter;

/// From now on, warnings go to stderr; with `-v` also what is done, with `-vv` every command.
pub fn start() {
    let level = match verbosity(std::env::args().skip(1)) {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().with_target(false);
    // Somebody else may have started it; then that one counts.
    let _ = log.with_max_level(level).try_init();
}

/// How often `-v` is asked for.
fn verbosity(args: impl Iterator<Item = String>) -> usize {
    args.take_while(|arg| arg != "--")
        .map(|arg| match arg.strip_prefix('-') {
            Some("-verbose") => 1,
            Some(short) if !short.is_empty() && short.bytes().all(|b| b == b'v') => short.len(),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::verbosity;

    #[test]
    fn every_way_to_ask_for_more_counts() {
        let count = |line: &str| verbosity(line.split_whitespace().map(str::to_owned));
        let table =
            [("run --once", 0), ("-v run", 1), ("run -vv", 2), ("--verbose run -v", 2), ("run -- -v", 0)];
        for (line, expected) in table {
            assert_eq!(count(line), expected, "{line}");
        }
    }
}

//! The program: passes its arguments to the library and its exit code to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    zagent::log::init();
    zagent::cli::main()
}

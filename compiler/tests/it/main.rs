//! The tests of the compiler, in one binary: `cargo test -p zagent-compiler --test it yaml::` runs one suite.

mod jinja;
mod jinja_values;
mod yaml;

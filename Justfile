# Every step of CI has a recipe here.

# The target of this machine, and the program that `just dist` builds for it.
host := `rustc -vV | sed -n 's/^host: //p'`
shipped := 'target' / host / 'dist/zagent'

# List the recipes.
default:
    @just --list

# Format and lints.
check:
    cargo fmt --all --check
    cargo fmt --manifest-path tests/bench/Cargo.toml --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy --locked --manifest-path tests/bench/Cargo.toml --target-dir target/bench -- -D warnings

# All tests.
test *args:
    cargo test --workspace {{ args }}

# Accept the current output as golden files; review `git diff` afterwards.
golden:
    INSTA_UPDATE=always cargo test --workspace

# Write the state reference of the book from the schema.
docs-reference:
    INSTA_UPDATE=always cargo test -p zagent-tests --test it reference::

# The corpus of trees with Salt's results; `area` filters it.
corpus area='':
    cargo test -p zagent-tests --test it corpus::{{ area }}

# New inputs for every fuzz target, `seconds` per target.
fuzz seconds='60':
    FUZZ_SECONDS={{ seconds }} cargo test -p zagent-tests --test it fuzz::

# Kills, bit flips, idle turns, damaged and large packs, in the numbers that we claim.
faults:
    IDLE_TURNS=100 cargo test -p zagent-cache --test idle --test disk_full
    CRASH_POINTS=1000 FLIPS=100000 PACK_CASES=1000 PACK_MB=100 cargo test -p zagent-cache --test it -- crash:: flip:: source::packs source::bombs

# Full disks: every place, command and amount of free space; needs root.
full-disk:
    FULL_DISK=all cargo test -p zagent --test it -- full_disk:: --nocapture

# A hundred thousand histories of fleets on virtual time, and one fleet of ten thousand nodes; SEED=N repeats one history.
fleets histories='100000' nodes='10000':
    HISTORIES={{ histories }} NODES={{ nodes }} cargo test -p zagent-tests --test it -- fleet:: --nocapture

# Predictions of `--test` against the runs that follow, on random trees with failing commands, guards and every requisite;
# SEED=N repeats one tree.
honesty trees='1500':
    TREES={{ trees }} cargo test -p zagent-tests --test it -- honesty:: --nocapture

# The schedule `declared` against `ordered`: the same results and hosts on 1000 random trees, and the time of both.
schedules pairs='1000' files='3000':
    PAIRS={{ pairs }} FILES={{ files }} cargo test -p zagent-tests --test it -- converge::declared --nocapture

# Licences, sources and the allowed dependencies between crates.
deps:
    cargo deny check bans licenses sources
    cargo test -p zagent-tests --test it direction::

# Known vulnerabilities in the dependencies; needs the network.
advisories:
    cargo deny check advisories

# The shipped program beside `floor`, `phys` and installed peers; writes docs/src/performance.md and its plot. `just dist` first.
bench rounds='9' program=shipped: bench-program
    target/bench/release/zagent-bench run {{ program }} {{ rounds }} docs/src/performance.md

# The same ratios against their limits; writes nothing.
bench-check rounds='5' program=shipped: bench-program
    target/bench/release/zagent-bench check {{ program }} {{ rounds }}

[private]
bench-program:
    cargo build --release --locked --manifest-path tests/bench/Cargo.toml --target-dir target/bench

# CPU time of compiling 5000 and 50 000 states.
bench-compile:
    cargo test --release -p zagent-tests --test it -- speed:: --nocapture

# The program that we ship, for the C library of this machine; about ten minutes.
dist:
    dist/build {{ host }}

# Packages of the static program in target/packages: .deb, .rpm, tarball; needs cargo-deb and cargo-generate-rpm.
packages *args:
    dist/package {{ args }}

# Sample pages in headless Chromium: policy, width, search, axe-core; needs chromium and npm.
pages shots='target/pages/shots':
    rm -rf target/pages && mkdir -p {{ shots }}
    PAGES_DIR=$PWD/target/pages cargo test -p zagent-daemon -p zagent --lib -- sample_pages sample_sites
    cd tests/pages && npm install --no-audit --no-fund --ignore-scripts
    node tests/pages/check.mjs target/pages {{ shots }}

# Build the book.
book:
    mdbook build docs

# Install the program, its units and a sample configuration on this host; keeps an existing configuration.
install destdir='':
    cargo build --release --locked
    install -D -m 0755 target/release/zagent {{ destdir }}/usr/bin/zagent
    install -D -m 0644 -t {{ destdir }}/usr/lib/systemd/system dist/systemd/*
    test -e {{ destdir }}/etc/zagent/zagent.yaml || install -D -m 0644 dist/zagent.yaml {{ destdir }}/etc/zagent/zagent.yaml

# The agent on a Debian with real systemd; needs root.
nspawn *args:
    SUITES=container .ci/nspawn {{ args }}

# All container suites: the daemon, every state function, all package and service managers, hosts in trouble, and formulas if
# FORMULAS is set.
containers:
    .ci/nspawn
    test -z "${FORMULAS:-}" || just formulas

# Every state function in a container; `just matrix pkg,cron` selects files of tests/matrix.
matrix files='':
    MATRIX={{ files }} SUITES=matrix .ci/nspawn

# The same, and write its table in the book.
docs-matrix:
    MATRIX_PAGE=$PWD/docs/src/states-matrix.md SUITES=matrix .ci/nspawn

# Hosts in trouble: locks, full disks, killed programs.
hardship *args:
    SUITES=hardship .ci/nspawn {{ args }}

# Real dnf, zypper, pacman, OpenRC and init scripts.
providers *args:
    SUITES=providers .ci/nspawn {{ args }}

# Apply the formulas below FORMULAS=DIR with zagent and with Salt from the virtualenv SALT=DIR, and write their table in the book;
# the results of Salt are kept in TWINS=DIR. `just formulas nginx,vim` selects formulas and does not write the book.
formulas names='':
    FORMULA={{ names }} TWINS="${TWINS:-$PWD/target/nspawn/twins}" \
        FORMULAS_PAGE={{ if names == '' { "$PWD/docs/src/formulas.md" } else { '' } }} SUITES=formulas .ci/nspawn

# What CI runs.
ci:
    .ci/run

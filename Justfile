# Everything that CI does is a recipe here.

# List the recipes.
default:
    @just --list

# Format and lints.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# All tests.
test *args:
    cargo test --workspace {{ args }}

# Accept the golden files as they come out now; look at `git diff` afterwards.
golden:
    INSTA_UPDATE=always cargo test --workspace

# The pages of the book about states, written from the schema.
docs-reference:
    INSTA_UPDATE=always cargo test -p zagent-tests --test reference

# The corpus of trees that Salt compiled; a filter names an area.
corpus area='':
    cargo test -p zagent-tests --test corpus {{ area }}

# New inputs for every fuzz target, so many seconds each.
fuzz seconds='60':
    FUZZ_SECONDS={{ seconds }} cargo test -p zagent-tests --test fuzz

# Kills, flips, idle turns and damaged packs, as many as we claim.
faults:
    CRASH_POINTS=1000 FLIPS=100000 IDLE_TURNS=100 cargo test -p zagent-cache --test crash --test flip --test idle
    PACK_CASES=1000 cargo test -p zagent-cache --test source packs

# A hundred thousand histories of fleets on virtual time, and ten thousand nodes in one; SEED=N plays one again.
fleets histories='100000' nodes='10000':
    HISTORIES={{ histories }} NODES={{ nodes }} cargo test -p zagent-tests --test fleet -- --nocapture

# Licences, sources and which crate may name which.
deps:
    cargo deny check bans licenses sources
    cargo test -p zagent-tests --test direction

# Known vulnerabilities in what we use; needs the network.
advisories:
    cargo deny check advisories

# CPU time of a compile of 5000 and 50 000 states.
bench:
    cargo test --release -p zagent-tests --test speed -- --nocapture

# The order of functions in the program, so that a waiting daemon takes little memory; needs valgrind.
layout:
    .ci/layout

# The book.
book:
    mdbook build docs

# The program, its units and a sample configuration on this host; a configuration that is there stays.
install destdir='':
    cargo build --release --locked
    install -D -m 0755 target/release/zagent {{ destdir }}/usr/bin/zagent
    install -D -m 0644 -t {{ destdir }}/usr/lib/systemd/system dist/systemd/*
    test -e {{ destdir }}/etc/zagent/zagent.yaml || install -D -m 0644 dist/zagent.yaml {{ destdir }}/etc/zagent/zagent.yaml

# The agent on a Debian with real systemd; needs root.
nspawn *args:
    SUITES=container .ci/nspawn {{ args }}

# Everything that runs in containers: the daemon, every state function, managers of all kinds, hosts in trouble, and formulas when
# FORMULAS names them.
containers:
    .ci/nspawn
    test -z "${FORMULAS:-}" || just formulas

# Every state function in a container; `just matrix pkg,cron` takes some files of tests/matrix.
matrix files='':
    MATRIX={{ files }} SUITES=matrix .ci/nspawn

# The same, and its table in the book.
docs-matrix:
    MATRIX_PAGE=$PWD/docs/src/states-matrix.md SUITES=matrix .ci/nspawn

# Hosts in trouble: locks, full disks, killed programs.
hardship *args:
    SUITES=hardship .ci/nspawn {{ args }}

# dnf, zypper, pacman, OpenRC and init scripts, for real.
providers *args:
    SUITES=providers .ci/nspawn {{ args }}

# Formulas below FORMULAS=DIR, by zagent and by the Salt of the virtualenv SALT=DIR, and their table in the book; what Salt
# leaves is kept in TWINS=DIR. `just formulas nginx,vim` takes some, and leaves the book alone.
formulas names='':
    FORMULA={{ names }} TWINS="${TWINS:-$PWD/target/nspawn/twins}" \
        FORMULAS_PAGE={{ if names == '' { "$PWD/docs/src/formulas.md" } else { '' } }} SUITES=formulas .ci/nspawn

# What CI runs.
ci:
    .ci/run

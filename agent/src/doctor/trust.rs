//! Trust: the keys, and what the settings leave unprotected.

use zagent_cache::Cache;
use zagent_cache::trust::{AllowedSigners, RecordTrust};
use zagent_config::error_chain;
use zagent_config::settings::{FollowMode, RequiredSignatures, Settings, UnsignedRef};
use zagent_daemon::trust_warnings;

use super::files::{FileProtection, check_file};
use super::{DoctorFinding, DoctorScope, has_program};

const CHECK: &str = "trust";

pub(super) fn check_trust(settings: &Settings, scope: &DoctorScope) -> Vec<DoctorFinding> {
    let mut findings = match settings.trust.require {
        RequiredSignatures::None => check_unsigned(settings),
        _ => check_signed(settings),
    };
    findings.extend(check_expiry(settings, scope));
    findings
}

/// What it means that nothing need be signed.
fn check_unsigned(settings: &Settings) -> Vec<DoctorFinding> {
    let hint = "set `trust.require: manifest` and list keys in `trust.allowed_signers`; `zagent init` creates a \
                repository that signs";
    let message = "signatures are not required: anyone who can push to the repository controls this host";
    let mut findings = vec![DoctorFinding::warn(CHECK, message, hint)];
    // The first one says the same.
    for warning in trust_warnings::unsigned_warnings(settings).into_iter().skip(1) {
        findings.push(DoctorFinding::warn(
            CHECK,
            warning,
            "require signatures: then these refs are protected too",
        ));
    }
    let ignored = !settings.trust.uses(UnsignedRef::Rollout);
    if ignored && settings.rollout.follow == FollowMode::Rollouts {
        let message = "`rollout.follow: rollouts` waits for rollouts, which are ignored without signatures";
        let hint = "require signatures, or list `rollout` in `trust.unsigned_refs`";
        findings.push(DoctorFinding::fail(CHECK, message, hint));
    }
    findings
}

/// The keys that signatures are checked against, and what the required signatures do not cover.
fn check_signed(settings: &Settings) -> Vec<DoctorFinding> {
    let trust = &settings.trust;
    let shown = trust.allowed_signers.display();
    let mut findings = vec![match AllowedSigners::read(trust) {
        Ok(_) => DoctorFinding::ok(CHECK, format!("{shown} is readable, and others cannot write to it")),
        Err(e) => {
            let hint = "write one line per key: PRINCIPAL namespaces=\"git,zagent-manifest\" ssh-ed25519 \
                        AAAA…; root:root, 0644";
            DoctorFinding::fail(CHECK, error_chain(&e), hint)
        }
    }];
    if let Some(keyring) = &trust.openpgp_keyring {
        findings.push(check_file(CHECK, keyring, FileProtection::Trusted));
        if !has_program("gpgv") {
            let message = "`trust.openpgp_keyring` is set, but gpgv is not installed";
            findings.push(DoctorFinding::fail(CHECK, message, "install gpgv"));
        }
    }
    findings.extend(check_record_keys(settings));
    if trust.require == RequiredSignatures::Commit {
        let message = "`trust.require: commit` does not cover the branch: a commit signature does not say which \
                       repository or branch it is for, so anyone who can push can offer a signed work-in-progress \
                       commit as the followed branch or as `testing/<node>`";
        let hint =
            "set `trust.require: both` or `manifest`: a manifest says what it is for (zagent manifest write)";
        findings.push(DoctorFinding::warn(CHECK, message, hint));
    }
    findings.push(check_first_contact(settings));
    findings
}

/// The keys of rollout records are not the keys of states.
fn check_record_keys(settings: &Settings) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if let (Some(path), Some(records)) =
        (&settings.rollout.allowed_signers, RecordTrust::from_settings(settings))
    {
        findings.push(match records.signers() {
            Ok(_) => {
                DoctorFinding::ok(CHECK, format!("{} names the signers of rollout records", path.display()))
            }
            Err(e) => DoctorFinding::fail(CHECK, error_chain(&e), e.hint()),
        });
    }
    let shared = trust_warnings::shared_keys(settings);
    if !shared.is_empty() {
        let message =
            format!("one key, two purposes: {} can sign rollout records and also states", shared.join(", "));
        let hint = "give drivers keys of their own (`rollout.key`), list those in `rollout.allowed_signers`, and remove \
                    them from `trust.allowed_signers`; or give every line there namespaces=\"git,zagent-manifest\" or \
                    namespaces=\"zagent-record\"";
        findings.push(DoctorFinding::warn(CHECK, message, hint));
    }
    findings
}

/// Whether the first revision is, or was, trusted on first use.
fn check_first_contact(settings: &Settings) -> DoctorFinding {
    let (first, paths) = (&settings.trust.first, settings.paths());
    if !first.is_unknown() {
        return DoctorFinding::ok(
            CHECK,
            "`trust.first` pins the first revision, also after the root is wiped",
        );
    }
    // Opening a cache creates its directories, and a check changes nothing.
    let accepted = paths.floor().exists() || paths.floor_copy().exists();
    if accepted {
        let message = "the first revision was trusted on first use; it will be again if the root directory is wiped, \
                       unless `trust.first` pins it";
        return DoctorFinding::ok(CHECK, message);
    }
    let message = "this node has accepted nothing yet: it will trust the first revision that is signed, however old it is";
    let hint = "set `trust.first: {serial: N}` to the serial of the present manifest, or `trust.first: {commit: ID}`";
    DoctorFinding::warn(CHECK, message, hint)
}

fn check_expiry(settings: &Settings, scope: &DoctorScope) -> Option<DoctorFinding> {
    let paths = settings.paths();
    if !paths.generations().is_dir() {
        return None;
    }
    let current = Cache::open(&paths, &settings.source).and_then(|cache| cache.current()).ok()??;
    let expires = current.record().expires;
    let message = trust_warnings::expiry_warning(expires, scope.now)?;
    let hint = "write and sign a new manifest: zagent manifest write --expires 30d";
    Some(if expires.is_some_and(|expires| expires <= scope.now) {
        DoctorFinding::fail(CHECK, message, hint)
    } else {
        DoctorFinding::warn(CHECK, message, hint)
    })
}

//! Settings, or the end of a manifest, in; what an operator should know about trust out. Only [`shared_keys`] reads files.

use std::time::Duration;

use jiff::Timestamp;
use zagent_cache::source::DirSource;
use zagent_cache::trust::RecordTrust;
use zagent_config::settings::defaults::EXPIRY_WARNING;
use zagent_config::settings::{RemoteSettings, RequiredSignatures, Settings, UnsignedRef};

/// What is not protected because nothing need be signed; empty when signatures are required or nothing is followed.
#[must_use]
pub fn unsigned_warnings(settings: &Settings) -> Vec<String> {
    let trust = &settings.trust;
    let is_git = |remote: &&RemoteSettings| {
        !DirSource::is_plain_dir(remote.url.strip_prefix("file://").unwrap_or(&remote.url).as_ref())
    };
    let Some(remote) = settings.source.remotes.iter().find(is_git) else {
        return Vec::new();
    };
    if trust.require != RequiredSignatures::None {
        return Vec::new();
    }
    let mut warnings = vec![format!(
        "nothing is signed (`trust.require: none`): anyone who can push to the branch `{}` controls this host as root; \
         sign the states and set `trust.require`, see docs/trust",
        remote.branch
    )];
    let names = |used: bool| {
        let testing = (settings.source.testing && trust.uses(UnsignedRef::Testing) == used)
            .then(|| format!("the branch `testing/{}`", settings.id));
        let rollout = (trust.uses(UnsignedRef::Rollout) == used).then(|| "rollout records".to_owned());
        [testing, rollout].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    };
    let (ignored, used) = (names(false), names(true));
    if !ignored.is_empty() {
        warnings.push(format!(
            "{ignored}: ignored, because without signatures anyone who can push any branch could write them; to use \
             them anyway, list `testing` or `rollout` in `trust.unsigned_refs`"
        ));
    }
    if !used.is_empty() {
        warnings.push(format!(
            "{used}: used without signatures, as `trust.unsigned_refs` says; anyone who can push any branch controls \
             this host"
        ));
    }
    warnings
}

/// The keys that sign both rollout records and states; none when they are kept apart, or cannot be read.
#[must_use]
pub fn shared_keys(settings: &Settings) -> Vec<String> {
    RecordTrust::from_settings(settings).and_then(|trust| trust.shared_keys().ok()).unwrap_or_default()
}

/// The warning about them.
#[must_use]
pub fn shared_key_warning(settings: &Settings) -> Option<String> {
    let shared = shared_keys(settings);
    (!shared.is_empty()).then(|| {
        format!(
            "keys that can sign rollout records and also states: {}; root on a driver that has such a key controls \
             every node; list the keys of drivers in `rollout.allowed_signers`, and give them no line in \
             `trust.allowed_signers`",
            shared.join(", ")
        )
    })
}

/// The warning about a manifest that expires soon, or has expired.
#[must_use]
pub fn expiry_warning(expires: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let expires = expires?;
    if expires <= now {
        return Some(format!(
            "the manifest of the current revision expired at {expires}: this node still applies it and waits for a \
             newer one; write and sign a new manifest, or find out why it does not arrive"
        ));
    }
    let left = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
    (left <= EXPIRY_WARNING).then(|| {
        let hours = left.as_secs() / 3600;
        let left = if hours < 48 { format!("{hours} h") } else { format!("{} days", hours / 24) };
        format!(
            "the manifest of the current revision expires in {left}, at {expires}: write and sign a new one (zagent \
             manifest write --expires 30d)"
        )
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use zagent_config::settings::{ConfigFragment, MergedConfig};

    use super::*;

    fn settings(yaml: &str) -> Settings {
        let fragment = ConfigFragment::read("zagent.yaml", yaml).unwrap();
        MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap()
    }

    #[test]
    fn what_is_unsigned_is_named_with_the_key_that_changes_it() {
        let warned = |more: &str| {
            let remote = "source: {remotes: [{url: 'https://git.example.org/states.git', branch: prod}]}";
            unsigned_warnings(&settings(&format!("{remote}\n{more}")))
        };
        let none = warned("");
        assert_eq!(none.len(), 2, "{none:?}");
        assert!(none[0].contains("`prod`") && none[0].contains("`trust.require`"), "{none:?}");
        assert!(
            none[1].contains("`testing/web-01`") && none[1].contains("`trust.unsigned_refs`"),
            "{none:?}"
        );
        let half = warned("trust: {unsigned_refs: [rollout]}");
        assert!(half[1].starts_with("the branch `testing/web-01`: ignored"), "{half:?}");
        assert!(half[2].starts_with("rollout records: used"), "{half:?}");
        let all = warned("trust: {unsigned_refs: [rollout, testing]}");
        assert!(all.len() == 2 && all[1].contains("used without signatures"), "{all:?}");
        assert!(warned("trust: {require: commit}").is_empty());
        assert!(unsigned_warnings(&settings("")).is_empty());
    }

    #[test]
    fn the_end_of_a_manifest_is_announced_a_week_before() {
        let now: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        let after = |hours| expiry_warning(Some(now + SignedDuration::from_hours(hours)), now);
        assert_eq!((expiry_warning(None, now), after(7 * 24 + 1)), (None, None));
        assert!(after(7 * 24).unwrap().contains("expires in 7 days"));
        assert!(after(5).unwrap().contains("expires in 5 h"));
        assert!(after(0).unwrap().contains("expired at 2026-11-18T12:00:00Z"));
        assert!(after(-1000).unwrap().contains("expired at"));
    }
}

//! What the remotes offer and what the node is told in, what it should be on out.
//!
//! Law: pure. A pin counts more than a branch, a testing branch more than the followed one as long as it stands on top of
//! it; a revision that is quarantined, or was refused a moment ago, is not taken.

use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::Revision;

use super::memory::{Held, Weighed, Why};
use crate::operate::pin::{Pin, To};

/// How long a revision that was refused is left alone before it is looked at again: keys and clocks change too.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// How long a revision that could not be fetched is left alone the first time; then twice as long, and so on.
const FETCH_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// In which role a revision is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The head of the followed branch.
    Followed,
    /// The head of the node's testing branch.
    Testing,
    /// What the node is pinned to.
    Pinned,
}

/// What remotes offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The head of the followed branch.
    pub head: Option<Revision>,
    /// The head of the testing branch.
    pub testing: Option<Revision>,
}

/// What the node knows about itself.
#[derive(Clone, Debug, Default)]
pub struct Standing<'a> {
    /// The revision it is on.
    pub current: Option<&'a str>,
    /// What it is pinned to.
    pub pin: Option<&'a Pin>,
    /// Why a revision was not taken the last time.
    pub held: Option<&'a Held>,
    /// Revisions that failed their health checks, and when.
    pub quarantined: &'a [(Revision, Timestamp)],
    /// What was found out about the testing branch.
    pub weighed: Option<&'a Weighed>,
    /// True when somebody insists: what was refused is looked at again.
    pub insists: bool,
}

impl Standing<'_> {
    /// Whether the testing branch of an offer stands on the followed one, as far as that is known.
    #[must_use]
    pub fn counts(&self, offer: &Offer) -> Option<bool> {
        let same = |weighed: &&Weighed| {
            Some(&weighed.testing) == offer.testing.as_ref() && Some(&weighed.head) == offer.head.as_ref()
        };
        self.weighed.filter(same).map(|weighed| weighed.counts)
    }
}

/// What to do about an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// There is nothing to take.
    Nothing,
    /// The node is where it should be.
    Current(Revision, Role),
    /// This one.
    Take(Revision, Role),
    /// This head of the testing branch, if it stands on that head of the followed one.
    Weigh(Revision, Revision),
    /// This one is not taken, and the reason has been found before.
    Held(Held),
    /// This one is quarantined.
    Quarantined(Revision),
}

/// Decides.
#[must_use]
pub fn want(offer: &Offer, standing: &Standing<'_>, now: Timestamp) -> Wanted {
    let pinned = match standing.pin.map(|pin| &pin.to) {
        Some(To::Commit(revision)) => Some((revision.clone(), Role::Pinned)),
        Some(To::Branch(_)) => offer.head.clone().map(|head| (head, Role::Pinned)),
        None => None,
    };
    if let Some((revision, role)) = pinned {
        return judge(revision, role, standing, now);
    }
    if standing.pin.is_some() {
        return Wanted::Nothing;
    }
    // A testing branch stands on a followed one; alone it is nothing, and one that does not count leaves the followed one.
    if let (Some(testing), Some(head)) = (&offer.testing, &offer.head)
        && testing != head
        && standing.counts(offer) != Some(false)
    {
        let wanted = judge(testing.clone(), Role::Testing, standing, now);
        if matches!(wanted, Wanted::Take(..) | Wanted::Current(..)) {
            let weigh = || Wanted::Weigh(testing.clone(), head.clone());
            return if standing.counts(offer) == Some(true) { wanted } else { weigh() };
        }
    }
    match offer.head.clone() {
        Some(head) => judge(head, Role::Followed, standing, now),
        None => Wanted::Nothing,
    }
}

fn judge(revision: Revision, role: Role, standing: &Standing<'_>, now: Timestamp) -> Wanted {
    if standing.current == Some(revision.as_str()) {
        return Wanted::Current(revision, role);
    }
    // Whoever pins a node to a revision after it was quarantined knows better.
    let knows_better =
        |since: Timestamp| role == Role::Pinned && standing.pin.is_some_and(|pin| pin.since > since);
    if standing.quarantined.iter().any(|(bad, since)| *bad == revision && !knows_better(*since)) {
        return Wanted::Quarantined(revision);
    }
    let judged = |held: &&Held| {
        let pause = match held.why {
            Why::Refused | Why::Broken => AGAIN,
            Why::Unfetched => FETCH_AGAIN.saturating_mul(1 << held.tries.min(5)).min(AGAIN),
            _ => return false,
        };
        // A clock that was set back says nothing about how long it has been.
        held.revision == revision && held.since <= now && now.duration_since(held.since) < pause
    };
    match standing.held.filter(|_| !standing.insists).filter(judged) {
        Some(held) => Wanted::Held(held.clone()),
        None => Wanted::Take(revision, role),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(c: char) -> Revision {
        c.to_string().repeat(40).parse().unwrap()
    }

    fn held(c: char, why: Why, since: Timestamp) -> Held {
        Held { revision: revision(c), why, message: "because".into(), since, tries: 0 }
    }

    #[test]
    fn a_head_is_taken_unless_there_is_a_reason_not_to() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let (a, b, t) = (revision('a'), revision('b'), revision('e'));
        let offer = |head: &Revision| Offer { head: Some(head.clone()), testing: None };
        let at_a = Standing { current: Some(a.as_str()), ..Standing::default() };
        assert_eq!(want(&Offer::default(), &at_a, now), Wanted::Nothing);
        assert_eq!(want(&offer(&a), &at_a, now), Wanted::Current(a.clone(), Role::Followed));
        assert_eq!(want(&offer(&b), &at_a, now), Wanted::Take(b.clone(), Role::Followed));

        let bad = [(b.clone(), now)];
        let quarantined = Standing { quarantined: &bad, ..at_a.clone() };
        assert_eq!(want(&offer(&b), &quarantined, now), Wanted::Quarantined(b.clone()));

        let fresh = held('b', Why::Refused, now - SignedDuration::from_mins(9));
        let old = held('b', Why::Broken, now - SignedDuration::from_mins(11));
        let paused = held('b', Why::Paused, now);
        let to_come = held('b', Why::Refused, now + SignedDuration::from_hours(9000));
        let unfetched = held('b', Why::Unfetched, now - SignedDuration::from_secs(29));
        let often = Held { tries: 9, ..held('b', Why::Unfetched, now - SignedDuration::from_mins(9)) };
        let long_ago = held('b', Why::Unfetched, now - SignedDuration::from_secs(31));
        let other = held('c', Why::Refused, now);
        for (held, insists, taken) in [
            (&fresh, false, false),
            (&fresh, true, true),
            (&old, false, true),
            (&paused, false, true),
            (&other, false, true),
            (&to_come, false, true),
            (&unfetched, false, false),
            (&often, false, false),
            (&long_ago, false, true),
        ] {
            let standing = Standing { held: Some(held), insists, ..at_a.clone() };
            let wanted = want(&offer(&b), &standing, now);
            let expected =
                if taken { Wanted::Take(b.clone(), Role::Followed) } else { Wanted::Held(held.clone()) };
            assert_eq!(wanted, expected, "{held:?} {insists}");
        }

        let alone = Offer { head: None, testing: Some(t.clone()) };
        assert_eq!(want(&alone, &at_a, now), Wanted::Nothing, "a testing branch that stands on nothing");

        let pin = |since| Pin { to: To::Commit(b.clone()), since, by: "root".into(), reason: None };
        for (since, taken) in
            [(now - SignedDuration::from_secs(1), false), (now + SignedDuration::from_secs(1), true)]
        {
            let pin = pin(since);
            let standing = Standing { pin: Some(&pin), quarantined: &bad, ..at_a.clone() };
            let wanted = want(&offer(&a), &standing, now);
            let expected =
                if taken { Wanted::Take(b.clone(), Role::Pinned) } else { Wanted::Quarantined(b.clone()) };
            assert_eq!(wanted, expected, "pinned {since}");
        }

        let both = Offer { head: Some(a.clone()), testing: Some(t.clone()) };
        assert_eq!(want(&both, &at_a, now), Wanted::Weigh(t.clone(), a.clone()));
        let weighed = |head: &Revision, counts| Weighed { testing: t.clone(), head: head.clone(), counts };
        let (on_top, astray, before) = (weighed(&a, true), weighed(&a, false), weighed(&b, true));
        let with = |weighed| Standing { weighed: Some(weighed), ..at_a.clone() };
        assert_eq!(want(&both, &with(&on_top), now), Wanted::Take(t.clone(), Role::Testing));
        assert_eq!(want(&both, &with(&astray), now), Wanted::Current(a.clone(), Role::Followed));
        assert_eq!(want(&both, &with(&before), now), Wanted::Weigh(t.clone(), a.clone()), "the head moved");
        let at_t = Standing { current: Some(t.as_str()), ..with(&before) };
        assert_eq!(want(&both, &at_t, now), Wanted::Weigh(t.clone(), a.clone()), "the head moved away");
        let at_t = Standing { weighed: Some(&on_top), ..at_t };
        assert_eq!(want(&both, &at_t, now), Wanted::Current(t.clone(), Role::Testing));
        let refused = held('e', Why::Refused, now);
        let standing = Standing { held: Some(&refused), ..with(&on_top) };
        assert_eq!(want(&both, &standing, now), Wanted::Current(a, Role::Followed), "an odd testing branch");
    }
}

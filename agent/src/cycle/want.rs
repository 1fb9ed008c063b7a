//! What the remotes offer and what the node is told in, what it should be on out.
//!
//! Law: pure. A pin counts more than a rollout, a rollout more than a branch, a testing branch more than the followed one
//! as long as it stands on top of it; a revision that is quarantined, or was refused a moment ago, is not taken.
//!
//! What a rollout gives is judged like a head: it must go forward from what was accepted last of the followed branch, unless
//! the order says `anyway`. Going back after a failure is none of this: the generation before is on the disk, was judged
//! when it came, and what is accepted from remotes stays as high as the new one had raised it. So a mended revision has to
//! stand on the one that failed, and an order for an older one needs `anyway`.

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
    /// What a rollout gives it.
    Rollout,
}

/// What rollouts say about the states of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It stays on what it has; one that has nothing begins with what the others come from, or with the head.
    Stay {
        /// What the rollout begins with, as far as that is one revision.
        from: Option<Revision>,
        /// Why, in words that name a way out.
        words: String,
    },
    /// It stays where a rollout led it until its branch has another head than it had then.
    Keep {
        /// What it was given; whoever is on something else is not meant.
        to: String,
        /// The head then; none when it was not known: then the one that is seen first.
        head: Option<Revision>,
        /// Why, in words that name a way out.
        words: String,
    },
    /// It takes exactly this.
    Take {
        /// The revision.
        revision: Revision,
        /// True when it is meant although it is older, or was quarantined.
        anyway: bool,
    },
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
    /// What rollouts say; nothing when branches alone count.
    pub ruling: Option<&'a Ruling>,
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
    /// This head is not taken: a rollout says so, in these words.
    Stay(Revision, String),
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
    match standing.ruling {
        Some(Ruling::Take { revision, .. }) => return judge(revision.clone(), Role::Rollout, standing, now),
        Some(Ruling::Stay { words, .. }) if standing.current.is_some() => {
            return match offer.head.clone() {
                Some(head) if standing.current == Some(head.as_str()) => {
                    Wanted::Current(head, Role::Followed)
                }
                Some(head) => Wanted::Stay(head, words.clone()),
                None => Wanted::Nothing,
            };
        }
        Some(Ruling::Stay { from: Some(from), .. }) => {
            return judge(from.clone(), Role::Rollout, standing, now);
        }
        Some(Ruling::Keep { to, head, words }) if standing.current == Some(to.as_str()) => {
            match offer.head.clone() {
                Some(now) if standing.current == Some(now.as_str()) => {}
                Some(now) if head.as_ref().is_none_or(|then| *then == now) => {
                    return Wanted::Stay(now, words.clone());
                }
                _ => {}
            }
        }
        Some(Ruling::Stay { from: None, .. } | Ruling::Keep { .. }) | None => {}
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
    // Whoever pins a node to a revision after it was quarantined knows better, and so does whoever orders it by name.
    let anyway = matches!(standing.ruling, Some(Ruling::Take { anyway: true, .. }));
    let knows_better = |since: Timestamp| match role {
        Role::Pinned => standing.pin.is_some_and(|pin| pin.since > since),
        Role::Rollout => anyway,
        Role::Followed | Role::Testing => false,
    };
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

    #[test]
    fn where_a_rollout_led_it_a_node_stays_until_its_branch_moves() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let [a, b, c] = ['a', 'b', 'c'].map(revision);
        let keep = |head: Option<&Revision>| Ruling::Keep {
            to: a.to_string(),
            head: head.cloned(),
            words: "led there".into(),
        };
        let stay = |head: &Revision| Wanted::Stay(head.clone(), "led there".into());
        let take = |head: &Revision| Wanted::Take(head.clone(), Role::Followed);
        for (current, then, head, wanted) in [
            (&a, Some(&b), &b, stay(&b)),
            (&a, None, &b, stay(&b)),
            (&a, Some(&b), &c, take(&c)),
            (&a, Some(&b), &a, Wanted::Current(a.clone(), Role::Followed)),
            (&c, Some(&b), &b, take(&b)),
        ] {
            let ruling = keep(then);
            let standing =
                Standing { current: Some(current.as_str()), ruling: Some(&ruling), ..Standing::default() };
            let offer = Offer { head: Some(head.clone()), testing: None };
            assert_eq!(want(&offer, &standing, now), wanted, "{current} {then:?} {head}");
        }
    }

    #[test]
    fn a_rollout_counts_more_than_branches_and_less_than_a_pin() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let [a, b, c, t] = ['a', 'b', 'c', 'e'].map(revision);
        let offer = Offer { head: Some(b.clone()), testing: Some(t) };
        let stay =
            |from: Option<&Revision>| Ruling::Stay { from: from.cloned(), words: "batch 3 of 5".into() };
        let take = |anyway| Ruling::Take { revision: c.clone(), anyway };
        let held = || Wanted::Stay(b.clone(), "batch 3 of 5".into());
        let given = |wanted: fn(Revision, Role) -> Wanted, revision: &Revision| {
            wanted(revision.clone(), Role::Rollout)
        };
        let on_b = Wanted::Current(b.clone(), Role::Followed);
        for (current, ruling, wanted) in [
            (Some(&a), stay(None), held()),
            (Some(&a), stay(Some(&c)), held()),
            (Some(&b), stay(None), on_b),
            (None, stay(Some(&a)), given(Wanted::Take, &a)),
            (None, stay(None), Wanted::Weigh(offer.testing.clone().unwrap(), b.clone())),
            (Some(&a), take(false), given(Wanted::Take, &c)),
            (Some(&c), take(false), given(Wanted::Current, &c)),
            (None, take(false), given(Wanted::Take, &c)),
        ] {
            let current = current.map(Revision::as_str);
            let standing = Standing { current, ruling: Some(&ruling), ..Standing::default() };
            assert_eq!(want(&offer, &standing, now), wanted, "{current:?} {ruling:?}");
        }
        let headless =
            Standing { current: Some(a.as_str()), ruling: Some(&stay(None)), ..Standing::default() };
        assert_eq!(want(&Offer::default(), &headless, now), Wanted::Nothing);

        let bad = [(c.clone(), now)];
        for (anyway, wanted) in [(false, Wanted::Quarantined(c.clone())), (true, given(Wanted::Take, &c))] {
            let ruling = take(anyway);
            let standing = Standing { quarantined: &bad, ruling: Some(&ruling), ..Standing::default() };
            assert_eq!(want(&offer, &standing, now), wanted, "anyway: {anyway}");
        }

        let pin = Pin { to: To::Commit(a.clone()), since: now, by: "root".into(), reason: None };
        for ruling in [stay(None), take(true)] {
            let on_c = Standing { current: Some(c.as_str()), ..Standing::default() };
            let standing = Standing { pin: Some(&pin), ruling: Some(&ruling), ..on_c };
            assert_eq!(want(&offer, &standing, now), Wanted::Take(a.clone(), Role::Pinned), "{ruling:?}");
        }
    }
}

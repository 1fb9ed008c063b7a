//! Offers of the remotes and orders for the node in, revision that it should run out.
//!
//! Law: pure. A pin takes precedence over a rollout, a rollout over a branch, a testing branch over the followed
//! branch as long as it is based on it; a quarantined or recently refused revision is not accepted (held by
//! `pure_modules_do_not_touch_the_machine`, `a_head_is_accepted_unless_there_is_a_reason_not_to`,
//! `a_rollout_overrides_branches_and_a_pin_overrides_a_rollout`).
//!
//! A revision from a rollout is checked like a head: it must descend from the last accepted revision of the
//! followed branch, unless the order says `anyway`. A rollback after a failure is different: the previous
//! generation is on disk and was verified when it arrived, and the replay protection record stays at the
//! level of the new one. A fixed revision must therefore descend from the one that failed, and an order for
//! an older one needs `anyway`.

use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::Revision;

use crate::held_revision::{HeldRevision, HoldReason};
use crate::operator::pin::{NodePin, PinTarget};

/// Time until a refused revision is checked again: keys and clocks change too.
const REFUSED_RETRY_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// First retry delay of a revision that could not be fetched; it doubles each time.
const FETCH_RETRY_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// In which role a revision is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RevisionRole {
    /// The head of the followed branch.
    Followed,
    /// The head of the node's testing branch.
    Testing,
    /// What the node is pinned to.
    Pinned,
    /// What a rollout assigns.
    Rollout,
}

/// What rollouts require for the states of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RolloutConstraint {
    /// Stay on the current revision; a node without one starts with the revision the others come from, or
    /// with the head.
    Stay {
        /// Revision that the rollout starts from, when it is the same for all nodes.
        from: Option<Revision>,
        /// Reason, with what to do.
        words: String,
    },
    /// Stay where a rollout put the node until its branch has a new head.
    Keep {
        /// Assigned revision; does not apply to nodes on another one.
        to: String,
        /// Head at that time; when unknown, the first one seen.
        head: Option<Revision>,
        /// Reason, with what to do.
        words: String,
    },
    /// Use exactly this revision.
    Take {
        /// The revision.
        revision: Revision,
        /// True to accept it although it is older or quarantined.
        anyway: bool,
    },
}

/// Offer of the remotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteOffer {
    /// The head of the followed branch.
    pub head: Option<Revision>,
    /// The head of the testing branch.
    pub testing: Option<Revision>,
}

/// Whether a testing branch is based on the followed branch.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TestingAncestry {
    /// The head of the testing branch.
    pub testing: Revision,
    /// Head of the followed branch.
    pub head: Revision,
    /// True when it is.
    pub counts: bool,
}

/// What the node knows about itself.
#[derive(Clone, Debug, Default)]
pub struct NodeView<'a> {
    /// Current revision.
    pub current: Option<&'a str>,
    /// Pin.
    pub pin: Option<&'a NodePin>,
    /// What rollouts require; none when only branches count.
    pub(crate) constraint: Option<&'a RolloutConstraint>,
    /// Why a revision was held back last time.
    pub held: Option<&'a HeldRevision>,
    /// Quarantined revisions, and when.
    pub quarantined: &'a [(Revision, Timestamp)],
    /// What is known about the testing branch.
    pub weighed: Option<&'a TestingAncestry>,
    /// True to check a refused revision again.
    pub retry_refused: bool,
}

impl NodeView<'_> {
    /// Whether the testing branch of an offer is based on the followed branch, if known.
    #[must_use]
    pub(crate) fn testing_counts(&self, offer: &RemoteOffer) -> Option<bool> {
        let same = |weighed: &&TestingAncestry| {
            Some(&weighed.testing) == offer.testing.as_ref() && Some(&weighed.head) == offer.head.as_ref()
        };
        self.weighed.filter(same).map(|weighed| weighed.counts)
    }
}

/// Decision about an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncDecision {
    /// Nothing to accept.
    Nothing,
    /// The node has the right revision.
    Current(Revision, RevisionRole),
    /// Accept this revision.
    Take(Revision, RevisionRole),
    /// Accept this head of the testing branch, if it is based on that head of the followed branch.
    CheckTesting(Revision, Revision),
    /// Held back for a reason that is already known.
    Held(HeldRevision),
    /// Quarantined.
    Quarantined(Revision),
    /// Held back by a rollout, with the reason.
    Stay(Revision, String),
}

/// Decides.
#[must_use]
pub(crate) fn decide_revision(offer: &RemoteOffer, view: &NodeView<'_>, now: Timestamp) -> SyncDecision {
    let pinned = match view.pin.map(|pin| &pin.to) {
        Some(PinTarget::Commit(revision)) => Some((revision.clone(), RevisionRole::Pinned)),
        Some(PinTarget::Branch(_)) => offer.head.clone().map(|head| (head, RevisionRole::Pinned)),
        None => None,
    };
    if let Some((revision, role)) = pinned {
        return judge_revision(revision, role, view, now);
    }
    if view.pin.is_some() {
        return SyncDecision::Nothing;
    }
    match view.constraint {
        Some(RolloutConstraint::Take { revision, .. }) => {
            return judge_revision(revision.clone(), RevisionRole::Rollout, view, now);
        }
        Some(RolloutConstraint::Stay { words, .. }) if view.current.is_some() => {
            return match offer.head.clone() {
                Some(head) if view.current == Some(head.as_str()) => {
                    SyncDecision::Current(head, RevisionRole::Followed)
                }
                Some(head) => SyncDecision::Stay(head, words.clone()),
                None => SyncDecision::Nothing,
            };
        }
        Some(RolloutConstraint::Stay { from: Some(from), .. }) => {
            return judge_revision(from.clone(), RevisionRole::Rollout, view, now);
        }
        Some(RolloutConstraint::Keep { to, head, words }) if view.current == Some(to.as_str()) => {
            match offer.head.clone() {
                Some(now) if view.current == Some(now.as_str()) => {}
                Some(now) if head.as_ref().is_none_or(|then| *then == now) => {
                    return SyncDecision::Stay(now, words.clone());
                }
                _ => {}
            }
        }
        Some(RolloutConstraint::Stay { from: None, .. } | RolloutConstraint::Keep { .. }) | None => {}
    }
    // A testing branch is based on a followed branch; alone it is ignored, and one that does not count leaves
    // the followed branch.
    if let (Some(testing), Some(head)) = (&offer.testing, &offer.head)
        && testing != head
        && view.testing_counts(offer) != Some(false)
    {
        let wanted = judge_revision(testing.clone(), RevisionRole::Testing, view, now);
        if matches!(wanted, SyncDecision::Take(..) | SyncDecision::Current(..)) {
            let weigh = || SyncDecision::CheckTesting(testing.clone(), head.clone());
            return if view.testing_counts(offer) == Some(true) { wanted } else { weigh() };
        }
    }
    match offer.head.clone() {
        Some(head) => judge_revision(head, RevisionRole::Followed, view, now),
        None => SyncDecision::Nothing,
    }
}

fn judge_revision(
    revision: Revision,
    role: RevisionRole,
    view: &NodeView<'_>,
    now: Timestamp,
) -> SyncDecision {
    if view.current == Some(revision.as_str()) {
        return SyncDecision::Current(revision, role);
    }
    // A pin that is newer than the quarantine overrides it, and so does an order with `anyway`.
    let anyway = matches!(view.constraint, Some(RolloutConstraint::Take { anyway: true, .. }));
    let knows_better = |since: Timestamp| match role {
        RevisionRole::Pinned => view.pin.is_some_and(|pin| pin.since > since),
        RevisionRole::Rollout => anyway,
        RevisionRole::Followed | RevisionRole::Testing => false,
    };
    if view.quarantined.iter().any(|(bad, since)| *bad == revision && !knows_better(*since)) {
        return SyncDecision::Quarantined(revision);
    }
    let judged = |held: &&HeldRevision| {
        let pause = match held.why {
            HoldReason::Refused | HoldReason::Broken => REFUSED_RETRY_AFTER,
            HoldReason::Unfetched => {
                FETCH_RETRY_AFTER.saturating_mul(1 << held.tries.min(5)).min(REFUSED_RETRY_AFTER)
            }
            _ => return false,
        };
        // A clock that was set back says nothing about the elapsed time.
        held.revision == revision && held.since <= now && now.duration_since(held.since) < pause
    };
    match view.held.filter(|_| !view.retry_refused).filter(judged) {
        Some(held) => SyncDecision::Held(held.clone()),
        None => SyncDecision::Take(revision, role),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(c: char) -> Revision {
        c.to_string().repeat(40).parse().unwrap()
    }

    fn held(c: char, why: HoldReason, since: Timestamp) -> HeldRevision {
        HeldRevision { revision: revision(c), why, message: "because".into(), since, tries: 0 }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table of cases")]
    fn a_head_is_accepted_unless_there_is_a_reason_not_to() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let (a, b, t) = (revision('a'), revision('b'), revision('e'));
        let offer = |head: &Revision| RemoteOffer { head: Some(head.clone()), testing: None };
        let at_a = NodeView { current: Some(a.as_str()), ..NodeView::default() };
        assert_eq!(decide_revision(&RemoteOffer::default(), &at_a, now), SyncDecision::Nothing);
        assert_eq!(
            decide_revision(&offer(&a), &at_a, now),
            SyncDecision::Current(a.clone(), RevisionRole::Followed)
        );
        assert_eq!(
            decide_revision(&offer(&b), &at_a, now),
            SyncDecision::Take(b.clone(), RevisionRole::Followed)
        );

        let bad = [(b.clone(), now)];
        let quarantined = NodeView { quarantined: &bad, ..at_a.clone() };
        assert_eq!(decide_revision(&offer(&b), &quarantined, now), SyncDecision::Quarantined(b.clone()));

        let fresh = held('b', HoldReason::Refused, now - SignedDuration::from_mins(9));
        let old = held('b', HoldReason::Broken, now - SignedDuration::from_mins(11));
        let paused = held('b', HoldReason::Paused, now);
        let to_come = held('b', HoldReason::Refused, now + SignedDuration::from_hours(9000));
        let unfetched = held('b', HoldReason::Unfetched, now - SignedDuration::from_secs(29));
        let often =
            HeldRevision { tries: 9, ..held('b', HoldReason::Unfetched, now - SignedDuration::from_mins(9)) };
        let long_ago = held('b', HoldReason::Unfetched, now - SignedDuration::from_secs(31));
        let other = held('c', HoldReason::Refused, now);
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
            let view = NodeView { held: Some(held), retry_refused: insists, ..at_a.clone() };
            let wanted = decide_revision(&offer(&b), &view, now);
            let expected = if taken {
                SyncDecision::Take(b.clone(), RevisionRole::Followed)
            } else {
                SyncDecision::Held(held.clone())
            };
            assert_eq!(wanted, expected, "{held:?} {insists}");
        }

        let alone = RemoteOffer { head: None, testing: Some(t.clone()) };
        assert_eq!(
            decide_revision(&alone, &at_a, now),
            SyncDecision::Nothing,
            "a testing branch that stands on nothing"
        );

        let pin =
            |since| NodePin { to: PinTarget::Commit(b.clone()), since, by: "root".into(), reason: None };
        for (since, taken) in
            [(now - SignedDuration::from_secs(1), false), (now + SignedDuration::from_secs(1), true)]
        {
            let pin = pin(since);
            let view = NodeView { pin: Some(&pin), quarantined: &bad, ..at_a.clone() };
            let wanted = decide_revision(&offer(&a), &view, now);
            let expected = if taken {
                SyncDecision::Take(b.clone(), RevisionRole::Pinned)
            } else {
                SyncDecision::Quarantined(b.clone())
            };
            assert_eq!(wanted, expected, "pinned {since}");
        }

        let both = RemoteOffer { head: Some(a.clone()), testing: Some(t.clone()) };
        assert_eq!(decide_revision(&both, &at_a, now), SyncDecision::CheckTesting(t.clone(), a.clone()));
        let weighed =
            |head: &Revision, counts| TestingAncestry { testing: t.clone(), head: head.clone(), counts };
        let (on_top, astray, before) = (weighed(&a, true), weighed(&a, false), weighed(&b, true));
        let with = |weighed| NodeView { weighed: Some(weighed), ..at_a.clone() };
        assert_eq!(
            decide_revision(&both, &with(&on_top), now),
            SyncDecision::Take(t.clone(), RevisionRole::Testing)
        );
        assert_eq!(
            decide_revision(&both, &with(&astray), now),
            SyncDecision::Current(a.clone(), RevisionRole::Followed)
        );
        assert_eq!(
            decide_revision(&both, &with(&before), now),
            SyncDecision::CheckTesting(t.clone(), a.clone()),
            "the head moved"
        );
        let at_t = NodeView { current: Some(t.as_str()), ..with(&before) };
        assert_eq!(
            decide_revision(&both, &at_t, now),
            SyncDecision::CheckTesting(t.clone(), a.clone()),
            "the head moved away"
        );
        let at_t = NodeView { weighed: Some(&on_top), ..at_t };
        assert_eq!(
            decide_revision(&both, &at_t, now),
            SyncDecision::Current(t.clone(), RevisionRole::Testing)
        );
        let refused = held('e', HoldReason::Refused, now);
        let view = NodeView { held: Some(&refused), ..with(&on_top) };
        assert_eq!(
            decide_revision(&both, &view, now),
            SyncDecision::Current(a, RevisionRole::Followed),
            "an odd testing branch"
        );
    }

    #[test]
    fn a_node_stays_where_a_rollout_put_it_until_its_branch_moves() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let [a, b, c] = ['a', 'b', 'c'].map(revision);
        let keep = |head: Option<&Revision>| RolloutConstraint::Keep {
            to: a.to_string(),
            head: head.cloned(),
            words: "led there".into(),
        };
        let stay = |head: &Revision| SyncDecision::Stay(head.clone(), "led there".into());
        let take = |head: &Revision| SyncDecision::Take(head.clone(), RevisionRole::Followed);
        for (current, then, head, wanted) in [
            (&a, Some(&b), &b, stay(&b)),
            (&a, None, &b, stay(&b)),
            (&a, Some(&b), &c, take(&c)),
            (&a, Some(&b), &a, SyncDecision::Current(a.clone(), RevisionRole::Followed)),
            (&c, Some(&b), &b, take(&b)),
        ] {
            let constraint = keep(then);
            let view = NodeView {
                current: Some(current.as_str()),
                constraint: Some(&constraint),
                ..NodeView::default()
            };
            let offer = RemoteOffer { head: Some(head.clone()), testing: None };
            assert_eq!(decide_revision(&offer, &view, now), wanted, "{current} {then:?} {head}");
        }
    }

    #[test]
    fn a_rollout_overrides_branches_and_a_pin_overrides_a_rollout() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let [a, b, c, t] = ['a', 'b', 'c', 'e'].map(revision);
        let offer = RemoteOffer { head: Some(b.clone()), testing: Some(t) };
        let stay = |from: Option<&Revision>| RolloutConstraint::Stay {
            from: from.cloned(),
            words: "batch 3 of 5".into(),
        };
        let take = |anyway| RolloutConstraint::Take { revision: c.clone(), anyway };
        let held = || SyncDecision::Stay(b.clone(), "batch 3 of 5".into());
        let given = |wanted: fn(Revision, RevisionRole) -> SyncDecision, revision: &Revision| {
            wanted(revision.clone(), RevisionRole::Rollout)
        };
        let on_b = SyncDecision::Current(b.clone(), RevisionRole::Followed);
        for (current, constraint, wanted) in [
            (Some(&a), stay(None), held()),
            (Some(&a), stay(Some(&c)), held()),
            (Some(&b), stay(None), on_b),
            (None, stay(Some(&a)), given(SyncDecision::Take, &a)),
            (None, stay(None), SyncDecision::CheckTesting(offer.testing.clone().unwrap(), b.clone())),
            (Some(&a), take(false), given(SyncDecision::Take, &c)),
            (Some(&c), take(false), given(SyncDecision::Current, &c)),
            (None, take(false), given(SyncDecision::Take, &c)),
        ] {
            let current = current.map(Revision::as_str);
            let view = NodeView { current, constraint: Some(&constraint), ..NodeView::default() };
            assert_eq!(decide_revision(&offer, &view, now), wanted, "{current:?} {constraint:?}");
        }
        let headless =
            NodeView { current: Some(a.as_str()), constraint: Some(&stay(None)), ..NodeView::default() };
        assert_eq!(decide_revision(&RemoteOffer::default(), &headless, now), SyncDecision::Nothing);

        let bad = [(c.clone(), now)];
        for (anyway, wanted) in
            [(false, SyncDecision::Quarantined(c.clone())), (true, given(SyncDecision::Take, &c))]
        {
            let constraint = take(anyway);
            let view = NodeView { quarantined: &bad, constraint: Some(&constraint), ..NodeView::default() };
            assert_eq!(decide_revision(&offer, &view, now), wanted, "anyway: {anyway}");
        }

        let pin = NodePin { to: PinTarget::Commit(a.clone()), since: now, by: "root".into(), reason: None };
        for constraint in [stay(None), take(true)] {
            let on_c = NodeView { current: Some(c.as_str()), ..NodeView::default() };
            let view = NodeView { pin: Some(&pin), constraint: Some(&constraint), ..on_c };
            assert_eq!(
                decide_revision(&offer, &view, now),
                SyncDecision::Take(a.clone(), RevisionRole::Pinned),
                "{constraint:?}"
            );
        }
    }
}

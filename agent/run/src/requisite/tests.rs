//! Requisites and how others ended in, whether a state runs out: as tables.

use super::*;

use Requisite as R;
use SkipReason as S;

/// One word a requisite: how it ended.
fn seen(kind: Requisite, word: &str) -> RequisiteResult<'static> {
    let base = RequisiteResult {
        kind,
        id: ("sls", "id"),
        result: Some(true),
        changed: false,
        ran: true,
        unknown: false,
        may_fail: false,
        command_may_fail: false,
        failure_unknown: false,
    };
    match word {
        "same" => base,
        "changed" => RequisiteResult { changed: true, ..base },
        "failed" => RequisiteResult { result: Some(false), ..base },
        "failed-changed" => RequisiteResult { result: Some(false), changed: true, ..base },
        "would" => RequisiteResult { result: None, changed: true, ..base },
        "may-fail" => RequisiteResult { result: None, changed: true, may_fail: true, ..base },
        "command" => RequisiteResult { result: None, changed: true, command_may_fail: true, ..base },
        "unknown" => RequisiteResult { result: None, unknown: true, ..base },
        "shaky" => RequisiteResult { result: None, unknown: true, failure_unknown: true, ..base },
        "skipped" => RequisiteResult { ran: false, ..base },
        "skipped-failed" => RequisiteResult { result: Some(false), ran: false, ..base },
        other => panic!("{other}"),
    }
}

#[test]
fn what_becomes_of_a_state() {
    let table: &[(&[(Requisite, &str)], RequisiteDecision)] = &[
        (&[], RequisiteDecision::Run),
        (&[(R::Require, "same")], RequisiteDecision::Run),
        (&[(R::Require, "changed")], RequisiteDecision::Run),
        (&[(R::Require, "skipped")], RequisiteDecision::Run),
        (&[(R::Require, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Require, "skipped-failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Require, "same"), (R::Require, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Require, "unknown")], RequisiteDecision::Run),
        (&[(R::Require, "shaky")], RequisiteDecision::Unknown { may_be_refused: true }),
        (&[(R::RequireAny, "shaky"), (R::RequireAny, "same")], RequisiteDecision::Run),
        (&[(R::Watch, "shaky")], RequisiteDecision::Unknown { may_be_refused: true }),
        (&[(R::Require, "unknown"), (R::Require, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::RequireAny, "unknown"), (R::RequireAny, "same")], RequisiteDecision::Run),
        (&[(R::Onfail, "unknown")], RequisiteDecision::Unknown { may_be_refused: false }),
        (&[(R::Onfail, "may-fail")], RequisiteDecision::Unknown { may_be_refused: false }),
        (&[(R::Require, "may-fail")], RequisiteDecision::Run),
        (&[(R::Watch, "may-fail")], RequisiteDecision::React),
        (&[(R::Require, "command")], RequisiteDecision::Unknown { may_be_refused: true }),
        (&[(R::Onchanges, "command")], RequisiteDecision::Unknown { may_be_refused: false }),
        (&[(R::RequireAny, "command"), (R::RequireAny, "same")], RequisiteDecision::Run),
        (&[(R::Require, "command"), (R::Require, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::RequireAny, "failed"), (R::RequireAny, "same")], RequisiteDecision::Run),
        (&[(R::RequireAny, "failed"), (R::RequireAny, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::RequireAny, "failed"), (R::Require, "same")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Watch, "same")], RequisiteDecision::Run),
        (&[(R::Watch, "changed")], RequisiteDecision::React),
        (&[(R::Watch, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Watch, "unknown")], RequisiteDecision::MayReact),
        (
            &[(R::Watch, "unknown"), (R::Onchanges, "unknown")],
            RequisiteDecision::Unknown { may_be_refused: false },
        ),
        (&[(R::WatchAny, "unknown"), (R::WatchAny, "changed")], RequisiteDecision::React),
        (&[(R::WatchAny, "failed"), (R::WatchAny, "changed")], RequisiteDecision::React),
        (&[(R::Onchanges, "same")], RequisiteDecision::Skip(S::OnchangesNotMet)),
        (&[(R::Onchanges, "changed")], RequisiteDecision::Run),
        (&[(R::Onchanges, "failed-changed")], RequisiteDecision::Skip(S::OnchangesNotMet)),
        (&[(R::Onchanges, "same"), (R::Onchanges, "changed")], RequisiteDecision::Run),
        (&[(R::Onchanges, "unknown")], RequisiteDecision::Unknown { may_be_refused: false }),
        (&[(R::OnchangesAny, "failed"), (R::OnchangesAny, "changed")], RequisiteDecision::Run),
        (&[(R::Onfail, "same")], RequisiteDecision::Skip(S::OnfailNotMet)),
        (&[(R::Onfail, "failed")], RequisiteDecision::Run),
        (&[(R::Onfail, "failed"), (R::Onfail, "same")], RequisiteDecision::Run),
        (&[(R::Onfail, "skipped-failed")], RequisiteDecision::Run),
        (&[(R::Onfail, "would")], RequisiteDecision::Skip(S::OnfailNotMet)),
        (&[(R::OnfailAny, "failed"), (R::OnfailAny, "same")], RequisiteDecision::Run),
        (&[(R::OnfailAll, "failed"), (R::OnfailAll, "same")], RequisiteDecision::Skip(S::OnfailNotMet)),
        (&[(R::OnfailAll, "failed"), (R::OnfailAll, "failed")], RequisiteDecision::Run),
        (&[(R::Prereq, "same")], RequisiteDecision::Skip(S::PrereqNotMet)),
        (&[(R::Prereq, "would")], RequisiteDecision::Run),
        (&[(R::Prereq, "same"), (R::Prereq, "would")], RequisiteDecision::Run),
        (&[(R::Prereq, "failed")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Prereq, "unknown")], RequisiteDecision::Unknown { may_be_refused: false }),
        (&[(R::Require, "failed"), (R::Onchanges, "same")], RequisiteDecision::Skip(S::RequireFailed)),
        (&[(R::Onchanges, "same"), (R::Watch, "changed")], RequisiteDecision::Skip(S::OnchangesNotMet)),
    ];
    for (requisites, expected) in table {
        let all: Vec<RequisiteResult<'_>> = requisites.iter().map(|(kind, word)| seen(*kind, word)).collect();
        assert_eq!(decide(&all, Compat::Strict), *expected, "{requisites:?}");
    }
}

#[test]
fn salt_takes_no_verdict_for_a_failure() {
    let all = [seen(R::Onfail, "would")];
    assert_eq!(decide(&all, Compat::Salt), RequisiteDecision::Run);
}

#[test]
fn those_who_failed_are_named_once_and_sorted() {
    let named = |sls, id| RequisiteResult { id: (sls, id), ..seen(R::Require, "failed") };
    let all = [named("web", "b"), named("web", "a"), named("web", "b"), seen(R::Require, "same")];
    assert_eq!(failed_ids(&all), ["web.a", "web.b"]);
}

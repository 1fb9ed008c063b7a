//! Requisites and how others ended in, whether a state runs out: as tables.

use super::*;

use Requisite as R;
use SkipReason as S;

/// One word a requisite: how it ended.
fn seen(kind: Requisite, word: &str) -> Seen<'static> {
    let base = Seen {
        kind,
        id: ("sls", "id"),
        result: Some(true),
        changed: false,
        ran: true,
        unknown: false,
        may_fail: false,
        shaky: false,
    };
    match word {
        "same" => base,
        "changed" => Seen { changed: true, ..base },
        "failed" => Seen { result: Some(false), ..base },
        "failed-changed" => Seen { result: Some(false), changed: true, ..base },
        "would" => Seen { result: None, changed: true, ..base },
        "may-fail" => Seen { result: None, changed: true, may_fail: true, ..base },
        "unknown" => Seen { result: None, unknown: true, ..base },
        "shaky" => Seen { result: None, unknown: true, shaky: true, ..base },
        "skipped" => Seen { ran: false, ..base },
        "skipped-failed" => Seen { result: Some(false), ran: false, ..base },
        other => panic!("{other}"),
    }
}

#[test]
fn what_becomes_of_a_state() {
    let table: &[(&[(Requisite, &str)], Decision)] = &[
        (&[], Decision::Run),
        (&[(R::Require, "same")], Decision::Run),
        (&[(R::Require, "changed")], Decision::Run),
        (&[(R::Require, "skipped")], Decision::Run),
        (&[(R::Require, "failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::Require, "skipped-failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::Require, "same"), (R::Require, "failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::Require, "unknown")], Decision::Run),
        (&[(R::Require, "shaky")], Decision::Unknown),
        (&[(R::RequireAny, "shaky"), (R::RequireAny, "same")], Decision::Run),
        (&[(R::Watch, "shaky")], Decision::Unknown),
        (&[(R::Require, "unknown"), (R::Require, "failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::RequireAny, "unknown"), (R::RequireAny, "same")], Decision::Run),
        (&[(R::Onfail, "unknown")], Decision::Unknown),
        (&[(R::Onfail, "may-fail")], Decision::Unknown),
        (&[(R::Require, "may-fail")], Decision::Run),
        (&[(R::Watch, "may-fail")], Decision::React),
        (&[(R::RequireAny, "failed"), (R::RequireAny, "same")], Decision::Run),
        (&[(R::RequireAny, "failed"), (R::RequireAny, "failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::RequireAny, "failed"), (R::Require, "same")], Decision::Skip(S::RequireFailed)),
        (&[(R::Watch, "same")], Decision::Run),
        (&[(R::Watch, "changed")], Decision::React),
        (&[(R::Watch, "failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::Watch, "unknown")], Decision::MayReact),
        (&[(R::Watch, "unknown"), (R::Onchanges, "unknown")], Decision::Unknown),
        (&[(R::WatchAny, "unknown"), (R::WatchAny, "changed")], Decision::React),
        (&[(R::WatchAny, "failed"), (R::WatchAny, "changed")], Decision::React),
        (&[(R::Onchanges, "same")], Decision::Skip(S::OnchangesNotMet)),
        (&[(R::Onchanges, "changed")], Decision::Run),
        (&[(R::Onchanges, "failed-changed")], Decision::Skip(S::OnchangesNotMet)),
        (&[(R::Onchanges, "same"), (R::Onchanges, "changed")], Decision::Run),
        (&[(R::Onchanges, "unknown")], Decision::Unknown),
        (&[(R::OnchangesAny, "failed"), (R::OnchangesAny, "changed")], Decision::Run),
        (&[(R::Onfail, "same")], Decision::Skip(S::OnfailNotMet)),
        (&[(R::Onfail, "failed")], Decision::Run),
        (&[(R::Onfail, "failed"), (R::Onfail, "same")], Decision::Run),
        (&[(R::Onfail, "skipped-failed")], Decision::Run),
        (&[(R::Onfail, "would")], Decision::Skip(S::OnfailNotMet)),
        (&[(R::OnfailAny, "failed"), (R::OnfailAny, "same")], Decision::Run),
        (&[(R::OnfailAll, "failed"), (R::OnfailAll, "same")], Decision::Skip(S::OnfailNotMet)),
        (&[(R::OnfailAll, "failed"), (R::OnfailAll, "failed")], Decision::Run),
        (&[(R::Prereq, "same")], Decision::Skip(S::PrereqNotMet)),
        (&[(R::Prereq, "would")], Decision::Run),
        (&[(R::Prereq, "same"), (R::Prereq, "would")], Decision::Run),
        (&[(R::Prereq, "failed")], Decision::Skip(S::RequireFailed)),
        (&[(R::Prereq, "unknown")], Decision::Unknown),
        (&[(R::Require, "failed"), (R::Onchanges, "same")], Decision::Skip(S::RequireFailed)),
        (&[(R::Onchanges, "same"), (R::Watch, "changed")], Decision::Skip(S::OnchangesNotMet)),
    ];
    for (requisites, expected) in table {
        let all: Vec<Seen<'_>> = requisites.iter().map(|(kind, word)| seen(*kind, word)).collect();
        assert_eq!(decide(&all, Compat::Strict), *expected, "{requisites:?}");
    }
}

#[test]
fn salt_takes_no_verdict_for_a_failure() {
    let all = [seen(R::Onfail, "would")];
    assert_eq!(decide(&all, Compat::Salt), Decision::Run);
}

#[test]
fn those_who_failed_are_named_once_and_sorted() {
    let named = |sls, id| Seen { id: (sls, id), ..seen(R::Require, "failed") };
    let all = [named("web", "b"), named("web", "a"), named("web", "b"), seen(R::Require, "same")];
    assert_eq!(failed(&all), ["web.a", "web.b"]);
}

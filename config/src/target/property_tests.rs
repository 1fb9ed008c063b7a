//! Properties of every target.

use proptest::prelude::*;

use super::tests::node;
use super::*;

const ATOMS: [&str; 12] = [
    "web*",
    "db*",
    "G@os:Debian",
    "G@roles:nope",
    "G|@nested|a|b|C:D",
    "P@os:deb",
    "E@web1",
    "L@web1,db1",
    "L@db1",
    "I@role:front*",
    "S@10.0.0.0/8",
    "T@ssh:none",
];

/// The text of a target that is well formed.
fn targets() -> impl Strategy<Value = String> {
    let atom = prop::sample::select(&ATOMS[..]).prop_map(str::to_owned);
    atom.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("( {} )", v.join(" and "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("( {} )", v.join(" or "))),
            inner.clone().prop_map(|t| format!("( not {t} )")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("( {a} not {b} )")),
        ]
    })
}

/// Words in any order.
fn soups() -> impl Strategy<Value = String> {
    let words =
        ["and", "or", "not", "(", ")", "web1", "G@os:Debian", "G@", "R@x", "N@web", "N@nope", "S@x", "E@("];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..12).prop_map(|v| v.join(" "))
}

fn ask(text: &str) -> bool {
    Target::parse(text, MatchKind::Compound).unwrap().matches(&node()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_text_panics(text in any::<String>(), kind in prop::sample::select(MatchKind::NAMES.to_vec())) {
        let node = node();
        let strict = Target::parse(&text, kind.1).and_then(|t| t.matches(&node));
        let lenient = Target::parse_lenient(&text, kind.1).matches(&node);
        if let Ok(answer) = strict {
            prop_assert_eq!(lenient, Ok(answer));
        }
    }

    #[test]
    fn no_order_of_words_panics(text in soups()) {
        let node = node();
        let strict = Target::parse(&text, MatchKind::Compound).and_then(|t| t.matches(&node));
        let lenient = Target::parse_lenient(&text, MatchKind::Compound).matches(&node);
        if let Ok(answer) = strict {
            prop_assert_eq!(lenient, Ok(answer));
        }
    }

    #[test]
    fn printed_and_read_again_it_is_the_same(text in targets()) {
        let once = Target::parse(&text, MatchKind::Compound).unwrap();
        let again = Target::parse(&once.to_string(), MatchKind::Compound).unwrap();
        let (TargetBody::Tree(a), TargetBody::Tree(b)) = (&once.body, &again.body) else { panic!("both are trees") };
        prop_assert_eq!(a, b);
        prop_assert_eq!(once.to_string(), again.to_string());
    }

    #[test]
    fn twice_not_is_nothing(a in targets()) {
        prop_assert_eq!(ask(&format!("not ( not {a} )")), ask(&a));
        prop_assert_ne!(ask(&format!("not {a}")), ask(&a));
    }

    #[test]
    fn de_morgan(a in targets(), b in targets()) {
        prop_assert_eq!(ask(&format!("not ( {a} and {b} )")), ask(&format!("not {a} or not {b}")));
        prop_assert_eq!(ask(&format!("not ( {a} or {b} )")), ask(&format!("not {a} and not {b}")));
    }

    #[test]
    fn a_compound_agrees_with_its_parts(a in targets(), b in targets(), c in targets()) {
        let (x, y, z) = (ask(&a), ask(&b), ask(&c));
        prop_assert_eq!(ask(&format!("{a} and {b}")), x && y);
        prop_assert_eq!(ask(&format!("{a} or {b} and not {c}")), x || (y && !z));
        prop_assert_eq!(ask(&format!("{a} not {b} or {c}")), (x && !y) || z);
    }

    #[test]
    fn a_letter_means_its_kind(pattern in "[a-z*?.\\[\\]!-]{1,8}", key in "(os|roles|nested:a|none|\\*)") {
        let node = node();
        for (text, kind, word) in [
            (pattern.clone(), MatchKind::Glob, pattern.clone()),
            (pattern.clone(), MatchKind::List, format!("L@{pattern}")),
            (format!("{key}:{pattern}"), MatchKind::Grain, format!("G@{key}:{pattern}")),
            (format!("{key}:{pattern}"), MatchKind::GrainPcre, format!("P@{key}:{pattern}")),
            (format!("{key}:{pattern}"), MatchKind::Pillar, format!("I@{key}:{pattern}")),
        ] {
            prop_assume!(!matches!(pattern.as_str(), "and" | "or" | "not"));
            let simple = Target::parse_lenient(&text, kind).matches(&node);
            let compound = Target::parse_lenient(&word, MatchKind::Compound).matches(&node);
            prop_assert_eq!(simple, compound, "{}", word);
        }
    }
}

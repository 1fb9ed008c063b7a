//! Packs that were truncated or changed in transit: never accepted, and the next correct fetch repairs the store.

use std::sync::{Arc, Mutex};

use zagent_cache::testing::judged;

use super::fixture::{RemoteFixture, long_deadline, read_top};

/// How many altered packs are tried.
fn cases() -> u64 {
    std::env::var("PACK_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// A number that depends only on the case and the purpose.
fn number(case: u64, purpose: u64) -> u64 {
    let mut x = case.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for shift in [33, 29, 32] {
        x ^= x >> shift;
        x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    x ^ (x >> 31)
}

fn alter(mut body: Vec<u8>, case: u64) -> Vec<u8> {
    let start = body.windows(4).position(|part| part == b"PACK").unwrap();
    let at = start + usize::try_from(number(case, 1)).unwrap_or(usize::MAX) % (body.len() - start);
    match case % 4 {
        0 => body.truncate(at),
        1 => {
            let anywhere = usize::try_from(number(case, 2)).unwrap_or(usize::MAX) % body.len();
            body[anywhere] ^= 1 << (number(case, 3) % 8);
        }
        2 => body[at] ^= 1 << (number(case, 3) % 8),
        _ => {
            let end = (at + 64).min(body.len());
            body[at..end].fill(0);
        }
    }
    body
}

#[test]
fn changed_packs_are_never_accepted() {
    let (mut fixture, first) = RemoteFixture::with_commit();
    let second = fixture.commit("two");
    let current = Arc::new(Mutex::new(0));
    let case_now = current.clone();
    fixture.server.set_response_filter(move |body| alter(body, *case_now.lock().unwrap()));
    let (mut honest, mut lying) = (fixture.client(""), fixture.client("changed"));
    let (mut refused, all) = (0, cases());
    for case in 0..all {
        *current.lock().unwrap() = case;
        let store = fixture.store("store");
        if case % 2 == 0 {
            honest.fetch(&store, "main", &mut judged(&first), long_deadline()).unwrap();
        }
        match lying.fetch(&store, "main", &mut judged(&second), long_deadline()) {
            Ok(()) => assert_eq!(read_top(&store, &second), "two", "case {case}"),
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("http://127.0.0.1"), "case {case}: {error}");
                // Truncated after the last relevant byte, the objects are complete and correct.
                assert!(
                    !store.has_commit(&second) || read_top(&store, &second) == "two",
                    "case {case}: {error:?}"
                );
                assert_eq!(store.has_commit(&first), case % 2 == 0, "case {case}");
            }
        }
        honest.fetch(&store, "main", &mut judged(&second), long_deadline()).unwrap();
        assert_eq!(read_top(&store, &second), "two", "case {case}");
        store.discard().unwrap();
    }
    assert!(refused > all / 2, "{refused} of {all} were refused");
}

//! Items in, answers in the same order out: so many at a time, each apart from the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does something for each item, at most `jobs` at a time. A panic is the answer of that item alone.
pub(super) fn for_each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    act: impl Fn(&T) -> Result<R, String> + Sync,
) -> Vec<Result<R, String>> {
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<Result<R, String>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::SeqCst)).filter(|index| *index < items.len())
        {
            let answer = catch_unwind(AssertUnwindSafe(|| act(&items[index])));
            let answer =
                answer.unwrap_or_else(|_| Err("it failed with a panic; this is a defect of zagent".into()));
            *answers[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let taken = |answer: Mutex<Option<Result<R, String>>>| {
        answer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .unwrap_or_else(|| Err("it was not started".into()))
    };
    answers.into_iter().map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_and_never_too_many_at_a_time() {
        let (busy, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items: Vec<usize> = (0..20).collect();
        let answers = for_each(&items, 3, |n| {
            most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            busy.fetch_sub(1, Ordering::SeqCst);
            match n {
                7 => panic!("one of them"),
                8 => Err("no".to_owned()),
                n => Ok(n * 2),
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!((&answers[6], &answers[8], &answers[19]), (&Ok(12), &Err("no".to_owned()), &Ok(38)));
        assert!(answers[7].as_ref().is_err_and(|words| words.contains("panic")));
        assert!(for_each(&[], 3, |(): &()| Ok(())).is_empty());
    }
}

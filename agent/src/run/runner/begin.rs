//! A node that may start in, whether and how it runs out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::{Chunk, Compat, Requisite, name_text, schema};
use zagent_config::Value;

use super::{Halt, Runner};
use crate::run::converge::{Ended, How, Reacts, Shadow, Task, panic_words};
use crate::run::requisite::{self, Decision, Seen};
use crate::run::{Mode, slot};
use crate::states::Failure;

impl<'p> Runner<'_, 'p> {
    /// Decides about a node that may start.
    pub(super) fn begin(&mut self, index: usize) {
        let chunk = &self.stage.plan.chunks[index];
        let tag = chunk.tag();
        if self.halt.is_none()
            && (self.stage.cancel.is_said() || self.deadline.is_some_and(|d| Instant::now() >= d))
        {
            self.stop();
        }
        if let Some(mark) = self.decided.get(&tag).copied() {
            self.marks[index] = Some(mark);
            return self.queue.finish(index);
        }
        if self.halt.is_some() {
            return self.queue_skip(index, tag);
        }
        let seen = self.seen(index);
        match requisite::decide(&seen, self.settings.compat) {
            Decision::Run => self.call(index, tag, Reacts::No),
            Decision::MayReact => self.call(index, tag, Reacts::Perhaps),
            Decision::React => {
                let fired = self.fired(index);
                self.shared.fired.lock().unwrap_or_else(PoisonError::into_inner).insert(tag.clone(), fired);
                self.call(index, tag, Reacts::Yes);
            }
            Decision::Unknown => {
                let why = "whether it runs depends on a state that nobody can foresee";
                self.settle(index, tag, None, Ended::unknown(why));
            }
            Decision::Skip(reason) => {
                let failed = requisite::failed(&seen);
                self.skip(index, tag, reason, &failed);
            }
        }
    }

    /// How those that a chunk waits for have ended.
    pub(super) fn seen(&self, index: usize) -> Vec<Seen<'p>> {
        let plan = self.stage.plan;
        let all = self.graph.requisites.of(index).iter();
        all.filter_map(|&(from, kind)| {
            let mark = self.marks[from]?;
            let chunk = &plan.chunks[from];
            Some(Seen {
                kind,
                id: (&*chunk.sls, &*chunk.id),
                result: mark.result,
                changed: mark.changed,
                ran: mark.ran,
                unknown: mark.unknown,
                may_fail: mark.may_fail,
                shaky: mark.shaky,
            })
        })
        .collect()
    }

    /// What a watcher watches and has changed, as `state: id`, in the order it names them.
    pub(super) fn fired(&self, index: usize) -> Vec<String> {
        let chunks = &self.stage.plan.chunks;
        let watched = self.graph.requisites.of(index).iter();
        let watched = watched.filter(|(_, kind)| matches!(kind, Requisite::Watch | Requisite::WatchAny));
        let mut fired: Vec<&Chunk> = watched
            .filter(|(from, _)| self.marks[*from].is_some_and(|m| m.changed))
            .map(|(from, _)| &chunks[*from])
            .collect();
        let named: Vec<&Value> = ["watch", "watch_any"]
            .iter()
            .filter_map(|key| chunks[index].args.get(key).and_then(Value::as_list))
            .flat_map(|list| list.iter())
            .collect();
        let place = |chunk: &Chunk| {
            let is_meant = |word: &Value| {
                let word = name_text(word);
                *word == *chunk.id || word == name_text(&chunk.name) || *word == *chunk.sls
            };
            named.iter().position(|item| match item {
                Value::Map(map) => map.values().any(is_meant),
                bare => is_meant(bare),
            })
        };
        fired.sort_by_key(|chunk| place(chunk).unwrap_or(usize::MAX));
        fired.into_iter().map(|chunk| format!("{}: {}", chunk.state, chunk.id)).collect()
    }

    pub(super) fn call(&mut self, index: usize, tag: String, react: Reacts) {
        let chunk = &self.stage.plan.chunks[index];
        if let Some(words) = self.misfit(chunk) {
            self.given_up = Some(words);
            self.halt = Some(Halt::GivenUp);
            return self.queue.finish(index);
        }
        let how = match self.settings.mode {
            _ if chunk.prereq.check => How::Look,
            Mode::Test => How::Foresee,
            Mode::Apply | Mode::Revert => How::Apply,
        };
        let chunk = match catch_unwind(AssertUnwindSafe(|| slot::fill(chunk, self.stage.host))) {
            Ok(chunk) => chunk,
            Err(panic) => {
                let ended = Ended::failed(Failure::new(panic_words(&*panic)));
                return self.settle(index, tag, None, ended);
            }
        };
        let task = Task {
            index,
            chunk,
            tag,
            state: None,
            looked: None,
            how,
            react,
            listener: false,
            shadow: self.shadow(index),
            start: Timestamp::now(),
            begun: Instant::now(),
        };
        self.dispatch(task);
    }

    /// An argument that Salt refuses when it calls the function, which ends its whole run.
    pub(super) fn misfit(&mut self, chunk: &Chunk) -> Option<String> {
        if self.settings.compat != Compat::Salt {
            return None;
        }
        let Chunk { state, fun, .. } = chunk;
        let function = (Arc::clone(state), Arc::clone(fun));
        let table = self.tables.entry(function).or_insert_with(|| {
            let function = schema::function(state, fun).filter(|f| !f.takes_any());
            function.map(schema::Table::new)
        });
        let table = table.as_ref()?;
        let alien = |k: &&str| !k.starts_with("__") && table.kinds(k).is_none();
        let key = chunk.args.keys().filter_map(Value::as_str).find(alien)?;
        Some(format!("'{key}' is an invalid keyword argument for '{state}.{fun}'"))
    }

    /// What would have been done to the host before a state looks, in a dry run.
    pub(super) fn shadow(&self, index: usize) -> Shadow {
        if self.settings.mode != Mode::Test || self.settings.compat == Compat::Salt {
            return Shadow::default();
        }
        let mut all = Shadow::default();
        for from in self.graph.before(index) {
            if let Some(mark) = self.marks[from] {
                all.veil |= mark.shadow.veil;
                all.any |= mark.shadow.any;
            }
        }
        for from in self.graph.under(index) {
            if let Some(mark) = self.marks[from] {
                all.below |= mark.veil;
            }
        }
        all
    }
}

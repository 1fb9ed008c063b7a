//! The workers: what may take longer than microseconds runs here, never more of it than jobs.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use super::{Settings, Stage, scene};
use crate::fs::Masked;
use crate::run::converge::{Ended, Task, umask};
use crate::states::{Render, Shared, Template};

/// What a worker says.
pub(super) enum Message {
    Finished(usize, String, Option<u64>, Box<Ended>),
    Render(Template, Sender<Result<String, String>>),
}

/// What a worker is told: the task, and its run number when it already has one.
pub(super) type Work<'p> = (Task<'p>, Option<u64>);

/// A worker's life: take, run, tell.
pub(super) fn labour<'p>(
    stage: &Stage<'p>,
    settings: &Settings,
    work: &Mutex<Receiver<Work<'p>>>,
    to_me: &Sender<Message>,
    shared: &Shared,
) {
    let templates = Asks(to_me.clone());
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((mut task, number)) = next else { return };
        let tag = std::mem::take(&mut task.tag);
        let ended = {
            let _mask = Masked::set(umask(&task.chunk));
            let fs = stage.ground.fs(&tag);
            let scene = scene(stage, settings, &templates, shared, &*fs, &tag);
            task.run(&scene)
        };
        // Nobody listens any more only when the run itself is gone.
        let _ = to_me.send(Message::Finished(task.index, tag, number, Box::new(ended)));
    }
}

/// A worker has templates rendered by the thread that may.
struct Asks(Sender<Message>);

impl Render for Asks {
    fn render(&self, template: &Template) -> Result<String, String> {
        let (reply, answer) = mpsc::channel();
        let gone = || "the run has ended".to_owned();
        self.0.send(Message::Render(template.clone(), reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

/// The workers.
pub(super) struct Pool<'s, 'p> {
    pub(super) to_workers: Sender<Work<'p>>,
    pub(super) spawn: &'s dyn Fn(),
    pub(super) workers: usize,
    pub(super) busy: usize,
}

impl<'p> Pool<'_, 'p> {
    pub(super) fn give(&mut self, task: Task<'p>, number: Option<u64>) {
        if self.workers == self.busy {
            (self.spawn)();
            self.workers += 1;
        }
        self.busy += 1;
        // Workers live as long as this end does.
        let _ = self.to_workers.send((task, number));
    }
}

//! The workers: what may take longer than microseconds runs here, never more of it than jobs.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use super::{RunCtx, RunnerSettings, RunningState, state_ctx};
use crate::converge::{ConvergeResult, StateTask, chunk_umask};
use zagent_host::fs::UmaskGuard;
use zagent_states::{FileTemplate, RenderTemplate, RunShared};

/// What a worker says.
pub(crate) enum WorkerMessage {
    Finished(usize, String, Option<u64>, Box<ConvergeResult>),
    Render(FileTemplate, Sender<Result<String, String>>),
}

/// What a worker is told: the task, and its run number when it already has one.
pub(crate) type WorkItem<'p> = (StateTask<'p>, Option<u64>);

/// A worker's life: take, run, tell.
pub(crate) fn worker_loop<'p>(
    run_ctx: &RunCtx<'p>,
    settings: &RunnerSettings,
    work: &Mutex<Receiver<WorkItem<'p>>>,
    to_me: &Sender<WorkerMessage>,
    shared: &RunShared,
) {
    let templates = RenderProxy(to_me.clone());
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((mut task, number)) = next else { return };
        let tag = std::mem::take(&mut task.tag);
        let ended = {
            let _mask = UmaskGuard::set(chunk_umask(&task.chunk));
            let place = run_ctx.place(&task.chunk);
            let fs = run_ctx.state_fs(&place, &tag);
            let running = RunningState { place, tag: &tag, fs: &*fs };
            let ctx = state_ctx(run_ctx, settings, &templates, shared, running);
            task.run(&ctx)
        };
        // Nobody listens any more only when the run itself is gone.
        let _ = to_me.send(WorkerMessage::Finished(task.index, tag, number, Box::new(ended)));
    }
}

/// A worker has templates rendered by the thread that may.
struct RenderProxy(Sender<WorkerMessage>);

impl RenderTemplate for RenderProxy {
    fn render(&self, template: &FileTemplate) -> Result<String, String> {
        let (reply, answer) = mpsc::channel();
        let gone = || "the run has ended".to_owned();
        self.0.send(WorkerMessage::Render(template.clone(), reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

/// The workers.
pub(crate) struct WorkerPool<'s, 'p> {
    pub(crate) to_workers: Sender<WorkItem<'p>>,
    pub spawn: &'s dyn Fn(),
    pub(crate) workers: usize,
    pub busy: usize,
}

impl<'p> WorkerPool<'_, 'p> {
    pub(crate) fn send_task(&mut self, task: StateTask<'p>, number: Option<u64>) {
        if self.workers == self.busy {
            (self.spawn)();
            self.workers += 1;
        }
        self.busy += 1;
        // Workers live as long as this end does.
        let _ = self.to_workers.send((task, number));
    }
}

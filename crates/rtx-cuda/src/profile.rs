//! Times of kernels, one by one: for finding what a program spends its time on.
use crate::device::{Context, lock};
use rtx_core::Result;
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::Mutex;

/// How often each kernel ran, and for how many milliseconds.
#[derive(Default)]
pub(crate) struct Clock {
    times: Mutex<HashMap<String, (u64, f64)>>,
}

impl Clock {
    /// Queues work, waits for it and keeps its time.
    pub(crate) fn time(&self, context: &Context, name: String, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut events = [null_mut(); 2];
        for event in &mut events {
            // SAFETY: a handle to write.
            context.check(unsafe { (context.cuda.event_create)(event, 0) }, "an event")?;
        }
        let [from, to] = events;
        let mut ms = 0f32;
        // SAFETY: both events and the stream are this context's.
        unsafe {
            context.check((context.cuda.event_record)(from, context.stream), "an event")?;
            work()?;
            context.check((context.cuda.event_record)(to, context.stream), "an event")?;
            context.check((context.cuda.event_wait)(to), "earlier work")?;
            context.check((context.cuda.event_time)(&mut ms, from, to), "a time")?;
            (context.cuda.event_destroy)(from);
            (context.cuda.event_destroy)(to);
        }
        let mut times = lock(&self.times);
        let entry = times.entry(name).or_insert((0, 0.0));
        (entry.0, entry.1) = (entry.0 + 1, entry.1 + f64::from(ms));
        Ok(())
    }

    /// Everything so far, the longest first.
    pub(crate) fn take(&self) -> Vec<(String, u64, f64)> {
        let mut all: Vec<_> = lock(&self.times).drain().map(|(name, (count, ms))| (name, count, ms)).collect();
        all.sort_by(|a, b| b.2.total_cmp(&a.2));
        all
    }
}

//! What kernels report, brought to the host without waiting: a copy of the fault after each run, and an event behind it.
use crate::device::{Context, FAULT_BYTES};
use crate::sys::{self, Handle, NO_TIMING};
use rtx_core::Result;
use rtx_hal::{DeviceError, Fault, Receipt, Report};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Copies that are kept; more than a runtime leaves outstanding.
const COPIES: usize = 64;
/// Bytes from copy to copy.
const PITCH: usize = 32;

/// The ring of copies; made at the first receipt.
pub(crate) struct Reports {
    host: *mut c_void,
    events: Vec<Handle>,
    /// Receipts given.
    given: u64,
    /// Receipts below this have nothing to tell any more.
    void: u64,
}
// SAFETY: pinned memory and events of one context, used under the device's lock.
unsafe impl Send for Reports {}

impl Default for Reports {
    fn default() -> Self {
        Self { host: null_mut(), events: vec![], given: 0, void: 0 }
    }
}

impl Reports {
    /// Queues a copy of the fault; the context is current.
    pub(crate) fn receipt(&mut self, context: &Context) -> Result<Receipt> {
        if self.host.is_null() {
            // SAFETY: an address to write.
            let status = unsafe { (context.cuda.host_allocate)(&mut self.host, COPIES * PITCH, 0) };
            context.check(status, "pinned memory")?;
        }
        let at = (self.given % COPIES as u64) as usize;
        if self.events.len() <= at {
            let mut event = null_mut();
            // SAFETY: a handle to write.
            context.check(unsafe { (context.cuda.event_create)(&mut event, NO_TIMING) }, "an event")?;
            self.events.push(event);
        }
        // SAFETY: the copy has room; the fault has as many bytes; the event is this context's.
        unsafe {
            let to = self.host.byte_add(at * PITCH);
            let status = (context.cuda.read)(to, context.fault, FAULT_BYTES, context.stream);
            context.check(status, "a copy of what kernels report")?;
            context.check((context.cuda.event_record)(self.events[at], context.stream), "an event")?;
        }
        self.given += 1;
        Ok(Receipt(self.given - 1))
    }

    /// What was reported by then; the context is current.
    pub(crate) fn redeem(&mut self, context: &Context, receipt: Receipt, wait: bool) -> Result<Option<Report>> {
        if receipt.0 < self.void {
            return Ok(Some(None));
        }
        let at = (receipt.0 % COPIES as u64) as usize;
        let ask = if wait { context.cuda.event_wait } else { context.cuda.event_query };
        // SAFETY: an event of this context, recorded when the receipt was given.
        match unsafe { ask(self.events[at]) } {
            sys::NOT_READY => return Ok(None),
            status => context.check(status, "earlier work")?,
        }
        // SAFETY: the copy has arrived; it is three numbers.
        let [state, index, bound] = unsafe { self.host.byte_add(at * PITCH).cast::<[i64; 3]>().read_volatile() };
        if state == 0 {
            return Ok(Some(None));
        }
        // Copies that are under way tell of the same.
        context.wait()?;
        self.void = self.given;
        // SAFETY: the fault has as many bytes.
        let status = unsafe { (context.cuda.fill)(context.fault, 0, FAULT_BYTES, context.stream) };
        context.check(status, "memory")?;
        let fault = if bound < 0 { Fault::Check } else { Fault::Index { index, bound } };
        Ok(Some(Some(DeviceError { step: state as u32 - 1, fault })))
    }
}

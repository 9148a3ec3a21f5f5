//! Copies between host and device through pinned memory, a ring of pieces that are in flight.
use crate::device::Context;
use crate::sys::{Address, Handle, NO_TIMING};
use rtx_core::Result;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Bytes of one piece.
const PIECE: usize = 4 << 20;
/// Pieces of the ring.
const PIECES: usize = 4;

struct Piece {
    host: *mut c_void,
    /// When the copy that uses it is done.
    event: Handle,
    busy: bool,
}

/// The ring; made at the first copy.
#[derive(Default)]
pub(crate) struct Staging {
    pieces: Vec<Piece>,
    next: usize,
}
// SAFETY: addresses of pinned memory and events of one context, used under the device's lock.
unsafe impl Send for Staging {}

impl Staging {
    /// The next piece, when nothing uses it any more.
    fn take(&mut self, context: &Context) -> Result<usize> {
        if self.pieces.len() < PIECES {
            let (mut host, mut event) = (null_mut(), null_mut());
            // SAFETY: the context is current; both results are written here.
            unsafe {
                context.check((context.cuda.host_allocate)(&mut host, PIECE, 0), "pinned memory")?;
                context.check((context.cuda.event_create)(&mut event, NO_TIMING), "an event")?;
            }
            self.pieces.push(Piece { host, event, busy: false });
            return Ok(self.pieces.len() - 1);
        }
        let at = self.next;
        self.next = (at + 1) % PIECES;
        if std::mem::take(&mut self.pieces[at].busy) {
            // SAFETY: an event of this context.
            context.check(unsafe { (context.cuda.event_wait)(self.pieces[at].event) }, "a copy")?;
        }
        Ok(at)
    }

    /// Starts copies to the device; the bytes have been read when it returns.
    ///
    /// # Safety
    /// There is room at `to`.
    pub(crate) unsafe fn write(&mut self, context: &Context, to: Address, bytes: &[u8]) -> Result<()> {
        for (i, part) in bytes.chunks(PIECE).enumerate() {
            let at = self.take(context)?;
            let piece = &mut self.pieces[at];
            // SAFETY: a part fits into a piece, which nothing uses now; the caller's promise for the device.
            unsafe {
                piece.host.cast::<u8>().copy_from_nonoverlapping(part.as_ptr(), part.len());
                let to = to + (i * PIECE) as u64;
                context
                    .check((context.cuda.write)(to, piece.host, part.len(), context.stream), "a copy to the device")?;
                context.check((context.cuda.event_record)(piece.event, context.stream), "an event")?;
            }
            piece.busy = true;
        }
        Ok(())
    }

    /// Copies from the device, after all earlier work.
    ///
    /// # Safety
    /// There are as many bytes at `from`.
    pub(crate) unsafe fn read(&mut self, context: &Context, bytes: &mut [u8], from: Address) -> Result<()> {
        // One part is copied out of its piece while the next ones are on their way.
        let mut waiting: std::collections::VecDeque<(usize, &mut [u8])> = Default::default();
        for (i, part) in bytes.chunks_mut(PIECE).enumerate() {
            if waiting.len() == PIECES {
                self.land(context, waiting.pop_front())?;
            }
            let at = self.take(context)?;
            let piece = &self.pieces[at];
            // SAFETY: a part fits into a piece, which nothing uses now; the caller's promise for the device.
            unsafe {
                let from = from + (i * PIECE) as u64;
                context.check(
                    (context.cuda.read)(piece.host, from, part.len(), context.stream),
                    "a copy from the device",
                )?;
                context.check((context.cuda.event_record)(piece.event, context.stream), "an event")?;
            }
            waiting.push_back((at, part));
        }
        while let Some(next) = waiting.pop_front() {
            self.land(context, Some(next))?;
        }
        Ok(())
    }

    fn land(&mut self, context: &Context, part: Option<(usize, &mut [u8])>) -> Result<()> {
        let Some((at, part)) = part else { return Ok(()) };
        // SAFETY: an event of this context; after it the piece holds the part.
        unsafe {
            context.check((context.cuda.event_wait)(self.pieces[at].event), "a copy from the device")?;
            part.as_mut_ptr().copy_from_nonoverlapping(self.pieces[at].host.cast::<u8>(), part.len());
        }
        Ok(())
    }
}

//! Memory that values live in: size classes of freed blocks, so that a steady loop asks the device for nothing.
use crate::lock;
use rtx_core::{IdMap, Kind, Result};
use rtx_hal::{Block, Device};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Freed bytes that are kept for reuse even where little has ever been in use at once.
const KEEP_BYTES: usize = 64 << 20;

/// Hands out blocks and takes them back.
pub(crate) struct Pool {
    device: Arc<dyn Device>,
    free: Mutex<Free>,
    live: AtomicUsize,
    peak: AtomicUsize,
}

/// Freed blocks by size.
#[derive(Default)]
struct Free {
    blocks: IdMap<usize, Vec<Block>>,
    bytes: usize,
}

impl Pool {
    pub(crate) fn new(device: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self { device, free: Mutex::default(), live: AtomicUsize::new(0), peak: AtomicUsize::new(0) })
    }

    /// Memory of at least so many bytes, contents unspecified.
    ///
    /// # Errors
    /// [`Kind::Memory`], after freed blocks have been given back to the device.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Result<Memory> {
        let class = size_class(bytes);
        let reused = lock(&self.free).pop(class);
        let block = match reused {
            Some(block) => block,
            None => self.allocate(class)?,
        };
        self.count(block.bytes());
        Ok(Memory { block: Some(block), pool: self.clone() })
    }

    /// Freed blocks go back to the device.
    pub(crate) fn trim(&self) {
        let freed = std::mem::take(&mut *lock(&self.free));
        drop(freed);
    }

    pub(crate) fn live_bytes(&self) -> usize {
        self.live.load(Relaxed)
    }

    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Starts a new measurement of the peak.
    pub(crate) fn reset_peak(&self) {
        self.peak.store(self.live_bytes(), Relaxed)
    }

    pub(crate) fn cached_bytes(&self) -> usize {
        lock(&self.free).bytes
    }

    /// A new block; on shortage, freed ones are given back first.
    fn allocate(&self, bytes: usize) -> Result<Block> {
        match Block::new(&self.device, bytes) {
            Err(e) if e.kind() == Kind::Memory && self.cached_bytes() > 0 => {
                self.trim();
                Block::new(&self.device, bytes)
            }
            other => other,
        }
    }

    fn count(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(live, Relaxed);
    }

    /// Keeps a block for reuse, unless as much is kept as has ever been in use.
    fn give(&self, block: Block) {
        self.live.fetch_sub(block.bytes(), Relaxed);
        let bound = KEEP_BYTES + self.peak_bytes();
        let mut free = lock(&self.free);
        if free.bytes + block.bytes() <= bound {
            free.push(block);
        }
    }
}

impl Free {
    fn pop(&mut self, class: usize) -> Option<Block> {
        let block = self.blocks.get_mut(&class)?.pop()?;
        self.bytes -= block.bytes();
        Some(block)
    }

    fn push(&mut self, block: Block) {
        self.bytes += block.bytes();
        self.blocks.entry(block.bytes()).or_default().push(block);
    }
}

/// Eight sizes in each power of two: at most an eighth is wasted, and sizes that recur fall in one class.
pub(crate) fn size_class(bytes: usize) -> usize {
    let bytes = bytes.max(1);
    let step = ((1usize << bytes.ilog2()) / 8).max(64);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// A block that goes back to its pool.
pub(crate) struct Memory {
    /// `None` only while it is dropped.
    block: Option<Block>,
    pool: Arc<Pool>,
}

impl Memory {
    /// The first byte.
    pub(crate) fn ptr(&self) -> *mut u8 {
        self.block.as_ref().map_or(std::ptr::null_mut(), Block::ptr)
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.block.as_ref().map_or(0, Block::bytes)
    }

    /// Gives it back to the device rather than to the pool.
    pub(crate) fn discard(mut self) {
        if let Some(block) = self.block.take() {
            self.pool.live.fetch_sub(block.bytes(), Relaxed);
        }
    }

    /// Where it lies.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.pool.device
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give(block)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn classes_waste_an_eighth_at_most() {
        assert_eq!([0, 1, 64, 65, 512, 1000, 1025].map(size_class), [64, 64, 64, 128, 512, 1024, 1152]);
        for bytes in (1..100_000).step_by(37).chain([usize::MAX]) {
            let class = size_class(bytes);
            assert!(class >= bytes && class - bytes <= bytes / 8 + 64, "{bytes} in {class}");
            assert_eq!(size_class(class), class);
        }
    }
}

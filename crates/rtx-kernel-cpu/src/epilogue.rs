//! Epilogues: tile programs that a native kernel runs on each part of its result while it is in cache.
use rtx_core::Result;
use rtx_cpu::TileCode;
use rtx_hal::{Code, Device, KernelSource, Lang, Launch, malformed};
use std::sync::Arc;

/// The epilogue's launch as several threads see it.
pub(crate) struct Rest<'a>(pub Launch<'a>);
// SAFETY: threads only read the launch; what they write through the pointers is apart.
unsafe impl Sync for Rest<'_> {}

/// A tile program over the axes of a kernel's result, run on each part that is final. Its first buffer is the result.
pub(crate) struct Epilogue(Arc<dyn Code>);

impl Epilogue {
    /// Loads the text, if there is one: a program over so many parallel axes.
    pub fn load(text: &str, device: &dyn Device, axes: usize) -> Result<Option<Self>> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let source = KernelSource { name: "epilogue".into(), lang: Lang::Tile, text: text.into() };
        let code = device.load(&source)?;
        let Some(tile) = code.as_any().downcast_ref::<TileCode>() else { return Err(malformed("epilogue", text)) };
        let given = &tile.program().nest().axes;
        if given.len() != axes || given.iter().any(|axis| axis.walk) {
            return Err(malformed("epilogue over other axes", text));
        }
        Ok(Some(Self(code)))
    }

    /// Runs it on the points `lo .. hi`.
    ///
    /// # Safety
    /// The buffers of `rest` are what its sizes say, these points of the result are final, and nobody else touches
    /// what the program writes for them.
    pub unsafe fn run_box(&self, rest: &Rest<'_>, lo: &[i64], hi: &[i64]) {
        // `load` let nothing else through.
        let tile: &TileCode = self.0.as_any().downcast_ref().expect("an epilogue is a tile program");
        // SAFETY: the caller's promise.
        unsafe { tile.run_box(&rest.0, lo, hi) }
    }
}

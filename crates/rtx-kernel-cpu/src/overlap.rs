//! The claim's kernel `overlap_add`: windows added up where they overlap, each element in ascending order of the
//! windows that fall on it.
//!
//! Text: `<f32|f64|i32|i64> <stride> <dilation>`. Sizes: `outer count inner window length`, then the strides of x
//! `outer count inner window` and of the result `outer length inner`.
use crate::simd::Number;
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool};
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Results with fewer elements than this are made in the calling thread.
const SPLIT_FROM: usize = 8 << 10;

/// The kernel `overlap_add`.
pub struct OverlapAdd;

impl NativeKernel for OverlapAdd {
    fn name(&self) -> &'static str {
        "overlap_add"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let wrong = || malformed("overlap_add", text);
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[dtype, stride, dilation] = words.as_slice() else { return Err(wrong()) };
        let step = |t: &str| t.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(wrong);
        let steps = Steps { stride: step(stride)?, dilation: step(dilation)? };
        match DType::parse(dtype) {
            Some(DType::F32) => Ok(Arc::new(OverlapCode::<f32>(steps, PhantomData))),
            Some(DType::F64) => Ok(Arc::new(OverlapCode::<f64>(steps, PhantomData))),
            Some(DType::I32) => Ok(Arc::new(OverlapCode::<i32>(steps, PhantomData))),
            Some(DType::I64) => Ok(Arc::new(OverlapCode::<i64>(steps, PhantomData))),
            _ => Err(wrong()),
        }
    }
}

#[derive(Clone, Copy)]
struct Steps {
    stride: usize,
    dilation: usize,
}

struct OverlapCode<T>(Steps, PhantomData<T>);

/// A launch.
struct Problem<T> {
    steps: Steps,
    count: usize,
    inner: usize,
    window: usize,
    len: usize,
    x: *const T,
    x_step: [isize; 4],
    y: *mut T,
    y_step: [isize; 3],
}
// SAFETY: each thread writes its own rows of the result and only reads x.
unsafe impl<T> Sync for Problem<T> {}

impl<T: Number> Code for OverlapCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let s = launch.sizes;
        let size = |i: usize| s[i].max(0) as usize;
        let problem = Problem::<T> {
            steps: self.0,
            count: size(1),
            inner: size(2),
            window: size(3),
            len: size(4),
            x: launch.buffers[0].cast_const().cast(),
            x_step: [5, 6, 7, 8].map(|i| s[i] as isize),
            y: launch.buffers[1].cast(),
            y_step: [9, 10, 11].map(|i| s[i] as isize),
        };
        let rows = size(0) * problem.len;
        let parts = if rows * problem.inner < SPLIT_FROM { 1 } else { pool::threads() };
        pool::run(parts, &|part| {
            let problem = &problem;
            let rows = rows * part / parts..rows * (part + 1) / parts;
            isa().run(
                #[inline(always)]
                // SAFETY: the caller says that the buffers are what the sizes say; rows of parts are apart.
                || unsafe { problem.run_rows(rows) },
            )
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<T: Number> Problem<T> {
    /// Rows of the result: an element of the axis for one outer index, all inner ones.
    #[inline(always)]
    unsafe fn run_rows(&self, rows: Range<usize>) {
        let Steps { stride, dilation } = self.steps;
        for row in rows {
            let (outer, j) = (row / self.len, row % self.len);
            let y = self.y.wrapping_offset(outer as isize * self.y_step[0] + j as isize * self.y_step[1]);
            let x = self.x.wrapping_offset(outer as isize * self.x_step[0]);
            let reach = self.window.saturating_sub(1) * dilation;
            let first = j.saturating_sub(reach).div_ceil(stride);
            let end = if self.window == 0 { 0 } else { self.count.min(j / stride + 1) };
            for inner in 0..self.inner as isize {
                let mut sum = T::ZERO;
                for i in first..end {
                    let into = j - i * stride;
                    if into.is_multiple_of(dilation) {
                        let at = i as isize * self.x_step[1]
                            + inner * self.x_step[2]
                            + (into / dilation) as isize * self.x_step[3];
                        // SAFETY: window `i` has element `into / dilation`, which is below `window`.
                        sum = sum.plus(unsafe { x.wrapping_offset(at).read() });
                    }
                }
                // SAFETY: the caller's promise.
                unsafe { y.wrapping_offset(inner * self.y_step[2]).write(sum) }
            }
        }
    }
}

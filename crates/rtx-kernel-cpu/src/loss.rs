//! The claims' kernels `cross_entropy` and `cross_entropy_backward`: a row of logits at a time.
//!
//! Text: `<f32|f64> <mean|sum|none> ignore=<i64> smoothing=<bits of an f64, hex>`.
//! Sizes: `n c`, then the strides of the buffers' groups: logits `n c`, targets `n`, (backward: lse `n`, cotangent none,
//! or `n` with `none`), results: loss none, or `n` with `none`, and lse `n`; backward: slopes `n c`.
//! A target that is neither a class nor ignored is reported, and its row counts as one of class 0.
//!
//! Numerics: the body's: a row's sums and the sum over rows follow the tree of contract N3.
use crate::row::{LANES, Real, exps, row_exp_sum, row_max, row_sum};
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool, with_scratch};
use rtx_hal::{Code, Device, ErrorSlot, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Logits below this many run in the calling thread.
const SPLIT_FROM: usize = 8 << 10;

/// The kernel `cross_entropy`.
pub struct CrossEntropy;
/// The kernel `cross_entropy_backward`.
pub struct CrossEntropyBackward;

/// How rows become the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Mean,
    Sum,
    None,
}

/// What is fixed when the kernel is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    pub reduction: Reduction,
    pub ignore: i64,
    pub smoothing: f64,
}

impl Settings {
    /// The text after the kernel's name.
    pub(crate) fn print(&self, dtype: DType) -> String {
        let reduction = match self.reduction {
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
            Reduction::None => "none",
        };
        format!("{dtype} {reduction} ignore={} smoothing={:016x}", self.ignore, self.smoothing.to_bits())
    }
    fn parse(text: &str) -> Option<(DType, Self)> {
        let mut words = text.split_whitespace();
        let dtype = DType::parse(words.next()?)?;
        let reduction = match words.next()? {
            "mean" => Reduction::Mean,
            "sum" => Reduction::Sum,
            "none" => Reduction::None,
            _ => return None,
        };
        let ignore = words.next()?.strip_prefix("ignore=")?.parse().ok()?;
        let smoothing = u64::from_str_radix(words.next()?.strip_prefix("smoothing=")?, 16).ok()?;
        Some((dtype, Self { reduction, ignore, smoothing: f64::from_bits(smoothing) }))
    }
}

impl NativeKernel for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        match Settings::parse(text) {
            Some((DType::F32, s)) => Ok(Arc::new(Forward::<f32>(s, PhantomData))),
            Some((DType::F64, s)) => Ok(Arc::new(Forward::<f64>(s, PhantomData))),
            _ => Err(malformed("cross_entropy", text)),
        }
    }
}
impl NativeKernel for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        match Settings::parse(text) {
            Some((DType::F32, s)) => Ok(Arc::new(Backward::<f32>(s, PhantomData))),
            Some((DType::F64, s)) => Ok(Arc::new(Backward::<f64>(s, PhantomData))),
            _ => Err(malformed("cross_entropy_backward", text)),
        }
    }
}

/// Logits and targets.
struct Rows<'a, T> {
    settings: Settings,
    n: usize,
    c: usize,
    logits: *const T,
    logit_strides: [isize; 2],
    targets: *const i64,
    target_step: isize,
    error: &'a ErrorSlot,
}
// SAFETY: operands are only read.
unsafe impl<T> Sync for Rows<'_, T> {}

impl<'a, T: Real> Rows<'a, T> {
    fn read(settings: Settings, launch: &Launch<'a>) -> Self {
        let sizes = launch.sizes;
        Self {
            settings,
            n: sizes[0].max(0) as usize,
            c: sizes[1].max(0) as usize,
            logits: launch.buffers[0].cast(),
            logit_strides: [sizes[2] as isize, sizes[3] as isize],
            targets: launch.buffers[1].cast(),
            target_step: sizes[4] as isize,
            error: launch.error,
        }
    }
    /// The class of a row; `None` if it is ignored.
    unsafe fn class(&self, i: usize) -> Option<usize> {
        // SAFETY: the caller's promise: there is a target for each row.
        let class = unsafe { self.targets.wrapping_offset(i as isize * self.target_step).read_unaligned() };
        if class == self.settings.ignore {
            return None;
        }
        if !(0..self.c as i64).contains(&class) {
            self.error.report(class, self.c as i64);
            return Some(0);
        }
        Some(class as usize)
    }
    /// Rows that count.
    unsafe fn counted(&self) -> usize {
        // SAFETY: the caller's promise.
        let ignored = |i: &usize| unsafe {
            self.targets.wrapping_offset(*i as isize * self.target_step).read_unaligned() == self.settings.ignore
        };
        self.n - (0..self.n).filter(ignored).count()
    }
    /// A row side by side, through `held` where its elements are apart.
    #[inline(always)]
    unsafe fn row(&self, i: usize, held: *mut T) -> &[T] {
        let first = self.logits.wrapping_offset(i as isize * self.logit_strides[0]);
        // SAFETY: the caller's promise; `held` has room for a row.
        unsafe {
            if self.logit_strides[1] == 1 {
                return std::slice::from_raw_parts(first, self.c);
            }
            for j in 0..self.c {
                held.add(j).write(first.wrapping_offset(j as isize * self.logit_strides[1]).read());
            }
            std::slice::from_raw_parts(held, self.c)
        }
    }
    /// The loss of a row.
    #[inline(always)]
    fn loss(&self, row: &[T], level: T, class: usize) -> T {
        let (smoothing, classes) = (self.settings.smoothing, self.c as f64);
        let plain = level - row.get(class).copied().unwrap_or(T::ZERO);
        if smoothing == 0.0 {
            return plain;
        }
        let spread = (level * T::of(classes) - row_sum(row)) * T::of(smoothing / classes);
        plain * T::of(1.0 - smoothing) + spread
    }
    /// Runs `f` over parts of the rows, in the pool where it is worth it.
    fn in_parts(&self, f: &(dyn Fn(Range<usize>) + Sync)) {
        let parts = if self.n * self.c < SPLIT_FROM { 1 } else { pool::threads().min(self.n).max(1) };
        pool::run(parts, &|part| f(self.n * part / parts..self.n * (part + 1) / parts));
    }
}

/// A pointer that threads write through, apart from each other.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
// SAFETY: see above.
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    fn at(&self, i: usize, step: isize) -> *mut T {
        self.0.wrapping_offset(i as isize * step)
    }
}

struct Forward<T>(Settings, PhantomData<T>);

impl<T: Real> Code for Forward<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let rows = Rows::<T>::read(self.0, launch);
        let none = self.0.reduction == Reduction::None;
        let (loss_step, lse_at) = if none { (launch.sizes[5] as isize, 6) } else { (1, 5) };
        let (loss, lse) = (Shared(launch.buffers[2].cast::<T>()), Shared(launch.buffers[3].cast::<T>()));
        let lse_step = launch.sizes[lse_at] as isize;
        with_scratch(rows.n * size_of::<T>(), |scratch| {
            let each = if none { loss } else { Shared(scratch.cast::<T>()) };
            rows.in_parts(&|part| {
                let (rows, each, lse) = (&rows, &each, &lse);
                with_scratch(rows.c * size_of::<T>(), |held| {
                    isa().run(
                        #[inline(always)]
                        // SAFETY: the caller's promise; each row is one part's; `held` has room for a row.
                        || unsafe { forward_rows(rows, part, held.cast(), (each, loss_step), (lse, lse_step)) },
                    )
                })
            });
            if none {
                return;
            }
            // SAFETY: every row has been written; the loss is one element.
            unsafe {
                let all = std::slice::from_raw_parts(scratch.cast::<T>(), rows.n);
                let sum = isa().run(
                    #[inline(always)]
                    || row_sum(all),
                );
                let mean = self.0.reduction == Reduction::Mean;
                loss.0.write(if mean { sum / T::of(rows.counted() as f64) } else { sum });
            }
        })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[inline(always)]
unsafe fn forward_rows<T: Real>(
    rows: &Rows<'_, T>,
    part: Range<usize>,
    held: *mut T,
    (loss, loss_step): (&Shared<T>, isize),
    (lse, lse_step): (&Shared<T>, isize),
) {
    for i in part {
        // SAFETY: the caller's promise.
        unsafe {
            let row = rows.row(i, held);
            let top = row_max(row);
            let level = row_exp_sum(row, top).log() + top;
            lse.at(i, lse_step).write(level);
            let value = rows.class(i).map_or(T::ZERO, |class| rows.loss(row, level, class));
            loss.at(i, loss_step).write(value);
        }
    }
}

struct Backward<T>(Settings, PhantomData<T>);

impl<T: Real> Code for Backward<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let rows = Rows::<T>::read(self.0, launch);
        let sizes = launch.sizes;
        let lse = Shared(launch.buffers[2].cast::<T>());
        let lse_step = sizes[5] as isize;
        let none = self.0.reduction == Reduction::None;
        let (dloss_step, out_at) = if none { (sizes[6] as isize, 7) } else { (0, 6) };
        let dloss = Shared(launch.buffers[3].cast::<T>());
        let out = Shared(launch.buffers[4].cast::<T>());
        let out_strides = [sizes[out_at] as isize, sizes[out_at + 1] as isize];
        // SAFETY: the caller's promise.
        let counted = if self.0.reduction == Reduction::Mean { unsafe { rows.counted() } } else { 1 };
        rows.in_parts(&|part| {
            let (rows, lse, dloss, out) = (&rows, &lse, &dloss, &out);
            isa().run(
                #[inline(always)]
                || {
                    for i in part {
                        // SAFETY: the caller's promise; each row is one part's.
                        unsafe {
                            let level = lse.at(i, lse_step).read();
                            let mut scale = dloss.at(i, dloss_step).read();
                            if rows.settings.reduction == Reduction::Mean {
                                scale = scale / T::of(counted as f64);
                            }
                            backward_row(rows, i, level, scale, out.at(i, out_strides[0]), out_strides[1]);
                        }
                    }
                },
            )
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A slope less what smoothing spreads over all classes.
#[inline(always)]
fn slope<T: Real>(p: T, smooth: bool, spread: T) -> T {
    if smooth { p - spread } else { p }
}

/// `(exp(x - lse) - (1 - ε) onehot - ε/C) · scale`; the row of logits and the result may be the same memory.
#[inline(always)]
unsafe fn backward_row<T: Real>(rows: &Rows<'_, T>, i: usize, lse: T, scale: T, out: *mut T, step: isize) {
    let smoothing = rows.settings.smoothing;
    let first = rows.logits.wrapping_offset(i as isize * rows.logit_strides[0]);
    let x_step = rows.logit_strides[1];
    // SAFETY: the caller's promise: row i of the logits and of the result exist.
    unsafe {
        let Some(class) = rows.class(i) else {
            for j in 0..rows.c as isize {
                out.wrapping_offset(j * step).write(T::ZERO);
            }
            return;
        };
        if class >= rows.c {
            return;
        }
        let picked = (first.wrapping_offset(class as isize * x_step).read() - lse).exp();
        let smooth = smoothing != 0.0;
        let (hot, spread) = (T::of(1.0 - smoothing), T::of(smoothing / rows.c as f64));
        let full = if x_step == 1 && step == 1 { rows.c / LANES * LANES } else { 0 };
        for j in (0..full).step_by(LANES) {
            let mut p = exps(first.add(j).cast::<[T; LANES]>().read_unaligned(), lse);
            for p in &mut p {
                *p = slope(*p, smooth, spread) * scale;
            }
            out.add(j).cast::<[T; LANES]>().write_unaligned(p);
        }
        for j in full as isize..rows.c as isize {
            let p = (first.wrapping_offset(j * x_step).read() - lse).exp();
            out.wrapping_offset(j * step).write(slope(p, smooth, spread) * scale);
        }
        out.wrapping_offset(class as isize * step).write(slope(picked - hot, smooth, spread) * scale);
    }
}

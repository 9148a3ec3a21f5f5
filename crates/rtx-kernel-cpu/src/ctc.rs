//! The claims' kernels `ctc` and `ctc_backward`: the sums over all ways to spell the targets, a sequence at a time, in f64.
//!
//! Text: `<f32|f64> <blank>`. Sizes: `t n c s`, then the strides of log_probs `t n c`, targets `n s`, both lengths `n`,
//! (backward: loss `n`, cotangent `n`), results: losses `n`; backward: slopes `t n c`. A target that is no class is
//! reported, and counts as class 0. A sequence is one thread's, so bits do not depend on their number.
use crate::real::Real;
use rtx_core::{DType, Result};
use rtx_cpu::pool;
use rtx_hal::{Code, Device, ErrorSlot, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// The kernel `ctc`.
pub struct CtcKernel;
/// The kernel `ctc_backward`.
pub struct CtcBackwardKernel;

fn load(name: &str, text: &str, backward: bool) -> Result<Arc<dyn Code>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[dtype, blank] = words.as_slice() else { return Err(malformed(name, text)) };
    let blank: usize = blank.parse().map_err(|_| malformed(name, text))?;
    match DType::parse(dtype) {
        Some(DType::F32) => Ok(Arc::new(Ctc::<f32> { blank, backward, element: PhantomData })),
        Some(DType::F64) => Ok(Arc::new(Ctc::<f64> { blank, backward, element: PhantomData })),
        _ => Err(malformed(name, text)),
    }
}
impl NativeKernel for CtcKernel {
    fn name(&self) -> &'static str {
        "ctc"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        load("ctc", text, false)
    }
}
impl NativeKernel for CtcBackwardKernel {
    fn name(&self) -> &'static str {
        "ctc_backward"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        load("ctc_backward", text, true)
    }
}

struct Ctc<T> {
    blank: usize,
    backward: bool,
    element: PhantomData<T>,
}

/// A buffer with up to three strides.
#[derive(Clone, Copy)]
struct View<T> {
    ptr: *mut T,
    strides: [isize; 3],
}
impl<T> View<T> {
    fn at(self, index: [usize; 3]) -> *mut T {
        let offset: isize = index.iter().zip(self.strides).map(|(&i, s)| i as isize * s).sum();
        self.ptr.wrapping_offset(offset)
    }
}
// SAFETY: each thread writes elements of its own sequences.
unsafe impl<T> Sync for View<T> {}

/// Buffers one after the other.
struct Views<'a> {
    launch: &'a Launch<'a>,
    buffer: usize,
    size: usize,
}
impl Views<'_> {
    fn next<T>(&mut self, dims: usize) -> View<T> {
        let stride = |i: usize| if i < dims { self.launch.sizes[self.size + i] as isize } else { 0 };
        let view = View { ptr: self.launch.buffers[self.buffer].cast(), strides: [stride(0), stride(1), stride(2)] };
        self.buffer += 1;
        self.size += dims;
        view
    }
}

impl<T: Real> Code for Ctc<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let [t, n, c, s] = [0, 1, 2, 3].map(|i| launch.sizes[i].max(0) as usize);
        let mut views = Views { launch, buffer: 0, size: 4 };
        let job = Job {
            blank: self.blank,
            t,
            c,
            s,
            x: views.next::<T>(3),
            targets: views.next(2),
            steps: views.next(1),
            sizes: views.next(1),
            error: launch.error,
        };
        if !self.backward {
            let out = views.next::<T>(1);
            pool::run(n, &|i| {
                // SAFETY: claims make the buffers as the sizes say; sequence `i` is one thread's.
                unsafe { out.at([i, 0, 0]).write(T::narrow(job.loss(i))) };
            });
            return;
        }
        let (loss, g, out) = (views.next::<T>(1), views.next::<T>(1), views.next::<T>(3));
        pool::run(n, &|i| {
            // SAFETY: as above.
            unsafe {
                job.slopes(i, loss.at([i, 0, 0]).read_unaligned().wide(), g.at([i, 0, 0]).read_unaligned().wide(), out)
            };
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A launch.
struct Job<'a, T> {
    blank: usize,
    t: usize,
    c: usize,
    s: usize,
    x: View<T>,
    targets: View<i64>,
    steps: View<i64>,
    sizes: View<i64>,
    error: &'a ErrorSlot,
}

/// A sequence: its labels with blanks around them.
struct Sequence {
    steps: usize,
    labels: Vec<usize>,
}

impl<T: Real> Job<'_, T> {
    /// # Safety
    /// The buffers are as the sizes say.
    unsafe fn sequence(&self, i: usize) -> Sequence {
        // SAFETY: the caller's promise; lengths are cut to what is there.
        let [steps, size] =
            [self.steps, self.sizes].map(|v| unsafe { v.at([i, 0, 0]).read_unaligned() }.max(0) as usize);
        let (steps, size) = (steps.min(self.t), size.min(self.s));
        let mut labels = vec![self.blank; 2 * size + 1];
        for j in 0..size {
            // SAFETY: as above.
            let class = unsafe { self.targets.at([i, j, 0]).read_unaligned() };
            labels[2 * j + 1] = match usize::try_from(class) {
                Ok(class) if class < self.c => class,
                _ => {
                    self.error.report(class, self.c as i64);
                    0
                }
            };
        }
        Sequence { steps, labels }
    }
    /// The logarithm of the probability of a class.
    ///
    /// # Safety
    /// The element exists.
    unsafe fn log(&self, t: usize, i: usize, class: usize) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { self.x.at([t, i, class]).read_unaligned() }.wide()
    }
    fn may_skip(&self, labels: &[usize], l: usize) -> bool {
        l >= 2 && labels[l] != self.blank && labels[l] != labels[l - 2]
    }
    /// For each step and label the logarithm of the sum over all ways that end there.
    ///
    /// # Safety
    /// The buffers are as the sizes say.
    unsafe fn forward(&self, i: usize, q: &Sequence) -> Vec<f64> {
        let n = q.labels.len();
        let mut a = vec![f64::NEG_INFINITY; q.steps * n];
        for t in 0..q.steps {
            for l in 0..n {
                let sum = if t == 0 {
                    if l < 2 { 0.0 } else { f64::NEG_INFINITY }
                } else {
                    let before = |by: usize| if l >= by { a[(t - 1) * n + l - by] } else { f64::NEG_INFINITY };
                    let two = if self.may_skip(&q.labels, l) { before(2) } else { f64::NEG_INFINITY };
                    log_add([before(0), before(1), two])
                };
                // SAFETY: the caller's promise.
                a[t * n + l] = sum + unsafe { self.log(t, i, q.labels[l]) };
            }
        }
        a
    }
    /// The same from a label to the end.
    ///
    /// # Safety
    /// The buffers are as the sizes say.
    unsafe fn backward(&self, i: usize, q: &Sequence) -> Vec<f64> {
        let n = q.labels.len();
        let mut z = vec![f64::NEG_INFINITY; q.steps * n];
        for t in (0..q.steps).rev() {
            for l in 0..n {
                let sum = if t + 1 == q.steps {
                    if l + 2 >= n { 0.0 } else { f64::NEG_INFINITY }
                } else {
                    let after = |by: usize| if l + by < n { z[(t + 1) * n + l + by] } else { f64::NEG_INFINITY };
                    let skips = l + 2 < n && self.may_skip(&q.labels, l + 2);
                    log_add([after(0), after(1), if skips { after(2) } else { f64::NEG_INFINITY }])
                };
                // SAFETY: the caller's promise.
                z[t * n + l] = sum + unsafe { self.log(t, i, q.labels[l]) };
            }
        }
        z
    }
    /// # Safety
    /// The buffers are as the sizes say.
    unsafe fn loss(&self, i: usize) -> f64 {
        // SAFETY: the caller's promise.
        let (q, a) = unsafe {
            let q = self.sequence(i);
            let a = self.forward(i, &q);
            (q, a)
        };
        let n = q.labels.len();
        if q.steps == 0 {
            return if n == 1 { 0.0 } else { f64::INFINITY };
        }
        let last = &a[(q.steps - 1) * n..];
        let label = if n > 1 { last[n - 2] } else { f64::NEG_INFINITY };
        -log_add([last[n - 1], label, f64::NEG_INFINITY])
    }
    /// # Safety
    /// The buffers are as the sizes say, and what belongs to sequence `i` of `out` is this thread's.
    unsafe fn slopes(&self, i: usize, loss: f64, g: f64, out: View<T>) {
        // SAFETY: the caller's promise.
        let q = unsafe { self.sequence(i) };
        // Without a way nothing is taken.
        let steps = if g == 0.0 || loss == f64::INFINITY { 0 } else { q.steps };
        let n = q.labels.len();
        // SAFETY: the caller's promise.
        let (a, z) = unsafe { if steps == 0 { (vec![], vec![]) } else { (self.forward(i, &q), self.backward(i, &q)) } };
        let mut taken = vec![0.0; self.c];
        for t in 0..self.t {
            taken.fill(0.0);
            for l in 0..if t < steps { n } else { 0 } {
                // SAFETY: the caller's promise.
                let log = unsafe { self.log(t, i, q.labels[l]) };
                taken[q.labels[l]] += rustg::math::exp_f64(a[t * n + l] + z[t * n + l] - log + loss);
            }
            for (class, taken) in taken.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe {
                    let slope = if t < steps { -g * taken } else { 0.0 };
                    out.at([t, i, class]).write(T::narrow(slope));
                }
            }
        }
    }
}

/// `log(exp a + exp b + exp c)`.
fn log_add(terms: [f64; 3]) -> f64 {
    let top = terms[0].max(terms[1]).max(terms[2]);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + rustg::math::log_f64(terms.iter().map(|x| rustg::math::exp_f64(x - top)).sum::<f64>())
}

//! The claims' kernels `windowed_max` and `scatter_windows`: the largest element of each window with its position, and
//! elements added up at such positions.
//!
//! Text of the first: `<f32|f64|i32|i64> <dims>`, then for each of its one to three dims `window stride padding dilation`,
//! or `0 0 0 0` for an adaptive one. Sizes: `lead`, the dims of x, the dims of the result, then the strides of x `lead`
//! and dims, of the results `lead points` each. The first of equal elements counts, and of NaNs the first.
//! Text of the second: `<dtype>`. Sizes: `lead points size`, then strides: x `lead points`, indices `lead points`, result
//! `lead size`. Elements are added in ascending order of their points.
use crate::simd::Number;
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool, with_scratch};
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// Results with fewer elements than this are made in the calling thread.
const SPLIT_FROM: usize = 8 << 10;

/// The kernel `windowed_max`.
pub struct WindowedMax;
/// The kernel `scatter_windows`.
pub struct ScatterWindows;

/// An element with an order.
trait Ordered: Number + PartialOrd {
    /// Less than every element but NaN, or equal to it.
    const LEAST: Self;
}
impl Ordered for f32 {
    const LEAST: Self = f32::NEG_INFINITY;
}
impl Ordered for f64 {
    const LEAST: Self = f64::NEG_INFINITY;
}
impl Ordered for i32 {
    const LEAST: Self = i32::MIN;
}
impl Ordered for i64 {
    const LEAST: Self = i64::MIN;
}

/// How windows lie along one dim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Steps {
    window: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl Steps {
    /// The elements of window `i` of `count`: the first that is inside, how many, and how far apart.
    fn inside(&self, i: usize, count: usize, size: usize) -> (usize, usize, usize) {
        if self.window == 0 {
            let start = i * size / count;
            return (start, ((i + 1) * size).div_ceil(count) - start, 1);
        }
        let (start, step) = (i * self.stride, self.dilation);
        let skipped = self.padding.saturating_sub(start).div_ceil(step).min(self.window);
        let first = (start + skipped * step).saturating_sub(self.padding);
        let room = if first < size { (size - first).div_ceil(step) } else { 0 };
        (first, room.min(self.window - skipped), step)
    }
}

fn parse(text: &str) -> Option<(DType, [Steps; 3], usize)> {
    let mut words = text.split_whitespace();
    let dtype = DType::parse(words.next()?)?;
    let numbers: Vec<usize> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
    let (&dims, rest) = numbers.split_first()?;
    if !(1..=3).contains(&dims) || rest.len() != 4 * dims {
        return None;
    }
    // Dims that are missing come first and hold one element.
    let mut steps = [Steps { window: 1, stride: 1, padding: 0, dilation: 1 }; 3];
    for (s, n) in steps[3 - dims..].iter_mut().zip(rest.chunks(4)) {
        *s = Steps { window: n[0], stride: n[1], padding: n[2], dilation: n[3] };
        if s.window > 0 && (s.stride == 0 || s.dilation == 0) {
            return None;
        }
    }
    Some((dtype, steps, dims))
}

impl NativeKernel for WindowedMax {
    fn name(&self) -> &'static str {
        "windowed_max"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        match parse(text) {
            Some((DType::F32, s, n)) => Ok(Arc::new(MaxCode::<f32>(s, n, PhantomData))),
            Some((DType::F64, s, n)) => Ok(Arc::new(MaxCode::<f64>(s, n, PhantomData))),
            Some((DType::I32, s, n)) => Ok(Arc::new(MaxCode::<i32>(s, n, PhantomData))),
            Some((DType::I64, s, n)) => Ok(Arc::new(MaxCode::<i64>(s, n, PhantomData))),
            _ => Err(malformed("windowed_max", text)),
        }
    }
}

struct MaxCode<T>([Steps; 3], usize, PhantomData<T>);

/// A launch.
struct Maxima<T> {
    steps: [Steps; 3],
    lead: usize,
    size: [usize; 3],
    out: [usize; 3],
    x: *const T,
    /// Lead and three dims.
    x_step: [isize; 4],
    y: *mut T,
    y_step: [isize; 2],
    places: *mut i64,
    places_step: [isize; 2],
}
// SAFETY: each thread writes results of its own and only reads x.
unsafe impl<T> Sync for Maxima<T> {}

impl<T: Ordered> Code for MaxCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let (s, n) = (launch.sizes, self.1);
        let three = |first: usize| {
            let mut of = [1; 3];
            (0..n).for_each(|d| of[3 - n + d] = s[first + d].max(0) as usize);
            of
        };
        let mut x_step = [0; 4];
        x_step[0] = s[1 + 2 * n] as isize;
        (0..n).for_each(|d| x_step[4 - n + d] = s[2 + 2 * n + d] as isize);
        let y = 2 + 3 * n;
        let maxima = Maxima::<T> {
            steps: self.0,
            lead: s[0].max(0) as usize,
            size: three(1),
            out: three(1 + n),
            x: launch.buffers[0].cast_const().cast(),
            x_step,
            y: launch.buffers[1].cast(),
            y_step: [s[y] as isize, s[y + 1] as isize],
            places: launch.buffers[2].cast(),
            places_step: [s[y + 2] as isize, s[y + 3] as isize],
        };
        let rows = maxima.lead * maxima.out[0] * maxima.out[1];
        let parts = if rows * maxima.out[2] < SPLIT_FROM { 1 } else { pool::threads().min(rows) };
        pool::run(parts, &|part| {
            let (maxima, row) = (&maxima, maxima.out[2]);
            with_scratch(row * (size_of::<T>() + size_of::<i64>()), |scratch| {
                let places = scratch.cast::<i64>();
                let best = places.wrapping_add(row).cast::<T>();
                for i in rows * part / parts..rows * (part + 1) / parts {
                    isa().run(
                        #[inline(always)]
                        // SAFETY: the caller says that the buffers are what the sizes say; the scratch has room.
                        || unsafe { maxima.run_row(i, best, places) },
                    )
                }
            });
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<T: Ordered> Maxima<T> {
    /// One row of windows: element after element of the windows, for all of them at once.
    #[inline(always)]
    unsafe fn run_row(&self, row: usize, best: *mut T, places: *mut i64) {
        let [o0, o1, o2] = self.out;
        let (lead, i0, i1) = (row / (o0 * o1), row / o1 % o0, row % o1);
        let [(a0, n0, d0), (a1, n1, d1)] =
            [self.steps[0].inside(i0, o0, self.size[0]), self.steps[1].inside(i1, o1, self.size[1])];
        let x = self.x.wrapping_offset(lead as isize * self.x_step[0]);
        // SAFETY: the caller's promise, here and below.
        unsafe {
            for j in 0..o2 {
                best.add(j).write(T::LEAST);
                places.add(j).write(-1);
            }
            for k0 in 0..n0 {
                for k1 in 0..n1 {
                    let (p0, p1) = (a0 + k0 * d0, a1 + k1 * d1);
                    let x = x.wrapping_offset(p0 as isize * self.x_step[1] + p1 as isize * self.x_step[2]);
                    let place = ((p0 * self.size[1] + p1) * self.size[2]) as i64;
                    self.meet_line(x, place, best, places);
                }
            }
            let point = ((i0 * o1 + i1) * o2) as isize;
            let y = self.y.wrapping_offset(lead as isize * self.y_step[0] + point * self.y_step[1]);
            let out = self.places.wrapping_offset(lead as isize * self.places_step[0] + point * self.places_step[1]);
            for j in 0..o2 {
                y.wrapping_offset(j as isize * self.y_step[1]).write(best.add(j).read());
                out.wrapping_offset(j as isize * self.places_step[1]).write(places.add(j).read().max(0));
            }
        }
    }

    /// The windows' elements in one line of x.
    #[inline(always)]
    unsafe fn meet_line(&self, x: *const T, place: i64, best: *mut T, places: *mut i64) {
        let (steps, size, count) = (&self.steps[2], self.size[2], self.out[2]);
        let step = self.x_step[3];
        // SAFETY: the caller's promise: only elements of the line are read.
        unsafe {
            if steps.window == 0 {
                for j in 0..count {
                    let (first, n, _) = steps.inside(j, count, size);
                    for at in first..first + n {
                        meet(
                            x.wrapping_offset(at as isize * step).read(),
                            place + at as i64,
                            best.add(j),
                            places.add(j),
                        );
                    }
                }
                return;
            }
            for k in 0..steps.window {
                // Windows lo .. hi have this element inside.
                let shift = k * steps.dilation;
                let lo = steps.padding.saturating_sub(shift).div_ceil(steps.stride).min(count);
                let hi = (size + steps.padding).saturating_sub(shift).div_ceil(steps.stride).clamp(lo, count);
                let first = (lo * steps.stride + shift).wrapping_sub(steps.padding);
                let (from, apart) = (x.wrapping_offset(first as isize * step), steps.stride as isize * step);
                let place = place + first as i64;
                for t in 0..hi - lo {
                    let value = from.wrapping_offset(t as isize * apart).read();
                    meet(value, place + (t * steps.stride) as i64, best.add(lo + t), places.add(lo + t));
                }
            }
        }
    }
}

/// Takes an element where it is better than what is there, without a branch.
#[inline(always)]
#[allow(clippy::eq_op, reason = "NaN is not equal to itself")]
unsafe fn meet<T: Ordered>(value: T, place: i64, best: *mut T, at: *mut i64) {
    // SAFETY: the caller's promise.
    unsafe {
        let (old, old_at) = (best.read(), at.read());
        let is_number = old == old;
        let better = (value > old) | ((value != value) & is_number) | (old_at < 0);
        best.write(if better { value } else { old });
        at.write(if better { place } else { old_at });
    }
}

impl NativeKernel for ScatterWindows {
    fn name(&self) -> &'static str {
        "scatter_windows"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        match DType::parse(text.trim()) {
            Some(DType::F32) => Ok(Arc::new(ScatterCode::<f32>(PhantomData))),
            Some(DType::F64) => Ok(Arc::new(ScatterCode::<f64>(PhantomData))),
            Some(DType::I32) => Ok(Arc::new(ScatterCode::<i32>(PhantomData))),
            Some(DType::I64) => Ok(Arc::new(ScatterCode::<i64>(PhantomData))),
            _ => Err(malformed("scatter_windows", text)),
        }
    }
}

struct ScatterCode<T>(PhantomData<T>);

/// Pointers that threads follow apart from each other.
#[derive(Clone, Copy)]
struct Buffers<T> {
    x: *const T,
    places: *const i64,
    y: *mut T,
}
// SAFETY: see above.
unsafe impl<T> Sync for Buffers<T> {}

impl<T: Number> Code for ScatterCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let [lead, points, size] = [0, 1, 2].map(|i| launch.sizes[i].max(0) as usize);
        let step = |i: usize| launch.sizes[3 + i] as isize;
        let b = launch.buffers;
        let all = Buffers::<T> { x: b[0].cast_const().cast(), places: b[1].cast_const().cast(), y: b[2].cast() };
        let parts = if lead * size < SPLIT_FROM { 1 } else { pool::threads().min(lead).max(1) };
        pool::run(parts, &|part| {
            let all = &all;
            for i in lead * part / parts..lead * (part + 1) / parts {
                let x = all.x.wrapping_offset(i as isize * step(0));
                let places = all.places.wrapping_offset(i as isize * step(2));
                let y = all.y.wrapping_offset(i as isize * step(4));
                // SAFETY: the caller says that the buffers are what the sizes say; a place outside is reported.
                unsafe {
                    for j in 0..size as isize {
                        y.wrapping_offset(j * step(5)).write(T::ZERO);
                    }
                    for p in 0..points as isize {
                        let place = places.wrapping_offset(p * step(3)).read_unaligned();
                        if !(0..size as i64).contains(&place) {
                            launch.error.report(place, size as i64);
                            continue;
                        }
                        let to = y.wrapping_offset(place as isize * step(5));
                        to.write(to.read().plus(x.wrapping_offset(p * step(1)).read()));
                    }
                }
            }
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_at_the_ends() {
        let even = Steps { window: 3, stride: 2, padding: 1, dilation: 2 };
        // Window 0 starts at -1, 1 and 3 are inside; the last one starts at 5.
        assert_eq!(even.inside(0, 4, 6), (1, 2, 2));
        assert_eq!(even.inside(1, 4, 6), (1, 3, 2));
        assert_eq!(even.inside(3, 4, 6), (5, 1, 2));
        let adaptive = Steps::default();
        assert_eq!([0, 1, 2].map(|i| adaptive.inside(i, 3, 7)), [(0, 3, 1), (2, 3, 1), (4, 3, 1)]);
        for wrong in ["", "f32", "f32 0", "f32 1 2 1 0", "f32 1 2 0 0 1", "x 1 2 1 0 1"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}

//! The claims' kernel `scatter`: updates combined into a tensor along one axis, in ascending order of their position.
//!
//! Text: `<set|add|mul|min|max> <f32|f64|i32|i64> <copy|zero>`: the result starts as the first operand, or as zeros.
//! Sizes: `outer size count inner`, then the strides of x `outer size inner` (with `copy`), of the indices `count`, of
//! the updates `outer count inner`, of the result `outer size inner`. An index outside is reported and passed over.
//!
//! Each element of the result is one thread's, which walks all updates in order: bits do not depend on threads.
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool, with_scratch};
use rtx_hal::{Code, Device, ErrorSlot, Launch, NativeKernel, malformed};
use rtx_ir::ScatterOp;
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Updates with fewer elements than this run in the calling thread.
const SPLIT_FROM: usize = 16 << 10;
/// Columns are split at multiples of this: a cache line of the largest element.
const COLUMNS: usize = 16;

/// The kernel `scatter`.
pub struct Scatter;

impl NativeKernel for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[op, dtype, start] = words.as_slice() else { return Err(malformed("scatter", text)) };
        let op = ScatterOp::ALL.into_iter().find(|o| o.name() == op).ok_or_else(|| malformed("scatter", text))?;
        let zero = match start {
            "copy" => false,
            "zero" => true,
            _ => return Err(malformed("scatter", text)),
        };
        match DType::parse(dtype) {
            Some(DType::F32) => Ok(Arc::new(ScatterCode::<f32>(op, zero, PhantomData))),
            Some(DType::F64) => Ok(Arc::new(ScatterCode::<f64>(op, zero, PhantomData))),
            Some(DType::I32) => Ok(Arc::new(ScatterCode::<i32>(op, zero, PhantomData))),
            Some(DType::I64) => Ok(Arc::new(ScatterCode::<i64>(op, zero, PhantomData))),
            _ => Err(malformed("scatter", text)),
        }
    }
}

/// Element types that scatters and scans are compiled for.
pub(crate) trait Element: Copy + Send + Sync + Default + 'static {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}
macro_rules! floats { ($($T:ty: $min:ident $max:ident),*) => { $(impl Element for $T {
    #[inline(always)]
    fn add(self, other: Self) -> Self { self + other }
    #[inline(always)]
    fn mul(self, other: Self) -> Self { self * other }
    #[inline(always)]
    fn least(self, other: Self) -> Self { rustg::math::$min(self, other) }
    #[inline(always)]
    fn greatest(self, other: Self) -> Self { rustg::math::$max(self, other) }
})* } }
macro_rules! integers { ($($T:ty)*) => { $(impl Element for $T {
    #[inline(always)]
    fn add(self, other: Self) -> Self { self.wrapping_add(other) }
    #[inline(always)]
    fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
    #[inline(always)]
    fn least(self, other: Self) -> Self { Ord::min(self, other) }
    #[inline(always)]
    fn greatest(self, other: Self) -> Self { Ord::max(self, other) }
})* } }
floats!(f32: min_f32 max_f32, f64: min_f64 max_f64);
integers!(i32 i64 u8 u64);

struct ScatterCode<T>(ScatterOp, bool, PhantomData<T>);

/// A buffer `[outer, rows, inner]`.
#[derive(Clone, Copy)]
struct Rows<T> {
    ptr: *mut T,
    outer: isize,
    row: isize,
    inner: isize,
}
impl<T> Rows<T> {
    fn at(self, outer: usize, row: usize, inner: usize) -> *mut T {
        self.ptr.wrapping_offset(outer as isize * self.outer + row as isize * self.row + inner as isize * self.inner)
    }
}

/// A launch.
struct Problem<'a, T> {
    op: ScatterOp,
    outer: usize,
    size: usize,
    count: usize,
    inner: usize,
    x: Option<Rows<T>>,
    indices: *const i64,
    index_step: isize,
    updates: Rows<T>,
    result: Rows<T>,
    error: &'a ErrorSlot,
}
// SAFETY: each thread writes its own part of the result.
unsafe impl<T> Sync for Problem<'_, T> {}

impl<T: Element> Code for ScatterCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let problem = Problem::<T>::read(self.0, self.1, launch);
        let threads = pool::threads();
        let small = problem.outer * (problem.size + problem.count) * problem.inner < SPLIT_FROM;
        let parts = if small { 1 } else { threads };
        let by_columns = problem.inner >= COLUMNS * parts;
        pool::run(parts, &|part| {
            let problem = &problem;
            let cut = |n: usize, step: usize| {
                let steps = n.div_ceil(step);
                (steps * part / parts * step).min(n)..(steps * (part + 1) / parts * step).min(n)
            };
            let (rows, columns) = if by_columns {
                (0..problem.size, cut(problem.inner, COLUMNS))
            } else {
                (cut(problem.size, 1), 0..problem.inner)
            };
            let rest = cut(problem.size, 1);
            let words = if problem.x.is_none() { problem.size.div_ceil(64) } else { 0 };
            with_scratch(words * size_of::<u64>(), |scratch| {
                isa().run(
                    #[inline(always)]
                    // SAFETY: the caller's promise; parts are apart; the scratch has room for the words.
                    || unsafe {
                        match words {
                            0 => problem.run_part(rows, columns, part == 0),
                            _ => {
                                scratch.write_bytes(0, words * size_of::<u64>());
                                let met = Met(std::slice::from_raw_parts_mut(scratch.cast(), words));
                                problem.run_part_from_zeros((rows, rest), columns, part == 0, met)
                            }
                        }
                    },
                )
            })
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<'a, T: Element> Problem<'a, T> {
    fn read(op: ScatterOp, zero: bool, launch: &Launch<'a>) -> Self {
        let sizes = launch.sizes;
        let size = |i: usize| sizes[i].max(0) as usize;
        let mut next = (0, 4);
        let mut rows = |groups: [Option<usize>; 3]| {
            let (buffer, first) = next;
            let stride = |g: Option<usize>| g.map_or(0, |i| sizes[first + i] as isize);
            let [outer, row, inner] = groups.map(stride);
            next = (buffer + 1, first + groups.iter().flatten().count());
            Rows { ptr: launch.buffers[buffer].cast::<T>(), outer, row, inner }
        };
        let three = [Some(0), Some(1), Some(2)];
        let x = if zero { None } else { Some(rows(three)) };
        let indices = rows([None, Some(0), None]);
        let (updates, result) = (rows(three), rows(three));
        Self {
            op,
            outer: size(0),
            size: size(1),
            count: size(2),
            inner: size(3),
            x,
            indices: indices.ptr.cast::<i64>(),
            index_step: indices.row,
            updates,
            result,
            error: launch.error,
        }
    }

    /// These rows and columns of the result; `reports` says whether this part reports wrong indices.
    #[inline(always)]
    unsafe fn run_part(&self, rows: Range<usize>, columns: Range<usize>, reports: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            self.start(rows.clone(), columns.clone());
            for outer in 0..self.outer {
                for i in 0..self.count {
                    if let Some(row) = self.index(i, reports).filter(|row| rows.contains(row)) {
                        self.combine(outer, row, i, columns.clone(), false);
                    }
                }
            }
        }
    }
    /// The same of a result that starts as zeros: the first update of a row is written over what is there, and zeros
    /// are written only where no update came, by whoever has the row among its `rest`.
    #[inline(always)]
    unsafe fn run_part_from_zeros(
        &self,
        (rows, rest): (Range<usize>, Range<usize>),
        columns: Range<usize>,
        reports: bool,
        mut met: Met<'_>,
    ) {
        for outer in 0..self.outer {
            met.0.fill(0);
            // SAFETY: the caller's promise; indices are below `size`.
            unsafe {
                for i in 0..self.count {
                    if let Some(row) = self.index(i, reports).filter(|row| rows.contains(row)) {
                        let fresh = met.insert(row);
                        self.combine(outer, row, i, columns.clone(), fresh);
                    }
                }
                for row in rest.clone() {
                    if !met.has(row) {
                        let (at, all) = ((outer, row), 0..self.inner);
                        each(self.result, self.result, at, at, all, |_, _| T::default());
                    }
                }
            }
        }
    }
    /// The row of an update; `None` for one outside.
    #[inline(always)]
    unsafe fn index(&self, update: usize, reports: bool) -> Option<usize> {
        // SAFETY: the caller's promise.
        let index = unsafe { self.indices.wrapping_offset(update as isize * self.index_step).read_unaligned() };
        let inside = (0..self.size as i64).contains(&index);
        if !inside && reports {
            self.error.report(index, self.size as i64);
        }
        inside.then_some(index as usize)
    }

    /// The result before the first update of an operand.
    #[inline(always)]
    unsafe fn start(&self, rows: Range<usize>, columns: Range<usize>) {
        let Some(x) = self.x.filter(|x| x.ptr != self.result.ptr) else { return };
        for outer in 0..self.outer {
            for row in rows.clone() {
                // SAFETY: the caller's promise.
                unsafe { each(x, self.result, (outer, row), (outer, row), columns.clone(), |_, new| new) }
            }
        }
    }

    /// One update; of a `fresh` row, into zeros instead of what is there.
    #[inline(always)]
    unsafe fn combine(&self, outer: usize, row: usize, update: usize, columns: Range<usize>, fresh: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.op {
                ScatterOp::Set => self.update(outer, row, update, columns, false, |_, new| new),
                ScatterOp::Add => self.update(outer, row, update, columns, fresh, T::add),
                ScatterOp::Mul => self.update(outer, row, update, columns, fresh, T::mul),
                ScatterOp::Min => self.update(outer, row, update, columns, fresh, T::least),
                ScatterOp::Max => self.update(outer, row, update, columns, fresh, T::greatest),
            }
        }
    }
    #[inline(always)]
    unsafe fn update(
        &self,
        outer: usize,
        row: usize,
        update: usize,
        columns: Range<usize>,
        fresh: bool,
        f: impl Fn(T, T) -> T,
    ) {
        let (from, to) = ((outer, update), (outer, row));
        // SAFETY: the caller's promise.
        unsafe {
            match fresh {
                true => each(self.updates, self.result, from, to, columns, |_, new| f(T::default(), new)),
                false => each(self.updates, self.result, from, to, columns, f),
            }
        }
    }
}

/// Rows that have had an update.
struct Met<'a>(&'a mut [u64]);

impl Met<'_> {
    /// Was it new?
    #[inline(always)]
    fn insert(&mut self, row: usize) -> bool {
        let new = !self.has(row);
        self.0[row / 64] |= 1 << (row % 64);
        new
    }
    #[inline(always)]
    fn has(&self, row: usize) -> bool {
        self.0[row / 64] >> (row % 64) & 1 != 0
    }
}

/// `to = f(to, from)` over columns of one row.
#[inline(always)]
unsafe fn each<T: Element>(
    from: Rows<T>,
    to: Rows<T>,
    (from_outer, from_row): (usize, usize),
    (to_outer, to_row): (usize, usize),
    columns: Range<usize>,
    f: impl Fn(T, T) -> T,
) {
    let (source, target) = (from.at(from_outer, from_row, columns.start), to.at(to_outer, to_row, columns.start));
    let n = columns.len();
    // SAFETY: the caller's promise: the elements exist, and those written are this thread's.
    unsafe {
        if from.inner == 1 && to.inner == 1 {
            for j in 0..n {
                target.add(j).write(f(target.add(j).read(), source.add(j).read()));
            }
        } else {
            for j in 0..n as isize {
                let t = target.wrapping_offset(j * to.inner);
                t.write(f(t.read(), source.wrapping_offset(j * from.inner).read()));
            }
        }
    }
}

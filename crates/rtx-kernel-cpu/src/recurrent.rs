//! The claim's kernel `recurrent`: all steps of a recurrent layer, or all steps back through it. The state's weights are
//! packed once; a step is a product and the cell's formula, shared by the units of the state.
//!
//! Text: `<lstm|gru|tanh|relu> <forward|backward> <f32|f64> <ahead|reverse>`. Sizes: steps, examples, units of state, then
//! each buffer's strides, axis by axis, in the order of the op's operands and results.
//!
//! Numerics: the body's, op by op; products as `gemm`'s, with one example as its `gemv`.
mod cells;

use crate::gemm::{CHUNK, Gemv, Kernels, Strip, Tile};
use crate::row::{LANES, Real};
use cells::Cell;
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool, with_scratch};
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Steps with fewer multiplications than this run in the calling thread.
const SPLIT_FROM: usize = 128 << 10;

/// The kernel `recurrent`.
pub struct Recurrent;

impl NativeKernel for Recurrent {
    fn name(&self) -> &'static str {
        "recurrent"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || malformed("recurrent", text);
        let &[cell, way, dtype, order] = words.as_slice() else { return Err(wrong()) };
        let cell = Cell::parse(cell).ok_or_else(wrong)?;
        let backward = match way {
            "forward" => false,
            "backward" => true,
            _ => return Err(wrong()),
        };
        let reverse = match order {
            "ahead" => false,
            "reverse" => true,
            _ => return Err(wrong()),
        };
        let settings = Settings { cell, backward, reverse };
        match DType::parse(dtype) {
            Some(DType::F32) => Ok(Arc::new(RecurrentCode::<f32>(settings, PhantomData))),
            Some(DType::F64) => Ok(Arc::new(RecurrentCode::<f64>(settings, PhantomData))),
            _ => Err(wrong()),
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    cell: Cell,
    backward: bool,
    reverse: bool,
}

struct RecurrentCode<T>(Settings, PhantomData<T>);

/// A buffer `[steps, examples, units]`; what a buffer lacks has stride 0.
#[derive(Clone, Copy)]
struct Sequence<T> {
    ptr: *mut T,
    step: isize,
    example: isize,
    unit: isize,
}
// SAFETY: threads write units of their own.
unsafe impl<T> Sync for Sequence<T> {}

impl<T: Real> Sequence<T> {
    fn at(self, step: usize, example: usize) -> Row<T> {
        let at = step as isize * self.step + example as isize * self.example;
        Row { ptr: self.ptr.wrapping_offset(at), unit: self.unit }
    }
}

/// The units of one example at one step.
#[derive(Clone, Copy)]
struct Row<T> {
    ptr: *mut T,
    unit: isize,
}
impl<T: Real> Row<T> {
    /// Up to 16 units from `j` on.
    #[inline(always)]
    unsafe fn load(self, j: usize, n: usize) -> [T; LANES] {
        let from = self.ptr.wrapping_offset(j as isize * self.unit);
        // SAFETY: the caller's promise: `n` units are there.
        unsafe {
            if self.unit == 1 && n == LANES {
                return from.cast::<[T; LANES]>().read_unaligned();
            }
            let mut lanes = [T::ZERO; LANES];
            for (l, lane) in lanes.iter_mut().enumerate().take(n) {
                *lane = from.wrapping_offset(l as isize * self.unit).read();
            }
            lanes
        }
    }
    #[inline(always)]
    unsafe fn store(self, j: usize, n: usize, lanes: [T; LANES]) {
        let to = self.ptr.wrapping_offset(j as isize * self.unit);
        // SAFETY: the caller's promise: `n` units are there.
        unsafe {
            if self.unit == 1 && n == LANES {
                return to.cast::<[T; LANES]>().write_unaligned(lanes);
            }
            for (l, lane) in lanes.into_iter().enumerate().take(n) {
                to.wrapping_offset(l as isize * self.unit).write(lane);
            }
        }
    }
}

/// Reads a launch's buffers in order.
struct Reader<'a> {
    buffers: &'a [*mut u8],
    strides: &'a [i64],
}
impl Reader<'_> {
    /// A buffer with some of the three axes.
    fn take<T>(&mut self, axes: [bool; 3]) -> Sequence<T> {
        let (ptr, buffers) = self.buffers.split_first().expect("as many buffers as the claim says");
        self.buffers = buffers;
        let mut next = |has: bool| {
            let (first, rest) = if has { self.strides.split_at(1) } else { (&[0][..], self.strides) };
            self.strides = rest;
            first[0] as isize
        };
        let [step, example, unit] = axes.map(&mut next);
        Sequence { ptr: ptr.cast(), step, example, unit }
    }
    fn sequence<T>(&mut self) -> Sequence<T> {
        self.take([true, true, true])
    }
    fn state<T>(&mut self) -> Sequence<T> {
        self.take([false, true, true])
    }
}

/// A launch.
struct Layer<T: 'static> {
    settings: Settings,
    kernels: &'static Kernels<T>,
    steps: usize,
    examples: usize,
    units: usize,
    /// Operands: the gates, or what stands first, and what the cell needs besides.
    operands: [Sequence<T>; 6],
    weights: Sequence<T>,
    results: [Sequence<T>; 3],
    /// `[examples, columns]` of products.
    products: *mut T,
    /// Two states `[examples, units]`: the first ones forward, those that flow back backward.
    states: [*mut T; 2],
    packed: *mut T,
}
// SAFETY: threads write units of their own, and what others wrote is read a step later.
unsafe impl<T> Sync for Layer<T> {}

impl<T: Real> Code for RecurrentCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let size = |i: usize| launch.sizes[i].max(0) as usize;
        let (steps, examples, units) = (size(0), size(1), size(2));
        let mut reader = Reader { buffers: launch.buffers, strides: &launch.sizes[3..] };
        let none = Sequence { ptr: std::ptr::null_mut(), step: 0, example: 0, unit: 0 };
        let mut layer = Layer::<T> {
            settings: self.0,
            kernels: T::kernels(isa()),
            steps,
            examples,
            units,
            operands: [none; 6],
            weights: none,
            results: [none; 3],
            products: std::ptr::null_mut(),
            states: [std::ptr::null_mut(); 2],
            packed: std::ptr::null_mut(),
        };
        layer.read(&mut reader);
        let columns = layer.groups() * (units.next_multiple_of(LANES) + LANES);
        let (products, state) = (examples * layer.groups() * units, examples * units);
        let (products, state) = (products.next_multiple_of(LANES), state.next_multiple_of(LANES));
        let packed = if examples == 1 { 0 } else { columns * layer.depth() };
        with_scratch((products + 2 * state + packed) * size_of::<T>(), |scratch| {
            layer.products = scratch.cast();
            layer.states = [0, 1].map(|i| layer.products.wrapping_add(products + i * state));
            layer.packed = layer.products.wrapping_add(products + 2 * state);
            // SAFETY: the caller says that the buffers are what the sizes say.
            unsafe { layer.run() }
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<T: Real> Layer<T> {
    fn read(&mut self, reader: &mut Reader<'_>) {
        let o = &mut self.operands;
        let weights = [false, true, true];
        match (self.settings.cell, self.settings.backward) {
            (Cell::Lstm, false) => {
                (o[0], o[1], o[2]) = (reader.sequence(), reader.state(), reader.state());
                self.weights = reader.take(weights);
            }
            (Cell::Lstm, true) => {
                (o[0], o[1], o[2]) = (reader.sequence(), reader.sequence(), reader.sequence());
                self.weights = reader.take(weights);
                (o[3], o[4]) = (reader.sequence(), reader.sequence());
            }
            (Cell::Gru, false) => {
                (o[0], o[1]) = (reader.sequence(), reader.state());
                self.weights = reader.take(weights);
                o[2] = reader.take([false, false, true]);
            }
            (Cell::Gru, true) => {
                (o[0], o[1], o[2]) = (reader.sequence(), reader.sequence(), reader.sequence());
                self.weights = reader.take(weights);
                o[3] = reader.sequence();
            }
            (_, false) => {
                (o[0], o[1]) = (reader.sequence(), reader.state());
                self.weights = reader.take(weights);
            }
            (_, true) => {
                o[0] = reader.sequence();
                self.weights = reader.take(weights);
                o[1] = reader.sequence();
            }
        }
        let r = &mut self.results;
        match (self.settings.cell, self.settings.backward) {
            (Cell::Lstm, false) => (r[0], r[1]) = (reader.sequence(), reader.sequence()),
            (Cell::Lstm, true) => (r[0], r[1], r[2]) = (reader.sequence(), reader.state(), reader.state()),
            (Cell::Gru, true) => (r[0], r[1], r[2]) = (reader.sequence(), reader.sequence(), reader.state()),
            (_, false) => r[0] = reader.sequence(),
            (_, true) => (r[0], r[1]) = (reader.sequence(), reader.state()),
        }
    }

    /// Groups of columns of a step's product, a state's units each.
    fn groups(&self) -> usize {
        if self.settings.backward { 1 } else { self.settings.cell.gates() }
    }
    /// Products that a column sums.
    fn depth(&self) -> usize {
        if self.settings.backward { self.settings.cell.gates() * self.units } else { self.units }
    }
    /// The weight of a column's product: from one product to the next, from one column to the next.
    fn weight_steps(&self) -> (isize, isize) {
        let w = &self.weights;
        if self.settings.backward { (w.example, w.unit) } else { (w.unit, w.example) }
    }
    /// The step that comes as number `i`.
    fn step(&self, i: usize) -> usize {
        if self.settings.reverse != self.settings.backward { self.steps - 1 - i } else { i }
    }

    unsafe fn run(&self) {
        let blocks = self.units.div_ceil(LANES);
        let work = self.examples * self.groups() * self.units * self.depth();
        let parts = if work < SPLIT_FROM { 1 } else { pool::threads().min(blocks).max(1) };
        let units = |part: usize| {
            let cut = |i: usize| (blocks * i / parts * LANES).min(self.units);
            cut(part)..cut(part + 1)
        };
        // SAFETY: the caller's promise, here and below; units of parts are apart.
        pool::run(parts, &|part| unsafe {
            self.pack(units(part));
            self.start(units(part));
        });
        for i in 0..self.steps {
            // SAFETY: as above.
            pool::run(parts, &|part| unsafe {
                if self.settings.backward {
                    if i > 0 {
                        self.multiply(self.slopes(self.step(i - 1)), units(part));
                    }
                } else {
                    self.multiply(self.state_before(i), units(part));
                }
                isa().run(
                    #[inline(always)]
                    || self.finish_step(i, units(part)),
                );
            });
        }
        if self.settings.backward {
            // SAFETY: as above.
            pool::run(parts, &|part| unsafe {
                if self.steps > 0 {
                    self.multiply(self.slopes(self.step(self.steps - 1)), units(part));
                }
                self.store_ends(units(part));
            });
        }
    }

    /// The state before step number `i`, `[examples, units]`.
    fn state_before(&self, i: usize) -> (*const T, isize) {
        match i.checked_sub(1) {
            None => (self.states[0].cast_const(), self.units as isize),
            Some(last) => {
                let h = self.results[0];
                (h.at(self.step(last), 0).ptr.cast_const(), h.example)
            }
        }
    }
    /// What a step back left, `[examples, gates · units]`.
    fn slopes(&self, step: usize) -> (*const T, isize) {
        let s = self.results[usize::from(self.settings.cell == Cell::Gru)];
        (s.at(step, 0).ptr.cast_const(), s.example)
    }

    /// Where the packed strip of a group's columns from `j` on starts.
    fn strip(&self, group: usize, j: usize) -> *mut T {
        let wide = self.units.next_multiple_of(LANES) + LANES;
        self.packed.wrapping_add((group * wide + j) * self.depth())
    }
    /// Strips of columns of some units: their first one and how many.
    fn strips(&self, units: Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<T> {
        let most = self.kernels.columns;
        units.clone().step_by(most).map(move |j| (j, most.min(units.end - j)))
    }
    unsafe fn pack(&self, units: Range<usize>) {
        if self.examples == 1 {
            return;
        }
        let (along, across) = self.weight_steps();
        for group in 0..self.groups() {
            for (j, count) in self.strips(units.clone()) {
                let column = (group * self.units + j) as isize;
                let strip = Strip {
                    from: self.weights.ptr.wrapping_offset(column * across).cast_const(),
                    along,
                    across,
                    depth: self.depth(),
                    count,
                    width: count.next_multiple_of(self.kernels.lanes),
                    to: self.strip(group, j),
                };
                // SAFETY: the caller's promise; whole vectors a step, so nothing is written past the strip.
                unsafe { (self.kernels.pack)(&strip) }
            }
        }
    }
    /// The first states side by side; zeros backward.
    unsafe fn start(&self, units: Range<usize>) {
        let states = if self.settings.cell == Cell::Lstm { 2 } else { 1 };
        for (s, state) in self.states.into_iter().enumerate() {
            for b in 0..self.examples {
                for j in units.clone() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let value = if self.settings.backward || s >= states {
                            T::ZERO
                        } else {
                            let row = self.operands[1 + s].at(0, b);
                            row.ptr.wrapping_offset(j as isize * row.unit).read()
                        };
                        state.add(b * self.units + j).write(value);
                        if self.settings.backward && s == 0 {
                            self.products.add(b * self.units + j).write(T::ZERO);
                        }
                    }
                }
            }
        }
    }

    /// The columns of some units: rows of `a` times the weights.
    unsafe fn multiply(&self, (a, a_row): (*const T, isize), units: Range<usize>) {
        let (depth, wide) = (self.depth(), self.groups() * self.units);
        let (along, across) = self.weight_steps();
        for group in 0..self.groups() {
            if self.examples == 1 {
                let column = group * self.units + units.start;
                let gemv = Gemv {
                    k: depth,
                    n: units.len(),
                    x: a,
                    w: self.weights.ptr.wrapping_offset(column as isize * across).cast_const(),
                    w_k: along,
                    w_n: across,
                    y: self.products.wrapping_add(column),
                    y_n: 1,
                };
                // SAFETY: the caller's promise.
                unsafe { (self.kernels.gemv)(&gemv) }
                continue;
            }
            for (j, columns) in self.strips(units.clone()) {
                let width = columns.next_multiple_of(self.kernels.lanes);
                let tiles = self.kernels.in_place[width / self.kernels.lanes - 1];
                for k in (0..depth).step_by(CHUNK) {
                    for i in (0..self.examples).step_by(self.kernels.rows) {
                        let tile = Tile {
                            depth: CHUNK.min(depth - k),
                            a: a.wrapping_offset(i as isize * a_row).wrapping_add(k),
                            a_row,
                            a_step: 1,
                            b: self.strip(group, j).wrapping_add(k * width).cast_const(),
                            b_step: width as isize,
                            c: self.products.wrapping_add(i * wide + group * self.units + j),
                            c_row: wide as isize,
                            columns,
                            add: k > 0,
                        };
                        // SAFETY: the caller's promise; the tiles are for this machine.
                        unsafe { tiles[self.kernels.rows.min(self.examples - i) - 1](&tile) }
                    }
                }
            }
        }
    }

    /// Sixteen units at a time through the cell.
    #[inline(always)]
    unsafe fn finish_step(&self, i: usize, units: Range<usize>) {
        let step = self.step(i);
        for b in 0..self.examples {
            for j in units.clone().step_by(LANES) {
                let n = LANES.min(units.end - j);
                // SAFETY: the caller's promise.
                unsafe {
                    match (self.settings.cell, self.settings.backward) {
                        (Cell::Lstm, false) => self.lstm_forward(i, step, b, j, n),
                        (Cell::Lstm, true) => self.lstm_backward(step, b, j, n),
                        (Cell::Gru, false) => self.gru_forward(i, step, b, j, n),
                        (Cell::Gru, true) => self.gru_backward(step, b, j, n),
                        (_, false) => self.plain_forward(step, b, j, n),
                        (_, true) => self.plain_backward(step, b, j, n),
                    }
                }
            }
        }
    }
    /// The products of an example.
    fn products_of(&self, b: usize) -> Row<T> {
        Row { ptr: self.products.wrapping_add(b * self.groups() * self.units), unit: 1 }
    }
    fn state_of(&self, s: usize, b: usize) -> Row<T> {
        Row { ptr: self.states[s].wrapping_add(b * self.units), unit: 1 }
    }
    /// What flows to the first states.
    unsafe fn store_ends(&self, units: Range<usize>) {
        let (h, c) = match self.settings.cell {
            Cell::Lstm => (self.results[1], Some(self.results[2])),
            Cell::Gru => (self.results[2], None),
            _ => (self.results[1], None),
        };
        for b in 0..self.examples {
            for j in units.clone().step_by(LANES) {
                let n = LANES.min(units.end - j);
                // SAFETY: the caller's promise.
                unsafe {
                    let mut through = self.products_of(b).load(j, n);
                    if self.settings.cell == Cell::Gru {
                        let kept = self.state_of(0, b).load(j, n);
                        (0..LANES).for_each(|l| through[l] = kept[l] + through[l]);
                    }
                    h.at(0, b).store(j, n, through);
                    if let Some(c) = c {
                        c.at(0, b).store(j, n, self.state_of(1, b).load(j, n));
                    }
                }
            }
        }
    }
}

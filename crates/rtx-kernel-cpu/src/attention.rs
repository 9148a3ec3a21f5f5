//! The claims' kernels `attention` and `attention_backward`: softmax(scale · q kᵀ + mask) · v, a head at a time.
//!
//! Text: `<dtype> causal=<bool> scale=<bits of an f64, hex> mask=<none|bool|float> kv_len=<bool>`.
//! Sizes: `b h t s d e`, then the strides of each buffer's groups, operands first: query `b h t d`, key `b h s d`,
//! value `b h s e`, mask `b h t s`, kv_len none, (backward: out `b h t e`, lse `b h t`, grad `b h t e`), then results.
//!
//! Numerics: a score is one chain of fma over d, from 0 (with fewer than [`PACK_FROM`] queries, the 16-lane tree over
//! rounded products), times scale; a row is shifted by its maximum; sums over keys and queries are chains of fma in
//! chunks (512 keys, 64 queries), added in ascending order; a result is multiplied by the reciprocal of its row's sum.
//! None of it depends on threads, strides or instruction set. The scores of a block of rows are held whole, so nothing
//! is rescaled on the way.
use crate::gemm::{Kernels, SLACK, Strip, Tile};
use crate::row::{LANES, Real, row_dot, row_exp, row_log, row_max, row_sum};
use rtx_core::{DType, Result};
use rtx_cpu::{Isa, isa, pool, with_scratch};
use rtx_hal::{Code, Device, ErrorSlot, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Queries from which keys are transposed first.
const PACK_FROM: usize = 4;
/// Rows of scores that are held at once.
const ROWS: usize = 64;
/// Keys that one chain of fma sums over.
const CHUNK: usize = 512;

/// The kernel `attention`.
pub struct Attention;
/// The kernel `attention_backward`.
pub struct AttentionBackward;

impl NativeKernel for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        match Settings::parse(text) {
            Some((DType::F32, s)) => Ok(Arc::new(Forward::<f32>(s, PhantomData))),
            Some((DType::F64, s)) => Ok(Arc::new(Forward::<f64>(s, PhantomData))),
            _ => Err(malformed("attention", text)),
        }
    }
}
impl NativeKernel for AttentionBackward {
    fn name(&self) -> &'static str {
        "attention_backward"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        match Settings::parse(text) {
            Some((DType::F32, s)) => Ok(Arc::new(Backward::<f32>(s, PhantomData))),
            Some((DType::F64, s)) => Ok(Arc::new(Backward::<f64>(s, PhantomData))),
            _ => Err(malformed("attention_backward", text)),
        }
    }
}

/// What a mask's elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    None,
    Bool,
    Float,
}

/// What is fixed when the kernel is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    pub causal: bool,
    pub scale: f64,
    pub mask: Mask,
    pub kv_len: bool,
}

impl Settings {
    /// The text after the kernel's name.
    pub(crate) fn print(&self, dtype: DType) -> String {
        let mask = match self.mask {
            Mask::None => "none",
            Mask::Bool => "bool",
            Mask::Float => "float",
        };
        format!("{dtype} causal={} scale={:016x} mask={mask} kv_len={}", self.causal, self.scale.to_bits(), self.kv_len)
    }
    fn parse(text: &str) -> Option<(DType, Self)> {
        let mut words = text.split_whitespace();
        let dtype = DType::parse(words.next()?)?;
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let causal = field("causal")?.parse().ok()?;
        let scale = f64::from_bits(u64::from_str_radix(field("scale")?, 16).ok()?);
        let mask = match field("mask")? {
            "none" => Mask::None,
            "bool" => Mask::Bool,
            "float" => Mask::Float,
            _ => return None,
        };
        let kv_len = field("kv_len")?.parse().ok()?;
        Some((dtype, Self { causal, scale, mask, kv_len }))
    }
}

/// A buffer `[b, h, rows, columns]`, at one head: a matrix of any strides.
#[derive(Clone, Copy)]
struct Matrix<T> {
    ptr: *mut T,
    row: isize,
    column: isize,
}
impl<T: Real> Matrix<T> {
    fn at_row(self, i: usize) -> Self {
        Self { ptr: self.ptr.wrapping_offset(i as isize * self.row), ..self }
    }
    /// Element (i, j).
    fn at(self, i: usize, j: usize) -> *mut T {
        self.ptr.wrapping_offset(i as isize * self.row + j as isize * self.column)
    }
}

/// A buffer and its strides over b, h, rows, columns.
#[derive(Clone, Copy)]
struct Batched<T> {
    ptr: *mut T,
    strides: [isize; 4],
}
impl<T: Real> Batched<T> {
    fn head(self, b: usize, h: usize) -> Matrix<T> {
        let at = b as isize * self.strides[0] + h as isize * self.strides[1];
        Matrix { ptr: self.ptr.wrapping_offset(at), row: self.strides[2], column: self.strides[3] }
    }
}

/// Reads a launch's arguments in order.
struct Reader<'a> {
    buffers: &'a [*mut u8],
    sizes: &'a [i64],
}
impl Reader<'_> {
    fn buffer<T>(&mut self, groups: usize) -> Batched<T> {
        let (first, buffers) = self.buffers.split_first().expect("as many buffers as the claim says");
        let (strides, sizes) = self.sizes.split_at(groups);
        (self.buffers, self.sizes) = (buffers, sizes);
        let stride = |i: usize| strides.get(i).map_or(0, |s| *s as isize);
        Batched { ptr: first.cast(), strides: [stride(0), stride(1), stride(2), stride(3)] }
    }
}

/// What forward and backward share.
struct Problem<T: 'static> {
    settings: Settings,
    isa: Isa,
    kernels: &'static Kernels<T>,
    b: usize,
    h: usize,
    t: usize,
    d: usize,
    e: usize,
    /// Keys that there is room for.
    length: usize,
    /// Keys that exist.
    keys: usize,
    q: Batched<T>,
    k: Batched<T>,
    v: Batched<T>,
    mask: Batched<T>,
}
// SAFETY: tasks read operands and write results of their own heads and rows only.
unsafe impl<T> Sync for Problem<T> {}

impl<T: Real> Problem<T> {
    /// # Safety
    /// The launch is what the claim says.
    unsafe fn read(settings: Settings, reader: &mut Reader<'_>, error: &ErrorSlot) -> Self {
        let (dims, rest) = reader.sizes.split_at(6);
        reader.sizes = rest;
        let [b, h, t, s, d, e] = std::array::from_fn(|i| dims[i].max(0) as usize);
        let (q, k, v) = (reader.buffer(4), reader.buffer(4), reader.buffer(4));
        let none = Batched { ptr: std::ptr::null_mut(), strides: [0; 4] };
        let mask = if settings.mask == Mask::None { none } else { reader.buffer(4) };
        let mut keys = s;
        if settings.kv_len {
            let n: Batched<i64> = reader.buffer(0);
            // SAFETY: the claim's kv_len is one i64.
            let n = unsafe { n.ptr.read_unaligned() };
            if !(0..=s as i64).contains(&n) {
                error.report(n, s as i64 + 1);
            }
            keys = n.clamp(0, s as i64) as usize;
        }
        let isa = isa();
        Self { settings, isa, kernels: T::kernels(isa), b, h, t, d, e, length: s, keys, q, k, v, mask }
    }
    /// How many keys row `t` sees.
    fn seen(&self, t: usize) -> usize {
        if !self.settings.causal {
            return self.keys;
        }
        let shift = if self.settings.kv_len { self.keys as isize - self.t as isize } else { 0 };
        (t as isize + 1 + shift).clamp(0, self.keys as isize) as usize
    }
    fn heads(&self) -> usize {
        self.b * self.h
    }
    /// A row of scores: scaled, masked. `row` holds the products of the keys that are seen.
    #[inline(always)]
    unsafe fn finish_scores(&self, row: &mut [T], mask: Option<(*const u8, isize)>) {
        let scale = T::of(self.settings.scale);
        for x in row.iter_mut() {
            *x = *x * scale;
        }
        let Some((mask, step)) = mask else { return };
        for (j, x) in row.iter_mut().enumerate() {
            // SAFETY: the claim's mask has an element for each key.
            unsafe {
                match self.settings.mask {
                    Mask::None => {}
                    Mask::Bool => {
                        if mask.wrapping_offset(j as isize * step).read() == 0 {
                            *x = T::LOWEST;
                        }
                    }
                    Mask::Float => *x = *x + mask.cast::<T>().wrapping_offset(j as isize * step).read(),
                }
            }
        }
    }
    /// Where the mask's row `t` of a head starts, and the step between its elements.
    fn mask_row(&self, b: usize, h: usize, t: usize) -> Option<(*const u8, isize)> {
        let s = self.mask.strides;
        let at = b as isize * s[0] + h as isize * s[1] + t as isize * s[2];
        match self.settings.mask {
            Mask::None => None,
            Mask::Bool => Some((self.mask.ptr.cast::<u8>().wrapping_offset(at).cast_const(), s[3])),
            Mask::Float => Some((self.mask.ptr.wrapping_offset(at).cast_const().cast(), s[3])),
        }
    }
}
/// `C (+)= A · B` on small matrices: A of any strides, B with rows of whole vectors, C with neighbouring columns.
///
/// # Safety
/// The pointers are good for the sizes; rows of B are readable to the next whole vector.
#[allow(clippy::too_many_arguments)]
unsafe fn product<T: Real>(
    kernels: &Kernels<T>,
    [rows, depth, columns]: [usize; 3],
    a: Matrix<T>,
    b: Matrix<T>,
    c: Matrix<T>,
    add: bool,
) {
    let mut j = 0;
    while j < columns {
        let width = (columns - j).min(kernels.columns);
        let tiles = kernels.in_place[width.div_ceil(kernels.lanes) - 1];
        let mut i = 0;
        while i < rows {
            let height = (rows - i).min(kernels.rows);
            let tile = Tile {
                depth,
                a: a.at_row(i).ptr,
                a_row: a.row,
                a_step: a.column,
                b: b.ptr.wrapping_add(j),
                b_step: b.row,
                c: c.at_row(i).ptr.wrapping_add(j),
                c_row: c.row,
                columns: width,
                add,
            };
            // SAFETY: the caller's promise; `kernels` are those of this machine.
            unsafe { tiles[height - 1](&tile) }
            i += height;
        }
        j += width;
    }
}

/// As [`product`], the depth in chunks that are added in order.
unsafe fn chunked_product<T: Real>(
    kernels: &Kernels<T>,
    [rows, depth, columns]: [usize; 3],
    a: Matrix<T>,
    b: Matrix<T>,
    c: Matrix<T>,
) {
    let mut p = 0;
    loop {
        let n = (depth - p).min(CHUNK);
        let part = Matrix { ptr: a.at(0, p), ..a };
        // SAFETY: the caller's promise.
        unsafe { product(kernels, [rows, n, columns], part, b.at_row(p), c, p > 0) }
        p += n;
        if p >= depth {
            return;
        }
    }
}

/// Elements in whole groups of 16.
fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// Memory handed out in pieces.
struct Pieces<T> {
    next: *mut T,
}
impl<T: Real> Pieces<T> {
    fn take(&mut self, rows: usize, columns: usize) -> Matrix<T> {
        let ptr = self.next;
        self.next = ptr.wrapping_add(rows * columns);
        Matrix { ptr, row: columns as isize, column: 1 }
    }
    /// With [`SLACK`] elements more.
    fn take_slack(&mut self, rows: usize, columns: usize) -> Matrix<T> {
        let piece = self.take(rows, columns);
        self.next = self.next.wrapping_add(SLACK);
        piece
    }
}

/// The transpose of `rows × columns` elements, its rows padded with zeros to those of `to`, which has [`SLACK`] more.
unsafe fn transpose<T: Real>(kernels: &Kernels<T>, from: Matrix<T>, rows: usize, columns: usize, to: Matrix<T>) {
    let strip = Strip {
        from: from.ptr.cast_const(),
        along: from.column,
        across: from.row,
        depth: columns,
        count: rows,
        width: to.row as usize,
        to: to.ptr,
    };
    // SAFETY: the caller's promise.
    unsafe { (kernels.pack)(&strip) }
}

/// The matrix itself where its rows can be read in whole vectors, else a copy of it with padded rows.
#[inline(always)]
unsafe fn rows_of<T: Real>(
    from: Matrix<T>,
    rows: usize,
    columns: usize,
    lanes: usize,
    pieces: &mut Pieces<T>,
) -> Matrix<T> {
    if from.column == 1 && columns.is_multiple_of(lanes) {
        return from;
    }
    let to = pieces.take(rows, padded(columns));
    for i in 0..rows {
        for p in 0..padded(columns) {
            // SAFETY: the caller's promise; the piece has room.
            unsafe { to.at(i, p).write(if p < columns { from.at(i, p).read() } else { T::ZERO }) }
        }
    }
    to
}

/// A row as a slice.
unsafe fn row_mut<'a, T: Real>(m: Matrix<T>, i: usize, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise: row i has n neighbouring elements, and nobody else looks at them.
    unsafe { std::slice::from_raw_parts_mut(m.at_row(i).ptr, n) }
}

struct Forward<T>(Settings, PhantomData<T>);

impl<T: Real> Code for Forward<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let mut reader = Reader { buffers: launch.buffers, sizes: launch.sizes };
        // SAFETY: the caller's promise, here and below.
        let problem = unsafe { Problem::<T>::read(self.0, &mut reader, launch.error) };
        let results = Results { out: reader.buffer(4), lse: reader.buffer(3) };
        let chunks = row_chunks(problem.heads(), problem.t);
        let step = problem.t.div_ceil(chunks.max(1));
        pool::run(problem.heads() * chunks, &|part| {
            let (problem, results) = (&problem, &results);
            let (head, chunk) = (part / chunks, part % chunks);
            let rows = chunk * step..((chunk + 1) * step).min(problem.t);
            // SAFETY: the caller's promise; parts are apart.
            unsafe { forward_rows(problem, results, head, rows) }
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Into how many parts the rows of a head are split: one, but where there are too few heads for the threads.
fn row_chunks(heads: usize, rows: usize) -> usize {
    let threads = pool::threads();
    if heads == 0 || rows == 0 {
        return 1;
    }
    if heads.is_multiple_of(threads) || heads >= 4 * threads { 1 } else { threads.min(rows.div_ceil(LANES)) }
}

struct Results<T> {
    out: Batched<T>,
    lse: Batched<T>,
}
// SAFETY: tasks write apart.
unsafe impl<T> Sync for Results<T> {}

/// Rows of one head, in blocks whose scores are held.
unsafe fn forward_rows<T: Real>(p: &Problem<T>, results: &Results<T>, head: usize, rows: Range<usize>) {
    if rows.is_empty() {
        return;
    }
    let (b, h) = (head / p.h, head % p.h);
    let most = p.seen(rows.end - 1);
    let (width, held) = (padded(most), ROWS.min(rows.len()));
    let packed = p.t >= PACK_FROM;
    let key_rows = if packed { p.d * width + SLACK } else { 2 * padded(p.d) };
    let elements = key_rows + most * padded(p.e) + held * width + 2 * padded(held);
    with_scratch(elements * size_of::<T>(), |scratch| {
        let mut pieces = Pieces { next: scratch.cast::<T>() };
        // SAFETY: the caller's promise; the scratch has room for all pieces.
        unsafe {
            let v = rows_of(p.v.head(b, h), most, p.e, p.kernels.lanes, &mut pieces);
            let keys = if packed { pieces.take_slack(p.d, width) } else { pieces.take(2, padded(p.d)) };
            if packed {
                transpose(p.kernels, p.k.head(b, h), most, p.d, keys);
            }
            let (scores, sums) = (pieces.take(held, width), pieces.take(2, padded(held)));
            for t in rows.clone().step_by(held) {
                let rows = t..(t + held).min(rows.end);
                let block = Block { b, h, rows, keys, packed, scores, sums, v };
                p.isa.run(
                    #[inline(always)]
                    || forward_block(p, results, block),
                );
            }
        }
    })
}

/// Rows of one head whose scores are held at once, and the memory for it.
struct Block<T> {
    b: usize,
    h: usize,
    rows: Range<usize>,
    /// The keys transposed; or two rows of memory.
    keys: Matrix<T>,
    packed: bool,
    scores: Matrix<T>,
    /// Sums of the rows, then their maxima.
    sums: Matrix<T>,
    v: Matrix<T>,
}

#[inline(always)]
unsafe fn forward_block<T: Real>(p: &Problem<T>, results: &Results<T>, block: Block<T>) {
    let Block { b, h, rows, keys, packed, scores, sums, v } = block;
    let (out, lse) = (results.out.head(b, h), results.lse.head(b, h));
    let (q, k) = (p.q.head(b, h), p.k.head(b, h));
    let (t, n, seen) = (rows.start, rows.len(), p.seen(rows.end - 1));
    // SAFETY: the caller's promise.
    unsafe {
        if packed {
            product(p.kernels, [n, p.d, seen], q.at_row(t), keys, scores, false);
        } else {
            for i in 0..n {
                dot_rows(p, q.at_row(t + i), k, keys, row_mut(scores, i, seen));
            }
        }
        for i in 0..n {
            let (row, mine) = (row_mut(scores, i, padded(seen)), p.seen(t + i));
            let (sum, top) = softmax_row(p, row, mine, p.mask_row(b, h, t + i));
            sums.at(0, i).write(sum);
            sums.at(1, i).write(top);
        }
        chunked_product(p.kernels, [n, seen, p.e], scores, v, out.at_row(t));
        let (sums, tops) = (row_mut(sums, 0, padded(n)), row_mut(sums, 1, padded(n)));
        for i in 0..n {
            let share = T::ONE / sums[i];
            for x in row_mut(out, t + i, p.e) {
                *x = *x * share;
            }
        }
        row_log(sums);
        for i in 0..n {
            lse.at_row(t + i).ptr.write(sums[i] + tops[i]);
        }
    }
}

/// The products of one query with the keys, by the 16-lane tree. `held` has two rows for what does not lie side by side.
#[inline(always)]
unsafe fn dot_rows<T: Real>(p: &Problem<T>, q: Matrix<T>, k: Matrix<T>, held: Matrix<T>, scores: &mut [T]) {
    // SAFETY: the caller's promise.
    unsafe {
        let query = side_by_side(q, p.d, held);
        for (j, score) in scores.iter_mut().enumerate() {
            *score = row_dot(query, side_by_side(k.at_row(j), p.d, held.at_row(1)));
        }
    }
}
/// Row 0 of a matrix as a slice, through `held` where its elements are apart.
#[inline(always)]
unsafe fn side_by_side<'a, T: Real>(m: Matrix<T>, n: usize, held: Matrix<T>) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe {
        if m.column == 1 {
            return std::slice::from_raw_parts(m.ptr, n);
        }
        for j in 0..n {
            held.at(0, j).write(m.at(0, j).read());
        }
        std::slice::from_raw_parts(held.ptr, n)
    }
}

/// Scores of the first `seen` keys become `exp(score - max)`, the others 0. Gives their sum (1 where nothing is seen)
/// and the maximum. The row is whole groups of 16 elements.
#[inline(always)]
unsafe fn softmax_row<T: Real>(p: &Problem<T>, row: &mut [T], seen: usize, mask: Option<(*const u8, isize)>) -> (T, T) {
    let (mine, others) = row.split_at_mut(padded(seen));
    others.fill(T::ZERO);
    // SAFETY: the caller's promise.
    unsafe { p.finish_scores(&mut mine[..seen], mask) };
    for x in &mut mine[seen..] {
        *x = T::LOWEST;
    }
    let top = row_max(mine);
    if top == T::LOWEST && mine.iter().all(|x| *x == T::LOWEST) {
        mine.fill(T::ZERO);
        return (T::ONE, T::LOWEST);
    }
    // exp(-infinity) is 0.
    row_exp(mine, top);
    let sum = row_sum(mine);
    (sum, top)
}

struct Backward<T>(Settings, PhantomData<T>);

impl<T: Real> Code for Backward<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let mut reader = Reader { buffers: launch.buffers, sizes: launch.sizes };
        // SAFETY: the caller's promise, here and below.
        let problem = unsafe { Problem::<T>::read(self.0, &mut reader, launch.error) };
        let flow = Flow {
            out: reader.buffer(4),
            lse: reader.buffer(3),
            dout: reader.buffer(4),
            dq: reader.buffer(4),
            dk: reader.buffer(4),
            dv: reader.buffer(4),
        };
        pool::run(problem.heads(), &|head| {
            let (problem, flow) = (&problem, &flow);
            // SAFETY: the caller's promise; heads are apart.
            unsafe { backward_head(problem, flow, head) }
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What backward reads and writes besides the operands.
struct Flow<T> {
    out: Batched<T>,
    lse: Batched<T>,
    dout: Batched<T>,
    dq: Batched<T>,
    dk: Batched<T>,
    dv: Batched<T>,
}
// SAFETY: each task writes its own head.
unsafe impl<T> Sync for Flow<T> {}

/// One head, in blocks of queries: dk and dv gather the blocks in ascending order.
unsafe fn backward_head<T: Real>(p: &Problem<T>, flow: &Flow<T>, head: usize) {
    let (b, h) = (head / p.h, head % p.h);
    let most = if p.t == 0 { 0 } else { p.seen(p.t - 1) };
    let (width, held) = (padded(most), ROWS.min(p.t));
    let (wide_d, wide_e) = (padded(p.d), padded(p.e));
    let elements =
        width * (p.d + p.e) + 2 * SLACK + most * wide_d + p.t * (wide_d + wide_e) + 2 * held * width + 2 * wide_e;
    with_scratch(elements * size_of::<T>(), |scratch| {
        let mut pieces = Pieces { next: scratch.cast::<T>() };
        let (q, k, v) = (p.q.head(b, h), p.k.head(b, h), p.v.head(b, h));
        let (dk, dv) = (flow.dk.head(b, h), flow.dv.head(b, h));
        let lanes = p.kernels.lanes;
        // SAFETY: the caller's promise; the scratch has room for all pieces.
        unsafe {
            for s in 0..p.length {
                row_mut(dk, s, p.d).fill(T::ZERO);
                row_mut(dv, s, p.e).fill(T::ZERO);
            }
            let (keys, values) = (pieces.take_slack(p.d, width), pieces.take_slack(p.e, width));
            transpose(p.kernels, k, most, p.d, keys);
            transpose(p.kernels, v, most, p.e, values);
            let head = Head {
                b,
                h,
                keys,
                values,
                key_rows: rows_of(k, most, p.d, lanes, &mut pieces),
                query_rows: rows_of(q, p.t, p.d, lanes, &mut pieces),
                dout_rows: rows_of(flow.dout.head(b, h), p.t, p.e, lanes, &mut pieces),
                weights: pieces.take(held, width),
                slopes: pieces.take(held, width),
                rows: pieces.take(2, wide_e),
            };
            for t in (0..p.t).step_by(held.max(1)) {
                p.isa.run(
                    #[inline(always)]
                    || backward_block(p, flow, &head, t..(t + held).min(p.t)),
                );
            }
        }
    })
}

/// What the blocks of one head share.
struct Head<T> {
    b: usize,
    h: usize,
    /// Keys and values transposed.
    keys: Matrix<T>,
    values: Matrix<T>,
    /// Operands whose rows can be read in whole vectors.
    key_rows: Matrix<T>,
    query_rows: Matrix<T>,
    dout_rows: Matrix<T>,
    /// A block's memory.
    weights: Matrix<T>,
    slopes: Matrix<T>,
    rows: Matrix<T>,
}

#[inline(always)]
unsafe fn backward_block<T: Real>(p: &Problem<T>, flow: &Flow<T>, head: &Head<T>, rows: Range<usize>) {
    let (b, h) = (head.b, head.h);
    let (q, dout, out) = (p.q.head(b, h), flow.dout.head(b, h), flow.out.head(b, h));
    let (dq, dk, dv) = (flow.dq.head(b, h), flow.dk.head(b, h), flow.dv.head(b, h));
    let (weights, slopes) = (head.weights, head.slopes);
    let (t, n, seen) = (rows.start, rows.len(), p.seen(rows.end - 1));
    // SAFETY: the caller's promise.
    unsafe {
        product(p.kernels, [n, p.d, seen], q.at_row(t), head.keys, weights, false);
        product(p.kernels, [n, p.e, seen], dout.at_row(t), head.values, slopes, false);
        for i in 0..n {
            let result = side_by_side(out.at_row(t + i), p.e, head.rows);
            let delta = row_dot(side_by_side(dout.at_row(t + i), p.e, head.rows.at_row(1)), result);
            let level = flow.lse.head(b, h).at_row(t + i).ptr.read();
            let (w, s) = (row_mut(weights, i, padded(seen)), row_mut(slopes, i, padded(seen)));
            slope_row(p, w, s, p.seen(t + i), p.mask_row(b, h, t + i), level, delta);
        }
        chunked_product(p.kernels, [n, seen, p.d], slopes, head.key_rows, dq.at_row(t));
        let turned = |m: Matrix<T>| Matrix { row: m.column, column: m.row, ..m };
        product(p.kernels, [seen, n, p.d], turned(slopes), head.query_rows.at_row(t), dk, true);
        product(p.kernels, [seen, n, p.e], turned(weights), head.dout_rows.at_row(t), dv, true);
    }
}

/// Scores become weights `exp(score - lse)`, and products with the values become slopes `weight (product - delta)
/// scale`; both are 0 beyond the first `seen` keys. The rows are whole groups of 16 elements.
#[inline(always)]
unsafe fn slope_row<T: Real>(
    p: &Problem<T>,
    weights: &mut [T],
    slopes: &mut [T],
    seen: usize,
    mask: Option<(*const u8, isize)>,
    level: T,
    delta: T,
) {
    let seen = if level == T::LOWEST { 0 } else { seen };
    let (weights, others) = weights.split_at_mut(padded(seen));
    others.fill(T::ZERO);
    let (slopes, others) = slopes.split_at_mut(padded(seen));
    others.fill(T::ZERO);
    // SAFETY: the caller's promise.
    unsafe { p.finish_scores(&mut weights[..seen], mask) };
    for (w, s) in weights[seen..].iter_mut().zip(&mut slopes[seen..]) {
        (*w, *s) = (T::LOWEST, T::ZERO);
    }
    row_exp(weights, level);
    let scale = T::of(p.settings.scale);
    for (s, w) in slopes.iter_mut().zip(weights.iter()) {
        *s = *w * (*s - delta) * scale;
    }
}

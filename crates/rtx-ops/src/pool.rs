//! Pooling: largest elements and means of windows, over even or adaptive windows, and the way back.
use crate::args::Args;
use crate::lines::known;
use crate::precision::{lowest, mean_keep, widen};
use crate::spatial::{Each, Windows, along, check_least, count_to, is_given, list, positions, sizes, take};
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Extremum, Fold, Kind, Result, Shape};
use rtx_ir::{
    Arg, Attr, Body, Bound, Builder, ConvDim, Convolution, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample,
    Saves, ScatterOp, Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &WINDOWED_MAX,
    &SCATTER_WINDOWS,
    &PLACE_WINDOWS,
    &MAX_POOL1D,
    &MAX_POOL2D,
    &MAX_POOL3D,
    &MAX_POOL1D_WITH_INDICES,
    &MAX_POOL2D_WITH_INDICES,
    &MAX_POOL3D_WITH_INDICES,
    &F_MAX_POOL1D,
    &F_MAX_POOL2D,
    &F_MAX_POOL3D,
    &AVG_POOL1D,
    &AVG_POOL2D,
    &AVG_POOL3D,
    &ADAPTIVE_AVG_POOL1D,
    &ADAPTIVE_AVG_POOL2D,
    &ADAPTIVE_AVG_POOL3D,
    &ADAPTIVE_MAX_POOL1D,
    &ADAPTIVE_MAX_POOL2D,
    &ADAPTIVE_MAX_POOL3D,
    &F_ADAPTIVE_MAX_POOL1D,
    &F_ADAPTIVE_MAX_POOL2D,
    &F_ADAPTIVE_MAX_POOL3D,
    &LP_POOL1D,
    &LP_POOL2D,
    &LP_POOL3D,
    &MAX_UNPOOL2D,
    &MAX_UNPOOL3D,
    &F_MAX_UNPOOL1D,
    &F_MAX_UNPOOL2D,
    &F_MAX_UNPOOL3D,
    &MAX_POOL2D_BACKWARD,
];

// The largest element of each window.

/// The largest element of each window over the last dims, and where in these dims it lies, in row-major order.
/// Attributes: window, stride, padding, dilation, output sizes; no window for adaptive ones.
pub static WINDOWED_MAX: OpDef = OpDef {
    sig: "windowed_max(Tensor self, int[] window, int[] stride, int[] padding, int[] dilation, int[] output) -> (Tensor, Tensor)",
    doc: "The largest element of each window over the last dims, the first of equal ones, and its position there; \
          adaptive windows, which part the dims, where no window is given.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let lists = (1..6).map(|i| Ok(Attr::Ints(args.ints(i)?))).collect::<Result<_>>()?;
        b.composite(def, lists, &[args.tensor(0)?])
    },
    infer: infer_windowed_max,
    body: Body::Composite(windowed_max_body),
    grad: Grad::Rule(|b, cx| {
        let size = spatial_of(b, cx.inputs[0], cx.op.attrs()[4].ints().len());
        let mut grads: Grads = smallvec![None];
        if let (true, Some(g)) = (cx.wants[0], cx.cotangents[0]) {
            let outs = b.composite(&SCATTER_WINDOWS, smallvec![Attr::Ints(size)], &[g, cx.outputs[1]])?;
            grads[0] = Some(outs[0]);
        }
        Ok(grads)
    }),
    saves: Saves::Only { inputs: &[], outputs: &[1] },
    cost: 9,
    samples: &[
        Sample::grad("f32[2,5,6], [3, 2], [2, 1], [1, 0], [1, 2], [3, 4]", 0),
        Sample::grad("f32[2,7], [], [], [], [], [3]", 0),
        Sample::exact("f32[7] = 1 3 3 nan 0 -inf -inf, [2], [1], [0], [1], [6]"),
        Sample::exact("i64[2,3,4,5] in -9..9, [1, 2, 2], [1, 1, 2], [0, 1, 1], [1, 1, 1], [3, 5, 3]"),
    ],
    refuses: &[Refusal::of("f32[4], [2], [1, 1], [0], [1], [3]", "windowed_max: its lists are of one length")],
    ..OpDef::DEFAULT
};

/// The sizes of the last dims.
fn spatial_of(b: &Builder<'_>, x: ValueId, n: usize) -> SmallVec<[i64; 4]> {
    let shape = b.shape(x);
    shape.iter().skip(shape.rank() - n).map(|d| d.bound() as i64).collect()
}

fn infer_windowed_max(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let (x, attrs) = (inputs[0], op.attrs());
    let n = attrs[4].ints().len();
    let is_adaptive = attrs[0].ints().is_empty();
    if attrs[..4].iter().any(|l| l.ints().len() != if is_adaptive { 0 } else { n }) {
        return Err(rules::refuse(op.name(), Kind::Argument, "its lists are of one length"));
    }
    if x.rank() < n || x.dtype == DType::Bool {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit {x}")));
    }
    for d in x.shape.iter().skip(x.rank() - n) {
        known(op.name(), d)?;
    }
    let out = attrs[4].ints().iter().map(|&o| Dim::Const(o.max(0) as u64));
    let shape: Shape = x.shape.iter().take(x.rank() - n).chain(out).collect();
    Ok(smallvec![Type { dtype: x.dtype, shape: shape.clone() }, Type { dtype: DType::I64, shape }])
}

/// The windows along each dim that the attributes say.
fn windows_of(attrs: &[Attr], size: &[i64]) -> Vec<Windows> {
    let [window, stride, padding, dilation, out] = [0, 1, 2, 3, 4].map(|i| attrs[i].ints());
    (0..out.len())
        .map(|d| match window.get(d) {
            None => Windows { size: size[d], count: out[d], even: None },
            Some(&k) => Windows { size: size[d], count: out[d], even: Some((k, stride[d], padding[d], dilation[d])) },
        })
        .collect()
}

fn windowed_max_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let n = attrs[4].ints().len();
    let size = spatial_of(b, v[0], n);
    let windows = windows_of(attrs, &size);
    let lead = b.rank(v[0]) - n;
    let (mut x, dtype) = (v[0], b.dtype(v[0]));
    // Window and element of each dim, one after the other, then all windows before all elements.
    let pairs: Shape = windows.iter().flat_map(|w| [w.count, w.longest()]).map(|n| Dim::from(n as usize)).collect();
    let mut inside: Option<ValueId> = None;
    let mut flat: Option<ValueId> = None;
    let mut step = 1;
    for (d, w) in windows.iter().enumerate().rev() {
        let (at, is_one) = positions(b, w)?;
        x = take(b, x, lead + d, at)?;
        let mut placed: Shape = (0..2 * n).map(|_| Dim::Const(1)).collect();
        placed.set(2 * d, w.count as usize);
        placed.set(2 * d + 1, w.longest() as usize);
        let (at, is_one) = (b.reshape(at, &placed)?, b.reshape(is_one, &placed)?);
        let (at, is_one) = (b.expand(at, &pairs)?, b.expand(is_one, &pairs)?);
        let at = b.mul(at, step as f64)?;
        flat = Some(if let Some(f) = flat { b.add(f, at)? } else { at });
        inside = Some(if let Some(i) = inside { b.and(i, is_one)? } else { is_one });
        step *= w.size;
    }
    let (Some(inside), Some(flat)) = (inside, flat) else {
        return Err(rules::refuse("windowed_max", Kind::Argument, "needs a dim"));
    };
    let least = b.full(dtype, &b.shape(x), lowest(dtype))?;
    let inside = b.expand(inside, &b.shape(x))?;
    let x = b.select(inside, x, least)?;
    let (x, flat) = (gather_elements(b, x, lead, n)?, gather_elements(b, flat, 0, n)?);
    let last = b.rank(x) - 1;
    let y = b.reduce(Fold::Max, x, &[last])?;
    let best = b.prim(Prim::ArgReduce { extremum: Extremum::Max, axis: last }, &[x])?;
    // Which element of which window, in the list of all elements of all windows.
    let shape = b.shape(flat);
    let (count, longest) = (shape.numel() / shape.dim(n).bound().max(1), shape.dim(n).bound());
    let first = count_to(b, count)?;
    let first = b.mul(first, longest as f64)?;
    let first = b.reshape(first, &shape.iter().take(n).collect())?;
    let place = b.add(best, first)?;
    let list = b.reshape(flat, &[shape.numel()].into())?;
    Ok(smallvec![y, take(b, list, 0, place)?])
}

/// `[lead.., count, len, count, len, ..]` as `[lead.., counts.., elements]`.
fn gather_elements(b: &mut Builder<'_>, x: ValueId, lead: usize, n: usize) -> Result<ValueId> {
    let order: SmallVec<[usize; 8]> =
        (0..lead).chain((0..n).map(|d| lead + 2 * d)).chain((0..n).map(|d| lead + 2 * d + 1)).collect();
    let x = b.permute(x, &order)?;
    let shape = b.shape(x);
    let elements: usize = shape.iter().skip(lead + n).map(Dim::bound).product();
    let joined: Shape = shape.iter().take(lead + n).chain([Dim::from(elements)]).collect();
    b.reshape(x, &joined)
}

/// Elements added up at positions of the last dims: the gradient of [`WINDOWED_MAX`]. Attribute: sizes of these dims.
pub static SCATTER_WINDOWS: OpDef = OpDef {
    sig: "scatter_windows(Tensor self, Tensor indices, int[] size) -> Tensor",
    doc: "Zeros of a size in the last dims, to which elements are added at positions, row-major within these dims.",
    record: record_scatter_windows,
    infer: infer_scatter_windows,
    body: Body::Composite(|b, attrs, v| {
        let size = attrs[0].ints();
        let whole = whole_of(b, v[0], size);
        let places = places_of(b, v[1], size.len(), size)?;
        let updates = b.reshape(v[0], &b.shape(places))?;
        let zeros = b.zeros(b.dtype(v[0]), &[whole.numel()].into())?;
        let y = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[zeros, places, updates])?;
        Ok(smallvec![b.reshape(y, &whole)?])
    }),
    grad: Grad::Rule(scatter_windows_grad),
    saves: Saves::Only { inputs: &[1], outputs: &[] },
    samples: &[
        Sample::grad("f32[2,3,2], i64[2,3,2] in 0..12, [4, 3]", 4),
        Sample::exact("f32[0,3], i64[0,3] in 0..4, [4]"),
    ],
    ..OpDef::DEFAULT
};

fn record_scatter_windows(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    b.composite(def, smallvec![Attr::Ints(args.ints(2)?)], &[args.tensor(0)?, args.tensor(1)?])
}
fn infer_scatter_windows(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (x, indices, size) = (inputs[0], inputs[1], op.attrs()[0].ints());
    if indices.dtype != DType::I64 || x.shape != indices.shape || x.rank() < size.len() {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {x}, indices {indices}")));
    }
    let lead = x.rank() - size.len();
    let sizes = size.iter().map(|&n| Dim::Const(n.max(0) as u64));
    Ok(smallvec![Type { dtype: x.dtype, shape: x.shape.iter().take(lead).chain(sizes).collect() }])
}
fn scatter_windows_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let size: SmallVec<[i64; 4]> = cx.op.attrs()[0].ints().into();
    let g = if cx.wants[0] { Some(take_windows(b, cx.ct(), cx.inputs[1], &size)?) } else { None };
    Ok(smallvec![g, None])
}

/// The way back of [`MAX_POOL2D_WITH_INDICES`].
pub static MAX_POOL2D_BACKWARD: OpDef = OpDef {
    sig: "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    doc: "The gradient of each window added up where its largest element was found; self gives the sizes.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let size = sizes(b, def.name(), args.tensor(1)?, 2)?;
        let size = smallvec![Attr::Ints(size.iter().copied().collect())];
        b.composite(&SCATTER_WINDOWS, size, &[args.tensor(0)?, args.tensor(7)?])
    },
    samples: &[Sample::of("f32[1,2,2], f32[1,4,4], 2, 2, 0, 1, false, i64[1,2,2] = 0 3 8 10", 4)],
    ..POOL
};

/// The dims before the last `n`.
fn lead_of(b: &Builder<'_>, x: ValueId, n: usize) -> Shape {
    let shape = b.shape(x);
    shape.iter().take(shape.rank() - n).collect()
}
/// With other sizes in the last dims.
fn whole_of(b: &Builder<'_>, x: ValueId, size: &[i64]) -> Shape {
    lead_of(b, x, size.len()).iter().chain(size.iter().map(|&s| Dim::from(s as usize))).collect()
}
/// Positions within the last dims as positions in the whole tensor of that size, in one line.
fn places_of(b: &mut Builder<'_>, indices: ValueId, n: usize, size: &[i64]) -> Result<ValueId> {
    let shape = b.shape(indices);
    let lead = lead_of(b, indices, n);
    for d in lead.iter() {
        known("scatter_windows", d)?;
    }
    let rows = lead.numel();
    let two = Shape::from([rows, shape.iter().skip(lead.rank()).map(Dim::bound).product()]);
    let indices = b.reshape(indices, &two)?;
    let first = count_to(b, rows)?;
    let first = b.mul(first, size.iter().product::<i64>() as f64)?;
    let first = b.reshape(first, &[rows, 1].into())?;
    let places = b.add(indices, first)?;
    b.reshape(places, &[two.numel()].into())
}
/// The elements at positions of the last dims.
fn take_windows(b: &mut Builder<'_>, x: ValueId, indices: ValueId, size: &[i64]) -> Result<ValueId> {
    let places = places_of(b, indices, size.len(), size)?;
    let x = b.reshape(x, &[b.shape(x).numel()].into())?;
    let y = take(b, x, 0, places)?;
    b.reshape(y, &b.shape(indices))
}

/// How PyTorch counts windows: with `ceil` also one that starts inside and sticks out.
fn window_count(op: &str, size: i64, (k, s, p, d): (i64, i64, i64, i64), ceil: bool) -> Result<i64> {
    let room = size + 2 * p - d * (k - 1) - 1;
    let mut out = (room + if ceil { s - 1 } else { 0 }).div_euclid(s) + 1;
    if ceil && (out - 1) * s >= size + p {
        out -= 1;
    }
    if out >= 1 {
        return Ok(out);
    }
    Err(rules::refuse(op, Kind::Shape, format_args!("a window of {k} does not fit into a dim of {size}")))
}

/// Window, stride, padding and dilation of a call, checked.
struct Pool {
    window: Each<i64>,
    stride: Each<i64>,
    padding: Each<i64>,
    dilation: Each<i64>,
    size: Each<i64>,
    out: Each<i64>,
}

impl Pool {
    fn of(b: &Builder<'_>, args: Args<'_>, n: usize, dilation: Option<usize>, ceil: usize) -> Result<Self> {
        let op = args.op();
        let window = list(args, 1, n, &[1])?;
        let stride = list(args, 2, n, &window)?;
        let padding = list(args, 3, n, &[0])?;
        let dilation = dilation.map_or(Ok(SmallVec::from_elem(1, n)), |i| list(args, i, n, &[1]))?;
        Self::checked(b, args.tensor(0)?, op, [window, stride, padding, dilation], args.flag(ceil)?)
    }
    fn checked(b: &Builder<'_>, x: ValueId, op: &str, lists: [Each<i64>; 4], ceil: bool) -> Result<Self> {
        let [window, stride, padding, dilation] = lists;
        let n = window.len();
        check_least(op, "kernel_size", &window, 1)?;
        check_least(op, "stride", &stride, 1)?;
        check_least(op, "padding", &padding, 0)?;
        check_least(op, "dilation", &dilation, 1)?;
        let size = sizes(b, op, x, n)?;
        let mut out = Each::new();
        for d in 0..n {
            if padding[d] > ((window[d] - 1) * dilation[d] + 1) / 2 {
                let what = format_args!("padding {} is more than half a window of {}", padding[d], window[d]);
                return Err(rules::refuse(op, Kind::Argument, what));
            }
            out.push(window_count(op, size[d], (window[d], stride[d], padding[d], dilation[d]), ceil)?);
        }
        Ok(Self { window, stride, padding, dilation, size, out })
    }
    fn max(&self, b: &mut Builder<'_>, x: ValueId) -> Result<Outs> {
        let lists = [&self.window, &self.stride, &self.padding, &self.dilation, &self.out];
        let attrs = lists.into_iter().map(|l| Attr::Ints(l.iter().copied().collect())).collect();
        b.composite(&WINDOWED_MAX, attrs, &[x])
    }
    /// Sums of windows, by a convolution with ones over every image and channel alone.
    fn sum(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let n = self.window.len();
        let (shape, dtype) = (b.shape(x), b.dtype(x));
        let lead = lead_of(b, x, n);
        let spatial = || shape.iter().skip(lead.rank());
        // One symbol alone may stay one.
        let images = match lead.is_static() {
            true => Dim::from(lead.numel()),
            false => match (lead.dim(0), lead.iter().skip(1).map(Dim::bound).product()) {
                (d, 1usize) => d,
                _ => Dim::from(known("avg_pool", lead.dim(0))?),
            },
        };
        let image: Shape = [images, Dim::Const(1)].into_iter().chain(spatial()).collect();
        let x = b.reshape(x, &image)?;
        let window: Shape =
            [1, 1].into_iter().map(Dim::Const).chain(self.window.iter().map(|&k| Dim::from(k as usize))).collect();
        let ones = b.full(dtype, &window, 1i64)?;
        let dim = |d: usize| ConvDim {
            stride: self.stride[d] as u64,
            low: self.padding[d],
            high: (self.out[d] - 1) * self.stride[d] + self.window[d] - self.padding[d] - self.size[d],
            base: 1,
            dilation: 1,
        };
        let conv = Convolution { dims: (0..n).map(dim).collect(), groups: 1 };
        let y = b.prim(Prim::Conv(Box::new(conv)), &[x, ones])?;
        let out: Shape = lead.iter().chain(self.out.iter().map(|&o| Dim::from(o as usize))).collect();
        b.reshape(y, &out)
    }
    fn windows(&self, d: usize) -> Windows {
        let even = Some((self.window[d], self.stride[d], self.padding[d], 1));
        Windows { size: self.size[d], count: self.out[d], even }
    }
    /// How many elements each window of a dim has.
    fn counts(&self, d: usize, include_padding: bool) -> Vec<i64> {
        let (n, p) = (self.size[d], self.padding[d]);
        let count = |i: i64| {
            let start = i * self.stride[d] - p;
            let end = (start + self.window[d]).min(n + p);
            if include_padding { end - start } else { end.min(n) - start.max(0) }
        };
        (0..self.out[d]).map(count).collect()
    }
    fn mean(&self, b: &mut Builder<'_>, x: ValueId, include_padding: bool, divisor: Option<i64>) -> Result<ValueId> {
        let n = self.window.len();
        let (rank, dtype) = (b.rank(x), b.dtype(x));
        let whole = (0..n).all(|d| self.window[d] == self.size[d] && self.padding[d] == 0 && self.out[d] == 1);
        if whole && divisor.is_none() && dtype.is_float() {
            let wide = widen(b, x)?;
            let axes: Vec<usize> = (rank - n..rank).collect();
            let y = mean_keep(b, wide, &axes)?;
            return b.cast(y, dtype);
        }
        let x = widen(b, x)?;
        let sum = self.sum(b, x)?;
        let compute = b.dtype(sum);
        let counts: Vec<Vec<i64>> = (0..n).map(|d| self.counts(d, include_padding)).collect();
        let uniform = counts.iter().map(|c| c.first().copied().filter(|f| c.iter().all(|n| n == f)));
        let y = match divisor.or_else(|| uniform.product::<Option<i64>>()) {
            Some(n) => b.div(sum, n as f64)?,
            None => {
                let mut count: Option<ValueId> = None;
                for d in 0..n {
                    let of = self.windows(d).counts(b, include_padding)?;
                    let of = along(b, of, rank - n + d, rank)?;
                    count = Some(if let Some(c) = count { b.mul(c, of)? } else { of });
                }
                let count = count.unwrap_or(sum);
                let count = b.cast(count, compute)?;
                b.div(sum, count)?
            }
        };
        b.cast(y, dtype)
    }
}

fn record_max(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let pool = Pool::of(b, args, n, Some(4), 5)?;
    let mut outs = pool.max(b, args.tensor(0)?)?;
    let both = def.sig.ends_with("(Tensor, Tensor)") || args.flag(6)?;
    outs.truncate(if both { 2 } else { 1 });
    Ok(outs)
}

const POOL: OpDef = OpDef { cost: 9, stability: Stability::Stable, ..SPELLING };

macro_rules! max_pools { ($($NAME:ident $n:literal $sig:literal $doc:literal [$($sample:expr),*] [$($refusal:expr),*])*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| record_max(b, def, args, $n),
        samples: &[$($sample),*],
        refuses: &[$($refusal),*],
        ..POOL
    };
)* } }
max_pools! {
    MAX_POOL1D 1 "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor"
        "The largest element of each window over the last dim; the padding never wins."
        [Sample::grad("f32[2,3,7], 3, 2, 1", 0), Sample::grad("f32[2,8], [2], [3], [0], [2], true", 0)]
        [
            Refusal::of("f32[2,3,7], 3, 2, 2", "max_pool1d: padding 2 is more than half a window of 3"),
            Refusal::of("f32[2,3,7], 0", "max_pool1d: kernel_size is at least 1, got 0"),
            Refusal::of("f32[7], 2", "max_pool1d: takes 2 or 3 dims, got [7]"),
            Refusal::of("f32[2,3,2], 3", "max_pool1d: a window of 3 does not fit into a dim of 2")
        ]
    MAX_POOL2D 2 "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor"
        "The largest element of each window over the last two dims."
        [Sample::grad("f32[2,2,5,6], [3, 2], [2, 2], [1, 0]", 0)] []
    MAX_POOL3D 3 "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor"
        "The largest element of each window over the last three dims."
        [Sample::grad("f32[2,3,4,4], 2, [1, 2, 1]", 0)] []
    MAX_POOL1D_WITH_INDICES 1 "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)"
        "`max_pool1d`, and where each largest element lies."
        [Sample::grad("f32[2,3,7], 3, 2, 1", 0)] []
    MAX_POOL2D_WITH_INDICES 2 "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "`max_pool2d`, and where each largest element lies in its image, in row-major order."
        [Sample::grad("f32[2,2,5,6], [3, 2], [2, 2], [1, 0], 1, true", 0)] []
    MAX_POOL3D_WITH_INDICES 3 "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"
        "`max_pool3d`, and where each largest element lies in its image, in row-major order."
        [Sample::grad("f32[2,3,4,4], 2, [1, 2, 1]", 0)] []
    F_MAX_POOL1D 1 "nn_functional_max_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor"
        "`max_pool1d` as Python's function has it: with `return_indices` also where."
        [Sample::grad("f32[2,3,7], 3, 2, 1", 0), Sample::exact("f32[2,3,7], 3, 2, 1, 1, false, true")] []
    F_MAX_POOL2D 2 "nn_functional_max_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor"
        "`max_pool2d` as Python's function has it: with `return_indices` also where."
        [Sample::grad("f32[2,4,4], 2", 0)] []
    F_MAX_POOL3D 3 "nn_functional_max_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, bool ceil_mode=False, bool return_indices=False) -> Tensor"
        "`max_pool3d` as Python's function has it: with `return_indices` also where."
        [Sample::grad("f32[2,3,4,4], 2, [1, 2, 1]", 0)] []
}

// Means of windows.

fn record_avg(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let pool = Pool::of(b, args, n, None, 4)?;
    let include = if is_given(args, 5) { args.flag(5)? } else { true };
    let divisor = args.optional_int(6)?;
    if divisor == Some(0) {
        return Err(rules::refuse(def.name(), Kind::Argument, "divisor_override is not 0"));
    }
    Ok(smallvec![pool.mean(b, args.tensor(0)?, include, divisor)?])
}

macro_rules! avg_pools { ($($NAME:ident $n:literal $sig:literal $doc:literal [$($sample:expr),*] [$($refusal:expr),*])*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| record_avg(b, def, args, $n),
        samples: &[$($sample),*],
        refuses: &[$($refusal),*],
        ..POOL
    };
)* } }
avg_pools! {
    AVG_POOL1D 1 "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor"
        "The mean of each window over the last dim, the padding counted as zeros or not at all."
        [Sample::grad("f32[2,3,7], 3, 2, 1", 16), Sample::grad("f32[2,3,8], 3, 2, 1, true, false", 16),
         Sample::grad("f32[2,5], 5", 16), Sample::of("bf16[2,6], 2", 1 << 17)]
        [Refusal::of("f32[2,3,7], 3, 0", "avg_pool1d: stride is at least 1, got 0")]
    AVG_POOL2D 2 "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "The mean of each window over the last two dims, or its sum over another divisor."
        [Sample::grad("f32[2,2,5,6], [3, 2], [2, 2], [1, 0]", 16), Sample::grad("f32[2,5,6], 2, 3, 1, true, true, 3", 16)]
        [Refusal::of("f32[2,5,6], 2, 3, 1, true, true, 0", "avg_pool2d: divisor_override is not 0")]
    AVG_POOL3D 3 "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor"
        "The mean of each window over the last three dims, or its sum over another divisor."
        [Sample::grad("f32[2,3,4,4], 2, [1, 2, 1], 1", 16)] []
}

// Adaptive windows.

/// Output sizes; what is left open keeps the dim.
fn output_sizes(b: &Builder<'_>, args: Args<'_>, n: usize) -> Result<Each<i64>> {
    let size = sizes(b, args.op(), args.tensor(0)?, n)?;
    let out: Each<i64> = match args.get(1) {
        Arg::List(l) if l.len() == n => (0..n)
            .map(|d| match &l[d] {
                Arg::None => Ok(size[d]),
                Arg::Scalar(s) => Ok(s.to_f64() as i64),
                _ => Err(rules::refuse(args.op(), Kind::Argument, "output_size takes integers")),
            })
            .collect::<Result<_>>()?,
        _ => list(args, 1, n, &size)?,
    };
    check_least(args.op(), "output_size", &out, 0)?;
    match size.iter().zip(&out).find(|(s, o)| **s == 0 && **o > 0) {
        Some(_) => Err(rules::refuse(args.op(), Kind::Shape, "an empty dim has no windows")),
        None => Ok(out),
    }
}

fn record_adaptive_avg(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let out = output_sizes(b, args, n)?;
    Ok(smallvec![adaptive_mean(b, x, &out)?])
}

/// Means over windows that part the last dims.
pub(crate) fn adaptive_mean(b: &mut Builder<'_>, x: ValueId, out: &[i64]) -> Result<ValueId> {
    let (n, dtype) = (out.len(), b.dtype(x));
    let size = spatial_of(b, x, n);
    if out.iter().zip(&size).all(|(&o, &s)| o > 0 && s > 0 && s % o == 0) {
        let window: Each<i64> = out.iter().zip(&size).map(|(&o, &s)| s / o).collect();
        let out = out.iter().copied().collect();
        let size = size.iter().copied().collect();
        let (padding, dilation) = (SmallVec::from_elem(0, n), SmallVec::from_elem(1, n));
        let pool = Pool { stride: window.clone(), window, padding, dilation, size, out };
        return pool.mean(b, x, true, None);
    }
    let lead = b.rank(x) - n;
    let mut y = widen(b, x)?;
    for d in (0..n).rev() {
        let windows = Windows { size: size[d], count: out[d], even: None };
        let (at, is_one) = positions(b, &windows)?;
        y = take(b, y, lead + d, at)?;
        let rank = b.rank(y);
        let mut placed: Shape = (0..rank).map(|_| Dim::Const(1)).collect();
        placed.set(lead + d, windows.count as usize);
        placed.set(lead + d + 1, windows.longest() as usize);
        let is_one = b.reshape(is_one, &placed)?;
        let is_one = b.expand(is_one, &b.shape(y))?;
        y = b.select(is_one, y, 0.0)?;
        y = b.reduce(Fold::Sum, y, &[lead + d + 1])?;
        if let (_, Some(lens)) = windows.starts(b)? {
            let lens = b.cast(lens, b.dtype(y))?;
            let lens = along(b, lens, lead + d, rank - 1)?;
            y = b.div(y, lens)?;
        }
    }
    b.cast(y, dtype)
}

fn record_adaptive_max(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let out = output_sizes(b, args, n)?;
    let none = || Attr::Ints(SmallVec::new());
    let attrs = smallvec![none(), none(), none(), none(), Attr::Ints(out.iter().copied().collect())];
    let mut outs = b.composite(&WINDOWED_MAX, attrs, &[args.tensor(0)?])?;
    let both = def.sig.ends_with("(Tensor, Tensor)") || args.flag(2)?;
    outs.truncate(if both { 2 } else { 1 });
    Ok(outs)
}

macro_rules! adaptive { ($($NAME:ident $record:ident $n:literal $sig:literal $doc:literal [$($sample:expr),*])*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| $record(b, def, args, $n),
        samples: &[$($sample),*],
        ..POOL
    };
)* } }
adaptive! {
    ADAPTIVE_AVG_POOL1D record_adaptive_avg 1 "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"
        "Means over `output_size` windows that part the last dim: window i from ⌊i n / o⌋ to ⌈(i + 1) n / o⌉."
        [Sample::grad("f32[2,3,7], 3", 16), Sample::grad("f32[2,6], 3", 16)]
    ADAPTIVE_AVG_POOL2D record_adaptive_avg 2 "adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"
        "Means over windows that part the last two dims."
        [Sample::grad("f32[2,2,5,6], [3, 4]", 16), Sample::grad("f32[2,4,6], 1", 16)]
    ADAPTIVE_AVG_POOL3D record_adaptive_avg 3 "adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"
        "Means over windows that part the last three dims."
        [Sample::grad("f32[2,3,4,5], [2, 2, 3]", 16)]
    ADAPTIVE_MAX_POOL1D record_adaptive_max 1 "adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)"
        "The largest elements of `output_size` windows that part the last dim, and where they lie."
        [Sample::grad("f32[2,3,7], 3", 0)]
    ADAPTIVE_MAX_POOL2D record_adaptive_max 2 "adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"
        "The largest elements of windows that part the last two dims, and where they lie."
        [Sample::grad("f32[2,5,6], [3, 4]", 0)]
    ADAPTIVE_MAX_POOL3D record_adaptive_max 3 "adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)"
        "The largest elements of windows that part the last three dims, and where they lie."
        [Sample::grad("f32[2,3,4,5], [2, 2, 3]", 0)]
    F_ADAPTIVE_MAX_POOL1D record_adaptive_max 1 "nn_functional_adaptive_max_pool1d(Tensor input, int[1] output_size, bool return_indices=False) -> Tensor"
        "`adaptive_max_pool1d` as Python's function has it: with `return_indices` also where."
        [Sample::grad("f32[2,3,7], 3", 0)]
    F_ADAPTIVE_MAX_POOL2D record_adaptive_max 2 "nn_functional_adaptive_max_pool2d(Tensor input, int[2] output_size, bool return_indices=False) -> Tensor"
        "`adaptive_max_pool2d` as Python's function has it: with `return_indices` also where."
        [Sample::grad("f32[2,5,6], [3, 4]", 0)]
    F_ADAPTIVE_MAX_POOL3D record_adaptive_max 3 "nn_functional_adaptive_max_pool3d(Tensor input, int[3] output_size, bool return_indices=False) -> Tensor"
        "`adaptive_max_pool3d` as Python's function has it: with `return_indices` also where."
        [Sample::grad("f32[2,3,4,5], [2, 2, 3]", 0)]
}

// Power means.

/// `(input, norm_type, kernel_size, stride, ceil_mode)`.
fn record_lp(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, p) = (args.tensor(0)?, args.float_or(1, 2.0)?);
    let window = list(args, 2, n, &[1])?;
    let stride = list(args, 3, n, &window)?;
    rules::check_float(def.name(), b.ty(x))?;
    let dtype = b.dtype(x);
    let elements: i64 = window.iter().product();
    let lists = [window, stride, SmallVec::from_elem(0, n), SmallVec::from_elem(1, n)];
    let pool = Pool::checked(b, x, def.name(), lists, args.flag(4)?)?;
    let x = widen(b, x)?;
    let x = b.pow(x, p)?;
    let mean = pool.mean(b, x, true, None)?;
    // The sign of what a negative sum would give is kept, as PyTorch does: sign(m) · relu(|m|).
    let (sign, size) = (b.sign(mean)?, b.abs(mean)?);
    let size = b.max(size, 0.0)?;
    let mean = b.mul(sign, size)?;
    let sum = b.mul(mean, elements as f64)?;
    let y = b.pow(sum, 1.0 / p)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

adaptive! {
    LP_POOL1D record_lp 1 "lp_pool1d(Tensor input, float norm_type, int[1] kernel_size, int[1]? stride=None, bool ceil_mode=False) -> Tensor"
        "(Σ x^p)^(1/p) over each window of the last dim."
        [Sample::grad("f32[2,3,7] in 0.5..2, 2.0, 3, 2", 64)]
    LP_POOL2D record_lp 2 "lp_pool2d(Tensor input, float norm_type, int[2] kernel_size, int[2]? stride=None, bool ceil_mode=False) -> Tensor"
        "(Σ x^p)^(1/p) over each window of the last two dims."
        [Sample::grad("f32[2,4,5] in 0.5..2, 3.0, [2, 3]", 64)]
    LP_POOL3D record_lp 3 "lp_pool3d(Tensor input, float norm_type, int[3] kernel_size, int[3]? stride=None, bool ceil_mode=False) -> Tensor"
        "(Σ x^p)^(1/p) over each window of the last three dims."
        [Sample::grad("f32[1,2,3,4] in 0.5..2, 2.0, 2, 1", 64)]
}

// The way back.

/// Elements put at positions of the last dims, zeros elsewhere. Attribute: sizes of these dims.
pub static PLACE_WINDOWS: OpDef = OpDef {
    sig: "place_windows(Tensor self, Tensor indices, int[] size) -> Tensor",
    doc: "Zeros of a size in the last dims, in which elements are put at positions, row-major within these dims; the last \
          of several wins, and the gradient of a place goes to all that were put there, as PyTorch's unpooling does.",
    record: record_scatter_windows,
    infer: infer_scatter_windows,
    body: Body::Composite(|b, attrs, v| {
        let size = attrs[0].ints();
        let whole = whole_of(b, v[0], size);
        let places = places_of(b, v[1], size.len(), size)?;
        let updates = b.reshape(v[0], &b.shape(places))?;
        let zeros = b.zeros(b.dtype(v[0]), &[whole.numel()].into())?;
        let y = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Set }, &[zeros, places, updates])?;
        Ok(smallvec![b.reshape(y, &whole)?])
    }),
    grad: Grad::Rule(scatter_windows_grad),
    saves: Saves::Only { inputs: &[1], outputs: &[] },
    samples: &[Sample::grad("f32[2,3], i64[2,3] = 0 3 5 1 2 4, [6]", 0)],
    ..OpDef::DEFAULT
};

fn unpool(b: &mut Builder<'_>, op: &str, x: ValueId, indices: ValueId, size: &[i64]) -> Result<Outs> {
    check_least(op, "output_size", size, 1)?;
    if b.shape(x) != b.shape(indices) {
        let what = format_args!("shapes differ: input {}, indices {}", b.shape(x), b.shape(indices));
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    sizes(b, op, x, size.len())?;
    let indices = b.cast(indices, DType::I64)?;
    b.composite(&PLACE_WINDOWS, smallvec![Attr::Ints(size.iter().copied().collect())], &[x, indices])
}
fn record_unpool(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    unpool(b, def.name(), args.tensor(0)?, args.tensor(1)?, &list(args, 2, n, &[0])?)
}
/// `(input, indices, kernel_size, stride, padding, output_size)`.
fn record_python_unpool(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let window = list(args, 2, n, &[1])?;
    let (stride, padding) = (list(args, 3, n, &window)?, list(args, 4, n, &[0])?);
    let from = sizes(b, def.name(), x, n)?;
    let size: Each<i64> = match args.optional_ints(5)? {
        Some(given) if given.len() >= n => given[given.len() - n..].iter().copied().collect(),
        _ => (0..n).map(|d| (from[d] - 1) * stride[d] - 2 * padding[d] + window[d]).collect(),
    };
    unpool(b, def.name(), x, args.tensor(1)?, &size)
}
adaptive! {
    MAX_UNPOOL2D record_unpool 2 "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor"
        "Zeros with the elements at the positions that `max_pool2d_with_indices` gave."
        [Sample::grad("f32[2,2,2], i64[2,2,2] = 0 2 8 10 5 7 13 15, [4, 4]", 0)]
    MAX_UNPOOL3D record_unpool 3 "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor"
        "Zeros with the elements at the positions that `max_pool3d_with_indices` gave."
        [Sample::grad("f32[1,1,2,2], i64[1,1,2,2] = 0 2 8 10, [1, 4, 4], 2, 0", 0)]
    F_MAX_UNPOOL1D record_python_unpool 1 "nn_functional_max_unpool1d(Tensor input, Tensor indices, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[]? output_size=None) -> Tensor"
        "Zeros with the elements at the positions that `max_pool1d_with_indices` gave; the size is worked out where it is not given."
        [Sample::grad("f32[2,3], i64[2,3] = 0 3 5 1 2 4, 2", 0)]
    F_MAX_UNPOOL2D record_python_unpool 2 "nn_functional_max_unpool2d(Tensor input, Tensor indices, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[]? output_size=None) -> Tensor"
        "`max_unpool2d` as Python's function has it."
        [Sample::grad("f32[2,2,2], i64[2,2,2] = 0 2 8 10 5 7 13 15, 2", 0)]
    F_MAX_UNPOOL3D record_python_unpool 3 "nn_functional_max_unpool3d(Tensor input, Tensor indices, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[]? output_size=None) -> Tensor"
        "`max_unpool3d` as Python's function has it."
        [Sample::grad("f32[1,1,2,2], i64[1,1,2,2] = 0 2 8 10, 2", 0)]
}

//! Images sampled at computed places, and the grids of places that affine maps give.
use crate::args::Args;
use crate::interpolate::cubic_weights;
use crate::lines::known;
use crate::precision::widen;
use crate::spatial::take;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Kind, Result, Shape};
use rtx_ir::{
    Attr, Body, Bound, Builder, Op, OpDef, Outs, Prim, Refusal, Sample, Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] =
    &[&GRID_SAMPLER, &GRID_SAMPLER_2D, &GRID_SAMPLER_3D, &GRID_SAMPLE, &AFFINE_GRID_GENERATOR, &AFFINE_GRID];

const MODES: [&str; 3] = ["bilinear", "nearest", "bicubic"];
const PADDINGS: [&str; 3] = ["zeros", "border", "reflection"];

/// Samples of an image. Attributes: mode, padding (numbers), whether corners are aligned.
pub static GRID_SAMPLER: OpDef = OpDef {
    sig: "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    doc: "[n, c, h, w] (or with a depth) at the places of a grid [n, .., 2], whose last dim counts from the last dim of \
          the image and goes from −1 to 1 over it: between edges, or between the centers of the outer elements with \
          align_corners. Mode 0 interpolates between neighbours, 1 takes the nearest, 2 is cubic convolution with \
          a = −0.75. Padding: 0 zeros outside, 1 the border, 2 reflection. At a border the slope of \
          the clipped place is 0, as PyTorch's is. Jaderberg et al., arXiv:1506.02025.",
    record: |b, def, args| record_numbers(b, Args::new(def, args), None),
    infer: infer_sampler,
    body: Body::Composite(sampler_body),
    cost: 40,
    samples: &[
        Sample::grad("f32[1,2,3,4], f32[1,1,3,2] = -0.9 -0.35 0.2 0.85 0.5 1.3, 0, 0, false", 256),
        Sample::grad("f32[1,2,3,4], f32[1,1,3,2] = -0.9 -0.35 0.2 0.85 0.5 1.3, 0, 1, true", 256),
        Sample::grad("f32[1,1,3,4], f32[1,1,3,2] = -0.9 -0.35 0.2 0.85 -1.9 1.7, 0, 2, false", 512),
        Sample::grad("f32[2,1,3,4], f32[2,1,1,2] = -0.9 -0.35 0.2 0.85, 1, 0, false", 256),
        Sample::grad("f32[1,1,3,4], f32[1,1,2,2] = -0.9 -0.35 0.2 0.8, 2, 1, false", 1024),
        Sample::grad("f32[1,1,2,3,2], f32[1,1,1,2,3] = -0.9 -0.35 0.2 0.85 0.4 -0.6, 0, 0, true", 256),
    ],
    refuses: &[
        Refusal::of(
            "f32[1,2,3,4], f32[1,2,2,3], 0, 0, false",
            "grid_sampler: does not fit: input f32 [1, 2, 3, 4], grid f32 [1, 2, 2, 3]",
        ),
        Refusal::of("f32[1,2,3,4], f32[1,2,2,2], 3, 0, false", "grid_sampler: mode 3 is none of 0, 1, 2"),
    ],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

fn record(b: &mut Builder<'_>, args: Args<'_>, (mode, padding, align): (i64, i64, bool)) -> Result<Outs> {
    let attrs = smallvec![Attr::Int(mode), Attr::Int(padding), Attr::Bool(align)];
    b.composite(&GRID_SAMPLER, attrs, &[args.tensor(0)?, args.tensor(1)?])
}
/// A call with numbers for mode and padding, of so many dims.
fn record_numbers(b: &mut Builder<'_>, args: Args<'_>, dims: Option<usize>) -> Result<Outs> {
    let one_of = |i: usize, name: &str| match args.int(i)? {
        n @ 0..=2 => Ok(n),
        n => Err(rules::refuse(args.op(), Kind::Argument, format_args!("{name} {n} is none of 0, 1, 2"))),
    };
    let how = (one_of(2, "mode")?, one_of(3, "padding")?, args.flag(4)?);
    let shape = b.shape(args.tensor(0)?);
    if dims.is_some_and(|n| shape.rank() != n + 2) {
        return Err(rules::refuse(args.op(), Kind::Shape, format_args!("takes another number of dims than {shape}")));
    }
    record(b, args, how)
}

fn infer_sampler(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (x, grid) = (inputs[0], inputs[1]);
    rules::check_float(op.name(), x)?;
    let n = x.rank().wrapping_sub(2);
    let fits = (2..=3).contains(&n)
        && grid.rank() == n + 2
        && grid.dtype == x.dtype
        && grid.shape.dim(n + 1) == Dim::from(n)
        && grid.shape.dim(0) == x.shape.dim(0);
    if !fits {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: input {x}, grid {grid}")));
    }
    for t in [x, grid] {
        t.shape.iter().try_for_each(|d| known(op.name(), d).map(drop))?;
    }
    if x.shape.iter().skip(2).any(|d| d.bound() == 0) {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("an empty image has no samples: {x}")));
    }
    let out = grid.shape.iter().skip(1).take(n);
    Ok(smallvec![Type { dtype: x.dtype, shape: x.shape.iter().take(2).chain(out).collect() }])
}

/// An image as rows of channels, and how places outside it are read.
struct Image {
    /// `[n · elements, c]`.
    rows: ValueId,
    /// `[n, places]`: where the rows of each image start.
    first: ValueId,
    size: SmallVec<[i64; 3]>,
    /// `[n, places]`.
    places: Shape,
    padding: i64,
    align: bool,
}

fn sampler_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mode, padding, align) = (attrs[0].int(), attrs[1].int(), attrs[2].bool());
    let (shape, dtype) = (b.shape(v[0]), b.dtype(v[0]));
    let n = shape.rank() - 2;
    let (x, grid) = (widen(b, v[0])?, widen(b, v[1])?);
    let out: Shape = b.shape(grid).iter().skip(1).take(n).collect();
    let places = Shape::from_iter([shape.dim(0), Dim::from(out.numel())]);
    let image = Image::of(b, x, &places, (padding, align))?;
    let flat = Shape::from_iter([places.dim(0), places.dim(1), Dim::from(n)]);
    let grid = b.reshape(grid, &flat)?;
    let mut at: SmallVec<[ValueId; 3]> = SmallVec::new();
    for d in 0..n {
        let c = b.slice(grid, 2, (n - 1 - d) as i64, 1usize)?;
        let c = b.reshape(c, &places)?;
        at.push(image.coordinate(b, c, d)?);
    }
    let y = match mode {
        0 => image.linear(b, &at)?,
        1 => image.nearest(b, &at)?,
        _ => image.cubic(b, &at)?,
    };
    let y = b.permute(y, &[0, 2, 1])?;
    let whole: Shape = shape.iter().take(2).chain(out.iter()).collect();
    let y = b.reshape(y, &whole)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

impl Image {
    fn of(b: &mut Builder<'_>, x: ValueId, places: &Shape, (padding, align): (i64, bool)) -> Result<Self> {
        let shape = b.shape(x);
        let size: SmallVec<[i64; 3]> = shape.iter().skip(2).map(|d| d.bound() as i64).collect();
        let elements = size.iter().product::<i64>() as usize;
        let (images, channels) = (shape.dim(0).bound(), shape.dim(1).bound());
        let x = b.reshape(x, &[images, channels, elements].into())?;
        let x = b.permute(x, &[0, 2, 1])?;
        let rows = b.reshape(x, &[images * elements, channels].into())?;
        let first = b.prim(Prim::Iota { shape: places.clone(), axis: 0 }, &[])?;
        let first = b.mul(first, elements as f64)?;
        Ok(Self { rows, first, size, places: places.clone(), padding, align })
    }
    /// −1 … 1 as a position among the elements of dim `d`, moved inside by the padding.
    fn coordinate(&self, b: &mut Builder<'_>, c: ValueId, d: usize) -> Result<ValueId> {
        let n = self.size[d] as f64;
        let c = b.add(c, 1.0)?;
        if self.align {
            let c = b.div(c, 2.0)?;
            return b.mul(c, n - 1.0);
        }
        let c = b.mul(c, n)?;
        let c = b.sub(c, 1.0)?;
        b.div(c, 2.0)
    }
    /// A position moved inside dim `d`, where the padding is not of zeros.
    fn moved_inside(&self, b: &mut Builder<'_>, c: ValueId, d: usize) -> Result<ValueId> {
        let n = self.size[d] as f64;
        let c = match (self.padding, self.align) {
            (0, _) => return Ok(c),
            (1, _) => c,
            (_, true) => reflected(b, c, [0.0, 2.0 * (n - 1.0)])?,
            (_, false) => reflected(b, c, [-1.0, 2.0 * n - 1.0])?,
        };
        let (after, before) = (b.lt(0.0, c)?, b.lt(c, n - 1.0)?);
        let inside = b.and(after, before)?;
        let dtype = b.dtype(c);
        let (zero, last) = (b.constant(dtype, 0.0)?, b.constant(dtype, n - 1.0)?);
        let edge = b.select(after, last, zero)?;
        b.select(inside, c, edge)
    }
    /// `[n, places, c]`: the elements at whole positions, zeros outside.
    fn pick(&self, b: &mut Builder<'_>, at: &[ValueId]) -> Result<ValueId> {
        let (mut row, mut all_inside, mut stride) = (self.first, None, 1.0);
        for (d, &position) in at.iter().enumerate().rev() {
            let (not_before, not_after) = (b.le(0.0, position)?, b.le(position, (self.size[d] - 1) as f64)?);
            let inside = b.and(not_before, not_after)?;
            let position = b.select(inside, position, 0.0)?;
            let position = b.cast(position, DType::I64)?;
            let position = b.mul(position, stride)?;
            row = b.add(row, position)?;
            all_inside = Some(if let Some(a) = all_inside { b.and(a, inside)? } else { inside });
            stride *= self.size[d] as f64;
        }
        let y = take(b, self.rows, 0, row)?;
        let Some(inside) = all_inside else { return Ok(y) };
        let inside = self.for_channels(b, inside)?;
        let inside = b.expand(inside, &b.shape(y))?;
        b.select(inside, y, 0.0)
    }
    /// `[n, places]` as `[n, places, 1]`.
    fn for_channels(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let mut shape = self.places.clone();
        shape.push(1);
        b.reshape(x, &shape)
    }
    fn nearest(&self, b: &mut Builder<'_>, at: &[ValueId]) -> Result<ValueId> {
        let mut whole: SmallVec<[ValueId; 3]> = SmallVec::new();
        for (d, &c) in at.iter().enumerate() {
            let c = self.moved_inside(b, c, d)?;
            whole.push(b.round_even(c)?);
        }
        self.pick(b, &whole)
    }
    fn linear(&self, b: &mut Builder<'_>, at: &[ValueId]) -> Result<ValueId> {
        let mut taps = Vec::new();
        for (d, &c) in at.iter().enumerate() {
            let c = self.moved_inside(b, c, d)?;
            let low = b.floor(c)?;
            let t = b.sub(c, low)?;
            taps.push(vec![(low, b.sub(1.0, t)?), (b.add(low, 1.0)?, t)]);
        }
        self.combine(b, &taps)
    }
    fn cubic(&self, b: &mut Builder<'_>, at: &[ValueId]) -> Result<ValueId> {
        let mut taps = Vec::new();
        for (d, &c) in at.iter().enumerate() {
            let low = b.floor(c)?;
            let t = b.sub(c, low)?;
            let mut row = Vec::new();
            for (k, weight) in cubic_weights(b, t, -0.75)?.into_iter().enumerate() {
                let c = b.add(low, k as f64 - 1.0)?;
                row.push((self.moved_inside(b, c, d)?, weight));
            }
            taps.push(row);
        }
        self.combine(b, &taps)
    }
    /// Σ of the elements at every choice of one tap a dim, times the product of its weights.
    fn combine(&self, b: &mut Builder<'_>, taps: &[Vec<(ValueId, ValueId)>]) -> Result<ValueId> {
        let choices: usize = taps.iter().map(Vec::len).product();
        let mut sum = None;
        for mut choice in 0..choices {
            let (mut at, mut weight): (SmallVec<[ValueId; 3]>, _) = (SmallVec::new(), None);
            for row in taps.iter().rev() {
                let (position, w) = row[choice % row.len()];
                choice /= row.len();
                at.insert(0, position);
                weight = Some(if let Some(all) = weight { b.mul(all, w)? } else { w });
            }
            let mut part = self.pick(b, &at)?;
            if let Some(w) = weight {
                let w = self.for_channels(b, w)?;
                part = b.mul(part, w)?;
            }
            sum = Some(if let Some(s) = sum { b.add(s, part)? } else { part });
        }
        sum.ok_or_else(|| rules::refuse("grid_sampler", Kind::Internal, "an image without dims"))
    }
}

/// A position reflected at two borders, given as twice their places.
fn reflected(b: &mut Builder<'_>, c: ValueId, [low, high]: [f64; 2]) -> Result<ValueId> {
    if low == high {
        return b.zeros_like(c);
    }
    let (low, span) = (low / 2.0, (high - low) / 2.0);
    let away = b.sub(c, low)?;
    let away = b.abs(away)?;
    let rest = b.rem(away, span)?;
    let times = b.div(away, span)?;
    let times = b.floor(times)?;
    let pairs = b.mul(times, 0.5)?;
    let pairs = b.floor(pairs)?;
    let pairs = b.mul(pairs, 2.0)?;
    let is_even = b.eq(times, pairs)?;
    let back = b.sub(span, rest)?;
    let (there, back) = (b.add(rest, low)?, b.add(back, low)?);
    b.select(is_even, there, back)
}

const SAMPLING: OpDef = OpDef { cost: 40, stability: Stability::Stable, ..SPELLING };

/// Two dims.
pub static GRID_SAMPLER_2D: OpDef = OpDef {
    sig: "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    doc: "As grid_sampler, of images of two dims.",
    record: |b, def, args| record_numbers(b, Args::new(def, args), Some(2)),
    samples: &[Sample::grad("f32[1,2,3,4], f32[1,1,3,2] = -0.9 -0.35 0.2 0.85 0.5 1.3, 0, 0, false", 256)],
    refuses: &[Refusal::of(
        "f32[1,1,2,2,2], f32[1,1,1,1,3], 0, 0, false",
        "grid_sampler_2d: takes another number of dims than [1, 1, 2, 2, 2]",
    )],
    ..SAMPLING
};
/// Three dims.
pub static GRID_SAMPLER_3D: OpDef = OpDef {
    sig: "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    doc: "As grid_sampler, of images of three dims.",
    record: |b, def, args| record_numbers(b, Args::new(def, args), Some(3)),
    samples: &[Sample::grad("f32[1,1,2,3,2], f32[1,1,1,2,3] = -0.9 -0.35 0.2 0.85 0.4 -0.6, 0, 1, true", 256)],
    ..SAMPLING
};
/// Python's function, with words.
pub static GRID_SAMPLE: OpDef = OpDef {
    sig: "grid_sample(Tensor input, Tensor grid, str mode=\"bilinear\", str padding_mode=\"zeros\", bool? align_corners=None) -> Tensor",
    doc: "As grid_sampler, with words for the mode and the padding.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (mode, padding) = (args.choice(2, &MODES)?, args.choice(3, &PADDINGS)?);
        let place = |words: &[&str], word: &str| words.iter().position(|w| *w == word).unwrap_or(0) as i64;
        record(b, args, (place(&MODES, mode), place(&PADDINGS, padding), args.flag(4)?))
    },
    samples: &[Sample::grad(
        "f32[1,2,3,4], f32[1,1,3,2] = -0.9 -0.35 0.2 0.85 0.5 1.3, \"bilinear\", \"border\", true",
        256,
    )],
    refuses: &[Refusal::of(
        "f32[1,1,2,2], f32[1,1,1,2], \"linear\"",
        "grid_sample: \"linear\" is not one of \"bilinear\", \"nearest\", \"bicubic\"",
    )],
    ..SAMPLING
};

/// The places of an affine map.
pub static AFFINE_GRID_GENERATOR: OpDef = OpDef {
    sig: "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
    doc: "The grid [n, h, w, 2] of theta [n, 2, 3] times (x, y, 1) for the places of an image of a size [n, c, h, w], or \
          with a depth: places go from −1 to 1, between centers with align_corners, else between edges.",
    record: record_affine,
    samples: &[
        Sample::grad("f32[2,2,3], [2, 1, 2, 3], true", 64),
        Sample::grad("f32[1,3,4], [1, 1, 2, 1, 2], false", 64),
    ],
    refuses: &[Refusal::of(
        "f32[2,2,2], [2, 1, 2, 3], true",
        "affine_grid_generator: theta [2, 2, 2] does not fit a size of [2, 1, 2, 3]",
    )],
    ..SAMPLING
};
/// Python's function.
pub static AFFINE_GRID: OpDef = OpDef {
    sig: "affine_grid(Tensor theta, SymInt[] size, bool? align_corners=None) -> Tensor",
    doc: "As affine_grid_generator, between edges where nothing is said.",
    record: record_affine,
    samples: &[Sample::grad("f32[2,2,3], [2, 1, 2, 3]", 64)],
    ..SAMPLING
};
fn record_affine(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (theta, size, align) = (args.tensor(0)?, args.shape(1)?, args.flag(2)?);
    let n = size.rank().wrapping_sub(2);
    let want =
        Shape::from_iter([size.dims().first().copied().unwrap_or(Dim::Const(0)), n.into(), n.wrapping_add(1).into()]);
    if !(2..=3).contains(&n) || b.shape(theta) != want {
        let what = format_args!("theta {} does not fit a size of {size}", b.shape(theta));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    rules::check_float(def.name(), b.ty(theta))?;
    let dtype = b.dtype(theta);
    let theta = widen(b, theta)?;
    let compute = b.dtype(theta);
    let out: Shape = size.iter().skip(2).collect();
    let column = Shape::from([out.numel(), 1]);
    // Columns x, y, (z,) 1 of the places in row-major order.
    let mut columns: SmallVec<[ValueId; 4]> = SmallVec::new();
    for d in (0..n).rev() {
        let m = known(def.name(), out.dim(d))? as f64;
        let i = b.prim(Prim::Iota { shape: out.clone(), axis: d }, &[])?;
        let i = b.cast(i, compute)?;
        let i = b.mul(i, 2.0)?;
        let i = b.sub(i, m - 1.0)?;
        let c = b.div(i, if align { (m - 1.0).max(1.0) } else { m })?;
        columns.push(b.reshape(c, &column)?);
    }
    columns.push(b.full(compute, &column, 1.0)?);
    let base = b.prim(Prim::Concat { axis: 1 }, &columns)?;
    let base = b.expand(base, &Shape::from_iter([size.dim(0), out.numel().into(), (n + 1).into()]))?;
    let turned = b.transpose_last(theta)?;
    let y = b.matmul(base, turned)?;
    let whole: Shape = [size.dim(0)].into_iter().chain(out.iter()).chain([Dim::from(n)]).collect();
    let y = b.reshape(y, &whole)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

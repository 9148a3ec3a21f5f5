//! Slopes of samples by differences, as `torch.gradient`.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{Kind, Result};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::SmallVec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &GRADIENT,
    &GRADIENT_SCALAR_DIMS,
    &GRADIENT_DIMS,
    &GRADIENT_SCALARS,
    &GRADIENT_SCALARS_DIMS,
    &GRADIENT_TENSORS,
    &GRADIENT_TENSORS_DIMS,
];

const DOC: &str = "The slope along each dim: of the parabola through a sample and its neighbours; at the ends of the line \
     through two samples, or with edge_order 2 of the parabola through three. spacing: how far samples are apart, or where \
     they are.";

/// Where the arguments of an overload stand.
struct Places {
    spacing: Option<usize>,
    dim: Option<usize>,
    edge: usize,
}

macro_rules! overloads { ($($(#[$doc:meta])* $Name:ident $sig:literal $spacing:expr, $dim:expr, $edge:literal [$($sample:expr),*] [$($refusal:expr),*];)*) => { $(
    $(#[$doc])*
    pub static $Name: OpDef = OpDef {
        sig: $sig,
        doc: DOC,
        record: |b, def, args| slopes(b, def, args, &Places { spacing: $spacing, dim: $dim, edge: $edge }),
        samples: &[$($sample),*],
        refuses: &[$($refusal),*],
        stability: Stability::Stable,
        ..SPELLING
    };
)* } }
overloads! {
    /// One distance.
    GRADIENT "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]"
        Some(1), Some(2), 3
        [Sample::grad("f32[3,4] in -2..2", 64), Sample::grad("f32[3,4] in -2..2, 0.5, 1, 2", 64)]
        [Refusal::of("f32[1]", "gradient: needs 2 samples along dim 0, got [1]")];
    /// One distance, dims.
    GRADIENT_SCALAR_DIMS "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]"
        Some(1), Some(2), 3 [Sample::grad("f32[3,4] in -2..2, 2.0, [1, 0]", 64)] [];
    /// Dims.
    GRADIENT_DIMS "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]"
        None, Some(1), 2 [Sample::grad("f32[3,4] in -2..2, [1, 0], 2", 64)] [];
    /// A distance for each dim.
    GRADIENT_SCALARS "gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]"
        Some(1), Some(2), 3 [Sample::grad("f32[3,4] in -2..2, [2, 3]", 64)]
        [Refusal::of("f32[3,4], [2, 3, 4]", "gradient: 3 spacings for 2 dims")];
    /// A distance for each of these dims.
    GRADIENT_SCALARS_DIMS "gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]"
        Some(1), Some(2), 3 [Sample::grad("f32[3,4] in -2..2, [2, 3], [1, 0]", 64)] [];
    /// Coordinates of each dim.
    GRADIENT_TENSORS "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]"
        Some(1), Some(2), 3 [Sample::of("f32[4] in -2..2, [f32[4] = 0 1 3 4]", 64)] [];
    /// Coordinates of each of these dims.
    GRADIENT_TENSORS_DIMS "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]"
        Some(1), Some(2), 3 [Sample::of("f32[2,4] in -2..2, [f32[4] = 0 1 3 4], [1], 2", 64)] [];
}

/// How far samples are apart.
#[derive(Clone, Copy)]
enum Spacing {
    Even(f64),
    At(ValueId),
}

fn slopes(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, places: &Places) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, edge) = (args.tensor(0)?, args.int_or(places.edge, 1)?);
    rules::check_float(def.name(), b.ty(x))?;
    crate::lines::check_static(b, def.name(), x)?;
    if !matches!(edge, 1 | 2) {
        return Err(rules::refuse(def.name(), Kind::Argument, format_args!("edge_order is 1 or 2, got {edge}")));
    }
    let rank = b.rank(x);
    let given = places.dim.map(|i| args.optional_ints(i)).transpose()?.flatten();
    let dims: SmallVec<[usize; 4]> = match given {
        Some(dims) => dims.iter().map(|&d| rules::check_dim(def.name(), d, rank)).collect::<Result<_>>()?,
        None => (0..rank).collect(),
    };
    let spacing = spacings(&args, places.spacing, dims.len())?;
    dims.iter().zip(spacing).map(|(&axis, spacing)| slope(b, def, x, axis, spacing, edge == 2)).collect()
}
/// One for each dim.
fn spacings(args: &Args<'_>, place: Option<usize>, dims: usize) -> Result<SmallVec<[Spacing; 4]>> {
    let all: SmallVec<[Spacing; 4]> = match place.map(|i| (i, args.get(i))) {
        None | Some((_, Arg::None)) => smallvec::smallvec![Spacing::Even(1.0)],
        Some((i, Arg::Values(_))) => args.tensors(i)?.iter().map(|&v| Spacing::At(v)).collect(),
        Some((i, _)) => args.floats(i)?.iter().map(|&h| Spacing::Even(h)).collect(),
    };
    match all.as_slice() {
        &[one @ Spacing::Even(_)] => Ok(SmallVec::from_elem(one, dims)),
        _ if all.len() == dims => Ok(all),
        _ => {
            let what = format_args!("{} spacings for {dims} dims", all.len());
            Err(rules::refuse(args.op(), Kind::Argument, what))
        }
    }
}

/// Samples and distances along an axis.
struct Line {
    x: ValueId,
    axis: usize,
    n: usize,
}
impl Line {
    fn at(&self, b: &mut Builder<'_>, start: usize, len: usize) -> Result<ValueId> {
        b.slice(self.x, self.axis, start as i64, len)
    }
    /// `(x[start + 1 ..] - x[start ..])`, `len` of them.
    fn steps(&self, b: &mut Builder<'_>, start: usize, len: usize) -> Result<ValueId> {
        let (here, next) = (self.at(b, start, len)?, self.at(b, start + 1, len)?);
        b.sub(next, here)
    }
}

fn slope(
    b: &mut Builder<'_>,
    def: &OpDef,
    x: ValueId,
    axis: usize,
    spacing: Spacing,
    parabolas: bool,
) -> Result<ValueId> {
    let n = b.shape(x).dim(axis).bound();
    let least = if parabolas { 3 } else { 2 };
    if n < least {
        let what = format_args!("needs {least} samples along dim {axis}, got {}", b.shape(x));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let samples = Line { x, axis, n };
    // The slope between neighbours, and how far they are apart: [.., n - 1, ..].
    let between = samples.steps(b, 0, n - 1)?;
    let (between, gaps) = match spacing {
        Spacing::Even(h) => (b.div(between, h)?, None),
        Spacing::At(places) => {
            if b.rank(places) != 1 || b.shape(places).dim(0).bound() != n {
                let what = format_args!("places along dim {axis} of {} are a line, got {}", b.shape(x), b.ty(places));
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
            let places = b.cast(places, b.dtype(x))?;
            let gaps = Line { x: places, axis: 0, n }.steps(b, 0, n - 1)?;
            let mut shape: rtx_core::Shape = (0..b.rank(x)).map(|_| rtx_core::Dim::from(1)).collect();
            shape.set(axis, rtx_core::Dim::from(n - 1));
            let gaps = b.reshape(gaps, &shape)?;
            (b.div(between, gaps)?, Some(gaps))
        }
    };
    let line = Line { x: between, axis, n: n - 1 };
    let (mut first, mut last) = (line.at(b, 0, 1)?, line.at(b, n - 2, 1)?);
    if parabolas {
        let gap = |b: &mut Builder<'_>, i: usize| match gaps {
            None => Ok(None),
            Some(x) => Line { x, axis, n: n - 1 }.at(b, i, 1).map(Some),
        };
        let inner = [line.at(b, 1, 1)?, line.at(b, n - 3, 1)?];
        let (near, far) = ([gap(b, 0)?, gap(b, n - 2)?], [gap(b, 1)?, gap(b, n - 3)?]);
        first = end(b, first, inner[0], near[0], far[0])?;
        last = end(b, last, inner[1], near[1], far[1])?;
    }
    if line.n == 1 {
        return b.prim(Prim::Concat { axis }, &[first, last]);
    }
    let (left, right) = (line.at(b, 0, n - 2)?, line.at(b, 1, n - 2)?);
    let middle = match gaps {
        None => {
            let sum = b.add(left, right)?;
            b.mul(sum, 0.5)?
        }
        // The nearer neighbour weighs more: (d₂ s₁ + d₁ s₂) / (d₁ + d₂).
        Some(x) => {
            let gaps = Line { x, axis, n: n - 1 };
            let (d1, d2) = (gaps.at(b, 0, n - 2)?, gaps.at(b, 1, n - 2)?);
            let (a, c) = (b.mul(left, d2)?, b.mul(right, d1)?);
            let (sum, whole) = (b.add(a, c)?, b.add(d1, d2)?);
            b.div(sum, whole)?
        }
    };
    b.prim(Prim::Concat { axis }, &[first, middle, last])
}
/// The slope at the end of a parabola through three samples: that of the outer pair, and as much again as it differs from
/// the inner pair's, times d₁ / (d₁ + d₂).
fn end(
    b: &mut Builder<'_>,
    outer: ValueId,
    inner: ValueId,
    near: Option<ValueId>,
    far: Option<ValueId>,
) -> Result<ValueId> {
    let bend = b.sub(outer, inner)?;
    let share = match (near, far) {
        (Some(near), Some(far)) => {
            let whole = b.add(near, far)?;
            let part = b.mul(bend, near)?;
            b.div(part, whole)?
        }
        _ => b.mul(bend, 0.5)?,
    };
    b.add(outer, share)
}

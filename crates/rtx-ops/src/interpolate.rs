//! Images of another size: nearest elements, linear and cubic interpolation, means of areas, antialiasing.
use crate::args::Args;
use crate::pool::adaptive_mean;
use crate::precision::{float_of, widen};
use crate::spatial::{Each, along, check_least, count_to, is_given, list, take};
use crate::spelling::SPELLING;
use rtx_core::{DType, Fold, Kind, Result, Shape};
use rtx_ir::{Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &INTERPOLATE,
    &F_UPSAMPLE_NEAREST,
    &F_UPSAMPLE_BILINEAR,
    &UPSAMPLE_NEAREST1D,
    &UPSAMPLE_NEAREST1D_VEC,
    &UPSAMPLE_NEAREST2D,
    &UPSAMPLE_NEAREST2D_VEC,
    &UPSAMPLE_NEAREST3D,
    &UPSAMPLE_NEAREST3D_VEC,
    &UPSAMPLE_NEAREST_EXACT1D,
    &UPSAMPLE_NEAREST_EXACT1D_VEC,
    &UPSAMPLE_NEAREST_EXACT2D,
    &UPSAMPLE_NEAREST_EXACT2D_VEC,
    &UPSAMPLE_NEAREST_EXACT3D,
    &UPSAMPLE_NEAREST_EXACT3D_VEC,
    &UPSAMPLE_LINEAR1D,
    &UPSAMPLE_LINEAR1D_VEC,
    &UPSAMPLE_BILINEAR2D,
    &UPSAMPLE_BILINEAR2D_VEC,
    &UPSAMPLE_TRILINEAR3D,
    &UPSAMPLE_TRILINEAR3D_VEC,
    &UPSAMPLE_BICUBIC2D,
    &UPSAMPLE_BICUBIC2D_VEC,
    &UPSAMPLE_BILINEAR2D_AA,
    &UPSAMPLE_BILINEAR2D_AA_VEC,
    &UPSAMPLE_BICUBIC2D_AA,
    &UPSAMPLE_BICUBIC2D_AA_VEC,
];

const RESIZING: OpDef = OpDef { cost: 8, stability: Stability::Stable, ..SPELLING };

/// How an element of the result is made of elements of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    /// Linear and cubic over as much of the input as the step spans.
    SmoothLinear,
    SmoothCubic,
}

/// One dim: its sizes before and after, and the user's factor between them.
#[derive(Clone, Copy)]
struct Line {
    from: i64,
    to: i64,
    factor: Option<f64>,
    /// Do the first and last elements' centers meet, instead of the edges?
    corners: bool,
    /// The float type in which positions are computed.
    compute: DType,
}

impl Line {
    /// How far apart in the input neighbours of the result are.
    fn step(self) -> f64 {
        let step = match (self.corners, self.factor) {
            (true, _) if self.to > 1 => (self.from - 1) as f64 / (self.to - 1) as f64,
            (true, _) => 0.0,
            (false, Some(f)) if f > 0.0 => 1.0 / f,
            (false, _) => self.from as f64 / self.to as f64,
        };
        if self.compute == DType::F64 { step } else { f64::from(step as f32) }
    }
    /// The numbers 0, 1, … of the result's elements.
    fn elements(self, b: &mut Builder<'_>) -> Result<ValueId> {
        let i = count_to(b, self.to as usize)?;
        b.cast(i, self.compute)
    }
    /// Where the result's elements lie in the input; may be half an element outside.
    fn positions(self, b: &mut Builder<'_>) -> Result<ValueId> {
        let i = self.elements(b)?;
        if self.corners {
            return b.mul(i, self.step());
        }
        let center = b.add(i, 0.5)?;
        let center = b.mul(center, self.step())?;
        b.sub(center, 0.5)
    }
    /// Positions as indices inside the input.
    fn inside(self, b: &mut Builder<'_>, position: ValueId) -> Result<ValueId> {
        let i = b.cast(position, DType::I64)?;
        let i = b.max(i, 0.0)?;
        b.min(i, self.from as f64 - 1.0)
    }
    fn nearest(self, b: &mut Builder<'_>, exact: bool) -> Result<ValueId> {
        let position = if exact {
            let center = self.positions(b)?;
            let center = b.max(center, 0.0)?;
            b.add(center, 0.5)?
        } else {
            let i = self.elements(b)?;
            b.mul(i, self.step())?
        };
        let floor = b.floor(position)?;
        self.inside(b, floor)
    }
    /// The input's elements that a result's element is made of, with their weights.
    fn taps(self, b: &mut Builder<'_>, rule: Rule) -> Result<Vec<(ValueId, ValueId)>> {
        let mut position = self.positions(b)?;
        if rule == Rule::Linear {
            position = b.max(position, 0.0)?;
        }
        let floor = b.floor(position)?;
        let floor = b.min(floor, self.from as f64 - 1.0)?;
        let t = b.sub(position, floor)?;
        let t = b.max(t, 0.0)?;
        let t = b.min(t, 1.0)?;
        let (first, weights) = match rule {
            Rule::Linear => (0.0, vec![b.sub(1.0, t)?, t]),
            _ => (-1.0, cubic_weights(b, t, -0.75)?.to_vec()),
        };
        let mut out = Vec::with_capacity(weights.len());
        for (k, weight) in weights.into_iter().enumerate() {
            let at = b.add(floor, first + k as f64)?;
            out.push((self.inside(b, at)?, weight));
        }
        Ok(out)
    }
    /// For each result's element a row of input elements and their weights, which add up to 1.
    fn smooth_taps(self, b: &mut Builder<'_>, rule: Rule) -> Result<(ValueId, ValueId)> {
        let (step, reach) = (self.step(), if rule == Rule::SmoothLinear { 1.0 } else { 2.0 });
        let support = reach * step.max(1.0);
        let most = support.ceil() as usize * 2 + 1;
        let shape = Shape::from([self.to as usize, most]);
        let column = Shape::from([self.to as usize, 1]);
        let i = self.elements(b)?;
        let i = b.reshape(i, &column)?;
        let center = b.add(i, 0.5)?;
        let center = b.mul(center, step)?;
        let edge = |b: &mut Builder<'_>, way: f64| {
            let x = b.add(center, way)?;
            let x = b.add(x, 0.5)?;
            let x = b.trunc(x)?;
            let x = b.max(x, 0.0)?;
            b.min(x, self.from as f64)
        };
        let (first, end) = (edge(b, -support)?, edge(b, support)?);
        let k = b.prim(Prim::Iota { shape, axis: 1 }, &[])?;
        let k = b.cast(k, self.compute)?;
        let at = b.add(k, first)?;
        let is_one = b.lt(at, end)?;
        let away = b.sub(at, center)?;
        let away = b.add(away, 0.5)?;
        let scale = if step >= 1.0 { 1.0 / step } else { 1.0 };
        let scale = if self.compute == DType::F64 { scale } else { f64::from(scale as f32) };
        let away = b.mul(away, scale)?;
        let away = b.abs(away)?;
        let weight = if rule == Rule::SmoothLinear { triangle(b, away)? } else { cubic_filter(b, away, -0.5)? };
        let weight = b.select(is_one, weight, 0.0)?;
        let total = b.reduce_keep(Fold::Sum, weight, &[1])?;
        let weight = b.div(weight, total)?;
        Ok((self.inside(b, at)?, weight))
    }
    /// The dim of `x` in its new size.
    fn resize(self, b: &mut Builder<'_>, x: ValueId, axis: usize, rule: Rule) -> Result<ValueId> {
        match rule {
            Rule::Nearest | Rule::NearestExact => {
                let at = self.nearest(b, rule == Rule::NearestExact)?;
                take(b, x, axis, at)
            }
            Rule::Linear | Rule::Cubic => {
                let mut sum = None;
                for (at, weight) in self.taps(b, rule)? {
                    let part = take(b, x, axis, at)?;
                    let weight = along(b, weight, axis, b.rank(x))?;
                    let part = b.mul(part, weight)?;
                    sum = Some(if let Some(s) = sum { b.add(s, part)? } else { part });
                }
                Ok(sum.unwrap_or(x))
            }
            Rule::SmoothLinear | Rule::SmoothCubic => {
                let (at, weight) = self.smooth_taps(b, rule)?;
                let row = b.shape(at);
                let parts = take(b, x, axis, at)?;
                let mut placed: Shape = (0..b.rank(parts)).map(|_| rtx_core::Dim::Const(1)).collect();
                placed.set(axis, row.dim(0));
                placed.set(axis + 1, row.dim(1));
                let weight = b.reshape(weight, &placed)?;
                let parts = b.mul(parts, weight)?;
                b.reduce(Fold::Sum, parts, &[axis + 1])
            }
        }
    }
}

/// max(0, 1 − d).
fn triangle(b: &mut Builder<'_>, d: ValueId) -> Result<ValueId> {
    let x = b.sub(1.0, d)?;
    b.max(x, 0.0)
}
/// ((a + 2) d − (a + 3)) d² + 1, for distances up to 1.
fn cubic_near(b: &mut Builder<'_>, d: ValueId, a: f64) -> Result<ValueId> {
    let x = b.mul(d, a + 2.0)?;
    let x = b.sub(x, a + 3.0)?;
    let x = b.mul(x, d)?;
    let x = b.mul(x, d)?;
    b.add(x, 1.0)
}
/// ((a d − 5 a) d + 8 a) d − 4 a, for distances from 1 to 2.
fn cubic_far(b: &mut Builder<'_>, d: ValueId, a: f64) -> Result<ValueId> {
    let x = b.mul(d, a)?;
    let x = b.sub(x, 5.0 * a)?;
    let x = b.mul(x, d)?;
    let x = b.add(x, 8.0 * a)?;
    let x = b.mul(x, d)?;
    b.sub(x, 4.0 * a)
}
fn cubic_filter(b: &mut Builder<'_>, d: ValueId, a: f64) -> Result<ValueId> {
    let (near, far) = (cubic_near(b, d, a)?, cubic_far(b, d, a)?);
    let (is_near, is_far) = (b.lt(d, 1.0)?, b.lt(d, 2.0)?);
    let outer = b.select(is_far, far, 0.0)?;
    b.select(is_near, near, outer)
}
/// The weights of the elements at −1, 0, 1 and 2 for a position `t` between 0 and 1: cubic convolution with the
/// parameter `a`. Keys 1981, IEEE TASSP 29(6).
pub(crate) fn cubic_weights(b: &mut Builder<'_>, t: ValueId, a: f64) -> Result<[ValueId; 4]> {
    let (before, back) = (b.add(t, 1.0)?, b.sub(1.0, t)?);
    let after = b.add(back, 1.0)?;
    Ok([cubic_far(b, before, a)?, cubic_near(b, t, a)?, cubic_near(b, back, a)?, cubic_far(b, after, a)?])
}

/// Images of a size, by one rule.
struct Resize {
    rule: Rule,
    corners: bool,
    to: Each<i64>,
    factors: Option<Each<f64>>,
}
impl Resize {
    fn emit(&self, b: &mut Builder<'_>, op: &str, x: ValueId) -> Result<Outs> {
        let (n, rank, dtype) = (self.to.len(), b.rank(x), b.dtype(x));
        let from = image_sizes(b, op, x, n)?;
        check_least(op, "a size", &self.to, 1)?;
        check_least(op, "a size of the input", &from, 1)?;
        let compute = rules::number_dtype(float_of(dtype));
        let moves = matches!(self.rule, Rule::Nearest | Rule::NearestExact);
        if !moves {
            rules::check_float(op, b.ty(x))?;
        }
        let mut y = if moves { x } else { widen(b, x)? };
        for d in (0..n).rev() {
            let factor = self.factors.as_ref().map(|f| f[d]);
            let line = Line { from: from[d], to: self.to[d], factor, corners: self.corners, compute };
            y = line.resize(b, y, rank - n + d, self.rule)?;
        }
        Ok(smallvec![b.cast(y, dtype)?])
    }
}

/// The sizes of the last `n` dims after images and channels.
fn image_sizes(b: &Builder<'_>, op: &str, x: ValueId, n: usize) -> Result<Each<i64>> {
    let shape = b.shape(x);
    if shape.rank() != n + 2 {
        let what = format_args!("takes images and channels and {n} dims, got {shape}");
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    shape.iter().skip(2).map(|d| Ok(crate::lines::known(op, d)? as i64)).collect()
}

/// Argument `size` or sizes by argument `factors`, one of which is given, and the factors.
fn sizes_of(
    b: &Builder<'_>,
    args: Args<'_>,
    n: usize,
    [size, factors]: [usize; 2],
) -> Result<(Each<i64>, Option<Each<f64>>)> {
    let from = image_sizes(b, args.op(), args.tensor(0)?, n)?;
    match (is_given(args, size), is_given(args, factors)) {
        (true, false) => Ok((list(args, size, n, &[1])?, None)),
        (false, true) => {
            let given = args.floats(factors)?;
            let each: Each<f64> = match given.len() {
                1 => SmallVec::from_elem(given[0], n),
                len if len == n => given.iter().copied().collect(),
                len => {
                    let what = format_args!("takes {n} factors, got {len}");
                    return Err(rules::refuse(args.op(), Kind::Argument, what));
                }
            };
            let to = from.iter().zip(&each).map(|(&n, f)| (n as f64 * f).floor() as i64).collect();
            Ok((to, Some(each)))
        }
        _ => Err(rules::refuse(args.op(), Kind::Argument, "takes either sizes or factors")),
    }
}

/// Resizing by mode.
pub static INTERPOLATE: OpDef = OpDef {
    sig: "interpolate(Tensor input, int[]? size=None, float[]? scale_factor=None, str mode=\"nearest\", \
          bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    doc: "The dims after images and channels in another size. nearest: element ⌊i · step⌋; nearest-exact: the element \
          whose center is nearest; linear, bilinear, trilinear: between two neighbours along each dim; bicubic: four, \
          with a = −0.75 (Keys 1981); area: means over windows that part the dim. A factor gives ⌊n · factor⌋ \
          elements, and the step is its inverse unless it is recomputed from the sizes. align_corners lets the \
          centers of the outer elements meet instead of the edges; antialias widens the filter where the step is \
          above 1.",
    record: record_interpolate,
    samples: &[
        Sample::grad("f32[1,2,4], 6", 8),
        Sample::grad("f32[1,1,3,4], [5, 3], none, \"nearest-exact\"", 8),
        Sample::grad("f32[1,2,4], none, 1.7, \"linear\"", 32),
        Sample::grad("f32[1,1,3,4], [5, 3], none, \"bilinear\", true", 32),
        Sample::grad("f32[1,1,4,3], none, 1.6, \"bicubic\", none, true", 64),
        Sample::grad("f32[1,1,2,3,2], [3, 2, 4], none, \"trilinear\"", 64),
        Sample::grad("f32[1,1,5,4], [3, 2], none, \"area\"", 32),
        Sample::grad("f32[1,1,7,4], [3, 5], none, \"bilinear\", none, none, true", 64),
        Sample::grad("f32[1,1,6,2], [2, 3], none, \"bicubic\", none, none, true", 256),
        Sample::exact("i64[1,1,3] in -9..9, 7"),
        Sample::of("bf16[1,1,3,4], [5, 3], none, \"bilinear\"", 1 << 17),
    ],
    refuses: &[
        Refusal::of("f32[1,2,4]", "interpolate: takes either sizes or factors"),
        Refusal::of("f32[1,2,4], 3, none, \"bilinear\"", "interpolate: bilinear takes 4 dims, got [1, 2, 4]"),
        Refusal::of("f32[1,2,4], 3, none, \"nearest\", true", "interpolate: align_corners means nothing to nearest"),
        Refusal::of("f32[1,2,4], 0", "interpolate: a size is at least 1, got 0"),
        Refusal::of(
            "f32[1,2,4], 3, none, \"linear\", none, none, true",
            "interpolate: antialias goes with bilinear and bicubic",
        ),
    ],
    ..RESIZING
};
fn record_interpolate(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    const MODES: [&str; 7] = ["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"];
    let args = Args::new(def, args);
    let (x, mode) = (args.tensor(0)?, args.choice(3, &MODES)?);
    let refuse = |kind, what: String| Err(rules::refuse(def.name(), kind, what));
    let n = b.rank(x).wrapping_sub(2);
    let wanted = match mode {
        "linear" => 1..=1,
        "bilinear" | "bicubic" => 2..=2,
        "trilinear" => 3..=3,
        _ => 1..=3,
    };
    if !wanted.contains(&n) {
        let dims =
            if wanted.start() == wanted.end() { format!("{} dims", wanted.start() + 2) } else { "3 to 5 dims".into() };
        return refuse(Kind::Shape, format!("{mode} takes {dims}, got {}", b.shape(x)));
    }
    let rule = match mode {
        "nearest" => Some(Rule::Nearest),
        "nearest-exact" => Some(Rule::NearestExact),
        "bicubic" => Some(Rule::Cubic),
        "area" => None,
        _ => Some(Rule::Linear),
    };
    if is_given(args, 4) && !matches!(rule, Some(Rule::Linear | Rule::Cubic)) {
        return refuse(Kind::Argument, format!("align_corners means nothing to {mode}"));
    }
    let (to, factors) = sizes_of(b, args, n, [1, 2])?;
    let Some(mut rule) = rule else {
        check_least(def.name(), "a size", &to, 1)?;
        return Ok(smallvec![adaptive_mean(b, x, &to)?]);
    };
    if args.flag(6)? {
        rule = match mode {
            "bilinear" => Rule::SmoothLinear,
            "bicubic" => Rule::SmoothCubic,
            _ => return refuse(Kind::Argument, "antialias goes with bilinear and bicubic".into()),
        };
    }
    let factors = if args.flag(5)? { None } else { factors };
    Resize { rule, corners: args.flag(4)?, to, factors }.emit(b, def.name(), x)
}

/// Python's older names: `(input, size, scale_factor)`.
fn record_older(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let bilinear = def.name() == "nn_functional_upsample_bilinear";
    let n = if bilinear { 2 } else { b.rank(x).saturating_sub(2).clamp(1, 3) };
    let (to, factors) = sizes_of(b, args, n, [1, 2])?;
    let rule = if bilinear { Rule::Linear } else { Rule::Nearest };
    Resize { rule, corners: bilinear, to, factors }.emit(b, def.name(), x)
}
/// Python's older name of nearest elements.
pub static F_UPSAMPLE_NEAREST: OpDef = OpDef {
    sig: "nn_functional_upsample_nearest(Tensor input, int[1]? size=None, float[1]? scale_factor=None) -> Tensor",
    doc: "interpolate with nearest elements.",
    record: record_older,
    samples: &[Sample::grad("f32[1,2,4], 6", 8), Sample::grad("f32[1,1,2,3], none, 1.7", 8)],
    ..RESIZING
};
/// Python's older name of bilinear interpolation.
pub static F_UPSAMPLE_BILINEAR: OpDef = OpDef {
    sig: "nn_functional_upsample_bilinear(Tensor input, int[2]? size=None, float[2]? scale_factor=None) -> Tensor",
    doc: "interpolate, bilinear with aligned corners.",
    record: record_older,
    samples: &[Sample::grad("f32[1,1,3,4], [5, 3]", 32)],
    ..RESIZING
};

/// `(self, output_size, scales…)`, with `align_corners` between them where the rule knows it.
fn record_sized(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, (n, rule): (usize, Rule)) -> Result<Outs> {
    let args = Args::new(def, args);
    let moves = matches!(rule, Rule::Nearest | Rule::NearestExact);
    let (corners, first) = if moves { (false, 2) } else { (args.flag(2)?, 3) };
    let given = (0..n).all(|d| is_given(args, first + d));
    let factors = match given {
        true => Some((0..n).map(|d| args.float_or(first + d, 0.0)).collect::<Result<_>>()?),
        false => None,
    };
    let to = list(args, 1, n, &[1])?;
    Resize { rule, corners, to, factors }.emit(b, def.name(), args.tensor(0)?)
}
/// `(input, output_size?, scale_factors?)`, with `align_corners` between them where the rule knows it.
fn record_vec(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, (n, rule): (usize, Rule)) -> Result<Outs> {
    let args = Args::new(def, args);
    let moves = matches!(rule, Rule::Nearest | Rule::NearestExact);
    let (corners, at) = if moves { (false, 2) } else { (args.flag(2)?, 3) };
    let (to, factors) = sizes_of(b, args, n, [1, at])?;
    Resize { rule, corners, to, factors }.emit(b, def.name(), args.tensor(0)?)
}

macro_rules! resizers { ($($NAME:ident $record:ident $n:literal $rule:ident $sig:literal $doc:literal $sample:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| $record(b, def, args, ($n, Rule::$rule)),
        samples: &[Sample::grad($sample, 256)],
        ..RESIZING
    };
)* } }
resizers! {
    UPSAMPLE_NEAREST1D record_sized 1 Nearest "upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"
        "One dim resized by nearest elements." "f32[1,2,4], 6";
    UPSAMPLE_NEAREST1D_VEC record_vec 1 Nearest "upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
        "One dim resized by nearest elements, by sizes or by factors." "f32[1,2,4], none, 1.5";
    UPSAMPLE_NEAREST2D record_sized 2 Nearest "upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Two dims resized by nearest elements." "f32[1,1,3,2], [4, 5]";
    UPSAMPLE_NEAREST2D_VEC record_vec 2 Nearest "upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
        "Two dims resized by nearest elements, by sizes or by factors." "f32[1,1,3,2], [4, 5], none";
    UPSAMPLE_NEAREST3D record_sized 3 Nearest "upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Three dims resized by nearest elements." "f32[1,1,3,2,1], [2, 3, 2]";
    UPSAMPLE_NEAREST3D_VEC record_vec 3 Nearest "upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
        "Three dims resized by nearest elements, by sizes or by factors." "f32[1,1,3,2,1], [2, 3, 2], none";
    UPSAMPLE_NEAREST_EXACT1D record_sized 1 NearestExact "_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"
        "One dim resized by the elements whose centers are nearest." "f32[1,2,4], 6";
    UPSAMPLE_NEAREST_EXACT1D_VEC record_vec 1 NearestExact "_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
        "One dim resized by the elements whose centers are nearest, by sizes or by factors." "f32[1,2,4], none, 1.5";
    UPSAMPLE_NEAREST_EXACT2D record_sized 2 NearestExact "_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Two dims resized by the elements whose centers are nearest." "f32[1,1,3,2], [4, 5]";
    UPSAMPLE_NEAREST_EXACT2D_VEC record_vec 2 NearestExact "_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
        "Two dims resized by the elements whose centers are nearest, by sizes or by factors." "f32[1,1,3,2], [4, 5], none";
    UPSAMPLE_NEAREST_EXACT3D record_sized 3 NearestExact "_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Three dims resized by the elements whose centers are nearest." "f32[1,1,3,2,1], [2, 3, 2]";
    UPSAMPLE_NEAREST_EXACT3D_VEC record_vec 3 NearestExact "_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"
        "Three dims resized by the elements whose centers are nearest, by sizes or by factors." "f32[1,1,3,2,1], [2, 3, 2], none";
    UPSAMPLE_LINEAR1D record_sized 1 Linear "upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor"
        "One dim resized by interpolation between two neighbours." "f32[1,2,4], 6, true";
    UPSAMPLE_LINEAR1D_VEC record_vec 1 Linear "upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"
        "One dim resized by interpolation between two neighbours, by sizes or by factors." "f32[1,2,4], none, false, 1.5";
    UPSAMPLE_BILINEAR2D record_sized 2 Linear "upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Two dims resized by interpolation between two neighbours along each." "f32[1,1,3,2], [4, 5], false";
    UPSAMPLE_BILINEAR2D_VEC record_vec 2 Linear "upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"
        "Two dims resized by interpolation between two neighbours along each, by sizes or by factors." "f32[1,1,3,2], [4, 5], false, none";
    UPSAMPLE_TRILINEAR3D record_sized 3 Linear "upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Three dims resized by interpolation between two neighbours along each." "f32[1,1,3,2,1], [2, 3, 2], true";
    UPSAMPLE_TRILINEAR3D_VEC record_vec 3 Linear "upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"
        "Three dims resized by interpolation between two neighbours along each, by sizes or by factors." "f32[1,1,3,2,1], [2, 3, 2], true, none";
    UPSAMPLE_BICUBIC2D record_sized 2 Cubic "upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
        "Two dims resized by cubic convolution of four neighbours along each." "f32[1,1,3,2], [4, 5], false";
    UPSAMPLE_BICUBIC2D_VEC record_vec 2 Cubic "upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"
        "Two dims resized by cubic convolution of four neighbours along each, by sizes or by factors." "f32[1,1,3,2], [4, 5], true, none";
    UPSAMPLE_BILINEAR2D_AA record_sized 2 SmoothLinear "_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
        "As upsample_bilinear2d, the filter as wide as the step." "f32[1,1,6,4], [3, 5], false";
    UPSAMPLE_BILINEAR2D_AA_VEC record_vec 2 SmoothLinear "_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"
        "As upsample_bilinear2d, the filter as wide as the step, by sizes or by factors." "f32[1,1,6,4], none, false, 0.6";
    UPSAMPLE_BICUBIC2D_AA record_sized 2 SmoothCubic "_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
        "As upsample_bicubic2d, the filter as wide as the step, with a = −0.5." "f32[1,1,6,4], [3, 5], false";
    UPSAMPLE_BICUBIC2D_AA_VEC record_vec 2 SmoothCubic "_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor"
        "As upsample_bicubic2d, the filter as wide as the step, with a = −0.5, by sizes or by factors." "f32[1,1,6,4], none, false, 0.6";
}

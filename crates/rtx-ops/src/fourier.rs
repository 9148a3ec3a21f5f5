//! Fourier transforms (`torch.fft`): the primitive `fft_along` over one dim or several, resized, scaled and shifted as
//! PyTorch does it.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{Class, DType, Dim, Kind, Result, Shape};
use rtx_ir::{
    Bound, Builder, Fft, FftKind, FftNorm, Grad, Jvp, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, ValueId,
    rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &FFT, &IFFT, &RFFT, &IRFFT, &HFFT, &IHFFT, &FFT2, &IFFT2, &RFFT2, &IRFFT2, &HFFT2, &IHFFT2, &FFTN, &IFFTN, &RFFTN,
    &IRFFTN, &HFFTN, &IHFFTN, &FFTSHIFT, &IFFTSHIFT, &FFTFREQ, &RFFTFREQ,
];

/// Between which numbers, whatever their count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Complex,
    ToHalf,
    FromHalf,
}

/// PyTorch's word for who divides by the size: the inverse ("backward"), both by its root, or the other one.
fn norm_of(args: &Args<'_>, i: usize, inverse: bool) -> Result<FftNorm> {
    Ok(match (args.choice(i, &["backward", "ortho", "forward"])?, inverse) {
        ("ortho", _) => FftNorm::Root,
        ("backward", true) | ("forward", false) => FftNorm::Size,
        _ => FftNorm::None,
    })
}

/// A tensor of complex numbers; bool and integers become f32 first.
pub(crate) fn as_complex(b: &mut Builder<'_>, op: &str, x: ValueId) -> Result<ValueId> {
    if b.dtype(x).class() == Class::Complex {
        return Ok(x);
    }
    let x = as_real(b, op, x)?;
    let zero = b.zeros_like(x)?;
    b.complex(x, zero)
}
/// A tensor of f32 or f64.
pub(crate) fn as_real(b: &mut Builder<'_>, op: &str, x: ValueId) -> Result<ValueId> {
    match b.dtype(x) {
        DType::F32 | DType::F64 => Ok(x),
        d if d.class() < Class::Float => b.cast(x, DType::F32),
        _ => {
            let what = format_args!("needs a tensor of f32 or f64, got {}", b.ty(x));
            Err(rules::refuse(op, Kind::DType, what))
        }
    }
}
/// The first `n` elements along an axis, zeros where there are fewer.
fn resized(b: &mut Builder<'_>, x: ValueId, axis: usize, n: usize) -> Result<ValueId> {
    let has = b.shape(x).dim(axis).bound();
    if has >= n {
        return if has == n { Ok(x) } else { b.slice(x, axis, 0, n) };
    }
    let zero = b.zeros(b.dtype(x), &Shape::scalar())?;
    b.prim(Prim::Pad { axis, before: 0, after: (n - has) as u64 }, &[x, zero])
}
/// One transform.
pub(crate) fn along(
    b: &mut Builder<'_>,
    x: ValueId,
    kind: FftKind,
    axis: usize,
    inverse: bool,
    norm: FftNorm,
) -> Result<ValueId> {
    b.prim(Prim::Fft(Fft { kind, axis, inverse, norm }), &[x])
}

/// Axes, each with the size it is brought to.
type Lines = SmallVec<[(usize, Option<usize>); 4]>;

fn size(op: &str, n: i64) -> Result<usize> {
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(rules::refuse(op, Kind::Argument, format_args!("a line has at least one element, got {n}"))),
    }
}
/// `(self, n, dim)`.
fn one_line(b: &Builder<'_>, args: &Args<'_>) -> Result<Lines> {
    let x = args.tensor(0)?;
    if b.rank(x) == 0 {
        return Err(rules::refuse(args.op(), Kind::Shape, "needs a dim, got a number"));
    }
    let axis = rules::check_dim(args.op(), args.int_or(2, -1)?, b.rank(x))?;
    let n = args.optional_int(1)?.map(|n| size(args.op(), n)).transpose()?;
    Ok(smallvec![(axis, n)])
}
/// `(self, s, dim)`; where no dims are given `default`, or as many of the last as there are sizes.
fn lines(b: &Builder<'_>, args: &Args<'_>, default: Option<&[i64]>) -> Result<Lines> {
    let (rank, op) = (b.rank(args.tensor(0)?), args.op());
    let (sizes, dims) = (args.optional_ints(1)?, args.optional_ints(2)?);
    let dims: SmallVec<[i64; 4]> = match (dims, default, &sizes) {
        (Some(dims), ..) => dims,
        (None, Some(default), _) => default.into(),
        (None, None, Some(s)) => (0..s.len() as i64).map(|i| i - s.len() as i64).collect(),
        (None, None, None) => (0..rank as i64).collect(),
    };
    if sizes.as_ref().is_some_and(|s| s.len() != dims.len()) {
        return Err(rules::refuse(op, Kind::Argument, "as many sizes as dims are given"));
    }
    let mut out = Lines::new();
    for (i, &d) in dims.iter().enumerate() {
        let axis = rules::check_dim(op, d, rank)?;
        if out.iter().any(|l| l.0 == axis) || rank == 0 {
            return Err(rules::refuse(op, Kind::Argument, format_args!("dims differ, got {dims:?}")));
        }
        let n = sizes.as_ref().map(|s| s[i]).filter(|n| *n != -1).map(|n| size(op, n)).transpose()?;
        out.push((axis, n));
    }
    Ok(out)
}

fn transform(b: &mut Builder<'_>, args: &Args<'_>, lines: &Lines, way: Way, inverse: bool) -> Result<Outs> {
    let (x, norm, op) = (args.tensor(0)?, norm_of(args, 3, inverse)?, args.op());
    let mut x = if way == Way::ToHalf { as_real(b, op, x)? } else { as_complex(b, op, x)? };
    for &(axis, _) in lines {
        crate::lines::known(op, b.shape(x).dim(axis))?;
    }
    let Some((&(last, n), rest)) = lines.split_last() else {
        return match way {
            Way::Complex => Ok(smallvec![x]),
            _ => Err(rules::refuse(op, Kind::Argument, "needs a dim to halve")),
        };
    };
    for &(axis, n) in rest {
        x = sized(b, op, x, axis, n)?;
    }
    let whole = |b: &mut Builder<'_>, x: ValueId| {
        rest.iter().rev().try_fold(x, |x, &(axis, _)| along(b, x, FftKind::Complex, axis, inverse, norm))
    };
    Ok(smallvec![match way {
        Way::Complex => {
            x = sized(b, op, x, last, n)?;
            x = along(b, x, FftKind::Complex, last, inverse, norm)?;
            whole(b, x)?
        }
        Way::ToHalf => {
            x = sized(b, op, x, last, n)?;
            x = along(b, x, FftKind::ToHalf, last, inverse, norm)?;
            whole(b, x)?
        }
        Way::FromHalf => {
            let len = n.unwrap_or((b.shape(x).dim(last).bound().max(1) - 1) * 2);
            let len = size(op, len as i64)?;
            x = resized(b, x, last, len / 2 + 1)?;
            x = whole(b, x)?;
            along(b, x, FftKind::FromHalf { len: len as u64 }, last, inverse, norm)?
        }
    }])
}
/// An axis of the size that is asked for, which is not 0.
fn sized(b: &mut Builder<'_>, op: &str, x: ValueId, axis: usize, n: Option<usize>) -> Result<ValueId> {
    let n = n.unwrap_or(b.shape(x).dim(axis).bound());
    let n = size(op, n as i64)?;
    resized(b, x, axis, n)
}

const TRANSFORM: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

macro_rules! transforms { ($($(#[$doc:meta])* $Name:ident $sig:literal $text:literal $lines:expr, $way:ident $inverse:literal [$($sample:expr),*];)*) => { $(
    $(#[$doc])*
    pub static $Name: OpDef = OpDef {
        sig: $sig,
        doc: $text,
        record: |b, def, args| {
            let args = Args::new(def, args);
            let lines = $lines(b, &args)?;
            transform(b, &args, &lines, Way::$way, $inverse)
        },
        samples: &[$($sample),*],
        ..TRANSFORM
    };
)* } }
fn plane(b: &Builder<'_>, args: &Args<'_>) -> Result<Lines> {
    lines(b, args, Some(&[-2, -1]))
}
fn any(b: &Builder<'_>, args: &Args<'_>) -> Result<Lines> {
    lines(b, args, None)
}
transforms! {
    /// Along one dim.
    FFT "fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
        "Σ_j x[j] exp(-2πi jk / n) along dim, brought to n elements; scaled by 1/√n (\"ortho\") or 1/n (\"forward\"). Sums are \
         computed in f64."
        one_line, Complex false [Sample::of("f32[2,6] in -2..2", 16), Sample::of("c64[2,6], 4, 0, \"ortho\"", 16)];
    /// Its inverse.
    IFFT "fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
        "1/n Σ_k x[k] exp(2πi jk / n): the inverse of fft_fft."
        one_line, Complex true [Sample::of("c64[2,5]", 16), Sample::of("f32[2,5] in -2..2, 7, -1, \"forward\"", 16)];
    /// Of real numbers.
    RFFT "fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
        "The first n/2 + 1 parts of fft_fft of real numbers; the others are their conjugates."
        one_line, ToHalf false [Sample::of("f32[2,6] in -2..2", 16), Sample::of("f64[5,2] in -2..2, 7, 0", 64)];
    /// Its inverse.
    IRFFT "fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
        "The real line of n numbers whose fft_rfft this is; 2 (m - 1) of them by default."
        one_line, FromHalf true [Sample::of("c64[2,4]", 16), Sample::of("f32[2,4] in -2..2, 5, -1, \"ortho\"", 16)];
    /// Of what has a real transform.
    HFFT "fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
        "The real transform of the n numbers of which this is the first half, the others being their conjugates."
        one_line, FromHalf false [Sample::of("c64[2,4]", 16)];
    /// Its inverse.
    IHFFT "fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
        "The first half of fft_ifft of real numbers."
        one_line, ToHalf true [Sample::of("f32[2,6] in -2..2", 16)];
    /// Along two dims.
    FFT2 "fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
        "fft_fft along two dims." plane, Complex false [Sample::of("f32[3,4] in -2..2", 16)];
    /// Its inverse.
    IFFT2 "fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
        "fft_ifft along two dims." plane, Complex true [Sample::of("c64[3,4], [2,5]", 16)];
    /// Of real numbers.
    RFFT2 "fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
        "fft_rfft along the last dim named, fft_fft along the first." plane, ToHalf false [Sample::of("f32[3,4] in -2..2", 16)];
    /// Its inverse.
    IRFFT2 "fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
        "fft_ifft along the first dim named, fft_irfft along the last." plane, FromHalf true [Sample::of("c64[3,4]", 16)];
    /// Of what has a real transform.
    HFFT2 "fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
        "fft_fft along the first dim named, fft_hfft along the last." plane, FromHalf false [Sample::of("c64[3,4]", 16)];
    /// Its inverse.
    IHFFT2 "fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
        "fft_ihfft along the last dim named, fft_ifft along the first." plane, ToHalf true [Sample::of("f32[3,4] in -2..2", 16)];
    /// Along any dims.
    FFTN "fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
        "fft_fft along the dims named, or all." any, Complex false [Sample::of("f32[2,3,2] in -2..2", 16)];
    /// Its inverse.
    IFFTN "fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
        "fft_ifft along the dims named, or all." any, Complex true [Sample::of("c64[2,3,2], none, [0, 2]", 16)];
    /// Of real numbers.
    RFFTN "fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
        "fft_rfft along the last dim named, fft_fft along the others." any, ToHalf false [Sample::of("f32[2,3,4] in -2..2", 16)];
    /// Its inverse.
    IRFFTN "fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
        "fft_irfft along the last dim named, fft_ifft along the others before." any, FromHalf true [Sample::of("c64[2,3,3]", 16)];
    /// Of what has a real transform.
    HFFTN "fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
        "fft_hfft along the last dim named, fft_fft along the others before." any, FromHalf false [Sample::of("c64[2,3,3]", 16)];
    /// Its inverse.
    IHFFTN "fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
        "fft_ihfft along the last dim named, fft_ifft along the others." any, ToHalf true [Sample::of("f32[2,3,4] in -2..2", 16)];
}

/// Turned by `shift(n)` places along the dims of argument 1.
fn turned(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, shift: fn(usize) -> usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut x = args.tensor(0)?;
    for axis in args.dims_or_all(1, b.rank(x))? {
        let n = crate::lines::known(def.name(), b.shape(x).dim(axis))?;
        let cut = n - shift(n);
        if cut < n {
            let (front, back) = (b.slice(x, axis, cut as i64, n - cut)?, b.slice(x, axis, 0, cut)?);
            x = b.prim(Prim::Concat { axis }, &[front, back])?;
        }
    }
    Ok(smallvec![x])
}
/// The part of frequency 0 in the middle.
pub static FFTSHIFT: OpDef = OpDef {
    sig: "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "Each line turned by n/2 places, so that frequency 0 stands in the middle.",
    record: |b, def, args| turned(b, def, args, |n| n / 2),
    samples: &[Sample::grad("f32[5,4] in -2..2", 0), Sample::grad("f32[5,4] in -2..2, [0]", 0)],
    ..TRANSFORM
};
/// The part of frequency 0 at the front again.
pub static IFFTSHIFT: OpDef = OpDef {
    sig: "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor",
    doc: "The inverse of fft_fftshift.",
    record: |b, def, args| turned(b, def, args, |n| n.div_ceil(2) % n.max(1)),
    samples: &[Sample::grad("f32[5,4] in -2..2", 0), Sample::grad("f32[1,4] in -2..2", 0)],
    ..TRANSFORM
};

const FREQUENCIES: OpDef = OpDef { grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, ..TRANSFORM };

/// `k / (n d)` for `count` numbers k from 0, those from `turn` on less n.
fn frequencies(
    b: &mut Builder<'_>,
    args: &Args<'_>,
    count: fn(usize) -> usize,
    turn: fn(usize) -> usize,
) -> Result<Outs> {
    let (n, d) = (args.int(0)?, args.float_or(1, 1.0)?);
    let n = if n == 0 { 0 } else { size(args.op(), n)? };
    let dtype = args.dtype(2)?.unwrap_or(DType::F32);
    if !dtype.is_float() {
        return Err(rules::refuse(args.op(), Kind::DType, format_args!("frequencies are floats, got {dtype}")));
    }
    let place = b.prim(Prim::Iota { shape: [Dim::from(count(n))].into_iter().collect(), axis: 0 }, &[])?;
    let below = b.sub(place, n as f64)?;
    let turn = b.constant(DType::I64, turn(n) as i64)?;
    let positive = b.lt(place, turn)?;
    let k = b.select(positive, place, below)?;
    let k = b.cast(k, rules::number_dtype(dtype))?;
    let y = b.mul(k, 1.0 / (n.max(1) as f64 * d))?;
    Ok(smallvec![b.cast(y, dtype)?])
}
/// Frequencies of the parts.
pub static FFTFREQ: OpDef = OpDef {
    sig: "fft_fftfreq(int n, float d=1.0, *, ScalarType? dtype=None) -> Tensor",
    doc: "The frequency of each part of fft_fft of n samples d apart: 0, 1, …, then the negative ones, over n d.",
    record: |b, def, args| frequencies(b, &Args::new(def, args), |n| n, |n| n.div_ceil(2)),
    samples: &[Sample::of("5", 4), Sample::of("4, 0.5, f64", 4)],
    refuses: &[Refusal::of("4, 1.0, i64", "fft_fftfreq: frequencies are floats, got i64")],
    ..FREQUENCIES
};
/// Frequencies of the parts of real numbers.
pub static RFFTFREQ: OpDef = OpDef {
    sig: "fft_rfftfreq(int n, float d=1.0, *, ScalarType? dtype=None) -> Tensor",
    doc: "The frequency of each part of fft_rfft of n samples d apart.",
    record: |b, def, args| frequencies(b, &Args::new(def, args), |n| n / 2 + 1, |n| n / 2 + 1),
    samples: &[Sample::of("5", 4), Sample::of("4, 0.5", 4)],
    ..FREQUENCIES
};

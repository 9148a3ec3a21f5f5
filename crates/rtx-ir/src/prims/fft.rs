//! The discrete Fourier transform of lines along one dim.
use crate::{
    Bound, Builder, Fft, FftKind, FftNorm, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample,
    Saves, Stability, Type, Types, ValueId, record, rules,
};
use rtx_core::{Class, DType, Dim, Kind, Result, Scalar};
use smallvec::smallvec;

impl FftKind {
    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            FftKind::Complex => "complex",
            FftKind::ToHalf => "to_half",
            FftKind::FromHalf { .. } => "from_half",
        }
    }
    /// By its name; `len` is that of [`FftKind::FromHalf`].
    pub fn parse(name: &str, len: u64) -> Option<FftKind> {
        match name {
            "complex" => Some(FftKind::Complex),
            "to_half" => Some(FftKind::ToHalf),
            "from_half" => Some(FftKind::FromHalf { len }),
            _ => None,
        }
    }
}
impl FftNorm {
    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            FftNorm::None => "none",
            FftNorm::Root => "root",
            FftNorm::Size => "size",
        }
    }
    /// By its name.
    pub fn parse(name: &str) -> Option<FftNorm> {
        [FftNorm::None, FftNorm::Root, FftNorm::Size].into_iter().find(|n| n.name() == name)
    }
    /// What the sums of `n` elements are multiplied with.
    pub fn factor(self, n: usize) -> f64 {
        match self {
            FftNorm::None => 1.0,
            FftNorm::Root => 1.0 / (n as f64).sqrt(),
            FftNorm::Size => 1.0 / n as f64,
        }
    }
}

fn of(op: &Op) -> Result<Fft> {
    match op.prim() {
        Some(&Prim::Fft(f)) => Ok(f),
        _ => Err(rules::refuse(op.name(), Kind::Internal, "not a transform")),
    }
}

fn infer(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let (f, x) = (of(op)?, inputs[0]);
    let refuse = |kind, what: std::fmt::Arguments<'_>| Err(rules::refuse(op.name(), kind, what));
    let fits = match f.kind {
        FftKind::ToHalf => matches!(x.dtype, DType::F32 | DType::F64),
        FftKind::Complex | FftKind::FromHalf { .. } => x.dtype.class() == Class::Complex,
    };
    if !fits {
        let wanted = if f.kind == FftKind::ToHalf { "an f32 or f64" } else { "a complex" };
        return refuse(Kind::DType, format_args!("{} needs {wanted} tensor, got {x}", f.kind.name()));
    }
    if f.axis >= x.rank() {
        return refuse(Kind::Shape, format_args!("there is no dim {}, got {x}", f.axis));
    }
    let Some(size) = x.shape.dim(f.axis).known() else {
        return refuse(Kind::Unsupported, format_args!("a symbolic size is not transformed"));
    };
    let mut out = x.clone();
    match f.kind {
        FftKind::Complex if size > 0 => {}
        FftKind::ToHalf if size > 0 => {
            out.dtype = x.dtype.complex();
            out.shape.set(f.axis, Dim::Const(size as u64 / 2 + 1));
        }
        FftKind::FromHalf { len } if len > 0 && size as u64 == len / 2 + 1 => {
            out.dtype = x.dtype.real();
            out.shape.set(f.axis, Dim::Const(len));
        }
        _ => return refuse(Kind::Shape, format_args!("does not fit: {f:?} of {x}")),
    }
    Ok(smallvec![out])
}

fn fft(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axis = record::dim(b, def, a, 1, x)?;
    let (kind, norm) = (record::word(def, a, 2)?, record::word(def, a, 4)?);
    let len = if kind == "from_half" { record::int(def, a, 5)? } else { 0 };
    let wrong = |name: &str, got: &str| rules::refuse(def.name(), Kind::Argument, format_args!("no {name} is {got:?}"));
    let kind = FftKind::parse(kind, u64::try_from(len).unwrap_or(0)).ok_or_else(|| wrong("kind", kind))?;
    let norm = FftNorm::parse(norm).ok_or_else(|| wrong("norm", norm))?;
    Ok(smallvec![b.prim(Prim::Fft(Fft { kind, axis, inverse: record::flag(def, a, 3)?, norm }), &[x])?])
}

/// The parts of a half spectrum of `n` with all but its first part, and its last if n is even, times a factor: those
/// stand for two of the whole.
fn scale_inner(b: &mut Builder<'_>, x: ValueId, axis: usize, n: usize, factor: f64) -> Result<ValueId> {
    let (re, im) = (b.real(x)?, b.imag(x)?);
    let (shape, dtype) = (b.shape(re), b.dtype(re));
    let place = b.prim(Prim::Iota { shape, axis }, &[])?;
    let twice = b.mul(place, 2.0)?;
    let whole = b.constant(DType::I64, Scalar::Int(n as i64))?;
    let (first, last) = (b.eq(place, 0.0)?, b.eq(twice, whole)?);
    let alone = b.or(first, last)?;
    let one = b.constant(dtype, 1.0)?;
    let weight = b.select(alone, one, factor)?;
    let (re, im) = (b.mul(re, weight)?, b.mul(im, weight)?);
    b.complex(re, im)
}

/// The adjoint: the transform in the other direction. Of a real operand only the real part is wanted, of a half result
/// what stands for two parts counts twice.
fn grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let f = of(cx.op)?;
    let n = f.len(b.shape(cx.inputs[0]).dim(f.axis).bound());
    let back = |kind| Prim::Fft(Fft { kind, inverse: !f.inverse, ..f });
    cx.each(|_| match f.kind {
        FftKind::Complex => b.prim(back(FftKind::Complex), &[cx.ct()]),
        FftKind::ToHalf => {
            let g = scale_inner(b, cx.ct(), f.axis, n, 0.5)?;
            b.prim(back(FftKind::FromHalf { len: n as u64 }), &[g])
        }
        FftKind::FromHalf { .. } => {
            let g = b.prim(back(FftKind::ToHalf), &[cx.ct()])?;
            scale_inner(b, g, f.axis, n, 2.0)
        }
    })
}

pub(super) static FFT: OpDef = OpDef {
    sig: "fft_along(Tensor self, int dim, str kind, bool inverse=False, str norm=\"none\", int? len=None) -> Tensor",
    doc: "y[k] = s Σ_j x[j] exp(∓2πi jk / n) along `dim`, + where it is the inverse; s is 1, 1/√n (root) or 1/n (size). Complex \
          to complex; to_half: real to the first n/2 + 1 parts; from_half: from those to `len` = n real numbers, where the \
          imaginary part of the first, and of the last if n is even, is not read. Computed in f64, rounded once.",
    record: |b, def, a| fft(b, def, a),
    infer,
    grad: Grad::Rule(grad),
    saves: Saves::NONE,
    cost: 60,
    numerics: Numerics::Claimed,
    stability: Stability::Stable,
    samples: &[
        Sample::of("c64[5] = 1 -2 0.5 3 7, 0, \"complex\"", 8),
        Sample::of("c128[2,12], 1, \"complex\", true, \"size\"", 64),
        Sample::of("c64[37,3], 0, \"complex\", false, \"root\"", 8),
        Sample::of("c64[0,4], 1, \"complex\"", 8),
        Sample::of("f32[2,8], 1, \"to_half\"", 8),
        Sample::of("f32[9,2], 0, \"to_half\", true, \"root\"", 8),
        Sample::of("f64[1], 0, \"to_half\"", 8),
        Sample::of("c64[2,5], 1, \"from_half\", true, \"size\", 8", 8),
        Sample::of("c64[5,2], 0, \"from_half\", false, \"none\", 9", 8),
        Sample::of("c128[1], 0, \"from_half\", true, \"size\", 1", 8),
    ],
    refuses: &[
        Refusal::of("f32[2], 0, \"complex\"", "fft: complex needs a complex tensor, got f32 [2]"),
        Refusal::of("c64[2], 0, \"to_half\"", "fft: to_half needs an f32 or f64 tensor, got c64 [2]"),
        Refusal::of("c64[2], 0, \"half\"", "fft_along: no kind is \"half\""),
    ],
    ..OpDef::DEFAULT
};

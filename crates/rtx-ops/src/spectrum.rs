//! Complex numbers beside their parts, and spectra of what a signal is over short times.
use crate::args::Args;
use crate::fourier::{along, as_complex, as_real};
use crate::spelling::SPELLING;
use rtx_core::{Class, Dim, Kind, Result, Shape};
use rtx_ir::{Arg, Builder, FftKind, FftNorm, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[&VIEW_AS_REAL, &VIEW_AS_COMPLEX, &POLAR, &STFT_CENTER, &STFT, &ISTFT];

const SPELLED: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Complex numbers as pairs.
pub static VIEW_AS_REAL: OpDef = OpDef {
    sig: "view_as_real(Tensor self) -> Tensor",
    doc: "Real and imaginary parts side by side in a new last dim of two. A tensor of its own, no view.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        if b.dtype(x).class() != Class::Complex {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("needs a complex tensor, got {}", b.ty(x)),
            ));
        }
        Ok(smallvec![pairs(b, x)?])
    },
    samples: &[Sample::exact("c64[2,3]"), Sample::exact("c128[]")],
    refuses: &[Refusal::of("f32[2]", "view_as_real: needs a complex tensor, got f32 [2]")],
    ..SPELLED
};
fn pairs(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let [re, im] = b.parts(x)?;
    let (re, im) = (b.as_column(re)?, b.as_column(im)?);
    let axis = b.rank(re) - 1;
    b.prim(Prim::Concat { axis }, &[re, im])
}
/// Pairs as complex numbers.
pub static VIEW_AS_COMPLEX: OpDef = OpDef {
    sig: "view_as_complex(Tensor self) -> Tensor",
    doc: "The complex numbers whose parts lie in the last dim, which has two elements. A tensor of its own, no view.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        let shape = b.shape(x);
        if shape.iter().last().and_then(|d| d.known()) != Some(2) {
            let what = format_args!("needs a last dim of two elements, got {shape}");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let (axis, lead) = (shape.rank() - 1, shape.iter().take(shape.rank() - 1).collect());
        let mut part = |i: i64| {
            let part = b.slice(x, axis, i, 1)?;
            b.reshape(part, &lead)
        };
        let (re, im) = (part(0)?, part(1)?);
        Ok(smallvec![b.complex(re, im)?])
    },
    samples: &[Sample::exact("f32[3,2] in -2..2"), Sample::exact("f64[2] in -2..2")],
    refuses: &[Refusal::of("f32[3]", "view_as_complex: needs a last dim of two elements, got [3]")],
    ..SPELLED
};
/// Complex numbers by size and angle.
pub static POLAR: OpDef = OpDef {
    sig: "polar(Tensor abs, Tensor angle) -> Tensor",
    doc: "abs · (cos angle + i sin angle).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (size, angle) = (args.tensor(0)?, args.tensor(1)?);
        let shape = rules::broadcast_for(def.name(), &[&b.ty(size).shape, &b.ty(angle).shape])?;
        let (size, angle) = (b.expand(size, &shape)?, b.expand(angle, &shape)?);
        if b.dtype(size) != b.dtype(angle) {
            let what = format_args!("the parts differ in type: {} and {}", b.ty(size), b.ty(angle));
            return Err(rules::refuse(def.name(), Kind::DType, what));
        }
        rules::check_float(def.name(), b.ty(size))?;
        let (cos, sin) = (b.cos(angle)?, b.sin(angle)?);
        let (re, im) = (b.mul(size, cos)?, b.mul(size, sin)?);
        Ok(smallvec![b.complex(re, im)?])
    },
    samples: &[Sample::of("f32[2,3] in 0..2, f32[3] in -3..3", 16)],
    refuses: &[Refusal::of("f32[2], f64[2]", "polar: the parts differ in type: f32 [2] and f64 [2]")],
    ..SPELLED
};

/// How a signal is cut into frames.
struct Frames {
    /// Elements of a frame.
    n: usize,
    /// From the start of one frame to the next.
    hop: usize,
    /// What frames are multiplied with, `[n]`; nothing where that is 1.
    window: Option<ValueId>,
}
impl Frames {
    /// Arguments 1 to 4: n_fft, hop_length, win_length, window.
    fn of(b: &mut Builder<'_>, args: &Args<'_>) -> Result<Self> {
        let op = args.op();
        let refuse = |what: String| Err(rules::refuse(op, Kind::Argument, what));
        let n = args.int(1)?;
        let hop = args.optional_int(2)?.unwrap_or(n / 4);
        let length = args.optional_int(3)?.unwrap_or(n);
        if n < 1 || hop < 1 || !(1..=n).contains(&length) {
            return refuse(format!("needs 0 < win_length <= n_fft and 0 < hop_length, got {length}, {n} and {hop}"));
        }
        let (n, length) = (n as usize, length as usize);
        let mut window = args.optional_tensor(4)?;
        if let Some(w) = window
            && (b.shape(w) != Shape::from([length]) || b.dtype(w).class() == Class::Complex)
        {
            return refuse(format!("the window is real, [{length}], got {}", b.ty(w)));
        }
        if length < n {
            let dtype = window.map_or(rtx_core::DType::F32, |w| b.dtype(w));
            let inner = window.map_or_else(|| b.full(dtype, &[length].into(), 1.0), Ok)?;
            let before = (n - length) / 2;
            let zero = b.zeros(dtype, &Shape::scalar())?;
            let pad = Prim::Pad { axis: 0, before: before as u64, after: (n - length - before) as u64 };
            window = Some(b.prim(pad, &[inner, zero])?);
        }
        Ok(Self { n, hop: hop as usize, window })
    }
    /// Frames `[.., n]` times the window.
    fn weighted(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let Some(window) = self.window else { return Ok(x) };
        if b.dtype(x).class() != Class::Complex {
            let window = b.cast(window, b.dtype(x))?;
            return b.mul(x, window);
        }
        let [re, im] = b.parts(x)?;
        let window = b.cast(window, b.dtype(re))?;
        let (re, im) = (b.mul(re, window)?, b.mul(im, window)?);
        b.complex(re, im)
    }
}

/// `[n]` or `[batch, n]` with a batch, and whether it had one.
fn batched(b: &mut Builder<'_>, op: &str, x: ValueId, rank: usize) -> Result<(ValueId, bool)> {
    let shape = b.shape(x);
    if shape.rank() != rank && shape.rank() != rank + 1 {
        let what = format_args!("takes {rank} or {} dims, got {shape}", rank + 1);
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    crate::lines::check_static(b, op, x)?;
    if shape.rank() == rank + 1 {
        return Ok((x, true));
    }
    let mut wide = shape;
    wide.insert(0, 1);
    Ok((b.reshape(x, &wide)?, false))
}
fn unbatched(b: &mut Builder<'_>, x: ValueId, had: bool) -> Result<ValueId> {
    if had {
        return Ok(x);
    }
    let mut shape = b.shape(x);
    shape.remove(0);
    b.reshape(x, &shape)
}

/// `pad` elements before and after each line of `[batch, n]`.
fn extended(b: &mut Builder<'_>, op: &str, x: ValueId, pad: usize, mode: &str) -> Result<ValueId> {
    let n = b.shape(x).dim(1).bound();
    let needs = match mode {
        "reflect" => pad + 1,
        "circular" => pad,
        _ => 1,
    };
    if mode != "constant" && n < needs {
        return Err(rules::refuse(
            op,
            Kind::Shape,
            format_args!("{pad} elements of padding by {mode:?} need more than {n}"),
        ));
    }
    let backwards = |b: &mut Builder<'_>, from: usize| {
        let start = b.constant(rtx_core::DType::I64, from as i64)?;
        b.slice_at(x, 1, start, pad, -1)
    };
    let edge = |b: &mut Builder<'_>, at: usize| {
        let one = b.slice(x, 1, at as i64, 1)?;
        let mut shape = b.shape(one);
        shape.set(1, Dim::from(pad));
        b.expand(one, &shape)
    };
    let (left, right) = match mode {
        "reflect" => (backwards(b, pad)?, backwards(b, n.saturating_sub(2))?),
        "replicate" => (edge(b, 0)?, edge(b, n - 1)?),
        "circular" => (b.slice(x, 1, (n - pad) as i64, pad)?, b.slice(x, 1, 0, pad)?),
        _ => {
            let zero = b.zeros(b.dtype(x), &Shape::scalar())?;
            return b.prim(Prim::Pad { axis: 1, before: pad as u64, after: pad as u64 }, &[x, zero]);
        }
    };
    b.prim(Prim::Concat { axis: 1 }, &[left, x, right])
}

/// Spectra over short times, of frames around the points of the signal.
pub static STFT_CENTER: OpDef = OpDef {
    sig: "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, \
          bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, \
          bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    doc: "Transforms [.., frequency, frame] of frames of n_fft elements, hop_length apart (n_fft / 4 by default), each times the \
          window. center: frame t stands around element t · hop_length, and the signal is padded by n_fft / 2. Real signals \
          give n_fft / 2 + 1 frequencies unless onesided is false; normalized divides by √n_fft. Without return_complex the \
          parts lie in a last dim of two.",
    record: |b, def, args| {
        let rest = [7, 8, 9].map(|i| args.get(i).clone());
        let read = Args::new(def, args);
        let center = *args.get(5) == Arg::None || read.flag(5)?;
        let mode = read.choice(6, &["reflect", "constant", "replicate", "circular"])?;
        short_time(b, &read, center.then_some(mode), rest)
    },
    samples: &[
        Sample::of("f32[20] in -1..1, 8", 64),
        Sample::of("f32[2,20] in -1..1, 8, 3, 6, f32[6] in 0.5..1, true, \"constant\", true, false", 64),
        Sample::of("f32[20] in -1..1, 8, 2, none, none, true, \"replicate\", false, true, true", 64),
        Sample::of("f32[20] in -1..1, 7, 2, none, none, false, \"circular\", false, true, true", 64),
    ],
    refuses: &[
        Refusal::of("f32[4], 8, none, none, none, false", "stft: frames of 8 elements of a signal of 4"),
        Refusal::of("f32[20], 8, 0", "stft: needs 0 < win_length <= n_fft and 0 < hop_length, got 8, 8 and 0"),
    ],
    ..SPELLED
};
/// Spectra over short times.
pub static STFT: OpDef = OpDef {
    sig: "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, \
          bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    doc: "stft.center of frames from the first element on.",
    record: |b, def, args| {
        let rest = [5, 6, 7].map(|i| args.get(i).clone());
        short_time(b, &Args::new(def, args), None, rest)
    },
    samples: &[Sample::of("f32[20] in -1..1, 8", 64)],
    ..SPELLED
};
fn is_true(a: &Arg) -> bool {
    matches!(a, Arg::Bool(true) | Arg::Scalar(rtx_core::Scalar::Bool(true)))
}
/// `rest`: normalized, onesided, return_complex.
fn short_time(b: &mut Builder<'_>, args: &Args<'_>, pad: Option<&str>, rest: [Arg; 3]) -> Result<Outs> {
    let (op, [normalized, onesided, complex]) = (args.op(), rest);
    let frames = Frames::of(b, args)?;
    let x = args.tensor(0)?;
    let is_complex = b.dtype(x).class() == Class::Complex;
    let x = if is_complex { x } else { as_real(b, op, x)? };
    let (mut x, had) = batched(b, op, x, 1)?;
    if let Some(mode) = pad {
        x = extended(b, op, x, frames.n / 2, mode)?;
    }
    let n = b.shape(x).dim(1).bound();
    if n < frames.n {
        let what = format_args!("frames of {} elements of a signal of {n}", frames.n);
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    let windows = Prim::Windows { axis: 1, size: frames.n as u64, stride: frames.hop as u64, dilation: 1 };
    let cut = b.prim(windows, &[x])?;
    let cut = frames.weighted(b, cut)?;
    let half = if onesided == Arg::None { !is_complex } else { is_true(&onesided) };
    if half && is_complex {
        return Err(rules::refuse(op, Kind::Argument, "complex signals have no one-sided spectrum"));
    }
    let norm = if is_true(&normalized) { FftNorm::Root } else { FftNorm::None };
    let y = if half {
        along(b, cut, FftKind::ToHalf, 2, false, norm)?
    } else {
        let cut = as_complex(b, op, cut)?;
        along(b, cut, FftKind::Complex, 2, false, norm)?
    };
    let y = b.transpose_last(y)?;
    let y = unbatched(b, y, had)?;
    Ok(smallvec![if is_true(&complex) || (complex == Arg::None && is_complex) { y } else { pairs(b, y)? }])
}

/// The signal of spectra over short times.
pub static ISTFT: OpDef = OpDef {
    sig: "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, \
          bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
    doc: "The least-squares inverse of stft: frames added where they lie, divided by the sum of squared windows there (Griffin \
          and Lim 1984). Where no window reaches, the result is not finite.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let frames = Frames::of(b, &args)?;
        let x = args.tensor(0)?;
        if b.dtype(x).class() != Class::Complex {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("needs a complex tensor, got {}", b.ty(x)),
            ));
        }
        let (x, had) = batched(b, def.name(), x, 2)?;
        let y = overlapped(b, &args, &frames, x)?;
        Ok(smallvec![unbatched(b, y, had)?])
    },
    samples: &[
        Sample::of("c64[5,4], 8", 512),
        Sample::of("c64[2,8,4], 8, 3, none, f32[8] in 0.5..1, true, true, false, 9", 512),
        Sample::of("c64[5,4], 8, 2, none, none, false", 512),
    ],
    refuses: &[
        Refusal::of("f32[5,4], 8", "istft: needs a complex tensor, got f32 [5, 4]"),
        Refusal::of("c64[6,4], 8", "istft: frames of 8 have 5 or 8 frequencies, got 6"),
    ],
    ..SPELLED
};
fn overlapped(b: &mut Builder<'_>, args: &Args<'_>, frames: &Frames, x: ValueId) -> Result<ValueId> {
    let (n, hop) = (frames.n, frames.hop);
    let (found, count) = (b.shape(x).dim(1).bound(), b.shape(x).dim(2).bound());
    let half = if *args.get(7) == Arg::None { found != n } else { args.flag(7)? };
    if found != if half { n / 2 + 1 } else { n } {
        let what = format_args!("frames of {n} have {} or {n} frequencies, got {found}", n / 2 + 1);
        return Err(rules::refuse(args.op(), Kind::Shape, what));
    }
    let norm = if args.flag(6)? { FftNorm::Root } else { FftNorm::Size };
    let x = b.transpose_last(x)?;
    let x = if half {
        along(b, x, FftKind::FromHalf { len: n as u64 }, 2, true, norm)?
    } else {
        along(b, x, FftKind::Complex, 2, true, norm)?
    };
    let x = if args.flag(9)? || half { x } else { b.real(x)? };
    let x = frames.weighted(b, x)?;
    let len = n + hop * (count.max(1) - 1);
    let add = |axis| Prim::OverlapAdd { axis, len: len as u64, stride: hop as u64, dilation: 1 };
    let dtype = b.dtype(x).real();
    let square = match frames.window {
        Some(w) => {
            let w = b.cast(w, dtype)?;
            b.mul(w, w)?
        }
        None => b.full(dtype, &[n].into(), 1.0)?,
    };
    let square = b.expand(square, &[count, n].into())?;
    let below = b.prim(add(0), &[square])?;
    let sum = if b.dtype(x).class() == Class::Complex {
        let [re, im] = b.parts(x)?;
        let (re, im) = (b.prim(add(1), &[re])?, b.prim(add(1), &[im])?);
        let (re, im) = (b.div(re, below)?, b.div(im, below)?);
        b.complex(re, im)?
    } else {
        let sum = b.prim(add(1), &[x])?;
        b.div(sum, below)?
    };
    let center = *args.get(5) == Arg::None || args.flag(5)?;
    let start = if center { n / 2 } else { 0 };
    let wanted = match args.optional_int(8)? {
        Some(length) => length.max(0) as usize,
        None => (if center { len - n / 2 } else { len }).saturating_sub(start),
    };
    let there = wanted.min(len - start);
    let y = b.slice(sum, 1, start as i64, there)?;
    let zero = b.zeros(b.dtype(y), &Shape::scalar())?;
    if there == wanted {
        return Ok(y);
    }
    b.prim(Prim::Pad { axis: 1, before: 0, after: (wanted - there) as u64 }, &[y, zero])
}

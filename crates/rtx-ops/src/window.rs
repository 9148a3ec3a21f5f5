//! Windows of signals (`torch.signal.windows`): symmetric ones, or periodic ones, which are one longer without the end.
use crate::args::Args;
use crate::formula::{Var, emit};
use crate::special::bessel::i0;
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result};
use rtx_ir::{Arg, Bound, Builder, Grad, Jvp, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, rules};
use smallvec::smallvec;
use std::f64::consts::{PI, SQRT_2, TAU};

/// The family.
pub const ALL: &[&OpDef] = &[
    &BARTLETT,
    &BLACKMAN,
    &COSINE,
    &EXPONENTIAL,
    &GAUSSIAN,
    &GENERAL_COSINE,
    &GENERAL_HAMMING,
    &HAMMING,
    &HANN,
    &KAISER,
    &NUTTALL,
];

const WINDOW: OpDef =
    OpDef { grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, stability: Stability::Stable, ..SPELLING };

/// Argument 0 (the length), and `sym` and `dtype`, which stand at `at`.
struct Window {
    length: usize,
    /// Steps between the first point and the one that would be its mirror image.
    span: f64,
    dtype: DType,
}
impl Window {
    fn of(args: &Args<'_>, at: usize) -> Result<Self> {
        let length = args.int(0)?;
        if length < 0 {
            return Err(rules::refuse(
                args.op(),
                Kind::Argument,
                format_args!("a length is not negative, got {length}"),
            ));
        }
        let symmetric = *args.get(at) == Arg::None || args.flag(at)?;
        let dtype = args.dtype(at + 1)?.unwrap_or(DType::F32);
        if !dtype.is_float() {
            return Err(rules::refuse(args.op(), Kind::DType, format_args!("windows are floats, got {dtype}")));
        }
        let span = if symmetric || length <= 1 { length - 1 } else { length };
        Ok(Self { length: length as usize, span: span as f64, dtype })
    }
    /// `start + step · position` in compute precision.
    fn points(&self, b: &mut Builder<'_>, start: f64, step: f64) -> Result<Var> {
        let place = b.prim(Prim::Iota { shape: [self.length].into(), axis: 0 }, &[])?;
        let place = b.cast(place, rules::number_dtype(self.dtype))?;
        emit(b, Var(place) * step + start)
    }
    fn round(&self, b: &mut Builder<'_>, y: Var) -> Result<Outs> {
        Ok(smallvec![b.cast(y.0, self.dtype)?])
    }
    /// All ones: the window of one point.
    fn ones(&self, b: &mut Builder<'_>) -> Result<Outs> {
        Ok(smallvec![b.full(self.dtype, &[self.length].into(), 1.0)?])
    }
    /// `Σ_i (-1)^i a_i cos(i k)` with k from 0 in steps of 2π / span.
    fn cosines(&self, b: &mut Builder<'_>, a: &[f64]) -> Result<Outs> {
        if self.length <= 1 {
            return self.ones(b);
        }
        let k = self.points(b, 0.0, TAU / self.span)?;
        let mut sum: Option<Var> = None;
        for (i, &a) in a.iter().enumerate() {
            let signed = if i % 2 == 0 { a } else { -a };
            let term = emit(b, (k * i as f64).cos() * signed)?;
            sum = Some(match sum {
                Some(sum) => emit(b, sum + term)?,
                None => term,
            });
        }
        match sum {
            Some(sum) => self.round(b, sum),
            None => Err(rules::refuse("signal_windows_general_cosine", Kind::Argument, "needs a coefficient")),
        }
    }
}

/// A triangle.
pub static BARTLETT: OpDef = OpDef {
    sig: "signal_windows_bartlett(int M, *, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "1 - |k|, k from -1 in steps of 2 / (M - 1), or 2 / M for a periodic window.",
    record: |b, def, a| {
        let w = Window::of(&Args::new(def, a), 1)?;
        if w.length <= 1 {
            return w.ones(b);
        }
        let k = w.points(b, -1.0, 2.0 / w.span)?;
        let y = emit(b, 1.0 - k.abs())?;
        w.round(b, y)
    },
    samples: &[Sample::of("5", 4), Sample::of("4, false, f64", 4), Sample::exact("1"), Sample::exact("0")],
    refuses: &[Refusal::of("-1", "signal_windows_bartlett: a length is not negative, got -1")],
    ..WINDOW
};
/// Three cosines.
pub static BLACKMAN: OpDef = OpDef {
    sig: "signal_windows_blackman(int M, *, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "0.42 - 0.5 cos k + 0.08 cos 2k, k from 0 in steps of 2π / (M - 1), or 2π / M for a periodic window.",
    record: |b, def, a| Window::of(&Args::new(def, a), 1)?.cosines(b, &[0.42, 0.5, 0.08]),
    samples: &[Sample::of("5", 16), Sample::of("4, false", 16)],
    ..WINDOW
};
/// Half a period.
pub static COSINE: OpDef = OpDef {
    sig: "signal_windows_cosine(int M, *, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "sin(π (k + 1/2) / M), or / (M + 1) for a periodic window.",
    record: |b, def, a| {
        let w = Window::of(&Args::new(def, a), 1)?;
        if w.length == 0 {
            return w.ones(b);
        }
        let step = PI / (w.span + 1.0);
        let k = w.points(b, 0.5 * step, step)?;
        let y = emit(b, k.sin())?;
        w.round(b, y)
    },
    samples: &[Sample::of("5", 16), Sample::of("4, false", 16)],
    ..WINDOW
};
/// Exponentials on both sides.
pub static EXPONENTIAL: OpDef = OpDef {
    sig: "signal_windows_exponential(int M, *, float? center=None, float tau=1.0, bool sym=True, ScalarType? dtype=None) \
          -> Tensor",
    doc: "exp(-|k - center| / tau); the center is (M - 1) / 2 by default, M / 2 for a periodic window. A symmetric window \
          has no other.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (w, tau) = (Window::of(&args, 3)?, args.float_or(2, 1.0)?);
        if tau <= 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("tau is positive, got {tau}")));
        }
        let symmetric = *a.get(3) == Arg::None || args.flag(3)?;
        if symmetric && *a.get(1) != Arg::None {
            return Err(rules::refuse(def.name(), Kind::Argument, "a symmetric window's center is not chosen"));
        }
        if w.length == 0 {
            return w.ones(b);
        }
        let center = args.float_or(1, w.span / 2.0)?;
        let k = w.points(b, -center / tau, 1.0 / tau)?;
        let y = emit(b, (-k.abs()).exp())?;
        w.round(b, y)
    },
    samples: &[Sample::of("5", 16), Sample::of("4, none, 2.5, false", 16), Sample::of("4, 0, 2.5, false", 16)],
    refuses: &[
        Refusal::of("5, 1, 1.0", "signal_windows_exponential: a symmetric window's center is not chosen"),
        Refusal::of("5, none, 0.0", "signal_windows_exponential: tau is positive, got 0"),
    ],
    ..WINDOW
};
/// A bell.
pub static GAUSSIAN: OpDef = OpDef {
    sig: "signal_windows_gaussian(int M, *, float std=1.0, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "exp(-(k - c)² / (2 std²)), c = (M - 1) / 2, or M / 2 for a periodic window.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (w, std) = (Window::of(&args, 2)?, args.float_or(1, 1.0)?);
        if std <= 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("std is positive, got {std}")));
        }
        if w.length == 0 {
            return w.ones(b);
        }
        let step = 1.0 / (std * SQRT_2);
        let k = w.points(b, -w.span / 2.0 * step, step)?;
        let y = emit(b, (-(k * k)).exp())?;
        w.round(b, y)
    },
    samples: &[Sample::of("5", 16), Sample::of("4, 0.5, false", 16)],
    refuses: &[Refusal::of("5, 0.0", "signal_windows_gaussian: std is positive, got 0")],
    ..WINDOW
};
/// Many cosines.
pub static GENERAL_COSINE: OpDef = OpDef {
    sig: "signal_windows_general_cosine(int M, *, float[] a, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "Σ_i (-1)^i a_i cos(i k), k from 0 in steps of 2π / (M - 1), or 2π / M for a periodic window.",
    record: |b, def, args| {
        let w = Window::of(&Args::new(def, args), 2)?;
        w.cosines(b, &coefficients(def, args)?)
    },
    samples: &[Sample::of("5, [1, 2]", 32), Sample::of("4, [1, 1, 1], false", 32)],
    ..WINDOW
};
/// Two cosines.
pub static GENERAL_HAMMING: OpDef = OpDef {
    sig: "signal_windows_general_hamming(int M, *, float alpha=0.54, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "alpha - (1 - alpha) cos k, k from 0 in steps of 2π / (M - 1), or 2π / M for a periodic window.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let alpha = args.float_or(1, 0.54)?;
        Window::of(&args, 2)?.cosines(b, &[alpha, 1.0 - alpha])
    },
    samples: &[Sample::of("5", 16), Sample::of("4, 0.7, false", 16)],
    ..WINDOW
};
/// Hamming's.
pub static HAMMING: OpDef = OpDef {
    sig: "signal_windows_hamming(int M, *, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "0.54 - 0.46 cos k, k from 0 in steps of 2π / (M - 1), or 2π / M for a periodic window.",
    record: |b, def, a| Window::of(&Args::new(def, a), 1)?.cosines(b, &[0.54, 0.46]),
    samples: &[Sample::of("5", 16), Sample::of("4, false", 16)],
    ..WINDOW
};
/// Hann's.
pub static HANN: OpDef = OpDef {
    sig: "signal_windows_hann(int M, *, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "(1 - cos k) / 2, k from 0 in steps of 2π / (M - 1), or 2π / M for a periodic window.",
    record: |b, def, a| Window::of(&Args::new(def, a), 1)?.cosines(b, &[0.5, 0.5]),
    samples: &[Sample::of("5", 16), Sample::of("4, false", 16)],
    ..WINDOW
};
/// Nuttall's four cosines.
pub static NUTTALL: OpDef = OpDef {
    sig: "signal_windows_nuttall(int M, *, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "0.3635819 - 0.4891775 cos k + 0.1365995 cos 2k - 0.0106411 cos 3k, k from 0 in steps of 2π / (M - 1), or 2π / M \
          for a periodic window. Nuttall, IEEE Trans. ASSP 29 (1981).",
    record: |b, def, a| {
        Window::of(&Args::new(def, a), 1)?.cosines(b, &[0.363_581_9, 0.489_177_5, 0.136_599_5, 0.010_641_1])
    },
    samples: &[Sample::of("5", 16), Sample::of("4, false", 16)],
    ..WINDOW
};
/// Kaiser's.
pub static KAISER: OpDef = OpDef {
    sig: "signal_windows_kaiser(int M, *, float beta=12.0, bool sym=True, ScalarType? dtype=None) -> Tensor",
    doc: "I0(√(beta² - k²)) / I0(beta), k from -beta in steps of 2 beta / (M - 1), or 2 beta / M for a periodic window.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (w, beta) = (Window::of(&args, 2)?, args.float_or(1, 12.0)?);
        if beta < 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("beta is not negative, got {beta}")));
        }
        if w.length <= 1 || beta == 0.0 {
            return w.ones(b);
        }
        let k = w.points(b, -beta, 2.0 * beta / w.span)?;
        // Rounding may carry the last point over the edge.
        let inside = emit(b, (beta * beta - k * k).max(0.0).sqrt())?;
        let edge = b.full(b.dtype(k.0), &[1].into(), beta)?;
        let up = i0(b, inside)?;
        let down = i0(b, Var(edge))?;
        let y = emit(b, up / down)?;
        w.round(b, y)
    },
    samples: &[Sample::of("5", 64), Sample::of("4, 3, false", 64)],
    refuses: &[Refusal::of("5, -1.0", "signal_windows_kaiser: beta is not negative, got -1")],
    ..WINDOW
};
/// Argument 1 as numbers.
fn coefficients(def: &OpDef, a: &Bound) -> Result<Vec<f64>> {
    match a.get(1) {
        Arg::Ints(v) => Ok(v.iter().map(|&n| n as f64).collect()),
        Arg::Scalar(s) => Ok(vec![s.to_f64()]),
        Arg::List(list) => list
            .iter()
            .map(|x| match x {
                Arg::Scalar(s) => Ok(s.to_f64()),
                _ => Err(rules::refuse(def.name(), Kind::Argument, "argument `a` takes numbers")),
            })
            .collect(),
        _ => Err(rules::refuse(def.name(), Kind::Argument, "argument `a` takes numbers")),
    }
}

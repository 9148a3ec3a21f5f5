//! Statistics and norms: what is spelled with the reductions of `reduce`.
use crate::args::Args;
use crate::diagonal::DIAGONAL;
use crate::precision::{count, float_of};
use crate::reduce::{MEAN, STD, VAR, VECTOR_NORM, accumulated, check_not_empty, fold, reduction_attrs};
use crate::spelling::SPELLING;
use rtx_core::{DType, Extremum, Fold, Kind, Result, Scalar};
use rtx_ir::{Arg, Attr, Bound, Builder, Grad, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &NANSUM,
    &NANMEAN,
    &AMINMAX,
    &MAX_DIM,
    &MAX_OTHER,
    &MAX_ALL,
    &MIN_DIM,
    &MIN_OTHER,
    &MIN_ALL,
    &VAR_DIM,
    &VAR_ALL,
    &STD_DIM,
    &STD_ALL,
    &VAR_MEAN,
    &VAR_MEAN_DIM,
    &VAR_MEAN_ALL,
    &STD_MEAN,
    &STD_MEAN_DIM,
    &STD_MEAN_ALL,
    &PYTHON_NORM,
    &LINALG_NORM,
    &LINALG_NORM_STR,
    &MATRIX_NORM,
    &MATRIX_NORM_STR,
    &COV,
    &CORRCOEF,
    &ALLCLOSE,
];

const STATISTIC: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Sum without NaN.
pub static NANSUM: OpDef = OpDef {
    sig: "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "Sum over the dims, NaN counting as 0; integers and bools add up as i64.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let dtype = args.dtype(3)?.unwrap_or(accumulated(b.dtype(x)));
        let axes = args.dims_or_all(1, b.rank(x))?;
        let (x, _) = without_nan(b, x)?;
        let x = b.cast(x, dtype)?;
        Ok(smallvec![fold(b, Fold::Sum, x, &axes, args.flag(2)?)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2", 16), Sample::of("f32[4] = 1 nan 2 nan", 16)],
    ..STATISTIC
};
/// Mean without NaN.
pub static NANMEAN: OpDef = OpDef {
    sig: "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "Mean over the dims of what is not NaN.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut x = args.tensor(0)?;
        if let Some(dtype) = args.dtype(3)? {
            x = b.cast(x, dtype)?;
        }
        rules::check_float(def.name(), b.ty(x))?;
        let (axes, keep) = (args.dims_or_all(1, b.rank(x))?, args.flag(2)?);
        let (clean, real) = without_nan(b, x)?;
        let sum = fold(b, Fold::Sum, clean, &axes, keep)?;
        let ones = b.cast(real, b.dtype(x))?;
        let n = fold(b, Fold::Sum, ones, &axes, keep)?;
        Ok(smallvec![b.div(sum, n)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, [1]", 16), Sample::of("f32[4] = 1 nan 2 nan", 16)],
    refuses: &[Refusal::of("i64[2]", "nanmean: needs a float tensor, got i64 [2]")],
    ..STATISTIC
};
/// The tensor with 0 for NaN, and where it has none.
fn without_nan(b: &mut Builder<'_>, x: ValueId) -> Result<(ValueId, ValueId)> {
    let real = b.eq(x, x)?;
    Ok((if b.dtype(x).is_float() { b.select(real, x, 0.0)? } else { x }, real))
}
/// Minimum and maximum.
pub static AMINMAX: OpDef = OpDef {
    sig: "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    doc: "Minimum and maximum over the dim; NaN wins.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (axes, keep) = (args.dims_or_all(1, b.rank(x))?, args.flag(2)?);
        check_not_empty(def, b.ty(x), &axes)?;
        Ok(smallvec![fold(b, Fold::Min, x, &axes, keep)?, fold(b, Fold::Max, x, &axes, keep)?])
    },
    samples: &[Sample::grad("f32[2,5] in -9..9", 0), Sample::grad("f32[2,5] in -9..9, 1, true", 0)],
    ..STATISTIC
};
/// An extremum, in PyTorch's three forms.
macro_rules! extrema { ($($DIM:ident $OTHER:ident $ALL:ident $name:literal $long:literal $f:ident $fold:ident;)*) => { $(
    #[doc = concat!("The ", $long, " along a dim and its place.")]
    pub static $DIM: OpDef = OpDef {
        sig: concat!($name, ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
        doc: concat!("The ", $long, " along dim and the position of the first one; NaN wins. The gradient goes there."),
        record: |b, def, args| {
            let args = Args::new(def, args);
            let x = args.tensor(0)?;
            let (axis, keep) = (args.dim(1, b.rank(x))?, args.flag(2)?);
            if b.rank(x) == 0 {
                return Ok(smallvec![x, b.constant(DType::I64, 0i64)?]);
            }
            check_not_empty(def, b.ty(x), &[axis])?;
            at_extremum(b, x, axis, Extremum::$fold, keep)
        },
        samples: &[Sample::grad("f32[3,5] in -9..9, 1", 0), Sample::grad("f32[3,5] in -9..9, 0, true", 0)],
        refuses: &[Refusal::of("f32[2,0], 1", concat!($name, ": nothing to compare: f32 [2, 0] has size 0 along dim 1"))],
        ..STATISTIC
    };
    #[doc = concat!("The ", $long, " of two tensors.")]
    pub static $OTHER: OpDef = OpDef {
        sig: concat!($name, ".other(Tensor self, Tensor other) -> Tensor"),
        doc: concat!("The ", $long, " of two tensors, element by element."),
        record: |b, def, args| {
            use rtx_ir::record::{Promotion, first, pointwise};
            pointwise(b, def, &first::<2>(args), Promotion::Meet, |b, met| b.$f(met.values[0], met.values[1]))
        },
        samples: &[Sample::grad("f32[2,3] in -2..2, f32[3] in -2..2", 0)],
        ..STATISTIC
    };
    #[doc = concat!("The ", $long, " of all elements.")]
    pub static $ALL: OpDef = OpDef {
        sig: concat!($name, "(Tensor self) -> Tensor"),
        doc: concat!("The ", $long, " of all elements; NaN wins. The gradient is shared among equal ones."),
        record: |b, def, args| {
            let x = Args::new(def, args).tensor(0)?;
            let axes: Vec<usize> = (0..b.rank(x)).collect();
            check_not_empty(def, b.ty(x), &axes)?;
            Ok(smallvec![fold(b, Fold::$fold, x, &axes, false)?])
        },
        samples: &[Sample::grad("f32[2,3] in -9..9", 0)],
        ..STATISTIC
    };
)* } }
extrema! {
    MAX_DIM MAX_OTHER MAX_ALL "max" "maximum" max Max;
    MIN_DIM MIN_OTHER MIN_ALL "min" "minimum" min Min;
}
/// `(values, indices)`: the value is read at its place, so that its gradient goes there alone.
fn at_extremum(b: &mut Builder<'_>, x: ValueId, axis: usize, extremum: Extremum, keep: bool) -> Result<Outs> {
    let place = b.prim(Prim::ArgReduce { extremum, axis }, &[x])?;
    let mut kept = b.shape(x);
    kept.set(axis, 1);
    let column = b.reshape(place, &kept)?;
    let along = b.prim(Prim::Iota { shape: b.shape(x), axis }, &[])?;
    let [wide, along] = b.broadcast_pair(column, along)?;
    let here = b.eq(along, wide)?;
    let zero = b.zeros_like(x)?;
    let only = b.select(here, x, zero)?;
    // One element a row is not 0, and NaN beside it is not read: the sum is that element.
    let y = b.reduce(Fold::Sum, only, &[axis])?;
    if !keep {
        return Ok(smallvec![y, place]);
    }
    Ok(smallvec![b.reshape(y, &kept)?, column])
}

/// A spread by its forms: `(self, dim, unbiased, keepdim)`.
fn spread(
    b: &mut Builder<'_>,
    def: &'static OpDef,
    x: ValueId,
    axes: &[usize],
    correction: f64,
    keep: bool,
) -> Result<ValueId> {
    Ok(b.composite(def, reduction_attrs(axes, keep, Some(Attr::Float(correction))), &[x])?[0])
}
fn mean(b: &mut Builder<'_>, x: ValueId, axes: &[usize], keep: bool) -> Result<ValueId> {
    Ok(b.composite(&MEAN, reduction_attrs(axes, keep, None), &[x])?[0])
}
/// How a form gives its arguments.
#[derive(Clone, Copy)]
enum Form {
    /// `(self, dim=None, *, correction=None, keepdim=False)`.
    Correction,
    /// `(self, dim, unbiased=True, keepdim=False)`.
    Dim,
    /// `(self, unbiased=True)`.
    All,
}
struct Spread {
    x: ValueId,
    axes: SmallVec<[usize; 4]>,
    correction: f64,
    keep: bool,
}
impl Spread {
    fn of(b: &Builder<'_>, def: &'static OpDef, args: &Bound, form: Form) -> Result<Spread> {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let unbiased =
            |i: usize| -> Result<f64> { Ok(if matches!(args.get(i), Arg::None) || args.flag(i)? { 1.0 } else { 0.0 }) };
        let rank = b.rank(x);
        let (axes, correction, keep) = match form {
            Form::Correction => (args.dims_or_all(1, rank)?, args.float_or(2, 1.0)?, args.flag(3)?),
            Form::Dim => (args.dims_or_all(1, rank)?, unbiased(2)?, args.flag(3)?),
            Form::All => ((0..rank).collect(), unbiased(1)?, false),
        };
        Ok(Spread { x, axes, correction, keep })
    }
    fn emit(&self, b: &mut Builder<'_>, def: &'static OpDef) -> Result<ValueId> {
        spread(b, def, self.x, &self.axes, self.correction, self.keep)
    }
    fn with_mean(&self, b: &mut Builder<'_>, def: &'static OpDef) -> Result<Outs> {
        Ok(smallvec![self.emit(b, def)?, mean(b, self.x, &self.axes, self.keep)?])
    }
}
macro_rules! spreads { ($($NAME:ident $sig:literal $emit:ident $of:ident $form:ident $doc:literal $args:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| {
            Spread::of(b, def, args, Form::$form)?.$emit(b, &$of).map(IntoOuts::into_outs)
        },
        samples: &[Sample::grad($args, 64)],
        ..STATISTIC
    };
)* } }
/// One result or several.
trait IntoOuts {
    fn into_outs(self) -> Outs;
}
impl IntoOuts for ValueId {
    fn into_outs(self) -> Outs {
        smallvec![self]
    }
}
impl IntoOuts for Outs {
    fn into_outs(self) -> Outs {
        self
    }
}
spreads! {
    VAR_DIM "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor" emit VAR Dim
        "Variance over the dims; unbiased divides by n - 1, else by n." "f32[3,4] in -2..2, [1], false";
    VAR_ALL "var(Tensor self, bool unbiased=True) -> Tensor" emit VAR All
        "Variance of all elements; unbiased divides by n - 1, else by n." "f32[3,4] in -2..2, false";
    STD_DIM "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor" emit STD Dim
        "Standard deviation over the dims; unbiased divides by n - 1, else by n." "f32[3,4] in -2..2, [1], false";
    STD_ALL "std(Tensor self, bool unbiased=True) -> Tensor" emit STD All
        "Standard deviation of all elements; unbiased divides by n - 1, else by n." "f32[3,4] in -2..2";
    VAR_MEAN "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"
        with_mean VAR Correction "Variance and mean over the dims." "f32[3,4] in -2..2, [0], 0, true";
    VAR_MEAN_DIM "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"
        with_mean VAR Dim "Variance and mean over the dims; unbiased divides by n - 1, else by n." "f32[3,4] in -2..2, [1]";
    VAR_MEAN_ALL "var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"
        with_mean VAR All "Variance and mean of all elements; unbiased divides by n - 1, else by n." "f32[3,4] in -2..2";
    STD_MEAN "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"
        with_mean STD Correction "Standard deviation and mean over the dims." "f32[3,4] in -2..2, [0], 0, true";
    STD_MEAN_DIM "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"
        with_mean STD Dim "Standard deviation and mean over the dims; unbiased divides by n - 1, else by n."
        "f32[3,4] in -2..2, [1]";
    STD_MEAN_ALL "std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)"
        with_mean STD All "Standard deviation and mean of all elements; unbiased divides by n - 1, else by n."
        "f32[3,4] in -2..2";
}

/// An order of a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Number(f64),
    Frobenius,
    Nuclear,
}
impl Order {
    fn of(def: &OpDef, arg: &Arg) -> Result<Option<Order>> {
        Ok(Some(match arg {
            Arg::None => return Ok(None),
            Arg::Scalar(s) => Order::Number(s.to_f64()),
            Arg::Str("fro") => Order::Frobenius,
            Arg::Str("nuc") => Order::Nuclear,
            Arg::Str("inf") => Order::Number(f64::INFINITY),
            Arg::Str("-inf") => Order::Number(f64::NEG_INFINITY),
            other => {
                let what = format!("{other:?} is no order of a norm");
                return Err(rules::refuse(def.name(), Kind::Argument, what));
            }
        }))
    }
}
fn vector_norm(b: &mut Builder<'_>, x: ValueId, order: f64, axes: &[usize], keep: bool) -> Result<ValueId> {
    let dtype = float_of(b.dtype(x));
    let x = b.cast(x, dtype)?;
    Ok(b.composite(&VECTOR_NORM, reduction_attrs(axes, keep, Some(Attr::Float(order))), &[x])?[0])
}
/// A norm of the matrices in two dims.
fn matrix_norm(
    b: &mut Builder<'_>,
    def: &OpDef,
    x: ValueId,
    order: Order,
    axes: [usize; 2],
    keep: bool,
) -> Result<ValueId> {
    let [rows, columns] = axes;
    let spectral = |o: f64| o.abs() == 2.0;
    match order {
        Order::Frobenius => vector_norm(b, x, 2.0, &axes, keep),
        Order::Number(o) if o.abs() == 1.0 || o.is_infinite() => {
            let (summed, compared) = if o.is_infinite() { (columns, rows) } else { (rows, columns) };
            check_not_empty(def, b.ty(x), &[compared])?;
            let size = b.abs(x)?;
            let sums = b.reduce_keep(Fold::Sum, size, &[summed])?;
            let f = if o > 0.0 { Fold::Max } else { Fold::Min };
            let y = b.reduce_keep(f, sums, &[compared])?;
            dropped(b, y, &axes, keep)
        }
        Order::Number(o) if !spectral(o) => {
            Err(rules::refuse(def.name(), Kind::Argument, format_args!("{o} is no order of a matrix norm")))
        }
        order => {
            let Some(svd) = crate::find_exact("linalg_svdvals") else {
                return Err(rules::refuse(def.name(), Kind::Unsupported, "norms by singular values are not built yet"));
            };
            let rank = b.rank(x);
            let last: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).chain(axes).collect();
            let x = b.permute(x, &last)?;
            let values = b.call(svd, [Arg::Value(x), Arg::None])?[0];
            let axis = b.rank(values) - 1;
            let f = match order {
                Order::Nuclear => Fold::Sum,
                Order::Number(o) if o < 0.0 => Fold::Min,
                _ => Fold::Max,
            };
            let y = b.reduce(f, values, &[axis])?;
            if !keep {
                return Ok(y);
            }
            let mut shape = b.shape(y);
            let mut ascending = axes;
            ascending.sort_unstable();
            ascending.iter().for_each(|&a| shape.insert(a, 1));
            b.reshape(y, &shape)
        }
    }
}
/// Without dims of size 1 that were folded, unless they are to stay.
fn dropped(b: &mut Builder<'_>, y: ValueId, axes: &[usize], keep: bool) -> Result<ValueId> {
    if keep {
        return Ok(y);
    }
    let from = b.shape(y);
    let to = (0..from.rank()).filter(|d| !axes.contains(d)).map(|d| from.dim(d)).collect();
    b.reshape(y, &to)
}
fn two_axes(def: &OpDef, dims: &[i64], rank: usize) -> Result<[usize; 2]> {
    let axes = dims.iter().map(|&d| rules::check_dim(def.name(), d, rank)).collect::<Result<Vec<_>>>()?;
    match axes.as_slice() {
        &[i, j] if i != j => Ok([i, j]),
        _ => Err(rules::refuse(def.name(), Kind::Argument, format_args!("a matrix norm has two dims, got {dims:?}"))),
    }
}
/// `torch.norm`.
pub static PYTHON_NORM: OpDef = OpDef {
    sig: "python_norm(Tensor self, Any p=\"fro\", int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "torch.norm: (Σ |x|^p)^(1/p) over the dims; \"fro\" is order 2, \"nuc\" the sum of the singular values of the \
          matrices in two dims.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut x = args.tensor(0)?;
        if let Some(dtype) = args.dtype(4)? {
            x = b.cast(x, dtype)?;
        }
        let (order, keep) = (Order::of(def, args.get(1))?.unwrap_or(Order::Frobenius), args.flag(3)?);
        let y = match order {
            Order::Number(p) => vector_norm(b, x, p, &args.dims_or_all(2, b.rank(x))?, keep)?,
            Order::Frobenius => vector_norm(b, x, 2.0, &args.dims_or_all(2, b.rank(x))?, keep)?,
            Order::Nuclear => {
                let dims = args.optional_ints(2)?.unwrap_or_else(|| smallvec![-2, -1]);
                matrix_norm(b, def, x, order, two_axes(def, &dims, b.rank(x))?, keep)?
            }
        };
        Ok(smallvec![y])
    },
    samples: &[Sample::grad("f32[3,4] in 0.5..2, 3", 64), Sample::grad("f32[3,4] in -2..2", 64)],
    ..STATISTIC
};
/// `torch.linalg.norm`.
pub static LINALG_NORM: OpDef = OpDef {
    sig: "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The vector norm of one dim, the matrix norm of two; without ord the root of the sum of squares of all.",
    record: record_linalg_norm,
    samples: &[
        Sample::grad("f32[3,4] in -2..2", 64),
        Sample::grad("f32[3,4] in 0.5..2, 1", 64),
        Sample::grad("f32[3,4] in 0.5..2, 3, [1]", 64),
    ],
    refuses: &[Refusal::of("f32[2,2], 3", "linalg_norm: 3 is no order of a matrix norm")],
    ..STATISTIC
};
/// `torch.linalg.norm` with a word.
pub static LINALG_NORM_STR: OpDef = OpDef {
    sig: "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The matrix norm \"fro\" or \"nuc\".",
    record: record_linalg_norm,
    samples: &[Sample::grad("f32[3,4] in -2..2, \"fro\"", 64)],
    ..STATISTIC
};
fn record_linalg_norm(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut x = args.tensor(0)?;
    if let Some(dtype) = args.dtype(4)? {
        x = b.cast(x, dtype)?;
    }
    let (order, given, keep) = (Order::of(def, args.get(1))?, args.optional_ints(2)?, args.flag(3)?);
    let rank = b.rank(x);
    let y = match (order, given) {
        (None, _) => vector_norm(b, x, 2.0, &args.dims_or_all(2, rank)?, keep)?,
        (Some(Order::Number(o)), Some(d)) if d.len() == 1 => vector_norm(b, x, o, &args.dims_or_all(2, rank)?, keep)?,
        (Some(Order::Number(o)), None) if rank == 1 => vector_norm(b, x, o, &[0], keep)?,
        (Some(order), given) => {
            if given.is_none() && rank != 2 {
                let what = format!("an order without dims needs a vector or a matrix, got {}", b.shape(x));
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
            let dims = given.unwrap_or_else(|| smallvec![0, 1]);
            matrix_norm(b, def, x, order, two_axes(def, &dims, rank)?, keep)?
        }
    };
    Ok(smallvec![y])
}
/// `torch.linalg.matrix_norm`.
pub static MATRIX_NORM: OpDef = OpDef {
    sig: "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "Norms of the matrices in two dims: order 1 the largest column sum of sizes, infinity the largest row sum, 2 the \
          largest singular value; negative the smallest.",
    record: record_matrix_norm,
    samples: &[Sample::grad("f32[2,3,4] in 0.5..2, 1", 64), Sample::grad("f32[3,4] in 0.5..2, -inf, [0,1], true", 64)],
    refuses: &[Refusal::of("f32[2,2], 1, [0]", "linalg_matrix_norm: a matrix norm has two dims, got [0]")],
    ..STATISTIC
};
/// `torch.linalg.matrix_norm` with a word.
pub static MATRIX_NORM_STR: OpDef = OpDef {
    sig: "linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "Norms of the matrices in two dims: \"fro\" the root of the sum of squares, \"nuc\" the sum of singular values.",
    record: record_matrix_norm,
    samples: &[Sample::grad("f32[2,3,4] in -2..2", 64)],
    ..STATISTIC
};
fn record_matrix_norm(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut x = args.tensor(0)?;
    if let Some(dtype) = args.dtype(4)? {
        x = b.cast(x, dtype)?;
    }
    rules::check_float(def.name(), b.ty(x))?;
    let order = Order::of(def, args.get(1))?.unwrap_or(Order::Frobenius);
    let dims = args.optional_ints(2)?.unwrap_or_else(|| smallvec![-2, -1]);
    let axes = two_axes(def, &dims, b.rank(x))?;
    Ok(smallvec![matrix_norm(b, def, x, order, axes, args.flag(3)?)?])
}
/// Covariances.
pub static COV: OpDef = OpDef {
    sig: "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    doc: "Covariances of the rows of a matrix: Σ w (x - x̄)(x - x̄)ᵀ / norm, w the product of both weights, the norm \
          Σ w - correction · Σ w·aweights / Σ w, at least 0.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let y = covariance(b, def, x, args.int_or(1, 1)?, args.optional_tensor(2)?, args.optional_tensor(3)?)?;
        Ok(smallvec![y])
    },
    samples: &[
        Sample::grad("f32[3,5] in -2..2", 64),
        Sample::grad("f32[5] in -2..2, 0", 64),
        Sample::grad("f32[2,4] in -2..2, 1, i64[4] in 1..5, f32[4] in 0.5..1", 64),
    ],
    refuses: &[Refusal::of("f32[2,2,2]", "cov: needs a vector or a matrix, got [2, 2, 2]")],
    ..STATISTIC
};
fn covariance(
    b: &mut Builder<'_>,
    def: &OpDef,
    x: ValueId,
    correction: i64,
    frequencies: Option<ValueId>,
    weights: Option<ValueId>,
) -> Result<ValueId> {
    let rank = b.rank(x);
    if rank > 2 {
        let what = format!("needs a vector or a matrix, got {}", b.shape(x));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let dtype = float_of(b.dtype(x));
    let x = b.cast(x, dtype)?;
    let x = crate::arrange::atleast_2d(b, x)?;
    let shape = b.shape(x);
    let cast = |b: &mut Builder<'_>, w: Option<ValueId>| w.map(|w| b.cast(w, dtype)).transpose();
    let (frequencies, weights) = (cast(b, frequencies)?, cast(b, weights)?);
    let w = match (frequencies, weights) {
        (Some(f), Some(a)) => Some(b.mul(f, a)?),
        (one, other) => one.or(other),
    };
    let (sum, average) = match w {
        None => (count(b, dtype, &shape, &[1])?, mean(b, x, &[1], true)?),
        Some(w) => {
            let sum = b.reduce(Fold::Sum, w, &[0])?;
            let weighed = b.mul(x, w)?;
            let total = b.reduce_keep(Fold::Sum, weighed, &[1])?;
            (sum, b.div(total, sum)?)
        }
    };
    let norm = match (w, weights) {
        (Some(w), Some(a)) if correction != 0 => {
            let product = b.mul(w, a)?;
            let product = b.reduce(Fold::Sum, product, &[0])?;
            let ratio = b.div(product, sum)?;
            let taken = b.mul(ratio, correction as f64)?;
            b.sub(sum, taken)?
        }
        _ => b.sub(sum, correction as f64)?,
    };
    let norm = b.max(norm, 0.0)?;
    let centered = b.sub(x, average)?;
    let weighed = match w {
        None => centered,
        Some(w) => b.mul(centered, w)?,
    };
    let y = b.prim(Prim::Dot { batch: smallvec![], contract: smallvec![(1, 1)] }, &[centered, weighed])?;
    let y = b.div(y, norm)?;
    if rank < 2 || shape.dim(0).is_one() { b.reshape(y, &rtx_core::Shape::scalar()) } else { Ok(y) }
}
/// Correlations.
pub static CORRCOEF: OpDef = OpDef {
    sig: "corrcoef(Tensor self) -> Tensor",
    doc: "Correlations of the rows of a matrix: covariances divided by both standard deviations, between -1 and 1.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        let c = covariance(b, def, x, 1, None, None)?;
        if b.rank(c) == 0 {
            return Ok(smallvec![b.div(c, c)?]);
        }
        let variances = b.call(&DIAGONAL, [Arg::Value(c)])?[0];
        let deviation = b.sqrt(variances)?;
        let n = b.shape(deviation).dim(0);
        let column = b.reshape(deviation, &[n, rtx_core::Dim::Const(1)].into_iter().collect())?;
        let y = b.div(c, column)?;
        let y = b.div(y, deviation)?;
        // Clamped by selection: the gradient passes where nothing is cut.
        let above = b.lt(1.0, y)?;
        let y = b.select(above, 1.0, y)?;
        let below = b.lt(y, -1.0)?;
        Ok(smallvec![b.select(below, -1.0, y)?])
    },
    samples: &[Sample::of("f32[3,5] in -2..2", 64)],
    ..STATISTIC
};

/// Nearly equal, all of them.
pub static ALLCLOSE: OpDef = OpDef {
    sig: "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    doc: "Are all elements near each other, as isclose says? A tensor of one bool.",
    runtime: &["rtol", "atol"],
    record: |b, def, args| {
        let near = close(b, def, args)?;
        let axes: Vec<usize> = (0..b.rank(near)).collect();
        Ok(smallvec![b.reduce(Fold::Min, near, &axes)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[2] = 1 2, f32[2] = 1 2.00001"), Sample::exact("f32[2] = 1 2, f32[2] = 1 3")],
    ..STATISTIC
};
fn close(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<ValueId> {
    use rtx_ir::record::{Promotion, meet};
    let met = meet(b, def, &[args.get(0).clone(), args.get(1).clone()], Promotion::Meet)?;
    let given = Args::new(def, args);
    let (rtol, atol, nan) = (given.float_or(2, 1e-5)?, given.float_or(3, 1e-8)?, given.flag(4)?);
    let (x, y) = (met.values[0], met.values[1]);
    let mut near = b.eq(x, y)?;
    if nan && b.dtype(x).is_float() {
        let (real_x, real_y) = (b.eq(x, x)?, b.eq(y, y)?);
        let either = b.or(real_x, real_y)?;
        let neither = b.not(either)?;
        near = b.or(near, neither)?;
    }
    let compute = if met.compute.is_float() { rules::number_dtype(met.compute) } else { DType::F32 };
    let (x, y) = (b.cast(x, compute)?, b.cast(y, compute)?);
    let (rtol, atol) = (b.param(compute, Scalar::Float(rtol))?, b.param(compute, Scalar::Float(atol))?);
    let size = b.mul(y, rtol)?;
    let size = b.abs(size)?;
    let allowed = b.add(size, atol)?;
    let difference = b.sub(x, y)?;
    let difference = b.abs(difference)?;
    let within = b.le(difference, allowed)?;
    let finite = b.lt(difference, f64::INFINITY)?;
    let within = b.and(within, finite)?;
    b.or(near, within)
}

//! Determinants, and what singular values tell: rank, pseudo-inverse, least squares.
use super::symmetric::symmetric;
use super::{extents, factor, lead, matrices};
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{DType, Fold, Kind, Result, Scalar, Shape};
use rtx_ir::{
    Arg, Body, Bound, Builder, Factor, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Type, Types,
    ValueId, attrs, rules,
};
use smallvec::smallvec;

/// `+1` or `-1` for each permutation that pivots, from 0, make.
fn parity(b: &mut Builder<'_>, pivots: ValueId, dtype: DType) -> Result<ValueId> {
    let shape = b.shape(pivots);
    let axis = shape.rank() - 1;
    let position = b.prim(Prim::Iota { shape, axis }, &[])?;
    let same = b.eq(pivots, position)?;
    let one = b.constant(dtype, 1.0)?;
    let one = b.expand(one, &b.shape(same))?;
    let sign = b.select(same, one, -1.0)?;
    b.reduce(Fold::Prod, sign, &[axis])
}
fn det(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    let x = matrices(b, &Args::new(def, a), 0, true)?;
    let outs = factor(b, Factor::Lu, x)?;
    let (diagonal, sign) = (b.diagonal(outs[0])?, parity(b, outs[1], b.dtype(x))?);
    let axis = b.rank(diagonal) - 1;
    let product = b.reduce(Fold::Prod, diagonal, &[axis])?;
    Ok(smallvec![b.mul(product, sign)?])
}
fn slogdet(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    let x = matrices(b, &Args::new(def, a), 0, true)?;
    let outs = factor(b, Factor::Lu, x)?;
    let (diagonal, parity) = (b.diagonal(outs[0])?, parity(b, outs[1], b.dtype(x))?);
    let axis = b.rank(diagonal) - 1;
    let signs = b.sign(diagonal)?;
    let sign = b.reduce(Fold::Prod, signs, &[axis])?;
    let sign = b.mul(sign, parity)?;
    let size = b.abs(diagonal)?;
    let logs = b.log(size)?;
    Ok(smallvec![sign, b.reduce(Fold::Sum, logs, &[axis])?])
}

/// The determinant.
pub static LINALG_DET: OpDef = OpDef {
    sig: "linalg_det(Tensor A) -> Tensor",
    doc: "The determinant, from P A = L U.",
    record: det,
    samples: &[Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 64), Sample::of("f32[2,2,2] = 2 1 1 3 1 0 4 5", 64)],
    refuses: &[Refusal::of("f32[2,3]", "linalg_det: needs square matrices, got f32 [2, 3]")],
    ..SPELLING
};
/// [`LINALG_DET`] under its old name.
pub static DET: OpDef = OpDef {
    sig: "det(Tensor self) -> Tensor",
    doc: "As linalg_det.",
    record: det,
    samples: &[Sample::of("f64[2,2] = 2 1 1 3", 64)],
    ..SPELLING
};
/// The logarithm of the determinant.
pub static LOGDET: OpDef = OpDef {
    sig: "logdet(Tensor self) -> Tensor",
    doc: "log det A; NaN where the determinant is negative.",
    record: |b, def, a| {
        let outs = slogdet(b, def, a)?;
        let zero = b.constant(b.dtype(outs[0]), 0.0)?;
        let negative = b.lt(outs[0], zero)?;
        Ok(smallvec![b.select(negative, f64::NAN, outs[1])?])
    },
    samples: &[Sample::grad("f64[2,2] = 2 1 1 3", 64), Sample::of("f32[2,2] = 1 2 2 1", 64)],
    ..SPELLING
};
/// Sign and logarithm of the determinant's absolute value.
pub static LINALG_SLOGDET: OpDef = OpDef {
    sig: "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    doc: "The sign of det A, and log |det A|.",
    record: slogdet,
    samples: &[Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 64)],
    ..SPELLING
};
/// [`LINALG_SLOGDET`] under its old name.
pub static SLOGDET: OpDef = OpDef {
    sig: "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    doc: "As linalg_slogdet.",
    record: slogdet,
    samples: &[Sample::of("f64[2,2] = 2 1 1 3", 64)],
    ..SPELLING
};

/// The Moore-Penrose inverse of singular values above a limit. Operands: A and the limit for each matrix.
pub static PSEUDO_INVERSE: OpDef = OpDef {
    sig: "pseudo_inverse(Tensor self, Tensor limit, bool hermitian=False) -> Tensor",
    doc: "V diag(1/s) U' over the singular values above `limit`; with hermitian through eigenvalues (Golub and Pereyra \
          1973, \"The differentiation of pseudo-inverses\", for the gradient at constant rank).",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let hermitian = args.flag(2)?;
        let x = matrices(b, &args, 0, hermitian)?;
        b.composite(def, attrs([rtx_ir::Attr::Bool(hermitian)]), &[x, args.tensor(1)?])
    },
    infer: infer_pseudo_inverse,
    body: Body::Composite(pseudo_inverse_body),
    grad: Grad::Rule(grad_pseudo_inverse),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[0] },
    cost: 200,
    samples: &[
        Sample::of("f64[3,2] = 0.5 2 4 1 1 -2, f64[] = 0.01", 256),
        Sample::of("f64[2,3] = 0.5 2 1 4 1 -1, f64[] = 0.01", 256),
        Sample::of("f64[2,2] = 2 1 1 3, f64[] = 0.01, true", 256),
    ],
    ..OpDef::DEFAULT
};
fn infer_pseudo_inverse(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (x, limit) = (inputs[0], inputs[1]);
    let r = x.rank();
    if r < 2 || limit.dtype != x.dtype || limit.rank() + 2 > r {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs))));
    }
    let mut shape = x.shape.clone();
    shape.set(r - 2, x.shape.dim(r - 1));
    shape.set(r - 1, x.shape.dim(r - 2));
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}
fn pseudo_inverse_body(b: &mut Builder<'_>, attrs: &[rtx_ir::Attr], v: &[ValueId]) -> Result<Outs> {
    let hermitian = attrs[0].bool();
    let outs = factor(b, if hermitian { Factor::Eigh } else { Factor::Svd { full: false } }, v[0])?;
    let (s, left, right) =
        if hermitian { (outs[0], outs[1], b.transpose_last(outs[1])?) } else { (outs[1], outs[0], outs[2]) };
    let size = b.abs(s)?;
    let mut column = b.shape(v[1]);
    column.push(1);
    let limit = b.reshape(v[1], &column)?;
    let counts = b.lt(limit, size)?;
    let one = b.constant(b.dtype(s), 1.0)?;
    let inverse = b.div(one, s)?;
    let inverse = b.select(counts, inverse, 0.0)?;
    let row = b.as_row(inverse)?;
    let right = b.transpose_last(right)?;
    let right = b.mul(right, row)?;
    let left = b.transpose_last(left)?;
    Ok(smallvec![b.matmul(right, left)?])
}
/// With `P` the inverse and its rank constant: `dP = -P dA P + P Pᵀ dAᵀ (1 - A P) + (1 - P A) dAᵀ Pᵀ P`.
fn grad_pseudo_inverse(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (a, p, g) = (cx.inputs[0], cx.outputs[0], cx.ct());
    let mut grads: Grads = smallvec![None, None];
    if cx.wants[1] {
        grads[1] = Some(b.zeros_like(cx.inputs[1])?);
    }
    if cx.wants[0] {
        let (pt, gt) = (b.transpose_last(p)?, b.transpose_last(g)?);
        // -Pᵀ g Pᵀ
        let x = b.matmul(pt, g)?;
        let x = b.matmul(x, pt)?;
        let first = b.neg(x)?;
        // (1 - A P) gᵀ P Pᵀ
        let x = b.matmul(gt, p)?;
        let second = b.matmul(x, pt)?;
        let x = b.matmul(p, second)?;
        let x = b.matmul(a, x)?;
        let second = b.sub(second, x)?;
        // Pᵀ P gᵀ (1 - P A)
        let x = b.matmul(p, gt)?;
        let third = b.matmul(pt, x)?;
        let x = b.matmul(third, p)?;
        let x = b.matmul(x, a)?;
        let third = b.sub(third, x)?;
        let x = b.add(first, second)?;
        grads[0] = Some(b.add(x, third)?);
    }
    Ok(grads)
}

/// A tolerance: a number or a tensor for each matrix.
fn tolerance(b: &mut Builder<'_>, args: &Args<'_>, i: usize, dtype: DType) -> Result<Option<ValueId>> {
    Ok(match args.get(i) {
        Arg::None => None,
        Arg::Scalar(s) => Some(b.param(dtype, *s)?),
        _ => {
            let t = args.tensor(i)?;
            Some(b.cast(t, dtype)?)
        }
    })
}
/// Singular values, or absolute eigenvalues, of each matrix.
fn sizes(b: &mut Builder<'_>, x: ValueId, hermitian: bool) -> Result<ValueId> {
    if hermitian {
        let w = factor(b, Factor::Eigh, x)?[0];
        return b.abs(w);
    }
    Ok(factor(b, Factor::Svd { full: false }, x)?[1])
}
/// `max(atol, rtol · largest)`; without both, `rtol` is the larger extent times epsilon.
fn limit(
    b: &mut Builder<'_>,
    x: ValueId,
    s: ValueId,
    (atol, rtol): (Option<ValueId>, Option<ValueId>),
) -> Result<ValueId> {
    let (dtype, (m, n)) = (b.dtype(x), extents(b, x));
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let rtol = match (atol, rtol) {
        (_, Some(r)) => r,
        // Beside an absolute tolerance that is not 0 there is no relative one.
        (Some(a), None) => {
            let zero = b.constant(dtype, 0.0)?;
            let given = b.lt(zero, a)?;
            let usual = b.full(dtype, &b.shape(a), Scalar::Float(m.max(n) as f64 * epsilon))?;
            b.select(given, 0.0, usual)?
        }
        (None, None) => b.constant(dtype, m.max(n) as f64 * epsilon)?,
    };
    let axis = b.rank(s) - 1;
    let largest = if m.min(n) == 0 {
        let mut shape = b.shape(s);
        shape.remove(axis);
        b.zeros(dtype, &shape)?
    } else {
        b.reduce(Fold::Max, s, &[axis])?
    };
    let relative = b.mul(rtol, largest)?;
    match atol {
        Some(a) => b.max(a, relative),
        None => Ok(relative),
    }
}
fn pinv(
    b: &mut Builder<'_>,
    x: ValueId,
    tolerances: (Option<ValueId>, Option<ValueId>),
    hermitian: bool,
) -> Result<ValueId> {
    let (x, own) = if hermitian { (symmetric(b, x, false)?, lead(b, x)) } else { (x, lead(b, x)) };
    let s = sizes(b, x, hermitian)?;
    let limit = limit(b, x, s, tolerances)?;
    let (m, n) = extents(b, x);
    let limit = b.expand(limit, &own)?;
    if m.min(n) == 0 {
        let shape: Shape = own.iter().chain(Shape::of(&[n, m]).iter()).collect();
        return b.zeros(b.dtype(x), &shape);
    }
    Ok(b.composite(&PSEUDO_INVERSE, attrs([rtx_ir::Attr::Bool(hermitian)]), &[x, limit])?[0])
}
/// The Moore-Penrose inverse.
pub static LINALG_PINV: OpDef = OpDef {
    sig: "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    doc: "The Moore-Penrose inverse over singular values above max(atol, rtol · largest); rtol is the larger extent times \
          epsilon unless atol is given.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let hermitian = args.flag(3)?;
        let x = matrices(b, &args, 0, hermitian)?;
        let dtype = b.dtype(x);
        let tolerances = (tolerance(b, &args, 1, dtype)?, tolerance(b, &args, 2, dtype)?);
        Ok(smallvec![pinv(b, x, tolerances, hermitian)?])
    },
    samples: &[
        Sample::of("f64[3,2] = 0.5 2 4 1 1 -2", 256),
        Sample::of("f32[2,2,3]", 1024),
        Sample::of("f64[2,2] = 2 1 1 3, none, none, true", 256),
    ],
    ..SPELLING
};
/// The Moore-Penrose inverse under its old name.
pub static PINVERSE: OpDef = OpDef {
    sig: "pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor",
    doc: "The Moore-Penrose inverse over singular values above rcond · largest.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = matrices(b, &args, 0, false)?;
        let rtol = b.param(b.dtype(x), Scalar::Float(args.float_or(1, 1e-15)?))?;
        Ok(smallvec![pinv(b, x, (None, Some(rtol)), false)?])
    },
    samples: &[Sample::of("f64[3,2] = 0.5 2 4 1 1 -2", 256)],
    ..SPELLING
};
/// How many singular values count.
pub static LINALG_MATRIX_RANK: OpDef = OpDef {
    sig: "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    doc: "The number of singular values above max(atol, rtol · largest), i64.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let hermitian = args.flag(3)?;
        let x = matrices(b, &args, 0, hermitian)?;
        let x = if hermitian { symmetric(b, x, false)? } else { x };
        let dtype = b.dtype(x);
        let tolerances = (tolerance(b, &args, 1, dtype)?, tolerance(b, &args, 2, dtype)?);
        let s = sizes(b, x, hermitian)?;
        let limit = limit(b, x, s, tolerances)?;
        let limit = b.as_column(limit)?;
        let counts = b.lt(limit, s)?;
        let counts = b.cast(counts, DType::I64)?;
        let axis = b.rank(counts) - 1;
        Ok(smallvec![b.reduce(Fold::Sum, counts, &[axis])?])
    },
    samples: &[Sample::exact("f64[3,2] = 0.5 2 4 1 1 -2"), Sample::exact("f32[2,2] = 1 2 2 4")],
    ..SPELLING
};
/// Least squares.
pub static LINALG_LSTSQ: OpDef = OpDef {
    sig: "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    doc: "The X of least norm that makes |A X - B| least, through the pseudo-inverse; the squared distances where A has \
          more rows than columns, the rank unless the driver is gels, the singular values for gelsd and gelss.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, y) = (matrices(b, &args, 0, false)?, args.tensor(1)?);
        let driver = args.word_or(3, "gelsy")?;
        let rows: Shape = b.ty(x).shape.iter().take(b.rank(x) - 1).collect();
        let vector = b.rank(y) == 1 || (b.rank(y) + 1 == b.rank(x) && b.ty(y).shape == rows);
        let matrix = if vector { b.as_column(y)? } else { y };
        if b.rank(matrix) < 2 || extents(b, matrix).0 != extents(b, x).0 {
            let what = format_args!("does not fit: A {}, B {}", b.ty(x), b.ty(y));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let (x, matrix) = super::meet_batches(b, def.name(), x, matrix)?;
        let (dtype, none) = (b.dtype(x), Shape::of(&[0]));
        let ((m, n), rcond) = (extents(b, x), tolerance(b, &args, 2, dtype)?);
        let p = pinv(b, x, (None, rcond), false)?;
        let mut solution = b.matmul(p, matrix)?;
        let residuals = if m > n && driver != "gelsy" {
            let y = b.matmul(x, solution)?;
            let d = b.sub(y, matrix)?;
            let square = b.mul(d, d)?;
            let axis = b.rank(square) - 2;
            b.reduce(Fold::Sum, square, &[axis])?
        } else {
            // Nothing of the solution: empty, and with a way for gradients as PyTorch's is.
            let all = b.shape(solution).numel();
            let line = b.reshape(solution, &Shape::of(&[all]))?;
            b.slice(line, 0, 0, 0usize)?
        };
        if vector {
            let mut shape = b.shape(solution);
            shape.remove(shape.rank() - 1);
            solution = b.reshape(solution, &shape)?;
        }
        let s = sizes(b, x, false)?;
        let rank = if driver == "gels" {
            b.zeros(DType::I64, &none)?
        } else {
            let limit = limit(b, x, s, (None, rcond))?;
            let limit = b.as_column(limit)?;
            let counts = b.lt(limit, s)?;
            let counts = b.cast(counts, DType::I64)?;
            let axis = b.rank(counts) - 1;
            b.reduce(Fold::Sum, counts, &[axis])?
        };
        // As in PyTorch, gradients flow through the solution and the residuals only.
        let values = match driver {
            "gelsd" | "gelss" => crate::likeness::detached(b, s)?,
            _ => b.zeros(dtype, &none)?,
        };
        Ok(smallvec![solution, residuals, rank, values])
    },
    samples: &[
        Sample::of("f64[3,2] = 0.5 2 4 1 1 -2, f64[3,1], none, \"gelsd\"", 1024),
        Sample::of("f64[2,3] = 0.5 2 1 4 1 -1, f64[2]", 1024),
    ],
    ..SPELLING
};
/// The sum of the singular values.
pub static NUCLEAR_NORM: OpDef = OpDef {
    sig: "nuclear_norm(Tensor self) -> Tensor",
    doc: "The sum of the singular values of a matrix.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = matrices(b, &args, 0, false)?;
        let s = sizes(b, x, false)?;
        let axis = b.rank(s) - 1;
        Ok(smallvec![b.reduce(Fold::Sum, s, &[axis])?])
    },
    samples: &[Sample::grad("f64[2,3] = 0.5 2 1 4 1 -1", 64), Sample::of("f64[3,2] = 0.5 2 4 1 1 -2", 64)],
    ..SPELLING
};

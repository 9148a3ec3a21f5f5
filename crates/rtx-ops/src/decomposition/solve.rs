//! Systems of equations and inverses.
use super::{checked, extents, factor, matrices, meet_batches};
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{
    Attr, Body, Bound, Builder, Factor, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Triangle,
    Type, Types, ValueId, attrs, rules,
};
use smallvec::smallvec;

/// `A⁻¹ B` or `A⁻ᵀ B`, and what went wrong. Attribute: transposed.
pub static SOLVE_SQUARE: OpDef = OpDef {
    sig: "solve_square(Tensor a, Tensor b, bool transpose=False) -> (Tensor, Tensor)",
    doc: "The x of a x = b, or of a' x = b, through P a = L U; info [..] is 0, or the position from 1 of the first zero \
          on the diagonal of U. The gradient of b solves the transposed system; that of a is -gb x'.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, y) = (matrices(b, &args, 0, true)?, matrices(b, &args, 1, false)?);
        b.composite(def, attrs([Attr::Bool(args.flag(2)?)]), &[x, y])
    },
    infer: infer_solve,
    body: Body::Composite(solve_body),
    grad: Grad::Rule(grad_solve),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    cost: 100,
    samples: &[
        Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, f64[3,2]", 64),
        Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, f64[3,1], true", 64),
        Sample::of("f32[2,2,2] = 2 1 1 3 1 0 4 5, f32[2,2,1]", 64),
    ],
    refuses: &[Refusal::of("f32[2,2], f32[3,1]", "solve_square: does not fit: a f32 [2, 2], b f32 [3, 1]")],
    ..OpDef::DEFAULT
};

fn infer_solve(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (a, x) = (inputs[0], inputs[1]);
    let r = a.rank();
    let fits = r >= 2
        && r == x.rank()
        && a.dtype == x.dtype
        && a.shape.dim(r - 2) == a.shape.dim(r - 1)
        && a.shape.iter().take(r - 1).eq(x.shape.iter().take(r - 1));
    if !fits {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: a {a}, b {x}")));
    }
    let batch: Shape = a.shape.iter().take(r - 2).collect();
    Ok(smallvec![x.clone(), Type { dtype: DType::I64, shape: batch }])
}
fn solve_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let outs = factor(b, Factor::Lu, v[0])?;
    let (lu, p) = (outs[0], b.permutation(outs[2], b.dtype(v[0]))?);
    let x = if attrs[0].bool() {
        // a' = U' L' P.
        let y = b.solve_triangle(Triangle::UPPER.t(), lu, v[1])?;
        let y = b.solve_triangle(Triangle::UNIT_LOWER.t(), lu, y)?;
        let pt = b.transpose_last(p)?;
        b.matmul(pt, y)?
    } else {
        let y = b.matmul(p, v[1])?;
        let y = b.solve_triangle(Triangle::UNIT_LOWER, lu, y)?;
        b.solve_triangle(Triangle::UPPER, lu, y)?
    };
    Ok(smallvec![x, outs[3]])
}
fn grad_solve(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let transposed = cx.op.attrs()[0].bool();
    let (a, x) = (cx.inputs[0], cx.outputs[0]);
    let Some(g) = cx.cotangents[0] else { return cx.zeros(b) };
    let gb = solve(b, a, g, !transposed)?.0;
    cx.each(|i| {
        if i == 1 {
            return Ok(gb);
        }
        let (left, right) = if transposed { (x, gb) } else { (gb, x) };
        let right = b.transpose_last(right)?;
        let g = b.matmul(left, right)?;
        b.neg(g)
    })
}
/// The solution and what went wrong.
pub(super) fn solve(b: &mut Builder<'_>, a: ValueId, y: ValueId, transpose: bool) -> Result<(ValueId, ValueId)> {
    let outs = b.composite(&SOLVE_SQUARE, attrs([Attr::Bool(transpose)]), &[a, y])?;
    Ok((outs[0], outs[1]))
}

/// Swaps as a permutation. Attribute: rows.
pub static LU_PERMUTATION: OpDef = OpDef {
    sig: "lu_permutation(Tensor pivots, int rows) -> Tensor",
    doc: "Which row of A stands at each row of P A: rows i and pivots[i] (from 1) swapped, one after the other.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (pivots, rows) = (args.tensor(0)?, args.int(1)?);
        Ok(smallvec![lu_permutation(b, pivots, rows.max(0) as usize)?])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        let t = inputs[0];
        let known = t.shape.iter().last().and_then(Dim::known);
        if t.dtype != DType::I64 || known.is_none_or(|k| k as i64 > op.attrs()[0].int()) {
            let what = format_args!("needs i64 pivots, no more than rows, got {t}");
            return Err(rules::refuse(op.name(), Kind::Shape, what));
        }
        let lead = t.shape.iter().take(t.rank() - 1);
        let shape = lead.chain([Dim::Const(op.attrs()[0].int() as u64)]).collect();
        Ok(smallvec![Type { dtype: DType::I64, shape }])
    },
    body: Body::Composite(permutation_body),
    grad: Grad::None,
    jvp: rtx_ir::Jvp::None,
    saves: Saves::NONE,
    samples: &[Sample::exact("i64[2,3] = 2 3 3 1 2 3, 4"), Sample::exact("i64[0], 2")],
    ..OpDef::DEFAULT
};
fn permutation_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let shape = b.shape(v[0]);
    let (axis, swaps) = (shape.rank() - 1, shape.dim(shape.rank() - 1).bound());
    let mut whole = shape.clone();
    whole.set(axis, attrs[0].int() as usize);
    let position = b.prim(Prim::Iota { shape: whole.clone(), axis }, &[])?;
    let one = b.constant(DType::I64, 1i64)?;
    let mut perm = position;
    for i in 0..swaps {
        let other = b.slice(v[0], axis, i as i64, 1usize)?;
        let other = b.sub(other, one)?;
        let here = b.slice(perm, axis, i as i64, 1usize)?;
        let is_other = b.eq(position, other)?;
        let there = b.select(is_other, perm, 0.0)?;
        let there = b.reduce_keep(Fold::Sum, there, &[axis])?;
        perm = b.select(is_other, here, perm)?;
        let at = b.constant(DType::I64, i as i64)?;
        let is_here = b.eq(position, at)?;
        perm = b.select(is_here, there, perm)?;
    }
    Ok(smallvec![perm])
}
/// Pivots, counted from 1, as the permutation of `rows` rows.
pub(super) fn lu_permutation(b: &mut Builder<'_>, pivots: ValueId, rows: usize) -> Result<ValueId> {
    let pivots = b.cast(pivots, DType::I64)?;
    Ok(b.composite(&LU_PERMUTATION, attrs([Attr::Int(rows as i64)]), &[pivots])?[0])
}

/// `X` of `A X = B` or `X A = B` by PyTorch's rules: `B` is a vector where it has the shape of A's rows.
fn linear_solve(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, check: bool) -> Result<Outs> {
    let args = Args::new(def, a);
    let (x, y) = (matrices(b, &args, 0, true)?, args.tensor(1)?);
    let left = !matches!(args.get(2), rtx_ir::Arg::Bool(false));
    let (n, rank) = (extents(b, x).0, b.rank(x));
    let rows: Shape = b.ty(x).shape.iter().take(rank - 1).collect();
    let vector = b.rank(y) == 1 || (b.rank(y) + 1 == rank && b.ty(y).shape == rows);
    let matrix = if vector { b.as_column(y)? } else { y };
    let matrix = if left || vector { matrix } else { b.transpose_last(matrix)? };
    if b.rank(matrix) < 2 || extents(b, matrix).0 != n || b.dtype(matrix) != b.dtype(x) {
        let what = format_args!("does not fit: A {}, B {}", b.ty(x), b.ty(y));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let (x, matrix) = meet_batches(b, def.name(), x, matrix)?;
    let (mut solution, info) = solve(b, x, matrix, !left && !vector)?;
    if check {
        solution = checked(b, def.name(), "a matrix is singular", solution, info)?;
    }
    if !left && !vector {
        solution = b.transpose_last(solution)?;
    }
    if vector {
        let mut shape = b.shape(solution);
        shape.remove(shape.rank() - 1);
        solution = b.reshape(solution, &shape)?;
    }
    Ok(smallvec![solution, b.cast(info, DType::I32)?])
}
fn first(outs: Outs) -> Outs {
    smallvec![outs[0]]
}

/// `X` of `A X = B`.
pub static LINALG_SOLVE: OpDef = OpDef {
    sig: "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    doc: "The X of A X = B, or of X A = B; an error when A is singular. B is a vector when it has the shape of A's rows.",
    record: |b, def, a| Ok(first(linear_solve(b, def, a, true)?)),
    samples: &[
        Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, f64[3]", 64),
        Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, f64[2,3], false", 64),
        Sample::of("f32[2,2,2] = 2 1 1 3 1 0 4 5, f32[2,1]", 64),
    ],
    refuses: &[Refusal::of("f32[2,2], f32[3,1]", "linalg_solve: does not fit: A f32 [2, 2], B f32 [3, 1]")],
    ..SPELLING
};
/// `X` of `A X = B` and info.
pub static LINALG_SOLVE_EX: OpDef = OpDef {
    sig: "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    doc: "As linalg_solve; info is not 0 where A is singular.",
    record: |b, def, a| {
        let check = Args::new(def, a).flag(3)?;
        linear_solve(b, def, a, check)
    },
    samples: &[Sample::of("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, f64[3]", 64)],
    refuses: &[],
    ..SPELLING
};

fn inverse(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, check: bool) -> Result<Outs> {
    let x = matrices(b, &Args::new(def, a), 0, true)?;
    let shape = b.shape(x);
    let unit = b.identity(b.dtype(x), &shape)?;
    let (mut y, info) = solve(b, x, unit, false)?;
    if check {
        y = checked(b, def.name(), "a matrix is singular", y, info)?;
    }
    Ok(smallvec![y, b.cast(info, DType::I32)?])
}
/// `A⁻¹`.
pub static LINALG_INV: OpDef = OpDef {
    sig: "linalg_inv(Tensor A) -> Tensor",
    doc: "The inverse; an error when A is singular.",
    record: |b, def, a| Ok(first(inverse(b, def, a, true)?)),
    samples: &[Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 64), Sample::of("f32[2,2,2] = 2 1 1 3 1 0 4 5", 64)],
    refuses: &[Refusal::of("f32[2,3]", "linalg_inv: needs square matrices, got f32 [2, 3]")],
    ..SPELLING
};
/// [`LINALG_INV`] under its old name.
pub static INVERSE: OpDef = OpDef {
    sig: "inverse(Tensor self) -> Tensor",
    doc: "As linalg_inv.",
    record: |b, def, a| Ok(first(inverse(b, def, a, true)?)),
    samples: &[Sample::of("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 64)],
    ..SPELLING
};
/// `A⁻¹` and info.
pub static LINALG_INV_EX: OpDef = OpDef {
    sig: "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    doc: "The inverse; info is not 0 where A is singular.",
    record: |b, def, a| {
        let check = Args::new(def, a).flag(1)?;
        inverse(b, def, a, check)
    },
    samples: &[Sample::of("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 64)],
    ..SPELLING
};

/// `op(A)⁻¹ B` for triangular `A`, batches broadcast.
fn triangle(b: &mut Builder<'_>, def: &'static OpDef, t: Triangle, a: ValueId, x: ValueId) -> Result<ValueId> {
    if extents(b, a).0 != extents(b, x).0 || b.dtype(a) != b.dtype(x) {
        let what = format_args!("does not fit: A {}, B {}", b.ty(a), b.ty(x));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let (a, x) = meet_batches(b, def.name(), a, x)?;
    b.solve_triangle(t, a, x)
}
/// `X` of `A X = B` for triangular `A`.
pub static LINALG_SOLVE_TRIANGULAR: OpDef = OpDef {
    sig: "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    doc: "The X of A X = B, or of X A = B, for a triangular A of which the other triangle is not read.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, y) = (matrices(b, &args, 0, true)?, matrices(b, &args, 1, false)?);
        let left = !matches!(args.get(3), rtx_ir::Arg::Bool(false));
        let t = Triangle { upper: args.flag(2)?, transpose: !left, unit: args.flag(4)? };
        if left {
            return Ok(smallvec![triangle(b, def, t, x, y)?]);
        }
        let y = b.transpose_last(y)?;
        let z = triangle(b, def, t, x, y)?;
        Ok(smallvec![b.transpose_last(z)?])
    },
    samples: &[
        Sample::grad("f64[3,3] = 4 9 9 1 5 9 -1 0.5 3, f64[3,2], false", 16),
        Sample::grad("f64[2,2] = 4 9 9 1, f64[3,2], true, false, true", 16),
        Sample::of("f32[2,3,3] in 1..2, f32[3,1], true", 64),
    ],
    ..SPELLING
};
/// The old form of [`LINALG_SOLVE_TRIANGULAR`].
pub static TRIANGULAR_SOLVE: OpDef = OpDef {
    sig: "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    doc: "The x of A x = self for a triangular A or its transpose, and A.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (y, x) = (matrices(b, &args, 0, false)?, matrices(b, &args, 1, true)?);
        let upper = !matches!(args.get(2), rtx_ir::Arg::Bool(false));
        let t = Triangle { upper, transpose: args.flag(3)?, unit: args.flag(4)? };
        Ok(smallvec![triangle(b, def, t, x, y)?, meet_batches(b, def.name(), x, y)?.0])
    },
    samples: &[Sample::of("f64[3,2], f64[3,3] = 4 9 9 1 5 9 -1 0.5 3, false", 16)],
    ..SPELLING
};
/// `X` of `A X = B` from the Cholesky factor of `A`.
pub static CHOLESKY_SOLVE: OpDef = OpDef {
    sig: "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    doc: "The X of A X = self with A = L L' (or U' U with upper) for the factor `input2`.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (y, l) = (matrices(b, &args, 0, false)?, matrices(b, &args, 1, true)?);
        Ok(smallvec![cholesky_solve(b, def, l, y, args.flag(2)?)?])
    },
    samples: &[
        Sample::grad("f64[2,3], f64[2,2] = 2 9 1 3", 16),
        Sample::grad("f64[2,3], f64[2,2] = 2 1 9 3, true", 16),
    ],
    ..SPELLING
};
fn cholesky_solve(b: &mut Builder<'_>, def: &'static OpDef, l: ValueId, y: ValueId, upper: bool) -> Result<ValueId> {
    let t = if upper { Triangle::UPPER.t() } else { Triangle::LOWER };
    let half = triangle(b, def, t, l, y)?;
    triangle(b, def, t.t(), l, half)
}
/// `A⁻¹` from the Cholesky factor of `A`.
pub static CHOLESKY_INVERSE: OpDef = OpDef {
    sig: "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    doc: "The inverse of A = L L' (or U' U with upper) for the factor `self`.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let l = matrices(b, &args, 0, true)?;
        let unit = b.identity(b.dtype(l), &b.shape(l))?;
        Ok(smallvec![cholesky_solve(b, def, l, unit, args.flag(1)?)?])
    },
    samples: &[Sample::grad("f64[2,2] = 2 9 1 3", 16), Sample::of("f32[2,2] = 2 1 9 3, true", 16)],
    ..SPELLING
};

/// `op(A)⁻¹ B` from packed LU factors.
fn lu_solve(b: &mut Builder<'_>, op: &str, lu: ValueId, pivots: ValueId, y: ValueId, t: bool) -> Result<ValueId> {
    let n = extents(b, lu).0;
    let perm = lu_permutation(b, pivots, n)?;
    let p = b.permutation(perm, b.dtype(lu))?;
    let (lu, p) = meet_batches(b, op, lu, p)?;
    let (lu, y) = meet_batches(b, op, lu, y)?;
    let (p, y) = meet_batches(b, op, p, y)?;
    if t {
        let y = b.solve_triangle(Triangle::UPPER.t(), lu, y)?;
        let y = b.solve_triangle(Triangle::UNIT_LOWER.t(), lu, y)?;
        let pt = b.transpose_last(p)?;
        return b.matmul(pt, y);
    }
    let y = b.matmul(p, y)?;
    let y = b.solve_triangle(Triangle::UNIT_LOWER, lu, y)?;
    b.solve_triangle(Triangle::UPPER, lu, y)
}
/// `X` of `A X = B` from packed LU factors.
pub static LINALG_LU_SOLVE: OpDef = OpDef {
    sig: "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    doc: "The X of A X = B, X A = B (left=False), or with A' in place of A (adjoint), from what lu_factor gives.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (lu, pivots) = (matrices(b, &args, 0, true)?, args.tensor(1)?);
        let (y, adjoint) = (matrices(b, &args, 2, false)?, args.flag(4)?);
        if !matches!(args.get(3), rtx_ir::Arg::Bool(false)) {
            return Ok(smallvec![lu_solve(b, def.name(), lu, pivots, y, adjoint)?]);
        }
        let y = b.transpose_last(y)?;
        let x = lu_solve(b, def.name(), lu, pivots, y, !adjoint)?;
        Ok(smallvec![b.transpose_last(x)?])
    },
    samples: &[
        Sample::grad("f64[2,2] = 2 1 0.5 3, i64[2] = 2 2, f64[2,3]", 16),
        Sample::grad("f64[2,2] = 2 1 0.5 3, i64[2] = 2 2, f64[3,2], false, true", 16),
    ],
    ..SPELLING
};
/// [`LINALG_LU_SOLVE`] with its old order of arguments.
pub static LU_SOLVE: OpDef = OpDef {
    sig: "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    doc: "The X of A X = self from what lu_factor gives.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (y, lu) = (matrices(b, &args, 0, false)?, matrices(b, &args, 1, true)?);
        let pivots = args.tensor(2)?;
        Ok(smallvec![lu_solve(b, def.name(), lu, pivots, y, false)?])
    },
    samples: &[Sample::of("f64[2,3], f64[2,2] = 2 1 0.5 3, i64[2] = 2 2", 16)],
    ..SPELLING
};

/// A system whose unknown has several dims.
pub static LINALG_TENSORSOLVE: OpDef = OpDef {
    sig: "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    doc: "The X with tensordot(self, X, dims of X) = other: a square system once both sides are flattened; `dims` are \
          moved to the end first.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (mut x, y) = (args.tensor(0)?, args.tensor(1)?);
        if let Some(dims) = args.optional_ints(2)? {
            let r = b.rank(x);
            let last = dims.iter().map(|&d| rules::check_dim(def.name(), d, r)).collect::<Result<Vec<_>>>()?;
            let order: Vec<usize> = (0..r).filter(|i| !last.contains(i)).chain(last.iter().copied()).collect();
            x = b.permute(x, &order)?;
        }
        let (shape, n) = (b.shape(x), b.ty(y).shape.numel());
        let unknown: Shape = shape.iter().skip(b.rank(y)).collect();
        if shape.numel() != n * n || unknown.numel() != n {
            let what = format_args!("is no square system: {} and {}", b.ty(x), b.ty(y));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let (m, v) = (b.reshape(x, &Shape::of(&[n, n]))?, b.reshape(y, &Shape::of(&[n, 1]))?);
        let (solution, info) = solve(b, m, v, false)?;
        let solution = checked(b, def.name(), "the system is singular", solution, info)?;
        Ok(smallvec![b.reshape(solution, &unknown)?])
    },
    samples: &[Sample::of("f64[2,2] = 2 1 1 3, f64[2]", 64), Sample::of("f64[2,1,2] = 2 1 1 3, f64[2,1]", 64)],
    ..SPELLING
};
/// The inverse of a system whose unknown has several dims.
pub static LINALG_TENSORINV: OpDef = OpDef {
    sig: "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
    doc: "The inverse of the matrix that the first `ind` dims and the others make, with the dims exchanged.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, ind) = (args.tensor(0)?, args.int_or(1, 2)?);
        let shape = b.shape(x);
        let at = usize::try_from(ind).ok().filter(|i| (1..=shape.rank()).contains(i));
        let Some(at) = at else {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("ind {ind} splits no {shape}")));
        };
        let (first, last): (Shape, Shape) = (shape.iter().take(at).collect(), shape.iter().skip(at).collect());
        let n = first.numel();
        if last.numel() != n {
            return Err(rules::refuse(def.name(), Kind::Shape, format_args!("{shape} is no square system")));
        }
        let square = Shape::of(&[n, n]);
        let m = b.reshape(x, &square)?;
        let unit = b.identity(b.dtype(m), &square)?;
        let (y, info) = solve(b, m, unit, false)?;
        let y = checked(b, def.name(), "the system is singular", y, info)?;
        Ok(smallvec![b.reshape(y, &last.iter().chain(first.iter()).collect())?])
    },
    samples: &[Sample::of("f64[2,2] = 2 1 1 3, 1", 64), Sample::of("f64[2,1,2,1] = 2 1 1 3", 64)],
    ..SPELLING
};

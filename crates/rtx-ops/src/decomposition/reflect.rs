//! Products of Householder reflections, as LAPACK keeps them: vectors below the diagonal, factors apart.
use super::{extents, lead, matrices};
use crate::args::Args;
use crate::formula::{Var, emit};
use rtx_core::{DType, Dim, Kind, Result, Shape};
use rtx_ir::{Attr, Body, Builder, Op, OpDef, Outs, Prim, Refusal, Sample, Stability, Type, Types, ValueId, rules};
use smallvec::smallvec;

const REFLECTIONS: OpDef = OpDef { cost: 100, stability: Stability::Stable, ..OpDef::DEFAULT };

/// The row, or column, of each element of `[m, n]`.
fn places(b: &mut Builder<'_>, m: usize, n: usize, axis: usize) -> Result<Var> {
    Ok(Var(b.prim(Prim::Iota { shape: [m, n].into(), axis }, &[])?))
}
/// Is the place this one?
fn is_at(b: &mut Builder<'_>, place: Var, i: usize) -> Result<Var> {
    let i = b.constant(DType::I64, i as i64)?;
    Ok(Var(b.eq(place.0, i)?))
}
fn is_after(b: &mut Builder<'_>, place: Var, i: usize) -> Result<Var> {
    let i = b.constant(DType::I64, i as i64)?;
    Ok(Var(b.lt(i, place.0)?))
}

/// Reflection `i` of `input [.., m, k]`: 0 above, 1 at, and the column below the diagonal, `[.., m, 1]`; and its factor,
/// `[.., 1, 1]`.
fn reflection(b: &mut Builder<'_>, input: ValueId, tau: ValueId, i: usize) -> Result<[ValueId; 2]> {
    let column = b.columns(input, i, 1)?;
    let row = places(b, extents(b, input).0, 1, 0)?;
    let (at, after) = (is_at(b, row, i)?, is_after(b, row, i)?);
    let below = b.select(after.0, column, 0.0)?;
    let v = b.select(at.0, 1.0, below)?;
    let axis = b.rank(tau) - 1;
    let factor = b.slice(tau, axis, i as i64, 1)?;
    Ok([v, b.as_column(factor)?])
}
/// `(1 - tau v v') x`.
fn reflect_left(b: &mut Builder<'_>, [v, tau]: [ValueId; 2], x: ValueId) -> Result<ValueId> {
    let vt = b.transpose_last(v)?;
    let along = b.matmul(vt, x)?;
    let scaled = b.mul(v, tau)?;
    let part = b.matmul(scaled, along)?;
    b.sub(x, part)
}
/// `x (1 - tau v v')`.
fn reflect_right(b: &mut Builder<'_>, [v, tau]: [ValueId; 2], x: ValueId) -> Result<ValueId> {
    let along = b.matmul(x, v)?;
    let scaled = b.mul(along, tau)?;
    let vt = b.transpose_last(v)?;
    let part = b.matmul(scaled, vt)?;
    b.sub(x, part)
}
/// Reflections `[.., m, k]` or more columns, and their factors.
fn reflections(b: &Builder<'_>, args: &Args<'_>) -> Result<(ValueId, ValueId)> {
    let (x, tau) = (matrices(b, args, 0, false)?, args.tensor(1)?);
    let ((m, n), ty) = (extents(b, x), b.ty(tau));
    let k = ty.shape.iter().last().and_then(|d| d.known());
    let batch: Shape = ty.shape.iter().take(ty.rank().saturating_sub(1)).collect();
    if batch != lead(b, x) || ty.dtype != b.dtype(x) || k.is_none_or(|k| k > n.min(m)) {
        let what = format_args!("factors {ty} do not fit reflections {}", b.ty(x));
        return Err(rules::refuse(args.op(), Kind::Shape, what));
    }
    Ok((x, tau))
}

/// The first columns of a product of reflections.
pub static LINALG_HOUSEHOLDER_PRODUCT: OpDef = OpDef {
    sig: "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    doc: "The first n columns of H₁ H₂ …, H_i = 1 - tau_i v_i v_i', with v_i the ith column of input [.., m, n] below its \
          diagonal, 1 on it and 0 above (LAPACK's orgqr).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, tau) = reflections(b, &args)?;
        if extents(b, x).0 < extents(b, x).1 {
            let what = format_args!("needs as many rows as columns, got {}", b.ty(x));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        b.composite(def, smallvec![], &[x, tau])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        Ok(smallvec![inputs[0].clone()])
    },
    body: Body::Composite(|b, _, v| {
        let (shape, dtype) = (b.shape(v[0]), b.dtype(v[0]));
        let own: Shape = shape.iter().skip(shape.rank() - 2).collect();
        let identity = b.identity(dtype, &own)?;
        let mut q = b.expand(identity, &shape)?;
        for i in (0..b.shape(v[1]).iter().last().map_or(0, Dim::bound)).rev() {
            let r = reflection(b, v[0], v[1], i)?;
            q = reflect_left(b, r, q)?;
        }
        Ok(smallvec![q])
    }),
    samples: &[
        Sample::grad("f64[3,2] in -1..1, f64[2] in 0.5..1.5", 512),
        Sample::of("f32[2,4,3] in -1..1, f32[2,3] in 0.5..1.5", 512),
    ],
    refuses: &[Refusal::of(
        "f32[3,2], f32[3]",
        "linalg_householder_product: factors f32 [3] do not fit reflections f32 [3, 2]",
    )],
    ..REFLECTIONS
};

/// A product of reflections times a matrix. Attributes: left, transpose.
pub static ORMQR: OpDef = OpDef {
    sig: "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    doc: "op(Q) C, or C op(Q), with Q = H₁ H₂ … of the reflections in self with factors input2, as linalg_householder_product \
          has them, C input3, and op the transpose or nothing (LAPACK's ormqr).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let ((x, tau), c) = (reflections(b, &args)?, matrices(b, &args, 2, false)?);
        let left = *args.get(3) == rtx_ir::Arg::None || args.flag(3)?;
        let (m, (rows, columns)) = (extents(b, x).0, extents(b, c));
        if m != if left { rows } else { columns } || lead(b, c) != lead(b, x) || b.dtype(c) != b.dtype(x) {
            let what = format_args!("does not fit: reflections {}, matrix {}", b.ty(x), b.ty(c));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        b.composite(def, smallvec![Attr::Bool(left), Attr::Bool(args.flag(4)?)], &[x, tau, c])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 3)?;
        Ok(smallvec![inputs[2].clone()])
    },
    body: Body::Composite(|b, attrs, v| {
        let (left, transpose) = (attrs[0].bool(), attrs[1].bool());
        let k = b.shape(v[1]).iter().last().map_or(0, Dim::bound);
        let mut c = v[2];
        for step in 0..k {
            // Q C begins with the last reflection, and so does C Q'.
            let i = if left != transpose { k - 1 - step } else { step };
            let r = reflection(b, v[0], v[1], i)?;
            c = if left { reflect_left(b, r, c)? } else { reflect_right(b, r, c)? };
        }
        Ok(smallvec![c])
    }),
    samples: &[
        Sample::grad("f64[3,2] in -1..1, f64[2] in 0.5..1.5, f64[3,2] in -1..1", 512),
        Sample::of("f32[3,2] in -1..1, f32[2] in 0.5..1.5, f32[2,3] in -1..1, false, true", 512),
        Sample::of("f32[3,2] in -1..1, f32[2] in 0.5..1.5, f32[2,3] in -1..1, false, false", 512),
        Sample::of("f32[3,2] in -1..1, f32[2] in 0.5..1.5, f32[3,2] in -1..1, true, true", 512),
    ],
    refuses: &[Refusal::of(
        "f32[3,2], f32[2], f32[2,3]",
        "ormqr: does not fit: reflections f32 [3, 2], matrix f32 [2, 3]",
    )],
    ..REFLECTIONS
};

fn infer_geqrf(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    let (m, n) = (x.shape.dim(x.rank() - 2).bound(), x.shape.dim(x.rank() - 1).bound());
    let mut shape: Shape = x.shape.iter().take(x.rank() - 2).collect();
    shape.push(m.min(n));
    Ok(smallvec![x.clone(), Type { dtype: x.dtype, shape }])
}

/// QR as LAPACK keeps it.
pub static GEQRF: OpDef = OpDef {
    sig: "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
    doc: "R on and above the diagonal, the vectors of the reflections whose product is Q below it, and their factors (LAPACK's \
          geqrf). Column by column in one program, so meant for small matrices; linalg_qr has a kernel.",
    record: |b, def, args| {
        let x = matrices(b, &Args::new(def, args), 0, false)?;
        b.composite(def, smallvec![], &[x])
    },
    infer: infer_geqrf,
    body: Body::Composite(geqrf),
    samples: &[
        Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 512),
        Sample::of("f32[2,4,3] in -1..1", 1024),
        Sample::of("f32[2,4] in -1..1", 1024),
    ],
    refuses: &[Refusal::of("f32[2]", "geqrf: needs matrices in the last two dims, got f32 [2]")],
    ..REFLECTIONS
};
fn geqrf(b: &mut Builder<'_>, _: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let ((m, n), mut a) = (extents(b, v[0]), v[0]);
    let mut factors = Vec::new();
    for i in 0..m.min(n) {
        let line = places(b, m, 1, 0)?;
        let (at, after) = (is_at(b, line, i)?, is_after(b, line, i)?);
        let column = b.columns(a, i, 1)?;
        let below = Var(b.select(after.0, column, 0.0)?);
        let square = emit(b, below * below)?;
        let rows = b.rank(a) - 2;
        let rest = Var(b.reduce_keep(rtx_core::Fold::Sum, square.0, &[rows])?);
        let alpha = Var(b.rows(column, i, 1)?);
        let none = emit(b, rest.equals(0.0))?;
        let size = emit(b, (alpha * alpha + rest).sqrt())?;
        let beta = emit(b, alpha.below(0.0).choose(size, -size))?;
        let beta = emit(b, none.choose(alpha, beta))?;
        let tau = emit(b, none.choose(0.0, (beta - alpha) / none.choose(1.0, beta)))?;
        let tail = emit(b, below / none.choose(1.0, alpha - beta))?;
        let reflector = Var(b.select(at.0, 1.0, tail.0)?);
        let turned = reflect_left(b, [reflector.0, tau.0], a)?;
        // Columns to the right are reflected; this one gets beta and the vector; those to the left stay.
        let (row, side) = (places(b, m, n, 0)?, places(b, m, n, 1)?);
        let (own, right) = (is_at(b, side, i)?, is_after(b, side, i)?);
        let (top, low) = (is_at(b, row, i)?, is_after(b, row, i)?);
        let kept = b.select(low.0, tail.0, a)?;
        let kept = b.select(top.0, beta.0, kept)?;
        let left = b.select(own.0, kept, a)?;
        a = b.select(right.0, turned, left)?;
        // The next column reads this one's whole result: it is computed once.
        a = b.prim(Prim::Barrier, &[a])?;
        let mut shape = lead(b, v[0]);
        shape.push(1);
        factors.push(b.reshape(tau.0, &shape)?);
    }
    let mut shape = lead(b, v[0]);
    let axis = shape.rank();
    shape.push(0);
    let tau = match factors.as_slice() {
        [] => b.zeros(b.dtype(a), &shape)?,
        [one] => *one,
        many => b.prim(Prim::Concat { axis }, many)?,
    };
    Ok(smallvec![a, tau])
}

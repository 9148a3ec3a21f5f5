//! QR as LAPACK keeps it: the vectors of reflections below the diagonal, their factors apart.
use super::{extents, lead, matrices};
use crate::args::Args;
use crate::formula::{Var, emit};
use rtx_core::{DType, Result, Shape};
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

/// `(1 - tau v v') x`.
fn reflect_left(b: &mut Builder<'_>, [v, tau]: [ValueId; 2], x: ValueId) -> Result<ValueId> {
    let vt = b.transpose_last(v)?;
    let along = b.matmul(vt, x)?;
    let scaled = b.mul(v, tau)?;
    let part = b.matmul(scaled, along)?;
    b.sub(x, part)
}
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

//! A symmetric matrix from one of its triangles.
use crate::args::Args;
use rtx_core::Result;
use rtx_ir::{Attr, Body, Builder, Grad, OpDef, Outs, Sample, Saves, Stability, ValueId, attrs, rules};
use smallvec::smallvec;

/// The symmetric matrix that one triangle stands for.
pub static SYMMETRIC: OpDef = OpDef {
    sig: "symmetric(Tensor self, bool upper) -> Tensor",
    doc: "The symmetric matrix of which one triangle is given; the other is not read. Its gradient is the one with \
          respect to a symmetric matrix: mirrored elements share theirs.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = super::matrices(b, &args, 0, true)?;
        b.composite(def, attrs([Attr::Bool(args.flag(1)?)]), &[x])
    },
    infer: rules::infer_same,
    body: Body::Composite(body),
    grad: Grad::Rule(|b, cx| {
        cx.each(|_| {
            let t = b.transpose_last(cx.ct())?;
            let sum = b.add(cx.ct(), t)?;
            b.mul(sum, 0.5)
        })
    }),
    saves: Saves::NONE,
    samples: &[Sample::exact("f32[2,3,3], true"), Sample::exact("f32[3,3], false")],
    stability: Stability::Unstable,
    ..OpDef::DEFAULT
};

fn body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let upper = attrs[0].bool();
    let t = b.transpose_last(v[0])?;
    let (above, below) = if upper { (v[0], t) } else { (t, v[0]) };
    let (above, below) = (b.triu(above, 1)?, b.tril(below, 0)?);
    Ok(smallvec![b.add(above, below)?])
}
/// The symmetric matrix behind `x`.
pub(super) fn symmetric(b: &mut Builder<'_>, x: ValueId, upper: bool) -> Result<ValueId> {
    Ok(b.composite(&SYMMETRIC, attrs([Attr::Bool(upper)]), &[x])?[0])
}

//! How pointwise composites are recorded and computed: operands meet, one node, compute precision inside.
use crate::precision::widen;
use rtx_core::Result;
use rtx_ir::record::{self, Promotion};
use rtx_ir::{Arg, Attrs, Batch, Bound, Builder, Grad, GradCx, Grads, Jvp, OpDef, Outs, Saves, Stability, ValueId};
use smallvec::{SmallVec, smallvec};

/// A function of one float; integers and bools become f32.
pub(crate) const FUNCTION: OpDef = OpDef {
    record: record_float::<1>,
    infer: crate::activation::infer_float,
    batch: Batch::Pointwise,
    cost: 12,
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
/// A function of two floats.
pub(crate) const PAIR: OpDef = OpDef { record: record_float::<2>, batch: Batch::FromBody, ..FUNCTION };
/// A function of one float that has no derivative.
pub(crate) const VALUE_ONLY: OpDef = OpDef { grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, ..FUNCTION };

/// The first `N` arguments, tensors or numbers, meet as floats and are the operands of one node.
pub(crate) fn record_float<const N: usize>(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    record_met(b, def, &record::first::<N>(a), Promotion::Float, Attrs::new())
}

/// Tensors and numbers meet and are the operands of one node, whose result is rounded.
pub(crate) fn record_met(
    b: &mut Builder<'_>,
    def: &'static OpDef,
    args: &[Arg],
    promotion: Promotion,
    attrs: Attrs,
) -> Result<Outs> {
    let met = record::meet(b, def, args, promotion)?;
    let y = b.composite(def, attrs, &met.values)?[0];
    Ok(smallvec![if b.dtype(y) == met.compute { b.cast(y, met.result)? } else { y }])
}

/// A body in compute precision: `f` sees the operands widened (f16 and bf16 to f32), its result is rounded once.
pub(crate) fn in_float(
    b: &mut Builder<'_>,
    v: &[ValueId],
    f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<ValueId>,
) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let wide = v.iter().map(|&x| widen(b, x)).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
    let y = f(b, &wide)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// The rule `dx = dy · slope(x)` of a function of one number.
pub(crate) fn by_slope(
    b: &mut Builder<'_>,
    cx: &GradCx<'_>,
    slope: impl Fn(&mut Builder<'_>, ValueId) -> Result<ValueId>,
) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
        let s = slope(b, x)?;
        b.mul(g, s)
    })
}

/// Is x above the number?
pub(crate) fn above(b: &mut Builder<'_>, x: ValueId, number: f64) -> Result<ValueId> {
    let number = b.constant(b.dtype(x), number)?;
    b.lt(number, x)
}
/// Is x NaN?
pub(crate) fn is_nan(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let same = b.eq(x, x)?;
    b.not(same)
}
/// Is the sign of x set? -0 counts; of NaN it is not asked.
pub(crate) fn is_negative(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let below = b.lt(x, 0.0)?;
    if !b.dtype(x).is_float() {
        return Ok(below);
    }
    let inverse = b.div(1.0, x)?;
    let zero = b.eq(x, 0.0)?;
    let under = b.lt(inverse, 0.0)?;
    let minus_zero = b.and(zero, under)?;
    b.or(below, minus_zero)
}

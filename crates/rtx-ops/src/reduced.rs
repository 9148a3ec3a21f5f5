//! What losses share: operands that meet, a formula for each element, and how elements become one number.
use crate::args::Args;
use crate::formula::Var;
use crate::precision::{count, widen};
use rtx_core::{Fold, Kind, Result, Scalar, Shape};
use rtx_ir::record::{self, Promotion};
use rtx_ir::{Amp, Arg, Attr, Attrs, Builder, GradCx, Op, OpDef, Outs, Stability, Type, Types, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// A loss of operands of one type; the first attribute is the reduction.
pub(crate) const LOSS: OpDef =
    OpDef { infer: infer_loss, amp: Amp::Full, cost: 8, stability: Stability::Stable, ..OpDef::DEFAULT };

/// Argument `i` as a reduction: a word, or PyTorch's number for it.
pub(crate) fn reduction(args: &Args<'_>, i: usize) -> Result<&'static str> {
    match args.get(i) {
        Arg::Scalar(Scalar::Int(n)) => match n {
            0 => Ok("none"),
            1 => Ok("mean"),
            2 => Ok("sum"),
            _ => Err(rules::refuse(args.op(), Kind::Argument, format_args!("reduction {n} is none of 0, 1, 2"))),
        },
        _ => args.choice(i, &["mean", "sum", "none"]),
    }
}
/// Argument `i` as a reduction, as the first attribute.
pub(crate) fn reduction_attr(args: &Args<'_>, i: usize) -> Result<Attrs> {
    Ok(smallvec![Attr::Str(reduction(args, i)?)])
}

/// Tensors meet as floats and are the operands of one node.
pub(crate) fn record_loss(b: &mut Builder<'_>, def: &'static OpDef, tensors: &[ValueId], attrs: Attrs) -> Result<Outs> {
    let args: SmallVec<[Arg; 4]> = tensors.iter().map(|&v| Arg::Value(v)).collect();
    let met = record::meet(b, def, &args, Promotion::Float)?;
    b.composite(def, attrs, &met.values)
}

/// Operands of one float type; with the reduction "none" the result has it, else it is a number.
pub(crate) fn infer_loss(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_equal(op, inputs)?;
    rules::check_float(op.name(), inputs[0])?;
    let shape = if op.attrs()[0] == Attr::Str("none") { inputs[0].shape.clone() } else { Shape::scalar() };
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
}

/// A body in compute precision: the loss of each element, then the reduction.
pub(crate) fn loss_body(
    b: &mut Builder<'_>,
    attrs: &[Attr],
    v: &[ValueId],
    element: impl FnOnce(&mut Builder<'_>, &[Var]) -> Result<Var>,
) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let wide = v.iter().map(|&x| widen(b, x).map(Var)).collect::<Result<SmallVec<[Var; 4]>>>()?;
    let row = element(b, &wide)?;
    let y = reduce(b, row.0, &attrs[0])?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// All elements as they are, their sum, or their mean, `sum / n`.
pub(crate) fn reduce(b: &mut Builder<'_>, rows: ValueId, reduction: &Attr) -> Result<ValueId> {
    let shape = b.shape(rows);
    let axes: SmallVec<[usize; 4]> = (0..shape.rank()).collect();
    match reduction {
        Attr::Str("none") => Ok(rows),
        Attr::Str("sum") => b.reduce(Fold::Sum, rows, &axes),
        _ => {
            let sum = b.reduce(Fold::Sum, rows, &axes)?;
            let n = count(b, b.dtype(sum), &shape, &axes)?;
            b.div(sum, n)
        }
    }
}

/// The cotangent of each element's loss, in compute precision and the operands' shape.
pub(crate) fn element_cotangent(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Var> {
    let shape = b.shape(cx.inputs[0]);
    let mut g = widen(b, cx.ct())?;
    if cx.op.attrs()[0] == Attr::Str("mean") {
        let axes: SmallVec<[usize; 4]> = (0..shape.rank()).collect();
        let n = count(b, b.dtype(g), &shape, &axes)?;
        g = b.div(g, n)?;
    }
    Ok(Var(b.expand(g, &shape)?))
}

//! What ops along one dim are made of: a rank-0 tensor as a line of one, slices from either end, picking along a dim.
use crate::args::Args;
use rtx_core::{DType, Dim, Kind, Result, Shape, contiguous_strides};
use rtx_ir::{Arg, Builder, Prim, ValueId, rules};

/// A tensor and the axis that its lines lie along.
#[derive(Clone, Copy)]
pub(crate) struct Along {
    pub x: ValueId,
    pub axis: usize,
    /// It was of rank 0 and is a line of one element now.
    pub was_number: bool,
}

impl Along {
    /// Argument 0 along the dim that argument `i` names, `default` where it is left out.
    pub(crate) fn of(b: &mut Builder<'_>, args: Args<'_>, i: usize, default: i64) -> Result<Along> {
        let x = args.tensor(0)?;
        let axis = rules::check_dim(args.op(), args.int_or(i, default)?, b.rank(x))?;
        let was_number = b.rank(x) == 0;
        let x = if was_number { b.reshape(x, &[1].into())? } else { x };
        Ok(Along { x, axis, was_number })
    }
    /// The same, where no dim stands for the elements of all dims in one line.
    pub(crate) fn of_or_all(b: &mut Builder<'_>, args: Args<'_>, i: usize) -> Result<Along> {
        if matches!(args.get(i), Arg::None) || matches!(args.get(i), Arg::Ints(v) if v.is_empty()) {
            let x = flat(b, args.op(), args.tensor(0)?)?;
            return Ok(Along { x, axis: 0, was_number: false });
        }
        Along::of(b, args, i, 0)
    }
    /// How many elements a line has.
    pub(crate) fn size(self, b: &Builder<'_>, op: &str) -> Result<usize> {
        known(op, b.ty(self.x).shape.dim(self.axis))
    }
    /// A result with the lines of `x` under the shape that the user expects.
    pub(crate) fn whole(self, b: &mut Builder<'_>, y: ValueId) -> Result<ValueId> {
        if self.was_number { b.reshape(y, &Shape::scalar()) } else { Ok(y) }
    }
    /// A result with one element a line, the axis of size 1, under the shape that the user expects.
    pub(crate) fn folded(self, b: &mut Builder<'_>, y: ValueId, keep: bool) -> Result<ValueId> {
        let mut shape = b.shape(y);
        if self.was_number || !keep {
            shape.remove(self.axis);
        }
        b.reshape(y, &shape)
    }
    /// The numbers 0, 1, … along the axis, in the shape of `x`.
    pub(crate) fn counter(self, b: &mut Builder<'_>) -> Result<ValueId> {
        let shape = b.shape(self.x);
        b.prim(Prim::Iota { shape, axis: self.axis }, &[])
    }
}

/// A size that is a number.
pub(crate) fn known(op: &str, dim: Dim) -> Result<usize> {
    dim.known().ok_or_else(|| rules::refuse(op, Kind::Unsupported, "a symbolic size is not built yet"))
}
/// Every size is a number.
pub(crate) fn check_static(b: &Builder<'_>, op: &str, x: ValueId) -> Result<()> {
    b.ty(x).shape.iter().try_for_each(|d| known(op, d).map(drop))
}

/// All elements in one line.
pub(crate) fn flat(b: &mut Builder<'_>, op: &str, x: ValueId) -> Result<ValueId> {
    check_static(b, op, x)?;
    let n = b.ty(x).shape.numel();
    b.reshape(x, &[n].into())
}

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `axis`: the index has the sizes of `x` in the other dims and names
/// positions that are there.
pub(crate) fn pick(b: &mut Builder<'_>, op: &str, x: ValueId, index: ValueId, axis: usize) -> Result<ValueId> {
    check_static(b, op, x)?;
    let strides = contiguous_strides(&b.shape(x).sizes());
    let shape = b.shape(index);
    let mut places = b.mul(index, strides[axis] as f64)?;
    for i in (0..shape.rank()).filter(|&i| i != axis) {
        let along = b.prim(Prim::Iota { shape: shape.clone(), axis: i }, &[])?;
        let along = b.mul(along, strides[i] as f64)?;
        places = b.add(places, along)?;
    }
    let x = flat(b, op, x)?;
    b.prim(Prim::Gather { axis: 0 }, &[x, places])
}

/// All but the first element along an axis; nothing of nothing.
pub(crate) fn tail(b: &mut Builder<'_>, op: &str, x: ValueId, axis: usize) -> Result<ValueId> {
    let n = known(op, b.ty(x).shape.dim(axis))?;
    b.slice(x, axis, 1, n.saturating_sub(1))
}
/// All but the last element along an axis; nothing of nothing.
pub(crate) fn head(b: &mut Builder<'_>, op: &str, x: ValueId, axis: usize) -> Result<ValueId> {
    let n = known(op, b.ty(x).shape.dim(axis))?;
    b.slice(x, axis, 0, n.saturating_sub(1))
}

/// A run-time number of `dtype` as argument `i` gives it.
pub(crate) fn number(b: &mut Builder<'_>, args: Args<'_>, i: usize, dtype: DType, default: f64) -> Result<ValueId> {
    match args.get(i) {
        Arg::Scalar(s) => b.param(dtype, *s),
        _ => {
            let x = args.float_or(i, default)?;
            b.param(dtype, x.into())
        }
    }
}

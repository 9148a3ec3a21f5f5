//! Values that are strided views of memory: what a chain of movement ops looks at, without a copy.
use crate::index::{dense_strides, segments, static_start};
use crate::work::Work;
use rtx_core::Shape;
use rtx_ir::{Prim, ValueId};
use rtx_plan::SizeExpr;
use smallvec::{SmallVec, smallvec};

/// Elements of a value as they lie in another value's memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strided {
    /// Whose memory.
    pub base: ValueId,
    /// Elements before the first one.
    pub offset: SizeExpr,
    /// Step of each axis.
    pub strides: SmallVec<[SizeExpr; 4]>,
}

/// Where the elements of a value lie that has memory of its own: inputs as they come, native
/// results as was chosen, everything else dense.
pub(crate) fn stored(work: &Work, v: ValueId) -> Strided {
    if let Some(part) = work.parts.get(&v) {
        return part.clone();
    }
    let shape = &work.graph.ty(v).shape;
    let strides = match work.input_of.get(&v) {
        Some(&i) if !is_dense_input(work, i) => {
            work.facts[i as usize].layout.strides.iter().map(|&s| SizeExpr::constant(s as i64)).collect()
        }
        _ => work.layouts.get(&v).cloned().unwrap_or_else(|| dense_strides(shape)),
    };
    Strided { base: v, offset: SizeExpr::default(), strides }
}

/// Does an input lie dense in row-major order?
pub(crate) fn is_dense_input(work: &Work, i: u32) -> bool {
    let sizes = work.graph.ty(work.inputs[i as usize]).shape.sizes();
    work.facts[i as usize].layout.is_contiguous(&sizes)
}

/// Every way to see `v` as a view, from the value deepest down to `v` itself.
pub(crate) fn resolve(work: &Work, v: ValueId) -> Vec<Strided> {
    let mut chain = vec![v];
    while work.is_view(chain[chain.len() - 1]) {
        chain.push(work.operands(chain[chain.len() - 1])[0]);
    }
    (0..chain.len()).rev().filter_map(|i| follow(work, &chain[..=i])).collect()
}

/// `chain[0]` as a view of the memory of the last one; each is a view of the next.
fn follow(work: &Work, chain: &[ValueId]) -> Option<Strided> {
    let mut at = stored(work, chain[chain.len() - 1]);
    for pair in chain.windows(2).rev() {
        at = step(work, at, pair[1], pair[0])?;
    }
    Some(at)
}

/// From `x` as a view to `v`, whose operand `x` is.
fn step(work: &Work, x: Strided, from: ValueId, v: ValueId) -> Option<Strided> {
    let (shape, to) = (&work.graph.ty(from).shape, &work.graph.ty(v).shape);
    let Strided { base, mut offset, mut strides } = x;
    match work.prim(v)? {
        Prim::Permute(order) => strides = order.iter().map(|&o| strides[o].clone()).collect(),
        Prim::Expand(_) => {
            let lead = to.rank() - shape.rank();
            strides = (0..to.rank())
                .map(|i| match i.checked_sub(lead) {
                    Some(j) if shape.dim(j) == to.dim(i) => strides[j].clone(),
                    _ => SizeExpr::default(),
                })
                .collect();
        }
        &Prim::Slice { axis, len, step } => {
            let start = work.constant(work.operands(v)[1])?.1 as i64;
            let start = if start == 0 && step > 0 { 0 } else { static_start(start, shape.dim(axis), len, step)? };
            offset = &offset + &(&strides[axis] * &SizeExpr::constant(start));
            strides[axis] = &strides[axis] * &SizeExpr::constant(step);
        }
        Prim::Reshape(_) => strides = reshaped(shape, to, &strides)?,
        &Prim::Windows { axis, stride, dilation, .. } => {
            strides.push(&strides[axis] * &SizeExpr::constant(dilation as i64));
            strides[axis] = &strides[axis] * &SizeExpr::constant(stride as i64);
        }
        _ => return None,
    }
    Some(Strided { base, offset, strides })
}

/// Where the operand of a permutation or a reshape lies whose result lies as `at` says; `None` where its elements are not
/// evenly apart, or for another op.
pub(crate) fn step_back(work: &Work, at: Strided, v: ValueId, x: ValueId) -> Option<Strided> {
    let (from, to) = (&work.graph.ty(v).shape, &work.graph.ty(x).shape);
    let strides = match work.prim(v)? {
        Prim::Permute(order) => {
            let mut strides = at.strides.clone();
            order.iter().zip(&at.strides).for_each(|(&o, stride)| strides[o] = stride.clone());
            strides
        }
        Prim::Reshape(_) => reshaped(from, to, &at.strides)?,
        _ => return None,
    };
    Some(Strided { strides, ..at })
}

/// Strides after a reshape; `None` where the elements of an axis are not evenly apart.
fn reshaped(from: &Shape, to: &Shape, strides: &[SizeExpr]) -> Option<SmallVec<[SizeExpr; 4]>> {
    let mut out: SmallVec<[SizeExpr; 4]> = smallvec![SizeExpr::default(); to.rank()];
    for (f, t) in segments(from, to)? {
        if f.len() == 1 && t.len() == 1 {
            out[t[0]] = strides[f[0]].clone();
            continue;
        }
        let mut step = common_stride(from, &f, strides)?;
        for &i in t.iter().rev() {
            out[i] = step.clone();
            step = &step * &SizeExpr::from(to.dim(i));
        }
    }
    Some(out)
}

/// The one stride by which neighbouring axes are walked as one; axes of size 1 do not count. 0 for no axes.
pub(crate) fn common_stride(shape: &Shape, axes: &[usize], strides: &[SizeExpr]) -> Option<SizeExpr> {
    let mut found: Option<(SizeExpr, SizeExpr)> = None;
    for &i in axes.iter().rev().filter(|&&i| !shape.dim(i).is_one()) {
        let next = &strides[i] * &SizeExpr::from(shape.dim(i));
        found = match found {
            None => Some((strides[i].clone(), next)),
            Some((inner, end)) if strides[i] == end => Some((inner, next)),
            Some(_) => return None,
        };
    }
    Some(found.map(|f| f.0).unwrap_or_default())
}

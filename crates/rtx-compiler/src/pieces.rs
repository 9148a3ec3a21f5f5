//! Sums of slices written into zeros, which is what gradients of slices are, as one concatenation.
//!
//! With `place(u, s)` = zeros with `u` written at `s`, and slices that share no element,
//! `place(u, s) + place(w, t)` is `u + 0` in the one, `w + 0` in the other and `0 + 0 = 0` elsewhere; `u + 0` is not
//! `u` where `u` is -0, so the addition stays. Once the slices cover the axis the sum is their concatenation.
use crate::index::{segments, static_start};
use crate::simplify::{Origin, Simplifier};
use rtx_core::{Arith, DType, Dim, Shape};
use rtx_ir::{Op, Prim, Type, ValueId};
use smallvec::SmallVec;

/// A value known to be zero outside slices along one axis.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    axis: usize,
    /// Start, length, value, and whether a zero was added to it; ascending, apart.
    list: Vec<(u64, u64, ValueId, bool)>,
}

/// What an update of zeros is.
pub(crate) fn of_update(s: &Simplifier, axis: usize, step: i64, inputs: &[ValueId]) -> Option<Pieces> {
    let (x, u, start) = (s.graph.ty(inputs[0]), s.graph.ty(inputs[1]), s.splat(inputs[2])?);
    if step != 1 || s.splat(inputs[0]) != Some(0) || x.dtype == DType::Bool {
        return None;
    }
    let len = u.shape.dim(axis);
    let start = static_start(start as i64, x.shape.dim(axis), len, 1)?;
    Some(Pieces { axis, list: vec![(start as u64, len.known()? as u64, inputs[1], false)] })
}

/// What a sum of two such values is; `None` if their slices share elements.
pub(crate) fn of_sum(a: &Pieces, b: &Pieces) -> Option<Pieces> {
    let mut list: Vec<_> = a.list.iter().chain(&b.list).map(|&(start, len, v, _)| (start, len, v, true)).collect();
    list.sort_unstable();
    let apart = list.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0);
    (a.axis == b.axis && apart).then_some(Pieces { axis: a.axis, list })
}

/// What a movement of such a value is: slices of what is moved, along the axis that theirs becomes.
pub(crate) fn of_moved(s: &mut Simplifier, p: &Prim, x: ValueId, ty: &Type, at: Origin) -> Option<Pieces> {
    let pieces = s.pieces_at(x)?;
    let (to, times) = moved_axis(p, &s.graph.ty(x).shape, ty, pieces.axis)?;
    let list = pieces.list.into_iter().map(|(start, len, v, added)| {
        (start * times, len * times, moved_part(s, p, v, len * times, to, ty, at), added)
    });
    Some(Pieces { axis: to, list: list.collect() })
}

/// Which axis of the result `axis` becomes, and how many of its elements one of `axis` is.
fn moved_axis(p: &Prim, from: &Shape, ty: &Type, axis: usize) -> Option<(usize, u64)> {
    let to = match p {
        Prim::Permute(order) => order.iter().position(|&o| o == axis)?,
        Prim::Reshape(_) => outermost_of(from, &ty.shape, axis)?,
        _ => return None,
    };
    let (whole, target) = (from.dim(axis).known()?, ty.shape.dim(to).known()?);
    (whole > 0).then(|| (to, (target / whole) as u64))
}

/// A part of what is moved, `len` elements along `to`.
fn moved_part(s: &mut Simplifier, p: &Prim, part: ValueId, len: u64, to: usize, ty: &Type, at: Origin) -> ValueId {
    let mut shape = ty.shape.clone();
    shape.set(to, len as usize);
    let p = if let Prim::Reshape(_) = p { Prim::Reshape(shape.clone()) } else { p.clone() };
    s.add_prim(p, &[part], &Type { dtype: ty.dtype, shape }, at)
}

impl Pieces {
    /// The concatenation, once the slices cover the axis.
    pub fn joined(&self, s: &mut Simplifier, ty: &Type, at: Origin) -> Option<ValueId> {
        let covered: u64 = self.list.iter().map(|p| p.1).sum();
        if self.list.len() < 2 || ty.shape.dim(self.axis) != Dim::Const(covered) {
            return None;
        }
        let parts: Vec<ValueId> = self.list.iter().map(|p| if p.3 { plus_zero(s, p.2, at) } else { p.2 }).collect();
        let joined = s.add_prim(Prim::Concat { axis: self.axis }, &parts, ty, at);
        s.joined.insert(joined);
        Some(joined)
    }
}

fn plus_zero(s: &mut Simplifier, v: ValueId, at: Origin) -> ValueId {
    let ty = s.graph.ty(v).clone();
    let scalar = Type::new(ty.dtype, []);
    let zero = s.add_prim(Prim::Constant { dtype: ty.dtype, bits: 0 }, &[], &scalar, at);
    let zero = s.add_prim(Prim::Expand(ty.shape.clone()), &[zero], &ty, at);
    s.add_prim(Prim::Binary(Arith::Add), &[v, zero], &ty, at)
}

/// A movement of such a concatenation is the concatenation of the moved parts, which can be written where the
/// movement would have put them.
pub(crate) fn moved(s: &mut Simplifier, p: &Prim, x: ValueId, ty: &Type, at: Origin) -> Option<ValueId> {
    if !s.joined.contains(&x) {
        return None;
    }
    let node = s.graph.producer(x).clone();
    let Op::Prim(Prim::Concat { axis }) = node.op else { return None };
    let (to, times) = moved_axis(p, &s.graph.ty(x).shape, ty, axis)?;
    let mut parts: SmallVec<[ValueId; 4]> = SmallVec::new();
    for &part in &node.inputs {
        let len = s.graph.ty(part).shape.dim(axis).known()? as u64;
        parts.push(moved_part(s, p, part, len * times, to, ty, at));
    }
    let joined = s.add_prim(Prim::Concat { axis: to }, &parts, ty, at);
    s.joined.insert(joined);
    Some(joined)
}

/// The result's axis of which the operand's `axis` is the outermost part.
fn outermost_of(from: &Shape, to: &Shape, axis: usize) -> Option<usize> {
    segments(from, to)?.iter().find_map(|(f, t)| (f[0] == axis && t.len() == 1).then_some(t[0]))
}

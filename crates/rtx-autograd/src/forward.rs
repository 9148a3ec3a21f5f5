//! Forward mode, out of reverse mode: a gradient is linear in its cotangent, and its slope in the cotangent is the
//! directional derivative.
use crate::gradient;
use rtx_core::Result;
use rtx_ir::{Builder, ValueId};

/// How `outputs` change when each of `wrt` moves along its tangent; `None` for outputs that do not depend on them.
///
/// With `G(u) = u · ∂y/∂x`, which is linear in `u`, this is `∂(G(u) · t)/∂u`. Where `u` stands does not matter, so it
/// is zero. What only serves `G` is dead afterwards.
///
/// # Errors
/// As [`gradient`].
pub fn tangent(
    b: &mut Builder<'_>,
    outputs: &[ValueId],
    wrt: &[ValueId],
    tangents: &[ValueId],
) -> Result<Vec<Option<ValueId>>> {
    let zeros = outputs.iter().map(|&y| b.zeros_like(y)).collect::<Result<Vec<_>>>()?;
    let found = gradient(b, outputs, &zeros, wrt)?;
    let (slopes, along): (Vec<_>, Vec<_>) = found.into_iter().zip(tangents).filter_map(|(g, &t)| Some((g?, t))).unzip();
    gradient(b, &slopes, &along, &zeros)
}

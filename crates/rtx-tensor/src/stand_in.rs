//! Running a function while some tensors stand for others: what `functional_call` of a module is made of.
use crate::{Tensor, tape::Traced, tensor::Root};
use rtx_core::{Error, Kind, Result};
use std::sync::Arc;

/// Cells and what they held; put back when dropped, so that a panic in the function puts it back, too.
struct Held(Vec<(Arc<Root>, Traced)>);
impl Drop for Held {
    fn drop(&mut self) {
        // The last one first: a cell that was lent twice gets what it held at first.
        while let Some((root, old)) = self.0.pop() {
            root.restore(old);
        }
    }
}

/// Runs `f` while the first tensor of each pair shows the second one's value and leads gradients to it. What `f` writes
/// to the first ones is gone afterwards.
///
/// Unstable: what `functional_call` is made of; use that.
///
/// # Errors
/// When the two differ in shape or dtype, or the first one is a view; then `f` does not run.
///
/// # Example
/// ```
/// use rtx_tensor::{tensor, with_stand_ins, grad};
/// # fn main() -> rtx_tensor::Result<()> {
/// let w = tensor!([1.0, 2.0]);
/// let other = tensor!([3.0, 4.0]).requires_grad_();
/// let y = with_stand_ins(&[(&w, &other)], || (&w * &w).sum(..))?;
/// assert_eq!(y.item::<f32>()?, 25.0);
/// let [g] = grad(&y, [&other]);
/// assert_eq!(g.to_vec::<f32>()?, [6.0, 8.0]);
/// assert_eq!(w.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(()) }
/// ```
#[track_caller]
pub fn with_stand_ins<T>(pairs: &[(&Tensor, &Tensor)], f: impl FnOnce() -> T) -> Result<T> {
    let mut held = Held(Vec::with_capacity(pairs.len()));
    let mut shown = Vec::with_capacity(pairs.len());
    for (tensor, other) in pairs {
        if !tensor.view_map().is_whole() || tensor.ty() != other.ty() {
            let what = format!("with_stand_ins: {} does not stand for {}", other.ty(), tensor.ty());
            return Err(Error::new(Kind::Shape, what));
        }
        shown.push(other.traced()?);
    }
    for ((tensor, _), new) in pairs.iter().zip(shown) {
        let root = tensor.root();
        let (old, _) = root.contents();
        held.0.push((root.clone(), old));
        root.restore(new);
    }
    let out = f();
    drop(held);
    Ok(out)
}

//! Mixed precision: under `autocast` an op's definition says in which precision its operands enter.
use rtx_core::{DType, Result};
use rtx_ir::{Amp, Builder, OpDef, ValueId};
use smallvec::SmallVec;
use std::cell::Cell;

thread_local! { static LOW: Cell<Option<DType>> = const { Cell::new(None) } }

/// Ops inside take their `f32` operands in `dtype` where that is safe (products), and low ones in `f32` where it is
/// not (losses, norms, exponentials). A closure, not a guard: it cannot leak across `.await`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let (a, b) = (torch::ones([2, 2]), torch::ones([2, 2]));
/// assert_eq!(torch::autocast(DType::BF16, || a.matmul(&b)).dtype(), DType::BF16);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn autocast<T>(dtype: DType, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<DType>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOW.set(self.0);
        }
    }
    let _restore = Restore(LOW.replace(Some(dtype)));
    f()
}

/// The operands of a call in the precision that its op wants.
pub(crate) fn cast(b: &mut Builder<'_>, def: &OpDef, ids: &[ValueId]) -> Result<SmallVec<[ValueId; 4]>> {
    let to = match (LOW.get(), def.amp) {
        (None, _) | (_, Amp::Any) => return Ok(SmallVec::from_slice(ids)),
        (Some(low), Amp::Low) => low,
        (Some(_), Amp::Full) => DType::F32,
    };
    let casts = |d: DType| matches!(d, DType::F32 | DType::F16 | DType::BF16);
    ids.iter().map(|&v| if casts(b.dtype(v)) { b.cast(v, to) } else { Ok(v) }).collect()
}

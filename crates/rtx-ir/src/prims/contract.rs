//! Contractions: sums of products over paired dims.
use crate::{Op, OpDef, Prim, Type, Types, rules};
use rtx_core::{Kind, Result, Shape};
use smallvec::smallvec;

fn infer_dot(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (l, r) = (inputs[0], inputs[1]);
    let Some(Prim::Dot { batch, contract }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a contraction"));
    };
    let pairs = || batch.iter().chain(contract.iter());
    let fits =
        l.dtype == r.dtype && pairs().all(|&(a, b)| a < l.rank() && b < r.rank() && l.shape.dim(a) == r.shape.dim(b));
    if !fits {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: lhs {l}, rhs {r}")));
    }
    let free_l = (0..l.rank()).filter(|i| pairs().all(|p| p.0 != *i)).map(|i| l.shape.dim(i));
    let free_r = (0..r.rank()).filter(|i| pairs().all(|p| p.1 != *i)).map(|i| r.shape.dim(i));
    let shape: Shape = batch.iter().map(|p| l.shape.dim(p.0)).chain(free_l).chain(free_r).collect();
    Ok(smallvec![Type { dtype: l.dtype, shape }])
}

pub(super) static DOT_GENERAL: OpDef = OpDef {
    sig: "dot_general(Tensor self, Tensor other, int[] batch, int[] contract) -> Tensor",
    infer: infer_dot,
    ..OpDef::DEFAULT
};

//! Ops without a node of their own: recording one appends the primitives that it stands for.
use rtx_core::{Kind, Result};
use rtx_ir::{Attr, Body, Builder, Op, OpDef, Outs, Type, Types, ValueId, rules};

/// The fields that spellings share.
pub const SPELLING: OpDef = OpDef { infer: infer_nothing, body: Body::Composite(no_body), ..OpDef::DEFAULT };

/// Does a call of this op record primitives instead of a node of its own?
pub fn is_spelling(def: &OpDef) -> bool {
    std::ptr::fn_addr_eq(def.infer, infer_nothing as rtx_ir::Infer)
}

fn infer_nothing(op: &Op, _: &[&Type]) -> Result<Types> {
    Err(rules::refuse(op.name(), Kind::Internal, "is recorded as primitives, not as a node"))
}
fn no_body(_: &mut Builder<'_>, _: &[Attr], _: &[ValueId]) -> Result<Outs> {
    Err(rtx_core::Error::new(Kind::Internal, "a spelling has no node, so it has no body"))
}

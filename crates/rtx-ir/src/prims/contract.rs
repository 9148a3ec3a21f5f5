//! Contractions: sums of products over paired dims.
use crate::{
    Amp, Bound, Builder, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, Type,
    Types, ValueId, record, rules,
};
use rtx_core::{Kind, Result, Shape};
use smallvec::{SmallVec, smallvec};

type Pairs = SmallVec<[(usize, usize); 2]>;

fn infer_dot(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (l, r) = (inputs[0], inputs[1]);
    rules::check_arithmetic(op.name(), l)?;
    let Some(Prim::Dot { batch, contract }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a contraction"));
    };
    let pairs = || batch.iter().chain(contract.iter());
    let once = |side: fn(&(usize, usize)) -> usize| {
        let mut seen: SmallVec<[usize; 8]> = pairs().map(side).collect();
        seen.sort_unstable();
        seen.windows(2).all(|w| w[0] != w[1])
    };
    let fits = l.dtype == r.dtype
        && once(|p| p.0)
        && once(|p| p.1)
        && pairs().all(|&(a, b)| a < l.rank() && b < r.rank() && l.shape.dim(a) == r.shape.dim(b));
    if !fits {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: lhs {l}, rhs {r}")));
    }
    let free_l = (0..l.rank()).filter(|i| pairs().all(|p| p.0 != *i)).map(|i| l.shape.dim(i));
    let free_r = (0..r.rank()).filter(|i| pairs().all(|p| p.1 != *i)).map(|i| r.shape.dim(i));
    let shape: Shape = batch.iter().map(|p| l.shape.dim(p.0)).chain(free_l).chain(free_r).collect();
    Ok(smallvec![Type { dtype: l.dtype, shape }])
}

fn dot(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let (l, r) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
    let pairs = |i: usize| -> Result<Pairs> {
        record::ints(def, a, i)?
            .chunks(2)
            .map(|p| match *p {
                [x, y] => {
                    Ok((rules::check_dim(def.name(), x, b.rank(l))?, rules::check_dim(def.name(), y, b.rank(r))?))
                }
                _ => Err(rules::refuse(def.name(), Kind::Argument, "dims come in pairs")),
            })
            .collect()
    };
    let (batch, contract) = (pairs(2)?, pairs(3)?);
    Ok(smallvec![b.prim(Prim::Dot { batch, contract }, &[l, r])?])
}

/// A contraction taken apart: which dims of each side are free.
struct Parts {
    batch: Pairs,
    contract: Pairs,
    free_l: SmallVec<[usize; 4]>,
    free_r: SmallVec<[usize; 4]>,
}
impl Parts {
    fn of(b: &Builder<'_>, cx: &GradCx<'_>) -> Result<Self> {
        let Some(Prim::Dot { batch, contract }) = cx.op.prim() else {
            return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a contraction"));
        };
        let pairs = || batch.iter().chain(contract);
        let free_l = (0..b.rank(cx.inputs[0])).filter(|i| pairs().all(|p| p.0 != *i)).collect();
        let free_r = (0..b.rank(cx.inputs[1])).filter(|i| pairs().all(|p| p.1 != *i)).collect();
        Ok(Parts { batch: batch.clone(), contract: contract.clone(), free_l, free_r })
    }
    /// Position in the result of the first free dim of the right side.
    fn right(&self) -> usize {
        self.batch.len() + self.free_l.len()
    }
    /// `g · rhs` over the right side's free dims: batch, free left, then the contracted dims as the right side has
    /// them; put where the left side has them.
    fn left_cotangent(&self, b: &mut Builder<'_>, g: ValueId, r: ValueId) -> Result<ValueId> {
        let batch = self.batch.iter().enumerate().map(|(i, p)| (i, p.1)).collect();
        let contract = self.free_r.iter().enumerate().map(|(i, &d)| (self.right() + i, d)).collect();
        let y = b.prim(Prim::Dot { batch, contract }, &[g, r])?;
        let mut pairs = self.contract.clone();
        pairs.sort_unstable_by_key(|p| p.1);
        let at = self.batch.iter().map(|p| p.0).chain(self.free_l.iter().copied()).chain(pairs.iter().map(|p| p.0));
        place_dims(b, y, at)
    }
    /// `lhs · g` over the left side's free dims: batch, the contracted dims as the left side has them, free right;
    /// put where the right side has them.
    fn right_cotangent(&self, b: &mut Builder<'_>, l: ValueId, g: ValueId) -> Result<ValueId> {
        let batch = self.batch.iter().enumerate().map(|(i, p)| (p.0, i)).collect();
        let contract = self.free_l.iter().enumerate().map(|(i, &d)| (d, self.batch.len() + i)).collect();
        let y = b.prim(Prim::Dot { batch, contract }, &[l, g])?;
        let mut pairs = self.contract.clone();
        pairs.sort_unstable_by_key(|p| p.0);
        let at = self.batch.iter().map(|p| p.1).chain(pairs.iter().map(|p| p.1)).chain(self.free_r.iter().copied());
        place_dims(b, y, at)
    }
}
/// Dim `i` moves to position `at[i]`.
fn place_dims(b: &mut Builder<'_>, x: ValueId, at: impl Iterator<Item = usize>) -> Result<ValueId> {
    let mut order: SmallVec<[usize; 4]> = (0..b.rank(x)).collect();
    at.enumerate().for_each(|(i, to)| order[to] = i);
    b.permute(x, &order)
}
fn grad_dot(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let parts = Parts::of(b, cx)?;
    cx.each(|i| match i {
        0 => parts.left_cotangent(b, cx.ct(), cx.inputs[1]),
        _ => parts.right_cotangent(b, cx.inputs[0], cx.ct()),
    })
}

pub(super) static DOT_GENERAL: OpDef = OpDef {
    sig: "dot_general(Tensor self, Tensor other, int[] batch, int[] contract) -> Tensor",
    doc: "The sum of products over contracted pairs of dims, by fma; dims of the result: batch, free left, free right.",
    record: |b, def, a| dot(b, def, a),
    infer: infer_dot,
    grad: Grad::Rule(grad_dot),
    saves: Saves::Inputs,
    amp: Amp::Low,
    cost: 2,
    numerics: Numerics::Claimed,
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[2,3], f32[3,4], [], [1, 0]", 8),
        Sample::grad("f32[2,5,3], f32[2,4,3], [0, 0], [2, 2]", 8),
        Sample::grad("f64[3,2,4], f64[4,3,2], [], [0, 1, 2, 0]", 8),
        Sample::grad("f32[3,4,2], f32[5,2,3], [0, 2, 2, 1], []", 8),
        Sample::grad("f32[3], f32[3], [], [0, 0]", 8),
        Sample::grad("f32[2], f32[3], [], []", 8),
        Sample::of("f32[7,600], f32[600,5], [], [1, 0]", 64),
        Sample::exact("f32[2,0], f32[0,3], [], [1, 0]"),
        Sample::exact("i64[2,3] in -9..9, i64[3,2] in -9..9, [], [1, 0]"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5], [], [1, 0]",
        "dot_general: does not fit: lhs f32 [2, 3], rhs f32 [4, 5]",
    )],
    ..OpDef::DEFAULT
};

//! Products of matrices: `matmul` with PyTorch's rank rules, and `linear`.
use crate::args::Args;
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{
    Amp, Attrs, Body, Bound, Builder, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample, Saves,
    Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&MATMUL, &LINEAR];

/// Matrix product.
pub static MATMUL: OpDef = OpDef {
    sig: "matmul(Tensor self, Tensor other) -> Tensor",
    doc: "Matrix product; vectors are rows on the left and columns on the right, leading dims are batch dims and \
          broadcast. out[.., i, j] = Σ_k self[.., i, k] · other[.., k, j].",
    record: record_matmul,
    amp: Amp::Low,
    samples: &[
        Sample { args: "f32[2,3] in -2..2, f32[3,4] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3] in -2..2, f32[3] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3] in -2..2, f32[3,2] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[2,3] in -2..2, f32[3] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[5,2,3] in -2..2, f32[3,2] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[2,3] in -2..2, f32[4,3,2] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3] in -2..2, f32[4,3,2] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[4,1,2,3] in -2..2, f32[5,3,2] in -2..2", ulps: 64, grad: true },
    ],
    refuses: &[
        Refusal { args: "f32[2,3], f32[4,5]", message: "matmul: inner sizes differ: lhs [2, 3], rhs [4, 5]" },
        Refusal { args: "f32[], f32[2,2]", message: "matmul: needs tensors of rank 1 or more: lhs [], rhs [2, 2]" },
        Refusal { args: "f32[2,3], f64[3,2]", message: "matmul: dtypes differ: lhs f32 [2, 3], rhs f64 [3, 2]" },
        Refusal {
            args: "f32[2,2,3], f32[5,3,2]",
            message: "matmul: batch sizes do not broadcast: lhs [2, 2, 3], rhs [5, 3, 2]",
        },
    ],
    stability: Stability::Stable,
    ..SPELLING
};

fn record_matmul(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    Ok(smallvec![matmul(b, args.tensor(0)?, args.tensor(1)?)?])
}

/// Matrix product by PyTorch's rank rules.
pub(crate) fn matmul(b: &mut Builder<'_>, lhs: ValueId, rhs: ValueId) -> Result<ValueId> {
    let (l, r) = (b.ty(lhs).clone(), b.ty(rhs).clone());
    check_matmul(&l, &r)?;
    let (inner_l, inner_r) = (l.rank() - 1, r.rank().saturating_sub(2));
    let contract = smallvec![(inner_l, inner_r)];
    if r.rank() <= 2 {
        // The rows of all batches of the left side are the rows of one product.
        return b.prim(Prim::Dot { batch: smallvec![], contract }, &[lhs, rhs]);
    }
    if l.rank() == 1 {
        return b.prim(Prim::Dot { batch: smallvec![], contract }, &[lhs, rhs]);
    }
    let lead = |s: &Shape| -> Shape { s.iter().take(s.rank() - 2).collect() };
    let (lead_l, lead_r) = (lead(&l.shape), lead(&r.shape));
    let Ok(batch) = rules::broadcast_shapes(&[&lead_l, &lead_r]) else {
        let what = format_args!("batch sizes do not broadcast: lhs {}, rhs {}", l.shape, r.shape).to_string();
        return Err(rules::refuse("matmul", Kind::Shape, what));
    };
    let stretched = |s: &Shape| -> Shape { batch.iter().chain(s.iter().skip(s.rank() - 2)).collect() };
    let lhs = b.expand(lhs, &stretched(&l.shape))?;
    let rhs = b.expand(rhs, &stretched(&r.shape))?;
    let rank = batch.rank() + 2;
    let batch = (0..rank - 2).map(|i| (i, i)).collect();
    b.prim(Prim::Dot { batch, contract: smallvec![(rank - 1, rank - 2)] }, &[lhs, rhs])
}

fn check_matmul(l: &Type, r: &Type) -> Result<()> {
    let refuse = |kind, what: String| Err(rules::refuse("matmul", kind, what));
    if l.rank() == 0 || r.rank() == 0 {
        return refuse(Kind::Shape, format!("needs tensors of rank 1 or more: lhs {}, rhs {}", l.shape, r.shape));
    }
    if l.dtype != r.dtype {
        return refuse(Kind::DType, format!("dtypes differ: lhs {l}, rhs {r}"));
    }
    if l.shape.dim(l.rank() - 1) != r.shape.dim(r.rank().saturating_sub(2)) {
        return refuse(Kind::Shape, format!("inner sizes differ: lhs {}, rhs {}", l.shape, r.shape));
    }
    Ok(())
}

/// `x · weightᵀ + bias`.
pub static LINEAR: OpDef = OpDef {
    sig: "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    doc: "input · weightᵀ + bias over the last dim: out[.., o] = Σ_i input[.., i] · weight[o, i] + bias[o]; a weight of one \
          dim makes one feature without a dim.",
    record: record_linear,
    infer: infer_linear,
    body: Body::Composite(linear_body),
    grad: Grad::Rule(linear_grad),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[] },
    amp: Amp::Low,
    cost: 2,
    numerics: Numerics::Claimed,
    samples: &[
        Sample { args: "f32[4,3] in -2..2, f32[2,3] in -2..2, f32[2] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[2,4,3] in -2..2, f32[2,3] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[2,4,3] in -2..2, f32[3] in -2..2, f32[] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3] in -2..2, f32[2,3] in -2..2, f32[2] in -2..2", ulps: 64, grad: true },
        Sample { args: "bf16[4,3] in -2..2, bf16[2,3] in -2..2, bf16[2] in -2..2", ulps: 2, grad: false },
    ],
    refuses: &[
        Refusal {
            args: "f32[64,256], f32[10,128]",
            message: "linear: input has 256 features, the layer takes 128: x [64, 256], weight [10, 128]",
        },
        Refusal {
            args: "f32[4,3], f32[2,3], f32[3]",
            message: "linear: the layer makes 2 features, the bias has [3]: x [4, 3], weight [2, 3]",
        },
        Refusal { args: "f32[4,3], f64[2,3]", message: "linear: dtypes differ: x f32 [4, 3], weight f64 [2, 3]" },
    ],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

fn record_linear(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut inputs: SmallVec<[ValueId; 3]> = smallvec![args.tensor(0)?, args.tensor(1)?];
    inputs.extend(args.optional_tensor(2)?);
    if b.rank(inputs[1]) != 1 {
        return b.composite(def, Attrs::new(), &inputs);
    }
    // One feature, which has no dim of its own in the result.
    let row = Shape::from_iter([Dim::Const(1), b.ty(inputs[1]).shape.dim(0)]);
    inputs[1] = b.reshape(inputs[1], &row)?;
    if let Some(bias) = inputs.get_mut(2).filter(|v| b.rank(**v) == 0) {
        *bias = b.reshape(*bias, &[1].into())?;
    }
    let y = b.composite(def, Attrs::new(), &inputs)?[0];
    let shape: Shape = b.shape(y).iter().take(b.rank(y) - 1).collect();
    Ok(smallvec![b.reshape(y, &shape)?])
}

fn infer_linear(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let refuse = |kind, what: String| Err(rules::refuse(op.name(), kind, what));
    let &[x, weight, ..] = inputs else {
        return Err(rules::refuse(op.name(), Kind::Argument, "takes 2 or 3 operands"));
    };
    if weight.rank() != 2 || x.rank() == 0 {
        return refuse(
            Kind::Shape,
            format!("needs x [.., in] and weight [out, in]: x {}, weight {}", x.shape, weight.shape),
        );
    }
    let features = x.shape.dim(x.rank() - 1);
    let (out, takes) = (weight.shape.dim(0), weight.shape.dim(1));
    let shapes = format!("x {}, weight {}", x.shape, weight.shape);
    if features != takes {
        return refuse(Kind::Shape, format!("input has {features} features, the layer takes {takes}: {shapes}"));
    }
    if x.dtype != weight.dtype {
        return refuse(Kind::DType, format!("dtypes differ: x {x}, weight {weight}"));
    }
    if x.dtype == DType::Bool {
        return refuse(Kind::DType, format!("needs a tensor of numbers, got {x}"));
    }
    if let Some(bias) = inputs.get(2) {
        if bias.rank() != 1 || bias.shape.dim(0) != out {
            return refuse(
                Kind::Shape,
                format!("the layer makes {out} features, the bias has {}: {shapes}", bias.shape),
            );
        }
        if bias.dtype != x.dtype {
            return refuse(Kind::DType, format!("dtypes differ: x {x}, bias {bias}"));
        }
    }
    let mut shape = x.shape.clone();
    shape.set(x.rank() - 1, out);
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}

fn linear_body(b: &mut Builder<'_>, _: &[rtx_ir::Attr], inputs: &[ValueId]) -> Result<Outs> {
    let (x, weight, dtype) = (inputs[0], inputs[1], b.dtype(inputs[0]));
    let dot = Prim::Dot { batch: smallvec![], contract: smallvec![(b.rank(x) - 1, 1)] };
    let Some(&bias) = inputs.get(2) else { return Ok(smallvec![b.prim(dot, &[x, weight])?]) };
    let (x, weight, bias) = (widen(b, x)?, widen(b, weight)?, widen(b, bias)?);
    let y = b.prim(dot, &[x, weight])?;
    let y = b.add(y, bias)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// `dx = dy · weight`, `dweight = dyᵀ · x`, `dbias = Σ dy`, each summed over all rows.
fn linear_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (dy, x, weight) = (cx.ct(), cx.inputs[0], cx.inputs[1]);
    let lead = b.rank(dy) - 1;
    let mut grads: Grads = smallvec![None; cx.inputs.len()];
    if cx.wants[0] {
        let dot = Prim::Dot { batch: smallvec![], contract: smallvec![(lead, 0)] };
        grads[0] = Some(b.prim(dot, &[dy, weight])?);
    }
    if cx.wants[1] {
        let dot = Prim::Dot { batch: smallvec![], contract: (0..lead).map(|i| (i, i)).collect() };
        grads[1] = Some(b.prim(dot, &[dy, x])?);
    }
    if cx.wants.get(2) == Some(&true) {
        let rows: Vec<usize> = (0..lead).collect();
        grads[2] = Some(b.reduce(Fold::Sum, dy, &rows)?);
    }
    Ok(grads)
}

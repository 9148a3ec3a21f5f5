//! Complex numbers and their parts.
use super::*;

fn infer_part(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    if x.dtype.class() != Class::Complex {
        return Err(rules::refuse(op.name(), Kind::DType, format_args!("needs a complex tensor, got {x}")));
    }
    Ok(smallvec![Type { dtype: x.dtype.real(), shape: x.shape.clone() }])
}
fn infer_complex(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    rules::check_equal(op, inputs)?;
    let x = inputs[0];
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return Err(rules::refuse(op.name(), Kind::DType, format_args!("needs f32 or f64 parts, got {x}")));
    }
    Ok(smallvec![Type { dtype: x.dtype.complex(), shape: x.shape.clone() }])
}
fn part(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Function) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    Ok(smallvec![b.unary(f, x)?])
}

pub(in crate::prims) static REAL: OpDef = OpDef {
    sig: "real(Tensor self) -> Tensor",
    doc: "The real parts of complex numbers; a real tensor is its own.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x).class() == Class::Complex { part(b, def, a, Function::Real) } else { Ok(smallvec![x]) }
    },
    infer: infer_part,
    grad: Grad::Rule(|b, cx| {
        let zero = b.zeros_like(cx.ct())?;
        cx.each(|_| b.complex(cx.ct(), zero))
    }),
    saves: Saves::NONE,
    samples: &[Sample::exact("c64[3] = 1 -2 nan"), Sample::exact("c128[2,0]"), Sample::exact("f32[3]")],
    ..POINTWISE
};

pub(in crate::prims) static IMAG: OpDef = OpDef {
    sig: "imag(Tensor self) -> Tensor",
    doc: "The imaginary parts of complex numbers.",
    record: |b, def, a| part(b, def, a, Function::Imag),
    infer: infer_part,
    grad: Grad::Rule(|b, cx| {
        let zero = b.zeros_like(cx.ct())?;
        cx.each(|_| b.complex(zero, cx.ct()))
    }),
    saves: Saves::NONE,
    samples: &[Sample::exact("c64[3] = 1 -2 nan"), Sample::exact("c128[2] = 0.5 1")],
    refuses: &[Refusal::of("f32[2]", "imag: needs a complex tensor, got f32 [2]")],
    ..POINTWISE
};

pub(in crate::prims) static COMPLEX: OpDef = OpDef {
    sig: "complex(Tensor real, Tensor imag) -> Tensor",
    doc: "The complex numbers of real and imaginary parts, f32 or f64.",
    record: |b, def, a| {
        let (re, im) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
        if b.dtype(re) != b.dtype(im) {
            let what = format_args!("the parts differ in type: {} and {}", b.ty(re), b.ty(im));
            return Err(rules::refuse(def.name(), Kind::DType, what));
        }
        let shape = rules::broadcast_for(def.name(), &[&b.ty(re).shape, &b.ty(im).shape])?;
        let (re, im) = (b.expand(re, &shape)?, b.expand(im, &shape)?);
        Ok(smallvec![b.complex(re, im)?])
    },
    infer: infer_complex,
    grad: Grad::Rule(|b, cx| cx.each(|i| if i == 0 { b.real(cx.ct()) } else { b.imag(cx.ct()) })),
    saves: Saves::NONE,
    samples: &[
        Sample::exact("f32[4] = 0 -0 inf nan, f32[4] = 1 -0 nan 2"),
        Sample::exact("f64[2,3], f64[3]"),
        Sample::exact("f32[0], f32[0]"),
    ],
    refuses: &[
        Refusal::of("f32[2], f64[2]", "complex: the parts differ in type: f32 [2] and f64 [2]"),
        Refusal::of("bf16[2], bf16[2]", "complex: needs f32 or f64 parts, got bf16 [2]"),
    ],
    ..POINTWISE
};

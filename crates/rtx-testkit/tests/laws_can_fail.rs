//! Each law finds the fault that it is there for.
use rtx_ir::{Batch, Body, Grad, OpDef, Refusal, Sample, Saves, rules};
use rtx_testkit::{laws, transforms};
use smallvec::smallvec;

/// A square, right in everything.
const SQUARE: OpDef = OpDef {
    sig: "square(Tensor self) -> Tensor",
    doc: "`x x`.",
    body: Body::Composite(|b, _, v| Ok(smallvec![b.mul(v[0], v[0])?])),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let slope = b.mul(x, 2.0)?;
            b.mul(g, slope)
        })
    }),
    samples: &[Sample::grad("f32[2,3]", 1), Sample::exact("i64[2] in 0..3")],
    ..OpDef::DEFAULT
};
static RIGHT: OpDef = SQUARE;
static FROM_BODY: OpDef = OpDef { sig: "square_body(Tensor self) -> Tensor", grad: Grad::FromBody, ..SQUARE };
static WRONG_SLOPE: OpDef = OpDef { grad: Grad::Rule(|b, cx| cx.each(|_| b.mul(cx.ct(), cx.inputs[0]))), ..SQUARE };
static WRONG_SAVES: OpDef = OpDef { saves: Saves::OUTPUT, ..SQUARE };
/// Right in value, not differentiable in its cotangent and operand a second time: the slope is cut off by a round trip
/// through integers.
static CUT_OFF: OpDef = OpDef {
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let dtype = b.dtype(x);
            let bits = b.prim(rtx_ir::Prim::Bitcast(rtx_core::DType::I64), &[x])?;
            let x = b.prim(rtx_ir::Prim::Bitcast(dtype), &[bits])?;
            let slope = b.mul(x, 2.0)?;
            b.mul(g, slope)
        })
    }),
    samples: &[Sample::grad("f64[2,3]", 1)],
    ..SQUARE
};
static WRONG_TYPE: OpDef = OpDef {
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        Ok(smallvec![rtx_ir::Type::new(inputs[0].dtype, [1])])
    },
    ..SQUARE
};
static WRONG_MESSAGE: OpDef = OpDef { refuses: &[Refusal::of("1", "square: needs a tensor")], ..SQUARE };
static WRONG_DOC: OpDef = OpDef { doc: "no sentence", runtime: &["lr"], samples: &[], ..SQUARE };
/// Says that it is pointwise, and is not.
static WRONG_BATCH: OpDef = OpDef {
    batch: Batch::Pointwise,
    body: Body::Composite(|b, _, v| {
        let shape = b.shape(v[0]);
        let sum = b.reduce_keep(rtx_core::Fold::Sum, v[0], &[0])?;
        Ok(smallvec![b.expand(sum, &shape)?])
    }),
    samples: &[Sample::exact("i64[2,3] in 0..3")],
    ..SQUARE
};
/// Its gradient is no gradient of anything: the slope in one element depends on another, not the other way round.
static LOPSIDED: OpDef = OpDef {
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let first = b.slice(x, 0, 0, 1usize)?;
            let slope = b.mul(x, first)?;
            b.mul(g, slope)
        })
    }),
    samples: &[Sample::grad("f64[3]", 1)],
    ..SQUARE
};
/// Not linear in its cotangent.
static CROOKED: OpDef = OpDef {
    grad: Grad::Rule(|b, cx| {
        cx.each(|_| {
            let twice = b.mul(cx.inputs[0], 2.0)?;
            let g = b.mul(cx.ct(), cx.ct())?;
            b.mul(g, twice)
        })
    }),
    samples: &[Sample::grad("f64[3]", 1)],
    ..SQUARE
};
static NO_GRADIENT: OpDef = OpDef { grad: Grad::None, ..SQUARE };

#[test]
fn a_right_op_has_no_faults() {
    assert_eq!(laws::faults(&[&RIGHT, &FROM_BODY]), [""; 0]);
}

#[test]
fn every_fault_is_found() {
    assert!(laws::gradient_faults(&[&WRONG_SLOPE])[0].starts_with("square(f32[2,3]): slope in element 0 of input 0"));
    assert!(laws::gradient_faults(&[&NO_GRADIENT])[0].ends_with("square: has no gradient"));
    assert!(laws::saves_faults(&[&WRONG_SAVES])[0].contains("reads more than it saves"));
    assert_eq!(laws::gradient_faults(&[&CUT_OFF]), [""; 0]);
    assert!(laws::second_order_faults(&[&CUT_OFF])[0].contains("slope in element"));
    assert!(laws::inference_faults(&[&WRONG_TYPE])[0].ends_with("inference says f32 [1], the body gives f32 [2, 3]"));
    assert_eq!(laws::refusal_faults(&[&WRONG_MESSAGE]).len(), 1);
    assert_eq!(laws::hygiene_faults(&[&WRONG_DOC]).len(), 3);
    assert_eq!(laws::hygiene_faults(&[&RIGHT, &WRONG_SLOPE]).len(), 1);
}

#[test]
fn faults_of_transformations_are_found() {
    assert!(transforms::batch_faults(&[&WRONG_BATCH])[0].contains("example 0: element 0 is"));
    assert!(transforms::tangent_faults(&[&WRONG_SLOPE])[0].contains("forward mode"));
    assert!(transforms::jacobian_faults(&[&CROOKED])[0].contains("reverse mode"));
    assert!(transforms::hessian_faults(&[&LOPSIDED])[0].contains("[1, 0] is"));
}

/// A product with zeros among its factors has second derivatives: the products of all but two.
#[test]
fn products_with_zeros_have_second_derivatives() {
    use rtx_core::{DType, Fold};
    use rtx_ir::{Prim, ScatterOp, oracle::Tensor};
    for factors in [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]] {
        let x = Tensor::floats(DType::F64, [3], factors);
        let product =
            |b: &mut rtx_ir::Builder<'_>, v: &[rtx_ir::ValueId]| Ok(vec![b.reduce(Fold::Prod, v[0], &[0])?]);
        let mut random = rtx_testkit::Random::new(1);
        rtx_testkit::check_second_derivative(&product, std::slice::from_ref(&x), &mut random).expect("prod");
        let scattered = |b: &mut rtx_ir::Builder<'_>, v: &[rtx_ir::ValueId]| {
            Ok(vec![b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Mul }, &[v[0], v[1], v[2]])?])
        };
        let at = Tensor::ints(DType::I64, [3], [0, 0, 0]);
        for first in [0.0, 5.0] {
            let all = [Tensor::floats(DType::F64, [1], [first]), at.clone(), x.clone()];
            rtx_testkit::check_second_derivative(&scattered, &all, &mut random).expect("scatter_mul");
        }
    }
}

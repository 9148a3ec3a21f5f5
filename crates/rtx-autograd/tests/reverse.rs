//! The reverse walk: sums over paths, errors, depth, recomputation.
use rtx_autograd::{gradient, node_gradient, recompute};
use rtx_core::{DType, Kind, Location, Result};
use rtx_ir::oracle::{self, Tensor};
use rtx_ir::{Body, Builder, Grad, Graph, Op, OpDef, Type, ValueId, attrs, verify};
use smallvec::smallvec;

static PRODUCT: OpDef = OpDef {
    sig: "product(Tensor self, Tensor other) -> Tensor",
    body: Body::Composite(|b, _, v| Ok(smallvec![b.mul(v[0], v[1])?])),
    ..OpDef::DEFAULT
};
/// Its body is the operand itself.
static SAME: OpDef = OpDef {
    sig: "same(Tensor self) -> Tensor",
    body: Body::Composite(|_, _, v| Ok(smallvec![v[0]])),
    ..OpDef::DEFAULT
};
static NONE: OpDef = OpDef {
    sig: "opaque(Tensor self) -> Tensor",
    body: Body::Composite(|b, _, v| Ok(smallvec![b.exp(v[0])?])),
    grad: Grad::None,
    ..OpDef::DEFAULT
};

fn input(g: &mut Graph, dtype: DType) -> ValueId {
    g.push_input(Type::new(dtype, [2]), Location::caller())
}
fn slope(g: &Graph, v: ValueId, inputs: &[Tensor]) -> Vec<f64> {
    let values = oracle::eval(g, inputs).expect("runs");
    values[v.index()].elements.iter().map(|e| e.float()).collect()
}
/// The gradient of `f` at x = (1, 2) under the cotangent (1, 10).
fn gradient_of(f: impl Fn(&mut Builder<'_>, ValueId) -> Result<ValueId>) -> Result<Option<Vec<f64>>> {
    let mut g = Graph::new();
    let (x, ct) = (input(&mut g, DType::F64), input(&mut g, DType::F64));
    let mut b = Builder::new(&mut g, Location::caller());
    let y = f(&mut b, x)?;
    let found = gradient(&mut b, &[y], &[ct], &[x])?[0];
    verify(&g)?;
    let inputs = [Tensor::floats(DType::F64, [2], [1.0, 2.0]), Tensor::floats(DType::F64, [2], [1.0, 10.0])];
    Ok(found.map(|v| slope(&g, v, &inputs)))
}

#[test]
fn paths_are_summed() {
    let square = gradient_of(|b, x| b.mul(x, x)).expect("a gradient");
    assert_eq!(square, Some(vec![2.0, 40.0]));
    // An operand that stands in two places of a composite counts once a place, not twice.
    let product = gradient_of(|b, x| Ok(b.composite(&PRODUCT, attrs([]), &[x, x])?[0])).expect("a gradient");
    assert_eq!(product, square);
    let same = gradient_of(|b, x| Ok(b.composite(&SAME, attrs([]), &[x])?[0])).expect("a gradient");
    assert_eq!(same, Some(vec![1.0, 10.0]));
    let itself = gradient_of(|_, x| Ok(x)).expect("a gradient");
    assert_eq!(itself, Some(vec![1.0, 10.0]));
}

#[test]
fn what_does_not_depend_has_none() {
    assert_eq!(gradient_of(|b, x| b.zeros_like(x)).expect("recorded"), None);
    let steps = gradient_of(|b, x| {
        let whole = b.cast(x, DType::I64)?;
        b.cast(whole, DType::F64)
    });
    assert_eq!(steps.expect("recorded"), None);
    assert_eq!(gradient_of(|b, x| b.floor(x)).expect("recorded"), Some(vec![0.0, 0.0]));
}

#[test]
fn a_missing_rule_is_an_error_that_names_the_op() {
    let e = gradient_of(|b, x| Ok(b.composite(&NONE, attrs([]), &[x])?[0])).expect_err("no rule");
    assert_eq!((e.kind(), e.message()), (Kind::Autograd, "opaque: has no gradient"));
    let e = gradient_of(|b, x| b.cast(x, DType::I64)).expect_err("no float");
    assert_eq!(e.message(), "gradient: output 0 is i64 [2], only floats have gradients");
}

#[test]
fn integers_beside_floats_get_none() {
    let mut g = Graph::new();
    let (x, i, ct) = (input(&mut g, DType::F64), input(&mut g, DType::I64), input(&mut g, DType::F64));
    let op = Op::Prim(rtx_ir::Prim::Gather { axis: 0 });
    let mut b = Builder::new(&mut g, Location::caller());
    let y = b.apply(op.clone(), &[x, i]).expect("recorded")[0];
    let grads = node_gradient(&mut b, &op, &[x, i], &[y], &[Some(ct)], &[true, true]).expect("a gradient");
    assert!(grads[0].is_some() && grads[1].is_none());
    let nothing = node_gradient(&mut b, &op, &[x, i], &[y], &[None], &[true, true]).expect("a gradient");
    assert_eq!(nothing.as_slice(), [None, None]);
}

/// A3: a million nodes deep, without a deeper stack.
#[test]
fn depth_costs_no_stack() {
    let found = std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(|| {
            let mut g = Graph::new();
            let (x, ct) = (input(&mut g, DType::F32), input(&mut g, DType::F32));
            let mut b = Builder::new(&mut g, Location::caller());
            let mut y = x;
            for _ in 0..1_000_000 {
                y = b.neg(y).expect("recorded");
            }
            let found = gradient(&mut b, &[y], &[ct], &[x]).expect("a gradient")[0];
            found.map(|_| g.nodes().len())
        })
        .expect("a thread")
        .join();
    assert_eq!(found.expect("no overflow"), Some(2_000_002));
}

/// A4: recomputed nodes are the same program under a generation of their own.
#[test]
fn recomputation_records_again() {
    let mut g = Graph::new();
    let x = input(&mut g, DType::F64);
    let mut b = Builder::new(&mut g, Location::caller());
    let key = b.param(DType::I64, 7.into()).expect("a number");
    let bits = b.prim(rtx_ir::Prim::RandomBits { shape: [2].into() }, &[key, key]).expect("bits");
    let noise = b.cast(bits, DType::F64).expect("noise");
    let kept = b.exp(x).expect("kept");
    let y = b.mul(kept, noise).expect("y");
    let z = b.sin(y).expect("z");
    let before = g.nodes().len();
    let mut b = Builder::with_generation(&mut g, Location::caller(), 1);
    let again = recompute(&mut b, &[z], &[kept]).expect("recorded");
    assert_ne!(again, [z]);
    verify(&g).expect("well-formed");
    let new: Vec<_> = g.nodes()[before..].iter().map(|n| (n.op.name(), n.generation)).collect();
    assert_eq!(new, [("random_bits", 1), ("cast", 1), ("mul", 1), ("sin", 1)]);
    let values = oracle::eval(&g, &[Tensor::floats(DType::F64, [2], [0.5, 1.5])]).expect("runs");
    assert_eq!(values[again[0].index()], values[z.index()]);
}

/// Forward mode agrees with differences: y = x sin(x) + x, moved along t.
#[test]
fn tangents_are_directional_derivatives() {
    let mut g = Graph::new();
    let (x, t) = (input(&mut g, DType::F64), input(&mut g, DType::F64));
    let mut b = Builder::new(&mut g, Location::caller());
    let s = b.sin(x).expect("recorded");
    let p = b.composite(&PRODUCT, attrs([]), &[x, s]).expect("recorded")[0];
    let y = b.add(p, x).expect("recorded");
    let other = b.zeros_like(x).expect("recorded");
    let found = rtx_autograd::tangent(&mut b, &[y, other], &[x], &[t]).expect("a tangent");
    assert_eq!(found[1], None);
    verify(&g).expect("well-formed");
    let (at, along) = ([0.5f64, -1.5], [2.0, 3.0]);
    let inputs = [Tensor::floats(DType::F64, [2], at), Tensor::floats(DType::F64, [2], along)];
    let got = slope(&g, found[0].expect("depends"), &inputs);
    for i in 0..2 {
        let want = along[i] * (at[i].sin() + at[i] * at[i].cos() + 1.0);
        assert!((got[i] - want).abs() < 1e-12, "{got:?}");
    }
}

//! What users' calls become: promotion, broadcasting and numbers, as PyTorch does it.
use rtx_core::{Arith, DType, Function, Location, Scalar, Shape};
use rtx_ir::oracle::{self, Tensor};
use rtx_ir::{Arg, Builder, Graph, OpDef, Prim, Type, prims, text};

fn arith(f: Arith) -> &'static OpDef {
    prims::def(&Prim::Binary(f))
}
/// The type of a call's result, and the graph as text.
fn recorded(def: &'static OpDef, args: &[Side]) -> (Type, String) {
    let mut g = Graph::new();
    let args: Vec<Arg> = args
        .iter()
        .map(|a| match a {
            Side::Tensor(d, s) => Arg::Value(g.push_input(Type::new(*d, Shape::of(s)), Location::caller())),
            Side::Number(x) => Arg::Scalar(*x),
        })
        .collect();
    let bound = rtx_ir::Bound(args.into_iter().collect());
    let out = Builder::new(&mut g, Location::caller()).call(def, bound).expect("recorded")[0];
    (g.ty(out).clone(), text::print(&g))
}
#[derive(Clone, Copy)]
enum Side {
    Tensor(DType, &'static [usize]),
    Number(Scalar),
}
use DType::*;
use Side::{Number, Tensor as T};
const HALF: Side = Number(Scalar::Float(0.5));
const TWO: Side = Number(Scalar::Int(2));

#[test]
fn dtypes_meet_as_in_pytorch() {
    let add = arith(Arith::Add);
    let table = [
        (add, T(F32, &[2]), T(F64, &[2]), F64),
        (add, T(I64, &[2]), T(F32, &[2]), F32),
        (add, T(Bool, &[2]), T(I32, &[2]), I32),
        (add, T(Bool, &[2]), T(Bool, &[2]), Bool),
        (add, T(F16, &[2]), T(BF16, &[2]), F32),
        // A tensor of rank 0 counts by its class only.
        (add, T(F32, &[2]), T(F64, &[]), F32),
        (add, T(I64, &[2]), T(F64, &[]), F64),
        (add, T(I32, &[2]), T(I64, &[]), I32),
        (add, T(F32, &[]), T(F64, &[]), F64),
        // So does a number.
        (add, T(F32, &[2]), HALF, F32),
        (add, T(BF16, &[2]), HALF, BF16),
        (add, T(F64, &[2]), HALF, F64),
        (add, T(I64, &[2]), HALF, F32),
        (add, T(I32, &[2]), TWO, I32),
        (add, T(Bool, &[2]), TWO, I64),
        (add, T(F32, &[]), TWO, F32),
        (add, HALF, T(I64, &[2]), F32),
        (arith(Arith::Div), T(I64, &[2]), T(I64, &[2]), F32),
        (arith(Arith::Div), T(Bool, &[2]), TWO, F32),
        (arith(Arith::Div), T(F64, &[2]), TWO, F64),
        (arith(Arith::Atan2), T(I64, &[2]), T(I64, &[2]), F32),
        (arith(Arith::Rem), T(I64, &[2]), TWO, I64),
        (arith(Arith::And), T(Bool, &[2]), T(U8, &[2]), U8),
        (prims::def(&Prim::Compare(rtx_core::Comparison::Lt)), T(I64, &[2]), HALF, Bool),
    ];
    for (i, (def, a, b, want)) in table.into_iter().enumerate() {
        assert_eq!(recorded(def, &[a, b]).0, Type::new(want, [2]).shaped_like(&a, &b), "row {i}: {}", def.name());
    }
    let exp = prims::def(&Prim::Unary(Function::Exp));
    assert_eq!(recorded(exp, &[T(Bool, &[3])]).0, Type::new(F32, [3]));
    assert_eq!(recorded(exp, &[T(BF16, &[3])]).0, Type::new(BF16, [3]));
}
trait ShapedLike {
    fn shaped_like(self, a: &Side, b: &Side) -> Self;
}
impl ShapedLike for Type {
    /// Rank 0 where neither side has a dim.
    fn shaped_like(self, a: &Side, b: &Side) -> Type {
        let ranked = |s: &Side| matches!(s, T(_, [_, ..]));
        if ranked(a) || ranked(b) { self } else { Type::new(self.dtype, []) }
    }
}

#[test]
fn what_is_recorded() {
    let (_, add) = recorded(arith(Arith::Add), &[T(F32, &[2, 1]), T(I64, &[3])]);
    assert_eq!(
        add,
        "%0: f32 [2, 1] = input\n\
         %1: i64 [3] = input\n\
         %2: f32 [2, 3] = expand %0\n\
         %3: f32 [3] = cast %1\n\
         %4: f32 [2, 3] = expand %3\n\
         %5: f32 [2, 3] = add %2 %4\n"
    );
    // A number is no part of the program; beside bf16 it stays in f32 and the result is rounded once.
    let (_, scaled) = recorded(arith(Arith::Mul), &[T(BF16, &[2]), Number(Scalar::Float(0.1))]);
    assert_eq!(
        scaled,
        "%0: bf16 [2] = input\n\
         %1: f32 [2] = cast %0\n\
         %2: f32 [] = param {0.1}\n\
         %3: f32 [2] = expand %2\n\
         %4: f32 [2] = mul %1 %3\n\
         %5: bf16 [2] = cast %4\n"
    );
    // An alpha of 1 leaves no trace; another one is a run-time number.
    let (_, plain) = recorded(arith(Arith::Sub), &[T(F32, &[2]), T(F32, &[2]), Number(Scalar::Int(1))]);
    assert!(plain.ends_with("%2: f32 [2] = sub %0 %1\n"), "{plain}");
    let (_, scaled) = recorded(arith(Arith::Sub), &[T(F32, &[2]), T(F32, &[2]), TWO]);
    assert!(scaled.contains("= param {2.0}"), "{scaled}");
}

#[test]
fn symbols_pass_through_a_reshape() {
    let mut g = Graph::new();
    let s = rtx_core::Dim::Sym { id: rtx_core::SymId(0), max: 8 };
    let x = g.push_input(Type::new(F32, Shape::from_iter([s, 4usize.into(), 2usize.into()])), Location::caller());
    let mut b = Builder::new(&mut g, Location::caller());
    let bound = [Arg::Value(x), Arg::Ints([-1, 8].into_iter().collect())];
    let y = b.call(prims::def(&Prim::Reshape(Shape::scalar())), bound).expect("recorded")[0];
    assert_eq!(b.shape(y), Shape::from_iter([s, 8usize.into()]));
    let values = oracle::eval(&g, &[Tensor::floats(F32, [3, 4, 2], (0..24).map(f64::from))]).expect("runs");
    assert_eq!(values[y.index()].ty, Type::new(F32, [3, 8]));
}

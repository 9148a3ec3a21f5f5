//! The text form, the verifier and `.rtxir` files: what they read like and what they refuse.
use rtx_core::{Arith, DType, Dim, Kind, Location, Shape, SymId};
use rtx_ir::{Attr, Body, Builder, Graph, Op, OpDef, Prim, Type, ValueId, attrs, prims, text, verify};
use smallvec::smallvec;

/// Two outputs, attributes of every kind.
static PAIR: OpDef = OpDef {
    sig: "pair.both(Tensor self, int dim, float p, bool flag, int[] list, ScalarType dtype, str how) -> (Tensor, Tensor)",
    infer: |_, x| Ok(smallvec![x[0].clone(), Type::new(DType::I64, [])]),
    body: Body::Composite(|b, _, x| {
        let zero = b.zeros(DType::I64, &Shape::scalar())?;
        Ok(smallvec![x[0], zero])
    }),
    ..OpDef::DEFAULT
};
fn lookup(name: &str) -> Option<&'static OpDef> {
    (name == "pair.both").then_some(&PAIR)
}

const PROGRAM: &str = "\
%0: f32 [s0<=8, 3] = input
%1: f32 [] = param {0.1}
%2: f32 [] = constant {-0.0}
%3: f32 [] = constant {0x7fc00001}
%4: f32 [s0<=8, 3] = expand %1
%5: f32 [s0<=8, 3] = mul %0 %4
%6: i64 [] = constant {-9}
%7: f32 [s0<=8, 2] = slice %5 %6 {axis: 1, len: 2, step: -1} @3
%8: f32 [s0<=8, 2], %9: i64 [] = call pair.both %7 {-1, 0.5, true, [1, -2], bf16, \"how\", none}
%10: f32 [s0<=8, s0<=8] = dot_general %8 %8 {batch: [], contract: [1:1]}
%11: f32 [3] = reduce_sum %5 {axes: [0]}
%12: u32 [4] = random_bits %9 %9
%13: f64 [2] = ghost
";

#[test]
fn it_reads_and_prints_the_same() {
    let graph = text::parse(PROGRAM, &lookup).expect("a graph");
    assert_eq!(text::print(&graph), PROGRAM);
    let Op::Composite(def, found) = &graph.nodes()[8].op else { panic!("a composite") };
    let list = Attr::Ints([1, -2].into_iter().collect());
    let want = attrs([
        Attr::Int(-1),
        Attr::Float(0.5),
        Attr::Bool(true),
        list,
        Attr::DType(DType::BF16),
        Attr::Str("how"),
        Attr::None,
    ]);
    assert_eq!((*def, found), (&PAIR, &want));
    assert_eq!(graph.ty(ValueId(0)).shape.dim(0), Dim::Sym { id: SymId(0), max: 8 });
    let file = text::write_file(&graph, &[ValueId(5), ValueId(9)]);
    assert!(file.starts_with("rtxir 1 numerics ") && file.ends_with("\nreturn %5 %9\n"), "{file}");
}

#[test]
fn what_is_wrong_has_its_line() {
    let cases = [
        ("%1: f32 [] = input\n", "graph text: line 1: the next value is %0, not \"%1\""),
        ("%0: f32 [2] = input\n%1: f32 [3] = neg %0\n", "graph text: line 2: neg: the types are not what it makes"),
        ("%0: f32 [2] = neg %0\n", "graph text: line 1: %0 is not made yet"),
        ("%0: f32 [2] = input\n%1: f32 [2] = add %0\n", "graph text: line 2: add: takes 2 operands, got 1"),
        ("%0: f32 [2] = dance\n", "graph text: line 1: no op is called \"dance\""),
        ("%0: f32 [2] = call dance\n", "graph text: line 1: no op is called \"dance\""),
        ("%0: f33 [2] = input\n", "graph text: line 1: \"f33 [2]\" is no type"),
        (
            "%0: f32 [4294967296, 4294967296, 0] = input\n",
            "graph text: line 1: \"f32 [4294967296, 4294967296, 0]\" is too large",
        ),
        ("%0: u8 [] = constant {256}\n", "graph text: line 1: \"256\" is no u8"),
        ("%0: i64 [2] = iota\n", "graph text: line 1: axis is missing"),
        ("%0: i64 [2] = iota {axis: 0\n", "graph text: line 1: a brace is left open"),
        ("%0: f32 [2] = ghost\n%1: f32 [2] = neg %0\n", "graph text: verify: node 1 (neg): reads %0, a ghost"),
        ("what\n", "graph text: line 1: not a node"),
    ];
    for (program, want) in cases {
        let e = text::parse(program, &lookup).expect_err(program);
        assert_eq!((e.kind(), e.message()), (Kind::Format, want), "{program}");
    }
    let files: [(&[u8], &str); 6] = [
        (b"", "rtxir: no header line"),
        (b"\xff\n", "rtxir: not text"),
        (b"{\"a\": 1}\n", "rtxir: not an rtxir file"),
        (b"rtxir 9 numerics 1\nreturn\n", "rtxir: format \"9\" is not known, only 1"),
        (b"rtxir 1 numerics 1\n%0: f32 [2] = input\n", "rtxir: cut off: no return line"),
        (b"rtxir 1 numerics 1\n%0: f32 [2] = input\nreturn %1\n", "rtxir: return: %1 is not made yet"),
    ];
    for (bytes, want) in files {
        assert_eq!(text::read_file(bytes, &lookup).expect_err(want).message(), want);
    }
}

#[test]
fn the_verifier_finds_what_inference_does_not_say() {
    let mut graph = Graph::new();
    let here = Location::caller();
    let x = graph.push_input(Type::new(DType::F32, [2]), here);
    let neg = Op::Prim(Prim::Unary(rtx_core::Function::Neg));
    graph.push(neg.clone(), smallvec![x], [Type::new(DType::F32, [3])], here, 0);
    let e = verify(&graph).expect_err("a wrong type");
    assert_eq!(e.message(), "verify: node 1 (neg): is f32 [3], inference says f32 [2]");

    let mut graph = Graph::new();
    graph.push(neg, smallvec![ValueId(1)], [Type::new(DType::F32, [2])], here, 0);
    graph.push_input(Type::new(DType::F32, [2]), here);
    let e = verify(&graph).expect_err("out of order");
    assert_eq!(e.message(), "verify: node 0 (neg): reads %1, which comes later");
}

/// Every primitive's definition is in the list, under the name that text uses for it or a user's.
#[test]
fn the_list_of_primitives_is_whole() {
    let functions = rtx_core::Function::ALL.iter().map(|f| prims::def(&Prim::Unary(*f)));
    let ariths = Arith::ALL.iter().map(|f| prims::def(&Prim::Binary(*f)));
    let comparisons = rtx_core::Comparison::ALL.iter().map(|f| prims::def(&Prim::Compare(*f)));
    let folds = rtx_core::Fold::ALL.iter().map(|f| prims::def(&Prim::Reduce { fold: *f, axes: smallvec![] }));
    let scan = |f: &rtx_core::Fold| prims::def(&Prim::Scan { fold: *f, axis: 0, reverse: false });
    let scans = rtx_core::Fold::ALL.iter().map(scan);
    let s = Shape::scalar;
    let others = [
        Prim::Constant { dtype: DType::F32, bits: 0 },
        Prim::Param { dtype: DType::F32 },
        Prim::Iota { shape: s(), axis: 0 },
        Prim::RandomBits { shape: s() },
        Prim::Fma,
        Prim::Select,
        Prim::Cast(DType::F32),
        Prim::Bitcast(DType::F32),
        Prim::Reshape(s()),
        Prim::Permute(smallvec![]),
        Prim::Expand(s()),
        Prim::Slice { axis: 0, len: Dim::Const(1), step: 1 },
        Prim::Pad { axis: 0, before: 0, after: 0 },
        Prim::Concat { axis: 0 },
        Prim::UpdateSlice { axis: 0, step: 1 },
        Prim::Gather { axis: 0 },
        Prim::Scatter { axis: 0, op: rtx_ir::ScatterOp::Add },
        Prim::ArgReduce { extremum: rtx_core::Extremum::Max, axis: 0 },
        Prim::LinearScan { axis: 0, reverse: false },
        Prim::Sort { axis: 0, descending: false },
        Prim::Dot { batch: smallvec![], contract: smallvec![] },
        Prim::Factor(rtx_ir::Factor::Lu),
        Prim::TriangularSolve { upper: true, transpose: false, unit: false },
        Prim::Fft(rtx_ir::Fft {
            kind: rtx_ir::FftKind::FromHalf { len: 3 },
            axis: 1,
            inverse: true,
            norm: rtx_ir::FftNorm::Root,
        }),
        Prim::Loop(program()),
        Prim::If { then: program(), otherwise: program() },
        Prim::Collective { kind: rtx_ir::Collective::AllReduce(rtx_core::Fold::Sum), members: 2 },
        Prim::CustomCall { name: "f".into(), results: smallvec![] },
        Prim::Check("".into()),
        Prim::Windows { axis: 0, size: 1, stride: 1, dilation: 1 },
        Prim::OverlapAdd { axis: 0, len: 1, stride: 1, dilation: 1 },
        Prim::Conv(Box::new(rtx_ir::Convolution { dims: smallvec![rtx_ir::ConvDim::PLAIN], groups: 1 })),
        Prim::Barrier,
    ];
    let all: Vec<&OpDef> = functions
        .chain(ariths)
        .chain(comparisons)
        .chain(folds)
        .chain(scans)
        .chain(others.iter().map(prims::def))
        .collect();
    assert_eq!(all.len(), prims::ALL.len());
    all.iter().for_each(|d| assert!(prims::ALL.iter().any(|x| std::ptr::eq(*x, *d)), "{d:?} is not in the list"));
}

fn program() -> rtx_ir::Program {
    text::parse_program("(%0: f32 [2] = input; return %0)", &lookup).expect("a program")
}

/// Programs within programs print and parse; whatever is wrong inside is said with the line outside.
#[test]
fn programs_nest() {
    let inner =
        "(%0: i64 [] = input; %1: f32 [2] = input; %2: f32 [2] = check %1 %1 {message: \"a \\\"b\\\"; c\"}; return %2)";
    assert!(text::parse_program(inner, &lookup).is_err(), "the condition is no bool");
    let body = "(%0: i64 [] = input; %1: f32 [2] = input; %2: bool [2] = lt %1 %1; \
                %3: f32 [2] = check %1 %2 {message: \"a \\\"b\\\"; c)\"}; return %3)";
    let outer = format!("%0: i64 [] = input\n%1: f32 [2] = input\n%2: f32 [2] = loop %0 %1 {{body: {body}}} @2\n");
    let graph = text::parse(&outer, &lookup).expect("a graph");
    assert_eq!(text::print(&graph), outer);
    let deep = (0..12).fold(String::from("(%0: i64 [] = input; return)"), |p, _| {
        format!("(%0: i64 [] = input; %1: i64 [] = loop %0 {{body: {p}}}; return)")
    });
    let e = text::parse_program(&deep, &lookup).expect_err("too deep");
    assert_eq!(e, "programs within programs, too deep");
    let e = text::parse("%0: i64 [] = input\n%1: i64 [] = loop %0 {body: (return %5)}\n", &lookup).expect_err("wrong");
    assert_eq!(e.message(), "graph text: line 2: %5 is not made yet");
}

/// Reading and printing walk a program once.
#[test]
fn a_long_program_is_read_in_one_go() {
    let mut graph = Graph::new();
    let mut v = graph.push_input(Type::new(DType::F32, [2]), Location::caller());
    for _ in 0..20_000 {
        v = Builder::new(&mut graph, Location::caller()).neg(v).expect("recorded");
    }
    let printed = text::print(&graph);
    assert_eq!(text::print(&text::parse(&printed, &lookup).expect("a graph")), printed);
}

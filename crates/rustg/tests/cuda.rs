//! The CUDA printer: kernels of each kind as files that are reviewed as diffs, and mathematics that is the CPU's.
//! `RTX_BLESS=1` writes the files anew. That they compile and run is for machines that can: `rtx-conformance cuda`.
use rtx_core::{Arith, DType, Extremum, Fold, Function};
use rustg::cuda::{Grid, print};
use rustg::{Axis, AxisId, BufferDecl, BufferId, Id, Indexed, Instr, Nest, Size, Store, View, schedule};
use std::collections::BTreeSet;
use std::path::Path;

fn view(buffer: u32, strides: &[(u32, i64)]) -> View {
    let strides = strides.iter().map(|&(a, s)| (AxisId(a), Size::Const(s))).collect();
    View { buffer: BufferId(buffer), strides, offset: Size::Const(0), indexed: vec![] }
}
fn buffers(types: &[(DType, bool)]) -> Vec<BufferDecl> {
    types.iter().map(|&(dtype, written)| BufferDecl { dtype, written }).collect()
}
fn axis(extent: Size, walk: bool) -> Axis {
    Axis { extent, walk }
}

/// The kernel after the prelude.
fn kernel(nest: &Nest, sizes: &[i64]) -> String {
    let program = schedule(nest).expect("a good nest");
    let text = print(&program, &Grid::new(&program, sizes));
    let at = text.find("typedef i32 ix;").or_else(|| text.find("typedef i64 ix;")).expect("a kernel");
    text[at..].to_owned()
}

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda").join(format!("{name}.cu"));
    if std::env::var_os("RTX_BLESS").is_some() {
        std::fs::write(&path, text).expect("writes");
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, want, "{name}.cu; RTX_BLESS=1 writes it anew");
}

/// `y = exp(x) * row`, bf16 by way of f32, sizes as arguments.
#[test]
fn pointwise() {
    let mut nest =
        Nest { buffers: buffers(&[(DType::BF16, false), (DType::F32, false), (DType::F32, true)]), ..Nest::default() };
    let (m, n) = (nest.size_arg(), nest.size_arg());
    nest.axes = vec![axis(m, false), axis(n, false)];
    let by_row = View { strides: vec![(AxisId(0), n), (AxisId(1), Size::Const(1))], ..view(0, &[]) };
    let x = nest.push(Instr::Load(by_row.clone()));
    let x = nest.push(Instr::Cast(DType::F32, x));
    let row = nest.push(Instr::Load(view(1, &[(1, 1)])));
    let e = nest.push(Instr::Unary(Function::Exp, x));
    let y = nest.push(Instr::Binary(Arith::Mul, e, row));
    nest.stores = vec![Store { view: View { buffer: BufferId(2), ..by_row }, value: y }];
    check("pointwise", &kernel(&nest, &[5, 7]));
}

/// `y = x - max(x)` along rows, the largest one's place beside.
#[test]
fn rows() {
    let mut nest =
        Nest { buffers: buffers(&[(DType::F32, false), (DType::F32, true), (DType::I64, true)]), ..Nest::default() };
    nest.axes = vec![axis(Size::Const(6), false), axis(Size::Const(9000), true)];
    let x = nest.push(Instr::Load(view(0, &[(0, 9000), (1, 1)])));
    let most = nest.push(Instr::Reduce(Fold::Max, x));
    let place = nest.push(Instr::ArgReduce(Extremum::Max, x));
    let y = nest.push(Instr::Binary(Arith::Sub, x, most));
    nest.stores =
        vec![Store { view: view(1, &[(0, 9000), (1, 1)]), value: y }, Store { view: view(2, &[(0, 1)]), value: place }];
    check("rows", &kernel(&nest, &[]));
}

/// Sums down columns.
#[test]
fn columns() {
    let mut nest = Nest { buffers: buffers(&[(DType::F32, false), (DType::F32, true)]), ..Nest::default() };
    nest.axes = vec![axis(Size::Const(300), false), axis(Size::Const(64), true)];
    let x = nest.push(Instr::Load(view(0, &[(0, 1), (1, 300)])));
    let sum = nest.push(Instr::Reduce(Fold::Sum, x));
    nest.stores = vec![Store { view: view(1, &[(0, 1)]), value: sum }];
    check("columns", &kernel(&nest, &[]));
}

/// Rows picked by checked indices, where random bits say so.
#[test]
fn gather_and_random() {
    let mut nest =
        Nest { buffers: buffers(&[(DType::F32, false), (DType::I64, false), (DType::F32, true)]), ..Nest::default() };
    nest.axes = vec![axis(Size::Const(4), false), axis(Size::Const(3), false)];
    let index = nest.push(Instr::Load(view(1, &[(0, 1)])));
    let part = Indexed { index, stride: Size::Const(3), bound: Size::Const(10), checked: true };
    let x = nest.push(Instr::Load(View { indexed: vec![part], ..view(0, &[(1, 1)]) }));
    let (key, at) = (nest.push(Instr::Const { dtype: DType::I64, bits: 7 }), nest.push(Instr::Iota(AxisId(0))));
    let bits = nest.push(Instr::Random { key, ordinal: key, index: at });
    let half = nest.push(Instr::Const { dtype: DType::U32, bits: 1 << 31 });
    let keep = nest.push(Instr::Compare(rtx_core::Comparison::Lt, bits, half));
    let zero = nest.push(Instr::Const { dtype: DType::F32, bits: 0 });
    let y = nest.push(Instr::Select(keep, x, zero));
    nest.stores = vec![Store { view: view(2, &[(0, 3), (1, 1)]), value: y }];
    check("gather_and_random", &kernel(&nest, &[]));
}

/// One size or another: the text is the same where the grid is (contract S0).
#[test]
fn sizes_are_arguments() {
    let mut nest = Nest { buffers: buffers(&[(DType::F32, false), (DType::F32, true)]), ..Nest::default() };
    let n = nest.size_arg();
    nest.axes = vec![axis(n, false)];
    let x = nest.push(Instr::Load(view(0, &[(0, 1)])));
    let y = nest.push(Instr::Unary(Function::Neg, x));
    nest.stores = vec![Store { view: view(1, &[(0, 1)]), value: y }];
    let program = schedule(&nest).expect("a good nest");
    let grids: BTreeSet<u64> = (2..100).map(|n| Grid::new(&program, &[n]).number()).collect();
    assert_eq!(grids.len(), 1);
    assert!(!Grid::new(&program, &[1 << 40]).narrow, "addresses of large tensors are wide");
    assert_eq!(Grid::new(&program, &[1000]).launch(&program, &[1000]).blocks, 4);
    assert_eq!(Grid::new(&program, &[0]).launch(&program, &[0]).blocks, 0);
    let _: Id = y;
}

/// The numbers of a text with enough digits to be coefficients.
fn coefficients(text: &str) -> BTreeSet<String> {
    let plain = text.replace('_', "");
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == 'e' || c == '-';
    let words = plain.split(|c: char| !is_part(c)).map(|w| w.trim_matches('-').trim_end_matches('e'));
    let long = words.filter(|w| w.contains('.') && w.chars().filter(char::is_ascii_digit).count() >= 8);
    long.filter_map(|w| w.parse::<f64>().ok()).map(|x| format!("{x:e}")).collect()
}

/// Contract N7: the printer's polynomials are the CPU's.
#[test]
fn the_mathematics_is_one() {
    let source = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        std::fs::read_to_string(path).expect("a source of this crate")
    };
    let ours = coefficients(&[source("math.rs"), source("math/special.rs")].concat());
    let theirs = coefficients(&source("cuda/math.cu"));
    let missing: Vec<&String> = ours.difference(&theirs).collect();
    assert!(missing.is_empty(), "in math.rs and not in math.cu: {missing:?}");
}

/// The same with rows that threads share evenly: eight neighbours each, in one piece where 16 bytes hold them.
#[test]
fn neighbours() {
    let mut nest = Nest { buffers: buffers(&[(DType::BF16, false), (DType::BF16, true)]), ..Nest::default() };
    let (m, n) = (nest.size_arg(), nest.size_arg());
    nest.axes = vec![axis(m, false), axis(n, false)];
    let by_row = View { strides: vec![(AxisId(0), n), (AxisId(1), Size::Const(1))], ..view(0, &[]) };
    let x = nest.push(Instr::Load(by_row.clone()));
    let wide = nest.push(Instr::Cast(DType::F32, x));
    let y = nest.push(Instr::Unary(Function::Exp, wide));
    let y = nest.push(Instr::Cast(DType::BF16, y));
    nest.stores = vec![Store { view: View { buffer: BufferId(1), ..by_row }, value: y }];
    check("neighbours", &kernel(&nest, &[512, 4096]));
}

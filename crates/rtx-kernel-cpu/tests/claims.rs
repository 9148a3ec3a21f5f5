//! Each claim against what its node means (the oracle on the same operands), for operands of several layouts; bit for
//! bit the same on every instruction set and for one, two and three threads.
#![allow(unsafe_code, reason = "kernels are launched on raw memory")]

use rtx_core::{DType, Layout, Location, contiguous_strides};
use rtx_cpu::{CpuDevice, Isa, pool, set_isa};
use rtx_hal::{Device, DeviceError, ErrorSlot, Fault, KernelSource, Lang, Launch};
use rtx_ir::oracle::{self, Tensor};
use rtx_ir::{Builder, Graph, NodeId, Type};
use rtx_plan::{Claimed, Grouped};
use rtx_testkit::{Random, draw, record};
use std::sync::{Arc, Mutex, PoisonError};

/// Instruction set and threads are the process's.
static SETTING: Mutex<()> = Mutex::new(());

/// Row-major, or with the order of axes in memory reversed.
fn layout(ty: &Type, reversed: bool) -> Layout {
    let sizes = ty.shape.sizes();
    if !reversed {
        return Layout::contiguous(&sizes);
    }
    let turned: Vec<usize> = sizes.iter().rev().copied().collect();
    let mut strides = contiguous_strides(&turned);
    strides.reverse();
    Layout { offset: 0, strides }
}

/// The bytes of a tensor that lies so.
fn place(tensor: &Tensor, layout: &Layout) -> Vec<u8> {
    let (dense, size) = (tensor.to_bytes(), tensor.ty.dtype.size());
    let sizes = tensor.ty.shape.sizes();
    let mut bytes = vec![0; dense.len().max(size)];
    for i in 0..tensor.elements.len() {
        let (mut rest, mut at) = (i, 0);
        for (n, s) in sizes.iter().zip(&layout.strides).rev() {
            at += (rest % n) as isize * s;
            rest /= n;
        }
        let at = at as usize * size;
        bytes[at..at + size].copy_from_slice(&dense[i * size..(i + 1) * size]);
    }
    bytes
}

/// The common stride of each group; `None` where its axes have none.
fn group_strides(grouped: &Grouped, ty: &Type, layout: &Layout) -> Option<Vec<i64>> {
    let sizes = ty.shape.sizes();
    let follow =
        |g: &[usize]| g.windows(2).all(|w| layout.strides[w[0]] == layout.strides[w[1]] * sizes[w[1]] as isize);
    grouped.groups.iter().map(|g| follow(g).then(|| g.last().map_or(0, |&a| layout.strides[a] as i64))).collect()
}

/// A claimed node with everything needed to run it.
struct Case {
    graph: Graph,
    claimed: Claimed,
    values: Vec<Tensor>,
    name: String,
}

/// Records a call and finds the node that `claim` takes.
fn claimed_call(op: &str, args: &str, f64: bool) -> Case {
    let def = rtx_ops::find(op).expect(op);
    let text: &'static str = Box::leak(args.to_string().into_boxed_str());
    let drawn = draw(def.sig, text, &mut Random::new(7)).expect(args);
    let drawn: Vec<_> = drawn.into_iter().map(|d| if f64 { d.in_f64() } else { d }).collect();
    let mut graph = Graph::new();
    let (bound, inputs) = record(&mut graph, &drawn);
    Builder::new(&mut graph, Location::caller()).call(def, bound).expect(args);
    let tensors: Vec<Tensor> = drawn.iter().flat_map(|d| d.tensors().to_vec()).collect();
    assert_eq!(inputs.len(), tensors.len());
    let values = oracle::eval(&graph, &tensors).expect(args);
    let target = CpuDevice::new(vec![]).target().clone();
    let claimed = (0..graph.nodes().len())
        .rev()
        .find_map(|i| rtx_kernel_cpu::claims().iter().find_map(|c| c.claim(&graph, NodeId(i as u32), &target)))
        .unwrap_or_else(|| panic!("nobody claims {op}({args})"));
    Case { graph, claimed, values, name: format!("{op}({args})") }
}

/// The outputs' bytes, and what was reported.
type Outcome = (Vec<Vec<u8>>, Option<DeviceError>);

impl Case {
    fn run(&self, reversed: bool) -> Outcome {
        let device: Arc<dyn Device> = Arc::new(CpuDevice::new(rtx_kernel_cpu::natives()));
        let source = KernelSource { name: self.name.clone(), lang: Lang::Native, text: self.claimed.text.clone() };
        let code = device.load(&source).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let size = |d: &[rtx_core::Dim]| d.iter().map(|d| d.bound() as i64).product::<i64>();
        let mut sizes: Vec<i64> = self.claimed.dims.iter().map(|d| size(d)).collect();
        let mut memory = Vec::new();
        for grouped in &self.claimed.operands {
            let tensor = &self.values[grouped.value.index()];
            // The compiler copies an operand whose axes have no common stride.
            let fits = |r: bool| group_strides(grouped, &tensor.ty, &layout(&tensor.ty, r));
            let (strides, turned) = fits(reversed).map_or_else(|| (fits(false), false), |s| (Some(s), reversed));
            sizes.extend(strides.expect("dense axes have a common stride"));
            memory.push(place(tensor, &layout(&tensor.ty, turned)));
        }
        for grouped in &self.claimed.outputs {
            let ty = self.graph.ty(grouped.value);
            let dense = Layout::contiguous(&ty.shape.sizes());
            sizes.extend(group_strides(grouped, ty, &dense).expect("outputs are dense"));
            memory.push(vec![0xAA; ty.bytes().max(8)]);
        }
        let buffers: Vec<*mut u8> = memory.iter_mut().map(|bytes| bytes.as_mut_ptr()).collect();
        let error = ErrorSlot::default();
        // SAFETY: every buffer has the elements that its strides reach.
        unsafe { device.launch(&*code, &Launch { buffers: &buffers, sizes: &sizes, error: &error }) }.expect("runs");
        let outputs = memory.split_off(self.claimed.operands.len());
        (outputs, error.take())
    }

    /// All ways of running it give the same bits.
    fn run_everywhere(&self) -> Outcome {
        let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first: Option<Outcome> = None;
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                for reversed in [false, true] {
                    set_isa(Some(isa));
                    pool::set_threads(threads);
                    let got = self.run(reversed);
                    let want = first.get_or_insert_with(|| got.clone());
                    let same = got == *want;
                    assert!(same, "{}: {} with {threads} threads, reversed {reversed}", self.name, isa.name());
                }
            }
        }
        set_isa(None);
        pool::set_threads(0);
        first.expect("there is an instruction set")
    }

    fn check(&self, ulps: u32) {
        let (outputs, error) = self.run_everywhere();
        assert_eq!(error, None, "{}", self.name);
        for (grouped, bytes) in self.claimed.outputs.iter().zip(&outputs) {
            let ty = self.graph.ty(grouped.value).clone();
            let got = Tensor::from_bytes(ty.clone(), &bytes[..ty.bytes()]).expect("bytes");
            let want = &self.values[grouped.value.index()];
            assert_close(&got, want, ulps, &self.name);
        }
    }
}

/// Within so many units of the dtype's epsilon, relative to the element and to the largest one: sums cancel.
fn assert_close(got: &Tensor, want: &Tensor, ulps: u32, name: &str) {
    let epsilon = if want.ty.dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let sizes = want.elements.iter().map(|w| w.float().abs()).filter(|x| x.is_finite());
    let largest = sizes.fold(0.0, f64::max);
    for (i, (g, w)) in got.elements.iter().zip(&want.elements).enumerate() {
        let (g, w) = (g.float(), w.float());
        let close =
            g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= f64::from(ulps) * epsilon * (w.abs() + largest);
        assert!(close, "{name}: element {i} of {} is {g}, should be {w}", want.ty);
    }
}

fn check(op: &str, args: &str, ulps: u32) {
    claimed_call(op, args, false).check(ulps);
    claimed_call(op, args, true).check(ulps);
}

#[test]
fn attention_is_its_body() {
    for (b, h, t, s, d, e) in [
        (2, 3, 12, 12, 32, 32),
        (1, 2, 70, 75, 16, 16),
        (1, 1, 5, 3, 7, 9),
        (2, 2, 1, 33, 16, 16),
        (1, 1, 3, 20, 5, 64),
        (1, 1, 4, 0, 8, 8),
        (0, 1, 4, 4, 8, 8),
        (1, 1, 17, 600, 8, 8),
    ] {
        let tensors =
            format!("f32[{b},{h},{t},{d}] in -2..2, f32[{b},{h},{s},{d}] in -2..2, f32[{b},{h},{s},{e}] in -2..2");
        check("attention", &tensors, 64);
        check("attention", &format!("{tensors}, none, 0.0, true"), 64);
        check("attention", &format!("{tensors}, bool[{t},{s}]"), 64);
        check("attention", &format!("{tensors}, f32[{h},1,{s}] in -2..2, 0.0, true, 0.3"), 64);
        let n = s / 2;
        check("attention", &format!("{tensors}, none, 0.0, true, none, false, i64[] = {n}"), 64);
        check("attention", &format!("{tensors}, none, 0.0, false, none, false, i64[] = {n}"), 64);
    }
    check("attention", "f32[5,4] in -1..1, f32[6,4] in -1..1, f32[6,4] in -1..1", 64);
    check("attention", "f32[3,5,4] in -1..1, f32[3,6,4] in -1..1, f32[3,6,4] in -1..1", 64);
    check("attention", "f32[2,2,3,5,4] in -1..1, f32[2,2,3,6,4] in -1..1, f32[2,2,3,6,4] in -1..1", 64);
}

#[test]
fn attention_backward_is_its_body() {
    for (b, h, t, s, d, e) in [(2, 3, 12, 12, 32, 32), (1, 2, 70, 75, 16, 16), (1, 1, 5, 3, 7, 9), (1, 2, 1, 33, 16, 8)]
    {
        let operands =
            format!("f32[{b},{h},{t},{d}] in -1..1, f32[{b},{h},{s},{d}] in -1..1, f32[{b},{h},{s},{e}] in -1..1");
        let flow =
            format!("f32[{b},{h},{t},{e}] in -1..1, f32[{b},{h},{t}] in 2..4, f32[{b},{h},{t},{e}] in -1..1, none");
        check("attention_backward", &format!("{operands}, none, none, {flow}, false, 0.5"), 256);
        check("attention_backward", &format!("{operands}, none, none, {flow}, true, 0.25"), 256);
        let mask = format!("bool[{b},{h},{t},{s}]");
        check("attention_backward", &format!("{operands}, {mask}, i64[] = {}, {flow}, true, 0.25", s - 1), 256);
    }
}

#[test]
fn too_many_keys_are_reported() {
    let args =
        "f32[2,2,4] in -1..1, f32[2,3,4] in -1..1, f32[2,3,4] in -1..1, none, 0.0, false, none, false, i64[] = 4";
    let (_, error) = claimed_call("attention", args, false).run_everywhere();
    assert_eq!(error, Some(DeviceError { step: 0, fault: Fault::Index { index: 4, bound: 4 } }));
}

#[test]
fn cross_entropy_is_its_body() {
    for (n, c) in [(5, 7), (1, 40), (40, 33), (3, 5000), (300, 16)] {
        let args = format!("f32[{n},{c}] in -4..4, i64[{n}] in 0..{c}");
        for rest in ["", ", none, \"sum\"", ", none, \"none\"", ", none, \"mean\", 2, 0.1", ", none, \"none\", 1, 0.2"]
        {
            check("cross_entropy", &format!("{args}{rest}"), 64);
        }
        let args = format!("{args}, f32[{n}] in 4..9");
        check("cross_entropy_backward", &format!("{args}, f32[] in 1..2, \"mean\", -100, 0.0"), 64);
        check("cross_entropy_backward", &format!("{args}, f32[] in 1..2, \"sum\", 1, 0.1"), 64);
        check("cross_entropy_backward", &format!("{args}, f32[{n}] in 1..2, \"none\", 1, 0.1"), 64);
    }
}

#[test]
fn dots_are_their_sums() {
    for args in [
        "f32[4,5] in -1..1, f32[5,6] in -1..1, [], [1,0]",
        "f32[4,5] in -1..1, f32[6,5] in -1..1, [], [1,1]",
        "f32[2,3,4,5] in -1..1, f32[2,3,5,6] in -1..1, [0,0,1,1], [3,2]",
        "f32[2,3,4,5] in -1..1, f32[2,3,4,6] in -1..1, [], [0,0,1,1,2,2]",
        "f32[2,3,4] in -1..1, f32[3,5] in -1..1, [], [1,0]",
        "f32[2,4,3,5] in -1..1, f32[2,6,3,5] in -1..1, [0,0,2,2], [3,3]",
        "f32[7] in -1..1, f32[7] in -1..1, [], [0,0]",
        "f32[3] in -1..1, f32[4] in -1..1, [], []",
        "f32[2,3,4,2,5] in -1..1, f32[2,3,4,2,5] in -1..1, [0,0,1,1,2,2], [4,4]",
    ] {
        check("dot_general", args, 64);
    }
}

#[test]
fn convolutions_are_their_sums() {
    for args in [
        "f32[2,3,17] in -1..1, f32[4,3,3] in -1..1, [1], [1], [1], [1], [1], 1",
        "f32[3,4,14,15] in -1..1, f32[6,4,3,3] in -1..1, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1",
        "f32[2,6,14,15] in -1..1, f32[4,3,3,2] in -1..1, [2, 3], [1, 0], [0, 2], [1, 1], [2, 1], 2",
        "f32[2,8,9,9] in -1..1, f32[8,1,3,3] in -1..1, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 8",
        "f32[2,5,7,7] in -1..1, f32[3,5,3,3] in -1..1, [1, 1], [2, 2], [1, 1], [2, 3], [1, 1], 1",
        "f32[1,2,5,6,7] in -1..1, f32[3,2,2,3,2] in -1..1, [1, 2, 1], [0, 1, 1], [1, 0, 1], [1, 1, 2], [2, 1, 1], 1",
        "f32[2,9,12,11] in -1..1, f32[30,9,1,1] in -1..1, [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 1",
        "f32[2,4,8,8] in -1..1, f32[3,4,2,2] in -1..1, [1, 1], [-1, -2], [-3, -1], [1, 1], [1, 1], 1",
        "f32[2,130,6,6] in -1..1, f32[170,130,3,3] in -1..1, [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1",
        "f32[9,40,60] in -1..1, f32[5,40,60] in -1..1, [1], [2], [2], [1], [1], 1",
        "f32[40,5,30,31] in -1..1, f32[2,5,3,3] in -1..1, [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 1",
        "f32[1,2,2] in -1..1, f32[2,2,5] in -1..1, [1], [2], [1], [1], [1], 1",
        "f32[2,0,4] in -1..1, f32[3,0,2] in -1..1, [1], [0], [0], [1], [1], 1",
    ] {
        check("conv_general", args, 64);
    }
    check("conv_general", "i64[2,3,9] in -9..9, i64[4,3,3] in -9..9, [2], [1], [1], [1], [1], 1", 0);
}

#[test]
fn overlapping_windows_are_their_sums() {
    check("overlap_add", "f32[2,7,3,3] in -1..1, 1, 17, 2, 1", 4);
    check("overlap_add", "f32[3,40,5] in -1..1, 1, 60, 1, 3", 8);
    check("overlap_add", "f32[30,20,20,2] in -1..1, 2, 45, 2, 2", 4);
    check("overlap_add", "i64[4,5,3] in -9..9, 0, 7, 1, 1", 0);
}

#[test]
fn scatters_are_their_loops() {
    for op in ["set", "add", "mul", "min", "max"] {
        check("scatter_along", &format!("f32[9,40] in -2..2, i64[30] in 0..9, f32[30,40] in 1..2, 0, \"{op}\""), 64);
        check(
            "scatter_along",
            &format!("f32[3,9,2] in -2..2, i64[5,2] in 0..9, f32[3,5,2,2] in 1..2, 1, \"{op}\""),
            64,
        );
    }
    check("scatter_along", "i64[9] in -9..9, i64[30] in 0..9, i64[30] in -9..9, 0, \"add\"", 0);
    check("scatter_along", "f32[300,64] in -1..1, i64[500] in 0..300, f32[500,64] in -1..1, 0, \"add\"", 64);
    check("embedding_grad", "f32[4,50,33] in -1..1, i64[4,50] in 0..70, 70", 64);
    check("embedding_grad", "f32[150,64] in -1..1, i64[150] in 0..300, 300", 64);
    check("embedding_grad", "f32[900,3] in -1..1, i64[900] in 0..9000, 9000", 64);
    check("embedding_grad", "f32[0,8] in -1..1, i64[0] in 0..5, 5", 0);
}

#[test]
fn scans_and_sorts_are_their_loops() {
    for (shape, rest, dim) in [("3,40", "3", 1), ("40,3", "3", 0), ("2,300,30", "2,30", 1), ("2,3,1", "2,3", 2)] {
        for way in ["false", "true"] {
            for fold in ["sum", "prod", "max", "min"] {
                check(&format!("scan_{fold}"), &format!("f32[{shape}] in -1..1, {dim}, {way}"), 600);
            }
            let operands = format!("f32[{shape}] in -1..1, f32[{shape}] in -1..1, f32[{rest}] in -1..1");
            check("linear_scan", &format!("{operands}, {dim}, {way}"), 600);
            check("sort_along", &format!("f32[{shape}] in -1..1, {dim}, {way}"), 0);
            check("sort_along", &format!("i64[{shape}] in -9..9, {dim}, {way}"), 0);
            check("scan_sum", &format!("i32[{shape}] in -9..9, {dim}, {way}"), 0);
            check("sort_along", &format!("i32[{shape}] in -9..9, {dim}, {way}"), 0);
            check("sort_along", &format!("u8[{shape}] in 0..200, {dim}, {way}"), 0);
        }
    }
    check("sort_along", "f32[17000] in -1..1, 0, false", 0);
    check("scan_sum", "f32[0,4] in -1..1, 0, false", 0);
}

#[test]
fn an_index_outside_is_reported_once() {
    let mut case = claimed_call("embedding_grad", "f32[3,2] in -1..1, i64[3] in 0..5, 5", false);
    let indices = case.claimed.operands[0].value.index();
    case.values[indices] = Tensor::ints(DType::I64, [3], [1, 7, 0]);
    let (outputs, error) = case.run_everywhere();
    assert_eq!(error, Some(DeviceError { step: 0, fault: Fault::Index { index: 7, bound: 5 } }));
    assert_eq!(&outputs[0][2 * 8..], &[0; 24], "rows that nothing goes to are 0");
}

#[test]
fn factorizations_are_their_definitions() {
    for (kind, matrices) in [
        ("cholesky", ["f32[3,3] = 4 0 0 1 5 0 -1 0.5 3", "f32[2,2,2] = 4 0 1 3 -1 0 1 3", "f32[2,0,0]"]),
        ("lu", ["f32[2,5,5]", "f32[3,4,6]", "f32[6,2]"]),
        ("qr", ["f32[2,5,5]", "f32[3,4,6]", "f32[6,2]"]),
        ("svd", ["f32[2,4,4]", "f32[3,4,6]", "f32[6,2]"]),
        ("eigh", ["f32[2,5,5]", "f32[3,1,1]", "f32[7,7]"]),
    ] {
        for args in matrices {
            check("factor", &format!("{args}, \"{kind}\""), 256);
            if matches!(kind, "qr" | "svd") {
                check("factor", &format!("{args}, \"{kind}\", true"), 256);
            }
        }
    }
}

#[test]
fn triangles_are_solved() {
    for flags in ["true", "false", "true, true", "false, true", "true, true, true", "false, false, true"] {
        check("solve_triangle", &format!("f32[2,3,3] in 1..2, f32[2,3,4], {flags}"), 64);
        check("solve_triangle", &format!("f32[5,5] in 1..2, f32[5,1], {flags}"), 256);
    }
}

#[test]
fn a_check_passes_on_or_reports() {
    check("check", "f32[2,3], bool[2] = true true, \"all is well\"", 0);
    check("check", "i64[0] in 0..2, bool[0], \"nothing is wrong\"", 0);
}

#[test]
fn recurrent_layers_are_their_bodies() {
    let u = "in -1..1";
    for (t, b, h) in [(3, 2, 5), (2, 1, 20), (2, 9, 40), (1, 2, 140), (0, 2, 4)] {
        for reverse in if t == 3 { &[false, true][..] } else { &[true][..] } {
            let sequence = |gates: usize| format!("f32[{t},{b},{}] {u}", gates * h);
            let (state, weights) = (format!("f32[{b},{h}] {u}"), |g: usize| format!("f32[{},{h}] in -0.2..0.2", g * h));
            let (x4, x3, x1, w4, w3, w1) = (sequence(4), sequence(3), sequence(1), weights(4), weights(3), weights(1));
            let gates = |n: usize| format!("f32[{t},{b},{}] in 0.1..0.9", n * h);
            check("lstm_layer", &format!("{x4}, {state}, {state}, {w4}, {reverse}"), 256);
            check("gru_layer", &format!("{x3}, {state}, {w3}, f32[{}] {u}, {reverse}", 3 * h), 256);
            let (g4, g3) = (gates(4), gates(3));
            check("lstm_layer_backward", &format!("{g4}, {x1}, {x1}, {w4}, {x1}, {x1}, {reverse}"), 256);
            check("gru_layer_backward", &format!("{g3}, {x1}, {x1}, {w3}, {x1}, {reverse}"), 256);
            for relu in [false, true] {
                check("rnn_layer", &format!("{x1}, {state}, {w1}, {relu}, {reverse}"), 256);
                check("rnn_layer_backward", &format!("{x1}, {w1}, {x1}, {relu}, {reverse}"), 256);
            }
        }
    }
}

#[test]
fn pools_are_their_bodies() {
    for args in [
        "f32[2,3,7,9] in -3..3, [2, 2], [2, 2], [0, 0], [1, 1], [3, 4]",
        "f32[2,5,6], [3, 2], [2, 1], [1, 0], [1, 2], [3, 4]",
        "f32[4,3,20,20], [3, 3], [2, 2], [1, 1], [1, 1], [10, 10]",
        "f32[2,7], [], [], [], [], [3]",
        "f32[3,2,5,7], [], [], [], [], [2, 3]",
        "f32[2,3,4,5], [1, 2, 2], [1, 1, 2], [0, 1, 1], [1, 1, 1], [3, 5, 3]",
        "f32[7] = 1 3 3 nan 0 -inf -inf, [2], [1], [0], [1], [6]",
        "f32[0,4], [2], [2], [0], [1], [2]",
    ] {
        check("windowed_max", args, 0);
    }
    check("windowed_max", "i64[2,3,4,5] in -9..9, [1, 2, 2], [1, 1, 2], [0, 1, 1], [1, 1, 1], [3, 5, 3]", 0);
    check("scatter_windows", "f32[2,3,2], i64[2,3,2] in 0..12, [4, 3]", 4);
    check("scatter_windows", "f32[40,3,20], i64[40,3,20] in 0..500, [20, 25]", 4);
    check("scatter_windows", "f32[0,3], i64[0,3] in 0..4, [4]", 0);
}

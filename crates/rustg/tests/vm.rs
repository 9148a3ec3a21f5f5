//! The tile VM against the plain meaning of nests: same bits for any sizes, instruction set and split of the work.
#![allow(unsafe_code, reason = "runs kernels on raw pointers")]

mod reference;

use rtx_core::{Arith, Comparison, DType, Extremum, Fold, Function};
use rustg::{
    Axis, AxisId, BufferDecl, BufferId, Id, Indexed, Instr, Isa, Jit, Nest, Scratch, Size, Store, TileProg, View,
    jit_counters, schedule, set_jit,
};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Packs elements into bytes, aligned.
fn pack(t: DType, elements: &[u64]) -> Vec<u64> {
    let mut words = vec![0u64; (elements.len() * t.size()).div_ceil(8).max(1)];
    for (i, x) in elements.iter().enumerate() {
        let bytes = &x.to_le_bytes()[..t.size()];
        let at = i * t.size();
        words[at / 8] |= bytes.iter().rev().fold(0, |w, &b| w << 8 | b as u64) << (8 * (at % 8));
    }
    words
}
fn unpack(t: DType, words: &[u64], n: usize) -> Vec<u64> {
    let mask = if t.size() == 8 { u64::MAX } else { (1 << (8 * t.size())) - 1 };
    (0..n).map(|i| words[i * t.size() / 8] >> (8 * (i * t.size() % 8)) & mask).collect()
}
fn canonical(t: DType, x: u64) -> u64 {
    match t {
        DType::F32 if f32::from_bits(x as u32).is_nan() => 0x7fc0_0000,
        DType::F64 if f64::from_bits(x).is_nan() => 0x7ff8 << 48,
        DType::F16 if x & 0x7fff > 0x7c00 => 0x7e00,
        DType::BF16 if x & 0x7fff > 0x7f80 => 0x7fc0,
        _ => x,
    }
}

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    Backwards,
    Boxes,
}

fn run(
    prog: &TileProg,
    memory: &reference::Memory,
    sizes: &[i64],
    isa: Isa,
    cut: Cut,
) -> (reference::Memory, Vec<(i64, i64)>) {
    let nest = prog.nest();
    let mut packed: Vec<Vec<u64>> = nest.buffers.iter().zip(memory).map(|(b, m)| pack(b.dtype, m)).collect();
    let pointers: Vec<*mut u8> = packed.iter_mut().map(|p| p.as_mut_ptr() as *mut u8).collect();
    let reports = RefCell::new(vec![]);
    let report = |i: i64, b: i64| reports.borrow_mut().push((i, b));
    let mut scratch = Scratch::new();
    let work = prog.work(sizes);
    // SAFETY: the tests make buffers as large as their views ask.
    unsafe {
        match cut {
            Cut::Whole => prog.run(&pointers, sizes, 0..work, isa, &mut scratch, &report),
            Cut::Backwards => {
                for item in (0..work).rev() {
                    prog.run(&pointers, sizes, item..item + 1, isa, &mut scratch, &report);
                }
            }
            Cut::Boxes => {
                for (lo, hi) in boxes(nest, sizes) {
                    prog.run_box(&pointers, sizes, &lo, &hi, isa, &mut scratch, &report);
                }
            }
        }
    }
    let out = nest.buffers.iter().zip(&packed).zip(memory).map(|((b, p), m)| unpack(b.dtype, p, m.len())).collect();
    (out, reports.into_inner())
}
/// Every parallel axis cut in about three.
fn boxes(nest: &Nest, sizes: &[i64]) -> Vec<(Vec<i64>, Vec<i64>)> {
    let mut all = vec![(vec![], vec![])];
    for axis in nest.axes.iter().filter(|a| !a.walk) {
        let n = match axis.extent {
            Size::Const(n) => n,
            Size::Arg(i) => sizes[i as usize],
        };
        let step = n / 3 + 1;
        let cuts: Vec<(i64, i64)> = (0..n).step_by(step as usize).map(|l| (l, (l + step).min(n))).collect();
        all = all
            .iter()
            .flat_map(|(lo, hi): &(Vec<i64>, Vec<i64>)| {
                cuts.iter().map(|&(l, h)| ([lo.clone(), vec![l]].concat(), [hi.clone(), vec![h]].concat()))
            })
            .collect();
    }
    all
}

fn check(nest: &Nest, memory: &reference::Memory, sizes: &[i64]) {
    let prog = schedule(nest).unwrap_or_else(|e| panic!("{e}\n{}", nest.print()));
    let text = prog.print();
    let prog = TileProg::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(prog.print(), text);
    assert_eq!(Nest::parse(&nest.print()).unwrap(), *nest);
    let mut want = memory.clone();
    let mut want_reports = reference::run(nest, &mut want, sizes);
    want_reports.sort();
    want_reports.dedup();
    let printed = Isa::available().filter(|&isa| isa >= Isa::Avx2).map(|isa| (isa, Jit::Always));
    let ways = Isa::available().map(|isa| (isa, Jit::Never)).chain(printed);
    for (isa, when) in ways {
        for cut in [Cut::Whole, Cut::Backwards, Cut::Boxes] {
            let (got, mut reports) = run_with(when, || run(&prog, memory, sizes, isa, cut));
            reports.sort();
            reports.dedup();
            for (b, (got, want)) in got.iter().zip(&want).enumerate() {
                let t = nest.buffers[b].dtype;
                for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
                    assert_eq!(
                        format!("{:#x}", canonical(t, g)),
                        format!("{:#x}", canonical(t, w)),
                        "b{b}[{i}] on {}, printed {when:?}, cut {cut:?}, sizes {sizes:?}\n{text}",
                        isa.name()
                    );
                }
            }
            assert!(reports.iter().all(|r| want_reports.contains(r)), "{reports:?} for {want_reports:?}\n{text}");
        }
    }
}

/// Runs with code printed or not; one test at a time, since that is set for the process.
fn run_with<R>(when: Jit, f: impl FnOnce() -> R) -> R {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_jit(Some(when));
    f()
}

/// splitmix64.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// `odd`: may it be NaN, infinite, a zero of either sign? One of those decides a whole row.
fn element(t: DType, odd: bool, r: &mut Random) -> u64 {
    let x = (r.next() >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0;
    match t {
        DType::Bool => r.next() & 1,
        DType::U8 => r.next() & 0xff,
        DType::F32 => {
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-42, 3e38];
            (if odd && r.chance(1) { r.of(&special) } else { x as f32 }).to_bits() as u64
        }
        DType::F64 => x.to_bits(),
        DType::F16 | DType::BF16 => {
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-7, 6e4];
            let x = if odd && r.chance(1) { r.of(&special) } else { x as f32 };
            (if t == DType::F16 { half::f16::from_f32(x).to_bits() } else { half::bf16::from_f32(x).to_bits() }) as u64
        }
        DType::I8 => r.next() & 0xff,
        DType::I16 | DType::U16 => r.next() & 0xffff,
        DType::U64 => r.next() >> r.below(64),
        DType::I32 => (if r.chance(20) { r.next() as i32 } else { x as i32 }) as u32 as u64,
        DType::U32 => (if r.chance(20) { r.next() as u32 } else { x.abs() as u32 }) as u64,
        _ => (if r.chance(10) { r.next() as i64 } else { x as i64 }) as u64,
    }
}
fn elements(t: DType, n: usize, odd: bool, r: &mut Random) -> Vec<u64> {
    (0..n).map(|_| element(t, odd, r)).collect()
}

/// A nest being made up, with the sizes and memory of its launch.
struct Maker {
    nest: Nest,
    sizes: Vec<i64>,
    memory: reference::Memory,
    r: Random,
    extents: Vec<i64>,
}
const TYPES: [DType; 13] = {
    use DType::*;
    [F32, F64, I64, U32, I32, Bool, U8, BF16, F16, I8, I16, U16, U64]
};

impl Maker {
    fn size(&mut self, n: i64) -> Size {
        if self.r.chance(50) && n != 0 {
            return Size::Const(n);
        }
        self.sizes.push(n);
        self.nest.size_arg()
    }
    /// A fresh buffer and a view of it over some of the axes: in some order, with gaps or backwards.
    fn view(&mut self, t: DType, axes: &[usize], written: bool) -> View {
        let mut order = axes.to_vec();
        if self.r.chance(30) {
            let k = self.r.below(order.len().max(1));
            order.rotate_left(k);
        }
        let mut span = if self.r.chance(15) { 2 } else { 1 };
        let mut offset = self.r.below(3) as i64;
        let mut strides = vec![];
        for &axis in order.iter().rev() {
            let n = self.extents[axis].max(1);
            let stride = if self.r.chance(8) && !written { -span } else { span };
            if stride < 0 {
                offset += span * (n - 1);
            }
            strides.push((axis, stride));
            span *= n + if self.r.chance(10) { 3 } else { 0 };
        }
        let room = (span + offset + 4) as usize;
        strides.sort();
        let strides = strides.into_iter().map(|(a, s)| (AxisId(a as u32), self.size(s))).collect();
        let buffer = BufferId(self.nest.buffers.len() as u32);
        self.nest.buffers.push(BufferDecl { dtype: t, written });
        let odd = self.r.chance(50);
        let data = elements(t, room, odd, &mut self.r);
        self.memory.push(data);
        View { buffer, strides, offset: self.size(offset), indexed: vec![] }
    }
    fn some_axes(&mut self, percent: usize) -> Vec<usize> {
        (0..self.extents.len()).filter(|_| self.r.chance(percent)).collect()
    }
    fn pick(&mut self, t: DType) -> Option<Id> {
        let types = self.nest.dtypes();
        let found: Vec<u32> = (0..types.len() as u32).filter(|&i| types[i as usize] == t).collect();
        if found.is_empty() { None } else { Some(Id(self.r.of(&found))) }
    }
    fn load(&mut self, t: DType) -> Id {
        let percent = self.r.of(&[100, 100, 60, 30]);
        let axes = self.some_axes(percent);
        let mut view = self.view(t, &axes, false);
        if self.r.chance(15)
            && let Some(index) = self.pick(DType::I64)
        {
            let (bound, stride) = (self.r.below(5) as i64, self.r.of(&[1, 3]));
            let room = self.memory[view.buffer.index()].len() + 20;
            let odd = self.r.chance(50);
            self.memory[view.buffer.index()] = elements(t, room, odd, &mut self.r);
            view.indexed.push(Indexed {
                index,
                stride: self.size(stride),
                bound: self.size(bound),
                checked: self.r.chance(50),
            });
        }
        self.nest.push(Instr::Load(view))
    }
    fn step(&mut self) {
        let t = self.r.of(&TYPES);
        let t = if self.r.chance(50) { DType::F32 } else { t };
        let (Some(a), Some(b), Some(c)) = (self.pick(t), self.pick(t), self.pick(t)) else {
            self.load(t);
            return;
        };
        let float = t.is_float();
        let instr = match self.r.below(14) {
            0 | 1 => {
                self.load(t);
                return;
            }
            2 => Instr::Const { dtype: t, bits: element(t, true, &mut self.r) },
            3 if !self.extents.is_empty() => Instr::Iota(AxisId(self.r.below(self.extents.len()) as u32)),
            4 => {
                let all: Vec<Function> = Function::ALL
                    .iter()
                    .copied()
                    .filter(|f| match f {
                        Function::Not => !float,
                        Function::Real | Function::Imag => false,
                        Function::Neg | Function::Abs | Function::Sign => t != DType::Bool,
                        _ => float,
                    })
                    .collect();
                Instr::Unary(self.r.of(&all), a)
            }
            5..=7 => {
                use Arith::*;
                let all: &[Arith] = match t {
                    DType::Bool => &[And, Or, Xor, Max, Min],
                    _ if float => &[Add, Sub, Mul, Div, Rem, Pow, Atan2, Max, Min, Add, Sub, Mul],
                    _ => &[Add, Sub, Mul, Div, Rem, Pow, Max, Min, And, Or, Xor, Shl, Shr],
                };
                Instr::Binary(self.r.of(all), a, b)
            }
            8 => Instr::Compare(self.r.of(Comparison::ALL), a, b),
            9 => match self.pick(DType::Bool) {
                Some(c) => Instr::Select(c, a, b),
                None => return,
            },
            10 if float => Instr::Fma(a, b, c),
            11 => Instr::Cast(self.r.of(&TYPES), a),
            12 if self.nest.walk().is_some() => match t {
                DType::Bool => Instr::Reduce(self.r.of(&[Fold::Max, Fold::Min]), a),
                _ if self.r.chance(20) => Instr::ArgReduce(self.r.of(&[Extremum::Max, Extremum::Min]), a),
                _ => Instr::Reduce(self.r.of(Fold::ALL), a),
            },
            13 => {
                let ids = [self.pick(DType::I64), self.pick(DType::I64), self.pick(DType::I64)];
                let [Some(key), Some(ordinal), Some(index)] = ids else { return };
                Instr::Random { key, ordinal, index }
            }
            _ => return,
        };
        self.nest.push(instr);
    }
    fn store(&mut self, value: Id) {
        let mut axes: Vec<usize> = self.nest.axes_of(value).into_iter().map(|a| a.index()).collect();
        if self.r.chance(50) {
            axes = (0..self.extents.len()).filter(|&a| axes.contains(&a) || !self.nest.axes[a].walk).collect();
        }
        let t = self.nest.dtype(value);
        let view = self.view(t, &axes, true);
        self.nest.stores.push(Store { view, value });
    }
}

fn made_up(seed: u64) -> (Nest, reference::Memory, Vec<i64>) {
    let mut m = Maker { nest: Nest::default(), sizes: vec![], memory: vec![], r: Random(seed), extents: vec![] };
    let (rank, walk) = (m.r.below(4), m.r.chance(60));
    let mut budget = 6000i64;
    for i in 0..rank + walk as usize {
        let walk = i == rank;
        let n = if walk {
            m.r.of(&[0, 1, 2, 7, 16, 17, 40, 300, 1030, 4097])
        } else {
            m.r.of(&[1, 1, 2, 3, 5, 8, 16, 19, 70, 300, 2500])
        };
        let n = if m.r.chance(2) { 0 } else { n.min(budget.max(1)) };
        budget /= n.max(1);
        let extent = m.size(n);
        m.extents.push(n);
        m.nest.axes.push(Axis { extent, walk });
    }
    m.load(DType::F32);
    let steps = 4 + m.r.below(16);
    (0..steps).for_each(|_| m.step());
    for _ in 0..1 + m.r.below(3) {
        let n = m.nest.instrs.len();
        let at = n - 1 - m.r.below(n.min(6));
        m.store(Id(at as u32));
    }
    (m.nest, m.memory, m.sizes)
}

#[test]
fn random_nests_have_the_same_bits_everywhere() {
    for seed in 0..150 {
        let (nest, memory, sizes) = made_up(seed);
        let told = std::panic::catch_unwind(|| check(&nest, &memory, &sizes));
        if let Err(e) = told {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(e);
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn most_of_random_nests_is_printed() {
    if Isa::detect() < Isa::Avx512 {
        return;
    }
    let before = jit_counters();
    for seed in 0..40 {
        let (nest, memory, sizes) = made_up(seed);
        check(&nest, &memory, &sizes);
    }
    let after = jit_counters();
    let (printed, left) = (after.printed - before.printed, after.left - before.left);
    assert!(printed > left && after.bytes > before.bytes, "printed {printed}, left {left}");
}

#[test]
#[ignore = "many more random nests: minutes"]
fn random_nests_many() {
    for seed in 150..6000 {
        let (nest, memory, sizes) = made_up(seed);
        check(&nest, &memory, &sizes);
    }
}

/// Checks a nest given as text with buffers of the given lengths.
fn check_text(text: &str, lengths: &[usize], sizes: &[i64]) {
    let nest = Nest::parse(text).unwrap();
    for odd in [true, false] {
        let mut r = Random(7);
        let memory = nest.buffers.iter().zip(lengths).map(|(b, &n)| elements(b.dtype, n, odd, &mut r)).collect();
        check(&nest, &memory, sizes);
    }
}

const SOFTMAX: &str = "nest 2
axis s0
walk s1
buffer f32
buffer f32 written
buffer f32 written
%0 = load f32 b0 +0 a0*s1 a1*1
%1 = reduce.max f32 %0
%2 = sub f32 %0 %1
%3 = exp f32 %2
%4 = reduce.sum f32 %3
%5 = div f32 %3 %4
store b1 +0 a0*s1 a1*1 = %5
store b2 +0 a0*1 = %4
";

#[test]
fn rows_of_any_length() {
    // The last is too long to be held whole: each phase computes what it needs.
    for (rows, cols) in [(1, 1), (7, 5), (130, 16), (5, 100), (3, 4095), (2, 4096), (9, 4097), (2, 20000), (1, 70001)] {
        check_text(SOFTMAX, &[rows * cols, rows * cols, rows], &[rows as i64, cols as i64]);
    }
    for (rows, cols) in [(0, 5), (3, 0), (0, 0)] {
        check_text(SOFTMAX, &[8, 8, 8], &[rows, cols]);
    }
}

/// Sums down the rows of something computed, with values along either axis, and an output of every element.
const COLUMNS: &str = "nest 2
axis s1
walk s0
buffer f32
buffer f32
buffer f32
buffer f32 written
buffer f32 written
buffer i64 written
%0 = load f32 b0 +0 a0*1 a1*s1
%1 = load f32 b1 +0 a0*1
%2 = load f32 b2 +0 a1*1
%3 = exp f32 %2
%4 = sub f32 %0 %1
%5 = mul f32 %4 %3
%6 = reduce.sum f32 %5
%7 = mul f32 %5 %6
%8 = arg.min i64 %7
store b3 +0 a0*1 = %6
store b4 +0 a0*1 a1*s1 = %7
store b5 +0 a0*1 = %8
";

#[test]
fn columns_of_any_length() {
    for (rows, cols) in [(1, 1), (5, 70), (16, 64), (100, 3), (4096, 65), (4097, 2), (9000, 5), (300, 700), (0, 5)] {
        let n = rows * cols;
        check_text(COLUMNS, &[n, cols, rows, cols, n, cols], &[rows as i64, cols as i64]);
    }
}

#[test]
fn column_sums_straight_from_memory() {
    let text = "nest 2
axis s1
walk s0
buffer f32
buffer f32 written
%0 = load f32 b0 +0 a0*1 a1*s1
%1 = reduce.sum f32 %0
store b1 +0 a0*1 = %1
";
    for (rows, cols) in [(3072, 128), (4096, 1), (4100, 33), (12289, 20), (1, 300)] {
        check_text(text, &[rows * cols, cols], &[rows as i64, cols as i64]);
    }
}

#[test]
fn updates_in_place() {
    let text = "nest 1
axis s0
axis 3
buffer f32 written
buffer f32 written
buffer f32
%0 = load f32 b0 +0 a0*3 a1*1
%1 = load f32 b1 +0 a0*3 a1*1
%2 = load f32 b2 +0 a1*1
%3 = mul f32 %0 %2
%4 = add f32 %3 %1
store b0 +0 a0*3 a1*1 = %4
store b1 +0 a0*3 a1*1 = %0
";
    for n in [1, 5, 5000] {
        check_text(text, &[3 * n, 3 * n, 3], &[n as i64]);
    }
    let softmax_in_place = SOFTMAX.replace("buffer f32\n", "buffer f32 written\n").replace("store b1", "store b0");
    for (rows, cols) in [(3, 50), (2, 5000), (1, 70001)] {
        check_text(&softmax_in_place, &[rows * cols, 1, rows], &[rows as i64, cols as i64]);
    }
}

/// Two arguments may be one piece of memory: an input that dies where an output begins.
#[test]
fn one_memory_under_two_names() {
    let text = "tile 1
axis s0
buffer f32
buffer f32 written
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1
%1 = add f32 %0 %0
%2 = mul f32 %0 %1
store b1 +0 a0*1 = %1
store b2 +0 a0*1 = %2
";
    let prog = TileProg::parse(text).unwrap();
    let n = 5000;
    for isa in Isa::available() {
        let mut x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut y = vec![0f32; n];
        let pointers = [x.as_mut_ptr() as *mut u8, x.as_mut_ptr() as *mut u8, y.as_mut_ptr() as *mut u8];
        let sizes = [n as i64];
        // SAFETY: the buffers have `n` elements.
        unsafe { prog.run(&pointers, &sizes, 0..prog.work(&sizes), isa, &mut Scratch::new(), &|_, _| {}) };
        for i in 0..n {
            let v = i as f32;
            assert_eq!((x[i], y[i]), (v + v, v * (v + v)));
        }
    }
}

#[test]
fn gathers_report_and_slices_clamp() {
    let gather = "nest 2
axis s0
axis 5
buffer i64
buffer f32
buffer f32 written
%0 = load i64 b0 +0 a0*1
%1 = load f32 b1 +0 a1*1 [%0*5<s1!]
store b2 +0 a0*5 a1*1 = %1
";
    let nest = Nest::parse(gather).unwrap();
    let prog = schedule(&nest).unwrap();
    let table: Vec<u64> = (0..20).map(|i| (i as f32).to_bits() as u64).collect();
    let memory = vec![vec![1, 3, 9, u64::MAX], table, vec![0; 20]];
    check(&nest, &memory, &[4, 4]);
    let (out, reports) = run(&prog, &memory, &[4, 4], Isa::detect(), Cut::Whole);
    assert_eq!(reports, [(9, 4), (-1, 4)]);
    assert_eq!(f32::from_bits(out[2][19] as u32), 4.0);

    // A row written at a position known only now, past the end: clamped.
    let update = "nest 1
axis 5
buffer i64
buffer f32
buffer f32 written
%0 = load i64 b0 +0
%1 = load f32 b1 +0 a0*1
%2 = neg f32 %1
store b2 +0 a0*1 [%0*5<s0] = %2
";
    for position in [0u64, 2, 7] {
        let mut r = Random(1);
        let memory = vec![vec![position], elements(DType::F32, 5, true, &mut r), vec![0; 15]];
        check(&Nest::parse(update).unwrap(), &memory, &[3]);
    }
}

#[test]
fn one_number() {
    let text = "nest 1
buffer f32
buffer f32
buffer f32 written
%0 = load f32 b0 +0
%1 = load f32 b1 +2
%2 = sized i64 s0
%3 = cast f32 %2
%4 = fma f32 %0 %1 %3
store b2 +1 = %4
";
    check_text(text, &[1, 3, 2], &[9]);
    let prog = schedule(&Nest::parse(text).unwrap()).unwrap();
    assert_eq!(prog.work(&[9]), 1);
}

/// Every type that tensors have: integers of all widths, and casts through the short floats.
#[test]
fn all_types() {
    for t in [DType::I8, DType::I16, DType::U16, DType::U64, DType::F16, DType::BF16] {
        let text = format!(
            "nest 0
axis 40
walk 33
buffer f32
buffer {t} written
buffer f32 written
buffer i64 written
%0 = load f32 b0 +0 a0*33 a1*1
%1 = cast {t} %0
%2 = cast f32 %1
%3 = cast i64 %1
store b1 +0 a0*33 a1*1 = %1
store b2 +0 a0*33 a1*1 = %2
store b3 +0 a0*33 a1*1 = %3
"
        );
        let prog = schedule(&Nest::parse(&text).unwrap()).unwrap();
        let n = 40 * 33;
        let x: Vec<u64> = (0..n).map(|i| (i as f32 * 0.37 - 100.0).to_bits() as u64).collect();
        let memory = vec![x.clone(), vec![0; n], vec![0; n], vec![0; n]];
        let (out, _) = run(&prog, &memory, &[], Isa::detect(), Cut::Whole);
        for i in 0..n {
            let v = f32::from_bits(x[i] as u32);
            let back = f32::from_bits(out[2][i] as u32);
            let want = match t {
                DType::I8 => v as i8 as f32,
                DType::I16 => v as i16 as f32,
                DType::U16 => v as u16 as f32,
                DType::U64 => v as u64 as f32,
                _ => back,
            };
            // Half an ulp of 11 and of 8 bits.
            let rounding = [(DType::F16, 2048.0), (DType::BF16, 256.0)].into_iter().find(|r| r.0 == t);
            assert!(rounding.is_none_or(|r| (back - v).abs() <= v.abs() / r.1), "{v} as {t} is {back}");
            assert_eq!(back, want, "{v} as {t}");
            assert_eq!(out[3][i] as i64, want as i64);
        }
    }
}

#[test]
fn what_has_no_kernel_is_refused() {
    let nest = |t: &str| format!("nest 0\nbuffer {t}\n%0 = load {t} b0 +0\n%1 = add {t} %0 %0\n");
    let stored =
        |t: &str| nest(t).replace("%0 = load", "buffer X written\n%0 = load").replace('X', t) + "store b1 +0 = %1\n";
    let refused = |t| Nest::parse(&stored(t)).and_then(|n| schedule(&n)).err();
    assert_eq!(refused("f8e4m3").as_deref(), Some("%1: no kernel for f8e4m3"));
    assert_eq!(refused("c64").as_deref(), Some("%1: does not take c64"));
    assert_eq!(refused("f16"), None);
    assert_eq!(refused("f32"), None);
    let tile = schedule(&Nest::parse(SOFTMAX).unwrap()).unwrap().print();
    assert_eq!(TileProg::parse(&tile.replace("phase 2", "phase 1")).err().as_deref(), Some("%5 cannot be in phase 1"));
}

#[test]
fn transposes() {
    for t in ["f32", "u8", "f64", "bf16"] {
        let text = format!(
            "nest 2
axis 3
axis s0
axis s1
buffer {t}
buffer {t} written
%0 = load {t} b0 +0 a1*1 a2*s0
store b1 +0 a0*9000 a1*s1 a2*1 = %0
"
        );
        for (rows, cols) in [(8, 8), (19, 70), (7, 100), (100, 7), (64, 65)] {
            let nest = Nest::parse(&text).unwrap();
            let n = rows * cols;
            let memory = vec![(0..n as u64).map(|i| i & 0xff).collect(), vec![0; 18000 + n]];
            check(&nest, &memory, &[rows as i64, cols as i64]);
        }
    }
}

#[test]
fn large_results_written_past_the_caches() {
    let nest = Nest::parse(SOFTMAX).unwrap();
    let prog = schedule(&nest).unwrap();
    let (rows, cols) = (1100, 2048);
    let n = rows * cols;
    let sizes = [rows as i64, cols as i64];
    let x: Vec<f32> = (0..n + 16).map(|i| ((i * 7919) % 2003) as f32 / 300.0 - 3.0).collect();
    // Starting on a cache line, and one element beyond.
    for skip in [0, 1] {
        let results = [Jit::Never, Jit::Always].map(|when| {
            let mut y = vec![0f32; n + 32];
            let mut sums = vec![0f32; rows];
            let first = y.as_ptr().align_offset(64) + skip;
            let pointers = [x.as_ptr() as *mut u8, y[first..].as_mut_ptr().cast(), sums.as_mut_ptr().cast()];
            let (work, mut scratch) = (prog.work(&sizes), Scratch::new());
            // SAFETY: the buffers have as many elements as the sizes say.
            run_with(when, || unsafe { prog.run(&pointers, &sizes, 0..work, Isa::detect(), &mut scratch, &|_, _| ()) });
            let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            (bits(&y[first..first + n]), bits(&sums))
        });
        assert!(results[0] == results[1], "printed code differs, first element {skip} beyond a line");
    }
}

#[test]
fn logarithm_of_softmax_beside_an_update_in_place() {
    let text = "nest 5
axis s0
walk s1
buffer f32 written
buffer f32 written
%0 = load f32 b0 +0 a0*s2 a1*1
%1 = reduce.max f32 %0
%2 = sub f32 %0 %1
%3 = exp f32 %2
%4 = reduce.sum f32 %3
%5 = log f32 %4
%6 = sub f32 %2 %5
%7 = add f32 %0 %6
store b0 +0 a0*s2 a1*1 = %7
store b1 +0 a0*s4 a1*1 = %6
";
    for (rows, cols) in [(1, 9), (2, 1), (3, 16), (4, 17), (5, 33), (8, 100), (70, 5)] {
        check_text(text, &[rows * cols; 2], &[rows as i64, cols as i64, cols as i64, 0, cols as i64]);
        // Rows that run on into each other, and nothing written once a row.
        let softmax = SOFTMAX.replace("store b2 +0 a0*1 = %4\n", "");
        check_text(&softmax, &[rows * cols, rows * cols, 1], &[rows as i64, cols as i64]);
    }
}

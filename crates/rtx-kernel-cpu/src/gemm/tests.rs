//! Gemm against the plain loop that defines it, bit for bit.
use super::gemv::{BLOCK, LANES};
use super::*;
use crate::simd::Number;
use rtx_cpu::{Isa, set_isa};
use rtx_hal::{ErrorSlot, KernelSource, Lang};
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

/// A number that tests can make and compare bit for bit.
trait Sample: GemmNumber + Debug {
    const NAME: &'static str;
    fn sample(random: u64) -> Self;
    fn bits(self) -> u64;
}
macro_rules! sample { ($($T:ident: $make:expr, $bits:expr);*) => { $(
    impl Sample for $T {
        const NAME: &'static str = stringify!($T);
        fn sample(random: u64) -> Self { ($make)(random) }
        fn bits(self) -> u64 { ($bits)(self) }
    }
)* } }
sample!(
    f32: |r: u64| (r >> 40) as f32 / (1 << 23) as f32 - 1.0, |x: f32| x.to_bits() as u64;
    f64: |r: u64| (r >> 11) as f64 / (1u64 << 52) as f64 - 1.0, f64::to_bits;
    i32: |r: u64| (r >> 32) as i32, |x: i32| x as u64;
    i64: |r: u64| r as i64, |x: i64| x as u64
);

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One output as contract N3 defines it.
fn defined<T: Number>(k: usize, tree: bool, a: impl Fn(usize) -> T, b: impl Fn(usize) -> T) -> T {
    let chunk = |p0: usize, size: usize| p0..k.min(p0 + size);
    if !tree {
        let sum = |p0: usize| chunk(p0, 512).fold(T::ZERO, |acc, p| a(p).fma(b(p), acc));
        return (0..k).step_by(512).map(sum).reduce(Number::plus).unwrap_or(T::ZERO);
    }
    let block = |p0: usize| {
        let mut lanes = [T::ZERO; LANES];
        for p in chunk(p0, BLOCK) {
            lanes[p % LANES] = a(p).fma(b(p), lanes[p % LANES]);
        }
        for half in [8, 4, 2, 1] {
            for l in 0..half {
                lanes[l] = lanes[l].plus(lanes[l + half]);
            }
        }
        lanes[0]
    };
    let mut sums: Vec<T> = (0..k).step_by(BLOCK).map(block).collect();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| pair.iter().copied().reduce(Number::plus).unwrap_or(T::ZERO)).collect();
    }
    sums.first().copied().unwrap_or(T::ZERO)
}

/// How an operand of `[b0, b1, rows, columns]` lies in memory.
#[derive(Clone, Copy, Debug)]
enum Lies {
    Plain,
    Transposed,
    /// Rows and columns with gaps.
    Apart,
    /// One matrix for the whole batch.
    Shared,
}

/// Strides and the number of elements that they reach.
fn strides(lies: Lies, [b0, b1, rows, columns]: [usize; 4]) -> ([i64; 4], usize) {
    let plain = [b1 * rows * columns, rows * columns, columns, 1];
    let s = match lies {
        Lies::Plain => plain,
        Lies::Transposed => [plain[0], plain[1], 1, rows],
        Lies::Apart => [b1 * rows * (3 * columns + 2), rows * (3 * columns + 2), 3 * columns + 2, 3],
        Lies::Shared => [0, 0, columns, 1],
    };
    let last: usize = s.iter().zip([b0, b1, rows, columns]).map(|(s, n)| s * n.saturating_sub(1)).sum();
    (s.map(|x| x as i64), last + 1)
}

struct Case {
    batch: [usize; 2],
    m: usize,
    n: usize,
    k: usize,
    lies: [Lies; 3],
}

/// Serializes the tests that set the instruction set and the number of threads.
static SETTING: Mutex<()> = Mutex::new(());

/// Checks a case on every instruction set for one and two threads, and that the parts reported are C.
fn check<T: Sample>(case: &Case) {
    let Case { batch: [b0, b1], m, n, k, lies } = *case;
    let (a_strides, a_len) = strides(lies[0], [b0, b1, m, k]);
    let (b_strides, b_len) = strides(lies[1], [b0, b1, k, n]);
    let (c_strides, c_len) = strides(lies[2], [b0, b1, m, n]);
    let mut state = (m * 31 + n * 7 + k) as u64;
    let a: Vec<T> = (0..a_len).map(|_| T::sample(random(&mut state))).collect();
    let b: Vec<T> = (0..b_len).map(|_| T::sample(random(&mut state))).collect();
    let untouched = T::sample(77);
    let mut want = vec![untouched; c_len];
    let at = |s: &[i64; 4], i: [usize; 4]| s.iter().zip(i).map(|(s, i)| *s as usize * i).sum::<usize>();
    for e0 in 0..b0 {
        for e1 in 0..b1 {
            for i in 0..m {
                for j in 0..n {
                    let x = |p| a[at(&a_strides, [e0, e1, i, p])];
                    let y = |p| b[at(&b_strides, [e0, e1, p, j])];
                    want[at(&c_strides, [e0, e1, i, j])] = defined(k, m == 1 || n == 1, x, y);
                }
            }
        }
    }
    let head = [b0, b1, m, n, k].map(|x| x as i64);
    let sizes: Vec<i64> = [&head[..], &a_strides, &b_strides, &c_strides].concat();
    let product = Product::parse(&sizes);
    let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    for isa in Isa::ALL {
        for threads in [1, 2, 3] {
            set_isa(Some(isa));
            pool::set_threads(threads);
            let mut got = vec![untouched; c_len];
            let parts = Mutex::new(Vec::new());
            let done = |part: Part| parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
            // SAFETY: the vectors have every element that the strides reach.
            unsafe { multiply::<T>(&product, a.as_ptr(), b.as_ptr(), got.as_mut_ptr(), &done) }
            let what = format!("{} {head:?} {lies:?} on {} with {threads}", T::NAME, isa.name());
            let differs = got.iter().zip(&want).position(|(x, y)| x.bits() != y.bits());
            assert!(differs.is_none(), "{what}: element {differs:?}");
            let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
            check_parts(&parts, [b0, b1, m, n], &what);
        }
    }
    set_isa(None);
    pool::set_threads(0);
}

/// Every element of C is in exactly one part.
fn check_parts(parts: &[Part], [b0, b1, m, n]: [usize; 4], what: &str) {
    let mut seen = vec![0u8; b0 * b1 * m * n];
    for part in parts {
        let axis = |x: usize| part.lo[x] as usize..part.hi[x] as usize;
        for e0 in axis(0) {
            for e1 in axis(1) {
                for i in axis(2) {
                    for j in axis(3) {
                        seen[((e0 * b1 + e1) * m + i) * n + j] += 1;
                    }
                }
            }
        }
    }
    assert!(seen.iter().all(|n| *n == 1), "{what}: parts {parts:?}");
}

const PLAIN: [Lies; 3] = [Lies::Plain; 3];

#[test]
fn sizes_from_none_to_over_a_block() {
    let sizes = [
        (0, 3, 4),
        (3, 0, 4),
        (3, 4, 0),
        (1, 1, 0),
        (2, 2, 1),
        (7, 5, 3),
        (8, 48, 16),
        (9, 64, 17),
        (13, 49, 31),
        (67, 101, 53),
        (151, 65, 37),
        (5, 1013, 7),
        (3, 50, 513),
        (17, 19, 1100),
        (147, 520, 5),
        (150, 60, 20),
    ];
    for (m, n, k) in sizes {
        check::<f32>(&Case { batch: [1, 1], m, n, k, lies: PLAIN });
        check::<f64>(&Case { batch: [1, 1], m, n, k, lies: PLAIN });
    }
}

#[test]
fn every_layout() {
    use Lies::*;
    for a in [Plain, Transposed, Apart] {
        for b in [Plain, Transposed, Apart] {
            for c in [Plain, Transposed, Apart] {
                for (m, n, k) in [(23, 57, 39), (10, 530, 20)] {
                    check::<f32>(&Case { batch: [1, 1], m, n, k, lies: [a, b, c] });
                    check::<f64>(&Case { batch: [1, 1], m, n, k, lies: [a, b, c] });
                }
            }
        }
    }
}

#[test]
fn few_rows_and_long_columns() {
    use Lies::*;
    for lies in [[Plain, Transposed, Plain], [Transposed, Transposed, Plain], [Plain, Transposed, Apart]] {
        check::<f32>(&Case { batch: [1, 1], m: 7, n: 21, k: 1030, lies });
        check::<f32>(&Case { batch: [2, 1], m: 3, n: 9, k: 1024, lies: [lies[0], Shared, lies[2]] });
    }
}

#[test]
fn one_row_or_column_is_the_tree() {
    use Lies::*;
    for (m, n, k) in [
        (1, 1, 1),
        (1, 37, 5),
        (1, 33, 130),
        (35, 1, 130),
        (1, 5, 4097),
        (3, 1, 13_000),
        (1, 40, 70_000 / 8),
        (1, 1_100, 330),
    ] {
        for lies in [PLAIN, [Transposed; 3], [Plain, Transposed, Plain], [Transposed, Plain, Apart], [Apart; 3]] {
            check::<f32>(&Case { batch: [1, 1], m, n, k, lies });
            check::<f64>(&Case { batch: [1, 2], m, n, k, lies });
        }
    }
}

#[test]
fn the_tree_carries_odd_blocks() {
    for blocks in [3, 5, 6, 7, 11] {
        for lies in [PLAIN, [Lies::Plain, Lies::Transposed, Lies::Plain]] {
            check::<f32>(&Case { batch: [1, 1], m: 1, n: 6, k: BLOCK * blocks - 9, lies });
        }
    }
}

#[test]
fn batches_shared_and_own() {
    use Lies::*;
    for batch in [[2, 3], [1, 5], [4, 1], [3, 1], [0, 2]] {
        for lies in
            [PLAIN, [Plain, Shared, Plain], [Shared, Plain, Plain], [Transposed, Shared, Transposed], [Apart; 3]]
        {
            check::<f32>(&Case { batch, m: 11, n: 33, k: 25, lies });
            check::<f32>(&Case { batch, m: 1, n: 33, k: 25, lies });
            check::<f64>(&Case { batch, m: 30, n: 20, k: 40, lies });
        }
    }
}

#[test]
fn integers_wrap() {
    for (m, n, k) in [(5, 7, 9), (1, 7, 600), (7, 1, 20), (33, 18, 700)] {
        check::<i32>(&Case { batch: [1, 2], m, n, k, lies: PLAIN });
        check::<i64>(&Case { batch: [2, 1], m, n, k, lies: [Lies::Transposed; 3] });
    }
}

#[test]
fn tiny_products_keep_the_sign_of_zero() {
    let (a, b) = ([-1e-30f32; 3], [1e-30f32; 3]);
    let mut c = [1f32];
    let product = Product::parse(&[1, 1, 1, 1, 3, 0, 0, 3, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
    // SAFETY: three products, one output.
    unsafe { multiply::<f32>(&product, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &|_| ()) };
    let want = defined(3, true, |p| a[p], |p| b[p]);
    assert_eq!(c[0].to_bits(), want.to_bits());
}

#[test]
fn texts_load_or_are_refused() {
    let cpu = rtx_cpu::CpuDevice::new(crate::natives());
    let load = |text: &str| {
        cpu.load(&rtx_hal::KernelSource { name: "t".into(), lang: rtx_hal::Lang::Native, text: text.into() })
    };
    for dtype in ["f32", "f64", "i32", "i64"] {
        assert!(load(&format!("gemm {dtype}")).is_ok(), "{dtype}");
    }
    let message = load("gemm bf16").err().map(|e| e.message().to_string());
    assert_eq!(message.as_deref(), Some("gemm: malformed kernel text: bf16"));
}

#[test]
fn a_launch_multiplies() {
    let cpu = rtx_cpu::CpuDevice::new(crate::natives());
    let source = rtx_hal::KernelSource { name: "t".into(), lang: rtx_hal::Lang::Native, text: "gemm i32".into() };
    let code = cpu.load(&source).expect("gemm is there");
    let (mut a, mut b, mut c) = ([1i32, 2, 3, 4], [5i32, 6, 7, 8], [0i32; 4]);
    let buffers = [a.as_mut_ptr().cast(), b.as_mut_ptr().cast(), c.as_mut_ptr().cast()];
    let sizes = [1, 1, 2, 2, 2, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0, 2, 1];
    // SAFETY: three 2 × 2 matrices.
    unsafe { cpu.launch(&*code, &Launch { buffers: &buffers, sizes: &sizes, error: &ErrorSlot::default() }) }
        .expect("runs");
    assert_eq!(c, [19, 22, 43, 50]);
}

/// `C = C + bias[n]` in place, and `out[b0, b1, m, n] = C * C`, over sizes
/// `[b0, b1, m, n, c_b0, c_b1, c_m, c_n]`; bias and out are contiguous.
fn epilogue_text() -> String {
    use rtx_core::Arith;
    use rustg::{Axis, AxisId, BufferDecl, BufferId, Instr, Nest, Size, Store, View};
    let extent = |i| Axis { extent: Size::Arg(i), walk: false };
    let view = |buffer, strides: &[(u32, u32)]| View {
        buffer: BufferId(buffer),
        strides: strides.iter().map(|&(axis, size)| (AxisId(axis), Size::Arg(size))).collect(),
        offset: Size::Const(0),
        indexed: vec![],
    };
    let c = view(0, &[(0, 4), (1, 5), (2, 6), (3, 7)]);
    let bias = View { strides: vec![(AxisId(3), Size::Const(1))], ..view(1, &[]) };
    let out = view(2, &[(0, 8), (1, 9), (2, 10), (3, 11)]);
    let mut nest = Nest { axes: (0..4).map(extent).collect(), sizes: 12, ..Nest::default() };
    nest.buffers = [true, false, true].map(|written| BufferDecl { dtype: DType::F32, written }).into();
    let x = nest.push(Instr::Load(c.clone()));
    let y = nest.push(Instr::Load(bias));
    let sum = nest.push(Instr::Binary(Arith::Add, x, y));
    let square = nest.push(Instr::Binary(Arith::Mul, sum, sum));
    nest.stores = vec![Store { view: c, value: sum }, Store { view: out, value: square }];
    rustg::schedule(&nest).expect("the epilogue is well formed").print()
}

#[test]
fn an_epilogue_sees_every_element_once_and_final() {
    use Lies::*;
    let cpu = rtx_cpu::CpuDevice::new(vec![Arc::new(Gemm)]);
    let source = KernelSource { name: "t".into(), lang: Lang::Native, text: format!("gemm f32\n{}", epilogue_text()) };
    let code = cpu.load(&source).expect("gemm takes the epilogue");
    let shapes = [
        ([2, 3], 11, 33, 25, [Plain, Shared, Plain]),
        ([1, 1], 301, 1030, 9, PLAIN),
        ([1, 1], 40, 50, 1100, PLAIN),
        ([1, 2], 30, 70, 20, [Plain, Plain, Transposed]),
        ([3, 1], 1, 40, 64, PLAIN),
        ([1, 1], 50, 1, 64, PLAIN),
    ];
    for (batch @ [b0, b1], m, n, k, lies) in shapes {
        let (a_strides, a_len) = strides(lies[0], [b0, b1, m, k]);
        let (b_strides, b_len) = strides(lies[1], [b0, b1, k, n]);
        let (c_strides, c_len) = strides(lies[2], [b0, b1, m, n]);
        let (out_strides, out_len) = strides(Plain, [b0, b1, m, n]);
        let head = [b0, b1, m, n, k].map(|x| x as i64);
        let own = [&head[..], &a_strides, &b_strides, &c_strides].concat();
        let sizes = [&own[..], &head[..4], &c_strides, &out_strides].concat();
        let mut state = k as u64;
        let mut values = |len: usize| -> Vec<f32> { (0..len).map(|_| f32::sample(random(&mut state))).collect() };
        let (mut a, mut b, mut bias) = (values(a_len), values(b_len), values(n));
        let mut plain = vec![0f32; c_len];
        // SAFETY: the vectors have every element that the strides reach.
        unsafe { multiply::<f32>(&Product::parse(&own), a.as_ptr(), b.as_ptr(), plain.as_mut_ptr(), &|_| ()) }
        let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
        for threads in [1, 2] {
            pool::set_threads(threads);
            let (mut c, mut out) = (vec![7f32; c_len], vec![7f32; out_len]);
            let buffers = [&mut a, &mut b, &mut c, &mut bias, &mut out].map(|v| v.as_mut_ptr().cast());
            // SAFETY: as above.
            unsafe { cpu.launch(&*code, &Launch { buffers: &buffers, sizes: &sizes, error: &ErrorSlot::default() }) }
                .expect("runs");
            let index = |s: &[i64; 4], i: [usize; 4]| s.iter().zip(i).map(|(s, i)| *s as usize * i).sum::<usize>();
            for flat in 0..out_len {
                let i = [flat / n / m / b1, flat / n / m % b1, flat / n % m, flat % n];
                let at = index(&c_strides, i);
                let sum = plain[at] + bias[i[3]];
                assert_eq!((c[at], out[flat]), (sum, sum * sum), "{batch:?} {m} {n} {k} at {i:?}, {threads} threads");
            }
        }
        pool::set_threads(0);
    }
}

#[test]
fn an_epilogue_over_other_axes_is_refused() {
    let cpu = rtx_cpu::CpuDevice::new(vec![Arc::new(Gemm)]);
    let load = |text: &str| cpu.load(&KernelSource { name: "t".into(), lang: Lang::Native, text: text.into() });
    let text = epilogue_text();
    let three_axes = text.replacen("axis s0\n", "", 1);
    assert_ne!(text, three_axes);
    assert!(load(&format!("gemm f32\n{text}")).is_ok());
    assert!(load(&format!("gemm f32\n{three_axes}")).is_err());
    assert!(load("gemm f32\nnonsense").is_err());
}

/// bf16 of every kind: like each other in size, so that sums cancel; any bits; near the smallest.
fn some_half(random: u64) -> u16 {
    match random % 8 {
        0 => (random >> 20) as u16 & 0xbfff,
        1 => (random >> 20) as u16 & 0x80ff,
        2 | 3 => 0x1f80 | (random >> 20) as u16 & 0x80ff,
        _ => 0x3f80 | (random >> 20) as u16 & 0x807f,
    }
}

#[test]
fn pairs_of_halves_have_the_same_bits_every_way() {
    use Lies::*;
    let shapes =
        [(2, 2, 1), (3, 5, 2), (8, 48, 16), (9, 65, 17), (23, 57, 139), (13, 49, 1027), (150, 70, 36), (5, 1, 9)];
    let layouts = [PLAIN, [Transposed; 3], [Plain, Transposed, Plain], [Apart; 3], [Plain, Shared, Plain]];
    for (m, n, k) in shapes {
        for (lies, batch) in layouts.into_iter().zip([[1, 1], [2, 1], [1, 1], [1, 1], [2, 2]]) {
            let [b0, b1] = batch;
            let (a_strides, a_len) = strides(lies[0], [b0, b1, m, k]);
            let (b_strides, b_len) = strides(lies[1], [b0, b1, k, n]);
            let (c_strides, c_len) = strides(lies[2], [b0, b1, m, n]);
            let mut state = (m * 31 + n * 7 + k) as u64;
            let mut values = |len: usize| -> Vec<u16> { (0..len).map(|_| some_half(random(&mut state))).collect() };
            let (a, b) = (values(a_len), values(b_len));
            let head = [b0, b1, m, n, k].map(|x| x as i64);
            let product = Product::parse(&[&head[..], &a_strides, &b_strides, &c_strides].concat());
            let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
            let mut want: Option<Vec<u32>> = None;
            for pairs in half::ways() {
                for threads in [1, 2, 3] {
                    set_isa(Some(pairs.isa));
                    pool::set_threads(threads);
                    let (mut c, parts) = (vec![7f32; c_len], Mutex::new(Vec::new()));
                    let done = |part: Part| parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
                    // SAFETY: the vectors have every element that the strides reach.
                    unsafe { half::multiply(pairs, &product, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &done) }
                    let what = format!("{head:?} {lies:?} on {} with {threads}", pairs.isa.name());
                    check_parts(&parts.into_inner().unwrap_or_else(PoisonError::into_inner), [b0, b1, m, n], &what);
                    let bits: Vec<u32> = c.iter().map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).collect();
                    match &want {
                        None => want = Some(bits),
                        Some(want) => {
                            let differs = bits.iter().zip(want).position(|(x, y)| x != y);
                            assert!(differs.is_none(), "{what}: element {differs:?}");
                        }
                    }
                }
            }
            set_isa(None);
            pool::set_threads(0);
        }
    }
}

/// 2 × 2 outputs, each the sum of these pairs of products.
fn sum_of_pairs(pairs: half::Pairs, products: &[[f32; 2]]) -> f32 {
    let half = |x: f32| (x.to_bits() >> 16) as u16;
    let k = products.len();
    let a: Vec<u16> = [products, products].concat().iter().map(|p| half(p[0])).collect();
    let b: Vec<u16> = products.iter().flat_map(|p| [half(p[1]); 2]).collect();
    let k = k as i64;
    let product = Product::parse(&[1, 1, 2, 2, k, 0, 0, k, 1, 0, 0, 2, 1, 0, 0, 2, 1]);
    let mut c = [7f32; 4];
    // SAFETY: two rows of k, k rows of two, two rows of two.
    unsafe { half::multiply(pairs, &product, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &|_| ()) }
    c[3]
}

#[test]
fn pairs_of_halves_go_odd_first_and_leave_no_denormals() {
    let two = |exponent: i32| 2f32.powi(exponent);
    let denormal = f32::from_bits(0x0040_0000);
    for pairs in half::ways() {
        let sum = |products: &[[f32; 2]]| sum_of_pairs(pairs, products);
        // The even product is lost beside the large odd one unless it is added after the odd ones have cancelled.
        assert_eq!(sum(&[[1.0, 1.0], [two(30), 1.0]]), two(30), "{}", pairs.isa.name());
        assert_eq!(sum(&[[0.0, 0.0], [two(30), 1.0], [1.0, 1.0], [-two(30), 1.0]]), 1.0);
        assert_eq!(sum(&[[denormal, two(100)], [0.0, 0.0]]), 0.0);
        assert_eq!(sum(&[[two(-70), two(-70)], [0.0, 0.0]]).to_bits(), 0);
        assert_eq!(sum(&[[-two(-70), two(-70)], [0.0, 0.0]]).to_bits(), 1 << 31);
        // The smallest normal number less half a last place, less a whole one, less three quarters.
        let least = [two(-63), two(-63)];
        assert_eq!(sum(&[[-two(-75), two(-76)], least]), f32::MIN_POSITIVE, "{}", pairs.isa.name());
        assert_eq!(sum(&[[-two(-75), two(-75)], least]), 0.0);
        assert_eq!(sum(&[[-1.5 * two(-75), two(-76)], least]), 0.0, "{}", pairs.isa.name());
    }
}

//! Printed loops give the tile VM's bits over the whole range of numbers: functions that printed code computes by other
//! instructions, and quotients that it finds by a reciprocal.
#![allow(unsafe_code, reason = "runs kernels on raw pointers")]
use rustg::{Isa, Jit, Scratch, TileProg, jit_counters, set_jit};

const ROWS: usize = 64;
const COLS: usize = 2051;

/// What a program of one operand of `ROWS` rows and one number a row makes of them; as bits, every NaN the same.
fn run(text: &str, x: &[f32], of_row: &[f32], isa: Isa, jit: Jit) -> Vec<u32> {
    set_jit(Some(jit));
    let program = TileProg::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let (mut x, mut of_row, mut y) = (x.to_vec(), of_row.to_vec(), vec![7f32; x.len()]);
    let buffers = [x.as_mut_ptr(), of_row.as_mut_ptr(), y.as_mut_ptr()].map(|p| p.cast::<u8>());
    let sizes = [of_row.len() as i64, (x.len() / of_row.len()) as i64];
    let work = program.work(&sizes);
    // SAFETY: the buffers are as large as the sizes say.
    unsafe { program.run(&buffers, &sizes, 0..work, isa, &mut Scratch::new(), &|_, _| {}) };
    y.iter().map(|y| if y.is_nan() { f32::NAN.to_bits() } else { y.to_bits() }).collect()
}

fn program(body: &str) -> String {
    let head = "tile 2\naxis s0\naxis s1\nbuffer f32\nbuffer f32\nbuffer f32 written\nphase 0\n";
    format!("{head}%0 = load f32 b0 +0 a0*s1 a1*1\n%1 = load f32 b1 +0 a0*1\n{body}")
}

/// Every way gives what the plainest one gives.
fn compare(text: &str, x: &[f32], of_row: &[f32]) {
    let want = run(text, x, of_row, Isa::Scalar, Jit::Never);
    for isa in Isa::available().filter(|&isa| isa >= Isa::Avx2) {
        let before = jit_counters().printed;
        let got = run(text, x, of_row, isa, Jit::Always);
        assert!(cfg!(not(target_arch = "x86_64")) || jit_counters().printed > before, "nothing was printed\n{text}");
        let wrong = (0..x.len()).find(|&i| got[i] != want[i]);
        if let Some(i) = wrong {
            let (row, of) = (i / (x.len() / of_row.len()), want[i]);
            panic!("{:e} and {:e}: {:x} on {}, not {of:x}\n{text}", x[i], of_row[row], got[i], isa.name());
        }
    }
}

/// `count` bit patterns spread over all of them.
fn patterns(count: usize, step: u32) -> Vec<f32> {
    (0..count as u32).map(|i| f32::from_bits(i.wrapping_mul(step))).collect()
}

#[test]
fn printed_loops_have_the_bits_of_the_vm_over_the_whole_range() {
    let all = patterns(ROWS * COLS, 0x9e37_79b9);
    // Where an exponential is ordinary, tiny, subnormal, or too large.
    let near: Vec<f32> = (0..ROWS * COLS).map(|i| i as f32 * (220.0 / (ROWS * COLS) as f32) - 120.0).collect();
    let ones = vec![1f32; ROWS];
    for function in ["exp", "expm1", "log", "log1p", "tanh", "erf", "sqrt", "sign", "floor", "round_even"] {
        let text = program(&format!("%2 = {function} f32 %0\nstore b2 +0 a0*s1 a1*1 = %2\n"));
        compare(&text, &all, &ones);
        compare(&text, &near, &ones);
    }
    // Divisors in and around the range in which quotients are found by a reciprocal, whole mantissas among them.
    let special = [1.0, 3.0, -7.0, 0.0, f32::NAN, f32::INFINITY, 1e-40, 3e38, 0.015625, 1_073_741_824.0, 2047.9999];
    let bits = |i: u32| {
        (0x3c80_0000 + i.wrapping_mul(0x0123_4567) % 0x1200_0000) | if i.is_multiple_of(5) { 0x7f_ffff } else { 0 }
    };
    let divisors: Vec<f32> =
        (0..ROWS as u32).map(|i| special.get(i as usize).copied().unwrap_or(f32::from_bits(bits(i)))).collect();
    let dividends: Vec<f32> = (0..ROWS * COLS)
        .map(|i| {
            let mantissa = (i as u32).wrapping_mul(0x9e37_79b9) & 0x007f_ffff;
            // Most are ordinary, so that whole groups are.
            let exponent = if i % 2051 < 1024 { 120 + i as u32 % 9 } else { i as u32 % 255 };
            f32::from_bits(mantissa | exponent << 23 | (i as u32 % 3 / 2) << 31)
        })
        .collect();
    let divided = program("%2 = div f32 %0 %1\nstore b2 +0 a0*s1 a1*1 = %2\n");
    compare(&divided, &dividends, &divisors);
    compare(&divided, &patterns(ROWS * COLS, 0x0100_0193), &divisors);
    let halves: Vec<f32> = divisors.iter().flat_map(|d| dividends[..COLS].iter().map(move |q| q * d)).collect();
    compare(&divided, &halves, &divisors);
}

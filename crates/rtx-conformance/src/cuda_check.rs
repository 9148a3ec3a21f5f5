//! Products and attention of halves on a GPU against the processor's in f32: every layout, ragged edges, gradients; and
//! what is too large for a sample, against the processor's bits.
use rustytorch::{self as torch, Device, prelude::*};

/// Relative error that results rounded to halves may have.
const MOST: f64 = 1e-2;

/// |got - want| / |want|.
fn error(got: &Tensor, want: &Tensor) -> Result<f64> {
    let got = got.to(Device::cpu()).to(F32).to_vec::<f32>()?;
    let want = want.to(F32).to_vec::<f32>()?;
    let square = |x: f64| x * x;
    let off: f64 = got.iter().zip(&want).map(|(g, w)| square(f64::from(g - w))).sum();
    let all: f64 = want.iter().map(|w| square(f64::from(*w))).sum();
    Ok((off / all.max(1e-30)).sqrt())
}

/// Normal numbers that halves hold: in f32 on the processor, and as `half` on the GPU.
fn pair(sizes: &[usize], half: DType, device: &Device) -> (Tensor, Tensor) {
    let x = torch::randn(sizes.to_vec()).to(half);
    (x.to(F32), x.to(device))
}

/// What must hold, by name; its errors.
pub(crate) type Found = (String, Vec<f64>);

fn product(half: DType, sizes: [usize; 4], turned: [bool; 2], wide: bool, device: &Device) -> Result<Found> {
    let [batch, m, n, k] = sizes;
    let lie = |rows, columns, turn: bool| if turn { [batch, columns, rows] } else { [batch, rows, columns] };
    let (a, x) = pair(&lie(m, k, turned[0]), half, device);
    let (b, y) = pair(&lie(k, n, turned[1]), half, device);
    let turn = |t: &Tensor, turned: bool| if turned { t.transpose(1, 2) } else { t.clone() };
    let (a, x, b, y) = (turn(&a, turned[0]), turn(&x, turned[0]), turn(&b, turned[1]), turn(&y, turned[1]));
    let got = if wide { x.to(F32).matmul(y.to(F32)) } else { x.matmul(&y) };
    let name = format!("product {half} {sizes:?} turned {turned:?} wide {wide}");
    Ok((name, vec![error(&got, &a.matmul(&b))?]))
}

/// `[b, h, t, s, d]`; how query, key and value lie: 0 as they are, 1 heads inside positions, 2 columns across.
fn attention(half: DType, sizes: [usize; 5], causal: bool, lie: u8, device: &Device) -> Result<Found> {
    let [b, h, t, s, d] = sizes;
    let made = |rows: usize| {
        let (cpu, gpu) = match lie {
            0 => pair(&[b, h, rows, d], half, device),
            1 => pair(&[b, rows, h, d], half, device),
            _ => pair(&[b, h, d, rows], half, device),
        };
        (cpu.requires_grad_(), gpu.requires_grad_())
    };
    let seen = |x: &Tensor| match lie {
        0 => x.clone(),
        1 => x.transpose(1, 2),
        _ => x.transpose(2, 3),
    };
    let ((q, q2), (k, k2), (v, v2)) = (made(t), made(s), made(s));
    let (w, w2) = pair(&[b, h, t, d], half, device);
    let run = |q: &Tensor, k: &Tensor, v: &Tensor, w: &Tensor| {
        let settings = F::Attention { causal, ..default() };
        let y = F::scaled_dot_product_attention(&seen(q), &seen(k), &seen(v), settings);
        (&y * w).to(F32).sum(..).backward();
        y.detach()
    };
    let (want, got) = (run(&q, &k, &v, &w), run(&q2, &k2, &v2, &w2));
    let mut errors = vec![error(&got, &want)?];
    for (got, want) in [(&q2, &q), (&k2, &k), (&v2, &v)] {
        match (got.grad(), want.grad()) {
            (Some(got), Some(want)) => errors.push(error(&got, &want)?),
            _ => errors.push(f64::NAN),
        }
    }
    Ok((format!("attention {half} {sizes:?} causal {causal} lie {lie}"), errors))
}

/// `[b, t, h, d]`: query, key and value as parts of one tensor, whose gradient is made of three; what else reads them
/// (`more`) makes copies of it.
fn joint(half: DType, sizes: [usize; 4], more: bool, device: &Device) -> Result<Found> {
    let [b, t, h, d] = sizes;
    let (x, y) = pair(&[b, t, 3 * h * d], half, device);
    let (x, y) = (x.requires_grad_(), y.requires_grad_());
    let (w, w2) = pair(&[b, t, h * d], half, device);
    let run = |x: &Tensor, w: &Tensor| {
        let parts = x.reshape((b, t, 3, h, d)).permute([2, 0, 3, 1, 4]).unbind(0);
        let settings = F::Attention { causal: true, ..default() };
        let y = F::scaled_dot_product_attention(&parts[0], &parts[1], &parts[2], settings);
        let y = &y.transpose(1, 2).reshape((b, t, h * d)) * w;
        let y = if more { y.to(F32).sum(..) + parts[1].to(F32).sum(..) } else { y.to(F32).sum(..) };
        y.backward();
        y.detach()
    };
    let (want, got) = (run(&x, &w), run(&y, &w2));
    let grads = match (y.grad(), x.grad()) {
        (Some(got), Some(want)) => error(&got, &want)?,
        _ => f64::NAN,
    };
    // The sum may be near 0: its error counts beside its terms.
    let sum = (got.to(Device::cpu()).item::<f64>()? - want.item::<f64>()?).abs() / ((b * t * h * d) as f64).sqrt();
    Ok((format!("joint attention {half} {sizes:?} more {more}"), vec![sum, grads]))
}

/// What has the processor's bits: error 0, or 1.
fn bits(what: &str, sizes: &[usize], dtype: DType, f: fn(&Tensor) -> Tensor, device: &Device) -> Result<Found> {
    let x = torch::randn(sizes.to_vec()).to(dtype);
    let want = f(&x).to(F32).to_vec::<f32>()?;
    let got = f(&x.to(device)).to(Device::cpu()).to(F32).to_vec::<f32>()?;
    let same = got.iter().map(|x| x.to_bits()).eq(want.iter().map(|x| x.to_bits()));
    Ok((format!("{what} of {dtype} {sizes:?}"), vec![if same { 0.0 } else { 1.0 }]))
}

/// Every check, run on a device.
pub(crate) fn cases(device: &Device) -> Vec<Result<Found>> {
    torch::manual_seed(1);
    let mut found: Vec<Result<Found>> = vec![];
    for half in [BF16, F16] {
        let shapes = [
            [1, 512, 512, 512],
            [1, 300, 520, 264],
            [1, 768, 768, 8192],
            [1, 128, 2312, 768],
            [3, 200, 136, 72],
            [1, 2048, 768, 768],
        ];
        for sizes in shapes {
            for turned in [[false, false], [false, true], [true, false], [true, true]] {
                for wide in [false, true] {
                    found.push(product(half, sizes, turned, wide, device));
                }
            }
        }
        let cases = [
            ([2, 3, 256, 256, 64], true, 0),
            ([2, 3, 256, 256, 64], true, 1),
            ([1, 2, 200, 200, 64], true, 1),
            ([1, 2, 1000, 1000, 64], true, 1),
            ([2, 2, 130, 333, 64], false, 0),
            ([1, 2, 384, 384, 128], true, 1),
            ([1, 2, 100, 257, 128], false, 0),
            ([1, 2, 50, 50, 64], true, 2),
            ([1, 2, 40, 70, 128], false, 2),
        ];
        for (sizes, causal, lie) in cases {
            found.push(attention(half, sizes, causal, lie, device));
        }
    }
    for half in [BF16, F16] {
        for more in [false, true] {
            found.push(joint(half, [2, 256, 3, 64], more, device));
            found.push(joint(half, [1, 200, 2, 128], more, device));
        }
    }
    for dtype in [F32, BF16] {
        found.push(bits("a split sum", &[1_000_003], dtype, |x| x.sum(..), device));
        found.push(bits("a split sum", &[3, 400_001], dtype, |x| (x * x).sum(-1), device));
        found.push(bits("a split sum", &[16_384, 96], dtype, |x| x.sum(0), device));
        found.push(bits("a split sum", &[9_000, 770], dtype, |x| (x * 2.0).amax(0), device));
    }
    // Threads take several neighbours, in one piece where they lie on its boundary.
    let pointwise: [(&str, fn(&Tensor) -> Tensor); 8] = [
        ("a chain", |x| x.exp() * 2.0 + 1.0),
        ("a row for all", |x| x * x.select(0, 3) + 0.5),
        ("a column for all", |x| x - x.narrow(1, 5, 1)),
        ("a turned tensor", |x| x.transpose(0, 1).tanh()),
        ("an odd slice", |x| x.narrow(1, 1, 1016) * 3.0),
        ("a choice", |x| x.gt(0.0).if_else(x, 0.25)),
        ("a write in place", |x| {
            let y = x * 1.5;
            y.add_(x).mul_(0.5);
            y
        }),
        ("a write into a slice", |x| {
            let y = x * 1.5;
            y.narrow(1, 4, 1016).add_(2.0);
            y
        }),
    ];
    for dtype in [F32, BF16, F16, F64] {
        for (what, f) in pointwise {
            for sizes in [[520, 1024], [517, 1031]] {
                found.push(bits(what, &sizes, dtype, f, device));
            }
        }
    }
    found
}

/// Prints every check; false where one fails.
///
/// # Errors
/// What the device says.
pub fn run() -> Result<bool> {
    let device = Device::cuda(0)?;
    let mut right = true;
    for one in cases(&device) {
        let (name, errors) = one?;
        // NaN is wrong.
        let good = errors.iter().all(|e| *e < MOST);
        right &= good;
        if !good || std::env::var_os("RTX_VERBOSE").is_some() {
            let list: Vec<String> = errors.iter().map(|e| format!("{e:.1e}")).collect();
            println!("{} {name}: {}", if good { "ok   " } else { "WRONG" }, list.join(" "));
        }
    }
    let (fast, general) = rtx_device::cuda_driver(0)?.fast_launches();
    println!(
        "checks {}: {fast} launches of warp-group kernels, {general} of general ones",
        if right { "hold" } else { "FAIL" }
    );
    Ok(right)
}

//! Memory: checkpoints and budgets make plans smaller, and what is measured is what was said.
use rtx_tensor::{
    self as torch, Result, Tensor,
    autograd::{checkpoint, memory_budget},
    functional as F,
};
use std::sync::Mutex;

/// These tests measure the memory of the process: one at a time.
static MEMORY: Mutex<()> = Mutex::new(());

fn bits(t: &Tensor) -> Result<Vec<u32>> {
    Ok(t.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect())
}

/// One region of a deep chain: with checkpoints the plan needs less memory.
#[test]
fn memory_falls() -> Result<()> {
    let _alone = MEMORY.lock().unwrap_or_else(|e| e.into_inner());
    let peak = |with: bool| -> Result<u64> {
        let x = torch::ones([256, 256]).requires_grad_();
        torch::flush()?;
        torch::empty_cache();
        torch::reset_peak_memory();
        let before = torch::memory().live_bytes;
        let step = |x: &Tensor| (0..4).fold(x.alias(), |x, _| F::gelu(&(x.matmul(&x).tanh())));
        let mut y = x.alias();
        for _ in 0..4 {
            y = if with { checkpoint(|| step(&y)) } else { step(&y) };
        }
        y.sum(..).backward();
        x.grad().expect("a gradient").to_vec::<f32>()?;
        Ok(torch::memory().peak_bytes - before)
    };
    let (plain, less) = (peak(false)?, peak(true)?);
    assert!(less * 10 < plain * 7, "{less} bytes with checkpoints, {plain} without");
    Ok(())
}

/// A budget is kept where it can be, what is measured is what was said, and the bits are those without one.
#[test]
fn a_memory_budget_is_kept() -> Result<()> {
    let _alone = MEMORY.lock().unwrap_or_else(|e| e.into_inner());
    let step = |budget: Option<u64>| -> Result<(u64, Vec<u32>)> {
        torch::manual_seed(7);
        let x = torch::randn([256, 128]);
        let ws: Vec<Tensor> = (0..8).map(|_| (torch::randn([128, 128]) * 0.1).requires_grad_()).collect();
        torch::flush()?;
        torch::empty_cache();
        torch::reset_peak_memory();
        let run = || {
            let layer = |x: Tensor, w: &Tensor| {
                F::dropout(&F::gelu(&F::layer_norm(&x, 128, None, None, 1e-5).matmul(w)), 0.1) + x
            };
            ws.iter().fold(x.alias(), layer).pow(2).mean(..).backward();
        };
        match budget {
            Some(bytes) => memory_budget(bytes, run),
            None => run(),
        }
        torch::flush()?;
        let peak = torch::memory().peak_bytes;
        let mut all = Vec::new();
        for w in &ws {
            all.extend(bits(&w.grad().expect("a gradient"))?);
        }
        Ok((peak, all))
    };
    let (plain, want) = step(None)?;
    let said = torch::counters().plan_peak_bytes;
    let mut last = plain;
    for percent in [90, 75, 66] {
        let budget = plain * percent / 100;
        let (peak, got) = step(Some(budget))?;
        let report = torch::budget_report().expect("a plan was made");
        assert_eq!(said, plain, "the plan of everything kept");
        assert!(report.fits(), "{report}");
        assert!(peak <= budget, "{peak} bytes under a budget of {budget}: {report}");
        assert!(peak.abs_diff(report.peak_bytes) * 50 <= peak, "{peak} bytes measured, {report}");
        assert!(peak < last, "{peak} bytes, before {last}");
        assert_eq!(got, want, "at {percent} %");
        last = peak;
    }
    // More cannot be had than everything computed again; the report says so.
    step(Some(1 << 10))?;
    let report = torch::budget_report().expect("a plan was made");
    assert!(!report.fits() && report.peak_bytes < plain, "{report}");
    Ok(())
}

//! NVIDIA GPUs put together: driver, kernels, and the claims that have a kernel there.
use rtx_compiler::Compiler;
use rtx_core::Result;
use rtx_cuda::CudaDevice;
use rtx_plan::Claim;
use rtx_runtime::Executor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A GPU and what runs ops there.
#[derive(Clone)]
pub(crate) struct Opened {
    driver: Arc<CudaDevice>,
    pub(crate) executor: Executor,
}

static OPENED: Mutex<Option<HashMap<usize, Opened>>> = Mutex::new(None);

pub(crate) fn open(index: usize) -> Result<Opened> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_default();
    if let Some(there) = opened.get(&index) {
        return Ok(there.clone());
    }
    let driver = Arc::new(CudaDevice::open(index, rtx_kernel_cuda::templates())?);
    let new = Opened { executor: Executor::new(driver.clone(), Arc::new(cuda_compiler())), driver };
    opened.insert(index, new.clone());
    Ok(new)
}

/// A GPU's driver: its facts and counters.
///
/// # Errors
/// As [`crate::Device::cuda`].
pub fn cuda_driver(index: usize) -> Result<Arc<CudaDevice>> {
    open(index).map(|opened| opened.driver)
}

/// The compiler for GPUs: it claims what has a kernel there; cross-entropy, which has none of its own yet, and attention
/// that is not of halves are expanded into their bodies. Needs no GPU.
pub fn cuda_compiler() -> Compiler {
    let here = |claim: &Arc<dyn Claim>| rtx_kernel_cuda::CLAIMS.contains(&claim.name());
    Compiler::new(rtx_kernel_cpu::claims().into_iter().filter(here).collect())
}

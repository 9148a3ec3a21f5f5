//! Kernels made for one architecture: which launches serve which sizes, and the launches themselves.
use crate::code::Function;
use crate::device::{Context, lock};
use crate::graph::Sink;
use crate::sys::Address;
use crate::template::{FastPlan, Program, Shot, TensorMap};
use rtx_core::Result;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// Lists of sizes that are remembered.
const MOST_SIZES: usize = 4096;

/// The plans met, and kernels by their lines.
#[derive(Default)]
pub(crate) struct FastCode {
    plans: Mutex<HashMap<Vec<i64>, Option<Arc<FastPlan>>>>,
    functions: Mutex<HashMap<(String, usize), Arc<Function>>>,
}

impl FastCode {
    /// The launches for these sizes, if there are any.
    pub(crate) fn plan(&self, context: &Context, program: &Program, sizes: &[i64]) -> Option<Arc<FastPlan>> {
        let fast = program.fast.as_ref().filter(|f| f.arch == context.facts().arch)?;
        let mut plans = lock(&self.plans);
        if let Some(plan) = plans.get(sizes) {
            return plan.clone();
        }
        if plans.len() >= MOST_SIZES {
            plans.clear();
        }
        let plan = (fast.plan)(sizes, context.facts().multiprocessors).map(Arc::new);
        plans.insert(sizes.to_vec(), plan.clone());
        plan
    }

    /// Compiles what a plan needs, and makes room for it.
    pub(crate) fn make_ready(&self, context: &Context, program: &Program, plan: &FastPlan) -> Result<()> {
        for shot in &plan.shots {
            self.function(context, program, shot)?;
        }
        context.grow_scratch(&mut lock(&context.scratch), plan.scratch)
    }

    fn function(&self, context: &Context, program: &Program, shot: &Shot) -> Result<Arc<Function>> {
        let key = (shot.define.clone(), shot.maps.len());
        if let Some(function) = lock(&self.functions).get(&key) {
            return Ok(function.clone());
        }
        let Some(fast) = &program.fast else { return unreachable_plan() };
        let entry = CString::new(shot.entry).unwrap_or_default();
        let new = Arc::new(context.function(&program.fast_source(fast, shot), &entry)?);
        new.ask_shared(context, shot.grid.shared_bytes)?;
        Ok(lock(&self.functions).entry(key).or_insert(new).clone())
    }

    /// Queues the launches; false where the copy engine does not take the buffers as they lie.
    ///
    /// # Safety
    /// As `NativeCode::launch`.
    pub(crate) unsafe fn launch(
        &self,
        context: &Context,
        program: &Program,
        plan: &FastPlan,
        (arguments, buffers): (&[u64], &[*mut u8]),
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let mut all = Vec::with_capacity(plan.shots.len());
        for shot in &plan.shots {
            let mut words = Vec::with_capacity(16 * shot.maps.len() + arguments.len() + 8);
            for map in &shot.maps {
                let Some(encoded) = encode(context, map, buffers) else { return Ok(false) };
                words.extend(encoded);
            }
            words.resize(16 * shot.maps.len().max(1), 0);
            words.extend_from_slice(arguments);
            all.push(words);
        }
        let mut scratch = lock(&context.scratch);
        context.grow_scratch(&mut scratch, plan.scratch)?;
        for (shot, mut words) in plan.shots.iter().zip(all) {
            words.push(scratch.0);
            // A struct of maps is a multiple of 64 bytes.
            words.resize(words.len().next_multiple_of(8), 0);
            // SAFETY: the caller's promise: the kernel was written for these arguments.
            unsafe { sink.push(context, &self.function(context, program, shot)?, shot.grid, &mut words)? };
        }
        context.fast.0.fetch_add(1, Relaxed);
        Ok(true)
    }
}

/// A plan is there only where its kernels are.
fn unreachable_plan<T>() -> Result<T> {
    Err(rtx_core::Error::new(rtx_core::Kind::Internal, "cuda: a plan without kernels"))
}

/// The 128 bytes that the copy engine reads.
fn encode(context: &Context, map: &TensorMap, buffers: &[*mut u8]) -> Option<[u64; 16]> {
    #[repr(C, align(64))]
    struct Words([u64; 16]);
    /// NVIDIA's numbers: bf16 (halves are moved, not read), no interleaving, swizzle of 128 bytes, L2 lines of 256.
    const NUMBERS: [i32; 4] = [9, 0, 3, 3];
    let [bf16, none, swizzle, l2] = NUMBERS;
    let at = buffers.get(map.buffer)?.addr() as Address;
    let mut words = Words([0; 16]);
    let (boxes, ones) = ([64, map.lines, 1, 1], [1u32; 4]);
    // SAFETY: 128 bytes to write, four extents, three strides, four box sizes, four steps.
    let status = unsafe {
        (context.cuda.map)(
            words.0.as_mut_ptr(),
            bf16,
            4,
            at,
            map.extents.as_ptr(),
            map.strides.as_ptr(),
            boxes.as_ptr(),
            ones.as_ptr(),
            none,
            swizzle,
            l2,
            0,
        )
    };
    (status == 0).then_some(words.0)
}

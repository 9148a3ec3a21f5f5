//! A plan made ready: code loaded, arguments laid out flat, so that a replay only fills in addresses.
use crate::counters::add;
use crate::launch::{self, Arguments, Planned, Pointer};
use crate::memory::Memory;
use crate::value::Storage;
use crate::{Executor, lock};
use rtx_core::{DType, Error, Kind, Layout, Result, Shape, SymId};
use rtx_hal::{Code, DeviceError, ErrorSlot, Fault, Kept, KernelSource, Receipt};
use rtx_ir::ValueId;
use rtx_plan::{BufferArg, OutputPlace, Place, Plan, SizeExpr};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A plan made ready.
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    /// The code of each step.
    codes: Vec<Arc<dyn Code>>,
    /// The instances of each step, in `instances`.
    steps: Vec<Range<usize>>,
    /// Where the buffers and sizes of each instance lie in the lists below.
    instances: Vec<(Range<usize>, Range<usize>)>,
    buffers: Vec<BufferArg>,
    /// Sizes, those that depend on symbols at 0.
    sizes: Vec<i64>,
    /// Which sizes depend on symbols.
    symbolic_sizes: Vec<(usize, SizeExpr)>,
    constants: Option<Memory>,
    /// Is its code ready for the sizes it ran with first?
    ready: AtomicBool,
    /// What the driver keeps of its launches.
    kept: Mutex<Kept>,
}

/// Code by its text.
#[derive(Default)]
pub(crate) struct CodeCache {
    codes: HashMap<KernelSource, Arc<dyn Code>>,
    bytes: usize,
}

/// Bytes of kernel text above which code that no plan uses is dropped.
const CODE_BYTES: usize = 64 << 20;

impl CodeCache {
    fn load(&mut self, executor: &Executor, source: &KernelSource) -> Result<Arc<dyn Code>> {
        // The name is for people; equal texts are one kernel.
        let key = KernelSource { name: String::new(), ..source.clone() };
        if let Some(code) = self.codes.get(&key) {
            return Ok(code.clone());
        }
        let code = executor.device().load(source)?;
        add(&executor.totals().kernels_loaded, 1);
        self.bytes += key.text.len();
        if self.bytes > CODE_BYTES {
            self.codes.retain(|_, code| Arc::strong_count(code) > 1);
            self.bytes = self.codes.keys().map(|k| k.text.len()).sum::<usize>() + key.text.len();
        }
        self.codes.insert(key, code.clone());
        Ok(code)
    }
}

impl Prepared {
    /// Checks a plan, loads its code and its constants.
    ///
    /// # Errors
    /// [`Kind::Internal`] for a plan that does not hang together, [`Kind::Memory`], what the driver says of a kernel.
    pub(crate) fn new(executor: &Executor, codes: &mut CodeCache, plan: Plan, inputs: usize) -> Result<Self> {
        check_plan(&plan, inputs)?;
        let constants = match plan.constants.as_slice() {
            [] => None,
            bytes => {
                let memory = executor.pool().take(bytes.len())?;
                launch::write(&memory, bytes)?;
                Some(memory)
            }
        };
        let kernels = plan.kernels.iter().map(|k| codes.load(executor, k)).collect::<Result<Vec<_>>>()?;
        let mut prepared = Self {
            codes: plan.steps.iter().map(|s| kernels[s.kernel as usize].clone()).collect(),
            steps: Vec::with_capacity(plan.steps.len()),
            instances: Vec::new(),
            buffers: Vec::new(),
            sizes: Vec::new(),
            symbolic_sizes: Vec::new(),
            constants,
            ready: AtomicBool::new(false),
            kept: Mutex::default(),
            plan,
        };
        prepared.lay_out();
        Ok(prepared)
    }

    /// Lays the arguments of all instances out flat.
    fn lay_out(&mut self) {
        for step in &self.plan.steps {
            let first = self.instances.len();
            for instance in &step.instances {
                let (b, s) = (self.buffers.len(), self.sizes.len());
                self.buffers.extend(instance.buffers.iter().cloned());
                for (i, size) in instance.sizes.iter().enumerate() {
                    self.sizes.push(size.known().unwrap_or(0));
                    if size.known().is_none() {
                        self.symbolic_sizes.push((s + i, size.clone()));
                    }
                }
                self.instances.push((b..self.buffers.len(), s..self.sizes.len()));
            }
            self.steps.push(first..self.instances.len());
        }
    }

    /// Bytes that it takes, roughly.
    pub(crate) fn size_bytes(&self) -> usize {
        let arguments = 96 * self.buffers.len() + 64 * self.sizes.len() + 128 * self.instances.len();
        let texts: usize = self.plan.kernels.iter().map(|k| k.text.len()).sum();
        arguments + texts + self.plan.constants.len() + 128 * self.plan.outputs.len()
    }
}

/// Do all places of a plan exist?
fn check_plan(plan: &Plan, inputs: usize) -> Result<()> {
    let wrong = |what: &str| Err(Error::new(Kind::Internal, format!("plan: {what}")));
    let is_slot = |i: u32| matches!(plan.outputs.get(i as usize), Some(o) if matches!(o.place, OutputPlace::Slot(_)));
    let exists = |place: Place| match place {
        Place::Input(i) => (i as usize) < inputs,
        Place::Slot(i) => is_slot(i),
        Place::Arena(at) => at <= plan.arena_bytes,
        Place::Param(i) => i < plan.params,
        Place::Constant(at) => at <= plan.constants.len() as u64,
    };
    for step in &plan.steps {
        if step.kernel as usize >= plan.kernels.len() || step.instances.is_empty() {
            return wrong("a step without kernel or instances");
        }
        if !step.instances.iter().flat_map(|i| &i.buffers).all(|b| exists(b.place)) {
            return wrong("an argument lies nowhere");
        }
    }
    for (i, output) in plan.outputs.iter().enumerate() {
        let exists = match output.place {
            OutputPlace::Slot(_) => true,
            OutputPlace::Donated(k) | OutputPlace::Input(k) => (k as usize) < inputs,
            OutputPlace::Output(k) => (k as usize) < i,
        };
        if !exists {
            return wrong("an output lies nowhere");
        }
    }
    Ok(())
}

/// What one run of a plan is given.
pub(crate) struct Run<'a> {
    pub(crate) prepared: &'a Prepared,
    /// Memory and element type of each input; `None` where no kernel may read it.
    pub(crate) inputs: &'a [Option<(Storage, DType)>],
    /// Bits of the run-time numbers.
    pub(crate) params: &'a [u64],
    /// Values of the symbols.
    pub(crate) symbols: &'a [(SymId, i64)],
}

/// Why a run failed.
pub(crate) enum Failed {
    /// Nothing has been written.
    BeforeStart(Error),
    /// A step reported or failed.
    InStep { step: usize, error: Error },
}
impl From<Error> for Failed {
    fn from(e: Error) -> Self {
        Failed::BeforeStart(e)
    }
}

/// What runs of an executor share: the arena, the block of run-time numbers, scratch lists.
#[derive(Default)]
pub(crate) struct Workspace {
    arena: Option<Memory>,
    params: Option<Memory>,
    error: ErrorSlot,
    param_bytes: Vec<u8>,
    pointers: Vec<Pointer>,
    sizes: Vec<i64>,
}

/// Memory of at least so many bytes in `place`; what is there is given up first, for it is dead.
fn grow(executor: &Executor, place: &mut Option<Memory>, bytes: u64) -> Result<()> {
    if bytes == 0 || place.as_ref().is_some_and(|m| m.bytes() as u64 >= bytes) {
        return Ok(());
    }
    if let Some(old) = place.take() {
        old.discard();
    }
    *place = Some(executor.pool().take(bytes as usize)?);
    Ok(())
}

impl Workspace {
    /// Gives the arena and the block of run-time numbers back to the device.
    pub(crate) fn discard(&mut self) {
        [self.arena.take(), self.params.take()].into_iter().flatten().for_each(Memory::discard);
    }

    /// Runs a plan: all memory first, then addresses, then kernels (contract R6).
    pub(crate) fn replay(&mut self, executor: &Executor, run: &Run<'_>) -> Result<Done, Failed> {
        let plan = &run.prepared.plan;
        let slots = self.acquire(executor, plan)?;
        self.fill_params(run)?;
        self.fill_arguments(run, &slots);
        self.make_ready(executor, run.prepared)?;
        let receipt = self.run_steps(executor, run.prepared)?;
        Ok(Done { results: outputs(run, slots), receipt })
    }

    /// All memory of a run.
    fn acquire(&mut self, executor: &Executor, plan: &Plan) -> Result<Vec<Option<Arc<Memory>>>> {
        grow(executor, &mut self.arena, plan.arena_bytes)?;
        grow(executor, &mut self.params, u64::from(plan.params) * 8)?;
        let slot = |place: &OutputPlace| match place {
            OutputPlace::Slot(bytes) => executor.pool().take(*bytes as usize).map(|m| Some(Arc::new(m))),
            _ => Ok(None),
        };
        plan.outputs.iter().map(|o| slot(&o.place)).collect()
    }

    fn fill_params(&mut self, run: &Run<'_>) -> Result<()> {
        let (wanted, given) = (run.prepared.plan.params as usize, run.params);
        if given.len() < wanted {
            let message = format!("plan: {wanted} run-time numbers wanted, {} recorded", given.len());
            return Err(Error::new(Kind::Internal, message));
        }
        let Some(block) = self.params.as_ref().filter(|_| wanted > 0) else { return Ok(()) };
        self.param_bytes.clear();
        given[..wanted].iter().for_each(|bits| self.param_bytes.extend_from_slice(&bits.to_le_bytes()));
        launch::write(block, &self.param_bytes)
    }

    /// Addresses and sizes of all steps.
    fn fill_arguments(&mut self, run: &Run<'_>, slots: &[Option<Arc<Memory>>]) {
        let value = |s: SymId| run.symbols.iter().find(|(id, _)| *id == s).map_or(0, |(_, n)| *n);
        let within = |memory: Option<&Memory>, at: i64| memory.map_or(Pointer::nowhere(), |m| Pointer::new(m, at));
        let start = |place: Place| match place {
            Place::Input(i) => match &run.inputs[i as usize] {
                Some((s, dtype)) => Pointer::new(&s.memory, (s.layout.offset * dtype.size()) as i64),
                None => Pointer::nowhere(),
            },
            Place::Slot(i) => within(slots[i as usize].as_deref(), 0),
            Place::Arena(at) => within(self.arena.as_ref(), at as i64),
            Place::Param(i) => within(self.params.as_ref(), 8 * i64::from(i)),
            Place::Constant(at) => within(run.prepared.constants.as_ref(), at as i64),
        };
        self.pointers.clear();
        self.pointers.extend(run.prepared.buffers.iter().map(|b| start(b.place).add(b.offset_bytes.eval(value))));
        self.sizes.clear();
        self.sizes.extend_from_slice(&run.prepared.sizes);
        for (at, size) in &run.prepared.symbolic_sizes {
            self.sizes[*at] = size.eval(value);
        }
    }

    /// At a plan's first run: drivers that compile for sizes do all of them at once, before anything is written.
    fn make_ready(&self, executor: &Executor, prepared: &Prepared) -> Result<()> {
        if prepared.ready.load(Relaxed) {
            return Ok(());
        }
        let mut work: Vec<(&dyn Code, &[i64])> = Vec::with_capacity(prepared.instances.len());
        for (code, instances) in prepared.codes.iter().zip(&prepared.steps) {
            let of_step = prepared.instances[instances.clone()].iter();
            work.extend(of_step.map(|(_, sizes)| (&**code, &self.sizes[sizes.clone()])));
        }
        executor.device().make_ready(&work)?;
        prepared.ready.store(true, Relaxed);
        Ok(())
    }

    fn run_steps(&self, executor: &Executor, prepared: &Prepared) -> Result<Option<Receipt>, Failed> {
        self.error.take();
        let device = &**executor.device();
        let arguments = |(buffers, sizes): &(Range<usize>, Range<usize>)| Arguments {
            buffers: &self.pointers[buffers.clone()],
            sizes: &self.sizes[sizes.clone()],
        };
        let steps = prepared.codes.iter().zip(&prepared.steps).enumerate();
        if device.takes_lists() {
            let all = steps.flat_map(|(i, (code, instances))| {
                let planned = move |at| Planned { code: &**code, step: i as u32, arguments: arguments(at) };
                prepared.instances[instances.clone()].iter().map(planned)
            });
            launch::run_list(device, &self.error, &mut lock(&prepared.kept), all).map_err(|stopped| {
                let step = prepared.steps.partition_point(|s| s.end <= stopped.at);
                Failed::InStep { step, error: stopped.error }
            })?;
        } else {
            for (i, (code, instances)) in steps {
                self.error.enter(i as u32);
                let arguments = prepared.instances[instances.clone()].iter().map(arguments);
                launch::run_step(device, &**code, &self.error, arguments)
                    .map_err(|error| Failed::InStep { step: i, error })?;
            }
        }
        add(&executor.totals().launches, prepared.steps.len());
        add(&executor.totals().kernel_runs, prepared.instances.len());
        let last = prepared.steps.len().saturating_sub(1);
        let receipt = device.receipt().map_err(|error| Failed::InStep { step: last, error })?;
        match self.error.take() {
            None => Ok(receipt),
            Some(e) => Err(Failed::InStep { step: e.step as usize, error: reported(&prepared.plan, &e) }),
        }
    }
}

/// What a run of a plan gave.
pub(crate) struct Done {
    /// Where the results lie.
    pub(crate) results: Vec<(ValueId, Storage)>,
    /// For what its kernels may still report.
    pub(crate) receipt: Option<Receipt>,
}

/// A kernel's report as an error.
pub(crate) fn reported(plan: &Plan, e: &DeviceError) -> Error {
    match e.fault {
        Fault::Index { index, bound } => Error::new(Kind::Index, format!("index {index} is outside 0..{bound}")),
        Fault::Check => Error::new(Kind::Argument, check_sentence(plan, e.step as usize)),
    }
}

/// The sentence that stands in a check's text.
fn check_sentence(plan: &Plan, step: usize) -> String {
    let text = plan.steps.get(step).map_or("", |s| &*plan.kernels[s.kernel as usize].text);
    text.splitn(3, ' ').nth(2).unwrap_or("a condition does not hold").to_string()
}

/// Where the results lie.
fn outputs(run: &Run<'_>, slots: Vec<Option<Arc<Memory>>>) -> Vec<(ValueId, Storage)> {
    let mut bases: Vec<Option<(Arc<Memory>, usize)>> = Vec::with_capacity(slots.len());
    let mut results = Vec::with_capacity(slots.len());
    for (output, slot) in run.prepared.plan.outputs.iter().zip(slots) {
        let base = match output.place {
            OutputPlace::Slot(_) => slot.map(|memory| (memory, 0)),
            OutputPlace::Donated(i) | OutputPlace::Input(i) => {
                run.inputs[i as usize].as_ref().map(|(s, _)| (s.memory.clone(), s.layout.offset))
            }
            OutputPlace::Output(k) => bases[k as usize].clone(),
        };
        if let Some((memory, offset)) = &base {
            let mut layout = true_layout(&output.layout, &output.ty.shape, run.symbols);
            // What views an input backwards may start before the input does: the sum is within the memory, modulo 2^64.
            layout.offset = layout.offset.wrapping_add(*offset);
            results.push((output.value, Storage { memory: memory.clone(), layout }));
        }
        bases.push(base);
    }
    results
}

/// A layout with symbols at their values: what is dense at the largest sizes is dense at every size.
fn true_layout(layout: &Layout, shape: &Shape, symbols: &[(SymId, i64)]) -> Layout {
    if shape.is_static() {
        return layout.clone();
    }
    let size = |d: rtx_core::Dim| match d {
        rtx_core::Dim::Const(n) => n as usize,
        rtx_core::Dim::Sym { id, .. } => symbols.iter().find(|(s, _)| *s == id).map_or(0, |(_, n)| *n as usize),
    };
    let sizes: Vec<usize> = shape.iter().map(size).collect();
    Layout { offset: layout.offset, ..Layout::contiguous(&sizes) }
}

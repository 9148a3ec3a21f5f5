//! A device and a compiler small enough to be obviously right: `f32` adds, products and look-ups, one kernel a node.
#![allow(unsafe_code, reason = "a mock driver touches raw memory as a driver does")]
#![allow(dead_code, reason = "each test file uses a part")]

use rtx_core::{Arith, DType, Dim, Error, Kind, Layout, Location, Result, Shape};
use rtx_hal::{Code, Device, ErrorSlot, KernelSource, Lang, Launch, Receipt, Report, Target};
use rtx_ir::{NodeId, Op, Prim, Type, ValueId};
use rtx_plan::{BufferArg, Compile, Instance, Output, OutputPlace, Place, Plan, Request, SizeExpr, Step};
use rtx_runtime::{Executor, Limits, Recorder, Value, record};
use std::alloc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Memory of the host, with counters and allocations that fail.
pub struct MockDevice {
    target: Target,
    allocations: AtomicU64,
    pub live_bytes: AtomicUsize,
    /// Counts down; the allocation that takes it to 0 fails.
    pub fail_in: AtomicU64,
    /// All allocations fail.
    pub exhausted: AtomicBool,
    /// Kernels report later, as on a device with a queue.
    pub late: AtomicBool,
    /// Nothing that was queued is known to have run, unless somebody waits.
    pub busy: AtomicBool,
    slot: ErrorSlot,
    reports: Mutex<Vec<Report>>,
}

fn block(bytes: usize) -> alloc::Layout {
    alloc::Layout::from_size_align(bytes.max(64), 64).expect("a layout")
}

impl Device for MockDevice {
    fn name(&self) -> String {
        "mock".into()
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        let last = self.fail_in.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)) == Ok(1);
        if last || self.exhausted.load(SeqCst) {
            return Err(Error::new(Kind::Memory, "out of memory on mock"));
        }
        self.allocations.fetch_add(1, SeqCst);
        self.live_bytes.fetch_add(bytes, SeqCst);
        // Never zero: kernels must not lean on fresh memory.
        // SAFETY: the size is not 0, and the memory has as many bytes.
        unsafe {
            let ptr = alloc::alloc(block(bytes));
            ptr.write_bytes(0xA5, bytes);
            Ok(ptr)
        }
    }
    unsafe fn free(&self, ptr: *mut u8, bytes: usize) {
        self.live_bytes.fetch_sub(bytes, SeqCst);
        // SAFETY: `allocate` used the same layout.
        unsafe { alloc::dealloc(ptr, block(bytes)) }
    }
    fn load(&self, source: &KernelSource) -> Result<Arc<dyn Code>> {
        Ok(Arc::new(MockCode(source.text.clone())))
    }
    unsafe fn write(&self, dst: *mut u8, src: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { dst.copy_from_nonoverlapping(src.as_ptr(), src.len()) };
        Ok(())
    }
    unsafe fn read(&self, dst: &mut [u8], src: *const u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { src.copy_to_nonoverlapping(dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }
    unsafe fn launch(&self, code: &dyn Code, launch: &Launch<'_>) -> Result<()> {
        let late = self.late.load(SeqCst);
        self.slot.enter(launch.error.step());
        let error = if late { &self.slot } else { launch.error };
        // SAFETY: the caller's promise.
        unsafe { code.run(&Launch { error, ..*launch }) };
        Ok(())
    }
    fn takes_lists(&self) -> bool {
        self.late.load(SeqCst)
    }
    fn receipt(&self) -> Result<Option<Receipt>> {
        if !self.late.load(SeqCst) {
            return Ok(None);
        }
        let mut reports = self.reports.lock().expect("no panic");
        reports.push(self.slot.take());
        Ok(Some(Receipt(reports.len() as u64 - 1)))
    }
    fn redeem(&self, receipt: Receipt, wait: bool) -> Result<Option<Report>> {
        if self.busy.load(SeqCst) && !wait {
            return Ok(None);
        }
        let mut reports = self.reports.lock().expect("no panic");
        let report = reports[receipt.0 as usize];
        if report.is_some() {
            reports.fill(None);
        }
        Ok(Some(report))
    }
    fn allocations(&self) -> u64 {
        self.allocations.load(SeqCst)
    }
}

/// Buffers: operands, then the result. Sizes: rank, dims, then the strides of each operand; the result is dense.
/// `gather`: rank-1 table and indices; sizes are the length of the table and the number of indices.
struct MockCode(String);
impl Code for MockCode {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let (b, s) = (launch.buffers, launch.sizes);
        // SAFETY: the plan's sizes are true.
        unsafe {
            if self.0 == "gather" {
                for i in 0..s[1] as usize {
                    let index = b[1].cast::<i64>().add(i).read();
                    if !(0..s[0]).contains(&index) {
                        launch.error.report(index, s[0]);
                    }
                    b[2].cast::<f32>().add(i).write(b[0].cast::<f32>().add(index.clamp(0, s[0] - 1) as usize).read());
                }
                return;
            }
            let rank = s[0] as usize;
            let dims = &s[1..1 + rank];
            let operands = b.len() - 1;
            for n in 0..dims.iter().product::<i64>() {
                let mut rest = n;
                let mut at = [0isize; 2];
                for axis in (0..rank).rev() {
                    let i = rest % dims[axis];
                    rest /= dims[axis];
                    for o in 0..operands {
                        at[o] += (i * s[1 + rank * (o + 1) + axis]) as isize;
                    }
                }
                let x = |o: usize| b[o].cast::<f32>().offset(at[o]).read();
                let y = match self.0.as_str() {
                    "add" => x(0) + x(1),
                    "mul" => x(0) * x(1),
                    _ => x(0),
                };
                b[operands].cast::<f32>().offset(n as isize).write(y);
            }
        }
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// One kernel a node; results in slots, in donated inputs, or in an arena without reuse.
#[derive(Default)]
pub struct MockCompiler {
    /// Refuses symbolic sizes.
    pub static_only: AtomicBool,
    /// Panics.
    pub panics: AtomicBool,
    /// Outputs of the last plan.
    pub last_outputs: AtomicUsize,
}

#[derive(Clone)]
struct Located {
    place: Place,
    strides: Vec<SizeExpr>,
}

fn dense(shape: &Shape) -> Vec<SizeExpr> {
    let mut strides = vec![SizeExpr::constant(1); shape.rank()];
    for i in (1..shape.rank()).rev() {
        strides[i - 1] = &strides[i] * &SizeExpr::from(shape.dim(i));
    }
    strides
}

impl Compile for MockCompiler {
    fn compile(&self, request: &Request<'_>) -> Result<Plan> {
        assert!(!self.panics.load(SeqCst), "the compiler was told to panic");
        Planner::new(request, self.static_only.load(SeqCst))?.plan().inspect(|plan| {
            self.last_outputs.store(plan.outputs.len(), SeqCst);
        })
    }
}

struct Planner<'a> {
    request: &'a Request<'a>,
    located: Vec<Option<Located>>,
    plan: Plan,
    donated: Vec<bool>,
}

impl<'a> Planner<'a> {
    fn new(request: &'a Request<'a>, static_only: bool) -> Result<Self> {
        let graph = request.graph;
        if static_only && graph.inputs().any(|v| !graph.ty(v).shape.is_static()) {
            return Err(Error::new(Kind::Unsupported, "mock: symbolic sizes"));
        }
        let plan = Plan {
            kernels: Vec::new(),
            steps: Vec::new(),
            outputs: Vec::new(),
            arena_bytes: 0,
            constants: Vec::new(),
            params: graph.params().len() as u32,
            symbols: Vec::new(),
            counters: Vec::new(),
        };
        let donated = request.inputs.iter().map(|f| f.donated).collect();
        Ok(Self { request, located: vec![None; graph.value_count()], plan, donated })
    }

    fn plan(mut self) -> Result<Plan> {
        let live = self.live();
        let (mut inputs, mut params) = (0, 0);
        for (id, node) in self.request.graph.iter() {
            let out = node.first;
            let shape = &self.request.graph.ty(out).shape;
            match &node.op {
                Op::Input => {
                    let layout = &self.request.inputs[inputs as usize].layout;
                    let strides = if layout.is_contiguous(&shape.sizes()) {
                        dense(shape)
                    } else {
                        layout.strides.iter().map(|&s| SizeExpr::constant(s as i64)).collect()
                    };
                    self.located[out.index()] = Some(Located { place: Place::Input(inputs), strides });
                    inputs += 1;
                }
                Op::Prim(Prim::Param { .. }) => {
                    self.located[out.index()] = Some(Located { place: Place::Param(params), strides: vec![] });
                    params += 1;
                }
                _ if !live[id.index()] => (),
                Op::Prim(Prim::Constant { bits, .. }) => {
                    let place = Place::Constant(self.plan.constants.len() as u64);
                    self.plan.constants.extend_from_slice(&bits.to_le_bytes());
                    self.located[out.index()] = Some(Located { place, strides: vec![] });
                }
                Op::Prim(Prim::Expand(to)) => {
                    let from = self.of(node.inputs[0])?;
                    assert_eq!(from.strides.len(), 0, "mock: expands numbers only");
                    let strides = vec![SizeExpr::constant(0); to.rank()];
                    self.view(id, Located { place: from.place, strides })?;
                }
                Op::Prim(Prim::Permute(order)) => {
                    let from = self.of(node.inputs[0])?;
                    let strides = order.iter().map(|&o| from.strides[o].clone()).collect();
                    self.view(id, Located { place: from.place, strides })?;
                }
                Op::Prim(Prim::Binary(Arith::Add)) => self.kernel(id, "add", &node.inputs)?,
                Op::Prim(Prim::Binary(Arith::Mul)) => self.kernel(id, "mul", &node.inputs)?,
                Op::Prim(Prim::Gather { .. }) => self.kernel(id, "gather", &node.inputs)?,
                other => return Err(Error::new(Kind::Unsupported, format!("mock: {}", other.name()))),
            }
        }
        Ok(self.plan)
    }

    /// Which nodes the wanted values need.
    fn live(&self) -> Vec<bool> {
        let graph = self.request.graph;
        let mut live = vec![false; graph.nodes().len()];
        self.request.wanted.iter().for_each(|&v| live[graph.value(v).node.index()] = true);
        for (id, node) in graph.iter().rev() {
            if live[id.index()] {
                node.inputs.iter().for_each(|&v| live[graph.value(v).node.index()] = true);
            }
        }
        live
    }

    fn of(&self, v: ValueId) -> Result<Located> {
        self.located[v.index()].clone().ok_or_else(|| Error::new(Kind::Internal, "mock: no such value"))
    }

    /// A view; copied where somebody wants it and it is no view of an input.
    fn view(&mut self, id: NodeId, located: Located) -> Result<()> {
        let out = self.request.graph.node(id).first;
        self.located[out.index()] = Some(located.clone());
        if !self.request.wanted.contains(&out) {
            return Ok(());
        }
        let known: Option<Vec<i64>> = located.strides.iter().map(SizeExpr::known).collect();
        match (located.place, known) {
            (Place::Input(i), Some(strides)) => {
                self.donated[i as usize] = false;
                let layout = Layout { offset: 0, strides: strides.iter().map(|&s| s as isize).collect() };
                self.output(out, OutputPlace::Input(i), layout);
                Ok(())
            }
            _ => self.kernel(id, "copy", &[out]),
        }
    }

    fn output(&mut self, value: ValueId, place: OutputPlace, layout: Layout) {
        self.plan.outputs.push(Output { value, ty: self.request.graph.ty(value).clone(), place, layout });
    }

    fn kernel(&mut self, id: NodeId, name: &str, operands: &[ValueId]) -> Result<()> {
        let graph = self.request.graph;
        let out = graph.node(id).first;
        let ty = graph.ty(out).clone();
        let operands: Vec<(ValueId, Located)> =
            operands.iter().map(|&v| Ok((v, self.of(v)?))).collect::<Result<_>>()?;
        let place = self.result_place(id, out, &ty, name, &operands);
        let mut sizes = Vec::new();
        if name == "gather" {
            sizes.push(SizeExpr::from(graph.ty(operands[0].0).shape.dim(0)));
            sizes.push(SizeExpr::from(ty.shape.dim(0)));
        } else {
            sizes.push(SizeExpr::constant(ty.rank() as i64));
            sizes.extend(ty.shape.iter().map(SizeExpr::from));
            operands.iter().for_each(|(_, l)| sizes.extend(l.strides.iter().cloned()));
        }
        let buffer = |place| BufferArg { place, offset_bytes: SizeExpr::constant(0) };
        let mut buffers: Vec<BufferArg> = operands.iter().map(|(_, l)| buffer(l.place)).collect();
        buffers.push(buffer(place));
        let kernel = self.plan.kernels.iter().position(|k| k.text == name).unwrap_or_else(|| {
            self.plan.kernels.push(KernelSource { name: name.into(), lang: Lang::Native, text: name.into() });
            self.plan.kernels.len() - 1
        });
        let instances = vec![Instance { buffers, sizes }];
        self.plan.steps.push(Step { kernel: kernel as u32, instances, origins: vec![id] });
        self.located[out.index()] = Some(Located { place, strides: dense(&ty.shape) });
        Ok(())
    }

    fn result_place(
        &mut self,
        id: NodeId,
        out: ValueId,
        ty: &Type,
        name: &str,
        operands: &[(ValueId, Located)],
    ) -> Place {
        if !self.request.wanted.contains(&out) {
            let at = self.plan.arena_bytes;
            self.plan.arena_bytes += (ty.bytes() as u64).next_multiple_of(64);
            return Place::Arena(at);
        }
        let layout = Layout::contiguous(&ty.shape.sizes());
        let own = self.plan.outputs.len() as u32;
        let can_take = |(v, l): &&(ValueId, Located)| {
            let Place::Input(i) = l.place else { return false };
            let same = self.request.graph.ty(*v) == ty && l.strides == dense(&ty.shape);
            self.donated[i as usize] && same && name != "gather" && !self.read_later(l.place, id)
        };
        if let Some((_, l)) = operands.iter().find(can_take)
            && let Place::Input(i) = l.place
        {
            self.donated[i as usize] = false;
            self.output(out, OutputPlace::Donated(i), layout);
            return l.place;
        }
        self.output(out, OutputPlace::Slot(ty.bytes() as u64), layout);
        Place::Slot(own)
    }

    /// Is memory at `place` read by a later node, or twice by this one?
    fn read_later(&self, place: Place, id: NodeId) -> bool {
        let graph = self.request.graph;
        let at = |v: &ValueId| self.located[v.index()].as_ref().is_some_and(|l| l.place == place);
        let here = graph.node(id).inputs.iter().filter(|v| at(v)).count();
        let views = graph.iter().filter(|(_, n)| at(&n.first)).count();
        here != 1 || views != 1 || graph.nodes()[id.index() + 1..].iter().any(|n| n.inputs.iter().any(at))
    }
}

/// A device, its compiler and an executor.
pub struct Mock {
    pub device: Arc<MockDevice>,
    pub compiler: Arc<MockCompiler>,
    pub executor: Executor,
}

pub fn mock() -> Mock {
    mock_with(Limits { eager: false, ..Limits::default() })
}

pub fn mock_with(limits: Limits) -> Mock {
    let device = Arc::new(MockDevice {
        target: Target { family: "mock", isa: "none", threads: 1 },
        allocations: AtomicU64::new(0),
        live_bytes: AtomicUsize::new(0),
        fail_in: AtomicU64::new(0),
        exhausted: AtomicBool::new(false),
        late: AtomicBool::new(false),
        busy: AtomicBool::new(false),
        slot: ErrorSlot::default(),
        reports: Mutex::default(),
    });
    let compiler = Arc::new(MockCompiler::default());
    let executor = Executor::with_limits(device.clone(), compiler.clone(), limits);
    Mock { device, compiler, executor }
}

impl Mock {
    /// A value of one dim.
    pub fn vector(&self, x: &[f32]) -> Value {
        self.tensor(&[x.len()], x)
    }
    pub fn tensor(&self, shape: &[usize], x: &[f32]) -> Value {
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        Value::from_bytes(&self.executor, Type::new(DType::F32, shape), &bytes).expect("memory")
    }
    pub fn indices(&self, x: &[i64]) -> Value {
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        Value::from_bytes(&self.executor, Type::new(DType::I64, [x.len()]), &bytes).expect("memory")
    }
    #[track_caller]
    pub fn record<R>(&self, f: impl FnOnce(&mut Recorder<'_>) -> R) -> R {
        record(&self.executor, Location::caller(), f)
    }
    #[track_caller]
    pub fn add(&self, a: &Value, b: &Value) -> Value {
        self.binary(Arith::Add, a, b)
    }
    #[track_caller]
    pub fn mul(&self, a: &Value, b: &Value) -> Value {
        self.binary(Arith::Mul, a, b)
    }
    #[track_caller]
    fn binary(&self, f: Arith, a: &Value, b: &Value) -> Value {
        self.record(|r| {
            let (a, b) = (r.import(a), r.import(b));
            let out = r.builder().binary(f, a, b).expect("shapes fit");
            r.export(out)
        })
    }
    /// `x` times a run-time number.
    #[track_caller]
    pub fn scale(&self, x: &Value, by: f32) -> Value {
        self.record(|r| {
            let x = r.import(x);
            let mut b = r.builder();
            let by = b.param(DType::F32, by.into()).expect("a number");
            let out = b.mul(x, by).expect("broadcasts");
            r.export(out)
        })
    }
    /// `x` plus a constant of the program.
    #[track_caller]
    pub fn plus(&self, x: &Value, constant: f64) -> Value {
        self.record(|r| {
            let x = r.import(x);
            let mut b = r.builder();
            let c = b.constant(DType::F32, constant).expect("a constant");
            let out = b.add(x, c).expect("broadcasts");
            r.export(out)
        })
    }
    #[track_caller]
    pub fn transpose(&self, x: &Value) -> Value {
        self.record(|r| {
            let x = r.import(x);
            let out = r.builder().transpose_last(x).expect("two dims");
            r.export(out)
        })
    }
    #[track_caller]
    pub fn gather(&self, x: &Value, at: &Value) -> Value {
        self.record(|r| {
            let (x, at) = (r.import(x), r.import(at));
            let out = r.builder().prim(Prim::Gather { axis: 0 }, &[x, at]).expect("shapes fit");
            r.export(out)
        })
    }
}

/// The elements.
#[track_caller]
pub fn floats(value: &Value) -> Vec<f32> {
    let bytes = value.read().expect("reads");
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Dims of a shape that are symbols.
pub fn symbols(shape: &Shape) -> usize {
    shape.iter().filter(|d| matches!(d, Dim::Sym { .. })).count()
}

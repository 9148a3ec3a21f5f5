//! Runs plans slowly and checks every access: nests by the oracle, one instruction at a time over the whole space.
#![allow(dead_code, reason = "each test file uses its part")]
use rtx_compiler::{Compiler, Fusion};
use rtx_core::{DType, Dim, Layout, Location, Shape, SymId};
use rtx_hal::{Lang, Target};
use rtx_ir::oracle::{Tensor, Value, eval, eval_node};
use rtx_ir::{Builder, Graph, Op, Prim, Type, ValueId};
use rtx_plan::{Claim, Compile, InputFact, OutputPlace, Place, Plan, Request};
use rustg::{Instr, Nest, Size, View};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

mod dot;
pub use dot::TestDot;

pub const TARGET: Target = Target { family: "test", isa: "scalar", threads: 2 };

/// A region under test.
pub struct Case {
    pub graph: Graph,
    pub inputs: Vec<Tensor>,
    pub facts: Vec<InputFact>,
    pub wanted: Vec<ValueId>,
    pub symbols: HashMap<SymId, i64>,
}

impl Case {
    pub fn new() -> Self {
        Self { graph: Graph::new(), inputs: vec![], facts: vec![], wanted: vec![], symbols: HashMap::new() }
    }
    #[track_caller]
    pub fn b(&mut self) -> Builder<'_> {
        Builder::new(&mut self.graph, Location::caller())
    }
    /// A dense input.
    #[track_caller]
    pub fn input(&mut self, t: Tensor) -> ValueId {
        let layout = Layout::contiguous(&t.ty.shape.sizes());
        self.strided(t, layout)
    }
    /// An input whose elements lie as `layout` says (offset 0).
    #[track_caller]
    pub fn strided(&mut self, t: Tensor, layout: Layout) -> ValueId {
        let v = self.graph.push_input(t.ty.clone(), Location::caller());
        self.inputs.push(t);
        self.facts.push(InputFact { layout, donated: false, alias: None });
        v
    }
    /// An input whose type names symbols; `t` has the sizes of this run. Binds them.
    #[track_caller]
    pub fn symbolic(&mut self, t: Tensor, shape: Shape) -> ValueId {
        for (d, n) in shape.iter().zip(t.ty.shape.sizes()) {
            if let Dim::Sym { id, .. } = d {
                self.symbols.insert(id, n as i64);
            }
        }
        let v = self.graph.push_input(Type::new(t.ty.dtype, shape.clone()), Location::caller());
        self.inputs.push(t);
        self.facts.push(InputFact { layout: Layout::contiguous(&shape.sizes()), donated: false, alias: None });
        v
    }
    /// Floats from a fixed sequence.
    #[track_caller]
    pub fn floats<const N: usize>(&mut self, shape: [usize; N]) -> ValueId {
        let n: usize = shape.iter().product();
        let seed = self.inputs.len() as u64 * 7919 + 17;
        let t = Tensor::floats(DType::F32, shape, (0..n as u64).map(|i| draw(seed + i)));
        self.input(t)
    }
    /// A donated state.
    #[track_caller]
    pub fn state<const N: usize>(&mut self, shape: [usize; N]) -> ValueId {
        let v = self.floats(shape);
        self.facts.last_mut().expect("just added").donated = true;
        v
    }
    pub fn want(&mut self, v: ValueId) {
        self.wanted.push(v);
        self.wanted.sort_unstable();
        self.wanted.dedup();
    }
    pub fn compile(&self, fusion: Fusion) -> Plan {
        self.compile_with(fusion, vec![Arc::new(TestDot { epilogue: true })])
    }
    pub fn compile_with(&self, fusion: Fusion, claims: Vec<Arc<dyn Claim>>) -> Plan {
        let compiler = Compiler::new(claims).with_fusion(fusion);
        let request = Request { graph: &self.graph, inputs: &self.facts, wanted: &self.wanted, target: &TARGET };
        let plan = compiler.compile(&request).expect("compiles");
        assert_eq!(Plan::parse(&plan.to_string()).expect("the plan's text parses"), plan);
        plan
    }
    /// Fused, unfused and the oracle agree; returns the fused plan.
    pub fn check(&self) -> Plan {
        let (full, off) = (self.compile(Fusion::Full), self.compile(Fusion::Off));
        let (a, b) = (run(&full, self), run(&off, self));
        let oracle = eval(&self.graph, &self.inputs).expect("the oracle evaluates");
        for (k, v) in self.wanted.iter().enumerate() {
            assert_eq!(a[k], b[k], "output {k}: fused against unfused");
            let want = &oracle[v.index()];
            assert_eq!(a[k].ty.dtype, want.ty.dtype);
            for (i, (x, y)) in a[k].elements.iter().zip(&want.elements).enumerate() {
                let close = match (x, y) {
                    (Value::Float(x), Value::Float(y)) => {
                        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-4 * (1.0 + y.abs())
                    }
                    _ => x == y,
                };
                assert!(close, "output {k} element {i}: {x:?}, the oracle says {y:?}");
            }
        }
        full
    }
}

pub fn draw(i: u64) -> f64 {
    let mut x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    ((x % 4001) as f64 - 2000.0) / 1000.0
}

pub fn counter(plan: &Plan, name: &str) -> u64 {
    plan.counters.iter().find(|c| c.0 == name).map_or(0, |c| c.1)
}

/// Memory of a run: each place is a block of bytes.
struct Memory {
    arena: Vec<u8>,
    slots: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    params: Vec<u8>,
    constants: Vec<u8>,
}
impl Memory {
    fn block(&mut self, place: Place) -> (&mut Vec<u8>, usize) {
        match place {
            Place::Input(i) => (&mut self.inputs[i as usize], 0),
            Place::Slot(k) => (&mut self.slots[k as usize], 0),
            Place::Arena(at) => (&mut self.arena, at as usize),
            Place::Param(i) => (&mut self.params, i as usize * 8),
            Place::Constant(at) => (&mut self.constants, at as usize),
        }
    }
}

/// One buffer of an instance: where it starts.
#[derive(Clone, Copy)]
struct Start {
    place: Place,
    offset: i64,
}

/// The outputs of a plan, dense.
pub fn run(plan: &Plan, case: &Case) -> Vec<Tensor> {
    let slots = plan.outputs.iter().map(|o| match o.place {
        OutputPlace::Slot(n) => vec![0xA5; n as usize],
        _ => vec![],
    });
    let mut memory = Memory {
        arena: vec![0xA5; plan.arena_bytes as usize],
        slots: slots.collect(),
        inputs: case
            .graph
            .inputs()
            .zip(case.inputs.iter().zip(&case.facts))
            .map(|(v, (t, f))| laid_out(case, v, t, f))
            .collect(),
        params: case.graph.params().iter().flat_map(|p| p.to_ne_bytes()).collect(),
        constants: plan.constants.clone(),
    };
    let before = memory.inputs.clone();
    let size = |e: &rtx_plan::SizeExpr| e.eval(|s| case.symbols[&s]);
    for step in &plan.steps {
        let kernel = &plan.kernels[step.kernel as usize];
        let mut touched: Touched = vec![];
        for (n, instance) in step.instances.iter().enumerate() {
            let starts: Vec<Start> =
                instance.buffers.iter().map(|b| Start { place: b.place, offset: size(&b.offset_bytes) }).collect();
            let sizes: Vec<i64> = instance.sizes.iter().map(size).collect();
            match kernel.lang {
                Lang::Tile => run_nest(&nest_of(&kernel.text), &starts, &sizes, &mut memory, &mut touched, n),
                Lang::Native => run_native(&kernel.text, &starts, &sizes, &mut memory, &mut touched, n),
            }
        }
        check_apart(&touched, &kernel.text);
    }
    for (i, fact) in case.facts.iter().enumerate().filter(|(_, f)| !f.donated) {
        assert_eq!(memory.inputs[i], before[i], "input {i} was overwritten: {fact:?}");
    }
    (0..plan.outputs.len()).map(|k| read_output(plan, k, case, &mut memory)).collect()
}

/// An input's memory. One whose type names symbols is dense at the sizes of the run, and has room for the largest.
fn laid_out(case: &Case, v: ValueId, t: &Tensor, fact: &InputFact) -> Vec<u8> {
    let ty = case.graph.ty(v);
    if ty.shape.is_static() {
        return spread(t, &fact.layout);
    }
    let mut bytes = spread(t, &Layout::contiguous(&t.ty.shape.sizes()));
    bytes.resize(ty.bytes(), 0xA5);
    bytes
}

fn nest_of(text: &str) -> Nest {
    rustg::TileProg::parse(text).expect("the kernel's text parses").nest().clone()
}

fn spread(t: &Tensor, layout: &Layout) -> Vec<u8> {
    let (sizes, dense, w) = (t.ty.shape.sizes(), t.to_bytes(), t.ty.dtype.size());
    let index = |mut at: usize| {
        let mut o = layout.offset as isize;
        for (&n, &s) in sizes.iter().zip(&layout.strides).rev() {
            o += (at % n) as isize * s;
            at /= n;
        }
        o as usize
    };
    let n = t.elements.len();
    let len = (0..n).map(&index).max().map_or(0, |m| m + 1);
    let mut out = vec![0xA5; len * w];
    (0..n).for_each(|i| out[index(i) * w..][..w].copy_from_slice(&dense[i * w..][..w]));
    out
}

fn read_output(plan: &Plan, k: usize, case: &Case, memory: &mut Memory) -> Tensor {
    let o = &plan.outputs[k];
    let place = match o.place {
        OutputPlace::Slot(_) => Place::Slot(k as u32),
        OutputPlace::Donated(i) | OutputPlace::Input(i) => Place::Input(i),
        OutputPlace::Output(j) => match plan.outputs[j as usize].place {
            OutputPlace::Donated(i) | OutputPlace::Input(i) => Place::Input(i),
            _ => Place::Slot(j),
        },
    };
    let shape = o.ty.shape.iter().map(|d| actual(d, &case.symbols)).collect::<Vec<_>>();
    let layout = if o.ty.shape.is_static() { o.layout.clone() } else { Layout::contiguous(&shape) };
    let (block, base) = memory.block(place);
    let w = o.ty.dtype.size();
    let n: usize = shape.iter().product();
    let mut bytes = vec![];
    for i in 0..n {
        let (mut at, mut e) = (i, layout.offset as isize);
        for (&d, &s) in shape.iter().zip(&layout.strides).rev() {
            e += (at % d) as isize * s;
            at /= d;
        }
        bytes.extend_from_slice(&block[base + e as usize * w..][..w]);
    }
    Tensor::from_bytes(Type::new(o.ty.dtype, shape.as_slice()), &bytes).expect("the output's bytes")
}

fn actual(d: Dim, symbols: &HashMap<SymId, i64>) -> usize {
    match d {
        Dim::Const(n) => n as usize,
        Dim::Sym { id, .. } => symbols[&id] as usize,
    }
}

/// What one instance writes, nobody else in the step touches, except through the same buffer argument.
fn check_apart(touched: &Touched, text: &str) {
    let mut writers: HashMap<(Place, i64), usize> = HashMap::new();
    let whole = |place: Place, at: i64| match place {
        Place::Arena(base) => (Place::Arena(0), base as i64 + at),
        p => (p, at),
    };
    for t in touched.iter().filter(|t| t.written) {
        for &at in &t.addresses {
            let before = writers.insert(whole(t.place, at), t.argument);
            assert!(before.is_none_or(|a| a == t.argument), "two arguments write one element\n{text}");
        }
    }
    for t in touched.iter().filter(|t| !t.written) {
        for &at in &t.addresses {
            assert!(!writers.contains_key(&whole(t.place, at)), "an argument reads what another writes\n{text}");
        }
    }
}

/// The elements that one view of one argument touches.
struct Touch {
    place: Place,
    addresses: Vec<i64>,
    written: bool,
    argument: usize,
}
type Touched = Vec<Touch>;

fn run_native(text: &str, starts: &[Start], sizes: &[i64], memory: &mut Memory, touched: &mut Touched, n: usize) {
    let (head, rest) = text.split_once('\n').map_or((text, ""), |(a, b)| (a, b));
    match head {
        "testdot f32" => run_dot(starts, sizes, memory),
        "testcopy" => {
            let bytes = sizes[0] as usize * 4;
            let (block, base) = memory.block(starts[0].place);
            let data = block[base + starts[0].offset as usize..][..bytes].to_vec();
            let (block, base) = memory.block(starts[1].place);
            block[base + starts[1].offset as usize..][..bytes].copy_from_slice(&data);
        }
        other => panic!("no native kernel {other}"),
    }
    if !rest.is_empty() {
        // dims 4, strides 3 each of two operands and one output
        let nest = nest_of(rest);
        let starts: Vec<Start> = starts[2..].to_vec();
        run_nest(&nest, &starts, &sizes[4 + 9..], memory, touched, n);
    }
}

fn run_dot(starts: &[Start], s: &[i64], memory: &mut Memory) {
    let [b, m, n, k] = [s[0], s[1], s[2], s[3]];
    let f32_at = |memory: &mut Memory, start: Start, e: i64| {
        let (block, base) = memory.block(start.place);
        let at = base + (start.offset + e * 4) as usize;
        f32::from_ne_bytes(block[at..at + 4].try_into().expect("four bytes"))
    };
    for (ib, im, inn) in (0..b).flat_map(|x| (0..m).flat_map(move |y| (0..n).map(move |z| (x, y, z)))) {
        let mut sum = 0f64;
        for ik in 0..k {
            let x = f32_at(memory, starts[0], ib * s[4] + im * s[5] + ik * s[6]);
            let y = f32_at(memory, starts[1], ib * s[7] + inn * s[8] + ik * s[9]);
            sum += x as f64 * y as f64;
        }
        let e = ib * s[10] + im * s[11] + inn * s[12];
        let (block, base) = memory.block(starts[2].place);
        let at = base + (starts[2].offset + e * 4) as usize;
        block[at..at + 4].copy_from_slice(&(sum as f32).to_ne_bytes());
    }
}

/// Every instruction over the whole index space, dense.
fn run_nest(nest: &Nest, starts: &[Start], sizes: &[i64], memory: &mut Memory, touched: &mut Touched, instance: usize) {
    nest.verify().expect("the nest verifies");
    let of = |s: Size| match s {
        Size::Const(n) => n,
        Size::Arg(i) => sizes[i as usize],
    };
    let mut space: Vec<usize> = nest.axes.iter().map(|a| of(a.extent) as usize).collect();
    // An empty walk still has rows: give it one point, which nothing reads and no reduction counts.
    let empty_walk = nest.walk().is_some() && space.last() == Some(&0);
    if empty_walk {
        *space.last_mut().expect("a walk") = 1;
    }
    let walks = |view: &View| view.strides.iter().any(|s| Some(s.0) == nest.walk());
    let points: usize = space.iter().product();
    let mut values: Vec<Tensor> = vec![];
    let index = |mut at: usize| {
        let mut out = vec![0i64; space.len()];
        for (o, &n) in out.iter_mut().zip(&space).rev() {
            *o = (at % n) as i64;
            at /= n;
        }
        out
    };
    let address = |view: &View, at: usize, values: &[Tensor]| -> Option<i64> {
        let i = index(at);
        let mut e = of(view.offset) + view.strides.iter().map(|(a, s)| i[a.index()] * of(*s)).sum::<i64>();
        for d in &view.indexed {
            let bound = of(d.bound);
            if bound <= 0 {
                return None;
            }
            let raw = values[d.index.index()].elements[at].int() as i64;
            assert!(!d.checked || (0..bound).contains(&raw), "index {raw} outside {bound}");
            e += of(d.stride) * raw.clamp(0, bound - 1);
        }
        Some(e)
    };
    let full = |dtype: DType| Type::new(dtype, space.as_slice());
    let mut touch = |view: &View, values: &[Tensor]| {
        let w = nest.buffers[view.buffer.index()].dtype.size() as i64;
        let start = starts[view.buffer.index()];
        let at = (0..points).filter_map(|p| address(view, p, values)).map(|e| start.offset + e * w);
        touched.push(Touch {
            place: start.place,
            addresses: at.collect(),
            written: nest.buffers[view.buffer.index()].written,
            argument: instance * 1000 + view.buffer.index(),
        });
    };
    let mut loads: Vec<View> = vec![];
    for (k, instr) in nest.instrs.iter().enumerate() {
        let dtype = nest.dtype(rustg::Id(k as u32));
        let v = |i: &rustg::Id| &values[i.index()];
        let one = |p: Prim, x: &[&Tensor]| eval_node(&Op::Prim(p), x).expect("the oracle evaluates").remove(0);
        let t = match instr {
            Instr::Const { dtype, bits } => {
                let x = Value::from_bits(*dtype, *bits);
                Tensor { ty: full(*dtype), elements: vec![x; points] }
            }
            Instr::Sized(s) => Tensor { ty: full(DType::I64), elements: vec![Value::Int(of(*s) as i128); points] },
            Instr::Iota(a) => Tensor {
                ty: full(DType::I64),
                elements: (0..points).map(|p| Value::Int(index(p)[a.index()] as i128)).collect(),
            },
            Instr::Load(view) => {
                loads.push(view.clone());
                let start = starts[view.buffer.index()];
                let w = dtype.size();
                let (block, base) = memory.block(start.place);
                let read = |p: usize| match address(view, p, &values) {
                    _ if empty_walk && walks(view) => Value::from_bits(dtype, 0),
                    None => Value::from_bits(dtype, 0),
                    Some(e) => {
                        let at = base as i64 + start.offset + e * w as i64;
                        assert!(at >= 0 && at as usize + w <= block.len(), "a load outside: {at} of {}", block.len());
                        let bytes = &block[at as usize..at as usize + w];
                        let ty = Type::new(dtype, []);
                        Tensor::from_bytes(ty, bytes).expect("an element").elements[0]
                    }
                };
                Tensor { ty: full(dtype), elements: (0..points).map(read).collect() }
            }
            Instr::Unary(f, a) => one(Prim::Unary(*f), &[v(a)]),
            Instr::Binary(f, a, b) => one(Prim::Binary(*f), &[v(a), v(b)]),
            Instr::Compare(f, a, b) => one(Prim::Compare(*f), &[v(a), v(b)]),
            Instr::Fma(a, b, c) => one(Prim::Fma, &[v(a), v(b), v(c)]),
            Instr::Select(a, b, c) => one(Prim::Select, &[v(a), v(b), v(c)]),
            Instr::Cast(d, a) => one(Prim::Cast(*d), &[v(a)]),
            Instr::Bitcast(d, a) => one(Prim::Bitcast(*d), &[v(a)]),
            Instr::Reduce(fold, a) => {
                let axis = space.len() - 1;
                let empty = empty_walk.then(|| {
                    let mut sizes = space.clone();
                    sizes[axis] = 0;
                    Tensor { ty: Type::new(dtype, sizes.as_slice()), elements: vec![] }
                });
                let r = one(
                    Prim::Reduce { fold: *fold, axes: SmallVec::from_slice(&[axis]) },
                    &[empty.as_ref().unwrap_or(v(a))],
                );
                broadcast_rows(&r, &space, full(dtype))
            }
            Instr::ArgReduce(e, a) => {
                let r = one(Prim::ArgReduce { extremum: *e, axis: space.len() - 1 }, &[v(a)]);
                broadcast_rows(&r, &space, full(dtype))
            }
            Instr::Random { key, ordinal, index } => {
                let int = |i: &rustg::Id, p: usize| values[i.index()].elements[p].int() as i64;
                let word = |p: usize| rustg::random_u32(int(key, p), int(ordinal, p), int(index, p));
                Tensor { ty: full(DType::U32), elements: (0..points).map(|p| Value::Int(word(p).into())).collect() }
            }
        };
        values.push(t);
    }
    loads.iter().filter(|v| !(empty_walk && walks(v))).for_each(|v| touch(v, &values));
    for store in &nest.stores {
        if !(empty_walk && walks(&store.view)) {
            touch(&store.view, &values);
        }
        let t = &values[store.value.index()];
        let w = t.ty.dtype.size();
        let bytes = t.to_bytes();
        let start = starts[store.view.buffer.index()];
        if empty_walk && walks(&store.view) {
            continue;
        }
        for p in 0..points {
            let Some(e) = address(&store.view, p, &values) else { continue };
            let (block, base) = memory.block(start.place);
            let at = base as i64 + start.offset + e * w as i64;
            assert!(at >= 0 && at as usize + w <= block.len(), "a store outside: {at} of {}", block.len());
            block[at as usize..at as usize + w].copy_from_slice(&bytes[p * w..][..w]);
        }
    }
}

fn broadcast_rows(r: &Tensor, space: &[usize], ty: Type) -> Tensor {
    let walk = space[space.len() - 1];
    Tensor { ty, elements: r.elements.iter().flat_map(|&x| std::iter::repeat_n(x, walk)).collect() }
}

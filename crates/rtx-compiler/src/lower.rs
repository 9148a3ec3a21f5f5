//! From a unit to a launch: the group becomes a nest, its addresses strides, its sizes launch arguments.
//!
//! Neighbouring atoms that every address walks evenly become one axis. Sizes and strides are arguments, so that a
//! kernel's text does not depend on them (contract S0); only the strides 0 (a missing axis) and 1 are written.
use crate::fuse::{Unit, Write, anchored};
use crate::index::{Group, Ix, Map, State, dense_strides, is_empty};
use crate::views::{Strided, common_stride, stored};
use crate::work::Work;
use rtx_core::{Arith, DType, Error, Kind, Result, Shape};
use rtx_ir::{NodeId, Prim, ValueId};
use rtx_plan::SizeExpr;
use rustg::{Axis, AxisId, BufferDecl, BufferId, Id, Indexed, Instr, Nest, Size, Store, View};
use smallvec::SmallVec;

/// Whose memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mem {
    /// A value's.
    Value(ValueId),
    /// A copy that one step makes for the next.
    Temp(u32),
}

/// A copy that one step makes for the next.
#[derive(Clone, Debug)]
pub(crate) struct Temp {
    /// Element type.
    pub dtype: DType,
    /// Elements, symbols at their largest.
    pub numel: usize,
}

/// A buffer argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    /// Whose memory.
    pub mem: Mem,
    /// Element type.
    pub dtype: DType,
    /// Elements before the first one.
    pub offset: SizeExpr,
    /// Is it stored to?
    pub written: bool,
    /// Is it loaded from?
    pub read: bool,
}

/// One launch on its way into the plan.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The native kernel's line.
    pub native: Option<String>,
    /// The nest, or the native kernel's epilogue.
    pub nest: Option<Nest>,
    /// All buffers: the native kernel's, then the nest's.
    pub arguments: Vec<Argument>,
    /// For each buffer of the nest, which argument it is.
    pub nest_arguments: Vec<usize>,
    /// Sizes and strides.
    pub sizes: Vec<SizeExpr>,
    /// Pairs (read, written) of a native kernel's arguments that may share memory.
    pub in_place: Vec<(usize, usize)>,
    /// It only copies all of one dense memory to another.
    pub copies: Option<(Mem, Mem)>,
    /// Nodes of the working graph.
    pub nodes: Vec<NodeId>,
    /// Launches (by position) that must come later.
    pub before: Vec<usize>,
    /// Elements that it walks over, roughly.
    pub work: usize,
}

/// The units' launches, and the copies between them.
pub(crate) struct Lowered {
    /// In an order that need not be one in which they can run.
    pub launches: Vec<Launch>,
    /// Copies.
    pub temps: Vec<Temp>,
    /// Values that are other names of memory: `.0` is `.1`, which comes before it.
    pub aliases: Vec<(ValueId, ValueId)>,
    /// For each value, the one whose memory it has.
    first: Vec<u32>,
}

/// Lowers every unit.
pub(crate) fn lower(work: &Work, units: &[Unit]) -> Result<Lowered> {
    let mut out = Lowered { launches: vec![], temps: vec![], aliases: vec![], first: vec![] };
    let mut of_unit: Vec<Option<usize>> = vec![None; units.len()];
    for (i, unit) in units.iter().enumerate() {
        if let Some(alias) = unit.alias {
            out.aliases.push(alias);
            continue;
        }
        let writes: Vec<&Write> = unit.writes.iter().filter(|w| !stores_nothing(&unit.group, w)).collect();
        if unit.native.is_none() && writes.is_empty() {
            continue;
        }
        let main = UnitLowerer {
            work,
            unit,
            writes,
            protos: vec![],
            memo: vec![None; unit.group.points.len()],
            out: &mut out,
        }
        .run()?;
        of_unit[i] = Some(out.launches.len());
        out.launches.push(main);
    }
    for (unit, at) in units.iter().zip(&of_unit).filter_map(|(u, at)| Some((u, (*at)?))) {
        out.launches[at].before = unit.before.iter().filter_map(|&b| of_unit[b as usize]).collect();
    }
    out.settle_aliases(work);
    Ok(out)
}

impl Lowered {
    /// Names every piece of memory by the value that it was first.
    fn settle_aliases(&mut self, work: &Work) {
        let mut first: Vec<u32> = (0..work.graph.value_count() as u32).collect();
        self.aliases.sort_unstable();
        for &(v, x) in &self.aliases {
            first[v.index()] = first[x.index()];
        }
        self.first = first;
        let settle = |m: &mut Mem| {
            if let Mem::Value(v) = m {
                v.0 = self.first[v.index()];
            }
        };
        for launch in &mut self.launches {
            launch.arguments.iter_mut().for_each(|a| settle(&mut a.mem));
            if let Some((from, to)) = &mut launch.copies {
                settle(from);
                settle(to);
            }
        }
    }

    /// The memory of a value.
    pub fn mem(&self, v: ValueId) -> Mem {
        Mem::Value(ValueId(self.first[v.index()]))
    }
}

/// Is there no element to store?
fn stores_nothing(group: &Group, w: &Write) -> bool {
    let nothing = |a: &u32| group.atoms[*a as usize].extent.known() == Some(0);
    is_empty(&w.shape) || group.parallel.iter().any(nothing)
}

/// An address or a position: `offset + Σ stride · atom + computed parts`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Form {
    terms: Vec<(u32, SizeExpr)>,
    offset: SizeExpr,
    dynamic: Vec<Part>,
}

/// A computed part of an address.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    index: u32,
    stride: SizeExpr,
    bound: SizeExpr,
    checked: bool,
}

impl Form {
    fn stride(&self, atom: u32) -> SizeExpr {
        self.terms.iter().find(|t| t.0 == atom).map(|t| t.1.clone()).unwrap_or_default()
    }
    fn add(&mut self, atom: u32, stride: SizeExpr) {
        match self.terms.iter_mut().find(|t| t.0 == atom) {
            Some(t) => t.1 = &t.1 + &stride,
            None => self.terms.push((atom, stride)),
        }
    }
    fn varies(&self, atoms: &[u32]) -> bool {
        atoms.iter().any(|&a| self.stride(a).known() != Some(0))
    }
    /// Does it step evenly through these atoms, outermost first?
    fn is_even(&self, group: &Group, atoms: &[u32]) -> bool {
        atoms
            .windows(2)
            .all(|w| self.stride(w[0]) == &self.stride(w[1]) * &SizeExpr::from(group.atoms[w[1] as usize].extent))
    }
}

/// An instruction before axes are settled; operands are positions in the list.
#[derive(Clone, Debug, PartialEq)]
enum Proto {
    /// Needs no address.
    Plain(Instr),
    /// An element of memory.
    Load(Mem, DType, Form),
    /// A position, `i64`.
    Position(Form),
    /// A size, `i64`.
    Number(SizeExpr),
}

/// A result before axes are settled.
struct Stored {
    value: u32,
    mem: Mem,
    dtype: DType,
    form: Form,
}

struct UnitLowerer<'a> {
    work: &'a Work,
    unit: &'a Unit,
    writes: Vec<&'a Write>,
    protos: Vec<Proto>,
    memo: Vec<Option<u32>>,
    out: &'a mut Lowered,
}

impl UnitLowerer<'_> {
    fn run(mut self) -> Result<Launch> {
        let native = self.unit.native.map(|id| self.lower_native(id)).transpose()?;
        if self.writes.is_empty() {
            return native.ok_or_else(|| Error::new(Kind::Internal, "compile: a unit with nothing to do"));
        }
        let unit = self.unit;
        let anchor = unit.anchor.map(|p| self.emit(p)).transpose()?;
        let mut results = vec![];
        for w in std::mem::take(&mut self.writes) {
            let value = self.emit(w.point)?;
            let target = &unit.group.points[w.target as usize];
            let form = self.form(&target.map, &dense_strides(&w.shape))?;
            let dtype = self.work.graph.ty(target.value).dtype;
            results.push(Stored { value, mem: Mem::Value(target.value), dtype, form });
        }
        let (parallel, walk) = self.classes(&results);
        self.copy_uneven(&parallel, &walk)?;
        let first = anchor.map(|a| match &self.protos[a as usize] {
            Proto::Load(mem, dtype, _) => (*mem, *dtype),
            _ => (Mem::Temp(u32::MAX), DType::Bool),
        });
        let mut launch = Emitter::new(&unit.group, &self.protos).run(&parallel, walk.as_deref(), &results, first)?;
        launch.nodes = unit.nodes.clone();
        launch.copies = self.copies(&results);
        Ok(match native {
            Some(native) => absorb(native, launch),
            None => launch,
        })
    }

    /// Is all of it a copy of one dense memory to another?
    fn copies(&self, results: &[Stored]) -> Option<(Mem, Mem)> {
        let [r] = results else { return None };
        let Proto::Load(mem, dtype, form) = &self.protos[r.value as usize] else { return None };
        let Mem::Value(from) = *mem else { return None };
        let whole = |v: ValueId| self.work.graph.ty(v).shape.numel();
        let Mem::Value(to) = r.mem else { return None };
        let same =
            *dtype == r.dtype && form.offset == r.form.offset && form.dynamic.is_empty() && r.form.dynamic.is_empty();
        let terms = |f: &Form| f.terms.iter().all(|(a, s)| *s == form.stride(*a) && *s == r.form.stride(*a));
        (same && terms(form) && terms(&r.form) && whole(from) == whole(to)).then_some((*mem, r.mem))
    }

    // ---- points to instructions

    fn push(&mut self, proto: Proto) -> u32 {
        if let Proto::Load(..) | Proto::Position(_) = proto
            && let Some(i) = self.protos.iter().position(|p| *p == proto)
        {
            return i as u32;
        }
        self.protos.push(proto);
        self.protos.len() as u32 - 1
    }

    fn emit(&mut self, mut p: u32) -> Result<u32> {
        let unit = self.unit;
        while let State::Same(q) = unit.group.points[p as usize].state {
            p = q;
        }
        if let Some(i) = self.memo[p as usize] {
            return Ok(i);
        }
        let point = &unit.group.points[p as usize];
        let proto = match &point.state {
            State::Open => self.load(point.value, &point.map)?,
            State::Computed(operands) => {
                let mut at: SmallVec<[Id; 4]> = SmallVec::new();
                for &q in operands {
                    at.push(Id(self.emit(q)?));
                }
                self.compute(point.value, &point.map, &at)?
            }
            State::Same(_) | State::Target => return Err(Error::new(Kind::Internal, "compile: a place is no number")),
        };
        let i = self.push(proto);
        self.memo[p as usize] = Some(i);
        Ok(i)
    }

    fn load(&mut self, v: ValueId, map: &Map) -> Result<Proto> {
        let ty = self.work.graph.ty(v);
        if let Some((dtype, bits)) = self.work.constant(v) {
            return Ok(Proto::Plain(Instr::Const { dtype, bits }));
        }
        if is_empty(&ty.shape) {
            return Ok(Proto::Plain(Instr::Const { dtype: ty.dtype, bits: 0 }));
        }
        let Strided { strides, .. } = stored(self.work, v);
        Ok(Proto::Load(Mem::Value(v), ty.dtype, self.form(map, &strides)?))
    }

    /// The address of `map` in memory with these strides.
    fn form(&mut self, map: &Map, strides: &[SizeExpr]) -> Result<Form> {
        let mut form = Form::default();
        for (ix, stride) in map.iter().zip(strides) {
            self.add_axis(&mut form, ix, stride)?;
        }
        Ok(form)
    }

    fn add_axis(&mut self, form: &mut Form, ix: &Ix, stride: &SizeExpr) -> Result<()> {
        for &(a, c) in &ix.terms {
            form.add(a, stride * &SizeExpr::constant(c));
        }
        form.offset = &form.offset + &(&ix.offset * stride);
        for d in &ix.dynamic {
            let mut index = self.emit(d.point)?;
            if d.shift.known() != Some(0) {
                // Clamped from below first: a start near the least integer must not wrap.
                let by = Id(self.push(Proto::Number(d.shift.clone())));
                let least = Id(self.push(Proto::Plain(Instr::Binary(Arith::Max, Id(index), by))));
                index = self.push(Proto::Plain(Instr::Binary(Arith::Sub, least, by)));
            }
            let stride = stride * &SizeExpr::constant(d.coefficient);
            form.dynamic.push(Part { index, stride, bound: d.bound.clone(), checked: d.checked });
        }
        Ok(())
    }

    fn compute(&mut self, v: ValueId, map: &Map, at: &[Id]) -> Result<Proto> {
        let one = [SizeExpr::constant(1)];
        let prim = self.work.prim(v).ok_or_else(|| Error::new(Kind::Internal, "compile: a composite in a nest"))?;
        Ok(Proto::Plain(match prim {
            Prim::Iota { axis, .. } => {
                let form = self.form(&Map::from_iter([map[*axis].clone()]), &one)?;
                return Ok(Proto::Position(form));
            }
            Prim::RandomBits { shape } => {
                let form = self.form(map, &dense_strides(shape))?;
                let index = Id(self.push(Proto::Position(form)));
                Instr::Random { key: at[0], ordinal: at[1], index }
            }
            Prim::Unary(f) => Instr::Unary(*f, at[0]),
            Prim::Binary(f) => Instr::Binary(*f, at[0], at[1]),
            Prim::Compare(f) => Instr::Compare(*f, at[0], at[1]),
            Prim::Fma => Instr::Fma(at[0], at[1], at[2]),
            Prim::Select => Instr::Select(at[0], at[1], at[2]),
            Prim::Cast(d) => Instr::Cast(*d, at[0]),
            Prim::Bitcast(d) => Instr::Bitcast(*d, at[0]),
            Prim::Reduce { fold, .. } => Instr::Reduce(*fold, at[0]),
            Prim::ArgReduce { extremum, .. } => Instr::ArgReduce(*extremum, at[0]),
            Prim::Constant { .. }
            | Prim::Param { .. }
            | Prim::Reshape(_)
            | Prim::Permute(_)
            | Prim::Expand(_)
            | Prim::Slice { .. }
            | Prim::Pad { .. }
            | Prim::Concat { .. }
            | Prim::UpdateSlice { .. }
            | Prim::Gather { .. }
            | Prim::Scatter { .. }
            | Prim::Scan { .. }
            | Prim::LinearScan { .. }
            | Prim::Sort { .. }
            | Prim::Dot { .. }
            | Prim::Factor(_)
            | Prim::TriangularSolve { .. }
            | Prim::Fft(_)
            | Prim::Loop(_)
            | Prim::If { .. }
            | Prim::Collective { .. }
            | Prim::CustomCall { .. }
            | Prim::Check(_)
            | Prim::Windows { .. }
            | Prim::OverlapAdd { .. }
            | Prim::Conv(_)
            | Prim::Barrier => return Err(Error::new(Kind::Internal, "compile: a movement in a nest")),
        }))
    }

    // ---- axes

    /// Atoms that are walked as one axis: the parallel axes, and the walk.
    fn classes(&self, results: &[Stored]) -> (Vec<Vec<u32>>, Option<Vec<u32>>) {
        let group = &self.unit.group;
        let reduces = self.protos.iter().any(|p| matches!(p, Proto::Plain(i) if i.is_reduction()));
        // A walk that no reduction came to use is parallel.
        let (walk, unused) = if reduces { (group.walk.clone(), None) } else { (None, group.walk.as_ref()) };
        if let (Some(id), Some(p)) = (self.unit.native, self.unit.anchor) {
            return (anchored(group, p, &self.work.claims[&id].claimed.outputs[0]), None);
        }
        let forms: Vec<&Form> = self.protos.iter().filter_map(form_of).chain(results.iter().map(|r| &r.form)).collect();
        let atoms = group.parallel.iter().chain(unused.into_iter().flatten());
        (merge_even(group, atoms, &forms), walk)
    }

    /// Loads that cannot be walked as the axes are get a dense copy that can.
    fn copy_uneven(&mut self, parallel: &[Vec<u32>], walk: &Option<Vec<u32>>) -> Result<()> {
        let group = &self.unit.group;
        let classes: Vec<&Vec<u32>> = parallel.iter().chain(walk).collect();
        for i in 0..self.protos.len() {
            let Proto::Load(_, dtype, form) = self.protos[i].clone() else { continue };
            if classes.iter().all(|c| form.is_even(group, c)) {
                continue;
            }
            // What the load varies over: the steps of its address, and those of whatever computes its index.
            let forms: Vec<Form> = self.forms_behind(i).into_iter().cloned().collect();
            let varies = |c: &&&Vec<u32>| forms.iter().any(|f| f.varies(c));
            let atoms: Vec<u32> = classes.iter().filter(varies).flat_map(|c| c.iter().copied()).collect();
            let shape: Shape = atoms.iter().map(|&a| group.atoms[a as usize].extent).collect();
            if is_empty(&shape) {
                // Nothing is asked for: the walk is empty.
                self.protos[i] = Proto::Plain(Instr::Const { dtype, bits: 0 });
                continue;
            }
            let mut dense = Form::default();
            atoms.iter().zip(dense_strides(&shape)).for_each(|(&a, s)| dense.add(a, s));
            let temp = Mem::Temp(self.out.temps.len() as u32);
            self.out.temps.push(Temp { dtype, numel: shape.numel() });
            let copy = [Stored { value: i as u32, mem: temp, dtype, form: dense.clone() }];
            let even: Vec<&Form> = forms.iter().chain([&dense]).collect();
            let axes = merge_even(group, &atoms, &even);
            let mut launch = Emitter::new(group, &self.protos).run(&axes, None, &copy, None)?;
            launch.nodes = self.unit.nodes.clone();
            self.out.launches.push(launch);
            self.protos[i] = Proto::Load(temp, dtype, dense);
        }
        Ok(())
    }

    /// The address of a load and all addresses and positions that its index is computed from.
    fn forms_behind(&self, load: usize) -> Vec<&Form> {
        let (mut open, mut seen, mut forms) = (vec![load], vec![false; self.protos.len()], vec![]);
        while let Some(i) = open.pop() {
            if std::mem::replace(&mut seen[i], true) {
                continue;
            }
            if let Some(form) = form_of(&self.protos[i]) {
                forms.push(form);
                open.extend(form.dynamic.iter().map(|part| part.index as usize));
            } else if let Proto::Plain(instr) = &self.protos[i] {
                open.extend(instr.operands().into_iter().map(Id::index));
            }
        }
        forms
    }

    // ---- native nodes

    fn lower_native(&mut self, id: NodeId) -> Result<Launch> {
        let work = self.work;
        let claimed = &work.claims[&id].claimed;
        let dtype = |v: ValueId| work.graph.ty(v).dtype;
        let mut sizes: Vec<SizeExpr> = claimed.dims.iter().map(|d| product(d.iter().copied())).collect();
        let mut arguments = vec![];
        // How each argument is walked, `None` where it does not start at its memory's start.
        let mut walks: Vec<Option<Vec<SizeExpr>>> = vec![];
        let unit = self.unit;
        for (g, s) in claimed.operands.iter().zip(&unit.operands) {
            let shape = &work.graph.ty(g.value).shape;
            let strides = |strides: &[SizeExpr]| -> Option<Vec<SizeExpr>> {
                g.groups.iter().map(|axes| common_stride(shape, axes, strides)).collect()
            };
            let (mem, offset, steps) = match strides(&s.strides) {
                Some(steps) => (Mem::Value(s.base), s.offset.clone(), steps),
                // An input or a native result that lies unevenly.
                None => {
                    let steps = strides(&dense_strides(shape)).unwrap_or_default();
                    (self.copy_dense(g.value, s)?, SizeExpr::default(), steps)
                }
            };
            walks.push((offset == SizeExpr::default()).then(|| steps.clone()));
            sizes.extend(steps);
            arguments.push(Argument { mem, dtype: dtype(g.value), offset, written: false, read: true });
        }
        for g in &claimed.outputs {
            let shape = &self.work.graph.ty(g.value).shape;
            let Strided { base, offset, strides } = stored(work, g.value);
            let steps: Vec<SizeExpr> =
                g.groups.iter().map(|axes| common_stride(shape, axes, &strides).unwrap_or_default()).collect();
            walks.push(Some(steps.clone()));
            sizes.extend(steps);
            let mem = Mem::Value(base);
            arguments.push(Argument { mem, dtype: dtype(g.value), offset, written: true, read: false });
        }
        let first_output = claimed.operands.len();
        let pairs = claimed.in_place.iter().map(|&(i, o)| (i, first_output + o));
        Ok(Launch {
            native: Some(claimed.text.clone()),
            nest: None,
            arguments,
            nest_arguments: vec![],
            sizes,
            // Only an operand that lies as the result does may be overwritten by it.
            in_place: pairs.filter(|&(i, o)| walks[i] == walks[o]).collect(),
            copies: None,
            nodes: self.unit.nodes.clone(),
            before: vec![],
            work: claimed.dims.iter().flatten().map(|d| d.bound()).product(),
        })
    }

    /// A dense copy of a value that lies in memory as `s` says.
    fn copy_dense(&mut self, v: ValueId, s: &Strided) -> Result<Mem> {
        let ty = self.work.graph.ty(v);
        let (group, map) = Group::over(&ty.shape);
        let mut from = self.form(&map, &s.strides)?;
        from.offset = s.offset.clone();
        let dense = self.form(&map, &dense_strides(&ty.shape))?;
        let temp = Mem::Temp(self.out.temps.len() as u32);
        self.out.temps.push(Temp { dtype: ty.dtype, numel: ty.shape.numel() });
        let axes = merge_even(&group, &group.parallel, &[&from, &dense]);
        let copy = [Stored { value: 0, mem: temp, dtype: ty.dtype, form: dense }];
        let load = [Proto::Load(Mem::Value(s.base), ty.dtype, from)];
        let mut launch = Emitter::new(&group, &load).run(&axes, None, &copy, None)?;
        launch.nodes = self.unit.nodes.clone();
        self.out.launches.push(launch);
        Ok(temp)
    }
}

/// A native launch with the nest as its epilogue: the nest's first buffer is the kernel's first output.
fn absorb(mut native: Launch, epilogue: Launch) -> Launch {
    let output = native.arguments.iter().position(|a| a.written).unwrap_or(0);
    let more = native.arguments.len();
    native.nest_arguments = (0..epilogue.arguments.len()).map(|b| if b == 0 { output } else { more + b - 1 }).collect();
    native.arguments.extend(epilogue.arguments.into_iter().skip(1));
    native.sizes.extend(epilogue.sizes);
    native.nest = epilogue.nest;
    native
}

/// Neighbouring atoms that every address steps through evenly are one axis.
fn merge_even<'a>(group: &Group, atoms: impl IntoIterator<Item = &'a u32>, forms: &[&Form]) -> Vec<Vec<u32>> {
    let mut axes: Vec<Vec<u32>> = vec![];
    for &a in atoms {
        match axes.last_mut() {
            Some(axis) if forms.iter().all(|f| f.is_even(group, &[axis[axis.len() - 1], a])) => axis.push(a),
            _ => axes.push(vec![a]),
        }
    }
    axes
}

fn product(dims: impl IntoIterator<Item = rtx_core::Dim>) -> SizeExpr {
    dims.into_iter().fold(SizeExpr::constant(1), |n, d| &n * &SizeExpr::from(d))
}

fn form_of(p: &Proto) -> Option<&Form> {
    match p {
        Proto::Load(_, _, form) | Proto::Position(form) => Some(form),
        Proto::Plain(_) | Proto::Number(_) => None,
    }
}

/// Writes a nest.
struct Emitter<'a> {
    group: &'a Group,
    protos: &'a [Proto],
    nest: Nest,
    sizes: Vec<SizeExpr>,
    arguments: Vec<Argument>,
    memo: Vec<Option<Id>>,
    classes: Vec<Vec<u32>>,
}

impl<'a> Emitter<'a> {
    fn new(group: &'a Group, protos: &'a [Proto]) -> Self {
        Self {
            group,
            protos,
            nest: Nest::default(),
            sizes: vec![],
            arguments: vec![],
            memo: vec![None; protos.len()],
            classes: vec![],
        }
    }

    fn run(
        mut self,
        parallel: &[Vec<u32>],
        walk: Option<&[u32]>,
        results: &[Stored],
        first: Option<(Mem, DType)>,
    ) -> Result<Launch> {
        let mut work = 1usize;
        for (class, is_walk) in parallel.iter().map(|c| (c.as_slice(), false)).chain(walk.map(|w| (w, true))) {
            let dims = class.iter().map(|&a| self.group.atoms[a as usize].extent);
            work = work.saturating_mul(dims.clone().map(|d| d.bound()).product());
            let extent = self.argument(product(dims));
            self.nest.axes.push(Axis { extent, walk: is_walk });
            self.classes.push(class.to_vec());
        }
        if let Some((mem, dtype)) = first {
            self.buffer(mem, dtype, &SizeExpr::default(), false);
        }
        let mut stores = vec![];
        for r in results {
            let value = self.instr(r.value)?;
            stores.push((value, r));
        }
        for (value, r) in stores {
            let view = self.view(r.mem, r.dtype, &r.form, true)?;
            self.nest.stores.push(Store { view, value });
        }
        self.nest.sizes = self.sizes.len() as u32;
        Ok(Launch {
            native: None,
            nest_arguments: (0..self.arguments.len()).collect(),
            nest: Some(self.nest),
            arguments: self.arguments,
            sizes: self.sizes,
            in_place: vec![],
            copies: None,
            nodes: vec![],
            before: vec![],
            work,
        })
    }

    /// A launch integer.
    fn argument(&mut self, n: SizeExpr) -> Size {
        self.sizes.push(n);
        Size::Arg(self.sizes.len() as u32 - 1)
    }
    /// A stride: 1 is part of the text.
    fn stride(&mut self, n: SizeExpr) -> Size {
        if n.known() == Some(1) { Size::Const(1) } else { self.argument(n) }
    }

    fn buffer(&mut self, mem: Mem, dtype: DType, offset: &SizeExpr, written: bool) -> BufferId {
        let same = |a: &Argument| a.mem == mem && a.offset == *offset && a.written == written && a.dtype == dtype;
        let found = self.arguments.iter().position(same).unwrap_or_else(|| {
            self.arguments.push(Argument { mem, dtype, offset: offset.clone(), written, read: !written });
            self.nest.buffers.push(BufferDecl { dtype, written });
            self.arguments.len() - 1
        });
        BufferId(found as u32)
    }

    fn view(&mut self, mem: Mem, dtype: DType, form: &Form, written: bool) -> Result<View> {
        let indexed: Vec<(Id, &Part)> =
            form.dynamic.iter().map(|d| Ok((self.instr(d.index)?, d))).collect::<Result<_>>()?;
        let buffer = self.buffer(mem, dtype, &form.offset, written);
        let mut strides = vec![];
        for i in 0..self.classes.len() {
            let step = self.classes[i].last().map(|&a| form.stride(a)).unwrap_or_default();
            if step.known() != Some(0) {
                strides.push((AxisId(i as u32), self.stride(step)));
            }
        }
        let indexed = indexed
            .into_iter()
            .map(|(index, d)| {
                let (stride, bound) = (self.stride(d.stride.clone()), self.argument(d.bound.clone()));
                Indexed { index, stride, bound, checked: d.checked }
            })
            .collect();
        Ok(View { buffer, strides, offset: Size::Const(0), indexed })
    }

    fn instr(&mut self, i: u32) -> Result<Id> {
        if let Some(id) = self.memo[i as usize] {
            return Ok(id);
        }
        let protos = self.protos;
        let id = match &protos[i as usize] {
            Proto::Plain(instr) => {
                let instr = self.renamed(instr)?;
                self.nest.push(instr)
            }
            Proto::Load(mem, dtype, form) => {
                let view = self.view(*mem, *dtype, form, false)?;
                self.nest.push(Instr::Load(view))
            }
            Proto::Position(form) => self.position(form),
            Proto::Number(n) => {
                let size = self.argument(n.clone());
                self.nest.push(Instr::Sized(size))
            }
        };
        self.memo[i as usize] = Some(id);
        Ok(id)
    }

    fn renamed(&mut self, instr: &Instr) -> Result<Instr> {
        let mut at = |i: &Id| self.instr(i.0);
        Ok(match instr {
            Instr::Const { .. } | Instr::Iota(_) | Instr::Sized(_) | Instr::Load(_) => instr.clone(),
            Instr::Unary(f, a) => Instr::Unary(*f, at(a)?),
            Instr::Binary(f, a, b) => Instr::Binary(*f, at(a)?, at(b)?),
            Instr::Compare(f, a, b) => Instr::Compare(*f, at(a)?, at(b)?),
            Instr::Fma(a, b, c) => Instr::Fma(at(a)?, at(b)?, at(c)?),
            Instr::Select(a, b, c) => Instr::Select(at(a)?, at(b)?, at(c)?),
            Instr::Cast(d, a) => Instr::Cast(*d, at(a)?),
            Instr::Bitcast(d, a) => Instr::Bitcast(*d, at(a)?),
            Instr::Reduce(f, a) => Instr::Reduce(*f, at(a)?),
            Instr::ArgReduce(f, a) => Instr::ArgReduce(*f, at(a)?),
            Instr::Random { key, ordinal, index } => {
                Instr::Random { key: at(key)?, ordinal: at(ordinal)?, index: at(index)? }
            }
        })
    }

    /// `offset + Σ stride · position` as instructions.
    fn position(&mut self, form: &Form) -> Id {
        let mut sum: Option<Id> = None;
        for i in 0..self.classes.len() {
            let class = self.classes[i].clone();
            if !form.varies(&class) {
                continue;
            }
            let axis = self.nest.push(Instr::Iota(AxisId(i as u32)));
            if form.is_even(self.group, &class) {
                let term = self.scaled(axis, form.stride(class[class.len() - 1]));
                sum = Some(self.plus(sum, term));
                continue;
            }
            for (k, &a) in class.iter().enumerate().filter(|(_, a)| form.varies(&[**a])) {
                let inner = product(class[k + 1..].iter().map(|&b| self.group.atoms[b as usize].extent));
                let mut at = axis;
                if inner.known() != Some(1) {
                    let by = self.number(inner);
                    at = self.nest.push(Instr::Binary(Arith::Div, at, by));
                }
                if k > 0 {
                    let n = self.number(SizeExpr::from(self.group.atoms[a as usize].extent));
                    at = self.nest.push(Instr::Binary(Arith::Rem, at, n));
                }
                let term = self.scaled(at, form.stride(a));
                sum = Some(self.plus(sum, term));
            }
        }
        match sum {
            Some(s) if form.offset.known() == Some(0) => s,
            _ => {
                let offset = self.number(form.offset.clone());
                self.plus(sum, offset)
            }
        }
    }
    fn number(&mut self, n: SizeExpr) -> Id {
        let size = self.argument(n);
        self.nest.push(Instr::Sized(size))
    }
    fn scaled(&mut self, x: Id, by: SizeExpr) -> Id {
        if by.known() == Some(1) {
            return x;
        }
        let by = self.number(by);
        self.nest.push(Instr::Binary(Arith::Mul, x, by))
    }
    fn plus(&mut self, a: Option<Id>, b: Id) -> Id {
        match a {
            Some(a) => self.nest.push(Instr::Binary(Arith::Add, a, b)),
            None => b,
        }
    }
}

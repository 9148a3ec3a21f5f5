//! What makes a nest well formed, and what each instruction's type and axes are.
use crate::{AxisId, Id, Instr, Nest, Size, View};
use rtx_core::{Arith, Class, DType, Fold, Function};

/// Axes as a bit each; axis 0 is the lowest.
pub type AxisSet = u64;

impl Instr {
    /// Its operands, in order; for a load the indices of its view.
    pub fn operands(&self) -> Vec<Id> {
        match self {
            Instr::Const { .. } | Instr::Iota(_) | Instr::Sized(_) => vec![],
            Instr::Load(view) => view.indexed.iter().map(|i| i.index).collect(),
            &Instr::Unary(_, a) | &Instr::Cast(_, a) | &Instr::Bitcast(_, a) => vec![a],
            &Instr::Reduce(_, a) | &Instr::ArgReduce(_, a) => vec![a],
            &Instr::Binary(_, a, b) | &Instr::Compare(_, a, b) => vec![a, b],
            &Instr::Fma(a, b, c) | &Instr::Select(a, b, c) => vec![a, b, c],
            &Instr::Random { key, ordinal, index } => vec![key, ordinal, index],
        }
    }
    /// The same instruction over other operands.
    pub(crate) fn map_operands(&self, f: impl Fn(Id) -> Id) -> Instr {
        match self {
            Instr::Const { .. } | Instr::Iota(_) | Instr::Sized(_) => self.clone(),
            Instr::Load(view) => Instr::Load(view.map_indices(f)),
            &Instr::Unary(k, a) => Instr::Unary(k, f(a)),
            &Instr::Cast(d, a) => Instr::Cast(d, f(a)),
            &Instr::Bitcast(d, a) => Instr::Bitcast(d, f(a)),
            &Instr::Reduce(k, a) => Instr::Reduce(k, f(a)),
            &Instr::ArgReduce(k, a) => Instr::ArgReduce(k, f(a)),
            &Instr::Binary(k, a, b) => Instr::Binary(k, f(a), f(b)),
            &Instr::Compare(k, a, b) => Instr::Compare(k, f(a), f(b)),
            &Instr::Fma(a, b, c) => Instr::Fma(f(a), f(b), f(c)),
            &Instr::Select(a, b, c) => Instr::Select(f(a), f(b), f(c)),
            &Instr::Random { key, ordinal, index } => {
                Instr::Random { key: f(key), ordinal: f(ordinal), index: f(index) }
            }
        }
    }
    /// Does it fold the walk axis?
    pub fn is_reduction(&self) -> bool {
        matches!(self, Instr::Reduce(..) | Instr::ArgReduce(..))
    }
}

impl View {
    pub(crate) fn map_indices(&self, f: impl Fn(Id) -> Id) -> View {
        let mut view = self.clone();
        view.indexed.iter_mut().for_each(|i| i.index = f(i.index));
        view
    }
}

impl Nest {
    /// The type of an instruction.
    ///
    /// # Panics
    /// If the nest names instructions or buffers that it does not have.
    pub fn dtype(&self, id: Id) -> DType {
        match &self.instrs[id.index()] {
            Instr::Const { dtype, .. } | Instr::Cast(dtype, _) | Instr::Bitcast(dtype, _) => *dtype,
            Instr::Load(view) => self.buffers[view.buffer.index()].dtype,
            Instr::Iota(_) | Instr::Sized(_) | Instr::ArgReduce(..) => DType::I64,
            Instr::Unary(f, a) => f.result(self.dtype(*a)),
            Instr::Binary(f, a, _) => f.result(self.dtype(*a)),
            Instr::Fma(a, _, _) => self.dtype(*a),
            Instr::Select(_, a, _) | Instr::Reduce(_, a) => self.dtype(*a),
            Instr::Compare(..) => DType::Bool,
            Instr::Random { .. } => DType::U32,
        }
    }
    /// The type of every instruction.
    pub fn dtypes(&self) -> Vec<DType> {
        let mut types: Vec<DType> = Vec::with_capacity(self.instrs.len());
        for instr in &self.instrs {
            types.push(match instr {
                Instr::Const { dtype, .. } | Instr::Cast(dtype, _) | Instr::Bitcast(dtype, _) => *dtype,
                Instr::Load(view) => self.buffers[view.buffer.index()].dtype,
                Instr::Iota(_) | Instr::Sized(_) | Instr::ArgReduce(..) => DType::I64,
                Instr::Unary(f, a) => f.result(types[a.index()]),
                Instr::Binary(f, a, _) => f.result(types[a.index()]),
                Instr::Fma(a, _, _) => types[a.index()],
                Instr::Select(_, a, _) | Instr::Reduce(_, a) => types[a.index()],
                Instr::Compare(..) => DType::Bool,
                Instr::Random { .. } => DType::U32,
            });
        }
        types
    }
    /// The axes that each instruction varies over.
    pub fn axis_sets(&self) -> Vec<AxisSet> {
        let walk = self.walk().map_or(0, bit);
        let mut sets: Vec<AxisSet> = Vec::with_capacity(self.instrs.len());
        for instr in &self.instrs {
            let operands = instr.operands().iter().fold(0, |set, a| set | sets[a.index()]);
            sets.push(match instr {
                Instr::Load(view) => operands | view.axis_set(),
                Instr::Iota(axis) => bit(*axis),
                Instr::Reduce(..) | Instr::ArgReduce(..) => operands & !walk,
                _ => operands,
            });
        }
        sets
    }
    /// The axes that an instruction varies over, ascending.
    pub fn axes_of(&self, id: Id) -> Vec<AxisId> {
        let set = self.axis_sets()[id.index()];
        (0..self.axes.len() as u32).map(AxisId).filter(|&a| set & bit(a) != 0).collect()
    }

    /// Is the nest well formed? Types agree, operands come before users, only the last axis walks, views name axes
    /// and buffers that exist, stores vary over what their values vary over.
    ///
    /// # Errors
    /// The first thing that is wrong, with its instruction.
    pub fn verify(&self) -> Result<(), String> {
        if self.axes.len() > 64 {
            return Err(format!("{} axes: 64 is the most", self.axes.len()));
        }
        for (i, axis) in self.axes.iter().enumerate() {
            self.verify_size(axis.extent).map_err(|e| format!("axis {i}: {e}"))?;
            if axis.walk && i + 1 != self.axes.len() {
                return Err(format!("axis {i}: only the last axis walks"));
            }
        }
        let mut types = vec![];
        for (i, instr) in self.instrs.iter().enumerate() {
            let t = self.verify_instr(i, instr, &types).map_err(|e| format!("%{i}: {e}"))?;
            types.push(t);
        }
        let sets = self.axis_sets();
        for (i, store) in self.stores.iter().enumerate() {
            self.verify_store(store, &types, &sets).map_err(|e| format!("store {i}: {e}"))?;
        }
        Ok(())
    }

    fn verify_size(&self, size: Size) -> Result<(), String> {
        match size {
            Size::Arg(i) if i >= self.sizes => Err(format!("s{i} is not among {} sizes", self.sizes)),
            _ => Ok(()),
        }
    }
    fn verify_view(&self, view: &View, types: &[DType]) -> Result<DType, String> {
        let buffer = self.buffers.get(view.buffer.index()).ok_or(format!("no buffer b{}", view.buffer.0))?;
        self.verify_size(view.offset)?;
        let mut last = None;
        for &(axis, stride) in &view.strides {
            self.verify_size(stride)?;
            if axis.index() >= self.axes.len() {
                return Err(format!("no axis a{}", axis.0));
            }
            if last >= Some(axis) {
                return Err("strides are not in ascending order of axis".into());
            }
            if stride == Size::Const(0) {
                return Err(format!("a stride of 0 along a{}", axis.0));
            }
            last = Some(axis);
        }
        for part in &view.indexed {
            self.verify_size(part.stride)?;
            self.verify_size(part.bound)?;
            if types.get(part.index.index()) != Some(&DType::I64) {
                return Err(format!("index %{} is not an i64 before it", part.index.0));
            }
        }
        Ok(buffer.dtype)
    }
    fn verify_instr(&self, at: usize, instr: &Instr, types: &[DType]) -> Result<DType, String> {
        let of = |id: Id| match types.get(id.index()) {
            Some(&t) => Ok(t),
            None => Err(format!("%{} does not come before %{at}", id.0)),
        };
        let same = |a: Id, b: Id| match (of(a)?, of(b)?) {
            (s, t) if s == t => Ok(s),
            (s, t) => Err(format!("operands differ: %{} is {s}, %{} is {t}", a.0, b.0)),
        };
        let want = |ok: bool, t: DType| if ok { Ok(t) } else { Err(format!("does not take {t}")) };
        match instr {
            Instr::Const { dtype, .. } => Ok(*dtype),
            Instr::Load(view) => self.verify_view(view, types),
            Instr::Iota(axis) if axis.index() >= self.axes.len() => Err(format!("no axis a{}", axis.0)),
            Instr::Iota(_) => Ok(DType::I64),
            Instr::Sized(size) => self.verify_size(*size).map(|()| DType::I64),
            &Instr::Unary(f, a) => of(a).and_then(|t| want(function_takes(f, t), f.result(t))),
            &Instr::Binary(f, a, b) => same(a, b).and_then(|t| want(arith_takes(f, t), f.result(t))),
            &Instr::Compare(_, a, b) => {
                same(a, b).and_then(|t| want(t.class() != Class::Complex, t)).map(|_| DType::Bool)
            }
            &Instr::Fma(a, b, c) => {
                same(a, b)?;
                same(b, c).and_then(|t| want(t.is_float(), t))
            }
            &Instr::Select(c, a, b) => match of(c)? {
                DType::Bool => same(a, b),
                t => Err(format!("condition %{} is {t}", c.0)),
            },
            &Instr::Cast(to, a) => of(a).map(|_| to),
            &Instr::Bitcast(to, a) => of(a).and_then(|t| want(t.size() == to.size(), t)).map(|_| to),
            &Instr::Reduce(fold, a) => {
                self.verify_walk()?;
                of(a).and_then(|t| want(fold_takes(fold, t), t))
            }
            &Instr::ArgReduce(_, a) => {
                self.verify_walk()?;
                of(a).and_then(|t| want(t.class() != Class::Complex, t)).map(|_| DType::I64)
            }
            &Instr::Random { key, ordinal, index } => {
                for id in [key, ordinal, index] {
                    of(id).and_then(|t| want(t == DType::I64, t))?;
                }
                Ok(DType::U32)
            }
        }
    }
    fn verify_walk(&self) -> Result<(), String> {
        self.walk().map(|_| ()).ok_or("a reduction without a walk axis".into())
    }
    fn verify_store(&self, store: &crate::Store, types: &[DType], sets: &[AxisSet]) -> Result<(), String> {
        let to = self.verify_view(&store.view, types)?;
        let value = store.value;
        let from = *types.get(value.index()).ok_or(format!("no instruction %{}", value.0))?;
        if to != from {
            return Err(format!("%{} is {from}, the buffer is {to}", value.0));
        }
        if !self.buffers[store.view.buffer.index()].written {
            return Err(format!("buffer b{} is not written", store.view.buffer.0));
        }
        if store.view.indexed.iter().any(|i| i.checked) {
            return Err("a store's index is checked".into());
        }
        let indices = store.view.indexed.iter().fold(0, |set, i| set | sets[i.index.index()]);
        if sets[value.index()] & !(store.view.axis_set() | indices) != 0 {
            return Err(format!("%{} varies over axes that the view does not name", value.0));
        }
        Ok(())
    }
}

impl View {
    /// The axes that it names; those of its indices come on top.
    pub fn axis_set(&self) -> AxisSet {
        self.strides.iter().fold(0, |set, &(axis, _)| set | bit(axis))
    }
}

/// An axis as a set.
fn bit(axis: AxisId) -> AxisSet {
    1 << axis.0
}

/// Is a function of one number defined for a type?
fn function_takes(f: Function, t: DType) -> bool {
    match f {
        Function::Neg | Function::Abs | Function::Sign => t.is_float() || t.is_int(),
        Function::Not => t == DType::Bool || t.is_int(),
        Function::Real | Function::Imag => t.class() == Class::Complex,
        _ => t.is_float(),
    }
}
/// Is a function of two numbers defined for a type?
fn arith_takes(f: Arith, t: DType) -> bool {
    match f {
        Arith::Add | Arith::Sub | Arith::Mul | Arith::Div | Arith::Rem | Arith::Pow => t.is_float() || t.is_int(),
        Arith::Atan2 => t.is_float(),
        Arith::Max | Arith::Min => t.class() != Class::Complex,
        Arith::And | Arith::Or | Arith::Xor => t == DType::Bool || t.is_int(),
        Arith::Shl | Arith::Shr => t.is_int(),
        Arith::Complex => matches!(t, DType::F32 | DType::F64),
    }
}
/// Is a reduction defined for a type?
fn fold_takes(f: Fold, t: DType) -> bool {
    match f {
        Fold::Sum | Fold::Prod => t.is_float() || t.is_int(),
        Fold::Max | Fold::Min => t.class() != Class::Complex,
    }
}

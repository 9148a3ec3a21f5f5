//! Appending to the working graph: exact rewrites and the merging of equal nodes, as each node arrives.
//!
//! Every rewrite holds for NaN, infinities and both zeros (contract N6).
use crate::pieces::{self, Pieces};
use rtx_core::{Arith, DType, Dim, Function, Location};
use rtx_ir::{Effects, Graph, NodeId, Op, Prim, Type, ValueId};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Appends nodes, simplified.
pub(crate) struct Simplifier {
    /// The graph so far.
    pub graph: Graph,
    /// For each node, the recorded nodes that it came from.
    pub origins: Vec<SmallVec<[NodeId; 1]>>,
    known: HashMap<u64, SmallVec<[NodeId; 1]>>,
    /// Values that are zero outside slices.
    pieces: HashMap<ValueId, Pieces>,
    /// Concatenations that sums of slices became.
    pub joined: HashSet<ValueId>,
    /// Results of kernels that never write -0.
    pub never_minus_zero: HashSet<ValueId>,
    /// Rewrites made.
    pub rewritten: u64,
    /// Nodes merged with equal ones.
    pub merged: u64,
}

/// Where a node comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    /// The recorded node.
    pub node: NodeId,
    /// The user's line.
    pub location: Location,
    /// Nodes of different generations are not merged.
    pub generation: u32,
}

impl Simplifier {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            graph: Graph::new(),
            origins: vec![],
            known: HashMap::new(),
            pieces: HashMap::new(),
            joined: HashSet::new(),
            never_minus_zero: HashSet::new(),
            rewritten: 0,
            merged: 0,
        }
    }

    /// Appends a node that must stay what it is: sources with an identity, barriers.
    pub fn append(&mut self, op: Op, inputs: &[ValueId], types: impl IntoIterator<Item = Type>, at: Origin) -> NodeId {
        self.origins.push(SmallVec::from_slice(&[at.node]));
        self.graph.push(op, inputs.into(), types, at.location, at.generation)
    }

    /// Appends a node, or finds one that computes the same.
    pub fn add(&mut self, op: Op, inputs: &[ValueId], types: &[Type], at: Origin) -> (SmallVec<[ValueId; 1]>, bool) {
        if let Op::Prim(p) = &op
            && let Some(found) = self.rewrite(p, inputs, &types[0], at)
        {
            self.rewritten += 1;
            return (SmallVec::from_slice(&[found]), false);
        }
        let acts = op.def().is_none_or(|d| d.effects != Effects::None);
        if acts || matches!(op, Op::Prim(Prim::Param { .. })) {
            let node = self.append(op, inputs, types.iter().cloned(), at);
            return (self.graph.node(node).outs().collect(), true);
        }
        let key = key(&op, inputs, at.generation);
        let same = |n: &&NodeId| {
            let n = self.graph.node(**n);
            n.op == op && n.inputs.as_slice() == inputs && n.generation == at.generation
        };
        if let Some(&node) = self.known.get(&key).and_then(|bucket| bucket.iter().find(same)) {
            self.merged += 1;
            if !self.origins[node.index()].contains(&at.node) {
                self.origins[node.index()].push(at.node);
            }
            return (self.graph.node(node).outs().collect(), false);
        }
        let pieces = self.pieces_of(&op, inputs, &types[0], at);
        let node = self.append(op, inputs, types.iter().cloned(), at);
        self.known.entry(key).or_default().push(node);
        self.pieces.extend(pieces.map(|p| (self.graph.node(node).first, p)));
        (self.graph.node(node).outs().collect(), true)
    }

    /// Slices outside of which the result is zero.
    fn pieces_of(&mut self, op: &Op, inputs: &[ValueId], ty: &Type, at: Origin) -> Option<Pieces> {
        match op {
            Op::Prim(p @ (Prim::Permute(_) | Prim::Reshape(_))) => pieces::of_moved(self, p, inputs[0], ty, at),
            Op::Prim(Prim::UpdateSlice { axis, step }) => pieces::of_update(self, *axis, *step, inputs),
            Op::Prim(Prim::Binary(Arith::Add)) => {
                pieces::of_sum(self.pieces.get(&inputs[0])?, self.pieces.get(&inputs[1])?)
            }
            _ => None,
        }
    }

    /// What is known of the slices outside of which a value is zero.
    pub fn pieces_at(&self, v: ValueId) -> Option<Pieces> {
        self.pieces.get(&v).cloned()
    }

    /// A primitive of one output.
    pub fn add_prim(&mut self, p: Prim, inputs: &[ValueId], ty: &Type, at: Origin) -> ValueId {
        self.add(Op::Prim(p), inputs, std::slice::from_ref(ty), at).0[0]
    }

    /// The primitive and first operand of a value.
    fn parts(&self, v: ValueId) -> Option<(&Prim, Option<ValueId>)> {
        let n = self.graph.producer(v);
        Some((n.op.prim()?, n.inputs.first().copied()))
    }

    /// The number that every element of a value is.
    pub fn splat(&self, mut v: ValueId) -> Option<u64> {
        loop {
            match self.parts(v)? {
                (Prim::Constant { bits, .. }, _) => return Some(*bits),
                (Prim::Expand(_) | Prim::Reshape(_) | Prim::Permute(_), Some(x)) => v = x,
                _ => return None,
            }
        }
    }

    /// Is it, moved, the result of a kernel that never writes -0?
    fn is_never_minus_zero(&self, mut v: ValueId) -> bool {
        while let Some((Prim::Expand(_) | Prim::Reshape(_) | Prim::Permute(_) | Prim::Slice { .. }, Some(x))) =
            self.parts(v)
        {
            v = x;
        }
        self.never_minus_zero.contains(&v)
    }

    fn is_number(&self, v: ValueId, number: f64) -> bool {
        let dtype = self.graph.ty(v).dtype;
        self.splat(v) == Some(rtx_core::Scalar::Float(number).to_bits(dtype))
    }

    /// A value that already is, or more simply is, the result.
    fn rewrite(&mut self, p: &Prim, inputs: &[ValueId], ty: &Type, at: Origin) -> Option<ValueId> {
        let x = *inputs.first()?;
        let from = self.graph.ty(x).clone();
        match p {
            Prim::Reshape(_) | Prim::Expand(_) | Prim::Cast(_) | Prim::Bitcast(_) if from == *ty => Some(x),
            Prim::Permute(order) if order.iter().enumerate().all(|(i, &o)| i == o) => Some(x),
            // The whole axis, whatever the start: it is clamped to 0.
            Prim::Slice { axis, len, step: 1 } if from.shape.dim(*axis) == *len => Some(x),
            Prim::UpdateSlice { axis, step: 1 }
                if self.graph.ty(inputs[1]).shape.dim(*axis) == from.shape.dim(*axis) =>
            {
                Some(inputs[1])
            }
            Prim::Pad { before: 0, after: 0, .. } => Some(x),
            Prim::Concat { .. } if inputs.len() == 1 => Some(x),
            Prim::Reshape(_) | Prim::Expand(_) | Prim::Permute(_) | Prim::Cast(_) => self.rewrite_pair(p, x, ty, at),
            // -(-x) = x, !(!x) = x.
            Prim::Unary(f @ (Function::Neg | Function::Not)) => match self.parts(x)? {
                (Prim::Unary(g), Some(inner)) if f == g => Some(inner),
                _ => None,
            },
            Prim::Binary(Arith::Add) if self.pieces.contains_key(&x) && self.pieces.contains_key(&inputs[1]) => {
                let sum = pieces::of_sum(&self.pieces[&x], &self.pieces[&inputs[1]])?;
                sum.joined(self, ty, at)
            }
            Prim::Binary(f) => self.rewrite_binary(*f, x, inputs[1], ty),
            // Equal branches, or a condition that is part of the program.
            Prim::Select if inputs[1] == inputs[2] => Some(inputs[1]),
            Prim::Select => self.splat(x).map(|c| if c != 0 { inputs[1] } else { inputs[2] }),
            _ => None,
        }
    }

    /// Two movements in a row are one; a cast that loses nothing before another cast is not needed.
    fn rewrite_pair(&mut self, p: &Prim, x: ValueId, ty: &Type, at: Origin) -> Option<ValueId> {
        if let Some(moved) = pieces::moved(self, p, x, ty, at) {
            return Some(moved);
        }
        let (inner, y) = self.parts(x)?;
        let (inner, y) = (inner.clone(), y?);
        match (p, inner) {
            (Prim::Reshape(s), Prim::Reshape(_)) => Some(self.add_prim(Prim::Reshape(s.clone()), &[y], ty, at)),
            (Prim::Expand(s), Prim::Expand(_)) => Some(self.add_prim(Prim::Expand(s.clone()), &[y], ty, at)),
            (Prim::Permute(outer), Prim::Permute(inner)) => {
                let order = outer.iter().map(|&o| inner[o]).collect();
                Some(self.add_prim(Prim::Permute(order), &[y], ty, at))
            }
            (Prim::Cast(to), Prim::Cast(middle)) if may_skip(*to, middle, self.graph.ty(y).dtype) => {
                Some(self.add_prim(Prim::Cast(*to), &[y], ty, at))
            }
            _ => None,
        }
    }

    fn rewrite_binary(&self, f: Arith, a: ValueId, b: ValueId, ty: &Type) -> Option<ValueId> {
        let float = ty.dtype.is_float();
        match f {
            // x·1 = x, 1·x = x, x/1 = x.
            Arith::Mul if ty.dtype != DType::Bool && self.is_number(b, 1.0) => Some(a),
            Arith::Mul if ty.dtype != DType::Bool && self.is_number(a, 1.0) => Some(b),
            Arith::Div if self.is_number(b, 1.0) => Some(a),
            // x - (+0) = x also for -0; x + (-0) = x also for +0. Integers have one zero.
            Arith::Sub if self.is_number(b, 0.0) => Some(a),
            Arith::Add if self.is_number(b, if float { -0.0 } else { 0.0 }) => Some(a),
            Arith::Add if self.is_number(a, if float { -0.0 } else { 0.0 }) => Some(b),
            // x + (+0) = x where x is not -0.
            Arith::Add if self.is_number(b, 0.0) && self.is_never_minus_zero(a) => Some(a),
            Arith::Add if self.is_number(a, 0.0) && self.is_never_minus_zero(b) => Some(b),
            // An extremum, a conjunction, a disjunction of a number with itself.
            Arith::Max | Arith::Min | Arith::And | Arith::Or if a == b => Some(a),
            _ => None,
        }
    }
}

/// Is a cast to `to` by way of `middle` the same as a direct one? `middle` loses nothing; and a float too large for an
/// integer saturates, where an integer would wrap.
fn may_skip(to: DType, middle: DType, from: DType) -> bool {
    let saturates = middle.is_float() && to.is_int() && !from.is_float();
    holds(middle, from) && (!saturates || holds(to, from))
}

/// Does `to` hold every number of `from` exactly?
fn holds(to: DType, from: DType) -> bool {
    use DType::*;
    to == from
        || match from {
            Bool => !matches!(to, C64 | C128),
            U8 => matches!(to, I16 | I32 | I64 | U16 | U32 | U64 | F16 | BF16 | F32 | F64),
            I8 => matches!(to, I16 | I32 | I64 | F16 | BF16 | F32 | F64),
            I16 => matches!(to, I32 | I64 | F32 | F64),
            U16 => matches!(to, I32 | I64 | U32 | U64 | F32 | F64),
            I32 => matches!(to, I64 | F64),
            U32 => matches!(to, I64 | U64 | F64),
            F16 | BF16 => matches!(to, F32 | F64),
            F8E4M3 | F8E5M2 => matches!(to, F16 | BF16 | F32 | F64),
            F32 => to == F64,
            I64 | U64 | F64 | C64 | C128 => false,
        }
}

fn key(op: &Op, inputs: &[ValueId], generation: u32) -> u64 {
    let mut h = DefaultHasher::new();
    match op {
        Op::Prim(p) => p.hash(&mut h),
        Op::Composite(def, _) => def.sig.hash(&mut h),
        Op::Input | Op::Ghost => 0.hash(&mut h),
    }
    (inputs, generation).hash(&mut h);
    h.finish()
}

/// The product of dims, when all are numbers.
pub(crate) fn known_product(dims: &[Dim]) -> Option<usize> {
    dims.iter().map(|d| d.known()).product()
}

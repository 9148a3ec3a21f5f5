//! Recurrent networks: the cells, one layer in one direction over a whole sequence, and PyTorch's stacks of layers.
//!
//! A layer's input part (`x · w_ihᵀ + b`, all steps at once) is an ordinary product before it. What is left to go step
//! by step is one node, so that a long sequence is no long program where a kernel takes it.
use crate::linear::matmul;
use rtx_core::{Dim, Kind, Result, Shape};
use rtx_ir::{Builder, Op, OpDef, Prim, Type, ValueId, rules};
use smallvec::SmallVec;

mod cells;
mod gru;
mod lstm;
mod plain;
mod stack;

pub use cells::{GRU_CELL, LSTM_CELL, RNN_RELU_CELL, RNN_TANH_CELL};
pub use gru::{GRU_LAYER, GRU_LAYER_BACKWARD};
pub use lstm::{LSTM_LAYER, LSTM_LAYER_BACKWARD};
pub use plain::{RNN_LAYER, RNN_LAYER_BACKWARD};
pub use stack::{GRU, LSTM, RNN_RELU, RNN_TANH};

/// The family.
pub const ALL: &[&OpDef] = &[
    &LSTM_CELL,
    &GRU_CELL,
    &RNN_TANH_CELL,
    &RNN_RELU_CELL,
    &LSTM_LAYER,
    &LSTM_LAYER_BACKWARD,
    &GRU_LAYER,
    &GRU_LAYER_BACKWARD,
    &RNN_LAYER,
    &RNN_LAYER_BACKWARD,
    &LSTM,
    &GRU,
    &RNN_TANH,
    &RNN_RELU,
];

/// The sizes of a layer: steps, examples, numbers of state.
struct Sizes {
    steps: Dim,
    batch: Dim,
    hidden: Dim,
}

impl Sizes {
    /// From the state `[b, h]` and the input part `[t, b, gates · h]`; the weights are `[gates · h, h]`.
    fn of(op: &Op, gates: u64, x: &Type, state: &Type, weight: &Type) -> Result<Sizes> {
        let fits = || {
            let (&[steps, batch, wide], &[b, hidden]) = (x.shape.dims(), state.shape.dims()) else { return None };
            let all = Dim::Const(gates * hidden.known()? as u64);
            let weights = weight.shape == Shape::from_iter([all, hidden]);
            (wide == all && b == batch && weights).then_some(Sizes { steps, batch, hidden })
        };
        let dtypes = x.dtype.is_float() && x.dtype == state.dtype && x.dtype == weight.dtype;
        fits().filter(|_| dtypes).ok_or_else(|| {
            rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(&[x, state, weight])))
        })
    }
    fn sequence(&self, x: &Type, gates: u64) -> Type {
        let wide = Dim::Const(gates * self.hidden.bound() as u64);
        Type { dtype: x.dtype, shape: Shape::from_iter([self.steps, self.batch, wide]) }
    }
    fn state(&self, x: &Type) -> Type {
        Type { dtype: x.dtype, shape: Shape::from_iter([self.batch, self.hidden]) }
    }
    /// Other operands have these types.
    fn check(op: &Op, pairs: &[(&Type, &Type)]) -> Result<()> {
        match pairs.iter().find(|(have, want)| have != want) {
            None => Ok(()),
            Some((have, want)) => {
                Err(rules::refuse(op.name(), Kind::Shape, format_args!("an operand is {have}, not {want}")))
            }
        }
    }
}

/// The order in which steps are taken.
fn steps(op: &str, b: &Builder<'_>, x: ValueId, reverse: bool) -> Result<Vec<i64>> {
    let n = crate::lines::known(op, b.ty(x).shape.dim(0))? as i64;
    Ok(if reverse { (0..n).rev().collect() } else { (0..n).collect() })
}
/// Step `t` of a sequence, without the dim.
fn at(b: &mut Builder<'_>, x: ValueId, t: i64) -> Result<ValueId> {
    let y = b.slice(x, 0, t, 1)?;
    let mut shape = b.shape(y);
    shape.remove(0);
    b.reshape(y, &shape)
}
/// Steps in the order in which they were taken, as a sequence; of no steps an empty one of the type of `like`.
fn sequence(b: &mut Builder<'_>, mut parts: Vec<ValueId>, reverse: bool, like: &Type) -> Result<ValueId> {
    if reverse {
        parts.reverse();
    }
    let mut rows: SmallVec<[ValueId; 4]> = SmallVec::new();
    for part in parts {
        let mut shape = b.shape(part);
        shape.insert(0, 1);
        rows.push(b.reshape(part, &shape)?);
    }
    match rows.len() {
        0 => b.zeros(like.dtype, &like.shape),
        1 => Ok(rows[0]),
        _ => b.prim(Prim::Concat { axis: 0 }, &rows),
    }
}
/// Gate `i` of several side by side in the last dim.
fn gate(b: &mut Builder<'_>, x: ValueId, i: usize, of: usize) -> Result<ValueId> {
    let axis = b.rank(x) - 1;
    let n = crate::lines::known("gate", b.ty(x).shape.dim(axis))? / of;
    b.slice(x, axis, (i * n) as i64, n)
}
/// Gates side by side.
fn side_by_side(b: &mut Builder<'_>, parts: &[ValueId]) -> Result<ValueId> {
    let axis = b.rank(parts[0]) - 1;
    b.prim(Prim::Concat { axis }, parts)
}
/// `x · wᵀ`.
fn times_transposed(b: &mut Builder<'_>, x: ValueId, weight: ValueId) -> Result<ValueId> {
    let weight = b.transpose_last(weight)?;
    matmul(b, x, weight)
}
/// The states before each step: `first`, then all but the last one.
fn before(b: &mut Builder<'_>, states: ValueId, first: ValueId, reverse: bool) -> Result<ValueId> {
    let n = crate::lines::known("before", b.ty(states).shape.dim(0))?;
    if n == 0 {
        return Ok(states);
    }
    let mut shape = b.shape(first);
    shape.insert(0, 1);
    let first = b.reshape(first, &shape)?;
    if n == 1 {
        return Ok(first);
    }
    let rest = b.slice(states, 0, i64::from(reverse), n - 1)?;
    b.prim(Prim::Concat { axis: 0 }, &if reverse { [rest, first] } else { [first, rest] })
}
/// `Σ over steps and examples of dyᵀ · x`: the gradient of a weight.
fn weight_gradient(b: &mut Builder<'_>, dy: ValueId, x: ValueId) -> Result<ValueId> {
    let contract = [(0, 0), (1, 1)].into_iter().collect();
    b.prim(Prim::Dot { batch: SmallVec::new(), contract }, &[dy, x])
}

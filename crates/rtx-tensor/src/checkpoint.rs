//! Checkpoints: what is computed inside is not kept for the backward pass but computed again there (contract A4).
use crate::{
    Location, Result, Tensor, engine,
    failure::OrPanic,
    frame::{self, Purpose, Recorded},
    tape::{self, Edge, Payload, Record, Rule, Traced, lock},
};
use rtx_core::{Error, Kind};
use rtx_ir::ValueId;
use rtx_runtime::Program;
use smallvec::smallvec;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// What a closure returns whose tensors are given gradients of their own: a tensor, or several.
pub trait Tensors: Sized {
    /// The tensors in it, in order.
    fn tensors(&self) -> Vec<Tensor>;
    /// The same with other tensors, as many.
    fn with_tensors(self, new: Vec<Tensor>) -> Self;
}
impl Tensors for Tensor {
    fn tensors(&self) -> Vec<Tensor> {
        vec![self.alias()]
    }
    fn with_tensors(self, new: Vec<Tensor>) -> Self {
        new.into_iter().next().unwrap_or(self)
    }
}
impl Tensors for Vec<Tensor> {
    fn tensors(&self) -> Vec<Tensor> {
        self.iter().map(Tensor::alias).collect()
    }
    fn with_tensors(self, new: Vec<Tensor>) -> Self {
        new
    }
}
impl<const N: usize> Tensors for [Tensor; N] {
    fn tensors(&self) -> Vec<Tensor> {
        self.iter().map(Tensor::alias).collect()
    }
    fn with_tensors(self, new: Vec<Tensor>) -> Self {
        new.try_into().unwrap_or(self)
    }
}
impl<A: Tensors, B: Tensors> Tensors for (A, B) {
    fn tensors(&self) -> Vec<Tensor> {
        self.0.tensors().into_iter().chain(self.1.tensors()).collect()
    }
    fn with_tensors(self, mut new: Vec<Tensor>) -> Self {
        let rest = new.split_off(self.0.tensors().len().min(new.len()));
        (self.0.with_tensors(new), self.1.with_tensors(rest))
    }
}

/// `torch.utils.checkpoint`: what `f` computes is not kept for the backward pass but computed again there, from the ops
/// that were recorded; `f` is called once. Random ops give the same bits again, so the gradients are those without a
/// checkpoint, bit by bit. A value that is computed inside cannot be read inside.
///
/// # Example
/// ```
/// use rtx_tensor::{self as torch, autograd::checkpoint, tensor};
/// # fn main() -> torch::Result<()> {
/// let x = tensor!([1., 2.]).requires_grad_();
/// let y = checkpoint(|| x.exp().sin() * &x);
/// y.sum(..).backward();
/// assert!(x.grad().is_some());
/// # Ok(()) }
/// ```
#[track_caller]
pub fn checkpoint<T: Tensors>(f: impl FnOnce() -> T) -> T {
    if !tape::is_taping() || frame::purpose() == Some(Purpose::Batch) {
        return f();
    }
    run(f).or_panic()
}

/// `torch.utils.checkpoint_sequential`: runs functions one after the other in `segments` checkpoints of equal length;
/// the last one is kept.
///
/// # Panics
/// When there is no segment.
#[track_caller]
pub fn checkpoint_sequential(functions: &[&dyn Fn(&Tensor) -> Tensor], segments: usize, input: &Tensor) -> Tensor {
    if segments == 0 {
        let none = Error::new(Kind::Argument, "checkpoint_sequential: needs at least one segment, got 0");
        Err::<(), _>(none).or_panic();
    }
    let len = (functions.len() / segments).max(1);
    let all = |part: &[&dyn Fn(&Tensor) -> Tensor], x: &Tensor| part.iter().fold(x.alias(), |x, f| f(&x));
    let mut x = input.alias();
    let mut rest = functions;
    for _ in 1..segments {
        let (part, after) = rest.split_at(len.min(rest.len()));
        x = checkpoint(|| all(part, &x));
        rest = after;
    }
    all(rest, &x)
}

/// What is recorded inside takes no more than `bytes` when it runs (inputs and results included), as far as that can be
/// had by computing values again in the backward pass instead of keeping them: those that save the most bytes for the
/// least work. Results are the same, bit by bit. [`crate::budget_report`] says what it came to. Forward and backward are
/// recorded inside, so that they are one region.
///
/// # Example
/// ```
/// use rtx_tensor::{self as torch, autograd::memory_budget};
/// # fn main() -> torch::Result<()> {
/// let x = torch::randn([64, 64]).requires_grad_();
/// memory_budget(64 << 10, || x.exp().sin().matmul(&x).tanh().sum(..).backward());
/// x.grad().expect("a gradient").to_vec::<f32>()?;
/// println!("{}", torch::budget_report().expect("a plan was made"));
/// # Ok(()) }
/// ```
pub fn memory_budget<T>(bytes: u64, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<u64>);
    impl Drop for Restore {
        fn drop(&mut self) {
            rtx_runtime::set_memory_budget(self.0);
        }
    }
    let _restore = Restore(rtx_runtime::set_memory_budget(Some(bytes)));
    f()
}

#[track_caller]
fn run<T: Tensors>(f: impl FnOnce() -> T) -> Result<T> {
    let at = Location::caller();
    let Recorded { result, program, written, .. } = frame::within(Purpose::Checkpoint, &[], |_| {
        let result = f();
        let traced = result.tensors().iter().map(Tensor::traced).collect::<Result<Vec<Traced>>>()?;
        Ok((result, traced))
    })?;
    let (result, mut outs) = result;
    let cells = written.now();
    outs.extend(cells.iter().map(|c| c.now.clone()));
    let mut outs = record_outs(at, program, outs)?;
    let after = outs.split_off(outs.len() - cells.len());
    written.replace(&cells, after);
    Ok(result.with_tensors(outs.into_iter().map(Tensor::from_traced).collect()))
}

/// The values of a program's results, and where their gradients go: to records that compute the program again.
fn record_outs(at: Location, program: Program, outs: Vec<Traced>) -> Result<Vec<Traced>> {
    let ids: Vec<Option<ValueId>> = outs.iter().map(|t| program.id(&t.value)).collect();
    let wanted: Vec<ValueId> = ids.iter().flatten().copied().collect();
    let values = engine::record_where(outs.iter().map(|t| &t.value), at, |r| {
        let now = frame::replay(r, &program, &wanted, 0);
        let export = |(t, id): (&Traced, &Option<ValueId>)| match id.and_then(|id| now.get(&id)) {
            Some(&v) => r.export(v),
            None => t.value.clone(),
        };
        Ok(outs.iter().zip(&ids).map(export).collect::<Vec<_>>())
    })?;
    let again = Arc::new(Again(Mutex::new(Some(program))));
    let place = |((t, id), value): ((Traced, Option<ValueId>), _)| {
        let edge = t.edge.map(|edge| match id {
            None => edge,
            Some(_) => {
                let payload = Payload { edges: smallvec![Some(edge)], rule: Rule::Again(again.clone()) };
                Edge::Node(Record::new("checkpoint", at, smallvec![t.value.ty().clone()], payload), 0)
            }
        });
        Traced { value, edge }
    };
    Ok(outs.into_iter().zip(ids).zip(values).map(place).collect())
}

/// A program that is recorded again when its gradient is first wanted.
pub(crate) struct Again(Mutex<Option<Program>>);

/// Generations of recomputation: no two checkpoints share one.
static GENERATION: AtomicU32 = AtomicU32::new(1);

impl Again {
    /// Records the program again: the values that the records inside have kept become values of this region.
    pub fn record(&self, at: Location) -> Result<()> {
        let Some(program) = lock(&self.0).take() else { return Ok(()) };
        let generation = GENERATION.fetch_add(1, Relaxed).max(1);
        frame::outside_batches(|| {
            let held = program.held();
            engine::record_where(held.iter().map(|(_, v)| v), at, |r| {
                let wanted: Vec<ValueId> = held.iter().map(|(id, _)| *id).collect();
                let now = frame::replay(r, &program, &wanted, generation);
                for (id, value) in &held {
                    let new = now.get(id).ok_or_else(|| Error::new(Kind::Internal, "checkpoint: a value is lost"))?;
                    program.settle(r, value, *new);
                }
                Ok(())
            })
        })
    }
}

//! Optimizer steps: one node a parameter, with numbers that are read at run time.
//!
//! All of them take `param, grad`, what is kept of the parameter, `step` (from 1, on the device), numbers, and flags;
//! they return the parameter and what is kept, in that order. What one number makes of others is computed in f64, and
//! rounded to the parameter's compute precision where it meets elements.
use crate::formula::{Formula, Var, emit};
use crate::precision::widen;
use rtx_core::{DType, Kind, Result, Scalar};
use rtx_ir::{Arg, Attr, Attrs, Batch, Bound, Builder, Grad, Jvp, Op, OpDef, Outs, Saves, Type, Types, ValueId, rules};
use smallvec::SmallVec;

mod adam;
mod adaptive;
mod descent;

pub use adam::{ADAM_STEP, ADAMAX_STEP, NADAM_STEP, RADAM_STEP};
pub use adaptive::{ADADELTA_STEP, ADAFACTOR_STEP, ADAGRAD_STEP, RMSPROP_STEP};
pub use descent::{ASGD_STEP, MUON_STEP, RPROP_STEP, SGD_STEP};

/// The family.
pub const ALL: &[&OpDef] = &[
    &adam::ADAM_STEP,
    &adam::ADAMAX_STEP,
    &adam::NADAM_STEP,
    &adam::RADAM_STEP,
    &adaptive::ADADELTA_STEP,
    &adaptive::ADAFACTOR_STEP,
    &adaptive::ADAGRAD_STEP,
    &adaptive::RMSPROP_STEP,
    &descent::ASGD_STEP,
    &descent::MUON_STEP,
    &descent::RPROP_STEP,
    &descent::SGD_STEP,
];

const STEP: OpDef = OpDef {
    grad: Grad::None,
    jvp: Jvp::None,
    saves: Saves::NONE,
    batch: Batch::Refused,
    record: record_step,
    ..OpDef::DEFAULT
};

/// Tensors are operands in the order of the signature, numbers are f64 operands, all else is an attribute. What is
/// kept of a parameter may be left out.
fn record_step(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let mut inputs: SmallVec<[ValueId; 16]> = SmallVec::new();
    let mut attrs = Attrs::new();
    for (i, arg) in args.0.iter().enumerate() {
        match arg {
            Arg::Value(v) => inputs.push(*v),
            Arg::Bool(flag) | Arg::Scalar(Scalar::Bool(flag)) => attrs.push(Attr::Bool(*flag)),
            Arg::Scalar(number) if i > 1 => inputs.push(b.param(DType::F64, *number)?),
            Arg::Str(word) => attrs.push(Attr::Str(word)),
            Arg::Ints(list) => attrs.push(Attr::Ints(list.clone())),
            Arg::None if i > 1 => {}
            _ => {
                let name = rules::parameter_names(def.sig).get(i).copied().unwrap_or("?");
                let what = format_args!("argument `{name}` is no tensor and no number");
                return Err(rules::refuse(def.name(), Kind::Argument, what));
            }
        }
    }
    b.composite(def, attrs, &inputs)
}

/// Parameter, gradient and state have one shape; the last `single` entries of the state are single numbers. Step and
/// `numbers` numbers follow.
fn infer_step(op: &Op, inputs: &[&Type], numbers: usize, single: usize) -> Result<Types> {
    let tensors = check_numbers(op, inputs, numbers)?;
    let (like, numbers) = tensors.split_at(tensors.len().saturating_sub(single).max(2));
    if like.iter().any(|t| t.shape != like[0].shape || !t.dtype.is_float())
        || numbers.iter().any(|t| t.rank() != 0 || !t.dtype.is_float())
    {
        let what = format_args!("parameter, gradient and state differ: {}", rules::show(tensors));
        return Err(rules::refuse(op.name(), Kind::Shape, what));
    }
    Ok(replaced(tensors))
}

/// The types that a step returns: the parameter's and the state's.
fn replaced(tensors: &[&Type]) -> Types {
    std::iter::once(tensors[0]).chain(tensors[2..].iter().copied()).cloned().collect()
}

/// What stands before step and numbers, which are single.
fn check_numbers<'a, 'b>(op: &Op, inputs: &'a [&'b Type], numbers: usize) -> Result<&'a [&'b Type]> {
    let Some(count) = inputs.len().checked_sub(numbers + 1).filter(|n| *n >= 2) else {
        let what = format_args!("takes {} operands or more, got {}", numbers + 3, inputs.len());
        return Err(rules::refuse(op.name(), Kind::Argument, what));
    };
    let (tensors, numbers) = inputs.split_at(count);
    match numbers.iter().find(|t| t.rank() != 0) {
        None => Ok(tensors),
        Some(t) => {
            let what = format_args!("step and settings are one number each, got {t}");
            Err(rules::refuse(op.name(), Kind::Shape, what))
        }
    }
}

/// The operands of a step, read for its formula.
struct Step<'a> {
    operands: &'a [ValueId],
    /// In which precision elements are computed.
    compute: DType,
    p: Var,
    g: Var,
    /// What is kept: elements in compute precision, single numbers in f64.
    state: SmallVec<[Var; 4]>,
    /// The number of the step, f64.
    t: Var,
}

impl<'a> Step<'a> {
    /// Reads the operands of a step with `N` numbers, which come in f64; where `maximize` is set the gradient is
    /// negated.
    fn read<const N: usize>(
        b: &mut Builder<'_>,
        operands: &'a [ValueId],
        maximize: &Attr,
        single: usize,
    ) -> Result<(Self, [Var; N])> {
        let count = operands.len() - N - 1;
        let p = widen(b, operands[0])?;
        let compute = b.dtype(p);
        let mut g = b.cast(operands[1], compute)?;
        if maximize.bool() {
            g = b.neg(g)?;
        }
        let like = count - single.min(count - 2);
        let state = (2..count)
            .map(|i| Ok(Var(b.cast(operands[i], if i < like { compute } else { DType::F64 })?)))
            .collect::<Result<_>>()?;
        let t = Var(b.cast(operands[count], DType::F64)?);
        let mut numbers = [t; N];
        for (number, &operand) in numbers.iter_mut().zip(&operands[count + 1..]) {
            *number = Var(b.cast(operand, DType::F64)?);
        }
        Ok((Self { operands, compute, p: Var(p), g: Var(g), state, t }, numbers))
    }
    /// A number in compute precision.
    fn round(&self, b: &mut Builder<'_>, number: impl Into<Formula>) -> Result<Var> {
        let number = emit(b, number)?;
        Ok(Var(b.cast(number.0, self.compute)?))
    }
    /// The new parameter and state, each in the dtype of the old one.
    fn finish(&self, b: &mut Builder<'_>, new: &[Var]) -> Result<Outs> {
        let old = std::iter::once(self.operands[0]).chain(self.operands[2..].iter().copied());
        old.zip(new).map(|(old, new)| b.cast(new.0, b.dtype(old))).collect()
    }
    /// Weight decay: `p · (1 - lr · wd)` where it is decoupled, else `wd · p` more in the gradient.
    fn decay(&mut self, b: &mut Builder<'_>, lr: Var, weight_decay: Var, decoupled: bool) -> Result<()> {
        if decoupled {
            let keep = self.round(b, 1.0 - lr * weight_decay)?;
            self.p = emit(b, self.p * keep)?;
        } else {
            let weight_decay = self.round(b, weight_decay)?;
            self.g = emit(b, self.g + self.p * weight_decay)?;
        }
        Ok(())
    }
}

/// One of a step's flags.
fn flag(attrs: &[Attr], i: usize) -> Attr {
    attrs.get(i).cloned().unwrap_or(Attr::Bool(false))
}

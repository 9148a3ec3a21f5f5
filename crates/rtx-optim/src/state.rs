//! What an optimizer remembers of each parameter: moments and a step count, all on the device (contract A7).
use crate::Group;
use rtx_core::{DType, Error, Kind, Result};
use rtx_nn::{Param, StateDict};
use rtx_tensor::{Tensor, from_bytes, from_slice, no_grad};

/// One thing kept of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    /// PyTorch's name.
    pub name: &'static str,
    /// The parameter's shape where it is left out.
    pub shape: Option<Vec<usize>>,
    /// What it holds before the first step.
    pub first: f64,
    /// A number of the whole parameter, f64 whatever the parameter is.
    pub is_number: bool,
}
impl Moment {
    pub fn zeros(name: &'static str) -> Option<Self> {
        Self::filled(name, 0.0)
    }
    pub fn filled(name: &'static str, first: f64) -> Option<Self> {
        Some(Self { name, shape: None, first, is_number: false })
    }
    pub fn shaped(name: &'static str, shape: Vec<usize>) -> Option<Self> {
        Some(Self { name, shape: Some(shape), first: 0.0, is_number: false })
    }
    pub fn number(name: &'static str, first: f64) -> Option<Self> {
        Some(Self { name, shape: Some(Vec::new()), first, is_number: true })
    }
    fn dtype(&self, param: &Param) -> DType {
        if self.is_number { DType::F64 } else { param.dtype() }
    }
    fn shape(&self, param: &Param) -> Vec<usize> {
        self.shape.clone().unwrap_or_else(|| param.shape())
    }
    /// Made on the host and ready at once: the first step is then the same plan as all later ones.
    fn make(&self, param: &Param) -> Result<Tensor> {
        let (dtype, shape) = (self.dtype(param), self.shape(param));
        let count: usize = shape.iter().product();
        if self.first == 0.0 {
            return from_bytes(dtype, shape, &vec![0; count * dtype.size()]);
        }
        let bits = u128::from(rtx_core::Scalar::Float(self.first).to_bits(dtype));
        from_bytes(dtype, shape, &bits.to_le_bytes()[..dtype.size()].repeat(count))
    }
}

/// State of all parameters of an optimizer, by their position over all groups.
#[derive(Debug)]
pub(crate) struct State {
    optimizer: &'static str,
    /// `None` until the parameter has had a gradient.
    slots: Vec<Option<Slot>>,
    /// Step counts, `i64 []`. Parameters that always step together share one.
    clocks: Vec<Tensor>,
}

#[derive(Debug)]
struct Slot {
    names: Vec<&'static str>,
    /// In the order of the step's signature; `None` for what is not kept.
    moments: Vec<Option<Tensor>>,
    clock: usize,
}
impl Slot {
    fn named(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        self.names.iter().copied().zip(self.moments.iter().flatten())
    }
}

/// What one parameter's update reads and replaces.
pub(crate) struct Update<'a> {
    /// Position of its group.
    pub group: usize,
    pub param: &'a Param,
    pub grad: Tensor,
    pub moments: &'a [Option<Tensor>],
    /// The number of this step, from 1.
    pub step: &'a Tensor,
}

/// All parameters with the position of their group.
fn params(groups: &[Group]) -> impl Iterator<Item = (usize, &Param)> {
    groups.iter().enumerate().flat_map(|(i, g)| g.params.iter().map(move |p| (i, p)))
}

impl State {
    pub fn new(optimizer: &'static str, count: usize) -> Self {
        Self { optimizer, slots: (0..count).map(|_| None).collect(), clocks: Vec::new() }
    }

    /// Counts the step, unless it is skipped, and calls `update` for each parameter that has a gradient. Nothing of it is on the tape.
    pub fn step(
        &mut self,
        groups: &[Group],
        skip: Option<&Tensor>,
        moments: impl Fn(usize, &[usize]) -> Vec<Option<Moment>>,
        mut update: impl FnMut(Update<'_>) -> Result<()>,
    ) -> Result<()> {
        no_grad(|| {
            let grads: Vec<Option<Tensor>> = params(groups).map(|(_, p)| p.grad()).collect();
            self.give_birth(groups, &grads, moments)?;
            self.tick(&grads, skip);
            for (((group, param), grad), slot) in params(groups).zip(grads).zip(&self.slots) {
                let (Some(grad), Some(slot)) = (grad, slot) else { continue };
                let step = &self.clocks[slot.clock];
                update(Update { group, param, grad, moments: &slot.moments, step })?;
            }
            Ok(())
        })
    }

    /// Gives parameters that have their first gradient a state.
    fn give_birth(
        &mut self,
        groups: &[Group],
        grads: &[Option<Tensor>],
        moments: impl Fn(usize, &[usize]) -> Vec<Option<Moment>>,
    ) -> Result<()> {
        let first = self.clocks.len();
        let born = |slot: &Option<Slot>, grad: &Option<Tensor>| slot.is_none() && grad.is_some();
        let all = self.slots.iter_mut().zip(params(groups)).zip(grads);
        for ((slot, (group, param)), _) in all.filter(|((s, _), g)| born(s, g)) {
            let kept = moments(group, &param.shape());
            let names = kept.iter().flatten().map(|m| m.name).collect();
            let moments = kept.iter().map(|m| m.as_ref().map(|m| m.make(param)).transpose());
            *slot = Some(Slot { names, moments: moments.collect::<Result<_>>()?, clock: first });
        }
        if self.slots.iter().flatten().any(|slot| slot.clock == first) {
            self.clocks.push(count(0));
        }
        Ok(())
    }

    /// Adds 1 to the step counts of parameters that have a gradient. Where only a part of those who share a count has
    /// one, the others go on with a count of their own.
    fn tick(&mut self, grads: &[Option<Tensor>], skip: Option<&Tensor>) {
        for clock in 0..self.clocks.len() {
            let shares = |slot: &&mut Option<Slot>| slot.as_ref().is_some_and(|s| s.clock == clock);
            let members = self.slots.iter_mut().zip(grads).filter(|(slot, _)| shares(slot));
            let (step, rest): (Vec<_>, Vec<_>) = members.partition(|(_, grad)| grad.is_some());
            if step.is_empty() {
                continue;
            }
            let stays = (!rest.is_empty()).then(|| self.clocks[clock].clone());
            let new = self.clocks.len();
            rest.into_iter().filter_map(|(slot, _)| slot.as_mut()).for_each(|slot| slot.clock = new);
            match skip {
                None => self.clocks[clock].add_(1),
                Some(skip) => self.clocks[clock].add_(skip.logical_not()),
            };
            self.clocks.extend(stays);
        }
    }

    /// `exp_avg.3` and `step.3` belong to the fourth parameter.
    pub fn state_dict(&self) -> StateDict {
        let mut all = StateDict::new();
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            all.extend(slot.named().map(|(name, tensor)| (format!("{name}.{i}"), tensor.alias())));
            all.insert(format!("step.{i}"), self.clocks[slot.clock].alias());
        }
        all
    }

    /// The state that `from` describes.
    pub fn loaded(
        &self,
        groups: &[Group],
        moments: impl Fn(usize, &[usize]) -> Vec<Option<Moment>>,
        from: &StateDict,
    ) -> Result<Self> {
        let mut loaded = Self::new(self.optimizer, self.slots.len());
        let mut counts: Vec<i64> = Vec::new();
        let mut known = Vec::new();
        for (i, (group, param)) in params(groups).enumerate() {
            let Some(step) = from.get(&format!("step.{i}")) else { continue };
            let steps: i64 = step.to(DType::I64).item()?;
            let clock = counts.iter().position(|&c| c == steps).unwrap_or_else(|| {
                counts.push(steps);
                counts.len() - 1
            });
            let kept = moments(group, &param.shape());
            let take = |m: &Moment| self.moment(from, &format!("{}.{i}", m.name), m, param);
            let moments = kept.iter().map(|m| m.as_ref().map(take).transpose()).collect::<Result<_>>()?;
            let names: Vec<_> = kept.iter().flatten().map(|m| m.name).collect();
            known.extend(names.iter().chain(&["step"]).map(|name| format!("{name}.{i}")));
            loaded.slots[i] = Some(Slot { names, moments, clock });
        }
        if let Some(name) = from.keys().find(|name| !known.contains(name)) {
            return Err(self.differs(&format!("unexpected {name}")));
        }
        loaded.clocks = counts.into_iter().map(count).collect();
        Ok(loaded)
    }

    fn moment(&self, from: &StateDict, name: &str, moment: &Moment, param: &Param) -> Result<Tensor> {
        let tensor = from.get(name).ok_or_else(|| self.differs(&format!("{name} is missing")))?;
        let shape = moment.shape(param);
        if tensor.shape() != shape {
            let what = format!("{name}: parameter {shape:?}, file {:?}", tensor.shape());
            return Err(self.differs(&what));
        }
        Ok(tensor.to(moment.dtype(param)).clone())
    }

    fn differs(&self, what: &str) -> Error {
        Error::new(Kind::Format, format!("{}: state and parameters differ: {what}", self.optimizer))
    }
}

fn count(steps: i64) -> Tensor {
    from_slice(&[steps], ())
}

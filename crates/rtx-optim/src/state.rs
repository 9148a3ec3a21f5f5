//! What an optimizer remembers of each parameter: moments and a step count, all on the device (contract A7).
use crate::Group;
use rtx_core::{Error, Kind, Result};
use rtx_nn::{Param, StateDict};
use rtx_tensor::{Tensor, from_bytes, from_slice, no_grad};

/// State of all parameters of an optimizer, by their position over all groups.
#[derive(Debug)]
pub(crate) struct State {
    optimizer: &'static str,
    /// PyTorch's names of the moments.
    moments: &'static [&'static str],
    /// `None` until the parameter has had a gradient.
    slots: Vec<Option<Slot>>,
    /// Step counts, `i64 []`. Parameters that always step together share one.
    clocks: Vec<Tensor>,
}

#[derive(Debug)]
struct Slot {
    moments: Vec<Tensor>,
    clock: usize,
}

/// What one parameter's update reads and replaces.
pub(crate) struct Update<'a> {
    /// Position of its group.
    pub group: usize,
    pub param: &'a Param,
    pub grad: Tensor,
    pub moments: &'a [Tensor],
    /// The number of this step, from 1.
    pub step: &'a Tensor,
}

impl State {
    pub fn new(optimizer: &'static str, moments: &'static [&'static str], groups: &[Group]) -> Self {
        let count = groups.iter().map(|g| g.params.len()).sum();
        Self { optimizer, moments, slots: (0..count).map(|_| None).collect(), clocks: Vec::new() }
    }

    /// Counts the step and calls `update` for each parameter that has a gradient. Nothing of it is on the tape.
    pub fn step(&mut self, groups: &[Group], mut update: impl FnMut(Update<'_>) -> Result<()>) -> Result<()> {
        no_grad(|| {
            let params = || groups.iter().enumerate().flat_map(|(i, g)| g.params.iter().map(move |p| (i, p)));
            let grads: Vec<Option<Tensor>> = params().map(|(_, p)| p.grad()).collect();
            self.give_birth(&params().map(|(_, p)| p).collect::<Vec<_>>(), &grads)?;
            self.tick(&grads);
            for (((group, param), grad), slot) in params().zip(grads).zip(&self.slots) {
                let (Some(grad), Some(slot)) = (grad, slot) else { continue };
                let step = &self.clocks[slot.clock];
                update(Update { group, param, grad, moments: &slot.moments, step })?;
            }
            Ok(())
        })
    }

    /// Gives parameters that have their first gradient a state.
    fn give_birth(&mut self, params: &[&Param], grads: &[Option<Tensor>]) -> Result<()> {
        let first = self.clocks.len();
        let born = |slot: &Option<Slot>, grad: &Option<Tensor>| slot.is_none() && grad.is_some();
        for ((slot, param), _) in self.slots.iter_mut().zip(params).zip(grads).filter(|((s, _), g)| born(s, g)) {
            let moments = self.moments.iter().map(|_| zeros_like(param)).collect::<Result<_>>()?;
            *slot = Some(Slot { moments, clock: first });
        }
        if self.slots.iter().flatten().any(|slot| slot.clock == first) {
            self.clocks.push(count(0));
        }
        Ok(())
    }

    /// Adds 1 to the step counts of parameters that have a gradient. Where only a part of those who share a count has
    /// one, the others go on with a count of their own.
    fn tick(&mut self, grads: &[Option<Tensor>]) {
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
            self.clocks[clock].add_(1);
            self.clocks.extend(stays);
        }
    }

    /// `exp_avg.3` and `step.3` belong to the fourth parameter.
    pub fn state_dict(&self) -> StateDict {
        let mut all = StateDict::new();
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let named = self.moments.iter().zip(&slot.moments);
            all.extend(named.map(|(name, tensor)| (format!("{name}.{i}"), tensor.alias())));
            all.insert(format!("step.{i}"), self.clocks[slot.clock].alias());
        }
        all
    }

    pub fn load_state_dict(&mut self, groups: &[Group], from: &StateDict) -> Result<()> {
        let params: Vec<&Param> = groups.iter().flat_map(|g| &g.params).collect();
        let mut loaded = Self::new(self.optimizer, self.moments, groups);
        let mut counts: Vec<i64> = Vec::new();
        let mut taken = 0;
        for (i, param) in params.iter().enumerate() {
            let Some(step) = from.get(&format!("step.{i}")) else { continue };
            let steps: i64 = step.item()?;
            let clock = counts.iter().position(|&c| c == steps).unwrap_or_else(|| {
                counts.push(steps);
                counts.len() - 1
            });
            let moments = self.moments.iter().map(|name| self.moment(from, &format!("{name}.{i}"), param));
            loaded.slots[i] = Some(Slot { moments: moments.collect::<Result<_>>()?, clock });
            taken += 1 + self.moments.len();
        }
        if taken != from.len() {
            let known = loaded.state_dict_names();
            let name = from.keys().find(|name| !known.contains(*name)).cloned().unwrap_or_default();
            return Err(self.differs(&format!("unexpected {name}")));
        }
        loaded.clocks = counts.into_iter().map(count).collect();
        *self = loaded;
        Ok(())
    }

    fn moment(&self, from: &StateDict, name: &str, param: &Param) -> Result<Tensor> {
        let tensor = from.get(name).ok_or_else(|| self.differs(&format!("{name} is missing")))?;
        if tensor.shape() != param.shape() {
            let what = format!("{name}: parameter {:?}, file {:?}", param.shape(), tensor.shape());
            return Err(self.differs(&what));
        }
        Ok(tensor.to(param.dtype()).clone())
    }

    fn state_dict_names(&self) -> Vec<String> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        slots.flat_map(|(i, _)| self.moments.iter().chain(&["step"]).map(move |name| format!("{name}.{i}"))).collect()
    }

    fn differs(&self, what: &str) -> Error {
        Error::new(Kind::Format, format!("{}: state and parameters differ: {what}", self.optimizer))
    }
}

// State is made on the host and ready at once: the first step is then the same plan as all later ones.

fn zeros_like(param: &Param) -> Result<Tensor> {
    from_bytes(param.dtype(), param.shape(), &vec![0; param.numel() * param.dtype().size()])
}

fn count(steps: i64) -> Tensor {
    from_slice(&[steps], ())
}

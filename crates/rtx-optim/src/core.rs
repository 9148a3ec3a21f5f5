//! What all optimizers share: settings, groups, state, and the call of the op that is their step.
use crate::{
    Group, group,
    numbers::Numbers,
    state::{Moment, State, Update},
};
use rtx_core::{Result, Scalar};
use rtx_ir::OpDef;
use rtx_nn::{Param, StateDict};
use rtx_tensor::{Argument, Tensor, call, call_definition, end_step};

/// An optimizer as data.
#[derive(Debug)]
pub(crate) struct Spec {
    pub name: &'static str,
    /// The op that is its step.
    pub op: &'static OpDef,
    /// Settings that are numbers, with their defaults, in the order of the op's signature.
    pub numbers: &'static [(&'static str, f64)],
    /// Settings that only say what state starts from, with their defaults.
    pub starts: &'static [(&'static str, f64)],
    /// Settings that change what is computed and are told to the op, in the order of its signature.
    pub flags: &'static [&'static str],
    /// Settings that change what is kept.
    pub options: &'static [&'static str],
    /// What is kept of a parameter of this shape, in the order of the op's signature.
    pub moments: fn(&Settings<'_>, &[usize]) -> Vec<Option<Moment>>,
}

/// What a group's parameters are updated with.
pub(crate) struct Settings<'a> {
    core: &'a Core,
    group: usize,
}
impl Settings<'_> {
    pub fn number(&self, name: &str) -> f64 {
        self.core.groups[self.group].own(name).unwrap_or_else(|| self.core.shared(name))
    }
    pub fn flag(&self, name: &str) -> bool {
        self.core.flags.iter().any(|(n, on)| *n == name && *on)
    }
}

impl Spec {
    /// All settings that are numbers.
    fn known(&self) -> impl Iterator<Item = &'static (&'static str, f64)> {
        self.numbers.iter().chain(self.starts)
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    spec: &'static Spec,
    groups: Vec<Group>,
    /// Values of all known settings.
    numbers: Vec<f64>,
    /// The flags, then the options.
    flags: Vec<(&'static str, bool)>,
    /// What the op takes between numbers and flags.
    words: Vec<Argument>,
    state: State,
}

impl Core {
    /// # Panics
    /// When a group has a setting that the optimizer does not know.
    #[track_caller]
    pub fn new(spec: &'static Spec, groups: impl IntoIterator<Item = Group>) -> Self {
        let groups: Vec<Group> = groups.into_iter().collect();
        for (name, _) in groups.iter().flat_map(|g| &g.own) {
            assert!(spec.known().any(|(n, _)| n == name), "{}: it has no setting `{name}`", spec.name);
        }
        let state = State::new(spec.name, groups.iter().map(|g| g.params.len()).sum());
        let numbers = spec.known().map(|(_, default)| *default).collect();
        let flags = spec.flags.iter().chain(spec.options).map(|name| (*name, false)).collect();
        Self { spec, groups, numbers, flags, words: Vec::new(), state }
    }
    pub fn set(&mut self, name: &str, value: f64) {
        for (_, number) in self.spec.known().zip(&mut self.numbers).filter(|((n, _), _)| *n == name) {
            *number = value;
        }
    }
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.set(name, value);
        self
    }
    pub fn with_flag(mut self, name: &str, on: bool) -> Self {
        self.flags.iter_mut().filter(|(n, _)| *n == name).for_each(|(_, flag)| *flag = on);
        self
    }
    pub fn with_word(mut self, place: usize, word: Argument) -> Self {
        self.words.resize(self.words.len().max(place + 1), Argument::None);
        self.words[place] = word;
        self
    }
    pub fn shared(&self, name: &str) -> f64 {
        let at = self.spec.known().position(|(n, _)| *n == name);
        at.map_or(0.0, |i| self.numbers[i])
    }
    pub fn has(&self, name: &str) -> bool {
        self.spec.known().any(|(n, _)| *n == name)
    }
    #[track_caller]
    pub fn set_group_lr(&mut self, group: usize, lr: f64) {
        let count = self.groups.len();
        let found = self.groups.get_mut(group);
        assert!(found.is_some(), "set_group_lr: group {group} of {count}");
        found.into_iter().for_each(|g| g.set("lr", lr));
    }
    pub fn set_momentum(&mut self, momentum: f64) {
        let name = ["momentum", "beta1"].into_iter().find(|name| self.has(name));
        name.into_iter().for_each(|name| self.set(name, momentum));
    }

    /// A step; where `skip` (bool, rank 0) is true, nothing changes.
    pub fn step(&mut self, skip: Option<&Tensor>) -> Result<()> {
        let mut state = std::mem::replace(&mut self.state, State::new(self.spec.name, 0));
        let done = self.update(&mut state, skip);
        self.state = state;
        done?;
        end_step()
    }
    fn update(&self, state: &mut State, skip: Option<&Tensor>) -> Result<()> {
        let mut numbers = Numbers::default();
        let moments = |group: usize, shape: &[usize]| (self.spec.moments)(&Settings { core: self, group }, shape);
        state.step(&self.groups, skip, moments, |u| self.call(&mut numbers, u, skip))
    }
    pub fn params(&self) -> Vec<Param> {
        self.groups.iter().flat_map(|g| &g.params).map(Param::tie).collect()
    }
    fn call(&self, numbers: &mut Numbers, u: Update<'_>, skip: Option<&Tensor>) -> Result<()> {
        let mut args: Vec<Argument> = vec![(&**u.param).into(), (&u.grad).into()];
        args.extend(u.moments.iter().map(|m| Argument::from(m.as_ref())));
        args.push(u.step.into());
        for (i, (name, _)) in self.spec.numbers.iter().enumerate() {
            let own = self.groups[u.group].own(name);
            let place = (i, own.map(|_| u.group));
            args.push((&numbers.get(place, own.unwrap_or(self.numbers[i]))?).into());
        }
        args.extend(self.words.iter().cloned());
        args.extend(self.flags[..self.spec.flags.len()].iter().map(|(_, on)| Argument::Scalar(Scalar::Bool(*on))));
        // Not by name: binding would read the shared numbers, and each parameter would get its own.
        let new = call_definition(self.spec.op, &args)?;
        let cells = std::iter::once(&**u.param).chain(u.moments.iter().flatten());
        for (cell, value) in cells.zip(&new) {
            match skip {
                None => cell.set_data(value),
                Some(skip) => cell.set_data(&chosen(skip, cell, value)?),
            }
        }
        Ok(())
    }
    pub fn zero_grad(&self) {
        group::zero_grad(&self.groups);
    }
    pub fn state_dict(&self) -> StateDict {
        self.state.state_dict()
    }
    pub fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
        let moments = |group: usize, shape: &[usize]| (self.spec.moments)(&Settings { core: self, group }, shape);
        self.state = self.state.loaded(&self.groups, moments, from)?;
        Ok(())
    }
}

/// `yes` where the condition holds, `no` elsewhere.
pub(crate) fn chosen(condition: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
    let chosen = call("where", &[condition.into(), yes.into(), no.into()], &[])?;
    Ok(chosen.into_iter().next().unwrap_or_else(|| no.alias()))
}

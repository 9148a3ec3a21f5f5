//! The reverse walk: from cotangents of outputs to cotangents of values before them.
use rtx_core::{Error, Kind, Result};
use rtx_ir::{Body, Builder, Grad, GradCx, Grads, Node, Op, ValueId};
use smallvec::{SmallVec, smallvec};

/// Cotangents of a node's operands, given those of its outputs: by the op's own rule, or by differentiating its
/// body. The op may have been recorded anywhere; only the values are of the builder's graph. Values that the op
/// does not save may be ghosts. Operands that are no floats, and nodes into which nothing flows, get `None`.
///
/// # Errors
/// [`Kind::Autograd`], `NAME: has no gradient`, when a float operand wants a cotangent from an op without one;
/// whatever the rule refuses.
pub fn node_gradient(
    b: &mut Builder<'_>,
    op: &Op,
    inputs: &[ValueId],
    outputs: &[ValueId],
    cotangents: &[Option<ValueId>],
    wants: &[bool],
) -> Result<Grads> {
    let wants: SmallVec<[bool; 4]> = inputs.iter().zip(wants).map(|(&v, &w)| w && has_gradient(b, v)).collect();
    let none = || smallvec![None; inputs.len()];
    let Some(def) = op.def() else { return Ok(none()) };
    if cotangents.iter().all(Option::is_none) || !wants.contains(&true) {
        return Ok(none());
    }
    let grads = match (&def.grad, &def.body) {
        (Grad::Rule(rule), _) => rule(b, &GradCx { op, inputs, outputs, cotangents, wants: &wants })?,
        (Grad::FromBody, Body::Composite(body)) => {
            let from = b.graph().nodes().len();
            let outs = body(b, op.attrs(), inputs)?;
            let seeds = outs.iter().copied().zip(cotangents.iter().copied());
            let wrt: SmallVec<[ValueId; 4]> = inputs.iter().zip(&wants).filter(|w| *w.1).map(|w| *w.0).collect();
            let mut walk = Walk::new(b, from, &wrt);
            walk.seed(b, seeds)?;
            walk.run(b)?;
            share_out(inputs, &wants, &walk)
        }
        (Grad::None, _) | (Grad::FromBody, Body::Primitive) => {
            return Err(Error::new(Kind::Autograd, format!("{}: has no gradient", op.name())));
        }
    };
    if grads.len() != inputs.len() {
        let what = format!("{}: {} cotangents for {} operands", op.name(), grads.len(), inputs.len());
        return Err(Error::new(Kind::Internal, what));
    }
    Ok(grads)
}

/// What the walk found for each operand. A value that is an operand twice has one cotangent, the sum over both
/// places: the first place gets it.
fn share_out(inputs: &[ValueId], wants: &[bool], walk: &Walk) -> Grads {
    let first = |i: usize| !inputs[..i].contains(&inputs[i]);
    (0..inputs.len()).map(|i| if wants[i] && first(i) { walk.get(inputs[i]) } else { None }).collect()
}

/// Cotangents of `wrt`, given those of `outputs`, over the nodes of the builder's graph; `None` for values on which
/// no output depends. Walks nodes in their order, so depth costs no stack (contract A3).
///
/// # Errors
/// [`Kind::Autograd`] for an output that is no float, or an op on the way without a gradient; [`Kind::Shape`] for a
/// cotangent whose type differs from its output's.
pub fn gradient(
    b: &mut Builder<'_>,
    outputs: &[ValueId],
    cotangents: &[ValueId],
    wrt: &[ValueId],
) -> Result<Vec<Option<ValueId>>> {
    for (i, (&y, &g)) in outputs.iter().zip(cotangents).enumerate() {
        if !has_gradient(b, y) {
            let what = format!("gradient: output {i} is {}, only floats have gradients", b.ty(y));
            return Err(Error::new(Kind::Autograd, what));
        }
        if b.ty(y) != b.ty(g) {
            let what = format!("gradient: output {i} is {}, its cotangent {}", b.ty(y), b.ty(g));
            return Err(Error::new(Kind::Shape, what));
        }
    }
    let mut walk = Walk::new(b, 0, wrt);
    walk.seed(b, outputs.iter().copied().zip(cotangents.iter().copied().map(Some)))?;
    walk.run(b)?;
    Ok(wrt.iter().map(|&v| walk.get(v)).collect())
}

fn has_gradient(b: &Builder<'_>, v: ValueId) -> bool {
    b.dtype(v).is_differentiable()
}

/// A walk over the nodes from `from` up to where the graph ended when the walk began.
struct Walk {
    from: usize,
    to: usize,
    /// The first value made within.
    base: usize,
    /// For each value made within: does a cotangent of it lead to one that is asked for?
    needed: Vec<bool>,
    /// For each value made within, its cotangent so far.
    within: Vec<Option<ValueId>>,
    /// The values asked for that were made before, and their cotangents so far.
    before: SmallVec<[(ValueId, Option<ValueId>); 4]>,
}

impl Walk {
    fn new(b: &Builder<'_>, from: usize, wrt: &[ValueId]) -> Self {
        let graph = b.graph();
        let base = graph.nodes().get(from).map_or(graph.value_count(), |n| n.first.index());
        let count = graph.value_count() - base;
        let mut walk = Walk {
            from,
            to: graph.nodes().len(),
            base,
            needed: vec![false; count],
            within: vec![None; count],
            before: SmallVec::new(),
        };
        for &v in wrt {
            match v.index().checked_sub(base) {
                Some(i) => walk.needed[i] = true,
                None if walk.before.iter().all(|(w, _)| *w != v) => walk.before.push((v, None)),
                None => {}
            }
        }
        for node in &graph.nodes()[from..] {
            let leads = node.inputs.iter().any(|&v| walk.is_needed(v));
            node.outs().filter(|&v| leads && has_gradient(b, v)).for_each(|v| walk.needed[v.index() - base] = true);
        }
        walk
    }

    fn is_needed(&self, v: ValueId) -> bool {
        match v.index().checked_sub(self.base) {
            // Values that rules make are appended past the end; nothing within reads them.
            Some(i) => self.needed.get(i).copied().unwrap_or(false),
            None => self.before.iter().any(|(w, _)| *w == v),
        }
    }

    fn get(&self, v: ValueId) -> Option<ValueId> {
        match v.index().checked_sub(self.base) {
            Some(i) => self.within[i],
            None => self.before.iter().find(|(w, _)| *w == v).and_then(|(_, g)| *g),
        }
    }

    /// Adds to the cotangent of a value that is needed.
    fn add(&mut self, b: &mut Builder<'_>, v: ValueId, g: ValueId) -> Result<()> {
        let slot = match v.index().checked_sub(self.base) {
            Some(i) => &mut self.within[i],
            None => match self.before.iter_mut().find(|(w, _)| *w == v) {
                Some((_, slot)) => slot,
                None => return Ok(()),
            },
        };
        *slot = Some(match *slot {
            Some(sum) => b.add_cotangents(sum, g)?,
            None => g,
        });
        Ok(())
    }

    fn seed(&mut self, b: &mut Builder<'_>, seeds: impl Iterator<Item = (ValueId, Option<ValueId>)>) -> Result<()> {
        for (v, g) in seeds {
            if let Some(g) = g.filter(|_| self.is_needed(v)) {
                self.add(b, v, g)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, b: &mut Builder<'_>) -> Result<()> {
        for at in (self.from..self.to).rev() {
            let node = &b.graph().nodes()[at];
            if node.outs().any(|v| self.get(v).is_some()) && node.inputs.iter().any(|&v| self.is_needed(v)) {
                let node = node.clone();
                self.step(&mut b.at(node.location), &node)?;
            }
        }
        Ok(())
    }

    /// One node: from the cotangents of its outputs to those of its operands.
    fn step(&mut self, b: &mut Builder<'_>, node: &Node) -> Result<()> {
        let outputs: SmallVec<[ValueId; 2]> = node.outs().collect();
        let cotangents: SmallVec<[Option<ValueId>; 2]> = outputs.iter().map(|&v| self.get(v)).collect();
        let wants: SmallVec<[bool; 4]> = node.inputs.iter().map(|&v| self.is_needed(v)).collect();
        let grads = node_gradient(b, &node.op, &node.inputs, &outputs, &cotangents, &wants)?;
        for (&v, g) in node.inputs.iter().zip(grads) {
            if let Some(g) = g {
                self.add(b, v, g)?;
            }
        }
        Ok(())
    }
}

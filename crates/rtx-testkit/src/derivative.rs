//! Gradients against central differences of the oracle.
use crate::Random;
use rtx_core::{Location, Result};
use rtx_ir::oracle::{self, Tensor, Value};
use rtx_ir::{Builder, Graph, ValueId, verify};

/// A function of tensors: records its results.
pub type Program<'a> = &'a dyn Fn(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>>;

/// Half the distance over which differences are taken.
const STEP: f64 = 1e-5;
/// How far a slope may be off, beside one of size 1.
const TOLERANCE: f64 = 1e-6;

/// Compares the gradient of `program` in each of its float inputs (f64) with central differences, for random
/// cotangents. An input without a gradient has to have slope zero.
///
/// # Errors
/// The first slope that is off, or whatever recording or running refuses.
pub fn check_derivative(program: Program<'_>, inputs: &[Tensor], random: &mut Random) -> Result<(), String> {
    let run = Run::record(program, inputs, random)?;
    let slopes = run.slopes()?;
    for (k, slopes) in slopes.iter().enumerate().filter(|(k, _)| inputs[*k].ty.dtype.is_float()) {
        for j in 0..inputs[k].elements.len() {
            let mut moved = inputs.to_vec();
            let mut at = |delta: f64| {
                moved[k].elements[j] = Value::Float(inputs[k].elements[j].float() + delta);
                run.weighted(&moved)
            };
            let want = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
            let got = slopes.as_ref().map_or(0.0, |s| s[j]);
            let off = (got - want).abs();
            if off.is_nan() || off > TOLERANCE * (1.0 + want.abs() + got.abs()) {
                return Err(format!("slope in element {j} of input {k}: gradient {got}, differences {want}"));
            }
        }
    }
    Ok(())
}

/// The same for the gradient itself, as a function of inputs and cotangents.
///
/// # Errors
/// As [`check_derivative`].
pub fn check_second_derivative(program: Program<'_>, inputs: &[Tensor], random: &mut Random) -> Result<(), String> {
    let run = Run::record(program, inputs, random)?;
    if run.grads.iter().all(Option::is_none) {
        return Ok(());
    }
    let n = inputs.len();
    let gradient = |b: &mut Builder<'_>, v: &[ValueId]| -> Result<Vec<ValueId>> {
        let outs: Vec<ValueId> = program(b, &v[..n])?.into_iter().filter(|&o| b.dtype(o).is_float()).collect();
        let wrt: Vec<ValueId> = v[..n].iter().copied().filter(|&x| b.dtype(x).is_float()).collect();
        Ok(rtx_autograd::gradient(b, &outs, &v[n..], &wrt)?.into_iter().flatten().collect())
    };
    let all: Vec<Tensor> = inputs.iter().chain(&run.cotangents).cloned().collect();
    check_derivative(&gradient, &all, random)
}

/// A program with its gradient, recorded.
struct Run {
    /// Inputs, then cotangents; the gradient is in it.
    graph: Graph,
    inputs: Vec<Tensor>,
    cotangents: Vec<Tensor>,
    /// For each input.
    grads: Vec<Option<ValueId>>,
    /// The program alone, for differences.
    alone: Graph,
    outs: Vec<ValueId>,
}

impl Run {
    fn record(program: Program<'_>, inputs: &[Tensor], random: &mut Random) -> Result<Run, String> {
        let (alone, _, outs) = record_alone(program, inputs)?;
        let outs: Vec<ValueId> = outs.into_iter().filter(|&v| alone.ty(v).dtype.is_float()).collect();
        let cotangents: Vec<Tensor> = outs.iter().map(|&v| random_like(&alone, v, random)).collect();

        let here = Location::caller();
        let (mut graph, values, _) = record_alone(program, inputs)?;
        let seeds: Vec<ValueId> = cotangents.iter().map(|t| graph.push_input(t.ty.clone(), here)).collect();
        let wrt: Vec<ValueId> = values.iter().copied().filter(|&v| graph.ty(v).dtype.is_float()).collect();
        let found = rtx_autograd::gradient(&mut Builder::new(&mut graph, here), &outs, &seeds, &wrt);
        let mut found = found.map_err(|e| e.to_string())?.into_iter();
        let grads: Vec<Option<ValueId>> =
            values.iter().map(|&v| if graph.ty(v).dtype.is_float() { found.next().flatten() } else { None }).collect();
        verify(&graph).map_err(|e| e.to_string())?;
        for (v, g) in values.iter().zip(&grads) {
            if let Some(g) = g.filter(|g| graph.ty(*g) != graph.ty(*v)) {
                return Err(format!("the gradient of {} is {}", graph.ty(*v), graph.ty(g)));
            }
        }
        Ok(Run { graph, inputs: inputs.to_vec(), cotangents, grads, alone, outs })
    }

    /// The gradient's elements for each input.
    fn slopes(&self) -> Result<Vec<Option<Vec<f64>>>, String> {
        let all: Vec<Tensor> = self.inputs.iter().chain(&self.cotangents).cloned().collect();
        let values = oracle::eval(&self.graph, &all).map_err(|e| e.to_string())?;
        let floats = |v: ValueId| values[v.index()].elements.iter().map(|e| e.float()).collect();
        Ok(self.grads.iter().map(|g| g.map(floats)).collect())
    }

    /// The outputs weighted by the cotangents.
    fn weighted(&self, inputs: &[Tensor]) -> Result<f64, String> {
        let values = oracle::eval(&self.alone, inputs).map_err(|e| e.to_string())?;
        let products = |(v, ct): (&ValueId, &Tensor)| -> f64 {
            values[v.index()].elements.iter().zip(&ct.elements).map(|(y, c)| y.float() * c.float()).sum()
        };
        Ok(self.outs.iter().zip(&self.cotangents).map(products).sum())
    }
}

/// The program in a graph of its own: the graph, its inputs, its outputs.
fn record_alone(program: Program<'_>, inputs: &[Tensor]) -> Result<(Graph, Vec<ValueId>, Vec<ValueId>), String> {
    let mut graph = Graph::new();
    let here = Location::caller();
    let values: Vec<ValueId> = inputs.iter().map(|t| graph.push_input(t.ty.clone(), here)).collect();
    let outs = program(&mut Builder::new(&mut graph, here), &values).map_err(|e| e.to_string())?;
    Ok((graph, values, outs))
}

/// Random elements for a value, of its type.
pub fn random_like(graph: &Graph, v: ValueId, random: &mut Random) -> Tensor {
    let ty = graph.ty(v).clone();
    let elements = (0..ty.shape.numel()).map(|_| Value::Float(random.float(-1.0, 1.0))).collect();
    Tensor::new(ty, elements)
}

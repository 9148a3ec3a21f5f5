//! Laws of the transformations over a table of definitions: batching is stacking, forward mode is the slope and agrees
//! with reverse mode, second derivatives are symmetric.
use crate::laws::{Table, each_sample, replay, tensors};
use crate::{Drawn, Random, draw};
use rtx_autograd::{Batcher, Lane, Randomness, gradient, tangent};
use rtx_core::{Dim, Error, Kind, Location, Result};
use rtx_ir::oracle::{self, Tensor, Value};
use rtx_ir::{Builder, Graph, OpDef, Sample, Signature, Type, ValueId, verify};

/// Examples of a batch.
const EXAMPLES: usize = 3;
/// Results of different trees and orders agree within this, beside a value of size 1, in f64.
const TOLERANCE: f64 = 1e-9;
/// Samples with more elements than this have no matrices made of them.
const LARGEST: usize = 40;

/// Batched calls are stacked single calls: with all tensors batched, and with each one alone.
pub fn batch_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, sample, first| {
        let mut drawn = vec![first];
        for seed in 1..EXAMPLES as u64 {
            drawn.push(draw(def.sig, sample.args, &mut Random::new(100 + seed))?);
        }
        let fixed = fixed_inputs(def, &drawn[0]);
        let free: Vec<usize> = (0..fixed.len()).filter(|&i| !fixed[i]).collect();
        let mut patterns: Vec<Vec<bool>> = vec![fixed.iter().map(|f| !f).collect()];
        if free.len() > 1 {
            patterns.extend(free.iter().map(|&k| (0..fixed.len()).map(|i| i == k).collect()));
        }
        patterns.retain(|p| p.contains(&true));
        patterns.iter().try_for_each(|which| match check_batch(def, &drawn, which) {
            Err(e) if e.kind() == Kind::Unsupported && e.message().ends_with("is not batched by vmap") => Ok(()),
            Err(e) => Err(format!("batched {which:?}: {e}")),
            Ok(()) => Ok(()),
        })
    })
}

/// For each input tensor: does it stay the same for all examples? Seeds and ordinals do.
fn fixed_inputs(def: &OpDef, drawn: &[Drawn]) -> Vec<bool> {
    let names: Vec<&str> =
        Signature::parse(def.sig).map(|s| s.parameters.iter().map(|p| p.name).collect()).unwrap_or_default();
    let each = drawn.iter().enumerate().flat_map(|(i, d)| {
        let is_fixed = matches!(names.get(i), Some(&"key" | &"ordinal" | &"random_key" | &"random_ordinal"));
        std::iter::repeat_n(is_fixed, d.tensors().len())
    });
    each.collect()
}

fn check_batch(def: &'static OpDef, drawn: &[Vec<Drawn>], which: &[bool]) -> Result<()> {
    let here = Location::caller();
    let examples: Vec<Vec<Tensor>> = drawn.iter().map(|d| tensors(d)).collect();
    let (alone, ids, outs) = record_program(&drawn[0], |b, v| replay(b, def, &drawn[0], v))?;
    let mut graph = Graph::new();
    let mut given = Vec::new();
    let mut batcher = Batcher::new(&alone, Dim::from(EXAMPLES), Randomness::Same);
    for (i, &id) in ids.iter().enumerate() {
        let column: Vec<&Tensor> = examples.iter().map(|e| &e[i]).collect();
        let t = if which[i] { stack(&column) } else { column[0].clone() };
        let v = graph.push_input(t.ty.clone(), here);
        given.push(t);
        batcher.give(id, Lane { value: v, is_batched: which[i] });
    }
    let lanes = batcher.run(&mut Builder::new(&mut graph, here), &outs)?;
    verify(&graph)?;
    let together = oracle::eval(&graph, &given)?;
    for k in 0..EXAMPLES {
        let own: Vec<Tensor> = (0..ids.len()).map(|i| examples[if which[i] { k } else { 0 }][i].clone()).collect();
        let want = oracle::eval(&alone, &own)?;
        for (lane, out) in lanes.iter().zip(&outs) {
            let got = &together[lane.value.index()];
            let got = if lane.is_batched { row(got, k) } else { got.clone() };
            crate::compare(&got, &want[out.index()], 8).map_err(|e| fault(format!("example {k}: {e}")))?;
        }
    }
    Ok(())
}

/// Forward mode is the slope of central differences along the tangents, and weighs as reverse mode does:
/// `⟨u, J t⟩ = ⟨Jᵀ u, t⟩`.
pub fn tangent_faults(table: Table<'_>) -> Vec<String> {
    each_float_sample(table, |program, inputs| {
        let mut random = Random::new(5);
        let tangents: Vec<Tensor> = inputs.iter().map(|t| draw_like(&t.ty, &mut random)).collect();
        let (mut graph, ids, outs) = program.record()?;
        let floats = program.floats(&graph, &ids, &outs);
        let here = Location::caller();
        let along: Vec<ValueId> = floats.wrt.iter().map(|&i| graph.push_input(inputs[i].ty.clone(), here)).collect();
        let wrt: Vec<ValueId> = floats.wrt.iter().map(|&i| ids[i]).collect();
        let weights: Vec<Tensor> = floats.outs.iter().map(|&v| draw_like(graph.ty(v), &mut random)).collect();
        let seeds: Vec<ValueId> = floats.outs.iter().map(|&v| graph.push_input(graph.ty(v).clone(), here)).collect();
        let mut b = Builder::new(&mut graph, here);
        let slopes = tangent(&mut b, &floats.outs, &wrt, &along)?;
        let pulled = gradient(&mut b, &floats.outs, &seeds, &wrt)?;
        verify(&graph)?;
        let own = |i: &usize| tangents[*i].clone();
        let all: Vec<Tensor> =
            inputs.iter().cloned().chain(floats.wrt.iter().map(own)).chain(weights.iter().cloned()).collect();
        let values = oracle::eval(&graph, &all)?;
        let weighed = |v: Option<ValueId>, w: &Tensor| v.map_or(0.0, |v| dot(&values[v.index()], w));
        let forward: f64 = slopes.iter().zip(&weights).map(|(s, w)| weighed(*s, w)).sum();
        let reverse: f64 = floats.wrt.iter().zip(&pulled).map(|(&i, g)| weighed(*g, &tangents[i])).sum();
        if far(forward, reverse, TOLERANCE) {
            return Err(fault(format!("forward mode weighs {forward}, reverse mode {reverse}")));
        }
        const STEP: f64 = 1e-5;
        let moved = |by: f64| -> Result<Vec<Tensor>> {
            let mut at = inputs.to_vec();
            for &i in &floats.wrt {
                for (x, t) in at[i].elements.iter_mut().zip(&tangents[i].elements) {
                    *x = Value::Float(x.float() + by * t.float());
                }
            }
            let (alone, _, _) = program.record()?;
            oracle::eval(&alone, &at)
        };
        let (up, down) = (moved(STEP)?, moved(-STEP)?);
        for ((out, slope), k) in floats.outs.iter().zip(&slopes).zip(0..) {
            for (j, (a, b)) in up[out.index()].elements.iter().zip(&down[out.index()].elements).enumerate() {
                let want = (a.float() - b.float()) / (2.0 * STEP);
                let got = slope.map_or(0.0, |s| values[s.index()].elements[j].float());
                if far(got, want, 1e-6) {
                    return Err(fault(format!("element {j} of result {k}: forward mode {got}, differences {want}")));
                }
            }
        }
        Ok(())
    })
}

/// The Jacobian column by column (batched forward mode over a basis) is the Jacobian row by row (batched reverse mode
/// over a basis).
pub fn jacobian_faults(table: Table<'_>) -> Vec<String> {
    each_float_sample(table, |program, inputs| {
        let (graph, ids, outs) = program.record()?;
        let floats = program.floats(&graph, &ids, &outs);
        let (rows, columns) = (floats.size_of_outs(&graph), floats.size_of_wrt(inputs));
        if rows == 0 || columns == 0 || rows.max(columns) > LARGEST {
            return Ok(());
        }
        let wrt = |ids: &[ValueId]| -> Vec<ValueId> { floats.wrt.iter().map(|&i| ids[i]).collect() };
        let outs_of = |b: &Builder<'_>, outs: &[ValueId]| -> Vec<ValueId> {
            outs.iter().copied().filter(|&v| b.dtype(v).is_float()).collect()
        };
        let in_types: Vec<Type> = floats.wrt.iter().map(|&i| inputs[i].ty.clone()).collect();
        let out_types: Vec<Type> = floats.outs.iter().map(|&v| graph.ty(v).clone()).collect();
        let by_column = program.on_basis(inputs, &in_types, |b, ids, outs, along| {
            let outs = outs_of(b, outs);
            tangent(b, &outs, &wrt(ids), along)
        })?;
        let by_row = program.on_basis(inputs, &out_types, |b, ids, outs, seeds| {
            let outs = outs_of(b, outs);
            gradient(b, &outs, seeds, &wrt(ids))
        })?;
        let by_column = matrix(&by_column, &out_types, columns);
        let by_row = matrix(&by_row, &in_types, rows);
        for i in 0..rows {
            for j in 0..columns {
                let (forward, reverse) = (by_column[j][i], by_row[i][j]);
                if far(forward, reverse, TOLERANCE) {
                    return Err(fault(format!("slope [{i}, {j}]: forward mode {forward}, reverse mode {reverse}")));
                }
            }
        }
        Ok(())
    })
}

/// The second derivatives of a weighted sum of the results form a symmetric matrix.
pub fn hessian_faults(table: Table<'_>) -> Vec<String> {
    each_float_sample(table, |program, inputs| {
        let (graph, ids, outs) = program.record()?;
        let floats = program.floats(&graph, &ids, &outs);
        let size = floats.size_of_wrt(inputs);
        if size == 0 || size > LARGEST {
            return Ok(());
        }
        let types: Vec<Type> = floats.wrt.iter().map(|&i| inputs[i].ty.clone()).collect();
        let rows = program.on_basis(inputs, &types, |b, ids, outs, along| {
            let outs: Vec<ValueId> = outs.iter().copied().filter(|&v| b.dtype(v).is_float()).collect();
            // Weights that differ from element to element: 1, 1 / 2, 1 / 3, …
            let mut seeds = Vec::new();
            for &v in &outs {
                let ty = b.ty(v).clone();
                let n = ty.shape.numel();
                let line = rtx_core::Shape::from_iter([n]);
                let at = b.prim(rtx_ir::Prim::Iota { shape: line, axis: 0 }, &[])?;
                let at = b.cast(at, ty.dtype)?;
                let at = b.add(at, 1.0)?;
                let weight = b.div(1.0, at)?;
                seeds.push(b.reshape(weight, &ty.shape)?);
            }
            let wrt: Vec<ValueId> = floats.wrt.iter().map(|&i| ids[i]).collect();
            let first = gradient(b, &outs, &seeds, &wrt)?;
            let (first, along): (Vec<_>, Vec<_>) =
                first.into_iter().zip(along).filter_map(|(g, &t)| Some((g?, t))).unzip();
            gradient(b, &first, &along, &wrt)
        })?;
        let h = matrix(&rows, &types, size);
        for i in 0..size {
            for j in 0..i {
                if far(h[i][j], h[j][i], TOLERANCE) {
                    return Err(fault(format!("[{i}, {j}] is {}, [{j}, {i}] is {}", h[i][j], h[j][i])));
                }
            }
        }
        Ok(())
    })
}

/// A sample's call as a program of its float inputs, in f64.
struct Program<'a> {
    def: &'static OpDef,
    drawn: &'a [Drawn],
}

/// Which inputs and results are floats.
struct Floats {
    wrt: Vec<usize>,
    outs: Vec<ValueId>,
}
impl Floats {
    fn size_of_wrt(&self, inputs: &[Tensor]) -> usize {
        self.wrt.iter().map(|&i| inputs[i].elements.len()).sum()
    }
    fn size_of_outs(&self, graph: &Graph) -> usize {
        self.outs.iter().map(|&v| graph.ty(v).shape.numel()).sum()
    }
}

impl Program<'_> {
    fn record(&self) -> Result<(Graph, Vec<ValueId>, Vec<ValueId>)> {
        record_program(self.drawn, |b, v| replay(b, self.def, self.drawn, v))
    }

    fn floats(&self, graph: &Graph, ids: &[ValueId], outs: &[ValueId]) -> Floats {
        let is_float = |v: ValueId| graph.ty(v).dtype.is_float();
        let wrt = (0..ids.len()).filter(|&i| is_float(ids[i])).collect();
        Floats { wrt, outs: outs.iter().copied().filter(|&v| is_float(v)).collect() }
    }

    /// Runs `f`, batched over the basis of `types` (all of them laid end to end), and returns what it made: batched
    /// tensors, or nothing where there is no dependence.
    #[allow(clippy::type_complexity, reason = "one closure, named by its arguments")]
    fn on_basis(
        &self,
        inputs: &[Tensor],
        types: &[Type],
        f: impl Fn(&mut Builder<'_>, &[ValueId], &[ValueId], &[ValueId]) -> Result<Vec<Option<ValueId>>>,
    ) -> Result<Vec<Option<Tensor>>> {
        let here = Location::caller();
        let (mut alone, ids, outs) = self.record()?;
        let along: Vec<ValueId> = types.iter().map(|ty| alone.push_input(ty.clone(), here)).collect();
        let made = f(&mut Builder::new(&mut alone, here), &ids, &outs, &along)?;
        let count: usize = types.iter().map(|t| t.shape.numel()).sum();
        let mut graph = Graph::new();
        let mut batcher = Batcher::new(&alone, Dim::from(count), Randomness::Same);
        let mut given = inputs.to_vec();
        for (&id, t) in ids.iter().zip(inputs) {
            batcher.give(id, Lane::shared(graph.push_input(t.ty.clone(), here)));
        }
        let mut first = 0;
        for (&id, ty) in along.iter().zip(types) {
            let t = basis(ty, first, count);
            first += ty.shape.numel();
            batcher.give(id, Lane::batched(graph.push_input(t.ty.clone(), here)));
            given.push(t);
        }
        let wanted: Vec<ValueId> = made.iter().flatten().copied().collect();
        let lanes = batcher.run(&mut Builder::new(&mut graph, here), &wanted)?;
        verify(&graph)?;
        let values = oracle::eval(&graph, &given)?;
        let mut lanes = lanes.into_iter();
        Ok(made
            .iter()
            .map(|m| {
                let lane = m.and_then(|_| lanes.next())?;
                let t = values[lane.value.index()].clone();
                Some(if lane.is_batched { t } else { stack(&vec![&t; count]) })
            })
            .collect())
    }
}

/// For each example the elements of all tensors, end to end; a missing one is zero.
fn matrix(parts: &[Option<Tensor>], types: &[Type], examples: usize) -> Vec<Vec<f64>> {
    let mut out = vec![Vec::new(); examples];
    for (part, ty) in parts.iter().zip(types) {
        let n = ty.shape.numel();
        for (k, line) in out.iter_mut().enumerate() {
            line.extend((0..n).map(|j| part.as_ref().map_or(0.0, |t| t.elements[k * n + j].float())));
        }
    }
    out
}

/// `count` examples of one type: element `first + j` of the examples' line is 1 in position `j`.
fn basis(ty: &Type, first: usize, count: usize) -> Tensor {
    let n = ty.shape.numel();
    let one = |k: usize, j: usize| Value::Float(if k == first + j { 1.0 } else { 0.0 });
    let elements = (0..count).flat_map(|k| (0..n).map(move |j| one(k, j))).collect();
    let mut shape = ty.shape.clone();
    shape.insert(0, count);
    Tensor::new(Type { dtype: ty.dtype, shape }, elements)
}

fn stack(parts: &[&Tensor]) -> Tensor {
    let mut shape = parts[0].ty.shape.clone();
    shape.insert(0, parts.len());
    let elements = parts.iter().flat_map(|t| t.elements.iter().copied()).collect();
    Tensor::new(Type { dtype: parts[0].ty.dtype, shape }, elements)
}

fn row(t: &Tensor, k: usize) -> Tensor {
    let mut shape = t.ty.shape.clone();
    shape.remove(0);
    let n = shape.numel();
    Tensor::new(Type { dtype: t.ty.dtype, shape }, t.elements[k * n..(k + 1) * n].to_vec())
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    a.elements.iter().zip(&b.elements).map(|(x, y)| x.float() * y.float()).sum()
}

fn far(a: f64, b: f64, tolerance: f64) -> bool {
    let off = (a - b).abs();
    off.is_nan() || off > tolerance * (1.0 + a.abs() + b.abs())
}

fn fault(what: String) -> Error {
    Error::new(Kind::Internal, what)
}

fn draw_like(ty: &Type, random: &mut Random) -> Tensor {
    let elements = (0..ty.shape.numel()).map(|_| Value::Float(random.float(-1.0, 1.0))).collect();
    Tensor::new(ty.clone(), elements)
}

fn record_program(
    drawn: &[Drawn],
    program: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<(Graph, Vec<ValueId>, Vec<ValueId>)> {
    let mut graph = Graph::new();
    let here = Location::caller();
    let ids: Vec<ValueId> = tensors(drawn).iter().map(|t| graph.push_input(t.ty.clone(), here)).collect();
    let outs = program(&mut Builder::new(&mut graph, here), &ids)?;
    Ok((graph, ids, outs))
}

/// The samples whose gradients are checked and that do not sit on kinks, in f64.
fn each_float_sample(table: Table<'_>, law: impl Fn(&Program<'_>, &[Tensor]) -> Result<()>) -> Vec<String> {
    each_sample(table, |def, sample: &Sample, drawn| {
        let own = |d: &Drawn| d.tensors().iter().any(|t| t.ty.dtype.is_float());
        if !sample.grad || sample.args.contains('=') && !is_smooth(sample) || !drawn.iter().any(own) {
            return Ok(());
        }
        let drawn: Vec<Drawn> = drawn.into_iter().map(Drawn::in_f64).collect();
        match law(&Program { def, drawn: &drawn }, &tensors(&drawn)) {
            Err(e) if e.message().ends_with("is not batched by vmap") => Ok(()),
            other => other.map_err(|e| e.to_string()),
        }
    })
}

/// Are only integers given element by element? Given floats sit on kinks.
fn is_smooth(sample: &Sample) -> bool {
    rtx_ir::split_list(sample.args).iter().all(|a| !a.contains('=') || a.starts_with('i') || a.starts_with("bool"))
}

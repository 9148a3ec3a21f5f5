//! Every sample of the table on the device, as it is written and with its floats as each half: whole it gives the bits
//! that it gives node by node, and each node agrees with the oracle within what the sample allows.
mod on_device;

use rtx_core::{DType, Kind, Location};
use rtx_ir::{Builder, Graph, OpDef, Sample, prims};
use rtx_testkit::graphs::RandomGraph;
use rtx_testkit::{Random, draw, record};

/// The call in a graph; `None` where the op does not take that element type.
fn graph_of(def: &'static OpDef, sample: &Sample, floats: Option<DType>) -> Result<Option<RandomGraph>, String> {
    let mut drawn = draw(def.sig, sample.args, &mut Random::new(2))?;
    if let Some(dtype) = floats {
        if !drawn.iter().flat_map(|d| d.tensors()).any(|t| matches!(t.ty.dtype, DType::F32 | DType::F64)) {
            return Ok(None);
        }
        drawn = drawn.into_iter().map(|d| d.with_floats(dtype)).collect();
    }
    let mut graph = Graph::new();
    let (bound, _) = record(&mut graph, &drawn);
    let outs = match Builder::new(&mut graph, Location::caller()).call(def, bound) {
        Ok(outs) => outs,
        // Refused by name: it does not take that type (or a program in its arguments says another one).
        Err(e) if floats.is_some() && e.kind() != Kind::Internal => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let mut outputs = outs.to_vec();
    outputs.sort_unstable();
    outputs.dedup();
    let inputs = drawn.iter().flat_map(|d| d.tensors().iter().cloned()).collect();
    Ok(Some(RandomGraph { graph, inputs, outputs }))
}

/// Said by name: there is no kernel, or none of this precision.
fn is_refusal(e: &str) -> bool {
    e.ends_with("no kernel of cpu takes it") || e.contains(": needs an f32 or f64 tensor, got ")
}

fn faults(table: &[&'static OpDef], floats: Option<DType>) -> Vec<String> {
    let mut faults = Vec::new();
    for def in table {
        for sample in def.samples {
            let done = graph_of(def, sample, floats).and_then(|g| g.map_or(Ok(()), |g| on_device::check(&g)));
            // What has no kernel is refused by name when it runs.
            if let Err(e) = done.or_else(|e| if is_refusal(&e) { Ok(()) } else { Err(e) }) {
                let of = floats.map_or_else(String::new, |d| format!(" in {d}"));
                faults.push(format!("{}({}){of}: {e}", def.name(), sample.args));
            }
        }
    }
    faults
}

#[test]
fn samples_run_on_the_device_in_every_precision() {
    let mut all = Vec::new();
    for floats in [None, Some(DType::BF16), Some(DType::F16)] {
        all.extend(faults(prims::ALL, floats));
        all.extend(faults(rtx_ops::ALL, floats));
    }
    assert!(all.is_empty(), "{} faults\n{}", all.len(), all.join("\n"));
}

//! Every sample of the table on the device, as it is written and with its floats as each half: whole it gives the bits
//! that it gives node by node, and each node agrees with the oracle within what the sample allows.
mod on_device;

use rtx_conformance::on_device::{is_refusal, sample_graph};
use rtx_core::DType;
use rtx_ir::{OpDef, prims};

fn faults(table: &[&'static OpDef], floats: Option<DType>) -> Vec<String> {
    let mut faults = Vec::new();
    for def in table {
        for sample in def.samples {
            let done = sample_graph(def, sample, floats).and_then(|g| g.map_or(Ok(()), |g| on_device::check(&g)));
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

//! Random graphs over every primitive, on the device: run whole they give the bits that they give node by node, and
//! each node agrees with the oracle on the operands that it really had.
mod on_device;

use rtx_testkit::graphs::{Options, random_graph};

/// Graphs in one run of the test; `RTX_GRAPHS=100000` runs more.
fn count() -> u64 {
    std::env::var("RTX_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000)
}

fn check(seed: u64) -> Result<(), String> {
    on_device::check(&random_graph(seed, Options { elements: 9000, steps: 12, backward: true }))
}

#[test]
fn deferred_is_node_by_node_is_the_oracle() {
    let faults: Vec<String> =
        (0..count()).filter_map(|seed| check(seed).err().map(|e| format!("graph {seed}: {e}"))).collect();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

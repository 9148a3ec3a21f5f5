//! Graphs on the CPU: see `rtx_conformance::on_device`.
use rtx_testkit::graphs::RandomGraph;

/// The same bits whole and node by node, and each node agrees with the oracle.
pub fn check(g: &RandomGraph) -> Result<(), String> {
    rtx_conformance::on_device::check(rtx_device::cpu(), g)
}

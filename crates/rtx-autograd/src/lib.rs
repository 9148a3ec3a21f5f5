//! Reverse and forward mode, batching and recomputation over any graph: what they make is ordinary nodes, so they
//! nest. Knows no composite by name.

mod batch;
mod budget;
mod forward;
mod recompute;
mod reverse;

pub use batch::{Batcher, Lane, Randomness};
pub use budget::{Recomputation, Rewritten};
pub use forward::tangent;
pub use recompute::recompute;
pub use reverse::{gradient, node_gradient};

//! Reverse and forward mode over any graph: gradients are ordinary nodes, so gradients of gradients work. Knows no op by name.

mod forward;
mod recompute;
mod reverse;

pub use forward::tangent;
pub use recompute::recompute;
pub use reverse::{gradient, node_gradient};

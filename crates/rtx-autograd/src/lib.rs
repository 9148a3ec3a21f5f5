//! Reverse mode over any graph: gradients are ordinary nodes, so gradients of gradients work. Knows no op by name.

mod recompute;
mod reverse;

pub use recompute::recompute;
pub use reverse::{gradient, node_gradient};

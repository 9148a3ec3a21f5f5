//! What tests of every crate are made of: drawn arguments, tolerances, finite differences, laws over definitions,
//! random graphs. Everything depends on a seed and nothing else.

mod arguments;
mod compare;
mod derivative;
pub mod graphs;
pub mod laws;
mod random;
pub mod transforms;

pub use arguments::{Drawn, draw, record, record_with};
pub use compare::{compare, compare_node, compare_node_as_sum};
pub use derivative::{Program, check_derivative, check_second_derivative, random_like};
pub use random::Random;

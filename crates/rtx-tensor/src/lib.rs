//! Tensors as users hold them: handles to cells, ops as methods, gradients, random numbers.
//!
//! An op on a [`Tensor`] checks its arguments at once, appends nodes to the thread's pending region, and returns;
//! reading a value runs the region. Methods come from the op table (`methods.rs` is generated), so a name, a
//! signature and its documentation are written once, at the definition.
//!
//! Absent here: kernels, compilers, drivers, layers.
//!
//! ```
//! let x = rtx_tensor::ones([2, 3]);
//! let y = &x * 2.0 + rtx_tensor::tensor!([1.0, 2.0, 3.0]);
//! assert_eq!(y.shape(), [2, 3]);
//! ```

mod amp;
pub mod autograd;
mod backward;
mod call;
mod checkpoint;
mod create;
mod device;
mod display;
mod engine;
mod failure;
mod frame;
pub mod func;
pub mod functional;
mod hosted;
mod images;
pub mod index;
mod inplace;
mod joining;
pub mod linalg;
mod losses;
mod methods;
mod movement;
mod number;
mod operand;
mod pick;
mod random;
mod read;
mod recurrent;
mod scope;
mod search;
pub mod shape;
mod spatial;
mod spelled;
mod stand_in;
mod stats;
mod tape;
mod tensor;
mod unique;
mod view;

pub use amp::autocast;
pub use autograd::{Grad, grad, no_grad};
pub use backward::Backward;
pub use call::{Argument, call, call_definition};
pub use create::{
    Literal, arange, arange_step, cat, equal, eye, from_bytes, from_slice, full, full_like, linspace, literal,
    literal_at, meshgrid, ones, ones_like, run_time_number, stack, zeros, zeros_like,
};
pub use device::{Device, Place, default_device, set_default_device};
pub use index::{Ellipsis, NewAxis, step};
pub use joining::{
    block_diag, broadcast_tensors, column_stack, dstack, einsum, hstack, logspace, scalar_tensor, vstack,
};
pub use methods::{TryTensor, options};
pub use number::IntoScalar;
pub use operand::Operand;
pub use random::{
    Generator, RandomState, fork, generator, manual_seed, multinomial, rand, randint, randn, randperm, with_generator,
};
pub use recurrent::{
    CellWeights, Stack, gru, gru_cell, lstm, lstm_cell, rnn_relu, rnn_relu_cell, rnn_tanh, rnn_tanh_cell,
};
pub use rtx_core::{DType, Element, Error, Kind, Location, Result, Scalar};
pub use scope::{current_scope, in_scope};
pub use search::{
    SearchSorted, cartesian_prod, combinations, cumulative_trapezoid, isin, searchsorted, searchsorted_with, trapezoid,
    trapz, tril_indices, triu_indices,
};
pub use shape::keep;
pub use stand_in::with_stand_ins;
pub use stats::{
    BudgetReport, Counters, HeldValue, Memory, budget_report, counters, device_details, empty_cache, end_step, flush,
    largest_values, memory, no_new_plans, reset_peak_memory,
};
pub use tensor::Tensor;
pub use unique::{Distinct, Unique};

//! The tensor language: primitives, definitions, graphs, and how a graph is built, checked, evaluated and written.
//!
//! Knows no devices and no kernels. An op is defined once, by one [`OpDef`] literal; primitives live here
//! ([`prims`]), composites in `rtx-ops`.

mod builder;
mod complex;
mod def;
mod gradient;
mod graph;
mod matrices;
mod op;
pub mod oracle;
pub mod prims;
mod program;
pub mod record;
pub mod rules;
mod signature;
pub mod text;
mod verify;

pub use builder::{Builder, Term};
pub use def::{
    Amp, Arg, Batch, Body, Bound, Effects, Grad, GradCx, Grads, Infer, Jvp, Numerics, OpDef, Outs, Refusal, Sample,
    Saves, Stability, Types, attrs,
};
pub use graph::{Graph, Node, NodeId, ValueId, ValueInfo};
pub use matrices::Triangle;
pub use op::{Attr, Attrs, Collective, ConvDim, Convolution, Factor, Fft, FftKind, FftNorm, Op, Prim, ScatterOp};
pub use program::Program;
pub use signature::{Parameter, Signature, split_list};
pub use verify::verify;

use rtx_core::{DType, Shape};
use std::fmt;

/// Element type and shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Shape,
}

impl Type {
    /// From its parts.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }
    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }
    /// Bytes of a dense value, symbols at their largest.
    pub fn bytes(&self) -> usize {
        self.shape.numel() * self.dtype.size()
    }
}
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, self.shape)
    }
}

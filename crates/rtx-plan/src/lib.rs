//! A region's plan as data, and the traits by which compiler, claims and runtime meet without knowing each other.
#![allow(clippy::module_name_repetitions, reason = "the words are the house's words")]

mod size;
mod text;
pub use size::SizeExpr;

use rtx_core::{DType, Dim, Layout, Result, SymId};
use rtx_hal::{KernelSource, Target};
use rtx_ir::{Graph, NodeId, Type, ValueId};
use smallvec::SmallVec;
use std::borrow::Cow;

/// What a compiler is asked for.
pub struct Request<'a> {
    /// The region. Composites are single nodes.
    pub graph: &'a Graph,
    /// One fact for each input of the graph, in order.
    pub inputs: &'a [InputFact],
    /// The values that somebody still holds, in ascending order.
    pub wanted: &'a [ValueId],
    /// For whom.
    pub target: &'a Target,
}

/// What is known of an input's memory; part of the region's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InputFact {
    /// Strides; the offset is applied before launch and is no part of the plan.
    pub layout: Layout,
    /// May its memory be overwritten? Nobody else reads it (contract M2).
    pub donated: bool,
    /// The first input that shares its memory, if that is another one.
    pub alias: Option<u32>,
}

/// Where a launch argument lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Input `i`, at its own offset.
    Input(u32),
    /// The slot of output `i`: a buffer that escapes.
    Slot(u32),
    /// Bytes into the arena, which is dead between runs.
    Arena(u64),
    /// Run-time number `i` in the parameter block, 8 bytes each.
    Param(u32),
    /// Bytes into the plan's constants.
    Constant(u64),
}

/// A buffer argument: a place and elements to skip, which may depend on symbols.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferArg {
    /// Where.
    pub place: Place,
    /// Bytes from there.
    pub offset_bytes: SizeExpr,
}

/// One run of a kernel within a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Buffer arguments.
    pub buffers: Vec<BufferArg>,
    /// Sizes and strides.
    pub sizes: Vec<SizeExpr>,
}

/// One launch: a kernel over one or more independent sets of arguments (an optimizer's parameters, say).
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Index into [`Plan::kernels`].
    pub kernel: u32,
    /// At least one.
    pub instances: Vec<Instance>,
    /// The recorded nodes that it computes: a report in the error slot names the line of the first.
    pub origins: Vec<NodeId>,
}

/// One result that somebody holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Which value of the region.
    pub value: ValueId,
    /// Its type.
    pub ty: Type,
    /// Where its memory comes from.
    pub place: OutputPlace,
    /// Where its elements lie in that memory. Where the type has symbols, a layout that is dense at their largest
    /// values stands for a dense one at every size.
    pub layout: Layout,
}

/// Where an output's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPlace {
    /// A new buffer of so many bytes, [`Place::Slot`] of this output's position.
    Slot(u64),
    /// The memory of a donated input, overwritten in place.
    Donated(u32),
    /// A view of an input's memory, unchanged.
    Input(u32),
    /// The memory of an earlier output.
    Output(u32),
}

/// What to run for a region, without a compiler or a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Distinct kernels.
    pub kernels: Vec<KernelSource>,
    /// Launches in order.
    pub steps: Vec<Step>,
    /// Results.
    pub outputs: Vec<Output>,
    /// Bytes of memory that is dead between runs.
    pub arena_bytes: u64,
    /// Constant data.
    pub constants: Vec<u8>,
    /// Number of run-time numbers.
    pub params: u32,
    /// Symbols that a run must bind, with their largest values.
    pub symbols: Vec<(SymId, u64)>,
    /// What the compiler did, for reports and tests: name and count, sorted by name.
    pub counters: Vec<(Cow<'static, str>, u64)>,
}

/// Makes a plan of a region.
pub trait Compile: Send + Sync {
    /// # Errors
    /// [`rtx_core::Kind::Unsupported`] for what no back end handles, by the op's name.
    fn compile(&self, request: &Request<'_>) -> Result<Plan>;
}

/// A special kernel for a node (contract C3). What it takes is a function of op, attributes, extents, dtypes and
/// target, never of neighbours (contract N4).
pub trait Claim: Send + Sync {
    /// For dumps and counters.
    fn name(&self) -> &'static str;
    /// How this claim would run the node; `None` if it does not take it.
    fn claim(&self, graph: &Graph, node: NodeId, target: &Target) -> Option<Claimed>;
    /// Takes operands as they were before the casts that the node's own op made of them: `sources` has for each operand
    /// of `claimed` what it was cast from.
    fn absorb_casts(&self, _claimed: &mut Claimed, _sources: &[Option<(ValueId, DType)>], _target: &Target) {}
    /// Do its kernels write results into parts of larger memory, touch nothing beside them, and never write -0? Gradients
    /// of slices, which are added to zeros, then need no copy.
    fn writes_parts(&self, _target: &Target) -> bool {
        false
    }
}

/// A node as a native kernel. The launch's buffers are the operands, then the outputs; its sizes are the dims,
/// then for each operand and output the stride of each of its groups. A group is neighbouring axes of the value
/// that are walked as one: the compiler passes their common stride, and copies the operand to a dense one where
/// the axes have none. An empty group has stride 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The kernel's text: its native name, then its parameters, one line.
    pub text: String,
    /// Extents: products of dims.
    pub dims: Vec<SmallVec<[Dim; 4]>>,
    /// Operands in the kernel's order.
    pub operands: Vec<Grouped>,
    /// Outputs in the kernel's order; each is one of the node's outputs. It fills its memory, and its last axis
    /// lies side by side there; in which order the others lie is the compiler's choice, unless there is an epilogue or
    /// something is in place: then it is row-major.
    pub outputs: Vec<Grouped>,
    /// Can it run a tile program over boxes of output 0's groups while they are hot? The program's text follows
    /// the kernel's on the next lines, its other buffers and its sizes follow the kernel's.
    pub epilogue: bool,
    /// Output `.1` may overwrite operand `.0`, elements or whole tensors (an update in place).
    pub in_place: Vec<(usize, usize)>,
}

/// A value and how its axes are walked.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped {
    /// Which value.
    pub value: ValueId,
    /// Axes of each group, ascending and neighbouring.
    pub groups: Vec<SmallVec<[usize; 4]>>,
}

//! The vocabulary that an op's definition is written in (contract C5). Knows no devices.
use crate::{Attr, Attrs, Builder, Op, Type, ValueId};
use rtx_core::{DType, Dim, Result, Scalar};
use smallvec::SmallVec;

/// Output types of a node; most have one.
pub type Types = SmallVec<[Type; 1]>;
/// Outputs of a call; most have one.
pub type Outs = SmallVec<[ValueId; 1]>;
/// Cotangents for every operand; `None` where the op is not differentiable in it or none is wanted.
pub type Grads = SmallVec<[Option<ValueId>; 4]>;
/// Shape and dtype rule: O(1), never looks at the body (contract C4). Refuses with the op's own name.
pub type Infer = fn(&Op, &[&Type]) -> Result<Types>;

/// One op, whole. Everything a user, a test or a back end needs to know about it stands in one literal.
pub struct OpDef {
    /// PyTorch's schema where the op exists there: `softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`.
    /// A `Scalar` or `float` whose name is in `runtime` is passed as a run-time number and becomes an operand.
    pub sig: &'static str,
    /// One sentence, the formula, the source.
    pub doc: &'static str,
    /// Names in `sig` whose values never make a new plan (contract S2).
    pub runtime: &'static [&'static str],
    /// How a user's call becomes nodes: promotion, broadcasting and refusals happen here, in the user's words.
    pub record: fn(&mut Builder<'_>, &'static OpDef, &Bound) -> Result<Outs>,
    /// Output types of a node of this op.
    pub infer: Infer,
    /// What it is.
    pub body: Body,
    /// Reverse mode.
    pub grad: Grad,
    /// Which operands and outputs the gradient rule reads.
    pub saves: Saves,
    /// Forward mode.
    pub jvp: Jvp,
    /// Batching.
    pub batch: Batch,
    /// Under autocast.
    pub amp: Amp,
    /// Floating-point operations per output element, roughly; for reports and schedules.
    pub cost: u32,
    /// Which algorithms may stand in for the body.
    pub numerics: Numerics,
    /// What passes must keep.
    pub effects: Effects,
    /// What generated tests draw from.
    pub samples: &'static [Sample],
    /// Calls that are refused, with their exact messages.
    pub refuses: &'static [Refusal],
    /// May it still change?
    pub stability: Stability,
}

impl OpDef {
    /// The name up to the overload: `softmax` of `softmax.int(…)`.
    pub const fn name(&self) -> &'static str {
        let bytes = self.sig.as_bytes();
        let mut i = 0;
        while i < bytes.len() && bytes[i] != b'(' && bytes[i] != b'.' {
            i += 1;
        }
        self.sig.split_at(i).0
    }
}
impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
/// A definition is its place in the table.
impl PartialEq for OpDef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.sig == other.sig
    }
}

/// What an op is.
pub enum Body {
    /// It has a meaning of its own: see `oracle`.
    Primitive,
    /// It is a program of other ops.
    Composite(fn(&mut Builder<'_>, &[Attr], &[ValueId]) -> Result<Outs>),
}

/// A gradient rule: emits ordinary nodes.
pub type GradRule = fn(&mut Builder<'_>, &GradCx<'_>) -> Result<Grads>;

/// Reverse mode of an op.
pub enum Grad {
    /// A rule of its own.
    Rule(GradRule),
    /// The body is re-emitted and differentiated; all operands are saved (contract A1).
    FromBody,
    /// No derivative anywhere: comparisons, integers, `sign`'s zero is a rule and not this.
    None,
}

/// What a gradient rule sees.
pub struct GradCx<'a> {
    /// The op with its attributes.
    pub op: &'a Op,
    /// Operands; ghosts where `saves` does not name them.
    pub inputs: &'a [ValueId],
    /// Outputs; ghosts where `saves` does not name them.
    pub outputs: &'a [ValueId],
    /// Cotangents of the outputs; `None` where nothing flows in.
    pub cotangents: &'a [Option<ValueId>],
    /// Which operands want a cotangent.
    pub wants: &'a [bool],
}

impl GradCx<'_> {
    /// The cotangent of output 0, which the walker guarantees for ops of one output.
    ///
    /// # Panics
    /// When called by a rule of several outputs without asking: a mistake in the table.
    pub fn ct(&self) -> ValueId {
        self.cotangents[0].expect("the walker calls rules only with a cotangent")
    }
}

/// Operands and outputs that a gradient rule reads, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saves {
    /// These.
    Only {
        /// Operand positions.
        inputs: &'static [usize],
        /// Output positions.
        outputs: &'static [usize],
    },
    /// Every operand, no output.
    Inputs,
}
impl Saves {
    /// Nothing but types.
    pub const NONE: Saves = Saves::Only { inputs: &[], outputs: &[] };
    /// The first output.
    pub const OUTPUT: Saves = Saves::Only { inputs: &[], outputs: &[0] };
    /// Is this operand read?
    pub fn input(self, i: usize) -> bool {
        match self {
            Saves::Only { inputs, .. } => inputs.contains(&i),
            Saves::Inputs => true,
        }
    }
    /// Is this output read?
    pub fn output(self, i: usize) -> bool {
        match self {
            Saves::Only { outputs, .. } => outputs.contains(&i),
            Saves::Inputs => false,
        }
    }
}

/// Forward mode of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jvp {
    /// By transposing the reverse rule twice.
    FromGrad,
    /// No derivative.
    None,
}
/// How an op batches under `vmap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Batch {
    /// Element by element: a batch dim in front changes nothing.
    Pointwise,
    /// By batching the body.
    FromBody,
    /// By a rule that is planned and not there: `vmap` refuses the op by name.
    Refused,
}
/// What autocast does with an op's float operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Amp {
    Any,
    Low,
    Full,
}
/// Which algorithms may stand in for the body (contract N4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numerics {
    /// The body's bits, always.
    Body,
    /// A claim of its own class, chosen by op, attributes, extents, dtypes and target alone; compared with the
    /// body within `ulps` of its scale in tests.
    Claimed,
}
/// What passes must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Effects {
    None,
    Barrier,
    /// It does something besides its results: kept, once, and in its place among others (contract R6).
    Ordered,
}
/// May an op still change?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Stability {
    Stable,
    Unstable,
}

/// A call that tests make: tensors drawn from a domain, other arguments as given.
pub struct Sample {
    /// Arguments in order of the signature, in a small text: `f32[2,3] in -2..2` (drawn from an interval; integers
    /// from `0..5` without the end), `bool[2]`, `f32[3] = 1 -0 nan` (these elements), `[f32[2], f32[3]]` (a list of
    /// tensors), `0.1`, `-1`, `[0, 1]`, `true`, `"add"`, `f64` (an element type), `none`.
    pub args: &'static str,
    /// Relative tolerance against the oracle in units of f32's epsilon; 0 means exact.
    pub ulps: u32,
    /// Is the gradient compared with finite differences?
    pub grad: bool,
}

impl Sample {
    /// Compared within `ulps`; the gradient is compared with finite differences.
    pub const fn grad(args: &'static str, ulps: u32) -> Sample {
        Sample { args, ulps, grad: true }
    }
    /// Compared within `ulps`; not differentiated.
    pub const fn of(args: &'static str, ulps: u32) -> Sample {
        Sample { args, ulps, grad: false }
    }
    /// Compared bit by bit; not differentiated.
    pub const fn exact(args: &'static str) -> Sample {
        Sample { args, ulps: 0, grad: false }
    }
}

/// A call that is refused.
pub struct Refusal {
    /// Arguments as in [`Sample::args`].
    pub args: &'static str,
    /// The whole message.
    pub message: &'static str,
}

impl Refusal {
    /// A call and its whole message.
    pub const fn of(args: &'static str, message: &'static str) -> Refusal {
        Refusal { args, message }
    }
}

/// An argument of a call, already in the order of the signature with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A tensor.
    Value(ValueId),
    /// A list of tensors.
    Values(SmallVec<[ValueId; 4]>),
    /// A number.
    Scalar(Scalar),
    /// Integers.
    Ints(SmallVec<[i64; 4]>),
    /// Sizes, which may be symbols.
    Dims(SmallVec<[Dim; 2]>),
    /// A bool.
    Bool(bool),
    /// An element type.
    DType(DType),
    /// A word.
    Str(&'static str),
    /// A list of what has no list of its own: floats, bools, tensors of which some are left out.
    List(Vec<Arg>),
    /// Left out.
    None,
}

/// The arguments of one call, in the order of the signature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bound(pub SmallVec<[Arg; 4]>);

impl Bound {
    /// Argument `i`; [`Arg::None`] past the end.
    pub fn get(&self, i: usize) -> &Arg {
        self.0.get(i).unwrap_or(&Arg::None)
    }
}
impl<const N: usize> From<[Arg; N]> for Bound {
    fn from(a: [Arg; N]) -> Self {
        let mut bound = Bound::default();
        a.into_iter().for_each(|a| bound.0.push(a));
        bound
    }
}

/// Fields that most definitions share; a literal writes `..OpDef::DEFAULT`.
impl OpDef {
    /// A definition with nothing in it but safe defaults.
    pub const DEFAULT: OpDef = OpDef {
        sig: "unnamed() -> ()",
        doc: "",
        runtime: &[],
        record: crate::rules::record_direct,
        infer: crate::rules::infer_same,
        body: Body::Primitive,
        grad: Grad::FromBody,
        saves: Saves::Inputs,
        jvp: Jvp::FromGrad,
        batch: Batch::FromBody,
        amp: Amp::Any,
        cost: 1,
        numerics: Numerics::Body,
        effects: Effects::None,
        samples: &[],
        refuses: &[],
        stability: Stability::Unstable,
    };
}

/// Attributes of a composite node.
pub fn attrs<const N: usize>(list: [Attr; N]) -> Attrs {
    list.into_iter().collect()
}

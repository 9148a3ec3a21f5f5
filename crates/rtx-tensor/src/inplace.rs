//! Writes: `&self`, like an atomic; through a view they reach the cell.
use crate::{
    Result, Tensor,
    call::{Argument, op},
    failure::OrPanic,
    index::IntoIndex,
    number::IntoScalar,
    operand::Operand,
    tape::{Trace, Traced},
};
use rtx_ir::{Arg, Bound, OpDef, ValueId};

/// An operand read before the write begins, so that it may be the written tensor itself.
enum Read {
    Tensor(Traced),
    Plain(Arg),
}
impl Read {
    #[track_caller]
    fn of(a: Argument) -> Result<Self> {
        Ok(match a {
            Argument::Tensor(t) => Read::Tensor(t.traced()?),
            Argument::Scalar(s) => Read::Plain(Arg::Scalar(s)),
            _ => Read::Plain(Arg::None),
        })
    }
    fn arg(&self, trace: &mut Trace<'_, '_>) -> Result<Arg> {
        Ok(match self {
            Read::Tensor(t) => Arg::Value(trace.import(t)?),
            Read::Plain(a) => a.clone(),
        })
    }
    /// As a value of its own: a number becomes a run-time one.
    fn value(&self, trace: &mut Trace<'_, '_>, like: ValueId) -> Result<ValueId> {
        match self.arg(trace)? {
            Arg::Value(v) => Ok(v),
            Arg::Scalar(s) => {
                let mut b = trace.recorder.builder();
                let dtype = b.dtype(like);
                b.param(dtype, s)
            }
            _ => Ok(like),
        }
    }
}

impl Tensor {
    #[track_caller]
    fn write_call(&self, name: &'static str, def: &'static OpDef, rest: Vec<Argument>) -> Result<()> {
        let rest = rest.into_iter().map(Read::of).collect::<Result<Vec<_>>>()?;
        self.write(name, |trace, x| {
            let mut args = Bound([Arg::Value(x)].into_iter().collect());
            for r in &rest {
                args.0.push(r.arg(trace)?);
            }
            Ok(trace.recorder.builder().call(def, args)?[0])
        })
    }
    #[track_caller]
    fn write_value(&self, name: &'static str, value: Argument) -> Result<()> {
        let value = Read::of(value)?;
        self.write(name, |trace, x| value.value(trace, x))
    }

    /// Every element becomes this number.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::zeros(2);
    /// x.fill_(3.);
    /// assert_eq!(x.to_vec::<f32>()?, [3., 3.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn fill_(&self, value: impl IntoScalar) -> &Self {
        self.write_value("fill_", Argument::Scalar(value.scalar())).or_panic();
        self
    }
    /// Every element becomes 0.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2);
    /// x.zero_();
    /// assert_eq!(x.to_vec::<f32>()?, [0., 0.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn zero_(&self) -> &Self {
        self.fill_(0)
    }
    /// The elements of another tensor, broadcast and converted.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::zeros(2);
    /// x.copy_(&tensor!([1., 2.]));
    /// assert_eq!(x.to_vec::<f32>()?, [1., 2.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_(&self, from: &Tensor) -> &Self {
        let from = if from.dtype().class() > self.dtype().class() { from.to(self.dtype()) } else { from.alias() };
        self.write_value("copy_", Argument::Tensor(from)).or_panic();
        self
    }
    /// Python's `x[index] = value`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::zeros([2, 2]);
    /// x.set((.., 0), 5.);
    /// assert_eq!(x.to_vec::<f32>()?, [5., 0., 5., 0.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn set(&self, index: impl IntoIndex, value: impl Operand) {
        self.write_index(index.index(), value.argument()).or_panic();
    }
    #[track_caller]
    pub(crate) fn write_shown(&self, value: Argument) -> Result<()> {
        self.write_value("set", value)
    }
}

macro_rules! writes { ($($f:ident $name:literal ($($arg:ident),*) $before:literal $call:literal $after:literal;)*) => { impl Tensor { $(
    #[doc = concat!(
        "`", $name, "`, in place.\n\n```\n# use rtx_tensor::{self as torch, tensor};\nlet x = tensor!(", $before, ");\nx.",
        $call, ";\nassert_eq!(x.to_vec::<f32>()?, ", $after, ");\n# Ok::<(), torch::Error>(())\n```"
    )]
    #[track_caller]
    pub fn $f(&self $(, $arg: impl Operand)*) -> &Self {
        self.write_call(stringify!($f), op!($name), vec![$($arg.argument()),*]).or_panic();
        self
    }
)* } } }
writes! {
    add_ "add" (other) "[1., 2.]" "add_(3)" "[4., 5.]";
    sub_ "sub" (other) "[1., 2.]" "sub_(1)" "[0., 1.]";
    mul_ "mul" (other) "[1., 2.]" "mul_(&tensor!([3., 4.]))" "[3., 8.]";
    div_ "div" (other) "[1., 2.]" "div_(2)" "[0.5, 1.]";
    pow_ "pow" (exponent) "[1., 2.]" "pow_(2)" "[1., 4.]";
    remainder_ "remainder" (other) "[5., 7.]" "remainder_(4)" "[1., 3.]";
    neg_ "neg" () "[1., -2.]" "neg_()" "[-1., 2.]";
    abs_ "abs" () "[1., -2.]" "abs_()" "[1., 2.]";
    exp_ "exp" () "[0.]" "exp_()" "[1.]";
    log_ "log" () "[1.]" "log_()" "[0.]";
    sqrt_ "sqrt" () "[4., 9.]" "sqrt_()" "[2., 3.]";
    relu_ "relu" () "[1., -2.]" "relu_()" "[1., 0.]";
    sigmoid_ "sigmoid" () "[0.]" "sigmoid_()" "[0.5]";
    tanh_ "tanh" () "[0.]" "tanh_()" "[0.]";
    masked_fill_ "masked_fill" (mask, value) "[1., 2.]" "masked_fill_(&tensor!([true, false]), 9)" "[9., 2.]";
}

//! Reading the arguments of a call: what is missing becomes the default, what does not fit is refused by name.
use rtx_core::{DType, Dim, Kind, Result, Scalar, Shape};
use rtx_ir::{Arg, Bound, OpDef, ValueId, rules};
use smallvec::SmallVec;

/// The arguments of one call of `def`.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    def: &'static OpDef,
    bound: &'a Bound,
}

/// Integers of an argument: axes, sizes.
pub(crate) type Ints = SmallVec<[i64; 4]>;

impl<'a> Args<'a> {
    pub(crate) fn new(def: &'static OpDef, bound: &'a Bound) -> Self {
        Self { def, bound }
    }
    /// The op's name, for messages.
    pub(crate) fn op(&self) -> &'static str {
        self.def.name()
    }
    /// The op's signature.
    pub(crate) fn op_sig(&self) -> &'static str {
        self.def.sig
    }
    pub(crate) fn get(&self, i: usize) -> &'a Arg {
        self.bound.get(i)
    }
    /// `op: argument \`x\` is missing` or `… does not take …`.
    fn wrong<T>(&self, i: usize, wanted: &str) -> Result<T> {
        let names = rules::parameter_names(self.def.sig);
        let name = names.get(i).copied().unwrap_or("?");
        let what = match self.get(i) {
            Arg::None => format!("argument `{name}` is missing"),
            _ => format!("argument `{name}` takes {wanted}"),
        };
        Err(rules::refuse(self.op(), Kind::Argument, what))
    }
    pub(crate) fn tensor(&self, i: usize) -> Result<ValueId> {
        match self.get(i) {
            Arg::Value(v) => Ok(*v),
            _ => self.wrong(i, "a tensor"),
        }
    }
    pub(crate) fn optional_tensor(&self, i: usize) -> Result<Option<ValueId>> {
        match self.get(i) {
            Arg::None => Ok(None),
            _ => self.tensor(i).map(Some),
        }
    }
    pub(crate) fn tensors(&self, i: usize) -> Result<&'a [ValueId]> {
        match self.get(i) {
            Arg::Values(v) => Ok(v),
            _ => self.wrong(i, "a list of tensors"),
        }
    }
    pub(crate) fn optional_int(&self, i: usize) -> Result<Option<i64>> {
        match self.get(i) {
            Arg::Scalar(Scalar::Int(n)) => Ok(Some(*n)),
            Arg::Ints(v) if v.len() == 1 => Ok(Some(v[0])),
            Arg::None => Ok(None),
            _ => self.wrong(i, "an integer"),
        }
    }
    pub(crate) fn int(&self, i: usize) -> Result<i64> {
        match self.optional_int(i)? {
            Some(n) => Ok(n),
            None => self.wrong(i, "an integer"),
        }
    }
    pub(crate) fn int_or(&self, i: usize, default: i64) -> Result<i64> {
        Ok(self.optional_int(i)?.unwrap_or(default))
    }
    pub(crate) fn float_or(&self, i: usize, default: f64) -> Result<f64> {
        match self.get(i) {
            Arg::Scalar(s) => Ok(s.to_f64()),
            Arg::None => Ok(default),
            _ => self.wrong(i, "a number"),
        }
    }
    pub(crate) fn flag(&self, i: usize) -> Result<bool> {
        match self.get(i) {
            Arg::Bool(b) | Arg::Scalar(Scalar::Bool(b)) => Ok(*b),
            Arg::None => Ok(false),
            _ => self.wrong(i, "true or false"),
        }
    }
    pub(crate) fn dtype(&self, i: usize) -> Result<Option<DType>> {
        match self.get(i) {
            Arg::DType(d) => Ok(Some(*d)),
            Arg::None => Ok(None),
            _ => self.wrong(i, "a dtype"),
        }
    }
    pub(crate) fn word_or(&self, i: usize, default: &'static str) -> Result<&'static str> {
        match self.get(i) {
            Arg::Str(s) => Ok(s),
            Arg::None => Ok(default),
            _ => self.wrong(i, "a word"),
        }
    }
    /// One of these words.
    pub(crate) fn choice(&self, i: usize, words: &[&'static str]) -> Result<&'static str> {
        let given = self.word_or(i, words[0])?;
        match words.iter().find(|w| **w == given) {
            Some(w) => Ok(w),
            None => Err(rules::refuse(
                self.op(),
                Kind::Argument,
                format_args!(
                    "{given:?} is not one of {}",
                    words.iter().map(|w| format!("{w:?}")).collect::<Vec<_>>().join(", ")
                ),
            )),
        }
    }
    /// Numbers of a list, or one.
    pub(crate) fn floats(&self, i: usize) -> Result<SmallVec<[f64; 4]>> {
        let number = |a: &Arg| if let Arg::Scalar(s) = a { Ok(s.to_f64()) } else { self.wrong(i, "numbers") };
        match self.get(i) {
            Arg::Ints(v) => Ok(v.iter().map(|&n| n as f64).collect()),
            Arg::List(v) => v.iter().map(number).collect(),
            one => Ok(SmallVec::from_slice(&[number(one)?])),
        }
    }
    /// Tensors of which some may be left out.
    pub(crate) fn optional_tensors(&self, i: usize) -> Result<SmallVec<[Option<ValueId>; 4]>> {
        let tensor = |a: &Arg| match a {
            Arg::Value(v) => Ok(Some(*v)),
            Arg::None => Ok(None),
            _ => self.wrong(i, "a list of tensors"),
        };
        match self.get(i) {
            Arg::Values(v) => Ok(v.iter().map(|v| Some(*v)).collect()),
            Arg::List(v) => v.iter().map(tensor).collect(),
            _ => self.wrong(i, "a list of tensors"),
        }
    }
    pub(crate) fn optional_ints(&self, i: usize) -> Result<Option<Ints>> {
        match self.get(i) {
            Arg::Ints(v) => Ok(Some(v.clone())),
            Arg::Dims(v) => Ok(Some(v.iter().map(|d| d.bound() as i64).collect())),
            Arg::Scalar(Scalar::Int(n)) => Ok(Some(SmallVec::from_slice(&[*n]))),
            Arg::None => Ok(None),
            _ => self.wrong(i, "integers"),
        }
    }
    pub(crate) fn ints(&self, i: usize) -> Result<Ints> {
        match self.optional_ints(i)? {
            Some(v) => Ok(v),
            None => self.wrong(i, "integers"),
        }
    }
    /// Sizes, none of them negative.
    pub(crate) fn shape(&self, i: usize) -> Result<Shape> {
        if let Arg::Dims(v) = self.get(i) {
            return Ok(v.iter().copied().collect());
        }
        let sizes = self.ints(i)?;
        match sizes.iter().find(|n| **n < 0) {
            Some(n) => Err(rules::refuse(self.op(), Kind::Argument, format_args!("a size is not negative, got {n}"))),
            None => Ok(sizes.iter().map(|&n| Dim::Const(n as u64)).collect()),
        }
    }
    /// An axis of a tensor of this rank.
    pub(crate) fn dim(&self, i: usize, rank: usize) -> Result<usize> {
        rules::check_dim(self.op(), self.int(i)?, rank)
    }
    /// Axes of a tensor of this rank, ascending; all of them where none are given.
    pub(crate) fn dims_or_all(&self, i: usize, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        let given = self.optional_ints(i)?.unwrap_or_default();
        if given.is_empty() || rank == 0 {
            given.iter().try_for_each(|&d| rules::check_dim(self.op(), d, rank).map(drop))?;
            return Ok((0..rank).collect());
        }
        let mut axes =
            given.iter().map(|&d| rules::check_dim(self.op(), d, rank)).collect::<Result<SmallVec<[usize; 4]>>>()?;
        axes.sort_unstable();
        match axes.windows(2).find(|w| w[0] == w[1]) {
            Some(w) => Err(rules::refuse(self.op(), Kind::Argument, format_args!("dim {} is given twice", w[0]))),
            None => Ok(axes),
        }
    }
}

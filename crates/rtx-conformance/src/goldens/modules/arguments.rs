//! Arguments of a constructor or a call, taken one by one under PyTorch's names, so that none is passed over.
use super::*;
use rtx_core::Scalar;

/// Arguments that do not change what is computed here.
const IGNORED: [&str; 3] = ["device", "dtype", "inplace"];

/// By position and by name; what is taken is gone.
pub(super) struct Arguments {
    positional: Vec<Option<Node>>,
    named: BTreeMap<String, Node>,
}

impl Arguments {
    pub fn parse(args: &Value, kwargs: &Value) -> Result<Self> {
        let list = |v: &Value| -> Result<Vec<Option<Node>>> {
            v.as_array().into_iter().flatten().map(|n| Ok(Some(Node::parse(n)?))).collect()
        };
        let entries = kwargs.as_object().into_iter().flatten();
        let named = entries.map(|(k, v)| Ok((k.clone(), Node::parse(v)?))).collect::<Result<_>>()?;
        Ok(Self { positional: list(args)?, named })
    }
    /// Argument `i`, called `name`; `None` where it is left out or is `None`.
    pub fn take(&mut self, i: usize, name: &str) -> Option<Node> {
        let by_position = self.positional.get_mut(i).and_then(Option::take);
        by_position.or_else(|| self.named.remove(name)).filter(|n| *n != Node::None)
    }
    /// # Errors
    /// When an argument was not taken: the module here has no such option.
    pub fn all_taken(&self, class: &str) -> Result<()> {
        let named = self.named.iter().filter(|(name, node)| !IGNORED.contains(&name.as_str()) && **node != Node::None);
        let left = named.map(|(name, _)| name.clone()).chain(
            self.positional.iter().enumerate().filter(|(_, a)| a.is_some()).map(|(i, _)| format!("argument {i}")),
        );
        match left.collect::<Vec<_>>().as_slice() {
            [] => Ok(()),
            some => Err(Error::new(Kind::Unsupported, format!("{class}: no option {}", some.join(", ")))),
        }
    }
    /// Is argument `i`, called `name`, given as `None`?
    pub fn is_none(&self, i: usize, name: &str) -> bool {
        let given = self.positional.get(i).and_then(Option::as_ref).or_else(|| self.named.get(name));
        given == Some(&Node::None)
    }
    pub fn float(&mut self, i: usize, name: &str) -> Option<f64> {
        match self.take(i, name)? {
            Node::Number(s) => Some(s.to_f64()),
            _ => None,
        }
    }
    pub fn float_or(&mut self, i: usize, name: &str, default: f64) -> f64 {
        self.float(i, name).unwrap_or(default)
    }
    pub fn int(&mut self, i: usize, name: &str) -> Option<i64> {
        match self.take(i, name)? {
            Node::Number(Scalar::Int(n)) => Some(n),
            Node::Number(s) => Some(s.to_f64() as i64),
            _ => None,
        }
    }
    /// A size that must be there.
    pub fn size(&mut self, i: usize, name: &str) -> Result<usize> {
        let size = self.int(i, name).and_then(|n| usize::try_from(n).ok());
        size.ok_or_else(|| Error::new(Kind::Format, format!("no size `{name}`")))
    }
    pub fn flag(&mut self, i: usize, name: &str, default: bool) -> bool {
        match self.take(i, name) {
            Some(Node::Number(Scalar::Bool(b))) => b,
            _ => default,
        }
    }
    pub fn word(&mut self, i: usize, name: &str) -> Option<String> {
        match self.take(i, name)? {
            Node::Word(w) => Some(w),
            _ => None,
        }
    }
    /// One number or several; -1 where one of them is `None`.
    pub fn ints(&mut self, i: usize, name: &str) -> Option<Vec<i64>> {
        numbers(&self.take(i, name)?)
    }
    /// A tensor that may be left out. Of those that want a gradient it is the leaf.
    pub fn tensor_or_none(&mut self, inputs: &mut Inputs<'_>, i: usize, name: &str) -> Result<Option<Tensor>> {
        let Some(node) = self.take(i, name) else { return Ok(None) };
        match inputs.argument(&node)? {
            rustytorch::Argument::Tensor(t) => Ok(Some(t)),
            // Lengths are lists in Python.
            rustytorch::Argument::List(_) => {
                let numbers: Option<Vec<i64>> = node
                    .elements()
                    .iter()
                    .map(|n| if let Node::Number(Scalar::Int(n)) = n { Some(*n) } else { None })
                    .collect();
                let numbers = numbers.ok_or_else(|| Error::new(Kind::Format, format!("`{name}` is no tensor")))?;
                Ok(Some(rustytorch::from_slice(&numbers, numbers.len())))
            }
            _ => Err(Error::new(Kind::Format, format!("`{name}` is no tensor"))),
        }
    }
    /// A tensor that must be there.
    pub fn tensor(&mut self, inputs: &mut Inputs<'_>, i: usize, name: &str) -> Result<Tensor> {
        let found = self.tensor_or_none(inputs, i, name)?;
        found.ok_or_else(|| Error::new(Kind::Format, format!("no tensor `{name}`")))
    }
    /// A tensor of a constructor.
    pub fn setting(&mut self, inputs: &Inputs<'_>, i: usize, name: &str) -> Result<Option<Tensor>> {
        match self.take(i, name) {
            Some(Node::Tensor { key, .. }) => Ok(Some(tensor_of(inputs.array(&key)?)?)),
            _ => Ok(None),
        }
    }
}

/// One number or several; -1 where one of them is `None`.
pub(super) fn numbers(node: &Node) -> Option<Vec<i64>> {
    let one = |n: &Node| match n {
        Node::Number(Scalar::Int(n)) => Some(*n),
        Node::None => Some(-1),
        _ => None,
    };
    match node {
        Node::Number(s) => Some(vec![s.to_f64() as i64]),
        Node::List(l) | Node::Tuple(l) => l.iter().map(one).collect(),
        _ => None,
    }
}

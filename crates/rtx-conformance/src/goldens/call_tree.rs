//! Calls as the golden files write them: trees of tensors by name, numbers, words and lists.
use rtx_core::{DType, Error, Kind, Result, Scalar};
use rtx_io::{Array, Contents};
use rtx_tensor::{Argument, Tensor};
use serde_json::Value;

/// One node of a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A tensor by its key in the file.
    Tensor {
        /// The key.
        key: String,
        /// Does it want a gradient?
        grad: bool,
    },
    /// A number.
    Number(Scalar),
    /// Real and imaginary part.
    Complex(f64, f64),
    /// A word.
    Word(String),
    /// An element type.
    DType(DType),
    /// `None`.
    None,
    /// A list.
    List(Vec<Node>),
    /// A tuple.
    Tuple(Vec<Node>),
    /// Named values, in order.
    Dict(Vec<(String, Node)>),
    /// `start:stop:step`.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// `...`.
    Ellipsis,
    /// Anything else by the name of its leaf, with its content: `fn`, `mod`, `packed`, `obj`.
    Other(String, Value),
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Format, format!("call tree: {what}"))
}

impl Node {
    /// From JSON: an object with one key that says what it is.
    ///
    /// # Errors
    /// When it is no node.
    pub fn parse(json: &Value) -> Result<Node> {
        let object = json.as_object().ok_or_else(|| bad(format_args!("{json} is no node")))?;
        if let Some(class) = object.get("obj") {
            return Ok(Node::Other(format!("obj {class}"), json.clone()));
        }
        let mut keys = object.iter().filter(|(k, _)| *k != "rg");
        let (Some((kind, value)), None) = (keys.next(), keys.next()) else {
            return Err(bad(format_args!("{json} is not one node")));
        };
        let wrong = || bad(format_args!("{json} does not hold what its key says"));
        Ok(match kind.as_str() {
            "t" => Node::Tensor {
                key: value.as_str().ok_or_else(wrong)?.to_owned(),
                grad: object.get("rg").is_some_and(|g| g.as_i64() == Some(1) || g.as_bool() == Some(true)),
            },
            "i" => Node::Number(Scalar::Int(value.as_i64().ok_or_else(wrong)?)),
            "f" => Node::Number(Scalar::Float(float(value).ok_or_else(wrong)?)),
            "b" => Node::Number(Scalar::Bool(value.as_bool().ok_or_else(wrong)?)),
            "c" => {
                let part = |i: usize| value.get(i).and_then(float).ok_or_else(wrong);
                Node::Complex(part(0)?, part(1)?)
            }
            "s" | "mf" | "layout" | "dev" => Node::Word(value.as_str().ok_or_else(wrong)?.to_owned()),
            "dt" => match value.as_str().and_then(dtype_of) {
                Some(d) => Node::DType(d),
                None => Node::Other("dt".into(), value.clone()),
            },
            "n" => Node::None,
            "l" | "tu" => {
                let all = value.as_array().ok_or_else(wrong)?.iter().map(Node::parse).collect::<Result<_>>()?;
                if kind == "l" { Node::List(all) } else { Node::Tuple(all) }
            }
            "d" => {
                let entries = value.as_object().ok_or_else(wrong)?.iter();
                Node::Dict(entries.map(|(k, v)| Ok((k.clone(), Node::parse(v)?))).collect::<Result<_>>()?)
            }
            "sl" => {
                let bound = |i: usize| match value.get(i).map(Node::parse) {
                    Some(Ok(Node::None)) => Ok(None),
                    Some(Ok(Node::Number(Scalar::Int(n)))) => Ok(Some(n)),
                    _ => Err(wrong()),
                };
                Node::Slice(bound(0)?, bound(1)?, bound(2)?)
            }
            "e" => Node::Ellipsis,
            other => Node::Other(other.to_owned(), value.clone()),
        })
    }

    /// The entries of a dictionary.
    pub fn entries(&self) -> &[(String, Node)] {
        if let Node::Dict(d) = self { d } else { &[] }
    }
    /// The elements of a list.
    pub fn elements(&self) -> &[Node] {
        if let Node::List(l) | Node::Tuple(l) = self { l } else { &[] }
    }
    /// Its leaves, lists and dictionaries flattened.
    pub fn leaves(&self) -> Vec<&Node> {
        match self {
            Node::List(l) | Node::Tuple(l) => l.iter().flat_map(Node::leaves).collect(),
            Node::Dict(d) => d.iter().flat_map(|(_, n)| n.leaves()).collect(),
            leaf => vec![leaf],
        }
    }
}

/// A number, or the words in which JSON cannot write one: `inf`, `-inf`, `nan`.
fn float(v: &Value) -> Option<f64> {
    v.as_f64().or_else(|| v.as_str()?.parse().ok())
}

/// PyTorch's names of element types.
pub fn dtype_of(name: &str) -> Option<DType> {
    Some(match name.trim_start_matches("torch.") {
        "bool" => DType::Bool,
        "uint8" => DType::U8,
        "int8" => DType::I8,
        "int16" | "short" => DType::I16,
        "int32" | "int" => DType::I32,
        "int64" | "long" => DType::I64,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        "float16" | "half" => DType::F16,
        "bfloat16" => DType::BF16,
        "float32" | "float" => DType::F32,
        "float64" | "double" => DType::F64,
        "complex64" => DType::C64,
        "complex128" => DType::C128,
        _ => return None,
    })
}

/// The tensors of one call, made from the file's arrays as the tree is turned into arguments.
pub struct Inputs<'a> {
    file: &'a Contents,
    /// Those that want a gradient, with their keys, in order of appearance in the tree.
    pub with_gradient: Vec<(String, Tensor)>,
}

impl<'a> Inputs<'a> {
    /// None yet.
    pub fn new(file: &'a Contents) -> Self {
        Self { file, with_gradient: Vec::new() }
    }
    /// The array of a key.
    ///
    /// # Errors
    /// When the file has none.
    pub fn array(&self, key: &str) -> Result<&'a Array> {
        self.file.arrays.get(key).ok_or_else(|| bad(format_args!("the file has no tensor {key}")))
    }
    /// A node as an argument of a call.
    ///
    /// # Errors
    /// For what no call takes: complex numbers, functions.
    pub fn argument(&mut self, node: &Node) -> Result<Argument> {
        Ok(match node {
            Node::Tensor { key, grad } => {
                let tensor = tensor_of(self.array(key)?)?;
                if !grad {
                    return Ok(Argument::Tensor(tensor));
                }
                let tensor = tensor.requires_grad_();
                self.with_gradient.push((key.clone(), tensor.alias()));
                Argument::Tensor(tensor)
            }
            Node::Number(s) => Argument::Scalar(*s),
            Node::Word(w) => w.clone().into(),
            Node::DType(d) => Argument::DType(*d),
            Node::None => Argument::None,
            // Whether integers stand in a list or in a tuple matters to an index.
            Node::List(l) if integers(l).is_some() => Argument::Ints(integers(l).unwrap_or_default()),
            Node::List(l) | Node::Tuple(l) => {
                Argument::List(l.iter().map(|n| self.argument(n)).collect::<Result<_>>()?)
            }
            Node::Slice(a, b, c) => Argument::Slice(*a, *b, *c),
            Node::Ellipsis => Argument::Ellipsis,
            Node::Complex(..) => {
                return Err(Error::new(Kind::Unsupported, "complex numbers as arguments are not built yet"));
            }
            Node::Dict(_) => return Err(Error::new(Kind::Unsupported, "a dictionary is no argument")),
            Node::Other(kind, _) => return Err(Error::new(Kind::Unsupported, format!("a `{kind}` is no argument"))),
        })
    }
}

fn integers(list: &[Node]) -> Option<Vec<i64>> {
    list.iter().map(|n| if let Node::Number(Scalar::Int(n)) = n { Some(*n) } else { None }).collect()
}

/// A tensor with an array's elements.
///
/// # Errors
/// When the element type cannot be held.
pub fn tensor_of(a: &Array) -> Result<Tensor> {
    rtx_tensor::from_bytes(a.dtype, &a.shape, &a.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_every_kind() {
        let text = r#"{"tu": [{"t": "s0/in/a.0", "rg": 1}, {"i": 3}, {"f": "-inf"}, {"b": true}, {"s": "mean"},
            {"n": null}, {"dt": "float32"}, {"d": {"p": {"f": 0.5}}}, {"sl": [{"i": 0}, {"n": null}, {"i": 2}]}, {"e": 1},
            {"fn": "relu"}]}"#;
        let node = Node::parse(&serde_json::from_str(text).expect("json")).expect("a tree");
        assert!(matches!(node, Node::Tuple(_)));
        let leaves = node.leaves();
        assert_eq!(leaves.len(), 11);
        assert_eq!(leaves[0], &Node::Tensor { key: "s0/in/a.0".into(), grad: true });
        assert_eq!(leaves[2], &Node::Number(Scalar::Float(f64::NEG_INFINITY)));
        assert_eq!(leaves[6], &Node::DType(DType::F32));
        assert_eq!(leaves[8], &Node::Slice(Some(0), None, Some(2)));
        assert!(Node::parse(&serde_json::json!({"i": "x"})).is_err());
        assert!(Node::parse(&serde_json::json!(3)).is_err());
    }
}

//! A program within a program: the body of a loop, a branch.
use crate::{Graph, Op, Prim, Type, ValueId, text};
use rtx_core::{Error, Kind, Result};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A graph and what it returns. It reads nothing but its inputs: what it needs from outside is passed in.
#[derive(Clone, Debug)]
pub struct Program(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    graph: Graph,
    outputs: Vec<ValueId>,
    /// As it prints: two programs are one when they print alike.
    text: String,
}

impl Program {
    /// From its parts.
    ///
    /// # Errors
    /// [`Kind::Argument`] for run-time numbers (they are passed in) and for outputs that the graph does not make.
    pub fn new(graph: Graph, outputs: impl IntoIterator<Item = ValueId>) -> Result<Self> {
        let outputs: Vec<ValueId> = outputs.into_iter().collect();
        if graph.nodes().iter().any(|n| matches!(n.op, Op::Ghost | Op::Prim(Prim::Param { .. }))) {
            return Err(Error::new(Kind::Argument, "a program within a program takes its numbers as inputs"));
        }
        if outputs.iter().any(|v| v.index() >= graph.value_count()) {
            return Err(Error::new(Kind::Argument, "a program returns a value that it does not make"));
        }
        let text = text::print_program(&graph, &outputs);
        Ok(Self(Arc::new(Inner { graph, outputs, text })))
    }
    /// Its nodes.
    pub fn graph(&self) -> &Graph {
        &self.0.graph
    }
    /// What it returns.
    pub fn outputs(&self) -> &[ValueId] {
        &self.0.outputs
    }
    /// As it stands in text forms: `(%0: i64 [] = input; return %0)`.
    pub fn text(&self) -> &str {
        &self.0.text
    }
    /// Types of what it takes.
    pub fn input_types(&self) -> impl Iterator<Item = &Type> {
        self.graph().inputs().map(|v| self.graph().ty(v))
    }
    /// Types of what it returns.
    pub fn output_types(&self) -> impl Iterator<Item = &Type> {
        self.outputs().iter().map(|&v| self.graph().ty(v))
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}
impl Eq for Program {}
impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

//! A region's key: what a plan depends on, as bytes, built while the region is recorded (contract R2).
//!
//! The key is two streams. `structure` holds ops, static attributes, dtypes, ranks and operands; `dims` holds the
//! sizes, in the order in which they are met. So two regions that differ in sizes alone have one structure, which
//! is what symbolic sizes (contract S1) are found by. Types of results are not written: they follow from the rest.
//! Never in a key: ids from outside the region, the numbers behind `Param` nodes, lines of the user's program.
use rtx_core::{Dim, Shape};
use rtx_ir::{Attr, Graph, Node, NodeId, Op, Prim, Type};

/// The key of a region's graph so far.
#[derive(Default)]
pub(crate) struct Key {
    pub(crate) structure: Vec<u8>,
    pub(crate) dims: Vec<u64>,
    /// For each node, where it starts in the two streams.
    marks: Vec<(u32, u32)>,
    /// The `Param` nodes, in order.
    params: Vec<NodeId>,
    /// Generations in the order in which they are first met: only which nodes share one matters.
    generations: Vec<u32>,
}

impl Key {
    /// Empties it; the room that it has taken stays.
    pub(crate) fn clear(&mut self) {
        let Key { structure, dims, marks, params, generations } = self;
        structure.clear();
        dims.clear();
        marks.clear();
        params.clear();
        generations.clear();
    }

    /// Appends the nodes that were recorded since the last call.
    pub(crate) fn extend(&mut self, graph: &Graph) {
        for (i, node) in graph.nodes().iter().enumerate().skip(self.marks.len()) {
            self.marks.push((self.structure.len() as u32, self.dims.len() as u32));
            if matches!(node.op, Op::Prim(Prim::Param { .. })) {
                self.params.push(NodeId(i as u32));
            }
            self.node(graph, node);
        }
    }

    /// Which run-time number a `Param` node is.
    pub(crate) fn param_index(&self, node: NodeId) -> Option<usize> {
        self.params.binary_search(&node).ok()
    }

    /// The node that the byte at `at` of `structure` belongs to; the last node for bytes that come after the nodes.
    pub(crate) fn node_of_byte(&self, at: usize) -> NodeId {
        NodeId(self.marks.partition_point(|m| m.0 as usize <= at).saturating_sub(1) as u32)
    }

    /// The node that size `at` belongs to; the last node for sizes that come after the nodes.
    pub(crate) fn node_of_dim(&self, at: usize) -> NodeId {
        NodeId(self.marks.partition_point(|m| m.1 as usize <= at).saturating_sub(1) as u32)
    }

    fn node(&mut self, graph: &Graph, node: &Node) {
        match &node.op {
            Op::Input => self.input(25, graph.ty(node.first)),
            Op::Ghost => self.input(26, graph.ty(node.first)),
            Op::Prim(prim) => self.prim(prim),
            Op::Composite(def, attrs) => {
                self.byte(24);
                // A definition is its place in the table, which stays where it is while the program runs.
                self.word(std::ptr::from_ref(*def) as usize as u64);
                self.byte(attrs.len() as u8);
                attrs.iter().for_each(|a| self.attr(a));
            }
        }
        if node.generation != 0 {
            let known = self.generations.iter().position(|&g| g == node.generation);
            let rank = known.unwrap_or_else(|| {
                self.generations.push(node.generation);
                self.generations.len() - 1
            });
            self.byte(254);
            self.word(rank as u64);
        }
        self.byte(255);
        self.byte(node.inputs.len() as u8);
        node.inputs.iter().for_each(|v| self.structure.extend_from_slice(&v.0.to_le_bytes()));
    }

    fn prim(&mut self, prim: &Prim) {
        match prim {
            Prim::Constant { dtype, bits } => {
                self.tagged(0, *dtype as u8);
                self.word(*bits);
            }
            Prim::Param { dtype } => self.tagged(1, *dtype as u8),
            Prim::Iota { shape, axis } => {
                self.tagged(2, *axis as u8);
                self.shape(shape);
            }
            Prim::RandomBits { shape } => {
                self.byte(3);
                self.shape(shape);
            }
            Prim::Unary(f) => self.tagged(4, *f as u8),
            Prim::Binary(f) => self.tagged(5, *f as u8),
            Prim::Compare(f) => self.tagged(6, *f as u8),
            Prim::Fma => self.byte(7),
            Prim::Select => self.byte(8),
            Prim::Cast(to) => self.tagged(9, *to as u8),
            Prim::Bitcast(to) => self.tagged(10, *to as u8),
            Prim::Reshape(to) => {
                self.byte(11);
                self.shape(to);
            }
            Prim::Permute(order) => {
                self.byte(12);
                self.axes(order);
            }
            Prim::Expand(to) => {
                self.byte(13);
                self.shape(to);
            }
            Prim::Slice { axis, len, step } => {
                self.tagged(14, *axis as u8);
                self.dim(*len);
                self.word(*step as u64);
            }
            Prim::Pad { axis, before, after } => {
                self.tagged(15, *axis as u8);
                self.word(*before);
                self.word(*after);
            }
            Prim::Concat { axis } => self.tagged(16, *axis as u8),
            Prim::UpdateSlice { axis, step } => {
                self.tagged(17, *axis as u8);
                self.word(*step as u64);
            }
            Prim::Gather { axis } => self.tagged(18, *axis as u8),
            Prim::Scatter { axis, op } => {
                self.tagged(19, *axis as u8);
                self.byte(*op as u8);
            }
            Prim::Reduce { fold, axes } => {
                self.tagged(20, *fold as u8);
                self.axes(axes);
            }
            Prim::ArgReduce { extremum, axis } => {
                self.tagged(21, *extremum as u8);
                self.byte(*axis as u8);
            }
            Prim::Dot { batch, contract } => {
                self.byte(22);
                for pairs in [batch, contract] {
                    self.byte(pairs.len() as u8);
                    pairs.iter().for_each(|&(l, r)| self.tagged(l as u8, r as u8));
                }
            }
            Prim::Barrier => self.byte(23),
            Prim::Scan { fold, axis, reverse } => {
                self.tagged(34, *fold as u8);
                self.tagged(*axis as u8, *reverse as u8);
            }
            Prim::LinearScan { axis, reverse } => {
                self.tagged(35, *axis as u8);
                self.byte(*reverse as u8);
            }
            Prim::Sort { axis, descending } => {
                self.tagged(36, *axis as u8);
                self.byte(*descending as u8);
            }
            Prim::Factor(f) => {
                self.byte(27);
                self.text(f.name());
                self.byte(f.full() as u8);
            }
            Prim::TriangularSolve { upper, transpose, unit } => {
                self.tagged(28, *upper as u8 | (*transpose as u8) << 1 | (*unit as u8) << 2);
            }
            Prim::Fft(f) => {
                self.byte(40);
                self.text(f.kind.name());
                self.text(f.norm.name());
                self.tagged(f.inverse as u8, f.axis as u8);
                if let rtx_ir::FftKind::FromHalf { len } = f.kind {
                    self.word(len);
                }
            }
            Prim::Loop(body) => {
                self.byte(29);
                self.text(body.text());
            }
            Prim::If { then, otherwise } => {
                self.byte(30);
                self.text(then.text());
                self.text(otherwise.text());
            }
            Prim::Collective { kind, members } => {
                self.byte(31);
                // What a person reads tells every kind from every other.
                self.text(&format!("{kind:?}"));
                self.word(u64::from(*members));
            }
            Prim::CustomCall { name, results } => {
                self.byte(32);
                self.text(name);
                self.byte(results.len() as u8);
                results.iter().for_each(|ty| self.input(25, ty));
            }
            Prim::Check(message) => {
                self.byte(33);
                self.text(message);
            }
            Prim::Windows { axis, size, stride, dilation } => {
                self.tagged(37, *axis as u8);
                [size, stride, dilation].into_iter().for_each(|n| self.word(*n));
            }
            Prim::OverlapAdd { axis, len, stride, dilation } => {
                self.tagged(38, *axis as u8);
                [len, stride, dilation].into_iter().for_each(|n| self.word(*n));
            }
            Prim::Conv(c) => {
                self.tagged(39, c.dims.len() as u8);
                self.word(c.groups as u64);
                for d in &c.dims {
                    [d.stride, d.low as u64, d.high as u64, d.base, d.dilation].into_iter().for_each(|n| self.word(n));
                }
            }
        }
    }

    fn attr(&mut self, attr: &Attr) {
        match attr {
            Attr::None => self.byte(0),
            Attr::Bool(b) => self.tagged(1, *b as u8),
            Attr::Int(i) => {
                self.byte(2);
                self.word(*i as u64);
            }
            Attr::Float(x) => {
                self.byte(3);
                self.word(x.to_bits());
            }
            Attr::Ints(v) => {
                self.tagged(4, v.len() as u8);
                v.iter().for_each(|&i| self.word(i as u64));
            }
            Attr::DType(d) => self.tagged(5, *d as u8),
            Attr::Str(s) => {
                self.byte(6);
                self.text(s);
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        self.structure.extend_from_slice(text.as_bytes());
    }
    fn input(&mut self, tag: u8, ty: &Type) {
        self.tagged(tag, ty.dtype as u8);
        self.shape(&ty.shape);
    }
    fn shape(&mut self, shape: &Shape) {
        self.byte(shape.rank() as u8);
        shape.iter().for_each(|d| self.dim(d));
    }
    fn dim(&mut self, dim: Dim) {
        match dim {
            Dim::Const(n) => {
                self.byte(0);
                self.dims.push(n);
            }
            Dim::Sym { id, max } => {
                self.byte(1);
                self.word(u64::from(id.0));
                self.word(max);
            }
        }
    }
    fn axes(&mut self, axes: &[usize]) {
        self.byte(axes.len() as u8);
        axes.iter().for_each(|&a| self.byte(a as u8));
    }
    fn tagged(&mut self, tag: u8, x: u8) {
        self.structure.extend_from_slice(&[tag, x]);
    }
    fn byte(&mut self, x: u8) {
        self.structure.push(x)
    }
    fn word(&mut self, x: u64) {
        self.structure.extend_from_slice(&x.to_le_bytes())
    }
}

/// A hash that finds the bucket; keys are compared in full.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mix = |h: u64, word: u64| (h.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    let (words, rest) = bytes.as_chunks::<8>();
    let h = words.iter().fold(bytes.len() as u64, |h, w| mix(h, u64::from_le_bytes(*w)));
    rest.iter().fold(h, |h, &b| mix(h, u64::from(b)))
}

/// The sizes of a region's graph, in the order of [`Key`]'s `dims`, put in place of those that stand in `op`.
pub(crate) fn map_sizes(op: &Op, mut size: impl FnMut(u64) -> Dim) -> Op {
    let mut dim = |d: Dim| match d {
        Dim::Const(n) => size(n),
        sym => sym,
    };
    let mut shape = |s: &Shape| s.iter().map(&mut dim).collect::<Shape>();
    match op {
        Op::Prim(Prim::Iota { shape: s, axis }) => Op::Prim(Prim::Iota { shape: shape(s), axis: *axis }),
        Op::Prim(Prim::RandomBits { shape: s }) => Op::Prim(Prim::RandomBits { shape: shape(s) }),
        Op::Prim(Prim::Reshape(s)) => Op::Prim(Prim::Reshape(shape(s))),
        Op::Prim(Prim::Expand(s)) => Op::Prim(Prim::Expand(shape(s))),
        Op::Prim(Prim::Slice { axis, len, step }) => Op::Prim(Prim::Slice { axis: *axis, len: dim(*len), step: *step }),
        other => other.clone(),
    }
}

//! The ops that users call, one definition each: composites with their bodies and gradients, and spellings of primitives.
//!
//! A *composite* records as one node (contract C1). A *spelling* (see [`spelling`]) has no node of its own: its call
//! becomes primitives at once, which is what promotion, broadcasting, views and comparisons need.
//! Absent here: devices, kernels, and the tensors that users hold.

mod args;
mod call;
mod elementwise;
mod formula;
mod lines;
mod precision;
mod reduced;

pub mod activation;
pub mod aliases;
pub mod arrange;
pub mod attention;
pub mod bag;
pub mod batch_norm;
pub mod bind;
pub mod conv;
pub mod create;
pub mod decomposition;
pub mod diagonal;
pub mod differences;
pub mod distance;
pub mod dropout;
pub mod einsum;
pub mod fourier;
pub mod grid;
pub mod hash;
pub mod histogram;
pub mod index;
pub mod interpolate;
pub mod likelihood;
pub mod likeness;
pub mod linear;
pub mod loss;
pub mod margin;
pub mod masked;
pub mod math;
pub mod movement;
pub mod norm;
pub mod optimizer;
pub mod pad;
pub mod pairs;
pub mod patches;
pub mod piecewise;
pub mod placing;
pub mod pointwise;
pub mod pool;
pub mod products;
pub mod quantile;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod regression;
pub mod scan;
pub mod search;
pub mod sequence;
pub mod softmax;
pub mod sort;
mod spatial;
pub mod special;
pub mod spectrum;
pub mod spelling;
pub mod statistics;
pub mod window;

pub use aliases::find;
pub use call::{bind, call};

use rtx_ir::OpDef;

/// The families, each a list of definitions.
const FAMILIES: &[&[&OpDef]] = &[
    pointwise::ALL,
    math::ALL,
    pairs::ALL,
    piecewise::ALL,
    activation::ALL,
    softmax::ALL,
    norm::ALL,
    reduce::ALL,
    movement::ALL,
    index::ALL,
    linear::ALL,
    conv::ALL,
    batch_norm::ALL,
    pool::ALL,
    loss::ALL,
    sequence::ALL,
    likelihood::ALL,
    regression::ALL,
    margin::ALL,
    masked::ALL,
    distance::ALL,
    differences::ALL,
    hash::ALL,
    attention::ALL,
    create::ALL,
    decomposition::ALL,
    arrange::ALL,
    diagonal::ALL,
    placing::ALL,
    statistics::ALL,
    products::ALL,
    einsum::ALL,
    likeness::ALL,
    random::ALL,
    optimizer::ALL,
    scan::ALL,
    sort::ALL,
    quantile::ALL,
    search::ALL,
    recurrent::ALL,
    pad::ALL,
    interpolate::ALL,
    patches::ALL,
    grid::ALL,
    histogram::ALL,
    special::bessel::ALL,
    special::normal::ALL,
    special::gamma::ALL,
    special::polynomial::ALL,
    window::ALL,
    dropout::ALL,
    bag::ALL,
    fourier::ALL,
    spectrum::ALL,
];

/// How many definitions there are.
const COUNT: usize = {
    let (mut n, mut i) = (0, 0);
    while i < FAMILIES.len() {
        n += FAMILIES[i].len();
        i += 1;
    }
    n
};

/// Every definition, by family.
pub static ALL: &[&OpDef] = &{
    let mut all: [&OpDef; COUNT] = [FAMILIES[0][0]; COUNT];
    let (mut n, mut i) = (0, 0);
    while i < FAMILIES.len() {
        let mut j = 0;
        while j < FAMILIES[i].len() {
            all[n] = FAMILIES[i][j];
            n += 1;
            j += 1;
        }
        i += 1;
    }
    all
};

/// The definition of exactly this name, the part of a signature before the overload: an op of [`ALL`], else a primitive.
pub fn find_exact(name: &str) -> Option<&'static OpDef> {
    ALL.iter().chain(rtx_ir::prims::ALL).copied().find(|def| def.name() == name)
}

#[cfg(test)]
mod tests;

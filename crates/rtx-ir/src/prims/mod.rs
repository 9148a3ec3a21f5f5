//! The primitives: one literal each, grouped by family. The lookup is closed: a new primitive needs a row here.
use crate::{OpDef, Prim, ScatterOp};
use rtx_core::{Arith, Comparison, Extremum, Fold, Function};

mod contract;
mod control;
mod convolution;
mod factor;
mod fft;
mod index;
mod movement;
mod pointwise;
mod reduce;
mod scan;
mod sort;
mod source;
mod windows;

pub use pointwise::polygamma;

/// Every definition of a primitive, once.
pub static ALL: &[&OpDef] = &[
    &source::CONSTANT,
    &source::PARAM,
    &source::IOTA,
    &source::RANDOM_BITS,
    &source::BARRIER,
    &pointwise::NEG,
    &pointwise::ABS,
    &pointwise::SIGN,
    &pointwise::FLOOR,
    &pointwise::CEIL,
    &pointwise::TRUNC,
    &pointwise::ROUND,
    &pointwise::SQRT,
    &pointwise::EXP,
    &pointwise::EXPM1,
    &pointwise::LOG,
    &pointwise::LOG1P,
    &pointwise::SIN,
    &pointwise::COS,
    &pointwise::TANH,
    &pointwise::ERF,
    &pointwise::ERFC,
    &pointwise::LGAMMA,
    &pointwise::DIGAMMA,
    &pointwise::REAL,
    &pointwise::IMAG,
    &pointwise::NOT,
    &pointwise::ADD,
    &pointwise::SUB,
    &pointwise::MUL,
    &pointwise::DIV,
    &pointwise::REM,
    &pointwise::POW,
    &pointwise::ATAN2,
    &pointwise::MAX,
    &pointwise::MIN,
    &pointwise::AND,
    &pointwise::OR,
    &pointwise::XOR,
    &pointwise::SHL,
    &pointwise::SHR,
    &pointwise::COMPLEX,
    &pointwise::EQ,
    &pointwise::LT,
    &pointwise::LE,
    &pointwise::FMA,
    &pointwise::SELECT,
    &pointwise::CAST,
    &pointwise::BITCAST,
    &movement::RESHAPE,
    &movement::PERMUTE,
    &movement::EXPAND,
    &movement::SLICE,
    &movement::PAD,
    &movement::CONCAT,
    &movement::UPDATE_SLICE,
    &index::GATHER,
    &index::SCATTER,
    &reduce::SUM,
    &reduce::PROD,
    &reduce::MAX,
    &reduce::MIN,
    &reduce::ARG,
    &scan::SUM,
    &scan::PROD,
    &scan::MAX,
    &scan::MIN,
    &scan::LINEAR,
    &sort::SORT,
    &contract::DOT_GENERAL,
    &factor::FACTOR,
    &factor::TRIANGULAR_SOLVE,
    &fft::FFT,
    &control::LOOP,
    &control::IF,
    &control::COLLECTIVE,
    &control::CUSTOM_CALL,
    &control::CHECK,
    &windows::WINDOWS,
    &windows::OVERLAP_ADD,
    &convolution::CONV_GENERAL,
];

/// The name of a primitive in text forms.
pub fn name(p: &Prim) -> &'static str {
    match p {
        Prim::Constant { .. } => "constant",
        Prim::Param { .. } => "param",
        Prim::Iota { .. } => "iota",
        Prim::RandomBits { .. } => "random_bits",
        Prim::Unary(f) => f.name(),
        Prim::Binary(f) => f.name(),
        Prim::Compare(f) => f.name(),
        Prim::Fma => "fma",
        Prim::Select => "select",
        Prim::Cast(_) => "cast",
        Prim::Bitcast(_) => "bitcast",
        Prim::Reshape(_) => "reshape",
        Prim::Permute(_) => "permute",
        Prim::Expand(_) => "expand",
        Prim::Slice { .. } => "slice",
        Prim::Pad { .. } => "pad",
        Prim::Concat { .. } => "concat",
        Prim::UpdateSlice { .. } => "update_slice",
        Prim::Gather { .. } => "gather",
        Prim::Scatter { op, .. } => match op {
            ScatterOp::Set => "scatter_set",
            ScatterOp::Add => "scatter_add",
            ScatterOp::Mul => "scatter_mul",
            ScatterOp::Min => "scatter_min",
            ScatterOp::Max => "scatter_max",
        },
        Prim::Reduce { fold, .. } => match fold {
            Fold::Sum => "reduce_sum",
            Fold::Prod => "reduce_prod",
            Fold::Max => "reduce_max",
            Fold::Min => "reduce_min",
        },
        Prim::ArgReduce { extremum, .. } => match extremum {
            Extremum::Max => "arg_max",
            Extremum::Min => "arg_min",
        },
        Prim::Scan { fold, .. } => match fold {
            Fold::Sum => "scan_sum",
            Fold::Prod => "scan_prod",
            Fold::Max => "scan_max",
            Fold::Min => "scan_min",
        },
        Prim::LinearScan { .. } => "linear_scan",
        Prim::Sort { .. } => "sort",
        Prim::Dot { .. } => "dot_general",
        Prim::Factor(_) => "factor",
        Prim::TriangularSolve { .. } => "triangular_solve",
        Prim::Fft(_) => "fft",
        Prim::Loop(_) => "loop",
        Prim::If { .. } => "if",
        Prim::Collective { .. } => "collective",
        Prim::CustomCall { .. } => "custom_call",
        Prim::Check(_) => "check",
        Prim::Windows { .. } => "windows",
        Prim::OverlapAdd { .. } => "overlap_add",
        Prim::Conv(_) => "conv_general",
        Prim::Barrier => "barrier",
    }
}

/// The definition of a primitive.
pub fn def(p: &Prim) -> &'static OpDef {
    match p {
        Prim::Constant { .. } => &source::CONSTANT,
        Prim::Param { .. } => &source::PARAM,
        Prim::Iota { .. } => &source::IOTA,
        Prim::RandomBits { .. } => &source::RANDOM_BITS,
        Prim::Unary(f) => unary(*f),
        Prim::Binary(f) => binary(*f),
        Prim::Compare(f) => compare(*f),
        Prim::Fma => &pointwise::FMA,
        Prim::Select => &pointwise::SELECT,
        Prim::Cast(_) => &pointwise::CAST,
        Prim::Bitcast(_) => &pointwise::BITCAST,
        Prim::Reshape(_) => &movement::RESHAPE,
        Prim::Permute(_) => &movement::PERMUTE,
        Prim::Expand(_) => &movement::EXPAND,
        Prim::Slice { .. } => &movement::SLICE,
        Prim::Pad { .. } => &movement::PAD,
        Prim::Concat { .. } => &movement::CONCAT,
        Prim::UpdateSlice { .. } => &movement::UPDATE_SLICE,
        Prim::Gather { .. } => &index::GATHER,
        Prim::Scatter { .. } => &index::SCATTER,
        Prim::Reduce { fold, .. } => match fold {
            Fold::Sum => &reduce::SUM,
            Fold::Prod => &reduce::PROD,
            Fold::Max => &reduce::MAX,
            Fold::Min => &reduce::MIN,
        },
        Prim::ArgReduce { .. } => &reduce::ARG,
        Prim::Scan { fold, .. } => match fold {
            Fold::Sum => &scan::SUM,
            Fold::Prod => &scan::PROD,
            Fold::Max => &scan::MAX,
            Fold::Min => &scan::MIN,
        },
        Prim::LinearScan { .. } => &scan::LINEAR,
        Prim::Sort { .. } => &sort::SORT,
        Prim::Dot { .. } => &contract::DOT_GENERAL,
        Prim::Factor(_) => &factor::FACTOR,
        Prim::TriangularSolve { .. } => &factor::TRIANGULAR_SOLVE,
        Prim::Fft(_) => &fft::FFT,
        Prim::Loop(_) => &control::LOOP,
        Prim::If { .. } => &control::IF,
        Prim::Collective { .. } => &control::COLLECTIVE,
        Prim::CustomCall { .. } => &control::CUSTOM_CALL,
        Prim::Check(_) => &control::CHECK,
        Prim::Windows { .. } => &windows::WINDOWS,
        Prim::OverlapAdd { .. } => &windows::OVERLAP_ADD,
        Prim::Conv(_) => &convolution::CONV_GENERAL,
        Prim::Barrier => &source::BARRIER,
    }
}

fn unary(f: Function) -> &'static OpDef {
    match f {
        Function::Neg => &pointwise::NEG,
        Function::Abs => &pointwise::ABS,
        Function::Sign => &pointwise::SIGN,
        Function::Floor => &pointwise::FLOOR,
        Function::Ceil => &pointwise::CEIL,
        Function::Trunc => &pointwise::TRUNC,
        Function::RoundEven => &pointwise::ROUND,
        Function::Sqrt => &pointwise::SQRT,
        Function::Exp => &pointwise::EXP,
        Function::Expm1 => &pointwise::EXPM1,
        Function::Log => &pointwise::LOG,
        Function::Log1p => &pointwise::LOG1P,
        Function::Sin => &pointwise::SIN,
        Function::Cos => &pointwise::COS,
        Function::Tanh => &pointwise::TANH,
        Function::Erf => &pointwise::ERF,
        Function::Erfc => &pointwise::ERFC,
        Function::Lgamma => &pointwise::LGAMMA,
        Function::Digamma => &pointwise::DIGAMMA,
        Function::Real => &pointwise::REAL,
        Function::Imag => &pointwise::IMAG,
        Function::Not => &pointwise::NOT,
    }
}

fn binary(f: Arith) -> &'static OpDef {
    match f {
        Arith::Add => &pointwise::ADD,
        Arith::Sub => &pointwise::SUB,
        Arith::Mul => &pointwise::MUL,
        Arith::Div => &pointwise::DIV,
        Arith::Rem => &pointwise::REM,
        Arith::Pow => &pointwise::POW,
        Arith::Atan2 => &pointwise::ATAN2,
        Arith::Max => &pointwise::MAX,
        Arith::Min => &pointwise::MIN,
        Arith::And => &pointwise::AND,
        Arith::Or => &pointwise::OR,
        Arith::Xor => &pointwise::XOR,
        Arith::Shl => &pointwise::SHL,
        Arith::Shr => &pointwise::SHR,
        Arith::Complex => &pointwise::COMPLEX,
    }
}

fn compare(f: Comparison) -> &'static OpDef {
    match f {
        Comparison::Eq => &pointwise::EQ,
        Comparison::Lt => &pointwise::LT,
        Comparison::Le => &pointwise::LE,
    }
}

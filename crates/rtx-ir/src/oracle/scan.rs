//! What scans and sorting mean, a line along the axis at a time.
use super::element::{Value, compare, fold, multiply_add};
use super::{Tensor, offset};
use crate::Type;
use rtx_core::{Comparison, DType, Fold};
use std::cmp::Ordering;

/// The offsets of every line along `axis`, each in row-major order or backwards.
fn lines(sizes: &[usize], axis: usize, reverse: bool) -> Vec<Vec<usize>> {
    let heads: Vec<usize> = sizes.iter().enumerate().map(|(i, &n)| if i == axis { 1 } else { n }).collect();
    let line = |mut at: Vec<usize>| {
        let mut line: Vec<usize> = (0..sizes[axis])
            .map(|t| {
                at[axis] = t;
                offset(sizes, &at)
            })
            .collect();
        if reverse {
            line.reverse();
        }
        line
    };
    super::indices(&heads).map(line).collect()
}

/// Folds in f64 (or i128), each element rounded once.
pub(super) fn scan(f: Fold, axis: usize, reverse: bool, x: &Tensor, ty: Type) -> Tensor {
    let mut out = x.elements.clone();
    for line in lines(&x.sizes(), axis, reverse) {
        for at in line.windows(2) {
            out[at[1]] = fold(f, out[at[0]], out[at[1]]);
        }
    }
    Tensor::new(ty, out)
}

/// In f64 (or i128), each element rounded once.
pub(super) fn linear_scan(axis: usize, reverse: bool, x: &[&Tensor], ty: Type) -> Tensor {
    let (a, b, start) = (x[0], x[1], x[2]);
    let mut out = b.elements.clone();
    for (line, &start) in lines(&b.sizes(), axis, reverse).iter().zip(&start.elements) {
        let mut state = start;
        for &at in line {
            state = multiply_add(a.elements[at], state, b.elements[at]);
            out[at] = state;
        }
    }
    Tensor::new(ty, out)
}

/// NaN is the largest number; both zeros are one.
fn order(a: Value, b: Value) -> Ordering {
    let nan = |v: Value| matches!(v, Value::Float(x) if x.is_nan());
    match (nan(a), nan(b)) {
        (false, false) if compare(Comparison::Lt, a, b) => Ordering::Less,
        (false, false) if compare(Comparison::Lt, b, a) => Ordering::Greater,
        (false, false) => Ordering::Equal,
        (l, r) => l.cmp(&r),
    }
}

/// The elements and their positions.
pub(super) fn sort(axis: usize, descending: bool, x: &Tensor) -> Vec<Tensor> {
    let mut values = x.elements.clone();
    let mut positions = vec![Value::Int(0); values.len()];
    for line in lines(&x.sizes(), axis, false) {
        let mut by: Vec<usize> = (0..line.len()).collect();
        by.sort_by(|&i, &j| {
            let order = order(x.elements[line[i]], x.elements[line[j]]);
            if descending { order.reverse() } else { order }
        });
        for (&to, &from) in line.iter().zip(&by) {
            values[to] = x.elements[line[from]];
            positions[to] = Value::Int(from as i128);
        }
    }
    let places = Type { dtype: DType::I64, shape: x.ty.shape.clone() };
    vec![Tensor::new(x.ty.clone(), values), Tensor::new(places, positions)]
}

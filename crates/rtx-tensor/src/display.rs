//! Printing values as PyTorch does.
use crate::Tensor;
use crate::read::Number;
use rtx_core::{Class, DType};
use std::fmt::{self, Write};

/// Elements past which only the edges of each dim are printed.
const SUMMARIZE: usize = 1000;
/// How many of each edge.
const EDGE: usize = 3;
const DIGITS: usize = 4;
const LINE: usize = 80;

/// Prints the values: `tensor([[1., 2.], [3., 4.]])`. Runs the work; what went wrong is printed in place of values.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = match self.numbers() {
            Ok(numbers) => numbers,
            Err(e) => return write!(f, "tensor(not computed: {e})"),
        };
        let shape = self.shape();
        let short = numbers.len() > SUMMARIZE;
        let style = Style::of(self.dtype(), &shown_numbers(&numbers, &shape, short));
        let mut text = String::from("tensor(");
        print_dim(&mut text, &numbers, &shape, &style, short, 1 + "tensor".len());
        if numbers.is_empty() && shape.len() != 1 {
            let _ = write!(text, ", size={shape:?}");
        }
        if !matches!(self.dtype(), DType::F32 | DType::I64 | DType::Bool | DType::C64) {
            let _ = write!(text, ", dtype={}", self.dtype());
        }
        if self.requires_grad() {
            text.push_str(", requires_grad=true");
        }
        text.push(')');
        f.write_str(&text)
    }
}

/// How the numbers of one tensor are written.
struct Style {
    kind: Numbers,
    /// Of complex numbers: how the imaginary parts are written.
    imaginary: Option<Numbers>,
    width: usize,
}
#[derive(Clone, Copy, PartialEq)]
enum Numbers {
    Bool,
    Int,
    /// Floats that are all integers: `1.`
    Whole,
    Fixed,
    Scientific,
}

impl Style {
    fn of(dtype: DType, shown: &[Number]) -> Self {
        let complex = dtype.class() == Class::Complex;
        let mut style = Self {
            kind: Numbers::of(dtype, shown.iter().map(|n| n.to_f64())),
            imaginary: complex.then(|| Numbers::of(dtype, shown.iter().map(|n| n.imaginary()))),
            width: 0,
        };
        style.width = shown.iter().map(|&x| style.text(x).len()).max().unwrap_or(0);
        style
    }
    fn text(&self, x: Number) -> String {
        match (self.imaginary, x) {
            (Some(kind), Number::Complex(re, im)) => {
                let sign = if im.is_sign_negative() && !im.is_nan() { "" } else { "+" };
                format!("{}{sign}{}j", self.kind.number(re), kind.number(im))
            }
            (_, Number::Int(i)) => i.to_string(),
            (_, x) => self.kind.number(x.to_f64()),
        }
    }
    fn write(&self, out: &mut String, x: Number) {
        let _ = write!(out, "{:>width$}", self.text(x), width = self.width);
    }
}

impl Numbers {
    fn of(dtype: DType, shown: impl Iterator<Item = f64> + Clone) -> Self {
        let finite = || shown.clone().filter(|x| x.is_finite());
        let largest = finite().map(f64::abs).fold(0.0, f64::max);
        let least = finite().map(f64::abs).filter(|x| *x > 0.0).fold(f64::INFINITY, f64::min);
        match dtype.class() {
            Class::Bool => Numbers::Bool,
            Class::Int => Numbers::Int,
            _ if finite().all(|x| x == x.ceil()) && largest < 1e8 => Numbers::Whole,
            _ if largest / least > 1000.0 || largest > 1e8 || least < 1e-4 => Numbers::Scientific,
            _ => Numbers::Fixed,
        }
    }
    fn number(self, x: f64) -> String {
        match self {
            Numbers::Bool => if x != 0.0 { "true" } else { "false" }.into(),
            Numbers::Int => format!("{}", x as i64),
            _ if x.is_nan() => "nan".into(),
            _ if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.into(),
            Numbers::Whole => format!("{x:.0}."),
            Numbers::Fixed => format!("{x:.DIGITS$}"),
            Numbers::Scientific => scientific(x),
        }
    }
}

/// `1.0000e+00`, as C prints it.
fn scientific(x: f64) -> String {
    let text = format!("{x:.DIGITS$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// The positions of a dim that are printed; `None` stands for the gap.
fn positions(n: usize, short: bool) -> Vec<Option<usize>> {
    if short && n > 2 * EDGE {
        (0..EDGE).map(Some).chain([None]).chain((n - EDGE..n).map(Some)).collect()
    } else {
        (0..n).map(Some).collect()
    }
}

/// The numbers that are printed, which decide the style.
fn shown_numbers(numbers: &[Number], shape: &[usize], short: bool) -> Vec<Number> {
    let Some((&n, rest)) = shape.split_first() else { return numbers.to_vec() };
    let stride = rest.iter().product::<usize>();
    let rows = positions(n, short).into_iter().flatten();
    rows.flat_map(|i| shown_numbers(&numbers[i * stride..(i + 1) * stride], rest, short)).collect()
}

fn print_dim(out: &mut String, numbers: &[Number], shape: &[usize], style: &Style, short: bool, indent: usize) {
    let Some((&n, rest)) = shape.split_first() else {
        if let Some(&x) = numbers.first() {
            style.write(out, x);
        }
        return;
    };
    let stride = rest.iter().product::<usize>();
    out.push('[');
    let per_line = ((LINE.saturating_sub(indent)) / (style.width + 2)).max(1);
    for (k, at) in positions(n, short).into_iter().enumerate() {
        if k > 0 {
            out.push(',');
            match rest.len() {
                0 if k % per_line != 0 => out.push(' '),
                0 => new_line(out, 1, indent + 1),
                deep => new_line(out, deep, indent + 1),
            }
        }
        match at {
            Some(i) => print_dim(out, &numbers[i * stride..(i + 1) * stride], rest, style, short, indent + 1),
            None => out.push_str("..."),
        }
    }
    out.push(']');
}
fn new_line(out: &mut String, lines: usize, indent: usize) {
    out.extend(std::iter::repeat_n('\n', lines));
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scientific_is_cs() {
        assert_eq!(scientific(12345.678), "1.2346e+04");
        assert_eq!(scientific(-1e-7), "-1.0000e-07");
    }
}

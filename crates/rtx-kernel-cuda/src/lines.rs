//! Kernels over lines along one axis: `scan`, `linear_scan`, `sort`. Sizes begin with `outer along inner`.
use crate::{product, type_of};
use rtx_core::Result;
use rtx_cuda::{Grid, Program, Stage, Template};
use rtx_hal::malformed;
use rustg::cuda::prelude;

/// A thread a line.
fn a_thread_a_line(s: &[i64]) -> Option<Grid> {
    Grid::over(product(&[s[0], s[2]]))
}
/// A program of one entry.
fn one(arguments: (usize, usize), text: String, entry: &'static str, grid: fn(&[i64]) -> Option<Grid>) -> Program {
    Program {
        prelude: prelude([]),
        arguments,
        text,
        stages: vec![Stage { entry, define: "", grid }],
        epilogue: None,
        fast: None,
    }
}

/// Text: `<sum|prod|max|min> <dtype> <forward|reverse>`; one element after the other, as on the CPU.
pub struct Scan;

impl Template for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[fold, dtype, way] = words.as_slice() else { return Err(malformed("scan", text)) };
        let t = type_of("scan", dtype, text)?;
        let fold = match fold {
            "sum" => "add",
            "prod" => "mul",
            "max" => "greatest",
            "min" => "least",
            _ => return Err(malformed("scan", text)),
        };
        let reverse = (way == "reverse") as u8;
        let body = format!(
            "typedef {t} T;
extern \"C\" __global__ void scan(const __grid_constant__ Args a) {{
    const i64 outer = a.s[0], along = a.s[1], inner = a.s[2], line = (i64)blockIdx.x * 256 + threadIdx.x;
    if (line >= outer * inner || along == 0) return;
    const i64 o = line / inner, c = line % inner;
    const T* x = (const T*)a.b[0] + o * a.s[3] + c * a.s[5];
    T* y = (T*)a.b[1] + o * a.s[6] + c * a.s[8];
    i64 from = {reverse} ? along - 1 : 0;
    T sum = x[from * a.s[4]];
    y[from * a.s[7]] = sum;
    for (i64 t = 1; t < along; t++) {{
        const i64 at = {reverse} ? along - 1 - t : t;
        sum = {fold}(sum, x[at * a.s[4]]);
        y[at * a.s[7]] = sum;
    }}
}}
"
        );
        Ok(one((2, 9), body, "scan", a_thread_a_line))
    }
}

/// Text: `<dtype> <forward|reverse>`. After the strides of a and b those of the start, `outer inner`, and the result's.
pub struct LinearScan;

impl Template for LinearScan {
    fn name(&self) -> &'static str {
        "linear_scan"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[dtype, way] = words.as_slice() else { return Err(malformed("linear_scan", text)) };
        let t = type_of("linear_scan", dtype, text)?;
        let reverse = (way == "reverse") as u8;
        let body = format!(
            "typedef {t} T;
extern \"C\" __global__ void linear_scan(const __grid_constant__ Args a) {{
    const i64 outer = a.s[0], along = a.s[1], inner = a.s[2], line = (i64)blockIdx.x * 256 + threadIdx.x;
    if (line >= outer * inner) return;
    const i64 o = line / inner, c = line % inner;
    const T* x = (const T*)a.b[0] + o * a.s[3] + c * a.s[5];
    const T* b = (const T*)a.b[1] + o * a.s[6] + c * a.s[8];
    T* y = (T*)a.b[3] + o * a.s[11] + c * a.s[13];
    T state = ((const T*)a.b[2])[o * a.s[9] + c * a.s[10]];
    for (i64 t = 0; t < along; t++) {{
        const i64 at = {reverse} ? along - 1 - t : t;
        state = add(mul(x[at * a.s[4]], state), b[at * a.s[7]]);
        y[at * a.s[12]] = state;
    }}
}}
"
        );
        Ok(one((4, 14), body, "linear_scan", a_thread_a_line))
    }
}

/// Text: `<dtype> <ascending|descending>`. After the strides of x those of the sorted elements and of the positions.
///
/// An element's place is how many come before it: a thread an element, which looks at its whole line. Simple, stable,
/// and slow for long lines.
pub struct Sort;

impl Template for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[dtype, way] = words.as_slice() else { return Err(malformed("sort", text)) };
        let t = type_of("sort", dtype, text)?;
        let before = if way == "descending" { "less(y, x)" } else { "less(x, y)" };
        let body = format!(
            "typedef {t} T;
// NaN is the largest number; of two, neither is less.
__device__ __forceinline__ bool less(T x, T y) {{ return x != x ? false : y != y ? true : x < y; }}
__device__ __forceinline__ bool before(T x, T y) {{ return {before}; }}
extern \"C\" __global__ void sort(const __grid_constant__ Args a) {{
    const i64 outer = a.s[0], along = a.s[1], inner = a.s[2], own = (i64)blockIdx.x * 256 + threadIdx.x;
    if (own >= outer * along * inner) return;
    const i64 c = own % inner, t = own / inner % along, o = own / inner / along;
    const T* x = (const T*)a.b[0] + o * a.s[3] + c * a.s[5];
    const T mine = x[t * a.s[4]];
    i64 place = 0;
    for (i64 u = 0; u < along; u++) {{
        const T other = x[u * a.s[4]];
        place += before(other, mine) || (u < t && !before(mine, other));
    }}
    ((T*)a.b[1])[o * a.s[6] + place * a.s[7] + c * a.s[8]] = mine;
    ((i64*)a.b[2])[o * a.s[9] + place * a.s[10] + c * a.s[11]] = t;
}}
"
        );
        Ok(one((3, 12), body, "sort", |s| Grid::over(product(&s[..3]))))
    }
}

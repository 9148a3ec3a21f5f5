//! `scatter`: updates combined into a tensor along one axis, in ascending order of their position; and `check`.
use crate::{product, type_of};
use rtx_core::Result;
use rtx_cuda::{Grid, Program, Stage, Template};
use rtx_hal::malformed;
use rustg::cuda::prelude;

/// Text: `<set|add|mul|min|max> <dtype> <copy|zero>`. Sizes: `outer size count inner`, then the strides of x
/// `outer size inner` (with `copy`), of the indices `count`, of the updates `outer count inner`, of the result
/// `outer size inner`.
pub struct Scatter;

impl Template for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[op, dtype, start] = words.as_slice() else { return Err(malformed("scatter", text)) };
        let combine = match op {
            "set" => "(y)",
            "add" => "add(x, y)",
            "mul" => "mul(x, y)",
            "min" => "least(x, y)",
            "max" => "greatest(x, y)",
            _ => return Err(malformed("scatter", text)),
        };
        let t = type_of("scatter", dtype, text)?;
        let copy = start == "copy";
        let (buffers, sizes) = if copy { (4, 14) } else { (3, 11) };
        let text = format!(
            "typedef {t} T;\n#define COMBINE(x, y) {combine}\n#define COPY {}\n{}",
            copy as u8,
            include_str!("scatter.cu")
        );
        // A warp a row of the result.
        let grid = |s: &[i64]| {
            let rows = product(&s[..2]) as u64;
            Some(Grid { blocks: rows.div_ceil(8), threads: 256, shared_bytes: 0 })
        };
        // Wrong indices are reported even where the result has no rows.
        let check = |s: &[i64]| Grid::over(s[2]);
        Ok(Program {
            prelude: prelude([]),
            arguments: (buffers, sizes),
            text,
            stages: vec![
                Stage { entry: "scatter_check", define: "", grid: check },
                Stage { entry: "scatter", define: "", grid },
            ],
            epilogue: None,
            fast: None,
        })
    }
}

/// Text: `<bytes of an element> <sentence>`. Sizes: `count conditions`, then the strides of x, of the conditions, of
/// the result.
pub struct Check;

impl Template for Check {
    fn name(&self) -> &'static str {
        "check"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let size = text.split_whitespace().next().unwrap_or_default();
        let t = match size {
            "1" => "u8",
            "2" => "u16",
            "4" => "u32",
            "8" => "u64",
            "16" => "c128",
            _ => return Err(malformed("check", text)),
        };
        let body = "extern \"C\" __global__ void check(const __grid_constant__ Args a) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i < a.s[1] && a.b[1][i * a.s[3]] == 0) report(a.fault, a.step, 0, -1);
    if (i < a.s[0] && a.b[0] != a.b[2]) ((T*)a.b[2])[i * a.s[4]] = ((const T*)a.b[0])[i * a.s[2]];
}
";
        Ok(Program {
            prelude: prelude([]),
            arguments: (3, 5),
            text: format!("typedef {t} T;\n{body}"),
            stages: vec![Stage { entry: "check", define: "", grid: |s| Grid::over(s[0].max(s[1])) }],
            epilogue: None,
            fast: None,
        })
    }
}

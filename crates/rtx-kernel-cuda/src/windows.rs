//! `conv` and `overlap_add`: what moves windows.
use crate::{head_and_epilogue, product, type_of};
use rtx_core::Result;
use rtx_cuda::{Epilogue, Grid, Program, Stage, Template};
use rtx_hal::malformed;
use rustg::cuda::prelude;

/// Text: `<dtype> <spatial> <groups>`, then for each spatial dim the strides, the low paddings, the base dilations and
/// the window dilations; from the second line on the epilogue's tile program. Sizes: `n o channels`, the spatial sizes
/// of x, of the window and of y, then the strides of x and weight, axis by axis, and of y `n o points`.
///
/// A thread an output: channel after channel, each in row-major order of the window, by fused multiply-add in chunks of
/// 512; the zeros of the padding take part.
pub struct Conv;

impl Template for Conv {
    fn name(&self) -> &'static str {
        "conv"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let wrong = || malformed("conv", text);
        let (head, epilogue) = head_and_epilogue(text);
        let (dtype, numbers) = head.trim().split_once(' ').ok_or_else(wrong)?;
        let t = type_of("conv", dtype, text)?;
        let numbers: Vec<i64> = numbers.split_whitespace().map_while(|w| w.parse().ok()).collect();
        let &[spatial, groups, ref lists @ ..] = numbers.as_slice() else { return Err(wrong()) };
        if !(1..=3).contains(&spatial) || lists.len() != 4 * spatial as usize {
            return Err(wrong());
        }
        let list = |name: &str, i: usize| {
            let of = &lists[i * spatial as usize..(i + 1) * spatial as usize];
            let of: Vec<String> = of.iter().map(i64::to_string).collect();
            format!("__device__ const i64 {name}[] = {{{}}};\n", of.join(", "))
        };
        let head = [list("STRIDE", 0), list("LOW", 1), list("BASE", 2), list("DILATION", 3)].concat();
        let sizes = 10 + 5 * spatial as usize;
        Ok(Program {
            prelude: prelude([]),
            arguments: (3, sizes),
            text: format!(
                "typedef {t} T;\n#define D {spatial}\n#define GROUPS {groups}ll\n{head}{}",
                include_str!("conv.cu")
            ),
            stages: vec![Stage {
                entry: "conv",
                define: "",
                // The sizes of y are the third list.
                grid: |s| {
                    let spatial = (s.len() - 10) / 5;
                    Grid::over(product(&s[..2]) * product(&s[3 + 2 * spatial..3 + 3 * spatial]))
                },
            }],
            epilogue: (!epilogue.trim().is_empty()).then(|| Epilogue {
                text: epilogue.to_owned(),
                first_buffer: 2,
                first_size: sizes,
            }),
            fast: None,
        })
    }
}

/// Text: `<dtype> <stride> <dilation>`. Sizes: `outer count inner window length`, then the strides of x
/// `outer count inner window` and of the result `outer length inner`. Each element adds its windows in ascending order.
pub struct OverlapAdd;

impl Template for OverlapAdd {
    fn name(&self) -> &'static str {
        "overlap_add"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[dtype, stride, dilation] = words.as_slice() else { return Err(malformed("overlap_add", text)) };
        let t = type_of("overlap_add", dtype, text)?;
        let number = |w: &str| w.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| malformed("overlap_add", text));
        let (stride, dilation) = (number(stride)?, number(dilation)?);
        let body = format!(
            "typedef {t} T;
extern \"C\" __global__ void overlap_add(const __grid_constant__ Args a) {{
    const i64 outer = a.s[0], count = a.s[1], inner = a.s[2], window = a.s[3], length = a.s[4];
    const i64 own = (i64)blockIdx.x * 256 + threadIdx.x, stride = {stride}, dilation = {dilation};
    if (own >= outer * length * inner) return;
    const i64 c = own % inner, j = own / inner % length, o = own / inner / length;
    const i64 reach = (window > 0 ? window - 1 : 0) * dilation;
    i64 first = j > reach ? (j - reach + stride - 1) / stride : 0, end = j / stride + 1;
    if (end > count) end = count;
    if (window == 0) end = 0;
    T sum = (T)0;
    for (i64 i = first; i < end; i++) {{
        const i64 into = j - i * stride;
        if (into % dilation == 0)
            sum = add(sum, ((const T*)a.b[0])[o * a.s[5] + i * a.s[6] + c * a.s[7] + into / dilation * a.s[8]]);
    }}
    ((T*)a.b[1])[o * a.s[9] + j * a.s[10] + c * a.s[11]] = sum;
}}
"
        );
        Ok(Program {
            prelude: prelude([]),
            arguments: (2, 12),
            text: body,
            stages: vec![Stage {
                entry: "overlap_add",
                define: "",
                grid: |s| Grid::over(product(&[s[0], s[4], s[2]])),
            }],
            epilogue: None,
            fast: None,
        })
    }
}

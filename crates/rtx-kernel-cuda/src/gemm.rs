//! `gemm`: batched matrix products of any strides.
//!
//! Text: `<dtype>`, or `<half> <dtype of C>`: halves are multiplied by tensor cores and summed in f32, in an order that
//! is the hardware's; then from the second line on the epilogue's tile program. Sizes: `b0 b1 m n k`, then the strides of
//! A `b0 b1 m k`, of B `b0 b1 k n`, of C `b0 b1 m n`.
use crate::{gemm_groups, head_and_epilogue, product, type_of};
use rtx_core::Result;
use rtx_cuda::{Epilogue, Grid, Program, Stage, Template};
use rustg::cuda::prelude;

/// Sizes before those of the epilogue.
const SIZES: usize = 17;

/// The kernel `gemm`.
pub struct Gemm;

impl Template for Gemm {
    fn name(&self) -> &'static str {
        "gemm"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let (head, epilogue) = head_and_epilogue(text);
        let (dtype, out) = head.trim().split_once(' ').unwrap_or((head.trim(), head.trim()));
        let t = type_of("gemm", dtype, text)?;
        let epilogue = (!epilogue.trim().is_empty()).then(|| Epilogue {
            text: epilogue.to_owned(),
            first_buffer: 2,
            first_size: SIZES,
        });
        let halves = matches!(t, "f16" | "bf16");
        let (out, sum, tiled) = match halves {
            true => (type_of("gemm", out, text)?, "f32", include_str!("gemm_half.cu").to_owned()),
            false => {
                let (narrow, tiled) = (include_str!("gemm_narrow.cu"), include_str!("gemm.cu"));
                (t, t, format!("#if NARROW\n{narrow}#else\n{tiled}#endif\n"))
            }
        };
        let mut stages = vec![Stage { entry: "gemm_vector", define: "#define VECTOR 1\n", grid: vector }];
        stages.extend(match t {
            "f16" | "bf16" => half_stages(),
            // Numbers of 64 bits have too many registers for the large tile.
            "f64" | "i64" | "u64" => vec![narrow(), small(|s| tiles(s, 64).filter(|_| !is_narrow(s)))],
            "f32" | "i32" | "u32" => {
                vec![narrow(), small(|s| tiles(s, 64).filter(|_| !is_large(s) && !is_narrow(s))), large()]
            }
            // Fewer bytes than a thread fetches.
            _ => vec![small(|s| tiles(s, 64).filter(|_| !is_large(s))), large()],
        });
        Ok(Program {
            prelude: prelude([]),
            arguments: (3, SIZES),
            text: format!(
                "typedef {t} T;\ntypedef {out} O;\ntypedef {sum} Sum;\n#define HALF \"{t}\"\n\
                 #if VECTOR\n{}#else\n{tiled}#endif\n",
                include_str!("gemm_vector.cu")
            ),
            stages,
            epilogue,
            fast: if halves { gemm_groups::fast(t, out) } else { None },
        })
    }
}

/// Tiles of 128.
fn large() -> Stage {
    Stage {
        entry: "gemm_large",
        define: "#define VECTOR 0\n#define LARGE 1\n",
        grid: |s| tiles(s, 128).filter(|_| is_large(s)),
    }
}

/// Tiles of 16, a thread an output.
fn narrow() -> Stage {
    Stage {
        entry: "gemm_narrow",
        define: "#define VECTOR 0\n#define NARROW 1\n",
        grid: |s| tiles(s, 16).filter(|_| is_narrow(s)),
    }
}

/// Tiles of 64 would leave processors idle.
fn is_narrow(s: &[i64]) -> bool {
    tiles(s, 64).is_some_and(|g| g.blocks < 100)
}

fn small(grid: fn(&[i64]) -> Option<Grid>) -> Stage {
    Stage { entry: "gemm_small", define: "#define VECTOR 0\n#define LARGE 0\n", grid }
}

/// One entry for each way in which the two operands may lie.
fn half_stages() -> Vec<Stage> {
    let entry = "gemm_half";
    vec![
        Stage { entry, define: "#define A_ALONG 1\n#define B_ALONG 1\n", grid: |s| half(s, true, true) },
        Stage { entry, define: "#define A_ALONG 1\n#define B_ALONG 0\n", grid: |s| half(s, true, false) },
        Stage { entry, define: "#define A_ALONG 0\n#define B_ALONG 1\n", grid: |s| half(s, false, true) },
        Stage { entry, define: "#define A_ALONG 0\n#define B_ALONG 0\n", grid: |s| half(s, false, false) },
    ]
}

/// Halves, where p lies side by side in A, in B, or not.
fn half(s: &[i64], a_along: bool, b_along: bool) -> Option<Grid> {
    let fits = (s[8] == 1) == a_along && (s[11] == 1) == b_along;
    tiles(s, 128).filter(|_| fits).map(|g| Grid { shared_bytes: 3 * 2 * 128 * 40 * 2, ..g })
}

/// One row or one column: the tree of 16 lanes, half a warp an output.
fn vector(s: &[i64]) -> Option<Grid> {
    (s[2] == 1 || s[3] == 1).then(|| Grid {
        blocks: (product(&s[..4]) as u64).div_ceil(16),
        threads: 256,
        shared_bytes: 0,
    })
}

/// Enough tiles of 128 for every processor.
fn is_large(s: &[i64]) -> bool {
    let tiles = |n: i64| (n.max(0) as u64).div_ceil(128);
    s[2] >= 128 && s[3] >= 128 && tiles(s[2]) * tiles(s[3]) * product(&s[..2]) as u64 >= 100
}

fn tiles(s: &[i64], tile: u64) -> Option<Grid> {
    let count = |n: i64| (n.max(0) as u64).div_ceil(tile);
    let blocks = count(s[2]) * count(s[3]) * product(&s[..2]) as u64;
    (s[2] != 1 && s[3] != 1).then_some(Grid { blocks, threads: 256, shared_bytes: 0 })
}

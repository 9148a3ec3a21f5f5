//! `gemm`: batched matrix products of any strides.
//!
//! Text: `<dtype>`, then from the second line on the epilogue's tile program. Sizes: `b0 b1 m n k`, then the strides of
//! A `b0 b1 m k`, of B `b0 b1 k n`, of C `b0 b1 m n`.
use crate::{head_and_epilogue, product, type_of};
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
        let (dtype, epilogue) = head_and_epilogue(text);
        let t = type_of("gemm", dtype.trim(), text)?;
        Ok(Program {
            prelude: prelude([]),
            arguments: (3, SIZES),
            text: format!(
                "typedef {t} T;\n#define LARGE {}\n{}",
                !matches!(t, "f64" | "i64") as u8,
                include_str!("gemm.cu")
            ),
            // Numbers of 64 bits have too many registers for the large tile.
            stages: if matches!(t, "f64" | "i64") {
                vec![
                    Stage { entry: "gemm_vector", grid: vector },
                    Stage { entry: "gemm_small", grid: |s| tiles(s, 64) },
                ]
            } else {
                vec![
                    Stage { entry: "gemm_vector", grid: vector },
                    Stage { entry: "gemm_small", grid: |s| tiles(s, 64).filter(|_| !is_large(s)) },
                    Stage { entry: "gemm_large", grid: |s| tiles(s, 128).filter(|_| is_large(s)) },
                ]
            },
            epilogue: (!epilogue.trim().is_empty()).then(|| Epilogue {
                text: epilogue.to_owned(),
                first_buffer: 2,
                first_size: SIZES,
            }),
        })
    }
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

//! Products of halves by warp groups on sm_90a: which tiles serve which sizes.
use crate::hopper::{self, Left};
use crate::product;
use rtx_cuda::{Fast, FastPlan, Grid, Shot, TensorMap};

/// Steps along the summed axis that filling and emptying the pipeline costs.
const START: f64 = 8.0;
/// As many more where blocks share the summed axis.
const MEET: f64 = 6.0;

/// The kernels for operands of type `half` and a result of type `out`, where there are any.
pub(crate) fn fast(half: &'static str, out: &'static str) -> Option<Fast> {
    if out != half && out != "f32" {
        return None;
    }
    Some(Fast {
        arch: "sm_90a",
        text: include_str!("gemm_groups.cu").to_owned(),
        plan: Box::new(move |sizes, processors| plan(half, out, sizes, processors)),
    })
}

/// Columns of a tile and blocks that share the summed axis: the fastest by a rough model.
fn tile(m: i64, n: i64, k: i64, batches: i64, processors: i64) -> (i64, i64) {
    let steps = (k as u64).div_ceil(64) as i64;
    let time = |&(columns, split): &(i64, i64)| {
        let tiles = ((m as u64).div_ceil(128) * (n as u64).div_ceil(columns as u64)) as i64 * batches;
        let rounds = ((tiles * split) as u64).div_ceil(processors as u64) as f64;
        let (step, meet) = (if columns == 256 { 1.0 } else { 0.56 }, if split > 1 { MEET } else { 0.0 });
        rounds * (step * (steps / split) as f64 + START + meet)
    };
    let choices = [(256, 1), (128, 1), (256, 2), (128, 2), (256, 4)];
    let fits = |c: &&(i64, i64)| steps % c.1 == 0 && steps / c.1 >= 4 || c.1 == 1;
    choices.iter().filter(fits).min_by(|a, b| time(a).total_cmp(&time(b))).copied().unwrap_or((256, 1))
}

fn plan(half: &str, out: &str, s: &[i64], processors: usize) -> Option<FastPlan> {
    let &[b0, b1, m, n, k, ..] = s else { return None };
    let small = m < 64 || n < 32 || k < 32 || m >= 1 << 30 || n >= 1 << 30 || k >= 1 << 30;
    let batches = product(&[b0, b1]);
    if small || batches == 0 || batches > 1 << 16 {
        return None;
    }
    let wide = out == "f32" && half != "f32";
    let (columns, split) = tile(m, n, k, batches, processors as i64);
    let a_down = s[8] != 1;
    let b_down = s[11] != 1;
    // The result's neighbours lie side by side.
    if a_down && s[7] != 1 || b_down && s[12] != 1 || s[16] != 1 {
        return None;
    }
    let a = match a_down {
        false => TensorMap::new(0, [k, m, b1, b0], [s[7], s[6], s[5]], 128),
        true => TensorMap::new(0, [m, k, b1, b0], [s[8], s[6], s[5]], 64),
    };
    let b = match b_down {
        false => TensorMap::new(1, [k, n, b1, b0], [s[12], s[10], s[9]], columns as u32),
        true => TensorMap::new(1, [n, k, b1, b0], [s[11], s[10], s[9]], 64),
    };
    let mut maps = vec![a?, b?];
    if !wide {
        maps.push(TensorMap::new(2, [n, m, b1, b0], [s[15], s[14], s[13]], 64)?);
    } else if [s[13], s[14], s[15]].iter().any(|stride| stride % 2 != 0) {
        return None;
    }
    let left = if a_down { Left::Across } else { Left::Along };
    let define = format!(
        "#define HALF \"{half}\"\n#define BN {columns}\n#define STAGES 4\n#define SPLIT {split}\n#define A_DOWN {}\n#define \
         B_DOWN {}\n#define WIDE_OUT {}\n{}{}",
        u8::from(a_down),
        u8::from(b_down),
        u8::from(wide),
        hopper::PRELUDE,
        hopper::products("products", columns as usize, half, left, b_down)
    );
    let tiles = (m as u64).div_ceil(128) * (n as u64).div_ceil(columns as u64) * batches as u64;
    let blocks = if split > 1 { tiles * split as u64 } else { tiles.min(processors as u64) };
    let shared_bytes = 1024 + 4 * (16384 + columns as u32 * 128) + 32768 + 64;
    let grid = Grid { blocks, threads: 384, shared_bytes };
    Some(FastPlan { shots: vec![Shot { entry: "gemm_groups", define, grid, maps }], scratch: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_the_processors() {
        // Many tiles: the large one, alone. Few tiles and a long sum: shared.
        assert_eq!(tile(8192, 8192, 8192, 1, 132), (256, 1));
        assert!(tile(768, 768, 16384, 1, 132).1 > 1);
    }

    #[test]
    fn layouts() {
        // A and B with p side by side, a result of halves: three maps; of f32: two, and nothing for odd rows.
        let sizes = |c: i64| [1, 1, 256, 512, 128, 0, 0, 128, 1, 0, 0, 1, 128, 0, 0, c, 1];
        let maps = |out, c| plan("bf16", out, &sizes(c), 132).map(|p| p.shots[0].maps.len());
        assert_eq!((maps("bf16", 512), maps("f32", 512), maps("f32", 511)), (Some(3), Some(2), None));
        assert_eq!(maps("bf16", 516), None);
    }
}

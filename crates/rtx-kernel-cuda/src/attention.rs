//! `attention` and `attention_backward` of halves, without mask: by warp groups where the copy engine takes the operands
//! as they lie, else a warp a row.
//!
//! Text: `<half> causal=<bool> scale=<bits of an f64, hex> mask=none kv_len=false`, and `head=<size>`, which is d and e.
//! Sizes: as the CPU's: `b h t s d e`, then strides: query, key, value, out `b h rows columns`, lse `b h t`; backward then
//! those of out's cotangent and of the results.
use crate::hopper::{self, Left};
use crate::{product, type_of};
use rtx_core::Result;
use rtx_cuda::{Fast, FastPlan, Grid, Program, Shot, Stage, Template, TensorMap};
use rtx_hal::malformed;
use rustg::cuda::prelude;

/// The kernel `attention`.
pub struct Attention;
/// The kernel `attention_backward`.
pub struct AttentionBackward;

impl Template for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let settings = Settings::parse(text).ok_or_else(|| malformed("attention", text))?;
        let stage = Stage { entry: "attention_plain", define: "#define BACKWARD 0\n#define COLUMNS 0\n", grid: rows };
        settings.program((5, 25), vec![stage], forward)
    }
}

impl Template for AttentionBackward {
    fn name(&self) -> &'static str {
        "attention_backward"
    }
    fn program(&self, text: &str) -> Result<Program> {
        let settings = Settings::parse(text).ok_or_else(|| malformed("attention_backward", text))?;
        let (entry, define) = ("attention_plain", "#define BACKWARD 1\n#define COLUMNS 0\n");
        let stages = vec![
            Stage { entry, define, grid: rows },
            Stage { entry, define: "#define BACKWARD 1\n#define COLUMNS 1\n", grid: keys },
        ];
        settings.program((9, 41), stages, backward)
    }
}

/// Eight warps a block.
fn warps(work: i64) -> Option<Grid> {
    Some(Grid { blocks: (work as u64).div_ceil(8), threads: 256, shared_bytes: 0 })
}
fn rows(s: &[i64]) -> Option<Grid> {
    warps(product(&s[..3]))
}
fn keys(s: &[i64]) -> Option<Grid> {
    warps(product(&[s[0], s[1], s[3]]))
}

/// What is fixed by the text.
#[derive(Clone)]
struct Settings {
    half: &'static str,
    causal: bool,
    scale: f64,
    head: u32,
}

type Plan = fn(&Settings, &[i64]) -> Option<FastPlan>;

impl Settings {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let half = type_of("attention", words.next()?, text).ok().filter(|t| matches!(*t, "bf16" | "f16"))?;
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let causal = field("causal")?.parse().ok()?;
        let scale = f64::from_bits(u64::from_str_radix(field("scale")?, 16).ok()?);
        (field("mask")? == "none" && field("kv_len")? == "false").then_some(())?;
        let head = field("head")?.parse().ok().filter(|n| matches!(n, 64 | 128))?;
        Some(Self { half, causal, scale, head })
    }

    fn defines(&self) -> String {
        let number = |x: f64| format!("__uint_as_float(0x{:x}u)", (x as f32).to_bits());
        format!(
            "typedef {} T;\n#define HALF \"{}\"\n#define HD {}\n#define CAUSAL {}\n#define SCALE {}\n#define SCALE2 {}\n",
            self.half,
            self.half,
            self.head,
            u8::from(self.causal),
            number(self.scale),
            number(self.scale * std::f64::consts::LOG2_E)
        )
    }

    fn program(self, arguments: (usize, usize), stages: Vec<Stage>, plan: Plan) -> Result<Program> {
        let text = [self.defines().as_str(), include_str!("attention.cu")].concat();
        let fast = Fast {
            arch: "sm_90a",
            text: include_str!("attention_groups.cu").to_owned(),
            plan: Box::new(move |sizes, _| plan(&self, sizes)),
        };
        Ok(Program { prelude: prelude([]), arguments, text, stages, epilogue: None, fast: Some(fast) })
    }

    fn shot(&self, part: u8, entry: &'static str, grid: Grid, maps: Vec<TensorMap>) -> Shot {
        let (half, head) = (self.half, self.head as usize);
        let products = match part {
            0 => [
                hopper::products("products_score", 128, half, Left::Along, false),
                hopper::products("products_value", head, half, Left::Registers, true),
                String::new(),
            ],
            1 => [String::new(), String::new(), String::new()],
            _ => [
                hopper::products("products_score", 64, half, Left::Along, false),
                hopper::products("products_value", head, half, Left::Registers, true),
                hopper::products("products_rows", 64, half, Left::Registers, false),
            ],
        };
        let define = format!("{}#define PART {part}\n{}{}", self.defines(), hopper::PRELUDE, products.concat());
        Shot { entry, define, grid, maps }
    }
}

/// A buffer `b h rows columns` whose strides begin at `at`, in boxes of so many rows.
fn map(s: &[i64], buffer: usize, at: usize, rows: i64, lines: u32) -> Option<TensorMap> {
    let &[b, h, row, column] = s.get(at..at + 4)? else { return None };
    (column == 1).then_some(())?;
    TensorMap::new(buffer, [s[4], rows, s[1], s[0]], [row, h, b], lines)
}

/// Blocks of 128 rows of every head.
fn blocks(s: &[i64], rows: i64) -> Option<u64> {
    let blocks = product(&s[..2]) as u64 * (rows as u64).div_ceil(128);
    (rows > 0 && blocks > 0 && rows < 1 << 24 && blocks < 1 << 30).then_some(blocks)
}

fn forward(settings: &Settings, s: &[i64]) -> Option<FastPlan> {
    let (t, keys) = (s[2], s[3]);
    blocks(s, keys)?;
    let grid = Grid { blocks: blocks(s, t)?, threads: 384, shared_bytes: 1024 + 5 * settings.head * 256 + 128 };
    let maps = vec![map(s, 0, 6, t, 128)?, map(s, 1, 10, keys, 128)?, map(s, 2, 14, keys, 128)?, map(s, 3, 18, t, 64)?];
    Some(FastPlan { shots: vec![settings.shot(0, "attention_groups", grid, maps)], scratch: 0 })
}

fn backward(settings: &Settings, s: &[i64]) -> Option<FastPlan> {
    let (t, keys, head) = (s[2], s[3], settings.head);
    let (row_blocks, key_blocks) = (blocks(s, t)?, blocks(s, keys)?);
    let rows = row_blocks * 128;
    // Reads out and its cotangent 16 bytes at a time, too.
    let (out, cotangent) = (map(s, 3, 18, t, 64)?, map(s, 5, 25, t, 64)?);
    let delta = Grid { blocks: (rows * u64::from(head) / 8).div_ceil(256), threads: 256, shared_bytes: 0 };
    let small = vec![
        map(s, 0, 6, t, 64)?,
        map(s, 1, 10, keys, 128)?,
        map(s, 2, 14, keys, 128)?,
        cotangent.clone(),
        map(s, 7, 33, keys, 64)?,
        map(s, 8, 37, keys, 64)?,
    ];
    let large = vec![
        map(s, 0, 6, t, 128)?,
        map(s, 1, 10, keys, 64)?,
        map(s, 2, 14, keys, 64)?,
        TensorMap { lines: 128, ..cotangent.clone() },
        map(s, 6, 29, t, 64)?,
    ];
    let by_keys =
        Grid { blocks: key_blocks, threads: 256, shared_bytes: 1024 + 512 * head + 6 * 128 * head + 6 * 256 + 128 };
    let by_rows = Grid { blocks: row_blocks, threads: 384, shared_bytes: 1024 + 512 * head + 7 * 128 * head + 128 };
    let shots = vec![
        settings.shot(1, "attention_delta", delta, vec![out, cotangent]),
        settings.shot(2, "attention_keys", by_keys, small),
        settings.shot(3, "attention_queries", by_rows, large),
    ];
    Some(FastPlan { shots, scratch: 8 * rows as usize })
}

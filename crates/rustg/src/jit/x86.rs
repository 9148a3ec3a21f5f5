//! Printing a body for AVX-512 or AVX2: registers by linear scan, a loop over rows around a loop over columns, tails
//! by mask.
//!
//! ```text
//! for each block of R rows, then each row that is left:
//!     for each stage: once a row, what does not vary over the columns; or a loop:
//!         broadcast what serves the row; clear accumulators
//!         while 16·U columns are left: the body, for every row and U groups of 16 columns side by side
//!         while any is left:           the body, lanes beyond the end masked
//!         fold accumulators by halves
//! ```
//! Where rows are folded, R rows are done side by side, so that their chains of operations overlap; else U groups.
//! Multiply and add are never joined: an fma is one only where the tile program says so.
//!
//! A group is as wide as a register: 16 columns in AVX-512; in AVX2 8, and a fold takes them by twos. Registers are
//! known by their numbers as if all were of AVX-512; AVX2 has 16 of them, and its masks are among them.
mod avx2;
mod avx512;
mod encode;
mod folds;

use self::encode::*;
use super::body::{Bin, Cmp, EQ, FoldOp, Form, Logic, Mop, NE, UNORDERED, Un, Uniform, V};
use super::region::{Folded, Mem, Region, Stage};
use crate::Isa;
use iced_x86::code_asm::CodeAssembler;
use iced_x86::{Code, FastFormatter, IcedError, Instruction, MemoryOperand, Register};
use std::collections::HashMap;
use std::fmt::Write;

/// Is there code for an operation?
pub(super) fn has(mop: &Mop, isa: Isa) -> bool {
    isa != Isa::Avx2 || avx2::has(mop)
}

/// Machine code and the literals that it reads.
pub(super) struct Printed {
    pub bytes: Vec<u8>,
    pub literals: Vec<u64>,
    /// The code as text, if asked for.
    pub listing: String,
}

/// Operands of one piece of code, at most.
pub(crate) const MOST_MEMS: usize = 40;
/// Rows that are done side by side, at most.
pub(crate) const MOST_ROWS: usize = 4;
/// Words of the frame before the operands: rows, columns, constants, literals, and two that the code sets.
pub(super) const FRAME_HEAD: usize = 6;
/// Words of the frame: operands' pointers and pitches, then pointers to rows that have no register.
pub(super) const FRAME_WORDS: usize = FRAME_HEAD + (2 + MOST_ROWS) * MOST_MEMS;

/// Why a region is not printed.
#[derive(Debug)]
pub(super) enum Refused {
    /// It needs more registers, or operands, than there are.
    Large,
    /// There is no code for something in it.
    Unknown,
}
impl From<IcedError> for Refused {
    fn from(_: IcedError) -> Self {
        Refused::Unknown
    }
}

const ROWS: i64 = 0;
const COLS: i64 = 8;
const CONSTS: i64 = 16;
const LITERALS: i64 = 24;
/// Elements from a row to the one that takes its place in the next block.
const AHEAD: i64 = 32;
/// Columns that are left, while some lanes are masked.
const REST: i64 = 40;
/// Bytes to fetch ahead in one long row.
const AHEAD_BYTES: i64 = 2048;
fn pointer_at(m: u32) -> i64 {
    8 * (FRAME_HEAD as i64 + 2 * m as i64)
}
fn pitch_at(m: u32) -> i64 {
    pointer_at(m) + 8
}
/// Where a row's pointer is kept that has no register.
fn row_at(m: u32, row: usize) -> i64 {
    8 * (FRAME_HEAD + 2 * MOST_MEMS + row * MOST_MEMS) as i64 + 8 * m as i64
}

const BASES: [Register; 8] = [
    Register::R8,
    Register::R9,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// The mask of the lanes that there are; of their upper half.
const TAIL: Register = Register::K1;
const TAIL_UPPER: Register = Register::K7;

/// Prints a region.
pub(super) fn print(region: &Region, isa: Isa, listing: bool) -> Result<Printed, Refused> {
    let stages = region.stages(isa).ok_or(Refused::Unknown)?;
    if region.mems.len() > MOST_MEMS {
        return Err(Refused::Large);
    }
    let longest = stages.iter().map(|s| s.mops.len()).max().unwrap_or(0);
    let most = match longest {
        0..=16 => 4,
        17..=90 => 4,
        _ => 2,
    };
    let folds = folds(&stages);
    // Rows that are read again stay in the first level of cache if they are few.
    let rows = if stages.len() > 1 { most.min(2) } else { most };
    let mut shape = Shape { rows: if folds { rows } else { 1 }, across: most, together: 4 };
    if isa == Isa::Avx2 {
        shape = Shape { rows: if folds { most.min(2) } else { 1 }, across: if folds { 2 } else { most }, together: 4 };
    }
    loop {
        match Printer::new(region, &stages, isa, shape).whole(listing) {
            Err(Refused::Large) => shape = shape.smaller(isa, folds).ok_or(Refused::Large)?,
            result => return result,
        }
    }
}
/// Is anything of a row needed more than once?
fn folds(stages: &[Stage]) -> bool {
    stages.len() > 1 || stages.iter().any(|s| !s.folds.is_empty())
}

/// Which fused multiplication.
#[derive(Clone, Copy)]
enum Kind {
    /// `a * b + c` of 4 bytes.
    F,
    /// `c - a * b` of 4 bytes.
    MinusF,
    /// `a * b + c` of 8 bytes.
    D,
}

/// How much is done side by side.
#[derive(Clone, Copy)]
struct Shape {
    /// Rows.
    rows: usize,
    /// Groups of columns of a single row.
    across: usize,
    /// Groups whose operations are mixed; the others follow them.
    together: usize,
}
impl Shape {
    /// The next one to try when registers do not suffice.
    fn smaller(self, isa: Isa, folds: bool) -> Option<Shape> {
        let Shape { rows, across, together } = self;
        Some(match isa {
            Isa::Avx2 if together > 2 && folds => Shape { together: 2, ..self },
            Isa::Avx2 if rows > 1 => Shape { rows: rows / 2, ..self },
            Isa::Avx2 if across > 1 && !folds => Shape { across: across - 1, together: across - 1, ..self },
            Isa::Avx2 if together > 1 && folds => Shape { together: 1, ..self },
            Isa::Avx2 => return None,
            _ if rows > 1 => Shape { rows: rows / 2, ..self },
            _ if across > 1 => Shape { across: across / 2, ..self },
            _ => return None,
        })
    }
}

/// Registers of an accumulator.
struct Accumulator {
    op: FoldOp,
    out: Option<u32>,
    scalar: Option<u32>,
    /// In the order of lanes.
    vectors: Vec<u8>,
    /// Lanes that have met a NaN.
    seen_nan: Register,
}

/// A register, or a number in memory that is broadcast.
#[derive(Clone, Copy)]
enum Operand {
    Reg(Register),
    Mem(MemoryOperand),
}

struct Printer<'a> {
    asm: CodeAssembler,
    region: &'a Region,
    stages: &'a [Stage],
    /// Of the stage under way.
    mops: &'a [Mop],
    /// The last operation of the stage that reads each value.
    last: Vec<usize>,
    /// Does anything come of each value?
    live: Vec<bool>,
    isa: Isa,
    shape: Shape,
    /// How many rows are done side by side.
    rows: usize,
    /// Groups of each row in the body under way.
    across: usize,
    /// Of each row.
    accumulators: Vec<Vec<Accumulator>>,
    literals: Vec<u64>,
    /// Counting registers only.
    dry: bool,
    masked: bool,
    free: Vec<u8>,
    free_masks: Vec<u8>,
    least_free: usize,
    /// Uniforms that stay in registers while a stage loops, by row.
    held: HashMap<(Uniform, usize), u8>,
    /// Uniforms that the operation under way has brought, where it cannot broadcast from memory.
    brought: HashMap<(Uniform, usize), u8>,
    /// What stages made of each row, by step.
    scalars: HashMap<(u32, usize), u8>,
    /// Registers of each value in each group.
    at: Vec<Vec<Register>>,
    /// Registers for the instruction under way.
    temporaries: Vec<u8>,
    /// Operands that an earlier stage has fetched ahead.
    fetched: Vec<u32>,
    error: Option<IcedError>,
}

impl<'a> Printer<'a> {
    fn new(region: &'a Region, stages: &'a [Stage], isa: Isa, shape: Shape) -> Self {
        Printer {
            asm: CodeAssembler::new(64).unwrap_or_else(|_| unreachable!("64 is a width that it knows")),
            region,
            stages,
            mops: &[],
            last: vec![],
            live: vec![],
            isa,
            shape,
            rows: 1,
            across: 1,
            accumulators: vec![],
            literals: if isa == Isa::Avx2 { avx2::tail_masks() } else { vec![] },
            dry: false,
            masked: false,
            free: vec![],
            free_masks: vec![],
            least_free: 32,
            held: HashMap::new(),
            brought: HashMap::new(),
            scalars: HashMap::new(),
            at: vec![],
            temporaries: vec![],
            fetched: vec![],
            error: None,
        }
    }

    /// Columns of a group.
    fn lanes(&self) -> usize {
        if self.isa == Isa::Avx2 { 8 } else { 16 }
    }
    /// Groups that a row goes on by, at least: a fold has 16 lanes.
    fn least_across(&self) -> usize {
        if self.isa == Isa::Avx2 && folds(self.stages) { 2 } else { 1 }
    }

    fn whole(mut self, listing: bool) -> Result<Printed, Refused> {
        let Shape { rows, across, .. } = self.shape;
        let mems = self.region.mems.iter().filter(|m| !matches!(m, Mem::Const(..))).count();
        let saved: Vec<Register> = BASES[2..].iter().copied().take((mems * rows).saturating_sub(2)).collect();
        for &r in &saved {
            self.put(Instruction::with1(Code::Push_r64, r));
        }
        self.load_gpr(Register::R11, COLS);
        self.load_gpr(Register::RSI, CONSTS);
        self.load_gpr(Register::RDX, LITERALS);
        let (mut single, mut end) = (self.asm.create_label(), self.asm.create_label());
        if rows > 1 {
            self.put(Instruction::with2(Code::Cmp_rm64_imm8, frame(ROWS), rows as i32));
            self.asm.jl(single)?;
            self.blocks_of_rows(rows, self.least_across())?;
            self.asm.set_label(&mut single)?;
            self.put(Instruction::with2(Code::Cmp_rm64_imm8, frame(ROWS), 0i32));
            self.asm.je(end)?;
        }
        self.blocks_of_rows(1, across)?;
        if rows > 1 {
            self.asm.set_label(&mut end)?;
            self.asm.nop()?;
        }
        if !self.region.past.is_empty() {
            self.asm.sfence()?;
        }
        for &r in saved.iter().rev() {
            self.put(Instruction::with1(Code::Pop_r64, r));
        }
        self.asm.vzeroupper()?;
        self.asm.ret()?;
        if let Some(error) = self.error {
            return Err(error.into());
        }
        let listing = if listing { self.listing() } else { String::new() };
        Ok(Printed { bytes: self.asm.assemble(0)?, literals: self.literals, listing })
    }

    /// A loop over blocks of so many rows, until fewer are left.
    fn blocks_of_rows(&mut self, rows: usize, across: usize) -> Result<(), Refused> {
        self.rows = rows;
        let avx2 = self.isa == Isa::Avx2;
        self.free = (0..if avx2 { 16 } else { 32 }).rev().collect();
        self.free_masks = if avx2 { vec![] } else { (2..7).rev().collect() };
        self.scalars.clear();
        self.held.clear();
        self.fetched.clear();
        if self.fetches_rows() {
            let made = Instruction::with3(Code::Imul_r64_rm64_imm32, Register::RAX, Register::R11, rows as i32);
            self.put(made);
            self.put(Instruction::with2(Code::Mov_rm64_r64, frame(AHEAD), Register::RAX));
        }
        let mut next = self.asm.create_label();
        if let [stage] = self.stages {
            self.prepare(stage, across)?;
            self.broadcast_held(false);
            self.asm.set_label(&mut next)?;
            self.point_at_rows();
            self.columns_of(stage, across)?;
        } else {
            self.asm.set_label(&mut next)?;
            self.point_at_rows();
            for stage in self.stages {
                if stage.is_loop {
                    self.prepare(stage, across)?;
                    self.broadcast_held(false);
                    self.columns_of(stage, across)?;
                } else {
                    self.once_a_row(stage)?;
                }
            }
        }
        self.put(Instruction::with2(Code::Sub_rm64_imm8, frame(ROWS), rows as i32));
        self.put(Instruction::with2(Code::Cmp_rm64_imm8, frame(ROWS), rows as i32));
        self.asm.jge(next)?;
        Ok(())
    }
    /// Is what is fetched ahead the next block of rows? Else it is a little further in the same row.
    fn fetches_rows(&self) -> bool {
        folds(self.stages) && !self.region.ahead.is_empty()
    }
    /// Asks for the lines that lie ahead of what a stage is the first to touch.
    fn fetch_ahead(&mut self, across: usize) {
        let touches =
            |m: u32| self.mops.iter().any(|mop| matches!(mop, Mop::Load(at, _) | Mop::Store(at, ..) if *at == m));
        // The next rows come while the longest stage computes.
        let rows = self.fetches_rows();
        let longest = self.stages.iter().filter(|s| s.is_loop).map(|s| s.mops.len()).max();
        let is_here = |m: u32| if rows { Some(self.mops.len()) == longest } else { touches(m) };
        let mems: Vec<u32> = self.region.ahead.iter().copied().filter(|&m| is_here(m)).collect();
        if rows && mems.iter().any(|m| !self.fetched.contains(m)) {
            self.load_gpr(Register::RCX, AHEAD);
            self.put(Instruction::with2(Code::Add_r64_rm64, Register::RCX, Register::RAX));
        }
        for m in mems {
            let Mem::Tile(t) = self.region.mems[m as usize] else { continue };
            let size = t.size();
            if self.fetched.contains(&m) {
                continue;
            }
            for row in 0..self.rows {
                let Some(base) = self.base(m, row) else { continue };
                for line in (0..(across * self.lanes() * size) as i64).step_by(64) {
                    let (index, at) = if rows { (Register::RCX, line) } else { (Register::RAX, line + AHEAD_BYTES) };
                    let place =
                        MemoryOperand::new(base, index, size as u32, at, (at != 0) as u32, false, Register::None);
                    self.put(Instruction::with1(Code::Prefetcht1_m8, place));
                }
            }
            if !self.dry {
                self.fetched.push(m);
            }
        }
    }
    /// Every operand's pointers to the rows of the block; the frame's go on to the next block.
    fn point_at_rows(&mut self) {
        for m in 0..self.region.mems.len() as u32 {
            if matches!(self.region.mems[m as usize], Mem::Const(..)) {
                continue;
            }
            self.load_gpr(Register::RAX, pointer_at(m));
            for row in 0..self.rows {
                self.put(match self.base(m, row) {
                    Some(base) => Instruction::with2(Code::Mov_r64_rm64, base, Register::RAX),
                    None => Instruction::with2(Code::Mov_rm64_r64, frame(row_at(m, row)), Register::RAX),
                });
                self.put(Instruction::with2(Code::Add_r64_rm64, Register::RAX, frame(pitch_at(m))));
            }
            if !self.region.local.contains(&m) {
                self.put(Instruction::with2(Code::Mov_rm64_r64, frame(pointer_at(m)), Register::RAX));
            }
        }
    }
    /// Makes a stage the one under way.
    fn enter(&mut self, stage: &'a Stage) {
        self.mops = &stage.mops;
        self.live = stage.mops.iter().map(|m| matches!(m, Mop::Store(..) | Mop::Fold(..))).collect();
        stage.results.iter().for_each(|&(v, _)| self.live[v as usize] = true);
        for (i, mop) in stage.mops.iter().enumerate().rev() {
            if self.live[i] {
                mop.operands().for_each(|v| self.live[v as usize] = true);
            }
        }
        self.last = (0..stage.mops.len()).collect();
        for (i, mop) in stage.mops.iter().enumerate().filter(|(i, _)| self.live[*i]) {
            mop.operands().for_each(|v| self.last[v as usize] = i);
        }
    }
    /// Takes the registers that a stage needs while it loops.
    fn prepare(&mut self, stage: &'a Stage, across: usize) -> Result<(), Refused> {
        self.enter(stage);
        self.accumulators.clear();
        for _ in 0..self.rows {
            let of_row = self.take_accumulators(stage)?;
            self.accumulators.push(of_row);
        }
        self.choose_held(stage, across)
    }
    /// Loops over the columns of the block's rows; what it held is free again after.
    fn columns_of(&mut self, stage: &'a Stage, across: usize) -> Result<(), Refused> {
        self.broadcast_held(true);
        self.clear_accumulators();
        self.columns(across)?;
        // A single loop's are brought before the first row.
        if self.stages.len() > 1 {
            self.free.extend(self.held.drain().map(|(_, r)| r));
            // In the order of their numbers, so that the same region gives the same code.
            self.free.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.finish_accumulators()?;
        debug_assert!(stage.results.is_empty());
        Ok(())
    }
    /// What is done once for each row of the block.
    fn once_a_row(&mut self, stage: &'a Stage) -> Result<(), Refused> {
        self.enter(stage);
        for &(v, _) in &stage.results {
            self.last[v as usize] = usize::MAX;
        }
        self.body(1, false)?;
        for &(v, step) in &stage.results {
            for row in 0..self.rows {
                let r = match self.is_uniform(v) {
                    Some(_) => {
                        let r = vector(self.take()?);
                        self.broadcast(r, v, row);
                        r
                    }
                    // Two results may be one value.
                    None => match std::mem::take(&mut self.at[row][v as usize]) {
                        Register::None => return Err(Refused::Unknown),
                        r => r,
                    },
                };
                self.scalars.insert((step, row), number(r));
            }
        }
        Ok(())
    }

    fn listing(&self) -> String {
        let mut formatter = FastFormatter::new();
        let mut out = String::new();
        for instruction in self.asm.instructions() {
            // The assembler keeps labels as the addresses of what they stand before.
            if instruction.ip() != 0 {
                _ = writeln!(out, "  .{:X}h:", instruction.ip());
            }
            out.push_str("    ");
            formatter.format(instruction, &mut out);
            out.push('\n');
        }
        out
    }

    // Registers.

    fn take(&mut self) -> Result<u8, Refused> {
        let r = self.free.pop().ok_or(Refused::Large)?;
        self.least_free = self.least_free.min(self.free.len());
        Ok(r)
    }
    fn take_mask(&mut self) -> Result<u8, Refused> {
        self.free_masks.pop().ok_or(Refused::Large)
    }
    fn temporary(&mut self) -> Result<Register, Refused> {
        let r = self.take()?;
        self.temporaries.push(r);
        Ok(vector(r))
    }
    fn is_uniform(&self, v: V) -> Option<Uniform> {
        if let Mop::Uniform(u) = self.mops[v as usize] { Some(u) } else { None }
    }
    /// Does nobody read it after operation `i`?
    fn dies(&self, v: V, i: usize) -> bool {
        self.last[v as usize] == i && self.is_uniform(v).is_none()
    }
    /// Gives the registers of the operands that nobody reads again back, and temporaries.
    fn release(&mut self, i: usize, group: usize) {
        let mut operands: Vec<V> = self.mops[i].operands().filter(|&v| self.dies(v, i)).collect();
        operands.sort_unstable();
        operands.dedup();
        for v in operands {
            let r = std::mem::take(&mut self.at[group][v as usize]);
            if r.is_k() {
                self.free_masks.push(number(r));
            } else if r != Register::None {
                self.free.push(number(r));
            }
        }
        self.free.append(&mut self.temporaries);
    }
    /// A register for the result of operation `i`, after its operands' have been released.
    fn result(&mut self, i: usize, group: usize) -> Result<Register, Refused> {
        self.release(i, group);
        let in_mask = self.mops[i].is_mask() && self.isa != Isa::Avx2;
        let r = if in_mask { mask(self.take_mask()?) } else { vector(self.take()?) };
        self.at[group][i] = r;
        Ok(r)
    }
    /// The result of an operation that nobody reads is given back at once.
    fn drop_unread(&mut self, i: usize, group: usize) {
        if self.last[i] == i {
            let r = std::mem::take(&mut self.at[group][i]);
            if r.is_k() {
                self.free_masks.push(number(r));
            } else if r != Register::None {
                self.free.push(number(r));
            }
        }
    }

    fn literal(&mut self, bits: u64) -> MemoryOperand {
        let at = self.literals.iter().position(|&l| l == bits).unwrap_or(self.literals.len());
        if at == self.literals.len() {
            self.literals.push(bits);
        }
        plain(Register::RDX, 8 * at as i64)
    }
    /// The row that a group is of.
    fn row(&self, group: usize) -> usize {
        group / self.across
    }
    /// Where a uniform lies, to be broadcast.
    fn place(&mut self, u: Uniform, row: usize) -> MemoryOperand {
        match u {
            Uniform::Literal32(bits) if self.isa == Isa::Avx2 => self.literal256([bits as u64 * 0x1_0000_0001; 4]),
            Uniform::Literal64(bits) if self.isa == Isa::Avx2 => self.literal256([bits; 4]),
            Uniform::Literal32(bits) => self.literal(bits.into()),
            Uniform::Literal64(bits) => self.literal(bits),
            Uniform::Const32(offset) | Uniform::Const64(offset) => plain(Register::RSI, offset.into()),
            Uniform::Row32(m) | Uniform::Row64(m) => plain(self.based(m, row), 0),
            // In registers always.
            Uniform::Scalar32(_) | Uniform::Scalar64(_) => frame(0),
            Uniform::InverseRow(_) | Uniform::InverseScalar(_) | Uniform::InverseConst(_) => frame(0),
        }
    }
    /// A value as a register, or as memory that an instruction broadcasts.
    fn operand(&mut self, v: V, group: usize) -> Operand {
        let Some(u) = self.is_uniform(v) else { return Operand::Reg(self.at[group][v as usize]) };
        let row = self.row(group);
        match self.kept(u, row) {
            Some(r) => Operand::Reg(r),
            None => {
                let is_broadcast = self.isa != Isa::Avx2;
                Operand::Mem(MemoryOperand { is_broadcast, ..self.place(u, row) })
            }
        }
    }
    /// The register that a uniform is in, if it is.
    fn kept(&self, u: Uniform, row: usize) -> Option<Register> {
        let r = match u {
            Uniform::Scalar32(step) | Uniform::Scalar64(step) => self.scalars.get(&(step, row)),
            _ => {
                let key = (u, if is_of_row(u) { row } else { 0 });
                self.held.get(&key).or_else(|| self.brought.get(&key))
            }
        };
        r.map(|&r| vector(r))
    }
    /// A value in a register.
    fn register(&mut self, v: V, group: usize) -> Result<Register, Refused> {
        Ok(match self.operand(v, group) {
            Operand::Reg(r) => r,
            Operand::Mem(_) => {
                let r = self.temporary()?;
                self.broadcast(r, v, group);
                r
            }
        })
    }
    fn broadcast(&mut self, r: Register, v: V, group: usize) {
        let row = self.row(group);
        if let Some(u) = self.is_uniform(v) {
            match self.kept(u, row) {
                Some(from) => self.copy(r, from),
                None => self.bring_uniform(r, u, row),
            }
        }
    }
    /// A uniform from where it lies.
    fn bring_uniform(&mut self, r: Register, u: Uniform, row: usize) {
        let of = match u {
            Uniform::InverseRow(m) => Some(Uniform::Row32(m)),
            Uniform::InverseScalar(step) => Some(Uniform::Scalar32(step)),
            Uniform::InverseConst(offset) => Some(Uniform::Const32(offset)),
            _ => None,
        };
        if let Some(of) = of {
            return self.invert(r, of, row);
        }
        let place = self.place(u, row);
        self.put(match self.isa {
            Isa::Avx2 => Instruction::with2(avx2::broadcast_code(u), half(r), place),
            _ => Instruction::with2(broadcast_code(u), r, place),
        });
    }
    fn copy(&mut self, dst: Register, from: Register) {
        self.put(match self.isa {
            Isa::Avx2 => Instruction::with2(Code::VEX_Vmovaps_ymm_ymmm256, half(dst), half(from)),
            _ => Instruction::with2(Code::EVEX_Vmovaps_zmm_k1z_zmmm512, dst, from),
        });
    }

    /// The register that points to an operand's row; the first few have one.
    fn base(&self, m: u32, row: usize) -> Option<Register> {
        let is_const = |m: &Mem| matches!(m, Mem::Const(..));
        let before = self.region.mems[..m as usize].iter().filter(|m| !is_const(m)).count();
        BASES.get(before * self.rows + row).copied().filter(|_| !is_const(&self.region.mems[m as usize]))
    }
    /// As [`Self::base`], brought from the frame if need be.
    fn based(&mut self, m: u32, row: usize) -> Register {
        self.base(m, row).unwrap_or_else(|| {
            self.load_gpr(Register::RCX, row_at(m, row));
            Register::RCX
        })
    }
    fn element(&mut self, m: u32, form: Form, group: usize) -> MemoryOperand {
        let bytes = bytes_of(form);
        let (row, column) = (self.row(group), (self.lanes() * (group % self.across)) as i64);
        let base = self.based(m, row);
        if let Form::One32 | Form::One64 = form {
            return plain(base, 0);
        }
        let part = if let Form::Quad(part) = form { (4 * self.lanes() * part as usize) as i64 } else { 0 };
        let at = column * bytes as i64 + part;
        MemoryOperand::new(base, Register::RAX, bytes, at, (at != 0) as u32, false, Register::None)
    }

    // Instructions.

    fn put(&mut self, made: Result<Instruction, IcedError>) {
        if self.dry {
            return;
        }
        if let Err(error) = made.and_then(|i| self.asm.add_instruction(i)) {
            self.error.get_or_insert(error);
        }
    }
    fn load_gpr(&mut self, r: Register, at: i64) {
        self.put(Instruction::with2(Code::Mov_r64_rm64, r, frame(at)));
    }
    fn three(&mut self, code: Code, dst: Register, a: Register, b: Operand) {
        self.three_where(code, dst, a, b, Register::None);
    }
    /// A register as the instruction set names it.
    fn named(&self, r: Register) -> Register {
        if self.isa == Isa::Avx2 && r.is_zmm() { half(r) } else { r }
    }
    /// Lanes outside the mask keep what they have.
    fn three_where(&mut self, code: Code, dst: Register, a: Register, b: Operand, k: Register) {
        let (dst, a) = (self.named(dst), self.named(a));
        let made = match b {
            Operand::Reg(b) => Instruction::with3(code, dst, a, self.named(b)),
            Operand::Mem(b) => Instruction::with3(code, dst, a, b),
        };
        self.put(made.map(|i| masked(i, k, false)));
    }
    fn three_with(&mut self, code: Code, dst: Register, a: Register, b: Operand, imm: u8, k: Register) {
        let made = match b {
            Operand::Reg(b) => Instruction::with4(code, dst, a, b, imm as u32),
            Operand::Mem(b) => Instruction::with4(code, dst, a, b, imm as u32),
        };
        self.put(made.map(|i| masked(i, k, false)));
    }
    fn two_with(&mut self, code: Code, dst: Register, a: Register, imm: u8) {
        self.put(Instruction::with3(code, dst, a, imm as u32));
    }
    fn tail(&self, form: Form) -> Register {
        match (self.masked, form) {
            (false, _) => Register::None,
            (true, Form::Quad(1)) => TAIL_UPPER,
            (true, _) => TAIL,
        }
    }

    // The parts of the loop.

    fn take_accumulators(&mut self, stage: &Stage) -> Result<Vec<Accumulator>, Refused> {
        let mut taken = vec![];
        for &Folded { op, out, scalar } in &stage.folds {
            let count = 16 / self.lanes() * if is_wide_fold(op) { 2 } else { 1 };
            let vectors = (0..count).map(|_| self.take()).collect::<Result<Vec<u8>, Refused>>()?;
            let masks = self.isa != Isa::Avx2 && matches!(op, FoldOp::MaxF | FoldOp::MinF);
            let seen_nan = if masks { mask(self.take_mask()?) } else { Register::None };
            taken.push(Accumulator { op, out, scalar, vectors, seen_nan });
        }
        Ok(taken)
    }
    /// Keeps the uniforms that are read most in the registers that the body leaves.
    fn choose_held(&mut self, stage: &Stage, across: usize) -> Result<(), Refused> {
        for v in 0..self.mops.len() as V {
            let Some(u) = self.is_uniform(v).filter(|&u| is_inverse(u)) else { continue };
            for row in 0..if is_of_row(u) { self.rows } else { 1 } {
                let r = self.take()?;
                self.held.insert((u, row), r);
            }
        }
        self.dry = true;
        self.least_free = self.free.len();
        let tried = self.body(across, false).and_then(|()| self.body(self.least_across(), true));
        self.dry = false;
        tried?;
        // Folding lanes by halves needs a register, or three.
        let needed = if self.isa == Isa::Avx2 { 3 } else { 1 };
        let mut spare = self.least_free.saturating_sub(if stage.folds.is_empty() { 0 } else { needed });
        let mut uses: Vec<(usize, V)> = vec![];
        for v in 0..self.mops.len() as V {
            if self.live[v as usize] && self.is_uniform(v).is_some_and(|u| self.kept(u, 0).is_none()) {
                let live = self.mops.iter().zip(&self.live).filter(|(_, live)| **live);
                let count = live.flat_map(|(m, _)| m.operands()).filter(|&o| o == v).count();
                uses.push((count, v));
            }
        }
        uses.sort_by_key(|&(count, v)| (std::cmp::Reverse(count), v));
        for (_, v) in uses {
            let Some(u) = self.is_uniform(v) else { continue };
            let rows = if is_of_row(u) { self.rows } else { 1 };
            if rows > spare {
                continue;
            }
            spare -= rows;
            for row in 0..rows {
                let r = self.take()?;
                self.held.insert((u, row), r);
            }
        }
        Ok(())
    }
    /// Brings held uniforms: those of each row, or those of all.
    fn broadcast_held(&mut self, of_rows: bool) {
        let mut held: Vec<(Uniform, usize, u8)> = self.held.iter().map(|(&(u, row), &r)| (u, row, r)).collect();
        // What inverses are of comes before them.
        held.sort_by_key(|&(u, _, r)| (is_inverse(u), r));
        for (u, row, r) in held {
            if is_of_row(u) == of_rows {
                self.bring_uniform(vector(r), u, row);
            }
        }
    }
    fn clear_accumulators(&mut self) {
        let all = self.accumulators.iter().flatten();
        let all: Vec<_> = all.map(|a| (a.op, a.vectors.clone(), a.seen_nan)).collect();
        for (op, vectors, seen_nan) in all {
            let (bits, wide) = match op {
                FoldOp::SumF => (0, false),
                FoldOp::ProdF => (1f32.to_bits() as u64, false),
                FoldOp::MaxF => (f32::NEG_INFINITY.to_bits().into(), false),
                FoldOp::MinF => (f32::INFINITY.to_bits().into(), false),
                FoldOp::SumD | FoldOp::Sum64 => (0, true),
                FoldOp::ProdD => (1f64.to_bits(), true),
            };
            let u = if wide { Uniform::Literal64(bits) } else { Uniform::Literal32(bits as u32) };
            vectors.iter().for_each(|&r| self.bring_uniform(vector(r), u, 0));
            if seen_nan != Register::None {
                self.put(Instruction::with3(Code::VEX_Kxorw_kr_kr_kr, seen_nan, seen_nan, seen_nan));
            }
        }
    }
    fn columns(&mut self, across: usize) -> Result<(), Refused> {
        use iced_x86::code_asm::{eax, ecx, r10, r10d, r11, r11d, rax};
        let step = (self.lanes() * across) as i32;
        let least = (self.lanes() * self.least_across()) as i32;
        let (mut many, mut rest) = (self.asm.create_label(), self.asm.create_label());
        let (mut one, mut done) = (self.asm.create_label(), self.asm.create_label());
        self.asm.xor(eax, eax)?;
        self.asm.mov(r10, r11)?;
        self.asm.sub(r10, step)?;
        self.asm.jl(rest)?;
        self.asm.set_label(&mut many)?;
        self.fetch_ahead(across);
        self.body(across, false)?;
        self.asm.add(rax, step)?;
        self.asm.cmp(rax, r10)?;
        self.asm.jle(many)?;
        self.asm.set_label(&mut rest)?;
        self.asm.cmp(rax, r11)?;
        self.asm.jge(done)?;
        self.asm.set_label(&mut one)?;
        self.asm.mov(ecx, r11d)?;
        self.asm.sub(ecx, eax)?;
        if self.isa == Isa::Avx2 {
            self.tail_mask256()?;
        } else {
            self.asm.mov(r10d, -1)?;
            self.asm.bzhi(r10d, r10d, ecx)?;
            self.put(Instruction::with2(Code::VEX_Kmovd_kr_r32, TAIL, Register::R10D));
            self.put(Instruction::with3(Code::VEX_Kshiftrw_kr_kr_imm8, TAIL_UPPER, TAIL, 8u32));
        }
        self.body(self.least_across(), true)?;
        self.asm.add(rax, least)?;
        self.asm.cmp(rax, r11)?;
        self.asm.jl(one)?;
        self.asm.set_label(&mut done)?;
        // The masks' label and the end must not fall on one instruction.
        self.asm.nop()?;
        Ok(())
    }
    /// The body for every row, with so many groups of each.
    fn body(&mut self, across: usize, masked: bool) -> Result<(), Refused> {
        self.masked = masked;
        self.across = across;
        let groups = self.rows * across;
        let together = if self.isa == Isa::Avx2 { self.shape.together } else { groups };
        self.at = vec![vec![Register::None; self.mops.len()]; groups];
        for first in (0..groups).step_by(together) {
            for i in 0..self.mops.len() {
                if matches!(self.mops[i], Mop::Uniform(_)) || !self.live[i] {
                    continue;
                }
                let groups = first..groups.min(first + together);
                if let Mop::Quotient(of) = self.mops[i] {
                    self.quotients(i, groups, of)?;
                    continue;
                }
                for group in groups {
                    match self.isa {
                        Isa::Avx2 => self.operation256(i, group)?,
                        _ => self.operation512(i, group)?,
                    }
                    self.release(i, group);
                    self.drop_unread(i, group);
                }
            }
        }
        Ok(())
    }

    /// `a * b + c` into the register of an operand that dies, or into a fresh one.
    fn fma(&mut self, i: usize, group: usize, [a, b, c]: [V; 3], kind: Kind) -> Result<(), Refused> {
        let isa = self.isa;
        let code = move |form: u32| if isa == Isa::Avx2 { avx2::fma_code(form, kind) } else { fma_code(form, kind) };
        let row = self.row(group);
        let reg = |s: &Self, v: V| s.is_uniform(v).is_none_or(|u| s.kept(u, row).is_some());
        let dst;
        if !self.dies(a, i) && !self.dies(b, i) && self.dies(c, i) {
            // c += a * b.
            let (a, b) = if reg(self, a) { (a, b) } else { (b, a) };
            let (x, y) = (self.register(a, group)?, self.operand(b, group));
            dst = self.at[group][c as usize];
            self.three(code(231), dst, x, y);
            self.at[group][c as usize] = Register::None;
        } else {
            // The factor whose register becomes the result: one that dies, or one to be brought.
            let first = self.dies(a, i) || (!self.dies(b, i) && !reg(self, a)) || (!self.dies(b, i) && reg(self, b));
            let (a, b) = if first { (a, b) } else { (b, a) };
            // Brought before the result's register is chosen, so that they are apart.
            let other = if reg(self, b) || reg(self, c) { None } else { Some(self.register(b, group)?) };
            if self.dies(a, i) {
                dst = self.at[group][a as usize];
            } else {
                dst = vector(self.take()?);
                match self.operand(a, group) {
                    Operand::Reg(r) => self.copy(dst, r),
                    Operand::Mem(_) => self.broadcast(dst, a, group),
                }
            }
            match (other, self.operand(b, group), self.operand(c, group)) {
                (Some(b), _, c) | (None, Operand::Reg(b), c) => self.three(code(213), dst, b, c),
                (None, b, Operand::Reg(c)) => self.three(code(132), dst, c, b),
                (None, Operand::Mem(_), Operand::Mem(_)) => return Err(Refused::Unknown),
            }
            if self.dies(a, i) {
                self.at[group][a as usize] = Register::None;
            }
        }
        self.release(i, group);
        self.at[group][i] = dst;
        Ok(())
    }
}

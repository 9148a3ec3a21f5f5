//! Printing a body for AVX-512: registers by linear scan, a loop over rows around a loop over columns, tails by mask.
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
mod encode;
mod folds;

use self::encode::*;
use super::body::{Bin, Cmp, EQ, FoldOp, Form, Logic, Mop, NE, UNORDERED, Un, Uniform, V};
use super::region::{Folded, Mem, Region, Stage};
use iced_x86::code_asm::CodeAssembler;
use iced_x86::{Code, FastFormatter, IcedError, Instruction, MemoryOperand, Register};
use std::collections::HashMap;
use std::fmt::Write;

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
const MOST_ROWS: usize = 4;
/// Words of the frame before the operands: rows, columns, constants, literals, and one that the code sets.
pub(super) const FRAME_HEAD: usize = 5;
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
pub(super) fn print(region: &Region, listing: bool) -> Result<Printed, Refused> {
    let stages = region.stages().ok_or(Refused::Unknown)?;
    if region.mems.len() > MOST_MEMS {
        return Err(Refused::Large);
    }
    let longest = stages.iter().map(|s| s.mops.len()).max().unwrap_or(0);
    let most = match longest {
        0..=16 => 4,
        17..=90 => 2,
        _ => 1,
    };
    let folds = stages.len() > 1 || stages.iter().any(|s| !s.folds.is_empty());
    let (mut rows, mut across) = (if folds { most } else { 1 }, most);
    loop {
        match Printer::new(region, &stages).whole(rows, across, listing) {
            Err(Refused::Large) if rows > 1 => rows /= 2,
            Err(Refused::Large) if across > 1 => across /= 2,
            result => return result,
        }
    }
}

/// Registers of an accumulator.
struct Accumulator {
    op: FoldOp,
    out: Option<u32>,
    scalar: Option<u32>,
    vectors: [u8; 2],
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
    /// How many rows are done side by side; a group is then a row, else 16 columns.
    rows: usize,
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
    fn new(region: &'a Region, stages: &'a [Stage]) -> Self {
        Printer {
            asm: CodeAssembler::new(64).unwrap_or_else(|_| unreachable!("64 is a width that it knows")),
            region,
            stages,
            mops: &[],
            last: vec![],
            rows: 1,
            accumulators: vec![],
            literals: vec![],
            dry: false,
            masked: false,
            free: vec![],
            free_masks: vec![],
            least_free: 32,
            held: HashMap::new(),
            scalars: HashMap::new(),
            at: vec![],
            temporaries: vec![],
            fetched: vec![],
            error: None,
        }
    }

    fn whole(mut self, rows: usize, across: usize, listing: bool) -> Result<Printed, Refused> {
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
            self.blocks_of_rows(rows, 1)?;
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
        self.free = (0..32).rev().collect();
        self.free_masks = (2..7).rev().collect();
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
        let folds = self.stages.len() > 1 || self.stages.iter().any(|s| !s.folds.is_empty());
        folds && !self.region.ahead.is_empty()
    }
    /// Asks for the lines that lie ahead of what a stage is the first to touch.
    fn fetch_ahead(&mut self, groups: usize) {
        let touches =
            |m: u32| self.mops.iter().any(|mop| matches!(mop, Mop::Load(at, _) | Mop::Store(at, ..) if *at == m));
        let mems: Vec<u32> = self.region.ahead.iter().copied().filter(|&m| touches(m)).collect();
        let rows = self.fetches_rows();
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
            for group in 0..groups {
                let Some(base) = self.base(m, self.row(group)) else { continue };
                for line in (0..16 * size as i64).step_by(64) {
                    let (index, at) = match rows {
                        true if self.rows > 1 => (Register::RCX, line),
                        true => (Register::RCX, line + 16 * (group * size) as i64),
                        false => (Register::RAX, line + 16 * (group * size) as i64 + AHEAD_BYTES),
                    };
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
            self.put(Instruction::with2(Code::Mov_rm64_r64, frame(pointer_at(m)), Register::RAX));
        }
    }
    /// Makes a stage the one under way.
    fn enter(&mut self, stage: &'a Stage) {
        self.mops = &stage.mops;
        self.last = (0..stage.mops.len()).collect();
        for (i, mop) in stage.mops.iter().enumerate() {
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
        self.body(self.rows, false)?;
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
        let r = if self.mops[i].is_mask() { mask(self.take_mask()?) } else { vector(self.take()?) };
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
        if self.rows > 1 { group } else { 0 }
    }
    /// Where a uniform lies, to be broadcast.
    fn place(&mut self, u: Uniform, row: usize) -> MemoryOperand {
        match u {
            Uniform::Literal32(bits) => self.literal(bits.into()),
            Uniform::Literal64(bits) => self.literal(bits),
            Uniform::Const32(offset) | Uniform::Const64(offset) => plain(Register::RSI, offset.into()),
            Uniform::Row32(m) | Uniform::Row64(m) => plain(self.based(m, row), 0),
            // In registers always.
            Uniform::Scalar32(_) | Uniform::Scalar64(_) => frame(0),
        }
    }
    /// A value as a register, or as memory that an instruction broadcasts.
    fn operand(&mut self, v: V, group: usize) -> Operand {
        let Some(u) = self.is_uniform(v) else { return Operand::Reg(self.at[group][v as usize]) };
        let row = self.row(group);
        match self.kept(u, row) {
            Some(r) => Operand::Reg(r),
            None => Operand::Mem(MemoryOperand { is_broadcast: true, ..self.place(u, row) }),
        }
    }
    /// The register that a uniform is in, if it is.
    fn kept(&self, u: Uniform, row: usize) -> Option<Register> {
        let r = match u {
            Uniform::Scalar32(step) | Uniform::Scalar64(step) => self.scalars.get(&(step, row)),
            _ => self.held.get(&(u, if is_of_row(u) { row } else { 0 })),
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
            let made = match self.kept(u, row) {
                Some(from) => Instruction::with2(Code::EVEX_Vmovaps_zmm_k1z_zmmm512, r, from),
                None => Instruction::with2(broadcast_code(u), r, self.place(u, row)),
            };
            self.put(made);
        }
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
        let (row, column) = if self.rows > 1 { (group, 0) } else { (0, 16 * group as i64) };
        let base = self.based(m, row);
        if let Form::One32 | Form::One64 = form {
            return plain(base, 0);
        }
        let part = if let Form::Quad(part) = form { 64 * part as i64 } else { 0 };
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
    /// Lanes outside the mask keep what they have.
    fn three_where(&mut self, code: Code, dst: Register, a: Register, b: Operand, k: Register) {
        let made = match b {
            Operand::Reg(b) => Instruction::with3(code, dst, a, b),
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
            let first = self.take()?;
            let second = if is_wide_fold(op) { self.take()? } else { first };
            let seen_nan =
                if matches!(op, FoldOp::MaxF | FoldOp::MinF) { mask(self.take_mask()?) } else { Register::None };
            taken.push(Accumulator { op, out, scalar, vectors: [first, second], seen_nan });
        }
        Ok(taken)
    }
    /// Keeps the uniforms that are read most in the registers that the body leaves.
    fn choose_held(&mut self, stage: &Stage, across: usize) -> Result<(), Refused> {
        let groups = if self.rows > 1 { self.rows } else { across };
        self.dry = true;
        self.least_free = self.free.len();
        let tried = self.body(groups, false).and_then(|()| self.body(self.rows, true));
        self.dry = false;
        tried?;
        // Folding lanes by halves needs a register.
        let mut spare = self.least_free.saturating_sub(!stage.folds.is_empty() as usize);
        let mut uses: Vec<(usize, V)> = vec![];
        for v in 0..self.mops.len() as V {
            if self.is_uniform(v).is_some_and(|u| self.kept(u, 0).is_none()) {
                let count = self.mops.iter().flat_map(|m| m.operands()).filter(|&o| o == v).count();
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
        held.sort_by_key(|&(_, _, r)| r);
        for (u, row, r) in held {
            if is_of_row(u) == of_rows {
                let place = self.place(u, row);
                self.put(Instruction::with2(broadcast_code(u), vector(r), place));
            }
        }
    }
    fn clear_accumulators(&mut self) {
        let all = self.accumulators.iter().flatten();
        let all: Vec<_> = all.map(|a| (a.op, a.vectors, a.seen_nan)).collect();
        for (op, vectors, seen_nan) in all {
            let (bits, wide) = match op {
                FoldOp::SumF => (0, false),
                FoldOp::ProdF => (1f32.to_bits().into(), false),
                FoldOp::MaxF => (f32::NEG_INFINITY.to_bits().into(), false),
                FoldOp::MinF => (f32::INFINITY.to_bits().into(), false),
                FoldOp::SumD | FoldOp::Sum64 => (0, true),
                FoldOp::ProdD => (1f64.to_bits(), true),
            };
            let place = self.literal(bits);
            let code =
                if wide { Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64 } else { Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32 };
            self.put(Instruction::with2(code, vector(vectors[0]), place));
            if wide {
                self.put(Instruction::with2(code, vector(vectors[1]), place));
            }
            if seen_nan != Register::None {
                self.put(Instruction::with3(Code::VEX_Kxorw_kr_kr_kr, seen_nan, seen_nan, seen_nan));
            }
        }
    }
    fn columns(&mut self, across: usize) -> Result<(), Refused> {
        use iced_x86::code_asm::{eax, ecx, r10, r10d, r11, r11d, rax};
        let groups = if self.rows > 1 { self.rows } else { across };
        let step = if self.rows > 1 { 16 } else { 16 * across as i32 };
        let (mut many, mut rest) = (self.asm.create_label(), self.asm.create_label());
        let (mut one, mut done) = (self.asm.create_label(), self.asm.create_label());
        self.asm.xor(eax, eax)?;
        self.asm.mov(r10, r11)?;
        self.asm.sub(r10, step)?;
        self.asm.jl(rest)?;
        self.asm.set_label(&mut many)?;
        self.fetch_ahead(groups);
        self.body(groups, false)?;
        self.asm.add(rax, step)?;
        self.asm.cmp(rax, r10)?;
        self.asm.jle(many)?;
        self.asm.set_label(&mut rest)?;
        self.asm.cmp(rax, r11)?;
        self.asm.jge(done)?;
        self.asm.set_label(&mut one)?;
        self.asm.mov(ecx, r11d)?;
        self.asm.sub(ecx, eax)?;
        self.asm.mov(r10d, -1)?;
        self.asm.bzhi(r10d, r10d, ecx)?;
        self.put(Instruction::with2(Code::VEX_Kmovd_kr_r32, TAIL, Register::R10D));
        self.put(Instruction::with3(Code::VEX_Kshiftrw_kr_kr_imm8, TAIL_UPPER, TAIL, 8u32));
        self.body(self.rows, true)?;
        self.asm.add(rax, 16)?;
        self.asm.cmp(rax, r11)?;
        self.asm.jl(one)?;
        self.asm.set_label(&mut done)?;
        // The masks' label and the end must not fall on one instruction.
        self.asm.nop()?;
        Ok(())
    }
    fn body(&mut self, groups: usize, masked: bool) -> Result<(), Refused> {
        self.masked = masked;
        self.at = vec![vec![Register::None; self.mops.len()]; groups];
        for i in 0..self.mops.len() {
            if matches!(self.mops[i], Mop::Uniform(_)) {
                continue;
            }
            for group in 0..groups {
                self.operation(i, group)?;
                self.release(i, group);
                self.drop_unread(i, group);
            }
        }
        Ok(())
    }

    fn operation(&mut self, i: usize, group: usize) -> Result<(), Refused> {
        match self.mops[i] {
            Mop::Uniform(_) => {}
            Mop::Load(m, form) => {
                let (place, k) = (self.element(m, form, group), self.tail(form));
                let dst = self.result(i, group)?;
                let (code, dst) = match form {
                    Form::Word => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, dst),
                    Form::Quad(_) => (Code::EVEX_Vmovupd_zmm_k1z_zmmm512, dst),
                    Form::Byte => (Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, dst),
                    Form::SignedByte => (Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128, dst),
                    Form::Pair => (Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, dst),
                    Form::SignedPair => (Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256, dst),
                    Form::Bytes => (Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128, quarter(dst)),
                    Form::One32 | Form::One64 => return Err(Refused::Unknown),
                };
                self.put(Instruction::with2(code, dst, place).map(|i| masked(i, k, true)));
            }
            Mop::Splat(m, bytes) => {
                let place = plain(self.based(m, self.row(group)), 0);
                self.splat(i, group, place, bytes)?;
            }
            Mop::ConstSplat(offset, bytes) => self.splat(i, group, plain(Register::RSI, offset.into()), bytes)?,
            Mop::Bin(op, a, b) => self.bin(i, group, op, a, b)?,
            Mop::FmaF(a, b, c) => self.fma(i, group, [a, b, c], false)?,
            Mop::FmaD(a, b, c) => self.fma(i, group, [a, b, c], true)?,
            Mop::Un(op, a) => self.un(i, group, op, a)?,
            Mop::Halves(a, b) => {
                let (a, b) = (self.register(a, group)?, self.register(b, group)?);
                let dst = self.result(i, group)?;
                self.three_with(
                    Code::EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8,
                    dst,
                    a,
                    Operand::Reg(half(b)),
                    1,
                    Register::None,
                );
            }
            Mop::SignF(a, b) => self.sign(i, group, a, b, 0x7fff_ffff, false)?,
            Mop::SignD(a, b) => self.sign(i, group, a, b, u64::MAX >> 1, true)?,
            Mop::Cmp(cmp, a, b) => {
                let (code, p) = match cmp {
                    Cmp::F(p) => (Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, p),
                    Cmp::D(p) => (Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, p),
                    Cmp::S32(p) => (Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, p),
                    Cmp::U32(p) => (Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, p),
                    Cmp::S64(p) => (Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, p),
                };
                let exchanged = matches!(p, EQ | NE | UNORDERED) && matches!(self.operand(a, group), Operand::Mem(_));
                let (a, b) = if exchanged { (b, a) } else { (a, b) };
                let (a, b) = (self.register(a, group)?, self.operand(b, group));
                let dst = self.result(i, group)?;
                self.three_with(code, dst, a, b, p, Register::None);
            }
            Mop::TestBytes(a) => {
                let a = quarter(self.register(a, group)?);
                let dst = self.result(i, group)?;
                self.three(Code::EVEX_Vptestmb_kr_k1_xmm_xmmm128, dst, a, Operand::Reg(a));
            }
            Mop::Logic(op, a, b) => {
                let (a, b) = (self.at[group][a as usize], self.at[group][b as usize]);
                let dst = self.result(i, group)?;
                let (code, a, b) = match op {
                    Logic::And => (Code::VEX_Kandw_kr_kr_kr, a, b),
                    Logic::Or => (Code::VEX_Korw_kr_kr_kr, a, b),
                    Logic::Xor => (Code::VEX_Kxorw_kr_kr_kr, a, b),
                    Logic::AndNot => (Code::VEX_Kandnw_kr_kr_kr, a, b),
                    Logic::Join => (Code::VEX_Kunpckbw_kr_kr_kr, b, a),
                };
                self.put(Instruction::with3(code, dst, a, b));
            }
            Mop::Not(a) => {
                let a = self.at[group][a as usize];
                let dst = self.result(i, group)?;
                self.put(Instruction::with2(Code::VEX_Knotw_kr_kr, dst, a));
            }
            Mop::UpperMask(a) => {
                let a = self.at[group][a as usize];
                let dst = self.result(i, group)?;
                self.put(Instruction::with3(Code::VEX_Kshiftrw_kr_kr_imm8, dst, a, 8u32));
            }
            Mop::Blend32(m, a, b) => self.blend(i, group, Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32, m, a, b)?,
            Mop::Blend64(m, a, b) => self.blend(i, group, Code::EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64, m, a, b)?,
            Mop::Truths(m) => {
                let (k, one) = (self.at[group][m as usize], self.literal(1));
                let dst = quarter(self.result(i, group)?);
                let made = Instruction::with2(Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8, dst, one);
                self.put(made.map(|i| masked(i, k, true)));
            }
            Mop::Store(m, form, v) => {
                let v = self.register(v, group)?;
                let (place, k) = (self.element(m, form, group), self.tail(form));
                let streams = self.region.past.contains(&m) && !self.masked;
                let (code, v) = match form {
                    Form::Word | Form::Quad(_) if streams => (Code::EVEX_Vmovntps_m512_zmm, v),
                    Form::Word => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, v),
                    Form::Quad(_) => (Code::EVEX_Vmovupd_zmmm512_k1z_zmm, v),
                    Form::Byte | Form::SignedByte => (Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, v),
                    Form::Pair | Form::SignedPair => (Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, v),
                    Form::Bytes => (Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm, quarter(v)),
                    Form::One32 => (Code::EVEX_Vmovss_m32_k1_xmm, quarter(v)),
                    Form::One64 => (Code::EVEX_Vmovsd_m64_k1_xmm, quarter(v)),
                };
                self.put(Instruction::with2(code, place, v).map(|i| masked(i, k, false)));
            }
            Mop::Fold(a, _, lo, hi) => self.fold(a as usize, group, lo, hi)?,
        }
        Ok(())
    }

    fn splat(&mut self, i: usize, group: usize, place: MemoryOperand, bytes: u8) -> Result<(), Refused> {
        let dst = self.result(i, group)?;
        match bytes {
            1 => self.put(Instruction::with2(Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8, quarter(dst), place)),
            _ => self.put(Instruction::with2(Code::EVEX_Vpbroadcastw_ymm_k1z_xmmm16, half(dst), place)),
        }
        Ok(())
    }

    fn bin(&mut self, i: usize, group: usize, op: Bin, a: V, b: V) -> Result<(), Refused> {
        let (code, commutes) = bin_code(op);
        let exchanged = commutes && matches!(self.operand(a, group), Operand::Mem(_));
        let (a, b) = if exchanged { (b, a) } else { (a, b) };
        let (a, b) = (self.register(a, group)?, self.operand(b, group));
        let dst = self.result(i, group)?;
        self.three(code, dst, a, b);
        Ok(())
    }

    /// `a * b + c` into the register of an operand that dies, or into a fresh one.
    fn fma(&mut self, i: usize, group: usize, [a, b, c]: [V; 3], wide: bool) -> Result<(), Refused> {
        let code = |form: u32| match (form, wide) {
            (213, false) => Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            (231, false) => Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
            (_, false) => Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            (213, true) => Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            (231, true) => Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
            (_, true) => Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
        };
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
                    Operand::Reg(r) => {
                        self.put(Instruction::with2(Code::EVEX_Vmovaps_zmm_k1z_zmmm512, dst, r));
                    }
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

    fn un(&mut self, i: usize, group: usize, op: Un, a: V) -> Result<(), Refused> {
        match op {
            Un::Upper => {
                let a = self.register(a, group)?;
                let dst = self.result(i, group)?;
                self.two_with(Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, half(dst), a, 1);
            }
            Un::Shl32(n) => self.un_with(i, group, Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, a, n)?,
            Un::Shr32(n) => self.un_with(i, group, Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, a, n)?,
            Un::Sar32(n) => self.un_with(i, group, Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, a, n)?,
            Un::RoundF(n) => self.un_with(i, group, Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, a, n)?,
            Un::RoundD(n) => self.un_with(i, group, Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae, a, n)?,
            Un::HalfToF => {
                let a = self.register(a, group)?;
                let t = half(self.temporary()?);
                self.put(Instruction::with2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, t, a));
                let dst = self.result(i, group)?;
                self.put(Instruction::with2(Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, dst, t));
            }
            Un::FToHalf => self.halved(i, group, a)?,
            _ => {
                let (code, from_half, halved) = un_code(op);
                let a = self.register(a, group)?;
                let a = match from_half {
                    0 => a,
                    1 => half(a),
                    _ => quarter(a),
                };
                let dst = self.result(i, group)?;
                self.put(Instruction::with2(code, if halved { half(dst) } else { dst }, a));
            }
        }
        Ok(())
    }
    fn un_with(&mut self, i: usize, group: usize, code: Code, a: V, n: u8) -> Result<(), Refused> {
        let a = self.register(a, group)?;
        let dst = self.result(i, group)?;
        self.two_with(code, dst, a, n);
        Ok(())
    }
    /// A NaN becomes its sign and 0x7e00.
    fn halved(&mut self, i: usize, group: usize, a: V) -> Result<(), Refused> {
        let a = self.register(a, group)?;
        let (t, k) = (self.temporary()?, self.take_mask()?);
        let code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        self.three_with(code, mask(k), a, Operand::Reg(a), UNORDERED, Register::None);
        self.two_with(Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, t, a, 16);
        let sign = Operand::Mem(MemoryOperand { is_broadcast: true, ..self.literal(0x8000) });
        self.three(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, t, t, sign);
        let quiet = Operand::Mem(MemoryOperand { is_broadcast: true, ..self.literal(0x7e00) });
        self.three(Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, t, t, quiet);
        let halves = self.temporary()?;
        self.two_with(Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, half(halves), a, 0);
        self.put(Instruction::with2(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, halves, half(halves)));
        let dst = self.result(i, group)?;
        let blend = Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
        self.three_where(blend, dst, halves, Operand::Reg(t), mask(k));
        self.free_masks.push(k);
        Ok(())
    }
    /// Bits of `a` where the literal has them, else those of `b`.
    fn sign(&mut self, i: usize, group: usize, a: V, b: V, bits: u64, wide: bool) -> Result<(), Refused> {
        let (a, b) = (self.register(a, group)?, self.register(b, group)?);
        let t = self.temporary()?;
        let place = self.literal(bits);
        let (code, bring) = match wide {
            true => (Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8, Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64),
            false => (Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8, Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32),
        };
        self.put(Instruction::with2(bring, t, place));
        // t ? a : b, bit by bit.
        self.three_with(code, t, a, Operand::Reg(b), 0xca, Register::None);
        self.temporaries.retain(|&r| r != number(t));
        self.release(i, group);
        self.at[group][i] = t;
        Ok(())
    }
    fn blend(&mut self, i: usize, group: usize, code: Code, m: V, a: V, b: V) -> Result<(), Refused> {
        let k = self.at[group][m as usize];
        let b = self.register(b, group)?;
        let a = self.operand(a, group);
        let dst = self.result(i, group)?;
        self.three_where(code, dst, b, a, k);
        Ok(())
    }
}

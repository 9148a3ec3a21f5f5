//! A body in AVX2: registers of 8 lanes, masks in registers, tails by masked moves.
//!
//! A mask has all bits of a lane of 4 bytes set or none; what is known of 4 lanes of 8 bytes lies in its lower half.
//! There are no broadcasts inside instructions, so literals lie in memory as wide as a register. What AVX2 has no
//! instruction for is a few others that give the same bits, or refused.
use super::super::body::FoldOp::{MaxF, MinF};
use super::super::body::{LE, LT};
use super::*;

/// `n` lanes of a mask begin at byte `64 - 4 n` of this, the first literal.
pub(super) fn tail_masks() -> Vec<u64> {
    let mut words = vec![u64::MAX; 8];
    words.resize(16, 0);
    words
}
/// Words of [`tail_masks`].
const MASK_WORDS: usize = 16;

/// Is there code for this operation?
pub(crate) fn has(mop: &Mop) -> bool {
    match mop {
        Mop::Un(Un::I64ToF | Un::I64ToD | Un::FToI64 | Un::DToI64, _) => false,
        Mop::Un(Un::HalfToF | Un::FToHalf, _) => std::arch::is_x86_feature_detected!("f16c"),
        _ => true,
    }
}

/// Of a uniform that is not a register yet.
pub(super) fn broadcast_code(u: Uniform) -> Code {
    match u {
        Uniform::Literal32(_) | Uniform::Literal64(_) => Code::VEX_Vmovaps_ymm_ymmm256,
        Uniform::Const64(_) | Uniform::Row64(_) | Uniform::Scalar64(_) => Code::VEX_Vbroadcastsd_ymm_m64,
        _ => Code::VEX_Vbroadcastss_ymm_m32,
    }
}
/// `a * b + c` by which operands are which.
pub(super) fn fma_code(form: u32, kind: Kind) -> Code {
    match (form, kind) {
        (213, Kind::F) => Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256,
        (231, Kind::F) => Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
        (_, Kind::F) => Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256,
        (213, Kind::MinusF) => Code::VEX_Vfnmadd213ps_ymm_ymm_ymmm256,
        (231, Kind::MinusF) => Code::VEX_Vfnmadd231ps_ymm_ymm_ymmm256,
        (_, Kind::MinusF) => Code::VEX_Vfnmadd132ps_ymm_ymm_ymmm256,
        (213, Kind::D) => Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256,
        (231, Kind::D) => Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256,
        (_, Kind::D) => Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256,
    }
}
fn fold_code(op: FoldOp) -> Code {
    match op {
        FoldOp::SumF => Code::VEX_Vaddps_ymm_ymm_ymmm256,
        FoldOp::ProdF => Code::VEX_Vmulps_ymm_ymm_ymmm256,
        FoldOp::MaxF => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
        FoldOp::MinF => Code::VEX_Vminps_ymm_ymm_ymmm256,
        FoldOp::SumD => Code::VEX_Vaddpd_ymm_ymm_ymmm256,
        FoldOp::ProdD => Code::VEX_Vmulpd_ymm_ymm_ymmm256,
        FoldOp::Sum64 => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
    }
}
/// The instruction, and whether its operands may be exchanged; `None` where it takes several.
fn bin_code(op: Bin) -> Option<(Code, bool)> {
    Some(match op {
        Bin::AddF => (Code::VEX_Vaddps_ymm_ymm_ymmm256, true),
        Bin::SubF => (Code::VEX_Vsubps_ymm_ymm_ymmm256, false),
        Bin::MulF => (Code::VEX_Vmulps_ymm_ymm_ymmm256, true),
        Bin::DivF => (Code::VEX_Vdivps_ymm_ymm_ymmm256, false),
        Bin::AboveF => (Code::VEX_Vmaxps_ymm_ymm_ymmm256, false),
        Bin::BelowF => (Code::VEX_Vminps_ymm_ymm_ymmm256, false),
        Bin::AddD => (Code::VEX_Vaddpd_ymm_ymm_ymmm256, true),
        Bin::SubD => (Code::VEX_Vsubpd_ymm_ymm_ymmm256, false),
        Bin::MulD => (Code::VEX_Vmulpd_ymm_ymm_ymmm256, true),
        Bin::DivD => (Code::VEX_Vdivpd_ymm_ymm_ymmm256, false),
        Bin::AboveD => (Code::VEX_Vmaxpd_ymm_ymm_ymmm256, false),
        Bin::BelowD => (Code::VEX_Vminpd_ymm_ymm_ymmm256, false),
        Bin::Add32 => (Code::VEX_Vpaddd_ymm_ymm_ymmm256, true),
        Bin::Sub32 => (Code::VEX_Vpsubd_ymm_ymm_ymmm256, false),
        Bin::Mul32 => (Code::VEX_Vpmulld_ymm_ymm_ymmm256, true),
        Bin::And32 | Bin::And64 => (Code::VEX_Vpand_ymm_ymm_ymmm256, true),
        Bin::Or32 | Bin::Or64 => (Code::VEX_Vpor_ymm_ymm_ymmm256, true),
        Bin::Xor32 | Bin::Xor64 => (Code::VEX_Vpxor_ymm_ymm_ymmm256, true),
        Bin::MaxS32 => (Code::VEX_Vpmaxsd_ymm_ymm_ymmm256, true),
        Bin::MinS32 => (Code::VEX_Vpminsd_ymm_ymm_ymmm256, true),
        Bin::MaxU32 => (Code::VEX_Vpmaxud_ymm_ymm_ymmm256, true),
        Bin::MinU32 => (Code::VEX_Vpminud_ymm_ymm_ymmm256, true),
        Bin::Shl32 => (Code::VEX_Vpsllvd_ymm_ymm_ymmm256, false),
        Bin::Shr32 => (Code::VEX_Vpsrlvd_ymm_ymm_ymmm256, false),
        Bin::Sar32 => (Code::VEX_Vpsravd_ymm_ymm_ymmm256, false),
        Bin::Add64 => (Code::VEX_Vpaddq_ymm_ymm_ymmm256, true),
        Bin::Sub64 => (Code::VEX_Vpsubq_ymm_ymm_ymmm256, false),
        Bin::Shl64 => (Code::VEX_Vpsllvq_ymm_ymm_ymmm256, false),
        Bin::ScaleF | Bin::Mul64 | Bin::MaxS64 | Bin::MinS64 | Bin::Sar64 => return None,
    })
}
/// The instruction of one operand, whether it reads the lower half, and whether it writes the lower half.
fn un_code(op: Un) -> Option<(Code, bool, bool)> {
    Some(match op {
        Un::SqrtF => (Code::VEX_Vsqrtps_ymm_ymmm256, false, false),
        Un::SqrtD => (Code::VEX_Vsqrtpd_ymm_ymmm256, false, false),
        Un::Abs32 => (Code::VEX_Vpabsd_ymm_ymmm256, false, false),
        Un::I32ToF => (Code::VEX_Vcvtdq2ps_ymm_ymmm256, false, false),
        Un::FToI32 => (Code::VEX_Vcvttps2dq_ymm_ymmm256, false, false),
        Un::FToD => (Code::VEX_Vcvtps2pd_ymm_xmmm128, true, false),
        Un::I32ToD => (Code::VEX_Vcvtdq2pd_ymm_xmmm128, true, false),
        Un::I32ToI64 => (Code::VEX_Vpmovsxdq_ymm_xmmm128, true, false),
        Un::U32ToI64 => (Code::VEX_Vpmovzxdq_ymm_xmmm128, true, false),
        Un::DToF => (Code::VEX_Vcvtpd2ps_xmm_ymmm256, false, true),
        Un::ExtendByte => (Code::VEX_Vpmovzxbd_ymm_xmmm64, true, false),
        Un::ExtendSignedByte => (Code::VEX_Vpmovsxbd_ymm_xmmm64, true, false),
        Un::ExtendPair => (Code::VEX_Vpmovzxwd_ymm_xmmm128, true, false),
        Un::ExtendSignedPair => (Code::VEX_Vpmovsxwd_ymm_xmmm128, true, false),
        _ => return None,
    })
}

/// Which bytes of each half `vpshufb` takes: the low byte, or the low two, of each lane.
const LOW_BYTES: [u64; 4] =
    [0x8080_8080_0c08_0400, 0x8080_8080_8080_8080, 0x8080_8080_0c08_0400, 0x8080_8080_8080_8080];
const LOW_PAIRS: [u64; 4] =
    [0x0d0c_0908_0504_0100, 0x8080_8080_8080_8080, 0x0d0c_0908_0504_0100, 0x8080_8080_8080_8080];
/// Lanes 0 and 2 of a half, after those of another: of lanes of 8 bytes, their lower words.
const LOW_WORDS: u8 = 0x88;

impl Printer<'_> {
    pub(super) fn operation256(&mut self, i: usize, group: usize) -> Result<(), Refused> {
        let mop = self.mops[i];
        if !has(&mop) {
            return Err(Refused::Unknown);
        }
        self.bring(mop, group)?;
        let done = self.emit256(i, mop, group);
        self.brought.clear();
        done
    }
    /// Uniforms that an operation cannot read from memory, into registers for its time.
    fn bring(&mut self, mop: Mop, group: usize) -> Result<(), Refused> {
        let row = self.row(group);
        for v in mop.operands() {
            let Some(u) = self.is_uniform(v) else { continue };
            if matches!(u, Uniform::Literal32(_) | Uniform::Literal64(_)) || self.kept(u, row).is_some() {
                continue;
            }
            let r = self.temporary()?;
            self.bring_uniform(r, u, row);
            self.brought.insert((u, if is_of_row(u) { row } else { 0 }), number(r));
        }
        Ok(())
    }
    /// A literal as wide as a register.
    pub(super) fn literal256(&mut self, words: [u64; 4]) -> MemoryOperand {
        let known = self.literals[MASK_WORDS..].chunks_exact(4).position(|c| c == words);
        let at = MASK_WORDS + 4 * known.unwrap_or((self.literals.len() - MASK_WORDS) / 4);
        if at == self.literals.len() {
            self.literals.extend(words);
        }
        plain(Register::RDX, 8 * at as i64)
    }
    fn literal_of(&mut self, bits: u32) -> Operand {
        Operand::Mem(self.literal256([bits as u64 * 0x1_0000_0001; 4]))
    }

    fn emit256(&mut self, i: usize, mop: Mop, group: usize) -> Result<(), Refused> {
        match mop {
            Mop::Uniform(_) => {}
            Mop::Load(m, form) => self.load256(i, group, m, form)?,
            Mop::Store(m, form, v) => self.store256(group, m, form, v)?,
            Mop::Splat(m, bytes) => {
                let place = plain(self.based(m, self.row(group)), 0);
                self.splat256(i, group, place, bytes)?;
            }
            Mop::ConstSplat(offset, bytes) => self.splat256(i, group, plain(Register::RSI, offset.into()), bytes)?,
            Mop::Bin(op, a, b) => self.bin256(i, group, op, a, b)?,
            Mop::FmaF(a, b, c) => self.fma(i, group, [a, b, c], Kind::F)?,
            Mop::FnmaF(a, b, c) => self.fma(i, group, [a, b, c], Kind::MinusF)?,
            Mop::FmaD(a, b, c) => self.fma(i, group, [a, b, c], Kind::D)?,
            Mop::Quotient(_) => return Err(Refused::Unknown),
            Mop::Un(op, a) => self.un256(i, group, op, a)?,
            Mop::Halves(a, b) | Mop::Logic(Logic::Join, a, b) => {
                let (a, b) = (self.register(a, group)?, self.register(b, group)?);
                let dst = self.result(i, group)?;
                self.put(Instruction::with4(
                    Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8,
                    half(dst),
                    half(a),
                    quarter(b),
                    1u32,
                ));
            }
            Mop::SignF(a, b) => self.sign256(i, group, a, b, 0x8000_0000_8000_0000)?,
            Mop::SignD(a, b) => self.sign256(i, group, a, b, 1 << 63)?,
            Mop::Cmp(cmp, a, b) => self.cmp256(i, group, cmp, a, b)?,
            Mop::TestBytes(a) => {
                let (a, t, zero) = (self.register(a, group)?, self.temporary()?, self.temporary()?);
                self.put(Instruction::with2(Code::VEX_Vpmovzxbd_ymm_xmmm64, half(t), quarter(a)));
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, zero, zero, Operand::Reg(zero));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256, dst, t, Operand::Reg(zero));
            }
            Mop::Logic(op, a, b) => {
                let code = match op {
                    Logic::And => Code::VEX_Vpand_ymm_ymm_ymmm256,
                    Logic::Or => Code::VEX_Vpor_ymm_ymm_ymmm256,
                    Logic::Xor => Code::VEX_Vpxor_ymm_ymm_ymmm256,
                    Logic::AndNot | Logic::Join => Code::VEX_Vpandn_ymm_ymm_ymmm256,
                };
                let (a, b) = (self.register(a, group)?, self.register(b, group)?);
                let dst = self.result(i, group)?;
                self.three(code, dst, a, Operand::Reg(b));
            }
            Mop::Not(a) => {
                let (a, ones) = (self.register(a, group)?, self.literal_of(u32::MAX));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, dst, a, ones);
            }
            Mop::UpperMask(a) => self.upper256(i, group, a)?,
            Mop::Blend32(m, a, b) => {
                let (m, a, b) = (self.register(m, group)?, self.operand(a, group), self.register(b, group)?);
                let dst = self.result(i, group)?;
                self.pick256(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, dst, b, a, m);
            }
            Mop::Blend64(m, a, b) => {
                let (m, a, b) = (self.register(m, group)?, self.operand(a, group), self.register(b, group)?);
                let t = self.temporary()?;
                self.put(Instruction::with2(Code::VEX_Vpmovsxdq_ymm_xmmm128, half(t), quarter(m)));
                let dst = self.result(i, group)?;
                self.pick256(Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm, dst, b, a, t);
            }
            Mop::Truths(m) => {
                let (m, t) = (self.register(m, group)?, self.temporary()?);
                self.two256(Code::VEX_Vpsrld_ymm_ymm_imm8, t, m, 31);
                self.narrow256(t, t, LOW_BYTES)?;
                let dst = self.result(i, group)?;
                self.copy(dst, t);
            }
            Mop::Fold(a, _, lo, hi) => self.fold256(a as usize, group, lo, hi)?,
        }
        Ok(())
    }

    /// `m ? b : a`, lane by lane.
    fn pick256(&mut self, code: Code, dst: Register, a: Register, b: Operand, m: Register) {
        let (dst, a, m) = (half(dst), half(a), half(m));
        self.put(match b {
            Operand::Reg(b) => Instruction::with4(code, dst, a, half(b), m),
            Operand::Mem(b) => Instruction::with4(code, dst, a, b, m),
        });
    }
    fn two256(&mut self, code: Code, dst: Register, a: Register, imm: u8) {
        self.put(Instruction::with3(code, half(dst), half(a), imm as u32));
    }
    fn upper256(&mut self, i: usize, group: usize, a: V) -> Result<(), Refused> {
        let a = self.register(a, group)?;
        let dst = self.result(i, group)?;
        self.extract256(dst, a);
        Ok(())
    }
    /// The upper half as the lower half.
    fn extract256(&mut self, dst: Register, a: Register) {
        self.put(Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, quarter(dst), half(a), 1u32));
    }
    /// The bytes that a table names of each half, side by side in the lower half.
    fn narrow256(&mut self, dst: Register, a: Register, table: [u64; 4]) -> Result<(), Refused> {
        let place = Operand::Mem(self.literal256(table));
        let t = self.temporary()?;
        self.three(Code::VEX_Vpshufb_ymm_ymm_ymmm256, dst, a, place);
        self.extract256(t, dst);
        let join = match table {
            LOW_BYTES => Code::VEX_Vpunpckldq_xmm_xmm_xmmm128,
            _ => Code::VEX_Vpunpcklqdq_xmm_xmm_xmmm128,
        };
        self.put(Instruction::with3(join, quarter(dst), quarter(dst), quarter(t)));
        Ok(())
    }
    /// The low words of 4 lanes of 8 bytes as 4 lanes of 4 bytes; `t` may be `a`, never `dst`.
    fn words256(&mut self, dst: Register, a: Register, t: Register) {
        self.extract256(t, a);
        let code = Code::VEX_Vshufps_xmm_xmm_xmmm128_imm8;
        self.put(Instruction::with4(code, quarter(dst), quarter(a), quarter(t), LOW_WORDS as u32));
    }

    // Memory.

    /// The mask of a group's lanes that there are.
    fn mask256(&mut self, form: Form, group: usize) -> Result<Register, Refused> {
        let t = self.temporary()?;
        let at = 32 * (group % self.across) as i64;
        self.put(match form {
            Form::Quad(part) => Instruction::with2(
                Code::VEX_Vpmovsxdq_ymm_xmmm128,
                half(t),
                plain(Register::R10, at + 16 * part as i64),
            ),
            _ => Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, half(t), plain(Register::R10, at)),
        });
        Ok(t)
    }
    /// Does something for each lane of a group that there is.
    fn lanes256(&mut self, group: usize, mut of_lane: impl FnMut(&mut Self, u32)) -> Result<(), Refused> {
        if self.dry {
            return Ok(());
        }
        let mut done = self.asm.create_label();
        for lane in 0..8u32 {
            let columns = 8 * (group % self.across) as i32 + lane as i32;
            self.put(Instruction::with2(Code::Cmp_rm64_imm8, frame(REST), columns));
            self.asm.jle(done)?;
            of_lane(self, lane);
        }
        self.asm.set_label(&mut done)?;
        // Another label may follow.
        self.asm.nop()?;
        Ok(())
    }
    fn load256(&mut self, i: usize, group: usize, m: u32, form: Form) -> Result<(), Refused> {
        let place = self.element(m, form, group);
        let extend = match form {
            Form::Byte => Some(Code::VEX_Vpmovzxbd_ymm_xmmm64),
            Form::SignedByte => Some(Code::VEX_Vpmovsxbd_ymm_xmmm64),
            Form::Pair => Some(Code::VEX_Vpmovzxwd_ymm_xmmm128),
            Form::SignedPair => Some(Code::VEX_Vpmovsxwd_ymm_xmmm128),
            _ => None,
        };
        match form {
            Form::Word | Form::Quad(_) if self.masked => {
                let t = self.mask256(form, group)?;
                let dst = self.result(i, group)?;
                let code = match form {
                    Form::Word => Code::VEX_Vmaskmovps_ymm_ymm_m256,
                    _ => Code::VEX_Vmaskmovpd_ymm_ymm_m256,
                };
                self.put(Instruction::with3(code, half(dst), half(t), place));
            }
            Form::Word | Form::Quad(_) => {
                let dst = self.result(i, group)?;
                self.put(Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, half(dst), place));
            }
            Form::One32 | Form::One64 => return Err(Refused::Unknown),
            _ if self.masked => {
                let (dst, bytes) = (self.result(i, group)?, bytes_of(form) as i64);
                let code = if bytes == 1 {
                    Code::VEX_Vpinsrb_xmm_xmm_r32m8_imm8
                } else {
                    Code::VEX_Vpinsrw_xmm_xmm_r32m16_imm8
                };
                let x = quarter(dst);
                self.put(Instruction::with3(Code::VEX_Vpxor_xmm_xmm_xmmm128, x, x, x));
                self.lanes256(group, |s, lane| {
                    let at = moved(place, lane as i64 * bytes);
                    s.put(Instruction::with4(code, x, x, at, lane));
                })?;
                if let Some(code) = extend {
                    self.put(Instruction::with2(code, half(dst), x));
                }
            }
            _ => {
                let dst = self.result(i, group)?;
                match extend {
                    Some(code) => self.put(Instruction::with2(code, half(dst), place)),
                    None => self.put(Instruction::with2(Code::VEX_Vmovq_xmm_xmmm64, quarter(dst), place)),
                }
            }
        }
        Ok(())
    }
    fn store256(&mut self, group: usize, m: u32, form: Form, v: V) -> Result<(), Refused> {
        let v = self.register(v, group)?;
        let place = self.element(m, form, group);
        let streams = self.region.past.contains(&m) && !self.masked;
        match form {
            Form::Word | Form::Quad(_) if self.masked => {
                let t = self.mask256(form, group)?;
                let code = match form {
                    Form::Word => Code::VEX_Vmaskmovps_m256_ymm_ymm,
                    _ => Code::VEX_Vmaskmovpd_m256_ymm_ymm,
                };
                self.put(Instruction::with3(code, place, half(t), half(v)));
            }
            Form::Word | Form::Quad(_) => {
                let code = if streams { Code::VEX_Vmovntps_m256_ymm } else { Code::VEX_Vmovups_ymmm256_ymm };
                self.put(Instruction::with2(code, place, half(v)));
            }
            Form::One32 => self.put(Instruction::with2(Code::VEX_Vmovss_m32_xmm, place, quarter(v))),
            Form::One64 => self.put(Instruction::with2(Code::VEX_Vmovsd_m64_xmm, place, quarter(v))),
            Form::Byte | Form::SignedByte => {
                let t = self.temporary()?;
                self.narrow256(t, v, LOW_BYTES)?;
                self.store_narrow256(group, place, t, 1)?;
            }
            Form::Bytes => self.store_narrow256(group, place, v, 1)?,
            Form::Pair | Form::SignedPair => {
                let t = self.temporary()?;
                self.narrow256(t, v, LOW_PAIRS)?;
                self.store_narrow256(group, place, t, 2)?;
            }
        }
        Ok(())
    }
    fn store_narrow256(&mut self, group: usize, place: MemoryOperand, v: Register, bytes: i64) -> Result<(), Refused> {
        let x = quarter(v);
        match (self.masked, bytes) {
            (true, _) => self.lanes256(group, |s, lane| {
                let at = moved(place, lane as i64 * bytes);
                let code =
                    if bytes == 1 { Code::VEX_Vpextrb_r32m8_xmm_imm8 } else { Code::VEX_Vpextrw_r32m16_xmm_imm8 };
                s.put(Instruction::with3(code, at, x, lane));
            })?,
            (false, 1) => self.put(Instruction::with2(Code::VEX_Vmovq_xmmm64_xmm, place, x)),
            (false, _) => self.put(Instruction::with2(Code::VEX_Vmovups_xmmm128_xmm, place, x)),
        }
        Ok(())
    }
    fn splat256(&mut self, i: usize, group: usize, place: MemoryOperand, bytes: u8) -> Result<(), Refused> {
        let dst = self.result(i, group)?;
        let code = if bytes == 1 { Code::VEX_Vpbroadcastb_xmm_xmmm8 } else { Code::VEX_Vpbroadcastw_xmm_xmmm16 };
        self.put(Instruction::with2(code, quarter(dst), place));
        Ok(())
    }
    /// Points at the mask of the columns that are left, of which `ecx` says how many, and keeps their number.
    pub(super) fn tail_mask256(&mut self) -> Result<(), Refused> {
        use iced_x86::code_asm::{ecx, r10, r10d, rcx, rdx};
        self.put(Instruction::with2(Code::Mov_rm64_r64, frame(REST), Register::RCX));
        self.asm.mov(r10d, 16)?;
        self.asm.cmp(ecx, r10d)?;
        self.asm.cmovg(ecx, r10d)?;
        self.asm.neg(rcx)?;
        self.asm.lea(r10, rdx + rcx * 4 + 64)?;
        Ok(())
    }

    // Arithmetic.

    fn bin256(&mut self, i: usize, group: usize, op: Bin, a: V, b: V) -> Result<(), Refused> {
        if let Some((code, commutes)) = bin_code(op) {
            let exchanged = commutes && matches!(self.operand(a, group), Operand::Mem(_));
            let (a, b) = if exchanged { (b, a) } else { (a, b) };
            let (a, b) = (self.register(a, group)?, self.operand(b, group));
            let dst = self.result(i, group)?;
            self.three(code, dst, a, b);
            return Ok(());
        }
        let (a, b) = (self.register(a, group)?, self.register(b, group)?);
        let t = self.temporary()?;
        match op {
            Bin::Mul64 => {
                // Products of a low and a high word, added, go to the high word.
                let u = self.temporary()?;
                self.two256(Code::VEX_Vpshufd_ymm_ymmm256_imm8, t, b, 0xb1);
                self.three(Code::VEX_Vpmulld_ymm_ymm_ymmm256, t, t, Operand::Reg(a));
                self.two256(Code::VEX_Vpsrlq_ymm_ymm_imm8, u, t, 32);
                self.three(Code::VEX_Vpaddd_ymm_ymm_ymmm256, t, t, Operand::Reg(u));
                self.two256(Code::VEX_Vpsllq_ymm_ymm_imm8, t, t, 32);
                self.three(Code::VEX_Vpmuludq_ymm_ymm_ymmm256, u, a, Operand::Reg(b));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vpaddq_ymm_ymm_ymmm256, dst, t, Operand::Reg(u));
            }
            Bin::Sar64 => {
                // With its sign taken out a number shifts like one without.
                let u = self.temporary()?;
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, t, t, Operand::Reg(t));
                self.three(Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, t, t, Operand::Reg(a));
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, u, a, Operand::Reg(t));
                self.three(Code::VEX_Vpsrlvq_ymm_ymm_ymmm256, u, u, Operand::Reg(b));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, dst, u, Operand::Reg(t));
            }
            _ => {
                let (first, second) = if op == Bin::MaxS64 { (b, a) } else { (a, b) };
                self.three(Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, t, a, Operand::Reg(b));
                let dst = self.result(i, group)?;
                self.pick256(Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm, dst, first, Operand::Reg(second), t);
            }
        }
        Ok(())
    }
    fn un256(&mut self, i: usize, group: usize, op: Un, a: V) -> Result<(), Refused> {
        if let Some((code, from_half, to_half)) = un_code(op) {
            let a = self.register(a, group)?;
            let dst = self.result(i, group)?;
            let dst = if to_half { quarter(dst) } else { half(dst) };
            self.put(Instruction::with2(code, dst, if from_half { quarter(a) } else { half(a) }));
            return Ok(());
        }
        let with = match op {
            Un::Shl32(n) => Some((Code::VEX_Vpslld_ymm_ymm_imm8, n)),
            Un::Shr32(n) => Some((Code::VEX_Vpsrld_ymm_ymm_imm8, n)),
            Un::Sar32(n) => Some((Code::VEX_Vpsrad_ymm_ymm_imm8, n)),
            Un::RoundF(n) => Some((Code::VEX_Vroundps_ymm_ymmm256_imm8, n)),
            Un::RoundD(n) => Some((Code::VEX_Vroundpd_ymm_ymmm256_imm8, n)),
            _ => None,
        };
        if let Some((code, n)) = with {
            let a = self.register(a, group)?;
            let dst = self.result(i, group)?;
            self.two256(code, dst, a, n);
            return Ok(());
        }
        if op == Un::Upper {
            return self.upper256(i, group, a);
        }
        let (a, t) = (self.register(a, group)?, self.temporary()?);
        match op {
            Un::Abs64 => {
                let u = self.temporary()?;
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, t, t, Operand::Reg(t));
                self.three(Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, t, t, Operand::Reg(a));
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, u, a, Operand::Reg(t));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vpsubq_ymm_ymm_ymmm256, dst, u, Operand::Reg(t));
            }
            Un::U32ToF => {
                // Both halves are exact, so that their sum is rounded once.
                let (u, scale, low) = (self.temporary()?, self.literal_of(65536f32.to_bits()), self.literal_of(0xffff));
                self.two256(Code::VEX_Vpsrld_ymm_ymm_imm8, t, a, 16);
                self.put(Instruction::with2(Code::VEX_Vcvtdq2ps_ymm_ymmm256, half(t), half(t)));
                self.three(Code::VEX_Vmulps_ymm_ymm_ymmm256, t, t, scale);
                self.three(Code::VEX_Vpand_ymm_ymm_ymmm256, u, a, low);
                self.put(Instruction::with2(Code::VEX_Vcvtdq2ps_ymm_ymmm256, half(u), half(u)));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vaddps_ymm_ymm_ymmm256, dst, t, Operand::Reg(u));
            }
            Un::U32ToD => {
                let (flip, back) = (self.literal_of(1 << 31), self.literal256([2147483648f64.to_bits(); 4]));
                self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, t, a, flip);
                self.put(Instruction::with2(Code::VEX_Vcvtdq2pd_ymm_xmmm128, half(t), quarter(t)));
                let dst = self.result(i, group)?;
                self.three(Code::VEX_Vaddpd_ymm_ymm_ymmm256, dst, t, Operand::Mem(back));
            }
            Un::I64ToI32 => {
                let u = self.temporary()?;
                self.words256(u, a, t);
                let dst = self.result(i, group)?;
                self.copy(dst, u);
            }
            Un::HalfToF => {
                self.narrow256(t, a, LOW_PAIRS)?;
                let dst = self.result(i, group)?;
                self.put(Instruction::with2(Code::VEX_Vcvtph2ps_ymm_xmmm128, half(dst), quarter(t)));
            }
            Un::FToHalf => {
                // A NaN becomes its sign and 0x7e00.
                let (u, nan) = (self.temporary()?, self.temporary()?);
                let (sign, quiet) = (self.literal_of(0x8000), self.literal_of(0x7e00));
                self.compare256(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, nan, a, Operand::Reg(a), UNORDERED);
                self.two256(Code::VEX_Vpsrld_ymm_ymm_imm8, t, a, 16);
                self.three(Code::VEX_Vpand_ymm_ymm_ymmm256, t, t, sign);
                self.three(Code::VEX_Vpor_ymm_ymm_ymmm256, t, t, quiet);
                self.put(Instruction::with3(Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8, quarter(u), half(a), 0u32));
                self.put(Instruction::with2(Code::VEX_Vpmovzxwd_ymm_xmmm128, half(u), quarter(u)));
                let dst = self.result(i, group)?;
                self.pick256(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, dst, u, Operand::Reg(t), nan);
            }
            _ => return Err(Refused::Unknown),
        }
        Ok(())
    }
    /// Of `a` without its sign, with that of `b`.
    fn sign256(&mut self, i: usize, group: usize, a: V, b: V, sign: u64) -> Result<(), Refused> {
        let (a, b) = (self.register(a, group)?, self.register(b, group)?);
        let (t, u) = (self.temporary()?, self.temporary()?);
        let (sign, rest) = (self.literal256([sign; 4]), self.literal256([!sign; 4]));
        self.three(Code::VEX_Vpand_ymm_ymm_ymmm256, t, b, Operand::Mem(sign));
        self.three(Code::VEX_Vpand_ymm_ymm_ymmm256, u, a, Operand::Mem(rest));
        let dst = self.result(i, group)?;
        self.three(Code::VEX_Vpor_ymm_ymm_ymmm256, dst, t, Operand::Reg(u));
        Ok(())
    }
    fn compare256(&mut self, code: Code, dst: Register, a: Register, b: Operand, p: u8) {
        self.put(match b {
            Operand::Reg(b) => Instruction::with4(code, half(dst), half(a), half(b), p as u32),
            Operand::Mem(b) => Instruction::with4(code, half(dst), half(a), b, p as u32),
        });
    }
    fn cmp256(&mut self, i: usize, group: usize, cmp: Cmp, a: V, b: V) -> Result<(), Refused> {
        let a = self.register(a, group)?;
        match cmp {
            Cmp::F(p) => {
                let b = self.operand(b, group);
                let dst = self.result(i, group)?;
                self.compare256(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, dst, a, b, p);
            }
            Cmp::D(p) => {
                let (b, t, u) = (self.operand(b, group), self.temporary()?, self.temporary()?);
                self.compare256(Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8, t, a, b, p);
                let dst = self.result_after(i, group)?;
                self.words256(dst, t, u);
            }
            Cmp::S32(p) | Cmp::U32(p) => {
                let (mut a, mut b) = (a, self.register(b, group)?);
                if matches!(cmp, Cmp::U32(LT | LE)) {
                    let (t, u, flip) = (self.temporary()?, self.temporary()?, self.literal_of(1 << 31));
                    self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, t, a, flip);
                    self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, u, b, flip);
                    (a, b) = (t, u);
                }
                let dst = self.result(i, group)?;
                let codes = [Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256];
                self.whole256(codes, dst, a, b, p)?;
            }
            Cmp::S64(p) => {
                let (b, t, u) = (self.register(b, group)?, self.temporary()?, self.temporary()?);
                let codes = [Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256];
                self.whole256(codes, t, a, b, p)?;
                let dst = self.result_after(i, group)?;
                self.words256(dst, t, u);
            }
        }
        Ok(())
    }
    /// A register for the result that is none of the temporaries.
    fn result_after(&mut self, i: usize, group: usize) -> Result<Register, Refused> {
        let dst = vector(self.take()?);
        self.release(i, group);
        self.at[group][i] = dst;
        Ok(dst)
    }
    /// A comparison of integers, by codes for equal and above.
    fn whole256(&mut self, codes: [Code; 2], dst: Register, a: Register, b: Register, p: u8) -> Result<(), Refused> {
        let [equal, above] = codes;
        match p {
            EQ | NE => self.three(equal, dst, a, Operand::Reg(b)),
            LT => self.three(above, dst, b, Operand::Reg(a)),
            LE => self.three(above, dst, a, Operand::Reg(b)),
            _ => return Err(Refused::Unknown),
        }
        if matches!(p, NE | LE) {
            let ones = self.literal_of(u32::MAX);
            self.three(Code::VEX_Vpxor_ymm_ymm_ymmm256, dst, dst, ones);
        }
        Ok(())
    }

    // Folds.

    fn fold256(&mut self, a: usize, group: usize, lo: V, hi: V) -> Result<(), Refused> {
        let sub = group % self.across % 2;
        let row = self.row(group);
        let Accumulator { op, ref vectors, .. } = self.accumulators[row][a];
        let parts: Vec<(u8, V, Form)> = match is_wide_fold(op) {
            true => vec![(vectors[2 * sub], lo, Form::Quad(0)), (vectors[2 * sub + 1], hi, Form::Quad(1))],
            false => vec![(vectors[sub], lo, Form::Word)],
        };
        for (acc, v, form) in parts {
            let (acc, v) = (vector(acc), self.register(v, group)?);
            if self.masked {
                let (mask, t) = (self.mask256(form, group)?, self.temporary()?);
                self.copy(t, acc);
                self.fold_in256(op, t, v)?;
                self.pick256(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, acc, acc, Operand::Reg(t), mask);
            } else {
                self.fold_in256(op, acc, v)?;
            }
        }
        Ok(())
    }
    /// `x = fold(x, y)`: a NaN in `x` stays.
    fn fold_in256(&mut self, op: FoldOp, x: Register, y: Register) -> Result<(), Refused> {
        if !matches!(op, MaxF | MinF) {
            self.three(fold_code(op), x, x, Operand::Reg(y));
            return Ok(());
        }
        let (t, nan) = (self.temporary()?, self.temporary()?);
        self.compare256(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, nan, x, Operand::Reg(x), UNORDERED);
        self.three(fold_code(op), t, x, Operand::Reg(y));
        self.pick256(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, x, t, Operand::Reg(x), nan);
        Ok(())
    }
    /// Lanes to one number, by halves, and into its operand.
    pub(super) fn finish_accumulators256(&mut self) -> Result<(), Refused> {
        let rows = std::mem::take(&mut self.accumulators);
        for (row, of_row) in rows.iter().enumerate() {
            for accumulator in of_row {
                self.finish256(row, accumulator)?;
                self.free.append(&mut self.temporaries);
            }
        }
        Ok(())
    }
    fn finish256(&mut self, row: usize, of: &Accumulator) -> Result<(), Refused> {
        let &Accumulator { op, out, scalar, ref vectors, .. } = of;
        let wide = is_wide_fold(op);
        let mut count = vectors.len();
        while count > 1 {
            count /= 2;
            for k in 0..count {
                self.fold_in256(op, vector(vectors[k]), vector(vectors[k + count]))?;
                self.free.append(&mut self.temporaries);
            }
        }
        let (x, t) = (vector(vectors[0]), self.temporary()?);
        self.extract256(t, x);
        self.fold_in256(op, x, t)?;
        let swap = |code, imm: u32| Instruction::with4(code, quarter(t), quarter(x), quarter(x), imm);
        self.put(swap(Code::VEX_Vshufpd_xmm_xmm_xmmm128_imm8, 1));
        self.fold_in256(op, x, t)?;
        if !wide {
            self.put(swap(Code::VEX_Vshufps_xmm_xmm_xmmm128_imm8, 1));
            self.fold_in256(op, x, t)?;
        }
        if let Some(out) = out {
            let place = plain(self.based(out, row), 0);
            let code = if wide { Code::VEX_Vmovsd_m64_xmm } else { Code::VEX_Vmovss_m32_xmm };
            self.put(Instruction::with2(code, place, quarter(x)));
        }
        if self.stages.len() == 1 {
            return Ok(());
        }
        self.free.extend(&vectors[1..]);
        match scalar {
            Some(step) => {
                let code = if wide { Code::VEX_Vbroadcastsd_ymm_xmm } else { Code::VEX_Vbroadcastss_ymm_xmm };
                self.put(Instruction::with2(code, half(x), quarter(x)));
                self.scalars.insert((step, row), vectors[0]);
            }
            None => self.free.push(vectors[0]),
        }
        Ok(())
    }
}

/// A place a few bytes on.
fn moved(place: MemoryOperand, bytes: i64) -> MemoryOperand {
    MemoryOperand { displacement: place.displacement + bytes, displ_size: 1, ..place }
}

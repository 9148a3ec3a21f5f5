//! A body in AVX-512: registers of 16 lanes, masks in mask registers, tails by mask.
use super::*;
use std::ops::Range;

impl Printer<'_> {
    pub(super) fn operation512(&mut self, i: usize, group: usize) -> Result<(), Refused> {
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
            Mop::FmaF(a, b, c) => self.fma(i, group, [a, b, c], Kind::F)?,
            Mop::FnmaF(a, b, c) => self.fma(i, group, [a, b, c], Kind::MinusF)?,
            Mop::FmaD(a, b, c) => self.fma(i, group, [a, b, c], Kind::D)?,
            // Of all groups together.
            Mop::Quotient(_) => return Err(Refused::Unknown),
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

    /// `1 / b`, or NaN where [`Mop::Quotient`] is not to trust it. Between bodies, so that free registers are free.
    pub(super) fn invert(&mut self, r: Register, b: Uniform, row: usize) {
        let [least, span] = [2f32.powi(-6), 2f32.powi(30)].map(f32::to_bits);
        let [one, least, span, nan] = [1f32.to_bits(), least, span - least, f32::NAN.to_bits()].map(u64::from);
        let wide = |s: &mut Self, bits| Operand::Mem(MemoryOperand { is_broadcast: true, ..s.literal(bits) });
        // The mask of the tail is made when it is needed.
        let (b, k) = (self.kept(b, row).ok_or_else(|| self.place(b, row)), TAIL);
        let code = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
        self.put(match b {
            Ok(b) => Instruction::with2(code, r, quarter(b)),
            Err(place) => Instruction::with2(code, r, place),
        });
        let (from, limit) = (wide(self, least), wide(self, span));
        self.three(Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, r, r, from);
        self.three_with(Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, k, r, limit, ABOVE, Register::None);
        let one = self.literal(one);
        self.put(Instruction::with2(code, r, one));
        let b = match b {
            Ok(b) => Operand::Reg(b),
            Err(place) => Operand::Mem(MemoryOperand { is_broadcast: true, ..place }),
        };
        self.three(Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, r, r, b);
        let nan = self.literal(nan);
        self.put(Instruction::with2(code, r, nan).map(|i| masked(i, k, false)));
    }
    /// Quotients of several groups. With `1/64 <= b < 2^30` and `2^-96 <= |t| < 2^96` no step of the way to one is too
    /// small or too large; if one of them may be, all are divided again.
    pub(super) fn quotients(&mut self, i: usize, groups: Range<usize>, [q, t, a, b]: [V; 4]) -> Result<(), Refused> {
        let [least, end] = [2f32.powi(-96), 2f32.powi(96)].map(f32::to_bits);
        let [magnitude, least, span] = [i32::MAX as u32, least, end - least]
            .map(|bits| Operand::Mem(MemoryOperand { is_broadcast: true, ..self.literal(bits.into()) }));
        let (farthest, from, k) = (vector(self.take()?), vector(self.take()?), self.take_mask()?);
        for group in groups.clone() {
            let (t, to) = (self.register(t, group)?, if group == groups.start { farthest } else { from });
            self.three(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, to, t, magnitude);
            self.three(Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, to, to, least);
            if to == from {
                self.three(Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, farthest, farthest, Operand::Reg(from));
            }
        }
        let above = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        self.three_with(above, mask(k), farthest, span, ABOVE, Register::None);
        self.put(Instruction::with2(Code::VEX_Kortestw_kr_kr, mask(k), mask(k)));
        let mut right = self.asm.create_label();
        if !self.dry {
            self.asm.je(right)?;
        }
        for group in groups.clone() {
            let (q, a) = (self.at[group][q as usize], self.register(a, group)?);
            let b = self.operand(b, group);
            self.three(Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, q, a, b);
        }
        if !self.dry {
            self.asm.set_label(&mut right)?;
        }
        self.free_masks.push(k);
        self.free.extend([farthest, from].map(number));
        for group in groups {
            let made = std::mem::take(&mut self.at[group][q as usize]);
            self.release(i, group);
            self.at[group][i] = made;
            self.drop_unread(i, group);
        }
        Ok(())
    }
}
/// Unsigned above, as the instructions name it.
const ABOVE: u8 = 6;

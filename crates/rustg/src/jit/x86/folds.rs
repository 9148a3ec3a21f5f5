//! Folding rows: into the lanes of an accumulator, then the lanes into one number.
use super::*;

impl Printer<'_> {
    /// One group into the accumulators.
    pub(super) fn fold(&mut self, a: usize, group: usize, lo: V, hi: V) -> Result<(), Refused> {
        let Accumulator { op, ref vectors, seen_nan, .. } = self.accumulators[self.row(group)][a];
        let vectors = vectors.clone();
        let k = self.tail(Form::Word);
        if seen_nan != Register::None {
            let v = self.register(lo, group)?;
            let t = self.take_mask()?;
            let code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
            self.three_with(code, mask(t), v, Operand::Reg(v), UNORDERED, k);
            self.put(Instruction::with3(Code::VEX_Korw_kr_kr_kr, seen_nan, seen_nan, mask(t)));
            self.free_masks.push(t);
        }
        let first = self.operand(lo, group);
        self.three_where(fold_code(op), vector(vectors[0]), vector(vectors[0]), first, k);
        if is_wide_fold(op) {
            let (second, k) = (self.operand(hi, group), self.tail(Form::Quad(1)));
            self.three_where(fold_code(op), vector(vectors[1]), vector(vectors[1]), second, k);
        }
        Ok(())
    }
    /// Lanes to one number, by halves, and into its operand.
    pub(super) fn finish_accumulators(&mut self) -> Result<(), Refused> {
        if self.isa == Isa::Avx2 {
            return self.finish_accumulators256();
        }
        let rows = std::mem::take(&mut self.accumulators);
        let all = rows.iter().enumerate().flat_map(|(row, of)| of.iter().map(move |a| (row, a)));
        for (row, &Accumulator { op, out, scalar, ref vectors, seen_nan }) in all {
            let (x, wide) = (vector(vectors[0]), is_wide_fold(op));
            // The body is over, so its registers are free; not those that are held.
            let Some(t) = self.free.last().map(|&t| vector(t)) else { return Err(Refused::Large) };
            if seen_nan != Register::None {
                let nan = self.literal(f32::NAN.to_bits().into());
                let made = Instruction::with2(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, x, nan);
                self.put(made.map(|i| masked(i, seen_nan, false)));
            }
            if wide {
                self.fold_in(op, x, vector(vectors[1]), seen_nan);
            }
            self.two_with(Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, half(t), x, 1);
            self.fold_in(op, x, t, seen_nan);
            self.two_with(Code::EVEX_Vextractf64x2_xmmm128_k1z_ymm_imm8, quarter(t), half(x), 1);
            self.fold_in(op, x, t, seen_nan);
            let low = Operand::Reg(quarter(x));
            self.three_with(
                Code::EVEX_Vshufpd_xmm_k1z_xmm_xmmm128b64_imm8,
                quarter(t),
                quarter(x),
                low,
                1,
                Register::None,
            );
            self.fold_in(op, x, t, seen_nan);
            if !wide {
                let code = Code::EVEX_Vshufps_xmm_k1z_xmm_xmmm128b32_imm8;
                self.three_with(code, quarter(t), quarter(x), low, 1, Register::None);
                self.fold_in(op, x, t, seen_nan);
            }
            if let Some(out) = out {
                let place = plain(self.based(out, row), 0);
                let code = if wide { Code::EVEX_Vmovsd_m64_k1_xmm } else { Code::EVEX_Vmovss_m32_k1_xmm };
                self.put(Instruction::with2(code, place, quarter(x)));
            }
            if let (Some(step), false) = (scalar, self.stages.len() == 1) {
                let code =
                    if wide { Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64 } else { Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32 };
                self.put(Instruction::with2(code, x, quarter(x)));
                self.scalars.insert((step, row), vectors[0]);
            } else if self.stages.len() > 1 {
                self.free.push(vectors[0]);
            }
            if self.stages.len() > 1 {
                if wide {
                    self.free.push(vectors[1]);
                }
                if seen_nan != Register::None {
                    self.free_masks.push(number(seen_nan));
                }
            }
        }
        Ok(())
    }
    /// `x = fold(x, y)`; `k` is free for use.
    pub(super) fn fold_in(&mut self, op: FoldOp, x: Register, y: Register, k: Register) {
        if k != Register::None {
            const ORDERED: u8 = 7;
            let code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
            self.three_with(code, k, x, Operand::Reg(x), ORDERED, Register::None);
        }
        self.three_where(fold_code(op), x, x, Operand::Reg(y), k);
    }
}

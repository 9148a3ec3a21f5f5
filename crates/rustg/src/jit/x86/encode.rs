//! Registers by number, places in memory, and the instruction for each word of a body.
use super::super::body::{Bin, FoldOp, Form, Un, Uniform};
use super::Kind;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

pub(super) fn vector(n: u8) -> Register {
    Register::ZMM0 + n as u32
}
pub(super) fn half(r: Register) -> Register {
    Register::YMM0 + number(r) as u32
}
pub(super) fn quarter(r: Register) -> Register {
    Register::XMM0 + number(r) as u32
}
pub(super) fn mask(n: u8) -> Register {
    Register::K0 + n as u32
}
pub(super) fn number(r: Register) -> u8 {
    let of = if r.is_k() { Register::K0 } else { Register::ZMM0 };
    (r as u32).wrapping_sub(of as u32) as u8
}

/// Bytes of an element in memory.
pub(super) fn bytes_of(form: Form) -> u32 {
    match form {
        Form::Word | Form::One32 => 4,
        Form::Quad(_) | Form::One64 => 8,
        Form::Byte | Form::SignedByte | Form::Bytes => 1,
        Form::Pair | Form::SignedPair => 2,
    }
}

pub(super) fn frame(at: i64) -> MemoryOperand {
    plain(Register::RDI, at)
}
pub(super) fn is_of_row(u: Uniform) -> bool {
    matches!(u, Uniform::Row32(_) | Uniform::Row64(_) | Uniform::Scalar32(_) | Uniform::Scalar64(_))
        || matches!(u, Uniform::InverseRow(_) | Uniform::InverseScalar(_))
}
pub(super) fn is_inverse(u: Uniform) -> bool {
    matches!(u, Uniform::InverseRow(_) | Uniform::InverseScalar(_) | Uniform::InverseConst(_))
}
pub(super) fn plain(base: Register, at: i64) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, at, (at != 0) as u32, false, Register::None)
}
pub(super) fn masked(mut i: Instruction, k: Register, zeroing: bool) -> Instruction {
    if k != Register::None {
        i.set_op_mask(k);
        i.set_zeroing_masking(zeroing);
    }
    i
}
pub(super) fn broadcast_code(u: Uniform) -> Code {
    match u {
        Uniform::Literal64(_) | Uniform::Const64(_) | Uniform::Row64(_) | Uniform::Scalar64(_) => {
            Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64
        }
        _ => Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    }
}
pub(super) fn is_wide_fold(op: FoldOp) -> bool {
    matches!(op, FoldOp::SumD | FoldOp::ProdD | FoldOp::Sum64)
}
pub(super) fn fold_code(op: FoldOp) -> Code {
    match op {
        FoldOp::SumF => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        FoldOp::ProdF => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        FoldOp::MaxF => Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        FoldOp::MinF => Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        FoldOp::SumD => Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
        FoldOp::ProdD => Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
        FoldOp::Sum64 => Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
    }
}
/// The instruction, and whether its operands may be exchanged.
pub(super) fn bin_code(op: Bin) -> (Code, bool) {
    match op {
        Bin::AddF => (Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, true),
        Bin::SubF => (Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, false),
        Bin::MulF => (Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, true),
        Bin::DivF => (Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, false),
        Bin::AboveF => (Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae, false),
        Bin::BelowF => (Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, false),
        Bin::AddD => (Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, true),
        Bin::SubD => (Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er, false),
        Bin::MulD => (Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, true),
        Bin::DivD => (Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, false),
        Bin::AboveD => (Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae, false),
        Bin::ScaleF => (Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er, false),
        Bin::BelowD => (Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae, false),
        Bin::Add32 => (Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, true),
        Bin::Sub32 => (Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, false),
        Bin::Mul32 => (Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, true),
        Bin::And32 => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, true),
        Bin::Or32 => (Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, true),
        Bin::Xor32 => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, true),
        Bin::MaxS32 => (Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, true),
        Bin::MinS32 => (Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, true),
        Bin::MaxU32 => (Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, true),
        Bin::MinU32 => (Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32, true),
        Bin::Shl32 => (Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, false),
        Bin::Shr32 => (Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, false),
        Bin::Sar32 => (Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32, false),
        Bin::Add64 => (Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::Sub64 => (Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, false),
        Bin::Mul64 => (Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::And64 => (Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::Or64 => (Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::Xor64 => (Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::MaxS64 => (Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::MinS64 => (Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64, true),
        Bin::Shl64 => (Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, false),
        Bin::Sar64 => (Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64, false),
    }
}
/// The instruction, how much of its source it reads (0 all, 1 half, 2 a quarter), and whether it writes a half.
pub(super) fn un_code(op: Un) -> (Code, u8, bool) {
    match op {
        Un::SqrtF => (Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, 0, false),
        Un::SqrtD => (Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, 0, false),
        Un::Abs32 => (Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32, 0, false),
        Un::Abs64 => (Code::EVEX_Vpabsq_zmm_k1z_zmmm512b64, 0, false),
        Un::I32ToF => (Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, 0, false),
        Un::U32ToF => (Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, 0, false),
        Un::FToI32 => (Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, 0, false),
        Un::FToD => (Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, 1, false),
        Un::I32ToD => (Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er, 1, false),
        Un::U32ToD => (Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er, 1, false),
        Un::I32ToI64 => (Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256, 1, false),
        Un::U32ToI64 => (Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, 1, false),
        Un::FToI64 => (Code::EVEX_Vcvttps2qq_zmm_k1z_ymmm256b32_sae, 1, false),
        Un::DToF => (Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, 0, true),
        Un::I64ToF => (Code::EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er, 0, true),
        Un::I64ToI32 => (Code::EVEX_Vpmovqd_ymmm256_k1z_zmm, 0, true),
        Un::I64ToD => (Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er, 0, false),
        Un::DToI64 => (Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae, 0, false),
        Un::ExtendByte => (Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, 2, false),
        Un::ExtendSignedByte => (Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128, 2, false),
        Un::ExtendPair => (Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, 1, false),
        Un::ExtendSignedPair => (Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256, 1, false),
        // Printed by other means.
        Un::RoundF(_) | Un::RoundD(_) | Un::Shl32(_) | Un::Shr32(_) | Un::Sar32(_) => (Code::INVALID, 0, false),
        Un::HalfToF | Un::FToHalf | Un::Upper => (Code::INVALID, 0, false),
    }
}
/// `a * b + c` by which operands are which.
pub(super) fn fma_code(form: u32, kind: Kind) -> Code {
    match (form, kind) {
        (213, Kind::F) => Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
        (231, Kind::F) => Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        (_, Kind::F) => Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
        (213, Kind::MinusF) => Code::EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
        (231, Kind::MinusF) => Code::EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        (_, Kind::MinusF) => Code::EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
        (213, Kind::D) => Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
        (231, Kind::D) => Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
        (_, Kind::D) => Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
    }
}

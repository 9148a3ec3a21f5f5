//! The body of a printed loop: operations on registers of 16 lanes, in SSA form, and numbers that record them.
//!
//! A value of 4 bytes or less takes one register, a value of 8 bytes two (lanes 0 to 7, lanes 8 to 15), a truth a
//! mask register. [`F`] and [`D`] stand for numbers where [`crate::math`] is evaluated, so that printed code does the
//! operations that the tile VM does.
use crate::Isa;
use crate::math::{Real, Short, Whole};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value, by its position in the body.
pub(super) type V = u32;

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// 4 bytes.
    Word,
    /// 8 bytes: lanes 0 to 7 or 8 to 15.
    Quad(u8),
    /// A byte, extended by zeros.
    Byte,
    /// A byte, extended by its sign.
    SignedByte,
    /// 2 bytes, extended by zeros.
    Pair,
    /// 2 bytes, extended by their sign.
    SignedPair,
    /// Bytes as they are, in the low quarter of a register.
    Bytes,
    /// The row's one element, 4 bytes.
    One32,
    /// The row's one element, 8 bytes.
    One64,
}

/// What one number serves every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Uniform {
    /// Part of the code.
    Literal32(u32),
    /// Part of the code.
    Literal64(u64),
    /// At an offset in the table of constants; 4 bytes.
    Const32(u32),
    /// At an offset in the table of constants; 8 bytes.
    Const64(u32),
    /// The one element of an operand's row; 4 bytes.
    Row32(u32),
    /// The one element of an operand's row; 8 bytes.
    Row64(u32),
    /// What an earlier stage made of the row, by its step; 4 bytes.
    Scalar32(u32),
    /// As above; 8 bytes.
    Scalar64(u32),
    /// The reciprocal of a number of 4 bytes: of an operand's row, of an earlier stage's result, of the table of
    /// constants. NaN if quotients are not to be found by it.
    InverseRow(u32),
    InverseScalar(u32),
    InverseConst(u32),
}

/// Two vectors to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bin {
    AddF,
    SubF,
    MulF,
    DivF,
    /// `if a > b { a } else { b }`.
    AboveF,
    BelowF,
    AddD,
    SubD,
    MulD,
    DivD,
    AboveD,
    BelowD,
    /// `a * 2^b`, `b` whole; AVX-512 alone.
    ScaleF,
    Add32,
    Sub32,
    Mul32,
    And32,
    Or32,
    Xor32,
    MaxS32,
    MinS32,
    MaxU32,
    MinU32,
    Shl32,
    Shr32,
    Sar32,
    Add64,
    Sub64,
    Mul64,
    And64,
    Or64,
    Xor64,
    MaxS64,
    MinS64,
    Shl64,
    Sar64,
}

/// One vector to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Un {
    SqrtF,
    SqrtD,
    /// The rounding mode of the instruction.
    RoundF(u8),
    RoundD(u8),
    Shl32(u8),
    Shr32(u8),
    Sar32(u8),
    Abs32,
    Abs64,
    /// Signed 32-bit integers to f32.
    I32ToF,
    U32ToF,
    /// Toward zero; out of range gives the least integer.
    FToI32,
    /// f16 in the low quarters of 16 lanes' words to f32, and back.
    HalfToF,
    FToHalf,
    /// Lanes 8 to 15 as the lower half of a register.
    Upper,
    /// The lower half of a register to 8 lanes of 8 bytes.
    FToD,
    I32ToD,
    U32ToD,
    I32ToI64,
    U32ToI64,
    FToI64,
    /// 8 lanes of 8 bytes to the lower half of a register.
    DToF,
    I64ToF,
    I64ToI32,
    I64ToD,
    DToI64,
    /// Bytes or pairs in the low part of a register to 16 lanes.
    ExtendByte,
    ExtendSignedByte,
    ExtendPair,
    ExtendSignedPair,
}

/// How to compare: predicates are those of the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cmp {
    F(u8),
    D(u8),
    S32(u8),
    U32(u8),
    S64(u8),
}
pub(super) const EQ: u8 = 0;
pub(super) const LT: u8 = 1;
pub(super) const LE: u8 = 2;
pub(super) const UNORDERED: u8 = 3;
pub(super) const NE: u8 = 4;

/// Masks to a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
    /// `!a & b`.
    AndNot,
    /// Of lanes 0 to 7 and lanes 8 to 15.
    Join,
}

/// A fold along a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FoldOp {
    SumF,
    ProdF,
    MaxF,
    MinF,
    SumD,
    ProdD,
    Sum64,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mop {
    Uniform(Uniform),
    /// From the operand's row.
    Load(u32, Form),
    /// The one element of the operand's row, 1 or 2 bytes, in every lane of the low part of a register.
    Splat(u32, u8),
    /// The same of the table of constants.
    ConstSplat(u32, u8),
    Bin(Bin, V, V),
    FmaF(V, V, V),
    /// `c - a * b`.
    FnmaF(V, V, V),
    FmaD(V, V, V),
    Un(Un, V),
    /// Of a quotient found by a reciprocal, of the product that it was found by, dividend and divisor: the quotient,
    /// divided again where the product's range does not promise that it is right.
    Quotient([V; 4]),
    /// The lower halves of two registers in one.
    Halves(V, V),
    /// Without sign of the first, sign of the second.
    SignF(V, V),
    SignD(V, V),
    Cmp(Cmp, V, V),
    /// Which bytes of the low quarter are not 0.
    TestBytes(V),
    Logic(Logic, V, V),
    Not(V),
    /// Lanes 8 to 15 of a mask as lanes 0 to 7.
    UpperMask(V),
    /// `if m { a } else { b }`, of 4 or 8 bytes.
    Blend32(V, V, V),
    Blend64(V, V, V),
    /// Bytes 1 or 0.
    Truths(V),
    Store(u32, Form, V),
    /// Into accumulators from the given one on; the second value is that of lanes 8 to 15.
    Fold(u32, FoldOp, V, V),
}

impl Mop {
    /// Does it give a mask?
    pub fn is_mask(self) -> bool {
        matches!(self, Mop::Cmp(..) | Mop::TestBytes(_) | Mop::Logic(..) | Mop::Not(_) | Mop::UpperMask(_))
    }
    /// The values that it reads.
    pub fn operands(self) -> impl Iterator<Item = V> {
        let (n, v) = match self {
            Mop::Quotient(v) => return v.into_iter().take(4),
            Mop::Uniform(_) | Mop::Load(..) | Mop::Splat(..) | Mop::ConstSplat(..) => (0, [0; 3]),
            Mop::Un(_, a)
            | Mop::TestBytes(a)
            | Mop::Not(a)
            | Mop::UpperMask(a)
            | Mop::Truths(a)
            | Mop::Store(_, _, a) => (1, [a, 0, 0]),
            Mop::Bin(_, a, b)
            | Mop::Halves(a, b)
            | Mop::SignF(a, b)
            | Mop::SignD(a, b)
            | Mop::Cmp(_, a, b)
            | Mop::Logic(_, a, b)
            | Mop::Fold(_, _, a, b) => (2, [a, b, 0]),
            Mop::FmaF(a, b, c)
            | Mop::FnmaF(a, b, c)
            | Mop::FmaD(a, b, c)
            | Mop::Blend32(a, b, c)
            | Mop::Blend64(a, b, c) => (3, [a, b, c]),
        };
        let [a, b, c] = v;
        [a, b, c, 0].into_iter().take(n)
    }
}

/// Operations as they are recorded: an operation that is there already is not recorded again.
#[derive(Default)]
pub(super) struct Body {
    /// Has the machine what AVX-512 adds?
    wide: bool,
    /// That, in a loop over columns.
    wide_loop: bool,
    mops: RefCell<Vec<Mop>>,
    seen: RefCell<HashMap<Mop, V>>,
}

impl Body {
    /// Nothing yet, of a loop over columns or of what is done once a row.
    pub fn new(isa: Isa, is_loop: bool) -> Self {
        let wide = isa == Isa::Avx512;
        Body { wide, wide_loop: wide && is_loop, ..Body::default() }
    }
    /// `a / b` of 4 bytes each. If one divisor serves a row, by its reciprocal `y`: with `t` = a y and `r` = a - t b,
    /// `t + r y` is the quotient rounded once (Markstein), as long as nothing is too small or too large.
    pub fn divide(&self, a: V, b: V) -> V {
        let made = |v: V| self.mops.borrow()[v as usize];
        let inverse = match made(b) {
            Mop::Uniform(Uniform::Row32(m)) => Uniform::InverseRow(m),
            Mop::Uniform(Uniform::Scalar32(step)) => Uniform::InverseScalar(step),
            Mop::Uniform(Uniform::Const32(offset)) => Uniform::InverseConst(offset),
            _ => return self.bin(Bin::DivF, a, b),
        };
        if !self.wide_loop || matches!(made(a), Mop::Uniform(_)) {
            return self.bin(Bin::DivF, a, b);
        }
        let y = self.push(Mop::Uniform(inverse));
        let t = self.bin(Bin::MulF, a, y);
        let q = self.push(Mop::FmaF(self.push(Mop::FnmaF(t, b, a)), y, t));
        self.push(Mop::Quotient([q, t, a, b]))
    }
    pub fn push(&self, mop: Mop) -> V {
        if let Some(&v) = self.seen.borrow().get(&mop) {
            return v;
        }
        let mut mops = self.mops.borrow_mut();
        mops.push(mop);
        let v = mops.len() as V - 1;
        self.seen.borrow_mut().insert(mop, v);
        v
    }
    pub fn literal32(&self, bits: u32) -> V {
        self.push(Mop::Uniform(Uniform::Literal32(bits)))
    }
    pub fn literal64(&self, bits: u64) -> V {
        self.push(Mop::Uniform(Uniform::Literal64(bits)))
    }
    pub fn bin(&self, op: Bin, a: V, b: V) -> V {
        self.push(Mop::Bin(op, a, b))
    }
    pub fn un(&self, op: Un, a: V) -> V {
        self.push(Mop::Un(op, a))
    }
    /// Both halves of a value of 8 bytes.
    pub fn halves(&self, a: V) -> [V; 2] {
        [a, self.un(Un::Upper, a)]
    }
    /// One register from the lower halves of two.
    pub fn join(&self, halves: [V; 2]) -> V {
        self.push(Mop::Halves(halves[0], halves[1]))
    }
    pub fn into_mops(self) -> Vec<Mop> {
        self.mops.into_inner()
    }
}

/// An f32 of the body.
#[derive(Clone, Copy)]
pub(super) struct F<'a>(pub &'a Body, pub V);
/// An i32 of the body.
#[derive(Clone, Copy)]
pub(super) struct I<'a>(pub &'a Body, pub V);
/// An f64 of the body.
#[derive(Clone, Copy)]
pub(super) struct D<'a>(pub &'a Body, pub [V; 2]);
/// An i64 of the body.
#[derive(Clone, Copy)]
pub(super) struct L<'a>(pub &'a Body, pub [V; 2]);

macro_rules! arithmetic {
    ($($Op:ident $op:ident $f:ident $d:ident),*) => { $(
        impl<'a> $Op for F<'a> {
            type Output = F<'a>;
            fn $op(self, b: F<'a>) -> F<'a> {
                F(self.0, self.0.bin(Bin::$f, self.1, b.1))
            }
        }
        impl<'a> $Op for D<'a> {
            type Output = D<'a>;
            fn $op(self, b: D<'a>) -> D<'a> {
                D(self.0, [0, 1].map(|k| self.0.bin(Bin::$d, self.1[k], b.1[k])))
            }
        }
    )* };
}
arithmetic!(Add add AddF AddD, Sub sub SubF SubD, Mul mul MulF MulD);

impl<'a> Div for F<'a> {
    type Output = F<'a>;
    fn div(self, b: F<'a>) -> F<'a> {
        F(self.0, self.0.divide(self.1, b.1))
    }
}
impl<'a> Div for D<'a> {
    type Output = D<'a>;
    fn div(self, b: D<'a>) -> D<'a> {
        D(self.0, [0, 1].map(|k| self.0.bin(Bin::DivD, self.1[k], b.1[k])))
    }
}

impl<'a> Neg for F<'a> {
    type Output = F<'a>;
    fn neg(self) -> F<'a> {
        F(self.0, self.0.bin(Bin::Xor32, self.1, self.0.literal32(1 << 31)))
    }
}
impl<'a> Neg for D<'a> {
    type Output = D<'a>;
    fn neg(self) -> D<'a> {
        D(self.0, self.1.map(|v| self.0.bin(Bin::Xor64, v, self.0.literal64(1 << 63))))
    }
}

impl<'a> Real for F<'a> {
    type Lit = f32;
    type Bits = I<'a>;
    type Truth = V;
    fn lit(self, c: f32) -> Self {
        F(self.0, self.0.literal32(c.to_bits()))
    }
    fn fma(self, b: Self, c: Self) -> Self {
        F(self.0, self.0.push(Mop::FmaF(self.1, b.1, c.1)))
    }
    fn abs(self) -> Self {
        F(self.0, self.0.bin(Bin::And32, self.1, self.0.literal32(0x7fff_ffff)))
    }
    fn copysign(self, sign: Self) -> Self {
        F(self.0, self.0.push(Mop::SignF(self.1, sign.1)))
    }
    fn above(self, b: Self) -> Self {
        F(self.0, self.0.bin(Bin::AboveF, self.1, b.1))
    }
    fn below(self, b: Self) -> Self {
        F(self.0, self.0.bin(Bin::BelowF, self.1, b.1))
    }
    fn lt(self, b: Self) -> V {
        self.0.push(Mop::Cmp(Cmp::F(LT), self.1, b.1))
    }
    fn le(self, b: Self) -> V {
        self.0.push(Mop::Cmp(Cmp::F(LE), self.1, b.1))
    }
    fn eq(self, b: Self) -> V {
        self.0.push(Mop::Cmp(Cmp::F(EQ), self.1, b.1))
    }
    fn is_nan(self) -> V {
        self.0.push(Mop::Cmp(Cmp::F(UNORDERED), self.1, self.1))
    }
    fn pick(c: V, a: Self, b: Self) -> Self {
        F(a.0, a.0.push(Mop::Blend32(c, a.1, b.1)))
    }
    fn bits(self) -> I<'a> {
        I(self.0, self.1)
    }
    fn from_bits(bits: I<'a>) -> Self {
        F(bits.0, bits.1)
    }
    fn from_whole(n: I<'a>) -> Self {
        F(n.0, n.0.un(Un::I32ToF, n.1))
    }
    fn scaled(self, n: Self) -> Option<Self> {
        self.0.wide.then(|| F(self.0, self.0.bin(Bin::ScaleF, self.1, n.1)))
    }
}

impl<'a> Short for F<'a> {
    type Long = D<'a>;
    fn lengthen(self) -> D<'a> {
        D(self.0, self.0.halves(self.1).map(|v| self.0.un(Un::FToD, v)))
    }
    fn shorten(long: D<'a>) -> Self {
        F(long.0, long.0.join(long.1.map(|v| long.0.un(Un::DToF, v))))
    }
    fn low_bits(long: D<'a>) -> I<'a> {
        I(long.0, long.0.join(long.1.map(|v| long.0.un(Un::I64ToI32, v))))
    }
}

impl<'a> Whole for I<'a> {
    type Truth = V;
    fn lit(self, c: i32) -> Self {
        I(self.0, self.0.literal32(c as u32))
    }
    fn add(self, b: Self) -> Self {
        I(self.0, self.0.bin(Bin::Add32, self.1, b.1))
    }
    fn sub(self, b: Self) -> Self {
        I(self.0, self.0.bin(Bin::Sub32, self.1, b.1))
    }
    fn and(self, b: Self) -> Self {
        I(self.0, self.0.bin(Bin::And32, self.1, b.1))
    }
    fn xor(self, b: Self) -> Self {
        I(self.0, self.0.bin(Bin::Xor32, self.1, b.1))
    }
    fn shl(self, n: u32) -> Self {
        I(self.0, self.0.un(Un::Shl32(n as u8), self.1))
    }
    fn sar(self, n: u32) -> Self {
        I(self.0, self.0.un(Un::Sar32(n as u8), self.1))
    }
    fn eq(self, b: Self) -> V {
        self.0.push(Mop::Cmp(Cmp::S32(EQ), self.1, b.1))
    }
    fn lt(self, b: Self) -> V {
        self.0.push(Mop::Cmp(Cmp::S32(LT), self.1, b.1))
    }
    fn pick(c: V, a: Self, b: Self) -> Self {
        I(a.0, a.0.push(Mop::Blend32(c, a.1, b.1)))
    }
}

impl D<'_> {
    fn cmp(self, predicate: u8, b: Self) -> [V; 2] {
        [0, 1].map(|k| self.0.push(Mop::Cmp(Cmp::D(predicate), self.1[k], b.1[k])))
    }
}
impl<'a> Real for D<'a> {
    type Lit = f64;
    type Bits = L<'a>;
    type Truth = [V; 2];
    fn lit(self, c: f64) -> Self {
        D(self.0, [self.0.literal64(c.to_bits()); 2])
    }
    fn fma(self, b: Self, c: Self) -> Self {
        D(self.0, [0, 1].map(|k| self.0.push(Mop::FmaD(self.1[k], b.1[k], c.1[k]))))
    }
    fn abs(self) -> Self {
        D(self.0, self.1.map(|v| self.0.bin(Bin::And64, v, self.0.literal64(u64::MAX >> 1))))
    }
    fn copysign(self, sign: Self) -> Self {
        D(self.0, [0, 1].map(|k| self.0.push(Mop::SignD(self.1[k], sign.1[k]))))
    }
    fn above(self, b: Self) -> Self {
        D(self.0, [0, 1].map(|k| self.0.bin(Bin::AboveD, self.1[k], b.1[k])))
    }
    fn below(self, b: Self) -> Self {
        D(self.0, [0, 1].map(|k| self.0.bin(Bin::BelowD, self.1[k], b.1[k])))
    }
    fn lt(self, b: Self) -> [V; 2] {
        self.cmp(LT, b)
    }
    fn le(self, b: Self) -> [V; 2] {
        self.cmp(LE, b)
    }
    fn eq(self, b: Self) -> [V; 2] {
        self.cmp(EQ, b)
    }
    fn is_nan(self) -> [V; 2] {
        self.cmp(UNORDERED, self)
    }
    fn pick(c: [V; 2], a: Self, b: Self) -> Self {
        D(a.0, [0, 1].map(|k| a.0.push(Mop::Blend64(c[k], a.1[k], b.1[k]))))
    }
    fn bits(self) -> L<'a> {
        L(self.0, self.1)
    }
    fn from_bits(bits: L<'a>) -> Self {
        D(bits.0, bits.1)
    }
    fn from_whole(n: L<'a>) -> Self {
        D(n.0, n.1.map(|v| n.0.un(Un::I64ToD, v)))
    }
}

impl L<'_> {
    fn both(self, op: Bin, b: Self) -> Self {
        L(self.0, [0, 1].map(|k| self.0.bin(op, self.1[k], b.1[k])))
    }
    fn cmp(self, predicate: u8, b: Self) -> [V; 2] {
        [0, 1].map(|k| self.0.push(Mop::Cmp(Cmp::S64(predicate), self.1[k], b.1[k])))
    }
    fn literal(self, c: u64) -> Self {
        L(self.0, [self.0.literal64(c); 2])
    }
}
impl Whole for L<'_> {
    type Truth = [V; 2];
    fn lit(self, c: i32) -> Self {
        self.literal(c as i64 as u64)
    }
    fn add(self, b: Self) -> Self {
        self.both(Bin::Add64, b)
    }
    fn sub(self, b: Self) -> Self {
        self.both(Bin::Sub64, b)
    }
    fn and(self, b: Self) -> Self {
        self.both(Bin::And64, b)
    }
    fn xor(self, b: Self) -> Self {
        self.both(Bin::Xor64, b)
    }
    fn shl(self, n: u32) -> Self {
        self.both(Bin::Shl64, self.literal(n.into()))
    }
    fn sar(self, n: u32) -> Self {
        self.both(Bin::Sar64, self.literal(n.into()))
    }
    fn eq(self, b: Self) -> [V; 2] {
        self.cmp(EQ, b)
    }
    fn lt(self, b: Self) -> [V; 2] {
        self.cmp(LT, b)
    }
    fn pick(c: [V; 2], a: Self, b: Self) -> Self {
        L(a.0, [0, 1].map(|k| a.0.push(Mop::Blend64(c[k], a.1[k], b.1[k]))))
    }
}

//! Kernels that compute each element from the same element of their operands.
use super::args::{Args, Body, Extra, Kernel, cold, hot, row_of, row_out, splat_of, warm};
use crate::number::{BFloat, Complex, F8E4M3, F8E5M2, Half, Integer, Number, Truth, Wide};
use crate::{Arith, Comparison, Function, Isa, math, philox::random_u32};
use rtx_core::DType;
use std::marker::PhantomData;

/// A function of one element.
trait Op1 {
    type A: Copy;
    type R: Copy;
    fn apply(a: Self::A) -> Self::R;
}
/// A function of two elements.
trait Op2 {
    type A: Copy;
    type R: Copy;
    fn apply(a: Self::A, b: Self::A) -> Self::R;
}

struct Loop1<O>(PhantomData<O>);
impl<O: Op1> Body for Loop1<O> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        for r in 0..x.rows {
            // SAFETY: the kernel's contract.
            let (d, a) = unsafe { (row_out::<O::R>(x, r), row_of::<O::A>(x, 0, r)) };
            map1(d, a, O::apply);
        }
    }
}
#[inline(always)]
fn map1<A: Copy, R>(d: &mut [R], a: &[A], f: impl Fn(A) -> R) {
    for (d, &a) in d.iter_mut().zip(a) {
        *d = f(a);
    }
}
#[inline(always)]
fn map2<A: Copy, B: Copy, R>(d: &mut [R], a: &[A], b: &[B], f: impl Fn(A, B) -> R) {
    for ((d, &a), &b) in d.iter_mut().zip(a).zip(b) {
        *d = f(a, b);
    }
}
#[inline(always)]
fn map3<A: Copy, B: Copy, C: Copy, R>(d: &mut [R], a: &[A], b: &[B], c: &[C], f: impl Fn(A, B, C) -> R) {
    for (((d, &a), &b), &c) in d.iter_mut().zip(a).zip(b).zip(c) {
        *d = f(a, b, c);
    }
}

/// `A` and `B`: has that operand an element for every column?
struct Loop2<O, const A: bool, const B: bool>(PhantomData<O>);
impl<O: Op2, const A: bool, const B: bool> Body for Loop2<O, A, B> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        for r in 0..x.rows {
            // SAFETY: the kernel's contract.
            unsafe {
                let d = row_out::<O::R>(x, r);
                match (A, B) {
                    (true, true) => map2(d, row_of(x, 0, r), row_of(x, 1, r), O::apply),
                    (true, false) => {
                        let b = splat_of(x, 1, r);
                        map1(d, row_of(x, 0, r), |a| O::apply(a, b))
                    }
                    (false, _) => {
                        let a = splat_of(x, 0, r);
                        map1(d, row_of(x, 1, r), |b| O::apply(a, b))
                    }
                }
            }
        }
    }
}
/// Any steps, for what is rare.
struct AnyLoop2<O>(PhantomData<O>);
impl<O: Op2> Body for AnyLoop2<O> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        for r in 0..x.rows {
            // SAFETY: the kernel's contract; an operand with step 0 has one element.
            unsafe {
                let d = row_out::<O::R>(x, r);
                let a = x.src[0].offset(r as isize * x.pitch[0]) as *const O::A;
                let b = x.src[1].offset(r as isize * x.pitch[1]) as *const O::A;
                for (i, d) in d.iter_mut().enumerate() {
                    *d = O::apply(*a.add(i * x.step[0]), *b.add(i * x.step[1]));
                }
            }
        }
    }
}

/// How many of two operands have one element for the row: which loop.
type Steps2 = [usize; 2];
fn hot2<O: Op2>(steps: Steps2, isa: Isa) -> Kernel {
    match steps {
        [1, 1] => hot::<Loop2<O, true, true>>(isa),
        [1, _] => hot::<Loop2<O, true, false>>(isa),
        _ => hot::<Loop2<O, false, true>>(isa),
    }
}
fn warm2<O: Op2>(steps: Steps2, isa: Isa) -> Kernel {
    match steps {
        [1, 1] => warm::<Loop2<O, true, true>>(isa),
        [1, _] => warm::<Loop2<O, true, false>>(isa),
        _ => warm::<Loop2<O, false, true>>(isa),
    }
}
/// One loop for all steps, still compiled for several instruction sets.
fn heavy2<O: Op2>(_: Steps2, isa: Isa) -> Kernel {
    warm::<AnyLoop2<O>>(isa)
}
fn cold2<O: Op2>(_: Steps2, _: Isa) -> Kernel {
    cold::<AnyLoop2<O>>()
}

/// A kernel from an expression of one element.
macro_rules! op1 {
    ($make:expr, $A:ty => $R:ty, |$x:ident| $body:expr) => {{
        struct Op;
        impl Op1 for Op {
            type A = $A;
            type R = $R;
            #[inline(always)]
            fn apply($x: $A) -> $R {
                $body
            }
        }
        $make(PhantomData::<Loop1<Op>>)
    }};
}
/// A kernel from an expression of two elements.
macro_rules! op2 {
    ($make:ident($steps:expr, $isa:expr), $A:ty => $R:ty, |$x:ident, $y:ident| $body:expr) => {{
        struct Op;
        impl Op2 for Op {
            type A = $A;
            type R = $R;
            #[inline(always)]
            fn apply($x: $A, $y: $A) -> $R {
                $body
            }
        }
        $make::<Op>($steps, $isa)
    }};
}
fn hot1<B: Body>(isa: Isa) -> impl Fn(PhantomData<B>) -> Kernel {
    move |_| hot::<B>(isa)
}
fn warm1<B: Body>(isa: Isa) -> impl Fn(PhantomData<B>) -> Kernel {
    move |_| warm::<B>(isa)
}
fn cold1<B: Body>(_: PhantomData<B>) -> Kernel {
    cold::<B>()
}

/// A function of one number, for types it is defined for.
pub(super) fn unary(f: Function, dtype: DType, isa: Isa) -> Option<Kernel> {
    macro_rules! floats {
        ($T:ident, $make:ident; $($V:ident $g:expr),*) => { match f {
            Function::Neg => op1!($make(isa), $T => $T, |x| -x),
            Function::Abs => op1!($make(isa), $T => $T, |x| x.abs()),
            Function::Floor => op1!($make(isa), $T => $T, |x| x.floor()),
            Function::Ceil => op1!($make(isa), $T => $T, |x| x.ceil()),
            Function::Trunc => op1!($make(isa), $T => $T, |x| x.trunc()),
            Function::RoundEven => op1!($make(isa), $T => $T, |x| x.round_ties_even()),
            Function::Sqrt => op1!($make(isa), $T => $T, |x| x.sqrt()),
            $(Function::$V => op1!($make(isa), $T => $T, |x| $g(x)),)*
            Function::Real | Function::Imag | Function::Not => return None,
        } };
    }
    macro_rules! ints {
        ($($D:ident $T:ident),*) => { match (dtype, f) {
            (DType::Bool, Function::Not) => op1!(hot1(isa), u8 => u8, |x| x ^ 1),
            $((DType::$D, Function::Neg) => op1!(cold1, $T => $T, |x| x.wrapping_neg()),
            (DType::$D, Function::Abs) => op1!(cold1, $T => $T, |x| x.magnitude()),
            (DType::$D, Function::Sign) => op1!(cold1, $T => $T, |x| x.sign()),
            (DType::$D, Function::Not) => op1!(cold1, $T => $T, |x| !x),)*
            _ => return None,
        } };
    }
    Some(match dtype {
        DType::F32 => {
            floats!(f32, hot1; Sign math::sign_f32, Exp math::exp_f32, Expm1 math::expm1_f32, Log math::log_f32,
            Log1p math::log1p_f32, Sin math::sin_f32, Cos math::cos_f32, Tanh math::tanh_f32, Erf math::erf_f32, Erfc math::erfc_f32,
            Lgamma math::lgamma_f32, Digamma math::digamma_f32)
        }
        DType::F64 => {
            floats!(f64, warm1; Sign math::sign_f64, Exp math::exp_f64, Expm1 math::expm1_f64, Log math::log_f64,
            Log1p math::log1p_f64, Sin math::sin_f64, Cos math::cos_f64, Tanh math::tanh_f64, Erf math::erf_f64, Erfc math::erfc_f64,
            Lgamma math::lgamma_f64, Digamma math::digamma_f64)
        }
        DType::C64 => match f {
            Function::Real => op1!(cold1, Complex<f32> => f32, |x| x.re),
            Function::Imag => op1!(cold1, Complex<f32> => f32, |x| x.im),
            _ => return None,
        },
        DType::C128 => match f {
            Function::Real => op1!(cold1, Complex<f64> => f64, |x| x.re),
            Function::Imag => op1!(cold1, Complex<f64> => f64, |x| x.im),
            _ => return None,
        },
        _ => ints!(U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, U16 u16, U32 u32, U64 u64),
    })
}

/// A function of two numbers of type `dtype`, for types it is defined for.
pub(super) fn binary(f: Arith, dtype: DType, steps: Steps2, isa: Isa) -> Option<Kernel> {
    macro_rules! floats {
        ($T:ident, $make:ident, $pow:ident, $atan2:ident, $max:ident, $min:ident, $rem:ident) => {
            match f {
                Arith::Add => op2!($make(steps, isa), $T => $T, |x, y| x + y),
                Arith::Sub => op2!($make(steps, isa), $T => $T, |x, y| x - y),
                Arith::Mul => op2!($make(steps, isa), $T => $T, |x, y| x * y),
                Arith::Div => op2!($make(steps, isa), $T => $T, |x, y| x / y),
                Arith::Max => op2!($make(steps, isa), $T => $T, |x, y| math::$max(x, y)),
                Arith::Min => op2!($make(steps, isa), $T => $T, |x, y| math::$min(x, y)),
                Arith::Pow => op2!(heavy2(steps, isa), $T => $T, |x, y| math::$pow(x, y)),
                Arith::Atan2 => op2!(heavy2(steps, isa), $T => $T, |x, y| math::$atan2(x, y)),
                Arith::Rem => op2!(cold2(steps, isa), $T => $T, |x, y| math::$rem(x, y)),
                Arith::Complex => op2!(cold2(steps, isa), $T => Complex<$T>, |x, y| Complex { re: x, im: y }),
                _ => return None,
            }
        };
    }
    macro_rules! ints {
        ($T:ident, $make:ident) => {
            match f {
                Arith::Add => op2!($make(steps, isa), $T => $T, |x, y| x.wrapping_add(y)),
                Arith::Sub => op2!($make(steps, isa), $T => $T, |x, y| x.wrapping_sub(y)),
                Arith::Mul => op2!($make(steps, isa), $T => $T, |x, y| x.wrapping_mul(y)),
                Arith::And => op2!($make(steps, isa), $T => $T, |x, y| x & y),
                Arith::Or => op2!($make(steps, isa), $T => $T, |x, y| x | y),
                Arith::Xor => op2!($make(steps, isa), $T => $T, |x, y| x ^ y),
                Arith::Shl => op2!($make(steps, isa), $T => $T, |x, y| x.shift_left(y)),
                Arith::Shr => op2!($make(steps, isa), $T => $T, |x, y| x.shift_right(y)),
                Arith::Max => op2!(cold2(steps, isa), $T => $T, |x, y| x.max(y)),
                Arith::Min => op2!(cold2(steps, isa), $T => $T, |x, y| x.min(y)),
                Arith::Div => op2!(cold2(steps, isa), $T => $T, |x, y| x.quotient(y)),
                Arith::Rem => op2!(cold2(steps, isa), $T => $T, |x, y| x.remainder(y)),
                Arith::Pow => op2!(cold2(steps, isa), $T => $T, |x, y| x.power(y)),
                Arith::Atan2 | Arith::Complex => return None,
            }
        };
    }
    Some(match dtype {
        DType::F32 => floats!(f32, hot2, pow_f32, atan2_f32, max_f32, min_f32, rem_f32),
        DType::F64 => floats!(f64, warm2, pow_f64, atan2_f64, max_f64, min_f64, rem_f64),
        DType::I64 => ints!(i64, warm2),
        DType::U32 => ints!(u32, warm2),
        DType::Bool => match f {
            Arith::And | Arith::Min => op2!(warm2(steps, isa), u8 => u8, |x, y| x & y),
            Arith::Or | Arith::Max => op2!(warm2(steps, isa), u8 => u8, |x, y| x | y),
            Arith::Xor => op2!(warm2(steps, isa), u8 => u8, |x, y| x ^ y),
            _ => return None,
        },
        DType::U8 => ints!(u8, warm2),
        DType::I8 => ints!(i8, cold2),
        DType::I16 => ints!(i16, cold2),
        DType::I32 => ints!(i32, warm2),
        DType::U16 => ints!(u16, cold2),
        DType::U64 => ints!(u64, cold2),
        _ => return None,
    })
}

/// Arithmetic of f32 that joins into pairs: `a ∘ b`, with the operands in either order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Link {
    Add,
    Mul,
    Sub,
    /// `b - a`.
    SubFrom,
}
impl Link {
    /// The link that is `f`, or `f` with its operands exchanged.
    pub fn of(f: Arith, exchanged: bool) -> Option<Link> {
        match (f, exchanged) {
            (Arith::Add, _) => Some(Link::Add),
            (Arith::Mul, _) => Some(Link::Mul),
            (Arith::Sub, false) => Some(Link::Sub),
            (Arith::Sub, true) => Some(Link::SubFrom),
            _ => None,
        }
    }
}
trait LinkOp {
    fn apply(a: f32, b: f32) -> f32;
}
macro_rules! link_ops {
    ($($Name:ident |$a:ident, $b:ident| $body:expr),*) => { $(
        struct $Name;
        impl LinkOp for $Name {
            #[inline(always)]
            fn apply($a: f32, $b: f32) -> f32 {
                $body
            }
        }
    )* };
}
link_ops!(Add | a, b | a + b, Mul | a, b | a * b, Sub | a, b | a - b, SubFrom | a, b | b - a);

/// `(a ∘ b) ∘ c`, each rounded; `B`, `C`: has that operand an element for every column? `a` always has.
struct PairLoop<P, Q, const B: bool, const C: bool>(PhantomData<(P, Q)>);
impl<P: LinkOp, Q: LinkOp, const B: bool, const C: bool> Body for PairLoop<P, Q, B, C> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        for r in 0..x.rows {
            // SAFETY: the kernel's contract.
            unsafe {
                let (d, a) = (row_out::<f32>(x, r), row_of::<f32>(x, 0, r));
                match (B, C) {
                    (true, true) => map3(d, a, row_of(x, 1, r), row_of(x, 2, r), |a, b, c| Q::apply(P::apply(a, b), c)),
                    (true, false) => {
                        let c = splat_of(x, 2, r);
                        map2(d, a, row_of(x, 1, r), |a, b| Q::apply(P::apply(a, b), c))
                    }
                    (false, true) => {
                        let b = splat_of(x, 1, r);
                        map2(d, a, row_of(x, 2, r), |a, c| Q::apply(P::apply(a, b), c))
                    }
                    (false, false) => {
                        let (b, c) = (splat_of(x, 1, r), splat_of(x, 2, r));
                        map1(d, a, |a| Q::apply(P::apply(a, b), c))
                    }
                }
            }
        }
    }
}
/// Two links in one pass over the tile; only where vector units make the pass through cache the cost.
pub(super) fn pair(first: Link, second: Link, steps: Steps2, isa: Isa) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    fn of<P: LinkOp, Q: LinkOp>(steps: Steps2, isa: Isa) -> Option<Kernel> {
        use super::args::vector;
        Some(match steps {
            [1, 1] => vector::<PairLoop<P, Q, true, true>>(isa)?,
            [1, _] => vector::<PairLoop<P, Q, true, false>>(isa)?,
            [_, 1] => vector::<PairLoop<P, Q, false, true>>(isa)?,
            _ => vector::<PairLoop<P, Q, false, false>>(isa)?,
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn of<P: LinkOp, Q: LinkOp>(_: Steps2, _: Isa) -> Option<Kernel> {
        None
    }
    macro_rules! second {
        ($P:ident) => {
            match second {
                Link::Add => of::<$P, Add>(steps, isa),
                Link::Mul => of::<$P, Mul>(steps, isa),
                Link::Sub => of::<$P, Sub>(steps, isa),
                Link::SubFrom => of::<$P, SubFrom>(steps, isa),
            }
        };
    }
    match first {
        Link::Add => second!(Add),
        Link::Mul => second!(Mul),
        Link::Sub => second!(Sub),
        Link::SubFrom => second!(SubFrom),
    }
}

/// A comparison.
pub(super) fn compare(f: Comparison, dtype: DType, steps: Steps2, isa: Isa) -> Option<Kernel> {
    macro_rules! on {
        ($T:ident, $make:ident) => {
            match f {
                Comparison::Eq => op2!($make(steps, isa), $T => u8, |x, y| (x == y) as u8),
                Comparison::Lt => op2!($make(steps, isa), $T => u8, |x, y| (x < y) as u8),
                Comparison::Le => op2!($make(steps, isa), $T => u8, |x, y| (x <= y) as u8),
            }
        };
    }
    Some(match dtype {
        DType::F32 => on!(f32, hot2),
        DType::I64 => on!(i64, warm2),
        DType::U32 => on!(u32, warm2),
        DType::F64 => on!(f64, warm2),
        DType::Bool | DType::U8 => on!(u8, warm2),
        DType::I8 => on!(i8, cold2),
        DType::I16 => on!(i16, cold2),
        DType::I32 => on!(i32, warm2),
        DType::U16 => on!(u16, cold2),
        DType::U64 => on!(u64, cold2),
        _ => return None,
    })
}

/// `a * b + c`; `B`, `C`: has that operand an element for every column? `a` always has.
struct FmaLoop<T, const B: bool, const C: bool>(PhantomData<T>);
macro_rules! fma_loop { ($($T:ident)*) => { $(
    impl<const B: bool, const C: bool> Body for FmaLoop<$T, B, C> {
        #[inline(always)]
        unsafe fn run(x: &Args<'_>) {
            for r in 0..x.rows {
                // SAFETY: the kernel's contract.
                unsafe {
                    let (d, a) = (row_out::<$T>(x, r), row_of::<$T>(x, 0, r));
                    match (B, C) {
                        (true, true) => map3(d, a, row_of::<$T>(x, 1, r), row_of::<$T>(x, 2, r), |a, b, c| a.mul_add(b, c)),
                        (true, false) => {
                            let c = splat_of::<$T>(x, 2, r);
                            map2(d, a, row_of::<$T>(x, 1, r), |a, b| a.mul_add(b, c))
                        }
                        (false, true) => {
                            let b = splat_of::<$T>(x, 1, r);
                            map2(d, a, row_of::<$T>(x, 2, r), |a, c| a.mul_add(b, c))
                        }
                        (false, false) => {
                            let (b, c) = (splat_of::<$T>(x, 1, r), splat_of::<$T>(x, 2, r));
                            map1(d, a, |a| a.mul_add(b, c))
                        }
                    }
                }
            }
        }
    }
)* } }
fma_loop!(f32 f64);

/// `a * b + c`, rounded once. The first operand has an element for every column.
pub(super) fn fma(dtype: DType, steps: [usize; 3], isa: Isa) -> Option<Kernel> {
    macro_rules! on {
        ($T:ident, $make:ident) => {
            match [steps[1], steps[2]] {
                [1, 1] => $make::<FmaLoop<$T, true, true>>(isa),
                [1, _] => $make::<FmaLoop<$T, true, false>>(isa),
                [_, 1] => $make::<FmaLoop<$T, false, true>>(isa),
                _ => $make::<FmaLoop<$T, false, false>>(isa),
            }
        };
    }
    match dtype {
        DType::F32 => Some(on!(f32, hot)),
        DType::F64 => Some(on!(f64, warm)),
        _ => None,
    }
}

/// `if c { a } else { b }`; `A`, `B`: has that operand an element for every column? `c` always has.
struct SelectLoop<T, const A: bool, const B: bool>(PhantomData<T>);
impl<T: Copy, const A: bool, const B: bool> Body for SelectLoop<T, A, B> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        for r in 0..x.rows {
            // SAFETY: the kernel's contract.
            unsafe {
                let (d, c) = (row_out::<T>(x, r), row_of::<u8>(x, 0, r));
                match (A, B) {
                    (true, true) => {
                        map3(d, c, row_of::<T>(x, 1, r), row_of::<T>(x, 2, r), |c, a, b| if c != 0 { a } else { b })
                    }
                    (true, false) => {
                        let b = splat_of::<T>(x, 2, r);
                        map2(d, c, row_of::<T>(x, 1, r), |c, a| if c != 0 { a } else { b })
                    }
                    (false, true) => {
                        let a = splat_of::<T>(x, 1, r);
                        map2(d, c, row_of::<T>(x, 2, r), |c, b| if c != 0 { a } else { b })
                    }
                    (false, false) => {
                        let (a, b) = (splat_of::<T>(x, 1, r), splat_of::<T>(x, 2, r));
                        map1(d, c, |c| if c != 0 { a } else { b })
                    }
                }
            }
        }
    }
}
/// Select among elements of `size` bytes. The condition has an element for every column.
pub(super) fn select(size: usize, steps: [usize; 3], isa: Isa) -> Option<Kernel> {
    macro_rules! on {
        ($T:ty, $make:ident) => {
            match [steps[1], steps[2]] {
                [1, 1] => $make::<SelectLoop<$T, true, true>>(isa),
                [1, _] => $make::<SelectLoop<$T, true, false>>(isa),
                [_, 1] => $make::<SelectLoop<$T, false, true>>(isa),
                _ => $make::<SelectLoop<$T, false, false>>(isa),
            }
        };
    }
    Some(match size {
        1 => on!(u8, warm),
        2 => on!(u16, warm),
        4 => on!(u32, hot),
        8 => on!(u64, warm),
        16 => on!([u64; 2], warm),
        _ => return None,
    })
}

/// Conversion, by way of [`Number`]: pairs that training meets in every instruction set, others in one slow loop.
pub(super) fn cast(from: DType, to: DType, isa: Isa) -> Kernel {
    macro_rules! hot_pairs {
        ($($D:ident $A:ident => $($E:ident $R:ident)|+),* $(,)?) => { match (from, to) {
            $($((DType::$D, DType::$E) => op1!(warm1(isa), $A => $R, |x| <$R as Number>::from_number(x)),)+)*
            _ => cold::<AnyCast>(),
        } };
    }
    hot_pairs! {
        F32 f32 => F64 f64 | F16 Half | BF16 BFloat | I32 i32 | I64 i64 | Bool Truth,
        Bool Truth => F32 f32 | I64 i64,
        I64 i64 => F32 f32 | F64 f64 | I32 i32,
        I32 i32 => F32 f32 | I64 i64,
        U32 u32 => F32 f32 | F64 f64 | I64 i64,
        U8 u8 => F32 f32,
        F16 Half => F32 f32,
        BF16 BFloat => F32 f32,
        F64 f64 => F32 f32,
    }
}

/// Something to do with a type that is known only when a kernel runs.
trait WithNumber {
    type R;
    fn with<T: Number>(self) -> Self::R;
}
/// Does it with the type.
fn with_number<W: WithNumber>(t: DType, w: W) -> W::R {
    match t {
        DType::Bool => w.with::<Truth>(),
        DType::U8 => w.with::<u8>(),
        DType::I8 => w.with::<i8>(),
        DType::I16 => w.with::<i16>(),
        DType::I32 => w.with::<i32>(),
        DType::I64 => w.with::<i64>(),
        DType::U16 => w.with::<u16>(),
        DType::U32 => w.with::<u32>(),
        DType::U64 => w.with::<u64>(),
        DType::F16 => w.with::<Half>(),
        DType::BF16 => w.with::<BFloat>(),
        DType::F32 => w.with::<f32>(),
        DType::F64 => w.with::<f64>(),
        DType::F8E4M3 => w.with::<F8E4M3>(),
        DType::F8E5M2 => w.with::<F8E5M2>(),
        DType::C64 => w.with::<Complex<f32>>(),
        DType::C128 => w.with::<Complex<f64>>(),
    }
}
/// One element between any two types, a match each: every pair for the size of one loop.
struct AnyCast;
impl Body for AnyCast {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let Extra::Cast { from, to } = *x.extra else { unreachable!("the binding names the types of every cast") };
        for r in 0..x.rows {
            for c in 0..x.cols {
                // SAFETY: the kernel's contract.
                unsafe {
                    let src = x.src[0].offset(r as isize * x.pitch[0]).add(c * from.size());
                    let dst = x.dst.offset(r as isize * x.dst_pitch).add(c * to.size());
                    with_number(to, Write(dst, with_number(from, Read(src))));
                }
            }
        }
    }
}
struct Read(*const u8);
impl WithNumber for Read {
    type R = Wide;
    #[inline(never)]
    fn with<T: Number>(self) -> Wide {
        // SAFETY: `AnyCast` points at an element of this type.
        unsafe { *(self.0 as *const T) }.widen()
    }
}
struct Write(*mut u8, Wide);
impl WithNumber for Write {
    type R = ();
    #[inline(never)]
    fn with<T: Number>(self) {
        let value = match self.1 {
            Wide::Int(n) => T::from_number(n),
            Wide::Unsigned(n) => T::from_number(n),
            Wide::Float(n) => T::from_number(n),
            Wide::Complex(n) => T::from_number(n),
        };
        // SAFETY: `AnyCast` points at an element of this type.
        unsafe { *(self.0 as *mut T) = value }
    }
}

/// Key and ordinal serve the row when `ONE`, else every operand has an element for every column.
struct RandomLoop<const ONE: bool>;
impl<const ONE: bool> Body for RandomLoop<ONE> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        for r in 0..x.rows {
            // SAFETY: the kernel's contract.
            unsafe {
                let (d, index) = (row_out::<u32>(x, r), row_of::<i64>(x, 2, r));
                if ONE {
                    let (key, ordinal) = (splat_of::<i64>(x, 0, r), splat_of::<i64>(x, 1, r));
                    map1(d, index, |index| random_u32(key, ordinal, index));
                } else {
                    map3(d, row_of::<i64>(x, 0, r), row_of::<i64>(x, 1, r), index, random_u32);
                }
            }
        }
    }
}
/// Random words; the steps are `[0, 0, 1]` or `[1, 1, 1]`.
pub(super) fn random(steps: [usize; 3], isa: Isa) -> Kernel {
    match steps {
        [0, 0, 1] => hot::<RandomLoop<true>>(isa),
        _ => hot::<RandomLoop<false>>(isa),
    }
}

/// Positions along the columns, or along the rows laid out as columns.
struct IotaLoop<const ROWS: bool>;
impl<const ROWS: bool> Body for IotaLoop<ROWS> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let first = if ROWS { x.row0 } else { x.col0 };
        // SAFETY: the kernel's contract.
        let d = unsafe { row_out::<i64>(x, 0) };
        d.iter_mut().zip(first..).for_each(|(d, i)| *d = i);
    }
}
/// Positions along the row axis or the column axis.
pub(super) fn iota(along_rows: bool) -> Kernel {
    if along_rows { cold::<IotaLoop<true>>() } else { cold::<IotaLoop<false>>() }
}

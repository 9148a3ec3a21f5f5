//! Random numbers: one stream of ordinals, taken when an op is recorded (contract M7).
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    create,
    failure::OrPanic,
    shape::{Int, IntoShape, check_sizes},
};
use rtx_core::{DType, Error, Kind, Scalar, Shape};
use rtx_ir::{OpDef, Prim};
use std::{
    cell::RefCell,
    ops::Range,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A stream of random numbers: a seed, and how many random ops have drawn from it. Cloning clones the handle.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let dice = torch::Generator::new(1);
/// let saved = dice.state();
/// let first = torch::with_generator(&dice, || torch::rand(2).to_vec::<f32>())?;
/// dice.set_state(saved);
/// assert_eq!(torch::with_generator(&dice, || torch::rand(2).to_vec::<f32>())?, first);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator(Arc<Stream>);
#[derive(Debug)]
struct Stream {
    seed: AtomicU64,
    ordinal: AtomicU64,
}

/// Where a stream is: restoring it makes the same numbers come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomState {
    /// The seed.
    pub seed: u64,
    /// How many random ops have drawn.
    pub ordinal: u64,
}

impl Generator {
    /// A new stream.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Stream { seed: AtomicU64::new(seed), ordinal: AtomicU64::new(0) }))
    }
    /// Where it is.
    pub fn state(&self) -> RandomState {
        RandomState { seed: self.0.seed.load(Relaxed), ordinal: self.0.ordinal.load(Relaxed) }
    }
    /// Puts it there.
    pub fn set_state(&self, state: RandomState) {
        self.0.seed.store(state.seed, Relaxed);
        self.0.ordinal.store(state.ordinal, Relaxed);
    }
    /// The seed, and an ordinal that no other op gets.
    fn take(&self) -> RandomState {
        RandomState { seed: self.0.seed.load(Relaxed), ordinal: self.0.ordinal.fetch_add(1, Relaxed) }
    }
}

static DEFAULT: LazyLock<Generator> = LazyLock::new(|| Generator::new(0));
thread_local! { static CURRENT: RefCell<Vec<Generator>> = const { RefCell::new(Vec::new()) } }

/// The stream that this thread draws from.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// torch::manual_seed(1);
/// let saved = torch::generator().state(); // what a checkpoint keeps
/// let x = torch::rand(2).to_vec::<f32>()?;
/// torch::generator().set_state(saved);
/// assert_eq!(torch::rand(2).to_vec::<f32>()?, x);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn generator() -> Generator {
    CURRENT.with_borrow(|stack| stack.last().cloned()).unwrap_or_else(|| DEFAULT.clone())
}
/// Starts the default stream anew.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// torch::manual_seed(1);
/// let x = torch::rand(2).to_vec::<f32>()?;
/// torch::manual_seed(1);
/// assert_eq!(torch::rand(2).to_vec::<f32>()?, x);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn manual_seed(seed: u64) {
    generator().set_state(RandomState { seed, ordinal: 0 });
}
/// Random ops inside draw from this stream.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let dice = || torch::Generator::new(1);
/// let roll = |g| torch::with_generator(&g, || torch::rand(2).to_vec::<f32>());
/// assert_eq!(roll(dice())?, roll(dice())?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn with_generator<T>(generator: &Generator, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            CURRENT.with_borrow_mut(|stack| stack.pop());
        }
    }
    CURRENT.with_borrow_mut(|stack| stack.push(generator.clone()));
    let _leave = Leave;
    f()
}
/// Random ops inside draw from a stream of their own, given by a path such as `[seed, worker, epoch, index]`: the
/// same path gives the same numbers on any thread, in any order.
///
/// # Example
/// ```
/// use rtx_tensor::{equal, fork, rand};
/// assert!(equal(&fork(&[1, 2], || rand(4)), &fork(&[1, 2], || rand(4)))?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn fork<T>(path: &[u64], f: impl FnOnce() -> T) -> T {
    let seed = path.iter().fold(0x9E37_79B9_7F4A_7C15, |h, &x| mix(h ^ mix(x.wrapping_add(0x9E37_79B9_7F4A_7C15))));
    with_generator(&Generator::new(seed), f)
}
/// The finalizer of splitmix64: a bijection that spreads every bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Key and ordinal of the next random op: run-time numbers.
pub(crate) fn draw() -> Result<[Argument; 2]> {
    let RandomState { seed, ordinal } = generator().take();
    let number = |n: u64| create::scalar(Scalar::Int(n as i64), DType::I64).map(Argument::Tensor);
    Ok([number(seed)?, number(ordinal)?])
}

/// Calls an op that takes key and ordinal first.
#[track_caller]
fn drawn(def: &'static OpDef, rest: impl Into<Argument>) -> Result<Tensor> {
    let [key, ordinal] = draw()?;
    call::call_one(def, &[key, ordinal, rest.into()])
}

/// Uniform numbers in `[0, 1)`, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert!(torch::rand(10).lt(1).all(..).item::<bool>()?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn rand(shape: impl IntoShape) -> Tensor {
    drawn(op!("random_uniform"), shape.sizes()).or_panic()
}
/// Normal numbers, mean 0 and deviation 1, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::randn([2, 3]).shape(), [2, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn randn(shape: impl IntoShape) -> Tensor {
    drawn(op!("random_normal"), shape.sizes()).or_panic()
}
/// Uniform integers of a range, `i64`.
///
/// # Panics
/// When the range is empty or spans more than 2^32 numbers.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert!(torch::randint(1..7, 10).ge(1).all(..).item::<bool>()?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn randint<T: Int>(range: Range<T>, shape: impl IntoShape) -> Tensor {
    let (low, high) = (range.start.int(), range.end.int());
    let span = high.wrapping_sub(low);
    if high <= low || span > 1 << 32 {
        Err(Error::new(Kind::Argument, format!("randint: {low}..{high} is empty or wider than 2^32"))).or_panic()
    }
    let sizes = check_sizes("randint", &shape.sizes()).or_panic();
    let [key, ordinal] = draw().or_panic();
    call::record_one(&[key, ordinal], |b, v| {
        let bits = b.prim(Prim::RandomBits { shape: Shape::of(&sizes) }, v)?;
        let wide = b.cast(bits, DType::I64)?;
        let (span, low) = (b.param(DType::I64, Scalar::Int(span))?, b.param(DType::I64, Scalar::Int(low))?);
        // bits * span / 2^32: off from uniform by less than span / 2^32.
        let product = b.mul(wide, span)?;
        let scaled = b.shr(product, 32.0)?;
        b.add(scaled, low)
    })
    .or_panic()
}
/// The numbers `0..n` in random order, `i64`. Made on the host, from the stream.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::randperm(5).sum(..).item::<i64>()?, 10);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn randperm(n: usize) -> Tensor {
    let state = generator().take();
    let mut seed = mix(state.seed) ^ mix(state.ordinal.wrapping_add(1));
    let mut ids: Vec<i64> = (0..n as i64).collect();
    for i in (1..n).rev() {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let j = ((mix(seed) as u128 * (i as u128 + 1)) >> 64) as usize;
        ids.swap(i, j);
    }
    crate::from_slice(&ids, n)
}
/// Draws `n` positions of each row with these probabilities (or weights), with replacement, `i64`.
///
/// # Panics
/// When the weights are no floats of one or two dims.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::multinomial(&tensor!([0., 1.]), 1).to_vec::<i64>()?, [1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn multinomial(weights: &Tensor, n: usize) -> Tensor {
    if !(1..=2).contains(&weights.rank()) {
        let what = format!("multinomial: needs 1 or 2 dims, got {}", weights.ty());
        Err(Error::new(Kind::Shape, what)).or_panic()
    }
    let mut shape = weights.shape();
    shape.insert(weights.rank() - 1, n);
    let rows = weights.detach().unsqueeze(-2).expand(shape);
    let draw = || {
        let [key, ordinal] = draw()?;
        call::call_one(op!("categorical"), &[(&rows).into(), key, ordinal])
    };
    Result::or_panic(draw())
}

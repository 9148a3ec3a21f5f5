//! [`Value`]: an immutable tensor on a device, there already or still to be computed.
use crate::counters::FlushReason;
use crate::launch;
use crate::memory::Memory;
use crate::region::Region;
use crate::{Executor, frame, lock};
use rtx_core::{DType, Error, Kind, Layout, Location, Result, Scalar};
use rtx_ir::{Type, ValueId};
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

/// An immutable tensor on a device. Cloning clones the handle. A value that no handle holds is never computed.
#[derive(Clone)]
pub struct Value(pub(crate) Arc<Inner>);

/// What the handles of a value share.
pub(crate) struct Inner {
    pub(crate) executor: Executor,
    pub(crate) ty: Type,
    pub(crate) location: Option<Location>,
    is_number: bool,
    /// The serial number of the region that it waits for, 0 where it waits for none; written with `state`. Who records
    /// or runs that region reads it without the lock, for nobody else changes the value meanwhile.
    home: AtomicU64,
    /// Which value of that region it is.
    home_id: AtomicU32,
    state: Mutex<State>,
}

/// How far a value has come. Only from `Pending` to `Ready` or `Poisoned`.
#[derive(Clone)]
pub(crate) enum State {
    /// A value of a region that has not run.
    Pending { region: Arc<Region>, id: ValueId },
    /// In memory.
    Ready(Storage),
    /// A host number, recorded anew wherever it is used (contract S2).
    Number(u64),
    /// What went wrong (contract R5).
    Poisoned(Error),
}

impl State {
    /// The serial number of the region that is waited for and the value's id there; 0 for none.
    fn home(&self) -> (u64, u32) {
        if let State::Pending { region, id } = self { (region.serial, id.0) } else { (0, 0) }
    }
}

/// Where a value's elements lie.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) memory: Arc<Memory>,
    pub(crate) layout: Layout,
}

impl Value {
    pub(crate) fn new(executor: &Executor, ty: Type, location: Option<Location>, state: State) -> Self {
        let ready = matches!(state, State::Ready(_));
        let (home, id) = state.home();
        let value = Value(Arc::new(Inner {
            executor: executor.clone(),
            ty,
            location,
            is_number: matches!(state, State::Number(_)),
            home: AtomicU64::new(home),
            home_id: AtomicU32::new(id),
            state: Mutex::new(state),
        }));
        if ready {
            executor.register().note([&value.0]);
        }
        value
    }

    /// A value from its elements, dense in row-major order.
    ///
    /// # Errors
    /// [`Kind::Argument`] when the bytes do not fit the type; [`Kind::Memory`].
    pub fn from_bytes(executor: &Executor, ty: Type, bytes: &[u8]) -> Result<Value> {
        if !ty.shape.is_static() || ty.bytes() != bytes.len() {
            let message = format!("from_bytes: {ty} takes {} bytes, got {}", ty.bytes(), bytes.len());
            return Err(Error::new(Kind::Argument, message));
        }
        let memory = executor.pool().take(bytes.len())?;
        launch::write(&memory, bytes)?;
        let layout = Layout::contiguous(&ty.shape.sizes());
        let state = State::Ready(Storage { memory: Arc::new(memory), layout });
        Ok(Value::new(executor, ty, None, state))
    }

    /// A rank-0 host number: where it is used it is a run-time number of the plan, never part of the key.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for what is wider than a parameter's 8 bytes.
    pub fn number(executor: &Executor, dtype: DType, number: impl Into<Scalar>) -> Result<Value> {
        if dtype.size() > size_of::<u64>() {
            return Err(Error::new(Kind::Unsupported, format!("a host number has 8 bytes, {dtype} has 16")));
        }
        let bits = number.into().to_bits(dtype);
        Ok(Value::new(executor, Type::new(dtype, []), None, State::Number(bits)))
    }

    /// Element type and shape.
    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    /// A number that no other living value has.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Where it lives.
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// The line that recorded it, if an op made it.
    pub fn location(&self) -> Option<Location> {
        self.0.location
    }

    /// Is nothing left to run before it can be read? True for poisoned values too.
    pub fn is_ready(&self) -> bool {
        !matches!(&*lock(&self.0.state), State::Pending { .. })
    }

    /// Is it a host number (see [`Value::number`])?
    pub fn is_number(&self) -> bool {
        self.0.is_number
    }

    /// Do both lie in the same memory? False for values that are not ready.
    pub fn shares_memory_with(&self, other: &Value) -> bool {
        match (self.state(), other.state()) {
            (State::Ready(a), State::Ready(b)) => Arc::ptr_eq(&a.memory, &b.memory),
            _ => false,
        }
    }

    /// Runs what is left to run for it.
    ///
    /// # Errors
    /// What went wrong while its region ran; the same error again at every later call.
    pub fn wait(&self) -> Result<()> {
        self.settle().map(drop)
    }

    /// The elements, dense in row-major order.
    ///
    /// # Errors
    /// As [`Value::wait`], and what the device says of the copy.
    pub fn read(&self) -> Result<Vec<u8>> {
        match self.settle()? {
            State::Ready(storage) => storage.read(&self.0.ty),
            State::Number(bits) => Ok(number_bytes(bits, self.0.ty.dtype)),
            State::Poisoned(e) => Err(e),
            State::Pending { .. } => Err(never_ran()),
        }
    }

    /// The state after its region has run.
    fn settle(&self) -> Result<State> {
        if let State::Pending { region, id } = self.state() {
            if let Some(what) = region.frame {
                return Err(frame::unreadable(what));
            }
            self.0.executor.submit_step(Some(&region));
            match region.run(FlushReason::Read) {
                // The value shows nothing of what happened, so its reader is told here and now.
                Err(failure) if failure.put_back.contains(&id) => return Err(failure.error),
                // Others were put back.
                Err(failure) if !self.is_poisoned() => self.0.executor.keep_failure(failure.error),
                Err(_) | Ok(()) => (),
            }
        }
        // Kernels may still report that the value is none.
        if let Some(error) = self.0.executor.look_back(true).filter(|_| !self.is_poisoned()) {
            self.0.executor.keep_failure(error);
        }
        match self.state() {
            State::Poisoned(e) => Err(e),
            State::Pending { .. } => Err(never_ran()),
            ready => Ok(ready),
        }
    }

    fn is_poisoned(&self) -> bool {
        matches!(&*lock(&self.0.state), State::Poisoned(_))
    }

    /// Where it lies, if it lies anywhere.
    pub(crate) fn storage(&self) -> Option<Storage> {
        if let State::Ready(storage) = &*lock(&self.0.state) { Some(storage.clone()) } else { None }
    }

    /// Why it is not in memory, if it is not.
    pub(crate) fn missing(&self) -> Option<Error> {
        match &*lock(&self.0.state) {
            State::Ready(_) => None,
            State::Poisoned(e) => Some(e.clone()),
            State::Pending { region, .. } => Some(region.frame.map_or_else(never_ran, frame::unreadable)),
            State::Number(_) => Some(never_ran()),
        }
    }

    pub(crate) fn state(&self) -> State {
        lock(&self.0.state).clone()
    }

    /// Sets the state and drops the old one outside the lock. A value that comes to memory is then to be noted in the
    /// executor's register.
    pub(crate) fn set_state(&self, state: State) {
        let (home, id) = state.home();
        let old = {
            let mut now = lock(&self.0.state);
            self.0.home_id.store(id, Relaxed);
            self.0.home.store(home, Release);
            std::mem::replace(&mut *now, state)
        };
        drop(old);
    }

    /// Is it a value of `region`, and which?
    pub(crate) fn pending_in(&self, region: &Arc<Region>) -> Option<ValueId> {
        let here = self.0.home.load(Acquire) == region.serial;
        here.then(|| ValueId(self.0.home_id.load(Relaxed)))
    }

    /// Does nobody but the holder of this handle know the value or its memory (contract M2)?
    pub(crate) fn is_unshared(&self) -> bool {
        let state = lock(&self.0.state);
        let State::Ready(storage) = &*state else { return false };
        Arc::strong_count(&self.0) == 1 && Arc::strong_count(&storage.memory) == 1
    }
}

fn never_ran() -> Error {
    Error::new(Kind::Internal, "read: the value's region did not run")
}

/// The bytes of a number, as one element.
fn number_bytes(bits: u64, dtype: DType) -> Vec<u8> {
    bits.to_le_bytes()[..dtype.size()].to_vec()
}

impl Storage {
    /// The elements, dense in row-major order.
    fn read(&self, ty: &Type) -> Result<Vec<u8>> {
        let (sizes, element) = (ty.shape.sizes(), ty.dtype.size());
        if ty.bytes() == 0 {
            return Ok(Vec::new());
        }
        if self.layout.is_contiguous(&sizes) {
            return launch::read(&self.memory, self.layout.offset * element, ty.bytes());
        }
        let (low, high) = span(&sizes, &self.layout);
        let bytes = launch::read(&self.memory, low * element, (high + 1 - low) * element)?;
        let mut out = Vec::with_capacity(ty.bytes());
        for_each_offset(&sizes, &self.layout, |at| {
            let from = (at - low) * element;
            out.extend_from_slice(&bytes[from..from + element]);
        });
        Ok(out)
    }
}

/// The first and the last element that a layout touches; no size is 0.
fn span(sizes: &[usize], layout: &Layout) -> (usize, usize) {
    let (mut low, mut high) = (layout.offset as isize, layout.offset as isize);
    for (&n, &s) in sizes.iter().zip(&layout.strides) {
        let reach = (n as isize - 1) * s;
        if reach < 0 { low += reach } else { high += reach }
    }
    (low as usize, high as usize)
}

/// Calls `f` with the position of every element in row-major order.
fn for_each_offset(sizes: &[usize], layout: &Layout, mut f: impl FnMut(usize)) {
    let mut index = vec![0usize; sizes.len()];
    for _ in 0..sizes.iter().product() {
        let steps = index.iter().zip(&layout.strides).map(|(&i, &s)| i as isize * s);
        f((layout.offset as isize + steps.sum::<isize>()) as usize);
        for axis in (0..sizes.len()).rev() {
            index[axis] += 1;
            if index[axis] < sizes[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state() {
            State::Pending { .. } => "pending",
            State::Ready(_) => "ready",
            State::Number(_) => "number",
            State::Poisoned(_) => "poisoned",
        };
        write!(f, "Value({}, {state})", self.0.ty)
    }
}

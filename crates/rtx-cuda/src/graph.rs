//! A plan's launches as one CUDA graph: made when the same list comes a second time, replayed by one call, its nodes
//! brought up to date where addresses or sizes have changed.
use crate::code::Function;
use crate::device::{Context, lock, own};
use crate::sys::{Address, Handle, KernelNode};
use crate::template::Grid;
use rtx_core::Result;
use rtx_hal::{Kept, Listed, Stopped};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A launch that waits to be queued.
pub(crate) struct Queued {
    function: Arc<Function>,
    grid: Grid,
    words: Vec<u64>,
}

/// Where launches go.
pub(crate) enum Sink<'a> {
    /// Onto the stream, now.
    Stream,
    /// Onto a list.
    List(&'a mut Vec<Queued>),
}

impl Sink<'_> {
    /// Passes a launch on.
    ///
    /// # Safety
    /// The words are what the entry takes, and what they point to is there when it runs.
    pub(crate) unsafe fn push(
        &mut self,
        context: &Context,
        function: &Arc<Function>,
        grid: Grid,
        words: &mut [u64],
    ) -> Result<()> {
        match self {
            // SAFETY: the caller's promise.
            Sink::Stream => unsafe { function.launch(context, grid, words) },
            Sink::List(list) => {
                if grid.blocks > 0 {
                    grid.x()?;
                    list.push(Queued { function: function.clone(), grid, words: words.to_vec() });
                }
                Ok(())
            }
        }
    }
}

/// A graph of launches, each after the one before it.
pub(crate) struct Graph {
    context: Arc<Context>,
    graph: Handle,
    exec: Handle,
    nodes: Vec<Handle>,
}
// SAFETY: handles of a context, used while that is current, by one thread at a time.
unsafe impl Send for Graph {}

impl Graph {
    fn new(context: &Arc<Context>, list: &mut [Queued]) -> Result<Self> {
        let mut new = Self {
            context: context.clone(),
            graph: null_mut(),
            exec: null_mut(),
            nodes: Vec::with_capacity(list.len()),
        };
        let cuda = &context.cuda;
        // SAFETY: each call writes a handle that stands here; arguments are copied while a node is added.
        unsafe {
            context.check((cuda.graph_create)(&mut new.graph, 0), "a graph")?;
            for one in list {
                let (mut node, before) = (null_mut(), new.nodes.last().map_or(null(), std::ptr::from_ref));
                let mut argument = [one.words.as_mut_ptr().cast()];
                let describes = node_of(&one.function, one.grid, &mut argument)?;
                let count = usize::from(!before.is_null());
                context.check((cuda.graph_add)(&mut node, new.graph, before, count, &describes), "a graph's launch")?;
                new.nodes.push(node);
            }
            context.check((cuda.graph_instantiate)(&mut new.exec, new.graph, 0), "a graph")?;
        }
        context.graphs.made.fetch_add(1, Relaxed);
        Ok(new)
    }

    /// Brings a node up to date; what is queued already keeps its arguments.
    fn set(&self, at: usize, one: &mut Queued) -> Result<()> {
        let mut argument = [one.words.as_mut_ptr().cast()];
        let describes = node_of(&one.function, one.grid, &mut argument)?;
        // SAFETY: a node of this graph; its arguments are copied.
        let status = unsafe { (self.context.cuda.graph_set)(self.exec, self.nodes[at], &describes) };
        self.context.check(status, "a graph's launch")
    }

    fn launch(&self) -> Result<()> {
        let context = &self.context;
        context.graphs.launched.fetch_add(1, Relaxed);
        // SAFETY: the nodes' arguments were vouched for.
        context.check(unsafe { (context.cuda.graph_launch)(self.exec, context.stream) }, "a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let context = &self.context;
        if context.enter().is_err() {
            return;
        }
        // A lost device says so elsewhere.
        _ = context.wait();
        // SAFETY: handles of this graph, which runs no more.
        unsafe {
            if !self.exec.is_null() {
                (context.cuda.graph_exec_destroy)(self.exec);
            }
            if !self.graph.is_null() {
                (context.cuda.graph_destroy)(self.graph);
            }
        }
    }
}

fn node_of(function: &Function, grid: Grid, argument: &mut [*mut c_void; 1]) -> Result<KernelNode> {
    Ok(KernelNode {
        function: function.handle(),
        grid: [grid.x()?, 1, 1],
        block: [grid.threads, 1, 1],
        shared_bytes: grid.shared_bytes,
        arguments: argument.as_mut_ptr(),
        extra: null_mut(),
        kernel: null_mut(),
        context: null_mut(),
    })
}

/// What is kept of a plan's list.
struct KeptList {
    /// Everything that the launches depend on: addresses, sizes, where the scratch memory is.
    stamp: Vec<u64>,
    queued: Vec<Queued>,
    reports: bool,
    graph: Option<Graph>,
}

impl KeptList {
    /// Has the list the same addresses and sizes as the last time?
    fn is_same(&self, list: &[Listed<'_>], scratch: Address) -> bool {
        stamp(list, scratch).eq(self.stamp.iter().copied())
    }

    /// Queues each launch by itself.
    fn launch_one_by_one(&mut self, context: &Context) -> Result<()> {
        if self.reports {
            context.may_report.store(true, Relaxed);
        }
        for one in &mut self.queued {
            // SAFETY: the launch was vouched for when it was collected.
            unsafe { one.function.launch(context, one.grid, &mut one.words)? };
        }
        Ok(())
    }

    /// Takes the place of what was kept: only launches that differ are set anew.
    fn update(&mut self, new: KeptList) -> Result<()> {
        let old = std::mem::replace(&mut self.queued, new.queued);
        (self.stamp, self.reports) = (new.stamp, new.reports);
        if old.len() != self.queued.len() {
            self.graph = None;
        }
        let Some(graph) = &self.graph else { return Ok(()) };
        for (at, (one, old)) in self.queued.iter_mut().zip(&old).enumerate() {
            let same = Arc::ptr_eq(&one.function, &old.function) && one.grid == old.grid && one.words == old.words;
            if !same {
                graph.context.graphs.set.fetch_add(1, Relaxed);
                graph.set(at, one)?;
            }
        }
        Ok(())
    }

    /// Queues it all.
    fn launch(&mut self, context: &Arc<Context>) -> Result<()> {
        if self.reports {
            context.may_report.store(true, Relaxed);
        }
        if self.graph.is_none() {
            self.graph = Some(Graph::new(context, &mut self.queued)?);
        }
        self.graph.as_ref().map_or(Ok(()), Graph::launch)
    }
}

fn stamp<'a>(list: &'a [Listed<'_>], scratch: Address) -> impl Iterator<Item = u64> + 'a {
    let of = |one: &'a Listed<'_>| {
        let buffers = one.launch.buffers.iter().map(|b| b.addr() as u64);
        buffers.chain(one.launch.sizes.iter().map(|s| *s as u64))
    };
    list.iter().flat_map(of).chain([scratch])
}

/// Collects the launches of a list without queueing one.
fn collect(context: &Arc<Context>, list: &[Listed<'_>]) -> std::result::Result<KeptList, Stopped> {
    let before = context.may_report.swap(false, Relaxed);
    loop {
        let scratch = lock(&context.scratch).0;
        let mut queued = Vec::with_capacity(list.len());
        for (at, one) in list.iter().enumerate() {
            one.launch.error.enter(one.step);
            let code = own(one.code).map_err(|error| Stopped { at, error })?;
            // SAFETY: nothing is launched yet.
            unsafe { code.queue(&one.launch, &mut Sink::List(&mut queued)) }.map_err(|error| Stopped { at, error })?;
        }
        // Scratch memory that has grown on the way lies elsewhere now.
        if lock(&context.scratch).0 == scratch {
            let reports = context.may_report.swap(before, Relaxed);
            return Ok(KeptList { stamp: stamp(list, scratch).collect(), queued, reports, graph: None });
        }
    }
}

/// Runs a list as a graph, with what was kept of it.
///
/// # Safety
/// As `Device::launch_list`.
pub(crate) unsafe fn replay(
    context: &Arc<Context>,
    list: &[Listed<'_>],
    kept: &mut Kept,
) -> std::result::Result<(), Stopped> {
    let stopped = |error| Stopped { at: 0, error };
    context.enter().map_err(stopped)?;
    match kept.as_mut().and_then(|k| k.downcast_mut::<KeptList>()) {
        Some(kept) => {
            let scratch = lock(&context.scratch).0;
            if !kept.is_same(list, scratch) {
                kept.update(collect(context, list)?).map_err(stopped)?;
            }
            kept.launch(context).map_err(stopped)
        }
        None => {
            // What runs once needs no graph.
            let mut new = collect(context, list)?;
            let done = new.launch_one_by_one(context);
            *kept = Some(Box::new(new));
            done.map_err(stopped)
        }
    }
}

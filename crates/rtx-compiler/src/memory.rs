//! Where memory lives: what is overwritten in place, what is a slot, and how the arena is cut.
use crate::lower::{Launch, Lowered, Mem};
use crate::schedule::Steps;
use crate::views::{Strided, stored};
use crate::work::Work;
use rtx_core::Layout;
use rtx_ir::{Prim, ValueId};
use rtx_plan::{OutputPlace, Place, SizeExpr};
use rustg::Instr;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Alignment of everything in the arena, in bytes.
const ALIGN: u64 = 64;

/// Where everything is.
pub(crate) struct Homes {
    /// Launches that need not run: the copy's source is dead and becomes its target.
    pub elided: Vec<bool>,
    /// For each launch, argument pairs (read, written) that share memory.
    pub in_place: Vec<Vec<(usize, usize)>>,
    /// The place of each piece of memory.
    pub place: HashMap<Mem, Place>,
    /// For each wanted value, where it is and how its elements lie.
    pub outputs: Vec<(OutputPlace, Layout)>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Constants that kernels read from memory.
    pub constants: Vec<u8>,
}

/// Gives everything a place.
pub(crate) fn plan_memory(work: &Work, lowered: &Lowered, steps: &Steps, views: &[Option<Strided>]) -> Homes {
    let mut planner = Planner::new(work, lowered, steps, views);
    planner.elide_copies();
    planner.overwrite();
    planner.reuse_donated();
    planner.finish()
}

/// One or more pieces of memory that share their bytes one after the other.
#[derive(Clone, Debug)]
struct Home {
    bytes: u64,
    first: usize,
    last: usize,
    /// The first output that lives here.
    output: Option<u32>,
    /// The input whose memory it is.
    input: Option<u32>,
}

struct Planner<'a> {
    work: &'a Work,
    lowered: &'a Lowered,
    steps: &'a Steps,
    views: &'a [Option<Strided>],
    step_of: Vec<usize>,
    homes: Vec<Home>,
    /// The home of each piece of memory.
    home: HashMap<Mem, usize>,
    /// Steps at which each piece is first written, first read and last used.
    uses: HashMap<Mem, Uses>,
    elided: Vec<bool>,
    in_place: Vec<Vec<(usize, usize)>>,
}

#[derive(Clone, Debug, Default)]
struct Uses {
    writers: SmallVec<[usize; 1]>,
    readers: SmallVec<[usize; 2]>,
    wanted: bool,
}

impl<'a> Planner<'a> {
    fn new(work: &'a Work, lowered: &'a Lowered, steps: &'a Steps, views: &'a [Option<Strided>]) -> Self {
        let n = lowered.launches.len();
        let mut step_of = vec![0; n];
        steps.iter().enumerate().for_each(|(s, members)| members.iter().for_each(|&i| step_of[i] = s));
        let mut uses: HashMap<Mem, Uses> = HashMap::new();
        for (i, l) in lowered.launches.iter().enumerate() {
            for a in &l.arguments {
                let u = uses.entry(a.mem).or_default();
                if a.written { u.writers.push(i) } else { u.readers.push(i) }
            }
        }
        for (&w, view) in work.wanted.iter().zip(views) {
            let base = view.as_ref().map_or(w, |s| s.base);
            uses.entry(lowered.mem(base)).or_default().wanted = true;
        }
        let mut planner = Self {
            work,
            lowered,
            steps,
            views,
            step_of,
            homes: vec![],
            home: HashMap::new(),
            uses,
            elided: vec![false; n],
            in_place: vec![vec![]; n],
        };
        planner.settle();
        planner
    }

    /// A home for each piece of memory.
    fn settle(&mut self) {
        let mut mems: Vec<Mem> = self.uses.keys().copied().collect();
        mems.sort_unstable();
        for mem in mems {
            let u = &self.uses[&mem];
            let at = u.writers.iter().chain(&u.readers).map(|&i| self.step_of[i]);
            let first = at.clone().min().unwrap_or(0);
            let last = if u.wanted { usize::MAX } else { at.max().unwrap_or(0) };
            let input = if let Mem::Value(v) = mem { self.work.input_of.get(&v).copied() } else { None };
            self.home.insert(mem, self.homes.len());
            self.homes.push(Home { bytes: self.bytes(mem), first, last, output: None, input });
        }
        for (k, &w) in self.work.wanted.iter().enumerate() {
            let base = self.views[k].as_ref().map_or(w, |s| s.base);
            let home = &mut self.homes[self.home[&self.lowered.mem(base)]];
            home.output.get_or_insert(k as u32);
        }
    }

    fn bytes(&self, mem: Mem) -> u64 {
        match mem {
            Mem::Value(v) => self.work.graph.ty(v).bytes() as u64,
            Mem::Temp(t) => {
                let t = &self.lowered.temps[t as usize];
                (t.numel * t.dtype.size()) as u64
            }
        }
    }

    /// Memory of a fixed place that is nobody's to overwrite: constants, run-time numbers, inputs unless donated.
    fn is_fixed(&self, mem: Mem) -> bool {
        let Mem::Value(v) = mem else { return false };
        match self.work.input_of.get(&v) {
            Some(&i) => {
                let (fact, facts) = (&self.work.facts[i as usize], &self.work.facts);
                let shared = fact.alias.is_some() || facts.iter().any(|f| f.alias == Some(i));
                !fact.donated || shared || !crate::views::is_dense_input(self.work, i)
            }
            None => matches!(self.work.prim(v), Some(Prim::Constant { .. } | Prim::Param { .. })),
        }
    }

    /// May `to` begin to live where `from` ends, at this step? One is dead by then, the other not born.
    fn may_follow(&self, from: Mem, to: Mem, step: usize) -> bool {
        let (a, b) = (&self.homes[self.home[&from]], &self.homes[self.home[&to]]);
        self.home[&from] != self.home[&to]
            && !self.is_fixed(from)
            && !self.is_fixed(to)
            && self.bytes(from) == self.bytes(to)
            && a.last <= step
            && b.first >= step
            && a.output.is_none()
            && b.input.is_none()
            && (a.input.is_none() || b.output.is_some())
    }

    /// `to` lives where `from` lived.
    fn follow(&mut self, from: Mem, to: Mem) {
        let (a, b) = (self.home[&from], self.home[&to]);
        let (later_last, later_output) = (self.homes[b].last, self.homes[b].output);
        self.homes[a].last = self.homes[a].last.max(later_last);
        self.homes[a].output = later_output;
        self.home.values_mut().filter(|h| **h == b).for_each(|h| *h = a);
    }

    /// A copy of memory that nobody reads afterwards need not be made: the copy lives where the original did.
    fn elide_copies(&mut self) {
        for &i in self.steps.iter().flatten() {
            if let Some((from, to)) = self.lowered.launches[i].copies
                && self.may_elide(i, from, to)
            {
                self.follow(from, to);
                self.elided[i] = true;
            }
        }
    }

    /// Is everyone who reads the original done before the copy is first changed?
    fn may_elide(&self, i: usize, from: Mem, to: Mem) -> bool {
        let (a, b) = (&self.homes[self.home[&from]], &self.homes[self.home[&to]]);
        let changes = self.uses[&to].writers.iter().filter(|&&w| w != i).map(|&w| self.step_of[w]);
        let until = changes.min().unwrap_or(usize::MAX);
        !self.is_fixed(from)
            && self.home[&from] != self.home[&to]
            && a.output.is_none()
            && b.input.is_none()
            && (a.input.is_none() || b.output.is_some())
            && a.last < until
    }

    /// Results that take the memory of an operand that is dead after the step.
    fn overwrite(&mut self) {
        for (s, members) in self.steps.iter().enumerate() {
            let mut named: HashMap<usize, usize> = HashMap::new();
            let running: Vec<usize> = members.iter().copied().filter(|&i| !self.elided[i]).collect();
            for a in running.iter().flat_map(|&i| &self.lowered.launches[i].arguments) {
                *named.entry(self.home[&a.mem]).or_default() += 1;
            }
            for i in running {
                self.overwrite_in(i, s, &named);
            }
        }
    }

    /// The same within one launch; `named` counts the arguments of the step that live in each home: the instances of a
    /// step run side by side.
    fn overwrite_in(&mut self, i: usize, step: usize, named: &HashMap<usize, usize>) {
        let launch = &self.lowered.launches[i];
        let pairs = launch.in_place.iter().copied().chain(same_element_pairs(launch));
        let mut ranked: Vec<(usize, usize, usize)> = pairs.map(|(r, w)| (self.distance(launch, r, w), r, w)).collect();
        ranked.sort_unstable();
        for (_, r, w) in ranked {
            let (from, to) = (launch.arguments[r].mem, launch.arguments[w].mem);
            let taken = self.in_place[i].iter().any(|p| p.0 == r || p.1 == w);
            let born_here = self.uses[&to].writers.iter().all(|&x| x == i);
            if !taken && named.get(&self.home[&from]) == Some(&1) && born_here && self.may_follow(from, to, step) {
                self.follow(from, to);
                self.in_place[i].push((r, w));
            }
        }
    }

    /// How many nodes lie between an operand and a result: state is best overwritten by its own new value.
    fn distance(&self, launch: &Launch, r: usize, w: usize) -> usize {
        let (Mem::Value(from), Mem::Value(to)) = (launch.arguments[r].mem, launch.arguments[w].mem) else {
            return usize::MAX;
        };
        let donated = self.work.input_of.contains_key(&from);
        let far = if donated { 1 << 20 } else { 1 << 21 };
        let mut level: Vec<ValueId> = vec![to];
        for depth in 0..24 {
            if level.contains(&from) {
                return if donated { depth } else { (1 << 19) + depth };
            }
            let next = level.iter().flat_map(|&v| self.work.operands(v).iter().copied()).take(256);
            let mut next: Vec<ValueId> = next.collect();
            next.sort_unstable();
            next.dedup();
            level = next;
        }
        far
    }

    /// Outputs that take the memory of a donated input of the same type that is dead before they are made.
    fn reuse_donated(&mut self) {
        for (k, &w) in self.work.wanted.iter().enumerate() {
            if self.views[k].is_some() {
                continue;
            }
            let mem = self.lowered.mem(w);
            let home = &self.homes[self.home[&mem]];
            if home.input.is_some() || home.output != Some(k as u32) || !self.uses[&mem].writers.iter().any(|_| true) {
                continue;
            }
            let first = home.first;
            let ty = self.work.graph.ty(w);
            let free = self.work.inputs.iter().find(|&&x| {
                let from = Mem::Value(x);
                let known = self.home.get(&from).map(|&h| &self.homes[h]);
                self.work.graph.ty(x) == ty
                    && known.is_some_and(|h| h.last < first)
                    && self.may_follow(from, mem, first)
            });
            if let Some(&x) = free {
                self.follow(Mem::Value(x), mem);
            }
        }
    }

    /// Cuts the arena and writes everything down.
    fn finish(self) -> Homes {
        let is_source = |m: Mem| matches!(m, Mem::Value(v) if matches!(self.work.prim(v), Some(Prim::Constant { .. } | Prim::Param { .. })));
        let mut mems: Vec<(Mem, usize)> = self.home.iter().map(|(&m, &h)| (m, h)).collect();
        mems.sort_unstable();
        let lives_in_arena =
            |&(m, h): &(Mem, usize)| !is_source(m) && self.homes[h].input.is_none() && self.homes[h].output.is_none();
        let mut arena: Vec<usize> = mems.iter().filter(|m| lives_in_arena(m)).map(|m| m.1).collect();
        arena.sort_unstable();
        arena.dedup();
        let (offsets, arena_bytes) = cut_arena(&self.homes, &arena);
        let (mut place, mut constants) = (HashMap::new(), vec![]);
        for (mem, h) in mems {
            let home = &self.homes[h];
            let at = match (mem, home.input, home.output) {
                (Mem::Value(v), _, _) if is_source(mem) => self.source_place(v, &mut constants),
                (_, Some(i), _) => Place::Input(i),
                (_, None, Some(k)) => Place::Slot(k),
                (_, None, None) => Place::Arena(offsets.get(&h).copied().unwrap_or(0)),
            };
            place.insert(mem, at);
        }
        let outputs = (0..self.work.wanted.len()).map(|k| self.output(k)).collect();
        Homes { elided: self.elided, in_place: self.in_place, place, outputs, arena_bytes, constants }
    }

    fn source_place(&self, v: ValueId, constants: &mut Vec<u8>) -> Place {
        let node = self.work.graph.value(v).node;
        if let Some(&slot) = self.work.params.get(&node) {
            return Place::Param(slot);
        }
        let bits = self.work.constant(v).map_or(0, |c| c.1);
        constants.extend_from_slice(&bits.to_ne_bytes());
        Place::Constant(constants.len() as u64 - 8)
    }

    fn output(&self, k: usize) -> (OutputPlace, Layout) {
        let w = self.work.wanted[k];
        let base = self.views[k].as_ref().map_or(w, |s| s.base);
        let mem = self.lowered.mem(base);
        let home = &self.homes[self.home[&mem]];
        let number = |e: &SizeExpr| e.known().unwrap_or(0);
        let dense = || Layout::contiguous(&self.work.graph.ty(w).shape.sizes());
        let numbers =
            |strides: &[SizeExpr]| strides.iter().map(|e| e.known().map(|n| n as isize)).collect::<Option<_>>();
        let layout = match &self.views[k] {
            Some(s) => numbers(&s.strides).map(|strides| Layout { offset: number(&s.offset) as usize, strides }),
            None => numbers(&stored(self.work, w).strides).map(|strides| Layout { offset: 0, strides }),
        };
        let layout = layout.unwrap_or_else(dense);
        let unchanged = matches!(mem, Mem::Value(v) if self.work.input_of.contains_key(&v));
        let place = match (home.output, home.input) {
            (_, Some(i)) if unchanged => OutputPlace::Input(i),
            (Some(o), _) if (o as usize) < k => OutputPlace::Output(o),
            (_, Some(i)) => OutputPlace::Donated(i),
            _ => OutputPlace::Slot(home.bytes),
        };
        (place, layout)
    }
}

/// Arguments of a nest that hold the same elements at the same points, each read once: (read, written).
fn same_element_pairs(launch: &Launch) -> Vec<(usize, usize)> {
    let Some(nest) = &launch.nest else { return vec![] };
    // Elements are stored in the last walk along a row, after every load of that row; a row's own numbers are not.
    let late = |view: &rustg::View| nest.walk().is_none_or(|w| view.strides.iter().any(|s| s.0 == w));
    let mut pairs = vec![];
    for store in &nest.stores {
        let w = launch.nest_arguments[store.view.buffer.index()];
        for instr in &nest.instrs {
            let Instr::Load(view) = instr else { continue };
            let r = launch.nest_arguments[view.buffer.index()];
            let loads = nest.instrs.iter().filter(|i| matches!(i, Instr::Load(v) if v.buffer == view.buffer)).count();
            let size = |s: &rustg::Size| match s {
                rustg::Size::Const(n) => SizeExpr::constant(*n),
                rustg::Size::Arg(i) => launch.sizes[launch.sizes.len() - nest.sizes as usize + *i as usize].clone(),
            };
            let same = view.strides.len() == store.view.strides.len()
                && view.strides.iter().zip(&store.view.strides).all(|(a, b)| a.0 == b.0 && size(&a.1) == size(&b.1))
                && view.indexed.is_empty()
                && store.view.indexed.is_empty();
            let (a, b) = (&launch.arguments[r], &launch.arguments[w]);
            if same && late(view) && loads == 1 && a.dtype == b.dtype && a.offset == b.offset {
                pairs.push((r, w));
            }
        }
    }
    pairs
}

/// Offsets of homes whose lives overlap are apart: best fit, in the order of their births.
fn cut_arena(homes: &[Home], arena: &[usize]) -> (HashMap<usize, u64>, u64) {
    let size = |h: usize| homes[h].bytes.div_ceil(ALIGN) * ALIGN;
    let mut births = arena.to_vec();
    births.sort_by_key(|&h| (homes[h].first, std::cmp::Reverse(size(h)), h));
    let mut deaths = arena.to_vec();
    deaths.sort_by_key(|&h| (homes[h].last, h));
    let mut deaths = deaths.into_iter().peekable();
    let mut holes: Vec<(u64, u64)> = vec![];
    let (mut offsets, mut end) = (HashMap::new(), 0u64);
    for h in births {
        while let Some(dead) = deaths.next_if(|&d| homes[d].last < homes[h].first) {
            give_back(&mut holes, offsets[&dead], size(dead));
        }
        let need = size(h);
        let fit = (0..holes.len()).filter(|&i| holes[i].1 >= need).min_by_key(|&i| holes[i].1);
        let at = match fit {
            Some(i) => {
                let (at, len) = holes[i];
                if len == need {
                    holes.remove(i);
                } else {
                    holes[i] = (at + need, len - need);
                }
                at
            }
            None => {
                let at = match holes.last() {
                    Some(&(at, len)) if at + len == end => {
                        holes.pop();
                        at
                    }
                    _ => end,
                };
                end = at + need;
                at
            }
        };
        offsets.insert(h, at);
    }
    (offsets, end)
}

/// Returns bytes to the sorted list of holes, joined with their neighbours.
fn give_back(holes: &mut Vec<(u64, u64)>, at: u64, len: u64) {
    if len == 0 {
        return;
    }
    let i = holes.partition_point(|h| h.0 < at);
    holes.insert(i, (at, len));
    if i + 1 < holes.len() && holes[i].0 + holes[i].1 == holes[i + 1].0 {
        holes[i].1 += holes.remove(i + 1).1;
    }
    if i > 0 && holes[i - 1].0 + holes[i - 1].1 == holes[i].0 {
        holes[i - 1].1 += holes.remove(i).1;
    }
}

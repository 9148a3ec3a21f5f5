//! Binding: from a tile program and the sizes of a launch to a list of kernel calls.
//!
//! Each instruction gets a [`Level`]: the axes of the tile that it varies over. What does not vary over an axis is
//! computed once for it and read with step 0 by those that do. Loads of contiguous memory cost nothing: operands
//! point into the argument. A value whose store is contiguous is computed straight into its argument.
use super::args::{Extra, Index, Move, Place, Reduce};
use super::calls::{Binding, CONSTS, End, Key, Level, Op, Operand, OuterStep, Phase, SCRATCH, VIEWS};
use super::space::{Along, BoundView, Space, Spot, value};
use super::tile_size::{TileSize, find_streams};
use super::{fuse, maps, moves, reduce};
use crate::jit::{self, Means, What};
use crate::{Id, Instr, Isa, TileProg, View};
use rtx_core::{Arith, DType};

/// Where an instruction's value is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loc {
    Const(u32),
    Slot(u32),
    View(u32),
}

/// Memory of the scratch.
struct Slot {
    level: Level,
    /// Bytes for each element of the level.
    bytes: i64,
}

impl Binding {
    /// Binds; `None` for a type that has no kernel.
    pub fn new(prog: &TileProg, key: Key) -> Option<Binding> {
        let space = Space::new(prog, &key.sizes, key.boxed);
        // The tile is chosen as for the plainest machine with every store aliased: how the work is cut depends on the
        // sizes alone.
        let measured = Key { aliased: u64::MAX, isa: Isa::Scalar, fused: false, ..key.clone() };
        let (mut whole, mut tile) = (true, None);
        while tile.is_none() {
            let mut binder = Binder::new(prog, &measured, &space, whole, &[]);
            binder.emit()?;
            tile = TileSize::choose(&space, binder.tile_bytes(), binder.crosses(), whole);
            whole &= tile.is_some();
        }
        let tile = tile?;
        let mut refused = vec![];
        let mut binder = loop {
            let mut binder = Binder::new(prog, &key, &space, whole, &refused);
            binder.emit()?;
            let streams = find_streams(&space, &tile, &binder.views, &prog.element_sizes());
            match binder.fuse(&streams) {
                Ok(()) => break binder,
                Err(i) => refused.push(i),
            }
        };
        let scratch_bytes = binder.place_slots(&tile);
        let Binder { views, outer, row_ops, col_ops, phases, ends, consts, .. } = binder;
        let mut binding = Binding {
            tile_rows: tile.rows,
            tile_cols: tile.cols,
            views,
            outer,
            row_ops,
            col_ops,
            phases,
            ends,
            consts,
            scratch_bytes,
            streams: vec![],
            seamless: false,
            walk_calls: 0,
            key,
            space,
        };
        binding.mark_flat();
        binding.seamless = binding.is_seamless();
        // Printed loops fetch ahead by themselves.
        if !binding.key.fused {
            binding.streams = find_streams(&binding.space, &tile, &binding.views, &prog.element_sizes()).views;
        }
        binding.walk_calls = binding.phases.iter().map(|p| p.chunk.len()).sum();
        Some(binding)
    }

    /// Is everything one loop over arguments?
    fn is_seamless(&self) -> bool {
        let [phase] = &self.phases[..] else { return false };
        let idle = self.row_ops.is_empty() && self.col_ops.is_empty() && self.ends.is_empty();
        let [op] = &phase.chunk[..] else { return false };
        let alone = idle && phase.before.is_empty() && phase.after.is_empty();
        let Extra::Fused(fused) = &op.extra else { return false };
        let walks = self.space.walk == Along::Nothing || fused.is_rows();
        alone && walks && op.level.is_tile() && fused.reads_arguments_only()
    }

    fn ops_mut(&mut self) -> impl Iterator<Item = &mut Op> {
        let phases = self.phases.iter_mut().flat_map(|p| p.before.iter_mut().chain(&mut p.chunk).chain(&mut p.after));
        self.row_ops.iter_mut().chain(&mut self.col_ops).chain(phases).chain(self.ends.iter_mut().map(|e| &mut e.op))
    }

    /// Finds the calls whose rows run on into each other in full-width tiles.
    fn mark_flat(&mut self) {
        let (full, cols) = (self.tile_cols == self.space.cols, self.space.cols as isize);
        let runs_on = |o: &Operand| o.dense != 0 || (full && o.pitch == cols * o.size);
        let scalar = |o: &Operand| o.step == 0 && o.pitch == 0 && o.dense == 0;
        for op in self.ops_mut() {
            let mut sources = op.src[..op.operands].iter();
            let even = match &op.extra {
                Extra::None | Extra::Cast { .. } => true,
                Extra::Move(m) => m.indices.is_empty() && m.dst_col == op.dst.size && m.src_col == op.src[0].size,
                Extra::Reduce(_) | Extra::Fused(_) => false,
            };
            if let Extra::Fused(fused) = &op.extra {
                op.flat = op.level.is_tile() && fused.is_flat(|o| scalar(o), |o| runs_on(o));
                continue;
            }
            op.flat = even
                && op.level.is_tile()
                && runs_on(&op.dst)
                && sources.all(|o| scalar(o) || (o.step == 1 && runs_on(o)));
        }
    }
}

/// What emission has decided so far.
struct Binder<'a> {
    prog: &'a TileProg,
    key: &'a Key,
    space: &'a Space,
    /// Is the walk one chunk? Then values live from phase to phase; else each phase computes what it needs.
    whole: bool,
    levels: Vec<Level>,
    views: Vec<BoundView>,
    /// The view of each load, and of each store.
    load_views: Vec<u32>,
    store_views: Vec<u32>,
    rebased: Vec<bool>,
    locs: Vec<Option<Loc>>,
    /// The last instruction that reads each one, in the list under way.
    last_use: Vec<usize>,
    stored: Vec<bool>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    outer: Vec<OuterStep>,
    row_ops: Vec<Op>,
    col_ops: Vec<Op>,
    phases: Vec<Phase>,
    ends: Vec<End>,
    consts: Vec<u64>,
    hoisted: Vec<bool>,
    /// Instructions that were found not to be printable after all.
    refused: &'a [usize],
    /// Of each slot: does anything read or write it?
    used: Vec<bool>,
}

impl<'a> Binder<'a> {
    fn new(prog: &'a TileProg, key: &'a Key, space: &'a Space, whole: bool, refused: &'a [usize]) -> Self {
        let nest = &prog.nest;
        let n = nest.instrs.len();
        let mut views = vec![];
        let mut bind = |view: &View| {
            let size = nest.buffers[view.buffer.index()].dtype.size();
            views.push(space.bind(view, size, &key.sizes));
            views.len() as u32 - 1
        };
        let load_views: Vec<u32> =
            nest.instrs.iter().map(|i| if let Instr::Load(v) = i { bind(v) } else { 0 }).collect();
        let store_views = nest.stores.iter().map(|s| bind(&s.view)).collect();
        let mut binder = Binder {
            prog,
            key,
            space,
            whole,
            levels: vec![],
            rebased: vec![false; views.len()],
            views,
            load_views,
            store_views,
            locs: vec![None; n],
            last_use: vec![0; n],
            stored: vec![false; nest.stores.len()],
            slots: vec![],
            free: vec![],
            outer: vec![],
            row_ops: vec![],
            col_ops: vec![],
            phases: vec![],
            ends: vec![],
            consts: vec![],
            hoisted: vec![false; n],
            refused,
            used: vec![],
        };
        for i in 0..n {
            let level = binder.normal(binder.level_of(i));
            binder.levels.push(level);
        }
        binder
    }

    fn level_of(&self, i: usize) -> Level {
        let instr = &self.prog.nest.instrs[i];
        let operands = instr.operands().iter().fold(Level::ONE, |l, a| l.union(self.levels[a.index()]));
        match instr {
            Instr::Load(_) => operands.union(self.view_level(self.load_views[i])),
            Instr::Iota(axis) => match self.space.spots[axis.index()] {
                Spot::Row => Level { rows: true, cols: false },
                Spot::Col => Level { rows: false, cols: true },
                Spot::Outer(_) | Spot::Gone => Level::ONE,
            },
            Instr::Reduce(..) | Instr::ArgReduce(..) => self.without_walk(operands),
            _ => operands,
        }
    }
    /// Without a row axis, what varies over the columns varies over the whole tile.
    fn normal(&self, level: Level) -> Level {
        let rows = level.rows || (level.cols && !self.space.spots.contains(&Spot::Row));
        Level { rows, ..level }
    }
    fn view_level(&self, view: u32) -> Level {
        let view = &self.views[view as usize];
        self.normal(Level { rows: view.row != 0, cols: view.col != 0 })
    }
    fn without_walk(&self, level: Level) -> Level {
        match self.space.walk {
            Along::Nothing => level,
            Along::Rows => Level { rows: false, ..level },
            Along::Cols => Level { cols: false, ..level },
        }
    }
    fn walks(&self, level: Level) -> bool {
        self.without_walk(level) != level
    }
    fn size_of(&self, i: usize) -> isize {
        self.prog.types[i].size() as isize
    }
    fn instr(&self, i: usize) -> &'a Instr {
        &self.prog.nest.instrs[i]
    }

    /// Emits everything.
    fn emit(&mut self) -> Option<()> {
        let n = self.prog.nest.instrs.len();
        let last_phase = self.prog.phases.iter().copied().max().unwrap_or(0).max(self.prog.store_phase);
        for phase in 0..=last_phase {
            let ids: Vec<usize> = (0..n).filter(|&i| self.prog.phases[i] == phase).collect();
            self.phases.push(Phase::default());
            self.emit_before(phase, &ids)?;
            self.emit_walk(phase, &ids)?;
        }
        self.emit_ends()
    }

    /// Is it computed in the walk (or, without one, in each tile)?
    fn in_walk(&self, i: usize) -> bool {
        match self.space.walk {
            Along::Nothing => self.levels[i].is_tile(),
            _ => (self.walks(self.levels[i]) && !self.hoisted[i]) || self.instr(i).is_reduction(),
        }
    }

    /// What is computed before the walk: outer values, then rows and columns.
    fn emit_before(&mut self, phase: u32, ids: &[usize]) -> Option<()> {
        for &i in ids {
            self.hoisted[i] = self.may_hoist(i);
            if self.in_walk(i) {
                continue;
            }
            let mut ops = vec![];
            self.emit_instr(i, phase, &mut ops)?;
            let level = self.levels[i];
            if phase > 0 && !self.hoisted[i] {
                self.phases[phase as usize].before.append(&mut ops);
            } else if level.rows {
                self.row_ops.append(&mut ops);
            } else if level.cols {
                self.col_ops.append(&mut ops);
            } else {
                self.outer.extend(ops.into_iter().map(OuterStep::Run));
            }
        }
        Some(())
    }
    /// What varies over the walk alone and waits for no reduction is the same for every tile of a whole walk.
    fn may_hoist(&self, i: usize) -> bool {
        let level = self.levels[i];
        let alone = self.whole && self.walks(level) && self.without_walk(level) == Level::ONE;
        let instr = self.instr(i);
        let ready = |a: &Id| {
            let a = a.index();
            self.hoisted[a]
                || (self.prog.phases[a] == 0 && !self.walks(self.levels[a]) && !self.instr(a).is_reduction())
        };
        // A level of one before it may still wait for a reduction through others, so those of later phases do not count.
        alone && !instr.is_reduction() && instr.operands().iter().all(ready)
    }

    /// One walk: instructions, reductions, then stores if this is the phase for them.
    fn emit_walk(&mut self, phase: u32, ids: &[usize]) -> Option<()> {
        let list =
            if self.whole { ids.iter().copied().filter(|&i| self.in_walk(i)).collect() } else { self.slice(phase) };
        self.find_last_uses(&list);
        if !self.whole {
            list.iter().for_each(|&i| self.locs[i] = None);
            let is_free = |s: &u32| !self.key.fused && self.slots[*s as usize].level.is_tile();
            self.free = (0..self.slots.len() as u32).filter(is_free).collect();
        }
        let mut ops = vec![];
        for i in list {
            self.emit_instr(i, phase, &mut ops)?;
            self.release_operands(i);
        }
        if phase == self.prog.store_phase {
            self.emit_stores(&mut ops)?;
        }
        self.phases[phase as usize].chunk = ops;
        Some(())
    }
    /// What a phase of a cut walk computes: whatever its reductions and stores need.
    fn slice(&self, phase: u32) -> Vec<usize> {
        let mut needed = vec![false; self.prog.nest.instrs.len()];
        for (i, needed) in needed.iter_mut().enumerate() {
            *needed = self.instr(i).is_reduction() && self.prog.phases[i] == phase;
        }
        if phase == self.prog.store_phase {
            for store in &self.prog.nest.stores {
                needed[store.value.index()] = true;
                store.view.indexed.iter().for_each(|x| needed[x.index.index()] = true);
            }
        }
        for i in (0..needed.len()).rev() {
            // A reduction of an earlier phase is there already, and so is what does not walk.
            let here = self.in_walk(i) && (!self.instr(i).is_reduction() || self.prog.phases[i] == phase);
            needed[i] &= here;
            if needed[i] {
                self.instr(i).operands().iter().for_each(|a| needed[a.index()] = true);
            }
        }
        (0..needed.len()).filter(|&i| needed[i]).collect()
    }
    fn find_last_uses(&mut self, list: &[usize]) {
        if self.whole {
            for i in 0..self.prog.nest.instrs.len() {
                self.instr(i).operands().iter().for_each(|a| self.last_use[a.index()] = i);
            }
        } else {
            for &i in list {
                self.last_use[i] = i;
                self.instr(i).operands().iter().for_each(|a| self.last_use[a.index()] = i);
            }
        }
        for store in &self.prog.nest.stores {
            self.last_use[store.value.index()] = usize::MAX;
            store.view.indexed.iter().for_each(|x| self.last_use[x.index.index()] = usize::MAX);
        }
    }
    fn release_operands(&mut self, user: usize) {
        let mut operands = self.instr(user).operands();
        operands.sort();
        operands.dedup();
        for a in operands.iter().map(|a| a.index()) {
            if self.last_use[a] == user {
                self.release(self.locs[a]);
            }
        }
    }
    fn release(&mut self, loc: Option<Loc>) {
        // Printed loops know a value by its slot.
        if let Some(Loc::Slot(s)) = loc
            && !self.key.fused
            && self.slots[s as usize].level.is_tile()
            && !self.free.contains(&s)
        {
            self.free.push(s);
        }
    }

    /// Memory for a value. Tiles are reused, the latest freed first; smaller levels are kept.
    fn new_slot(&mut self, level: Level, bytes: i64) -> u32 {
        if level.is_tile() {
            let fits = |s: &u32| self.slots[*s as usize].bytes == bytes;
            if let Some(at) = self.free.iter().rposition(fits) {
                return self.free.remove(at);
            }
        }
        self.slots.push(Slot { level, bytes });
        self.slots.len() as u32 - 1
    }
    fn slot_operand(&self, slot: u32, size: isize, step: usize) -> Operand {
        let dense = if self.slots[slot as usize].level.is_tile() { size } else { 0 };
        Operand { place: Place { entry: SCRATCH, offset: slot }, pitch: 0, dense, step, size }
    }

    /// Where instruction `i` puts its value: into its argument if that is contiguous and nothing there is read.
    fn destination(&mut self, i: usize, phase: u32) -> Operand {
        let (level, size) = (self.levels[i], self.size_of(i));
        let direct = (0..self.stored.len()).find(|&s| self.may_store_directly(s, i, phase));
        if let Some(s) = direct {
            let view = self.store_views[s];
            self.rebase(view, &self.prog.nest.stores[s].view);
            self.stored[s] = true;
            self.locs[i] = Some(Loc::View(view));
            return self.view_operand(view, size, level);
        }
        let slot = self.new_slot(level, size as i64);
        self.locs[i] = Some(Loc::Slot(slot));
        self.slot_operand(slot, size, 1)
    }
    fn may_store_directly(&self, s: usize, i: usize, phase: u32) -> bool {
        let store = &self.prog.nest.stores[s];
        let level = self.levels[i];
        if store.value.index() != i || self.stored[s] || self.is_aliased(s) || self.instr(i).is_reduction() {
            return false;
        }
        // A walk that is cut computes a value in several phases; only the last one may store.
        let once = self.whole || !self.walks(level) || phase == self.prog.store_phase;
        once && self.store_level(s) == level
            && self.is_everywhere(level)
            && self.is_contiguous(self.store_views[s], level, self.size_of(i))
            && store.view.indexed.iter().all(|x| {
                let index = x.index.index();
                self.locs[index].is_some() && self.may_rebase(index) && value(x.bound, &self.key.sizes) > 0
            })
    }
    fn is_aliased(&self, s: usize) -> bool {
        s >= 64 || self.key.aliased >> s & 1 != 0
    }
    fn store_level(&self, s: usize) -> Level {
        let store = &self.prog.nest.stores[s];
        let indices = store.view.indexed.iter().fold(Level::ONE, |l, x| l.union(self.levels[x.index.index()]));
        indices.union(self.view_level(self.store_views[s]))
    }
    /// Does it vary over every axis of the tile that is tiled? Others are stored by the first tile only.
    fn is_everywhere(&self, level: Level) -> bool {
        (level.rows || self.space.rows == 1 || self.space.walk == Along::Rows)
            && (level.cols || self.space.cols == 1 || self.space.walk == Along::Cols)
    }
    /// Is the innermost axis of a level contiguous in a view?
    fn is_contiguous(&self, view: u32, level: Level, size: isize) -> bool {
        let view = &self.views[view as usize];
        match level {
            Level { cols: true, .. } => view.col == size,
            Level { rows: true, .. } => view.row == size,
            _ => true,
        }
    }
    /// Is an index known before any tile, so that it moves a view as a whole?
    fn may_rebase(&self, index: usize) -> bool {
        self.levels[index] == Level::ONE && self.prog.phases[index] == 0 && !self.instr(index).is_reduction()
    }
    fn rebase(&mut self, view: u32, of: &View) {
        if std::mem::replace(&mut self.rebased[view as usize], true) {
            return;
        }
        let size = self.prog.nest.buffers[of.buffer.index()].dtype.size();
        for (index, by) in of.indexed.iter().zip(self.indices(of, size)) {
            let i = index.index.index();
            if self.may_rebase(i) {
                let index = self.operand(i, Level::ONE).place;
                self.outer.push(OuterStep::Rebase { view: view as usize, index, by });
            }
        }
    }
    fn indices(&self, view: &View, size: usize) -> Vec<Index> {
        let number = |s| value(s, &self.key.sizes);
        let bind = |x: &crate::Indexed| Index {
            stride: (number(x.stride) * size as i64) as isize,
            bound: number(x.bound),
            checked: x.checked,
        };
        view.indexed.iter().map(bind).collect()
    }

    /// A value as an operand of a call at `level`. Steps of 1 promise contiguity only where [`Self::vector`] made it.
    fn operand(&self, i: usize, level: Level) -> Operand {
        let (own, size) = (self.levels[i], self.size_of(i));
        let step = if level.cols { own.cols } else { own.rows || !level.rows } as usize;
        match self.locs[i] {
            Some(Loc::Const(c)) => {
                Operand { place: Place { entry: CONSTS, offset: c * 8 }, pitch: 0, dense: 0, step, size }
            }
            Some(Loc::Slot(slot)) => {
                let mut operand = self.slot_operand(slot, size, step);
                if level.is_tile() && own.rows && !own.cols {
                    operand.pitch = size;
                }
                operand
            }
            Some(Loc::View(view)) => {
                let mut operand = self.view_operand(view, size, level);
                operand.step = step;
                operand
            }
            None => unreachable!("operands come before their users"),
        }
    }
    fn view_operand(&self, view: u32, size: isize, level: Level) -> Operand {
        let pitch = if level.is_tile() { self.views[view as usize].row } else { 0 };
        Operand { place: Place { entry: VIEWS + view, offset: 0 }, pitch, dense: 0, step: 1, size }
    }
    /// As [`Self::operand`], with contiguous memory wherever the step is 1: only rows of an argument may lack it.
    fn vector(&mut self, i: usize, level: Level, ops: &mut Vec<Op>) -> Option<Operand> {
        if let (Some(Loc::View(view)), Level { rows: true, cols: false }) = (self.locs[i], self.levels[i])
            && !level.cols
            && self.views[view as usize].row != self.size_of(i)
        {
            self.locs[i] = Some(Loc::Slot(self.copy(i, level, ops)?));
        }
        Some(self.operand(i, level))
    }
    /// As [`Self::vector`], with an element for every column.
    fn broadcast(&mut self, i: usize, level: Level, ops: &mut Vec<Op>, temporaries: &mut Vec<u32>) -> Option<Operand> {
        let operand = self.vector(i, level, ops)?;
        if operand.step == 1 {
            return Some(operand);
        }
        let slot = self.copy(i, level, ops)?;
        temporaries.push(slot);
        Some(self.slot_operand(slot, self.size_of(i), 1))
    }
    /// Two operands of which at least one has an element for every column.
    fn pair(
        &mut self,
        a: Id,
        b: Id,
        level: Level,
        ops: &mut Vec<Op>,
        temporaries: &mut Vec<u32>,
    ) -> Option<[Operand; 2]> {
        let first = self.vector(a.index(), level, ops)?;
        let second = match first.step {
            1 => self.vector(b.index(), level, ops)?,
            _ => self.broadcast(b.index(), level, ops, temporaries)?,
        };
        Some([first, second])
    }
    /// Copies a value into fresh memory of `level`.
    fn copy(&mut self, i: usize, level: Level, ops: &mut Vec<Op>) -> Option<u32> {
        let size = self.size_of(i);
        let slot = self.new_slot(level, size as i64);
        let src = self.operand(i, level);
        let mut src_col = if src.step == 1 { size } else { 0 };
        if let (Some(Loc::View(view)), false) = (self.locs[i], level.cols) {
            src_col = self.views[view as usize].row;
        }
        let spec = Move { dst_col: size, src_col, indices: vec![], scatter: false };
        let kernel = moves::move_elements(size as usize)?;
        ops.push(Op::new(kernel, level, self.slot_operand(slot, size, 1), &[src], Extra::Move(spec)));
        Some(slot)
    }

    fn emit_instr(&mut self, i: usize, phase: u32, ops: &mut Vec<Op>) -> Option<()> {
        let (level, isa, types) = (self.levels[i], self.key.isa, &self.prog.types);
        let size = self.size_of(i);
        let mut temporaries = vec![];
        if let Some(means) = self.means(i) {
            return self.emit_printed(i, means, phase, ops);
        }
        match *self.instr(i) {
            Instr::Const { bits, .. } => self.put_const(i, bits),
            Instr::Sized(n) => self.put_const(i, value(n, &self.key.sizes) as u64),
            Instr::Iota(axis) => match self.space.spots[axis.index()] {
                Spot::Gone => self.put_const(i, 0),
                Spot::Outer(axis) => {
                    let slot = self.new_slot(level, size as i64);
                    self.locs[i] = Some(Loc::Slot(slot));
                    self.outer.push(OuterStep::Position { dst: Place { entry: SCRATCH, offset: slot }, axis });
                }
                spot => {
                    let dst = self.destination(i, phase);
                    ops.push(Op::new(maps::iota(spot == Spot::Row), level, dst, &[], Extra::None));
                }
            },
            Instr::Load(ref view) => self.emit_load(i, view, phase, ops)?,
            Instr::Unary(f, a) => {
                let kernel = maps::unary(f, types[a.index()], isa)?;
                let src = self.broadcast(a.index(), level, ops, &mut temporaries)?;
                let dst = self.destination(i, phase);
                ops.push(Op::new(kernel, level, dst, &[src], Extra::None));
            }
            Instr::Cast(to, a) => {
                let from = types[a.index()];
                let kernel = maps::cast(from, to, isa);
                let src = self.broadcast(a.index(), level, ops, &mut temporaries)?;
                let dst = self.destination(i, phase);
                ops.push(Op::new(kernel, level, dst, &[src], Extra::Cast { from, to }));
            }
            Instr::Bitcast(_, a) => {
                let src = self.broadcast(a.index(), level, ops, &mut temporaries)?;
                let spec = Move { dst_col: size, src_col: size, indices: vec![], scatter: false };
                let dst = self.destination(i, phase);
                ops.push(Op::new(moves::move_elements(size as usize)?, level, dst, &[src], Extra::Move(spec)));
            }
            Instr::Binary(f, a, b) => {
                if self.join(i, f, a, b, phase, ops).is_some() {
                    return Some(());
                }
                let src = self.pair(a, b, level, ops, &mut temporaries)?;
                let kernel = maps::binary(f, types[a.index()], [src[0].step, src[1].step], isa)?;
                let dst = self.destination(i, phase);
                ops.push(Op { joinable: Some((i, f)), ..Op::new(kernel, level, dst, &src, Extra::None) });
            }
            Instr::Compare(f, a, b) => {
                let src = self.pair(a, b, level, ops, &mut temporaries)?;
                let kernel = maps::compare(f, types[a.index()], [src[0].step, src[1].step], isa)?;
                let dst = self.destination(i, phase);
                ops.push(Op::new(kernel, level, dst, &src, Extra::None));
            }
            Instr::Fma(a, b, c) => {
                // Factors change places if only the second has an element for every column.
                let (a, b) = if self.operand(a.index(), level).step == 1 { (a, b) } else { (b, a) };
                let first = self.broadcast(a.index(), level, ops, &mut temporaries)?;
                let src = [first, self.vector(b.index(), level, ops)?, self.vector(c.index(), level, ops)?];
                let kernel = maps::fma(types[i], src.map(|s| s.step), isa)?;
                let dst = self.destination(i, phase);
                ops.push(Op::new(kernel, level, dst, &src, Extra::None));
            }
            Instr::Select(c, a, b) => {
                let first = self.broadcast(c.index(), level, ops, &mut temporaries)?;
                let src = [first, self.vector(a.index(), level, ops)?, self.vector(b.index(), level, ops)?];
                let kernel = maps::select(size as usize, src.map(|s| s.step), isa)?;
                let dst = self.destination(i, phase);
                ops.push(Op::new(kernel, level, dst, &src, Extra::None));
            }
            Instr::Random { key, ordinal, index } => {
                let ids = [key, ordinal, index].map(|a| a.index());
                let mut src = ids.map(|a| self.operand(a, level));
                if src.map(|s| s.step) != [0, 0, 1] {
                    for (s, a) in src.iter_mut().zip(ids) {
                        *s = self.broadcast(a, level, ops, &mut temporaries)?;
                    }
                } else {
                    src[2] = self.vector(ids[2], level, ops)?;
                }
                let dst = self.destination(i, phase);
                ops.push(Op::new(maps::random(src.map(|s| s.step), isa), level, dst, &src, Extra::None));
            }
            Instr::Reduce(fold, a) => {
                let rows = self.space.walk == Along::Rows;
                let pair = reduce::reduce(fold, types[a.index()], rows, isa)?;
                self.emit_reduction(i, a, pair, if rows { reduce::LANES } else { 0 }, phase, ops, &mut temporaries)?;
            }
            Instr::ArgReduce(extremum, a) => {
                let pair = reduce::arg_reduce(extremum, types[a.index()], self.space.walk == Along::Rows)?;
                self.emit_reduction(i, a, pair, 0, phase, ops, &mut temporaries)?;
            }
        }
        temporaries.into_iter().for_each(|slot| self.release(Some(Loc::Slot(slot))));
        Some(())
    }
    /// What an instruction is to printed code, if it can be printed here.
    fn means(&self, i: usize) -> Option<Means> {
        let level = self.levels[i];
        if !self.key.fused || self.refused.contains(&i) {
            return None;
        }
        let what = match *self.instr(i) {
            Instr::Reduce(fold, _) if self.space.walk == Along::Cols => What::Fold(fold),
            _ if level == Level::ONE => return None,
            Instr::Unary(f, _) => What::Unary(f),
            Instr::Binary(f, ..) => What::Binary(f),
            Instr::Compare(f, ..) => What::Compare(f),
            Instr::Fma(..) => What::Fma,
            Instr::Select(..) => What::Select,
            Instr::Cast(..) => What::Cast,
            Instr::Bitcast(..) => What::Bitcast,
            _ => return None,
        };
        let operands = self.instr(i).operands();
        let from = |k: usize| Some(self.prog.types[operands.get(k).or(operands.first())?.index()]);
        let means = Means { what, from: [from(0)?, from(1)?, from(2)?], to: self.prog.types[i] };
        jit::is_printable(&means, self.key.isa).then_some(means)
    }
    /// An instruction that a printed loop does: operands as they are, its kernel never called.
    fn emit_printed(&mut self, i: usize, means: Means, phase: u32, ops: &mut Vec<Op>) -> Option<()> {
        if let Instr::Reduce(fold, a) = *self.instr(i) {
            let pair = reduce::reduce(fold, self.prog.types[a.index()], false, self.key.isa)?;
            self.emit_reduction(i, a, pair, 0, phase, ops, &mut vec![])?;
            ops.last_mut()?.means = Some((i, means));
            return Some(());
        }
        let level = self.levels[i];
        let mut src = vec![];
        for a in self.instr(i).operands() {
            src.push(self.vector(a.index(), level, ops)?);
        }
        let dst = self.destination(i, phase);
        ops.push(Op { means: Some((i, means)), ..Op::new(fuse::never, level, dst, &src, Extra::None) });
        Some(())
    }
    /// Prints every list of calls. `Err`: the instruction that cannot be printed after all.
    fn fuse(&mut self, streams: &fuse::Streams) -> Result<(), usize> {
        if !self.key.fused {
            return Ok(());
        }
        let no_rows = !self.space.spots.contains(&Spot::Row);
        let total = self.ops().count() - self.ends.len();
        let mut fuser = fuse::Fuser::new(no_rows, self.key.isa, self.ops(), &self.outer, streams);
        // Rows that are held whole, of one block, are one piece of code from their first load to their last store.
        let rows =
            self.whole && self.space.walk == Along::Cols && (1..=reduce::BLOCK as i64).contains(&self.space.cols);
        if rows
            && !no_rows
            && let Some(op) = fuser.rows(&self.phases)
        {
            self.phases = vec![Phase { chunk: vec![op], ..Phase::default() }];
        }
        let phases = self.phases.iter_mut().flat_map(|p| [&mut p.before, &mut p.chunk, &mut p.after]);
        for list in [&mut self.row_ops, &mut self.col_ops].into_iter().chain(phases) {
            *list = fuser.fuse(std::mem::take(list))?;
        }
        jit::count(fuser.printed, total - fuser.printed);
        self.used = fuse::used_slots(self.slots.len(), self.ops(), &self.outer);
        Ok(())
    }
    /// All calls but those of the outer axes.
    fn ops(&self) -> impl Iterator<Item = &Op> {
        let phases = self.phases.iter().flat_map(|p| p.before.iter().chain(&p.chunk).chain(&p.after));
        self.row_ops.iter().chain(&self.col_ops).chain(phases).chain(self.ends.iter().map(|e| &e.op))
    }
    /// Joins an instruction with the one just emitted, if that is its operand and of no other use: one pass instead
    /// of two, with the same roundings.
    fn join(&mut self, i: usize, f: Arith, a: Id, b: Id, phase: u32, ops: &mut Vec<Op>) -> Option<()> {
        let level = self.levels[i];
        if self.key.fused {
            return None;
        }
        let (t, first) = ops.last()?.joinable?;
        let exchanged = b.index() == t;
        let other = if exchanged { a } else { b };
        let only_here = (a.index() == t) != (b.index() == t) && self.last_use[t] == i && self.levels[t] == level;
        if self.prog.types[i] != DType::F32 || !level.is_tile() || !only_here {
            return None;
        }
        let Some(Loc::Slot(slot)) = self.locs[t] else { return None };
        // The operand that has an element for every column comes first.
        let mut src = [ops.last()?.src[0], ops.last()?.src[1], self.operand(other.index(), level)];
        let swapped = src[0].step == 0;
        if swapped {
            src.swap(0, 1);
        }
        let (first, second) = (maps::Link::of(first, swapped)?, maps::Link::of(f, exchanged)?);
        let kernel = maps::pair(first, second, [src[1].step, src[2].step], self.key.isa)?;
        ops.pop();
        // Its slot serves the result: the other operands' may have been given to others by now.
        self.last_use[t] = usize::MAX;
        let direct = (0..self.stored.len()).any(|s| self.may_store_directly(s, i, phase));
        let dst = if direct {
            self.release(Some(Loc::Slot(slot)));
            self.destination(i, phase)
        } else {
            self.locs[i] = Some(Loc::Slot(slot));
            self.slot_operand(slot, 4, 1)
        };
        ops.push(Op::new(kernel, level, dst, &src, Extra::None));
        Some(())
    }
    fn put_const(&mut self, i: usize, bits: u64) {
        // Room for the largest element; what is beyond the word is zero.
        self.consts.extend([bits, 0]);
        self.locs[i] = Some(Loc::Const(self.consts.len() as u32 - 2));
    }
    fn emit_load(&mut self, i: usize, view: &View, phase: u32, ops: &mut Vec<Op>) -> Option<()> {
        let (level, size, bound) = (self.levels[i], self.size_of(i), self.load_views[i]);
        if view.indexed.iter().any(|x| value(x.bound, &self.key.sizes) <= 0) {
            self.put_const(i, 0);
            self.levels[i] = Level::ONE;
            return Some(());
        }
        self.rebase(bound, view);
        let late: Vec<usize> =
            (0..view.indexed.len()).filter(|&k| !self.may_rebase(view.indexed[k].index.index())).collect();
        if late.is_empty() && (!level.cols || self.views[bound as usize].col == size) {
            self.locs[i] = Some(Loc::View(bound));
            return Some(());
        }
        let mut src = vec![self.view_operand(bound, size, level)];
        for &k in &late {
            src.push(self.vector(view.indexed[k].index.index(), level, ops)?);
        }
        let along = &self.views[bound as usize];
        let src_col = if level.cols { along.col } else { along.row };
        let mut indices = self.indices(view, size as usize);
        let mut k = 0..;
        indices.retain(|_| late.contains(&k.next().unwrap_or(0)));
        let dst = self.destination(i, phase);
        let spec = Move { dst_col: size, src_col, indices, scatter: false };
        ops.push(Op::new(moves::move_elements(size as usize)?, level, dst, &src, Extra::Move(spec)));
        Some(())
    }

    fn emit_reduction(
        &mut self,
        i: usize,
        a: Id,
        pair: reduce::Pair,
        lanes: usize,
        phase: u32,
        ops: &mut Vec<Op>,
        temporaries: &mut Vec<u32>,
    ) -> Option<()> {
        let result = self.levels[i];
        let walk = match self.space.walk {
            Along::Rows => Level { rows: true, cols: false },
            _ => Level { rows: false, cols: true },
        };
        let level = result.union(walk);
        // A single column is walked down with one element a row.
        let tall = self.space.walk == Along::Rows && !level.cols;
        let src = if tall {
            let own = self.operand(a.index(), Level { rows: true, cols: true });
            Operand { step: 1, ..own }
        } else {
            match self.means(i) {
                Some(_) => self.vector(a.index(), level, ops)?,
                None => self.broadcast(a.index(), level, ops, temporaries)?,
            }
        };
        let extent = if self.space.walk == Along::Rows { self.space.rows } else { self.space.cols };
        let value_bytes = self.size_of(a.index()) as i64;
        let arg = matches!(self.instr(i), Instr::ArgReduce(..));
        let blocks = if arg { 1 } else { reduce::blocks(extent) as i64 };
        let partials = self.kept_slot(result, value_bytes * blocks.max(1));
        let lanes = self.kept_slot(result, if arg { 8 } else { value_bytes * lanes as i64 });
        let extra = || {
            Extra::Reduce(Reduce {
                lanes: Place { entry: SCRATCH, offset: lanes },
                partials: Place { entry: SCRATCH, offset: partials },
                extent,
            })
        };
        let nowhere = Operand::default();
        ops.push(Op { tall, ..Op::new(pair.take, level, nowhere, &[src], extra()) });
        let slot = self.new_slot(result, self.size_of(i) as i64);
        self.locs[i] = Some(Loc::Slot(slot));
        let dst = self.slot_operand(slot, self.size_of(i), 1);
        self.phases[phase as usize].after.push(Op::new(pair.finish, result, dst, &[], extra()));
        Some(())
    }
    fn kept_slot(&mut self, level: Level, bytes: i64) -> u32 {
        self.slots.push(Slot { level, bytes });
        self.slots.len() as u32 - 1
    }

    /// Stores of what varies over the walk, or over the whole tile.
    fn emit_stores(&mut self, ops: &mut Vec<Op>) -> Option<()> {
        let pending: Vec<usize> =
            (0..self.stored.len()).filter(|&s| !self.stored[s] && self.stores_in_walk(s)).collect();
        // A store may overwrite what a later one is about to copy from an argument: take those out first.
        if pending.len() > 1 && pending.iter().any(|&s| self.is_aliased(s)) {
            for &s in &pending {
                let i = self.prog.nest.stores[s].value.index();
                if matches!(self.locs[i], Some(Loc::View(_))) && self.levels[i].is_tile() {
                    self.locs[i] = Some(Loc::Slot(self.copy(i, self.levels[i], ops)?));
                }
            }
        }
        for s in pending {
            self.stored[s] = true;
            ops.extend(self.store_op(s)?);
        }
        Some(())
    }
    fn stores_in_walk(&self, s: usize) -> bool {
        let level = self.store_level(s).union(self.levels[self.prog.nest.stores[s].value.index()]);
        match self.space.walk {
            Along::Nothing => level.is_tile(),
            _ => self.walks(level),
        }
    }
    /// Stores of everything else, after the last walk.
    fn emit_ends(&mut self) -> Option<()> {
        for s in 0..self.stored.len() {
            if self.stored[s] {
                continue;
            }
            let level = self.store_level(s).union(self.levels[self.prog.nest.stores[s].value.index()]);
            for op in self.store_op(s)? {
                let first_row = !level.rows && self.space.walk != Along::Rows;
                let first_col = !level.cols && self.space.walk != Along::Cols;
                self.ends.push(End { op, first_row, first_col });
            }
        }
        Some(())
    }
    fn store_op(&mut self, s: usize) -> Option<Vec<Op>> {
        let store = &self.prog.nest.stores[s];
        let (i, view) = (store.value.index(), self.store_views[s]);
        let level = self.store_level(s).union(self.levels[i]);
        let size = self.size_of(i);
        if store.view.indexed.iter().any(|x| value(x.bound, &self.key.sizes) <= 0) {
            return Some(vec![]);
        }
        self.rebase(view, &store.view);
        let mut ops = vec![];
        let mut src = vec![self.operand(i, level)];
        let mut indices = vec![];
        for (x, by) in store.view.indexed.iter().zip(self.indices(&store.view, size as usize)) {
            if !self.may_rebase(x.index.index()) {
                src.push(self.vector(x.index.index(), level, &mut ops)?);
                indices.push(by);
            }
        }
        let along = &self.views[view as usize];
        let dst_col = if level.cols { along.col } else { along.row };
        let mut src_col = if src[0].step == 1 { size } else { 0 };
        if let (Some(Loc::View(from)), false) = (self.locs[i], level.cols) {
            src_col = self.views[from as usize].row;
        }
        let dst = self.view_operand(view, size, level);
        let t = self.prog.types[i];
        let means = Means { what: What::Copy, from: [t; 3], to: t };
        let plain = self.key.fused && level.is_tile() && dst_col == size && indices.is_empty() && ops.is_empty();
        let printed = plain && !self.refused.contains(&i) && jit::is_printable(&means, self.key.isa);
        let spec = Move { dst_col, src_col, indices, scatter: true };
        let call = Op::new(moves::move_elements(size as usize)?, level, dst, &src, Extra::Move(spec));
        ops.push(Op { means: printed.then_some((i, means)), ..call });
        Some(ops)
    }

    /// Bytes of tile registers for each element.
    fn tile_bytes(&self) -> i64 {
        self.slots.iter().filter(|s| s.level.is_tile()).map(|s| s.bytes).sum()
    }
    /// Is some view contiguous along the rows and not along the columns?
    fn crosses(&self) -> bool {
        let size = |v: &BoundView| self.prog.nest.buffers[v.buffer].dtype.size() as isize;
        self.views.iter().any(|v| v.row == size(v) && v.col != 0 && v.col != size(v))
    }

    /// Lays out the scratch and turns slots into offsets.
    fn place_slots(&mut self, tile: &TileSize) -> usize {
        // A printed loop over whole rows may go on and on with the memory of one block of rows.
        let rows = if self.key.fused { tile.rows.max(jit::MOST_ROWS as i64) } else { tile.rows };
        let elements = |level: Level| match (level.rows, level.cols) {
            (true, true) => rows * tile.cols,
            (true, false) => tile.rows,
            (false, true) => tile.cols,
            _ => 1,
        };
        let mut end = 0usize;
        let mut offsets = vec![];
        for (s, slot) in self.slots.iter().enumerate() {
            offsets.push(end as u32);
            if self.used.get(s) == Some(&false) {
                continue;
            }
            // Odd lines apart, so that registers do not fall on the same sets of the cache.
            end += ((elements(slot.level) * slot.bytes) as usize).next_multiple_of(64) + 64;
        }
        let patch = |place: &mut Place| {
            if place.entry == SCRATCH {
                place.offset = offsets.get(place.offset as usize).copied().unwrap_or(0);
            }
        };
        let phases = self.phases.iter_mut().flat_map(|p| p.before.iter_mut().chain(&mut p.chunk).chain(&mut p.after));
        let ops = self.row_ops.iter_mut().chain(&mut self.col_ops).chain(phases);
        for op in ops.chain(self.ends.iter_mut().map(|e| &mut e.op)) {
            op.patch(patch);
        }
        for step in &mut self.outer {
            match step {
                OuterStep::Run(op) => op.patch(patch),
                OuterStep::Rebase { index, .. } => patch(index),
                OuterStep::Position { dst, .. } => patch(dst),
            }
        }
        end
    }
}

//! The text of a kernel.
use super::ENTRY;
use super::grid::{Grid, Part, Walk, side_by_side};
use super::scalar::{arith_name, c_type, expression, fold, function_name, identity, prelude, wins};
use crate::tile::{store_walks, walking};
use crate::{Arith, AxisId, AxisSet, Id, Instr, Size, Store, TileProg, View};
use rtx_core::DType;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A line of text; writing to a string does not fail.
macro_rules! line {
    ($out:expr, $($format:tt)*) => { _ = writeln!($out, $($format)*) };
}

/// A program as a kernel for a grid: everything that NVRTC needs.
pub fn print(prog: &TileProg, grid: &Grid) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for instr in &prog.nest.instrs {
        names.extend(match instr {
            Instr::Unary(f, a) => function_name(*f, prog.types[a.index()]),
            Instr::Binary(f, a, _) => arith_name(*f, prog.types[a.index()]),
            _ => None,
        });
    }
    let mut out = prelude(names.iter().map(String::as_str));
    out.push_str(&print_kernel(prog, grid));
    out
}

/// The kernel without what stands before it.
fn print_kernel(prog: &TileProg, grid: &Grid) -> String {
    let printer = Printer { prog, grid, walks: walking(&prog.nest), sets: prog.nest.axis_sets(), out: String::new() };
    printer.kernel()
}

struct Printer<'a> {
    prog: &'a TileProg,
    grid: &'a Grid,
    walks: Vec<bool>,
    sets: Vec<AxisSet>,
    out: String,
}

/// The name of an instruction's result.
fn name(id: Id) -> String {
    format!("v{}", id.0)
}

impl Printer<'_> {
    fn kernel(mut self) -> String {
        let nest = &self.prog.nest;
        line!(self.out, "typedef {} ix;", if self.grid.narrow { "i32" } else { "i64" });
        let (buffers, sizes) = (nest.buffers.len().max(1), nest.sizes.max(1));
        let scratch = if self.grid.part == Part::Whole { "" } else { " u8* scratch;" };
        line!(self.out, "struct Args {{ u8* b[{buffers}]; i64 s[{sizes}]; Fault* fault; u64 step;{scratch} }};");
        let threads = self.grid.walk.map_or(256, |w| w.threads());
        line!(
            self.out,
            "extern \"C\" __global__ void __launch_bounds__({threads}) {ENTRY}(const __grid_constant__ Args a) {{"
        );
        match self.grid.walk {
            None => self.points(),
            Some(walk) => self.walk(walk),
        }
        self.out.push_str("}\n");
        self.out
    }

    fn size(&self, size: Size) -> String {
        match size {
            Size::Const(n) => format!("((ix){n}ll)"),
            Size::Arg(i) => format!("((ix)a.s[{i}])"),
        }
    }

    /// How many points the parallel axes have, and where a point is on each.
    fn coordinates(&mut self, point: &str) {
        let mut rest = format!("(ix){point}");
        for (k, group) in self.grid.axes.iter().enumerate().rev() {
            if k == 0 {
                line!(self.out, "    const ix c0 = {rest};");
                break;
            }
            let extent = self.extent(group);
            line!(self.out, "    const ix n{k} = {extent}, q{k} = {rest};");
            // Unsigned division is the cheaper one; positions are not negative.
            let u = if self.grid.narrow { "u32" } else { "u64" };
            line!(self.out, "    const ix r{k} = (ix)(({u})q{k} / ({u})n{k}), c{k} = q{k} - r{k} * n{k};");
            rest = format!("r{k}");
        }
    }
    fn extent(&self, group: &[AxisId]) -> String {
        let sizes: Vec<String> = group.iter().map(|a| self.size(self.prog.nest.axes[a.index()].extent)).collect();
        sizes.join(" * ")
    }
    fn all_points(&self) -> String {
        let sizes: Vec<String> = self.grid.axes.iter().map(|g| format!("(i64)({})", self.extent(g))).collect();
        if sizes.is_empty() { "1ll".into() } else { sizes.join(" * ") }
    }

    /// Where an axis's position is written: nothing where it is always 0.
    fn position(&self, axis: AxisId) -> Option<String> {
        if self.prog.nest.walk() == Some(axis) {
            return Some("i".into());
        }
        let of = self.grid.axes.iter().position(|g| g.last() == Some(&axis))?;
        Some(format!("c{of}"))
    }

    /// The element that a view names, from the buffer's start.
    fn address(&self, view: &View) -> String {
        let mut terms = vec![];
        if view.offset != Size::Const(0) {
            terms.push(self.size(view.offset));
        }
        for &(axis, stride) in &view.strides {
            if let Some(at) = self.position(axis) {
                terms.push(if stride == Size::Const(1) { at } else { format!("{at} * {}", self.size(stride)) });
            }
        }
        for part in &view.indexed {
            let (index, bound) = (name(part.index), self.size(part.bound));
            terms.push(format!("(ix)least(greatest({index}, 0ll), (i64){bound} - 1) * {}", self.size(part.stride)));
        }
        if terms.is_empty() { "0".into() } else { terms.join(" + ") }
    }

    fn instr(&mut self, i: usize, pad: &str) {
        let (nest, types) = (&self.prog.nest, &self.prog.types);
        let (instr, t, v) = (&nest.instrs[i], c_type(types[i]), name(Id(i as u32)));
        match instr {
            Instr::Load(view) => {
                let from = format!("((const {t}*)a.b[{}])[{}]", view.buffer.0, self.address(view));
                for part in view.indexed.iter().filter(|p| p.checked) {
                    let (index, bound) = (name(part.index), self.size(part.bound));
                    line!(
                        self.out,
                        "{pad}if ((u64){index} >= (u64)(i64){bound} && {bound} > 0) report(a.fault, a.step, {index}, {bound});"
                    );
                }
                let empty: Vec<String> = view.indexed.iter().map(|p| format!("{} <= 0", self.size(p.bound))).collect();
                if empty.is_empty() {
                    line!(self.out, "{pad}const {t} {v} = {from};");
                } else {
                    line!(self.out, "{pad}const {t} {v} = {} ? {t}{{}} : {from};", empty.join(" || "));
                }
            }
            Instr::Iota(axis) => {
                let at = self.position(*axis).unwrap_or("0".into());
                line!(self.out, "{pad}const i64 {v} = {at};");
            }
            Instr::Binary(Arith::Div, a, b) if self.by_row(i) => {
                line!(self.out, "{pad}const {t} {v} = quotient_by({}, {}, y{i});", name(*a), name(*b));
            }
            instr => {
                let text = expression(instr, types, name, |s| match s {
                    Size::Const(n) => format!("{n}ll"),
                    Size::Arg(k) => format!("a.s[{k}]"),
                });
                if let Some(text) = text {
                    line!(self.out, "{pad}const {t} {v} = {text};");
                }
            }
        }
    }

    /// Is it a quotient by a number of the row? Its reciprocal is then found once a walk.
    fn by_row(&self, i: usize) -> bool {
        match self.prog.nest.instrs[i] {
            Instr::Binary(Arith::Div, _, b) => {
                self.prog.types[i] == DType::F32 && self.walks[i] && !self.walks[b.index()]
            }
            _ => false,
        }
    }

    fn store(&mut self, store: &Store, pad: &str) {
        let t = c_type(self.prog.types[store.value.index()]);
        let to = format!("(({t}*)a.b[{}])[{}]", store.view.buffer.0, self.address(&store.view));
        let condition = self.condition(store);
        line!(self.out, "{pad}{condition}{to} = {};", name(store.value));
    }

    /// Which points store: what does not vary over an axis is stored by the first point along it.
    fn condition(&self, store: &Store) -> String {
        let empty: String = store.view.indexed.iter().map(|p| format!("if ({} > 0) ", self.size(p.bound))).collect();
        let indices = store.view.indexed.iter().fold(0, |set, p| set | self.sets[p.index.index()]);
        let named = store.view.axis_set() | indices;
        let first: String = (self.grid.axes.iter().enumerate())
            .filter(|(_, group)| group.iter().all(|a| named >> a.0 & 1 == 0))
            .map(|(k, _)| format!("if (c{k} == 0) "))
            .collect();
        first + &empty
    }

    /// A thread a point, or several along the last axes.
    fn points(&mut self) {
        let prog = self.prog;
        let wide = self.grid.wide;
        let times = if wide == 1 { String::new() } else { format!("{wide} * ") };
        line!(self.out, "    const i64 point = {times}((i64)blockIdx.x * 256 + threadIdx.x);");
        let all = self.all_points();
        line!(self.out, "    if (point >= {all}) return;");
        self.coordinates("point");
        if let (2.., Some(last)) = (wide, self.grid.axes.last()) {
            return self.neighbours(last[last.len() - 1]);
        }
        (0..prog.nest.instrs.len()).for_each(|i| self.instr(i, "    "));
        prog.nest.stores.iter().for_each(|s| self.store(s, "    "));
    }

    /// The points of a thread: what lies side by side is read first and written last, in one piece.
    fn neighbours(&mut self, axis: AxisId) {
        let (prog, wide, last) = (self.prog, self.grid.wide, self.grid.axes.len() - 1);
        let nest = &prog.nest;
        let is_wide = |i: usize| matches!(&nest.instrs[i], Instr::Load(view) if side_by_side(view, axis));
        for (i, instr) in nest.instrs.iter().enumerate() {
            if let (Instr::Load(view), true) = (instr, is_wide(i)) {
                let (t, at) = (c_type(prog.types[i]), self.address(view));
                line!(self.out, "    {t} w{i}[{wide}]; take(w{i}, (const {t}*)a.b[{}] + ({at}));", view.buffer.0);
            }
        }
        let (apart, together): (Vec<_>, Vec<_>) =
            nest.stores.iter().enumerate().partition(|(_, s)| !side_by_side(&s.view, axis));
        for (k, store) in &together {
            line!(self.out, "    {} to{k}[{wide}];", c_type(prog.types[store.value.index()]));
        }
        line!(self.out, "    const ix first = c{last};\n#pragma unroll\n    for (int k = 0; k < {wide}; k++) {{");
        line!(self.out, "        const ix c{last} = first + k;");
        for i in 0..nest.instrs.len() {
            if is_wide(i) {
                line!(self.out, "        const {} v{i} = w{i}[k];", c_type(prog.types[i]));
            } else {
                self.instr(i, "        ");
            }
        }
        apart.into_iter().for_each(|(_, s)| self.store(s, "        "));
        for (k, store) in &together {
            line!(self.out, "        to{k}[k] = {};", name(store.value));
        }
        line!(self.out, "    }}");
        for (k, store) in together {
            let (t, at, condition) =
                (c_type(prog.types[store.value.index()]), self.address(&store.view), self.condition(store));
            line!(self.out, "    {condition}put(({t}*)a.b[{}] + ({at}), to{k});", store.view.buffer.0);
        }
    }

    /// Groups of 16 threads a point.
    fn walk(&mut self, walk: Walk) {
        let prog = self.prog;
        let nest = &prog.nest;
        let Walk { points, groups, lanes_first, .. } = walk;
        if lanes_first {
            line!(
                self.out,
                "    const u32 tid = threadIdx.x, lane = tid & 15, group = tid / 16 % {groups}, pt = tid / {};",
                16 * groups
            );
            line!(self.out, "    const u32 mask = 0xffffu << (tid & 16);");
        } else {
            line!(
                self.out,
                "    const u32 tid = threadIdx.x, pt = tid % {points}, lane = tid / {points} % 16, group = tid / {};",
                16 * points
            );
        }
        let extent = nest.walk().map_or(Size::Const(0), |w| nest.axes[w.index()].extent);
        line!(self.out, "    const ix n = {};", self.size(extent));
        line!(self.out, "    const ix blocks = (n + 4095) / 4096;");
        let mut tile = "(i64)blockIdx.x";
        if self.grid.part == Part::Blocks {
            line!(self.out, "    const u32 parts = (u32)((blocks + {groups} - 1) / {groups});");
            tile = "(i64)(blockIdx.x / parts)";
        }
        line!(self.out, "    const i64 own = {tile} * {points} + pt, points = {};", self.all_points());
        line!(self.out, "    const bool live = own < points;");
        line!(self.out, "    const i64 point = live ? own : 0;");
        self.coordinates("point");
        if walk.one_block {
            line!(self.out, "    const ix chunk = 1;");
        } else {
            line!(self.out, "    ix chunk = 1; while (chunk * {groups} < blocks) chunk *= 2;");
        }
        if groups > 1 || !lanes_first {
            line!(self.out, "    __shared__ u64 shared[{}], shared_at[{}];", walk.threads(), walk.threads());
        }
        // What comes after the blocks is the joining launch's.
        let last = match self.grid.part {
            Part::Blocks => 0,
            _ => prog.phases.last().map_or(0, |p| *p + 1).max(prog.store_phase),
        };
        for phase in 0..=last {
            let here = |i: &usize| prog.phases[*i] == phase && !self.walks[*i] && !nest.instrs[*i].is_reduction();
            let rows: Vec<usize> = (0..nest.instrs.len()).filter(here).collect();
            rows.into_iter().for_each(|i| self.instr(i, "    "));
            self.phase(phase, walk);
        }
        if self.grid.part == Part::Blocks {
            return;
        }
        let ends: Vec<&Store> = nest.stores.iter().filter(|s| !store_walks(nest, s, &self.walks)).collect();
        if !ends.is_empty() {
            // Others may still read what is overwritten in place.
            line!(self.out, "    __syncthreads();");
            line!(self.out, "    if (live && lane == 0 && group == 0) {{");
            ends.into_iter().for_each(|s| self.store(s, "        "));
            line!(self.out, "    }}");
        }
    }

    /// One walk along the walk axis: its reductions, and the stores if it is their phase.
    fn phase(&mut self, phase: u32, walk: Walk) {
        let prog = self.prog;
        let nest = &prog.nest;
        let reductions: Vec<usize> =
            (0..nest.instrs.len()).filter(|&i| nest.instrs[i].is_reduction() && prog.phases[i] == phase).collect();
        let stored = |s: &&Store| phase == prog.store_phase && store_walks(nest, s, &self.walks);
        let stores: Vec<&Store> = nest.stores.iter().filter(stored).collect();
        if reductions.is_empty() && stores.is_empty() {
            return;
        }
        let needed = self.needed(&reductions, &stores);
        for &r in &reductions {
            self.start(r, walk);
        }
        let apart = self.grid.part == Part::Blocks;
        let block = if apart {
            format!("(ix)(blockIdx.x % parts) * {} + group", walk.groups)
        } else {
            "group * chunk + j".into()
        };
        line!(self.out, "    for (ix j = 0; j < chunk; j++) {{");
        line!(
            self.out,
            "        const ix block = {block}, first = block * 4096, end = first + 4096 < n ? first + 4096 : n;"
        );
        for &r in &reductions {
            if let Instr::Reduce(f, x) = nest.instrs[r] {
                let t = prog.types[x.index()];
                line!(self.out, "        {} acc{r} = {};", c_type(t), identity(f, t));
            }
        }
        if self.grid.part == Part::Joined {
            for (slot, &r) in reductions.iter().enumerate() {
                let Instr::Reduce(_, x) = nest.instrs[r] else { continue };
                let c = c_type(prog.types[x.index()]);
                let at = format!("((u64*)a.scratch + ({slot} * points + point) * blocks + block)");
                line!(self.out, "        if (block < blocks) acc{r} = *(const {c}*){at};");
                self.finish_block(r, walk);
            }
            line!(self.out, "    }}");
            for &r in &reductions {
                self.finish(r, walk);
            }
            return;
        }
        for &i in &needed {
            let (true, Instr::Binary(_, _, b)) = (self.by_row(i), &nest.instrs[i]) else { continue };
            line!(self.out, "        const f32 y{i} = inverse({});", name(*b));
        }
        let masked = if stores.is_empty() { "" } else { "live && " };
        let unroll = if needed.len() < 40 { 4 } else { 1 };
        line!(self.out, "        if (block < blocks) {{\n#pragma unroll {unroll}");
        line!(self.out, "        for (ix i = first + (ix)lane; {masked}i < end; i += 16) {{");
        needed.into_iter().for_each(|i| self.instr(i, "            "));
        for &r in &reductions {
            match nest.instrs[r] {
                Instr::Reduce(f, x) => {
                    let next = fold(f, prog.types[x.index()], &format!("acc{r}"), &name(x));
                    line!(self.out, "            acc{r} = {next};");
                }
                Instr::ArgReduce(f, x) => {
                    let (best, at) = (format!("best{r}"), format!("at{r}"));
                    let better = wins(f, prog.types[x.index()], (&name(x), "(i64)i"), (&best, &at));
                    line!(
                        self.out,
                        "            if ({at} == 0x7fffffffffffffffll || {better}) {{ {best} = {}; {at} = i; }}",
                        name(x)
                    );
                }
                _ => {}
            }
        }
        stores.into_iter().for_each(|s| self.store(s, "            "));
        line!(self.out, "        }}\n        }}");
        for &r in &reductions {
            self.finish_block(r, walk);
        }
        line!(self.out, "    }}");
        if apart {
            line!(self.out, "    if (live && lane == 0) {{");
            line!(self.out, "        const ix block = {block};");
            for (slot, &r) in reductions.iter().enumerate() {
                let Instr::Reduce(_, x) = nest.instrs[r] else { continue };
                let c = c_type(prog.types[x.index()]);
                let at = format!("((u64*)a.scratch + ({slot} * points + own) * blocks + block)");
                line!(self.out, "        if (block < blocks) *({c}*){at} = sum{r};");
            }
            line!(self.out, "    }}");
            return;
        }
        for &r in &reductions {
            self.finish(r, walk);
        }
    }

    /// Instructions that vary over the walk and that these need, in order.
    fn needed(&self, reductions: &[usize], stores: &[&Store]) -> Vec<usize> {
        let nest = &self.prog.nest;
        let mut wanted = vec![false; nest.instrs.len()];
        let mut want = |id: Id| wanted[id.index()] = true;
        reductions.iter().flat_map(|&r| nest.instrs[r].operands()).for_each(&mut want);
        for store in stores {
            want(store.value);
            store.view.indexed.iter().for_each(|p| want(p.index));
        }
        for i in (0..nest.instrs.len()).rev() {
            if wanted[i] && !nest.instrs[i].is_reduction() {
                nest.instrs[i].operands().into_iter().for_each(|a| wanted[a.index()] = true);
            }
        }
        (0..nest.instrs.len()).filter(|&i| wanted[i] && self.walks[i]).collect()
    }

    /// What a reduction keeps from block to block.
    fn start(&mut self, r: usize, walk: Walk) {
        match self.prog.nest.instrs[r] {
            Instr::Reduce(f, x) => {
                let t = self.prog.types[x.index()];
                let (c, id) = (c_type(t), identity(f, t));
                if walk.one_block {
                    line!(self.out, "    {c} sum{r} = {id};");
                } else {
                    line!(self.out, "    {c} sum{r} = {id}, stack{r}[40]; int top{r} = 0;");
                }
            }
            Instr::ArgReduce(_, x) => {
                let c = c_type(self.prog.types[x.index()]);
                line!(self.out, "    {c} best{r} = 0; i64 at{r} = 0x7fffffffffffffffll;");
            }
            _ => {}
        }
    }

    /// At a block's end: the lanes by halves, then the block joins its neighbours.
    fn finish_block(&mut self, r: usize, walk: Walk) {
        let Instr::Reduce(f, x) = self.prog.nest.instrs[r] else { return };
        let t = self.prog.types[x.index()];
        let (acc, c) = (format!("acc{r}"), c_type(t));
        if self.grid.part == Part::Joined {
            // Every lane has the block's.
        } else if walk.lanes_first {
            for half in [8, 4, 2, 1] {
                let next = fold(f, t, &acc, &format!("lane_after(mask, {acc}, {half})"));
                line!(self.out, "        {acc} = {next};");
            }
        } else {
            let points = walk.points;
            line!(self.out, "        {c}* lanes{r} = ({c}*)shared;");
            line!(self.out, "        __syncthreads();");
            line!(self.out, "        lanes{r}[tid] = {acc};");
            for half in [8, 4, 2, 1] {
                let other = format!("lanes{r}[tid + {half} * {points}]");
                line!(self.out, "        __syncthreads();");
                line!(self.out, "        if (lane < {half}) lanes{r}[tid] = {acc} = {};", fold(f, t, &acc, &other));
            }
        }
        if walk.one_block {
            line!(self.out, "        if (block < blocks) sum{r} = {acc};");
        } else {
            line!(self.out, "        if (block < blocks) {{");
            line!(
                self.out,
                "            for (ix m = j; m & 1; m >>= 1) {{ {c} under = stack{r}[--top{r}]; {acc} = {}; }}",
                fold(f, t, "under", &acc)
            );
            line!(self.out, "            stack{r}[top{r}++] = {acc};");
            line!(self.out, "        }}");
        }
    }

    /// At the walk's end: the groups' results pairwise, and the result to every thread of the point.
    fn finish(&mut self, r: usize, walk: Walk) {
        match self.prog.nest.instrs[r] {
            Instr::Reduce(f, x) => self.finish_fold(r, f, self.prog.types[x.index()], walk),
            Instr::ArgReduce(f, x) => self.finish_place(r, f, self.prog.types[x.index()], walk),
            _ => {}
        }
    }

    fn finish_fold(&mut self, r: usize, f: rtx_core::Fold, t: DType, walk: Walk) {
        let (c, sum) = (c_type(t), format!("sum{r}"));
        if !walk.one_block {
            line!(self.out, "    if (top{r} > 0) {sum} = stack{r}[--top{r}];");
            line!(
                self.out,
                "    while (top{r} > 0) {{ {c} under = stack{r}[--top{r}]; {sum} = {}; }}",
                fold(f, t, "under", &sum)
            );
        }
        if walk.groups == 1 && walk.lanes_first {
            line!(self.out, "    const {c} v{r} = lane_first(mask, {sum});");
            return;
        }
        let groups = walk.groups;
        line!(self.out, "    {c}* groups{r} = ({c}*)shared;");
        line!(self.out, "    __syncthreads();");
        line!(self.out, "    if (lane == 0) groups{r}[pt * {groups} + group] = {sum};");
        line!(self.out, "    __syncthreads();");
        if groups > 1 {
            line!(self.out, "    if (lane == 0 && group == 0) {{");
            line!(self.out, "        {c}* g = groups{r} + pt * {groups};");
            line!(
                self.out,
                "        for (int left = (int)((blocks + chunk - 1) / chunk); left > 1; left = (left + 1) / 2) {{"
            );
            line!(
                self.out,
                "            for (int k = 0; k < left / 2; k++) g[k] = {};",
                fold(f, t, "g[2 * k]", "g[2 * k + 1]")
            );
            line!(self.out, "            if (left & 1) g[left / 2] = g[left - 1];");
            line!(self.out, "        }}\n    }}");
            line!(self.out, "    __syncthreads();");
        }
        line!(self.out, "    const {c} v{r} = groups{r}[pt * {groups}];");
    }

    fn finish_place(&mut self, r: usize, f: rtx_core::Extremum, t: DType, walk: Walk) {
        let (c, best, at) = (c_type(t), format!("best{r}"), format!("at{r}"));
        let none = "0x7fffffffffffffffll";
        let join = |b: &str, b_at: &str| {
            let better = wins(f, t, (b, b_at), (&best, &at));
            format!("if ({b_at} != {none} && ({at} == {none} || {better})) {{ {best} = {b}; {at} = {b_at}; }}")
        };
        if walk.groups == 1 && walk.lanes_first {
            for half in [8, 4, 2, 1] {
                line!(
                    self.out,
                    "    {{ const {c} b = lane_after(mask, {best}, {half}); const i64 b_at = lane_after(mask, {at}, {half}); {} }}",
                    join("b", "b_at")
                );
            }
            line!(self.out, "    const i64 v{r}_at = lane_first(mask, {at}), v{r} = v{r}_at == {none} ? 0 : v{r}_at;");
            return;
        }
        // Every thread's candidate; the first thread of the point looks at all.
        let (first, step) =
            if walk.lanes_first { (format!("pt * {}", 16 * walk.groups), 1) } else { ("pt".into(), walk.points) };
        line!(self.out, "    {c}* best_of{r} = ({c}*)shared;");
        line!(self.out, "    __syncthreads();");
        line!(self.out, "    best_of{r}[tid] = {best}; shared_at[tid] = (u64){at};");
        line!(self.out, "    __syncthreads();");
        line!(self.out, "    if (lane == 0 && group == 0) {{");
        line!(
            self.out,
            "        for (u32 k = 0; k < {}; k++) {{ const {c} b = best_of{r}[{first} + k * {step}]; const i64 b_at = (i64)shared_at[{first} + k * {step}]; {} }}",
            16 * walk.groups,
            join("b", "b_at")
        );
        line!(self.out, "        shared_at[tid] = (u64){at};\n    }}");
        line!(self.out, "    __syncthreads();");
        line!(self.out, "    const i64 v{r}_at = (i64)shared_at[{first}], v{r} = v{r}_at == {none} ? 0 : v{r}_at;");
    }
}

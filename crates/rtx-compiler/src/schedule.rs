//! The order of the launches, and which of them run as one step.
//!
//! Launches run in the recorded order where data allows, except that updates of state come last, after everything
//! that reads the old state, so that they can overwrite it. Small independent launches of one kernel become one step.
use crate::lower::{Launch, Lowered, Mem};
use crate::work::Work;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Elements up to which launches of one kernel are worth running together.
const SMALL: usize = 1 << 18;

/// Launches that run together, in the order of the steps.
pub(crate) type Steps = Vec<Vec<usize>>;

/// Orders the launches.
pub(crate) fn schedule(work: &Work, lowered: &Lowered) -> Steps {
    let launches = &lowered.launches;
    let mut order = Order::new(launches);
    let late: Vec<bool> = launches.iter().map(|l| updates_state(work, lowered, l)).collect();
    order.wish_overwrites(work, launches, &late);
    order.merge_alike(work, launches, &late);
    order.sort(launches, &late)
}

/// Does the launch make the new value of state that it reads?
fn updates_state(work: &Work, lowered: &Lowered, launch: &Launch) -> bool {
    let state = |m: Mem| match m {
        Mem::Value(v) if is_donated(work, m) => Some(work.graph.ty(v)),
        _ => None,
    };
    let new = |m: Mem, ty: &rtx_ir::Type| work.wanted.iter().any(|&w| lowered.mem(w) == m && work.graph.ty(w) == ty);
    let written = |ty: &rtx_ir::Type| launch.arguments.iter().any(|a| a.written && new(a.mem, ty));
    launch.arguments.iter().filter(|a| a.read).filter_map(|a| state(a.mem)).any(written)
}

fn is_donated(work: &Work, m: Mem) -> bool {
    matches!(m, Mem::Value(v) if work.input_of.get(&v).is_some_and(|&i| work.facts[i as usize].donated))
}

struct Order {
    /// What must come later, by representative.
    next: Vec<Vec<usize>>,
    /// The launch that stands for each in its step.
    head: Vec<usize>,
    /// Members of each head.
    members: Vec<Vec<usize>>,
    readers: HashMap<Mem, Vec<usize>>,
}

impl Order {
    fn new(launches: &[Launch]) -> Self {
        let n = launches.len();
        let (mut readers, mut writers): (HashMap<Mem, Vec<usize>>, HashMap<Mem, Vec<usize>>) = Default::default();
        for (i, l) in launches.iter().enumerate() {
            for a in &l.arguments {
                let map = if a.written { &mut writers } else { &mut readers };
                let list = map.entry(a.mem).or_default();
                if list.last() != Some(&i) {
                    list.push(i);
                }
            }
        }
        let mut next = vec![vec![]; n];
        for (mem, from) in &writers {
            for &w in from {
                next[w].extend(readers.get(mem).into_iter().flatten().copied().filter(|r| !from.contains(r)));
            }
        }
        for (i, l) in launches.iter().enumerate() {
            next[i].extend(&l.before);
        }
        Self { next, head: (0..n).collect(), members: (0..n).map(|i| vec![i]).collect(), readers }
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.head[from], self.head[to]);
        let mut seen = vec![false; self.next.len()];
        let mut stack = vec![from];
        while let Some(i) = stack.pop() {
            if i == to {
                return true;
            }
            if !std::mem::replace(&mut seen[i], true) {
                stack.extend(self.members[i].iter().flat_map(|&m| &self.next[m]).map(|&j| self.head[j]));
            }
        }
        false
    }

    /// Whoever overwrites memory comes after all who read it, where data allows.
    fn wish_overwrites(&mut self, work: &Work, launches: &[Launch], late: &[bool]) {
        for (i, launch) in launches.iter().enumerate() {
            let mut over: Vec<(Mem, usize)> = vec![];
            if late[i] {
                over.extend(launch.arguments.iter().filter(|a| a.read && is_donated(work, a.mem)).map(|a| (a.mem, i)));
            }
            if let Some((from, _)) = launch.copies {
                over.extend(launch.before.iter().map(|&b| (from, b)));
            }
            over.extend(launch.in_place.iter().map(|&(r, _)| (launch.arguments[r].mem, i)));
            for (mem, by) in over {
                for r in self.readers.get(&mem).cloned().unwrap_or_default() {
                    if r != by && r != i && !self.reaches(by, r) {
                        self.next[r].push(by);
                    }
                }
            }
        }
    }

    /// Joins launches of one kernel that need nothing from each other. What is computed again stays where it was recorded:
    /// run together, all of it would be in memory at once.
    fn merge_alike(&mut self, work: &Work, launches: &[Launch], late: &[bool]) {
        let mut alike: HashMap<String, usize> = HashMap::new();
        for (i, l) in launches.iter().enumerate() {
            let is_again = || l.nodes.iter().any(|&n| work.graph.node(n).generation != 0);
            if l.native.is_some() || (!late[i] && is_again()) || (l.work > SMALL && !late[i]) {
                continue;
            }
            let Some(nest) = &l.nest else { continue };
            let key = format!("{} {}", late[i], nest.print());
            match alike.get(&key) {
                Some(&j) if !self.reaches(j, i) && !self.reaches(i, j) => {
                    let j = self.head[j];
                    self.head[i] = j;
                    self.members[j].push(i);
                    self.members[i].clear();
                }
                _ => {
                    alike.insert(key, i);
                }
            }
        }
    }

    /// First ready, first recorded; updates of state when nothing else is ready.
    fn sort(&self, launches: &[Launch], late: &[bool]) -> Steps {
        let n = launches.len();
        let mut waits = vec![0; n];
        self.next.iter().flatten().for_each(|&j| waits[self.head[j]] += 1);
        let recorded = |i: usize| {
            let last = self.members[i].iter().flat_map(|&m| launches[m].nodes.iter().max()).max();
            Reverse((late[i], last.map_or(0, |n| n.0), i))
        };
        let heads = (0..n).filter(|&i| self.head[i] == i);
        let mut ready: BinaryHeap<_> = heads.filter(|&i| waits[i] == 0).map(recorded).collect();
        let mut steps = vec![];
        while let Some(Reverse((_, _, i))) = ready.pop() {
            for &j in self.members[i].iter().flat_map(|&m| &self.next[m]) {
                let j = self.head[j];
                waits[j] -= 1;
                if waits[j] == 0 {
                    ready.push(recorded(j));
                }
            }
            steps.push(self.members[i].clone());
        }
        debug_assert_eq!(steps.iter().map(Vec::len).sum::<usize>(), n, "the launches have an order");
        steps
    }
}

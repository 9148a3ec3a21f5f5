//! Plans by key: compared in full, bounded by bytes, the least recently used dropped first (contract R2).
use crate::key::hash;
use crate::prepared::Prepared;
use crate::symbolic::Pattern;
use rtx_core::{IdMap, SymId};
use smallvec::SmallVec;
use std::sync::Arc;

/// The plans of an executor.
pub(crate) struct PlanCache {
    families: IdMap<u64, Vec<Family>>,
    bytes: usize,
    limit_bytes: usize,
    clock: u64,
}

/// Plans of regions that differ in sizes and wanted values alone.
pub(crate) struct Family {
    pub(crate) structure: Box<[u8]>,
    pub(crate) entries: Vec<Entry>,
    /// Distinct sizes met so far, the newest last; a few.
    pub(crate) seen: Vec<Box<[u64]>>,
    /// The compiler has refused symbolic sizes.
    pub(crate) static_only: bool,
}

/// One plan.
pub(crate) struct Entry {
    pub(crate) sizes: Sizes,
    /// The values that the plan was made for, ascending.
    pub(crate) wanted: Box<[u32]>,
    pub(crate) prepared: Arc<Prepared>,
    bytes: usize,
    last_use: u64,
}

/// Which sizes a plan is for.
pub(crate) enum Sizes {
    /// These.
    Exactly(Box<[u64]>),
    /// All that fit.
    Symbolic(Pattern),
}

/// Sizes that are remembered of a family.
const SEEN: usize = 8;

impl Sizes {
    /// The values of the symbols in sizes that fit.
    pub(crate) fn symbols(&self, dims: &[u64]) -> SmallVec<[(SymId, i64); 2]> {
        match self {
            Sizes::Exactly(_) => SmallVec::new(),
            Sizes::Symbolic(pattern) => pattern.values(dims),
        }
    }

    /// The first position where sizes do not fit, and what would.
    pub(crate) fn first_misfit(&self, dims: &[u64]) -> Option<(usize, u64)> {
        match self {
            Sizes::Exactly(own) => own.iter().zip(dims).position(|(a, b)| a != b).map(|at| (at, own[at])),
            Sizes::Symbolic(pattern) => pattern.first_misfit(dims),
        }
    }

    fn fit(&self, dims: &[u64]) -> bool {
        match self {
            Sizes::Exactly(own) => **own == *dims,
            Sizes::Symbolic(pattern) => pattern.fits(dims),
        }
    }
}

impl Entry {
    /// Does the plan give all that is wanted?
    fn covers(&self, wanted: &[u32]) -> bool {
        self.wanted.len() >= wanted.len() && wanted.iter().all(|v| self.wanted.binary_search(v).is_ok())
    }
}

impl PlanCache {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { families: IdMap::default(), bytes: 0, limit_bytes, clock: 0 }
    }

    /// A plan for exactly these wanted values, else one that gives more than them.
    pub(crate) fn find(&mut self, structure: &[u8], dims: &[u64], wanted: &[u32]) -> Option<&Entry> {
        self.clock += 1;
        let clock = self.clock;
        let family = self.families.get_mut(&hash(structure))?.iter_mut().find(|f| *f.structure == *structure)?;
        let exact = family.entries.iter().position(|e| *e.wanted == *wanted && e.sizes.fit(dims));
        let at = exact.or_else(|| family.entries.iter().position(|e| e.covers(wanted) && e.sizes.fit(dims)))?;
        let entry = &mut family.entries[at];
        entry.last_use = clock;
        Some(entry)
    }

    /// The family of a structure, made where there is none.
    pub(crate) fn family(&mut self, structure: &[u8]) -> &mut Family {
        let bucket = self.families.entry(hash(structure)).or_default();
        let at = bucket.iter().position(|f| *f.structure == *structure).unwrap_or_else(|| {
            self.bytes += structure.len();
            bucket.push(Family {
                structure: structure.into(),
                entries: Vec::new(),
                seen: Vec::new(),
                static_only: false,
            });
            bucket.len() - 1
        });
        &mut bucket[at]
    }

    /// Every family.
    pub(crate) fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.values().flatten()
    }

    /// Keeps a plan; gives the number of plans that had to go for it.
    pub(crate) fn insert(&mut self, structure: &[u8], sizes: Sizes, wanted: &[u32], prepared: Arc<Prepared>) -> usize {
        self.clock += 1;
        let bytes = prepared.size_bytes() + 4 * wanted.len() + 64;
        let entry = Entry { sizes, wanted: wanted.into(), prepared, bytes, last_use: self.clock };
        self.family(structure).entries.push(entry);
        self.bytes += bytes;
        let mut gone = 0;
        while self.bytes > self.limit_bytes && self.drop_oldest() {
            gone += 1;
        }
        gone
    }

    /// Drops the plan that was used longest ago, but never the only one.
    fn drop_oldest(&mut self) -> bool {
        let uses = || {
            self.families
                .iter()
                .flat_map(|(h, b)| b.iter().flat_map(move |f| f.entries.iter().map(move |e| (e.last_use, *h))))
        };
        let Some((oldest, bucket_hash)) = uses().min() else { return false };
        if uses().nth(1).is_none() {
            return false;
        }
        let Some(bucket) = self.families.get_mut(&bucket_hash) else { return false };
        for family in bucket.iter_mut() {
            let own = family.entries.iter().position(|e| e.last_use == oldest);
            self.bytes -= own.map_or(0, |at| family.entries.swap_remove(at).bytes);
        }
        let empty = |f: &Family| f.entries.is_empty();
        self.bytes -= bucket.iter().filter(|f| empty(f)).map(|f| f.structure.len()).sum::<usize>();
        bucket.retain(|f| !empty(f));
        true
    }
}

impl Family {
    /// Remembers sizes.
    pub(crate) fn see(&mut self, dims: &[u64]) {
        if self.seen.iter().any(|s| **s == *dims) {
            return;
        }
        if self.seen.len() == SEEN {
            self.seen.remove(0);
        }
        self.seen.push(dims.into());
    }
}

//! What is known of a region's inputs: strides, who shares what, and which memory may be overwritten (contract M2).
use crate::Value;
use crate::region::Body;
use crate::value::{State, Storage};
use rtx_core::Layout;
use rtx_ir::ValueId;
use rtx_plan::InputFact;
use smallvec::SmallVec;
use std::sync::Arc;

/// One fact for each input. Called while the input table is all that the region itself holds of them.
///
/// Only a result of as many bytes can take an input's memory. Where none is wanted, whether the input may be
/// overwritten makes no difference and is not in the key: a batch that somebody still holds is no new plan.
pub(crate) fn facts(body: &Body, wanted: &[ValueId]) -> Vec<InputFact> {
    let mut results: Vec<usize> = wanted.iter().map(|&v| body.graph.ty(v).bytes()).collect();
    results.sort_unstable();
    let mut shared: Vec<(u32, Storage)> = Vec::new();
    let fact = |(i, value): (usize, &Value)| {
        let mut fact = fact(i as u32, value, &mut shared);
        fact.donated &= results.binary_search(&value.ty().bytes()).is_ok();
        fact
    };
    body.inputs.iter().enumerate().map(fact).collect()
}

/// `shared` holds the inputs so far whose memory others know too.
fn fact(at: u32, value: &Value, shared: &mut Vec<(u32, Storage)>) -> InputFact {
    let sizes = value.ty().shape.sizes();
    let unshared = value.is_unshared();
    let State::Ready(storage) = value.state() else {
        return InputFact { layout: Layout::contiguous(&sizes), donated: false, alias: None };
    };
    let layout = if storage.layout.is_contiguous(&sizes) {
        Layout::contiguous(&sizes)
    } else {
        Layout { offset: 0, strides: storage.layout.strides.clone() }
    };
    let donated = unshared && !overlaps_itself(&sizes, &storage.layout);
    // One owner is the value, one is this function.
    if Arc::strong_count(&storage.memory) <= 2 {
        return InputFact { layout, donated, alias: None };
    }
    let first = shared.iter().find(|(_, s)| Arc::ptr_eq(&s.memory, &storage.memory));
    let alias = first.map(|(i, _)| *i);
    shared.push((at, storage));
    InputFact { layout, donated, alias }
}

/// May two elements lie in one place? Overlapping inputs are never donated (contract M2).
fn overlaps_itself(sizes: &[usize], layout: &Layout) -> bool {
    let mut dims: SmallVec<[(usize, usize); 4]> =
        sizes.iter().zip(&layout.strides).filter(|(n, _)| **n > 1).map(|(&n, s)| (s.unsigned_abs(), n)).collect();
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|&(stride, n)| {
        let overlap = stride <= reach;
        reach += stride * (n - 1);
        overlap
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_elements_overlap_and_reordered_ones_do_not() {
        let overlaps = |sizes: &[usize], strides: &[isize]| {
            overlaps_itself(sizes, &Layout { offset: 0, strides: SmallVec::from_slice(strides) })
        };
        assert!(overlaps(&[3, 4], &[0, 1]) && overlaps(&[3, 4], &[2, 1]));
        assert!(!overlaps(&[3, 4], &[1, 3]) && !overlaps(&[3, 4], &[-4, 1]) && !overlaps(&[1, 4], &[0, 2]));
    }
}

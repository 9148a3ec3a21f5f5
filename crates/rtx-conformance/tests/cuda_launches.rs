//! What a training step launches on a GPU that need not be there. Alone in its process: it changes the default device.
use rtx_conformance::cuda_bench::counted;

#[test]
fn a_step_of_gpt2_is_one_region_and_copies_nothing_large() {
    let (all, regions) = counted().expect("a plan");
    assert_eq!(regions, 1);
    let moves = |c: &rtx_cuda::Counted| ["copy", "concat", "update_slice"].iter().any(|w| c.name.contains(w));
    let large: Vec<_> = all.iter().filter(|c| c.bytes > 1 << 20 && moves(c)).collect();
    assert!(large.is_empty(), "{large:?}");
    assert!(all.iter().map(|c| c.launches).sum::<u64>() <= 900);
}

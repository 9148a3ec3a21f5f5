//! Random graphs verify, run on the oracle, round-trip as text and cover every primitive.
use rtx_ir::{ValueId, oracle, text, verify};
use rtx_testkit::graphs::{Options, random_graph};
use rtx_testkit::{compare_node, laws};
use std::collections::BTreeMap;

const SEEDS: u64 = 400;

#[test]
fn graphs_verify_and_round_trip() {
    for seed in 0..SEEDS {
        let g = random_graph(seed, Options::default());
        verify(&g.graph).unwrap_or_else(|e| panic!("graph {seed}: {e}"));
        let printed = text::print(&g.graph);
        let parsed = text::parse(&printed, &|_| None).unwrap_or_else(|e| panic!("graph {seed}: {e}\n{printed}"));
        assert_eq!(text::print(&parsed), printed, "graph {seed}");
        assert_eq!(parsed.params(), g.graph.params(), "graph {seed}");
        let file = text::write_file(&g.graph, &g.outputs);
        let read = text::read_file(file.as_bytes(), &|_| None).unwrap_or_else(|e| panic!("graph {seed}: {e}"));
        assert_eq!((text::print(&read.graph), read.outputs), (printed, g.outputs), "graph {seed}");
    }
}

#[test]
fn the_oracle_runs_them() {
    let options = Options { elements: 2000, ..Options::default() };
    for seed in 0..SEEDS / 4 {
        let g = random_graph(seed, options);
        let values = oracle::eval(&g.graph, &g.inputs).unwrap_or_else(|e| panic!("graph {seed}: {e}"));
        for (i, v) in values.iter().enumerate() {
            assert_eq!(v.ty, *g.graph.ty(ValueId(i as u32)), "graph {seed}, %{i}");
        }
        for node in g.graph.nodes().iter().filter(|n| !n.inputs.is_empty()) {
            let operands: Vec<_> = node.inputs.iter().map(|v| &values[v.index()]).collect();
            let got: Vec<_> = node.outs().map(|v| values[v.index()].clone()).collect();
            compare_node(&node.op, &operands, &got).unwrap_or_else(|e| panic!("graph {seed}: {e}"));
        }
    }
}

#[test]
fn every_primitive_is_covered() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..5000 {
        let g = random_graph(seed, Options::default());
        laws::applied(&g.graph).for_each(|name| *counts.entry(name).or_default() += 1);
    }
    let known = [
        "constant param iota random_bits fma select cast bitcast reshape permute expand slice pad concat update_slice",
        "gather scatter_set scatter_add scatter_mul scatter_min scatter_max reduce_sum reduce_prod reduce_max reduce_min",
        "arg_max arg_min dot_general windows overlap_add conv_general barrier",
    ];
    let functions = rtx_core::Function::ALL.iter().map(|f| f.name());
    let ariths = rtx_core::Arith::ALL.iter().map(|f| f.name());
    let comparisons = rtx_core::Comparison::ALL.iter().map(|f| f.name());
    let all = known.iter().flat_map(|k| k.split(' ')).chain(functions).chain(ariths).chain(comparisons);
    let rare: Vec<_> = all.filter(|name| counts.get(name).copied().unwrap_or(0) < 100).collect();
    assert!(rare.is_empty(), "fewer than 100 of {rare:?} in {counts:?}");
}

//! `RTX_DUMP`: each of its words prints its form and no other, and what is printed parses back.
use rtx_plan::Plan;
use rustg::{Nest, TileProg};
use rustytorch as torch;
use std::process::Command;

/// What is dumped; run again as a process of its own.
#[test]
fn a_small_program() {
    let x = torch::ones([2, 3]);
    let y = (&x * 2).softmax(-1).to_vec::<f32>().expect("values");
    assert_eq!(y, [1.0 / 3.0; 6]);
}

/// What [`a_small_program`] prints on its error output.
fn dumped(words: &str) -> String {
    let out = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_small_program", "--nocapture"])
        .env("RTX_DUMP", words)
        .output()
        .expect("it runs");
    assert!(out.status.success());
    String::from_utf8(out.stderr).expect("text")
}

/// The parts of a dump: what stands after `# ` on their first line, and the lines below it.
fn parts(text: &str) -> Vec<(&str, String)> {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("# "), parts.last_mut()) {
            (Some(title), _) => parts.push((title, String::new())),
            (None, Some(part)) if !line.is_empty() => part.1 += &format!("{line}\n"),
            _ => {}
        }
    }
    parts
}

fn lookup(name: &str) -> Option<&'static rtx_ir::OpDef> {
    rtx_ops::ALL.iter().copied().find(|d| rtx_ir::text::call_name(d) == name)
}

#[test]
fn every_word_prints_its_form() {
    let alone = |word: &str, title: &str| {
        let text = dumped(word);
        let parts: Vec<(String, String)> = parts(&text).into_iter().map(|(t, p)| (t.to_owned(), p)).collect();
        assert!(!parts.is_empty() && parts.iter().all(|p| p.0.starts_with(title)), "{word}:\n{text}");
        parts
    };
    let graphs = alone("graph", "graph, ");
    assert_eq!(graphs.len() % 2, 0, "each region as recorded and expanded");
    assert!(graphs[0].0 == "graph, recorded" && graphs[1].0 == "graph, expanded");
    for (_, text) in &graphs {
        let graph = rtx_ir::text::parse(text, &lookup).expect("a graph");
        assert_eq!(rtx_ir::text::print(&graph), *text);
    }
    for (_, text) in alone("plan", "plan") {
        assert_eq!(Plan::parse(&text).expect("a plan").to_string(), text);
    }
    for (_, text) in alone("kernel", "kernel of launch ") {
        assert_eq!(Nest::parse(&text).expect("a nest").print(), text);
    }
    for (title, text) in alone("source", "source of kernel ") {
        assert!(title.contains(": "), "{title}");
        assert_eq!(TileProg::parse(&text).expect("a tile program").print(), text);
    }
}

#[test]
fn words_come_together_and_a_wrong_one_is_said() {
    let text = dumped("plan, source,sauce");
    let said = "RTX_DUMP: there is no `sauce`; it takes graph, plan, kernel, source";
    assert_eq!(text.lines().filter(|l| *l == said).count(), 1, "{text}");
    let parts = parts(&text);
    let count = |title: &str| parts.iter().filter(|p| p.0.starts_with(title)).count();
    assert!(count("plan") > 0 && count("source") > 0 && count("plan") + count("source") == parts.len(), "{text}");
    assert_eq!(dumped(""), "");
}

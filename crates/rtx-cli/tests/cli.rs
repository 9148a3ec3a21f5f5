//! The program as a user runs it: what it refuses, what it leaves behind, that it goes on bit for bit.
mod program;
use program::{folder, names, ran, refused};
use std::fs;
use std::path::Path;

const SHORT: &str = "train --steps 12 --batch 8 --run";

/// One run, and all that can be said about it: training is the slow part of this file.
#[test]
fn a_run_resumes_bit_for_bit_and_generates() {
    let dir = folder("run");
    fs::write(dir.join("short.toml"), "check = 6\nsave = 4\nreport = 2\nwidth = 32\n").expect("file");
    let said = ran(&dir, &format!("{SHORT} whole --config short.toml"));
    for part in [
        "task   sums: ",
        "model  gpt 2×32 · ",
        "run    whole\n",
        "step 12/12 ",
        " of 1,000 sums",
        "plans  ",
        "next   rtx generate --run whole",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    assert!(!said.contains('\r') && !said.contains('\x1b'), "plain when not a terminal");
    let whole = dir.join("whole");
    assert_eq!(
        names(&whole),
        [
            ".lock",
            "config.toml",
            "latest",
            "log.jsonl",
            "loss.svg",
            "sample.txt",
            "step-000004",
            "step-000008",
            "step-000012",
            "times.jsonl"
        ]
    );
    assert_eq!(names(&whole.join("latest")), ["model.safetensors", "optimizer.safetensors", "state.json"]);
    let log = fs::read_to_string(whole.join("log.jsonl")).expect("log");
    assert!(!log.contains("seconds") && log.lines().count() == 7, "{log}");

    killed_after_step_8(&dir, &whole);
    assert!(ran(&dir, "train --resume killed --threads 1").contains("run    killed, from step 8\n"));
    for file in [
        "log.jsonl",
        "loss.svg",
        "sample.txt",
        "latest/model.safetensors",
        "latest/optimizer.safetensors",
        "latest/state.json",
    ] {
        assert!(fs::read(whole.join(file)).ok() == fs::read(dir.join("killed").join(file)).ok(), "{file} differs");
    }
    assert_eq!(refused(&dir, "train --resume whole"), "error: whole: is finished after 12 steps");
    assert!(refused(&dir, &format!("{SHORT} whole")).starts_with("error: whole: holds a run already\n  hint: "));

    // Again from its own settings: the same bits.
    ran(&dir, "train --config whole/config.toml --run again");
    assert!(
        fs::read(whole.join("log.jsonl")).ok() == fs::read(dir.join("again/log.jsonl")).ok(),
        "--config repeats a run"
    );

    assert!(ran(&dir, "generate --run whole --prompt 123+456=").starts_with("123+456="));
    assert_eq!(
        refused(&dir, "generate --run whole --prompt hello"),
        "error: \"hello\" is not a sum of two numbers from 0 to 999\n  hint: write it like 123+456="
    );
    damaged(&dir, &whole);
}

/// What SIGKILL in step 10 leaves: the checkpoint of step 8, a longer log, a half-written checkpoint.
fn killed_after_step_8(dir: &Path, whole: &Path) {
    let killed = dir.join("killed");
    fs::create_dir_all(killed.join("step-000008")).expect("folder");
    fs::create_dir_all(killed.join("step-000012.tmp")).expect("folder");
    for file in ["config.toml", "log.jsonl", "times.jsonl"] {
        fs::copy(whole.join(file), killed.join(file)).expect("copied");
    }
    for file in names(&whole.join("step-000008")) {
        fs::copy(whole.join("step-000008").join(&file), killed.join("step-000008").join(&file)).expect("copied");
    }
    rtx_io::point_link(&killed.join("latest"), "step-000008").expect("linked");
}

fn damaged(dir: &Path, whole: &Path) {
    let model = whole.join("step-000012/model.safetensors");
    let bytes = fs::read(&model).expect("bytes");
    fs::write(&model, &bytes[..bytes.len() / 2]).expect("cut");
    let said = refused(dir, "generate --run whole --prompt 1+1=");
    assert!(said.contains("model.safetensors: header says ") && said.ends_with("(truncated copy?)"), "{said}");
}

#[test]
fn text_is_learned_and_continued() {
    let dir = folder("text");
    let text = "The quick brown fox jumps over the lazy dog.\n".repeat(100);
    fs::write(dir.join("fox.txt"), text).expect("file");
    fs::write(dir.join("short.toml"), "width = 32\ncontext = 16\ncheck = 15\n").expect("file");
    let said = ran(&dir, "train --config short.toml --text fox.txt --steps 30 --batch 8");
    assert!(said.contains("run    runs/text-1\n") && said.contains("a byte on text it never saw"), "{said}");
    let again =
        |seed: u32| ran(&dir, &format!("generate --run runs/text-1 --prompt 'The q' --length 40 --seed {seed}"));
    assert!(again(1).starts_with("The q"));
    assert_eq!(again(1), again(1));
    assert_ne!(again(1), again(2));
}

//! The program as a user runs it: what it refuses, what it leaves behind, that it goes on bit for bit.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("rtx-cli-test-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the test's folder");
    dir
}
/// Runs `rtx` in `dir`.
fn rtx(dir: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtx")).current_dir(dir).args(words(line)).output().expect("starts")
}
/// Words; `'…'` is one.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(i, part)| match i % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}
/// The sentence of a refusal.
fn refused(dir: &Path, line: &str) -> String {
    let out = rtx(dir, line);
    assert_eq!(out.status.code(), Some(1), "{line}: {out:?}");
    assert!(out.stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8_lossy(&out.stderr).trim_end().to_owned()
}
fn ran(dir: &Path, line: &str) -> String {
    let out = rtx(dir, line);
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("listing")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn bad_input_gets_one_sentence_and_leaves_nothing() {
    let dir = folder("bad");
    fs::create_dir(dir.join("notes")).expect("folder");
    for image in ["a.png", "b.png", "c.jpg"] {
        fs::write(dir.join("notes").join(image), [137, 80]).expect("file");
    }
    fs::write(dir.join("tiny.txt"), "too short").expect("file");
    fs::write(dir.join("odd.toml"), "stepz = 3\n").expect("file");
    let cases = [
        (
            "train --text notes/",
            "error: --text notes/: no text files there (looked for UTF-8 files over 1 KB, found 3 images)",
        ),
        ("train --text absent", "error: --text absent: cannot read: No such file or directory (os error 2)"),
        ("train --text tiny.txt", "error: --text tiny.txt: 9 bytes are too little text to learn from (1 KB at least)"),
        ("train --steps 0", "error: steps must be 1 at least"),
        ("train --lr nan", "error: lr must be a number above 0, not NaN"),
        ("train --resume runs/none", "error: runs/none: no such run"),
        ("generate --run runs/none --prompt x", "error: runs/none: no such run"),
    ];
    for (line, want) in cases {
        assert_eq!(refused(&dir, line), want);
    }
    assert!(
        refused(&dir, "train --config odd.toml").starts_with("error: odd.toml: unknown setting stepz\n  hint: known: ")
    );
    assert_eq!(names(&dir), ["notes", "odd.toml", "tiny.txt"], "nothing is left behind");
    let out = rtx(&dir, "train --resume x --steps 3");
    assert_eq!(out.status.code(), Some(2), "flags that exclude each other");
    assert_eq!(rtx(&dir, "train --nonsense").status.code(), Some(2));
}

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

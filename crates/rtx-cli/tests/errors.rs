//! Bad input: each gets one sentence, an exit code, and leaves nothing half-written.
mod program;
use program::{SMALL, command, folder, names, ran, refused, rtx, sentence};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn text_that_is_none() {
    let dir = folder("no-text");
    fs::create_dir_all(dir.join("notes")).expect("folder");
    fs::create_dir_all(dir.join("empty")).expect("folder");
    for image in ["a.png", "b.png", "c.jpg"] {
        fs::write(dir.join("notes").join(image), [137, 80]).expect("file");
    }
    fs::write(dir.join("tiny.txt"), "too short").expect("file");
    fs::write(dir.join("empty.txt"), "").expect("file");
    fs::write(dir.join("data.bin"), [255; 4000]).expect("file");
    fs::write(dir.join("few.txt"), "few words ".repeat(120)).expect("file");
    let before = names(&dir);
    for (text, want) in [
        ("notes/", "notes/: no text files there (looked for UTF-8 files over 1 KB, found 3 images)"),
        ("empty", "empty: no text files there (looked for UTF-8 files over 1 KB, found nothing)"),
        ("absent", "absent: cannot read: No such file or directory (os error 2)"),
        ("tiny.txt", "tiny.txt: 9 bytes are too little text to learn from (1 KB at least)"),
        ("empty.txt", "empty.txt: 0 bytes are too little text to learn from (1 KB at least)"),
        ("data.bin", "data.bin: not a text file (its bytes are not UTF-8)"),
        ("few.txt --preset mini", "few.txt: 1200 bytes of text are too few for a context of 128"),
        ("few.txt --batch 999", "few.txt: has 67 windows, a batch takes 999\n  hint: try a smaller --batch"),
    ] {
        assert_eq!(refused(&dir, &format!("train --text {text}")), format!("error: --text {want}"));
    }
    assert_eq!(names(&dir), before, "nothing is left behind");
}

#[test]
fn pictures_that_are_none() {
    let dir = folder("no-pictures");
    fs::create_dir(dir.join("p")).expect("folder");
    fs::write(dir.join("p/train-images-idx3-ubyte"), [0, 0, 8, 3, 0, 0, 0, 9]).expect("file");
    fs::write(dir.join("p/train-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 0]).expect("file");
    for (data, want) in [
        (
            "absent",
            "absent: no train-images-idx3-ubyte there, gzipped or not\n  \
             hint: Debian has them: apt-get install dataset-fashion-mnist",
        ),
        ("p", "p/train-images-idx3-ubyte: cut off in its header (truncated copy?)"),
    ] {
        assert_eq!(refused(&dir, &format!("train --data {data}")), format!("error: --data {want}"));
    }
    assert_eq!(names(&dir), ["p"]);
}

#[test]
fn flags_and_settings_that_make_no_sense() {
    let dir = folder("flags");
    fs::write(dir.join("t.txt"), "words ".repeat(400)).expect("file");
    fs::write(dir.join("odd.toml"), "stepz = 3\n").expect("file");
    fs::write(dir.join("type.toml"), "steps = \"many\"\n").expect("file");
    fs::write(dir.join("no.toml"), "steps 3\n").expect("file");
    fs::write(dir.join("heads.toml"), "heads = 3\n").expect("file");
    let before = names(&dir);
    for (line, want) in [
        ("train --steps 0", "steps must be 1 at least"),
        ("train --batch 0", "batch must be 1 at least"),
        ("train --batch 99999999", "width, layers, context and batch are 1048576 at most"),
        ("train --lr nan", "lr must be a number above 0, not NaN"),
        ("train --lr 0", "lr must be a number above 0, not 0"),
        ("train --task text", "the task text needs a text\n  hint: --text FILE or --text FOLDER"),
        ("train --task sums --text t.txt", "--text goes with --task text, not with --task sums"),
        ("train --text t.txt --data x", "--data goes with --task fashion-mnist, not with --task text"),
        ("train --preset gpt2", "--preset goes with --task text, not with --task sums"),
        (
            "train --device metal",
            "--device metal: this build runs on cpu and cuda\n  hint: rtx doctor shows what this machine has and what rtx uses",
        ),
        (
            "train --device abacus",
            "--device abacus: no such device\n  hint: rtx doctor shows what this machine has and what rtx uses",
        ),
        ("train --config absent.toml", "absent.toml: cannot read: No such file or directory (os error 2)"),
        ("train --config type.toml", "type.toml: steps = \"many\" should be a whole number"),
        ("train --config heads.toml", "heads must divide width: 3 heads, width 128"),
        ("train --resume runs/none", "runs/none: no such run"),
        ("train --resume .", ".: not a run's folder (no config.toml there)"),
        ("generate --run runs/none --prompt x", "runs/none: no such run"),
        ("generate --run x --prompt x --temperature -1", "--temperature must be 0 at least, not -1"),
        ("generate --run x --prompt x --top-k 0", "--top-k must be 1 at least"),
        ("generate --run x --prompt x --top-p 1.5", "--top-p must be above 0 and 1 at most, not 1.5"),
        ("generate --run x --prompt x --repetition-penalty 0", "--repetition-penalty must be above 0, not 0"),
        ("inspect absent", "absent: no such file or folder"),
        ("inspect t.txt", "t.txt: is no .safetensors file, no checkpoint's folder, no run's folder and no .rtxir file"),
        ("bench --seconds 0", "--seconds must be above 0, not 0"),
    ] {
        assert_eq!(refused(&dir, line), format!("error: {want}"));
    }
    let said = refused(&dir, "train --config odd.toml");
    assert!(said.starts_with("error: odd.toml: unknown setting stepz\n  hint: known: task, text, "), "{said}");
    assert!(refused(&dir, "train --config no.toml").starts_with("error: no.toml: not TOML: "));
    assert_eq!(names(&dir), before, "nothing is left behind");
    for line in ["train --resume x --steps 3", "train --nonsense", "train --threads 0", "train --task chess", "x", ""] {
        let out = rtx(&dir, line);
        assert_eq!(out.status.code(), Some(2), "{line}: {out:?}");
        assert!(out.stdout.is_empty(), "{line}");
    }
}

/// A small run with a checkpoint, in `dir/r`.
fn small_run(dir: &Path) {
    fs::write(dir.join("small.toml"), format!("{SMALL}steps = 5\n")).expect("file");
    ran(dir, "train --config small.toml --run r");
}
/// A safetensors file with this header and so many bytes of data.
fn with_header(json: &str, data: usize) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn damaged_checkpoints() {
    let dir = folder("damaged");
    small_run(&dir);
    let model = dir.join("r/latest/model.safetensors");
    let whole = fs::read(&model).expect("bytes");
    let at = "r/step-000005/model.safetensors";
    let mut huge = whole.clone();
    huge[..8].copy_from_slice(&9_100_000_000u64.to_le_bytes());
    let overlap = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}"#;
    let misshapen = r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}}"#;
    let size = |n: usize| if n < 1000 { format!("{n} bytes") } else { format!("{:.1} kB", n as f64 / 1e3) };
    let (all, half) = (size(whole.len()), size(whole.len() / 2));
    for (bytes, want) in [
        (whole[..whole.len() / 2].to_vec(), format!("{at}: header says {all}, the file has {half} (truncated copy?)")),
        (Vec::new(), format!("{at}: 0 bytes is too short for a safetensors file")),
        (huge, format!("{at}: header says 9.1 GB, the file has {all} (truncated copy?)")),
        (with_header(overlap, 6), format!("{at}: tensor b overlaps another or leaves a gap before it")),
        (with_header(misshapen, 4), format!("{at}: a tensor's shape and byte range differ")),
    ] {
        fs::write(&model, bytes).expect("damaged");
        assert_eq!(refused(&dir, "generate --run r --prompt 1+1="), format!("error: {want}"));
        assert_eq!(refused(&dir, &format!("inspect {at}")), format!("error: {want}"));
    }
    // Another architecture: the settings say 32, the file holds 16.
    fs::write(&model, &whole).expect("whole again");
    let config = fs::read_to_string(dir.join("r/config.toml")).expect("settings");
    fs::write(dir.join("r/config.toml"), config.replace("width = 16", "width = 32")).expect("settings");
    let said = refused(&dir, "generate --run r --prompt 1+1=");
    let first = format!("error: {at}: is another architecture's than config.toml describes\n  wrong shape ");
    assert!(said.starts_with(&first) && said.contains("tok.weight: model [16, 32], file [16, 16]"), "{said}");
    let state = dir.join("r/latest/state.json");
    let text = fs::read_to_string(&state).expect("state");
    fs::write(&state, &text[..text.len() / 2]).expect("cut");
    assert!(refused(&dir, "train --resume r").starts_with("error: r/step-000005/state.json: not JSON: "));
    fs::write(&state, "{\"numerics\": 999}").expect("of another version");
    let said = refused(&dir, "train --resume r");
    assert!(said.starts_with("error: r/step-000005/state.json: written by numerics 999, this is "), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written() {
    let dir = folder("unwritable");
    fs::write(dir.join("file"), "x").expect("file");
    let said = refused(&dir, "train --run file");
    assert_eq!(said, "error: file: cannot make: File exists (os error 17)");
    assert_eq!(refused(&dir, "train --run file/r"), "error: file/r: cannot make: Not a directory (os error 20)");
    assert_eq!(names(&dir), ["file"]);
    read_only(&dir);
}

/// A read-only disk where one can be mounted, else a folder that may not be written to.
fn read_only(dir: &Path) {
    let sealed = dir.join("sealed");
    fs::create_dir(&sealed).expect("folder");
    if let Some(_mounted) = Mount::new(&sealed, "ro,size=1m") {
        let said = refused(dir, "train --run sealed/r");
        assert_eq!(said, "error: sealed/r: cannot make: Read-only file system (os error 30)");
        return;
    }
    let mut permissions = fs::metadata(&sealed).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&sealed, permissions).expect("sealed");
    if fs::write(sealed.join("probe"), "x").is_ok() {
        return; // the superuser of a container writes everywhere
    }
    assert_eq!(refused(dir, "train --run sealed/r"), "error: sealed/r: cannot make: Permission denied (os error 13)");
}

/// A small disk in memory, where the system lets a test have one.
struct Mount<'a>(&'a Path);
impl<'a> Mount<'a> {
    fn new(at: &'a Path, options: &str) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output().ok()?;
        mount.status.success().then_some(Self(at))
    }
}
impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk() {
    let dir = folder("full");
    fs::write(dir.join("small.toml"), format!("{SMALL}steps = 40\n")).expect("file");
    fs::create_dir(dir.join("disk")).expect("folder");
    if let Some(_mounted) = Mount::new(&dir.join("disk"), "size=128k") {
        let out = rtx(&dir, "train --config small.toml --run disk/r");
        let said = sentence(&out);
        assert!(said.contains(".safetensors: cannot write: No space left on device (os error 28)"), "{said}");
        nothing_half_written(&dir.join("disk/r"), &said);
    }
    // A limit on the size of files refuses as a full disk does, and needs no rights.
    let limit = "trap '' XFSZ; ulimit -f 8; exec \"$0\" train --config small.toml --run limited";
    let out = Command::new("sh").args(["-c", limit, env!("CARGO_BIN_EXE_rtx")]).current_dir(&dir).output();
    let said = sentence(&out.expect("starts"));
    assert!(
        said.starts_with("error: limited/step-000004.tmp/")
            && said.ends_with(": cannot write: File too large (os error 27)"),
        "{said}"
    );
    nothing_half_written(&dir.join("limited"), &said);
}

/// No part of a checkpoint is left, and what is said to be saved can be gone on with.
fn nothing_half_written(run: &Path, said: &str) {
    let left = names(run);
    assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
    let log = fs::read_to_string(run.join("log.jsonl")).expect("log");
    assert!(log.ends_with('\n') || log.is_empty(), "{log}");
    if said.contains(" is saved; go on: rtx train --resume ") {
        assert!(left.contains(&"latest".to_owned()), "{left:?}");
    }
}

#[test]
fn a_run_in_use_is_refused_until_its_process_ends() {
    let dir = folder("in-use");
    fs::write(dir.join("small.toml"), format!("{SMALL}steps = 100000\n")).expect("file");
    let mut running = command(&dir, "train --config small.toml --run r").spawn().expect("starts");
    let latest = dir.join("r/latest");
    while !latest.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let busy = format!("error: r: in use by another process ({})", running.id());
    let said = (refused(&dir, "train --resume r"), refused(&dir, "train --run r"));
    running.kill().expect("killed");
    running.wait().expect("ended");
    assert_eq!(said, (busy.clone(), busy));
    // SIGKILL leaves no lock behind: the sentence is now another one.
    let said = refused(&dir, "train --run r");
    assert_eq!(said, "error: r: holds a run already\n  hint: go on with it: rtx train --resume r");
}

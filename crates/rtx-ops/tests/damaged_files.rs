//! Damaged `.rtxir` files with composites are answered with one error, or are a graph that verifies. Alone in its process:
//! an inference that panics on what no call can record is caught by the reader, and here says nothing on the way.
use rtx_core::Location;
use rtx_ir::{Builder, Graph, OpDef, Sample, text, verify};
use rtx_testkit::{Random, draw, record};

/// Damaged copies of each sample's file.
const EACH: usize = 24;

fn lookup(name: &str) -> Option<&'static OpDef> {
    rtx_ops::ALL.iter().copied().find(|d| text::call_name(d) == name)
}

/// The file of one call.
fn file(def: &'static OpDef, sample: &Sample) -> Option<String> {
    let drawn = draw(def.sig, sample.args, &mut Random::new(3)).ok()?;
    let mut graph = Graph::new();
    let (bound, _) = record(&mut graph, &drawn);
    let outs = Builder::new(&mut graph, Location::caller()).call(def, bound).ok()?;
    Some(text::write_file(&graph, &outs))
}

/// Operands and attributes of a `call` line exchanged, dropped, doubled, replaced; or any byte of the file changed.
fn damage(file: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    let calls: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].contains(" = call ")).collect();
    if calls.is_empty() || random.one_in(4) {
        let mut bytes = file.as_bytes().to_vec();
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes[at] = *random.pick(b"0123456789-[]{}%,. abcfi"),
            1 => drop(bytes.drain(at..(at + random.below(12)).min(file.len()))),
            _ => bytes.insert(at, *random.pick(b"0123456789-[]{}%,. ")),
        }
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let at = *random.pick(&calls);
    let call = lines[at].clone();
    let (head, tail) = call.split_once(" = ").unwrap_or_default();
    let mut head = head.to_owned();
    let (mut tail, generation) = tail.split_once(" @").map_or((tail, String::new()), |(t, g)| (t, format!(" @{g}")));
    let mut attributes: Vec<&str> = Vec::new();
    if let Some((front, braces)) = tail.split_once(" {") {
        (tail, attributes) = (front, braces.trim_end_matches('}').split(", ").collect());
    }
    let mut operands: Vec<&str> = tail.split(' ').collect();
    const ODD: &[&str] = &[
        "none",
        "true",
        "-1",
        "0",
        "7",
        "-9223372036854775808",
        "9223372036854775807",
        "0.5",
        "[]",
        "[0]",
        "[1, 2, 3, 4]",
        "[-1, 99]",
        "[9223372036854775807, 2]",
        "bf16",
        "bool",
        "i64",
        "\"none\"",
        "\"what\"",
        "inf",
    ];
    const TYPES: &[&str] = &["f32 []", "i64 [3]", "bool [0, 2]", "bf16 [s0<=8, 3]", "c64 [2, 2, 2, 2, 2, 2]", "u8 [1]"];
    match random.below(7) {
        0 if operands.len() > 2 => drop(operands.remove(2 + random.below(operands.len() - 2))),
        1 if operands.len() > 2 => operands.insert(2, operands[2 + random.below(operands.len() - 2)]),
        2 if !attributes.is_empty() => drop(attributes.remove(random.below(attributes.len()))),
        3 => attributes.insert(random.below(attributes.len() + 1), *random.pick(ODD)),
        4 | 5 if !attributes.is_empty() => {
            let at = random.below(attributes.len());
            attributes[at] = *random.pick(ODD);
        }
        _ => {
            // An operand of another type: where it is made, if that is an input.
            let inputs: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].ends_with(" = input")).collect();
            if let Some(&i) = inputs.get(random.below(inputs.len().max(1))) {
                let name = lines[i].split(':').next().unwrap_or_default().to_owned();
                lines[i] = format!("{name}: {} = input", random.pick(TYPES));
            } else {
                head = head.replacen("f32", "i64", 1);
            }
        }
    }
    let braces = if attributes.is_empty() { String::new() } else { format!(" {{{}}}", attributes.join(", ")) };
    lines[at] = format!("{head} = {}{braces}{generation}", operands.join(" "));
    lines.join("\n") + "\n"
}

#[test]
fn damaged_files_with_composites_are_refused() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut random = Random::new(11);
    let (mut total, mut refused, mut faults) = (0, 0, Vec::new());
    for def in rtx_ops::ALL {
        for file in def.samples.iter().filter_map(|sample| file(def, sample)) {
            for _ in 0..EACH {
                total += 1;
                match text::read_file(damage(&file, &mut random).as_bytes(), &lookup) {
                    Ok(file) => faults.extend(verify(&file.graph).err().map(|e| e.to_string())),
                    Err(e) if e.message().starts_with("rtxir: ") && !e.message().contains('\n') => refused += 1,
                    Err(e) => faults.push(e.to_string()),
                }
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(faults.is_empty(), "{} of {total}: {faults:#?}", faults.len());
    assert!(refused > total / 2, "only {refused} of {total} refused");
}

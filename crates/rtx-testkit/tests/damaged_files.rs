//! A damaged `.rtxir` file is answered with one error; alone in its process, because it watches for panics.
use rtx_ir::{text, verify};
use rtx_testkit::Random;
use rtx_testkit::graphs::{Options, random_graph};

/// Bytes changed, cut, doubled: the reader answers, and what it accepts is well-formed.
#[test]
fn damaged_files_are_refused() {
    std::panic::set_hook(Box::new(|info| {
        // A panic inside the reader is a failure of this test even where the reader catches it: no composite is here.
        eprintln!("{info}");
        std::process::abort();
    }));
    let mut random = Random::new(9);
    let mut refused = 0;
    let total = 6000;
    for i in 0..total {
        let g = random_graph(i % 40, Options { steps: 8, ..Options::default() });
        let mut bytes = text::write_file(&g.graph, &g.outputs).into_bytes();
        damage(&mut bytes, &mut random);
        match text::read_file(&bytes, &|_| None) {
            Ok(file) => assert!(verify(&file.graph).is_ok()),
            Err(e) => {
                assert!(e.message().starts_with("rtxir: "), "{e}");
                refused += 1;
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(refused > total / 2, "only {refused} of {total} refused");
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    const ODD: &[&[u8]] =
        &[b"9", b"-1", b"18446744073709551615", b"%0", b"[", b"}", b"\n", b"\xff", b"s1<=9", b"{", b" "];
    let at = random.below(bytes.len());
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => bytes[at] = random.bits() as u8,
        2 => drop(bytes.splice(at..at, random.pick(ODD).iter().copied())),
        3 => {
            let end = (at + random.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let end = (at + random.below(40)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(end..end, copy);
        }
    }
}

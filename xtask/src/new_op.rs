//! `cargo xtask new-op NAME`: the literal and the list line of a new composite, ready to be filled in.
use crate::root;
use std::fs;

/// Where activations are defined and listed.
const FILE: &str = "crates/rtx-ops/src/activation.rs";
const LIST: &str = "crates/rtx-ops/src/lib.rs";
/// The line of the list before which a new name goes.
const MARK: &str = "    // new-op: the next one goes above this line";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let [name] = args else { return Err("cargo xtask new-op NAME".into()) };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(format!("`{name}`: an op's name is lower case letters, digits and underscores"));
    }
    let upper = name.to_uppercase();
    let (file, list) = (root().join(FILE), root().join(LIST));
    let mut source = fs::read_to_string(&file).map_err(|e| format!("{FILE}: {e}"))?;
    let listed = fs::read_to_string(&list).map_err(|e| format!("{LIST}: {e}"))?;
    if source.contains(&format!("static {upper}:")) {
        return Err(format!("`{name}` is there already: {FILE}"));
    }
    if !listed.contains(MARK) {
        return Err(format!("{LIST} has no line `{}`", MARK.trim()));
    }
    source.push_str(&literal(name, &upper));
    fs::write(&file, source).map_err(|e| format!("{FILE}: {e}"))?;
    fs::write(&list, listed.replace(MARK, &format!("    &activation::{upper},\n{MARK}")))
        .map_err(|e| format!("{LIST}: {e}"))?;
    println!("{FILE}: fill in doc and body (it is the identity now), then\n  cargo test -p rtx-ops");
    Ok(())
}

fn literal(name: &str, upper: &str) -> String {
    format!(
        r#"
/// `{name}`, whole definition.
pub static {upper}: OpDef = OpDef {{
    sig: "nn.functional.{name}(Tensor input) -> Tensor",
    doc: "The identity: write the formula here.",
    infer: infer_float,
    body: Body::Composite(|_, _, x| Ok(smallvec![x[0]])),
    samples: &[Sample {{ args: "f32[2,3] in -3..3", ulps: 8, grad: true }}],
    ..OpDef::DEFAULT
}};
"#
    )
}

//! `cargo xtask new-op NAME`: the literal and the list entry of a new composite, ready to be filled in.
use crate::root;
use std::fs;

/// Where activations are defined and listed.
const FILE: &str = "crates/rtx-ops/src/activation.rs";
/// How the list begins and ends.
const LIST: &str = "pub const ALL: &[&OpDef] = &[";
const END: &str = "];";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let [name] = args else { return Err("cargo xtask new-op NAME".into()) };
    let path = root().join(FILE);
    let source = fs::read_to_string(&path).map_err(|e| format!("{FILE}: {e}"))?;
    fs::write(&path, with_op(&source, name)?).map_err(|e| format!("{FILE}: {e}"))?;
    println!("{FILE}: `{name}` is the identity now. Fill in doc and body, then");
    println!("  cargo xtask codegen       # its method on Tensor");
    println!("  cargo test -p rtx-ops     # the laws of the table");
    Ok(())
}

/// The file with one literal and one list entry more.
fn with_op(source: &str, name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(format!("`{name}`: an op's name is lower case letters, digits and underscores"));
    }
    let upper = name.to_uppercase();
    if source.contains(&format!("static {upper}:")) {
        return Err(format!("`{name}` is there already: {FILE}"));
    }
    let at = source.find(LIST).ok_or_else(|| format!("{FILE} has no line `{LIST}`"))? + LIST.len();
    let end = at + source[at..].find(END).ok_or_else(|| format!("{FILE}: the list has no end"))?;
    let (head, tail) = source.split_at(end);
    Ok(format!("{}, &{upper}{tail}{}", head.trim_end().trim_end_matches(','), literal(name, &upper)))
}

fn literal(name: &str, upper: &str) -> String {
    format!(
        r#"
/// `{name}`, whole definition.
pub static {upper}: OpDef = OpDef {{
    sig: "{name}(Tensor self) -> Tensor",
    doc: "The identity: write the formula here.",
    body: Body::Composite(|_, _, v| Ok(smallvec![v[0]])),
    samples: &[Sample {{ args: "f32[2,3] in -3..3", ulps: 8, grad: true }}],
    ..POINTWISE
}};
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_is_one_literal_and_one_entry() -> Result<(), String> {
        let source = fs::read_to_string(root().join(FILE)).map_err(|e| e.to_string())?;
        let more = with_op(&source, "softsign")?;
        assert!(more.contains(", &SOFTSIGN];") && more.contains("pub static SOFTSIGN: OpDef"));
        assert!(with_op(&more, "softsign").is_err() && with_op(&source, "Soft Sign").is_err());
        Ok(())
    }
}

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
    println!("  cargo test -p rtx-ops     # the laws of the table");
    println!("  cargo xtask codegen       # its method on Tensor");
    println!("  cargo xtask coverage      # it runs on the processor in every type: docs/coverage.md");
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
    Ok(format!("{head}    &{upper},\n{tail}{}", literal(name, &upper)))
}

fn literal(name: &str, upper: &str) -> String {
    format!(
        r#"
/// The formula, in backquotes.
pub static {upper}: OpDef = OpDef {{
    sig: "{name}(Tensor self) -> Tensor",
    doc: "The formula, what is special about it, its source.",
    body: Body::Composite(|_, _, v| Ok(smallvec![v[0]])),
    samples: &[Sample {{ args: "f32[2,3] in -3..3", ulps: 8, grad: true }}],
    ..FUNCTION
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
        let more = with_op(&source, "softersign")?;
        assert!(more.contains(",\n    &SOFTERSIGN,\n];") && more.contains("pub static SOFTERSIGN: OpDef"));
        assert!(with_op(&more, "softersign").is_err() && with_op(&source, "Soft Sign").is_err());
        Ok(())
    }

    /// What a diff leaves behind: for each hunk its file, and the lines that stand there one after the other.
    fn hunks(diff: &str) -> Vec<(&str, Vec<&str>)> {
        let (mut file, mut hunks) = ("", Vec::new());
        for line in diff.lines() {
            if let Some(path) = line.strip_prefix("+++ b/") {
                file = path;
            } else if line.starts_with("@@") {
                hunks.push((file, Vec::new()));
            } else if let (Some((_, lines)), false) = (hunks.last_mut(), line.starts_with('-')) {
                lines.push(line.get(1..).unwrap_or_default());
            }
        }
        hunks
    }

    #[test]
    fn the_worked_example_is_the_source() -> Result<(), String> {
        let page = fs::read_to_string(root().join("docs/adding-an-op.md")).map_err(|e| e.to_string())?;
        let diffs = page.split("````diff\n").skip(1).filter_map(|part| part.split("````").next());
        let hunks: Vec<_> = diffs.flat_map(hunks).collect();
        assert_eq!(hunks.len(), 3, "a list line, a literal, a struct");
        for (file, lines) in hunks {
            let source = fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
            let source: Vec<&str> = source.lines().collect();
            assert!(source.windows(lines.len()).any(|w| w == lines), "{file} has not:\n{}", lines.join("\n"));
        }
        Ok(())
    }
}

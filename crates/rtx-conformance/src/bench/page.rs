//! `docs/performance.md`, made from what the bench wrote: the table, the goals, and what does not reach its goal.
use super::goals::{self, Goal};
use rtx_core::{Error, Kind, Result};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Writes `docs/performance.md` from a file that `bench cpu --peers` wrote and, if given, one of `bench crates`.
///
/// # Errors
/// [`Kind::Io`] when a file fails, [`Kind::Format`] when a JSON is not the bench's.
pub fn write_doc(json: &Path, crates: Option<&Path>, doc: &Path) -> Result<()> {
    let not_ours = || Error::new(Kind::Format, "bench doc: this is not the bench's JSON");
    let main = std::fs::read_to_string(json)?;
    let mut text = page(&main).ok_or_else(not_ours)?;
    if let Some(path) = crates {
        text += &beside_crates(&std::fs::read_to_string(path)?).ok_or_else(not_ours)?;
    }
    text += &sentences(&main).ok_or_else(not_ours)?;
    rtx_io::write_file(doc, text.as_bytes())
}

/// A row as the page shows it.
struct Shown<'a> {
    row: &'a Value,
    name: &'a str,
    goal: Option<&'static Goal>,
}

impl<'a> Shown<'a> {
    fn all(json: &'a Value) -> Option<Vec<Self>> {
        let shown = |row: &'a Value| {
            let name = row["name"].as_str()?;
            Some(Self { row, name, goal: goals::of(name) })
        };
        json["rows"].as_array()?.iter().map(shown).collect()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.row[name].as_f64()
    }

    fn cell(&self, name: &str, digits: usize) -> String {
        self.number(name).map_or("–".to_owned(), |x| format!("{x:.digits$}"))
    }

    fn share(&self) -> String {
        match (self.number("share"), self.goal.and_then(|g| g.share)) {
            (Some(x), Some(share)) => format!("{:.0} % of {}", 100.0 * x, share.of.name()),
            _ => "–".to_owned(),
        }
    }

    /// The goals: what is asked, what there is, and whether that is enough.
    fn asked(&self) -> Vec<(String, String, bool)> {
        let Some(goal) = self.goal else { return vec![] };
        let mut asked = Vec::new();
        let ratio = if goal.to_eager {
            self.number("eager").zip(self.number("ours")).map(|(theirs, ours)| theirs / ours)
        } else {
            self.number("ratio")
        };
        if let Some((wanted, ratio)) = goal.ratio.zip(ratio) {
            let of = if goal.to_eager { " to eager" } else { "" };
            asked.push((format!("ratio{of} {wanted}"), format!("ratio{of} {ratio:.2}"), ratio >= wanted));
        }
        if let Some((share, x)) = goal.share.zip(self.number("share")).filter(|(share, _)| share.wanted > 0.0) {
            let of = share.of.name();
            asked.push((
                format!("{:.0} % of {of}", 100.0 * share.wanted),
                format!("{:.0} % of {of}", 100.0 * x),
                x >= share.wanted,
            ));
        }
        if let Some((most, ours)) = goal.at_most.zip(self.number("ours")) {
            let unit = self.row["unit"].as_str().unwrap_or_default();
            asked.push((format!("{most} {unit}"), format!("{ours:.2} {unit}"), ours <= most));
        }
        asked
    }
}

/// Whose numbers they are, and how they were taken.
fn head(json: &Value) -> Option<String> {
    Some(format!("{}: {} ({})", json["date"].as_str()?, json["machine"].as_str()?, json["target"].as_str()?))
}

fn page(text: &str) -> Option<String> {
    let json: Value = serde_json::from_str(text).ok()?;
    let rows = Shown::all(&json)?;
    let mut page = format!(
        "# Performance\n\n\
        Made by `cargo xtask bench doc FILE` from what `cargo xtask bench cpu --peers --json FILE` wrote on {}. PyTorch 2.15\n\
        and we have the same threads and run in alternating rounds; a number is the median of its rounds. The ratio is the better of\n\
        PyTorch eager and compiled over ours: above 1, ours is faster (or smaller). A ratio within a tenth of 1 is a tie.\n\
        A share is that of the machine's own limit in the same rounds: the peak of f32 multiply-adds, the best copy of 16 MiB,\n\
        a read of 64 MiB; bytes are those that a row must at least read and write.\n\n\
        | row | unit | ours | eager | compiled | ratio | share | goal |\n|---|---|---:|---:|---:|---:|---:|---|\n",
        head(&json)?
    );
    for row in &rows {
        let goals: Vec<String> = row.asked().into_iter().map(|(wanted, _, _)| wanted).collect();
        // Writing to a string does not fail.
        _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            row.row["unit"].as_str()?,
            row.cell("ours", 3),
            row.cell("eager", 3),
            row.cell("compiled", 3),
            row.cell("ratio", 2),
            row.share(),
            if goals.is_empty() { "–".to_owned() } else { goals.join(", ") }
        );
    }
    page.push_str(&behind(&rows));
    Some(page)
}

/// Rows under their goals, and rows where PyTorch is faster.
fn behind(rows: &[Shown]) -> String {
    let mut text = "\n## Where we are behind\n\n".to_owned();
    let mut any = false;
    for row in rows {
        let missed: Vec<String> = row
            .asked()
            .into_iter()
            .filter(|(_, _, reached)| !reached)
            .map(|(wanted, is, _)| format!("{is}, {wanted} wanted"))
            .collect();
        let slower = row.number("ratio").filter(|ratio| *ratio < 0.995);
        let slower = slower.map(|ratio| format!("the better PyTorch takes {:.2} of our number", ratio));
        let said: Vec<String> = missed.into_iter().chain(slower).collect();
        if !said.is_empty() {
            any = true;
            // Writing to a string does not fail.
            _ = writeln!(text, "- `{}`: {}", row.name, said.join("; "));
        }
    }
    if !any {
        text.push_str("No row is under its goal, and none under PyTorch's number.\n");
    }
    text
}

/// The table beside candle and burn.
fn beside_crates(text: &str) -> Option<String> {
    let json: Value = serde_json::from_str(text).ok()?;
    let mut page = format!(
        "\n## Beside candle and burn\n\n\
        Made by `cargo xtask bench crates --json FILE` on {}: candle 0.11 and burn 0.22 with its back end `flex`, built for\n\
        this processor, in alternating rounds with ours. The ratio is the better of the two over ours.\n\n\
        | row | unit | ours | candle | burn | ratio |\n|---|---|---:|---:|---:|---:|\n",
        head(&json)?
    );
    for row in Shown::all(&json)? {
        // Writing to a string does not fail.
        _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} |",
            row.name,
            row.row["unit"].as_str()?,
            row.cell("ours", 3),
            row.cell("candle", 3),
            row.cell("burn", 3),
            row.cell("ratio", 2)
        );
    }
    Some(page)
}

/// What the rows are.
fn sentences(text: &str) -> Option<String> {
    let json: Value = serde_json::from_str(text).ok()?;
    let mut page = "\n## What each row is\n\n".to_owned();
    for row in Shown::all(&json)? {
        let about = row.goal.map_or("see `crates/rtx-conformance/src/bench/rows.rs`", |g| g.about);
        // Writing to a string does not fail.
        _ = writeln!(page, "- `{}`: {about}", row.name);
    }
    page.push_str(
        "\nThe programs are in `crates/rtx-conformance/src/bench/rows.rs` and `benches/peers`. Our peak of tensor bytes is\n\
        the runtime's count of values, arena and constants; PyTorch's is the sum of the storages that live after each\n\
        operation, without what a kernel takes and gives back inside.\n",
    );
    Some(page)
}

#[cfg(test)]
mod tests {
    const JSON: &str = r#"{"date": "2026-01-02", "machine": "m", "target": "cpu", "rows": [
        {"name": "softmax_fb", "unit": "ms", "ours": 1.5, "eager": 3.0, "compiled": null, "ratio": 2.0, "share": null},
        {"name": "chain8", "unit": "ms", "ours": 2.0, "eager": 3.0, "compiled": 1.8, "ratio": 0.9, "share": 0.8},
        {"name": "add_chain", "unit": "us", "ours": 0.5, "eager": null, "compiled": null, "ratio": null, "share": null}]}"#;

    #[test]
    fn a_page_has_the_rows_of_its_json() {
        let page = super::page(JSON).expect("a page");
        assert!(page.contains("on 2026-01-02: m (cpu)"), "{page}");
        assert!(page.contains("| `softmax_fb` | ms | 1.500 | 3.000 | – | 2.00 | – | ratio 1.5 |\n"), "{page}");
        assert!(page.contains("| 0.90 | 80 % of copy | ratio 1.8, 75 % of copy |\n"), "{page}");
        assert!(super::page("{}").is_none());
    }

    #[test]
    fn what_is_behind_is_said() {
        let page = super::page(JSON).expect("a page");
        let (_, behind) = page.split_once("## Where we are behind\n\n").expect("a section");
        let want = "- `chain8`: ratio 0.90, ratio 1.8 wanted; the better PyTorch takes 0.90 of our number\n\
            - `add_chain`: 0.50 us, 0.4 us wanted\n";
        assert_eq!(behind, want);
    }
}

//! What the bench leaves behind: its JSON, and `docs/performance.md` made from it.
use super::Reading;
use rtx_core::{Error, Kind, Result};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Device, threads, instruction set and mode.
pub(super) fn target() -> String {
    let (threads, isa) = (rustytorch::get_num_threads(), rustytorch::cpu_capability());
    format!("{}, {threads} threads, {isa}, strict", rustytorch::default_device())
}

/// The processor's name, where Linux says it, and how many of them there are.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find(|l| l.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let number = |name: &str| field(name).unwrap_or_else(|| "?".to_owned());
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!(
        "{}, family {}, model {}, {processors} processors",
        field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        number("cpu family"),
        number("model\t")
    )
}

/// Today, in UTC (the days of the civil calendar: Hinnant, \"chrono-compatible low-level date algorithms\").
fn today() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86_400);
    let (y, m, d) = civil(days);
    format!("{y}-{m:02}-{d:02}")
}
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (d, m) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(m <= 2), m, d)
}

pub(super) fn write_json(readings: &[Reading], path: &Path) -> Result<()> {
    let number = |x: Option<f64>| x.map_or("null".to_owned(), |x| format!("{x:.4}"));
    let (date, machine) = (today(), machine());
    let mut text =
        format!("{{\"date\": \"{date}\", \"machine\": \"{machine}\", \"target\": \"{}\", \"rows\": [\n", target());
    for (i, r) in readings.iter().enumerate() {
        let comma = if i + 1 < readings.len() { "," } else { "" };
        // Writing to a string does not fail.
        _ = writeln!(
            text,
            "  {{\"name\": \"{}\", \"unit\": \"{}\", \"ours\": {:.4}, \"eager\": {}, \"compiled\": {}, \"ratio\": {}}}{comma}",
            r.row.name,
            r.row.unit,
            r.ours,
            number(r.peers[0]),
            number(r.peers[1]),
            number(r.ratio())
        );
    }
    text.push_str("]}\n");
    rtx_io::write_file(path, text.as_bytes())
}

/// Writes `docs/performance.md` from a file that the bench wrote.
///
/// # Errors
/// [`Kind::Io`] when a file fails, [`Kind::Format`] when the JSON is not the bench's.
pub fn write_doc(json: &Path, doc: &Path) -> Result<()> {
    let text = std::fs::read_to_string(json)?;
    let page = page(&text).ok_or_else(|| Error::new(Kind::Format, "bench doc: this is not the bench's JSON"))?;
    rtx_io::write_file(doc, page.as_bytes())
}

fn page(json: &str) -> Option<String> {
    let json: Value = serde_json::from_str(json).ok()?;
    let mut page = format!(
        "# Performance\n\n\
        Made by `cargo xtask bench doc FILE` from what `cargo xtask bench cpu --peers --json FILE` wrote on {}: {} ({}). Ours and\n\
        PyTorch ran in alternating rounds; a number is the median of its rounds. The ratio is the better of PyTorch\n\
        eager and compiled over ours: above 1, ours is faster. A ratio within a tenth of 1 is a tie.\n\n\
        | row | unit | ours | eager | compiled | ratio |\n|---|---|---:|---:|---:|---:|\n",
        json["date"].as_str()?,
        json["machine"].as_str()?,
        json["target"].as_str()?
    );
    for row in json["rows"].as_array()? {
        let cell = |name: &str, digits: usize| match &row[name] {
            Value::Null => Some("–".to_owned()),
            number => Some(format!("{:.digits$}", number.as_f64()?)),
        };
        // Writing to a string does not fail.
        _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            row["name"].as_str()?,
            row["unit"].as_str()?,
            cell("ours", 3)?,
            cell("eager", 3)?,
            cell("compiled", 3)?,
            cell("ratio", 2)?
        );
    }
    page.push_str(
        "\nWhat each row does is in `crates/rtx-conformance/src/bench/rows.rs` and `benches/peers/torch_rows.py`.\n",
    );
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_787), (2026, 11, 30));
    }

    #[test]
    fn a_page_has_the_rows_of_its_json() {
        let json = "{\"date\": \"2026-01-02\", \"machine\": \"m\", \"target\": \"cpu\", \"rows\": [\n  {\"name\": \"a\", \"unit\": \"ms\", \
            \"ours\": 1.5, \"eager\": 3.0, \"compiled\": null, \"ratio\": 2.0}\n]}\n";
        let page = page(json).expect("a page");
        assert!(page.contains("on 2026-01-02: m (cpu)"), "{page}");
        assert!(page.contains("| a | ms | 1.500 | 3.000 | – | 2.00 |\n"), "{page}");
        assert!(super::page("{}").is_none());
    }
}

//! What the bench leaves behind: a JSON of rows, where a later run replaces what it measured again.
use super::{Reading, goals};
use rtx_core::{Error, Kind, Result};
use serde_json::Value;
use std::collections::BTreeMap;
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

/// Writes rows into a file; those of other names that are there already stay.
///
/// # Errors
/// [`Kind::Argument`] for a file of another machine, [`Kind::Format`] for one that is not the bench's.
pub(super) fn merge_json(readings: &[Reading], path: &Path) -> Result<()> {
    let old = if path.exists() { Some(std::fs::read_to_string(path)?) } else { None };
    let text = merged(readings, old.as_deref(), [&today(), &machine(), &target()])?;
    rtx_io::write_file(path, text.as_bytes())
}

fn merged(readings: &[Reading], old: Option<&str>, [date, machine, target]: [&str; 3]) -> Result<String> {
    let not_ours = || Error::new(Kind::Format, "bench --json: the file is there and is not the bench's");
    let mut rows: BTreeMap<(usize, String), String> = BTreeMap::new();
    let place = |name: &str| goals::GOALS.iter().position(|g| g.name == name).unwrap_or(usize::MAX);
    if let Some(old) = old {
        let old: Value = serde_json::from_str(old).map_err(|_| not_ours())?;
        if old["machine"] != machine || old["target"] != target {
            let message = "bench --json: the file holds rows of another machine, or of other threads";
            return Err(Error::new(Kind::Argument, message).hint("take another file"));
        }
        for row in old["rows"].as_array().ok_or_else(not_ours)? {
            let name = row["name"].as_str().ok_or_else(not_ours)?.to_owned();
            rows.insert((place(&name), name), row.to_string());
        }
    }
    for reading in readings {
        rows.insert((place(reading.name), reading.name.to_owned()), reading.json());
    }
    let rows: Vec<String> = rows.into_values().collect();
    let head = format!("{{\"date\": \"{date}\", \"machine\": \"{machine}\", \"target\": \"{target}\"");
    Ok(format!("{head}, \"rows\": [\n  {}\n]}}\n", rows.join(",\n  ")))
}

impl Reading {
    fn json(&self) -> String {
        let number = |x: Option<f64>| x.map_or("null".to_owned(), |x| format!("{x:.4}"));
        let mut text = format!("{{\"name\": \"{}\", \"unit\": \"{}\"", self.name, self.unit);
        let own = [("ours", Some(self.ours))];
        let last = [("ratio", self.ratio()), ("share", self.share)];
        for (name, x) in own.iter().chain(&self.peers).chain(&last) {
            // Writing to a string does not fail.
            _ = write!(text, ", \"{name}\": {}", number(*x));
        }
        text + "}"
    }
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
    fn a_later_run_replaces_its_rows_only() {
        let row = |name, ours| Reading {
            name,
            unit: "ms",
            ours,
            peers: vec![("eager", Some(3.0)), ("compiled", None)],
            share: None,
        };
        let about = ["2026-01-02", "m", "cpu"];
        let first = merged(&[row("softmax", 1.5), row("gelu", 2.0)], None, about).expect("text");
        let both = merged(&[row("softmax", 1.0)], Some(&first), ["2026-01-03", "m", "cpu"]).expect("text");
        let both: Value = serde_json::from_str(&both).expect("JSON");
        assert_eq!(both["date"], "2026-01-03");
        assert_eq!((&both["rows"][0]["name"], &both["rows"][0]["ours"]), (&"gelu".into(), &2.0.into()));
        assert_eq!((&both["rows"][1]["ours"], &both["rows"][1]["ratio"]), (&1.0.into(), &3.0.into()));
        assert_eq!(both["rows"][1]["compiled"], Value::Null);
        let elsewhere = merged(&[], Some(&first), ["2026-01-03", "another", "cpu"]);
        assert_eq!(elsewhere.expect_err("refused").kind(), Kind::Argument);
        assert_eq!(merged(&[], Some("{}"), about).expect_err("refused").kind(), Kind::Argument);
    }
}

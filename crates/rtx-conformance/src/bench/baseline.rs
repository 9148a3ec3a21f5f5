//! `benches/baseline.json`: what `bench check` compares with.
use rtx_core::{Error, Kind, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// By section, program and counter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Baseline(pub BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>);

fn path() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/baseline.json")
}

impl Baseline {
    pub(super) fn read() -> Result<Self> {
        let text = std::fs::read_to_string(path()).map_err(|e| Error::from(e).hint("bench check --bless writes it"))?;
        Self::parse(&text).ok_or_else(|| Error::new(Kind::Format, "benches/baseline.json is not a baseline"))
    }

    fn parse(text: &str) -> Option<Self> {
        fn map<T>(value: &Value, f: impl Fn(&Value) -> Option<T>) -> Option<BTreeMap<String, T>> {
            value.as_object()?.iter().map(|(name, v)| Some((name.clone(), f(v)?))).collect()
        }
        let json: Value = serde_json::from_str(text).ok()?;
        map(&json, |section| map(section, |program| map(program, Value::as_f64))).map(Self)
    }

    pub(super) fn write(&self) -> Result<()> {
        rtx_io::write_file(&path(), self.text().as_bytes())
    }

    fn text(&self) -> String {
        let whole =
            |x: f64| if x.fract() == 0.0 { Value::from(x as u64) } else { Value::from((x * 1e6).round() / 1e6) };
        let mut json = Map::new();
        for (section, programs) in &self.0 {
            let programs = programs.iter().map(|(name, counts)| {
                let counts: Map<String, Value> = counts.iter().map(|(n, x)| (n.clone(), whole(*x))).collect();
                (name.clone(), Value::Object(counts))
            });
            json.insert(section.clone(), Value::Object(programs.collect()));
        }
        serde_json::to_string_pretty(&Value::Object(json)).unwrap_or_default() + "\n"
    }

    /// Puts a program's counts in place.
    pub(super) fn set<'a>(&mut self, section: &str, program: &str, counts: impl IntoIterator<Item = (&'a str, f64)>) {
        let counts = counts.into_iter().map(|(name, x)| (name.to_owned(), x)).collect();
        self.0.entry(section.to_owned()).or_default().insert(program.to_owned(), counts);
    }

    /// What is more than it was, in sections that both have, by more than a factor of `slack`; and what is less.
    pub(super) fn compare(&self, now: &Baseline, slack: impl Fn(&str) -> f64) -> (Vec<String>, Vec<String>) {
        let (mut worse, mut better) = (Vec::new(), Vec::new());
        for (section, programs) in &now.0 {
            let slack = slack(section);
            let Some(old) = self.0.get(section) else {
                worse.push(format!("{section}: not in the baseline"));
                continue;
            };
            for (program, counts) in programs {
                for (counter, &is) in counts {
                    match old.get(program).and_then(|p| p.get(counter)) {
                        None => worse.push(format!("{section} {program} {counter}: not in the baseline")),
                        Some(&was) if is > was * slack => {
                            worse.push(format!("{section} {program} {counter}: {was} became {is}"))
                        }
                        Some(&was) if is * slack < was => {
                            better.push(format!("{section} {program} {counter}: {was} became {is}"))
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        (worse, better)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(kernels: f64, ratio: f64) -> Baseline {
        let mut b = Baseline::default();
        b.set("counters", "mlp", [("kernels", kernels)]);
        b.set("instructions", "mlp", [("ratio", ratio)]);
        b
    }
    fn slack(section: &str) -> f64 {
        if section == "instructions" { 1.05 } else { 1.0 }
    }

    #[test]
    fn a_baseline_reads_back() {
        let b = with(7.0, 1.25);
        assert_eq!(Baseline::parse(&b.text()), Some(b));
        assert_eq!(Baseline::parse("[]"), None);
    }

    #[test]
    fn one_kernel_more_is_worse_and_five_percent_of_instructions() {
        let was = with(7.0, 1.25);
        assert_eq!(was.compare(&with(7.0, 1.3), slack), (vec![], vec![]));
        assert_eq!(was.compare(&with(8.0, 1.4), slack).0.len(), 2);
        assert_eq!(was.compare(&with(6.0, 1.25), slack).1, ["counters mlp kernels: 7 became 6"]);
    }
}

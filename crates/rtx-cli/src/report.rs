//! What a run says while it runs: the progress line, as wide as the terminal, plain where there is none.
use crate::words::{clock, loss};
use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

/// The narrowest and the widest bar.
const BAR: std::ops::RangeInclusive<usize> = 10..=50;

/// How a model does on data set aside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// The part of sums that are exactly right.
    Exact(f64),
    /// The mean loss on text, in nats a byte.
    Loss(f64),
    /// The part of pictures whose class is right.
    Accuracy(f64),
}

impl Score {
    /// Its name and value in `log.jsonl`.
    pub fn entry(self) -> (&'static str, f64) {
        match self {
            Score::Exact(x) => ("exact", x),
            Score::Loss(x) => ("held_out_loss", x),
            Score::Accuracy(x) => ("accuracy", x),
        }
    }
    fn words(self) -> String {
        match self {
            Score::Exact(x) => format!("exact {:>5.1} %", x * 100.0),
            Score::Loss(x) => format!("set aside {:.3} bits a byte", x / std::f64::consts::LN_2),
            Score::Accuracy(x) => format!("test {:>5.2} %", x * 100.0),
        }
    }
    /// What a bar shows.
    fn part(self) -> Option<f64> {
        match self {
            Score::Exact(x) | Score::Accuracy(x) => Some(x),
            Score::Loss(_) => None,
        }
    }
}

/// The lines of a run: one for each check, and between them one that a terminal sees change.
pub struct Progress {
    steps: u64,
    first: u64,
    started: Instant,
    live: bool,
    drawn: bool,
    score: Option<Score>,
}

impl Progress {
    /// Starts the clock at step `first` of `steps`.
    pub fn new(first: u64, steps: u64) -> Self {
        let live = stdout().is_terminal();
        Self { steps, first, started: Instant::now(), live, drawn: false, score: None }
    }
    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
    /// After `step` steps: a line that stays if there is a new score, else one that the next replaces. After the last
    /// step nothing is left.
    pub fn show(&mut self, step: u64, loss: f64, score: Option<Score>, last: bool) {
        self.score = score.or(self.score);
        if score.is_none() && !self.live {
            return;
        }
        let left = (!last).then(|| self.left(step));
        let columns = self.live.then(columns);
        let line = line(Line { step, steps: self.steps, loss, score: self.score, left }, columns);
        let start = if self.drawn { "\r\x1b[K" } else { "" };
        let end = if score.is_some() { "\n" } else { "" };
        self.drawn = score.is_none();
        print_now(&format!("{start}{line}{end}"));
    }
    /// Ends a line that the next would have replaced.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.drawn) {
            print_now("\n");
        }
    }
    /// At this pace, and if it goes on to the last step.
    fn left(&self, step: u64) -> Duration {
        let done = (step - self.first).max(1) as f64;
        Duration::from_secs_f64(self.seconds() / done * (self.steps - step) as f64)
    }
}

/// Columns of the terminal; one stays free, so that no terminal wraps the line.
fn columns() -> usize {
    let (terminal_size::Width(width), _) =
        terminal_size::terminal_size().unwrap_or((terminal_size::Width(80), terminal_size::Height(24)));
    usize::from(width).saturating_sub(1)
}

/// What a line tells.
struct Line {
    step: u64,
    steps: u64,
    loss: f64,
    score: Option<Score>,
    left: Option<Duration>,
}

/// In a terminal (`columns`) a bar takes the room that is there, and what does not fit is left out from the right.
fn line(l: Line, columns: Option<usize>) -> String {
    let width = l.steps.to_string().len();
    let steps = format!("step {:>width$}/{}", l.step, l.steps);
    let train = format!("   loss {:<5}", loss(l.loss));
    let score = l.score.map_or(String::new(), |s| format!("   {}", s.words()));
    let left = l.left.map_or(String::new(), |time| format!("   {} left", clock(time)));
    let length = |parts: &[&str]| parts.iter().map(|p| p.chars().count()).sum::<usize>();
    let Some(columns) = columns else { return [steps, train, score, left].concat().trim_end().to_owned() };
    let room = columns.saturating_sub(length(&[&steps, &train, &score, &left]) + 3).min(*BAR.end());
    let bar = match l.score.and_then(Score::part).filter(|_| BAR.contains(&room)) {
        Some(part) => format!("   {:<room$}", "█".repeat((part * room as f64 + 1e-9) as usize)),
        None => String::new(),
    };
    let mut out = String::new();
    for part in [steps, train, score, bar, left] {
        if length(&[&out, part.trim_end()]) > columns {
            break;
        }
        out += &part;
    }
    out.trim_end().to_owned()
}

/// Prints without waiting for a line's end. Output that nobody reads is no reason to stop.
pub fn print_now(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Standard output for writers that do not expect it to be closed: what nobody reads is dropped.
pub struct Quiet;
impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = stdout().write_all(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        let _ = stdout().flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(
        step: u64,
        steps: u64,
        loss: f64,
        score: Option<Score>,
        left: Option<u64>,
        columns: Option<usize>,
    ) -> String {
        line(Line { step, steps, loss, score, left: left.map(Duration::from_secs) }, columns)
    }

    #[test]
    fn the_line_is_as_designed() {
        let exact = Some(Score::Exact(0.881));
        assert_eq!(
            shown(60, 500, 0.0971, exact, Some(29), Some(66)),
            "step  60/500   loss 0.10    exact  88.1 %   ████████     0:29 left"
        );
        assert_eq!(
            shown(60, 500, 0.0971, exact, Some(29), None),
            "step  60/500   loss 0.10    exact  88.1 %   0:29 left",
            "no bar where there is no terminal"
        );
        assert_eq!(
            shown(50, 600, 2.5, Some(Score::Loss(1.4)), Some(29), Some(80)),
            "step  50/600   loss 2.50    set aside 2.020 bits a byte   0:29 left"
        );
        assert_eq!(
            shown(500, 500, 0.3, Some(Score::Accuracy(0.9134)), None, None),
            "step 500/500   loss 0.30    test 91.34 %"
        );
        assert_eq!(shown(1, 9, 3.0, None, Some(29), None), "step 1/9   loss 3.00    0:29 left");
    }

    #[test]
    fn the_line_fits_every_terminal() {
        for columns in 1..220 {
            let line = shown(1234, 10_000, 12345.0, Some(Score::Exact(1.0)), Some(7265), Some(columns));
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        let wide = shown(60, 500, 0.1, Some(Score::Exact(1.0)), Some(29), Some(199));
        assert_eq!(wide.chars().filter(|c| *c == '█').count(), 50);
        assert_eq!(shown(60, 500, 0.1, None, Some(29), Some(12)), "step  60/500");
    }
}

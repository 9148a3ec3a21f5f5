//! What a run says: numbers as people read them, the progress line.
use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

/// `464,384`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A loss: two places, three when it is small, powers of ten when it has run away.
pub fn loss(x: f64) -> String {
    match x {
        _ if x < 0.095 => format!("{x:.3}"),
        _ if x < 1e4 => format!("{x:.2}"),
        _ => format!("{x:.1e}"),
    }
}

/// Bytes: `41 MB`.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", (bytes as f64 / 1e6).max(1.0))
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// How a model does on data set aside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// The part of sums that are exactly right.
    Exact(f64),
    /// The mean loss, in nats a byte.
    Loss(f64),
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
        let line = line(step, self.steps, loss, self.score, left);
        let start = if self.drawn { "\r\x1b[K" } else { "" };
        let end = if score.is_some() { "\n" } else { "" };
        self.drawn = score.is_none();
        print_now(&format!("{start}{line}{end}"));
    }
    /// At this pace, and if it goes on to the last step.
    fn left(&self, step: u64) -> Duration {
        let done = (step - self.first).max(1) as f64;
        Duration::from_secs_f64(self.seconds() / done * (self.steps - step) as f64)
    }
}

fn line(step: u64, steps: u64, train: f64, score: Option<Score>, left: Option<Duration>) -> String {
    let width = steps.to_string().len();
    let score = match score {
        None => String::new(),
        Some(Score::Exact(x)) => {
            format!("   exact {:>5.1} %  {:<10}", x * 100.0, "█".repeat((x * 10.0 + 1e-9) as usize))
        }
        Some(Score::Loss(x)) => format!("   on text set aside {:<5}", loss(x)),
    };
    let left = left.map_or(String::new(), |time| format!("   {} left", clock(time)));
    format!("step {step:>width$}/{steps}   loss {:<5}{score}{left}", loss(train)).trim_end().to_owned()
}

/// Prints without waiting for a line's end. Output that nobody reads is no reason to stop.
pub fn print_now(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([1, 999, 1000, 464_384, 1_234_567].map(thousands), ["1", "999", "1,000", "464,384", "1,234,567"]);
        assert_eq!([2.7712, 0.0951, 0.0021, 2.09e14].map(loss), ["2.77", "0.10", "0.002", "2.1e14"]);
        assert_eq!((megabytes(41_400_000), clock(Duration::from_secs(125))), ("41 MB".into(), "2:05".into()));
    }

    #[test]
    fn the_line_is_as_designed() {
        let seconds = Duration::from_secs(29);
        assert_eq!(
            line(60, 500, 0.0971, Some(Score::Exact(0.881)), Some(seconds)),
            "step  60/500   loss 0.10    exact  88.1 %  ████████     0:29 left"
        );
        assert_eq!(
            line(500, 500, 0.002, Some(Score::Exact(1.0)), None),
            "step 500/500   loss 0.002   exact 100.0 %  ██████████"
        );
        assert_eq!(
            line(50, 600, 2.5, Some(Score::Loss(2.44)), Some(seconds)),
            "step  50/600   loss 2.50    on text set aside 2.44    0:29 left"
        );
        assert_eq!(line(1, 9, 3.0, None, Some(seconds)), "step 1/9   loss 3.00    0:29 left");
    }
}

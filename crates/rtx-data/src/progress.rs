//! A line that tells how far a loop is: `for (bar, batch) in loader.iter().progress("epoch 1")`.
use rtx_tensor::Tensor;
use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often the line is drawn anew.
const EVERY: Duration = Duration::from_millis(100);

/// Adds `.progress(title)` to every iterator.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// for (meter, i) in (0..3).progress("epoch 1") {
///     meter.show("loss", &torch::full((), 1. / (1 + i) as f64)); // read when the line is drawn
/// }
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait Progress: Iterator + Sized {
    /// Counts the items on a line of the terminal; silent when stderr is none.
    fn progress(self, title: impl Into<String>) -> Bar<Self> {
        let total = self.size_hint().1;
        let line =
            Line { title: title.into(), total, done: 0, shown: Vec::new(), started: Instant::now(), drawn: None };
        Bar { inner: self, meter: Meter(Rc::new(RefCell::new(line))) }
    }
}
impl<I: Iterator> Progress for I {}

/// An iterator that counts what it gives.
pub struct Bar<I> {
    inner: I,
    meter: Meter,
}

/// Where a loop shows its numbers.
#[derive(Clone)]
pub struct Meter(Rc<RefCell<Line>>);

struct Line {
    title: String,
    total: Option<usize>,
    done: usize,
    shown: Vec<(String, Tensor)>,
    started: Instant,
    drawn: Option<Instant>,
}

impl Meter {
    /// Shows a scalar when the line is next drawn, at the next item: nothing waits for it before.
    pub fn show(&self, name: &str, value: &Tensor) {
        let mut line = self.0.borrow_mut();
        line.shown.retain(|(n, _)| n != name);
        line.shown.push((name.to_owned(), value.detach()));
    }
}

impl<I: Iterator> Iterator for Bar<I> {
    type Item = (Meter, I::Item);

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.inner.next();
        let mut line = self.meter.0.borrow_mut();
        line.draw(item.is_none());
        line.done += usize::from(item.is_some());
        drop(line);
        item.map(|x| (self.meter.clone(), x))
    }
}

impl Line {
    fn draw(&mut self, last: bool) {
        let due = self.drawn.is_none_or(|at| at.elapsed() >= EVERY);
        if !(due || last) || !std::io::stderr().is_terminal() {
            return;
        }
        self.drawn = Some(Instant::now());
        let text = self.text();
        let end = if last { "\n" } else { "" };
        // A progress line that cannot be written is no reason to stop a training run.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}{end}");
    }

    fn text(&self) -> String {
        let mut text = match self.total {
            Some(total) => format!("{}  {}/{total}", self.title, self.done),
            None => format!("{}  {}", self.title, self.done),
        };
        for (name, value) in &self.shown {
            // A poisoned value is reported by the loop's own reads.
            if let Ok(x) = value.to(rtx_core::DType::F64).item::<f64>() {
                text += &format!("  {name} {x:.4}");
            }
        }
        if let Some(total) = self.total.filter(|_| self.done > 0) {
            let left = self.started.elapsed().as_secs_f64() / self.done as f64 * total.saturating_sub(self.done) as f64;
            text += &format!("  {}:{:02} left", left as u64 / 60, left as u64 % 60);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts() {
        let bar = (0..3).progress("epoch 1");
        let meter = bar.meter.clone();
        assert_eq!(bar.map(|(_, x)| x).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(meter.0.borrow().text().starts_with("epoch 1  3/3"), "{}", meter.0.borrow().text());
    }
}

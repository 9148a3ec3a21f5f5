//! candle's and burn's side of `cargo xtask bench crates`: times one row per line read, prints milliseconds.
//!
//! A line is `NAME ITERATIONS`; `RTX_PEER_MODE` says whose side it is, `RAYON_NUM_THREADS` how many threads it has.
mod with_burn;
mod with_candle;

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
/// Something to run again and again.
type Work = Box<dyn FnMut() -> Result<()>>;

fn main() -> Result<()> {
    let make: fn(&str) -> Result<Option<Work>> = match std::env::var("RTX_PEER_MODE").as_deref() {
        Ok("candle") => with_candle::row,
        Ok("burn") => with_burn::row,
        _ => return Err("RTX_PEER_MODE is neither candle nor burn".into()),
    };
    // One row at a time: its rounds follow each other.
    let mut ready: Option<(String, Work)> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (name, iterations) = line.split_once(' ').ok_or("a line is a name and a number")?;
        let iterations: u32 = iterations.trim().parse()?;
        if ready.as_ref().is_none_or(|(known, _)| known != name) {
            ready = match make(name)? {
                Some(mut work) => {
                    (0..3).try_for_each(|_| work())?;
                    Some((name.to_owned(), work))
                }
                None => None,
            };
        }
        match &mut ready {
            Some((_, work)) => {
                let from = Instant::now();
                (0..iterations).try_for_each(|_| work())?;
                println!("{}", from.elapsed().as_secs_f64() * 1e3 / f64::from(iterations));
            }
            None => println!("-"),
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// `count` integers below `end`, in no order.
fn integers(count: i64, end: i64) -> Vec<i64> {
    (0..count).map(|i| i * 7919 % end).collect()
}

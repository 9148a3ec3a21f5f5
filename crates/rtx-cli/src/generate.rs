//! `rtx generate`: continues a prompt with a run's latest model.
use crate::args;
use crate::gpt::Gpt;
use crate::job;
use crate::report::print_now;
use crate::run_folder::Found;
use crate::settings::Task;
use rustytorch::data::{Stream, Sums};
use rustytorch::{self as torch, Kind, prelude::*};
use std::io::Write;

/// What the stream that draws bytes is for.
const PURPOSE: u32 = 2;

/// Generates.
///
/// # Errors
/// With one sentence, when there is no run, no checkpoint, or no such prompt.
pub fn generate(args: &args::Generate) -> Result<()> {
    if let Some(n) = args.threads {
        torch::set_num_threads(n);
    }
    if !(args.temperature.is_finite() && args.temperature >= 0.0) {
        let what = format!("--temperature must be 0 at least, not {}", args.temperature);
        return Err(Error::new(Kind::Argument, what));
    }
    let found = Found::at(&args.run)?;
    let model = job::model(&found.settings);
    model.load(found.checkpoint.join("model.safetensors"))?;
    model.eval();
    match found.settings.task {
        Task::Sums => {
            let (written, number) = answer(&model, &args.prompt)?;
            let prompt = args.prompt.trim().trim_end_matches('=');
            print_now(&format!("{prompt}={written}   (backwards: {number})\n"));
        }
        Task::Text => {
            let prompt = if args.prompt.is_empty() { "\n" } else { &args.prompt };
            print_now(prompt);
            let draw = Draw { temperature: args.temperature, seed: args.seed, length: args.length };
            let mut out = std::io::stdout().lock();
            // Bytes as they come; a reader that goes away is no mistake of ours.
            continue_text(&model, prompt.as_bytes(), &draw, |byte| {
                let _ = out.write_all(&[byte]).and_then(|()| out.flush());
            })?;
            let _ = out.write_all(b"\n");
        }
    }
    Ok(())
}

/// What the model writes after a sum, and the number that it means.
///
/// # Errors
/// When the prompt is no sum, or the work fails.
pub fn answer(model: &Gpt, prompt: &str) -> Result<(String, String)> {
    let mut ids = Sums::prompt(prompt)?;
    let mut decoder = model.decoder();
    let mut logits = decoder.prompt(&ids)?;
    for i in 1..=Sums::ANSWER {
        ids.push(most_likely(&logits));
        if i < Sums::ANSWER {
            logits = decoder.next(&ids)?;
        }
    }
    let answer = &ids[Sums::PROMPT..];
    Ok((Sums::text(answer), Sums::read_answer(answer)))
}

/// How bytes are drawn.
pub struct Draw {
    /// 0 takes the most likely byte.
    pub temperature: f64,
    /// Seed of the draw.
    pub seed: u64,
    /// How many bytes.
    pub length: usize,
}

/// Gives `see` one byte after the other.
///
/// # Errors
/// When the work fails.
pub fn continue_text(model: &Gpt, prompt: &[u8], draw: &Draw, mut see: impl FnMut(u8)) -> Result<()> {
    let mut ids: Vec<i64> = prompt.iter().map(|&b| i64::from(b)).collect();
    let mut stream = Stream::new(draw.seed, PURPOSE, 0, 0);
    let mut decoder = model.decoder();
    let mut logits = decoder.prompt(&ids)?;
    for i in 1..=draw.length {
        let next =
            if draw.temperature > 0.0 { sample(&logits, draw.temperature, &mut stream) } else { most_likely(&logits) };
        see(next as u8);
        ids.push(next);
        if i < draw.length {
            logits = decoder.next(&ids)?;
        }
    }
    Ok(())
}

fn most_likely(logits: &[f32]) -> i64 {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    best.map_or(0, |(i, _)| i as i64)
}

/// Draws from softmax(logits / temperature).
fn sample(logits: &[f32], temperature: f64, stream: &mut Stream) -> i64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&x| (f64::from(x - most) / temperature).exp()).collect();
    let mut left = f64::from(stream.unit()) * weights.iter().sum::<f64>();
    for (i, w) in weights.iter().enumerate() {
        left -= w;
        if left < 0.0 {
            return i as i64;
        }
    }
    most_likely(logits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_follows_the_weights() {
        let logits = [0.0, f32::NEG_INFINITY, 2f32.ln()];
        let mut stream = Stream::new(1, PURPOSE, 0, 0);
        let mut counts = [0; 3];
        (0..3000).for_each(|_| counts[sample(&logits, 1.0, &mut stream) as usize] += 1);
        assert_eq!(counts[1], 0);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
        assert_eq!(sample(&logits, 0.01, &mut stream), 2);
        assert_eq!(most_likely(&[1.0, 3.0, 3.0]), 1);
    }
}

//! `rtx generate`: continues a prompt with a run's latest model.
use crate::args;
use crate::gpt::Gpt;
use crate::job;
use crate::report::print_now;
use crate::run_folder::Found;
pub use crate::sampler::Draw;
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
    let draw = check_draw(args)?;
    let found = Found::at(&args.run)?;
    let state = found.checkpoint()?;
    let model = job::gpt(&found.settings).map_err(|e| Error::new(e.kind(), format!("{}: {e}", args.run.display())))?;
    found.load(&state, &model)?;
    model.eval();
    match found.settings.task {
        Task::Sums => {
            let (written, number) = answer(&model, &args.prompt)?;
            let prompt = args.prompt.trim().trim_end_matches('=');
            print_now(&format!("{prompt}={written}   (backwards: {number})\n"));
        }
        Task::Text | Task::Fashion => {
            let prompt = if args.prompt.is_empty() { "\n" } else { &args.prompt };
            print_now(prompt);
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

fn check_draw(args: &args::Generate) -> Result<Draw> {
    let args::Generate { temperature, top_k, top_p, repetition_penalty, seed, length, .. } = *args;
    let bad = |what: String| Err(Error::new(Kind::Argument, what));
    if !(temperature.is_finite() && temperature >= 0.0) {
        return bad(format!("--temperature must be 0 at least, not {temperature}"));
    }
    if top_k == Some(0) {
        return bad("--top-k must be 1 at least".to_owned());
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return bad(format!("--top-p must be above 0 and 1 at most, not {top_p}"));
    }
    if !(repetition_penalty.is_finite() && repetition_penalty > 0.0) {
        return bad(format!("--repetition-penalty must be above 0, not {repetition_penalty}"));
    }
    Ok(Draw { temperature, top_k, top_p, repetition_penalty, seed, length })
}

/// What the model writes after a sum, and the number that it means.
///
/// # Errors
/// When the prompt is no sum, or the work fails.
pub fn answer(model: &Gpt, prompt: &str) -> Result<(String, String)> {
    let draw = Draw { temperature: 0.0, ..Draw::default() };
    let mut stream = Stream::new(draw.seed, PURPOSE, 0, 0);
    let mut ids = Sums::prompt(prompt)?;
    let mut decoder = model.decoder();
    let mut logits = decoder.prompt(&ids)?;
    for i in 1..=Sums::ANSWER {
        ids.push(draw.next(&logits, &ids, &mut stream));
        if i < Sums::ANSWER {
            logits = decoder.next(&ids)?;
        }
    }
    let answer = &ids[Sums::PROMPT..];
    Ok((Sums::text(answer), Sums::read_answer(answer)))
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
        let next = draw.next(&logits, &ids, &mut stream);
        see(next as u8);
        ids.push(next);
        if i < draw.length {
            logits = decoder.next(&ids)?;
        }
    }
    Ok(())
}

//! How the next token is drawn from logits: penalty, temperature, top-k, top-p, in this order.
use rustytorch::data::Stream;

/// Tokens back that a repetition counts.
const RECENT: usize = 64;

/// How tokens are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// 0 takes the most likely token.
    pub temperature: f64,
    /// Only the most likely so many; `None`: all.
    pub top_k: Option<usize>,
    /// Only the fewest whose probabilities sum to this; 1: all.
    pub top_p: f64,
    /// Above 1, tokens of late become less likely: positive logits are divided by it, negative ones multiplied
    /// (Keskar et al., CTRL, 2019, section 4.1).
    pub repetition_penalty: f64,
    /// Seed of the draw.
    pub seed: u64,
    /// How many.
    pub length: usize,
}

impl Default for Draw {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: 1.0, repetition_penalty: 1.0, seed: 1, length: 0 }
    }
}

impl Draw {
    /// The token after `ids`.
    pub fn next(&self, logits: &[f32], ids: &[i64], stream: &mut Stream) -> i64 {
        let mut scores: Vec<f64> = logits.iter().map(|x| f64::from(*x)).collect();
        if self.repetition_penalty != 1.0 {
            self.penalize(&mut scores, ids);
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let Some(&best) = order.first() else { return 0 };
        if self.temperature == 0.0 {
            return best as i64;
        }
        order.truncate(self.top_k.unwrap_or(usize::MAX).max(1));
        let weight = |i: usize| ((scores[i] - scores[best]) / self.temperature).exp();
        let weights: Vec<f64> = order.iter().map(|i| weight(*i)).collect();
        let kept = self.nucleus(&weights);
        let mut left = f64::from(stream.unit()) * weights[..kept].iter().sum::<f64>();
        for (i, w) in order[..kept].iter().zip(&weights) {
            left -= w;
            if left < 0.0 {
                return *i as i64;
            }
        }
        best as i64
    }

    fn penalize(&self, scores: &mut [f64], ids: &[i64]) {
        let mut recent = ids[ids.len().saturating_sub(RECENT)..].to_vec();
        recent.sort_unstable();
        recent.dedup();
        for id in recent {
            if let Some(score) = scores.get_mut(id as usize) {
                *score = if *score > 0.0 { *score / self.repetition_penalty } else { *score * self.repetition_penalty };
            }
        }
    }

    /// How many of the weights, which fall, are kept: one at least.
    fn nucleus(&self, weights: &[f64]) -> usize {
        if self.top_p >= 1.0 {
            return weights.len();
        }
        let wanted = self.top_p * weights.iter().sum::<f64>();
        let mut sum = 0.0;
        let reached = weights.iter().position(|w| {
            sum += w;
            sum >= wanted
        });
        reached.map_or(weights.len(), |i| i + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of three tokens is drawn of 3,000, with probabilities 1/6, 2/6, 3/6.
    fn counts(draw: Draw) -> [usize; 3] {
        let logits = [1f32.ln(), 2f32.ln(), 3f32.ln()];
        let mut stream = Stream::new(1, 0, 0, 0);
        let mut counts = [0; 3];
        (0..3000).for_each(|_| counts[draw.next(&logits, &[], &mut stream) as usize] += 1);
        counts
    }

    #[test]
    fn drawing_follows_the_weights() {
        let close = |got: [usize; 3], want: [usize; 3]| {
            assert!(got.iter().zip(want).all(|(g, w)| g.abs_diff(w) < 90), "{got:?} is not near {want:?}");
        };
        close(counts(Draw::default()), [500, 1000, 1500]);
        close(counts(Draw { temperature: 0.5, ..Draw::default() }), [214, 857, 1929]);
        assert_eq!(counts(Draw { temperature: 0.0, ..Draw::default() }), [0, 0, 3000]);
        close(counts(Draw { top_k: Some(2), ..Draw::default() }), [0, 1200, 1800]);
        assert_eq!(counts(Draw { top_k: Some(1), ..Draw::default() }), [0, 0, 3000]);
        close(counts(Draw { top_p: 0.8, ..Draw::default() }), [0, 1200, 1800]);
        assert_eq!(counts(Draw { top_p: 0.4, ..Draw::default() }), [0, 0, 3000]);
        close(counts(Draw { top_k: Some(9), top_p: 0.9, ..Draw::default() }), [500, 1000, 1500]);
    }

    #[test]
    fn what_was_said_becomes_less_likely() {
        let draw = Draw { temperature: 0.0, repetition_penalty: 2.0, ..Draw::default() };
        let mut stream = Stream::new(1, 0, 0, 0);
        assert_eq!(draw.next(&[3.0, 2.0, -1.0], &[0], &mut stream), 1);
        assert_eq!(draw.next(&[-1.5, -1.0, -2.5], &[1], &mut stream), 0);
        assert_eq!(draw.next(&[3.0, 2.0, -1.0], &[], &mut stream), 0);
        let long_ago: Vec<i64> = [vec![0], vec![2; RECENT]].concat();
        assert_eq!(draw.next(&[3.0, 2.0, -1.0], &long_ago, &mut stream), 0);
    }
}

//! The cells' formulas, sixteen units at a time: the ops of the bodies, one rounding each.
use super::Layer;
use crate::row::{LANES, Real};

/// What a layer does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Cell {
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "lstm" => Self::Lstm,
            "gru" => Self::Gru,
            "tanh" => Self::Tanh,
            "relu" => Self::Relu,
            _ => return None,
        })
    }
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Tanh | Self::Relu => 1,
        }
    }
}

type Lanes<T> = [T; LANES];

/// `1 / (e⁻ˣ + 1)`.
#[inline(always)]
fn sigmoid<T: Real>(x: T) -> T {
    T::ONE / ((T::MINUS_ONE * x).exp() + T::ONE)
}

/// `f` of each lane.
#[inline(always)]
fn lanes<T: Real>(f: impl Fn(usize) -> T) -> Lanes<T> {
    let mut out = [T::ZERO; LANES];
    for (l, x) in out.iter_mut().enumerate() {
        *x = f(l);
    }
    out
}

impl<T: Real> Layer<T> {
    #[inline(always)]
    pub(super) unsafe fn lstm_forward(&self, i: usize, step: usize, b: usize, j: usize, n: usize) {
        let (x, own, h) = (self.operands[0].at(step, b), self.products_of(b), self.units);
        // SAFETY: the caller's promise, here and below.
        unsafe {
            let pre = |k: usize| {
                let (own, x) = (own.load(k * h + j, n), x.load(k * h + j, n));
                lanes(|l| own[l] + x[l])
            };
            let (pi, pf, pg, po) = (pre(0), pre(1), pre(2), pre(3));
            let last = match i.checked_sub(1) {
                None => self.state_of(1, b).load(j, n),
                Some(i) => self.results[1].at(self.step(i), b).load(j, n),
            };
            let (i, f, o) = (lanes(|l| sigmoid(pi[l])), lanes(|l| sigmoid(pf[l])), lanes(|l| sigmoid(po[l])));
            let g = lanes(|l| pg[l].tanh());
            let c = lanes(|l| f[l] * last[l] + i[l] * g[l]);
            let level = lanes(|l| c[l].tanh());
            self.results[1].at(step, b).store(j, n, c);
            self.results[0].at(step, b).store(j, n, lanes(|l| o[l] * level[l]));
        }
    }

    #[inline(always)]
    pub(super) unsafe fn lstm_backward(&self, step: usize, b: usize, j: usize, n: usize) {
        let one = T::ONE;
        let (used, h) = (self.operands[0].at(step, b), self.units);
        // SAFETY: as above.
        unsafe {
            let (i, f) = (used.load(j, n), used.load(h + j, n));
            let (g, o) = (used.load(2 * h + j, n), used.load(3 * h + j, n));
            let (cell, last) = (self.operands[1].at(step, b).load(j, n), self.operands[2].at(step, b).load(j, n));
            let (more_h, more_c) = (self.operands[3].at(step, b).load(j, n), self.operands[4].at(step, b).load(j, n));
            let (dh, dc) = (self.products_of(b).load(j, n), self.state_of(1, b).load(j, n));
            let level = lanes(|l| cell[l].tanh());
            let th = lanes(|l| dh[l] + more_h[l]);
            let tc = lanes(|l| th[l] * o[l] * (one - level[l] * level[l]) + (dc[l] + more_c[l]));
            let slopes = self.results[0].at(step, b);
            slopes.store(j, n, lanes(|l| tc[l] * g[l] * (i[l] * (one - i[l]))));
            slopes.store(h + j, n, lanes(|l| tc[l] * last[l] * (f[l] * (one - f[l]))));
            slopes.store(2 * h + j, n, lanes(|l| tc[l] * i[l] * (one - g[l] * g[l])));
            slopes.store(3 * h + j, n, lanes(|l| th[l] * level[l] * (o[l] * (one - o[l]))));
            self.state_of(1, b).store(j, n, lanes(|l| tc[l] * f[l]));
        }
    }

    #[inline(always)]
    pub(super) unsafe fn gru_forward(&self, i: usize, step: usize, b: usize, j: usize, n: usize) {
        let (x, products, h) = (self.operands[0].at(step, b), self.products_of(b), self.units);
        let bias = self.operands[2].at(0, b);
        // SAFETY: as above.
        unsafe {
            let own = |k: usize| {
                let (own, bias) = (products.load(k * h + j, n), bias.load(k * h + j, n));
                lanes(|l| own[l] + bias[l])
            };
            let (own_r, own_z, own_n) = (own(0), own(1), own(2));
            let (x_r, x_z, x_n) = (x.load(j, n), x.load(h + j, n), x.load(2 * h + j, n));
            let last = match i.checked_sub(1) {
                None => self.state_of(0, b).load(j, n),
                Some(i) => self.results[0].at(self.step(i), b).load(j, n),
            };
            let (r, z) = (lanes(|l| sigmoid(x_r[l] + own_r[l])), lanes(|l| sigmoid(x_z[l] + own_z[l])));
            let new = lanes(|l| (r[l] * own_n[l] + x_n[l]).tanh());
            self.results[0].at(step, b).store(j, n, lanes(|l| (last[l] - new[l]) * z[l] + new[l]));
        }
    }

    #[inline(always)]
    pub(super) unsafe fn gru_backward(&self, step: usize, b: usize, j: usize, n: usize) {
        let one = T::ONE;
        let (used, h) = (self.operands[0].at(step, b), self.units);
        // SAFETY: as above.
        unsafe {
            let (r, z, new) = (used.load(j, n), used.load(h + j, n), used.load(2 * h + j, n));
            let (own, last) = (self.operands[1].at(step, b).load(j, n), self.operands[2].at(step, b).load(j, n));
            let more = self.operands[3].at(step, b).load(j, n);
            let (kept, through) = (self.state_of(0, b).load(j, n), self.products_of(b).load(j, n));
            let total = lanes(|l| (kept[l] + through[l]) + more[l]);
            let dn = lanes(|l| total[l] * (one - z[l]) * (one - new[l] * new[l]));
            let dz = lanes(|l| total[l] * (last[l] - new[l]) * (z[l] * (one - z[l])));
            let dr = lanes(|l| dn[l] * own[l] * (r[l] * (one - r[l])));
            let (slopes, own_slopes) = (self.results[0].at(step, b), self.results[1].at(step, b));
            for to in [slopes, own_slopes] {
                to.store(j, n, dr);
                to.store(h + j, n, dz);
            }
            slopes.store(2 * h + j, n, dn);
            own_slopes.store(2 * h + j, n, lanes(|l| dn[l] * r[l]));
            self.state_of(0, b).store(j, n, lanes(|l| total[l] * z[l]));
        }
    }

    #[inline(always)]
    pub(super) unsafe fn plain_forward(&self, step: usize, b: usize, j: usize, n: usize) {
        // SAFETY: as above.
        unsafe {
            let (own, x) = (self.products_of(b).load(j, n), self.operands[0].at(step, b).load(j, n));
            let pre = lanes(|l| own[l] + x[l]);
            let next = match self.settings.cell {
                Cell::Relu => lanes(|l| if pre[l] <= T::ZERO { T::ZERO } else { pre[l] }),
                _ => lanes(|l| pre[l].tanh()),
            };
            self.results[0].at(step, b).store(j, n, next);
        }
    }

    #[inline(always)]
    pub(super) unsafe fn plain_backward(&self, step: usize, b: usize, j: usize, n: usize) {
        // SAFETY: as above.
        unsafe {
            let (h, more) = (self.operands[0].at(step, b).load(j, n), self.operands[1].at(step, b).load(j, n));
            let through = self.products_of(b).load(j, n);
            let total = lanes(|l| through[l] + more[l]);
            let slope = match self.settings.cell {
                Cell::Relu => lanes(|l| if h[l] <= T::ZERO { T::ZERO } else { total[l] }),
                _ => lanes(|l| total[l] * (T::ONE - h[l] * h[l])),
            };
            self.results[0].at(step, b).store(j, n, slope);
        }
    }
}

//! `loss.svg`: a loss curve and a score, drawn without fonts or libraries.
use std::fmt::Write;

/// The picture's size.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Room for the labels: left, right, top, bottom.
const MARGIN: [f64; 4] = [64.0, 56.0, 44.0, 44.0];

/// One line of the picture.
pub struct Curve<'a> {
    /// What it is.
    pub name: &'a str,
    /// `(step, value)`.
    pub points: Vec<(f64, f64)>,
    /// The axis: 0 to the largest value on the left, or 0 to 100 % on the right.
    pub axis: Axis,
}

/// Which axis a curve belongs to.
#[derive(Clone, Copy, PartialEq)]
pub enum Axis {
    /// Numbers on the left, from 0.
    Left,
    /// Per cent on the right.
    Percent,
}

/// The picture as SVG text.
pub fn draw(title: &str, curves: &[Curve<'_>]) -> String {
    let most = |f: fn(&(f64, f64)) -> f64, axis: Option<Axis>| {
        let shown = curves.iter().filter(|c| axis.is_none_or(|a| a == c.axis));
        shown.flat_map(|c| &c.points).map(f).filter(|x| x.is_finite()).fold(0.0, f64::max)
    };
    let (x_step, x_max) = ticks(most(|p| p.0, None));
    let (y_step, y_max) = ticks(most(|p| p.1, Some(Axis::Left)));
    let [left, right, top, bottom] = MARGIN;
    let x = |v: f64| left + v / x_max * (WIDTH - left - right);
    let y = |v: f64, axis: Axis| {
        let full = if axis == Axis::Percent { 1.0 } else { y_max };
        HEIGHT - bottom - (v / full).clamp(0.0, 1.0) * (HEIGHT - top - bottom)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#444\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, left, 24.0, "start", "#111", title);
    for i in 0..=(y_max / y_step).round() as usize {
        let (value, at) = (i as f64 * y_step, y(i as f64 * y_step, Axis::Left));
        line(&mut svg, [left, at, WIDTH - right, at], "#e4e4e4");
        text(&mut svg, left - 8.0, at + 4.0, "end", "#444", &short(value));
    }
    for i in 0..=(x_max / x_step).round() as usize {
        let value = i as f64 * x_step;
        text(&mut svg, x(value), HEIGHT - bottom + 18.0, "middle", "#444", &short(value));
    }
    text(&mut svg, (left + WIDTH - right) / 2.0, HEIGHT - 8.0, "middle", "#444", "step");
    if curves.iter().any(|c| c.axis == Axis::Percent) {
        for percent in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let label = format!("{:.0} %", percent * 100.0);
            text(&mut svg, WIDTH - right + 8.0, y(percent, Axis::Percent) + 4.0, "start", COLORS[1], &label);
        }
    }
    for (i, curve) in curves.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let points = curve.points.iter().filter(|p| p.1.is_finite());
        let path: Vec<String> = points.map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1, curve.axis))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.8\" stroke-linejoin=\"round\" points=\"{}\"/>",
            path.join(" ")
        );
    }
    // Names above the picture, from the right, each as wide as its letters.
    let mut end = WIDTH - right;
    for (i, curve) in curves.iter().enumerate().rev() {
        text(&mut svg, end, 24.0, "end", COLORS[i % COLORS.len()], curve.name);
        end -= 7.0 * curve.name.len() as f64 + 16.0;
    }
    svg + "</svg>\n"
}

const COLORS: [&str; 3] = ["#1f6fb2", "#c2571a", "#2e8540"];

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, color: &str, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{what}</text>");
}

fn line(svg: &mut String, [x1, y1, x2, y2]: [f64; 4], color: &str) {
    let _ = writeln!(svg, "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{color}\"/>");
}

/// A round step (1, 2 or 5 times a power of ten) and the multiple of it at or above `most`: three to seven steps.
fn ticks(most: f64) -> (f64, f64) {
    if most <= 0.0 {
        return (1.0, 1.0);
    }
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| most / s <= 6.0).unwrap_or(10.0 * power);
    (step, (most / step).ceil() * step)
}

fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(2.8), (0.5, 3.0));
        assert_eq!(ticks(400.0), (100.0, 400.0));
        assert_eq!(ticks(0.0), (1.0, 1.0));
        assert_eq!(short(0.5), "0.5");
        assert_eq!(short(400.0), "400");
    }

    #[test]
    fn a_picture_has_one_line_a_curve() {
        let loss = vec![(0.0, 2.5), (50.0, f64::NAN), (100.0, 0.5)];
        let exact = vec![(50.0, 0.1), (100.0, 0.9)];
        let svg = draw(
            "sums & more",
            &[
                Curve { name: "loss", points: loss, axis: Axis::Left },
                Curve { name: "exact", points: exact, axis: Axis::Percent },
            ],
        );
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("sums &amp; more") && !svg.contains("NaN"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}

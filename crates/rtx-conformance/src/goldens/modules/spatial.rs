//! Convolutions, pools and norms of channels by their class names.
use super::build::{Found, layer, when};
use super::*;

macro_rules! convolution {
    ($T:ident, $a:ident, $transposed:literal) => {{
        let kernel = $a.ints(2, "kernel_size").unwrap_or_default();
        let built = nn::$T::new($a.size(0, "in_channels")?, $a.size(1, "out_channels")?, kernel);
        let at = |plain: usize, transposed: usize| if $transposed { transposed } else { plain };
        let built = match $a.int(6, "groups") {
            Some(groups) if groups > 1 => built.groups(usize::try_from(groups).unwrap_or(1)),
            _ => built,
        };
        let built = set(built, $a.ints(3, "stride"), |l, v| l.stride(v));
        let built = set(built, $a.ints(4, "padding"), |l, v| l.padding(v));
        let built = set(built, $a.ints(at(5, 8), "dilation"), |l, v| l.dilation(v));
        let built =
            if $transposed { set(built, $a.ints(5, "output_padding"), |l, v| l.output_padding(v)) } else { built };
        layer(when(!$a.flag(7, "bias", true), built, |l| l.no_bias()))
    }};
}
macro_rules! windows {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.ints(0, "kernel_size").unwrap_or_default());
        let built = set(built, $a.ints(1, "stride"), |l, v| l.stride(v));
        set(built, $a.ints(2, "padding"), |l, v| l.padding(v))
    }};
}
macro_rules! pool {
    ($T:ident, $a:ident, max) => {{
        let built = windows!($T, $a);
        let built = set(built, $a.ints(3, "dilation"), |l, v| l.dilation(v));
        layer(when($a.flag(5, "ceil_mode", false), built, |l| l.ceil_mode(true)))
    }};
    ($T:ident, $a:ident, mean) => {{
        let built = windows!($T, $a);
        let built = when($a.flag(3, "ceil_mode", false), built, |l| l.ceil_mode(true));
        when(!$a.flag(4, "count_include_pad", true), built, |l| l.count_include_pad(false))
    }};
}
macro_rules! batch_norm {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.size(0, "num_features")?).eps($a.float_or(1, "eps", 1e-5));
        let built = built.momentum($a.float_or(2, "momentum", 0.1));
        layer(when(!$a.flag(3, "affine", true), built, |l| l.no_affine()))
    }};
}

/// `x` with a setting where it is given.
fn set<T, V>(x: T, value: Option<V>, set: impl FnOnce(T, V) -> T) -> T {
    match value {
        Some(v) => set(x, v),
        None => x,
    }
}

pub(super) fn spatial(name: &str, a: &mut Arguments, _: &Inputs<'_>) -> Option<Found> {
    made(name, a).transpose()
}

fn made(name: &str, a: &mut Arguments) -> Result<Option<Box<dyn super::build::Built>>> {
    let size = |a: &mut Arguments| a.ints(0, "output_size").unwrap_or_default();
    let built = match name {
        "Conv1d" => convolution!(Conv1d, a, false),
        "Conv2d" => convolution!(Conv2d, a, false),
        "Conv3d" => convolution!(Conv3d, a, false),
        "ConvTranspose1d" => convolution!(ConvTranspose1d, a, true),
        "ConvTranspose2d" => convolution!(ConvTranspose2d, a, true),
        "ConvTranspose3d" => convolution!(ConvTranspose3d, a, true),
        "MaxPool1d" => pool!(MaxPool1d, a, max),
        "MaxPool2d" => pool!(MaxPool2d, a, max),
        "MaxPool3d" => pool!(MaxPool3d, a, max),
        "AvgPool1d" => layer(pool!(AvgPool1d, a, mean)),
        "AvgPool2d" => {
            let built = pool!(AvgPool2d, a, mean);
            layer(set(built, a.int(5, "divisor_override"), |l, n| l.divisor_override(Some(n))))
        }
        "AvgPool3d" => {
            let built = pool!(AvgPool3d, a, mean);
            layer(set(built, a.int(5, "divisor_override"), |l, n| l.divisor_override(Some(n))))
        }
        "AdaptiveAvgPool1d" => layer(nn::AdaptiveAvgPool1d::new(size(a))),
        "AdaptiveAvgPool2d" => layer(nn::AdaptiveAvgPool2d::new(size(a))),
        "AdaptiveAvgPool3d" => layer(nn::AdaptiveAvgPool3d::new(size(a))),
        "AdaptiveMaxPool1d" => layer(nn::AdaptiveMaxPool1d::new(size(a))),
        "AdaptiveMaxPool2d" => layer(nn::AdaptiveMaxPool2d::new(size(a))),
        "AdaptiveMaxPool3d" => layer(nn::AdaptiveMaxPool3d::new(size(a))),
        "BatchNorm1d" => batch_norm!(BatchNorm1d, a),
        "BatchNorm2d" => batch_norm!(BatchNorm2d, a),
        "BatchNorm3d" => batch_norm!(BatchNorm3d, a),
        "GroupNorm" => {
            let built = nn::GroupNorm::new(a.size(0, "num_groups")?, a.size(1, "num_channels")?);
            let built = built.eps(a.float_or(2, "eps", 1e-5));
            layer(when(!a.flag(3, "affine", true), built, |l| l.no_affine()))
        }
        _ => return Ok(None),
    };
    built.map(Some)
}

//! Layers' values against hand calculation; files; the cache against the whole.
use rtx_nn::*;
use rtx_tensor::{self as torch, Tensor, no_grad};

fn close(a: &Tensor, want: &[f32], tolerance: f32) {
    let got = a.to_vec::<f32>().expect("runs");
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance, "{got:?} is not {want:?}");
    }
}

#[test]
fn linear_and_norm_by_hand() {
    let x = torch::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2]);
    let layer = Linear::new(2, 1);
    init::constant_(&layer.weight, 0.5);
    init::constant_(layer.bias.as_ref().expect("has one"), 1.0);
    close(&layer.forward(&x), &[2.5, 4.5], 1e-6);
    close(&LayerNorm::new(2).forward(&x), &[-0.99998, 0.99998, -0.99998, 0.99998], 1e-4);
    let rows = Embedding::new(3, 2);
    rows.weight.set_data(&torch::from_slice(&[0f32, 1.0, 10.0, 11.0, 20.0, 21.0], [3, 2]));
    close(&rows.forward(&torch::from_slice(&[2i64, 0], 2)), &[20.0, 21.0, 0.0, 1.0], 0.0);
}

#[test]
fn first_values_lie_where_pytorch_puts_them() {
    torch::manual_seed(3);
    let weights = Linear::new(16, 64).weight.to_vec::<f32>().expect("runs");
    assert!(weights.iter().all(|w| w.abs() <= 0.25), "within 1/√16");
    assert!(weights.iter().any(|w| w.abs() > 0.2));
    let table = Embedding::new(64, 64).weight.to_vec::<f32>().expect("runs");
    let variance = table.iter().map(|w| w * w).sum::<f32>() / table.len() as f32;
    assert!((variance - 1.0).abs() < 0.1, "{variance}");
}

#[test]
fn clipping_scales_the_common_norm() {
    let params = [Param::new(torch::zeros(2)), Param::new(torch::zeros(1))];
    params[0].set_grad(Some(torch::from_slice(&[3f32, 0.0], 2)));
    params[1].set_grad(Some(torch::from_slice(&[4f32], 1)));
    let norm = clip_grad_norm_(&params, 1.0);
    close(&norm, &[5.0], 1e-6);
    close(&params[0].grad().expect("has one"), &[0.6, 0.0], 1e-6);
    close(&clip_grad_norm_(&params, 10.0), &[1.0], 1e-5);
    close(&params[1].grad().expect("has one"), &[0.8], 1e-6);
}

#[test]
fn dropout_keeps_the_mean() {
    torch::manual_seed(5);
    let y = Dropout::new(0.25).forward(&torch::ones(4000)).to_vec::<f32>().expect("runs");
    let zeros = y.iter().filter(|&&v| v == 0.0).count();
    assert!((900..1100).contains(&zeros), "{zeros} of 4000 are dropped");
    assert!(y.iter().all(|&v| v == 0.0 || (v - 4.0 / 3.0).abs() < 1e-6));
}

#[test]
fn a_model_comes_back_from_its_file() {
    let path = std::env::temp_dir().join(format!("rtx-nn-model-{}.safetensors", std::process::id()));
    let (a, b) = (seq![Linear::new(3, 4), ReLU, Linear::new(4, 2)], seq![Linear::new(3, 4), ReLU, Linear::new(4, 2)]);
    a.save(&path).expect("saves");
    b.load(&path).expect("loads");
    let x = torch::ones([1, 3]);
    assert_eq!(a.forward(&x).to_vec::<f32>().expect("runs"), b.forward(&x).to_vec::<f32>().expect("runs"));
    let e = seq![Linear::new(3, 5)].load(&path).expect_err("another architecture");
    assert!(e.message().starts_with("load_state_dict: file and model differ\n"), "{e}");
    let _ = std::fs::remove_file(&path);
    assert!(a.load(&path).expect_err("gone").message().contains(": cannot read: "));
}

#[test]
fn decoding_with_a_cache_is_the_whole_attention() {
    torch::manual_seed(7);
    let (width, heads, time) = (8, 2, 6);
    let attention = CausalSelfAttention::new(width, heads);
    let x = torch::randn((1, time, width));
    no_grad(|| {
        let whole = attention.forward(&x).to_vec::<f32>().expect("runs");
        let cache = attention.cache(1, time);
        let prompt = 2;
        let mut got = attention.forward_cached(&x.narrow(1, 0, prompt), &cache, 0).to_vec::<f32>().expect("runs");
        for start in prompt..time {
            let row = attention.forward_cached(&x.narrow(1, start, 1), &cache, start);
            got.extend(row.to_vec::<f32>().expect("runs"));
        }
        for (g, w) in got.iter().zip(&whole) {
            assert!((g - w).abs() < 1e-5, "{got:?} is not {whole:?}");
        }
        assert_eq!(cache.capacity(), time);
    });
}

#[test]
fn bags_of_any_size() {
    let bag = EmbeddingBag::new(3, 2).mode(BagMode::Sum);
    bag.weight.set_data(&torch::from_slice(&[0f32, 1.0, 10.0, 11.0, 20.0, 21.0], [3, 2]));
    let (ids, offsets) = (torch::from_slice(&[1i64, 2, 0, 1], 4), torch::from_slice(&[0i64, 3, 3], 3));
    let bags = Bags { offsets: Some(&offsets), weights: None };
    close(&bag.forward_with(&ids, bags), &[30.0, 33.0, 0.0, 0.0, 10.0, 11.0], 0.0);
    let weights = torch::from_slice(&[1f32, 2.0, 3.0, 0.5], 4);
    let weighted = Bags { weights: Some(&weights), ..bags };
    close(&bag.forward_with(&ids, weighted), &[50.0, 56.0, 0.0, 0.0, 5.0, 5.5], 0.0);
    let bag = bag.mode(BagMode::Max).include_last_offset();
    close(&bag.forward_with(&ids, bags), &[20.0, 21.0, 0.0, 0.0], 0.0);
    let bag = bag.mode(BagMode::Mean).padding(1);
    close(&bag.forward(&torch::from_slice(&[1i64, 2, 0, 1], [2, 2])), &[20.0, 21.0, 0.0, 1.0], 0.0);
}

#[test]
fn a_form_of_two_vectors() {
    let layer = Bilinear::new(2, 2, 1);
    layer.weight.set_data(&torch::from_slice(&[1f32, 2.0, 3.0, 4.0], [1, 2, 2]));
    init::constant_(layer.bias.as_ref().expect("has one"), 1.0);
    let y = layer.forward(&torch::from_slice(&[1f32, 2.0], [1, 2]), &torch::from_slice(&[3f32, 4.0], [1, 2]));
    close(&y, &[62.0], 0.0);
}

#[test]
fn what_stands_around_a_convolution() {
    let x = torch::from_slice(&[1f32, 2.0, 3.0], [1, 1, 3]);
    let layer = |mode| {
        let layer = Conv1d::new(1, 1, 3).padding(1).padding_mode(mode).no_bias();
        init::constant_(&layer.weight, 1.0);
        layer
    };
    close(&layer(PaddingMode::Zeros).forward(&x), &[3.0, 6.0, 5.0], 0.0);
    close(&layer(PaddingMode::Circular).forward(&x), &[6.0, 6.0, 6.0], 0.0);
    close(&layer(PaddingMode::Replicate).same_padding().forward(&x), &[4.0, 6.0, 8.0], 0.0);
    close(&layer(PaddingMode::Reflect).forward(&x), &[5.0, 6.0, 7.0], 0.0);
}

#[test]
fn whole_channels_drop() {
    torch::manual_seed(9);
    let y = Dropout2d::new(0.5).forward(&torch::ones((8, 16, 2, 2))).to_vec::<f32>().expect("runs");
    assert!(y.chunks(4).all(|channel| channel.iter().all(|v| *v == channel[0])), "a channel is whole");
    let zeros = y.iter().filter(|v| **v == 0.0).count();
    assert!((128..384).contains(&zeros), "{zeros} of 512 are dropped");
    let x = torch::randn((64, 64));
    let y = AlphaDropout::new(0.3).forward(&x).to_vec::<f32>().expect("runs");
    let mean = y.iter().sum::<f32>() / y.len() as f32;
    let variance = y.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / y.len() as f32;
    assert!(mean.abs() < 0.1 && (variance - 1.0).abs() < 0.1, "mean {mean}, variance {variance}");
}

#[test]
fn attention_drops_weights_in_training_only() {
    torch::manual_seed(4);
    let attention = MultiheadAttention::new(8, 2).dropout(0.5);
    let x = torch::randn((6, 2, 8));
    let of = |y: Tensor| y.to_vec::<f32>().expect("runs");
    let (first, second) = (of(attention.forward(&x, &x, &x)), of(attention.forward(&x, &x, &x)));
    assert_ne!(first, second, "training");
    attention.eval();
    let whole = of(attention.forward(&x, &x, &x));
    assert_eq!(whole, of(attention.forward(&x, &x, &x)), "evaluation");
    let (written_out, _) = attention.forward_with_weights(&x, &x, &x, AttentionMasks::default());
    close(&written_out, &whole, 1e-5);
}

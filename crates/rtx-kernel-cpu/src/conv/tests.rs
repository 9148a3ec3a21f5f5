//! The text of a convolution and the shapes that it is computed in.
use super::*;

#[test]
fn texts_are_read_or_refused() {
    let (dtype, steps) = Steps::parse("f32 2 3 1 2 0 -1 1 1 4 5").expect("a convolution");
    assert_eq!((dtype, steps.spatial, steps.groups), (DType::F32, 2, 3));
    assert_eq!((steps.stride, steps.low), ([1, 1, 2], [0, 0, -1]));
    assert_eq!((steps.base, steps.dilation), ([1, 1, 1], [1, 4, 5]));
    for wrong in
        ["", "f32", "f32 0 1", "f32 1 0 1 0 1 1", "f32 1 1 0 0 1 1", "f32 1 1 1 0 1", "f32 4 1", "x 1 1 1 0 1 1"]
    {
        assert_eq!(Steps::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn windows_of_one_element_are_walked_in_one_line() {
    let (_, steps) = Steps::parse("f32 2 1 1 1 0 0 1 1 1 1").expect("a convolution");
    // n o c, 4 × 5 elements, windows of one, then the strides of x, w, y.
    let dense = [2, 3, 7, 4, 5, 1, 1, 4, 5, 140, 20, 5, 1, 7, 1, 1, 1, 60, 20, 1];
    assert_eq!(Shape::read(steps, &dense).size, [1, 1, 20]);
    let mut padded_rows = dense;
    padded_rows[11] = 6;
    assert_eq!(Shape::read(steps, &padded_rows).size, [1, 4, 5]);
}

/// Numbers below `end`, always the same ones.
struct Numbers(u64);
impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// A convolution of dense tensors.
#[derive(Debug)]
struct Case {
    spatial: usize,
    groups: usize,
    batch: usize,
    channels: usize,
    outs: usize,
    size: Vec<usize>,
    window: Vec<usize>,
    out: Vec<usize>,
    /// Stride, low padding, base and window dilation of each dim.
    steps: [Vec<isize>; 4],
}

impl Case {
    fn draw(r: &mut Numbers) -> Option<Self> {
        let (spatial, kind) = (1 + r.below(3), r.below(4));
        let groups = if r.below(2) == 0 { 1 } else { r.pick(&[2, 5, 19]) };
        let large = kind < 2;
        let mut case = Self {
            spatial,
            groups,
            batch: r.pick(&[1, 2, 3, 13]),
            channels: r.pick(&[1, 2, 5, 9]),
            outs: r.pick(&[1, 2, 3, 6, 8, 17, 33]),
            size: vec![],
            window: vec![],
            out: vec![],
            steps: Default::default(),
        };
        for _ in 0..spatial {
            let widest = if spatial == 3 { 6 } else { 22 };
            let size = if large { widest - r.below(6) } else { 1 + r.below(widest) };
            let window = if large { size.saturating_sub(r.below(4)).max(1) } else { 1 + r.below(3) };
            let plain = large || r.below(2) == 0;
            let [stride, base, dilation] = [0; 3].map(|_| if plain { 1 } else { 1 + r.below(3) as isize });
            let (low, high) = if r.below(3) == 0 { (0, 0) } else { (r.below(4) as isize - 1, r.below(4) as isize - 1) };
            let padded = (size as isize - 1) * base + 1 + low + high;
            let room = padded - ((window as isize - 1) * dilation + 1);
            if room < 0 {
                return None;
            }
            case.size.push(size);
            case.window.push(window);
            case.out.push((room / stride) as usize + 1);
            for (list, n) in case.steps.iter_mut().zip([stride, low, base, dilation]) {
                list.push(n);
            }
        }
        (case.work() < 800_000).then_some(case)
    }
    fn work(&self) -> usize {
        let all: usize = [&self.out, &self.window].iter().flat_map(|l| l.iter()).product();
        all * self.batch * self.groups * self.outs * self.channels
    }
    fn text(&self) -> String {
        let lists = self.steps.iter().flatten().map(|n| format!(" {n}")).collect::<String>();
        format!("conv f32 {} {}{lists}", self.spatial, self.groups)
    }
    /// Row-major strides of these sizes.
    fn dense(sizes: &[usize]) -> Vec<i64> {
        (0..sizes.len()).map(|i| sizes[i + 1..].iter().product::<usize>() as i64).collect()
    }
    /// What the module's doc says, one product after the other.
    fn plain(&self, x: &[f32], w: &[f32]) -> Vec<f32> {
        let product = |l: &[usize]| l.iter().product::<usize>();
        let at = |i: usize, sizes: &[usize]| -> Vec<usize> {
            (0..sizes.len()).map(|d| i / product(&sizes[d + 1..]) % sizes[d]).collect()
        };
        let (points, window, size) = (product(&self.out), product(&self.window), product(&self.size));
        let mut y = vec![];
        for i in 0..self.batch * self.groups * self.outs * points {
            let (n, o, p) =
                (i / points / (self.groups * self.outs), i / points % (self.groups * self.outs), i % points);
            let (group, point) = (o / self.outs, at(p, &self.out));
            let (mut sum, mut chunk) = (0.0f32, 0.0f32);
            let depth = self.channels * window;
            for k in 0..depth {
                let (c, tap) = (k / window, at(k % window, &self.window));
                let mut place = Some((n * self.groups + group) * self.channels + c).map(|i| i * size);
                for d in 0..self.spatial {
                    let [stride, low, base, dilation] = [0, 1, 2, 3].map(|l| self.steps[l][d]);
                    let position = point[d] as isize * stride + tap[d] as isize * dilation - low;
                    let step = product(&self.size[d + 1..]);
                    let i = pack::element(position, base, self.size[d]);
                    place = place.zip(i).map(|(at, i)| at + i as usize * step);
                }
                chunk = w[o * depth + k].mul_add(place.map_or(0.0, |i| x[i]), chunk);
                if k % CHUNK == CHUNK - 1 || k == depth - 1 {
                    sum = if k < CHUNK { chunk } else { sum + chunk };
                    chunk = 0.0;
                }
            }
            y.push(sum);
        }
        y
    }
    fn run(&self, x: &[f32], w: &[f32]) -> Vec<f32> {
        let device: Arc<dyn Device> = Arc::new(rtx_cpu::CpuDevice::new(crate::natives()));
        let source = rtx_hal::KernelSource { name: "conv".into(), lang: rtx_hal::Lang::Native, text: self.text() };
        let code = device.load(&source).expect("loads");
        let wide = |l: &[usize]| l.iter().map(|n| *n as i64).collect::<Vec<_>>();
        let full = |a: usize, b: usize, l: &[usize]| [&[a, b], l].concat();
        let points: usize = self.out.iter().product();
        let outs = self.groups * self.outs;
        let sizes = [
            vec![self.batch as i64, outs as i64, self.channels as i64],
            wide(&self.size),
            wide(&self.window),
            wide(&self.out),
            Self::dense(&full(self.batch, self.groups * self.channels, &self.size)),
            Self::dense(&full(outs, self.channels, &self.window)),
            vec![(outs * points) as i64, points as i64, 1],
        ]
        .concat();
        let mut y = vec![f32::NAN; self.batch * outs * points];
        let buffers = [x.as_ptr() as *mut u8, w.as_ptr() as *mut u8, y.as_mut_ptr().cast()];
        let error = rtx_hal::ErrorSlot::default();
        let launch = Launch { buffers: &buffers, sizes: &sizes, error: &error };
        // SAFETY: the buffers are what the sizes say.
        unsafe { device.launch(&*code, &launch) }.expect("runs");
        y
    }
    fn check(&self) {
        let mut r = Numbers(9);
        let mut drawn = |n: usize| (0..n).map(|_| r.below(2001) as f32 / 1000.0 - 1.0).collect::<Vec<f32>>();
        let size: usize = self.size.iter().product();
        let (x, w) = (
            drawn(self.batch * self.groups * self.channels * size),
            drawn(self.groups * self.outs * self.channels * self.window.iter().product::<usize>()),
        );
        let bits = |y: Vec<f32>| y.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let want = bits(self.plain(&x, &w));
        for isa in rtx_cpu::Isa::available() {
            for threads in [1, 2, 3] {
                rtx_cpu::set_isa(Some(isa));
                pool::set_threads(threads);
                assert!(bits(self.run(&x, &w)) == want, "{self:?}, {} with {threads} threads", isa.name());
            }
        }
        rtx_cpu::set_isa(None);
        pool::set_threads(0);
    }
}

#[test]
fn every_way_is_the_plain_sum() {
    let mut r = Numbers(3);
    let mut ways = [0; 3];
    for _ in 0..400 {
        let Some(case) = Case::draw(&mut r) else { continue };
        case.check();
        let window: usize = case.window.iter().product();
        let points: usize = case.out.iter().product();
        let way = if window >= 16 && window >= 4 * points { 0 } else { 1 + usize::from(case.outs >= 8) };
        ways[way] += 1;
    }
    assert!(ways.iter().all(|n| *n > 10), "{ways:?}");
}

#[test]
fn chunks_and_blocks_are_crossed() {
    let case = |channels: usize, outs: usize, size: usize, window: usize, low: isize, groups: usize| Case {
        spatial: 2,
        groups,
        batch: 2,
        channels,
        outs,
        size: vec![size, size],
        window: vec![window, window],
        out: vec![(size as isize + 2 * low) as usize - window + 1; 2],
        steps: [vec![1, 1], vec![low, low], vec![1, 1], vec![1, 1]],
    };
    case(70, 20, 9, 3, 1, 1).check();
    case(70, 3, 9, 3, 1, 1).check();
    // The gradients of such weights: large windows over images of other channels.
    case(9, 20, 14, 12, 0, 1).check();
    case(9, 1, 14, 14, 1, 18).check();
    // Three, five and seven points a row, of one vector of outputs and of two.
    for low in [0, 1, 2] {
        case(3, 40, 20, 18, low, 1).check();
        case(3, 9, 20, 18, low, 2).check();
    }
}

extern "C" __global__ void __launch_bounds__(256) conv(const __grid_constant__ Args a) {
    const i64* s = a.s;
    const i64 *size = s + 3, *window = s + 3 + D, *out = s + 3 + 2 * D, *x_step = s + 3 + 3 * D;
    const i64 *w_step = x_step + D + 2, *y_step = w_step + D + 2;
    i64 points = 1, taps = 1;
    for (int d = 0; d < D; d++) { points *= out[d]; taps *= window[d]; }
    const i64 own = (i64)blockIdx.x * 256 + threadIdx.x;
    if (own >= s[0] * s[1] * points) return;
    const i64 point = own % points, o = own / points % s[1], n = own / points / s[1];
    const i64 channels = s[2], group = o / (s[1] / GROUPS);
    i64 origin[D];
    i64 rest = point;
    for (int d = D - 1; d >= 0; d--) { origin[d] = rest % out[d] * STRIDE[d] - LOW[d]; rest /= out[d]; }
    const T* x = (const T*)a.b[0] + n * x_step[0] + group * channels * x_step[1];
    const T* w = (const T*)a.b[1] + o * w_step[0];
    T total = (T)0, acc = (T)0;
    i64 done = 0;
    bool first = true;
    for (i64 c = 0; c < channels; c++) {
        i64 at[D];
        for (int d = 0; d < D; d++) at[d] = 0;
        for (i64 tap = 0; tap < taps; tap++) {
            bool inside = true;
            i64 from = c * x_step[1], weight = c * w_step[1];
            for (int d = 0; d < D; d++) {
                const i64 p = origin[d] + at[d] * DILATION[d];
                inside = inside && p >= 0 && p % BASE[d] == 0 && p / BASE[d] < size[d];
                from += p / BASE[d] * x_step[2 + d];
                weight += at[d] * w_step[2 + d];
            }
            acc = fused(w[weight], inside ? x[from] : (T)0, acc);
            if (++done % 512 == 0) {
                total = first ? acc : add(total, acc);
                acc = (T)0;
                first = false;
            }
            for (int d = D - 1; d >= 0; d--) {
                if (++at[d] < window[d]) break;
                at[d] = 0;
            }
        }
    }
    if (done % 512 != 0) total = first ? acc : add(total, acc);
    ((T*)a.b[2])[n * y_step[0] + o * y_step[1] + point * y_step[2]] = total;
}

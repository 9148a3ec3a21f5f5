// Attention of any strides, a warp a row: slow, for operands that the copy engine does not take. A lane has HD / 32 columns.
#define C (HD / 32)
__device__ __forceinline__ f32 all_sum(f32 x) {
#pragma unroll
    for (int k = 16; k; k >>= 1) x = add(x, __shfl_xor_sync(~0u, x, k));
    return x;
}
struct Rows {
    const T* from;
    i64 row, column;
    __device__ __forceinline__ Rows(const Args& a, int buffer, int at, i64 b, i64 h) : from((const T*)a.b[buffer] + b * a.s[at] + h * a.s[at + 1]), row(a.s[at + 2]), column(a.s[at + 3]) {}
    __device__ __forceinline__ void get(f32 (&x)[C], i64 r) const {
#pragma unroll
        for (int i = 0; i < C; i++) x[i] = wide(from[r * row + ((threadIdx.x & 31) + 32 * i) * column]);
    }
    __device__ __forceinline__ void put(const f32 (&x)[C], i64 r) const {
#pragma unroll
        for (int i = 0; i < C; i++) {
            T y = To<T>::of(x[i]);
            // Gradients have no -0.
            if (BACKWARD && y.x == 0x8000) y.x = 0;
            ((T*)from)[r * row + ((threadIdx.x & 31) + 32 * i) * column] = y;
        }
    }
};
__device__ __forceinline__ f32 dot(const f32 (&x)[C], const f32 (&y)[C]) {
    f32 sum = 0.f;
#pragma unroll
    for (int i = 0; i < C; i++) sum = fmaf(x[i], y[i], sum);
    return all_sum(sum);
}
extern "C" __global__ void __launch_bounds__(256) attention_plain(const __grid_constant__ Args a) {
    const i64 t = a.s[2], keys = a.s[3], own = (i64)blockIdx.x * 8 + threadIdx.x / 32, rows = COLUMNS ? keys : t;
    if (own >= a.s[0] * a.s[1] * rows) return;
    const i64 head = own / rows, r = own - head * rows, b = head / a.s[1], h = head - b * a.s[1];
    const Rows Q(a, 0, 6, b, h), K(a, 1, 10, b, h), V(a, 2, 14, b, h), O(a, 3, 18, b, h);
    f32* lse = (f32*)a.b[4] + b * a.s[22] + h * a.s[23];
    f32 x[C], y[C], sum[C] = {};
#if !BACKWARD
    f32 most = __uint_as_float(0xff800000u), all = 0.f;
    Q.get(x, r);
    for (i64 j = 0; j < (CAUSAL && r + 1 < keys ? r + 1 : keys); j++) {
        K.get(y, j);
        const f32 s = dot(x, y) * SCALE, top = fmaxf(most, s), keep = expf(most - top), p = expf(s - top);
        V.get(y, j);
        all = fmaf(all, keep, p);
        most = top;
#pragma unroll
        for (int i = 0; i < C; i++) sum[i] = fmaf(sum[i], keep, p * y[i]);
    }
#pragma unroll
    for (int i = 0; i < C; i++) sum[i] = all > 0.f ? sum[i] / all : 0.f;
    O.put(sum, r);
    if ((threadIdx.x & 31) == 0) lse[r * a.s[24]] = most + logf(all);
#else
    const Rows G(a, 5, 25, b, h);
    f32 g[C], o[C], u[C], more[C] = {};
    if (COLUMNS) { K.get(x, r); V.get(y, r); } else { Q.get(x, r); G.get(y, r); O.get(o, r); }
    const f32 own_delta = COLUMNS ? 0.f : dot(y, o);
    const i64 from = COLUMNS && CAUSAL ? r : 0, end = COLUMNS ? t : CAUSAL && r + 1 < keys ? r + 1 : keys;
    for (i64 j = from; j < end; j++) {
        if (COLUMNS) { Q.get(u, j); G.get(g, j); O.get(o, j); } else { K.get(u, j); V.get(g, j); }
        const f32 p = expf(dot(x, u) * SCALE - lse[(COLUMNS ? j : r) * a.s[24]]);
        const f32 ds = p * (dot(y, g) - (COLUMNS ? dot(g, o) : own_delta)) * SCALE;
#pragma unroll
        for (int i = 0; i < C; i++) {
            sum[i] = fmaf(ds, u[i], sum[i]);
            if (COLUMNS) more[i] = fmaf(p, g[i], more[i]);
        }
    }
    if (COLUMNS) { Rows(a, 7, 33, b, h).put(sum, r); Rows(a, 8, 37, b, h).put(more, r); } else Rows(a, 6, 29, b, h).put(sum, r);
#endif
}

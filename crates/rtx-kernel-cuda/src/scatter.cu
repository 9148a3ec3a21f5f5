extern "C" __global__ void scatter_check(const __grid_constant__ Args a) {
    const i64* st = a.s + (COPY ? 7 : 4);
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.s[2]) return;
    const i64 index = ((const i64*)a.b[COPY ? 1 : 0])[i * st[0]];
    if ((u64)index >= (u64)a.s[1]) report(a.fault, a.step, index, a.s[1]);
}
// A warp takes one row of the result, looks for it among all indices, and combines what it finds in order.
extern "C" __global__ void __launch_bounds__(256) scatter(const __grid_constant__ Args a) {
    const i64 outer = a.s[0], size = a.s[1], count = a.s[2], inner = a.s[3];
    const i64* st = a.s + 4;
    int buffer = 0;
#if COPY
    const i64 x0 = st[0], x1 = st[1], x2 = st[2];
    const T* x = (const T*)a.b[buffer++];
    st += 3;
#endif
    const i64* indices = (const i64*)a.b[buffer++];
    const T* updates = (const T*)a.b[buffer++];
    T* y = (T*)a.b[buffer];
    const i64 step = st[0], u0 = st[1], u1 = st[2], u2 = st[3], y0 = st[4], y1 = st[5], y2 = st[6];
    const i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= outer * size) return;
    const u32 lane = threadIdx.x & 31;
    const i64 o = row / size, r = row % size;
    T* to = y + o * y0 + r * y1;
    // Unrolled further, the addresses of both loops spill on sm_80.
#pragma unroll 1
    for (i64 c = lane; c < inner; c += 32) {
#if COPY
        if (x + o * x0 + r * x1 != to || x2 != y2) to[c * y2] = x[o * x0 + r * x1 + c * x2];
#else
        to[c * y2] = (T)0;
#endif
    }
    for (i64 first = 0; first < count; first += 32) {
        const i64 i = first + lane;
        u32 found = __ballot_sync(~0u, i < count && indices[(i < count ? i : 0) * step] == r);
        while (found) {
            const i64 hit = first + __ffs(found) - 1;
            found &= found - 1;
            const T* from = updates + o * u0 + hit * u1;
            // A lane keeps its columns from update to update: no one else touches them.
#pragma unroll 1
            for (i64 c = lane; c < inner; c += 32) {
                const T before = to[c * y2], update = from[c * u2];
                to[c * y2] = COMBINE(before, update);
            }
        }
    }
}

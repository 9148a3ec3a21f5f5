typedef i32 ix;
struct Args { u8* b[2]; i64 s[1]; Fault* fault; u64 step; };
extern "C" __global__ void __launch_bounds__(512) kernel(const __grid_constant__ Args a) {
    const u32 tid = threadIdx.x, pt = tid % 32, lane = tid / 32 % 16, group = tid / 512;
    const ix n = ((ix)64ll);
    const ix blocks = (n + 4095) / 4096;
    const i64 own = (i64)blockIdx.x * 32 + pt, points = (i64)(((ix)300ll));
    const bool live = own < points;
    const i64 point = live ? own : 0;
    const ix c0 = (ix)point;
    const ix chunk = 1;
    __shared__ u64 shared[512], shared_at[512];
    f32 sum1 = From<f32>::raw(0x0ull);
    for (ix j = 0; j < chunk; j++) {
        const ix block = group * chunk + j, first = block * 4096, end = first + 4096 < n ? first + 4096 : n;
        f32 acc1 = From<f32>::raw(0x0ull);
        if (block < blocks) {
#pragma unroll 4
        for (ix i = first + (ix)lane; i < end; i += 16) {
            const f32 v0 = ((const f32*)a.b[0])[c0 + i * ((ix)300ll)];
            acc1 = add(acc1, v0);
        }
        }
        f32* lanes1 = (f32*)shared;
        __syncthreads();
        lanes1[tid] = acc1;
        __syncthreads();
        if (lane < 8) lanes1[tid] = acc1 = add(acc1, lanes1[tid + 8 * 32]);
        __syncthreads();
        if (lane < 4) lanes1[tid] = acc1 = add(acc1, lanes1[tid + 4 * 32]);
        __syncthreads();
        if (lane < 2) lanes1[tid] = acc1 = add(acc1, lanes1[tid + 2 * 32]);
        __syncthreads();
        if (lane < 1) lanes1[tid] = acc1 = add(acc1, lanes1[tid + 1 * 32]);
        if (block < blocks) sum1 = acc1;
    }
    f32* groups1 = (f32*)shared;
    __syncthreads();
    if (lane == 0) groups1[pt * 1 + group] = sum1;
    __syncthreads();
    const f32 v1 = groups1[pt * 1];
    __syncthreads();
    if (live && lane == 0 && group == 0) {
        ((f32*)a.b[1])[c0] = v1;
    }
}

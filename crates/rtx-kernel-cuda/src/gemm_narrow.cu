// Few outputs and a long sum: a thread an output, tiles of 16 x 16, four steps of 32 under way. The order is `tiled`'s.
__device__ __forceinline__ void fetch(T* to, const T* from, bool there) {
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"((int)sizeof(T)),
                 "r"(there ? (int)sizeof(T) : 0)
                 : "memory");
}
constexpr int STEP = 32, STAGES = 4, PITCH = STEP + 16 / sizeof(T), FEW = 16 / sizeof(T);
struct __align__(16) Few { T x[FEW]; };
extern "C" __global__ void __launch_bounds__(256) gemm_narrow(const __grid_constant__ Args a) {
    const i64* s = a.s;
    const int m = (int)s[2], n = (int)s[3], k = (int)s[4];
    const u32 across = (u32)((n + 15) / 16), down = (u32)((m + 15) / 16);
    const u32 tile = blockIdx.x % (across * down), batch = blockIdx.x / (across * down);
    const i64 b0 = batch / (u32)s[1], b1 = batch % (u32)s[1];
    const int i0 = (int)(tile / across) * 16, j0 = (int)(tile % across) * 16;
    const T* A = (const T*)a.b[0] + b0 * s[5] + b1 * s[6];
    const T* B = (const T*)a.b[1] + b0 * s[9] + b1 * s[10];
    __shared__ __align__(16) T As[STAGES][16][PITCH], Bs[STAGES][16][PITCH];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const bool a_rows = s[8] != 1, b_rows = s[11] != 1;
    auto stage = [&](int p0) {
        if (p0 < k) {
            const int at = p0 / STEP % STAGES;
#pragma unroll
            for (int e = threadIdx.x; e < 16 * STEP; e += 256) {
                // Neighbouring threads read neighbouring elements, whichever way the operand lies.
                const int i = a_rows ? e % 16 : e / STEP, p = a_rows ? e / 16 : e % STEP;
                const int j = b_rows ? e % 16 : e / STEP, q = b_rows ? e / 16 : e % STEP;
                const bool in_a = i0 + i < m && p0 + p < k, in_b = j0 + j < n && p0 + q < k;
                fetch(&As[at][i][p], in_a ? A + (i64)(i0 + i) * s[7] + (i64)(p0 + p) * s[8] : A, in_a);
                fetch(&Bs[at][j][q], in_b ? B + (i64)(p0 + q) * s[11] + (i64)(j0 + j) * s[12] : B, in_b);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int ahead = 0; ahead < STAGES - 1; ahead++) stage(ahead * STEP);
    // The first chunk is the sum so far bit by bit: -0 + x is x.
    T total = k > 0 ? (T)-0.f : (T)0, acc = (T)0;
    for (int p0 = 0; p0 < k; p0 += STEP) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        stage(p0 + (STAGES - 1) * STEP);
        const int at = p0 / STEP % STAGES, some = k - p0;
#pragma unroll
        for (int p = 0; p < STEP; p += FEW) {
            const Few x = *(const Few*)&As[at][ty][p], y = *(const Few*)&Bs[at][tx][p];
#pragma unroll
            for (int e = 0; e < FEW; e++)
                if (p + e < some) acc = fused(x.x[e], y.x[e], acc);
        }
        const int done = p0 + STEP;
        if (done % 512 == 0 || done >= k) {
            total = add(total, acc);
            acc = (T)0;
        }
    }
    const int i = i0 + ty, j = j0 + tx;
    if (i < m && j < n) ((T*)a.b[2])[b0 * s[13] + b1 * s[14] + (i64)i * s[15] + (i64)j * s[16]] = total;
}

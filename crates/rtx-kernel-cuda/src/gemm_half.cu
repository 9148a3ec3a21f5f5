// C[b0, b1, i, j] = sum of A[b0, b1, i, p] B[b0, b1, p, j] for halves T, in f32 by tensor cores, rounded once to O.
// A block makes 128 x 128 outputs, 8 warps of 64 x 32, over steps of 32 of p that arrive in a ring of shared memory.
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(u32 to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void fragments(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void fragments_turned(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#define TILE 128
#define STEP 32
#define RING 3
// An operand's tile: 128 lines of 32 where p is side by side, else 32 lines of 128; padded against bank conflicts.
#define LONG 40
#define WIDE 136
#define OPERAND (TILE * LONG * 2)

// One tile of an operand into shared memory. `lines`: its free axis, from `first` of `count`; `p` from p0 of k.
template <bool along> struct Operand {
    const T* from;
    i64 line_step, p_step;
    int first, count, k;
    bool vectors;
    __device__ __forceinline__ Operand(const T* from, i64 line_step, i64 p_step, int first, int count, int k)
        : from(from), line_step(line_step), p_step(p_step), first(first), count(count), k(k) {
        const i64 other = along ? line_step : p_step;
        vectors = (along || line_step == 1) && other % 8 == 0 && ((u64)from & 15) == 0;
    }
    __device__ __forceinline__ void fetch(u32 to, T* plain, int p0) const {
        if (vectors) {
// Not unrolled: the registers are for the accumulators.
#pragma unroll 1
            for (int e = threadIdx.x; e < TILE * STEP / 8; e += 256) {
                const int line = along ? e / (STEP / 8) : e % (TILE / 8) * 8, p = along ? e % (STEP / 8) * 8 : e / (TILE / 8);
                const int left = along ? (first + line < count ? k - p0 - p : 0) : (p0 + p < k ? count - first - line : 0);
                const int bytes = left >= 8 ? 16 : left > 0 ? 2 * left : 0;
                const i64 at = bytes ? (i64)(first + line) * line_step + (i64)(p0 + p) * p_step : 0;
                copy16(to + 2 * (along ? line * LONG + p : p * WIDE + line), from + at, bytes);
            }
            return;
        }
#pragma unroll 1
        for (int e = threadIdx.x; e < TILE * STEP; e += 256) {
            const int line = along ? e / STEP : e % TILE, p = along ? e % STEP : e / TILE;
            const bool inside = first + line < count && p0 + p < k;
            plain[along ? line * LONG + p : p * WIDE + line] = inside ? from[(i64)(first + line) * line_step + (i64)(p0 + p) * p_step] : T{0};
        }
    }
};

extern "C" __global__ void __launch_bounds__(256, 2) gemm_half(const __grid_constant__ Args a) {
    extern __shared__ __align__(128) u8 ring[];
    const i64* s = a.s;
    const int m = (int)s[2], n = (int)s[3], k = (int)s[4];
    const u32 across = (u32)((n + TILE - 1) / TILE), down = (u32)((m + TILE - 1) / TILE);
    const u32 tile = blockIdx.x % (across * down), batch = blockIdx.x / (across * down);
    // Tiles in groups of 8 rows of tiles, so that what they share stays in the cache.
    const u32 group = tile / (8 * across), top = group * 8, high = down - top < 8 ? down - top : 8, rest = tile - group * 8 * across;
    const int i0 = (int)(top + rest % high) * TILE, j0 = (int)(rest / high) * TILE;
    const i64 b0 = batch / (u32)s[1], b1 = batch % (u32)s[1];
    const Operand<A_ALONG> A((const T*)a.b[0] + b0 * s[5] + b1 * s[6], s[7], s[8], i0, m, k);
    const Operand<B_ALONG> B((const T*)a.b[1] + b0 * s[9] + b1 * s[10], s[12], s[11], j0, n, k);
    const u32 base = shared_address(ring);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wm = warp / 4 * 64, wn = warp % 4 * 32;
    float acc[4][4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int q = 0; q < 4; q++) acc[i][j][q] = 0.f;
    const int steps = (k + STEP - 1) / STEP;
    auto fetch = [&](int step) {
        const u32 at = step % RING * 2 * OPERAND;
        A.fetch(base + at, (T*)(ring + at), step * STEP);
        B.fetch(base + at + OPERAND, (T*)(ring + at + OPERAND), step * STEP);
    };
#pragma unroll
    for (int step = 0; step < RING - 1; step++) {
        if (step < steps) fetch(step);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(RING - 2) : "memory");
        __syncthreads();
        const u32 at = base + step % RING * 2 * OPERAND, bt = at + OPERAND;
        if (step + RING - 1 < steps) fetch(step + RING - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
        for (int p = 0; p < STEP; p += 16) {
            u32 x[4][4], y[2][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (A_ALONG) fragments(x[i], at + 2 * ((wm + i * 16 + (lane & 15)) * LONG + p + (lane >> 4) * 8));
                else fragments_turned(x[i], at + 2 * ((p + (lane & 7) + ((lane >> 4) & 1) * 8) * WIDE + wm + i * 16 + ((lane >> 3) & 1) * 8));
            }
#pragma unroll
            for (int j = 0; j < 2; j++) {
                if (B_ALONG) fragments(y[j], bt + 2 * ((wn + j * 16 + (lane & 7) + (lane >> 4) * 8) * LONG + p + ((lane >> 3) & 1) * 8));
                else fragments_turned(y[j], bt + 2 * ((p + (lane & 7) + ((lane >> 3) & 1) * 8) * WIDE + wn + j * 16 + (lane >> 4) * 8));
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) multiply(acc[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
        }
    }
    O* C = (O*)a.b[2] + b0 * s[13] + b1 * s[14];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int row = i0 + wm + i * 16 + lane / 4 + q / 2 * 8, column = j0 + wn + j * 8 + lane % 4 * 2 + q % 2;
                if (row < m && column < n) C[(i64)row * s[15] + (i64)column * s[16]] = To<O>::of(acc[i][j][q]);
            }
}

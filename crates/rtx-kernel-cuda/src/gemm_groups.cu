// C[b0, b1, i, j] = sum of A[b0, b1, i, p] B[b0, b1, p, j] for halves by products of warp groups (wgmma), in f32.
// Warp group 0 asks the copy engine for tiles of 64 along p, a ring of STAGES; groups 1 and 2 make 64 x BN outputs each.
// A_DOWN, B_DOWN: p lies across, not along, the operand's rows of memory. What is outside reads as 0.
// SPLIT > 1: as many blocks of a cluster share p; their parts meet through shared memory in a fixed order.
#define BM 128
#define BK 64
#define A_BYTES (BM * BK * 2)
#define B_BYTES (BN * BK * 2)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define PARTS (BN / 64 / SPLIT)
#define GROUP 8
__device__ __forceinline__ u32 peer(u32 at, u32 block) { u32 r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(block)); return r; }
__device__ __forceinline__ float4 of_peer(u32 at) {
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}
__device__ __forceinline__ void put4(u32 at, f32 x, f32 y, f32 z, f32 w) { asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(at), "f"(x), "f"(y), "f"(z), "f"(w) : "memory"); }

extern "C" __global__ void __launch_bounds__(384, 1)
#if SPLIT > 1
__cluster_dims__(SPLIT, 1, 1)
#endif
gemm_groups(const __grid_constant__ Args a) {
    extern __shared__ u8 memory[];
    const u32 base = (shared_at(memory) + 1023u) & ~1023u;
    const u32 out = base + STAGES * STAGE_BYTES, full = out + 32768, empty = full + 8 * STAGES;
    const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);
    const int m = (int)a.s[2], n = (int)a.s[3], k = (int)a.s[4], b1s = (int)a.s[1];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) { bar_init(full + 8 * s, 1); bar_init(empty + 8 * s, 2); }
        bars_ready();
        fetch_map(a.m);
        fetch_map(a.m + 1);
    }
    __syncthreads();
    const u32 rank = SPLIT > 1 ? cluster_rank() : 0;
    const int down = (m + BM - 1) / BM, wide = (n + BN - 1) / BN, tiles = down * wide, steps = (k + BK - 1) / BK / SPLIT, p0 = rank * steps;
    const int first = blockIdx.x / SPLIT, stride = gridDim.x / SPLIT, all = tiles * (int)a.s[0] * b1s;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int s = 0;
            u32 phase = 1;
            for (int at = first; at < all; at += stride) {
                const int batch = at / tiles, t = at - batch * tiles, b0 = batch / b1s, b1 = batch - b0 * b1s;
                const int g = t / (GROUP * wide), top = g * GROUP, high = min(down - top, GROUP), r = t - g * GROUP * wide;
                const int i0 = (top + r % high) * BM, j0 = r / high * BN;
                for (int p = p0; p < p0 + steps; p++) {
                    bar_wait(empty + 8 * s, phase);
                    const u32 x = base + s * STAGE_BYTES, y = x + A_BYTES, f = full + 8 * s;
                    bar_expect(f, STAGE_BYTES);
                    if (A_DOWN) { load_box(x, a.m, f, i0, p * BK, b1, b0); load_box(x + 8192, a.m, f, i0 + 64, p * BK, b1, b0); }
                    else load_box(x, a.m, f, p * BK, i0, b1, b0);
                    if (B_DOWN) {
#pragma unroll
                        for (int i = 0; i < BN / 64; i++) load_box(y + i * 8192, a.m + 1, f, j0 + i * 64, p * BK, b1, b0);
                    } else load_box(y, a.m + 1, f, p * BK, j0, b1, b0);
                    if (++s == STAGES) { s = 0; phase ^= 1; }
                }
            }
        }
        __syncwarp();
#if SPLIT > 1
        cluster_sync();
        cluster_sync();
#endif
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int c = group - 1, tid = threadIdx.x & 127, warp = tid >> 5, lane = tid & 31;
        const u32 buffers = out + c * 16384;
        const int row = warp * 16 + ((lane >> 3) & 1) * 8 + (lane & 7), chunk = (lane >> 4) & 1, turn = row & 7;
        int s = 0;
        u32 phase = 0;
        f32 d[BN / 2];
        for (int at = first; at < all; at += stride) {
            const int batch = at / tiles, t = at - batch * tiles, b0 = batch / b1s, b1 = batch - b0 * b1s;
            const int g = t / (GROUP * wide), top = g * GROUP, high = min(down - top, GROUP), r = t - g * GROUP * wide;
            const int i0 = (top + r % high) * BM + c * 64, j0 = r / high * BN;
            int before = -1;
            for (int p = 0; p < steps; p++) {
                bar_wait(full + 8 * s, phase);
                const u32 x = base + s * STAGE_BYTES + c * 8192, y = base + s * STAGE_BYTES + A_BYTES;
                const u32 dx = A_DOWN ? across(x, 8192) : along(x), dy = B_DOWN ? across(y, 8192) : along(y);
                fence_regs(d);
                group_fence();
#pragma unroll
                for (int q = 0; q < 4; q++) products(d, tile_at(dx + (A_DOWN ? 128 : 2) * q), tile_at(dy + (B_DOWN ? 128 : 2) * q), (p | q) != 0);
                group_commit();
                fence_regs(d);
                group_wait<1>();
                if (before >= 0 && tid == 0) bar_arrive(empty + 8 * before);
                before = s;
                if (++s == STAGES) { s = 0; phase ^= 1; }
            }
            group_wait<0>();
            fence_regs(d);
            if (tid == 0) bar_arrive(empty + 8 * before);
            int part0 = 0;
#if SPLIT > 1
            threads_sync(3, 256);
            const u32 own = base + c * (64 * BN * 4) + tid * 16;
#pragma unroll
            for (int i = 0; i < BN / 8; i++) put4(own + i * 2048, d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]);
            cluster_sync();
            part0 = rank * PARTS;
#pragma unroll
            for (int i = 0; i < 8 * PARTS; i++) {
                float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
                for (int q = 0; q < SPLIT; q++) {
                    const float4 w = of_peer(peer(own + (part0 * 8 + i) * 2048, q));
                    v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w;
                }
                d[4 * i] = v.x; d[4 * i + 1] = v.y; d[4 * i + 2] = v.z; d[4 * i + 3] = v.w;
            }
#endif
            const int column = j0 + part0 * 64;
#if WIDE_OUT
            const i64 across_rows = a.s[15];
            f32* C = (f32*)a.b[2] + b0 * a.s[13] + b1 * a.s[14];
            const int i1 = i0 + warp * 16 + (lane >> 2);
#pragma unroll
            for (int i = 0; i < 8 * PARTS; i++) {
                const int j = column + i * 8 + 2 * (lane & 3);
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    if (i1 + 8 * h >= m || j >= n) continue;
                    f32* to = C + (i64)(i1 + 8 * h) * across_rows + j;
                    if (j + 1 < n) *(float2*)to = make_float2(d[4 * i + 2 * h], d[4 * i + 2 * h + 1]);
                    else *to = d[4 * i + 2 * h];
                }
            }
#else
            // 64 x 64 at a time, in turn through two buffers.
#pragma unroll
            for (int h = 0; h < PARTS; h++) {
                const u32 to = buffers + (h & 1) * 8192;
                if (tid == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
                threads_sync(1 + c, 128);
#pragma unroll
                for (int j = 0; j < 8; j += 2) {
                    const int q = h * 32 + j * 4;
                    put_fragments(to + row * 128 + (((j + chunk) ^ turn) << 4), pack(d[q], d[q + 1]), pack(d[q + 2], d[q + 3]), pack(d[q + 4], d[q + 5]), pack(d[q + 6], d[q + 7]));
                }
                fence_async();
                threads_sync(1 + c, 128);
                if (tid == 0) {
                    if (i0 < m && column + h * 64 < n) store_box(a.m + 2, to, column + h * 64, i0, b1, b0);
                    store_commit();
                }
            }
#endif
        }
        if (tid == 0) store_wait();
        __syncwarp();
#if SPLIT > 1
        cluster_sync();
#endif
    }
}

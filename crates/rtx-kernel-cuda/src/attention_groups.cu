// Attention of halves by warp groups, head sizes HD = 64 and 128, causal or not. Maps see [b, h, rows, HD] with any strides;
// rows outside read as 0 and are not written.
#define BLOCKS (HD / 64)
#define NONE __uint_as_float(0xff800000u)
#define HEADS ((int)a.s[1])
__device__ __forceinline__ f32 ex2(f32 x) { f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
__device__ __forceinline__ float2 get2(u32 at) { float2 v; asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory"); return v; }
__device__ __forceinline__ f32 half_of(u32 bits) { T h; h.x = (u16)bits; return wide(h); }
__device__ __forceinline__ f32 low_of(u32 x) { return half_of(x & 0xffffu); }
__device__ __forceinline__ f32 high_of(u32 x) { return half_of(x >> 16); }
// All columns of some rows of a head, a box for each 64.
__device__ __forceinline__ void load_rows(u32 to, const Map* m, Bar b, int row, u32 step, int h, int bt) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) load_box(to + i * step, m, b, i * 64, row, h, bt);
}

#if PART == 0
// out = softmax(scale q kᵀ) v and lse. A block: 128 queries, 64 a warp group, against blocks of 128 keys from the last to
// the first; the scores of the next block are made while the weights of this one are summed.
#define RING 2
#define TILE (128 * HD * 2)
__device__ __forceinline__ void scores(f32 (&s)[64], u32 q, u32 k) {
    const u32 dq = along(q), dk = along(k);
#pragma unroll
    for (int i = 0; i < HD / 16; i++) {
        const u32 o = (i >> 2) * (16384 >> 4) + (i & 3) * 2;
        products_score(s, tile_at(dq + o), tile_at(dk + o), i != 0);
    }
}
__device__ __forceinline__ void values(f32 (&o)[HD / 2], u32 (&p)[32], u32 v) {
    const u32 dv = across(v, 16384);
#pragma unroll
    for (int i = 0; i < 8; i++) products_value(o, p[i * 4], p[i * 4 + 1], p[i * 4 + 2], p[i * 4 + 3], tile_at(dv + i * 128), 1);
}
template <bool masked> __device__ __forceinline__ void weights(f32 (&s)[64], f32& m0, f32& m1, f32& l0, f32& l1, f32& a0, f32& a1, int last0, int last1, int column) {
    if (masked) {
#pragma unroll
        for (int j = 0; j < 16; j++) {
            const int c = column + 8 * j;
            if (c > last0) s[4 * j] = NONE;
            if (c + 1 > last0) s[4 * j + 1] = NONE;
            if (c > last1) s[4 * j + 2] = NONE;
            if (c + 1 > last1) s[4 * j + 3] = NONE;
        }
    }
    f32 x = m0, y = m1;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        x = fmaxf(x, fmaxf(s[4 * j], s[4 * j + 1]));
        y = fmaxf(y, fmaxf(s[4 * j + 2], s[4 * j + 3]));
    }
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1)); x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
    y = fmaxf(y, __shfl_xor_sync(~0u, y, 1)); y = fmaxf(y, __shfl_xor_sync(~0u, y, 2));
    a0 = ex2((m0 - x) * SCALE2); a1 = ex2((m1 - y) * SCALE2);
    m0 = x; m1 = y;
    const f32 nx = -x * SCALE2, ny = -y * SCALE2;
    f32 p = 0.f, q = 0.f;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        s[4 * j] = ex2(fmaf(s[4 * j], SCALE2, nx)); s[4 * j + 1] = ex2(fmaf(s[4 * j + 1], SCALE2, nx));
        p += s[4 * j] + s[4 * j + 1];
        s[4 * j + 2] = ex2(fmaf(s[4 * j + 2], SCALE2, ny)); s[4 * j + 3] = ex2(fmaf(s[4 * j + 3], SCALE2, ny));
        q += s[4 * j + 2] + s[4 * j + 3];
    }
    l0 = fmaf(l0, a0, p); l1 = fmaf(l1, a1, q);
}
__device__ __forceinline__ void packed(u32 (&p)[32], f32 (&s)[64]) {
#pragma unroll
    for (int i = 0; i < 32; i++) p[i] = pack(s[2 * i], s[2 * i + 1]);
}
extern "C" __global__ void __launch_bounds__(384, 1) attention_groups(const __grid_constant__ Args a) {
    extern __shared__ u8 memory[];
    const u32 base = (shared_at(memory) + 1023u) & ~1023u;
    const u32 sQ = base, sK = sQ + TILE, sV = sK + RING * TILE;
    const u32 bQ = sV + RING * TILE, fK = bQ + 8, eK = fK + 8 * RING, fV = eK + 8 * RING, eV = fV + 8 * RING;
    const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);
    const int t = (int)a.s[2], keys = (int)a.s[3], high = (t + 127) / 128, head = blockIdx.x / high, part = blockIdx.x - head * high;
    const int qrow = (CAUSAL ? high - 1 - part : part) * 128, b = head / HEADS, h = head - b * HEADS;
    const int nb = CAUSAL ? qrow / 128 + 1 : (keys + 127) / 128;
    if (threadIdx.x == 0) {
        bar_init(bQ, 1);
        for (int s = 0; s < RING; s++) { bar_init(fK + 8 * s, 1); bar_init(eK + 8 * s, 2); bar_init(fV + 8 * s, 1); bar_init(eV + 8 * s, 2); }
        bars_ready();
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            bar_expect(bQ, TILE);
            load_rows(sQ, a.m, bQ, qrow, 16384, h, b);
            for (int i = 0; i < nb; i++) {
                const int j = nb - 1 - i, s = i % RING;
                const u32 phase = (i / RING) & 1;
                bar_wait(eK + 8 * s, phase ^ 1);
                bar_expect(fK + 8 * s, TILE);
                load_rows(sK + s * TILE, a.m + 1, fK + 8 * s, j * 128, 16384, h, b);
                bar_wait(eV + 8 * s, phase ^ 1);
                bar_expect(fV + 8 * s, TILE);
                load_rows(sV + s * TILE, a.m + 2, fV + 8 * s, j * 128, 16384, h, b);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const int c = group - 1, tid = threadIdx.x & 127, warp = tid >> 5, lane = tid & 31;
        const int row0 = qrow + c * 64 + warp * 16 + (lane >> 2);
        f32 o[HD / 2], s[64];
        u32 p[32];
        f32 m0 = NONE, m1 = NONE, l0 = 0.f, l1 = 0.f, a0, a1;
#pragma unroll
        for (int i = 0; i < HD / 2; i++) o[i] = 0.f;
        const u32 q = sQ + c * 8192;
        // The groups take turns: one multiplies while the other takes exponentials.
        if (CAUSAL && c == 1) threads_arrive(3, 256);
        bar_wait(bQ, 0);
        bar_wait(fK, 0);
        group_fence(); scores(s, q, sK); group_commit(); group_wait<0>(); fence_regs(s);
        if (tid == 0) bar_arrive(eK);
        weights<true>(s, m0, m1, l0, l1, a0, a1, CAUSAL ? row0 : keys - 1, CAUSAL ? row0 + 8 : keys - 1, (nb - 1) * 128 + 2 * (lane & 3));
        packed(p, s);
        for (int i = 1; i < nb; i++) {
            const int st = i % RING, sv = (i - 1) % RING;
            bar_wait(fK + 8 * st, (i / RING) & 1);
            if (CAUSAL) threads_sync(3 + c, 256);
            fence_regs(s); fence_regs(o);
            group_fence();
            scores(s, q, sK + st * TILE); group_commit();
            bar_wait(fV + 8 * sv, ((i - 1) / RING) & 1);
            group_fence(); values(o, p, sV + sv * TILE); group_commit();
            if (CAUSAL && !(c == 1 && i == nb - 1)) threads_arrive(3 + (c ^ 1), 256);
            group_wait<1>(); fence_regs(s);
            if (tid == 0) bar_arrive(eK + 8 * st);
            weights<false>(s, m0, m1, l0, l1, a0, a1, 0, 0, 0);
            group_wait<0>(); fence_regs(o); fence_regs(s);
            if (tid == 0) bar_arrive(eV + 8 * sv);
#pragma unroll
            for (int j = 0; j < HD / 8; j++) { o[4 * j] *= a0; o[4 * j + 1] *= a0; o[4 * j + 2] *= a1; o[4 * j + 3] *= a1; }
            packed(p, s);
        }
        if (CAUSAL && nb == 1 && c == 0) threads_sync(3, 256);
        {
            const int sv = (nb - 1) % RING;
            bar_wait(fV + 8 * sv, ((nb - 1) / RING) & 1);
            fence_regs(o); group_fence(); values(o, p, sV + sv * TILE); group_commit(); group_wait<0>(); fence_regs(o);
        }
        l0 += __shfl_xor_sync(~0u, l0, 1); l0 += __shfl_xor_sync(~0u, l0, 2);
        l1 += __shfl_xor_sync(~0u, l1, 1); l1 += __shfl_xor_sync(~0u, l1, 2);
        const f32 i0 = 1.f / l0, i1 = 1.f / l1;
        if ((lane & 3) == 0) {
            // lse: buffer 4, strides after those of four operands.
            f32* lse = (f32*)a.b[4] + b * a.s[22] + h * a.s[23];
            if (row0 < t) lse[row0 * a.s[24]] = (m0 * SCALE2 + log2f(l0)) * 0.69314718f;
            if (row0 + 8 < t) lse[(row0 + 8) * a.s[24]] = (m1 * SCALE2 + log2f(l1)) * 0.69314718f;
        }
#pragma unroll
        for (int j = 0; j < HD / 8; j += 2) {
            const int sub = j >> 3, ch = (j & 7) + ((lane >> 4) & 1), row = warp * 16 + ((lane >> 3) & 1) * 8 + (lane & 7);
            put_fragments(q + sub * 16384 + row * 128 + ((ch ^ (row & 7)) << 4), pack(o[j * 4] * i0, o[j * 4 + 1] * i0), pack(o[j * 4 + 2] * i1, o[j * 4 + 3] * i1),
                          pack(o[j * 4 + 4] * i0, o[j * 4 + 5] * i0), pack(o[j * 4 + 6] * i1, o[j * 4 + 7] * i1));
        }
        fence_async();
        threads_sync(1 + c, 128);
        if (tid == 0) {
            if (qrow + c * 64 < t)
                for (int i = 0; i < BLOCKS; i++) store_box(a.m + 3, q + i * 16384, i * 64, qrow + c * 64, h, b);
            store_commit();
            store_wait();
        }
    }
}
#else
// The gradient: scratch has lse in base 2, then delta, a row a head, padded to 128 rows with weights of 0.
#define ROWS (((int)a.s[2] + 127) / 128 * 128)
#define LSE ((f32*)a.scratch)
#define DELTA (LSE + a.s[0] * a.s[1] * ROWS)
#endif

#if PART > 1
// Rounded, and +0 instead of -0.
__device__ __forceinline__ u32 pack0(f32 low, f32 high) { u32 r; asm("add.rn." HALF "x2 %0, %1, %2;" : "=r"(r) : "r"(pack(low, high)), "r"(0)); return r; }
#endif

#if PART == 1
// delta = sum of out times its cotangent, HD / 8 threads a row.
extern "C" __global__ void __launch_bounds__(256) attention_delta(const __grid_constant__ Args a) {
    const i64 at = ((i64)blockIdx.x * 256 + threadIdx.x) / (HD / 8);
    const int part = threadIdx.x % (HD / 8), rows = ROWS, head = (int)(at / rows), row = (int)(at - (i64)head * rows), b = head / HEADS, h = head - b * HEADS;
    const bool live = row < a.s[2] && head < a.s[0] * a.s[1];
    f32 sum = 0.f;
    if (live) {
        const uint4 x = *(const uint4*)((const T*)a.b[3] + b * a.s[18] + h * a.s[19] + row * a.s[20] + part * 8);
        const uint4 y = *(const uint4*)((const T*)a.b[5] + b * a.s[25] + h * a.s[26] + row * a.s[27] + part * 8);
        const u32 u[4] = {x.x, x.y, x.z, x.w}, v[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < 4; i++) sum = fmaf(high_of(u[i]), high_of(v[i]), fmaf(low_of(u[i]), low_of(v[i]), sum));
    }
#pragma unroll
    for (int k = HD / 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (part != 0 || head >= a.s[0] * a.s[1]) return;
    DELTA[at] = sum;
    LSE[at] = live ? ((const f32*)a.b[4])[b * a.s[22] + h * a.s[23] + row * a.s[24]] * 1.44269504f : -NONE;
}
#endif

#if PART == 2
// dk and dv: a block has 128 keys, 64 a warp group, and walks over blocks of 64 queries. All transposed, so that the
// weights come out of one product as the left operand of the next.
#define QRING 3
#define ORING 3
#define QT (64 * HD * 2)
#define KT (128 * HD * 2)
__device__ __forceinline__ void turned(f32 (&s)[32], u32 x, u32 y) {
    const u32 dx = along(x), dy = along(y);
#pragma unroll
    for (int k = 0; k < HD / 16; k++) products_score(s, tile_at(dx + (k >> 2) * (16384 >> 4) + (k & 3) * 2), tile_at(dy + (k >> 2) * (8192 >> 4) + (k & 3) * 2), k != 0);
}
__device__ __forceinline__ void sums(f32 (&o)[HD / 2], u32 (&p)[16], u32 y) {
    const u32 dy = across(y, 8192);
#pragma unroll
    for (int k = 0; k < 4; k++) products_value(o, p[k * 4], p[k * 4 + 1], p[k * 4 + 2], p[k * 4 + 3], tile_at(dy + k * 128), 1);
}
extern "C" __global__ void __launch_bounds__(256, 1) attention_keys(const __grid_constant__ Args a) {
    extern __shared__ u8 memory[];
    const u32 base = (shared_at(memory) + 1023u) & ~1023u;
    const u32 sK = base, sV = sK + KT, sQ = sV + KT, sO = sQ + QRING * QT, sL = sO + ORING * QT, sE = sL + QRING * 256, bars = sE + ORING * 256;
    const u32 fK = bars, fV = fK + 8, fQ = fV + 8, fO = fQ + 8 * QRING;
    const int c = __shfl_sync(~0u, threadIdx.x >> 7, 0), tid = threadIdx.x & 127, warp = tid >> 5, lane = tid & 31;
    const int keys = (int)a.s[3], wide_ = (keys + 127) / 128, head = blockIdx.x / wide_, nb = blockIdx.x - head * wide_, b = head / HEADS, h = head - b * HEADS;
    const int nqt = ((int)a.s[2] + 63) / 64, m0 = CAUSAL ? nb * 2 : 0, nq = nqt - m0, ms = CAUSAL ? m0 : (nb * 2) % nqt;
    const f32 *lse2 = LSE + (i64)head * ROWS, *delta = DELTA + (i64)head * ROWS;
    auto load_q = [&](int j, int st) {
        int m = ms + j;
        if (m >= nqt) m -= nq;
        bar_expect(fQ + 8 * st, QT + 256);
        load_rows(sQ + st * QT, a.m, fQ + 8 * st, m * 64, 8192, h, b);
        load_bytes(sL + st * 256, lse2 + m * 64, 256, fQ + 8 * st);
    };
    auto load_o = [&](int j, int st) {
        int m = ms + j;
        if (m >= nqt) m -= nq;
        bar_expect(fO + 8 * st, QT + 256);
        load_rows(sO + st * QT, a.m + 3, fO + 8 * st, m * 64, 8192, h, b);
        load_bytes(sE + st * 256, delta + m * 64, 256, fO + 8 * st);
    };
    if (threadIdx.x == 0) {
        bar_init(fK, 1); bar_init(fV, 1);
        for (int s = 0; s < QRING; s++) bar_init(fQ + 8 * s, 1);
        for (int s = 0; s < ORING; s++) bar_init(fO + 8 * s, 1);
        bars_ready();
        bar_expect(fK, KT); load_rows(sK, a.m + 1, fK, nb * 128, 16384, h, b);
        load_q(0, 0);
        bar_expect(fV, KT); load_rows(sV, a.m + 2, fV, nb * 128, 16384, h, b);
        load_o(0, 0);
        for (int s = 1; s < QRING - 1; s++) if (s < nq) load_q(s, s);
        for (int s = 1; s < ORING - 1; s++) if (s < nq) load_o(s, s);
    }
    __syncthreads();
    f32 dk[HD / 2], dv[HD / 2], s[32], t[32];
    u32 p[16], ds[16];
#pragma unroll
    for (int i = 0; i < HD / 2; i++) { dk[i] = 0.f; dv[i] = 0.f; }
    const u32 kA = sK + c * 8192, vA = sV + c * 8192, q4 = (lane & 3) * 8;
    const int srow = warp * 16 + ((lane >> 3) & 1) * 8 + (lane & 7), sch = (lane >> 4) & 1, sx = srow & 7;
    // The zeros are there before the first product.
    fence_regs(dk); fence_regs(dv);
    bar_wait(fK, 0); bar_wait(fQ, 0);
    group_fence(); turned(s, kA, sQ); group_commit();
    bar_wait(fV, 0);
    group_wait<0>(); fence_regs(s);
    int qs = 0, os = 0;
    u32 qp = 0, op = 0;
    for (int j = 0; j < nq; j++) {
        bar_wait(fO + 8 * os, op);
        fence_regs(t);
        group_fence(); turned(t, vA, sO + os * QT); group_commit();
        if (CAUSAL && j < 2) {
            const int kv = c * 64 + warp * 16 + (lane >> 2), q0 = j * 64 + 2 * (lane & 3);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int q = q0 + 8 * i;
                if (kv > q) s[4 * i] = NONE;
                if (kv > q + 1) s[4 * i + 1] = NONE;
                if (kv + 8 > q) s[4 * i + 2] = NONE;
                if (kv + 8 > q + 1) s[4 * i + 3] = NONE;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float2 l = get2(sL + qs * 256 + q4 + i * 32);
            p[2 * i] = pack(ex2(fmaf(s[4 * i], SCALE2, -l.x)), ex2(fmaf(s[4 * i + 1], SCALE2, -l.y)));
            p[2 * i + 1] = pack(ex2(fmaf(s[4 * i + 2], SCALE2, -l.x)), ex2(fmaf(s[4 * i + 3], SCALE2, -l.y)));
        }
        int qn = qs + 1;
        u32 qnp = qp;
        if (qn == QRING) { qn = 0; qnp ^= 1; }
        if (j + 1 < nq) bar_wait(fQ + 8 * qn, qnp);
        fence_regs(s);
        // After the last step a product of what is there: not used.
        group_fence(); turned(s, kA, sQ + qn * QT); group_commit();
        sums(dv, p, sO + os * QT); group_commit();
        group_wait<2>(); fence_regs(t);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float2 e = get2(sE + os * 256 + q4 + i * 32);
            ds[2 * i] = pack(low_of(p[2 * i]) * (t[4 * i] - e.x), high_of(p[2 * i]) * (t[4 * i + 1] - e.y));
            ds[2 * i + 1] = pack(low_of(p[2 * i + 1]) * (t[4 * i + 2] - e.x), high_of(p[2 * i + 1]) * (t[4 * i + 3] - e.y));
        }
        threads_sync(1, 256);
        if (threadIdx.x == 0) {
            if (j + QRING - 1 < nq) load_q(j + QRING - 1, qs ? qs - 1 : QRING - 1);
            if (j + ORING - 1 < nq) load_o(j + ORING - 1, os ? os - 1 : ORING - 1);
        }
        __syncwarp();
        fence_regs(t);
        group_fence();
        sums(dk, ds, sQ + qs * QT); group_commit();
        group_wait<1>(); fence_regs(s); fence_regs(dv);
        if (++os == ORING) { os = 0; op ^= 1; }
        qs = qn; qp = qnp;
    }
    group_wait<0>(); fence_regs(dk); fence_regs(dv); fence_regs(s); fence_regs(t);
    threads_sync(1, 256);
#pragma unroll
    for (int i = 0; i < HD / 8; i += 2) {
        const u32 off = (i >> 3) * 16384 + c * 8192 + srow * 128 + ((((i & 7) + sch) ^ sx) << 4);
        put_fragments(sV + off, pack0(dv[4 * i], dv[4 * i + 1]), pack0(dv[4 * i + 2], dv[4 * i + 3]), pack0(dv[4 * i + 4], dv[4 * i + 5]), pack0(dv[4 * i + 6], dv[4 * i + 7]));
        put_fragments(sK + off, pack0(dk[4 * i] * SCALE, dk[4 * i + 1] * SCALE), pack0(dk[4 * i + 2] * SCALE, dk[4 * i + 3] * SCALE),
                      pack0(dk[4 * i + 4] * SCALE, dk[4 * i + 5] * SCALE), pack0(dk[4 * i + 6] * SCALE, dk[4 * i + 7] * SCALE));
    }
    fence_async();
    threads_sync(2 + c, 128);
    if (tid == 0) {
        const int r = nb * 128 + c * 64;
        if (r < keys)
            for (int i = 0; i < BLOCKS; i++) { store_box(a.m + 5, vA + i * 16384, i * 64, r, h, b); store_box(a.m + 4, kA + i * 16384, i * 64, r, h, b); }
        store_commit();
        store_wait();
    }
}
#endif

#if PART == 3
// dq: a block has 128 queries, 64 a warp group; scores and cotangents are made again, so nothing is added by atomics.
#define KRING 4
#define VRING 3
#define KT (64 * HD * 2)
#define QT (128 * HD * 2)
__device__ __forceinline__ void scores(f32 (&s)[32], u32 (&q)[HD / 4], u32 y) {
    const u32 dy = along(y);
#pragma unroll
    for (int k = 0; k < HD / 16; k++) products_rows(s, q[4 * k], q[4 * k + 1], q[4 * k + 2], q[4 * k + 3], tile_at(dy + (k >> 2) * (8192 >> 4) + (k & 3) * 2), k != 0);
}
__device__ __forceinline__ void slopes(f32 (&s)[32], u32 x, u32 y) {
    const u32 dx = along(x), dy = along(y);
#pragma unroll
    for (int k = 0; k < HD / 16; k++) products_score(s, tile_at(dx + (k >> 2) * (16384 >> 4) + (k & 3) * 2), tile_at(dy + (k >> 2) * (8192 >> 4) + (k & 3) * 2), k != 0);
}
__device__ __forceinline__ void sums(f32 (&o)[HD / 2], u32 (&p)[16], u32 y) {
    const u32 dy = across(y, 8192);
#pragma unroll
    for (int k = 0; k < 4; k++) products_value(o, p[k * 4], p[k * 4 + 1], p[k * 4 + 2], p[k * 4 + 3], tile_at(dy + k * 128), 1);
}
extern "C" __global__ void __launch_bounds__(384, 1) attention_queries(const __grid_constant__ Args a) {
    extern __shared__ u8 memory[];
    const u32 base = (shared_at(memory) + 1023u) & ~1023u;
    const u32 sQ = base, sO = sQ + QT, sK = sO + QT, sV = sK + KRING * KT, bQ = sV + VRING * KT;
    const u32 fK = bQ + 8, eK = fK + 8 * KRING, fV = eK + 8 * KRING, eV = fV + 8 * VRING;
    const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);
    const int rows = (int)a.s[2], high = (rows + 127) / 128, head = blockIdx.x / high, part = blockIdx.x - head * high, b = head / HEADS, h = head - b * HEADS;
    const int qrow = (CAUSAL ? high - 1 - part : part) * 128, nb = CAUSAL ? (qrow + 128) / 64 : ((int)a.s[3] + 63) / 64;
    if (threadIdx.x == 0) {
        bar_init(bQ, 1);
        for (int s = 0; s < KRING; s++) { bar_init(fK + 8 * s, 1); bar_init(eK + 8 * s, 2); }
        for (int s = 0; s < VRING; s++) { bar_init(fV + 8 * s, 1); bar_init(eV + 8 * s, 2); }
        bars_ready();
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            bar_expect(bQ, 2 * QT);
            load_rows(sQ, a.m, bQ, qrow, 16384, h, b);
            load_rows(sO, a.m + 3, bQ, qrow, 16384, h, b);
            int ks = 0, vs = 0;
            u32 kp = 1, vp = 1;
            for (int i = 0; i < nb; i++) {
                // The masked blocks come first.
                const int r = (nb - 1 - i) * 64;
                bar_wait(eK + 8 * ks, kp);
                bar_expect(fK + 8 * ks, KT);
                load_rows(sK + ks * KT, a.m + 1, fK + 8 * ks, r, 8192, h, b);
                bar_wait(eV + 8 * vs, vp);
                bar_expect(fV + 8 * vs, KT);
                load_rows(sV + vs * KT, a.m + 2, fV + 8 * vs, r, 8192, h, b);
                if (++ks == KRING) { ks = 0; kp ^= 1; }
                if (++vs == VRING) { vs = 0; vp ^= 1; }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const int c = group - 1, tid = threadIdx.x & 127, warp = tid >> 5, lane = tid & 31;
        const int row0 = c * 64 + warp * 16 + (lane >> 2);
        f32 dq[HD / 2], s[32], t[32];
        u32 p[16], ds[16];
#pragma unroll
        for (int i = 0; i < HD / 2; i++) dq[i] = 0.f;
        const f32 *lse2 = LSE + (i64)head * ROWS + qrow, *delta = DELTA + (i64)head * ROWS + qrow;
        const f32 l0 = lse2[row0], l1 = lse2[row0 + 8], e0 = delta[row0], e1 = delta[row0 + 8];
        const u32 qA = sQ + c * 8192, oA = sO + c * 8192;
        const int srow = warp * 16 + ((lane >> 3) & 1) * 8 + (lane & 7), sch = (lane >> 4) & 1, sx = srow & 7;
        fence_regs(dq);
        bar_wait(bQ, 0);
        u32 qf[HD / 4];
#pragma unroll
        for (int k = 0; k < HD / 16; k++) get_fragments(qA + (k >> 2) * 16384 + srow * 128 + ((((k & 3) * 2 + sch) ^ sx) << 4), qf[4 * k], qf[4 * k + 1], qf[4 * k + 2], qf[4 * k + 3]);
        bar_wait(fK, 0);
        group_fence(); scores(s, qf, sK); group_commit();
        group_wait<0>(); fence_regs(s);
        int ks = 0, vs = 0;
        u32 kp = 0, vp = 0;
        for (int i = 0; i < nb; i++) {
            bar_wait(fV + 8 * vs, vp);
            fence_regs(t);
            group_fence(); slopes(t, oA, sV + vs * KT); group_commit();
            if (CAUSAL && i < 2) {
                const int k0 = 128 - (i + 1) * 64 + 2 * (lane & 3);
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const int k = k0 + 8 * j;
                    if (k > row0) s[4 * j] = NONE;
                    if (k + 1 > row0) s[4 * j + 1] = NONE;
                    if (k > row0 + 8) s[4 * j + 2] = NONE;
                    if (k + 1 > row0 + 8) s[4 * j + 3] = NONE;
                }
            }
#pragma unroll
            for (int j = 0; j < 8; j++) {
                p[2 * j] = pack(ex2(fmaf(s[4 * j], SCALE2, -l0)), ex2(fmaf(s[4 * j + 1], SCALE2, -l0)));
                p[2 * j + 1] = pack(ex2(fmaf(s[4 * j + 2], SCALE2, -l1)), ex2(fmaf(s[4 * j + 3], SCALE2, -l1)));
            }
            int kn = ks + 1;
            u32 knp = kp;
            if (kn == KRING) { kn = 0; knp ^= 1; }
            if (i + 1 < nb) bar_wait(fK + 8 * kn, knp);
            fence_regs(s);
            group_fence(); scores(s, qf, sK + kn * KT); group_commit();
            group_wait<1>(); fence_regs(t); fence_regs(dq);
            if (tid == 0) { bar_arrive(eV + 8 * vs); if (i > 0) bar_arrive(eK + 8 * (ks ? ks - 1 : KRING - 1)); }
#pragma unroll
            for (int j = 0; j < 8; j++) {
                ds[2 * j] = pack(low_of(p[2 * j]) * (t[4 * j] - e0), high_of(p[2 * j]) * (t[4 * j + 1] - e0));
                ds[2 * j + 1] = pack(low_of(p[2 * j + 1]) * (t[4 * j + 2] - e1), high_of(p[2 * j + 1]) * (t[4 * j + 3] - e1));
            }
            group_fence(); sums(dq, ds, sK + ks * KT); group_commit();
            group_wait<1>(); fence_regs(s);
            ks = kn; kp = knp;
            if (++vs == VRING) { vs = 0; vp ^= 1; }
        }
        group_wait<0>(); fence_regs(dq); fence_regs(s);
#pragma unroll
        for (int i = 0; i < HD / 8; i += 2)
            put_fragments(qA + (i >> 3) * 16384 + srow * 128 + ((((i & 7) + sch) ^ sx) << 4), pack0(dq[4 * i] * SCALE, dq[4 * i + 1] * SCALE), pack0(dq[4 * i + 2] * SCALE, dq[4 * i + 3] * SCALE),
                          pack0(dq[4 * i + 4] * SCALE, dq[4 * i + 5] * SCALE), pack0(dq[4 * i + 6] * SCALE, dq[4 * i + 7] * SCALE));
        fence_async();
        threads_sync(1 + c, 128);
        if (tid == 0) {
            if (qrow + c * 64 < rows)
                for (int i = 0; i < BLOCKS; i++) store_box(a.m + 4, qA + i * 16384, i * 64, qrow + c * 64, h, b);
            store_commit();
            store_wait();
        }
    }
}
#endif

"""examples/python/matmul.py in CUDA; arrays are CuPy's."""

import cupy

MATMUL = r"""
extern "C" __global__ void matmul(unsigned m, unsigned n, unsigned k, const float* a, const float* b, float* c) {
    __shared__ float a_tile[16][16], b_tile[16][16];
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float total = 0;
    for (unsigned first = 0; first < k; first += 16) {
        a_tile[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0;
        b_tile[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0;
        __syncthreads();
        for (unsigned t = 0; t < 16; t++)
            total += a_tile[y][t] * b_tile[t][x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = total;
}
"""
matmul = cupy.RawKernel(MATMUL, "matmul")


def run(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    grid = (-(-n // 16), -(-m // 16))
    matmul(grid, (16, 16), (cupy.uint32(m), cupy.uint32(n), cupy.uint32(k), a, b, c))

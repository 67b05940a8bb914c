"""examples/python/byte_histogram.py in CUDA; arrays are CuPy's."""

import cupy

HISTOGRAM = r"""
extern "C" __global__ void histogram(const unsigned char* data, unsigned n, unsigned* counts) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[data[i]], 1);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}
"""
histogram = cupy.RawKernel(HISTOGRAM, "histogram")


def run(data, counts):
    blocks = min(-(-data.size // 4096), 1024)
    histogram((blocks,), (256,), (data, cupy.uint32(data.size), counts))

gpu.module @kernels {
  gpu.func @k(%x: memref<?xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %m = memref.alloca() : memref<4xf32>
    "affine.yield"() : () -> ()
    gpu.return
  }
}

// x = k * x
gpu.module @kernels {
  gpu.func @scale(%x: memref<?xf32>, %k: f32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %b = gpu.block_id x
    %d = gpu.block_dim x
    %t = gpu.thread_id x
    %first = arith.muli %b, %d : index
    %i = arith.addi %first, %t : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    %in = arith.cmpi ult, %i, %n : index
    scf.if %in {
      %v = memref.load %x[%i] : memref<?xf32>
      %s = arith.mulf %v, %k : f32
      memref.store %s, %x[%i] : memref<?xf32>
    }
    gpu.return
  }
}

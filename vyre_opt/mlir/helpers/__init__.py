"""Helper functions of a gpu.module: what ops of ours mean where MLIR has no op for them, or leaves results open."""

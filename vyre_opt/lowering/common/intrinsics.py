"""The LLVM intrinsics that lowering may call.

An unknown `llvm.` name passes LLVM's verifier and becomes a call of an undefined function, and
some known ones abort the process in a back end that cannot select them.  So every call is
checked against this list.
"""

from __future__ import annotations

import re

__all__ = ["UnknownIntrinsic", "check"]

_ANY_TARGET = """
abs smin smax umin umax uadd.sat sadd.sat usub.sat ssub.sat fshl fshr ctpop ctlz cttz bitreverse
fabs copysign fma sqrt floor ceil trunc roundeven minnum maxnum minimumnum maximumnum
fptosi.sat fptoui.sat assume
""".split()

_HOST = """
masked.load masked.store masked.gather masked.scatter vector.reduce.or vector.reduce.and vector.reduce.add
vector.reduce.mul vector.reduce.xor vector.reduce.smin vector.reduce.smax vector.reduce.umin vector.reduce.umax
memcpy memset prefetch x86.avx512.mask.scalef.ps.512
x86.ssse3.pshuf.b.128 x86.avx2.pshuf.b x86.avx512.pshuf.b.512 x86.avx512.permvar.qi.512
aarch64.neon.tbl1 aarch64.neon.tbl2 aarch64.neon.tbl3 aarch64.neon.tbl4
""".split()

_NVPTX = """
nvvm.read.ptx.sreg.tid.x nvvm.read.ptx.sreg.tid.y nvvm.read.ptx.sreg.tid.z
nvvm.read.ptx.sreg.ctaid.x nvvm.read.ptx.sreg.ctaid.y nvvm.read.ptx.sreg.ctaid.z
nvvm.read.ptx.sreg.nctaid.x nvvm.read.ptx.sreg.nctaid.y nvvm.read.ptx.sreg.nctaid.z
nvvm.read.ptx.sreg.laneid
nvvm.barrier.cta.sync.all nvvm.barrier.cta.red.popc.all nvvm.barrier.cluster.arrive
nvvm.barrier.cluster.arrive.relaxed nvvm.barrier.cluster.wait nvvm.mapa.shared.cluster
nvvm.bar.warp.sync nvvm.membar.gl nvvm.membar.cta
nvvm.shfl.sync.idx.i32 nvvm.shfl.sync.up.i32 nvvm.shfl.sync.down.i32 nvvm.shfl.sync.bfly.i32
nvvm.activemask nvvm.vote.ballot.sync nvvm.redux.sync.add nvvm.redux.sync.umin nvvm.redux.sync.umax nvvm.redux.sync.min
nvvm.redux.sync.max nvvm.redux.sync.and nvvm.redux.sync.or nvvm.redux.sync.xor
nvvm.mma.m16n8k16.row.col.bf16 nvvm.mma.m16n8k16.row.col.f32.f32 nvvm.mma.m16n8k8.row.col.f32.f32
nvvm.mma.m16n8k8.row.col.tf32 nvvm.mma.m16n8k32.row.col.s8 nvvm.mma.m8n8k16.row.col.s8
nvvm.ldmatrix.sync.aligned.m8n8.x2.b16 nvvm.ldmatrix.sync.aligned.m8n8.x4.b16
nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16 nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16
nvvm.cp.async.ca.shared.global.4 nvvm.cp.async.ca.shared.global.8 nvvm.cp.async.cg.shared.global.16
nvvm.cp.async.ca.shared.global.4.s nvvm.cp.async.ca.shared.global.8.s nvvm.cp.async.cg.shared.global.16.s
nvvm.cp.async.commit.group nvvm.cp.async.wait.group
nvvm.ex2.approx.ftz.f nvvm.rcp.approx.ftz.f nvvm.rsqrt.approx.f nvvm.sqrt.approx.f nvvm.div.full
nvvm.f2bf16.rn nvvm.ff2bf16x2.rn nvvm.prmt nvvm.exit minimum maximum
""".split()

_ALLOWED = {*_ANY_TARGET, *_HOST, *_NVPTX}
_SUFFIX = re.compile(r"(\.(v\d+)?(i\d+|f\d+|p\d+))+$")


class UnknownIntrinsic(Exception):
    """A bug of the lowering: it called an LLVM intrinsic that is not on the list."""


def check(name: str) -> None:
    """Raises UnknownIntrinsic unless `name` (`llvm.fma.v32f32`) is on the list, its type suffix aside."""
    stem = name.removeprefix("llvm.")
    if stem not in _ALLOWED and _SUFFIX.sub("", stem) not in _ALLOWED:
        raise UnknownIntrinsic(name)

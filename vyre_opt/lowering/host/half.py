"""Conversions of f16 for machines without an instruction for them.

LLVM calls two functions of a compiler's run-time library there, which no JIT finds; a
module for such a machine brings its own, in integer arithmetic.
"""

from __future__ import annotations

from ..common.llvm_text import ModuleText

__all__ = ["define_half_conversions"]

_WIDEN = """define float @__extendhfsf2(half %h) nounwind {
  %short = bitcast half %h to i16
  %bits = zext i16 %short to i32
  %signed = and i32 %bits, 32768
  %sign = shl i32 %signed, 16
  %rest = and i32 %bits, 32767
  %moved = shl i32 %rest, 13
  %rebiased = add i32 %moved, 939524096
  %infinite = or i32 %moved, 2139095040
  %large = icmp uge i32 %rest, 31744
  %finite = select i1 %large, i32 %infinite, i32 %rebiased
  %number = uitofp i32 %rest to float
  %scaled = fmul float %number, 0x3E70000000000000
  %subnormal = bitcast float %scaled to i32
  %small = icmp ult i32 %rest, 1024
  %magnitude = select i1 %small, i32 %subnormal, i32 %finite
  %all = or i32 %magnitude, %sign
  %result = bitcast i32 %all to float
  ret float %result
}"""

# Adding 0.5, whose last place is 2^-24, rounds a float to the subnormals of f16.
_NARROW = """define half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %rest = and i32 %bits, 2147483647
  %rebiased = sub i32 %rest, 939524096
  %cut = lshr i32 %rebiased, 13
  %odd = and i32 %cut, 1
  %bias = add i32 %odd, 4095
  %up = add i32 %rebiased, %bias
  %normal = lshr i32 %up, 13
  %positive = bitcast i32 %rest to float
  %sum = fadd float %positive, 5.000000e-01
  %sum.bits = bitcast float %sum to i32
  %subnormal = sub i32 %sum.bits, 1056964608
  %small = icmp ult i32 %rest, 947912704
  %finite = select i1 %small, i32 %subnormal, i32 %normal
  %large = icmp uge i32 %rest, 1199570944
  %bounded = select i1 %large, i32 31744, i32 %finite
  %nan = icmp ugt i32 %rest, 2139095040
  %magnitude = select i1 %nan, i32 32256, i32 %bounded
  %all = or i32 %magnitude, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}"""


def define_half_conversions(module: ModuleText) -> None:
    module.define("__extendhfsf2", _WIDEN)
    module.define("__truncsfhf2", _NARROW)

"""Objects for tests of the linker, made by LLVM for this machine and for others."""

from __future__ import annotations

from vyre_opt.lowering.common.llvm_worker import on_llvm

X86_64, AARCH64 = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"

EVERYTHING = """
@bytes = internal global [64 x i8] zeroinitializer, align 16
@counter = internal global i32 7
@far_variable = external global i64
@table = internal constant [2 x ptr] [ptr @inner, ptr @counter]
@numbers = internal constant [4 x double] [double 1.0, double 2.0, double 3.5, double 0.1]

declare i64 @far_function(i64)

define internal i64 @inner(i64 %n) noinline {
  %slot = getelementptr double, ptr @numbers, i64 %n
  %number = load double, ptr %slot
  %scaled = fmul double %number, 4.25
  %whole = fptosi double %scaled to i64
  ret i64 %whole
}

define i64 @count(i64 %n) {
  %old = load volatile i32, ptr @counter
  %new = add i32 %old, 1
  store volatile i32 %new, ptr @counter
  %wide = zext i32 %new to i64
  ret i64 %wide
}

define i64 @sizes(i64 %n) {
  %a = load volatile i8, ptr @bytes
  %b = load volatile i16, ptr getelementptr (i8, ptr @bytes, i64 2)
  %c = load volatile i64, ptr getelementptr (i8, ptr @bytes, i64 8)
  %d = load volatile <2 x i64>, ptr getelementptr (i8, ptr @bytes, i64 16), align 16
  %d.0 = extractelement <2 x i64> %d, i32 1
  %a.64 = zext i8 %a to i64
  %b.64 = zext i16 %b to i64
  %1 = add i64 %a.64, %b.64
  %2 = add i64 %1, %c
  %3 = add i64 %2, %d.0
  ret i64 %3
}

define i64 @all(i64 %n) {
  %entry = getelementptr ptr, ptr @table, i64 0
  %function = load volatile ptr, ptr %entry
  %own = call i64 %function(i64 %n)
  %direct = call i64 @inner(i64 %n)
  %far = load i64, ptr @far_variable
  %called = call i64 @far_function(i64 %own)
  %1 = add i64 %far, %called
  %2 = add i64 %1, %direct
  ret i64 %2
}

define i64 @jump(i64 %n) {
  %result = tail call i64 @far_function(i64 %n)
  ret i64 %result
}
"""


@on_llvm
def compiled(text: str, triple: str, level: int = 1) -> bytes:
    """An object of LLVM IR, of the kind of code that the cpu target makes."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(opt=level, reloc="pic", codemodel="small", jit=True)
    module = llvm.parse_assembly(text)
    module.verify()
    made: bytes = machine.emit_object(module)
    return made

"""The launcher as LLVM IR (see launcher.py), and the functions that it calls."""

from __future__ import annotations

__all__ = ["DRIVER", "PYTHON", "SYMBOL", "launcher_ir"]

SYMBOL = "vyre_launch"

PYTHON = ("PyLong_AsUnsignedLongLong", "PyLong_FromLong", "PyLong_AsVoidPtr")
DRIVER = (
    "cuCtxGetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuLaunchKernel",
    "cuMemsetD8Async",
    "cuMemcpyDtoDAsync_v2",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphLaunch",
    "cuStreamIsCapturing",
)


def launcher_ir(triple: str, layout: str) -> str:
    """The text for a machine."""
    text = f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n{_TEXT}'
    for name in (*PYTHON, *DRIVER):
        # a variable, as far as LLVM knows: the linker puts the function there, whatever its type
        text = text.replace(f"${name}(", f"@{name}(") + f"@{name} = external global i8\n"
    return text


_TEXT = """
define ptr @vyre_launch(ptr %self, ptr %args, i64 %count) {
entry:
  %context.now = alloca ptr
  %capture = alloca i32
  %block = call ptr $PyLong_AsVoidPtr(ptr %self)
  %flag.at = load ptr, ptr %block
  %context.p = getelementptr i64, ptr %block, i64 1
  %context = load ptr, ptr %context.p
  %calls.p = getelementptr i64, ptr %block, i64 2
  %calls.at = load ptr, ptr %calls.p
  %pointers.p = getelementptr i64, ptr %block, i64 3
  %pointers = load i64, ptr %pointers.p
  %steps.p = getelementptr i64, ptr %block, i64 4
  %steps = load i64, ptr %steps.p
  %counted.p = getelementptr i64, ptr %block, i64 5
  %counted = load i64, ptr %counted.p
  %changed.p = getelementptr i64, ptr %block, i64 6
  %changed.before = load i64, ptr %changed.p
  %addresses.p = getelementptr i64, ptr %block, i64 7
  %addresses = load i64, ptr %addresses.p
  %slots = getelementptr i64, ptr %block, i64 8
  %flag = load volatile i32, ptr %flag.at
  %is.pending = icmp ne i32 %flag, 0
  br i1 %is.pending, label %pending, label %arguments

pending:
  br label %return
unaligned:
  br label %return

arguments:
  %stream.object = load ptr, ptr %args
  %stream = call i64 $PyLong_AsUnsignedLongLong(ptr %stream.object)
  br label %pointer.head
pointer.head:
  %k = phi i64 [ 0, %arguments ], [ %k.next, %pointer ]
  %bits = phi i64 [ 0, %arguments ], [ %bits.next, %pointer ]
  %changed = phi i64 [ %changed.before, %arguments ], [ %changed.next, %pointer ]
  %more = icmp ult i64 %k, %pointers
  br i1 %more, label %pointer, label %aligned
pointer:
  %k.next = add i64 %k, 1
  %object.p = getelementptr ptr, ptr %args, i64 %k.next
  %object = load ptr, ptr %object.p
  %value = call i64 $PyLong_AsUnsignedLongLong(ptr %object)
  %slot = getelementptr i64, ptr %slots, i64 %k
  %old = load i64, ptr %slot
  store i64 %value, ptr %slot
  %is.new = icmp ne i64 %old, %value
  %new.bit = zext i1 %is.new to i64
  %new.mask = shl i64 %new.bit, %k
  %changed.next = or i64 %changed, %new.mask
  %is.address = icmp ult i64 %k, %addresses
  %address.bits = select i1 %is.address, i64 %value, i64 0
  %bits.next = or i64 %bits, %address.bits
  br label %pointer.head

aligned:
  store i64 %changed, ptr %changed.p
  %low = and i64 %bits, 15
  %is.unaligned = icmp ne i64 %low, 0
  br i1 %is.unaligned, label %unaligned, label %number
number:
  %calls = load i64, ptr %calls.at
  %call = add i64 %calls, %counted
  store i64 %call, ptr %calls.at
  %call.slot = getelementptr i64, ptr %slots, i64 %pointers
  store i64 %call, ptr %call.slot
  %first = getelementptr i64, ptr %call.slot, i64 1
  call i32 $cuCtxGetCurrent(ptr %context.now)
  %current = load ptr, ptr %context.now
  %is.current = icmp eq ptr %current, %context
  br i1 %is.current, label %step.head, label %push
push:
  %pushed = call i32 $cuCtxPushCurrent_v2(ptr %context)
  br label %step.head

step.head:
  %s = phi i64 [ 0, %number ], [ 0, %push ], [ %s.next, %step.end ]
  %left = icmp ult i64 %s, %steps
  br i1 %left, label %step, label %steps.end
step:
  %s.next = add i64 %s, 1
  %offset = mul i64 %s, 9
  %w = getelementptr i64, ptr %first, i64 %offset
  %function = load ptr, ptr %w
  %w1 = getelementptr i64, ptr %w, i64 1
  %w2 = getelementptr i64, ptr %w, i64 2
  %w3 = getelementptr i64, ptr %w, i64 3
  %is.memory = icmp eq ptr %function, null
  br i1 %is.memory, label %memory, label %kernel
memory:
  %which = load i64, ptr %w1
  %clear.p = getelementptr i64, ptr %slots, i64 %which
  %target = load i64, ptr %clear.p
  %size = load i64, ptr %w2
  %source.number = load i64, ptr %w3
  %is.clear = icmp eq i64 %source.number, 0
  br i1 %is.clear, label %clear, label %copy
copy:
  %source.index = sub i64 %source.number, 1
  %source.p = getelementptr i64, ptr %slots, i64 %source.index
  %source = load i64, ptr %source.p
  %copied = call i32 $cuMemcpyDtoDAsync_v2(i64 %target, i64 %source, i64 %size, i64 %stream)
  br label %step.end
clear:
  %cleared = call i32 $cuMemsetD8Async(i64 %target, i8 0, i64 %size, i64 %stream)
  br label %step.end
kernel:
  %w4 = getelementptr i64, ptr %w, i64 4
  %w5 = getelementptr i64, ptr %w, i64 5
  %w6 = getelementptr i64, ptr %w, i64 6
  %w7 = getelementptr i64, ptr %w, i64 7
  %w8 = getelementptr i64, ptr %w, i64 8
  %gx = load i32, ptr %w1
  %gy = load i32, ptr %w2
  %gz = load i32, ptr %w3
  %bx = load i32, ptr %w4
  %by = load i32, ptr %w5
  %bz = load i32, ptr %w6
  %shared = load i32, ptr %w7
  %params = load ptr, ptr %w8
  %is.graph = icmp eq i32 %gx, 0
  br i1 %is.graph, label %nodes, label %launch
nodes:
  %node.count = load i64, ptr %w2
  %table = load ptr, ptr %w3
  %is.default = icmp eq i64 %stream, 0
  br i1 %is.default, label %node.head, label %ask
ask:
  %asked = call i32 $cuStreamIsCapturing(i64 %stream, ptr %capture)
  %capture.now = load i32, ptr %capture
  %is.capturing = icmp ne i32 %capture.now, 0
  br i1 %is.capturing, label %single.head, label %node.head

single.head:
  %m = phi i64 [ 0, %ask ], [ %m.next, %single ]
  %has.single = icmp ult i64 %m, %node.count
  br i1 %has.single, label %single, label %step.end
single:
  %m.next = add i64 %m, 1
  %m.offset = mul i64 %m, 3
  %m.word = add i64 %m.offset, 1
  %m.params.p = getelementptr i64, ptr %table, i64 %m.word
  %m.params = load ptr, ptr %m.params.p
  %m.function = load ptr, ptr %m.params
  %m.1 = getelementptr i32, ptr %m.params, i64 2
  %m.2 = getelementptr i32, ptr %m.params, i64 3
  %m.3 = getelementptr i32, ptr %m.params, i64 4
  %m.4 = getelementptr i32, ptr %m.params, i64 5
  %m.5 = getelementptr i32, ptr %m.params, i64 6
  %m.6 = getelementptr i32, ptr %m.params, i64 7
  %m.7 = getelementptr i32, ptr %m.params, i64 8
  %m.8 = getelementptr i64, ptr %m.params, i64 5
  %m.gx = load i32, ptr %m.1
  %m.gy = load i32, ptr %m.2
  %m.gz = load i32, ptr %m.3
  %m.bx = load i32, ptr %m.4
  %m.by = load i32, ptr %m.5
  %m.bz = load i32, ptr %m.6
  %m.shared = load i32, ptr %m.7
  %m.arguments = load ptr, ptr %m.8
  %single.launched = call i32 $cuLaunchKernel(ptr %m.function, i32 %m.gx, i32 %m.gy, i32 %m.gz, i32 %m.bx, i32 %m.by, i32 %m.bz, i32 %m.shared, i64 %stream, ptr %m.arguments, ptr null)
  %is.single = icmp eq i32 %single.launched, 0
  br i1 %is.single, label %single.head, label %step.end

node.head:
  %n = phi i64 [ 0, %nodes ], [ 0, %ask ], [ %n.next, %node.end ]
  %has.node = icmp ult i64 %n, %node.count
  br i1 %has.node, label %node, label %graph
node:
  %n.next = add i64 %n, 1
  %node.offset = mul i64 %n, 3
  %node.p = getelementptr i64, ptr %table, i64 %node.offset
  %node.params.p = getelementptr i64, ptr %node.p, i64 1
  %node.mask.p = getelementptr i64, ptr %node.p, i64 2
  %node.mask = load i64, ptr %node.mask.p
  %node.new = and i64 %node.mask, %changed
  %is.same = icmp eq i64 %node.new, 0
  br i1 %is.same, label %node.end, label %node.update
node.update:
  %node.handle = load ptr, ptr %node.p
  %node.params = load ptr, ptr %node.params.p
  %updated = call i32 $cuGraphExecKernelNodeSetParams(ptr %function, ptr %node.handle, ptr %node.params)
  %is.updated = icmp eq i32 %updated, 0
  br i1 %is.updated, label %node.end, label %step.end
node.end:
  br label %node.head
graph:
  store i64 0, ptr %changed.p
  %replayed = call i32 $cuGraphLaunch(ptr %function, i64 %stream)
  br label %step.end
launch:
  %launched = call i32 $cuLaunchKernel(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz, i32 %shared, i64 %stream, ptr %params, ptr null)
  br label %step.end
step.end:
  %error = phi i32 [ %cleared, %clear ], [ %copied, %copy ], [ %updated, %node.update ], [ %replayed, %graph ],
    [ 0, %single.head ], [ %single.launched, %single ], [ %launched, %launch ]
  %is.fine = icmp eq i32 %error, 0
  br i1 %is.fine, label %step.head, label %steps.end

steps.end:
  %last = phi i32 [ 0, %step.head ], [ %error, %step.end ]
  br i1 %is.current, label %result, label %pop
pop:
  %popped = call i32 $cuCtxPopCurrent_v2(ptr %context.now)
  br label %result
result:
  %failed = icmp ne i32 %last, 0
  %code = add i32 %last, 16
  %code.or.0 = select i1 %failed, i32 %code, i32 0
  %wide = zext i32 %code.or.0 to i64
  br label %return

return:
  %status = phi i64 [ 1, %pending ], [ 2, %unaligned ], [ %wide, %result ]
  %number.object = call ptr $PyLong_FromLong(i64 %status)
  ret ptr %number.object
}
"""

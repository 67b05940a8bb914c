/* The calls of object code in packs, version 1 ("abi" of the pack).

   A part objects/KEY is an object file with one function.  `vyre-pack extract FILE objects/KEY -o kernel.o` writes it, and it is linked
   as any other.  programs/KEY says, under "code" and the level, in which order it takes its buffers. */

#ifndef VYRE_KERNEL_H
#define VYRE_KERNEL_H

#include <stdint.h>

/* Runs the workgroups `first` to `last` - 1, in the calling thread.  Several threads may run parts of one grid at a time.

   args      64-bit words: the address of each buffer, then the number of elements of each, then the grid along x, y and z, a 0,
             and the bits of each number among the arguments, in the order of their names
   scratch   "scratch_bytes" of memory of the thread's own, aligned to 64 bytes; where the program runs its "whole_grid" in one call, so many
             for each workgroup
   status    VYRE_STATUS_WORDS words, zeros before the call */
void vyre_run(const uint64_t *args, int64_t first, int64_t last, void *scratch, uint64_t *status);

#define VYRE_STATUS_WORDS 10

/* Words of `status` after the call.  FAULT is 0 where nothing was wrong; else OP is the number of the op at fault in faults/KEY,
   GROUP and LANE are the workgroup and the invocation in it, and INDEX is the index that was out of bounds. */
enum { VYRE_FAULT, VYRE_OP, VYRE_GROUP, VYRE_LANE, VYRE_INDEX };

/* Set by the caller: the address of a word that becomes nonzero when the run is to be given up, and of a function int32_t () that lets other
   threads run, for programs that wait for other workgroups. */
enum { VYRE_STOP = 7, VYRE_YIELD = 9 };

#endif

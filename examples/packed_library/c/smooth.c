/* Calls the kernel `smooth` of a pack from C, without Python:

   vyre-pack extract kernels.vyrepack objects/KEY -o kernel.o && cc smooth.c kernel.o -o smooth && ./smooth */

#include <stdio.h>
#include <string.h>

#include "vyre_kernel.h"

#define N 8

int main(void) {
    float x[N] = {0, 0, 0, 8, 0, 0, 0, 0}, y[N], weight = 0.5f;
    uint32_t weight_bits;
    uint64_t status[VYRE_STATUS_WORDS] = {0};
    memcpy(&weight_bits, &weight, sizeof weight);
    /* buffers x and y, their lengths, a grid of one workgroup, 0, weight */
    uint64_t args[] = {(uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)y, N, N, 1, 1, 1, 0, weight_bits};

    vyre_run(args, 0, 1, NULL, status);
    if (status[VYRE_FAULT]) {
        fprintf(stderr, "fault in workgroup %lu\n", (unsigned long)status[VYRE_GROUP]);
        return 1;
    }
    for (int i = 0; i < N; i++)
        printf("%g ", y[i]);
    printf("\n");

    args[3] = 4; /* y is shorter than x: a fault, and nothing is written beyond */
    vyre_run(args, 0, 1, NULL, status);
    printf("fault: %d, at index %lu\n", status[VYRE_FAULT] != 0, (unsigned long)status[VYRE_INDEX]);
    return 0;
}

/* Counts the instructions of each executed block; compiled for the host and attached to the emulator.
 *
 * The emulator calls it with the address and size of a block about to run. Lengths are decoded here, because an
 * emulator's hook per instruction is slow and leaves out those skipped inside an IT block.
 */
#include <stdint.h>

struct counter {
    uint64_t        base;      /* address of code[0] */
    uint64_t        halfwords; /* length of code, executed and called */
    const uint16_t *code;
    uint64_t       *executed;  /* per halfword, how often the instruction that starts there ran */
    uint64_t       *called;    /* per halfword of the owner, instructions run in the functions called from there */
    uint64_t        owner_begin, owner_end; /* the function whose callees are charged to it, in halfwords */
    uint64_t        owner_last;             /* its instruction that ran last */
    uint64_t        total;     /* instructions so far */
    uint64_t        limit;     /* the emulator is stopped when total passes it */
    int (*stop)(void *emulator);
    uint16_t        wide_mask, wide_from; /* 4 bytes where the first halfword & mask is this or more, otherwise 2 */
    uint64_t       *taken;     /* per halfword, how often the instruction that starts there was followed by no neighbour */
    uint64_t        last, next; /* the instruction that ran last, and its neighbour; both 0 before the first block */
    uint64_t        lines;      /* read from flash */
    uint64_t        cached[8];  /* the lines read last, each in the place that its address gives */
};

enum { LINE_BYTES = 16 };

void lbnn_count_block(void *emulator, uint64_t address, uint32_t size, struct counter *counter);
void lbnn_count_read(void *emulator, int type, uint64_t address, int size, int64_t value, struct counter *counter);

static uint64_t length(const struct counter *counter, uint16_t first)
{
    return (first & counter->wide_mask) >= counter->wide_from ? 2 : 1;
}

void lbnn_count_block(void *emulator, uint64_t address, uint32_t size, struct counter *counter)
{
    const uint64_t begin = (address - counter->base) / 2;
    const uint64_t end = begin + size / 2;
    if (address < counter->base || end > counter->halfwords)
        return;
    uint64_t instructions = 0, last = begin;
    for (uint64_t i = begin; i < end; i += length(counter, counter->code[i])) {
        counter->executed[i] += 1;
        instructions += 1;
        last = i;
    }
    if (counter->owner_begin <= begin && begin < counter->owner_end)
        counter->owner_last = last;
    else
        counter->called[counter->owner_last] += instructions;
    if (counter->next != 0 && counter->next != begin)
        counter->taken[counter->last] += 1;
    counter->last = last;
    counter->next = end;
    counter->total += instructions;
    if (counter->total > counter->limit)
        counter->stop(emulator);
}

/* Attached to the constants: reads that leave the lines which a small cache would hold. */
void lbnn_count_read(void *emulator, int type, uint64_t address, int size, int64_t value, struct counter *counter)
{
    const uint64_t line = address / LINE_BYTES;
    uint64_t *const place = &counter->cached[line % 8];
    (void)emulator, (void)type, (void)size, (void)value;
    counter->lines += *place != line;
    *place = line;
}

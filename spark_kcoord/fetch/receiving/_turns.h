/* Which threads are to have the interpreter next.

   A thread that receives or decodes does so without the interpreter's lock and needs it in between, for moments. Beside
   a thread that computes it waits for it up to the switch interval of 5 ms each time, and what it would fetch meanwhile
   comes late. So it says here that it wants the lock; a thread that makes records looks at that and lets go of it for a
   moment. Everything here may be called without the lock.

   Where a system has no such calls, nobody ever wants it. */

#ifndef KCOORD_TURNS_H
#define KCOORD_TURNS_H

#ifdef _WIN32

static void kcoord_forget_turns(void) {}
static void kcoord_turn_begins(void) {}
static void kcoord_turn_ends(void) {}
static void kcoord_works_without(void) {}
static void kcoord_wants_lock(void) {}
static void kcoord_has_lock(void) {}
static int kcoord_lock_is_wanted(void) { return 0; }
static void kcoord_give_way(void) {}

#else

#include <time.h>

#include "_clock.h"

/* A thread gives way some 1.5 ms at most: a step and what the system adds to it, so many times. No step begins later,
   where the system adds more because it is busy, or lets the timers of a thread be late. */
#define KCOORD_STEP_NS 20000
#define KCOORD_STEPS 20
#define KCOORD_WAY_NS 1500000

static int kcoord_wanting = 0;
/* Whoever wants the lock did not take it when it could: it waits for something else. */
static int kcoord_in_vain = 0;
static __thread int kcoord_in_turn = 0;

static void kcoord_add(int count) { __atomic_add_fetch(&kcoord_wanting, count, __ATOMIC_SEQ_CST); }
static int kcoord_wants(void) { return __atomic_load_n(&kcoord_wanting, __ATOMIC_RELAXED) > 0; }
static void kcoord_set_in_vain(int is_so) { __atomic_store_n(&kcoord_in_vain, is_so, __ATOMIC_RELAXED); }

/* For a forked process, which has one thread, and that is in no turn. */
static void kcoord_forget_turns(void) {
    kcoord_wanting = 0;
    kcoord_in_turn = 0;
}

/* This thread wants the lock until its turn ends, whenever it does not work without it. */
static void kcoord_turn_begins(void) {
    if (!kcoord_in_turn) kcoord_add(1);
    kcoord_in_turn = 1;
    kcoord_set_in_vain(0);
}

static void kcoord_turn_ends(void) {
    if (kcoord_in_turn) kcoord_add(-1);
    kcoord_in_turn = 0;
}

/* These three in that order, around what this thread does without the lock; the last one when it has it again. */
static void kcoord_works_without(void) {
    if (kcoord_in_turn) kcoord_add(-1);
}

static void kcoord_wants_lock(void) {
    kcoord_add(1);
    kcoord_set_in_vain(0);
}

static void kcoord_has_lock(void) {
    if (!kcoord_in_turn) kcoord_add(-1);
}

static int kcoord_lock_is_wanted(void) {
    return kcoord_wants() && !__atomic_load_n(&kcoord_in_vain, __ATOMIC_RELAXED);
}

/* To be called without the lock. */
static void kcoord_give_way(void) {
    const struct timespec step = {0, KCOORD_STEP_NS};
    const int64_t until = kcoord_now_ns() + KCOORD_WAY_NS;
    int steps;
    for (steps = 0; steps < KCOORD_STEPS && kcoord_now_ns() < until; steps++) {
        if (!kcoord_wants()) return;
        nanosleep(&step, NULL);
    }
    kcoord_set_in_vain(1);
}

#endif
#endif

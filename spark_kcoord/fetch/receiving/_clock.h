/* The monotonic clock, which needs no Python. */

#ifndef KCOORD_CLOCK_H
#define KCOORD_CLOCK_H

#ifndef _WIN32

#include <stdint.h>
#include <time.h>

static int64_t kcoord_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
#endif

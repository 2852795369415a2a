/* Receiving from a socket into memory for as long as bytes keep coming, without Python.

   Where a system has no such calls, `KCOORD_RECEIVES` is 0 and nothing is received. */

#ifndef KCOORD_RECEIVE_H
#define KCOORD_RECEIVE_H

#include <stdint.h>

/* What ended a call before all had come; other numbers are errors of the system. */
#define KCOORD_END_OF_STREAM -1

#ifdef _WIN32

#define KCOORD_RECEIVES 0

static int64_t kcoord_receive(int sock, uint8_t *to, int64_t size, int64_t many, int *failure) {
    (void)sock, (void)to, (void)size, (void)many;
    *failure = 0;
    return 0;
}

#else

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "_clock.h"

#define KCOORD_RECEIVES 1

/* The time for this socket is a wait of all others that the thread looks after, also while its bytes keep coming. */
#define KCOORD_PATIENCE_MS 1
#define KCOORD_LONGEST_NS 10000000
/* The system itself goes on within one call for as long as a sender keeps up with it. */
#define KCOORD_STEP_BYTES (1 << 20)

static void kcoord_readable_from(int sock, int64_t count) {
    int least = (int)count;
    /* Where that fails the socket is readable earlier. */
    (void)setsockopt(sock, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

/* Returns how many of `size` bytes came. `failure` says what has ended the stream, 0 where it goes on.

   A positive `many` has the socket readable only once so many bytes, or the rest, have come; with the last of them it
   is readable by any again. */
static int64_t kcoord_receive(int sock, uint8_t *to, int64_t size, int64_t many, int *failure) {
    const int64_t until = kcoord_now_ns() + KCOORD_LONGEST_NS;
    int64_t received = 0;
    *failure = 0;
    while (received < size) {
        struct pollfd readable = {sock, POLLIN, 0};
        int64_t rest = size - received;
        size_t step = (size_t)(rest < KCOORD_STEP_BYTES ? rest : KCOORD_STEP_BYTES);
        ssize_t count = recv(sock, to + received, step, MSG_DONTWAIT);
        int is_over;
        if (count == 0) {
            *failure = KCOORD_END_OF_STREAM;
            return received;
        }
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            *failure = errno;
            return received;
        }
        if (count > 0) received += count;
        is_over = kcoord_now_ns() >= until;
        if (count > 0 && (received == size || !is_over)) continue;
        rest = size - received;
        if (many > 0) kcoord_readable_from(sock, many < rest ? many : rest);
        if (is_over || poll(&readable, 1, KCOORD_PATIENCE_MS) <= 0) return received;
    }
    if (many > 0) kcoord_readable_from(sock, 1);
    return received;
}

#endif
#endif

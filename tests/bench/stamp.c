/* stamp FILE LABEL: append "LABEL NANOSECONDS" (CLOCK_MONOTONIC) to FILE as the very first thing that the process does. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct timespec now;
    char line[128];
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (argc < 3)
        return 64;
    int length = snprintf(line, sizeof line, "%s %lld%09ld\n", argv[2], (long long)now.tv_sec, now.tv_nsec);
    int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0 || write(file, line, length) != length)
        return 73;
    return 0;
}

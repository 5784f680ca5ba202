/* Records what a process does to the files below a folder, in order, and makes syncs fail.
 *
 * Preloaded (LD_PRELOAD) into a server. RECORD_ROOT is the folder, RECORD_TO the file with the
 * records, RECORD_CONTROL a file of two 32-bit numbers that can be changed at any time: how many
 * syncs, and how many plain writes, of a million fail. recording.py reads the records.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { CREATE = 1, MKDIR, RENAME, UNLINK, WRITE, WRITTEN, WRITE_FAILED, SYNC, SYNCED, SYNC_FAILED, TRUNCATE };

struct record {
    uint64_t time;
    uint64_t node;
    uint64_t id;
    int64_t offset;
    uint32_t kind;
    uint32_t first;
    uint32_t second;
    uint32_t unused;
};

#define REAL(result, name, ...)                                                   \
    static result (*real_##name)(__VA_ARGS__);                                    \
    if (!real_##name) real_##name = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define FDS 65536
static char ours[FDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int output = -1;
static const char *root;
static size_t root_length;
static volatile uint32_t *control;
static uint64_t last_id;
static unsigned seed = 1;
static ssize_t (*raw_writev)(int, const struct iovec *, int);

__attribute__((constructor)) static void begin(void) {
    root = getenv("RECORD_ROOT");
    const char *to = getenv("RECORD_TO");
    const char *file = getenv("RECORD_CONTROL");
    raw_writev = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    if (!root || !to || !file) return;
    root_length = strlen(root);
    int (*open_file)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    output = open_file(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int handle = open_file(file, O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, handle, 0);
    control = mapped == MAP_FAILED ? NULL : mapped;
    if (getenv("RECORD_SEED")) seed = (unsigned)atoi(getenv("RECORD_SEED"));
}

static int inside(const char *path) {
    return output >= 0 && path && strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == 0);
}

static int is_ours(int handle) { return handle >= 0 && handle < FDS && ours[handle]; }

static uint64_t node_of(int handle) {
    struct stat found;
    return fstat(handle, &found) ? 0 : found.st_ino;
}

static int fails(int which) {
    if (!control || !control[which]) return 0;
    return (uint32_t)(rand_r(&seed) % 1000000) < control[which];
}

/* With the lock held. */
static void put(uint32_t kind, uint64_t node, uint64_t id, int64_t offset, const struct iovec *parts,
                int count, uint32_t first, uint32_t second) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct record head = {(uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                          node, id, offset, kind, first, second, 0};
    struct iovec all[1100];
    all[0] = (struct iovec){&head, sizeof head};
    memcpy(all + 1, parts, sizeof(struct iovec) * (size_t)count);
    size_t total = sizeof head + first + second;
    if (raw_writev(output, all, count + 1) != (ssize_t)total) abort();
}

static void put_name(uint32_t kind, uint64_t node, const char *one, const char *other) {
    struct iovec parts[2] = {{(void *)one, strlen(one)}, {(void *)other, strlen(other)}};
    put(kind, node, 0, 0, parts, 2, (uint32_t)strlen(one), (uint32_t)strlen(other));
}

static int opened(const char *path, int flags, mode_t mode) {
    REAL(int, open, const char *, int, ...);
    if (!inside(path)) return real_open(path, flags, mode);
    pthread_mutex_lock(&lock);
    int existed = access(path, F_OK) == 0;
    int handle = real_open(path, flags, mode);
    if (handle >= 0 && handle < FDS) {
        ours[handle] = 1;
        if (!existed) put_name(CREATE, node_of(handle), path, "");
        else if (flags & O_TRUNC) put(TRUNCATE, node_of(handle), 0, 0, NULL, 0, 0, 0);
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

#define OPEN(name)                                                                \
    int name(const char *path, int flags, ...) {                                  \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;   \
        va_end(more);                                                             \
        return opened(path, flags, mode);                                         \
    }
OPEN(open)
OPEN(open64)

int close(int handle) {
    REAL(int, close, int);
    if (handle >= 0 && handle < FDS) ours[handle] = 0;
    return real_close(handle);
}

static size_t size_of(const struct iovec *parts, int count) {
    size_t total = 0;
    for (int n = 0; n < count; n++) total += parts[n].iov_len;
    return total;
}

ssize_t pwritev2(int handle, const struct iovec *parts, int count, off_t offset, int flags) {
    REAL(ssize_t, pwritev2, int, const struct iovec *, int, off_t, int);
    if (!is_ours(handle)) return real_pwritev2(handle, parts, count, offset, flags);
    size_t total = size_of(parts, count);
    pthread_mutex_lock(&lock);
    if (!(flags & RWF_DSYNC)) {
        ssize_t done = -1;
        errno = ENOSPC;
        if (!fails(1)) done = real_pwritev2(handle, parts, count, offset, flags);
        if (done >= 0 && (size_t)done != total) abort();
        if (done >= 0) put(WRITE, node_of(handle), 0, offset, parts, count, (uint32_t)total, 0);
        pthread_mutex_unlock(&lock);
        return done;
    }
    uint64_t id = ++last_id, node = node_of(handle);
    int failing = fails(0);
    put(WRITE, node, id, offset, parts, count, (uint32_t)total, 0);
    pthread_mutex_unlock(&lock);
    ssize_t done = real_pwritev2(handle, parts, count, offset, failing ? flags & ~RWF_DSYNC : flags);
    if (done >= 0 && (size_t)done != total) abort();
    pthread_mutex_lock(&lock);
    put(failing || done < 0 ? WRITE_FAILED : WRITTEN, node, id, 0, NULL, 0, 0, 0);
    pthread_mutex_unlock(&lock);
    if (failing) errno = EIO;
    return failing ? -1 : done;
}

ssize_t pwritev64v2(int handle, const struct iovec *parts, int count, off_t offset, int flags) {
    return pwritev2(handle, parts, count, offset, flags);
}

ssize_t pwritev(int handle, const struct iovec *parts, int count, off_t offset) {
    REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
    if (is_ours(handle)) return pwritev2(handle, parts, count, offset, 0);
    return real_pwritev(handle, parts, count, offset);
}

ssize_t pwritev64(int handle, const struct iovec *parts, int count, off_t offset) {
    return pwritev(handle, parts, count, offset);
}

ssize_t pwrite(int handle, const void *data, size_t length, off_t offset) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    struct iovec part = {(void *)data, length};
    if (is_ours(handle)) return pwritev2(handle, &part, 1, offset, 0);
    return real_pwrite(handle, data, length, offset);
}

ssize_t pwrite64(int handle, const void *data, size_t length, off_t offset) {
    return pwrite(handle, data, length, offset);
}

ssize_t write(int handle, const void *data, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    if (!is_ours(handle)) return real_write(handle, data, length);
    struct iovec part = {(void *)data, length};
    pthread_mutex_lock(&lock);
    off_t offset = lseek(handle, 0, SEEK_CUR);
    ssize_t done = real_write(handle, data, length);
    if (done >= 0 && (size_t)done != length) abort();
    if (done > 0) put(WRITE, node_of(handle), 0, offset, &part, 1, (uint32_t)length, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

static int synced(int handle, int (*sync_it)(int)) {
    if (!is_ours(handle)) return sync_it(handle);
    pthread_mutex_lock(&lock);
    uint64_t id = ++last_id, node = node_of(handle);
    int failing = fails(0);
    put(SYNC, node, id, 0, NULL, 0, 0, 0);
    pthread_mutex_unlock(&lock);
    int done = failing ? -1 : sync_it(handle);
    pthread_mutex_lock(&lock);
    put(done ? SYNC_FAILED : SYNCED, node, id, 0, NULL, 0, 0, 0);
    pthread_mutex_unlock(&lock);
    if (failing) errno = EIO;
    return done;
}

int fsync(int handle) {
    REAL(int, fsync, int);
    return synced(handle, real_fsync);
}

int fdatasync(int handle) {
    REAL(int, fdatasync, int);
    return synced(handle, real_fdatasync);
}

int ftruncate(int handle, off_t length) {
    REAL(int, ftruncate, int, off_t);
    if (!is_ours(handle)) return real_ftruncate(handle, length);
    pthread_mutex_lock(&lock);
    int done = real_ftruncate(handle, length);
    if (!done) put(TRUNCATE, node_of(handle), 0, length, NULL, 0, 0, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate64(int handle, off_t length) { return ftruncate(handle, length); }

int rename(const char *old, const char *new) {
    REAL(int, rename, const char *, const char *);
    if (!inside(old)) return real_rename(old, new);
    pthread_mutex_lock(&lock);
    int done = real_rename(old, new);
    if (!done) put_name(RENAME, 0, old, new);
    pthread_mutex_unlock(&lock);
    return done;
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    if (!inside(path)) return real_mkdir(path, mode);
    struct stat found;
    pthread_mutex_lock(&lock);
    int done = real_mkdir(path, mode);
    if (!done) put_name(MKDIR, stat(path, &found) ? 0 : found.st_ino, path, "");
    pthread_mutex_unlock(&lock);
    return done;
}

#define REMOVE(name)                                                              \
    int name(const char *path) {                                                  \
        REAL(int, name, const char *);                                            \
        if (!inside(path)) return real_##name(path);                              \
        pthread_mutex_lock(&lock);                                                \
        int done = real_##name(path);                                             \
        if (!done) put_name(UNLINK, 0, path, "");                                 \
        pthread_mutex_unlock(&lock);                                              \
        return done;                                                              \
    }
REMOVE(unlink)
REMOVE(rmdir)

/* Replays a corpus against a fuzz target without libFuzzer: each file in a process of its own, so
 * that one crash hides no other. usage: replay FOLDER */
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    size_t capacity = 1 << 16, size = 0;
    uint8_t *data = malloc(capacity);
    while (data) {
        size_t got = fread(data + size, 1, capacity - size, file);
        size += got;
        if (!got)
            break;
        if (size == capacity)
            data = realloc(data, capacity *= 2);
    }
    fclose(file);
    /* Exactly as long as the input, so that a sanitizer sees every byte read beyond it. */
    uint8_t *exact = data ? realloc(data, size ? size : 1) : NULL;
    int result = exact ? LLVMFuzzerTestOneInput(exact, size) : 1;
    free(exact);
    return result;
}

static int replay_apart(const char *path)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        exit(replay(path) != 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
        printf("FAILED %s (wait status %d)\n", path, status);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (replay_apart(path))
            failed++;
        else
            passed++;
    }
    closedir(folder);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

/* The optimal string alignment distance: Levenshtein's, with swaps of neighbours as one change. */
#include "base/suggest.h"

#include <string.h>

enum { LONGEST = 48 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned distance_of(const char *a, size_t m, const char *b, size_t n)
{
    unsigned rows[3][LONGEST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    for (unsigned k = 0; k <= n; k++)
        above[k] = k;
    for (unsigned i = 1; i <= m; i++) {
        row[0] = i;
        for (size_t k = 1; k <= n; k++) {
            row[k] = least(least(above[k], row[k - 1]) + 1, above[k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = least(row[k], before[k - 2] + 1);
        }
        unsigned *free = before;
        before = above;
        above = row;
        row = free;
    }
    return above[n];
}

void mg_suggestion_consider(struct mg_suggestion *s, const char *name)
{
    size_t m = strlen(s->text), n = strlen(name);
    if (m < 2 || m > LONGEST || n > LONGEST)
        return;
    unsigned distance = strncmp(name, s->text, m) == 0 ? n != m : distance_of(s->text, m, name, n);
    if (distance > (m < 6 ? 1 : m / 3) || (s->best && s->distance <= distance))
        return;
    s->best = name;
    s->distance = distance;
}

/* Places of frees and loads by policy S8: a stored instance is freed at the first step that starts
 * when its store has ended; a load stands at the last place from which it ends before its first
 * reader starts. Times are those of a run in which computation never waits; the evaluator then says
 * what the list costs exactly. Source: plan/MODEL.md S4, S8. */
#include <string.h>

#include "search/searcher.h"

struct copy {
    uint32_t root;
    uint32_t earliest; /* position of the first word after the last touch before the gap */
    uint32_t reader;   /* position of the first word that reads the loaded instance */
    uint32_t free_at, load_at;
    bool frees, loads, now;
};

enum { TIMES = 2 };
static const uint32_t variant_of[TIMES] = {0, 2}; /* the first part, and those of the smaller extent */

/* Positions are "before word j" of the list without frees and loads. Roots that are freed or loaded in it have
 * numbers from 1; what concerns no such root is passed over. */
struct placer {
    const struct mg_problem *p;
    const struct mg_scheme *scheme;
    mg_word *word;
    uint32_t count;
    uint32_t *number;      /* by dense number of a root, and for none: its number here, or 0 */
    double *time[TIMES];   /* per position: when computation gets there */
    double *stored[TIMES]; /* per number: end of its store */
    uint32_t *level;       /* per position */
    struct copy *copy;
    uint32_t copies;
    uint32_t *touched; /* per number: position behind its last touch */
    uint32_t *pending; /* per number: its copy + 1 whose reader is not met yet */
};

static uint32_t number_of(const struct placer *s, uint32_t root)
{
    return s->number[s->p->dense[root]];
}

static void read_root(struct placer *s, uint32_t root)
{
    uint32_t n = number_of(s, root);
    s->touched[n] = s->count + 1;
    if (n && s->pending[n]) {
        s->copy[s->pending[n] - 1].reader = s->count;
        s->pending[n] = 0;
    }
}

static void read_roots(struct placer *s, const uint32_t *root, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        read_root(s, root[i]);
}

static void make_roots(struct placer *s, const uint32_t *root, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        s->touched[number_of(s, root[i])] = s->count + 1;
}

static inline bool concerns_step(const uint32_t *number, const struct mg_scheme_step *step)
{
    return (number[step->reads[0]] | number[step->reads[1]] | number[step->def]) != 0 || step->more;
}

static void touch_step(struct placer *s, uint32_t op)
{
    const struct mg_rows *reads = &s->p->reads, *defs = &s->scheme->defs;
    read_roots(s, &reads->item[reads->start[op]], reads->start[op + 1] - reads->start[op]);
    make_roots(s, &defs->item[defs->start[op]], defs->start[op + 1] - defs->start[op]);
}

static void touch_word(struct placer *s, mg_word word)
{
    uint32_t x = mg_word_index(word);
    const struct mg_scheme_region *region = mg_word_kind(word) >= MG_WORD_BEGIN ? &s->scheme->regions[x] : NULL;
    switch (mg_word_kind(word)) {
    case MG_WORD_COMPUTE:
        if (concerns_step(s->number, &s->scheme->steps[x]))
            touch_step(s, x);
        break;
    case MG_WORD_BEGIN:
    case MG_WORD_END:
        read_roots(s, region->inputs, region->input_count);
        make_roots(s, region->outputs, region->output_count);
        break;
    default:
        read_root(s, x);
        break;
    }
}

static void note_copy(struct placer *s, mg_word word)
{
    uint32_t root = mg_word_index(word), n = number_of(s, root);
    bool loads = mg_word_kind(word) == MG_WORD_LOAD, joins = loads && s->pending[n] != 0;
    if (!joins)
        s->copy[s->copies++] = (struct copy){.root = root, .earliest = s->touched[n], .reader = MG_NONE};
    struct copy *copy = joins ? &s->copy[s->pending[n] - 1] : &s->copy[s->copies - 1];
    copy->frees |= !loads;
    copy->loads |= loads;
    copy->now |= (word & MG_WORD_NOW) != 0;
    s->pending[n] = (uint32_t)(copy - s->copy) + 1;
}

/* Splits the list into words without frees and loads, and the copies that they describe. */
static void strip(struct placer *s, const struct mg_list *list)
{
    uint32_t level = MG_NONE;
    for (uint32_t i = 0; i < list->count; i++) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        uint32_t x = mg_word_index(word);
        if (kind == MG_WORD_FREE || kind == MG_WORD_LOAD) {
            note_copy(s, word);
            continue;
        }
        if (kind == MG_WORD_BEGIN) {
            s->level[s->count] = level;
            level = x;
        } else if (kind == MG_WORD_END) {
            s->level[s->count] = x;
            level = s->scheme->regions[x].parent;
        } else {
            s->level[s->count] = level;
        }
        touch_word(s, word);
        s->word[s->count++] = word;
    }
    s->level[s->count] = MG_NONE;
}

static void compute_times(struct placer *s, uint32_t t)
{
    uint32_t variant = variant_of[t];
    const double *seconds = s->scheme->seconds[variant], *rest = s->scheme->rest[variant];
    double c = 0, d = 0, nested = 0, others = 0, *time = s->time[t];
    for (uint32_t j = 0; j < s->count; j++) {
        uint32_t x = mg_word_index(s->word[j]);
        time[j] = c;
        switch (mg_word_kind(s->word[j])) {
        case MG_WORD_COMPUTE:
            c += seconds[x];
            nested += rest[x];
            others += s->scheme->others[x];
            break;
        case MG_WORD_STORE:
            d = (d > c ? d : c) + s->scheme->store_s[variant][x];
            s->stored[t][number_of(s, x)] = d;
            break;
        case MG_WORD_BEGIN:
            nested = 0;
            if (s->scheme->regions[x].parent == MG_NONE)
                others = 0;
            break;
        default:
            c += s->scheme->regions[x].parent == MG_NONE ? others : nested;
            nested = 0;
            break;
        }
    }
    time[s->count] = c;
}

/* First position in [lo, hi] whose time is at least t; hi if none. */
static uint32_t first_not_before(const double *time, uint32_t lo, uint32_t hi, double t)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (time[mid] >= t)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Smaller parts keep another time: what stands in a body suits both, the later free and the earlier load. */
static bool concerns(const struct placer *s, const struct copy *copy, uint32_t t)
{
    return t == 0 || s->scheme->home[copy->root] != MG_NONE;
}

static void place_frees(struct placer *s, uint32_t t)
{
    for (uint32_t i = 0; i < s->copies; i++) {
        struct copy *copy = &s->copy[i];
        if (!concerns(s, copy, t))
            continue;
        uint32_t latest = copy->reader == MG_NONE ? s->count : copy->reader, home = s->scheme->home[copy->root];
        uint32_t at = first_not_before(s->time[t], copy->earliest, latest, s->stored[t][number_of(s, copy->root)]);
        while (at < latest && s->level[at] != home)
            at++;
        copy->free_at = copy->now ? copy->earliest : at > copy->free_at ? at : copy->free_at;
    }
}

/* Readers from last to first: the one H stream works backwards from each deadline. */
static void place_loads(struct placer *s, const uint32_t *by_reader, uint32_t t)
{
    const double *time = s->time[t], *load_s = s->scheme->load_s[variant_of[t]];
    double next = time[s->count];
    for (uint32_t n = s->copies; n-- > 0;) {
        struct copy *copy = &s->copy[by_reader[n]];
        if (!copy->loads || copy->reader == MG_NONE || !concerns(s, copy, t))
            continue;
        uint32_t home = s->scheme->home[copy->root], low = copy->frees ? copy->free_at : copy->earliest;
        double end = time[copy->reader] < next ? time[copy->reader] : next;
        double start = end - load_s[copy->root];
        uint32_t at = first_not_before(time, low, copy->reader, start);
        if (at > low && time[at] > start)
            at--;
        while (at > low && s->level[at] != home)
            at--;
        if (copy->now)
            copy->load_at = copy->reader;
        else if (t == 0 || at < copy->load_at)
            copy->load_at = at;
        next = start;
    }
}

/* Copies by their reader, ascending: counting sort. */
static uint32_t *sort_by_reader(struct placer *s, struct mg_arena *scratch)
{
    uint32_t *fill = MG_NEW_ARRAY(scratch, uint32_t, s->count + 3);
    uint32_t *sorted = MG_NEW_ARRAY(scratch, uint32_t, s->copies);
    for (uint32_t i = 0; i < s->copies; i++)
        fill[(s->copy[i].reader == MG_NONE ? s->count : s->copy[i].reader) + 1]++;
    for (uint32_t j = 0; j < s->count + 1; j++)
        fill[j + 1] += fill[j];
    for (uint32_t i = 0; i < s->copies; i++)
        sorted[fill[s->copy[i].reader == MG_NONE ? s->count : s->copy[i].reader]++] = i;
    return sorted;
}

static mg_word flag_of(const struct copy *copy)
{
    return copy->now ? MG_WORD_NOW : 0;
}

static void merge(struct placer *s, const uint32_t *by_reader, struct mg_list *list, struct mg_arena *scratch)
{
    uint32_t *head = MG_NEW_ARRAY(scratch, uint32_t, 2 * (s->count + 1)); /* chains of copies + 1 */
    uint32_t *next = MG_NEW_ARRAY(scratch, uint32_t, 2 * s->copies);
    for (uint32_t n = s->copies; n-- > 0;) {
        uint32_t i = by_reader[n];
        if (s->copy[i].frees) {
            next[2 * i] = head[2 * s->copy[i].free_at];
            head[2 * s->copy[i].free_at] = i + 1;
        }
        if (s->copy[i].loads) {
            next[2 * i + 1] = head[2 * s->copy[i].load_at + 1];
            head[2 * s->copy[i].load_at + 1] = i + 1;
        }
    }
    list->count = 0;
    for (uint32_t j = 0; j <= s->count; j++) {
        for (uint32_t i = head[2 * j]; i; i = next[2 * (i - 1)])
            list->word[list->count++] = MG_WORD(MG_WORD_FREE, s->copy[i - 1].root) | flag_of(&s->copy[i - 1]);
        for (uint32_t i = head[2 * j + 1]; i; i = next[2 * (i - 1) + 1])
            list->word[list->count++] = MG_WORD(MG_WORD_LOAD, s->copy[i - 1].root) | flag_of(&s->copy[i - 1]);
        if (j < s->count)
            list->word[list->count++] = s->word[j];
    }
}

/* Loads that nobody reads, because the root is recomputed first: they go, with their frees and stores. */
static void drop_dead_loads(const struct placer *s, uint32_t numbers, struct mg_list *list, struct mg_arena *scratch)
{
    const struct mg_rows *reads = &s->p->reads, *defs = &s->p->defs;
    uint32_t *load = MG_NEW_ARRAY(scratch, uint32_t, numbers + 1), left = 0; /* step + 1 of a load not read yet */
    uint8_t *dead = MG_NEW_ARRAY(scratch, uint8_t, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        enum mg_word_kind kind = mg_word_kind(list->word[i]);
        if (kind == MG_WORD_LOAD) {
            load[number_of(s, x)] = i + 1;
            dead[i] = 1;
            left++;
        } else if (kind == MG_WORD_COMPUTE && concerns_step(s->number, &s->scheme->steps[x])) {
            for (uint32_t k = reads->start[x]; k < reads->start[x + 1]; k++) {
                uint32_t step = load[number_of(s, reads->item[k])];
                if (step && dead[step - 1]) {
                    dead[step - 1] = 0;
                    left--;
                }
            }
            for (uint32_t k = defs->start[x]; k < defs->start[x + 1]; k++)
                load[number_of(s, defs->item[k])] = 0;
        }
    }
    if (left == 0)
        return;
    struct mg_list clean = mg_list_new(scratch, list->count);
    mg_edit_undo(s->p, list, dead, scratch, &clean);
    mg_list_copy(list, &clean);
}

static bool has_small_parts(const struct mg_scheme *scheme)
{
    for (uint32_t r = 0; r < scheme->region_count; r++)
        if (scheme->regions[r].parent == MG_NONE && scheme->regions[r].repeat[2])
            return true;
    return false;
}

static void place(struct placer *s, uint32_t numbers, uint32_t copies, struct mg_list *list, struct mg_arena *scratch)
{
    uint32_t times = has_small_parts(s->scheme) ? TIMES : 1;
    s->word = MG_NEW_ARRAY(scratch, mg_word, list->count);
    s->level = MG_NEW_ARRAY(scratch, uint32_t, list->count + 1);
    s->copy = MG_NEW_ARRAY(scratch, struct copy, copies);
    s->touched = MG_NEW_ARRAY(scratch, uint32_t, numbers + 1);
    s->pending = MG_NEW_ARRAY(scratch, uint32_t, numbers + 1);
    strip(s, list);
    uint32_t *by_reader = sort_by_reader(s, scratch);
    for (uint32_t t = 0; t < times; t++) {
        s->time[t] = MG_NEW_ARRAY(scratch, double, list->count + 1);
        s->stored[t] = MG_NEW_ARRAY(scratch, double, numbers + 1);
        compute_times(s, t);
        place_frees(s, t);
    }
    for (uint32_t t = 0; t < times; t++)
        place_loads(s, by_reader, t);
    merge(s, by_reader, list, scratch);
}

/* Numbers the roots that are freed or loaded; *copies is how often that happens. */
static uint32_t number_roots(struct placer *s, const struct mg_list *list, uint32_t *copies)
{
    uint32_t numbers = 0;
    *copies = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        enum mg_word_kind kind = mg_word_kind(list->word[i]);
        uint32_t root = mg_word_index(list->word[i]);
        if (kind != MG_WORD_FREE && kind != MG_WORD_LOAD)
            continue;
        ++*copies;
        uint32_t *number = &s->number[s->p->dense[root]];
        *number = *number ? *number : ++numbers;
    }
    return numbers;
}

void mg_edit_place_copies(const struct mg_evaluator *e, const struct mg_scheme *scheme, struct mg_list *list,
                          struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    struct placer s = {.p = e->p, .scheme = scheme};
    s.number = MG_NEW_ARRAY(scratch, uint32_t, e->p->dense_count + 1);
    uint32_t copies, numbers = number_roots(&s, list, &copies);
    if (copies > 0) {
        drop_dead_loads(&s, numbers, list, scratch);
        place(&s, numbers, copies, list, scratch);
    }
    mg_arena_rewind(scratch, mark);
}

/* Why an agent has nothing to do: said once, and again when the reason is another one. */
#include <stdio.h>
#include <string.h>

#include "server/agent.h"

static const double AGAIN_S = 60; /* between two looks at what the daemon knows */

void mg_agent_say_idle(struct mg_agent *a, const char *reason)
{
    if (strcmp(a->idle, reason) == 0)
        return;
    snprintf(a->idle, sizeof a->idle, "%s", reason);
    fprintf(stderr, "magisd agent: nothing to do: %s\n", reason);
}

/* The names of the profiles that say that they are for this device, as "a, b"; "" where there are none. */
static void profiles_for(const json_t *devices, const char *device, char *names, size_t room)
{
    size_t i, k, used = 0;
    json_t *entry, *name;
    *names = '\0';
    json_array_foreach((json_t *)(uintptr_t)devices, i, entry)
    {
        json_array_foreach(json_object_get(json_object_get(entry, "profile"), "gpu_names"), k, name)
        {
            const char *profile = json_string_value(json_object_get(entry, "name")), *gpu = json_string_value(name);
            if (!profile || !gpu || strcmp(gpu, device) != 0 || used + strlen(profile) + 3 > room)
                continue;
            used += (size_t)snprintf(names + used, room - used, "%s%s", used ? ", " : "", profile);
            break;
        }
    }
}

static const json_t *class_of(const struct mg_agent *a, const json_t *classes)
{
    size_t i;
    json_t *entry;
    json_array_foreach((json_t *)(uintptr_t)classes, i, entry)
    {
        const char *id = json_string_value(json_object_get(entry, "id"));
        if (id && strcmp(id, a->class_id) == 0)
            return entry;
    }
    return NULL;
}

static long long count_of(const json_t *class, const char *key)
{
    return (long long)json_integer_value(json_object_get(class, key));
}

static void find_reason(const struct mg_agent *a, const json_t *known, char *reason, size_t room)
{
    char profiles[160];
    json_t *key = json_loads(a->class_key, 0, NULL);
    const char *device = json_string_value(json_object_get(key, "device"));
    const json_t *class = class_of(a, json_object_get(known, "classes"));
    long long wanted = count_of(class, "wanted");
    device = device ? device : a->device;
    profiles_for(json_object_get(known, "devices"), device, profiles, sizeof profiles);
    if (!*profiles)
        snprintf(reason, room,
                 "no device profile of the daemon is for \"%.100s\", so no run asks for it. Make one: magisd measure "
                 "--calibrate --device %.20s -o FILE; then PUT FILE to /devices/ and the name in it",
                 device, a->device);
    else if (wanted == 0)
        snprintf(reason, room, "no run for %s has asked for timings yet", profiles);
    else if (count_of(class, "settled") >= wanted)
        snprintf(reason, room, "what runs for %s want is measured (%lld operators), or was found not to be measurable",
                 profiles, wanted);
    else
        snprintf(
            reason, room,
            "of the %lld operators that runs for %s want, other agents are at those that are left, or they wait until "
            "another agent, or this one on another day, confirms them",
            wanted, profiles);
    json_decref(key);
}

void mg_agent_explain_idle(struct mg_agent *a)
{
    char reason[sizeof a->idle];
    if (*a->idle && mg_measure_clock() - a->explained_at < AGAIN_S)
        return;
    a->explained_at = mg_measure_clock();
    json_t *known = mg_agent_look(a, "/devices");
    if (!known)
        return;
    find_reason(a, known, reason, sizeof reason);
    json_decref(known);
    mg_agent_say_idle(a, reason);
}

/* What NVIDIA's management library knows of the card behind a device: its driver, its link to the host, the part of it
 * that we may use, its clock. Where the library, or one of its functions, is not there, that stays unknown. */
#include <stdio.h>
#include <string.h>

#include "measure/cuda_priv.h"

/* Slower than it could be, for heat or for want of power. The limit of power by software is not among them: under load
 * a card is at it as a rule, and plans meet it there too. */
static const unsigned long long slowed =
    NVML_SLOWED_BY_HARDWARE | NVML_SLOWED_BY_HEAT | NVML_SLOWED_BY_OVERHEATING | NVML_SLOWED_BY_POWER_BRAKE;

/* As the library spells it. */
static void print_uuid(const unsigned char id[16], const char *prefix, char *to, size_t room)
{
    size_t at = (size_t)snprintf(to, room, "%s-", prefix);
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(to + at, room - at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

/* Of a card in parts (MIG) the driver's newer function tells the part's own. */
static bool ask_uuid(const struct cuda *cuda, unsigned char id[16])
{
    const struct cuda_driver *driver = &cuda->calls.driver;
    return (driver->part_uuid ? driver->part_uuid : driver->device_uuid)(id, cuda->device) == 0;
}

/* By the name of a whole card, else by that of a part. */
static void find_card(struct cuda *cuda, const unsigned char id[16], struct mg_engine_properties *p)
{
    const struct nvml *nvml = &cuda->calls.nvml;
    char name[sizeof p->uuid];
    if (nvml->by_uuid(p->uuid, &cuda->part) == 0) {
        cuda->card = cuda->part;
        return;
    }
    print_uuid(id, "MIG", name, sizeof name);
    bool is_part =
        nvml->card_of && nvml->by_uuid(name, &cuda->part) == 0 && nvml->card_of(cuda->part, &cuda->card) == 0;
    if (is_part)
        memcpy(p->uuid, name, sizeof name);
    else
        cuda->part = cuda->card = NULL;
}

static void describe_driver(const struct cuda *cuda, struct mg_engine_properties *p)
{
    char version[80] = "";
    if (cuda->calls.nvml.driver_version && cuda->calls.nvml.driver_version(version, sizeof version) == 0)
        snprintf(p->driver, sizeof p->driver, "%.31s", version);
}

/* The most that card and host can do: what they do now changes as the card falls asleep and wakes. */
static void describe_link(const struct cuda *cuda, struct mg_engine_properties *p)
{
    const struct nvml *nvml = &cuda->calls.nvml;
    unsigned generation = 0, lanes = 0;
    if (nvml->link_generation && nvml->link_width && nvml->link_generation(cuda->card, &generation) == 0 &&
        nvml->link_width(cuda->card, &lanes) == 0)
        snprintf(p->link, sizeof p->link, "PCIe %u x%u", generation, lanes);
}

static void describe_part(const struct cuda *cuda, struct mg_engine_properties *p)
{
    struct nvml_part part;
    if (cuda->part != cuda->card && cuda->calls.nvml.part_size && cuda->calls.nvml.part_size(cuda->part, &part) == 0)
        snprintf(p->partition, sizeof p->partition, "MIG %uc.%ug, %llu MiB", part.compute_slices, part.slices,
                 part.memory_mib);
}

void mg_cuda_open_card(struct cuda *cuda, struct mg_engine_properties *p)
{
    const struct nvml *nvml = &cuda->calls.nvml;
    unsigned char id[16] = {0};
    bool named = ask_uuid(cuda, id);
    if (named)
        print_uuid(id, "GPU", p->uuid, sizeof p->uuid);
    if (!nvml->init || nvml->init() != 0)
        return;
    cuda->asks_nvml = true;
    describe_driver(cuda, p);
    if (named && nvml->by_uuid)
        find_card(cuda, id, p);
    if (!cuda->card)
        return;
    describe_link(cuda, p);
    describe_part(cuda, p);
}

void mg_cuda_close_card(struct cuda *cuda)
{
    if (cuda->asks_nvml && cuda->calls.nvml.shutdown)
        cuda->calls.nvml.shutdown();
}

void mg_cuda_state(struct mg_engine *engine, double *clock_mhz, bool *throttled)
{
    const struct cuda *cuda = engine->detail;
    const struct nvml *nvml = &cuda->calls.nvml;
    unsigned mhz = 0;
    unsigned long long reasons = 0;
    if (cuda->card && nvml->clock_mhz && nvml->clock_mhz(cuda->card, NVML_CLOCK_SM, &mhz) == 0)
        *clock_mhz = mhz;
    if (cuda->card && nvml->slowed_by && nvml->slowed_by(cuda->card, &reasons) == 0)
        *throttled = (reasons & slowed) != 0;
}

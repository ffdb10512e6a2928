/* Any bytes as a device profile: refused with a reason, or read; what is read is written canonically. */
#include "tests/fuzz/fuzz.h"
#include "device/device.h"

static void write_device(struct mg_writer *w, const struct mg_device *device)
{
    mg_writer_init(w);
    mg_device_write(w, device);
    require(mg_writer_finish(w), "a profile that was read can be written", NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mg_device device, again;
    struct mg_error err = {0};
    struct mg_writer first, second;
    if (mg_device_read((const char *)data, size, &device, &err) != MG_OK) {
        require(err.code != MG_OK && err.code != MG_ERR_INTERNAL && err.message[0], "a refusal has a reason", NULL);
        return 0;
    }
    write_device(&first, &device);
    require(mg_device_read(first.data, first.size, &again, &err) == MG_OK, "what was written can be read", NULL);
    write_device(&second, &again);
    require(strcmp(first.data, second.data) == 0, "the canonical form is stable", NULL);
    require(mg_device_copy_latency(&device, 1 << 20, 4 << 20) > 0, "a copy takes time", NULL);
    mg_writer_release(&first);
    mg_writer_release(&second);
    return 0;
}

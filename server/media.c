#include "server/media.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *type;
    enum mg_media media;
} media_types[] = {
    {"application/json", MG_MEDIA_JSON},
    {"application/onnx", MG_MEDIA_ONNX},
    {"application/octet-stream", MG_MEDIA_ONNX},
    {"multipart/form-data", MG_MEDIA_MULTIPART},
};

enum mg_media mg_media_of(const char *content_type)
{
    size_t length = strcspn(content_type, "; ");
    for (size_t i = 0; i < sizeof media_types / sizeof media_types[0]; i++)
        if (strlen(media_types[i].type) == length && strncasecmp(content_type, media_types[i].type, length) == 0)
            return media_types[i].media;
    return MG_MEDIA_COUNT;
}

const char *mg_media_name(enum mg_media media)
{
    static const char *const names[] = {"json", "onnx", "multipart"};
    return names[media];
}

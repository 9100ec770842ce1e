/* The table of errors; see errors.h. */
#include "api/errors.h"

#include "model/document.h"

#include <errno.h>

static const struct {
    int status;
    const char *text;
} ERRORS[API_ERROR_COUNT] = {
#define ROW(name, status, text) {status, text},
    API_ERRORS(ROW)
#undef ROW
};

int api_errors_init(struct api_errors *e)
{
    *e = (struct api_errors){0};
    for (int i = 0; i < API_ERROR_COUNT; i++) {
        e->body[i] = document_error(ERRORS[i].text);
        if (e->body[i] == NULL)
            return -ENOMEM;
    }
    return 0;
}

void api_errors_fini(struct api_errors *e)
{
    for (int i = 0; i < API_ERROR_COUNT; i++)
        blob_unref(e->body[i]);
}

int api_error_status(enum api_error error)
{
    return ERRORS[error].status;
}

enum api_error api_error_for_status(int status)
{
    if (status == 400)
        return API_ERROR_MALFORMED;
    for (int i = API_ERROR_REQUEST_TIMEOUT; i < API_ERROR_COUNT; i++)
        if (ERRORS[i].status == status)
            return (enum api_error)i;
    return API_ERROR_INTERNAL;
}

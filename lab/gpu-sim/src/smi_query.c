/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi --query-…: values by name as CSV. */
#include <string.h>

#include "smi_fields.h"

#define MOST_FIELDS 64

struct query {
    const struct field *chosen[MOST_FIELDS];
    int count;
    bool header, units;
};

static int parse(const char *names, const char *format, const struct field *fields, int known, struct query *query)
{
    char copy[2048], *rest = NULL;
    *query = (struct query){.header = true, .units = true};
    if (!format || strncmp(format, "csv", 3) != 0) {
        printf("\"--format=\" switch is missing\n");
        return EXIT_USAGE;
    }
    query->header = !strstr(format, "noheader");
    query->units = !strstr(format, "nounits");
    snprintf(copy, sizeof copy, "%s", names);
    for (char *wanted = strtok_r(copy, ", ", &rest); wanted; wanted = strtok_r(NULL, ", ", &rest)) {
        const struct field *found = NULL;
        for (int i = 0; i < known; i++)
            if (strcmp(fields[i].name, wanted) == 0 || (fields[i].alias && strcmp(fields[i].alias, wanted) == 0))
                found = &fields[i];
        if (!found || query->count == MOST_FIELDS) {
            printf("Field \"%s\" is not a valid field to query.\n\n", wanted);
            return EXIT_USAGE;
        }
        query->chosen[query->count++] = found;
    }
    return 0;
}

static void print_header(const struct query *query)
{
    for (int i = 0; query->header && i < query->count; i++) {
        const struct field *field = query->chosen[i];
        printf("%s%s", i ? ", " : "", field->name);
        if (query->units && field->unit)
            printf(" [%s]", field->unit);
    }
    if (query->header)
        printf("\n");
}

static int print_rows(const struct query *query)
{
    print_header(query);
    for (int i = 0; i < gpu_count; i++) {
        if (!gpus[i].device)
            continue;
        for (int j = 0; j < query->count; j++) {
            char text[TEXT_SIZE] = "";
            nvmlReturn_t result = query->chosen[j]->get((struct ask){&gpus[i], text});
            bool unit = query->units && query->chosen[j]->unit && result == NVML_SUCCESS;
            printf("%s%s%s%s", j ? ", " : "", result == NVML_SUCCESS ? text : missing(result), unit ? " " : "",
                   unit ? query->chosen[j]->unit : "");
        }
        printf("\n");
    }
    return report_lost(stdout);
}

int smi_query_gpu(const char *fields, const char *format)
{
    struct query query;
    int code = parse(fields, format, GPU_FIELDS, GPU_FIELD_COUNT, &query);
    return code != 0 ? code : print_rows(&query);
}

int smi_query_rows(const char *fields, const char *format)
{
    struct query query;
    int code = parse(fields, format, ROW_FIELDS, ROW_FIELD_COUNT, &query);
    return code != 0 ? code : print_rows(&query);
}

int smi_query_apps(const char *fields, const char *format)
{
    struct query query;
    int code = parse(fields, format, APP_FIELDS, APP_FIELD_COUNT, &query);
    if (code != 0)
        return code;
    print_header(&query); /* nothing computes on simulated GPUs */
    return report_lost(stdout);
}

int smi_help_query(void)
{
    for (int i = 0; i < GPU_FIELD_COUNT; i++)
        printf("\"%s\"%s%s%s\n", GPU_FIELDS[i].name, GPU_FIELDS[i].alias ? " or \"" : "",
               GPU_FIELDS[i].alias ? GPU_FIELDS[i].alias : "", GPU_FIELDS[i].alias ? "\"" : "");
    return 0;
}

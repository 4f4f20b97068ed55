/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that an administrator changes through NVML. */
#include "nvml_internal.h"

struct setting {
    int gpu, value;
};

static int set_persistence(struct state *state, void *argument)
{
    struct setting *setting = argument;
    state->gpus[setting->gpu].persistence = setting->value;
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    struct target on;
    TRY(on_gpu(device, &on));
    struct setting setting = {on.handle->gpu, mode == NVML_FEATURE_ENABLED};
    return from_errno(state_change(set_persistence, &setting));
}

static int set_power_limit(struct state *state, void *argument)
{
    struct setting *setting = argument;
    state->gpus[setting->gpu].power_limit_mw = setting->value;
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE((int)limit >= on.gpu->power_min_mw && (int)limit <= on.gpu->power_max_mw);
    struct setting setting = {on.handle->gpu, (int)limit};
    return from_errno(state_change(set_power_limit, &setting));
}

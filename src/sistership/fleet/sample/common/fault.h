#pragma once

// What the variable SAMPLE_FAULT plants, so that tests meet the troubles of real deployments; README.md lists it.
struct common_faults {
    double slow_start    = 0;  // seconds since this was read
    bool   mute          = false;
    bool   hang_up       = false;
    bool   never_healthy = false;
};

enum common_role { COMMON_ROLE_SERVER, COMMON_ROLE_WORKER };

// Reads SAMPLE_FAULT and starts the clock of `exit-after`.
// Ends the program with 2 when it names a fault that this program does not know.
common_faults common_faults_read(common_role role);

// Returns when the time of `slow-start` has passed; with `never-healthy` it does not return.
void common_faults_wait(const common_faults & faults);

// Does to a client that just connected what is planted. False: hang up. With `mute` it does not return.
bool common_faults_let_in(const common_faults & faults);
